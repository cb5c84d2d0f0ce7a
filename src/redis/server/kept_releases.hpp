// The releases that a connection could not send, or that the server refused for now.
#ifndef HOLDFAST_REDIS_KEPT_RELEASES_HPP
#define HOLDFAST_REDIS_KEPT_RELEASES_HPP

#include <holdfast/clock.hpp>

#include "redis/server/connection_state.hpp"
#include "redis/server/pending_releases.hpp"

#include <cstddef>
#include <utility>

namespace holdfast::redis {

/// Sends them when the server can be asked again. The status shows how many there are.
class kept_releases {
public:
    explicit kept_releases(connection_state& state)
        : state_(state)
        , all_(state.options.max_pending_releases) {}

    std::size_t size() const { return all_.size(); }
    /// When refused releases are tried again.
    lease_clock::time_point retry_at() const { return retry_at_; }

    void keep(reply_handler_ptr owner) { keep(std::move(owner), state_.now()); }
    /// `since`: the key got its ttl before that time.
    void keep(reply_handler_ptr, lease_clock::time_point since);
    /// The server may accept the release a moment later: it may lack a replica or memory, or load
    /// its data.
    void keep_refused(pending_command const&);
    /// The server has carried out a release.
    void accepted() { refusals_ = 0; }

    void session_ended() { all_.session_ended(state_.now()); }
    /// Drops the releases of keys that have expired.
    void drop_expired();
    /// Adds all of them to the batch of this turn. If memory runs out, the next turn sends the
    /// rest.
    void send() noexcept;
    /// If it is time for them.
    void send_due();

    /// Takes out all of them, and calls `take(reply_handler_ptr, since)` for each.
    template <class Take>
    void take(Take&& take) {
        all_.take(take);
        state_.status.set_kept_releases(0);
    }
    void clear() noexcept { all_.clear(); }

private:
    connection_state& state_;
    pending_releases all_;
    lease_clock::time_point retry_at_{};
    unsigned refusals_ = 0; ///< in a row
};

} // namespace holdfast::redis

#endif
