// The waiters of one process for one key, in order. A try asks the instances for the key, for the
// first waiter. The other waiters cost only their place in the queue.
//
// The try that is under way belongs to the queue and not to the waiter for which it was made. If
// that waiter leaves, the next waiter inherits the try. A waiter that adopts a tenure has a try of
// its own.
//
// The driver gives the queue each event with its time, and then carries out the actions of next()
// until one is empty: see queue_values.hpp. The queue does no I/O, reads no clock and allocates
// nothing.
#ifndef HOLDFAST_PROTOCOL_WAIT_QUEUE_HPP
#define HOLDFAST_PROTOCOL_WAIT_QUEUE_HPP

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/arbiter.hpp"
#include "protocol/waiting/held_tenure.hpp"
#include "protocol/waiting/key_tracker.hpp"
#include "protocol/waiting/queue_values.hpp"
#include "protocol/waiting/retry_pace.hpp"
#include "protocol/waiting/rivals.hpp"
#include "protocol/waiting/waiter.hpp"
#include "protocol/waiting/waiting_rules.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

template <class Rules>
class basic_wait_queue : public held_tenure<Rules> {
    using base = held_tenure<Rules>;

public:
    using base::empty, base::front, base::may_try, base::held;
    explicit basic_wait_queue(unsigned configured = 1)
        : tracker_(configured)
        , configured_(configured) {}
    /// Makes a folded queue again: its tenure is still held.
    basic_wait_queue(unsigned configured, folded_queue const& f)
        : basic_wait_queue(configured) {
        phase_ = phase::held;
        counts_.tries = counts_.tenures = leases_ = 1;
        held_since_ = f.held_since;
        try_ = attempt::of(f);
        pace_.answered_after(f.round_trip);
    }

    // Waiters
    /// False if `w` does not wait (try_acquire), and this process has the key or wants it. A waiter
    /// that adopts a tenure goes first: it proves that nobody else can have the key.
    [[nodiscard]] bool join(waiter& w) {
        auto const fellow = this->is_fellow(w);
        auto const free = phase_ == phase::ready || phase_ == phase::standing_back || fellow;
        auto const busy = !w.waits && !this->tries_beside(w) && (!free || !empty());
        if (w.adopts ? held() && !fellow : busy) return false;
        this->add(w);
        return true;
    }
    /// How long this process leaves a free key to clients that poll for it.
    void yields(duration d) { yields_ = d; }
    /// Whether the processes get the key in the order in which they came.
    void is_fair(bool fair) { line_.fair(fair); }
    bool is_fair() const { return line_.fair(); }

    queue_action next(time_point now, instance_set reachable) {
        for (;;) {
            switch (phase_) {
            case phase::ready:
                if (!empty() && !may_try())
                    return {.effect = front().is_refused() ? effect::refuse : effect::none};
                return begin_try(now, reachable);
            case phase::trying:
                if (may_try() && try_is_wanted()) return {};
                phase_ = phase::ready;
                tracker_.forget();
                return {.effect = effect::cancel_try};
            case phase::to_inspect:
                phase_ = empty() ? phase::ready : phase::inspecting;
                if (phase_ == phase::inspecting) return {.effect = effect::inspect};
                break;
            case phase::inspecting:
                return {};
            case phase::held: // an adoption may have overtaken tries that do not wait
                if (this->parts()) {
                    phase_ = phase::ready;
                    return {.effect = effect::part};
                }
                if (empty()) return {.effect = is_plain() ? effect::fold : effect::none};
                if (front().waits) return {};
                return {.effect = effect::refuse};
            case phase::waiting:
                if (!may_try()) {
                    failed();
                    break;
                }
                if (this->refuses()) return {.effect = effect::refuse};
                // A reader does not wait for what a writer has found in the way.
                if (now < wake_ && !empty() && !front().adopts && try_.asks_as(front())) {
                    auto const tracking = awaits_ == awaits::push ? tracker_.next(now, reachable)
                                                                  : tracking_action::none;
                    if (tracking == tracking_action::ask) return {.track = tracker_.to_ask()};
                    if (tracking == tracking_action::none) return {};
                    rechecks_.at_once(now);
                }
                phase_ = phase::ready;
                break;
            case phase::standing_back:
                if (now < wake_ && (empty() || (front().waits && !front().shared))) {
                    return {.effect = stand_back_.take_question() ? effect::listen : effect::none};
                }
                stand_back_.end(now);
                phase_ = phase::ready;
                break;
            }
        }
    }

    /// When next() has another action, if nothing else happens.
    std::optional<time_point> wake() const {
        if (phase_ != phase::waiting && phase_ != phase::standing_back) return std::nullopt;
        auto const tracks = phase_ == phase::waiting && awaits_ == awaits::push;
        auto const first = tracks ? std::min(wake_, tracker_.wake()) : wake_;
        return first == time_point::max() ? std::nullopt : std::optional(first);
    }

