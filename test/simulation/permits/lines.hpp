// The waiters of each process in a simulation of permits: first come, first served, and the first
// one tries. After a refusal it asks the arbiter alone, whose pushes wake it, as does the end of
// the first slot there.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_LINES_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_LINES_HPP

#include "protocol/waiting/arbiter.hpp"

#include "simulation/permits/tenures.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::test {

class permits_lines : protected permits_tenures {
protected:
    using permits_tenures::permits_tenures;
    ~permits_lines() = default;

    //
    // What an actor wants
    //

    void on_want(actor& a) {
        if (a.is != actor::state::idle || now() >= stop_at_) return;
        choose(a);
        a.wanted_at = now();
        a.arrived = ++arrivals_;
        a.is = actor::state::queued;
        a.tenure = nobody;
        ++a.ticket;
        ++queued_;
        most_permits_ = std::max({most_permits_, a.permits, a.adopts ? a.adopts->second + 1 : 0U});
        write_story("process ", a.process, " wants one of ", a.permits, " permits, ", a.arrived,
                    a.adopts ? ", and adopts" : "");
        plan_end(a);
        if (a.adopts) return adopt(a);
        clients_[a.process].line.push_back(&a);
        settle_after(a.process, duration(0));
    }
    void choose(actor& a) {
        a.adopts.reset();
        a.permits = permits_ + (resizes_ && one_in(2) ? 1 : 0);
        if (!shape_ && !offered_.empty() && one_in(2)) {
            a.adopts = offered_.back();
            offered_.pop_back();
        }
        a.ttl = !shape_ && one_in(6) ? 2 * ttl_ : ttl_;
        a.renewed = shape_ || !one_in(3);
        a.fenced = !a.adopts && (shape_ ? shape_->fenced : one_in(2));
        a.waits = !a.adopts && (shape_ || !one_in(8));
        a.cancelled = false;
    }
    void plan_end(actor& a) {
        if (shape_ || one_in(2)) return;
        auto const span = one_in(2) ? some(hold_ * 8 + delay_ * 20) : some(delay_ * 20);
        at(span, clients_[a.process], [this, &a, ticket = a.ticket] {
            if (a.is != actor::state::queued || a.ticket != ticket) return;
            ++(a.waits ? seen_.timed_out : seen_.cancelled);
            give_up(a);
        });
    }
    void give_up(actor& a) {
        auto& me = clients_[a.process];
        auto const first = !me.line.empty() && me.line.front() == &a;
        if (first || a.adopts) {
            auto const t =
                a.adopts ? std::exchange(a.tenure, nobody) : std::exchange(me.trying, nobody);
            if (t != nobody) {
                auto const its = static_cast<unsigned>(t);
                apply(its, tenures_[its].machine.cancel());
            }
        }
        fail_acquire(a);
        settle_after(a.process, duration(0));
    }
    void fail_acquire(actor& a) {
        auto& me = clients_[a.process];
        std::erase(me.line, &a);
        a.is = actor::state::idle;
        a.tenure = nobody;
        --queued_;
        ++a.ticket;
        if (a.adopts) ++seen_.not_adopted;
        write_story("process ", a.process, " fails, ", a.arrived);
        rest(a);
    }
    void rest(actor& a) override {
        if (now() >= stop_at_) return;
        auto const span = shape_      ? some(shape_->think)
                          : one_in(2) ? some(delay_ * 2)
                                      : some(hold_ * 4);
        at(1 + span, clients_[a.process], [this, &a] { on_want(a); });
    }

    //
    // Tries
    //

