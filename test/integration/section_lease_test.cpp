// The lease of a section. A body hears of its loss while the lease still lasts, and the section
// waits for the body. The body may extend, share and release the lease.
#include "protocol/rules.hpp"

#include "integration/foreign_client.hpp"
#include "integration/sections.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(section_lease)

//
// A lease that cannot be kept
//

BOOST_AUTO_TEST_CASE(a_body_hears_of_a_loss_while_it_still_holds_and_is_waited_for) {
    struct cancel_margin {
        std::chrono::milliseconds given, meant;
    };
    constexpr auto ttl = renewed_ttl;
    // The margins: none, the default (a tenth of the ttl), 400 ms, and nearly the greatest.
    for (auto const g : {cancel_margin{0ms, 0ms}, cancel_margin{-1ms, 300ms},
                         cancel_margin{400ms, 400ms}, cancel_margin{990ms, 990ms}}) {
        BOOST_TEST_CONTEXT("cancel_margin " << g.given.count() << " ms") {
            // If the machine stalls for the whole margin, the test tries again.
            auto in_time = false;
            for (int attempt = 0; attempt < 3 && !in_time; ++attempt) {
                fleet servers(3);
                test_client client(servers, hasty());
                auto over = false, cleaned = false, holds = false;
                lease_clock::duration left{};
                ending e;
                frames f;
                auto const body = [&](lease& l) -> asio::awaitable<int> {
                    in_frame const here(f);
                    auto const signalled = co_await wait_for_signal();
                    left = l.deadline() - lease_clock::now();
                    holds = l.held();
                    BOOST_TEST(signalled);
                    co_await asio::this_coro::reset_cancellation_state(
                        asio::disable_cancellation());
                    co_await clean_up();
                    BOOST_TEST(!over);
                    cleaned = true;
                    throw system_error(asio::error::operation_aborted);
                };
                with_lock(client.locks.make_lock("k", {.ttl = ttl, .cancel_margin = g.given}), body,
                          e.take());
                BOOST_REQUIRE(client.until([&] { return f.inside(); }));
                BOOST_TEST(client.renews(2)); // the watchdog renews the lease
                BOOST_TEST(!e.done);
                servers.freeze(3);
                BOOST_REQUIRE(client.until([&] { return e.done; }));
                over = true;
                BOOST_TEST(cleaned);
                BOOST_TEST(!f.inside());
                BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
                // The body hears of the loss no earlier than it asked, except for losses that are
                // reported together.
                BOOST_TEST(
                    (left <=
                     std::max<lease_clock::duration>(g.meant, protocol::loss_margin(ttl)) + 2ms),
                    left.count());
                in_time = g.meant == 0ms || (holds && left > 0ms);
            }
            BOOST_TEST(in_time, "the body heard of the loss after it");
        }
    }
}

BOOST_AUTO_TEST_CASE(a_body_that_ignores_cancellation_is_waited_for) {
    fleet servers(3);
    test_client client(servers, hasty());
    ending e;
    auto go_on = false, entered = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        entered = true;
        while (!go_on) co_await asio::post(asio::deferred);
        BOOST_TEST(!l.held());
        co_return 5;
    };
    with_lock(client.locks.make_lock("k", {.ttl = 300ms}), body, e.take());
    BOOST_REQUIRE(client.until([&] { return entered; }));
    servers.freeze(3);
    BOOST_TEST(client.until([&] { return client.locks.stats().lost == 1; }));
    for (int i = 0; i < 100; ++i) client.context.run_one();
    BOOST_TEST(!e.done);
    go_on = true;
    BOOST_TEST(client.until([&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    BOOST_TEST(e.value == 0);
}

// A cancelled body may not have finished its work.
BOOST_AUTO_TEST_CASE(a_body_that_was_cancelled_has_lost_also_if_it_ends_with_a_value_in_time) {
    fleet servers(3);
    test_client client(servers, hasty());
    ending e;
    auto entered = false, in_time = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        entered = true;
        auto const signalled = co_await wait_for_signal();
        BOOST_TEST(signalled);
        in_time = l.held();
        co_return 5;
    };
    with_lock(client.locks.make_lock("k", {.ttl = 6s, .cancel_margin = 2s}), body, e.take());
    BOOST_REQUIRE(client.until([&] { return entered; }));
    servers.freeze(3);
    BOOST_REQUIRE(client.until([&] { return e.done; }));
    BOOST_TEST(in_time);
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    BOOST_TEST(e.value == 0);
}

BOOST_AUTO_TEST_CASE(a_bodys_own_error_comes_before_the_loss) {
    fleet servers(3);
    test_client client(servers);
    ending e;
    auto entered = false;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        entered = true;
        co_await wait_for_signal();
        throw no_seats{2};
    };
    with_lock(client.locks.make_lock("k", {.ttl = renewed_ttl}), body, e.take());
    BOOST_REQUIRE(client.until([&] { return entered; }));
    foreign_client(servers).del_if_there("k");
    BOOST_REQUIRE(client.until([&] { return e.done; }));
    BOOST_REQUIRE(e.thrown);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(e.thrown), no_seats,
                          [](no_seats const& n) { return n.left == 2; });
    BOOST_TEST(client.locks.stats().lost == 1U);
    check_nothing_left(client, servers);
}

