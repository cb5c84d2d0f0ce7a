// Locks on several keys: all of them or none, beside locks on one of the keys.
#include <holdfast/with_lock.hpp>

#include "integration/client_group.hpp"
#include "integration/foreign_client.hpp"
#include "integration/sections.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using key_names = std::vector<std::string>;

/// A call that has begun.
struct attempt_at {
    attempt_at(lock const& on, wait_limit limit = no_limit) {
        auto done = [this](error e, lease l) {
            result = std::move(e);
            got = std::move(l);
            over = true;
        };
        if (limit.time == no_limit.time) {
            on.acquire(asio::bind_cancellation_slot(signal.slot(), std::move(done)));
        } else {
            on.try_acquire_for(limit.time,
                               asio::bind_cancellation_slot(signal.slot(), std::move(done)));
        }
    }
    asio::cancellation_signal signal;
    bool over = false;
    error result;
    lease got;
};

lock multi(test_client& c, key_names const& keys, lock_options options = long_lived) {
    return c.locks.make_multi_lock(keys, options);
}

lease hold_all(test_client& c, key_names const& keys, lock_options options = long_lived) {
    attempt_at a(multi(c, keys, options));
    BOOST_REQUIRE(c.until([&] { return a.over; }));
    BOOST_REQUIRE_MESSAGE(!a.result, a.result.what());
    BOOST_TEST(a.got.held());
    return std::move(a.got);
}

std::size_t all_copies(fleet const& servers, key_names const& keys) {
    std::size_t n = 0;
    for (auto const& key : keys) n += copies(servers, key);
    return n;
}

/// Who has which key, at this moment; two holders of one key are an error.
class ledger {
public:
    void enter(key_names const& keys) {
        for (auto const& key : keys) BOOST_TEST(++holders_[key] == 1, "two holders of " << key);
        ++entered;
    }
    void leave(key_names const& keys) {
        for (auto const& key : keys) --holders_[key];
    }
    std::size_t entered = 0;

private:
    std::map<std::string, int> holders_;
};

asio::awaitable<void> pause_for(std::chrono::microseconds d) {
    asio::steady_timer timer(co_await asio::this_coro::executor, d);
    co_await timer.async_wait(asio::deferred);
}

/// Acquires and releases `rounds` times, with a limit for none of them.
asio::awaitable<void> work(lock on, key_names keys, unsigned rounds, ledger& all, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> length(0, 300);
    for (unsigned i = 0; i < rounds; ++i) {
        auto lease = co_await on.acquire();
        all.enter(keys);
        co_await pause_for(std::chrono::microseconds(length(random)));
        BOOST_TEST(lease.held());
        all.leave(keys);
        co_await lease.release();
    }
}

/// A range that makes each of its strings when it is read.
struct new_strings {
    struct iterator {
        using difference_type = std::ptrdiff_t;
        using value_type = std::string;
        std::string operator*() const { return "k"; }
        iterator& operator++() { return *this; }
        void operator++(int) {}
        bool operator==(iterator const&) const { return true; }
    };
    iterator begin() const { return {}; }
    iterator end() const { return {}; }
};
static_assert(std::ranges::input_range<new_strings>);

} // namespace

BOOST_AUTO_TEST_SUITE(multi_locks)

BOOST_AUTO_TEST_CASE(a_lease_has_all_keys_and_its_release_none) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    // The servers learn the scripts, also one that always answers last.
    auto everywhere = false;
    for (int i = 0; i < 50 && !everywhere; ++i) {
        auto first = hold_all(client, {"a", "b", "c"});
        everywhere = all_copies(servers, {"a", "b", "c"}) == 9;
        BOOST_TEST(client.releases(first));
    }
    BOOST_TEST(everywhere);
    auto held = hold_all(client, {"b", "a", "c"});
    for (auto const* const key : {"a", "b", "c"}) BOOST_TEST(is_held(servers, key));
    BOOST_TEST((held.keys() == std::vector<std::string_view>{"a", "b", "c"}));
    BOOST_TEST(held.key() == "a b c");
    BOOST_TEST(client.releases(held));
    for (auto const* const key : {"a", "b", "c"}) BOOST_TEST(client.sees(servers, key, false));
    BOOST_TEST(client.idle());
}

