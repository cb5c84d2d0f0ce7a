// A world in which processes read and write under one key. Each has the real queue and tenures, and
// drives them as the runtime does. Simulated instances carry out the scripts, on clocks that drift:
// the key with a token or the marker, the set of readers with their deadlines, intents and turns.
// Beside readers and writers there are plain locks on the key, and foreign clients, which know SET
// NX PX alone.
//
// A schedule is one of four kinds (schedule_faults). Without faults, it can also measure. In an
// ordinary one, messages are late or lost, connections break and instances carry out their commands
// later, instances freeze, processes stop or are killed, somebody deletes the key, servers evict
// keys beside it, operators revoke what they have seen, and minorities keep what the dead have
// left. In one with restarts, instances forget everything, and are then in quarantine. In a
// reckless one, keys and readers expire at any moment, and hints show anything.
//
// Properties; S1, S2, S4, L3 and L4 of doc/guarantees.md for readers and writers, and more:
//   W1    (S1) no writer, of any kind, overlaps a reader or a writer; no ended lease comes back
//   W2    no command of a reader ends another reader
//   W3    a reader that has crashed blocks for its own ttl at most, however many others go on
//   W4    a writer that waits gets its turn, also against readers who never stop
//   W5    readers get theirs against writers who never stop
//   W6    a writer that has crashed while it waited blocks readers for its ttl at most
//   W7    (S2) a reader's fence is at least that of each earlier writer, and a writer's is greater
//         than all before
//   W8    a key that is free, or has readers, is had by a reader in one round trip; a further
//         reader of the process asks nobody
//   W9    plain locks and foreign clients are excluded, and exclude
//   W10   a writer that becomes a reader has the key all the time: this is W1, from the moment at
//         which its process takes it for a reader
//   W11   (S4) nothing stays behind, and all keys have a ttl
//   W12   who does not wait leaves no notes
//   L3    every acquire ends, after the faults within a bound
//   L4    a lease that has lost its key is not extended, and hears of it by its deadline
//   S3    no other client deletes the key of a writer
//   FIFO  first come, first served in a process
#ifndef HOLDFAST_TEST_SIMULATION_READERS_READERS_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_READERS_HPP

#include "simulation/readers/liveness.hpp"

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace holdfast::test {

class readers_world : readers_liveness {
public:
    readers_world(std::uint64_t seed, readers_tally& seen, readers_parts const& parts = {},
                  schedule_faults faults = schedule_faults::chance,
                  std::optional<readers_shape> shape = std::nullopt, std::ostream* story = nullptr)
        : readers_liveness(seed, seen, parts, faults, shape, story) {
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
    readers_measures measure() {
        while (now() < calm_from_ && happens()) {
        }
        for (auto const& a : actors_)
            if (a.is == actor::state::queued) note_wait(a);
        return measures_;
    }
    std::string const& found() const { return violation(); }

private:
    void begin_schedule() {
        auto const processes = 2 + below(3);
        for (unsigned p = 0; p < processes; ++p) add_process(false);
        if (!forgets() && one_in(2)) add_process(true);
        for (unsigned p = 0; p < clients_.size(); ++p) {
            auto const some_actors = clients_[p].foreign ? 1 : 1 + below(5);
            for (unsigned n = 0; n < some_actors; ++n) add_actor(p);
        }
        auto const horizon =
            (faults_ == schedule_faults::none ? 300ms : ttl_ * 2).count() + hold_.count() * 20;
        stop_at_ = horizon * 2;
        calm_from_ = stop_at_;
        if (faults_ != schedule_faults::none) plan_faults(horizon);
        // After the faults each acquire may wait for keys that the dead have left, for pauses, and
        // for all others.
        auto const turns = static_cast<std::int64_t>(actors_.size() + 1) * 2;
        last_end_ = stop_at_ + (60s + turns * (4 * ttl_ + 4 * retry_ + 40 * max_travel())).count();
    }
    void add_actor(unsigned p, std::optional<access> always = std::nullopt) {
        auto& a = actors_.emplace_back();
        a.process = p;
        a.always = always;
        at(some(shape_ ? shape_->think : hold_ * 4), clients_[p], [this, &a] { on_want(a); });
    }

    void begin_measuring() {
        auto const& s = *shape_;
        auto const processes = s.reading + s.writing + s.mixed;
        for (unsigned p = 0; p < processes; ++p) add_process(false);
        for (unsigned p = 0; p < processes; ++p) {
            auto const reads = p < s.reading || p >= s.reading + s.writing;
            auto const readers = p < s.reading ? s.readers_of_each : reads ? 1 : 0;
            auto const writers = p < s.reading ? 0 : reads ? 1 : s.writers_of_each;
            for (unsigned n = 0; n < readers; ++n) add_actor(p, access::read);
            for (unsigned n = 0; n < writers; ++n) add_actor(p, access::write);
        }
        if (s.kill_at != duration(0)) at(s.kill_at.count(), [this] { kill(shape_->kill); });
        calm_from_ = stop_at_ = s.length.count();
        at(calm_from_, [this] { measures_.all_commands = commands_; });
        last_end_ = calm_from_ * 2;
    }

    true_time last_end_ = 0;
};

} // namespace holdfast::test

#endif
