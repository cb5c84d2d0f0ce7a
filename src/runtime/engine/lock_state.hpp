// Makes the states of locks, and of calls on a key.
#ifndef HOLDFAST_RUNTIME_LOCK_STATE_HPP
#define HOLDFAST_RUNTIME_LOCK_STATE_HPP

#include <holdfast/detail/lock_state.hpp>

#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace holdfast::runtime {

/// Makes the object, with room for the key behind it. detail::destroy() destroys both.
template <class State, class... Arguments>
detail::lock_state_ptr make_lock_state(detail::lock_parts parts, Arguments&&... arguments) {
    static_assert(std::is_nothrow_constructible_v<State, detail::lock_parts, Arguments...>);
    static_assert(sizeof(State) <= std::numeric_limits<std::uint8_t>::max());
    auto const size = sizeof(State) + parts.prefix.size() + parts.key.size();
    return ::new (::operator new(size))
        State(std::move(parts), std::forward<Arguments>(arguments)...);
}

} // namespace holdfast::runtime

#endif
