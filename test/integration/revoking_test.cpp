// client::revoke() of an exclusive lock: the holder learns of it and cannot extend, and nobody
// overlaps with it.
#include <holdfast/observer.hpp>

#include "integration/foreign_client.hpp"
#include "integration/kinds.hpp"
#include "integration/proxy_group.hpp"
#include "integration/restricted.hpp"
#include "integration/revocations.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Has the keys of the servers with the token of another program.
std::string value_at(server& s, std::string const& key) {
    return redis_cli(s).get(key).value_or("");
}

bool has_tombstone(server& s, std::string const& key) {
    return value_at(s, key).starts_with("revoked@");
}

std::size_t tombstones(fleet const& servers, std::string const& key) {
    std::size_t n = 0;
    for (server& s : servers) n += has_tombstone(s, key) ? 1 : 0;
    return n;
}

/// Longer than any pause of the machine, and short enough to wait for.
constexpr lock_options renewed{.ttl = renewed_ttl};

} // namespace

BOOST_AUTO_TEST_SUITE(revoking)

// I1: an inspection changes nothing. I2: the holder is told by its deadline, and cannot extend.
BOOST_AUTO_TEST_CASE(the_holder_is_told_and_cannot_extend) {
    on_every_kind([](fleet& servers) {
        test_client holder(servers, labelled("web-7")), ops(servers, labelled("ops"));
        holder.runs_with(ops);
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(ops.all_up());
        auto held = hold_everywhere(holder, servers, "k", renewed);
        auto const token = value_at(servers[0], "k");
        auto const seen = inspect(ops, "k");
        BOOST_TEST((seen.state == key_state::held), seen);
        BOOST_TEST(value_at(servers[0], "k") == token);
        auto const r = revoke(ops, seen);
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::revoked), r.after);
        BOOST_TEST(r.after.revoked_by == "ops");
        BOOST_TEST(r.after.digest == seen.digest);
        BOOST_TEST(r.after.holder == "");
        BOOST_REQUIRE(r.after.ttl_left.has_value());
        BOOST_TEST((*r.after.ttl_left <= renewed_ttl));
        BOOST_TEST(count_of(r.after, key_answer::kind::revoked) == servers.size());
        BOOST_TEST(tombstones(servers, "k") == servers.size());
        for (server& s : servers)
            BOOST_TEST(!contains(value_at(s, "k"), token.substr(token.size() - 16)));
        check_told(holder, held, "ops");
        BOOST_TEST((holder.extend(held) == errc::lease_lost));
        BOOST_TEST((holder.release(held) == errc::lease_lost));
        BOOST_TEST(ops.locks.stats().revocations == 1U);
        BOOST_TEST(holder.locks.stats().revoked == 1U);
        BOOST_TEST(holder.locks.stats().lost == 1U);
        std::ostringstream text;
        text << held;
        BOOST_TEST(contains(text.str(), "revoked by ops"), text.str());
        BOOST_TEST(ops.until([&] { return tombstones(servers, "k") == 0; }));
        check_nothing_left(ops, servers);
    });
}

BOOST_AUTO_TEST_CASE(on_any_number_of_instances) {
    with_fleets_of({1, 2, 4, 5}, [](fleet& servers) {
        test_client holder(servers), ops(servers, labelled("ops"));
        holder.runs_with(ops);
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(ops.all_up());
        auto held = hold_everywhere(holder, servers, "k", renewed);
        auto const r = revoke(ops, inspect(ops, "k"));
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::revoked), r.after);
        check_told(holder, held, "ops");
        check_nothing_left(ops, servers);
    });
}

