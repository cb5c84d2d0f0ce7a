// Converts figures to JSON, which has no infinity and no NaN.
#ifndef HOLDFAST_BENCH_JSON_VALUE_HPP
#define HOLDFAST_BENCH_JSON_VALUE_HPP

#include <boost/json.hpp>

#include <optional>

namespace holdfast::bench {

/// Gives null for a figure that was not measured.
inline boost::json::value json_value(std::optional<double> figure) {
    return figure ? boost::json::value(*figure) : boost::json::value(nullptr);
}

} // namespace holdfast::bench

#endif
