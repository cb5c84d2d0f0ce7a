// Numbers as the scripts of a server know them: all are doubles, and texts become numbers where a
// script compares them. Regardless of the locale of the process.
#ifndef HOLDFAST_TESTING_LUA_NUMBER_HPP
#define HOLDFAST_TESTING_LUA_NUMBER_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::testing {

/// As tonumber(): a decimal or a hexadecimal number, with blanks around it. Empty for nil.
std::optional<double> to_number(std::string_view text);
/// As tostring().
std::string to_text(double);
/// As a server writes a number that a script gives to a command.
std::string to_argument(double);
/// As a server returns a number: without its fraction.
std::int64_t to_reply(double);

} // namespace holdfast::testing

#endif
