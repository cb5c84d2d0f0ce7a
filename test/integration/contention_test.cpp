// Many coroutines and processes contend for one key. Each gets the lock, one at a time.
#include "integration/child.hpp"
#include "integration/client_group.hpp"
#include "integration/crowd.hpp"
#include "support/heap.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// The result line of a contender.
struct outcome_line {
    explicit outcome_line(std::string text)
        : line(std::move(text)) {
        std::istringstream words(line);
        for (std::string word; words >> word && word != "why:";) {
            if (auto const equals = word.find('='); equals != word.npos) {
                numbers[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
            }
        }
    }
    std::int64_t operator[](std::string const& name) const {
        auto const found = numbers.find(name);
        return found == numbers.end() ? -1 : found->second;
    }

    std::string line;
    std::map<std::string, std::int64_t> numbers;
};

constexpr std::size_t processes = 4;

// Runs contending processes. No process may report a failure, and the witness must show that no
// sections overlapped.
std::vector<outcome_line> compete(fleet const& servers, std::vector<std::string> const& how) {
    server witness;
    std::vector<std::unique_ptr<child>> all;
    for (std::size_t i = 0; i < processes; ++i) {
        std::vector<std::string> arguments{"--instances",     servers.url_list(), "--witness",
                                           witness.address(), "--coroutines",     "250"};
        arguments.insert(arguments.end(), how.begin(), how.end());
        all.push_back(std::make_unique<child>("HOLDFAST_CONTENDER", std::move(arguments)));
    }
    for (auto const& process : all) BOOST_REQUIRE(process->line() == "ready");
    for (auto const& process : all) process->say("go");
    std::vector<outcome_line> results;
    std::int64_t sections = 0;
    for (auto const& process : all) {
        results.emplace_back(process->line(60s));
        auto const& r = results.back();
        BOOST_TEST_CONTEXT(r.line) {
            BOOST_TEST(process->status() == 0);
            BOOST_TEST(r["failed"] == 0);
            BOOST_TEST(r["lost"] == 0);
            BOOST_TEST(r["violations"] == 0);
            BOOST_TEST(r["waiters"] == 0);
            BOOST_TEST(r["sections"] > 0);
        }
        sections += std::max<std::int64_t>(r["sections"], 0);
    }
    BOOST_TEST(redis_cli(witness).get("counter").value_or("nothing") == std::to_string(sections));
    check_nothing_left(servers, 5s);
    return results;
}

// Three clients contend while one instance fails, each instance in turn. One of them is the arbiter
// of the key.
void check_without_each(void (*drop_out)(server&), void (*come_back)(server&)) {
    constexpr std::size_t clients = 3, coroutines = 10, sections = 12;
    // The low handover limit makes many tenures, and so many decisions.
    constexpr lock_options options{.ttl = 60s, .handover_limit = 4};
    fleet servers(5);
    auto soon = trusting(hasty());
    soon.instance_timeout = soon.connect_timeout =
        1s; // also on a busy machine the others answer in time
    client_group group(servers, clients, soon);
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("instance " << i) {
            crowd all;
            for (std::size_t n = 0; n < clients * coroutines; ++n) {
                join(group.context, *group.clients[n % clients], n, sections, options, all);
            }
            BOOST_REQUIRE(group.until(
                [&] { return all.sections >= clients * coroutines * sections / 4; }, 30s));
            BOOST_TEST(all.done < clients * coroutines);
            drop_out(servers[i]);
            BOOST_TEST(group.until([&] { return all.done == clients * coroutines; }, 30s));
            BOOST_TEST(all.sections == clients * coroutines * sections);
            BOOST_TEST(all.failed == 0U, all.first_failure);
            BOOST_TEST(all.violations == 0U);
            come_back(servers[i]);
            BOOST_REQUIRE(group.all_up());
            check_nothing_left(group, servers);
        }
    }
}

