// Acquires a lock on the given instances, does some work under it, and releases it.
//   hello 127.0.0.1:6379 127.0.0.1:6380 127.0.0.1:6381
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <iostream>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> reserve(holdfast::client& locks) {
    holdfast::lock seat = locks.make_lock("seat:12", {.ttl = 10s});
    holdfast::lease lease = co_await seat.try_acquire_for(5s);
    std::cout << "seat 12 is ours for another " << lease.remaining() / 1ms
              << " ms, and longer if we stay\n";
    auto const released = co_await lease.release();
    std::cout << (released.confirmed() ? "given back\n" : released.code().message() + '\n');
    co_await locks.shutdown();
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<holdfast::address> const instances(argv + 1, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        asio::co_spawn(context, reserve(locks), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context.run();
    } catch (std::exception const& e) {
        std::cerr << "hello: " << e.what() << '\n';
        return 1;
    }
}
