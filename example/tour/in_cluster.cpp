#include "tour/in_cluster.hpp"

#include "support/cluster_group.hpp"
#include "tour/command_log.hpp"
#include "tour/participant.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

#include <cstddef>
#include <memory>
#include <vector>

using namespace std::chrono_literals;

namespace tour {

namespace {

// Node 1 has the slot of the seat, and node 4 is its replica. Node 0 has the slot of the second
// name that the client of the older way takes.
constexpr std::size_t owner = 1, replica = 4, other_owner = 0;
/// In the slot of the key.
constexpr auto older_key = "{seat:12}:older";

struct stage {
    explicit stage(journal& to)
        : story(to) {
        for (std::size_t i = 0; i < cluster.size(); ++i) {
            owned.push_back(std::make_unique<command_log>(cluster.cli(i), cluster.cli(i), seat));
            logs.push_back(owned.back().get());
        }
    }
    template <class Way>
    Way older(std::string client, std::string of_key) {
        return {story, std::move(client), cluster.node(other_owner).port(),
                std::string(holdfast::test::topology::witness_password), std::move(of_key)};
    }
    participant client(std::string name, holdfast::client_options const& options = {}) {
        return {story, logs, std::move(name), {cluster.url()}, options};
    }
    void stop_writes() {
        cluster.cli(owner).command({"CLIENT", "PAUSE", "60000", "WRITE"});
        story.note("the node of seat:12 does not answer writes");
    }
    void resume_writes() {
        cluster.cli(owner).command({"CLIENT", "UNPAUSE"});
        story.note("the node answers again");
    }

    journal& story;
    holdfast::test::cluster_group cluster{{.shiftable_clocks = false}};
    std::vector<std::unique_ptr<command_log>> owned{};
    std::vector<command_log*> logs{};
};

void show_another_slot(stage& s, participant& new_a, participant& new_b) {
    auto& j = s.story;
    {
        j.section("The older way, with a client that retries in another slot");
        auto a = s.older<retried_in_another_slot>("A", seat);
        auto b = s.older<retried_in_another_slot>("B", seat);
        auto const a_has_it = a.try_lock(long_ttl);
        s.stop_writes();
        auto const b_has_it = b.try_lock(long_ttl);
        s.resume_writes();
        j.hazard(a_has_it && b_has_it, "B has locked another key: A and B both hold the lock");
        a.unlock();
    }
    j.section("The same schedule with holdfast");
    auto held = new_a.acquire(seat, {.ttl = long_ttl});
    s.stop_writes();
    auto const [refused, none] = new_b.try_acquire(seat, {.ttl = long_ttl});
    s.resume_writes();
    j.safe(held.held() && refused == holdfast::error_condition::unavailable,
           "B has no lock, and learns that the node is to blame");
    new_a.release(held);
}

// Both locks see the same fail-over, each with a key of its own.
void show_a_failover(stage& s, participant& new_a, participant& new_b) {
    auto& j = s.story;
    j.section("Before a fail-over: the older way ({seat:12}:older) and holdfast (seat:12)");
    s.cluster.cut_replication(replica, owner);
    j.note("the replica hears nothing of the primary any more");
    auto a = s.older<in_cluster>("A", older_key);
    auto b = s.older<in_cluster>("B", older_key);
    auto const a_has_it = a.try_lock(long_ttl);
    auto held = new_a.acquire(seat, {.ttl = long_ttl, .watchdog = false});
    auto const slot = s.cluster.slot_of(seat);
    s.cluster.node(owner).kill();
    j.note("the primary crashes");
    s.cluster.wait_for_owner(slot, replica);
    j.note("the Cluster has promoted the replica");

    j.section("The older way");
    auto const b_has_it = b.try_lock(long_ttl);
    j.hazard(a_has_it && b_has_it,
             "the new primary lacks the lock of A: A and B both hold the lock");

    j.section("The same schedule with holdfast");
    auto const [refused, none] = new_b.try_past_outage(seat, {.ttl = long_ttl});
    j.safe(held.held() && refused == holdfast::errc::quarantined,
           "A has its lease, and B grants nothing: the new primary may lack locks");
    j.safe(!s.cluster.cli(replica).exists(seat), "no key was made on the new primary");
}

} // namespace

void show_in_cluster(journal& j, circumstances const&) {
    stage s(j);
    auto a = s.client("A");
    auto b = s.client("B");
    a.connect();
    b.connect();
    show_another_slot(s, a, b);
    show_a_failover(s, a, b);
}

} // namespace tour
