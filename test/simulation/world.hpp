// A world in which the real protocol classes run against simulated instances, connections and
// clocks.
//
// All events follow from a seed: the number of instances and clients, the rates of their clocks,
// the travel time of each message, all faults, and the wishes of the clients. The world obeys the
// assumptions of Redlock: an instance keeps a key for its ttl, by a clock whose rate is bounded. A
// `forgetful` world does not, and checks no property that depends on them. A server may execute
// commands long after their connection has ended. Holders choose other ttls, and hand leases over
// to other clients.
//
// Properties, named in doc/guarantees.md: S1 no two valid leases, S3 no other client deletes a held
// key, S4 no key is left behind, L1 the quorum-th answer decides, L3 every call settles within its
// bound, L4 a loss is reported by the deadline, I2 a holder that was revoked at so many instances
// that no quorum is left extends no lease. The property `heal`: a client puts a key back only
// with a quorum behind it.
#ifndef HOLDFAST_TEST_SIMULATION_WORLD_HPP
#define HOLDFAST_TEST_SIMULATION_WORLD_HPP

#include "protocol/tenure/tenure.hpp"

#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <set>
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

/// Counts of events that the properties concern. A run without them proves nothing.
struct tally_of_events {
    std::uint64_t won = 0, contended = 0, no_quorum = 0, expired = 0, cancelled = 0, extended = 0,
                  extension_failed = 0, lost = 0, released = 0, unconfirmed = 0, healed = 0,
                  late_grants = 0, resent = 0, pauses = 0, raised = 0, shortened = 0,
                  lengthened = 0, left = 0, adopted = 0, not_adopted = 0, ghosts = 0,
                  ghost_extensions = 0, tombstones = 0, closed = 0;
};

struct world_message : message {
    duration ttl{};
    bool adopts = false;    ///< an extension, which counts as a grant
    bool tombstone = false; ///< shown in the reply to an extension
};

struct world_client : lessee<connection<world_message>> {
    unsigned pauses = 0;
    unsigned attempts_left = 0;
};

/// What the servers do with the commands.
struct faithful_servers {
    /// An extension that is executed late may shorten the life of a key.
    static constexpr bool shorten() { return false; }
    /// Holders are revoked. The other worlds keep their schedules.
    static constexpr bool revokes() { return false; }
    static void revoke(content& has, true_time /*now*/) {
        has.token = std::exchange(has.holder, revoked);
    }
    /// An extension tells of the tombstone of its own token.
    static constexpr bool shows_tombstones() { return true; }
    /// The command replaces the tombstone of its own token.
    static constexpr bool replaces(command) { return false; }
};

template <class Rules, class Servers = faithful_servers>
class world : network<world_client, instance> {
public:
    world(std::uint64_t seed, tally_of_events& seen, std::ostream* story = nullptr)
        : network(seed, story)
        , seen_(seen) {
        forgetful_ = one_in(8);
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 4U, 5U, 5U, 7U};
        instances_.resize(sizes[below(sizes.size())]);
        clients_.resize(1 + below(4));
        static constexpr std::array<std::int64_t, 5> ttls{20, 100, 1'000, 10'000, 60'000};
        ttl_ = std::chrono::milliseconds(ttls[below(ttls.size())]);
        timeout_ = duration(ttl_.count() / std::array{50, 10, 3, 1}[below(4)]);
        // The delay ranges from negligible beside the ttl to often too late.
        delay_ = duration(ttl_.count() / std::array{10'000, 1'000, 100, 10, 3}[below(5)]);
        // Fast instances and slow clients are the most dangerous combination.
        auto const extreme = one_in(4);
        turbulent_ = one_in(6);
        eager_ = turbulent_ || one_in(6);
        for (auto& i : instances_) i.ppm = extreme ? max_ppm : between(-max_ppm, max_ppm);
        for (auto& c : clients_) {
            c.ppm = extreme ? -max_ppm : between(-max_ppm, max_ppm);
            c.renewed = turbulent_ ? one_in(4) : !one_in(3);
            c.connections.resize(instances_.size());
        }
        auto const faults = one_in(4) ? 0 : below(2 + 2 * instances_.size());
        for (unsigned n = 0; n < faults; ++n) plan_fault();
        for (auto n = Servers::revokes() ? 1 + below(6) : 0; n > 0; --n)
            at(some(ttl_ * 3), [this] { revoke(); });
        for (unsigned c = 0; c < clients_.size(); ++c) {
            clients_[c].attempts_left = 1 + static_cast<unsigned>(below(eager_ ? 100 : 6));
            at(some(ttl_ / 2), clients_[c], [this, c] { start_acquire(c); });
        }
    }