// The same holds if the body ends with the error of its awaited operation: errc::cancelled from the
// library, operation_aborted from Asio.
BOOST_AUTO_TEST_CASE(a_cancellation_that_the_loss_has_caused_is_told_as_the_loss) {
    fleet servers(3);
    test_client client(servers), other(servers);
    auto const taken = other.hold("taken");
    auto entered = 0;
    auto const timer = [&](lease&) -> asio::awaitable<int> {
        ++entered;
        asio::steady_timer t(client.context, 60s);
        co_await t.async_wait(asio::deferred);
        co_return 1;
    };
    auto const acquire = [&](lease&) -> asio::awaitable<int> {
        ++entered;
        auto const got = co_await client.locks.make_lock("taken").acquire();
        co_return got ? 1 : 2;
    };
    auto const nested = [&](lease&) {
        return with_lock(client.locks.make_lock("taken"), timer, asio::use_awaitable);
    };
    auto const check = [&](auto const& body, int enters) {
        ending e;
        entered = 0;
        with_lock(client.locks.make_lock("k", {.ttl = renewed_ttl}), body, e.take());
        BOOST_REQUIRE(client.until([&] {
            auto const s = client.locks.stats();
            return entered == enters && s.held == 1 &&
                   (enters == 1 && s.waiters == 0 ? s.pending <= 1 : true);
        }));
        foreign_client(servers).del_if_there("k");
        BOOST_REQUIRE(client.until([&] { return e.done; }));
        BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    };
    check(timer, 1);
    check(acquire, 1);
    check(nested, 0);
}

BOOST_AUTO_TEST_CASE(a_loss_that_only_the_release_finds_is_told) {
    fleet servers(3);
    test_client client(servers);
    for (std::size_t const gone : {1U, 2U, 3U}) {
        run(client.context, [&]() -> asio::awaitable<void> {
            auto& locks = client.locks;
            std::optional<error_code> code;
            try {
                co_await with_lock(locks.make_lock("k", {.ttl = 60s, .watchdog = false}),
                                   [&](lease& l) -> asio::awaitable<int> {
                                       co_await asio::post(asio::deferred);
                                       // Waits until all instances have the key. So none gets it
                                       // after the deletion.
                                       for (server& instance : servers) {
                                           redis_cli cli(instance);
                                           while (!cli.exists("k"))
                                               co_await asio::post(asio::deferred);
                                       }
                                       for (std::size_t i = 0; i < gone; ++i)
                                           BOOST_TEST(redis_cli(servers[i]).del("k"));
                                       BOOST_TEST(l.held());
                                       co_return 1;
                                   });
                code.emplace();
            } catch (system_error const& e) {
                code = e.code();
            }
            BOOST_TEST((*code == (gone >= 2 ? make_error_code(errc::lease_lost) : error_code())),
                       code->message());
        });
        check_nothing_left(client, servers);
    }
}

