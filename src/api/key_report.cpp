#include <holdfast/key_report.hpp>

#include "api/option_checks.hpp"

#include <ostream>

namespace holdfast {

namespace {

std::string describe(key_answer const& i) {
    auto text = i.address + ' ' + to_string(i.found);
    if (!i.holder.empty()) text += " by " + i.holder;
    if (!i.digest.empty()) text += " [" + i.digest + ']';
    if (i.found == key_answer::kind::present && i.ttl_known) {
        text += i.ttl_left ? ", " + std::to_string(i.ttl_left->count()) + " ms left"
                           : ", never expires";
    }
    if (!i.message.empty()) text += " (" + i.message + ')';
    return text;
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
    if (ttl_left) text += ", " + std::to_string(ttl_left->count()) + " ms left";
    if (fence != 0) text += ", fence " + std::to_string(fence);
    text += ", quorum " + std::to_string(quorum) + " of " + std::to_string(instances.size());
    char const* separator = "; ";
    for (auto const& i : instances) text += separator + describe(i);
    return text;
}

std::ostream& operator<<(std::ostream& out, key_report const& r) {
    return out << r.to_string();
}

} // namespace holdfast
