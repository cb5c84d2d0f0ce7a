// A world in which processes take permits of one semaphore. Each has real tenures, and drives them
// as the runtime does; its line of waiters is a simple one. Simulated instances carry out the
// scripts, on clocks that drift: the slots with their tokens, deadlines and counters.
//
// A schedule is one of four kinds (schedule_faults). Without faults, it can also measure. In an
// ordinary one, messages are late or lost, connections break and instances carry out their commands
// later, instances freeze, processes stop or are killed, somebody deletes the keys, servers evict
// one of them, operators revoke what they have seen, and minorities keep what the dead have left.
// In one with restarts, instances forget everything, and are then in quarantine. In a reckless one,
// slots expire at any moment.
//
// In a third of the schedules, some clients have a semaphore of one permit more than others.
//
// Properties; S1, S2, S4, L3 and L4 of doc/guarantees.md for permits, and more:
//   P1    at most n leases are valid at once, n being the greatest number that a client has had
//   P2    (S1) no slot has two holders; no ended lease comes back
//   P3    no command of one holder ends another's, and no late take its own
//   P4    a permit that is free goes to a waiter
//   P5    a holder that has crashed keeps its permit for its ttl at most
//   P6    who has a smaller number gets no greater slot, so that a semaphore that shrinks drains
//   S2    the fences of a slot grow
//   S4    nothing stays behind, and all keys have a ttl
//   L3    every acquire ends, after the faults within a bound
//   L4    a lease that has lost its slot is not extended, and hears of it by its deadline
//   FIFO  first come, first served in a process
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_PERMITS_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_PERMITS_HPP

#include "simulation/permits/lines.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace holdfast::test {

class permits_world : permits_lines {
public:
    permits_world(std::uint64_t seed, permits_tally& seen, permits_parts const& parts = {},
                  schedule_faults faults = schedule_faults::chance,
                  std::optional<permits_shape> shape = std::nullopt, std::ostream* story = nullptr)
        : permits_lines(seed, seen, parts, faults, shape, story) {
        shape_ ? begin_measuring() : begin_schedule();
    }

    /// Returns the violated property with the reason, or an empty string.
    std::string run() {
        while ((essential() > 0 || queued_ > 0) && happens()) {
            check_waiters();
            if (now() > last_end_)
                fail("L3", std::to_string(queued_) + " acquires are never served");
        }
        if (violation().empty() && !shape_) check_end();
        return violation();
    }
    /// The same, for a schedule for measurements. Ends at its time.
    permits_measures measure() {
        while (now() < calm_from_ && happens()) {
        }
        for (auto const& a : actors_)
            if (a.is == actor::state::queued) note_wait(a);
        measures_.commands = commands_;
        for (auto const t : holding_)
            for (unsigned i = 0; i < size(); ++i)
                if (is_held(tenures_[t]) && !has_slot(i, tenures_[t].token, tenures_[t].own_slot))
                    ++measures_.astray;
        return measures_;
    }
    std::string const& found() const { return violation(); }

private:
    void begin_schedule() {
        auto const processes = 2 + below(3);
        for (unsigned p = 0; p < processes; ++p) add_client();
        for (unsigned p = 0; p < clients_.size(); ++p) {
            auto const some_actors = 1 + below(4);
            for (unsigned n = 0; n < some_actors; ++n) add_actor(p);
        }
        auto const horizon =
            (faults_ == schedule_faults::none ? 300ms : ttl_ * 2).count() + hold_.count() * 20;
        stop_at_ = horizon * 2;
        calm_from_ = stop_at_;
        if (faults_ != schedule_faults::none) plan_faults(horizon);
        // After the faults each acquire may wait for slots that the dead have left, for pauses, and
        // for all others.
        auto const turns = static_cast<std::int64_t>(actors_.size() + 1) * 2;
        last_end_ = stop_at_ + (60s + turns * (4 * ttl_ + 4 * retry_ + 40 * max_travel())).count();
    }
    void add_actor(unsigned p) {
        auto& a = actors_.emplace_back();
        a.process = p;
        at(some(shape_ ? shape_->think : hold_ * 4), clients_[p], [this, &a] { on_want(a); });
    }
    void begin_measuring() {
        auto const& s = *shape_;
        for (unsigned p = 0; p < s.processes; ++p) add_client();
        for (unsigned p = 0; p < s.processes; ++p)
            for (unsigned n = 0; n < s.actors_of_each; ++n) add_actor(p);
        if (s.kill_at != duration(0)) at(s.kill_at.count(), [this] { kill(0); });
        calm_from_ = stop_at_ = s.length.count();
        if (s.swap_at != duration(0)) {
            at(s.swap_at.count(), [this] { swap_slots(); });
            calm_from_ *= 10;
        }
        at(calm_from_, [] {});
        last_end_ = calm_from_ * 2;
    }
    /// Two holders have each other's slot at the last instance, as if they had taken them at one
    /// time, in another order there.
    void swap_slots() {
        for (unsigned i = 0; i < size(); ++i)
            for (auto const t : holding_)
                if (holding_.size() < 2 || !has_slot(i, tenures_[t].token, tenures_[t].own_slot))
                    return at(duration(10ms).count(), [this] { swap_slots(); });
        auto& all = instances_.back().taken;
        std::swap(all.begin()->second, std::next(all.begin())->second);
        slots_changed();
        calm_from_ = stop_at_ = now() + shape_->length.count();
        at(shape_->length.count(), [] {});
    }

    /// P4: to be called after each event. While a quorum would give one slot to the first waiter of
    /// a process, and the arbiter any, that waiter gets a permit within a bound, without faults.
    /// The waiters of this simulation wait at the arbiter alone (lines.hpp).
    void check_waiters() {
        if (faults_ != schedule_faults::none || shape_) return;
        for (unsigned p = 0; p < clients_.size(); ++p) {
            auto& me = clients_[p];
            if (me.line.empty() || !is_open_to(*me.line.front(), arbiter_of(p))) {
                me.open_since.reset();
                continue;
            }
            auto const since = me.open_since.value_or(now());
            me.open_since = since;
            auto const waited = now() - since;
            auto const bound = 2 * retry_ + 60 * max_travel() + 150ms;
            seen_.longest_wait =
                std::max(seen_.longest_wait,
                         static_cast<double>(waited) / static_cast<double>(bound.count()));
            if (waited > bound.count())
                fail("P4", "process " + std::to_string(p) + " waits, and could have a permit");
        }
    }
    bool is_open_to(actor const& a, unsigned arbiter) {
        auto const is_free = [this](unsigned i, unsigned slot) {
            auto const all = alive_at(i);
            return std::none_of(all.begin(), all.end(),
                                [&](unsigned token) { return has_slot(i, token, slot); });
        };
        auto at_quorum = false, at_arbiter = false;
        for (unsigned slot = 0; slot < a.permits; ++slot) {
            unsigned grants = 0;
            for (unsigned i = 0; i < size(); ++i) grants += is_free(i, slot);
            at_quorum = at_quorum || grants >= quorum();
            at_arbiter = at_arbiter || is_free(arbiter, slot);
        }
        return at_quorum && at_arbiter;
    }

    true_time last_end_ = 0;
};

} // namespace holdfast::test

#endif
