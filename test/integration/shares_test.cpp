// A shared lease lasts until its last share is given up.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"
#include "support/wait.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(shares)

BOOST_AUTO_TEST_CASE(a_shared_lease_lasts_until_the_last_of_it_is_given_up) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    std::array<std::size_t, 3> order{0, 1, 2};
    do {
        // Each share ends by release() or by its destruction.
        for (unsigned how = 0; how < 8; ++how) {
            BOOST_TEST_CONTEXT("order " << order[0] << order[1] << order[2] << ", how " << how) {
                std::vector<lease> all;
                all.push_back(client.hold("k"));
                all.push_back(all[0].share());
                all.push_back(all[1].share()); // a share of a share
                BOOST_REQUIRE(client.sees(servers, "k", true));
                auto const deadline = all[0].deadline();
                auto const before = client.locks.stats();
                for (std::size_t i = 0; i < all.size(); ++i) {
                    auto& part = all[order[i]];
                    BOOST_TEST(part.held());
                    BOOST_TEST((part.deadline() == deadline));
                    BOOST_TEST(part.key() == "k");
                    auto const last = i + 1 == all.size();
                    if ((how >> order[i] & 1U) == 0) {
                        auto done = false;
                        release_result result(errc::no_quorum);
                        part.release([&](release_result r) {
                            result = r;
                            done = true;
                        });
                        BOOST_TEST(!done); // never within the call
                        BOOST_REQUIRE(client.until([&] { return done; }));
                        BOOST_TEST(result.confirmed(), result.code().message());
                        BOOST_TEST(!part.held());
                        BOOST_TEST((part.remaining() == 0s));
                        BOOST_TEST((client.release(part) == errc::lease_released));
                        BOOST_TEST(throws_released([&] { (void)part.share(); }));
                    } else {
                        part = lease();
                        client.context.poll();
                    }
                    if (last) break;
                    for (std::size_t rest = i + 1; rest < all.size(); ++rest) {
                        BOOST_TEST(all[order[rest]].held());
                        BOOST_TEST((all[order[rest]].remaining() > 0s));
                    }
                    BOOST_TEST(client.locks.stats().held == 1U);
                    BOOST_TEST(client.locks.stats().commands == before.commands);
                    BOOST_TEST(copies(servers, "k") == servers.size());
                }
                BOOST_TEST(client.sees(servers, "k", false));
                BOOST_TEST(client.until(
                    [&] { return client.locks.stats().released == before.released + 1; }));
                BOOST_TEST(client.locks.stats().held == 0U);
                BOOST_TEST(client.locks.stats().lost == 0U);
            }
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(there_is_nothing_to_share_of_a_lease_that_is_over) {
    fleet servers(1);
    test_client client(servers);
    lease empty;
    BOOST_TEST(throws_released([&] { (void)empty.share(); }));
    auto held = client.hold("k");
    lease const moved = std::move(held);
    BOOST_TEST(throws_released([&] { (void)held.share(); }));
    BOOST_TEST(moved.held());
    auto released = client.hold("other");
    BOOST_TEST(client.releases(released));
    BOOST_TEST(throws_released([&] { (void)released.share(); }));
    auto shared = client.hold("third");
    auto share = shared.share();
    BOOST_TEST(client.releases(share));
    BOOST_TEST(throws_released([&] { (void)share.share(); }));
    BOOST_TEST(shared.held());
}

BOOST_AUTO_TEST_CASE(a_share_that_is_replaced_or_moved_gives_up_its_own_part_alone) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    auto first = held.share();
    auto second = held.share();
    first = std::move(second);
    BOOST_TEST(first.held());
    BOOST_TEST(!second);
    auto another = client.hold("other");
    held = std::move(another);
    BOOST_TEST(held.key() == "other");
    BOOST_TEST(first.held());
    BOOST_TEST(client.sees(servers, "k", true));
    first = lease();
    BOOST_TEST(client.sees(servers, "k", false));
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(extensions_and_ends_concern_all_shares) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = 60s, .watchdog = false});
    auto share = held.share();
    auto const before = held.deadline();
    BOOST_TEST(!client.extend(share));
    BOOST_TEST((held.deadline() > before));
    BOOST_TEST((held.deadline() == share.deadline()));
    loss_wait of_held, of_share;
    of_held.start(held);
    of_share.start(share);
    // The first share is released, and the lease continues.
    BOOST_TEST(client.releases(held));
    BOOST_TEST(held.ended_by() == lease_end::released);
    BOOST_TEST(share.ended_by() == lease_end::none);
    BOOST_TEST(!client.extend(share));
    BOOST_TEST(!of_held.done);
    BOOST_TEST(!of_share.done);
    BOOST_TEST(client.releases(share));
    BOOST_TEST(client.until([&] { return of_held.done && of_share.done; }));
    BOOST_TEST(of_held.how == lease_end::released);
    BOOST_TEST(of_share.how == lease_end::released);
}

BOOST_AUTO_TEST_CASE(a_loss_is_told_to_all_shares) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = renewed_ttl});
    auto share = held.share();
    auto third = share.share();
    loss_wait w[3];
    w[0].start(held);
    w[1].start(share);
    w[2].start(third);
    for (server& instance : servers) redis_cli(instance).del("k");
    BOOST_TEST(client.until([&] { return w[0].done && w[1].done && w[2].done; }));
    for (auto const& each : w) BOOST_TEST(each.how == lease_end::key_gone);
    for (auto* const part : {&held, &share, &third}) {
        BOOST_TEST(!part->held());
        auto const released = client.release(*part);
        BOOST_TEST((released == errc::lease_lost), released.code().message());
        BOOST_TEST(part->ended_by() == lease_end::key_gone);
    }
    BOOST_TEST(client.locks.stats().lost == 1U);
}

BOOST_AUTO_TEST_CASE(a_waiter_gets_the_lock_when_the_last_share_goes) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    auto share = held.share();
    lease next;
    client.locks.make_lock("k", long_lived).acquire([&](error e, lease l) {
        if (!e) next = std::move(l);
    });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_TEST(client.releases(held));
    for (int i = 0; i < 10; ++i) {
        asio::post(client.context, [] {});
        client.context.restart();
        client.context.poll();
    }
    BOOST_TEST(!next);
    share = lease();
    BOOST_TEST(client.until([&] { return next.held(); }));
    BOOST_TEST(client.releases(next));
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
                            mine = std::move(another); // the lease may be over
                            if (!mine.held()) return;
                        }
                    }
                });
            }
            auto const released = held.release(asio::use_future);
            for (auto& thread : all) thread.join();
            BOOST_TEST(wrong == 0);
            // All shares are gone.
            BOOST_TEST(wait_until([&] { return locks.stats().held == 0; }));
            BOOST_TEST(wait_until([&] { return copies(servers, "k") == 0; }));
            // The servers' answers may come later.
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

BOOST_AUTO_TEST_SUITE_END()
