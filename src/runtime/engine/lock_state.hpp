// Makes the states of locks.
#ifndef HOLDFAST_RUNTIME_LOCK_STATE_HPP
#define HOLDFAST_RUNTIME_LOCK_STATE_HPP

#include <holdfast/detail/lock_state.hpp>

namespace holdfast::runtime {

/// Makes the object, with room for the key behind it. detail::destroy() destroys both.
detail::lock_state_ptr make_lock_state(detail::lock_parts);

} // namespace holdfast::runtime

#endif
