#include "redis/probe.hpp"

#include "redis/lock_kind.hpp"

#include <charconv>
#include <string_view>
#include <utility>

namespace holdfast::redis {

namespace {

/// The count in the text; empty if the text is no count, or the count is more than `most`.
std::optional<std::int64_t> to_count(std::string_view text, std::int64_t most) {
    std::int64_t n = -1;
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (ec != std::errc{} || end != text.data() + text.size() || n < 0 || n > most)
        return std::nullopt;
    return n;
}

/// True for errors that any command may get from a server that has just started, or is stuck in a
/// script.
bool is_not_ready(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY");
}

} // namespace

std::unique_ptr<batch> probe::questions(address const& a, std::string const& connection_name,
                                        bool asks_time) {
    *this = {};
    auto b = std::make_unique<batch>();
    codec::request words;
    auto const ask = [&](step s, auto const&... w) {
        words.clear();
        words.push(w...);
        append(*b, {.round = static_cast<std::uint32_t>(s), .type = command_type::probe},
               words.payload());
    };
    if (a.password().empty()) {
        ask(step::hello, "HELLO", 3, "SETNAME", connection_name);
    } else {
        std::string_view const user = a.user().empty() ? "default" : std::string_view(a.user());
        ask(step::hello, "HELLO", 3, "AUTH", user, a.password(), "SETNAME", connection_name);
    }
    if (a.database() != 0) ask(step::select, "SELECT", a.database());
    // OPTIN: the server must not track the keys that our scripts read. NOLOOP: the server does not
    // push our own changes.
    ask(step::tracking, "CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP");
    for (auto const* const kind : lock_kinds()) {
        for (auto const text : kind->scripts) ask(step::load, "SCRIPT", "LOAD", text);
    }
    ask(step::fsync, "CONFIG", "GET", "*appendfsync*"); // and no-appendfsync-on-rewrite
    ask(step::flushes, "INFO", "commandstats");
    if (asks_time) {
        words.clear();
        words.push("TIME");
        append(*b, {.type = command_type::time}, words.payload());
    }
    ask(step::info, "INFO");
    return b;
}

void probe::refuse(errc cause, std::string_view message) {
    if (refused_ != errc{}) return;
    refused_ = cause;
    message_ = message;
}

void probe::take_part(pending_command const& c, element const& e) {
    auto const s = static_cast<step>(c.round);
    if (e.depth > 0) {
        if (s == step::fsync && e.depth == 1) take_setting(e.value);
        return;
    }
    auto const failed = is_error(e.type);
    // The server's present answers about its settings do not count. A later probe asks again.
    if (failed && is_not_ready(e.value)) return refuse(errc::rejected, e.value);
    switch (s) {
    case step::hello:
        if (failed) {
            // A server without HELLO has no RESP3: it is Redis before 6, or another program.
            auto const too_old = e.value.starts_with("ERR unknown command");
            refuse(too_old ? errc::not_redis : classify(e.value), e.value);
        } else if (e.type != reply_type::map) {
            refuse(errc::not_redis, "the answer to HELLO is not that of Redis or Valkey");
        }
        break;
    case step::select:
        if (failed) refuse(classify(e.value), e.value);
        break;
    case step::tracking:
        tracking_ = !failed;
        break;
    case step::load:
        // A server that refuses SCRIPT LOAD gets the whole script where one is needed.
        break;
    case step::fsync:
        // If the ACL forbids CONFIG GET, the server is treated as not durable.
        fsync_always_ = relaxed_by_rewrite_ = is_value_ = false;
        break;
    case step::flushes:
        flushes_ = failed ? 0 : count_flushes(e.value);
        break;
    case step::info:
        if (failed) {
            refuse(classify(e.value), e.value);
        } else if (info_ = parse_info(e.value); !info_) {
            refuse(errc::not_redis, "the answer to INFO is not that of Redis or Valkey");
        } else if (info_->replica) {
            refuse(errc::read_only, "the instance is a replica");
        } else {
            info_->flushes = flushes_;
        }
        break;
    }
}

void probe::take_setting(std::string_view part) {
    if (std::exchange(is_value_, !is_value_)) {
        if (setting_ == setting::fsync) fsync_always_ = part == "always";
        if (setting_ == setting::relaxed_by_rewrite) relaxed_by_rewrite_ = part != "no";
        return;
    }
    setting_ = part == "appendfsync"                 ? setting::fsync
               : part == "no-appendfsync-on-rewrite" ? setting::relaxed_by_rewrite
                                                     : setting::other;
}

void server_check::ask(pipeline& connection) {
    pending_command const c{.type = command_type::server_check};
    if (asks_for_all_) return connection.add(c, "INFO", "all");
    connection.add(c, "INFO", "server", "replication", "memory", "persistence", "commandstats");
}

void server_check::take_part(element const& e) noexcept try {
    info_.reset();
    if (e.depth > 0) return;
    // Before Redis 7, INFO takes at most one section. The next server check then asks for all.
    if (is_error(e.type)) {
        if (e.value.starts_with("ERR syntax error")) asks_for_all_ = true;
    } else {
        info_ = parse_info(e.value);
    }
} catch (...) { // memory ran out: the next server check counts
    info_.reset();
}

void time_reply::take_part(element const& e) {
    constexpr std::int64_t most_seconds = 3'000'000'000;
    if (e.depth == 0) {
        parts_ = 0;
        valid_ = true;
        return;
    }
    auto const n = to_count(e.value, ++parts_ == 1 ? most_seconds : 999'999);
    valid_ = valid_ && n && parts_ <= 2;
    if (!valid_) return;
    shown_ = parts_ == 1 ? std::chrono::seconds(*n) : shown_ + std::chrono::microseconds(*n);
}

std::optional<std::chrono::microseconds> time_reply::take_reply() {
    if (!valid_ || parts_ != 2) return std::nullopt;
    return shown_;
}

} // namespace holdfast::redis
