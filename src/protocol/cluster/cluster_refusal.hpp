// The errors by which a node of a Cluster refuses a command that it did not execute.
#ifndef HOLDFAST_PROTOCOL_CLUSTER_REFUSAL_HPP
#define HOLDFAST_PROTOCOL_CLUSTER_REFUSAL_HPP

#include <cstdint>
#include <string_view>

namespace holdfast::protocol {

/// All kinds are certain: the node executed nothing.
struct cluster_refusal {
    enum class kind : std::uint8_t {
        moved,        ///< another node owns the slot
        ask,          ///< the slot migrates, and the key is not at this node: ask the target once
        try_again,    ///< the slot migrates, and the keys of the command are not at one node
        cluster_down, ///< no node serves the slot now
        cross_slot,   ///< the keys have different slots: a fault of this library
        malformed,    ///< MOVED or ASK without a usable slot or address
    };

    kind type{};
    unsigned slot = 0;      ///< moved, ask
    std::uint16_t port = 0; ///< moved, ask
    /// moved, ask: a view into the error. Empty for the host of the node that answered.
    std::string_view host{};

    bool redirects() const { return type == kind::moved || type == kind::ask; }
    friend bool operator==(cluster_refusal const&, cluster_refusal const&) = default;
};

} // namespace holdfast::protocol

#endif
