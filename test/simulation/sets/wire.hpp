// The connections of the processes in a simulation of sets, and the faults.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_WIRE_HPP

#include "protocol/rules.hpp"

#include "simulation/sets/servers.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace holdfast::test {

class set_wire : protected set_servers {
protected:
    using set_servers::set_servers;
    ~set_wire() = default;

    virtual void pass_on(message const& m, unsigned i) = 0;
    virtual void on_unavailable(unsigned p, unsigned i) = 0;
    virtual void on_available(unsigned p) = 0;
    virtual void forget_process(unsigned p) = 0;

    //
    // A process
    //

    void submit(unsigned t, unsigned i, message m) {
        auto const p = tenures_[t].process;
        auto& conn = clients_[p].connections[i];
        m.tenure = t;
        if (!conn.available()) {
            if (m.op != command::release) return;
            ++tenures_[t].pending;
            conn.pending.push_back({t, now()});
            return;
        }
        ++tenures_[t].pending;
        send(p, i, std::move(m));
    }
    void send(unsigned p, unsigned i, message m) {
        m.sent = local(p);
        m.ttl = tenures_[m.tenure].machine.ttl();
        ++commands_;
        auto const serial = transmit(p, i, std::move(m));
        if (!is_faulty()) return;
        at(real(timeout_, clients_[p].ppm), clients_[p],
           [this, p, i, serial] { on_overdue(p, i, serial); });
    }
    void on_overdue(unsigned p, unsigned i, std::uint64_t serial) {
        auto& conn = clients_[p].connections[i];
        if (!clients_[p].alive || !conn.available() || !is_awaited(p, i, serial)) return;
        ++seen_.suspects;
        give_up_answers(p, i);
        on_unavailable(p, i);
        at(3 * timeout_.count(), clients_[p], [this, p, i, epoch = conn.epoch] {
            auto const& still = clients_[p].connections[i];
            if (still.suspect && still.epoch == epoch) cut(p, i, travel());
        });
    }
    void on_silence(unsigned p, unsigned i, message& m) override {
        auto& conn = clients_[p].connections[i];
        if (!m.answered) {
            m.said = verdict::unknown;
            pass_on(m, i);
        }
        if (conn.up) return;
        if (m.op == command::release) {
            conn.pending.push_back({m.tenure, now()});
        } else {
            finished(m.tenure);
        }
    }
    void send_pending(unsigned p, unsigned i, bool new_session) {
        auto& conn = clients_[p].connections[i];
        for (auto const& k : std::exchange(conn.pending, {})) {
            auto const ttl = tenures_[k.tenure].machine.ttl();
            auto const gone = std::max(k.since, conn.ended) +
                              real(ttl + protocol::redlock_rules::drift(ttl), clients_[p].ppm);
            if (new_session && gone <= now()) {
                finished(k.tenure);
                continue;
            }
            message m;
            m.tenure = k.tenure;
            m.op = command::release;
            m.answered = true;
            send(p, i, std::move(m));
        }
    }
    // A command has been answered, or will never be carried out.
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    /// Breaks a connection. Messages under way are lost, or the instance carries them out later.
    void cut(unsigned p, unsigned i, true_time span) {
        auto& me = clients_[p];
        if (!me.alive) return;
        ++seen_.breaks;
        auto& conn = me.connections[i];
        auto late = one_in(2) ? conn.to_server : std::deque<message>();
        sever(p, i);
        conn.ghosts = std::move(late);
        conn.ghosts_at = now() + some(one_in(2) ? ttl_ : delay_ * 8);
        on_client(p, [this, p, i] {
            if (!clients_[p].alive) return;
            lose(p, i);
            on_unavailable(p, i);
        });
        reconnect_after(p, i, span);
    }
    void on_reconnected(unsigned p, unsigned i) override {
        auto& me = clients_[p];
        if (!me.alive) return;
        auto const& at_instance = instances_[i];
        if (now() < at_instance.frozen_until)
            return reconnect_after(p, i, at_instance.frozen_until - now());
        auto& conn = me.connections[i];
        connected(conn);
        if (std::exchange(conn.restarted, false) && parts_.restart_guard) {
            ++seen_.quarantined;
            conn.doubt.begin(local(p), ttl_ * 2);
            at(real(ttl_ * 2, me.ppm) + 1, me, [this, p] { on_available(p); });
        }
        send_pending(p, i, true);
        on_available(p);
    }

    //
    // Faults
    //

