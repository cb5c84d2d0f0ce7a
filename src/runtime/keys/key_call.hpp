// Calls on a key that have more arguments than the key. The arguments travel in the place of the
// lock's state, so that a call without them costs nothing more.
#ifndef HOLDFAST_RUNTIME_KEY_CALL_HPP
#define HOLDFAST_RUNTIME_KEY_CALL_HPP

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease_token.hpp>

#include <string>
#include <utility>

namespace holdfast::runtime {

/// wait_change, and force_release of a lock that was seen.
struct watch_call final : detail::lock_state {
    watch_call(detail::lock_parts&& parts, key_report&& seen) noexcept
        : lock_state(std::move(parts), detail::lock_state_kind::watch_call, sizeof(watch_call))
        , last(std::move(seen)) {}

    key_report const last;
};

struct release_call final : detail::lock_state {
    release_call(detail::lock_parts&& parts, std::string&& of_holder) noexcept
        : lock_state(std::move(parts), detail::lock_state_kind::release_call, sizeof(release_call))
        , token(std::move(of_holder)) {}

    std::string const token;
};

struct adopt_call final : detail::lock_state {
    adopt_call(detail::lock_parts&& parts, lease_token&& of_holder) noexcept
        : lock_state(std::move(parts), detail::lock_state_kind::adopt_call, sizeof(adopt_call))
        , token(std::move(of_holder)) {}

    lease_token const token;
};

} // namespace holdfast::runtime

#endif
