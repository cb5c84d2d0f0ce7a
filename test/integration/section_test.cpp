// Critical sections: client::run() calls the body under the lock or not at all, cancels it while
// the lease still lasts, waits for it whatever it does, and gives the lock back on every way out.
#include "protocol/rules.hpp"

#include "integration/party.hpp"
#include "integration/wires.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Of no library.
struct no_seats {
    int left;
};

error_code code_of(std::exception_ptr const& e) {
    if (!e) return {};
    try {
        std::rethrow_exception(e);
    } catch (system_error const& thrown) {
        return thrown.code();
    } catch (...) {
        BOOST_ERROR("this is no system_error");
        return {};
    }
}

bool is_cancellation(error_code ec) {
    return ec == boost::system::errc::operation_canceled;
}

// A release ends with the quorum's answers; the rest of the instances may be a little behind.
bool given_back(fleet const& servers, std::string const& key = "k") {
    return copies(servers, key) <= servers.size() - servers.quorum();
}

bool is_held(fleet const& servers, std::string const& key = "k") {
    return copies(servers, key) >= servers.quorum();
}

// Coroutine frames of a body: each that was entered is left.
struct frames {
    int entered = 0, left = 0;
    bool inside() const { return entered > left; }
};
struct in_frame {
    explicit in_frame(frames& f)
        : all(f) {
        ++all.entered;
    }
    ~in_frame() { ++all.left; }
    in_frame(in_frame const&) = delete;
    in_frame& operator=(in_frame const&) = delete;
    frames& all;
};

// How a section ended that was started with a callback.
struct ending {
    // The handler keeps a pointer to this.
    auto take() {
        return [this](std::exception_ptr e, int v) {
            done = true;
            thrown = e;
            value = v;
        };
    }
    error_code code() const { return code_of(thrown); }

    bool done = false;
    std::exception_ptr thrown;
    int value = 0;
};

// Until it is cancelled. True: it was.
asio::awaitable<bool> wait_for_signal() {
    asio::steady_timer timer(co_await asio::this_coro::executor, 60s);
    auto const quietly = asio::as_tuple(asio::deferred);
    auto [ec] = co_await timer.async_wait(quietly);
    co_return ec == asio::error::operation_aborted;
}

// Work that a cancelled coroutine has still to do, by other handlers. Its cancellation must have
// been reset.
asio::awaitable<void> clean_up() {
    for (int i = 0; i < 5; ++i) co_await asio::post(asio::deferred);
}

bool nothing_left(party& p, fleet const& servers) {
    auto const idle = p.until([&] {
        auto const s = p.locks.stats();
        return s.held == 0 && s.pending == 0 && s.waiters == 0;
    });
    return p.sees_no_keys(servers) && idle;
}

asio::awaitable<int> plain_function(lease& l) {
    co_await asio::post(asio::deferred);
    co_return l.held() ? 17 : -1;
}

//
// A section that is disturbed after the first, second, third .. handler
//

asio::awaitable<int> one_frame_more(frames& f) {
    in_frame const here(f);
    co_await asio::post(asio::deferred);
    co_return 3;
}

// A body of several steps of all kinds, with a section in it.
asio::awaitable<int> several_steps(client& locks, lease& l, frames& f,
                                   std::shared_ptr<int> /*mark*/) {
    in_frame const here(f);
    co_await asio::post(asio::deferred);
    auto sum = co_await one_frame_more(f);
    auto const quietly = asio::as_tuple(asio::deferred);
    co_await l.extend(quietly);
    sum += co_await with_lock(locks.make_lock("inner", {.ttl = 60s}),
                              [&](lease&) { return one_frame_more(f); });
    co_await asio::post(asio::deferred);
    co_return sum + 1;
}
constexpr int all_steps = 7;

// A client of its own with one section on "k".
struct trial {
    trial(fleet const& servers, client_options const& o)
        : trial(addresses_of(servers), o) {}
    trial(std::vector<address> where, client_options const& o)
        : locks(std::in_place, context.get_executor(), std::move(where), o) {
        BOOST_REQUIRE(run_until(context, [&] { return is_up(*locks); }));
        context.restart();
    }
    // The section is behind another that ends when it has come to wait.
    void occupy() {
        locks->make_lock("k", long_lived).acquire([this](error e, lease l) {
            if (!e) first = std::move(l);
        });
        BOOST_REQUIRE(run_until(context, [&] { return first.held(); }));
        context.restart();
    }
    template <class Body>
    void start(lock_options const& o, Body const& body) {
        with_lock(locks->make_lock("k", o), body,
                  asio::bind_cancellation_slot(signal.slot(), end.take()));
    }
    // From a coroutine, which passes on every kind of cancellation.
    template <class Body>
    void start_in_coroutine(lock_options const& o, Body const& body) {
        asio::co_spawn(context, call(o, body),
                       asio::bind_cancellation_slot(signal.slot(), [this](std::exception_ptr e) {
                           end.done = true;
                           end.thrown = e;
                       }));
    }
    // False: it has ended before that.
    [[nodiscard]] bool runs_for(int handlers) {
        for (int i = 0; i < handlers && !end.done; ++i) {
            if (first) {
                if (locks->stats().waiters == 1) first = lease();
            }
            BOOST_REQUIRE(context.run_one_for(10s) == 1);
        }
        return !end.done;
    }
    [[nodiscard]] bool ends() {
        first = lease();
        return run_until(context, [&] { return end.done; });
    }
    [[nodiscard]] bool is_idle() {
        return run_until(context, [&] {
            auto const s = locks->stats();
            return s.held == 0 && s.pending == 0 && s.waiters == 0;
        });
    }

    std::shared_ptr<int> mark = std::make_shared<int>();
    // Their counts outlive this.
    std::shared_ptr<frames> const calls_seen = std::make_shared<frames>(),
                                  bodies_seen = std::make_shared<frames>();
    frames &calls = *calls_seen, &bodies = *bodies_seen;
    asio::cancellation_signal signal;
    ending end;
    asio::io_context context;
    std::optional<client> locks;
    lease first;

private:
    template <class Body>
    asio::awaitable<void> call(lock_options o, Body body) {
        in_frame const here(calls);
        co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
        end.value = co_await with_lock(locks->make_lock("k", o), body);
    }
};

struct witnesses {
    explicit witnesses(fleet const& servers) {
        for (server& one : servers) clis.emplace_back(one);
    }
    bool see_no_keys() {
        return std::all_of(clis.begin(), clis.end(), [](redis_cli& c) { return c.dbsize() == 0; });
    }
    std::size_t del(std::string const& key) {
        std::size_t n = 0;
        for (auto& c : clis) n += c.del(key) ? 1 : 0;
        return n;
    }
    void flush() {
        for (auto& c : clis) c.flush();
    }
    std::vector<redis_cli> clis;
};

enum class caller {
    callback,
    coroutine,
    waiting ///< a callback behind another holder
};
constexpr std::array every_caller{caller::callback, caller::coroutine, caller::waiting};

char const* name(caller c) {
    return c == caller::callback ? "callback" : c == caller::coroutine ? "coroutine" : "waiting";
}

