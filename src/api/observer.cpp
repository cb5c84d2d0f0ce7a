#include <holdfast/lease_end.hpp>
#include <holdfast/observer.hpp>

#include <ostream>

namespace holdfast {

observer::~observer() = default;

char const* to_string(lease_end e) noexcept {
    switch (e) {
    case lease_end::none:
        return "none";
    case lease_end::released:
        return "released";
    case lease_end::expired:
        return "expired";
    case lease_end::key_gone:
        return "key gone";
    case lease_end::shut_down:
        return "shut down";
    case lease_end::revoked:
        return "revoked";
    }
    return "?";
}

std::ostream& operator<<(std::ostream& out, lease_end e) {
    return out << to_string(e);
}

} // namespace holdfast
