// client::inspect(), wait_change(), list(), release() and force_release() for a semaphore, reports
// of refused acquires, and the rights that a semaphore needs.
#include <holdfast/key_report.hpp>
#include <holdfast/list_report.hpp>

#include "integration/attempt.hpp"
#include "integration/client_group.hpp"
#include "integration/key_reports.hpp"
#include "integration/kinds.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view key = "workers";

lock pool(test_client& c, unsigned permits = 2, lock_options const& options = long_lived) {
    return c.locks.make_semaphore(key, permits, options);
}

lease hold(test_client& c, lock const& which) {
    attempt a;
    a.start(which);
    return wait_for_lease(c, a);
}

bool has(key_report const& r, std::size_t permits) {
    return r.counted() && r.permits.size() == permits;
}

std::vector<std::string> list(test_client& c, std::string_view prefix) {
    auto done = false;
    list_report result;
    c.locks.list(prefix, [&](error e, list_report r) {
        BOOST_TEST(!e, e.what());
        result = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    BOOST_TEST(result.complete);
    return result.keys;
}

error try_once(test_client& c, lock const& which) {
    attempt a;
    a.start_try(which);
    BOOST_REQUIRE(c.until([&] { return a.done; }));
    return a.how;
}

} // namespace

BOOST_AUTO_TEST_SUITE(permit_reports)

BOOST_AUTO_TEST_CASE(a_report_names_the_slots_and_their_holders_and_shows_no_token) {
    on_every_kind([](fleet& servers) {
        three_clients c(servers);
        auto first = hold(c.one, pool(c.one, 3));
        auto second = hold(c.two, pool(c.two, 3, {.ttl = 30s}));
        auto const r = inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 2); });
        BOOST_TEST((r.state == key_state::held), r);
        BOOST_TEST(!r.shared());
        BOOST_TEST((r.permit_count == 2U));
        BOOST_TEST(r.permits[0].slot.value() < r.permits[1].slot.value());
        for (auto const& each : r.permits) {
            auto const is_first = each.slot == first.slot();
            BOOST_TEST((is_first || each.slot == second.slot()));
            BOOST_TEST(each.holder == (is_first ? "web-1" : "web-2"));
            BOOST_REQUIRE(each.ttl_left.has_value());
            BOOST_TEST((*each.ttl_left <= (is_first ? 60s : 30s)));
            BOOST_TEST((*each.ttl_left > (is_first ? 30s : 10s)));
        }
        BOOST_TEST((*r.ttl_left > 60s)); // the key outlives them
        auto const said = r.to_string();
        BOOST_TEST(contains(said, "held by 2 permits ("), said);
        for (auto const* const l : {&first, &second}) {
            auto const token = l->token().value;
            BOOST_TEST(!contains(said, token.substr(token.find(':') + 1)), said);
        }
        auto const own = inspect(c.one, key).permits;
        BOOST_TEST(std::ranges::count(own, "this client", &key_user::holder) == 1);
        // The end of one changes nothing for the other.
        BOOST_TEST(c.one.releases(first));
        auto const rest = inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 1); });
        BOOST_TEST(rest.permits[0].holder == "web-2");
        BOOST_TEST(c.two.releases(second));
        inspect_until(c.asks, key, [](auto const& seen) { return seen.state == key_state::free; });
    });
}

BOOST_AUTO_TEST_CASE(permits_that_come_and_go_are_a_change) {
    fleet servers(3);
    three_clients c(servers);
    auto const next = [&](key_report const& last) { return next_report(c.asks, key, last); };
    auto const until = [&](key_report seen, std::size_t permits) {
        while (!has(seen, permits)) seen = next(seen);
        return seen;
    };
    auto seen = inspect(c.asks, key);
    BOOST_TEST((seen.state == key_state::free), seen);
    auto first = hold(c.one, pool(c.one));
    seen = until(seen, 1);
    auto second = hold(c.two, pool(c.two));
    seen = until(seen, 2);
    BOOST_TEST(c.one.releases(first));
    seen = until(seen, 1);
    BOOST_TEST(c.two.releases(second));
    while (seen.state != key_state::free) seen = next(seen);
}

