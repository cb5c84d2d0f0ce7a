#include "redis/wire/kinds/exclusive_key.hpp"

#include "protocol/tenure/fence.hpp"
#include "redis/wire/kinds/key_survey.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"
#include "redis/wire/server_info.hpp"
#include "redis/wire/token.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::counting;
using protocol::verdict;

constexpr std::array scripts{release_script, extend_script, fenced_acquire_script, raise_script};

//
// Commands
//

/// The name is valid until the next call in this thread.
std::string_view fence_key(std::string_view key, wording w) {
    static thread_local std::string name;
    name_fence_key(name, key, w.in_cluster);
    return name;
}

/// GT and XX never lower the counter: https://redis.io/docs/latest/commands/zadd/
void encode_count(codec::request& request, wording w, command_args const& a) {
    auto const counter = fence_key(a.key, w);
    if (w.counting == counting::known) {
        request.push("ZADD", counter, "XX", "GT", "CH", a.number, "n");
    } else {
        request.push("ZADD", counter, "GT", "CH", a.number, "n");
        request.push("PEXPIRE", counter, a.fence_ttl.count());
    }
}

void encode_acquire(codec::request& request, wording w, command_args const& a) {
    static script const fenced_acquire(fenced_acquire_script);
    if (a.fenced() && w.counting == counting::by_script) {
        fenced_acquire.encode(request, w, 2, a.key, fence_key(a.key, w), a.token.view(),
                              a.ttl.count(), a.number, a.fence_ttl.count());
        return;
    }
    request.push("SET", a.key, a.token.view(), "NX", "PX", a.ttl.count());
    if (a.fenced()) encode_count(request, w, a);
}

// CLIENT CACHING applies to the next command only, so PTTL must follow it at once.
void encode_track(codec::request& request, wording w, command_args const& a) {
    if (w.tracked) request.push("CLIENT", "CACHING", "YES");
    request.push("PTTL", a.key);
}

void encode_raise(codec::request& request, wording w, command_args const& a) {
    static script const raise(raise_script);
    raise.encode(request, w, 2, a.key, fence_key(a.key, w), a.token.view(), a.number,
                 a.fence_ttl.count());
}

void encode_extend(codec::request& request, wording w, command_args const& a) {
    static script const extend(extend_script);
    extend.encode(request, w, 1, a.key, a.token.view(), a.ttl.count());
}

void encode_release(codec::request& request, wording w, command_args const& a) {
    static script const release(release_script);
    if (w.dialect == dialect::delifeq) {
        request.push("DELIFEQ", a.key, a.token.view());
    } else if (w.dialect == dialect::delex) {
        request.push("DELEX", a.key, "IFEQ", a.token.view());
    } else {
        release.encode(request, w, 1, a.key, a.token.view());
    }
}

void encode_inspect(codec::request& request, command_args const& a) {
    request.push("PTTL", a.key);
    request.push("TYPE", a.key);
    // Reads no more bytes than a token has, because the value may be anything.
    request.push("GETRANGE", a.key, 0, token::max_size);
}

std::uint8_t replies(command c, wording w) {
    switch (c) {
    case command::acquire:
        return w.counting == counting::by_script ? 1 : w.counting == counting::known ? 2 : 3;
    case command::survey:
        return replies_to_survey;
    case command::contend:
        return w.tracked ? 3 : 2;
    case command::inspect:
        return 3;
    case command::track:
        return w.tracked ? 2 : 1;
    default:
        return 1;
    }
}

void encode(codec::request& request, command c, wording w, command_args const& a) {
    switch (c) {
    case command::contend:
        encode_acquire(request, w, a);
        return encode_track(request, w, a);
    case command::track:
        return encode_track(request, w, a);
    case command::acquire:
    case command::heal:
        return encode_acquire(request, w, a);
    case command::raise:
        return encode_raise(request, w, a);
    case command::extend:
        return encode_extend(request, w, a);
    case command::release:
        return encode_release(request, w, a);
    case command::inspect:
        return encode_inspect(request, a);
    case command::survey:
        return encode_survey(request, w, a);
    case command::revoke: // see revoked_key.cpp
    case command::scan:   // see redis/scan
        break;
    }
}

//
// Replies
//

bool is_acquire(command c) {
    return c == command::acquire || c == command::contend || c == command::heal;
}