// Calls `disturb(trial)` after each number of handlers that the section takes, each time in a
// client of its own, and `check(trial, disturbed)` when that has ended.
template <class Disturb, class Check>
int after_each_handler(fleet const& servers, caller how, Disturb disturb, Check check) {
    for (int n = 0;; ++n) {
        BOOST_TEST_CONTEXT("after " << n << " handlers, " << name(how)) {
            BOOST_REQUIRE(n < 500);
            std::optional<trial> t(std::in_place, servers, patient());
            auto const body = [one = &*t](lease& l) {
                return several_steps(*one->locks, l, one->bodies, one->mark);
            };
            if (how == caller::waiting) t->occupy();
            if (how == caller::coroutine) {
                t->start_in_coroutine(long_lived, body);
            } else {
                t->start(long_lived, body);
            }
            auto const disturbed = t->runs_for(n);
            if (disturbed) disturb(t);
            check(t, disturbed);
            if (!disturbed) return n;
        }
    }
}

// The shutdown ends with the last answer, so that nothing is on its way to a server either.
void check_nothing_left(trial& t, witnesses& w) {
    BOOST_TEST(t.is_idle());
    auto shut = false;
    t.locks->shutdown([&](error) { shut = true; });
    BOOST_TEST(run_until(t.context, [&] { return shut; }));
    BOOST_TEST(w.see_no_keys());
}

void check_all_went_well(trial& t, witnesses& w) {
    BOOST_TEST(t.end.done);
    BOOST_TEST(!t.end.code(), t.end.code().message());
    BOOST_TEST(t.end.value == all_steps);
    check_nothing_left(t, w);
}

} // namespace

BOOST_AUTO_TEST_SUITE(section)

//
// Results
//

BOOST_AUTO_TEST_CASE(a_section_gives_what_its_body_gives) {
    fleet servers(3);
    party p(servers);
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        int const number =
            co_await with_lock(locks.make_lock("k"), [](lease& l) -> asio::awaitable<int> {
                co_return l.held() ? 42 : -1;
            });
        BOOST_TEST(number == 42);
        std::string const text =
            co_await with_lock(locks.make_lock("k"), [](lease& l) -> asio::awaitable<std::string> {
                co_await asio::post(asio::deferred);
                co_return "a text too long to be kept within the string, of " + l.key();
            });
        BOOST_TEST(text == "a text too long to be kept within the string, of k");
        auto const moved = co_await with_lock(locks.make_lock("k"),
                                              [](lease&) -> asio::awaitable<std::unique_ptr<int>> {
                                                  co_await asio::post(asio::deferred);
                                                  co_return std::make_unique<int>(7);
                                              });
        BOOST_REQUIRE(moved);
        BOOST_TEST(*moved == 7);
        auto called = 0;
        co_await with_lock(locks.make_lock("k"), [&](lease&) -> asio::awaitable<void> {
            ++called;
            co_return;
        });
        BOOST_TEST(called == 1);
    });
    BOOST_TEST(p.locks.stats().acquired == 4U);
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(the_lock_is_held_meanwhile_and_given_back_before_the_end_is_told) {
    for (std::size_t const size : {1U, 3U, 5U}) {
        fleet servers(size);
        party p(servers);
        party other(servers);
        run(p.context, [&]() -> asio::awaitable<void> {
            auto& locks = p.locks;
            co_await with_lock(locks.make_lock("k", long_lived),
                               [&](lease& l) -> asio::awaitable<void> {
                                   BOOST_TEST(l.held());
                                   BOOST_TEST(l.key() == "k");
                                   BOOST_TEST(is_held(servers));
                                   co_await asio::post(asio::deferred);
                                   BOOST_TEST((other.try_acquire("k").first == errc::contended));
                                   BOOST_TEST(is_held(servers));
                               });
            BOOST_TEST(given_back(servers));
        });
        p.runs_with(other);
        auto next = other.hold("k");
        BOOST_TEST(other.releases(next));
        BOOST_TEST(nothing_left(p, servers));
    }
}

BOOST_AUTO_TEST_CASE(what_a_body_throws_comes_out_as_it_was_and_the_lock_is_given_back_by_then) {
    fleet servers(3);
    party p(servers);
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        auto caught = 0;
        try {
            co_await with_lock(locks.make_lock("k", long_lived),
                               [](lease&) -> asio::awaitable<int> {
                                   co_await asio::post(asio::deferred);
                                   throw no_seats{3};
                               });
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 3);
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        // Before its first suspension.
        try {
            co_await with_lock(locks.make_lock("k", long_lived),
                               [](lease&) -> asio::awaitable<void> {
                                   throw std::out_of_range("row 99");
                                   co_return;
                               });
        } catch (std::out_of_range const& e) {
            BOOST_TEST(std::string(e.what()) == "row 99");
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        // What looks like ours, or like a cancellation, and is the body's.
        for (auto const code : {make_error_code(errc::lease_lost), make_error_code(errc::cancelled),
                                error_code(asio::error::operation_aborted)}) {
            try {
                co_await with_lock(locks.make_lock("k", long_lived),
                                   [&](lease&) -> asio::awaitable<int> {
                                       co_await asio::post(asio::deferred);
                                       throw system_error(code, "the body's");
                                   });
            } catch (system_error const& e) {
                BOOST_TEST(e.code() == code);
                BOOST_TEST(std::string(e.what()).find("the body's") == 0U);
                BOOST_TEST(given_back(servers));
                ++caught;
            }
        }
        BOOST_TEST(caught == 5);
    });
    BOOST_TEST(nothing_left(p, servers));
}

//
// Executors and tokens
//

