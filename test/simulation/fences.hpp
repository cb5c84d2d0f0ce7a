// A world in which tenures are numbered, and nothing may be relied on but that instances remember.
//
// Everything in it follows from a seed. The real machine of a tenure runs in each client; instances
// carry out what the scripts of redis/exclusive_key.hpp say. Messages of one connection keep their
// order and come once or not at all. All else is arbitrary: keys expire at any moment; clients stop
// for any time, also between the reading of the hint and the sending; wall clocks and lease clocks
// of clients and the clocks of instances show anything and jump; instances freeze, or crash and
// come back with what they had; connections break, and what was under way is lost, or is carried
// out at any time later and nobody hears of it.
//
// The world checks three properties of doc/guarantees.md. S2: no two leases have the same fence,
// and a tenure that began after another was won has the greater number. L3: no acquire waits for an
// answer that cannot come. L1, in calm worlds: the number of round trips of an acquire. It does not
// check mutual exclusion: with such clocks there is none.
//
// With `forgetful` instances the world is another one. Such an instance loses its keys and counters
// in a crash, and one is enough for harm, as it may be all that two quorums share. S2 then holds
// under these assumptions (fence_conditions), where G is the greatest number that any instance had
// counted to when it crashed, as a time (10 in a millisecond):
//  - When an instance carries out an acquire, its hint differs from the true time by at most E: by
//    the error of the client's clock, by what went by since that was read, and by what it was
//    rounded down by. Where an acquire's deadline counts from before the hint is read
//    (`hint_within`) and lease clocks are right, what goes by is no more than the ttl, or the
//    acquire does not win.
//  - Who forgets is away for more than 2 E, and until G + E has passed. The two are the same, but
//    where counters ran ahead of all clocks, as more than 10 tenures in a millisecond make them.
//  - Who has forgotten believes right hints: its clock is no more than a minute less E behind the
//    true time. The clocks of those that remember may show anything.
//  - Who comes back with an older state, and not with an empty one, is also away for longer than an
//    acquire takes: a key that it has again, and should not, can be raised by an acquire from
//    before the crash.
// For: whatever number a tenure has won with, an instance that forgot it had counted to no more
// than G. Who is granted the key there later has a hint of more than G, and so a greater number. A
// counter that expires after its own ttl is forgotten as well, by an instance that was as good as
// away for that long. It is not when the instance's clock jumps ahead by as much.
#ifndef HOLDFAST_TEST_SIMULATION_FENCES_HPP
#define HOLDFAST_TEST_SIMULATION_FENCES_HPP

#include "protocol/fence.hpp"
#include "protocol/tenure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// How often what the fences are about has happened: schedules in which nothing happens prove
/// nothing.
struct fence_tally {
    std::uint64_t tenures = 0, won = 0, won_unfenced = 0, won_at_arbiter = 0, raises = 0,
                  won_by_raise = 0, lifted = 0, won_after_lift = 0, raises_denied = 0,
                  raises_unknown = 0, raises_unsent = 0, ended_by_raise = 0,
                  saved_by_late_grant = 0, stale_raises = 0, expired_in_raise = 0,
                  cancelled_in_raise = 0, expiries = 0, handoffs = 0, extended = 0, healed = 0,
                  lost = 0, released = 0, pauses = 0, stale_hints = 0, hints_ignored = 0,
                  hints_behind = 0, clock_jumps = 0, freezes = 0, breaks = 0, ghosts = 0,
                  timeouts = 0, crashes = 0, forgotten = 0, restored = 0, forgetful_grants = 0,
                  ran_ahead = 0, too_old = 0, scripts_lost = 0, exhausted = 0;
};

/// What may be relied on.
struct fence_conditions {
    /// Of a world without faults, with one client.
    enum class calmness : std::uint8_t {
        no,
        good_clocks, ///< right clocks, and counters that are behind them, each elsewhere
        diverged,    ///< counters that are ahead of all clocks, each elsewhere
    };
    enum class away : std::uint8_t {
        long_enough,
        twice_the_error, ///< but not until counters that ran ahead are in the past
        briefly,
    };
    calmness calm = calmness::no;
    unsigned fewest = 1, most = 7; ///< instances
    bool right_clocks = false;     ///< the clocks that hints are read from are right to within E
    bool fresh_hints = true; ///< and hints still are when they are carried out, with such clocks
    unsigned forgetful = 0;  ///< so many instances may forget
    away forgetting = away::long_enough;
    bool right_servers = true;     ///< who forgets believes right hints
    bool older_state = false;      ///< who forgets may come back with an older state
    bool bounded_acquires = false; ///< none takes longer than who forgets is away
    bool hint_within = false;      ///< an acquire begins, by its deadline, before its hint is read
};

/// What carries out the commands, and what carries them.
struct faithful_parts {
    /// A raise is for the holder of the key alone.
    static constexpr bool raise_compares = true;
    /// A raise that is answered with yes has been done.
    static constexpr bool raise_stores = true;
    /// Each tenure is given another number than the one before it.
    static constexpr bool counts_up = true;
    /// Who sent a raise knows which one is answered.
    static constexpr bool tells_round = true;
    /// Who does not get an answer to a raise does not take it for done.
    static constexpr bool doubts_silence = true;
    /// It is told that a raise cannot be sent.
    static constexpr bool tells_unsent = true;
};

