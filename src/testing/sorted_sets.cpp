#include "testing/sorted_sets.hpp"

#include "testing/data_commands.hpp"
#include "testing/lua_number.hpp"
#include "testing/typed_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::testing {

namespace {

using sorted_set = database::sorted_set;

constexpr auto infinity = std::numeric_limits<double>::infinity();

/// A score as a server reads it, which is no nan.
std::optional<double> to_score(std::string_view text) {
    auto const word = lower(text);
    if (word == "inf" || word == "+inf") return infinity;
    if (word == "-inf") return -infinity;
    auto const n = to_number(text);
    return n && !std::isnan(*n) && text == text.substr(0, text.find_first_of(" \f\n\r\t\v"))
               ? n
               : std::nullopt;
}

/// A range of scores, as `-inf 5` or `0 (5`.
class score_range {
public:
    score_range(std::string_view least, std::string_view most)
        : least_(read(least))
        , most_(read(most)) {}
    bool is_valid() const { return least_.n && most_.n; }
    bool has(double score) const {
        return (least_.open ? score > *least_.n : score >= *least_.n) &&
               (most_.open ? score < *most_.n : score <= *most_.n);
    }

private:
    struct bound {
        bool open;
        std::optional<double> n;
    };
    static bound read(std::string_view text) {
        auto const open = text.starts_with('(');
        return {open, to_score(text.substr(open ? 1 : 0))};
    }
    bound least_, most_;
};

reply no_range() {
    return reply::error("ERR min or max is not a float");
}

reply score(double n) {
    return reply::real(to_argument(n));
}

std::vector<std::pair<double, std::string>> by_score(sorted_set const& all) {
    std::vector<std::pair<double, std::string>> sorted;
    for (auto const& [member, score] : all) sorted.emplace_back(score, member);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

} // namespace

reply zadd(database& d, command_line const& words) {
    auto existing = false, greater = false, changes = false;
    std::size_t first = 2;
    for (; first < words.size(); ++first) {
        auto const option = lower(words[first]);
        if (option == "xx") {
            existing = true;
        } else if (option == "gt") {
            greater = true;
        } else if (option == "ch") {
            changes = true;
        } else {
            break;
        }
    }
    if (first == words.size() || (words.size() - first) % 2 != 0)
        return reply::error("ERR syntax error");
    std::size_t size = 0;
    for (auto i = first; i < words.size(); i += 2) {
        if (!to_score(words[i])) return reply::error("ERR value is not a valid float");
        size += words[i + 1].size();
    }
    auto const there = look_up<sorted_set>(d, words[1]);
    if (there.wrong) return wrong_type();
    if (!d.has_room(size)) return no_room();
    // A command that changes nothing makes no key, and tells nobody of a change.
    sorted_set after = there.value == nullptr ? sorted_set() : *there.value;
    std::int64_t added = 0, changed = 0;
    for (auto i = first; i < words.size(); i += 2) {
        auto const score = *to_score(words[i]);
        auto const at = after.find(words[i + 1]);
        if (at == after.end()) {
            if (existing) continue;
            after.emplace(words[i + 1], score);
            ++added;
        } else if (at->second != score && (!greater || score > at->second)) {
            at->second = score;
            ++changed;
        }
    }
    if (added + changed != 0 || !(existing || greater))
        d.edit<sorted_set>(words[1], [&](sorted_set& all) { all = std::move(after); });
    return reply::integer(changes ? added + changed : added);
}

reply zcard(database& d, command_line const& words) {
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    return reply::integer(all.value == nullptr ? 0 : static_cast<std::int64_t>(all.value->size()));
}

reply zcount(database& d, command_line const& words) {
    score_range const range(words[2], words[3]);
    if (!range.is_valid()) return no_range();
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::integer(0);
    return reply::integer(std::count_if(all.value->begin(), all.value->end(),
                                        [&](auto const& m) { return range.has(m.second); }));
}

reply zrangebyscore(database& d, command_line const& words) {
    score_range const range(words[2], words[3]);
    if (!range.is_valid()) return no_range();
    auto const limited = words.size() == 7 && lower(words[4]) == "limit";
    if (words.size() > 4 && !limited) return reply::error("ERR syntax error");
    auto left = limited ? to_integer(words[6]) : -1;
    auto skipped = limited ? to_integer(words[5]) : 0;
    if (!left || !skipped) return not_an_integer();
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    std::vector<reply> parts;
    if (all.value == nullptr || *skipped < 0) return reply::list(reply::kind::array, {});
    for (auto const& [its_score, member] : by_score(*all.value)) {
        if (!range.has(its_score) || (*skipped)-- > 0) continue;
        if ((*left)-- == 0) break;
        parts.push_back(reply::bulk(member));
    }
    return reply::list(reply::kind::array, std::move(parts));
}

reply zscore(database& d, command_line const& words) {
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::null();
    auto const at = all.value->find(words[2]);
    return at == all.value->end() ? reply::null() : score(at->second);
}

reply zrange(database& d, command_line const& words) {
    auto const from = to_integer(words[2]), to = to_integer(words[3]);
    auto const with_scores = words.size() == 5 && lower(words[4]) == "withscores";
    if (words.size() > 4 && !with_scores) return reply::error("ERR syntax error");
    if (!from || !to) return not_an_integer();
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    auto const sorted = all.value == nullptr ? by_score({}) : by_score(*all.value);
    auto const size = static_cast<std::int64_t>(sorted.size());
    auto const begin = std::max(*from < 0 ? *from + size : *from, std::int64_t{0});
    auto const end = std::min(*to < 0 ? *to + size : *to, size - 1);
    std::vector<reply> parts;
    for (auto i = begin; i <= end; ++i) {
        auto const& [its_score, member] = sorted[static_cast<std::size_t>(i)];
        parts.push_back(reply::bulk(member));
        if (with_scores) parts.push_back(score(its_score));
    }
    return reply::list(with_scores ? reply::kind::pairs : reply::kind::array, std::move(parts));
}

reply zrem(database& d, command_line const& words) {
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::integer(0);
    auto left = *all.value;
    for (auto i = words.begin() + 2; i != words.end(); ++i) left.erase(*i);
    auto const removed = all.value->size() - left.size();
    if (removed != 0) d.edit<sorted_set>(words[1], [&](sorted_set& s) { s = std::move(left); });
    return reply::integer(static_cast<std::int64_t>(removed));
}

reply zremrangebyscore(database& d, command_line const& words) {
    score_range const range(words[2], words[3]);
    if (!range.is_valid()) return no_range();
    auto const all = look_up<sorted_set>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::integer(0);
    auto left = *all.value;
    std::erase_if(left, [&](auto const& m) { return range.has(m.second); });
    auto const removed = all.value->size() - left.size();
    if (removed != 0) d.edit<sorted_set>(words[1], [&](sorted_set& s) { s = std::move(left); });
    return reply::integer(static_cast<std::int64_t>(removed));
}

} // namespace holdfast::testing
