// The part of a deployment in a link: its objections, the commands that it takes over, and the
// events that it keeps to itself.
#include "redis/server/link_policy.hpp"

#include "unit/redis/server/memory_link.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::instance_state;
using holdfast::lease_clock;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

class asker final : public reply_handler {
public:
    struct heard {
        verdict said;
        errc cause;
        std::string message;
    };

    command_args arguments(command) const noexcept override {
        return {.key = "k", .token = "t", .ttl = 10s};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const& a) override {
        answers.push_back({a.verdict, a.cause, std::string(a.message)});
    }

    std::vector<heard> answers;

private:
    void recycle() noexcept override {}
};

class deployment final : public link_policy, public link_listener, public redirect_policy {
public:
    errc objection(command, lease_clock::time_point) noexcept override { return objects; }
    std::string_view objection_text(errc) const noexcept override { return "it was left"; }
    bool leaves_suspects() const noexcept override { return true; }
    void on_link_lost(errc cause) noexcept override { lost = cause; }
    bool on_available() override { return notifies_owner; }
    bool on_unavailable() override { return notifies_owner; }

    void on_connection() noexcept override { ++connections; }
    void on_probe(server_info const& info) override { run_id = info.run_id; }

    bool refuses(std::string_view error) override { return error.starts_with("MOVED"); }
    void take_over(pending_command&) override { ++taken; }
    void on_answered(pending_command const&) noexcept override { ++answered; }

    memory_link_options options() {
        return {.instance_timeout = 100ms,
                .deployment = {.policy = *this, .listener = *this, .redirects = *this}};
    }

    errc objects{}, lost{};
    bool notifies_owner = true;
    int connections = 0, taken = 0, answered = 0;
    std::string run_id;
};

/// The server does not answer in time. A link looks twice, and its timers are real: the second look
/// comes 100 ms after the first, which is late.
void hang(memory_link& l) {
    for (auto const d : {200ms, 150ms}) {
        std::this_thread::sleep_for(150ms);
        l.pass(d);
    }
}

struct fixture {
    asker a;
    deployment d;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(link_policies, fixture)

BOOST_AUTO_TEST_CASE(a_plain_server_has_a_policy_that_allows_all) {
    memory_link l({.instance_timeout = 100ms});
    l.send({{command::acquire, &a}});
    l.receive("+OK\r\n");
    l.send({{command::extend, &a}});
    l.receive("-MOVED 1 127.0.0.1:2\r\n");
    BOOST_REQUIRE(a.answers.size() == 2U);
    BOOST_TEST((a.answers[0].said == verdict::yes));
    BOOST_TEST((a.answers[1].said != verdict::yes));
    BOOST_TEST(l.available == 1U);
}

BOOST_AUTO_TEST_CASE(an_answer_yes_does_not_count_against_an_objection) {
    memory_link l(d.options());
    d.objects = errc::no_sentinel_majority;
    l.send({{command::acquire, &a}});
    l.receive("+OK\r\n");
    l.send({{command::release, &a}});
    l.receive(":1\r\n");
    BOOST_REQUIRE(a.answers.size() == 2U);
    BOOST_TEST((a.answers[0].said == verdict::unknown));
    BOOST_TEST((a.answers[0].cause == errc::no_sentinel_majority));
    BOOST_TEST(a.answers[0].message == "it was left");
    BOOST_TEST((a.answers[1].said == verdict::yes));
}

BOOST_AUTO_TEST_CASE(a_command_that_another_server_gets_is_not_answered) {
    memory_link l(d.options());
    l.send({{command::acquire, &a}});
    l.receive("-MOVED 1 127.0.0.1:2\r\n");
    BOOST_TEST(a.answers.empty());
    BOOST_TEST(d.taken == 1);
    BOOST_TEST(d.answered == 0);
    l.send({{command::acquire, &a}});
    l.receive("+OK\r\n");
    BOOST_TEST(a.answers.size() == 1U);
    BOOST_TEST(d.answered == 1);
}

BOOST_AUTO_TEST_CASE(the_listener_hears_of_each_connection_and_its_server) {
    memory_link l(d.options());
    BOOST_TEST(d.connections == 1);
    BOOST_TEST(d.run_id == "a");
}

BOOST_AUTO_TEST_CASE(a_deployment_keeps_events_from_the_owner) {
    d.notifies_owner = false;
    memory_link l(d.options());
    BOOST_TEST(l.available == 0U);
    l.stop();
    BOOST_TEST(l.unavailable == 0U);
    d.notifies_owner = true;
    memory_link other(d.options());
    BOOST_TEST(other.available == 1U);
    other.stop();
    BOOST_TEST(other.unavailable == 1U);
}

BOOST_AUTO_TEST_CASE(a_link_whose_answers_are_overdue_is_left_if_the_policy_wants_it) {
    memory_link kept({.instance_timeout = 100ms});
    kept.send({{command::acquire, &a}});
    hang(kept);
    BOOST_TEST((kept.connection().status().state == instance_state::suspect));

    asker other;
    memory_link left(d.options());
    left.send({{command::acquire, &other}});
    hang(left);
    BOOST_TEST((left.connection().status().state == instance_state::down));
    BOOST_TEST((d.lost == errc::instance_timeout));
}

BOOST_AUTO_TEST_SUITE_END()
