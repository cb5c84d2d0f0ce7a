// A world in which the real protocol classes run against simulated instances, links and clocks.
//
// Everything that happens in it follows from a seed: the number of instances and clients, the rates
// of their clocks, the time of each message, the moments at which an instance freezes or crashes, a
// link breaks or a client is stopped, and the wishes of the clients. The world obeys the
// assumptions of Redlock (an instance keeps a key for its ttl, by a clock whose rate is bounded)
// unless it is `forgetful`. Then it checks nothing that depends on them.
//
// Properties, named in doc/guarantees.md: S1 no two valid leases, S3 no other client deletes a held
// key, S4 no key is left behind, L1 the quorum-th answer decides, L3 every call settles within its
// bound, L4 loss is told by the deadline. And heal: a client puts a key back only with a quorum
// behind it.
#ifndef HOLDFAST_TEST_SIMULATION_WORLD_HPP
#define HOLDFAST_TEST_SIMULATION_WORLD_HPP

#include "protocol/tenure.hpp"

#include "simulation/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

/// How often what the properties are about has happened: schedules in which nothing happens prove
/// nothing.
struct tally_of_events {
    std::uint64_t won = 0, contended = 0, no_quorum = 0, expired = 0, cancelled = 0, extended = 0,
                  extension_failed = 0, lost = 0, released = 0, unconfirmed = 0, healed = 0,
                  late_grants = 0, resent = 0, pauses = 0, raised = 0;
};

template <class Rules>
class world : timeline {
public:
    explicit world(std::uint64_t seed, tally_of_events& seen)
        : timeline(seed)
        , seen_(seen) {
        forgetful_ = one_in(8);
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 4U, 5U, 5U, 7U};
        instances_.resize(sizes[below(sizes.size())]);
        clients_.resize(1 + below(4));
        static constexpr std::array<std::int64_t, 5> ttls{20, 100, 1'000, 10'000, 60'000};
        ttl_ = std::chrono::milliseconds(ttls[below(ttls.size())]);
        timeout_ = duration(ttl_.count() / std::array{50, 10, 3, 1}[below(4)]);
        // From messages that hardly count beside the ttl to such that often come too late.
        delay_ = duration(ttl_.count() / std::array{10'000, 1'000, 100, 10, 3}[below(5)]);
        // Instances that run fast and clients that run slow are the dangerous ones.
        auto const extreme = one_in(4);
        eager_ = one_in(6);
        for (auto& i : instances_) i.ppm = extreme ? max_ppm : between(-max_ppm, max_ppm);
        for (auto& c : clients_) {
            c.ppm = extreme ? -max_ppm : between(-max_ppm, max_ppm);
            c.watched = !one_in(3);
            c.links.resize(instances_.size());
        }
        auto const faults = one_in(4) ? 0 : below(2 + 2 * instances_.size());
        for (unsigned n = 0; n < faults; ++n) plan_fault();
        for (unsigned c = 0; c < clients_.size(); ++c) {
            clients_[c].attempts_left = 1 + static_cast<unsigned>(below(eager_ ? 100 : 6));
            at(some(ttl_ / 2), [this, c] { on_client(c, [this, c] { start_acquire(c); }); });
        }
    }

    /// The property that was violated and how, or nothing.
    std::string run() {
        while (happens()) {
        }
        if (violation().empty()) {
            for (auto const& t : tenures_) {
                if (!t.settled) fail("L3", "a call never ended");
                if (t.pending != 0) fail("L3", "a command was never accounted for");
            }
        }
        return violation();
    }

private:
    struct tenure_state {
        unsigned client;
        protocol::basic_tenure<Rules> machine;
        time_point started{};
        unsigned pauses_before = 0;
        bool settled = false; ///< the acquire has ended
        bool told = false;    ///< of its loss
        bool over = false;    ///< lost, released, or never won
        unsigned pending = 0; ///< commands that an instance may still carry out, and kept releases
        unsigned yes = 0;     ///< grants told to the machine
        std::uint32_t round = 0; ///< the extension that extended_by is about
        instance_set extended_by{};
        bool extension_pending = false;
        time_point extension_started{}, old_deadline{};
    };

    struct sent_command {
        unsigned tenure;
        command what;
        std::uint32_t round;
        bool answered = false;
        bool resent = false;
    };

