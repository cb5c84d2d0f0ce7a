// The ways of commands through a Cluster.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_instance.hpp"
#include "redis/wire/optional_text.hpp"
#include "redis/wire/server_info.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

unsigned slot_of(pending_command const& c) {
    return protocol::hash_slot(c.owner->arguments(c.command).first_key());
}

/// False: neither a lock nor a waiter needs the command any more.
bool is_wanted(pending_command const& c) {
    return protocol::only_reads(c.command) || c.owner->still_wants(c.command);
}

/// The answer yes may not count.
bool is_vote(command c) {
    return c != command::release && !protocol::only_reads(c);
}

} // namespace

bool cluster_instance::submit(encoder& encoded, reply_handler_ptr const& owner,
                              std::uint32_t round) noexcept {
    auto const c = encoded.command();
    if (c == command::scan) return scan(encoded, owner, round);
    auto const several = has_several_slots(encoded.arguments());
    if (!available()) {
        if (c == command::release) several ? keep_parts(owner) : keep(owner, owner_.time());
        return true;
    }
    auto submitted = false;
    auto const run = boundary_.run([&] {
        submitted = several ? route_parts(encoded, owner, round) : route(encoded, owner, round);
    });
    return run && submitted;
}

bool cluster_instance::route(encoder& encoded, reply_handler_ptr const& owner,
                             std::uint32_t round) {
    auto const c = encoded.command();
    auto const slot = protocol::hash_slot(encoded.arguments().first_key());
    pending_command pending{.owner = owner, .round = round, .command = c};
    auto* const to = node_for(pending, slot);
    if (auto const o = obstacle_of(to, c); o != obstacle::none) {
        wait(std::move(pending), o, slot);
        return true;
    }
    if (pending.asking) return send(*to, pending);
    if (!protocol::is_grant(c)) return to->link().submit(encoded, owner, round);
    routes_.sent(owner->grant(), to->number(), false);
    if (to->link().submit(encoded, owner, round)) return true;
    routes_.ended(owner->grant());
    return false;
}

/// The same for a command that is not encoded yet.
bool cluster_instance::route(pending_command c) {
    auto const slot = slot_of(c);
    auto* const to = node_for(c, slot);
    auto const o = obstacle_of(to, c.command);
    if (o == obstacle::none) return send(*to, c);
    wait(std::move(c), o, slot);
    return true;
}

//
// Scans
//

scan_plan cluster_instance::plan_scan() const {
    scan_plan plan;
    plan.layout = nodes_.layout();
    if (!nodes_.has_map()) {
        if (!available()) plan.gap = reason_message();
        return plan;
    }
    nodes_.for_each_owner([&](cluster_node const& n) {
        plan.servers.push_back({.node = n.number(), .name = n.name()});
    });
    if (auto const lacking = nodes_.unserved(); lacking > 0)
        plan.gap = std::to_string(lacking) + " slots have no primary";
    return plan;
}

std::string cluster_instance::scan_problem(std::uint16_t node) const {
    auto const* const to = nodes_.at(node);
    if (to == nullptr || to->slots() == 0) return "no primary any more";
    if (to->foreign) return to->name() + std::string(foreign_text);
    return to->link().available() ? std::string() : to->problem();
}

bool cluster_instance::scan(encoder& encoded, reply_handler_ptr const& owner,
                            std::uint32_t round) noexcept {
    auto* const to = nodes_.at(encoded.arguments().node);
    return to != nullptr && to->link().submit(encoded, owner, round);
}

/// The node for a command. A release follows its grant.
cluster_node* cluster_instance::node_for(pending_command& c, unsigned slot) {
    auto* const slot_owner = nodes_.owner_of(slot);
    if (c.command != command::release) return slot_owner;
    auto const by_map = slot_owner == nullptr ? node_table::none : slot_owner->number();
    auto const to = routes_.release(c.owner->grant(), by_map);
    if (to.node == by_map && !to.asking) return slot_owner;
    auto* const follows = nodes_.at(to.node);
    if (follows == nullptr || !follows->up()) return slot_owner;
    c.asking = to.asking;
    return follows;
}

