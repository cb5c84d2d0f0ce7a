// Links to nodes of a Cluster that a test controls: their pauses, their doubts, and what reports
// say about them.
#include "protocol/cluster/hash_slot.hpp"

#include "integration/test_client.hpp"
#include "support/fake_cluster.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t size = 3;

std::size_t first_owner(std::string const& key) {
    return protocol::hash_slot(key) * size / 16'384U;
}

/// A key whose slot belongs to the node at first.
std::string key_at(std::size_t node) {
    std::string name = "k";
    while (first_owner(name) != node) name += 'x';
    return name;
}

std::string moved(std::string const& key, fake_server& to) {
    return resp::error("MOVED " + std::to_string(protocol::hash_slot(key)) + ' ' + to.address());
}

/// All slots that belong to `from` at first.
void give_all(fake_cluster& nodes, std::size_t from, std::size_t to) {
    for (unsigned s = 0; s < 16'384U; ++s) {
        if (s * size / 16'384U == from) nodes.give(s, to);
    }
}

bool is_grant(command_line const& words) {
    return is_command(words, "SET");
}
bool is_extension(command_line const& words) {
    return is_command(words, "EVALSHA") && words.size() == 6;
}
bool is_release(command_line const& words) {
    return is_command(words, "EVALSHA") && words.size() == 5;
}

std::string info_of(std::string const& role, std::string const& replication) {
    return resp::bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:" + std::string(40, 'e') +
                      "\r\nuptime_in_seconds:1000\r\n# Replication\r\nrole:" + role +
                      "\r\nmaster_replid:" + std::string(40, 'b') + replication + "\r\n");
}
/// INFO of a primary that was a replica until now.
std::string promoted_info() {
    return info_of("master",
                   "\r\nmaster_replid2:" + std::string(40, 'c') + "\r\nsecond_repl_offset:1");
}
std::string replica_info() {
    return info_of("slave", {});
}

/// In ms: half of it would fail a test that waits for that.
constexpr char const* long_timeout = "600000";

/// Node 0 loses all its slots to node 1, which had none and was promoted.
class promotion {
public:
    static constexpr std::size_t before = 0, after = 1, third = 2;

    /// `node_timeout`: of the Cluster, in ms.
    promotion(std::string node_timeout, fake_cluster::hook of_old_primary)
        : node_timeout_(std::move(node_timeout))
        , of_old_primary_(std::move(of_old_primary))
        , nodes(size,
                [this](std::size_t at, command_line const& words) { return answer(at, words); }) {
        give_all(nodes, after, third);
    }
    void happen() {
        happened_ = true;
        give_all(nodes, before, after);
    }

private:
    std::optional<std::string> answer(std::size_t at, command_line const& words) {
        if (is_command(words, "CONFIG") && words.back() == "cluster-node-timeout") {
            return resp::map({resp::bulk("cluster-node-timeout"), resp::bulk(node_timeout_)});
        }
        if (!happened_) return std::nullopt;
        if (at == after && is_command(words, "INFO")) return promoted_info();
        if (at == after && is_extension(words)) return resp::integer(1);
        return at == before ? of_old_primary_(at, words) : std::nullopt;
    }

    std::atomic<bool> happened_{false};
    std::string const node_timeout_;
    fake_cluster::hook of_old_primary_;

public:
    fake_cluster nodes;
};

/// The client leads to the other nodes by the map.
std::string seed(fake_cluster& nodes, std::size_t node) {
    return "redis+cluster://" + nodes.node(node).address();
}

std::string const wrong_password =
    resp::error("WRONGPASS invalid username-password pair or user is disabled.");

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_links)

// After a fail-over and back. Its connection is in a pause of 1.5 s at least.
BOOST_AUTO_TEST_CASE(a_node_that_gets_slots_again_is_connected_at_once) {
    constexpr std::size_t node = 0, other = 1;
    auto const key = key_at(node);
    fake_cluster* all = nullptr;
    std::atomic<bool> refuses{false}, returns{false};
    std::atomic<int> refusals{0};
    fake_cluster nodes(
        size, [&](std::size_t at, command_line const& words) -> std::optional<std::string> {
            if (at == other && returns && is_grant(words)) return moved(key, all->node(node));
            if (at != node || !refuses || !is_command(words, "HELLO")) return std::nullopt;
            ++refusals;
            return wrong_password;
        });
    all = &nodes;
    auto options = hasty();
    options.max_reconnect_delay = 60s;
    test_client client({address(nodes.url())}, options);
    auto l = client.hold(key);
    BOOST_TEST(client.releases(l));

    refuses = true;
    give_all(nodes, node, other);
    nodes.node(node).cut();
    BOOST_TEST(
        client.until([&] { return refusals >= 2 && nodes.node(node).connected() == 0; }, 20s));
    auto there = client.hold(key);
    BOOST_TEST(client.releases(there));

    refuses = false;
    give_all(nodes, node, node);
    returns = true;
    auto back = client.hold(key);
    BOOST_TEST(client.releases(back));
}

