// The search for keys by a pattern: SCAN.
#ifndef HOLDFAST_TESTING_KEY_SEARCH_HPP
#define HOLDFAST_TESTING_KEY_SEARCH_HPP

#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/reply.hpp"

#include <string_view>

namespace holdfast::testing {

/// Whether the whole text matches: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that
/// stands for itself.
bool matches(std::string_view pattern, std::string_view text);

reply scan(database&, command_line const&);

} // namespace holdfast::testing

#endif