    struct kept_release {
        unsigned tenure;
        true_time since;
    };

    struct link {
        bool connected = true, suspect = false;
        unsigned epoch = 0;   ///< counts the breaks
        unsigned session = 0; ///< the epoch that the client believes to be in
        std::deque<sent_command*> in_flight, to_server;
        std::deque<std::pair<sent_command*, verdict>> to_client;
        true_time last_arrival = 0, last_reply = 0, ended = 0;
        std::vector<kept_release> kept;
        bool available() const { return connected && !suspect; }
    };

    struct client : process {
        std::int64_t ppm = 0;
        bool watched = true;
        std::vector<link> links;
        unsigned pauses = 0;
        unsigned attempts_left = 0;
        int current = -1;
        std::uint64_t timer = 0;
    };

    struct instance {
        std::int64_t ppm = 0;
        int holder = -1; ///< the tenure whose key it has
        true_time expires = 0;
        true_time frozen_until = 0;
    };

    //
    // Chance and time
    //

    /// Mostly about delay_, now and then far more.
    true_time travel() { return 1 + some(one_in(10) ? delay_ * 8 : delay_); }

    void on_client(unsigned c, std::function<void()> what) { in(clients_[c], std::move(what)); }

    /// What the client's clock shows.
    time_point local(unsigned c) const {
        return time_point(duration(stretched(now(), clients_[c].ppm)));
    }
    bool held(tenure_state const& t) const {
        using phase = protocol::tenure_phase;
        // Told of its loss or not: until the deadline that it knows.
        return !t.over &&
               (t.machine.phase() == phase::held || t.machine.phase() == phase::ending) &&
               local(t.client) < t.machine.deadline();
    }

    unsigned quorum() const { return static_cast<unsigned>(instances_.size() / 2 + 1); }

    //
    // Faults
    //

    void plan_fault() {
        auto const when = some(ttl_ * 3);
        auto const span = some(one_in(3) ? ttl_ * 2 : ttl_ / 4) + 1;
        auto const i = static_cast<unsigned>(below(instances_.size()));
        auto const c = static_cast<unsigned>(below(clients_.size()));
        switch (below(forgetful_ ? 5 : 4)) {
        case 0:
            at(when, [this, i, span] {
                instances_[i].frozen_until = std::max(instances_[i].frozen_until, now() + span);
            });
            break;
        case 1:
            at(when, [this, c, i, span] { break_link(c, i, span); });
            break;
        case 2:
            at(when, [this, i, span] { crash(i, span); });
            break;
        case 3:
            at(when, [this, c, span] {
                ++seen_.pauses;
                ++clients_[c].pauses;
                clients_[c].paused_until = std::max(clients_[c].paused_until, now() + span);
            });
            break;
        default:
            at(when, [this, i] { instances_[i].holder = -1; });
            break;
        }
    }

    void crash(unsigned i, true_time span) {
        if (forgetful_ && one_in(2)) instances_[i].holder = -1;
        for (unsigned c = 0; c < clients_.size(); ++c) break_link(c, i, span + travel());
    }

    // What has not arrived never will; the client hears of it when it runs.
    void break_link(unsigned c, unsigned i, true_time span) {
        auto& l = clients_[c].links[i];
        auto const epoch = ++l.epoch;
        l.to_server.clear();
        l.to_client.clear();
        on_client(c, [this, c, i] { on_broken(c, i); });
        at(span, [this, c, i, epoch] {
            on_client(c, [this, c, i, epoch] {
                if (clients_[c].links[i].epoch == epoch) on_reconnected(c, i);
            });
        });
    }

    void on_broken(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        l.connected = false;
        l.suspect = false;
        l.ended = now();
        for (auto* s : std::exchange(l.in_flight, {})) {
            auto const keep = s->what == command::release;
            if (!std::exchange(s->answered, true)) tell(*s, i, verdict::unknown);
            if (keep) l.kept.push_back({s->tenure, now()});
            if (!keep) finished(s->tenure);
        }
    }

    void on_reconnected(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        l.connected = true;
        l.session = l.epoch;
        l.last_arrival = l.last_reply = now();
        send_kept(c, i, true);
    }

    //
    // The wire, with the contract of redis::link
    //

