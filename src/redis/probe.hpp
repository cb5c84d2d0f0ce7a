// The first questions on a new connection: they name this client, and ask for the server's product,
// version, role and settings.
#ifndef HOLDFAST_REDIS_PROBE_HPP
#define HOLDFAST_REDIS_PROBE_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "redis/pipeline.hpp"
#include "redis/reply_reader.hpp"
#include "redis/server_info.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

class probe {
public:
    /// Builds the questions. `asks_time`: the probe also asks for the server's clock, see
    /// time_reply.
    std::unique_ptr<batch> questions(address const&, std::string const& connection_name,
                                     bool asks_time);

    void take_part(pending_command const&, element const&);

    /// Not errc{}: the server cannot vote.
    errc refused() const { return refused_; }
    std::string const& message() const { return message_; }
    /// The contents of INFO. To be called after the last question was answered.
    std::optional<server_info> const& info() const { return info_; }
    /// True if the server pushes when a watched key changes.
    bool tracking() const { return tracking_; }
    /// True if each write is on disk before it is answered, provided that appendonly is on.
    bool logs_each_write() const { return fsync_always_ && !relaxed_by_rewrite_; }
    bool durable() const { return info_ && info_->logs_writes && logs_each_write(); }

private:
    enum class step : std::uint8_t {
        hello,
        select,
        tracking,
        load,
        fsync,
        flushes,
        info,
    };

    void refuse(errc, std::string_view message);

    errc refused_{};
    std::string message_;
    std::optional<server_info> info_;
    bool tracking_ = false;
    enum class setting : std::uint8_t {
        other,
        fsync,
        relaxed_by_rewrite,
    };
    void take_setting(std::string_view part);

    std::uint64_t flushes_ = 0;
    bool fsync_always_ = false;
    bool relaxed_by_rewrite_ = false; ///< no-appendfsync-on-rewrite
    setting setting_{};               ///< the setting that is being read
    bool is_value_ = false;
};

/// The server check: asks a probed server again for all that may have changed since the probe.
class server_check {
public:
    void ask(pipeline&);
    void take_part(element const&) noexcept;
    /// The contents of INFO; empty if the reply had none. The next reply may come after this call.
    std::optional<server_info> take_reply() { return std::exchange(info_, std::nullopt); }

private:
    std::optional<server_info> info_;
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
