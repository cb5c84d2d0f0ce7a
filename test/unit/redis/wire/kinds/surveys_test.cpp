// What an inspection asks an instance about a key, and what the replies mean.
#include <holdfast/key_report.hpp>

#include "redis/wire/key_companions.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/token.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::key_answer;
using holdfast::protocol::command;
using holdfast::protocol::verdict;
using holdfast::test::contains;

namespace {

namespace resp = holdfast::test::resp;

constexpr command_args seat{.key = "seat:7", .token = {}};
std::string const labelled = "web-7:0123456789abcdef0123456789abcdef";

class question final : public reply_handler {
public:
    command_args arguments(command) const noexcept override { return seat; }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const&) override {}

private:
    void recycle() noexcept override {}
};

/// A reply: its elements, the first of depth 0.
using reply = std::vector<element>;

reply simple(std::string_view text) {
    return {{reply_type::simple_string, 0, text}};
}
reply number(std::string_view text) {
    return {{reply_type::number, 0, text}};
}
reply error(std::string_view text) {
    return {{reply_type::simple_error, 0, text}};
}
reply blob(std::string_view text) {
    return {{reply_type::blob_string, 0, text}};
}
reply const null{{reply_type::null, 0, {}}};
reply const forbidden = error("NOPERM hush has no right");

reply time(std::string_view seconds, std::string_view microseconds) {
    return {{reply_type::array, 0, {}},
            {reply_type::blob_string, 1, seconds},
            {reply_type::blob_string, 1, microseconds}};
}

/// As ZRANGE ... WITHSCORES answers. The reply refers to the texts.
using scores = std::vector<std::pair<std::string, std::string>>;
reply pairs(scores const& all, bool resp3 = true) {
    reply r{{reply_type::array, 0, {}}};
    for (auto const& [member, score] : all) {
        if (resp3) r.push_back({reply_type::array, 1, {}});
        r.push_back({reply_type::blob_string, resp3 ? 2U : 1U, member});
        r.push_back(
            {resp3 ? reply_type::doublean : reply_type::blob_string, resp3 ? 2U : 1U, score});
    }
    return r;
}

/// The replies to a survey, of a server with nothing beside the key.
struct survey {
    reply ttl = number("-2"), type = simple("none"), value = blob(""), counter = null;
    reply clock = time("1764201234", "567890"), count = number("0"), readers = pairs({});
    reply intent = blob(""), intent_ttl = number("-2"), turn = blob(""), turn_ttl = number("-2");
    reply deadlines = pairs({}), slots = pairs({}), permit_count = number("0");

    std::vector<reply> all() const {
        return {ttl,    type,       value, counter,  clock,     count, readers,
                intent, intent_ttl, turn,  turn_ttl, deadlines, slots, permit_count};
    }
};

/// A key with readers. The second of them is dead.
survey shared(scores const& all, std::string_view count) {
    survey s;
    s.ttl = number("15000");
    s.type = simple("string");
    s.value = blob(readers_value);
    s.count = number(count);
    s.readers = pairs(all);
    return s;
}

/// A key with permits.
survey counted(scores const& slots, scores const& deadlines, std::string_view count) {
    survey s;
    s.ttl = number("15000");
    s.type = simple("zset");
    s.value = error("WRONGTYPE no");
    s.slots = pairs(slots);
    s.deadlines = pairs(deadlines);
    s.permit_count = number(count);
    return s;
}

