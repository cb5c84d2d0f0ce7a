// What holders may do with a lease: share it, limit it, let it end; and how they learn that it
// ends, in time, also when there are many of them, or when they were stopped.
#include "protocol/rules.hpp"

#include "integration/child.hpp"
#include "integration/party.hpp"
#include "integration/wires.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

#ifdef HOLDFAST_TEST_SANITIZED
// A sanitizer makes the telling itself slower than the margin is long.
constexpr std::array<std::size_t, 2> crowds{1, 30};
#else
constexpr std::array<std::size_t, 3> crowds{1, 100, 10'000};
#endif

// How long before its deadline a loss may be told, with what is due together.
lease_clock::duration margin(std::chrono::milliseconds ttl) {
    return protocol::loss_margin(ttl) + 2ms;
}

// A lost() under way.
struct watch {
    // The handler keeps a pointer to this.
    auto take(lease& held) {
        return [this, &held](error e) {
            when = lease_clock::now();
            holds = held.held();
            deadline = held.deadline();
            how = std::move(e);
            done = true;
        };
    }
    void start(lease& held) {
        held.wait_lost(asio::bind_cancellation_slot(signal.slot(), take(held)));
    }
    void start(lease& held, std::chrono::nanoseconds ahead) {
        held.wait_lost(ahead, asio::bind_cancellation_slot(signal.slot(), take(held)));
    }
    bool told() const { return done && !how; }

    asio::cancellation_signal signal;
    bool done = false;
    error how;
    bool holds = false;
    lease_clock::time_point when{}, deadline{};
};

bool throws_released(std::function<void()> const& call) {
    try {
        call();
    } catch (system_error const& e) {
        return e.code() == errc::lease_released;
    }
    return false;
}

} // namespace

BOOST_AUTO_TEST_SUITE(holders)

//
// Shares
//

BOOST_AUTO_TEST_CASE(a_shared_lease_lasts_until_the_last_of_it_is_given_up) {
    fleet servers(3);
    party p(servers, without_questions());
    BOOST_REQUIRE(p.all_up());
    std::array<std::size_t, 3> order{0, 1, 2};
    do {
        // Each of them by release(), or by its destruction.
        for (unsigned how = 0; how < 8; ++how) {
            BOOST_TEST_CONTEXT("order " << order[0] << order[1] << order[2] << ", how " << how) {
                std::vector<lease> all;
                all.push_back(p.hold("k"));
                all.push_back(all[0].share());
                all.push_back(all[1].share()); // a share of a share
                BOOST_REQUIRE(p.sees(servers, "k", true));
                auto const deadline = all[0].deadline();
                auto const before = p.locks.stats();
                for (std::size_t i = 0; i < all.size(); ++i) {
                    auto& one = all[order[i]];
                    BOOST_TEST(one.held());
                    BOOST_TEST((one.deadline() == deadline));
                    BOOST_TEST(one.key() == "k");
                    auto const last = i + 1 == all.size();
                    if ((how >> order[i] & 1U) == 0) {
                        auto done = false;
                        release_result result(errc::no_quorum);
                        one.release([&](release_result r) {
                            result = r;
                            done = true;
                        });
                        BOOST_TEST(!done); // never inside the call
                        BOOST_REQUIRE(p.until([&] { return done; }));
                        BOOST_TEST(static_cast<bool>(result), result.code().message());
                        BOOST_TEST(!one.held());
                        BOOST_TEST((one.remaining() == 0s));
                        BOOST_TEST((p.release(one) == errc::lease_released));
                        BOOST_TEST(throws_released([&] { (void)one.share(); }));
                    } else {
                        one = lease();
                        p.context.poll();
                    }
                    if (last) break;
                    for (std::size_t rest = i + 1; rest < all.size(); ++rest) {
                        BOOST_TEST(all[order[rest]].held());
                        BOOST_TEST((all[order[rest]].remaining() > 0s));
                    }
                    BOOST_TEST(p.locks.stats().held == 1U);
                    BOOST_TEST(p.locks.stats().commands == before.commands);
                    BOOST_TEST(copies(servers, "k") == servers.size());
                }
                BOOST_TEST(p.sees(servers, "k", false));
                BOOST_TEST(
                    p.until([&] { return p.locks.stats().released == before.released + 1; }));
                BOOST_TEST(p.locks.stats().held == 0U);
                BOOST_TEST(p.locks.stats().lost == 0U);
            }
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(there_is_nothing_to_share_of_a_lease_that_is_over) {
    fleet servers(1);
    party p(servers);
    lease empty;
    BOOST_TEST(throws_released([&] { (void)empty.share(); }));
    auto held = p.hold("k");
    lease const moved = std::move(held);
    BOOST_TEST(throws_released([&] { (void)held.share(); }));
    BOOST_TEST(moved.held());
    auto released = p.hold("other");
    BOOST_TEST(p.releases(released));
    BOOST_TEST(throws_released([&] { (void)released.share(); }));
    auto shared = p.hold("third");
    auto share = shared.share();
    BOOST_TEST(p.releases(share));
    BOOST_TEST(throws_released([&] { (void)share.share(); }));
    BOOST_TEST(shared.held());
}

BOOST_AUTO_TEST_CASE(a_share_that_is_replaced_or_moved_gives_up_its_own_part_alone) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    auto first = held.share();
    auto second = held.share();
    first = std::move(second);
    BOOST_TEST(first.held());
    BOOST_TEST(!second);
    auto another = p.hold("other");
    held = std::move(another);
    BOOST_TEST(held.key() == "other");
    BOOST_TEST(first.held());
    BOOST_TEST(p.sees(servers, "k", true));
    first = lease();
    BOOST_TEST(p.sees(servers, "k", false));
    BOOST_TEST(held.held());
    BOOST_TEST(p.releases(held));
}

BOOST_AUTO_TEST_CASE(what_concerns_the_lease_concerns_all_who_share_it) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", {.ttl = 60s, .watchdog = false});
    auto share = held.share();
    auto const before = held.deadline();
    BOOST_TEST(!p.extend(share));
    BOOST_TEST((held.deadline() > before));
    BOOST_TEST((held.deadline() == share.deadline()));
    watch of_held, of_share;
    of_held.start(held);
    of_share.start(share);
    // Its holder gives up, and the lease goes on.
    BOOST_TEST(p.releases(held));
    BOOST_TEST(!p.extend(share));
    BOOST_TEST(!of_held.done);
    BOOST_TEST(!of_share.done);
    BOOST_TEST(p.releases(share));
    BOOST_TEST(p.until([&] { return of_held.done && of_share.done; }));
    BOOST_TEST((of_held.how == errc::lease_released), of_held.how.what());
    BOOST_TEST((of_share.how == errc::lease_released), of_share.how.what());
}

BOOST_AUTO_TEST_CASE(a_loss_is_told_to_all_who_share) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", {.ttl = 1s});
    auto share = held.share();
    auto third = share.share();
    watch w[3];
    w[0].start(held);
    w[1].start(share);
    w[2].start(third);
    for (server& one : servers) redis_cli(one).del("k");
    BOOST_TEST(p.until([&] { return w[0].told() && w[1].told() && w[2].told(); }));
    for (auto* const one : {&held, &share, &third}) {
        BOOST_TEST(!one->held());
        auto const released = p.release(*one);
        BOOST_TEST((released == errc::lease_lost), released.code().message());
    }
    BOOST_TEST(p.locks.stats().lost == 1U);
}

