// The acquires of a simulation of sets, the lines of their process, and how a set takes its keys,
// as runtime/acquire/acquirer_sets.cpp does it, with the names of the functions there.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_LINES_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_LINES_HPP

#include "protocol/waiting/key_line.hpp"
#include "protocol/waiting/set_approach.hpp"

#include "simulation/sets/queues.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

class set_lines : protected set_queues {
protected:
    using set_queues::set_queues;
    ~set_lines() {
        for (unsigned p = 0; p < clients_.size(); ++p) forget_process(p);
    }

    //
    // Acquires
    //

    void begin_acquire(actor& a) override {
        a.began = local(a.process);
        a.wanted_at = now();
        a.arrived = ++arrivals_;
        a.is = actor::state::queued;
        a.q = nullptr;
        a.turn = nullptr;
        ++a.ticket;
        ++queued_;
        write_story("process ", a.process, (a.set ? " wants the set " : " wants "), names(a.keys),
                    ", ", a.arrived);
        plan_end(a);
    }
    void start(actor& a) override {
        begin_acquire(a);
        if (a.set) return start_set(a);
        if (waits_in_line(a)) return;
        join(a, queue_for(a.process, false, a.keys));
    }
    void start_set(actor& a) {
        auto& me = clients_[a.process];
        // Who does not wait cannot take the keys in order.
        auto const patience =
            a.waits || !parts_.tries_together ? a.patience : std::max(1U, a.patience);
        auto& t = turns_.emplace_back(static_cast<unsigned>(a.keys.size()), patience);
        a.turn = &t;
        t.op = &a;
        t.order = a.arrived;
        auto const line_of = [&](std::size_t n) -> protocol::key_line& {
            return me.lines[a.keys[n]];
        };
        auto const used = [&](protocol::key_line& l) {
            return in_use(a.process, key_of(a.process, l));
        };
        std::span<protocol::key_place> const places{t.places.get(), a.keys.size()};
        if (a.adopts && parts_.overtakes && !has_key_of(a)) {
            t.overtake(places, line_of, used, [this](protocol::key_turn& other) {
                ++seen_.overtaken;
                on_due(static_cast<set_turn&>(other));
            });
        } else {
            t.enter(places, line_of, used);
        }
        auto& q = queue_for(a.process, true, a.keys);
        t.q = &q;
        auto const ready = is_first(t);
        t.waited = !ready;
        if (q.machine->empty() && !q.machine->held()) q.machine->may_try(ready);
        if (!ready && !a.waits) {
            a.q = &q;
            ++seen_.refused;
            if (a.adopts) check_refused_adoption(a);
            fail_acquire(a);
            return will_settle(&q);
        }
        if (!ready) ++seen_.behind_queues;
        join(a, q);
    }
    bool has_key_of(actor const& a) {
        auto const& me = clients_[a.process];
        return std::any_of(a.keys.begin(), a.keys.end(), [&](unsigned k) {
            auto const* const q = find_queue(a.process, false, {k});
            auto const& line = me.lines[k];
            auto const* const set = line.has_places() && line.front().ready
                                        ? static_cast<set_turn*>(line.front().turn)->q
                                        : nullptr;
            return (q != nullptr && (q->folded || q->machine->held())) ||
                   (set != nullptr && set->machine && set->machine->held());
        });
    }
    bool waits_in_line(actor& a) {
        auto& line = clients_[a.process].lines[a.keys.front()];
        auto const nobody_waits = parts_.joins_in_order ? line.empty() : !line.has_places();
        if (nobody_waits || !parts_.keeps_order || a.adopts) return false;
        if (!a.waits) {
            ++seen_.refused;
            fail_acquire(a);
        } else {
            ++seen_.behind_sets;
            line.wait_behind(a);
            a.behind = true;
        }
        return true;
    }
    void join(actor& a, queue& q) {
        a.q = &q;
        a.tries_before = q.machine->counts().tries;
        auto const first = q.machine->empty() && !q.machine->held() && q.machine->may_try();
        auto const outage = q.machine->failed_outage_tries() != 0 && !q.machine->empty();
        if (outage && !a.stays && !a.adopts) {
            fail_acquire(a);
        } else if (!q.machine->join(a)) {
            ++seen_.refused;
            if (a.adopts) check_refused_adoption(a);
            fail_acquire(a);
        } else if (!first) {
            a.behind = true;
        }
        will_settle(&q);
    }

