// The scripts of the library, in C++. An instance knows a script by its text, or by the SHA-1 of
// that, as a server does; the texts are those of redis/wire/kinds/lock_scripts.hpp,
// permit_scripts.hpp and read_write_scripts.hpp. A differential test runs each of them here and on
// real servers.
#ifndef HOLDFAST_TESTING_NATIVE_SCRIPTS_HPP
#define HOLDFAST_TESTING_NATIVE_SCRIPTS_HPP

#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/reply.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::testing {

class script_run;

struct native_script {
    std::string_view text;
    std::string digest; ///< SHA-1, in lower case
    /// How many it takes. If it is `for_any_number`, a multiple of `keys`, and at least
    /// `arguments`.
    std::size_t keys, arguments;
    reply (*body)(script_run&);
    bool for_any_number = false;
};

std::span<native_script const> native_scripts();

/// Runs the script with these keys and arguments. Writes before an error stay, as on a server.
/// `on_read` is called with each key that the script reads.
reply run(native_script const&, database&, command_line keys, command_line arguments,
          std::function<void(std::string const&)> on_read);

} // namespace holdfast::testing

#endif
