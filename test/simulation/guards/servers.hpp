// Instances that restart, are flushed, become replicas, and have clocks that jump.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_SERVERS_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_SERVERS_HPP

#include "protocol/quarantine.hpp"
#include "protocol/server/clock_guard.hpp"
#include "protocol/server/restart_guard.hpp"
#include "protocol/server/server_ages.hpp"
#include "protocol/server/standstill.hpp"
#include "protocol/tenure/tenure.hpp"

#include "simulation/guards/settings.hpp"
#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

namespace holdfast::test {

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

namespace guarded {

enum class ask : std::uint8_t {
    vote,
    check, ///< asks for TIME, the run id, settings and the origin of the data
    probe  ///< the same, as the first question of a connection
};

struct message : test::message {
    ask question = ask::vote;
    time_point sent{};
    // The fields of a reply:
    true_time executed = 0;
    duration shown{}, uptime{};
    protocol::data_origin origin{};
    bool replica = false;
};

/// A connection. Its commands wait for the first probe.
struct connection : test::connection<message> {
    connection(bool observed, bool strict, duration longest)
        : restarts(observed, strict)
        , clock(longest)
        , clock_doubt(longest) {}

    bool probed = false, asking = false;
    std::deque<message> waiting;

    protocol::restart_guard restarts;
    time_point start{}; ///< of the server, at the latest
    protocol::clock_guard clock;
    protocol::clock_doubt clock_doubt;
    time_point in_doubt_until{}; ///< the guards may end the doubt earlier
    protocol::quarantine doubted;
    std::uint64_t run_seen = 0;

    // Known to the simulation, not to the client. The client knows of the jumps before
    // known_until.
    true_time known_until = std::numeric_limits<true_time>::min();
    bool was_told = false, absent = false;
    time_point last_asked{}, last_told{};
    duration offset_seen{};
};

struct client : lessee<connection> {
    duration ttl{};
    bool alive = false;
    protocol::standstill standstill{1, duration::zero()};
    std::vector<std::pair<true_time, true_time>> stops; ///< standstills of its clock
    protocol::server_ages ages{duration::zero()};
    duration unnoticed{}; ///< the part of the standstills that the client has not noticed
};

enum class persistence : std::uint8_t {
    none,
    everysec,
    always
};

/// A state of an instance that its disk may hold.
struct version {
    true_time since = 0;
    content has{};
};

/// An instance. Its keys expire by its wall clock.
struct instance : test::instance {
    persistence keeps = persistence::none;
    std::uint64_t run = 0;
    std::uint64_t history = 0; ///< identifies the data
    bool replica = false, promoted = false;
    bool emptied = false; ///< in this life of the process
    std::uint64_t flushes = 0;
    duration offset{}; ///< of the wall clock
    true_time started = 0;
    duration set_after_start{}; ///< how far the clock was set ahead before a client connected
    true_time since = 0;        ///< the time of the last change of the key
    std::deque<version> had;
    std::vector<true_time> jumps;
};

struct tenure_state {
    unsigned client;
    protocol::tenure machine;
    time_point began{};
    true_time asked = 0;
    bool knew_all = false;   ///< the client knew of all jumps when it asked
    bool over = false;       ///< the lease was lost or released, or never won
    instance_set blind{};    ///< instances whose grant followed a jump that the client did not know
    bool won_blind = false;  ///< a grant of such an instance counted
    instance_set healed{};   ///< instances with a heal that arrived
    instance_set extended{}; ///< instances that have extended in this round
    std::uint32_t round = 0;
};

} // namespace guarded

class guarded_servers : protected network<guarded::client, guarded::instance> {
protected:
    using phase = protocol::tenure_phase;
    using ask = guarded::ask;
    using client = guarded::client;
    using instance = guarded::instance;
    using persistence = guarded::persistence;
    using tenure_state = guarded::tenure_state;

    static constexpr duration check_period = std::chrono::seconds(1);

