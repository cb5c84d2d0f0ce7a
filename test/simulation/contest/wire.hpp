// The wire of a contest, with scripts, pings and pushes, and instances that track the key.
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_WIRE_HPP

#include "simulation/contest/audit.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace holdfast::test {

class contest_wire : protected contest_audit {
protected:
    using contest_audit::contest_audit;
    ~contest_wire() = default;

    virtual void pass_on(message const& m, unsigned i) = 0;
    virtual void on_unavailable(unsigned p, unsigned i) = 0;
    virtual void on_available(unsigned p) = 0;
    virtual bool is_newcomer(unsigned t) const = 0;
    virtual bool goes_to_front(unsigned p) const = 0;

    //
    // A process
    //

    void submit(unsigned t, unsigned i, command op, std::uint32_t round) {
        auto const p = tenures_[t].process;
        auto& conn = clients_[p].connections[i];
        if (!conn.available()) {
            if (op != command::release) return;
            ++tenures_[t].pending;
            ++seen_.kept;
            conn.pending.push_back({t, now()});
            return;
        }
        ++tenures_[t].pending;
        message m;
        m.tenure = t;
        m.op = op;
        m.round = round;
        if (line_rules_.fair && op == command::acquire) m.newcomer = is_newcomer(t);
        if (line_rules_.fair && op == command::contend) m.front = goes_to_front(p);
        send(p, i, m);
    }

    void send(unsigned p, unsigned i, message m) {
        auto& conn = clients_[p].connections[i];
        m.sent = local();
        if (m.votes) {
            commands_ += m.op == command::contend   ? (instances_[i].tracks ? 3 : 2)
                         : m.op == command::inspect ? 3
                         : m.op == command::track   ? (instances_[i].tracks ? 2 : 1)
                                                    : 1;
        }
        auto const& sent = put_in_flight(p, i, m);
        auto const serial = sent.serial;
        next_arrival(conn);
        if (m.votes && m.op == command::contend) {
            auto first = sent;
            first.first_part = true;
            carry(p, i, first);
            if (one_in(20)) { // the two parts arrive separately
                ++seen_.late_ttls;
                conn.last_arrival += travel();
            }
        }
        carry(p, i, sent);
        if (calm_ || silent_) return;
        at(timeout_.count(), clients_[p], [this, p, i, serial] { on_overdue(p, i, serial); });
    }

    void ping(unsigned p, unsigned i) {
        auto const& me = clients_[p];
        if (!me.alive || !me.connections[i].available()) return;
        message m;
        m.votes = false;
        send(p, i, m);
    }

    void on_overdue(unsigned p, unsigned i, std::uint64_t serial) {
        auto& conn = clients_[p].connections[i];
        if (!conn.available() || in_flight(p, i, serial) == nullptr) return;
        ++seen_.suspects;
        progress();
        conn.suspect = true;
        at(3 * timeout_.count(), clients_[p], [this, p, i, epoch = conn.epoch] {
            auto const& still = clients_[p].connections[i];
            if (still.suspect && still.epoch == epoch) cut(p, i, travel());
        });
        on_unavailable(p, i);
        give_up_answers(p, i);
    }

    void on_silence(unsigned p, unsigned i, message& m) override {
        auto& conn = clients_[p].connections[i];
        if (!m.answered) pass_on(m, i);
        if (conn.up) return;
        if (m.op == command::release) {
            ++seen_.kept;
            conn.pending.push_back({m.tenure, now()});
        } else {
            finished(m.tenure);
        }
    }

    void send_pending(unsigned p, unsigned i, bool new_session) {
        auto& conn = clients_[p].connections[i];
        for (auto const& k : std::exchange(conn.pending, {})) {
            auto const ttl = tenures_[k.tenure].machine.ttl();
            auto const gone =
                std::max(k.since, conn.ended) + (ttl + protocol::redlock_rules::drift(ttl)).count();
            if (new_session && gone <= now()) {
                finished(k.tenure);
                continue;
            }
            message m;
            m.tenure = k.tenure;
            m.op = command::release;
            m.answered = true;
            send(p, i, m);
        }
    }

    // Breaks a connection. Messages under way are lost, and the instance forgets its promise to
    // push.
    void cut(unsigned p, unsigned i, true_time span) {
        progress();
        auto& me = clients_[p];
        if (!me.alive) return;
        auto& conn = me.connections[i];
        ++seen_.disconnects;
        sever(p, i);
        reconnect_after(p, i, span);
        if (!conn.up) return;
        conn.up = conn.suspect = false;
        on_unavailable(p, i);
        lose(p, i);
    }