/// Whether a script acquires and counts.
bool is_counted(sent_command const& c) {
    return c.fenced && is_acquire(c.command) && c.words.counting == counting::by_script;
}

bool is_native(sent_command const& c) {
    return c.command == command::release && c.words.dialect != dialect::scripts;
}

/// The command in messages, with those within the script: servers do not always say which of them
/// they refuse.
std::string_view name_of(sent_command const& c) {
    auto const whole = c.words.whole_script;
    if (is_acquire(c.command)) {
        if (!is_counted(c)) return "SET";
        return whole ? "EVAL (SET, ZSCORE, ZADD, PEXPIRE, DEL)"
                     : "EVALSHA (SET, ZSCORE, ZADD, PEXPIRE, DEL)";
    }
    if (c.command == command::raise)
        return whole ? "EVAL (GET, ZSCORE, ZADD, PEXPIRE)" : "EVALSHA (GET, ZSCORE, ZADD, PEXPIRE)";
    if (c.command == command::extend)
        return whole ? "EVAL (GET, PEXPIRE)" : "EVALSHA (GET, PEXPIRE)";
    if (!is_native(c)) return whole ? "EVAL (GET, DEL)" : "EVALSHA (GET, DEL)";
    return c.words.dialect == dialect::delex ? "DELEX" : "DELIFEQ";
}

/// Whether the server, or a proxy before it, refuses the native form, and a script may do. Each has
/// its own text. So every refusal counts but those that a script gets as well.
bool refuses_native(sent_command const& c, std::string_view error) {
    if (!is_native(c) || is_passing(error)) return false;
    switch (classify(error)) {
    case errc::rejected:
        return true;
    case errc::access_denied: {
        // Without a right to the key a script fails, too.
        auto const name = c.words.dialect == dialect::delex ? "'delex'" : "'delifeq'";
        return error.find(name) != error.npos;
    }
    default:
        return false;
    }
}

void read_refusal(partial_answer& p, sent_command const& c, element const& e) {
    auto const numbered = is_counted(c);
    // A script may have written the key before it failed, and native commands before the script. A
    // command that is refused as a whole has not.
    auto const began = numbered && (c.words.recounts || !e.value.starts_with("NOPERM"));
    read_error(p, c, e, began ? verdict::unknown : verdict::refused, name_of(c));
    auto const plain = is_acquire(c.command) && !numbered;
    if (plain && (is_unknown_command(e.value) || e.value.starts_with("ERR syntax error"))) {
        // Nothing can be locked there.
        p.message = "SET NX PX is refused: " + presentable(e.value, c);
        p.answer.message = p.message;
        p.ends_session = errc::rejected;
    }
    if (refuses_native(c, e.value)) {
        p.again = rewording::by_script;
        p.lack = degradation::no_native_compare;
        p.lack_reason = p.message;
    } else if (c.command == command::release && is_unavailable(e.value)) {
        p.message += "; the key stays for its ttl";
        p.answer.message = p.message;
    }
}

// The reply to a command that changes the key.
void read_change(partial_answer& p, sent_command const& c, element const& e) {
    if (c.command == command::extend && read_tombstones(p, c, e)) return;
    auto const numbered = is_counted(c);
    auto done = truth_of(e);
    if (numbered && done != false) {
        auto const number = e.type == reply_type::number ? number_of(e.value) : 0;
        auto const valid =
            number > 0 && protocol::is_fence_count(static_cast<std::uint64_t>(number));
        done = valid ? std::optional(true) : std::nullopt;
        if (valid) p.answer.number = static_cast<std::uint64_t>(number);
    }
    // Somebody else has counted to our number, or above it.
    if (c.command == command::raise && e.type == reply_type::number && e.value == "-1") {
        p.answer.verdict = verdict::rival;
        return;
    }
    if (done) {
        p.answer.verdict = *done ? verdict::yes : verdict::no;
        return;
    }
    if (!is_error(e.type)) return read_nonsense(p);
    // Another program has put a value of another type in the place of the key.
    auto const compares =
        c.command == command::extend || c.command == command::release || c.command == command::heal;
    if (compares && classify(e.value) == errc::wrong_type) {
        p.answer.verdict = verdict::no;
        return;
    }
    read_refusal(p, c, e);
}

