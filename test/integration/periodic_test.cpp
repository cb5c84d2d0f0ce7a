// at_most_every(): once in an interval, counted from the start.
#include <holdfast/at_most_every.hpp>

#include "integration/sections.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr auto hour = std::chrono::milliseconds(1h);

/// A job that counts its runs, and waits while `stays`.
struct job {
    asio::awaitable<void> operator()(lease& l) {
        BOOST_TEST(l.held());
        ++runs;
        while (stays) {
            asio::steady_timer pause(co_await asio::this_coro::executor, 1ms);
            co_await pause.async_wait(asio::deferred);
        }
        if (fails) throw no_seats{3};
    }
    int runs = 0;
    bool stays = false, fails = false;
};

/// A call of a client, and its result.
struct call {
    call(test_client& c, job& j, std::chrono::milliseconds interval = hour,
         lock_options const& options = {})
        : client(c)
        , lock(c.locks.make_lock("job", options)) {
        at_most_every(interval, lock, std::ref(j),
                      asio::bind_cancellation_slot(signal.slot(),
                                                   [this](std::exception_ptr e, start_report r) {
                                                       thrown = e;
                                                       report = std::move(r);
                                                       done = true;
                                                   }));
    }
    start_report const& ends() {
        BOOST_REQUIRE(client.until([&] { return done; }));
        return report;
    }
    error_code code() const { return code_of(thrown); }

    test_client& client;
    holdfast::lock lock;
    asio::cancellation_signal signal;
    bool done = false;
    std::exception_ptr thrown;
    start_report report;
};

client_options labelled(char const* label) {
    auto o = patient();
    o.holder_label = label;
    return o;
}

} // namespace

BOOST_AUTO_TEST_SUITE(periodic)

BOOST_AUTO_TEST_CASE(a_job_runs_once_in_an_interval_and_the_others_hear_of_it) {
    fleet servers(3);
    test_client a(servers, labelled("web-1")), b(servers);
    job one, two;
    call first(a, one);
    auto const& ran = first.ends();
    BOOST_TEST(ran.ran);
    BOOST_TEST(ran.key == "job");
    BOOST_TEST(ran.holder == "web-1");
    BOOST_TEST((ran.since.value() >= 0ms));
    BOOST_TEST((ran.due.value() == hour - ran.since.value()));
    for (auto* const client : {&a, &b}) {
        call again(*client, two);
        auto const& r = again.ends();
        BOOST_TEST(!again.thrown);
        BOOST_TEST(!r.ran);
        BOOST_TEST(!r.running);
        BOOST_TEST(r.holder == "web-1");
        BOOST_REQUIRE((r.since && r.due));
        BOOST_TEST((*r.due > 0ms && *r.due <= hour));
        BOOST_TEST((*r.since == hour - *r.due));
    }
    BOOST_TEST(one.runs == 1);
    BOOST_TEST(two.runs == 0);
    BOOST_TEST(copies(servers, "job") == 0U);
    BOOST_TEST(is_held(servers, "job:last"));
}

// The interval is far beyond max_ttl, which the mark has nothing to do with.
BOOST_AUTO_TEST_CASE(the_interval_has_nothing_to_do_with_max_ttl) {
    fleet servers(1);
    auto options = patient();
    options.max_ttl = 10s;
    test_client client(servers, options);
    job j;
    BOOST_TEST(call(client, j, 24h * 24).ends().ran);
    BOOST_TEST((redis_cli(servers[0]).pttl("job:last") > 24h * 23));
}

// The mark counts from the start: the second call is due although the first ended just before.
BOOST_AUTO_TEST_CASE(the_interval_counts_from_the_start) {
    fleet servers(3);
    test_client client(servers);
    constexpr auto interval = 1s;
    job j{.stays = true};
    call first(client, j, interval);
    BOOST_REQUIRE(client.until([&] { return j.runs == 1; }));
    BOOST_REQUIRE(client.until([&] { return copies(servers, "job:last") == 0; }));
    j.stays = false;
    BOOST_TEST(first.ends().ran);
    BOOST_TEST(call(client, j, interval).ends().ran);
    BOOST_TEST(j.runs == 2);
}

BOOST_AUTO_TEST_CASE(a_call_that_comes_a_moment_early_waits_for_its_time) {
    fleet servers(3);
    test_client a(servers), b(servers);
    job j;
    constexpr auto interval = 1min; // so a second is early
    for (server& each : servers)
        (void)redis_cli(each).command({"SET", "job:last", "other", "PX", "700"});
    auto const before = lease_clock::now();
    BOOST_TEST(call(a, j, interval).ends().ran);
    BOOST_TEST((lease_clock::now() - before >= 500ms));
    // And so it comes no earlier than its time.
    BOOST_TEST(!call(b, j, interval).ends().ran);
    BOOST_TEST(j.runs == 1);
}

