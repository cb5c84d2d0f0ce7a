// Forms of the body of a critical section. refused.cmake compiles each. SPELLING 0 to 4 are correct
// with every compiler. With 10 and above, g++ 12 would destroy the captures twice, so these must
// not compile there.
#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include <boost/asio.hpp>

#include <functional>
#include <memory>
#include <string>

namespace asio = boost::asio;

asio::awaitable<int> use(holdfast::client& locks) {
    auto const number = std::make_shared<int>(7);
#if SPELLING == 0
    co_return co_await with_lock(
        locks.make_lock("k"), [&](holdfast::lease&) -> asio::awaitable<int> { co_return *number; });
#elif SPELLING == 1
    auto const body = [number](holdfast::lease&) -> asio::awaitable<int> { co_return *number; };
    co_return co_await with_lock(locks.make_lock("k"), body);
#elif SPELLING == 2
    auto body = [number](holdfast::lease&) -> asio::awaitable<int> { co_return *number; };
    co_return co_await with_lock(locks.make_lock("k"), std::ref(body));
#elif SPELLING == 3
    co_return co_await with_lock(
        locks.make_lock("k"),
        [n = *number](holdfast::lease&) -> asio::awaitable<int> { co_return n; });
#elif SPELLING == 4
    std::function<asio::awaitable<int>(holdfast::lease&)> const body =
        [number](holdfast::lease&) -> asio::awaitable<int> { co_return *number; };
    co_return co_await with_lock(locks.make_lock("k"), body);
#elif SPELLING == 10
    co_return co_await with_lock(
        locks.make_lock("k"),
        [number](holdfast::lease&) -> asio::awaitable<int> { co_return *number; });
#elif SPELLING == 11
    co_return co_await with_lock(
        locks.make_lock("k"), [s = std::string("text")](holdfast::lease&) -> asio::awaitable<int> {
            co_return *s.c_str();
        });
#elif SPELLING == 12
    auto body = [number](holdfast::lease&) -> asio::awaitable<int> { co_return *number; };
    co_return co_await with_lock(locks.make_lock("k"), std::move(body), asio::use_awaitable);
#endif
}
