// client::release() with a token, and client::force_release().
#include <holdfast/key_report.hpp>

#include "integration/attempt.hpp"
#include "integration/foreign_client.hpp"
#include "integration/kinds.hpp"
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

error release(test_client& client, std::string_view key, std::string_view token) {
    auto done = false;
    error result;
    client.locks.release(key, token, [&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return result;
}

struct forced {
    error how;
    key_report before;
};

forced force(test_client& client, std::string_view key) {
    auto done = false;
    forced result;
    client.locks.force_release(key, [&](error e, key_report r) {
        result = {std::move(e), std::move(r)};
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return result;
}

/// A waiter has asked a server to push. The client's later commands come after that.
bool waits_for_a_push(fleet const& servers) {
    for (server& s : servers) {
        auto const stats = redis_cli(s).command({"INFO", "commandstats"}).string();
        if (contains(stats, "cmdstat_client|caching:")) return true;
    }
    return false;
}

std::string value_at(server& s, std::string const& key) {
    return redis_cli(s).get(key).value_or("");
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_releases)

BOOST_AUTO_TEST_CASE(a_token_releases_the_lock_of_another_program) {
    on_every_kind([](fleet& servers) {
        test_client holder(servers);
        test_client client(servers);
        client.runs_with(holder);
        BOOST_REQUIRE(client.all_up());
        auto held = holder.hold("k");
        BOOST_REQUIRE(holder.sees(servers, "k", true));
        auto const token = value_at(servers[0], "k");
        attempt waiter(holder, "k", long_lived);
        BOOST_TEST(!release(client, "k", token));
        BOOST_TEST(copies(servers, "k") == 0U);
        auto const again = release(client, "k", token);
        BOOST_TEST((again == errc::lease_lost), again.what());
        held = {};
        BOOST_TEST(client.until([&] { return waiter.won(); }));
    });
}

BOOST_AUTO_TEST_CASE(another_token_releases_nothing) {
    with_fleets_of({1, 3}, [](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        foreign_client(servers).hold("k");
        auto const how = release(client, "k", "another");
        BOOST_TEST((how == errc::lease_lost), how.what());
        BOOST_TEST((how == error_condition::not_held));
        BOOST_TEST(copies(servers, "k") == servers.size());
        for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
        BOOST_TEST((release(client, "list", "v") == errc::lease_lost));
        BOOST_TEST(copies(servers, "list") == servers.size());
    });
}

BOOST_AUTO_TEST_CASE(too_few_answers_confirm_no_release) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    BOOST_REQUIRE(client.all_up());
    foreign_client other(servers);
    other.hold("k");
    servers[2].kill();
    BOOST_REQUIRE(client.becomes(2, instance_state::down));
    BOOST_TEST(!release(client, "k", foreign_client::token));
    foreign_client(servers).hold("k");
    servers[1].kill();
    BOOST_REQUIRE(client.becomes(1, instance_state::down));
    auto const how = release(client, "k", foreign_client::token);
    BOOST_TEST((how == error_condition::unavailable), how.what());
    BOOST_REQUIRE(how.report() != nullptr);
    BOOST_TEST(contains(how.what(), client.status(1).address), how.what());
    BOOST_TEST(!contains(how.what(), foreign_client::token), how.what());
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
}

// As the release of a lease, it waits for an instance that cannot be reached.
BOOST_AUTO_TEST_CASE(an_instance_that_comes_back_gets_the_release) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses());
    BOOST_REQUIRE(client.all_up());
    foreign_client(servers).hold("k");
    proxies[2].down();
    BOOST_REQUIRE(client.becomes(2, instance_state::down));
    BOOST_TEST(!release(client, "k", foreign_client::token));
    BOOST_TEST(redis_cli(servers[2]).exists("k"));
    proxies[2].up();
    BOOST_TEST(client.sees(servers, "k", false));
}

BOOST_AUTO_TEST_CASE(a_token_is_checked_by_the_call) {
    server s;
    test_client client({s.address()});
    BOOST_CHECK_THROW(client.locks.release("k", "", [](error) {}), system_error);
    BOOST_CHECK_THROW(client.locks.release("", "t", [](error) {}), system_error);
    client.locks.close();
    BOOST_TEST((release(client, "k", "t") == errc::shut_down));
}

BOOST_AUTO_TEST_CASE(force_releases_the_lock_of_any_holder) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        foreign_client(servers).hold_for_ever("k");
        attempt waiter(client, "k", long_lived);
        BOOST_REQUIRE(client.until([&] { return waits_for_a_push(servers); }));
        auto const first = force(client, "k");
        BOOST_TEST(!first.how, first.how.what());
        BOOST_TEST((first.before.state == key_state::held), first.before);
        BOOST_TEST(client.until([&] { return waiter.won(); }));
        BOOST_TEST(client.releases(waiter.held));
        BOOST_REQUIRE(client.sees(servers, "k", false));
        auto const nothing = force(client, "k");
        BOOST_TEST(!nothing.how);
        BOOST_TEST((nothing.before.state == key_state::free));
    });
}