BOOST_AUTO_TEST_CASE(a_waiter_gets_the_lock_when_the_last_share_goes) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    auto share = held.share();
    lease next;
    p.locks.make_lock("k", long_lived).acquire([&](error e, lease l) {
        if (!e) next = std::move(l);
    });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    BOOST_TEST(p.releases(held));
    for (int i = 0; i < 10; ++i) {
        asio::post(p.context, [] {});
        p.context.restart();
        p.context.poll();
    }
    BOOST_TEST(!next);
    share = lease();
    BOOST_TEST(p.until([&] { return next.held(); }));
    BOOST_TEST(p.releases(next));
}

BOOST_AUTO_TEST_CASE(shares_belong_to_threads_of_their_own) {
    constexpr int threads = 4, rounds = 300;
    fleet servers(3);
    asio::thread_pool pool(2);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        for (int attempt = 0; attempt < 5; ++attempt) {
            auto held = locks.make_lock("k", long_lived).acquire(asio::use_future).get();
            std::atomic<int> wrong{0};
            std::vector<std::thread> all;
            for (int t = 0; t < threads; ++t) {
                all.emplace_back([&wrong, t, mine = held.share()]() mutable {
                    for (int i = 0; i < rounds; ++i) {
                        auto another = mine.share();
                        if (!another.held() || !mine.held()) ++wrong;
                        if ((i + t) % 2 == 0 && !another.release(asio::use_future).get()) ++wrong;
                        if (i % 3 == 0) {
                            mine = std::move(another); // may be over
                            if (!mine.held()) return;
                        }
                    }
                });
            }
            auto const released = held.release(asio::use_future);
            for (auto& one : all) one.join();
            BOOST_TEST(wrong == 0);
            // All have gone.
            BOOST_TEST(wait_until([&] { return locks.stats().held == 0; }));
            BOOST_TEST(wait_until([&] { return copies(servers, "k") == 0; }));
            // The servers' answers may be on their way yet.
            auto const releases = static_cast<unsigned>(attempt) + 1;
            BOOST_TEST(wait_until([&] { return locks.stats().released >= releases; }));
        }
        BOOST_TEST(locks.stats().released == 5U);
        locks.shutdown(asio::use_future).get();
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(shares_may_outlive_the_client_and_go_with_the_context) {
    fleet servers(1);
    for (auto const runs : {true, false}) {
        asio::io_context context;
        lease held, share, another;
        {
            client locks(context.get_executor(), addresses_of(servers), patient());
            locks.make_lock("k").acquire([&](error, lease l) { held = std::move(l); });
            BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
            share = held.share();
            another = share.share();
        }
        if (runs) {
            BOOST_TEST(run_until(context, [&] { return !share.held(); }));
            BOOST_TEST(!another.held());
        }
        auto released = 0;
        share.release([&](release_result) { ++released; });
        asio::post(context, [l = std::move(another)] {});
        held = lease();
        if (!runs) continue;
        BOOST_TEST(run_until(context, [&] { return released == 1; }));
        context.restart();
        context.run_for(10s);
        BOOST_TEST(context.stopped());
    }
    redis_cli(servers[0]).flush();
}

//
// The longest that a lease may last
//

BOOST_AUTO_TEST_CASE(a_lease_ends_at_its_limit_at_the_latest) {
    struct setting {
        std::chrono::milliseconds ttl, max_hold;
        bool watchdog;
    };
    for (auto const s : {setting{900ms, 2s, true}, setting{60s, 400ms, true},
                         setting{60s, 400ms, false}, setting{300ms, 600ms, false}}) {
        BOOST_TEST_CONTEXT("ttl " << s.ttl.count() << ", max_hold " << s.max_hold.count()
                                  << ", watchdog " << s.watchdog) {
            // A machine that stalls can make the telling late; what is late once is tried again.
            auto late = true;
            for (int attempt = 0; attempt < 3 && late; ++attempt) {
                fleet servers(3);
                party p(servers);
                auto const asked = lease_clock::now();
                lease held;
                lease_clock::time_point given{};
                p.locks
                    .make_lock("k", {.ttl = s.ttl, .watchdog = s.watchdog, .max_hold = s.max_hold})
                    .acquire([&](error e, lease l) {
                        BOOST_TEST(!e, e.what());
                        given = lease_clock::now();
                        held = std::move(l);
                    });
                BOOST_REQUIRE(p.until([&] { return static_cast<bool>(held); }));
                watch w;
                w.start(held);
                auto beyond = 0;
                BOOST_TEST(p.until([&] {
                    if (held.deadline() > given + s.max_hold) ++beyond;
                    return w.done;
                }));
                BOOST_TEST(w.told());
                BOOST_TEST(beyond == 0);
                late = w.when > given + s.max_hold;
                if (s.watchdog || s.max_hold < s.ttl) {
                    // Nor earlier, but for what is told in time.
                    BOOST_TEST((w.deadline >= asked + s.max_hold));
                    BOOST_TEST((w.when >= asked + s.max_hold - margin(s.ttl)));
                }
                BOOST_TEST(!held.held());
                BOOST_TEST((p.release(held) == errc::lease_lost));
                BOOST_TEST(p.locks.stats().lost == 1U);
                BOOST_TEST(p.locks.stats().held == 0U);
                BOOST_TEST(p.sees(servers, "k", false));
            }
            BOOST_TEST(!late);
        }
    }
}

BOOST_AUTO_TEST_CASE(no_extension_passes_the_limit) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", {.ttl = 2s, .watchdog = false, .max_hold = 3s});
    auto const given = lease_clock::now();
    auto const first = held.deadline();
    watch w;
    w.start(held);
    p.pass(first - 900ms); // another two seconds would be too much
    BOOST_TEST(!p.extend(held));
    auto const limit = held.deadline();
    BOOST_TEST((limit > first));
    BOOST_TEST((limit <= given + 3s));
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(!p.extend(held));
        BOOST_TEST((held.deadline() == limit));
    }
    BOOST_TEST(p.until([&] { return w.told(); }));
    BOOST_TEST((held.deadline() == limit));
    BOOST_TEST((p.extend(held) == errc::lease_lost));
}

