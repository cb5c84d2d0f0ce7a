// The watch of a key without an engine: the instances are fakes.
#include "runtime/acquire/acquirer.hpp"
#include "runtime/keys/key_watcher.hpp"
#include "runtime/keys/surveyor.hpp"

#include "unit/runtime/rooms.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

class watcher_alone : public test::rooms {
public:
    watcher_alone()
        : rooms(3) {}
    ~watcher_alone() override {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
        watcher.clear();
        room.clear();
    }

    struct call {
        operation* op = nullptr;
        std::optional<error> result;
        key_report report;
    };
    void start(call& c, key_report const& last = {}) {
        auto& op = make_operation(wait_change_call{
            .handler = detail::inspect_handler([&c](detail::delivery, error e, key_report r) {
                c.result = std::move(e);
                c.report = std::move(r);
            }),
            .key = make_lock(),
            .last = std::make_shared<key_report const>(last)});
        c = {.op = &op, .result = {}, .report = {}};
        watcher.start(op);
    }
    /// The instance answers both questions: it has this token, or no key.
    void answer(unsigned i, std::string_view token, bool pushes = true) {
        redis::answer registered{.verdict = verdict::yes, .push_follows = pushes};
        registered.ttl_known = !token.empty();
        redis::answer seen{.verdict = verdict::yes, .present = !token.empty(), .value = token};
        seen.ttl_known = !token.empty();
        fakes[i]->answer(command::track, registered);
        fakes[i]->answer(command::survey, seen);
    }
    void answer_all_with(std::string_view token) {
        for (unsigned i = 0; i < 3; ++i) answer(i, token);
    }
    bool asked() const {
        return !fakes[0]->questions.empty() || !fakes[1]->questions.empty() ||
               !fakes[2]->questions.empty();
    }
    /// The report of a caller after a round with these answers.
    key_report known(lease_clock::duration now, std::string_view token) {
        call c;
        at(now, [&] { start(c); });
        at(now, [&] { answer_all_with(token); });
        BOOST_REQUIRE(c.result.has_value());
        wait_until(now + 20ms); // the watch ends
        BOOST_TEST(!asked());
        return c.report;
    }

    acquirer room{shared, tenures, *this, 100ms, 24h};
    surveyor questions{shared, room};
    key_watcher watcher{shared, questions};

private:
    void lead_answer(active_tenure&, unsigned, command, std::uint32_t,
                     redis::answer const&) override {}
    void lead_time(active_tenure&, lease_clock::time_point) override {}
};

constexpr std::string_view key = "seat:7";

} // namespace

BOOST_FIXTURE_TEST_SUITE(key_watcher, watcher_alone)

BOOST_AUTO_TEST_CASE(a_caller_that_knows_nothing_is_told_at_once) {
    call c;
    at(0ms, [&] { start(c); });
    at(1ms, [&] {
        answer(0, "t");
        answer(1, "t");
        BOOST_TEST(!c.result.has_value());
        answer(2, "t");
    });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_TEST(!*c.result);
    BOOST_TEST((c.report.state == key_state::held));
}

BOOST_AUTO_TEST_CASE(a_change_between_two_calls_is_told) {
    auto const before = known(0ms, "t");
    call c;
    at(1s, [&] { start(c, before); });
    at(1s, [&] { answer_all_with(""); });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_TEST((c.report.state == key_state::free));
}

BOOST_AUTO_TEST_CASE(a_push_is_followed_by_questions_after_a_pause) {
    auto const before = known(0ms, "t");
    call c;
    at(1s, [&] { start(c, before); });
    at(1s, [&] { answer_all_with("t"); });
    BOOST_TEST(!c.result.has_value());
    at(2s, [&] { watcher.on_push(1, key); });
    BOOST_TEST(count.pushes.load() == 1U);
    wait_until(2s);
    BOOST_REQUIRE(asked());
    at(2s, [&] { answer_all_with("another"); });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_TEST((c.report.state == key_state::held));
    // The next call comes at once, and waits for the pause.
    call next;
    at(2s + 1ms, [&] { start(next, c.report); });
    BOOST_TEST(!asked());
    wait_until(2s + 9ms);
    BOOST_TEST(!asked());
    wait_until(2s + 16ms);
    BOOST_TEST(asked());
}