cluster_instance::obstacle cluster_instance::obstacle_of(cluster_node const* to, command c) const {
    if (!nodes_.has_map()) return available() ? obstacle::connecting : obstacle::down;
    if (to == nullptr) return obstacle::no_owner;
    auto const& connection = to->link();
    if (!connection.available()) return obstacle::down;
    if (!is_vote(c)) return obstacle::none;
    if (to->foreign) return obstacle::quarantine;
    auto const takes_key = c == command::acquire || c == command::contend;
    if (takes_key && !connection.may_grant()) return obstacle::quarantine;
    return to->ready(owner_.time()) ? obstacle::none : obstacle::connecting;
}

/// The node is available. False if its link has failed, or memory ran out for the route.
bool cluster_instance::send(cluster_node& to, pending_command const& c) noexcept {
    auto const grants = protocol::is_grant(c.command);
    auto const note = [&] { routes_.sent(c.owner->grant(), to.number(), c.asking); };
    if (grants && !boundary_.run(note)) return false;
    if (to.link().submit(c)) return true;
    if (grants) routes_.ended(c.owner->grant());
    return false;
}

//
// Refusals
//

void cluster_instance::on_command_answered(pending_command const& c) noexcept {
    if (protocol::is_grant(c.command)) routes_.ended(c.owner->grant());
}

void cluster_instance::on_asking_denied(cluster_node& by, pending_command const& c,
                                        std::string_view error) {
    auto const text = text_if_memory(
        [&] { return by.name() + ": ASKING: " + presentable(error, by.link().secrets()); });
    c.owner->on_answer(
        number_, c.command, c.round,
        {.verdict = verdict::refused, .cause = errc::access_denied, .message = text});
}

void cluster_instance::on_refused(cluster_node& from, pending_command c,
                                  protocol::cluster_refusal const& by,
                                  lease_clock::time_point sent) {
    using kind = protocol::cluster_refusal::kind;
    using step = protocol::cluster_step::kind;
    auto const now = owner_.time();
    auto const slot = slot_of(c);
    auto refusal = by;
    if (refusal.redirects() && refusal.slot != slot) refusal.type = kind::malformed;
    auto const host = refusal.host.empty() ? std::string_view(from.address().host) : refusal.host;
    auto const to_itself = refusal.redirects() && from.address().is_at(host, refusal.port);
    auto const wanted = is_wanted(c);
    protocol::cluster_hops hops(c.hops);
    auto const next = hops.refused(refusal, c.command, wanted, to_itself);
    c.hops = hops.hops() & 3U;
    c.asking = next.type == step::resend_asking;
    cluster_node* to = nullptr;
    auto moved = false;
    if (next.set_owner) to = nodes_.move_slot(from, slot, host, refusal.port, moved);
    if (moved) {
        changed_ = true;
        board_.set_nodes(nodes_.board());
        if (to != nullptr) ask_next_ = to->number();
    }
    if (next.refresh_map) refresh_.want(now);
    if (c.asking) to = nodes_.named(host, refusal.port);
    // A node that gets its first slot is in no map yet.
    if (to != nullptr && to != &from && nodes_.may_vouch(from)) to->named_by_another(sent);
    auto const resends = next.type == step::resend || next.type == step::resend_asking;
    // These have several commands, and ASKING holds for one. A report can do without them.
    auto const reports = c.command == command::inspect || c.command == command::survey;
    auto const cannot_ask = c.asking && reports;
    if (!wanted || cannot_ask)
        return answer_unsent(c, wanted ? obstacle::target : obstacle::none, slot);
    if (refusal.type == kind::cross_slot) {
        auto const keys = std::string_view("CROSSSLOT: the keys of a lock have different slots");
        return c.owner->on_answer(
            number_, c.command, c.round,
            {.verdict = verdict::refused, .cause = errc::rejected, .message = keys});
    }
    if (resends && to != nullptr) {
        auto const o = obstacle_of(to, c.command);
        if (o != obstacle::none) {
            bool const asked = c.asking;
            c.asking = false;
            return wait_after_refusal(std::move(c), asked ? behind(o) : o, slot);
        }
        if (send(*to, c)) return;
        c.asking = false;
        return wait_after_refusal(std::move(c), obstacle::refused, slot);
    }
    bool const unknown = c.asking && resends; // too many nodes were named
    c.asking = false;
    auto const o = refusal.type == kind::try_again ? obstacle::migrating
                   : unknown                       ? obstacle::target
                                                   : obstacle::refused;
    wait_after_refusal(std::move(c), o, slot);
}

