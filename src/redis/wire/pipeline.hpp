// The commands to one instance, and their replies. There are no sockets here: bytes leave in a
// batch, and come in through read().
//
// All commands of one event-loop turn go into one batch. A batch is bounded, and the other commands
// wait in lanes (see protocol/server/lanes.hpp). At most two batches are in flight: the server
// works on one while the other is on its way. A third batch would only wait at the server.
#ifndef HOLDFAST_REDIS_PIPELINE_HPP
#define HOLDFAST_REDIS_PIPELINE_HPP

#include "protocol/messages.hpp"
#include "protocol/server/lanes.hpp"
#include "redis/wire/codec.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/replica_waits.hpp"
#include "redis/wire/reply_handler.hpp"
#include "redis/wire/reply_reader.hpp"

#include <cassert>
#include <chrono>
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
    authenticate, ///< see redis/server/credential_keeper.hpp
    load_script,  ///< SCRIPT LOAD
    expiry,       ///< PTTL of a key that was just set
    wait,         ///< WAIT for as many replicas as `round` says, at the end of a batch
    server_check, ///< see redis/wire/probe.hpp
    question,     ///< of the rules of a deployment; `round` is the number of the question
    probe,        ///< see redis/wire/probe.hpp; `round` is the step
};

/// A command that awaits replies.
struct pending_command {
    reply_handler_ptr owner{};
    lock_kind const* kind = nullptr; ///< of a lock's command: as it was described for sending
    std::uint32_t round = 0;
    command_type type = command_type::lock;
    protocol::command command{};
    std::uint8_t replies = 1;       ///< the number of replies still to come
    bool answered : 1 = false;      ///< the owner was answered before the reply came
    bool fenced : 1 = false;        ///< a grant comes with a number
    bool loaded : 1 = false;        ///< its scripts were loaded for it
    bool asking : 1 = false;        ///< ASKING goes before it, see redis/server/link_policy.hpp
    bool whole_seconds : 1 = false; ///< its ttl
    std::uint8_t hops : 2 = 0;      ///< the redirects that it has followed
    wording words{};                ///< of a lock's command: as it was sent
    /// For the rules: short_time() at which the command began to wait. 0: it has not waited.
    std::uint32_t waits_since = 0;
    std::uint32_t first_sent = 0; ///< if a script counts again: short_time() of the native commands
    std::uint64_t number = 0;     ///< of a fence, or the hint: as it was sent
};

/// An answer that counts only if enough replicas have the write.
struct held_answer {
    pending_command command;
    grant_facts granted;
};

struct batch {
    bool answered() const { return next == commands.size(); }

    std::string bytes;
    std::size_t written = 0;
    std::vector<pending_command> commands;
    std::size_t next = 0; ///< the command that is answered next
    lease_clock::time_point sent{};
    bool waits = false;            ///< it ends with WAIT
    std::vector<held_answer> held; ///< the answers that wait for that; has room for all
};

void append(batch&, pending_command, std::string_view bytes);

/// If a function that adds or sends throws, the connection has to end: take_unsent() and
/// take_sent() give each command back once, and nothing else is certain.
class pipeline {
public:
    static constexpr std::size_t max_commands = 2048; ///< of a batch
    static constexpr std::size_t max_in_flight = 2;

    pipeline();

    // Sending

    /// Adds a lock's command to the open batch or to a lane. The pipeline itself sets the members
    /// of pending_command that follow from the lock's kind and from the wording.
    void add(encoder&, pending_command, wording);
    void add(pending_command, wording);
    /// Adds a pending release. It leaves after other commands, but before any later command on its
    /// key.
    void add_late(pending_command);
    /// Adds a command that belongs to no lock.
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
    /// True if a lock's command is unsent, or has no reply yet. Others may be under way always.
    bool has_lock_commands() const;
    /// The batch that is being answered. The pipeline must not be idle.
    batch const& front() const { return *in_flight_.front(); }
    /// The server's clock. Zero: it is not known. Only hints that it allows are counted natively.
    void show_clock(std::chrono::microseconds);
    /// From now on a batch with grants ends with WAIT, unless that is for no replicas.
    void wait_for(replica_wait w) { wait_ = w; }
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
    /// Holds an answer of the front batch until take_held(). The batch must end with WAIT.
    void hold(pending_command c, grant_facts const& granted) noexcept {
        in_flight_.front()->held.push_back({.command = std::move(c), .granted = granted});
    }
    bool holds() const { return !front().held.empty(); }
    /// Takes the answers out that were held, and calls `take(held_answer)` for each.
    template <class Take>
    void take_held(Take&& take);
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
    bool waits() const { return !lanes_.empty(); }
    void describe(pending_command&, lock_kind const&, command_args const&, wording) const;
    void wait_in_lane(pending_command, std::string_view key);
    void encode(pending_command const&, command_args const&);
    void refill(wording);
    void add_wait();
    std::unique_ptr<batch> fresh_batch();
    void recycle(std::unique_ptr<batch>) noexcept;

    static constexpr std::size_t retained_batches = 2;
    static constexpr std::size_t retained_bytes = 256 * 1024;

    std::unique_ptr<batch> open_;
    std::vector<std::unique_ptr<batch>> in_flight_;
    std::vector<std::unique_ptr<batch>> spare_;
    protocol::lanes<pending_command> lanes_;
    replica_wait wait_;
    std::uint64_t believed_ = 0; ///< the greatest hint that the server's clock allows
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
        auto const expected = !in_flight_.empty() && !in_flight_.front()->answered();
        reader_.allow(expected && front().commands[front().next].type == command_type::question
                          ? reply_reader::max_map_reply
                          : reply_reader::max_reply);
        auto const progress = reader_.read(bytes, [&](element const& e) {
            if (is_push) {
                user.on_push(e);
            } else if (expected) {
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
        if (!expected) {
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

template <class Take>
void pipeline::take_held(Take&& take) {
    auto& held = in_flight_.front()->held;
    // `take` may add commands to the open batch, but holds none.
    for (auto& h : held) {
        auto const answer = std::move(h);
        take(answer);
    }
    held.clear();
}

template <class Fail>
void pipeline::take_unsent(Fail&& fail) {
    auto open = std::exchange(open_->commands, {});
    open_->bytes.clear();
    auto lanes = std::exchange(lanes_, {});
    for (auto& c : open) fail(std::move(c));
    while (!lanes.empty()) fail(lanes.pop());
}

template <class Fail>
void pipeline::take_sent(Fail&& fail) {
    auto const lost = std::exchange(in_flight_, {});
    for (auto const& b : lost) {
        for (auto& h : b->held) fail(std::move(h.command));
        for (auto n = b->next; n < b->commands.size(); ++n) fail(std::move(b->commands[n]));
    }
}

template <class Visit>
void pipeline::visit_sent(Visit&& visit) {
    for (auto& b : in_flight_) {
        for (auto& h : b->held) visit(h.command);
        for (auto n = b->next; n < b->commands.size(); ++n) visit(b->commands[n]);
    }
}

} // namespace holdfast::redis

#endif