BOOST_AUTO_TEST_CASE(free_keys_cost_one_command_an_instance_however_many_they_are) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    key_names const keys{"a", "b", "c", "d", "e", "f", "g", "h"};
    auto commands = [&] { return client.locks.stats().commands; };
    std::uint64_t least = 1'000;
    for (int i = 0; i < 20; ++i) {
        auto const before = commands();
        auto held = hold_all(client, keys);
        auto const acquired = commands() - before;
        BOOST_TEST(client.releases(held));
        BOOST_TEST(client.until([&] { return all_copies(servers, keys) == 0; }));
        BOOST_TEST(acquired >= 3U);
        least = std::min(least, commands() - before);
    }
    // One round trip, and one for the release.
    BOOST_TEST(least == 6U);
}

BOOST_AUTO_TEST_CASE(each_key_keeps_out_locks_on_it_alone_and_in_other_sets) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = hold_all(one, {"a", "b"});
    for (auto const* const key : {"a", "b"}) {
        auto const [e, l] = two.try_acquire(key);
        BOOST_TEST((e == errc::contended), e.what());
    }
    attempt_at other(multi(two, {"b", "c"}), try_now);
    BOOST_REQUIRE(two.until([&] { return other.over; }));
    BOOST_TEST((other.result == errc::contended), other.result.what());
    BOOST_TEST(contains(other.result.what(), "\"b\" held"), other.result.what());
    // A refused acquire leaves nothing.
    BOOST_TEST(two.until([&] { return copies(servers, "c") == 0; }));
    BOOST_TEST(one.releases(held));
    (void)hold_all(two, {"b", "c"});
}

BOOST_AUTO_TEST_CASE(one_busy_key_keeps_the_others_free) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = one.hold("b");
    attempt_at both(multi(two, {"a", "b", "c"}, {.ttl = 60s, .patience = 1'000}));
    BOOST_REQUIRE(two.until([&] { return two.locks.stats().waiters == 1; }));
    // While it waits it holds nothing.
    BOOST_TEST(two.until([&] { return all_copies(servers, {"a", "c"}) == 0; }));
    BOOST_TEST(!both.over);
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return both.over; }));
    BOOST_TEST(!both.result, both.result.what());
}

// It waits for a push of the key that stands in the way, whichever it is, and asks rarely.
BOOST_AUTO_TEST_CASE(a_set_waits_for_the_key_in_its_way) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = one.hold("c");
    attempt_at all(multi(two, {"a", "b", "c"}, {.ttl = 60s, .patience = 1'000}));
    auto const is_tracked = [&] {
        for (server& each : servers)
            if (redis_cli(each).info("tracking_total_keys") != "0") return true;
        return false;
    };
    BOOST_REQUIRE(two.until(is_tracked));
    // Other keys change meanwhile. It asks again for none of them.
    auto const rounds = two.locks.stats().rounds;
    for (int i = 0; i < 20; ++i) {
        auto other = one.hold("a");
        BOOST_TEST(one.releases(other));
    }
    BOOST_TEST(two.locks.stats().rounds <= rounds + 2);
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return all.over; }));
    BOOST_TEST(!all.result, all.result.what());
    BOOST_TEST(two.locks.stats().pushes > 0U);
}

BOOST_AUTO_TEST_CASE(after_its_patience_it_keeps_the_keys_that_come_first) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = one.hold("c");
    attempt_at all(multi(two, {"a", "b", "c"}, {.ttl = 60s, .patience = 0}));
    BOOST_REQUIRE(two.until([&] { return is_held(servers, "a") && is_held(servers, "b"); }));
    BOOST_TEST(!all.over);
    // It keeps them until it has all of them: another process that waits for one does not get it.
    test_client three(servers);
    two.runs_with(three);
    attempt_at passes(three.locks.make_lock("a", long_lived));
    BOOST_REQUIRE(two.until([&] { return three.locks.stats().waiters == 1; }));
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return all.over || passes.over; }));
    BOOST_TEST(!passes.over);
    BOOST_REQUIRE_MESSAGE(!all.result, all.result.what());
    // One token for all, on a majority: a server that released "c" late has refused the set.
    auto const have_one_token = [&] {
        auto votes = 0;
        for (server const& each : servers) {
            redis_cli cli(each);
            auto const token = cli.get("a");
            if (token && token == cli.get("b") && token == cli.get("c")) ++votes;
        }
        return votes >= 2;
    };
    BOOST_TEST(two.until(have_one_token));
    BOOST_TEST(two.releases(all.got));
    BOOST_REQUIRE(two.until([&] { return passes.over; }));
    BOOST_TEST(three.releases(passes.got));
    for (auto const* const key : {"a", "b", "c"}) BOOST_TEST(two.sees(servers, key, false));
    BOOST_TEST(two.idle());
}

