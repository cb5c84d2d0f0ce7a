// The nodes of a Cluster, as processes of the test.
#pragma once

#include "support/access.hpp"
#include "support/relay.hpp"
#include "support/topology.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

struct cluster_group_options {
    server_kind kind = default_server();
    std::size_t primaries = 3;
    std::size_t replicas = 3; // in all; node `primaries + r` follows node `r % primaries`
    std::chrono::milliseconds node_timeout = std::chrono::seconds{2};

    // The user of the clients under test. Without it they come as one with the documented rights.
    std::optional<login> user = {};
    // Of all nodes, for 127.0.0.1: make_certificates("IP:127.0.0.1"). The nodes speak TLS among
    // each other; URLs then name ports with TLS.
    std::optional<certificates> tls = {};
    // For node(i).shift_clock(). Without it a cluster needs 2 s more to start, and the servers read
    // the clock without a system call, as in production.
    bool shiftable_clocks = true;

    // For isolate(). The nodes then reach each other by relays, from addresses of their own.
    bool isolable = false;

    // Added to the command lines: see server_options. Without them nothing is persisted but each
    // node's nodes.conf.
    std::vector<std::string> arguments = {};
};

// The patterns of keys beside a lock's in a Cluster, which name the slot: the counters of fences,
// and the lists of fair locks.
[[nodiscard]] access::rules cluster_side_keys(std::string_view prefix);
// The rights that doc/production.md names for all features in a Cluster of this kind.
[[nodiscard]] access::rules documented_cluster_rules(server_kind const&,
                                                     std::string_view prefix = {});

// Nodes 0 to primaries - 1 begin with equal ranges of slots. The constructor returns when each node
// says that the cluster is up, and all agree on slots and replicas. All processes end with this
// process, however that ends, also frozen ones.
//
// A single node is killed, frozen, restarted or moved in time by node(i). A restarted node keeps
// its identity (nodes.conf).
//
// Thread safety: distinct objects: safe. Shared objects: unsafe.
class cluster_group {
public:
    using milliseconds = std::chrono::milliseconds;

    static constexpr std::size_t slots = 16'384;

    explicit cluster_group(cluster_group_options options = {});

