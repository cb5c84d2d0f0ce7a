// One node of a Cluster: the link to it, and its guards.
//
// It has the part of the Cluster in the link. The rest of the link's events go to the owner of the
// Cluster.
#ifndef HOLDFAST_REDIS_CLUSTER_NODE_HPP
#define HOLDFAST_REDIS_CLUSTER_NODE_HPP

#include "protocol/cluster/cluster_guard.hpp"
#include "protocol/cluster/cluster_refusal.hpp"
#include "protocol/cluster/slot_map.hpp"
#include "redis/server/link_policy.hpp"
#include "redis/server/server_link.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

class cluster_node;

/// The Cluster, as its nodes see it. All calls are made within a turn.
class cluster_node_user {
public:
    /// Whether one more node may be connected now.
    virtual bool may_connect() noexcept = 0;
    /// A node is connected, or could not be: another one may be now.
    virtual void on_connecting_ended() noexcept = 0;
    /// The node was probed and can be asked. True if the owner is to hear of it.
    virtual bool on_node_up(cluster_node&) = 0;
    /// The node does not answer any more, or the connection is lost.
    virtual void on_node_down(cluster_node&) noexcept = 0;
    /// The node's grants do not count until another node names it.
    virtual void on_doubt(cluster_node&) noexcept = 0;
    /// Commands that wait for the node may be sent now: it has reported its origin, or was not
    /// silent.
    virtual void on_ready(cluster_node&) noexcept = 0;
    /// `sent`: when the node got the command.
    virtual void on_refused(cluster_node&, pending_command, protocol::cluster_refusal const&,
                            lease_clock::time_point sent) = 0;
    /// The node does not accept ASKING from the user, and so has refused the command.
    virtual void on_asking_denied(cluster_node&, pending_command const&,
                                  std::string_view error) = 0;
    virtual void on_command_answered(pending_command const&) noexcept = 0;
    virtual void on_clock_reading(cluster_node&, protocol::clock_reading const&) = 0;
    /// True while another node of the first map may soon report its age.
    virtual bool awaits_ages() const = 0;

    // The question for the map
    virtual void on_map_part(cluster_node&, pending_command const&, element const&) = 0;
    virtual void on_map_reply(cluster_node&, pending_command const&) = 0;
    virtual void on_map_lost(cluster_node&) noexcept = 0;

    /// The greatest cluster-node-timeout that a node has reported.
    virtual protocol::duration node_timeout() const noexcept = 0;
    virtual void on_node_timeout(protocol::duration) noexcept = 0;

    virtual instance_owner& owner() const noexcept = 0;
    virtual unsigned number() const noexcept = 0;

protected:
    ~cluster_node_user() = default;
};

/// The questions to a node. The number of a question has the kind in its lowest bits.
enum class cluster_question : std::uint8_t {
    node_timeout, ///< CONFIG GET cluster-node-timeout
    ping,
    state, ///< CLUSTER INFO, the first of the map's questions
    slots, ///< CLUSTER SLOTS
    nodes, ///< CLUSTER NODES
};
inline constexpr std::uint32_t question_kinds = 8;

constexpr std::uint32_t question_number(cluster_question q, std::uint32_t serial) {
    return serial * question_kinds + static_cast<std::uint32_t>(q);
}
constexpr cluster_question question_of(std::uint32_t number) {
    return static_cast<cluster_question>(number % question_kinds);
}

class cluster_node final : private link_policy, private link_listener, private redirect_policy {
public:
    using index = protocol::slot_map::index;
    /// Where no setting was read. A short time doubts too much, and a long one too little.
    static constexpr std::chrono::seconds default_node_timeout{1};

    /// `options`: those of the link.
    cluster_node(asio::any_io_executor const&, cluster_node_user&, index, protocol::node_address,
                 connection_options options, location::stream_factory = make_plain_stream);
    ~cluster_node();
    cluster_node(cluster_node const&) = delete;
    cluster_node& operator=(cluster_node const&) = delete;

    void start();

    server_link& link() { return *link_; }
    server_link const& link() const { return *link_; }
    index number() const { return index_; }
    protocol::node_address const& address() const { return address_; }
    /// The map has reported the id and the name of the node.
    void learn(protocol::node_address const& n) { address_ = n; }
    std::string name() const;
    /// The node, and why it cannot be asked.
    std::string problem() const;

    /// Connected, and no answer is overdue.
    bool up() const { return link_->connected() && link_->available(); }
    /// Up, and its grants may count.
    bool ready(lease_clock::time_point now) const {
        return up() && !awaits_origin() && !silence_.doubted() && !silence_.stale(now);
    }
    bool doubted() const { return silence_.doubted(); }
    bool connecting() const { return connecting_; }
    /// The link is to be connected as soon as the Cluster allows.
    bool waits_to_connect() const { return waits_to_connect_; }
    /// When the link was lost, or could not be made for the last time.
    lease_clock::time_point down_since() const { return down_since_; }

    // The map

    /// An entry of the configured address: a replica may answer, too.
    bool seed = false;
    /// The node's own map is that of another Cluster.
    bool foreign = false;
    bool sent_map = false; ///< on this connection, whether or not the map could be used

