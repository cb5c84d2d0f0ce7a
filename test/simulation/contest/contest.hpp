// A world in which processes contend for one key. Each process has the real wait queue and the real
// tenure, and drives them as the engine does. The simulated instances answer, expire and push as
// Redis does.
//
// A schedule is calm or faulty. A calm one has no faults, and measures the cost of an acquire and
// the share of each process. In a faulty one connections break, instances freeze and crash,
// processes are killed while they hold the key, and strangers take it. An instance forgets a key
// early only in a `forgetful` schedule, in which S1 is not checked.
//
// Properties:
//   S1, S3, S4  as in doc/guarantees.md
//   S2          the leases of a tenure have different fences
//   L           no wake-up is lost: a free and wanted key is had within a bound
//   L3          every call settles
//   L5          a silent minority that is not suspected delays no try and no release
//   Q           a free quorum is had within a bound, although a minority keeps the key
//   FIFO        waiters of a process get the key in their order
//   cost        the commands of an acquire are bounded
//   fairness    each process gets its share
//   line        fair: a process has one place in a line
//   order       fair, calm: while a process stands in line, each other one gets few turns
//   handover     a tenure keeps to handover_limit and handover_time
//   storm       few tries are made while the holder stays the same
//   validity    a lease that is handed over is valid for long enough
//   forget      an empty queue goes
//   once        a process does not try for a key that it holds
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_CONTEST_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_CONTEST_HPP

#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/arbiter.hpp"
#include "protocol/waiting/wait_queue.hpp"

#include "simulation/contest/faults.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using protocol::queue_effect;

template <class Rules, class Driver = faithful_driver>
class contest : contest_faults {
public:
    /// `silent`: a minority does not answer, and there is no other fault.
    contest(std::uint64_t seed, contest_tally& seen,
            std::optional<contest_shape> shape = std::nullopt, bool silent = false,
            std::ostream* story = nullptr)
        : contest_faults(seed, seen, shape, silent, story, {Driver::fair, Driver::calls_in_order})
        , queues_(clients_.size()) {}

    contest(contest const&) = delete;
    contest& operator=(contest const&) = delete;
    ~contest() {
        for (auto& q : queues_) {
            if (q) q->abandon();
        }
    }

    /// Returns the violated property with the reason, or an empty string.
    std::string run() {
        std::uint64_t happened = 0;
        while ((essential() > 0 || queued_ > 0) && happens()) {
            if (++happened > most_events) fail("L", "the schedule does not come to an end");
        }
        if (violation().empty()) {
            check_end();
            if (std::any_of(queues_.begin(), queues_.end(),
                            [](auto const& q) { return q.has_value(); }) ||
                std::any_of(clients_.begin(), clients_.end(),
                            [](auto const& p) { return p.folded.has_value(); }))
                fail("forget", "an empty queue stays");
        }
        if (calm_) check_measurements();
        if (overdue_) fail("handover", "a tenure serves too many leases, or for too long");
        return violation();
    }

    using contest_audit::busy_seconds;
    using contest_audit::cost;
    using contest_audit::describe;
    using contest_audit::leases;
    using contest_audit::longest_gap_ms;
    using contest_audit::share;
    using contest_audit::turn_share;

private:
    using queue_machine = protocol::basic_wait_queue<Rules>;

    static constexpr std::uint64_t most_events = 50'000'000;

    bool holds(unsigned p) const override {
        return clients_[p].folded || (queues_[p] && queues_[p]->held());
    }
    bool is_newcomer(unsigned t) const override {
        auto const& q = queues_[tenures_[t].process];
        return is_queues(t) && q && q->is_newcomer();
    }
    bool goes_to_front(unsigned p) const override {
        return queues_[p] && queues_[p]->goes_to_front();
    }
    bool tries(unsigned p) const override { return queues_[p] && queues_[p]->trying(); }
    void drop_queue(unsigned p) override {
        if (queues_[p]) queues_[p]->abandon();
        queues_[p].reset();
        clients_[p].folded.reset();
        clients_[p].wins_at_entry.clear();
    }

    //
    // Answers
    //

