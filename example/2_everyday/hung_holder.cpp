// A holder that hangs does not keep the lock for ever, although its process lives and its watchdog
// extends the lease. max_hold limits the whole time of a lease. extend_while() lets the watchdog
// extend the lease only while the work makes progress.
//   hung_holder 127.0.0.1:6379 127.0.0.1:6380 127.0.0.1:6381
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <exception>
#include <iostream>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

long long milliseconds_since(steady::time_point start) {
    return (steady::now() - start) / 1ms;
}

// The watchdog extends the lease, but not beyond 900 ms after its grant.
asio::awaitable<void> limited_by_time(holdfast::client& locks) {
    auto const report = locks.make_lock("report", {.ttl = 500ms, .max_hold = 900ms});
    holdfast::lease hangs = co_await report.try_acquire_for(5s);
    auto const start = steady::now();
    auto const how = co_await hangs.wait_end(); // a real holder would hang, and hear nothing
    std::cout << "max_hold: " << how << " after " << milliseconds_since(start) << " ms\n";
    holdfast::lease next = co_await report.acquire();
    std::cout << "max_hold: the next holder has it\n";
    co_await next.release();
}

// Work in steps that stops making progress after the third.
asio::awaitable<void> limited_by_progress(holdfast::client& locks) {
    auto const copy = locks.make_lock("copy", {.ttl = 1s});
    holdfast::lease lease = co_await copy.acquire();
    auto const start = steady::now();
    auto last_step = start;
    // The watchdog calls this on the client's executor. With several threads, make it atomic.
    lease.extend_while([&] { return steady::now() - last_step < 900ms; });
    asio::steady_timer work(locks.get_executor());
    for (int step = 1; step <= 3; ++step) {
        work.expires_after(250ms);
        co_await work.async_wait();
        if (!lease.held()) throw std::runtime_error("lost while the work made progress");
        last_step = steady::now();
    }
    std::cout << "extend_while: three steps in " << milliseconds_since(start) << " ms, held\n";
    auto const how = co_await lease.wait_end();
    std::cout << "extend_while: " << how << ' ' << milliseconds_since(last_step)
              << " ms after the last step\n";
}

asio::awaitable<void> run(holdfast::client& locks) {
    co_await limited_by_time(locks);
    co_await limited_by_progress(locks);
    co_await locks.shutdown();
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<holdfast::address> const instances(argv + 1, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        asio::co_spawn(context, run(locks), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context.run();
    } catch (std::exception const& e) {
        std::cerr << "hung_holder: " << e.what() << '\n';
        return 1;
    }
}