// I3: nobody gets the key before the deadline of the holder that was revoked. The holder cannot
// hear of it, as a process that hangs.
BOOST_AUTO_TEST_CASE(nobody_gets_the_key_before_the_deadline_of_the_holder) {
    on_oldest_and_newest([](server_kind const& kind) {
        fleet servers(3, {.kind = kind});
        test_client holder(servers), ops(servers, labelled("ops")), next(servers);
        ops.runs_with(next);
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(ops.all_up());
        BOOST_REQUIRE(next.all_up());
        auto held = hold_everywhere(holder, servers, "k", renewed);
        attempt waiter(next, "k", long_lived);
        BOOST_REQUIRE(waits_for_push(next, servers));
        auto const r = revoke(ops, inspect(ops, "k"));
        BOOST_TEST(!r.how, r.how.what());
        auto const refused = ops.try_acquire("k");
        BOOST_TEST((refused.first == errc::contended), refused.first.what());
        BOOST_TEST(refused.first.report()->holder == "revoked@ops");
        // The holder does not run meanwhile. Its lease is held in its own eyes until the deadline.
        BOOST_REQUIRE(ops.until([&] { return waiter.done; }, 20s));
        BOOST_TEST(!waiter.how, waiter.how.what());
        BOOST_TEST((waiter.when >= held.deadline()));
        BOOST_TEST(!held.held());
        BOOST_TEST(next.releases(waiter.held));
    });
}

// The key's time to live is kept to the millisecond: I4.
BOOST_AUTO_TEST_CASE(a_tombstone_lasts_as_long_as_the_key_would_have) {
    on_every_kind([](fleet& servers) {
        test_client ops(servers, labelled("ops"));
        BOOST_REQUIRE(ops.all_up());
        foreign_client other(servers);
        other.hold("k", 60s);
        std::vector<std::int64_t> before, after;
        auto const ends = [&](std::vector<std::int64_t>& to) {
            for (auto& cli : other.clis) to.push_back(cli.command({"PEXPIRETIME", "k"}).integer());
        };
        ends(before);
        BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
        ends(after);
        BOOST_TEST(before == after, boost::test_tools::per_element());
        BOOST_TEST(tombstones(servers, "k") == servers.size());
    });
}

// A second revocation shortens and lengthens nothing, and is no error.
BOOST_AUTO_TEST_CASE(a_second_call_changes_nothing) {
    fleet servers(3);
    test_client ops(servers, labelled("ops")), other(servers, labelled("other"));
    BOOST_REQUIRE(ops.all_up());
    BOOST_REQUIRE(other.all_up());
    foreign_client(servers).hold("k");
    auto const seen = inspect(ops, "k");
    BOOST_TEST(!revoke(ops, seen).how);
    auto const tombstone = value_at(servers[0], "k");
    for (auto* const c : {&ops, &other}) {
        auto const again = revoke(*c, seen);
        BOOST_TEST(!again.how, again.how.what());
        BOOST_TEST(again.after.revoked_by == "ops");
        auto const by_digest = revoke(*c, "k", seen.digest);
        BOOST_TEST(!by_digest.how, by_digest.how.what());
        auto const of_revoked = revoke(*c, again.after);
        BOOST_TEST(!of_revoked.how, of_revoked.how.what());
    }
    for (server& s : servers) BOOST_TEST(value_at(s, "k") == tombstone);
    BOOST_TEST(ops.locks.stats().revocations == 1U);
    BOOST_TEST(other.locks.stats().revocations == 0U);
}

// A process that hangs is revoked, and wakes after its deadline: I5.
BOOST_AUTO_TEST_CASE(the_holder_does_not_touch_the_tombstone) {
    fleet servers(3);
    test_client holder(servers), ops(servers, labelled("ops"));
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    auto const tombstone = value_at(servers[0], "k");
    BOOST_TEST((holder.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::revoked));
    BOOST_TEST((holder.release(held) == errc::lease_lost));
    BOOST_TEST(holder.idle());
    auto down = false;
    holder.locks.shutdown([&](error) { down = true; });
    BOOST_REQUIRE(holder.until([&] { return down; }));
    for (server& s : servers) BOOST_TEST(value_at(s, "k") == tombstone);
}

