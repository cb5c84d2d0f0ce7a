#include <holdfast/clock.hpp>

#include "api/clock_choice.hpp"

namespace holdfast {

namespace {

struct system_clocks {
    int operator()(clockid_t id, timespec* to) const noexcept { return ::clock_gettime(id, to); }
};

} // namespace

lease_clock::time_point lease_clock::now() noexcept {
    static clock_choice<system_clocks> clock;
    return time_point(clock.now());
}

} // namespace holdfast