BOOST_AUTO_TEST_CASE(a_body_runs_on_the_strand_of_its_caller) {
    fleet servers(3);
    party p(servers);
    auto const strand = asio::make_strand(p.context);
    auto checked = 0;
    auto done = false;
    auto const caller = [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        co_await with_lock(locks.make_lock("k", long_lived),
                           [&](lease& l) -> asio::awaitable<void> {
                               BOOST_TEST(strand.running_in_this_thread());
                               ++checked;
                               co_await asio::post(asio::deferred);
                               BOOST_TEST(strand.running_in_this_thread());
                               auto const quietly = asio::as_tuple(asio::deferred);
                               co_await l.extend(quietly);
                               BOOST_TEST(strand.running_in_this_thread());
                               ++checked;
                           });
        BOOST_TEST(strand.running_in_this_thread());
    };
    asio::co_spawn(strand, caller(), [&](std::exception_ptr e) {
        BOOST_TEST(!e);
        done = true;
    });
    BOOST_REQUIRE(p.until([&] { return done; }));
    BOOST_TEST(checked == 2);
    // With a callback: its executor, else the client's.
    auto told = 0;
    for (auto const bound : {true, false}) {
        auto const body = [&, bound](lease&) -> asio::awaitable<int> {
            BOOST_TEST(strand.running_in_this_thread() == bound);
            co_await asio::post(asio::deferred);
            BOOST_TEST(strand.running_in_this_thread() == bound);
            co_return 1;
        };
        auto const handler = [&, bound](std::exception_ptr e, int) {
            BOOST_TEST(!e);
            BOOST_TEST(strand.running_in_this_thread() == bound);
            ++told;
        };
        if (bound) {
            with_lock(p.locks.make_lock("k", long_lived), body,
                      asio::bind_executor(strand, handler));
        } else {
            with_lock(p.locks.make_lock("k", long_lived), body, handler);
        }
    }
    BOOST_TEST(told == 0); // not inside the call
    BOOST_TEST(p.until([&] { return told == 2; }));
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_body_runs_in_the_context_of_its_caller) {
    fleet servers(3);
    party p(servers);
    asio::io_context elsewhere;
    std::optional<std::thread::id> there;
    std::atomic<bool> done{false};
    auto const caller = [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        there = std::this_thread::get_id();
        auto const number = co_await with_lock(
            locks.make_lock("k", long_lived), [&](lease& l) -> asio::awaitable<int> {
                BOOST_TEST((std::this_thread::get_id() == *there));
                co_await asio::post(asio::deferred);
                co_await l.extend();
                BOOST_TEST((std::this_thread::get_id() == *there));
                co_return 5;
            });
        BOOST_TEST(number == 5);
        BOOST_TEST((std::this_thread::get_id() == *there));
    };
    asio::co_spawn(elsewhere, caller(), [&](std::exception_ptr e) {
        BOOST_TEST(!e);
        done = true;
    });
    std::thread thread([&] { elsewhere.run(); });
    BOOST_TEST(p.until([&] { return done.load(); }));
    if (!done) elsewhere.stop();
    thread.join();
    BOOST_TEST((there != std::this_thread::get_id()));
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_section_goes_with_every_token) {
    fleet servers(3);
    party p(servers);
    auto const body = [](lease& l) -> asio::awaitable<int> {
        co_await asio::post(asio::deferred);
        co_return l.held() ? 1 : -1;
    };
    auto const fails = [](lease&) -> asio::awaitable<int> {
        co_await asio::post(asio::deferred);
        throw no_seats{4};
    };
    auto const silent = [](lease&) -> asio::awaitable<void> {
        co_await asio::post(asio::deferred);
    };

    ending e;
    with_lock(p.locks.make_lock("k"), body, e.take());
    BOOST_TEST(p.until([&] { return e.done; }));
    BOOST_TEST(!e.thrown);
    BOOST_TEST(e.value == 1);
    auto ended = 0;
    with_lock(p.locks.make_lock("k"), silent,
              [&](std::exception_ptr thrown) { ended += thrown ? 100 : 1; });
    BOOST_TEST(p.until([&] { return ended == 1; }));

    auto number = with_lock(p.locks.make_lock("k"), body, asio::use_future);
    auto nothing = with_lock(p.locks.make_lock("k"), silent, asio::use_future);
    auto failed = with_lock(p.locks.make_lock("k"), fails, asio::use_future);
    auto const ready = [](auto& f) { return f.wait_for(0s) == std::future_status::ready; };
    BOOST_REQUIRE(p.until([&] { return ready(number) && ready(nothing) && ready(failed); }));
    BOOST_TEST(number.get() == 1);
    nothing.get();
    BOOST_CHECK_THROW(failed.get(), no_seats);

    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        {
            auto [thrown, value] = co_await with_lock(locks.make_lock("k"), body, asio::as_tuple);
            BOOST_TEST(!thrown);
            BOOST_TEST(value == 1);
        }
        {
            auto [thrown, value] = co_await with_lock(locks.make_lock("k"), fails, asio::as_tuple);
            BOOST_TEST(value == 0);
            BOOST_CHECK_THROW(std::rethrow_exception(thrown), no_seats);
        }
        {
            auto [thrown] = co_await with_lock(locks.make_lock("k"), silent, asio::as_tuple);
            BOOST_TEST(!thrown);
        }
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), body, asio::use_awaitable) == 1);
        auto const in_time = asio::cancel_after(20s);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), body, in_time) == 1);
        auto const in_time_quietly = asio::cancel_after(20s, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k"), body, in_time_quietly);
        BOOST_TEST(!thrown);
        BOOST_TEST(value == 1);

        // Lazy: it does nothing until it is started, and need never be.
        {
            auto const before = locks.stats().rounds;
            auto called = 0;
            auto counts = [&](lease&) -> asio::awaitable<void> {
                ++called;
                co_return;
            };
            { [[maybe_unused]] auto const dropped = with_lock(locks.make_lock("k"), counts); }
            auto later = with_lock(locks.make_lock("k"), counts);
            for (int i = 0; i < 5; ++i) co_await asio::post(asio::deferred);
            BOOST_TEST(called == 0);
            BOOST_TEST(locks.stats().rounds == before);
            co_await std::move(later);
            BOOST_TEST(called == 1);
        }

        // Two sections at once; and the first of two ends the other.
        auto first = with_lock(locks.make_lock("a"), body);
        auto second = with_lock(locks.make_lock("b"), silent);
        auto both = asio::experimental::make_parallel_group(std::move(first), std::move(second));
        auto ended_both =
            co_await both.async_wait(asio::experimental::wait_for_all(), asio::deferred);
        BOOST_TEST(!std::get<1>(ended_both));
        BOOST_TEST(std::get<2>(ended_both) == 1);
        BOOST_TEST(!std::get<3>(ended_both));
        auto was_cancelled = false;
        auto const endless = [&](lease&) -> asio::awaitable<void> {
            was_cancelled = co_await wait_for_signal();
        };
        auto short_one = with_lock(locks.make_lock("a"), body);
        auto long_one = with_lock(locks.make_lock("b"), endless);
        auto race =
            asio::experimental::make_parallel_group(std::move(short_one), std::move(long_one));
        auto ended_race =
            co_await race.async_wait(asio::experimental::wait_for_one(), asio::deferred);
        BOOST_TEST(std::get<2>(ended_race) == 1);
        BOOST_TEST(copies(servers, "b") <= 1U);
        // It may have been stopped before it was called.
        BOOST_TEST((was_cancelled || is_cancellation(code_of(std::get<3>(ended_race)))));
    });
    BOOST_TEST(nothing_left(p, servers));
}

//
// The body is not called
//

BOOST_AUTO_TEST_CASE(without_the_lock_the_body_is_not_called) {
    fleet servers(3);
    auto called = 0;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        ++called;
        co_return 1;
    };
    party holder(servers);
    party p(servers, hasty());
    BOOST_REQUIRE(p.all_up());
    // Somebody has it, and the time is up.
    auto held = holder.hold("k");
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        auto const token = asio::cancel_after(200ms, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
        BOOST_TEST(is_cancellation(code_of(thrown)));
        BOOST_TEST(value == 0);
    });
    BOOST_TEST(holder.releases(held));
    // No lock at all.
    for (server& one : servers) redis_cli(one).command({"RPUSH", "list", "x"});
    ending wrong;
    with_lock(p.locks.make_lock("list", long_lived), body, wrong.take());
    BOOST_REQUIRE(p.until([&] { return wrong.done; }));
    BOOST_TEST((wrong.code() == errc::wrong_type));
    for (server& one : servers) redis_cli(one).del("list");
    // What no lock can be made of is told by the call.
    auto const rejects = [&](std::string const& key, lock_options const& o, errc why) {
        BOOST_CHECK_EXCEPTION((void)with_lock(p.locks.make_lock(key, o), body), system_error,
                              [&](system_error const& e) { return e.code() == why; });
        BOOST_CHECK_EXCEPTION(
            with_lock(p.locks.make_lock(key, o), body, [](std::exception_ptr, int) {}),
            system_error, [&](system_error const& e) { return e.code() == why; });
    };
    rejects("", {}, errc::invalid_key);
    rejects(std::string(max_key_size + 1, 'x'), {}, errc::invalid_key);
    rejects("k", {.ttl = 1ms}, errc::invalid_options);
    rejects("k", {.ttl = 1s, .cancel_margin = 501ms}, errc::invalid_options);
    // Nobody there.
    servers.kill(2);
    ending down;
    with_lock(p.locks.make_lock("k", long_lived), body, down.take());
    BOOST_REQUIRE(p.until([&] { return down.done; }));
    BOOST_TEST((down.code() == error_condition::unavailable));
    BOOST_TEST(called == 0);
    BOOST_TEST((p.locks.stats().pending == 0U));
}

