#include "runtime/active_tenure.hpp"

namespace holdfast::runtime {

redis::command_args active_tenure::describe(protocol::command c,
                                            std::chrono::milliseconds fence_ttl,
                                            std::string_view label) const noexcept {
    auto const ttl = std::chrono::duration_cast<std::chrono::milliseconds>(machine.ttl());
    redis::command_args s{.key = lock->key(), .token = token_text(label), .ttl = ttl};
    if (machine.fenced()) {
        s.fence_ttl = fence_ttl;
        s.number = machine.asks_for(c);
    }
    return s;
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
    case command::watch:
    case command::survey:
        break;
    }
    // After the try, a command that is sent again could overtake an extension or a healing.
    return machine.phase() == phase::acquiring;
}

} // namespace holdfast::runtime
