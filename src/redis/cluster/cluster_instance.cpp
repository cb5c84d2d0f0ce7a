#include "redis/cluster/cluster_instance.hpp"

#include "protocol/cluster/hash_slot.hpp"
#include "redis/net/shared_source.hpp"
#include "redis/wire/text_hash.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

cluster_instance::cluster_instance(asio::any_io_executor executor, unsigned number,
                                   connection_options options, bool sole, instance_owner& owner,
                                   location::stream_factory factory)
    : executor_(std::move(executor))
    , options_([&] {
        options.counts = &counts_;
        options.source = share(std::move(options.source), options.connect_timeout);
        return std::move(options);
    }())
    , owner_(owner)
    , number_(number)
    , board_(options_.address.to_string())
    , nodes_(executor_, static_cast<cluster_node_user&>(*this), options_, std::move(factory))
    , unrouted_(options_.max_pending_releases, counts_,
                [this](std::size_t count) { board_.set_unrouted_releases(count); })
    , patience_{.instance_timeout = options_.instance_timeout, .sole = sole}
    , refresh_(options_.instance_timeout)
    , clocks_(options_.max_ttl, owner, number)
    , timer_(executor_, owner) {}

cluster_instance::~cluster_instance() {
    abandon();
}

void cluster_instance::start() {
    boundary_.run([this] {
        nodes_.use_seeds();
        board_.set_nodes(nodes_.board());
        arm();
    });
}

void cluster_instance::stop() {
    if (std::exchange(stopped_, true)) return;
    timer_.cancel();
    nodes_.for_each([](cluster_node& n) { n.link().stop(); });
    delayed_.visit_all([&](delayed_command& w) {
        answer_unsent(w.command, w.obstacle, 0);
        return false;
    });
    board_.set_problem(errc::shut_down, "the client was shut down");
    routes_.clear();
    unrouted_.stop();
}

void cluster_instance::abandon() noexcept {
    stopped_ = true;
    timer_.forget();
    question_.give_up();
    nodes_.for_each([](cluster_node& n) { n.link().abandon(); });
    delayed_.clear();
    routes_.clear();
    unrouted_.stop();
}

bool cluster_instance::flush() noexcept {
    if (stopped_) return true;
    auto complete = !boundary_.broken();
    // What the nodes have in common has failed.
    if (boundary_.take()) nodes_.for_each([](cluster_node& n) { n.link().break_off(); });
    nodes_.for_each([&](cluster_node& n) { complete = n.link().flush() && complete; });
    return boundary_.run([this] { arm(); }) && complete;
}

//
// State
//

bool cluster_instance::available() const {
    if (duplicate_ || stopped_) return false;
    if (nodes_.has_map()) {
        return nodes_.any_owner([](auto const& n) { return n.link().available(); });
    }
    // A seed that has sent no map is of no use. Another one may be.
    auto some = false;
    nodes_.for_each([&](cluster_node& n) { some = some || (n.link().available() && !n.sent_map); });
    return some;
}

bool cluster_instance::may_grant() const {
    if (!available()) return false;
    return !nodes_.has_map() ||
           nodes_.any_owner([](auto const& n) { return n.link().may_grant(); });
}

bool cluster_instance::connected() const {
    return nodes_.has_map() && nodes_.any_owner([](auto const& n) { return n.up(); });
}

bool cluster_instance::serves(std::string_view key) const {
    auto const* const node = nodes_.owner_of(protocol::hash_slot(key));
    return node != nullptr && node->up();
}

errc cluster_instance::reason() const {
    if (duplicate_) return errc::duplicate_instance;
    if (available() && may_grant()) return {};
    if (!nodes_.has_map() && map_cause_ != errc{}) return map_cause_;
    auto cause = errc{};
    nodes_.for_each([&](cluster_node& n) {
        if (nodes_.has_map() && n.slots() == 0) return;
        if (cause == errc{}) cause = n.link().reason();
    });
    return cause == errc{} ? errc::unreachable : cause;
}