// A release that comes before the extension leaves the tombstones, too.
BOOST_AUTO_TEST_CASE(a_release_leaves_the_tombstones) {
    fleet servers(3);
    test_client holder(servers), ops(servers, labelled("ops"));
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    BOOST_TEST((holder.release(held) == errc::lease_lost));
    BOOST_TEST(holder.idle());
    BOOST_TEST(tombstones(servers, "k") == 3U);
    auto const refused = holder.try_acquire("k");
    BOOST_TEST((refused.first == errc::contended), refused.first.what());
}

BOOST_AUTO_TEST_CASE(a_lease_that_was_revoked_cannot_be_adopted) {
    fleet servers(3);
    test_client holder(servers), ops(servers, labelled("ops"));
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    auto const token = held.token();
    held.detach();
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    auto done = false;
    error how;
    ops.locks.adopt("k", token, 60s, [&](error e, lease) {
        how = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(ops.until([&] { return done; }));
    BOOST_TEST((how == errc::lease_lost), how.what());
    BOOST_TEST(tombstones(servers, "k") == 3U);
}

// Only the holder that was seen: a newer one goes on.
BOOST_AUTO_TEST_CASE(a_newer_holder_is_not_touched) {
    fleet servers(3);
    test_client holder(servers), ops(servers, labelled("ops")), next(servers);
    holder.runs_with(ops);
    next.runs_with(holder);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    BOOST_REQUIRE(next.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    auto const seen = inspect(ops, "k");
    BOOST_TEST(holder.releases(held));
    BOOST_REQUIRE(holder.sees(servers, "k", false));
    auto const gone = revoke(ops, seen);
    BOOST_TEST((gone.how == errc::lease_lost), gone.how.what());
    BOOST_TEST((gone.after.state == key_state::free), gone.after);
    auto newer = hold_everywhere(next, servers, "k");
    auto const r = revoke(ops, seen);
    BOOST_TEST((r.how == errc::lease_lost), r.how.what());
    BOOST_TEST((r.after.state == key_state::held), r.after);
    BOOST_TEST(tombstones(servers, "k") == 0U);
    BOOST_TEST(!next.extend(newer));
    BOOST_TEST(next.releases(newer));
    BOOST_TEST(ops.locks.stats().revocations == 0U);
}

// The lock changes hands between the inspection and the revocation: the script compares.
BOOST_AUTO_TEST_CASE(a_holder_that_comes_in_the_middle_is_not_touched) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client ops(proxies.addresses(), without_questions());
    BOOST_REQUIRE(ops.all_up());
    foreign_client other(servers);
    other.hold("k");
    auto const seen = inspect(ops, "k");
    proxies.hold_replies();
    revocation r;
    ops.locks.revoke(seen, r.handler());
    BOOST_REQUIRE(ops.until([&] { return proxies.each_holds_a_reply(); }));
    BOOST_REQUIRE(ops.until([&] {
        return proxies[0].replies_held() >= 11 && proxies[1].replies_held() >= 11 &&
               proxies[2].replies_held() >= 11;
    }));
    for (auto& cli : other.clis) cli.set("k", "of-the-next", 60s);
    proxies.resume();
    BOOST_REQUIRE(ops.until([&] { return r.done; }));
    BOOST_TEST((r.how == errc::lease_lost), r.how.what());
    for (server& s : servers) BOOST_TEST(value_at(s, "k") == "of-the-next");
}

BOOST_AUTO_TEST_CASE(a_minority_that_hangs_is_no_obstacle) {
    fleet servers(3);
    test_client holder(servers, unhurried()), ops(servers, labelled("ops", unhurried()));
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k", {.ttl = 20s});
    servers[2].freeze();
    auto const r = revoke(ops, "k", inspect(ops, "k").digest);
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.after.state == key_state::revoked), r.after);
    for (auto const i : {0U, 1U}) BOOST_TEST(has_tombstone(servers[i], "k"));
    check_told(holder, held, "ops");
    servers[2].thaw();
}

