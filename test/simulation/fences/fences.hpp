// A world in which tenures are numbered. The only assumption is that instances remember.
//
// The real machine of a tenure runs in each client. Instances carry out the commands as the scripts
// of src/redis/scripts.hpp say. A native acquire is two commands, SET and the count, and others may
// be carried out between them. Messages of one connection keep their order and arrive once or not
// at all. All else is arbitrary:
//  - Keys expire at any moment.
//  - Clients stop for any time, also between reading the hint and sending it.
//  - Wall clocks and lease clocks of clients, and the clocks of instances, show any time and jump.
//  - Instances freeze, or crash and come back with all their data.
//  - Connections break. Messages under way are lost, or are carried out at any later time, and no
//    client hears of it.
//
// The world checks three properties of doc/guarantees.md. S2: no two leases have the same fence,
// and a tenure that began after another was won has the greater number. L3: no acquire waits for an
// answer that cannot come. L1, in calm worlds: the number of round trips of an acquire. Mutual
// exclusion is not checked, because such clocks do not allow it.
//
// A `forgetful` instance loses its keys and counters in a crash. One such instance is enough for
// harm, because it may be the only one that two quorums share. S2 then holds under the assumptions
// below (fence_conditions). G is the greatest number that any instance had counted to when the
// instance crashed, as a time (10 numbers are 1 ms).
//  - When an instance carries out an acquire, its hint differs from the true time by at most E. E
//    covers the error of the client's clock, the time since it was read, and the rounding. If the
//    acquire's deadline counts from before the hint is read (`hint_within`), and lease clocks are
//    right, that time is at most the ttl in each acquire that wins.
//  - A forgetful instance is away for more than 2 E, and until G + E has passed. The second time is
//    later only if counters ran ahead of all clocks. That takes more than 10 tenures in a
//    millisecond.
//  - A forgetful instance believes right hints: its clock is at most a minute less E behind the
//    true time. The clocks of other instances may show any time.
//  - An instance that comes back with an older state is also away for longer than an acquire takes.
//    Otherwise an acquire from before the crash could raise a key that the instance has only
//    because of that state.
// The reason: an instance that forgot the number of a winner had counted to no more than G. A
// client that is granted the key there later has a hint of more than G, and so a greater number. An
// instance whose counter expires after its ttl forgets as well. It was then unused for that long,
// which counts as being away, unless its clock jumped ahead.
#ifndef HOLDFAST_TEST_SIMULATION_FENCES_FENCES_HPP
#define HOLDFAST_TEST_SIMULATION_FENCES_FENCES_HPP

#include "protocol/tenure/fence.hpp"
#include "protocol/tenure/tenure.hpp"

#include "simulation/fences/clocks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

template <class Rules, class Parts = faithful_parts>
class fence_world : fence_clocks {
public:
    fence_world(std::uint64_t seed, fence_tally& seen, fence_conditions const& conditions = {},
                std::ostream* story = nullptr)
        : fence_clocks(seed, seen, conditions, story) {
        tenures_.reserve(clients_.size() * 12);
    }

    /// Returns the violated property with the reason, or an empty string.
    std::string run() {
        while (happens()) {
        }
        if (violation().empty() && calm_) {
            for (auto const& t : tenures_) {
                if (!t.won) fail("L1", "an acquire that nothing stood in the way of was not won");
            }
        }
        return violation();
    }

private:
    using machine = protocol::basic_tenure<Rules>;
    using command = protocol::command;
    using counting = protocol::counting;
    using verdict = protocol::verdict;
    using tenure_effect = protocol::tenure_effect;
    using instance_set = protocol::instance_set;
    using phase = protocol::tenure_phase;

    static constexpr std::uint64_t only_key = 1;

    struct tenure_state {
        unsigned client;
        machine is;
        protocol::time_point began{}; ///< by the lease clock, before the hint was read
        ticks hint_of = 0;            ///< the time that the wall clock showed
        ticks asked_at = 0;
        std::uint64_t floor = 0; ///< the greatest fence given before the tenure began
        unsigned awaited =
            0; ///< commands of the acquire under way, and steps that the client itself will take
        unsigned rounds = 0;   ///< rounds of raises
        unsigned recounts = 0; ///< native counts that failed
        unsigned lifts = 0;
        unsigned handovers = 0;
        bool at_arbiter = false;
        bool undecided = false; ///< a raise failed, and the votes were no quorum any more
        bool won = false;
        bool over = false;
    };

