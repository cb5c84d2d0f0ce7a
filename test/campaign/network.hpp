// What a client process of a campaign sees of the network. Faults on the lines need a proxy between
// each client and each server, but a client learns most addresses from a sentinel or a Cluster
// node, which name the server itself. Therefore the process replaces connect(), which leads to the
// proxies, and getaddrinfo(), which finds the names of servers. Servers need no other
// configuration.
#ifndef HOLDFAST_TEST_CAMPAIGN_NETWORK_HPP
#define HOLDFAST_TEST_CAMPAIGN_NETWORK_HPP

#include <string>
#include <string_view>

namespace holdfast::campaign {

/// Instead of an address, after a name: DNS does not know it, or does not answer.
inline constexpr std::string_view unknown_name = "unknown", silent_name = "silent";

/// From now on this process looks into two files of lines for each connection and look-up.
///
/// `routes`: `ADDRESS PORT PROXY`: connections go to the port PROXY of 127.0.0.1 instead.
/// `names`: a name and its addresses, or a word from above.
///
/// What the files do not name stays as it is.
void use_network(std::string routes, std::string names);

} // namespace holdfast::campaign

#endif
