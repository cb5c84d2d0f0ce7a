// Replies to the commands of locks on one connection: what is sent again, what ends the session,
// and which releases are kept.
#include "redis/wire/kinds/set_key.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/server/memory_link.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::degradation;
using holdfast::errc;
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

    explicit asker(std::string key)
        : key_(std::move(key)) {}
    lock_kind const& kind() const noexcept override {
        return keys.empty() ? exclusive_key : set_key;
    }
    command_args arguments(command) const noexcept override {
        // No text can be that long, so encoding it throws, as encoding does without memory.
        auto const size = too_long ? std::string().max_size() : key_.size();
        return {.key = {key_.data(), size}, .token = "t", .ttl = ttl, .keys = keys};
    }
    bool still_wants(command) const noexcept override { return wants; }
    void on_answer(unsigned, command, std::uint32_t, answer const& a) override {
        answers.push_back({a.verdict, a.cause, std::string(a.message)});
    }

    bool wants = true;
    bool too_long = false;
    std::chrono::milliseconds ttl = 10s;
    std::span<std::string_view const> keys;
    std::vector<heard> answers;

private:
    void recycle() noexcept override {}

    std::string key_;
};

constexpr std::array<std::string_view, 2> several{"a", "b"};

bool lacks(memory_link const& i, degradation d) {
    for (auto const& found : i.connection().status().degradations) {
        if (found.kind == d) return true;
    }
    return false;
}

} // namespace

BOOST_AUTO_TEST_SUITE(lock_replies)

BOOST_AUTO_TEST_CASE(a_server_that_forgot_a_script_gets_it_whole) {
    asker a("a");
    memory_link l;
    BOOST_TEST(contains(l.send({{command::release, &a}}), "EVALSHA"));
    auto const again = l.receive("-NOSCRIPT No matching script\r\n");
    BOOST_TEST(contains(again, "$4\r\nEVAL\r\n"));
    BOOST_TEST(a.answers.empty());
    l.receive(":1\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::yes));
    // The server has it now.
    BOOST_TEST(contains(l.send({{command::release, &a}}), "EVALSHA"));
}

BOOST_AUTO_TEST_CASE(a_command_that_cannot_be_sent_again_ends_the_session_and_is_answered_once) {
    asker a("a");
    memory_link l;
    l.send({{command::release, &a}});
    a.too_long = true;
    l.receive("-NOSCRIPT No matching script\r\n");
    a.too_long = false;
    BOOST_TEST(!l.connection().connected());
    BOOST_CHECK(l.connection().reason() == errc::out_of_memory);
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::unknown));
    BOOST_TEST(l.connection().status().pending_releases == 1U);
}

BOOST_AUTO_TEST_CASE(a_grant_that_nobody_wants_is_not_sent_again) {
    asker a("a");
    memory_link l;
    a.wants = false;
    l.send({{command::extend, &a}});
    auto const sent = l.receive("-NOSCRIPT No matching script\r\n");
    BOOST_TEST(!contains(sent, "EVAL"));
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::unsent));
    // The server learns the scripts for the next time, once.
    BOOST_TEST(contains(sent, "LOAD"));
    l.send({{command::extend, &a}});
    BOOST_TEST(l.receive("+OK\r\n").empty());
}

// It sets no key, so it may come at any time.
BOOST_AUTO_TEST_CASE(an_inspection_by_script_is_sent_again) {
    asker a("a b");
    a.keys = several;
    memory_link l;
    a.wants = false;
    l.send({{command::inspect, &a}});
    BOOST_TEST(contains(l.receive("-NOSCRIPT No matching script\r\n"), "$4\r\nEVAL\r\n"));
    l.receive("*1\r\n:0\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::yes));
}

// There is no key with the common name of all.
BOOST_AUTO_TEST_CASE(the_expiry_of_several_keys_is_that_of_the_first) {
    asker a("a b");
    a.keys = several;
    a.ttl = 10'500ms;
    memory_link l;
    l.send({{command::acquire, &a}});
    BOOST_TEST(contains(l.receive(":1\r\n"), "$4\r\nPTTL\r\n$1\r\na\r\n"));
    l.receive(":10500\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::yes));
}

BOOST_AUTO_TEST_CASE(a_refused_right_is_listed_until_it_is_given) {
    asker a("a");
    memory_link l;
    l.send({{command::acquire, &a}});
    l.receive("-NOPERM this user has no permissions to run the 'set' command\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::refused));
    BOOST_TEST((a.answers[0].cause == errc::access_denied));
    BOOST_TEST(lacks(l, degradation::no_acquire));
    l.send({{command::acquire, &a}});
    l.receive("+OK\r\n");
    BOOST_TEST((a.answers[1].said == verdict::yes));
    BOOST_TEST(!lacks(l, degradation::no_acquire));
}

BOOST_AUTO_TEST_CASE(a_release_that_is_refused_for_now_is_kept) {
    asker a("a");
    memory_link l;
    l.send({{command::release, &a}});
    l.receive("-NOREPLICAS Not enough good replicas to write.\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::refused));
    BOOST_TEST(l.connection().status().pending_releases == 1U);
}

// The connection has lost its order. The release may not have been executed.
BOOST_AUTO_TEST_CASE(a_release_that_gets_the_reply_of_another_command_is_kept) {
    for (std::string_view const reply : {"+PONG\r\n", "$5\r\nhello\r\n", ":7\r\n", "*0\r\n"}) {
        asker a("a");
        memory_link l;
        l.send({{command::release, &a}});
        l.receive(reply);
        BOOST_REQUIRE(a.answers.size() == 1U);
        BOOST_TEST((a.answers[0].said == verdict::unknown), reply);
        BOOST_TEST((a.answers[0].cause == errc::not_redis));
        BOOST_TEST(l.connection().status().pending_releases == 1U);
        BOOST_TEST(!l.connection().connected());
    }
}

BOOST_AUTO_TEST_CASE(a_release_that_was_executed_is_not_kept) {
    for (std::string_view const reply : {":1\r\n", ":0\r\n"}) {
        asker a("a");
        memory_link l;
        l.send({{command::release, &a}});
        l.receive(reply);
        BOOST_TEST(l.connection().status().pending_releases == 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_has_become_a_replica_ends_the_session) {
    asker a("a");
    memory_link l;
    l.send({{command::acquire, &a}});
    l.receive("-READONLY You can't write against a read only replica.\r\n");
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].cause == errc::read_only));
    BOOST_TEST(!l.connection().connected());
}

BOOST_AUTO_TEST_CASE(commands_of_a_connection_that_ends_are_answered_once) {
    asker sent("sent"), released("released");
    {
        memory_link l;
        l.send({{command::acquire, &sent}, {command::release, &released}});
        l.stop();
        BOOST_REQUIRE(sent.answers.size() == 1U);
        BOOST_TEST((sent.answers[0].said == verdict::unknown));
        BOOST_TEST((sent.answers[0].cause == errc::shut_down));
    }
    BOOST_TEST(sent.answers.size() == 1U);
    BOOST_TEST(released.answers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_late_is_told_once_and_its_release_goes_on) {
    asker a("a");
    memory_link l({.instance_timeout = 100ms});
    l.send({{command::acquire, &a}});
    l.pass(150ms);
    BOOST_REQUIRE(l.send({}).empty());
    BOOST_TEST(a.answers.size() <= 1U);
    l.receive("+OK\r\n");
    BOOST_TEST(a.answers.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
