// An instance as the client knows it. Today it is one server.
#ifndef HOLDFAST_REDIS_INSTANCE_HPP
#define HOLDFAST_REDIS_INSTANCE_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/clock_reading.hpp"
#include "redis/lock_command.hpp"
#include "redis/reply_handler.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The owner of an instance. Every call is made on the client's executor, and within a turn.
class instance_owner {
public:
    class turn_work {
    public:
        virtual void run() = 0;

    protected:
        ~turn_work() = default;
    };

    /// Runs the work as a turn, or as part of the running one. All of a turn has one time, and at
    /// its end each instance sends its commands. Exceptions of users' handlers leave from here,
    /// after the end.
    virtual void in_turn(turn_work&) = 0;
    /// The beginning of the present turn: before its first byte is sent, and after the bytes that
    /// it answers came.
    virtual lease_clock::time_point time() const noexcept = 0;

    /// Whether no other instance is known to be the server with this run id.
    virtual bool is_new_server(unsigned instance, std::string_view run_id) = 0;
    /// The server says that a watched key has changed; or, by on_push_for_all(), that any key may
    /// have.
    virtual void on_push(unsigned instance, std::string_view key) = 0;
    virtual void on_push_for_all(unsigned instance) = 0;
    /// The instance cannot vote on a new lock any more, or reports no change.
    virtual void on_unavailable(unsigned instance) = 0;
    /// The instance is up, and its pending releases have been submitted; or its quarantine is over.
    virtual void on_available(unsigned instance) = 0;
    /// The instance took that long to answer a batch of commands.
    virtual void on_round_trip(unsigned /*instance*/, lease_clock::duration) {}
    /// The instance has told its time.
    virtual void on_clock_reading(unsigned /*instance*/, protocol::clock_reading const&) {}
    /// 64 random bits, for pauses.
    virtual std::uint64_t random_bits() = 0;
    /// The instance has nothing more to send or to hear, or cannot be asked any more.
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
    /// Closes the connection at once. Open commands are answered as unknown or unsent.
    virtual void stop() = 0;
    /// Drops all state and answers nothing: the execution context is being destroyed.
    virtual void abandon() noexcept = 0;

    /// Adds the encoder's command to the batch of this turn. Its answer comes later, never from
    /// within. An instance that is not available takes only releases: it keeps them, and answers as
    /// unknown only those that had been sent. If this throws, nothing was submitted.
    virtual void submit(encoder&, reply_handler_ptr const&, std::uint32_t round) = 0;
    /// Called at the end of a turn: sends the submitted commands, as far as the pipeline has room.
    /// False: memory ran out, and another turn must follow.
    [[nodiscard]] virtual bool flush() noexcept = 0;

    /// Whether the instance can be asked.
    virtual bool available() const = 0;
    /// Whether the instance can be asked for a new lock. It can extend and delete the keys that it
    /// holds all the same.
    virtual bool may_grant() const = 0;
    /// Whether there is a connection whose probe was answered.
    virtual bool connected() const = 0;
    /// The reason why the instance cannot be asked, or may not grant; errc{} if neither.
    virtual errc reason() const = 0;
    virtual std::string reason_message() const = 0;
    /// The sending time of the oldest command without an answer, of an instance that is available.
    virtual std::optional<lease_clock::time_point> waits_since() const = 0;
    /// Whether no command is under way that could still be answered.
    virtual bool settled() const = 0;

    /// Asks for the server's time in this turn, unless it was asked, or the clock guard is off.
    virtual void ask_time_now() = 0;
    /// The last jump of the server's clock was none: our own clock stood still.
    virtual void excuse_jump() = 0;
    /// Our own clock stood still at a moment in [from, to], for `least` to `most`. This instance
    /// has not shown it.
    virtual void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                                       lease_clock::duration least, lease_clock::duration most) = 0;

    virtual std::string_view run_id() const = 0;
    /// Identifies the server, in the same way in every process that is connected to it.
    virtual std::uint64_t identity() const = 0;

    virtual instance_status status() const = 0;
    virtual instance_counts const& counts() const = 0;
};

} // namespace holdfast::redis

#endif