    //
    // Chance and time
    //

    template <class Act>
    void on_tenure_after(ticks after, unsigned t, Act act) {
        at(after, clients_[tenures_[t].client], [act, t] { act(t); });
    }

    //
    // Faults
    //

    /// The time for which a process stops.
    ticks a_while() { return one_in(3) ? long_ : delay_ * 10; }

    void plan_fault() {
        auto const c = static_cast<unsigned>(below(clients_.size()));
        auto i = static_cast<unsigned>(below(instances_.size()));
        enum class fault {
            stop,
            freeze,
            cut,
            crash,
            jump,
            time_out
        };
        static constexpr std::array kinds{fault::stop,  fault::freeze, fault::cut,     fault::cut,
                                          fault::crash, fault::jump,   fault::time_out};
        auto kind = any_of(kinds);
        if (given_.forgetful != 0 && one_in(4)) {
            kind = fault::crash;
            while (!instances_[i].may_forget) i = (i + 1) % size();
        }
        auto const after = some(delay_ * 6);
        switch (kind) {
        case fault::stop:
            return at(after, [this, c] {
                ++seen_.pauses;
                pause(clients_[c], some(a_while()));
            });
        case fault::freeze:
            return at(after, [this, i] {
                ++seen_.freezes;
                freeze(i, some(a_while()));
            });
        case fault::cut:
            return at(after, [this, c, i] { break_connection(c, i, some(delay_ * 10), true); });
        case fault::crash:
            return at(after, [this, i] { crash(i); });
        case fault::jump:
            return at(after, [this, i] { jump(i); });
        case fault::time_out:
            return at(after, clients_[c], [this, c, i] { on_timeout(c, i); });
        }
    }

    void expire(unsigned i, unsigned t) {
        auto& has = instances_[i].has;
        if (!has.is_of(t)) return;
        auto const& its = tenures_[t];
        ++seen_.expiries;
        if (its.rounds != 0 && its.is.phase() == phase::acquiring) ++seen_.expired_in_raise;
        write_story("the key of ", t, " expires at instance ", i);
        has.holder = nobody;
    }

    void jump(unsigned i) {
        auto& at = instances_[i];
        ++seen_.clock_jumps;
        at.off = at.may_forget && given_.right_servers ? right_server()
                 : one_in(3)                           ? -2 * years
                                                       : some(40 * years) - 20 * years;
    }

    // Breaks a connection. Messages under way are lost; with `ghosts` the instance may carry out
    // some later. The client hears of the break when it runs.
    void break_connection(unsigned c, unsigned i, ticks span, bool ghosts) {
        auto& conn = clients_[c].connections[i];
        ++seen_.breaks;
        std::deque<message> late;
        if (ghosts && conn.session == conn.epoch && !conn.in_flight.empty() && one_in(2)) {
            auto const last = conn.in_flight[below(conn.in_flight.size())].serial;
            conn.ghosts_at = now() + some(delay_ * 40);
            std::copy_if(conn.to_server.begin(), conn.to_server.end(), std::back_inserter(late),
                         [&](message const& m) { return m.serial <= last; });
        }
        sever(c, i);
        conn.ghosts = std::move(late);
        at(0, clients_[c], [this, c, i] { on_broken(c, i); });
        reconnect_after(c, i, 1 + span);
    }

    void crash(unsigned i) {
        auto& at = instances_[i];
        if (now() < at.down_until) return;
        auto away = some(delay_ * 10);
        ++seen_.crashes;
        if (at.may_forget) {
            away = forget(i);
        } else {
            write_story("instance ", i, " crashes and keeps what it has");
        }
        at.down_until = now() + away;
        at.frozen_until = 0;
        for (unsigned c = 0; c < clients_.size(); ++c)
            break_connection(c, i, away + travel(), false);
    }