    /// The number of slots that the node owns.
    unsigned slots() const { return slots_; }
    void set_slots(unsigned) noexcept;
    /// Since when the node owns no slots.
    lease_clock::time_point unused_since() const { return unused_since_; }

    /// Another node, asked at `asked`, names this one as a primary. True if this ends a doubt.
    bool named_by_another(lease_clock::time_point asked);
    /// The node owns slots. `first`: by the first map of the client.
    void owns_slots(bool first);
    /// The node owned slots before the client came, so it may have restarted before that.
    bool in_first_map() const { return in_first_map_; }
    /// A slot came from this node. `confirmed`: by its own word.
    void inherits_from(cluster_node const&, bool confirmed);
    /// The node from which the last slot came; none if that is not known.
    index predecessor() const { return predecessor_; }
    void forget_predecessor() noexcept { predecessor_ = protocol::slot_map::none; }
    /// That node serves no more.
    void predecessor_retired() noexcept { succession_.ceded(); }
    protocol::ownership_guard const& ownership() const { return ownership_; }
    /// The guard of an earlier cluster_node with this id.
    void restore(protocol::ownership_guard const& g) { ownership_ = g; }
    std::optional<protocol::clock_offset> const& clock() const { return clock_; }

    // Idle connections

    /// When the node is to be asked something, so that the next grant counts.
    std::optional<lease_clock::time_point> ask_by() const;
    void ping();

private:
    // link_policy
    errc objection(protocol::command, lease_clock::time_point sent) noexcept override;
    std::string_view objection_text(errc) const noexcept override;
    bool may_connect() noexcept override {
        auto const is_known = seed || heard_sent_ != lease_clock::time_point{};
        connecting_ = connecting_ || is_known || user_.may_connect();
        waits_to_connect_ = !connecting_;
        return connecting_;
    }
    void on_link_lost(errc) noexcept override { end_connecting(); }
    bool votes() const noexcept override { return !seed; }
    bool awaits_ages(bool others) const override {
        return in_first_map_ && (others || user_.awaits_ages());
    }
    bool on_available() override;
    bool on_unavailable() override;
    bool on_clock_reading(protocol::clock_reading const& r) override {
        user_.on_clock_reading(*this, r);
        return false;
    }

    // link_listener
    void on_connection() noexcept override;
    void on_heard(lease_clock::time_point sent) noexcept override;
    void on_time_shown(lease_clock::time_point sent, lease_clock::duration shown) override;
    void on_probe(server_info const&) override;
    void on_check(server_info const&) override;
    void take_part(pending_command const&, element const&) override;
    void on_reply(pending_command const&) override;
    void on_connection_lost() noexcept override;

    // redirect_policy
    void on_asking(std::string_view error) override { asking_error_ = error; }
    bool refuses(std::string_view error) override;
    void take_over(pending_command&) override;
    void on_answered(pending_command const& c) noexcept override { user_.on_command_answered(c); }

    lease_clock::time_point time() const noexcept { return user_.owner().time(); }
    /// Nothing is known yet about the origin of the slots that the node has got.
    bool awaits_origin() const {
        return needs_origin_ && options_.on_restart != restart_policy::off && link_->checks_data();
    }
    void end_connecting() noexcept {
        if (std::exchange(connecting_, false)) user_.on_connecting_ended();
    }
    void ask_for_origin();
    void check_ownership();
    void check_clock(protocol::clock_offset const& before);
    void distrust(bool promoted, std::string_view reason) noexcept;
    void begin_distrust() noexcept;
    protocol::duration quarantine() const {
        return protocol::node_quarantine(options_.max_ttl, user_.node_timeout());
    }

    cluster_node_user& user_;
    index const index_;
    protocol::node_address address_;
    connection_options const options_;
    std::shared_ptr<server_link> link_;
    bool connecting_ = false, waits_to_connect_ = false;
    bool was_up_ = false;
    bool failed_ = false; ///< could not be connected, or was lost, since the link was made
    lease_clock::time_point down_since_{};
    unsigned slots_ = 0;
    lease_clock::time_point unused_since_;

    // Guards
    protocol::silence_guard silence_{default_node_timeout};
    protocol::ownership_guard ownership_;
    protocol::succession_guard succession_;
    index predecessor_ = protocol::slot_map::none;
    std::optional<protocol::node_origin> origin_; ///< of the present connection
    bool durable_ = false;
    bool owns_ = false;
    bool needs_origin_ = false; ///< the origin is that of the time before the node owned slots
    lease_clock::time_point owns_since_{};
    bool first_ = false; ///< by the first map
    bool in_first_map_ = false;
    std::optional<protocol::clock_offset> clock_;
    std::vector<protocol::clock_offset> clocks_before_; ///< of earlier owners, to be compared
    bool distrusts_ = false, promoted_ = false;
    lease_clock::time_point distrusted_{}; ///< since when it may lack grants
    std::string distrust_;                 ///< why; empty if memory ran out for it

    // Replies
    std::string refusal_;      ///< the error of the command that is being read
    std::string asking_error_; ///< of the ASKING before the last command that had one
    std::string setting_;
    lease_clock::time_point heard_sent_{}; ///< when the last answered command was sent
    /// A ping is under way, unless it was dropped with a node that was suspect: then no reply
    /// comes.
    lease_clock::time_point pinging_until_{};
};

} // namespace holdfast::redis

#endif
