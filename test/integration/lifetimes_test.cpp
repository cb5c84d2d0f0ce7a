// Objects that outlive others. No handler is lost while its context runs, none runs later, nothing
// leaks, and keys are released if that is still possible.
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/heap.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Each handler has a copy. If only the test has one, no handler is left.
using witness = std::shared_ptr<int>;

struct counts {
    std::size_t won = 0, shut_down = 0, lost = 0, released = 0, other = 0;
    std::size_t all() const { return won + shut_down + lost + released + other; }
};

auto count_in(counts& c, witness w) {
    return [&c, w]<class... Results>(error e, Results... results) {
        if constexpr ((std::is_same_v<Results, lease_end> || ...)) {
            if (!e) return void((++(is_loss(results) ? c.lost : c.released), ...));
        }
        if (!e) {
            ++c.won;
        } else if (e == errc::shut_down) {
            ++c.shut_down;
        } else {
            ++c.other;
        }
    };
}

} // namespace

BOOST_AUTO_TEST_SUITE(lifetimes)

BOOST_AUTO_TEST_CASE(a_lease_that_is_destroyed_is_released) {
    fleet servers(3);
    test_client client(servers);
    {
        auto const held = client.hold("k");
        BOOST_TEST(client.sees(servers, "k", true));
    }
    BOOST_TEST(client.sees(servers, "k", false));
    BOOST_TEST(client.locks.stats().held == 0U);
    // An assignment ends only the lease that it replaces.
    auto held = client.hold("first");
    held = client.hold("second");
    BOOST_TEST(client.sees(servers, "first", false));
    BOOST_TEST(client.sees(servers, "second", true));
    BOOST_TEST(held.held());
}

BOOST_AUTO_TEST_CASE(a_lease_may_go_while_its_operations_are_under_way) {
    fleet servers(3);
    test_client client(servers);
    auto told = 0;
    {
        auto held = client.hold("k", {.ttl = renewed_ttl});
        held.extend([&](error e) {
            BOOST_TEST(!e, e.what());
            ++told;
        });
    }
    BOOST_TEST(client.until([&] { return told == 1; }));
    BOOST_TEST(client.sees(servers, "k", false));
    {
        auto held = client.hold("k");
        held.release([&](release_result r) {
            BOOST_TEST(r.confirmed());
            ++told;
        });
    }
    BOOST_TEST(client.until([&] { return told == 2; }));
    {
        // A wait for the end does not keep the lock.
        auto held = client.hold("k");
        held.wait_end([&](error e, lease_end how) {
            BOOST_TEST(!e, e.what());
            BOOST_TEST(how == lease_end::released);
            ++told;
        });
    }
    BOOST_TEST(client.until([&] { return told == 3; }));
    BOOST_TEST(client.until([&] { return client.locks.stats().held == 0; }));
}

// Each answer comes in time, but there are several batches, one after another.
BOOST_AUTO_TEST_CASE(a_shutdown_does_not_wait_for_all_answers_of_a_slow_server) {
    constexpr std::size_t count = 30'000;
    server instance;
    proxy wire(instance);
    auto options = trusting(brisk());
    options.instance_timeout = 3s; // a slow machine has some of the answers by then
    test_client client({wire.url()}, options);
    std::vector<lease> held;
    held.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        client.locks.make_lock("k" + std::to_string(i), unwatched(60s))
            .acquire([&](error e, lease l) {
                if (!e) held.push_back(std::move(l));
            });
    }
    BOOST_REQUIRE(client.until([&] { return held.size() == count; }, 60s));
    auto const before = wire.replies_forwarded();
    wire.delay_replies(2'100ms);
    auto released = 0, ended = 0;
    held.back().release([&](release_result) { ++released; });
    client.locks.shutdown([&](error) { ++ended; });
    BOOST_TEST(client.until([&] { return ended == 1 && released == 1; }, 60s));
    BOOST_TEST(wire.replies_forwarded() > before);
    BOOST_TEST(wire.replies_forwarded() < before + count);
}

