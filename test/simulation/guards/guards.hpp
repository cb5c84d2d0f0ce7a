// A world in which instances break the assumptions of Redlock, and guards detect that.
//
// Instances restart as new processes that have forgotten everything, the last second, or nothing.
// They are flushed, or become replicas for a while and then have another server's data. Their wall
// clocks jump, which expires keys. An instance announces flushes and replaced data to its connected
// clients. A client's machine can stand still, together with its clock.
//
// Each client has the real restart guard, clock guard and quarantine for each instance, and uses
// them as redis::vote_guard does:
//  - On each connection it asks for the server's identity and time before anything else counts.
//  - It asks for the time every second, like a client that has something to send. An idle client
//    asks less often, and before its next command.
//  - A grant of a quarantined instance does not count, and is given back. New rounds skip the
//    instance, but extensions, releases and heals go to it.
//
// Properties:
//   S1      no two leases are valid at once, each by its holder's clock (see doc/guarantees.md).
//           If clocks of servers jump, this is checked for
//           - two leases whose grants came before any jump that their clients did not know,
//           - and any two leases, if the client of one knew of all jumps when it asked, and no
//             jump has come since.
//           If clocks of clients stand still, this is checked for leases whose clients have
//           noticed each standstill;
//   alarm   a clock that only drifts never counts as jumped, however slow the answers are;
//   ours    the next server check notices a standstill of a client's clock, and no instance is in
//           quarantine for it;
//   theirs  jumps of servers' clocks do not count as a standstill, if there is an instance whose
//           clock did not jump;
//   notice  the next server check notices a jump without another explanation, and comes in time;
//   live    a free and wanted key is had, once the last restart is longer ago than the longest
//           ttl, or while only a minority is in quarantine. It is not had while a majority is.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_GUARDS_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_GUARDS_HPP

#include "protocol/rules.hpp"
#include "protocol/server/standstill.hpp"
#include "protocol/tenure/tenure.hpp"

#include "simulation/guards/plan.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast::test {

template <class Guards>
class guarded_world : guarded_plan {
public:
    guarded_world(std::uint64_t seed, guards_tally& seen, guards_setup const& setup,
                  std::ostream* story = nullptr)
        : guarded_plan(seed, seen, setup, story) {}

    /// Returns the violated property with the reason, or an empty string.
    std::string run() {
        while (!done_ && happens()) {
        }
        if (violation().empty() && !done_) fail("live", "the schedule ended before it was done");
        return violation();
    }

private:
    //
    // Connections
    //

    void on_broken(unsigned c, unsigned i, unsigned epoch) override {
        auto& conn = clients_[c].connections[i];
        if (conn.session >= epoch) return; // a newer connection exists
        conn.up = false;
        conn.probed = false;
        conn.asking = false;
        check_clock(c);
        lose(c, i);
        for (auto& m : std::exchange(conn.waiting, {})) {
            if (!m.answered) pass_on(m, i, verdict::unsent);
        }
    }

    void on_silence(unsigned c, unsigned i, message& m) override {
        auto& conn = clients_[c].connections[i];
        if (!m.answered) pass_on(m, i, verdict::unknown);
        if (!conn.up && m.op == command::release) conn.pending.push_back({m.tenure, now()});
    }

    //
    // The wire
    //

    void start(unsigned c) override {
        clients_[c].alive = true;
        for (unsigned i = 0; i < instances_.size(); ++i) connect(c, i);
        at(some(max_ttl_ / 8), clients_[c], [this, c] { start_acquire(c); });
    }

    void on_reconnected(unsigned c, unsigned i) override { connect(c, i); }

    void connect(unsigned c, unsigned i) {
        auto& conn = clients_[c].connections[i];
        if (now() < instances_[i].down_until)
            return reconnect_after(c, i, instances_[i].down_until - now() + travel());
        on_broken(c, i, conn.epoch); // the client may not have heard of the break yet
        conn.session = conn.epoch;
        conn.last_arrival = conn.last_reply = now();
        send(c, i, question(c, ask::probe));
    }

