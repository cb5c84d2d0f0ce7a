// The tenures and leases in a simulation of sets, as runtime/lease/lease_keeper.cpp drives them.
// Also the foreign clients, which have nothing else.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_TENURES_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_TENURES_HPP

#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"

#include "simulation/sets/actors.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace holdfast::test {

class set_tenures : protected set_actors {
protected:
    using set_actors::set_actors;
    ~set_tenures() = default;

    virtual void begin_acquire(actor& a) = 0;
    virtual void on_acquired(actor& a, int tenure) = 0;
    virtual void keeps_places(actor& a, queue& q) = 0;
    virtual void on_try_failed(unsigned t, tenure_effect how) = 0;
    virtual void on_inspected(unsigned t) = 0;

    bool is_queues(unsigned t) const {
        auto const* const q = tenures_[t].q;
        return q != nullptr && q->tenure == static_cast<int>(t);
    }
    std::uint64_t hint() {
        if (is_reckless()) return 1 + below(hints_);
        return protocol::fence_hint(std::chrono::milliseconds(now() / 1'000'000));
    }
    unsigned new_tenure(actor const& a, queue* q) {
        auto const t = static_cast<unsigned>(tenures_.size());
        auto const period = protocol::spread_renewal_period(a.ttl, any());
        auto& its = tenures_.emplace_back(
            tenure_state{a.process, {size(), a.ttl, a.renewed, period}, a.keys, a.set});
        its.q = q;
        its.adopts = a.adopts;
        its.adopted = a.adopts ? a.adopted : nobody;
        if (a.set && parts_.tells_parts) its.machine.of_several_keys();
        if (a.fenced) its.machine.number_from({.hint = hint()});
        for (auto const k : a.keys) its.floors.push_back(greatest_[k]);
        return t;
    }
    message describe(unsigned t, command op, std::uint32_t round) {
        auto& its = tenures_[t];
        message m;
        m.op = op;
        m.round = round;
        m.adopts = its.adopts && op == command::acquire;
        if (its.machine.fenced()) m.number = its.machine.numbering().for_command(op);
        auto const* const turn = its.set && its.q != nullptr && !its.over && its.q->machine
                                     ? its.q->turn_of_front()
                                     : nullptr;
        if (turn == nullptr || (!its.tracks && !is_queues(t))) return m;
        m.watched = turn->watched;
        if (op == command::acquire || op == command::contend) m.prior = turn->prior;
        return m;
    }

    static std::uint64_t counted(message const& m) { return m.said == verdict::yes ? m.number : 0; }

    //
    // Actions
    //