BOOST_AUTO_TEST_CASE(no_more_permits_are_shown_than_are_of_use) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    redis_cli cli(servers[0]);
    for (auto i = 0; i < 200; ++i) {
        auto const token = "p" + std::to_string(i) + ':' + std::string(32, 'a');
        (void)cli.command({"ZADD", "workers", std::to_string(i), token});
        (void)cli.command({"ZADD", "{workers}:until", "9999999999999", token});
    }
    auto const r = inspect(client, key);
    BOOST_TEST(r.counted(), r);
    BOOST_TEST((r.permit_count == 200U));
    BOOST_TEST(r.permits.size() == key_answer::max_readers);
    // Their time has passed: nobody holds one.
    for (auto i = 0; i < 200; ++i) {
        auto const token = "p" + std::to_string(i) + ':' + std::string(32, 'a');
        if (i < 190) (void)cli.command({"ZREM", "workers", token});
        if (i < 190) (void)cli.command({"ZREM", "{workers}:until", token});
        if (i >= 190) (void)cli.command({"ZADD", "{workers}:until", "5", token});
    }
    auto const over = inspect(client, key);
    BOOST_TEST((over.state == key_state::split), over);
    BOOST_TEST((over.instances[0].permit_count == 0U));
    // A sorted set of another program.
    BOOST_TEST(cli.del("{workers}:until"));
    auto const other = inspect(client, key);
    BOOST_TEST((other.state == key_state::not_a_lock), other);
    BOOST_TEST((force(client, key) == errc::wrong_type));
    BOOST_TEST(cli.exists("workers"));
}

BOOST_AUTO_TEST_CASE(a_forced_release_ends_all_permits_that_were_seen) {
    on_every_kind([](fleet& servers) {
        three_clients c(servers);
        // An instance that has just learned a script may be without the permit.
        for (auto* const each : {&c.one, &c.two}) {
            auto learns = hold(*each, pool(*each, 3, {.ttl = 60s, .fencing = each == &c.one}));
            BOOST_TEST(each->releases(learns));
        }
        auto first = hold(c.one, pool(c.one, 3, {.ttl = 60s, .fencing = true}));
        // Where the second comes before the first, they have each other's slots, and one goes. An
        // extension heals an instance that lacks one.
        auto const everywhere = [&](test_client& owner, lease& last, std::size_t permits) {
            return inspect_until(c.asks, key, [&, permits](auto const& r) {
                auto const extended = owner.extend(last);
                BOOST_TEST(!extended, extended.what());
                return has(r, permits) && std::ranges::all_of(r.instances, [=](auto const& i) {
                           return i.found == key_answer::kind::permits && i.permit_count == permits;
                       });
            });
        };
        auto const seen = everywhere(c.one, first, 1);
        auto second = hold(c.two, pool(c.two, 3));
        everywhere(c.two, second, 2);
        // One has come since.
        BOOST_TEST((force(c.asks, key, seen) == errc::lease_lost));
        BOOST_TEST(has(inspect(c.asks, key), 2));
        auto const both = inspect(c.asks, key);
        BOOST_TEST(!force(c.asks, key, both));
        BOOST_TEST((inspect(c.asks, key).state == key_state::free));
        std::size_t counters = 0;
        for (std::size_t i = 0; i < servers.size(); ++i) {
            redis_cli cli(servers[i]);
            BOOST_TEST(!cli.exists("workers"));
            BOOST_TEST(!cli.exists("{workers}:until"));
            counters += cli.exists("{workers}:fences") ? 1 : 0;
        }
        BOOST_TEST(counters > servers.size() / 2); // fences go on from there
        auto third = hold(c.asks, pool(c.asks, 1));
        BOOST_TEST((third.slot() == 0U));
        BOOST_TEST(c.asks.releases(third));
        (void)c.one.releases(first);
        (void)c.two.releases(second);
        auto const idle = force(c.asks, key); // there is nothing
        BOOST_TEST(!idle, idle.what());
    });
}

BOOST_AUTO_TEST_CASE(a_list_has_the_keys_of_semaphores_and_of_no_other_sorted_sets) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto plain = client.hold("worker");
        auto one = hold(client, pool(client));
        auto two = hold(client, client.locks.make_semaphore("work{a}", 3, long_lived));
        auto other = hold(client, client.locks.make_semaphore("other", 3, long_lived));
        redis_cli cli(servers[0]);
        (void)cli.command({"ZADD", "workload", "1", "x"});
        (void)cli.command({"ZADD", "workload:until", "1", "x"});
        BOOST_TEST(list(client, "work") ==
                       (std::vector<std::string>{"worker", "workers", "work{a}"}),
                   boost::test_tools::per_element());
        for (auto* const l : {&plain, &one, &two, &other}) BOOST_TEST(client.releases(*l));
    });
}

//
// Refused acquires
//

