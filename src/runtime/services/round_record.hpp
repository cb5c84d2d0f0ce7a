// The answers of the instances to the last round for a key. They are kept for reports.
#ifndef HOLDFAST_RUNTIME_ROUND_RECORD_HPP
#define HOLDFAST_RUNTIME_ROUND_RECORD_HPP

#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure/tally.hpp"
#include "redis/wire/reply_handler.hpp"

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
    protocol::instance_set inspected;   ///< instances that were asked for that

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
    /// Notes the answer of an instance that took so long and did not grant. The message may be
    /// lost if memory runs out.
    void note(unsigned instance, unsigned count, redis::answer const& a,
              std::chrono::nanoseconds took) noexcept {
        auto* const vote = record(instance, count);
        if (vote == nullptr) return;
        vote->noted = true;
        vote->held = a.verdict == protocol::verdict::no;
        vote->cause = a.cause;
        vote->ttl_known = a.ttl_known;
        vote->ttl_left = a.ttl_left;
        if (a.verdict == protocol::verdict::no || a.verdict == protocol::verdict::refused) {
            vote->round_trip = took;
        }
        try {
            vote->message = a.message;
        } catch (std::bad_alloc const&) {
            vote->message.clear();
        }
    }
    bool empty() const { return votes.quorum() == 0 && instances.empty() && wrong_types == 0; }
    vote_record const& of(unsigned instance) const {
        static vote_record const nothing;
        return instance < instances.size() ? instances[instance] : nothing;
    }
};

} // namespace holdfast::runtime

#endif