    void will_expire_in_raise(unsigned t, unsigned i) {
        at(some(delay_ * 2),
           [this, of = token(t), i, k = any_key_of(t)] { expire_early(i, k, of); });
    }
    unsigned any_key_of(unsigned t) {
        auto const& keys = tenures_[t].keys;
        return keys[below(keys.size())];
    }
    /// Returns true if a try is won.
    bool apply(unsigned t, protocol::tenure_action const& a) {
        auto& its = tenures_[t];
        seen_.healed += a.heal.size();
        seen_.raised += a.raise.size();
        send_all(a, its.machine.round_number(), [&](unsigned i, command op, std::uint32_t round) {
            if (op == command::release && its.adopts) return; // an adoption that fails leaves them
            submit(t, i, describe(t, op, round));
            if (op == command::raise && percent(expiry_)) will_expire_in_raise(t, i);
        });
        auto won = false;
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::arbiter_won: // on_try_answer() continues
        case tenure_effect::extension_failed:
            break;
        case tenure_effect::won:
            won = true;
            break;
        case tenure_effect::extended:
            ++seen_.extended;
            check_extension(t);
            break;
        case tenure_effect::inspected:
            on_inspected(t);
            break;
        case tenure_effect::cancelled:
        case tenure_effect::arbiter_refused:
            over(t);
            break;
        case tenure_effect::contended:
        case tenure_effect::no_quorum:
        case tenure_effect::expired:
        case tenure_effect::arbiter_failed:
            over(t);
            if (its.foreign) {
                on_foreign_failed(t);
            } else if (is_queues(t)) {
                on_try_failed(t, a.effect);
                will_settle(its.q);
            }
            break;
        case tenure_effect::lost:
            if (its.lease != nullptr) tell_loss(t);
            if (its.machine.phase() != tenure_phase::ending) lose(t);
            break;
        case tenure_effect::ended:
            lose(t);
            break;
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            over(t);
            break;
        }
        arm(t);
        return won;
    }
    void over(unsigned t) {
        tenures_[t].over = true;
        holding_.erase(t);
        check_clean(t);
    }
    void arm(unsigned t) {
        auto& its = tenures_[t];
        auto const wake = its.machine.wake();
        if (!wake) {
            ++its.timer;
        } else if (*wake != its.armed) {
            its.armed = *wake;
            auto const left = std::max(*wake - local(its.process), duration(0));
            at(real(left, clients_[its.process].ppm), clients_[its.process],
               [this, t, timer = ++its.timer] {
                   if (tenures_[t].timer == timer && !tenures_[t].dead)
                       turn(tenures_[t].process, [&] { on_time(t); });
               });
        }
    }
    void on_time(unsigned t) {
        auto& its = tenures_[t];
        its.armed = {};
        auto action = its.machine.time(local(its.process));
        if (action.effect == tenure_effect::renewal_due) {
            its.extension_sent = now();
            action = its.machine.extend(local(its.process), reachable(its.process));
        }
        apply(t, action);
    }

    //
    // Leases
    //

    void grant(actor& a, unsigned t) {
        auto& its = tenures_[t];
        auto* const q = its.q;
        check_order(a);
        its.lease = &a;
        its.machine.begin_lease(a.renewed);
        check_exclusion(t);
        if (a.fenced) issue(t, its.machine.number(), q == nullptr ? 0 : q->machine->handovers());
        if (q != nullptr && q->set) keeps_places(a, *q);
        arm(t);
        if (a.owner != nullptr) return on_acquired(a, static_cast<int>(t));
        ++seen_.leases;
        ++(its.foreign ? seen_.foreign : its.set ? seen_.sets : seen_.singles);
        write_story("process ", a.process, " has ", names(a.keys), " by ", t);
        if (shape_) note_granted(a);
        ++a.leases;
        --queued_;
        ++a.ticket;
        a.is = actor::state::has_lease;
        a.tenure = static_cast<int>(t);
        auto const hold = shape_       ? 500'000 + some(1ms)
                          : one_in(12) ? some(ttl_ * 3 / 2)
                                       : some(hold_);
        at(hold, clients_[a.process], [this, &a, ticket = a.ticket] {
            if (a.is == actor::state::has_lease && a.ticket == ticket)
                turn(a.process, [&] { on_done(a); });
        });
    }
    void note_granted(actor& a) {
        if (seen_.leases == 1) measures_.commands = commands_;
        a.is = actor::state::has_lease;
        note_wait(a);
    }
    void end_hold(actor& a) {
        a.is = actor::state::idle;
        a.tenure = nobody;
        ++a.ticket;
    }
    void on_done(actor& a) {
        auto const t = static_cast<unsigned>(a.tenure);
        end_hold(a);
        if (!shape_ && !clients_[a.process].foreign && one_in(6)) {
            leave_keys(t);
        } else {
            end_lease(t);
        }
        settle_all(a.process);
        // In the same turn, or later.
        if (!shape_ && now() < stop_at_ && one_in(4)) {
            choose(a);
            clients_[a.process].foreign ? start_foreign(a) : start(a);
        } else {
            rest(a);
        }
    }
    void end_lease(unsigned t) override {
        auto& its = tenures_[t];
        auto const p = its.process;
        auto* q = its.q;
        if (its.machine.phase() != tenure_phase::held) {
            its.lease = nullptr;
            return;
        }
        its.lease = nullptr;
        auto const may = !its.converting || parts_.hands_over_converted;
        if (q != nullptr && q->machine && may && local(p) < its.machine.deadline() &&
            q->machine->hands_over(local(p), its.machine.valid_until() - local(p),
                                   its.machine.ttl(), handover_limit_, handover_time_)) {
            ++seen_.handovers;
            grant(static_cast<actor&>(q->machine->hand_over()), t);
            return will_settle(q);
        }
        if (q != nullptr && q->folded && its.machine.opposed()) queue_for(p, false, q->keys);
        leave_queue(t);
        its.over = true;
        holding_.erase(t);
        apply(t, its.machine.release(local(p), reachable(p)));
        if (q == nullptr || !q->machine) return;
        q->machine->released(local(p), its.machine.opposed());
        will_settle(q);
    }
    /// Leaves the keys to their ttl, and to another process.
    void leave_keys(unsigned t) {
        auto& its = tenures_[t];
        its.lease = nullptr;
        if (its.machine.phase() != tenure_phase::held) return;
        ++seen_.left;
        stays_.insert(token(t));
        if (!its.machine.fenced()) offered_.push_back({token(t), its.keys, its.set});
        its.machine.abandon();
        arm(t);
        lose(t);
    }
    /// Parts a tenure from its queue, which may be folded.
    void leave_queue(unsigned t) {
        auto* const q = tenures_[t].q;
        if (q == nullptr || q->tenure != static_cast<int>(t)) return;
        q->tenure = nobody;
        if (!q->folded) return;
        q->folded.reset();
        freed(q->process, q->keys.front());
    }
    void lose(unsigned t) {
        auto& its = tenures_[t];
        auto* const q = its.q;
        auto const holds = is_queues(t) && its.machine.phase() != tenure_phase::acquiring;
        leave_queue(t);
        if (holds && q->machine) {
            q->machine->lost();
            will_settle(q);
        }
        over(t);
    }
    void tell_loss(unsigned t) {
        auto& a = *std::exchange(tenures_[t].lease, nullptr);
        ++seen_.lost;
        check_notice(t);
        if (a.owner != nullptr) return;
        write_story("process ", a.process, " has lost ", names(a.keys));
        end_hold(a);
        rest(a);
    }

    //
    // Foreign clients
    //

    void start_foreign(actor& a) override {
        begin_acquire(a);
        a.fenced = a.renewed = false;
        ask_foreign(a);
    }
    void ask_foreign(actor& a) {
        auto const t = new_tenure(a, nullptr);
        tenures_[t].foreign = true;
        a.tenure = static_cast<int>(t);
        apply(t, tenures_[t].machine.acquire(local(a.process), reachable(a.process)));
    }
    void on_foreign_answer(unsigned t, unsigned i, message const& m) {
        auto& its = tenures_[t];
        auto& a = *std::find_if(actors_.begin(), actors_.end(),
                                [&](auto const& each) { return each.process == its.process; });
        auto const p = its.process;
        if (!apply(t, its.machine.answer(m.op, m.round, i, m.said, [&] { return local(p); })))
            return;
        holding_.insert(t);
        if (a.is == actor::state::queued && a.tenure == static_cast<int>(t)) return grant(a, t);
        // It has given up meanwhile.
        end_lease(t);
    }
    void on_foreign_failed(unsigned t) {
        auto const p = tenures_[t].process;
        for (auto& a : actors_) {
            if (a.process != p || a.is != actor::state::queued || a.tenure != static_cast<int>(t))
                continue;
            at(1 + some(retry_), clients_[p], [this, &a, ticket = a.ticket] {
                if (a.is == actor::state::queued && a.ticket == ticket)
                    turn(a.process, [&] { ask_foreign(a); });
            });
        }
    }
};

} // namespace holdfast::test

#endif
