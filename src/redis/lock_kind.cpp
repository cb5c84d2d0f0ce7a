#include "redis/lock_kind.hpp"

#include "redis/exclusive_key.hpp"
#include "redis/server_info.hpp"

#include <boost/hash2/sha1.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace holdfast::redis {

namespace {

constexpr std::array<lock_kind const*, 1> all_kinds{
    &exclusive_key,
};

// In milliseconds, about a hundred years. A longer ttl may not fit our clock.
constexpr std::int64_t longest_ttl = 3'000'000'000'000;

std::string digest_of(std::string_view text) {
    boost::hash2::sha1_160 sha;
    sha.update(text.data(), text.size());
    return to_string(sha.result());
}

} // namespace

std::span<lock_kind const* const> lock_kinds() {
    return all_kinds;
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
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}

void read_ttl(partial_answer& p, element const& e) {
    auto const left = e.type == reply_type::number ? std::min(number_of(e.value), longest_ttl) : -2;
    p.answer.ttl_known = left >= -1;
    if (left >= 0) p.answer.ttl_left = std::chrono::milliseconds(left);
}

void read_error(partial_answer& p, sent_command const& c, element const& e, protocol::verdict v) {
    p.unknown_script = e.value.starts_with("NOSCRIPT");
    p.message = presentable(e.value, c);
    p.answer.verdict = v;
    p.answer.cause = classify(e.value);
    p.answer.message = p.message;
    // The server has become a replica since its probe. A later probe shows when it is a primary
    // again.
    if (p.answer.cause == errc::read_only) p.ends_session = p.answer.cause;
}

void read_nonsense(partial_answer& p) {
    p.message = "an answer to no command of this client";
    p.answer = {
        .verdict = protocol::verdict::unknown, .cause = errc::not_redis, .message = p.message};
    p.ends_session = errc::not_redis;
}

std::string presentable(std::string_view text, sent_command const& c) {
    return presentable(presentable(text, c.secret), c.owner.arguments(c.command).token);
}

} // namespace holdfast::redis
