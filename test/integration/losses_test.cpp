// Holders hear of a loss in time: ahead of the deadline if they ask for that, by the deadline
// however many they are, and at their first check after a stop.
#include "integration/attempt.hpp"
#include "integration/child.hpp"
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/wait.hpp"

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

#ifdef HOLDFAST_TEST_SANITIZED
// With a sanitizer, the notifications take longer than the margin.
constexpr std::array<std::size_t, 2> crowds{1, 30};
#else
constexpr std::array<std::size_t, 3> crowds{1, 100, 10'000};
#endif

/// For how long this thread has wanted to run and another had its processor. Nothing where the
/// kernel does not tell.
std::chrono::nanoseconds processor_wait() {
    std::int64_t ran = 0, waited = 0;
    std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
    return std::chrono::nanoseconds(waited);
}

} // namespace

BOOST_AUTO_TEST_SUITE(losses)

//
// Ahead of the deadline
//

BOOST_AUTO_TEST_CASE(a_lease_that_cannot_be_kept_is_told_ahead) {
    fleet servers(3);
    for (auto const ahead : {1'600ms, 2'000ms}) {
        BOOST_TEST_CONTEXT("ahead " << ahead.count()) {
            test_client client(servers, hasty());
            auto held = client.hold("k", {.ttl = 6s});
            loss_wait early, plain;
            early.start(held, ahead);
            plain.start(held);
            BOOST_TEST(client.renews(4)); // this takes more than a ttl
            BOOST_TEST(!early.done);
            servers.freeze(2);
            BOOST_TEST(client.until([&] { return early.done; }));
            BOOST_TEST(early.told());
            BOOST_TEST(early.how == lease_end::none);
            BOOST_TEST(early.holds);
            BOOST_TEST((early.deadline - early.when <= ahead + 1ms));
            BOOST_TEST(!plain.done);
            BOOST_TEST(client.until([&] { return plain.done; }));
            BOOST_TEST(plain.how == lease_end::expired);
            BOOST_TEST(!plain.holds);
            servers.thaw_all();
            for (server& instance : servers) redis_cli(instance).flush();
        }
    }
}

BOOST_AUTO_TEST_CASE(as_long_as_it_is_extended_nothing_is_told_ahead) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("watched", {.ttl = renewed_ttl});
    loss_wait loss;
    loss.start(held, 50ms);
    BOOST_TEST(client.renews(12)); // this takes four ttls
    BOOST_TEST(!loss.done);
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.until([&] { return loss.done; }));
    BOOST_TEST(loss.how == lease_end::released);
    // The holder extends the lease itself.
    auto kept = client.hold("by hand", unwatched(6s));
    loss_wait by_hand;
    by_hand.start(kept, 1600ms);
    for (int i = 0; i < 4; ++i) {
        client.pass(kept.deadline() - 3300ms);
        BOOST_REQUIRE(!by_hand.done);
        BOOST_TEST(!client.extend(kept));
    }
    auto const deadline = kept.deadline();
    BOOST_TEST(client.until([&] { return by_hand.done; }));
    BOOST_TEST(by_hand.told());
    BOOST_TEST(by_hand.how == lease_end::none);
    BOOST_TEST((by_hand.deadline == deadline));
    BOOST_TEST((by_hand.when >= deadline - 1601ms));
    BOOST_TEST(by_hand.holds);
    // The notification is a warning: the lease continues if the client can extend it.
    BOOST_TEST(!client.extend(kept));
    BOOST_TEST(client.releases(kept));
}

