// Decides whether an instance's grants count. They do not while the instance may have forgotten
// earlier grants.
//
// Joins the guards of src/protocol with the messages for people.
#ifndef HOLDFAST_REDIS_VOTE_GUARD_HPP
#define HOLDFAST_REDIS_VOTE_GUARD_HPP

#include <holdfast/options.hpp>

#include "protocol/quarantine.hpp"
#include "protocol/server/clock_guard.hpp"
#include "protocol/server/clock_reading.hpp"
#include "protocol/server/restart_guard.hpp"
#include "protocol/server/server_ages.hpp"
#include "redis/wire/optional_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

class vote_guard {
public:
    vote_guard(restart_policy on_restart, std::chrono::milliseconds max_ttl)
        : max_ttl_(max_ttl)
        , by_uptime_(on_restart == restart_policy::by_uptime)
        , minds_forgetting_(on_restart != restart_policy::off)
        , restarts_(on_restart != restart_policy::off, on_restart == restart_policy::strict)
        , clock_(max_ttl)
        , doubt_(max_ttl) {}

    bool quarantined(protocol::time_point now) const {
        return evicting_ || quarantine_.active(now) || doubt_.active(now);
    }
    /// The end of the quarantine; the greatest time point while the server may evict keys.
    protocol::time_point until() const {
        if (evicting_) return protocol::time_point::max();
        return jumped_ ? std::max(quarantine_.until(), doubt_.until()) : quarantine_.until();
    }
    /// The reason of the quarantine. Empty if there is none, or if memory ran out for the text.
    std::string const& reason() const { return jumped_ ? jump_reason_ : reason_; }

    /// Another server takes the place of the last one. `until`: until then it may lack grants of
    /// its predecessor, for this reason. The guards go on to compare it with its predecessor.
    void replaced(protocol::time_point now, protocol::time_point until,
                  std::string_view reason) noexcept {
        new_server_ = clock_of_predecessor_ = true;
        if (until <= now) return;
        quarantine_.extend(until);
        begun_ = true;
        jumped_ = false;
        reason_ = text_if_memory([&] { return reason; });
    }

    /// This server has answered the probe. `uptime`: in seconds; empty if it reports none. True if
    /// a quarantine has begun.
    bool connected(protocol::data_origin const& server, std::optional<std::int64_t> uptime,
                   protocol::time_point now) noexcept {
        auto const loss = restarts_.connected(server);
        auto const replaced = std::exchange(new_server_, false) && quarantine_.active(now);
        start_ = uptime ? protocol::latest_start(now, *uptime) : std::nullopt;
        if (loss == protocol::forgetting::none && by_uptime_ && is_young(now)) {
            begin_for_youth(now, "it may have been restarted");
            return true;
        }
        if (loss == protocol::forgetting::none || !replaced) return on_loss(loss, uptime, now);
        // Of course it is another process. The reason for that is reported already.
        quarantine_.begin(now, max_ttl_);
        return true;
    }
    /// The server has answered a server check. True if a quarantine has begun.
    bool server_checked(protocol::data_origin const& server, bool announced,
                        protocol::time_point now) noexcept {
        return on_loss(restarts_.observed(server, announced), {}, now);
    }
    /// When the server was started at the latest; empty if it does not report.
    std::optional<protocol::time_point> start() const { return start_; }
    /// True if the server was trusted at the first contact, and was started so shortly before that
    /// it may have forgotten locks, if it had any.
    bool is_young(protocol::time_point now) const {
        return restarts_.trusted_at_first_sight() && start_ &&
               protocol::is_young(*start_, now, max_ttl_);
    }
    /// If the server is young, this proves that it has been restarted. True if a quarantine has
    /// begun.
    bool shown_restarted(protocol::time_point now, std::string_view evidence) noexcept {
        if (!is_young(now)) return false;
        begin_for_youth(now, evidence);
        return true;
    }

    /// The server has turned out to be a replica.
    void is_replica() noexcept { restarts_.is_replica(); }

    /// The server announces that all its keys are gone. True if a quarantine has begun.
    bool emptied(protocol::time_point now) noexcept {
        if (!restarts_.emptied()) return false;
        on_loss(protocol::forgetting::flush, {}, now);
        return true;
    }

    /// `policy`: the policy by which the server may delete keys that expire; empty if it deletes
    /// none. True while there is such a policy, and once when it has gone: the end of the
    /// quarantine is then known.
    bool evicts(std::string_view policy, protocol::time_point now) noexcept {
        if (!minds_forgetting_) return false;
        auto const did = std::exchange(evicting_, !policy.empty());
        if (!did && !evicting_) return false;
        begin(now, [&] {
            return evicting_ ? "maxmemory-policy " + std::string(policy) +
                                   " may evict locks: set noeviction (on_restart)"
                             : "it may have evicted locks (on_restart)";
        });
        return true;
    }