// A client like redis-py: it tries SET NX PX, and pauses after each refusal.
class poller {
public:
    poller(server const& on, std::chrono::milliseconds pause)
        : cli_(on)
        , pause_(pause) {}

    void poll() {
        auto const now = lease_clock::now();
        if (now < next_) return;
        if (cli_.set_if_absent("k", "polled", 10s)) {
            ++turns;
            cli_.del_if_equal("k", "polled");
        }
        next_ = now + pause_;
    }

    std::size_t turns = 0;

private:
    redis_cli cli_;
    std::chrono::milliseconds pause_;
    lease_clock::time_point next_{};
};

asio::awaitable<void> use_until(lock key, bool const& end, std::size_t& turns) {
    while (!end) {
        auto held = co_await key.acquire();
        ++turns;
        co_await held.release();
    }
}

struct mixed_fleet {
    std::size_t ours = 0, polled = 0;
};

// Runs two clients with 20 waiters each, and a poller, until the poller has had `turns` turns or
// the limit is over.
mixed_fleet mix(lock_options const& options, std::chrono::milliseconds pause, std::size_t turns,
                std::chrono::seconds limit) {
    fleet servers(1);
    client_group group(servers, 2, patient());
    mixed_fleet seen;
    auto end = false;
    for (std::size_t n = 0; n < 40; ++n)
        group.start(use_until(group.key_of(n % 2, "k", options), end, seen.ours));
    poller other(servers[0], pause);
    auto const polled = group.until(
        [&] {
            other.poll();
            return other.turns >= turns;
        },
        limit);
    BOOST_TEST_MESSAGE((polled ? "" : "not ")
                       << "enough: the poller at " << pause.count() << " ms had " << other.turns
                       << " turns beside " << seen.ours);
    seen.polled = other.turns;
    end = true;
    BOOST_TEST(group.until([&] { return group.working == 0; }, 30s));
    return seen;
}

asio::awaitable<void> use_once(client& locks, std::size_t number, std::size_t& done,
                               std::size_t& failed) {
    auto const lock = locks.make_lock("key:" + std::to_string(number), long_lived);
    auto acquired = co_await lock.acquire(asio::as_tuple);
    auto& [e, held] = acquired;
    if (e) {
        ++failed;
    } else if (!(co_await held.release()).confirmed()) {
        ++failed;
    }
    ++done;
}

} // namespace

BOOST_AUTO_TEST_SUITE(contention)

BOOST_AUTO_TEST_CASE(five_thousand_get_one_key_in_the_order_in_which_they_asked) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        constexpr std::size_t everybody = 5'000;
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        crowd c;
        for (std::size_t i = 0; i < everybody; ++i)
            join(client.context, client.locks, i, 1, long_lived, c);
        BOOST_TEST(run_until(
            client.context, [&] { return c.done == everybody; }, 60s));
        BOOST_TEST(c.failed == 0U, c.first_failure);
        BOOST_TEST(c.violations == 0U);
        BOOST_TEST(c.granted.size() == everybody);
        BOOST_TEST((c.asked == c.granted));
        auto const s = client.locks.stats();
        BOOST_TEST(s.acquired == everybody);
        BOOST_TEST(s.released == everybody);
        BOOST_TEST(s.lost == 0U);
        BOOST_TEST(s.handovers > 0U);
        BOOST_TEST(s.commands_per_acquisition() <= 1.);
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(four_processes_finish_and_no_two_are_in_at_once) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        std::int64_t sections = 0;
        for (auto const& r : compete(servers, {"--sections", "2"})) sections += r["sections"];
        BOOST_TEST(sections == static_cast<std::int64_t>(processes) * 250 * 2);
    });
}

BOOST_AUTO_TEST_CASE(four_processes_get_their_share) {
    fleet servers(5);
    auto const results = compete(servers, {"--seconds", "3"});
    std::int64_t all = 0;
    for (auto const& r : results) all += r["timely"];
    auto const fair = all / static_cast<std::int64_t>(processes);
    for (auto const& r : results) BOOST_TEST(r["timely"] >= fair / 4, r.line << ", fair: " << fair);
}

