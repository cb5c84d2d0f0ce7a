// The waiters of one process for one key, in order, and the tries that are made for the first. Only
// the head of the queue has the instances asked; the others cost nothing but their place in it.
//
// The try that is under way belongs to the queue and not to the waiter it was made for, so a waiter
// that leaves takes nothing with it: the next waiter inherits it.
//
// The driver tells it each event with its time; next() names the next task, and is asked again
// until it has nothing more. It does no I/O, reads no clock and allocates nothing.
#ifndef HOLDFAST_PROTOCOL_WAIT_QUEUE_HPP
#define HOLDFAST_PROTOCOL_WAIT_QUEUE_HPP

#include "protocol/backoff.hpp"
#include "protocol/instance_set.hpp"
#include "protocol/key_watch.hpp"
#include "protocol/look_schedule.hpp"
#include "protocol/queue_action.hpp"
#include "protocol/rivals.hpp"
#include "protocol/rules.hpp"
#include "protocol/stand_back.hpp"
#include "protocol/tally.hpp"
#include "protocol/time.hpp"
#include "protocol/waiter.hpp"
#include "protocol/waiting_rules.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

template <class Rules>
class basic_wait_queue {
public:
    using list = boost::intrusive::list<waiter, boost::intrusive::base_hook<waiter_hook>,
                                        boost::intrusive::constant_time_size<false>>;

    explicit basic_wait_queue(unsigned configured = 1)
        : watch_(configured)
        , configured_(configured) {}

    //
    // Waiters
    //

    /// False: it does not wait, and somebody is before it.
    [[nodiscard]] bool join(waiter& w) {
        auto const free = phase_ == phase::ready || phase_ == phase::standing_back;
        if (!w.waits && (!free || !waiters_.empty())) return false;
        waiters_.push_back(w);
        return true;
    }
    /// For how long the key is left alone when it has become free, for clients that poll for it.
    void yields(duration d) { yields_ = d; }
    /// Cancelled, timed out, refused or failed.
    void leave(waiter& w) { waiters_.erase(waiters_.iterator_to(w)); }

    /// Lets go of all waiters, without a word.
    void abandon() { waiters_.clear(); }

    bool empty() const { return waiters_.empty(); }
    waiter& front() { return waiters_.front(); }
    waiter const& front() const { return waiters_.front(); }

    action next(time_point now, instance_set reachable) {
        for (;;) {
            switch (phase_) {
            case phase::ready:
                return begin(now, reachable);
            case phase::trying:
                if (!waiters_.empty() && serves(front()) &&
                    (Rules::inherits() || &front() == for_whom_))
                    return action::none;
                phase_ = phase::ready;
                watch_.forget();
                return action::give_up;
            case phase::to_ask:
                if (!waiters_.empty()) {
                    phase_ = phase::asking;
                    return action::ask;
                }
                phase_ = phase::ready;
                break;
            case phase::asking:
            case phase::held:
                return action::none;
            case phase::refused:
                if (!waiters_.empty() && !front().waits) return action::refuse;
                if (now < wake_ && !waiters_.empty()) {
                    auto const todo = told_ ? watch_.next(now, reachable) : watch_action::none;
                    if (todo == watch_action::ask) return action::watch;
                    if (todo == watch_action::none) return action::none;
                    looks_.at_once(now);
                }
                phase_ = phase::ready;
                break;
            case phase::standing_back:
                if (now < wake_ && (waiters_.empty() || front().waits)) {
                    return stand_back_.take_question() ? action::listen : action::none;
                }
                stand_back_.end(now);
                phase_ = phase::ready;
                break;
            }
        }
    }

    /// When next() has something to say, if nothing else happens.
    std::optional<time_point> wake() const {
        if (phase_ != phase::refused && phase_ != phase::standing_back) return std::nullopt;
        auto const first =
            phase_ == phase::refused && told_ ? std::min(wake_, watch_.wake()) : wake_;
        return first == time_point::max() ? std::nullopt : std::optional(first);
    }

    //
    // Tries
    //

    /// Where the arbiter is to be looked for.
    instance_set candidates(instance_set reachable) const {
        auto const fit = reachable - unfit_;
        return (fit & where_).empty() ? fit : fit & where_;
    }