BOOST_AUTO_TEST_CASE(in_this_process_it_is_first_come_first_served) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("b");
    attempt_at set(multi(client, {"a", "b"}));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    // Both come later, and want a key that is free.
    attempt_at single(client.locks.make_lock("a", long_lived));
    attempt_at other(multi(client, {"a", "c"}));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 3; }));
    BOOST_TEST(!single.over);
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return set.over; }));
    BOOST_TEST(!set.result, set.result.what());
    BOOST_TEST(!single.over);
    BOOST_TEST(client.releases(set.got));
    BOOST_REQUIRE(client.until([&] { return single.over; }));
    BOOST_TEST(!single.result, single.result.what());
    BOOST_TEST(!other.over);
    BOOST_TEST(client.releases(single.got));
    BOOST_REQUIRE(client.until([&] { return other.over; }));
    BOOST_TEST(!other.result, other.result.what());
}

BOOST_AUTO_TEST_CASE(a_lease_goes_to_the_next_waiter_for_the_same_keys) {
    fleet servers(3);
    test_client client(servers);
    auto const lock = multi(client, {"a", "b"}, handed_on);
    attempt_at one(lock), two(lock), three(multi(client, {"b", "a"}, handed_on));
    BOOST_REQUIRE(client.until([&] { return one.over; }));
    BOOST_TEST(client.releases(one.got));
    BOOST_REQUIRE(client.until([&] { return two.over; }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST(client.releases(two.got));
    BOOST_REQUIRE(client.until([&] { return three.over; }));
    BOOST_TEST(client.locks.stats().handovers == 2U);
    BOOST_TEST(three.got.held());
    // A single that came before the next waiter comes before it.
    attempt_at single(client.locks.make_lock("b", handed_on)), four(lock);
    BOOST_TEST(client.releases(three.got));
    BOOST_REQUIRE(client.until([&] { return single.over; }));
    BOOST_TEST(client.locks.stats().handovers == 2U);
    BOOST_TEST(!four.over);
    BOOST_TEST(client.releases(single.got));
    BOOST_REQUIRE(client.until([&] { return four.over; }));
}

BOOST_AUTO_TEST_CASE(a_lease_that_was_handed_over_passes_nobody_at_its_end) {
    fleet servers(3);
    test_client client(servers);
    auto const lock = multi(client, {"a", "b"}, handed_on);
    attempt_at one(lock), two(lock), single(client.locks.make_lock("a", handed_on)), three(lock);
    BOOST_REQUIRE(client.until([&] { return one.over; }));
    BOOST_TEST(client.releases(one.got));
    BOOST_REQUIRE(client.until([&] { return two.over; }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST(client.releases(two.got));
    BOOST_REQUIRE(client.until([&] { return single.over || three.over; }));
    BOOST_TEST(single.over);
    BOOST_TEST(client.releases(single.got));
    BOOST_REQUIRE(client.until([&] { return three.over; }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
}

BOOST_AUTO_TEST_CASE(waiters_behind_a_set_can_time_out_and_be_cancelled) {
    fleet servers(3);
    test_client client(servers);
    auto held = hold_all(client, {"a", "b"});
    attempt_at late(client.locks.make_lock("a", long_lived), wait_for(20ms));
    attempt_at cancelled(client.locks.make_lock("b", long_lived));
    attempt_at set(multi(client, {"b", "c"}), wait_for(20ms));
    auto const [e, l] = client.try_acquire("a");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(contains(e.what(), "this client"), e.what());
    BOOST_REQUIRE(client.until([&] { return late.over && set.over; }));
    BOOST_TEST((late.result == errc::wait_timeout), late.result.what());
    BOOST_TEST(contains(late.result.what(), "this client"), late.result.what());
    BOOST_TEST((set.result == errc::wait_timeout), set.result.what());
    cancelled.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return cancelled.over; }));
    BOOST_TEST(is_cancellation(cancelled.result.code()));
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.idle());
}

BOOST_AUTO_TEST_CASE(one_that_waited_behind_a_set_goes_before_one_that_comes_with_its_release) {
    fleet servers(3);
    test_client client(servers);
    auto held = hold_all(client, {"a", "b"});
    attempt_at early(client.locks.make_lock("a", long_lived));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    held = {};
    attempt_at late(client.locks.make_lock("a", long_lived));
    attempt_at set(multi(client, {"a", "c"}));
    BOOST_REQUIRE(client.until([&] { return early.over || late.over || set.over; }));
    BOOST_TEST(early.over);
    BOOST_TEST(client.releases(early.got));
    BOOST_REQUIRE(client.until([&] { return late.over || set.over; }));
    BOOST_TEST(late.over);
    BOOST_TEST(client.releases(late.got));
    BOOST_REQUIRE(client.until([&] { return set.over; }));
}

BOOST_AUTO_TEST_CASE(a_set_that_gives_up_lets_none_pass_that_must_wait) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("c");
    attempt_at one(multi(client, {"a", "c"})), two(multi(client, {"b", "c"}));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 2; }));
    auto const rounds = client.locks.stats().rounds;
    one.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return one.over; }));
    BOOST_TEST(client.idle() == false); // lets the client run
    BOOST_TEST(client.locks.stats().rounds == rounds);
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return two.over; }));
    BOOST_TEST(!two.result, two.result.what());
}

