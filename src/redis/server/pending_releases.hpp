// The pending releases of an instance: the instance could not be reached, or refused them for now.
// They are kept until they can be sent, or until their keys have expired.
#ifndef HOLDFAST_REDIS_PENDING_RELEASES_HPP
#define HOLDFAST_REDIS_PENDING_RELEASES_HPP

#include <holdfast/clock.hpp>

#include "redis/server/instance.hpp"
#include "redis/wire/reply_handler.hpp"

#include <boost/scope/scope_exit.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace holdfast::redis {

/// A time of the last seven weeks, in 32 bits. A release that was answered before its reply holds
/// this time in place of the round.
inline std::uint32_t short_time(lease_clock::time_point t) {
    return static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count());
}
inline lease_clock::time_point time_of(std::uint32_t t, lease_clock::time_point now) {
    return now - std::chrono::milliseconds(short_time(now) - t);
}

class pending_releases {
public:
    /// `show` is called with the number of releases when it may have changed.
    pending_releases(std::size_t most, instance_counts& counts,
                     std::function<void(std::size_t)> show)
        : most_(most)
        , counts_(counts)
        , show_(std::move(show)) {}

    std::size_t size() const { return all_.size(); }

    /// `since`: the key got its ttl before that time. If there are too many, the oldest is dropped;
    /// if memory runs out, this one.
    void keep(reply_handler_ptr owner, lease_clock::time_point since);
    /// As keep(), for a release that the server may accept a moment later: it may lack a replica or
    /// memory, or load its data. True if retry_at() has moved.
    bool keep_refused(reply_handler_ptr owner, lease_clock::time_point since,
                      lease_clock::time_point now);
    /// The server has carried out a release.
    void accepted() { refusals_ = 0; }
    /// When refused releases are tried again.
    lease_clock::time_point retry_at() const { return retry_at_; }
    bool due(lease_clock::time_point now) const { return !all_.empty() && now >= retry_at_; }

    /// The session has ended. The server has carried out by now all releases that were sent in it,
    /// or never will.
    void session_ended(lease_clock::time_point now) { session_ended_ = now; }
    /// Drops the releases of keys that have expired.
    void drop_expired(lease_clock::time_point now);

    /// Takes out all releases, and calls `send(reply_handler_ptr, since)` for each, oldest first.
    /// Those that `send` has not taken when it throws stay.
    template <class Send>
    void take(Send&& send) {
        boost::scope::scope_exit const shown([this] { show_(all_.size()); });
        for (; !all_.empty(); all_.pop_front()) send(all_.front().owner, all_.front().since);
    }

    /// Lets all go, and keeps no more.
    void stop() noexcept {
        most_ = 0;
        all_.clear();
    }

private:
    struct release {
        reply_handler_ptr owner;
        lease_clock::time_point since;
    };

    /// The time by which the key has expired on the instance.
    lease_clock::time_point gone_by(release const&) const;

    std::size_t most_; ///< 0: stopped
    instance_counts& counts_;
    std::function<void(std::size_t)> show_;
    std::deque<release> all_;
    lease_clock::time_point session_ended_{};
    lease_clock::time_point retry_at_{};
    unsigned refusals_ = 0; ///< in a row
};

} // namespace holdfast::redis

#endif
