// The connections of the processes in a simulation of sets, and the faults.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_WIRE_HPP

#include "protocol/rules.hpp"

#include "simulation/sets/servers.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace holdfast::test {

class set_wire : protected set_servers {
protected:
    using set_servers::set_servers;
    ~set_wire() = default;

    void complete(message& m) const override { m.ttl = tenures_[m.tenure].machine.ttl(); }
    duration longest_ttl(unsigned t) const override { return tenures_[t].machine.ttl(); }

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
        switch (below(forgets() ? 10 : 8)) {
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
        case 6:
            return at(when, [this] { rob(); });
        case 7:
            return at(when, [this] { leave_remnants(); });
        default:
            return at(when, [this, i, span] { restart(i, span); });
        }
    }
    /// Somebody deletes one key of a lease, at some instances.
    void rob() {
        if (holding_.empty()) return;
        auto const at_random = static_cast<std::ptrdiff_t>(below(holding_.size()));
        auto t = *std::next(holding_.begin(), at_random);
        auto const is_taken = [this](unsigned of) {
            auto const* const lease = tenures_[of].lease;
            return lease != nullptr && lease->owner != nullptr;
        };
        auto const taken = std::find_if(holding_.begin(), holding_.end(), is_taken);
        if (taken != holding_.end() && one_in(2)) t = *taken; // in order
        auto& its = tenures_[t];
        auto const k = its.keys[below(its.keys.size())];
        auto const everywhere = one_in(2);
        for (unsigned i = 0; i < size(); ++i) {
            if (!instances_[i].keys[k].is_of(token(t)) || (!everywhere && one_in(2))) continue;
            ++seen_.robberies;
            its.robbed = true;
            write_story("key ", names({k}), " of ", t, " is deleted at ", i);
            remove(i, k);
        }
    }
    /// Minorities keep keys of holders that are gone, each key on a minority of its own.
    void leave_remnants() {
        for (unsigned k = 0; k < keys_; ++k) {
            auto const i = static_cast<unsigned>(below(size()));
            if (size() < 3 || !one_in(2) || instances_[i].keys[k].holder != nobody) continue;
            ++seen_.remnants;
            auto const t = static_cast<unsigned>(tenures_.size());
            tenures_.push_back({0, {size(), ttl_, false}, {k}});
            tenures_.back().dead = tenures_.back().over = true;
            auto& has = instances_[i].keys[k];
            has.holder = static_cast<int>(t);
            has.expires = now() + some(ttl_ * 2) + 1;
            written(i, k, nobody);
        }
    }
    void restart(unsigned i, true_time span) {
        ++seen_.restarts;
        write_story("instance ", i, " restarts and has forgotten everything");
        auto& its = instances_[i];
        std::set<int> holders;
        for (unsigned k = 0; k < keys_; ++k) {
            holders.insert(its.keys[k].holder);
            its.keys[k] = {};
            ++its.versions[k];
            its.listeners.of[k].clear();
        }
        for (auto const t : holders)
            if (t >= 0) keys_changed(tenure_of(t));
        its.frozen_until = 0;
        cut_all(i, span);
    }
};

} // namespace holdfast::test

#endif
