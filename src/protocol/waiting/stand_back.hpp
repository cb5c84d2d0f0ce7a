// After a tenure a process stands back from the key for a moment, so that other processes get their
// turn.
//
// Meanwhile the process may listen: it asks the arbiter for a push when the key changes. If it
// hears of no other process many times in a row, it counts as alone, and need not stand back each
// time.
#ifndef HOLDFAST_PROTOCOL_STAND_BACK_HPP
#define HOLDFAST_PROTOCOL_STAND_BACK_HPP

#include "protocol/time.hpp"

#include <utility>

namespace holdfast::protocol {

template <class Rules>
class stand_back {
public:
    void begin(bool listens) {
        to_listen_ = listens;
        hears_ = false;
    }
    void end(time_point now) {
        silent_ = std::exchange(hears_, false) ? silent_ + 1 : 0;
        ended_ = now;
    }

    /// True once if this process is to ask the arbiter for a push.
    bool take_question() { return std::exchange(to_listen_, false); }
    /// The arbiter has answered. `told`: it will push when the key changes.
    void listens(bool told) { hears_ = told; }
    bool listens() const { return hears_; }
    /// Another process has taken the key.
    void heard() { hears_ = false; }

    /// True if no listening counts towards is_alone().
    bool is_unused() const { return silent_ == 0; }
    bool is_alone(time_point now) const { return Rules::is_alone(silent_, now - ended_); }

private:
    time_point ended_{};
    unsigned silent_ = 0; ///< times in a row in which no other process took the key
    bool to_listen_ = false;
    bool hears_ = false; ///< the arbiter would push
};

} // namespace holdfast::protocol

#endif
