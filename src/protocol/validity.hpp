// How long a tenure's key, and the lease on it, last.
#ifndef HOLDFAST_PROTOCOL_VALIDITY_HPP
#define HOLDFAST_PROTOCOL_VALIDITY_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>

namespace holdfast::protocol {

/// The key lasts until key_deadline(), and extensions move that time. The lease ends at deadline():
/// at the key's deadline, or at a limit of its own if that is earlier.
template <class Rules>
class validity {
public:
    validity(duration ttl, bool watched, duration period)
        : ttl_(ttl)
        , confirmed_ttl_(ttl)
        , period_(period)
        , margin_(loss_margin(ttl))
        , watched_(watched) {}

    /// A round that sets the key is sent.
    void begin_round(time_point now) {
        sent_ = since_ = now;
        deadline_ = Rules::deadline(now, now, ttl_);
    }
    /// A round that extends the key is sent.
    void begin_extension(time_point now) { sent_ = now; }
    /// From now on the key is set for another ttl. A shorter one counts at once: any instance may
    /// take it, even if the round that follows fails. A longer one counts with confirm_extension().
    void change_ttl(time_point now, duration ttl) {
        auto const ratio = static_cast<double>(ttl.count()) / static_cast<double>(ttl_.count());
        period_ =
            duration(static_cast<duration::rep>(static_cast<double>(period_.count()) * ratio));
        ttl_ = ttl;
        if (ttl >= confirmed_ttl_) return;
        confirmed_ttl_ = ttl;
        margin_ = loss_margin(longest());
        deadline_ = std::min(deadline_, Rules::deadline(now, now, ttl_));
    }

    /// The round that was sent last has won. False if it was won too late to count.
    [[nodiscard]] bool confirm(time_point now) {
        auto const until = Rules::deadline(sent_, now, ttl_);
        if (!Rules::in_time(now, until)) return false;
        deadline_ = until;
        since_ = sent_;
        renewal_ = renewal_time(sent_, period_, ttl_);
        return true;
    }
    void confirm_extension(time_point now) {
        auto const until = Rules::deadline(sent_, now, ttl_);
        if (until >= deadline_) {
            deadline_ = until;
            since_ = sent_;
        }
        confirmed_ttl_ = ttl_;
        margin_ = loss_margin(longest());
        renewal_ = renewal_time(sent_, period_, ttl_);
    }
    void retry_extension(time_point now) { renewal_ = now + renewal_retry(confirmed_ttl_); }

    /// A lease begins that lasts for `longest`, however often the key is extended.
    void begin_lease(bool watched, time_point now, duration longest) {
        watched_ = watched;
        lease_began_ = now;
        limit_ = longest < time_point::max() - now ? now + longest : time_point::max();
        margin_ = loss_margin(std::min(confirmed_ttl_, longest));
    }
    void stop_renewing() { watched_ = false; }

    /// Our clock stood still for up to `by`, at a moment before `until`. So all times that count
    /// from before that moment move back by `by`.
    void clock_stood_still(time_point until, duration by) {
        if (since_ < until) {
            deadline_ -= by;
            renewal_ -= by;
            since_ -= by;
        }
        if (sent_ < until) sent_ -= by;
        if (limit_ != time_point::max() && lease_began_ < until) limit_ -= by;
    }

    duration ttl() const { return ttl_; }
    time_point lease_began() const { return lease_began_; }
    time_point key_deadline() const { return deadline_; }
    time_point deadline() const { return std::min(deadline_, limit_); }
    /// True if the lease ends before its key.
    bool ends_at_limit() const { return limit_ < deadline_; }
    /// How long before the deadline the holder is told of a loss.
    duration margin() const { return margin_; }
    time_point loss_time() const { return deadline() - margin_; }
    time_point renewal() const { return renewal_; }
    /// True if renewals are wanted, and can move the deadline.
    bool renews() const { return watched_ && deadline_ < limit_; }

private:
    /// The longest time that the lease can last from now on.
    duration longest() const {
        if (limit_ == time_point::max()) return confirmed_ttl_;
        return std::min(confirmed_ttl_, limit_ - lease_began_);
    }

    duration ttl_;           ///< of the next round
    duration confirmed_ttl_; ///< of the round that the deadline counts from, or shorter
    duration period_, margin_;
    time_point sent_{}, deadline_{}, renewal_{};
    time_point since_{}; ///< the key's deadline counts from here
    time_point lease_began_{}, limit_ = time_point::max();
    bool watched_;
};

} // namespace holdfast::protocol

#endif