BOOST_AUTO_TEST_CASE(a_shutdown_while_it_waits_ends_it_without_the_body) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    auto called = 0;
    ending e;
    with_lock(
        p.locks.make_lock("k", long_lived),
        [&](lease&) -> asio::awaitable<int> {
            ++called;
            co_return 1;
        },
        e.take());
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    auto shut = false;
    p.locks.shutdown([&](error) { shut = true; });
    BOOST_TEST(p.until([&] { return e.done && shut; }));
    BOOST_TEST((e.code() == errc::shut_down));
    ending after;
    with_lock(
        p.locks.make_lock("k", long_lived), [](lease&) -> asio::awaitable<int> { co_return 1; },
        after.take());
    BOOST_TEST(p.until([&] { return after.done; }));
    BOOST_TEST((after.code() == errc::shut_down));
    BOOST_TEST(called == 0);
    BOOST_TEST(nothing_left(p, servers));
}

//
// Cancellation, shutdown, destruction and loss at every step
//

BOOST_AUTO_TEST_CASE(a_cancellation_at_any_step_ends_it_in_order) {
    fleet servers(3);
    witnesses w(servers);
    for (auto const how : every_caller) {
        for (auto const type : every_type) {
            auto before = 0, within = 0, ignored = 0;
            auto entered = false, inside = false, heard = false;
            auto const steps = after_each_handler(
                servers, how,
                [&](std::optional<trial>& t) {
                    entered = t->bodies.entered > 0;
                    inside = t->bodies.inside();
                    // A coroutine's own first step knows of a terminal cancellation alone.
                    heard = how != caller::coroutine || t->calls.entered > 0 ||
                            type == asio::cancellation_type::terminal;
                    t->signal.emit(type);
                },
                [&](std::optional<trial>& t, bool disturbed) {
                    BOOST_REQUIRE(t->ends());
                    BOOST_TEST(t->bodies.entered == t->bodies.left);
                    BOOST_TEST(t->calls.entered == t->calls.left);
                    // An acquire that is cancelled does not wait for its release.
                    if (t->bodies.entered > 0) BOOST_TEST(given_back(servers));
                    if (!disturbed) return check_all_went_well(*t, w);
                    auto const ec = t->end.code();
                    BOOST_TEST((is_cancellation(ec) || (!ec && t->end.value == all_steps)),
                               ec.message());
                    if (!entered) {
                        // Told from outside, it hears of it after what is ready to run.
                        if (is_cancellation(ec) && t->bodies.entered == 0) ++before;
                        auto const may_ignore = !heard || type == asio::cancellation_type::total;
                        if (!may_ignore || ec) BOOST_TEST(is_cancellation(ec), ec.message());
                    } else if (inside && type == asio::cancellation_type::total) {
                        BOOST_TEST(!ec, ec.message());
                        ++ignored;
                    } else if (inside && is_cancellation(ec)) {
                        ++within;
                    }
                    check_nothing_left(*t, w);
                });
            BOOST_TEST_CONTEXT(name(how) << ", type " << static_cast<int>(type)) {
                BOOST_TEST(steps > 5);
                // At the start. The steps while replies are out are the next test's: here they may
                // come together.
                BOOST_TEST(before >= 1);
                if (type == asio::cancellation_type::total) {
                    BOOST_TEST(ignored > 0);
                } else {
                    BOOST_TEST(within > 0);
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_while_replies_are_out_counts) {
    fleet servers(3);
    witnesses w(servers);
    for (auto const how : {caller::callback, caller::coroutine}) {
        for (auto const type : every_type) {
            // Sent; and one vote of the two that it takes has come.
            for (std::size_t const votes : {0U, 1U}) {
                BOOST_TEST_CONTEXT(name(how)
                                   << ", type " << static_cast<int>(type) << ", votes " << votes) {
                    wires on(servers);
                    trial t(on.addresses(), patient());
                    BOOST_REQUIRE(run_until(t.context, [&] { return on.are_quiet(); }));
                    t.context.restart();
                    for (std::size_t i = votes; i < servers.size(); ++i) on[i].hold_replies();
                    auto const body = [&](lease& l) {
                        return several_steps(*t.locks, l, t.bodies, t.mark);
                    };
                    if (how == caller::coroutine) {
                        t.start_in_coroutine(long_lived, body);
                    } else {
                        t.start(long_lived, body);
                    }
                    BOOST_REQUIRE(run_until(t.context, [&] {
                        std::size_t out = 0;
                        for (auto const& one : on.all) out += one.replies_held();
                        return out == servers.size() - votes &&
                               copies(servers, "k") == servers.size();
                    }));
                    t.context.restart();
                    t.signal.emit(type);
                    t.context.poll();
                    on.resume();
                    BOOST_TEST(t.ends());
                    BOOST_TEST(is_cancellation(t.end.code()), t.end.code().message());
                    BOOST_TEST(t.bodies.entered == 0);
                    check_nothing_left(t, w);
                }
            }
        }
    }
}

// Of whatever kind: nothing has happened yet.
BOOST_AUTO_TEST_CASE(a_cancellation_right_after_the_call_counts) {
    fleet servers(3);
    for (auto const type : every_type) {
        BOOST_TEST_CONTEXT("type " << static_cast<int>(type)) {
            trial t(servers, patient());
            auto called = 0;
            t.start(long_lived, [&](lease&) -> asio::awaitable<int> {
                ++called;
                co_return 1;
            });
            t.signal.emit(type);
            BOOST_TEST(t.ends());
            BOOST_TEST(is_cancellation(t.end.code()), t.end.code().message());
            BOOST_TEST(called == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_context_that_goes_at_any_step_takes_all_of_it_along) {
    fleet servers(3);
    witnesses w(servers);
    for (auto const how : every_caller) {
        auto within = 0;
        after_each_handler(
            servers, how, [](std::optional<trial>&) {},
            [&](std::optional<trial>& t, bool disturbed) {
                if (!disturbed) return check_all_went_well(*t, w);
                if (t->bodies.inside()) ++within;
                auto const mark = t->mark;
                auto const calls = t->calls_seen, bodies = t->bodies_seen;
                t.reset();
                BOOST_TEST(calls->entered == calls->left);
                BOOST_TEST(bodies->entered == bodies->left);
                BOOST_TEST(mark.use_count() == 1);
                w.flush();
            });
        BOOST_TEST(within > 3);
    }
}

BOOST_AUTO_TEST_CASE(a_shutdown_at_any_step_ends_it_in_order) {
    fleet servers(3);
    witnesses w(servers);
    for (auto const how : every_caller) {
        auto waiting = 0, lost = 0;
        auto shut = false;
        after_each_handler(
            servers, how,
            [&](std::optional<trial>& t) {
                shut = false;
                t->locks->shutdown([&](error) { shut = true; });
            },
            [&](std::optional<trial>& t, bool disturbed) {
                BOOST_REQUIRE(t->ends());
                BOOST_TEST(t->bodies.entered == t->bodies.left);
                if (!disturbed) return check_all_went_well(*t, w);
                auto const ec = t->end.code();
                if (ec == errc::shut_down) {
                    ++waiting;
                } else if (ec == errc::lease_lost) {
                    ++lost;
                } else {
                    BOOST_TEST((!ec && t->end.value == all_steps), ec.message());
                }
                BOOST_TEST(run_until(t->context, [&] { return shut; }));
                check_nothing_left(*t, w);
            });
        BOOST_TEST_CONTEXT(name(how)) {
            BOOST_TEST(waiting > 0);
            BOOST_TEST(lost > 0);
        }
    }
}

// At whatever step of the body somebody deletes the key: it is found at the latest when it is
// released.
BOOST_AUTO_TEST_CASE(a_key_that_goes_at_any_step_of_the_body_is_a_loss) {
    fleet servers(3);
    witnesses w(servers);
    auto within = 0;
    auto is_loss = false;
    after_each_handler(
        servers, caller::coroutine,
        [&](std::optional<trial>& t) {
            auto const inside = t->bodies.inside();
            is_loss = w.del("k") >= servers.quorum() && inside;
        },
        [&](std::optional<trial>& t, bool disturbed) {
            BOOST_REQUIRE(t->ends());
            BOOST_TEST(t->bodies.entered == t->bodies.left);
            if (!disturbed) return check_all_went_well(*t, w);
            auto const ec = t->end.code();
            if (is_loss) {
                ++within;
                BOOST_TEST((ec == errc::lease_lost), ec.message());
            } else {
                BOOST_TEST((ec == errc::lease_lost || (!ec && t->end.value == all_steps)),
                           ec.message());
            }
            check_nothing_left(*t, w);
        });
    BOOST_TEST(within > 3);
}

BOOST_AUTO_TEST_CASE(a_majority_that_hangs_at_any_step_is_a_loss_after_which_nothing_runs) {
    constexpr client_options quick{
        .instance_timeout = 60ms, .connect_timeout = 60ms, .max_reconnect_delay = 20ms};
    constexpr lock_options options{.ttl = 200ms};
    fleet servers(3);
    auto lost = 0;
    for (int n = 0; n < 40; ++n) {
        BOOST_TEST_CONTEXT("after " << n << " handlers") {
            trial t(servers, quick);
            auto over = false;
            t.start_in_coroutine(options, [&](lease& l) -> asio::awaitable<int> {
                in_frame const here(t.bodies);
                co_await l.extend(asio::as_tuple);
                co_await one_frame_more(t.bodies);
                auto const signalled = co_await wait_for_signal();
                BOOST_TEST(signalled);
                co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
                co_await clean_up();
                BOOST_TEST(!over);
                throw system_error(asio::error::operation_aborted);
            });
            auto const running = t.runs_for(n);
            servers.freeze(2);
            auto const entered = t.bodies.entered > 0;
            BOOST_TEST(t.ends());
            over = true;
            BOOST_TEST(t.bodies.entered == t.bodies.left);
            auto const ec = t.end.code();
            if (entered && running) {
                BOOST_TEST((ec == errc::lease_lost), ec.message());
                ++lost;
            } else {
                BOOST_TEST((ec == errc::lease_lost || ec == error_condition::unavailable ||
                            ec == errc::granted_too_late),
                           ec.message());
            }
            servers.thaw_all();
            BOOST_TEST(t.is_idle());
            for (server& one : servers) {
                redis_cli cli(one);
                BOOST_TEST(run_until(t.context, [&] { return cli.dbsize() == 0; }));
            }
        }
    }
    BOOST_TEST(lost > 3);
}

//
// A lease that cannot be kept
//

BOOST_AUTO_TEST_CASE(a_body_hears_of_a_loss_while_it_still_holds_and_is_waited_for) {
    struct cancel_margin {
        std::chrono::milliseconds given, meant;
    };
    constexpr auto ttl = 2s;
    // None, the default of a tenth of the ttl, some, and nearly the most.
    for (auto const g : {cancel_margin{0ms, 0ms}, cancel_margin{-1ms, 200ms},
                         cancel_margin{400ms, 400ms}, cancel_margin{660ms, 660ms}}) {
        BOOST_TEST_CONTEXT("cancel_margin " << g.given.count() << " ms") {
            fleet servers(3);
            party p(servers, hasty());
            auto over = false, cleaned = false, holds = false;
            lease_clock::duration left{};
            ending e;
            frames f;
            auto const body = [&](lease& l) -> asio::awaitable<int> {
                in_frame const here(f);
                auto const signalled = co_await wait_for_signal();
                left = l.deadline() - lease_clock::now();
                holds = l.held();
                BOOST_TEST(signalled);
                co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
                co_await clean_up();
                BOOST_TEST(!over);
                cleaned = true;
                throw system_error(asio::error::operation_aborted);
            };
            with_lock(p.locks.make_lock("k", {.ttl = ttl, .cancel_margin = g.given}), body,
                      e.take());
            BOOST_REQUIRE(p.until([&] { return f.inside(); }));
            BOOST_TEST(p.renews(2)); // it is kept while that can be done
            BOOST_TEST(!e.done);
            servers.freeze(3);
            BOOST_REQUIRE(p.until([&] { return e.done; }));
            over = true;
            BOOST_TEST(cleaned);
            BOOST_TEST(!f.inside());
            BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
            // No earlier than asked, but for what is told together.
            BOOST_TEST((left <=
                        std::max<lease_clock::duration>(g.meant, protocol::loss_margin(ttl)) + 2ms),
                       left.count());
            if (g.meant > 0ms) {
                BOOST_TEST(holds);
                BOOST_TEST((left > 0ms));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_body_that_heeds_no_cancellation_is_waited_for) {
    fleet servers(3);
    party p(servers, hasty());
    ending e;
    auto go_on = false, entered = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        entered = true;
        while (!go_on) co_await asio::post(asio::deferred);
        BOOST_TEST(!l.held());
        co_return 5;
    };
    with_lock(p.locks.make_lock("k", {.ttl = 300ms}), body, e.take());
    BOOST_REQUIRE(p.until([&] { return entered; }));
    servers.freeze(3);
    BOOST_TEST(p.until([&] { return p.locks.stats().lost == 1; }));
    for (int i = 0; i < 100; ++i) p.context.run_one();
    BOOST_TEST(!e.done);
    go_on = true;
    BOOST_TEST(p.until([&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    BOOST_TEST(e.value == 0);
}

// What it was cancelled for, it may have left undone.
BOOST_AUTO_TEST_CASE(a_body_that_was_cancelled_has_lost_also_if_it_ends_with_a_value_in_time) {
    fleet servers(3);
    party p(servers, hasty());
    ending e;
    auto entered = false, in_time = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        entered = true;
        auto const signalled = co_await wait_for_signal();
        BOOST_TEST(signalled);
        in_time = l.held();
        co_return 5;
    };
    with_lock(p.locks.make_lock("k", {.ttl = 3s, .cancel_margin = 1s}), body, e.take());
    BOOST_REQUIRE(p.until([&] { return entered; }));
    servers.freeze(3);
    BOOST_REQUIRE(p.until([&] { return e.done; }));
    BOOST_TEST(in_time);
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    BOOST_TEST(e.value == 0);
}

BOOST_AUTO_TEST_CASE(a_bodys_own_error_comes_before_the_loss) {
    fleet servers(3);
    party p(servers);
    ending e;
    auto entered = false;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        entered = true;
        co_await wait_for_signal();
        throw no_seats{2};
    };
    with_lock(p.locks.make_lock("k", {.ttl = 1s}), body, e.take());
    BOOST_REQUIRE(p.until([&] { return entered; }));
    witnesses(servers).del("k");
    BOOST_REQUIRE(p.until([&] { return e.done; }));
    BOOST_REQUIRE(e.thrown);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(e.thrown), no_seats,
                          [](no_seats const& n) { return n.left == 2; });
    BOOST_TEST(p.locks.stats().lost == 1U);
    BOOST_TEST(nothing_left(p, servers));
}

// Also when the body ends in what it called: ours say errc::cancelled, Asio's operation_aborted.
BOOST_AUTO_TEST_CASE(a_cancellation_that_the_loss_has_caused_is_told_as_the_loss) {
    fleet servers(3);
    party p(servers), other(servers);
    auto const taken = other.hold("taken");
    auto entered = 0;
    auto const timer = [&](lease&) -> asio::awaitable<int> {
        ++entered;
        asio::steady_timer t(p.context, 60s);
        co_await t.async_wait(asio::deferred);
        co_return 1;
    };
    auto const acquire = [&](lease&) -> asio::awaitable<int> {
        ++entered;
        auto const got = co_await p.locks.make_lock("taken").acquire();
        co_return got ? 1 : 2;
    };
    auto const nested = [&](lease&) {
        return with_lock(p.locks.make_lock("taken"), timer, asio::use_awaitable);
    };
    auto const check = [&](auto const& body, int enters) {
        ending e;
        entered = 0;
        with_lock(p.locks.make_lock("k", {.ttl = 1s}), body, e.take());
        BOOST_REQUIRE(p.until([&] {
            auto const s = p.locks.stats();
            return entered == enters && s.held == 1 &&
                   (enters == 1 && s.waiters == 0 ? s.pending <= 1 : true);
        }));
        witnesses(servers).del("k");
        BOOST_REQUIRE(p.until([&] { return e.done; }));
        BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    };
    check(timer, 1);
    check(acquire, 1);
    check(nested, 0);
}

BOOST_AUTO_TEST_CASE(a_loss_that_only_the_release_finds_is_told) {
    fleet servers(3);
    party p(servers);
    for (std::size_t const gone : {1U, 2U, 3U}) {
        run(p.context, [&]() -> asio::awaitable<void> {
            auto& locks = p.locks;
            std::optional<error_code> code;
            try {
                co_await with_lock(locks.make_lock("k", {.ttl = 60s, .watchdog = false}),
                                   [&](lease& l) -> asio::awaitable<int> {
                                       co_await asio::post(asio::deferred);
                                       // All have it by then, so that none gets it after this.
                                       for (server& one : servers) {
                                           redis_cli cli(one);
                                           while (!cli.exists("k"))
                                               co_await asio::post(asio::deferred);
                                       }
                                       for (std::size_t i = 0; i < gone; ++i)
                                           BOOST_TEST(redis_cli(servers[i]).del("k"));
                                       BOOST_TEST(l.held());
                                       co_return 1;
                                   });
                code.emplace();
            } catch (system_error const& e) {
                code = e.code();
            }
            BOOST_TEST((*code == (gone >= 2 ? make_error_code(errc::lease_lost) : error_code())),
                       code->message());
        });
        BOOST_TEST(nothing_left(p, servers));
    }
}

// The key goes with its ttl, and nobody else has had it meanwhile.
BOOST_AUTO_TEST_CASE(a_release_that_a_quorum_does_not_confirm_is_no_error) {
    fleet servers(3);
    party p(servers, hasty());
    ending e;
    with_lock(
        p.locks.make_lock("k", long_lived),
        [&](lease&) -> asio::awaitable<int> {
            servers.freeze(2);
            co_return 3;
        },
        e.take());
    BOOST_REQUIRE(p.until([&] { return e.done; }));
    BOOST_TEST(!e.code(), e.code().message());
    BOOST_TEST(e.value == 3);
    servers.thaw_all();
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_shutdown_cancels_a_body_and_waits_for_none) {
    fleet servers(3);
    party p(servers);
    ending e;
    auto go_on = false, signalled = false, shut = false;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        signalled = co_await wait_for_signal();
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        BOOST_TEST(!l.held());
        while (!go_on) co_await asio::post(asio::deferred);
        co_return 1;
    };
    with_lock(p.locks.make_lock("k", long_lived), body, e.take());
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().held == 1; }));
    p.locks.shutdown([&](error) { shut = true; });
    BOOST_TEST(p.until([&] { return shut && signalled; }));
    BOOST_TEST(!e.done);
    for (server& one : servers) BOOST_TEST(redis_cli(one).dbsize() == 0);
    go_on = true;
    BOOST_TEST(p.until([&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
}

// The section keeps what it needs.
BOOST_AUTO_TEST_CASE(a_client_that_goes_during_a_section_ends_it_in_order) {
    fleet servers(3);
    asio::io_context context;
    frames f;
    ending e;
    auto const body = [&](lease& l) -> asio::awaitable<int> {
        in_frame const here(f);
        BOOST_TEST(co_await wait_for_signal());
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await clean_up();
        BOOST_TEST(!l.held());
        co_return 1;
    };
    {
        client locks(context.get_executor(), addresses_of(servers), patient());
        with_lock(locks.make_lock("k", long_lived), body, e.take());
        BOOST_REQUIRE(run_until(context, [&] { return f.inside(); }));
    }
    BOOST_TEST(run_until(context, [&] { return e.done; }));
    BOOST_TEST((e.code() == errc::lease_lost), e.code().message());
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    for (server& one : servers) BOOST_TEST(redis_cli(one).dbsize() == 0);
}

//
// What a body may do with its lease
//

BOOST_AUTO_TEST_CASE(a_body_may_release_early_and_go_on) {
    fleet servers(3);
    party p(servers), other(servers);
    for (auto const goes_on : {true, false}) {
        ending e;
        auto const body = [&, goes_on](lease& l) -> asio::awaitable<int> {
            auto const released = co_await l.release();
            BOOST_TEST(static_cast<bool>(released));
            if (!goes_on) co_return 4;
            auto next = other.hold("k");
            for (int i = 0; i < 20; ++i) co_await asio::post(asio::deferred);
            BOOST_TEST(other.releases(next));
            co_return 4;
        };
        with_lock(p.locks.make_lock("k", long_lived), body, e.take());
        BOOST_REQUIRE(p.until([&] { return e.done; }));
        BOOST_TEST(!e.code(), e.code().message());
        BOOST_TEST(e.value == 4);
    }
    p.runs_with(other);
    BOOST_TEST(nothing_left(p, servers));
}

// As when it is handed on within the process, without a round to the servers.
BOOST_AUTO_TEST_CASE(a_body_may_release_early_to_one_who_waits) {
    fleet servers(3);
    party p(servers);
    ending first, second;
    auto const early = [&](lease& l) -> asio::awaitable<int> {
        while (p.locks.stats().waiters == 0) co_await asio::post(asio::deferred);
        co_await l.release();
        co_return 1;
    };
    auto const last = [&](lease& l) -> asio::awaitable<int> { co_return l.held() ? 2 : -1; };
    with_lock(p.locks.make_lock("k", {.ttl = 60s, .handoff_time = 60s}), early, first.take());
    with_lock(p.locks.make_lock("k", {.ttl = 60s, .handoff_time = 60s}), last, second.take());
    BOOST_REQUIRE(p.until([&] { return first.done && second.done; }));
    BOOST_TEST(p.locks.stats().handoffs == 1U);
    BOOST_TEST(!first.code(), first.code().message());
    BOOST_TEST(first.value == 1);
    BOOST_TEST(!second.code(), second.code().message());
    BOOST_TEST(second.value == 2);
}

BOOST_AUTO_TEST_CASE(a_body_may_take_its_lease_along) {
    fleet servers(3);
    party p(servers);
    lease taken;
    ending e;
    with_lock(
        p.locks.make_lock("k", long_lived),
        [&](lease& l) -> asio::awaitable<int> {
            taken = std::move(l);
            co_return 4;
        },
        e.take());
    BOOST_REQUIRE(p.until([&] { return e.done; }));
    BOOST_TEST(!e.code(), e.code().message());
    BOOST_TEST(e.value == 4);
    BOOST_TEST(taken.held());
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(p.releases(taken));
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_body_may_share_its_lease_with_what_outlives_it) {
    fleet servers(3);
    party p(servers);
    // Whether or not the body has given up its own share itself.
    for (auto const releases : {false, true}) {
        BOOST_TEST_CONTEXT("releases " << releases) {
            lease shared;
            ending e;
            auto const body = [&, releases](lease& l) -> asio::awaitable<int> {
                shared = l.share();
                co_await asio::post(asio::deferred);
                if (releases) {
                    auto const released = co_await l.release();
                    BOOST_TEST(static_cast<bool>(released));
                    BOOST_TEST(!l.held());
                }
                co_return 4;
            };
            with_lock(p.locks.make_lock("k", long_lived), body, e.take());
            BOOST_REQUIRE(p.until([&] { return e.done; }));
            BOOST_TEST(!e.code(), e.code().message());
            BOOST_TEST(e.value == 4);
            BOOST_TEST(shared.held());
            BOOST_TEST(p.sees(servers, "k", true));
            BOOST_TEST(p.releases(shared));
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
    BOOST_TEST(nothing_left(p, servers));
}

// How a body that lost heart half way is to end.
BOOST_AUTO_TEST_CASE(a_body_that_its_caller_cancels_ends_as_it_likes) {
    fleet servers(3);
    party p(servers);
    for (auto const heeds : {true, false}) {
        trial t(servers, patient());
        auto const body = [&, heeds](lease& l) -> asio::awaitable<int> {
            in_frame const here(t.bodies);
            auto const signalled = co_await wait_for_signal();
            BOOST_TEST(signalled);
            BOOST_TEST(l.held());
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            co_await clean_up();
            BOOST_TEST(l.held());
            BOOST_TEST(is_held(servers));
            if (heeds) throw system_error(asio::error::operation_aborted);
            co_return 8;
        };
        t.start(long_lived, body);
        BOOST_REQUIRE(run_until(t.context, [&] { return t.bodies.inside(); }));
        t.signal.emit(asio::cancellation_type::terminal);
        BOOST_REQUIRE(t.ends());
        BOOST_TEST(t.bodies.left == 1);
        BOOST_TEST(given_back(servers));
        if (heeds) {
            BOOST_TEST((t.end.code() == asio::error::operation_aborted), t.end.code().message());
        } else {
            BOOST_TEST(!t.end.code(), t.end.code().message());
            BOOST_TEST(t.end.value == 8);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_timeout_of_the_caller_ends_the_body_and_gives_back) {
    fleet servers(3);
    party p(servers);
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        auto signalled = false;
        auto const body = [&](lease&) -> asio::awaitable<int> {
            signalled = co_await wait_for_signal();
            throw system_error(asio::error::operation_aborted);
        };
        auto const token = asio::cancel_after(100ms, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
        BOOST_TEST(signalled);
        BOOST_TEST(is_cancellation(code_of(thrown)));
        BOOST_TEST(value == 0);
        BOOST_TEST(given_back(servers));
    });
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_time_limit_has_one_code_whatever_it_cuts_short) {
    fleet servers(3);
    party p(servers);
    party other(servers);
    auto theirs = other.hold("held elsewhere");
    auto ours = p.hold("held here");
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        asio::steady_timer never(co_await asio::this_coro::executor, 1h);
        auto const waits = [&](lease&) -> asio::awaitable<int> {
            co_await never.async_wait();
            co_return 1;
        };
        auto const nests = [&](lease&) -> asio::awaitable<int> {
            auto const inner = co_await locks.make_lock("held here", long_lived).acquire();
            co_return 1;
        };
        auto const token = asio::cancel_after(50ms, asio::as_tuple);
        auto const at_once = asio::cancel_at(std::chrono::steady_clock::now(), asio::as_tuple);
        std::vector<error_code> codes;
        auto [elsewhere, a] =
            co_await with_lock(locks.make_lock("held elsewhere", long_lived), waits, token);
        codes.push_back(code_of(elsewhere));
        auto [here, b] = co_await with_lock(locks.make_lock("held here", long_lived), waits, token);
        codes.push_back(code_of(here));
        auto [body, c] = co_await with_lock(locks.make_lock("free", long_lived), waits, token);
        codes.push_back(code_of(body));
        auto [nested, d] = co_await with_lock(locks.make_lock("free", long_lived), nests, token);
        codes.push_back(code_of(nested));
        auto [first, e] = co_await with_lock(locks.make_lock("free", long_lived), waits, at_once);
        codes.push_back(code_of(first));
        for (auto const& code : codes) {
            BOOST_TEST((code == errc::cancelled), code.message());
            BOOST_TEST((code == asio::error::operation_aborted), code.message());
            BOOST_TEST((code == codes.front()), code.message());
        }
    });
    BOOST_TEST(other.releases(theirs));
    BOOST_TEST(p.releases(ours));
}

//
// What a body may be
//

struct counting_functor {
    explicit counting_functor(int& c)
        : calls(c) {}
    counting_functor(counting_functor&&) = default;
    asio::awaitable<int> operator()(lease&) {
        ++calls;
        co_await asio::post(asio::deferred);
        co_return calls;
    }
    int& calls;
    std::unique_ptr<int> only = std::make_unique<int>(1);
};

BOOST_AUTO_TEST_CASE(a_body_may_be_whatever_can_be_called) {
    fleet servers(3);
    party p(servers);
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), plain_function) == 17);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), &plain_function) == 17);
        // No coroutine itself.
        auto const passes_on = [](lease& l) { return plain_function(l); };
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), passes_on) == 17);
        std::function<asio::awaitable<int>(lease&)> const erased = plain_function;
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), erased) == 17);
        auto calls = 0;
        counting_functor once(calls);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(once)) == 1);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(once)) == 2);
        BOOST_REQUIRE(once.only);
        // Outside a co_await expression it can also be moved in.
        auto consumed = with_lock(locks.make_lock("k"), plain_function);
        BOOST_TEST(co_await std::move(consumed) == 17);
        // What throws before there is a coroutine.
        auto const throws = [](lease&) -> asio::awaitable<int> { throw no_seats{5}; };
        auto caught = 0;
        auto const throws_at_once = [&](lease& l) {
            if (l.held()) throw no_seats{6};
            return plain_function(l);
        };
        try {
            co_await with_lock(locks.make_lock("k"), throws);
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 5);
            ++caught;
        }
        try {
            co_await with_lock(locks.make_lock("k"), throws_at_once);
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 6);
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        BOOST_TEST(caught == 2);
    });
    BOOST_TEST(nothing_left(p, servers));
}