    /// The tenure has been begun; for action::contend at `arbiter`.
    void begun(time_point now, unsigned arbiter = 0) {
        assert(phase_ == phase::trying); // one try at a time
        begun_ = now;
        arbiter_ = arbiter;
        ++tries_;
    }

    /// The tenure is won: its waiter, which has left the queue.
    waiter& won(time_point now) {
        heard_after(now - begun_);
        phase_ = phase::held;
        ++tenures_;
        since_ = now;
        leases_ = 1;
        missed_ = failures_ = 0;
        woken_ = cut_off_ = gone_ = overslept_ = false;
        looks_.stop();
        watch_.forget();
        unfit_ = where_ = {};
        rivals_.begin_tenure();
        return pop();
    }

    /// Too many instances refused.
    void contended(time_point now, tally const& votes, duration longest_pause,
                   std::uint64_t random) {
        rivals_.meet();
        overslept_ = false;
        watch_.forget();
        // A quorum that refuses has a holder, it seems; else contenders kept each other from it.
        auto const a_holder = votes.no().size() >= votes.quorum();
        if (!a_holder) ++splits_;
        if (full_) {
            heard_after(now - begun_);
            auto const again = rivals_.contest() && failures_ > 0;
            if (a_holder && !again) ++failures_; // a second time in a row is odd
            wake_ = a_holder && !again ? now : now + backoff(longest_pause, random);
            phase_ = asked_ && front_waits() ? phase::refused : phase::to_ask;
            return;
        }
        // A holder without the arbiter is met at the instances that it has. Else all waiters would
        // take the arbiter in turn, in vain, and wake each other by giving it back.
        auto const elsewhere = where_.empty() && !votes.no().empty();
        where_ = elsewhere ? votes.no() : instance_set();
        unfit_ = unfit_ - where_; // they have answered
        wake_ = elsewhere ? now : now + backoff(longest_pause, random);
        phase_ = phase::refused;
    }

    /// The arbiter refused. `left`: the key's time to live; none: it never expires; negative: it
    /// has just gone. `told`: the arbiter will push when the key changes.
    void refused(time_point now, std::optional<duration> left, bool told, duration longest_pause,
                 std::uint64_t random) {
        heard_after(now - begun_);
        rivals_.meet();
        rivals_.contest();
        if (std::exchange(woken_, false)) {
            ++wasted_;
            ++missed_;
        }
        phase_ = phase::refused;
        told_ = told;
        cut_off_ = overslept_ = false;
        looks_.begin(now);
        if (told) {
            watch_.waits(now, arbiter_);
        } else {
            looks_.polled(now);
        }
        auto const gone = left && *left < duration::zero();
        if (gone) {
            // Between the two commands of one pipeline; if it goes on like that, not so fast.
            wake_ = now + yields_;
            if (std::exchange(gone_, true)) wake_ += backoff(longest_pause, random);
            return;
        }
        gone_ = false;
        auto const trusts = left && (!told || Rules::wakes_at_expiry());
        auto const expiry =
            trusts ? now + *left + std::chrono::milliseconds(1) + yields_ + pause(random)
                   : time_point::max();
        if (told) failures_ = 0;
        wake_ = std::min(expiry, told ? looks_.next() : now + backoff(longest_pause, random));
    }

    /// The arbiter could not be asked: the next one is.
    void arbiter_failed() {
        unfit_.insert(arbiter_);
        watch_.forget();
        phase_ = phase::ready;
    }

    /// The try came to nothing, and front() is told so: it must leave().
    void failed() {
        phase_ = phase::ready;
        watch_.forget();
        cut_off_ = false;
    }

    /// The deadline of the try has passed. True: this process did not run when it came, which is
    /// not the servers' fault, and another try follows. False: front() is told.
    [[nodiscard]] bool overslept(time_point now, time_point deadline) {
        if (!Rules::excuses(now - deadline, ttl_, overslept_)) return false;
        if (!front().waits && std::exchange(front().again, true)) return false;
        failed();
        return overslept_ = true;
    }

