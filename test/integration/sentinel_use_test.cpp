// Locks on the primary that Sentinel names, while no data server fails.
#include "integration/attempt.hpp"
#include "integration/sentinels.hpp"
#include "integration/test_client.hpp"
#include "support/certificates.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// `primary`: one that sends the push.
void check_locks_work(test_client& a, test_client& b, redis_cli primary) {
    a.runs_with(b);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto l = a.hold("seat", {.ttl = 30s, .fencing = true});
    auto [refused, none] = b.try_acquire("seat");
    BOOST_TEST((refused == errc::contended), refused.what());
    attempt waiting(b, "seat", {.ttl = 30s, .fencing = true});
    BOOST_REQUIRE(waits(b));
    BOOST_REQUIRE(b.until([&] { return primary.info("tracking_total_keys") != "0"; }));
    auto const fence = l.fence();
    BOOST_TEST(a.releases(l));
    auto m = wait_for_lease(b, waiting);
    BOOST_TEST(m.fence() > fence);
    BOOST_TEST(b.locks.stats().pushes > 0U);
    BOOST_TEST(b.status(0).degradations.empty());
    BOOST_TEST(!b.extend(m));
    BOOST_TEST(b.releases(m));
}

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_use)

BOOST_AUTO_TEST_CASE(clients_acquire_contend_and_wait_by_push) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(options);
        test_client a({address(group.url())}), b({address(group.url())});
        check_locks_work(a, b, group.cli(0));
        auto const s = a.status(0);
        BOOST_TEST(s.primary == group.member(0).address());
        BOOST_TEST(s.address == address(group.url()).to_string());
        BOOST_TEST(a.idle());
        BOOST_TEST(group.cli(0).dbsize() == 1); // the counter of the fences
        check_no_refusals(group);
    });
}

BOOST_AUTO_TEST_CASE(sentinels_have_a_user_of_their_own_and_all_use_tls) {
    on_failover_kinds([](sentinel_group_options options) {
        options.tls = make_certificates("IP:127.0.0.1");
        options.sentinel_user =
            login{.user = "watch", .password = "w@tch", .rules = sentinel_rules};
        sentinel_group group(options);
        test_client a({address(group.url())}), b({address(group.url())});
        check_locks_work(a, b, group.cli(0));
        BOOST_TEST(contains(a.status(0).tls, "TLS"), a.status(0).tls);
        for (std::size_t i = 0; i < group.sentinels(); ++i) {
            auto const log = group.sentinel_cli(i).command({"ACL", "LOG"});
            BOOST_TEST((log.is_array() && log.elements().empty()));
        }
        check_no_refusals(group);
    });
}

BOOST_AUTO_TEST_CASE(without_each_right_at_the_sentinels_the_refusal_is_told) {
    for (auto const* const right : {"+sentinel|myid", "+sentinel|master", "+sentinel|sentinels",
                                    "+sentinel|get-master-addr-by-name"}) {
        BOOST_TEST_CONTEXT(right) {
            auto rules = sentinel_rules;
            std::erase(rules, right);
            auto options = small();
            options.sentinels = 1;
            options.quorum = 1;
            options.sentinel_user = login{.user = "watch", .password = "w@tch", .rules = rules};
            sentinel_group group(options);
            test_client a({address(group.url())}, alert(60s));
            BOOST_TEST(a.goes_down(0, errc::access_denied));
            BOOST_TEST(contains(a.status(0).message, "NOPERM"), a.status(0).message);
        }
    }
}

BOOST_AUTO_TEST_CASE(sentinels_that_refuse_to_announce_are_told) {
    auto rules = sentinel_rules;
    std::erase(rules, "+subscribe");
    auto options = small();
    options.sentinels = 1;
    options.quorum = 1;
    options.sentinel_user = login{.user = "watch", .password = "w@tch", .rules = rules};
    sentinel_group group(options);
    test_client a({address(group.url())}, alert(60s));
    auto const told = [&] {
        auto const s = a.status(0);
        auto const found = std::ranges::find(s.degradations, degradation::no_announcements,
                                             &instance_degradation::kind);
        return found != s.degradations.end() && contains(found->message, "SUBSCRIBE") &&
               contains(found->message, group.sentinel(0).address());
    };
    BOOST_TEST(a.until(told));
    auto held = a.hold("seat");
    BOOST_TEST(a.releases(held));
    group.sentinel_cli(0).command({"ACL", "SETUSER", "watch", "+subscribe"});
    group.sentinel_cli(0).command({"CLIENT", "KILL", "USER", "watch"});
    BOOST_TEST(a.until([&] { return a.status(0).degradations.empty(); }, 20s));
}

