// An instance that is a Redis Cluster. The voter for a key is the primary of its slot. So there is
// a link to each primary, with batches, tracking, a probe and guards of its own.
//
//   cluster_instance    the instance: routes commands, and answers those that cannot be sent
//   node_table          the nodes, and the owners of the slots
//   cluster_node        one node: the link to it, and its guards
//   map_question        CLUSTER SLOTS and its company
//   delayed_commands    commands that no node can execute now
//   grant_routes        where a release must go
//   slot_parts          commands on keys of several slots
//
// See doc/internals/cluster.md.
#ifndef HOLDFAST_REDIS_CLUSTER_INSTANCE_HPP
#define HOLDFAST_REDIS_CLUSTER_INSTANCE_HPP

#include "protocol/cluster/cluster_patience.hpp"
#include "protocol/cluster/map_refresh.hpp"
#include "redis/cluster/cluster_board.hpp"
#include "redis/cluster/cluster_clocks.hpp"
#include "redis/cluster/cluster_node.hpp"
#include "redis/cluster/delayed_commands.hpp"
#include "redis/cluster/grant_routes.hpp"
#include "redis/cluster/map_question.hpp"
#include "redis/cluster/node_table.hpp"
#include "redis/cluster/slot_parts.hpp"
#include "redis/net/link_boundary.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/server/instance.hpp"
#include "redis/server/pending_releases.hpp"
#include "redis/server/server_link.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class cluster_instance final : public instance,
                               public std::enable_shared_from_this<cluster_instance>,
                               private cluster_node_user,
                               private slot_part_user {
public:
    /// `options`: of each node's connection; the address is that of the Cluster. `sole`: the client
    /// has no other instance.
    cluster_instance(asio::any_io_executor, unsigned number, connection_options options, bool sole,
                     instance_owner&, location::stream_factory = make_plain_stream);
    ~cluster_instance() override;

    void start() override;
    void stop() override;
    void abandon() noexcept override;

    [[nodiscard]] bool submit(encoder&, reply_handler_ptr const&,
                              std::uint32_t round) noexcept override;
    [[nodiscard]] bool flush() noexcept override;

    bool available() const override;
    bool may_grant() const override;
    bool connected() const override;
    bool serves(std::string_view key) const override;
    bool moves_keys() const override { return true; }
    scan_plan plan_scan() const override;
    std::string scan_problem(std::uint16_t node) const override;
    errc reason() const override;
    std::string reason_message() const override;
    std::optional<lease_clock::time_point> waits_since() const override;
    bool settled() const override;

    void ask_time_now() override;
    void excuse_jump() override;
    void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                               lease_clock::duration least, lease_clock::duration most) override;
    void on_older_server() override;
    /// A push that is missing shows nothing here: a migration can end a registration silently.
    void push_missed(protocol::breach) override {}

    std::string_view run_id() const override { return identity_; }
    std::uint64_t identity() const override;

    instance_status status() const override { return board_.status(); }
    instance_counts const& counts() const override { return counts_; }

