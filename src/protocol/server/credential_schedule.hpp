// When an instance's credentials are asked for again.
#ifndef HOLDFAST_PROTOCOL_CREDENTIAL_SCHEDULE_HPP
#define HOLDFAST_PROTOCOL_CREDENTIAL_SCHEDULE_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct credential_rules {
    /// How long before the end the new credentials must be in use. Services want 3 minutes; shorter
    /// lifetimes leave a fifth.
    static constexpr duration lead(duration lifetime) {
        return std::min<duration>(lifetime / 5, std::chrono::minutes(3));
    }
    /// The source is asked at a random time from twice the lead to one and a half, so that clients
    /// that began together do not ask together, and a failure leaves time for more.
    static constexpr duration pause(duration lifetime, std::uint64_t random) {
        auto const latest = lifetime - lead(lifetime) * 3 / 2;
        auto const spread = static_cast<std::uint64_t>((lead(lifetime) / 2).count() + 1);
        return std::max(latest - duration(static_cast<duration::rep>(random % spread)), shortest);
    }
    /// After a failure: 1 s, then twice as long each time, up to 30 s.
    static constexpr duration retry(unsigned failures) {
        return std::min<duration>(shortest * (1 << std::min(failures, 5U)),
                                  std::chrono::seconds(30));
    }
    static constexpr duration shortest = std::chrono::seconds(1);
    /// Longer than any client lives: no time follows from it.
    static constexpr duration for_ever = std::chrono::hours(24 * 366 * 10);
};

template <class Rules>
class basic_credential_schedule {
public:
    /// They are valid for `lifetime` from now.
    void obtained(time_point now, duration lifetime, std::uint64_t random) {
        failures_ = 0;
        due_ = lifetime >= Rules::for_ever
                   ? time_point::max()
                   : now + Rules::pause(std::max(lifetime, duration::zero()), random);
    }
    /// There were none, or the server refused them.
    void failed(time_point now) { due_ = now + Rules::retry(failures_++); }

    /// When to ask, if no connection does so before.
    time_point due() const { return due_; }

private:
    time_point due_ = time_point::max();
    unsigned failures_ = 0;
};

using credential_schedule = basic_credential_schedule<credential_rules>;

} // namespace holdfast::protocol

#endif
