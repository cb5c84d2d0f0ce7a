// How one acquire of several keys takes them.
//
//     together --- patience is over ---> in_order --- has all keys ---> conversion
//        ^                                  |                               |
//        +---------- a key was lost --------+---------- refused ------------+
//
// together    One round asks for all keys, and takes all or none. While the acquire waits, it holds
//             nothing. So it never keeps others waiting for nothing, and may starve where others
//             always hold one of the keys.
// in_order    It takes one key after the other by byte order, and keeps those that it has. All
//             acquires have the same order, so none of them waits in a circle. For each key it
//             waits as any other acquire, so it does not starve.
// conversion  It has each key on a quorum, perhaps each on another one. One more round gives all
//             keys the token of the lease, at instances that have all of them.
#ifndef HOLDFAST_PROTOCOL_SET_APPROACH_HPP
#define HOLDFAST_PROTOCOL_SET_APPROACH_HPP

#include "protocol/backoff.hpp"
#include "protocol/time.hpp"

#include <cassert>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

enum class set_step : std::uint8_t {
    together,
    in_order,
    conversion
};

class set_approach {
public:
    set_approach(unsigned keys, unsigned patience)
        : keys_(keys)
        , patience_(patience)
        , step_(patience == 0 ? set_step::in_order : set_step::together) {}

    set_step step() const { return step_; }
    /// The key to take next.
    unsigned next_key() const { return taken_; }

    /// A round that asked for all keys was refused.
    void refused() {
        if (step_ == set_step::together && ++refusals_ < patience_) return;
        if (step_ == set_step::together) {
            step_ = set_step::in_order;
        } else {
            ++refused_conversions_;
            start_over();
        }
    }
    /// After a conversion that was refused, how long the acquire leaves the keys alone: others have
    /// some of them on different minorities, perhaps without an end.
    duration pause(std::uint64_t random) const {
        using std::chrono::milliseconds;
        return refused_conversions_ == 0 ? duration::zero()
                                         : full_jitter(milliseconds(10), milliseconds(1'000),
                                                       refused_conversions_, random);
    }
    /// The next key is taken.
    void took_key() {
        assert(step_ == set_step::in_order && taken_ < keys_);
        if (++taken_ == keys_) step_ = set_step::conversion;
    }
    /// A key that was taken is lost. The others are given back, or the order would be broken.
    void start_over() {
        taken_ = 0;
        refusals_ = patience_ == 0 ? 0 : patience_ - 1;
        step_ = set_step::together;
    }

private:
    unsigned keys_, patience_;
    unsigned refusals_ = 0, taken_ = 0, refused_conversions_ = 0;
    set_step step_;
};

} // namespace holdfast::protocol

#endif
