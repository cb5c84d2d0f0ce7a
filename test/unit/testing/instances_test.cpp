// The instance for unit tests, with clients on it: every kind of lock and every call work, and the
// faults are those of a server. No server is needed.
#include <holdfast/client.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/testing/instance.hpp>
#include <holdfast/with_lock.hpp>

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"
#include "support/redis_cli.hpp"
#include "support/wait.hpp"

#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct kind {
    std::string name;
    lock_options options;
};
std::vector<kind> const kinds{{"plain", {.ttl = 60s}},
                              {"fenced", {.ttl = 60s, .fencing = true}},
                              {"fair", {.ttl = 60s, .fair = true}},
                              {"both", {.ttl = 60s, .fencing = true, .fair = true}}};

/// Runs the test with each kind of lock, on one instance and on three.
template <class Test>
void with_each_kind(Test test) {
    for (auto const size : {std::size_t(1), std::size_t(3)}) {
        for (auto const& each : kinds) {
            BOOST_TEST_CONTEXT(size << ", " << each.name) {
                std::vector<testing::instance> all(size);
                test(all, each.options);
            }
        }
    }
}

std::size_t holders(std::vector<testing::instance> const& all, std::string_view key) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](auto const& i) { return i.holds(key); }));
}

/// The client waits, and an instance is to push when the key changes.
bool is_watched(test_client& client, std::vector<testing::instance> const& all) {
    return waits(client) && client.until([&] {
        return std::any_of(all.begin(), all.end(), [](auto const& each) {
            return redis_cli(each.address().port()).info("tracking_total_keys") != "0";
        });
    });
}