// With NOLOOP the server does not push a deletion to the client that made it. With one instance, a
// waiter would ask by itself only after 10 s.
BOOST_AUTO_TEST_CASE(force_wakes_the_waiters_of_its_own_client) {
    fleet servers(1);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    foreign_client(servers).hold_for_ever("k");
    attempt waiter(client, "k", long_lived);
    BOOST_REQUIRE(client.until([&] { return waits_for_a_push(servers); }));
    BOOST_TEST(!force(client, "k").how);
    BOOST_TEST(client.until([&] { return waiter.won(); }, 8s));
}

// The waiters of other processes are woken by the push.
BOOST_AUTO_TEST_CASE(force_wakes_the_waiters_of_other_clients) {
    fleet servers(3);
    test_client rival(servers);
    test_client client(servers);
    client.runs_with(rival);
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(rival.all_up());
    foreign_client(servers).hold_for_ever("k");
    attempt waiter(rival, "k", long_lived);
    BOOST_REQUIRE(client.until([&] { return waits_for_a_push(servers); }));
    BOOST_TEST(!force(client, "k").how);
    BOOST_TEST(client.until([&] { return waiter.won(); }));
    BOOST_TEST(rival.locks.stats().pushes > 0U);
}

// Left-over keys of several holders: each instance compares with the token that it had.
BOOST_AUTO_TEST_CASE(force_deletes_each_token_that_it_has_seen) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (std::size_t i = 0; i < 3; ++i) redis_cli(servers[i]).set("k", "of-" + std::to_string(i));
    auto const r = force(client, "k");
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.before.state == key_state::split), r.before);
    BOOST_TEST(copies(servers, "k") == 0U);
}

// Between the inspection and the deletion the lock changes hands.
BOOST_AUTO_TEST_CASE(force_does_not_harm_a_lock_that_came_meanwhile) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), without_questions());
    BOOST_REQUIRE(client.all_up());
    foreign_client other(servers);
    other.hold_for_ever("k");
    for (std::size_t i = 0; i < 3; ++i) proxies[i].hold_replies();
    auto done = false;
    forced result;
    client.locks.force_release("k", [&](error e, key_report r) {
        result = {std::move(e), std::move(r)};
        done = true;
    });
    // The inspection is eleven replies.
    BOOST_REQUIRE(client.until([&] {
        return proxies[0].replies_held() >= 11 && proxies[1].replies_held() >= 11 &&
               proxies[2].replies_held() >= 11;
    }));
    for (auto& cli : other.clis) cli.set("k", "of-the-next");
    for (std::size_t i = 0; i < 3; ++i) proxies[i].resume();
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST((result.how == errc::lease_lost), result.how.what());
    BOOST_TEST((result.before.state == key_state::held), result.before);
    for (server& s : servers) BOOST_TEST(value_at(s, "k") == "of-the-next");
}

// A person has seen the lock of one holder, and decides when another has it.
BOOST_AUTO_TEST_CASE(force_of_a_lock_that_was_seen_deletes_no_other) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    foreign_client(servers).hold_for_ever("k");
    key_report seen;
    client.locks.inspect("k", [&](error, key_report r) { seen = std::move(r); });
    BOOST_REQUIRE(client.until([&] { return seen.state == key_state::held; }));
    auto const try_it = [&] {
        auto done = false;
        forced result;
        client.locks.force_release("k", seen, [&](error e, key_report r) {
            result = {std::move(e), std::move(r)};
            done = true;
        });
        BOOST_REQUIRE(client.until([&] { return done; }));
        return result;
    };
    for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).set("k", "of-the-next");
    auto const second = try_it(); // one instance still has the key of the first
    BOOST_TEST(!second.how, second.how.what());
    BOOST_TEST(value_at(servers[0], "k") == "of-the-next");
    BOOST_TEST(value_at(servers[1], "k") == "of-the-next");
    BOOST_TEST(!redis_cli(servers[2]).exists("k"));
    auto const third = try_it();
    BOOST_TEST((third.how == errc::lease_lost), third.how.what());
    BOOST_TEST(contains(third.before.to_string(), "another lock than the one"), third.before);
    BOOST_TEST(copies(servers, "k") == 2U);
    seen = {};
    BOOST_TEST((try_it().how == errc::lease_lost)); // nothing was seen, so nothing is deleted
    BOOST_TEST(copies(servers, "k") == 2U);
}

