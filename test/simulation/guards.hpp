// A world in which what Redlock assumes of instances does not hold, and the guards against that.
//
// Instances restart as new processes that have forgotten all, the last second or nothing; they are
// flushed, or become replicas for a while and then have another server's data; and their wall
// clocks jump, by which keys expire. A flush and replaced data are announced to those who are
// connected. Each client has the real restart guard, clock guard and quarantine for each instance,
// and uses them as redis::link does: it asks on each connection who the server is and what time,
// before anything else counts, and the time every second, like a client that has something to send
// (an idle one asks less often, and before its next command); what a quarantined instance grants
// does not count and is given back; new rounds pass it by, but extensions, releases and heals go to
// it. Everything follows from a seed. A client's machine can stand still, with its clock and all
// that runs on it.
//
// Properties:
//   S1      no two leases are valid at once, each by its holder's clock (see doc/guarantees.md).
//           Where clocks jump, this is asserted of
//           - two leases whose grants came before any jump that their clients did not know,
//           - and any two, if the client of one knew of all jumps when it asked, and none came
//             since.
//           Where clients' clocks stand still, of leases whose clients have noticed each
//           standstill;
//   alarm   no clock that has only drifted counts as jumped, however slow the answers are;
//   ours    the next server check notices a standstill of a client's clock, and no instance is in
//           quarantine for it;
//   theirs  jumps of servers' clocks are not taken for a standstill, if there is an instance whose
//           clock did not jump;
//   notice  the next server check notices a jump without another explanation, and comes in time;
//   live    a wanted key that is free is had, once the last restart is longer ago than the longest
//           ttl, or while only a minority is in quarantine. It is not had while a majority is.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_HPP

#include "protocol/clock_doubt.hpp"
#include "protocol/clock_guard.hpp"
#include "protocol/quarantine.hpp"
#include "protocol/restart_guard.hpp"
#include "protocol/standstill.hpp"
#include "protocol/tenure.hpp"

#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using protocol::command;
using protocol::duration;
using protocol::event;
using protocol::instance_set;
using protocol::time_point;
using protocol::verdict;

/// How often what the properties are about has happened: schedules in which nothing happens prove
/// nothing.
struct guards_tally {
    std::uint64_t won = 0, contended = 0, no_quorum = 0, extended = 0, lost = 0, released = 0,
                  healed = 0, restarts = 0, all_restarted = 0, forgotten = 0, turned_back = 0,
                  kept_all = 0, setting_changes = 0, doubted = 0, prolonged = 0, late_starters = 0,
                  uncounted = 0, left_out = 0, won_beside = 0, kept_by_doubted = 0,
                  kept_by_healed = 0, jumps = 0, small_jumps = 0, jumps_back = 0, alarms = 0,
                  slow_looks = 0, known_all = 0, blind_overlaps = 0, standstills = 0, moved = 0,
                  excused = 0, misread = 0, final_wins = 0, final_refusals = 0, flushes = 0,
                  replacements = 0, announced = 0, missed = 0, refused_by_replica = 0;
};

/// How the guards are used. Broken ones differ.
struct guards_as_they_are {
    /// Whether an instance is to be doubted that says this of itself when it connects.
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.connected(now) != protocol::forgetting::none;
    }
    /// The same each second.
    static bool doubts_later(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.looked(now, true) != protocol::forgetting::none;
    }
    /// Whether it is doubted when it announces that its keys are gone.
    static constexpr bool hears() { return true; }
    /// For how long, when the server says that it has been up for so long.
    static duration doubted_for(duration max_ttl, duration /*uptime*/) { return max_ttl; }
    /// Whether a jump of its clock makes it so.
    static constexpr bool heeds_jumps() { return true; }
    /// Whether what it grants counts all the same, if it was asked before.
    static constexpr bool counts_what_arrives() { return false; }
    /// Whether what it extends counts.
    static constexpr bool counts_extensions() { return true; }
    /// For how long grants are in doubt after a jump by up to `most`.
    static duration in_doubt_for(duration max_ttl, duration /*most*/) { return max_ttl; }
    /// By how much deadlines are moved after a standstill.
    static duration moves(protocol::standstill::finding const& f) { return f.by; }
    /// Whether no server's clock has jumped.
    static bool is_ours(protocol::standstill::finding const& f) { return f.is_ours; }
    /// Whether a grant counts that came so long after it was asked for, where no ttl is shorter
    /// than that.
    static bool counts_grant(duration /*after*/, duration /*shortest_ttl*/) { return true; }
};

