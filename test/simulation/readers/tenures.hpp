// The tenures and leases in a simulation of readers and writers, as runtime/lease/lease_keeper.cpp
// and lease_keeper_readers.cpp drive them. Also the foreign clients, which have nothing else.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_TENURES_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_TENURES_HPP

#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"

#include "simulation/readers/actors.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace holdfast::test {

class readers_tenures : protected readers_actors {
protected:
    using readers_actors::readers_actors;
    ~readers_tenures() = default;

    virtual void on_try_failed(unsigned t, tenure_effect how) = 0;
    virtual void on_inspected(unsigned t) = 0;
    virtual void unfold(unsigned p) = 0;

    std::uint64_t hint() {
        if (is_reckless()) return 1 + below(hints_);
        return protocol::fence_hint(std::chrono::milliseconds(now() / 1'000'000));
    }
    unsigned new_tenure(actor const& a) {
        auto const t = static_cast<unsigned>(tenures_.size());
        auto const period = protocol::spread_renewal_period(a.ttl, any());
        auto& its =
            tenures_.emplace_back(tenure_state{a.process, {size(), a.ttl, a.renewed, period}});
        its.by = a.wants;
        its.token = a.adopts ? static_cast<unsigned>(a.adopted) : t;
        its.adopts = a.adopts;
        its.alone = a.alone;
        if (a.fenced) its.machine.number_from({.hint = hint()});
        its.floor = greatest_;
        its.written_before = greatest_written_;
        return t;
    }
    /// The machine of a tenure, with the rules for its kind.
    reading::tenure& machine(unsigned t) {
        readers_tenure_rules::of_reader = tenures_[t].by == access::read;
        return tenures_[t].machine;
    }
    message describe(unsigned t, command op, std::uint32_t round) {
        auto& its = tenures_[t];
        auto const& q = clients_[its.process].queue;
        message m;
        m.op = op;
        m.round = round;
        if (its.machine.fenced()) m.number = its.machine.numbering().for_command(op);
        m.waits = its.queued && q && !q->empty() && q->front().waits;
        m.withdraws = !q || !q->has_writers() || !parts_.keeps_notes_of_others;
        return m;
    }

    //
    // Actions
    //