BOOST_AUTO_TEST_CASE(a_lease_may_be_moved_onto_itself) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k");
    auto const deadline = held.deadline();
    auto& same = held;
    held = std::move(same);
    BOOST_TEST(held.held());
    BOOST_TEST((held.deadline() == deadline));
    BOOST_TEST(held.key() == "k");
    BOOST_TEST(!client.extend(held));
    BOOST_TEST(client.locks.stats().held == 1U);
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(client.releases(held));
    lease empty;
    auto& nothing = empty;
    empty = std::move(nothing);
    BOOST_TEST(!empty);
}

BOOST_AUTO_TEST_CASE(a_lock_may_go_during_its_acquire) {
    fleet servers(1);
    test_client client(servers);
    lease held;
    {
        auto const key = std::make_unique<lock>(client.locks.make_lock("k"));
        key->acquire([&](error, lease l) { held = std::move(l); });
    }
    BOOST_TEST(client.until([&] { return held.held(); }));
    BOOST_TEST(held.key() == "k");
}

BOOST_AUTO_TEST_CASE(destroying_the_client_ends_waits_and_releases_leases) {
    fleet servers(3);
    asio::io_context context;
    auto const w = std::make_shared<int>();
    counts acquires;
    counts ends;
    lease held;
    std::optional<lock> survivor;
    {
        client locks(context.get_executor(), addresses_of(servers), patient());
        survivor = locks.make_lock("k", long_lived);
        survivor->acquire([&](error e, lease l) {
            BOOST_TEST(!e, e.what());
            held = std::move(l);
        });
        BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
        held.wait_end(count_in(ends, w));
        for (int i = 0; i < 10; ++i) survivor->acquire(count_in(acquires, w));
        BOOST_REQUIRE(run_until(context, [&] { return locks.stats().waiters == 10; }));
    }
    BOOST_REQUIRE(run_until(context, [&] { return acquires.all() == 10 && ends.all() == 1; }));
    BOOST_TEST(acquires.shut_down == 10U);
    BOOST_TEST(ends.lost == 1U); // an end is no error
    BOOST_TEST(held.ended_by() == lease_end::shut_down);
    BOOST_TEST(!held.held());
    // The client has no work left, so the context stops.
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    BOOST_TEST(w.use_count() == 1);
    check_nothing_left(servers);

    // The remaining lease and lock report the end of the client.
    std::optional<release_result> released;
    held.release([&](release_result r) { released = r; });
    survivor->acquire(count_in(acquires, w));
    BOOST_REQUIRE(run_until(context, [&] { return released && acquires.all() == 11; }));
    BOOST_TEST((*released == errc::lease_lost));
    BOOST_TEST(acquires.shut_down == 11U);
}

BOOST_AUTO_TEST_CASE(a_client_that_ends_in_mid_round_gives_back_what_was_granted) {
    for (auto const by_shutdown : {false, true}) {
        fleet servers(3);
        proxy_group proxies(servers);
        asio::io_context context;
        auto const w = std::make_shared<int>();
        counts acquires;
        auto shut = false;
        {
            client locks(context.get_executor(), proxies.addresses(), patient());
            auto const key = locks.make_lock("k", long_lived);
            // An instance without a connection would not get the key.
            BOOST_REQUIRE(run_until(context, [&] { return is_up(locks); }));
            proxies.hold_replies();
            key.acquire(count_in(acquires, w));
            BOOST_REQUIRE(run_until(context, [&] { return copies(servers, "k") == 3; }));
            if (by_shutdown) locks.shutdown([&](error) { shut = true; });
        }
        // The acquire ends while the servers are still silent.
        BOOST_REQUIRE(run_until(context, [&] { return acquires.all() == 1; }));
        BOOST_TEST(acquires.shut_down == 1U);
        BOOST_TEST(!shut);
        proxies.resume();
        context.restart();
        context.run_for(10s);
        BOOST_TEST(context.stopped());
        BOOST_TEST(shut == by_shutdown);
        BOOST_TEST(w.use_count() == 1);
        check_nothing_left(servers);
    }
}

