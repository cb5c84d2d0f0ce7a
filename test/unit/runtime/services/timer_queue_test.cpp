// Many times behind one timer, on a real io_context. Due times are past or a few ms ahead, so no
// test sleeps.
#include "runtime/services/timer_queue.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using holdfast::lease_clock;
using namespace std::chrono_literals;

namespace {

/// Appends its name to the log when its time has come.
struct note final : holdfast::runtime::timed {
    note(std::string& to, char n)
        : log(to)
        , name(n) {}

    void on_time(lease_clock::time_point now) override {
        log += name;
        told = now;
        if (then) then();
    }

    std::string& log;
    char name;
    lease_clock::time_point told{};
    std::function<void()> then;
};

/// Throws instead of taking a function, `losses` times.
struct losing_executor {
    asio::io_context& of;
    int& losses;

    template <class Function>
    void execute(Function&& f) const {
        if (losses > 0) {
            --losses;
            throw std::bad_alloc();
        }
        of.get_executor().execute(std::forward<Function>(f));
    }
    asio::io_context& query(asio::execution::context_t) const noexcept { return of; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    losing_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
    friend bool operator==(losing_executor const& a, losing_executor const& b) noexcept {
        return &a.of == &b.of && &a.losses == &b.losses;
    }
    friend bool operator!=(losing_executor const& a, losing_executor const& b) noexcept {
        return !(a == b);
    }
};

struct fixture {
    fixture() {
        queue.call([this](boost::system::error_code ec) {
            if (ec == asio::error::no_memory) return; // the context ends
            ec ? ++aborted : ++fired;
            ec ? queue.woken_early() : queue.run_due(lease_clock::now());
        });
    }
    ~fixture() { queue.clear(); }

    /// Runs until the log has `size` letters. False if that takes more than 10 s.
    bool run_until_logged(std::size_t size) {
        auto const limit = std::chrono::steady_clock::now() + 10s;
        while (log.size() < size && std::chrono::steady_clock::now() < limit) {
            context.restart();
            if (context.run_one_for(1s) == 0) break; // the timer is not armed
        }
        return log.size() >= size;
    }

    asio::io_context context;
    holdfast::runtime::timer_queue queue{context.get_executor()};
    std::string log;
    note a{log, 'a'}, b{log, 'b'}, c{log, 'c'}, d{log, 'd'};
    int fired = 0, aborted = 0, losses = 0;
    lease_clock::time_point const now = lease_clock::now();
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(timer_queue, fixture)

BOOST_AUTO_TEST_CASE(what_is_due_is_called_in_the_order_of_time) {
    queue.schedule(c, now + 3h);
    queue.schedule(a, now + 1h);
    queue.schedule(d, now + 4h);
    queue.schedule(b, now + 2h);
    queue.run_due(now + 5h);
    BOOST_TEST(log == "abcd");
}

BOOST_AUTO_TEST_CASE(what_is_due_at_one_time_is_called_in_the_order_of_scheduling) {
    for (auto* n : {&b, &a, &d, &c}) queue.schedule(*n, now + 1h);
    queue.run_due(now + 1h);
    BOOST_TEST(log == "badc");
}

BOOST_AUTO_TEST_CASE(each_is_called_once) {
    queue.schedule(a, now);
    queue.run_due(now);
    queue.run_due(now + 1h);
    BOOST_TEST(log == "a");
    BOOST_TEST(!a.is_linked());
}

BOOST_AUTO_TEST_CASE(only_what_falls_due_within_a_millisecond_is_called) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 1h + 1ms);
    queue.schedule(c, now + 1h + 1ms + 1ns);
    queue.run_due(now + 1h - 1ms - 1ns);
    BOOST_TEST(log == "");
    queue.run_due(now + 1h);
    BOOST_TEST(log == "ab");
    queue.run_due(now + 1h + 1ms);
    BOOST_TEST(log == "abc");
}

BOOST_AUTO_TEST_CASE(nobody_is_told_a_time_before_its_own) {
    queue.schedule(a, now + 1h - 1min);
    queue.schedule(b, now + 1h);
    queue.schedule(c, now + 1h + 1ms);
    queue.run_due(now + 1h);
    BOOST_TEST((a.told == now + 1h));
    BOOST_TEST((b.told == now + 1h));
    BOOST_TEST((c.told == now + 1h + 1ms));
    BOOST_TEST((c.when() == now + 1h + 1ms));
}

BOOST_AUTO_TEST_CASE(rescheduling_replaces_the_earlier_time) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 2h);
    queue.schedule(a, now + 3h); // moved to a later time
    BOOST_TEST((a.when() == now + 3h));
    queue.run_due(now + 2h);
    BOOST_TEST(log == "b");
    queue.schedule(a, now + 1h); // moved to an earlier time
    queue.run_due(now + 2h);
    BOOST_TEST(log == "ba");
    queue.run_due(now + 4h);
    BOOST_TEST(log == "ba");
}

