// The text of an address. uriparser splits and checks it as RFC 3986 has it. That standard knows
// one host, so the other hosts are cut out first.
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
