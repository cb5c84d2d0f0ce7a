#include "redis/cluster/map_question.hpp"

#include "redis/cluster/cluster_identity.hpp"
#include "redis/wire/server_info.hpp"

#include <algorithm>
#include <charconv>

namespace holdfast::redis {

namespace {

/// The value of a line `name:value`.
std::string_view field(std::string_view text, std::string_view name) {
    for (std::size_t at = 0; at < text.size();) {
        auto const end = std::min(text.find('\n', at), text.size());
        auto line = text.substr(at, end - at);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
            return line.substr(name.size() + 1);
        }
        at = end + 1;
    }
    return {};
}

/// In RESP3 a text for people begins with its format.
std::string_view text_of(element const& e) {
    constexpr std::size_t format = 4;
    return e.type == reply_type::verbatim_string ? e.value.substr(format) : e.value;
}

} // namespace

void map_question::ask(cluster_node& to, lease_clock::time_point now) {
    ++serial_;
    reader_.emplace(to.address().host);
    problem_.clear();
    cause_ = {};
    identity_.clear();
    refusals_.clear();
    members_.clear();
    epoch_ = 0;
    to_ = nullptr;
    auto& c = to.link();
    c.ask(question_number(cluster_question::state, serial_), "CLUSTER", "INFO");
    c.ask(question_number(cluster_question::nodes, serial_), "CLUSTER", "NODES");
    c.ask(question_number(cluster_question::slots, serial_), "CLUSTER", "SLOTS");
    to_ = &to;
    asked_ = now;
}

void map_question::take_part(pending_command const& c, element const& e) {
    if (!mine(c)) return;
    switch (question_of(c.round)) {
    case cluster_question::state:
        if (e.depth != 0) break;
        if (is_error(e.type)) return refused("CLUSTER INFO", e.value);
        take_state(text_of(e));
        break;
    case cluster_question::nodes:
        if (e.depth != 0) break;
        if (is_error(e.type)) return refused("CLUSTER NODES", e.value);
        identity_ = cluster_identity(text_of(e));
        members_ = cluster_members(text_of(e));
        break;
    case cluster_question::slots:
        if (e.depth == 0 && is_error(e.type)) cause_ = classify(e.value);
        reader_->take_part(e);
        break;
    case cluster_question::node_timeout:
    case cluster_question::ping:
        break;
    }
}

void map_question::refused(std::string_view question, std::string_view error) {
    if (!refusals_.empty()) refusals_ += "; ";
    refusals_.append(question).append(": ").append(without_arguments(error));
}

// A node that is cut off from the majority sends an old map.
void map_question::take_state(std::string_view info) {
    auto const state = field(info, "cluster_state");
    if (state == "fail") {
        problem_ = "CLUSTER INFO: cluster_state:fail";
        cause_ = errc::unreachable;
    }
    auto const epoch = field(info, "cluster_current_epoch");
    std::from_chars(epoch.data(), epoch.data() + epoch.size(), epoch_);
}

bool map_question::took_reply(pending_command const& c) {
    if (!mine(c) || question_of(c.round) != cluster_question::slots) return false;
    to_ = nullptr;
    if (!reader_->finish() && problem_.empty()) problem_ = reader_->problem();
    if (!problem_.empty() && cause_ == errc{}) cause_ = errc::not_redis;
    // After some refusals the Cluster may have been made anew.
    constexpr unsigned most_outdated = 10;
    if (problem_.empty() && epoch_ < latest_epoch_ && ++outdated_ < most_outdated) {
        problem_ = "CLUSTER INFO: cluster_current_epoch " + std::to_string(epoch_) + ", after " +
                   std::to_string(latest_epoch_);
        cause_ = errc::unreachable;
    }
    if (!problem_.empty()) return true;
    outdated_ = 0;
    latest_epoch_ = epoch_;
    map_ = reader_->take_map();
    if (!identity_.empty()) return true;
    // The user may not ask for CLUSTER NODES. Then the primaries alone count.
    for (auto const& n : map_.nodes()) {
        if (identity_.empty() || n.id < identity_) identity_ = n.id;
    }
    return true;
}

} // namespace holdfast::redis
