// The Cluster of a campaign, and its faults.
#ifndef HOLDFAST_TEST_CAMPAIGN_CLUSTER_SERVERS_HPP
#define HOLDFAST_TEST_CAMPAIGN_CLUSTER_SERVERS_HPP

#include "campaign/faults.hpp"
#include "support/cluster_group.hpp"
#include "support/cluster_repair.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// For a Cluster to get over a fault. If it does not, a repair comes before the next one.
inline constexpr std::chrono::seconds recovery_time{20};

/// doc/production.md: max_ttl and the node timeout, and G17 with an outage.
inline constexpr milliseconds new_owner = end_of_lease + 2'000ms;
/// No document has one: the node timeout, until the others agree, and until they have voted.
inline constexpr milliseconds election = 2 * 2'000ms + 1'000ms;

class cluster_servers : public group_of_servers {
public:
    /// With TLS there are no lines, as a proxy does not speak it.
    cluster_servers(fault_context& context, std::size_t clients, cluster_group_options options)
        : group_of_servers(context, clients)
        , cluster_(std::move(options)) {
        if (cluster_.options().tls) return;
        for (std::size_t i = 0; i < cluster_.size(); ++i) lines_.add(cluster_.port(i));
    }

    cluster_group& group() { return cluster_; }
    /// Keys of locks in the slots that migrate.
    std::vector<std::string> moving_keys() {
        std::vector<std::string> all;
        for (std::string const kind : {"plain", "fenced", "fair"})
            all.push_back(migrating_key(kind));
        return all;
    }
    /// Keys that a repair had to give up.
    std::size_t lost_keys() const { return lost_keys_; }

