// The events that an observer is told.
#include <holdfast/observer.hpp>

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Keeps a line for each event.
class notes final : public observer {
public:
    explicit notes(std::vector<std::string>& to)
        : to_(to) {}

    void on_waiting(waiting_event const& e) override { note("waiting", e); }
    void on_acquired(acquired_event const& e) override {
        waited = e.waited;
        lasts = e.lasts;
        fence = e.fence;
        note("acquired", e);
    }
    void on_handed_over(acquired_event const& e) override { note("handed over", e); }
    void on_extended(extended_event const& e) override { note("extended", e); }
    void on_lost(lost_event const& e) override {
        held = e.held;
        stalled = e.stalled;
        note(std::string("lost, ") + to_string(e.cause), e);
    }
    void on_released(released_event const& e) override {
        held = e.held;
        note(e.handed_over ? "released to a waiter" : "released", e);
    }
    void on_failed(failed_event const& e) override {
        reported = e.report != nullptr;
        auto const* const call = e.call == reported_call::acquire  ? "acquire"
                                 : e.call == reported_call::extend ? "extend"
                                                                   : "release";
        note(std::string(call) + " failed, " + e.code.message(), e);
    }
    // No line: the machine may stop this process at any time.
    void on_stall(stall_event const& e) override {
        BOOST_TEST((e.length >= stall_threshold));
        BOOST_TEST((e.at != lease_clock::time_point{}));
        stalls.push_back(e.length);
    }
    void on_instance(instance_event const& e) override {
        to_.push_back(e.status.address + ' ' + to_string(e.before) + " -> " +
                      to_string(e.status.state));
    }

    std::chrono::nanoseconds waited{0}, lasts{0}, held{0}, stalled{0};
    std::vector<std::chrono::nanoseconds> stalls;
    std::uint64_t fence = 0;
    trace_context trace;
    bool reported = false;

private:
    void note(std::string text, lock_event const& e) {
        BOOST_TEST(e.holder_label == "me");
        BOOST_TEST((e.at != lease_clock::time_point{}));
        trace = e.trace;
        to_.push_back(std::move(text) + ' ' + std::string(e.key));
    }

    std::vector<std::string>& to_;
};

struct observed {
    explicit observed(fleet const& servers, client_options options = patient())
        : client(addresses_of(servers), with(options, seen)) {
        BOOST_REQUIRE(client.all_up());
    }
    static client_options with(client_options options, observer& o) {
        options.holder_label = "me";
        options.observer = &o;
        return options;
    }
    std::size_t count(std::string const& line) const {
        return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), line));
    }
    [[nodiscard]] bool hears(std::string const& line) {
        return client.until([&] { return count(line) != 0; });
    }

    std::vector<std::string> lines;
    notes seen{lines};
    test_client client;
};

} // namespace

BOOST_AUTO_TEST_SUITE(observer_events)

BOOST_AUTO_TEST_CASE(the_life_of_a_lease_is_told) {
    fleet servers(3);
    observed o(servers);
    auto const trace =
        trace_context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    o.lines.clear();
    auto held = o.client.hold("k", {.ttl = 60s, .fencing = true, .trace = *trace});
    BOOST_TEST(o.lines == std::vector<std::string>{"acquired k"}, boost::test_tools::per_element());
    BOOST_TEST((o.seen.waited > 0ns));
    BOOST_TEST((o.seen.lasts > 50s));
    BOOST_TEST(o.seen.fence == held.fence());
    BOOST_TEST((o.seen.trace == *trace));
    BOOST_TEST(!o.client.extend(held));
    BOOST_TEST(o.client.releases(held));
    std::vector<std::string> const life{"acquired k", "extended k", "released k"};
    BOOST_TEST(o.lines == life, boost::test_tools::per_element());
    BOOST_TEST((o.seen.held > 0ns));
}