BOOST_AUTO_TEST_CASE(two_that_come_together_run_it_once) {
    fleet servers(3);
    test_client a(servers), b(servers);
    a.runs_with(b);
    for (int n = 0; n < 20; ++n) {
        for (server& each : servers) (void)redis_cli(each).del("job:last");
        job j;
        call one(a, j), two(b, j);
        BOOST_REQUIRE(a.until([&] { return one.done && two.done; }));
        BOOST_TEST(!one.thrown);
        BOOST_TEST(!two.thrown);
        BOOST_TEST(j.runs == 1);
        BOOST_TEST(one.report.ran != two.report.ran);
    }
}

BOOST_AUTO_TEST_CASE(a_job_that_runs_is_not_begun_again_after_its_interval) {
    fleet servers(3);
    test_client a(servers, labelled("web-1")), b(servers);
    a.runs_with(b);
    constexpr auto interval = 1s;
    job j{.stays = true};
    call first(a, j, interval);
    BOOST_REQUIRE(a.until([&] { return j.runs == 1; }));
    BOOST_REQUIRE(a.until([&] { return copies(servers, "job:last") == 0; }));
    call second(b, j, interval);
    BOOST_REQUIRE(b.until([&] { return second.done; }));
    BOOST_TEST(!second.thrown);
    BOOST_TEST(!second.report.ran);
    BOOST_TEST(second.report.running);
    j.stays = false;
    BOOST_TEST(first.ends().ran);
    BOOST_TEST(j.runs == 1);
}

BOOST_AUTO_TEST_CASE(an_outage_is_an_error_and_begins_nothing) {
    fleet servers(3);
    test_client client(servers, hasty());
    BOOST_REQUIRE(client.all_up());
    servers.kill(2);
    job j;
    call c(client, j);
    (void)c.ends();
    BOOST_REQUIRE(c.thrown);
    BOOST_TEST((c.code() == error_condition::unavailable), c.code().message());
    BOOST_TEST(j.runs == 0);
    BOOST_TEST(client.idle());
}

// The job that failed does not run again, on any machine.
BOOST_AUTO_TEST_CASE(a_job_that_fails_has_had_its_turn) {
    fleet servers(3);
    test_client client(servers);
    job j{.fails = true};
    call first(client, j);
    (void)first.ends();
    BOOST_REQUIRE(first.thrown);
    BOOST_CHECK_THROW(std::rethrow_exception(first.thrown), no_seats);
    BOOST_TEST(!call(client, j).ends().ran);
    BOOST_TEST(j.runs == 1);
}

// Such an error of the body is not that of the call itself.
BOOST_AUTO_TEST_CASE(what_a_lock_within_its_body_throws_is_the_result) {
    fleet servers(3);
    test_client client(servers);
    auto const fails = [](lease&) -> asio::awaitable<void> {
        throw_error(errc::wait_timeout);
        co_return;
    };
    auto done = false;
    std::exception_ptr thrown;
    at_most_every(hour, client.locks.make_lock("job"), fails,
                  [&](std::exception_ptr e, start_report) {
                      thrown = e;
                      done = true;
                  });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_REQUIRE(thrown);
    BOOST_TEST((code_of(thrown) == errc::wait_timeout));
}

// The mark ends between the try that it refuses and the look at it.
BOOST_AUTO_TEST_CASE(a_call_whose_time_comes_while_it_looks_begins) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (int n = 0; n < 40; ++n) {
        (void)redis_cli(servers[0]).command({"SET", "job:last", "other", "PX", "2"});
        job j;
        call c(client, j);
        auto const& r = c.ends();
        BOOST_TEST(!c.thrown);
        BOOST_TEST(r.ran);
        (void)redis_cli(servers[0]).del("job:last");
    }
}

BOOST_AUTO_TEST_CASE(a_mark_that_never_ends_is_an_error) {
    fleet servers(1);
    test_client client(servers);
    (void)redis_cli(servers[0]).command({"SET", "job:last", "other"});
    job j;
    call c(client, j);
    (void)c.ends();
    BOOST_REQUIRE(c.thrown);
    BOOST_TEST((c.code() == errc::contended), c.code().message());
    BOOST_TEST(j.runs == 0);
}

// The lease of the mark comes together with the cancellation.
BOOST_AUTO_TEST_CASE(a_call_that_is_cancelled_at_any_step_leaves_no_mark_without_a_run) {
    fleet servers(1);
    for (int steps = 1; steps < 60; ++steps) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        client.context.restart();
        job j;
        call c(client, j);
        for (int i = 0; i < steps && !c.done; ++i) client.context.run_one_for(1s);
        c.signal.emit(asio::cancellation_type::terminal);
        (void)c.ends();
        BOOST_TEST(client.idle());
        auto const marked = [&] { return redis_cli(servers[0]).exists("job:last"); };
        BOOST_TEST(client.until([&] { return marked() == (j.runs == 1); }), steps << " steps");
        (void)redis_cli(servers[0]).del("job:last");
    }
}

