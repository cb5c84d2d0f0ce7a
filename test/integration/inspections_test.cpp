// client::inspect(): the state of a key, without a lock.
#include <holdfast/key_report.hpp>

#include "integration/attempt.hpp"
#include "integration/foreign_client.hpp"
#include "integration/guards.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct inspected {
    error how;
    key_report report;
};

inspected inspect(test_client& client, std::string_view key) {
    inspected result;
    auto done = false;
    client.locks.inspect(key, [&](error e, key_report r) {
        result = {std::move(e), std::move(r)};
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return result;
}

key_report report_on(test_client& client, std::string_view key) {
    auto [e, report] = inspect(client, key);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    return report;
}

std::size_t count_of(key_report const& r, key_answer::kind k) {
    return static_cast<std::size_t>(std::count_if(r.instances.begin(), r.instances.end(),
                                                  [k](auto const& i) { return i.found == k; }));
}

client_options labelled(std::string_view label) {
    auto options = patient();
    options.holder_label = label;
    return options;
}

} // namespace

BOOST_AUTO_TEST_SUITE(inspections)

BOOST_AUTO_TEST_CASE(a_free_key_is_free) {
    fleet servers(5);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::free), r);
    BOOST_TEST(r.key == "k");
    BOOST_TEST(r.quorum == 3U);
    BOOST_TEST(r.holder.empty());
    BOOST_TEST(r.digest.empty());
    BOOST_TEST(r.fence == 0U);
    BOOST_REQUIRE(r.instances.size() == 5U);
    for (auto const& i : r.instances) {
        BOOST_TEST((i.found == key_answer::kind::absent), r);
        BOOST_TEST(i.round_trip.count() > 0);
    }
    // The question took no lock, and left nothing.
    for (auto& s : servers) BOOST_TEST(!redis_cli(s).exists("k"));
    BOOST_TEST(client.locks.stats().rounds == 0U);
}

BOOST_AUTO_TEST_CASE(a_held_key_shows_its_holder_and_no_token) {
    fleet servers(5);
    test_client holder(servers, labelled("web-7"));
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(holder.all_up());
    auto held = holder.hold("k");
    BOOST_REQUIRE(holder.sees(servers, "k", true));
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(r.holder == "web-7");
    BOOST_TEST(count_of(r, key_answer::kind::present) == 5U);
    BOOST_REQUIRE(r.ttl_left.has_value());
    BOOST_TEST((*r.ttl_left <= long_lived.ttl));
    BOOST_TEST((*r.ttl_left > 0ms));
    auto const token = redis_cli(servers[0]).get("k").value();
    BOOST_TEST(r.digest.size() == 16U);
    std::ostringstream shown;
    shown << r;
    BOOST_TEST(!contains(shown.str(), token.substr(token.find(':') + 1)), shown.str());
    BOOST_TEST(contains(shown.str(), "held by web-7"), shown.str());
    // For the holder's client it is its own.
    BOOST_TEST(report_on(holder, "k").holder == "this client");
    BOOST_TEST(report_on(holder, "k").digest == r.digest);
    BOOST_TEST(holder.releases(held));
    BOOST_REQUIRE(holder.sees(servers, "k", false));
    BOOST_TEST((report_on(client, "k").state == key_state::free));
}

BOOST_AUTO_TEST_CASE(a_fence_tells_since_when) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const before = std::chrono::system_clock::now();
    auto held = client.hold("k", {.ttl = 60s, .fencing = true});
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(r.fence <= held.fence());
    BOOST_TEST(held.fence() < r.fence + 100);
    BOOST_REQUIRE(r.since.has_value());
    BOOST_TEST((*r.since >= before - 1ms));
    BOOST_TEST((*r.since <= std::chrono::system_clock::now()));
    BOOST_TEST(client.releases(held));
    // The counter outlives the lock.
    auto const after = report_on(client, "k");
    BOOST_TEST((after.state == key_state::free), after);
    BOOST_TEST(after.fence == r.fence);
    BOOST_TEST(!after.since.has_value());
}

BOOST_AUTO_TEST_CASE(the_prefix_belongs_to_the_key) {
    server s;
    auto options = patient();
    options.key_prefix = "app:";
    test_client client({s.address()}, options);
    auto held = client.hold("k");
    auto const r = report_on(client, "k");
    BOOST_TEST(r.key == "app:k");
    BOOST_TEST((r.state == key_state::held));
    BOOST_CHECK_EXCEPTION((void)client.locks.inspect(""), system_error,
                          [](system_error const& e) { return e.code() == errc::invalid_key; });
}

