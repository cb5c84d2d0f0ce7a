// The lines that explain a failed acquire, and the state of a key.
#include <holdfast/acquire_report.hpp>
#include <holdfast/key_report.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

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
    auto const at = line.find("ms: ");
    BOOST_REQUIRE(at != line.npos);
    return line.substr(at + 4);
}

std::string named(std::string key) {
    holdfast::acquire_report r;
    r.key = std::move(key);
    auto const line = r.to_string();
    return line.substr(0, line.find(" not acquired: "));
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
               "lock \"seat:7\" not acquired: 1 of 5 instances granted it, 3 are needed, after 4 "
               "tries in 1.2 s: a:1 granted; b:2 held, 2.5 s left after 1.5 ms; c:3 rejected "
               "after 0.3 ms (OOM command not allowed); unix:/d unreachable (Connection refused); "
               "e:5 timed out after 500 ms");
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
        auto r = about({.address = "a:1", .outcome = o, .ttl_left = {}, .message = {}});
        r.up = 1;
        auto const verdict = o == instance_outcome::granted ? "1 of 1 instance granted it, 1 is "
                             : o == instance_outcome::held  ? "held (1 of 1 instance), "
                                                            : "0 of 1 instance granted it, 1 is ";
        BOOST_TEST(r.to_string().starts_with(std::string("lock \"k\" not acquired: ") + verdict));
    }
}

BOOST_AUTO_TEST_CASE(a_lock_that_is_held_is_said_to_be_held) {
    using enum instance_outcome;
    holdfast::acquire_report r;
    r.key = "k";
    r.quorum = 3;
    r.up = 5;
    r.attempts = 1;
    r.waited = 1ms;
    r.holder = "worker-7";
    for (auto const left : {8'100ms, 7'900ms, 8'000ms}) {
        r.instances.push_back({.address = "a:1",
                               .outcome = held,
                               .ttl_left = left,
                               .ttl_known = true,
                               .holder = "worker-7",
                               .message = {}});
    }
    for (auto const o : {not_needed, not_needed})
        r.instances.push_back({.address = "b:2", .outcome = o, .ttl_left = {}, .message = {}});
    auto const begins = [&](std::string_view text) {
        BOOST_TEST(r.to_string().starts_with(text), r);
    };
    begins("lock \"k\" not acquired: held by worker-7, 8.1 s left (3 of 5 instances), after 1 try "
           "in 1.0 ms: a:1 held by worker-7, 8.1 s left; ");
    // A copy that never expires keeps the key.
    r.instances[1].ttl_left.reset();
    begins("lock \"k\" not acquired: held by worker-7, never expires (3 of 5 instances), ");
    for (auto& i : r.instances) i.ttl_known = false;
    r.holder.clear();
    begins("lock \"k\" not acquired: held (3 of 5 instances), ");
    // A waiter may have asked the arbiter alone.
    r.instances[0].outcome = r.instances[1].outcome = not_needed;
    begins("lock \"k\" not acquired: held (1 of 5 instances), ");
    // It is not the holder of one instance that keeps the lock away.
    r.instances[3].outcome = r.instances[4].outcome = rejected;
    begins("lock \"k\" not acquired: 0 of 5 instances granted it, 3 are needed, ");
    r.up = 1;
    begins("lock \"k\" not acquired: 1 of 5 instances is up, 3 are needed, ");
}

BOOST_AUTO_TEST_CASE(a_failed_adoption_extension_or_release_names_itself) {
    auto r = about(
        {.address = "a:1", .outcome = instance_outcome::missing, .ttl_left = {}, .message = {}});
    r.up = 1;
    BOOST_TEST(r.to_string().starts_with(
        "lock \"k\" not acquired: 0 of 1 instance have the lease, 1 is needed, "));
    r.call = holdfast::reported_call::extend;
    BOOST_TEST(r.to_string() == "lock \"k\" not extended: 0 of 1 instance did so, 1 is needed in "
                                "1.0 ms: a:1 does not have the lease");
    r.call = holdfast::reported_call::release;
    BOOST_TEST(r.to_string().starts_with("lock \"k\" not released: "));
}

BOOST_AUTO_TEST_CASE(a_time_to_live_is_told_where_it_is_known) {
    instance_report instance{
        .address = "a:1", .outcome = instance_outcome::held, .ttl_left = {}, .message = {}};
    BOOST_TEST(said_of(instance) == "a:1 held");
    instance.ttl_known = true;
    BOOST_TEST(said_of(instance) == "a:1 held, never expires");
    instance.ttl_left = 0ms;
    BOOST_TEST(said_of(instance) == "a:1 held, 0.0 ms left");
    instance.ttl_left = 12'345ms;
    BOOST_TEST(said_of(instance) == "a:1 held, 12.3 s left");
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
               "lock \"k\" not acquired: 2 of 5 instances are up, 3 are needed, after 1 try in 0.0 "
               "ms: a:1 up, not needed; b:2 up, not needed; c:3 unreachable; d:4 unreachable; e:5 "
               "unreachable");
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
    BOOST_TEST(
        holdfast::acquire_report{}.to_string() ==
        "lock \"\" not acquired: 0 of 0 instances granted it, 0 are needed, after 0 tries in "
        "0.0 ms");
}

//
// The state of a key
//