std::string cluster_instance::reason_message() const {
    if (duplicate_) return "another configured address leads to the same Cluster";
    if (!nodes_.has_map() && map_cause_ != errc{}) return map_problem_;
    std::string text;
    nodes_.for_each([&](cluster_node& n) {
        if (!text.empty() || (nodes_.has_map() && n.slots() == 0)) return;
        if (n.link().reason() == errc{}) return;
        text = n.problem();
    });
    return text;
}

std::optional<lease_clock::time_point> cluster_instance::waits_since() const {
    std::optional<lease_clock::time_point> oldest;
    nodes_.for_each([&](cluster_node& n) {
        auto const since = n.link().waits_since();
        if (since && (!oldest || *since < *oldest)) oldest = since;
    });
    return oldest;
}

bool cluster_instance::settled() const {
    auto all = delayed_.settled();
    nodes_.for_each([&](cluster_node& n) { all = all && n.link().settled(); });
    return all;
}

std::uint64_t cluster_instance::identity() const {
    auto const& text = identity_.empty() ? options_.address.host() : identity_;
    return hash_of(text);
}

//
// Clocks
//

void cluster_instance::on_clock_reading(cluster_node& n, protocol::clock_reading const& reading) {
    clocks_.observed(nodes_, n, reading);
}

void cluster_instance::ask_time_now() {
    nodes_.for_each([](cluster_node& n) { n.link().ask_time_now(); });
}

void cluster_instance::excuse_jump() {
    clocks_.excuse_reported(nodes_);
}

void cluster_instance::our_clock_stood_still(lease_clock::time_point from,
                                             lease_clock::time_point until,
                                             lease_clock::duration least,
                                             lease_clock::duration most) {
    nodes_.for_each(
        [&](cluster_node& n) { n.link().our_clock_stood_still(from, until, least, most); });
}

//
// Ages
//

void cluster_instance::on_older_server() {
    some_server_is_old_ = true;
    check_ages();
}

// A node that joins later is young as well. It gets its slots from nodes that the client knows.
void cluster_instance::check_ages() {
    if (!some_server_is_old_) return;
    nodes_.for_each([](cluster_node& n) {
        if (n.in_first_map()) n.link().on_older_server();
    });
}

bool cluster_instance::awaits_ages() const {
    return nodes_.any_owner([](cluster_node const& n) {
        return n.in_first_map() && n.link().available() && !n.link().connected();
    });
}

//
// The timer
//

// One timer: commands that wait, the map, pings, and nodes that are of no use any more.
void cluster_instance::arm() {
    if (stopped_) return;
    auto const now = owner_.time();
    auto when = std::min(delayed_.wake(now), refresh_.wake());
    if (refresh_.due(now) && node_to_ask() == nullptr) when = delayed_.wake(now);
    if (changed_) when = std::min(when, woken_at_ + wake_interval);
    nodes_.for_each([&](cluster_node& n) {
        if (auto const by = n.ask_by()) when = std::min(when, *by);
        if (nodes_.has_map() && n.slots() == 0)
            when = std::min(when, std::max(n.unused_since() + node_table::unused_limit,
                                           now + std::chrono::seconds(1)));
    });
    if (rings_ && armed_for_ <= when) return;
    rings_ = false;
    timer_.arm(when - now, weak_from_this(), &cluster_instance::on_time);
    rings_ = true;
    armed_for_ = when;
}

void cluster_instance::on_time() {
    rings_ = false;
    boundary_.run([this] { do_what_is_due(); });
}

void cluster_instance::do_what_is_due() {
    if (stopped_) return;
    auto const now = owner_.time();
    if (refresh_.overdue(now)) {
        question_.give_up();
        refresh_.ended();
        refresh_.want(now);
    }
    nodes_.for_each([&](cluster_node& n) {
        if (auto const by = n.ask_by(); by && *by <= now) n.ping();
    });
    nodes_.drop_unused(now, [this](cluster_node& n) {
        n.link().take_pending([this](reply_handler_ptr owner, lease_clock::time_point since) {
            keep(std::move(owner), since);
        });
    });
    ask_for_map();
    wake_waiters();
    try_waiting();
    if (now < compared_at_ + compare_interval) return;
    compared_at_ = now;
    board_.set_clocks_apart(nodes_.clocks_apart());
}

} // namespace holdfast::redis