    void adopt(actor& a) {
        auto const t = new_tenure(a);
        a.tenure = static_cast<int>(t);
        apply(t, tenures_[t].machine.acquire(local(a.process), reachable(a.process)));
    }
    /// Begins a try, if there is none, and nothing to wait for.
    void settle(unsigned p) {
        auto& me = clients_[p];
        if (!me.alive || me.line.empty() || me.trying != nobody) return;
        ++me.timer;
        auto& a = *me.line.front();
        auto const those = voters(p);
        if (those.size() < quorum()) return on_outage(p);
        auto const t = new_tenure(a);
        auto& machine = tenures_[t].machine;
        machine.set_usual(me.usual);
        me.trying = static_cast<int>(t);
        me.pushed = false;
        ++measures_.tries;
        auto const at_arbiter = me.contends && a.waits;
        write_story("process ", p, " tries ", t, at_arbiter ? " at the arbiter" : "");
        apply(t, at_arbiter ? machine.contend(local(p), arbiter_of(p))
                            : machine.acquire(local(p), those));
    }
    unsigned arbiter_of(unsigned p) {
        return protocol::arbiter(1, voters(p),
                                 [this](unsigned i) { return instances_[i].identity; });
    }
    /// After the pause that failures cause, and the one in which others take what was released.
    void settle_after(unsigned p, duration pause) {
        auto& me = clients_[p];
        if (me.line.empty() || me.trying != nobody) return;
        pause = std::max(pause, me.not_before - local(p));
        if (pause <= duration(0)) return settle(p);
        at(real(pause, me.ppm), me, [this, p, timer = ++me.timer] {
            if (clients_[p].timer == timer) settle(p);
        });
    }
    void on_outage(unsigned p) {
        ++seen_.no_quorum;
        if (!clients_[p].line.front()->waits) return fail_acquire(*clients_[p].line.front());
        settle_after(p, timeout_);
    }
    void on_try_answer(unsigned t, message const& m, unsigned i) {
        auto const p = tenures_[t].process;
        auto& me = clients_[p];
        refusal_ = m.left;
        auto won = tell(t, m, i);
        if (me.trying != static_cast<int>(t)) return;
        auto& machine = tenures_[t].machine;
        if (m.op == command::contend && m.said == verdict::yes && !won &&
            machine.phase() == tenure_phase::acquiring)
            won = apply(t, machine.ask_rest(local(p), voters(p)));
        if (!won) return;
        auto& a = *me.line.front();
        me.line.pop_front();
        me.trying = nobody;
        me.contends = me.failures > 0;
        me.failures = 0;
        on_won(a, t);
        settle_after(p, duration(0));
    }
    void on_try_failed(unsigned t, tenure_effect how) override {
        auto const p = tenures_[t].process;
        auto& me = clients_[p];
        if (tenures_[t].adopts) {
            for (auto& a : actors_)
                if (a.process == p && a.is == actor::state::queued &&
                    a.tenure == static_cast<int>(t))
                    return fail_acquire(a);
            return;
        }
        if (me.trying != static_cast<int>(t)) return;
        me.trying = nobody;
        auto& a = *me.line.front();
        switch (how) {
        case tenure_effect::arbiter_refused:
            ++seen_.refused_at_arbiter;
            if (me.pushed) return settle_after(p, duration(some(delay_)));
            return settle_after(p, refusal_ ? std::chrono::milliseconds(*refusal_ + 1)
                                            : std::chrono::milliseconds(retry_ / 1ms));
        case tenure_effect::no_quorum:
            return on_outage(p);
        default:
            ++seen_.contended;
            break;
        }
        if (!a.waits) {
            fail_acquire(a);
            return settle_after(p, duration(0));
        }
        // An arbiter that grants, again and again, while the others are full: asks all then.
        me.contends = how == tenure_effect::contended && ++me.failures % 3 != 0;
        auto const longest = delay_ * (8U << std::min(me.failures, 10U));
        me.not_before = local(p) + duration(some(std::min<duration>(retry_, longest)));
        settle_after(p, duration(0));
    }
    actor* next_in_line(unsigned p, unsigned slot, tenure_state const& from) override {
        auto& line = clients_[p].line;
        if (line.empty()) return nullptr;
        auto& a = *line.front();
        auto const fits = slot < a.permits || !parts_.hands_over_small_slots_alone;
        if (!fits) ++seen_.drained;
        if (!fits || a.fenced != from.machine.fenced() || a.ttl != from.machine.ttl())
            return nullptr;
        if (from.machine.valid_until() - local(p) < a.ttl / 2) return nullptr;
        if (auto const t = std::exchange(clients_[p].trying, nobody); t != nobody) {
            auto const its = static_cast<unsigned>(t);
            apply(its, tenures_[its].machine.cancel());
        }
        line.pop_front();
        at(0, clients_[p], [this, p] { settle_after(p, duration(0)); });
        return &a;
    }

    //
    // Events
    //

    void wake(unsigned p) override {
        auto& me = clients_[p];
        me.pushed = true;
        settle_after(p, duration(some(delay_ / 2)));
    }
    void on_unavailable(unsigned p, unsigned) override { wake(p); }
    void on_available(unsigned p) override { wake(p); }
    void forget_process(unsigned p) override {
        clients_[p].line.clear();
        clients_[p].trying = nobody;
    }

    void on_reply(unsigned p, unsigned i, message& m) override {
        auto& me = clients_[p];
        if (!me.alive) return;
        if (m.pushed) {
            ++seen_.pushes;
            return wake(p);
        }
        me.usual[i].heard(local(p) - m.sent);
        auto& conn = me.connections[i];
        if (std::exchange(conn.suspect, false)) {
            send_pending(p, i, false);
            on_available(p);
        }
        if (!m.answered) pass_on(m, i);
        finished(m.tenure);
    }
    void pass_on(message const& m, unsigned i) override {
        auto const t = m.tenure;
        auto& its = tenures_[t];
        auto const p = its.process;
        if (its.tracks || its.dead) return;
        if (its.machine.phase() == tenure_phase::acquiring && its.adopts)
            return on_adopted(t, m, i);
        if (its.machine.phase() == tenure_phase::acquiring &&
            clients_[p].trying == static_cast<int>(t))
            return on_try_answer(t, m, i);
        tell(t, m, i);
        if (m.said == verdict::yes || m.said == verdict::no || m.said == verdict::other) {
            // The server does not push to a client what that has changed.
            auto const writes = m.op == command::release || m.op == command::heal ||
                                m.op == command::extend || m.op == command::acquire;
            if (writes) wake(p);
        }
    }
    void on_adopted(unsigned t, message const& m, unsigned i) {
        if (!tell(t, m, i)) return;
        for (auto& a : actors_)
            if (a.is == actor::state::queued && a.tenure == static_cast<int>(t))
                return on_won(a, t);
        end_lease(t); // it has given up meanwhile
    }

    std::optional<milliseconds> refusal_; ///< of the arbiter: until its first slot may be free
};

} // namespace holdfast::test

#endif
