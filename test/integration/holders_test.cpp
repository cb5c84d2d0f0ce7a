// Limits set by holders: the longest time of a lease, and renewal on condition.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Returns true if the body still held the lock when it was cancelled.
bool check_section_with_limit(std::chrono::milliseconds cancel_margin) {
    fleet servers(3);
    test_client client(servers);
    auto signalled = false, held = false, done = false;
    std::exception_ptr thrown;
    auto const body = [&](lease& l) -> asio::awaitable<void> {
        auto const quietly = asio::as_tuple(asio::deferred);
        auto const hold_on = client.locks.make_lock("other");
        auto const first = co_await hold_on.acquire(quietly);
        auto const second = co_await hold_on.acquire(quietly);
        auto const& failure = std::get<0>(second);
        signalled = failure == errc::cancelled;
        held = l.held();
        throw system_error(failure.code());
    };
    with_lock(
        client.locks.make_lock("k", {.ttl = 60s, .max_hold = 1s, .cancel_margin = cancel_margin}),
        body, [&](std::exception_ptr e) {
            thrown = e;
            done = true;
        });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(signalled);
    BOOST_REQUIRE(thrown);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(thrown), system_error,
                          [](system_error const& e) { return e.code() == errc::lease_lost; });
    BOOST_TEST(client.sees(servers, "k", false));
    return held;
}

} // namespace

BOOST_AUTO_TEST_SUITE(holders)

//
// The longest time of a lease
//

BOOST_AUTO_TEST_CASE(a_lease_ends_at_its_limit_at_the_latest) {
    struct setting {
        std::chrono::milliseconds ttl, max_hold;
        bool watchdog;
    };
    for (auto const s : {setting{renewed_ttl, 5s, true}, setting{60s, 400ms, true},
                         setting{60s, 400ms, false}, setting{300ms, 600ms, false}}) {
        BOOST_TEST_CONTEXT("ttl " << s.ttl.count() << ", max_hold " << s.max_hold.count()
                                  << ", watchdog " << s.watchdog) {
            // If the machine stalls, the holder may hear of the loss too late. Then the test tries
            // again.
            auto late = true;
            for (int attempt = 0; attempt < 3 && late; ++attempt) {
                fleet servers(3);
                test_client client(servers);
                auto const asked = lease_clock::now();
                lease held;
                lease_clock::time_point given{};
                client.locks
                    .make_lock("k", {.ttl = s.ttl, .watchdog = s.watchdog, .max_hold = s.max_hold})
                    .acquire([&](error e, lease l) {
                        BOOST_TEST(!e, e.what());
                        given = lease_clock::now();
                        held = std::move(l);
                    });
                BOOST_REQUIRE(client.until([&] { return static_cast<bool>(held); }));
                loss_wait w;
                w.start(held);
                auto beyond = 0;
                BOOST_TEST(client.until([&] {
                    if (held.deadline() > given + s.max_hold) ++beyond;
                    return w.done;
                }));
                BOOST_TEST(w.how == lease_end::expired);
                BOOST_TEST(beyond == 0);
                late = w.when > given + s.max_hold;
                if (s.watchdog || s.max_hold < s.ttl) {
                    // The holder hears of the end no earlier than the margin allows.
                    BOOST_TEST((w.deadline >= asked + s.max_hold));
                    BOOST_TEST((w.when >= asked + s.max_hold - loss_margin(s.ttl)));
                }
                BOOST_TEST(!held.held());
                BOOST_TEST((client.release(held) == errc::lease_lost));
                BOOST_TEST(client.locks.stats().lost == 1U);
                BOOST_TEST(client.locks.stats().held == 0U);
                BOOST_TEST(client.sees(servers, "k", false));
            }
            BOOST_TEST(!late);
        }
    }
}

BOOST_AUTO_TEST_CASE(no_extension_passes_the_limit) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k", {.ttl = 4s, .watchdog = false, .max_hold = 6s});
    auto const given = lease_clock::now();
    auto const first = held.deadline();
    loss_wait w;
    w.start(held);
    client.pass(first - 1000ms); // an extension by 4 s would exceed the limit
    BOOST_TEST(!client.extend(held));
    auto const limit = held.deadline();
    BOOST_TEST((limit > first));
    BOOST_TEST((limit <= given + 6s));
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(!client.extend(held));
        BOOST_TEST((held.deadline() == limit));
    }
    BOOST_TEST(client.until([&] { return w.done; }));
    BOOST_TEST(w.how == lease_end::expired);
    BOOST_TEST((held.deadline() == limit));
    BOOST_TEST((client.extend(held) == errc::lease_lost));
}

