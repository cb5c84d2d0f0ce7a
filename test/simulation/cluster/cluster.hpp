// A Cluster in which the slot of one key migrates, or fails over, while clients take and release
// the key. The clients use the classes of src/protocol/cluster_*.
//
// Nodes 0 and 1 are primaries, node 2 is the replica of node 0. A seed decides whether the slot
// migrates to and fro (classically, or at once with absolute times of expiry), or node 0 fails: it
// freezes, or is cut off from the other nodes and serves on for a while. Clocks of nodes differ in
// migrations at once. Some holders extend their leases. Some clients cannot ask the node that a
// slot migrates to.
//
// Properties: S1 no two valid leases; S4 no key is left behind, where nothing fails; L3 a command
// that is refused again and again makes few tries, and ends in time; and `migration`: a node that
// merely received the slot is not quarantined.
#ifndef HOLDFAST_TEST_SIMULATION_CLUSTER_CLUSTER_HPP
#define HOLDFAST_TEST_SIMULATION_CLUSTER_CLUSTER_HPP

#include "protocol/cluster/cluster_guard.hpp"
#include "protocol/cluster/cluster_patience.hpp"
#include "protocol/cluster/cluster_route.hpp"
#include "protocol/quarantine.hpp"
#include "protocol/rules.hpp"

#include "simulation/kernel/instance.hpp"
#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Counts of the events that the properties are about.
struct cluster_events {
    std::uint64_t held = 0, refused = 0, resent = 0, asked = 0, cancelled = 0, migrations = 0,
                  at_once = 0, failovers = 0, doubted = 0, quarantines = 0, isolations = 0,
                  extended = 0, uncounted = 0, waited = 0, given_up = 0;
};

/// The duties of a client towards the protocol's classes.
struct patient_client {
    static constexpr bool pauses = true; ///< before a command that was refused is sent again
};