BOOST_AUTO_TEST_CASE(one_that_does_not_wait_asks_for_all_at_once_whatever_its_patience) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    lock_options const in_order{.ttl = 60s, .patience = 0};
    attempt_at now(multi(one, {"a", "b"}, in_order), try_now);
    BOOST_REQUIRE(one.until([&] { return now.over; }));
    BOOST_TEST(!now.result, now.result.what());
    // One that waits, in order, begins while a try is refused.
    attempt_at refused(multi(two, {"a", "b", "c"}), try_now);
    attempt_at waits(multi(two, {"a", "b", "c"}, in_order));
    BOOST_REQUIRE(two.until([&] { return refused.over; }));
    BOOST_TEST((refused.result == errc::contended), refused.result.what());
    BOOST_TEST(one.releases(now.got));
    BOOST_REQUIRE(two.until([&] { return waits.over; }));
    BOOST_TEST(!waits.result, waits.result.what());
}

BOOST_AUTO_TEST_CASE(a_key_that_is_lost_while_the_next_is_waited_for_is_taken_again) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = one.hold("c");
    attempt_at all(multi(two, {"a", "b", "c"}, {.ttl = renewed_ttl, .patience = 0}));
    BOOST_REQUIRE(two.until([&] { return is_held(servers, "a") && is_held(servers, "b"); }));
    for (server& each : servers) (void)redis_cli(each).del("a");
    BOOST_REQUIRE(two.until([&] { return two.locks.stats().lost == 1; }));
    // One more for the same keys lets it look at what it has.
    attempt_at next(multi(two, {"a", "b", "c"}, {.ttl = renewed_ttl, .patience = 0}));
    BOOST_REQUIRE(two.until([&] { return copies(servers, "b") == 0 || all.over; }));
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return all.over; }));
    BOOST_TEST(!all.result, all.result.what());
    BOOST_TEST(two.releases(all.got));
    BOOST_REQUIRE(two.until([&] { return next.over; }));
    BOOST_TEST(!next.result, next.result.what());
    BOOST_TEST(two.releases(next.got));
    for (auto const* const key : {"a", "b", "c"}) BOOST_TEST(two.sees(servers, key, false));
    BOOST_TEST(two.idle());
}

BOOST_AUTO_TEST_CASE(the_loss_of_one_key_is_the_loss_of_the_lease) {
    fleet servers(3);
    test_client client(servers);
    auto held = hold_all(client, {"a", "b", "c"}, {.ttl = renewed_ttl});
    for (std::size_t i = 0; i < 2; ++i) (void)redis_cli(servers[i]).del("b");
    auto how = lease_end::none;
    held.wait_end([&](error, lease_end e) { how = e; });
    BOOST_REQUIRE(client.until([&] { return how != lease_end::none; }));
    BOOST_TEST((how == lease_end::key_gone));
    BOOST_TEST(!held.held());
    // The others are given back.
    for (auto const* const key : {"a", "c"}) BOOST_TEST(client.sees(servers, key, false));
}

