#include "redis/cluster/slot_redirect.hpp"

#include "redis/wire/slot_text.hpp"

#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::cluster_refusal;
using enum cluster_refusal::kind;

/// Takes the text up to the next space off the beginning.
std::string_view take_word(std::string_view& text) {
    auto const space = text.find(' ');
    auto const word = text.substr(0, space);
    text = space == text.npos ? std::string_view() : text.substr(space + 1);
    return word;
}

/// `rest`: a slot and an address. Servers write an IPv6 address without brackets, so the last colon
/// ends the host. `?` is the host of a node without the name that its operator prefers.
cluster_refusal parse_redirect(cluster_refusal::kind type, std::string_view rest) {
    auto const slot = to_slot(take_word(rest));
    auto const address = take_word(rest);
    auto const colon = address.rfind(':');
    if (!slot || colon == address.npos) return {.type = malformed};
    auto host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    auto const port = to_port(address.substr(colon + 1));
    if (!port || (!host.empty() && !is_host(host))) return {.type = malformed};
    return {.type = type, .slot = *slot, .port = *port, .host = host};
}

} // namespace

std::optional<cluster_refusal> parse_cluster_refusal(std::string_view error) {
    auto const word = take_word(error);
    if (word == "MOVED") return parse_redirect(moved, error);
    if (word == "ASK") return parse_redirect(ask, error);
    if (word == "TRYAGAIN") return cluster_refusal{.type = try_again};
    if (word == "CLUSTERDOWN") return cluster_refusal{.type = cluster_down};
    if (word == "CROSSSLOT") return cluster_refusal{.type = cross_slot};
    return std::nullopt;
}

} // namespace holdfast::redis