// The keys expire by themselves, and no other client had the lock.
BOOST_AUTO_TEST_CASE(a_release_that_a_quorum_does_not_confirm_is_no_error) {
    fleet servers(3);
    test_client client(servers, hasty());
    ending e;
    with_lock(
        client.locks.make_lock("k", long_lived),
        [&](lease&) -> asio::awaitable<int> {
            servers.freeze(2);
            co_return 3;
        },
        e.take());
    BOOST_REQUIRE(client.until([&] { return e.done; }));
    BOOST_TEST(!e.code(), e.code().message());
    BOOST_TEST(e.value == 3);
    servers.thaw_all();
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_shutdown_cancels_a_body_and_waits_for_none) {
    fleet servers(3);
    test_client client(servers);
    ending e;
    auto go_on = false, signalled = false, shut = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        signalled = co_await wait_for_signal();
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        BOOST_TEST(!l.held());
        while (!go_on) co_await asio::post(asio::deferred);
        co_return 1;
    };
    with_lock(client.locks.make_lock("k", long_lived), body, e.take());
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().held == 1; }));
    client.locks.shutdown([&](error) { shut = true; });
    BOOST_TEST(client.until([&] { return shut && signalled; }));
    BOOST_TEST(!e.done);
    check_nothing_left(servers);
    go_on = true;
    BOOST_TEST(client.until([&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
}

// The section owns the state that it needs.
BOOST_AUTO_TEST_CASE(a_client_that_goes_during_a_section_ends_it_in_order) {
    fleet servers(3);
    asio::io_context context;
    frames f;
    ending e;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        in_frame const here(f);
        BOOST_TEST(co_await wait_for_signal());
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await clean_up();
        BOOST_TEST(!l.held());
        co_return 1;
    };
    {
        client locks(context.get_executor(), addresses_of(servers), patient());
        with_lock(locks.make_lock("k", long_lived), body, e.take());
        BOOST_REQUIRE(run_until(context, [&] { return f.inside(); }));
    }
    BOOST_TEST(run_until(context, [&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    check_nothing_left(servers);
}

//
// Bodies and their lease
//

BOOST_AUTO_TEST_CASE(a_body_may_release_early_and_go_on) {
    fleet servers(3);
    test_client client(servers), other(servers);
    for (auto const goes_on : {true, false}) {
        ending e;
        auto const body = [&, goes_on](lease& l) -> asio::awaitable<int> {
            auto const released = co_await l.release();
            BOOST_TEST(released.confirmed());
            if (!goes_on) co_return 4;
            auto next = other.hold("k");
            for (int i = 0; i < 20; ++i) co_await asio::post(asio::deferred);
            BOOST_TEST(other.releases(next));
            co_return 4;
        };
        with_lock(client.locks.make_lock("k", long_lived), body, e.take());
        BOOST_REQUIRE(client.until([&] { return e.done; }));
        BOOST_TEST(!e.code(), e.code().message());
        BOOST_TEST(e.value == 4);
    }
    client.runs_with(other);
    check_nothing_left(client, servers);
}

// The lease is handed over within the process, without a round to the servers.
BOOST_AUTO_TEST_CASE(a_body_may_release_early_to_a_waiter) {
    fleet servers(3);
    test_client client(servers);
    ending first, second;
    auto const early = [&](lease& l) -> asio::awaitable<int> {
        while (client.locks.stats().waiters == 0) co_await asio::post(asio::deferred);
        co_await l.release();
        co_return 1;
    };
    auto const last = [&](lease& l) -> asio::awaitable<int> { co_return l.held() ? 2 : -1; };
    with_lock(client.locks.make_lock("k", {.ttl = 60s, .handover_time = 60s}), early, first.take());
    with_lock(client.locks.make_lock("k", {.ttl = 60s, .handover_time = 60s}), last, second.take());
    BOOST_REQUIRE(client.until([&] { return first.done && second.done; }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST(!first.code(), first.code().message());
    BOOST_TEST(first.value == 1);
    BOOST_TEST(!second.code(), second.code().message());
    BOOST_TEST(second.value == 2);
}

BOOST_AUTO_TEST_CASE(a_body_may_take_its_lease_along) {
    fleet servers(3);
    test_client client(servers);
    lease taken;
    ending e;
    with_lock(
        client.locks.make_lock("k", long_lived),
        [&](lease& l) -> asio::awaitable<int> {
            taken = std::move(l);
            co_return 4;
        },
        e.take());
    BOOST_REQUIRE(client.until([&] { return e.done; }));
    BOOST_TEST(!e.code(), e.code().message());
    BOOST_TEST(e.value == 4);
    BOOST_TEST(taken.held());
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(client.releases(taken));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_body_may_share_its_lease_with_what_outlives_it) {
    fleet servers(3);
    test_client client(servers);
    // The body may or may not have released its own share.
    for (auto const releases : {false, true}) {
        BOOST_TEST_CONTEXT("releases " << releases) {
            lease shared;
            ending e;
            auto const body = [&, releases](lease& l) -> asio::awaitable<int> {
                shared = l.share();
                co_await asio::post(asio::deferred);
                if (releases) {
                    auto const released = co_await l.release();
                    BOOST_TEST(released.confirmed());
                    BOOST_TEST(!l.held());
                }
                co_return 4;
            };
            with_lock(client.locks.make_lock("k", long_lived), body, e.take());
            BOOST_REQUIRE(client.until([&] { return e.done; }));
            BOOST_TEST(!e.code(), e.code().message());
            BOOST_TEST(e.value == 4);
            BOOST_TEST(shared.held());
            BOOST_TEST(client.sees(servers, "k", true));
            BOOST_TEST(client.releases(shared));
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
    check_nothing_left(client, servers);
}

// The body may obey the cancellation or ignore it.
BOOST_AUTO_TEST_CASE(a_body_that_its_caller_cancels_ends_as_it_likes) {
    fleet servers(3);
    test_client client(servers);
    for (auto const obeys : {true, false}) {
        trial t(servers, patient());
        auto const body = [&, obeys](lease& l) -> asio::awaitable<int> {
            in_frame const here(t.bodies);
            auto const signalled = co_await wait_for_signal();
            BOOST_TEST(signalled);
            BOOST_TEST(l.held());
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            co_await clean_up();
            BOOST_TEST(l.held());
            BOOST_TEST(is_held(servers));
            if (obeys) throw system_error(asio::error::operation_aborted);
            co_return 8;
        };
        t.start(long_lived, body);
        BOOST_REQUIRE(run_until(t.context, [&] { return t.bodies.inside(); }));
        t.signal.emit(asio::cancellation_type::terminal);
        BOOST_REQUIRE(t.ends());
        BOOST_TEST(t.bodies.left == 1);
        BOOST_TEST(given_back(servers));
        if (obeys) {
            BOOST_TEST((t.end.code() == asio::error::operation_aborted), t.end.code().message());
        } else {
            BOOST_TEST(!t.end.code(), t.end.code().message());
            BOOST_TEST(t.end.value == 8);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_timeout_of_the_caller_ends_the_body_and_gives_back) {
    fleet servers(3);
    test_client client(servers);
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        auto signalled = false;
        auto const body = [&](lease&) -> asio::awaitable<int> {
            signalled = co_await wait_for_signal();
            throw system_error(asio::error::operation_aborted);
        };
        auto const token = asio::cancel_after(100ms, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
        BOOST_TEST(signalled);
        BOOST_TEST(is_cancellation(code_of(thrown)));
        BOOST_TEST(value == 0);
        BOOST_TEST(given_back(servers));
    });
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_time_limit_has_one_code_for_waits_and_bodies) {
    fleet servers(3);
    test_client client(servers);
    test_client other(servers);
    auto theirs = other.hold("held elsewhere");
    auto ours = client.hold("held here");
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        asio::steady_timer never(co_await asio::this_coro::executor, 1h);
        auto const waits = [&](lease&) -> asio::awaitable<int> {
            co_await never.async_wait();
            co_return 1;
        };
        auto const nests = [&](lease&) -> asio::awaitable<int> {
            auto const inner = co_await locks.make_lock("held here", long_lived).acquire();
            co_return 1;
        };
        auto const token = asio::cancel_after(50ms, asio::as_tuple);
        auto const at_once = asio::cancel_at(std::chrono::steady_clock::now(), asio::as_tuple);
        std::vector<error_code> codes;
        auto [elsewhere, a] =
            co_await with_lock(locks.make_lock("held elsewhere", long_lived), waits, token);
        codes.push_back(code_of(elsewhere));
        auto [here, b] = co_await with_lock(locks.make_lock("held here", long_lived), waits, token);
        codes.push_back(code_of(here));
        auto [body, c] = co_await with_lock(locks.make_lock("free", long_lived), waits, token);
        codes.push_back(code_of(body));
        auto [nested, d] = co_await with_lock(locks.make_lock("free", long_lived), nests, token);
        codes.push_back(code_of(nested));
        auto [first, e] = co_await with_lock(locks.make_lock("free", long_lived), waits, at_once);
        codes.push_back(code_of(first));
        for (auto const& code : codes) {
            BOOST_TEST((code == errc::cancelled), code.message());
            BOOST_TEST((code == asio::error::operation_aborted), code.message());
            BOOST_TEST((code == codes.front()), code.message());
        }
    });
    BOOST_TEST(other.releases(theirs));
    BOOST_TEST(client.releases(ours));
}

BOOST_AUTO_TEST_SUITE_END()