BOOST_AUTO_TEST_CASE(leases_of_a_destroyed_client_still_answer) {
    fleet servers(1);
    asio::io_context context;
    lease kept;
    lease released;
    auto given_back = false;
    {
        client locks(context.get_executor(), addresses_of(servers), patient());
        locks.make_lock("kept", long_lived).acquire([&](error, lease l) { kept = std::move(l); });
        locks.make_lock("released", long_lived).acquire([&](error, lease l) {
            released = std::move(l);
            released.release([&](release_result r) { given_back = r.confirmed(); });
        });
        BOOST_REQUIRE(run_until(context, [&] { return kept.held() && given_back; }));
    }
    BOOST_REQUIRE(run_until(context, [&] { return !kept.held(); }));
    context.run_for(10s);
    BOOST_TEST(context.stopped()); // the client has no work left
    BOOST_TEST((kept.remaining() == 0s));
    BOOST_TEST(kept.key() == "kept");
    std::optional<error> extended, extended_released;
    std::optional<lease_end> lost, ended_released;
    std::optional<release_result> again;
    kept.extend([&](error e) { extended = std::move(e); });
    kept.wait_end(noting(lost));
    released.extend([&](error e) { extended_released = std::move(e); });
    released.wait_end(noting(ended_released));
    released.release([&](release_result r) { again = r; });
    BOOST_REQUIRE(run_until(
        context, [&] { return extended && lost && extended_released && ended_released && again; }));
    BOOST_TEST((*extended == errc::lease_lost), extended->what());
    BOOST_TEST(*lost == lease_end::shut_down);
    BOOST_TEST(kept.ended_by() == lease_end::shut_down);
    BOOST_TEST((*extended_released == errc::lease_released), extended_released->what());
    BOOST_TEST(*ended_released == lease_end::released);
    BOOST_TEST(released.ended_by() == lease_end::released);
    BOOST_TEST((*again == errc::lease_released));
}

BOOST_AUTO_TEST_CASE(
    a_client_that_ends_while_the_context_is_stopped_is_settled_when_it_runs_again) {
    fleet servers(3);
    asio::io_context context;
    auto const w = std::make_shared<int>();
    counts acquires;
    counts ends;
    {
        std::optional<client> locks(std::in_place, context.get_executor(), addresses_of(servers),
                                    patient());
        BOOST_REQUIRE(run_until(context, [&] { return is_up(*locks); }));
        auto const key = locks->make_lock("k", long_lived);
        lease held;
        key.acquire([&](error, lease l) { held = std::move(l); });
        BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
        // The lease is granted at a quorum. The last instance may get the key a little later.
        for (server& instance : servers) {
            redis_cli cli(instance);
            BOOST_REQUIRE(run_until(context, [&] { return cli.exists("k"); }));
        }
        held.wait_end(count_in(ends, w));
        for (int i = 0; i < 3; ++i) key.acquire(count_in(acquires, w));
        BOOST_REQUIRE(run_until(context, [&] { return locks->stats().pending == 3; }));
        context.stop();
        locks.reset();
    }
    BOOST_TEST(acquires.all() + ends.all() == 0U);
    for (server& instance : servers) BOOST_TEST(redis_cli(instance).dbsize() == 1);
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    BOOST_TEST(acquires.shut_down == 3U);
    BOOST_TEST(ends.released == 1U); // by the destructor, before the client ended
    BOOST_TEST(w.use_count() == 1);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_shutdown_ends_everything_and_may_be_repeated) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    counts acquires;
    auto const w = std::make_shared<int>();
    for (int i = 0; i < 3; ++i) client.locks.make_lock("k").acquire(count_in(acquires, w));
    auto ended = 0;
    for (int i = 0; i < 2; ++i) {
        client.locks.shutdown([&](error e) {
            BOOST_TEST(!e, e.what());
            ++ended;
        });
    }
    BOOST_REQUIRE(client.until([&] { return ended == 2; }));
    check_nothing_left(servers);
    BOOST_TEST(client.until([&] { return acquires.shut_down == 3; }));
    BOOST_TEST(!held.held());
    BOOST_TEST((client.acquire("k").first == errc::shut_down));
    client.locks.shutdown([&](error) { ++ended; });
    BOOST_TEST(client.until([&] { return ended == 3; }));
    for (auto const& instance : client.locks.instances())
        BOOST_TEST((instance.state == instance_state::down));
}

BOOST_AUTO_TEST_CASE(a_shutdown_does_not_wait_for_instances_that_hang) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto const held = client.hold("k");
    servers.freeze(3);
    auto ended = false;
    client.locks.shutdown([&](error) { ended = true; });
    BOOST_TEST(client.until([&] { return ended; }));
    BOOST_TEST(!held.held());
    servers.thaw_all();
}