// Compilers have destroyed such captures twice, or before the coroutine that uses them.
BOOST_AUTO_TEST_CASE(what_a_body_captures_lives_as_long_as_its_coroutine_and_dies_once) {
    fleet servers(3);
    party p(servers);
    auto const shared =
        std::make_shared<std::string>("a text that is too long to be kept in the string");
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        {
            auto const body = [shared](lease&) -> asio::awaitable<std::size_t> {
                co_await asio::post(asio::deferred);
                BOOST_TEST(shared.use_count() > 1);
                co_return shared->size();
            };
            auto const before = shared.use_count();
            BOOST_TEST(before == 2);
            for (int i = 0; i < 3; ++i) {
                BOOST_TEST(co_await with_lock(locks.make_lock("k"), body) == shared->size());
                BOOST_TEST(shared.use_count() == before);
            }
            auto reference = std::ref(body);
            BOOST_TEST(co_await with_lock(locks.make_lock("k"), reference) == shared->size());
            BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(body)) == shared->size());
            BOOST_TEST(shared.use_count() == before);
            auto const token = asio::cancel_after(20s, asio::as_tuple);
            auto [thrown, size] = co_await with_lock(locks.make_lock("k"), body, token);
            BOOST_TEST(!thrown);
            BOOST_TEST(size == shared->size());
            BOOST_TEST(shared.use_count() == before);
        }
        BOOST_TEST(shared.use_count() == 1);
        // By reference it may be written where it is used.
        auto const text =
            std::make_shared<std::string>("another text that is too long to be kept in it");
        auto const size =
            co_await with_lock(locks.make_lock("k"), [&](lease&) -> asio::awaitable<std::size_t> {
                co_await asio::post(asio::deferred);
                co_return text->size() + shared->size();
            });
        BOOST_TEST(size == text->size() + shared->size());
        BOOST_TEST(text.use_count() == 1);
    });
    // The copy lives until the end, also when what it was made of does not.
    ending e;
    auto entered = false, go_on = false;
    {
        auto const body = [shared, &entered, &go_on](lease&) -> asio::awaitable<int> {
            entered = true;
            while (!go_on) co_await asio::post(asio::deferred);
            co_return static_cast<int>(shared->size());
        };
        with_lock(p.locks.make_lock("k"), body, e.take());
    }
    BOOST_TEST(p.until([&] { return entered; }));
    BOOST_TEST(shared.use_count() == 2);
    go_on = true;
    BOOST_TEST(p.until([&] { return e.done; }));
    BOOST_TEST(e.value == static_cast<int>(shared->size()));
    BOOST_TEST(shared.use_count() == 1);
}