BOOST_AUTO_TEST_CASE(rescheduling_to_the_same_time_keeps_the_place) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 1h);
    queue.schedule(a, now + 1h);
    queue.run_due(now + 1h);
    BOOST_TEST(log == "ab");
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_is_not_called) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 1h);
    queue.cancel(a);
    BOOST_TEST(!a.is_linked());
    queue.cancel(a); // cancelled twice
    queue.cancel(c); // never scheduled
    queue.run_due(now + 2h);
    BOOST_TEST(log == "b");
    // A cancelled entry may be scheduled again.
    queue.schedule(a, now + 1h);
    queue.run_due(now + 2h);
    BOOST_TEST(log == "ba");
}

BOOST_AUTO_TEST_CASE(who_is_called_may_schedule_and_cancel_others_and_itself) {
    a.then = [this] {
        queue.cancel(b);              // due at the same time
        queue.schedule(c, now + 1h);  // due already, so it runs in the next run
        queue.schedule(a, now + 10h); // again, at a later time
    };
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 1h);
    queue.run_due(now + 2h);
    BOOST_TEST(log == "a");
    BOOST_TEST(a.is_linked());
    a.then = {};
    queue.run_due(now + 3h);
    BOOST_TEST(log == "ac");
    queue.run_due(now + 10h);
    BOOST_TEST(log == "aca");
}

// Otherwise a run would never end, because its time stands still.
BOOST_AUTO_TEST_CASE(who_puts_itself_off_by_a_moment_is_called_once_a_run) {
    for (auto const moment : {0ns, 1ns, 1'000'000ns}) {
        log.clear();
        a.then = [&] {
            if (log.size() < 100) queue.schedule(a, now + 1h + moment);
        };
        queue.schedule(a, now + 1h);
        queue.run_due(now + 1h);
        BOOST_TEST(log == "a");
        queue.cancel(a);
    }
}

BOOST_AUTO_TEST_CASE(a_thousand_come_in_order) {
    std::list<note> many;
    std::vector<lease_clock::time_point> seen;
    for (int i = 0; i < 1'000; ++i) {
        auto& n = many.emplace_back(log, 'x');
        n.then = [&seen, &n] { seen.push_back(n.when()); };
        queue.schedule(n, now + 1h + std::chrono::seconds(i * 7'919 % 1'000));
    }
    queue.run_due(now + 2h);
    BOOST_TEST(seen.size() == 1'000U);
    BOOST_TEST(std::is_sorted(seen.begin(), seen.end()));
}

BOOST_AUTO_TEST_CASE(the_timer_brings_what_is_past_without_delay) {
    queue.schedule(a, now - 1h);
    BOOST_TEST(log == ""); // schedule() never calls on_time()
    BOOST_TEST(run_until_logged(1));
    BOOST_TEST(log == "a");
    BOOST_TEST(fired == 1);
}

BOOST_AUTO_TEST_CASE(the_timer_brings_each_in_its_turn_and_none_too_early) {
    auto const soon = lease_clock::now();
    queue.schedule(c, soon + 30ms);
    queue.schedule(a, soon + 10ms);
    queue.schedule(b, soon + 20ms);
    BOOST_TEST(run_until_logged(3));
    BOOST_TEST(log == "abc");
    for (auto const* n : {&a, &b, &c}) BOOST_TEST((n->told >= n->when()));
    BOOST_TEST((lease_clock::now() >= soon + 29ms));
}

BOOST_AUTO_TEST_CASE(the_timer_is_armed_anew_for_what_is_earlier) {
    queue.schedule(a, now + 1h);
    context.poll();
    BOOST_TEST(fired + aborted == 0);
    queue.schedule(b, lease_clock::now() + 5ms);
    BOOST_TEST(run_until_logged(1));
    BOOST_TEST(log == "b");
    BOOST_TEST(fired == 1);
    BOOST_TEST(aborted == 1); // the wait of an hour was aborted
    // The timer is armed again for the remaining entry.
    queue.schedule(a, lease_clock::now() + 5ms);
    BOOST_TEST(run_until_logged(2));
    BOOST_TEST(log == "ba");
}

BOOST_AUTO_TEST_CASE(the_timer_is_left_alone_for_what_is_later) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 2h);
    queue.schedule(c, now + 1h);
    queue.cancel(c);
    queue.schedule(c, now + 3h);
    context.restart();
    context.poll();
    BOOST_TEST(aborted == 0);
    BOOST_TEST(fired == 0);
}

