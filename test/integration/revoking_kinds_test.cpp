// client::revoke() of the other kinds of lock: readers and writers, fair locks, locks on several
// keys.
#include "integration/kinds.hpp"
#include "integration/readers_writers.hpp"
#include "integration/revocations.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options renewed{.ttl = renewed_ttl};

std::vector<std::string> members(server& s) {
    std::vector<std::string> all;
    auto const reply = redis_cli(s).command({"ZRANGE", readers_of_k, "0", "-1"});
    for (auto const& each : reply.elements()) all.push_back(each.string());
    return all;
}

std::size_t tombstones_among(server& s) {
    auto const all = members(s);
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [](auto const& m) { return m.starts_with("revoked@"); }));
}

/// The digest of the reader with this label.
std::string digest_of(key_report const& r, std::string_view label) {
    auto const found = std::ranges::find(r.readers, label, &key_user::holder);
    BOOST_REQUIRE_MESSAGE(found != r.readers.end(), r);
    return found->digest;
}

/// A permit of the semaphore "k", once it is on all servers as the last of `count`.
lease permit_of(test_client& c, fleet const& servers, std::int64_t count) {
    attempt a;
    a.start(c.locks.make_semaphore("k", 2, renewed));
    auto held = wait_for_lease(c, a);
    BOOST_REQUIRE(c.until([&] {
        for (server& s : servers)
            if (redis_cli(s).command({"ZCARD", "k"}).integer() != count) return false;
        return true;
    }));
    return held;
}

} // namespace

BOOST_AUTO_TEST_SUITE(revoking_kinds)

// One of two readers is revoked. The other goes on, new readers come, and a writer waits for the
// time of the tombstone.
BOOST_AUTO_TEST_CASE(one_reader_is_revoked_and_the_others_go_on) {
    on_every_kind([](fleet& servers) {
        test_client first(servers, labelled("first")), second(servers, labelled("second")),
            ops(servers, labelled("ops")), writer(servers);
        first.runs_with(second);
        ops.runs_with(first);
        ops.runs_with(second);
        ops.runs_with(writer);
        for (auto* const c : {&first, &second, &ops, &writer}) BOOST_REQUIRE(c->all_up());
        auto gone = reads_everywhere(first, servers, renewed);
        auto stays = reads_everywhere(second, servers, renewed);
        auto const seen = inspect(ops, "k");
        BOOST_REQUIRE(seen.readers.size() == 2U);
        auto const r = revoke(ops, "k", digest_of(seen, "first"));
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::held), r.after);
        auto const at = std::ranges::find(r.after.readers, true, &key_user::revoked);
        BOOST_REQUIRE((at != r.after.readers.end()));
        BOOST_TEST(at->holder == "revoked@ops");
        BOOST_TEST(at->digest == digest_of(seen, "first"));
        for (server& s : servers) BOOST_TEST(tombstones_among(s) == 1U);
        check_told(first, gone, "ops");
        BOOST_TEST(!second.extend(stays));
        auto newcomer = reads(ops, renewed);
        BOOST_TEST(ops.releases(newcomer));
        BOOST_TEST(second.releases(stays));
        BOOST_TEST(second.idle());
        // The last reader has left. The tombstone keeps writers out.
        attempt waits;
        waits.start(page(writer).write());
        BOOST_REQUIRE(ops.until([&] { return waits.done; }, 20s));
        BOOST_TEST(waits.won(), waits.how.what());
        BOOST_TEST((waits.when >= gone.deadline()));
        BOOST_TEST(writer.releases(waits.held));
        check_only_turns_left(ops, servers);
    });
}

