// The connections of the processes in a simulation of readers and writers, and the faults.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_WIRE_HPP

#include "protocol/rules.hpp"

#include "simulation/readers/servers.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace holdfast::test {

class readers_wire : protected readers_servers {
protected:
    using readers_servers::readers_servers;
    ~readers_wire() = default;

    void complete(message& m) const override {
        auto const& its = tenures_[m.tenure];
        m.by = its.by;
        m.ttl = its.machine.ttl() / 1ms;
        m.adopts = its.adopts && m.op == command::acquire;
        auto const window = protocol::waiting_rules::readers_turn(its.round_trip);
        m.readers_turn = std::chrono::ceil<std::chrono::milliseconds>(window) / 1ms;
        if (m.op == command::release && m.answered) m.withdraws = true;
    }
    duration longest_ttl(unsigned) const override { return 2 * ttl_; }

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
        case 7:
            return at(when, [this] { evict(); });
        case 8:
            return at(when, [this] { leave_remnants(); });
        case 9:
            return at(when, [this] { revoke(); });
        default:
            return at(when, [this, i, span] { restart(i, span); });
        }
    }
    /// The token that a tombstone replaces.
    int replaced_by(int token) const {
        auto const found =
            token < 0 ? tombstones_.end() : tombstones_.find(static_cast<unsigned>(token));
        return found == tombstones_.end() ? token : static_cast<int>(found->second);
    }
    /// Somebody deletes the key at some instances, or servers evict it. That ends whoever has it.
    void rob() {
        auto const everywhere = one_in(2);
        for (unsigned i = 0; i < size(); ++i) {
            if (instances_[i].key.is == nobody || (!everywhere && one_in(2))) continue;
            ++seen_.robberies;
            write_story("the key is deleted at ", i);
            // The set of readers may be evicted, so the marker stands for all of them.
            auto const holder = replaced_by(instances_[i].key.is);
            for (auto& t : tenures_) {
                auto const reads = holder == reading::readers && t.by == access::read && !t.over;
                if (reads || holder == static_cast<int>(t.token)) t.robbed = true;
            }
            remove_key(i);
        }
    }
    /// Servers evict keys beside the key. No promise may break.
    void evict() {
        auto const everywhere = one_in(2);
        for (unsigned i = 0; i < size(); ++i) {
            if (!everywhere && one_in(2)) continue;
            evict_set(i);
            if (one_in(3)) instances_[i].intent.is = nobody;
            if (one_in(3)) instances_[i].turn.is = reading::window::none;
        }
    }
    /// An operator revokes a token that one of the instances shows.
    void revoke() {
        auto const alive = tokens_at(static_cast<unsigned>(below(size())));
        if (alive.empty()) return;
        auto const token = alive[below(alive.size())];
        if (tombstones_.contains(token)) return;
        auto const tombstone = add_dead();
        tombstones_.emplace(tombstone, token);
        for (unsigned i = 0; i < size(); ++i) {
            if (one_in(5)) continue; // it is never heard there
            auto const late = std::max(travel(), instances_[i].frozen_until - now());
            at(late, [this, i, who = token, tombstone] { revoke_at(i, who, tombstone); });
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
    /// Minorities keep what the dead have left: tokens, readers, intents and turns.
    void leave_remnants() {
        if (size() < 3) return;
        auto const i = static_cast<unsigned>(below(size()));
        auto& at = instances_[i];
        expire_keys(i);
        if (at.key.is != nobody) return;
        ++seen_.remnants;
        auto const t = add_dead();
        auto const until = clock_ms(i) + some(ttl_ * 2) / 1'000'000 + 1;
        if (one_in(2)) {
            at.key = {static_cast<int>(t), until};
        } else {
            at.key = {reading::readers, until + ttl_ / 2ms};
            at.members = {{t, until}};
            at.has_set = true;
            at.set_until = at.key.until;
        }
        written(i);
        if (one_in(2)) at.intent = {static_cast<int>(clients_.size()) + 1, until};
        if (one_in(3)) at.turn = {reading::window::wait, until};
    }
    void restart(unsigned i, true_time span) {
        ++seen_.restarts;
        write_story("instance ", i, " restarts and has forgotten everything");
        auto& its = instances_[i];
        auto const tokens = tokens_at(i);
        instance empty;
        empty.ppm = its.ppm;
        empty.identity = its.identity;
        empty.versions = its.versions + 1;
        its = std::move(empty);
        for (auto const token : tokens) key_changed(token);
        cut_all(i, span);
    }
};

} // namespace holdfast::test

#endif
