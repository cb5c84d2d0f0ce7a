// Groups with Sentinel do as the other tests expect.
#include <holdfast/address.hpp>

#include "integration/kinds.hpp"
#include "support/certificates.hpp"
#include "support/redis_cli.hpp"
#include "support/sentinel_group.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;
using options_type = sentinel_group_options;

namespace {

login const clerk{"clerk", "p@ss:word/%", {"~*", "&*", "+@all", "-@admin"}};
login const watcher{"watcher", "s€cret", {"&*", "+@all"}};

// The clock of a server against that of this process, in whole seconds.
std::chrono::seconds clock_shift(redis_cli cli) {
    auto const time = cli.command({"TIME"});
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    auto const theirs = std::chrono::seconds{std::stoll(time.elements().at(0).string())} +
                        std::chrono::microseconds{std::stoll(time.elements().at(1).string())};
    return std::chrono::round<std::chrono::seconds>(theirs - now);
}

void check_replication(sentinel_group& group, std::string const& key) {
    auto const primary = group.primary();
    group.cli(primary).set(key, "v");
    for (std::size_t i = 0; i < group.members(); ++i) {
        redis_cli cli = group.cli(i);
        BOOST_TEST(wait_until([&] { return cli.exists(key); }));
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_groups)

BOOST_AUTO_TEST_CASE(every_kind_starts_and_all_sentinels_know_all) {
    on_kinds<options_type>(available_servers(), [](options_type const& options) {
        sentinel_group group(options);
        BOOST_TEST(group.members() == 3U);
        BOOST_TEST(group.primary() == 0U);
        BOOST_TEST(group.role(0) == "master");
        BOOST_TEST(group.role(1) == "slave");
        for (std::size_t i = 0; i < group.sentinels(); ++i) {
            redis_cli cli = group.sentinel_cli(i);
            BOOST_TEST(
                cli.command({"SENTINEL", "CKQUORUM", "orders"}).string().starts_with("OK 3"));
            BOOST_TEST(cli.command({"SENTINEL", "REPLICAS", "orders"}).elements().size() == 2U);
            BOOST_CHECK((group.named_by(i) == sentinel_group::named{group.port(0), 0}));
        }
        check_replication(group, "k");
        BOOST_TEST(group.cli(0).command({"CONFIG", "GET", "save"}).elements().at(1).string() == "");
        auto const loads = group.cli(1).command({"CONFIG", "GET", "repl-diskless-load"});
        BOOST_TEST(loads.elements().at(1).string() == "disabled");
    });
}

BOOST_AUTO_TEST_CASE(a_kill_is_followed_by_a_failover) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        sentinel_group group(options);
        check_replication(group, "k");
        auto const before = group.majority().value();
        group.member(0).kill();
        auto const after = group.wait_for_switch(before);
        BOOST_TEST(after.epoch > before.epoch);
        auto const primary = group.member_at(after.port);
        BOOST_TEST(primary != 0U);
        BOOST_TEST(group.role(primary) == "master");
        BOOST_TEST(group.cli(primary).exists("k"));
        group.member(0).restart();
        BOOST_TEST(group.role(0) == "master"); // empty, until Sentinel demotes it
        BOOST_TEST(group.cli(0).dbsize() == 0);
        group.member(primary).kill();
        group.member(primary).restart();
        BOOST_TEST(group.role(primary) == "master"); // not what it was at first
    });
}

BOOST_AUTO_TEST_CASE(a_primary_that_thaws_is_one_until_it_is_demoted) {
    sentinel_group group; // of one kind: a demotion takes 10 s
    auto const before = group.majority().value();
    group.member(0).freeze();
    auto const after = group.wait_for_switch(before);
    group.member(0).thaw();
    BOOST_TEST(group.role(0) == "master");
    BOOST_TEST(group.primary() == group.member_at(after.port));
    group.wait_until_settled();
    BOOST_TEST(group.role(0) == "slave");
    check_replication(group, "k");
}