BOOST_AUTO_TEST_CASE(clients_that_are_gone_leave_no_memory_behind) {
    fleet servers(1);
    asio::io_context context;
    auto const one_life = [&]() -> asio::awaitable<void> {
        client locks(context.get_executor(), addresses_of(servers), patient());
        for (int i = 0; i < 10; ++i) {
            auto held = co_await locks.make_lock("k").acquire();
            co_await held.release();
        }
        co_await locks.shutdown();
    };
    auto const lives = [&](int count) {
        for (int i = 0; i < count; ++i) run(context, one_life);
        context.restart();
        context.poll();
        return heap_in_use();
    };
    auto const before = lives(20);
    // A leaked client would take at least 9 kB.
    BOOST_TEST(lives(100) < before + 200'000);
}

BOOST_AUTO_TEST_CASE(an_assigned_client_shuts_down_the_client_that_it_replaces) {
    fleet servers(1);
    test_client client(servers);
    auto const held = client.hold("k");
    auto const old = client.locks.make_lock("k");
    client.locks =
        holdfast::client(client.context.get_executor(), addresses_of(servers), patient());
    BOOST_TEST(client.until([&] { return !held.held(); }));
    counts c;
    old.acquire(count_in(c, std::make_shared<int>()));
    BOOST_TEST(client.until([&] { return c.shut_down == 1; }));
    auto again = client.hold("k");
    BOOST_TEST(client.releases(again));
}

BOOST_AUTO_TEST_CASE(an_empty_lease_is_over) {
    fleet servers(1);
    test_client client(servers);
    lease empty;
    auto held = client.hold("k");
    lease const moved = std::move(held);
    BOOST_TEST(moved.held());
    for (lease* l : {&empty, &held}) {
        BOOST_TEST(!*l);
        BOOST_TEST(!l->held());
        BOOST_TEST(l->ended_by() == lease_end::released);
        BOOST_TEST((l->stalled() == 0ns));
        BOOST_TEST((l->remaining() == 0s));
        BOOST_TEST(l->key().empty());
        for (auto const& call : std::vector<void (*)(lease&)>{
                 [](lease& e) { (void)e.release(); }, [](lease& e) { (void)e.extend(); },
                 [](lease& e) { (void)e.wait_end(); }}) {
            BOOST_CHECK_EXCEPTION(call(*l), system_error, [](system_error const& e) {
                return e.code() == errc::lease_released;
            });
        }
    }
}

BOOST_AUTO_TEST_CASE(a_moved_from_object_says_so) {
    fleet servers(1);
    test_client client(servers);
    auto const is_shut_down = [](system_error const& e) { return e.code() == errc::shut_down; };
    auto key = client.locks.make_lock("k", long_lived);
    auto const moved_lock = std::move(key);
    BOOST_TEST(key.key().empty());
    BOOST_TEST((key.options().ttl == lock_options{}.ttl));
    BOOST_TEST(!key.get_executor());
    BOOST_CHECK_EXCEPTION((void)key.acquire(), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)key.try_acquire(), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)key.try_acquire_for(1s), system_error, is_shut_down);
    BOOST_TEST(moved_lock.key() == "k");

    holdfast::client moved = std::move(client.locks);
    auto& old = client.locks;
    auto const body = [](lease&) -> asio::awaitable<void> { co_return; };
    BOOST_TEST(!old.get_executor());
    BOOST_CHECK_EXCEPTION((void)old.make_lock("k"), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)with_lock(old.make_lock("k"), body), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)old.shutdown(), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)old.drain(1s), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)old.instances(), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)old.stats(), system_error, is_shut_down);
    old.close();
    BOOST_TEST(moved.instances().size() == 1U);
    old = std::move(moved);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
}