    guarded_servers(std::uint64_t seed, guards_tally& seen, guards_setup const& setup,
                    std::ostream* story)
        : network(seed, story)
        , seen_(seen)
        , setup_(setup) {
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 3U, 4U, 5U, 5U, 7U};
        instances_.resize(setup_.long_rounds ? 3 : sizes[below(sizes.size())]);
        clients_.resize(setup_.long_rounds ? 2 : 2 + below(3));
        static constexpr std::array<std::int64_t, 3> longest_ms{1'000, 4'000, 12'000};
        max_ttl_ = std::chrono::milliseconds(longest_ms[below(longest_ms.size())]);
        if (setup_.slow) max_ttl_ = std::chrono::seconds(30);
        shortest_ = max_ttl_;
        auto const extreme = one_in(4);
        static constexpr std::array parts{1, 1, 1, 2, 5};
        for (auto& c : clients_) {
            c.ppm = extreme ? -max_ppm : between(-max_ppm, max_ppm);
            c.ttl = duration(max_ttl_.count() / parts[below(parts.size())]);
            if (setup_.long_rounds) c.ttl = &c == &clients_.front() ? max_ttl_ / 5 : max_ttl_;
            shortest_ = std::min(shortest_, c.ttl);
            c.renewed = !one_in(3);
            c.ages = protocol::server_ages(max_ttl_);
            c.standstill = protocol::standstill(static_cast<unsigned>(instances_.size()), max_ttl_);
            for (unsigned i = 0; i < instances_.size(); ++i) {
                c.connections.emplace_back(setup_.observed, setup_.strict, max_ttl_);
            }
        }
        delay_ = duration(shortest_.count() / std::array{10'000, 1'000, 400}[below(3)]);
        timeout_ = duration(shortest_.count() / std::array{8, 3, 2}[below(3)]);
        if (setup_.long_rounds) timeout_ = max_ttl_ * 3;
        for (auto& i : instances_) {
            i.ppm = extreme ? max_ppm : between(-max_ppm, max_ppm);
            i.keeps = any_persistence();
            i.run = ++runs_;
            i.history = ++histories_;
            if (setup_.aged) i.started = -3 * max_ttl_.count();
            i.offset = duration(between(-1'000'000'000'000, 1'000'000'000'000));
        }
        // By then every client has probed every instance.
        warm_ = 100 * delay_.count() + 1'000'000;
        horizon_ = warm_ + max_ttl_.count() * (setup_.strict ? 5 : 3);
        quiet_at_ = horizon_;
        for (unsigned c = 0; c < clients_.size(); ++c) {
            auto const late = setup_.late_starters && c > 0 && one_in(2);
            at(late ? warm_ + some(max_ttl_ * 3) : 0, [this, c, late] {
                if (late) ++seen_.late_starters;
                start(c);
            });
        }
    }
    ~guarded_servers() = default;

    virtual void start(unsigned c) = 0;
    virtual void on_broken(unsigned c, unsigned i, unsigned epoch) = 0;

    //
    // Chance and time
    //

    /// Usually about delay_, now and then far more.
    true_time travel() override {
        if (setup_.slow && one_in(20)) return some(std::chrono::seconds(10));
        return 1 + some(one_in(10) ? delay_ * 8 : delay_);
    }
    persistence any_persistence() {
        return std::array{persistence::none, persistence::everysec, persistence::always}[below(3)];
    }

    /// The time by the client's clock.
    time_point local(unsigned c) const {
        auto t = now();
        for (auto const& [from, to] : clients_[c].stops) t -= std::clamp(now(), from, to) - from;
        return time_point(std::chrono::hours(1) + duration(stretched(t, clients_[c].ppm)));
    }
    duration wall(instance const& i) const { return i.offset + duration(stretched(now(), i.ppm)); }
    bool held(tenure_state const& t) const {
        return !t.over && is_valid(t.machine, local(t.client));
    }

    //
    // Events of an instance
    //

    void jump(unsigned i, duration by, bool must_be_noticed = false) {
        auto& it = instances_[i];
        expire(it);
        it.offset += by;
        expire(it);
        if (by < duration::zero()) {
            ++seen_.jumps_back;
            return;
        }
        ++seen_.jumps;
        if (by < std::chrono::milliseconds(20)) ++seen_.small_jumps;
        it.jumps.push_back(now());
        last_jump_ = now();
        auto const trip = 16 * delay_.count() + 4;
        if (!must_be_noticed || trip >= check_period.count()) return;
        at(check_period.count() + check_period.count() / 100 + trip, [this, i, when = now()] {
            for (auto const& c : clients_) {
                if (c.connections[i].known_until < when)
                    fail("notice", "a jump was not noticed in time");
            }
        });
    }

    void flush(unsigned i) {
        auto& it = instances_[i];
        if (it.replica) return; // a replica refuses FLUSHALL
        ++seen_.flushes;
        ++it.flushes;
        set(it, content{});
        announce(i);
    }

    /// The replica gets the data of a server that never had the key, or of one with an older state
    /// of it.
    void replace(unsigned i) {
        auto& it = instances_[i];
        if (!it.replica) return; // it has restarted as a primary
        ++seen_.replacements;
        set(it, it.had.empty() || one_in(2) ? content{} : it.had.front().has);
        it.history = ++histories_;
        announce(i);
    }

    void promote(unsigned i) {
        auto& it = instances_[i];
        if (!std::exchange(it.replica, false)) return;
        it.history = ++histories_;
        it.promoted = true;
    }

    void announce(unsigned i) {
        instances_[i].emptied = true;
        for (unsigned c = 0; c < clients_.size(); ++c) {
            if (!clients_[c].alive || !instances_[i].listeners.contains(c)) {
                ++seen_.missed;
                continue;
            }
            ++seen_.announced;
            message push;
            push.pushed = true;
            answer(c, i, push);
        }
    }

