// The processes of a simulation of sets: they drive the protocol's classes as runtime/acquire does,
// with the names of the functions there.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_DRIVER_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_DRIVER_HPP

#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/arbiter.hpp"
#include "protocol/waiting/key_line.hpp"
#include "protocol/waiting/wait_queue.hpp"

#include "simulation/sets/wire.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

namespace holdfast::test {

using protocol::queue_effect;

class set_driver : protected set_wire {
protected:
    using set_wire::set_wire;

    set_driver(set_driver const&) = delete;
    set_driver& operator=(set_driver const&) = delete;
    ~set_driver() {
        for (unsigned p = 0; p < clients_.size(); ++p) forget_process(p);
    }

    //
    // Turns of the event loop
    //

    /// Handles an event of a process, and what it leaves to others.
    template <class Work>
    void turn(unsigned p, Work&& work) {
        auto& me = clients_[p];
        if (!me.alive) return;
        if (std::exchange(me.in_turn, true)) return work();
        work();
        end_turn(p);
        clients_[p].in_turn = false;
    }
    void end_turn(unsigned p) {
        auto& me = clients_[p];
        do {
            settle_all(p);
            continue_turns(p);
        } while (!me.unsettled.empty());
        look_for_late(p);
        if (me.dropped.empty()) return;
        at(one_in(2) ? 0 : some(delay_ / 4), me, [this, p] {
            turn(p, [&] {
                for (auto const t : std::exchange(clients_[p].dropped, {})) {
                    if (tenures_[t].lease != nullptr && tenures_[t].lease->owner != nullptr)
                        end_lease(t);
                }
            });
        });
    }
    void settle_all(unsigned p) {
        auto& me = clients_[p];
        while (!me.unsettled.empty()) {
            auto* const q = me.unsettled.back();
            me.unsettled.pop_back();
            settle(*q);
        }
    }
    void will_settle(queue* q) {
        if (q != nullptr) clients_[q->process].unsettled.push_back(q);
    }

    void look_for_late(unsigned p) {
        auto& me = clients_[p];
        for (unsigned i = 0; i < size(); ++i) {
            auto const& conn = me.connections[i];
            if (conn.available() && !conn.in_flight.empty() &&
                me.usual[i].becomes_late(local(p),
                                         std::max(conn.in_flight.front().sent, conn.heard)))
                me.newly_late.insert(i);
            if (!me.usual[i].late()) me.newly_late.erase(i);
        }
        if (me.newly_late.empty() || (reachable(p) - late(p)).empty()) return;
        std::exchange(me.newly_late, {}).for_each([&](unsigned i) {
            for_each_waiting(p, [&](queue& q) {
                ++seen_.late;
                q.machine->late(local(p), i, any());
                settle(q);
            });
        });
    }
    instance_set late(unsigned p) const {
        instance_set all;
        for (unsigned i = 0; i < size(); ++i)
            if (clients_[p].usual[i].late()) all.insert(i);
        return all;
    }
    template <class Visit>
    void for_each_waiting(unsigned p, Visit visit) {
        for (auto& q : queues_) {
            if (q.process == p && q.machine && q.machine->awaits_instances()) visit(q);
        }
    }

    //
    // What an actor wants
    //