    void on_reconnected(unsigned p, unsigned i) override {
        auto& me = clients_[p];
        if (!me.alive) return;
        auto const& at = instances_[i];
        if (now() < at.frozen_until) return reconnect_after(p, i, at.frozen_until - now());
        progress();
        connected(me.connections[i]);
        send_pending(p, i, true);
        on_available(p);
    }

    // A command has been answered, or will never be carried out.
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    //
    // An instance
    //

    // An access to an expired key removes it, and the instance tells all listeners.
    void expire_key(unsigned i) {
        if (!instances_[i].expire(now())) return;
        ++seen_.expiries;
        written(i, nobody);
    }

    // The client that changes the key gets no push. The instance forgets its promise to that client
    // too.
    void written(unsigned i, int by) {
        auto& at = instances_[i];
        ++at.version;
        for (auto const p : std::exchange(at.listeners, {})) {
            if (static_cast<int>(p) != by) push(p, i);
        }
        if (at.has.holder < 0) return;
        auto const late = 34'000'000 + some(68'000'000);
        at_leisure(at.has.expires - now() + late,
                   [this, i, version = at.version] { on_expiry(i, version); });
    }
    // The instance removes an expired key that no client has accessed.
    void on_expiry(unsigned i, std::uint64_t version) {
        auto& at = instances_[i];
        if (at.version != version) return;
        if (now() >= at.frozen_until) return expire_key(i);
        at_leisure(at.frozen_until - now(), [this, i, version] { on_expiry(i, version); });
    }

    void push(unsigned p, unsigned i) {
        message m;
        m.pushed = true;
        answer(p, i, m);
    }

    bool execute(unsigned p, unsigned i, message& m, bool /*ghost*/) override {
        auto& conn = clients_[p].connections[i];
        if (!m.votes) return true;
        if (m.first_part) {
            conn.set =
                line_rules_.fair ? ask_line(p, i, m) : perform(p, i, m.tenure, command::acquire);
            return false;
        }
        switch (m.op) {
        case command::contend:
            line_rules_.fair ? sign_up(p, i, m) : read(p, i, m);
            m.said = conn.set;
            break;
        case command::track:
            read(p, i, m);
            m.said = verdict::yes;
            break;
        case command::inspect:
            expire_key(i);
            m.said = verdict::yes;
            break;
        case command::release:
            m.no_script = !instances_[i].scripts && !m.whole;
            if (m.no_script) break;
            [[fallthrough]];
        default:
            m.said = line_rules_.fair ? perform_fairly(p, i, m) : perform(p, i, m.tenure, m.op);
        }
        return true;
    }

    void read(unsigned p, unsigned i, message& m) {
        expire_key(i);
        auto& at = instances_[i];
        if (at.tracks) at.listeners.insert(p);
        m.tracked = at.tracks;
        m.pttl = at.has.holder == nobody     ? -2
                 : at.has.holder == stranger ? -1
                                             : (at.has.expires - now()) / 1'000'000;
    }

    //
    // The line of a fair key: see redis/wire/kinds/fair_key.cpp
    //

    std::deque<instance::entry>& line_of(unsigned i) {
        auto& at = instances_[i];
        if (now() >= at.line_expires) at.line.clear();
        return at.line;
    }
    bool is_ours(unsigned i, unsigned t) const {
        auto const& has = instances_[i].has;
        return has.holder >= 0 && has.token == token_of(t);
    }
    void set_key(unsigned i, unsigned t, int by) {
        auto& at = instances_[i];
        at.has.holder = static_cast<int>(t);
        at.has.token = token_of(t);
        at.has.reserved = false;
        at.has.expires = now() + real(tenures_[t].machine.ttl(), at.ppm);
        written(i, by);
    }
    /// Gives the key to the first in line who is not `t`. False if there is none.
    bool call_next(unsigned i, unsigned t, int by) {
        auto& line = line_of(i);
        auto& at = instances_[i];
        while (!line.empty() && line.front().token == token_of(t)) line.pop_front();
        if (line.empty()) return false;
        auto const first = line_rules_.calls_in_order ? line.begin() : std::prev(line.end());
        auto const next = *first;
        line.erase(first);
        ++seen_.calls;
        at.has.holder = at.has.token = next.token;
        at.has.reserved = true;
        at.has.expires = now() + next.reserve;
        at.called[next.token] = at.has.expires;
        written(i, by);
        auto const told = at.registered.find(next.token);
        if (told == at.registered.end()) return true;
        auto const p = told->second;
        at.registered.erase(told);
        if (static_cast<int>(p) == by) return true;
        message m;
        m.pushed = true;
        m.turn = next.token;
        answer(p, i, m);
        return true;
    }

