// The monitor of a server, stepped without a connection: what it asks, and what follows from the
// answers.
#include "redis/server/server_monitor.hpp"

#include "support/lone_owner.hpp"
#include "support/resp.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::degradation;
using holdfast::errc;
using holdfast::lease_clock;
using holdfast::restart_policy;

namespace {

class hearing_owner final : public lone_owner {
public:
    lease_clock::time_point time() const noexcept override { return now; }
    void on_unavailable(unsigned) override { ++unavailable; }
    void on_available(unsigned) override { ++available; }
    void on_forgotten(unsigned) override { ++forgotten; }
    void on_age(unsigned, lease_clock::time_point start) override {
        ++ages;
        started = start;
    }
    bool awaits_ages(unsigned) const override { return awaits; }

    lease_clock::time_point now{1h};
    int unavailable = 0, available = 0, forgotten = 0, ages = 0;
    lease_clock::time_point started{};
    bool awaits = false; ///< the ages of other servers
};

constexpr auto longest = 60s;

connection_options options_with(restart_policy policy) {
    return {.address = address("127.0.0.1:1"),
            .instance_timeout = 1s,
            .connect_timeout = 1s,
            .max_reconnect_delay = 1s,
            .max_ttl = longest,
            .on_restart = policy,
            .detect_clock_jumps = true,
            .max_pending_releases = 10,
            .name = "unit"};
}

/// A server that has been probed.
struct monitored {
    explicit monitored(std::int64_t tracking_limit = 1'000, bool tracks = true,
                       restart_policy policy = restart_policy::observed)
        : monitored(told(""), tracking_limit, tracks, policy) {}
    /// `first`: the INFO of the probe.
    explicit monitored(std::string const& first, std::int64_t tracking_limit = 1'000,
                       bool tracks = true, restart_policy policy = restart_policy::observed)
        : state(0, options_with(policy), owner, secrets)
        , monitor(state) {
        state.words.tracked = tracks;
        monitor.begin();
        state.live.probing(owner.now);
        monitor.probed(*parse_info(first), false, tracking_limit);
        state.live.probed(owner.now);
        reply_reader reader; // the probe asks for the time, too
        reader.read("*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n",
                    [&](element const& e) { monitor.take_time(e); });
        monitor.on_time();
    }

    static std::string told(std::string const& more) {
        return "redis_version:7.0.15\r\nrole:master\r\nuptime_in_seconds:9999\r\n" +
               (more.find("run_id:") == more.npos ? "run_id:a\r\n" + more : more);
    }
    std::string sent() {
        return state.commands.empty() ? std::string() : state.commands.send(state.words).bytes;
    }
    /// The reply to a server check.
    std::optional<server_info> check(std::string const& reply) {
        monitor.check();
        state.commands.take_unsent([](pending_command const&) {});
        reply_reader reader;
        reader.read(reply, [&](element const& e) { monitor.take_check(e); });
        return monitor.on_check();
    }
    std::optional<server_info> reports(std::string const& more) {
        return check(resp::bulk(told(more)));
    }
    std::optional<server_info> tracks(std::int64_t keys) {
        return reports("tracking_total_keys:" + std::to_string(keys) + "\r\n");
    }

    hearing_owner owner;
    secret_list secrets;
    connection_state state;
    server_monitor monitor;
};

} // namespace

BOOST_AUTO_TEST_SUITE(server_monitor)

//
// Restarts before the first contact
//

std::string const young =
    "redis_version:7.0.15\r\nrole:master\r\nrun_id:a\r\nuptime_in_seconds:5\r\n";