    void submit(unsigned t, unsigned i, command what, std::uint32_t round) {
        auto const c = tenures_[t].client;
        auto& l = clients_[c].links[i];
        if (!l.available()) {
            if (what != command::release) return;
            ++tenures_[t].pending;
            l.kept.push_back({t, now()});
            return;
        }
        ++tenures_[t].pending;
        send(c, i, sent_.emplace_back(sent_command{t, what, round}));
    }

    void send(unsigned c, unsigned i, sent_command& s) {
        auto& l = clients_[c].links[i];
        l.in_flight.push_back(&s);
        auto const session = l.session;
        if (session == l.epoch) {
            l.to_server.push_back(&s);
            l.last_arrival = std::max(l.last_arrival, now() + travel());
            at(l.last_arrival - now(), [this, c, i, session] { arrive(c, i, session); });
        }
        if (s.answered) return;
        at(real(timeout_, clients_[c].ppm), [this, c, i, &s, session] {
            on_client(c, [this, c, i, &s, session] {
                if (!s.answered && clients_[c].links[i].session == session) become_suspect(c, i);
            });
        });
    }

    void send_kept(unsigned c, unsigned i, bool new_session) {
        auto& l = clients_[c].links[i];
        for (auto const& k : std::exchange(l.kept, {})) {
            auto const gone =
                std::max(k.since, l.ended) + real(ttl_ + Rules::drift(ttl_), clients_[c].ppm);
            if (new_session && gone <= now()) {
                finished(k.tenure);
                continue;
            }
            ++seen_.resent;
            send(c, i, sent_.emplace_back(sent_command{k.tenure, command::release, 0, true, true}));
        }
    }

    void become_suspect(unsigned c, unsigned i) {
        auto& l = clients_[c].links[i];
        l.suspect = true;
        for (auto* s : std::deque(l.in_flight)) {
            if (!std::exchange(s->answered, true)) tell(*s, i, verdict::unknown);
        }
    }

    // One call for each command; what comes first was sent first, whatever has held them up.
    void arrive(unsigned c, unsigned i, unsigned epoch) {
        auto& l = clients_[c].links[i];
        if (l.epoch != epoch) return;
        if (now() < instances_[i].frozen_until) {
            return at(instances_[i].frozen_until - now(),
                      [this, c, i, epoch] { arrive(c, i, epoch); });
        }
        auto* const s = l.to_server.front();
        l.to_server.pop_front();
        l.to_client.push_back({s, execute(i, *s)});
        l.last_reply = std::max(l.last_reply, now() + travel());
        at(l.last_reply - now(),
           [this, c, i, epoch] { on_client(c, [this, c, i, epoch] { reply(c, i, epoch); }); });
    }

    void reply(unsigned c, unsigned i, unsigned epoch) {
        auto& l = clients_[c].links[i];
        if (l.epoch != epoch) return;
        auto const [s, v] = l.to_client.front();
        l.to_client.pop_front();
        l.in_flight.pop_front();
        if (std::exchange(l.suspect, false)) send_kept(c, i, false);
        if (s->answered && s->what == command::acquire && v == verdict::yes) ++seen_.late_grants;
        if (!std::exchange(s->answered, true)) tell(*s, i, v);
        finished(s->tenure);
    }

    // A command is no longer under way anywhere.
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    void check_clean(unsigned t) {
        auto const& state = tenures_[t];
        if (!state.over || state.pending != 0) return;
        for (auto const& i : instances_) {
            if (i.holder == static_cast<int>(t) && now() < i.expires) {
                fail("S4", "a key stays behind when everything has been answered");
            }
        }
    }

    //
    // An instance
    //

