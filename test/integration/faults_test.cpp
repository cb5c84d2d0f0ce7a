// Instances fail, hang and come back, and connections break. No lock is lost early, no key stays
// behind, and no call waits for ever.
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/heap.hpp"
#include "support/proxy.hpp"
#include "support/wait.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// No instance was suspected or given up.
void check_trusted(test_client& client) {
    for (auto const& instance : client.locks.instances()) {
        BOOST_TEST((instance.state == instance_state::up), instance.message);
        BOOST_TEST(instance.connections == 1U);
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(faults)

//
// Minorities
//

BOOST_AUTO_TEST_CASE(a_minority_may_be_down_from_the_start) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto const n = servers.size();
        servers.kill(n / 2);
        test_client client(servers);
        auto l = client.hold("k", {.ttl = renewed_ttl});
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.renews(3));
        BOOST_TEST(l.held());
        BOOST_TEST(client.releases(l));
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_minority_may_be_killed_in_mid_hold) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto const n = servers.size();
        test_client client(servers);
        BOOST_TEST(client.all_up());
        auto l = client.hold("k", {.ttl = renewed_ttl});
        servers.kill(n / 2);
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.renews(3));
        BOOST_TEST(l.held());
        auto const [e, none] = client.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        auto other = client.hold("other");
        BOOST_TEST(client.releases(l));
        BOOST_TEST(client.releases(other));
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_minority_may_be_frozen) {
    for (auto const from_start : {true, false}) {
        for (std::size_t const n : {3U, 5U}) {
            BOOST_TEST_CONTEXT(n << " instances, "
                                 << (from_start ? "from the start" : "in mid-hold")) {
                fleet servers(n);
                if (from_start) servers.freeze(n / 2);
                test_client client(servers, brisk());
                BOOST_TEST((from_start || client.all_up()));
                auto l = client.hold("k", {.ttl = renewed_ttl});
                auto other = client.hold("long");
                servers.freeze(n / 2);
                BOOST_TEST(!client.extend(l));
                BOOST_TEST(client.renews(3));
                BOOST_TEST(l.held());
                auto third = client.hold("third");
                BOOST_TEST(client.releases(l));
                BOOST_TEST(client.releases(other));
                BOOST_TEST(client.releases(third));
                servers.thaw_all();
                check_nothing_left(client, servers);
                BOOST_TEST(client.all_up());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_frozen_minority_delays_nobody) {
    fleet servers(3);
    auto options = patient(); // the timeouts are too long to help, so the others must be enough
    test_client client(servers, options);
    BOOST_TEST(client.all_up());
    servers.freeze(1);
    for (int i = 0; i < 20; ++i) {
        auto l = client.hold("k");
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.releases(l));
    }
    servers.thaw_all();
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_while_an_instance_hangs) {
    constexpr int workers = 100;
    constexpr int pairs_each = 200;
    fleet servers(3);
    auto options = unhurried();
    options.max_pending_releases = 1'000;
    test_client client(servers, options);
    BOOST_TEST(client.all_up());
    servers.freeze(1);
    auto ended = 0;
    auto pairs = 0;
    auto most_pending = std::uint64_t{0};
    std::string failure;
    auto const worker = [&](int number) -> asio::awaitable<void> {
        auto const lock = client.locks.make_lock("k" + std::to_string(number), long_lived);
        for (int i = 0; i < pairs_each; ++i) {
            auto l = co_await lock.acquire();
            auto const result = co_await l.release();
            if (!result) throw system_error(result.code());
            ++pairs;
            most_pending = std::max(most_pending, client.locks.instances()[0].pending_releases);
        }
    };
    auto const work = [&] {
        ended = 0;
        for (int n = 0; n < workers; ++n) {
            asio::co_spawn(client.context, worker(n), [&](std::exception_ptr thrown) {
                ++ended;
                try {
                    if (thrown) std::rethrow_exception(thrown);
                } catch (std::exception const& e) {
                    failure = e.what();
                }
            });
        }
        BOOST_REQUIRE(run_until(
            client.context, [&] { return ended == workers; }, 60s));
    };
    work(); // the client does not know that the instance hangs
    BOOST_TEST(
        client.until([&] { return client.locks.instances()[0].state != instance_state::up; }));
    work(); // the client knows
    auto const before = heap_in_use();
    for (int again = 0; again < 5; ++again) work();
    // A lock that is kept takes hundreds of bytes. Five times 20,000 of them would be tens of MB.
    BOOST_TEST(heap_in_use() < before + 1'000'000);
    BOOST_TEST(failure == "");
    BOOST_TEST(pairs == 7 * workers * pairs_each);
    BOOST_TEST(client.until([&] { return client.locks.stats().releases_dropped > 0; }));
    BOOST_TEST(client.locks.instances()[0].pending_releases > 0U);
    BOOST_TEST(client.locks.instances()[0].pending_releases <= 1'000U);
    BOOST_TEST(most_pending <= 1'000U);
    for (std::size_t const i : {1U, 2U}) BOOST_TEST(client.sees_no_locks(servers[i]));
}

//
// Majorities
//

BOOST_AUTO_TEST_CASE(a_majority_that_is_down_fails_an_acquire_at_once) {
    for (auto const from_start : {true, false}) {
        for (std::size_t const n : {3U, 5U}) {
            BOOST_TEST_CONTEXT(n << " instances, " << (from_start ? "from the start" : "later")) {
                fleet servers(n);
                if (from_start) servers.kill(servers.quorum());
                test_client client(servers);
                if (!from_start) {
                    BOOST_TEST(client.all_up());
                    servers.kill(servers.quorum());
                }
                for (int i = 0; i < 3; ++i) {
                    auto const [e, l] = client.acquire("k");
                    BOOST_TEST((e == error_condition::unavailable), e.what());
                    BOOST_TEST((e == errc::no_quorum || e == errc::unreachable), e.what());
                    BOOST_REQUIRE(e.report() != nullptr);
                    BOOST_TEST(e.report()->instances.size() == n);
                    for (auto k = servers.quorum(); k < n; ++k)
                        BOOST_TEST(client.sees_no_locks(servers[k]));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_frozen_majority_fails_an_acquire_within_the_timeout) {
    fleet servers(3);
    test_client client(servers, hasty());
    BOOST_TEST(client.all_up());
    servers.freeze(2);
    for (int i = 0; i < 3; ++i) {
        auto const [e, l] = client.acquire("k");
        BOOST_TEST((e == error_condition::unavailable), e.what());
        BOOST_TEST((e == errc::no_quorum || e == errc::instance_timeout), e.what());
        BOOST_TEST(client.sees_no_locks(servers[2]));
    }
    servers.thaw_all();
    // The instances carry out the SET when they wake, and then the release behind it.
    check_nothing_left(client, servers);
    auto l = client.hold("k");
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(a_client_that_was_kept_busy_reads_replies_before_it_calls_them_overdue) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), brisk());
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k");
    BOOST_REQUIRE(client.sees(servers, "k", true));
    proxies.hold_replies();
    auto done = false, all_there = false;
    release_result how;
    held.release([&](release_result r) {
        how = r;
        done = true;
    });
    BOOST_REQUIRE(client.sees(servers, "k", false));
    asio::post(client.context, [&] {
        proxies.resume();
        all_there = wait_until([&] { return proxies.are_quiet(); });
        auto const overdue = lease_clock::now() + brisk().instance_timeout;
        while (lease_clock::now() < overdue) continue;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(all_there);
    BOOST_TEST(how.confirmed(), how.code().message());
    check_trusted(client);
}

BOOST_AUTO_TEST_CASE(a_client_that_was_kept_busy_before_it_sent_waits_for_the_reply) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), brisk());
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(client.until([&] { return proxies.are_quiet(); }));
    for (auto& proxy : proxies.all) proxy.delay_replies(20ms);
    auto const sent = client.locks.stats().batches;
    auto done = false;
    error how;
    lease held;
    client.locks.make_lock("k", long_lived).acquire([&](error e, lease l) {
        how = std::move(e);
        held = std::move(l);
        done = true;
    });
    // The acquire has started but is not written. Then the client does not run for a while.
    for (auto const& proxy : proxies.all)
        BOOST_TEST(proxy.replies_forwarded() == proxy.commands_forwarded());
    BOOST_TEST(client.locks.stats().batches == sent);
    auto const overdue = lease_clock::now() + brisk().instance_timeout + 100ms;
    while (lease_clock::now() < overdue) continue;
    BOOST_TEST(client.locks.stats().batches == sent);
    // Later commands do not shorten the time that the first has.
    client.pass(lease_clock::now() + 5ms);
    auto other = client.hold("other");
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(!how, how.what());
    check_trusted(client);
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.releases(other));
}

BOOST_AUTO_TEST_CASE(a_lease_whose_majority_dies_is_lost_by_its_deadline) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    servers.kill(2);
    loss_wait lost(l);
    auto const e = client.extend(l);
    BOOST_TEST((e == errc::unreachable || e == errc::lease_lost), e.what());
    BOOST_TEST(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::expired);
    BOOST_TEST(!l.held());
    BOOST_TEST((client.release(l) == errc::lease_lost));
    BOOST_TEST(client.locks.stats().extend_failed > 0U);
    BOOST_TEST(client.sees_no_locks(servers[2]));
}

BOOST_AUTO_TEST_CASE(a_release_without_a_majority_says_so) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k");
    servers.kill(2);
    auto const failed = client.release(l);
    BOOST_TEST((failed == errc::unreachable), failed.what());
    BOOST_TEST((failed.code() == error_condition::unavailable));
    BOOST_TEST(!l.held());
    BOOST_TEST(client.sees_no_locks(servers[2]));
}

BOOST_AUTO_TEST_CASE(loss_is_told_by_the_deadline_also_when_all_instances_hang) {
    for (auto const watchdog : {true, false}) {
        BOOST_TEST_CONTEXT((watchdog ? "watched" : "unwatched")) {
            fleet servers(3);
            test_client client(servers, hasty());
            BOOST_TEST(client.all_up());
            auto in_time = false;
            // If the machine stalls this process at the deadline, the test tries again.
            for (int i = 0; i < 3 && !in_time; ++i) {
                auto l = client.hold("k", {.ttl = renewed_ttl, .watchdog = watchdog});
                servers.freeze(3);
                auto const deadline = l.deadline();
                BOOST_TEST((deadline > lease_clock::now()));
                loss_wait lost(l);
                BOOST_TEST(client.until([&] { return lost.done; }));
                BOOST_TEST(lost.how == lease_end::expired);
                BOOST_TEST((l.deadline() == deadline));
                in_time = lost.when <= deadline;
                BOOST_TEST(!l.held());
                BOOST_TEST((l.remaining() == lease_clock::duration::zero()));
                BOOST_TEST((client.release(l) == errc::lease_lost));
                auto const e = client.extend(l);
                BOOST_TEST((e == errc::lease_lost), e.what());
                BOOST_TEST((e == error_condition::not_held));
                servers.thaw_all();
                check_nothing_left(client, servers);
                BOOST_TEST(client.all_up());
            }
            BOOST_TEST(in_time, "the loss was told after the deadline");
            BOOST_TEST(client.locks.stats().held == 0U);
        }
    }
}

//
// Connections and servers that come back
//

BOOST_AUTO_TEST_CASE(each_server_may_restart_in_turn_while_locks_are_taken) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    BOOST_TEST(client.all_up());
    auto const work = [&](auto enough) {
        for (auto i = 0; i < 10 || !enough(); ++i) {
            BOOST_REQUIRE(i < 20'000);
            auto l = client.hold("k" + std::to_string(i % 3));
            BOOST_TEST(client.releases(l));
        }
    };
    for (std::size_t i = 0; i < servers.size(); ++i) {
        auto const connections = client.locks.instances().at(i).connections;
        servers[i].kill();
        work([&] { return client.locks.instances().at(i).state == instance_state::down; });
        servers[i].restart();
        work([&] { return client.locks.instances().at(i).state == instance_state::up; });
        BOOST_TEST(client.locks.instances().at(i).connections == connections + 1);
    }
    BOOST_TEST(client.all_up());
    auto l = client.hold("k");
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_TEST(client.until([&] { return cli.exists("k"); }));
    }
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(all_servers_may_restart_at_once) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    BOOST_TEST(client.all_up());
    servers.kill(3);
    auto const [e, none] = client.acquire("k");
    BOOST_TEST((e == error_condition::unavailable), e.what());
    for (std::size_t i = 0; i < servers.size(); ++i)
        BOOST_TEST(client.becomes(i, instance_state::down));
    for (server& instance : servers) instance.restart();
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    BOOST_TEST(client.renews(2));
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(scripts_that_a_server_forgot_are_sent_again) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    BOOST_TEST(client.all_up());
    auto l = client.hold("k");
    forget_scripts(servers);
    BOOST_TEST(!client.extend(l));
    forget_scripts(servers);
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
    // Many releases at once. Some are sent before the first NOSCRIPT arrives.
    std::vector<lease> many;
    for (int i = 0; i < 100; ++i) many.push_back(client.hold("k" + std::to_string(i)));
    forget_scripts(servers);
    auto released = 0;
    for (auto& held : many) held.release([&](release_result r) { released += r ? 1 : 0; });
    BOOST_TEST(client.until([&] { return released == 100; }), released);
    check_nothing_left(client, servers);

    servers[0].kill();
    BOOST_TEST(client.becomes(0, instance_state::down));
    servers[0].restart();
    BOOST_TEST(client.all_up());
    auto after = client.hold("after");
    BOOST_TEST(!client.extend(after));
    BOOST_TEST(client.releases(after));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_lost_reply_leaks_no_key) {
    for (auto const kind : {proxy::cut_kind::end, proxy::cut_kind::reset}) {
        server redis;
        redis_cli cli(redis);
        proxy wire(redis);
        test_client client({wire.url()});
        BOOST_TEST(client.all_up());
        wire.hold_replies();
        auto done = false;
        error e;
        client.locks.make_lock("k", impatient()).acquire([&](error got, lease) {
            e = std::move(got);
            done = true;
        });
        BOOST_REQUIRE(client.until([&] { return cli.exists("k") && wire.replies_held() > 0; }));
        BOOST_TEST(!done);
        wire.cut(kind);
        wire.resume();
        BOOST_REQUIRE(client.until([&] { return done; }));
        BOOST_TEST((e == error_condition::unavailable), e.what());
        BOOST_TEST(client.sees_no_locks(redis));
        BOOST_TEST(client.locks.instances().at(0).connections == 2U);
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
    }
}

BOOST_AUTO_TEST_CASE(a_lost_reply_of_one_instance_leaks_no_key_there) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    proxy wire(servers[0]);
    test_client client({wire.url(), servers[1].url(), servers[2].url()});
    BOOST_TEST(client.all_up());
    wire.hold_replies();
    auto l = client.hold("k");
    BOOST_REQUIRE(client.until([&] { return cli.exists("k") && wire.replies_held() > 0; }));
    wire.cut();
    wire.resume();
    BOOST_TEST(client.becomes(0, instance_state::down));
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.sees_no_locks(servers[0]));
}