    /// The instance forgets its data. Returns the time for which it is away.
    ticks forget(unsigned i) {
        using away = fence_conditions::away;
        auto& at = instances_[i];
        ++seen_.forgotten;
        auto const back = given_.older_state && one_in(2);
        if (back) ++seen_.restored;
        at.has = back ? at.earlier : content{};
        at.forgot = true;
        write_story("instance ", i, " crashes and comes back with counter ", at.has.counter,
                    " and key of ", at.has.holder);
        if (given_.forgetting == away::briefly) return some(delay_ * 4);
        auto const counted = static_cast<ticks>(most_) * ms / 10 + 1;
        auto const twice = 2 * error_;
        if (given_.forgetting == away::twice_the_error) return twice + 1;
        if (counted + error_ - now() > twice) ++seen_.ran_ahead;
        auto const enough = std::max(twice, counted + error_ - now()) + 1;
        // Then the hint of an acquire that wins is no older than its ttl.
        if (given_.hint_within) return enough + ttl_;
        return given_.bounded_acquires ? std::max(enough, ttl_ + 1) : enough;
    }

    //
    // The wire
    //

    void submit(unsigned t, unsigned i, command op, std::uint32_t round) {
        auto const c = tenures_[t].client;
        auto& conn = clients_[c].connections[i];
        message m;
        m.tenure = t;
        m.op = op;
        m.round = round;
        auto const& numbering = tenures_[t].is.numbering();
        m.number = numbering.for_command(op);
        auto const awaited =
            op == command::acquire || op == command::contend || op == command::raise;
        if (awaited) ++tenures_[t].awaited;
        if (conn.available()) {
            auto const shown = std::chrono::microseconds(now() + instances_[i].off);
            if (native_ && m.number <= protocol::greatest_believed(shown))
                m.counting = numbering.counting_for(op);
            if (m.counting != counting::by_script) set_key(c, i, m);
            transmit(c, i, m);
            return;
        }
        if (op == command::release) conn.pending.push_back({t, now()});
        // An acquire goes only to instances that are up. An instance may be down before its raise.
        if (op != command::raise) return;
        ++seen_.raises_unsent;
        if (!Parts::tells_unsent) {
            --tenures_[t].awaited;
            return;
        }
        m.said = verdict::unsent;
        at(0, clients_[c], [this, i, m] { pass_on(i, m); });
    }

    /// The first of two commands. The instance may execute others before the second.
    void set_key(unsigned c, unsigned i, message m) {
        m.sets_key = true;
        m.votes = false;
        transmit(c, i, m);
    }

    /// Enforces the assumption that a hint is right to within E when an instance reads it.
    bool is_too_old(message const& m) const {
        auto const& t = tenures_[m.tenure];
        if (!given_.right_clocks || !given_.fresh_hints || !t.is.fenced()) return false;
        if (m.op != command::acquire && m.op != command::contend) return false;
        auto const rounded = t.hint_of / ms * ms;
        return rounded < now() - error_ || rounded > now() + error_;
    }

    void on_reply(unsigned c, unsigned i, message& m) override {
        if (std::exchange(clients_[c].connections[i].suspect, false)) send_pending(c, i);
        if (m.sets_key) return;
        if (m.not_counted) {
            auto& its = tenures_[m.tenure];
            m.not_counted = false;
            m.said = verdict::unknown;
            if (its.is.phase() == phase::acquiring && !m.answered) {
                ++seen_.not_counted;
                ++its.recounts;
                m.counting = counting::by_script;
                m.number = its.is.numbering().for_command(m.op);
                transmit(c, i, m);
                return;
            }
        } else if (m.counting != counting::by_script && !Parts::remembers_number) {
            m.number = tenures_[m.tenure].is.numbering().for_command(m.op);
        }
        if (m.unknown_script && !m.whole_script) {
            auto const& its = tenures_[m.tenure].is;
            if (its.phase() == phase::acquiring || its.phase() == phase::held) {
                ++seen_.scripts_lost;
                m.unknown_script = false;
                m.whole_script = true;
                m.number = its.numbering().for_command(m.op);
                transmit(c, i, m);
                return;
            }
            m.said = verdict::unsent;
        }
        if (!m.answered) pass_on(i, m);
    }

