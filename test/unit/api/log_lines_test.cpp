// The lines of the log, and their limits.
#include <holdfast/log_observer.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;

namespace {

constexpr lease_clock::time_point start{1h};

struct written {
    explicit written(log_options const& options = {})
        : log(
              [this](log_level level, std::string_view line) {
                  levels.push_back(level);
                  lines.emplace_back(line);
              },
              options) {}

    std::vector<log_level> levels;
    std::vector<std::string> lines;
    log_observer log;
};

template <class Event>
Event about(std::string_view key, lease_clock::duration after = 0s) {
    Event e;
    e.key = key;
    e.at = start + after;
    return e;
}

/// The message of the exception that `make` throws.
template <class Make>
std::string complaint_about(Make make) {
    try {
        make();
    } catch (system_error const& e) {
        BOOST_TEST((e.code() == errc::invalid_options));
        return e.what();
    }
    return {};
}

lost_event lost(std::string_view key, lease_clock::duration after = 0s) {
    auto e = about<lost_event>(key, after);
    e.holder_label = "web-1";
    e.fence = 7;
    e.held = 1500ms;
    e.cause = lease_end::expired;
    return e;
}

} // namespace

BOOST_AUTO_TEST_SUITE(log_lines)

BOOST_AUTO_TEST_CASE(each_format_has_the_fields_of_the_event) {
    written logfmt;
    logfmt.log.on_lost(lost("seat:7"));
    BOOST_REQUIRE(logfmt.lines.size() == 1U);
    BOOST_TEST(logfmt.lines[0] == "level=error event=lost key=seat:7 label=web-1 fence=7 "
                                  "held_s=1.500000 cause=expired");
    BOOST_TEST((logfmt.levels[0] == log_level::error));
    written json({.format = log_format::json});
    json.log.on_lost(lost("seat:7"));
    BOOST_REQUIRE(json.lines.size() == 1U);
    BOOST_TEST(json.lines[0] ==
               R"({"level":"error","event":"lost","key":"seat:7",)"
               R"("label":"web-1","fence":7,"held_s":1.500000,"cause":"expired"})");
}

BOOST_AUTO_TEST_CASE(a_loss_after_a_stall_has_its_length) {
    written w;
    auto e = lost("k");
    e.stalled = 2'250ms;
    w.log.on_lost(e);
    BOOST_TEST(w.lines.at(0).ends_with(" cause=expired stalled_s=2.250000"), w.lines[0]);
}