// An instance shows 64 readers, those that stay longest.
BOOST_AUTO_TEST_CASE(a_reader_that_is_not_shown_is_not_revoked_and_the_report_says_why) {
    fleet servers(3);
    test_client reader(servers), ops(servers, labelled("ops"));
    ops.runs_with(reader);
    for (auto* const c : {&reader, &ops}) BOOST_REQUIRE(c->all_up());
    auto held = reads_everywhere(reader, servers);
    auto const digest = inspect(ops, "k").readers.at(0).digest;
    command_line others{"ZADD", readers_of_k};
    for (int i = 0; i < 64; ++i) {
        others.emplace_back("9999999999999");
        others.push_back("other" + std::to_string(i));
    }
    for (server& s : servers) BOOST_TEST(redis_cli(s).command(others).integer() == 64);
    auto const r = revoke(ops, "k", digest);
    BOOST_TEST((r.how == errc::no_quorum), r.how.what());
    for (auto const& each : r.after.instances)
        BOOST_TEST(each.message == "not revoked: it has more readers than it shows");
    for (server& s : servers) BOOST_TEST(tombstones_among(s) == 0U);
    BOOST_TEST(!reader.extend(held));
    BOOST_TEST(reader.releases(held));
}

// The reader hangs: nobody writes before its deadline.
BOOST_AUTO_TEST_CASE(no_writer_comes_before_the_deadline_of_a_reader) {
    on_oldest_and_newest([](server_kind const& kind) {
        fleet servers(3, {.kind = kind});
        test_client reader(servers), ops(servers, labelled("ops")), writer(servers);
        ops.runs_with(writer);
        for (auto* const c : {&reader, &ops, &writer}) BOOST_REQUIRE(c->all_up());
        auto held = reads_everywhere(reader, servers, renewed);
        attempt waits;
        waits.start(page(writer).write());
        auto const r = revoke(ops, inspect(ops, "k"));
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::revoked), r.after);
        BOOST_TEST(r.after.revoked_by == "ops");
        BOOST_REQUIRE(r.after.ttl_left.has_value());
        BOOST_TEST((*r.after.ttl_left <= renewed_ttl));
        BOOST_REQUIRE(ops.until([&] { return waits.done; }, 20s));
        BOOST_TEST(waits.won(), waits.how.what());
        BOOST_TEST((waits.when >= held.deadline()));
        BOOST_TEST(writer.releases(waits.held));
    });
}

// All that the report shows are revoked by one call.
BOOST_AUTO_TEST_CASE(all_readers_are_revoked_by_one_call) {
    fleet servers(3);
    test_client first(servers), second(servers), ops(servers, labelled("ops"));
    ops.runs_with(first);
    ops.runs_with(second);
    for (auto* const c : {&first, &second, &ops}) BOOST_REQUIRE(c->all_up());
    auto one = reads_everywhere(first, servers), two = reads_everywhere(second, servers);
    auto const seen = inspect(ops, "k");
    auto const r = revoke(ops, seen);
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.after.state == key_state::revoked), r.after);
    BOOST_TEST(ops.locks.stats().revocations == 2U);
    BOOST_TEST((first.extend(one) == errc::lease_lost));
    BOOST_TEST((second.extend(two) == errc::lease_lost));
    BOOST_TEST((one.ended_by() == lease_end::revoked));
    BOOST_TEST((two.ended_by() == lease_end::revoked));
    auto const again = revoke(ops, seen);
    BOOST_TEST(!again.how, again.how.what());
    BOOST_TEST(ops.locks.stats().revocations == 2U);
}

