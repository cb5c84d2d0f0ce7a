#include "redis/wire/kinds/revoked_key.hpp"

#include "redis/wire/key_companions.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/permit_scripts.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"
#include "redis/wire/tombstone.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

constexpr std::array revoke_scripts{revoke_script, std::string_view(revoke_reader_script),
                                    std::string_view(revoke_permit_script)};

// That of the key's value has one key: a Cluster refuses a script with a key that is not there
// while the slot migrates.
void encode_revoke(codec::request& request, command, wording w, command_args const& a) {
    static script const of_holder(revoke_script);
    static script const of_reader(revoke_reader_script);
    static script const of_permit(revoke_permit_script);
    static thread_local companion_names beside;
    static thread_local permit_names of_semaphore;
    switch (a.held_in) {
    case token_place::key:
        return of_holder.encode(request, w, 1, a.key, a.token.view(), a.tombstone);
    case token_place::readers:
        name_companions(beside, a.key, w.in_cluster);
        return of_reader.encode(request, w, 2, a.key, beside.readers, a.token.view(), a.tombstone);
    case token_place::permits:
        name_permit_keys(of_semaphore, a.key, w.in_cluster);
        return of_permit.encode(request, w, 2, a.key, of_semaphore.until, a.token.view(),
                                a.tombstone);
    }
}

std::uint8_t replies_to_revoke(command, wording) {
    return 1;
}

/// The command in messages, with those within the script.
std::string revoke_name(sent_command const& c) {
    auto const* within = "GET, SET";
    auto const held_in = c.owner.arguments(c.command).held_in;
    if (held_in == token_place::readers) within = "GET, ZSCORE, ZADD, ZREM";
    if (held_in == token_place::permits) within = "ZSCORE, ZADD, ZREM";
    return std::string(c.words.whole_script ? "EVAL (" : "EVALSHA (") + within + ')';
}

void read_revoke(partial_answer& p, sent_command const& c, unsigned, element const& e) {
    if (e.depth > 0) return; // the reply has no parts
    if (is_error(e.type)) return read_error(p, c, e, verdict::refused, revoke_name(c));
    auto const done = e.type == reply_type::number ? truth_of(e) : std::nullopt;
    if (!done) return read_nonsense(p);
    p.answer.verdict = *done ? verdict::yes : verdict::no;
}

} // namespace

constinit lock_kind const revoked_key{.scripts = revoke_scripts,
                                      .replies = replies_to_revoke,
                                      .encode = encode_revoke,
                                      .read = read_revoke};

bool read_tombstones(partial_answer& p, sent_command const& c, element const& e) {
    if (e.type != reply_type::blob_string || !e.value.starts_with(tombstone_start)) return false;
    p.answer.verdict = verdict::no;
    auto const args = c.owner.arguments(c.command);
    for (auto rest = e.value; !rest.empty();) {
        auto const end = std::min(rest.find(' '), rest.size());
        auto const text = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (!replaces(text, args.token.view())) continue;
        p.text = label_of(text);
        p.answer.holder = p.text;
        break;
    }
    return true;
}

} // namespace holdfast::redis
