// The events of a schedule, in the order of true time, and the processes that they happen to.
//
// True time passes from one event to the next. Each clock runs at its own rate. The events of a
// stopped process happen when it goes on, in their order.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_TIMELINE_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_TIMELINE_HPP

#include "protocol/time.hpp"

#include "simulation/kernel/chance.hpp"
#include "simulation/kernel/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <ostream>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using true_time = std::int64_t; ///< nanoseconds, unless a simulator uses another unit

/// Slightly less than half of the drift allowance of 1 %, as two clocks may drift apart.
inline constexpr std::int64_t max_ppm = 4'500;

inline true_time stretched(true_time t, std::int64_t ppm) {
    return t + t / 1'000'000 * ppm + t % 1'000'000 * ppm / 1'000'000;
}
/// The true duration of a span on a clock, rounded up.
inline true_time real(protocol::duration d, std::int64_t ppm) {
    return static_cast<true_time>(static_cast<double>(d.count()) * 1e6 /
                                  static_cast<double>(1'000'000 + ppm)) +
           1;
}

/// A process that can be stopped.
struct process {
    true_time paused_until = 0;
    std::deque<std::function<void()>> deferred; ///< actions for the time when it goes on
};

class timeline : protected chance, protected trace {
protected:
    using event_action = std::function<void()>;

    explicit timeline(std::uint64_t seed, std::ostream* story = nullptr, true_time start = 0,
                      true_time microsecond = 1'000)
        : chance(seed)
        , trace(story)
        , start_(start)
        , microsecond_(microsecond)
        , now_(start) {}
    ~timeline() = default;

    true_time now() const { return now_; }

    void at(true_time after, event_action act) { put(after, nullptr, false, std::move(act)); }
    /// The same, for an event that waits until the process runs.
    void at(true_time after, process& p, event_action act) {
        put(after, &p, false, std::move(act));
    }
    /// An event that does not keep the schedule going.
    void at_leisure(true_time after, event_action act) {
        put(after, nullptr, true, std::move(act));
    }
    /// Runs `act` at once if the process runs. Otherwise `act` waits with the other events of the
    /// process.
    template <class Act>
    void in(process& p, Act&& act) {
        if (now_ >= p.paused_until && p.deferred.empty()) return act();
        p.deferred.push_back(std::forward<Act>(act));
        if (p.deferred.size() == 1) at(p.paused_until - now_, [this, &p] { resume(p); });
    }
    void pause(process& p, true_time span) {
        p.paused_until = std::max(p.paused_until, now_ + span);
    }

    /// Runs the next event. False if there is none, or a property was violated.
    bool happens() {
        if (events_.empty() || !violation().empty()) return false;
        auto const next = events_.top();
        events_.pop();
        now_ = next.when;
        auto planned = std::exchange(planned_[next.place], {});
        free_.push_back(next.place);
        if (!planned.at_leisure) --essential_;
        if (planned.owner != nullptr) {
            in(*planned.owner, std::move(planned.act));
        } else {
            planned.act();
        }
        return true;
    }
    /// The number of events except those at leisure.
    std::uint64_t essential() const { return essential_; }

    void fail(char const* property, std::string const& how) {
        trace::fail(property, how + ", at " + std::to_string(microseconds()) + " us");
    }
    template <class... Words>
    void write_story(Words const&... words) {
        trace::write_story(microseconds(), " us: ", words...);
    }

private:
    struct turn {
        true_time when;
        std::uint32_t order, place; ///< the index in planned_
        bool operator<(turn const& other) const {
            return std::pair(when, order) > std::pair(other.when, other.order);
        }
    };
    struct plan {
        event_action act;
        process* owner = nullptr;
        bool at_leisure = false;
    };

    void put(true_time after, process* owner, bool at_leisure, event_action&& act) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(planned_.size()));
            planned_.emplace_back();
        }
        auto const place = free_.back();
        free_.pop_back();
        planned_[place] = {std::move(act), owner, at_leisure};
        events_.push({now_ + after, ++order_, place});
        if (!at_leisure) ++essential_;
    }

    void resume(process& p) {
        if (now_ < p.paused_until) return at(p.paused_until - now_, [this, &p] { resume(p); });
        while (!p.deferred.empty()) {
            auto const act = std::move(p.deferred.front());
            act();
            p.deferred.pop_front();
        }
    }

    true_time microseconds() const { return (now_ - start_) / microsecond_; }

    true_time const start_, microsecond_;
    std::priority_queue<turn> events_;
    std::vector<plan> planned_; ///< separate from the queue, whose elements are moved often
    std::vector<std::uint32_t> free_;
    true_time now_;
    std::uint32_t order_ = 0;
    std::uint64_t essential_ = 0;
};

} // namespace holdfast::test

#endif