    message question(unsigned c, ask about) const {
        message m;
        m.votes = false;
        m.question = about;
        m.sent = local(c);
        return m;
    }
    static message vote(unsigned tenure, command op, std::uint32_t round = 0) {
        message m;
        m.tenure = tenure;
        m.op = op;
        m.round = round;
        return m;
    }

    void submit(unsigned t, unsigned i, command op, std::uint32_t round) {
        auto const c = tenures_[t].client;
        auto& conn = clients_[c].connections[i];
        if (!conn.available()) {
            if (op == command::release) conn.pending.push_back({t, now()});
            return;
        }
        auto m = vote(t, op, round);
        if (conn.probed && !holds(c, i)) return send(c, i, m);
        m.serial = ++waited_;
        conn.waiting.push_back(m);
        at(real(timeout_, clients_[c].ppm), clients_[c], [this, c, i, m] {
            auto& at = clients_[c].connections[i];
            if (std::erase_if(at.waiting, [&](auto const& w) { return w.serial == m.serial; }) == 0)
                return;
            pass_on(m, i, verdict::unsent);
            if (m.op == command::release)
                clients_[c].connections[i].pending.push_back({m.tenure, now()});
        });
    }

    void send(unsigned c, unsigned i, message const& m) {
        auto const serial = transmit(c, i, m);
        if (m.answered || m.question == ask::probe) return;
        at(real(timeout_, clients_[c].ppm), clients_[c], [this, c, i, serial] {
            if (is_awaited(c, i, serial) && clients_[c].connections[i].probed) become_suspect(c, i);
        });
    }

    void send_pending(unsigned c, unsigned i) {
        for (auto const& k : std::exchange(clients_[c].connections[i].pending, {})) {
            auto m = vote(k.tenure, command::release);
            m.answered = true;
            send(c, i, m);
        }
    }

    void become_suspect(unsigned c, unsigned i) {
        clients_[c].connections[i].suspect = true;
        check_clock(c);
        give_up_answers(c, i);
    }

    void on_reply(unsigned c, unsigned i, message& m) override {
        auto& conn = clients_[c].connections[i];
        if (m.pushed) {
            if (Guards::hears() && conn.restarts.emptied()) doubt(c, i, max_ttl_);
            return;
        }
        if (m.question == ask::probe) return on_probed(c, i, m);
        if (std::exchange(conn.suspect, false)) send_pending(c, i);
        if (m.question == ask::check) {
            conn.asking = false;
            on_time_told(c, i, m);
            if (m.replica) return leave_replica(c, i);
            if (Guards::doubts_later(conn.restarts, m.origin)) doubt(c, i, max_ttl_);
            return;
        }
        if (!m.answered) pass_on(m, i, m.said);
        if (m.said != verdict::refused) return;
        ++seen_.refused_by_replica;
        leave_replica(c, i);
    }

    /// The instance is a replica, so the client connects again later.
    void leave_replica(unsigned c, unsigned i) {
        clients_[c].connections[i].restarts.is_replica();
        break_connection(c, i, travel());
    }

    //
    // The guards, as redis::vote_guard uses them
    //

    void doubt(unsigned c, unsigned i, duration for_how_long) {
        ++seen_.doubted;
        if (doubted(c, i)) ++seen_.prolonged;
        clients_[c].connections[i].doubted.begin(local(c), for_how_long);
    }

    void on_probed(unsigned c, unsigned i, message const& m) {
        auto& conn = clients_[c].connections[i];
        on_time_told(c, i, m);
        if (m.replica) return leave_replica(c, i);
        if (Guards::doubts(conn.restarts, m.origin))
            doubt(c, i, Guards::doubted_for(max_ttl_, m.uptime));
        if (setup_.aged) check_ages(c, i, m.uptime);
        conn.run_seen = m.origin.run;
        conn.probed = true;
        conn.up = true;
        conn.suspect = false;
        send_pending(c, i);
        for (unsigned x = 0; x < instances_.size(); ++x) {
            auto& other = clients_[c].connections[x];
            if (!other.probed || holds(c, x)) continue;
            for (auto const& w : std::exchange(other.waiting, {})) send(c, x, w);
        }
        check_later(c, i, conn.session);
    }

