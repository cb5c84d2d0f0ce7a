// What a campaign prints: its faults as they happen, and at the end what the clients have written
// down and what was wrong.
#ifndef HOLDFAST_TEST_CAMPAIGN_RESULTS_HPP
#define HOLDFAST_TEST_CAMPAIGN_RESULTS_HPP

#include "campaign/history.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// The faults of one kind.
struct fault_count {
    std::uint64_t happened = 0;
    std::uint64_t failed = 0; ///< not carried out, or not to the end
};
using fault_counts = std::map<std::string_view, fault_count>;

/// From any thread.
class record {
public:
    clock_type::time_point began() const { return began_; }
    /// Prints a line with the time since the start.
    void say(std::string_view text) const {
        std::lock_guard const lock(mutex_);
        print(text);
    }
    void wrong(std::string text) {
        std::lock_guard const lock(mutex_);
        print("WRONG: " + text);
        wrong_.push_back(std::move(text));
    }

    /// True if nothing was wrong.
    bool summarize(history const& h, fault_counts const& faults, std::size_t lost_keys) const {
        std::lock_guard const lock(mutex_);
        std::uint64_t happened = 0, calls = 0;
        for (auto const& [name, count] : faults) {
            happened += count.happened;
            std::cout << count.happened << " x " << name;
            if (count.failed > 0) std::cout << ", not carried out: " << count.failed;
            std::cout << '\n';
        }
        std::cout << "longest pause of a client: " << longest_pause(h).count() / 1'000 << " ms\n"
                  << "most memory of a client: " << most_memory_kb(h) / 1'024 << " MiB\n"
                  << "time of processors that clients used: " << h.computed.count() << " ms\n";
        for (auto const& [name, all] : h.calls) {
            calls += all.calls;
            std::cout << all.calls << " x " << name << ", longest: " << all.longest.count()
                      << " ms\n";
        }
        for (auto const& [name, count] : h.outcomes) std::cout << count << " x " << name << '\n';
        for (auto const& text : wrong_) std::cout << "WRONG: " << text << '\n';
        std::cout << "calls=" << calls << " grants=" << h.granted.size() << " adopted=" << h.adopted
                  << " losses=" << h.lost.size() << " faults=" << happened
                  << " keys_lost_in_repairs=" << lost_keys << " wrong=" << wrong_.size()
                  << std::endl;
        return wrong_.empty();
    }

private:
    static moment longest_pause(history const& h) {
        moment longest{0};
        for (auto const& p : h.pauses) longest = std::max(longest, p.to - p.from);
        return longest;
    }
    static std::uint64_t most_memory_kb(history const& h) {
        std::uint64_t most = 0;
        for (auto const& m : h.usage) most = std::max(most, m.kilobytes);
        return most;
    }
    void print(std::string_view text) const {
        std::cout << std::fixed << std::setprecision(1) << std::setw(7)
                  << static_cast<double>(since(began_).count()) / 1'000 << "  " << text
                  << std::endl;
    }

    clock_type::time_point const began_ = clock_type::now();
    mutable std::mutex mutex_;
    std::vector<std::string> wrong_;
};

} // namespace holdfast::campaign

#endif
