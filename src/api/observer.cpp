#include <holdfast/observer.hpp>

namespace holdfast {

observer::~observer() = default;

char const* to_string(loss l) noexcept {
    switch (l) {
    case loss::expired:
        return "expired";
    case loss::key_gone:
        return "key gone";
    case loss::shut_down:
        return "shut down";
    }
    return "?";
}

} // namespace holdfast
