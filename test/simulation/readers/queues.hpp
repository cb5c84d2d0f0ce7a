// The queue of each process in a simulation of readers and writers, with its tries and questions,
// as runtime/acquire drives them: acquirer.cpp, acquirer_tries.cpp, acquirer_questions.cpp and
// acquirer_readers.cpp.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_QUEUES_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_QUEUES_HPP

#include "protocol/waiting/arbiter.hpp"

#include "simulation/readers/tenures.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::test {

class readers_queues : protected readers_tenures {
protected:
    using readers_tenures::readers_tenures;
    ~readers_queues() {
        for (unsigned p = 0; p < clients_.size(); ++p) forget_process(p);
    }

    //
    // Acquires
    //

    void start(actor& a) override {
        auto& me = clients_[a.process];
        if (auto const t = tenure_for(a); t != nobody) return grant(a, static_cast<unsigned>(t));
        if (!me.queue) unfold(a.process);
        auto& q = *me.queue;
        a.tries_before = q.counts().tries;
        auto const first = q.empty() && !q.held();
        auto const outage = q.failed_outage_tries() != 0 && !q.empty();
        if (outage && !a.stays && !a.adopts) {
            fail_acquire(a);
        } else if (!q.join(a)) {
            ++seen_.refused;
            fail_acquire(a);
        } else if (!first) {
            a.behind = true;
        }
        will_settle(a.process);
    }
    /// The tenure of readers of which the reader gets a lease without I/O, or nobody.
    int tenure_for(actor const& a) {
        auto const& me = clients_[a.process];
        if (!a.shared || !me.queue) return nobody;
        auto const t = me.queue->held() || parts_.keeps_order ? me.tenure : me.parted;
        if (t == nobody) return nobody;
        auto const& its = tenures_[static_cast<unsigned>(t)];
        if (its.leases.empty() || its.machine.phase() != tenure_phase::held || is_closed(its))
            return nobody;
        auto const left = its.machine.valid_until() - local(a.process);
        if (me.queue->shares(a, local(a.process), left)) return t;
        // Broken: whoever waits.
        auto const fits = its.by == access::read && !its.alone && !a.alone && !a.fenced;
        return !parts_.keeps_order && fits && !a.adopts && left > a.ttl / 2 ? t : nobody;
    }
    bool is_closed(tenure_state const& its) const {
        return (parts_.stays_shared && its.leaves_key) || !its.sharing.open();
    }
    void cancel(actor& a) override {
        ++seen_.cancelled;
        auto const& q = clients_[a.process].queue;
        if (a.total_cancel && q && q->trying() && &q->front() == &a) {
            ++seen_.total_cancels;
            a.cancel_requested = true;
            return;
        }
        give_up(a);
    }
    void give_up(actor& a) override {
        if (clients_[a.process].foreign) {
            if (a.tenure != nobody) {
                auto const t = static_cast<unsigned>(std::exchange(a.tenure, nobody));
                apply(t, machine(t).cancel());
            }
            return fail_acquire(a);
        }
        leave(a);
        will_settle(a.process);
    }
    void leave(actor& a) {
        clients_[a.process].queue->leave(a);
        fail_acquire(a);
    }
    using readers_tenures::leave;

    //
    // The queue
    //

