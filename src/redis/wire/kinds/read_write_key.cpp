#include "redis/wire/kinds/read_write_key.hpp"

#include "protocol/tenure/fence.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/server_info.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

constexpr std::array read_scripts{read_acquire_script, read_fenced_acquire_script,
                                  read_extend_script, read_release_script, read_raise_script};
constexpr std::array write_scripts{write_acquire_script, write_fenced_acquire_script,
                                   write_release_script, extend_script, raise_script};

//
// Commands
//

/// Names that are valid until the next call in this thread.
struct names {
    companion_names beside;
    std::string fence;
};
names& names_of(std::string_view key, wording w) {
    static thread_local names all;
    name_companions(all.beside, key, w.in_cluster);
    return all;
}

template <class... Arguments>
void encode_script(codec::request& request, wording w, command_args const& a, script const& runs,
                   Arguments const&... last) {
    auto const& beside = names_of(a.key, w).beside;
    runs.encode(request, w, 4, a.key, beside.readers, beside.intent, beside.turn, a.token.view(),
                last...);
}

/// As above, with the fence counter as the second key.
template <class... Arguments>
void encode_counting(codec::request& request, wording w, command_args const& a, script const& runs,
                     Arguments const&... last) {
    auto& [beside, fence] = names_of(a.key, w);
    name_fence_key(fence, a.key, w.in_cluster);
    constexpr int keys = 5;
    runs.encode(request, w, keys, a.key, fence, beside.readers, beside.intent, beside.turn,
                a.token.view(), last...);
}

// CLIENT CACHING applies to the next command only, and a server registers the caller for the keys
// that a script reads.
void encode_acquire(codec::request& request, command c, wording w, command_args const& a,
                    script const& plain, script const& fenced) {
    if (c == command::contend && w.tracked) request.push("CLIENT", "CACHING", "YES");
    std::string_view const how = c == command::heal ? "heal" : a.waits ? "wait" : "try";
    if (a.fenced()) {
        encode_counting(request, w, a, fenced, a.ttl.count(), a.number, a.fence_ttl.count(),
                        a.intent, how);
    } else {
        encode_script(request, w, a, plain, a.ttl.count(), a.intent, how);
    }
}

void encode_read(codec::request& request, command c, wording w, command_args const& a) {
    static script const plain(read_acquire_script);
    static script const fenced(read_fenced_acquire_script);
    static script const extend(read_extend_script);
    static script const release(read_release_script);
    static script const raise(read_raise_script);
    switch (c) {
    case command::acquire:
    case command::contend:
    case command::heal:
        return encode_acquire(request, c, w, a, plain, fenced);
    case command::extend:
        return extend.encode(request, w, 2, a.key, names_of(a.key, w).beside.readers,
                             a.token.view(), a.ttl.count());
    case command::release:
        return encode_script(request, w, a, release, a.readers_turn.count());
    case command::raise:
        return encode_counting(request, w, a, raise, a.number, a.fence_ttl.count());
    default:
        return exclusive_key.encode(request, c, w, a);
    }
}

void encode_write(codec::request& request, command c, wording w, command_args const& a) {
    static script const plain(write_acquire_script);
    static script const fenced(write_fenced_acquire_script);
    static script const release(write_release_script);
    switch (c) {
    case command::acquire:
    case command::contend:
    case command::heal:
        return encode_acquire(request, c, w, a, plain, fenced);
    case command::release:
        return encode_script(request, w, a, release, a.readers_turn.count(), a.intent);
    default:
        return exclusive_key.encode(request, c, w, a);
    }
}

std::uint8_t replies(command c, wording w) {
    if (c == command::contend) return w.tracked ? 2 : 1;
    return exclusive_key.replies(c, w);
}

//
// Replies
//

bool is_acquire(command c) {
    return c == command::acquire || c == command::contend || c == command::heal;
}

/// The command in messages, with those within the script.
std::string name_of(sent_command const& c) {
    auto const reads = &c.kind == &read_key;
    auto const* within = reads      ? "GET, ZCARD, TIME, PTTL, ZSCORE, ZADD, PEXPIRE, SET, DEL"
                         : c.fenced ? "GET, ZRANGE, TIME, PTTL, DEL, SET, ZSCORE, ZADD, PEXPIRE"
                                    : "GET, ZRANGE, TIME, PTTL, DEL, SET";
    if (c.command == command::extend) within = "GET, TIME, PTTL, ZSCORE, ZADD, PEXPIRE, SET";
    if (c.command == command::raise) within = "GET, TIME, ZSCORE, ZADD, PEXPIRE";
    if (c.command == command::release)
        within = reads ? "GET, ZSCORE, TIME, ZCARD, ZRANGE, ZREM, DEL, PTTL, PEXPIRE"
                       : "GET, DEL, SET, PTTL, PEXPIRE";
    return std::string(c.words.whole_script ? "EVAL (" : "EVALSHA (") + within + ')';
}

