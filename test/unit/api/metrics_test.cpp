// The page for Prometheus.
#include <holdfast/metrics.hpp>

#include "support/documents.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;
using holdfast::test::contains;
using holdfast::test::document_text;

namespace {

instance_status instance(std::string address) {
    instance_status s;
    s.address = std::move(address);
    s.state = instance_state::up;
    s.server = "valkey 9.1.2";
    return s;
}

std::string page_of(client_stats const& stats, std::vector<instance_status> const& instances = {}) {
    metrics_page page;
    page.add(stats, instances);
    return page.text();
}

std::size_t bucket_of(latency_histogram const& h, std::chrono::nanoseconds d) {
    std::size_t i = 0;
    while (i < h.bounds.size() && d > h.bounds[i]) ++i;
    return i;
}

void note(latency_histogram& h, std::chrono::nanoseconds d) {
    ++h.counts[bucket_of(h, d)];
    h.sum += d;
}

} // namespace

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_AUTO_TEST_CASE(counters_and_gauges_have_their_values) {
    client_stats stats;
    stats.acquired = 18'446'744'073'709'551'615U;
    stats.lost = 3;
    stats.waiters = 7;
    stats.longest_stall = 1'250ms;
    auto const text = page_of(stats);
    BOOST_TEST(contains(text, "\nholdfast_leases_acquired_total 18446744073709551615\n"));
    BOOST_TEST(contains(text, "\nholdfast_leases_lost_total 3\n"));
    BOOST_TEST(contains(text, "\nholdfast_acquires_waiting 7\n"));
    BOOST_TEST(contains(text, "# TYPE holdfast_leases_lost_total counter\n"));
    BOOST_TEST(contains(text, "# TYPE holdfast_acquires_waiting gauge\n"));
    BOOST_TEST(contains(text, "\nholdfast_longest_stall_seconds 1.25\n"));
    BOOST_TEST(contains(text, "# TYPE holdfast_longest_stall_seconds gauge\n"));
}

BOOST_AUTO_TEST_CASE(buckets_of_histograms_are_cumulative) {
    client_stats stats;
    auto& h = stats.acquires[static_cast<std::size_t>(acquire_outcome::timed_out)];
    note(h, 50us);
    note(h, 700us);
    note(h, 2min);
    auto const text = page_of(stats);
    auto const line = [&](std::string const& le, int count) {
        return contains(text,
                        "\nholdfast_acquire_duration_seconds_bucket{outcome=\"timed_out\",le=\"" +
                            le + "\"} " + std::to_string(count) + '\n');
    };
    BOOST_TEST(line("0.00005", 1));
    BOOST_TEST(line("0.0005", 1));
    BOOST_TEST(line("0.001", 2));
    BOOST_TEST(line("60", 2));
    BOOST_TEST(line("+Inf", 3));
    BOOST_TEST(
        contains(text, "\nholdfast_acquire_duration_seconds_count{outcome=\"timed_out\"} 3\n"));
    BOOST_TEST(contains(
        text, "\nholdfast_acquire_duration_seconds_sum{outcome=\"timed_out\"} 120.00075\n"));
}

BOOST_AUTO_TEST_CASE(an_instance_shows_one_state_and_its_lacks) {
    auto s = instance("a:6379");
    s.state = instance_state::quarantined;
    s.connections = 4;
    s.degradations = {{.kind = degradation::no_push, .message = "NOPERM"}};
    note(s.round_trips, 3ms);
    auto const text = page_of({}, {s});
    BOOST_TEST(
        contains(text, "\nholdfast_instance_state{address=\"a:6379\",state=\"quarantined\"} 1\n"));
    BOOST_TEST(contains(text, "\nholdfast_instance_state{address=\"a:6379\",state=\"up\"} 0\n"));
    BOOST_TEST(
        contains(text, "\nholdfast_instance_degraded{address=\"a:6379\",service=\"no push\"} 1\n"));
    BOOST_TEST(contains(text, "\nholdfast_instance_connections_total{address=\"a:6379\"} 4\n"));
    BOOST_TEST(contains(
        text,
        "\nholdfast_instance_round_trip_seconds_bucket{address=\"a:6379\",le=\"0.005\"} 1\n"));
    BOOST_TEST(contains(text, "\nholdfast_instance_info{address=\"a:6379\",server=\"valkey 9.1.2\","
                              "primary=\"\",tls=\"\"} 1\n"));
}

