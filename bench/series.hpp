// Figures over rounds.
#ifndef HOLDFAST_BENCH_SERIES_HPP
#define HOLDFAST_BENCH_SERIES_HPP

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace holdfast::bench {

inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// The medians of a figure over rounds, by name.
class series {
public:
    void add(std::string const& name, double value) { values_[name].push_back(value); }
    double operator[](std::string const& name) const {
        auto const found = values_.find(name);
        return found == values_.end() ? 0 : median(found->second);
    }

private:
    std::map<std::string, std::vector<double>> values_;
};

} // namespace holdfast::bench

#endif
