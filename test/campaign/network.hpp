// What a client process of a campaign sees of the network. Its connections go to proxies of its
// own, and names of servers lead where the campaign says. So lines lie before any server, also one
// whose address is told by a sentinel or a node of a Cluster, and no server knows of them.
#ifndef HOLDFAST_TEST_CAMPAIGN_NETWORK_HPP
#define HOLDFAST_TEST_CAMPAIGN_NETWORK_HPP

#include <string>
#include <string_view>

namespace holdfast::campaign {

/// In place of an address, after a name: DNS does not know it, or does not answer.
inline constexpr std::string_view unknown_name = "unknown", silent_name = "silent";

/// From now on this process looks into two files of lines for each connection and look-up.
///
/// `routes`: `ADDRESS PORT PROXY`: connections go to the port PROXY of 127.0.0.1 instead.
/// `names`: a name and its addresses, or a word from above.
///
/// What is not there is as ever.
void use_network(std::string routes, std::string names);

} // namespace holdfast::campaign

#endif
