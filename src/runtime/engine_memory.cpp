// What a burst needed is given back when it has not been needed for a while.
#include "runtime/engine.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace holdfast::runtime {

namespace {

constexpr std::chrono::seconds period{10};

/// Of each pool; a tenth of a millisecond or less.
constexpr std::size_t a_turn = 256;

} // namespace

// At the end of a turn, when nothing on the stack refers to what is free. An idle client has turns
// too, as it looks at its instances.
void engine::give_back_memory() noexcept {
    auto const ended = turn_began_ >= period_ends_;
    if (ended) {
        leases_.period_ended();
        holdings_.period_ended();
        queues_.period_ended();
        period_ends_ = turn_began_ + period;
    }
    auto const always = [](auto const&) { return true; };
    auto more = leases_.shrink(a_turn, always);
    more = holdings_.shrink(a_turn, always) || more;
    more = queues_.shrink(a_turn, always) || more;
    {
        auto const guard = lock_inbox();
        if (ended) operations_.period_ended();
        auto const ends = [this](operation const& op) {
            if (op.cancel_hook::is_linked()) return false; // the next turn looks at it
            auto const later = static_cast<std::int32_t>(op.generation - first_generation_) > 0;
            if (later) first_generation_ = op.generation;
            return true;
        };
        more = operations_.shrink(a_turn, ends) || more;
    }
    looks_at_memory_ = more ? turn_began_ : period_ends_;
    look_again_ = look_again_ || more;
}

} // namespace holdfast::runtime
