#include "idle_waiters.hpp"

#include <holdfast/client.hpp>

#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace holdfast::bench {

namespace asio = boost::asio;
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
namespace json = boost::json;

constexpr auto patience = 60s;

double resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    double total = 0;
    double resident = 0;
    statm >> total >> resident;
    return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The bytes that the program uses, without malloc's reserve.
double heap_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    auto const info = ::mallinfo2();
    return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
#else
    return 0;
#endif
}

// Counts the results of the waits.
struct endings {
    unsigned shut_down = 0;
    unsigned acquired = 0; // 0 in a sound run, as the key is held all the time
    unsigned failed = 0;
    unsigned all() const { return shut_down + acquired + failed; }
};

// bytes_per_waiter includes the frame of this coroutine, as documented.
asio::awaitable<void> stand_in_line(lock const& key, endings& of) {
    auto const held = co_await key.acquire();
    ++of.acquired;
}

void count(std::exception_ptr const& e, endings& of) {
    try {
        if (e) std::rethrow_exception(e);
    } catch (system_error const& failure) {
        ++(failure.code() == errc::shut_down ? of.shut_down : of.failed);
    }
}

class scenario {
public:
    explicit scenario(idle_settings const& s)
        : settings_(s)
        , servers_(s.instances)
        , holder_(context_.get_executor(), addresses(), options())
        , waiting_(context_.get_executor(), addresses(), options())
        , key_(waiting_.make_lock("bench:idle", {.ttl = s.ttl}))
        , result_{{"instances", s.instances}, {"waiters", s.waiters}, {"ttl_ms", s.ttl.count()}} {}

    json::object run() {
        asio::co_spawn(context_, everything(), [this](std::exception_ptr e) {
            context_.stop();
            if (e) std::rethrow_exception(e);
        });
        context_.run();
        return std::move(result_);
    }

private:
    std::vector<address> addresses() const {
        auto const all = servers_.addresses();
        return {all.begin(), all.end()};
    }
    client_options options() const {
        return {.thread_safe = !settings_.single_threaded,
                .instance_timeout = 5s,
                .connect_timeout = 5s};
    }

    asio::awaitable<void> everything() {
        co_await warm(holder_);
        co_await warm(waiting_);
        auto held = co_await holder_.make_lock("bench:idle", {.ttl = settings_.ttl}).acquire();
        co_await pass(500ms); // for late replies of the warm-up
        auto const resident = resident_bytes();
        auto const heap = heap_bytes();
        co_await line_up();
        co_await pass(500ms); // the first tries are not idle waiting
        auto const waiters = static_cast<double>(settings_.waiters);
        result_["bytes_per_waiter"] = (resident_bytes() - resident) / waiters;
        result_["heap_bytes_per_waiter"] = (heap_bytes() - heap) / waiters;
        co_await measure();
        result_["bytes_per_waiter_at_end"] = (resident_bytes() - resident) / waiters;
        result_["ended_early"] = ended_.all();
        bool const still_held = held.held();
        co_await send_home();
        result_["shut_down"] = ended_.shut_down;
        auto const released = co_await held.release();
        result_["failed"] =
            ended_.failed + ended_.acquired + (still_held && released.confirmed() ? 0U : 1U);
        co_await holder_.shutdown();
    }

    asio::awaitable<void> warm(holdfast::client& c) {
        auto const key = c.make_lock("bench:idle:warm");
        for (int i = 0; i < 100; ++i) {
            auto held = co_await key.acquire();
            co_await held.release();
        }
    }

    asio::awaitable<void> line_up() {
        for (unsigned i = 0; i < settings_.waiters; ++i) {
            if (settings_.callbacks) {
                key_.acquire([this](error e, lease) { count(e); });
                continue;
            }
            asio::co_spawn(context_, stand_in_line(key_, ended_),
                           [this](std::exception_ptr const& e) { bench::count(e, ended_); });
        }
        for (auto const give_up = clock::now() + patience; !all_wait();) {
            if (clock::now() > give_up)
                throw std::runtime_error("only " + std::to_string(waiting_.stats().waiters) +
                                         " of " + std::to_string(settings_.waiters) + " wait");
            co_await pass(10ms);
        }
    }

    asio::awaitable<void> measure() {
        auto const before = waiting_.stats();
        auto const holder_before = holder_.stats();
        auto const cpu = thread_cpu_seconds();
        auto const start = clock::now();
        co_await pass(std::chrono::duration<double>(settings_.seconds));
        auto const seconds = std::chrono::duration<double>(clock::now() - start).count();
        auto const cpu_seconds = thread_cpu_seconds() - cpu;
        auto const after = waiting_.stats();
        auto const holder_after = holder_.stats();
        auto const per_s = [&](std::uint64_t from, std::uint64_t to) {
            return static_cast<double>(to - from) / seconds;
        };
        result_["seconds"] = seconds;
        result_["commands_per_s"] = per_s(before.commands, after.commands);
        result_["holder_commands_per_s"] = per_s(holder_before.commands, holder_after.commands);
        result_["pushes_per_s"] = per_s(before.pushes, after.pushes);
        result_["holder_extensions"] = holder_after.extended - holder_before.extended;
        result_["cpu_percent_of_core"] = cpu_seconds / seconds * 100;
    }

    asio::awaitable<void> send_home() {
        co_await waiting_.shutdown();
        for (auto const give_up = clock::now() + patience; ended_.all() < settings_.waiters;) {
            if (clock::now() > give_up)
                throw std::runtime_error(std::to_string(settings_.waiters - ended_.all()) +
                                         " waiters were not told of the shutdown");
            co_await pass(10ms);
        }
    }

    void count(error const& e) {
        ++(!e ? ended_.acquired : e == errc::shut_down ? ended_.shut_down : ended_.failed);
    }

    // The first waiter of the queue may just run a try.
    bool all_wait() const {
        auto const now = waiting_.stats();
        return now.pending == settings_.waiters && now.waiters + 1 >= settings_.waiters;
    }

    idle_settings settings_;
    test::fleet servers_;
    asio::io_context context_{1};
    holdfast::client holder_;
    holdfast::client waiting_;
    lock key_; // belongs to waiting_
    endings ended_;
    json::object result_;
};

} // namespace

json::object idle_waiters_scenario(idle_settings const& s) {
    return scenario(s).run();
}

} // namespace holdfast::bench