    void restart(unsigned i, true_time down, std::optional<persistence> as) {
        auto& it = instances_[i];
        // The data is lost. A client that has not seen the end of this run cannot know that. It
        // would trust the next run, because of its log setting.
        if (it.emptied && it.keeps == persistence::always && !as) return;
        ++seen_.restarts;
        // After two restarts in quick succession, the clients may not have seen the former run.
        auto const seen_by_all =
            std::all_of(clients_.begin(), clients_.end(), [&](client const& c) {
                return !c.alive || c.connections[i].run_seen == it.run;
            });
        auto const before = it.keeps;
        auto const may_change = setup_.settings_change == guards_setup::when_seen && seen_by_all;
        if (as) {
            it.keeps = *as;
        } else if (may_change && one_in(2)) {
            it.keeps = any_persistence();
        }
        if (it.keeps != before) ++seen_.setting_changes;
        expire(it);
        auto const had = it.has.holder;
        // If the log is off now, the server has read none at its start.
        if (before == persistence::none || it.keeps == persistence::none) {
            it.has = content{};
        } else if (before == persistence::everysec) {
            auto const from = now() - some(std::chrono::seconds(1));
            guarded::version as_of;
            for (auto const& v : it.had) {
                if (v.since <= from) as_of = v;
            }
            if (as_of.since != it.since) ++seen_.turned_back;
            it.has = as_of.has;
        } else if (had >= 0) {
            ++seen_.kept_all;
        }
        it.had.clear();
        it.since = now();
        it.had.push_back({now(), it.has});
        if (had >= 0 && it.has.holder != had) ++seen_.forgotten;
        it.run = ++runs_;
        it.history = ++histories_;
        it.replica = it.promoted = it.emptied = false;
        it.flushes = 0;
        it.started = now();
        // Models a machine that boots with a wrong time, which is corrected later.
        it.set_after_start =
            !setup_.aged && one_in(3) ? duration(some(max_ttl_ * 2)) : duration::zero();
        it.down_until = std::max(it.down_until, now() + down);
        for (unsigned c = 0; c < clients_.size(); ++c) break_connection(c, i, down + travel());
    }

    // Messages under way are lost. The client hears of it a little later, or when it runs.
    void break_connection(unsigned c, unsigned i, true_time span) {
        if (!clients_[c].alive) return;
        sever(c, i);
        auto const epoch = clients_[c].connections[i].epoch;
        at(std::min(travel(), span), clients_[c], [this, c, i, epoch] { on_broken(c, i, epoch); });
        reconnect_after(c, i, span);
    }

    //
    // Commands of an instance
    //

    void set(instance& it, content const& has) {
        it.has = has;
        it.since = now();
        it.had.push_back({now(), has});
        // The first entry is older than a second, the most that can be lost.
        while (it.had.size() > 1 && it.had[1].since <= now() - 1'000'000'000) it.had.pop_front();
    }

    void expire(instance& it) const { it.expire(wall(it).count()); }

    bool execute(unsigned c, unsigned i, message& m, bool /*ghost*/) override {
        auto& it = instances_[i];
        m.executed = now();
        if (m.question == ask::probe) it.listeners.insert(c);
        if (!m.votes) {
            m.shown = wall(it);
            m.origin = {.run = it.run,
                        .history = it.history,
                        .flushes = it.flushes,
                        .promoted = it.promoted,
                        .durable = it.keeps == persistence::always};
            m.replica = it.replica;
            m.uptime = duration(now() - it.started) + it.set_after_start;
            return true;
        }
        if (it.replica) {
            m.said = verdict::refused;
            return true;
        }
        expire(it);
        auto has = it.has;
        auto const lives = clients_[tenures_[m.tenure].client].ttl;
        auto const done = carry_out(has, m.op, m.tenure, (wall(it) + lives).count());
        if (done.changed) set(it, has);
        m.said = done.said;
        return true;
    }

    //
    // The knowledge of a client
    //

    bool doubted(unsigned c, unsigned i) const {
        auto const& conn = clients_[c].connections[i];
        return conn.doubted.active(local(c)) ||
               (conn.clock_doubt.active(local(c)) && local(c) < conn.in_doubt_until);
    }

    /// True if the clock jumped without the client's knowledge while a key from before `when` could
    /// exist.
    bool jumped_unknown(unsigned c, unsigned i, true_time when) const {
        auto const known = clients_[c].connections[i].known_until;
        auto const& jumps = instances_[i].jumps;
        return std::any_of(jumps.begin(), jumps.end(), [&](true_time j) {
            return j > known && j <= when && j > when - (max_ttl_ + max_ttl_ / 100).count();
        });
    }
    bool knows_all(unsigned c) const {
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (jumped_unknown(c, i, now())) return false;
        }
        return true;
    }

    guards_tally& seen_;
    guards_setup setup_;
    duration max_ttl_{}, shortest_{}, timeout_{}, delay_{};
    true_time warm_ = 0, horizon_ = 0, quiet_at_ = 0;
    std::deque<tenure_state> tenures_;
    std::optional<true_time> last_jump_;

private:
    std::uint64_t runs_ = 0, histories_ = 0;
};

} // namespace holdfast::test

#endif
