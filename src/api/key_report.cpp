#include <holdfast/key_report.hpp>

#include "api/option_checks.hpp"
#include "api/report_words.hpp"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast {

namespace {

std::string describe(key_answer const& i) {
    auto text = i.address + ' ' + to_string(i.found);
    if (!i.holder.empty()) text += " by " + i.holder;
    if (!i.digest.empty()) text += " [" + i.digest + ']';
    if (i.found == key_answer::kind::present && i.ttl_known)
        text += ", " + detail::time_left_words(i.ttl_left);
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
        return detail::instances_words(count([&](key_answer const& i) {
                                           return i.found == key_answer::kind::present &&
                                                  i.digest == r.digest;
                                       }),
                                       all);
    case key_state::split:
        return "keys on " + detail::instances_words(found(key_answer::kind::present), all);
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
    case key_answer::kind::not_a_lock:
        return "not a lock";
    case key_answer::kind::unknown:
        return "unknown";
    }
    return "?";
}

std::string key_report::to_string() const {
    auto text = "lock " + detail::quoted(key) + ": " + holdfast::to_string(state);
    if (!holder.empty()) text += " by " + holder;
    if (ttl_left) text += ", " + detail::time_left_words(ttl_left);
    text += " (" + basis(*this) + ')';
    if (fence != 0) text += ", fence " + std::to_string(fence);
    char const* separator = ": ";
    for (auto const& i : instances) text += std::exchange(separator, "; ") + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, key_report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
