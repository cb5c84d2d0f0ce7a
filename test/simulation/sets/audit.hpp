// The checks of a simulation of sets.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_AUDIT_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_AUDIT_HPP

#include "protocol/tenure/fence.hpp"

#include "simulation/sets/state.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace holdfast::test {

class set_audit : protected set_state {
protected:
    using set_state::set_state;
    ~set_audit() = default;

    // M1: an acquire of one key or several has been granted.
    void check_exclusion(unsigned t) {
        auto const& its = tenures_[t];
        if (local(its.process) >= its.machine.deadline())
            fail("M1", "a lease was given out that has run out");
        if (is_reckless()) return;
        for (auto const u : holding_) {
            auto const& other = tenures_[u];
            if (u == t || other.robbed || its.robbed || !is_held(other)) continue;
            if (!setting::share_a_key(its.keys, other.keys)) continue;
            // Nobody relies on a key that was taken for a set whose conversion is under way.
            if (other.lease == nullptr) continue;
            if (other.converting && other.lease->owner != nullptr) continue;
            fail("M1", "two leases have one key: " + std::to_string(u) + " (" + names(other.keys) +
                           ") and " + std::to_string(t) + " (" + names(its.keys) + ")");
        }
    }

    // M2: nothing is left when everything has been answered. What a ghost has set goes with its
    // ttl.
    void check_clean(unsigned t) override {
        auto const& its = tenures_[t];
        if (!its.over || its.dead || its.pending != 0 || stays_.contains(token(t))) return;
        for (auto const& i : instances_) {
            for (auto const k : its.keys) {
                if (i.keys[k].keeps(token(t), now()))
                    fail("M2", "a key of " + std::to_string(t) + " stays behind");
            }
        }
    }

    // S3: an instance deletes a key.
    void check_deletion(content const& has) {
        if (has.holder < 0 || has.is_expired(now())) return;
        auto const& owner = tenures_[tenure_of(has.holder)];
        if (is_held(owner) && owner.lease != nullptr && owner.lease->owner == nullptr)
            fail("S3", "the key of a lease that is held was deleted");
    }

    // First come, first served in a process, over all keys.
    void check_order(actor const& a) {
        if (a.owner != nullptr || a.adopts || clients_[a.process].foreign) return;
        for (auto const& w : actors_) {
            if (!w.adopts && w.process == a.process && w.is == actor::state::queued &&
                w.arrived < a.arrived && setting::share_a_key(w.keys, a.keys)) {
                fail("FIFO", "an acquire of " + names(a.keys) + " goes before an earlier one of " +
                                 names(w.keys));
            }
        }
    }

    // A1: an adoption was refused, and no instance was asked.
    void check_refused_adoption(actor const& a) {
        auto const has_one = [&](unsigned t) {
            auto const& its = tenures_[t];
            return its.process == a.process && setting::share_a_key(its.keys, a.keys);
        };
        if (std::none_of(holding_.begin(), holding_.end(), has_one))
            fail("A1", "an adoption is refused, and the process has none of the keys");
    }
    // A1: the instances have refused an adoption.
    void check_failed_adoption(unsigned t) {
        if (faults_ == schedule_faults::none && has_quorum(t))
            fail("A1", "an adoption has failed, and its keys are there");
    }

    // S2 for each key.
    void issue(unsigned t, std::uint64_t number, unsigned handovers) {
        if (!protocol::is_fence_count(number))
            return fail("S2", "a number that no tenure may have");
        auto const& its = tenures_[t];
        auto const fence = protocol::fence_of(number, handovers);
        write_story("tenure ", t, " has fence ", number, " + ", handovers, " for ",
                    names(its.keys));
        ++seen_.fenced;
        for (std::size_t n = 0; n < its.keys.size(); ++n) {
            auto const k = its.keys[n];
            if (!issued_[k].insert(fence).second && !forgets())
                fail("S2", "two leases of one key have the same fence");
            if (handovers == 0 && fence <= its.floors[n] && !forgets())
                fail("S2", "a later lease of a key has a smaller fence");
            greatest_[k] = std::max(greatest_[k], fence);
        }
    }

    //
    // M6: the loss of one key
    //

    bool has_quorum(unsigned t) const {
        auto const& its = tenures_[t];
        return std::all_of(its.keys.begin(), its.keys.end(), [&](unsigned k) {
            auto const those = std::count_if(instances_.begin(), instances_.end(), [&](auto& i) {
                return i.keys[k].keeps(token(t), now());
            });
            return static_cast<unsigned>(those) >= quorum();
        });
    }
    void keys_changed(unsigned t) {
        auto& its = tenures_[t];
        if (has_quorum(t)) {
            its.without_quorum.reset();
        } else if (!its.without_quorum) {
            its.without_quorum = now();
        }
    }
    void check_extension(unsigned t) {
        auto const& its = tenures_[t];
        if (its.without_quorum && its.extension_sent > *its.without_quorum && !is_reckless())
            fail("M6", "a lease was extended that has lost one of its keys");
    }
    // A process that is stopped at the deadline hears of the loss when it goes on.
    void check_notice(unsigned t) {
        auto const& its = tenures_[t];
        auto const late = local(its.process) - its.machine.deadline();
        if (late > duration(0) && clients_[its.process].paused_until < now() - late.count() - 5)
            fail("M6", "a loss was told after the deadline");
    }

    void check_end() {
        if (queued_ > 0) fail("M3", "an acquire was never told");
        for (auto const& t : tenures_) {
            if (t.dead || t.tracks) continue;
            if (!t.over) fail("L3", "a tenure never ended");
            if (t.pending != 0) fail("L3", "a command was never accounted for");
        }
        for (auto const& p : clients_) {
            if (!p.alive) continue;
            for (unsigned k = 0; k < keys_; ++k) {
                if (!p.lines[k].empty()) fail("lines", "a place in a line is never given up");
            }
            for (auto const& [name, q] : p.queues) {
                if (q->in_use()) fail("lines", "an empty queue stays");
            }
        }
    }
};

} // namespace holdfast::test

#endif
