// Releases for an instance that cannot be reached: kept until they can be sent, or until their key has expired.
#ifndef HOLDFAST_REDIS_PENDING_RELEASES_HPP
#define HOLDFAST_REDIS_PENDING_RELEASES_HPP

#include <holdfast/clock.hpp>

#include "protocol/rules.hpp"
#include "redis/exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

namespace holdfast::redis {

class pending_releases {
public:
    explicit pending_releases(std::size_t most)
        : most_(most) {}

    std::size_t size() const { return all_.size(); }

    /// False: the oldest had to go for it, or for want of memory this one.
    bool keep(exchange_ptr who, lease_clock::time_point now) noexcept {
        auto const full = all_.size() >= most_;
        if (full) all_.pop_front();
        try {
            all_.push_back({std::move(who), now});
        } catch (...) {
            return false;
        }
        return !full;
    }

    /// What was sent before this moment has been carried out, or never will be.
    void session_ended(lease_clock::time_point now) { session_ended_ = now; }

    /// Drops those whose keys have gone by themselves.
    void drop_expired(lease_clock::time_point now) {
        std::erase_if(all_, [&](release const& r) { return gone_by(r) <= now; });
    }

    /// Takes out all of them; `send(exchange_ptr)` is called for each, in the order in which they came.
    template <class Send>
    void take(Send&& send) {
        while (!all_.empty()) {
            send(all_.front().who);
            all_.pop_front();
        }
    }

    void clear() noexcept { all_.clear(); }

private:
    struct release {
        exchange_ptr who;
        lease_clock::time_point since;
    };

    // When the instance no longer has the key by itself.
    lease_clock::time_point gone_by(release const& r) const {
        auto const ttl = r.who->about(protocol::command::release).ttl;
        return std::max(r.since, session_ended_) + ttl + protocol::redlock_rules::drift(ttl);
    }

    std::size_t most_;
    std::deque<release> all_;
    lease_clock::time_point session_ended_{};
};

} // namespace holdfast::redis

#endif
