// The first questions on a new connection: they name this client, and ask for the server's product,
// version, role and settings, and for the commands that it allows.
#ifndef HOLDFAST_REDIS_PROBE_HPP
#define HOLDFAST_REDIS_PROBE_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/error.hpp>

#include "protocol/server/reconnect.hpp"
#include "redis/wire/pipeline.hpp"
#include "redis/wire/reply_reader.hpp"
#include "redis/wire/server_info.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

/// The part of the questions that depends on the client.
struct introduction {
    std::string_view user{};     ///< empty: the default one
    std::string_view password{}; ///< empty: the client does not authenticate
    std::string_view name{};
    unsigned database = 0;
    bool asks_time = false; ///< also for the server's clock, see time_reply
    bool resp2 = false;     ///< begins without HELLO
    bool waits = false;     ///< also whether WAIT is allowed, see replica_waits.hpp
    bool votes = true;      ///< false: a replica may answer, too
};

/// A probe has one batch of questions or more. A server that refuses HELLO is asked the rest in
/// RESP2; one that refuses EVALSHA, for EVAL.
class probe {
public:
    /// The first questions on a connection.
    std::unique_ptr<batch> begin(introduction const&);
    /// Those that follow from the answers. Null: there are none, and the probe is over.
    std::unique_ptr<batch> next(introduction const&);

    void take_part(pending_command const&, element const&);
    /// A reply is complete. True: it was the last one to the questions so far.
    bool took_reply() { return --awaited_ == 0; }

    /// Not errc{}: the server cannot vote.
    errc refused() const { return refused_; }
    std::string const& message() const { return message_; }
    protocol::fault fault() const { return fault_; }

    /// The server has answered something.
    bool heard() const { return heard_; }
    /// The probe began in RESP2.
    bool skipped_hello() const { return skipped_hello_; }

    // Once the probe is over.

    server_info const& info() const { return info_; }
    /// True if the server pushes when a tracked key changes.
    bool tracking() const { return tracking_; }
    /// True if scripts are sent whole, because the server refuses EVALSHA.
    bool whole_scripts() const { return !no_evalsha_.empty(); }
    /// Whether each write is on disk before it is answered, provided that appendonly is on.
    bool logs_each_write() const { return fsync_always_ && !relaxed_by_rewrite_; }
    bool durable() const { return info_.logs_writes && logs_each_write(); }
    /// How many keys the server tracks at most (tracking-table-max-keys). Zero: no limit.
    std::int64_t tracking_limit() const { return tracking_limit_; }
    /// The services that the client does without. The texts are the server's.
    std::vector<instance_degradation> const& lacks() const { return lacks_; }

private:
    enum class step : std::uint8_t {
        hello,
        authenticate,
        name,
        select,
        tracking,
        untracking,
        load,
        evalsha,
        eval,
        fsync,
        tracking_limit,
        flushes,
        info,
    };
    enum class phase : std::uint8_t {
        all,   ///< all questions
        extra, ///< those that follow from the answers
    };
    enum class setting : std::uint8_t {
        other,
        fsync,
        relaxed_by_rewrite,
        tracking_limit,
    };
    class questionnaire;

    std::unique_ptr<batch> ask_all(introduction const&);
    void evaluate();
    bool compares_natively() const;
    void refuse(errc, std::string_view message, protocol::fault);
    void refuse(std::string_view error, std::string_view message);
    std::string_view shown(std::string_view error) const;
    void lack(degradation, std::string_view command, std::string_view reason);
    void take_error(step, std::string_view error);
    void take_reply(step, element const&);
    void take_hello(std::string_view part);
    void take_setting(std::string_view part);
    void take_info(std::string_view text);

    errc refused_{};
    std::string message_;
    protocol::fault fault_{};
    server_info info_;
    std::vector<instance_degradation> lacks_;
    // Why a command is refused; empty if it is not.
    std::string no_hello_, no_evalsha_, no_eval_;
    std::string field_; ///< of HELLO, whose value is being read
    std::uint64_t flushes_ = 0;
    std::int64_t tracking_limit_ = 1'000'000; ///< the servers' default
    unsigned awaited_ = 0;                    ///< replies
    phase phase_{};
    setting setting_{}; ///< the setting that is being read
    bool heard_ = false;
    bool skipped_hello_ = false;
    bool resp2_ = false;
    bool votes_ = true;
    bool has_info_ = false;
    bool has_password_ = false;
    bool has_fsync_ = false; ///< the server has reported appendfsync
    bool tracking_ = false;
    bool fsync_always_ = false;
    bool relaxed_by_rewrite_ = false; ///< no-appendfsync-on-rewrite
    bool is_value_ = false;
};

/// The server check: asks a probed server again for all that may have changed since the probe.
class server_check {
public:
    void ask(pipeline&);
    void take_part(element const&);
    /// The contents of INFO; empty if the reply had none. The next reply may come after this call.
    std::optional<server_info> take_reply() { return std::exchange(info_, std::nullopt); }
    /// Not empty: the server refuses to be asked, now and later.
    std::string const& refused() const { return refused_; }
    void restart() { refused_.clear(); }

private:
    std::optional<server_info> info_;
    std::string refused_;
    bool asks_for_all_ = false;
};

/// Reads the reply to TIME.
class time_reply {
public:
    void take_part(element const&);
    /// The server's clock; empty if the reply was no valid time. The next reply may come after this
    /// call.
    std::optional<std::chrono::microseconds> take_reply();

private:
    std::uint8_t parts_ = 0;
    bool valid_ = false;
    std::chrono::microseconds shown_{0};
};

} // namespace holdfast::redis

#endif