// A reader that was revoked at a minority is not healed there: its token would come back.
BOOST_AUTO_TEST_CASE(a_reader_is_not_healed_beside_its_tombstone) {
    fleet servers(3);
    test_client reader(servers), ops({servers[0].url()}, labelled("ops"));
    for (auto* const c : {&reader, &ops}) BOOST_REQUIRE(c->all_up());
    auto held = reads_everywhere(reader, servers);
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    BOOST_TEST(!reader.extend(held));
    BOOST_TEST(!reader.extend(held));
    BOOST_TEST(reader.idle() == false);
    BOOST_TEST(members(servers[0]).size() == 1U);
    BOOST_TEST(tombstones_among(servers[0]) == 1U);
    test_client all(servers, labelled("all"));
    BOOST_REQUIRE(all.all_up());
    auto const r = revoke(all, inspect(all, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((reader.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::revoked));
}

BOOST_AUTO_TEST_CASE(a_writer_is_revoked) {
    on_every_kind([](fleet& servers) {
        test_client writer(servers), ops(servers, labelled("ops")), reader(servers);
        ops.runs_with(writer);
        ops.runs_with(reader);
        for (auto* const c : {&writer, &ops, &reader}) BOOST_REQUIRE(c->all_up());
        auto held = writes_everywhere(writer, servers, renewed);
        attempt waits;
        waits.start(page(reader).read());
        auto const r = revoke(ops, inspect(ops, "k"));
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::revoked), r.after);
        check_told(writer, held, "ops");
        BOOST_REQUIRE(ops.until([&] { return waits.done; }, 20s));
        BOOST_TEST(waits.won(), waits.how.what());
        BOOST_TEST((waits.when >= held.deadline()));
        BOOST_TEST(reader.releases(waits.held));
    });
}

BOOST_AUTO_TEST_CASE(a_writer_that_has_become_a_reader_is_revoked) {
    fleet servers(3);
    test_client c(servers), ops(servers, labelled("ops"));
    ops.runs_with(c);
    for (auto* const each : {&c, &ops}) BOOST_REQUIRE(each->all_up());
    auto held = writes_everywhere(c, servers);
    BOOST_TEST(!downgrade(c, held));
    BOOST_TEST(!c.extend(held));
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((c.extend(held) == errc::lease_lost));
    BOOST_TEST((held.ended_by() == lease_end::revoked), held.ended_by());
}

// Readers of one process share one token: all of them are told.
BOOST_AUTO_TEST_CASE(readers_of_one_process_are_revoked_together) {
    fleet servers(3);
    test_client c(servers), ops(servers, labelled("ops"));
    ops.runs_with(c);
    for (auto* const each : {&c, &ops}) BOOST_REQUIRE(each->all_up());
    auto one = reads_everywhere(c, servers, renewed);
    auto two = reads(c, renewed);
    BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
    check_told(c, one, "ops");
    check_told(c, two, "ops");
    BOOST_TEST(c.locks.stats().revoked == 2U);
}

// One of two permits is revoked. The other goes on. The slot of the first stays closed for its
// time, and then goes to the next.
BOOST_AUTO_TEST_CASE(one_permit_is_revoked_and_the_others_go_on) {
    on_every_kind([](fleet& servers) {
        test_client first(servers, labelled("first")), second(servers, labelled("second")),
            ops(servers, labelled("ops"));
        first.runs_with(second);
        ops.runs_with(first);
        ops.runs_with(second);
        for (auto* const c : {&first, &second, &ops}) BOOST_REQUIRE(c->all_up());
        auto gone = permit_of(first, servers, 1);
        auto stays = permit_of(second, servers, 2);
        auto const seen = inspect(ops, "k");
        BOOST_REQUIRE_MESSAGE(seen.permits.size() == 2U, seen);
        auto const its = std::ranges::find(seen.permits, "first", &key_user::holder);
        BOOST_REQUIRE_MESSAGE(its != seen.permits.end(), seen);
        BOOST_TEST((its->slot == gone.slot()));
        auto const r = revoke(ops, "k", its->digest);
        BOOST_TEST(!r.how, r.how.what());
        BOOST_TEST((r.after.state == key_state::held), r.after);
        auto const closed = std::ranges::find(r.after.permits, true, &key_user::revoked);
        BOOST_REQUIRE_MESSAGE(closed != r.after.permits.end(), r.after);
        BOOST_TEST(closed->holder == "revoked@ops");
        BOOST_TEST(closed->digest == its->digest);
        BOOST_TEST((closed->slot == gone.slot()));
        check_told(first, gone, "ops");
        BOOST_TEST(!second.extend(stays));
        auto const again = revoke(ops, "k", its->digest);
        BOOST_TEST(!again.how, again.how.what());
        BOOST_TEST(ops.locks.stats().revocations == 1U);
        attempt next;
        next.start(ops.locks.make_semaphore("k", 2, renewed));
        BOOST_REQUIRE(ops.until([&] { return next.done; }, 20s));
        BOOST_TEST(next.won(), next.how.what());
        BOOST_TEST((next.when >= gone.deadline()));
        BOOST_TEST((next.held.slot() == gone.slot()));
        BOOST_TEST(ops.releases(next.held));
        BOOST_TEST(second.releases(stays));
        check_nothing_left(ops, servers);
    });
}