BOOST_AUTO_TEST_CASE(whoever_waits_gets_the_lock_at_the_limit) {
    fleet servers(3);
    party p(servers), other(servers);
    for (auto const handoff : {0ms, 60'000ms}) {
        BOOST_TEST_CONTEXT("handoff_time " << handoff.count()) {
            lock_options const options{.ttl = 60s, .max_hold = 900ms, .handoff_time = handoff};
            auto stuck = p.hold("k", options);
            auto const first = stuck.deadline();
            std::optional<lease> next;
            p.locks.make_lock("k", options).acquire([&](error e, lease l) {
                BOOST_TEST(!e, e.what());
                next = std::move(l);
            });
            BOOST_TEST(p.until([&] { return next.has_value(); }));
            BOOST_TEST(!stuck.held());
            BOOST_TEST(next->held());
            // Its time counts from when it was given.
            BOOST_TEST((next->deadline() >= first + options.max_hold - margin(options.ttl)));
            BOOST_TEST(p.locks.stats().handoffs == (handoff > 0ms ? 1U : 0U));
            BOOST_TEST((p.release(stuck) == errc::lease_lost));
            BOOST_TEST(next->held());
            // Another process too, as the key is gone.
            lease got;
            auto const asked = other.locks.make_lock("k", long_lived);
            asked.acquire([&](error e, lease l) {
                BOOST_TEST(!e, e.what());
                got = std::move(l);
            });
            BOOST_TEST(other.until([&] { return other.locks.stats().waiters == 1; }));
            BOOST_TEST(!got);
            watch w;
            w.start(*next);
            BOOST_TEST(p.until([&] { return w.told(); }));
            BOOST_TEST(!next->held());
            BOOST_TEST(p.sees(servers, "k", false));
            BOOST_TEST(other.until([&] { return got.held(); }));
            BOOST_TEST(other.releases(got));
        }
    }
}

void check_section_with_limit(std::chrono::milliseconds cancel_margin) {
    fleet servers(3);
    party p(servers);
    auto signalled = false, held = false, done = false;
    std::exception_ptr thrown;
    auto const body = [&](lease& l) -> asio::awaitable<void> {
        auto const quietly = asio::as_tuple(asio::deferred);
        auto const hold_on = p.locks.make_lock("other");
        auto const first = co_await hold_on.acquire(quietly);
        auto const second = co_await hold_on.acquire(quietly);
        auto const& why = std::get<0>(second);
        signalled = why == errc::cancelled;
        held = l.held();
        throw system_error(why.code());
    };
    with_lock(p.locks.make_lock("k", {.ttl = 60s, .max_hold = 1s, .cancel_margin = cancel_margin}),
              body, [&](std::exception_ptr e) {
                  thrown = e;
                  done = true;
              });
    BOOST_REQUIRE(p.until([&] { return done; }));
    BOOST_TEST(signalled);
    BOOST_TEST(held);
    BOOST_REQUIRE(thrown);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(thrown), system_error,
                          [](system_error const& e) { return e.code() == errc::lease_lost; });
    BOOST_TEST(p.sees(servers, "k", false));
}

