// Text of users and servers, as logs and metrics need it.
#ifndef HOLDFAST_API_LOG_TEXT_HPP
#define HOLDFAST_API_LOG_TEXT_HPP

#include <string>
#include <string_view>

namespace holdfast::detail {

/// The text with U+FFFD in the place of each byte that is not UTF-8, or of a control character
/// beyond ASCII.
std::string valid_utf8(std::string_view);

/// A string of JSON (RFC 8259), with its quotes.
std::string json_string(std::string_view);

/// A value of logfmt: quoted if it must be.
std::string logfmt_value(std::string_view);

} // namespace holdfast::detail

#endif
