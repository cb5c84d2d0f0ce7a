// Decides when a client asks for the map of a Cluster. No server reports a changed map. So the
// client asks after each sign of a change, and from time to time.
#ifndef HOLDFAST_PROTOCOL_MAP_REFRESH_HPP
#define HOLDFAST_PROTOCOL_MAP_REFRESH_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

class map_refresh {
public:
    /// After a sign of a change.
    static constexpr duration least_interval = std::chrono::seconds(1);
    /// While commands wait for the answer.
    static constexpr duration urgent_interval = std::chrono::milliseconds(10);
    /// Without a sign; up to a tenth less.
    static constexpr duration period = std::chrono::seconds(30);

    /// `answer_limit`: how long a node may take to answer.
    explicit map_refresh(duration answer_limit)
        : limit_(answer_limit) {}

    /// The map may be wrong.
    void want(time_point now) { want_by(std::max(now, asked_ + least_interval)); }
    /// The same, and commands wait for the answer.
    void want_urgently(time_point now) { want_by(std::max(now, asked_ + urgent_interval)); }

    /// One question at a time.
    bool due(time_point now) const { return !under_way_ && now >= due_; }
    void asked(time_point now, std::uint64_t random) {
        asked_ = now;
        under_way_ = true;
        auto const tenth = static_cast<std::uint64_t>((period / 10).count());
        due_ = now + period - duration(static_cast<duration::rep>(random % tenth));
    }
    /// The question was answered, or its connection was lost.
    void ended() { under_way_ = false; }
    /// True if the answer is overdue: another node is to be asked.
    bool overdue(time_point now) const { return under_way_ && now >= asked_ + limit_; }

    /// When due() or overdue() may have changed.
    time_point wake() const { return under_way_ ? asked_ + limit_ : due_; }

private:
    void want_by(time_point when) { due_ = std::min(due_, when); }

    duration limit_;
    time_point asked_{};
    time_point due_{};
    bool under_way_ = false;
};

} // namespace holdfast::protocol

#endif