void probe(monitored& w, std::string const& info) {
    w.monitor.probed(*parse_info(info), false, 1'000);
}

// Servers that were started together grow old one after the other.
BOOST_AUTO_TEST_CASE(the_age_is_told_at_the_first_contact_alone) {
    monitored w;
    BOOST_TEST(w.owner.ages == 1);
    BOOST_TEST((w.owner.started == w.owner.now - 9'998s));
    probe(w, young);
    probe(w, "role:master\r\nrun_id:b\r\nuptime_in_seconds:1\r\n");
    BOOST_TEST(w.owner.ages == 1);
}

BOOST_AUTO_TEST_CASE(a_young_server_that_has_restarted_does_not_vote) {
    monitored w(young);
    BOOST_TEST(!w.monitor.quarantined());
    w.monitor.shown_restarted("this is how we know");
    BOOST_TEST(w.monitor.quarantined());
    BOOST_TEST((w.monitor.until() == w.owner.now - 4s + longest));
    BOOST_TEST(w.monitor.reason().find("this is how we know") != std::string::npos);
    BOOST_TEST(w.owner.unavailable == 1);

    monitored old;
    old.monitor.shown_restarted("this is how we know");
    BOOST_TEST(!old.monitor.quarantined());
}

BOOST_AUTO_TEST_CASE(commands_of_a_young_server_wait_for_the_ages_of_others_for_a_limited_time) {
    monitored w(young);
    BOOST_TEST(!w.monitor.holds());
    w.owner.awaits = true;
    w.monitor.hold_for_ages();
    BOOST_TEST(w.monitor.holds());
    w.owner.awaits = false;
    BOOST_TEST(!w.monitor.holds());
    w.owner.awaits = true;
    w.owner.now += 250ms;
    BOOST_TEST(!w.monitor.holds());

    monitored old;
    old.owner.awaits = true;
    old.monitor.hold_for_ages();
    BOOST_TEST(!old.monitor.holds());
}

//
// The table of tracked keys
//

BOOST_AUTO_TEST_CASE(a_full_table_of_tracked_keys_ends_the_trust_in_pushes) {
    monitored w;
    BOOST_TEST(w.state.relies_on_pushes());
    w.tracks(937);
    BOOST_TEST(w.state.relies_on_pushes());
    BOOST_TEST(w.owner.unavailable == 0);
    w.tracks(938); // all but a sixteenth
    BOOST_TEST(!w.state.relies_on_pushes());
    BOOST_TEST(!w.state.words.tracked);
    BOOST_TEST(w.owner.unavailable == 1); // those that wait for pushes are told
    w.tracks(1'000);
    BOOST_TEST(w.owner.unavailable == 1);
    // Not for a key or two.
    w.tracks(876);
    BOOST_TEST(!w.state.relies_on_pushes());
    w.tracks(874);
    BOOST_TEST(w.state.relies_on_pushes());
    BOOST_TEST(w.state.words.tracked);
    BOOST_TEST(w.owner.unavailable == 1);
}

BOOST_AUTO_TEST_CASE(a_table_may_have_no_limit) {
    monitored w(0);
    w.tracks(1'000'000'000);
    BOOST_TEST(w.state.relies_on_pushes());
}

BOOST_AUTO_TEST_CASE(a_table_may_be_tiny) {
    monitored w(1);
    w.tracks(0);
    BOOST_TEST(w.state.relies_on_pushes());
    w.tracks(1);
    BOOST_TEST(!w.state.relies_on_pushes());
    w.tracks(0);
    BOOST_TEST(w.state.relies_on_pushes());
}

BOOST_AUTO_TEST_CASE(a_server_without_pushes_gets_none_from_an_empty_table) {
    monitored w(1'000, false);
    w.tracks(1'000);
    w.tracks(0);
    BOOST_TEST(!w.state.words.tracked);
    BOOST_TEST(w.owner.unavailable == 0);
    BOOST_TEST(!w.state.services.has(degradation::no_push));
}

BOOST_AUTO_TEST_CASE(a_number_that_no_table_can_have_is_none) {
    for (auto const* const keys : {"-5", "99999999999999999999", "x", ""}) {
        monitored w;
        w.reports("tracking_total_keys:" + std::string(keys) + "\r\n");
        BOOST_TEST(w.state.relies_on_pushes(), keys);
    }
}

//
// The server
//

BOOST_AUTO_TEST_CASE(another_server_on_the_connection_ends_it) {
    monitored w;
    BOOST_TEST(w.reports("").has_value());
    BOOST_TEST(!w.reports("run_id:b\r\n").has_value());
    BOOST_TEST((w.state.refusal.cause == errc::unreachable));
    BOOST_TEST(w.state.refusal.message == "another server answers on the connection");
}

BOOST_AUTO_TEST_CASE(a_server_that_has_become_a_replica_ends_the_connection) {
    monitored w;
    BOOST_TEST(!w.check(resp::bulk("run_id:a\r\nrole:slave\r\n")).has_value());
    BOOST_TEST((w.state.refusal.cause == errc::read_only));
}

BOOST_AUTO_TEST_CASE(a_flush_that_was_not_announced_begins_a_quarantine) {
    monitored w(1'000, false);
    w.reports("cmdstat_flushall:calls=0\r\n");
    BOOST_TEST(!w.monitor.quarantined());
    w.reports("cmdstat_flushall:calls=1\r\n");
    BOOST_TEST(w.monitor.quarantined());
    BOOST_TEST((w.monitor.until() == w.owner.now + longest));
    BOOST_TEST(w.owner.unavailable == 1);
    BOOST_TEST(w.owner.forgotten == 1);
    w.owner.now = w.monitor.until() + 1ms;
    w.monitor.notify_of_end();
    BOOST_TEST(!w.monitor.quarantined());
    BOOST_TEST(w.owner.available == 1);
}

BOOST_AUTO_TEST_CASE(an_announced_flush_counts_once) {
    monitored w;
    BOOST_TEST(w.monitor.emptied());
    auto const until = w.monitor.until();
    BOOST_TEST((until == w.owner.now + longest));
    w.owner.now += 1s;
    w.reports("cmdstat_flushall:calls=1\r\n");
    BOOST_TEST((w.monitor.until() == until));
    BOOST_TEST(w.owner.forgotten == 1);
}

BOOST_AUTO_TEST_CASE(a_server_that_may_evict_has_no_vote_until_it_may_not) {
    monitored w;
    w.reports("maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n");
    BOOST_TEST(w.monitor.quarantined());
    BOOST_TEST(w.monitor.reason().find("allkeys-lru") != std::string::npos);
    w.reports("maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n");
    BOOST_TEST(w.owner.unavailable == 1); // waiters are told once
    w.reports("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n");
    BOOST_TEST((w.monitor.until() <= w.owner.now + longest));
}

//
// Questions
//

BOOST_AUTO_TEST_CASE(it_asks_each_second_before_a_command_and_not_more_often) {
    monitored w;
    w.monitor.ask_due();
    BOOST_TEST(w.sent().empty());
    w.owner.now += 1s;
    w.monitor.ask_due();
    auto const asked = w.sent();
    BOOST_TEST(asked.find("TIME") != asked.npos);
    BOOST_TEST(asked.find("INFO") != asked.npos);
    BOOST_TEST(w.monitor.checking());
    w.monitor.ask_due();
    BOOST_TEST(w.sent().empty());
}

BOOST_AUTO_TEST_CASE(a_question_that_was_dropped_is_due_again) {
    monitored w;
    w.owner.now += 1s;
    w.monitor.ask_due();
    w.state.commands.take_unsent([&](pending_command const& c) { w.monitor.unsent(c.type); });
    BOOST_TEST(!w.monitor.checking());
    w.monitor.ask_due();
    auto const asked = w.sent();
    BOOST_TEST(asked.find("TIME") != asked.npos);
    BOOST_TEST(asked.find("INFO") != asked.npos);
}

BOOST_AUTO_TEST_CASE(a_refused_check_is_told_and_not_asked_again) {
    monitored w;
    BOOST_TEST(!w.check("-NOPERM this user has no permissions to run the 'info' command\r\n"));
    BOOST_TEST(w.state.services.has(degradation::no_restart_check));
    BOOST_TEST(!w.monitor.checks_data());
    w.owner.now += 10s;
    w.monitor.ask_due();
    BOOST_TEST(w.sent().find("INFO") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(without_a_policy_nothing_is_checked) {
    monitored w(1'000, true, restart_policy::off);
    BOOST_TEST(!w.monitor.checks_data());
    BOOST_TEST(w.monitor.asks_time());
}

BOOST_AUTO_TEST_SUITE_END()