    void settle(unsigned p) override {
        auto& me = clients_[p];
        while (me.queue) {
            auto const action = me.queue->next(local(p), voters(p));
            if (action.empty()) {
                if (me.noting && !me.queue->has_writers()) withdraw(p);
                return schedule(p);
            }
            if (!action.track.empty()) ask_to_push(p, action.track);
            switch (action.effect) {
            case queue_effect::try_all:
            case queue_effect::try_arbiter:
            case queue_effect::try_reserved:
                begin_try(p, action.effect);
                break;
            case queue_effect::inspect:
                begin_inspection(p);
                break;
            case queue_effect::listen:
                listen(p);
                break;
            case queue_effect::refuse:
                ++seen_.refused;
                leave(front(p));
                break;
            case queue_effect::cancel_try:
                cancel_try(p);
                break;
            case queue_effect::fold:
                ++seen_.folded;
                me.folded = me.queue->folded();
                return put_back(p);
            case queue_effect::part:
                ++seen_.parted;
                me.parted = me.tenure;
                detach(p);
                break;
            case queue_effect::forget:
                if (me.noting) withdraw(p);
                detach(p);
                return put_back(p);
            case queue_effect::none:
                break;
            }
        }
    }
    actor& front(unsigned p) { return static_cast<actor&>(clients_[p].queue->front()); }
    /// The try or the tenure of the queue is over, or goes on without it.
    void detach(unsigned p) {
        auto const t = std::exchange(clients_[p].tenure, nobody);
        if (t != nobody) tenures_[static_cast<unsigned>(t)].queued = false;
    }
    void schedule(unsigned p) {
        auto& me = clients_[p];
        auto const wake = me.queue->wake();
        if (wake == me.armed) return;
        me.armed = wake;
        auto const timer = ++me.timer;
        if (!wake) return;
        auto const left = std::max(*wake - local(p), duration(0));
        at(real(left, me.ppm), me, [this, p, timer] {
            auto& then = clients_[p];
            if (then.timer != timer) return;
            then.armed.reset();
            turn(p, [&] { settle(p); });
        });
    }
    void unfold(unsigned p) override {
        auto& me = clients_[p];
        if (me.folded) {
            me.queue.emplace(size(), *std::exchange(me.folded, std::nullopt));
        } else {
            me.queue.emplace(size());
        }
    }
    void put_back(unsigned p) {
        auto& me = clients_[p];
        ++me.timer;
        me.armed.reset();
        me.tracker = nobody;
        me.parted = nobody;
        me.noting = false;
        me.noted = {};
        me.queue->abandon();
        me.queue.reset();
    }
    void forget_process(unsigned p) override {
        auto& me = clients_[p];
        me.unsettled = false;
        me.tenure = nobody;
        me.folded.reset();
        if (me.queue) put_back(p);
    }
    /// No writer of this process waits any more.
    void withdraw(unsigned p) {
        auto& me = clients_[p];
        me.noting = false;
        auto const those = std::exchange(me.noted, {});
        if (parts_.withdraws_intent) withdraw_at(p, those);
    }
    /// An instance refuses a try that has been decided, and has the note of a writer that may have
    /// the key by now, or may have released it.
    void on_late_refusal(unsigned p, unsigned i) {
        auto& me = clients_[p];
        if (!parts_.withdraws_where_refused) return;
        if (me.queue && me.queue->has_writers()) {
            me.noting = true;
            me.noted.insert(i);
        } else {
            withdraw_at(p, instance_set::only(i));
        }
    }
    void withdraw_at(unsigned p, instance_set those) {
        if (those.empty()) return;
        ++seen_.withdrawn;
        auto const t = static_cast<unsigned>(tenures_.size());
        auto& its = tenures_.emplace_back(tenure_state{p, {size(), ttl_, false}});
        its.by = access::write;
        its.token = t;
        its.machine.cancel();
        its.over = true;
        those.for_each([&](unsigned i) { submit(t, i, describe(t, command::release, 0)); });
    }

    //
    // Tries
    //

