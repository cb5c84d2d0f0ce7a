#include "redis/cluster/cluster_node.hpp"

#include "redis/cluster/slot_redirect.hpp"
#include "redis/wire/optional_text.hpp"
#include "redis/wire/server_info.hpp"
#include "redis/wire/slot_text.hpp"
#include "redis/wire/text_hash.hpp"

#include <boost/scope/scope_fail.hpp>

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

protocol::node_origin origin_of(server_info const& info) {
    return {.run = hash_of(info.run_id),
            .history = hash_of(info.replication_id),
            .promoted = info.promoted,
            .replica = info.replica};
}

} // namespace

cluster_node::cluster_node(asio::any_io_executor const& executor, cluster_node_user& user, index i,
                           protocol::node_address node, connection_options options,
                           location::stream_factory factory)
    : user_(user)
    , index_(i)
    , address_(std::move(node))
    , options_(std::move(options))
    , unused_since_(user.owner().time())
    , ownership_(options_.on_restart == restart_policy::strict) {
    link_ = std::make_shared<server_link>(
        executor, user_.number(), options_, user_.owner(), std::move(factory),
        link_deployment{.policy = *this, .listener = *this, .redirects = *this});
}

cluster_node::~cluster_node() {
    link_->abandon();
}

void cluster_node::start() {
    link_->start();
}

std::string cluster_node::name() const {
    return options_.address.to_string();
}

std::string cluster_node::problem() const {
    auto const reason = link_->reason_message();
    if (!reason.empty()) return name() + ": " + reason;
    return name() + (link_->connected() ? "" : ": not connected yet");
}

// A node that was a replica is asked less and less often. Now commands wait for it.
void cluster_node::set_slots(unsigned n) noexcept {
    auto const before = std::exchange(slots_, n);
    if (before != 0 && n == 0) {
        unused_since_ = time();
        succession_.retired();
    }
    if (before != 0 || n == 0 || link_->connected()) return;
    down_since_ = time();
    link_->end_pause();
}

//
// Policy
//

// Called after each attempt to connect, too.
bool cluster_node::on_unavailable() {
    // A quarantine has begun, or there are no pushes.
    if (link_->available()) return true;
    auto const lost = std::exchange(was_up_, false);
    if (lost || !std::exchange(failed_, true)) down_since_ = time();
    user_.on_node_down(*this);
    return lost;
}

bool cluster_node::on_available() {
    ask_for_origin();
    if (!std::exchange(was_up_, true)) {
        link_->ask(question_number(cluster_question::node_timeout, 0), "CONFIG", "GET",
                   "cluster-node-timeout");
    }
    return user_.on_node_up(*this);
}

//
// Guards
//

errc cluster_node::objection(protocol::command c, lease_clock::time_point sent) noexcept {
    if (silence_.doubted() || awaits_origin()) return errc::instance_timeout;
    auto const extends = c == protocol::command::extend || c == protocol::command::heal;
    return extends && !succession_.counts_extensions(sent) ? errc::quarantined : errc{};
}

std::string_view cluster_node::objection_text(errc cause) const noexcept {
    if (cause == errc::quarantined) {
        return "the node was promoted, and the old primary may still serve: extensions count after "
               "half of the cluster-node-timeout";
    }
    if (!silence_.doubted()) return "the node has not reported yet whether it was a replica";
    return "the node was silent for half of its cluster-node-timeout: another node may have "
           "replaced it";
}

void cluster_node::on_connection() noexcept {
    silence_.connected();
    origin_.reset();
    needs_origin_ = false;
    foreign = sent_map = false;
}

void cluster_node::on_heard(lease_clock::time_point sent) noexcept {
    auto const before = silence_.doubted();
    heard_sent_ = sent;
    if (!silence_.answered(sent, time()) && !before) user_.on_doubt(*this);
}

bool cluster_node::named_by_another(lease_clock::time_point asked) {
    auto const before = silence_.doubted();
    silence_.named_by_another(asked);
    return before && !silence_.doubted();
}

void cluster_node::on_probe(server_info const& info) {
    end_connecting();
    durable_ = link_->durable();
    origin_ = origin_of(info);
    needs_origin_ = owns_ && origin_->replica;
    check_ownership();
}

void cluster_node::on_check(server_info const& info) {
    origin_ = origin_of(info);
    // The node was asked for this when it owned slots already.
    auto const fresh = heard_sent_ >= owns_since_ && !origin_->replica;
    auto const shown = fresh && std::exchange(needs_origin_, false);
    check_ownership();
    if (shown) return user_.on_ready(*this);
    ask_for_origin();
}

// A seed may have been a replica until now. The origin that it reported before says nothing about
// that.
void cluster_node::owns_slots(bool first) {
    if (std::exchange(owns_, true)) return;
    first_ = in_first_map_ = first;
    owns_since_ = time();
    needs_origin_ = origin_ && (!first || origin_->replica);
    ask_for_origin();
    check_ownership();
}

void cluster_node::ask_for_origin() {
    if (awaits_origin() && up()) link_->check_now();
}

