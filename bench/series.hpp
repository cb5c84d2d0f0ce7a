// Figures over several rounds. A pause of the machine may leave a round without a measurement. Its
// figure is then NaN and does not count. If no round has measured it, the figure is null in JSON.
#ifndef HOLDFAST_BENCH_SERIES_HPP
#define HOLDFAST_BENCH_SERIES_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::bench {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// `value / base`, or not_measured if one of them is 0 or was not measured.
inline double ratio(double value, double base) {
    return value > 0 && base > 0 ? value / base : not_measured;
}

/// The median of the measured values; empty if there is none.
inline std::optional<double> median(std::vector<double> values) {
    std::erase_if(values, [](double v) { return !std::isfinite(v); });
    if (values.empty()) return std::nullopt;
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// The medians of a figure over rounds, by name.
class series {
public:
    void add(std::string const& name, double value) { values_[name].push_back(value); }
    std::optional<double> operator[](std::string const& name) const {
        auto const values = values_.find(name);
        return values == values_.end() ? std::nullopt : median(values->second);
    }

private:
    std::map<std::string, std::vector<double>> values_;
};

} // namespace holdfast::bench

#endif