    // Tries
    /// The arbiter is chosen among these.
    instance_set candidates(instance_set reachable) const { return choice_.candidates(reachable); }

    /// The driver has begun the tenure; after try_arbiter, at `arbiter`.
    void try_begun(time_point now, unsigned arbiter = 0) {
        assert(phase_ == phase::trying); // one try at a time
        try_.begun = now;
        arbiter_ = arbiter;
        ++counts_.tries;
    }

    /// The tenure is won. Returns its waiter, which has left the queue.
    waiter& won(time_point now) {
        pace_.answered_after(now - try_.begun);
        pace_.won();
        phase_ = phase::held;
        ++counts_.tenures;
        held_since_ = now;
        leases_ = 1 + front().handovers;
        awaits_ = awaits::time;
        excused_ = false;
        rechecks_.stop();
        line_.won();
        if (!try_.asks_all) tracker_.asked_again(try_.begun, now, arbiter_, duration(-1));
        tracker_.forget();
        choice_.reset();
        rivals_.begin_tenure();
        return this->pop();
    }

    /// Too many instances refused.
    void contended(time_point now, tally const& votes, duration longest_pause,
                   std::uint64_t random) {
        rivals_.meet();
        excused_ = false;
        awaits_ = awaits::time;
        pace_.outage_ended();
        tracker_.forget();
        // A quorum that refuses shows a holder. Otherwise contenders kept each other from a quorum.
        auto const a_holder = votes.no().size() >= votes.quorum();
        if (!a_holder) ++counts_.splits;
        if (is_newcomer()) {
            pace_.answered_after(now - try_.begun);
            auto const again = rivals_.contest() && pace_.has_failed();
            auto const at_once = a_holder && !again; // but not twice in a row
            if (at_once) pace_.failed();
            wake_ = at_once ? now : now + pace_.backoff(longest_pause, random);
            phase_ =
                obstacle_known_ && (empty() || front().waits) ? phase::waiting : phase::to_inspect;
            return;
        }
        if (try_.reserved && votes.no().contains(arbiter_)) line_.called_in_vain();
        auto const at_once = line_.missed(a_holder, try_.reserved);
        auto const elsewhere = !at_once && choice_.refused_by(votes.no());
        auto const longest = Rules::longest_pause(longest_pause, line_.splits());
        wake_ = at_once || elsewhere ? now : now + pace_.backoff(longest, random);
        phase_ = phase::waiting;
    }

    /// The arbiter refused. `left` is the key's time to live: empty if the key never expires,
    /// negative if it has just gone. `will_push`: the arbiter will push when the key changes.
    void refused(time_point now, std::optional<duration> left, bool will_push,
                 duration longest_pause, std::uint64_t random) {
        auto const said = pace_.latest_answer(try_.begun, now);
        pace_.answered_after(now - try_.begun);
        rivals_.meet();
        rivals_.contest();
        if (pace_.refused()) ++counts_.wasted;
        phase_ = phase::waiting;
        awaits_ = will_push ? awaits::push : awaits::time;
        excused_ = false;
        rechecks_.begin(now);
        front().notes ? rechecks_.keep_note(now, front().ttl, pace_.round_trip())
                      : rechecks_.forget_note();
        if (!try_.hears_expiry()) tracker_.keeps_promise(arbiter_);
        tracker_.asked_again(try_.begun, now, arbiter_, left);
        will_push ? tracker_.waits(try_.begun, now, arbiter_, left) : rechecks_.polled(now);
        if (!try_.hears_expiry()) tracker_.keeps_promise(arbiter_);
        if (line_.fair()) tracker_.stands_in_line(Rules::reservation(longest_pause));
        if (left && *left < duration::zero()) {
            // The key went between the SET and the PTTL. If that happens again, the pauses grow.
            wake_ = now + yields_;
            if (pace_.vanished()) wake_ += pace_.backoff(longest_pause, random);
            return;
        }
        pace_.not_vanished();
        auto const trusts = left && (!will_push || Rules::wakes_at_expiry());
        auto const later = std::chrono::milliseconds(1) + yields_ + pace_.after_wake_up(random);
        auto const expiry = trusts ? said + *left + later : time_point::max();
        if (will_push && !line_.fair()) pace_.forget_failures(); // a place in line is no success
        auto const next = will_push ? rechecks_.next() : now + pace_.backoff(longest_pause, random);
        wake_ = std::min({expiry, rechecks_.note(), next});
        if (line_.fair()) wake_ = std::min(wake_, now + Rules::renews_place);
    }