BOOST_AUTO_TEST_CASE(an_answer_after_the_acquire_has_failed_leaks_no_key) {
    fleet servers(3);
    proxy first(servers[0]);
    proxy second(servers[1]);
    test_client client({first.url(), second.url(), servers[2].url()}, hasty());
    BOOST_TEST(client.all_up());
    first.hold_requests();
    second.hold_requests();
    auto const [e, l] = client.acquire("k");
    BOOST_TEST((e == error_condition::unavailable), e.what());
    first.resume();
    second.resume();
    // Each instance has carried out the SET. So an empty server shows that the key was released.
    for (server& each : servers) {
        redis_cli cli(each);
        BOOST_TEST(client.until([&] { return cli.info("cmdstat_set") != ""; }));
        BOOST_TEST(client.sees_no_locks(each));
    }
    BOOST_TEST(client.all_up());
}

BOOST_AUTO_TEST_CASE(a_release_is_kept_for_an_instance_that_is_down) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    proxy wire(servers[0]);
    test_client client({wire.url(), servers[1].url(), servers[2].url()});
    BOOST_TEST(client.all_up());
    auto l = client.hold("k");
    BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
    wire.down();
    BOOST_TEST(client.becomes(0, instance_state::down));
    BOOST_TEST(client.releases(l));
    BOOST_TEST(cli.exists("k"));
    BOOST_TEST(client.locks.instances().at(0).pending_releases == 1U);
    wire.up();
    BOOST_TEST(client.sees_no_locks(servers[0]));
    BOOST_TEST(client.locks.instances().at(0).pending_releases == 0U);
    BOOST_TEST(client.locks.stats().releases_dropped == 0U);
}

