// Acquires one lock with a callback, with a future, and in a coroutine with as_tuple.
//   completion_tokens 127.0.0.1:6379 127.0.0.1:6380 127.0.0.1:6381
#include <holdfast/client.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <iostream>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The handlers run on the client's executor, never inside the call. The lease may be destroyed
// while its release is under way.
void with_callbacks(holdfast::lock const& seat, std::promise<void>& done) {
    seat.try_acquire_for(5s, [&](holdfast::error error, holdfast::lease lease) {
        if (error) {
            std::cout << "callback: " << error.what() << '\n';
            done.set_value();
            return;
        }
        std::cout << "callback: held\n";
        lease.release([&](holdfast::release_result released) {
            std::cout << "callback: "
                      << (released.confirmed() ? "released\n" : released.what() + '\n');
            done.set_value();
        });
    });
}

// Blocks, so the thread must not be the one that runs the context. get() throws a system_error.
void with_futures(holdfast::lock const& seat) {
    std::future<holdfast::lease> acquired = seat.try_acquire_for(5s, asio::use_future);
    holdfast::lease lease = acquired.get();
    std::cout << "future: held\n";
    std::future<holdfast::release_result> released = lease.release(asio::use_future);
    auto const result = released.get();
    std::cout << "future: " << (result.confirmed() ? "released\n" : result.what() + '\n');
}

// The error is a value, so a lock that another holder has is no exception.
asio::awaitable<void> with_tuples(holdfast::lock const& seat) {
    auto first = co_await seat.try_acquire(asio::as_tuple);
    auto& [error, lease] = first;
    if (error) throw holdfast::system_error(error.code(), error.what());
    std::cout << "as_tuple: held\n";
    auto second = co_await seat.try_acquire(asio::as_tuple);
    if (std::get<0>(second) == holdfast::errc::contended)
        std::cout << "as_tuple: contended, as it should be\n";
    auto const released = co_await lease.release();
    std::cout << "as_tuple: " << (released.confirmed() ? "released\n" : released.what() + '\n');
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<holdfast::address> const instances(argv + 1, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        std::jthread const thread([&] { context.run(); });
        holdfast::close_at_exit const closes(locks);
        auto const seat = locks.make_lock("seat:12");

        std::promise<void> done;
        with_callbacks(seat, done);
        done.get_future().get();
        with_futures(seat);
        asio::co_spawn(context, with_tuples(seat), asio::use_future).get();
        locks.shutdown(asio::use_future).get();
    } catch (std::exception const& e) {
        std::cerr << "completion_tokens: " << e.what() << '\n';
        return 1;
    }
}