// The event loop does not run when the limit comes, nor for twice its margin after that.
BOOST_AUTO_TEST_CASE(a_limit_that_is_seen_late_hands_the_lock_over_too) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    lock_options const options{.ttl = 60s, .max_hold = 500ms, .handoff_time = 60s};
    auto stuck = p.hold("k", options);
    std::optional<lease> next;
    p.locks.make_lock("k", long_lived).acquire([&](error e, lease l) {
        BOOST_TEST(!e, e.what());
        next = std::move(l);
    });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    BOOST_REQUIRE(wait_until([&] { return lease_clock::now() > stuck.deadline() + 100ms; }));
    BOOST_REQUIRE(p.until([&] { return next.has_value(); }));
    BOOST_TEST(next->held());
    BOOST_TEST(p.locks.stats().handoffs == 1U);
    BOOST_TEST((p.release(stuck) == errc::lease_lost));
    BOOST_TEST(p.releases(*next));
}

BOOST_AUTO_TEST_CASE(a_section_ends_at_the_limit) {
    check_section_with_limit(500ms);
    check_section_with_limit(-1ms); // by default: a tenth of the limit, and not of the ttl
}

BOOST_AUTO_TEST_CASE(a_limit_out_of_its_range_is_rejected) {
    fleet servers(1);
    party p(servers);
    for (auto const bad : {-1ms, 1ms, 9ms}) {
        BOOST_CHECK_EXCEPTION(
            p.locks.make_lock("k", {.max_hold = bad}), system_error, [](system_error const& e) {
                return e.code() == errc::invalid_options &&
                       std::string(e.what()).find("max_hold") != std::string::npos;
            });
    }
    BOOST_CHECK_NO_THROW((void)p.locks.make_lock("k", {.max_hold = 10ms}));
}