// Two of three instances are down: one tombstone. The holder loses nothing by that alone. The
// second call completes the first.
BOOST_AUTO_TEST_CASE(a_second_call_completes_a_revocation) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client holder(servers), ops(proxies.addresses(), labelled("ops", hasty()));
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    auto const seen = inspect(ops, "k");
    for (auto const i : {1U, 2U}) proxies[i].down();
    for (auto const i : {1U, 2U}) BOOST_REQUIRE(ops.becomes(i, instance_state::down));
    auto const first = revoke(ops, seen);
    BOOST_TEST((first.how == error_condition::unavailable), first.how.what());
    BOOST_TEST((first.after.state == key_state::unknown), first.after);
    BOOST_TEST((first.after.instances[0].found == key_answer::kind::revoked), first.after);
    BOOST_TEST(tombstones(servers, "k") == 1U);
    BOOST_TEST(ops.locks.stats().revocations == 0U);
    BOOST_TEST(!holder.extend(held));
    BOOST_TEST(has_tombstone(servers[0], "k")); // healed by nobody
    BOOST_TEST(held.held());
    for (auto const i : {1U, 2U}) proxies[i].up();
    BOOST_REQUIRE(ops.all_up());
    auto const second = revoke(ops, seen);
    BOOST_TEST(!second.how, second.how.what());
    BOOST_TEST(tombstones(servers, "k") == 3U);
    BOOST_TEST((holder.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::revoked));
    BOOST_TEST(held.revoked_by() == "ops");
}