//
// Waiting
//

// The owner of the slot can be asked, and refuses the command again. So each refusal pauses,
// whatever the obstacle is.
void cluster_instance::wait_after_refusal(pending_command c, obstacle o, unsigned slot) {
    auto const now = owner_.time();
    auto const since = c.waits_since == 0 ? now : time_of(c.waits_since, now);
    auto const pause = protocol::cluster_patience::pause(now - since, owner_.random_bits());
    wait(std::move(c), o, slot, now + pause);
}

/// The command is answered later, never from here.
void cluster_instance::wait(pending_command c, obstacle o, unsigned slot,
                            lease_clock::time_point next) {
    auto const now = owner_.time();
    c.hops = 0;
    auto const since = c.waits_since == 0 ? now : time_of(c.waits_since, now);
    if (c.waits_since == 0) c.waits_since = std::max(short_time(now), std::uint32_t{1});
    auto const ttl = c.owner->arguments(c.command).ttl;
    delayed_command w{.command = std::move(c), .obstacle = o};
    w.until = patience_.until(o, since, lost_since(slot), ttl);
    // The owner of a pending release has its answer. The key goes with its ttl.
    if (w.command.answered) w.until = since + ttl + protocol::redlock_rules::drift(ttl);
    w.next = next;
    delayed_.add(std::move(w));
}

/// The obstacle for a command if there is this one at the node that its slot migrates to.
cluster_instance::obstacle cluster_instance::behind(obstacle at_target) {
    return at_target == obstacle::quarantine ? at_target : obstacle::target;
}

/// When the primary of the slot was lost. Without a map, no node has answered yet, and there is
/// nothing to wait for.
lease_clock::time_point cluster_instance::lost_since(unsigned slot) const {
    auto const* const to = nodes_.owner_of(slot);
    return to == nullptr ? lease_clock::time_point() : to->down_since();
}

void cluster_instance::try_waiting() noexcept {
    delayed_.visit_all([this](delayed_command& w) { return !try_again(w); });
}

/// False: the command must wait on.
bool cluster_instance::try_again(delayed_command& w) noexcept {
    auto const now = owner_.time();
    auto& c = w.command;
    auto const slot = slot_of(c);
    auto const late = now >= w.until;
    if (!is_wanted(c)) {
        answer_unsent(c, obstacle::none, slot);
        return true;
    }
    if (now < w.next && !late) return false;
    auto* const to = node_for(c, slot);
    auto const o = obstacle_of(to, c.command);
    if (o == obstacle::none && now >= w.next) {
        if (send(*to, c)) return true;
        w.next = now + std::chrono::milliseconds(1);
    }
    if (o != obstacle::none && o != w.obstacle) {
        // Another obstacle, another patience.
        w.obstacle = o;
        auto const since = time_of(c.waits_since, now);
        auto const ttl = c.owner->arguments(c.command).ttl;
        if (!c.answered) w.until = patience_.until(o, since, lost_since(slot), ttl);
    }
    if (now < w.until) return false;
    answer_unsent(c, w.obstacle, slot);
    return true;
}

void cluster_instance::answer_unsent(pending_command const& c, obstacle o, unsigned slot) noexcept {
    auto const releases = c.command == command::release;
    if (!c.answered) {
        auto const* const to = nodes_.owner_of(slot);
        auto cause = nodes_.has_map() ? errc::unreachable : reason();
        auto const known = to != nullptr ? to->link().reason() : errc{};
        // A node whose grants do not count also lacks replicas, perhaps.
        if (o == obstacle::quarantine) cause = known != errc{} ? known : errc::quarantined;
        if (to != nullptr && to->foreign) cause = errc::rejected;
        // Only commands with several keys fail because of it: of fenced and of fair locks.
        if (o == obstacle::migrating) cause = errc::rejected;
        if (o == obstacle::connecting) cause = errc::instance_timeout;
        if (o == obstacle::down && known != errc{}) cause = known;
        if (o == obstacle::none) cause = errc{};
        auto const message = text_if_memory([&] { return explain(o, slot); });
        c.owner->on_answer(number_, c.command, c.round,
                           {.verdict = verdict::unsent, .cause = cause, .message = message});
        if (releases) keep(c.owner, owner_.time());
    }
}