    verdict execute(unsigned i, sent_command const& s) {
        auto& at = instances_[i];
        if (at.holder >= 0 && now() >= at.expires) at.holder = -1;
        auto const ours = at.holder == static_cast<int>(s.tenure);
        auto const lives = real(ttl_, at.ppm);
        switch (s.what) {
        case command::acquire:
        case command::heal:
            if (at.holder >= 0) return verdict::no;
            at.holder = static_cast<int>(s.tenure);
            at.expires = now() + lives;
            return verdict::yes;
        case command::extend:
            if (!ours) return verdict::no;
            at.expires = now() + lives;
            return verdict::yes;
        case command::release:
            if (!ours) return verdict::no;
            if (held(tenures_[s.tenure])) fail("S3", "the key of a lease that is held was deleted");
            at.holder = -1;
            return verdict::yes;
        case command::raise: // sets no key; its counters are no matter here
            return ours ? verdict::yes : verdict::no;
        case command::contend:
        case command::inspect:
        case command::watch:
            break;
        }
        return verdict::refused;
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

    void start_acquire(unsigned c) {
        auto& me = clients_[c];
        if (me.attempts_left-- == 0) return;
        auto const t = static_cast<unsigned>(tenures_.size());
        tenures_.push_back({c, {static_cast<unsigned>(instances_.size()), ttl_, me.watched}});
        auto& state = tenures_.back();
        me.current = static_cast<int>(t);
        state.started = local(c);
        state.pauses_before = me.pauses;
        if (one_in(6)) {
            at(some(delay_ * 3), [this, c, t] {
                on_client(c, [this, t] { apply(t, tenures_[t].machine.cancel()); });
            });
        }
        apply(t, state.machine.acquire(local(c), reachable(c)));
    }

    void tell(sent_command const& s, unsigned i, verdict v) {
        auto& state = tenures_[s.tenure];
        using phase = protocol::tenure_phase;
        auto const was_acquiring = state.machine.phase() == phase::acquiring;
        if (s.what == command::acquire && v == verdict::yes) ++state.yes;
        if (s.what == command::extend && v == verdict::yes && s.round == state.round)
            state.extended_by.insert(i);
        auto const action = state.machine.answer(s.what, s.round, i, v, local(state.client));
        if (s.what == command::acquire && was_acquiring) {
            auto const decided = state.yes >= quorum();
            if (decided && action.effect != tenure_effect::won &&
                action.effect != tenure_effect::expired) {
                fail("L1", "the quorum-th grant does not decide");
            }
        }
        if (!action.heal.empty() && state.extended_by.size() < quorum()) {
            fail("heal", "a key was given back by one whose extension is not confirmed");
        }
        apply(s.tenure, action);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& state = tenures_[t];
        auto const c = state.client;
        a.acquire.for_each([&](unsigned i) { submit(t, i, command::acquire, 0); });
        a.extend.for_each(
            [&](unsigned i) { submit(t, i, command::extend, state.machine.round_number()); });
        a.heal.for_each([&](unsigned i) {
            ++seen_.healed;
            submit(t, i, command::heal, 0);
        });
        a.release.for_each([&](unsigned i) { submit(t, i, command::release, 0); });
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::inspected:   // nobody asks
        case tenure_effect::arbiter_won: // this world has no arbiters
        case tenure_effect::arbiter_refused:
        case tenure_effect::arbiter_failed:
            break;
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
            ++seen_.expired;
            on_failed(t);
            break;
        case tenure_effect::cancelled:
            ++seen_.cancelled;
            on_failed(t);
            break;
        case tenure_effect::extended:
            ++seen_.extended;
            if (local(c) >= state.old_deadline)
                fail("S1", "a lease that had run out was brought back");
            extension_ended(t);
            // As for a lease with a fence, whose counters are to last.
            if (one_in(3)) {
                ++seen_.raised;
                (state.machine.maybe_held() & reachable(c)).for_each([&](unsigned i) {
                    submit(t, i, command::raise, 0);
                });
            }
            break;
        case tenure_effect::extension_failed:
            ++seen_.extension_failed;
            extension_ended(t);
            break;
        case tenure_effect::lost:
            if (!state.over) on_lost(t);
            break;
        case tenure_effect::ended:
            if (!state.over) on_ended(t);
            break;
        case tenure_effect::released:
            ++seen_.released;
            break;
        case tenure_effect::release_unconfirmed:
            ++seen_.unconfirmed;
            break;
        }
        arm(c);
    }

