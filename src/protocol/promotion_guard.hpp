// Decides which answers of a primary count after a fail-over.
//
// A promoted replica may lack the last grants of the old primary, and clients that have not heard
// of the fail-over may use the old one for M (sentinel_directory.hpp). So, from the first sight t
// of the new primary on:
// - Grants count from t + max_ttl + M on. By then each lease of the old primary has ended.
// - Extensions count from t + M on. Before that, the old primary may grant the key of an extended
//   lease to another client, when the key's first time to live has passed there.
//
// If each client of the fleet counts only grants that all replicas have (WAIT), the promoted server
// has all grants, and the client may lift the quarantine. Then a clock ahead of the old primary's
// clock would still end leases early: keys cross a promotion with the wall time of their expiry.
#ifndef HOLDFAST_PROTOCOL_PROMOTION_GUARD_HPP
#define HOLDFAST_PROTOCOL_PROMOTION_GUARD_HPP

#include "protocol/quarantine.hpp"
#include "protocol/rules.hpp"
#include "protocol/sentinel_members.hpp"
#include "protocol/time.hpp"

#include <optional>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct promotion_rules {
    static constexpr duration grants_pause(duration longest, duration m) { return longest + m; }
    static constexpr duration extensions_pause(duration m) { return m; }
    /// Outside the confirmation nothing counts.
    static constexpr bool in_confirmation(time_point now, time_point until) { return now < until; }
    static constexpr bool compares_clocks() { return true; }
};

/// Evidence that the promoted server has every grant that counted at the old primary.
struct promotion_evidence {
    bool fleet_waits = false;   ///< the operator declares that each client waits for all replicas
    bool same_history = false;  ///< its second replication id is the last id of the old primary
    bool known_replica = false; ///< Sentinel listed its run id as a replica of the old primary
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
        grants_before_ = grants_;
        grants_.begin(since, Rules::grants_pause(longest_, m_));
        extensions_.begin(since, Rules::extensions_pause(m_));
        before_ = clock_;
        clock_.reset();
        return true;
    }

    /// The primary's clock shows `shown`; it was asked at `sent`. `received` is when it answered.
    void told_time(time_point sent, time_point received, duration shown) {
        clock_ = reading{.least = shown - received.time_since_epoch(),
                         .most = shown - sent.time_since_epoch(),
                         .at = received};
    }
    /// How far the clock of this primary may be ahead of the one before. Empty if that is not
    /// known.
    std::optional<duration> greatest_lead() const {
        if (!clock_ || !before_) return std::nullopt;
        return clock_->most - before_->least;
    }
    /// True if the clock of this primary is not ahead of the one before by more than drift allows.
    bool clocks_agree() const {
        auto const lead = greatest_lead();
        return lead && *lead <= redlock_rules::drift(clock_->at - before_->at);
    }

    /// Ends the quarantine of the last promotion if the evidence and the clocks allow that. To be
    /// called after told_time(). True if the quarantine has been lifted.
    bool lift(promotion_evidence const& e) {
        if (!e.fleet_waits || !e.same_history || !e.known_replica) return false;
        if (Rules::compares_clocks() && !clocks_agree()) return false;
        grants_ = grants_before_;
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
    /// The offset of a server's clock against ours.
    struct reading {
        duration least{}, most{};
        time_point at{};
    };

    duration longest_, m_;
    std::optional<named_primary> last_;
    quarantine grants_, grants_before_, extensions_;
    std::optional<reading> clock_, before_;
};

using promotion_guard = basic_promotion_guard<promotion_rules>;

} // namespace holdfast::protocol

#endif
