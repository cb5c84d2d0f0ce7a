// The tenure of a wait queue, and which of its waiters get a lease of it.
//
// When a lease ends, the tenure may serve the next waiter: a hand-over. A tenure of readers serves
// the readers right behind its first one, and for a while those that come later, all at one time.
// So none of these leases costs a request.
#ifndef HOLDFAST_PROTOCOL_HELD_TENURE_HPP
#define HOLDFAST_PROTOCOL_HELD_TENURE_HPP

#include "protocol/tenure/fence.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/queue_values.hpp"
#include "protocol/waiting/waiter.hpp"

namespace holdfast::protocol {

/// A try of a wait queue, and then the tenure that it has won.
struct attempt {
    static attempt to_serve(waiter const& w, bool asks_all, bool reserved, time_point now) {
        return {.made_for = &w,
                .ttl = w.ttl,
                .fenced = w.fenced,
                .adopts = w.adopts,
                .asks_all = asks_all,
                .reserved = reserved,
                .shared = w.shared,
                .alone = w.alone,
                .writes = w.writes,
                .notes = w.notes,
                .begun = now};
    }
    static attempt of(folded_queue const& f) {
        return {.ttl = f.ttl,
                .fenced = f.fenced,
                .writes = f.writes,
                .begun = f.held_since - f.round_trip};
    }
    /// Whether the tenure has all that `w` asks for.
    bool suits(waiter const& w) const {
        return w.shared == shared && w.writes == writes && w.ttl <= ttl && (fenced || !w.fenced);
    }
    /// Whether the try serves `w`.
    bool serves(waiter const& w) const {
        return adopts || w.adopts ? adopts && made_for == &w : suits(w);
    }

    /// Whether a refusal tells the time to live of the key, and not of a reader or of a note.
    bool hears_expiry() const { return !shared && !writes; }
    /// Whether `w` waits for what this try has found in the way.
    bool asks_as(waiter const& w) const { return w.shared == shared && w.notes == notes; }

    waiter const* made_for = nullptr; ///< compared only, and only while it waits
    duration ttl{};
    bool fenced = false;
    bool adopts = false;   ///< asks for the key that has the waiter's token already
    bool asks_all = false; ///< at once, and not the arbiter first
    bool reserved = false; ///< the arbiter has reserved the key: see place_in_line
    bool shared = false;   ///< it is a reader's
    bool alone = false;    ///< its tenure serves no other reader
    bool writes = false;   ///< it is a writer's
    bool notes = false;    ///< it is a writer's that tells readers
    time_point begun{};
};

template <class Rules>
class held_tenure : public waiter_line {
public:
    held_tenure() = default;
    held_tenure(held_tenure&&) noexcept = default;
    held_tenure& operator=(held_tenure&&) noexcept = default;

    bool held() const { return phase_ == queue_phase::held; }
    /// True if another lease of the same tenure follows the one that ends now. `left`: the rest of
    /// the tenure.
    bool hands_over(time_point now, duration left, duration ttl, unsigned limit,
                    duration longest) const {
        return held() && !empty() && may_try() && front().ttl <= ttl && !try_.shared &&
               !front().shared && front().writes == try_.writes &&
               (try_.fenced ? leases_ < exclusive_leases_per_number : !front().fenced) &&
               Rules::may_hand_over(leases_, limit, held_since_ - try_.begun, now - held_since_,
                                    longest) &&
               Rules::suffices(left, front().ttl, front().renewed);
    }
    /// True if the reader `w` shares the tenure of readers that is held: a newcomer while the
    /// tenure is young and nobody waits, or the first waiter.
    bool shares(waiter const& w, time_point now, duration left) const {
        auto const share_time = Rules::share_time(held_since_ - try_.begun);
        auto const next = empty() ? now - held_since_ < share_time : &w == &front();
        return held() && try_.shared && next && !try_.alone && !w.alone && !w.adopts && may_try() &&
               try_.suits(w) && Rules::suffices(left, w.ttl, true);
    }
    /// The first waiter shares the tenure.
    waiter& share() { return pop(); }
    /// The writer that has the key is a reader from now on.
    void downgraded(time_point now, bool alone) {
        try_.shared = true;
        try_.writes = try_.notes = false;
        try_.alone = alone;
        try_.begun = now - (held_since_ - try_.begun);
        held_since_ = now;
    }
    /// A tenure of readers was won for `w`, and this process has another one, with this ttl. True
    /// if `w` can share that. The queue then goes on with it: that the new one was won shows that
    /// no writer waits.
    bool rejoins(waiter const& w, duration left, duration ttl, bool fenced) {
        auto other = try_;
        other.ttl = ttl;
        other.fenced = fenced;
        if (w.alone || w.adopts || !other.suits(w) || !Rules::suffices(left, w.ttl, true))
            return false;
        try_ = other;
        return true;
    }
    /// The waiter that gets the next lease.
    waiter& hand_over() {
        ++leases_;
        return pop();
    }
    /// How many leases the tenure has served before the present one.
    unsigned handovers() const { return leases_ - 1; }

protected:
    ~held_tenure() = default;

    queue_phase phase_ = queue_phase::ready;
    attempt try_;
    time_point held_since_{};
    unsigned leases_ = 0; ///< of the tenure
};

} // namespace holdfast::protocol

#endif