BOOST_AUTO_TEST_CASE(a_timer_that_fires_for_somebody_cancelled_is_armed_for_the_next) {
    auto const soon = lease_clock::now();
    queue.schedule(a, soon + 5ms);
    queue.schedule(b, soon + 25ms);
    queue.cancel(a);
    BOOST_TEST(run_until_logged(1));
    BOOST_TEST(log == "b");
    BOOST_TEST((lease_clock::now() >= soon + 24ms));
}

BOOST_AUTO_TEST_CASE(a_timer_that_fires_for_somebody_put_off_is_armed_for_the_later_time) {
    auto const soon = lease_clock::now();
    queue.schedule(a, soon + 5ms);
    queue.schedule(a, soon + 25ms);
    BOOST_TEST(run_until_logged(1));
    BOOST_TEST(log == "a");
    BOOST_TEST((lease_clock::now() >= soon + 24ms));
}

BOOST_AUTO_TEST_CASE(what_is_scheduled_by_who_is_called_gets_its_timer) {
    a.then = [this] {
        if (log.size() < 3) queue.schedule(a, lease_clock::now() + 5ms);
    };
    queue.schedule(a, now);
    BOOST_TEST(run_until_logged(3));
    BOOST_TEST(log == "aaa");
    BOOST_TEST(fired == 3);
}

BOOST_AUTO_TEST_CASE(nothing_comes_after_stop) {
    queue.schedule(a, now + 1h);
    queue.stop();
    queue.schedule(b, now - 1h);
    context.restart();
    context.run_for(10s); // no timer is armed, so this ends at once
    BOOST_TEST(log == "");
    BOOST_TEST(fired == 0);
    BOOST_TEST(aborted == 1);
    BOOST_TEST(context.stopped());
}

// Only one wait exists at a time, however often the timer is armed. Its memory is reserved for one.
BOOST_AUTO_TEST_CASE(an_earlier_time_takes_the_place_of_the_wait) {
    for (auto hours = 9; hours > 1; --hours) {
        queue.schedule(a, now + std::chrono::hours(hours));
        if (hours % 2 == 0) {
            context.restart();
            context.poll();
        }
    }
    context.restart();
    context.poll();
    BOOST_TEST(fired == 0);
    BOOST_TEST(aborted == 4); // one for each run of the context
    queue.schedule(a, lease_clock::now() + 5ms);
    BOOST_TEST(run_until_logged(1));
    BOOST_TEST(fired == 1);
}

BOOST_AUTO_TEST_CASE(a_wait_that_the_executor_loses_is_rearmed) {
    // The executor loses a function of the timer, as one without memory does.
    asio::io_context other;
    auto told = 0;
    holdfast::runtime::timer_queue losing(losing_executor{other, losses});
    losing.call([&](boost::system::error_code ec) {
        if (ec == asio::error::no_memory) {
            ++told;
        } else if (ec) {
            losing.woken_early();
        } else {
            losing.run_due(lease_clock::now());
        }
    });
    losses = 1;
    losing.schedule(a, now - 1h);
    auto const run = [&] {
        other.restart();
        other.run_for(1s); // ends as soon as no timer is armed
    };
    BOOST_CHECK_THROW(run(), std::bad_alloc);
    run();
    BOOST_TEST(told == 1);
    BOOST_TEST(log == "");
    losing.rearm();
    run();
    BOOST_TEST(log == "a");
    losing.rearm(); // there is nothing to rearm
    run();
    BOOST_TEST(log == "a");
    BOOST_TEST(told == 1);
}

BOOST_AUTO_TEST_CASE(clear_lets_everybody_go) {
    queue.schedule(a, now + 1h);
    queue.schedule(b, now + 2h);
    queue.clear();
    BOOST_TEST(!a.is_linked());
    BOOST_TEST(!b.is_linked());
    queue.run_due(now + 3h);
    BOOST_TEST(log == "");
}

BOOST_AUTO_TEST_CASE(the_end_of_time_is_never_due_and_needs_no_timer) {
    queue.schedule(a, lease_clock::time_point::max());
    queue.run_due(now + 24h);
    context.restart();
    context.run_for(10s); // ends at once
    BOOST_TEST(context.stopped());
    BOOST_TEST(log == "");
}

BOOST_AUTO_TEST_SUITE_END()
