// For how long nobody got a lock because of a fault.
#ifndef HOLDFAST_TEST_CAMPAIGN_RECOVERY_HPP
#define HOLDFAST_TEST_CAMPAIGN_RECOVERY_HPP

#include "campaign/history.hpp"
#include "campaign/picture.hpp"
#include "campaign/plan.hpp"
#include "campaign/turns.hpp"

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
    std::string lock{};          ///< with the worst time

    moment worst() const { return times.back(); }
    std::string text() const {
        return "median " + in_ms(times[times.size() / 2]) + " ms, worst " + in_ms(worst()) + " ms" +
               (lock.empty() ? "" : " (" + lock + ')') + ", bound " + in_ms(bound) + " ms";
    }

private:
    static std::string in_ms(moment t) { return std::to_string(t.count() / 1'000); }
};

/// The locks that need this key.
inline std::vector<std::string> locks_of(std::string const& key) {
    std::vector<std::string> all;
    for (auto const& keys : key_sets) {
        if (std::ranges::find(keys, key) == keys.end()) continue;
        std::string name;
        for (auto const& each : keys) name += name.empty() ? each : '+' + each;
        all.push_back(name);
    }
    if (all.empty() || key == key_with_own_lock) all.push_back(key);
    return all;
}

/// For each kind of fault, the longest time for which a lock had no holder that was seen, of those
/// times that begin in the fault or soon after it. All clients want the locks that exclude each
/// other all the time, so that is how long a dead holder's lease and the servers kept them from it.
/// Of a lock on several keys, none has a holder then: else its clients may have to wait.
///
/// Beyond the bound of the fault, a process that died in the line of a fair lock costs a
/// reservation (doc/internals/waiting.md), and the next holder may not have run for a while.
inline std::map<std::string, recovery> recoveries(std::vector<claim> const& claims,
                                                  std::vector<fault_time> const& faults,
                                                  std::vector<pause> const& pauses, moment soon) {
    static constexpr moment reservation = 200ms;
    constexpr std::size_t often = 20;
    constexpr moment between_looks = 40ms; // of a holder at its lease
    std::map<std::string, std::vector<claim const*>> by_lock;
    for (auto const& c : claims) {
        if (c.how != lock_access::exclusive) continue;
        for (auto const& name : locks_of(c.key)) by_lock[name].push_back(&c);
    }
    struct gap {
        moment from, to;
        claim const* next;
        bool fair;
        std::string const* lock;

        moment length() const { return to - from; }
        moment allowance(std::vector<pause> const& pauses) const {
            moment longest{0};
            for (auto const& p : pauses)
                if (p.client == next->client)
                    longest = std::max(longest, std::min(p.to, to) - std::max(p.from, from));
            return longest + (fair ? reservation : moment(0));
        }
    };
    std::vector<gap> gaps;
    for (auto& [name, all] : by_lock) {
        if (all.size() < often) continue;
        std::ranges::sort(all, {}, &claim::begins);
        auto const fair = name.starts_with("fair") || name.starts_with(turns_prefix);
        auto ended = all.front()->ends;
        for (auto const* const c : all) {
            if (c->begins > ended) gaps.push_back({ended, c->begins, c, fair, &name});
            ended = std::max(ended, c->ends);
        }
    }
    std::map<std::string, recovery> found;
    for (auto const& f : faults) {
        auto& of_kind = found[f.name];
        gap const* worst = nullptr;
        for (auto const& g : gaps) {
            if (g.from <= f.from - between_looks || g.from > f.to + soon) continue;
            if (worst == nullptr || g.length() > worst->length()) worst = &g;
            if (auto const late = g.length() - f.bound; late > of_kind.beyond)
                of_kind.beyond = std::max(of_kind.beyond, late - g.allowance(pauses));
        }
        auto const longest = worst != nullptr ? worst->length() : moment(0);
        auto const is_shorter = [&](moment t) { return t < longest; };
        if (std::ranges::all_of(of_kind.times, is_shorter) && worst != nullptr)
            of_kind.lock = *worst->lock;
        of_kind.times.push_back(longest);
        of_kind.bound = std::max(of_kind.bound, f.bound);
    }
    for (auto& [name, each] : found) std::ranges::sort(each.times);
    return found;
}

} // namespace holdfast::campaign

#endif
