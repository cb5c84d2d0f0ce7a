// A primary, its replicas and the sentinels that fail over, for the simulation of fail-overs.
#ifndef HOLDFAST_TEST_SIMULATION_FAILOVERS_SERVERS_HPP
#define HOLDFAST_TEST_SIMULATION_FAILOVERS_SERVERS_HPP

#include "protocol/sentinel/sentinel_directory.hpp"

#include "simulation/failovers/settings.hpp"
#include "simulation/kernel/instance.hpp"
#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast::test {

using protocol::duration;
using protocol::named_primary;
using protocol::time_point;
using protocol::verdict;

namespace failover {

using command = protocol::command;

/// A command of a client, and the answer to it.
struct request {
    unsigned client = 0, link = 0;
    command op{};
    unsigned token = 0;
    duration ttl{};
    time_point sent{};
    verdict said = verdict::refused;
    unsigned replicas = 0;     ///< WAIT for so many; zero: the answer comes at once
    unsigned told = 0;         ///< the answer to WAIT
    std::uint64_t history = 0; ///< of the server that answers
    // Of the fence of an acquire:
    std::uint64_t hint = 0, number = 0;
    std::uint64_t greatest = 0; ///< the greatest number of the tenures that were won before
    bool lacked = false;        ///< the server had not counted that far
};

/// Keys expire by its wall clock, which its replicas do not share.
struct server : test::instance {
    true_time offset = 0;                   ///< of its wall clock
    int primary = nobody;                   ///< of a replica
    bool attached = true;                   ///< a replica that has the data of its primary
    std::uint64_t history = 1;              ///< the replication id
    std::uint64_t written = 0, applied = 0; ///< writes, as a primary and as a replica
    unsigned role_changes = 0;
    true_time last_apply = 0;
    struct covered_later {
        std::uint64_t needs, id;
        request r;
    };
    std::vector<covered_later> waiting; ///< for replicas

    bool is_primary() const { return primary == nobody; }
};

struct sentinel {
    named_primary says{.server = 0, .epoch = 1};
    true_time stuck_until = 0; ///< it hears nothing of the others
};

} // namespace failover

class failover_servers : protected timeline {
protected:
    using server = failover::server;
    using sentinel = failover::sentinel;
    using request = failover::request;
    using command = failover::command;

    static constexpr duration m = std::chrono::seconds(2);
    static constexpr true_time second = 1'000'000'000;
    /// The time of a right wall clock when a schedule begins: 54 years after 1970.
    static constexpr true_time beginning = true_time{54} * 365 * 24 * 3'600 * second;

