// The figures of the server in Prometheus text exposition format.
#ifndef BOOKING_METRICS_HPP
#define BOOKING_METRICS_HPP

#include <holdfast/client.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace booking {

/// @par Thread safety  Safe.
class metrics {
public:
    /// A request was answered. `route`: with {n} for the number of a seat.
    void count(std::string const& route, unsigned status, std::chrono::nanoseconds took);

    /// These figures, and those of the client.
    std::string text(holdfast::client const& locks) const;

private:
    static constexpr std::array<double, 10> bounds{.005, .01, .025, .05, .1, .25, .5, 1., 2.5, 5.};

    struct histogram {
        std::array<std::uint64_t, bounds.size()> buckets{};
        std::uint64_t count = 0;
        double sum = 0.;
    };

    mutable std::mutex mutex_;
    std::map<std::pair<std::string, unsigned>, std::uint64_t> requests_;
    std::map<std::string, histogram> durations_;
};

} // namespace booking

#endif