    // As runtime::engine and redis::vote_guard do.
    void check_ages(unsigned c, unsigned i, duration uptime) {
        auto& me = clients_[c];
        auto const seconds = uptime / std::chrono::seconds(1);
        auto const start = protocol::latest_start(local(c), seconds);
        if (!start) return fail("ages", "an uptime is no number");
        auto& its = me.connections[i];
        if (its.start == protocol::time_point{}) me.ages.on_age(*start, local(c));
        its.start = *start;
        if (!Guards::compares_ages() || !me.ages.some_old()) return;
        for (unsigned x = 0; x < instances_.size(); ++x) {
            if (!is_young(c, x)) continue;
            auto& conn = me.connections[x];
            conn.restarts.distrust();
            conn.doubted.extend(conn.start + max_ttl_);
            ++seen_.doubted;
            ++seen_.found_by_age;
        }
    }
    bool is_young(unsigned c, unsigned i) const {
        auto const& conn = clients_[c].connections[i];
        return conn.restarts.trusted_at_first_sight() &&
               protocol::is_young(conn.start, local(c), max_ttl_);
    }
    /// True if commands wait because another instance has not told its age. The client of
    /// production waits for a limited time.
    bool holds(unsigned c, unsigned i) const {
        auto const& all = clients_[c].connections;
        return setup_.aged && Guards::awaits_ages() && is_young(c, i) &&
               std::any_of(all.begin(), all.end(), [](auto const& x) { return !x.probed; });
    }

    void check_later(unsigned c, unsigned i, unsigned session) {
        at(real(check_period, clients_[c].ppm), [this, c, i, session] {
            if (clients_[c].connections[i].session != session || done_) return;
            on_client(c, [this, c, i, session] {
                auto& conn = clients_[c].connections[i];
                if (conn.session != session || !conn.probed) return;
                if (conn.available() && !std::exchange(conn.asking, true)) {
                    send(c, i, question(c, ask::check));
                }
                check_later(c, i, session);
            });
        });
    }

    void on_time_told(unsigned c, unsigned i, message const& m) {
        auto& conn = clients_[c].connections[i];
        auto const received = local(c);
        // The client was away for longer than the guard allows drift to add up.
        if (conn.was_told && received - conn.last_asked > max_ttl_) conn.absent = true;
        auto const jumped = conn.clock.on_time(m.sent, received, m.shown);
        if (Guards::checks_jumps()) conn.clock_doubt.observed(received, jumped > duration::zero());
        if (received - m.sent > std::chrono::seconds(5)) ++seen_.slow_checks;
        auto const offset_then = m.shown - duration(stretched(m.executed, instances_[i].ppm));
        if (jumped > duration::zero()) {
            ++seen_.alarms;
            if (setup_.slow && !conn.absent)
                fail("alarm", "a clock that never jumped is said to have");
            conn.known_until = m.executed;
            conn.absent = false;
            if (Guards::checks_jumps()) {
                ++seen_.doubted;
                conn.in_doubt_until =
                    std::max(conn.in_doubt_until,
                             received + Guards::in_doubt_for(max_ttl_, conn.clock.last().most));
            }
        } else if (conn.was_told && clients_[c].stops.empty() && !misread_) {
            // The delays of the two checks, and drift, may hide a jump of this size.
            auto const between_checks = received - conn.last_asked;
            auto const open =
                (conn.last_told - conn.last_asked) + (received - m.sent) +
                protocol::redlock_rules::drift(std::min<duration>(between_checks, max_ttl_)) +
                between_checks / 100;
            if (offset_then - conn.offset_seen > open)
                fail("notice", "a check was answered after a jump and did not show it");
        }
        conn.was_told = true;
        conn.last_asked = m.sent;
        conn.last_told = received;
        conn.offset_seen = offset_then;
        clients_[c].standstill.observed(i, conn.clock.last());
        check_clock(c);
    }