BOOST_AUTO_TEST_CASE(force_deletes_a_key_with_an_empty_value) {
    on_oldest_and_newest([](server_kind const& kind) {
        fleet servers(3, {.kind = kind});
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        for (server& s : servers) redis_cli(s).set("empty", "");
        auto const done = force(client, "empty");
        BOOST_TEST(!done.how, done.how.what());
        BOOST_TEST((done.before.state == key_state::held), done.before);
        BOOST_TEST(!done.before.digest.empty());
        BOOST_TEST(copies(servers, "empty") == 0U);
    });
}

BOOST_AUTO_TEST_CASE(force_never_deletes_what_is_no_lock) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
    auto const list = force(client, "list");
    BOOST_TEST((list.how == errc::wrong_type), list.how.what());
    BOOST_TEST((list.before.state == key_state::not_a_lock), list.before);
    BOOST_TEST(copies(servers, "list") == 3U);
    for (server& s : servers) redis_cli(s).set("text", std::string(100, 'x'));
    auto const text = force(client, "text");
    BOOST_TEST((text.how == errc::no_quorum), text.how.what());
    BOOST_TEST(contains(text.before.to_string(), "longer than a token"), text.before);
    BOOST_TEST(copies(servers, "text") == 3U);
}

BOOST_AUTO_TEST_CASE(force_tells_when_too_few_instances_confirm) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    BOOST_REQUIRE(client.all_up());
    foreign_client(servers).hold("k");
    servers[2].kill();
    BOOST_REQUIRE(client.becomes(2, instance_state::down));
    BOOST_TEST(!force(client, "k").how);
    foreign_client(servers).hold("k");
    servers[1].kill();
    BOOST_REQUIRE(client.becomes(1, instance_state::down));
    auto const r = force(client, "k");
    BOOST_TEST((r.how == errc::no_quorum), r.how.what());
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
}

BOOST_AUTO_TEST_CASE(force_without_the_right_to_delete_says_so) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        r.give({"~*", "+info", "+set", "+eval", "+evalsha", "+pttl", "+type", "+getrange", "+get"});
        test_client client({r.redis.url()}, trusting(patient()));
        r.admin.command({"SET", "k", "somebody"});
        auto const refused = force(client, "k");
        BOOST_TEST((refused.how == errc::no_quorum), refused.how.what());
        BOOST_TEST(contains(refused.before.to_string(), "not deleted: "), refused.before);
        BOOST_TEST(r.admin.exists("k"));
    });
}

BOOST_AUTO_TEST_CASE(force_is_cancelled_while_it_inspects) {
    server s;
    test_client client({s.address()});
    BOOST_REQUIRE(client.all_up());
    redis_cli(s).set("k", "somebody");
    s.freeze();
    for (auto const type : every_type) {
        asio::cancellation_signal signal;
        auto done = false;
        error how;
        client.locks.force_release(
            "k", asio::bind_cancellation_slot(signal.slot(), [&](error e, key_report) {
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
    BOOST_TEST((force(client, "other").before.state == key_state::free));
    BOOST_TEST(redis_cli(s).exists("k"));
}

// The holder is not asked. It learns of the loss at its next extension.
BOOST_AUTO_TEST_CASE(a_holder_learns_of_a_forced_release_at_its_next_extension) {
    fleet servers(3);
    test_client holder(servers);
    test_client client(servers);
    client.runs_with(holder);
    BOOST_REQUIRE(client.all_up());
    auto held = holder.hold("k", {.ttl = renewed_ttl});
    std::optional<lease_end> end;
    held.wait_end(noting(end));
    BOOST_TEST(!force(client, "k").how);
    BOOST_TEST(held.held());
    BOOST_REQUIRE(client.until([&] { return end.has_value(); }));
    BOOST_TEST(*end == lease_end::key_gone);
    BOOST_TEST(!held.held());
}

BOOST_AUTO_TEST_SUITE_END()
