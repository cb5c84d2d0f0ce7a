// One operation as the wire sees it: what its commands are about, and who wants the answers.
#ifndef HOLDFAST_REDIS_REPLY_HANDLER_HPP
#define HOLDFAST_REDIS_REPLY_HANDLER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::redis {

struct command_args {
    std::string_view key, token;
    std::chrono::milliseconds ttl{0};
    /// How long an instance keeps its count of the key's tenures; zero where they have no fences.
    std::chrono::milliseconds fence_ttl{0};
    std::uint64_t number = 0; ///< that the instance is to count to, or to have as a hint

    bool fenced() const { return fence_ttl.count() != 0; }
};

struct answer {
    protocol::verdict verdict = protocol::verdict::unknown;
    errc why{}; ///< where the verdict is unsent, unknown or refused
    std::string_view
        message{}; ///< the server's own, or why there is no connection; valid during the call
    /// contend, inspect, watch: the key's time to live, where it is known; empty for a key that
    /// never expires.
    bool ttl_known = false;
    std::optional<std::chrono::milliseconds> ttl_left{};
    bool told = false;         ///< contend, watch: a push will come when the key changes
    std::uint64_t number = 0;  ///< a grant with a fence: what the instance has counted to
    std::string_view holder{}; ///< inspect: the holder's label, valid during the call
};

class reply_handler {
public:
    reply_handler() = default;
    reply_handler(reply_handler const&) = delete;
    reply_handler& operator=(reply_handler const&) = delete;

    virtual command_args about(protocol::command) const noexcept = 0;
    /// Whether a command that sets the key is still to be carried out by a server that did not know
    /// its script.
    virtual bool still_wants(protocol::command) const noexcept = 0;
    /// Exactly once for each command submitted. `round` is what was given with it.
    virtual void on_answer(unsigned instance, protocol::command, std::uint32_t round,
                           answer const&) = 0;

protected:
    ~reply_handler() = default;

private:
    /// Nobody refers to it any more.
    virtual void recycle() noexcept = 0;

    // Counted on the client's executor alone, so no atomics.
    friend void intrusive_ptr_add_ref(reply_handler* e) noexcept { ++e->references_; }
    friend void intrusive_ptr_release(reply_handler* e) noexcept {
        if (--e->references_ == 0) e->recycle();
    }
    std::uint32_t references_ = 0;
};

using reply_handler_ptr = boost::intrusive_ptr<reply_handler>;

} // namespace holdfast::redis

#endif
