// The connections of the processes in a simulation of permits, and the faults.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_WIRE_HPP

#include "protocol/rules.hpp"

#include "simulation/permits/servers.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace holdfast::test {

class permits_wire : protected permits_servers {
protected:
    using permits_servers::permits_servers;
    ~permits_wire() = default;

    /// The slot that goes with a command that is sent now.
    virtual std::optional<unsigned> slot_for(unsigned t, command op) const = 0;

    void complete(message& m) const override {
        auto const& its = tenures_[m.tenure];
        m.ttl = its.machine.ttl() / 1ms;
        m.permits = its.permits;
        m.start = its.start;
        m.slot = slot_for(m.tenure, m.op);
        m.adopts = its.adopts && m.op == command::acquire;
    }
    duration longest_ttl(unsigned) const override { return 2 * ttl_; }
    /// The machine asks an instance that has become unavailable in the same turn.
    void on_unsent(message const& sent, unsigned i) override {
        if (sent.op == command::track) return;
        auto m = sent;
        m.said = verdict::unsent;
        at(0, clients_[tenures_[m.tenure].process], [this, m, i] {
            if (clients_[tenures_[m.tenure].process].alive) pass_on(m, i);
        });
    }

    //
    // Faults
    //

    void plan_faults(true_time horizon) {
        auto const faults = 1 + below(4 + 3 * size());
        for (unsigned n = 0; n < faults; ++n) plan_fault(some(horizon));
    }
    void plan_fault(true_time when) {
        auto const span = 1 + (one_in(4) ? some(ttl_ * 2) : some(delay_ * 60));
        auto const i = static_cast<unsigned>(below(size()));
        auto const p = static_cast<unsigned>(below(clients_.size()));
        switch (below(forgets() ? 12 : 10)) {
        case 0:
        case 1:
            return at(when, [this, p, i, span] { cut(p, i, span); });
        case 2:
            return at(when, [this, i, span] {
                ++seen_.freezes;
                freeze(i, span);
            });
        case 3:
            return at(when, [this, p, span] {
                ++seen_.stops;
                pause(clients_[p], span);
            });
        case 4:
            if (!one_in(3)) return plan_fault(when);
            return at(when, [this, p] { kill(p); });
        case 5:
            return at(when, [this] { rob(); });
        case 6:
            return at(when, [this] {
                for (unsigned at_i = 0; at_i < size(); ++at_i)
                    if (one_in(2)) evict_one(at_i);
            });
        case 7:
        case 8:
            return at(when, [this] { leave_remnants(); });
        case 9:
            return at(when, [this] { revoke(); });
        default:
            return at(when, [this, i, span] { restart(i, span); });
        }
    }
    /// A token, or a tombstone in its place.
    bool has_left_at(unsigned i, unsigned token) const {
        auto const& its = instances_[i];
        auto const is_its = [&](auto const& each) {
            auto const replaces = tombstones_.find(each.first);
            return each.first == token ||
                   (replaces != tombstones_.end() && replaces->second == token);
        };
        return std::ranges::any_of(its.taken, is_its) || std::ranges::any_of(its.deadlines, is_its);
    }
    /// Somebody deletes the key at some instances, or servers evict it. That ends whoever has a
    /// slot there.
    void rob() {
        auto const everywhere = one_in(2);
        for (unsigned i = 0; i < size(); ++i) {
            if (instances_[i].taken.empty() || (!everywhere && one_in(2))) continue;
            ++seen_.robberies;
            write_story("the key is deleted at ", i);
            for (auto& t : tenures_)
                if (!t.over && has_left_at(i, t.token)) t.robbed = true;
            remove_keys(i);
        }
    }
    /// An operator revokes a token that one of the instances shows.
    void revoke() {
        auto const seen_at = static_cast<unsigned>(below(size()));
        auto const alive = alive_at(seen_at);
        if (alive.empty()) return;
        auto const token = alive[below(alive.size())];
        if (tombstones_.contains(token)) return;
        auto const slot = instances_[seen_at].taken.at(token);
        auto const tombstone = add_dead();
        tombstones_.emplace(tombstone, token);
        for (unsigned i = 0; i < size(); ++i) {
            if (one_in(5)) continue; // it is never heard there
            auto const late = std::max(travel(), instances_[i].frozen_until - now());
            at(late, [this, i, token, slot, tombstone] { revoke_at(i, token, slot, tombstone); });
        }
    }
    /// A token whose holder is gone, or is none.
    unsigned add_dead() {
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({0, {size(), ttl_, false}});
        tenures_.back().token = t;
        tenures_.back().dead = tenures_.back().over = true;
        return t;
    }
    /// Minorities keep what the dead have left.
    void leave_remnants() {
        if (size() < 3) return;
        auto const i = static_cast<unsigned>(below(size()));
        auto& its = instances_[i];
        expire_keys(i);
        auto const slot = static_cast<unsigned>(below(permits_));
        for (auto const& [token, taken] : its.taken)
            if (taken == slot) return;
        if (its.taken.size() != its.deadlines.size()) return;
        ++seen_.remnants;
        auto const t = add_dead();
        auto const until = clock_ms(i) + some(ttl_ * 2) / 1'000'000 + 1;
        its.taken.emplace(t, slot);
        its.deadlines[t] = until;
        its.taken_until = std::max(its.taken_until, until + ttl_ / 2ms);
        its.deadlines_until = std::max(its.deadlines_until, its.taken_until);
        written(i);
    }
    void restart(unsigned i, true_time span) {
        ++seen_.restarts;
        write_story("instance ", i, " restarts and has forgotten everything");
        auto& its = instances_[i];
        instance empty;
        empty.ppm = its.ppm;
        empty.identity = its.identity;
        empty.versions = its.versions + 1;
        its = std::move(empty);
        slots_changed();
        cut_all(i, span);
    }
};

} // namespace holdfast::test

#endif