    // Looks for a standstill as the engine does.
    void check_clock(unsigned c) {
        auto& me = clients_[c];
        if (!me.standstill.has_unexplained_jumps() || !Guards::checks_jumps()) return;
        instance_set there;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (me.connections[i].probed && me.connections[i].available()) there.insert(i);
        }
        me.standstill.to_ask(there).for_each([&](unsigned i) {
            if (std::exchange(me.connections[i].asking, true)) return;
            send(c, i, question(c, ask::check));
        });
        auto const found = me.standstill.evaluate(there);
        auto const stood = me.unnoticed > duration::zero();
        if (found.is_new) {
            ++seen_.moved;
            me.unnoticed = std::max(duration::zero(), me.unnoticed - found.by);
            if (me.current >= 0) {
                tenures_[static_cast<unsigned>(me.current)].machine.clock_stood_still(
                    found.to, Guards::moves(found));
                arm(c);
            }
        }
        if (!Guards::is_ours(found)) return;
        // It may be taken for one later than it is noticed.
        if (!stood && found.is_ours && (found.is_new || me.stops.empty())) {
            ++seen_.misread;
            misread_ = true;
        }
        if (setup_.single || setup_.all_but_one || setup_.away)
            fail("theirs", "a server's jump was taken for a standstill");
        for (unsigned i = 0; i < instances_.size(); ++i) {
            auto& conn = me.connections[i];
            if (found.instances.contains(i)) {
                ++seen_.excused;
                conn.clock_doubt.excuse();
            } else {
                conn.clock.stood_still(found.from, found.to, found.least, found.most);
            }
        }
    }

    //
    // A client
    //

    instance_set voters(unsigned c) {
        auto there = reachable(c);
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (!there.contains(i) || !doubted(c, i)) continue;
            ++seen_.left_out;
            there.erase(i);
        }
        return there;
    }

    void start_acquire(unsigned c) {
        if (now() > horizon_ && !last_) return;
        auto& me = clients_[c];
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({c, {size(), me.ttl, me.renewed}});
        auto& state = tenures_.back();
        me.current = static_cast<int>(t);
        state.began = local(c);
        state.asked = now();
        state.knew_all = knows_all(c);
        if (state.knew_all) ++seen_.known_all;
        apply(t, state.machine.acquire(local(c), voters(c)));
    }

    void pass_on(message const& m, unsigned i, verdict v) {
        auto& state = tenures_[m.tenure];
        auto const c = state.client;
        if (m.op == command::acquire && v == verdict::yes) {
            if (jumped_unknown(c, i, m.executed)) state.blind.insert(i);
            if (doubted(c, i) && !Guards::counts_what_arrives()) {
                ++seen_.uncounted;
                v = verdict::unknown;
            } else if (!Guards::counts_grant(local(c) - state.began, shortest_)) {
                v = verdict::unknown;
            }
        }
        if (m.op == command::heal && v == verdict::yes) state.healed.insert(i);
        if (m.op == command::extend && v == verdict::yes) {
            if (doubted(c, i) && !Guards::counts_extensions()) v = verdict::unknown;
            if (std::exchange(state.round, m.round) != m.round) state.extended = {};
            if (v == verdict::yes) state.extended.insert(i);
        }
        auto const was_held = state.machine.phase() == phase::held;
        auto const deadline = state.machine.deadline();
        auto const action = state.machine.answer(m.op, m.round, i, v, local(c));
        if (action.effect == tenure_effect::extended) {
            instance_set in_doubt;
            state.extended.for_each([&](unsigned x) {
                if (doubted(c, x)) in_doubt.insert(x);
            });
            if ((state.extended - in_doubt).size() < quorum()) ++seen_.kept_by_doubted;
            if ((state.extended - (in_doubt & state.healed)).size() < quorum())
                ++seen_.kept_by_healed;
            if (!was_held || local(c) >= deadline)
                fail("S1", "a lease that had run out was brought back");
        }
        apply(m.tenure, action);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& state = tenures_[t];
        seen_.healed += a.heal.size();
        send_all(a, state.machine.round_number(),
                 [&](unsigned i, command op, std::uint32_t round) { submit(t, i, op, round); });
        switch (a.effect) {
        case tenure_effect::won:
            on_won(t);
            break;
        case tenure_effect::contended:
            ++seen_.contended;
            on_failed(t);
            break;
        case tenure_effect::no_quorum:
            ++seen_.no_quorum;
            on_failed(t);
            break;
        case tenure_effect::expired:
        case tenure_effect::cancelled:
            on_failed(t);
            break;
        case tenure_effect::extended:
            ++seen_.extended;
            break;
        case tenure_effect::lost:
            if (state.over) break;
            ++seen_.lost;
            if (state.machine.phase() == phase::ending) break;
            state.over = true;
            next(state.client);
            break;
        case tenure_effect::ended:
            if (!std::exchange(state.over, true)) next(state.client);
            break;
        case tenure_effect::released:
            ++seen_.released;
            break;
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::inspected: // no client inspects
        case tenure_effect::arbiter_won:
        case tenure_effect::arbiter_refused:
        case tenure_effect::arbiter_failed:
        case tenure_effect::extension_failed:
        case tenure_effect::release_unconfirmed:
            break;
        }
        arm(state.client);
    }

    void on_won(unsigned t) {
        ++seen_.won;
        auto& state = tenures_[t];
        auto const c = state.client;
        state.won_blind = !(state.machine.votes().yes() & state.blind).empty();
        for (auto const& other : clients_) {
            if (other.current >= 0 && other.current != static_cast<int>(t)) {
                check_overlap(state, tenures_[static_cast<unsigned>(other.current)]);
            }
        }
        auto const beside = instance_set::first(size()) - voters(c);
        if (!beside.empty()) ++seen_.won_beside;
        if (last_) return on_last_try(t, true);
        auto const hold = one_in(2) ? some(max_ttl_ * 2) : some(max_ttl_ / 8);
        if (one_in(3)) at(some(clients_[c].ttl / 2), clients_[c], [this, t] { extend(t); });
        at(hold, clients_[c], [this, t] { release(t); });
    }

    void check_overlap(tenure_state const& mine, tenure_state const& other) {
        if (!held(other)) return;
        auto const surprised = [this](tenure_state const& t) {
            return clients_[t.client].unnoticed > duration::zero();
        };
        if (surprised(mine) || surprised(other) || misread_) {
            ++seen_.blind_overlaps;
            return;
        }
        auto const undisturbed = [this](tenure_state const& t) {
            return t.knew_all && (!last_jump_ || *last_jump_ < t.asked);
        };
        if (!last_jump_) return fail("S1", "two leases are valid at once");
        if (undisturbed(mine) || undisturbed(other)) {
            return fail("S1", "beside a lease whose client knew of all jumps another is valid");
        }
        if (!mine.won_blind && !other.won_blind) {
            return fail("S1",
                        "two leases are valid at once, and none was granted after an unknown jump");
        }
        ++seen_.blind_overlaps;
    }

    void on_failed(unsigned t) {
        tenures_[t].over = true;
        if (last_) return on_last_try(t, false);
        next(tenures_[t].client);
    }

    void extend(unsigned t) {
        auto& state = tenures_[t];
        if (state.over || state.machine.phase() != phase::held || state.machine.extending()) return;
        begin_extension(t);
    }

    void begin_extension(unsigned t) {
        auto& state = tenures_[t];
        apply(t, state.machine.extend(local(state.client), reachable(state.client)));
    }

    void release(unsigned t) {
        auto& state = tenures_[t];
        if (state.over) return;
        state.over = true;
        apply(t, state.machine.release(local(state.client), reachable(state.client)));
        next(state.client);
    }

    void next(unsigned c) {
        clients_[c].current = nobody;
        at(1 + some(one_in(2) ? max_ttl_ / 50 : max_ttl_ / 8), clients_[c],
           [this, c] { start_acquire(c); });
    }

    void arm(unsigned c) {
        auto& me = clients_[c];
        if (me.current == nobody) return network::arm(me, std::nullopt, local(c), [] {});
        auto const t = static_cast<unsigned>(me.current);
        network::arm(me, tenures_[t].over ? std::nullopt : tenures_[t].machine.wake(), local(c),
                     [this, c, t] { on_time(c, t); });
    }

    void on_time(unsigned c, unsigned t) {
        auto& state = tenures_[t];
        auto const action = state.machine.time(local(c));
        if (action.effect == tenure_effect::renewal_due) return begin_extension(t);
        apply(t, action);
    }

    //
    // The end: when all is quiet, each client acquires once, in turn
    //

    enum class finale : std::uint8_t {
        all_well,
        minority_doubted,
        majority_doubted,
        well_again
    };

    /// The time until the last event was noticed and its consequences are over.
    true_time until_trusted() const {
        return (max_ttl_ + max_ttl_ / 50).count() + 2 * check_period.count() +
               100 * delay_.count() + 2 * timeout_.count();
    }

    void await_quiet() override {
        // Earlier leases may be held for twice the longest ttl.
        auto const quiet = std::max(quiet_at_, horizon_ + 2 * max_ttl_.count()) + until_trusted();
        if (setup_.slow || setup_.long_rounds || setup_.single || setup_.all_but_one ||
            setup_.lone_standstill) {
            at(quiet - now(), [this] { done_ = true; });
            return;
        }
        at(quiet - now(), [this] {
            // If a clock was set back and a release was lost, a key can stay for longer.
            if (setup_.jumps)
                std::for_each(instances_.begin(), instances_.end(),
                              [](auto& i) { i.has = content{}; });
            ask_in_turn(finale::all_well);
        });
    }

    void ask_in_turn(finale stage) {
        last_ = stage;
        turn_ = 0;
        take_turn();
    }

    void take_turn() {
        if (turn_ < clients_.size()) return start_acquire(turn_);
        auto const n = static_cast<unsigned>(instances_.size());
        auto const minority = n - quorum();
        auto const doubts = setup_.observed;
        switch (*last_) {
        case finale::all_well:
            if (!doubts || !setup_.restarts || one_in(2)) break;
            for (unsigned i = 0; i < minority; ++i) restart(i, 0, persistence::none);
            return soon(finale::minority_doubted);
        case finale::minority_doubted:
            for (unsigned i = 0; i <= minority; ++i) restart(i, 0, persistence::none);
            return soon(finale::majority_doubted);
        case finale::majority_doubted:
            at(until_trusted(), [this] { ask_in_turn(finale::well_again); });
            return;
        case finale::well_again:
            break;
        }
        done_ = true;
    }

    void soon(finale stage) {
        at(50 * delay_.count(), [this, stage] { ask_in_turn(stage); });
    }

    void on_last_try(unsigned t, bool won) {
        auto const c = tenures_[t].client;
        auto const expected = *last_ != finale::majority_doubted;
        if (won && !expected) fail("live", "a key was had from a majority in quarantine");
        if (!won && expected) {
            fail("live",
                 *last_ == finale::minority_doubted
                     ? "a minority in quarantine made an acquire fail"
                     : "a free key was not had when all had been quiet for the longest ttl");
        }
        auto& state = tenures_[t];
        if (won) {
            ++seen_.final_wins;
            state.machine.votes().yes().for_each([&](unsigned i) {
                if (doubted(c, i)) fail("live", "a vote in quarantine was counted");
            });
            state.over = true;
            apply(t, state.machine.release(local(c), reachable(c)));
        } else {
            ++seen_.final_refusals;
        }
        clients_[c].current = nobody;
        ++turn_;
        at(50 * delay_.count(), [this] { take_turn(); });
    }

    std::optional<finale> last_;
    unsigned turn_ = 0;
    std::uint64_t waited_ = 0; ///< the number of messages that waited for a probe
    bool misread_ = false;     ///< unanimous jumps of servers were taken for a standstill
    bool done_ = false;
};

} // namespace holdfast::test

#endif