    /// Returns the violated property with the reason, or an empty string.
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
        unsigned token;      ///< the number of the tenure that was the first with this key
        bool adopts = false; ///< asks for a lease that another client has left
        time_point started{};
        unsigned pauses_before = 0;
        bool settled = false; ///< the acquire has ended
        bool told = false;    ///< the client heard of the loss
        bool over = false;    ///< the lease was lost or released, or never won
        unsigned pending =
            0;            ///< commands that an instance may still carry out, and pending releases
        unsigned yes = 0; ///< grants given to the machine
        std::uint32_t round = 0; ///< the round of the extension in extended_by
        instance_set extended_by{};
        bool extension_pending = false;
        time_point extension_started{}, old_deadline{};
        bool closed = false; ///< the extension began when tombstones left no quorum
    };

    //
    // Chance and time
    //

    /// Usually about delay_, now and then far more.
    true_time travel() override { return 1 + some(one_in(10) ? delay_ * 8 : delay_); }

    /// The time by the client's clock.
    time_point local(unsigned c) const {
        return time_point(duration(stretched(now(), clients_[c].ppm)));
    }
    bool held(tenure_state const& t) const {
        return !t.over && is_valid(t.machine, local(t.client));
    }

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
            at(when, [this, i, span] { freeze(i, span); });
            break;
        case 1:
            at(when, [this, c, i, span] { break_connection(c, i, span); });
            break;
        case 2:
            at(when, [this, i, span] { crash(i, span); });
            break;
        case 3:
            at(when, [this, c, span] {
                ++seen_.pauses;
                ++clients_[c].pauses;
                pause(clients_[c], span);
            });
            break;
        default:
            at(when, [this, i] { instances_[i].has.holder = nobody; });
            break;
        }
    }

    /// Revokes the holder that one instance shows. Some instances cannot be reached.
    void revoke() {
        auto& seen = instances_[below(instances_.size())];
        seen.expire(now());
        if (seen.has.holder < 0) return;
        auto const token = static_cast<unsigned>(seen.has.holder);
        for (unsigned i = 0; i < instances_.size(); ++i) {
            if (!one_in(4)) at(travel(), [this, i, token] { put_tombstone(i, token); });
        }
    }
    void put_tombstone(unsigned i, unsigned token) {
        auto& at = instances_[i];
        at.expire(now());
        if (!at.has.is_of(token)) return;
        ++seen_.tombstones;
        Servers::revoke(at.has, now());
        if (is_closed(token)) ++seen_.closed;
    }
    /// The other instances are no quorum.
    bool is_closed(unsigned token) const {
        auto const there = std::count_if(instances_.begin(), instances_.end(), [&](auto const& i) {
            return i.has.holder == revoked && i.has.token == static_cast<int>(token) &&
                   now() < i.has.expires;
        });
        return static_cast<unsigned>(there) > size() - quorum();
    }

    void crash(unsigned i, true_time span) {
        if (forgetful_ && one_in(2)) instances_[i].has.holder = nobody;
        for (unsigned c = 0; c < clients_.size(); ++c) break_connection(c, i, span + travel());
    }

    // Breaks a connection. The client hears of it when it runs. The instance may carry out the
    // messages under way later.
    void break_connection(unsigned c, unsigned i, true_time span) {
        auto& conn = clients_[c].connections[i];
        auto late = one_in(2) ? conn.to_server : std::deque<world_message>();
        sever(c, i);
        conn.ghosts = std::move(late);
        conn.ghosts_at = now() + some(one_in(2) ? ttl_ : delay_ * 8);
        on_client(c, [this, c, i] { lose(c, i); });
        reconnect_after(c, i, span);
    }

    void on_reconnected(unsigned c, unsigned i) override {
        connected(clients_[c].connections[i]);
        send_pending(c, i, true);
    }

    //
    // The wire
    //

    void submit(unsigned t, unsigned i, command op, std::uint32_t round) {
        auto const c = tenures_[t].client;
        auto& conn = clients_[c].connections[i];
        if (!conn.available()) {
            if (op != command::release) return;
            ++tenures_[t].pending;
            conn.pending.push_back({t, now()});
            return;
        }
        ++tenures_[t].pending;
        world_message m;
        m.tenure = t;
        m.op = op;
        m.round = round;
        m.ttl = tenures_[t].machine.ttl();
        m.adopts = op == command::acquire && tenures_[t].adopts;
        auto const serial = transmit(c, i, std::move(m));
        at(real(timeout_, clients_[c].ppm), clients_[c], [this, c, i, serial] {
            if (is_awaited(c, i, serial)) give_up_answers(c, i);
        });
    }

    void send_pending(unsigned c, unsigned i, bool new_session) {
        auto& conn = clients_[c].connections[i];
        for (auto const& k : std::exchange(conn.pending, {})) {
            auto const longest = longest_ttl();
            auto const gone = std::max(k.since, conn.ended) +
                              real(longest + Rules::drift(longest), clients_[c].ppm);
            if (new_session && gone <= now()) {
                finished(k.tenure);
                continue;
            }
            ++seen_.resent;
            world_message m;
            m.tenure = k.tenure;
            m.op = command::release;
            m.answered = true;
            transmit(c, i, std::move(m));
        }
    }

    void on_silence(unsigned c, unsigned i, world_message& m) override {
        auto& conn = clients_[c].connections[i];
        if (!m.answered) pass_on(m, i, verdict::unknown);
        if (conn.up) return;
        if (m.op == command::release) {
            conn.pending.push_back({m.tenure, now()});
        } else {
            finished(m.tenure);
        }
    }

    void on_reply(unsigned c, unsigned i, world_message& m) override {
        if (std::exchange(clients_[c].connections[i].suspect, false)) send_pending(c, i, false);
        if (m.answered && m.op == command::acquire && m.said == verdict::yes) ++seen_.late_grants;
        if (!m.answered) pass_on(m, i, m.said);
        finished(m.tenure);
    }

    // A command has been answered, or will never be carried out.
    void finished(unsigned t) {
        --tenures_[t].pending;
        check_clean(t);
    }

    void check_clean(unsigned t) {
        auto const& state = tenures_[t];
        // A key that was left goes with its ttl, and so does one that came after its connection.
        if (!state.over || state.pending != 0 || stays_.contains(state.token)) return;
        for (auto const& i : instances_) {
            if (i.has.keeps(state.token, now()))
                fail("S4", "a key stays behind when everything has been answered");
        }
    }

    bool execute(unsigned /*c*/, unsigned i, world_message& m, bool ghost) override {
        auto& at = instances_[i];
        at.expire(now());
        auto const token = tenures_[m.tenure].token;
        auto const op = m.adopts ? command::extend : m.op;
        auto expires = now() + real(m.ttl, at.ppm);
        if (op == command::extend && !Servers::shorten())
            expires = std::max(expires, at.has.expires);
        auto const own_tombstone =
            at.has.holder == revoked && at.has.token == static_cast<int>(token);
        if (own_tombstone && Servers::replaces(op))
            at.has.holder = op == command::heal ? nobody : static_cast<int>(token);
        auto const done = carry_out(at.has, op, token, expires);
        if (ghost) {
            ++seen_.ghosts;
            if (done.changed && op == command::extend) ++seen_.ghost_extensions;
            if (done.changed && op != command::release) stays_.insert(token);
        }
        if (op == command::release && done.changed) {
            for (auto const& t : tenures_) {
                if (t.token == token && held(t))
                    fail("S3", "the key of a lease that is held was deleted");
            }
        }
        m.said = done.said;
        m.tombstone = own_tombstone && op == command::extend && Servers::shows_tombstones();
        return true;
    }

    //
    // A client
    //

    void start_acquire(unsigned c) {
        auto& me = clients_[c];
        if (me.attempts_left-- == 0) return;
        auto const t = static_cast<unsigned>(tenures_.size());
        auto const adopted = std::exchange(offered_, std::nullopt);
        auto const ttl = adopted ? any_ttl() : ttl_;
        tenures_.push_back(
            {c, {size(), ttl, me.renewed}, adopted.value_or(t), adopted.has_value()});
        auto& state = tenures_.back();
        me.current = static_cast<int>(t);
        state.started = local(c);
        state.pauses_before = me.pauses;
        if (one_in(6)) {
            at(some(delay_ * 3), me, [this, t] { apply(t, tenures_[t].machine.cancel()); });
        }
        apply(t, state.machine.acquire(local(c), reachable(c)));
    }

    void pass_on(world_message const& m, unsigned i, verdict v) {
        auto& state = tenures_[m.tenure];
        using phase = protocol::tenure_phase;
        auto const was_acquiring = state.machine.phase() == phase::acquiring;
        if (m.op == command::acquire && v == verdict::yes) ++state.yes;
        if (m.op == command::extend && v == verdict::yes && m.round == state.round)
            state.extended_by.insert(i);
        if (m.tombstone) state.machine.note_tombstone();
        auto const action = state.machine.answer(m.op, m.round, i, v, local(state.client));
        if (m.op == command::acquire && was_acquiring) {
            auto const decided = state.yes >= quorum();
            if (decided && action.effect != tenure_effect::won &&
                action.effect != tenure_effect::expired) {
                fail("L1", "the quorum-th grant does not decide");
            }
        }
        if (!action.heal.empty() && state.extended_by.size() < quorum()) {
            fail("heal", "a key was given back by one whose extension is not confirmed");
        }
        apply(m.tenure, action);
    }

    void apply(unsigned t, protocol::tenure_action const& a) {
        auto& state = tenures_[t];
        auto const c = state.client;
        seen_.healed += a.heal.size();
        send_all(a, state.machine.round_number(), [&](unsigned i, command op, std::uint32_t round) {
            // An adoption that fails leaves the key.
            if (op != command::release || !state.adopts) submit(t, i, op, round);
        });
        switch (a.effect) {
        case tenure_effect::none:
        case tenure_effect::renewal_due:
        case tenure_effect::inspected:   // no client inspects
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
            if (state.closed) fail("I2", "a holder that was revoked has extended its lease");
            extension_ended(t);
            // Raises the counters, as for a lease with a fence.
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
        if (std::exchange(state.adopts, false)) {
            ++seen_.adopted;
            state.machine.adopt(0);
        }
        if (local(state.client) >= state.machine.deadline())
            fail("S1", "a lease was given out that has run out");
        for (auto const& other : tenures_) {
            if (&other != &state && !forgetful_ && held(other))
                fail("S1", "two leases are valid at once");
        }
        auto const c = state.client;
        auto const hold = turbulent_ || one_in(3) ? some(ttl_ * 2) : some(ttl_ / 3);
        if (one_in(turbulent_ ? 1 : 3)) at(some(ttl_ / 2), clients_[c], [this, t] { extend(t); });
        at(hold, clients_[c], [this, t] { one_in(4) ? leave(t) : release(t); });
    }

    void on_failed(unsigned t) {
        if (tenures_[t].adopts) ++seen_.not_adopted;
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

    void check_bound(tenure_state const& state, time_point since, std::string const& call) {
        if (clients_[state.client].pauses != state.pauses_before) return;
        // Clocks are rounded to a nanosecond or two.
        auto const bound = timeout_ + duration(5) + timeout_ / 1'000'000;
        if (local(state.client) - since > bound)
            fail("L3", call + " took longer than an instance may");
    }

    void extend(unsigned t) {
        auto& state = tenures_[t];
        if (state.over || state.told) return;
        if (one_in(2)) {
            if (!state.machine.extending()) begin_extension(t);
            return;
        }
        extend_to(t, any_ttl());
        if (!turbulent_ || !one_in(2)) return;
        // The bytes of this extension may outlive their connection, and the next extension.
        auto const i = static_cast<unsigned>(below(size()));
        at(some(delay_ / 2),
           [this, c = state.client, i] { break_connection(c, i, some(delay_ * 2)); });
        at(some(delay_ * 8), clients_[state.client], [this, t] { extend_to(t, longest_ttl()); });
    }
    void extend_to(unsigned t, duration ttl) {
        auto& state = tenures_[t];
        if (state.over || state.told) return;
        ++(ttl < state.machine.ttl() ? seen_.shortened : seen_.lengthened);
        begin_extension(t, ttl);
    }
    duration any_ttl() { return ttl_ * std::array{1, 2, 4}[below(3)] / 2; }
    duration longest_ttl() const { return ttl_ * 2; }

    /// The holder leaves the key to its ttl, and gives the token to another client, mostly.
    void leave(unsigned t) {
        auto& state = tenures_[t];
        if (state.over || state.told) return;
        ++seen_.left;
        state.over = true;
        state.extension_pending = false;
        stays_.insert(state.token);
        (void)state.machine.abandon();
        if (!one_in(4)) offered_ = state.token;
        next(state.client);
    }

    void begin_extension(unsigned t, duration ttl = {}) {
        auto& state = tenures_[t];
        state.extension_pending = true;
        state.extension_started = local(state.client);
        state.old_deadline = state.machine.deadline();
        state.extended_by = {};
        state.closed = !forgetful_ && is_closed(state.token);
        state.pauses_before = clients_[state.client].pauses;
        auto const action = state.machine.extend(local(state.client), reachable(state.client), ttl);
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
        // A client that is stopped at the deadline hears of the loss when it goes on.
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
        clients_[c].current = nobody;
        at(1 + some(eager_      ? ttl_ / 50
                    : one_in(2) ? delay_ * 2
                                : ttl_ / 4),
           clients_[c], [this, c] { start_acquire(c); });
    }

    void arm(unsigned c) {
        auto& me = clients_[c];
        if (me.current == nobody) return network::arm(me, std::nullopt, local(c), [] {});
        auto const t = static_cast<unsigned>(me.current);
        network::arm(me, tenures_[t].machine.wake(), local(c), [this, c, t] { on_time(c, t); });
    }

    void on_time(unsigned c, unsigned t) {
        auto& state = tenures_[t];
        auto const action = state.machine.time(local(c));
        if (action.effect == tenure_effect::renewal_due) return begin_extension(t);
        apply(t, action);
    }

    tally_of_events& seen_;
    bool forgetful_ = false, eager_ = false;
    bool turbulent_ = false; ///< connections break while extensions are under way
    duration ttl_{}, timeout_{}, delay_{};
    std::deque<tenure_state> tenures_;
    std::optional<unsigned> offered_; ///< a token for the next client that acquires
    std::set<unsigned> stays_;        ///< tokens whose keys go with their ttl
};

} // namespace holdfast::test

#endif