//
// Several sections
//

BOOST_AUTO_TEST_CASE(sections_nest_on_other_keys) {
    fleet servers(3);
    party p(servers);
    run(p.context, [&]() -> asio::awaitable<void> {
        auto& locks = p.locks;
        auto const all =
            co_await with_lock(locks.make_lock("a"), [&](lease& outer) -> asio::awaitable<int> {
                auto const inner_result = co_await with_lock(
                    locks.make_lock("b"), [&](lease& inner) -> asio::awaitable<int> {
                        BOOST_TEST(is_held(servers, "a"));
                        BOOST_TEST(is_held(servers, "b"));
                        BOOST_TEST((outer.held() && inner.held()));
                        co_return 20;
                    });
                BOOST_TEST(given_back(servers, "b"));
                BOOST_TEST(is_held(servers, "a"));
                co_return inner_result + 1;
            });
        BOOST_TEST(all == 21);
        BOOST_TEST(given_back(servers, "a"));
        // The inner one's error is the outer body's.
        try {
            co_await with_lock(locks.make_lock("a"), [&](lease&) -> asio::awaitable<void> {
                co_await with_lock(locks.make_lock("b"), [](lease&) -> asio::awaitable<void> {
                    throw no_seats{9};
                    co_return;
                });
            });
            BOOST_ERROR("nothing was thrown");
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 9);
        }
    });
    BOOST_TEST(nothing_left(p, servers));
}