    void begin_try(unsigned p, queue_effect how) {
        auto& me = clients_[p];
        auto const at_arbiter = how == queue_effect::try_arbiter;
        auto const arbiter = at_arbiter ? arbiter_of(p) : 0;
        auto const& a = front(p);
        auto const t = new_tenure(a);
        auto& its = tenures_[t];
        if (!a.adopts) its.machine.set_usual(me.usual);
        detach(p);
        its.queued = true;
        its.round_trip = me.queue->round_trip();
        me.tenure = static_cast<int>(t);
        if (a.notes) me.noting = true;
        me.asked = local(p);
        write_story("process ", p, " tries ", t, " to ", reading::name(its.by),
                    at_arbiter ? " at " : "", at_arbiter ? std::to_string(arbiter) : "");
        me.queue->try_begun(local(p), arbiter);
        apply(t, at_arbiter ? machine(t).contend(local(p), arbiter)
                            : machine(t).acquire(local(p), a.adopts ? reachable(p) : voters(p)));
    }
    unsigned arbiter_of(unsigned p) {
        auto const candidates = clients_[p].queue->candidates(voters(p));
        auto const rest = candidates - late(p);
        return protocol::arbiter(1, rest.empty() ? candidates : rest,
                                 [this](unsigned i) { return instances_[i].identity; });
    }
    void cancel_try(unsigned p) {
        auto const t = static_cast<unsigned>(clients_[p].tenure);
        detach(p);
        apply(t, machine(t).cancel());
        auto* const made_for = static_cast<actor*>(clients_[p].queue->first_of_own());
        if (made_for != nullptr && made_for->cancel_requested) leave(*made_for);
    }
    static std::uint64_t counted(message const& m) { return m.said == verdict::yes ? m.number : 0; }
    void on_try_answer(unsigned t, unsigned i, message const& m) {
        auto const p = tenures_[t].process;
        auto& me = clients_[p];
        if (m.said != verdict::yes && me.noting) me.noted.insert(i);
        auto const action = machine(t).answer(
            m.op, m.round, i, m.said, [&] { return local(p); }, counted(m));
        if (action.empty()) return arm(t);
        auto won = apply(t, action);
        if (action.effect == tenure_effect::arbiter_refused) {
            detach(p);
            on_arbiter_refused(p, m);
        } else if (action.effect == tenure_effect::arbiter_won) {
            me.asked = local(p);
            won = apply(t, machine(t).ask_rest(me.asked, voters(p)));
        }
        if (won) return on_won(t);
        will_settle(p);
    }
    void on_arbiter_refused(unsigned p, message const& m) {
        auto& q = *clients_[p].queue;
        std::optional<duration> left;
        if (m.left && *m.left >= 0) left = std::chrono::milliseconds(*m.left);
        if (m.left && *m.left == -2) left = duration(-1);
        auto& a = front(p);
        a.behind = true;
        q.refused(local(p), left, m.tracked, retry_, any());
        if (a.cancel_requested) leave(a);
    }
    void on_try_failed(unsigned t, tenure_effect how) override {
        auto& its = tenures_[t];
        auto const p = its.process;
        auto& q = *clients_[p].queue;
        auto& a = front(p);
        if (a.adopts && how == tenure_effect::contended) {
            q.failed();
            leave(a);
            return detach(p);
        }
        auto const by_time = how == tenure_effect::expired || how == tenure_effect::arbiter_failed;
        if (by_time && q.overslept(local(p), its.machine.deadline())) {
            ++seen_.overslept;
            if (a.cancel_requested) leave(a);
            return detach(p);
        }
        switch (how) {
        case tenure_effect::contended:
            a.behind = true;
            q.contended(local(p), its.machine.votes(), retry_, any());
            if (a.cancel_requested) leave(a);
            if (!q.inspects()) detach(p);
            break;
        case tenure_effect::arbiter_failed:
            q.arbiter_failed();
            if (a.cancel_requested) leave(a);
            detach(p);
            break;
        default:
            ++seen_.no_quorum;
            how == tenure_effect::expired || a.adopts ? fail_try(t) : on_outage(t);
            detach(p);
            break;
        }
    }
    bool counts_for(unsigned t, actor const& other) const {
        return other.began <= clients_[other.process].asked &&
               other.ttl <= tenures_[t].machine.ttl();
    }
    void fail_try(unsigned t) {
        auto const p = tenures_[t].process;
        auto& q = *clients_[p].queue;
        q.failed();
        auto const adopted = front(p).adopts;
        leave(front(p));
        if (adopted) return;
        while (!q.empty() && counts_for(t, front(p))) leave(front(p));
    }
    void on_outage(unsigned t) {
        auto const p = tenures_[t].process;
        auto& q = *clients_[p].queue;
        ++seen_.outages;
        if (front(p).cancel_requested) leave(front(p));
        auto const stays = !q.empty() && front(p).stays;
        auto const is_patient = stays || q.empty() || !front(p).behind;
        if (!is_patient && !has_quorum_of_instances(p) && !q.in_outage())
            return q.failed_in_outage(local(p) + timeout_);
        q.failed();
        while (!q.empty() && !front(p).stays && counts_for(t, front(p))) leave(front(p));
        if (q.empty() || !front(p).stays) return;
        auto const pause = q.outage_pause(any());
        if (q.failed_outage_tries() == 1) {
            q.for_each_waiter([&](protocol::waiter& w) {
                auto& a = static_cast<actor&>(w);
                if (!a.stays) leave(a);
            });
        }
        q.failed_in_outage(local(p) + pause);
    }
    void on_won(unsigned t) {
        auto& its = tenures_[t];
        auto const p = its.process;
        auto& me = clients_[p];
        auto& a = static_cast<actor&>(me.queue->won(local(p)));
        auto const others = me.queue->has_writers() && parts_.remembers_notes;
        if (a.notes && me.noting && !others) {
            me.noting = false;
            // Where its try is granted, or is not answered yet, a writer leaves no note.
            auto const those = std::exchange(me.noted, {}) - its.machine.maybe_held();
            if (parts_.withdraws_where_refused) withdraw_at(p, those);
        }
        its.adopts = false;
        if (a.adopts) {
            its.leaves_key = a.adopts_shared && parts_.leaves_shared;
            its.sharing = protocol::sharers(a.adopts_shared && parts_.stays_shared);
            if (a.adopts_shared) ++seen_.adopted_shared;
            its.machine.adopt(0);
            its.machine.set_usual(me.usual);
        }
        auto const serving = rejoin(t, a);
        grant(a, serving);
        while (me.queue && !me.queue->empty() && tenure_for(front(p)) == static_cast<int>(serving))
            grant(static_cast<actor&>(me.queue->share()), serving);
        will_settle(p);
        if (serving != t) end_lease(t);
    }
    /// The tenure that serves a reader: the one of other readers of this process, if they have one.
    unsigned rejoin(unsigned t, actor const& a) {
        auto const p = a.process;
        auto& me = clients_[p];
        auto const parted = std::exchange(me.parted, nobody);
        if (!a.shared || parted == nobody) return t;
        auto const others = static_cast<unsigned>(parted);
        auto& its = tenures_[others];
        if (its.leases.empty() || its.alone || is_closed(its) ||
            its.machine.phase() != tenure_phase::held) {
            return t;
        }
        auto const left = its.machine.valid_until() - local(p);
        if (!me.queue->rejoins(a, left, its.machine.ttl(), its.machine.fenced())) return t;
        ++seen_.rejoined;
        detach(p);
        me.tenure = parted;
        its.queued = true;
        return others;
    }

