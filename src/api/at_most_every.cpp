#include <holdfast/at_most_every.hpp>
#include <holdfast/detail/access.hpp>

#include "api/option_checks.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/engine/lock_state.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>
#include <string>

namespace holdfast {

namespace {

/// Rounded down, in its greatest unit: "48 min".
std::string rounded(std::chrono::milliseconds d) {
    struct unit {
        std::chrono::milliseconds length;
        char const* name;
    };
    using namespace std::chrono_literals;
    constexpr std::array<unit, 4> units{{{24h, " d"}, {1h, " h"}, {1min, " min"}, {1s, " s"}}};
    for (auto const& u : units) {
        if (d >= u.length) return std::to_string(d / u.length) + u.name;
    }
    return std::to_string(d.count()) + " ms";
}

} // namespace

std::string start_report::to_string() const {
    auto text = detail::quoted(key) + ": ";
    auto const at = holder.empty() ? "" : " at " + holder;
    if (ran) {
        text += "ran";
    } else if (since) {
        text += (running ? "held, began " : "began ") + rounded(*since) + " ago" + at;
    } else {
        text += (running ? "held" : "began before") + at;
    }
    if (due) text += ", due in " + rounded(*due);
    return text;
}

std::ostream& operator<<(std::ostream& out, start_report const& r) {
    return out << r.to_string();
}

namespace detail {

// Its ttl has nothing to do with max_ttl: nobody holds a mark.
lock make_start_mark(lock const& of, std::chrono::milliseconds interval) {
    auto const& state = *access::state_of(of);
    auto& engine = state.engine();
    check_interval(interval);
    auto const prefix = std::string_view(engine.key_prefix());
    auto const key = std::string(state.key().substr(prefix.size())).append(start_mark_suffix);
    check_key(prefix, key);
    lock_options const options{.ttl = interval, .watchdog = false};
    return access::make_lock(
        runtime::make_lock_state({engine.find_or_make_settings(options), prefix, key, {}}));
}

std::chrono::milliseconds longest_early(std::chrono::milliseconds interval) noexcept {
    return std::min<std::chrono::milliseconds>(interval / 60, std::chrono::minutes(1));
}

start_report report_of_run(lock const& of, std::chrono::milliseconds interval,
                           std::chrono::nanoseconds took) {
    start_report r;
    r.key = of.key();
    r.ran = true;
    r.holder = access::state_of(of)->engine().holder_label();
    r.since = std::chrono::duration_cast<std::chrono::milliseconds>(took);
    r.due = std::max(interval - *r.since, std::chrono::milliseconds(0));
    return r;
}

start_report report_of(key_report const& mark, lock const& of, std::chrono::milliseconds interval) {
    start_report r;
    r.key = of.key();
    r.holder = mark.holder;
    if (mark.state != key_state::held) return r;
    r.due = mark.ttl_left;
    if (r.due && *r.due <= interval) r.since = interval - *r.due;
    return r;
}

} // namespace detail
} // namespace holdfast
