// The commands on keys: those that the library sends, and those that its scripts call.
#ifndef HOLDFAST_TESTING_DATA_COMMANDS_HPP
#define HOLDFAST_TESTING_DATA_COMMANDS_HPP

#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/reply.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::testing {

struct data_command {
    std::string_view name; ///< in lower case
    /// The number of words, with the name. Negative: at least so many.
    int words;
    reply (*run)(database&, command_line const&);
    /// Reads the key in the second word, and changes nothing, so that a client may track that key.
    bool reads = false;
};

/// Null: there is no such command. The case of the name does not matter.
data_command const* find_data_command(std::string_view name);

/// Runs a command on keys. Empty: there is none of this name.
std::optional<reply> run_data_command(database&, command_line const&);

/// Whether a command of `given` words fits `words`, as data_command::words.
constexpr bool has_arity(std::size_t given, int words) {
    return words < 0 ? given >= static_cast<std::size_t>(-words)
                     : given == static_cast<std::size_t>(words);
}

reply wrong_arity(std::string_view name);
reply not_an_integer();

/// The text as a server reads an integer: no sign but a minus, no zeros before it.
std::optional<std::int64_t> to_integer(std::string_view text);
std::string lower(std::string_view text);

} // namespace holdfast::testing

#endif