namespace {

// Objects that a program may still have when their context is destroyed.
struct left_over {
    std::optional<client> locks;
    std::optional<lock> key;
    lease held, shared, released;
};

/// What destructors may call does not throw. Handlers with an executor of their own are called, and
/// others are destroyed.
void check_ends_without_context(left_over& all) {
    asio::io_context elsewhere;
    auto const own = elsewhere.get_executor();
    std::vector<error_code> told;
    auto const note = [&](release_result r) { told.push_back(r.code()); };
    auto const note_error = [&](error const& e) { told.push_back(e.code()); };
    for (lease* l : {&all.held, &all.shared, &all.released}) {
        (void)l->release();
        l->release(asio::detached);
        l->release(asio::bind_executor(own, note));
        l->detach();
    }
    auto const inline_only = [&](release_result) { BOOST_ERROR("called inside a call"); };
    all.held.release(asio::bind_executor(asio::system_executor(), asio::detached));
    all.held.release(inline_only);
    auto coroutine_told = false;
    auto const await_release = [&]() -> asio::awaitable<void> {
        auto const how = co_await all.held.release();
        coroutine_told = how == errc::shut_down;
    };
    asio::co_spawn(elsewhere, await_release, asio::detached);
    all.locks->shutdown(asio::detached);
    all.locks->shutdown(asio::bind_executor(own, note_error));
    all.locks->drain(1s, asio::bind_executor(own, note_error));
    BOOST_TEST(told.empty());
    elsewhere.run();
    BOOST_TEST(coroutine_told);
    BOOST_REQUIRE(told.size() == 5U);
    auto const shut_down = make_error_code(errc::shut_down);
    for (auto const i : {0U, 1U, 2U, 4U}) BOOST_TEST(told[i] == shut_down);
    BOOST_TEST(!told[3].failed());
}

void check_dead(left_over& all) {
    auto const is_shut_down = [](system_error const& e) { return e.code() == errc::shut_down; };
    for (lease* l : {&all.held, &all.shared}) {
        BOOST_TEST(static_cast<bool>(*l));
        BOOST_TEST(!l->held());
        BOOST_TEST(l->ended_by() == lease_end::shut_down);
        BOOST_TEST((l->stalled() == 0ns));
        BOOST_TEST((l->remaining() == 0s));
        BOOST_TEST(l->key() == "k");
        BOOST_CHECK_EXCEPTION((void)l->extend(), system_error, is_shut_down);
        BOOST_CHECK_EXCEPTION((void)l->wait_end(), system_error, is_shut_down);
        BOOST_CHECK_EXCEPTION(l->extend_while([] { return true; }), system_error, is_shut_down);
        auto const another = l->share();
        BOOST_TEST(!another.held());
    }
    BOOST_TEST(!all.released.held());
    BOOST_TEST(all.released.ended_by() == lease_end::released);
    BOOST_TEST(all.key->key() == "k");
    BOOST_TEST(!all.key->get_executor());
    BOOST_CHECK_EXCEPTION((void)all.key->acquire(), system_error, is_shut_down);
    BOOST_CHECK_EXCEPTION((void)all.key->acquire([](error, lease) {}), system_error, is_shut_down);
    BOOST_TEST(!all.locks->get_executor());
    BOOST_TEST(all.locks->instances().empty());
    BOOST_TEST(all.locks->stats().held == 0U);
    auto const fresh = all.locks->make_lock("fresh");
    BOOST_CHECK_EXCEPTION((void)fresh.try_acquire(), system_error, is_shut_down);
    auto const body = [](lease&) -> asio::awaitable<void> { co_return; };
    BOOST_CHECK_EXCEPTION((void)with_lock(all.locks->make_lock("k"), body), system_error,
                          is_shut_down);
    check_ends_without_context(all);
    all.locks->close();
}

/// Makes objects, and destroys their context.
void outlive(left_over& all, fleet const& servers, client_options const& options, bool on_strand,
             bool waits) {
    auto context = std::make_unique<asio::io_context>();
    asio::any_io_executor executor = context->get_executor();
    if (on_strand) executor = asio::make_strand(*context);
    all.locks.emplace(executor, addresses_of(servers), options);
    executor = {}; // a strand must not outlive its context
    all.key = all.locks->make_lock("k", {.ttl = 5s});
    all.key->acquire([&](error, lease l) { all.held = std::move(l); });
    all.locks->make_lock("other", {.ttl = 5s}).acquire([&](error, lease l) {
        all.released = std::move(l);
        all.released.release([](release_result) {});
    });
    BOOST_REQUIRE(
        run_until(*context, [&] { return all.held.held() && all.locks->stats().held == 1; }));
    all.shared = all.held.share();
    if (waits) {
        all.held.wait_end([](error, lease_end) {});
        all.key->acquire([](error, lease) {});
        all.locks->drain(1h, [](error) {});
        context->restart();
        context->poll_one();
    }
    context.reset();
}

} // namespace