// Their ttl is long, so keys that are gone were deleted.
BOOST_AUTO_TEST_CASE(the_other_keys_are_given_back_where_one_is_lost) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = hold_all(client, {"a", "b", "c"}, long_lived);
    BOOST_REQUIRE(client.until([&] { return is_held(servers, "c"); }));
    for (server& each : servers) (void)redis_cli(each).del("b");
    BOOST_TEST((client.extend(held) == errc::lease_lost));
    for (auto const* const key : {"a", "c"}) BOOST_TEST(client.sees(servers, key, false));
}

BOOST_AUTO_TEST_CASE(a_minority_that_lost_a_key_gets_it_back) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = hold_all(client, {"a", "b"}, {.ttl = renewed_ttl});
    BOOST_TEST(client.sees(servers, "b", true));
    (void)redis_cli(servers[1]).del("b");
    BOOST_TEST(client.sees(servers, "b", true));
    BOOST_TEST(held.held());
}

BOOST_AUTO_TEST_CASE(foreign_locks_on_one_of_the_keys_are_excluded_and_exclude) {
    fleet servers(3);
    test_client client(servers);
    foreign_client other(servers);
    other.hold("b");
    attempt_at both(multi(client, {"a", "b"}), try_now);
    BOOST_REQUIRE(client.until([&] { return both.over; }));
    BOOST_TEST((both.result == errc::contended), both.result.what());
    BOOST_TEST(copies(servers, "a") == 0U);
    other.del_by_script("b");
    auto held = hold_all(client, {"a", "b"});
    // A server that has just learned the script may get the keys with the first extension.
    for (auto const* const key : {"a", "b"}) {
        std::size_t granted = 0;
        for (std::size_t i = 0; i < servers.size(); ++i)
            granted += redis_cli(servers[i]).set_if_absent(key, foreign_client::token, 60s) ? 1 : 0;
        BOOST_TEST(granted <= 1U);
    }
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(keys_without_a_ttl_on_different_minorities_keep_a_set_out) {
    fleet servers(3);
    test_client client(servers);
    redis_cli(servers[0]).set("a", "dead");
    redis_cli(servers[1]).set("b", "dead");
    for (unsigned const patience : {0U, 1U, 1'000U}) {
        auto const set = multi(client, {"a", "b"}, {.ttl = 60s, .patience = patience});
        error result;
        // By the key for which it asked last. On a busy machine the last try of a wait may have no
        // answer yet.
        auto const is_told = [&] {
            return contains(result.what(), "\"a\" held") || contains(result.what(), "\"b\" held");
        };
        for (auto limit = 300ms; !is_told() && limit < 20s; limit *= 2) {
            attempt_at both(set, wait_for(limit));
            BOOST_REQUIRE(client.until([&] { return both.over; }));
            result = both.result;
            BOOST_TEST((result == errc::wait_timeout || result == errc::no_quorum), result.what());
        }
        BOOST_TEST((result == errc::wait_timeout), result.what());
        BOOST_TEST(is_told(), result.what());
    }
    // Each key can be locked alone.
    for (auto const* const key : {"a", "b"}) {
        auto held = client.hold(key);
        BOOST_TEST(client.releases(held));
    }
    BOOST_TEST(redis_cli(servers[0]).del("a"));
    (void)hold_all(client, {"a", "b"});
}

BOOST_AUTO_TEST_CASE(a_report_names_the_key_for_which_it_waits_in_order) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = one.hold("c");
    attempt_at all(multi(two, {"a", "b", "c"}, {.ttl = 60s, .patience = 0}));
    // For a, b and c, and again for c, after its refusal.
    BOOST_REQUIRE(two.until([&] { return two.locks.stats().rounds >= 4; }));
    all.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(two.until([&] { return all.over; }));
    BOOST_TEST(contains(all.result.what(), "\"c\" held"), all.result.what());
    BOOST_TEST(!contains(all.result.what(), "this client"), all.result.what());
    BOOST_TEST(one.releases(held));
}

// The memory of a queue serves all locks in turn.
BOOST_AUTO_TEST_CASE(a_lock_on_one_key_gets_a_waiter_after_a_set_has_come_and_gone) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("c");
    auto set = hold_all(client, {"a", "b"});
    BOOST_TEST(client.releases(set));
    BOOST_TEST(client.until([&] { return client.locks.stats().pending == 0; }));
    attempt_at next(client.locks.make_lock("c", long_lived));
    attempt_at again(multi(client, {"a", "b", "c"}));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 2; }));
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return next.over; }));
    BOOST_TEST(client.releases(next.got));
    BOOST_REQUIRE(client.until([&] { return again.over; }));
    BOOST_TEST(!again.result, again.result.what());
}

