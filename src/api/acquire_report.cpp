#include <holdfast/acquire_report.hpp>

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

// A key may hold any byte, but the report must be one line of text.
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

std::string beginning(reported_call c) {
    switch (c) {
    case reported_call::acquire:
        break;
    case reported_call::extend:
        return "extend of lock ";
    case reported_call::release:
        return "release of lock ";
    }
    return "lock ";
}

std::string describe(instance_report const& i) {
    auto text = i.address + ' ' + to_string(i.outcome);
    if (!i.holder.empty()) text += " by " + i.holder;
    if (i.outcome == instance_outcome::held && i.ttl_known) {
        text += i.ttl_left ? ", " + std::to_string(i.ttl_left->count()) + " ms left"
                           : ", never expires";
    }
    if (i.round_trip.count() > 0) text += " after " + milliseconds(i.round_trip);
    if (!i.message.empty()) text += " (" + i.message + ')';
    return text;
}

} // namespace

char const* to_string(instance_outcome o) noexcept {
    switch (o) {
    case instance_outcome::unanswered:
        return "unanswered";
    case instance_outcome::granted:
        return "granted";
    case instance_outcome::held:
        return "held";
    case instance_outcome::unreachable:
        return "unreachable";
    case instance_outcome::timed_out:
        return "timed out";
    case instance_outcome::rejected:
        return "rejected";
    case instance_outcome::quarantined:
        return "quarantined";
    case instance_outcome::unreplicated:
        return "unreplicated";
    case instance_outcome::not_needed:
        return "up, not needed";
    case instance_outcome::done:
        return "done";
    case instance_outcome::missing:
        return "does not have the lease";
    }
    return "?";
}

std::string acquire_report::to_string() const {
    auto const acquires = call == reported_call::acquire;
    auto const wanted = acquires ? instance_outcome::granted : instance_outcome::done;
    auto const votes = std::count_if(instances.begin(), instances.end(),
                                     [&](instance_report const& i) { return i.outcome == wanted; });
    auto text = beginning(call) + quoted(key) + ": " + std::to_string(up) + " of " +
                std::to_string(instances.size()) + " up, quorum " + std::to_string(quorum) + ", " +
                std::to_string(votes) + ' ' + holdfast::to_string(wanted);
    if (acquires) {
        text += ", after " + std::to_string(attempts) + (attempts == 1 ? " try" : " tries");
    }
    text += " in " + milliseconds(waited);
    char const* separator = "; ";
    for (auto const& i : instances) text += separator + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, acquire_report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
