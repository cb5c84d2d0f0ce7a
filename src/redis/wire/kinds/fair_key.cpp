#include "redis/wire/kinds/fair_key.hpp"

#include "protocol/tenure/fence.hpp"
#include "protocol/waiting/waiting_rules.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/server_info.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

constexpr std::array scripts{fair_release_script, fair_acquire_script, fair_fenced_acquire_script,
                             fair_contend_script, fair_fenced_contend_script};

//
// Commands
//

/// Names that are valid until the next call in this thread.
struct names {
    std::string line, called, fence;
};
names& names_of(std::string_view key, wording w) {
    static thread_local names all;
    name_line(all.line, key, w.in_cluster);
    return all;
}

template <class... Arguments>
void encode_script(codec::request& request, wording w, command_args const& a, script const& plain,
                   script const& fenced, Arguments const&... last) {
    auto& names = names_of(a.key, w);
    if (!a.fenced()) {
        return plain.encode(request, w, 2, a.key, names.line, a.token.view(), a.ttl.count(),
                            last...);
    }
    name_fence_key(names.fence, a.key, w.in_cluster);
    fenced.encode(request, w, 3, a.key, names.fence, names.line, a.token.view(), a.ttl.count(),
                  a.number, a.fence_ttl.count(), last...);
}

void encode_acquire(codec::request& request, wording w, command_args const& a) {
    static script const plain(fair_acquire_script);
    static script const fenced(fair_fenced_acquire_script);
    encode_script(request, w, a, plain, fenced, a.place == line_place::newcomer ? 1 : 0);
}

// The process registers after it has joined the line. If its turn comes between the two, the time
// to live of the written key shows that.
void encode_contend(codec::request& request, wording w, command_args const& a) {
    static script const plain(fair_contend_script);
    static script const fenced(fair_fenced_contend_script);
    encode_script(request, w, a, plain, fenced, a.reserved_for.count(), a.in_line_for.count(),
                  a.place == line_place::front ? 1 : 0);
    if (!w.tracked) return;
    auto& names = names_of(a.key, w);
    names.called = names.line;
    names.called += ':';
    names.called += a.token.view();
    request.push("CLIENT", "CACHING", "YES");
    request.push("PTTL", names.called);
}

void encode(codec::request& request, command c, wording w, command_args const& a) {
    static script const release(fair_release_script);
    switch (c) {
    case command::acquire:
        return encode_acquire(request, w, a);
    case command::contend:
        return encode_contend(request, w, a);
    case command::release:
        return release.encode(request, w, 2, a.key, names_of(a.key, w).line, a.token.view(),
                              a.reserved_for.count());
    default:
        return exclusive_key.encode(request, c, w, a);
    }
}

std::uint8_t replies(command c, wording w) {
    if (c == command::contend) return w.tracked ? 3 : 1;
    return exclusive_key.replies(c, w);
}

//
// Replies
//

constexpr auto longest_reservation =
    protocol::waiting_rules::reservation(protocol::duration::max());
static_assert(longest_reservation < protocol::waiting_rules::stays_in_line);

/// The command in messages, with those within the script.
std::string name_of(sent_command const& c) {
    auto const* within = "LPOP, LPOS, LPUSH, RPUSH, PEXPIRE, PTTL";
    if (c.command == command::release) within = "LPOP, LREM";
    if (c.command == command::acquire) within = "LINDEX, LREM";
    auto const counts = c.fenced && c.command != command::release;
    return std::string(c.words.whole_script ? "EVAL (GET, DEL, SET, "
                                            : "EVALSHA (GET, DEL, SET, ") +
           within + (counts ? ", ZSCORE, ZADD, PEXPIRE)" : ")");
}

// A script may have written the key before it failed. A script that is refused as a whole has not.
void read_script(partial_answer& p, sent_command const& c, element const& e) {
    if (!is_error(e.type)) {
        sent_command const as_acquire{.kind = c.kind,
                                      .command = c.command == command::contend ? command::acquire
                                                                               : c.command,
                                      .words = c.words,
                                      .fenced = c.fenced,
                                      .owner = c.owner,
                                      .secrets = c.secrets,
                                      .trusts_pushes = c.trusts_pushes};
        return exclusive_key.read(p, as_acquire, 0, e);
    }
    if (c.command == command::release) {
        if (classify(e.value) == errc::wrong_type) {
            p.answer.verdict = verdict::no;
            return;
        }
        read_error(p, c, e, verdict::refused, name_of(c));
        if (is_unavailable(e.value)) {
            p.message += "; the key stays for its ttl";
            p.answer.message = p.message;
        }
        return;
    }
    auto const began = !e.value.starts_with("NOPERM") && !e.value.starts_with("NOSCRIPT");
    read_error(p, c, e, began ? verdict::unknown : verdict::refused, name_of(c));
}

void read_contend(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left + 1U == replies(c.command, c.words)) {
        auto const number = e.type == reply_type::number ? number_of(e.value) : 0;
        if (number > -2) return read_script(p, c, e);
        p.answer.verdict = verdict::no;
        p.answer.ttl_known = true;
        if (number < -2) note_ttl(p, -3 - number);
    } else if (left == 1) {
        p.tracked = !is_error(e.type);
        if (!p.tracked) read_lack(p, c, e, "CLIENT CACHING", degradation::no_push);
    } else {
        if (is_error(e.type)) read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
        // The key that calls us lives for as long as the reservation. The one that was written when
        // we joined the line lives for longer.
        auto const lives = e.type == reply_type::number ? milliseconds_of(e.value) : -1;
        p.answer.called = lives >= 0 && std::chrono::milliseconds(lives) <= longest_reservation;
        p.answer.push_follows = p.tracked && c.trusts_pushes && !is_error(e.type);
    }
}

void read(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (e.depth > 0) return; // the replies have no parts
    switch (c.command) {
    case command::contend:
        return read_contend(p, c, left, e);
    case command::acquire:
    case command::release:
        return read_script(p, c, e);
    default:
        return exclusive_key.read(p, c, left, e);
    }
}

} // namespace

constinit lock_kind const fair_key{
    .scripts = scripts, .replies = replies, .encode = encode, .read = read};

void name_line(std::string& name, std::string_view key, bool in_cluster) {
    auto const way = begin_name(name, key, in_cluster);
    name.append(":queue").append(way);
}

} // namespace holdfast::redis
