// Limits the wait for a lock that another holder has, in four ways, and tells how each wait ends.
//   time_limits 127.0.0.1:6379 127.0.0.1:6380 127.0.0.1:6381
#include <holdfast/client.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <iostream>
#include <string_view>
#include <tuple>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

using result = std::tuple<holdfast::error, holdfast::lease>;

void print(std::string_view call, result const& ended) {
    auto const& error = std::get<0>(ended);
    std::cout << call << ": ";
    if (!error)
        std::cout << "acquired\n";
    else if (error == holdfast::errc::contended)
        std::cout << "another holder has it\n";
    else if (error == holdfast::errc::wait_timeout)
        std::cout << "still held after 100 ms\n";
    else if (error == holdfast::errc::cancelled)
        std::cout << "cancelled\n";
    else if (error == holdfast::error_condition::unavailable)
        std::cout << "an outage\n";
    else
        std::cout << error.what() << '\n';
}

asio::awaitable<void> compete(holdfast::client& locks) {
    auto const seat = locks.make_lock("seat:12");
    holdfast::lease holder = co_await seat.try_acquire_for(5s);

    result ended = co_await seat.try_acquire(asio::as_tuple);
    print("try_acquire", ended);

    ended = co_await seat.try_acquire_for(100ms, asio::as_tuple);
    print("try_acquire_for(100ms)", ended);

    // Any asynchronous function of Asio takes this token. The limit covers all of the call, also
    // the time in which servers do not answer.
    ended = co_await seat.acquire(asio::cancel_after(100ms, asio::as_tuple));
    print("acquire(cancel_after(100ms))", ended);

    // A signal ends the wait when the program decides so: here when a timer fires, in a server when
    // its peer hangs up.
    asio::cancellation_signal hang_up;
    asio::steady_timer peer(locks.get_executor(), 100ms);
    peer.async_wait([&](holdfast::error_code) { hang_up.emit(asio::cancellation_type::total); });
    ended = co_await seat.acquire(asio::bind_cancellation_slot(hang_up.slot(), asio::as_tuple));
    print("acquire(bind_cancellation_slot)", ended);

    // A cancelled wait leaves nothing behind: the next in the queue has the lock at once.
    co_await holder.release();
    ended = co_await seat.try_acquire(asio::as_tuple);
    print("try_acquire after the release", ended);
    co_await std::get<1>(ended).release();
    co_await locks.shutdown();
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<holdfast::address> const instances(argv + 1, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        asio::co_spawn(context, compete(locks), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context.run();
    } catch (std::exception const& e) {
        std::cerr << "time_limits: " << e.what() << '\n';
        return 1;
    }
}
