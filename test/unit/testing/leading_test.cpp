// lead(): one leads, the others follow, and outages are waited out. On embedded instances.
#include <holdfast/lead.hpp>
#include <holdfast/testing/instance.hpp>

#include "integration/sections.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// A candidate that leads until it is told to end.
struct candidate {
    candidate(test_client& c, std::chrono::milliseconds ttl = 1s)
        : client(c) {
        auto const lead_it = [this](lease& l) -> asio::awaitable<int> { return leads(l); };
        lead(
            c.locks.make_lock("leader", {.ttl = ttl}), lead_it,
            [this](error const& e) { troubles.push_back(e); },
            asio::bind_cancellation_slot(signal.slot(), end.take()));
    }

    asio::awaitable<int> leads(lease& l) {
        in_frame const here(terms);
        BOOST_TEST(l.held());
        BOOST_TEST(++leaders == 1);
        struct leaves {
            ~leaves() { --leaders; }
        } const on_every_way_out;
        while (!returns && !throws) {
            asio::steady_timer pause(co_await asio::this_coro::executor, 1ms);
            co_await pause.async_wait(asio::deferred);
        }
        if (throws) throw no_seats{1};
        co_return 7;
    }
    bool leading() const { return terms.inside(); }

    static int leaders;
    test_client& client;
    frames terms;
    bool returns = false, throws = false;
    std::vector<error> troubles;
    asio::cancellation_signal signal;
    ending end;
};
int candidate::leaders = 0;

} // namespace

BOOST_AUTO_TEST_SUITE(leading)

BOOST_AUTO_TEST_CASE(one_leads_and_another_follows_when_that_returns) {
    holdfast::testing::instance one;
    test_client a({one.address()}), b({one.address()});
    a.runs_with(b);
    candidate first(a);
    BOOST_REQUIRE(a.until([&] { return first.leading(); }));
    candidate second(b);
    BOOST_REQUIRE(a.until([&] { return b.locks.stats().waiters == 1; }));
    BOOST_TEST(!second.leading());
    first.returns = true;
    BOOST_REQUIRE(a.until([&] { return first.end.done && second.leading(); }));
    BOOST_TEST(first.end.value == 7);
    BOOST_TEST(first.troubles.empty());
    second.returns = true;
    BOOST_REQUIRE(a.until([&] { return second.end.done; }));
    BOOST_TEST(!one.holds("leader"));
}

BOOST_AUTO_TEST_CASE(a_leader_that_loses_its_lock_campaigns_again) {
    holdfast::testing::instance one;
    test_client a({one.address()});
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return c.leading(); }));
    BOOST_TEST(one.erase("leader"));
    BOOST_REQUIRE(a.until([&] { return c.terms.entered == 2 && c.leading(); }));
    BOOST_REQUIRE(c.troubles.size() == 1U);
    BOOST_TEST((c.troubles[0] == errc::lease_lost), c.troubles[0].what());
    c.returns = true;
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
    BOOST_TEST(!c.end.thrown);
}

BOOST_AUTO_TEST_CASE(an_outage_is_waited_out) {
    holdfast::testing::instance one;
    auto options = trusting(hasty());
    test_client a({one.address()}, options);
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return c.leading(); }));
    one.down();
    BOOST_REQUIRE(a.until([&] { return !c.leading(); }));
    BOOST_TEST(!c.end.done);
    one.up();
    BOOST_REQUIRE(a.until([&] { return c.terms.entered == 2 && c.leading(); }, 20s));
    BOOST_REQUIRE(!c.troubles.empty());
    BOOST_TEST((c.troubles[0] == errc::lease_lost), c.troubles[0].what());
    c.returns = true;
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
}

BOOST_AUTO_TEST_CASE(what_its_body_throws_ends_it) {
    holdfast::testing::instance one;
    test_client a({one.address()});
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return c.leading(); }));
    c.throws = true;
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
    BOOST_CHECK_THROW(std::rethrow_exception(c.end.thrown), no_seats);
    BOOST_TEST(a.idle());
    BOOST_TEST(!one.holds("leader"));
}

