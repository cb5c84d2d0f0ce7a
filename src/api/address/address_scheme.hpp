// The schemes of addresses, and a text of an address without its secrets.
#ifndef HOLDFAST_API_ADDRESS_SCHEME_HPP
#define HOLDFAST_API_ADDRESS_SCHEME_HPP

#include <holdfast/address.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::detail {

struct address_scheme {
    std::string_view name;
    holdfast::deployment deployment;
    bool tls = false;
    bool socket = false;
};

/// Null if there is none. Upper and lower case are alike.
address_scheme const* find_scheme(std::string_view name);

/// Of a server, a sentinel or a Cluster, with or without TLS.
address_scheme const& scheme_of(address_parts const&);

/// The names of the schemes, without those that other libraries use.
std::string scheme_names();

/// True for the form unix:/path, which is not decoded.
bool is_plain_path(std::string_view text);

/// The index of the :// behind a scheme. npos without a scheme.
std::size_t end_of_scheme(std::string_view text);

/// The text without all that may be a secret: the text before an @, the values of options, an
/// authority with an encoded ':' or '@', and a port that is no number of up to 5 digits, which may
/// be a password without a host.
std::string masked(std::string_view text);

} // namespace holdfast::detail

#endif