    void on_broken(unsigned c, unsigned i) {
        auto const& conn = clients_[c].connections[i];
        if (conn.up || !conn.in_flight.empty()) lose(c, i);
    }

    void on_reconnected(unsigned c, unsigned i) override {
        auto const& at = instances_[i];
        if (now() < at.down_until) return reconnect_after(c, i, at.down_until - now());
        connected(clients_[c].connections[i]);
        clients_[c].known.forget(lease_clock(c));
        send_pending(c, i);
    }

    /// The client gives up slow answers. They may arrive later, but have no effect.
    void on_timeout(unsigned c, unsigned i) {
        auto const& conn = clients_[c].connections[i];
        if (!conn.available() || conn.in_flight.empty()) return;
        ++seen_.timeouts;
        give_up_answers(c, i);
    }

    void on_silence(unsigned /*c*/, unsigned i, message& m) override {
        if (m.answered) return;
        m.said = verdict::unknown;
        pass_on(i, m);
    }

    void send_pending(unsigned c, unsigned i) {
        for (auto const& k : std::exchange(clients_[c].connections[i].pending, {})) {
            message m;
            m.tenure = k.tenure;
            m.op = command::release;
            m.answered = true;
            transmit(c, i, m);
        }
    }

    //
    // An instance: the scripts of redis/scripts.hpp
    //

    bool execute(unsigned c, unsigned i, message& m, bool ghost) override {
        if (ghost) ++seen_.ghosts;
        if (is_too_old(m)) {
            ++seen_.too_old;
            if (!ghost) break_connection(c, i, travel(), false);
            return false;
        }
        auto& at = instances_[i];
        auto const fenced = tenures_[m.tenure].is.fenced();
        auto const natively = m.counting != counting::by_script;
        auto const by_script = m.op == command::raise || (fenced && sets(m.op) && !natively);
        m.unknown_script = by_script && !m.whole_script && percent(script_losses_);
        if (m.unknown_script) return true;
        if (one_in(4)) at.earlier = at.has;
        if (m.sets_key) {
            m.said = grant_without_number(i, m);
        } else if (natively) {
            count(i, m);
        } else if (fenced && sets(m.op)) {
            m.said = acquire_with_number(i, m);
        } else if (m.op == command::inspect || m.op == command::track) {
            m.said = at.has.is_of(m.tenure) ? verdict::yes : verdict::no;
        } else {
            auto const done = carry_out(at.has, m.op, m.tenure, never);
            m.said = done.said;
            if (done.changed && sets(m.op)) will_expire(i, m.tenure);
            if (m.op == command::raise) raise(i, m);
        }
        return true;
    }

    void raise(unsigned i, message& m) {
        if (m.said != verdict::yes) return;
        auto& has = instances_[i].has;
        auto const lifts = has.counter < m.number || !Parts::raise_lifts;
        if (!lifts) ++seen_.moved;
        m.said = lifts ? verdict::yes : verdict::rival;
        if (Parts::raise_stores) has.counter = std::max(has.counter, m.number);
        most_ = std::max(most_, has.counter);
        write_story("instance ", i, " is raised to ", m.number, " for ", m.tenure, " and has ",
                    has.counter);
    }

    static bool sets(command c) {
        return c == command::acquire || c == command::contend || c == command::heal;
    }

    void will_expire(unsigned i, unsigned t) {
        if (calm_) return;
        // The key expires much too early, or at its time by a clock other than the client's.
        auto const early = percent(expiry_);
        at(early ? some(delay_ * 6) : ttl_ / 2 + some(ttl_), [this, i, t] { expire(i, t); });
    }

    verdict grant_without_number(unsigned i, message const& m) {
        auto& at = instances_[i];
        auto const done = carry_out(at.has, m.op, m.tenure, never);
        if (done.changed) will_expire(i, m.tenure);
        return at.set[m.tenure] = done.said;
    }

