#include <holdfast/client_stats.hpp>

namespace holdfast {

char const* to_string(instance_state s) noexcept {
    switch (s) {
    case instance_state::connecting:
        return "connecting";
    case instance_state::up:
        return "up";
    case instance_state::quarantined:
        return "quarantined";
    case instance_state::suspect:
        return "suspect";
    case instance_state::down:
        return "down";
    }
    return "?";
}

} // namespace holdfast