// The heart of it: nobody is told "free" because instances are missing.
BOOST_AUTO_TEST_CASE(missing_instances_are_told_and_never_make_a_key_free) {
    fleet servers(5);
    test_client client(servers, trusting(hasty()));
    BOOST_REQUIRE(client.all_up());
    servers[3].kill();
    servers[4].freeze();
    BOOST_REQUIRE(client.goes_down(3, errc::unreachable));
    auto r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::free), r); // three of five have no key
    BOOST_TEST(count_of(r, key_answer::kind::absent) == 3U);
    BOOST_TEST(!r.instances[3].message.empty());
    BOOST_TEST(!r.instances[4].message.empty());
    servers[2].kill();
    BOOST_REQUIRE(client.goes_down(2, errc::unreachable));
    r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::unknown), r);
    BOOST_TEST(count_of(r, key_answer::kind::absent) == 2U);
    servers[4].thaw();
}

BOOST_AUTO_TEST_CASE(left_over_keys_are_no_holder) {
    fleet servers(5);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (std::size_t i = 0; i < 4; ++i) {
        redis_cli(servers[i]).command({"SET", "k", i < 2 ? "one" : "two", "PX", "60000"});
    }
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::split), r);
    BOOST_TEST(r.holder.empty());
    BOOST_TEST(r.instances[0].digest == r.instances[1].digest);
    BOOST_TEST(r.instances[0].digest != r.instances[2].digest);
}

BOOST_AUTO_TEST_CASE(a_key_that_never_expires_has_no_time_left) {
    server s;
    test_client client({s.address()});
    redis_cli(s).command({"SET", "k", "somebody"});
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(!r.ttl_left.has_value());
    BOOST_TEST(r.instances[0].ttl_known);
    BOOST_TEST(contains(r.to_string(), "never expires"), r);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_is_told_as_such) {
    server s;
    test_client client({s.address()});
    redis_cli(s).command({"RPUSH", "k", "v"});
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::not_a_lock), r);
    BOOST_TEST(contains(r.to_string(), "the key holds a list, not a lock"), r);
}

BOOST_AUTO_TEST_CASE(an_instance_that_may_have_forgotten_keys_does_not_say_free) {
    server s;
    auto options = patient();
    options.on_restart = restart_policy::strict;
    test_client client({s.address()}, options);
    BOOST_REQUIRE(client.until([&] { return is_quarantined(client, 0); }));
    auto const r = report_on(client, "k");
    BOOST_TEST((r.state == key_state::unknown), r);
    BOOST_TEST(contains(r.instances[0].message, "does not count"), r);
}

BOOST_AUTO_TEST_CASE(missing_rights_leave_gaps) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        r.give({"~*", "+info", "+set", "+eval", "+evalsha", "+type"});
        test_client client({r.redis.url()}, trusting(patient()));
        r.admin.command({"SET", "k", "somebody"});
        auto const held = report_on(client, "k");
        BOOST_TEST((held.instances.at(0).found == key_answer::kind::present), held);
        BOOST_TEST((held.state == key_state::unknown), held); // the token is not shown
        BOOST_TEST((report_on(client, "none").state == key_state::free));
        r.give({"~*", "+info", "+set", "+eval", "+evalsha"});
        test_client blind({r.redis.url()}, trusting(patient()));
        auto const nothing = report_on(blind, "k");
        BOOST_TEST((nothing.state == key_state::unknown), nothing);
        BOOST_TEST(contains(nothing.instances.at(0).message, "NOPERM"), nothing);
    });
}

BOOST_AUTO_TEST_CASE(an_inspection_is_cancelled_and_refused_as_each_call) {
    server s;
    test_client client({s.address()});
    BOOST_REQUIRE(client.all_up());
    s.freeze();
    for (auto const type : every_type) {
        asio::cancellation_signal signal;
        auto done = false;
        error how;
        client.locks.inspect("k",
                             asio::bind_cancellation_slot(signal.slot(), [&](error e, key_report) {
                                 how = std::move(e);
                                 done = true;
                             }));
        client.context.restart();
        client.context.poll();
        signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return done; }));
        BOOST_TEST((how == errc::cancelled), how.what());
    }
    s.thaw();
    client.locks.close();
    BOOST_TEST((inspect(client, "k").how == errc::shut_down));
}

BOOST_AUTO_TEST_SUITE_END()
