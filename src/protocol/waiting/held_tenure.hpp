// The tenure of a wait queue, and which of its waiters get a lease of it.
//
// When a lease ends, the tenure may serve the next waiter: a hand-over. A tenure of readers serves
// the readers right behind its first one, and for a while those that come later, all at one time.
// So none of these leases costs a request.
//
// A permit of a semaphore does not occupy the queue: others may be free. The queue goes on without
// it, and a permit that is given back may serve the first waiter.
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
                .permits = w.permits,
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
        return w.shared == shared && w.writes == writes && w.permits == permits && w.ttl <= ttl &&
               (fenced || !w.fenced);
    }
    /// Whether the try serves `w`.
    bool serves(waiter const& w) const {
        return adopts || w.adopts ? adopts && made_for == &w : suits(w);
    }

    /// Whether a refusal tells the time to live of the key, and not of a reader, a note or a
    /// permit.
    bool hears_expiry() const { return !shared && !writes && permits == 0; }
    /// Whether `w` waits for what this try has found in the way.
    bool asks_as(waiter const& w) const {
        return w.shared == shared && w.notes == notes && w.permits == permits;
    }

    waiter const* made_for = nullptr; ///< compared only, and only while it waits
    duration ttl{};
    bool fenced : 1 = false;
    bool adopts : 1 = false;   ///< asks for the key that has the waiter's token already
    bool asks_all : 1 = false; ///< at once, and not the arbiter first
    bool reserved : 1 = false; ///< the arbiter has reserved the key: see place_in_line
    bool shared : 1 = false;   ///< it is a reader's
    bool alone : 1 = false;    ///< its tenure serves no other reader
    bool writes : 1 = false;   ///< it is a writer's
    bool notes : 1 = false;    ///< it is a writer's that tells readers
    unsigned permits = 0;      ///< of the semaphore: see waiter
    time_point begun{};
};

/// A permit whose lease ends.
struct returned_permit {
    unsigned slot;
    duration ttl, left; ///< of its tenure
    bool fenced;
    unsigned leases;      ///< that the tenure has served
    duration won_in, age; ///< of the tenure
};

template <class Rules>
class held_tenure : public waiter_line {
public:
    held_tenure() = default;
    held_tenure(held_tenure&&) noexcept = default;
    held_tenure& operator=(held_tenure&&) noexcept = default;

    bool held() const { return phase_ == queue_phase::held; }
    /// True if the queue goes on without the tenure that it holds.
    bool parts() const {
        return try_.permits != 0 || (!empty() && try_.shared && (front().waits || front().shared));
    }
    /// True if `w` is a reader, and so are those that have the key.
    bool is_fellow(waiter const& w) const { return held() && try_.shared && w.shared; }
    /// True if a try for a permit is under way, and `w` wants one, too: there may be several.
    bool tries_beside(waiter const& w) const {
        return phase_ == queue_phase::trying && w.permits != 0 && try_.permits != 0;
    }
    /// True if a waiter has to be refused, because somebody else has the key. Those who want a
    /// permit at once also stand behind others, as there may be several.
    bool refuses() {
        return try_.permits != 0 ? impatient() != nullptr : !empty() && front().is_refused();
    }
    /// True if another lease of the same tenure follows the one that ends now. `left`: the rest of
    /// the tenure.
    bool hands_over(time_point now, duration left, duration ttl, unsigned limit,
                    duration longest) const {
        return held() && !empty() && may_try() && front().ttl <= ttl && !try_.shared &&
               !front().shared && front().writes == try_.writes && front().permits == 0 &&
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
    /// True if the first waiter gets a lease of this permit. It may have asked the instances, and
    /// they go on for the next waiter.
    bool takes(returned_permit const& p, unsigned limit, duration longest) const {
        return !empty() && may_try() && front().permits > p.slot && !front().adopts &&
               front().ttl <= p.ttl &&
               (p.fenced ? p.leases < exclusive_leases_per_number : !front().fenced) &&
               Rules::may_hand_over(p.leases, limit, p.won_in, p.age, longest) &&
               Rules::suffices(p.left, front().ttl, front().renewed);
    }
    waiter& take() { return pop(); }
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
