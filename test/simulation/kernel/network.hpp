// The connections of clients to instances, with the contract of redis::instance.
//
// Messages of one connection keep their order. Each takes its own time, and arrives once or not at
// all. A frozen instance takes no messages. When a connection breaks, the messages under way are
// lost. Or the instance carries some out later, and no client hears of it.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_NETWORK_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_NETWORK_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/tenure_values.hpp"

#include "simulation/kernel/instance.hpp"
#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// A command with its answer. Simulators add fields.
struct message {
    unsigned tenure = 0;
    protocol::command op{};
    std::uint32_t round = 0;
    bool votes = true;     ///< false: a question about the state of the instance
    bool answered = false; ///< the client does not wait for the answer any more
    bool pushed = false;   ///< the instance was not asked
    std::uint64_t serial = 0;
    protocol::verdict said = protocol::verdict::unknown;
};

inline std::string text(message const& m) {
    return m.votes ? std::string(name(m.op)) + " for " + std::to_string(m.tenure) : "how it is";
}

/// A release that waits until it can be sent.
struct pending_release {
    unsigned tenure;
    true_time since;
};

template <class Message>
struct connection {
    using message = Message;

    bool up = true, suspect = false;
    unsigned epoch = 0;   ///< counts the breaks
    unsigned session = 0; ///< the epoch of the last connection that the client has made
    std::deque<Message> in_flight, to_server, to_client;
    true_time last_arrival = 0, last_reply = 0;
    true_time stalled_until = 0; ///< no message arrives before
    true_time ended = 0;
    std::deque<Message> ghosts; ///< of the session that ended last
    true_time ghosts_at = 0;
    std::vector<pending_release> pending;

    bool available() const { return up && !suspect; }
};

template <class Connection>
struct client : process {
    using connection = Connection;

    std::vector<Connection> connections; ///< one for each instance
};

/// A client with one tenure at a time, and one timer for its machine.
template <class Connection>
struct lessee : client<Connection> {
    std::int64_t ppm = 0; ///< the rate error of its clock
    bool renewed = true;
    int current = nobody; ///< the index of the tenure
    std::uint64_t timer = 0;
};

/// True if the holder may rely on the lease. That is until the deadline, also after the loss was
/// reported.
template <class Machine>
bool is_valid(Machine const& machine, protocol::time_point now) {
    using tenure_phase = protocol::tenure_phase;
    auto const phase = machine.phase();
    return (phase == tenure_phase::held || phase == tenure_phase::ending) &&
           now < machine.deadline();
}

template <class Client, class Instance>
class network : protected timeline {
protected:
    using connection = typename Client::connection;
    using message = typename connection::message;

    using timeline::timeline;
    ~network() = default;

    //
    // To be defined by the simulator
    //

    virtual true_time travel() = 0;
    /// The instance executes the message. False: it does not answer. `ghost`: the connection has
    /// ended.
    virtual bool execute(unsigned c, unsigned i, message& m, bool ghost) = 0;
    /// The client receives an answer or a push.
    virtual void on_reply(unsigned c, unsigned i, message& m) = 0;
    /// A vote gets no answer, or a late one. `m.answered`: the client does not wait for it any
    /// more.
    virtual void on_silence(unsigned c, unsigned i, message& m) = 0;
    virtual void on_reconnected(unsigned c, unsigned i) = 0;

    //
    // The client's side
    //

    unsigned size() const { return static_cast<unsigned>(instances_.size()); }
    unsigned quorum() const { return size() / 2 + 1; }

    protocol::instance_set reachable(unsigned c) const {
        protocol::instance_set set;
        for (unsigned i = 0; i < size(); ++i) {
            if (clients_[c].connections[i].available()) set.insert(i);
        }
        return set;
    }

    /// Calls `act` when the client runs.
    template <class Act>
    void on_client(unsigned c, Act&& act) {
        in(clients_[c], std::forward<Act>(act));
    }

    /// Sets the timer of a lessee, by its clock `now`. An earlier timer is replaced.
    template <class Act>
    void arm(Client& me, std::optional<protocol::time_point> wake, protocol::time_point now,
             Act act) {
        auto const timer = ++me.timer;
        if (!wake) return;
        auto const left = std::max(*wake - now, protocol::duration(0));
        at(real(left, me.ppm), me, [&me, timer, act] {
            if (me.timer == timer) act();
        });
    }

    /// Sends a message, with a new serial number. The message is lost if the connection has ended,
    /// also if the client does not know that yet.
    std::uint64_t transmit(unsigned c, unsigned i, message m) {
        auto const& sent = put_in_flight(c, i, std::move(m));
        auto& conn = clients_[c].connections[i];
        if (conn.session == conn.epoch) {
            next_arrival(conn);
            carry(c, i, sent);
        }
        return sent.serial;
    }
    message const& put_in_flight(unsigned c, unsigned i, message m) {
        m.serial = ++serial_;
        write_story("client ", c, " asks ", i, ": ", text(m));
        return clients_[c].connections[i].in_flight.emplace_back(std::move(m));
    }
    void next_arrival(connection& conn) {
        conn.last_arrival = std::max({conn.last_arrival, now() + travel(), conn.stalled_until});
    }
    /// The message arrives at conn.last_arrival.
    void carry(unsigned c, unsigned i, message m) {
        auto& conn = clients_[c].connections[i];
        conn.to_server.push_back(std::move(m));
        at(conn.last_arrival - now(), [this, c, i, epoch = conn.epoch] { arrive(c, i, epoch); });
    }

