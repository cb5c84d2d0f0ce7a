// A section is cancelled, shut down, destroyed, or loses its lease after each number of handlers.
#include "integration/foreign_client.hpp"
#include "integration/proxy_group.hpp"
#include "integration/sections.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

asio::awaitable<int> one_frame_more(frames& f) {
    in_frame const here(f);
    co_await asio::post(asio::deferred);
    co_return 3;
}

// A body with steps of all kinds, and with a section in it.
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

enum class caller {
    callback,
    coroutine,
    waiting ///< a callback that waits behind another holder
};
constexpr std::array every_caller{caller::callback, caller::coroutine, caller::waiting};

char const* name(caller c) {
    return c == caller::callback ? "callback" : c == caller::coroutine ? "coroutine" : "waiting";
}

// Calls `disturb(trial)` after 0, 1, 2 .. handlers of the section, each time with a new client, and
// `check(trial, disturbed)` after the section has ended.
template <class Disturb, class Check>
int after_each_handler(fleet const& servers, caller how, Disturb disturb, Check check) {
    for (int n = 0;; ++n) {
        BOOST_TEST_CONTEXT("after " << n << " handlers, " << name(how)) {
            BOOST_REQUIRE(n < 500);
            std::optional<trial> t(std::in_place, servers, patient());
            auto const body = [owner = &*t](lease& l) {
                return several_steps(*owner->locks, l, owner->bodies, owner->mark);
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

// The shutdown ends with the last answer. So no command is under way to a server.
void check_shuts_down_clean(trial& t, fleet const& servers) {
    BOOST_TEST(t.idle());
    auto shut = false;
    t.locks->shutdown([&](error) { shut = true; });
    BOOST_TEST(run_until(t.context, [&] { return shut; }));
    check_nothing_left(servers);
}

void check_all_went_well(trial& t, fleet const& servers) {
    BOOST_TEST(t.end.done);
    BOOST_TEST(!t.end.code(), t.end.code().message());
    BOOST_TEST(t.end.value == all_steps);
    check_shuts_down_clean(t, servers);
}

} // namespace

BOOST_AUTO_TEST_SUITE(section_steps)

BOOST_AUTO_TEST_CASE(a_cancellation_at_any_step_ends_it_in_order) {
    fleet servers(3);
    for (auto const how : every_caller) {
        for (auto const type : every_type) {
            auto before = 0, within = 0, ignored = 0;
            auto entered = false, inside = false, heard = false;
            auto const steps = after_each_handler(
                servers, how,
                [&](std::optional<trial>& t) {
                    entered = t->bodies.entered > 0;
                    inside = t->bodies.inside();
                    // The first step of a coroutine obeys only a terminal cancellation.
                    heard = how != caller::coroutine || t->calls.entered > 0 ||
                            type == asio::cancellation_type::terminal;
                    t->signal.emit(type);
                },
                [&](std::optional<trial>& t, bool disturbed) {
                    BOOST_REQUIRE(t->ends());
                    BOOST_TEST(t->bodies.entered == t->bodies.left);
                    BOOST_TEST(t->calls.entered == t->calls.left);
                    // A cancelled acquire does not wait for its release.
                    if (t->bodies.entered > 0) BOOST_TEST(given_back(servers));
                    if (!disturbed) return check_all_went_well(*t, servers);
                    auto const ec = t->end.code();
                    BOOST_TEST((is_cancellation(ec) || (!ec && t->end.value == all_steps)),
                               ec.message());
                    if (!entered) {
                        // A signal from outside arrives after the handlers that are ready.
                        if (is_cancellation(ec) && t->bodies.entered == 0) ++before;
                        auto const may_ignore = !heard || type == asio::cancellation_type::total;
                        if (!may_ignore || ec) BOOST_TEST(is_cancellation(ec), ec.message());
                    } else if (inside && type == asio::cancellation_type::total) {
                        BOOST_TEST(!ec, ec.message());
                        ++ignored;
                    } else if (inside && is_cancellation(ec)) {
                        ++within;
                    }
                    check_shuts_down_clean(*t, servers);
                });
            BOOST_TEST_CONTEXT(name(how) << ", type " << static_cast<int>(type)) {
                BOOST_TEST(steps > 5);
                // At least one cancellation came before the body was called. The next test covers
                // the steps between the replies, which may come together here.
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
    for (auto const how : {caller::callback, caller::coroutine}) {
        for (auto const type : every_type) {
            // The acquire was sent. None or one of the two necessary votes has come.
            for (std::size_t const votes : {0U, 1U}) {
                BOOST_TEST_CONTEXT(name(how)
                                   << ", type " << static_cast<int>(type) << ", votes " << votes) {
                    proxy_group proxies(servers);
                    trial t(proxies.addresses(), patient());
                    BOOST_REQUIRE(run_until(t.context, [&] { return proxies.are_quiet(); }));
                    t.context.restart();
                    for (std::size_t i = votes; i < servers.size(); ++i) proxies[i].hold_replies();
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
                        for (auto const& proxy : proxies.all) out += proxy.replies_held();
                        return out == servers.size() - votes &&
                               copies(servers, "k") == servers.size();
                    }));
                    t.context.restart();
                    t.signal.emit(type);
                    t.context.poll();
                    proxies.resume();
                    BOOST_TEST(t.ends());
                    BOOST_TEST(is_cancellation(t.end.code()), t.end.code().message());
                    BOOST_TEST(t.bodies.entered == 0);
                    check_shuts_down_clean(t, servers);
                }
            }
        }
    }
}

// A cancellation of any type counts here, because no command was sent yet.
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
    foreign_client other(servers);
    for (auto const how : every_caller) {
        auto within = 0;
        after_each_handler(
            servers, how, [](std::optional<trial>&) {},
            [&](std::optional<trial>& t, bool disturbed) {
                if (!disturbed) return check_all_went_well(*t, servers);
                if (t->bodies.inside()) ++within;
                auto const mark = t->mark;
                auto const calls = t->calls_seen, bodies = t->bodies_seen;
                t.reset();
                BOOST_TEST(calls->entered == calls->left);
                BOOST_TEST(bodies->entered == bodies->left);
                BOOST_TEST(mark.use_count() == 1);
                other.flush();
            });
        BOOST_TEST(within > 3);
    }
}

BOOST_AUTO_TEST_CASE(a_shutdown_at_any_step_ends_it_in_order) {
    fleet servers(3);
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
                if (!disturbed) return check_all_went_well(*t, servers);
                auto const ec = t->end.code();
                if (ec == errc::shut_down) {
                    ++waiting;
                } else if (ec == errc::lease_lost) {
                    ++lost;
                } else {
                    BOOST_TEST((!ec && t->end.value == all_steps), ec.message());
                }
                BOOST_TEST(run_until(t->context, [&] { return shut; }));
                check_shuts_down_clean(*t, servers);
            });
        BOOST_TEST_CONTEXT(name(how)) {
            BOOST_TEST(waiting > 0);
            BOOST_TEST(lost > 0);
        }
    }
}

