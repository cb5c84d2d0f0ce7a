// A world in which processes contend for one key: the real wait queue and the real tenure in each
// of them, driven as the engine drives them, against simulated instances that answer, expire and
// push as Redis does.
//
// Everything follows from a seed. A schedule is either calm (no faults; then it is also measured
// what an acquisition costs, and who gets how many) or faulty: links break, instances freeze and
// crash, processes are killed while they hold the key, strangers take it. No instance forgets a key
// before its time, unless the schedule is `forgetful`, and then S1 is not looked at.
//
// Properties: S1 no two valid leases, S3 nobody's key is deleted while its holder holds, S4 no key
// left behind, L no wake-up is lost (a key that is free, and wanted, is had within a bound), L3
// every call settles, L5 a minority that is silent, and never suspected, holds up no try and no
// release, FIFO within a process, cost the commands of an acquisition, fairness between processes,
// forget that an empty queue goes.
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_HPP

#include "protocol/arbiter.hpp"
#include "protocol/tenure.hpp"
#include "protocol/wait_queue.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using namespace std::chrono_literals;

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::queue_effect;
using protocol::round_trip;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

/// How often what the properties are about has happened: schedules in which nothing happens prove
/// nothing.
struct contest_tally {
    std::uint64_t leases = 0, tenures = 0, handoffs = 0, pushes = 0, wasted = 0, splits = 0,
                  stand_backs = 0, own_releases = 0, cancelled = 0, heads_cancelled = 0,
                  cancelled_when_granted = 0, timed_out = 0, refused = 0, given_up = 0,
                  no_quorum = 0, lost = 0, deaths = 0, disconnects = 0, suspects = 0, expiries = 0,
                  flushes = 0, resent = 0, kept = 0, late_ttls = 0, foreign = 0, forgotten = 0,
                  outages = 0, measured = 0, stops = 0, overslept = 0, silences = 0, late_tries = 0,
                  late_arbiters = 0, late_releases = 0, late_inspections = 0, moved = 0,
                  watches = 0, listens = 0, stays = 0, remnants = 0, rescued = 0;
    double longest_try = 0; ///< or release, beside a silent minority, as a part of its bound
    double most_tries =
        0; ///< of a process while one holder has the key, as a part of what is allowed
    double longest_wait = 0;        ///< of a free and wanted key, as a part of its bound
    double longest_quorum_wait = 0; ///< the same, where a minority keeps the key
    double highest_cost = 0;        ///< commands of an acquisition, as a part of what is allowed
    double smallest_share = 1e9; ///< of the leases, as a part of the fair share; of long runs only
    double smallest_turns = 1e9; ///< the same, of the tenures
};

/// What a driver owes the machines. Broken ones leave something out.
struct faithful_driver {
    static constexpr bool hears_own_release =
        true; ///< takes it for the push that NOLOOP keeps from it
    static constexpr bool hears_pushes = true;
    static constexpr bool starts_again =
        true; ///< asks for what is next after it has given a try up
    static constexpr bool keeps_the_turn =
        true; ///< releases what a waiter got that was just cancelled
    static constexpr bool knows_who_is_late = true;
};

/// A schedule for the measurements: calm, and everybody always wants the key.
struct contest_shape {
    unsigned processes, waiters, instances;
    unsigned turns;             ///< tenures for each process
    unsigned handoff_limit = 0; ///< none: chance decides
    bool steady = false; ///< messages take equally long, so that who is told first hears first
};

