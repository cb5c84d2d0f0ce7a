#include <holdfast/log_observer.hpp>

#include "api/log_text.hpp"
#include "api/option_checks.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

namespace holdfast {

namespace {

/// The kinds of lines, each with a limit of its own.
enum class kind : std::uint8_t {
    waiting,
    acquired,
    handed_over,
    extended,
    lost,
    released,
    acquire_refused, ///< the lock was held, or the caller cancelled
    acquire_failed,
    extend_failed,
    release_failed,
    split_vote,
    stall,
    instance,
    revoked,
};
constexpr std::array<std::string_view, 14> names{
    "waiting",    "acquired",        "handed_over",    "extended",      "lost",
    "released",   "acquire_refused", "acquire_failed", "extend_failed", "release_failed",
    "split_vote", "stall",           "instance",       "revoked"};

kind kind_of(failed_event const& e) {
    switch (e.call) {
    case reported_call::extend:
        return kind::extend_failed;
    case reported_call::release:
        return kind::release_failed;
    case reported_call::acquire:
    case reported_call::ready: // is no event
        break;
    }
    auto const refused =
        e.code == errc::contended || e.code == errc::wait_timeout || e.code == errc::cancelled;
    return refused ? kind::acquire_refused : kind::acquire_failed;
}

/// One line while it is written.
class log_line {
public:
    log_line(log_format format, log_level level, std::string_view event)
        : json_(format == log_format::json)
        , text_(json_ ? "{" : "") {
        text("level", to_string(level));
        text("event", event);
    }

    void text(std::string_view name, std::string_view value) {
        begin(name);
        text_ += json_ ? detail::json_string(value) : detail::logfmt_value(value);
    }
    /// Left out if there is none.
    void text_if(std::string_view name, std::string_view value) {
        if (!value.empty()) text(name, value);
    }
    void number(std::string_view name, std::uint64_t value) {
        begin(name);
        text_ += std::to_string(value);
    }
    void seconds(std::string_view name, std::chrono::nanoseconds d) {
        begin(name);
        std::array<char, 32> digits{};
        auto const value = std::chrono::duration<double>(d).count();
        auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                       std::chars_format::fixed, 6)
                             .ptr;
        text_.append(digits.data(), end);
    }
    void lock(lock_event const& e) {
        text("key", e.key);
        text_if("label", e.holder_label);
        if (e.trace) text("trace", e.trace.to_string());
    }
    void grant(acquired_event const& e) {
        lock(e);
        fence(e.fence);
        seconds("waited_s", e.waited);
        seconds("lasts_s", e.lasts);
    }
    void fence(std::uint64_t value) {
        if (value != 0) number("fence", value);
    }
    std::string_view end() {
        if (json_) text_ += '}';
        return text_;
    }

private:
    void begin(std::string_view name) {
        auto const first = text_.size() <= (json_ ? 1U : 0U);
        if (!first) text_ += json_ ? ',' : ' ';
        if (json_) {
            text_.append("\"").append(name).append("\":");
        } else {
            text_.append(name).append("=");
        }
    }

    bool json_;
    std::string text_;
};

} // namespace

char const* to_string(log_level l) noexcept {
    switch (l) {
    case log_level::debug:
        return "debug";
    case log_level::info:
        return "info";
    case log_level::warning:
        return "warning";
    case log_level::error:
        return "error";
    }
    return "?";
}

class log_observer::writer {
public:
    writer(sink to, log_options const& options)
        : to_(std::move(to))
        , options_(options) {}

    /// `fill(line)` adds the fields of the event.
    template <class Fill>
    void write(kind k, log_level level, lease_clock::time_point now, Fill fill) {
        if (level < options_.level) return;
        std::lock_guard const lock(mutex_);
        for (std::size_t i = 0; i < limits_.size(); ++i) {
            if (now >= limits_[i].ends) write_suppressed(i);
        }
        auto& limit = limits_[static_cast<std::size_t>(k)];
        if (now >= limit.ends) limit = {.ends = now + options_.period, .level = level};
        if (limit.written == options_.lines) {
            ++limit.suppressed;
            return;
        }
        ++limit.written;
        log_line line(options_.format, level, names[static_cast<std::size_t>(k)]);
        fill(line);
        to_(level, line.end());
    }

    void flush() {
        std::lock_guard const lock(mutex_);
        for (std::size_t i = 0; i < limits_.size(); ++i) write_suppressed(i);
    }

private:
    struct budget {
        lease_clock::time_point ends = lease_clock::time_point::min();
        log_level level{};
        unsigned written = 0;
        std::uint64_t suppressed = 0;
    };

