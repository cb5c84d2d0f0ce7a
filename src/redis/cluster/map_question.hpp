// The questions to a node of a Cluster for the map, and the replies: CLUSTER INFO, CLUSTER SLOTS
// and CLUSTER NODES, in one batch.
#ifndef HOLDFAST_REDIS_MAP_QUESTION_HPP
#define HOLDFAST_REDIS_MAP_QUESTION_HPP

#include "protocol/cluster/slot_map.hpp"
#include "redis/cluster/cluster_node.hpp"
#include "redis/cluster/slot_map_reader.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class map_question {
public:
    /// Asks the node, which is up.
    void ask(cluster_node&, lease_clock::time_point now);

    bool is_to(cluster_node const& n) const { return to_ == &n; }
    lease_clock::time_point asked() const { return asked_; }
    /// The answer is not awaited any more.
    void give_up() noexcept { to_ = nullptr; }

    void take_part(pending_command const&, element const&);
    /// True if all replies have come.
    bool took_reply(pending_command const&);

    /// The fault of the replies, for people. Empty if there is a map.
    std::string const& problem() const { return problem_; }
    /// Its code.
    errc cause() const { return cause_; }
    protocol::slot_map take_map() { return std::move(map_); }
    /// See cluster_identity(). Empty if the node does not report.
    std::string const& identity() const { return identity_; }
    /// The ids of all nodes, sorted. Empty if the node does not report.
    std::vector<std::string> const& members() const { return members_; }
    /// The questions beside the map that the node refused, and its words. Empty: none.
    std::string const& refusals() const { return refusals_; }

private:
    bool mine(pending_command const& c) const {
        return to_ != nullptr && c.round / question_kinds == serial_;
    }
    void take_state(std::string_view info);
    void refused(std::string_view question, std::string_view error);

    cluster_node const* to_ = nullptr;
    lease_clock::time_point asked_{};
    std::uint32_t serial_ = 0;
    std::optional<slot_map_reader> reader_;
    protocol::slot_map map_;
    std::string problem_, identity_, refusals_;
    std::vector<std::string> members_;
    errc cause_{};
    std::uint64_t epoch_ = 0, latest_epoch_ = 0;
    unsigned outdated_ = 0; ///< maps of an earlier epoch in a row
};

} // namespace holdfast::redis

#endif
