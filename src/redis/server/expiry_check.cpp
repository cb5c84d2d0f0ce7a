#include "redis/server/expiry_check.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::redis {

using std::chrono::milliseconds;

bool expiry_check::hold(pending_command const& c, grant_facts const& granted,
                        lease_clock::time_point sent) {
    if (state_.services.has(degradation::no_expiry_times)) return false;
    if (c.whole_seconds) return false;
    held_grant const h{.command = c, .granted = granted, .sent = sent};
    if (held_.empty()) ask(h);
    held_.push_back(h);
    return true;
}

void expiry_check::ask(held_grant const& h) {
    constexpr milliseconds imprecise{10};
    auto const args = h.command.owner->arguments(h.command.command);
    state_.commands.add({.type = command_type::expiry}, "PTTL", args.first_key());
    expires_after_ = h.sent + args.ttl - imprecise;
}

void expiry_check::ask_next() {
    // The owners of those without one were answered when the instance became suspect.
    std::erase_if(held_, [](held_grant const& h) { return !h.command.owner; });
    if (!held_.empty()) ask(held_.front());
}

std::optional<expiry_check::held_grant> expiry_check::take_asked() {
    if (held_.empty()) return std::nullopt;
    auto asked = std::move(held_.front());
    held_.erase(held_.begin());
    return asked;
}

void expiry_check::take_part(element const& e) {
    if (e.type == reply_type::number) ttl_ = milliseconds_of(e.value);
    if (!is_error(e.type)) return;
    problem_ = "PTTL: " + presentable(e.value, state_.secrets);
    if (!is_passing(e.value)) state_.services.add(degradation::no_expiry_times, problem_);
}

expiry_check::finding expiry_check::evaluate() {
    constexpr std::int64_t no_key = -2;
    auto const ttl = std::exchange(ttl_, std::nullopt);
    if (!ttl) {
        return state_.services.has(degradation::no_expiry_times) ? finding::lasts
                                                                 : finding::unclear;
    }
    if (*ttl == no_key) { // released, or its ttl has passed
        problem_ = "the key was gone before its time to live was known";
        return finding::unclear;
    }
    auto const missing = expires_after_ - (state_.now() + milliseconds(*ttl));
    if (*ttl < 0 || missing <= lease_clock::duration::zero()) {
        due_ = false;
        return finding::lasts;
    }
    problem_ = "keys expire too early, by " +
               std::to_string(std::chrono::duration_cast<milliseconds>(missing).count()) +
               " ms: the server keeps whole seconds, or its clock has jumped";
    state_.refusal.set(errc::rejected, problem_, protocol::fault::setup);
    return finding::cut;
}

} // namespace holdfast::redis