template <class Rules, class Driver = faithful_driver>
class contest {
public:
    /// `silent`: nothing happens but that a minority does not answer any more.
    contest(std::uint64_t seed, contest_tally& seen,
            std::optional<contest_shape> shape = std::nullopt, bool silent = false)
        : random_(seed)
        , seen_(seen)
        , silent_(silent) {
        calm_ = !silent && (shape || one_in(3));
        eager_ = shape || (calm_ && one_in(2));
        steady_ = shape && shape->steady;
        forgetful_ = !calm_ && !silent && one_in(8);
        static constexpr std::array sizes{1U, 3U, 3U, 3U, 5U, 5U, 7U};
        instances_.resize(shape ? shape->instances : sizes[below(sizes.size())]);
        static constexpr std::array crowds{2U, 2U, 2U, 3U, 3U, 4U, 5U, 8U};
        auto const how_many = one_in(300) ? 64U : one_in(50) ? 16U : crowds[below(crowds.size())];
        processes_.resize(shape ? shape->processes : silent && one_in(4) ? 1 : how_many);
        static constexpr std::array<std::int64_t, 4> delays_us{20, 100, 500, 2'000};
        delay_ = std::chrono::microseconds(delays_us[below(shape ? 3 : delays_us.size())]);
        static constexpr std::array<std::int64_t, 3> ttls_ms{200, 1'000, 10'000};
        ttl_ = std::chrono::milliseconds(calm_ ? 10'000 : ttls_ms[below(ttls_ms.size())]);
        timeout_ = 20 * max_travel();
        if (!calm_ && one_in(4))
            timeout_ = max_travel() * 3 / 2; // so that some that are well come too late
        static constexpr std::array<std::int64_t, 3> retries_ms{5, 50, 250};
        retry_ = std::chrono::milliseconds(retries_ms[below(retries_ms.size())]);
        static constexpr std::array limits{1U, 4U, 64U};
        handoff_limit_ = limits[below(limits.size())];
        if (shape && shape->handoff_limit > 0) handoff_limit_ = shape->handoff_limit;
        static constexpr std::array<std::int64_t, 3> handoffs_ms{0, 5, 50};
        handoff_time_ = std::chrono::milliseconds(handoffs_ms[below(handoffs_ms.size())]);
        hold_ = one_in(2) ? duration(1us) : 4 * delay_;
        auto const scripts = !one_in(4);
        for (auto& i : instances_) {
            i.ppm = between(-max_ppm, max_ppm);
            i.identity = random_();
            i.scripts = scripts;
            i.tracks = shape || !one_in(20);
            if (!i.tracks) untracked_ = true;
        }
        key_ = random_();
        for (unsigned p = 0; p < processes_.size(); ++p) {
            processes_[p].links.resize(instances_.size());
            auto const waiters =
                shape ? shape->waiters
                      : static_cast<unsigned>((eager_ ? 2 : 1) + below(one_in(8) ? 7 : 3));
            for (unsigned n = 0; n < waiters; ++n) {
                actors_.emplace_back();
                actors_.back().process = p;
                after(some(eager_ ? 2 * delay_ : hold_ + 10 * delay_), kind::want,
                      static_cast<unsigned>(actors_.size() - 1));
            }
        }
        auto const crowd = static_cast<unsigned>(actors_.size());
        if (shape) {
            turns_wanted_ = shape->turns * shape->processes;
        } else {
            turns_wanted_ = std::max(2 * crowd, 40 + static_cast<unsigned>(below(60)));
            if (eager_ && one_in(4)) turns_wanted_ *= 4; // to be measured
        }
        horizon_ = (hold_ + 10 * delay_).count() * turns_wanted_ / 2 + 1;
        stop_at_ = calm_ ? std::numeric_limits<true_time>::max() : horizon_ * 4 + ttl_.count();
        if (silent) {
            auto const most = instances_.size() - quorum();
            for (unsigned n = 0; n < most && (n == 0 || one_in(2)); ++n) {
                ++seen_.silences;
                after(some_of(horizon_ / 2), kind::freeze, n, 0,
                      static_cast<std::uint64_t>(stop_at_ * 2));
            }
        } else if (!calm_) {
            auto const faults = 1 + below(3 + 2 * instances_.size());
            for (unsigned n = 0; n < faults; ++n) plan_fault();
        } else if (!eager_ && one_in(2)) {
            // The only thing that goes wrong, so that the bound is as tight as without it.
            ttl_ = one_in(2) ? 200ms : 1'000ms;
            plan(some_of(horizon_), kind::kill);
        }
        // A push, the pauses of the one who is to try, the stand-back of who was the last to have
        // it, a try or two and their rounds; and by how much a clock may be wrong.
        auto const trips = 2 * static_cast<std::int64_t>(processes_.size()) + 8;
        auto const pauses =
            calm_ ? std::min<duration>(trips * 2 * max_travel(), longest_pause) : longest_pause;
        // For a key that a minority keeps, the pauses of key_watch, and a silent instance among
        // those it asks.
        bound_ = 16 * max_travel() + 2ms + 2 * pauses + ttl_ / 200;
        if (freezes_)
            bound_ +=
                ping_interval + (2 * static_cast<std::int64_t>(instances_.size()) + 2) * timeout_;
        if (untracked_) bound_ += 2 * retry_;
        // An idle waiter finds out by its next ping that the instance that is to push is silent.
        if (silent) bound_ += ping_interval + round_trip::soonest_late;
        decided_within_ = 12 * max_travel() + 2 * round_trip::first_patience;
        after(bound_.count() / 8, kind::tick);
    }

    contest(contest const&) = delete;
    contest& operator=(contest const&) = delete;
    ~contest() {
        for (auto& p : processes_) {
            if (p.queue) p.queue->abandon();
        }
    }

    /// The property that was violated and how, or nothing.
    std::string run() {
        while (!events_.empty() && violation_.empty() && (essential_ > 0 || queued_ > 0)) {
            auto const next = events_.top();
            events_.pop();
            now_ = next.when;
            if (!is_housekeeping(next.what)) --essential_;
            happen(next);
            if (++happened_ > most_events) fail("L", "the schedule does not come to an end");
        }
        if (violation_.empty()) check_end();
        if (calm_) check_measurements();
        return violation_;
    }

private:
    using true_time = std::int64_t; // nanoseconds
    using queue_machine = protocol::basic_wait_queue<Rules>;
    using tenure_phase = protocol::tenure_phase;

    /// Half the drift allowance of 1 %, on either side, less a bit.
    static constexpr std::int64_t max_ppm = 4'500;
    static constexpr duration longest_pause = 20ms; ///< of a waiter, or of a stand-back
    static constexpr duration ping_interval = 2500ms;
    static constexpr std::uint64_t most_events = 50'000'000;
    static constexpr int nobody = -1, stranger = -2;

    enum class kind : std::uint8_t {
        want,      ///< an actor asks for the key
        done,      ///< an actor gives its lease back
        time_out,  ///< an actor's patience ends
        cancel,    ///< an actor is cancelled
        arrive,    ///< something arrives at an instance
        deliver,   ///< something arrives at a process
        wake,      ///< a queue's timer
        tenure,    ///< a tenure's timer
        overdue,   ///< an answer should have come by now
        give_up,   ///< a suspect should have come back by now
        reconnect, ///< a link comes back
        ping,
        freeze,
        crash,
        cut,
        kill,
        stop,  ///< a process does not run for a while
        take,  ///< a stranger takes the key, without a ttl
        leave, ///< and deletes it
        flush_all,
        flush_scripts,
        expire, ///< an instance finds a key that has expired, if nobody has asked for it before
        tick,   ///< is there progress?
    };
    static bool is_housekeeping(kind k) { return k == kind::expire || k == kind::tick; }

    struct happening {
        true_time when;
        std::uint64_t order;
        kind what;
        unsigned a, b;
        std::uint64_t c;
        bool operator<(happening const& other) const {
            return std::pair(when, order) > std::pair(other.when, other.order);
        }
    };

    /// One who wants the key over and over again.
    struct actor : protocol::waiter {
        enum class state : std::uint8_t {
            idle,
            queued,
            holding,
            gone
        };
        unsigned process = 0;
        state is = state::idle;
        int tenure = nobody;
        std::uint64_t ticket = 0;  ///< of the acquire, or of the lease
        std::uint64_t arrived = 0; ///< the place in the queue
        bool total_cancel = false; ///< once its try has been sent, only without effect
        bool cancel_requested = false, cancelled_when_granted = false;
    };

    struct tenure_state {
        unsigned process;
        protocol::tenure machine;
        time_point asked{};   ///< when what is under way began: a try, an inspection, a release
        bool over = false;    ///< released, lost, given up or never won
        bool dead = false;    ///< its process was killed
        unsigned pending = 0; ///< commands that an instance may still carry out, and kept releases
        bool watches = false;
        actor* lease = nullptr;
        actor* releaser = nullptr; ///< who waits for the end of the release
        std::uint64_t timer = 0;
        time_point armed{};
    };

    struct answer {
        verdict said = verdict::unknown;
        std::optional<std::int64_t> pttl{}; ///< -2: gone, -1: for ever
        bool told = false;
        bool no_script = false;
    };

    struct sent_command {
        unsigned tenure;
        command what;
        std::uint32_t round;
        bool ping = false;
        bool answered = false;
        bool whole = false; ///< carries its script
        std::uint64_t serial = 0;
        time_point sent{};
    };

    struct request {
        sent_command sent;
        bool first_part = false; ///< of a contend: SET
    };

    struct response {
        enum class type : std::uint8_t {
            reply,
            push,
            push_for_all
        } is;
        answer what{};
    };

    struct kept_release {
        unsigned tenure;
        true_time since;
    };

    struct link {
        bool connected = true, suspect = false;
        unsigned epoch = 0; ///< counts the breaks
        std::deque<sent_command> in_flight{};
        std::deque<request> to_server{};
        std::deque<response> to_client{};
        verdict set = verdict::unknown;
        true_time last_arrival = 0, last_reply = 0, ended = 0;
        time_point heard{};
        std::uint64_t serial = 0;
        std::vector<kept_release> kept{};
        bool available() const { return connected && !suspect; }
    };

    struct process {
        bool alive = true;
        true_time stopped_until = 0;
        std::optional<queue_machine> queue;
        int tenure = nobody; ///< of the queue: its try, or what it has
        int watcher = nobody;
        bool settling = false;
        std::uint64_t timer = 0;
        std::optional<time_point> armed;
        std::vector<link> links;
        protocol::round_trips usual;
        instance_set newly_late;
        std::uint64_t tries = 0, head = 0,
                      period = 0; ///< refusals of the head since the holder last changed
        true_time last_turn = 0;
        std::uint64_t leases = 0, turns = 0, leases_before = 0, turns_before = 0;
    };

    struct instance {
        std::int64_t ppm = 0;
        std::uint64_t identity = 0;
        bool scripts = true, tracks = true;
        int holder = nobody;
        true_time expires = 0;
        std::uint64_t version = 0;
        true_time frozen_until = 0;
        std::set<unsigned> told; ///< the processes that are to hear of the next change
    };

    //
    // Chance and time
    //

    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    std::int64_t between(std::int64_t a, std::int64_t b) {
        return a + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(b - a + 1)));
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    true_time some_of(true_time t) {
        return static_cast<true_time>(below(static_cast<std::uint64_t>(t) + 1));
    }
    true_time some(duration d) { return some_of(d.count()); }
    /// Mostly about delay_, now and then more.
    true_time travel() {
        if (steady_) return delay_.count();
        return delay_.count() / 4 + some(one_in(10) ? delay_ * 3 : delay_);
    }
    duration max_travel() const { return delay_ / 4 + delay_ * 3; }

    void after(true_time t, kind what, unsigned a = 0, unsigned b = 0, std::uint64_t c = 0) {
        if (!is_housekeeping(what)) ++essential_;
        events_.push({now_ + t, ++order_, what, a, b, c});
    }

    time_point local() const { return time_point(duration(now_)); }
    static true_time real(duration d, std::int64_t ppm) {
        return static_cast<true_time>(static_cast<double>(d.count()) * 1e6 /
                                      static_cast<double>(1'000'000 + ppm)) +
               1;
    }

    unsigned quorum() const { return static_cast<unsigned>(instances_.size() / 2 + 1); }

    void fail(char const* property, std::string const& how) {
        if (violation_.empty()) {
            violation_ =
                std::string(property) + ": " + how + ", at " + std::to_string(now_ / 1'000) + " us";
        }
    }

    /// The process that has to run for it.
    int runs(happening const& h) const {
        switch (h.what) {
        case kind::want:
        case kind::done:
        case kind::time_out:
        case kind::cancel:
            return static_cast<int>(actors_[h.a].process);
        case kind::deliver:
        case kind::wake:
        case kind::overdue:
        case kind::give_up:
        case kind::reconnect:
        case kind::ping:
            return static_cast<int>(h.a);
        case kind::tenure:
            return static_cast<int>(tenures_[h.a].process);
        default:
            return nobody;
        }
    }

    void happen(happening const& h) {
        if (auto const p = runs(h); p != nobody) {
            auto const until = processes_[static_cast<std::size_t>(p)].stopped_until;
            if (now_ < until) return after(until - now_, h.what, h.a, h.b, h.c);
        }
        switch (h.what) {
        case kind::want:
            return on_want(actors_[h.a]);
        case kind::done:
            return on_done(actors_[h.a], h.c);
        case kind::time_out:
            return on_time_out(actors_[h.a], h.c);
        case kind::cancel:
            return on_cancel(actors_[h.a], h.c);
        case kind::arrive:
            return arrive(h.a, h.b, h.c);
        case kind::deliver:
            return deliver(h.a, h.b, h.c);
        case kind::wake:
            if (processes_[h.a].timer == h.c) {
                processes_[h.a].armed.reset();
                settle(h.a);
            }
            return;
        case kind::tenure:
            if (tenures_[h.a].timer == h.c) on_tenure_time(h.a);
            return;
        case kind::overdue:
            return on_overdue(h.a, h.b, h.c);
        case kind::give_up: {
            auto const& l = processes_[h.a].links[h.b];
            if (l.suspect && l.epoch == h.c) cut(h.a, h.b, travel());
            return;
        }
        case kind::reconnect:
            return on_reconnect(h.a, h.b, h.c);
        case kind::ping:
            return on_ping(h.a, h.b);
        case kind::freeze:
            progress();
            return freeze(h.a, static_cast<true_time>(h.c));
        case kind::crash:
            freeze(h.a, static_cast<true_time>(h.c));
            for (unsigned p = 0; p < processes_.size(); ++p)
                cut(p, h.a, static_cast<true_time>(h.c) + travel());
            return;
        case kind::cut:
            return cut(h.b, h.a, static_cast<true_time>(h.c));
        case kind::kill:
            return kill(h.b);
        case kind::stop:
            return stop(h.b, static_cast<true_time>(h.c));
        case kind::take:
            return take(h.a);
        case kind::leave:
            return take_back(h.a);
        case kind::flush_all:
            return flush_all(h.a);
        case kind::flush_scripts:
            instances_[h.a].scripts = false;
            return;
        case kind::expire: {
            auto& at = instances_[h.a];
            if (at.version != h.c) return;
            if (now_ < at.frozen_until)
                return after(at.frozen_until - now_, kind::expire, h.a, 0, h.c);
            return look(h.a);
        }
        case kind::tick:
            return on_tick();
        }
    }

    //
    // Faults
    //

    void plan(true_time when, kind what, true_time span = 0) {
        auto const i = static_cast<unsigned>(below(instances_.size()));
        auto const p = static_cast<unsigned>(below(processes_.size()));
        after(when, what, i, p, static_cast<std::uint64_t>(span));
    }

    void plan_fault() {
        auto const when = some_of(horizon_);
        auto const span = 1 + (one_in(4) ? some(2 * ttl_) : some(100 * delay_));
        switch (below(forgetful_ ? 9 : 8)) {
        case 0:
        case 1:
            return plan(when, kind::cut, span);
        case 2:
            freezes_ = true;
            return plan(when, kind::freeze, span);
        case 3:
            freezes_ = true;
            return plan(when, kind::crash, span);
        case 4:
            return plan(when, kind::kill);
        case 5: {
            // All of it at once, or at first a majority's.
            auto const everywhere = (1U << instances_.size()) - 1;
            after(when, kind::take, everywhere);
            if (one_in(2)) after(when + span, kind::leave, majority());
            auto const later = one_in(2) ? 0 : (bound_to_notice() * 3).count();
            return after(when + span + later, kind::leave, everywhere);
        }
        case 6:
            return plan(when, kind::flush_scripts);
        case 7:
            return plan(when, kind::stop, some(2 * ttl_));
        default:
            return plan(when, kind::flush_all);
        }
    }

    void freeze(unsigned i, true_time span) {
        instances_[i].frozen_until = std::max(instances_[i].frozen_until, now_ + span);
        // An idle link finds that out by its next ping.
        for (unsigned p = 0; p < processes_.size(); ++p)
            after(some(ping_interval), kind::ping, p, i);
        if (!silent_) return;
        // The answers of the others give it the turns in which it looks.
        for (unsigned p = 0; p < processes_.size(); ++p) {
            for (unsigned other = 0; other < instances_.size(); ++other) {
                for (int n = 0; n < 2; ++n) after(some(ping_interval), kind::ping, p, other);
            }
        }
    }

    // What has not arrived never will; the instance forgets whom it was to tell.
    void cut(unsigned p, unsigned i, true_time span) {
        progress();
        auto& me = processes_[p];
        if (!me.alive) return;
        auto& l = me.links[i];
        ++l.epoch;
        ++seen_.disconnects;
        l.to_server.clear();
        l.to_client.clear();
        instances_[i].told.erase(p);
        after(span, kind::reconnect, p, i, l.epoch);
        if (!l.connected) return;
        l.connected = false;
        l.suspect = false;
        l.ended = now_;
        auto const lost = std::exchange(l.in_flight, {});
        on_unavailable(p, i);
        for (auto const& s : lost) {
            if (s.ping) continue;
            if (!s.answered) tell(s, i, {});
            if (s.what == command::release) {
                ++seen_.kept;
                l.kept.push_back({s.tenure, now_});
            } else {
                finished(s.tenure);
            }
        }
    }

    void on_reconnect(unsigned p, unsigned i, std::uint64_t epoch) {
        auto& me = processes_[p];
        auto& l = me.links[i];
        if (!me.alive || l.epoch != epoch) return;
        auto const& at = instances_[i];
        if (now_ < at.frozen_until)
            return after(at.frozen_until - now_, kind::reconnect, p, i, epoch);
        progress();
        l.connected = true;
        l.last_arrival = l.last_reply = now_;
        send_kept(p, i, true);
        on_available(p);
    }

    // One that holds the key, if there is one: what it has must expire.
    void kill(unsigned p) {
        for (unsigned other = 0; other < processes_.size(); ++other) {
            if (processes_[other].queue && processes_[other].queue->held()) p = other;
        }
        auto& me = processes_[p];
        if (!me.alive) return;
        if (std::count_if(processes_.begin(), processes_.end(),
                          [](auto const& o) { return o.alive; }) < 2)
            return;
        progress();
        ++seen_.deaths;
        me.alive = false;
        if (me.queue) me.queue->abandon();
        me.queue.reset();
        me.tenure = me.watcher = nobody;
        ++me.timer;
        for (auto& a : actors_) {
            if (a.process != p) continue;
            if (a.is == actor::state::queued) --queued_;
            if (a.is == actor::state::holding) --held_;
            a.is = actor::state::gone;
            ++a.ticket;
        }
        for (auto& t : tenures_) {
            if (t.process == p) t.dead = t.over = true;
        }
        for (unsigned i = 0; i < instances_.size(); ++i) {
            auto& l = me.links[i];
            ++l.epoch;
            l = link{.connected = false, .epoch = l.epoch};
            instances_[i].told.erase(p);
        }
    }

    // What comes for it waits until it runs again.
    void stop(unsigned p, true_time span) {
        // One with a try under way, if there is one.
        for (unsigned other = 0; other < processes_.size(); ++other) {
            if (processes_[other].queue && processes_[other].queue->trying()) p = other;
        }
        ++seen_.stops;
        processes_[p].stopped_until = std::max(processes_[p].stopped_until, now_ + span);
    }

    /// Instances that are a quorum and no more, as bits.
    unsigned majority() {
        unsigned bits = 0;
        for (unsigned n = 0; n < quorum();) {
            auto const i = 1U << below(instances_.size());
            if ((bits & i) == 0) ++n;
            bits |= i;
        }
        return bits;
    }

    void take(unsigned where) {
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if ((where >> i & 1U) == 0) continue;
            look(i);
            if (instances_[i].holder != nobody) continue;
            ++seen_.foreign;
            instances_[i].holder = stranger;
            written(i, nobody);
        }
    }

    void take_back(unsigned where) {
        progress();
        if ((where >> instances_.size()) == 0 && where + 1 != 1U << instances_.size())
            ++seen_.remnants;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (instances_[i].holder != stranger || (where >> i & 1U) == 0) continue;
            instances_[i].holder = nobody;
            written(i, nobody);
        }
    }

