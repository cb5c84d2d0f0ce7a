// The tenures of each process in a simulation of permits, from the try to the release, as
// runtime/lease drives them.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_TENURES_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_TENURES_HPP

#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"

#include "simulation/permits/wire.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::test {

class permits_tenures : protected permits_wire {
protected:
    using permits_wire::permits_wire;
    ~permits_tenures() = default;

    virtual void on_try_failed(unsigned t, tenure_effect how) = 0;
    /// The first waiter of the process that may have this slot, or null. It leaves the line.
    virtual actor* next_in_line(unsigned p, unsigned slot, tenure_state const& from) = 0;
    virtual void rest(actor& a) = 0;
    /// K may have changed at an instance, by a command of this process.
    virtual void wake(unsigned p) = 0;

    unsigned new_tenure(actor const& a) {
        auto const t = static_cast<unsigned>(tenures_.size());
        auto const period = protocol::spread_renewal_period(a.ttl, any());
        auto& its =
            tenures_.emplace_back(tenure_state{a.process, {size(), a.ttl, a.renewed, period}});
        its.permits = a.permits;
        its.token = a.adopts ? a.adopts->first : t;
        its.adopts = a.adopts.has_value();
        its.start = static_cast<unsigned>(below(a.permits));
        if (a.adopts) its.own_slot = a.adopts->second;
        if (a.adopts) {
            its.machine.adopt_slot(its.own_slot);
        } else {
            its.machine.search_from(its.start);
        }
        if (a.fenced)
            its.machine.number_from(
                {.hint = is_reckless()
                             ? 1 + below(3)
                             : protocol::fence_hint(std::chrono::milliseconds(now() / 1'000'000))});
        its.floors = greatest_;
        return t;
    }
    std::optional<unsigned> slot_for(unsigned t, command op) const override {
        auto const slot = tenures_[t].machine.slot();
        auto const takes = op == command::acquire || op == command::contend;
        if (tenures_[t].tracks || !(takes ? slot.fixed() : slot.named())) return std::nullopt;
        return slot.value();
    }
    message describe(unsigned t, command op, std::uint32_t round) const {
        message m;
        m.op = op;
        m.round = round;
        auto const& its = tenures_[t].machine;
        if (its.fenced()) m.number = its.numbering().for_command(op);
        return m;
    }
    /// Returns true if a try is won.
    bool tell(unsigned t, message const& m, unsigned i) {
        auto const p = tenures_[t].process;
        auto said = m.said;
        if (said == verdict::other && !parts_.other_is_no_yes) said = verdict::yes;
        auto const number = said == verdict::yes ? m.number : 0;
        auto const slot = parts_.other_is_no_yes || !tenures_[t].machine.slot().named()
                              ? m.slot.value_or(0)
                              : tenures_[t].machine.slot().value();
        auto const second = tenures_[t].machine.slot().fixed();
        auto const action = tenures_[t].machine.answer(
            m.op, m.round, i, said, [&] { return local(p); }, number, slot);
        if (!second && tenures_[t].machine.slot().fixed() &&
            tenures_[t].machine.phase() == tenure_phase::acquiring && !action.acquire.empty()) {
            ++seen_.second_rounds;
            tenures_[t].second = true;
            write_story("tenure ", t, " asks for slot ", tenures_[t].machine.slot().value());
        }
        return apply(t, action);
    }

    //
    // Actions
    //

