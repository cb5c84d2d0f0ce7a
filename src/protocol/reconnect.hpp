// How long to wait before the next connection to an instance.
#ifndef HOLDFAST_PROTOCOL_RECONNECT_HPP
#define HOLDFAST_PROTOCOL_RECONNECT_HPP

#include "protocol/backoff.hpp"
#include "protocol/time.hpp"

#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// Pauses grow with each connection that came to nothing. One that was up for at least the longest pause has come to
/// something: an instance that accepts, answers the probe and closes is not asked again at once for ever.
class reconnect_policy {
public:
    static constexpr duration first_pause = std::chrono::milliseconds(20);

    explicit reconnect_policy(duration longest)
        : longest_(longest) {}

    /// A connection has ended, `up_for` after its probe was answered; zero if that never was.
    void ended(duration up_for) {
        if (up_for >= longest_) failures_ = 0;
    }

    /// The pause before the next one, from 64 random bits.
    duration next(std::uint64_t random) {
        auto const pause = full_jitter(first_pause, longest_, failures_, random);
        // Beyond this the longest pause is reached with any options.
        constexpr unsigned most = 32;
        if (failures_ < most) ++failures_;
        return pause;
    }

private:
    duration longest_;
    unsigned failures_ = 0; ///< in a row
};

} // namespace holdfast::protocol

#endif