/// Calls that end at once, or in the instance's time.
template <class Call>
auto result_of(test_client& client, Call call) {
    key_report report;
    error how;
    auto done = false;
    call([&](error e, key_report r) {
        how = std::move(e);
        report = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(!how, how.what());
    return report;
}

key_report inspected(test_client& client, std::string_view key) {
    return result_of(client, [&](auto handler) { client.locks.inspect(key, std::move(handler)); });
}

} // namespace

BOOST_AUTO_TEST_SUITE(instances)

BOOST_AUTO_TEST_CASE(each_kind_of_lock_has_one_holder_until_its_release) {
    with_each_kind([](auto& all, lock_options const& options) {
        test_client a(testing::addresses(all)), b(testing::addresses(all));
        a.runs_with(b);
        auto held = a.hold("k", options);
        BOOST_TEST((held.fence() != 0) == options.fencing);
        // A quorum has the key. Commands to the others may still be on their way.
        BOOST_TEST(holders(all, "k") > all.size() / 2);
        BOOST_TEST((b.try_acquire("k", options).first == errc::contended));
        BOOST_TEST(!a.extend(held));
        BOOST_TEST(a.releases(held));
        BOOST_TEST(holders(all, "k") <= all.size() / 2);
        auto next = b.hold("k", options);
        if (options.fencing) BOOST_TEST(next.fence() > held.fence());
        BOOST_TEST(b.releases(next));
    });
}

BOOST_AUTO_TEST_CASE(a_release_wakes_the_waiter_of_another_client) {
    with_each_kind([](auto& all, lock_options const& options) {
        test_client a(testing::addresses(all)), b(testing::addresses(all));
        a.runs_with(b);
        auto held = a.hold("k", options);
        attempt waiter(b, "k", options);
        BOOST_REQUIRE(is_watched(b, all));
        BOOST_TEST(a.releases(held));
        check_gets(b, waiter);
    });
}

BOOST_AUTO_TEST_CASE(clients_get_a_fair_lock_in_the_order_in_which_they_asked) {
    testing::instance one;
    test_client first({one.address()});
    auto held = first.hold("k", kinds[2].options);
    std::vector<std::unique_ptr<test_client>> clients;
    std::vector<std::unique_ptr<attempt>> attempts;
    redis_cli cli(one.address().port());
    for (std::size_t i = 0; i < 4; ++i) {
        auto& c = *clients.emplace_back(std::make_unique<test_client>(std::vector{one.address()}));
        first.runs_with(c);
        attempts.push_back(std::make_unique<attempt>(c, "k", kinds[2].options));
        BOOST_REQUIRE(first.until([&] {
            return !cli.command({"LINDEX", "{k}:queue", std::to_string(i)}).is_nil();
        }));
    }
    BOOST_TEST(first.releases(held));
    for (auto& next : attempts) {
        BOOST_REQUIRE(first.until([&] { return next->done; }));
        BOOST_TEST(next->won());
        auto const late = std::count_if(attempts.begin(), attempts.end(),
                                        [](auto const& other) { return other->done; });
        BOOST_TEST(late == &next - attempts.data() + 1);
        BOOST_TEST(first.releases(next->held));
    }
}

BOOST_AUTO_TEST_CASE(locks_on_several_keys_have_all_of_them_or_none) {
    for (auto const size : {std::size_t(1), std::size_t(3)}) {
        for (auto const patience : {0U, 4U}) {
            std::vector<testing::instance> all(size);
            test_client a(testing::addresses(all)), b(testing::addresses(all));
            a.runs_with(b);
            lock_options const options{.ttl = 60s, .fencing = true, .patience = patience};
            auto held = a.hold("y", options);
            lease both;
            error how;
            auto done = false;
            auto const set = b.locks.make_multi_lock({"x", "y"}, options);
            set.acquire([&](error e, lease l) {
                how = std::move(e);
                both = std::move(l);
                done = true;
            });
            BOOST_REQUIRE(waits(b));
            BOOST_TEST(!done);
            BOOST_TEST(a.releases(held));
            BOOST_REQUIRE(b.until([&] { return done; }));
            BOOST_REQUIRE_MESSAGE(!how, how.what());
            BOOST_TEST(both.fence() > held.fence());
            for (auto const* const key : {"x", "y"}) {
                BOOST_TEST(holders(all, key) > size / 2);
                BOOST_TEST((a.try_acquire(key, options).first == errc::contended));
            }
            BOOST_TEST(!b.extend(both));
            BOOST_TEST(b.releases(both));
            auto next = a.hold("x", options);
            BOOST_TEST(next.fence() > both.fence());
            BOOST_TEST(a.releases(next));
        }
    }
}

BOOST_AUTO_TEST_CASE(many_coroutines_of_several_clients_exclude_each_other) {
    with_each_kind([](auto& all, lock_options options) {
        options.handover_limit = 3;
        test_client a(testing::addresses(all)), b(testing::addresses(all));
        a.runs_with(b);
        auto inside = 0, done = 0;
        auto const enter = [&](test_client& c) -> asio::awaitable<void> {
            auto const lock = c.locks.make_lock("k", options);
            for (auto i = 0; i < 3; ++i) {
                lease held = co_await lock.acquire();
                BOOST_TEST(++inside == 1);
                co_await asio::post(c.context, asio::use_awaitable);
                --inside;
                co_await held.release();
            }
            ++done;
        };
        for (auto i = 0; i < 10; ++i) {
            for (auto* const c : {&a, &b}) asio::co_spawn(c->context, enter(*c), asio::detached);
        }
        BOOST_TEST(a.until([&] { return done == 20; }, 30s));
    });
}

BOOST_AUTO_TEST_CASE(a_lease_can_be_adopted_inspected_and_taken_away) {
    with_each_kind([](auto& all, lock_options const& options) {
        auto named = patient();
        named.holder_label = "first";
        test_client a(testing::addresses(all), named), b(testing::addresses(all));
        a.runs_with(b);
        BOOST_TEST((inspected(b, "k").state == key_state::free));
        auto held = a.hold("k", options);
        auto const seen = inspected(b, "k");
        BOOST_TEST((seen.state == key_state::held));
        BOOST_TEST(seen.holder == "first");

        auto const token = held.token();
        held.detach();
        attempt adoption;
        b.locks.adopt("k", token, options, [&](error e, lease l) {
            adoption.how = std::move(e);
            adoption.held = std::move(l);
            adoption.done = true;
        });
        auto adopted = wait_for_lease(b, adoption);

        // The watch of the key hears of the end.
        auto changed = false;
        a.locks.wait_change("k", inspected(a, "k"), [&](error e, key_report const& r) {
            BOOST_TEST(!e);
            changed = r.state == key_state::free;
        });
        result_of(b, [&](auto handler) { b.locks.force_release("k", std::move(handler)); });
        BOOST_TEST(a.until([&] { return changed; }));
        BOOST_TEST(!b.releases(adopted));
        BOOST_TEST(holders(all, "k") <= all.size() / 2);
    });
}

BOOST_AUTO_TEST_CASE(a_key_expires_and_the_waiter_gets_it) {
    testing::instance one;
    test_client a({one.address()});
    one.hold("k", 150ms);
    attempt waiter(a, "k", long_lived);
    check_gets(a, waiter);
}

BOOST_AUTO_TEST_CASE(another_holder_refuses_until_its_key_is_erased) {
    std::vector<testing::instance> all(1);
    auto& one = all[0];
    test_client a({one.address()});
    one.hold("k");
    auto const refused = a.try_acquire("k");
    BOOST_TEST((refused.first == errc::contended));
    BOOST_TEST(contains(refused.first.what(), "somebody-else"), refused.first.what());
    attempt waiter(a, "k", long_lived);
    BOOST_REQUIRE(is_watched(a, all));
    BOOST_TEST(one.erase("k"));
    BOOST_TEST(!one.erase("k"));
    check_gets(a, waiter);
    BOOST_TEST(!one.holds("k"));
    BOOST_CHECK_THROW(one.hold("k", 0ms), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_holder_learns_that_its_key_was_erased_or_taken) {
    testing::instance one;
    test_client a({one.address()});
    for (auto const taken : {false, true}) {
        auto held = a.hold("k", {.ttl = 1s});
        auto how = lease_end::none;
        held.wait_end([&](error, lease_end end) { how = end; });
        taken ? one.hold("k") : static_cast<void>(one.erase("k"));
        BOOST_TEST(a.until([&] { return how != lease_end::none; }));
        BOOST_TEST(how == lease_end::key_gone);
        BOOST_TEST(!held.held());
        BOOST_TEST(one.erase("k") == taken);
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_down_refuses_and_its_keys_stay) {
    testing::instance one;
    test_client a({one.address()}, brisk());
    auto held = a.hold("k");
    one.down();
    BOOST_TEST(a.goes_down(0, errc::unreachable));
    BOOST_TEST((a.acquire("other").first == error_condition::unavailable));
    BOOST_TEST(one.holds("k"));
    BOOST_TEST(held.held());
    one.down();
    one.freeze();
    one.thaw();
    BOOST_CHECK_THROW(redis_cli(one.address().port()).command({"PING"}), cli_error);
    one.up();
    BOOST_TEST(a.becomes(0, instance_state::up));
    BOOST_TEST(a.releases(held));
    BOOST_TEST(one.keys().empty());
}

BOOST_AUTO_TEST_CASE(nobody_else_gets_the_port_of_an_instance_that_is_down) {
    testing::instance one;
    one.down(); // it has had no connection, which would keep the port for a while
    asio::io_context context;
    asio::ip::tcp::socket other(context, asio::ip::tcp::v4());
    auto const port = one.address().port();
    BOOST_CHECK_THROW(other.bind({asio::ip::address_v4::loopback(), port}),
                      boost::system::system_error);
    one.up();
    BOOST_TEST(redis_cli(port).command({"PING"}).is_string());
}

BOOST_AUTO_TEST_CASE(a_frozen_instance_accepts_and_answers_after_the_thaw) {
    testing::instance one;
    redis_cli early(one.address().port());
    BOOST_REQUIRE(early.command({"SET", "short", "x", "PX", "20"}).is_ok());
    one.freeze();
    redis_cli late(one.address().port());
    early.send({"SET", "k", "x"});
    late.send({"GET", "k"});
    BOOST_TEST(wait_until([&] { return !one.holds("short"); }));
    BOOST_TEST(!early.has_input(50ms));
    BOOST_TEST(!late.has_input(50ms));
    BOOST_TEST(!one.holds("k"));
    one.thaw();
    BOOST_TEST(early.receive().is_ok());
    (void)late.receive();
    BOOST_TEST(one.holds("k"));
}

BOOST_AUTO_TEST_CASE(a_lease_ends_at_its_deadline_while_the_instance_is_frozen) {
    testing::instance one;
    test_client a({one.address()}, brisk());
    auto held = a.hold("k", {.ttl = 400ms});
    one.freeze();
    auto how = lease_end::none;
    held.wait_end([&](error, lease_end end) { how = end; });
    BOOST_TEST(a.until([&] { return how != lease_end::none; }));
    BOOST_TEST(how == lease_end::expired);
    BOOST_TEST(wait_until([&] { return !one.holds("k"); }));
}

BOOST_AUTO_TEST_CASE(locking_continues_while_a_minority_is_away) {
    std::vector<testing::instance> all(5);
    test_client a(testing::addresses(all), unhurried());
    BOOST_REQUIRE(a.all_up());
    all[1].freeze();
    all[3].down();
    auto held = a.hold("k");
    BOOST_TEST(a.releases(held));
    all[4].down();
    BOOST_TEST(a.goes_down(4, errc::unreachable));
    BOOST_TEST((a.acquire("k").first == error_condition::unavailable));
}

BOOST_AUTO_TEST_CASE(after_a_restart_the_keys_are_gone_and_the_client_waits_for_max_ttl) {
    testing::instance one;
    auto options = brisk();
    options.max_ttl = 60s;
    test_client a({one.address()}, options);
    auto held = a.hold("k");
    redis_cli cli(one.address().port());
    auto const before = cli.info("run_id");
    BOOST_TEST(std::stol(cli.info("uptime_in_seconds")) > 86'400);
    one.restart();
    BOOST_TEST(one.keys().empty());
    BOOST_TEST(cli.info("run_id") != before);
    BOOST_TEST(std::stol(cli.info("uptime_in_seconds")) < 60);
    BOOST_TEST(a.becomes(0, instance_state::quarantined));
    BOOST_TEST((a.acquire("other").first == errc::quarantined));
    // A client with a policy for tests takes it as it is.
    test_client b({one.address()}, trusting(patient()));
    auto other = b.hold("k");
    BOOST_TEST(b.releases(other));
    for (auto const fault : {&testing::instance::down, &testing::instance::freeze}) {
        (one.*fault)();
        one.restart();
        BOOST_TEST(redis_cli(one.address().port()).command({"PING"}).is_string());
    }
}

BOOST_AUTO_TEST_CASE(after_a_flush_the_keys_are_gone_and_the_client_waits_for_max_ttl) {
    testing::instance one;
    test_client a({one.address()}, brisk());
    auto held = a.hold("k");
    one.flush();
    BOOST_TEST(one.keys().empty());
    BOOST_TEST(a.becomes(0, instance_state::quarantined));
    redis_cli cli(one.address().port());
    BOOST_TEST(cli.info("cmdstat_flushall") == "calls=1");
}

BOOST_AUTO_TEST_CASE(keys_are_told_in_order_with_the_counters) {
    testing::instance one;
    test_client a({one.address()});
    auto b = a.hold("b", {.ttl = 60s, .fencing = true});
    auto held = a.hold("a");
    std::vector<std::string> const expected{"a", "b", "{b}:fence"};
    BOOST_TEST(one.keys() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(instances_can_be_moved_and_their_clients_may_outlive_them) {
    auto one = std::make_unique<testing::instance>();
    test_client a({one->address()}, brisk());
    auto held = a.hold("k");
    testing::instance moved(std::move(*one));
    BOOST_TEST(moved.holds("k"));
    moved = testing::instance();
    BOOST_TEST(!moved.holds("k"));
    BOOST_TEST(a.goes_down(0, errc::unreachable));
}

BOOST_AUTO_TEST_CASE(calls_from_several_threads_are_safe) {
    testing::instance one;
    std::atomic<int> calls = 0;
    std::vector<std::jthread> threads;
    for (auto n = 0; n < 4; ++n) {
        threads.emplace_back([&, key = std::to_string(n)] {
            for (auto i = 0; i < 100; ++i) {
                one.hold(key);
                if (!one.holds(key) || !one.erase(key)) continue;
                one.freeze();
                one.thaw();
                one.down();
                one.up();
                ++calls;
            }
        });
    }
    threads.clear();
    BOOST_TEST(calls == 400);
    BOOST_TEST(redis_cli(one.address().port()).command({"PING"}).string() == "PONG");
}

BOOST_AUTO_TEST_SUITE_END()