    verdict ask_line(unsigned p, unsigned i, message const& m) {
        expire_key(i);
        auto& at = instances_[i];
        auto const by = static_cast<int>(p);
        auto const taken = at.has.holder != nobody && !is_ours(i, m.tenure);
        auto const first = !line_of(i).empty() && line_of(i).front().token == token_of(m.tenure);
        if (!taken && first) line_of(i).pop_front();
        if (!taken && (first || is_ours(i, m.tenure) || !call_next(i, m.tenure, by))) {
            set_key(i, m.tenure, by);
            return verdict::yes;
        }
        auto& line = line_of(i);
        auto const token = token_of(m.tenure);
        auto const stands =
            std::any_of(line.begin(), line.end(), [&](auto const& e) { return e.token == token; });
        instance::entry const mine{token, reservation().count(), p,
                                   clients_[p].connections[i].epoch};
        // A release is late where the server did not know its script.
        auto const own = [&](auto const& e) { return e.process == p && e.epoch == mine.epoch; };
        if (!stands && !at.forgot_scripts && std::any_of(line.begin(), line.end(), own))
            fail("line", "a process has left a place in line behind");
        if (!stands && m.front) line.push_front(mine);
        if (!stands && !m.front) line.push_back(mine);
        at.line_expires = now() + (protocol::waiting_rules::stays_in_line + reservation()).count();
        clients_[p].connections[i].pttl =
            at.has.holder == stranger ? -1 : (at.has.expires - now()) / 1'000'000;
        return verdict::no;
    }
    void sign_up(unsigned p, unsigned i, message& m) {
        auto& at = instances_[i];
        auto const token = token_of(m.tenure);
        auto const called = at.called.find(token);
        m.called = called != at.called.end() && now() < called->second;
        m.pttl = clients_[p].connections[i].pttl;
        m.tracked = at.tracks;
        if (at.tracks) at.registered[token] = p;
    }
    verdict perform_fairly(unsigned p, unsigned i, message const& m) {
        expire_key(i);
        auto& at = instances_[i];
        auto const by = static_cast<int>(p);
        auto const t = m.tenure;
        auto const ours = is_ours(i, t);
        switch (m.op) {
        case command::acquire:
            if ((at.has.holder != nobody && !ours) || (!ours && m.newcomer && !line_of(i).empty()))
                return verdict::no;
            if (!ours)
                std::erase_if(line_of(i), [&](auto const& e) { return e.token == token_of(t); });
            set_key(i, t, by);
            return verdict::yes;
        case command::heal:
            if (at.has.holder != nobody) return verdict::no;
            set_key(i, t, by);
            return verdict::yes;
        case command::extend:
            if (!ours) return verdict::no;
            set_key(i, t, by);
            return verdict::yes;
        default:
            break;
        }
        at.scripts = true;
        if (!ours) {
            std::erase_if(line_of(i), [&](auto const& e) { return e.token == token_of(t); });
            return verdict::no;
        }
        if (at.has.holder >= 0 && !at.has.reserved &&
            is_held(tenures_[static_cast<std::size_t>(at.has.holder)])) {
            fail("S3", "the key of a lease that is held was deleted");
        }
        if (call_next(i, t, by)) return verdict::yes;
        at.has.holder = nobody;
        written(i, by);
        return verdict::yes;
    }

    verdict perform(unsigned p, unsigned i, unsigned t, command op) {
        expire_key(i);
        auto& at = instances_[i];
        auto const done = carry_out(at.has, op, t, now() + real(tenures_[t].machine.ttl(), at.ppm));
        if (op == command::release) {
            at.scripts = true;
            if (done.changed && is_held(tenures_[t]))
                fail("S3", "the key of a lease that is held was deleted");
        }
        if (done.changed) written(i, static_cast<int>(p));
        return done.said;
    }
};

} // namespace holdfast::test

#endif
