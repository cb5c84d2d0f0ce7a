// A resource that checks fences sees them in order: from waiters, from processes, from late
// holders, and while instances fail.
#include <holdfast/fence_gate.hpp>

#include "integration/child.hpp"
#include "integration/client_group.hpp"
#include "integration/fences.hpp"
#include "integration/proxy_group.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// A protected resource. It records fences, and rejects late ones.
class resource {
public:
    void given(std::string const& key, std::uint64_t fence) {
        auto& r = records_[key];
        if (!r.fences.insert(fence).second) ++twice;
        if (fence <= r.last_given) ++disorder;
        r.last_given = std::max(r.last_given, fence);
        ++grants;
    }
    bool write(std::string const& key, std::uint64_t fence) {
        auto& r = records_[key];
        auto const accepted = fence >= r.written;
        if (accepted) r.written = fence;
        if (gate_.admit(key, fence) != accepted) ++gate_differs;
        accepted ? ++writes : ++rejected;
        return accepted;
    }

    std::size_t grants = 0, twice = 0, disorder = 0, writes = 0, rejected = 0, gate_differs = 0;

private:
    struct record {
        std::set<std::uint64_t> fences;
        std::uint64_t last_given = 0, written = 0;
    };
    std::map<std::string, record> records_;
    fence_gate gate_{100};
};

void check(resource const& r) {
    BOOST_TEST(r.twice == 0U);
    BOOST_TEST(r.disorder == 0U);
    BOOST_TEST(r.gate_differs == 0U);
}

asio::awaitable<void> one_turn(client& locks, lock_options options, resource& r, int& inside) {
    auto const lock = locks.make_lock("k", options);
    auto held = co_await lock.acquire();
    BOOST_TEST(++inside == 1);
    r.given("k", held.fence());
    BOOST_TEST(r.write("k", held.fence()));
    co_await asio::post(asio::deferred); // other coroutines run now
    BOOST_TEST(r.write("k", held.fence()));
    --inside;
    BOOST_TEST((co_await held.release()).confirmed());
}

struct trouble {
    resource r;
    std::size_t failed = 0, lost = 0, rejected_while_held = 0;
    bool over = false;
};

// Takes the lock again and again, and keeps it beyond its ttl now and then.
asio::awaitable<void> worker(asio::io_context& context, client& locks, std::string key,
                             unsigned seed, unsigned handover_limit, trouble& t) {
    std::minstd_rand random(seed);
    asio::steady_timer timer(context);
    auto const quietly = asio::as_tuple(asio::deferred);
    while (!t.over) {
        auto const late = random() % 16 == 0;
        lock_options const options{
            .ttl = 300ms, .watchdog = !late, .fencing = true, .handover_limit = handover_limit};
        auto const lock = locks.make_lock(key, options);
        auto acquired = co_await lock.try_acquire_for(2s, asio::as_tuple);
        auto& held = std::get<1>(acquired);
        if (std::get<0>(acquired)) {
            ++t.failed;
            timer.expires_after(5ms);
            co_await timer.async_wait(quietly);
            continue;
        }
        t.r.given(key, held.fence());
        auto const write = [&] {
            auto const accepted = t.r.write(key, held.fence());
            if (!accepted && held.held()) ++t.rejected_while_held;
        };
        write();
        timer.expires_after(std::chrono::milliseconds(late ? 400 : random() % 4));
        co_await timer.async_wait(quietly);
        if (!held.held()) ++t.lost;
        write();
        if (!late) {
            co_await held.release();
            continue;
        }
        // The late holder also writes after its release.
        auto const fence = held.fence();
        co_await held.release();
        timer.expires_after(20ms);
        co_await timer.async_wait(quietly);
        t.r.write(key, fence);
    }
}

asio::awaitable<void> hold_until_lost(client& locks, bool& held, bool& lost) {
    auto const lock = locks.make_lock("watched", {.ttl = 1s, .fencing = true});
    for (;;) {
        auto acquired = co_await lock.acquire(asio::as_tuple);
        auto& [e, l] = acquired;
        if (e) continue;
        held = true;
        auto const how = co_await l.wait_end();
        lost = is_loss(how);
        co_return;
    }
}

