#include "redis/wire/kinds/permit_key.hpp"

#include <holdfast/options.hpp>

#include "protocol/tenure/fence.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/server_info.hpp"
#include "redis/wire/token.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

constexpr std::array scripts{permit_take_script,    permit_fenced_take_script, permit_extend_script,
                             permit_release_script, permit_raise_script,       permit_peek_script};

//
// Commands
//

/// The names are valid until the next call in this thread.
permit_names const& names_of(std::string_view key, wording w) {
    static thread_local permit_names all;
    name_permit_keys(all, key, w.in_cluster);
    return all;
}

template <class... Arguments>
void encode_script(codec::request& request, wording w, command_args const& a, script const& runs,
                   Arguments const&... last) {
    runs.encode(request, w, 2, a.key, names_of(a.key, w).until, a.token.view(), last...);
}

/// As above, with the fence counters as the last key.
template <class... Arguments>
void encode_counting(codec::request& request, wording w, command_args const& a, script const& runs,
                     Arguments const&... last) {
    auto const& names = names_of(a.key, w);
    runs.encode(request, w, 3, a.key, names.until, names.fences, a.token.view(), last...);
}

// A tenure that has a slot takes no other.
void encode_take(codec::request& request, wording w, command_args const& a) {
    static script const plain(permit_take_script);
    static script const fenced(permit_fenced_take_script);
    auto const slot = a.slot.value_or(a.start);
    std::string_view const how = a.slot ? "only" : "from";
    if (a.fenced()) {
        encode_counting(request, w, a, fenced, a.ttl.count(), a.permits, slot, how, a.number,
                        a.fence_ttl.count());
    } else {
        encode_script(request, w, a, plain, a.ttl.count(), a.permits, slot, how);
    }
}

void encode_peek(codec::request& request, wording w, command_args const& a) {
    static script const peek(permit_peek_script);
    encode_script(request, w, a, peek, a.permits, token::max_size);
}

// CLIENT CACHING applies to the next command only, and a server registers the caller for the keys
// that a script reads. A release without a token is that of all permits, by force. The counters of
// the fences stay.
void encode(codec::request& request, command c, wording w, command_args const& a) {
    static script const extend(permit_extend_script);
    static script const release(permit_release_script);
    static script const raise(permit_raise_script);
    if (may_be_tracked(c) && w.tracked) request.push("CLIENT", "CACHING", "YES");
    switch (c) {
    case command::acquire:
    case command::contend:
    case command::heal:
        return encode_take(request, w, a);
    case command::extend:
        return encode_script(request, w, a, extend, a.ttl.count(), a.slot.value_or(0));
    case command::release:
        if (a.token.view().empty()) return request.push("DEL", a.key, names_of(a.key, w).until);
        return encode_script(request, w, a, release);
    case command::raise:
        return encode_counting(request, w, a, raise, a.number, a.fence_ttl.count(),
                               a.slot.value_or(0));
    case command::inspect:
    case command::track:
        return encode_peek(request, w, a);
    default:
        return exclusive_key.encode(request, c, w, a);
    }
}

std::uint8_t replies(command c, wording w) {
    if (may_be_tracked(c)) return w.tracked ? 2 : 1;
    return c == command::inspect ? 1 : exclusive_key.replies(c, w);
}

//
// Replies
//

bool is_take(command c) {
    return c == command::acquire || c == command::contend || c == command::heal;
}

bool is_peek(command c) {
    return c == command::inspect || c == command::track;
}

bool is_forced(sent_command const& c) {
    return c.command == command::release && c.owner.arguments(c.command).token.view().empty();
}

