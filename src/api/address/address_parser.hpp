// The text of an address: a URL as RFC 3986 has it, but with several hosts.
#ifndef HOLDFAST_API_ADDRESS_PARSER_HPP
#define HOLDFAST_API_ADDRESS_PARSER_HPP

#include <holdfast/address.hpp>

#include <string_view>

namespace holdfast::detail {

/// The parts are checked.
/// @throws system_error  errc::invalid_address; what() shows no user, no password and no option.
address_parts parse_address(std::string_view text);

} // namespace holdfast::detail

#endif
