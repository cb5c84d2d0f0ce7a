// The interface of an instance: a server, the primary that Sentinel names, or a Cluster.
#ifndef HOLDFAST_REDIS_INSTANCE_HPP
#define HOLDFAST_REDIS_INSTANCE_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/server/clock_reading.hpp"
#include "protocol/waiting/push_trust.hpp"
#include "redis/net/turn_owner.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/reply_handler.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The owner of an instance. All calls are made on the client's executor; all but in_turn() are
/// made within a turn.
class instance_owner : public turn_owner {
public:
    /// False if another instance is known to be the server with this run id.
    virtual bool is_new_server(unsigned instance, std::string_view run_id) = 0;
    /// The server says that a tracked key has changed.
    virtual void on_push(unsigned instance, std::string_view key) = 0;
    /// A refused try of this client has written the key, and has undone that. With NOLOOP this ends
    /// registrations for the key without a push.
    virtual void on_own_write(unsigned /*instance*/, std::string_view /*key*/) {}
    /// The server says that any key may have changed.
    virtual void on_push_for_all(unsigned instance) = 0;
    /// The instance cannot grant a new lock any more, or does not push changes any more.
    virtual void on_unavailable(unsigned instance) = 0;
    /// The instance is up, and its pending releases have been submitted; or its quarantine is over.
    virtual void on_available(unsigned instance) = 0;
    /// The instance took this long to answer a batch of commands.
    virtual void on_round_trip(unsigned /*instance*/, lease_clock::duration) {}
    /// The instance has reported its time.
    virtual void on_clock_reading(unsigned /*instance*/, protocol::clock_reading const&) {}
    /// A server of the instance has reported its age at the first contact: it was started at
    /// `start` at the latest.
    virtual void on_age(unsigned /*instance*/, lease_clock::time_point /*start*/) {}
    /// True while another instance may soon report that it is older.
    virtual bool awaits_ages(unsigned /*instance*/) const { return false; }
    /// The instance may have forgotten leases of this client.
    virtual void on_forgotten(unsigned /*instance*/) {}
    /// 64 random bits, for pauses.
    virtual std::uint64_t random_bits() = 0;
    /// The state of the instance has changed.
    virtual void on_change() = 0;
    /// The instance has nothing more to send or to wait for.
    virtual void on_idle() = 0;

protected:
    ~instance_owner() = default;
};

/// The servers that have the keys of an instance between them. Neither a server nor a gap: the
/// servers are not known yet, and on_available() or on_unavailable() will tell.
struct scan_plan {
    struct server {
        std::uint16_t node = 0; ///< for command_args::node
        std::string name{};     ///< empty: the instance is this one server
    };
    std::vector<server> servers{};
    /// Another value: keys may have moved from one server to another meanwhile.
    std::uint64_t layout = 0;
    std::string gap{}; ///< why some keys are at none of the servers; empty if all are at one
};

struct instance_counts {
    std::atomic<std::uint64_t> commands{0}, batches{0}, releases_dropped{0};
};

/// One failure domain that votes. Only status() and counts() are thread-safe.
class instance {
public:
    virtual ~instance() = default;

    virtual void start() = 0;
    /// Closes the connection at once. Open commands are answered as unknown or unsent.
    virtual void stop() = 0;
    /// Drops all state and answers nothing: the execution context is being destroyed.
    virtual void abandon() noexcept = 0;

    /// Adds the encoder's command to the batch of this turn. The answer comes later, never from
    /// within submit(). An instance that is not available keeps releases and ignores other
    /// commands; neither gets an answer. False if that failed: the command gets no answer, and the
    /// connection ends with this turn.
    [[nodiscard]] virtual bool submit(encoder&, reply_handler_ptr const&,
                                      std::uint32_t round) noexcept = 0;
    /// Called at the end of a turn: sends the submitted commands, as far as the pipeline has room.
    /// False if the connection has failed, so that another turn must follow.
    [[nodiscard]] virtual bool flush() noexcept = 0;

    /// True if the instance takes commands.
    virtual bool available() const = 0;
    /// True if the instance can be asked for a new lock. If not, the instance can still extend and
    /// delete the keys that it holds.
    virtual bool may_grant() const = 0;
    /// True if there is a connection, and its probe was answered.
    virtual bool connected() const = 0;
    /// False for a Cluster whose node for the key cannot be asked now.
    virtual bool serves(std::string_view /*key*/) const { return true; }
    /// The same for each of these keys.
    bool serves_all(std::span<std::string_view const> keys) const {
        return std::ranges::all_of(keys, [this](auto key) { return serves(key); });
    }
    /// True for a Cluster. A key that migrates is deleted at its old node, and pushed as changed.
    virtual bool moves_keys() const { return false; }
    /// The servers to scan for all keys.
    virtual scan_plan plan_scan() const {
        return {.servers = {{.node = 0, .name = {}}}, .gap = {}};
    }
    /// Why the server with this number cannot be scanned now. Empty if it can: only then a scan may
    /// be submitted.
    virtual std::string scan_problem(std::uint16_t /*node*/) const {
        return available() ? std::string() : reason_message();
    }
    /// The reason why the instance cannot be asked, or may not grant. errc{} if it can and may.
    virtual errc reason() const = 0;
    virtual std::string reason_message() const = 0;
    /// The time since which the oldest answer of an available instance is outstanding: when the
    /// command was sent, or when the last reply came if that is later. Empty if none is.
    virtual std::optional<lease_clock::time_point> waits_since() const = 0;
    /// True if no command is waiting or under way that could still be answered.
    virtual bool settled() const = 0;

    /// Asks for the server's time in this turn, unless that question is under way, or the clock
    /// guard is off.
    virtual void ask_time_now() = 0;
    /// The last jump was not one of the server's clock: our own clock stood still.
    virtual void excuse_jump() = 0;
    /// Our own clock stood still at a moment in [from, until], for `least` to `most`. This instance
    /// has not shown that yet.
    virtual void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                                       lease_clock::duration least, lease_clock::duration most) = 0;

    /// A server is older than the longest lease. So one that is young has been restarted.
    virtual void on_older_server() {}

    /// The instance had promised to push when a key changes, and has not, unless there is no
    /// breach. Calls nothing of its owner.
    virtual void push_missed(protocol::breach) = 0;

    virtual std::string_view run_id() const = 0;
    /// Identifies the server, in the same way in every process that is connected to it.
    virtual std::uint64_t identity() const = 0;

    virtual instance_status status() const = 0;
    virtual instance_counts const& counts() const = 0;
};

} // namespace holdfast::redis

#endif
