// A job that runs on one machine of many. Start this program on each machine: one of them leads and
// does the job, and the others wait. If the leader ends, another one leads at once. If the leader
// dies, hangs or loses the servers, another one leads after the ttl.
//   leader NAME 10.0.0.1:6379 10.0.0.2:6379 10.0.0.3:6379
#include <holdfast/client.hpp>
#include <holdfast/lead.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The pauses stand for the work. The cancellation of the section, at the loss of the lease, ends
// the wait with an exception. Work that cannot be cancelled checks lease.held() before each step.
asio::awaitable<void> job(std::string const& name, holdfast::lease const& lease) {
    std::cout << name << " leads with fence " << lease.fence() << std::endl;
    asio::steady_timer work(co_await asio::this_coro::executor);
    for (int step = 1;; ++step) {
        work.expires_after(200ms);
        co_await work.async_wait();
        std::cout << name << " has done step " << step << std::endl;
    }
}

// Ends when it is cancelled.
asio::awaitable<void> serve(std::string const& name, holdfast::client& locks) {
    // The ttl is how long nobody leads after a leader died.
    auto const leadership = locks.make_lock("nightly-job", {.ttl = 2s, .fencing = true});
    auto const lead_once = [&](holdfast::lease& lease) { return job(name, lease); };
    auto const report = [&](holdfast::error const& e) {
        std::cout << name << " does not lead: " << e.what() << std::endl;
    };
    co_await holdfast::lead(leadership, lead_once, report);
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: leader NAME INSTANCE...");
        std::string const name = argv[1];
        std::vector<holdfast::address> const instances(argv + 2, argv + argc);
        asio::io_context context;
        holdfast::client locks(context.get_executor(), instances,
                               {.max_ttl = 2s, .holder_label = name});

        asio::cancellation_signal stop;
        asio::signal_set signals(context, SIGINT, SIGTERM);
        signals.async_wait([&](holdfast::error_code ec, int) {
            if (!ec) stop.emit(asio::cancellation_type::terminal);
        });
        int status = 0;
        auto const ended = [&](std::exception_ptr e) {
            signals.cancel();
            locks.shutdown(asio::detached); // hears of the release from every instance
            try {
                if (e) std::rethrow_exception(e);
            } catch (holdfast::system_error const& failure) {
                if (failure.code() == holdfast::errc::cancelled) return;
                std::cerr << "leader: " << failure.what() << '\n';
                status = 1;
            }
        };
        asio::co_spawn(context, serve(name, locks),
                       asio::bind_cancellation_slot(stop.slot(), ended));
        context.run();
        std::cout << name << " has ended" << std::endl;
        return status;
    } catch (std::exception const& e) {
        std::cerr << "leader: " << e.what() << '\n';
        return 1;
    }
}
