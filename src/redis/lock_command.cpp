#include "redis/lock_command.hpp"

#include "protocol/fence.hpp"
#include "redis/scripts.hpp"
#include "redis/server_info.hpp"
#include "redis/token.hpp"

#include <boost/hash2/sha1.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

namespace holdfast::redis {

namespace {

// In milliseconds, about a hundred years. A ttl that does not fit our clock is of no use.
constexpr std::int64_t longest_ttl = 3'000'000'000'000;

std::int64_t to_number(std::string_view text) {
    std::int64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}

/// OK or null from SET, 1 or 0 from a script or a native delete; empty for any other reply.
std::optional<bool> truth(element const& e) {
    if (e.type == reply_type::null) return false;
    if (e.type == reply_type::simple_string && e.value == "OK") return true;
    if (e.type != reply_type::number || e.value.size() != 1) return std::nullopt;
    if (e.value[0] == '1') return true;
    return e.value[0] == '0' ? std::optional(false) : std::nullopt;
}

// A script is known to the server by the SHA-1 of its text.
std::string digest(std::string_view script) {
    boost::hash2::sha1_160 sha;
    sha.update(script.data(), script.size());
    return to_string(sha.result());
}

void encode_script(codec::request& to, std::string_view script, std::string const& sha, bool whole,
                   int keys, auto const&... keys_and_arguments) {
    if (whole) {
        to.push("EVAL", script, keys, keys_and_arguments...);
    } else {
        to.push("EVALSHA", sha, keys, keys_and_arguments...);
    }
}

/// Valid until the next call.
std::string_view fence_key(std::string_view key) {
    static thread_local std::string name;
    name_fence_key(name, key);
    return name;
}

void encode_acquire(codec::request& to, command_args const& s, bool whole) {
    static std::string const sha = digest(fenced_acquire_script);
    if (s.fenced()) {
        encode_script(to, fenced_acquire_script, sha, whole, 2, s.key, fence_key(s.key), s.token,
                      s.ttl.count(), s.number, s.fence_ttl.count());
    } else {
        to.push("SET", s.key, s.token, "NX", "PX", s.ttl.count());
    }
}

} // namespace

void name_fence_key(std::string& name, std::string_view key) {
    // https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ ("Hash tags")
    auto const open = key.find('{');
    auto const close = open == key.npos ? key.npos : key.find('}', open);
    auto const tagged = close != key.npos && close > open + 1;
    name.clear();
    if (!tagged) name += '{';
    name += key;
    name += tagged ? ":fence" : "}:fence";
}

void encode(codec::request& to, protocol::command c, wording w, command_args const& s) {
    static std::string const release_sha = digest(release_script);
    static std::string const extend_sha = digest(extend_script);
    static std::string const raise_sha = digest(raise_script);
    using protocol::command;
    switch (c) {
    case command::contend:
        encode_acquire(to, s, w.whole_script);
        if (w.tracked) to.push("CLIENT", "CACHING", "YES");
        to.push("PTTL", s.key);
        break;
    case command::watch:
        if (w.tracked) to.push("CLIENT", "CACHING", "YES");
        to.push("PTTL", s.key);
        break;
    case command::acquire:
    case command::heal:
        encode_acquire(to, s, w.whole_script);
        break;
    case command::raise:
        encode_script(to, raise_script, raise_sha, w.whole_script, 2, s.key, fence_key(s.key),
                      s.token, s.number, s.fence_ttl.count());
        break;
    case command::extend:
        if (w.dialect == dialect::scripts) {
            encode_script(to, extend_script, extend_sha, w.whole_script, 1, s.key, s.token,
                          s.ttl.count());
        } else {
            to.push("SET", s.key, s.token, "IFEQ", s.token, "PX", s.ttl.count());
        }
        break;
    case command::release:
        if (w.dialect == dialect::delifeq) {
            to.push("DELIFEQ", s.key, s.token);
        } else if (w.dialect == dialect::delex) {
            to.push("DELEX", s.key, "IFEQ", s.token);
        } else {
            encode_script(to, release_script, release_sha, w.whole_script, 1, s.key, s.token);
        }
        break;
    case command::inspect:
        to.push("PTTL", s.key);
        to.push("TYPE", s.key);
        // No more bytes than a token has: the value may be anything.
        to.push("GETRANGE", s.key, 0, token::max_size);
        break;
    }
}

//
// Replies
//

void lock_reply::take(command const& c, unsigned left, element const& e) {
    auto const all = replies_to(c.what, c.tracked);
    if (left + 1U == all) {
        answer_ = {};
        unknown_script_ = false;
        tracked_ = false;
        ends_session_ = {};
    }
    if (c.what == protocol::command::inspect) return take_inspection(c, left, e);
    if (c.what == protocol::command::watch) return take_watch(c, left, e);
    if (left + 1U == all) return take_change(c, e);
    if (left != 0) {
        tracked_ = !is_error(e.type);
        return;
    }
    take_ttl(e);
    answer_.told = tracked_ && !is_error(e.type);
}

// The reply to a command that changes a key.
void lock_reply::take_change(command const& c, element const& e) {
    using protocol::command;
    using protocol::verdict;
    auto const acquires = c.what == command::acquire || c.what == command::contend;
    auto const numbered = c.fenced && (acquires || c.what == command::heal);
    if (is_error(e.type) && e.value.starts_with("NOSCRIPT")) {
        unknown_script_ = true;
    }
    auto done = truth(e);
    if (numbered && done != false) {
        auto const number = e.type == reply_type::number ? to_number(e.value) : 0;
        auto const valid =
            number > 0 && protocol::is_fence_count(static_cast<std::uint64_t>(number));
        done = valid ? std::optional(true) : std::nullopt;
        if (valid) answer_.number = static_cast<std::uint64_t>(number);
    }
    if (done) {
        answer_.verdict = *done ? verdict::yes : verdict::no;
        return;
    }
    if (!is_error(e.type)) return take_nonsense();
    auto const why = classify(e.value);
    // Another program has put another value in our key's place.
    if (why == errc::wrong_type && !acquires && c.what != command::raise) {
        answer_.verdict = verdict::no;
        return;
    }
    message_ = presentable(presentable(e.value, c.secret), c.about.about(c.what).token);
    // The script may have written the key before it failed.
    answer_.verdict = numbered ? verdict::unknown : verdict::refused;
    answer_.why = why;
    answer_.message = message_;
    // The server has become a replica since its probe. The next probe will say when it is a primary
    // again.
    if (why == errc::read_only) ends_session_ = why;
}

void lock_reply::take_nonsense() {
    message_ = "an answer to no command of this client";
    answer_ = {.verdict = protocol::verdict::unknown, .why = errc::not_redis, .message = message_};
    ends_session_ = errc::not_redis;
}

/// The reply to PTTL. Without one, the result is that of a key that has gone.
void lock_reply::take_ttl(element const& e) {
    auto const left = e.type == reply_type::number ? std::min(to_number(e.value), longest_ttl) : -2;
    answer_.ttl_known = left >= -1;
    if (left >= 0) answer_.ttl_left = std::chrono::milliseconds(left);
}

void lock_reply::take_watch(command const& c, unsigned left, element const& e) {
    using protocol::verdict;
    if (left != 0) {
        tracked_ = !is_error(e.type);
        return;
    }
    if (is_error(e.type)) {
        message_ = presentable(presentable(e.value, c.secret), c.about.about(c.what).token);
        answer_ = {.verdict = verdict::refused, .why = classify(e.value), .message = message_};
        return;
    }
    take_ttl(e);
    answer_.verdict = verdict::yes;
    answer_.told = tracked_;
}

void lock_reply::take_inspection(command const& c, unsigned left, element const& e) {
    using protocol::verdict;
    if (left == 2) return take_ttl(e);
    if (left == 1) {
        // If the ACL forbids TYPE, the key counts as a lock.
        text_ = is_error(e.type) ? std::string_view("string") : e.value;
        return;
    }
    // A lock is a string; "none" means that it has just gone.
    if (text_ == "string" || text_ == "none") {
        answer_.verdict = verdict::yes;
        if (text_ == "none") {
            answer_.ttl_known = false;
            answer_.ttl_left.reset();
        }
        text_ = is_error(e.type) ? std::string_view() : e.value;
        answer_.holder = label_of(text_);
        return;
    }
    auto const type = presentable(presentable(text_, c.secret), c.about.about(c.what).token);
    message_ = "the key holds a " + type + ", not a lock";
    answer_ = {.verdict = verdict::refused, .why = errc::wrong_type, .message = message_};
}

} // namespace holdfast::redis