    failover_servers(std::uint64_t seed, failover_tally& seen, failover_setup const& setup,
                     std::ostream* story)
        : timeline(seed, story)
        , seen_(seen)
        , setup_(setup)
        , max_ttl_(std::chrono::seconds(std::array{1, 3, 6}[below(3)]))
        , delay_(std::array<true_time, 3>{200'000, 2'000'000, 30'000'000}[below(3)])
        , servers_(3)
        , sentinels_(one_in(3) ? 5 : 3) {
        // Clocks that differ are half a second apart at least, beyond what drift explains.
        auto const differ = setup.clocks_differ && one_in(2);
        for (unsigned i = 0; i < servers_.size(); ++i) {
            auto& s = servers_[i];
            s.ppm = between(-50, 50);
            if (differ) s.offset = between(-6, 6) * second / 2;
            if (i > 0) s.primary = 0;
        }
        lag_ = std::array<true_time, 3>{1'000'000, 100'000'000, 3 * second}[below(3)];
    }
    ~failover_servers() = default;

    virtual void answer(request r) = 0;
    /// A sentinel has switched.
    virtual void announce(unsigned from) = 0;

    /// Mostly short, now and then far longer.
    true_time travel() { return 1 + some(one_in(20) ? delay_ * 3 : delay_); }
    true_time wall(server const& s) const { return s.offset + stretched(now(), s.ppm); }
    unsigned quorum() const { return static_cast<unsigned>(sentinels_.size()) / 2 + 1; }

    //
    // Servers
    //

    void execute(unsigned i, request r) {
        auto& s = servers_[i];
        if (!s.is_primary()) {
            r.said = verdict::refused;
            write_story("server ", i, " refuses ", r.client, ": READONLY");
            return answer(r);
        }
        r.history = s.history;
        s.expire(wall(s));
        auto const done = carry_out(s.has, r.op, r.token, wall(s) + r.ttl.count());
        r.said = done.said;
        if (setup_.fences && r.op == command::acquire && done.changed) give_number(i, r);
        write_story("server ", i, " answers ", r.client, ": ", name(r.op), " for ", r.token, ": ",
                    name(r.said));
        if (!done.changed) return answer(r);
        ++s.written;
        replicate(i);
        if (r.replicas == 0) return answer(r);
        auto const id = ++waits_;
        s.waiting.push_back({s.written, id, r});
        at(second / 8 + some(second / 10), [this, i, id] { end_wait(i, id); });
    }

    /// Numbers the tenure that has just been granted the key.
    void give_number(unsigned i, request& r) {
        auto& s = servers_[i];
        auto const seconds = static_cast<double>(beginning + wall(s)) / second;
        auto const next =
            next_number(s.has.counter, r.hint, seconds, setup_.fences->counts_up ? 1 : 0);
        switch (next.how) {
        case numbering::exhausted:
            return;
        case numbering::hinted:
            ++seen_.hinted;
            break;
        case numbering::hint_ignored:
            ++seen_.hints_ignored;
            break;
        case numbering::hint_behind:
            ++seen_.hints_behind;
            break;
        }
        write_story("server ", i, " numbers ", r.token, " with hint ", r.hint, " after ",
                    s.has.counter, ": ", next.number);
        r.lacked = s.has.counter < r.greatest;
        r.number = s.has.counter = next.number;
        if (r.number <= r.greatest) ++seen_.low_numbers;
    }

    unsigned replicas_with(unsigned i, std::uint64_t written) const {
        unsigned count = 0;
        for (auto const& other : servers_) {
            count +=
                other.primary == static_cast<int>(i) && other.attached && other.applied >= written;
        }
        return count;
    }
    protocol::replica_list list_of(unsigned i) const {
        protocol::replica_list list{.offset = servers_[i].written};
        for (auto const& other : servers_) {
            if (other.primary == static_cast<int>(i) && other.attached)
                list.acknowledged.push_back(other.applied);
        }
        return list;
    }
    void end_wait(unsigned i, std::uint64_t id) {
        std::erase_if(servers_[i].waiting, [&](auto& w) {
            if (w.id != id) return false;
            w.r.told = replicas_with(i, w.needs);
            answer(w.r);
            return true;
        });
    }

    void replicate(unsigned i) {
        for (unsigned j = 0; j < servers_.size(); ++j) {
            auto& replica = servers_[j];
            if (replica.primary != static_cast<int>(i)) continue;
            replica.last_apply = std::max(replica.last_apply, now() + 1 + some(lag_));
            at(replica.last_apply - now(), [this, i, j, data = servers_[i].has,
                                            n = servers_[i].written, role = replica.role_changes] {
                auto& to = servers_[j];
                if (to.role_changes != role) {
                    ++seen_.lost_writes;
                    return;
                }
                if (!to.attached) return; // the full resync has it
                to.has = data;
                to.applied = n;
                cover(i);
            });
        }
    }

    /// Answers the writes that enough replicas have.
    void cover(unsigned i) {
        std::erase_if(servers_[i].waiting, [&](auto& w) {
            w.r.told = replicas_with(i, w.needs);
            if (w.r.told < w.r.replicas) return false;
            answer(w.r);
            return true;
        });
    }

    void promote(unsigned i) {
        auto& s = servers_[i];
        write_story("server ", i, " is promoted");
        s.primary = nobody;
        ++s.role_changes;
        s.history = ++histories_;
        s.written = s.applied;
    }

    void follow(unsigned i, unsigned primary) {
        auto& s = servers_[i];
        if (i == primary || !servers_[primary].is_primary()) return;
        if (s.primary == static_cast<int>(primary)) return;
        write_story("server ", i, " becomes a replica of ", primary);
        if (s.is_primary()) ++seen_.demotions;
        s.primary = static_cast<int>(primary);
        s.attached = false;
        s.waiting.clear();
        ++s.role_changes;
        at(1 + some(second / 2), [this, i, primary, role = s.role_changes] {
            auto& replica = servers_[i];
            auto const& from = servers_[primary];
            if (replica.role_changes != role || !from.is_primary()) return;
            if (from.has.counter < replica.has.counter) ++seen_.counts_dropped;
            replica.has = from.has;
            replica.history = from.history;
            replica.applied = from.written;
            replica.attached = true;
            cover(primary);
        });
    }

    //
    // Sentinels
    //

    /// The server that most sentinels will name.
    unsigned elected() const { return elected_; }

    /// Some replica is promoted. The old primary hears of it after `old_away`.
    void fail_over(true_time old_away) {
        auto const old = elected_;
        std::vector<unsigned> candidates;
        for (unsigned i = 0; i < servers_.size(); ++i) {
            if (servers_[i].primary == static_cast<int>(old) && servers_[i].attached)
                candidates.push_back(i);
        }
        // A leader needs the votes of a majority that knows the primary which is to be replaced.
        auto const voters = std::count_if(sentinels_.begin(), sentinels_.end(), [&](auto const& s) {
            return s.stuck_until <= now() && s.says.epoch == epoch_;
        });
        if (candidates.empty() || static_cast<unsigned>(voters) < quorum()) return;
        ++seen_.failovers;
        auto const chosen = candidates[below(candidates.size())];
        if (servers_[chosen].has.counter < servers_[old].has.counter) ++seen_.counts_lost;
        elected_ = chosen;
        auto const primary = named_primary{.server = chosen, .epoch = ++epoch_};
        promote(chosen);
        for (unsigned i = 0; i < sentinels_.size(); ++i) {
            auto const stuck = sentinels_[i].stuck_until > now();
            if (stuck) ++seen_.stuck_sentinels;
            auto const from = stuck ? sentinels_[i].stuck_until - now() : 0;
            at(from + 1 + some(3 * second / 2), [this, i, primary] { learn(i, primary); });
        }
        for (unsigned i = 0; i < servers_.size(); ++i) {
            if (i == chosen) continue;
            auto const away = i == old ? old_away : 0;
            at(away + 1 + some(second), [this, i, epoch = epoch_] {
                if (epoch == epoch_) follow(i, elected_);
            });
        }
    }

    void learn(unsigned i, named_primary const& primary) {
        auto& s = sentinels_[i];
        if (s.says.epoch >= primary.epoch) return;
        s.says = primary;
        write_story("sentinel ", i, " names ", primary.server, " in epoch ", primary.epoch);
        announce(i);
    }

    failover_tally& seen_;
    failover_setup const setup_;
    duration const max_ttl_;
    true_time const delay_;
    true_time lag_ = 0;
    std::vector<server> servers_;
    std::vector<sentinel> sentinels_;

private:
    unsigned elected_ = 0;
    std::uint64_t epoch_ = 1, histories_ = 1, waits_ = 0;
};

} // namespace holdfast::test

#endif
