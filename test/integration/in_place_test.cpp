// Handlers that the client calls in place: after a turn, and without a way through their executor.
// That happens on a context with one thread. A chain of calls then needs few steps of the context.
#include "integration/test_client.hpp"
#include "support/wait.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// The contexts on which one thread may run handlers in place.
enum class single {
    by_hint,  ///< asio::io_context{1}
    by_option ///< client_options::thread_safe = false
};

client_options options_of(single how) {
    auto options = patient();
    options.thread_safe = how != single::by_option;
    return options;
}

/// A client on a context with this concurrency hint.
struct hinted_client {
    asio::io_context context;
    client locks;

    hinted_client(fleet const& servers, int hint, client_options const& options = patient())
        : context(hint)
        , locks(context.get_executor(), addresses_of(servers), options) {
        BOOST_REQUIRE(until([&] { return is_up(locks); }));
    }
    hinted_client(fleet const& servers, single how)
        : hinted_client(servers, how == single::by_hint ? 1 : 4, options_of(how)) {}

    template <class Happened>
    [[nodiscard]] bool until(Happened happened) {
        return run_until(context, happened);
    }
};

/// The thread is busy until so much time has passed.
void work_for(lease_clock::duration length) {
    auto const end = lease_clock::now() + length;
    while (lease_clock::now() < end) {
    }
}

/// Acquires and releases a key again and again, by handlers. The holder works for so long.
class chain {
public:
    chain(lock key, unsigned turns, lease_clock::duration work = {})
        : key_(std::move(key))
        , left_(turns)
        , work_(work) {}

    void go() {
        if (left_ == 0) return;
        calling_ = true;
        key_.acquire([this](error e, lease l) {
            check(!e);
            held_ = std::move(l);
            if (work_ > work_.zero()) work_for(work_);
            calling_ = true;
            held_.release([this](release_result r) {
                check(r.confirmed());
                --left_;
                go();
            });
            calling_ = false;
        });
        calling_ = false;
    }
    bool over() const { return left_ == 0; }
    void stop() { left_ = 1; }
    unsigned left() const { return left_; }
    bool well() const { return well_; }

private:
    void check(bool succeeded) { well_ = well_ && succeeded && !calling_; }

    lock key_;
    lease held_;
    unsigned left_;
    lease_clock::duration work_;
    bool calling_ = false; ///< a call has not returned yet
    bool well_ = true;
};

/// Tries a key that is held, again and again.
class refusals {
public:
    refusals(lock key, unsigned tries)
        : key_(std::move(key))
        , left_(tries) {}

    void go() {
        if (left_ == 0) return;
        calling_ = true;
        key_.try_acquire([this](error e, lease) {
            well_ = well_ && e == errc::contended && e.report() != nullptr && !calling_;
            --left_;
            go();
        });
        calling_ = false;
    }
    bool over() const { return left_ == 0; }
    bool well() const { return well_; }

private:
    lock key_;
    unsigned left_;
    bool calling_ = false; ///< a call has not returned yet
    bool well_ = true;
};

/// How many functions the context runs for these refusals, which need no server.
std::size_t refused_steps(fleet& servers, int hint, client_options const& options) {
    hinted_client client(servers, hint, options);
    auto const key = client.locks.make_lock("k", {.ttl = 60s});
    lease held;
    key.acquire([&](error, lease l) { held = std::move(l); });
    BOOST_REQUIRE(client.until([&] { return held.held(); }));
    refusals tries(key, 400);
    tries.go();
    std::size_t ran = 0;
    auto const until = lease_clock::now() + 20s;
    while (!tries.over() && lease_clock::now() < until) ran += client.context.run_one_for(5ms);
    BOOST_TEST(tries.over());
    BOOST_TEST(tries.well());
    held = {};
    redis_cli cli(servers[0]);
    BOOST_TEST(client.until([&] { return cli.dbsize() == 0; }));
    return ran;
}

/// Chains on many keys, two for each. They hand over in memory, and never end by themselves.
std::deque<chain> busy_chains(client& locks, unsigned keys, lease_clock::duration work) {
    std::deque<chain> all;
    for (auto n = 0U; n < 2 * keys; ++n) {
        auto const key = locks.make_lock(
            "busy:" + std::to_string(n / 2),
            {.ttl = 60s, .handover_limit = max_handover_limit, .handover_time = 60s});
        all.emplace_back(key, 1'000'000, work);
    }
    for (auto& c : all) c.go();
    return all;
}

