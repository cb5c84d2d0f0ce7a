// The time in which an instance's grants do not count, as its clock has jumped ahead.
//
// That is as long as the longest ttl, however small the jump: a key with more to live than the jump
// is not expired by it, but goes as much too early later on. Nor does it help to count each grant
// later by the jump: small jumps that remain unnoticed come on top of it.
#ifndef HOLDFAST_PROTOCOL_CLOCK_DOUBT_HPP
#define HOLDFAST_PROTOCOL_CLOCK_DOUBT_HPP

#include "protocol/quarantine.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

class clock_doubt {
public:
    explicit clock_doubt(duration longest)
        : longest_(longest) {}

    /// The clock was read. A jump may be seen in two parts, by one reading and the next.
    void observed(time_point now, bool jumped) {
        if (jumped && !in_a_jump_) before_ = quarantine_;
        if (jumped) quarantine_.begin(now, longest_);
        in_a_jump_ = jumped;
    }
    /// The last jump was none of its own.
    void excuse() {
        quarantine_ = before_;
        in_a_jump_ = false;
    }

    bool active(time_point now) const { return quarantine_.active(now); }
    time_point until() const { return quarantine_.until(); }

private:
    duration longest_;
    quarantine quarantine_, before_;
    bool in_a_jump_ = false;
};

} // namespace holdfast::protocol

#endif