BOOST_AUTO_TEST_CASE(objects_that_outlive_their_context_are_harmless) {
    fleet servers(3);
    auto plain = hasty();
    plain.thread_safe = false;
    for (auto const& options : {hasty(), plain}) {
        for (auto const on_strand : {false, true}) {
            for (auto const waits : {false, true}) {
                for (auto const client_last : {false, true}) {
                    BOOST_TEST_CONTEXT("thread_safe " << options.thread_safe << " strand "
                                                      << on_strand << " waits " << waits
                                                      << " client last " << client_last) {
                        left_over all;
                        outlive(all, servers, options, on_strand, waits);
                        check_dead(all);
                        if (client_last) {
                            all.held = {};
                            all.shared = {};
                            all.released = {};
                            all.key.reset();
                            all.locks.reset();
                        } else {
                            all.locks.reset();
                            all.key.reset();
                        }
                        for (server& instance : servers) redis_cli(instance).flush();
                    }
                }
            }
        }
    }
}

// Asio destroys the frames of coroutines when their context ends. The destructors in them may not
// throw.
BOOST_AUTO_TEST_CASE(a_destructor_may_end_a_lease_and_a_client_while_their_context_ends) {
    struct at_exit {
        client& locks;
        lease held, left;
        ~at_exit() {
            held.release(asio::detached);
            left.detach();
            locks.drain(1s, asio::detached);
            locks.shutdown(asio::detached);
        }
    };
    fleet servers(3);
    auto holds = false;
    {
        auto context = std::make_unique<asio::io_context>();
        client locks(context->get_executor(), addresses_of(servers), patient());
        auto const server_program = [&]() -> asio::awaitable<void> {
            at_exit ends{locks, {}, {}};
            ends.held = co_await locks.make_lock("k", long_lived).acquire();
            ends.left = co_await locks.make_lock("left", long_lived).acquire();
            holds = true;
            co_await ends.held.wait_end();
        };
        asio::co_spawn(*context, server_program, asio::detached);
        BOOST_REQUIRE(run_until(*context, [&] { return holds; }));
        context.reset();
    }
}

// All objects have one scope, and the usual order.
BOOST_AUTO_TEST_CASE(a_client_that_is_closed_lets_its_thread_end) {
    fleet servers(3);
    auto const program = [&](bool with_lease) {
        asio::io_context context;
        client locks(context.get_executor(), addresses_of(servers), patient());
        std::jthread thread([&] { context.run(); });
        close_at_exit const closes(locks);
        auto acquired = locks.make_lock("k", long_lived).acquire(asio::use_future);
        auto held = acquired.get();
        BOOST_TEST(held.held());
        if (!with_lease) BOOST_TEST(held.release(asio::use_future).get().confirmed());
    };
    for (auto const with_lease : {false, true}) {
        program(with_lease);
        check_nothing_left(servers);
    }
}

BOOST_AUTO_TEST_CASE(a_client_keeps_its_context_at_work_until_it_is_closed) {
    fleet servers(1);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    BOOST_REQUIRE(run_until(context, [&] { return is_up(locks); }));
    context.restart();
    context.run_for(50ms);
    BOOST_TEST(!context.stopped());
    locks.close();
    locks.close();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
}

BOOST_AUTO_TEST_CASE(a_context_that_goes_drops_every_handler_uncalled) {
    fleet servers(3);
    for (auto const frozen : {false, true}) {
        auto const w = std::make_shared<int>();
        counts c;
        {
            asio::io_context context;
            client locks(context.get_executor(), addresses_of(servers), hasty());
            lease held;
            locks.make_lock("held", {.ttl = 1s}).acquire([&, w](error, lease l) {
                held = std::move(l);
            });
            BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
            if (frozen) servers.freeze(3);
            held.wait_end(count_in(c, w));
            held.extend(count_in(c, w));
            for (int i = 0; i < 10; ++i) locks.make_lock("held").acquire(count_in(c, w));
            for (int i = 0; i < 100; ++i)
                locks.make_lock(std::to_string(i)).acquire(count_in(c, w));
            locks.shutdown(count_in(c, w));
            // Some calls wait in the inbox, and some commands are under way.
            context.restart();
            context.poll_one();
        }
        BOOST_TEST(c.all() == 0U);
        BOOST_TEST(w.use_count() == 1);
        servers.thaw_all();
    }
}