/// How many functions the context runs for two chains on one key, which take turns in memory.
std::size_t steps(fleet const& servers, int hint, client_options const& options) {
    hinted_client client(servers, hint, options);
    auto const key = client.locks.make_lock("k", {.ttl = 60s, .handover_limit = 64});
    std::array both{chain(key, 200), chain(key, 200)};
    for (auto& c : both) c.go();
    std::size_t ran = 0;
    auto const until = lease_clock::now() + 20s;
    while (!(both[0].over() && both[1].over()) && lease_clock::now() < until)
        ran += client.context.run_one_for(5ms);
    for (auto const& c : both) {
        BOOST_TEST(c.over());
        BOOST_TEST(c.well());
    }
    return ran;
}

} // namespace

BOOST_AUTO_TEST_SUITE(in_place)

BOOST_AUTO_TEST_CASE(a_chain_of_calls_needs_few_steps_where_one_thread_runs) {
    fleet servers(1);
    auto const sent = steps(servers, 4, patient());
    auto const by_hint = steps(servers, 1, options_of(single::by_hint));
    auto const by_option = steps(servers, 4, options_of(single::by_option));
    BOOST_TEST_MESSAGE(sent << " steps, in place " << by_hint << " and " << by_option);
    BOOST_TEST(sent > 800U); // two calls for each lease
    BOOST_TEST(by_hint < sent / 4);
    BOOST_TEST(by_option < sent / 4);
}

BOOST_AUTO_TEST_CASE(an_acquire_that_fails_needs_few_steps_too) {
    fleet servers(1);
    auto const sent = refused_steps(servers, 4, patient());
    auto const by_hint = refused_steps(servers, 1, options_of(single::by_hint));
    auto const by_option = refused_steps(servers, 4, options_of(single::by_option));
    BOOST_TEST_MESSAGE(sent << " steps, in place " << by_hint << " and " << by_option);
    BOOST_TEST(sent > 400U);
    BOOST_TEST(by_hint < sent / 4);
    BOOST_TEST(by_option < sent / 4);
}

// A chain in memory must not keep other work from the context until the key is released.
BOOST_AUTO_TEST_CASE(other_work_gets_its_turn) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto const key = client.locks.make_lock(
            "k", {.ttl = 60s, .handover_limit = max_handover_limit, .handover_time = 60s});
        std::array both{chain(key, 1'000'000), chain(key, 1'000'000)};
        for (auto& c : both) c.go();
        auto const all = both[0].left() + both[1].left();
        auto before = all, most = 0U;
        std::function<void()> other = [&] {
            auto const left = both[0].left() + both[1].left();
            most = std::max(most, before - left);
            before = left;
            if (all - left < 2'000) return asio::post(client.context, [&] { other(); });
            for (auto& c : both) c.stop();
        };
        asio::post(client.context, [&] { other(); });
        BOOST_TEST(client.until([&] { return both[0].over() && both[1].over(); }));
        BOOST_TEST(most > 1U);
        BOOST_TEST(most <= 32U); // leases between two turns of the other work
    }
}

// Handlers that take long are bounded by time, and not by the number of turns.
BOOST_AUTO_TEST_CASE(other_work_gets_its_turn_beside_handlers_that_take_long) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto chains = busy_chains(client.locks, 16, 1ms);
        auto const left = [&] {
            auto sum = 0U;
            for (auto const& c : chains) sum += c.left();
            return sum;
        };
        auto const all = left();
        auto before = all, most = 0U;
        std::function<void()> other = [&] {
            most = std::max(most, before - left());
            before = left();
            if (all - before < 300) return asio::post(client.context, [&] { other(); });
            for (auto& c : chains) c.stop();
        };
        asio::post(client.context, [&] { other(); });
        BOOST_TEST(client.until([&] {
            return std::all_of(chains.begin(), chains.end(), [](auto& c) { return c.over(); });
        }));
        BOOST_TEST(most > 1U);
        BOOST_TEST(most <= 16U); // leases between two turns of the other work
    }
}

// The outstanding calls wait until the context runs again.
BOOST_AUTO_TEST_CASE(a_handler_may_stop_the_context) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto called = 0;
        std::vector<lease> held;
        for (auto i = 0; i < 100; ++i) {
            auto const key = client.locks.make_lock("key:" + std::to_string(i), long_lived);
            key.acquire([&](error, lease l) {
                held.push_back(std::move(l));
                if (++called == 1) client.context.stop();
            });
        }
        client.context.restart();
        client.context.run();
        BOOST_TEST(called == 1);
        BOOST_TEST(client.until([&] { return called == 100; }));
    }
}

