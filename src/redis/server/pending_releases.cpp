#include "redis/server/pending_releases.hpp"

#include "protocol/backoff.hpp"
#include "protocol/rules.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace holdfast::redis {

void pending_releases::keep(reply_handler_ptr owner, lease_clock::time_point since) {
    if (most_ == 0) return;
    auto dropped = all_.size() >= most_;
    if (dropped) all_.pop_front();
    try {
        all_.push_back({std::move(owner), since});
    } catch (std::bad_alloc const&) {
        dropped = true;
    }
    if (dropped) counts_.releases_dropped.fetch_add(1, std::memory_order_relaxed);
    show_(all_.size());
}

bool pending_releases::keep_refused(reply_handler_ptr owner, lease_clock::time_point since,
                                    lease_clock::time_point now) {
    keep(std::move(owner), since);
    if (retry_at_ > now) return false;
    retry_at_ = now + protocol::refused_release_pause(refusals_++);
    return true;
}

void pending_releases::drop_expired(lease_clock::time_point now) {
    std::erase_if(all_, [&](release const& r) { return gone_by(r) <= now; });
    show_(all_.size());
}

lease_clock::time_point pending_releases::gone_by(release const& r) const {
    auto const ttl = r.owner->arguments(protocol::command::release).ttl;
    return std::max(r.since, session_ended_) + ttl + protocol::redlock_rules::drift(ttl);
}

} // namespace holdfast::redis