    void on_want(actor& a) {
        if (a.is != actor::state::idle || now() >= stop_at_) return;
        choose(a);
        turn(a.process, [&] { clients_[a.process].foreign ? start_foreign(a) : start(a); });
    }
    void choose(actor& a) {
        a.keys.clear();
        auto few = keys_;
        if (shape_) {
            a.set = a.wide;
            few = a.wide ? shape_->keys_of_wide : 1;
            a.patience = shape_->patience;
        } else {
            a.set = !clients_[a.process].foreign && !one_in(3);
            few = a.set ? 1 + static_cast<unsigned>(below(std::min(keys_, 4U))) : 1;
            static constexpr std::array patiences{0U, 0U, 1U, 1U, 4U};
            a.patience = any_of(patiences);
        }
        std::vector<unsigned> all(keys_);
        std::iota(all.begin(), all.end(), 0U);
        shuffle(all);
        a.keys.assign(all.begin(), all.begin() + few);
        auto const& other = actors_[below(actors_.size())];
        if (!shape_ && other.set && !clients_[a.process].foreign && one_in(3)) {
            a.set = true;
            a.keys = other.keys;
            few = static_cast<unsigned>(a.keys.size());
        }
        std::sort(a.keys.begin(), a.keys.end());
        a.callers_order.resize(few);
        std::iota(a.callers_order.begin(), a.callers_order.end(), 0U);
        if (!parts_.byte_order) shuffle(a.callers_order);
        a.set_ttl(!shape_ && one_in(6) ? 2 * ttl_ : ttl_);
        a.renewed = !one_in(3);
        a.fenced = shape_ ? shape_->fenced : is_reckless() ? !one_in(6) : one_in(3);
        a.waits = shape_ || !one_in(8);
        a.stays = !shape_ && a.waits && one_in(3);
        a.again = a.cancel_requested = a.behind = false;
        a.total_cancel = one_in(3);
        a.limited = false;
    }
    void plan_end(actor& a) {
        if (shape_ || a.is != actor::state::queued) return;
        auto const span = one_in(2) ? some(hold_ * 8 + delay_ * 20) : some(delay_ * 20);
        if (a.waits && one_in(4)) {
            at(span, clients_[a.process], [this, &a, ticket = a.ticket] {
                if (a.is != actor::state::queued || a.ticket != ticket) return;
                ++seen_.timed_out;
                turn(a.process, [&] { give_up(a); });
            });
        } else if (one_in(4)) {
            at(span, clients_[a.process], [this, &a, ticket = a.ticket] {
                if (a.is == actor::state::queued && a.ticket == ticket)
                    turn(a.process, [&] { cancel(a); });
            });
        }
    }
    void rest(actor& a) {
        if (now() >= stop_at_) return;
        auto const span = shape_      ? some(shape_->think)
                          : one_in(2) ? some(delay_ * 2)
                                      : some(hold_ * 4);
        at(1 + span, clients_[a.process], [this, &a] { on_want(a); });
    }
    void note_wait(actor const& a) {
        auto const waited = static_cast<double>(now() - a.wanted_at) * 1e-6;
        auto& most = a.wide ? measures_.longest_wide_ms : measures_.longest_narrow_ms;
        most = std::max(most, waited);
        if (shape_ && shape_->steady && a.is != actor::state::queued) {
            auto const trips = waited * 1e6 / (2.0 * static_cast<double>(delay_.count()));
            auto& least = measures_.quickest_round_trips;
            least = least == 0 ? trips : std::min(least, trips);
            measures_.slowest_round_trips = std::max(measures_.slowest_round_trips, trips);
        }
    }

    //
    // Acquires
    //