BOOST_AUTO_TEST_CASE(all_permits_are_revoked_by_one_call) {
    fleet servers(3);
    test_client first(servers), second(servers), ops(servers, labelled("ops"));
    ops.runs_with(first);
    ops.runs_with(second);
    for (auto* const c : {&first, &second, &ops}) BOOST_REQUIRE(c->all_up());
    auto one = permit_of(first, servers, 1), two = permit_of(second, servers, 2);
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST(ops.locks.stats().revocations == 2U);
    BOOST_TEST((first.extend(one) == errc::lease_lost));
    BOOST_TEST((second.extend(two) == errc::lease_lost));
    BOOST_TEST((one.ended_by() == lease_end::revoked));
    BOOST_TEST((two.ended_by() == lease_end::revoked));
}

BOOST_AUTO_TEST_CASE(a_fair_lock_is_revoked) {
    on_every_kind([](fleet& servers) {
        lock_options const fair{.ttl = renewed_ttl, .fair = true};
        test_client holder(servers), ops(servers, labelled("ops")), next(servers), last(servers);
        for (auto* const c : {&holder, &next, &last}) ops.runs_with(*c);
        for (auto* const c : {&holder, &ops, &next, &last}) BOOST_REQUIRE(c->all_up());
        auto held = hold_everywhere(holder, servers, "k", fair);
        attempt second(next, "k", fair);
        BOOST_REQUIRE(waits(next));
        attempt third(last, "k", fair);
        BOOST_REQUIRE(waits(last));
        BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
        check_told(holder, held, "ops");
        BOOST_REQUIRE(ops.until([&] { return second.done || third.done; }, 20s));
        auto& first_of_both = second.done ? second : third;
        auto& other = second.done ? third : second;
        BOOST_TEST(first_of_both.won(), first_of_both.how.what());
        BOOST_TEST((first_of_both.when >= held.deadline()));
        BOOST_TEST((second.done ? next : last).releases(first_of_both.held));
        BOOST_REQUIRE(ops.until([&] { return other.done; }, 20s));
        BOOST_TEST(other.won(), other.how.what());
    });
}

// To revoke one key ends the lease, whose other keys are released.
BOOST_AUTO_TEST_CASE(one_key_of_several_is_revoked) {
    on_every_kind([](fleet& servers) {
        test_client holder(servers), ops(servers, labelled("ops"));
        holder.runs_with(ops);
        for (auto* const c : {&holder, &ops}) BOOST_REQUIRE(c->all_up());
        attempt both;
        both.start(holder.locks.make_multi_lock({"a", "b"}, renewed));
        auto held = wait_for_lease(holder, both);
        BOOST_REQUIRE(holder.sees(servers, "a", true));
        BOOST_REQUIRE(holder.sees(servers, "b", true));
        auto const r = revoke(ops, inspect(ops, "b"));
        BOOST_TEST(!r.how, r.how.what());
        check_told(holder, held, "ops");
        BOOST_TEST(holder.sees(servers, "a", false));
        BOOST_TEST((inspect(ops, "b").state != key_state::held));
        check_nothing_left(ops, servers);
    });
}

BOOST_AUTO_TEST_SUITE_END()