    void flush_all(unsigned i) {
        progress();
        ++seen_.flushes;
        auto& at = instances_[i];
        at.holder = nobody;
        ++at.version;
        at.told.clear();
        for (unsigned p = 0; p < processes_.size(); ++p) {
            if (processes_[p].links[i].connected) reply(p, i, {response::type::push_for_all});
        }
    }

    //
    // The wire, with the contract of redis::link
    //

    void submit(unsigned t, unsigned i, command what, std::uint32_t round) {
        auto const p = tenures_[t].process;
        auto& l = processes_[p].links[i];
        if (!l.available()) {
            if (what != command::release) return;
            ++tenures_[t].pending;
            ++seen_.kept;
            l.kept.push_back({t, now_});
            return;
        }
        ++tenures_[t].pending;
        send(p, i, {.tenure = t, .what = what, .round = round});
    }

    void send(unsigned p, unsigned i, sent_command s) {
        auto& l = processes_[p].links[i];
        s.serial = ++l.serial;
        s.sent = local();
        if (!s.ping) {
            commands_ += s.what == command::contend   ? (instances_[i].tracks ? 3 : 2)
                         : s.what == command::inspect ? 3
                         : s.what == command::watch   ? (instances_[i].tracks ? 2 : 1)
                                                      : 1;
        }
        l.in_flight.push_back(s);
        l.last_arrival = std::max(l.last_arrival, now_ + travel());
        if (s.what == command::contend && !s.ping) {
            l.to_server.push_back({s, true});
            after(l.last_arrival - now_, kind::arrive, p, i, l.epoch);
            if (one_in(20)) { // cut in two on its way
                ++seen_.late_ttls;
                l.last_arrival += travel();
            }
        }
        l.to_server.push_back({s, false});
        after(l.last_arrival - now_, kind::arrive, p, i, l.epoch);
        if (!calm_ && !silent_) after(timeout_.count(), kind::overdue, p, i, s.serial);
    }