BOOST_AUTO_TEST_CASE(a_thousand_sections_on_one_key_run_one_at_a_time_and_in_order) {
    constexpr int sections = 1'000;
    fleet servers(3);
    party p(servers);
    auto inside = 0, violations = 0, failed = 0, done = 0;
    std::vector<int> order;
    auto const one = [&](int number) -> asio::awaitable<void> {
        auto const body = [&, number](lease& l) -> asio::awaitable<int> {
            if (++inside != 1 || !l.held()) ++violations;
            order.push_back(number);
            co_await asio::post(asio::deferred);
            --inside;
            co_return number;
        };
        if (co_await with_lock(p.locks.make_lock("k", {.ttl = 60s}), body) != number) ++failed;
    };
    for (int i = 0; i < sections; ++i) {
        asio::co_spawn(p.context, one(i), [&](std::exception_ptr e) {
            if (e) ++failed;
            ++done;
        });
    }
    BOOST_REQUIRE(run_until(
        p.context, [&] { return done == sections; }, 60s));
    BOOST_TEST(violations == 0);
    BOOST_TEST(failed == 0);
    BOOST_TEST(order.size() == static_cast<std::size_t>(sections));
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
    BOOST_TEST(p.locks.stats().handoffs > 0U);
    BOOST_TEST(nothing_left(p, servers));
}

