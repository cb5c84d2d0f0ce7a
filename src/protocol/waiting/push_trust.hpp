// Whether the pushes of an instance arrive. A proxy may accept CLIENT TRACKING and swallow the
// pushes; a server may accept it and send none.
#ifndef HOLDFAST_PROTOCOL_PUSH_TRUST_HPP
#define HOLDFAST_PROTOCOL_PUSH_TRUST_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

enum class breach : std::uint8_t {
    none,
    possible, ///< the key went when it was to expire: with NOLOOP, a server does not push the end
              ///< of a key that our own command finds expired
    certain,  ///< the key went earlier, or lasts for longer
};

/// The promise of an instance to push when a key changes, as a queue remembers it from one try to
/// the next.
class push_promise {
public:
    /// The instance was asked, and its answer was read. `left`: the key's time to live; none: it
    /// never expires. A key that has just gone (negative) is not there to change.
    void made(unsigned instance, time_point asked, time_point read, std::optional<duration> left) {
        made_ = !left || *left >= duration::zero();
        instance_ = instance;
        expiry_ = expires(asked, read, left);
    }
    /// The instance has pushed, or the connection is gone, or the key was ours meanwhile.
    void ended(unsigned instance) {
        if (instance == instance_) made_ = false;
    }
    void ended() { made_ = false; }

    /// The instance was asked again: the key was free (`left` is negative), or has this time to
    /// live. Whether it has changed, and the instance has not pushed.
    breach answered(unsigned instance, time_point asked, time_point read,
                    std::optional<duration> left) {
        if (instance != instance_ || !std::exchange(made_, false)) return breach::none;
        if (left && *left < duration::zero()) {
            return read < expiry_.first - imprecise ? breach::certain : breach::possible;
        }
        auto const expiry = expires(asked, read, left);
        auto const apart =
            std::max(expiry.first, expiry_.first) > std::min(expiry.last, expiry_.last) + imprecise;
        return apart ? breach::certain : breach::none;
    }

private:
    /// The time at which the key expires. It was read after the server had reported it, and perhaps
    /// long after: this process may have stood still.
    struct interval {
        time_point first{}, last{};
    };
    static interval expires(time_point asked, time_point read, std::optional<duration> left) {
        constexpr auto never = time_point::max() - imprecise;
        return left ? interval{asked + *left, read + *left} : interval{never, never};
    }

    /// Clocks are slewed, and times to live are rounded.
    static constexpr duration imprecise = std::chrono::milliseconds(250);

    bool made_ = false;
    unsigned instance_ = 0;
    interval expiry_;
};

/// Trusts an instance until two changes in a row were not reported. A change that the instance need
/// not have reported counts until the first push of the connection. A push restores the trust.
/// After a breach, each new connection is trusted until the next breach.
class push_trust {
public:
    bool trusted() const { return missed_ < tolerated; }
    /// A push has come.
    void heard() {
        missed_ = 0;
        proven_ = true;
    }
    void missed(breach b) {
        if (b == breach::none || (b == breach::possible && proven_)) return;
        missed_ = std::min(missed_ + 1, tolerated);
    }
    void connected() {
        missed_ = std::min(missed_, tolerated - 1);
        proven_ = false;
    }

private:
    static constexpr unsigned tolerated = 2;

    unsigned missed_ = 0; ///< in a row
    bool proven_ = false; ///< a push has come on this connection
};

} // namespace holdfast::protocol

#endif