/// The command in messages, with those within the script.
std::string name_of(sent_command const& c) {
    auto const* within = "TIME, ZCARD, ZCOUNT, ZSCORE, ZRANGE, ZRANGEBYSCORE, ZADD, ZREM, PTTL, "
                         "PEXPIRE";
    if (c.command == command::extend) within = "TIME, ZSCORE, ZRANGEBYSCORE, ZADD, PTTL, PEXPIRE";
    if (c.command == command::raise) within = "TIME, ZSCORE, ZADD, PTTL, PEXPIRE";
    if (is_forced(c)) return "DEL";
    if (c.command == command::release) within = "TIME, ZSCORE, ZRANGEBYSCORE, ZREM";
    if (is_peek(c.command)) within = "TIME, ZCOUNT, ZRANGE, PTTL";
    return std::string(c.words.whole_script ? "EVAL (" : "EVALSHA (") + within + ')';
}

void tell(partial_answer& p, sent_command const& c, std::string_view text) {
    p.message = presentable(text, c);
    p.answer.message = p.message;
}

void read_refusal(partial_answer& p, sent_command const& c, element const& e) {
    auto const wrong_type = classify(e.value) == errc::wrong_type;
    auto const of_try = c.command == command::acquire || c.command == command::contend;
    if (wrong_type && !of_try && !is_peek(c.command)) {
        p.answer.verdict = verdict::no;
        return;
    }
    // A script may have written keys before it failed. It has not if it is refused as a whole, or
    // if a key is of another type: it looks at all before it writes one.
    auto const began = is_take(c.command) && !wrong_type && !e.value.starts_with("NOPERM") &&
                       !e.value.starts_with("NOSCRIPT");
    read_error(p, c, e, began ? verdict::unknown : verdict::refused, name_of(c));
    // Without a look at the key, reports lack its state, but locking goes on.
    if (is_peek(c.command) && p.lack && *p.lack != degradation::no_script_cache)
        p.lack = degradation::no_expiry_times;
    if (wrong_type) {
        // The server does not say which key it is. That of the lock counts as taken.
        auto const key = shown_key(c.owner.arguments(c.command).key);
        tell(p, c,
             "a key beside " + key +
                 " (until, fences) is not a semaphore's: " + std::string(e.value));
    } else if (c.command == command::release && is_unavailable(e.value)) {
        tell(p, c, p.message + "; the permit stays taken for its ttl");
    }
}

/// A number below zero, of a take or of a peek: -2 for what never expires, else -3 less the time.
bool read_time(partial_answer& p, std::int64_t number) {
    if (number > -2) return false;
    p.answer.ttl_known = true;
    if (number < -2) note_ttl(p, -3 - number);
    return true;
}

bool read_slot(partial_answer& p, std::int64_t number) {
    if (number < 0 || number >= max_permits) return false;
    p.answer.slot = static_cast<std::uint16_t>(number);
    return true;
}

/// Of a grant. A tenure that has a slot may serve another lock by now, of fewer permits.
bool read_granted_slot(partial_answer& p, sent_command const& c, std::int64_t number) {
    auto const asked = c.owner.arguments(c.command);
    return (asked.slot || number < asked.permits) && read_slot(p, number);
}

void settle(partial_answer& p, verdict v) {
    p.answer.verdict = v;
    p.answer.cause = {};
    p.answer.message = {};
    p.ends_session = {};
}

std::optional<std::int64_t> whole(element const& e) {
    return e.type == reply_type::number ? std::optional(number_of(e.value)) : std::nullopt;
}

// A negative number: refused. Else the slot; with fences an array of the slot and the tenure's
// number. Until the last of these has come, the reply is one that no server gives.
void read_grant(partial_answer& p, sent_command const& c, element const& e) {
    if (e.depth == 0 && is_error(e.type)) return read_refusal(p, c, e);
    if (e.depth == 0) {
        p.parts = 0;
        auto const number = whole(e);
        if (number && read_time(p, *number)) {
            p.answer.verdict = verdict::no;
            p.answer.push_follows = p.tracked && c.trusts_pushes;
        } else if (number && !c.fenced && read_granted_slot(p, c, *number)) {
            p.answer.verdict = verdict::yes;
        } else {
            read_nonsense(p);
        }
        // No part follows but that of a fence.
        if (!c.fenced || e.type != reply_type::array) p.parts = 2;
        return;
    }
    auto const part = p.parts++;
    auto const number = whole(e);
    if (part == 0 && e.depth == 1 && number && read_granted_slot(p, c, *number)) return;
    auto const count = static_cast<std::uint64_t>(std::max<std::int64_t>(number.value_or(0), 0));
    if (part == 1 && e.depth == 1 && protocol::is_fence_count(count) && count > 0) {
        p.answer.number = count;
        return settle(p, verdict::yes);
    }
    read_nonsense(p);
    p.parts = 2; // no part that follows changes that
}

