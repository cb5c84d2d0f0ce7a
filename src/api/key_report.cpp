#include <holdfast/key_report.hpp>

#include "api/option_checks.hpp"
#include "api/report_words.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {

namespace {

/// "a reader", "12 readers", or "readers" if their number is not known.
std::string readers_words(std::optional<std::uint64_t> count) {
    if (!count) return "readers";
    return *count == 1 ? "a reader" : std::to_string(*count) + " readers";
}

std::string permits_words(std::optional<std::uint64_t> count) {
    if (!count) return "permits";
    return *count == 1 ? "a permit" : std::to_string(*count) + " permits";
}

std::string writer_words(key_user const& writer) {
    return writer.holder.empty() ? "a writer waits" : "a writer of " + writer.holder + " waits";
}

/// The labels of readers or permits, or the digests of those without one, behind the slot of a
/// permit. A line has room for a few.
std::string names_of(std::vector<key_user> const& users) {
    constexpr std::size_t most = 8;
    std::string text;
    for (std::size_t n = 0; n < std::min(most, users.size()); ++n) {
        auto const& u = users[n];
        if (n > 0) text += ", ";
        if (u.slot) text += std::to_string(*u.slot) + ' ';
        text += u.holder.empty() ? '[' + u.digest + ']' : u.holder;
    }
    return users.size() > most ? text + ", ..." : text;
}

bool has_key(key_answer const& i) {
    using kind = key_answer::kind;
    return i.found == kind::present || i.found == kind::readers || i.found == kind::permits;
}

/// The key says so on each of the instances on which the verdict rests.
bool holds(key_report const& r, key_answer::kind k) {
    return r.state == key_state::held && std::ranges::any_of(r.instances, [&](auto const& i) {
               return i.found == k && i.digest == r.digest;
           });
}

std::string describe(key_answer const& i) {
    auto const present = i.found == key_answer::kind::present;
    auto text = i.address + ' ' +
                (i.found == key_answer::kind::readers   ? readers_words(i.reader_count)
                 : i.found == key_answer::kind::permits ? permits_words(i.permit_count)
                                                        : to_string(i.found));
    if (present && !i.holder.empty()) text += " by " + i.holder;
    if (present && !i.digest.empty()) text += " [" + i.digest + ']';
    if (has_key(i) && i.ttl_known) text += ", " + detail::time_left_words(i.ttl_left);
    if (i.writer) text += ", " + writer_words(*i.writer);
    if (i.turn == readers_turn::open) text += ", the readers' turn";
    if (!i.message.empty()) text += " (" + i.message + ')';
    return text;
}

/// The instances on which the verdict rests.
std::string basis(key_report const& r) {
    auto const all = r.instances.size();
    auto const count = [&](auto matches) {
        return static_cast<std::size_t>(
            std::count_if(r.instances.begin(), r.instances.end(), matches));
    };
    auto const found = [&](key_answer::kind k) {
        return count([k](key_answer const& i) { return i.found == k; });
    };
    switch (r.state) {
    case key_state::free:
        return detail::instances_words(found(key_answer::kind::absent), all);
    case key_state::held:
        return detail::instances_words(
            count([&](key_answer const& i) { return has_key(i) && i.digest == r.digest; }), all);
    case key_state::split:
        return "keys on " + detail::instances_words(count(has_key), all);
    case key_state::not_a_lock:
        return detail::instances_words(found(key_answer::kind::not_a_lock), all);
    case key_state::unknown:
        break;
    }
    return "votes of " + detail::instances_words(all - found(key_answer::kind::unknown), all);
}

} // namespace

char const* to_string(key_state s) noexcept {
    switch (s) {
    case key_state::free:
        return "free";
    case key_state::held:
        return "held";
    case key_state::split:
        return "split";
    case key_state::not_a_lock:
        return "not a lock";
    case key_state::unknown:
        return "unknown";
    }
    return "?";
}

char const* to_string(key_answer::kind k) noexcept {
    switch (k) {
    case key_answer::kind::absent:
        return "absent";
    case key_answer::kind::present:
        return "present";
    case key_answer::kind::readers:
        return "readers";
    case key_answer::kind::permits:
        return "permits";
    case key_answer::kind::not_a_lock:
        return "not a lock";
    case key_answer::kind::unknown:
        return "unknown";
    }
    return "?";
}

char const* to_string(readers_turn t) noexcept {
    switch (t) {
    case readers_turn::none:
        return "none";
    case readers_turn::wait:
        return "wait";
    case readers_turn::open:
        return "open";
    }
    return "?";
}

bool key_report::shared() const noexcept {
    return holds(*this, key_answer::kind::readers);
}

bool key_report::counted() const noexcept {
    return holds(*this, key_answer::kind::permits);
}

std::string key_report::to_string() const {
    auto text = "lock " + detail::quoted(key) + ": " + holdfast::to_string(state);
    if (shared()) {
        text += " by " + readers_words(reader_count);
        if (!readers.empty()) text += " (" + names_of(readers) + ')';
    } else if (counted()) {
        text += " by " + permits_words(permit_count);
        if (!permits.empty()) text += " (" + names_of(permits) + ')';
    } else if (!holder.empty()) {
        text += " by " + holder;
    }
    if (ttl_left) text += ", " + detail::time_left_words(ttl_left);
    text += " (" + basis(*this) + ')';
    if (writer) text += ", " + writer_words(*writer);
    if (fence != 0) text += ", fence " + std::to_string(fence);
    char const* separator = ": ";
    for (auto const& i : instances) text += std::exchange(separator, "; ") + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, key_report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
