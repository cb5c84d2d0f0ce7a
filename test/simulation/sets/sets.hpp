// A world in which processes lock one key or several. Each has the real queues, lines, approaches
// and tenures, and drives them as the runtime does (runtime/acquire). Simulated instances with
// several keys carry out the scripts. Some clients are foreign: SET NX PX, and no queue.
//
// A schedule is one of four kinds (schedule_faults). Without faults, it can also measure. In an
// ordinary one, messages are late or lost, connections break and instances carry out their commands
// later, instances freeze, clocks drift, processes stop or are killed, somebody deletes single
// keys, and minorities keep keys that nobody has any more. In one with restarts, instances forget
// everything, and are then in quarantine. In a reckless one, keys expire at any moment, and hints
// show anything.
//
// Properties; S1, S2, L1, L3 and L4 of doc/guarantees.md for sets, and three more:
//   M1     (S1) no two leases have one key, among sets, single locks and foreign ones
//   M2     (S4) an acquire that failed, or a lease that has ended, leaves none of its keys
//   M3     no deadlock: after the faults, each acquire that waits is served within a bound
//   M4     (L1) free keys are had in one round trip
//   M5     neither sets nor single locks starve, whoever always asks
//   M6     (L4) a holder that loses one key hears of the loss by the deadline of its lease
//   M7     keys that minorities keep, each on another one, block for their ttl at most
//   M8     one key, 64 keys, and sets in any relation
//   S2     of two leases that share a key, the later one has the greater fence
//   S3     no other client deletes a key of a lease
//   FIFO   first come, first served in a process, over all keys
//   A1     (G38) an adoption fails only if the process has one of the keys, or the instances refuse
//   in order  a set takes a key only while it has all that come before
//   lines  a place that is not needed any more is given up, and so is an empty queue
#ifndef HOLDFAST_TEST_SIMULATION_SETS_SETS_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_SETS_HPP

#include "simulation/sets/lines.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast::test {

class set_world : set_lines {
public:
    set_world(std::uint64_t seed, sets_tally& seen, set_parts const& parts = {},
              schedule_faults faults = schedule_faults::chance,
              std::optional<set_shape> shape = std::nullopt, std::ostream* story = nullptr)
        : set_lines(seed, seen, parts, faults, shape, story) {
        shape_ ? begin_measuring() : begin();
    }

    /// Returns the violated property with the reason, or an empty string.
    std::string run() {
        while ((essential() > 0 || queued_ > 0) && happens()) {
            if (now() > last_end_)
                fail("M3", std::to_string(queued_) + " acquires are never served");
        }
        if (violation().empty() && !shape_) check_end();
        return violation();
    }
    /// The same, for a schedule for measurements. Ends at its time.
    set_measures measure() {
        while (now() < calm_from_ && happens()) {
        }
        for (auto const& a : actors_) {
            if (a.is == actor::state::queued) note_wait(a);
            (a.wide ? measures_.wide : measures_.narrow) += a.leases;
            if (!a.wide) measures_.fewest_of_one = std::min(measures_.fewest_of_one, a.leases);
        }
        return measures_;
    }
    std::string const& found() const { return violation(); }

private:
    void begin() {
        auto const processes = 2 + below(3);
        for (unsigned p = 0; p < processes; ++p) add_process(false);
        if (!forgets() && one_in(2)) add_process(true);
        for (unsigned p = 0; p < clients_.size(); ++p) {
            auto const some_actors = clients_[p].foreign ? 1 : 1 + below(5);
            for (unsigned n = 0; n < some_actors; ++n) add_actor(p);
        }
        auto const horizon = ttl_.count() * 2 + hold_.count() * 20;
        stop_at_ = horizon * 2;
        calm_from_ = stop_at_;
        if (faults_ != schedule_faults::none) plan_faults(horizon);
        // After the faults each acquire may wait for keys that the dead have left, for pauses, and
        // for all others.
        auto const turns = static_cast<std::int64_t>(actors_.size() + 1) * 2;
        last_end_ = stop_at_ + (60s + turns * (4 * ttl_ + 4 * retry_ + 40 * max_travel())).count();
    }
    void add_actor(unsigned p) {
        auto& a = actors_.emplace_back();
        a.process = p;
        at(some(hold_ * 4), clients_[p], [this, &a] { on_want(a); });
    }

    void begin_measuring() {
        auto const& s = *shape_;
        for (unsigned p = 0; p < s.wide + s.narrow_processes; ++p) add_process(false);
        for (unsigned n = 0; n < s.wide; ++n) {
            add_actor(n);
            actors_.back().wide = true;
        }
        for (unsigned n = 0; n < s.narrow; ++n) add_actor(s.wide + n % s.narrow_processes);
        calm_from_ = stop_at_ = s.length.count();
        last_end_ = calm_from_ * 2;
    }

    true_time last_end_ = 0;
};

} // namespace holdfast::test

#endif
