#include "testing/data_commands.hpp"

#include "testing/key_search.hpp"
#include "testing/sorted_sets.hpp"
#include "testing/typed_values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

namespace holdfast::testing {

namespace {

constexpr auto largest = std::numeric_limits<std::int64_t>::max();

reply invalid_expiry(std::string_view command) {
    return reply::error("ERR invalid expire time in '" + std::string(command) + "' command");
}

//
// Strings
//

reply get(database& d, command_line const& words) {
    auto const text = look_up<std::string>(d, words[1]);
    if (text.wrong) return wrong_type();
    return text.value == nullptr ? reply::null() : reply::bulk(*text.value);
}

reply set(database& d, command_line const& words) {
    auto only_new = false, only_old = false, keeps = false;
    std::string unit, amount;
    for (std::size_t i = 3; i < words.size(); ++i) {
        auto const option = lower(words[i]);
        if (option == "nx" && !only_old) {
            only_new = true;
        } else if (option == "xx" && !only_new) {
            only_old = true;
        } else if (option == "keepttl" && unit.empty()) {
            keeps = true;
        } else if ((option == "px" || option == "ex") && unit.empty() && !keeps &&
                   i + 1 < words.size()) {
            unit = option;
            amount = words[++i];
        } else {
            return reply::error("ERR syntax error");
        }
    }
    std::optional<std::int64_t> expires;
    if (!unit.empty()) {
        auto const n = to_integer(amount);
        if (!n) return not_an_integer();
        auto const factor = std::int64_t{unit == "ex" ? 1'000 : 1};
        if (*n <= 0 || *n > largest / factor || *n * factor > largest - d.now())
            return invalid_expiry("set");
        expires = d.now() + *n * factor;
    }
    auto const there = d.find(words[1]) != nullptr;
    if (keeps && there) expires = d.expiry(words[1]);
    if ((only_new && there) || (only_old && !there)) return reply::null();
    if (!d.has_room(words[1].size() + words[2].size())) return no_room();
    d.set(words[1], words[2], expires);
    return reply::ok();
}

reply getrange(database& d, command_line const& words) {
    auto from = to_integer(words[2]), to = to_integer(words[3]);
    if (!from || !to) return not_an_integer();
    auto const text = look_up<std::string>(d, words[1]);
    if (text.wrong) return wrong_type();
    if (text.value == nullptr || (*from < 0 && *to < 0 && *from > *to)) return reply::bulk("");
    auto const size = static_cast<std::int64_t>(text.value->size());
    auto const begin = std::max(*from < 0 ? *from + size : *from, std::int64_t{0});
    auto const end = std::min(std::max(*to < 0 ? *to + size : *to, std::int64_t{0}), size - 1);
    if (begin > end || size == 0) return reply::bulk("");
    return reply::bulk(text.value->substr(static_cast<std::size_t>(begin),
                                          static_cast<std::size_t>(end - begin + 1)));
}

//
// All keys
//

reply del(database& d, command_line const& words) {
    return reply::integer(std::count_if(words.begin() + 1, words.end(),
                                        [&](auto const& key) { return d.erase(key); }));
}

reply exists(database& d, command_line const& words) {
    return reply::integer(std::count_if(words.begin() + 1, words.end(),
                                        [&](auto const& key) { return d.find(key) != nullptr; }));
}

reply type(database& d, command_line const& words) {
    auto const* const v = d.find(words[1]);
    if (v == nullptr) return reply::status("none");
    return reply::status(std::string(type_name(*v)));
}

reply pttl(database& d, command_line const& words) {
    if (d.find(words[1]) == nullptr) return reply::integer(-2);
    auto const expires = d.expiry(words[1]);
    return reply::integer(expires ? *expires - d.now() : -1);
}

reply pexpire(database& d, command_line const& words) {
    auto const n = to_integer(words[2]);
    if (!n) return not_an_integer();
    if (*n > largest - d.now()) return invalid_expiry("pexpire");
    if (d.find(words[1]) == nullptr) return truth(false);
    if (*n <= 0) return truth(d.erase(words[1]));
    d.expire_at(words[1], d.now() + *n);
    return truth(true);
}

//
// Lists
//

template <bool Front>
reply push(database& d, command_line const& words) {
    if (look_up<database::list>(d, words[1]).wrong) return wrong_type();
    std::size_t added = 0;
    for (auto const& word : words) added += word.size();
    if (!d.has_room(added)) return no_room();
    std::size_t size = 0;
    d.edit<database::list>(words[1], [&](database::list& all) {
        for (auto word = words.begin() + 2; word != words.end(); ++word) {
            Front ? all.push_front(*word) : all.push_back(*word);
        }
        size = all.size();
    });
    return reply::integer(static_cast<std::int64_t>(size));
}

reply lpop(database& d, command_line const& words) {
    auto const all = look_up<database::list>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::null();
    auto first = all.value->front();
    d.edit<database::list>(words[1], [](database::list& l) { l.pop_front(); });
    return reply::bulk(std::move(first));
}

reply lindex(database& d, command_line const& words) {
    auto const all = look_up<database::list>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::null();
    auto const n = to_integer(words[2]);
    if (!n) return not_an_integer();
    auto const size = static_cast<std::int64_t>(all.value->size());
    auto const at = *n < 0 ? *n + size : *n;
    if (at < 0 || at >= size) return reply::null();
    return reply::bulk((*all.value)[static_cast<std::size_t>(at)]);
}

reply lpos(database& d, command_line const& words) {
    auto const all = look_up<database::list>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return reply::null();
    auto const at = std::find(all.value->begin(), all.value->end(), words[2]);
    return at == all.value->end() ? reply::null() : reply::integer(at - all.value->begin());
}

reply lrem(database& d, command_line const& words) {
    auto const n = to_integer(words[2]);
    if (!n) return not_an_integer();
    auto const all = look_up<database::list>(d, words[1]);
    if (all.wrong) return wrong_type();
    if (all.value == nullptr) return truth(false);
    std::int64_t const found = std::count(all.value->begin(), all.value->end(), words[3]);
    if (found == 0) return truth(false);
    // So many from the front, or from the back if the number is negative. Zero: all.
    auto const backwards = *n < 0;
    auto const most = *n == 0 ? found : backwards ? -std::max(*n, -found) : std::min(*n, found);
    d.edit<database::list>(words[1], [&](database::list& l) {
        if (backwards) std::reverse(l.begin(), l.end());
        for (std::int64_t i = 0; i < most; ++i) l.erase(std::find(l.begin(), l.end(), words[3]));
        if (backwards) std::reverse(l.begin(), l.end());
    });
    return reply::integer(most);
}

//
// The database
//

reply dbsize(database& d, command_line const&) {
    return reply::integer(static_cast<std::int64_t>(d.count()));
}

reply time(database&, command_line const&) {
    auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    constexpr auto second = std::int64_t{1'000'000};
    return reply::list(reply::kind::array, {reply::bulk(std::to_string(now / second)),
                                            reply::bulk(std::to_string(now % second))});
}

constexpr std::array commands{
    data_command{"dbsize", 1, dbsize},
    data_command{"del", -2, del},
    data_command{"exists", -2, exists, true},
    data_command{"get", 2, get, true},
    data_command{"getrange", 4, getrange, true},
    data_command{"lindex", 3, lindex, true},
    data_command{"lpop", 2, lpop},
    data_command{"lpos", 3, lpos, true},
    data_command{"lpush", -3, push<true>},
    data_command{"lrem", 4, lrem},
    data_command{"pexpire", 3, pexpire},
    data_command{"pttl", 2, pttl, true},
    data_command{"rpush", -3, push<false>},
    data_command{"scan", -2, scan},
    data_command{"set", -3, set},
    data_command{"time", 1, time},
    data_command{"type", 2, type, true},
    data_command{"zadd", -4, zadd},
    data_command{"zcard", 2, zcard, true},
    data_command{"zcount", 4, zcount, true},
    data_command{"zrange", -4, zrange, true},
    data_command{"zrangebyscore", -4, zrangebyscore, true},
    data_command{"zrem", -3, zrem},
    data_command{"zremrangebyscore", 4, zremrangebyscore},
    data_command{"zscore", 3, zscore, true},
};

} // namespace

std::string lower(std::string_view text) {
    std::string result(text);
    for (auto& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return result;
}

std::optional<std::int64_t> to_integer(std::string_view text) {
    std::int64_t n = 0;
    auto const* const end = text.data() + text.size();
    auto const read = std::from_chars(text.data(), end, n);
    // What is not in its shortest form is no integer for a server.
    if (read.ec != std::errc{} || read.ptr != end || std::to_string(n) != text) return std::nullopt;
    return n;
}

reply wrong_arity(std::string_view name) {
    return reply::error("ERR wrong number of arguments for '" + lower(name) + "' command");
}

reply not_an_integer() {
    return reply::error("ERR value is not an integer or out of range");
}

data_command const* find_data_command(std::string_view name) {
    auto const wanted = lower(name);
    auto const* const found = std::find_if(commands.begin(), commands.end(),
                                           [&](data_command const& c) { return c.name == wanted; });
    return found == commands.end() ? nullptr : found;
}

std::optional<reply> run_data_command(database& d, command_line const& words) {
    auto const* const c = find_data_command(words.front());
    if (c == nullptr) return std::nullopt;
    if (!has_arity(words.size(), c->words)) return wrong_arity(c->name);
    return c->run(d, words);
}

} // namespace holdfast::testing
