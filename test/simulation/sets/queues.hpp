// The queues of a simulation of sets, with their tries and questions, as
// runtime/acquire/acquirer.cpp, acquirer_tries.cpp and acquirer_questions.cpp drive them.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_QUEUES_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_QUEUES_HPP

#include "protocol/waiting/arbiter.hpp"
#include "protocol/waiting/wait_queue.hpp"

#include "simulation/sets/tenures.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::test {

class set_queues : protected set_tenures {
protected:
    using set_tenures::set_tenures;
    ~set_queues() = default;

    virtual void settle_set(queue& q) = 0;
    virtual void update_gate(queue& q) = 0;
    virtual bool end_lease_of(queue& q) = 0;
    virtual void note_refusal(queue& q) = 0;
    virtual void leave(actor& a) = 0;

    //
    // Queues
    //

    void settle(queue& q) override {
        if (!q.machine) return;
        if (q.set) return settle_set(q);
        run(q);
    }
    /// False: the queue is not in use any more, or is folded.
    bool run(queue& q) {
        for (;;) {
            if (q.set && parts_.asks_each_time) update_gate(q);
            auto const action = q.machine->next(local(q.process), voters(q.process));
            if (action.empty()) return schedule(q), true;
            if (!action.track.empty()) ask_to_push(q, action.track);
            switch (action.effect) {
            case queue_effect::try_all:
            case queue_effect::try_arbiter:
            case queue_effect::try_reserved:
                begin_try(q, action.effect);
                break;
            case queue_effect::inspect:
                begin_inspection(q);
                break;
            case queue_effect::listen:
                listen(q);
                break;
            case queue_effect::refuse:
                ++seen_.refused;
                check_refusal(q);
                leave(q.front());
                break;
            case queue_effect::cancel_try:
                cancel_try(q);
                break;
            case queue_effect::fold:
                if (q.set) return schedule(q), true;
                ++seen_.folded;
                q.folded = q.machine->folded();
                put_back(q);
                return false;
            case queue_effect::forget:
                forget(q);
                return false;
            case queue_effect::part: // of readers, which this simulation has not
            case queue_effect::none:
                break;
            }
        }
    }
    void check_refusal(queue& q) {
        auto const& a = q.front();
        if (a.adopts) check_refused_adoption(a);
        if (q.machine->held() || a.tries_before != q.machine->counts().tries) return;
        if (q.set && a.turn->first_everywhere())
            fail("M4", "keys that nobody here has are refused, and no instance was asked");
    }
    void schedule(queue& q) {
        auto const wake = q.machine->wake();
        if (wake == q.armed) return;
        q.armed = wake;
        auto const timer = ++q.timer;
        if (!wake) return;
        auto const left = std::max(*wake - local(q.process), duration(0));
        at(real(left, clients_[q.process].ppm), clients_[q.process], [this, &q, timer] {
            if (q.timer != timer) return;
            q.armed.reset();
            turn(q.process, [&] { settle(q); });
        });
    }
    void put_back(queue& q) {
        ++q.timer;
        q.armed.reset();
        q.tracker = nobody;
        q.machine->abandon();
        q.machine.reset();
    }
    void forget(queue& q) {
        q.tenure = nobody;
        if (q.set) end_lease_of(q);
        put_back(q);
        if (!q.set) freed(q.process, q.keys.front());
    }
    void forget_process(unsigned p) override {
        auto& me = clients_[p];
        me.due.clear();
        me.unsettled.clear();
        me.dropped.clear();
        me.called.clear();
        for (unsigned k = 0; k < keys_; ++k) me.lines[k].clear();
        for (auto& [name, q] : me.queues) {
            q->tenure = nobody;
            q->holder = nullptr;
            q->folded.reset();
            if (q->machine) put_back(*q);
        }
    }

    //
    // Tries
    //

