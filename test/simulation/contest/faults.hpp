// The faults of a contest: connections break, instances freeze and crash, processes stop and die,
// and strangers take the key.
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_FAULTS_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_FAULTS_HPP

#include "protocol/tenure/round_trips.hpp"
#include "protocol/waiting/waiting_rules.hpp"

#include "simulation/contest/wire.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>

namespace holdfast::test {

class contest_faults : protected contest_wire {
protected:
    contest_faults(std::uint64_t seed, contest_tally& seen, std::optional<contest_shape> shape,
                   bool silent, std::ostream* story, line_rules line)
        : contest_wire(seed, seen, shape, silent, story, line) {
        if (silent) {
            auto const most = size() - quorum();
            for (unsigned n = 0; n < most && (n == 0 || one_in(2)); ++n) {
                ++seen_.silences;
                at(some(horizon_ / 2), [this, n] { fall_silent(n, stop_at_ * 2); });
            }
        } else if (!calm_) {
            auto const faults = 1 + below(3 + 2 * size());
            for (unsigned n = 0; n < faults; ++n) plan_fault();
        } else if (!eager_ && one_in(2)) {
            // A kill is the only fault, so the bound is as tight as without faults.
            ttl_ = one_in(2) ? 200ms : 1'000ms;
            plan_kill(some(horizon_));
        }
        if (line_rules_.fair && !calm_ && one_in(2)) {
            for (auto n = 1 + below(4); n > 0; --n)
                plan(some(horizon_), [this](unsigned i, unsigned) { forget_registrations(i); });
        }
        // The bound covers a push, the pauses before the next try, and the stand-back of the last
        // holder. It also covers two tries with their rounds, and the error of a clock.
        auto const trips = 2 * static_cast<std::int64_t>(clients_.size()) + 8;
        auto const pauses =
            calm_ ? std::min<duration>(trips * 2 * max_travel(), longest_pause) : longest_pause;
        // If instances freeze, a ping must first find a silent one, and each step may take the
        // timeout.
        bound_ = 16 * max_travel() + 2ms + 2 * pauses + ttl_ / 200;
        if (freezes_)
            bound_ += ping_interval + (2 * static_cast<std::int64_t>(size()) + 2) * timeout_;
        if (untracked_) bound_ += 2 * retry_;
        // An idle waiter learns only from its next ping that the arbiter is silent.
        if (silent) bound_ += ping_interval + protocol::round_trip::soonest_late;
        // A process that was called may be dead, and each has one place in line. A process that has
        // lost its place asks again.
        if (line_rules_.fair) {
            bound_ += protocol::waiting_rules::renews_place +
                      (static_cast<std::int64_t>(clients_.size()) + 1) * reservation();
        }
        decided_within_ = 12 * max_travel() + 2 * protocol::round_trip::first_patience;
        at_leisure(bound_.count() / 8, [this] { on_tick(); });
    }
    ~contest_faults() = default;

    virtual bool holds(unsigned p) const = 0;
    virtual bool tries(unsigned p) const = 0;
    virtual void drop_queue(unsigned p) = 0;

    void plan_fault() {
        auto const when = some(horizon_);
        auto const span = 1 + (one_in(4) ? some(2 * ttl_) : some(100 * delay_));
        switch (below(forgetful_ ? 9 : 8)) {
        case 0:
        case 1:
            return plan(when, [this, span](unsigned i, unsigned p) { cut(p, i, span); });
        case 2:
            freezes_ = true;
            return plan(when, [this, span](unsigned i, unsigned) { fall_silent(i, span); });
        case 3:
            freezes_ = true;
            return plan(when, [this, span](unsigned i, unsigned) { crash(i, span); });
        case 4:
            return plan_kill(when);
        case 5: {
            // The stranger leaves all instances at once, or first a majority of them.
            auto const everywhere = (1U << size()) - 1;
            at(when, [this, everywhere] { take(everywhere); });
            if (one_in(2)) leave_after(when + span, majority());
            auto const later = one_in(2) ? 0 : (bound_to_notice() * 3).count();
            return leave_after(when + span + later, everywhere);
        }
        case 6:
            return plan(when, [this](unsigned i, unsigned) {
                instances_[i].scripts = false;
                instances_[i].forgot_scripts = true;
            });
        case 7: {
            auto const stopped = some(2 * ttl_);
            return plan(when, [this, stopped](unsigned, unsigned p) { stop(p, stopped); });
        }
        default:
            return plan(when, [this](unsigned i, unsigned) { flush_all(i); });
        }
    }

