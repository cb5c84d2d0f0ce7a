// Thirty jobs want to run, and at most ten may do so at one time, over all processes: so many
// licences there are, or so much does the database bear. Each running job has a slot, from 0 to 9,
// and with it a desk of its own, on which no other job works. In the end a job hangs past its
// deadline, and then writes to its desk nevertheless.
//   ten_workers STORE INSTANCE...    STORE: the server with the desks; the instances have the locks
#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/redis/connection.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace redis = boost::redis;
using namespace std::chrono_literals;

constexpr unsigned desks = 10;
constexpr int jobs = 30;

// The desk keeps the greatest fence that it has seen: fences are those of one slot. The answer is
// 1, or 0 if a later job was here.
constexpr std::string_view write_to_desk =
    "local seen=redis.call('hget',KEYS[1],'fence') "
    "if seen and tonumber(seen)>tonumber(ARGV[1]) then return 0 end "
    "redis.call('hset',KEYS[1],'fence',ARGV[1],'text',ARGV[2]) return 1";

asio::awaitable<bool> write(redis::connection& store, unsigned desk, std::uint64_t fence,
                            std::string const& text) {
    redis::request request;
    request.push("EVAL", write_to_desk, 1, "desk:" + std::to_string(desk), std::to_string(fence),
                 text);
    redis::response<int> response;
    co_await store.async_exec(request, response, asio::deferred);
    co_return std::get<0>(response).value() == 1;
}

asio::awaitable<std::string> read(redis::connection& store, unsigned desk) {
    redis::request request;
    request.push("HGET", "desk:" + std::to_string(desk), "text");
    redis::response<std::optional<std::string>> response;
    co_await store.async_exec(request, response, asio::deferred);
    co_return std::get<0>(response).value().value_or("");
}

struct office {
    holdfast::lock workers;
    redis::connection& store;
    int done = 0, working = 0, most = 0, disturbed = 0;
};

asio::awaitable<void> job(office& in, int number) {
    auto const work = [&](holdfast::lease& permit) -> asio::awaitable<void> {
        in.most = std::max(in.most, ++in.working);
        auto const desk = permit.slot().value();
        auto const text =
            "job " + std::to_string(number) + ", fence " + std::to_string(permit.fence());
        auto const written = co_await write(in.store, desk, permit.fence(), text);
        asio::steady_timer pause(in.store.get_executor(), 5ms);
        co_await pause.async_wait(asio::deferred);
        auto const found = co_await read(in.store, desk);
        if (!written || found != text) ++in.disturbed;
        --in.working;
    };
    co_await holdfast::with_lock(in.workers, work);
    ++in.done;
}

asio::awaitable<bool> turns_a_late_job_away(holdfast::client& locks, office& in) {
    // Without a watchdog, the lease ends as if the process of its holder had been stopped.
    auto const workers =
        locks.make_semaphore("workers", desks, {.ttl = 300ms, .watchdog = false, .fencing = true});
    holdfast::lease hangs = co_await workers.acquire();
    auto const desk = hangs.slot().value();
    co_await hangs.wait_end();
    // Others work on, until one of them has had this desk.
    for (auto const before = hangs.fence();;) {
        holdfast::lease next = co_await in.workers.acquire();
        auto const same = next.slot() == desk;
        if (same) co_await write(in.store, desk, next.fence(), "the next job");
        co_await next.release();
        if (same) co_return !co_await write(in.store, desk, before, "too late");
    }
}

asio::awaitable<int> play(holdfast::client& locks, redis::connection& store) {
    office in{locks.make_semaphore("workers", desks, {.ttl = 10s, .fencing = true}), store};
    for (int number = 1; number <= jobs; ++number)
        asio::co_spawn(store.get_executor(), job(in, number), asio::detached);
    asio::steady_timer moment(store.get_executor());
    while (in.done < jobs) {
        moment.expires_after(5ms);
        co_await moment.async_wait(asio::deferred);
    }
    std::cout << in.done << " jobs are done, at most " << in.most << " at a time here, "
              << in.disturbed << " were disturbed\n";
    auto const turned_away = co_await turns_a_late_job_away(locks, in);
    std::cout << (turned_away ? "a late write turned away\n" : "a late write was taken\n");
    co_await locks.shutdown();
    store.cancel();
    co_return turned_away&& in.disturbed == 0 && in.most <= static_cast<int>(desks) ? 0 : 1;
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: ten_workers STORE INSTANCE...");
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
        std::cerr << "ten_workers: " << e.what() << '\n';
        return 1;
    }
}
