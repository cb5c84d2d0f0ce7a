// The answers of the instances to the last round for a key. They are kept for reports.
#ifndef HOLDFAST_RUNTIME_ROUND_RECORD_HPP
#define HOLDFAST_RUNTIME_ROUND_RECORD_HPP

#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure/tally.hpp"
#include "redis/wire/reply_handler.hpp"

#include <chrono>
#include <cstdint>
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
    std::uint8_t obstacle = 0; ///< the key of several that is held, counted from 1
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

    /// `count`: the number of configured instances.
    vote_record& record(unsigned instance, unsigned count) {
        if (instances.size() < count) instances.resize(count);
        return instances[instance];
    }
    /// Notes the answer of an instance that took so long and did not grant.
    void note(unsigned instance, unsigned count, redis::answer const& a,
              std::chrono::nanoseconds took) {
        auto& vote = record(instance, count);
        vote.noted = true;
        using protocol::verdict;
        vote.held =
            a.verdict == verdict::no || a.verdict == verdict::other || a.verdict == verdict::rival;
        vote.cause = a.cause;
        vote.ttl_known = a.ttl_known;
        vote.ttl_left = a.ttl_left;
        vote.obstacle = a.obstacle;
        if (a.verdict == protocol::verdict::no || a.verdict == protocol::verdict::refused) {
            vote.round_trip = took;
        }
        vote.message = a.message;
    }
    bool empty() const { return votes.quorum() == 0 && instances.empty() && wrong_types == 0; }
    vote_record const& of(unsigned instance) const {
        static vote_record const nothing;
        return instance < instances.size() ? instances[instance] : nothing;
    }
};

} // namespace holdfast::runtime

#endif