BOOST_AUTO_TEST_CASE(the_line_of_a_key_begins_with_its_state) {
    using holdfast::key_answer;
    using holdfast::key_state;
    holdfast::key_report r;
    r.key = "k";
    r.quorum = 2;
    r.state = key_state::held;
    r.holder = "worker-7";
    r.digest = "d1";
    r.ttl_left = 8'100ms;
    r.fence = 12;
    for (auto const* const address : {"a:1", "b:2"}) {
        r.instances.push_back({.address = address,
                               .found = key_answer::kind::present,
                               .digest = "d1",
                               .holder = "worker-7",
                               .ttl_left = 8'100ms,
                               .ttl_known = true});
    }
    r.instances.push_back({.address = "c:3", .message = "it is down"});
    BOOST_TEST(r.to_string() ==
               "lock \"k\": held by worker-7, 8.1 s left (2 of 3 instances), fence 12: a:1 present "
               "by worker-7 [d1], 8.1 s left; b:2 present by worker-7 [d1], 8.1 s left; c:3 "
               "unknown (it is down)");
    // What a try has left there is not the holder's.
    r.instances[1].digest = "d2";
    BOOST_TEST(r.to_string().starts_with("lock \"k\": held by worker-7, 8.1 s left (1 of 3 "), r);
    r.holder.clear();
    r.ttl_left.reset();
    r.fence = 0;
    auto const begins = [&](key_state s, std::string_view text) {
        r.state = s;
        BOOST_TEST(r.to_string().starts_with(text), r);
    };
    begins(key_state::unknown, "lock \"k\": unknown (votes of 2 of 3 instances): ");
    begins(key_state::split, "lock \"k\": split (keys on 2 of 3 instances): ");
    for (auto& i : r.instances) i.found = key_answer::kind::absent;
    begins(key_state::free, "lock \"k\": free (3 of 3 instances): ");
    r.instances[0].found = r.instances[1].found = key_answer::kind::not_a_lock;
    begins(key_state::not_a_lock, "lock \"k\": not a lock (2 of 3 instances): ");
}

BOOST_AUTO_TEST_CASE(the_line_of_a_key_with_readers_names_them) {
    using holdfast::key_answer;
    using holdfast::key_state;
    using holdfast::readers_turn;
    holdfast::key_report r;
    r.key = "k";
    r.quorum = 2;
    r.state = key_state::held;
    r.holder = "readers";
    r.digest = "d1";
    r.ttl_left = 12s;
    r.readers = {{.digest = "e1", .holder = "web-1"}, {.digest = "e2"}};
    r.reader_count = 2;
    for (auto const* const address : {"a:1", "b:2"}) {
        r.instances.push_back({.address = address,
                               .found = key_answer::kind::readers,
                               .digest = "d1",
                               .holder = "readers",
                               .ttl_left = 12s,
                               .ttl_known = true,
                               .reader_count = 2});
    }
    r.instances[1].message = "why";
    BOOST_TEST(r.shared());
    BOOST_TEST(r.to_string() ==
               "lock \"k\": held by 2 readers (web-1, [e2]), 12.0 s left (2 of 2 instances): a:1 2 "
               "readers, 12.0 s left; b:2 2 readers, 12.0 s left (why)");
    r.writer = {.digest = {}, .holder = "web-7"};
    r.instances[0].writer = {.digest = {}, .holder = {}};
    r.instances[0].reader_count = 1;
    r.instances[1].reader_count.reset();
    r.instances[1].turn = readers_turn::open;
    r.readers.resize(1);
    r.reader_count = 1;
    BOOST_TEST(r.to_string() ==
               "lock \"k\": held by a reader (web-1), 12.0 s left (2 of 2 instances), a writer of "
               "web-7 waits: a:1 a reader, 12.0 s left, a writer waits; b:2 readers, 12.0 s left, "
               "the readers' turn (why)");
    // A line names a few.
    r.readers.assign(key_answer::max_readers, {.digest = "e1", .holder = "w"});
    r.reader_count = 64;
    BOOST_TEST(r.to_string().starts_with(
                   "lock \"k\": held by 64 readers (w, w, w, w, w, w, w, w, ...), 12.0 s left"),
               r);
    r.readers.clear();
    r.reader_count.reset();
    BOOST_TEST(r.to_string().starts_with("lock \"k\": held by readers, 12.0 s left (2 of"), r);
    // A quorum has another lock, or none.
    r.digest = "d2";
    BOOST_TEST(!r.shared());
    r.digest = "d1";
    r.state = key_state::split;
    BOOST_TEST(!r.shared());
}

BOOST_AUTO_TEST_CASE(times_have_the_unit_that_a_reader_wants) {
    holdfast::key_report r;
    r.instances.push_back(
        {.address = "a", .found = holdfast::key_answer::kind::present, .ttl_known = true});
    for (auto const& [left, words] :
         {std::pair<std::chrono::milliseconds, char const*>{7ms, "7.0 ms"},
          {10ms, "10 ms"},
          {999ms, "999 ms"},
          {1s, "1.0 s"},
          {119s, "119.0 s"},
          {2min, "2 min"},
          {90min, "90 min"},
          {3h, "3.0 h"},
          {48h, "2.0 d"},
          {366 * 24h, "366.0 d"}}) {
        r.instances[0].ttl_left = left;
        BOOST_TEST(r.to_string().ends_with("a present, " + std::string(words) + " left"), r);
    }
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
