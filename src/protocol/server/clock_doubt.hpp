// The time in which an instance's grants do not count because its clock has jumped ahead.
//
// This time is the longest ttl, however small the jump. A key that has longer to live than the jump
// does not expire at once, but later it expires too early by the length of the jump. To let each
// grant count only after a delay as long as the jump would not help either, because small jumps
// that remain unnoticed make the error larger.
#ifndef HOLDFAST_PROTOCOL_CLOCK_DOUBT_HPP
#define HOLDFAST_PROTOCOL_CLOCK_DOUBT_HPP

#include "protocol/quarantine.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

class clock_doubt {
public:
    explicit clock_doubt(duration longest)
        : longest_(longest) {}

    /// The clock was read. Two readings in a row may each show a part of one jump.
    void observed(time_point now, bool jumped) {
        if (jumped && !in_a_jump_) before_ = quarantine_;
        if (jumped) quarantine_.begin(now, longest_);
        in_a_jump_ = jumped;
    }
    /// The instance's clock did not jump: our own clock stood still.
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
