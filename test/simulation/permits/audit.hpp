// The checks of a simulation of permits.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_AUDIT_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_AUDIT_HPP

#include "protocol/tenure/fence.hpp"

#include "simulation/permits/state.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

class permits_audit : protected permits_state {
protected:
    using permits_state::permits_state;
    ~permits_audit() = default;

    // P1, P2: a tenure was won, or extended.
    void check_exclusion(unsigned t) {
        auto const& its = tenures_[t];
        if (is_reckless() || its.robbed) return;
        unsigned all = 0;
        for (auto const u : holding_) {
            auto const& other = tenures_[u];
            if (other.robbed || !is_held(other)) continue;
            ++all;
            if (u != t && other.own_slot == its.own_slot && parts_.votes_for_slot)
                fail("P2", std::to_string(t) + " and " + std::to_string(u) + " have slot " +
                               std::to_string(its.own_slot));
        }
        measures_.most_at_once = std::max(measures_.most_at_once, all);
        if (all > most_permits_)
            fail("P1", std::to_string(all) + " leases of " + std::to_string(most_permits_));
    }
    void check_validity(unsigned t) {
        auto const& its = tenures_[t];
        if (local(its.process) >= its.machine.deadline())
            fail("P1", "a lease was given out that has run out");
        if (its.own_slot >= most_permits_) fail("P1", "a slot that nobody may give");
    }

    // P3: a command for one token takes the slot of another. `before` are those that were alive
    // when it came.
    void check_others(unsigned i, unsigned who, std::vector<unsigned> const& before) {
        if (is_reckless() || !parts_.audits_members) return;
        for (auto const token : before) {
            if (token != who && !slot_at(i, token))
                fail("P3", "a command of " + std::to_string(who) + " ends " +
                               std::to_string(token) + " at " + std::to_string(i));
        }
    }
    /// A take that comes late, when the token has been given a slot by another command.
    void check_own(unsigned i, unsigned token, std::optional<unsigned> before) {
        if (before && slot_at(i, token) != before && parts_.audits_members)
            fail("P3",
                 "a take of " + std::to_string(token) + " ends its slot at " + std::to_string(i));
    }
    /// P2 at one instance.
    void check_slots(unsigned i) {
        if (!parts_.votes_for_slot || !parts_.audits_members) return;
        auto const& all = instances_[i].taken;
        for (auto one = all.begin(); one != all.end(); ++one)
            for (auto two = std::next(one); two != all.end(); ++two)
                if (one->second == two->second && slot_at(i, one->first) && slot_at(i, two->first))
                    fail("P2", "two tokens have one slot at " + std::to_string(i));
    }

    // S2, for each slot
    void issue(unsigned t, std::uint64_t number, unsigned handovers) {
        if (!protocol::is_fence_count(number))
            return fail("S2", "a number that no tenure may have");
        auto const& its = tenures_[t];
        auto const slot = its.own_slot;
        auto const fence = protocol::fence_of(number, handovers);
        write_story("tenure ", t, " has fence ", number, " of slot ", slot);
        ++seen_.fenced;
        if (!forgets()) {
            if (!issued_.emplace(slot, fence).second)
                fail("S2", "two holders of a slot have the same fence");
            if (handovers == 0 && fence <= its.floors[slot])
                fail("S2", "a holder of a slot has no greater fence than those before");
        }
        greatest_[slot] = std::max(greatest_[slot], fence);
    }

    // FIFO
    void check_order(actor const& a) {
        if (a.adopts) return;
        for (auto const& w : actors_) {
            if (w.process == a.process && w.is == actor::state::queued && !w.adopts &&
                w.arrived < a.arrived && w.permits <= a.permits)
                fail("FIFO", "an acquire goes before an earlier one");
        }
    }

    // S4: nothing is left when everything has been answered. What was left to its ttl goes with
    // it, and so does what a ghost has set.
    void check_clean(unsigned t) override {
        auto const& its = tenures_[t];
        if (!its.over || its.dead || its.pending != 0 || its.adopts || stays_.contains(its.token))
            return;
        for (unsigned i = 0; i < size(); ++i) {
            if (slot_at(i, its.token))
                fail("S4", "a slot of " + std::to_string(t) + " stays at " + std::to_string(i));
        }
    }

    //
    // L4: a lease that has lost its quorum
    //

    bool has_quorum(tenure_state const& its) const {
        unsigned those = 0;
        for (unsigned i = 0; i < size(); ++i)
            those += parts_.votes_for_slot ? has_slot(i, its.token, its.own_slot)
                                           : slot_at(i, its.token).has_value();
        return those >= quorum();
    }
    void slots_changed() {
        if (is_reckless()) return;
        for (auto const u : holding_) {
            auto& its = tenures_[u];
            if (has_quorum(its)) {
                its.without_quorum.reset();
            } else if (!its.without_quorum) {
                its.without_quorum = now();
            }
        }
    }
    void check_extension(unsigned t) {
        auto const& its = tenures_[t];
        if (is_reckless() || !parts_.audits_losses) return;
        if (local(its.process) >= its.last_deadline)
            fail("P1", "a lease that had run out was brought back");
        if (its.without_quorum && its.extension_sent > *its.without_quorum)
            fail("L4", "a lease was extended that had lost its slot");
    }
    // A process that is stopped at the deadline hears of the loss when it goes on.
    void check_notice(unsigned t) {
        auto const& its = tenures_[t];
        auto const late = local(its.process) - its.machine.deadline();
        if (late > duration(0) && clients_[its.process].paused_until < now() - late.count() - 5)
            fail("L4", "a loss was told after the deadline");
    }

    //
    // The end
    //

    void check_end() {
        if (queued_ > 0) fail("L3", "an acquire was never told");
        for (auto const& t : tenures_) {
            if (t.dead || t.tracks) continue;
            if (!t.over) fail("L3", "a tenure never ended");
            if (t.pending != 0) fail("L3", "a command was never accounted for");
        }
        for (unsigned i = 0; i < size(); ++i) check_ttls(i);
    }
    /// All keys have a ttl.
    void check_ttls(unsigned i) {
        auto const& at = instances_[i];
        auto const longest = clock_ms(i) + 2 * ttl_ / 1ms * 3 / 2 + 2;
        if ((!at.taken.empty() && at.taken_until > longest) ||
            (!at.deadlines.empty() && at.deadlines_until > longest))
            fail("S4", "a key without an end");
        for (auto const& [token, until] : at.deadlines)
            if (until > longest) fail("S4", "a slot without an end");
    }
};

} // namespace holdfast::test

#endif