    void add_faults(fault_list& list) override {
        add(list, "cluster: kill of a primary", election + new_owner,
            [this] { replace(&server::kill, &server::restart); });
        add(list, "cluster: a primary freezes and is replaced", election + new_owner,
            [this] { replace(&server::freeze, &server::thaw); });
        add(list, "cluster: a primary freezes for a moment", longest_freeze + end_of_lease,
            [this] { context_.freeze(cluster_.node(cluster_.owner(any_slot()))); });
        add(list, "cluster: planned fail-over", new_owner,
            [this] { fail_over(any_slot(), cluster_group::takeover::planned); });
        add(list, "cluster: forced fail-over", new_owner,
            [this] { fail_over(any_slot(), cluster_group::takeover::force); });
        add(list, "cluster: there and back by fail-over", 2 * new_owner, [this] {
            auto const slot = any_slot();
            fail_over(slot, cluster_group::takeover::force);
            fail_over(slot, cluster_group::takeover::planned);
        });
        add(list, "cluster: a primary restarts empty", new_owner, [this] {
            auto const slot = any_slot();
            auto const victim = cluster_.owner(slot);
            cluster_.restart_empty(victim);
            context_.add_excess(context_.began());
            cluster_.wait_until_agreed(recovery_time);
            if (cluster_.owner(slot) != victim) context_.add_excess(context_.began());
        });
        add_migrations(list);
        if (lines_.servers() > 0) add_line_faults(list, "cluster line");
    }
    void settle() override {
        repair_log log;
        auto const note_steps = [&] {
            for (auto const& step : log.steps) context_.results().say("  repair: " + step);
            lost_keys_ += log.lost_keys;
        };
        try {
            repair(cluster_, log);
        } catch (...) {
            note_steps();
            throw;
        }
        note_steps();
    }

private:
    /// doc/production.md: locks of most kinds wait while their slot migrates.
    void add_migrations(fault_list& list) {
        add(
            list, "cluster: slots migrate", end_of_lease,
            [this] {
                auto const [from, to] = ends_of_migration();
                slot_migration moving(cluster_, migrating, from, to);
                moving.begin();
                while (move_keys(moving, from, to, 1) > 0) context_.pause(100ms);
                context_.pause();
                finish(moving, from, to);
                migrate_back(to, from);
            },
            true);
        add(
            list, "cluster: the target of a migration freezes", end_of_lease,
            [this] {
                auto const [from, to] = ends_of_migration();
                slot_migration moving(cluster_, migrating, from, to);
                moving.begin();
                move_keys(moving, from, to, 1);
                cluster_.node(to).freeze();
                context_.pause(1'000ms);
                cluster_.node(to).thaw();
                finish(moving, from, to);
                migrate_back(to, from);
            },
            true);
        // N31: on Redis, one that dies as the source may give a lock two holders.
        if (cluster_.options().kind.name.starts_with("valkey")) {
            add(
                list, "cluster: the source of a migration dies", new_owner,
                [this] {
                    auto const [from, to] = ends_of_migration();
                    die_in_migration(from, to, from);
                },
                true);
        }
        add(
            list, "cluster: the target of a migration dies", new_owner,
            [this] {
                auto const [from, to] = ends_of_migration();
                die_in_migration(from, to, to);
            },
            true);
    }
    /// A repair, as an operator would do it, ends what is left of the migration.
    void die_in_migration(std::size_t from, std::size_t to, std::size_t victim) {
        slot_migration moving(cluster_, migrating, from, to);
        moving.begin();
        move_keys(moving, from, to, 1);
        auto const slot = slot_of(victim);
        cluster_.node(victim).kill();
        cluster_.wait_for_other_owner(slot, victim, recovery_time);
        cluster_.node(victim).restart();
        settle();
    }
    /// The owner of the slots that migrate, and another primary.
    std::pair<std::size_t, std::size_t> ends_of_migration() {
        auto const from = cluster_.owner(migrating.first);
        for (int i = 0; i < 100; ++i)
            if (auto const to = cluster_.owner(any_slot()); to != from) return {from, to};
        throw std::runtime_error("one node owns all slots");
    }
    /// A replica takes the place of a primary, which comes back.
    void replace(void (server::*ends)(), void (server::*comes_back)()) {
        auto const slot = any_slot();
        auto const victim = cluster_.owner(slot);
        auto const began = clock_type::now();
        (cluster_.node(victim).*ends)();
        cluster_.wait_for_other_owner(slot, victim, recovery_time);
        context_.add_excess(began, election);
        (cluster_.node(victim).*comes_back)();
        cluster_.wait_until_agreed(recovery_time);
    }
    /// Nodes refuse to vote twice for replicas of one primary within twice the node timeout, and
    /// the replica gives up after 5 s. So an operator asks again.
    void fail_over(std::uint16_t slot, cluster_group::takeover how) {
        auto const replicas = cluster_.replicas_of(cluster_.owner(slot));
        if (replicas.empty()) throw std::runtime_error("the primary has no replica");
        for (int left = 3;; --left) {
            auto const began = clock_type::now();
            cluster_.begin_failover(replicas.front(), how);
            try {
                cluster_.wait_for_owner(slot, replicas.front(), 6s);
                return cluster_.wait_until_agreed(recovery_time);
            } catch (std::runtime_error const&) {
                if (left == 1) throw;
                context_.add_excess(began);
            }
        }
    }
    /// MIGRATE, again if it was refused because the target has such a key, too. A script of a fair
    /// lock may write the key that calls a process at the target before the old one has moved. It
    /// expires after 3 s at most.
    std::size_t move_keys(slot_migration& moving, std::size_t from, std::size_t to,
                          std::size_t most) {
        std::size_t moved = 0;
        std::string refusal;
        auto const has_moved = [&] {
            try {
                moved = moving.move_keys(most);
                return true;
            } catch (cli_error const& e) {
                refusal = e.what();
                if (!contains(refusal, "BUSYKEY")) throw;
                find_doubles(from, to);
                return false;
            }
        };
        if (!wait_until(has_moved, 5s, 100ms)) throw std::runtime_error(refusal);
        return moved;
    }
    std::set<std::string> keys_at(std::size_t node) {
        std::set<std::string> all;
        auto cli = cluster_.cli(node);
        for (auto slot = migrating.first; slot <= migrating.last; ++slot) {
            auto const keys =
                cli.command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "1000"});
            for (auto const& key : keys.elements()) all.insert(key.string());
        }
        return all;
    }
    /// With its time to live.
    std::string value_at(std::size_t node, std::string const& key) {
        auto cli = cluster_.cli(node);
        auto const ask = [&](std::string const& command) {
            (void)cli.command({"ASKING"});
            return cli.command({command, key});
        };
        auto const text = ask("GET"), left = ask("PTTL");
        return (text.is_string() ? text.string() : std::string("no text")) + " for " +
               (left.is_integer() ? std::to_string(left.integer()) : std::string("some")) + " ms";
    }
    /// The source makes no key of a slot that leaves it. So a key that it has before and afterwards
    /// was there all the time.
    void find_doubles(std::size_t from, std::size_t to) {
        auto const before = keys_at(from), there = keys_at(to), after = keys_at(from);
        for (auto const& key : before) {
            if (!there.contains(key) || !after.contains(key)) continue;
            if (contains(key, ":queue")) {
                context_.results().say("  at both nodes: " + key);
            } else {
                context_.results().wrong("the key " + key +
                                         " is at both nodes: " + value_at(from, key) +
                                         ", and at the target " + value_at(to, key));
            }
        }
    }
    /// Moves the keys that are left. All nodes hear of the new owner from the owner itself, before
    /// the slots move back: see cluster_group::migrate().
    void finish(slot_migration& moving, std::size_t from, std::size_t to) {
        while (move_keys(moving, from, to, all_keys) > 0) continue;
        moving.claim();
        for (auto slot = migrating.first; slot <= migrating.last; ++slot)
            cluster_.wait_for_owner(slot, to, recovery_time);
        moving.end();
        cluster_.wait_until_agreed(recovery_time);
    }
    void migrate_back(std::size_t from, std::size_t to) {
        slot_migration moving(cluster_, migrating, from, to);
        moving.begin();
        finish(moving, from, to);
    }
    std::uint16_t any_slot() {
        return static_cast<std::uint16_t>(context_.draw(cluster_group::slots - 1'000) + 500);
    }
    /// One of those that this node owns.
    std::uint16_t slot_of(std::size_t node) {
        for (int i = 0; i < 1'000; ++i)
            if (auto const slot = any_slot(); cluster_.owner(slot) == node) return slot;
        throw std::runtime_error("the node owns no slot");
    }
    /// A key in the slots that migrate.
    std::string migrating_key(std::string const& kind) {
        for (int i = 0;; ++i) {
            auto key = kind + "-moves" + std::to_string(i);
            if (cluster_.slot_of(key) <= migrating.last) return key;
        }
    }

    static constexpr slot_range migrating{0, 59};
    static constexpr std::size_t all_keys = ~std::size_t{0};

    cluster_group cluster_;
    std::size_t lost_keys_ = 0;
};

} // namespace holdfast::campaign

#endif