    [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
    [[nodiscard]] server& node(std::size_t i) { return *nodes_.at(i); }
    [[nodiscard]] std::string const& id(std::size_t of_node) const { return ids_.at(of_node); }
    [[nodiscard]] cluster_group_options const& options() const noexcept { return options_; }

    // For clients under test.
    // redis+cluster://user:password@127.0.0.1:1,127.0.0.1:2,.. names the first three nodes.
    [[nodiscard]] std::string url() const;
    [[nodiscard]] std::string url(std::vector<std::size_t> const& of_nodes) const;
    [[nodiscard]] std::uint16_t port(std::size_t of_node) const; // with TLS if the cluster has it
    [[nodiscard]] std::string ca_file() const;                   // empty without TLS

    // The witness, by the port without TLS and with all rights. It follows no redirect.
    [[nodiscard]] redis_cli cli(std::size_t of_node) const;

    [[nodiscard]] std::uint16_t slot_of(std::string const& key); // CLUSTER KEYSLOT
    // The primary of a slot as one node sees it. Nothing when nobody has it, or `asked` does not
    // answer.
    [[nodiscard]] std::optional<std::size_t> owner_by(std::size_t asked, std::uint16_t slot);
    // The primary of a slot as more than half of the nodes that run see it. Throws
    // std::runtime_error when there is none.
    [[nodiscard]] std::size_t owner(std::uint16_t slot);
    [[nodiscard]] std::size_t owner_of(std::string const& key) { return owner(slot_of(key)); }
    // A key, beginning with `prefix`, whose slot this node owns.
    [[nodiscard]] std::string key_on(std::size_t node, std::string const& prefix = "key");
    // The replicas of a node as more than half of the nodes that run see it.
    [[nodiscard]] std::vector<std::size_t> replicas_of(std::size_t primary);
    [[nodiscard]] std::size_t node_with(std::string_view id) const;
    // "master" or "slave", by the node's own word.
    [[nodiscard]] std::string role(std::size_t of_node) const;

    // Until every node that runs says that the cluster is up, and all of them tell the same slots
    // with the same primaries and replicas, and are linked. Frozen nodes do not count.
    void wait_until_agreed(milliseconds timeout = std::chrono::seconds{60});
    // Until every node that runs names `node` as the primary of this slot.
    void wait_for_owner(std::uint16_t slot, std::size_t node,
                        milliseconds timeout = std::chrono::seconds{60});
    // See redis_cli::is_older_than().
    void wait_until_older_than(milliseconds max_ttl);

    // Until every node that runs names another primary of this slot than `before`, the same each.
    std::size_t wait_for_other_owner(std::uint16_t slot, std::size_t before,
                                     milliseconds timeout = std::chrono::seconds{60});

    enum class takeover {
        planned, // CLUSTER FAILOVER: the old primary takes part
        force,   // without the old primary, by a vote of the others
        takeover // without any vote
    };
    // Sent to a replica. Returns when it has begun.
    void begin_failover(std::size_t to_replica, takeover how = takeover::planned);

    // The primary refuses this replica from then on. Both go on to serve, and to tell each other
    // that they are there.
    void cut_replication(std::size_t of_replica, std::size_t from_primary);
    void restore_replication(std::size_t of_replica, std::size_t from_primary);

    // The node and the others hear nothing of each other; clients still reach all of them. Until
    // rejoin() the node does not count as one that runs. Its replicas go on to replicate.
    void isolate(std::size_t node);
    void rejoin();

    // Kills the node and starts it again without its data, but with its identity. Its replicas are
    // named again only when the primary has written or 10 s have passed.
    void restart_empty(std::size_t node);

    // Moves slots and their keys, by MIGRATE key by key (see slot_migration), and returns when all
    // nodes that run know.
    void migrate(slot_range range, std::size_t from, std::size_t to);
    // CLUSTER MIGRATESLOTS, valkey 9 alone; elsewhere begin throws cli_error.
    void begin_atomic_migration(slot_range range, std::size_t from, std::size_t to);
    // The state of the last one that this node has begun: "success", "failed", "cancelled" or a
    // step on the way.
    [[nodiscard]] std::string atomic_migration_state(std::size_t from);
    void migrate_atomically(slot_range range, std::size_t from, std::size_t to);

private:
    friend class slot_migration;
    using slot_map = std::vector<std::string>; // sorted: "0-5460 id-of-primary id-of-replica .."

    [[nodiscard]] server_options node_options(std::size_t i) const;
    void start_node(std::size_t i);
    [[nodiscard]] std::uint16_t bus_port(std::size_t of_node) const;
    [[nodiscard]] bool usable(std::size_t i);
    [[nodiscard]] std::vector<std::size_t> usable_nodes();
    void assign_slots();
    void introduce_nodes();
    void introduce(std::size_t node);
    void attach_replicas();
    [[nodiscard]] slot_map map_by(std::size_t asked);
    [[nodiscard]] bool is_linked(std::size_t asked);
    [[nodiscard]] bool agreed();
    [[nodiscard]] std::string state();

    cluster_group_options options_;
    std::optional<topology::tls_setup> tls_;
    std::vector<std::unique_ptr<relay>> relays_; // to the nodes, by which they reach each other
    std::optional<std::size_t> isolated_;
    std::vector<std::unique_ptr<server>> nodes_;
    std::vector<redis_cli> clis_; // for questions
    std::vector<std::string> ids_;
};

// Moves slots from one node to another step by step, as redis-cli --cluster reshard does. It does
// nothing by itself when it is destroyed: a test may leave slots half moved.
//
//     slot_migration moving{cluster, {0, 59}, 0, 1};
//     moving.begin();
//     moving.move_keys(10); // in the middle
//     moving.move_keys();
//     moving.end();
class slot_migration {
public:
    slot_migration(cluster_group& cluster, slot_range range, std::size_t from, std::size_t to);

    // Each slot: IMPORTING at the target, then MIGRATING at the source. From now on the source
    // answers ASK for keys that it does not have.
    void begin();
    // MIGRATE, up to `most` keys. Returns how many it moved; 0 when none is left at the source.
    std::size_t move_keys(std::size_t most = ~std::size_t{0});
    // SETSLOT NODE at the target alone. The others hear of it from the target.
    void claim();
    // SETSLOT NODE at the target, then at the source, then at all other primaries that run. Keys
    // that are still at the source are lost.
    void end();
    // SETSLOT STABLE on both. Keys that were moved stay at the target, which nobody asks for them.
    void abort();

private:
    void on(std::size_t node, std::uint16_t slot, std::vector<std::string> const& words);

    cluster_group* cluster_;
    slot_range range_;
    std::size_t from_;
    std::size_t to_;
};

} // namespace holdfast::test