    /// ZADD GT, and XX if the counter is known to be there. Counts for whoever asks.
    void count(unsigned i, message& m) {
        auto& at = instances_[i];
        auto& has = at.has;
        auto const there = has.counter != 0 || m.counting == counting::renewed;
        auto const lifts = there && (has.counter < m.number || !Parts::count_lifts);
        if (lifts) has.counter = std::max(has.counter, m.number);
        most_ = std::max(most_, has.counter);
        auto const set = at.set.find(m.tenure);
        m.said = set == at.set.end() ? verdict::unknown : set->second;
        if (m.said != verdict::yes && lifts) ++seen_.counted_for_others;
        if (m.said == verdict::yes && lifts) ++seen_.counted;
        if (m.said == verdict::yes && lifts && !has.is_of(m.tenure)) ++seen_.counted_late;
        m.not_counted = m.said == verdict::yes && !lifts;
        write_story("instance ", i, lifts ? " counts to " : " does not count to ", m.number,
                    " for ", m.tenure, " and has ", has.counter,
                    has.is_of(m.tenure) ? "" : " though the key is not its own");
        if (at.forgot && m.said == verdict::yes) ++seen_.forgetful_grants;
    }

    verdict acquire_with_number(unsigned i, message& m) {
        auto& at = instances_[i];
        auto& has = at.has;
        auto const ours = has.is_of(m.tenure);
        if (has.holder != nobody && !ours) return verdict::no;
        auto const next =
            next_number(has.counter, m.number, static_cast<double>(now() + at.off) / 1'000'000,
                        Parts::counts_up ? 1 : 0);
        switch (next.how) {
        case numbering::exhausted:
            ++seen_.exhausted;
            return verdict::refused;
        case numbering::hint_ignored:
            ++seen_.hints_ignored;
            break;
        case numbering::hint_behind:
            ++seen_.hints_behind;
            break;
        case numbering::hinted:
            break;
        }
        has.counter = next.number;
        most_ = std::max(most_, next.number);
        if (at.forgot) ++seen_.forgetful_grants;
        if (!ours) {
            carry_out(has, m.op, m.tenure, never);
            will_expire(i, m.tenure);
        }
        write_story("instance ", i, m.op == command::heal ? " is healed by " : " grants to ",
                    m.tenure, " with hint ", m.number, " the number ", next.number);
        m.number = next.number;
        return verdict::yes;
    }

    //
    // A client
    //

    void start(unsigned c) override {
        auto& me = clients_[c];
        if (me.attempts_left == 0) return;
        --me.attempts_left;
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({c,
                            {size(), std::chrono::microseconds(ttl_), false,
                             std::chrono::microseconds(ttl_ / 3)}});
        ++seen_.tenures;
        auto& its = tenures_.back();
        its.began = lease_clock(c);
        if (!percent(unfenced_)) {
            its.hint_of = wall_clock(c);
            auto const hint = protocol::fence_hint(std::chrono::milliseconds(its.hint_of / ms));
            its.is.number_from(me.known.next(only_key, hint, its.began));
        }
        me.current = static_cast<int>(t);
        ticks pause = 0;
        if (percent(stops_)) {
            ++seen_.stale_hints;
            pause = some(a_while());
        }
        on_tenure_after(pause, t, [this](unsigned of) { ask(of); });
    }

    void ask(unsigned t) {
        auto& its = tenures_[t];
        auto const c = its.client;
        its.asked_at = now();
        its.floor = greatest_;
        while (percent(faults_)) plan_fault();
        on_tenure_after(calm_ ? patience_ * 100 : delay_ + some(patience_), t,
                        [this](unsigned of) { cancel(of); });
        if (!calm_) on_tenure_after(some(patience_), t, [this](unsigned of) { on_time(of); });
        auto const there = reachable(c);
        auto const asked = given_.hint_within ? its.began : lease_clock(c);
        write_story("client ", c, " begins ", t,
                    its.is.fenced() ? " with hint " : " without fence ", its.is.number(),
                    ", greatest fence ", greatest_ / protocol::leases_per_number);
        if (!there.empty() && percent(contends_)) {
            its.at_arbiter = true;
            auto arbiter = static_cast<unsigned>(below(instances_.size()));
            while (!there.contains(arbiter)) arbiter = (arbiter + 1) % size();
            return apply(t, its.is.contend(asked, arbiter));
        }
        apply(t, its.is.acquire(asked, there));
    }