    bool apply(unsigned t, protocol::tenure_action const& a) {
        auto& its = tenures_[t];
        seen_.healed += a.heal.size();
        seen_.raised += a.raise.size();
        send_all(a, its.machine.round_number(), [&](unsigned i, command op, std::uint32_t round) {
            if (op == command::release && its.adopts) return;
            submit(t, i, describe(t, op, round));
        });
        auto won = false;
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::arbiter_won: // the line continues
        case tenure_effect::extension_failed:
        case tenure_effect::inspected:
            break;
        case tenure_effect::won:
            won = true;
            break;
        case tenure_effect::extended:
            ++seen_.extended;
            check_extension(t);
            check_exclusion(t);
            its.last_deadline = its.machine.deadline();
            break;
        case tenure_effect::cancelled:
            over(t);
            break;
        case tenure_effect::arbiter_refused:
        case tenure_effect::contended:
        case tenure_effect::no_quorum:
        case tenure_effect::expired:
        case tenure_effect::arbiter_failed:
            over(t);
            on_try_failed(t, a.effect);
            break;
        case tenure_effect::lost:
            if (its.lease != nullptr) tell_loss(t);
            if (its.machine.phase() != tenure_phase::ending) over(t);
            break;
        case tenure_effect::ended:
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            over(t);
            break;
        }
        arm(t);
        return won;
    }
    void over(unsigned t) {
        auto& its = tenures_[t];
        its.over = true;
        holding_.erase(t);
        if (its.lease != nullptr) fail("P3", "a lease ends with another");
        if (its.adopts) stays_.insert(its.token); // its holder has left it to its ttl
        check_clean(t);
    }
    using permits_wire::arm;
    void arm(unsigned t) {
        auto& its = tenures_[t];
        auto const wake_at = its.machine.wake();
        if (!wake_at) {
            ++its.timer;
        } else if (*wake_at != its.armed) {
            its.armed = *wake_at;
            auto const left = std::max(*wake_at - local(its.process), duration(0));
            at(real(left, clients_[its.process].ppm), clients_[its.process],
               [this, t, timer = ++its.timer] {
                   if (tenures_[t].timer == timer && !tenures_[t].dead) on_time(t);
               });
        }
    }
    void on_time(unsigned t) {
        auto& its = tenures_[t];
        its.armed = {};
        auto action = its.machine.time(local(its.process));
        if (action.effect == tenure_effect::renewal_due) return extend(t, duration(0));
        apply(t, action);
    }
    void extend(unsigned t, duration ttl) {
        auto& its = tenures_[t];
        its.extension_sent = now();
        its.last_deadline = its.machine.deadline();
        apply(t, its.machine.extend(local(its.process), reachable(its.process), ttl));
        its.last_deadline = std::min(its.last_deadline, its.machine.deadline());
    }

    //
    // Leases
    //

    void on_won(actor& a, unsigned t) {
        auto& its = tenures_[t];
        its.own_slot = its.machine.slot().value();
        its.won = true;
        ++seen_.won;
        if (its.second) ++seen_.won_in_second;
        holding_.insert(t);
        if (its.adopts) {
            ++seen_.adopted;
            its.adopts = false;
            its.machine.adopt(0);
            its.machine.set_usual(clients_[a.process].usual);
        }
        grant(a, t);
    }
    void grant(actor& a, unsigned t) {
        auto& its = tenures_[t];
        its.lease = &a;
        check_validity(t);
        if (!a.adopts && its.own_slot >= a.permits)
            fail("P6", "a slot that the number of the holder excludes");
        its.machine.begin_lease(a.renewed);
        its.last_deadline = its.machine.deadline();
        its.without_quorum.reset();
        slots_changed();
        check_exclusion(t);
        check_order(a);
        if (its.machine.fenced()) issue(t, its.machine.number(), its.handovers);
        arm(t);
        write_story("process ", a.process, " has slot ", its.own_slot, " by ", t, ", ", a.arrived);
        if (shape_) note_wait(a);
        --queued_;
        ++a.ticket;
        a.is = actor::state::has_lease;
        a.tenure = static_cast<int>(t);
        plan_lease(a);
    }
    void note_wait(actor const& a) {
        auto const waited = static_cast<double>(now() - a.wanted_at) * 1e-6;
        measures_.longest_wait_ms = std::max(measures_.longest_wait_ms, waited);
        if (a.is == actor::state::queued) {
            auto const trips = waited * 1e6 / (2.0 * static_cast<double>(delay_.count()));
            measures_.slowest_round_trips = std::max(measures_.slowest_round_trips, trips);
        }
    }
    void plan_lease(actor& a) {
        ++measures_.wins;
        auto const changes = !shape_ && one_in(8);
        auto const hold = shape_
                              ? 1 + (shape_->steady ? shape_->hold.count() : some(2 * shape_->hold))
                          : changes || one_in(12) ? some(ttl_ * 2)
                                                  : some(hold_);
        if (changes) {
            at_lease(a, some(one_in(2) ? duration(hold) : delay_ * 20),
                     [this, &a, ttl = one_in(2) ? ttl_ : 2 * ttl_] { change_ttl(a, ttl); });
        }
        at_lease(a, hold, [this, &a] { on_done(a); });
    }
    template <class Act>
    void at_lease(actor& a, true_time when, Act act) {
        at(when, clients_[a.process], [&a, act, ticket = a.ticket] {
            if (a.is == actor::state::has_lease && a.ticket == ticket) act();
        });
    }
    void change_ttl(actor& a, duration ttl) {
        auto const t = static_cast<unsigned>(a.tenure);
        if (tenures_[t].machine.phase() != tenure_phase::held) return;
        ++seen_.other_ttls;
        extend(t, ttl);
        if (!is_faulty() || !one_in(2)) return;
        // It arrives late at some instances, after one with another ttl.
        for (unsigned i = 0; i < size(); ++i)
            if (one_in(2)) cut(a.process, i, 1 + travel());
        at_lease(a, 1 + some(delay_ * 8), [this, &a] { change_ttl(a, 2 * ttl_); });
    }
    void end_hold(actor& a) {
        tenures_[static_cast<unsigned>(a.tenure)].lease = nullptr;
        a.is = actor::state::idle;
        a.tenure = nobody;
        ++a.ticket;
    }
    void on_done(actor& a) {
        auto const t = static_cast<unsigned>(a.tenure);
        end_hold(a);
        auto& its = tenures_[t];
        auto const held = its.machine.phase() == tenure_phase::held;
        if (!shape_ && one_in(8)) {
            leave_to_ttl(t);
        } else if (held) {
            end_lease(t);
        }
        rest(a);
    }
    /// Leaves the slot to its ttl, for another process that adopts it.
    void leave_to_ttl(unsigned t) {
        auto& its = tenures_[t];
        ++seen_.left;
        auto const held = its.machine.phase() == tenure_phase::held;
        stays_.insert(its.token);
        if (held && !its.machine.fenced()) offered_.emplace_back(its.token, its.own_slot);
        its.machine.abandon();
        arm(t);
        over(t);
    }
    void end_lease(unsigned t) {
        auto& its = tenures_[t];
        auto const p = its.process;
        if (local(p) < its.machine.deadline() && its.handovers < 4 && !its.adopts) {
            if (auto* const next = next_in_line(p, its.own_slot, its)) {
                ++seen_.handed_over;
                ++its.handovers;
                return grant(*next, t);
            }
        }
        holding_.erase(t);
        clients_[p].not_before = local(p) + 4 * delay_; // others have waited
        apply(t, its.machine.release(local(p), reachable(p)));
    }
    void tell_loss(unsigned t) {
        auto& a = *tenures_[t].lease;
        check_notice(t);
        ++seen_.lost;
        write_story("process ", a.process, " has lost its slot, ", a.arrived);
        end_hold(a);
        rest(a);
    }
};

} // namespace holdfast::test

#endif
