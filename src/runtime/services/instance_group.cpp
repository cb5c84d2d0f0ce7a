#include "runtime/services/instance_group.hpp"

#include <algorithm>

namespace holdfast::runtime {

void instance_group::determine() const {
    if (turn_.running() && std::exchange(determined_, true)) return;
    reachable_ = voters_ = {};
    for (unsigned i = 0; i < size(); ++i) {
        if (!all_[i]->available()) continue;
        reachable_.insert(i);
        if (all_[i]->may_grant()) voters_.insert(i);
    }
}

protocol::instance_set instance_group::usable_now() const {
    protocol::instance_set there;
    for (unsigned i = 0; i < size(); ++i) {
        if (all_[i]->connected() && all_[i]->available()) there.insert(i);
    }
    return there;
}

bool instance_group::is_new_server(unsigned instance, std::string_view run_id) const {
    for (unsigned i = 0; i < size(); ++i) {
        // A suspect instance counts too: it may answer again, and vote.
        if (i != instance && all_[i]->connected() && all_[i]->run_id() == run_id) return false;
    }
    return true;
}

errc instance_group::cause_of(unsigned instance) const {
    auto const cause = all_[instance]->reason();
    return cause != errc{} ? cause : errc::unreachable;
}

std::array<errc, protocol::instance_set::capacity> instance_group::causes() const {
    std::array<errc, protocol::instance_set::capacity> found{};
    for (unsigned i = 0; i < size(); ++i) found[i] = all_[i]->reason();
    return found;
}

std::span<instance_snapshot> instance_group::snapshots(round_record const& round,
                                                       std::span<std::string_view const> keys) {
    snapshots_.resize(size());
    for (unsigned i = 0; i < size(); ++i) {
        auto& s = snapshots_[i];
        s.status = all_[i]->status();
        s.serves_key = all_[i]->serves_all(keys);
        s.cause = all_[i]->reason();
        s.message.clear();
        if (needs_message(round, i)) s.message = all_[i]->reason_message();
    }
    return snapshots_;
}

bool instance_group::settled() const {
    return std::all_of(all_.begin(), all_.end(), [](auto const& i) { return i->settled(); });
}

bool instance_group::flush() noexcept {
    auto complete = true;
    for (auto const& i : all_) complete = i->flush() && complete;
    return complete;
}

protocol::instance_set instance_group::late() const {
    protocol::instance_set found;
    for (unsigned i = 0; i < size(); ++i) {
        if (round_trips_[i].late()) found.insert(i);
    }
    return found;
}

protocol::instance_set instance_group::punctual(protocol::instance_set of) const {
    auto const rest = of - late();
    return rest.empty() ? of : rest;
}

protocol::instance_set instance_group::newly_late() {
    auto const now = turn_.time();
    for (unsigned i = 0; i < size(); ++i) {
        auto const since = all_[i]->waits_since();
        if (since && round_trips_[i].becomes_late(now, *since)) newly_late_.insert(i);
        if (!round_trips_[i].late()) newly_late_.erase(i);
    }
    if (newly_late_.empty() || (voters() - late()).empty()) return {};
    return std::exchange(newly_late_, {});
}

} // namespace holdfast::runtime