BOOST_AUTO_TEST_CASE(a_waiter_gets_the_lock_at_the_limit) {
    fleet servers(3);
    test_client client(servers), other(servers);
    for (auto const handover : {0ms, 60'000ms}) {
        BOOST_TEST_CONTEXT("handover_time " << handover.count()) {
            lock_options const options{.ttl = 60s, .max_hold = 2s, .handover_time = handover};
            auto stuck = client.hold("k", options);
            auto const first = stuck.deadline();
            std::optional<lease> next;
            client.locks.make_lock("k", options).acquire([&](error e, lease l) {
                BOOST_TEST(!e, e.what());
                next = std::move(l);
            });
            BOOST_TEST(client.until([&] { return next.has_value(); }));
            BOOST_TEST(!stuck.held());
            BOOST_TEST(next->held());
            // The limit counts from the hand-over.
            BOOST_TEST((next->deadline() >= first + options.max_hold - loss_margin(options.ttl)));
            BOOST_TEST(client.locks.stats().handovers == (handover > 0ms ? 1U : 0U));
            BOOST_TEST((client.release(stuck) == errc::lease_lost));
            BOOST_TEST(next->held());
            // After the limit the key is gone, so another process gets the lock.
            lease got;
            auto const asked = other.locks.make_lock("k", long_lived);
            asked.acquire([&](error e, lease l) {
                BOOST_TEST(!e, e.what());
                got = std::move(l);
            });
            BOOST_TEST(other.until([&] { return other.locks.stats().waiters == 1; }));
            BOOST_TEST(!got);
            loss_wait w;
            w.start(*next);
            BOOST_TEST(client.until([&] { return w.done; }));
            BOOST_TEST(w.how == lease_end::expired);
            BOOST_TEST(!next->held());
            BOOST_TEST(client.sees(servers, "k", false));
            BOOST_TEST(other.until([&] { return got.held(); }));
            BOOST_TEST(other.releases(got));
        }
    }
}

// The event loop does not run at the limit, nor for twice the margin after that.
BOOST_AUTO_TEST_CASE(a_limit_that_is_seen_late_hands_the_lock_over_too) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    lock_options const options{.ttl = 60s, .max_hold = 2s, .handover_time = 60s};
    auto stuck = client.hold("k", options);
    std::optional<lease> next;
    client.locks.make_lock("k", long_lived).acquire([&](error e, lease l) {
        BOOST_TEST(!e, e.what());
        next = std::move(l);
    });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_REQUIRE(wait_until([&] { return lease_clock::now() > stuck.deadline() + 100ms; }));
    BOOST_REQUIRE(client.until([&] { return next.has_value(); }));
    BOOST_TEST(next->held());
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST((client.release(stuck) == errc::lease_lost));
    BOOST_TEST(client.releases(*next));
}

BOOST_AUTO_TEST_CASE(a_section_ends_at_the_limit) {
    // The default margin is a tenth of the limit, not of the ttl.
    for (auto const cancel_margin : {500ms, -1ms}) {
        // If the machine stalls for the whole margin, the test tries again.
        auto in_time = false;
        for (int attempt = 0; attempt < 3 && !in_time; ++attempt)
            in_time = check_section_with_limit(cancel_margin);
        BOOST_TEST(in_time, "the body heard of the limit after it");
    }
}

BOOST_AUTO_TEST_CASE(a_limit_out_of_its_range_is_rejected) {
    fleet servers(1);
    test_client client(servers);
    for (auto const bad : {-1ms, 1ms, 9ms}) {
        BOOST_CHECK_EXCEPTION(client.locks.make_lock("k", {.max_hold = bad}), system_error,
                              [](system_error const& e) {
                                  return e.code() == errc::invalid_options &&
                                         std::string(e.what()).find("max_hold") !=
                                             std::string::npos;
                              });
    }
    BOOST_CHECK_NO_THROW((void)client.locks.make_lock("k", {.max_hold = 10ms}));
}