void read_refusal(partial_answer& p, sent_command const& c, element const& e) {
    auto const wrong_type = classify(e.value) == errc::wrong_type;
    if (wrong_type && c.command != command::acquire && c.command != command::contend) {
        p.answer.verdict = verdict::no;
        return;
    }
    // A script may have written keys before it failed. It has not if it is refused as a whole, or
    // if a key is of another type: it looks at all before it writes one.
    auto const began = is_acquire(c.command) && !wrong_type && !e.value.starts_with("NOPERM") &&
                       !e.value.starts_with("NOSCRIPT");
    read_error(p, c, e, began ? verdict::unknown : verdict::refused, name_of(c));
    // The server does not say which key it is. That of the lock counts as taken.
    if (wrong_type) {
        auto const key = shown_key(c.owner.arguments(c.command).key);
        p.message = presentable("a key beside " + key +
                                    " (readers, intent, turn) is of another "
                                    "program: " +
                                    std::string(e.value),
                                c);
        p.answer.message = p.message;
    } else if (c.command == command::release && is_unavailable(e.value)) {
        p.message += "; the key stays for its ttl";
        p.answer.message = p.message;
    }
}

// A positive number: granted; the number of the tenure if the lock has fences. -2: refused, and the
// key never expires. Else refused, and -3 less the time to live.
void read_grant(partial_answer& p, sent_command const& c, element const& e) {
    if (is_error(e.type)) return read_refusal(p, c, e);
    auto const number = e.type == reply_type::number ? number_of(e.value) : 0;
    if (number <= -2) {
        p.answer.verdict = verdict::no;
        p.answer.ttl_known = true;
        if (number < -2) note_ttl(p, -3 - number);
        p.answer.push_follows = p.tracked && c.trusts_pushes;
    } else if (c.fenced && number > 0 &&
               protocol::is_fence_count(static_cast<std::uint64_t>(number))) {
        p.answer.number = static_cast<std::uint64_t>(number);
        p.answer.verdict = verdict::yes;
    } else if (!c.fenced && number == 1) {
        p.answer.verdict = verdict::yes;
    } else {
        read_nonsense(p);
    }
}

void read_change(partial_answer& p, sent_command const& c, element const& e) {
    if (is_error(e.type)) return read_refusal(p, c, e);
    if (c.command == command::extend && read_tombstones(p, c, e)) return;
    auto const done = e.type == reply_type::number ? truth_of(e) : std::nullopt;
    if (!done) return read_nonsense(p);
    p.answer.verdict = *done ? verdict::yes : verdict::no;
}

/// Whether the command is worded here. The others are those of exclusive_key.
bool is_own(sent_command const& c) {
    auto const changes = c.command == command::extend || c.command == command::raise;
    return is_acquire(c.command) || c.command == command::release ||
           (changes && &c.kind == &read_key);
}

void read(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (!is_own(c)) return exclusive_key.read(p, c, left, e);
    if (e.depth > 0) return; // the replies have no parts
    if (left == 0) return is_acquire(c.command) ? read_grant(p, c, e) : read_change(p, c, e);
    p.tracked = !is_error(e.type);
    if (!p.tracked) read_lack(p, c, e, "CLIENT CACHING", degradation::no_push);
}

} // namespace

constinit lock_kind const read_key{
    .scripts = read_scripts, .replies = replies, .encode = encode_read, .read = read};
constinit lock_kind const write_key{
    .scripts = write_scripts, .replies = replies, .encode = encode_write, .read = read};

void name_companions(companion_names& names, std::string_view key, bool in_cluster) {
    auto& base = names.readers;
    auto const way = begin_name(base, key, in_cluster);
    names.intent = base;
    names.intent.append(":intent").append(way);
    names.turn = base;
    names.turn.append(":turn").append(way);
    base.append(":readers").append(way);
}

} // namespace holdfast::redis
