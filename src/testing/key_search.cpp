#include "testing/key_search.hpp"

#include "testing/data_commands.hpp"
#include "testing/typed_values.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::testing {

namespace {

/// Keys are visited in the order of these numbers, and a cursor is the number of the next key. So a
/// key that stays is visited, whatever other keys come and go.
std::uint64_t place_of(std::string_view key) {
    std::uint64_t hash = 14'695'981'039'346'656'037U; // FNV-1a
    for (auto const c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
    return hash;
}

bool between(char low, char c, char high) {
    auto const code = [](char x) { return static_cast<unsigned char>(x); };
    auto const [least, most] = std::minmax({code(low), code(high)});
    return least <= code(c) && code(c) <= most;
}

/// Matches the set at the beginning of the pattern, and removes it. A set may lack its end.
bool takes_set(std::string_view& pattern, char c) {
    pattern.remove_prefix(1);
    auto const inverted = pattern.starts_with('^');
    if (inverted) pattern.remove_prefix(1);
    auto found = false;
    while (!pattern.empty() && pattern[0] != ']') {
        if (pattern[0] == '\\' && pattern.size() >= 2) {
            pattern.remove_prefix(1);
            found = found || pattern[0] == c;
        } else if (pattern.size() >= 3 && pattern[1] == '-') {
            found = found || between(pattern[0], c, pattern[2]);
            pattern.remove_prefix(2);
        } else {
            found = found || pattern[0] == c;
        }
        pattern.remove_prefix(1);
    }
    if (!pattern.empty()) pattern.remove_prefix(1);
    return found != inverted;
}

struct search {
    std::uint64_t cursor = 0;
    std::size_t count = 10;
    std::string pattern = "*", type{};
};

/// An error, or null.
reply read_options(search& s, command_line const& words) {
    auto const* const end = words[1].data() + words[1].size();
    auto const read = std::from_chars(words[1].data(), end, s.cursor);
    if (read.ec != std::errc{} || read.ptr != end) return reply::error("ERR invalid cursor");
    for (std::size_t i = 2; i < words.size(); i += 2) {
        auto const option = lower(words[i]);
        if (i + 1 == words.size()) return reply::error("ERR syntax error");
        auto const& value = words[i + 1];
        if (option == "match") {
            s.pattern = value;
        } else if (option == "type") {
            s.type = lower(value);
        } else if (option == "count") {
            auto const n = to_integer(value);
            if (!n) return not_an_integer();
            if (*n < 1) return reply::error("ERR syntax error");
            s.count = static_cast<std::size_t>(*n);
        } else {
            return reply::error("ERR syntax error");
        }
    }
    return reply::null();
}

} // namespace

// Goes back to the last star alone, so the time is at most the product of both sizes.
bool matches(std::string_view pattern, std::string_view text) {
    std::string_view after_star, from;
    auto starred = false;
    for (;;) {
        auto fits = false;
        if (pattern.starts_with('*')) {
            pattern.remove_prefix(1);
            after_star = pattern;
            from = text;
            starred = true;
            continue;
        }
        if (text.empty() && pattern.empty()) return true;
        if (!text.empty() && !pattern.empty()) {
            if (pattern[0] == '[') {
                fits = takes_set(pattern, text[0]);
            } else {
                auto const any = pattern[0] == '?';
                if (pattern[0] == '\\' && pattern.size() >= 2) pattern.remove_prefix(1);
                fits = any || pattern[0] == text[0];
                pattern.remove_prefix(1);
            }
            text.remove_prefix(1);
        }
        if (fits) continue;
        if (!starred || from.empty()) return false;
        from.remove_prefix(1);
        text = from;
        pattern = after_star;
    }
}

reply scan(database& d, command_line const& words) {
    search s;
    if (auto error = read_options(s, words); error.is_error()) return error;
    std::vector<std::pair<std::uint64_t, std::string>> left;
    for (auto& key : d.keys()) {
        if (auto const place = place_of(key); place >= s.cursor)
            left.emplace_back(place, std::move(key));
    }
    std::ranges::sort(left);
    // Keys with one number are visited together.
    auto end = std::min(s.count, left.size());
    while (end < left.size() && left[end].first == left[end - 1].first) ++end;
    std::vector<reply> found;
    for (std::size_t i = 0; i < end; ++i) {
        auto& key = left[i].second;
        auto const type = type_name(*d.find(key));
        if ((s.type.empty() || s.type == type) && matches(s.pattern, key))
            found.push_back(reply::bulk(std::move(key)));
    }
    auto const next = end < left.size() ? left[end].first : 0;
    return reply::list(reply::kind::array, {reply::bulk(std::to_string(next)),
                                            reply::list(reply::kind::array, std::move(found))});
}

} // namespace holdfast::testing
