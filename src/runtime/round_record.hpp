// The answers of the instances to the last round for a key. They are kept for reports.
#ifndef HOLDFAST_RUNTIME_ROUND_RECORD_HPP
#define HOLDFAST_RUNTIME_ROUND_RECORD_HPP

#include <holdfast/error.hpp>

#include "protocol/tally.hpp"

#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::runtime {

/// The answer of an instance that did not grant.
struct vote_record {
    errc cause{}; ///< why the instance did not vote, if it did not
    bool noted = false;
    bool held = false; ///< the instance has the key of another client
    bool ttl_known = false;
    std::optional<std::chrono::milliseconds> ttl_left;
    std::chrono::nanoseconds round_trip{0};
    std::string message;
    std::string holder;
};

struct round_record {
    protocol::tally votes;              ///< of the last round to all instances
    std::vector<vote_record> instances; ///< empty until an instance does not grant
    unsigned wrong_types = 0;           ///< instances at which the key is no lock

    /// `count`: the number of configured instances. Returns null if memory ran out.
    vote_record* record(unsigned instance, unsigned count) noexcept {
        if (instances.size() < count) {
            try {
                instances.resize(count);
            } catch (std::bad_alloc const&) {
                return nullptr;
            }
        }
        return &instances[instance];
    }
    vote_record const& of(unsigned instance) const {
        static vote_record const nothing;
        return instance < instances.size() ? instances[instance] : nothing;
    }
};

} // namespace holdfast::runtime

#endif
