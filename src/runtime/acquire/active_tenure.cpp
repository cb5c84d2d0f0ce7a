#include "runtime/acquire/active_tenure.hpp"

#include "protocol/waiting/waiting_rules.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/set_key.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/set_turn.hpp"

namespace holdfast::runtime {

redis::lock_kind const& kind_of(lock_access access) noexcept {
    switch (access) {
    case lock_access::read:
        return redis::read_key;
    case lock_access::write:
        return redis::write_key;
    case lock_access::permit:
        return redis::permit_key;
    case lock_access::exclusive:
        break;
    }
    return redis::exclusive_key;
}

std::chrono::milliseconds readers_turn_after(protocol::duration round_trip) {
    return std::chrono::ceil<std::chrono::milliseconds>(
        protocol::waiting_rules::readers_turn(round_trip));
}

redis::lock_kind const& active_tenure::kind() const noexcept {
    if (!lock->keys().empty()) return redis::set_key;
    if (fair) return redis::fair_key;
    return kind_of(shared ? lock_access::read : lock->access());
}

redis::command_args active_tenure::describe(protocol::command c,
                                            std::chrono::milliseconds fence_ttl,
                                            token_source const& random) const noexcept {
    auto const ttl = std::chrono::duration_cast<std::chrono::milliseconds>(machine.ttl());
    redis::command_args s{.key = lock->key(), .token = token_text(random.label()), .ttl = ttl};
    if (machine.fenced()) {
        s.fence_ttl = fence_ttl;
        s.number = machine.numbering().for_command(c);
        s.counting = machine.numbering().counting_for(c);
    }
    if (fair) describe_place(s);
    if (is_permit()) {
        describe_permit(s);
    } else if (lock->access() != lock_access::exclusive) {
        describe_access(s, random);
    }
    if (s.keys = lock->keys(); !s.keys.empty() && queue != nullptr) describe_set(s, c);
    return s;
}

void active_tenure::describe_set(redis::command_args& s, protocol::command c) const noexcept {
    auto const* const turn = turn_of_front(*queue);
    if (turn == nullptr) return;
    s.watched = turn->watched;
    if (c != protocol::command::heal) s.prior = turn->prior;
}

void active_tenure::describe_access(redis::command_args& s,
                                    token_source const& random) const noexcept {
    s.intent = random.client_name();
    s.waits = queue != nullptr && !queue->machine.empty() && queue->machine.front().waits;
    s.readers_turn = readers_turn_after(round_trip);
}

// A permit that was adopted may have a slot above the number of this client's lock.
void active_tenure::describe_permit(redis::command_args& s) const noexcept {
    auto const slot = machine.slot();
    auto const value = static_cast<std::uint16_t>(slot.value());
    s.permits = lock->permits();
    if (slot.fixed()) {
        s.slot = value;
        s.permits = std::max<std::uint16_t>(s.permits, value + 1);
    } else {
        s.start = value;
    }
}

void active_tenure::describe_place(redis::command_args& s) const noexcept {
    using protocol::waiting_rules;
    using redis::line_place;
    auto const milliseconds = [](protocol::duration d) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(d);
    };
    s.reserved_for = milliseconds(waiting_rules::reservation(lock->options().max_retry_delay));
    s.in_line_for = milliseconds(waiting_rules::stays_in_line) + s.reserved_for;
    s.place = queue == nullptr                 ? line_place::back
              : queue->machine.is_newcomer()   ? line_place::newcomer
              : queue->machine.goes_to_front() ? line_place::front
                                               : line_place::back;
}

bool active_tenure::still_wants(protocol::command c) const noexcept {
    using protocol::command;
    using phase = protocol::tenure_phase;
    switch (c) {
    case command::release:
        return true;
    case command::extend:
        return machine.phase() == (adopts ? phase::acquiring : phase::held);
    case command::heal:
        return machine.phase() == phase::held;
    case command::raise: // sets no key
        return machine.phase() == phase::acquiring || machine.phase() == phase::held;
    case command::acquire:
    case command::contend:
    case command::inspect:
    case command::track:
    case command::survey:
    case command::revoke:
    case command::scan:
        break;
    }
    // After the try, a command that is sent again could overtake an extension or a healing.
    return machine.phase() == phase::acquiring;
}

} // namespace holdfast::runtime