// The answers of a round may be older than a call that began in it.
BOOST_AUTO_TEST_CASE(a_call_is_not_compared_with_an_earlier_round) {
    auto const before = known(0ms, "t");
    call first, second;
    at(1s, [&] { start(first, before); });
    at(1s, [&] { start(second, before); });
    at(1s, [&] { answer_all_with("another"); });
    BOOST_TEST(first.result.has_value());
    BOOST_TEST(!second.result.has_value());
    wait_until(1s + 16ms);
    at(1s + 17ms, [&] { answer_all_with("another"); });
    BOOST_TEST(second.result.has_value());
}

BOOST_AUTO_TEST_CASE(pushes_of_other_keys_and_of_no_watch_ask_nothing) {
    watcher.on_push(0, key);
    auto const before = known(0ms, "t");
    call c;
    at(1s, [&] { start(c, before); });
    at(1s, [&] { answer_all_with("t"); });
    at(2s, [&] { watcher.on_push(1, "seat:8"); });
    wait_until(2s);
    BOOST_TEST(!asked());
    BOOST_TEST(count.pushes.load() == 0U);
}

BOOST_AUTO_TEST_CASE(the_last_caller_that_leaves_ends_the_watch) {
    auto const before = known(0ms, "t");
    call first, second;
    at(1s, [&] {
        start(first, before);
        start(second, before);
    });
    at(1s, [&] { watcher.cancel(*first.op); });
    BOOST_TEST((*first.result == errc::cancelled));
    at(1s, [&] { answer_all_with("t"); });
    at(2s, [&] { watcher.cancel(*second.op); });
    BOOST_TEST((*second.result == errc::cancelled));
    at(3s, [&] { watcher.on_push(0, key); });
    wait_until(1min);
    BOOST_TEST(!asked());
    // Answers that are still under way are dropped.
    call third;
    at(2min, [&] { start(third, before); });
    at(2min, [&] { watcher.cancel(*third.op); });
    at(2min, [&] { answer_all_with("another"); });
    BOOST_TEST((*third.result == errc::cancelled));
}

BOOST_AUTO_TEST_CASE(an_instance_that_lets_changes_pass_untold_is_reported) {
    auto const before = known(0ms, "t");
    call c;
    at(1s, [&] { start(c, before); });
    at(1s, [&] { answer_all_with("t"); });
    wait_until(12s);
    at(12s, [&] { answer_all_with(""); });
    BOOST_TEST(c.result.has_value());
    for (auto const& f : fakes) BOOST_TEST(f->missed == 1);
}

BOOST_AUTO_TEST_CASE(an_instance_that_goes_is_a_change) {
    auto const before = known(0ms, "t");
    call c;
    at(1s, [&] { start(c, before); });
    at(1s, [&] { answer_all_with("t"); });
    fakes[2]->up = false;
    at(2s, [&] { watcher.on_came_or_went(2); });
    wait_until(2s);
    at(2s, [&] {
        answer(0, "t");
        answer(1, "t");
    });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_TEST((c.report.state == key_state::held));
    BOOST_TEST((c.report.instances[2].found == key_answer::kind::unknown));
}

BOOST_AUTO_TEST_CASE(only_what_a_holder_could_notice_is_a_change) {
    auto const before = known(0ms, "t");
    auto after = before;
    after.instances[0].ttl_left = 5ms;
    after.instances[0].round_trip = 1s;
    after.instances[0].message = "words";
    BOOST_TEST(!shows_change(before, after));
    for (auto const change :
         {+[](key_report& r) { r.state = key_state::split; },
          +[](key_report& r) { r.instances[1].digest = "d"; },
          +[](key_report& r) { r.instances[1].fence = 7; },
          +[](key_report& r) { r.instances[1].found = key_answer::kind::unknown; },
          +[](key_report& r) { r.instances.pop_back(); },
          +[](key_report& r) { r.key = "another"; }}) {
        auto other = before;
        change(other);
        BOOST_TEST(shows_change(before, other));
    }
}

BOOST_AUTO_TEST_SUITE_END()