    void on_ping(unsigned p, unsigned i) {
        auto const& me = processes_[p];
        if (me.alive && me.links[i].available())
            send(p, i, {.tenure = 0, .what = {}, .round = 0, .ping = true});
    }

    void on_overdue(unsigned p, unsigned i, std::uint64_t serial) {
        auto& l = processes_[p].links[i];
        if (!l.available() || l.in_flight.empty() || l.in_flight.front().serial > serial) return;
        ++seen_.suspects;
        progress();
        l.suspect = true;
        after(3 * timeout_.count(), kind::give_up, p, i, l.epoch);
        on_unavailable(p, i);
        for (std::size_t n = 0; n < l.in_flight.size(); ++n) {
            if (std::exchange(l.in_flight[n].answered, true) || l.in_flight[n].ping) continue;
            auto const s = l.in_flight[n];
            tell(s, i, {});
        }
    }

    void send_kept(unsigned p, unsigned i, bool new_session) {
        auto& l = processes_[p].links[i];
        for (auto const& k : std::exchange(l.kept, {})) {
            auto const ttl = tenures_[k.tenure].machine.ttl();
            auto const gone =
                std::max(k.since, l.ended) + (ttl + protocol::redlock_rules::drift(ttl)).count();
            if (new_session && gone <= now_) {
                finished(k.tenure);
            } else {
                send(p, i,
                     {.tenure = k.tenure, .what = command::release, .round = 0, .answered = true});
            }
        }
    }

    void arrive(unsigned p, unsigned i, std::uint64_t epoch) {
        auto& l = processes_[p].links[i];
        if (l.epoch != epoch) return;
        auto const& at = instances_[i];
        // In the order in which it came, as each of them is put off to the same moment.
        if (now_ < at.frozen_until) return after(at.frozen_until - now_, kind::arrive, p, i, epoch);
        auto const r = l.to_server.front();
        l.to_server.pop_front();
        if (r.sent.ping) return reply(p, i, {response::type::reply});
        if (r.first_part) {
            l.set = execute(p, i, r.sent.tenure, command::acquire);
        } else if (r.sent.what == command::contend) {
            reply(p, i, {response::type::reply, read(p, i, l.set)});
        } else if (r.sent.what == command::watch) {
            reply(p, i, {response::type::reply, read(p, i, verdict::yes)});
        } else if (r.sent.what == command::inspect) {
            look(i);
            reply(p, i, {response::type::reply, {.said = verdict::yes}});
        } else if (r.sent.what == command::release && !at.scripts && !r.sent.whole) {
            reply(p, i, {response::type::reply, {.no_script = true}});
        } else {
            reply(p, i,
                  {response::type::reply, {.said = execute(p, i, r.sent.tenure, r.sent.what)}});
        }
    }

    void reply(unsigned p, unsigned i, response r) {
        auto& l = processes_[p].links[i];
        l.to_client.push_back(r);
        l.last_reply = std::max(l.last_reply, now_ + travel());
        after(l.last_reply - now_, kind::deliver, p, i, l.epoch);
    }

    void deliver(unsigned p, unsigned i, std::uint64_t epoch) {
        auto& l = processes_[p].links[i];
        if (l.epoch != epoch) return;
        auto const r = l.to_client.front();
        l.to_client.pop_front();
        if (r.is != response::type::reply) {
            if (Driver::hears_pushes && push(p, i)) ++seen_.pushes;
            return;
        }
        auto const s = l.in_flight.front();
        l.in_flight.pop_front();
        processes_[p].usual[i].heard(local() - s.sent);
        l.heard = local();
        look_for_late(p);
        if (std::exchange(l.suspect, false)) {
            progress();
            send_kept(p, i, false);
            on_available(p);
        }
        if (s.ping) return;
        if (r.what.no_script) {
            ++seen_.resent;
            auto again = s;
            again.whole = true;
            return send(p, i, again);
        }
        if (!s.answered) tell(s, i, r.what);
        finished(s.tenure);
    }