    /// Plans `fault` for a random instance and a random process.
    template <class Fault>
    void plan(true_time when, Fault fault) {
        auto const i = static_cast<unsigned>(below(size()));
        auto const p = static_cast<unsigned>(below(clients_.size()));
        at(when, [fault, i, p] { fault(i, p); });
    }
    void plan_kill(true_time when) {
        plan(when, [this](unsigned, unsigned p) { kill(p); });
    }
    void leave_after(true_time span, unsigned instances) {
        at(span, [this, instances] { take_back(instances); });
    }

    void fall_silent(unsigned i, true_time span) {
        progress();
        freeze(i, span);
    }
    void freeze(unsigned i, true_time span) {
        network::freeze(i, span);
        // An idle connection notices the freeze at its next ping.
        for (unsigned p = 0; p < clients_.size(); ++p) ping_soon(p, i);
        if (!silent_) return;
        // The answers of other instances start the turns in which a process checks for late
        // answers.
        for (unsigned p = 0; p < clients_.size(); ++p) {
            for (unsigned other = 0; other < size(); ++other) {
                for (int n = 0; n < 2; ++n) ping_soon(p, other);
            }
        }
    }
    void ping_soon(unsigned p, unsigned i) {
        at(some(ping_interval), clients_[p], [this, p, i] { ping(p, i); });
    }

    void crash(unsigned i, true_time span) {
        freeze(i, span);
        for (unsigned p = 0; p < clients_.size(); ++p) cut(p, i, span + travel());
    }

    // Kills a process that holds the key, if there is one. Then the key must expire.
    void kill(unsigned p) {
        for (unsigned other = 0; other < clients_.size(); ++other) {
            if (holds(other)) p = other;
        }
        auto& me = clients_[p];
        if (!me.alive) return;
        if (std::count_if(clients_.begin(), clients_.end(), [](auto const& o) { return o.alive; }) <
            2)
            return;
        progress();
        ++seen_.deaths;
        me.alive = false;
        drop_queue(p);
        me.tenure = me.tracker = me.line_token = nobody;
        ++me.timer;
        for (auto& a : actors_) {
            if (a.process != p) continue;
            if (a.is == actor::state::queued) --queued_;
            if (a.is == actor::state::has_lease) --held_;
            a.is = actor::state::gone;
            ++a.ticket;
        }
        for (auto& t : tenures_) {
            if (t.process == p) t.dead = t.over = true;
        }
        for (unsigned i = 0; i < size(); ++i) {
            sever(p, i);
            connection ended;
            ended.up = false;
            ended.epoch = me.connections[i].epoch;
            me.connections[i] = std::move(ended);
        }
    }

    // Stops a process. Its events wait until it runs again.
    void stop(unsigned p, true_time span) {
        // Stops a process that has a try under way, if there is one.
        for (unsigned other = 0; other < clients_.size(); ++other) {
            if (tries(other)) p = other;
        }
        ++seen_.stops;
        pause(clients_[p], span);
    }

    /// A random quorum of the smallest size, as bits.
    unsigned majority() {
        unsigned bits = 0;
        for (unsigned n = 0; n < quorum();) {
            auto const i = 1U << below(size());
            if ((bits & i) == 0) ++n;
            bits |= i;
        }
        return bits;
    }

    /// A stranger takes the key, without a ttl.
    void take(unsigned instances) {
        for (unsigned i = 0; i < size(); ++i) {
            if ((instances >> i & 1U) == 0) continue;
            expire_key(i);
            if (instances_[i].has.holder != nobody) continue;
            ++seen_.foreign;
            instances_[i].has.holder = stranger;
            written(i, nobody);
        }
    }

    /// The stranger deletes the key.
    void take_back(unsigned instances) {
        progress();
        if ((instances >> size()) == 0 && instances + 1 != 1U << size()) ++seen_.remnants;
        for (unsigned i = 0; i < size(); ++i) {
            if (instances_[i].has.holder != stranger || (instances >> i & 1U) == 0) continue;
            instances_[i].has.holder = nobody;
            written(i, nobody);
        }
    }

    /// Other programs fill the server's table of tracked keys. It tells all that had registered.
    void forget_registrations(unsigned i) {
        progress();
        for (auto const& [token, p] : std::exchange(instances_[i].registered, {})) {
            ++seen_.told_in_vain;
            message m;
            m.pushed = true;
            m.turn = token;
            answer(p, i, m);
        }
    }

    void flush_all(unsigned i) {
        progress();
        ++seen_.flushes;
        auto& at = instances_[i];
        at.has.holder = nobody;
        ++at.version;
        at.listeners.clear();
        at.line.clear();
        at.registered.clear();
        at.called.clear();
        for (unsigned p = 0; p < clients_.size(); ++p) {
            if (clients_[p].connections[i].up) push(p, i);
        }
    }
};

} // namespace holdfast::test

#endif