    void begin_try(queue& q, queue_effect how) {
        auto const at_arbiter = how == queue_effect::try_arbiter;
        auto const p = q.process;
        auto const arbiter = at_arbiter ? arbiter_of(q) : q.machine->arbiter();
        auto const t = new_tenure(q.front(), &q);
        auto& its = tenures_[t];
        if (!its.adopts) its.machine.set_usual(clients_[p].usual);
        if (auto const* const turn = q.turn_of_front())
            its.converts = turn->approach.step() == set_step::conversion;
        q.tenure = static_cast<int>(t);
        q.asked = local(p);
        q.asks_all = !at_arbiter;
        write_story("process ", p, " tries ", t, " for ", its.set ? "the set " : "",
                    names(its.keys), its.converts ? " by conversion" : "", at_arbiter ? " at " : "",
                    at_arbiter ? std::to_string(arbiter) : "");
        if (!at_arbiter) {
            q.machine->try_begun(local(p));
            apply(t, its.machine.acquire(local(p), its.adopts ? reachable(p) : voters(p)));
            return;
        }
        q.machine->try_begun(local(p), arbiter);
        apply(t, its.machine.contend(local(p), arbiter));
    }
    unsigned arbiter_of(queue& q) {
        auto const* const turn = q.turn_of_front();
        auto const key = q.keys[turn == nullptr ? 0 : turn->watched];
        auto const candidates = q.machine->candidates(voters(q.process));
        auto const rest = candidates - late(q.process);
        return protocol::arbiter(key + 1, rest.empty() ? candidates : rest,
                                 [this](unsigned i) { return instances_[i].identity; });
    }
    void cancel_try(queue& q) {
        auto const t = static_cast<unsigned>(std::exchange(q.tenure, nobody));
        apply(t, tenures_[t].machine.cancel());
        auto* const made_for = static_cast<actor*>(q.machine->first_of_own());
        if (made_for != nullptr && made_for->cancel_requested) leave(*made_for);
    }
    void on_try_answer(unsigned t, unsigned i, message const& m) {
        auto& its = tenures_[t];
        auto& q = *its.q;
        auto const p = its.process;
        if (m.said != verdict::yes && m.obstacle != 0 && q.set && !q.machine->empty())
            q.turn_of_front()->watched = m.obstacle - 1;
        auto const action = its.machine.answer(
            m.op, m.round, i, m.said, [&] { return local(p); }, counted(m));
        if (action.empty()) return arm(t);
        auto won = apply(t, action);
        if (action.effect == tenure_effect::arbiter_refused) {
            q.tenure = nobody;
            on_arbiter_refused(q, m);
        } else if (action.effect == tenure_effect::arbiter_won) {
            q.asks_all = true;
            q.asked = local(p);
            won = apply(t, its.machine.ask_rest(q.asked, voters(p)));
        }
        if (won) return on_won(t);
        will_settle(&q);
    }
    void on_arbiter_refused(queue& q, message const& m) {
        std::optional<duration> left;
        if (m.pttl && *m.pttl >= 0) left = std::chrono::milliseconds(*m.pttl);
        if (m.pttl && *m.pttl == -2) left = duration(-1);
        auto& a = q.front();
        a.behind = true;
        q.machine->refused(local(q.process), left, m.tracked, retry_, any());
        if (q.set) note_refusal(q);
        if (a.cancel_requested) leave(a);
    }
    void on_try_failed(unsigned t, tenure_effect how) override {
        auto& its = tenures_[t];
        auto& q = *its.q;
        auto& a = q.front();
        auto const now_here = local(q.process);
        auto const by_time = how == tenure_effect::expired || how == tenure_effect::arbiter_failed;
        if (by_time && q.machine->overslept(now_here, its.machine.deadline())) {
            ++seen_.overslept;
            if (a.cancel_requested) leave(a);
            q.tenure = nobody;
            return;
        }
        if (a.adopts) check_failed_adoption(t);
        if (a.adopts && how == tenure_effect::contended) {
            fail_try(t);
            q.tenure = nobody;
            return;
        }
        switch (how) {
        case tenure_effect::contended:
            a.behind = true;
            q.machine->contended(now_here, its.machine.votes(), retry_, any());
            if (q.set) note_refusal(q);
            if (a.cancel_requested) leave(a);
            if (!q.machine->inspects()) q.tenure = nobody;
            break;
        case tenure_effect::arbiter_failed:
            q.machine->arbiter_failed();
            if (a.cancel_requested) leave(a);
            q.tenure = nobody;
            break;
        default:
            ++seen_.no_quorum;
            how == tenure_effect::expired || a.adopts ? fail_try(t) : on_outage(t);
            q.tenure = nobody;
            break;
        }
    }
    bool counts_for(unsigned t, actor const& other) const {
        return other.began <= other.q->asked && other.ttl <= tenures_[t].machine.ttl();
    }
    void fail_try(unsigned t) {
        auto& q = *tenures_[t].q;
        q.machine->failed();
        auto const adopts = q.front().adopts;
        leave(q.front());
        if (adopts) return void(++seen_.not_adopted);
        while (!q.machine->empty() && counts_for(t, q.front())) leave(q.front());
    }
    void on_outage(unsigned t) {
        auto& q = *tenures_[t].q;
        auto const p = q.process;
        auto const now_here = local(p);
        ++seen_.outages;
        if (q.front().cancel_requested) leave(q.front());
        auto const stays = !q.machine->empty() && q.front().stays;
        auto const is_patient = stays || q.machine->empty() || !q.front().behind;
        if (!is_patient && !has_quorum_of_instances(p) && !q.machine->in_outage())
            return q.machine->failed_in_outage(now_here + timeout_);
        q.machine->failed();
        while (!q.machine->empty() && !q.front().stays && counts_for(t, q.front()))
            leave(q.front());
        if (q.machine->empty() || !q.front().stays) return;
        auto const pause = q.machine->outage_pause(any());
        if (q.machine->failed_outage_tries() == 1) {
            q.machine->for_each_waiter([&](protocol::waiter& w) {
                auto& a = static_cast<actor&>(w);
                if (!a.stays) leave(a);
            });
        }
        q.machine->failed_in_outage(now_here + pause);
    }
    void on_won(unsigned t) {
        auto& its = tenures_[t];
        auto& q = *its.q;
        holding_.insert(t);
        if (its.converts) ++seen_.converted;
        if (std::exchange(its.adopts, false)) {
            ++(its.set ? seen_.sets_adopted : seen_.adopted);
            heirs_[token(t)] = t;
            its.machine.adopt(0);
            its.machine.set_usual(clients_[its.process].usual);
            keys_changed(t);
        }
        auto& a = static_cast<actor&>(q.machine->won(local(its.process)));
        grant(a, t);
        will_settle(&q);
    }