// The restart guard of the connection checks the server of the connection before. This checks the
// node as the Cluster knows it.
void cluster_node::check_ownership() {
    if (!origin_ || options_.on_restart == restart_policy::off) return;
    if (!owns_ || origin_->replica) return ownership_.observed(*origin_);
    if (awaits_origin()) return;
    switch (ownership_.serves(*origin_, std::exchange(first_, false))) {
    case protocol::ownership::known:
        break;
    case protocol::ownership::promoted:
        distrust(true, "it was a replica, and may lack locks of the primary that it replaced "
                       "(on_restart)");
        break;
    case protocol::ownership::restarted:
        if (!durable_)
            distrust(false, "the node has restarted: it may have forgotten locks (on_restart)");
        break;
    }
}

// The quarantine begins even if memory runs out for its reason: a promotion is reported only once.
void cluster_node::distrust(bool promoted, std::string_view reason) noexcept {
    distrusts_ = true;
    promoted_ = promoted;
    distrusted_ = time();
    distrust_ = text_if_memory([&] { return reason; });
    begin_distrust();
}

/// Again when the cluster-node-timeout is known.
void cluster_node::begin_distrust() noexcept {
    auto const left = distrusted_ + quarantine() - time();
    if (left > protocol::duration::zero()) link_->begin_quarantine(left, distrust_);
    if (promoted_) succession_.promoted(distrusted_, user_.node_timeout());
}

void cluster_node::inherits_from(cluster_node const& from, bool confirmed) {
    predecessor_ = from.number();
    if (confirmed || from.link().reason() == errc::read_only) predecessor_retired();
    auto const inherited =
        protocol::inherited_quarantine(from.link_->quarantined_until(), time(), quarantine());
    if (inherited > protocol::duration::zero()) {
        link_->begin_quarantine(inherited, "it got slots of a node that may have forgotten locks");
    }
    if (!options_.detect_clock_jumps || !from.clock_) return;
    if (clock_) return check_clock(*from.clock_);
    boost::scope::scope_fail const not_compared(
        [&] { link_->begin_quarantine(options_.max_ttl, {}); });
    clocks_before_.push_back(*from.clock_);
}

void cluster_node::check_clock(protocol::clock_offset const& before) {
    if (!protocol::ends_leases_early(*clock_, before, options_.max_ttl)) return;
    link_->begin_quarantine(
        options_.max_ttl,
        "its clock is ahead of the clock of the node whose slots it got (detect_clock_jumps)");
}

void cluster_node::on_time_shown(lease_clock::time_point sent, lease_clock::duration shown) {
    clock_ = protocol::clock_offset::from(sent, time(), shown);
    for (auto const& before : std::exchange(clocks_before_, {})) check_clock(before);
}

//
// Idle connections
//

std::optional<lease_clock::time_point> cluster_node::ask_by() const {
    if (!up()) return std::nullopt;
    auto const by = silence_.ask_again_by();
    return by ? std::optional(std::max(*by, pinging_until_)) : std::nullopt;
}

void cluster_node::ping() {
    if (!up() || time() < pinging_until_) return;
    // The connection is never idle, so it does not send these by itself.
    link_->ask_due();
    link_->ask(question_number(cluster_question::ping, 0), "PING");
    pinging_until_ = time() + options_.instance_timeout;
}

//
// Replies
//

void cluster_node::take_part(pending_command const& c, element const& e) {
    switch (question_of(c.round)) {
    case cluster_question::node_timeout:
        if (e.depth == 0) setting_.clear();
        if (e.depth != 1) break;
        if (setting_ == "cluster-node-timeout") {
            constexpr unsigned most = 24 * 3'600'000;
            if (auto const ms = to_number_within(e.value, 1, most)) {
                auto const timeout = std::chrono::milliseconds(*ms);
                silence_.set_node_timeout(timeout);
                user_.on_node_timeout(timeout);
                if (distrusts_) begin_distrust();
            }
        }
        setting_ = e.value;
        break;
    case cluster_question::ping:
        break;
    case cluster_question::state:
    case cluster_question::slots:
    case cluster_question::nodes:
        user_.on_map_part(*this, c, e);
        break;
    }
}

void cluster_node::on_reply(pending_command const& c) {
    switch (question_of(c.round)) {
    case cluster_question::node_timeout:
        break;
    case cluster_question::ping:
        pinging_until_ = {};
        user_.on_ready(*this);
        break;
    case cluster_question::state:
    case cluster_question::slots:
    case cluster_question::nodes:
        user_.on_map_reply(*this, c);
        break;
    }
}

void cluster_node::on_connection_lost() noexcept {
    pinging_until_ = {};
    user_.on_map_lost(*this);
}

bool cluster_node::refuses(std::string_view error) {
    if (!parse_cluster_refusal(error)) return false;
    refusal_ = error;
    return true;
}

void cluster_node::take_over(pending_command& c) {
    auto const error = std::exchange(refusal_, {}); // the next command may be refused meanwhile
    auto const refusal = parse_cluster_refusal(error);
    user_.on_command_answered(c);
    if (c.asking && classify(asking_error_) == errc::access_denied) {
        if (!c.answered) {
            user_.on_asking_denied(*this, c, asking_error_);
            c.answered = true;
            c.round = short_time(time());
        }
        // The migration may end before the key does. So a release is tried on.
        if (c.command != protocol::command::release) return;
    }
    user_.on_refused(*this, c, *refusal, heard_sent_);
}

} // namespace holdfast::redis