BOOST_AUTO_TEST_CASE(an_outage_is_not_told_as_a_lock_of_this_client) {
    fleet servers(3);
    servers.kill(3);
    auto one_by_one = patient();
    one_by_one.connect_timeout = 200ms;
    test_client client(servers, one_by_one);
    attempt_at both(multi(client, {"a", "b"}, {.ttl = 60s, .on_outage = outage_policy::fail}));
    BOOST_REQUIRE(client.until([&] { return both.over; }));
    BOOST_TEST((both.result == error_condition::unavailable), both.result.what());
    BOOST_TEST(!contains(both.result.what(), "this client"), both.result.what());
}

BOOST_AUTO_TEST_CASE(keys_that_others_left_on_different_minorities_do_not_block_for_ever) {
    fleet servers(3);
    test_client client(servers);
    (void)redis_cli(servers[0]).command({"SET", "a", "dead", "PX", "700"});
    (void)redis_cli(servers[1]).command({"SET", "b", "dead", "PX", "700"});
    attempt_at both(multi(client, {"a", "b"}));
    BOOST_REQUIRE(client.until([&] { return both.over; }));
    BOOST_TEST(!both.result, both.result.what());
}

BOOST_DATA_TEST_CASE(sets_that_overlap_in_any_way_do_not_deadlock_nor_starve,
                     boost::unit_test::data::make({0U, 1U, 4U, 1'000U}), patience) {
    fleet servers(3);
    client_group group(servers, 3, patient());
    std::vector<key_names> const sets{{"a", "b"}, {"b", "a"},      {"b", "c"},     {"c", "a"},
                                      {"d", "a"}, {"a", "b", "c"}, {"b", "c", "d"}};
    ledger all;
    lock_options const options{.ttl = 60s, .max_retry_delay = 5ms, .patience = patience};
    std::size_t expected = 0;
    for (unsigned i = 0; i < group.clients.size(); ++i) {
        auto& locks = *group.clients[i];
        for (auto const& keys : sets) {
            group.start(work(locks.make_multi_lock(keys, options), keys, 8, all, i));
            expected += 8;
        }
        for (auto const* const key : {"a", "b", "c", "d"}) {
            group.start(work(locks.make_lock(key, options), {key}, 16, all, i));
            expected += 16;
        }
    }
    BOOST_REQUIRE(group.until([&] { return group.working == 0; }, 60s));
    BOOST_TEST(all.entered == expected);
    BOOST_TEST(group.idle());
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(group.sees_no_locks(servers[i]));
}

// Each single key can be had, and never all of them at one instance of a majority.
BOOST_AUTO_TEST_CASE(a_set_that_no_majority_can_give_is_not_tried_without_a_pause) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    (void)redis_cli(servers[0]).command({"SET", "a", "foreign"});
    (void)redis_cli(servers[1]).command({"SET", "b", "foreign"});
    attempt_at both(multi(client, {"a", "b"}, {.ttl = 60s, .patience = 1}), wait_for(1s));
    BOOST_REQUIRE(client.until([&] { return both.over; }));
    BOOST_TEST((both.result == errc::wait_timeout), both.result.what());
    BOOST_TEST(client.locks.stats().rounds < 200U);
    BOOST_TEST(client.idle());
}

BOOST_AUTO_TEST_CASE(an_acquire_that_is_cancelled_at_any_step_leaves_nothing) {
    fleet servers(3);
    test_client other(servers);
    for (unsigned const patience : {0U, 2U}) {
        for (int steps = 1; steps < 60; ++steps) {
            test_client client(servers);
            BOOST_REQUIRE(client.all_up());
            client.context.restart();
            std::optional<lease> in_the_way;
            if (steps % 2 == 0) in_the_way = other.hold("b");
            attempt_at all(multi(client, {"a", "b", "c"}, {.ttl = 60s, .patience = patience}));
            for (int i = 0; i < steps && !all.over; ++i) client.context.run_one_for(10ms);
            all.signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(client.until([&] { return all.over; }));
            if (!all.result) BOOST_TEST(client.releases(all.got));
            if (in_the_way) BOOST_TEST(other.releases(*in_the_way));
            for (auto const* const key : {"a", "b", "c"})
                BOOST_TEST(client.sees(servers, key, false), key << " after " << steps);
            BOOST_TEST(client.idle());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_set_has_one_fence_that_counts_for_each_of_its_keys) {
    fleet servers(3);
    test_client client(servers);
    lock_options const fenced{.ttl = 60s, .fencing = true};
    std::uint64_t last = 0;
    for (int i = 0; i < 3; ++i) {
        auto a = client.hold("a", fenced);
        BOOST_TEST(a.fence() > last);
        last = a.fence();
        BOOST_TEST(client.releases(a));
    }
    auto both = hold_all(client, {"a", "b"}, fenced);
    BOOST_TEST(both.fence() > last);
    last = both.fence();
    BOOST_TEST(client.releases(both));
    for (auto const* const key : {"a", "b"}) {
        auto one = client.hold(key, fenced);
        BOOST_TEST(one.fence() > last);
        BOOST_TEST(client.releases(one));
    }
    auto in_order = fenced;
    in_order.patience = 0;
    auto again = hold_all(client, {"a", "b", "c"}, in_order);
    BOOST_TEST(again.fence() > last);
}

BOOST_AUTO_TEST_CASE(any_range_of_keys_makes_a_lock) {
    fleet servers(1);
    test_client client(servers);
    std::vector<std::string_view> const expected{"a", "b"};
    auto const makes = [&](auto&& keys) {
        auto const lock = client.locks.make_multi_lock(keys);
        BOOST_TEST((lock.keys() == expected));
    };
    makes(std::vector<std::string>{"b", "a"});
    makes(std::set<std::string>{"b", "a"});
    makes(std::vector<std::string_view>{"b", "a"});
    makes(std::array<char const*, 2>{"b", "a"});
    std::string const array[] = {"b", "a"};
    makes(array);
    makes(std::span<std::string const>(array));
    static_assert(!detail::key_range<new_strings>, "its strings end with the loop");
    static_assert(!detail::key_range<std::string> && !detail::key_range<char const*>);
}

BOOST_AUTO_TEST_CASE(bad_sets_are_refused_with_their_values) {
    fleet servers(1);
    auto options = patient();
    options.key_prefix = "p:";
    test_client client(servers, options);
    auto const refuses = [&](key_names const& keys, char const* words, lock_options const& o = {}) {
        BOOST_CHECK_EXCEPTION((void)client.locks.make_multi_lock(keys, o), system_error,
                              [&](system_error const& e) { return contains(e.what(), words); });
    };
    refuses({}, "0 keys");
    refuses({"a", ""}, "empty");
    refuses({"a", "b", "a"}, "\"a\" is given twice");
    refuses(key_names(65, "k"), "65 keys");
    refuses({"a", std::string(max_key_size, 'x')}, "bytes");
    refuses({"{a}", "{a}:fence"}, "fence counter of the key \"{a}\"");
    refuses({"{a}", "{a}:readers:own"}, "set of the readers of the key \"{a}\"");
    refuses({"{a}", "{a}:until:own"}, "deadlines of the permits of the key \"{a}\"");
    refuses({"{a}", "{a}:fences:own"}, "fence counters of the permits of the key \"{a}\"");
    refuses({"{a}", "{a}:intent:own"}, "note of a writer of the key \"{a}\"");
    refuses({"{a}", "{a}:turn:own"}, "turn of the readers of the key \"{a}\"");
    refuses({"a", "b"}, "fair", {.fair = true});
    auto const one = client.locks.make_multi_lock({"a"});
    BOOST_TEST((one.keys() == std::vector<std::string_view>{"p:a"}));
    BOOST_TEST(one.key() == "p:a");
    key_names many;
    for (int i = 0; i < 64; ++i) many.push_back("k" + std::to_string(i));
    auto held = hold_all(client, many);
    BOOST_TEST(held.keys().size() == 64U);
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_SUITE_END()