    void plan_faults(true_time horizon) {
        auto const faults = 1 + below(4 + 3 * size());
        for (unsigned n = 0; n < faults; ++n) plan_fault(some(horizon));
    }
    void plan_fault(true_time when) {
        auto const span = 1 + (one_in(4) ? some(ttl_ * 2) : some(delay_ * 60));
        auto const i = static_cast<unsigned>(below(size()));
        auto const p = static_cast<unsigned>(below(clients_.size()));
        switch (below(forgets() ? 10 : 8)) {
        case 0:
        case 1:
            return at(when, [this, p, i, span] { cut(p, i, span); });
        case 2:
            return at(when, [this, i, span] {
                ++seen_.freezes;
                freeze(i, span);
            });
        case 3:
            return at(when, [this, p, span] {
                ++seen_.stops;
                pause(clients_[p], span);
            });
        case 4:
            if (!one_in(3)) return plan_fault(when);
            return at(when, [this, p] { kill(p); });
        case 5:
        case 6:
            return at(when, [this] { rob(); });
        case 7:
            return at(when, [this] { leave_remnants(); });
        default:
            return at(when, [this, i, span] { restart(i, span); });
        }
    }
    /// Somebody deletes one key of a lease, at some instances.
    void rob() {
        if (holding_.empty()) return;
        auto const at_random = static_cast<std::ptrdiff_t>(below(holding_.size()));
        auto t = *std::next(holding_.begin(), at_random);
        auto const is_taken = [this](unsigned of) {
            auto const* const lease = tenures_[of].lease;
            return lease != nullptr && lease->owner != nullptr;
        };
        auto const taken = std::find_if(holding_.begin(), holding_.end(), is_taken);
        if (taken != holding_.end() && one_in(2)) t = *taken; // in order
        auto& its = tenures_[t];
        auto const k = its.keys[below(its.keys.size())];
        auto const everywhere = one_in(2);
        for (unsigned i = 0; i < size(); ++i) {
            if (!instances_[i].keys[k].is_of(token(t)) || (!everywhere && one_in(2))) continue;
            ++seen_.robberies;
            its.robbed = true;
            write_story("key ", names({k}), " of ", t, " is deleted at ", i);
            remove(i, k);
        }
    }
    /// Minorities keep keys of holders that are gone, each key on a minority of its own.
    void leave_remnants() {
        for (unsigned k = 0; k < keys_; ++k) {
            auto const i = static_cast<unsigned>(below(size()));
            if (size() < 3 || !one_in(2) || instances_[i].keys[k].holder != nobody) continue;
            ++seen_.remnants;
            auto const t = static_cast<unsigned>(tenures_.size());
            tenures_.push_back({0, {size(), ttl_, false}, {k}});
            tenures_.back().dead = tenures_.back().over = true;
            auto& has = instances_[i].keys[k];
            has.holder = static_cast<int>(t);
            has.expires = now() + some(ttl_ * 2) + 1;
            written(i, k, nobody);
        }
    }
    void restart(unsigned i, true_time span) {
        ++seen_.restarts;
        write_story("instance ", i, " restarts and has forgotten everything");
        auto& its = instances_[i];
        std::set<int> holders;
        for (unsigned k = 0; k < keys_; ++k) {
            holders.insert(its.keys[k].holder);
            its.keys[k] = {};
            ++its.versions[k];
            its.listeners.of[k].clear();
        }
        for (auto const t : holders)
            if (t >= 0) keys_changed(tenure_of(t));
        its.frozen_until = 0;
        for (unsigned p = 0; p < clients_.size(); ++p) {
            cut(p, i, span + travel());
            auto& conn = clients_[p].connections[i];
            conn.restarted = true;
            conn.ghosts.clear(); // its sockets are gone
        }
    }
    void kill(unsigned p) {
        auto& me = clients_[p];
        auto const alive = std::count_if(clients_.begin(), clients_.end(),
                                         [](auto const& each) { return each.alive; });
        if (!me.alive || alive < 2) return;
        ++seen_.deaths;
        write_story("process ", p, " is killed");
        forget_process(p);
        me.alive = false;
        for (auto& a : actors_) {
            if (a.process != p) continue;
            if (a.is == actor::state::queued) --queued_;
            a.is = actor::state::gone;
            ++a.ticket;
        }
        for (auto& t : tenures_)
            if (t.process == p) t.dead = t.over = true;
        for (unsigned i = 0; i < size(); ++i) {
            // Some of its commands may still arrive.
            auto& conn = me.connections[i];
            auto late = conn.to_server;
            sever(p, i);
            conn.ghosts = std::move(late);
            conn.ghosts_at = now() + some(delay_ * 8);
            conn.up = false;
            conn.in_flight.clear();
            conn.pending.clear();
        }
    }
};

} // namespace holdfast::test

#endif
