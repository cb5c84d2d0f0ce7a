#ifndef HOLDFAST_LOG_OBSERVER_HPP
#define HOLDFAST_LOG_OBSERVER_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/observer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace holdfast {

/// The form of a line.
enum class log_format : std::uint8_t {
    logfmt, ///< `level=error event=lost key=order:17 held_s=3.21`
    json,   ///< one object: `{"level":"error","event":"lost","key":"order:17","held_s":3.21}`
};

/// The weight of a line.
enum class log_level : std::uint8_t {
    /// Each acquire, wait, hand-over, extension and release, and each split vote.
    debug,
    /// Acquires that failed because the lock was held, or were cancelled; instances that are up, or
    /// that the client leaves at its end.
    info,
    /// Calls that failed for want of instances; instances that are not up; stalls of the event
    /// loop; holders that this client has revoked.
    warning,
    /// Lost leases.
    error,
};
/// The value in words, for example "warning".
HOLDFAST_API char const* to_string(log_level) noexcept;

/// The options of a log_observer.
struct log_options {
    log_format format = log_format::logfmt; ///< the form of each line
    /// The least level that is written.
    log_level level = log_level::info;
    /// How many lines of one kind are written in each `period`. The others are counted: the line
    /// `event=suppressed` tells their number after the period, when any event follows, and in
    /// flush(). So an outage of many leases writes few lines. At least 1.
    unsigned lines = 10;
    /// From the first line of a kind on. At least 1 ms.
    std::chrono::milliseconds period{10'000};
};

/// Writes one line for each event of a client that is worth it, to a function of the program.
///
/// @code
/// auto const log = std::make_shared<holdfast::log_observer>(
///     [](holdfast::log_level, std::string_view line) { std::clog << line << '\n'; });
/// holdfast::client locks(executor, instances, {.observer = log.get()});
/// @endcode
///
/// A line has no time: the program's logger adds its own. The fields of each event are in
/// doc/monitoring.md. Keys may hold any bytes; the line is UTF-8 without control characters. It
/// holds no token and no password.
///
/// @par Thread safety  Safe. The function is called by one thread at a time.
/// @par Executor, exception safety  As observer: an exception of the function is counted.
class HOLDFAST_API log_observer : public observer {
public:
    /// `line` ends without a newline, and is valid during the call.
    using sink = std::function<void(log_level, std::string_view line)>;

    /// @throws system_error  errc::invalid_options; what() names the value.
    explicit log_observer(sink to, log_options const& options = {});
    /// As flush(), without exceptions.
    ~log_observer() override;
    log_observer(log_observer const&) = delete;
    log_observer& operator=(log_observer const&) = delete;

    /// Writes how many lines were not written so far.
    void flush();

    void on_waiting(waiting_event const&) override;
    void on_acquired(acquired_event const&) override;
    void on_handed_over(acquired_event const&) override;
    void on_extended(extended_event const&) override;
    void on_lost(lost_event const&) override;
    void on_released(released_event const&) override;
    void on_failed(failed_event const&) override;
    void on_revoked(revoked_event const&) override;
    void on_split_vote(split_vote_event const&) override;
    void on_stall(stall_event const&) override;
    void on_instance(instance_event const&) override;

private:
    class writer;
    std::unique_ptr<writer> writer_;
};

} // namespace holdfast

#endif