namespace {

/// Calls that are cancelled at random moments, and counts those that left a mark and began nothing.
asio::awaitable<void> cancel_at_random(client& locks, int calls, int& marked) {
    co_await locks.wait_ready();
    std::mt19937 random(7);
    std::chrono::microseconds usual(600);
    for (int n = 0; n < calls; ++n) {
        auto const key = "job" + std::to_string(n);
        auto const on = locks.make_lock(key);
        std::atomic<bool> called = false;
        auto const body = [&](lease&) -> asio::awaitable<void> {
            called = true;
            co_return;
        };
        auto const begun = lease_clock::now();
        std::uniform_int_distribution<long> moment(0, 3 * usual.count() / 2);
        std::chrono::microseconds const limit(moment(random));
        auto token = asio::cancel_after(limit, asio::as_tuple(asio::use_awaitable));
        auto ended = co_await at_most_every(hour, on, body, token);
        if (called) {
            auto const took = lease_clock::now() - begun;
            usual = (15 * usual + std::chrono::duration_cast<std::chrono::microseconds>(took)) / 16;
            continue;
        }
        // The release of a mark may be on its way.
        auto seen = co_await locks.inspect(key + ":last");
        for (int i = 0; i < 100 && seen.state != key_state::free; ++i) {
            auto again = co_await locks.inspect(key + ":last");
            seen = std::move(again);
        }
        marked += seen.state != key_state::free;
    }
    co_await locks.shutdown();
}

} // namespace

BOOST_AUTO_TEST_CASE(nor_does_one_that_another_thread_cancels) {
    fleet servers(1);
    asio::io_context context(2);
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto marked = 0;
    std::exception_ptr thrown;
    asio::co_spawn(asio::make_strand(context), cancel_at_random(locks, 2'000, marked),
                   [&](std::exception_ptr e) {
                       thrown = e;
                       locks.close();
                   });
    std::thread other([&] { context.run(); });
    context.run();
    other.join();
    if (thrown) std::rethrow_exception(thrown);
    BOOST_TEST(marked == 0);
}

BOOST_AUTO_TEST_CASE(a_call_can_be_cancelled) {
    fleet servers(3);
    test_client client(servers), other(servers);
    auto held = other.hold("job");
    job j;
    call c(client, j);
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    c.signal.emit(asio::cancellation_type::terminal);
    (void)c.ends();
    BOOST_TEST(is_cancellation(c.code()), c.code().message());
    BOOST_TEST(j.runs == 0);
    BOOST_TEST(copies(servers, "job:last") == 0U);
}

// Marks that a client left on a minority when it died.
BOOST_AUTO_TEST_CASE(marks_on_a_minority_do_not_count) {
    fleet servers(3);
    test_client client(servers);
    (void)redis_cli(servers[0]).command({"SET", "job:last", "dead", "PX", "3600000"});
    job j;
    BOOST_TEST(call(client, j).ends().ran);
    BOOST_TEST(is_held(servers, "job:last"));
}

BOOST_AUTO_TEST_CASE(bad_intervals_and_keys_are_refused_with_their_values) {
    fleet servers(1);
    auto options = patient();
    options.key_prefix = "p:";
    test_client client(servers, options);
    job j;
    auto const refuses = [&](std::string const& key, std::chrono::milliseconds interval,
                             char const* words) {
        BOOST_CHECK_EXCEPTION(
            (void)at_most_every(interval, client.locks.make_lock(key), std::ref(j),
                                [](std::exception_ptr, start_report) {}),
            system_error, [&](system_error const& e) { return contains(e.what(), words); });
    };
    refuses("k", 999ms, "999 ms");
    refuses("k", 24 * 24h + 1ms, "interval");
    refuses(std::string(max_key_size - 4, 'k'), 1h, "bytes");
    BOOST_TEST(j.runs == 0);
}

BOOST_AUTO_TEST_CASE(a_report_is_one_readable_line) {
    start_report r{.key = "job"};
    BOOST_TEST(r.to_string() == "\"job\": began before");
    r.holder = "web-1";
    r.since = 12min + 5s;
    r.due = 48min;
    BOOST_TEST(r.to_string() == "\"job\": began 12 min ago at web-1, due in 48 min");
    r.running = true;
    r.due = {};
    r.since = 2h;
    BOOST_TEST(r.to_string() == "\"job\": held, began 2 h ago at web-1");
    BOOST_TEST((start_report{.key = "job", .ran = true, .due = 7s}.to_string() ==
                "\"job\": ran, due in 7 s"));
}

BOOST_AUTO_TEST_SUITE_END()
