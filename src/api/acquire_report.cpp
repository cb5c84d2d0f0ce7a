#include <holdfast/acquire_report.hpp>

#include "api/report_words.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast {

namespace {

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

char const* negation(reported_call c) {
    switch (c) {
    case reported_call::acquire:
        break;
    case reported_call::extend:
        return " not extended: ";
    case reported_call::release:
        return " not released: ";
    case reported_call::ready:
        return "not ready: ";
    }
    return " not acquired: ";
}

bool agrees(instance_report const& i) {
    return i.outcome == instance_outcome::granted || i.outcome == instance_outcome::done;
}

/// True if a vote was asked for, and the instance could not give it.
bool fails(instance_report const& i) {
    switch (i.outcome) {
    case instance_outcome::unreachable:
    case instance_outcome::timed_out:
    case instance_outcome::rejected:
    case instance_outcome::quarantined:
    case instance_outcome::unreplicated:
        return true;
    default:
        return false;
    }
}

/// The key that stood in the way of a lock on several keys.
std::string key_words(instance_report const& i) {
    return i.key.empty() ? std::string() : quoted(i.key) + ' ';
}

/// The holder of the key, and the longest time that it has left.
std::string holder_words(acquire_report const& r, std::size_t holding) {
    std::optional<std::chrono::milliseconds> left;
    auto known = false, expires = true;
    for (auto const& i : r.instances) {
        if (i.outcome != instance_outcome::held || !i.ttl_known) continue;
        known = true;
        expires = expires && i.ttl_left;
        left = std::max(left, i.ttl_left);
    }
    auto const held = std::find_if(r.instances.begin(), r.instances.end(), [](auto const& i) {
        return i.outcome == instance_outcome::held;
    });
    auto text = held == r.instances.end() ? std::string() : key_words(*held);
    text += r.holder.empty() ? std::string("held") : "held by " + r.holder;
    if (known) text += ", " + detail::time_left_words(expires ? left : std::nullopt);
    return text + " (" + detail::instances_words(holding, r.instances.size()) + ')';
}

// What a reader wants to know first: whose fault it is.
std::string verdict(acquire_report const& r) {
    auto const all = r.instances.size();
    auto const count = [&](auto matches) {
        return static_cast<std::size_t>(
            std::count_if(r.instances.begin(), r.instances.end(), matches));
    };
    auto const needed =
        ", " + std::to_string(r.quorum) + (r.quorum == 1 ? " is" : " are") + " needed";
    if (r.up < r.quorum) {
        auto const one = r.up == 1 || all == 1;
        return detail::instances_words(r.up, all) + (one ? " is up" : " are up") + needed;
    }
    auto const holding =
        count([](instance_report const& i) { return i.outcome == instance_outcome::held; });
    if (holding > 0 && holding >= count(fails)) return holder_words(r, holding);
    // An adoption asks for a lease that is there.
    auto const adopts =
        count([](instance_report const& i) { return i.outcome == instance_outcome::missing; }) > 0;
    auto const* const acts = r.call == reported_call::ready     ? " can lock"
                             : r.call != reported_call::acquire ? " did so"
                             : adopts                           ? " have the lease"
                                                                : " granted it";
    return detail::instances_words(count(agrees), all) + acts + needed;
}

std::string describe(instance_report const& i) {
    auto text = i.address + ' ' + key_words(i) + to_string(i.outcome);
    if (!i.holder.empty()) text += " by " + i.holder;
    if (i.outcome == instance_outcome::held && i.ttl_known)
        text += ", " + detail::time_left_words(i.ttl_left);
    if (i.round_trip.count() > 0) text += " after " + detail::duration_words(i.round_trip);
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
    auto text = call == reported_call::ready ? std::string() : "lock " + quoted(key);
    text += negation(call) + verdict(*this);
    if (call == reported_call::acquire)
        text += ", after " + std::to_string(attempts) + (attempts == 1 ? " try" : " tries");
    if (call != reported_call::ready) text += " in " + detail::duration_words(waited);
    char const* separator = ": ";
    for (auto const& i : instances) text += std::exchange(separator, "; ") + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, acquire_report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