    void begin_acquire(actor& a) {
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
    void start(actor& a) {
        if (parts_.joins_in_order) continue_turns(a.process);
        begin_acquire(a);
        if (a.set) return start_set(a);
        if (waits_in_line(a)) return;
        join(a, queue_for(a.process, false, a.keys));
    }
    void start_set(actor& a) {
        auto& me = clients_[a.process];
        auto& t = turns_.emplace_back(static_cast<unsigned>(a.keys.size()), a.patience);
        a.turn = &t;
        t.op = &a;
        t.order = a.arrived;
        t.enter(
            {t.places.get(), a.keys.size()},
            [&](std::size_t n) -> protocol::key_line& { return me.lines[a.keys[n]]; },
            [&](protocol::key_line& l) { return in_use(a.process, key_of(a.process, l)); });
        auto& q = queue_for(a.process, true, a.keys);
        t.q = &q;
        auto const ready = is_first(t);
        t.waited = !ready;
        if (q.machine->empty() && !q.machine->held()) q.machine->may_try(ready);
        if (!ready && !a.waits) {
            a.q = &q;
            ++seen_.refused;
            fail_acquire(a);
            return will_settle(&q);
        }
        if (!ready) ++seen_.behind_queues;
        join(a, q);
    }
    bool waits_in_line(actor& a) {
        auto& line = clients_[a.process].lines[a.keys.front()];
        if (line.empty() || !parts_.keeps_order) return false;
        if (!a.waits) {
            ++seen_.refused;
            fail_acquire(a);
        } else {
            ++seen_.behind_sets;
            line.wait_behind(a);
        }
        return true;
    }
    unsigned key_of(unsigned p, protocol::key_line& l) const {
        return static_cast<unsigned>(&l - clients_[p].lines.get());
    }
    queue* find_queue(unsigned p, bool set, key_list const& keys) const {
        auto const& all = clients_[p].queues;
        auto const found = all.find({set, keys});
        return found == all.end() || !found->second->in_use() ? nullptr : found->second;
    }
    bool in_use(unsigned p, unsigned key) const { return find_queue(p, false, {key}) != nullptr; }
    /// The queue of these keys, made again if it was folded or forgotten.
    queue& queue_for(unsigned p, bool set, key_list const& keys) {
        auto& q = clients_[p].queues[{set, keys}];
        if (q == nullptr) {
            q = &queues_.emplace_back();
            q->process = p;
            q->set = set;
            q->keys = keys;
        }
        if (q->folded) {
            q->machine.emplace(size(), *std::exchange(q->folded, std::nullopt));
        } else if (!q->machine) {
            q->machine.emplace(size());
            q->asks_all = false;
        }
        return *q;
    }

    void join(actor& a, queue& q) {
        a.q = &q;
        auto const outage = q.machine->failed_outage_tries() != 0 && !q.machine->empty();
        if (outage && !a.stays) {
            fail_acquire(a);
        } else if (!q.machine->join(a)) {
            ++seen_.refused;
            fail_acquire(a);
        }
        will_settle(&q);
    }

    void cancel(actor& a) {
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
    void give_up(actor& a) {
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
    void leave(actor& a) {
        if (a.q != nullptr) {
            a.q->machine->leave(a);
            return fail_acquire(a);
        }
        protocol::key_line::leave(a);
        auto const key = a.keys.front();
        fail_acquire(a);
        if (!in_use(a.process, key)) freed(a.process, key); // it was about to join the queue
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
    // Lines: acquirer_sets.cpp
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

    void freed(unsigned p, unsigned key) {
        if (auto* const next = protocol::key_turn::freed(clients_[p].lines[key]))
            on_due(static_cast<set_turn&>(*next));
    }
    void leave_lines(set_turn& t, unsigned p) {
        auto& out = clients_[p].out_of_line;
        std::vector<protocol::key_line*> used; // the queues of their keys are in use, or soon
        for (unsigned n = 0; n < t.q->keys.size(); ++n) {
            auto& l = clients_[p].lines[t.q->keys[n]];
            if (&l.front() == &t.places[n] && !t.places[n].ready) used.push_back(&l);
        }
        auto const joins = [&](protocol::key_line& l, protocol::waiter_list& waiters) {
            auto const some = !waiters.empty();
            out.splice(out.end(), waiters);
            return some ||
                   (parts_.tells_use && std::find(used.begin(), used.end(), &l) != used.end());
        };
        t.leave(joins, [this](protocol::key_turn& next) { on_due(static_cast<set_turn&>(next)); });
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
    void keeps_places(actor& a, queue& q) {
        auto* const next = std::exchange(a.turn, nullptr);
        next->op = nullptr;
        give_back(*next);
        if (q.holder != nullptr) {
            ++seen_.sets_handed_over;
            q.holder->hand_over_to(*next);
        }
        q.holder = next;
    }
    bool end_lease_of(queue& q) {
        auto* const ended = std::exchange(q.holder, nullptr);
        clients_[q.process].round_trip_of_set = q.machine->round_trip();
        if (ended != nullptr) leave_lines(*ended, q.process);
        return ended != nullptr;
    }

    void settle_set(queue& q) {
        do {
            update_gate(q);
            if (!run(q)) return;
        } while (!q.machine->held() && !q.machine->stands_back() && end_lease_of(q));
        auto* const t = q.turn_of_front();
        if (t != nullptr && is_first(*t) && t->approach.step() == set_step::in_order &&
            !q.machine->held())
            on_due(*t);
    }
    void update_gate(queue& q) {
        auto* const t = q.turn_of_front();
        if (t == nullptr) return q.machine->may_try(true);
        if (q.machine->held()) {
            q.machine->may_try(q.holder != nullptr && q.holder->is_followed_by(*t));
        } else {
            q.machine->may_try(is_first(*t) && t->approach.step() != set_step::in_order);
        }
    }
    void note_refusal(queue& q) {
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

    void continue_turns(unsigned p) {
        auto& me = clients_[p];
        while (!me.due.empty() || !me.out_of_line.empty()) {
            if (!me.out_of_line.empty()) {
                auto& a = static_cast<actor&>(me.out_of_line.front());
                me.out_of_line.pop_front();
                join_after_set(a);
                continue;
            }
            auto& t = *me.due.front();
            me.due.pop_front();
            t.due = false;
            proceed(t, p);
        }
    }
    void settle_now(queue& q) { settle(q); }
    void join_after_set(actor& a) {
        auto const fresh = find_queue(a.process, false, a.keys) == nullptr;
        auto& q = queue_for(a.process, false, a.keys);
        if (fresh) q.machine->follows(local(a.process), clients_[a.process].round_trip_of_set);
        join(a, q);
        settle_now(q);
    }
    void proceed(set_turn& t, unsigned p) {
        if (t.orphaned) {
            give_back(t);
            if (!t.taking) return;
            auto* const q = t.member.q;
            leave(t.member);
            give_back(t);
            if (q != nullptr) settle_now(*q);
            return;
        }
        if (t.op == nullptr || !is_first(t) || t.q->turn_of_front() != &t) return;
        auto& q = *t.q;
        if (std::exchange(t.failed, false)) {
            leave(*t.op);
            return settle_now(q);
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
                settle_now(*of_key);
            }
        }
        if (t.approach.step() == set_step::in_order) {
            if (!t.taking) take_next_key(t);
            return;
        }
        if (t.approach.step() == set_step::conversion && t.prior.empty()) begin_conversion(t);
        settle_now(q);
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
        a.again = a.cancel_requested = false;
        a.began = local(a.process);
        t.taking = true;
        write_story("process ", a.process, " takes ", names(a.keys), " for a set, which has ",
                    t.taken.size());
        auto& q = queue_for(a.process, false, a.keys);
        join(a, q);
        settle_now(q);
    }
    void on_acquired(actor& a, int tenure) {
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

    //
    // Queues
    //

    void settle(queue& q) {
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
            case queue_effect::none:
                break;
            }
        }
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
        me.out_of_line.clear();
        for (unsigned k = 0; k < keys_; ++k) me.lines[k].clear();
        for (auto& [name, q] : me.queues) {
            q->tenure = nobody;
            q->holder = nullptr;
            q->folded.reset();
            if (q->machine) put_back(*q);
        }
    }

    //
    // Tries: acquirer_tries.cpp
    //

    bool is_queues(unsigned t) const {
        auto const* const q = tenures_[t].q;
        return q != nullptr && q->tenure == static_cast<int>(t);
    }
    std::uint64_t hint(unsigned p) {
        if (is_reckless()) return 1 + below(hints_);
        (void)p;
        return protocol::fence_hint(std::chrono::milliseconds(now() / 1'000'000));
    }
    unsigned new_tenure(actor const& a, queue* q) {
        auto const t = static_cast<unsigned>(tenures_.size());
        auto const period = protocol::spread_renewal_period(a.ttl, any());
        auto& its = tenures_.emplace_back(
            tenure_state{a.process, {size(), a.ttl, a.renewed, period}, a.keys, a.set});
        its.q = q;
        its.begun = local(a.process);
        if (a.fenced) its.machine.number_from(hint(a.process));
        for (auto const k : a.keys) its.floors.push_back(greatest_[k]);
        return t;
    }
    void begin_try(queue& q, queue_effect how) {
        auto const at_arbiter = how == queue_effect::try_arbiter;
        auto const p = q.process;
        auto const arbiter = at_arbiter ? arbiter_of(q) : q.machine->arbiter();
        auto const t = new_tenure(q.front(), &q);
        auto& its = tenures_[t];
        its.machine.set_usual(clients_[p].usual);
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
            apply(t, its.machine.acquire(local(p), voters(p)));
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
    }
    message describe(unsigned t, command op, std::uint32_t round) {
        auto& its = tenures_[t];
        message m;
        m.op = op;
        m.round = round;
        if (its.machine.fenced()) m.number = its.machine.asks_for(op);
        auto const* const turn = its.set && its.q != nullptr && !its.over && its.q->machine
                                     ? its.q->turn_of_front()
                                     : nullptr;
        if (turn == nullptr || (!its.tracks && !is_queues(t))) return m;
        m.watched = turn->watched;
        if (op == command::acquire || op == command::contend) m.prior = turn->prior;
        return m;
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
    static std::uint64_t counted(message const& m) { return m.said == verdict::yes ? m.number : 0; }
    void on_arbiter_refused(queue& q, message const& m) {
        std::optional<duration> left;
        if (m.pttl && *m.pttl >= 0) left = std::chrono::milliseconds(*m.pttl);
        if (m.pttl && *m.pttl == -2) left = duration(-1);
        auto& a = q.front();
        q.machine->refused(local(q.process), left, m.tracked, retry_, any());
        if (q.set) note_refusal(q);
        if (a.cancel_requested) leave(a);
    }
    void on_try_failed(unsigned t, tenure_effect how) {
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
        switch (how) {
        case tenure_effect::contended:
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
            how == tenure_effect::expired ? fail_try(t) : on_outage(t);
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
        leave(q.front());
        while (!q.machine->empty() && counts_for(t, q.front())) leave(q.front());
    }
    bool has_quorum_of_instances(unsigned p) const { return voters(p).size() >= quorum(); }
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

    //
    // Questions and pushes: acquirer_questions.cpp
    //

    void begin_inspection(queue& q) {
        ++seen_.inspections;
        auto const t = static_cast<unsigned>(q.tenure);
        auto& machine = tenures_[t].machine;
        apply(t, machine.inspect(local(q.process), machine.votes().no() & reachable(q.process)));
    }
    void on_inspected(unsigned t) {
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
        auto* const set = line.empty() || !line.front().ready
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
    void will_expire_in_raise(unsigned t, unsigned i) {
        at(some(delay_ * 2), [this, t, i, k = any_key_of(t)] { expire_early(i, k, t); });
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
    // Leases: lease_keeper.cpp
    //

    void on_won(unsigned t) {
        auto& its = tenures_[t];
        auto& q = *its.q;
        its.won = local(its.process);
        holding_.insert(t);
        if (its.converts) ++seen_.converted;
        auto& a = static_cast<actor&>(q.machine->won(local(its.process)));
        grant(a, t);
        will_settle(&q);
    }
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
        end_lease(t);
        settle_all(a.process);
        // In the same turn, or later.
        if (!shape_ && now() < stop_at_ && one_in(4)) {
            choose(a);
            clients_[a.process].foreign ? start_foreign(a) : start(a);
        } else {
            rest(a);
        }
    }
    void end_lease(unsigned t) {
        auto& its = tenures_[t];
        auto const p = its.process;
        auto* q = its.q;
        if (its.machine.phase() != tenure_phase::held) {
            its.lease = nullptr;
            return;
        }
        auto const last = std::exchange(its.lease, nullptr);
        auto const may = !its.converting || parts_.hands_over_converted;
        if (q != nullptr && q->machine && may && local(p) < its.machine.deadline() &&
            q->machine->hands_over(local(p), its.machine.valid_until() - local(p),
                                   its.machine.ttl(), handover_limit_, handover_time_)) {
            ++seen_.handovers;
            grant(static_cast<actor&>(q->machine->hand_over()), t);
            return will_settle(q);
        }
        (void)last;
        if (q != nullptr && q->folded && its.machine.opposed()) queue_for(p, false, q->keys);
        leave_queue(t);
        its.over = true;
        holding_.erase(t);
        apply(t, its.machine.release(local(p), reachable(p)));
        if (q == nullptr || !q->machine) return;
        q->machine->released(local(p), its.machine.opposed());
        will_settle(q);
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

    void start_foreign(actor& a) {
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

    set_measures measures_;
};

} // namespace holdfast::test

#endif
