// The map of a Cluster: when it is asked for, and the consequences of a new one.
#include "redis/cluster/cluster_instance.hpp"
#include "redis/wire/server_info.hpp"

#include <boost/scope/scope_exit.hpp>
#include <boost/scope/scope_fail.hpp>

#include <algorithm>
#include <utility>

namespace holdfast::redis {

// Nodes that are not doubted come first. A node cannot end its own doubt, so if there is one doubt,
// another node is asked.
cluster_node* cluster_instance::node_to_ask() {
    cluster_node* best = nullptr;
    auto best_rank = 0;
    auto doubts = 0;
    nodes_.for_each_owner([&](cluster_node& n) { doubts += n.up() && n.doubted() ? 1 : 0; });
    auto const now = owner_.time();
    nodes_.for_each([&](cluster_node& n) {
        if (!n.up() || n.foreign) return;
        // The node that was asked last comes last.
        auto const rank = 1 + (n.number() != last_asked_ ? 1 : 0) + (n.slots() > 0 ? 2 : 0) +
                          (n.ready(now) ? 6
                           : doubts > 1 ? 4
                                        : 0) +
                          (&n == nodes_.at(ask_next_) ? 8 : 0) +
                          (!nodes_.has_map() && !n.sent_map ? 16 : 0);
        if (rank > best_rank) {
            best = &n;
            best_rank = rank;
        }
    });
    return best;
}

void cluster_instance::ask_for_map() {
    auto const now = owner_.time();
    // A single node that is up cannot end its own doubt.
    auto doubts = false;
    auto up = 0;
    nodes_.for_each_owner([&](cluster_node& n) {
        up += n.up() ? 1 : 0;
        doubts = doubts || (n.up() && n.doubted());
    });
    if (doubts && up > 1 && map_problem_.empty()) refresh_.want_urgently(now);
    if (!refresh_.due(now)) return;
    auto* const node = node_to_ask();
    if (node == nullptr) return nodes_.use_seeds();
    question_.ask(*node, now);
    refresh_.asked(now, owner_.random_bits());
    last_asked_ = node->number();
    ask_next_ = node_table::none;
}

void cluster_instance::on_map_part(cluster_node& from, pending_command const& c, element const& e) {
    if (question_.is_to(from)) question_.take_part(c, e);
}

void cluster_instance::on_map_reply(cluster_node& from, pending_command const& c) {
    if (!question_.is_to(from)) return;
    boost::scope::scope_fail const failed([this] { ask_again(); });
    if (!question_.took_reply(c)) return;
    refresh_.ended();
    auto const now = owner_.time();
    map_problem_ = question_.problem();
    map_cause_ = question_.cause();
    from.sent_map = true;
    if (map_problem_.empty()) return is_foreign() ? refuse(from) : take_map(from);
    refresh_.want(now);
    if (nodes_.has_map()) {
        if (from.slots() == 0) map_problem_.clear(); // a seed that is of no use
        return;
    }
    map_problem_ = from.name() + ": " + map_problem_;
    auto others = false;
    nodes_.for_each([&](cluster_node& n) { others = others || (n.up() && !n.sent_map); });
    if (others) {
        refresh_.want_urgently(now);
        return ask_for_map();
    }
    show_map_problem();
    if (!available()) owner_.on_unavailable(number_);
    try_waiting();
}

/// Once no seed is left that might send a map.
void cluster_instance::show_map_problem() {
    if (nodes_.has_map() || map_cause_ == errc{} || available()) return;
    board_.set_problem(map_cause_, map_problem_);
    owner_.on_change();
}

void cluster_instance::on_map_lost(cluster_node& from) noexcept {
    if (question_.is_to(from)) ask_again();
}

void cluster_instance::ask_again() noexcept {
    question_.give_up();
    refresh_.ended();
    refresh_.want_urgently(owner_.time());
}

// Every process must use the same Cluster: a key of another one has other holders. A fail-over or a
// migration exchanges some nodes at most.
bool cluster_instance::is_foreign() const {
    auto const& ids = question_.members();
    if (members_.empty() || ids.empty()) return false; // the user may not ask for CLUSTER NODES
    return std::ranges::none_of(
        ids, [&](auto const& id) { return std::ranges::binary_search(members_, id); });
}

void cluster_instance::refuse(cluster_node& from) {
    from.foreign = true;
    refresh_.want(owner_.time());
    show_foreign();
    auto const used = nodes_.any_owner([](auto const& n) { return n.up() && !n.foreign; });
    if (!used) board_.set_problem(errc::rejected, {});
    ask_for_map();
    try_waiting();
}

/// The status names a node of another Cluster.
void cluster_instance::show_foreign() {
    std::string text;
    nodes_.for_each([&](cluster_node& n) {
        if (n.foreign && text.empty()) text = n.name() + std::string(foreign_text);
    });
    board_.set_foreign(std::move(text));
    owner_.on_change();
}

/// A configured node that the map does not name is asked once: it may belong to another Cluster.
void cluster_instance::ask_seeds() {
    if (!nodes_.has_map() || ask_next_ != node_table::none) return;
    // The doubts of owners come first: commands wait for them.
    if (nodes_.any_owner([](auto const& n) { return n.up() && n.doubted(); })) return;
    nodes_.for_each([&](cluster_node& n) {
        if (n.seed && n.slots() == 0 && n.up() && !n.sent_map) ask_next_ = n.number();
    });
    if (ask_next_ != node_table::none) refresh_.want(owner_.time());
}

void cluster_instance::take_map(cluster_node& from) {
    auto const was_available = available();
    auto const had_map = nodes_.has_map();
    {
        // If a map is adopted only in part, the next one completes the rest.
        boost::scope::scope_exit const notify([&] {
            if (was_available && !available()) owner_.on_unavailable(number_);
            if (!had_map && nodes_.has_map()) owner_.on_available(number_);
        });
        adopt_map(from);
    }
    route_pending();
    ask_seeds();
    ask_for_map();
    wake_waiters();
    try_waiting();
}

// A Cluster that is another instance's is known for that before its nodes may grant.
void cluster_instance::adopt_map(cluster_node& from) {
    if (!question_.members().empty()) members_ = question_.members();
    if (identity_ != question_.identity()) {
        auto identity = question_.identity();
        duplicate_ = !identity.empty() && !owner_.is_new_server(number_, identity);
        identity_ = std::move(identity);
    }
    auto const first = !nodes_.has_map();
    if (nodes_.take(question_.take_map(), from, question_.asked())) changed_ = true;
    if (first) {
        check_ages();
        nodes_.for_each_owner([](cluster_node& n) { n.link().hold_for_ages(); });
    }
    board_.set_problem(duplicate_ ? errc::duplicate_instance : errc{},
                       duplicate_ ? reason_message() : std::string());
    board_.set_nodes(nodes_.board());
    board_.set_has_map(static_cast<unsigned>(nodes_.unserved()));
    auto untold = question_.refusals();
    if (!untold.empty()) untold = from.name() + ": " + presentable(untold, from.link().secrets());
    board_.set_untold(std::move(untold));
    show_foreign();
}

// A registration at the old owner of a slot is of no use. Waiters are woken all at once, and not
// too often: a migration moves thousands of slots, one after the other.
void cluster_instance::wake_waiters() {
    auto const now = owner_.time();
    if (!changed_ || now < woken_at_ + wake_interval) return;
    changed_ = false;
    woken_at_ = now;
    owner_.on_push_for_all(number_);
}

} // namespace holdfast::redis