void trouble_instances_in_turn(fleet& servers, client_options const& options,
                               unsigned handover_limit, trouble& t) {
    client_group group(servers, 3, options);
    for (unsigned i = 0; i < 18; ++i) {
        group.start(worker(group.context, *group.clients[i % 3], i % 2 == 0 ? "even" : "odd", i + 1,
                           handover_limit, t));
    }
    auto const go_on = [&] {
        auto const before = t.r.grants;
        BOOST_REQUIRE(group.until([&] { return t.r.grants >= before + 30; }));
    };
    auto const minority = servers.size() - servers.quorum();
    auto const each = [&](std::size_t from, auto f) {
        for (std::size_t n = 0; n < minority; ++n) f(servers[(from + n) % servers.size()]);
    };
    go_on();
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("from instance " << i) {
            each(i, [](server& instance) { instance.freeze(); });
            go_on();
            servers.thaw_all();
            go_on();
            BOOST_REQUIRE(group.all_up());
            each(i, [](server& instance) { instance.kill(); });
            go_on();
            each(i, [](server& instance) { instance.restart(); });
            go_on();
            BOOST_REQUIRE(group.all_up());
        }
    }
    // A lease is lost while a majority is silent.
    auto held = false, lost = false;
    group.start(hold_until_lost(*group.clients[0], held, lost));
    BOOST_REQUIRE(group.until([&] { return held; }));
    servers.freeze(servers.quorum());
    BOOST_TEST(group.until([&] { return lost; }));
    servers.thaw_all();
    go_on();
    t.over = true;
    BOOST_TEST(group.until([&] { return group.working == 0; }));
    BOOST_TEST_MESSAGE(t.r.grants << " grants, " << t.failed << " failed, " << t.lost << " lost, "
                                  << t.r.writes << " writes, " << t.r.rejected
                                  << " late ones rejected, " << t.rejected_while_held
                                  << " of them by who held the lock");
    check(t.r);
    BOOST_TEST(t.lost > 0U);
    BOOST_TEST(t.r.rejected > 0U);
}

} // namespace

BOOST_AUTO_TEST_SUITE(fence_order)

//
// Waiters
//

