// The characters of a URL, as RFC 3986 has them.
#ifndef HOLDFAST_API_URL_HPP
#define HOLDFAST_API_URL_HPP

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// The index of the first character that neither a user, a password, a path nor options can have as
/// it is. For a % without its two hexadecimal digits that is the index of the %. npos if there is
/// none.
std::size_t find_url_fault(std::string_view text);
/// The same for the number of an address of IPv6, without brackets and zone. Not every number
/// without such a fault is an address.
std::size_t find_v6_fault(std::string_view number);

/// Two hexadecimal digits follow each %.
std::string percent_decoded(std::string_view text);
/// Unreserved characters as they are, and those in `also`. The others as %XX.
std::string percent_encoded(std::string_view text, std::string_view also = {});

} // namespace holdfast::detail

#endif
