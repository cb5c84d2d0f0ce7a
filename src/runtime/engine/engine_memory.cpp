// Gives back the memory that a burst needed, once it has not been needed for a while.
#include "runtime/engine/engine.hpp"

#include <chrono>
#include <cstddef>

namespace holdfast::runtime {

namespace {

constexpr std::chrono::seconds period{10};

/// The limit for each pool. Destroying so many takes 0.1 ms or less.
constexpr std::size_t objects_a_turn = 256;

} // namespace

// Called at the end of a turn, when nothing on the stack refers to free objects. An idle client has
// turns too, because it checks its instances.
void engine::give_back_memory() noexcept {
    auto const began = turn_.began();
    auto const ended = began >= period_ends_;
    if (ended) {
        keeper_.period_ended();
        tenures_.period_ended();
        acquirer_.period_ended();
        period_ends_ = began + period;
    }
    auto more = keeper_.shrink(objects_a_turn);
    more = tenures_.shrink(objects_a_turn) || more;
    more = acquirer_.shrink(objects_a_turn) || more;
    more = inbox_.give_back_memory(ended, objects_a_turn) || more;
    next_give_back_ = more ? began : period_ends_;
    if (more) turn_.ask_for_another();
}

} // namespace holdfast::runtime