BOOST_AUTO_TEST_CASE(an_instance_that_freezes_in_mid_contention_fails_no_acquire) {
    check_without_each([](server& instance) { instance.freeze(); },
                       [](server& instance) { instance.thaw(); });
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_killed_in_mid_contention_fails_no_acquire) {
    check_without_each([](server& instance) { instance.kill(); },
                       [](server& instance) { instance.restart(); });
}

BOOST_AUTO_TEST_CASE(without_handover_every_waiter_gets_the_key_from_the_servers) {
    constexpr std::size_t everybody = 300;
    fleet servers(3);
    std::array const off{lock_options{.ttl = 60s, .handover_limit = 1},
                         lock_options{.ttl = 60s, .handover_time = 0ms}};
    for (auto const& options : off) {
        BOOST_TEST_CONTEXT("handover_limit " << options.handover_limit << ", handover_time "
                                             << options.handover_time.count()) {
            test_client client(servers);
            BOOST_REQUIRE(client.all_up());
            crowd c;
            for (std::size_t i = 0; i < everybody; ++i)
                join(client.context, client.locks, i, 1, options, c);
            BOOST_TEST(run_until(
                client.context, [&] { return c.done == everybody; }, 60s));
            BOOST_TEST(c.failed == 0U, c.first_failure);
            BOOST_TEST(c.violations == 0U);
            BOOST_TEST((c.asked == c.granted));
            auto const s = client.locks.stats();
            BOOST_TEST(s.handovers == 0U);
            BOOST_TEST(s.acquired == everybody);
            // At least a SET and a release on a quorum for each lease.
            BOOST_TEST(s.commands >= everybody * 2 * servers.quorum());
            check_nothing_left(client, servers);
        }
    }
}

BOOST_AUTO_TEST_CASE(pollers_get_the_key_from_clients_that_yield_to_them) {
    for (auto const pause : {50ms, 100ms}) {
        lock_options options{.ttl = 60s};
        mix(options, pause, 20, 3s); // for the printed figures
        options.yield_to_pollers = pause;
        auto const yielding = mix(options, pause, 20, 30s);
        BOOST_TEST(yielding.polled >= 20U);
        BOOST_TEST(yielding.ours > 0U);
    }
}

BOOST_AUTO_TEST_CASE(keys_that_were_used_once_leave_no_memory_behind) {
#if defined HOLDFAST_TEST_SANITIZED
    constexpr std::size_t batches = 20;
#else
    constexpr std::size_t batches = 1'000;
#endif
    constexpr std::size_t batch = 1'000, first_batches = 10;
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    std::size_t failed = 0;
    [[maybe_unused]] std::size_t after_first = 0;
    for (std::size_t b = 0; b < batches; ++b) {
        std::size_t done = 0, started = 0;
        for (std::size_t i = 0; i < batch; ++i) {
            // Every fourth key has a second coroutine, which waits for the first.
            for (std::size_t n = i % 4 == 0 ? 2 : 1; n > 0; --n) {
                ++started;
                asio::co_spawn(client.context, use_once(client.locks, b * batch + i, done, failed),
                               [](std::exception_ptr thrown) {
                                   if (thrown) std::rethrow_exception(thrown);
                               });
            }
        }
        BOOST_REQUIRE(
            client.until([&] { return done == started && client.locks.stats().held == 0; }));
        if (b + 1 == first_batches) after_first = heap_in_use();
    }
    BOOST_TEST(failed == 0U);
#if !defined HOLDFAST_TEST_SANITIZED
    // Buffers and pools vary by less than this limit. A leak of one byte for each key exceeds it.
    BOOST_TEST(heap_in_use() <= after_first + 768 * 1024);
#endif
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_SUITE_END()