// The context may have several threads. A handler that blocks then leaves the client to the others.
BOOST_AUTO_TEST_CASE(a_handler_that_blocks_does_not_block_the_client_of_other_threads) {
    fleet servers(1);
    asio::io_context context(2);
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const work = asio::make_work_guard(context);
    std::vector<std::jthread> threads;
    for (auto i = 0; i < 2; ++i) threads.emplace_back([&] { context.run(); });
    std::promise<bool> other;
    std::atomic<bool> in_time{false}, over{false};
    locks.make_lock("a").acquire([&](error, lease) {
        // Another thread makes this call succeed meanwhile.
        locks.make_lock("b").acquire([&](error e, lease) { other.set_value(!e); });
        auto result = other.get_future();
        in_time = result.wait_for(20s) == std::future_status::ready && result.get();
        over = true;
    });
    BOOST_TEST(wait_until([&] { return over.load(); }, 30s));
    BOOST_TEST(in_time);
    context.stop();
}

// A strand of the same context may be in use while the client works.
BOOST_AUTO_TEST_CASE(a_handler_with_a_strand_runs_inside_it) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto const strand = asio::make_strand(client.context);
        auto called = 0, inside = 0;
        for (auto i = 0; i < 20; ++i) {
            client.locks.make_lock("key:" + std::to_string(i))
                .acquire(asio::bind_executor(strand, [&](error, lease) {
                    ++called;
                    if (strand.running_in_this_thread()) ++inside;
                }));
        }
        BOOST_TEST(client.until([&] { return called == 20; }));
        BOOST_TEST(inside == 20);
    }
}

// A call that fails at once may be made again and again. So other work comes first.
BOOST_AUTO_TEST_CASE(handlers_of_releases_that_fail_are_sent_to_the_executor) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto const key = client.locks.make_lock("k", long_lived);
        lease held;
        std::string order;
        auto const other = [&] { asio::post(client.context, [&] { order += 'o'; }); };
        // An acquire that fails is called in place, unless the turn takes too long.
        for (int n = 0; n < 100 && order != "fo"; ++n) {
            order.clear();
            held = {};
            key.acquire([&](error, lease l) {
                held = std::move(l);
                key.try_acquire([&](error e, lease) { order += e ? 'f' : '?'; });
                other();
            });
            BOOST_TEST(client.until([&] { return order.size() == 2; }));
        }
        BOOST_TEST(order == "fo");
        order.clear();
        held.release([&](release_result) {
            held.release([&](release_result r) { order += r.confirmed() ? '?' : 'f'; });
            other();
        });
        BOOST_TEST(client.until([&] { return order.size() == 2; }));
        BOOST_TEST(order == "of");
    }
}

BOOST_AUTO_TEST_CASE(a_loss_is_told_after_a_release_that_hands_over_and_before_one_that_ends) {
    for (auto const how : {single::by_hint, single::by_option}) {
        for (auto const handed_over : {true, false}) {
            fleet servers(1);
            hinted_client client(servers, how);
            auto const key = client.locks.make_lock("k", long_lived);
            lease held, next;
            key.acquire([&](error, lease l) { held = std::move(l); });
            BOOST_REQUIRE(client.until([&] { return held.held(); }));
            if (handed_over) {
                key.acquire([&](error, lease l) { next = std::move(l); });
                BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
            }
            std::string order;
            held.wait_end([&](error, lease_end) { order += 'w'; });
            held.release([&](release_result) { order += 'r'; });
            BOOST_TEST(client.until([&] { return order.size() == 2; }));
            BOOST_TEST(order == (handed_over ? "rw" : "wr"));
        }
    }
}

// The same where the client's context has one thread, and the handler another context.
BOOST_AUTO_TEST_CASE(a_handler_of_another_context_runs_there) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        asio::io_context elsewhere;
        auto const work = asio::make_work_guard(elsewhere);
        std::jthread const thread([&] { elsewhere.run(); });
        std::promise<std::thread::id> ran;
        client.locks.make_lock("k").acquire(
            asio::bind_executor(elsewhere.get_executor(),
                                [&](error, lease) { ran.set_value(std::this_thread::get_id()); }));
        auto ran_on = ran.get_future();
        BOOST_REQUIRE(
            client.until([&] { return ran_on.wait_for(0s) == std::future_status::ready; }));
        BOOST_CHECK(ran_on.get() == thread.get_id());
        elsewhere.stop();
    }
}

