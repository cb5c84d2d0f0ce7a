// Servers whose table of tracked keys is full: they forget registrations, and tell clients of keys
// that have not changed. Other programs fill it, with client-side caching.
#include "redis/wire/kinds/fair_key.hpp"

#include "integration/attempt.hpp"
#include "integration/fair_line.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/proxy.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

server_options with_table_of(std::size_t keys) {
    return {.arguments = {"--tracking-table-max-keys", std::to_string(keys)}};
}

/// A program that caches what it reads.
class caching_program {
public:
    explicit caching_program(server const& on)
        : cli_(on)
        , server_(on) {
        (void)cli_.command({"HELLO", "3"});
        (void)cli_.command({"CLIENT", "TRACKING", "ON"});
    }
    /// Each key takes a place in the table.
    void read(std::size_t keys) {
        for (std::size_t i = 0; i < keys; ++i)
            (void)cli_.command({"GET", "cached:" + std::to_string(next_++)});
    }
    /// The keys change, so they leave the table.
    void write_all() {
        redis_cli other(server_);
        for (std::size_t i = 0; i < next_; ++i)
            (void)other.command({"SET", "cached:" + std::to_string(i), "x", "PX", "1"});
    }

private:
    redis_cli cli_;
    server const& server_;
    std::size_t next_ = 0;
};

std::size_t places(fleet& servers, std::string const& key) {
    redis_cli cli(servers[0]);
    return static_cast<std::size_t>(cli.command({"LLEN", line_of(key)}).integer());
}

} // namespace

BOOST_AUTO_TEST_SUITE(full_tables)

BOOST_AUTO_TEST_CASE(waiters_poll_while_the_table_is_full) {
    fleet servers(1, with_table_of(100));
    caching_program other(servers[0]);
    test_client waiting(servers), holding(servers);
    BOOST_TEST(lack_of(waiting, degradation::no_push) == "");
    auto l = holding.hold("k", long_lived);
    attempt waiter;
    waiter.start(waiting.locks.make_lock("k", long_lived));
    BOOST_TEST(waiting.until([&] { return waiting.locks.stats().waiters == 1; }));
    other.read(200);
    BOOST_TEST(waiting.until([&] { return lack_of(waiting, degradation::no_push) != ""; }));
    BOOST_TEST(contains(lack_of(waiting, degradation::no_push),
                        "the server's table of tracked keys is full (tracking-table-max-keys 100)"),
               lack_of(waiting, degradation::no_push));
    BOOST_TEST(holding.releases(l));
    BOOST_TEST(waiting.until([&] { return waiter.won(); }));
    BOOST_TEST(waiting.releases(waiter.held));
    other.write_all();
    BOOST_TEST(waiting.until([&] { return lack_of(waiting, degradation::no_push) == ""; }));
}

BOOST_AUTO_TEST_CASE(a_table_that_is_full_from_the_start_is_noticed) {
    fleet servers(1, with_table_of(10));
    caching_program other(servers[0]);
    other.read(20);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    BOOST_TEST(contains(lack_of(client, degradation::no_push), "is full"));
}

// Without server checks nobody notices that the table is full.
BOOST_AUTO_TEST_CASE(a_call_without_a_reason_leaves_no_second_place_in_line) {
    fleet servers(1, with_table_of(3));
    caching_program other(servers[0]);
    auto options = patient();
    options.on_restart = restart_policy::off;
    constexpr std::size_t size = 3;
    fair_line line(
        addresses_of(servers), "k", size, [&] { return std::vector{places(servers, "k")}; }, fair,
        options);
    auto const rounds = [&] {
        std::uint64_t all = 0;
        for (auto const& client : line.group.clients) all += client->stats().rounds;
        return all;
    };
    for (int i = 0; i < 40; ++i) {
        auto const before = rounds();
        other.read(10);
        BOOST_REQUIRE(line.group.until([&] { return rounds() > before; }));
    }
    BOOST_TEST(line.group.until([&] { return line.in_line() == size; }));
    line.renew();
    BOOST_TEST(line.in_line() == size);
    line.release(line.holder);
    BOOST_TEST(line.turns().size() == size);
}

// A process that is called without a reason may find the key free. It goes past others, once.
BOOST_AUTO_TEST_CASE(a_process_that_gets_the_key_out_of_turn_leaves_no_place_behind) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    auto const acquire = redis::fair_key.scripts[1];
    for (auto const* const token : {"first", "mine", "last"})
        (void)cli.command({"RPUSH", line_of("k"), token});
    auto const newcomer =
        cli.command({"EVAL", std::string(acquire), "2", "k", line_of("k"), "other", "10000", "1"});
    BOOST_TEST(newcomer.is_nil());
    auto const granted =
        cli.command({"EVAL", std::string(acquire), "2", "k", line_of("k"), "mine", "10000", "0"});
    BOOST_TEST(granted.integer() == 1);
    BOOST_TEST(cli.get("k").value_or("") == "mine");
    BOOST_TEST(places(servers, "k") == 2U);
    BOOST_TEST(cli.command({"LINDEX", line_of("k"), "0"}).string() == "first");
}

// The server would keep the registration of a process that has died.
BOOST_AUTO_TEST_CASE(a_process_that_dies_in_line_leaves_no_registration) {
    fleet servers(1);
    redis_cli admin(servers[0]);
    auto const tracked = [&] {
        auto const info = admin.command({"INFO", "stats"}).string();
        auto const at = info.find("tracking_total_keys:");
        BOOST_REQUIRE(at != info.npos);
        return std::stoul(info.substr(at + 20));
    };
    test_client holding(servers);
    auto l = holding.hold("k", {.ttl = 60s, .fair = true});
    proxy way(servers[0]);
    test_client dying({way.url()});
    attempt waiter;
    waiter.start(dying.locks.make_lock("k", fair));
    BOOST_REQUIRE(dying.until([&] { return places(servers, "k") == 1; }));
    BOOST_TEST(dying.until([&] { return tracked() > 0; }));
    way.down();
    BOOST_TEST(holding.until([&] { return tracked() == 0; }, 20s));
    BOOST_TEST(holding.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
