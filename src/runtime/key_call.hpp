// The arguments of calls on a key that are more than the key. They travel in the place of the
// lock's state, so that a call without them costs nothing more.
#ifndef HOLDFAST_RUNTIME_KEY_CALL_HPP
#define HOLDFAST_RUNTIME_KEY_CALL_HPP

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease_token.hpp>

#include <string>

namespace holdfast::runtime {

/// wait_change, and force_release of a lock that was seen.
struct watch_call : detail::lock_state {
    key_report last;
};

struct release_call : detail::lock_state {
    std::string token;
};

/// `adopted` points to its token.
struct adopt_call : detail::lock_state {
    lease_token token;
};

} // namespace holdfast::runtime

#endif