    void on_won(unsigned t) {
        ++seen_.won;
        settle(t);
        auto& state = tenures_[t];
        if (local(state.client) >= state.machine.deadline())
            fail("S1", "a lease was given out that has run out");
        for (auto const& other : tenures_) {
            if (&other != &state && !forgetful_ && held(other))
                fail("S1", "two leases are valid at once");
        }
        auto const c = state.client;
        auto const hold = one_in(3) ? some(ttl_ * 2) : some(ttl_ / 3);
        if (one_in(3)) {
            at(some(ttl_ / 2), [this, c, t] { on_client(c, [this, t] { extend(t); }); });
        }
        at(hold, [this, c, t] { on_client(c, [this, t] { release(t); }); });
    }

    void on_failed(unsigned t) {
        settle(t);
        tenures_[t].over = true;
        check_clean(t);
        next(tenures_[t].client);
    }

    void settle(unsigned t) {
        auto& state = tenures_[t];
        if (std::exchange(state.settled, true)) return fail("L3", "a call ended twice");
        check_bound(state, state.started, "an acquire");
    }

    void check_bound(tenure_state const& state, time_point since, std::string const& what) {
        if (clients_[state.client].pauses != state.pauses_before) return;
        // A nanosecond or two for the rounding of clocks.
        auto const bound = timeout_ + duration(5) + timeout_ / 1'000'000;
        if (local(state.client) - since > bound)
            fail("L3", what + " took longer than an instance may");
    }

    void extend(unsigned t) {
        auto& state = tenures_[t];
        if (state.over || state.told || state.machine.extending()) return;
        begin_extension(t);
    }

    void begin_extension(unsigned t) {
        auto& state = tenures_[t];
        state.extension_pending = true;
        state.extension_started = local(state.client);
        state.old_deadline = state.machine.deadline();
        state.extended_by = {};
        state.pauses_before = clients_[state.client].pauses;
        auto const action = state.machine.extend(local(state.client), reachable(state.client));
        state.round = state.machine.round_number();
        apply(t, action);
    }

    void extension_ended(unsigned t) {
        auto& state = tenures_[t];
        if (std::exchange(state.extension_pending, false))
            check_bound(state, state.extension_started, "an extension");
    }

    void on_lost(unsigned t) {
        ++seen_.lost;
        auto& state = tenures_[t];
        state.told = true;
        state.extension_pending = false;
        // Whoever is stopped while the deadline passes hears of it when he goes on.
        auto const late = local(state.client) - state.machine.deadline();
        if (late > duration(0) && clients_[state.client].paused_until < now() - late.count() - 5) {
            fail("L4", "a loss was told after the deadline");
        }
        if (state.machine.phase() == protocol::tenure_phase::over) on_ended(t);
    }

    void on_ended(unsigned t) {
        tenures_[t].over = true;
        check_clean(t);
        next(tenures_[t].client);
    }

    void release(unsigned t) {
        auto& state = tenures_[t];
        if (state.over || state.told) return;
        state.over = true;
        state.extension_pending = false;
        apply(t, state.machine.release(local(state.client), reachable(state.client)));
        check_clean(t);
        next(state.client);
    }

    void next(unsigned c) {
        clients_[c].current = -1;
        at(1 + some(eager_      ? ttl_ / 50
                    : one_in(2) ? delay_ * 2
                                : ttl_ / 4),
           [this, c] { on_client(c, [this, c] { start_acquire(c); }); });
    }

    // One timer, for what the machine says.
    void arm(unsigned c) {
        auto& me = clients_[c];
        auto const timer = ++me.timer;
        if (me.current < 0) return;
        auto const t = static_cast<unsigned>(me.current);
        auto const wake = tenures_[t].machine.wake();
        if (!wake) return;
        auto const left = std::max(*wake - local(c), duration(0));
        at(real(left, me.ppm), [this, c, t, timer] {
            on_client(c, [this, c, t, timer] {
                if (clients_[c].timer == timer) on_time(c, t);
            });
        });
    }

    void on_time(unsigned c, unsigned t) {
        auto& state = tenures_[t];
        auto const action = state.machine.time(local(c));
        if (action.effect == tenure_effect::renewal_due) return begin_extension(t);
        apply(t, action);
    }

    tally_of_events& seen_;
    bool forgetful_ = false, eager_ = false;
    duration ttl_{}, timeout_{}, delay_{};
    std::vector<instance> instances_;
    std::vector<client> clients_;
    std::deque<tenure_state> tenures_;
    std::deque<sent_command> sent_;
};

} // namespace holdfast::test

#endif
