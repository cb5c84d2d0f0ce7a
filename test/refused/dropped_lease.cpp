// Leases that nobody keeps, so the section runs without its lock. dropped_lease.cmake compiles each
// with all warnings. SPELLING 0 keeps its lease; the others must give a warning.
#include <holdfast/client.hpp>

#include <boost/asio.hpp>

#include <chrono>

namespace asio = boost::asio;

asio::awaitable<void> use(holdfast::client& locks) {
    auto const lock = locks.make_lock("k");
#if SPELLING == 0
    holdfast::lease const lease = co_await lock.acquire();
#elif SPELLING == 1
    co_await lock.acquire();
#elif SPELLING == 2
    co_await lock.try_acquire();
#elif SPELLING == 3
    co_await lock.try_acquire_for(std::chrono::seconds(1), asio::use_awaitable);
#elif SPELLING == 4
    co_await lock.acquire(asio::cancel_after(std::chrono::seconds(1)));
#elif SPELLING == 10
    lock.acquire();
    co_return;
#elif SPELLING == 11
    lock.try_acquire_for(std::chrono::seconds(1));
    co_return;
#endif
}
