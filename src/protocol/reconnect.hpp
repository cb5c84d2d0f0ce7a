// The pauses before new connections to an instance.
#ifndef HOLDFAST_PROTOCOL_RECONNECT_HPP
#define HOLDFAST_PROTOCOL_RECONNECT_HPP

#include "protocol/backoff.hpp"
#include "protocol/time.hpp"

#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct reconnect_rules {
    static constexpr bool came_to_something(duration up_for, duration longest) {
        return up_for >= longest;
    }
};

/// The pauses grow until a connection has been up for at least the longest pause. So the client
/// does not connect again at once for ever to an instance that accepts, answers the probe and
/// closes.
template <class Rules>
class basic_reconnect_policy {
public:
    static constexpr duration first_pause = std::chrono::milliseconds(20);

    explicit basic_reconnect_policy(duration longest)
        : longest_(longest) {}

    /// A connection has ended. `up_for`: the time since its probe was answered; zero if the probe
    /// was not answered.
    void ended(duration up_for) {
        if (Rules::came_to_something(up_for, longest_)) failures_ = 0;
    }

    /// The pause before the next connection, from 64 random bits.
    duration next(std::uint64_t random) {
        auto const pause = full_jitter(first_pause, longest_, failures_, random);
        // After this many failures the longest pause is reached with any options.
        constexpr unsigned most = 32;
        if (failures_ < most) ++failures_;
        return pause;
    }

private:
    duration longest_;
    unsigned failures_ = 0; ///< in a row
};

using reconnect_policy = basic_reconnect_policy<reconnect_rules>;

} // namespace holdfast::protocol

#endif
