// How long a tenure's key, and the lease on it, last.
#ifndef HOLDFAST_PROTOCOL_VALIDITY_HPP
#define HOLDFAST_PROTOCOL_VALIDITY_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The key lasts until key_deadline(), and extensions move that time. The lease ends at deadline():
/// at the key's deadline, or at a limit of its own if that is earlier.
template <class Rules>
class validity {
    using milliseconds = std::chrono::milliseconds;

public:
    validity(duration ttl, bool renewed, duration period)
        : ttl_(whole(ttl) & greatest)
        , confirmed_ttl_(whole(ttl) & greatest)
        , renewed_(renewed ? 1U : 0U)
        , period_(period) {}

    /// A round that sets the key is sent.
    void begin_round(time_point now) {
        sent_ = since_ = now;
        deadline_ = Rules::deadline(now, now, ttl());
    }
    /// A round that extends the key is sent.
    void begin_extension(time_point now) { sent_ = now; }
    /// From now on the key is set for another ttl. A shorter one counts at once: any instance may
    /// take it, even if the round that follows fails. A longer one counts with confirm_extension().
    void change_ttl(time_point now, duration to) {
        auto const ratio = static_cast<double>(to.count()) / static_cast<double>(ttl().count());
        period_ =
            duration(static_cast<duration::rep>(static_cast<double>(period_.count()) * ratio));
        ttl_ = whole(to) & greatest;
        if (ttl_ >= confirmed_ttl_) return;
        confirmed_ttl_ = ttl_;
        deadline_ = std::min(deadline_, Rules::deadline(now, now, ttl()));
    }

    /// The round that was sent last has won. False if it was won too late to count.
    [[nodiscard]] bool confirm(time_point now) {
        auto const until = Rules::deadline(sent_, now, ttl());
        if (!Rules::in_time(now, until)) return false;
        deadline_ = until;
        since_ = sent_;
        renewal_ = renewal_time(sent_, period_, ttl());
        return true;
    }
    void confirm_extension(time_point now) {
        auto const until = Rules::deadline(sent_, now, ttl());
        if (until >= deadline_) {
            deadline_ = until;
            since_ = sent_;
        }
        confirmed_ttl_ = ttl_;
        renewal_ = renewal_time(sent_, period_, ttl());
    }
    void retry_extension(time_point now) {
        renewal_ = now + renewal_retry(milliseconds(confirmed_ttl_));
    }

    /// A lease begins that lasts for `longest`, however often the key is extended.
    void begin_lease(bool renewed, time_point now, duration longest) {
        renewed_ = renewed ? 1U : 0U;
        lease_began_ = now;
        limit_ = longest < time_point::max() - now ? now + longest : time_point::max();
    }
    void renew_by(time_point at) { renewal_ = std::min(renewal_, at); }
    void stop_renewing() { renewed_ = 0; }
    void renew_again(time_point now) {
        if (renewed_ == 0) renew_by(now);
        renewed_ = 1;
    }

    /// Our clock stood still for up to `by`, at a moment before `until`. So all times that count
    /// from before that moment move back by `by`.
    void clock_stood_still(time_point until, duration by) {
        if (since_ < until) {
            deadline_ -= by;
            renewal_ -= by;
            since_ -= by;
        }
        if (sent_ < until) sent_ -= by;
        if (lease_began_ >= until) return;
        lease_began_ -= by;
        if (limit_ != time_point::max()) limit_ -= by;
    }

    duration ttl() const { return milliseconds(ttl_); }
    time_point lease_began() const { return lease_began_; }
    time_point key_deadline() const { return deadline_; }
    time_point deadline() const { return std::min(deadline_, limit_); }
    /// True if the lease ends before its key.
    bool ends_at_limit() const { return limit_ < deadline_; }
    /// How long before the deadline the holder is notified of a loss.
    duration margin() const { return loss_margin(this->longest()); }
    time_point loss_time() const { return deadline() - margin(); }
    time_point renewal() const { return renewal_; }
    /// True if renewals are wanted, and can move the deadline.
    bool renews() const { return renewed_ != 0 && deadline_ < limit_; }

private:
    /// The longest time that the lease can last from now on.
    duration longest() const {
        duration const ttl = milliseconds(confirmed_ttl_);
        return limit_ == time_point::max()
                   ? ttl
                   : std::min(ttl, std::max(duration(0), limit_ - lease_began_));
    }

    static constexpr std::uint32_t greatest = 0x7fff'ffff;
    static std::uint32_t whole(duration ttl) {
        assert(ttl >= duration(0) && ttl <= milliseconds(greatest));
        assert(ttl % milliseconds(1) == duration(0));
        return static_cast<std::uint32_t>(ttl / milliseconds(1));
    }

    // In milliseconds, and without padding: each lease has them.
    std::uint32_t ttl_ : 31;           ///< of the next round
    std::uint32_t confirmed_ttl_ : 31; ///< of the round that the deadline counts from, or shorter
    std::uint32_t renewed_ : 1;
    duration period_;
    time_point sent_{}, deadline_{}, renewal_{};
    time_point since_{}; ///< the key's deadline counts from here
    time_point lease_began_{}, limit_ = time_point::max();
};

} // namespace holdfast::protocol

#endif
