// holdfast release: ends a lock that its holder does not end.
#ifndef HOLDFAST_COMMAND_RELEASE_HPP
#define HOLDFAST_COMMAND_RELEASE_HPP

#include "command/keys.hpp"
#include "command/lock/token_input.hpp"

namespace holdfast::command {

struct release_settings : key_settings {
    token_input token; ///< not with `force`
    bool force = false;
    bool confirmed = false; ///< asks nothing
};

/// Returns the exit code.
int release(release_settings const&);

} // namespace holdfast::command

#endif