//
// Renewal for as long as the holder wants it
//

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_for_as_long_as_its_holder_says_so) {
    constexpr auto ttl = 900ms;
    fleet servers(3);
    party p(servers);
    for (auto const throws : {false, true}) {
        BOOST_TEST_CONTEXT("throws " << throws) {
            auto held = p.hold("k", {.ttl = ttl});
            auto asked = 0, refused = 0;
            auto wanted = true;
            held.renew_while([&] {
                ++asked;
                if (wanted) return true;
                ++refused;
                if (throws) throw std::runtime_error("stuck");
                return false;
            });
            watch w;
            w.start(held);
            auto const before = p.locks.stats().renewals;
            BOOST_TEST(p.renews(9)); // several ttls
            BOOST_TEST(held.held());
            BOOST_TEST(asked >= 8);
            BOOST_TEST(static_cast<std::uint64_t>(asked) <= p.locks.stats().renewals - before + 1);
            wanted = false;
            BOOST_TEST(p.until([&] { return refused == 1; }));
            BOOST_TEST(held.held()); // until its deadline
            auto const deadline = held.deadline();
            auto const renewals = p.locks.stats().renewals;
            BOOST_TEST(p.until([&] { return w.told(); }));
            BOOST_TEST(refused == 1);
            BOOST_TEST((held.deadline() == deadline));
            BOOST_TEST((w.when >= deadline - margin(ttl)));
            BOOST_TEST(p.locks.stats().renewals == renewals);
            BOOST_TEST((p.release(held) == errc::lease_lost));
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_next_holder_is_not_asked_by_the_former) {
    fleet servers(3);
    party p(servers);
    lock_options const options{.ttl = 900ms, .handoff_time = 60s};
    auto held = p.hold("k", options);
    auto asked = 0;
    held.renew_while([&] {
        ++asked;
        return false;
    });
    std::optional<lease> next;
    p.locks.make_lock("k", options).acquire([&](error, lease l) { next = std::move(l); });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    BOOST_TEST(p.until([&] { return asked == 1; }));
    BOOST_TEST(p.releases(held));
    BOOST_REQUIRE(p.until([&] { return next.has_value(); }));
    BOOST_TEST(p.locks.stats().handoffs == 1U);
    BOOST_TEST(p.renews(6));
    BOOST_TEST(next->held());
    BOOST_TEST(asked == 1);
    BOOST_TEST(p.releases(*next));
}

BOOST_AUTO_TEST_CASE(what_is_asked_is_let_go_of_with_the_lease) {
    fleet servers(3);
    auto const mark = std::make_shared<int>();
    auto const wanted = [mark] { return true; };
    constexpr long ours = 2; // mark, wanted
    BOOST_TEST(mark.use_count() == ours);
    {
        party p(servers);
        {
            auto held = p.hold("destroyed");
            held.renew_while(wanted);
            p.context.poll();
            BOOST_TEST(mark.use_count() == ours + 1);
            held.renew_while(wanted); // in the place of the other
            p.context.restart();
            p.context.poll();
            BOOST_TEST(mark.use_count() == ours + 1);
        }
        BOOST_TEST(p.until([&] { return mark.use_count() == ours; }));
        {
            auto held = p.hold("released");
            held.renew_while(wanted);
            BOOST_TEST(p.releases(held));
            held.renew_while(wanted); // too late
        }
        BOOST_TEST(p.until([&] { return mark.use_count() == ours; }));
        {
            auto held = p.hold("lost", {.ttl = 300ms, .watchdog = false});
            held.renew_while(wanted);
            watch w;
            w.start(held);
            BOOST_TEST(p.until([&] { return w.told(); }));
            held.renew_while(wanted);
        }
        BOOST_TEST(p.until([&] { return mark.use_count() == ours; }));
        // The lease is destroyed before what was asked for has been looked at.
        {
            auto held = p.hold("at once");
            held.renew_while(wanted);
        }
        BOOST_TEST(p.until([&] { return mark.use_count() == ours; }));
        lease empty;
        BOOST_TEST(throws_released([&] { empty.renew_while(wanted); }));
        BOOST_TEST(mark.use_count() == ours);
    }
    // With the context, looked at or not, before the lease or with it.
    for (auto const looked_at : {true, false}) {
        for (auto const within : {true, false}) {
            BOOST_TEST_CONTEXT("looked at " << looked_at << ", within " << within) {
                {
                    party p(servers);
                    auto held = p.hold("k" + std::to_string(looked_at) + std::to_string(within));
                    held.renew_while(wanted);
                    if (looked_at) p.context.poll();
                    if (within) asio::post(p.context, [l = std::move(held)] {});
                }
                BOOST_TEST(mark.use_count() == ours);
            }
        }
    }
    for (server& one : servers) redis_cli(one).flush();
}

// So it holds what holds it.
BOOST_AUTO_TEST_CASE(what_is_asked_may_hold_a_lock_and_is_let_go_of_all_the_same) {
    fleet servers(1);
    auto const mark = std::make_shared<int>();
    for (auto const within : {false, true}) {
        for (auto const shuts_down : {false, true}) {
            BOOST_TEST_CONTEXT("within the context " << within << ", shut down " << shuts_down) {
                {
                    party p(servers);
                    auto held = p.hold("k" + std::to_string(within) + std::to_string(shuts_down));
                    auto const key = p.locks.make_lock("other");
                    held.renew_while([mark, key] { return !key.key().empty(); });
                    p.context.poll();
                    if (shuts_down) {
                        auto shut = false;
                        p.locks.shutdown([&](error) { shut = true; });
                        BOOST_TEST(p.until([&] { return shut; }));
                        p.context.restart();
                    }
                    if (within) asio::post(p.context, [l = std::move(held)] {});
                }
                BOOST_TEST(mark.use_count() == 1);
            }
        }
    }
    redis_cli(servers[0]).flush();
}

//
// Told ahead
//

BOOST_AUTO_TEST_CASE(a_lease_that_cannot_be_kept_is_told_ahead) {
    fleet servers(3);
    for (auto const ahead : {200ms, 1'000ms}) {
        BOOST_TEST_CONTEXT("ahead " << ahead.count()) {
            party p(servers, hasty());
            auto held = p.hold("k", {.ttl = 4s});
            watch early, plain;
            early.start(held, ahead);
            plain.start(held);
            BOOST_TEST(p.renews(4)); // more than a ttl
            BOOST_TEST(!early.done);
            servers.freeze(2);
            BOOST_TEST(p.until([&] { return early.done; }));
            BOOST_TEST(early.told());
            BOOST_TEST(early.holds);
            BOOST_TEST((early.deadline - early.when <= ahead + 1ms));
            BOOST_TEST(!plain.done);
            BOOST_TEST(p.until([&] { return plain.done; }));
            BOOST_TEST(plain.told());
            BOOST_TEST(!plain.holds);
            servers.thaw_all();
            for (server& one : servers) redis_cli(one).flush();
        }
    }
}

BOOST_AUTO_TEST_CASE(as_long_as_it_is_extended_nothing_is_told_ahead) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("watched", {.ttl = 1200ms});
    watch watched;
    watched.start(held, 200ms);
    BOOST_TEST(p.renews(12)); // four ttls
    BOOST_TEST(!watched.done);
    BOOST_TEST(p.releases(held));
    BOOST_TEST(p.until([&] { return watched.done; }));
    BOOST_TEST((watched.how == errc::lease_released));
    // By hand.
    auto kept = p.hold("by hand", {.ttl = 2s, .watchdog = false});
    watch by_hand;
    by_hand.start(kept, 600ms);
    for (int i = 0; i < 4; ++i) {
        p.pass(kept.deadline() - 1300ms);
        BOOST_REQUIRE(!by_hand.done);
        BOOST_TEST(!p.extend(kept));
    }
    auto const deadline = kept.deadline();
    BOOST_TEST(p.until([&] { return by_hand.done; }));
    BOOST_TEST(by_hand.told());
    BOOST_TEST((by_hand.deadline == deadline));
    BOOST_TEST((by_hand.when >= deadline - 601ms));
    BOOST_TEST(by_hand.holds);
    // It was a warning; the lease goes on if it can.
    BOOST_TEST(!p.extend(kept));
    BOOST_TEST(p.releases(kept));
}

BOOST_AUTO_TEST_CASE(more_than_half_of_the_ttl_ahead_may_tell_before_a_renewal) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", {.ttl = 900ms});
    watch soon, at_once, at_once_too, never;
    soon.start(held, 800ms);
    at_once.start(held, 60s);
    at_once_too.start(held, std::chrono::nanoseconds::max());
    never.start(held, std::chrono::nanoseconds::min());
    BOOST_TEST(p.until([&] { return soon.done && at_once.done && at_once_too.done; }));
    for (auto const* const one : {&soon, &at_once, &at_once_too}) {
        BOOST_TEST(one->told());
        BOOST_TEST(one->holds);
    }
    BOOST_TEST((soon.deadline - soon.when <= 801ms));
    BOOST_TEST(p.renews(3));
    BOOST_TEST(!never.done);
    BOOST_TEST(held.held());
    BOOST_TEST(p.releases(held));
    BOOST_TEST(p.until([&] { return never.done; }));
}

BOOST_AUTO_TEST_CASE(who_is_told_ahead_may_cancel_that) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", long_lived);
    for (auto const type : every_type) {
        watch w;
        w.start(held, 1s);
        p.context.poll();
        w.signal.emit(type);
        BOOST_TEST(p.until([&] { return w.done; }));
        BOOST_TEST((w.how == errc::cancelled), w.how.what());
        BOOST_TEST(held.held());
        // Before it was looked at.
        watch unseen;
        unseen.start(held, 1s);
        unseen.signal.emit(type);
        BOOST_TEST(p.until([&] { return unseen.done; }));
        BOOST_TEST((unseen.how == errc::cancelled), unseen.how.what());
    }
    BOOST_TEST(held.held());
    BOOST_TEST(p.releases(held));
}