struct guards_setup {
    bool observed = true, strict = false;
    bool restarts = true;
    bool jumps = false;
    bool replacements = false;  ///< instances are flushed, and become replicas for a while
    bool late_starters = false; ///< some clients start when instances have restarted before
    enum {
        never,
        when_seen, ///< at a restart, if all clients have seen how it was before
        unseen
    } settings_change = when_seen;
    bool long_rounds = false; ///< an acquire may take longer than another's ttl
    bool slow = false;        ///< no faults but slow answers, stopped clients and drift
    bool single = false;      ///< one jump, and nothing else
    bool all_but_one = false; ///< the same, of all instances but one together
    bool away = false; ///< one client is cut off, and instances jump by different amounts meanwhile
    bool standstills = false;
    bool lone_standstill = false; ///< one, and nothing else
};

namespace guarded {

enum class ask : std::uint8_t {
    vote,
    look, ///< TIME, run id, settings and where its data comes from
    probe ///< the same
};

struct message : test::message {
    ask question = ask::vote;
    time_point sent{};
    // The reply:
    true_time executed = 0;
    duration shown{}, uptime{};
    protocol::data_origin origin{};
    bool replica = false;
};

/// Until it has been probed for the first time commands wait.
struct link : connection<message> {
    link(bool observed, bool strict, duration longest)
        : restarts(observed, strict)
        , clock(longest)
        , clock_doubt(longest) {}

    bool probed = false, asking = false;
    std::deque<message> waiting;

    protocol::restart_guard restarts;
    protocol::clock_guard clock;
    protocol::clock_doubt clock_doubt;
    time_point in_doubt_until{}; ///< the guards may have it that this is earlier
    protocol::quarantine doubted;
    std::uint64_t run_seen = 0;

    // What the world knows:
    true_time known_until = std::numeric_limits<true_time>::min(); ///< all jumps before
    bool looked = false, absent = false;
    time_point looked_from{}, looked_to{};
    duration offset_seen{};
};

struct client : test::client<link> {
    std::int64_t ppm = 0;
    duration ttl{};
    bool watched = true, alive = false;
    int current = nobody; ///< tenure
    std::uint64_t timer = 0;
    protocol::standstill standstill{1, duration::zero()};
    std::vector<std::pair<true_time, true_time>> stops; ///< of its clock
    duration unnoticed{};                               ///< how much of them it has not noticed
};

enum class persistence : std::uint8_t {
    none,
    everysec,
    always
};

/// The contents of an instance, as its disk may have them.
struct version {
    true_time since = 0;
    content has{};
};

/// Its keys expire by its wall clock.
struct instance : test::instance {
    persistence keeps = persistence::none;
    std::uint64_t run = 0;
    std::uint64_t history = 0; ///< of its data
    bool replica = false, promoted = false;
    bool emptied = false; ///< in this life of its process
    std::uint64_t flushes = 0;
    duration offset{}; ///< of its wall clock
    true_time started = 0;
    duration set_after_start{}; ///< how far its clock was set ahead before it served anybody
    true_time since = 0;        ///< the last change of its key
    std::deque<version> had;
    std::vector<true_time> jumps;
};

} // namespace guarded

template <class Guards>
class guarded_world : network<guarded::client, guarded::instance> {
public:
    guarded_world(std::uint64_t seed, guards_tally& seen, guards_setup const& setup,
                  std::ostream* story = nullptr)
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
            c.watched = !one_in(3);
            c.standstill = protocol::standstill(static_cast<unsigned>(instances_.size()), max_ttl_);
            for (unsigned i = 0; i < instances_.size(); ++i) {
                c.links.emplace_back(setup_.observed, setup_.strict, max_ttl_);
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
            i.offset = duration(between(-1'000'000'000'000, 1'000'000'000'000));
        }
        // Everybody has met every instance by then.
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
        plan();
    }

    /// The property that was violated and how, or nothing.
    std::string run() {
        while (!done_ && happens()) {
        }
        if (violation().empty() && !done_) fail("live", "the schedule ended before it was done");
        return violation();
    }