BOOST_AUTO_TEST_CASE(each_exception_of_a_handler_leaves_and_the_others_are_called) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto good = 0;
        std::vector<lease> held;
        for (auto i = 0; i < 12; ++i) {
            auto const key = client.locks.make_lock("key:" + std::to_string(i), long_lived);
            key.acquire([&, i](error e, lease l) {
                if (i % 3 == 0) throw std::runtime_error("mine");
                if (!e) ++good;
                held.push_back(std::move(l));
            });
        }
        auto thrown = 0;
        redis_cli cli(servers[0]);
        auto const done = [&] { return good == 8 && thrown == 4 && cli.dbsize() == 8; };
        for (auto over = false; !over;) {
            try {
                BOOST_REQUIRE(client.until(done));
                over = true;
            } catch (std::runtime_error const&) {
                ++thrown;
            }
        }
        BOOST_TEST(client.locks.stats().held == 8U); // a lease whose handler threw is released
        chain later(client.locks.make_lock("later", long_lived), 2);
        later.go();
        BOOST_TEST(client.until([&] { return later.over(); }));
        BOOST_TEST(later.well());
    }
}

BOOST_AUTO_TEST_CASE(each_exception_of_a_failed_acquire_leaves_and_the_others_are_called) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        hinted_client client(servers, how);
        auto const key = client.locks.make_lock("k", long_lived);
        lease held;
        key.acquire([&](error, lease l) { held = std::move(l); });
        BOOST_REQUIRE(client.until([&] { return held.held(); }));
        auto good = 0, thrown = 0;
        for (auto i = 0; i < 12; ++i) {
            key.acquire([&, i](error const& e, lease) {
                if (i % 3 == 0) throw std::runtime_error("mine");
                if (e == errc::shut_down) ++good;
            });
        }
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 12; }));
        auto ended = false;
        client.locks.shutdown([&](error e) { ended = !e; });
        for (auto over = false; !over;) {
            try {
                BOOST_REQUIRE(client.until([&] { return good == 8 && thrown == 4 && ended; }));
                over = true;
            } catch (std::runtime_error const&) {
                ++thrown;
            }
        }
        BOOST_TEST(client.locks.stats().pending == 0U);
    }
}

// The context ends while calls are outstanding: the handlers are destroyed, and not called.
BOOST_AUTO_TEST_CASE(handlers_that_were_not_called_go_with_their_context) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        auto const alive = std::make_shared<int>();
        std::optional<hinted_client> client(std::in_place, servers, how);
        auto called = 0;
        for (auto i = 0; i < 12; ++i) {
            auto const key = client->locks.make_lock("key:" + std::to_string(i), long_lived);
            key.acquire([&called, alive](error, lease) {
                ++called;
                throw std::runtime_error("mine");
            });
        }
        BOOST_CHECK_THROW(BOOST_TEST(client->until([] { return false; })), std::runtime_error);
        BOOST_TEST(called == 1);
        client.reset();
        BOOST_TEST(called == 1);
        BOOST_TEST(alive.use_count() == 1);
    }
}

// The handler of the last release has the last references to its client. An assertion of the client
// sees whether it is used after its end: its memory stays, so no sanitizer does.
BOOST_AUTO_TEST_CASE(the_last_handler_may_be_the_end_of_all) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        asio::io_context context(how == single::by_hint ? 1 : 4);
        auto ended = false;
        auto const all = [&]() -> asio::awaitable<void> {
            client locks(context.get_executor(), addresses_of(servers), options_of(how));
            auto held = co_await locks.make_lock("k", long_lived).acquire();
            co_await held.release();
        };
        asio::co_spawn(context, all(), [&](std::exception_ptr e) { ended = !e; });
        context.run();
        BOOST_TEST(ended);
        BOOST_TEST(redis_cli(servers[0]).dbsize() == 0);
    }
}

BOOST_AUTO_TEST_CASE(a_handler_may_end_its_client) {
    for (auto const how : {single::by_hint, single::by_option}) {
        fleet servers(1);
        auto options = options_of(how);
        asio::io_context context(how == single::by_hint ? 1 : 4);
        std::optional<client> locks(std::in_place, context.get_executor(), addresses_of(servers),
                                    options);
        auto ended = 0;
        for (auto const* const key : {"a", "b", "c"}) {
            locks->make_lock(key, long_lived).acquire([&](error, lease) {
                locks.reset();
                ++ended;
            });
        }
        BOOST_TEST(run_until(context, [&] { return ended == 3; }));
        redis_cli cli(servers[0]);
        BOOST_TEST(run_until(context, [&] { return cli.dbsize() == 0; }));
    }
}

BOOST_AUTO_TEST_SUITE_END()