BOOST_AUTO_TEST_CASE(
    plain_and_fenced_waiters_behind_one_holder_get_the_leases_that_they_asked_for) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    constexpr lock_options plain{.ttl = 60s, .handover_time = 60s};
    constexpr lock_options with_fence{.ttl = 60s, .fencing = true, .handover_time = 60s};
    std::uint64_t last = 0;
    for (unsigned const which : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        BOOST_TEST_CONTEXT("turns " << which) {
            auto const before = client.locks.stats();
            std::uint64_t rounds = 0;
            auto tenure_is_fenced = false;
            auto l = client.hold("k", (which & 1) != 0 ? with_fence : plain);
            std::array<attempt, 2> waiters;
            waiters[0].start(client.locks.make_lock("k", (which & 2) != 0 ? with_fence : plain));
            waiters[1].start(client.locks.make_lock("k", (which & 4) != 0 ? with_fence : plain));
            BOOST_REQUIRE(waits(client, 2));
            for (unsigned i = 0; i < 3; ++i) {
                auto const wants = (which >> i & 1) != 0;
                if (i > 0) l = wait_for_lease(client, waiters[i - 1]);
                BOOST_TEST((l.fence() > 0U) == wants);
                if (wants) {
                    BOOST_TEST(l.fence() > last);
                    last = l.fence();
                }
                // A tenure with a fence can serve waiters that want none, but not vice versa.
                if (i == 0 || (wants && !tenure_is_fenced)) {
                    tenure_is_fenced = wants;
                    ++rounds;
                }
                BOOST_TEST(client.releases(l));
            }
            BOOST_TEST(client.locks.stats().rounds - before.rounds == rounds);
            BOOST_TEST(client.locks.stats().handovers - before.handovers == 3 - rounds);
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(
    plain_and_fenced_waiters_behind_another_client_get_the_leases_that_they_asked_for) {
    fleet servers(3);
    test_client other(servers), client(servers);
    other.runs_with(client);
    BOOST_REQUIRE(other.all_up());
    BOOST_REQUIRE(client.all_up());
    std::uint64_t last = 0;
    for (auto const holder : {false, true}) {
        for (auto const first : {false, true}) {
            auto l = other.hold("k", holder ? fenced : long_lived);
            last = std::max(last, l.fence());
            std::array<attempt, 2> waiters;
            waiters[0].start(client.locks.make_lock("k", first ? fenced : long_lived));
            waiters[1].start(client.locks.make_lock("k", first ? long_lived : fenced));
            BOOST_REQUIRE(waits(client, 2));
            BOOST_TEST(other.releases(l));
            for (auto& w : waiters) {
                auto next = wait_for_lease(client, w);
                BOOST_TEST((next.fence() > 0U) == (first == (&w == &waiters[0])));
                if (next.fence() > 0) {
                    BOOST_TEST(next.fence() > last);
                    last = next.fence();
                }
                BOOST_TEST(client.releases(next));
            }
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_inherits_a_try_gets_the_lease_that_it_asked_for) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses());
    BOOST_REQUIRE(client.all_up());
    for (auto const first : {false, true}) {
        BOOST_TEST_CONTEXT((first ? "a fenced try" : "a plain try")) {
            auto const before = client.locks.stats();
            proxies.hold_replies();
            std::array<attempt, 2> waiters;
            waiters[0].start(client.locks.make_lock("k", first ? fenced : long_lived));
            waiters[1].start(client.locks.make_lock("k", first ? long_lived : fenced));
            // All instances have granted the key, but the client has not read the answers.
            BOOST_REQUIRE(client.sees(servers, "k", true));
            waiters[0].signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(client.until([&] { return waiters[0].done; }));
            BOOST_TEST((waiters[0].how == errc::cancelled), waiters[0].how.what());
            proxies.resume();
            auto l = wait_for_lease(client, waiters[1]);
            BOOST_TEST((l.fence() > 0U) != first);
            BOOST_TEST(client.locks.stats().rounds - before.rounds == (first ? 1U : 2U));
            BOOST_TEST(client.releases(l));
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_cannot_have_a_fence_does_not_keep_others_from_the_lock) {
    for (std::string const obstacle :
         {"bad counters", "one is bad and one is down", "no right to the counter"}) {
        BOOST_TEST_CONTEXT(obstacle) {
            fleet servers(3);
            auto const denied = obstacle.starts_with("no right");
            test_client client(denied ? as_user(servers, {"~k"}) : addresses_of(servers));
            BOOST_REQUIRE(client.all_up());
            if (!denied) {
                auto const all = obstacle.starts_with("bad");
                for (std::size_t i = 0; i < (all ? 3U : 1U); ++i)
                    set_counter(servers[i], counter, "garbage");
                if (!all) {
                    servers[2].kill();
                    BOOST_REQUIRE(client.goes_down(2, errc::unreachable));
                }
            }
            // All three wait when the first try begins, which is for the first waiter.
            attempt first, second, third;
            first.start(client.locks.make_lock("k", fenced));
            second.start(client.locks.make_lock("k", long_lived));
            third.start(client.locks.make_lock("k", impatient(fenced)));
            BOOST_REQUIRE(client.until([&] { return first.done && second.done; }));
            BOOST_TEST((first.how == error_condition::unavailable), first.how.what());
            BOOST_TEST(!second.how, second.how.what());
            BOOST_TEST(second.held.fence() == 0U);
            if (second.held) BOOST_TEST(client.releases(second.held));
            BOOST_REQUIRE(client.until([&] { return third.done; }));
            BOOST_TEST((third.how == error_condition::unavailable), third.how.what());
        }
    }
}

//
// A protected resource
//

BOOST_AUTO_TEST_CASE(two_hundred_waiters_of_two_clients_get_growing_fences) {
    for (auto const handover_limit : {1U, 8U, 64U}) {
        BOOST_TEST_CONTEXT("at most " << handover_limit << " leases in a tenure") {
            fleet servers(3);
            client_group group(servers, 2, patient());
            resource r;
            auto inside = 0;
            for (std::size_t i = 0; i < 200; ++i) {
                lock_options const options{
                    .ttl = 60s, .fencing = true, .handover_limit = handover_limit};
                group.start(one_turn(*group.clients[i % 2], options, r, inside));
            }
            BOOST_TEST(group.until([&] { return group.working == 0; }, 60s));
            BOOST_TEST(r.grants == 200U);
            BOOST_TEST(r.rejected == 0U);
            check(r);
            if (handover_limit == 1) {
                BOOST_TEST(group.clients[0]->stats().handovers +
                               group.clients[1]->stats().handovers ==
                           0U);
            } else {
                BOOST_TEST(group.clients[0]->stats().handovers > 0U);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_late_holder_is_rejected) {
    fleet servers(3);
    test_client slow(servers), next(servers);
    BOOST_REQUIRE(slow.all_up());
    BOOST_REQUIRE(next.all_up());
    fence_gate gate(10);
    auto const late = slow.hold("k", {.ttl = 500ms, .watchdog = false, .fencing = true});
    BOOST_TEST(gate.admit("k", late.fence()));
    // From here on, the process of the late holder does not run.
    auto const held = next.hold("k", fenced);
    BOOST_TEST(!late.held());                  // at its first check
    BOOST_TEST(gate.admit("k", late.fence())); // the next holder has not written yet
    BOOST_TEST(gate.admit("k", held.fence()));
    BOOST_TEST(!gate.admit("k", late.fence()));
    BOOST_TEST(gate.admit("k", held.fence()));
}

BOOST_AUTO_TEST_CASE(processes_get_growing_fences) {
    fleet servers(3);
    server witness;
    std::vector<std::string> const arguments{
        "--fencing",       "on",           "--instances", servers.url_list(), "--witness",
        witness.address(), "--coroutines", "50",          "--sections",       "4"};
    std::deque<child> all;
    for (int i = 0; i < 4; ++i) all.emplace_back("HOLDFAST_CONTENDER", arguments);
    for (auto& process : all) BOOST_REQUIRE(process.line() == "ready");
    for (auto& process : all) process.say("go");
    for (auto& process : all) {
        auto const said = process.line(60s);
        BOOST_TEST(process.status() == 0, said);
        BOOST_TEST(said.find(" disordered=0 ") != std::string::npos, said);
        BOOST_TEST(said.find(" violations=0 ") != std::string::npos, said);
        BOOST_TEST(said.find("sections=200 ") == 0U, said);
    }
    BOOST_TEST(redis_cli(witness).get("counter").value_or("none") == "800");
    BOOST_TEST((std::stoull(redis_cli(witness).get("fence").value_or("0")) / 100) >
               number_now() - minute);
}

//
// A protected resource while instances fail
//

BOOST_AUTO_TEST_CASE(a_resource_sees_fences_in_order_while_instances_fail_in_turn) {
    with_fleets_of({3, 5}, {.arguments = fsync_always}, [](fleet& servers) {
        trouble t;
        trouble_instances_in_turn(servers, hasty(), 8, t);
        // The instances forget nothing and the clocks are right, so the lock has only one holder.
        BOOST_TEST(t.rejected_while_held == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_resource_sees_fences_in_order_though_instances_forget_in_turn) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto options = hasty();
        options.on_restart = restart_policy::off;
        trouble t;
        // Two clients may hold the lock, so each tenure must have only one lease.
        trouble_instances_in_turn(servers, options, 1, t);
    });
}

BOOST_AUTO_TEST_SUITE_END()
