// The phases of a tenure: see the diagram in tenure.hpp.
#ifndef HOLDFAST_PROTOCOL_TENURE_PHASE_HPP
#define HOLDFAST_PROTOCOL_TENURE_PHASE_HPP

#include <cstdint>

namespace holdfast::protocol {

enum class tenure_phase : std::uint8_t {
    acquiring,
    held,
    /// The holder has been told of its loss, ahead of the deadline. The key is not free before the
    /// deadline.
    ending,
    releasing,
    over
};

} // namespace holdfast::protocol

#endif
