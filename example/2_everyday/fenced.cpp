// A protected value: it is stored with the fence of its last writer, and rejects late holders. Here
// one holder hangs past its deadline, and then writes nevertheless.
//   fenced STORE INSTANCE...    STORE: the server with the value; the locks are on the instances
//
// The same in SQL: UPDATE stock SET left = $2, fence = $1 WHERE item = $3 AND fence <= $1
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/redis/connection.hpp>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;
namespace redis = boost::redis;
using namespace std::chrono_literals;

constexpr std::string_view write_if_not_late =
    "local seen=redis.call('hget',KEYS[1],'fence') "
    "if seen and tonumber(seen)>tonumber(ARGV[1]) then return 0 end "
    "redis.call('hset',KEYS[1],'fence',ARGV[1],'left',ARGV[2]) "
    "return 1";

asio::awaitable<bool> write(redis::connection& store, std::string left, std::uint64_t fence) {
    redis::request request;
    request.push("EVAL", write_if_not_late, 1, "stock:apples", std::to_string(fence), left);
    redis::response<int> response;
    co_await store.async_exec(request, response, asio::deferred);
    auto const written = std::get<0>(response).value() == 1;
    std::cout << "fence " << fence << ": " << left
              << (written ? " written\n" : " turned away, too late\n");
    co_return written;
}

asio::awaitable<int> play(holdfast::client& locks, redis::connection& store) {
    // Without a watchdog, the lease ends as if the process of its holder had been stopped.
    auto const stock =
        locks.make_lock("apples", {.ttl = 300ms, .watchdog = false, .fencing = true});
    holdfast::lease hangs = co_await stock.acquire();
    auto in_order = co_await write(store, "10", hangs.fence());
    co_await hangs.wait_end();

    holdfast::lease next = co_await stock.acquire();
    in_order = in_order && co_await write(store, "9", next.fence());
    co_await next.release();

    // The late holder has not checked held(), and still believes in its lease.
    auto const late = co_await write(store, "11", hangs.fence());
    co_await locks.shutdown();
    store.cancel();
    co_return in_order && !late ? 0 : 1;
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: fenced STORE INSTANCE...");
        asio::io_context context;
        holdfast::address const store_address(argv[1]);
        redis::config config;
        config.addr = {store_address.host(), std::to_string(store_address.port())};
        redis::connection store(context);
        store.async_run(config, asio::detached);
        std::vector<holdfast::address> const instances(argv + 2, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        int result = 1;
        asio::co_spawn(context, play(locks, store), [&](std::exception_ptr e, int r) {
            if (e) std::rethrow_exception(e);
            result = r;
        });
        context.run();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "fenced: " << e.what() << '\n';
        return 1;
    }
}