BOOST_AUTO_TEST_CASE(sentinels_learn_another_priority) {
    sentinel_group group({.sentinels = 1, .quorum = 1});
    group.set_priority(2, 0);
    auto const all = group.sentinel_cli(0).command({"SENTINEL", "REPLICAS", "orders"});
    std::vector<std::string> priorities;
    for (auto const& replica : all.elements())
        priorities.push_back(topology::field_of(replica, "slave-priority"));
    std::sort(priorities.begin(), priorities.end());
    BOOST_CHECK((priorities == std::vector<std::string>{"0", "100"}));
}

BOOST_AUTO_TEST_CASE(a_planned_failover_has_two_primaries_for_a_while) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        sentinel_group group(options);
        auto const before = group.majority().value();
        group.begin_failover();
        auto const primary = group.member_at(group.wait_for_switch(before).port);
        BOOST_TEST(primary != 0U);
        BOOST_TEST(group.role(primary) == "master");
        BOOST_TEST(group.role(0) == "master");
    });
}

BOOST_AUTO_TEST_CASE(a_coordinated_failover_leaves_one_primary) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        sentinel_group group(options);
        auto const before = group.majority().value();
        if (options.kind.name != "valkey-9.1") {
            BOOST_CHECK_THROW(group.begin_coordinated_failover(), cli_error);
            return;
        }
        group.begin_coordinated_failover();
        auto const primary = group.member_at(group.wait_for_switch(before).port);
        BOOST_TEST(primary != 0U);
        BOOST_TEST(group.role(primary) == "master");
        BOOST_TEST(group.role(0) == "slave");
    });
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_cut_off_and_preferred_loses_writes) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type options) {
        options.priorities = {100, 100, 1};
        sentinel_group group(options);
        group.cut_replication(2);
        group.cli(0).set("late", "v");
        BOOST_TEST(group.cli(0).command({"WAIT", "1", "5000"}).integer() == 1);
        BOOST_TEST(group.cli(1).exists("late"));
        auto const before = group.majority().value();
        group.member(0).kill();
        auto const after = group.wait_for_switch(before);
        BOOST_TEST(group.member_at(after.port) == 2U);
        BOOST_TEST(!group.cli(2).exists("late"));
    });
}

BOOST_AUTO_TEST_CASE(replication_that_was_cut_can_be_restored) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        sentinel_group group(options);
        group.cut_replication(1);
        group.cli(0).set("late", "v");
        BOOST_TEST(group.cli(0).command({"WAIT", "1", "5000"}).integer() == 1);
        BOOST_TEST(group.cli(2).exists("late"));
        BOOST_TEST(!group.cli(1).exists("late"));
        group.restore_replication(1);
        redis_cli cli = group.cli(1);
        BOOST_TEST(wait_until([&] { return cli.exists("late"); }, 10s));
    });
}

BOOST_AUTO_TEST_CASE(a_lone_sentinel_is_no_majority) {
    sentinel_group group;
    group.sentinel(0).kill();
    BOOST_TEST(group.primary() == 0U);
    group.sentinel(1).kill();
    BOOST_TEST(!group.named_by(0).has_value());
    BOOST_TEST(group.named_by(2).has_value());
    BOOST_TEST(!group.majority().has_value());
    BOOST_CHECK_THROW((void)group.primary(), std::runtime_error);
    group.sentinel(0).restart(); // it has not forgotten
    BOOST_TEST(group.primary() == 0U);
    group.sentinel(0).freeze();
    BOOST_TEST(!group.majority().has_value());
    group.sentinel(0).thaw();
    BOOST_TEST(group.primary() == 0U);
}

