// Whether an instance's grants count: not while it may have forgotten earlier ones.
//
// Joins the protocol's guards with what is told to people about them.
#ifndef HOLDFAST_REDIS_VOTE_GUARD_HPP
#define HOLDFAST_REDIS_VOTE_GUARD_HPP

#include <holdfast/options.hpp>

#include "protocol/clock_doubt.hpp"
#include "protocol/clock_guard.hpp"
#include "protocol/clock_look.hpp"
#include "protocol/quarantine.hpp"
#include "protocol/restart_guard.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::redis {

class vote_guard {
public:
    vote_guard(restart_guard on_restart, std::chrono::milliseconds max_ttl)
        : max_ttl_(max_ttl)
        , restarts_(on_restart != restart_guard::off, on_restart == restart_guard::strict)
        , clock_(max_ttl)
        , doubt_(max_ttl) {}

    bool quarantined(protocol::time_point now) const { return quarantine_.active(now) || doubt_.active(now); }
    protocol::time_point until() const {
        return jumped_ ? std::max(quarantine_.until(), doubt_.until()) : quarantine_.until();
    }
    /// Why there is a quarantine; empty if there is none, or no memory for the words.
    std::string const& reason() const { return jumped_ ? jump_reason_ : reason_; }

    /// The probe was answered by this server process. True: a quarantine has begun.
    bool connected(std::uint64_t run, bool durable, std::int64_t uptime, protocol::time_point now) noexcept {
        if (!restarts_.connected(run, durable)) return false;
        begin(now, [&] {
            return "up for " + std::to_string(uptime) +
                   " s, without each write on disk: it may have forgotten locks (on_restart)";
        });
        return true;
    }

    /// The server's clock shows `shown`; it was asked at `sent`. True: a quarantine has begun.
    bool told_time(protocol::time_point sent, protocol::time_point received,
                   protocol::duration shown) noexcept {
        using namespace std::chrono;
        auto const jumped = clock_.told(sent, received, shown);
        doubt_.looked(received, jumped > protocol::duration::zero());
        if (jumped == protocol::duration::zero()) return false;
        begun_ = jumped_ = true;
        put(jump_reason_, [&] {
            return "its clock has jumped ahead by " +
                   std::to_string(duration_cast<milliseconds>(jumped).count()) + " ms (watch_clocks)";
        });
        return true;
    }

    /// Of the answer that was told last.
    protocol::clock_look const& last_look() const { return clock_.last(); }
    /// That jump was none: our own clock stood still.
    void excuse_jump(protocol::time_point now) noexcept {
        doubt_.excuse();
        jumped_ = doubt_.active(now);
    }
    /// And so it did, unseen here.
    void our_clock_stood_still(protocol::time_point from, protocol::time_point to, protocol::duration least,
                               protocol::duration most) {
        clock_.stood_still(from, to, least, most);
    }

    /// True: a quarantine is over.
    bool ends(protocol::time_point now) noexcept {
        if (!begun_ || quarantined(now)) return false;
        begun_ = jumped_ = false;
        reason_.clear();
        return true;
    }

private:
    /// The guards tell it once. So it begins, also if there is no memory for the words.
    template <class Words>
    void begin(protocol::time_point now, Words&& words) noexcept {
        quarantine_.begin(now, max_ttl_);
        begun_ = true;
        jumped_ = false;
        put(reason_, words);
    }
    template <class Words>
    void put(std::string& reason, Words&& words) noexcept {
        try {
            reason =
                words() + "; its votes do not count for max_ttl, " + std::to_string(max_ttl_.count()) + " ms";
        } catch (...) {
            reason.clear();
        }
    }

    std::chrono::milliseconds max_ttl_;
    protocol::restart_guard restarts_;
    protocol::clock_guard clock_;
    protocol::clock_doubt doubt_;
    protocol::quarantine quarantine_;
    bool begun_ = false;
    bool jumped_ = false; ///< for that reason, and it came last
    std::string reason_, jump_reason_;
};

} // namespace holdfast::redis

#endif
