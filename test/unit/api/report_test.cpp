// The line that explains a failed acquire.
#include <holdfast/acquire_report.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

using holdfast::instance_outcome;
using holdfast::instance_report;
using namespace std::chrono_literals;

namespace {

constexpr std::array every_outcome{
    instance_outcome::unanswered,  instance_outcome::granted,    instance_outcome::held,
    instance_outcome::unreachable, instance_outcome::timed_out,  instance_outcome::rejected,
    instance_outcome::quarantined, instance_outcome::not_needed, instance_outcome::unreplicated};

holdfast::acquire_report about(instance_report instance) {
    holdfast::acquire_report r;
    r.key = "k";
    r.quorum = 1;
    r.attempts = 1;
    r.waited = 1ms;
    r.instances.push_back(std::move(instance));
    return r;
}

/// The part of the line about the only instance.
std::string said_of(instance_report instance) {
    auto const line = about(std::move(instance)).to_string();
    auto const at = line.find("; ");
    BOOST_REQUIRE(at != line.npos);
    return line.substr(at + 2);
}

std::string named(std::string key) {
    holdfast::acquire_report r;
    r.key = std::move(key);
    auto const line = r.to_string();
    return line.substr(0, line.find(": 0 of 0"));
}

} // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(the_line_tells_the_whole_story) {
    holdfast::acquire_report r;
    r.key = "seat:7";
    r.quorum = 3;
    r.up = 3;
    r.attempts = 4;
    r.waited = 1'234'567us;
    r.instances = {
        {.address = "a:1",
         .outcome = instance_outcome::granted,
         .round_trip = 0ns,
         .ttl_left = {},
         .message = {}},
        {.address = "b:2",
         .outcome = instance_outcome::held,
         .round_trip = 1'500us,
         .ttl_left = 2'500ms,
         .ttl_known = true,
         .message = {}},
        {.address = "c:3",
         .outcome = instance_outcome::rejected,
         .round_trip = 300us,
         .ttl_left = {},
         .message = "OOM command not allowed"},
        {.address = "unix:/d",
         .outcome = instance_outcome::unreachable,
         .round_trip = 0ns,
         .ttl_left = {},
         .message = "Connection refused"},
        {.address = "e:5",
         .outcome = instance_outcome::timed_out,
         .round_trip = 500ms,
         .ttl_left = {},
         .message = {}},
    };
    BOOST_TEST(r.to_string() ==
               "lock \"seat:7\": 3 of 5 up, quorum 3, 1 granted, after 4 tries in 1234.6 "
               "ms; a:1 granted; b:2 held, 2500 ms left after 1.5 ms; c:3 rejected after 0.3 "
               "ms (OOM command not allowed); unix:/d unreachable (Connection refused); e:5 "
               "timed out after 500.0 ms");
}

BOOST_AUTO_TEST_CASE(one_try_is_a_try) {
    auto r = about({.address = "a:1", .ttl_left = {}, .message = {}});
    BOOST_TEST(r.to_string().find("after 1 try in 1.0 ms") != std::string::npos);
    r.attempts = 2;
    BOOST_TEST(r.to_string().find("after 2 tries in 1.0 ms") != std::string::npos);
    r.attempts = 0;
    BOOST_TEST(r.to_string().find("after 0 tries in 1.0 ms") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_outcome_has_a_name_of_its_own) {
    std::string all;
    for (auto const o : every_outcome) {
        std::string const name = to_string(o);
        BOOST_TEST(!name.empty());
        BOOST_TEST(name != "?");
        BOOST_TEST(all.find('/' + name + '/') == std::string::npos);
        all += '/' + name + '/';
        BOOST_TEST(said_of({.address = "a:1", .outcome = o, .ttl_left = {}, .message = {}}) ==
                   "a:1 " + name);
    }
}

BOOST_AUTO_TEST_CASE(only_grants_are_counted_as_granted) {
    for (auto const o : every_outcome) {
        auto const line =
            about({.address = "a:1", .outcome = o, .ttl_left = {}, .message = {}}).to_string();
        BOOST_TEST(line.starts_with(o == instance_outcome::granted
                                        ? "lock \"k\": 0 of 1 up, quorum 1, 1 granted, "
                                        : "lock \"k\": 0 of 1 up, quorum 1, 0 granted, "));
    }
}

BOOST_AUTO_TEST_CASE(a_time_to_live_is_told_where_it_is_known) {
    instance_report instance{
        .address = "a:1", .outcome = instance_outcome::held, .ttl_left = {}, .message = {}};
    BOOST_TEST(said_of(instance) == "a:1 held");
    instance.ttl_known = true;
    BOOST_TEST(said_of(instance) == "a:1 held, never expires");
    instance.ttl_left = 0ms;
    BOOST_TEST(said_of(instance) == "a:1 held, 0 ms left");
    instance.ttl_left = 12'345ms;
    BOOST_TEST(said_of(instance) == "a:1 held, 12345 ms left");
    instance.ttl_known = false;
    BOOST_TEST(said_of(instance) == "a:1 held");
    // The time to live is that of the holder's key. Only the outcome `held` shows it.
    instance.ttl_known = true;
    instance.outcome = instance_outcome::timed_out;
    BOOST_TEST(said_of(instance) == "a:1 timed out");
}

BOOST_AUTO_TEST_CASE(it_begins_with_how_many_are_up) {
    holdfast::acquire_report r;
    r.key = "k";
    r.quorum = 3;
    r.up = 2;
    r.attempts = 1;
    for (auto const* address : {"a:1", "b:2"}) {
        r.instances.push_back({.address = address,
                               .outcome = instance_outcome::not_needed,
                               .ttl_left = {},
                               .message = {}});
    }
    for (auto const* address : {"c:3", "d:4", "e:5"}) {
        r.instances.push_back({.address = address,
                               .outcome = instance_outcome::unreachable,
                               .ttl_left = {},
                               .message = {}});
    }
    BOOST_TEST(r.to_string() ==
               "lock \"k\": 2 of 5 up, quorum 3, 0 granted, after 1 try in 0.0 ms; a:1 up, not "
               "needed; b:2 "
               "up, not needed; c:3 unreachable; d:4 unreachable; e:5 unreachable");
}

BOOST_AUTO_TEST_CASE(a_key_is_quoted_whatever_it_holds) {
    BOOST_TEST(named("plain") == "lock \"plain\"");
    BOOST_TEST(named("") == "lock \"\"");
    BOOST_TEST(named("a\"b\\c") == "lock \"a\\\"b\\\\c\"");
    BOOST_TEST(named(std::string("a\0b\r\n\x1f\x7f", 7)) == "lock \"a\\x00b\\x0d\\x0a\\x1f\\x7f\"");
    BOOST_TEST(named("gr\xc3\xbc\xc3\x9f") == "lock \"gr\xc3\xbc\xc3\x9f\"");
    BOOST_TEST(named("\x1b[31m") == "lock \"\\x1b[31m\"");
}

BOOST_AUTO_TEST_CASE(an_empty_report_is_still_a_line) {
    BOOST_TEST(holdfast::acquire_report{}.to_string() ==
               "lock \"\": 0 of 0 up, quorum 0, 0 granted, after 0 tries in 0.0 ms");
}

BOOST_AUTO_TEST_CASE(a_report_prints_as_its_line) {
    auto const r = about(
        {.address = "a:1", .outcome = instance_outcome::held, .ttl_left = {}, .message = "why"});
    std::ostringstream out;
    out << r;
    BOOST_TEST(out.str() == r.to_string());
    BOOST_TEST(out.str().find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
