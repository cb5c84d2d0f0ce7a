#include "redis/scan/key_scan.hpp"

#include "redis/wire/server_info.hpp"
#include "redis/wire/token.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

/// The pattern of all names with this prefix. Four characters have a meaning in a pattern.
std::string pattern_of(std::string_view prefix) {
    std::string pattern;
    pattern.reserve(prefix.size() + 1);
    for (auto const c : prefix) {
        if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
        pattern += c;
    }
    pattern += '*';
    return pattern;
}

void encode_scan(codec::request& request, command, wording, command_args const& a) {
    auto const pattern = pattern_of(a.key);
    if (a.permits == 0) {
        request.push("SCAN", a.number, "MATCH", pattern, "COUNT", keys_per_scan, "TYPE", "string");
    } else {
        request.push("SCAN", a.number, "MATCH", '*' + pattern + ":until*", "COUNT", keys_per_scan,
                     "TYPE", "zset");
    }
}

std::uint8_t replies_to_scan(command, wording) {
    return 1;
}

bool is_string(reply_type t) {
    return t == reply_type::blob_string || t == reply_type::simple_string;
}

void refuse(partial_answer& p) {
    p.message = "SCAN: the reply is no cursor and list of keys";
    p.answer = {.verdict = verdict::refused, .cause = errc::not_redis, .message = p.message};
}

/// The cursor, which comes before the keys. It has 64 bits, and means nothing to us.
void read_cursor(partial_answer& p, element const& e) {
    auto const* const end = e.value.data() + e.value.size();
    auto const read = std::from_chars(e.value.data(), end, p.answer.number);
    if (!is_string(e.type) || read.ec != std::errc{} || read.ptr != end) return refuse(p);
    p.answer.verdict = verdict::no;
}

// The verdict tells how far the reply is read: `unknown` before the cursor, `no` before the keys,
// `yes` within the keys. A reply that ends before `yes` has no keys, and is refused.
void read_part(partial_answer& p, element const& e) {
    auto& a = p.answer;
    if (e.depth == 1 && a.verdict == verdict::unknown) return read_cursor(p, e);
    if (e.depth == 1 && a.verdict == verdict::no && e.type == reply_type::array) {
        a.verdict = verdict::yes;
        a.cause = {};
        a.message = {};
        a.value = std::string_view();
        return;
    }
    if (e.depth != 2 || a.verdict != verdict::yes || !is_string(e.type)) return refuse(p);
    auto const size = static_cast<packed_size>(e.value.size());
    p.text.append(reinterpret_cast<char const*>(&size), sizeof size);
    p.text.append(e.value);
    a.value = p.text;
}

void read_scan(partial_answer& p, sent_command const& c, unsigned, element const& e) {
    if (e.depth > 0) {
        if (p.answer.verdict != verdict::refused) read_part(p, e);
        return;
    }
    p.text.clear();
    refuse(p);
    if (is_error(e.type)) {
        p.message = "SCAN: " + presentable(e.value, c);
        p.answer.cause = classify(e.value);
        p.answer.message = p.message;
    } else if (e.type == reply_type::array) {
        p.answer.verdict = verdict::unknown;
    }
}

bool is_random(std::string_view text) {
    return text.size() == token::digits && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

/// True if the text has a hash tag. These names have that of their lock, or braces around the key.
bool is_tagged(std::string_view text) {
    if (text.size() > 2 && text.starts_with('{') && text.ends_with('}')) return true;
    auto const open = text.find('{');
    auto const close = open == text.npos ? text.npos : text.find('}', open);
    return close != text.npos && close > open + 1;
}

} // namespace

constinit lock_kind const key_scan{
    .scripts = {}, .replies = replies_to_scan, .encode = encode_scan, .read = read_scan};

bool is_beside_a_lock(std::string_view name) {
    constexpr std::string_view fence = ":fence", line = ":queue";
    if (name.ends_with(fence)) return is_tagged(name.substr(0, name.size() - fence.size()));
    auto own = name; // without the way of naming
    for (auto const* const form : {":own", ":slot"}) {
        if (!own.ends_with(form)) continue;
        own.remove_suffix(std::string_view(form).size());
        break;
    }
    for (auto const* const suffix :
         {":queue", ":readers", ":intent", ":turn", ":until", ":fences"}) {
        if (own.ends_with(suffix))
            return is_tagged(own.substr(0, own.size() - std::string_view(suffix).size()));
    }
    auto const at = name.rfind(line);
    if (at == name.npos || !is_tagged(name.substr(0, at))) return false;
    auto rest = name.substr(at + line.size());
    for (auto const* const form : {":own", ":slot"}) {
        if (rest.starts_with(form)) rest.remove_prefix(std::string_view(form).size());
    }
    // A call: the line, a colon and the token.
    return rest.size() > token::digits && rest[0] == ':' &&
           is_random(rest.substr(rest.size() - token::digits));
}

std::string_view semaphore_of(std::string_view name) {
    constexpr std::string_view own = ":until:own", braces = ":until", slot = ":until:slot";
    auto const without = [&](std::string_view suffix) {
        return name.substr(0, name.size() - suffix.size());
    };
    if (name.ends_with(own)) return is_tagged(without(own)) ? without(own) : std::string_view();
    if (name.ends_with(slot)) {
        constexpr std::size_t tag = 6; // four letters in braces
        auto const rest = without(slot);
        return rest.size() > tag && rest[0] == '{' && rest[tag - 1] == '}' ? rest.substr(tag)
                                                                           : std::string_view();
    }
    auto const rest = name.ends_with(braces) ? without(braces) : std::string_view();
    return rest.size() > 2 && rest.starts_with('{') && rest.ends_with('}')
               ? rest.substr(1, rest.size() - 2)
               : std::string_view();
}

} // namespace holdfast::redis
