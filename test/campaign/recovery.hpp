// For how long nobody got a lock because of a fault.
#ifndef HOLDFAST_TEST_CAMPAIGN_RECOVERY_HPP
#define HOLDFAST_TEST_CAMPAIGN_RECOVERY_HPP

#include "campaign/history.hpp"
#include "campaign/picture.hpp"
#include "campaign/plan.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// Of a kind of fault.
struct recovery {
    std::vector<moment> times{}; ///< sorted, one at least
    milliseconds bound{0};       ///< see fault; the longest
    moment beyond{0};            ///< the most by which one of them exceeds its bound

    moment worst() const { return times.back(); }
    std::string text() const {
        return "median " + in_ms(times[times.size() / 2]) + " ms, worst " + in_ms(worst()) +
               " ms, bound " + in_ms(bound) + " ms";
    }

private:
    static std::string in_ms(moment t) { return std::to_string(t.count() / 1'000); }
};

/// For each kind of fault, the longest time for which a key had no holder that was seen, of those
/// times that begin in the fault or soon after it. All clients want the keys of locks that
/// exclude each other all the time, so that is how long a dead holder's lease and the servers kept
/// them from it.
inline std::map<std::string, recovery>
recoveries(std::vector<claim> const& claims, std::vector<fault_time> const& faults, moment soon) {
    constexpr std::size_t often = 20;
    constexpr moment between_looks = 40ms; // of a holder at its lease
    std::map<std::string, std::vector<claim const*>> by_key;
    for (auto const& c : claims)
        if (c.how == lock_access::exclusive) by_key[c.key].push_back(&c);
    std::vector<std::pair<moment, moment>> gaps;
    for (auto& [key, all] : by_key) {
        if (all.size() < often) continue;
        std::ranges::sort(all, {}, &claim::begins);
        auto ended = all.front()->ends;
        for (auto const* const c : all) {
            if (c->begins > ended) gaps.emplace_back(ended, c->begins);
            ended = std::max(ended, c->ends);
        }
    }
    std::map<std::string, recovery> found;
    for (auto const& f : faults) {
        moment longest{0};
        for (auto const& [from, to] : gaps)
            if (from > f.from - between_looks && from <= f.to + soon)
                longest = std::max(longest, to - from);
        auto& of_kind = found[f.name];
        of_kind.times.push_back(longest);
        of_kind.bound = std::max(of_kind.bound, f.bound);
        of_kind.beyond = std::max<moment>(of_kind.beyond, longest - f.bound);
    }
    for (auto& [name, each] : found) std::ranges::sort(each.times);
    return found;
}

} // namespace holdfast::campaign

#endif