    /// Returns true if a try is won.
    bool apply(unsigned t, protocol::tenure_action const& a) {
        auto& its = tenures_[t];
        seen_.healed += a.heal.size();
        seen_.raised += a.raise.size();
        send_all(a, its.machine.round_number(), [&](unsigned i, command op, std::uint32_t round) {
            auto const stays = its.leaves_key && parts_.loss_leaves_shared;
            if (op == command::release && (its.adopts || stays)) return;
            submit(t, i, describe(t, op, round));
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
            on_extended(t);
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
            } else if (its.queued) {
                on_try_failed(t, a.effect);
                will_settle(its.process);
            }
            break;
        case tenure_effect::lost:
            if (!its.leases.empty()) tell_loss(t);
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
    void end_validity(unsigned t) {
        auto& its = tenures_[t];
        its.over = true;
        holding_.erase(t);
        if (!its.leases.empty()) fail("W2", "the end of one reader's lease ends others");
    }
    void over(unsigned t) {
        auto& its = tenures_[t];
        end_validity(t);
        if (its.adopts) stays_.insert(its.token); // its holder has left it to its ttl
        check_clean(t);
    }
    void on_extended(unsigned t) {
        auto& its = tenures_[t];
        ++seen_.extended;
        if (std::exchange(its.downgrading, false)) ++seen_.downgrades_confirmed;
        check_extension(t);
        check_exclusion(t);
        its.last_deadline = its.machine.deadline();
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
        auto action = machine(t).time(local(its.process));
        if (action.effect == tenure_effect::renewal_due) return extend(t, duration(0));
        apply(t, action);
    }
    void extend(unsigned t, duration ttl) {
        auto& its = tenures_[t];
        if (its.leases.size() > 1 && ttl != duration(0)) ttl = std::max(ttl, its.machine.ttl());
        its.extension_sent = now();
        its.last_deadline = its.machine.deadline();
        apply(t, machine(t).extend(local(its.process), reachable(its.process), ttl));
        its.last_deadline = std::min(its.last_deadline, its.machine.deadline());
    }

    //
    // Leases
    //

    void grant(actor& a, unsigned t) {
        auto& its = tenures_[t];
        auto const first = its.leases.empty();
        check_validity(t);
        check_order(a);
        if (first) {
            its.machine.begin_lease(a.renewed);
            if (!its.won) ++seen_.tenures;
            its.won = true;
            holding_.insert(t);
            its.last_deadline = its.machine.deadline();
            check_exclusion(t);
        } else {
            its.sharing.join();
            ++seen_.shared;
            if (its.was_writers) ++seen_.shared_downgraded;
        }
        its.leases.push_back(&a);
        auto const reads = its.by == access::read;
        auto const& q = clients_[a.process].queue;
        if (a.fenced)
            issue(t, reads, its.machine.number(), its.foreign || reads ? 0 : q->handovers());
        arm(t);
        if (shape_ && measures_.commands == 0) measures_.commands = commands_;
        ++(its.foreign                ? seen_.foreign
           : a.wants == access::plain ? seen_.plain
           : a.wants == access::read  ? seen_.read
                                      : seen_.written);
        if (a.adopts) ++seen_.adopted;
        write_story("process ", a.process, " may ", reading::name(a.wants), " by ", t, ", ",
                    a.arrived);
        if (shape_) {
            a.is = actor::state::has_lease;
            note_wait(a);
            ++(reads ? measures_.reads : measures_.writes);
        }
        --queued_;
        ++a.ticket;
        a.is = actor::state::has_lease;
        a.tenure = static_cast<int>(t);
        plan_lease(a);
    }
    void plan_lease(actor& a) {
        auto const changes = !shape_ && !clients_[a.process].foreign && one_in(8);
        auto const hold = shape_                  ? hold_of_shape(a)
                          : changes || one_in(12) ? some(ttl_ * 2)
                                                  : some(hold_);
        if (!shape_ && a.wants == access::write && one_in(3))
            at_lease(a, some(hold), [this, &a] { downgrade(a); });
        if (changes) {
            at_lease(a, some(one_in(2) ? duration(hold) : delay_ * 20),
                     [this, &a, ttl = one_in(2) ? ttl_ : 2 * ttl_] { change_ttl(a, ttl); });
        }
        a.handed.reset();
        if (!shape_ && !clients_[a.process].foreign && one_in(12))
            at_lease(a, some(hold), [this, &a] { hand_over(a); });
        at_lease(a, hold, [this, &a] { on_done(a); });
    }
    true_time hold_of_shape(actor const& a) {
        auto const usual = a.shared ? shape_->read : shape_->write;
        return 1 + (shape_->steady ? usual.count() : some(2 * usual));
    }
    template <class Act>
    void at_lease(actor& a, true_time when, Act act) {
        at(when, clients_[a.process], [this, &a, act, ticket = a.ticket] {
            if (a.is == actor::state::has_lease && a.ticket == ticket) turn(a.process, act);
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
    /// The writer is a reader from now on. Its extensions, the first one at once, tell the
    /// instances.
    void downgrade(actor& a) {
        auto const t = static_cast<unsigned>(a.tenure);
        auto const p = a.process;
        auto& its = tenures_[t];
        if (its.machine.phase() != tenure_phase::held || its.by == access::read) return;
        ++seen_.downgraded;
        write_story("tenure ", t, " is a reader's");
        if (clients_[p].folded) unfold(p);
        its.by = access::read;
        its.downgrading = its.was_writers = true;
        its.alone = !a.renewed;
        clients_[p].queue->downgraded(local(p), its.alone);
        extend(t, its.machine.ttl());
        will_settle(p);
    }
    void end_hold(actor& a) {
        a.is = actor::state::idle;
        a.tenure = nobody;
        ++a.ticket;
    }
    void on_done(actor& a) {
        auto const t = static_cast<unsigned>(a.tenure);
        auto const p = a.process;
        auto const foreign = clients_[p].foreign;
        if (!shape_ && !foreign && one_in(12)) hand_over(a);
        end_hold(a);
        std::erase(tenures_[t].leases, &a);
        if (tenures_[t].by == access::read) tenures_[t].sharing.leave();
        a.handed ? leave(t, *a.handed) : end_lease(t);
        while (std::exchange(clients_[p].unsettled, false)) settle(p);
        // In the same turn, or later.
        if (!shape_ && now() < stop_at_ && one_in(4)) {
            choose(a);
            begin(a);
        } else {
            rest(a);
        }
    }
    /// Takes the token for another process, which will adopt it.
    void hand_over(actor& a) {
        auto& its = tenures_[static_cast<unsigned>(a.tenure)];
        auto after = its.sharing;
        after.hand_over();
        a.handed = after.elsewhere() && parts_.tells_shared;
        if (parts_.stays_shared) its.sharing = after;
    }
    /// Leaves the key to its ttl, for that process.
    void leave(unsigned t, bool shared) {
        auto& its = tenures_[t];
        ++seen_.left;
        if (shared) ++seen_.left_shared;
        its.leaves_key = true;
        stays_.insert(its.token);
        if (its.machine.phase() == tenure_phase::held && !its.machine.fenced())
            offered_.push_back({its.token, its.by, shared});
        if (its.leases.empty()) leave_key(t);
    }
    void leave_key(unsigned t) {
        stays_.insert(tenures_[t].token);
        machine(t).abandon();
        arm(t);
        lose(t);
    }
    /// The last lease of a tenure has ended, unless others share it.
    void end_lease(unsigned t) {
        auto& its = tenures_[t];
        auto const p = its.process;
        auto& q = clients_[p].queue;
        if (!its.leases.empty() && parts_.last_one_releases) return;
        if (its.machine.phase() != tenure_phase::held) return;
        if (its.leaves_key) return leave_key(t);
        if (its.queued && q && local(p) < its.machine.deadline() &&
            q->hands_over(local(p), its.machine.valid_until() - local(p), its.machine.ttl(),
                          handover_limit_, handover_time_)) {
            ++seen_.handovers;
            auto& next = static_cast<actor&>(q->hand_over());
            grant(next, t);
            return will_settle(p);
        }
        if (its.queued && clients_[p].folded && its.machine.opposed()) unfold(p);
        if (its.queued && q) its.round_trip = q->round_trip();
        auto const ours = leave_queue(t);
        end_validity(t);
        apply(t, machine(t).release(local(p), reachable(p)));
        if (!ours || !q) return;
        q->released(local(p), its.machine.opposed());
        will_settle(p);
    }
    /// Parts a tenure from its queue, which may be folded. True if it was of the queue.
    bool leave_queue(unsigned t) {
        auto& its = tenures_[t];
        if (!std::exchange(its.queued, false)) return false;
        auto& me = clients_[its.process];
        me.tenure = nobody;
        me.folded.reset();
        return true;
    }
    void lose(unsigned t) {
        auto& its = tenures_[t];
        auto& q = clients_[its.process].queue;
        auto const holds = its.machine.phase() != tenure_phase::acquiring;
        if (leave_queue(t) && holds && q) {
            q->lost();
            will_settle(its.process);
        }
        over(t);
    }
    void tell_loss(unsigned t) {
        auto const all = std::exchange(tenures_[t].leases, {});
        check_notice(t);
        if (all.size() > 1) ++seen_.lost_together;
        for (auto* const a : all) {
            ++seen_.lost;
            write_story("process ", a->process, " has lost the key, ", a->arrived);
            end_hold(*a);
            rest(*a);
        }
    }

    //
    // Foreign clients
    //

    void start_foreign(actor& a) override {
        a.fenced = a.renewed = false;
        ask_foreign(a);
    }
    void ask_foreign(actor& a) {
        auto const t = new_tenure(a);
        tenures_[t].foreign = true;
        a.tenure = static_cast<int>(t);
        apply(t, machine(t).acquire(local(a.process), reachable(a.process)));
    }
    void on_foreign_answer(unsigned t, unsigned i, message const& m) {
        auto const p = tenures_[t].process;
        auto& a = *std::find_if(actors_.begin(), actors_.end(),
                                [&](auto const& each) { return each.process == p; });
        if (!apply(t, machine(t).answer(m.op, m.round, i, m.said, [&] { return local(p); })))
            return;
        if (a.is == actor::state::queued && a.tenure == static_cast<int>(t)) return grant(a, t);
        end_lease(t); // it has given up meanwhile
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
