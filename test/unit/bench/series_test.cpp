// The figures of the benchmarks when pauses of the machine leave no valid sample.
#include "../bench/latency.hpp"
#include "../bench/series.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

using namespace holdfast::bench;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(series)

BOOST_AUTO_TEST_CASE(a_ratio_to_nothing_is_not_measured) {
    BOOST_TEST(ratio(3, 4) == 0.75);
    BOOST_TEST(std::isnan(ratio(1, 0)));
    BOOST_TEST(std::isnan(ratio(0, 1)));
    BOOST_TEST(std::isnan(ratio(0, 0)));
    BOOST_TEST(std::isnan(ratio(not_measured, 1)));
    BOOST_TEST(std::isnan(ratio(1, not_measured)));
}

BOOST_AUTO_TEST_CASE(a_round_that_was_not_measured_does_not_count) {
    holdfast::bench::series of;
    for (auto const value : {3., not_measured, 1., std::numeric_limits<double>::infinity(), 2.}) {
        of.add("ratio", value);
    }
    BOOST_TEST(of["ratio"].value() == 2.);
}

BOOST_AUTO_TEST_CASE(a_figure_that_no_round_measured_is_empty) {
    holdfast::bench::series of;
    of.add("ratio", not_measured);
    BOOST_TEST(!of["ratio"]);
    BOOST_TEST(!of["another"]);
    of.add("ratio", 0);
    BOOST_TEST(of["ratio"].value() == 0.);
}

BOOST_AUTO_TEST_CASE(percentiles_of_no_sample_are_not_measured) {
    latency l;
    BOOST_TEST(std::isnan(l.percentile(50)));
    BOOST_TEST(std::isnan(l.percentile(100)));
    BOOST_TEST(std::isnan(l.mean()));
    l.record(200ns);
    BOOST_TEST(l.percentile(50) == 0.2);
    BOOST_TEST(l.percentile(100) == 0.2);
    BOOST_TEST(l.mean() == 0.2);
}

BOOST_AUTO_TEST_SUITE_END()
