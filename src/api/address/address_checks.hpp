// The rules for the parts of an address, whether a text or a program gave them.
#ifndef HOLDFAST_API_ADDRESS_CHECKS_HPP
#define HOLDFAST_API_ADDRESS_CHECKS_HPP

#include <holdfast/address.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// The parts that a check can name.
enum class address_part : std::uint8_t {
    hosts,
    socket_path,
    database,
    primary_name,
    credentials,
    credentials_source,
    sentinel_credentials,
    tls,
    ca_file,
    ca_directory,
    certificate_file,
    key_file,
    key_password,
    server_name,
    verify_name,
    min_version,
    verify,
    context,
    deployment,
};
inline constexpr auto address_part_count = static_cast<std::size_t>(address_part::deployment) + 1;

struct address_problem {
    address_part part;
    std::size_t host;   ///< the number of the host, if `part` is hosts
    std::string reason; ///< without any value of a part
};

/// Fills in default ports, and writes hosts in their canonical form.
std::optional<address_problem> check(address_parts&);

/// The reason why `name`, which has no colon, cannot be a host. Empty if it can.
std::string_view fault_of_host_name(std::string_view name);

/// Whether a URL shows the character as it is, in each of its parts.
bool is_unreserved(char);

} // namespace holdfast::detail

#endif
