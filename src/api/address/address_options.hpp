// The options of an address: what stands behind the ? of its text.
#ifndef HOLDFAST_API_ADDRESS_OPTIONS_HPP
#define HOLDFAST_API_ADDRESS_OPTIONS_HPP

#include <holdfast/address.hpp>

#include "api/address/address_checks.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::detail {

enum class option_scope : std::uint8_t {
    servers,  ///< not for a Cluster
    tls,      ///< only with TLS
    sentinel, ///< only for a sentinel
};

struct address_option {
    std::string_view name;
    option_scope scope;
    address_part part;
    /// The reason why the value is refused; null if it is taken.
    char const* (*set)(address_parts&, std::string value);
};

/// Null if there is none.
address_option const* find_option(std::string_view name);

/// The option with a name like this. Null if none is near.
address_option const* nearest_option(std::string_view name);

/// The names of all options, with commas between them.
std::string option_names();

/// The reason why an address of this kind does not take the option. Empty if it does.
std::string misplaced(address_option const&, address_parts const&);

/// Whether `text` is a number, and nothing else.
bool parse_number(std::string_view text, unsigned& number);

} // namespace holdfast::detail

#endif
