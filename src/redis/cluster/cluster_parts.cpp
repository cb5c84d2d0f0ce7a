// The ways of commands on keys of several slots.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_instance.hpp"
#include "redis/cluster/slot_parts.hpp"

#include <atomic>
#include <span>
#include <string_view>
#include <utility>

namespace holdfast::redis {

using protocol::command;

bool cluster_instance::route_parts(encoder& encoded, reply_handler_ptr const& owner,
                                   std::uint32_t round) {
    auto const c = encoded.command();
    boost::intrusive_ptr<gathered_command> const whole(
        new gathered_command(*this, owner, c, round, split(owner, c, encoded.arguments())));
    return whole->submit();
}

bool cluster_instance::submit_part(reply_handler_ptr part, command c,
                                   std::uint32_t round) noexcept {
    auto submitted = false;
    auto const run = boundary_.run(
        [&] { submitted = route({.owner = std::move(part), .round = round, .command = c}); });
    return run && submitted;
}

void cluster_instance::undo(reply_handler_ptr part) noexcept {
    if (stopped_) return;
    pending_command release{.owner = part, .command = command::release};
    auto sent = false;
    boundary_.run([&] {
        auto const slot = protocol::hash_slot(part->arguments(command::release).first_key());
        auto* const to = node_for(release, slot);
        sent = obstacle_of(to, command::release) == obstacle::none && send(*to, release);
    });
    if (!sent) keep(std::move(part), owner_.time());
}

void cluster_instance::on_undone(std::span<std::string_view const> keys) noexcept {
    for (auto const key : keys) owner_.on_own_write(number_, key);
}

/// No node can be asked now: each part of the release belongs to its slot.
void cluster_instance::keep_parts(reply_handler_ptr const& owner) noexcept {
    auto const split_all = [&] {
        for (auto const& part : split(owner, command::release, owner->arguments(command::release)))
            keep(part, owner_.time());
    };
    if (!boundary_.run(split_all)) counts_.releases_dropped.fetch_add(1, std::memory_order_relaxed);
}

} // namespace holdfast::redis