    void on_reply(unsigned p, unsigned i, message& m) override {
        if (m.pushed) {
            if (m.turn != nobody) return on_called(p, i, m.turn);
            if (Driver::hears_pushes && hear_push(p, i)) ++seen_.pushes;
            return;
        }
        auto& conn = clients_[p].connections[i];
        clients_[p].usual[i].heard(local() - m.sent);
        conn.heard = local();
        look_for_late(p);
        if (std::exchange(conn.suspect, false)) {
            progress();
            send_pending(p, i, false);
            on_available(p);
        }
        if (!m.votes) return;
        if (m.no_script) {
            ++seen_.resent;
            m.no_script = false;
            m.whole = true;
            return send(p, i, m);
        }
        if (!m.answered) pass_on(m, i);
        finished(m.tenure);
    }

    void look_for_late(unsigned p) {
        if (!Driver::knows_who_is_late) return;
        auto& me = clients_[p];
        for (unsigned i = 0; i < size(); ++i) {
            auto const& conn = me.connections[i];
            if (conn.available() && !conn.in_flight.empty() &&
                me.usual[i].becomes_late(local(),
                                         std::max(conn.in_flight.front().sent, conn.heard))) {
                me.newly_late.insert(i);
            }
            if (!me.usual[i].late()) me.newly_late.erase(i);
        }
        auto const is_used = [&] { return queues_[p] || me.folded; };
        if (!is_used() || me.newly_late.empty() || (reachable(p) - late(p)).empty()) return;
        std::exchange(me.newly_late, {}).for_each([&](unsigned i) {
            if (!is_used()) return;
            auto const random = any();
            if (me.folded) return;
            if (queues_[p]->waits_at(i)) ++seen_.moved;
            queues_[p]->late(local(), i, random);
            settle(p);
        });
    }

    instance_set late(unsigned p) const {
        instance_set all;
        for (unsigned i = 0; i < size(); ++i) {
            if (clients_[p].usual[i].late()) all.insert(i);
        }
        return all;
    }
    instance_set punctual(unsigned p, instance_set of) const {
        auto const rest = of - late(p);
        return rest.empty() ? of : rest;
    }

    actor& front(unsigned p) { return static_cast<actor&>(queues_[p]->front()); }

