#include "redis/cluster/cluster_identity.hpp"

#include <algorithm>
#include <cstddef>

namespace holdfast::redis {

namespace {

constexpr std::size_t id_size = 40;

bool is_id(std::string_view text) {
    return text.size() == id_size && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

std::string_view take_until(std::string_view& text, char end) {
    auto const at = text.find(end);
    auto const taken = text.substr(0, at);
    text = at == text.npos ? std::string_view() : text.substr(at + 1);
    return taken;
}

/// Calls `visit` with the id of each node.
template <class Visit>
void for_each_id(std::string_view nodes, Visit&& visit) {
    // <id> <address> <flags> ..
    while (!nodes.empty()) {
        auto line = take_until(nodes, '\n');
        auto const id = take_until(line, ' ');
        if (!is_id(id)) continue;
        take_until(line, ' ');
        auto const flags = take_until(line, ' ');
        if (flags.empty() || flags.find("handshake") != flags.npos) continue;
        visit(id);
    }
}

} // namespace

std::string_view cluster_identity(std::string_view nodes) {
    std::string_view smallest;
    for_each_id(nodes, [&](std::string_view id) {
        if (smallest.empty() || id < smallest) smallest = id;
    });
    return smallest;
}

std::vector<std::string> cluster_members(std::string_view nodes) {
    std::vector<std::string> all;
    for_each_id(nodes, [&](std::string_view id) { all.emplace_back(id); });
    std::ranges::sort(all);
    return all;
}

} // namespace holdfast::redis