    //
    // Questions and pushes
    //

    void begin_inspection(unsigned p) {
        ++seen_.inspections;
        auto const t = static_cast<unsigned>(clients_[p].tenure);
        auto& its = machine(t);
        apply(t, its.inspect(local(p), its.votes().no() & reachable(p)));
    }
    void on_inspected(unsigned t) override {
        if (!tenures_[t].queued) return;
        auto const p = tenures_[t].process;
        clients_[p].queue->inspected(tenures_[t].machine.inspected_all());
        detach(p);
        will_settle(p);
    }
    void listen(unsigned p) {
        if (clients_[p].queue->candidates(voters(p)).empty()) return;
        auto const arbiter = arbiter_of(p);
        clients_[p].queue->listening(arbiter);
        ask_to_push(p, instance_set::only(arbiter));
    }
    void ask_to_push(unsigned p, instance_set asked) {
        auto& me = clients_[p];
        auto const round = me.queue->tracking_round();
        if (me.tracker == nobody) {
            me.tracker = static_cast<int>(tenures_.size());
            tenures_.emplace_back(tenure_state{p, {size(), ttl_, false}}).tracks = true;
            tenures_.back().token = static_cast<unsigned>(me.tracker);
        }
        asked.for_each([&](unsigned i) {
            ++seen_.tracks;
            auto const t = static_cast<unsigned>(me.tracker);
            submit(t, i, describe(t, command::track, round));
        });
    }
    void on_tracked(unsigned p, unsigned i, message const& m) {
        protocol::sighting seen;
        using state = protocol::sighting::state;
        if (m.said == verdict::yes && m.left) {
            seen = {.is = *m.left == -2 ? state::gone : state::held, .tracked = m.tracked};
            if (*m.left >= 0) seen.left = std::chrono::milliseconds(*m.left);
        }
        clients_[p].queue->tracked(local(p), i, m.round, seen, any());
        will_settle(p);
    }
    bool wake(unsigned p, unsigned i) {
        auto& q = clients_[p].queue;
        if (!q || !q->push(local(p), i, any())) return false;
        settle(p);
        return true;
    }
    void on_unavailable(unsigned p, unsigned i) override {
        turn(p, [&] {
            if (!is_waiting(p)) return;
            auto& q = *clients_[p].queue;
            q.disconnected(local(p), i, any());
            if (!has_quorum_of_instances(p)) q.outage(local(p) + timeout_);
            settle(p);
        });
    }
    void on_available(unsigned p) override {
        turn(p, [&] {
            if (!has_quorum_of_instances(p) || !is_waiting(p)) return;
            clients_[p].queue->restored(local(p), any());
            settle(p);
        });
    }