    void cancel(actor& a) override {
        ++seen_.cancelled;
        if (a.turn != nullptr) {
            auto const step = a.turn->approach.step();
            ++(step == set_step::together   ? seen_.cancelled_together
               : step == set_step::in_order ? seen_.cancelled_in_order
                                            : seen_.cancelled_in_conversion);
        }
        if (a.total_cancel && a.q != nullptr && a.q->machine->trying() && &a.q->front() == &a) {
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
                apply(t, tenures_[t].machine.cancel());
            }
            return fail_acquire(a);
        }
        auto* const q = a.q;
        leave(a);
        will_settle(q);
    }
    void leave(actor& a) override {
        if (a.q != nullptr) {
            a.q->machine->leave(a);
            return fail_acquire(a);
        }
        protocol::key_line::leave(a);
        fail_acquire(a);
    }
    void fail_acquire(actor& a) {
        if (a.owner != nullptr) return on_acquired(a, nobody);
        a.is = actor::state::idle;
        --queued_;
        ++a.ticket;
        write_story("process ", a.process, " fails to acquire ", a.set ? "the set " : "",
                    names(a.keys), " of ", a.arrived);
        if (a.set) give_up_set(a);
        rest(a);
    }

    //
    // Lines
    //

    void on_due(set_turn& t) {
        if (std::exchange(t.due, true)) return;
        clients_[t.q != nullptr ? t.q->process : t.op->process].due.push_back(&t);
    }
    bool is_first(set_turn& t) {
        if (!parts_.keeps_order) return true;
        if (!parts_.one_order) return is_first_in_other_orders(t);
        return t.first_everywhere();
    }
    // Broken: each key has an order of its own.
    bool is_first_in_other_orders(set_turn& t) {
        auto& me = clients_[t.op != nullptr ? t.op->process : t.q->process];
        auto const rank = [](set_turn const& of, unsigned k) {
            return k % 2 == 0 ? of.order : ~of.order;
        };
        auto const& keys = t.q != nullptr ? t.q->keys : t.op->keys;
        for (auto const k : keys) {
            if (!me.lines[k].front().ready) return false;
            for (auto& other : turns_) {
                if (&other != &t && other.entered() && other.q != nullptr &&
                    other.q->process == t.q->process &&
                    std::binary_search(other.q->keys.begin(), other.q->keys.end(), k) &&
                    (rank(other, k) < rank(t, k) || other.op == nullptr))
                    return false;
            }
        }
        return true;
    }

    void freed(unsigned p, unsigned key) override {
        if (auto* const next = protocol::key_turn::freed(clients_[p].lines[key]))
            on_due(static_cast<set_turn&>(*next));
    }
    void leave_lines(set_turn& t, unsigned p) {
        std::vector<unsigned> used; // keys: the place of the turn is first, and not ready
        for (unsigned n = 0; n < t.q->keys.size(); ++n) {
            auto const k = t.q->keys[n];
            if (&clients_[p].lines[k].front() == &t.places[n] && !t.places[n].free)
                used.push_back(k);
        }
        auto const called = [&](protocol::key_line& l) {
            clients_[p].called.push_back(key_of(p, l));
        };
        t.leave(called, [this](protocol::key_turn& next) { on_due(static_cast<set_turn&>(next)); });
        if (!parts_.tells_use)
            for (auto const k : used) freed(p, k);
        if (parts_.one_order && parts_.keeps_order) return;
        for (auto& other : turns_) {
            if (other.op != nullptr && other.entered() && other.op->process == p) on_due(other);
        }
    }
    void give_back(set_turn& t) {
        t.prior.clear();
        for (auto const of : std::exchange(t.taken, {}))
            if (parts_.gives_back) clients_[tenures_[of].process].dropped.push_back(of);
    }
    void give_up_set(actor& a) {
        auto* const t = std::exchange(a.turn, nullptr);
        if (t == nullptr) return;
        t->op = nullptr;
        give_back(*t);
        if (t->entered()) leave_lines(*t, a.process);
        if (!t->taking) return;
        t->orphaned = true;
        on_due(*t);
    }
    void keeps_places(actor& a, queue& q) override {
        auto* const next = std::exchange(a.turn, nullptr);
        next->op = nullptr;
        give_back(*next);
        if (q.holder != nullptr) {
            ++seen_.sets_handed_over;
            q.holder->hand_over_to(*next);
            if (!next->first_everywhere())
                fail("lines", "process " + std::to_string(q.process) + " hands " + names(q.keys) +
                                  " on to one that is not first everywhere");
        }
        q.holder = next;
    }
    bool end_lease_of(queue& q) override {
        auto* const ended = std::exchange(q.holder, nullptr);
        clients_[q.process].round_trip_of_set = q.machine->round_trip();
        if (ended != nullptr) leave_lines(*ended, q.process);
        return ended != nullptr;
    }

    void settle_set(queue& q) override {
        do {
            update_gate(q);
            if (!run(q)) return;
        } while (!q.machine->held() && !q.machine->stands_back() && end_lease_of(q));
        auto* const t = q.turn_of_front();
        if (t != nullptr && is_first(*t) && t->approach.step() == set_step::in_order &&
            !q.machine->held())
            on_due(*t);
    }
    void update_gate(queue& q) override {
        auto* const t = q.turn_of_front();
        if (t == nullptr) return q.machine->may_try(true);
        if (q.machine->held()) {
            q.machine->may_try(q.holder != nullptr && q.holder->is_followed_by(*t));
        } else {
            q.machine->may_try(is_first(*t) && t->approach.step() != set_step::in_order);
        }
    }
    void note_refusal(queue& q) override {
        if (q.machine->empty()) return;
        auto& t = *q.turn_of_front();
        if (t.op == nullptr || !t.op->waits) return;
        auto const step = t.approach.step();
        if (t.op->patience == never) return;
        t.approach.refused();
        if (step == set_step::conversion) ++seen_.conversions_failed;
        if (step == set_step::together && t.approach.step() == set_step::in_order) ++seen_.in_order;
        give_back(t);
    }

    void continue_turns(unsigned p) override {
        auto& me = clients_[p];
        while (!me.due.empty() || !me.called.empty()) {
            if (!me.called.empty()) {
                auto const key = me.called.front();
                me.called.pop_front();
                join_after_sets(p, key);
                continue;
            }
            auto& t = *me.due.front();
            me.due.pop_front();
            t.due = false;
            proceed(t, p);
        }
    }
    void join_after_sets(unsigned p, unsigned key) {
        auto& line = clients_[p].lines[key];
        while (line.has_called()) {
            auto& a = static_cast<actor&>(line.take_called());
            auto const fresh = find_queue(p, false, a.keys) == nullptr;
            auto& q = queue_for(p, false, a.keys);
            if (fresh) q.machine->follows(local(p), clients_[p].round_trip_of_set);
            join(a, q);
            settle(q);
        }
        if (!in_use(p, key)) freed(p, key);
    }
    void proceed(set_turn& t, unsigned p) {
        if (t.orphaned) {
            give_back(t);
            if (!t.taking) return;
            auto* const q = t.member.q;
            leave(t.member);
            give_back(t);
            if (q != nullptr) settle(*q);
            return;
        }
        if (t.op == nullptr) return;
        if (!is_first(t)) return stand_aside(t);
        auto& q = *t.q;
        if (q.turn_of_front() != &t) return;
        if (std::exchange(t.failed, false)) {
            leave(*t.op);
            return settle(q);
        }
        if (std::exchange(t.waited, false) && q.machine->counts().tries == 0)
            q.machine->follows(local(p), clients_[p].round_trip_of_set);
        if (!t.taken.empty() && !has_all_taken(t)) {
            ++seen_.started_over;
            give_back(t);
            t.approach.start_over();
            if (t.taking && parts_.calls_off) {
                auto* const of_key = t.member.q;
                leave(t.member);
                t.failed = false;
                settle(*of_key);
            }
        }
        if (t.approach.step() == set_step::in_order) {
            if (!t.taking) take_next_key(t);
            return;
        }
        if (t.approach.step() == set_step::conversion && t.prior.empty()) begin_conversion(t);
        settle(q);
    }
    void stand_aside(set_turn& t) {
        if (!t.taken.empty() || t.taking) {
            ++seen_.stood_aside;
            give_back(t);
            t.approach.start_over();
        }
        if (t.taking) {
            auto* const of_key = t.member.q;
            leave(t.member);
            t.failed = false;
            settle(*of_key);
        }
        settle(*t.q);
    }
    bool has_all_taken(set_turn const& t) const {
        return std::all_of(t.taken.begin(), t.taken.end(), [&](unsigned of) {
            auto const& its = tenures_[of];
            return its.lease == &t.member && is_held(its);
        });
    }
    void take_next_key(set_turn& t) {
        ++seen_.keys_taken;
        auto const& whole = *t.op;
        auto const key = whole.keys[whole.callers_order[t.approach.next_key()]];
        auto& a = t.member;
        a.owner = &t;
        a.process = whole.process;
        a.keys = {key};
        a.ttl = whole.ttl;
        a.waits = a.renewed = true;
        a.stays = whole.stays;
        a.again = a.cancel_requested = a.behind = false;
        a.began = local(a.process);
        t.taking = true;
        write_story("process ", a.process, " takes ", names(a.keys), " for a set, which has ",
                    t.taken.size());
        auto& q = queue_for(a.process, false, a.keys);
        join(a, q);
        settle(q);
    }
    void on_acquired(actor& a, int tenure) override {
        auto& t = *a.owner;
        t.taking = false;
        t.failed = tenure == nobody;
        if (tenure != nobody && t.approach.step() != set_step::in_order)
            return fail("in order", "a key was taken that is not wanted any more");
        if (tenure != nobody) {
            t.taken.push_back(static_cast<unsigned>(tenure));
            t.approach.took_key();
        }
        on_due(t);
    }
    void begin_conversion(set_turn& t) {
        ++seen_.conversions;
        t.prior.resize(t.taken.size());
        for (std::size_t n = 0; n < t.taken.size(); ++n) {
            t.prior[t.op->callers_order[n]] = static_cast<int>(t.taken[n]);
            tenures_[t.taken[n]].machine.stop_renewing();
            tenures_[t.taken[n]].converting = true;
        }
        t.q->machine->has_keys();
    }
};

} // namespace holdfast::test

#endif