template <class Route, class Guard, class Driver = patient_client>
class cluster_world : timeline {
    using command = protocol::command;
    using refusal = protocol::cluster_refusal;
    using step = protocol::cluster_step;
    using time_point = protocol::time_point;
    static constexpr true_time ms = 1'000'000;
    static constexpr unsigned none = 99;

public:
    cluster_world(std::uint64_t seed, cluster_events& seen, std::ostream* story = nullptr)
        : timeline(seed, story)
        , seen_(seen)
        , fails_(one_in(2))
        , at_once_(!fails_ && one_in(3)) {
        for (auto& n : nodes_) n.ahead = at_once_ ? some(800) * ms : 0;
        nodes_[2].replica = true;
        clients_.resize(2 + below(2));
        for (auto& c : clients_) {
            c.far = one_in(2);
            for (auto& l : c.links) {
                l.silence.connected();
                l.silence.answered(local(), local());
                l.silence.named_by_another(local());
            }
            // The first map.
            c.links[0].owner_guard.serves(origin(0), true);
            // No client misses an owner with a wrong clock.
            c.period = fails_     ? 20 * ms + some(one_in(2) ? 50 : 30'000) * ms
                       : at_once_ ? ms + some(200) * ms
                                  : ms + some(one_in(4) ? 2'000 : 20) * ms;
        }
        for (unsigned c = 0; c < clients_.size(); ++c) {
            at(some(500) * ms, [this, c] { begin(c); });
            at(some(clients_[c].period), [this, c] { refresh(c); });
        }
        if (fails_) {
            at(some(2'000) * ms, [this] { fail_over(); });
        } else {
            at(some(200) * ms, [this] { migrate(); });
        }
    }

    std::string run() {
        while (now() < end && happens()) {
        }
        return violation();
    }

private:
    static constexpr true_time end = 40'000 * ms;
    static constexpr protocol::duration ttl = std::chrono::seconds(1);
    /// Shorter than the ttl: some leases outlast the promotion.
    static constexpr protocol::duration node_timeout = std::chrono::milliseconds(700);

    struct node {
        bool replica = false;
        unsigned owner = 0; ///< of the slot, as the node believes
        unsigned migrates_to = none, imports_from = none;
        content has;
        true_time ahead = 0; ///< its wall clock
        true_time frozen_until = 0;
        bool cut_off = false, stopped = false; ///< from the other nodes; it has noticed
        std::uint64_t run = 1, history = 1;
        bool promoted = false;
    };
    struct link {
        true_time last_arrival = 0, last_reply = 0;
        protocol::basic_silence_guard<Guard> silence{node_timeout};
        protocol::basic_ownership_guard<Guard> owner_guard{false};
        protocol::basic_succession_guard<Guard> succession;
        protocol::quarantine quarantine;
    };
    struct client {
        std::array<link, 3> links;
        unsigned owner = 0; ///< of the slot, by its map
        unsigned tenure = none;
        bool far = false; ///< from node 0, when that is cut off
        true_time period = 0;
        true_time no_target_until = 0; ///< the target of a migration cannot be asked
    };
    struct tenure {
        unsigned client;
        protocol::basic_grant_route<Route> route{};
        time_point deadline{};
        bool held = false;
        bool over = false;
        bool released = false;
        bool extends = false; ///< for as long as it can
        unsigned pending = 0;
    };
    struct sent {
        unsigned tenure, node;
        command op;
        time_point first_sent, copy_sent;
        protocol::basic_cluster_hops<Route> hops{};
        bool asking = false;
        std::uint64_t migration = 0; ///< of the ASK
        std::optional<time_point> waits_since{};
        unsigned tries = 0; ///< since then
    };
    struct reply {
        bool yes = false;
        std::optional<refusal> refused{};
        unsigned target = none;
        std::uint64_t migration = 0; ///< the last one
    };

    time_point local() const { return time_point(protocol::duration(now())); }
    true_time clock(unsigned n) const { return now() + nodes_[n].ahead; }
    true_time travel() { return 1 + some(one_in(8) ? 60 * ms : 2 * ms); }
    protocol::node_origin origin(unsigned n) const {
        return {nodes_[n].run + n * 100, nodes_[n].history + n * 100, nodes_[n].promoted};
    }
    protocol::clock_offset offset(unsigned n) const {
        return protocol::clock_offset::from(local(), local(), protocol::duration(clock(n)));
    }

    //
    // Nodes
    //

    reply execute(sent const& s) {
        auto& n = nodes_[s.node];
        if (n.has.is_expired(clock(s.node))) n.has.holder = nobody;
        auto const redirect = [this](refusal::kind k, unsigned to) {
            return reply{.refused = refusal{.type = k, .slot = 1, .port = 1},
                         .target = to,
                         .migration = migration_};
        };
        if (n.stopped) return {.refused = refusal{.type = refusal::kind::cluster_down}};
        // An ASK of an earlier migration to this node is not modelled: it can grant twice (N32).
        auto const imports = n.imports_from != none && s.asking && s.migration == migration_;
        if (!imports && (n.replica || n.owner != s.node))
            return redirect(refusal::kind::moved, n.owner);
        if (n.migrates_to != none && n.has.holder == nobody)
            return redirect(refusal::kind::ask, n.migrates_to);
        auto const done = carry_out(n.has, s.op, s.tenure, clock(s.node) + ttl.count());
        write_story("node ", s.node, ": ", name(s.op), " for ", s.tenure, ' ', name(done.said));
        if (done.changed && fails_ && s.node == 0) {
            at(some(one_in(4) ? 1'000 : 3) * ms, [this, has = n.has] {
                if (nodes_[2].replica && now() >= nodes_[0].frozen_until && !nodes_[0].cut_off)
                    nodes_[2].has = has;
            });
        }
        return {.yes = done.said == protocol::verdict::yes};
    }

    void migrate() {
        auto const from = nodes_[0].owner, to = 1 - from;
        ++seen_.migrations;
        ++migration_;
        write_story("the slot migrates to ", to);
        if (at_once_) {
            ++seen_.at_once;
            if (nodes_[from].has.is_expired(clock(from))) nodes_[from].has = {};
            nodes_[to].has = std::exchange(nodes_[from].has, {}); // with its absolute expiry
            for (auto& n : nodes_) n.owner = to;
        } else {
            nodes_[from].migrates_to = to;
            nodes_[to].imports_from = from;
            for (auto& c : clients_) {
                if (one_in(4)) c.no_target_until = now() + some(one_in(2) ? 3'000 : 30) * ms;
            }
            at(some(one_in(2) ? 3 : 60) * ms, [this, from, to] { move_key(from, to); });
        }
        if (now() < end / 4)
            at((at_once_ ? 500 : 71) * ms + some(one_in(2) ? 5 : 150) * ms, [this] { migrate(); });
    }
    void move_key(unsigned from, unsigned to) {
        auto& key = nodes_[from].has;
        if (key.holder != nobody && !key.is_expired(clock(from))) {
            nodes_[to].has = key;
            nodes_[to].has.expires +=
                nodes_[to].ahead - nodes_[from].ahead; // MIGRATE: what is left
        }
        key = {};
        at(some(10) * ms, [this, from, to] {
            for (auto& n : nodes_) n.owner = to;
            nodes_[from].migrates_to = nodes_[to].imports_from = none;
        });
    }

    void fail_over() {
        auto const extends =
            std::ranges::any_of(tenures_, [](tenure const& t) { return t.held && t.extends; });
        if (!extends && now() < end / 4) return at(some(50) * ms, [this] { fail_over(); });
        ++seen_.failovers;
        auto const promotion = node_timeout.count() + some(one_in(2) ? 20 : 2'000) * ms;
        auto const span = promotion + some(15'000) * ms;
        if (one_in(2)) {
            ++seen_.isolations;
            write_story("node 0 is cut off");
            nodes_[0].cut_off = true;
            auto const longest = node_timeout.count() / 2 - 1;
            at(promotion + (one_in(2) ? longest : some(longest)), [this] {
                write_story("node 0 serves no more");
                nodes_[0].stopped = true;
            });
        } else {
            nodes_[0].frozen_until = now() + span;
            write_story("node 0 freezes");
        }
        at(promotion, [this] {
            write_story("node 2 is promoted");
            nodes_[2].replica = false;
            nodes_[2].promoted = true;
            ++nodes_[2].history;
            nodes_[2].owner = nodes_[1].owner = 2;
        });
        // It hears of its demotion after it has read its sockets.
        at(span + 1 + some(5) * ms, [this] {
            write_story("node 0 is a replica now");
            nodes_[0].replica = true;
            nodes_[0].owner = 2;
            nodes_[0].cut_off = nodes_[0].stopped = false;
        });
    }

    //
    // The client's map and guards
    //

    void refresh(unsigned c) {
        ask_map(c);
        at(clients_[c].period, [this, c] { refresh(c); });
    }
    void ask_map(unsigned c) { ask_map(c, static_cast<unsigned>(below(3))); }
    void ask_map(unsigned c, unsigned n) {
        if (now() < nodes_[n].frozen_until || is_lost(c, n)) return;
        auto const owner = nodes_[n].owner;
        auto const asked = local();
        at(travel(), [this, c, n, owner, asked] {
            if (n != owner) clients_[c].links[owner].silence.named_by_another(asked);
            set_owner(c, owner, n);
        });
    }
    void set_owner(unsigned c, unsigned to, unsigned by) {
        auto& me = clients_[c];
        auto const from = std::exchange(me.owner, to);
        if (from == to || now() < nodes_[to].frozen_until) return;
        auto& l = me.links[to];
        me.links[from].succession.retired();
        if (by == from) l.succession.ceded();
        auto const inherited =
            protocol::inherited_quarantine<Guard>(me.links[from].quarantine.until(), local(),
                                                  protocol::node_quarantine(ttl, node_timeout));
        if (inherited > protocol::duration::zero()) l.quarantine.begin(local(), inherited);
        if (l.owner_guard.serves(origin(to), false) != protocol::ownership::known) {
            if (!nodes_[to].promoted) fail("migration", "a node that got the slot is quarantined");
            quarantine(l, protocol::node_quarantine(ttl, node_timeout));
            l.succession.promoted(local(), node_timeout);
        }
        if (protocol::ends_leases_early<Guard>(offset(to), offset(from), ttl)) quarantine(l, ttl);
    }
    void quarantine(link& l, protocol::duration span) {
        ++seen_.quarantines;
        l.quarantine.begin(local(), span);
    }

    //
    // The client's tenures
    //

    void begin(unsigned c) {
        auto& me = clients_[c];
        auto const pause = one_in(fails_ ? 100 : 10) ? some(6'000) * ms : some(60) * ms;
        at(ms + pause, [this, c] { begin(c); });
        if (me.tenure != none && !tenures_[me.tenure].over) return;
        if (me.links[me.owner].quarantine.active(local())) return;
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({.client = c});
        me.tenure = t;
        send({t, me.owner, command::acquire, local(), local()});
        // The caller cancels, or the time is up.
        at(one_in(2) ? some(8) * ms : 500 * ms, [this, t] {
            if (tenures_[t].held || tenures_[t].over) return;
            ++seen_.cancelled;
            give_back(t);
        });
    }

    void give_back(unsigned t) {
        auto& s = tenures_[t];
        s.held = false;
        if (std::exchange(s.over, true)) return;
        s.released = true;
        auto const to = s.route.release(static_cast<std::uint16_t>(clients_[s.client].owner));
        send({t, to, command::release, local(), local()});
    }

    void send(sent s) {
        auto& state = tenures_[s.tenure];
        ++state.pending;
        s.copy_sent = local();
        if (s.op == command::acquire) state.route.grant_sent(static_cast<std::uint16_t>(s.node));
        auto& l = clients_[state.client].links[s.node];
        l.last_arrival = std::max(l.last_arrival + 1, now() + travel());
        write_story("client ", state.client, " asks ", s.node, ": ", name(s.op), " for ", s.tenure);
        at(l.last_arrival - now(), [this, s] { arrive(s); });
    }
    bool is_lost(unsigned c, unsigned n) const { return clients_[c].far && nodes_[n].cut_off; }
    void arrive(sent const& s) {
        auto const& n = nodes_[s.node];
        if (is_lost(tenures_[s.tenure].client, s.node))
            return at(20 * ms, [this, s] { arrive(s); });
        if (now() < n.frozen_until) return at(n.frozen_until - now(), [this, s] { arrive(s); });
        auto const r = execute(s);
        auto& l = clients_[tenures_[s.tenure].client].links[s.node];
        l.last_reply = std::max(l.last_reply + 1, now() + travel());
        at(l.last_reply - now(), [this, s, r] { on_reply(s, r); });
    }

    void on_reply(sent s, reply const& r) {
        auto& t = tenures_[s.tenure];
        auto const counts = clients_[t.client].links[s.node].silence.answered(s.copy_sent, local());
        --t.pending;
        if (r.refused) {
            on_refusal(s, r);
        } else if (s.op == command::acquire) {
            on_acquire(s.tenure, s, r.yes, counts);
        } else if (s.op == command::extend) {
            on_extension(s, r.yes, counts);
        }
        check_clean(s.tenure);
    }
    void on_acquire(unsigned id, sent const& s, bool yes, bool counts) {
        auto& t = tenures_[id];
        if (t.over) return; // the release is under way, behind the grant
        if (!yes) {
            t.over = true;
            return;
        }
        t.deadline = protocol::redlock_rules::deadline(s.first_sent, local(), ttl);
        auto const late = local() >= t.deadline;
        seen_.doubted += !counts;
        auto const quarantined = clients_[t.client].links[s.node].quarantine.active(local());
        if (late || !counts || quarantined) return give_back(id);
        hold(id);
    }
    void hold(unsigned id) {
        auto& t = tenures_[id];
        check_alone(id);
        ++seen_.held;
        t.held = true;
        t.extends = fails_ ? !one_in(3) : one_in(3);
        auto const left = (t.deadline - local()).count();
        at(one_in(2) || t.extends ? left : some(left), [this, id] { end_lease(id); });
        if (t.extends) extend_later(id);
    }
    void check_alone(unsigned id) {
        for (unsigned other = 0; other < tenures_.size(); ++other) {
            if (other != id && tenures_[other].held && local() < tenures_[other].deadline)
                fail("S1", std::to_string(other) + " and " + std::to_string(id) + " hold");
        }
    }
    void end_lease(unsigned id) {
        if (local() >= tenures_[id].deadline || !tenures_[id].extends) give_back(id);
    }
    void extend(unsigned id) {
        auto const& t = tenures_[id];
        if (t.over || local() >= t.deadline || now() > end / 2) return;
        send({id, clients_[t.client].owner, command::extend, local(), local()});
    }
    void on_extension(sent const& s, bool yes, bool counts) {
        auto& t = tenures_[s.tenure];
        if (t.over || local() >= t.deadline) return;
        auto const& guard = clients_[t.client].links[s.node].succession;
        if (yes && counts && guard.counts_extensions(s.copy_sent)) {
            ++seen_.extended;
            t.deadline = protocol::redlock_rules::deadline(s.first_sent, local(), ttl);
            check_alone(s.tenure);
            at((t.deadline - local()).count(), [this, id = s.tenure] { end_lease(id); });
        } else {
            ++seen_.uncounted;
            ask_map(t.client, (s.node + 1 + static_cast<unsigned>(below(2))) % 3); // ends a doubt
        }
        extend_later(s.tenure);
    }
    void extend_later(unsigned id) {
        auto const left = (tenures_[id].deadline - local()).count();
        at(some(left / (one_in(2) ? 10 : 1)), [this, id] { extend(id); });
    }
    void on_refusal(sent s, reply const& r) {
        auto& t = tenures_[s.tenure];
        ++seen_.refused;
        auto const grant = s.op == command::acquire;
        auto const wanted = grant ? !t.released : s.op == command::release || !t.over;
        auto const next = s.hops.refused(*r.refused, s.op, wanted, r.target == s.node);
        if (next.set_owner) set_owner(t.client, r.target, s.node);
        if (next.refresh_map) ask_map(t.client);
        auto const asks = next.type == step::kind::resend_asking;
        if (asks && now() < clients_[t.client].no_target_until) return wait_for_target(s);
        switch (next.type) {
        case step::kind::resend:
        case step::kind::resend_asking:
            ++seen_.resent;
            s.node = r.target;
            s.asking = next.type == step::kind::resend_asking;
            s.migration = r.migration;
            seen_.asked += s.asking;
            return send(s);
        case step::kind::not_executed:
            if (grant) t.over = true;
            if (s.op == command::extend) on_extension(s, false, false);
            return;
        case step::kind::keep:
            ++t.pending;
            at(20 * ms, [this, s]() mutable {
                --tenures_[s.tenure].pending;
                s.node = clients_[tenures_[s.tenure].client].owner;
                s.hops = protocol::basic_cluster_hops<Route>{};
                s.asking = false;
                send(s);
            });
        }
    }

    // As cluster_instance::wait_after_refusal().
    void wait_for_target(sent s) {
        constexpr protocol::cluster_patience patience{
            .instance_timeout = std::chrono::milliseconds(40), .sole = true};
        if (!s.waits_since) s.waits_since = local();
        ++seen_.waited;
        auto const since = *s.waits_since;
        auto const until =
            patience.until(protocol::cluster_obstacle::target, since, time_point{}, ttl);
        auto const waited = local() - since;
        if (waited > patience.instance_timeout + std::chrono::milliseconds(500))
            return fail("L3", "a command has waited for too long");
        // A pause is 20 ms or more.
        if (++s.tries > 2 + static_cast<unsigned>(waited / std::chrono::milliseconds(20)))
            return fail("L3", "a command is sent again and again");
        auto& t = tenures_[s.tenure];
        if (s.op != command::release && local() >= until) {
            ++seen_.given_up;
            if (s.op == command::acquire) t.over = true;
            if (s.op == command::extend) on_extension(s, false, false);
            return;
        }
        auto const pause =
            Driver::pauses ? protocol::cluster_patience::pause(waited, any()).count() : 0;
        ++t.pending;
        at(pause, [this, s]() mutable {
            auto& it = tenures_[s.tenure];
            --it.pending;
            // Nobody wants the grant any more.
            if (s.op == command::acquire && it.released) return check_clean(s.tenure);
            s.node = clients_[it.client].owner;
            s.hops = protocol::basic_cluster_hops<Route>{};
            s.asking = false;
            send(s);
        });
    }

    void check_clean(unsigned id) {
        auto const& t = tenures_[id];
        if (fails_ || !t.over || t.pending != 0) return;
        for (unsigned n = 0; n < 2; ++n) {
            if (nodes_[n].has.keeps(id, clock(n)))
                fail("S4", "the key of " + std::to_string(id) + " is left at " + std::to_string(n));
        }
    }

    cluster_events& seen_;
    bool fails_, at_once_;
    std::uint64_t migration_ = 0; ///< their number so far
    std::array<node, 3> nodes_;
    std::vector<client> clients_;
    std::deque<tenure> tenures_;
};

} // namespace holdfast::test

#endif