    void ask_rest(unsigned t) {
        auto& its = tenures_[t];
        --its.awaited;
        if (its.is.phase() != phase::acquiring) return;
        apply(t, its.is.ask_rest(lease_clock(its.client), reachable(its.client)));
    }

    void pass_on(unsigned i, message const& m) {
        auto& its = tenures_[m.tenure];
        auto const acquiring = its.is.phase() == phase::acquiring;
        auto const raising = acquiring && its.rounds != 0;
        auto const before = its.is.number();
        auto v = m.said;
        auto round = m.round;
        if (m.op == command::acquire || m.op == command::contend || m.op == command::raise) {
            --its.awaited;
        }
        if (m.op == command::raise) {
            if (!Parts::doubts_silence && v == verdict::unknown) v = verdict::yes;
            if (acquiring && v == verdict::no) ++seen_.raises_denied;
            if (acquiring && v == verdict::unknown) ++seen_.raises_unknown;
            if (acquiring && v == verdict::yes && round != its.is.round_number())
                ++seen_.stale_raises;
            if (!Parts::tells_round) round = its.is.round_number();
        }
        auto const number = v == verdict::yes ? m.number : 0;
        auto const action = its.is.answer(m.op, round, i, v, lease_clock(its.client), number);
        if (raising && m.op == command::acquire && v == verdict::yes && its.is.number() > before) {
            ++seen_.lifted;
            ++its.lifts;
        }
        if (m.op == command::raise && action.effect != tenure_effect::none &&
            action.effect != tenure_effect::won) {
            ++seen_.ended_by_raise;
        }
        if (raising && its.is.phase() == phase::acquiring && !its.is.votes().won())
            its.undecided = true;
        apply(m.tenure, action);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& its = tenures_[t];
        if (!a.raise.empty()) {
            ++seen_.raises;
            ++its.rounds;
            write_story(t, " raises to ", its.is.number(), ": ", text(a.raise));
        }
        seen_.healed += a.heal.size();
        send_all(a, its.is.round_number(), [&](unsigned i, command op, std::uint32_t round) {
            submit(t, i, op, round);
            if (op == command::raise && percent(expiry_ / 2))
                at(some(delay_ * 2), [this, i, t] { expire(i, t); });
        });
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::inspected: // no client inspects
        case tenure_effect::extension_failed:
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            break;
        case tenure_effect::arbiter_won:
            ++its.awaited;
            if (percent(stops_)) {
                on_tenure_after(some(a_while()), t, [this](unsigned of) { ask_rest(of); });
            } else {
                ask_rest(t);
            }
            break;
        case tenure_effect::won:
            on_won(t);
            break;
        case tenure_effect::extended:
            ++seen_.extended;
            break;
        case tenure_effect::lost:
            ++seen_.lost;
            if (its.is.phase() != protocol::tenure_phase::ending) end(t);
            break;
        case tenure_effect::ended:
            end(t);
            break;
        case tenure_effect::contended:
        case tenure_effect::no_quorum:
        case tenure_effect::expired:
        case tenure_effect::cancelled:
        case tenure_effect::arbiter_refused:
        case tenure_effect::arbiter_failed:
            end(t);
            break;
        }
    }

    void on_won(unsigned t) {
        auto& its = tenures_[t];
        its.won = true;
        if (its.is.fenced()) {
            ++seen_.won;
            if (its.at_arbiter) ++seen_.won_at_arbiter;
            if (its.rounds != 0) ++seen_.won_by_raise;
            if (its.lifts != 0) ++seen_.won_after_lift;
            if (its.undecided) ++seen_.saved_by_late_grant;
            write_story("client ", its.client, " has won ", t, " with ", its.is.number());
            clients_[its.client].known.won(only_key, its.is.numbering().plan(), its.is.number(),
                                           its.began);
            issue(t);
        } else {
            ++seen_.won_unfenced;
        }
        if (calm_) check_cost(its);
        auto const hold = some(one_in(3) ? ttl_ : delay_ * 10);
        if (!calm_) {
            for (auto n = below(3); n > 0; --n)
                on_tenure_after(some(hold), t, [this](unsigned of) { extend(of); });
            if (one_in(3)) on_tenure_after(some(ttl_), t, [this](unsigned of) { on_time(of); });
        }
        for (auto n = below(3); n > 0; --n)
            on_tenure_after(some(hold), t, [this](unsigned of) { hand_over(of); });
        auto const forgets = !calm_ && one_in(8); // the client never releases the key
        on_tenure_after(hold, t, [this, forgets](unsigned of) { forgets ? end(of) : release(of); });
    }

    /// Gives a lease, and checks its fence.
    void issue(unsigned t) {
        auto& its = tenures_[t];
        if (!protocol::is_fence_count(its.is.number()))
            return fail("S2", "a number that no tenure may have");
        auto const fence = protocol::fence_of(its.is.number(), its.handovers);
        if (std::find(issued_.begin(), issued_.end(), fence) != issued_.end()) {
            fail("S2", "two leases have the same fence");
        }
        if (fence <= its.floor) fail("S2", "a later lease has a smaller fence");
        issued_.push_back(fence);
        greatest_ = std::max(greatest_, fence);
    }

    /// Checks the duration and the raises of an undisturbed acquire.
    void check_cost(tenure_state const& its) {
        using calmness = fence_conditions::calmness;
        auto const round_trip = 2 * (delay_ + 1);
        auto const asks = its.at_arbiter && instances_.size() > 1 ? 2 : 1;
        if (given_.calm == calmness::good_clocks && its.rounds + its.recounts != 0)
            fail("L1", "a raise or a count that is of no use");
        if (its.is.round_number() > 1 + its.lifts) fail("L1", "more raises than numbers");
        auto const raises = its.rounds != 0 ? 1 : 0;
        auto const recounts = its.recounts != 0 ? 1 : 0;
        if (now() - its.asked_at > (asks + raises + recounts) * round_trip)
            fail("L1", "more round trips than one for a raise, and one for a count");
    }

    void hand_over(unsigned t) {
        auto& its = tenures_[t];
        if (its.over || its.is.phase() != phase::held || !its.is.fenced()) return;
        ++seen_.handovers;
        ++its.handovers;
        issue(t);
    }

    void on_time(unsigned t) {
        auto& its = tenures_[t];
        if (its.over) return;
        apply(t, its.is.time(lease_clock(its.client)));
    }

    void extend(unsigned t) {
        auto& its = tenures_[t];
        if (its.over || its.is.phase() != phase::held || its.is.extending()) return;
        apply(t, its.is.extend(lease_clock(its.client), reachable(its.client)));
    }

    void release(unsigned t) {
        auto& its = tenures_[t];
        if (its.over || its.is.phase() != phase::held) return;
        ++seen_.released;
        // The turn of the client ends here, whatever the answers to the release say.
        auto const action = its.is.release(lease_clock(its.client), reachable(its.client));
        end(t);
        apply(t, action);
    }

    void cancel(unsigned t) {
        auto& its = tenures_[t];
        if (its.over || its.is.phase() != phase::acquiring) return;
        if (its.awaited == 0) return fail("L3", "an acquire waits for what nobody will answer");
        if (its.rounds != 0) ++seen_.cancelled_in_raise;
        apply(t, its.is.cancel());
    }

    void end(unsigned t) {
        auto& its = tenures_[t];
        if (std::exchange(its.over, true)) return;
        auto& me = clients_[its.client];
        if (me.current != static_cast<int>(t)) return;
        me.current = nobody;
        auto rest = one_in(3) ? delay_ * 20 : delay_ * 2;
        if (given_.forgetful != 0 && one_in(3)) rest = error_;
        if (!given_.fresh_hints && one_in(2)) rest = long_;
        at(1 + some(rest), me, [this, c = its.client] { start(c); });
    }

    static constexpr ticks never =
        std::numeric_limits<ticks>::max(); ///< events expire keys, not time

    std::vector<tenure_state> tenures_;
    std::vector<std::uint64_t> issued_;
    std::uint64_t greatest_ = 0; ///< the greatest fence of any lease
};

} // namespace holdfast::test

#endif
