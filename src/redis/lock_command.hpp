// The commands of a lock: their form, and the meaning of the replies.
//
// SET NX PX, and compare-and-delete by script: https://redis.io/docs/latest/commands/set/
// ("Patterns"). SET IFEQ: Valkey 8.1, Redis 8.4. DELIFEQ: Valkey 9.0. DELEX IFEQ: Redis 8.4.
#ifndef HOLDFAST_REDIS_LOCK_COMMAND_HPP
#define HOLDFAST_REDIS_LOCK_COMMAND_HPP

#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "redis/codec.hpp"
#include "redis/reply_handler.hpp"
#include "redis/reply_reader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// How a server compares before it deletes or extends.
enum class dialect : std::uint8_t {
    scripts,  ///< both by EVALSHA
    set_ifeq, ///< extends by SET IFEQ, deletes by EVALSHA (Valkey 8.1)
    delifeq,  ///< extends by SET IFEQ, deletes by DELIFEQ (Valkey 9)
    delex,    ///< extends by SET IFEQ, deletes by DELEX IFEQ (Redis 8.4)
};
inline constexpr std::size_t dialects = 4;

/// How a command is written for one instance.
struct wording {
    redis::dialect dialect = dialect::scripts;
    /// contend, watch: the server is to push when the key changes (CLIENT TRACKING OPTIN)
    bool tracked = false;
    bool whole_script =
        false; ///< EVAL instead of EVALSHA, for a server that has forgotten the script
};

/// Whether a command may ask the server to push.
constexpr bool may_be_tracked(protocol::command c) {
    return c == protocol::command::contend || c == protocol::command::watch;
}

/// How many replies a command has.
constexpr std::uint8_t replies_to(protocol::command c, bool tracked) {
    switch (c) {
    case protocol::command::contend:
        return tracked ? 3 : 2;
    case protocol::command::inspect:
        return 3;
    case protocol::command::watch:
        return tracked ? 2 : 1;
    default:
        return 1;
    }
}

/// The key of the counter of a key's tenures. It is in the same slot of a Cluster, with one
/// exception: a key that holds a closing brace and no hash tag. Keys that share a counter, as `a`
/// and `{a}` do, harm no client: the counter grows faster.
void name_fence_key(std::string& name, std::string_view key);

/// Appends a command.
void encode(codec::request& to, protocol::command, wording, command_args const&);

/// One command, encoded once for each wording, to be appended to the batches of many instances. Its
/// buffers are kept from one command to the next.
class encoder {
public:
    void start(protocol::command c, command_args const& about) {
        command_ = c;
        about_ = about;
        ready_ = {};
    }
    std::string_view in(wording w) {
        auto const i = static_cast<std::size_t>(w.dialect) + (w.tracked ? dialects : 0);
        if (!ready_[i]) {
            encoded_[i].clear();
            encode(encoded_[i], command_, w, about_);
            ready_[i] = true;
        }
        return encoded_[i].payload();
    }
    protocol::command what() const { return command_; }
    bool fenced() const { return about_.fenced(); }
    std::string_view key() const { return about_.key; }

private:
    protocol::command command_{};
    command_args about_;
    std::array<bool, 2 * dialects> ready_{};
    std::array<codec::request, 2 * dialects> encoded_;
};

/// Reads the replies to one lock command after the other, and owns the parts of the present one.
class lock_reply {
public:
    struct command {
        protocol::command what;
        bool tracked, fenced;
        reply_handler const& about;
        std::string_view secret; ///< masked in messages
    };

    /// Takes the next reply; `left` replies follow it.
    void take(command const&, unsigned left, element const&);

    /// The result of all replies. The views in it last until the next reply.
    answer const& result() const { return answer_; }
    /// The server does not know the script, and has done nothing.
    bool unknown_script() const { return unknown_script_; }
    /// Not errc{}: the session must end, for this reason and with this message.
    errc ends_session() const { return ends_session_; }
    std::string const& message() const { return message_; }

private:
    void take_watch(command const&, unsigned left, element const&);
    void take_change(command const&, element const&);
    void take_ttl(element const&);
    void take_inspection(command const&, unsigned left, element const&);
    void take_nonsense();

    answer answer_;
    std::string message_; ///< of the answer
    std::string text_;    ///< inspect: the key's type, then its content
    bool unknown_script_ = false;
    bool tracked_ = false;
    errc ends_session_{};
};

} // namespace holdfast::redis

#endif