template <class Rules, class Parts = faithful_parts>
class fence_world {
public:
    fence_world(std::uint64_t seed, fence_tally& seen, fence_conditions const& conditions = {},
                std::ostream* story = nullptr)
        : random_(seed)
        , seen_(seen)
        , given_(conditions)
        , story_(story) {
        using calmness = fence_conditions::calmness;
        calm_ = given_.calm != calmness::no;
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 3U, 3U, 4U, 5U, 5U, 6U, 7U};
        instances_.resize(std::clamp(any_of(sizes), given_.fewest, given_.most));
        clients_.resize(calm_ ? 1 : 1 + below(5));
        // Also so short that many tenures begin in one millisecond, and the clocks do not tell them
        // apart.
        delay_ = any_of(std::array<ticks, 4>{10, 30, 100, 1'000});
        // More than the 2 ms that are allowed for drift.
        ttl_ = 3 * ms + delay_ * any_of(std::array<ticks, 3>{20, 100, 1'000});
        error_ = 2'000 + delay_ * any_of(std::array<ticks, 4>{30, 50, 100, 200});
        patience_ = delay_ * any_of(std::array<ticks, 3>{10, 30, 100});
        if (!calm_) {
            expiry_ = any_of(std::array{0U, 10U, 30U, 60U});
            faults_ = any_of(std::array{0U, 10U, 30U, 80U});
            slow_ = any_of(std::array{0U, 5U, 20U});
            stops_ = any_of(std::array{0U, 10U, 40U});
            unfenced_ = any_of(std::array{0U, 0U, 15U, 50U});
            script_losses_ = one_in(8) ? 10 : 0;
        }
        long_ = delay_ * 100;
        // Hints become older than who forgets is away.
        if (!given_.fresh_hints) {
            long_ = std::max(long_, 4 * error_);
            patience_ += 4 * error_;
            if (one_in(2)) ttl_ += 10 * error_;
            stops_ = 30;
            faults_ = 30;
        }
        contends_ = any_of(std::array{0U, 30U, 100U});
        for (unsigned i = 0; i < instances_.size(); ++i)
            instances_[i].may_forget = i < given_.forgetful;
        // Which are not always the first.
        if (given_.forgetful != 0) std::shuffle(instances_.begin(), instances_.end(), random_);
        set_up_clocks();
        set_up_counters();
        for (unsigned c = 0; c < clients_.size(); ++c) {
            clients_[c].links.resize(instances_.size());
            clients_[c].attempts_left = static_cast<unsigned>(3 + below(10));
            push(some(delay_ * 4), {.what = kind::start, .client = c});
        }
        tenures_.reserve(clients_.size() * 12);
    }

    /// The property that was violated and how, or nothing.
    std::string run() {
        while (!events_.empty() && violation_.empty()) {
            std::pop_heap(events_.begin(), events_.end());
            auto next = events_.back();
            events_.pop_back();
            now_ = std::max(now_, next.when);
            happen(next);
        }
        if (violation_.empty() && calm_) {
            for (auto const& t : tenures_) {
                if (!t.won) fail("L1", "an acquire that nothing stood in the way of was not won");
            }
        }
        return violation_;
    }

private:
    using ticks = std::int64_t; // microseconds since 1970
    using machine = protocol::basic_tenure<Rules>;
    using command = protocol::command;
    using verdict = protocol::verdict;
    using tenure_effect = protocol::tenure_effect;
    using instance_set = protocol::instance_set;
    using phase = protocol::tenure_phase;

    static constexpr ticks ms = 1'000;
    static constexpr ticks years = ticks{365} * 24 * 3'600 * 1'000 * ms;
    static constexpr ticks beginning = 54 * years;

    enum class kind : std::uint8_t {
        // of a client: they wait until it runs
        start,
        ask,
        ask_rest,
        unsent,
        reply,
        broken,
        reconnect,
        time_out,
        tick,
        extend,
        hand_over,
        release,
        abandon,
        cancel,
        // of the world
        stop,
        arrive,
        expire,
        freeze,
        cut,
        crash,
        jump,
    };

    struct message {
        unsigned tenure = 0;
        command what{};
        bool whole_script = false;
        bool unknown_script = false; ///< of a reply
        protocol::verdict verdict{}; ///< of a reply
        std::uint32_t round = 0;
        std::uint64_t number = 0; ///< a hint, or what is answered
    };

    struct happening {
        kind what;
        unsigned client = 0, instance = 0, session = 0;
        ticks when = 0;
        std::uint64_t order = 0;
        message about{};
        bool operator<(happening const& other) const {
            return when != other.when ? when > other.when : order > other.order;
        }
    };

    struct sent_command {
        message about;
        std::uint64_t order;
        bool answered = false;
    };

    struct link {
        bool up = true, suspect = false;
        unsigned session = 0;   ///< counts the breaks
        unsigned client_in = 0; ///< the one that the client believes to be in
        ticks last_arrival = 0, last_reply = 0;
        // Of the session that ended last: until which command they are still carried out, and when.
        std::uint64_t ghosts_until = 0;
        ticks ghosts_at = 0;
        std::vector<sent_command> in_flight;
        std::vector<unsigned> kept; ///< releases
        bool available() const { return up && !suspect; }
    };

    enum class wall : std::uint8_t {
        right,
        a_bit_off,
        years_off,
        stuck,
        anything,
        before_1970,
        jumping,
    };
    enum class steady : std::uint8_t {
        right,
        stopped,
        hasty,
        jumping,
    };

    struct client {
        std::vector<link> links;
        wall wall_clock = wall::right;
        steady lease_clock = steady::right;
        ticks off = 0; ///< its wall clock
        ticks stopped_until = 0;
        unsigned attempts_left = 0;
        int current = -1;
    };

    struct state {
        int holder = -1;           ///< the tenure whose key it has
        std::uint64_t counter = 0; ///< 0: none
    };

    struct instance {
        state has, earlier;
        ticks off = 0; ///< its clock
        ticks frozen_until = 0, down_until = 0;
        bool may_forget = false, forgot = false;
    };

    struct tenure_state {
        unsigned client;
        machine is;
        protocol::time_point began{}; ///< by the lease clock, before the hint was read
        ticks hint_of = 0;            ///< what the wall clock showed
        ticks asked_at = 0;
        std::uint64_t floor = 0; ///< the greatest fence that had been given when it began
        unsigned awaited =
            0; ///< commands of the acquire, and what the client itself will go on with
        unsigned rounds = 0; ///< of raises
        unsigned lifts = 0;
        unsigned handoffs = 0;
        bool at_arbiter = false;
        bool undecided = false; ///< a raise failed, and the votes were no quorum any more
        bool won = false;
        bool over = false;
    };

    //
    // Chance and time
    //

    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    bool percent(unsigned n) { return n != 0 && below(100) < n; }
    ticks some(ticks t) { return static_cast<ticks>(below(static_cast<std::uint64_t>(t) + 1)); }
    template <class T, std::size_t N>
    T any_of(std::array<T, N> const& those) {
        return those[below(N)];
    }
    ticks travel() { return 1 + some(percent(slow_) ? delay_ * 30 : delay_); }

    void push(ticks after, happening h) {
        h.when = now_ + after;
        h.order = ++order_;
        keep(h);
    }
    void keep(happening const& h) {
        events_.push_back(h);
        std::push_heap(events_.begin(), events_.end());
    }
    /// Later, and still before all that came after it.
    void postpone(happening h, ticks until) {
        h.when = until;
        keep(h);
    }

    void fail(char const* property, std::string const& how) {
        if (violation_.empty()) violation_ = std::string(property) + ": " + how;
        tell_story(violation_);
    }

    template <class... Words>
    void tell_story(Words const&... words) {
        if (story_ == nullptr) return;
        *story_ << now_ - beginning << " us: ";
        (*story_ << ... << words) << '\n';
    }

    static std::string text(instance_set s) {
        std::string t;
        s.for_each([&](unsigned i) { t += std::to_string(i) + ' '; });
        return t;
    }

    //
    // Clocks
    //

    void set_up_clocks() {
        for (auto& c : clients_) {
            if (calm_) continue;
            if (!given_.right_clocks) {
                c.wall_clock =
                    any_of(std::array{wall::right, wall::a_bit_off, wall::years_off, wall::stuck,
                                      wall::anything, wall::before_1970, wall::jumping});
                c.off = c.wall_clock == wall::a_bit_off ? some(20 * ms) - 10 * ms
                        : c.wall_clock == wall::stuck   ? some(10) * ms - 5 * ms
                                                        : some(60 * years) - 30 * years;
            }
            if (!given_.bounded_acquires && one_in(3)) {
                c.lease_clock = any_of(std::array{steady::stopped, steady::hasty, steady::jumping});
            }
        }
        auto const slow = !calm_ && one_in(4);
        for (auto& i : instances_) {
            if (slow) i.off = -2 * years;
            if (!calm_ && one_in(3)) i.off = some(40 * years) - 20 * years;
        }
        for (auto& i : instances_) {
            if (i.may_forget && given_.right_servers) i.off = right_server();
        }
    }

    /// By how much the clock of an instance may be off that believes right hints.
    ticks right_server() {
        auto const slowest = -(60'000 * ms - error_);
        return one_in(2) ? slowest : slowest + some(2 * 60'000 * ms);
    }

    /// Which the client reads; it may show anything.
    ticks wall_clock(unsigned c) {
        auto& me = clients_[c];
        if (calm_) return now_;
        if (given_.right_clocks) {
            auto const least = -(error_ - 10 * delay_ - ms);
            switch (below(3)) {
            case 0:
                return now_ + error_;
            case 1:
                return now_ + least;
            default:
                return now_ + least + some(error_ - least);
            }
        }
        switch (me.wall_clock) {
        case wall::right:
            return now_;
        case wall::a_bit_off:
        case wall::years_off:
            return now_ + me.off;
        case wall::stuck:
            return beginning + me.off;
        case wall::anything:
            return some(300 * years);
        case wall::before_1970:
            return -some(years);
        case wall::jumping:
            break;
        }
        return now_ + some(6) * ms - 3 * ms;
    }

    protocol::time_point lease_clock(unsigned c) {
        auto shown = now_ - beginning;
        switch (clients_[c].lease_clock) {
        case steady::right:
            break;
        case steady::stopped:
            shown = 0;
            break;
        case steady::hasty:
            shown *= 5;
            break;
        case steady::jumping:
            shown += some(ttl_) - ttl_ / 2;
            break;
        }
        return protocol::time_point(std::chrono::hours(1) + std::chrono::microseconds(shown));
    }

    void set_up_counters() {
        using calmness = fence_conditions::calmness;
        auto const now = protocol::fence_hint(std::chrono::milliseconds(now_ / ms));
        auto const how = given_.calm == calmness::good_clocks ? 3
                         : given_.calm == calmness::diverged  ? 4
                         : given_.right_clocks ? any_of(std::array{0U, 2U, 3U, 3U, 7U, 8U})
                                               : below(7);
        for (auto& i : instances_) {
            switch (how) {
            case 0: // none has been used
                break;
            case 1:
                i.has.counter = 5;
                break;
            case 2:
                i.has.counter = below(6);
                break;
            case 3:
                i.has.counter = one_in(3) ? 0 : now - 1 - below(one_in(2) ? 10 : 1'000'000);
                break;
            case 4:
                i.has.counter = now + (1 << 20) + below(one_in(2) ? 4 : 1'000);
                break;
            case 5:
                i.has.counter = now + below(100);
                break;
            case 7: // ahead of all clocks
                i.has.counter =
                    now + static_cast<std::uint64_t>(error_ / ms + some(5 * error_ / ms)) * 10;
                break;
            case 8: // the same, and all alike
                i.has.counter = now + static_cast<std::uint64_t>(error_ / ms) * 10;
                break;
            default: // nearly used up
                i.has.counter = protocol::fence_limit - 1 - below(one_in(4) ? 20 : 1'000'000);
                break;
            }
            most_ = std::max(most_, i.has.counter);
        }
    }

    //
    // What happens
    //

    void happen(happening const& h) {
        if (h.what < kind::stop) {
            auto const& me = clients_[h.client];
            if (now_ < me.stopped_until) return postpone(h, me.stopped_until);
        }
        auto const t = h.about.tenure;
        switch (h.what) {
        case kind::start:
            return start(h.client);
        case kind::ask:
            return ask(t);
        case kind::ask_rest:
            return ask_rest(t);
        case kind::unsent:
            return tell(h.instance, h.about);
        case kind::reply:
            return on_reply(h);
        case kind::broken:
            return on_broken(h);
        case kind::reconnect:
            return on_reconnected(h);
        case kind::time_out:
            return on_timeout(h.client, h.instance);
        case kind::tick:
            return on_time(t);
        case kind::extend:
            return extend(t);
        case kind::hand_over:
            return hand_over(t);
        case kind::release:
            return release(t);
        case kind::abandon: // it forgets that it has the key
            return end(t);
        case kind::cancel:
            return cancel(t);
        case kind::stop:
            ++seen_.pauses;
            stand_still(clients_[h.client].stopped_until, a_while());
            return;
        case kind::arrive:
            return arrive(h);
        case kind::expire:
            return expire(h.instance, t);
        case kind::freeze:
            ++seen_.freezes;
            stand_still(instances_[h.instance].frozen_until, a_while());
            return;
        case kind::cut:
            return cut(h.client, h.instance, some(delay_ * 10), true);
        case kind::crash:
            return crash(h.instance);
        case kind::jump:
            return jump(h.instance);
        }
    }

    /// For how long a process may stop.
    ticks a_while() { return one_in(3) ? long_ : delay_ * 10; }
    void stand_still(ticks& until, ticks longest) { until = std::max(until, now_ + some(longest)); }

    void plan_fault() {
        auto const c = static_cast<unsigned>(below(clients_.size()));
        auto i = static_cast<unsigned>(below(instances_.size()));
        static constexpr std::array which{kind::stop,  kind::freeze, kind::cut,     kind::cut,
                                          kind::crash, kind::jump,   kind::time_out};
        auto what = any_of(which);
        if (given_.forgetful != 0 && one_in(4)) {
            what = kind::crash;
            while (!instances_[i].may_forget)
                i = static_cast<unsigned>((i + 1) % instances_.size());
        }
        push(some(delay_ * 6), {.what = what, .client = c, .instance = i});
    }

    void expire(unsigned i, unsigned t) {
        auto& has = instances_[i].has;
        if (has.holder != static_cast<int>(t)) return;
        auto const& its = tenures_[t];
        ++seen_.expiries;
        if (its.rounds != 0 && its.is.phase() == phase::acquiring) ++seen_.expired_in_raise;
        tell_story("the key of ", t, " expires at instance ", i);
        has.holder = -1;
    }

    void jump(unsigned i) {
        auto& at = instances_[i];
        ++seen_.clock_jumps;
        at.off = at.may_forget && given_.right_servers ? right_server()
                 : one_in(3)                           ? -2 * years
                                                       : some(40 * years) - 20 * years;
    }

    // What has not arrived is lost, or arrives when nobody listens; the client hears of it when it
    // runs.
    void cut(unsigned c, unsigned i, ticks span, bool ghosts) {
        auto& l = clients_[c].links[i];
        ++seen_.breaks;
        ++l.session;
        l.ghosts_until = 0;
        if (ghosts && l.client_in + 1 == l.session && !l.in_flight.empty() && one_in(2)) {
            l.ghosts_until = l.in_flight[below(l.in_flight.size())].order;
            l.ghosts_at = now_ + some(delay_ * 40);
        }
        push(0, {.what = kind::broken, .client = c, .instance = i, .session = l.session});
        push(1 + span, {.what = kind::reconnect, .client = c, .instance = i, .session = l.session});
    }

    void crash(unsigned i) {
        auto& at = instances_[i];
        if (now_ < at.down_until) return;
        auto away = some(delay_ * 10);
        ++seen_.crashes;
        if (at.may_forget) {
            away = forget(i);
        } else {
            tell_story("instance ", i, " crashes and keeps what it has");
        }
        at.down_until = now_ + away;
        at.frozen_until = 0;
        for (unsigned c = 0; c < clients_.size(); ++c) cut(c, i, away + travel(), false);
    }

    /// And for how long it is away.
    ticks forget(unsigned i) {
        using away = fence_conditions::away;
        auto& at = instances_[i];
        ++seen_.forgotten;
        auto const back = given_.older_state && one_in(2);
        if (back) ++seen_.restored;
        at.has = back ? at.earlier : state{};
        at.forgot = true;
        tell_story("instance ", i, " crashes and comes back with counter ", at.has.counter,
                   " and key of ", at.has.holder);
        if (given_.forgetting == away::briefly) return some(delay_ * 4);
        auto const counted = static_cast<ticks>(most_) * ms / 10 + 1;
        auto const twice = 2 * error_;
        if (given_.forgetting == away::twice_the_error) return twice + 1;
        if (counted + error_ - now_ > twice) ++seen_.ran_ahead;
        auto const enough = std::max(twice, counted + error_ - now_) + 1;
        // The hint of an acquire that wins is then no older than its ttl.
        if (given_.hint_within) return enough + ttl_;
        return given_.bounded_acquires ? std::max(enough, ttl_ + 1) : enough;
    }

    //
    // The wire, with the contract of redis::link
    //

    void send(unsigned t, unsigned i, command what, std::uint32_t round) {
        auto const c = tenures_[t].client;
        auto& l = clients_[c].links[i];
        message const m{
            .tenure = t, .what = what, .round = round, .number = tenures_[t].is.asks_for(what)};
        auto const awaited =
            what == command::acquire || what == command::contend || what == command::raise;
        if (awaited) ++tenures_[t].awaited;
        if (l.available()) return transmit(c, i, m, false);
        if (what == command::release) l.kept.push_back(t);
        // The instances that an acquire goes to are up; but who granted may be gone when it is to
        // be raised.
        if (what == command::raise) {
            ++seen_.raises_unsent;
            auto told = m;
            told.verdict = verdict::unsent;
            if (Parts::tells_unsent) {
                push(0, {.what = kind::unsent, .client = c, .instance = i, .about = told});
            } else {
                --tenures_[t].awaited;
            }
        }
    }

    void transmit(unsigned c, unsigned i, message const& m, bool answered) {
        auto& l = clients_[c].links[i];
        if (l.client_in != l.session) {
            l.in_flight.push_back({m, ++order_, answered});
            return; // it is lost
        }
        l.last_arrival = std::max(l.last_arrival, now_ + travel());
        push(l.last_arrival - now_,
             {.what = kind::arrive, .client = c, .instance = i, .session = l.session, .about = m});
        l.in_flight.push_back({m, order_, answered});
    }

    void arrive(happening const& h) {
        auto& at = instances_[h.instance];
        auto& l = clients_[h.client].links[h.instance];
        if (now_ < at.frozen_until) return postpone(h, at.frozen_until);
        auto const ghost = h.session != l.session;
        if (ghost) {
            if (h.session + 1 != l.session || h.order > l.ghosts_until) return;
            if (now_ < l.ghosts_at) return postpone(h, l.ghosts_at);
            ++seen_.ghosts;
        }
        if (is_too_old(h.about)) {
            ++seen_.too_old;
            if (!ghost) cut(h.client, h.instance, travel(), false);
            return;
        }
        auto reply = h;
        execute(h.instance, reply.about);
        if (ghost) return;
        reply.what = kind::reply;
        l.last_reply = std::max(l.last_reply, now_ + travel());
        push(l.last_reply - now_, reply);
    }

    /// The assumption: a hint is right to within E when an instance reads it.
    bool is_too_old(message const& m) const {
        auto const& t = tenures_[m.tenure];
        if (!given_.right_clocks || !given_.fresh_hints || !t.is.fenced()) return false;
        if (m.what != command::acquire && m.what != command::contend) return false;
        auto const rounded = t.hint_of / ms * ms;
        return rounded < now_ - error_ || rounded > now_ + error_;
    }

    void on_reply(happening const& h) {
        auto& l = clients_[h.client].links[h.instance];
        if (!l.up || h.session != l.session || h.session != l.client_in) return;
        if (std::exchange(l.suspect, false)) send_kept(h.client, h.instance);
        auto const sent = l.in_flight.front();
        l.in_flight.erase(l.in_flight.begin());
        auto answer = h.about;
        if (answer.unknown_script && !answer.whole_script) {
            auto const& its = tenures_[answer.tenure].is;
            if (its.phase() == phase::acquiring || its.phase() == phase::held) {
                ++seen_.scripts_lost;
                auto again = sent.about;
                again.whole_script = true;
                again.number = its.asks_for(again.what);
                return transmit(h.client, h.instance, again, sent.answered);
            }
            answer.verdict = verdict::unsent;
        }
        if (!sent.answered) tell(h.instance, answer);
    }

    void on_broken(happening const& h) {
        auto& l = clients_[h.client].links[h.instance];
        if (!l.up && l.in_flight.empty()) return;
        l.up = l.suspect = false;
        lose_in_flight(h.client, h.instance, true);
    }

    void on_reconnected(happening const& h) {
        auto& l = clients_[h.client].links[h.instance];
        if (h.session != l.session) return;
        auto const& at = instances_[h.instance];
        if (now_ < at.down_until) return postpone(h, at.down_until);
        l.up = true;
        l.suspect = false;
        l.client_in = l.session;
        send_kept(h.client, h.instance);
    }

    /// An instance is too slow for the client: what it may still answer is not heard.
    void on_timeout(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        if (!l.available() || l.in_flight.empty()) return;
        ++seen_.timeouts;
        l.suspect = true;
        lose_in_flight(c, i, false);
    }

    void lose_in_flight(unsigned c, unsigned i, bool gone) {
        auto& l = clients_[c].links[i];
        auto const sent = l.in_flight;
        if (gone) {
            l.in_flight.clear();
        } else {
            for (auto& s : l.in_flight) s.answered = true;
        }
        for (auto const& s : sent) {
            if (s.answered) continue;
            auto m = s.about;
            m.verdict = verdict::unknown;
            tell(i, m);
        }
    }

    void send_kept(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        auto const kept = std::exchange(l.kept, {});
        for (auto const t : kept) transmit(c, i, {.tenure = t, .what = command::release}, true);
    }

    //
    // An instance: the scripts of redis/exclusive_key.hpp
    //

    void execute(unsigned i, message& m) {
        auto& at = instances_[i];
        auto& has = at.has;
        auto const ours = has.holder == static_cast<int>(m.tenure);
        auto const fenced = tenures_[m.tenure].is.fenced();
        auto const by_script = m.what == command::raise || (fenced && sets(m.what));
        if (by_script && !m.whole_script && percent(script_losses_)) {
            m.unknown_script = true;
            return;
        }
        if (one_in(4)) at.earlier = has;
        m.verdict = ours ? verdict::yes : verdict::no;
        switch (m.what) {
        case command::acquire:
        case command::contend:
        case command::heal:
            m.verdict = fenced ? acquire_with_number(i, m) : acquire_alone(i, m);
            return;
        case command::raise:
            if (!ours && Parts::raise_compares) return;
            m.verdict = verdict::yes;
            if (Parts::raise_stores) has.counter = std::max(has.counter, m.number);
            most_ = std::max(most_, has.counter);
            tell_story("instance ", i, " is raised to ", m.number, " for ", m.tenure, " and has ",
                       has.counter, ours ? "" : " though the key is not its own");
            return;
        case command::release:
            if (ours) has.holder = -1;
            return;
        case command::extend:
        case command::inspect:
        case command::watch:
            return;
        }
    }

    static bool sets(command c) {
        return c == command::acquire || c == command::contend || c == command::heal;
    }

    void give(unsigned i, unsigned t) {
        instances_[i].has.holder = static_cast<int>(t);
        if (calm_) return;
        // Much too early, or when its time has come by a clock that is not the client's.
        auto const early = percent(expiry_);
        push(early ? some(delay_ * 6) : ttl_ / 2 + some(ttl_),
             {.what = kind::expire, .instance = i, .about = {.tenure = t}});
    }

    verdict acquire_alone(unsigned i, message const& m) {
        if (instances_[i].has.holder >= 0) return verdict::no;
        give(i, m.tenure);
        return verdict::yes;
    }

    verdict acquire_with_number(unsigned i, message& m) {
        auto& at = instances_[i];
        auto& has = at.has;
        if (has.holder >= 0) return verdict::no;
        if (has.counter >= protocol::fence_limit - 1) {
            ++seen_.exhausted;
            return verdict::refused;
        }
        auto n = has.counter + (Parts::counts_up ? 1 : 0);
        if (m.number > n) {
            auto const shown =
                std::floor(static_cast<double>(now_ + at.off) / 1'000'000); // seconds
            auto const near = m.number < n + 600'000;
            if (near || static_cast<double>(m.number) <= (shown + 61) * 10'000) {
                n = m.number;
            } else {
                ++seen_.hints_ignored;
            }
        } else {
            ++seen_.hints_behind;
        }
        if (n == 0) n = 1;
        has.counter = n;
        most_ = std::max(most_, n);
        if (at.forgot) ++seen_.forgetful_grants;
        give(i, m.tenure);
        tell_story("instance ", i, m.what == command::heal ? " is healed by " : " grants to ",
                   m.tenure, " with hint ", m.number, " the number ", n);
        m.number = n;
        return verdict::yes;
    }

    //
    // A client
    //

    instance_set reachable(unsigned c) const {
        instance_set set;
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (clients_[c].links[i].available()) set.insert(i);
        }
        return set;
    }

    void start(unsigned c) {
        auto& me = clients_[c];
        if (me.attempts_left == 0) return;
        --me.attempts_left;
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back(
            {c,
             {static_cast<unsigned>(instances_.size()), std::chrono::microseconds(ttl_), false,
              std::chrono::microseconds(ttl_ / 3)}});
        ++seen_.tenures;
        auto& its = tenures_.back();
        its.began = lease_clock(c);
        if (!percent(unfenced_)) {
            its.hint_of = wall_clock(c);
            its.is.number_from(protocol::fence_hint(std::chrono::milliseconds(its.hint_of / ms)));
        }
        me.current = static_cast<int>(t);
        ticks pause = 0;
        if (percent(stops_)) {
            ++seen_.stale_hints;
            pause = some(a_while());
        }
        push(pause, {.what = kind::ask, .client = c, .about = {.tenure = t}});
    }

    void ask(unsigned t) {
        auto& its = tenures_[t];
        auto const c = its.client;
        its.asked_at = now_;
        its.floor = greatest_;
        while (percent(faults_)) plan_fault();
        push(calm_ ? patience_ * 100 : delay_ + some(patience_),
             {.what = kind::cancel, .client = c, .about = {.tenure = t}});
        if (!calm_)
            push(some(patience_), {.what = kind::tick, .client = c, .about = {.tenure = t}});
        auto const who = reachable(c);
        auto const now = given_.hint_within ? its.began : lease_clock(c);
        tell_story("client ", c, " begins ", t, its.is.fenced() ? " with hint " : " without fence ",
                   its.is.number(), ", greatest fence ", greatest_ / protocol::leases_per_number);
        if (!who.empty() && percent(contends_)) {
            its.at_arbiter = true;
            auto arbiter = static_cast<unsigned>(below(instances_.size()));
            while (!who.contains(arbiter))
                arbiter = (arbiter + 1) % static_cast<unsigned>(instances_.size());
            return apply(t, its.is.contend(now, arbiter));
        }
        apply(t, its.is.acquire(now, who));
    }

    void ask_rest(unsigned t) {
        auto& its = tenures_[t];
        --its.awaited;
        if (its.is.phase() != phase::acquiring) return;
        apply(t, its.is.ask_rest(lease_clock(its.client), reachable(its.client)));
    }

    void tell(unsigned i, message const& m) {
        auto& its = tenures_[m.tenure];
        auto const acquiring = its.is.phase() == phase::acquiring;
        auto const raising = acquiring && its.rounds != 0;
        auto const before = its.is.number();
        auto v = m.verdict;
        auto round = m.round;
        if (m.what == command::acquire || m.what == command::contend || m.what == command::raise) {
            --its.awaited;
        }
        if (m.what == command::raise) {
            if (!Parts::doubts_silence && v == verdict::unknown) v = verdict::yes;
            if (acquiring && v == verdict::no) ++seen_.raises_denied;
            if (acquiring && v == verdict::unknown) ++seen_.raises_unknown;
            if (acquiring && v == verdict::yes && round != its.is.round_number())
                ++seen_.stale_raises;
            if (!Parts::tells_round) round = its.is.round_number();
        }
        auto const number = v == verdict::yes ? m.number : 0;
        auto const action = its.is.answer(m.what, round, i, v, lease_clock(its.client), number);
        if (raising && m.what == command::acquire && v == verdict::yes &&
            its.is.number() > before) {
            ++seen_.lifted;
            ++its.lifts;
        }
        if (m.what == command::raise && action.effect != tenure_effect::none &&
            action.effect != tenure_effect::won) {
            ++seen_.ended_by_raise;
        }
        if (raising && its.is.phase() == phase::acquiring && !its.is.votes().won())
            its.undecided = true;
        apply(m.tenure, action);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& its = tenures_[t];
        a.acquire.for_each([&](unsigned i) { send(t, i, command::acquire, 0); });
        a.contend.for_each([&](unsigned i) { send(t, i, command::contend, 0); });
        if (!a.raise.empty()) {
            ++seen_.raises;
            ++its.rounds;
            tell_story(t, " raises to ", its.is.number(), ": ", text(a.raise));
            a.raise.for_each([&](unsigned i) {
                send(t, i, command::raise, its.is.round_number());
                if (percent(expiry_ / 2)) {
                    push(some(delay_ * 2),
                         {.what = kind::expire, .instance = i, .about = {.tenure = t}});
                }
            });
        }
        a.extend.for_each([&](unsigned i) { send(t, i, command::extend, its.is.round_number()); });
        a.heal.for_each([&](unsigned i) {
            ++seen_.healed;
            send(t, i, command::heal, 0);
        });
        a.release.for_each([&](unsigned i) { send(t, i, command::release, 0); });
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::inspected: // nobody asks
        case tenure_effect::extension_failed:
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            break;
        case tenure_effect::arbiter_won:
            ++its.awaited;
            if (percent(stops_)) {
                push(some(a_while()),
                     {.what = kind::ask_rest, .client = its.client, .about = {.tenure = t}});
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
            tell_story("client ", its.client, " has won ", t, " with ", its.is.number());
            issue(t);
        } else {
            ++seen_.won_unfenced;
        }
        if (calm_) check_cost(its);
        auto const c = its.client;
        auto const hold = some(one_in(3) ? ttl_ : delay_ * 10);
        happening const about{.what = kind::tick, .client = c, .about = {.tenure = t}};
        auto const then = [&](ticks after, kind what) {
            auto h = about;
            h.what = what;
            push(after, h);
        };
        if (!calm_) {
            for (auto n = below(3); n > 0; --n) then(some(hold), kind::extend);
            if (one_in(3)) then(some(ttl_), kind::tick);
        }
        for (auto n = below(3); n > 0; --n) then(some(hold), kind::hand_over);
        then(hold, !calm_ && one_in(8) ? kind::abandon : kind::release);
    }

    /// A lease is given: its fence is checked.
    void issue(unsigned t) {
        auto& its = tenures_[t];
        if (!protocol::is_fence_count(its.is.number()))
            return fail("S2", "a number that no tenure may have");
        auto const fence = protocol::fence_of(its.is.number(), its.handoffs);
        if (std::find(issued_.begin(), issued_.end(), fence) != issued_.end()) {
            fail("S2", "two leases have the same fence");
        }
        if (fence <= its.floor) fail("S2", "a later lease has a smaller fence");
        issued_.push_back(fence);
        greatest_ = std::max(greatest_, fence);
    }

    /// How long an acquire may take that nothing stands in the way of.
    void check_cost(tenure_state const& its) {
        using calmness = fence_conditions::calmness;
        auto const round_trip = 2 * (delay_ + 1);
        auto const asks = its.at_arbiter && instances_.size() > 1 ? 2 : 1;
        if (given_.calm == calmness::good_clocks && its.rounds != 0)
            fail("L1", "a raise that is of no use");
        if (its.is.round_number() > 1 + its.lifts) fail("L1", "more raises than numbers");
        auto const raises = its.rounds != 0 ? 1 : 0;
        if (now_ - its.asked_at > (asks + raises) * round_trip)
            fail("L1", "more round trips than one for a raise");
    }

    void hand_over(unsigned t) {
        auto& its = tenures_[t];
        if (its.over || its.is.phase() != phase::held || !its.is.fenced()) return;
        ++seen_.handoffs;
        ++its.handoffs;
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
        // Its end is that of the client's turn, whatever is answered.
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
        me.current = -1;
        auto rest = one_in(3) ? delay_ * 20 : delay_ * 2;
        if (given_.forgetful != 0 && one_in(3)) rest = error_;
        if (!given_.fresh_hints && one_in(2)) rest = long_;
        push(1 + some(rest), {.what = kind::start, .client = its.client});
    }

    std::mt19937_64 random_;
    fence_tally& seen_;
    fence_conditions given_;
    std::ostream* story_;
    bool calm_ = false;
    unsigned expiry_ = 0, faults_ = 0, slow_ = 0, stops_ = 0, unfenced_ = 0, script_losses_ = 0,
             contends_ = 0;
    ticks delay_ = 0, ttl_ = 0, error_ = 0, patience_ = 0, long_ = 0;
    std::vector<instance> instances_;
    std::vector<client> clients_;
    std::vector<tenure_state> tenures_;
    std::vector<happening> events_; // a heap
    std::vector<std::uint64_t> issued_;
    std::uint64_t greatest_ = 0; ///< fence of those issued
    std::uint64_t most_ = 0;     ///< that an instance has counted to
    ticks now_ = beginning;
    std::uint64_t order_ = 0;
    std::string violation_;
};

} // namespace holdfast::test

#endif