BOOST_AUTO_TEST_CASE(a_hand_over_is_told_in_order) {
    fleet servers(1);
    observed o(servers);
    auto held = o.client.hold("k", handed_on);
    o.lines.clear();
    attempt next;
    next.start(o.client.locks.make_lock("k", handed_on));
    BOOST_REQUIRE(waits(o.client));
    BOOST_TEST(o.client.releases(held));
    auto const given = wait_for_lease(o.client, next);
    std::vector<std::string> const told{"waiting k", "released to a waiter k", "handed over k"};
    BOOST_TEST(o.lines == told, boost::test_tools::per_element());
    auto const stats = o.client.locks.stats();
    auto const of = [&](acquire_outcome how) {
        return stats.acquires[static_cast<std::size_t>(how)].count();
    };
    BOOST_TEST(of(acquire_outcome::acquired) == 1U);
    BOOST_TEST(of(acquire_outcome::handed_over) == 1U);
    BOOST_TEST(stats.waits.count() == 1U);
    BOOST_TEST(stats.holds.count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_stall_is_told_and_the_loss_has_its_length) {
    fleet servers(1);
    observed o(servers, without_questions());
    auto const held = o.client.hold("k", {.ttl = 1s});
    BOOST_TEST((held.stalled() == 0ns));
    stand_still(1500ms); // the extension was due after 333 ms
    BOOST_TEST(o.hears("lost, expired k"));
    BOOST_REQUIRE(!o.seen.stalls.empty());
    auto const told = o.seen.stalls.back();
    BOOST_TEST((told >= 900ms));
    BOOST_TEST((o.seen.stalled == told));
    BOOST_TEST((held.stalled() == told));
    BOOST_TEST((o.client.locks.stats().longest_stall == told));
    // A lease that was lost for another reason has no stall behind it.
    auto taken = o.client.hold("taken");
    redis_cli(servers[0]).command({"DEL", "taken"});
    BOOST_TEST((o.client.extend(taken) == errc::lease_lost));
    BOOST_TEST(o.hears("lost, key gone taken"));
    BOOST_TEST((o.seen.stalled == 0ns));
    BOOST_TEST((taken.stalled() == 0ns));
}

BOOST_AUTO_TEST_CASE(each_loss_has_its_cause) {
    fleet servers(1);
    observed o(servers, trusting(patient()));
    auto const expires = o.client.hold("expires", unwatched(300ms));
    BOOST_TEST(o.hears("lost, expired expires"));
    BOOST_TEST((o.seen.held > 100ms));
    auto taken = o.client.hold("taken");
    redis_cli(servers[0]).command({"DEL", "taken"});
    BOOST_TEST((o.client.extend(taken) == errc::lease_lost));
    BOOST_TEST(o.hears("lost, key gone taken"));
    auto const left = o.client.hold("left");
    o.client.locks.close();
    BOOST_TEST(o.hears("lost, shut down left"));
}

BOOST_AUTO_TEST_CASE(failures_are_told_with_their_report) {
    fleet servers(3);
    observed o(servers, trusting(hasty()));
    test_client other(servers);
    BOOST_REQUIRE(other.all_up());
    auto const blocks = other.hold("k");
    BOOST_TEST((o.client.try_acquire("k").first == errc::contended));
    BOOST_TEST(o.count("acquire failed, the lock is held k") == 1U);
    BOOST_TEST(o.seen.reported);
    auto held = o.client.hold("mine", {.ttl = 20s});
    BOOST_REQUIRE(o.client.sees(servers, "mine", true));
    servers[0].freeze();
    servers[1].freeze();
    // Without a caller, too: an observer hears of the watchdog's failures.
    BOOST_TEST(o.client.extend(held).code().failed());
    BOOST_TEST(std::any_of(o.lines.begin(), o.lines.end(), [](std::string const& line) {
        return line.starts_with("extend failed, ");
    }));
    o.seen.reported = false;
    held = {};
    BOOST_TEST(o.client.until([&] {
        return std::any_of(o.lines.begin(), o.lines.end(), [](std::string const& line) {
            return line.starts_with("release failed, ");
        });
    }));
    BOOST_TEST(o.seen.reported);
    servers[0].thaw();
    servers[1].thaw();
}

// One tenure serves the leases of several requests.
BOOST_AUTO_TEST_CASE(a_failure_after_a_hand_over_has_the_trace_of_its_own_request) {
    fleet servers(1);
    observed o(servers, trusting(hasty()));
    auto const first =
        *trace_context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    auto const second =
        *trace_context::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    auto held = o.client.hold("k", {.ttl = 20s, .handover_time = 60s, .trace = first});
    attempt next;
    next.start(o.client.locks.make_lock("k", {.ttl = 20s, .handover_time = 60s, .trace = second}));
    BOOST_REQUIRE(waits(o.client));
    BOOST_TEST(o.client.releases(held));
    auto given = wait_for_lease(o.client, next);
    BOOST_TEST(o.client.locks.stats().handovers == 1U);
    servers[0].freeze();
    BOOST_TEST(o.client.extend(given).code().failed());
    BOOST_TEST((o.seen.trace == second));
    o.seen.trace = {};
    BOOST_TEST(!o.client.releases(given));
    BOOST_TEST((o.seen.trace == second));
    servers[0].thaw();
}

BOOST_AUTO_TEST_CASE(an_instance_that_changes_is_told) {
    fleet servers(3);
    observed o(servers, trusting(hasty()));
    auto const name = o.client.status(2).address;
    BOOST_TEST(o.count(name + " connecting -> up") == 1U);
    servers[2].freeze();
    auto const held = o.client.hold("k"); // asks it
    BOOST_TEST(o.hears(name + " up -> suspect"));
    servers[2].thaw();
    BOOST_TEST(o.hears(name + " suspect -> up"));
    servers[2].kill();
    BOOST_TEST(o.hears(name + " up -> down"));
    servers[2].restart();
    BOOST_TEST(o.client.until([&] { return o.lines.back() == name + " down -> up"; }));
}

BOOST_AUTO_TEST_CASE(a_quarantine_is_told_and_its_end) {
    fleet servers(3);
    auto options = hasty();
    options.max_ttl = 1s;
    observed o(servers, options);
    auto const name = o.client.status(0).address;
    servers[0].kill();
    BOOST_TEST(o.hears(name + " up -> down"));
    servers[0].restart();
    BOOST_TEST(o.hears(name + " down -> quarantined"));
    BOOST_TEST(o.hears(name + " quarantined -> up"));
}

namespace {

class thrower final : public observer {
public:
    void on_acquired(acquired_event const&) override { throw std::runtime_error("no"); }
    void on_released(released_event const&) override { throw 7; }
    void on_instance(instance_event const&) override { throw std::runtime_error("no"); }
};

} // namespace

BOOST_AUTO_TEST_CASE(exceptions_of_an_observer_do_not_hurt) {
    fleet servers(3);
    thrower bad;
    auto options = patient();
    options.observer = &bad;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    auto const before = client.locks.stats().observer_failures;
    BOOST_TEST(before >= 3U);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.locks.stats().observer_failures == before + 2);
}

BOOST_AUTO_TEST_CASE(a_client_keeps_an_observer_alive_that_a_pointer_owns) {
    fleet servers(1);
    std::vector<std::string> lines;
    auto owned = std::make_shared<notes>(lines);
    std::weak_ptr<notes> const weak = owned;
    {
        auto options = patient();
        options.holder_label = "me";
        options.observer = owned.get();
        test_client client(servers, options);
        owned.reset();
        BOOST_TEST(!weak.expired());
        auto held = client.hold("k");
        BOOST_TEST(client.releases(held));
    }
    BOOST_TEST(weak.expired());
    BOOST_TEST(std::count(lines.begin(), lines.end(), "acquired k") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