private:
    using index = protocol::slot_map::index;
    using obstacle = protocol::cluster_obstacle;
    static constexpr std::chrono::milliseconds wake_interval{200};
    static constexpr std::chrono::seconds compare_interval{1};
    static constexpr std::string_view foreign_text =
        " belongs to another Cluster: a client uses the first Cluster that it has found";

    // cluster_node_user
    bool may_connect() noexcept override { return nodes_.may_connect(); }
    void on_connecting_ended() noexcept override { nodes_.connect_waiting(); }
    bool on_node_up(cluster_node&) override;
    void on_node_down(cluster_node&) noexcept override;
    void on_doubt(cluster_node&) noexcept override;
    void on_ready(cluster_node&) noexcept override { try_waiting(); }
    void on_refused(cluster_node&, pending_command, protocol::cluster_refusal const&,
                    lease_clock::time_point sent) override;
    void on_asking_denied(cluster_node&, pending_command const&, std::string_view error) override;
    void on_command_answered(pending_command const&) noexcept override;
    void on_clock_reading(cluster_node&, protocol::clock_reading const&) override;
    bool awaits_ages() const override;
    void on_map_part(cluster_node&, pending_command const&, element const&) override;
    void on_map_reply(cluster_node&, pending_command const&) override;
    void on_map_lost(cluster_node&) noexcept override;
    protocol::duration node_timeout() const noexcept override { return node_timeout_; }
    void on_node_timeout(protocol::duration d) noexcept override {
        node_timeout_ = std::max(node_timeout_, d);
    }
    instance_owner& owner() const noexcept override { return owner_; }
    unsigned number() const noexcept override { return number_; }

    // slot_part_user: cluster_parts.cpp
    bool submit_part(reply_handler_ptr part, protocol::command,
                     std::uint32_t round) noexcept override;
    void undo(reply_handler_ptr part) noexcept override;
    void on_undone(std::span<std::string_view const> keys) noexcept override;
    bool route_parts(encoder&, reply_handler_ptr const&, std::uint32_t round);
    void keep_parts(reply_handler_ptr const&) noexcept;

    // Commands: cluster_commands.cpp
    cluster_node* node_for(pending_command&, unsigned slot);
    obstacle obstacle_of(cluster_node const*, protocol::command) const;
    bool route(encoder&, reply_handler_ptr const&, std::uint32_t round);
    bool route(pending_command);
    bool scan(encoder&, reply_handler_ptr const&, std::uint32_t round) noexcept;
    bool send(cluster_node&, pending_command const&) noexcept;
    void wait(pending_command, obstacle, unsigned slot, lease_clock::time_point next = {});
    void wait_after_refusal(pending_command, obstacle, unsigned slot);
    static obstacle behind(obstacle at_target);
    bool try_again(delayed_command&) noexcept;
    void try_waiting() noexcept;
    lease_clock::time_point lost_since(unsigned slot) const;
    void answer_unsent(pending_command const&, obstacle, unsigned slot) noexcept;
    void keep(reply_handler_ptr, lease_clock::time_point since);
    void route_pending();
    std::string explain(obstacle, unsigned slot) const;

    // The map: cluster_map.cpp
    void ask_for_map();
    void ask_again() noexcept;
    cluster_node* node_to_ask();
    void take_map(cluster_node& from);
    void adopt_map(cluster_node& from);
    bool is_foreign() const;
    void refuse(cluster_node& from);
    void show_foreign();
    void show_map_problem();
    void ask_seeds();
    void wake_waiters();

    void check_ages();

    // The timer
    void arm();
    void on_time();
    void do_what_is_due();

    asio::any_io_executor executor_;
    link_boundary boundary_;
    connection_options const options_;
    instance_owner& owner_;
    unsigned const number_;
    instance_counts counts_;
    cluster_board board_;
    node_table nodes_;
    grant_routes routes_;
    delayed_commands delayed_;
    pending_releases unrouted_; ///< their slots have no owner
    protocol::cluster_patience patience_;
    protocol::map_refresh refresh_;
    map_question question_;
    cluster_clocks clocks_;
    protocol::duration node_timeout_ = cluster_node::default_node_timeout;
    index last_asked_ = node_table::none;   ///< for the map
    index ask_next_ = node_table::none;     ///< knows of a change
    lease_clock::time_point compared_at_{}; ///< the clocks of the nodes
    std::string identity_;
    std::vector<std::string> members_; ///< the ids of all nodes, sorted
    std::string map_problem_;          ///< why the last question brought no map; empty if it did
    errc map_cause_{};                 ///< its code
    bool some_server_is_old_ = false;  ///< and the client has heard of it
    bool duplicate_ = false;           ///< another instance is the same Cluster
    bool changed_ = false;             ///< a slot has another owner: waiters must ask again
    lease_clock::time_point woken_at_{};
    turn_timer timer_;
    lease_clock::time_point armed_for_ = lease_clock::time_point::max();
    bool rings_ = false; ///< the timer is set
    bool stopped_ = false;
};

} // namespace holdfast::redis

#endif
