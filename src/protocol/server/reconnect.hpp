// New connections to an instance: the pauses before them, and how they begin.
#ifndef HOLDFAST_PROTOCOL_RECONNECT_HPP
#define HOLDFAST_PROTOCOL_RECONNECT_HPP

#include "protocol/backoff.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// Why a connection ended, or could not be made, as far as the next pause depends on it.
enum class fault : std::uint8_t {
    broken, ///< the instance, or the way to it: it may be back at any moment
    busy,   ///< the instance accepts no work for now: it loads its data, or has too many clients
    /// As setup, or as broken: the port is silent, or the peer closes at once.
    unclear,
    setup, ///< a person must fix it: a wrong password, an untrusted certificate
};

/// The right rules. Tests break them one at a time.
struct reconnect_rules {
    static constexpr bool came_to_something(duration up_for, duration longest) {
        return up_for >= longest;
    }
    /// The longest pause, where the options allow `configured` for an instance that is down.
    static constexpr duration longest_pause(fault f, duration configured) {
        switch (f) {
        case fault::broken:
            break;
        case fault::busy:
            return std::max<duration>(configured, std::chrono::seconds(5));
        case fault::unclear:
            return std::chrono::seconds(5);
        case fault::setup:
            return std::chrono::seconds(30);
        }
        return configured;
    }
    /// A setup with which a connection was up before is right.
    static constexpr fault classified(fault f, bool was_up) {
        return f == fault::unclear && was_up ? fault::broken : f;
    }
    /// The pause while a person has to fix the setup: 1 s, then twice as long each time, and up to
    /// a quarter less. Not full jitter: with that, the first pauses could be next to nothing.
    static constexpr duration setup_pause(unsigned failures, duration longest,
                                          std::uint64_t random) {
        duration const first = std::chrono::seconds(1);
        auto const pause = std::min(first * (1 << std::min(failures, 5U)), longest);
        return pause - duration(static_cast<duration::rep>(
                           random % static_cast<std::uint64_t>(pause.count() / 4 + 1)));
    }
};

/// The pauses grow until a connection has been up for at least the longest pause. So the client
/// does not connect again at once for ever to an instance that accepts, answers the probe and
/// closes.
template <class Rules>
class basic_reconnect_policy {
public:
    static constexpr duration first_pause = std::chrono::milliseconds(20);

    /// `longest`: the longest pause before an instance that is down is tried again.
    explicit basic_reconnect_policy(duration longest)
        : longest_(longest) {}

    /// A connection has ended. `up_for`: the time since its probe was answered; zero if the probe
    /// was not answered.
    void ended(duration up_for, fault f = fault::broken) {
        was_up_ = was_up_ || up_for > duration::zero();
        f = Rules::classified(f, was_up_);
        if (Rules::came_to_something(up_for, longest_) || is_setup(f) != is_setup(fault_)) {
            failures_ = 0;
        }
        fault_ = f;
    }
    /// The cause may be fixed: there are other credentials, or other certificates. True: the
    /// driver connects at once if it is in a pause for that.
    bool setup_changed() {
        auto const awaited = is_setup(fault_);
        if (awaited) failures_ = 0;
        return awaited;
    }

    /// The pause before the next connection, from 64 random bits.
    duration next(std::uint64_t random) {
        auto const longest = Rules::longest_pause(fault_, longest_);
        auto const pause = is_setup(fault_) ? Rules::setup_pause(failures_, longest, random)
                                            : full_jitter(first_pause, longest, failures_, random);
        // After this many failures the longest pause is reached with any options.
        constexpr unsigned most = 32;
        if (failures_ < most) ++failures_;
        return pause;
    }

private:
    static constexpr bool is_setup(fault f) { return f == fault::setup || f == fault::unclear; }

    duration longest_;
    unsigned failures_ = 0; ///< in a row
    fault fault_ = fault::broken;
    bool was_up_ = false;
};

using reconnect_policy = basic_reconnect_policy<reconnect_rules>;

/// How long the handshake of TLS may take, if a connection may take `connect_timeout` and `left` of
/// that is left. Less than all of it, so that a server which accepts connections and is silent is
/// told from one that cannot be reached.
constexpr duration handshake_limit(duration connect_timeout, duration left) {
    return std::clamp(connect_timeout * 3 / 4, duration(1), std::max(left, duration(1)));
}

/// Whether the next connection begins with HELLO. A proxy that does not know it may close the
/// connection instead of an answer, as any server does that goes down at that moment.
///
/// After three connections that were closed at HELLO, every other one goes without. If that works,
/// the next one has HELLO again. Once HELLO was closed twice, each time right after a connection
/// without it had worked, such a connection stays. The one after it begins with HELLO: what looked
/// like a proxy may have been a server that was restarted often, and in RESP2 a server announces no
/// flush.
class hello_choice {
public:
    /// The next connection goes without.
    bool skips() const { return closed_ >= patience && closed_ % 2 == 1; }

    /// The connection was closed before any answer.
    void closed() {
        if (skips())
            proofs_ = 0;
        else if (std::exchange(worked_, false))
            ++proofs_;
        ++closed_;
    }
    /// HELLO was answered.
    void answered() { *this = {}; }
    /// A connection without HELLO is up. True: it is to be closed, as HELLO gets one more chance.
    bool works_without() {
        auto const stays = proofs_ >= enough;
        worked_ = true;
        if (stays) proofs_ = enough - 1;
        closed_ = patience + 1;
        return !stays;
    }

private:
    static constexpr unsigned patience = 3;
    static constexpr unsigned enough = 2;

    unsigned closed_ = 0; ///< in a row
    unsigned proofs_ = 0; ///< HELLO was closed right after a connection without it had worked
    bool worked_ = false; ///< the last connection, without HELLO
};

} // namespace holdfast::protocol

#endif