BOOST_AUTO_TEST_CASE(more_than_half_of_the_ttl_ahead_may_tell_before_a_renewal) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = renewed_ttl});
    loss_wait soon, at_once, at_once_too, never;
    soon.start(held, 2'200ms);
    at_once.start(held, 60s);
    at_once_too.start(held, std::chrono::nanoseconds::max());
    never.start(held, std::chrono::nanoseconds::min());
    BOOST_TEST(client.until([&] { return soon.done && at_once.done && at_once_too.done; }));
    for (auto const* const loss : {&soon, &at_once, &at_once_too}) {
        BOOST_TEST(loss->told());
        BOOST_TEST(loss->how == lease_end::none);
        BOOST_TEST(loss->holds);
    }
    BOOST_TEST((soon.deadline - soon.when <= 2'201ms));
    BOOST_TEST(client.renews(3));
    BOOST_TEST(!never.done);
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.until([&] { return never.done; }));
}

BOOST_AUTO_TEST_CASE(a_wait_to_be_told_ahead_can_be_cancelled) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", long_lived);
    for (auto const type : every_type) {
        loss_wait w;
        w.start(held, 1s);
        client.context.poll();
        w.signal.emit(type);
        BOOST_TEST(client.until([&] { return w.done; }));
        BOOST_TEST((w.failure == errc::cancelled), w.failure.what());
        BOOST_TEST(w.how == lease_end::none);
        BOOST_TEST(held.held());
        // The wait is cancelled before the client has taken it.
        loss_wait unseen;
        unseen.start(held, 1s);
        unseen.signal.emit(type);
        BOOST_TEST(client.until([&] { return unseen.done; }));
        BOOST_TEST((unseen.failure == errc::cancelled), unseen.failure.what());
    }
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_wait_to_be_told_ahead_hears_of_the_end) {
    fleet servers(3);
    test_client client(servers);
    loss_wait destroyed, released, lost, after_loss, after_release, handed_on;
    lease gone;
    {
        auto held = client.hold("destroyed");
        // The lease is destroyed before the handler runs.
        held.wait_end(1s, [&](error, lease_end how) {
            destroyed.how = how;
            destroyed.done = true;
        });
    }
    BOOST_TEST(client.until([&] { return destroyed.done; }));
    BOOST_TEST(destroyed.how == lease_end::released);
    auto held = client.hold("released");
    released.start(held, 1s);
    BOOST_TEST(client.releases(held));
    after_release.start(held, 1s);
    BOOST_TEST(client.until([&] { return released.done && after_release.done; }));
    BOOST_TEST(released.how == lease_end::released);
    BOOST_TEST(after_release.how == lease_end::released);
    // If the key is deleted, the holder hears of it at once, even long before the deadline.
    auto deleted = client.hold("lost", {.ttl = 3s});
    lost.start(deleted, 100ms);
    for (server& instance : servers) redis_cli(instance).del("lost");
    BOOST_TEST(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::key_gone);
    BOOST_TEST((lost.when < lost.deadline - 100ms));
    after_loss.start(deleted, 100ms);
    BOOST_TEST(client.until([&] { return after_loss.done; }));
    BOOST_TEST(after_loss.how == lease_end::key_gone);
    // The lock is handed over to another acquire of this client.
    lock_options const options{.ttl = 60s, .handover_time = 60s};
    auto first = client.hold("handed on", options);
    handed_on.start(first, 1s);
    lease next;
    client.locks.make_lock("handed on", options).acquire([&](error, lease l) {
        next = std::move(l);
    });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_TEST(client.releases(first));
    BOOST_TEST(client.until([&] { return handed_on.done && next.held(); }));
    BOOST_TEST(handed_on.how == lease_end::released);
    BOOST_TEST(client.locks.stats().handovers == 1U);
}

BOOST_AUTO_TEST_CASE(a_wait_to_be_told_ahead_is_destroyed_with_the_context) {
    fleet servers(1);
    auto const mark = std::make_shared<int>();
    auto called = 0;
    {
        test_client client(servers);
        auto held = client.hold("k");
        for (int i = 0; i < 3; ++i)
            held.wait_end(1s, [&called, mark](error, lease_end) { ++called; });
        client.context.poll();
        held.wait_end(1s, [&called, mark](error, lease_end) { ++called; });
    }
    BOOST_TEST(called == 0);
    BOOST_TEST(mark.use_count() == 1);
    redis_cli(servers[0]).flush();
}

//
// By the deadline
//

