// The pending releases of an instance: the instance could not be reached, or refused them. They are
// kept until they can be sent, or until their keys have expired.
#ifndef HOLDFAST_REDIS_PENDING_RELEASES_HPP
#define HOLDFAST_REDIS_PENDING_RELEASES_HPP

#include <holdfast/clock.hpp>

#include "protocol/rules.hpp"
#include "redis/wire/reply_handler.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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
    explicit pending_releases(std::size_t most)
        : most_(most) {}

    std::size_t size() const { return all_.size(); }

    /// False if the oldest release was dropped to make room, or if memory ran out for this one.
    /// `since`: the key got its ttl before that time.
    bool keep(reply_handler_ptr owner, lease_clock::time_point since) noexcept {
        auto const full = all_.size() >= most_;
        if (full) all_.pop_front();
        try {
            all_.push_back({std::move(owner), since});
        } catch (...) {
            return false;
        }
        return !full;
    }

    /// The session has ended. The server has carried out by now all releases that were sent in it,
    /// or never will.
    void session_ended(lease_clock::time_point now) { session_ended_ = now; }

    /// Drops the releases of keys that have expired.
    void drop_expired(lease_clock::time_point now) {
        std::erase_if(all_, [&](release const& r) { return gone_by(r) <= now; });
    }

    /// Takes out all releases, and calls `send(reply_handler_ptr, since)` for each, oldest first.
    template <class Send>
    void take(Send&& send) {
        while (!all_.empty()) {
            send(all_.front().owner, all_.front().since);
            all_.pop_front();
        }
    }

    void clear() noexcept { all_.clear(); }

private:
    struct release {
        reply_handler_ptr owner;
        lease_clock::time_point since;
    };

    // The time by which the key has expired on the instance.
    lease_clock::time_point gone_by(release const& r) const {
        auto const ttl = r.owner->arguments(protocol::command::release).ttl;
        return std::max(r.since, session_ended_) + ttl + protocol::redlock_rules::drift(ttl);
    }

    std::size_t most_;
    std::deque<release> all_;
    lease_clock::time_point session_ended_{};
};

} // namespace holdfast::redis

#endif
