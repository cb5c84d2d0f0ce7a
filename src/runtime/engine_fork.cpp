// A client in the child of a fork.
#include "runtime/engine.hpp"

namespace holdfast::runtime {

// The sockets are closed before the turn ends, and with that what the turn would send is dropped.
// The parent has them open too, so the instances do not hear of it.
void engine::end_in_child() {
    auto const alive = shared_from_this();
    redis::in_turn(static_cast<redis::instance_owner&>(*this), [this] {
        attempt([&] { begin_shutdown(); });
        for (auto const& i : instances_) attempt([&] { i->stop(); });
    });
}

} // namespace holdfast::runtime
