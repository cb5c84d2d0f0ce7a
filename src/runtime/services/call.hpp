// The calls of users. For each there is a struct: its handler, its arguments, and what the part of
// the engine that serves it notes in it.
#ifndef HOLDFAST_RUNTIME_CALL_HPP
#define HOLDFAST_RUNTIME_CALL_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_token.hpp>
#include <holdfast/wait_limit.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace holdfast::redis {
class reply_handler;
}

namespace holdfast::runtime {

class active_queue;
class lease_record;

/// The function of a holder that decides whether its lease is renewed. Also the node of a list, so
/// that lease_keeper::retire() needs no memory.
struct renewal_condition {
    std::function<bool()> holds;
    std::unique_ptr<renewal_condition> next{};
};
using renewal_condition_ptr = std::unique_ptr<renewal_condition>;

/// What few acquires have, so it is no part of them.
struct acquire_extras {
    acquire_extras() = default;
    virtual ~acquire_extras() = default;
    acquire_extras(acquire_extras const&) = delete;
    acquire_extras& operator=(acquire_extras const&) = delete;

    /// Of a lease that another client has acquired.
    std::unique_ptr<lease_token const> adopted{};
    class acquire_owner* owner = nullptr;
};

/// A part of the engine that acquires a key for itself. It gets the result in place of a handler.
/// The operation is its own, and free again.
class acquire_owner {
public:
    /// `lease` is empty if there is an error.
    virtual void on_acquired(errc, detail::lease_ref lease) noexcept = 0;

protected:
    ~acquire_owner() = default;
};

struct acquire_call {
    /// Zero or less: it does not wait for a holder.
    std::chrono::nanoseconds limit() const { return time; }
    bool needs_timer() const { return time.count() > 0 && time != no_limit.time; }
    void start_at(lease_clock::time_point now) { time = now.time_since_epoch(); }
    lease_clock::time_point started() const { return lease_clock::time_point(time); }
    lease_token const* adopted() const { return extras ? extras->adopted.get() : nullptr; }

    detail::acquire_handler handler{};
    detail::lock_state_ptr lock{};
    std::chrono::nanoseconds time{}; ///< the limit until it starts, and then the time of the start
    std::unique_ptr<acquire_extras> extras{};
    /// Null while it waits in the line of its key: protocol/waiting/key_line.hpp.
    active_queue* queue = nullptr;
    unsigned tenures_before = 0; ///< count of the queue when it was joined
    unsigned tries_before = 0;   ///< likewise
};

struct release_call {
    detail::release_handler handler{};
    detail::lease_ref lease{};
};

struct extend_call {
    static constexpr bool ends_when_cancelled = true;

    detail::error_handler handler{};
    detail::lease_ref lease{};
    std::optional<std::chrono::nanoseconds> ttl{};
    bool downgrades = false; ///< the lease is a reader's from now on
};

struct wait_end_call {
    static constexpr bool ends_when_cancelled = true;

    bool needs_timer() const { return ahead.count() > 0; }

    detail::end_handler handler{};
    detail::lease_ref lease{}; ///< until it starts
    std::chrono::nanoseconds ahead{};
    lease_record* record = nullptr;
};

struct renew_call {
    detail::lease_ref lease{};
    renewal_condition_ptr condition{};
};

struct detach_call {
    detail::lease_ref lease{};
};

struct ready_call {
    static constexpr bool ends_when_cancelled = true;

    bool needs_timer() const { return limit.time.count() > 0 && limit.time != no_limit.time; }

    detail::error_handler handler{};
    wait_limit limit{};
};

struct shutdown_call {
    detail::error_handler handler{};
};

struct drain_call {
    static constexpr bool ends_when_cancelled = true;

    detail::error_handler handler{};
    std::chrono::nanoseconds limit{};
};

//
// On a key that is not its lock's
//

struct inspect_call {
    static constexpr bool ends_when_cancelled = true;

    detail::inspect_handler handler{};
    detail::lock_state_ptr key{};
    redis::reply_handler* question = nullptr;
};

struct wait_change_call {
    static constexpr bool ends_when_cancelled = true;

    detail::inspect_handler handler{};
    detail::lock_state_ptr key{};
    std::shared_ptr<key_report const> last{};
    redis::reply_handler* watch = nullptr;
    std::uint32_t round = 0; ///< the first round of the watch that concerns it
};

struct release_key_call {
    detail::error_handler handler{};
    detail::lock_state_ptr key{};
    std::string token{};
};

struct force_release_call {
    static constexpr bool ends_when_cancelled = true;

    detail::inspect_handler handler{};
    detail::lock_state_ptr key{};
    std::shared_ptr<key_report const> seen{}; ///< if there is one, only its tokens are deleted
    redis::reply_handler* job = nullptr;
};

struct revoke_call {
    static constexpr bool ends_when_cancelled = true;

    detail::inspect_handler handler{};
    detail::lock_state_ptr key{};
    std::vector<std::string> digests{}; ///< of the holders' tokens
    redis::reply_handler* job = nullptr;
};

class list_job;

struct list_call {
    static constexpr bool ends_when_cancelled = true;

    static constexpr bool needs_timer() { return true; }

    detail::list_handler handler{};
    /// The call alone owns it: the answers that come after the call are dropped.
    std::shared_ptr<list_job> job{};
};

//
// Ended, until the handler is called in place
//

struct ended_acquire {
    detail::acquire_handler handler{};
    detail::lease_ref lease{};
    errc result{};
};

struct ended_release {
    detail::release_handler handler{};
};

/// std::monostate: of an operation that is not in use.
using any_call =
    std::variant<std::monostate, acquire_call, release_call, extend_call, wait_end_call, renew_call,
                 detach_call, ready_call, shutdown_call, drain_call, inspect_call, wait_change_call,
                 release_key_call, force_release_call, revoke_call, list_call, ended_acquire,
                 ended_release>;
static_assert(std::is_nothrow_move_constructible_v<any_call> &&
              std::is_nothrow_move_assignable_v<any_call>);

template <class Call>
concept call_with_handler = requires(Call& c) {
    c.handler;
};
template <class Call, class Handler>
concept call_with = requires(Call& c) {
    { c.handler } -> std::same_as<Handler&>;
};
template <class Call>
concept call_on_key = requires(Call& c) {
    c.key;
};
/// A cancellation ends it at any time, and has no other effect.
template <class Call>
concept call_that_ends_when_cancelled = requires {
    Call::ends_when_cancelled;
};

} // namespace holdfast::runtime

#endif
