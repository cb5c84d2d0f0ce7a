// The commands to one instance, and their replies. There are no sockets here: bytes leave in a
// batch, and come in through read().
//
// All commands of one event-loop turn go into one batch. A batch is bounded, and the other commands
// wait in lanes (see protocol/lanes.hpp). At most two batches are in flight: the server works on
// one while the other is on its way. A third batch would only wait at the server.
#ifndef HOLDFAST_REDIS_PIPELINE_HPP
#define HOLDFAST_REDIS_PIPELINE_HPP

#include "protocol/lanes.hpp"
#include "protocol/messages.hpp"
#include "redis/codec.hpp"
#include "redis/lock_command.hpp"
#include "redis/reply_handler.hpp"
#include "redis/reply_reader.hpp"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

enum class command_type : std::uint8_t {
    lock, ///< a lock's command; `owner` gets the answer
    ping,
    time,
    server_check, ///< see redis/probe.hpp
    probe,        ///< see redis/probe.hpp; `round` is the step
};

/// A command that awaits replies.
struct pending_command {
    reply_handler_ptr owner{};
    std::uint32_t round = 0;
    command_type type = command_type::lock;
    protocol::command command{};
    std::uint8_t replies = 1;  ///< the number of replies still to come
    bool answered : 1 = false; ///< the owner was told before the reply came
    bool whole_script : 1 = false;
    bool fenced : 1 = false; ///< a grant comes with a number
    bool tracked : 1 = false;
};

struct batch {
    bool answered() const { return next == commands.size(); }

    std::string bytes;
    std::size_t written = 0;
    std::vector<pending_command> commands;
    std::size_t next = 0; ///< the command that is answered next
    lease_clock::time_point sent{};
};

/// Strong exception guarantee.
void append(batch&, pending_command, std::string_view bytes);

class pipeline {
public:
    static constexpr std::size_t max_commands = 2048; ///< of a batch
    static constexpr std::size_t max_in_flight = 2;

    pipeline();

    // Sending

    /// Adds a lock's command to the open batch or to a lane. The pipeline itself sets the members
    /// of pending_command that follow from the lock's kind and from the wording. Strong exception
    /// guarantee.
    void add(encoder&, pending_command, wording);
    void add(pending_command, wording);
    /// Adds a pending release. It leaves after other commands, but before any later command on its
    /// key.
    void add_late(pending_command);
    /// Adds a command that belongs to no lock. Strong exception guarantee.
    template <class... Words>
    void add(pending_command c, Words const&... words) {
        scratch_.clear();
        scratch_.push(words...);
        append(*open_, std::move(c), scratch_.payload());
    }
    bool empty() const { return open_->commands.empty() && !waits(); }

    // In flight. The batches of send() keep their addresses until they are answered.

    bool has_room() const { return in_flight_.size() < max_in_flight; }
    bool idle() const { return in_flight_.empty(); }
    /// The batch that is being answered. The pipeline must not be idle.
    batch const& front() const { return *in_flight_.front(); }
    /// Fills the open batch from the lanes, and puts it in flight.
    batch& send(wording);
    /// Sends a probe, the first batch of a connection.
    batch& send_first(std::unique_ptr<batch>);

    /// Goes through the bytes and removes the complete replies. `user` has
    ///   void on_part(pending_command&, element const&)   each element of each reply
    ///   void on_reply(pending_command)                   a command with all its replies
    ///   void on_batch_answered()
    ///   void on_push(element const&)                     each element of a push
    ///   bool ends() const                                true if reading must stop
    /// False if no server may send these bytes: see problem().
    template <class User>
    bool read(std::string_view& bytes, User& user);
    std::string const& problem() const { return problem_; }
    /// A new connection: forgets the reply that was being read.
    void restart() { reader_ = {}; }

    // Commands that get no reply any more

