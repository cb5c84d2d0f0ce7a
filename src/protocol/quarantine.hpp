// The time in which an instance's grants do not count because it may have forgotten earlier ones.
#ifndef HOLDFAST_PROTOCOL_QUARANTINE_HPP
#define HOLDFAST_PROTOCOL_QUARANTINE_HPP

#include "protocol/time.hpp"

#include <algorithm>

namespace holdfast::protocol {

class quarantine {
public:
    /// Begins now, and lasts as long as the longest lease that the instance may have forgotten.
    void begin(time_point now, duration longest) { until_ = std::max(until_, now + longest); }
    void extend(time_point until) { until_ = std::max(until_, until); }
    bool active(time_point now) const { return now < until_; }
    time_point until() const { return until_; }

private:
    time_point until_{};
};

} // namespace holdfast::protocol

#endif
