// How long a tenure's key, and the lease on it, last.
#ifndef HOLDFAST_PROTOCOL_VALIDITY_HPP
#define HOLDFAST_PROTOCOL_VALIDITY_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cassert>

namespace holdfast::protocol {

/// The key lasts until key_deadline(), and extensions move that time. The lease ends at deadline():
/// at the key's deadline, or at a limit of its own if that is earlier.
template <class Rules>
class validity {
public:
    validity(duration ttl, bool watched, duration period)
        : ttl_(ttl)
        , period_(period)
        , margin_(loss_margin(ttl))
        , watched_(watched) {}

    /// A round that sets the key is sent.
    void begin_round(time_point now) {
        sent_ = now;
        deadline_ = Rules::deadline(now, now, ttl_);
    }
    /// A round that extends the key is sent.
    void begin_extension(time_point now) { sent_ = now; }

    /// The round that was sent last has won. False if it was won too late to count.
    [[nodiscard]] bool confirm(time_point now) {
        auto const until = Rules::deadline(sent_, now, ttl_);
        if (!Rules::in_time(now, until)) return false;
        deadline_ = until;
        renewal_ = renewal_time(sent_, period_, ttl_);
        return true;
    }
    void confirm_extension(time_point now) {
        [[maybe_unused]] auto const before = deadline_;
        deadline_ = std::max(deadline_, Rules::deadline(sent_, now, ttl_));
        renewal_ = renewal_time(sent_, period_, ttl_);
        assert(deadline_ >= before);
    }
    void retry_extension(time_point now) { renewal_ = now + renewal_retry(ttl_); }

    /// A lease begins that lasts for `longest`, however often the key is extended.
    void begin_lease(bool watched, time_point now, duration longest) {
        watched_ = watched;
        lease_began_ = now;
        limit_ = longest < time_point::max() - now ? now + longest : time_point::max();
        margin_ = loss_margin(std::min(ttl_, longest));
    }
    void stop_renewing() { watched_ = false; }

    /// Our clock stood still for up to `by`, at a moment before `until`. So all times that count
    /// from before that moment move back by `by`.
    void clock_stood_still(time_point until, duration by) {
        auto const length = Rules::deadline(time_point{}, time_point{}, ttl_);
        if (deadline_ - length.time_since_epoch() < until) {
            deadline_ -= by;
            renewal_ -= by;
        }
        if (sent_ < until) sent_ -= by;
        if (limit_ != time_point::max() && lease_began_ < until) limit_ -= by;
    }

    duration ttl() const { return ttl_; }
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
    duration ttl_, period_, margin_;
    time_point sent_{}, deadline_{}, renewal_{};
    time_point lease_began_{}, limit_ = time_point::max();
    bool watched_;
};

} // namespace holdfast::protocol

#endif