    /// The inspection has ended. If not all have answered, the next round is inspected again.
    void asked(bool all) {
        asked_ = all;
        phase_ = phase::refused;
    }

    /// The instances of action::watch, and the number that goes with the questions.
    instance_set to_watch() const { return watch_.to_ask(); }
    std::uint32_t watch_round() const { return watch_.round(); }
    /// The question of action::listen has been put to `arbiter`, with watch_round().
    void listening(unsigned arbiter) { arbiter_ = arbiter; }
    /// The answer of one of them.
    void watched(time_point now, unsigned instance, std::uint32_t round, sighting const& seen,
                 std::uint64_t random) {
        if (phase_ == phase::standing_back) {
            if (instance != arbiter_ || round != watch_.round()) return;
            stand_back_.listens(seen.is == sighting::state::gone && seen.told);
            if (seen.is == sighting::state::held) rivals_.meet();
            return;
        }
        watch_.answered(now, instance, round, seen, random);
    }

    //
    // Wake-ups
    //

    /// `instance` says that the key has changed. False: it does not matter now.
    bool push(time_point now, unsigned instance, std::uint64_t random) {
        if (phase_ == phase::standing_back && stand_back_.listens() && instance == arbiter_) {
            stand_back_.heard();
            rivals_.meet();
        }
        if (!waits_at(instance)) return watch_.push(now, instance, random);
        told_ = false;
        woken_ = true;
        wake_ = now + yields_ + pause(random);
        return true;
    }

    /// A push from `instance` will not come any more.
    void disconnected(time_point now, unsigned instance, std::uint64_t random) {
        watch_.lost(instance);
        late(now, instance, random);
    }
    /// A push from it may come late.
    void late(time_point now, unsigned instance, std::uint64_t random) {
        if (!Rules::wakes_at_disconnect() || !waits_at(instance)) return;
        told_ = false;
        wake_ = now + pause(random);
    }

    /// Too few instances are left for a quorum: waiters are told so, unless enough are back by
    /// `until`.
    void outage(time_point until) {
        if (phase_ != phase::refused) return;
        told_ = false;
        // Until then there is nothing to try.
        if (!std::exchange(cut_off_, true)) wake_ = until;
    }
    /// The try came to nothing as too few are left. False: they have not come back since outage().
    [[nodiscard]] bool failed_in_outage(time_point until) {
        if (cut_off_) return false;
        phase_ = phase::refused;
        told_ = false;
        cut_off_ = true;
        wake_ = until;
        return true;
    }
    /// Enough are there again.
    void restored(time_point now, std::uint64_t random) {
        watch_.check_soon(now, random);
        if (phase_ != phase::refused || !std::exchange(cut_off_, false)) return;
        wake_ = now + pause(random);
    }

    bool waits_at(unsigned instance) const {
        return phase_ == phase::refused && told_ && arbiter_ == instance;
    }
    /// Whether it matters to it when an instance comes or goes.
    bool awaits_instances() const { return phase_ == phase::refused || !watch_.idle(); }

    //
    // The tenure
    //

    /// Whether the lease that ends now is followed by another of the same tenure, of which `left`
    /// is left.
    bool hands_over(time_point now, duration left, duration ttl, unsigned limit,
                    duration longest) const {
        return phase_ == phase::held && !waiters_.empty() && front().ttl <= ttl &&
               (fenced_ || !front().fenced) &&
               Rules::may_hand_over(leases_, limit, now - since_, longest) &&
               Rules::suffices(left, front().ttl, front().watched);
    }
    /// The waiter that gets the next lease.
    waiter& hand_over() {
        ++leases_;
        return pop();
    }
    /// How many leases the tenure has served before the present one.
    unsigned handoffs() const { return leases_ - 1; }
    /// The tenure is given up. `opposed`: others wanted the key when it was won, and had votes
    /// already.
    void released(time_point now, bool opposed = false) {
        phase_ = phase::ready;
        auto const others = rivals_.contested() || opposed || yields_ > duration::zero();
        if (!Rules::stands_back() || (waiters_.empty() && !others)) return;
        if (!others && stand_back_.is_alone(now)) return;
        phase_ = phase::standing_back;
        stand_back_.begin(!rivals_.contested()); // two can take turns without ever meeting
        wake_ = now + yields_ + Rules::stand_back(round_trip_);
    }
    /// The tenure is lost.
    void lost() {
        phase_ = phase::ready;
        rivals_.contest();
    }

