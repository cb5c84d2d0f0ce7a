// The processes of a simulation in which each process has many acquires and tenures: its clock, its
// commands, and the breaks of its connections.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_TENURES_NETWORK_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_TENURES_NETWORK_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/quarantine.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/time.hpp"

#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

namespace holdfast::test {

/// Which promises a schedule can keep. Each simulation says which faults it has.
enum class schedule_faults : std::uint8_t {
    chance,   ///< chance chooses among the others
    none,     ///< no faults
    ordinary, ///< messages, processes and keys are lost
    restarts, ///< the same, and instances forget, also their counters
    reckless, ///< keys expire at any moment, so only fences and order stand
};

/// Counts of faults.
struct faults_tally {
    std::uint64_t breaks = 0, freezes = 0, deaths = 0, stops = 0, restarts = 0, quarantined = 0,
                  suspects = 0;
};

/// The connection of a process to an instance.
template <class Message>
struct guarded_connection : connection<Message> {
    protocol::quarantine doubt;
    bool restarted = false; ///< the instance, since the client was connected last
};

/// A process, which may have many tenures.
template <class Connection>
struct holding_process : client<Connection> {
    std::int64_t ppm = 0; ///< the rate error of its clock
    bool alive = true;
    protocol::round_trips usual;
};

/// `Setting` has the types `client`, `instance`, `actor`, `tenure_state`, `tally`, `parts` and
/// `shape`.
template <class Setting>
class tenures_network : protected network<typename Setting::client, typename Setting::instance> {
    using base = network<typename Setting::client, typename Setting::instance>;

protected:
    using command = protocol::command;
    using duration = protocol::duration;
    using time_point = protocol::time_point;
    using actor = typename Setting::actor;
    using tenure_state = typename Setting::tenure_state;
    using base::any_of, base::at, base::below, base::connected, base::freeze, base::give_up_answers,
        base::in, base::is_awaited, base::lose, base::now, base::on_client, base::one_in,
        base::pause, base::reachable, base::reconnect_after, base::sever, base::size, base::some,
        base::transmit, base::write_story;
    using base::clients_, base::instances_;
    using typename base::message;

    tenures_network(std::uint64_t seed, typename Setting::tally& seen,
                    typename Setting::parts const& parts, schedule_faults faults,
                    std::optional<typename Setting::shape> const& shape, std::ostream* story)
        : base(seed, story)
        , seen_(seen)
        , parts_(parts)
        , shape_(shape)
        , faults_(shape ? schedule_faults::none : faults) {
        if (faults_ != schedule_faults::chance) return;
        using enum schedule_faults;
        static constexpr std::array kinds{none, ordinary, ordinary, restarts, reckless};
        faults_ = any_of(kinds);
    }
    ~tenures_network() = default;

    //
    // To be defined by the simulation
    //

    /// The answer of an instance, or that there will be none.
    virtual void pass_on(message const& m, unsigned i) = 0;
    virtual void on_unavailable(unsigned p, unsigned i) = 0;
    virtual void on_available(unsigned p) = 0;
    /// The process has been killed.
    virtual void forget_process(unsigned p) = 0;
    /// Called when a command of the tenure has been answered, or never will be carried out.
    virtual void check_clean(unsigned t) = 0;
    /// What the command carries beside its tenure.
    virtual void complete(message& m) const = 0;
    /// The connection was not there.
    virtual void on_unsent(message const&, unsigned) {}
    /// How long a key of the tenure may last.
    virtual duration longest_ttl(unsigned t) const = 0;

    //
    // A process
    //

    void add_client() {
        auto& me = clients_.emplace_back();
        me.ppm = slow_ ? -max_ppm : base::between(-max_ppm, max_ppm);
        me.connections.resize(size());
    }
    time_point local(unsigned p) const {
        return time_point(duration(stretched(now(), clients_[p].ppm)));
    }
    /// The instances whose grants count.
    protocol::instance_set voters(unsigned p) const {
        auto const& me = clients_[p];
        auto all = reachable(p);
        for (unsigned i = 0; i < size(); ++i)
            if (me.connections[i].doubt.active(local(p))) all.erase(i);
        return all;
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

    //
    // Its commands
    //

    /// Usually about delay_, now and then far longer.
    true_time travel() override {
        if (shape_ && shape_->steady) return delay_.count();
        if (is_faulty() && one_in(150)) return some(ttl_ / 2);
        return delay_.count() / 4 + some(one_in(10) ? delay_ * 3 : delay_);
    }
    duration max_travel() const { return delay_ / 4 + delay_ * 3; }
    bool is_faulty() const { return faults_ != schedule_faults::none && now() < calm_from_; }
    bool is_reckless() const { return faults_ == schedule_faults::reckless; }
    bool forgets() const { return faults_ == schedule_faults::restarts; }

    void submit(unsigned t, unsigned i, message m) {
        auto const p = tenures_[t].process;
        auto& conn = clients_[p].connections[i];
        m.tenure = t;
        if (!conn.available()) {
            if (m.op != command::release) return on_unsent(m, i);
            ++tenures_[t].pending;
            conn.pending.push_back({t, now()});
            return;
        }
        ++tenures_[t].pending;
        send(p, i, std::move(m));
    }
    void send(unsigned p, unsigned i, message m) {
        m.sent = local(p);
        complete(m);
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
            m.said = protocol::verdict::unknown;
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
            auto const ttl = longest_ttl(k.tenure);
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
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    //
    // Connections
    //

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
    /// After an instance has restarted, and has forgotten everything.
    void cut_all(unsigned i, true_time span) {
        for (unsigned p = 0; p < clients_.size(); ++p) {
            cut(p, i, span + travel());
            auto& conn = clients_[p].connections[i];
            conn.restarted = true;
            conn.ghosts.clear(); // its sockets are gone
        }
    }

    typename Setting::tally& seen_;
    typename Setting::parts const parts_;
    std::optional<typename Setting::shape> const shape_;
    schedule_faults faults_;
    duration ttl_{}, timeout_{}, delay_{};
    bool slow_ = false; ///< the processes, and the instances are fast
    std::deque<actor> actors_;
    std::deque<tenure_state> tenures_;
    std::set<unsigned> holding_; ///< tenures that were won and are not over
    std::set<unsigned> stays_;   ///< tokens of which something stays until its ttl
    true_time calm_from_ = 0, stop_at_ = 0;
    unsigned queued_ = 0;
    std::uint64_t commands_ = 0;
};

} // namespace holdfast::test

#endif