// A tombstone at a minority has gone with its ttl. A loss that comes later has nothing to do with
// it. The lease is healed nowhere: the next tombstone of the same revocation may be under way.
BOOST_AUTO_TEST_CASE(a_part_of_a_revocation_is_forgotten) {
    fleet servers(3);
    test_client holder(servers);
    BOOST_REQUIRE(holder.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    redis_cli first(servers[0]);
    test_client ops({servers[0].address()}, labelled("ops"));
    BOOST_REQUIRE(ops.all_up());
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    BOOST_TEST(!holder.extend(held));
    BOOST_TEST(has_tombstone(servers[0], "k"));
    // Each instance has answered, so the holder has seen the tombstone.
    BOOST_TEST(inspect(holder, "k").instances.size() == 3U);
    first.del("k");
    BOOST_TEST(!holder.extend(held));
    // It goes over the same connection, behind a healing.
    BOOST_TEST(inspect(holder, "k").instances.size() == 3U);
    BOOST_TEST(!first.get("k"));
    BOOST_TEST(!holder.extend(held));
    for (server& s : servers) redis_cli(s).del("k");
    BOOST_TEST((holder.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::key_gone), held.ended_by());
    BOOST_TEST(held.revoked_by() == "");
}

// The tombstone is seen by the adoption alone.
BOOST_AUTO_TEST_CASE(an_adopted_lease_is_not_healed_after_a_part_of_a_revocation) {
    fleet servers(3);
    test_client holder(servers), next(servers);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(next.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    auto const token = held.token();
    held.detach();
    test_client ops({servers[0].address()}, labelled("ops"));
    BOOST_REQUIRE(ops.all_up());
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    auto done = false;
    lease adopted;
    next.locks.adopt("k", token, 60s, [&](error e, lease l) {
        BOOST_TEST(!e, e.what());
        adopted = std::move(l);
        done = true;
    });
    BOOST_REQUIRE(next.until([&] { return done; }));
    BOOST_TEST(inspect(next, "k").instances.size() == 3U);
    redis_cli first(servers[0]);
    first.del("k");
    BOOST_TEST(!next.extend(adopted));
    BOOST_TEST(inspect(next, "k").instances.size() == 3U);
    BOOST_TEST(!first.get("k"));
}

// The tombstone is that of another holder, which had the key after ours was lost there.
BOOST_AUTO_TEST_CASE(the_tombstone_of_another_holder_is_none_of_ours) {
    fleet servers(3);
    test_client holder(servers), ops(servers, labelled("ops"));
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k");
    for (server& s : servers) redis_cli(s).set("k", "of-another", 60s);
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    BOOST_TEST((holder.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::key_gone), held.ended_by());
    BOOST_TEST(held.revoked_by() == "");
}

BOOST_AUTO_TEST_CASE(the_lock_of_another_library) {
    on_every_kind([](fleet& servers) {
        test_client ops(servers, labelled("ops"));
        BOOST_REQUIRE(ops.all_up());
        foreign_client other(servers);
        other.hold("k");
        auto const r = revoke(ops, inspect(ops, "k"));
        BOOST_TEST(!r.how, r.how.what());
        for (auto& cli : other.clis) {
            BOOST_TEST(!cli.del_if_equal("k", foreign_client::token));
            BOOST_TEST(!cli.set_if_absent("k", "another", 1s));
        }
        BOOST_TEST(tombstones(servers, "k") == servers.size());
    });
}

// It stays closed, and the report does not say until when.
BOOST_AUTO_TEST_CASE(a_key_that_never_expires_stays_closed) {
    fleet servers(3);
    test_client ops(servers, labelled("ops"));
    BOOST_REQUIRE(ops.all_up());
    foreign_client(servers).hold_for_ever("k");
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.after.state == key_state::revoked), r.after);
    BOOST_TEST(!r.after.ttl_left.has_value());
    for (server& s : servers) BOOST_TEST((redis_cli(s).pttl("k").count() == -1));
    auto done = false;
    ops.locks.force_release("k", [&](error e, key_report) {
        BOOST_TEST(!e, e.what());
        done = true;
    });
    BOOST_REQUIRE(ops.until([&] { return done; }));
    BOOST_TEST(copies(servers, "k") == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_no_lock_stays_as_it_is) {
    fleet servers(3);
    test_client ops(servers, labelled("ops"));
    BOOST_REQUIRE(ops.all_up());
    for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
    auto const list = revoke(ops, "list", "0123456789abcdef");
    BOOST_TEST((list.how == errc::wrong_type), list.how.what());
    BOOST_TEST((list.after.state == key_state::not_a_lock), list.after);
    for (server& s : servers) redis_cli(s).set("text", std::string(100, 'x'));
    auto const text = revoke(ops, inspect(ops, "text"));
    BOOST_TEST((text.how == errc::no_quorum), text.how.what());
    BOOST_TEST(contains(text.after.to_string(), "longer than a token"), text.after);
    for (server& s : servers) BOOST_TEST(value_at(s, "text") == std::string(100, 'x'));
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused_by_the_call) {
    fleet servers(1);
    auto options = labelled("ops");
    options.key_prefix = "app:";
    test_client ops(servers, options);
    BOOST_REQUIRE(ops.all_up());
    auto const code_of = [](auto const& call) {
        try {
            call();
        } catch (system_error const& e) {
            return e.code();
        }
        return error_code();
    };
    auto const ignore = [](error, key_report) {};
    for (auto const* const digest : {"", "0123", "0123456789ABCDEF", "0123456789abcdef0"}) {
        BOOST_TEST(
            (code_of([&] { ops.locks.revoke("k", digest, ignore); }) == errc::invalid_options));
    }
    BOOST_TEST(
        (code_of([&] { ops.locks.revoke("", "0123456789abcdef", ignore); }) == errc::invalid_key));
    auto const free = inspect(ops, "k");
    BOOST_TEST((code_of([&] { ops.locks.revoke(free, ignore); }) == errc::invalid_options));
    auto elsewhere = free;
    elsewhere.key = "other:k";
    BOOST_TEST((code_of([&] { ops.locks.revoke(elsewhere, ignore); }) == errc::invalid_key));
    // With the prefix of the client.
    redis_cli(servers[0]).set("app:k", "of-another", 60s);
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST(has_tombstone(servers[0], "app:k"));
    auto reserved = patient();
    reserved.holder_label = "revoked@me";
    BOOST_TEST((code_of([&] { test_client(servers, reserved); }) == errc::invalid_options));
    ops.locks.close();
    BOOST_TEST((revoke(ops, "k", "0123456789abcdef").how == errc::shut_down));
}

// The label of the longest size: the tombstone has as much of it as a token has room for.
BOOST_AUTO_TEST_CASE(a_long_label_is_cut) {
    fleet servers(1);
    test_client holder(servers), ops(servers, labelled(std::string(max_label_size, 'x')));
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k", renewed);
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST(value_at(servers[0], "k").size() == max_token_size);
    check_told(holder, held, std::string(max_label_size - 8, 'x'));
}

// Without a label the holder still knows how its lease ended.
BOOST_AUTO_TEST_CASE(a_client_without_a_label_revokes) {
    fleet servers(3);
    test_client holder(servers), ops(servers);
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k", renewed);
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.after.state == key_state::revoked), r.after);
    BOOST_TEST(r.after.revoked_by == "");
    check_told(holder, held, "");
}