BOOST_AUTO_TEST_CASE(a_wrong_password_is_told_without_it) {
    auto options = small();
    options.sentinel_user = login{.user = "watch", .password = "w@tch", .rules = sentinel_rules};
    sentinel_group group(options);
    auto parts = address(group.url()).parts();
    parts.sentinel_credentials.password = "hunter2";
    test_client a({address(parts)}, alert(60s));
    BOOST_CHECK(a.goes_down(0, errc::access_denied));
    auto const s = a.status(0);
    BOOST_TEST(contains(s.message, "WRONGPASS"), s.message);
    BOOST_TEST(!contains(s.message, "hunter2"), s.message);
    auto const [e, l] = a.try_acquire("seat");
    BOOST_TEST((e == errc::access_denied), e.what());
    BOOST_TEST(!contains(e.what(), "hunter2"), e.what());
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_told_by_each_sentinel) {
    auto options = small();
    sentinel_group group(options);
    auto parts = address(group.url()).parts();
    parts.primary_name = "others";
    test_client a({address(parts)}, alert(60s));
    BOOST_REQUIRE(a.goes_down(0, errc::no_sentinel_majority));
    auto const [e, l] = a.acquire("seat");
    BOOST_TEST((e == errc::no_sentinel_majority), e.what());
    BOOST_TEST((e == error_condition::unavailable));
    for (std::size_t i = 0; i < 3; ++i) {
        auto const text = group.sentinel(i).address() + " knows no primary of this name";
        BOOST_TEST(contains(e.what(), text), e.what());
    }
}

BOOST_AUTO_TEST_CASE(a_client_learns_the_sentinels_that_it_was_not_told_of) {
    auto options = small();
    sentinel_group group(options);
    test_client a({address(group.url({0}))}, alert(60s));
    BOOST_REQUIRE(a.all_up());
    // The one that it was told of is one of three, so its word is not enough.
    group.sentinel(1).kill();
    group.sentinel(2).kill();
    BOOST_REQUIRE(
        a.until([&] { return a.status(0).reason == make_error_code(errc::no_sentinel_majority); }));
    BOOST_TEST(contains(a.status(0).message, "2 of 3 sentinels"), a.status(0).message);
    BOOST_TEST(contains(a.status(0).message, "names " + group.member(0).address()),
               a.status(0).message);
    auto const [e, l] = a.try_acquire("seat");
    BOOST_TEST((e == errc::no_sentinel_majority), e.what());
    // With the learned ones it has a majority again.
    group.sentinel(1).restart();
    group.sentinel(0).kill();
    group.sentinel(2).restart();
    BOOST_TEST(a.all_up());
    auto m = a.hold("seat");
    BOOST_TEST(a.releases(m));
}

BOOST_AUTO_TEST_CASE(garbage_from_a_sentinel_is_no_vote) {
    auto options = small();
    sentinel_group group(options);
    for (auto const how : all_behaviours) {
        BOOST_TEST_CONTEXT(how) {
            fake_server bad(how), worse(how), worst(how);
            auto parts = address(group.url()).parts();
            parts.hosts[2] = {.host = "127.0.0.1", .port = bad.port()};
            test_client a({address(parts)}, alert(60s));
            BOOST_REQUIRE(a.all_up());
            auto l = a.hold("seat");
            BOOST_TEST(a.releases(l));

            parts.hosts[0].port = worse.port();
            parts.hosts[1].port = worst.port();
            test_client b({address(parts)}, alert(60s));
            BOOST_TEST(b.until([&] { return b.status(0).state == instance_state::down; }));
            auto const [e, none] = b.try_acquire("seat");
            BOOST_TEST((e == error_condition::unavailable), e.what());
        }
    }
}

BOOST_AUTO_TEST_CASE(an_instance_behind_sentinel_votes_beside_plain_servers) {
    auto options = small();
    sentinel_group group(options);
    fleet plain(2);
    std::vector<address> mixed{address(group.url())};
    for (auto const& url : plain.urls()) mixed.emplace_back(url);
    test_client a(mixed, alert(60s)), b(mixed, alert(60s));
    a.runs_with(b);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto l = a.hold("seat", {.ttl = 30s});
    BOOST_TEST(a.sees(plain, "seat", true));
    BOOST_TEST(group.cli(0).exists("seat"));
    // Without the primary there is a quorum: two of three.
    group.member(0).kill();
    auto m = a.hold("other", {.ttl = 30s});
    BOOST_TEST(!a.extend(l));
    BOOST_TEST(a.releases(l));
    BOOST_TEST(a.releases(m));
}

BOOST_AUTO_TEST_CASE(five_deployments_are_a_redlock) {
    auto options = small();
    options.sentinels = 1;
    options.quorum = 1;
    std::vector<std::unique_ptr<sentinel_group>> groups;
    std::vector<address> all;
    for (int i = 0; i < 5; ++i) {
        groups.push_back(std::make_unique<sentinel_group>(options));
        all.push_back(address(groups.back()->url()));
    }
    test_client a(all, alert(60s)), b(all, alert(60s));
    a.runs_with(b);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    groups[0]->member(0).kill();
    groups[1]->member(0).kill();
    auto l = a.hold("seat", {.ttl = 30s});
    auto [refused, none] = b.try_acquire("seat");
    BOOST_TEST((refused == errc::contended), refused.what());
    BOOST_TEST(a.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