std::string cluster_instance::explain(obstacle o, unsigned slot) const {
    auto const* const to = nodes_.owner_of(slot);
    auto const node = to == nullptr ? std::string() : to->name() + ": ";
    if (to != nullptr && to->foreign) return to->name() + std::string(foreign_text);
    switch (o) {
    case obstacle::none:
        return {};
    case obstacle::connecting:
        if (!nodes_.has_map()) return "no map of the Cluster yet. " + reason_message();
        return node + "not connected yet, or no other node has named it yet";
    case obstacle::no_owner:
        return "slot " + std::to_string(slot) + " has no primary";
    case obstacle::down:
    case obstacle::quarantine:
        return to == nullptr ? reason_message() : to->problem();
    case obstacle::refused:
        return node + "the Cluster does not serve slot " + std::to_string(slot) + " now";
    case obstacle::migrating:
        return node + "slot " + std::to_string(slot) +
               " migrates: the keys of the lock are at two nodes";
    case obstacle::target:
        return node + "slot " + std::to_string(slot) +
               " migrates, and the node that gets it cannot be asked now";
    }
    return {};
}

//
// Pending releases
//

/// A pending release belongs to its slot.
void cluster_instance::keep(reply_handler_ptr owner, lease_clock::time_point since) {
    if (stopped_) return;
    auto const slot = protocol::hash_slot(owner->arguments(command::release).first_key());
    if (auto* const to = nodes_.owner_of(slot)) {
        return to->link().keep_release(std::move(owner), since);
    }
    unrouted_.keep(std::move(owner), since);
}

/// To be called when owners of slots have changed.
void cluster_instance::route_pending() {
    auto const route = [this](cluster_node* holder, reply_handler_ptr owner,
                              lease_clock::time_point since) {
        auto const slot = protocol::hash_slot(owner->arguments(command::release).first_key());
        auto* const to = nodes_.owner_of(slot);
        auto& keeps = to != nullptr ? to->link() : holder->link();
        keeps.keep_release(std::move(owner), since);
    };
    std::vector<std::pair<reply_handler_ptr, lease_clock::time_point>> taken;
    auto const gather = [&](reply_handler_ptr owner, lease_clock::time_point since) {
        taken.emplace_back(std::move(owner), since);
    };
    nodes_.for_each([&](cluster_node& n) {
        if (n.link().pending_count() == 0) return;
        taken.reserve(n.link().pending_count());
        n.link().take_pending(gather);
        for (auto& [owner, since] : std::exchange(taken, {})) route(&n, std::move(owner), since);
    });
    if (unrouted_.size() == 0) return;
    unrouted_.drop_expired(owner_.time());
    taken.reserve(unrouted_.size());
    unrouted_.take(gather);
    for (auto& [owner, since] : taken) keep(std::move(owner), since);
}

//
// Nodes
//

bool cluster_instance::on_node_up(cluster_node& n) {
    if (n.slots() == 0 && !nodes_.has_map()) refresh_.want_urgently(owner_.time());
    ask_seeds();
    ask_for_map();
    try_waiting();
    return nodes_.has_map() && n.slots() > 0;
}

void cluster_instance::on_node_down(cluster_node& n) noexcept {
    refresh_.want(owner_.time());
    if (n.link().reason() == errc::read_only) nodes_.demoted(n);
    if (!nodes_.has_map() && !available()) owner_.on_unavailable(number_);
    boundary_.run([&] {
        show_map_problem();
        if (n.link().pending_count() > 0) route_pending();
    });
    try_waiting();
}

void cluster_instance::on_doubt(cluster_node&) noexcept {
    refresh_.want_urgently(owner_.time());
}

} // namespace holdfast::redis
