// The counters that this client has counted on lately. They decide how it asks instances to count
// for its next tenure of a key.
//
// A native count (counting.hpp) lifts the counter to the hint, or fails. It fails if the hint is
// not above the counter, and a script then counts in a second round trip. So the hint of a key that
// this client had a moment ago is above its last number. While the clock of this client is seen to
// be behind the numbers of others, a script counts at once. It does so too while others have the
// key: a native count writes at each instance, also for a client that does not get the key.
#ifndef HOLDFAST_PROTOCOL_RECENT_COUNTERS_HPP
#define HOLDFAST_PROTOCOL_RECENT_COUNTERS_HPP

#include "protocol/tenure/counting.hpp"
#include "protocol/tenure/fence.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::protocol {

class recent_counters {
public:
    static constexpr std::size_t capacity = 1024;
    /// The tries for which a script counts after one that a native count did not help.
    static constexpr unsigned by_script = 15;

    /// `kept`: how long an instance keeps a counter that is not used. An instance keeps it for at
    /// least half of this, because the ttl is renewed after each quarter.
    explicit recent_counters(duration kept)
        : renewal_(kept / 4) {}

    /// To be called before the others. Only the first call allocates.
    void reserve() {
        if (entries_.empty()) entries_.resize(capacity);
    }
    /// How to count for a try that begins now. `key` is a hash.
    count_plan next(std::uint64_t key, std::uint64_t hint, time_point now) {
        assert(!entries_.empty());
        auto& e = entries_[key % capacity];
        if (!e.is_of(key)) return {hint, hint == 0 ? counting::by_script : counting::renewed};
        if (e.left_to_scripts > 0) {
            --e.left_to_scripts;
            return {hint, counting::by_script};
        }
        if (e.number >= hint) {
            // A clock that is further behind would count in vain.
            auto const just_now = e.number - hint < numbers_per_millisecond;
            if (!just_now || !is_fence_count(e.number + 1)) return {hint, counting::by_script};
            hint = e.number + 1;
        }
        return {hint, now < e.renewed + renewal_ ? counting::known : counting::renewed};
    }
    /// The try that began at `began` with this plan was won, with this number.
    void won(std::uint64_t key, count_plan const& plan, std::uint64_t number, time_point began) {
        auto& e = entry_of(key);
        e.number = number;
        if (plan.how != counting::known && began > forgotten_) e.renewed = began;
        if (plan.how != counting::by_script && number > plan.hint) e.left_to_scripts = by_script;
    }
    /// Others have the key.
    void refused(std::uint64_t key) { entry_of(key).left_to_scripts = by_script; }
    /// An instance that has come back may have missed a renewal.
    void forget(time_point now) {
        std::fill(entries_.begin(), entries_.end(), entry{});
        forgotten_ = now;
    }

private:
    struct entry {
        bool is_of(std::uint64_t k) const { return used && key == k; }

        std::uint64_t key = 0;
        std::uint64_t number = 0; ///< the last that was won
        time_point renewed = time_point::min();
        unsigned left_to_scripts = 0;
        bool used = false;
    };

    entry& entry_of(std::uint64_t key) {
        assert(!entries_.empty());
        auto& e = entries_[key % capacity];
        if (!e.is_of(key)) e = {.key = key, .used = true};
        return e;
    }

    duration renewal_;
    time_point forgotten_ = time_point::min();
    std::vector<entry> entries_;
};

} // namespace holdfast::protocol

#endif
