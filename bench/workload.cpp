#include "workload.hpp"

#include "allocation_counter.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <system_error>
#include <time.h>

namespace holdfast::bench {

namespace asio = boost::asio;

namespace {

using clock = std::chrono::steady_clock;

// The state shared by the coroutines of a run.
struct progress {
    workload_result result;
    clock::time_point end{};
    double cpu_at_end = 0;
    std::uint64_t allocations_at_end = 0;
    clock::time_point ended{};
    bool over = false;
};

void stop(progress& p) {
    if (p.over) return;
    p.over = true;
    p.ended = clock::now();
    p.cpu_at_end = thread_cpu_seconds();
    p.allocations_at_end = allocations();
}

// Acquires and releases every `step`-th lock from `first` on, repeatedly.
asio::awaitable<void> work(std::span<lock const> locks, std::size_t first, std::size_t step,
                           progress& p) {
    for (auto i = first; !p.over; i = i + step < locks.size() ? i + step : first) {
        auto const& key = locks[i];
        auto const t0 = clock::now();
        auto r = co_await key.acquire(asio::as_tuple);
        auto& [failure, held] = r;
        auto const t1 = clock::now();
        if (failure) {
            ++p.result.failed;
            continue;
        }
        auto const released = co_await held.release();
        auto const t2 = clock::now();
        if (t2 >= p.end) {
            stop(p);
            break;
        }
        if (!released.confirmed()) {
            ++p.result.failed;
            continue;
        }
        p.result.acquire.record(t1 - t0);
        p.result.release.record(t2 - t1);
        p.result.pair.record(t2 - t0);
        ++p.result.pairs;
    }
}

} // namespace

asio::awaitable<void> pass(std::chrono::duration<double> time) {
    asio::steady_timer timer(co_await asio::this_coro::executor,
                             std::chrono::duration_cast<std::chrono::nanoseconds>(time));
    co_await timer.async_wait(asio::deferred);
}

bool all_up(client const& c) {
    auto const all = c.instances();
    return std::all_of(all.begin(), all.end(),
                       [](auto const& i) { return i.state == instance_state::up; });
}

double thread_cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

double servers_cpu_seconds(test::fleet const& servers) {
    double sum = 0;
    for (auto const& server : servers) {
        clockid_t id{};
        timespec t{};
        if (int const error = ::clock_getcpuclockid(server.pid(), &id); error != 0)
            throw std::system_error(error, std::generic_category(), "clock_getcpuclockid");
        if (::clock_gettime(id, &t) != 0)
            throw std::system_error(errno, std::generic_category(), "clock_gettime");
        sum += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
    }
    return sum;
}

workload::workload(std::vector<std::string> const& instances, client_options const& options,
                   std::chrono::milliseconds ttl)
    : ttl_(ttl) {
    std::vector<address> const addresses(instances.begin(), instances.end());
    client_ = std::make_unique<holdfast::client>(context_.get_executor(), addresses, options);
}

workload::~workload() {
    client_.reset();
    context_.restart();
    context_.run();
}

workload_result workload::run(unsigned coroutines, std::chrono::duration<double> how_long) {
    while (locks_.size() < coroutines) {
        locks_.push_back(
            client_->make_lock("bench:lock:" + std::to_string(locks_.size()), {.ttl = ttl_}));
    }
    return run(std::span(locks_).first(coroutines), coroutines, how_long);
}

workload_result workload::run(std::span<lock const> locks, unsigned coroutines,
                              std::chrono::duration<double> how_long) {
    progress p;
    unsigned running = coroutines;
    auto const start = clock::now();
    auto const cpu = thread_cpu_seconds();
    auto const allocated = allocations();
    p.end = start + std::chrono::duration_cast<clock::duration>(how_long);
    for (unsigned i = 0; i < coroutines; ++i) {
        asio::co_spawn(context_, work(locks, i, coroutines, p), [&](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
            if (--running == 0) context_.stop();
        });
    }
    context_.restart();
    context_.run();
    p.result.seconds = std::chrono::duration<double>(p.ended - start).count();
    p.result.cpu_seconds = p.cpu_at_end - cpu;
    p.result.allocations = p.allocations_at_end - allocated;
    return p.result;
}

} // namespace holdfast::bench