BOOST_AUTO_TEST_CASE(a_context_that_goes_lets_go_of_the_contexts_of_its_handlers) {
    fleet servers(1);
    auto const w = std::make_shared<int>();
    counts c;
    asio::io_context elsewhere;
    {
        asio::io_context context;
        client locks(context.get_executor(), addresses_of(servers), hasty());
        lease held;
        locks.make_lock("k", {.ttl = 1s}).acquire([&](error, lease l) { held = std::move(l); });
        BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
        held.wait_end(asio::bind_executor(elsewhere, count_in(c, w)));
        for (int i = 0; i < 10; ++i) {
            locks.make_lock("k").acquire(asio::bind_executor(elsewhere, count_in(c, w)));
        }
        BOOST_REQUIRE(run_until(context, [&] { return locks.stats().pending == 10; }));
        // The handlers keep their context busy as long as they may be called.
        BOOST_TEST(elsewhere.poll() == 0U);
        BOOST_TEST(!elsewhere.stopped());
    }
    BOOST_TEST(w.use_count() == 1);
    elsewhere.restart();
    BOOST_TEST(elsewhere.poll() == 0U);
    BOOST_TEST(elsewhere.stopped());
    BOOST_TEST(c.all() == 0U);
}

namespace {

asio::awaitable<void> live(client& locks, std::string key, witness) {
    auto const lock = locks.make_lock(key, {.ttl = 5s, .max_retry_delay = 2ms});
    auto held = co_await lock.acquire();
    auto [order, extended, failed, end] =
        co_await asio::experimental::make_parallel_group(held.extend(), held.wait_end())
            .async_wait(asio::experimental::wait_for_one(), asio::deferred);
    co_await held.release();
    auto const again = co_await lock.try_acquire_for(50ms, asio::as_tuple);
}

enum class order {
    client_first,
    leases_first,
    stopped
};

/// Runs a client for `steps` handlers. Returns true if it ended before that.
bool end_after(std::size_t steps, order how, fleet const& servers) {
    auto const w = std::make_shared<int>();
    auto ended = 0;
    {
        auto context = std::make_unique<asio::io_context>();
        std::optional<client> locks(std::in_place, context->get_executor(), addresses_of(servers),
                                    patient());
        lease kept;
        locks->make_lock("kept", {.ttl = 5s}).acquire([&kept, w](error, lease l) {
            kept = std::move(l);
        });
        auto const both = [&, w](std::exception_ptr thrown) {
            BOOST_TEST(!thrown);
            if (++ended == 2) locks->shutdown([&, w](error) { ++ended; });
        };
        for (int i = 0; i < 2; ++i) asio::co_spawn(*context, live(*locks, "contended", w), both);
        auto const until = std::chrono::steady_clock::now() + 20s;
        for (std::size_t i = 0; i < steps && ended < 3; ++i) {
            if (context->run_one_until(until) == 0) break;
        }
        BOOST_TEST((std::chrono::steady_clock::now() < until));
        switch (how) {
        case order::client_first:
            locks.reset();
            kept = {};
            break;
        case order::leases_first:
            kept = {};
            locks.reset();
            break;
        case order::stopped:
            context->stop();
            locks.reset();
            kept = {};
            break;
        }
        auto const before = ended;
        context.reset();
        BOOST_TEST(ended == before);
    }
    BOOST_TEST(w.use_count() == 1);
    return ended == 3;
}

} // namespace

BOOST_AUTO_TEST_CASE(it_may_end_after_any_number_of_handlers) {
    fleet servers(3);
    for (auto const how : {order::client_first, order::leases_first, order::stopped}) {
        auto finished = false;
        std::size_t steps = 0;
        for (; !finished && steps < 2'000; ++steps) {
            BOOST_TEST_CONTEXT("after " << steps << " handlers, order " << static_cast<int>(how)) {
                finished = end_after(steps, how, servers);
            }
            for (server& instance : servers) redis_cli(instance).flush();
        }
        BOOST_TEST(finished);
        BOOST_TEST(steps > 50U);
        BOOST_TEST_MESSAGE(steps << " handlers in a life");
    }
}

BOOST_AUTO_TEST_SUITE_END()