/// The answer that the replies give.
class surveyed {
public:
    explicit surveyed(survey const& s) { take(s); }
    void take(survey const& s) {
        auto const all = s.all();
        BOOST_REQUIRE(all.size() == exclusive_key.replies(command::survey, {}));
        auto left = static_cast<unsigned>(all.size());
        for (auto const& each : all) {
            --left;
            for (auto const& e : each) {
                reader_.take({.kind = exclusive_key,
                              .command = command::survey,
                              .words = {},
                              .fenced = false,
                              .owner = question_,
                              .secrets = secrets_},
                             left, e);
            }
        }
    }
    answer const* operator->() const { return &reader_.result(); }
    key_companions const& beside() const {
        BOOST_REQUIRE(reader_.result().beside != nullptr);
        return *reader_.result().beside;
    }
    lock_reply const& reader() const { return reader_; }

private:
    question question_;
    secret_list secrets_{"hush"};
    lock_reply reader_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(surveys)

BOOST_AUTO_TEST_CASE(a_survey_asks_for_all_of_a_key) {
    codec::request r;
    exclusive_key.encode(r, command::survey, {}, seat);
    BOOST_TEST(std::string(r.payload()) ==
               resp::command({"PTTL", "seat:7"}) + resp::command({"TYPE", "seat:7"}) +
                   resp::command({"GETRANGE", "seat:7", "0", "64"}) +
                   resp::command({"ZSCORE", "{seat:7}:fence", "n"}) + resp::command({"TIME"}) +
                   resp::command({"ZCARD", "{seat:7}:readers"}) +
                   resp::command({"ZRANGE", "{seat:7}:readers", "-64", "-1", "WITHSCORES"}) +
                   resp::command({"GETRANGE", "{seat:7}:intent", "0", "64"}) +
                   resp::command({"PTTL", "{seat:7}:intent"}) +
                   resp::command({"GETRANGE", "{seat:7}:turn", "0", "64"}) +
                   resp::command({"PTTL", "{seat:7}:turn"}) +
                   resp::command({"ZRANGE", "{seat:7}:until", "-64", "-1", "WITHSCORES"}) +
                   resp::command({"ZRANGE", "seat:7", "0", "63", "WITHSCORES"}) +
                   resp::command({"ZCARD", "{seat:7}:until"}));
}

BOOST_AUTO_TEST_CASE(a_survey_tells_the_value_the_ttl_and_the_counter) {
    surveyed const r({.ttl = number("1500"),
                      .type = simple("string"),
                      .value = blob(labelled),
                      .counter = blob("42")});
    BOOST_TEST((r->verdict == verdict::yes));
    BOOST_TEST(r->present);
    BOOST_TEST(r->value.value() == labelled);
    BOOST_TEST(r->ttl_known);
    BOOST_TEST((r->ttl_left == 1500ms));
    BOOST_TEST(r->number == 42U);
    BOOST_TEST(r.beside().readers.empty());
    BOOST_TEST(r.beside().problem == "");
    surveyed const never({.ttl = number("-1"), .type = simple("string"), .value = blob("x")});
    BOOST_TEST(never->present);
    BOOST_TEST(never->ttl_known);
    BOOST_TEST((never->ttl_left == std::nullopt));
    BOOST_TEST(never->number == 0U);
}

// Another program may set a key to nothing.
BOOST_AUTO_TEST_CASE(a_survey_tells_an_empty_value_from_one_that_is_not_shown) {
    surveyed const shown({.ttl = number("7"), .type = simple("string"), .value = blob("")});
    BOOST_TEST(shown->present);
    BOOST_TEST(shown->value.value() == "");
    surveyed const hidden({.ttl = number("7"), .type = simple("string"), .value = forbidden});
    BOOST_TEST(hidden->present);
    BOOST_TEST(!hidden->value.has_value());
}

BOOST_AUTO_TEST_CASE(a_survey_of_a_key_that_is_not_there_or_goes_says_so) {
    for (auto const* const ttl : {"-2", "1500"}) { // with 1500, the key went after the PTTL
        surveyed const r({.ttl = number(ttl), .type = simple("none"), .counter = blob("7")});
        BOOST_TEST((r->verdict == verdict::yes));
        BOOST_TEST(!r->present);
        BOOST_TEST(!r->ttl_known);
        BOOST_TEST(!r->value.has_value());
        BOOST_TEST(r->number == 7U);
    }
}

BOOST_AUTO_TEST_CASE(a_survey_of_something_else_finds_no_lock) {
    surveyed const r({.ttl = number("-1"), .type = simple("list"), .value = error("WRONGTYPE no")});
    BOOST_TEST((r->verdict == verdict::refused));
    BOOST_TEST((r->cause == errc::wrong_type));
    BOOST_TEST(r->message == "the key holds a list, not a lock");
    BOOST_TEST((r.reader().ends_session() == errc{}));
}

// Never "absent" because a command was refused.
BOOST_AUTO_TEST_CASE(a_survey_does_with_the_commands_that_are_allowed) {
    survey const none{.ttl = forbidden,
                      .type = forbidden,
                      .value = forbidden,
                      .counter = forbidden,
                      .clock = forbidden,
                      .count = forbidden,
                      .readers = forbidden,
                      .intent = forbidden,
                      .intent_ttl = forbidden,
                      .turn = forbidden,
                      .turn_ttl = forbidden,
                      .deadlines = forbidden,
                      .slots = forbidden,
                      .permit_count = forbidden};
    surveyed const nothing(none);
    BOOST_TEST((nothing->verdict == verdict::refused));
    BOOST_TEST((nothing->cause == errc::access_denied));
    BOOST_TEST(nothing->message == "NOPERM *** has no right");
    BOOST_TEST(nothing.beside().intent == "");
    BOOST_TEST(nothing.beside().turn == "");
    auto some = none;
    some.ttl = number("7");
    surveyed const by_ttl(some);
    BOOST_TEST((by_ttl->verdict == verdict::yes));
    BOOST_TEST(by_ttl->present);
    some = none;
    some.type = simple("string");
    surveyed const by_type(some);
    BOOST_TEST(by_type->present);
    BOOST_TEST(!by_type->ttl_known);
    BOOST_TEST((by_type->cause == errc{}));
    some = none;
    some.value = blob("x");
    surveyed const by_value(some);
    BOOST_TEST(by_value->present);
    BOOST_TEST(by_value->value.value() == "x");
    some = none;
    some.ttl = number("-2");
    surveyed const gone(some);
    BOOST_TEST((gone->verdict == verdict::yes));
    BOOST_TEST(!gone->present);
    surveyed const no_counter({.ttl = number("7"),
                               .type = simple("string"),
                               .value = blob("x"),
                               .counter = error("WRONGTYPE no")});
    BOOST_TEST(no_counter->present);
    BOOST_TEST(no_counter->number == 0U);
}

//
// Readers and writers
//

BOOST_AUTO_TEST_CASE(readers_have_the_rest_of_their_time_the_longest_first) {
    scores const all{
        {"dead", "1764201234567"}, {"b", "1764201235068"}, {labelled, "1764201244568"}};
    for (auto const resp3 : {true, false}) {
        auto s = shared({}, "3");
        s.readers = pairs(all, resp3);
        surveyed const r(s);
        BOOST_TEST((r->verdict == verdict::yes));
        auto const& beside = r.beside();
        BOOST_TEST(beside.has_readers);
        BOOST_TEST(beside.has_set);
        BOOST_TEST(beside.reader_count == 2U);
        BOOST_REQUIRE(beside.readers.size() == 2U);
        BOOST_TEST(beside.readers[0].token == labelled);
        BOOST_TEST((beside.readers[0].left == 10s));
        BOOST_TEST(beside.readers[1].token == "b");
        BOOST_TEST((beside.readers[1].left == 500ms));
        BOOST_TEST(beside.problem == "");
    }
}

// Servers write some whole numbers with an exponent.
BOOST_AUTO_TEST_CASE(a_score_may_have_any_form) {
    for (auto const& [score, left] :
         {std::pair<char const*, std::chrono::milliseconds>{"1.765e+12", 798'765'432ms},
          {"1.765e12", 798'765'432ms},
          {"1764201234569", 1ms},
          {"1764201234569.9", 1ms},
          {"17642012345690e-1", 1ms}}) {
        surveyed const r(shared({{"a", score}}, "1"));
        BOOST_REQUIRE(r.beside().readers.size() == 1U);
        BOOST_TEST((r.beside().readers[0].left == left), score);
    }
    for (auto const* const score :
         {"inf", "-inf", "nan", "", "x", "-1", "1e-400", "1764201234567"}) {
        surveyed const r(shared({{"a", score}}, "1"));
        BOOST_TEST(r.beside().readers.empty(), score);
        BOOST_TEST(r.beside().has_set);
        BOOST_TEST(r.beside().reader_count == 0U);
    }
    surveyed const huge(shared({{"a", "1e+308"}}, "1"));
    BOOST_TEST(huge.beside().readers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(of_many_readers_the_count_is_told) {
    scores all;
    for (auto i = 0; i < 100; ++i)
        all.emplace_back("r" + std::to_string(i), std::to_string(1'764'201'300'000 + i));
    surveyed const r(shared(all, "5000"));
    BOOST_TEST(r.beside().readers.size() == key_answer::max_readers);
    BOOST_TEST(r.beside().reader_count == 5000U);
    // If one of those who last longest is dead, all others are.
    all.resize(key_answer::max_readers);
    all[0].second = "7";
    surveyed const some(shared(all, "5000"));
    BOOST_TEST(some.beside().reader_count == key_answer::max_readers - 1);
}

BOOST_AUTO_TEST_CASE(a_set_that_is_missing_is_told_from_one_whose_readers_have_expired) {
    surveyed const missing(shared({}, "0"));
    BOOST_TEST(!missing.beside().has_set);
    BOOST_TEST(contains(missing.beside().problem, "missing"), missing.beside().problem);
    surveyed const expired(shared({{"a", "1"}}, "1"));
    BOOST_TEST(expired.beside().has_set);
    BOOST_TEST(expired.beside().reader_count == 0U);
    BOOST_TEST(expired.beside().problem == "");
}

BOOST_AUTO_TEST_CASE(readers_are_shown_as_far_as_the_rights_go) {
    scores const all{{"dead", "1"}, {"a", "1764201244568"}};
    auto s = shared(all, "2");
    s.clock = forbidden;
    surveyed const timeless(s);
    BOOST_TEST(timeless.beside().reader_count == 2U);
    BOOST_TEST(timeless.beside().readers.size() == 2U);
    for (auto const& each : timeless.beside().readers) BOOST_TEST(!each.left.has_value());
    s = shared(all, "2");
    s.readers = forbidden;
    surveyed const counted(s);
    BOOST_TEST(counted.beside().has_set);
    BOOST_TEST(counted.beside().reader_count == 2U);
    BOOST_TEST(counted.beside().readers.empty());
    BOOST_TEST(counted.beside().problem == "ZRANGE: NOPERM *** has no right");
    s = shared(all, "2");
    s.count = forbidden;
    surveyed const listed(s);
    BOOST_TEST(listed.beside().has_set);
    BOOST_TEST(listed.beside().reader_count == 1U);
    s.readers = forbidden;
    surveyed const neither(s);
    BOOST_TEST(!neither.beside().has_set);
    BOOST_TEST(contains(neither.beside().problem, "NOPERM"));
    BOOST_TEST((neither->verdict == verdict::yes));
    s = shared(all, "2");
    s.count = s.readers = error("WRONGTYPE no");
    surveyed const other(s);
    BOOST_TEST(other.beside().problem == "ZRANGE: WRONGTYPE no");
    BOOST_TEST((other.reader().ends_session() == errc{}));
}

// The set of a key that has another value is nobody's, and a user of plain locks has no right to
// it.
BOOST_AUTO_TEST_CASE(only_a_key_with_the_mark_has_readers) {
    scores const all{{"a", "1764201244568"}};
    auto s = shared(all, "1");
    s.value = blob(labelled);
    surveyed const r(s);
    BOOST_TEST(!r.beside().has_readers);
    BOOST_TEST(r.beside().readers.empty());
    s.readers = s.count = forbidden;
    BOOST_TEST(surveyed(s).beside().problem == "");
}

BOOST_AUTO_TEST_CASE(those_who_wait_are_told_whatever_the_key_is) {
    survey s;
    s.intent = blob(labelled);
    s.intent_ttl = number("700");
    s.turn = blob("open");
    s.turn_ttl = number("3");
    surveyed r(s);
    BOOST_TEST(!r->present);
    BOOST_TEST(r.beside().intent == labelled);
    BOOST_TEST((r.beside().intent_left == 700ms));
    BOOST_TEST(r.beside().turn == "open");
    BOOST_TEST((r.beside().turn_left == 3ms));
    s.turn = blob("wait");
    BOOST_TEST(surveyed(s).beside().turn == "wait");
    s.turn = blob("another word");
    s.intent = error("WRONGTYPE no");
    s.intent_ttl = forbidden;
    BOOST_TEST(surveyed(s).beside().turn == "");
    BOOST_TEST(surveyed(s).beside().intent == "");
    BOOST_TEST(!surveyed(s).beside().intent_left.has_value());
    r.take({}); // nothing stays of the survey before
    BOOST_TEST(r.beside().intent == "");
    BOOST_TEST(r.beside().turn == "");
}

//
// Permits
//

BOOST_AUTO_TEST_CASE(permits_have_their_slots_and_the_rest_of_their_time) {
    scores const slots{{"a", "0"}, {"dead", "1"}, {labelled, "7"}, {"last", "9999"}};
    scores const deadlines{{"dead", "1764201234567"},
                           {labelled, "1764201235068"},
                           {"a", "1764201244568"},
                           {"last", "1.764201244568e+12"}};
    for (auto const resp3 : {true, false}) {
        auto s = counted({}, {}, "4");
        s.slots = pairs(slots, resp3);
        s.deadlines = pairs(deadlines, resp3);
        surveyed const r(s);
        BOOST_TEST((r->verdict == verdict::yes));
        BOOST_TEST((r->cause == errc{}));
        BOOST_TEST(r->message == "");
        BOOST_TEST(r->present);
        BOOST_TEST((r->ttl_left == 15s));
        BOOST_TEST(r->value.value() == permits_value);
        auto const& beside = r.beside();
        BOOST_TEST(beside.has_permits);
        BOOST_TEST(!beside.has_readers);
        BOOST_TEST(beside.permit_count == 3U);
        BOOST_REQUIRE(beside.permits.size() == 3U);
        BOOST_TEST(beside.permits[0].slot == 0U);
        BOOST_TEST(beside.permits[0].token == "a");
        BOOST_TEST((beside.permits[0].left == 10s));
        BOOST_TEST(beside.permits[1].slot == 7U);
        BOOST_TEST(beside.permits[1].token == labelled);
        BOOST_TEST((beside.permits[1].left == 500ms));
        BOOST_TEST(beside.permits[2].slot == 9'999U);
        BOOST_TEST(beside.problem == "");
    }
    // All have expired.
    surveyed const over(counted({{"a", "0"}}, {{"a", "5"}}, "1"));
    BOOST_TEST((over->verdict == verdict::yes));
    BOOST_TEST(over.beside().has_permits);
    BOOST_TEST(over.beside().permit_count == 0U);
    // Nobody knows until when a lease lasts that only one of the sets has.
    surveyed const odd(counted({{"a", "0"}, {"b", "1"}, {"c", "-1"}, {"d", "10000"}},
                               {{"b", "1764201244568"},
                                {"c", "1764201244568"},
                                {"d", "1764201244568"},
                                {"e", "1764201244568"}},
                               "4"));
    BOOST_REQUIRE(odd.beside().permits.size() == 1U);
    BOOST_TEST(odd.beside().permits[0].token == "b");
    BOOST_TEST(odd.beside().permit_count == 1U);
    BOOST_TEST(label_of(permits_value) == "permits");
}

BOOST_AUTO_TEST_CASE(of_many_permits_those_with_the_least_slots_are_shown) {
    scores slots, deadlines;
    for (auto i = 0; i < 100; ++i) {
        slots.emplace_back("p" + std::to_string(i), std::to_string(i));
        deadlines.emplace_back("p" + std::to_string(99 - i), std::to_string(1'764'201'300'000 + i));
    }
    deadlines.resize(key_answer::max_readers);
    surveyed const r(counted(slots, deadlines, "5000"));
    BOOST_TEST(r.beside().permit_count == 5'000U);
    BOOST_TEST(r.beside().permits.size() == key_answer::max_readers);
    BOOST_TEST(!r.beside().permits[0].left.has_value()); // it is not among those shown
    BOOST_TEST(r.beside().permits[50].left.has_value());
}

BOOST_AUTO_TEST_CASE(a_sorted_set_without_deadlines_is_no_semaphore) {
    surveyed const r(counted({{"a", "0"}}, {}, "0"));
    BOOST_TEST((r->verdict == verdict::refused));
    BOOST_TEST((r->cause == errc::wrong_type));
    BOOST_TEST(r->message == "the key holds a zset, not a lock");
    BOOST_TEST(!r.beside().has_permits);
    scores const slots{{"a", "3"}}, deadlines{{"a", "1764201244568"}};
    auto s = counted(slots, {}, "0");
    s.deadlines = s.permit_count = forbidden;
    surveyed const hidden(s);
    BOOST_TEST((hidden->cause == errc::wrong_type));
    BOOST_TEST(hidden->message == "the key holds a zset, not a lock; of a semaphore, ZRANGE: "
                                  "NOPERM *** has no right");
    // A string has no permits, whatever is beside it.
    s = counted({}, deadlines, "1");
    s.type = simple("string");
    s.value = blob(labelled);
    s.slots = error("WRONGTYPE no");
    surveyed const text(s);
    BOOST_TEST(text->value.value() == labelled);
    BOOST_TEST(!text.beside().has_permits);
}

BOOST_AUTO_TEST_CASE(permits_are_shown_as_far_as_the_rights_go) {
    scores const slots{{"a", "3"}}, deadlines{{"a", "1764201244568"}};
    auto s = counted(slots, deadlines, "1");
    s.clock = s.permit_count = forbidden;
    surveyed const timeless(s);
    BOOST_REQUIRE(timeless.beside().permits.size() == 1U);
    BOOST_TEST(!timeless.beside().permits[0].left.has_value());
    BOOST_TEST(timeless.beside().permit_count == 1U);
    s.slots = forbidden;
    surveyed const slotless(s);
    BOOST_TEST((slotless->verdict == verdict::yes));
    BOOST_TEST(slotless.beside().permits.empty());
    BOOST_TEST(slotless.beside().permit_count == 1U);
    BOOST_TEST(slotless.beside().problem == "ZRANGE: NOPERM *** has no right");
}

BOOST_AUTO_TEST_SUITE_END()
