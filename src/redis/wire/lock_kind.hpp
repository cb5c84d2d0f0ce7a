// A kind of lock: the wording of its commands, and the reading of the replies to them.
//
// All other code in this folder and above knows only `lock_kind`. So a new kind needs a source of
// its own. See doc/internals/kinds.md.
#ifndef HOLDFAST_REDIS_LOCK_KIND_HPP
#define HOLDFAST_REDIS_LOCK_KIND_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure/counting.hpp"
#include "redis/wire/codec.hpp"
#include "redis/wire/reply_handler.hpp"
#include "redis/wire/reply_reader.hpp"
#include "redis/wire/secret_list.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The command with which a server compares before it deletes.
enum class dialect : std::uint8_t {
    scripts, ///< EVALSHA
    delifeq, ///< DELIFEQ (Valkey 9)
    delex,   ///< DELEX IFEQ (Redis 8.4)
};
inline constexpr std::size_t dialects = 3;

/// The form of a command for one instance.
struct wording {
    redis::dialect dialect = dialect::scripts;
    /// contend, track: the server is to push when the key changes (CLIENT TRACKING OPTIN)
    bool tracked = false;
    /// EVAL instead of EVALSHA: the server has forgotten the script, or refuses EVALSHA
    bool whole_script = false;
    /// All keys of a command must have one hash slot.
    bool in_cluster = false;
    /// The server refuses native counts.
    bool script_counts = false;
    /// acquire: a native count has failed. The key may be ours already.
    bool recounts = false;
    /// acquire: the count
    protocol::counting counting = protocol::counting::by_script;
};

/// The data of a sent command that its kind needs to read the replies.
struct sent_command {
    lock_kind const& kind;
    protocol::command command;
    wording words;
    bool fenced;
    reply_handler const& owner;
    secret_list const& secrets; ///< masked in messages
    bool trusts_pushes = true;  ///< if not, the client does not rely on a push to come
    std::uint64_t number = 0;   ///< the hint that was sent, or the number
};

/// The form in which a command is to be sent again. The server has refused the form that it had,
/// and has done nothing. But if it is to count again, it may have granted the key.
enum class rewording : std::uint8_t {
    none,
    whole_script,  ///< the server has forgotten the script
    whole_scripts, ///< the same for all later commands: it refuses EVALSHA
    load_scripts,  ///< after SCRIPT LOAD: it has forgotten the script, and refuses EVAL
    by_script,     ///< as are all later ones: it refuses to compare natively
    script_count,  ///< the counter was not below the hint, or was not there
    script_counts, ///< the same for all later commands: it refuses to count natively
};

struct survey_progress;

/// The answer to a command while its replies come in. It starts afresh with each command.
struct partial_answer {
    redis::answer answer{};
    std::string message; ///< `answer.message` is a view of it
    std::string text;    ///< for the kind: kept from one reply to the next
    /// For the kind: the server accepted CLIENT CACHING. Kept from one reply to the next.
    bool tracked = false;
    unsigned parts = 0;                      ///< for the kind: of the present reply, so far
    std::shared_ptr<survey_progress> survey; ///< see kinds/key_survey.hpp
    rewording again = rewording::none;
    errc ends_session{}; ///< not errc{}: the session must end, and `message` has the reason
    /// The last reply has shown this, and `lack_reason` says why.
    std::optional<degradation> lack{};
    std::string lack_reason;
};

/// The degradation of a server that refuses the command, if locks need it.
constexpr std::optional<degradation> lack_of(protocol::command c, bool fenced) {
    if (c == protocol::command::revoke) return std::nullopt;
    if (c == protocol::command::extend) return degradation::no_extend;
    if (c == protocol::command::release) return degradation::no_release;
    return fenced ? degradation::no_fencing : degradation::no_acquire;
}

struct lock_kind {
    /// The scripts of the kind's commands.
    std::span<std::string_view const> scripts;
    /// The number of replies to a command.
    std::uint8_t (*replies)(protocol::command, wording);
    /// Appends a command.
    void (*encode)(codec::request&, protocol::command, wording, command_args const&);
    /// Reads an element of the next reply; `left` replies follow that reply. The first element of a
    /// reply has depth 0.
    void (*read)(partial_answer&, sent_command const&, unsigned left, element const&);
    /// Whether it can have native commands count.
    bool counts_natively = false;
};

/// The kinds whose scripts the probe loads.
std::span<lock_kind const* const> lock_kinds();

//
// For the kinds
//

/// True if the command may ask the server to push.
constexpr bool may_be_tracked(protocol::command c) {
    return c == protocol::command::contend || c == protocol::command::track;
}

/// A script, and the SHA-1 of its text, by which a server knows it.
class script {
public:
    explicit script(std::string_view text);

    template <class... KeysAndArguments>
    void encode(codec::request& request, wording w, int keys,
                KeysAndArguments const&... keys_and_arguments) const {
        if (w.whole_script) {
            request.push("EVAL", text_, keys, keys_and_arguments...);
        } else {
            request.push("EVALSHA", digest_, keys, keys_and_arguments...);
        }
    }
    /// As above, for any number of keys: the first word is how many.
    void encode(codec::request& request, wording w, std::span<std::string_view const> words) const {
        if (w.whole_script) {
            request.push_range("EVAL", text_, words);
        } else {
            request.push_range("EVALSHA", digest_, words);
        }
    }

private:
    std::string_view text_;
    std::string digest_;
};

/// True for OK or 1, false for null or 0: the replies to SET, to a script or to a native delete.
/// Empty for any other reply.
std::optional<bool> truth_of(element const&);
// A server may name any number. These are cut, so that arithmetic has room for them.

/// The number in a reply, from -2^53 to 2^53; zero if the text is no number.
std::int64_t number_of(std::string_view text);
/// The number in a reply as a time in milliseconds: up to about a hundred years, as the arithmetic
/// of a clock has room for. Negative numbers have other meanings.
std::int64_t milliseconds_of(std::string_view text);
/// Notes a time to live in milliseconds, cut as that of milliseconds_of().
void note_ttl(partial_answer&, std::int64_t left);
/// Reads the reply to PTTL. If the reply is no number, the key counts as gone.
void read_ttl(partial_answer&, element const&);
/// Reads an error reply to a command that runs a script or writes. `v` is the verdict. `name`: the
/// command in messages.
void read_error(partial_answer&, sent_command const&, element const&, protocol::verdict v,
                std::string_view name);
/// The server has refused a command that is of use and can be done without. Notes that, unless the
/// server may answer otherwise the next time.
void read_lack(partial_answer&, sent_command const&, element const&, std::string_view name,
               degradation);
/// Reads a reply that no server gives to this command. The session ends.
void read_nonsense(partial_answer&);
/// A key for messages: short, and in quotes. To be shown through presentable().
std::string shown_key(std::string_view key);
/// A server's text for messages: without the password, and without the token of the lock.
std::string presentable(std::string_view text, sent_command const&);

} // namespace holdfast::redis

#endif
