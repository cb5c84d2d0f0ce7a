// Looks for leases that must not be held at the same time, and for fences that do not grow. It
// knows locks, readers and writers, and permits; a lock on several keys is a claim for each key.
//
// doc/guarantees.md names faults after which mutual exclusion may fail for a while. A lease that
// was granted in such a window counts for nothing.
#ifndef HOLDFAST_TEST_CAMPAIGN_JUDGE_HPP
#define HOLDFAST_TEST_CAMPAIGN_JUDGE_HPP

#include <holdfast/options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// A lease, on one key.
struct claim {
    std::string key;
    lock_access how = lock_access::exclusive;
    unsigned slot = 0;       ///< of a permit
    unsigned permits = 0;    ///< of the semaphore
    std::uint64_t fence = 0; ///< 0: none
    /// Asked at any time until the claim ends. A lease that is over stays so.
    std::function<bool()> held{};
    bool in_window = false; ///< set by the judge
};

/// From any thread.
class judge {
public:
    using ticket = std::list<claim>::iterator;
    using time_point = std::chrono::steady_clock::time_point;

    explicit judge(std::function<time_point()> clock = std::chrono::steady_clock::now)
        : clock_(std::move(clock)) {}

    /// Before a fault after which the guarantees allow two holders for so long.
    void opens_window(std::chrono::milliseconds length) {
        std::lock_guard const lock(mutex_);
        window_ = std::max(window_, clock_() + length);
    }
    /// Leases that were granted in a window.
    std::uint64_t in_windows() const {
        std::lock_guard const lock(mutex_);
        return in_windows_;
    }

    /// A lease was granted. `findings`: what is wrong with it.
    ticket begins(claim c, std::vector<std::string>& findings) {
        std::lock_guard const lock(mutex_);
        auto& here = keys_[c.key];
        c.in_window = clock_() < window_;
        in_windows_ += c.in_window ? 1 : 0;
        std::size_t permits = 1;
        for (auto const& other : here.claims) {
            if (c.in_window || other.in_window) continue;
            auto const both = other.how == lock_access::permit && c.how == lock_access::permit;
            auto const apart = both && other.slot != c.slot;
            if (!apart && !conflict(other, c)) continue;
            // What is held after the check of the other was held then.
            if (!other.held() || !c.held()) continue;
            if (!apart) findings.push_back("two have " + name_of(c));
            if (both) ++permits;
        }
        if (c.how == lock_access::permit && permits > c.permits)
            findings.push_back(std::to_string(permits) + " have one of " +
                               std::to_string(c.permits) + " permits of " + c.key);
        if (c.fence != 0 && c.held()) check_fence(here, c, findings);
        here.claims.push_back(std::move(c));
        return std::prev(here.claims.end());
    }
    /// Before a writer lets readers in.
    void becomes_reader(ticket t) {
        std::lock_guard const lock(mutex_);
        t->how = lock_access::read;
    }
    /// Before it is released.
    void ends(ticket t) {
        std::lock_guard const lock(mutex_);
        keys_[t->key].claims.erase(t);
    }

private:
    struct entry {
        std::list<claim> claims;
        std::uint64_t written = 0, greatest = 0;   ///< fences
        std::map<unsigned, std::uint64_t> slots{}; ///< the greatest fence of each
    };

    static bool conflict(claim const& a, claim const& b) {
        return a.how != lock_access::read || b.how != lock_access::read;
    }
    static std::string name_of(claim const& c) {
        return c.how == lock_access::permit ? "the slot " + std::to_string(c.slot) + " of " + c.key
                                            : "the key " + c.key;
    }
    /// A reader's fence is at least that of each writer before, and may be that of other readers.
    static void check_fence(entry& here, claim const& c, std::vector<std::string>& findings) {
        auto& before = c.how == lock_access::permit ? here.slots[c.slot] : here.greatest;
        auto const reads = c.how == lock_access::read;
        if (!c.in_window && (reads ? c.fence < here.written : c.fence <= before))
            findings.push_back("the fence of " + name_of(c) + " did not grow");
        before = std::max(before, c.fence);
        if (!reads) here.written = std::max(here.written, c.fence);
    }

    std::function<time_point()> const clock_;
    mutable std::mutex mutex_;
    std::map<std::string, entry> keys_;
    time_point window_{};
    std::uint64_t in_windows_ = 0;
};

} // namespace holdfast::campaign

#endif