// A client may revoke its own lease, and hears of it as any other.
BOOST_AUTO_TEST_CASE(a_client_revokes_its_own_lease) {
    fleet servers(3);
    test_client c(servers, labelled("web-7"));
    BOOST_REQUIRE(c.all_up());
    auto held = hold_everywhere(c, servers, "k", renewed);
    auto const r = revoke(c, inspect(c, "k"));
    BOOST_TEST(!r.how, r.how.what());
    check_told(c, held, "web-7");
}

// With NOLOOP the server does not push the change to the client that made it.
BOOST_AUTO_TEST_CASE(a_watch_shows_a_revocation) {
    fleet servers(3);
    test_client ops(servers, labelled("ops", without_questions())), other(servers);
    ops.runs_with(other);
    BOOST_REQUIRE(ops.all_up());
    BOOST_REQUIRE(other.all_up());
    foreign_client(servers).hold("k");
    auto const seen = inspect(ops, "k");
    revocation own, foreign;
    ops.locks.wait_change("k", seen, own.handler());
    other.locks.wait_change("k", seen, foreign.handler());
    BOOST_REQUIRE(ops.until([&] { return tracked_keys(servers) >= 6; }));
    BOOST_TEST(!revoke(ops, seen).how);
    BOOST_REQUIRE(ops.until([&] { return own.done && foreign.done; }));
    // The first change may be a tombstone at one instance.
    for (auto* const each : {&own, &foreign}) {
        auto& by = each == &own ? ops : other;
        while (each->after.state != key_state::revoked) {
            auto const last = std::move(each->after);
            each->done = false;
            by.locks.wait_change("k", last, each->handler());
            BOOST_REQUIRE(ops.until([&] { return each->done; }));
        }
        BOOST_TEST(each->after.revoked_by == "ops");
    }
}

BOOST_AUTO_TEST_CASE(waiters_of_the_same_client_get_the_key_after_the_ttl) {
    fleet servers(3);
    test_client ops(servers, labelled("ops", without_questions()));
    BOOST_REQUIRE(ops.all_up());
    foreign_client other(servers);
    other.hold("k", renewed_ttl);
    attempt waiter(ops, "k", long_lived);
    BOOST_REQUIRE(waits_for_push(ops, servers));
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    auto const expiry = other.expiry("k");
    BOOST_REQUIRE(ops.until([&] { return waiter.done; }));
    BOOST_TEST(waiter.won(), waiter.how.what());
    BOOST_TEST((waiter.when >= expiry - 20ms)); // the witness asked later than it says
    BOOST_TEST(ops.releases(waiter.held));
}

