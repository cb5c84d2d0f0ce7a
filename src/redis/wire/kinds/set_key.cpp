#include "redis/wire/kinds/set_key.hpp"

#include "protocol/tenure/fence.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/server_info.hpp"
#include "redis/wire/token.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

constexpr std::array scripts{set_release_script,        set_extend_script, set_acquire_script,
                             set_fenced_acquire_script, set_raise_script,  set_inspect_script};

//
// Commands
//

/// Runs the script with all keys, then their counters if it has those, and then the token and the
/// arguments.
template <class... Arguments>
void encode_script(codec::request& request, wording w, command_args const& a, script const& runs,
                   bool counters, std::span<std::string const> last, Arguments const&... numbers) {
    auto const keys = a.keys.size();
    std::vector<std::string> names(counters ? keys : 0);
    std::array<std::string, 1 + sizeof...(numbers)> const digits{
        std::to_string(keys + names.size()), std::to_string(numbers)...};
    std::vector<std::string_view> words;
    words.reserve(keys + names.size() + 1 + digits.size() + last.size());
    words.emplace_back(digits[0]);
    words.insert(words.end(), a.keys.begin(), a.keys.end());
    for (std::size_t i = 0; i < names.size(); ++i) {
        name_fence_key(names[i], a.keys[i], w.in_cluster);
        words.emplace_back(names[i]);
    }
    words.emplace_back(a.token.view());
    words.insert(words.end(), digits.begin() + 1, digits.end());
    words.insert(words.end(), last.begin(), last.end());
    runs.encode(request, w, words);
}

void encode_acquire(codec::request& request, command c, wording w, command_args const& a) {
    static script const plain(set_acquire_script);
    static script const fenced(set_fenced_acquire_script);
    // A late heal must not take a key from a tenure that has followed.
    auto const prior = c == command::heal ? std::span<std::string const>() : a.prior;
    if (a.fenced()) {
        encode_script(request, w, a, fenced, true, prior, a.ttl.count(), a.number,
                      a.fence_ttl.count());
    } else {
        encode_script(request, w, a, plain, false, prior, a.ttl.count());
    }
}

void encode_track(codec::request& request, wording w, command_args const& a) {
    assert(a.watched < a.keys.size());
    auto of_one = a;
    of_one.key = a.keys[a.watched];
    exclusive_key.encode(request, command::track, w, of_one);
}

void encode(codec::request& request, command c, wording w, command_args const& a) {
    static script const extend(set_extend_script);
    static script const raise(set_raise_script);
    static script const release(set_release_script);
    static script const inspect(set_inspect_script);
    switch (c) {
    case command::contend:
        encode_acquire(request, c, w, a);
        return encode_track(request, w, a);
    case command::track:
        return encode_track(request, w, a);
    case command::acquire:
    case command::heal:
        return encode_acquire(request, c, w, a);
    case command::extend:
        return encode_script(request, w, a, extend, false, {}, a.ttl.count());
    case command::raise:
        return encode_script(request, w, a, raise, true, {}, a.number, a.fence_ttl.count());
    case command::release:
        return encode_script(request, w, a, release, false, {});
    case command::inspect:
        // One byte more than a token has shows that a value is none.
        return encode_script(request, w, a, inspect, false, {}, token::max_size + 1);
    case command::survey: // of one key, and no lock's: see runtime/keys
    case command::revoke:
    case command::scan:
        break;
    }
    assert(false);
}

std::uint8_t replies(command c, wording w) {
    return c == command::inspect ? 1 : exclusive_key.replies(c, w);
}

//
// Replies
//

bool is_acquire(command c) {
    return c == command::acquire || c == command::contend || c == command::heal;
}

/// The command in messages, with those within the script.
std::string name_of(sent_command const& c) {
    auto const* within = "GET, DEL";
    if (is_acquire(c.command))
        within = c.fenced ? "GET, SET, PEXPIRE, DEL, ZSCORE, ZADD" : "GET, SET, PEXPIRE, DEL";
    if (c.command == command::extend) within = "GET, PEXPIRE";
    if (c.command == command::raise) within = "GET, ZSCORE, ZADD, PEXPIRE";
    if (c.command == command::inspect) within = "GET";
    return std::string(c.words.whole_script ? "EVAL (" : "EVALSHA (") + within + ')';
}

// A script may have written keys before it failed. A script that is refused as a whole has not.
void read_refusal(partial_answer& p, sent_command const& c, element const& e) {
    auto const began =
        is_acquire(c.command) && !e.value.starts_with("NOPERM") && !e.value.starts_with("NOSCRIPT");
    read_error(p, c, e, began ? verdict::unknown : verdict::refused, name_of(c));
    if (c.command != command::release || !is_unavailable(e.value)) return;
    p.message += "; the keys stay for their ttl";
    p.answer.message = p.message;
}