BOOST_AUTO_TEST_CASE(who_is_told_ahead_is_told_of_the_end) {
    fleet servers(3);
    party p(servers);
    watch destroyed, released, lost, after_loss, after_release, handed_on;
    lease gone;
    {
        auto held = p.hold("destroyed");
        // The object is not there any more when that is told.
        held.wait_lost(1s, [&](error e) {
            destroyed.how = std::move(e);
            destroyed.done = true;
        });
    }
    BOOST_TEST(p.until([&] { return destroyed.done; }));
    BOOST_TEST((destroyed.how == errc::lease_released), destroyed.how.what());
    auto held = p.hold("released");
    released.start(held, 1s);
    BOOST_TEST(p.releases(held));
    after_release.start(held, 1s);
    BOOST_TEST(p.until([&] { return released.done && after_release.done; }));
    BOOST_TEST((released.how == errc::lease_released), released.how.what());
    BOOST_TEST((after_release.how == errc::lease_released), after_release.how.what());
    // Deleted: told at once, however long before the deadline.
    auto deleted = p.hold("lost", {.ttl = 3s});
    lost.start(deleted, 100ms);
    for (server& one : servers) redis_cli(one).del("lost");
    BOOST_TEST(p.until([&] { return lost.done; }));
    BOOST_TEST(lost.told());
    BOOST_TEST((lost.when < lost.deadline - 100ms));
    after_loss.start(deleted, 100ms);
    BOOST_TEST(p.until([&] { return after_loss.done; }));
    BOOST_TEST(after_loss.told());
    // To another of this process.
    lock_options const options{.ttl = 60s, .handoff_time = 60s};
    auto first = p.hold("handed on", options);
    handed_on.start(first, 1s);
    lease next;
    p.locks.make_lock("handed on", options).acquire([&](error, lease l) { next = std::move(l); });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    BOOST_TEST(p.releases(first));
    BOOST_TEST(p.until([&] { return handed_on.done && next.held(); }));
    BOOST_TEST((handed_on.how == errc::lease_released), handed_on.how.what());
    BOOST_TEST(p.locks.stats().handoffs == 1U);
}