    /// The arbiter did not answer, or is late. The next instance in order takes its place.
    void arbiter_failed() {
        choice_.failed(arbiter_);
        tracker_.forget();
        phase_ = phase::ready;
    }

    /// The try failed. The driver notifies front(), and calls leave() for it.
    void failed() {
        phase_ = phase::ready;
        tracker_.forget();
        awaits_ = awaits::time;
    }

    /// The deadline of the try has passed. True if this process did not run at the deadline: the
    /// servers are not at fault, and another try follows. False if front() must be notified.
    [[nodiscard]] bool overslept(time_point now, time_point deadline) {
        if (!Rules::excuses(now - deadline, try_.ttl, excused_)) return false;
        if (!front().waits && !front().tries_again()) return false;
        failed();
        return excused_ = true;
    }

    /// The inspection has ended. If it is not complete, the next round is inspected again.
    void inspected(bool complete) {
        obstacle_known_ = complete;
        phase_ = phase::waiting;
    }

    /// Goes with the commands of queue_action::track and of effect::listen.
    std::uint32_t tracking_round() const { return tracker_.round(); }
    /// The driver has sent the question of effect::listen to `arbiter`, with tracking_round().
    void listening(unsigned arbiter) { arbiter_ = arbiter; }
    /// The answer to one of these commands.
    void tracked(time_point now, unsigned instance, std::uint32_t round, sighting const& seen,
                 std::uint64_t random) {
        if (phase_ == phase::standing_back) {
            if (instance != arbiter_ || round != tracker_.round()) return;
            stand_back_.listens(seen.is == sighting::state::gone && seen.tracked);
            if (seen.is == sighting::state::held) rivals_.meet();
            return;
        }
        tracker_.answered(now, instance, round, seen, random);
    }

    // Wake-ups
    /// `instance` says that the key has changed. False if the queue need not know that now.
    bool push(time_point now, unsigned instance, std::uint64_t random) {
        if (phase_ == phase::standing_back && stand_back_.listens() && instance == arbiter_) {
            stand_back_.heard();
            rivals_.meet();
        }
        auto const tracked = tracker_.push(now, instance, random);
        if (!waits_at(instance)) return tracked;
        pace_.pushed();
        rechecks_.forget_note();
        wake_at(std::max(now + yields_ + pace_.after_wake_up(random), pace_.earliest(try_.begun)));
        return true;
    }

    /// `instance` has reserved the key for this process. If that is not certain, it is asked again
    /// before the others. False if the queue does not wait there.
    bool called(time_point now, unsigned instance, bool certain = true) {
        if (!line_.fair() || !waits_at(instance)) return false;
        if (certain) line_.called();
        pace_.pushed();
        wake_at(std::max(now, pace_.earliest(try_.begun)));
        return true;
    }
    void wake_at(time_point at) {
        awaits_ = awaits::time;
        wake_ = at;
    }
    /// True if the try that is under way is of a process that does not stand in line.
    bool is_newcomer() const { return try_.asks_all && !try_.reserved; }
    bool goes_to_front() const { return line_.goes_to_front(); }

    /// A push from `instance` will not come any more.
    void disconnected(time_point now, unsigned instance, std::uint64_t random) {
        tracker_.lost(instance);
        late(now, instance, random);
    }
    /// `instance` is late, and so may be its push.
    void late(time_point now, unsigned instance, std::uint64_t random) {
        tracker_.keeps_promise(instance);
        if (!Rules::wakes_at_disconnect() || !waits_at(instance)) return;
        wake_at(now + pace_.after_wake_up(random));
    }

    /// Too few instances are left for a quorum. If not enough are back by `until`, the waiters are
    /// notified. Until then the queue does not try.
    void outage(time_point until) {
        if (phase_ == phase::waiting && !in_outage()) failed_in_outage(until);
    }
    /// Too few instances are left for the try. The next one is at `until`, or when enough are back.
    void failed_in_outage(time_point until) {
        phase_ = phase::waiting;
        awaits_ = awaits::instances;
        wake_ = until;
    }
    duration outage_pause(std::uint64_t random) { return pace_.outage_pause(random); }
    /// How many tries in a row have found too few instances.
    unsigned failed_outage_tries() const { return pace_.outages(); }
    /// True if the queue has waited for instances since a try was last answered.
    bool in_outage() const { return awaits_ == awaits::instances; }
    void restored(time_point now, std::uint64_t random) {
        tracker_.check_soon(now, random);
        if (phase_ != phase::waiting || awaits_ != awaits::instances) return;
        wake_at(now + pace_.after_wake_up(random));
    }

    bool waits_at(unsigned instance) const {
        return phase_ == phase::waiting && awaits_ == awaits::push && arbiter_ == instance;
    }
    /// True if the queue needs to hear of instances that come or go.
    bool awaits_instances() const { return phase_ == phase::waiting || !tracker_.idle(); }