// The events of both sides.
BOOST_AUTO_TEST_CASE(observers_hear_of_it) {
    struct witness : observer {
        void on_lost(lost_event const& e) override {
            cause = e.cause;
            by = e.revoked_by;
        }
        void on_revoked(revoked_event const& e) override {
            ++revoked;
            key = e.key;
            holder = e.holder;
            label = e.holder_label;
            digest = e.digest;
            closed = e.closed_for.has_value();
        }
        lease_end cause{};
        int revoked = 0;
        bool closed = false;
        std::string by, key, holder, label, digest;
    };
    fleet servers(3);
    witness of_holder, of_ops;
    auto first = labelled("web-7"), second = labelled("ops");
    first.observer = &of_holder;
    second.observer = &of_ops;
    test_client holder(servers, first), ops(servers, second);
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = hold_everywhere(holder, servers, "k", renewed);
    auto const seen = inspect(ops, "k");
    BOOST_TEST(!revoke(ops, seen).how);
    check_told(holder, held, "ops");
    BOOST_TEST((of_holder.cause == lease_end::revoked));
    BOOST_TEST(of_holder.by == "ops");
    BOOST_TEST(of_holder.revoked == 0);
    BOOST_TEST(of_ops.revoked == 1);
    BOOST_TEST(of_ops.key == "k");
    BOOST_TEST(of_ops.holder == "web-7");
    BOOST_TEST(of_ops.label == "ops");
    BOOST_TEST(of_ops.digest == seen.digest);
    BOOST_TEST(of_ops.closed);
}

BOOST_AUTO_TEST_CASE(a_call_is_cancelled_before_it_revokes) {
    for (auto const type : every_type) {
        fleet servers(3);
        proxy_group proxies(servers);
        test_client ops(proxies.addresses(), labelled("ops", without_questions()));
        BOOST_REQUIRE(ops.all_up());
        foreign_client(servers).hold("k");
        auto const seen = inspect(ops, "k");
        proxies.hold_replies();
        asio::cancellation_signal signal;
        revocation r;
        ops.locks.revoke(seen, asio::bind_cancellation_slot(signal.slot(), r.handler()));
        BOOST_REQUIRE(ops.until([&] { return proxies.each_holds_a_reply(); }));
        signal.emit(type);
        BOOST_REQUIRE(ops.until([&] { return r.done; }));
        BOOST_TEST((r.how == errc::cancelled), r.how.what());
        proxies.resume();
        BOOST_TEST(!inspect(ops, "k").digest.empty());
        BOOST_TEST(tombstones(servers, "k") == 0U);
    }
}

// Later a cancellation has no effect.
BOOST_AUTO_TEST_CASE(a_revocation_under_way_is_not_cancelled) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client ops(proxies.addresses(), labelled("ops", without_questions()));
    BOOST_REQUIRE(ops.all_up());
    foreign_client(servers).hold("k");
    auto const seen = inspect(ops, "k");
    asio::cancellation_signal signal;
    revocation r;
    ops.locks.revoke(seen, asio::bind_cancellation_slot(signal.slot(), r.handler()));
    BOOST_REQUIRE(ops.until([&] { return tombstones(servers, "k") > 0; }));
    if (!r.done) signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(ops.until([&] { return r.done; }));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST(tombstones(servers, "k") == 3U);
}

// The right to run scripts is withdrawn, or that to SET within them.
BOOST_AUTO_TEST_CASE(a_refusal_by_the_servers_is_told) {
    on_two_servers([](server_kind const& kind) {
        for (auto const* const right : {"-set", "-evalsha"}) {
            BOOST_TEST_CONTEXT(right) {
                restricted r(kind);
                test_client ops({address(r.redis.url())}, labelled("ops"));
                BOOST_REQUIRE(ops.all_up());
                if (right == std::string("-evalsha")) r.change("-eval");
                r.change(right);
                r.admin.command({"SET", "k", "somebody", "PX", "60000"});
                auto const refused = revoke(ops, inspect(ops, "k"));
                BOOST_TEST((refused.how == errc::access_denied), refused.how.what());
                BOOST_TEST(contains(refused.after.to_string(), "not revoked: "), refused.after);
                BOOST_TEST(r.admin.get("k").value_or("") == "somebody");
                // Locks lack nothing that they have not asked for.
                BOOST_TEST(lack_of(ops, degradation::no_acquire) == "");
            }
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
