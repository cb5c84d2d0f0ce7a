// The checks of a simulation of readers and writers.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_AUDIT_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_AUDIT_HPP

#include "protocol/tenure/fence.hpp"

#include "simulation/readers/state.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace holdfast::test {

class readers_audit : protected readers_state {
protected:
    using readers_state::readers_state;
    ~readers_audit() = default;

    // W1: a tenure was won, or extended.
    void check_exclusion(unsigned t) {
        auto const& its = tenures_[t];
        if (is_reckless() || its.robbed) return;
        for (auto const u : holding_) {
            auto const& other = tenures_[u];
            if (u == t || other.robbed || !is_held(other)) continue;
            if (its.by == access::read && other.by == access::read) continue;
            fail("W1", std::string(reading::name(its.by)) + " of " + std::to_string(t) + " and " +
                           reading::name(other.by) + " of " + std::to_string(u));
        }
    }
    void check_validity(unsigned t) {
        auto const& its = tenures_[t];
        if (local(its.process) >= its.machine.deadline())
            fail("W1", "a lease was given out that has run out");
    }

    // W2: the commands of one reader, or the end of its lease, take another reader from the key.
    // `who` has just had a command carried out, and had readers beside it before.
    void check_others(unsigned i, unsigned who, std::vector<unsigned> const& before) {
        if (is_reckless()) return;
        for (auto const token : before) {
            if (token != who && !has_member(i, token))
                fail("W2", "a command of " + std::to_string(who) + " ends " +
                               std::to_string(token) + " at " + std::to_string(i));
        }
    }

    // W7
    void issue(unsigned t, bool reads, std::uint64_t number, unsigned handovers) {
        if (!protocol::is_fence_count(number))
            return fail("W7", "a number that no tenure may have");
        auto const& its = tenures_[t];
        auto const fence =
            protocol::fence_of(number, reads ? protocol::leases_per_number - 1 : handovers);
        write_story("tenure ", t, " has fence ", number, reads ? " to read" : " to write");
        ++(reads ? seen_.fenced_reads : seen_.fenced_writes);
        if (!forgets()) {
            if (reads && fence < its.written_before)
                fail("W7", "a reader has a smaller fence than an earlier writer");
            if (!reads && !issued_.insert(fence).second)
                fail("W7", "two writers have the same fence");
            if (!reads && handovers == 0 && fence <= its.floor)
                fail("W7", "a writer has no greater fence than those before");
        }
        greatest_ = std::max(greatest_, fence);
        if (!reads) greatest_written_ = std::max(greatest_written_, fence);
    }

    // First come, first served in a process. Readers may be served together.
    void check_order(actor const& a) {
        if (clients_[a.process].foreign || a.adopts) return;
        for (auto const& w : actors_) {
            if (w.process != a.process || w.is != actor::state::queued || w.arrived >= a.arrived)
                continue;
            fail("FIFO", std::string("an acquire to ") + reading::name(a.wants) +
                             " goes before an earlier one to " + reading::name(w.wants));
        }
    }

    // W11: nothing is left when everything has been answered. What was left to its ttl goes with
    // it, and so does what a ghost has set.
    void check_clean(unsigned t) override {
        auto const& its = tenures_[t];
        if (!its.over || its.dead || its.pending != 0 || its.adopts || stays_.contains(its.token))
            return;
        for (unsigned i = 0; i < size(); ++i) {
            if (has_token(i, its.token) || has_member(i, its.token))
                fail("W11", "a key of " + std::to_string(t) + " stays at " + std::to_string(i));
        }
    }

    // S3: an instance deletes a key.
    void check_deletion(unsigned i) {
        auto const& key = instances_[i].key;
        if (key.is < 0 || clock_ms(i) > key.until) return;
        for (auto const u : holding_) {
            auto const& owner = tenures_[u];
            if (static_cast<int>(owner.token) == key.is && is_held(owner) && !owner.leases.empty())
                fail("S3", "the key of a lease that is held was deleted");
        }
    }

    //
    // L4: a lease that has lost its quorum
    //

    bool has_quorum(unsigned token) const {
        unsigned those = 0;
        for (unsigned i = 0; i < size(); ++i) those += has_token(i, token) || has_member(i, token);
        return those >= quorum();
    }
    void key_changed(unsigned token) {
        if (is_reckless()) return;
        for (auto const u : holding_) {
            auto& its = tenures_[u];
            if (its.token != token) continue;
            if (has_quorum(token)) {
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
            fail("W1", "a lease that had run out was brought back");
        if (its.without_quorum && its.extension_sent > *its.without_quorum)
            fail("L4", "a lease was extended that had lost its key");
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
        for (auto const& p : clients_)
            if (p.alive && (p.queue || p.folded)) fail("L3", "an empty queue stays");
        for (unsigned i = 0; i < size(); ++i) check_ttls(i);
    }
    /// All keys beside the key have a ttl, and go with it.
    void check_ttls(unsigned i) {
        auto const& at = instances_[i];
        auto const longest = clock_ms(i) + 2 * ttl_ / 1ms * 3 / 2 + 1;
        if ((at.key.is != nobody && at.key.until > longest) ||
            (at.has_set && at.set_until > longest) ||
            (at.intent.is != nobody && at.intent.until > longest) ||
            (at.turn.is != reading::window::none && at.turn.until > longest))
            fail("W11", "a key without an end");
        for (auto const& [token, until] : at.members)
            if (until > longest) fail("W11", "a reader without an end");
    }
};

} // namespace holdfast::test

#endif
