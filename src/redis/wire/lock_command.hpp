// Encodes a command of a lock once for many instances, and reads the replies. It serves all kinds.
#ifndef HOLDFAST_REDIS_LOCK_COMMAND_HPP
#define HOLDFAST_REDIS_LOCK_COMMAND_HPP

#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "redis/wire/codec.hpp"
#include "redis/wire/lock_kind.hpp"
#include "redis/wire/reply_handler.hpp"
#include "redis/wire/reply_reader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

/// One command, encoded once for each wording, to be appended to the batches of many instances. The
/// encoder keeps its buffers from one command to the next.
class encoder {
public:
    void start(protocol::command c, reply_handler const& owner) {
        command_ = c;
        args_ = owner.arguments(c);
        kind_ = &owner.kind();
        ready_ = {};
    }
    std::string_view bytes(wording w) {
        auto const i = static_cast<std::size_t>(w.dialect) + (w.tracked ? dialects : 0) +
                       (w.whole_script ? 2 * dialects : 0) + (w.in_cluster ? 4 * dialects : 0) +
                       static_cast<std::size_t>(w.counting) * 8 * dialects;
        if (!ready_[i]) {
            encoded_[i].clear();
            kind_->encode(encoded_[i], command_, w, args_);
            ready_[i] = true;
        }
        return encoded_[i].payload();
    }
    protocol::command command() const { return command_; }
    lock_kind const& kind() const { return *kind_; }
    command_args const& arguments() const { return args_; }

private:
    protocol::command command_{};
    command_args args_;
    lock_kind const* kind_ = nullptr;
    static constexpr std::size_t forms = 3 * 8 * dialects;
    std::array<bool, forms> ready_{};
    std::array<codec::request, forms> encoded_;
};

/// Reads the replies to lock commands, one command after the other. It owns the parts of the
/// present answer.
class lock_reply {
public:
    /// Takes an element of the next reply; `left` replies follow that reply.
    void take(sent_command const& c, unsigned left, element const& e) {
        if (e.depth == 0 && left + 1U == c.kind.replies(c.command, c.words)) begin();
        c.kind.read(partial_, c, left, e);
    }
    /// True: the last element has shown that the server lacks something, see take_lack().
    bool has_lack() const { return partial_.lack.has_value(); }
    /// Takes it out. The text lasts until the next element.
    std::pair<degradation, std::string const&> take_lack() {
        auto const kind = *std::exchange(partial_.lack, std::nullopt);
        return {kind, partial_.lack_reason};
    }

    /// The answer, after all replies. Its views are valid until the next reply.
    answer const& result() const { return partial_.answer; }
    /// Not rewording::none: the command is to be sent again, in another form.
    rewording again() const { return partial_.again; }
    /// Not errc{}: the session must end, for this reason and with this message.
    errc ends_session() const { return partial_.ends_session; }
    std::string const& message() const { return partial_.message; }

private:
    // The strings keep their memory.
    void begin() {
        partial_.answer = {};
        partial_.tracked = false;
        partial_.parts = 0;
        partial_.again = rewording::none;
        partial_.ends_session = {};
        partial_.lack.reset();
    }

    partial_answer partial_;
};

} // namespace holdfast::redis

#endif
