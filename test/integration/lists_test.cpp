// client::list(): the keys that begin with a prefix, and what a list may lack.
#include <holdfast/list_report.hpp>

#include "integration/cluster_load.hpp"
#include "integration/restricted.hpp"
#include "integration/sentinels.hpp"
#include "integration/test_client.hpp"
#include "support/cluster_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using strings = std::vector<std::string>;

list_report list(test_client& client, std::string_view prefix, list_options const& options = {}) {
    list_report result;
    error how;
    auto done = false;
    client.locks.list(prefix, options, [&](error e, list_report r) {
        how = std::move(e);
        result = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }, 60s));
    BOOST_REQUIRE_MESSAGE(!how, how.what());
    return result;
}

/// Sets `count` keys without a script for each.
void fill(redis_cli& cli, std::string const& prefix, int count) {
    auto const done = cli.command({"EVAL",
                                   "for i=1,tonumber(ARGV[1]) do "
                                   "redis.call('set',KEYS[1]..i,'x') end return 1",
                                   "1", prefix, std::to_string(count)});
    BOOST_REQUIRE(done.is_integer());
}

std::size_t complete(list_report const& r) {
    return static_cast<std::size_t>(std::ranges::count(r.instances, true, &list_answer::complete));
}

} // namespace

BOOST_AUTO_TEST_SUITE(lists)

BOOST_AUTO_TEST_CASE(the_keys_of_all_instances_are_listed_once) {
    on_each_server([](server_kind const& kind) {
        fleet servers(3, {.kind = kind});
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        BOOST_TEST(list(client, "").keys.empty());
        BOOST_TEST(list(client, "").complete);
        auto a = client.hold("seat:1");
        auto b = client.hold("seat:2", {.ttl = 60s, .fencing = true});
        auto c = client.hold("seat:3", {.ttl = 60s, .fair = true});
        auto d = client.hold("room:1");
        // On one instance alone, and no string.
        redis_cli(servers[1]).set("seat:left-over", "x");
        BOOST_REQUIRE(redis_cli(servers[0]).command({"LPUSH", "seat:list", "x"}).is_integer());
        auto const r = list(client, "seat:");
        BOOST_TEST(r.keys == (strings{"seat:1", "seat:2", "seat:3", "seat:left-over"}),
                   boost::test_tools::per_element());
        BOOST_TEST(r.complete);
        BOOST_TEST(!r.limited);
        BOOST_REQUIRE(r.instances.size() == 3U);
        for (auto const& i : r.instances) {
            BOOST_TEST(i.complete);
            BOOST_TEST(i.message.empty(), i.message);
        }
        // Without the counter of the fence.
        BOOST_REQUIRE(redis_cli(servers[0]).exists("{seat:2}:fence"));
        BOOST_TEST(list(client, "").keys ==
                       (strings{"room:1", "seat:1", "seat:2", "seat:3", "seat:left-over"}),
                   boost::test_tools::per_element());
        for (auto* l : {&a, &b, &c, &d}) BOOST_TEST(client.releases(*l));
    });
}