    // The tenure
    /// After effect::fold.
    folded_queue folded() const {
        return {held_since_, pace_.round_trip(), try_.fenced, try_.writes, try_.ttl};
    }
    /// The tenure is released. `opposed`: other clients had votes already when it was won.
    void released(time_point now, bool opposed = false) {
        phase_ = phase::ready;
        if (try_.shared || try_.permits != 0) return;
        if (line_.fair() && !empty()) rivals_.contest(); // the next try joins the line
        if (line_.fair()) return;
        auto const others = rivals_.contested() || opposed || yields_ > duration::zero();
        if (!Rules::stands_back() || (empty() && !others)) return;
        if (!others && stand_back_.is_alone(now)) return;
        phase_ = phase::standing_back;
        stand_back_.begin(!rivals_.contested()); // two processes can take turns and never meet
        wake_ = now + yields_ + pace_.stand_back();
    }
    void lost() {
        phase_ = phase::ready;
        rivals_.contest();
    }
    /// Before the first try: a tenure of this process has just ended that was not of this queue.
    void follows(time_point now, duration round_trip) {
        pace_.answered_after(round_trip);
        phase_ = phase::standing_back;
        stand_back_.begin(true);
        wake_ = now + pace_.stand_back();
    }
    bool stands_back() const { return phase_ == phase::standing_back; }
    duration round_trip() const { return pace_.round_trip(); }

    /// True if arbiter() was to report a change that the last try has found, and has not; once.
    breach take_breach() { return tracker_.take_breach(); }
    unsigned arbiter() const { return arbiter_; }
    queue_counts const& counts() const { return counts_; }
    /// Whether a holder of the key was seen, in this process or elsewhere.
    bool seen_held() const { return rivals_.ever_seen() || phase_ == phase::held; }
    bool trying() const { return phase_ == phase::trying; }
    /// True if the inspection still needs the tenure that was refused.
    bool inspects() const { return phase_ == phase::to_inspect || phase_ == phase::inspecting; }

private:
    using effect = queue_effect;
    using phase = queue_phase;
    using awaits = awaited_event;
    using base::phase_, base::try_, base::held_since_, base::leases_;

    /// True if folded() is all that the queue has to remember while its tenure is held. There the
    /// round trip is also the time of the try, during which the tenure counts as young.
    bool is_plain() const {
        return !try_.shared && Rules::may_fold(leases_) && !rivals_.ever_seen() &&
               stand_back_.is_unused() && yields_ == duration::zero() &&
               pace_.round_trip() == held_since_ - try_.begun;
    }

    queue_action begin_try(time_point now, instance_set reachable) {
        if (empty()) return {.effect = effect::forget};
        phase_ = phase::trying;
        if (awaits_ == awaits::push) awaits_ = awaits::time;
        auto const recheck = rechecks_.take(now);
        if (recheck) obstacle_known_ = false; // the key may be no lock any more
        // So many failed as arbiters that there may be no quorum. A try at all instances shows it.
        auto const quorum = redlock_rules::quorum(configured_, configured_);
        auto const outage = configured_ - choice_.failures() < quorum;
        auto const few = reachable.size() < quorum; // none is asked, and a token stays in its line
        auto const reserved = line_.take_call() && !front().adopts && !few;
        auto const asks_all = reserved || this->take_has_keys() || !rivals_.contested() ||
                              !front().waits || recheck || rechecks_.take_note(now) || outage ||
                              candidates(reachable).empty() || few;
        try_ = attempt::to_serve(front(), asks_all, reserved, now);
        if (!asks_all) return {.effect = effect::try_arbiter};
        tracker_.forget();
        if (reserved) return {.effect = effect::try_reserved};
        choice_.reset();
        return {.effect = effect::try_all};
    }

    /// True if the try that is under way serves the first waiter.
    bool try_is_wanted() const {
        if (empty()) return false;
        return try_.serves(front()) && (Rules::inherits() || &front() == try_.made_for);
    }

    basic_key_tracker<Rules> tracker_;
    recheck_schedule<Rules> rechecks_;
    stand_back<Rules> stand_back_;
    retry_pace<Rules> pace_;
    rivals rivals_;
    arbiter_choice choice_;
    place_in_line line_;
    time_point wake_{};
    duration yields_{};
    unsigned configured_, arbiter_ = 0;
    queue_counts counts_;
    awaits awaits_ = awaits::time;
    bool obstacle_known_ = false;
    bool excused_ = false; ///< the last try was excused: see overslept()
};

using wait_queue = basic_wait_queue<waiting_rules>;

} // namespace holdfast::protocol

#endif