//
// Renewal on condition
//

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_for_as_long_as_its_holder_says_so) {
    constexpr auto ttl = renewed_ttl;
    fleet servers(3);
    test_client client(servers);
    for (auto const throws : {false, true}) {
        BOOST_TEST_CONTEXT("throws " << throws) {
            auto held = client.hold("k", {.ttl = ttl});
            auto asked = 0, refused = 0;
            auto wanted = true;
            held.extend_while([&] {
                ++asked;
                if (wanted) return true;
                ++refused;
                if (throws) throw std::runtime_error("stuck");
                return false;
            });
            loss_wait w;
            w.start(held);
            auto const before = client.locks.stats().extended;
            BOOST_TEST(client.renews(9)); // this takes several ttls
            BOOST_TEST(held.held());
            BOOST_TEST(asked >= 8);
            BOOST_TEST(static_cast<std::uint64_t>(asked) <=
                       client.locks.stats().extended - before + 1);
            wanted = false;
            BOOST_TEST(client.until([&] { return refused == 1; }));
            BOOST_TEST(held.held()); // the lease is held until its deadline
            auto const deadline = held.deadline();
            auto const renewals = client.locks.stats().extended;
            BOOST_TEST(client.until([&] { return w.done; }));
            BOOST_TEST(w.how == lease_end::expired);
            BOOST_TEST(refused == 1);
            BOOST_TEST((held.deadline() == deadline));
            BOOST_TEST((w.when >= deadline - loss_margin(ttl)));
            BOOST_TEST(client.locks.stats().extended == renewals);
            BOOST_TEST((client.release(held) == errc::lease_lost));
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_predicate_of_a_holder_is_not_asked_for_the_next) {
    fleet servers(3);
    test_client client(servers);
    lock_options const options{.ttl = renewed_ttl, .handover_time = 60s};
    auto held = client.hold("k", options);
    auto asked = 0;
    held.extend_while([&] {
        ++asked;
        return false;
    });
    std::optional<lease> next;
    client.locks.make_lock("k", options).acquire([&](error, lease l) { next = std::move(l); });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_TEST(client.until([&] { return asked == 1; }));
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return next.has_value(); }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST(client.renews(6));
    BOOST_TEST(next->held());
    BOOST_TEST(asked == 1);
    BOOST_TEST(client.releases(*next));
}

BOOST_AUTO_TEST_CASE(the_predicate_of_a_renewal_is_destroyed_with_the_lease) {
    fleet servers(3);
    auto const mark = std::make_shared<int>();
    auto const wanted = [mark] { return true; };
    constexpr long ours = 2; // mark and wanted
    BOOST_TEST(mark.use_count() == ours);
    {
        test_client client(servers);
        {
            auto held = client.hold("destroyed");
            held.extend_while(wanted);
            client.context.poll();
            BOOST_TEST(mark.use_count() == ours + 1);
            held.extend_while(wanted); // replaces the earlier predicate
            client.context.restart();
            client.context.poll();
            BOOST_TEST(mark.use_count() == ours + 1);
        }
        BOOST_TEST(client.until([&] { return mark.use_count() == ours; }));
        {
            auto held = client.hold("released");
            held.extend_while(wanted);
            BOOST_TEST(client.releases(held));
            held.extend_while(wanted); // the lease is released, so this has no effect
        }
        BOOST_TEST(client.until([&] { return mark.use_count() == ours; }));
        {
            auto held = client.hold("lost", {.ttl = 300ms, .watchdog = false});
            held.extend_while(wanted);
            loss_wait w;
            w.start(held);
            BOOST_TEST(client.until([&] { return w.lost(); }));
            held.extend_while(wanted);
        }
        BOOST_TEST(client.until([&] { return mark.use_count() == ours; }));
        // The lease is destroyed before the client has stored the predicate.
        {
            auto held = client.hold("at once");
            held.extend_while(wanted);
        }
        BOOST_TEST(client.until([&] { return mark.use_count() == ours; }));
        lease empty;
        BOOST_TEST(throws_released([&] { empty.extend_while(wanted); }));
        BOOST_TEST(mark.use_count() == ours);
    }
    // The context destroys the predicate, whether or not the client has stored it, and whether or
    // not the lease is destroyed first.
    for (auto const looked_at : {true, false}) {
        for (auto const within : {true, false}) {
            BOOST_TEST_CONTEXT("looked at " << looked_at << ", within " << within) {
                {
                    test_client client(servers);
                    auto held =
                        client.hold("k" + std::to_string(looked_at) + std::to_string(within));
                    held.extend_while(wanted);
                    if (looked_at) client.context.poll();
                    if (within) asio::post(client.context, [l = std::move(held)] {});
                }
                BOOST_TEST(mark.use_count() == ours);
            }
        }
    }
    for (server& instance : servers) redis_cli(instance).flush();
}

// The predicate owns a lock, which refers to the client, which owns the predicate.
BOOST_AUTO_TEST_CASE(a_predicate_of_a_renewal_that_holds_a_lock_is_destroyed_with_the_lease) {
    fleet servers(1);
    auto const mark = std::make_shared<int>();
    for (auto const within : {false, true}) {
        for (auto const shuts_down : {false, true}) {
            BOOST_TEST_CONTEXT("within the context " << within << ", shut down " << shuts_down) {
                {
                    test_client client(servers);
                    auto held =
                        client.hold("k" + std::to_string(within) + std::to_string(shuts_down));
                    auto const key = client.locks.make_lock("other");
                    held.extend_while([mark, key] { return !key.key().empty(); });
                    client.context.poll();
                    if (shuts_down) {
                        auto shut = false;
                        client.locks.shutdown([&](error) { shut = true; });
                        BOOST_TEST(client.until([&] { return shut; }));
                        client.context.restart();
                    }
                    if (within) asio::post(client.context, [l = std::move(held)] {});
                }
                BOOST_TEST(mark.use_count() == 1);
            }
        }
    }
    redis_cli(servers[0]).flush();
}

BOOST_AUTO_TEST_SUITE_END()