BOOST_AUTO_TEST_CASE(a_prefix_stands_for_itself) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    strings const odd{"a*b", "a?b", "a[xy]b", "a\\b", "a^b", "a-b", "a]b"};
    for (auto const& key : odd) cli.set(key + ":1", "x");
    for (auto const* const other : {"axxb:1", "axb:1", "ayb:1", "ab:1"}) cli.set(other, "x");
    test_client client(servers);
    for (auto const& key : odd)
        BOOST_TEST(list(client, key).keys == (strings{key + ":1"}),
                   boost::test_tools::per_element());
    // The prefix of the client is part of the names, and no pattern either.
    auto options = patient();
    options.key_prefix = "a*";
    test_client prefixed(servers, options);
    BOOST_TEST(list(prefixed, "").keys == (strings{"a*b:1"}), boost::test_tools::per_element());
    BOOST_TEST(list(prefixed, "b").keys == (strings{"a*b:1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ten_thousand_keys_are_found_among_others) {
    fleet servers(3);
    for (server& s : servers) {
        redis_cli cli(s);
        fill(cli, "seat:", 10'000);
        fill(cli, "other:", 10'000);
    }
    test_client client(servers);
    auto const r = list(client, "seat:", {.max_keys = 10'000, .time_limit = 60s});
    BOOST_TEST(r.complete);
    BOOST_TEST(!r.limited);
    BOOST_REQUIRE(r.keys.size() == 10'000U);
    BOOST_TEST(std::ranges::is_sorted(r.keys));
    BOOST_TEST((std::ranges::adjacent_find(r.keys) == r.keys.end()));
}

BOOST_AUTO_TEST_CASE(a_limit_ends_the_list_and_is_told) {
    fleet servers(3);
    for (server& s : servers) {
        redis_cli cli(s);
        fill(cli, "seat:", 1'000);
    }
    test_client client(servers);
    auto const all = list(client, "seat:", {.max_keys = 1'000});
    BOOST_TEST(all.complete);
    BOOST_TEST(all.keys.size() == 1'000U);
    auto const some = list(client, "seat:", {.max_keys = 999});
    BOOST_TEST(!some.complete);
    BOOST_TEST(some.limited);
    BOOST_TEST(some.keys.size() == 999U);
    auto const few = list(client, "seat:", {.max_keys = 5});
    BOOST_TEST(few.keys.size() == 5U);
    BOOST_TEST(complete(few) == 0U);
    BOOST_TEST(few.instances[0].message == "stopped at 5 keys");
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_down_is_told) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("seat:1");
    BOOST_REQUIRE(client.sees(servers, "seat:1", true));
    servers[2].kill();
    BOOST_REQUIRE(client.becomes(2, instance_state::down));
    auto const r = list(client, "seat:");
    BOOST_TEST(r.keys == (strings{"seat:1"}), boost::test_tools::per_element());
    BOOST_TEST(!r.complete);
    BOOST_TEST(complete(r) == 2U);
    BOOST_TEST(!r.instances[2].complete);
    BOOST_TEST(!r.instances[2].message.empty());
    BOOST_TEST(contains(client.status(2).address, r.instances[2].address));
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(an_instance_that_hangs_ends_with_its_timeout) {
    fleet servers(3);
    test_client client(servers, unhurried());
    BOOST_REQUIRE(client.all_up());
    redis_cli(servers[0]).set("seat:1", "x");
    servers[2].freeze();
    auto const r = list(client, "seat:", {.time_limit = 60s});
    BOOST_TEST(r.keys == (strings{"seat:1"}), boost::test_tools::per_element());
    BOOST_TEST(complete(r) == 2U);
    BOOST_TEST(!r.instances[2].complete);
    BOOST_TEST(!contains(r.instances[2].message, "within"), r.instances[2].message);
}

BOOST_AUTO_TEST_CASE(the_time_limit_ends_the_list_and_is_told) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    redis_cli(servers[0]).set("seat:1", "x");
    servers[2].freeze();
    auto const r = list(client, "seat:", {.time_limit = 700ms});
    BOOST_TEST(!r.complete);
    BOOST_TEST(!r.instances[2].complete);
    BOOST_TEST(r.instances[2].message == "not scanned to the end within 700 ms");
}

BOOST_AUTO_TEST_CASE(a_missing_right_is_told) {
    on_each_server([](server_kind const& kind) {
        restricted without(kind, {"+scan"});
        test_client client(std::vector<address>{access::url(without.redis.address())});
        auto held = client.hold("seat:1");
        auto const r = list(client, "seat:");
        BOOST_TEST(r.keys.empty());
        BOOST_TEST(!r.complete);
        BOOST_TEST(contains(r.instances[0].message, "NOPERM"), r.instances[0].message);
        // It is no degradation of locks.
        BOOST_TEST(client.status(0).degradations.empty());
        without.change("+scan");
        BOOST_TEST(list(client, "seat:").keys == (strings{"seat:1"}),
                   boost::test_tools::per_element());
        BOOST_TEST(client.releases(held));
    });
}

BOOST_AUTO_TEST_CASE(wrong_limits_and_prefixes_are_refused) {
    fleet servers(1);
    test_client client(servers);
    auto const refused = [&](std::string const& prefix, list_options const& o, errc code) {
        try {
            client.locks.list(prefix, o, [](error, list_report) {});
        } catch (system_error const& e) {
            return e.code() == code;
        }
        return false;
    };
    BOOST_TEST(refused("k", {.max_keys = 0}, errc::invalid_options));
    BOOST_TEST(refused("k", {.max_keys = 100'001}, errc::invalid_options));
    BOOST_TEST(refused("k", {.time_limit = 0ms}, errc::invalid_options));
    BOOST_TEST(refused("k", {.time_limit = 2h}, errc::invalid_options));
    BOOST_TEST(refused(std::string(max_key_size + 1, 'k'), {}, errc::invalid_key));
}

BOOST_AUTO_TEST_CASE(a_cancellation_ends_it_and_late_answers_are_dropped) {
    for (auto const type : every_type) {
        fleet servers(3);
        for (server& s : servers) {
            redis_cli cli(s);
            fill(cli, "seat:", 1'000);
        }
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        servers[0].freeze();
        asio::cancellation_signal signal;
        error how;
        auto done = false;
        client.locks.list("seat:", asio::bind_cancellation_slot(signal.slot(), [&](error e, auto) {
                              how = std::move(e);
                              done = true;
                          }));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().commands >= 3; }));
        signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return done; }));
        BOOST_TEST((how == errc::cancelled), how.what());
        servers[0].restart();
        BOOST_REQUIRE(client.all_up());
        BOOST_TEST(client.idle());
    }
}

BOOST_AUTO_TEST_CASE(a_shutdown_ends_it) {
    fleet servers(3);
    for (server& s : servers) {
        redis_cli cli(s);
        fill(cli, "seat:", 1'000);
    }
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    servers[0].freeze();
    error how;
    auto done = false;
    client.locks.list("seat:", [&](error e, list_report) {
        how = std::move(e);
        done = true;
    });
    client.locks.close();
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST((how == errc::shut_down), how.what());
}

BOOST_AUTO_TEST_CASE(all_primaries_of_a_cluster_are_scanned) {
    on_clusters([](cluster_group& cluster) {
        strings keys;
        for (std::size_t i = 0; i < cluster.options().primaries; ++i) {
            for (auto const* const prefix : {"seat:", "seat:x", "room:"}) {
                auto const key = cluster.key_on(i, prefix);
                cluster.cli(i).set(key, "x");
                if (key.starts_with("seat:")) keys.push_back(key);
            }
        }
        std::ranges::sort(keys);
        // At once: the call waits for the map.
        test_client client(address_of(cluster));
        auto const r = list(client, "seat:");
        BOOST_TEST(r.complete, r.instances[0].message);
        BOOST_TEST(r.keys == keys, boost::test_tools::per_element());
        BOOST_REQUIRE(r.instances.size() == 1U);
    });
}

BOOST_AUTO_TEST_CASE(a_node_of_a_cluster_that_is_down_is_named) {
    cluster_group cluster({.replicas = 0});
    test_client client(address_of(cluster));
    auto const key = cluster.key_on(0, "seat:");
    cluster.cli(0).set(key, "x");
    BOOST_TEST(list(client, "seat:").complete);
    auto const port = std::to_string(cluster.port(2));
    cluster.node(2).kill();
    BOOST_REQUIRE(client.until([&] {
        auto const nodes = client.status(0).nodes;
        return std::ranges::any_of(nodes, [&](auto const& n) {
            return contains(n.address, port) && n.state == instance_state::down;
        });
    }));
    auto const r = list(client, "seat:");
    BOOST_TEST(r.keys == (strings{key}), boost::test_tools::per_element());
    BOOST_TEST(!r.complete);
    BOOST_TEST(contains(r.instances[0].message, port), r.instances[0].message);
}

BOOST_AUTO_TEST_CASE(the_primary_behind_sentinel_is_scanned) {
    sentinel_group group(small());
    // At once: the call waits for the primary.
    test_client client(std::vector<address>{address(group.url())});
    group.cli(group.primary()).set("seat:1", "x");
    auto const r = list(client, "seat:");
    BOOST_TEST(r.complete, r.instances[0].message);
    BOOST_TEST(r.keys == (strings{"seat:1"}), boost::test_tools::per_element());
    check_no_refusals(group);
}

BOOST_AUTO_TEST_CASE(a_reply_that_is_too_long_is_a_fault_of_its_instance_alone) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    redis_cli cli(servers[2]);
    for (auto i = 0; i < 60; ++i)
        cli.set("seat:" + std::to_string(i) + std::string(30'000, 'x'), "x");
    redis_cli(servers[0]).set("seat:1", "x");
    auto const r = list(client, "seat:");
    BOOST_TEST(r.keys == (strings{"seat:1"}), boost::test_tools::per_element());
    BOOST_TEST(complete(r) == 2U);
    BOOST_TEST(!r.instances[2].message.empty());
    BOOST_REQUIRE(client.all_up());
}

BOOST_AUTO_TEST_SUITE_END()