BOOST_AUTO_TEST_CASE(a_primary_restarts_empty_before_its_sentinels_notice) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        sentinel_group group(options);
        check_replication(group, "k");
        BOOST_TEST(group.cli(0).command({"SAVE"}).is_ok());
        auto const before = group.majority();
        auto const run_id = group.cli(0).info("run_id");
        group.restart_empty(0);
        BOOST_TEST(group.cli(0).info("run_id") != run_id);
        BOOST_TEST(group.cli(0).dbsize() == 0);
        redis_cli cli = group.cli(1);
        BOOST_TEST(wait_until([&] { return !cli.exists("k"); }, 10s));
        BOOST_CHECK(group.majority() == before);
    });
}

BOOST_AUTO_TEST_CASE(logins_and_tls_hold_between_all_servers) {
    on_kinds<options_type>(available_servers(), [](options_type options) {
        options.user = clerk;
        options.sentinel_user = watcher;
        options.tls = make_certificates("IP:127.0.0.1");
        options.primary_name = "orders-eu.1";
        options.replicas = 1;
        sentinel_group group(options);
        auto const parts = holdfast::address(group.url()).parts();
        BOOST_TEST(parts.tls);
        BOOST_TEST(parts.tls_options.ca_file == group.ca_file());
        BOOST_TEST(parts.primary_name == options.primary_name);
        BOOST_TEST(parts.hosts.size() == 3U);
        BOOST_TEST(parts.hosts.at(2).port == group.sentinel_port(2));
        BOOST_TEST(parts.credentials.password == clerk.password);
        BOOST_TEST(parts.sentinel_credentials.password == watcher.password);
        BOOST_TEST(group.port(0) != group.member(0).port());
        check_replication(group, "k");

        redis_cli stranger{group.member(0)};
        BOOST_TEST(stranger.command({"GET", "k"}).error().starts_with("NOAUTH"));
        BOOST_TEST(stranger.command({"AUTH", clerk.user, clerk.password}).is_ok());
        BOOST_TEST(stranger.command({"GET", "k"}).string() == "v");
        BOOST_TEST(stranger.command({"CONFIG", "GET", "save"}).error().starts_with("NOPERM"));
        redis_cli guest{group.sentinel(0)};
        BOOST_TEST(guest.command({"SENTINEL", "MASTERS"}).error().starts_with("NOAUTH"));
        BOOST_TEST(guest.command({"AUTH", watcher.user, watcher.password}).is_ok());
        BOOST_TEST(guest.command({"SENTINEL", "MASTERS"}).is_array());

        auto const before = group.majority().value();
        group.member(0).kill();
        BOOST_TEST(group.member_at(group.wait_for_switch(before).port) == 1U);
    });
}

BOOST_AUTO_TEST_CASE(a_member_has_a_clock_of_its_own) {
    sentinel_group group({.shiftable_clocks = true});
    group.member(1).shift_clock(5s);
    BOOST_CHECK(clock_shift(group.cli(0)) == 0s);
    BOOST_CHECK(clock_shift(group.cli(1)) == 5s);
    check_replication(group, "k");
}

BOOST_AUTO_TEST_CASE(other_sizes_start) {
    {
        sentinel_group group({.replicas = 0, .sentinels = 1, .quorum = 1});
        BOOST_TEST(group.primary() == 0U);
        BOOST_TEST(group.url() == "redis+sentinel://" + group.sentinel(0).address() + "/orders");
    }
    sentinel_group group({.replicas = 3, .sentinels = 5, .quorum = 3});
    BOOST_TEST(group.members() == 4U);
    BOOST_TEST(group.sentinels() == 5U);
    check_replication(group, "k");
    BOOST_TEST(group.url({4}) == "redis+sentinel://" + group.sentinel(4).address() + "/orders");
}

BOOST_AUTO_TEST_CASE(a_wait_in_vain_tells_the_state) {
    sentinel_group group({.replicas = 1});
    auto const before = group.majority().value();
    BOOST_CHECK_EXCEPTION(group.wait_for_switch(before, 1ms), std::runtime_error, [](auto& error) {
        return contains(error.what(), "names another primary") &&
               contains(error.what(), "sentinel 2");
    });
}

BOOST_AUTO_TEST_SUITE_END()