BOOST_AUTO_TEST_CASE(who_is_refused_learns_whose_permit_ends_first) {
    fleet servers(3);
    three_clients c(servers);
    auto first = hold(c.one, pool(c.one, 2));
    auto second = hold(c.two, pool(c.two, 2, {.ttl = 30s}));
    inspect_until(c.asks, key, [](auto const& r) { return has(r, 2); });
    auto const how = try_once(c.asks, pool(c.asks, 2));
    BOOST_TEST((how == errc::contended), how.what());
    BOOST_TEST(contains(how.what(), "web-2"), how.what());
    BOOST_TEST(c.one.releases(first));
    BOOST_TEST(c.two.releases(second));
}

// Of another kind, in both directions.
BOOST_AUTO_TEST_CASE(a_key_of_another_kind_is_told_as_such) {
    fleet servers(3);
    three_clients c(servers);
    auto permit = hold(c.one, pool(c.one, 2));
    inspect_until(c.asks, key, [](auto const& r) { return has(r, 1); });
    auto const plain = try_once(c.asks, c.asks.locks.make_lock("workers", long_lived));
    BOOST_TEST((plain == errc::wrong_type), plain.what());
    BOOST_TEST(contains(plain.what(), "semaphore"), plain.what());
    BOOST_TEST(c.one.releases(permit));
    auto held = c.two.hold("workers");
    auto const counted = try_once(c.asks, pool(c.asks, 2));
    BOOST_TEST((counted == errc::wrong_type), counted.what());
    BOOST_TEST(contains(counted.what(), "another kind of lock, of web-2"), counted.what());
    BOOST_TEST(c.two.releases(held));
}

//
// Rights
//

// Exactly what doc/production.md names for permits, with a prefix.
BOOST_AUTO_TEST_CASE(with_the_documented_rights_and_no_others) {
    on_oldest_and_newest([](server_kind const& kind) {
        restricted r(kind);
        auto rules = access::keys("app:");
        for (auto const& more : {access::permit_keys("app:"), access::locks, access::pushes,
                                 access::reports, access::guards, access::permits}) {
            rules.insert(rules.end(), more.begin(), more.end());
        }
        r.give(rules);
        auto options = patient();
        options.key_prefix = "app:";
        client_group group({address(r.redis.url())}, 2, options);
        auto const fenced = lock_options{.ttl = 60s, .fencing = true};
        std::vector<lock> both;
        for (auto& each : group.clients) both.push_back(each->make_semaphore("k", 1, fenced));
        attempt first, refused, second;
        first.start(both[0]);
        BOOST_REQUIRE(group.until([&] { return first.done; }));
        BOOST_TEST(first.won(), first.how.what());
        refused.start_try(both[1]);
        BOOST_REQUIRE(group.until([&] { return refused.done; }));
        BOOST_TEST((refused.how == errc::contended), refused.how.what());
        second.start(both[1]);
        BOOST_REQUIRE(group.until([&] { return group.clients[1]->stats().waiters == 1; }));
        auto extended = false;
        first.held.extend([&](error e) {
            BOOST_TEST(!e, e.what());
            extended = true;
        });
        BOOST_REQUIRE(group.until([&] { return extended; }));
        first.held = {};
        BOOST_REQUIRE(group.until([&] { return second.done; }));
        BOOST_TEST(second.won(), second.how.what());
        second.held = {};
        BOOST_TEST(group.idle());
        BOOST_TEST(group.sees_no_locks(r.redis));
        BOOST_TEST(r.redis.refusals() == std::vector<std::string>{},
                   boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_is_needed_an_acquire_fails_at_once) {
    on_two_servers([](server_kind const& kind) {
        for (auto const* const missing : {"+time", "+zadd", "+zrangebyscore"}) {
            BOOST_TEST_CONTEXT(missing) {
                restricted r(kind, {missing});
                test_client p({r.redis.url()});
                BOOST_REQUIRE(p.all_up());
                attempt a;
                a.start(pool(p));
                BOOST_REQUIRE(p.until([&] { return a.done; }));
                BOOST_TEST((a.how == errc::access_denied), a.how.what());
                BOOST_TEST(contains(a.how.what(), "\"workers\""), a.how.what());
                BOOST_TEST(!lack_of(p, degradation::no_acquire).empty());
                BOOST_TEST(r.admin.keys().empty());
            }
        }
        // Without a look at a full semaphore, the report lacks the holder.
        restricted r(kind);
        test_client one({r.redis.url()}, labelled("web-1")), two({r.redis.url()});
        one.runs_with(two);
        auto held = hold(one, pool(one, 1));
        r.change("-type");
        r.change("-getrange");
        auto const how = try_once(two, pool(two, 1));
        BOOST_TEST((how == errc::contended), how.what());
        BOOST_TEST(contains(how.what(), "web-1"), how.what());
        BOOST_TEST(one.releases(held));
    });
}

BOOST_AUTO_TEST_SUITE_END()
