// The owners of a Cluster's hash slots: for each slot the primary that votes for its keys.
#ifndef HOLDFAST_PROTOCOL_SLOT_MAP_HPP
#define HOLDFAST_PROTOCOL_SLOT_MAP_HPP

#include "protocol/cluster/hash_slot.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::protocol {

/// A node as a map or a redirect names it.
struct node_address {
    std::string id; ///< empty for a node that is known from a redirect only
    std::string host;
    std::uint16_t port = 0;
    /// The name that the node announces. Empty if there is none. A certificate is checked against
    /// this name.
    std::string hostname{};

    bool is_at(std::string_view of_host, std::uint16_t of_port) const {
        return port == of_port && host == of_host;
    }
    friend bool operator==(node_address const&, node_address const&) = default;
};

class slot_map {
public:
    using index = std::uint16_t;
    static constexpr index none = 0xFFFF;

    slot_map() { owners_.fill(none); }

    std::vector<node_address> const& nodes() const { return nodes_; }
    /// The index of the node that owns the slot; `none` if no node serves the slot.
    index owner(unsigned slot) const { return owners_[slot]; }
    /// The number of slots without an owner.
    std::size_t unserved() const { return unserved_; }

    /// Each slot has at most one owner. So there are never more nodes than slots, but for those
    /// that redirects add.
    index add(node_address node) {
        nodes_.push_back(std::move(node));
        return static_cast<index>(nodes_.size() - 1);
    }
    void assign(unsigned slot, index node) {
        if (owners_[slot] == none) --unserved_;
        owners_[slot] = node;
    }

    /// A node said that the node at this address owns the slot. Returns the index of the owner. If
    /// redirects have named `most_nodes` nodes in vain, returns `none` and changes nothing.
    index moved(unsigned slot, std::string_view host, std::uint16_t port) {
        index to = 0;
        while (to < nodes_.size() && !nodes_[to].is_at(host, port)) ++to;
        if (to == nodes_.size()) {
            if (nodes_.size() == most_nodes) return none;
            to = add({.id = {}, .host = std::string(host), .port = port});
        }
        assign(slot, to);
        return to;
    }

    /// Enough for a Cluster in which each slot has a primary of its own.
    static constexpr std::size_t most_nodes = hash_slots;

private:
    std::array<index, hash_slots> owners_;
    std::vector<node_address> nodes_;
    std::size_t unserved_ = hash_slots;
};

static_assert(sizeof(slot_map) < 33 * 1024);

} // namespace holdfast::protocol

#endif
