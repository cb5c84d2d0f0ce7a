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
    , links_(executor_, static_cast<cluster_link_user&>(*this), options_, std::move(factory))
    , unrouted_(options_.max_pending_releases, counts_,
                [this](std::size_t count) { board_.set_unrouted_releases(count); })
    , patience_{.instance_timeout = options_.instance_timeout, .sole = sole}
    , refresh_(options_.instance_timeout)
    , clocks_(options_.max_ttl, owner, number)
    , timer_(executor_) {}

cluster_instance::~cluster_instance() {
    abandon();
}

void cluster_instance::start() {
    links_.use_seeds();
    board_.set_nodes(links_.board());
    arm();
}

void cluster_instance::stop() {
    if (std::exchange(stopped_, true)) return;
    timer_.cancel();
    links_.for_each([](cluster_link& l) { l.connection().stop(); });
    waiting_.visit_all([&](waiting_command& w) {
        answer_unsent(w.command, w.obstacle, 0);
        return false;
    });
    board_.set_problem(errc::shut_down, "the client was shut down");
    routes_.clear();
    unrouted_.stop();
}

void cluster_instance::abandon() noexcept {
    stopped_ = true;
    question_.give_up();
    links_.for_each([](cluster_link& l) { l.connection().abandon(); });
    waiting_.clear();
    routes_.clear();
    unrouted_.stop();
}

bool cluster_instance::flush() noexcept {
    if (stopped_) return true;
    auto complete = true;
    links_.for_each([&](cluster_link& l) { complete = l.connection().flush() && complete; });
    arm();
    return complete && rings_;
}

//
// State
//

bool cluster_instance::available() const {
    if (duplicate_ || stopped_) return false;
    if (links_.has_map()) {
        return links_.any_owner([](auto const& l) { return l.connection().available(); });
    }
    // A seed that has told no map is of no use. Another one may be.
    auto some = false;
    links_.for_each(
        [&](cluster_link& l) { some = some || (l.connection().available() && !l.told_map); });
    return some;
}

bool cluster_instance::may_grant() const {
    if (!available()) return false;
    return !links_.has_map() ||
           links_.any_owner([](auto const& l) { return l.connection().may_grant(); });
}

bool cluster_instance::connected() const {
    return links_.has_map() && links_.any_owner([](auto const& l) { return l.up(); });
}

bool cluster_instance::serves(std::string_view key) const {
    auto const* const node = links_.owner_of(protocol::hash_slot(key));
    return node != nullptr && node->up();
}

errc cluster_instance::reason() const {
    if (duplicate_) return errc::duplicate_instance;
    if (available() && may_grant()) return {};
    if (!links_.has_map() && map_cause_ != errc{}) return map_cause_;
    auto cause = errc{};
    links_.for_each([&](cluster_link& l) {
        if (links_.has_map() && l.slots() == 0) return;
        if (cause == errc{}) cause = l.connection().reason();
    });
    return cause == errc{} ? errc::unreachable : cause;
}

std::string cluster_instance::reason_message() const {
    if (duplicate_) return "another configured address leads to the same Cluster";
    if (!links_.has_map() && map_cause_ != errc{}) return map_problem_;
    std::string text;
    links_.for_each([&](cluster_link& l) {
        if (!text.empty() || (links_.has_map() && l.slots() == 0)) return;
        if (l.connection().reason() == errc{}) return;
        text = l.problem();
    });
    return text;
}

std::optional<lease_clock::time_point> cluster_instance::waits_since() const {
    std::optional<lease_clock::time_point> oldest;
    links_.for_each([&](cluster_link& l) {
        auto const since = l.connection().waits_since();
        if (since && (!oldest || *since < *oldest)) oldest = since;
    });
    return oldest;
}

bool cluster_instance::settled() const {
    auto all = waiting_.settled();
    links_.for_each([&](cluster_link& l) { all = all && l.connection().settled(); });
    return all;
}

std::uint64_t cluster_instance::identity() const {
    auto const& text = identity_.empty() ? options_.address.host() : identity_;
    return hash_of(text);
}

//
// Clocks
//

void cluster_instance::on_clock_reading(cluster_link& l, protocol::clock_reading const& reading) {
    clocks_.observed(links_, l, reading);
}

void cluster_instance::ask_time_now() {
    links_.for_each([](cluster_link& l) { l.connection().ask_time_now(); });
}

void cluster_instance::excuse_jump() {
    clocks_.excuse_told(links_);
}

void cluster_instance::our_clock_stood_still(lease_clock::time_point from,
                                             lease_clock::time_point until,
                                             lease_clock::duration least,
                                             lease_clock::duration most) {
    links_.for_each(
        [&](cluster_link& l) { l.connection().our_clock_stood_still(from, until, least, most); });
}

//
// Ages
//

void cluster_instance::on_older_server() {
    some_server_is_old_ = true;
    judge_ages();
}

// A node that joins later is young as well. It gets its slots from nodes that the client knows.
void cluster_instance::judge_ages() {
    if (!some_server_is_old_) return;
    links_.for_each([](cluster_link& l) {
        if (l.in_first_map()) l.connection().on_older_server();
    });
}

bool cluster_instance::awaits_ages() const {
    auto const awaited = links_.any_owner([](cluster_link const& l) {
        return l.in_first_map() && l.connection().available() && !l.connection().connected();
    });
    return awaited || owner_.awaits_ages(number_);
}

//
// The timer
//

// One timer: commands that wait, the map, pings, and links that are of no use any more.
void cluster_instance::arm() noexcept {
    if (stopped_) return;
    auto const now = owner_.time();
    auto when = std::min(waiting_.wake(now), refresh_.wake());
    if (refresh_.due(now) && node_to_ask() == nullptr) when = waiting_.wake(now);
    if (changed_) when = std::min(when, woken_at_ + wake_interval);
    links_.for_each([&](cluster_link& l) {
        if (auto const by = l.ask_by()) when = std::min(when, *by);
        if (links_.has_map() && l.slots() == 0)
            when = std::min(when, std::max(l.unused_since() + cluster_links::kept_unused,
                                           now + std::chrono::seconds(1)));
    });
    if (rings_ && armed_for_ <= when) return;
    rings_ = false;
    try {
        timer_.expires_after(std::max(when - now, lease_clock::duration::zero()));
        timer_.async_wait([weak = weak_from_this(), alarm = ++alarms_](error_code ec) {
            auto const self = weak.lock();
            if (ec || !self || self->stopped_ || self->alarms_ != alarm) return;
            in_turn(self->owner_, [&] { self->on_time(); });
        });
        rings_ = true;
        armed_for_ = when;
    } catch (...) { // memory ran out: the next turn arms it
    }
}

// If memory runs out, the next turn goes on.
void cluster_instance::on_time() noexcept try {
    rings_ = false;
    auto const now = owner_.time();
    if (refresh_.overdue(now)) {
        question_.give_up();
        refresh_.ended();
        refresh_.want(now);
    }
    links_.for_each([&](cluster_link& l) {
        if (auto const by = l.ask_by(); by && *by <= now) l.ping();
    });
    links_.drop_unused(now, [this](cluster_link& l) {
        l.connection().take_kept([this](reply_handler_ptr owner, lease_clock::time_point since) {
            keep(std::move(owner), since);
        });
    });
    ask_for_map();
    wake_waiters();
    try_waiting();
    if (now < compared_at_ + compare_interval) return;
    compared_at_ = now;
    board_.set_clocks_apart(links_.clocks_apart());
} catch (...) {
}

} // namespace holdfast::redis