BOOST_AUTO_TEST_CASE(who_waits_to_be_told_ahead_is_let_go_of_with_the_context) {
    fleet servers(1);
    auto const mark = std::make_shared<int>();
    auto called = 0;
    {
        party p(servers);
        auto held = p.hold("k");
        for (int i = 0; i < 3; ++i) held.wait_lost(1s, [&called, mark](error) { ++called; });
        p.context.poll();
        held.wait_lost(1s, [&called, mark](error) { ++called; });
    }
    BOOST_TEST(called == 0);
    BOOST_TEST(mark.use_count() == 1);
    redis_cli(servers[0]).flush();
}

//
// Told in time, however many
//

BOOST_AUTO_TEST_CASE(a_loss_is_told_by_the_deadline_to_however_many) {
    for (auto const count : crowds) {
        BOOST_TEST_CONTEXT(count << " leases") {
            std::size_t late = count;
            for (int attempt = 0; attempt < 3 && late > 0; ++attempt) {
                struct one {
                    lease held;
                    lease_clock::time_point deadline{}, told{};
                };
                fleet servers(3);
                party p(servers);
                BOOST_REQUIRE(p.all_up());
                std::vector<one> all(count);
                std::size_t given = 0, failed = 0, lost = 0;
                for (std::size_t i = 0; i < count; ++i) {
                    p.locks.make_lock("key:" + std::to_string(i), {.ttl = 3s})
                        .acquire([&, i](error e, lease l) {
                            if (e) ++failed;
                            ++given;
                            auto& mine = all[i];
                            mine.held = std::move(l);
                            if (!mine.held) return;
                            mine.held.wait_lost([&](error why) {
                                mine.told = lease_clock::now();
                                mine.deadline = mine.held.deadline();
                                lost += why ? 0 : 1;
                            });
                        });
                }
                BOOST_REQUIRE(p.until([&] { return given == count; }));
                servers.freeze(2);
                BOOST_REQUIRE(p.until([&] { return lost + failed == count; }));
                late = count;
                if (failed > 0) continue; // the machine was too slow to get them all in time
                auto earliest = lease_clock::duration::min(), latest = earliest;
                std::optional<lease_clock::time_point> first, last;
                late = 0;
                for (auto const& l : all) {
                    if (l.told > l.deadline) ++late;
                    latest = std::max(latest, l.told - l.deadline);
                    earliest = std::max(earliest, l.deadline - l.told);
                    first = std::min(first.value_or(l.told), l.told);
                    last = std::max(last.value_or(l.told), l.told);
                    BOOST_REQUIRE(!l.held.held());
                }
                BOOST_TEST(p.locks.stats().lost == count);
                auto const us = [](auto d) {
                    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
                };
                BOOST_TEST_MESSAGE(count << " leases: " << late << " told late; the earliest "
                                         << us(earliest) << " us before its deadline, the latest "
                                         << -us(latest) << " us before; all of them within "
                                         << us(*last - *first) << " us");
                servers.thaw_all();
            }
            BOOST_TEST(late == 0U);
        }
    }
}