    /// Takes out every unsent command, and calls `fail(pending_command)` for each. `fail` must not
    /// throw. Commands that it adds stay in the pipeline.
    template <class Fail>
    void take_unsent(Fail&& fail);
    /// As take_unsent(), for the commands that were sent and not answered. For a connection that is
    /// gone.
    template <class Fail>
    void take_sent(Fail&& fail);
    /// Visits the commands that were sent and not answered. They stay in the pipeline.
    template <class Visit>
    void visit_sent(Visit&& visit);
    void clear() noexcept;

private:
    /// True if there are commands that no batch has taken yet.
    bool waits() const { return stranded_.owner || !waiting_.empty(); }
    void wait_in_lane(pending_command, std::string_view key);
    void refill(wording);
    std::unique_ptr<batch> fresh_batch();
    void recycle(std::unique_ptr<batch>) noexcept;

    static constexpr std::size_t kept_batches = 2;
    static constexpr std::size_t kept_bytes = 256 * 1024;

    std::unique_ptr<batch> open_;
    std::vector<std::unique_ptr<batch>> in_flight_;
    std::vector<std::unique_ptr<batch>> spare_;
    protocol::lanes<pending_command> waiting_;
    pending_command stranded_; ///< left a lane, but memory ran out for the batch
    codec::request scratch_;
    reply_reader reader_;
    std::string problem_;
};

template <class User>
bool pipeline::read(std::string_view& bytes, User& user) {
    while (!bytes.empty() && !user.ends()) {
        // Pushes come between replies:
        // https://redis.io/docs/latest/develop/reference/protocol-spec/ ("Pushes")
        auto const is_push = bytes.front() == '>';
        auto const owed = !in_flight_.empty() && !in_flight_.front()->answered();
        auto const progress = reader_.read(bytes, [&](element const& e) {
            if (is_push) {
                user.on_push(e);
            } else if (owed) {
                auto& front = *in_flight_.front();
                user.on_part(front.commands[front.next], e);
            }
        });
        if (progress == reply_reader::progress::malformed) {
            problem_ = reader_.problem();
            return false;
        }
        if (progress == reply_reader::progress::incomplete) return true;
        bytes.remove_prefix(reader_.consumed());
        if (is_push) continue;
        if (!owed) {
            problem_ = "a reply to no command";
            return false;
        }
        auto& front = *in_flight_.front();
        if (--front.commands[front.next].replies > 0) continue;
        auto command = std::move(front.commands[front.next]);
        ++front.next;
        user.on_reply(std::move(command));
        // `user` may have added commands, but has taken none out.
        assert(!in_flight_.empty());
        if (!in_flight_.front()->answered()) continue;
        if (in_flight_.front()->written < in_flight_.front()->bytes.size()) {
            problem_ = "a reply to a command that was not sent yet";
            return false;
        }
        auto answered = std::move(in_flight_.front());
        in_flight_.erase(in_flight_.begin());
        recycle(std::move(answered));
        user.on_batch_answered();
    }
    return true;
}

template <class Fail>
void pipeline::take_unsent(Fail&& fail) {
    auto open = std::exchange(open_->commands, {});
    open_->bytes.clear();
    auto stranded = std::exchange(stranded_, {});
    auto waiting = std::exchange(waiting_, {});
    for (auto& c : open) fail(std::move(c));
    if (stranded.owner) fail(std::move(stranded));
    while (!waiting.empty()) fail(waiting.pop());
}

template <class Fail>
void pipeline::take_sent(Fail&& fail) {
    auto const lost = std::exchange(in_flight_, {});
    for (auto const& b : lost) {
        for (auto n = b->next; n < b->commands.size(); ++n) fail(std::move(b->commands[n]));
    }
}

template <class Visit>
void pipeline::visit_sent(Visit&& visit) {
    for (auto& b : in_flight_) {
        for (auto n = b->next; n < b->commands.size(); ++n) visit(b->commands[n]);
    }
}

} // namespace holdfast::redis

#endif