    //
    // Answers
    //

    void on_reply(unsigned p, unsigned i, message& m) override {
        turn(p, [&] {
            if (m.pushed) {
                ++seen_.pushes;
                wake(p, i);
                return;
            }
            auto& me = clients_[p];
            auto& conn = me.connections[i];
            me.usual[i].heard(local(p) - m.sent);
            conn.heard = local(p);
            if (std::exchange(conn.suspect, false)) {
                send_pending(p, i, false);
                on_available(p);
            }
            if (!m.answered) pass_on(m, i);
            finished(m.tenure);
        });
    }
    void pass_on(message const& m, unsigned i) override {
        auto const t = m.tenure;
        auto& its = tenures_[t];
        auto const p = its.process;
        turn(p, [&] {
            auto const& q = clients_[p].queue;
            if (m.op == command::track) {
                if (q && clients_[p].tracker == static_cast<int>(t)) on_tracked(p, i, m);
                return;
            }
            auto const asks =
                m.op == command::acquire || m.op == command::contend || m.op == command::raise;
            if (asks && its.machine.phase() == tenure_phase::acquiring) {
                if (its.foreign) return on_foreign_answer(t, i, m);
                if (its.queued && q->trying()) return on_try_answer(t, i, m);
            }
            auto const tried = m.op == command::acquire || m.op == command::contend;
            if (tried && m.said == verdict::no && m.by == access::write) on_late_refusal(p, i);
            auto const action = machine(t).answer(
                m.op, m.round, i, m.said, [&] { return local(p); }, counted(m));
            if (m.op == command::extend && m.said == verdict::no && !parts_.heals_held_alone &&
                its.machine.phase() != tenure_phase::held)
                submit(t, i, describe(t, command::heal, 0));
            apply(t, action);
            if (is_own_write(m) && wake(p, i)) ++seen_.own_releases;
        });
    }
    /// A command that may have changed the key. The server does not push that to who sent it.
    bool is_own_write(message const& m) const {
        auto const extends = m.op == command::extend || m.op == command::heal;
        auto const writes = m.op == command::release || (m.by == access::read && extends);
        if (m.said == verdict::yes) return writes && parts_.hears_own_writes;
        // A writer's note is withdrawn, and a reader that was dead already may be the last one.
        return m.said == verdict::no && m.op == command::release && m.by != access::plain &&
               parts_.hears_all_releases;
    }
};

} // namespace holdfast::test

#endif
