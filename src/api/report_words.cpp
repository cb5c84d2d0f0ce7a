#include "api/report_words.hpp"

#include <array>
#include <cstdio>

namespace holdfast::detail {

std::string duration_words(std::chrono::nanoseconds d) {
    using namespace std::chrono_literals;
    struct unit {
        std::chrono::nanoseconds below, length;
        char const* format;
    };
    // Each ends before its text would have four digits, or where the next one says as much.
    constexpr std::array<unit, 6> units{{{9'950us, 1ms, "%.1f ms"},
                                         {999'500us, 1ms, "%.0f ms"},
                                         {120s, 1s, "%.1f s"},
                                         {120min, 1min, "%.0f min"},
                                         {48h, 1h, "%.1f h"},
                                         {std::chrono::nanoseconds::max(), 24h, "%.1f d"}}};
    auto const* u = units.data();
    while (d >= u->below && u != &units.back()) ++u;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), u->format,
                  static_cast<double>(d.count()) / static_cast<double>(u->length.count()));
    return text.data();
}

std::string time_left_words(std::optional<std::chrono::milliseconds> left) {
    return left ? duration_words(*left) + " left" : "never expires";
}

std::string instances_words(std::size_t some, std::size_t all) {
    return std::to_string(some) + " of " + std::to_string(all) +
           (all == 1 ? " instance" : " instances");
}

} // namespace holdfast::detail
