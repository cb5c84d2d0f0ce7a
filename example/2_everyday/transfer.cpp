// Transfers between accounts, each under one lock on both accounts. The accounts may be on
// different servers, so no transaction spans them. Transfers in opposite directions name their keys
// in opposite orders, and none of them waits for another in a circle. In the end one holder hangs
// past its deadline, and then writes nevertheless.
//   transfer STORE INSTANCE...    STORE: the server with the accounts; the instances have the locks
//
// A crash between two writes leaves the first alone, with any lock. So a bank notes the transfer
// before it begins, and finishes it afterwards.
#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/redis/connection.hpp>

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

// The answer is the balance, or nil if a later holder was here. A read raises the fence, too, so
// that no earlier holder writes between the read and the write that follows.
constexpr std::string_view read_or_write =
    "local seen=redis.call('hget',KEYS[1],'fence') "
    "if seen and tonumber(seen)>tonumber(ARGV[1]) then return false end "
    "redis.call('hset',KEYS[1],'fence',ARGV[1]) "
    "if ARGV[2] then redis.call('hset',KEYS[1],'balance',ARGV[2]) end "
    "return redis.call('hget',KEYS[1],'balance')";

asio::awaitable<std::optional<int>> ask(redis::connection& store, redis::request const& request) {
    redis::response<std::optional<int>> response;
    co_await store.async_exec(request, response, asio::deferred);
    co_return std::get<0>(response).value();
}

asio::awaitable<int> read(redis::connection& store, std::string const& account,
                          std::uint64_t fence) {
    redis::request request;
    request.push("EVAL", read_or_write, 1, account, std::to_string(fence));
    auto const found = co_await ask(store, request);
    if (!found) throw std::runtime_error(account + ": a later holder was here");
    co_return *found;
}

asio::awaitable<bool> write(redis::connection& store, std::string const& account, int amount,
                            std::uint64_t fence) {
    redis::request request;
    request.push("EVAL", read_or_write, 1, account, std::to_string(fence), std::to_string(amount));
    auto const written = co_await ask(store, request);
    co_return written.has_value();
}

/// The lease has both keys or none, and one fence that is greater than all earlier ones of both.
asio::awaitable<void> transfer(holdfast::client& locks, redis::connection& store,
                               std::string const& from, std::string const& to, int amount) {
    auto const both =
        locks.make_multi_lock({"lock:" + from, "lock:" + to}, {.ttl = 10s, .fencing = true});
    auto const move = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        auto const left = co_await read(store, from, lease.fence()) - amount;
        auto const there = co_await read(store, to, lease.fence()) + amount;
        auto const taken = co_await write(store, from, left, lease.fence());
        auto const given = taken && co_await write(store, to, there, lease.fence());
        if (!given) throw std::runtime_error("a later holder was here");
    };
    co_await holdfast::with_lock(both, move);
}

asio::awaitable<void> teller(holdfast::client& locks, redis::connection& store,
                             std::string const& from, std::string const& to) {
    for (int amount = 1; amount <= 10; ++amount) co_await transfer(locks, store, from, to, amount);
}

asio::awaitable<bool> turns_a_late_holder_away(holdfast::client& locks, redis::connection& store) {
    // Without a watchdog, the lease ends as if the process of its holder had been stopped.
    auto const both = locks.make_multi_lock({"lock:alice", "lock:bob"},
                                            {.ttl = 300ms, .watchdog = false, .fencing = true});
    holdfast::lease hangs = co_await both.acquire();
    co_await hangs.wait_end();
    std::string const alice = "alice", carol = "carol";
    co_await transfer(locks, store, carol, alice, 1);
    auto const written = co_await write(store, alice, 1'000'000, hangs.fence());
    co_return !written;
}

asio::awaitable<int> play(holdfast::client& locks, redis::connection& store) {
    using namespace asio::experimental::awaitable_operators;
    std::string const alice = "alice", bob = "bob", carol = "carol";
    redis::request opening;
    for (auto const& account : {alice, bob, carol}) opening.push("HSETNX", account, "balance", 100);
    co_await store.async_exec(opening, redis::ignore, asio::deferred);

    auto there = teller(locks, store, alice, bob), back = teller(locks, store, bob, alice);
    auto on = teller(locks, store, bob, carol), home = teller(locks, store, carol, bob);
    co_await (std::move(there) && std::move(back) && std::move(on) && std::move(home));
    std::cout << "40 transfers done\n";

    auto const turned_away = co_await turns_a_late_holder_away(locks, store);
    std::cout << (turned_away ? "a late write turned away\n" : "a late write was taken\n");
    co_await locks.shutdown();
    store.cancel();
    co_return turned_away ? 0 : 1;
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: transfer STORE INSTANCE...");
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
        std::cerr << "transfer: " << e.what() << '\n';
        return 1;
    }
}
