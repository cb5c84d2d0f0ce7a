// What happens when, and by what chance: the part of a world that knows nothing of locks.
//
// Everything follows from the seed. True time passes from one happening to the next; clocks run at
// rates of their own; a process that is stopped makes up for what has come meanwhile, in its order.
#ifndef HOLDFAST_TEST_SIMULATION_TIMELINE_HPP
#define HOLDFAST_TEST_SIMULATION_TIMELINE_HPP

#include "protocol/time.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

class timeline {
protected:
    using true_time = std::int64_t; // nanoseconds

    /// Half the drift allowance of 1 %, on either side, less a bit.
    static constexpr std::int64_t max_ppm = 4'500;

    struct process {
        true_time paused_until = 0;
        std::deque<std::function<void()>> deferred; ///< until it goes on
    };

    explicit timeline(std::uint64_t seed)
        : random_(seed) {}
    timeline(timeline const&) = delete;
    timeline& operator=(timeline const&) = delete;
    ~timeline() = default;

    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    std::int64_t between(std::int64_t a, std::int64_t b) {
        return a + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(b - a + 1)));
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    true_time some(protocol::duration d) {
        return static_cast<true_time>(below(static_cast<std::uint64_t>(d.count()) + 1));
    }

    void at(true_time after, std::function<void()> what) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(whats_.size()));
            whats_.emplace_back();
        }
        auto const place = free_.back();
        free_.pop_back();
        whats_[place] = std::move(what);
        events_.push({now_ + after, ++order_, place});
    }
    /// The next happening. False: there is none, or a property was violated.
    bool happens() {
        if (events_.empty() || !violation_.empty()) return false;
        auto const next = events_.top();
        events_.pop();
        now_ = next.when;
        auto const what = std::move(whats_[next.what]);
        free_.push_back(next.what);
        what();
        return true;
    }

    /// When the process runs, in the order in which things came.
    void in(process& p, std::function<void()> what) {
        if (now_ >= p.paused_until && p.deferred.empty()) return what();
        p.deferred.push_back(std::move(what));
        if (p.deferred.size() == 1) at(p.paused_until - now_, [this, &p] { resume(p); });
    }

    static true_time stretched(true_time t, std::int64_t ppm) {
        return t + t / 1'000'000 * ppm + t % 1'000'000 * ppm / 1'000'000;
    }
    /// How long a span of a clock really takes, rounded up.
    static true_time real(protocol::duration d, std::int64_t ppm) {
        return static_cast<true_time>(static_cast<double>(d.count()) * 1e6 /
                                      static_cast<double>(1'000'000 + ppm)) +
               1;
    }

    void fail(char const* property, std::string const& how) {
        if (violation_.empty()) violation_ = std::string(property) + ": " + how;
    }
    std::string const& violation() const { return violation_; }
    true_time now() const { return now_; }

private:
    struct happening {
        true_time when;
        std::uint32_t order, what; ///< the place in whats_
        bool operator<(happening const& other) const {
            return std::pair(when, order) > std::pair(other.when, other.order);
        }
    };

    void resume(process& p) {
        if (now_ < p.paused_until) return at(p.paused_until - now_, [this, &p] { resume(p); });
        while (!p.deferred.empty()) {
            auto const what = std::move(p.deferred.front());
            what();
            p.deferred.pop_front();
        }
    }

    std::mt19937_64 random_;
    std::priority_queue<happening> events_;
    std::vector<std::function<void()>> whats_; ///< moved about less than if they were in the queue
    std::vector<std::uint32_t> free_;
    true_time now_ = 0;
    std::uint32_t order_ = 0;
    std::string violation_;
};

} // namespace holdfast::test

#endif
