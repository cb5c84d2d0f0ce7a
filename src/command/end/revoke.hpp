// holdfast revoke: takes a lock from its holder, and keeps it closed until the holder's deadline.
#ifndef HOLDFAST_COMMAND_REVOKE_HPP
#define HOLDFAST_COMMAND_REVOKE_HPP

#include "command/settings.hpp"

#include <optional>
#include <string>

namespace holdfast::command {

/// A revocation is for one key: a person looks at each.
struct revoke_settings : settings {
    std::string key;
    std::string reader;           ///< a digest; empty: the holder, or all readers or permits
    std::optional<unsigned> slot; ///< of one permit
    bool confirmed = false;
};

/// Returns the exit code.
int revoke(revoke_settings const&);

} // namespace holdfast::command

#endif