// The replies to ZADD and PEXPIRE. They concern no tenure that has not got the key.
void read_count(partial_answer& p, sent_command const& c, element const& e) {
    if (p.answer.verdict != verdict::yes || p.again != rewording::none) return;
    if (e.type == reply_type::number) {
        if (e.value == "1") {
            p.answer.number = c.number;
        } else {
            p.again = rewording::script_count;
        }
        return;
    }
    if (!is_error(e.type)) return read_nonsense(p);
    switch (classify(e.value)) {
    case errc::rejected:
    case errc::access_denied:
        p.again = is_passing(e.value) ? rewording::script_count : rewording::script_counts;
        break;
    case errc::wrong_type:
        p.again = rewording::script_count;
        break;
    default:
        read_error(p, c, e, verdict::unknown, "ZADD, PEXPIRE");
    }
}

void read_caching(partial_answer& p, sent_command const& c, element const& e) {
    p.tracked = !is_error(e.type);
    if (!p.tracked) read_lack(p, c, e, "CLIENT CACHING", degradation::no_push);
}

void read_contend(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left + 1U == replies(c.command, c.words)) return read_change(p, c, e);
    if (left != 0) return read_caching(p, c, e);
    read_ttl(p, e);
    if (is_error(e.type)) read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
    p.answer.push_follows = p.tracked && c.trusts_pushes && !is_error(e.type);
}

void read_track(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left != 0) return read_caching(p, c, e);
    if (is_error(e.type)) {
        read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
        p.message = presentable(e.value, c);
        p.answer = {.verdict = verdict::refused, .cause = classify(e.value), .message = p.message};
        return;
    }
    read_ttl(p, e);
    p.answer.verdict = verdict::yes;
    p.answer.push_follows = p.tracked && c.trusts_pushes;
}

void read_inspection(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left == 2) {
        if (is_error(e.type)) read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
        return read_ttl(p, e);
    }
    if (left == 1) {
        // If the ACL forbids TYPE, the key counts as a lock.
        if (is_error(e.type)) read_lack(p, c, e, "TYPE", degradation::no_type_check);
        p.text = is_error(e.type) ? std::string_view("string") : e.value;
        return;
    }
    // A lock is a string. "none" means that the key has just gone.
    if (p.text == "string" || p.text == "none") {
        p.answer.verdict = verdict::yes;
        if (p.text == "none") {
            p.answer.ttl_known = false;
            p.answer.ttl_left.reset();
        }
        if (is_error(e.type)) read_lack(p, c, e, "GETRANGE", degradation::no_holder_names);
        p.text = is_error(e.type) ? std::string_view() : e.value;
        p.answer.holder = label_of(p.text);
        return;
    }
    p.message = "the key holds " + presentable(held_type(p.text), c) + ", not a lock";
    p.answer = {.verdict = verdict::refused, .cause = errc::wrong_type, .message = p.message};
}

void read(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (c.command == command::survey) return read_survey(p, c, left, e);
    // The replies to the other commands have no parts.
    if (e.depth > 0) return;
    switch (c.command) {
    case command::inspect:
        return read_inspection(p, c, left, e);
    case command::track:
        return read_track(p, c, left, e);
    case command::contend:
        return read_contend(p, c, left, e);
    case command::acquire:
        return left + 1U == replies(c.command, c.words) ? read_change(p, c, e)
                                                        : read_count(p, c, e);
    default:
        return read_change(p, c, e);
    }
}

} // namespace

constinit lock_kind const exclusive_key{.scripts = scripts,
                                        .replies = replies,
                                        .encode = encode,
                                        .read = read,
                                        .counts_natively = true};

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

void name_fence_key(std::string& name, std::string_view key, bool in_cluster) {
    if (in_cluster) {
        name_cluster_fence_key(name, key);
    } else {
        name_fence_key(name, key);
    }
}

std::string_view begin_name(std::string& name, std::string_view key, bool in_cluster) {
    constexpr std::string_view suffix = ":fence";
    name_fence_key(name, key, in_cluster);
    name.resize(name.size() - suffix.size());
    auto const added = name.size() - key.size();
    constexpr std::size_t braces = 2;
    return added == 0 ? ":own" : added == braces ? "" : ":slot";
}

std::string held_type(std::string_view type) {
    auto text = "a " + std::string(type);
    return type == "zset" ? text + ", as a semaphore does" : text;
}

} // namespace holdfast::redis