    void write_suppressed(std::size_t k) {
        auto& limit = limits_[k];
        if (limit.suppressed == 0) return;
        log_line line(options_.format, limit.level, "suppressed");
        line.text("of", names[k]);
        line.number("lines", std::exchange(limit.suppressed, 0));
        to_(limit.level, line.end());
    }

    sink const to_;
    log_options const options_;
    std::mutex mutex_;
    std::array<budget, names.size()> limits_;
};

log_observer::log_observer(sink to, log_options const& options) {
    if (!to) detail::reject(errc::invalid_options, "the sink of the log is empty");
    if (options.lines == 0)
        detail::reject(errc::invalid_options, "lines is 0; it must be at least 1");
    if (options.period < std::chrono::milliseconds(1)) {
        detail::reject(errc::invalid_options, "period is " +
                                                  std::to_string(options.period.count()) +
                                                  " ms; it must be at least 1 ms");
    }
    writer_ = std::make_unique<writer>(std::move(to), options);
}

log_observer::~log_observer() {
    try {
        flush();
    } catch (...) { // of the sink
    }
}

void log_observer::flush() {
    writer_->flush();
}

void log_observer::on_waiting(waiting_event const& e) {
    writer_->write(kind::waiting, log_level::debug, e.at, [&](log_line& line) { line.lock(e); });
}

void log_observer::on_acquired(acquired_event const& e) {
    writer_->write(kind::acquired, log_level::debug, e.at, [&](log_line& line) { line.grant(e); });
}

void log_observer::on_handed_over(acquired_event const& e) {
    writer_->write(kind::handed_over, log_level::debug, e.at,
                   [&](log_line& line) { line.grant(e); });
}

void log_observer::on_extended(extended_event const& e) {
    writer_->write(kind::extended, log_level::debug, e.at, [&](log_line& line) {
        line.lock(e);
        line.fence(e.fence);
        line.seconds("took_s", e.took);
        line.seconds("lasts_s", e.lasts);
    });
}

void log_observer::on_lost(lost_event const& e) {
    writer_->write(kind::lost, log_level::error, e.at, [&](log_line& line) {
        line.lock(e);
        line.fence(e.fence);
        line.seconds("held_s", e.held);
        line.text("cause", to_string(e.cause));
        line.text_if("revoked_by", e.revoked_by);
        if (e.stalled.count() != 0) line.seconds("stalled_s", e.stalled);
    });
}

void log_observer::on_released(released_event const& e) {
    writer_->write(kind::released, log_level::debug, e.at, [&](log_line& line) {
        line.lock(e);
        line.fence(e.fence);
        line.seconds("held_s", e.held);
        line.text("handed_over", e.handed_over ? "true" : "false");
    });
}

void log_observer::on_failed(failed_event const& e) {
    auto const k = kind_of(e);
    auto const level = k == kind::acquire_refused ? log_level::info : log_level::warning;
    writer_->write(k, level, e.at, [&](log_line& line) {
        line.lock(e);
        line.seconds("took_s", e.took);
        line.text("error", e.code.message());
        if (e.report != nullptr) line.text("report", e.report->to_string());
    });
}

void log_observer::on_revoked(revoked_event const& e) {
    writer_->write(kind::revoked, log_level::warning, e.at, [&](log_line& line) {
        line.lock(e);
        line.text_if("holder", e.holder);
        line.text("digest", e.digest);
        if (e.closed_for) line.seconds("closed_s", *e.closed_for);
    });
}

void log_observer::on_split_vote(split_vote_event const& e) {
    writer_->write(kind::split_vote, log_level::debug, e.at, [&](log_line& line) { line.lock(e); });
}

void log_observer::on_stall(stall_event const& e) {
    writer_->write(kind::stall, log_level::warning, e.at,
                   [&](log_line& line) { line.seconds("length_s", e.length); });
}

void log_observer::on_instance(instance_event const& e) {
    // The end of the client is no fault of an instance.
    auto const well = e.status.state == instance_state::up || e.status.reason == errc::shut_down;
    auto const level = well ? log_level::info : log_level::warning;
    writer_->write(kind::instance, level, e.at, [&](log_line& line) {
        line.text("instance", e.status.address);
        line.text("state", to_string(e.status.state));
        line.text("before", to_string(e.before));
        if (e.status.reason.failed()) line.text("error", e.status.reason.message());
        line.text_if("message", e.status.message);
        line.text_if("server", e.status.server);
    });
}

} // namespace holdfast