    /// The message, if it has not been answered.
    message const* in_flight(unsigned c, unsigned i, std::uint64_t serial) const {
        auto const& all = clients_[c].connections[i].in_flight;
        auto const found =
            std::lower_bound(all.begin(), all.end(), serial,
                             [](message const& m, std::uint64_t s) { return m.serial < s; });
        return found != all.end() && found->serial == serial ? &*found : nullptr;
    }
    bool is_awaited(unsigned c, unsigned i, std::uint64_t serial) const {
        auto const* const m = in_flight(c, i, serial);
        return m != nullptr && !m->answered;
    }

    /// The client stops waiting for all answers, although they may still come.
    void give_up_answers(unsigned c, unsigned i) {
        write_story("client ", c, " suspects ", i);
        auto& conn = clients_[c].connections[i];
        conn.suspect = true;
        for (std::size_t n = 0; n < conn.in_flight.size(); ++n) {
            auto& m = conn.in_flight[n];
            if (!m.votes || std::exchange(m.answered, true)) continue;
            auto silent = m;
            silent.answered = false;
            on_silence(c, i, silent);
        }
    }
    /// The client hears that the connection has ended.
    void lose(unsigned c, unsigned i) {
        auto& conn = clients_[c].connections[i];
        conn.up = conn.suspect = false;
        conn.ended = now();
        for (auto& m : std::exchange(conn.in_flight, {})) {
            if (m.votes) on_silence(c, i, m);
        }
    }
    void connected(connection& conn) {
        conn.up = true;
        conn.suspect = false;
        conn.session = conn.epoch;
        conn.last_arrival = conn.last_reply = now();
    }

    /// Submits the commands of an action in their order. `submit` takes an instance, a command and
    /// its round.
    template <class Action, class Submit>
    static void send_all(Action const& a, std::uint32_t round, Submit const& submit) {
        using protocol::command;
        auto const all = [&](protocol::instance_set set, command op, std::uint32_t of_round) {
            set.for_each([&](unsigned i) { submit(i, op, of_round); });
        };
        all(a.acquire, command::acquire, 0);
        all(a.contend, command::contend, 0);
        all(a.raise, command::raise, round);
        all(a.extend, command::extend, round);
        all(a.heal, command::heal, 0);
        all(a.release, command::release, 0);
        all(a.inspect, command::inspect, 0);
    }

    //
    // The server's side
    //

    void answer(unsigned c, unsigned i, message m) {
        auto& conn = clients_[c].connections[i];
        conn.to_client.push_back(std::move(m));
        conn.last_reply = std::max({conn.last_reply, now() + travel(), conn.stalled_until});
        at(conn.last_reply - now(), clients_[c],
           [this, c, i, epoch = conn.epoch] { deliver(c, i, epoch); });
    }

    void freeze(unsigned i, true_time span) {
        write_story("instance ", i, " freezes");
        instances_[i].frozen_until = std::max(instances_[i].frozen_until, now() + span);
    }

    //
    // Breaks
    //

    /// Loses the messages under way. The simulator decides when the client hears of the break.
    void sever(unsigned c, unsigned i) {
        write_story("connection of ", c, " to ", i, " breaks");
        auto& conn = clients_[c].connections[i];
        ++conn.epoch;
        conn.to_server.clear();
        conn.to_client.clear();
        conn.ghosts.clear();
        instances_[i].listeners.erase(c);
    }
    void reconnect_after(unsigned c, unsigned i, true_time span) {
        at(span, clients_[c], [this, c, i, epoch = clients_[c].connections[i].epoch] {
            if (clients_[c].connections[i].epoch == epoch) on_reconnected(c, i);
        });
    }

    std::vector<Instance> instances_;
    std::vector<Client> clients_;

private:
    static message take_first(std::deque<message>& from) {
        auto m = std::move(from.front());
        from.pop_front();
        return m;
    }

    // Each message causes one call, which takes the message that was sent first.
    void arrive(unsigned c, unsigned i, unsigned epoch) {
        auto& conn = clients_[c].connections[i];
        auto const ghost = conn.epoch != epoch;
        if (ghost && (epoch + 1 != conn.epoch || conn.ghosts.empty())) return;
        auto const from = std::max(instances_[i].frozen_until, ghost ? conn.ghosts_at : 0);
        if (now() < from) return at(from - now(), [this, c, i, epoch] { arrive(c, i, epoch); });
        auto m = take_first(ghost ? conn.ghosts : conn.to_server);
        if (!execute(c, i, m, ghost)) return;
        write_story("instance ", i, " answers ", c, ": ", text(m), m.votes ? ": " : "",
                    m.votes ? name(m.said) : "");
        if (!ghost) answer(c, i, std::move(m));
    }

    void deliver(unsigned c, unsigned i, unsigned epoch) {
        auto& conn = clients_[c].connections[i];
        if (conn.epoch != epoch) return;
        auto m = take_first(conn.to_client);
        if (!m.pushed) m.answered = take_first(conn.in_flight).answered;
        on_reply(c, i, m);
    }

    std::uint64_t serial_ = 0;
};

} // namespace holdfast::test

#endif