    void look_for_late(unsigned p) {
        if (!Driver::knows_who_is_late) return;
        auto& me = processes_[p];
        for (unsigned i = 0; i < instances_.size(); ++i) {
            auto const& l = me.links[i];
            if (l.available() && !l.in_flight.empty() &&
                me.usual[i].becomes_late(local(), std::max(l.in_flight.front().sent, l.heard))) {
                me.newly_late.insert(i);
            }
            if (!me.usual[i].late()) me.newly_late.erase(i);
        }
        if (!me.queue || me.newly_late.empty() || (reachable(p) - late(p)).empty()) return;
        std::exchange(me.newly_late, {}).for_each([&](unsigned i) {
            if (!me.queue) return;
            if (me.queue->waits_at(i)) ++seen_.moved;
            me.queue->late(local(), i, random_());
            settle(p);
        });
    }

    instance_set late(unsigned p) const {
        instance_set all;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (processes_[p].usual[i].late()) all.insert(i);
        }
        return all;
    }
    instance_set punctual(unsigned p, instance_set of) const {
        auto const rest = of - late(p);
        return rest.empty() ? of : rest;
    }

    // A command is no longer under way anywhere.
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    void check_clean(unsigned t) {
        auto const& state = tenures_[t];
        if (!state.over || state.dead || state.pending != 0) return;
        for (auto const& i : instances_) {
            if (i.holder == static_cast<int>(t) && now_ < i.expires) {
                fail("S4", "a key stays behind when everything has been answered");
            }
        }
    }

    //
    // An instance
    //

    // An access finds out what has expired, and all who are to hear of it do, whoever it was.
    void look(unsigned i) {
        auto& at = instances_[i];
        if (at.holder < 0 || now_ < at.expires) return;
        ++seen_.expiries;
        at.holder = nobody;
        written(i, nobody);
    }

    // Whoever changes it himself is not told, and forgotten like the others.
    void written(unsigned i, int by) {
        auto& at = instances_[i];
        ++at.version;
        for (auto const p : std::exchange(at.told, {})) {
            if (static_cast<int>(p) != by) reply(p, i, {response::type::push});
        }
        if (at.holder >= 0) {
            auto const late = 34'000'000 + some_of(68'000'000);
            after(at.expires - now_ + late, kind::expire, i, 0, at.version);
        }
    }

    answer read(unsigned p, unsigned i, verdict set) {
        look(i);
        auto& at = instances_[i];
        if (at.tracks) at.told.insert(p);
        auto const left = at.holder == nobody     ? -2
                          : at.holder == stranger ? -1
                                                  : (at.expires - now_) / 1'000'000;
        return {.said = set, .pttl = left, .told = at.tracks};
    }

    verdict execute(unsigned p, unsigned i, unsigned t, command what) {
        look(i);
        auto& at = instances_[i];
        auto const ours = at.holder == static_cast<int>(t);
        auto const by = static_cast<int>(p);
        switch (what) {
        case command::acquire:
        case command::heal:
            if (at.holder != nobody) return verdict::no;
            at.holder = static_cast<int>(t);
            at.expires = now_ + real(tenures_[t].machine.ttl(), at.ppm);
            written(i, by);
            return verdict::yes;
        case command::extend:
            if (!ours) return verdict::no;
            at.expires = now_ + real(tenures_[t].machine.ttl(), at.ppm);
            written(i, by);
            return verdict::yes;
        case command::release:
            at.scripts = true;
            if (!ours) return verdict::no;
            if (is_held(tenures_[t])) fail("S3", "the key of a lease that is held was deleted");
            at.holder = nobody;
            written(i, by);
            return verdict::yes;
        case command::contend:
        case command::raise: // no fences here
        case command::inspect:
        case command::watch:
            break;
        }
        return verdict::refused;
    }

    //
    // A process: what the engine does, in its order
    //

    instance_set reachable(unsigned p) const {
        instance_set set;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (processes_[p].links[i].available()) set.insert(i);
        }
        return set;
    }

    actor& front(unsigned p) { return static_cast<actor&>(processes_[p].queue->front()); }

    void settle(unsigned p) {
        auto& me = processes_[p];
        if (me.settling || !me.queue) return;
        me.settling = true;
        for (;;) {
            auto const action = me.queue->next(local(), reachable(p));
            if (!action.watch.empty()) {
                begin_watch(p, action.watch);
                continue;
            }
            switch (action.effect) {
            case queue_effect::try_all:
                begin_try(p, false);
                break;
            case queue_effect::try_arbiter:
                begin_try(p, true);
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
            case queue_effect::forget:
                ++seen_.forgotten;
                me.settling = false;
                if (!me.queue->empty()) fail("forget", "a queue is forgotten that is not empty");
                detach(p);
                me.watcher = nobody;
                me.queue.reset();
                return arm(p);
            case queue_effect::none:
                me.settling = false;
                return arm(p);
            }
        }
    }

    void arm(unsigned p) {
        auto& me = processes_[p];
        auto const wake = me.queue ? me.queue->wake() : std::nullopt;
        if (wake == me.armed) return;
        me.armed = wake;
        ++me.timer;
        if (wake) after(std::max(*wake - local(), duration(0)).count(), kind::wake, p, 0, me.timer);
    }

    void detach(unsigned p) { processes_[p].tenure = nobody; }
    bool is_queues(unsigned t) const {
        return processes_[tenures_[t].process].tenure == static_cast<int>(t);
    }

    void begin_try(unsigned p, bool at_arbiter) {
        auto& me = processes_[p];
        auto const& a = front(p);
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({p,
                            {static_cast<unsigned>(instances_.size()), a.ttl, a.watched,
                             protocol::spread_renewal_period(a.ttl, random_())}});
        auto& h = tenures_.back();
        if (Driver::knows_who_is_late) h.machine.heed(me.usual);
        h.asked = local();
        me.tenure = static_cast<int>(t);
        if (!at_arbiter) {
            me.queue->try_begun(local());
            return apply(t, h.machine.acquire(local(), reachable(p)));
        }
        auto const arbiter = arbiter_of(p);
        me.queue->try_begun(local(), arbiter);
        apply(t, h.machine.contend(local(), arbiter));
    }

    unsigned arbiter_of(unsigned p) const {
        return protocol::arbiter(key_, punctual(p, processes_[p].queue->candidates(reachable(p))),
                                 [this](unsigned i) { return instances_[i].identity; });
    }

    void listen(unsigned p) {
        auto& q = *processes_[p].queue;
        if (q.candidates(reachable(p)).empty()) return;
        auto const arbiter = arbiter_of(p);
        q.listening(arbiter);
        begin_watch(p, instance_set::only(arbiter));
    }

    void give_up_try(unsigned p) {
        auto const t = static_cast<unsigned>(processes_[p].tenure);
        detach(p);
        apply(t, tenures_[t].machine.cancel());
    }

    void begin_inspection(unsigned p) {
        auto const t = static_cast<unsigned>(processes_[p].tenure);
        auto& h = tenures_[t];
        h.asked = local();
        apply(t, h.machine.inspect(local(), h.machine.votes().no() & reachable(p)));
    }

    // By a tenure that never asks for the key.
    void begin_watch(unsigned p, instance_set whom) {
        auto& me = processes_[p];
        auto const& q = *me.queue;
        if (me.watcher == nobody) {
            me.watcher = static_cast<int>(tenures_.size());
            tenures_.push_back(
                {p, {static_cast<unsigned>(instances_.size()), ttl_, false}, {}, true});
            tenures_.back().watches = true;
        }
        whom.for_each([&](unsigned i) {
            ++seen_.watches;
            submit(static_cast<unsigned>(me.watcher), i, command::watch, q.watch_round());
        });
    }

    void on_watched(unsigned p, unsigned i, std::uint32_t round, answer const& a) {
        protocol::sighting seen;
        using state = protocol::sighting::state;
        if (a.said == verdict::yes) {
            seen = {.is = *a.pttl == -2 ? state::gone : state::held, .told = a.told};
            if (*a.pttl >= 0) seen.left = std::chrono::milliseconds(*a.pttl);
        }
        processes_[p].queue->watched(local(), i, round, seen, random_());
        settle(p);
    }

    void on_inspected(unsigned t) {
        if (!is_queues(t)) return;
        check_decided(t, "an inspection");
        auto const p = tenures_[t].process;
        processes_[p].queue->inspected(tenures_[t].machine.inspected_all());
        detach(p);
        settle(p);
    }

    void tell(sent_command const& s, unsigned i, answer const& a) {
        auto const t = s.tenure;
        auto& h = tenures_[t];
        auto const p = h.process;
        auto& me = processes_[p];
        if (!me.alive) return;
        if (s.what == command::watch) {
            if (me.watcher == static_cast<int>(t)) on_watched(p, i, s.round, a);
            return;
        }
        auto const asks = s.what == command::acquire || s.what == command::contend;
        if (asks && is_queues(t) && me.queue->trying()) return on_try_answer(t, s.what, i, a);
        auto const action = h.machine.answer(s.what, s.round, i, a.said, local());
        if (Driver::hears_own_release && s.what == command::release && a.said == verdict::yes &&
            push(p, i)) {
            ++seen_.own_releases;
        }
        apply(t, action);
    }

    void on_try_answer(unsigned t, command what, unsigned i, answer const& a) {
        auto& h = tenures_[t];
        auto const p = h.process;
        auto const action = h.machine.answer(what, 0, i, a.said, local());
        if (action.effect == tenure_effect::none) return arm_tenure(t);
        apply(t, action);
        if (action.effect == tenure_effect::arbiter_refused) {
            check_decided(t, "a try");
            detach(p);
            on_arbiter_refused(p, a);
        } else if (action.effect == tenure_effect::arbiter_won) {
            h.asked = local();
            apply(t, h.machine.ask_rest(local(), reachable(p)));
        }
    }

    void on_arbiter_refused(unsigned p, answer const& a) {
        auto& q = *processes_[p].queue;
        auto const before = q.wasted();
        std::optional<duration> left;
        if (a.pttl && *a.pttl >= 0) left = std::chrono::milliseconds(*a.pttl);
        if (a.pttl && *a.pttl == -2) {
            left = duration(-1);
            backs_off();
        }
        auto& head = front(p);
        q.refused(local(), left, a.told, retry_, random_());
        seen_.wasted += q.wasted() - before;
        check_calm(processes_[p], head);
        if (head.cancel_requested) cancelled(head);
        settle(p);
    }

    void on_try_failed(unsigned t, tenure_effect why) {
        auto const p = tenures_[t].process;
        auto& q = *processes_[p].queue;
        auto& head = front(p);
        auto const before = q.splits();
        auto const deadline = tenures_[t].machine.deadline();
        auto const by_time = why == tenure_effect::expired || why == tenure_effect::arbiter_failed;
        if (by_time && q.overslept(local(), deadline)) {
            ++seen_.overslept;
            if (head.cancel_requested) cancelled(head);
            detach(p);
            return settle(p);
        }
        if (why == tenure_effect::expired && head.waits && local() - deadline >= head.ttl / 4) {
            fail("W", "a waiter is told that the servers are slow, as its own process did not run");
        }
        switch (why) {
        case tenure_effect::contended:
            backs_off();
            q.contended(local(), tenures_[t].machine.votes(), retry_, random_());
            seen_.splits += q.splits() - before;
            check_calm(processes_[p], head);
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

    bool push(unsigned p, unsigned i) {
        auto& me = processes_[p];
        if (!me.queue || !me.queue->push(local(), i, random_())) return false;
        settle(p);
        return true;
    }

    void on_unavailable(unsigned p, unsigned i) {
        auto& me = processes_[p];
        if (!me.queue || !me.queue->awaits_instances()) return;
        me.queue->disconnected(local(), i, random_());
        if (reachable(p).size() < quorum()) {
            ++seen_.outages;
            me.queue->outage(local() + timeout_);
        }
        settle(p);
    }

    void on_available(unsigned p) {
        auto& me = processes_[p];
        if (!me.queue || !me.queue->awaits_instances() || reachable(p).size() < quorum()) return;
        me.queue->restored(local(), random_());
        settle(p);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& h = tenures_[t];
        auto const all = [&](instance_set who, command c, std::uint32_t round) {
            who.for_each([&](unsigned i) { submit(t, i, c, round); });
        };
        all(a.acquire, command::acquire, 0);
        all(a.contend, command::contend, 0);
        all(a.extend, command::extend, h.machine.round_number());
        all(a.heal, command::heal, 0);
        all(a.release, command::release, 0);
        all(a.inspect, command::inspect, 0);
        switch (a.effect) {
        case tenure_effect::inspected:
            on_inspected(t);
            break;
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::arbiter_won: // seen to by who caused it
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
            detach(h.process);
            processes_[h.process].queue->lost();
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
            after(std::max(*wake - local(), duration(0)).count(), kind::tenure, t, 0, ++h.timer);
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

    bool is_held(tenure_state const& t) const {
        auto const where = t.machine.phase();
        return !t.over && !t.dead &&
               (where == tenure_phase::held || where == tenure_phase::ending) &&
               local() < t.machine.deadline();
    }

    void on_won(unsigned t) {
        check_decided(t, "a try");
        auto& h = tenures_[t];
        auto& me = processes_[h.process];
        if (local() >= h.machine.deadline()) fail("S1", "a lease was given out that has run out");
        for (unsigned p = 0; p < processes_.size() && !forgetful_; ++p) {
            auto const& other = processes_[p];
            if (p != h.process && other.tenure != nobody &&
                is_held(tenures_[static_cast<std::size_t>(other.tenure)])) {
                fail("S1", "two leases are valid at once");
            }
        }
        ++seen_.tenures;
        if (me.turns > 0 && wants_more())
            longest_gap_ = std::max(longest_gap_, now_ - me.last_turn);
        me.last_turn = now_;
        ++me.turns;
        ++turns_;
        grant(static_cast<actor&>(me.queue->won(local())), t);
        if (turns_ == turns_wanted_) {
            busy_until_ = now_;
            stop_measuring();
        }
        settle(h.process);
    }

    void tell_loss(unsigned t) {
        auto& a = *std::exchange(tenures_[t].lease, nullptr);
        ++seen_.lost;
        end_hold(a);
        rest(a);
    }

    void on_lost(unsigned t) {
        auto const p = tenures_[t].process;
        detach(p);
        processes_[p].queue->lost();
        tell_loss(t);
        settle(p);
    }

    void grant(actor& a, unsigned t) {
        for (auto const& w : actors_) {
            if (w.process == a.process && w.is == actor::state::queued && w.arrived < a.arrived) {
                fail("FIFO", "one who came later goes first");
            }
        }
        progress();
        holder_changed();
        ++seen_.leases;
        if (std::any_of(instances_.begin(), instances_.end(),
                        [](auto const& i) { return i.holder == stranger; })) {
            ++seen_.rescued;
        }
        ++processes_[a.process].leases;
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
        a.is = actor::state::holding;
        a.tenure = static_cast<int>(t);
        tenures_[t].lease = &a;
        ++held_;
        auto const hold = a.cancelled_when_granted ? 0
                          : !calm_ && one_in(20)   ? some(ttl_ * 3 / 2)
                                                   : some(hold_);
        after(hold, kind::done, index(a), 0, a.ticket);
    }

    unsigned index(actor const& a) const {
        for (unsigned n = 0; n < actors_.size(); ++n) {
            if (&actors_[n] == &a) return n;
        }
        return 0;
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
        return turns_ < turns_wanted_ && leases_ < 64 * turns_wanted_ && now_ < stop_at_;
    }

    // Until it wants the key again, if ever.
    void rest(actor& a) {
        if (!wants_more()) return;
        after(eager_ ? 0 : 1 + some(one_in(2) ? 4 * delay_ : hold_ * 10), kind::want, index(a));
    }

    void leave(actor& a) {
        processes_[a.process].queue->leave(a);
        unqueued(a);
    }
    void unqueued(actor& a) {
        --queued_;
        a.is = actor::state::idle;
        ++a.ticket;
        // Not at once: what could not be had may not be had a moment later.
        if (wants_more()) after(1 + some(50 * delay_), kind::want, index(a));
    }

    void cancelled(actor& a) {
        ++seen_.cancelled;
        if (&front(a.process) == &a) ++seen_.heads_cancelled;
        leave(a);
    }

    //
    // An actor
    //

    void on_want(actor& a) {
        auto& me = processes_[a.process];
        if (a.is != actor::state::idle) return;
        if (!wants_more()) return;
        auto const n = index(a);
        a.ttl = !eager_ && one_in(16) ? 2 * ttl_ : ttl_;
        a.watched = !one_in(3);
        a.waits = eager_ || !one_in(8);
        a.again = false;
        a.total_cancel = one_in(4);
        a.cancel_requested = false;
        a.cancelled_when_granted = !eager_ && one_in(12);
        if (!me.queue) {
            me.queue.emplace(static_cast<unsigned>(instances_.size()));
            me.armed.reset();
        }
        if (!me.queue->join(a)) {
            ++seen_.refused;
            after(1 + some(50 * delay_), kind::want, n);
            return;
        }
        if (queued_ == 0) progress();
        ++queued_;
        a.is = actor::state::queued;
        a.arrived = ++arrivals_;
        ++a.ticket;
        if (!eager_ && a.waits && one_in(6))
            after(some(hold_ + 8 * delay_), kind::time_out, n, 0, a.ticket);
        if (!eager_ && one_in(6)) after(some(hold_ + 8 * delay_), kind::cancel, n, 0, a.ticket);
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
        if (a.total_cancel && processes_[a.process].queue->trying() && &front(a.process) == &a) {
            a.cancel_requested = true;
            return;
        }
        cancelled(a);
        settle(a.process);
    }

    void on_done(actor& a, std::uint64_t ticket) {
        if (a.is != actor::state::holding || a.ticket != ticket) return;
        auto const t = static_cast<unsigned>(a.tenure);
        auto& h = tenures_[t];
        auto const p = a.process;
        auto& q = *processes_[p].queue;
        h.lease = nullptr;
        if (q.hands_over(local(), h.machine.deadline() - local(), h.machine.ttl(), handoff_limit_,
                         handoff_time_)) {
            ++seen_.handoffs;
            auto& next = static_cast<actor&>(q.hand_over());
            h.machine.begin_lease(next.watched);
            auto const left = h.machine.deadline() - local();
            if (left < (next.watched ? next.ttl / 2 : next.ttl * 17 / 20)) {
                fail("validity", "a lease is handed on of which little is left");
            }
            grant(next, t);
            end_hold(a);
            rest(a);
            return apply(t, {});
        }
        detach(p);
        h.asked = local();
        releasing_.insert(t);
        h.over = true;
        end_hold(a);
        // Some drop their lease, and do not wait for the end of the release.
        if (eager_ || !one_in(4)) {
            h.releaser = &a;
        } else {
            rest(a);
        }
        apply(t, h.machine.release(local(), reachable(p)));
        q.released(local(), h.machine.opposed());
        if (q.wake()) {
            ++seen_.stand_backs;
        } else if (!q.empty()) {
            ++seen_.stays;
        }
        settle(p);
    }

    //
    // What is promised
    //

    void backs_off() {
        ++backoffs_;
        last_backoff_ = now_;
    }

    void progress() {
        since_ = now_;
        backoffs_ = now_ < last_backoff_ + retry_.count() ? 1 : 0; // one may still be in its pause
    }

    // Whatever is asked of all is decided in a few round trips of those that answer.
    void check_decided(unsigned t, std::string const& what) {
        if (!silent_) return;
        auto const part = static_cast<double>((local() - tenures_[t].asked).count()) /
                          static_cast<double>(decided_within_.count());
        seen_.longest_try = std::max(seen_.longest_try, part);
        if (part > 1) fail("L5", what + " waits for those that are silent");
    }
    void check_release(unsigned t, tenure_effect how) {
        check_decided(t, "a release");
        if (silent_ && how == tenure_effect::release_unconfirmed)
            fail("L5", "a majority answers a release, in vain");
    }

    // A key that is in nobody's way, and wanted by somebody who can reach a quorum.
    bool should_be_had() const {
        if (queued_ == 0 || held_ > 0) return false;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            auto const& at = instances_[i];
            if (silent_ && now_ < at.frozen_until) continue;
            if (at.holder == nobody || (at.holder >= 0 && now_ >= at.expires)) continue;
            if (at.holder == stranger) return false;
            auto const& t = tenures_[static_cast<std::size_t>(at.holder)];
            // Unless its owner will take it away, or makes use of it, or has promised not to before
            // its deadline.
            if (t.machine.phase() == tenure_phase::ending) return false;
            if (t.dead || !processes_[t.process].links[i].available() || now_ < at.frozen_until)
                return false;
            if (now_ < processes_[t.process].stopped_until) return false;
        }
        return std::any_of(actors_.begin(), actors_.end(), [this](actor const& a) {
            if (a.is != actor::state::queued) return false;
            if (now_ < processes_[a.process].stopped_until) return false;
            unsigned well = 0;
            for (unsigned i = 0; i < instances_.size(); ++i) {
                if (processes_[a.process].links[i].available() &&
                    now_ >= instances_[i].frozen_until)
                    ++well;
            }
            return well >= quorum();
        });
    }

    /// How much longer it may take where a minority keeps the key: the pauses of the watch, and an
    /// instance that is silent.
    duration bound_to_notice() const {
        return 150ms + (2 * static_cast<std::int64_t>(instances_.size()) + 2) * timeout_;
    }

    // A quorum of those that somebody who wants the key can ask is in nobody's way.
    bool could_be_had() const {
        if (queued_ == 0 || held_ > 0) return false;
        return std::any_of(actors_.begin(), actors_.end(), [this](actor const& a) {
            auto const& me = processes_[a.process];
            if (a.is != actor::state::queued || now_ < me.stopped_until) return false;
            unsigned free = 0;
            for (unsigned i = 0; i < instances_.size(); ++i) {
                auto const& at = instances_[i];
                auto const is_free = at.holder == nobody || (at.holder >= 0 && now_ >= at.expires);
                if (is_free && me.links[i].available() && now_ >= at.frozen_until) ++free;
            }
            return free >= quorum();
        });
    }

    // While one and the same holds the key, the others try now and then at most.
    void check_calm(process& me, actor const& head) {
        auto const same = std::exchange(me.period, period_) == period_ && me.head == head.arrived;
        me.head = head.arrived;
        me.tries = same ? me.tries + 1 : 0;
        // A holder that they have to find takes each of them a few; and each pause of a backoff may
        // end in one.
        auto const most = 50 + 2 * static_cast<std::int64_t>(processes_.size()) +
                          4 * (now_ - period_since_) / retry_.count();
        seen_.most_tries =
            std::max(seen_.most_tries, static_cast<double>(me.tries) / static_cast<double>(most));
        if (static_cast<std::int64_t>(me.tries) > most) {
            fail("storm", std::to_string(me.tries) +
                              " tries of one process for one waiter while nothing changes, since " +
                              std::to_string(period_since_ / 1'000) + " us");
        }
    }

    void holder_changed() {
        ++period_;
        period_since_ = now_;
    }

    void on_tick() {
        auto const could = could_be_had(), should = should_be_had();
        if (!could && !should) progress();
        if (!could) {
            free_since_ = now_;
        } else {
            auto const pauses = static_cast<std::int64_t>(std::min(backoffs_, 20U));
            auto const bound = bound_ + bound_to_notice() + pauses * (retry_ + 4 * max_travel());
            auto const part = static_cast<double>(now_ - std::max(since_, free_since_)) /
                              static_cast<double>(bound.count());
            seen_.longest_quorum_wait = std::max(seen_.longest_quorum_wait, part);
            if (part > 1) {
                fail("Q", "a quorum is free and wanted, and nobody gets it, since " +
                              std::to_string(std::max(since_, free_since_) / 1'000) + " us");
            }
        }
        if (!should) {
            full_since_ = now_;
        } else {
            // Each pause after a split vote takes its time; but not for ever.
            auto const pauses = static_cast<std::int64_t>(std::min(backoffs_, 20U));
            auto const bound = bound_ + pauses * (retry_ + 4 * max_travel());
            auto const since = std::max(since_, full_since_);
            auto const part =
                static_cast<double>(now_ - since) / static_cast<double>(bound.count());
            seen_.longest_wait = std::max(seen_.longest_wait, part);
            if (part > 1) {
                fail("L", "the key is free and wanted, and nobody gets it, since " +
                              std::to_string(since / 1'000) + " us");
            }
        }
        after(bound_.count() / 8, kind::tick);
    }

    void check_end() {
        if (queued_ > 0) fail("L3", "a waiter was never told");
        if (held_ > 0) fail("L3", "a lease never ended");
        for (auto const& p : processes_) {
            if (p.queue) fail("forget", "an empty queue stays");
        }
        for (auto const& t : tenures_) {
            if (t.dead) continue;
            if (!t.over) fail("L3", "a tenure never ended");
            if (t.pending != 0) fail("L3", "a command was never accounted for");
        }
        for (auto const& i : instances_) {
            if (i.holder >= 0 && now_ < i.expires &&
                !tenures_[static_cast<std::size_t>(i.holder)].dead) {
                fail("S4", "a key stays behind at the end");
            }
        }
    }

    // The steady state is measured: from when everybody has had the key until the first stops
    // wanting it.
    void start_measuring() {
        if (!std::all_of(processes_.begin(), processes_.end(),
                         [](auto const& p) { return p.turns > 0; }))
            return;
        measuring_ = true;
        commands_before_ = commands_;
        leases_before_ = leases_;
        turns_before_ = turns_;
        for (auto& p : processes_) {
            p.leases_before = p.leases;
            p.turns_before = p.turns;
        }
    }

    void stop_measuring() {
        if (!measuring_) return;
        measuring_ = false;
        measured_ = true;
        commands_measured_ = commands_ - commands_before_;
        leases_measured_ = leases_ - leases_before_;
        turns_measured_ = turns_ - turns_before_;
        for (auto& p : processes_) {
            p.leases -= p.leases_before;
            p.turns -= p.turns_before;
            share_ = std::min(share_, static_cast<double>(p.leases * processes_.size()) /
                                          static_cast<double>(leases_measured_));
            turn_share_ = std::min(turn_share_, static_cast<double>(p.turns * processes_.size()) /
                                                    static_cast<double>(turns_measured_));
        }
    }

    void check_measurements() {
        if (eager_ && turns_ < turns_wanted_) fail("fairness", "a tenure is handed on for ever");
        if (eager_ && !measured_ && turns_ >= 40 * processes_.size() && !untracked_) {
            fail("fairness", "a process never gets the key");
        }
        if (!measured_ || leases_measured_ < 100) return;
        ++seen_.measured;
        // Each process asks the arbiter once for each turn (SET, CACHING, PTTL), the winner all
        // others, and it releases them: 3 P + 2 N - 1.
        auto const most = static_cast<double>(std::max<std::size_t>(10, 2 * instances_.size()) +
                                              3 * processes_.size());
        cost_ = static_cast<double>(commands_measured_) / static_cast<double>(leases_measured_);
        seen_.highest_cost = std::max(seen_.highest_cost, cost_ / most);
        if (cost_ > most && !untracked_) {
            fail("cost", std::to_string(cost_) + " commands for each of " +
                             std::to_string(leases_measured_) + " leases, " +
                             std::to_string(processes_.size()) + " processes, " +
                             std::to_string(instances_.size()) + " instances");
        }
        if (turns_measured_ < 40 * processes_.size() || untracked_) return;
        seen_.smallest_share = std::min(seen_.smallest_share, share_);
        seen_.smallest_turns = std::min(seen_.smallest_turns, turn_share_);
        if (share_ < 1.0 / 3)
            fail("fairness", "a process gets " + std::to_string(share_) + " of its fair share");
    }

public:
    /// Of a calm schedule in which everybody always wants the key.
    std::string describe() const {
        auto const ms = [](duration d) {
            return std::to_string(static_cast<double>(d.count()) * 1e-6) + " ms";
        };
        return std::string(calm_ ? "calm" : "faulty") + (eager_ ? ", eager" : "") +
               (forgetful_ ? ", forgetful" : "") + ", N " + std::to_string(instances_.size()) +
               ", P " + std::to_string(processes_.size()) + ", waiters " +
               std::to_string(actors_.size()) + ", delay " + ms(delay_) + ", hold " + ms(hold_) +
               ", ttl " + ms(ttl_) + ", timeout " + ms(timeout_) + ", retry " + ms(retry_) +
               ", handoff " + std::to_string(handoff_limit_) + " and " + ms(handoff_time_) +
               ", bound " + ms(bound_) + (untracked_ ? ", untracked" : "");
    }
    double cost() const { return cost_; }
    double share() const { return share_; }
    double turn_share() const { return turn_share_; }
    /// Between two turns of a process.
    double longest_gap_ms() const { return static_cast<double>(longest_gap_) * 1e-6; }
    /// Until everybody has had as many turns as were wanted.
    double busy_seconds() const { return static_cast<double>(busy_until_) * 1e-9; }
    double seconds() const { return static_cast<double>(now_) * 1e-9; }
    std::uint64_t leases() const { return leases_; }
    std::uint64_t turns() const { return turns_; }

private:
    std::mt19937_64 random_;
    contest_tally& seen_;
    bool calm_ = false, eager_ = false, forgetful_ = false, steady_ = false, freezes_ = false,
         untracked_ = false;
    bool const silent_;
    std::set<unsigned> releasing_; ///< tenures whose release has not ended
    duration decided_within_{};
    duration ttl_{}, timeout_{}, delay_{}, retry_{}, handoff_time_{}, hold_{}, bound_{};
    unsigned handoff_limit_ = 1;
    std::uint64_t key_ = 0;
    std::vector<instance> instances_;
    std::vector<process> processes_;
    std::deque<actor> actors_;
    std::deque<tenure_state> tenures_;
    std::priority_queue<happening> events_;
    true_time now_ = 0, last_backoff_ = std::numeric_limits<true_time>::min() / 2, busy_until_ = 0,
              period_since_ = 0, horizon_ = 0, stop_at_ = 0, since_ = 0, full_since_ = 0,
              free_since_ = 0, longest_gap_ = 0;
    std::uint64_t order_ = 0, period_ = 0, essential_ = 0, happened_ = 0, arrivals_ = 0;
    unsigned queued_ = 0, held_ = 0, backoffs_ = 0, turns_wanted_ = 0;
    std::uint64_t commands_ = 0, leases_ = 0, turns_ = 0;
    bool measuring_ = false, measured_ = false;
    std::uint64_t commands_before_ = 0, leases_before_ = 0, turns_before_ = 0;
    std::uint64_t commands_measured_ = 0, leases_measured_ = 0, turns_measured_ = 0;
    double cost_ = 0, share_ = 1e9, turn_share_ = 1e9;
    std::string violation_;
};

} // namespace holdfast::test

#endif
