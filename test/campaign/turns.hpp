// G48: the processes of a fair lock get it in the order in which they asked.
#ifndef HOLDFAST_TEST_CAMPAIGN_TURNS_HPP
#define HOLDFAST_TEST_CAMPAIGN_TURNS_HPP

#include "campaign/history.hpp"
#include "campaign/judge.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::campaign {

/// The keys whose turns are judged begin so. Each process has one coroutine for such a key, which
/// waits until it has it, because a client that gives up and comes back changes the order.
inline constexpr std::string_view turns_prefix = "turns";
/// What a process that asks needs to stand in line.
inline constexpr moment joins_line = 100ms;

struct turns {
    std::uint64_t judged = 0;       ///< pairs that waited at the same time
    std::vector<std::string> out{}; ///< those in which the later one came first

    /// An instance that is late now and then changes the order. Without a line, more than a quarter
    /// of them are out of turn.
    bool disorderly() const { return judged >= 30 && out.size() * 100 > judged * 15; }
};

/// Around each release in whose moment a process begins to wait. `all`: of one key.
inline std::vector<window> askers_at_releases(std::vector<claim const*> const& all) {
    constexpr moment before = 10ms, after = 150ms;
    std::vector<window> found;
    for (auto const* const asks : all)
        for (auto const* const ends : all)
            if (asks->asked > ends->ends - before && asks->asked < ends->ends + after)
                found.push_back({ends->ends - before, ends->ends + after});
    return found;
}

inline std::string text_of_turn(claim const& early, claim const& late) {
    auto const ms = [](moment t) { return std::to_string(t.count() / 1'000); };
    return "the key " + early.key + " went to a process that had waited for " +
           ms(late.begins - late.asked) + " ms, and not to one that had waited for " +
           ms(late.begins - early.asked) + " ms and went on for " + ms(early.begins - late.begins);
}

/// `disturbed`: times of faults and of their consequences, in which G48 promises nothing.
inline turns look_at_turns(std::vector<claim> const& claims, std::vector<window> const& disturbed) {
    std::map<std::string, std::vector<claim const*>> by_key;
    for (auto const& c : claims)
        if (c.key.starts_with(turns_prefix) && c.waited) by_key[c.key].push_back(&c);
    turns found;
    for (auto& [key, all] : by_key) {
        std::ranges::sort(all, {}, &claim::asked);
        auto excluded = askers_at_releases(all);
        excluded.insert(excluded.end(), disturbed.begin(), disturbed.end());
        for (auto first = all.begin(); first != all.end(); ++first) {
            for (auto next = first + 1; next != all.end(); ++next) {
                auto const &early = **first, &late = **next;
                if (late.asked >= early.begins) break;
                auto const ends = std::max(early.begins, late.begins);
                auto const disturbs = [&](window const& w) {
                    return w.from < ends && w.to > early.asked;
                };
                if (early.client == late.client || late.asked < early.asked + joins_line ||
                    std::ranges::any_of(excluded, disturbs))
                    continue;
                ++found.judged;
                if (late.begins < early.begins) found.out.push_back(text_of_turn(early, late));
            }
        }
    }
    return found;
}

} // namespace holdfast::campaign

#endif