    void settle(unsigned p) {
        auto& me = clients_[p];
        if (me.settling || !queues_[p]) return;
        me.settling = true;
        for (;;) {
            auto const action = queues_[p]->next(local(), reachable(p));
            if (!action.track.empty()) {
                begin_tracking(p, action.track);
                continue;
            }
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
                ++seen_.listens;
                listen(p);
                break;
            case queue_effect::refuse:
                ++seen_.refused;
                leave(front(p));
                break;
            case queue_effect::cancel_try:
                ++seen_.given_up;
                give_up_try(p);
                if (!Driver::starts_again) {
                    me.settling = false;
                    return arm(p);
                }
                break;
            case queue_effect::fold:
                me.settling = false;
                return fold(p);
            case queue_effect::forget:
                ++seen_.forgotten;
                me.settling = false;
                if (!queues_[p]->empty()) fail("forget", "a queue is forgotten that is not empty");
                leave_line(p);
                detach(p);
                me.tracker = nobody;
                queues_[p].reset();
                return arm(p);
            case queue_effect::part: // of readers, which this simulation has not
            case queue_effect::none:
                me.settling = false;
                if (!Driver::folds_only_idle && queues_[p]->held()) return fold(p);
                return arm(p);
            }
        }
    }

    void fold(unsigned p) {
        ++seen_.folded;
        auto& me = clients_[p];
        if (!queues_[p]->empty()) fail("forget", "a queue is folded that is not empty");
        me.folded = queues_[p]->folded();
        me.tracker = nobody;
        queues_[p]->abandon();
        queues_[p].reset();
        arm(p);
    }

    void unfold(unsigned p) {
        ++seen_.unfolded;
        auto const folded = *std::exchange(clients_[p].folded, std::nullopt);
        if (Driver::unfolds_as_held) {
            queues_[p].emplace(size(), folded);
        } else {
            queues_[p].emplace(size());
        }
    }

    // Parts a queue, which may be folded, from its tenure.
    void part(unsigned p) {
        detach(p);
        if (Driver::ends_folded) clients_[p].folded.reset();
    }

    void lose(unsigned p) {
        if (clients_[p].folded) ++seen_.lost_folded;
        part(p);
        if (queues_[p]) queues_[p]->lost();
    }

    void arm(unsigned p) {
        auto& me = clients_[p];
        auto const wake = queues_[p] ? queues_[p]->wake() : std::nullopt;
        if (wake == me.armed) return;
        me.armed = wake;
        ++me.timer;
        if (!wake) return;
        at(std::max(*wake - local(), duration(0)).count(), me, [this, p, timer = me.timer] {
            if (clients_[p].timer != timer) return;
            clients_[p].armed.reset();
            settle(p);
        });
    }

    void detach(unsigned p) { clients_[p].tenure = nobody; }
    bool is_queues(unsigned t) const {
        return clients_[tenures_[t].process].tenure == static_cast<int>(t);
    }

    void begin_try(unsigned p, queue_effect how) {
        auto const at_arbiter = how == queue_effect::try_arbiter;
        auto const reserved = how == queue_effect::try_reserved;
        auto& me = clients_[p];
        auto const& a = front(p);
        auto const t = static_cast<unsigned>(tenures_.size());
        if (me.tenure != nobody && is_held(tenures_[static_cast<std::size_t>(me.tenure)])) {
            fail("once", "a process tries for a key that it holds");
        }
        tenures_.push_back(
            {p, {size(), a.ttl, a.renewed, protocol::spread_renewal_period(a.ttl, any())}});
        auto& h = tenures_.back();
        if (Driver::knows_who_is_late) h.machine.set_usual(me.usual);
        h.asked = h.begun = local();
        me.tenure = static_cast<int>(t);
        auto const arbiter = at_arbiter ? arbiter_of(p) : queues_[p]->arbiter();
        if (at_arbiter && me.line_at != arbiter && Driver::stands_in_one_line) leave_line(p);
        if (how != queue_effect::try_all && me.line_token != nobody) {
            h.token = me.line_token;
            if (Driver::renews_tokens) me.line_token = nobody;
        }
        if (!at_arbiter) {
            queues_[p]->try_begun(local(), reserved ? arbiter : 0);
            if (reserved) ++seen_.turns_taken;
            apply(t, h.machine.acquire(local(), reachable(p), reserved ? Rules::repeats : 0));
            if (!Driver::asks_for_reserved && reserved)
                apply(t, h.machine.answer(command::acquire, 0, arbiter, verdict::yes, local()));
            return;
        }
        queues_[p]->try_begun(local(), arbiter);
        apply(t, h.machine.contend(local(), arbiter));
    }

    unsigned arbiter_of(unsigned p) const {
        return protocol::arbiter(key_, punctual(p, queues_[p]->candidates(reachable(p))),
                                 [this](unsigned i) { return instances_[i].identity; });
    }

    void listen(unsigned p) {
        auto& q = *queues_[p];
        if (q.candidates(reachable(p)).empty()) return;
        auto const arbiter = arbiter_of(p);
        q.listening(arbiter);
        begin_tracking(p, instance_set::only(arbiter));
    }

    // The turn of a process has come.
    void on_called(unsigned p, unsigned i, int token) {
        if (clients_[p].line_token != token || !queues_[p]) return;
        if (queues_[p]->called(local(), i)) settle(p);
    }

    void leave_line(unsigned p) {
        auto& me = clients_[p];
        auto const token = std::exchange(me.line_token, nobody);
        me.wins_at_entry.clear();
        if (token == nobody || !Driver::leaves_line) return;
        ++seen_.line_left;
        submit(static_cast<unsigned>(token), me.line_at, command::release, 0);
    }

    void give_up_try(unsigned p) {
        auto const t = static_cast<unsigned>(clients_[p].tenure);
        detach(p);
        apply(t, tenures_[t].machine.cancel());
    }

    void begin_inspection(unsigned p) {
        auto const t = static_cast<unsigned>(clients_[p].tenure);
        auto& h = tenures_[t];
        h.asked = local();
        apply(t, h.machine.inspect(local(), h.machine.votes().no() & reachable(p)));
    }

    // The tracking of a key belongs to a tenure that never asks for the key.
    void begin_tracking(unsigned p, instance_set at) {
        auto& me = clients_[p];
        auto const& q = *queues_[p];
        if (me.tracker == nobody) {
            me.tracker = static_cast<int>(tenures_.size());
            tenures_.push_back({p, {size(), ttl_, false}, {}, true});
            tenures_.back().tracks = true;
        }
        at.for_each([&](unsigned i) {
            ++seen_.tracks;
            submit(static_cast<unsigned>(me.tracker), i, command::track, q.tracking_round());
        });
    }

    void on_tracked(unsigned p, unsigned i, message const& m, std::uint64_t random) {
        protocol::sighting seen;
        using state = protocol::sighting::state;
        if (m.said == verdict::yes) {
            seen = {.is = *m.pttl == -2 ? state::gone : state::held, .tracked = m.tracked};
            if (*m.pttl >= 0) seen.left = std::chrono::milliseconds(*m.pttl);
        }
        queues_[p]->tracked(local(), i, m.round, seen, random);
        settle(p);
    }

    void on_inspected(unsigned t) {
        if (!is_queues(t)) return;
        check_decided(t, "an inspection");
        auto const p = tenures_[t].process;
        queues_[p]->inspected(tenures_[t].machine.inspected_all());
        detach(p);
        settle(p);
    }

    void pass_on(message const& m, unsigned i) override {
        auto const t = m.tenure;
        auto& h = tenures_[t];
        auto const p = h.process;
        auto& me = clients_[p];
        if (!me.alive) return;
        if (m.op == command::track) {
            auto const random = any(); // the same if the queue is folded
            if (me.tracker == static_cast<int>(t)) on_tracked(p, i, m, random);
            return;
        }
        auto const asks = m.op == command::acquire || m.op == command::contend;
        if (asks && is_queues(t) && tries(p)) return on_try_answer(m, i);
        auto const action = h.machine.answer(m.op, m.round, i, m.said, local());
        if (Driver::hears_own_release && m.op == command::release && m.said == verdict::yes &&
            hear_push(p, i)) {
            ++seen_.own_releases;
        }
        apply(t, action);
    }

    void on_try_answer(message const& m, unsigned i) {
        auto const t = m.tenure;
        auto& h = tenures_[t];
        auto const p = h.process;
        auto const action = h.machine.answer(m.op, 0, i, m.said, local());
        if (action.empty()) return arm_tenure(t);
        if (!action.acquire.empty()) ++seen_.repeats;
        apply(t, action);
        if (action.effect == tenure_effect::arbiter_refused) {
            check_decided(t, "a try");
            detach(p);
            on_arbiter_refused(p, m);
        } else if (action.effect == tenure_effect::arbiter_won) {
            h.asked = local();
            apply(t, h.machine.ask_rest(local(), reachable(p)));
        }
    }

    void on_arbiter_refused(unsigned p, message const& m) {
        auto& q = *queues_[p];
        auto const before = q.counts().wasted;
        std::optional<duration> left;
        if (m.pttl && *m.pttl >= 0) left = std::chrono::milliseconds(*m.pttl);
        if (m.pttl && *m.pttl == -2) {
            left = duration(-1);
            backs_off();
        }
        auto& head = front(p);
        q.refused(local(), left, m.tracked, retry_, any());
        seen_.wasted += q.counts().wasted - before;
        if (line_rules_.fair) {
            clients_[p].line_token = token_of(m.tenure);
            clients_[p].line_at = q.arbiter();
            joins_line(clients_[p]);
            if (m.called) q.called(local(), q.arbiter());
        }
        check_calm(clients_[p], head);
        if (head.cancel_requested) cancelled(head);
        settle(p);
    }

    void on_try_failed(unsigned t, tenure_effect how) {
        auto const p = tenures_[t].process;
        auto& q = *queues_[p];
        auto& head = front(p);
        auto const before = q.counts().splits;
        auto const deadline = tenures_[t].machine.deadline();
        auto const by_time = how == tenure_effect::expired || how == tenure_effect::arbiter_failed;
        if (by_time && q.overslept(local(), deadline)) {
            ++seen_.overslept;
            if (head.cancel_requested) cancelled(head);
            detach(p);
            return settle(p);
        }
        if (how == tenure_effect::expired && head.waits && local() - deadline >= head.ttl / 4) {
            fail("W", "a waiter is told that the servers are slow, as its own process did not run");
        }
        switch (how) {
        case tenure_effect::contended:
            backs_off();
            q.contended(local(), tenures_[t].machine.votes(), retry_, any());
            seen_.splits += q.counts().splits - before;
            check_calm(clients_[p], head);
            if (head.cancel_requested) cancelled(head);
            if (!q.inspects()) detach(p);
            break;
        case tenure_effect::arbiter_failed:
            q.arbiter_failed();
            detach(p);
            break;
        default:
            ++seen_.no_quorum;
            q.failed();
            leave(head);
            detach(p);
            break;
        }
        settle(p);
    }

    bool hear_push(unsigned p, unsigned i) {
        auto const random = holds(p) || queues_[p] ? any() : 0; // the same if the queue is folded
        if (!queues_[p] || !queues_[p]->push(local(), i, random)) return false;
        settle(p);
        return true;
    }

    void on_unavailable(unsigned p, unsigned i) override {
        if (!queues_[p] || !queues_[p]->awaits_instances()) return;
        queues_[p]->disconnected(local(), i, any());
        if (reachable(p).size() < quorum()) {
            ++seen_.outages;
            queues_[p]->outage(local() + timeout_);
        }
        settle(p);
    }

    void on_available(unsigned p) override {
        if (!queues_[p] || !queues_[p]->awaits_instances() || reachable(p).size() < quorum())
            return;
        queues_[p]->restored(local(), any());
        settle(p);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& h = tenures_[t];
        send_all(a, h.machine.round_number(),
                 [&](unsigned i, command op, std::uint32_t round) { submit(t, i, op, round); });
        switch (a.effect) {
        case tenure_effect::inspected:
            on_inspected(t);
            break;
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::arbiter_won: // on_try_answer() continues
        case tenure_effect::extended:
        case tenure_effect::extension_failed:
            break;
        case tenure_effect::arbiter_refused:
        case tenure_effect::cancelled:
            over(t);
            break;
        case tenure_effect::won:
            on_won(t);
            break;
        case tenure_effect::contended:
        case tenure_effect::no_quorum:
        case tenure_effect::expired:
        case tenure_effect::arbiter_failed:
            over(t);
            check_decided(t, "a try");
            on_try_failed(t, a.effect);
            break;
        case tenure_effect::ended:
            lose(h.process);
            over(t);
            settle(h.process);
            break;
        case tenure_effect::lost:
            if (h.machine.phase() == tenure_phase::ending) {
                tell_loss(t);
                break;
            }
            [[fallthrough]];
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            if (releasing_.erase(t) > 0) check_release(t, a.effect);
            if (h.lease != nullptr) on_lost(t);
            if (auto* const releaser = std::exchange(h.releaser, nullptr)) rest(*releaser);
            over(t);
            break;
        }
        arm_tenure(t);
    }

    void arm_tenure(unsigned t) {
        auto& h = tenures_[t];
        auto const wake = h.machine.wake();
        if (!wake) {
            ++h.timer;
        } else if (*wake != h.armed) {
            h.armed = *wake;
            at(std::max(*wake - local(), duration(0)).count(), clients_[h.process],
               [this, t, timer = ++h.timer] {
                   if (tenures_[t].timer == timer) on_tenure_time(t);
               });
        }
    }

    void over(unsigned t) {
        tenures_[t].over = true;
        check_clean(t);
    }

    void on_tenure_time(unsigned t) {
        auto& h = tenures_[t];
        if (h.dead) return;
        auto action = h.machine.time(local());
        switch (action.effect) {
        case tenure_effect::contended:
            ++seen_.late_tries;
            break;
        case tenure_effect::arbiter_failed:
            ++seen_.late_arbiters;
            break;
        case tenure_effect::released:
            ++seen_.late_releases;
            break;
        case tenure_effect::inspected:
            ++seen_.late_inspections;
            break;
        default:
            break;
        }
        if (action.effect == tenure_effect::renewal_due)
            action = h.machine.extend(local(), reachable(h.process));
        h.armed = {};
        apply(t, action);
    }

    void on_won(unsigned t) {
        check_decided(t, "a try");
        auto& h = tenures_[t];
        auto& me = clients_[h.process];
        if (local() >= h.machine.deadline()) fail("S1", "a lease was given out that has run out");
        for (unsigned p = 0; p < clients_.size() && !forgetful_; ++p) {
            auto const& other = clients_[p];
            if (p != h.process && other.tenure != nobody &&
                is_held(tenures_[static_cast<std::size_t>(other.tenure)])) {
                fail("S1", "two leases are valid at once");
            }
        }
        check_order(me);
        ++me.wins;
        if (queues_[h.process]) leave_line(h.process);
        ++seen_.tenures;
        if (me.turns > 0 && wants_more())
            longest_gap_ = std::max(longest_gap_, now() - me.last_turn);
        me.last_turn = now();
        ++me.turns;
        ++turns_;
        grant(static_cast<actor&>(queues_[h.process]->won(local())), t);
        if (turns_ == turns_wanted_) {
            busy_until_ = now();
            stop_measuring();
        }
        settle(h.process);
    }

    void tell_loss(unsigned t) {
        if (tenures_[t].lease == nullptr) return fail("L", "a tenure that no waiter has");
        auto& a = *std::exchange(tenures_[t].lease, nullptr);
        ++seen_.lost;
        end_hold(a);
        rest(a);
    }

    void on_lost(unsigned t) {
        auto const p = tenures_[t].process;
        lose(p);
        tell_loss(t);
        settle(p);
    }

    void grant(actor& a, unsigned t) {
        for (auto const& w : actors_) {
            if (w.process == a.process && w.is == actor::state::queued && w.arrived < a.arrived) {
                fail("FIFO", "a later waiter goes first");
            }
        }
        progress();
        holder_changed();
        ++seen_.leases;
        if (std::any_of(instances_.begin(), instances_.end(),
                        [](auto const& i) { return i.has.holder == stranger; })) {
            ++seen_.rescued;
        }
        if (queues_[a.process]->handovers() != tenures_[t].served) {
            fail("S2", "two leases of a tenure have the same fence");
        }
        if (tenures_[t].served++ == 0) tenures_[t].won = local();
        ++clients_[a.process].leases;
        ++leases_;
        --queued_;
        ++a.ticket;
        if (!measuring_ && eager_ && !measured_) start_measuring();
        if (a.cancelled_when_granted) {
            ++seen_.cancelled_when_granted;
            if (!Driver::keeps_the_turn) {
                a.is = actor::state::idle;
                return rest(a);
            }
        }
        a.is = actor::state::has_lease;
        a.tenure = static_cast<int>(t);
        tenures_[t].lease = &a;
        ++held_;
        auto const hold = a.cancelled_when_granted ? 0
                          : !calm_ && one_in(20)   ? some(ttl_ * 3 / 2)
                                                   : some(hold_);
        at(hold, clients_[a.process], [this, &a, ticket = a.ticket] { on_done(a, ticket); });
    }

    void end_hold(actor& a) {
        progress();
        holder_changed();
        --held_;
        a.is = actor::state::idle;
        a.tenure = nobody;
        ++a.ticket;
    }

    bool wants_more() const {
        // A tenure that is not young serves 64 leases at most.
        auto const many = leases_ - young_leases_ >= 64 * turns_wanted_;
        return turns_ < turns_wanted_ && (brief_ || !many) && now() < stop_at_;
    }

    // The actor rests until it wants the key again.
    void rest(actor& a) {
        if (!wants_more()) return;
        wants_after(eager_ ? 0 : 1 + some(one_in(2) ? 4 * delay_ : hold_ * 10), a);
    }

    void leave(actor& a) {
        queues_[a.process]->leave(a);
        unqueued(a);
    }
    void unqueued(actor& a) {
        --queued_;
        a.is = actor::state::idle;
        ++a.ticket;
        // The next acquire comes later, as the key may not be free yet.
        if (wants_more()) wants_after(1 + some(50 * delay_), a);
    }

    void cancelled(actor& a) {
        ++seen_.cancelled;
        if (&front(a.process) == &a) ++seen_.heads_cancelled;
        leave(a);
    }

    //
    // An actor
    //

    void on_want(actor& a) override {
        auto& queue = queues_[a.process];
        if (a.is != actor::state::idle) return;
        if (!wants_more()) return;
        a.set_ttl(!eager_ && one_in(16) ? 2 * ttl_ : ttl_);
        a.renewed = !one_in(3);
        a.waits = eager_ || !one_in(8);
        a.again = false;
        a.total_cancel = one_in(4);
        a.cancel_requested = false;
        a.cancelled_when_granted = !eager_ && one_in(12);
        if (clients_[a.process].folded) {
            unfold(a.process);
        } else if (!queue) {
            queue.emplace(size());
            clients_[a.process].armed.reset();
        }
        queue->is_fair(Driver::fair);
        if (!queue->join(a)) {
            ++seen_.refused;
            wants_after(1 + some(50 * delay_), a);
            return settle(a.process);
        }
        if (queued_ == 0) progress();
        ++queued_;
        a.is = actor::state::queued;
        a.arrived = ++arrivals_;
        ++a.ticket;
        auto& me = clients_[a.process];
        if (!eager_ && a.waits && one_in(6)) {
            at(some(hold_ + 8 * delay_), me,
               [this, &a, ticket = a.ticket] { on_time_out(a, ticket); });
        }
        if (!eager_ && one_in(6)) {
            at(some(hold_ + 8 * delay_), me,
               [this, &a, ticket = a.ticket] { on_cancel(a, ticket); });
        }
        settle(a.process);
    }

    void on_time_out(actor& a, std::uint64_t ticket) {
        if (a.is != actor::state::queued || a.ticket != ticket) return;
        ++seen_.timed_out;
        leave(a);
        settle(a.process);
    }

    void on_cancel(actor& a, std::uint64_t ticket) {
        if (a.is != actor::state::queued || a.ticket != ticket) return;
        if (a.total_cancel && queues_[a.process]->trying() && &front(a.process) == &a) {
            a.cancel_requested = true;
            return;
        }
        cancelled(a);
        settle(a.process);
    }

    void on_done(actor& a, std::uint64_t ticket) {
        if (a.is != actor::state::has_lease || a.ticket != ticket) return;
        auto const t = static_cast<unsigned>(a.tenure);
        auto& h = tenures_[t];
        auto const p = a.process;
        auto& q = queues_[p];
        h.lease = nullptr;
        if (q && q->hands_over(local(), h.machine.deadline() - local(), h.machine.ttl(),
                               handover_limit_, handover_time_)) {
            ++seen_.handovers;
            note_hand_over(h);
            auto& next = static_cast<actor&>(q->hand_over());
            h.machine.begin_lease(next.renewed);
            auto const left = h.machine.deadline() - local();
            if (left < (next.renewed ? next.ttl / 2 : next.ttl * 17 / 20)) {
                fail("validity", "a lease is handed on of which little is left");
            }
            grant(next, t);
            end_hold(a);
            rest(a);
            return apply(t, {});
        }
        if (!q && h.machine.opposed()) {
            ++seen_.unfolded_to_stand_back;
            unfold(p);
        }
        part(p);
        h.asked = local();
        releasing_.insert(t);
        h.over = true;
        end_hold(a);
        // Some actors drop their lease, and do not wait for the end of the release.
        if (eager_ || !one_in(4)) {
            h.releaser = &a;
        } else {
            rest(a);
        }
        apply(t, h.machine.release(local(), reachable(p)));
        if (!q) return;
        q->released(local(), h.machine.opposed());
        if (q->wake()) {
            ++seen_.stand_backs;
        } else if (!q->empty()) {
            ++seen_.stays;
        }
        settle(p);
    }

    std::vector<std::optional<queue_machine>> queues_;
    std::uint64_t arrivals_ = 0;
};

} // namespace holdfast::test

#endif