// Nodes on one machine can freeze together.
BOOST_AUTO_TEST_CASE(a_node_in_doubt_ends_the_doubt_of_no_other) {
    constexpr std::size_t first = 0, second = 1, third = 2;
    auto const key = key_at(first), beside = key_at(second);
    fake_cluster* all = nullptr;
    std::atomic<bool> no_map{false};
    fake_cluster nodes(
        size, [&](std::size_t at, command_line const& words) -> std::optional<std::string> {
            if (!no_map) return std::nullopt;
            // A release is sent to a node in doubt, too.
            if (at == first && is_release(words)) return moved(key, all->node(second));
            if (at == third && is_command(words, "CLUSTER", "SLOTS"))
                return resp::error("ERR not now");
            return std::nullopt;
        });
    all = &nodes;
    test_client client({address(nodes.url())}, hasty());
    auto l = client.hold(key), kept = client.hold(beside), witness = client.hold(key_at(third));

    no_map = true;
    auto const probes = [&](std::size_t node) { return nodes.node(node).count("HELLO"); };
    std::array const before{probes(first), probes(second)};
    nodes.node(first).cut();
    nodes.node(second).cut();
    BOOST_TEST(
        client.until([&] { return probes(first) > before[0] && probes(second) > before[1]; }));
    BOOST_TEST(client.until([&] { return is_up(client.locks); }));
    auto const questions = nodes.node(third).count("CLUSTER");
    BOOST_TEST(client.until([&] { return nodes.node(third).count("CLUSTER") > questions; }));
    BOOST_TEST(!client.extend(witness));
    l.release([](auto) {});
    BOOST_TEST(client.until([&] { return nodes.node(second).count("EVALSHA") > 0; }));
    auto const e = client.extend(kept);
    BOOST_TEST((e == error_condition::unavailable), e.what());

    no_map = false;
    BOOST_TEST(client.until([&] { return !client.extend(kept); }));
}

// It may be cut off, and serve on for a while: then its key of the lease can expire, and another
// client can get it there.
BOOST_AUTO_TEST_CASE(extensions_at_a_promoted_node_wait_for_an_old_primary_that_says_nothing) {
    promotion p("3000", [](std::size_t, command_line const&) { return fake_server::hang_up; });
    test_client client({address(seed(p.nodes, promotion::third))}, hasty());
    auto l = client.hold(key_at(promotion::before));
    p.happen();
    p.nodes.node(promotion::before).cut();
    auto const at_promoted = [&] { return p.nodes.node(promotion::after).count("EVALSHA"); };
    error e;
    BOOST_TEST(client.until([&] {
        e = client.extend(l);
        return at_promoted() > 0 && e == errc::quarantined;
    }));
    BOOST_TEST(contains(e.what(), "the old primary may still serve"), e.what());
    // Half of the cluster-node-timeout later.
    BOOST_TEST(client.until([&] { return !client.extend(l); }));
}

BOOST_AUTO_TEST_CASE(extensions_at_a_promoted_node_count_when_the_old_primary_says_so) {
    fake_cluster* all = nullptr;
    auto const key = key_at(promotion::before);
    promotion p(long_timeout, [&](std::size_t, command_line const& words) {
        auto const moves = is_extension(words) || is_grant(words);
        return moves ? std::optional(moved(key, all->node(promotion::after))) : std::nullopt;
    });
    all = &p.nodes;
    test_client client({address(seed(p.nodes, promotion::before))}, patient());
    auto l = client.hold(key);
    p.happen();
    auto const e = client.extend(l);
    BOOST_TEST(!e, e.what());
    BOOST_TEST(p.nodes.node(promotion::after).count("EVALSHA") > 0U);
}

BOOST_AUTO_TEST_CASE(extensions_at_a_promoted_node_count_when_the_old_primary_is_a_replica) {
    promotion p(long_timeout, [](std::size_t, command_line const& words) {
        auto const asks = is_command(words, "INFO");
        return asks ? std::optional(replica_info()) : std::nullopt;
    });
    test_client client({address(seed(p.nodes, promotion::third))}, hasty());
    auto l = client.hold(key_at(promotion::before));
    p.happen();
    p.nodes.node(promotion::before).cut();
    auto const at_promoted = [&] { return p.nodes.node(promotion::after).count("EVALSHA"); };
    BOOST_TEST(client.until([&] { return !client.extend(l); }));
    BOOST_TEST(at_promoted() > 0U);
}

BOOST_AUTO_TEST_CASE(the_answer_of_a_node_names_the_node) {
    std::atomic<bool> full{true};
    fake_cluster nodes(size,
                       [&](std::size_t, command_line const& words) -> std::optional<std::string> {
                           if (!full || !is_grant(words)) return std::nullopt;
                           return resp::error("OOM command not allowed");
                       });
    test_client client({address(nodes.url())}, hasty());
    for (std::size_t i = 0; i < size; ++i) {
        auto const [e, none] = client.try_acquire(key_at(i));
        BOOST_REQUIRE(e.report() != nullptr);
        auto const& answer = e.report()->instances.at(0);
        BOOST_TEST(answer.message == nodes.node(i).address() + ": OOM command not allowed");
        BOOST_TEST(e.report()->up == 1U);
    }
}

BOOST_AUTO_TEST_CASE(a_report_counts_the_node_of_the_key) {
    constexpr std::size_t node = 0;
    std::atomic<bool> refuses{false};
    fake_cluster nodes(
        size, [&](std::size_t at, command_line const& words) -> std::optional<std::string> {
            if (at != node || !refuses) return std::nullopt;
            return is_command(words, "HELLO") ? fake_server::hang_up : wrong_password;
        });
    test_client client({address(nodes.url())}, hasty());
    auto l = client.hold(key_at(1));
    refuses = true;
    nodes.node(node).cut();
    auto const [e, none] = client.acquire(key_at(node));
    BOOST_TEST((e == error_condition::unavailable), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->up == 0U);
    BOOST_TEST(e.report()->instances.at(0).message.starts_with(nodes.node(node).address()));
    BOOST_TEST(is_up(client.locks)); // for other keys
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
