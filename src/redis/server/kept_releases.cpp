#include "redis/server/kept_releases.hpp"

#include "protocol/rules.hpp"

#include <atomic>
#include <utility>

namespace holdfast::redis {

void kept_releases::keep(reply_handler_ptr owner, lease_clock::time_point since) {
    if (state_.stopped) return;
    if (!all_.keep(std::move(owner), since)) {
        state_.counts.releases_dropped.fetch_add(1, std::memory_order_relaxed);
    }
    state_.status.set_kept_releases(all_.size());
}

void kept_releases::keep_refused(pending_command const& c) {
    auto const now = state_.now();
    keep(c.owner, c.answered ? time_of(c.round, now) : now);
    if (retry_at_ > now) return;
    retry_at_ = now + protocol::refused_release_pause(refusals_++);
    state_.needs_watch = true;
}

void kept_releases::drop_expired() {
    all_.drop_expired(state_.now());
    state_.status.set_kept_releases(all_.size());
}

void kept_releases::send() noexcept try {
    all_.take([&](reply_handler_ptr owner, lease_clock::time_point since) {
        // The owner got its answer when the release was kept. So `round` is free for the time.
        state_.commands.add_late({.owner = std::move(owner),
                                  .round = short_time(since),
                                  .command = protocol::command::release,
                                  .answered = true});
    });
    state_.status.set_kept_releases(0);
} catch (...) {
    state_.status.set_kept_releases(all_.size());
}

void kept_releases::send_due() {
    if (all_.size() == 0 || state_.now() < retry_at_) return;
    drop_expired();
    send();
}

} // namespace holdfast::redis