    /// The server's clock shows `shown`; it was asked at `sent`. True if the clock has jumped, so
    /// that a quarantine has begun.
    bool on_time(protocol::time_point sent, protocol::time_point received,
                 protocol::duration shown) noexcept {
        using namespace std::chrono;
        auto const jumped = clock_.on_time(sent, received, shown);
        doubt_.observed(received, jumped > protocol::duration::zero());
        auto const differs = std::exchange(clock_of_predecessor_, false);
        if (jumped == protocol::duration::zero()) return false;
        begun_ = jumped_ = true;
        put(jump_reason_, [&] {
            return (differs ? "its clock is ahead of its predecessor's by "
                            : "its clock has jumped ahead by ") +
                   std::to_string(duration_cast<milliseconds>(jumped).count()) +
                   " ms (detect_clock_jumps)";
        });
        return true;
    }

    /// The deployment says that the server may lack grants, and why.
    void distrust(protocol::duration how_long, std::string_view reason,
                  protocol::time_point now) noexcept {
        quarantine_.begin(now, how_long);
        begun_ = true;
        jumped_ = false;
        reason_ = text_if_memory([&] {
            using namespace std::chrono;
            auto const left = duration_cast<milliseconds>(how_long).count();
            return std::string(reason) + "; its votes do not count for " + std::to_string(left) +
                   " ms";
        });
    }

    /// The reading of the last answer to TIME.
    protocol::clock_reading const& last_clock_reading() const { return clock_.last(); }
    /// The last jump was not one of the server's clock: our own clock stood still.
    void excuse_jump(protocol::time_point now) noexcept {
        doubt_.excuse();
        jumped_ = doubt_.active(now);
    }
    /// Our own clock stood still, and this server has not shown that yet.
    void our_clock_stood_still(protocol::time_point from, protocol::time_point until,
                               protocol::duration least, protocol::duration most) {
        clock_.stood_still(from, until, least, most);
    }

    /// True once when a quarantine is over.
    bool ends(protocol::time_point now) noexcept {
        if (!begun_ || quarantined(now)) return false;
        begun_ = jumped_ = false;
        reason_.clear();
        return true;
    }

private:
    /// Lasts until all leases from before the server's start have ended.
    void begin_for_youth(protocol::time_point now, std::string_view evidence) noexcept {
        using namespace std::chrono;
        restarts_.distrust();
        auto const until = *start_ + max_ttl_;
        auto const longer = quarantined(now) && this->until() >= until;
        quarantine_.extend(until);
        begun_ = true;
        if (longer) return;
        jumped_ = false;
        reason_ = text_if_memory([&] {
            return "up for less than max_ttl, " + std::to_string(max_ttl_.count()) + " ms, and " +
                   std::string(evidence) +
                   ": it may have forgotten locks (on_restart); its votes do not count for " +
                   std::to_string(ceil<milliseconds>(until - now).count()) + " ms";
        });
    }

    bool on_loss(protocol::forgetting loss, std::optional<std::int64_t> uptime,
                 protocol::time_point now) noexcept {
        switch (loss) {
        case protocol::forgetting::none:
            return false;
        case protocol::forgetting::restart:
            begin(now, [&] {
                return (uptime ? "up for " + std::to_string(*uptime) + " s, "
                               : std::string("up since an unknown time, ")) +
                       "without each write on disk: it may have forgotten locks (on_restart)";
            });
            break;
        case protocol::forgetting::flush:
            begin(now, [] {
                return std::string(
                    "all its keys were flushed, or replaced by a full resync: it may have "
                    "forgotten locks (on_restart)");
            });
            break;
        case protocol::forgetting::replacement:
            begin(now, [] {
                return std::string(
                    "it has been a replica, so its data may have been replaced: it may have "
                    "forgotten locks (on_restart)");
            });
            break;
        }
        return true;
    }

    /// A guard reports a loss only once. So the quarantine begins even if memory runs out for its
    /// reason.
    template <class Words>
    void begin(protocol::time_point now, Words&& words) noexcept {
        auto const longer = !evicting_ && quarantine_.until() > now + max_ttl_;
        quarantine_.begin(now, max_ttl_);
        begun_ = true;
        jumped_ = false;
        if (!longer) put(reason_, words); // a longer one keeps its reason, which tells its length
    }
    template <class Words>
    void put(std::string& reason, Words&& words) noexcept {
        reason = text_if_memory([&] {
            return words() + "; its votes do not count for max_ttl, " +
                   std::to_string(max_ttl_.count()) + " ms" + (evicting_ ? " after that" : "");
        });
    }

    std::chrono::milliseconds max_ttl_;
    bool by_uptime_;
    bool minds_forgetting_;
    bool evicting_ = false;
    protocol::restart_guard restarts_;
    protocol::clock_guard clock_;
    protocol::clock_doubt doubt_;
    protocol::quarantine quarantine_;
    std::optional<protocol::time_point> start_;
    bool new_server_ = false;           ///< and not connected to yet
    bool clock_of_predecessor_ = false; ///< the last reading was of another server
    bool begun_ = false;
    bool jumped_ = false; ///< the last reason is a jump of the clock
    std::string reason_, jump_reason_;
};

} // namespace holdfast::redis

#endif