BOOST_AUTO_TEST_CASE(a_loss_is_told_by_the_deadline_to_however_many) {
    for (auto const count : crowds) {
        BOOST_TEST_CONTEXT(count << " leases") {
            std::size_t late = count;
            for (int attempt = 0; attempt < 3 && late > 0; ++attempt) {
                struct noted_lease {
                    lease held;
                    lease_clock::time_point deadline{}, told{};
                };
                fleet servers(3);
                test_client client(servers);
                BOOST_REQUIRE(client.all_up());
                std::vector<noted_lease> all(count);
                std::size_t given = 0, failed = 0, lost = 0;
                // A busy machine gives the processor to others while handlers wait to run. That
                // time does not count, but only since a handler that ran before its deadline. It is
                // read for every hundredth handler.
                std::chrono::nanoseconds waited{}, in_time{};
                for (std::size_t i = 0; i < count; ++i) {
                    client.locks.make_lock("key:" + std::to_string(i), {.ttl = 3s})
                        .acquire([&, i](error e, lease l) {
                            if (e) ++failed;
                            ++given;
                            auto& mine = all[i];
                            mine.held = std::move(l);
                            if (!mine.held) return;
                            mine.held.wait_end([&](error, lease_end how) {
                                mine.told = lease_clock::now();
                                mine.deadline = mine.held.deadline();
                                if (lost % 100 == 0) {
                                    auto const all_waits = processor_wait();
                                    if (lost == 0 || mine.told <= mine.deadline)
                                        in_time = all_waits;
                                    waited = all_waits - in_time;
                                }
                                if (mine.told > mine.deadline) mine.told -= waited;
                                lost += is_loss(how) ? 1 : 0;
                            });
                        });
                }
                BOOST_REQUIRE(client.until([&] { return given == count; }));
                servers.freeze(2);
                BOOST_REQUIRE(client.until([&] { return lost + failed == count; }));
                late = count;
                if (failed > 0) continue; // the machine was too slow to get all leases in time
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
                BOOST_TEST(client.locks.stats().lost == count);
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
// How it ended
//

BOOST_AUTO_TEST_CASE(a_lease_says_how_it_ended) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    BOOST_TEST(lease().ended_by() == lease_end::released);

    auto held = client.hold("released");
    BOOST_TEST(held.ended_by() == lease_end::none);
    auto done = false;
    held.release([&](release_result) { done = true; });
    BOOST_TEST(held.ended_by() == lease_end::released); // at once
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(held.ended_by() == lease_end::released);
    auto const moved = std::move(held);
    BOOST_TEST(moved.ended_by() == lease_end::released);

    auto detached = client.hold("detached");
    detached.detach();
    BOOST_TEST(detached.ended_by() == lease_end::released);
    BOOST_TEST(client.idle());
    BOOST_TEST(detached.ended_by() == lease_end::released);

    // The clock alone says so, before the client has run.
    auto late = client.hold("late", unwatched(500ms));
    stand_still(late.remaining() + 1ms);
    BOOST_TEST(late.ended_by() == lease_end::expired);
    BOOST_TEST(client.until([&] { return client.locks.stats().lost == 1; }));
    BOOST_TEST(late.ended_by() == lease_end::expired);

    auto gone = client.hold("gone");
    BOOST_REQUIRE(client.sees(servers, "gone", true));
    for (server& instance : servers) redis_cli(instance).del("gone");
    BOOST_TEST((client.extend(gone) == errc::lease_lost));
    // Nothing that the holder does later changes that.
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(gone.ended_by() == lease_end::key_gone);
        if (i == 0) BOOST_TEST((client.release(gone) == errc::lease_lost));
        if (i == 1) gone.detach();
    }
    BOOST_TEST(client.idle());
    BOOST_TEST(gone.ended_by() == lease_end::key_gone);
}

BOOST_AUTO_TEST_CASE(a_lost_lease_that_is_detached_was_lost) {
    fleet servers(1);
    test_client client(servers);
    auto gone = client.hold("gone");
    redis_cli(servers[0]).del("gone");
    BOOST_TEST((client.extend(gone) == errc::lease_lost));
    gone.detach();
    BOOST_TEST(gone.ended_by() == lease_end::key_gone);
}

BOOST_AUTO_TEST_CASE(each_object_of_a_shared_lease_says_how_it_ended) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k");
    auto first = held.share();
    auto second = held.share();
    BOOST_TEST(client.releases(first));
    BOOST_TEST(first.ended_by() == lease_end::released);
    BOOST_TEST(held.ended_by() == lease_end::none);
    BOOST_TEST(second.ended_by() == lease_end::none);
    redis_cli(servers[0]).del("k");
    BOOST_TEST((client.extend(held) == errc::lease_lost));
    for (auto const* const each : {&held, &first, &second})
        BOOST_TEST(each->ended_by() == lease_end::key_gone);
    // The last that is given up ends it for all.
    auto other = client.hold("other");
    auto last = other.share();
    BOOST_TEST(client.releases(other));
    BOOST_TEST(client.releases(last));
    BOOST_TEST(other.ended_by() == lease_end::released);
    BOOST_TEST(last.ended_by() == lease_end::released);
}

//
// Stopped or blocked
//

BOOST_AUTO_TEST_CASE(a_process_that_was_stopped_sees_at_its_first_look_that_its_leases_are_gone) {
    constexpr std::size_t keys = 3;
    for (std::string const loop : {"busy", "events"}) {
        BOOST_TEST_CONTEXT(loop) {
            fleet servers(3);
            test_client client(servers);
            BOOST_REQUIRE(client.all_up());
            child c("HOLDFAST_SLEEPER", {"--instances", servers.url_list(), "--keys",
                                         std::to_string(keys), "--ttl", "4000", "--loop", loop});
            BOOST_REQUIRE(c.line() == "held");
            std::string const first = "sleeper:0";
            BOOST_REQUIRE(copies(servers, first) >= servers.quorum());
            c.stop();
            // No client deletes the keys; they expire.
            check_nothing_left(servers, 20s);
            auto mine = client.hold(first);
            BOOST_REQUIRE(client.sees(servers, first, true));
            std::vector<std::string> tokens;
            for (server& instance : servers)
                tokens.push_back(redis_cli(instance).get(first).value_or("none"));
            c.go_on();
            auto const said = c.line();
            auto const n = std::to_string(keys);
            BOOST_TEST(said == "held=0 told=" + n + " lost=" + n + " wrong=0");
            BOOST_TEST(c.status() == 0);
            // The stopped client has sent commands since, but the new lease is unchanged.
            BOOST_TEST(mine.held());
            for (std::size_t i = 0; i < servers.size(); ++i) {
                redis_cli cli(servers[i]);
                BOOST_TEST(cli.get(first).value_or("none") == tokens[i]);
                BOOST_TEST((cli.pttl(first) > 30s));
                BOOST_TEST(cli.dbsize() == 1);
            }
            BOOST_TEST(!client.extend(mine));
            BOOST_TEST(client.releases(mine));
        }
    }
}

// The answers would have extended the lease. They came in time, but the client read them too late.
// The lease is over, and the timer that ends it has not run yet.
BOOST_AUTO_TEST_CASE(the_first_try_after_a_standstill_does_not_meet_its_own_lease) {
    fleet servers(3);
    test_client client(servers);
    auto options = unwatched(100ms);
    for (auto const shares : {false, true}) {
        auto held = client.hold("k", options);
        auto const other = shares ? held.share() : lease();
        while (lease_clock::now() <= held.deadline() + 5ms) {
        }
        BOOST_TEST(!held.held());
        attempt again;
        again.start_try(client.locks.make_lock("k", options));
        BOOST_REQUIRE(client.until([&] { return again.done; }));
        BOOST_TEST(!again.how, again.how.what());
        BOOST_TEST(client.releases(again.held));
    }
}

BOOST_AUTO_TEST_CASE(an_event_loop_that_is_blocked_past_the_deadline_extends_nothing) {
    for (auto const watchdog : {false, true}) {
        BOOST_TEST_CONTEXT("watchdog " << watchdog) {
            fleet servers(3);
            proxy_group proxies(servers);
            test_client client(proxies.addresses(), without_questions());
            BOOST_REQUIRE(client.all_up());
            auto held = client.hold("k", {.ttl = 3s, .watchdog = watchdog});
            BOOST_REQUIRE(client.sees(servers, "k", true));
            BOOST_REQUIRE(client.until([&] { return proxies.are_quiet(); }));
            auto const deadline = held.deadline();
            proxies.hold_replies();
            loss_wait w;
            w.start(held);
            auto answered = false;
            error how;
            if (!watchdog) {
                held.extend([&](error e) {
                    how = std::move(e);
                    answered = true;
                });
            }
            BOOST_REQUIRE(client.until([&] { return proxies.each_holds_a_reply(); }));
            BOOST_REQUIRE(held.held());
            BOOST_TEST((held.deadline() == deadline));
            auto blocked = false, looked = false, all_there = false;
            asio::post(client.context, [&] {
                std::vector<std::size_t> before;
                for (auto const& proxy : proxies.all) before.push_back(proxy.replies_forwarded());
                proxies.resume();
                all_there = wait_until([&] {
                    for (std::size_t i = 0; i < before.size(); ++i) {
                        if (proxies[i].replies_forwarded() == before[i]) return false;
                    }
                    return true;
                });
                blocked = lease_clock::now() < deadline;
                while (lease_clock::now() <= deadline) continue;
                looked = !held.held() && held.remaining() == 0s;
            });
            BOOST_TEST(client.until([&] { return w.done && (watchdog || answered); }));
            BOOST_TEST(all_there);
            BOOST_TEST(blocked);
            BOOST_TEST(looked);
            BOOST_TEST(w.how == lease_end::expired);
            BOOST_TEST((held.deadline() == deadline));
            BOOST_TEST(!held.held());
            BOOST_TEST(held.ended_by() == lease_end::expired);
            if (!watchdog) BOOST_TEST((how == errc::lease_lost), how.what());
            BOOST_TEST((client.release(held) == errc::lease_lost));
            BOOST_TEST(client.locks.stats().extended == 0U);
            BOOST_TEST(client.locks.stats().lost == 1U);
            // The instances had extended the key. The client deletes it.
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