//
// Stopped, or stuck
//

BOOST_AUTO_TEST_CASE(a_process_that_was_stopped_sees_at_its_first_look_that_its_leases_are_gone) {
    constexpr std::size_t keys = 3;
    for (std::string const loop : {"busy", "events"}) {
        BOOST_TEST_CONTEXT(loop) {
            fleet servers(3);
            party p(servers);
            BOOST_REQUIRE(p.all_up());
            child c("HOLDFAST_SLEEPER", {"--instances", servers.address_list(), "--keys",
                                         std::to_string(keys), "--ttl", "1500", "--loop", loop});
            BOOST_REQUIRE(c.line() == "held");
            std::string const first = "sleeper:0";
            BOOST_REQUIRE(copies(servers, first) >= servers.quorum());
            c.stop();
            // Nobody deletes them: they run out.
            for (server& one : servers) {
                redis_cli cli(one);
                BOOST_REQUIRE(wait_until([&] { return cli.dbsize() == 0; }, 20s));
            }
            auto mine = p.hold(first);
            BOOST_REQUIRE(p.sees(servers, first, true));
            std::vector<std::string> tokens;
            for (server& one : servers)
                tokens.push_back(redis_cli(one).get(first).value_or("none"));
            c.go_on();
            auto const said = c.line();
            auto const n = std::to_string(keys);
            BOOST_TEST(said == "held=0 told=" + n + " lost=" + n + " wrong=0");
            BOOST_TEST(c.status() == 0);
            // Whatever it has sent since, ours is untouched.
            BOOST_TEST(mine.held());
            for (std::size_t i = 0; i < servers.size(); ++i) {
                redis_cli cli(servers[i]);
                BOOST_TEST(cli.get(first).value_or("none") == tokens[i]);
                BOOST_TEST((cli.pttl(first) > 30s));
                BOOST_TEST(cli.dbsize() == 1);
            }
            BOOST_TEST(!p.extend(mine));
            BOOST_TEST(p.releases(mine));
        }
    }
}

// The answers that would have extended it were there in time, and nobody has looked at them.
BOOST_AUTO_TEST_CASE(an_event_loop_that_is_blocked_past_the_deadline_extends_nothing) {
    for (auto const watchdog : {false, true}) {
        BOOST_TEST_CONTEXT("watchdog " << watchdog) {
            fleet servers(3);
            wires ways(servers);
            party p(ways.addresses(), without_questions());
            BOOST_REQUIRE(p.all_up());
            auto held = p.hold("k", {.ttl = 1500ms, .watchdog = watchdog});
            BOOST_REQUIRE(p.sees(servers, "k", true));
            BOOST_REQUIRE(p.until([&] { return ways.are_quiet(); }));
            auto const deadline = held.deadline();
            ways.hold_replies();
            watch w;
            w.start(held);
            auto answered = false;
            error how;
            if (!watchdog) {
                held.extend([&](error e) {
                    how = std::move(e);
                    answered = true;
                });
            }
            BOOST_REQUIRE(p.until([&] { return ways.each_holds_a_reply(); }));
            BOOST_REQUIRE(held.held());
            BOOST_TEST((held.deadline() == deadline));
            auto blocked = false, looked = false, all_there = false;
            asio::post(p.context, [&] {
                std::vector<std::size_t> before;
                for (auto const& one : ways.all) before.push_back(one.replies_forwarded());
                ways.resume();
                all_there = wait_until([&] {
                    for (std::size_t i = 0; i < before.size(); ++i) {
                        if (ways[i].replies_forwarded() == before[i]) return false;
                    }
                    return true;
                });
                blocked = lease_clock::now() < deadline;
                while (lease_clock::now() <= deadline) continue;
                looked = !held.held() && held.remaining() == 0s;
            });
            BOOST_TEST(p.until([&] { return w.done && (watchdog || answered); }));
            BOOST_TEST(all_there);
            BOOST_TEST(blocked);
            BOOST_TEST(looked);
            BOOST_TEST(w.told());
            BOOST_TEST((held.deadline() == deadline));
            BOOST_TEST(!held.held());
            if (!watchdog) BOOST_TEST((how == errc::lease_lost), how.what());
            BOOST_TEST((p.release(held) == errc::lease_lost));
            BOOST_TEST(p.locks.stats().renewals == 0U);
            BOOST_TEST(p.locks.stats().lost == 1U);
            // The instances had extended it; it is not left there.
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