// 1 or 0; of a forced release, how many keys there were. Of an extension or a raise also -1 less
// the slot that our token has in place of ours.
void read_change(partial_answer& p, sent_command const& c, element const& e) {
    if (e.depth > 0) return; // the reply has no parts
    if (is_error(e.type)) return read_refusal(p, c, e);
    if (c.command == command::extend && read_tombstones(p, c, e)) return;
    auto const number = whole(e);
    auto const done = number ? truth_of(e) : std::nullopt;
    if (is_forced(c) && number && *number >= 0) {
        p.answer.verdict = *number > 0 ? verdict::yes : verdict::no;
    } else if (done) {
        p.answer.verdict = *done ? verdict::yes : verdict::no;
    } else if (number && c.command != command::release && read_slot(p, -1 - *number)) {
        p.answer.verdict = verdict::other;
    } else {
        read_nonsense(p);
    }
}

// The last part of a peek. `p.text` has the token that ends first, or the value of another type.
void read_type(partial_answer& p, sent_command const& c, element const& e) {
    settle(p, verdict::yes);
    if (c.command == command::track) {
        p.answer.push_follows = p.tracked && c.trusts_pushes;
    } else if (e.value == "zset" || e.value.empty()) {
        p.answer.holder = label_of(p.text);
    } else {
        p.answer.verdict = verdict::refused;
        p.answer.cause = errc::wrong_type;
        auto const by = std::string(label_of(p.text));
        tell(p, c,
             e.value == "string" ? "the key is that of another kind of lock" +
                                       (by.empty() ? "" : ", of " + by) + ", not of a semaphore"
                                 : "the key holds a " + std::string(e.value) + ", not a semaphore");
    }
}

// An array: 0, or the refusal that a try would get; a token or a value; the type.
void read_peek(partial_answer& p, sent_command const& c, element const& e) {
    constexpr unsigned parts = 3;
    if (e.depth == 0 && is_error(e.type)) return read_refusal(p, c, e);
    if (e.depth == 0) {
        read_nonsense(p);
        p.parts = e.type == reply_type::array ? 0 : parts;
        return;
    }
    auto const part = e.depth == 1 ? std::min(p.parts, parts) : parts;
    p.parts = part + 1;
    auto const number = whole(e);
    auto const is_text = e.type == reply_type::simple_string || e.type == reply_type::blob_string;
    if (part == 0 && number && (*number == 0 || read_time(p, *number))) return;
    if (part == 1 && is_text) {
        p.text = e.value;
        return;
    }
    if (part == 2 && is_text) return read_type(p, c, e);
    read_nonsense(p);
    p.parts = parts; // no part that follows changes that
}

void read(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left != 0 && may_be_tracked(c.command)) {
        if (e.depth > 0) return;
        p.tracked = !is_error(e.type);
        if (!p.tracked) read_lack(p, c, e, "CLIENT CACHING", degradation::no_push);
    } else if (is_take(c.command)) {
        read_grant(p, c, e);
    } else if (is_peek(c.command)) {
        read_peek(p, c, e);
    } else if (c.command == command::survey) {
        exclusive_key.read(p, c, left, e);
    } else {
        read_change(p, c, e);
    }
}

} // namespace

constinit lock_kind const permit_key{
    .scripts = scripts, .replies = replies, .encode = encode, .read = read};

void name_permit_keys(permit_names& names, std::string_view key, bool in_cluster) {
    auto& base = names.until;
    auto const way = begin_name(base, key, in_cluster);
    names.fences = base;
    names.fences.append(":fences").append(way);
    base.append(":until").append(way);
}

} // namespace holdfast::redis