// The key is deleted at each step of the body. At the latest, the release finds that.
BOOST_AUTO_TEST_CASE(a_key_that_goes_at_any_step_of_the_body_is_a_loss) {
    fleet servers(3);
    foreign_client other(servers);
    auto within = 0;
    auto is_loss = false;
    after_each_handler(
        servers, caller::coroutine,
        [&](std::optional<trial>& t) {
            auto const inside = t->bodies.inside();
            is_loss = other.del_if_there("k") >= servers.quorum() && inside;
        },
        [&](std::optional<trial>& t, bool disturbed) {
            BOOST_REQUIRE(t->ends());
            BOOST_TEST(t->bodies.entered == t->bodies.left);
            if (!disturbed) return check_all_went_well(*t, servers);
            auto const ec = t->end.code();
            if (is_loss) {
                ++within;
                BOOST_TEST((ec == errc::lease_lost), ec.message());
            } else {
                BOOST_TEST((ec == errc::lease_lost || (!ec && t->end.value == all_steps)),
                           ec.message());
            }
            check_shuts_down_clean(*t, servers);
        });
    BOOST_TEST(within > 3);
}

BOOST_AUTO_TEST_CASE(a_majority_that_hangs_at_any_step_is_a_loss_after_which_nothing_runs) {
    constexpr client_options quick{
        .instance_timeout = 60ms, .connect_timeout = 60ms, .max_reconnect_delay = 20ms};
    constexpr auto options = impatient({.ttl = 200ms});
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
            BOOST_TEST(t.idle());
            for (server& instance : servers) BOOST_TEST(t.sees_no_locks(instance));
        }
    }
    BOOST_TEST(lost > 3);
}

BOOST_AUTO_TEST_SUITE_END()