    /// Whether somebody was seen to have the key, here or elsewhere.
    bool seen_held() const { return rivals_.ever_seen() || phase_ == phase::held; }
    bool held() const { return phase_ == phase::held; }
    bool trying() const { return phase_ == phase::trying; }
    /// Whether the tenure that was refused is still of use, to ask() with.
    bool asks() const { return phase_ == phase::to_ask || phase_ == phase::asking; }
    unsigned tries() const { return tries_; }
    /// How many of them were won.
    unsigned tenures() const { return tenures_; }
    unsigned wasted() const { return wasted_; }
    unsigned splits() const { return splits_; }

private:
    enum class phase : std::uint8_t {
        ready,         ///< for a try
        trying,        ///< a try is under way
        to_ask,        ///< refused, and the obstacle is not known
        asking,        ///< the same, and it is being found out
        refused,       ///< waits for a push, or for wake_
        held,          ///< one of us has it
        standing_back, ///< has just given it up: waits for wake_
    };

    action begin(time_point now, instance_set reachable) {
        if (waiters_.empty()) return action::forget;
        phase_ = phase::trying;
        told_ = false;
        ttl_ = front().ttl;
        fenced_ = front().fenced;
        for_whom_ = &front();
        auto const looks = looks_.take(now);
        // So many failed as arbiters that there may be no quorum: all are asked, to know.
        auto const outage =
            configured_ - unfit_.size() < redlock_rules::quorum(configured_, configured_);
        full_ = !rivals_.contested() || !front().waits || looks || outage ||
                candidates(reachable).empty() ||
                reachable.size() < redlock_rules::quorum(configured_, reachable.size());
        if (!full_) return action::contend;
        watch_.forget();
        unfit_ = where_ = {};
        return action::round;
    }

    waiter& pop() {
        auto& w = front();
        waiters_.pop_front();
        return w;
    }

    bool serves(waiter const& w) const { return w.ttl <= ttl_ && (fenced_ || !w.fenced); }
    bool front_waits() const { return waiters_.empty() || front().waits; }
    duration pause(std::uint64_t random) const {
        return Rules::wake_delay(round_trip_, missed_, random);
    }
    duration backoff(duration longest, std::uint64_t random) {
        return full_jitter(Rules::first_backoff, longest, std::min(failures_++, 16U), random);
    }
    void heard_after(duration d) {
        round_trip_ = round_trip_ == duration::zero() ? d : (3 * round_trip_ + d) / 4;
    }

    list waiters_;
    basic_key_watch<Rules> watch_;
    waiter const* for_whom_ = nullptr; ///< only compared
    duration ttl_{};                   ///< of the try, or of the tenure
    duration round_trip_{}, yields_{};
    time_point begun_{}, since_{}, wake_{};
    look_schedule<Rules> looks_;
    stand_back<Rules> stand_back_;
    rivals rivals_;
    unsigned configured_;
    unsigned arbiter_ = 0;
    unsigned leases_ = 0;
    unsigned tries_ = 0, tenures_ = 0;
    unsigned failures_ = 0; ///< in a row, for the backoff
    unsigned missed_ = 0;   ///< turns of others since our last
    unsigned wasted_ = 0, splits_ = 0;
    instance_set unfit_, where_;
    phase phase_ = phase::ready;
    bool fenced_ = false; ///< the try or the tenure is
    bool full_ = false;   ///< the try asks all at once
    bool asked_ = false;
    bool told_ = false;      ///< a push will come
    bool woken_ = false;     ///< one has come
    bool cut_off_ = false;   ///< too few instances are there
    bool gone_ = false;      ///< the key went while it was looked at
    bool overslept_ = false; ///< the last try ended with a deadline that was seen late
};

using wait_queue = basic_wait_queue<waiting_rules>;

} // namespace holdfast::protocol

#endif