// Each on a strand of its own, as a coroutine and those that cancel it must be, in a pool of
// threads.
BOOST_AUTO_TEST_CASE(sections_run_in_many_threads) {
    constexpr int coroutines = 16, each = 25;
    fleet servers(3);
    asio::thread_pool pool(4);
    std::atomic<int> inside{0}, violations{0}, failed{0}, ended{0}, sections{0};
    std::promise<void> all_done;
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const worker = [&](std::chrono::microseconds patience) -> asio::awaitable<void> {
            auto const body = [&](lease&) -> asio::awaitable<void> {
                if (++inside != 1) ++violations;
                ++sections;
                co_await asio::post(asio::deferred);
                --inside;
            };
            for (int i = 0; i < each; ++i) {
                auto const token = asio::cancel_after(patience, asio::as_tuple);
                auto [thrown] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
                if (thrown && !is_cancellation(code_of(thrown))) ++failed;
            }
        };
        for (int i = 0; i < coroutines; ++i) {
            // Some of them are cancelled at whatever they are at.
            auto const patience =
                i % 2 == 0 ? std::chrono::microseconds(60s) : std::chrono::microseconds(300 * i);
            asio::co_spawn(asio::make_strand(pool), worker(patience), [&](std::exception_ptr e) {
                if (e) ++failed;
                if (++ended == coroutines) all_done.set_value();
            });
        }
        BOOST_TEST((all_done.get_future().wait_for(60s) == std::future_status::ready));
        BOOST_TEST(violations == 0);
        BOOST_TEST(failed == 0);
        BOOST_TEST(sections >= coroutines / 2 * each);
        auto shut = locks.shutdown(asio::use_future);
        BOOST_TEST((shut.wait_for(20s) == std::future_status::ready));
    }
    pool.join();
    for (server& one : servers) BOOST_TEST(redis_cli(one).dbsize() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