BOOST_AUTO_TEST_CASE(a_stall_is_a_warning) {
    written w;
    w.log.on_stall({.length = 1'500ms, .at = start});
    BOOST_TEST(w.lines.at(0) == "level=warning event=stall length_s=1.500000");
    BOOST_TEST((w.levels.at(0) == log_level::warning));
    written json({.format = log_format::json});
    json.log.on_stall({.length = 1'500ms, .at = start});
    BOOST_TEST(json.lines.at(0) == R"({"level":"warning","event":"stall","length_s":1.500000})");
    written errors({.level = log_level::error});
    errors.log.on_stall({.length = 1h, .at = start});
    BOOST_TEST(errors.lines.empty());
    // It has a limit of its own.
    written few({.lines = 1});
    few.log.on_stall({.length = 1s, .at = start});
    few.log.on_lost(lost("k"));
    few.log.on_stall({.length = 3s, .at = start});
    few.log.flush();
    BOOST_REQUIRE(few.lines.size() == 3U);
    BOOST_TEST(few.lines[2] == "level=warning event=suppressed of=stall lines=1");
}

BOOST_AUTO_TEST_CASE(a_trace_is_shown) {
    written w;
    auto e = lost("k");
    e.trace = *trace_context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    w.log.on_lost(e);
    BOOST_REQUIRE(w.lines.size() == 1U);
    BOOST_TEST(w.lines[0].find("trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") !=
               std::string::npos);
}

// A key may hold any bytes; the line stays one line of UTF-8.
BOOST_AUTO_TEST_CASE(keys_are_escaped) {
    std::string const key("a \"b\" \\ \n\0\x7f\xff\xc3\xa4=", 15);
    written logfmt;
    logfmt.log.on_lost(about<lost_event>(key));
    written json({.format = log_format::json});
    json.log.on_lost(about<lost_event>(key));
    auto const quoted =
        std::string(R"("a \"b\" \\ \u000a\u0000\u007f)") + "\xef\xbf\xbd\xc3\xa4=\"";
    BOOST_TEST(logfmt.lines.at(0).find("key=" + quoted + ' ') != std::string::npos,
               logfmt.lines[0]);
    BOOST_TEST(json.lines.at(0).find("\"key\":" + quoted + ',') != std::string::npos,
               json.lines[0]);
}

// Some terminals take U+009B for the beginning of a command.
BOOST_AUTO_TEST_CASE(control_characters_beyond_ascii_are_replaced) {
    written w;
    w.log.on_lost(about<lost_event>("a\xc2\x9b"
                                    "31m"));
    BOOST_TEST(w.lines.at(0).find("\xc2\x9b") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_empty_value_is_quoted) {
    written w;
    w.log.on_lost(about<lost_event>(""));
    BOOST_TEST(w.lines.at(0).find("key=\"\"") != std::string::npos, w.lines[0]);
}

BOOST_AUTO_TEST_CASE(the_level_chooses) {
    written info;
    info.log.on_acquired(about<acquired_event>("k"));
    info.log.on_handed_over(about<acquired_event>("k"));
    info.log.on_waiting(about<waiting_event>("k"));
    info.log.on_extended(about<extended_event>("k"));
    info.log.on_released(about<released_event>("k"));
    info.log.on_split_vote(about<split_vote_event>("k"));
    BOOST_TEST(info.lines.empty());
    auto refused = about<failed_event>("k");
    refused.code = make_error_code(errc::contended);
    info.log.on_failed(refused);
    BOOST_TEST(info.lines.size() == 1U);
    written warning({.level = log_level::warning});
    warning.log.on_failed(refused);
    BOOST_TEST(warning.lines.empty());
    refused.code = make_error_code(errc::no_quorum);
    warning.log.on_failed(refused);
    BOOST_REQUIRE(warning.lines.size() == 1U);
    BOOST_TEST(warning.lines[0].starts_with("level=warning event=acquire_failed key=k "));
    written all({.level = log_level::debug});
    all.log.on_handed_over(about<acquired_event>("k"));
    all.log.on_acquired(about<acquired_event>("k"));
    BOOST_REQUIRE(all.lines.size() == 2U);
    BOOST_TEST(all.lines[0].starts_with("level=debug event=handed_over "));
    BOOST_TEST(all.lines[1].starts_with("level=debug event=acquired "));
}

BOOST_AUTO_TEST_CASE(an_instance_tells_its_state_and_the_reason) {
    written w;
    instance_status s;
    s.address = "a:6379";
    s.state = instance_state::suspect;
    s.reason = make_error_code(errc::instance_timeout);
    s.message = "no answer for 500 ms";
    w.log.on_instance({.status = s, .before = instance_state::up, .at = start});
    BOOST_TEST(w.lines.at(0) ==
               "level=warning event=instance instance=a:6379 state=suspect before=up "
               "error=\"the instance does not answer in time\" message=\"no answer for 500 ms\"");
    s = {};
    s.address = "a:6379";
    s.state = instance_state::up;
    w.log.on_instance({.status = s, .before = instance_state::suspect, .at = start});
    BOOST_TEST(w.lines.at(1).starts_with("level=info event=instance "));
    s.state = instance_state::down;
    s.reason = make_error_code(errc::shut_down); // a graceful end alarms nobody
    w.log.on_instance({.status = s, .before = instance_state::up, .at = start});
    BOOST_TEST(w.lines.at(2).starts_with("level=info event=instance "));
}

BOOST_AUTO_TEST_CASE(an_outage_of_many_leases_writes_few_lines) {
    written w({.lines = 3, .period = 10s});
    for (int i = 0; i < 100'000; ++i) w.log.on_lost(lost("k" + std::to_string(i)));
    BOOST_TEST(w.lines.size() == 3U);
    // Other kinds have limits of their own.
    auto failed = about<failed_event>("k", 1s);
    failed.code = make_error_code(errc::no_quorum);
    w.log.on_failed(failed);
    BOOST_TEST(w.lines.size() == 4U);
    // Any event after the period tells the number.
    auto later = about<failed_event>("k", 10s);
    later.code = make_error_code(errc::no_quorum);
    w.log.on_failed(later);
    BOOST_REQUIRE(w.lines.size() == 6U);
    BOOST_TEST(w.lines[4] == "level=error event=suppressed of=lost lines=99997");
    BOOST_TEST((w.levels[4] == log_level::error));
    w.log.on_lost(lost("again", 10s));
    BOOST_TEST(w.lines.size() == 7U);
}

BOOST_AUTO_TEST_CASE(a_flush_and_the_destructor_tell_the_rest) {
    std::vector<std::string> lines;
    {
        log_observer log([&](log_level, std::string_view line) { lines.emplace_back(line); },
                         {.lines = 1});
        log.on_lost(lost("a"));
        log.flush();
        BOOST_TEST(lines.size() == 1U);
        log.on_lost(lost("b"));
        log.flush();
        BOOST_TEST(lines.size() == 2U);
        log.on_lost(lost("c"));
        log.on_lost(lost("d"));
    }
    BOOST_REQUIRE(lines.size() == 3U);
    BOOST_TEST(lines[1] == "level=error event=suppressed of=lost lines=1");
    BOOST_TEST(lines[2] == "level=error event=suppressed of=lost lines=2");
}

BOOST_AUTO_TEST_CASE(wrong_options_are_named) {
    auto const sink = [](log_level, std::string_view) {};
    BOOST_TEST(complaint_about([&] { log_observer const log(nullptr); }).find("sink") !=
               std::string::npos);
    BOOST_TEST(complaint_about([&] {
                   log_observer const log(sink, {.lines = 0});
               }).find("lines is 0") != std::string::npos);
    BOOST_TEST(complaint_about([&] {
                   log_observer const log(sink, {.period = 0ms});
               }).find("period is 0 ms") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