/// The key with this number, counted from 1. Empty if the lock has no such key.
std::optional<std::string_view> key_at(sent_command const& c, std::int64_t number) {
    auto const keys = c.owner.arguments(c.command).keys;
    if (number < 1 || number > static_cast<std::int64_t>(keys.size())) return std::nullopt;
    return keys[static_cast<std::size_t>(number - 1)];
}

// The reply to a script that changes keys: a positive number if it has, and -i if the key i of all
// stands in the way. The release says only how many keys were ours: all or not.
void read_change(partial_answer& p, sent_command const& c, element const& e) {
    if (is_error(e.type)) return read_refusal(p, c, e);
    if (c.command == command::extend && read_tombstones(p, c, e)) return;
    auto const number = e.type == reply_type::number ? number_of(e.value) : 0;
    auto const numbered = c.fenced && is_acquire(c.command);
    if (numbered && number > 0 && protocol::is_fence_count(static_cast<std::uint64_t>(number))) {
        p.answer.number = static_cast<std::uint64_t>(number);
        p.answer.verdict = verdict::yes;
    } else if (!numbered && number == 1) {
        p.answer.verdict = verdict::yes;
    } else if (c.command == command::release && truth_of(e) == false) {
        p.answer.verdict = verdict::no;
    } else if (c.command == command::raise && e.type == reply_type::number && e.value == "0") {
        p.answer.verdict = verdict::rival;
    } else if (c.command != command::release && key_at(c, -number)) {
        p.answer.verdict = verdict::no;
        p.answer.obstacle = static_cast<std::uint8_t>(-number);
    } else {
        read_nonsense(p);
    }
}

// The parts of the reply to an inspection, counted from 1.
constexpr unsigned number_part = 1, ttl_part = 2, type_part = 3, value_part = 4;

bool is_text(element const& e) {
    return e.type == reply_type::simple_string || e.type == reply_type::blob_string;
}

/// The last part of the key that stands in the way. `p.text` has its type.
void read_value(partial_answer& p, sent_command const& c, element const& e) {
    p.ends_session = {};
    p.answer.verdict = verdict::yes;
    p.answer.cause = {};
    p.answer.message = {};
    if (p.text != "string") {
        auto const key = key_at(c, p.answer.obstacle).value_or("");
        auto const holds = p.text.empty() ? "another value" : held_type(p.text);
        p.message =
            presentable("the key " + shown_key(key) + " holds " + holds + ", not a lock", c);
        p.answer.verdict = verdict::refused;
        p.answer.cause = errc::wrong_type;
        p.answer.message = p.message;
        return;
    }
    p.text = e.value;
    p.answer.holder = label_of(p.text);
}

/// False: no server gives this part.
bool read_part(partial_answer& p, sent_command const& c, unsigned part, element const& e) {
    auto const n = e.type == reply_type::number ? number_of(e.value) : -1;
    switch (part) {
    case number_part:
        p.answer.obstacle = key_at(c, n) ? static_cast<std::uint8_t>(n) : 0;
        if (n != 0) return p.answer.obstacle != 0;
        p.parts = value_part; // it is the last one, too
        p.ends_session = {};
        p.answer = {.verdict = verdict::yes};
        return true;
    case ttl_part:
        if (is_error(e.type)) read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
        read_ttl(p, e);
        return e.type == reply_type::number || is_error(e.type);
    case type_part:
        if (is_error(e.type)) read_lack(p, c, e, "TYPE", degradation::no_type_check);
        p.text = is_error(e.type) ? std::string_view() : e.value;
        return is_text(e) || is_error(e.type);
    case value_part:
        if (is_text(e)) read_value(p, c, e);
        return is_text(e);
    default:
        return false;
    }
}

// An array: 0, or the four parts of the key that stands in the way. Until the last of them has
// come, the reply is one that no server gives.
void read_inspection(partial_answer& p, sent_command const& c, element const& e) {
    if (e.depth == 0 && is_error(e.type)) return read_refusal(p, c, e);
    if (e.depth == 0) {
        read_nonsense(p);
        p.parts = e.type == reply_type::array ? 0 : value_part;
        return;
    }
    auto const part = std::min(p.parts, value_part) + 1;
    p.parts = part;
    if (e.depth == 1 && read_part(p, c, part, e)) return;
    read_nonsense(p);
    p.parts = value_part; // no part that follows changes that
}

void read(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (c.command == command::inspect) return read_inspection(p, c, e);
    if (e.depth > 0) return; // the other replies have no parts
    if (c.command != command::track && left + 1U == replies(c.command, c.words))
        return read_change(p, c, e);
    exclusive_key.read(p, c, left, e);
}

} // namespace

constinit lock_kind const set_key{
    .scripts = scripts, .replies = replies, .encode = encode, .read = read};

} // namespace holdfast::redis