    //
    // Questions and pushes
    //

    void begin_inspection(queue& q) {
        ++seen_.inspections;
        auto const t = static_cast<unsigned>(q.tenure);
        auto& machine = tenures_[t].machine;
        apply(t, machine.inspect(local(q.process), machine.votes().no() & reachable(q.process)));
    }
    void on_inspected(unsigned t) override {
        if (!is_queues(t)) return;
        auto& q = *tenures_[t].q;
        q.machine->inspected(tenures_[t].machine.inspected_all());
        q.tenure = nobody;
        will_settle(&q);
    }
    void listen(queue& q) {
        if (q.machine->candidates(voters(q.process)).empty()) return;
        auto const arbiter = arbiter_of(q);
        q.machine->listening(arbiter);
        ask_to_push(q, instance_set::only(arbiter));
    }
    void ask_to_push(queue& q, instance_set asked) {
        auto const round = q.machine->tracking_round();
        if (q.tracker == nobody) {
            q.tracker = static_cast<int>(tenures_.size());
            auto& its =
                tenures_.emplace_back(tenure_state{q.process, {size(), ttl_, false}, q.keys});
            its.set = q.set;
            its.tracks = true;
            its.q = &q;
        }
        asked.for_each([&](unsigned i) {
            ++seen_.tracks;
            auto const t = static_cast<unsigned>(q.tracker);
            submit(t, i, describe(t, command::track, round));
        });
    }
    void on_tracked(queue& q, unsigned i, message const& m) {
        protocol::sighting seen;
        using state = protocol::sighting::state;
        if (m.said == verdict::yes && m.pttl) {
            seen = {.is = *m.pttl == -2 ? state::gone : state::held, .tracked = m.tracked};
            if (*m.pttl >= 0) seen.left = std::chrono::milliseconds(*m.pttl);
        }
        q.machine->tracked(local(q.process), i, m.round, seen, any());
        will_settle(&q);
    }
    bool wake(unsigned p, unsigned i, unsigned key) {
        auto* const q = find_queue(p, false, {key});
        auto const woken = q != nullptr && q->machine && push(*q, i);
        auto& line = clients_[p].lines[key];
        auto* const set = !line.has_places() || !line.front().ready
                              ? nullptr
                              : static_cast<set_turn*>(line.front().turn)->q;
        return (set != nullptr && set->machine && push(*set, i)) || woken;
    }
    bool push(queue& q, unsigned i) {
        if (!q.machine->push(local(q.process), i, any())) return false;
        settle(q);
        return true;
    }
    void on_unavailable(unsigned p, unsigned i) override {
        turn(p, [&] {
            for_each_waiting(p, [&](queue& q) {
                q.machine->disconnected(local(p), i, any());
                if (!has_quorum_of_instances(p)) q.machine->outage(local(p) + timeout_);
                settle(q);
            });
        });
    }
    void on_available(unsigned p) override {
        turn(p, [&] {
            if (!has_quorum_of_instances(p)) return;
            for_each_waiting(p, [&](queue& q) {
                q.machine->restored(local(p), any());
                settle(q);
            });
        });
    }

    //
    // Answers
    //

    void on_reply(unsigned p, unsigned i, message& m) override {
        turn(p, [&] {
            if (m.pushed) {
                ++seen_.pushes;
                wake(p, i, m.key);
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
        turn(its.process, [&] {
            if (m.op == command::track) {
                if (its.q != nullptr && its.q->machine && its.q->tracker == static_cast<int>(t))
                    on_tracked(*its.q, i, m);
                return;
            }
            auto const asks =
                m.op == command::acquire || m.op == command::contend || m.op == command::raise;
            if (asks && its.machine.phase() == tenure_phase::acquiring) {
                if (its.foreign) return on_foreign_answer(t, i, m);
                if (is_queues(t) && its.q->machine->trying()) return on_try_answer(t, i, m);
            }
            auto const p = its.process;
            auto const action = its.machine.answer(
                m.op, m.round, i, m.said, [&] { return local(p); }, counted(m));
            if (m.op == command::release && m.said == verdict::yes) {
                for (auto const k : its.keys)
                    if (wake(p, i, k)) ++seen_.own_releases;
            }
            if (m.op == command::extend && m.said == verdict::no && !parts_.heals_held_alone &&
                its.machine.phase() != tenure_phase::held)
                submit(t, i, describe(t, command::heal, 0));
            apply(t, action);
        });
    }
};

} // namespace holdfast::test

#endif
