// Whether keys last as long as their ttl says. A service may keep times in whole seconds. If it
// cuts them, keys end before their leases.
#ifndef HOLDFAST_REDIS_EXPIRY_CHECK_HPP
#define HOLDFAST_REDIS_EXPIRY_CHECK_HPP

#include <holdfast/clock.hpp>

#include "protocol/messages.hpp"
#include "redis/server/connection_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::redis {

/// Asks the server for the time to live of the first key with a fraction of a second that it sets
/// on a connection. Until that is known, no grant or extension with such a ttl counts: its answer
/// is held.
class expiry_check {
public:
    struct held_grant {
        pending_command command;
        grant_facts granted;
        lease_clock::time_point sent;
    };
    enum class finding : std::uint8_t {
        lasts,   ///< or the server cannot be asked
        cut,     ///< the session is to end
        unclear, ///< the key is gone, or the server does not answer for now
    };

    explicit expiry_check(connection_state& state)
        : state_(state) {}

    /// A new connection.
    void begin() { due_ = true; }
    /// True if the answer yes to the command is to be held.
    bool concerns(protocol::command c) const {
        using protocol::command;
        return due_ && (c == command::acquire || c == command::contend || c == command::heal ||
                        c == command::extend);
    }
    /// False if the ttl has no fraction of a second. If this throws, the answer is not held.
    bool hold(pending_command const&, grant_facts const&, lease_clock::time_point sent);
    void take_part(element const&);
    /// The reply is complete.
    finding evaluate();
    std::string const& problem() const { return problem_; }

    /// After evaluate(), or when no reply comes: the answers that were held.
    std::vector<held_grant> take_held() { return std::exchange(held_, {}); }
    /// The answer about whose key the server was asked.
    std::optional<held_grant> take_asked();
    /// Asks for the next key of the held answers, if there is any.
    void ask_next();
    template <class Visit>
    void visit_held(Visit&& visit) {
        for (auto& h : held_) visit(h.command);
    }

private:
    void ask(held_grant const&);

    connection_state& state_;
    bool due_ = false;
    lease_clock::time_point expires_after_{}; ///< the key is to last until then at least
    std::optional<std::int64_t> ttl_;
    std::vector<held_grant> held_; ///< the first is the one whose key was asked for
    std::string problem_;
};

} // namespace holdfast::redis

#endif
