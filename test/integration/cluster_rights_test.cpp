// A right that a Cluster needs is missing, one at a time: the call says access_denied and names the
// command, or instances() tells of it. See doc/production.md for the rights.
#include "integration/cluster_load.hpp"
#include "support/access.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// A Cluster whose nodes refuse commands to the user of the library.
struct restricted_cluster {
    explicit restricted_cluster(server_kind const& kind)
        : nodes({.kind = kind, .replicas = 0, .shiftable_clocks = false}) {
        for (std::size_t i = 0; i < nodes.size(); ++i) nodes.node(i).expect_refusals();
    }
    /// From now on the user has all documented rights but this one.
    void withhold(std::string_view right) {
        give(access::without(documented_cluster_rules(nodes.options().kind), right));
    }
    void give(access::rules const& all) {
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            auto const words = access::set_user(access::user, all);
            BOOST_REQUIRE(nodes.cli(i).command(words).is_ok());
        }
    }
    cluster_group nodes;
};

template <class Test>
void on_restricted_clusters(Test test) {
    on_oldest_and_newest([&](server_kind const& kind) {
        restricted_cluster cluster(kind);
        test(cluster);
    });
}

/// The call was refused for want of a right to this command, and says so.
template <class Result>
void check_denied(Result const& r, std::string_view command) {
    BOOST_TEST((r == errc::access_denied), r.what());
    auto const text = std::string(command) + ": NOPERM";
    BOOST_TEST(contains(r.what(), text), r.what());
    BOOST_REQUIRE(r.report() != nullptr);
    BOOST_TEST(contains(r.report()->instances.at(0).message, text), r.what());
}

void check_lock(test_client& client, std::string const& key) {
    auto l = client.hold(key);
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.releases(l));
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_rights)

// The key of the lease has moved, and no new one may be set at the source.
BOOST_AUTO_TEST_CASE(without_asking_a_lock_in_a_half_moved_slot_is_denied) {
    on_restricted_clusters([](restricted_cluster& cluster) {
        cluster.withhold("+asking");
        auto& nodes = cluster.nodes;
        test_client client(address_of(nodes)), other(address_of(nodes));
        auto const key = nodes.key_on(0);
        auto const slot = nodes.slot_of(key);
        auto l = client.hold(key, {.ttl = 60s, .watchdog = false});
        auto const deadline = l.deadline();
        slot_migration moving(nodes, {slot, slot}, 0, 1);
        moving.begin();
        BOOST_TEST(!client.extend(l)); // at the source
        BOOST_TEST(moving.move_keys() == 1U);
        check_denied(client.extend(l), "ASKING");
        BOOST_TEST(l.held());
        BOOST_TEST((l.deadline() >= deadline));
        check_denied(other.acquire(key).first, "ASKING");
        check_denied(other.try_acquire(key).first, "ASKING");
        check_denied(client.release(l), "ASKING");
        for (auto const& n : client.status(0).nodes)
            BOOST_TEST((n.state == instance_state::up), n.message);
        // The release goes on until the slot has moved.
        BOOST_TEST(
            nodes.cli(1).command({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}).integer() ==
            1);
        moving.end();
        BOOST_TEST(client.until([&] { return !nodes.cli(1).exists(key); }));
        check_lock(other, key);
        check_no_locks(nodes);
    });
}

BOOST_AUTO_TEST_CASE(a_right_to_ask_that_is_granted_counts_at_once) {
    on_restricted_clusters([](restricted_cluster& cluster) {
        cluster.withhold("+asking");
        auto& nodes = cluster.nodes;
        test_client client(address_of(nodes));
        auto const key = nodes.key_on(0);
        auto const slot = nodes.slot_of(key);
        slot_migration moving(nodes, {slot, slot}, 0, 1);
        BOOST_REQUIRE(client.all_up());
        moving.begin();
        check_denied(client.acquire(key).first, "ASKING");
        cluster.withhold("");
        check_lock(client, key);
        moving.end();
        check_lock(client, key);
        check_no_locks(nodes);
    });
}

BOOST_AUTO_TEST_CASE(without_cluster_slots_the_instance_denies_access) {
    on_restricted_clusters([](restricted_cluster& cluster) {
        cluster.withhold("+cluster|slots");
        test_client client(address_of(cluster.nodes), brisk());
        auto const [e, none] = client.acquire("k");
        BOOST_TEST((e == errc::access_denied), e.what());
        BOOST_TEST(contains(e.what(), "CLUSTER SLOTS: the server refused: NOPERM"), e.what());
        BOOST_TEST(client.goes_down(0, errc::access_denied));
        auto const said = client.status(0).message;
        BOOST_TEST(contains(said, "CLUSTER SLOTS: the server refused: NOPERM"), said);
        cluster.withhold("");
        BOOST_TEST(client.all_up());
        check_lock(client, "k");
    });
}

// The client works, and is less safe.
BOOST_AUTO_TEST_CASE(without_cluster_info_or_nodes_instances_tells_that) {
    on_restricted_clusters([](restricted_cluster& cluster) {
        auto& nodes = cluster.nodes;
        for (auto const& [right, command] : {std::pair("+cluster|info", "CLUSTER INFO"),
                                             std::pair("+cluster|nodes", "CLUSTER NODES")}) {
            BOOST_TEST_CONTEXT(right) {
                cluster.withhold(right);
                test_client client(address_of(nodes));
                BOOST_REQUIRE(client.all_up());
                auto const said = client.status(0).message;
                BOOST_TEST(contains(said, std::string(command) + ": NOPERM"), said);
                BOOST_TEST(said.find("NOPERM") == said.rfind("NOPERM"), said);
                BOOST_TEST(said.starts_with("127.0.0.1:"), said);
                auto const key = nodes.key_on(0);
                check_lock(client, key);
                // The next map ends it, and a redirect makes the client ask for that.
                cluster.withhold("");
                auto const slot = nodes.slot_of(key);
                nodes.migrate({slot, slot}, 0, 1);
                check_lock(client, key);
                BOOST_TEST(client.until([&] { return client.status(0).message.empty(); }));
                BOOST_TEST((client.status(0).state == instance_state::up));
            }
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
