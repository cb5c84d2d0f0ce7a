// What the client knows of an instance, whatever is behind it: today one server.
#ifndef HOLDFAST_REDIS_INSTANCE_HPP
#define HOLDFAST_REDIS_INSTANCE_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/clock_look.hpp"
#include "redis/lock_command.hpp"
#include "redis/reply_handler.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Whom an instance works for. Every call is made on the client's executor, and within a turn.
class instance_owner {
public:
    class turn_work {
    public:
        virtual void run() = 0;

    protected:
        ~turn_work() = default;
    };

    /// Does it as a turn, or as part of the one that is running: all of a turn has one time, and at
    /// its end each instance sends what it was given. What users' handlers throw leaves from here,
    /// after the end.
    virtual void in_turn(turn_work&) = 0;
    /// When the present turn began: before its first byte is sent, and after whatever it answers
    /// came.
    virtual lease_clock::time_point time() const noexcept = 0;

    /// Whether no other instance is known to be the server with this run id.
    virtual bool is_new_server(unsigned instance, std::string_view run_id) = 0;
    /// The server says that a key has changed that we had asked it to watch; or, by its own
    /// decision, that any of them may have.
    virtual void on_push(unsigned instance, std::string_view key) = 0;
    virtual void on_push_for_all(unsigned instance) = 0;
    /// It cannot be asked for votes on a new lock any more, or tells of no change.
    virtual void on_unavailable(unsigned instance) = 0;
    /// It is up, and what was kept for it has been submitted; or its quarantine is over.
    virtual void on_available(unsigned instance) = 0;
    /// It took that long to answer a batch of commands.
    virtual void on_round_trip(unsigned /*instance*/, lease_clock::duration) {}
    /// It has told its time.
    virtual void on_clock_look(unsigned /*instance*/, protocol::clock_look const&) {}
    /// 64 random bits, for pauses.
    virtual std::uint64_t random_bits() = 0;
    /// It has nothing more to send or to hear, or cannot be asked any more.
    virtual void on_change() = 0;

protected:
    ~instance_owner() = default;
};

template <class Function>
void in_turn(instance_owner& owner, Function function) {
    struct call final : instance_owner::turn_work {
        explicit call(Function& f)
            : function_(f) {}
        void run() override { function_(); }
        Function& function_;
    } work(function);
    owner.in_turn(work);
}

struct instance_counts {
    std::atomic<std::uint64_t> commands{0}, batches{0}, releases_dropped{0};
};

/// One failure domain that votes. Not thread-safe, but for status() and counts().
class instance {
public:
    virtual ~instance() = default;

    virtual void start() = 0;
    /// Closes the connection at once. What is unanswered is answered as unknown or unsent.
    virtual void stop() = 0;
    /// Lets go of everything without a word: the execution context is being destroyed.
    virtual void abandon() noexcept = 0;

    /// Adds the encoder's command to the batch of this turn. Its answer comes later, never from
    /// within. Only a release may be submitted to an instance that is not available: it is kept,
    /// and answered as unknown only when it had been sent. If this throws, nothing was submitted.
    virtual void submit(encoder&, reply_handler_ptr const&, std::uint32_t round) = 0;
    /// At the end of a turn: sends what was submitted, as far as the pipeline has room. False:
    /// memory ran out, and there is to be another turn.
    [[nodiscard]] virtual bool flush() noexcept = 0;

    /// Whether it can be asked.
    virtual bool available() const = 0;
    /// Whether it can be asked for a lock that is new. What it holds it can extend and delete all
    /// the same.
    virtual bool may_grant() const = 0;
    /// Whether it has a connection whose probe was answered.
    virtual bool connected() const = 0;
    /// Why it cannot be asked, or may not grant; errc{} if neither.
    virtual errc reason() const = 0;
    virtual std::string reason_message() const = 0;
    /// When the oldest question was sent that has no answer yet, of an instance that is available.
    virtual std::optional<lease_clock::time_point> waits_since() const = 0;
    /// Nothing is under way that could still be answered.
    virtual bool settled() const = 0;

    /// Asks for its time in this turn, unless that is not wanted, or has been done.
    virtual void ask_time_now() = 0;
    /// The jump of its clock that was seen last was none: our own clock stood still.
    virtual void excuse_jump() = 0;
    /// And so it did, at a moment within this time and for so long, which has not been seen here.
    virtual void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point to,
                                       lease_clock::duration least, lease_clock::duration most) = 0;

    virtual std::string_view run_id() const = 0;
    /// Of the server, the same in every process that is connected to it.
    virtual std::uint64_t identity() const = 0;

    virtual instance_status status() const = 0;
    virtual instance_counts const& counts() const = 0;
};

} // namespace holdfast::redis

#endif