BOOST_AUTO_TEST_CASE(a_pending_release_is_not_sent_once_its_key_has_expired) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    proxy wire(servers[0]);
    std::mutex mutex;
    std::multiset<std::string> released; // keys whose release the proxy saw
    wire.intercept([&](command_line const& words) -> std::optional<std::string> {
        auto const by_script = words.at(0) == "EVALSHA" && words.size() > 3; // not the probe's
        if (by_script || words.at(0) == "DELIFEQ" || words.at(0) == "DELEX") {
            std::lock_guard const lock(mutex);
            released.insert(words.at(by_script ? 3 : 1));
        }
        return std::nullopt;
    });
    test_client client({wire.url(), servers[1].url(), servers[2].url()});
    BOOST_TEST(client.all_up());
    auto soon = client.hold("short", unwatched(2s));
    auto later = client.hold("long");
    BOOST_REQUIRE(client.until([&] { return cli.dbsize() == 2; }));
    auto const expired = soon.deadline() + 300ms; // later than the drift allowance
    wire.down();
    BOOST_TEST(client.becomes(0, instance_state::down));
    BOOST_TEST(client.releases(soon));
    BOOST_TEST(client.releases(later));
    client.pass(expired);
    wire.up();
    BOOST_TEST(client.sees_no_locks(servers[0]));
    BOOST_TEST(client.all_up());
    // A later command on the same connection was answered. So the proxy has seen all earlier ones.
    auto probe = client.hold("behind");
    BOOST_TEST(client.releases(probe));
    BOOST_REQUIRE(client.until([&] {
        std::lock_guard const lock(mutex);
        return released.count("behind") == 1;
    }));
    std::lock_guard const lock(mutex);
    BOOST_TEST(released.count("short") == 0U);
    BOOST_TEST(released.count("long") == 1U);
    wire.intercept({});
}

BOOST_AUTO_TEST_SUITE_END()