BOOST_AUTO_TEST_CASE(nodes_of_a_cluster_are_told_apart) {
    auto s = instance("redis+cluster://a:1");
    s.nodes = {instance("a:1"), instance("b:2")};
    auto const text = page_of({}, {s});
    BOOST_TEST(contains(text,
                        "holdfast_instance_state{address=\"redis+cluster://a:1\",node=\"b:2\","
                        "state=\"up\"} 1\n"));
}

// https://prometheus.io/docs/instrumenting/exposition_formats/
BOOST_AUTO_TEST_CASE(labels_are_escaped) {
    metrics_page page;
    page.add({}, {}, "a\\b\"c\nd\xff");
    BOOST_TEST(contains(
        page.text(), "\nholdfast_leases_lost_total{client=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\"} 0\n"));
}

// The format wants all samples of a metric together, after one head.
BOOST_AUTO_TEST_CASE(several_clients_share_each_head) {
    metrics_page page;
    page.add({}, {instance("a:1")}, "east");
    page.add({}, {instance("b:2")}, "west");
    std::istringstream text(page.text());
    std::set<std::string> heads;
    std::string name;
    for (std::string line; std::getline(text, line);) {
        if (line.starts_with("# HELP ")) {
            name = line.substr(7, line.find(' ', 7) - 7);
            BOOST_TEST(heads.insert(name).second, name);
        } else if (!line.starts_with('#')) {
            BOOST_TEST(line.starts_with(name), line);
        }
    }
    BOOST_TEST(heads.size() > 25U);
    BOOST_TEST(contains(page.text(), "holdfast_leases_held{client=\"east\"} 0\n"
                                     "holdfast_leases_held{client=\"west\"} 0\n"));
    BOOST_TEST(contains(page.text(), "holdfast_instance_pending_releases{client=\"west\","
                                     "address=\"b:2\"} 0\n"));
}

//
// The files for operators
//

/// All names of metrics in a text. Suffixes of histograms are left out.
std::set<std::string> names_in(std::string const& text) {
    std::set<std::string> names;
    static std::regex const name("holdfast_[a-z_]+[a-z]");
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
        auto found = it->str();
        for (auto const* const suffix : {"_bucket", "_sum", "_count"}) {
            if (found.ends_with(suffix)) found.resize(found.size() - std::strlen(suffix));
        }
        names.insert(found);
    }
    return names;
}

std::string full_page() {
    client_stats stats;
    stats.acquired = 3;
    for (auto& h : stats.acquires) note(h, 3ms);
    auto s = instance("redis+cluster://a:1");
    s.degradations = {{.kind = degradation::no_push, .message = {}}};
    s.nodes = {instance("a:1")};
    metrics_page page;
    page.add(stats, {s, instance("b:2")}, "one");
    page.add({}, {instance("c:3")}, "another");
    return page.text();
}

BOOST_AUTO_TEST_CASE(the_document_lists_each_metric) {
    auto const real = names_in(page_of({}, {instance("a:1")}));
    auto listed = names_in(document_text("monitoring.md"));
    BOOST_TEST(listed == real, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rules_and_dashboard_use_metrics_that_exist) {
    auto const real = names_in(page_of({}, {instance("a:1")}));
    for (auto const* const name : {"monitoring/alerts.yml", "monitoring/dashboard.json"}) {
        auto const used = names_in(document_text(name));
        BOOST_TEST(used.size() > 5U, name);
        for (auto const& each : used) BOOST_TEST(real.contains(each), name << ": " << each);
    }
}

BOOST_AUTO_TEST_CASE(promtool_accepts_the_page) {
    auto const* const promtool = std::getenv("HOLDFAST_PROMTOOL");
    if (promtool == nullptr) {
        BOOST_TEST_MESSAGE("skipped: promtool was not found");
        return;
    }
    auto const command = "'" + std::string(promtool) + "' check metrics";
    auto* const pipe = ::popen(command.c_str(), "w");
    BOOST_REQUIRE(pipe != nullptr);
    auto const page = full_page();
    BOOST_TEST(std::fwrite(page.data(), 1, page.size(), pipe) == page.size());
    BOOST_TEST(::pclose(pipe) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
