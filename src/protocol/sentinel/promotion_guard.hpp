// Decides which answers of a primary count after a fail-over.
//
// A promoted replica may lack the last grants of the old primary, and clients that have not heard
// of the fail-over may use the old one for M (sentinel_directory.hpp). So, from the first sight t
// of the new primary on:
// - Grants count from t + max_ttl + M on. By then each lease of the old primary has ended.
// - Extensions count from t + M on. Before that, the old primary may grant the key of an extended
//   lease to another client, when the key's first time to live has passed there.
#ifndef HOLDFAST_PROTOCOL_PROMOTION_GUARD_HPP
#define HOLDFAST_PROTOCOL_PROMOTION_GUARD_HPP

#include "protocol/quarantine.hpp"
#include "protocol/sentinel/sentinel_members.hpp"
#include "protocol/time.hpp"

#include <optional>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct promotion_rules {
    static constexpr duration grants_pause(duration longest, duration m) { return longest + m; }
    static constexpr duration extensions_pause(duration m) { return m; }
    /// Outside the confirmation nothing counts.
    static constexpr bool in_confirmation(time_point now, time_point until) { return now < until; }
};

template <class Rules>
class basic_promotion_guard {
public:
    /// `longest`: the longest ttl. `m`: the confirmation time.
    basic_promotion_guard(duration longest, duration m)
        : longest_(longest)
        , m_(m) {}

    /// A majority has named this primary. `since`: a time at which a majority named it already.
    /// This is the present, unless the sentinels prove an earlier time. True if it is another
    /// primary, or the epoch is new, so that a quarantine has begun. The first primary is one, too:
    /// other clients may still use its predecessor.
    bool named(named_primary const& primary, time_point since) {
        if (last_ == primary) return false;
        last_ = primary;
        grants_.begin(since, Rules::grants_pause(longest_, m_));
        extensions_.begin(since, Rules::extensions_pause(m_));
        return true;
    }

    /// `confirmed_until`: of the directory.
    bool counts_grants(time_point now, time_point confirmed_until) const {
        return Rules::in_confirmation(now, confirmed_until) && !grants_.active(now);
    }
    bool counts_extensions(time_point now, time_point confirmed_until) const {
        return Rules::in_confirmation(now, confirmed_until) && !extensions_.active(now);
    }
    /// When the quarantine of grants ends.
    time_point grants_until() const { return grants_.until(); }

private:
    duration longest_, m_;
    std::optional<named_primary> last_;
    quarantine grants_, extensions_;
};

using promotion_guard = basic_promotion_guard<promotion_rules>;

} // namespace holdfast::protocol

#endif