private:
    using phase = protocol::tenure::phase;
    using ask = guarded::ask;
    using client = guarded::client;
    using instance = guarded::instance;
    using persistence = guarded::persistence;

    static constexpr duration look_period = std::chrono::seconds(1);

    struct tenure_state {
        unsigned client;
        protocol::tenure machine;
        time_point began{};
        true_time asked = 0;
        bool knew_all = false;   ///< of all jumps there had been, when it asked
        bool over = false;       ///< lost, released, or never won
        instance_set blind{};    ///< granted, after a jump that the client did not know of
        bool won_blind = false;  ///< by a grant of one of them
        instance_set healed{};   ///< by a heal that arrived
        instance_set extended{}; ///< by the present round
        std::uint32_t round = 0;
    };

    //
    // Chance and time
    //

    /// Mostly about delay_, now and then far more.
    true_time travel() override {
        if (setup_.slow && one_in(20)) return some(std::chrono::seconds(10));
        return 1 + some(one_in(10) ? delay_ * 8 : delay_);
    }
    persistence any_persistence() {
        return std::array{persistence::none, persistence::everysec, persistence::always}[below(3)];
    }

    /// What the client's clock shows.
    time_point local(unsigned c) const {
        auto t = now();
        for (auto const& [from, to] : clients_[c].stops) t -= std::clamp(now(), from, to) - from;
        return time_point(std::chrono::hours(1) + duration(stretched(t, clients_[c].ppm)));
    }
    duration wall(instance const& i) const { return i.offset + duration(stretched(now(), i.ppm)); }
    bool held(tenure_state const& t) const {
        // Also when its holder has been told of its loss: he has until the deadline to end what he
        // does.
        auto const has = t.machine.where() == phase::held || t.machine.where() == phase::ending;
        return !t.over && has && local(t.client) < t.machine.deadline();
    }

    //
    // What happens to them
    //

    void plan() {
        auto const when = [this] { return warm_ + some(duration(horizon_ - warm_)); };
        if (setup_.long_rounds) {
            // Search where it may be found: one client cannot reach this instance, the other that
            // one, and a third one's answer decides for neither.
            auto const soon = [this] { return warm_ + some(max_ttl_ / 4); };
            for (auto n = 1 + below(3); n > 0; --n)
                plan_break(soon(), 0, one_in(2) ? 0 : 1, max_ttl_.count() / 10);
            plan_stall(soon(), 1, 1, max_ttl_.count() / 5 + some(max_ttl_ / 2));
            plan_break(soon() + max_ttl_.count() / 8, 0, 1, max_ttl_.count());
            at(soon(), [this] { restart(0, 1, persistence::none); });
        } else if (setup_.settings_change == guards_setup::unseen) {
            // One client is away while instances have a life in which they log nothing.
            auto const t = when();
            for (unsigned i = 0; i < instances_.size(); ++i) {
                instances_[i].keeps = persistence::always;
                auto const forgets = t + some(max_ttl_ / 16);
                plan_break(t, 0, i, max_ttl_.count() / 2);
                at(forgets, [this, i] { restart(i, 1, persistence::none); });
                at(forgets + some(max_ttl_ / 4), [this, i] { restart(i, 1, persistence::always); });
            }
        } else if (setup_.lone_standstill) {
            plan_standstill(when(), noticeable(max_ttl_));
        } else if (setup_.all_but_one) {
            auto const by = noticeable(max_ttl_ * 2);
            auto const t = when();
            auto const spared = some_instance();
            for (unsigned i = 0; i < instances_.size(); ++i) {
                if (i != spared) at(t, [this, i, by] { jump(i, by, true); });
            }
        } else if (setup_.away) {
            plan_absence(when());
        } else if (setup_.single) {
            auto const i = some_instance();
            auto const by = noticeable(max_ttl_ * 2);
            at(when(), [this, i, by] { jump(i, by, true); });
        } else if (setup_.slow) {
            for (auto n = below(6); n > 0; --n) plan_pause(when());
            for (auto n = below(4); n > 0; --n) plan_break(when());
        } else {
            if (setup_.restarts) {
                for (auto n = 1 + below(3); n > 0; --n) plan_restarts(when());
            }
            if (setup_.jumps) {
                for (auto n = 1 + below(3); n > 0; --n) plan_jumps(when());
            }
            if (setup_.standstills) {
                for (auto n = 1 + below(3); n > 0; --n)
                    plan_standstill(when(), noticeable(max_ttl_));
            }
            if (setup_.replacements) {
                for (auto n = 1 + below(3); n > 0; --n) plan_replacements(when());
            }
            for (auto n = one_in(3) ? 0 : below(2 + 2 * instances_.size()); n > 0; --n) {
                switch (below(4)) {
                case 0:
                    plan_pause(when());
                    break;
                case 1:
                    plan_stall(when());
                    break;
                case 2:
                    plan_break(when());
                    break;
                default:
                    plan_freeze(when());
                    break;
                }
            }
        }
        // The last event, its discovery, the longest quarantine; and the keys that are left then.
        at(horizon_, [this] { await_quiet(); });
    }

    unsigned some_client() { return static_cast<unsigned>(below(clients_.size())); }
    unsigned some_instance() { return static_cast<unsigned>(below(instances_.size())); }
    true_time some_span() { return some(one_in(3) ? max_ttl_ : max_ttl_ / 8) + 1; }

    void lasts_until(true_time t) { quiet_at_ = std::max(quiet_at_, t); }

    void plan_pause(true_time when) {
        auto const c = some_client();
        auto const span = some_span();
        lasts_until(when + span);
        at(when, [this, c, span] { pause(clients_[c], span); });
    }

    void plan_break(true_time when) {
        plan_break(when, some_client(), some_instance(), some_span());
    }
    void plan_break(true_time when, unsigned c, unsigned i, true_time span) {
        lasts_until(when + span);
        at(when, [this, c, i, span] { break_link(c, i, span); });
    }

    /// A network that loses every packet for a while: what was sent arrives after all, late.
    void plan_stall(true_time when) {
        plan_stall(when, some_client(), some_instance(), some_span());
    }
    void plan_stall(true_time when, unsigned c, unsigned i, true_time span) {
        lasts_until(when + span);
        at(when, [this, c, i, span] {
            auto& l = clients_[c].links[i];
            l.stalled_until = std::max(l.stalled_until, now() + span);
        });
    }

    void plan_freeze(true_time when) {
        auto const i = some_instance();
        auto const span = some_span();
        lasts_until(when + span);
        at(when, [this, i, span] { freeze(i, span); });
    }

    /// Of any number, all together or one after the other.
    void plan_restarts(true_time when) {
        auto const count = one_in(4) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        if (count == instances_.size()) ++seen_.all_restarted;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            auto const down = one_in(2) ? some(delay_ * 4) : some_span() / 4;
            auto const t = when + some(apart);
            lasts_until(t + down);
            at(t, [this, i, down] { restart(i, down, std::nullopt); });
        }
    }

    /// A span that is not too small to be told from drift and delays.
    duration noticeable(duration most) {
        return 4 * look_period / 100 + duration(64 * delay_.count()) + duration(some(most));
    }

    void plan_standstill(true_time when, duration span) {
        auto const c = some_client();
        lasts_until(when + span.count());
        at(when, [this, c, span = span.count()] {
            auto& me = clients_[c];
            if (!me.alive || (!me.stops.empty() && now() <= me.stops.back().second)) return;
            ++seen_.standstills;
            me.stops.emplace_back(now(), now() + span);
            pause(me, span);
            me.unnoticed += duration(stretched(span, me.ppm));
            auto const trip = 32 * delay_.count() + 4;
            if (!setup_.lone_standstill || trip >= look_period.count()) return;
            at(span + look_period.count() + look_period.count() / 100 + trip, [this, c] {
                if (clients_[c].unnoticed > duration::zero())
                    fail("ours", "a standstill was not noticed");
                for (unsigned i = 0; i < instances_.size(); ++i) {
                    if (instances_.size() > 1 && doubted(c, i)) {
                        fail("ours", "an instance is in doubt after a standstill of ours");
                    }
                }
            });
        });
    }

    /// So long that the jumps differ by less than clocks may drift.
    void plan_absence(true_time when) {
        auto const c = some_client();
        auto const spared = some_instance();
        auto const least = max_ttl_ + protocol::standstill::longest_look;
        auto const span = least.count() + some(std::chrono::minutes(10));
        auto by = noticeable(max_ttl_ * 2) + protocol::redlock_rules::drift(max_ttl_);
        for (unsigned i = 0; i < instances_.size(); ++i) {
            // The one that could tell comes back last.
            plan_break(when, c, i, i == spared ? 2 * span : span);
            if (i == spared) continue;
            at(when + 1 + some(duration(span)), [this, i, by] { jump(i, by); });
            by += noticeable(std::chrono::milliseconds(1));
        }
    }

    void plan_jumps(true_time when) {
        auto const count = one_in(3) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            std::array<duration, 5> const sizes{std::chrono::milliseconds(20), max_ttl_ / 10,
                                                max_ttl_, max_ttl_ * 2, std::chrono::seconds(120)};
            duration const size(1 + some(sizes[below(sizes.size())]));
            auto const t = when + some(apart);
            auto const back = one_in(5);
            lasts_until(t);
            at(t, [this, i, size, back] { jump(i, back ? -size : size); });
            if (!one_in(4)) continue;
            auto const later = t + some(one_in(2) ? look_period : max_ttl_);
            lasts_until(later);
            at(later, [this, i, size, back] { jump(i, back ? size : -size); });
        }
    }

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
        if (!must_be_noticed || trip >= look_period.count()) return;
        at(look_period.count() + look_period.count() / 100 + trip, [this, i, when = now()] {
            for (auto const& c : clients_) {
                if (c.links[i].known_until < when) fail("notice", "a jump was not noticed in time");
            }
        });
    }

    /// Of any number, all together or one after the other.
    void plan_replacements(true_time when) {
        auto const count = one_in(4) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            auto const t = when + some(apart);
            auto const synced = t + some(delay_ * 8);
            auto const promoted = synced + (one_in(2) ? some(delay_ * 8) : some_span() / 4);
            lasts_until(promoted);
            if (one_in(2)) {
                at(t, [this, i] { flush(i); });
                continue;
            }
            at(t, [this, i] { instances_[i].replica = true; });
            at(synced, [this, i] { replace(i); });
            at(promoted, [this, i] { promote(i); });
        }
    }

    void flush(unsigned i) {
        auto& it = instances_[i];
        if (it.replica) return; // refused
        ++seen_.flushes;
        ++it.flushes;
        set(it, content{});
        announce(i);
    }

    /// It has the data of a server that never heard of the lock, or of one with an older state of
    /// it.
    void replace(unsigned i) {
        auto& it = instances_[i];
        if (!it.replica) return; // it has restarted
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
        // What it forgot in a life that a client has not seen to its end, that client cannot know;
        // and it would trust the next one.
        if (it.emptied && it.keeps == persistence::always && !as) return;
        ++seen_.restarts;
        // A second restart while it is down or not yet met: the former run was seen by nobody.
        auto const seen_by_all =
            std::all_of(clients_.begin(), clients_.end(),
                        [&](client const& c) { return !c.alive || c.links[i].run_seen == it.run; });
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
        // What is not logged now was not read at the start either.
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
        // As when a machine boots with a wrong time and is told the right one.
        it.set_after_start = one_in(3) ? duration(some(max_ttl_ * 2)) : duration::zero();
        it.down_until = std::max(it.down_until, now() + down);
        for (unsigned c = 0; c < clients_.size(); ++c) break_link(c, i, down + travel());
    }

    // What has not arrived never will. The client hears of it a little later, or when it runs.
    void break_link(unsigned c, unsigned i, true_time span) {
        if (!clients_[c].alive) return;
        sever(c, i);
        auto const epoch = clients_[c].links[i].epoch;
        at(std::min(travel(), span), clients_[c], [this, c, i, epoch] { on_broken(c, i, epoch); });
        reconnect_after(c, i, span);
    }

    void on_broken(unsigned c, unsigned i, unsigned epoch) {
        auto& l = clients_[c].links[i];
        if (l.session >= epoch) return; // connected anew since
        l.up = false;
        l.probed = false;
        l.asking = false;
        judge_clock(c);
        lose(c, i);
        for (auto& m : std::exchange(l.waiting, {})) {
            if (!m.answered) tell(m, i, verdict::unsent);
        }
    }

    void on_silence(unsigned c, unsigned i, message& m) override {
        auto& l = clients_[c].links[i];
        if (!m.answered) tell(m, i, verdict::unknown);
        if (!l.up && m.op == command::release) l.kept.push_back({m.tenure, now()});
    }

    //
    // The wire
    //

    void start(unsigned c) {
        clients_[c].alive = true;
        for (unsigned i = 0; i < instances_.size(); ++i) connect(c, i);
        at(some(max_ttl_ / 8), clients_[c], [this, c] { start_acquire(c); });
    }

    void on_reconnected(unsigned c, unsigned i) override { connect(c, i); }

    void connect(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        if (now() < instances_[i].down_until)
            return reconnect_after(c, i, instances_[i].down_until - now() + travel());
        on_broken(c, i, l.epoch); // if that has not been heard yet
        l.session = l.epoch;
        l.last_arrival = l.last_reply = now();
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
        auto& l = clients_[c].links[i];
        if (!l.available()) {
            if (op == command::release) l.kept.push_back({t, now()});
            return;
        }
        auto m = vote(t, op, round);
        if (l.probed) return send(c, i, m);
        m.serial = ++waited_;
        l.waiting.push_back(m);
        at(real(timeout_, clients_[c].ppm), clients_[c], [this, c, i, m] {
            auto& at = clients_[c].links[i];
            if (std::erase_if(at.waiting, [&](auto const& w) { return w.serial == m.serial; }) == 0)
                return;
            tell(m, i, verdict::unsent);
            if (m.op == command::release) clients_[c].links[i].kept.push_back({m.tenure, now()});
        });
    }

    void send(unsigned c, unsigned i, message const& m) {
        auto const serial = transmit(c, i, m);
        if (m.answered || m.question == ask::probe) return;
        at(real(timeout_, clients_[c].ppm), clients_[c], [this, c, i, serial] {
            if (is_awaited(c, i, serial) && clients_[c].links[i].probed) become_suspect(c, i);
        });
    }

    void send_kept(unsigned c, unsigned i) {
        for (auto const& k : std::exchange(clients_[c].links[i].kept, {})) {
            auto m = vote(k.tenure, command::release);
            m.answered = true;
            send(c, i, m);
        }
    }

    void become_suspect(unsigned c, unsigned i) {
        clients_[c].links[i].suspect = true;
        judge_clock(c);
        give_up_answers(c, i);
    }

    void on_reply(unsigned c, unsigned i, message& m) override {
        auto& l = clients_[c].links[i];
        if (m.pushed) {
            if (Guards::hears() && l.restarts.emptied()) doubt(c, i, max_ttl_);
            return;
        }
        if (m.question == ask::probe) return on_probed(c, i, m);
        if (std::exchange(l.suspect, false)) send_kept(c, i);
        if (m.question == ask::look) {
            l.asking = false;
            on_time_told(c, i, m);
            if (m.replica) return leave_replica(c, i);
            if (Guards::doubts_later(l.restarts, m.origin)) doubt(c, i, max_ttl_);
            return;
        }
        if (!m.answered) tell(m, i, m.said);
        if (m.said != verdict::refused) return;
        ++seen_.refused_by_replica;
        leave_replica(c, i);
    }

    /// It is a replica: the client tries again later.
    void leave_replica(unsigned c, unsigned i) {
        clients_[c].links[i].restarts.is_replica();
        break_link(c, i, travel());
    }

    //
    // The guards, as redis::vote_guard uses them
    //

    bool doubted(unsigned c, unsigned i) const {
        auto const& l = clients_[c].links[i];
        return l.doubted.active(local(c)) ||
               (l.clock_doubt.active(local(c)) && local(c) < l.in_doubt_until);
    }

    void doubt(unsigned c, unsigned i, duration for_how_long) {
        ++seen_.doubted;
        if (doubted(c, i)) ++seen_.prolonged;
        clients_[c].links[i].doubted.begin(local(c), for_how_long);
    }

    void on_probed(unsigned c, unsigned i, message const& m) {
        auto& l = clients_[c].links[i];
        on_time_told(c, i, m);
        if (m.replica) return leave_replica(c, i);
        if (Guards::doubts(l.restarts, m.origin))
            doubt(c, i, Guards::doubted_for(max_ttl_, m.uptime));
        l.run_seen = m.origin.run;
        l.probed = true;
        l.up = true;
        l.suspect = false;
        send_kept(c, i);
        for (auto const& w : std::exchange(l.waiting, {})) send(c, i, w);
        look_later(c, i, l.session);
    }

    void look_later(unsigned c, unsigned i, unsigned session) {
        at(real(look_period, clients_[c].ppm), [this, c, i, session] {
            if (clients_[c].links[i].session != session || done_) return;
            on_client(c, [this, c, i, session] {
                auto& l = clients_[c].links[i];
                if (l.session != session || !l.probed) return;
                if (l.available() && !std::exchange(l.asking, true)) {
                    send(c, i, question(c, ask::look));
                }
                look_later(c, i, session);
            });
        });
    }

    void on_time_told(unsigned c, unsigned i, message const& m) {
        auto& l = clients_[c].links[i];
        auto const received = local(c);
        // For longer than the guard allows drift to go on.
        if (l.looked && received - l.looked_from > max_ttl_) l.absent = true;
        auto const jumped = l.clock.told(m.sent, received, m.shown);
        if (Guards::heeds_jumps()) l.clock_doubt.looked(received, jumped > duration::zero());
        if (received - m.sent > std::chrono::seconds(5)) ++seen_.slow_looks;
        auto const offset_then = m.shown - duration(stretched(m.executed, instances_[i].ppm));
        if (jumped > duration::zero()) {
            ++seen_.alarms;
            if (setup_.slow && !l.absent)
                fail("alarm", "a clock that never jumped is said to have");
            l.known_until = m.executed;
            l.absent = false;
            if (Guards::heeds_jumps()) {
                ++seen_.doubted;
                l.in_doubt_until =
                    std::max(l.in_doubt_until,
                             received + Guards::in_doubt_for(max_ttl_, l.clock.last().most));
            }
        } else if (l.looked && clients_[c].stops.empty() && !misread_) {
            // What the two looks leave open, and what drift may have added or taken meanwhile.
            auto const between_looks = received - l.looked_from;
            auto const open =
                (l.looked_to - l.looked_from) + (received - m.sent) +
                protocol::redlock_rules::drift(std::min<duration>(between_looks, max_ttl_)) +
                between_looks / 100;
            if (offset_then - l.offset_seen > open)
                fail("notice", "a jump was looked at and not seen");
        }
        l.looked = true;
        l.looked_from = m.sent;
        l.looked_to = received;
        l.offset_seen = offset_then;
        clients_[c].standstill.looked(i, l.clock.last());
        judge_clock(c);
    }

    // As the engine does.
    void judge_clock(unsigned c) {
        auto& me = clients_[c];
        if (!me.standstill.in_doubt() || !Guards::heeds_jumps()) return;
        instance_set there;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (me.links[i].probed && me.links[i].available()) there.insert(i);
        }
        me.standstill.to_ask(there).for_each([&](unsigned i) {
            if (std::exchange(me.links[i].asking, true)) return;
            send(c, i, question(c, ask::look));
        });
        auto const found = me.standstill.judge(there);
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
        if (!stood && found.is_new && found.is_ours) {
            ++seen_.misread;
            misread_ = true;
        }
        if (setup_.single || setup_.all_but_one || setup_.away)
            fail("theirs", "a server's jump was taken for a standstill");
        for (unsigned i = 0; i < instances_.size(); ++i) {
            auto& l = me.links[i];
            if (found.who.contains(i)) {
                ++seen_.excused;
                l.clock_doubt.excuse();
            } else {
                l.clock.stood_still(found.from, found.to, found.least, found.most);
            }
        }
    }

    /// Whether it has jumped, unknown to the client, when keys existed that may have been there at
    /// `when`.
    bool jumped_unknown(unsigned c, unsigned i, true_time when) const {
        auto const known = clients_[c].links[i].known_until;
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

    //
    // An instance
    //

    void set(instance& it, content const& has) {
        it.has = has;
        it.since = now();
        it.had.push_back({now(), has});
        // One of them is older than what can be lost.
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
        tenures_.push_back({c, {size(), me.ttl, me.watched}});
        auto& state = tenures_.back();
        me.current = static_cast<int>(t);
        state.began = local(c);
        state.asked = now();
        state.knew_all = knows_all(c);
        if (state.knew_all) ++seen_.known_all;
        apply(t, state.machine.acquire(local(c), voters(c)));
    }

    void tell(message const& m, unsigned i, verdict v) {
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
        auto const was_held = state.machine.where() == phase::held;
        auto const deadline = state.machine.deadline();
        auto const step = state.machine.answer(m.op, m.round, i, v, local(c));
        if (step.what == event::extended) {
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
        apply(m.tenure, step);
    }

    void apply(unsigned t, protocol::step const& s) {
        auto& state = tenures_[t];
        seen_.healed += s.heal.size();
        send_all(s, state.machine.round_number(),
                 [&](unsigned i, command op, std::uint32_t round) { submit(t, i, op, round); });
        switch (s.what) {
        case event::won:
            on_won(t);
            break;
        case event::contended:
            ++seen_.contended;
            on_failed(t);
            break;
        case event::no_quorum:
            ++seen_.no_quorum;
            on_failed(t);
            break;
        case event::expired:
        case event::cancelled:
            on_failed(t);
            break;
        case event::extended:
            ++seen_.extended;
            break;
        case event::lost:
            if (state.over) break;
            ++seen_.lost;
            if (state.machine.where() == phase::ending) break;
            state.over = true;
            next(state.client);
            break;
        case event::ended:
            if (!std::exchange(state.over, true)) next(state.client);
            break;
        case event::released:
            ++seen_.released;
            break;
        case event::none:
        case event::renewal_due:
        case event::inspected: // nobody asks
        case event::arbiter_won:
        case event::arbiter_refused:
        case event::arbiter_failed:
        case event::extension_failed:
        case event::release_unconfirmed:
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
        if (state.over || state.machine.where() != phase::held || state.machine.extending()) return;
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

    // One timer, for what the machine says.
    void arm(unsigned c) {
        auto& me = clients_[c];
        auto const timer = ++me.timer;
        if (me.current < 0) return;
        auto const t = static_cast<unsigned>(me.current);
        if (tenures_[t].over) return;
        auto const wake = tenures_[t].machine.wake();
        if (!wake) return;
        at(real(std::max(*wake - local(c), duration(0)), me.ppm), me, [this, c, t, timer] {
            if (clients_[c].timer == timer) on_time(c, t);
        });
    }

    void on_time(unsigned c, unsigned t) {
        auto& state = tenures_[t];
        auto const step = state.machine.time(local(c));
        if (step.what == event::renewal_due) return begin_extension(t);
        apply(t, step);
    }

    //
    // When all is quiet: each client asks once, in turn
    //

    enum class finale : std::uint8_t {
        all_well,
        minority_doubted,
        majority_doubted,
        well_again
    };

    /// By then the last event was noticed, and what was begun then is over.
    true_time until_trusted() const {
        return (max_ttl_ + max_ttl_ / 50).count() + 2 * look_period.count() + 100 * delay_.count() +
               2 * timeout_.count();
    }

    void await_quiet() {
        // Leases that were won before, and are held for twice the longest ttl, and their keys.
        auto const quiet = std::max(quiet_at_, horizon_ + 2 * max_ttl_.count()) + until_trusted();
        if (setup_.slow || setup_.long_rounds || setup_.single || setup_.all_but_one ||
            setup_.lone_standstill) {
            at(quiet - now(), [this] { done_ = true; });
            return;
        }
        at(quiet - now(), [this] {
            // On an instance whose clock was set back a key can stay for longer, when its release
            // was lost.
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

    guards_tally& seen_;
    guards_setup setup_;
    duration max_ttl_{}, shortest_{}, timeout_{}, delay_{};
    true_time warm_ = 0, horizon_ = 0, quiet_at_ = 0;
    std::deque<tenure_state> tenures_;
    std::uint64_t waited_ = 0; ///< messages that waited for a probe
    std::optional<true_time> last_jump_;
    std::optional<finale> last_;
    unsigned turn_ = 0;
    std::uint64_t runs_ = 0, histories_ = 0;
    bool misread_ = false; ///< jumps that no instance contradicted were taken for a standstill
    bool done_ = false;
};

} // namespace holdfast::test

#endif
