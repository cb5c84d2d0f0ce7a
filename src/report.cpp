#include <holdfast/report.hpp>

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace holdfast {

namespace {

std::string milliseconds(std::chrono::nanoseconds d) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(d.count()) / 1e6);
    return text;
}

// Keys are binary-safe; a line of text is not.
std::string quoted(std::string const& key) {
    std::string text = "\"";
    for (char const c : key) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\x%02x",
                          static_cast<unsigned>(static_cast<unsigned char>(c)));
            text += escape;
        } else {
            text += c;
        }
    }
    return text + '"';
}

std::string describe(instance_report const& i) {
    auto text = i.address + ' ' + to_string(i.what);
    if (!i.holder.empty()) text += " by " + i.holder;
    if (i.what == outcome::held && i.ttl_known) {
        text += i.ttl_left ? ", " + std::to_string(i.ttl_left->count()) + " ms left" : ", never expires";
    }
    if (i.round_trip.count() > 0) text += " after " + milliseconds(i.round_trip);
    if (!i.message.empty()) text += " (" + i.message + ')';
    return text;
}

} // namespace

char const* to_string(outcome o) noexcept {
    switch (o) {
    case outcome::unanswered:
        return "unanswered";
    case outcome::granted:
        return "granted";
    case outcome::held:
        return "held";
    case outcome::unreachable:
        return "unreachable";
    case outcome::timed_out:
        return "timed out";
    case outcome::rejected:
        return "rejected";
    case outcome::quarantined:
        return "quarantined";
    case outcome::not_needed:
        return "up, not needed";
    }
    return "?";
}

std::string report::to_string() const {
    auto const granted = std::count_if(instances.begin(), instances.end(),
                                       [](instance_report const& i) { return i.what == outcome::granted; });
    auto text = "lock " + quoted(key) + ": " + std::to_string(up) + " of " +
                std::to_string(instances.size()) + " up, quorum " + std::to_string(quorum) + ", " +
                std::to_string(granted) + " granted, after " + std::to_string(attempts) +
                (attempts == 1 ? " try" : " tries") + " in " + milliseconds(waited);
    char const* separator = "; ";
    for (auto const& i : instances) text += separator + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
