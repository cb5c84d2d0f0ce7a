// What happens in a campaign: calls with their durations and bounds, outcomes, findings.
#ifndef HOLDFAST_TEST_CAMPAIGN_RESULTS_HPP
#define HOLDFAST_TEST_CAMPAIGN_RESULTS_HPP

#include <holdfast/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::campaign {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline milliseconds since(clock_type::time_point t) {
    return std::chrono::duration_cast<milliseconds>(clock_type::now() - t);
}

/// The faults of one kind.
struct fault_count {
    std::uint64_t happened = 0;
    std::uint64_t failed = 0; ///< not carried out, or not to the end
};
using fault_counts = std::map<std::string_view, fault_count>;

/// The results of all clients. From any thread.
class record {
public:
    /// `judges_times`: a call that takes longer than its bound is a finding.
    explicit record(bool judges_times)
        : judges_times_(judges_times) {}

    /// Prints a line with the time since the start.
    void say(std::string_view text) const {
        std::lock_guard const lock(mutex_);
        print(text);
    }
    void call(std::string_view name, milliseconds took, milliseconds bound, error const& e) {
        std::lock_guard const lock(mutex_);
        ++calls_;
        auto& longest = longest_[std::string(name)];
        longest = std::max(longest, took);
        if (took > bound && judges_times_) {
            std::ostringstream text;
            text << name << " took " << took.count() << " ms, its bound is " << bound.count()
                 << " ms; it ended with: " << e.what();
            note_wrong(text.str());
        }
        if (e) ++outcomes_[e.code().message()];
    }
    void wrong(std::string text) {
        std::lock_guard const lock(mutex_);
        note_wrong(std::move(text));
    }
    void paused(milliseconds length) {
        std::lock_guard const lock(mutex_);
        longest_pause_ = std::max(longest_pause_, length);
    }
    void granted() { ++grants_; }
    void lost() { ++losses_; }
    std::uint64_t grants() const { return grants_; }

    bool summarize(fault_counts const& faults, std::size_t lost_keys) const {
        std::lock_guard const lock(mutex_);
        std::uint64_t happened = 0;
        for (auto const& [name, count] : faults) {
            happened += count.happened;
            std::cout << count.happened << " x " << name;
            if (count.failed > 0) std::cout << ", not carried out: " << count.failed;
            std::cout << '\n';
        }
        std::cout << "longest pause of a client: " << longest_pause_.count() << " ms\n";
        for (auto const& [name, took] : longest_)
            std::cout << "longest " << name << ": " << took.count() << " ms\n";
        for (auto const& [name, count] : outcomes_) std::cout << count << " x " << name << '\n';
        for (auto const& text : wrong_) std::cout << "WRONG: " << text << '\n';
        std::cout << "calls=" << calls_ << " grants=" << grants_ << " losses=" << losses_
                  << " faults=" << happened << " keys_lost_in_repairs=" << lost_keys
                  << " wrong=" << wrong_.size() << std::endl;
        return wrong_.empty();
    }

private:
    void note_wrong(std::string text) {
        print("WRONG: " + text);
        wrong_.push_back(std::move(text));
    }
    void print(std::string_view text) const {
        std::cout << std::fixed << std::setprecision(1) << std::setw(7)
                  << static_cast<double>(since(began_).count()) / 1'000 << "  " << text
                  << std::endl;
    }

    bool const judges_times_;
    clock_type::time_point const began_ = clock_type::now();
    mutable std::mutex mutex_;
    std::uint64_t calls_ = 0;
    std::atomic<std::uint64_t> grants_{0}, losses_{0};
    milliseconds longest_pause_{0};
    std::map<std::string, milliseconds> longest_;
    std::map<std::string, std::uint64_t> outcomes_;
    std::vector<std::string> wrong_;
};

} // namespace holdfast::campaign

#endif
