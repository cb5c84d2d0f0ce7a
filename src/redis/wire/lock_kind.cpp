#include "redis/wire/lock_kind.hpp"

#include "redis/wire/reply_handler.hpp"
#include "redis/wire/server_info.hpp"

#include <boost/hash2/sha1.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace holdfast::redis {

namespace {

// Few programs have fair locks, or locks on several keys. A server gets the scripts of fair_key and
// of set_key when it first needs them.
constexpr std::array<lock_kind const*, 1> loaded_kinds{
    &exclusive_key,
};

constexpr std::int64_t longest_ttl = 3'000'000'000'000;

std::string digest_of(std::string_view text) {
    boost::hash2::sha1_160 sha;
    sha.update(text.data(), text.size());
    return to_string(sha.result());
}

} // namespace

std::span<lock_kind const* const> lock_kinds() {
    return loaded_kinds;
}

script::script(std::string_view text)
    : text_(text)
    , digest_(digest_of(text)) {}

std::optional<bool> truth_of(element const& e) {
    if (e.type == reply_type::null) return false;
    if (e.type == reply_type::simple_string && e.value == "OK") return true;
    if (e.type != reply_type::number || e.value.size() != 1) return std::nullopt;
    if (e.value[0] == '1') return true;
    return e.value[0] == '0' ? std::optional(false) : std::nullopt;
}

std::int64_t number_of(std::string_view text) {
    std::int64_t n = 0;
    auto const* const end = text.data() + text.size();
    constexpr auto most = std::int64_t{1} << 53U;
    if (std::from_chars(text.data(), end, n).ec == std::errc::result_out_of_range)
        return text.starts_with('-') ? -most : most;
    return std::clamp(n, -most, most);
}

std::int64_t milliseconds_of(std::string_view text) {
    return std::clamp(number_of(text), -longest_ttl, longest_ttl);
}

void note_ttl(partial_answer& p, std::int64_t left) {
    p.answer.ttl_known = true;
    p.answer.ttl_left = std::chrono::milliseconds(std::min(left, longest_ttl));
}

void read_ttl(partial_answer& p, element const& e) {
    auto const left = e.type == reply_type::number ? milliseconds_of(e.value) : -2;
    p.answer.ttl_known = left >= -1;
    if (left >= 0) note_ttl(p, left);
}

namespace {

/// Whether the server refuses EVALSHA or EVAL itself, and not a command within the script.
bool refuses_script(std::string_view name, std::string_view error) {
    if (!name.starts_with("EVAL")) return false;
    auto const quoted = name.starts_with("EVALSHA") ? "'evalsha'" : "'eval'";
    auto const by_script =
        error.find("user_script") != error.npos || error.starts_with("ERR Error running script");
    return is_unknown_command(error) || (is_switched_off(error) && !by_script) ||
           (error.starts_with("NOPERM") && error.find(quoted) != error.npos);
}

} // namespace

void read_error(partial_answer& p, sent_command const& c, element const& e, protocol::verdict v,
                std::string_view name) {
    p.answer.verdict = v;
    p.answer.cause = classify(e.value);
    // The server names no key, and not always the command.
    auto const unavailable = is_unavailable(e.value);
    auto text = std::string(e.value);
    if (unavailable) {
        auto const key = shown_key(c.owner.arguments(c.command).key);
        text = std::string(name) + ' ' + key + ": " + text;
    }
    p.message = presentable(text, c);
    if (!c.words.in_cluster && (e.value.starts_with("MOVED ") || e.value.starts_with("ASK "))) {
        p.message += " (a node of a Cluster: its address must begin with redis+cluster)";
    }
    p.answer.message = p.message;
    auto lack = lack_of(c.command, c.fenced);
    if (e.value.starts_with("NOSCRIPT") && !c.words.whole_script) {
        p.again = rewording::whole_script;
    } else if (refuses_script(name, e.value)) {
        p.again = c.words.whole_script ? rewording::load_scripts : rewording::whole_scripts;
        if (!c.words.whole_script) lack = degradation::no_script_cache;
    }
    if (unavailable && p.again != rewording::load_scripts) {
        p.lack = lack;
        p.lack_reason = p.message;
    }
    // The server has become a replica since its probe. A later probe shows when it is a primary
    // again.
    if (p.answer.cause == errc::read_only) p.ends_session = p.answer.cause;
}

void read_lack(partial_answer& p, sent_command const& c, element const& e, std::string_view name,
               degradation lack) {
    if (is_passing(e.value) || classify(e.value) == errc::wrong_type) return;
    p.lack = lack;
    p.lack_reason = std::string(name) + ": " + presentable(e.value, c);
}

void read_nonsense(partial_answer& p) {
    p.message = "an answer to no command of this client";
    p.answer = {
        .verdict = protocol::verdict::unknown, .cause = errc::not_redis, .message = p.message};
    p.ends_session = errc::not_redis;
}

std::string shown_key(std::string_view key) {
    constexpr std::size_t most = 64;
    return '"' + std::string(key.substr(0, most)) + (key.size() > most ? "...\"" : "\"");
}

std::string presentable(std::string_view text, sent_command const& c) {
    return presentable(presentable(text, c.secrets), c.owner.arguments(c.command).token);
}

} // namespace holdfast::redis
