// Monitors the server of a connection: its clock, its role, and the origin of its data. The server
// does not vote while it may have forgotten grants: see redis/server/vote_guard.hpp.
#ifndef HOLDFAST_REDIS_SERVER_MONITOR_HPP
#define HOLDFAST_REDIS_SERVER_MONITOR_HPP

#include <holdfast/clock.hpp>

#include "redis/server/connection_state.hpp"
#include "redis/server/vote_guard.hpp"
#include "redis/wire/probe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// All calls are made within a turn.
class server_monitor {
public:
    explicit server_monitor(connection_state&);

    //
    // The quarantine
    //

    bool quarantined() const { return guard_.quarantined(state_.now()); }
    /// Its end; in the past if there is none.
    lease_clock::time_point until() const { return guard_.until(); }
    std::string const& reason() const { return guard_.reason(); }

    /// The server may lack grants: its grants do not count for this long.
    void distrust(lease_clock::duration, std::string_view reason);
    /// The server takes the place of another one. Its grants do not count until then.
    void succeed(lease_clock::time_point until, std::string_view reason);
    /// The server says that all its keys may be gone. True if a quarantine has begun.
    bool emptied();
    /// If the server is young, this proves that it has been restarted.
    void shown_restarted(std::string_view evidence);
    /// Others are being connected, and may show that this server has been restarted. If it is
    /// young, its commands wait for them.
    void hold_for_ages();
    /// True while commands have to wait for that.
    bool holds() const {
        auto const now = state_.now();
        return now < held_until_ && guard_.is_young(now) && state_.awaits_ages();
    }
    /// The server has turned out to be a replica.
    void is_replica() noexcept { guard_.is_replica(); }
    std::string const& run_id() const { return run_id_; }
    void excuse_jump();
    void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                               lease_clock::duration least, lease_clock::duration most) {
        guard_.our_clock_stood_still(from, until, least, most);
    }
    /// Tells the owner when the quarantine has ended.
    void notify_of_end();
    /// The next check comes at the end of the quarantine, or before.
    void wake_at_end();

    //
    // Questions
    //

    bool asks_time() const {
        return state_.options.detect_clock_jumps &&
               !state_.services.has(degradation::no_clock_check);
    }
    bool checks_data() const;
    /// Before a command: sends TIME and the server check about once a second.
    void ask_due();
    /// The connection is idle. False if the server answers neither question.
    bool ask_idle();
    void ask_time_now();
    void check();
    bool checking() const { return checking_; }
    lease_clock::time_point checked_at() const { return checked_at_; }
    /// Counts as a check.
    void put_off_check() { checked_at_ = state_.now(); }

    //
    // The connection
    //

    /// A new one, whose probe asks all of this.
    void begin();
    /// `tracking_limit`: see probe.hpp.
    void probed(server_info const&, bool logs_each_write, std::int64_t tracking_limit);
    void lost() { asking_time_ = checking_ = false; }
    /// A question was not sent, so it is due again.
    void unsent(command_type);

    //
    // Replies
    //

    void take_time(element const&);
    void on_time();
    void take_check(element const& e) { check_.take_part(e); }
    /// A server check is complete. Empty if the server did not report, or cannot vote any more.
    std::optional<server_info> on_check();

private:
    void ask_time();
    void on_quarantine();
    void on_loss();
    void notify_of_age();
    void show();
    void mind_eviction(server_info const&);
    void mind_tracking(server_info const&);
    void note_clock_offset(std::chrono::microseconds shown);
    protocol::data_origin origin_of(server_info const&) const;

    connection_state& state_;
    vote_guard guard_;
    time_reply time_;
    lease_clock::time_point time_asked_{};
    bool asking_time_ = false;
    bool time_refused_ = false; ///< the reply that is being read is an error
    server_check check_;
    lease_clock::time_point checked_at_{};
    bool checking_ = false;
    std::string run_id_; ///< of the server that was probed; empty: it does not report
    bool logs_each_write_ = false;
    std::int64_t tracking_limit_ = 0;
    bool cannot_track_ = false; ///< the server's table is full
    bool age_known_ = false;
    lease_clock::time_point held_until_{};
};

} // namespace holdfast::redis

#endif