// Such an error ends a campaign too, and must not be taken for one.
BOOST_AUTO_TEST_CASE(what_a_lock_within_its_body_throws_ends_it_too) {
    holdfast::testing::instance one;
    test_client a({one.address()});
    for (auto const code : {errc::lease_lost, errc::wait_timeout, errc::no_quorum}) {
        auto terms = 0;
        ending end;
        auto const body = [&](lease&) -> asio::awaitable<int> {
            ++terms;
            throw_error(code);
            co_return 0;
        };
        lead(
            a.locks.make_lock("leader"), body, [](error const&) {}, end.take());
        BOOST_REQUIRE(a.until([&] { return end.done; }));
        BOOST_TEST((end.code() == code), end.code().message());
        BOOST_TEST(terms == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_ends_a_candidate_and_a_leader) {
    holdfast::testing::instance one;
    test_client a({one.address()}), b({one.address()});
    a.runs_with(b);
    candidate first(a);
    BOOST_REQUIRE(a.until([&] { return first.leading(); }));
    candidate second(b);
    BOOST_REQUIRE(a.until([&] { return b.locks.stats().waiters == 1; }));
    second.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(a.until([&] { return second.end.done; }));
    BOOST_TEST(is_cancellation(second.end.code()), second.end.code().message());
    BOOST_TEST(second.terms.entered == 0);
    first.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(a.until([&] { return first.end.done; }));
    BOOST_TEST(is_cancellation(first.end.code()), first.end.code().message());
    BOOST_TEST(first.terms.entered == 1);
    BOOST_TEST(!one.holds("leader"));
}

BOOST_AUTO_TEST_CASE(a_cancellation_between_two_terms_ends_it) {
    holdfast::testing::instance one;
    test_client a({one.address()});
    asio::cancellation_signal signal;
    ending end;
    auto terms = 0;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        ++terms;
        BOOST_TEST(one.erase("leader"));
        (void)co_await wait_for_signal();
        throw system_error(asio::error::operation_aborted);
    };
    auto const stop = [&](error const&) { signal.emit(asio::cancellation_type::terminal); };
    lead(a.locks.make_lock("leader", {.ttl = 300ms}), body, stop,
         asio::bind_cancellation_slot(signal.slot(), end.take()));
    BOOST_REQUIRE(a.until([&] { return end.done; }));
    BOOST_TEST(is_cancellation(end.code()), end.code().message());
    BOOST_TEST(terms == 1);
}

BOOST_AUTO_TEST_CASE(a_cancellation_ends_a_pause) {
    holdfast::testing::instance one;
    test_client a({address("redis://app:wrong@" + one.address().to_string())});
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return !c.troubles.empty(); }));
    a.context.poll();
    c.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
    BOOST_TEST(is_cancellation(c.end.code()), c.end.code().message());
    BOOST_TEST(c.troubles.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_ends_it) {
    holdfast::testing::instance one;
    test_client a({one.address()});
    redis_cli(one.address().port()).command({"RPUSH", "leader", "v"});
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
    BOOST_TEST((c.end.code() == errc::wrong_type), c.end.code().message());
    BOOST_TEST(c.troubles.empty());
}

BOOST_AUTO_TEST_CASE(a_permanent_error_is_told_and_tried_again) {
    holdfast::testing::instance one;
    test_client a({address("redis://app:wrong@" + one.address().to_string())});
    candidate c(a);
    BOOST_REQUIRE(a.until([&] { return c.troubles.size() >= 2; }, 20s));
    BOOST_TEST((c.troubles[0] == error_condition::unavailable), c.troubles[0].what());
    BOOST_TEST(!c.end.done);
    a.locks.close();
    BOOST_REQUIRE(a.until([&] { return c.end.done; }));
    BOOST_TEST((c.end.code() == errc::shut_down), c.end.code().message());
}

BOOST_AUTO_TEST_SUITE_END()
