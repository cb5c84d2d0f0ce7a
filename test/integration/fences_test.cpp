// Fences on real servers: each lease on a key gets a greater one than the leases before it, whoever
// gets it, whatever the instances have forgotten or counted differently; and all of them in one
// round trip when nothing is wrong.
#include <holdfast/fence_gate.hpp>

#include "integration/child.hpp"
#include "integration/company.hpp"
#include "integration/party.hpp"
#include "integration/wires.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options fenced{.ttl = 60s, .fencing = true};

std::string const counter = "{k}:fence";
constexpr std::uint64_t minute = 60'000 * 10;
constexpr std::uint64_t limit = (std::uint64_t{1} << 53) / 100;

std::uint64_t tenure_of(lease const& l) {
    return l.fence() / 100;
}
std::uint64_t handoffs_of(lease const& l) {
    return l.fence() % 100;
}

/// The number of a tenure that begins now.
std::uint64_t number_now() {
    using namespace std::chrono;
    auto const since_epoch = system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(duration_cast<milliseconds>(since_epoch).count()) * 10;
}

/// Where a majority answers, nobody waits for the others; and no busy machine makes that a
/// minority.
client_options unhurried() {
    return {.instance_timeout = 5s, .connect_timeout = 5s, .max_reconnect_delay = 50ms};
}

/// Nothing has a number of this millisecond any more.
void wait_for_next_number() {
    auto const before = number_now();
    BOOST_REQUIRE(wait_until([&] { return number_now() > before; }));
}

void set_counters(fleet const& servers, std::string const& value) {
    for (server& one : servers) redis_cli(one).set(counter, value);
}

/// What an instance has counted to; 0 where it does not count.
std::uint64_t count_at(server const& on) {
    auto const text = redis_cli(on).get(counter);
    return text ? std::stoull(*text) : 0;
}

std::size_t how_many_count_to(fleet const& servers, std::uint64_t number) {
    std::size_t n = 0;
    for (server& one : servers) {
        if (one.running() && !one.frozen() && count_at(one) >= number) ++n;
    }
    return n;
}

/// Everybody has heard of it: what is set after this, nobody is about to change.
bool all_count_to(party& p, fleet const& servers, std::uint64_t number) {
    return p.until([&] { return how_many_count_to(servers, number) == servers.size(); });
}

/// Acquires, gives back, and waits until that is so everywhere; the fence.
std::uint64_t take_turn(party& p, fleet const& servers, lock_options const& options = fenced) {
    auto l = p.hold("k", options);
    auto const fence = l.fence();
    BOOST_TEST(how_many_count_to(servers, tenure_of(l)) >= servers.quorum());
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.until([&] {
        for (server& one : servers) {
            if (one.running() && !one.frozen() && redis_cli(one).exists("k")) return false;
        }
        return true;
    }));
    return fence;
}

void forget_scripts(fleet const& servers) {
    for (server& one : servers) BOOST_REQUIRE(redis_cli(one).command({"SCRIPT", "FLUSH"}).is_ok());
}

/// Their votes count as soon as they are back.
server_options that_keep_all() {
    server_options options;
    options.arguments = {"--appendonly", "yes", "--appendfsync", "always"};
    return options;
}

// Three servers of every kind, and one of each kind.
template <class Test>
void on_every_kind(Test test) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    std::vector<server_options> mixed;
    for (auto const& kind : kinds) {
        server_options options;
        options.kind = kind;
        mixed.push_back(options);
        BOOST_TEST_CONTEXT(kind.name) {
            fleet servers(3, options);
            test(servers);
        }
    }
    if (mixed.size() == 1) return;
    BOOST_TEST_CONTEXT("mixed") {
        fleet servers(mixed);
        test(servers);
    }
}

// An acquire under way, which can be cancelled, and how it ended.
struct waiting {
    auto take() {
        return [this](error e, lease l) {
            how = std::move(e);
            held = std::move(l);
            done = true;
        };
    }
    void start(lock const& key) {
        key.acquire(asio::bind_cancellation_slot(signal.slot(), take()));
    }
    void start_try(lock const& key) {
        key.try_acquire(asio::bind_cancellation_slot(signal.slot(), take()));
    }

    asio::cancellation_signal signal;
    bool done = false;
    error how;
    lease held;
};

bool waits(party& p, std::uint64_t count = 1) {
    return p.until([&] { return p.locks.stats().waiters == count; });
}

/// A waiter of p has asked an instance to be told when the key changes.
bool waits_for_push(party& p, fleet const& servers) {
    return waits(p) && p.until([&] {
        std::int64_t all = 0;
        for (server& one : servers) {
            if (one.running()) all += std::stoll(redis_cli(one).info("tracking_total_items"));
        }
        return all > 0;
    });
}

lease taken(party& p, waiting& w) {
    BOOST_REQUIRE(p.until([&] { return w.done; }));
    BOOST_REQUIRE_MESSAGE(!w.how, w.how.what());
    BOOST_TEST(w.held.held());
    return std::move(w.held);
}

// Somebody else's lock, by the words of every Redlock.
void hold_by_hand(fleet const& servers) {
    for (server& one : servers) {
        if (one.running()) BOOST_REQUIRE(redis_cli(one).set_if_absent("k", "somebody", 60s));
    }
}
void release_by_hand(fleet const& servers) {
    for (server& one : servers) {
        if (one.running()) BOOST_TEST(redis_cli(one).del_if_equal("k", "somebody"));
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(fences)

//
// On every kind of server
//

BOOST_AUTO_TEST_CASE(fences_grow_with_every_lease_across_clients) {
    on_every_kind([](fleet& servers) {
        party one(servers), two(servers);
        one.runs_with(two);
        BOOST_REQUIRE(one.all_up());
        BOOST_REQUIRE(two.all_up());
        std::uint64_t last = 0;
        for (int i = 0; i < 20; ++i) {
            auto const fence = take_turn(i % 2 == 0 ? one : two, servers);
            BOOST_TEST(fence > last);
            last = fence;
        }
        BOOST_TEST((last >> 63) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_number_is_the_time_of_its_tenure) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        for (int i = 0; i < 3; ++i) {
            auto const before = number_now();
            auto l = p.hold("k", fenced);
            BOOST_TEST(tenure_of(l) + minute > before);
            BOOST_TEST(tenure_of(l) < number_now() + minute);
            BOOST_TEST(handoffs_of(l) == 0U);
            BOOST_TEST(p.releases(l));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_lease_without_fencing_has_none_and_leaves_no_counter) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto l = p.hold("k");
        BOOST_TEST(l.fence() == 0U);
        BOOST_TEST(p.sees(servers, "k", true));
        BOOST_TEST(p.sees(servers, counter, false));
        BOOST_TEST(p.releases(l));
        BOOST_TEST(lease().fence() == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_fence_stays_the_same_for_as_long_as_the_lease) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto l = p.hold("k", {.ttl = 1200ms, .fencing = true});
        auto const fence = l.fence();
        BOOST_TEST(p.renews(2));
        BOOST_TEST(!p.extend(l));
        BOOST_TEST(l.fence() == fence);
        auto const moved = std::move(l);
        BOOST_TEST(moved.fence() == fence);
    });
}

BOOST_AUTO_TEST_CASE(the_counter_stands_beside_the_key_in_its_slot) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        std::vector<std::pair<std::string, std::string>> const names{
            {"k", "{k}:fence"},
            {"seat:{12}:a", "seat:{12}:a:fence"},
            {"{tag}", "{tag}:fence"},
            {"a{b}c{d}", "a{b}c{d}:fence"},
            {"{}x", "{{}x}:fence"},
            {"open{", "{open{}:fence"},
            {std::string("a\0 b\r\n", 6), std::string("{a\0 b\r\n}:fence", 14)},
        };
        std::set<std::string> expected;
        for (auto const& [key, name] : names) {
            BOOST_TEST_CONTEXT(key) {
                auto l = p.hold(key, fenced);
                BOOST_TEST(l.fence() > 0U);
                BOOST_TEST(p.sees(servers, key, true));
                BOOST_TEST(p.sees(servers, name, true));
                for (server& one : servers) {
                    redis_cli cli(one);
                    BOOST_TEST(cli.get(name).value_or("none") == std::to_string(tenure_of(l)));
                    BOOST_TEST((cli.pttl(name) > 24h - 1min));
                    BOOST_TEST((cli.pttl(name) <= 24h));
                }
                BOOST_TEST(p.releases(l));
                BOOST_TEST(p.sees(servers, key, false));
            }
            expected.insert(name);
        }
        // And nothing else.
        for (server& one : servers) {
            auto const all = redis_cli(one).keys();
            BOOST_TEST(std::set<std::string>(all.begin(), all.end()) == expected,
                       boost::test_tools::per_element());
        }
    });
}

BOOST_AUTO_TEST_CASE(counters_that_differ_are_raised) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto fence = take_turn(p, servers);
        BOOST_REQUIRE(all_count_to(p, servers, fence / 100));
        for (int i = 0; i < 5; ++i) {
            // All different, and ahead of the clock, so that no quorum agrees.
            auto ahead = std::max(number_now() + minute / 2, fence / 100);
            for (server& one : servers) redis_cli(one).set(counter, std::to_string(ahead += 100));
            auto const before = p.locks.stats().raises;
            auto const next = take_turn(p, servers);
            BOOST_TEST(next > fence);
            BOOST_TEST(p.locks.stats().raises > before);
            fence = next;
        }
    });
}

BOOST_AUTO_TEST_CASE(forgotten_scripts_are_sent_again) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        std::uint64_t last = 0;
        auto const check = [&](lease& l) {
            BOOST_TEST(l.fence() > last);
            BOOST_TEST(how_many_count_to(servers, tenure_of(l)) >= servers.quorum());
            last = l.fence();
            BOOST_TEST(p.releases(l));
            BOOST_TEST(p.sees(servers, "k", false));
        };
        // Acquire.
        forget_scripts(servers);
        auto first = p.hold("k", fenced);
        check(first);

        // Acquire where the counters differ.
        auto ahead = number_now() + minute / 2;
        for (server& one : servers) redis_cli(one).set(counter, std::to_string(ahead += 100));
        forget_scripts(servers);
        auto raised = p.hold("k", fenced);
        check(raised);

        // While it waits at the arbiter.
        hold_by_hand(servers);
        waiting w;
        w.start(p.locks.make_lock("k", fenced));
        BOOST_REQUIRE(waits_for_push(p, servers));
        forget_scripts(servers);
        release_by_hand(servers);
        auto waited = taken(p, w);
        check(waited);
        // It was not the end of a connection that brought them back.
        for (auto const& one : p.locks.instances()) BOOST_TEST(one.connections == 1U);

        // Heal, of one that has granted: who connects brings the scripts.
        party another(servers);
        BOOST_REQUIRE(another.all_up());
        auto l = p.hold("k", fenced);
        BOOST_TEST(p.sees(servers, "k", true));
        redis_cli cli(servers[0]);
        auto const token = cli.get("k").value();
        cli.del("k");
        cli.del(counter);
        forget_scripts(servers);
        BOOST_TEST(!p.extend(l));
        BOOST_TEST(p.until([&] { return cli.exists("k"); }));
        BOOST_TEST(cli.get("k").value_or("gone") == token);
        BOOST_TEST(p.until([&] { return count_at(servers[0]) >= tenure_of(l); }));
        check(l);
    });
}

BOOST_AUTO_TEST_CASE(a_counter_that_holds_no_number_is_an_error) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto const check_refused = [&] {
            auto const [e, none] = p.acquire("k", fenced);
            BOOST_TEST((e == errc::invalid_fence), e.what());
            BOOST_TEST(!none.held());
            BOOST_REQUIRE(e.report() != nullptr);
            // The round is over when those who refuse are too many. The rest may be unheard of.
            std::size_t refused = 0;
            for (auto const& one : e.report()->instances) {
                if (one.outcome != instance_outcome::rejected) continue;
                ++refused;
                BOOST_TEST(one.message.find("FENCE") == 0U, one.message);
                BOOST_TEST(one.message.find(counter) != std::string::npos, one.message);
                BOOST_TEST(e.what().find(one.address + " rejected") != std::string::npos, e.what());
                BOOST_TEST(e.what().find(one.message) != std::string::npos, e.what());
            }
            BOOST_TEST(refused > servers.size() - servers.quorum());
            BOOST_TEST(p.sees(servers, "k", false));
            // It is the fence alone that cannot be had.
            auto plain = p.hold("k");
            BOOST_TEST(plain.fence() == 0U);
            BOOST_TEST(p.sees(servers, "k", true));
            BOOST_TEST(p.releases(plain));
            BOOST_TEST(p.sees(servers, "k", false));
        };
        for (std::string const value : {"garbage", "", "-5", "-1e3", "1.5", "90071992547408",
                                        "9007199254740992", "1e400", "nan"}) {
            BOOST_TEST_CONTEXT("\"" << value << '"') {
                set_counters(servers, value);
                check_refused();
                for (server& one : servers)
                    BOOST_TEST(redis_cli(one).get(counter).value_or("gone") == value);
            }
        }
        BOOST_TEST_CONTEXT("a list") {
            for (server& one : servers) {
                redis_cli cli(one);
                cli.del(counter);
                cli.command({"RPUSH", counter, "1"});
            }
            check_refused();
            for (server& one : servers) {
                redis_cli cli(one);
                BOOST_TEST(cli.command({"LLEN", counter}).integer() == 1);
                cli.del(counter);
            }
        }
        BOOST_TEST_CONTEXT("the others are all right") {
            for (std::size_t i = 0; i < servers.quorum(); ++i)
                redis_cli(servers[i]).set(counter, "garbage");
            check_refused();
        }
    });
}

BOOST_AUTO_TEST_CASE(a_minority_with_a_bad_counter_costs_nothing) {
    on_every_kind([](fleet& servers) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        redis_cli bad(servers[0]);
        std::uint64_t last = 0;
        for (auto const list : {false, true}) {
            for (int i = 0; i < 5; ++i) {
                bad.del(counter);
                if (list) {
                    bad.command({"RPUSH", counter, "1"});
                } else {
                    bad.set(counter, "garbage");
                }
                auto l = p.hold("k", fenced);
                BOOST_TEST(l.fence() > last);
                last = l.fence();
                BOOST_TEST(!p.extend(l));
                BOOST_TEST(!bad.exists("k"));
                BOOST_TEST(p.releases(l));
                BOOST_TEST(p.sees(servers, "k", false));
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(fenced_and_plain_locks_on_a_key_exclude_each_other) {
    on_every_kind([](fleet& servers) {
        party one(servers), two(servers);
        one.runs_with(two);
        BOOST_REQUIRE(one.all_up());
        BOOST_REQUIRE(two.all_up());
        for (auto const first : {true, false}) {
            auto l = one.hold("k", first ? fenced : long_lived);
            BOOST_TEST((l.fence() > 0U) == first);
            auto const [e, none] = two.try_acquire("k", first ? long_lived : fenced);
            BOOST_TEST((e == errc::contended), e.what());
            auto const [same, nothing] = two.try_acquire("k", first ? fenced : long_lived);
            BOOST_TEST((same == errc::contended), same.what());
            waiting w;
            w.start(two.locks.make_lock("k", first ? long_lived : fenced));
            BOOST_REQUIRE(waits(two));
            BOOST_TEST(one.releases(l));
            auto next = taken(two, w);
            BOOST_TEST((next.fence() > 0U) != first);
            BOOST_TEST(two.releases(next));
            BOOST_TEST(two.sees(servers, "k", false));
        }
    });
}

//
// Growth
//

BOOST_AUTO_TEST_CASE(fences_grow_after_expiry_and_after_a_loss) {
    fleet servers(3);
    party one(servers), two(servers);
    BOOST_REQUIRE(one.all_up());
    BOOST_REQUIRE(two.all_up());
    auto expired = one.hold("k", {.ttl = 500ms, .watchdog = false, .fencing = true});
    auto waited = two.hold("k", fenced); // until it has expired
    BOOST_TEST(waited.fence() > expired.fence());
    one.runs_with(two);
    BOOST_TEST(one.until([&] { return !expired.held(); }));
    // It keeps its number, for the resource to reject.
    BOOST_TEST(expired.fence() > 0U);

    for (server& each : servers) redis_cli(each).del("k");
    auto third = one.hold("k", fenced);
    BOOST_TEST(third.fence() > waited.fence());
    BOOST_TEST((two.extend(waited) == errc::lease_lost));
    BOOST_TEST(one.releases(third));
    BOOST_TEST(two.sees(servers, "k", false));
    BOOST_TEST(take_turn(two, servers) > third.fence());
}

BOOST_AUTO_TEST_CASE(a_destroyed_lease_makes_room_for_a_greater_fence) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i) {
        auto const l = p.hold("k", fenced);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
    }
}

BOOST_AUTO_TEST_CASE(fences_grow_across_clients_that_come_and_go) {
    fleet servers(3);
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto const fence = take_turn(p, servers);
        BOOST_TEST(fence > last);
        last = fence;
        // It leaves nothing behind: the last instance may have been asked for the key only now.
        BOOST_REQUIRE(all_count_to(p, servers, fence / 100));
        BOOST_REQUIRE(p.sees(servers, "k", false));
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_numbers_its_leases) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto const lock = p.locks.make_lock(
        "k", {.ttl = 60s, .fencing = true, .handoff_limit = 5, .handoff_time = 60s});
    constexpr std::size_t everybody = 12;
    std::vector<waiting> all(everybody);
    std::vector<std::uint64_t> fences;
    for (auto& one : all) one.start(lock);
    for (auto& one : all) {
        auto l = taken(p, one);
        fences.push_back(l.fence());
        BOOST_TEST(p.releases(l));
    }
    BOOST_TEST(std::is_sorted(fences.begin(), fences.end(), std::less_equal<>()));
    for (std::size_t i = 0; i < everybody; ++i) {
        BOOST_TEST((fences[i] % 100) == i % 5);
        BOOST_TEST((fences[i] / 100) == (fences[i - i % 5] / 100));
        if (i >= 5 && i % 5 == 0) BOOST_TEST((fences[i] / 100) > (fences[i - 1] / 100));
    }
    BOOST_TEST(p.locks.stats().handoffs == 9U);
    BOOST_TEST(p.locks.stats().rounds == 3U);
}

BOOST_AUTO_TEST_CASE(the_longest_tenure_ends_before_its_leases_run_out_of_numbers) {
    fleet servers(1);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto const lock = p.locks.make_lock(
        "k",
        {.ttl = 60s, .fencing = true, .handoff_limit = max_handoff_limit, .handoff_time = 60s});
    constexpr std::size_t leases = max_handoff_limit + 10U;
    std::vector<std::uint64_t> fences;
    // Somebody waits at any time.
    std::function<void(error, lease)> const next = [&](error e, lease l) {
        BOOST_REQUIRE_MESSAGE(!e, e.what());
        fences.push_back(l.fence());
        if (fences.size() < leases) lock.acquire(next);
        // Destroyed here, and so given to who waits.
    };
    lock.acquire(next);
    lock.acquire(next);
    BOOST_REQUIRE(run_until(
        p.context, [&] { return fences.size() >= leases; }, 60s));
    std::size_t wrong = 0;
    for (std::size_t i = 1; i < leases; ++i) wrong += fences[i] <= fences[i - 1];
    for (std::size_t i = 0; i < max_handoff_limit; ++i) {
        wrong += fences[i] / 100 != fences[0] / 100 || (fences[i] % 100) != i;
    }
    BOOST_TEST(wrong == 0U);
    BOOST_TEST((fences[max_handoff_limit] / 100) > (fences[0] / 100));
    BOOST_TEST((fences[max_handoff_limit] % 100) == 0U);
    BOOST_TEST(p.locks.stats().rounds == 2U);
}

//
// Counters
//

BOOST_AUTO_TEST_CASE(the_counter_lives_for_fence_ttl_after_it_was_used) {
    fleet servers(3);
    auto options = patient();
    options.fence_ttl = 600s;
    party p(servers, options);
    BOOST_REQUIRE(p.all_up());
    auto const check_ttl = [&] {
        for (server& one : servers) {
            redis_cli cli(one);
            BOOST_TEST(p.until([&] { return cli.pttl(counter) > 590s; }));
            BOOST_TEST((cli.pttl(counter) <= 600s));
            cli.command({"PEXPIRE", counter, "5000"});
        }
    };
    auto const fence = take_turn(p, servers);
    BOOST_REQUIRE(all_count_to(p, servers, fence / 100));
    check_ttl();
    auto const next = take_turn(p, servers);
    BOOST_REQUIRE(all_count_to(p, servers, next / 100));
    check_ttl();

    // Also where it is raised: the third cannot help.
    servers[2].kill();
    BOOST_REQUIRE(p.goes_down(2, errc::unreachable));
    redis_cli(servers[0]).set(counter, std::to_string(number_now() + minute / 2));
    redis_cli(servers[1]).set(counter, "1");
    auto const raised = take_turn(p, servers);
    BOOST_TEST(p.locks.stats().raises == 1U);
    BOOST_TEST(count_at(servers[1]) == raised / 100);
    for (std::size_t i : {0U, 1U}) {
        auto const left = redis_cli(servers[i]).pttl(counter);
        BOOST_TEST((left > 590s && left <= 600s));
    }
}

BOOST_AUTO_TEST_CASE(the_counter_lives_for_as_long_as_the_lease_is_renewed) {
    fleet servers(3);
    auto options = patient();
    options.max_ttl = 2s;
    options.fence_ttl = 2s;
    party p(servers, options);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 2s, .fencing = true});
    BOOST_REQUIRE(all_count_to(p, servers, tenure_of(l)));
    for (server& one : servers) redis_cli(one).command({"SCRIPT", "FLUSH"});
    auto const end = lease_clock::now() + 4s;
    while (lease_clock::now() < end) {
        p.pass(lease_clock::now() + 50ms);
        BOOST_REQUIRE(how_many_count_to(servers, tenure_of(l)) == servers.size());
    }
    BOOST_TEST(l.held());
}

BOOST_AUTO_TEST_CASE(fences_grow_when_the_counter_was_deleted_or_has_expired) {
    fleet servers(3);
    auto options = patient();
    options.max_ttl = 1500ms;
    options.fence_ttl = 1500ms;
    party p(servers, options);
    BOOST_REQUIRE(p.all_up());
    constexpr lock_options brief{.ttl = 1500ms, .fencing = true};
    auto fence = take_turn(p, servers, brief);
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(p.sees(servers, counter, false)); // expired
        auto const next = take_turn(p, servers, brief);
        BOOST_TEST(next > fence);
        fence = next;
    }
    for (int i = 0; i < 20; ++i) {
        wait_for_next_number();
        for (server& one : servers) redis_cli(one).del(counter);
        auto const next = take_turn(p, servers, brief);
        BOOST_TEST(next > fence);
        fence = next;
    }
}

BOOST_AUTO_TEST_CASE(a_quorum_holds_what_the_furthest_of_it_counted) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto const size = servers.size();
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        // So that it takes all that are left.
        for (auto i = servers.quorum(); i < size; ++i) {
            servers[i].kill();
            BOOST_REQUIRE(p.goes_down(i, errc::unreachable));
        }
        std::uint64_t last = 0, raises = 0;
        for (std::size_t far = 0; far < servers.quorum(); ++far) {
            auto const ahead = number_now() + minute / 2 + 1000 * far;
            redis_cli(servers[far]).set(counter, std::to_string(ahead));
            auto l = p.hold("k", fenced);
            BOOST_TEST(tenure_of(l) == ahead + 1);
            BOOST_TEST(l.fence() > last);
            last = l.fence();
            BOOST_TEST(how_many_count_to(servers, tenure_of(l)) == servers.quorum());
            BOOST_TEST(p.locks.stats().raises == ++raises);
            BOOST_TEST(p.releases(l));
        }
        // They agree now.
        take_turn(p, servers);
        BOOST_TEST(p.locks.stats().raises == raises);
    });
}

BOOST_AUTO_TEST_CASE(a_quorum_holds_what_the_furthest_counted_also_after_a_wait_at_the_arbiter) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    servers[2].kill();
    BOOST_REQUIRE(p.goes_down(2, errc::unreachable));
    std::uint64_t last = 0, round = 0;
    for (std::size_t const far : {0U, 1U, 0U, 1U}) {
        auto const ahead = number_now() + minute / 2 + 1000 * ++round;
        redis_cli(servers[far]).set(counter, std::to_string(ahead));
        hold_by_hand(servers);
        waiting w;
        w.start(p.locks.make_lock("k", fenced));
        BOOST_REQUIRE(waits_for_push(p, servers));
        release_by_hand(servers);
        auto l = taken(p, w);
        BOOST_TEST(tenure_of(l) == ahead + 1);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
        BOOST_TEST(how_many_count_to(servers, tenure_of(l)) == 2U);
        BOOST_TEST(p.releases(l));
    }
    BOOST_TEST(p.locks.stats().pushes >= 4U);
    // One of the two is the arbiter, and what that has counted the other is told when it is asked.
    BOOST_TEST(p.locks.stats().raises == 2U);
}

BOOST_AUTO_TEST_CASE(a_counter_that_is_ahead_of_the_clock_counts_on) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    for (auto const ahead : {minute / 2, 2 * minute, 1'000'000 * minute}) {
        auto const far = number_now() + ahead;
        set_counters(servers, std::to_string(far));
        for (std::uint64_t i = 1; i <= 3; ++i) {
            auto l = p.hold("k", fenced);
            BOOST_TEST(tenure_of(l) == far + i);
            BOOST_REQUIRE(all_count_to(p, servers, far + i));
            BOOST_TEST(p.releases(l));
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
    BOOST_TEST(p.locks.stats().raises == 0U);
}

BOOST_AUTO_TEST_CASE(the_last_number_is_given_out_and_none_after_it) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    set_counters(servers, std::to_string(limit - 2));
    auto l = p.hold("k", fenced);
    BOOST_TEST(l.fence() == (limit - 1) * 100);
    BOOST_REQUIRE(all_count_to(p, servers, limit - 1));
    BOOST_TEST(p.releases(l));
    auto const [e, none] = p.acquire("k", fenced);
    BOOST_TEST((e == errc::invalid_fence), e.what());
    BOOST_TEST(p.sees(servers, "k", false));
    for (server& one : servers) BOOST_TEST(count_at(one) == limit - 1);
}

//
// Clocks
//

BOOST_AUTO_TEST_CASE(a_time_that_an_instance_finds_incredible_does_not_count_there) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(1, options);
    servers[0].shift_clock(-120s); // so ours is two minutes fast, as it sees it
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    for (std::uint64_t i = 1; i <= 5; ++i) BOOST_TEST(take_turn(p, servers) == i * 100);
    // It comes to its senses, and the fences to the clock.
    servers[0].shift_clock(120s);
    auto const fence = take_turn(p, servers);
    BOOST_TEST((fence / 100) + minute > number_now());
    // Its counter is near our clock now, and follows that, whatever its own clock says.
    servers[0].shift_clock(-24h);
    auto last = fence;
    for (int i = 0; i < 5; ++i) {
        auto const before = number_now();
        auto const next = take_turn(p, servers);
        BOOST_TEST(next > last);
        BOOST_TEST((next / 100) >= before);
        last = next;
    }
    // Not when it has lost that.
    redis_cli(servers[0]).del(counter);
    BOOST_TEST(take_turn(p, servers) == 100U);
}

BOOST_AUTO_TEST_CASE(a_client_that_is_a_little_fast_is_believed) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(1, options);
    servers[0].shift_clock(-50s);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    BOOST_TEST((take_turn(p, servers) / 100) + minute / 10 > number_now());
}

BOOST_AUTO_TEST_CASE(a_client_that_is_slow_counts_on) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    for (server& one : servers) one.shift_clock(24h);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        auto const fence = take_turn(p, servers);
        BOOST_TEST(fence > last);
        last = fence;
    }
    // What another client, which goes by the servers' time, has made of it.
    auto const theirs = number_now() + 24 * 60 * minute;
    set_counters(servers, std::to_string(theirs));
    for (std::uint64_t i = 1; i <= 5; ++i) {
        auto l = p.hold("k", fenced);
        BOOST_TEST(tenure_of(l) == theirs + i);
        BOOST_REQUIRE(all_count_to(p, servers, theirs + i));
        BOOST_TEST(p.releases(l));
        BOOST_TEST(p.sees(servers, "k", false));
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_two_minutes_slow_is_raised) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    servers[0].shift_clock(-120s);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    servers[2].kill();
    BOOST_REQUIRE(p.goes_down(2, errc::unreachable));
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        wait_for_next_number();
        auto const before = number_now();
        auto l = p.hold("k", fenced);
        BOOST_TEST(tenure_of(l) >= before);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
        BOOST_TEST(p.locks.stats().raises == 1U); // with a counter near our clock it follows that
        BOOST_TEST(count_at(servers[0]) == tenure_of(l));
        BOOST_TEST(count_at(servers[1]) == tenure_of(l));
        BOOST_TEST(p.releases(l));
    }
}

BOOST_AUTO_TEST_CASE(fences_grow_while_the_clocks_of_the_instances_are_set) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    auto client = patient();
    client.detect_clock_jumps = false;
    party p(servers, client);
    BOOST_REQUIRE(p.all_up());
    std::uint64_t last = 0;
    constexpr std::array shifts{-120s, 120s, 3600s, -7200s, 30s, 3570s};
    for (std::size_t i = 0; i < 4 * shifts.size(); ++i) {
        servers[i % 3].shift_clock(shifts[(i + i / 3) % shifts.size()]);
        auto const fence = take_turn(p, servers);
        BOOST_TEST(fence > last);
        last = fence;
    }
}

//
// Faults
//

BOOST_AUTO_TEST_CASE(fences_grow_while_a_minority_is_frozen_or_down) {
    with_fleets_of({3, 5}, that_keep_all(), [](fleet& servers) {
        auto const size = servers.size();
        party p(servers, unhurried());
        BOOST_REQUIRE(p.all_up());
        auto last = take_turn(p, servers);
        auto const turns = [&] {
            for (int i = 0; i < 3; ++i) {
                auto const fence = take_turn(p, servers);
                BOOST_TEST(fence > last);
                last = fence;
            }
        };
        auto const minority = size - servers.quorum();
        for (std::size_t i = 0; i < size; ++i) {
            BOOST_TEST_CONTEXT("from instance " << i) {
                auto const each = [&](auto f) {
                    for (std::size_t n = 0; n < minority; ++n) f((i + n) % size);
                };
                each([&](std::size_t n) { servers[n].freeze(); });
                turns();
                servers.thaw_all();
                turns();
                BOOST_REQUIRE(p.all_up());
                each([&](std::size_t n) { servers[n].stop(); });
                turns();
                each([&](std::size_t n) { servers[n].restart(); });
                turns();
                BOOST_REQUIRE(p.all_up());
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(fences_grow_though_a_minority_forgets_its_counters) {
    fleet servers(3);
    auto options = unhurried();
    options.on_restart = restart_policy::off;
    party p(servers, options);
    BOOST_REQUIRE(p.all_up());
    auto last = take_turn(p, servers);
    for (int i = 0; i < 6; ++i) {
        auto& one = servers[static_cast<std::size_t>(i) % 3];
        auto const connections = p.status(static_cast<std::size_t>(i) % 3).connections;
        one.kill();
        one.restart();
        BOOST_TEST(redis_cli(one).dbsize() == 0);
        BOOST_REQUIRE(p.until(
            [&] { return p.status(static_cast<std::size_t>(i) % 3).connections > connections; }));
        // The one that has forgotten is needed.
        auto& other = servers[static_cast<std::size_t>(i + 1) % 3];
        other.freeze();
        auto const fence = take_turn(p, servers);
        BOOST_TEST(fence > last);
        BOOST_TEST(count_at(one) == fence / 100);
        last = fence;
        other.thaw();
        BOOST_REQUIRE(p.all_up());
        BOOST_TEST(p.sees(servers, "k", false));
    }
}

namespace {

// Three instances: the first grants at once, what the second says is held back and asks for a raise
// of the first, and the third is down.
struct divided {
    fleet servers;
    wires ways{servers};
    party p;
    waiting w;

    explicit divided(server_options const& each = {})
        : servers(3, each)
        , p(ways.addresses(), options()) {
        BOOST_REQUIRE(p.all_up());
        ways[2].down();
        BOOST_REQUIRE(p.becomes(2, instance_state::down));
        redis_cli(servers[1]).set(counter, std::to_string(number_now() + minute / 2));
    }
    static client_options options() {
        client_options all{
            .instance_timeout = 4s, .connect_timeout = 4s, .max_reconnect_delay = 50ms};
        all.detect_clock_jumps = false;
        all.on_restart = restart_policy::off; // no questions in between
        return all;
    }
    // Until the first has granted, and nothing else is known.
    void begin(bool try_only = false) {
        auto const before = ways[0].replies_forwarded();
        ways[1].hold_replies();
        auto const lock = p.locks.make_lock("k", fenced);
        if (try_only) {
            w.start_try(lock);
        } else {
            w.start(lock);
        }
        BOOST_REQUIRE(p.until([&] { return ways[0].replies_forwarded() > before; }));
        BOOST_REQUIRE(p.until([&] { return ways[1].replies_held() > 0; }));
        BOOST_TEST(!w.done);
        BOOST_TEST(p.locks.stats().raises == 0U);
    }
    bool leaves_no_key() {
        return p.until([&] {
            return !redis_cli(servers[0]).exists("k") && !redis_cli(servers[1]).exists("k");
        });
    }
};

} // namespace

BOOST_AUTO_TEST_CASE(an_instance_is_raised_before_the_lease_is_given) {
    divided d;
    d.begin();
    auto const before = d.ways[0].replies_forwarded();
    d.ways[0].hold_requests();
    d.ways[1].resume();
    BOOST_REQUIRE(d.p.until([&] { return d.ways[0].commands_held() > 0; }));
    BOOST_TEST(d.p.locks.stats().raises == 1U);
    BOOST_TEST(!d.w.done);
    BOOST_TEST(count_at(d.servers[0]) < count_at(d.servers[1]));
    BOOST_TEST(d.ways[0].replies_forwarded() == before);
    d.ways[0].resume();
    auto l = taken(d.p, d.w);
    BOOST_TEST(tenure_of(l) == count_at(d.servers[1]));
    BOOST_TEST(tenure_of(l) == count_at(d.servers[0]));
    BOOST_TEST(d.p.releases(l));
    BOOST_TEST(d.leaves_no_key());
}

BOOST_AUTO_TEST_CASE(an_instance_that_has_forgotten_the_script_is_raised) {
    for (auto const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server_options options;
            options.kind = kind;
            divided d(options);
            d.begin();
            forget_scripts(d.servers);
            d.ways[1].resume();
            auto l = taken(d.p, d.w);
            BOOST_TEST(d.p.locks.stats().raises == 1U);
            BOOST_TEST(d.p.locks.stats().rounds == 1U);
            BOOST_TEST(tenure_of(l) == count_at(d.servers[0]));
            BOOST_TEST(tenure_of(l) == count_at(d.servers[1]));
            BOOST_TEST(d.p.releases(l));
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_gave_the_key_to_another_meanwhile_is_not_raised) {
    divided d;
    d.begin(true);
    redis_cli(d.servers[0]).set("k", "somebody", 60s);
    auto const before = count_at(d.servers[0]);
    d.ways[1].resume();
    BOOST_REQUIRE(d.p.until([&] { return d.w.done; }));
    BOOST_TEST((d.w.how == errc::contended), d.w.how.what());
    BOOST_TEST(d.p.locks.stats().raises == 1U);
    BOOST_TEST(count_at(d.servers[0]) == before);
    BOOST_TEST(redis_cli(d.servers[0]).get("k").value_or("gone") == "somebody");
    BOOST_TEST(d.p.until([&] { return !redis_cli(d.servers[1]).exists("k"); }));
}

BOOST_AUTO_TEST_CASE(an_acquire_tries_again_when_a_grant_is_gone_before_it_was_raised) {
    divided d;
    d.begin();
    redis_cli(d.servers[0]).del("k");
    d.ways[1].resume();
    auto l = taken(d.p, d.w);
    BOOST_TEST(d.p.locks.stats().rounds == 2U);
    BOOST_TEST(how_many_count_to(d.servers, tenure_of(l)) == 2U);
    BOOST_TEST(d.p.releases(l));
    BOOST_TEST(d.leaves_no_key());
}

BOOST_AUTO_TEST_CASE(an_instance_that_falls_silent_before_it_was_raised_is_told_of_in_time) {
    divided d;
    d.begin();
    d.ways[0].hold_requests();
    d.ways[1].resume();
    BOOST_REQUIRE(d.p.until([&] { return d.w.done; }));
    BOOST_TEST((d.w.how == error_condition::unavailable), d.w.how.what());
    d.ways[0].resume();
    BOOST_TEST(d.leaves_no_key());
}

BOOST_AUTO_TEST_CASE(an_instance_that_goes_down_before_it_was_raised_is_told_of_in_time) {
    for (auto const sent : {true, false}) {
        BOOST_TEST_CONTEXT((sent ? "with the raise under way" : "before it could be sent")) {
            divided d;
            d.begin();
            if (sent) {
                d.ways[0].hold_requests();
                d.ways[1].resume();
                BOOST_REQUIRE(d.p.until([&] { return d.ways[0].commands_held() > 0; }));
                d.ways[0].down();
            } else {
                d.ways[0].down();
                BOOST_REQUIRE(
                    d.p.until([&] { return d.p.status(0).state == instance_state::down; }));
                d.ways[1].resume();
            }
            BOOST_TEST(d.p.until([&] { return d.w.done; }));
            BOOST_TEST((d.w.how == error_condition::unavailable), d.w.how.what());
            d.ways[0].resume();
            d.ways[0].up();
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_counter_that_turns_bad_before_it_was_raised_leaves_no_key_behind) {
    for (auto const list : {false, true}) {
        BOOST_TEST_CONTEXT((list ? "a list" : "garbage")) {
            divided d;
            d.begin(true);
            redis_cli cli(d.servers[0]);
            cli.del(counter);
            if (list) {
                cli.command({"RPUSH", counter, "1"});
            } else {
                cli.set(counter, "garbage");
            }
            d.ways[1].resume();
            BOOST_REQUIRE(d.p.until([&] { return d.w.done; }));
            // What is no number is less than any.
            BOOST_TEST(static_cast<bool>(d.w.how) == list, d.w.how.what());
            if (d.w.held) BOOST_TEST(d.p.releases(d.w.held));
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_acquire_leaves_no_key_where_its_script_was_forgotten) {
    fleet servers(3);
    wires ways(servers);
    party p(ways.addresses());
    BOOST_REQUIRE(p.all_up());
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        forget_scripts(servers);
        ways.hold_replies();
        waiting w;
        w.start(p.locks.make_lock("k", fenced));
        BOOST_REQUIRE(p.until([&] { return ways.each_holds_a_reply(); }));
        w.signal.emit(type);
        BOOST_REQUIRE(p.until([&] { return w.done; }));
        BOOST_TEST((w.how == errc::cancelled), w.how.what());
        ways.resume();
        // Whatever was sent before it has been carried out.
        auto behind = p.hold("behind");
        BOOST_TEST(p.sees(servers, "behind", true));
        BOOST_TEST(p.releases(behind));
        BOOST_TEST(p.sees(servers, "behind", false));
        for (server& one : servers) {
            BOOST_TEST(!redis_cli(one).exists("k"));
            BOOST_TEST(!redis_cli(one).exists(counter));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_that_is_cancelled_at_any_step_leaves_no_key) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    constexpr std::array types{asio::cancellation_type::total, asio::cancellation_type::partial,
                               asio::cancellation_type::terminal};
    for (auto const at_arbiter : {false, true}) {
        for (auto const differ : {false, true}) {
            auto ended = 0;
            for (int steps = 0; steps < 30; ++steps) {
                auto ahead = number_now() + minute / 2;
                for (server& one : servers) {
                    redis_cli cli(one);
                    if (differ) cli.set(counter, std::to_string(ahead += 100));
                }
                waiting w;
                if (at_arbiter) hold_by_hand(servers);
                w.start(p.locks.make_lock("k", fenced));
                if (at_arbiter) {
                    BOOST_REQUIRE(waits_for_push(p, servers));
                    release_by_hand(servers);
                }
                forget_scripts(servers);
                for (int i = 0; i < steps; ++i) p.context.run_one_for(1ms);
                w.signal.emit(types[static_cast<std::size_t>(steps) % types.size()]);
                BOOST_REQUIRE(p.until([&] { return w.done; }));
                BOOST_TEST((!w.how || w.how == errc::cancelled), w.how.what());
                if (w.held) {
                    ++ended;
                    BOOST_TEST(w.held.fence() > 0U);
                    BOOST_TEST(p.releases(w.held));
                }
                BOOST_TEST(p.sees(servers, "k", false));
            }
            BOOST_TEST_MESSAGE(ended << " of 30 had the lease before they were cancelled");
            BOOST_TEST(ended < 30);
        }
    }
}

//
// Rights
//

namespace {

std::vector<address> as_user(fleet const& servers, std::vector<std::string> const& rules) {
    std::vector<address> all;
    for (server& one : servers) {
        command_line words{"ACL", "SETUSER", "guest", "on", ">pw", "&*", "+@all"};
        words.insert(words.end(), rules.begin(), rules.end());
        BOOST_REQUIRE(redis_cli(one).command(words).is_ok());
        all.emplace_back("redis://guest:pw@" + one.address());
    }
    return all;
}

void check_denied(fleet const& servers, std::vector<std::string> const& rules) {
    party p(as_user(servers, rules));
    BOOST_REQUIRE(p.all_up());
    auto const [e, none] = p.acquire("k", fenced);
    BOOST_TEST((e == errc::access_denied), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    std::size_t denied = 0;
    for (auto const& one : e.report()->instances) {
        if (one.outcome != instance_outcome::rejected) continue;
        ++denied;
        BOOST_TEST(one.message.find("NOPERM") != std::string::npos, one.message);
    }
    BOOST_TEST(denied > servers.size() - servers.quorum());
    BOOST_TEST(p.sees(servers, "k", false));
    BOOST_TEST(p.sees(servers, counter, false));
    auto plain = p.hold("k");
    plain = {};
    BOOST_TEST(p.until([&] { return p.locks.stats().held == 0; }));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_user_who_may_not_use_the_counter_is_access_denied) {
    on_every_kind([](fleet& servers) { check_denied(servers, {"~k"}); });
}

BOOST_AUTO_TEST_CASE(a_user_who_may_not_run_scripts_is_access_denied) {
    // Who may not load ours is not let in at all; they are there.
    on_every_kind([](fleet& servers) { check_denied(servers, {"~*", "-evalsha", "-eval"}); });
}

BOOST_AUTO_TEST_CASE(a_user_who_may_not_ask_for_the_time_leaves_no_key_behind) {
    on_every_kind([](fleet& servers) {
        party p(as_user(servers, {"~*", "-time"}));
        BOOST_REQUIRE(p.all_up());
        auto [e, l] = p.try_acquire("k", fenced);
        BOOST_TEST_MESSAGE(e.what());
        if (!e) {
            BOOST_TEST(l.fence() > 0U);
            BOOST_TEST(p.releases(l));
        } else {
            BOOST_TEST((e == errc::access_denied), e.what());
        }
        BOOST_TEST(p.sees(servers, "k", false));
    });
}

//
// Waiting
//

BOOST_AUTO_TEST_CASE(plain_and_fenced_waiters_behind_one_holder_get_what_they_asked_for) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    constexpr lock_options plain{.ttl = 60s, .handoff_time = 60s};
    constexpr lock_options with_fence{.ttl = 60s, .fencing = true, .handoff_time = 60s};
    std::uint64_t last = 0;
    for (unsigned const which : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        BOOST_TEST_CONTEXT("turns " << which) {
            auto const before = p.locks.stats();
            std::uint64_t rounds = 0;
            auto tenure_is_fenced = false;
            auto l = p.hold("k", (which & 1) != 0 ? with_fence : plain);
            std::array<waiting, 2> waiters;
            waiters[0].start(p.locks.make_lock("k", (which & 2) != 0 ? with_fence : plain));
            waiters[1].start(p.locks.make_lock("k", (which & 4) != 0 ? with_fence : plain));
            BOOST_REQUIRE(waits(p, 2));
            for (unsigned i = 0; i < 3; ++i) {
                auto const wants = (which >> i & 1) != 0;
                if (i > 0) l = taken(p, waiters[i - 1]);
                BOOST_TEST((l.fence() > 0U) == wants);
                if (wants) {
                    BOOST_TEST(l.fence() > last);
                    last = l.fence();
                }
                // A tenure that has a number can serve those who want none, and not the other way
                // round.
                if (i == 0 || (wants && !tenure_is_fenced)) {
                    tenure_is_fenced = wants;
                    ++rounds;
                }
                BOOST_TEST(p.releases(l));
            }
            BOOST_TEST(p.locks.stats().rounds - before.rounds == rounds);
            BOOST_TEST(p.locks.stats().handoffs - before.handoffs == 3 - rounds);
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(plain_and_fenced_waiters_behind_another_client_get_what_they_asked_for) {
    fleet servers(3);
    party other(servers), p(servers);
    other.runs_with(p);
    BOOST_REQUIRE(other.all_up());
    BOOST_REQUIRE(p.all_up());
    std::uint64_t last = 0;
    for (auto const holder : {false, true}) {
        for (auto const first : {false, true}) {
            auto l = other.hold("k", holder ? fenced : long_lived);
            last = std::max(last, l.fence());
            std::array<waiting, 2> waiters;
            waiters[0].start(p.locks.make_lock("k", first ? fenced : long_lived));
            waiters[1].start(p.locks.make_lock("k", first ? long_lived : fenced));
            BOOST_REQUIRE(waits(p, 2));
            BOOST_TEST(other.releases(l));
            for (auto& w : waiters) {
                auto next = taken(p, w);
                BOOST_TEST((next.fence() > 0U) == (first == (&w == &waiters[0])));
                if (next.fence() > 0) {
                    BOOST_TEST(next.fence() > last);
                    last = next.fence();
                }
                BOOST_TEST(p.releases(next));
            }
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(who_inherits_a_try_gets_what_it_asked_for) {
    fleet servers(3);
    wires ways(servers);
    party p(ways.addresses());
    BOOST_REQUIRE(p.all_up());
    for (auto const first : {false, true}) {
        BOOST_TEST_CONTEXT((first ? "a fenced try" : "a plain try")) {
            auto const before = p.locks.stats();
            ways.hold_replies();
            std::array<waiting, 2> waiters;
            waiters[0].start(p.locks.make_lock("k", first ? fenced : long_lived));
            waiters[1].start(p.locks.make_lock("k", first ? long_lived : fenced));
            // All have granted, and it is not known yet.
            BOOST_REQUIRE(p.sees(servers, "k", true));
            waiters[0].signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(p.until([&] { return waiters[0].done; }));
            BOOST_TEST((waiters[0].how == errc::cancelled), waiters[0].how.what());
            ways.resume();
            auto l = taken(p, waiters[1]);
            BOOST_TEST((l.fence() > 0U) != first);
            BOOST_TEST(p.locks.stats().rounds - before.rounds == (first ? 1U : 2U));
            BOOST_TEST(p.releases(l));
            BOOST_TEST(p.sees(servers, "k", false));
        }
    }
}

BOOST_AUTO_TEST_CASE(who_cannot_have_a_fence_does_not_keep_others_from_the_lock) {
    for (std::string const why :
         {"bad counters", "one is bad and one is down", "no right to the counter"}) {
        BOOST_TEST_CONTEXT(why) {
            fleet servers(3);
            auto const denied = why.starts_with("no right");
            party p(denied ? as_user(servers, {"~k"}) : addresses_of(servers));
            BOOST_REQUIRE(p.all_up());
            if (!denied) {
                auto const all = why.starts_with("bad");
                for (std::size_t i = 0; i < (all ? 3U : 1U); ++i)
                    redis_cli(servers[i]).set(counter, "garbage");
                if (!all) {
                    servers[2].kill();
                    BOOST_REQUIRE(p.goes_down(2, errc::unreachable));
                }
            }
            // Both stand in the queue when the first try begins, which is for the first of them.
            waiting first, second, third;
            first.start(p.locks.make_lock("k", fenced));
            second.start(p.locks.make_lock("k", long_lived));
            third.start(p.locks.make_lock("k", fenced));
            BOOST_REQUIRE(p.until([&] { return first.done && second.done; }));
            BOOST_TEST((first.how == error_condition::unavailable), first.how.what());
            BOOST_TEST(!second.how, second.how.what());
            BOOST_TEST(second.held.fence() == 0U);
            if (second.held) BOOST_TEST(p.releases(second.held));
            BOOST_REQUIRE(p.until([&] { return third.done; }));
            BOOST_TEST((third.how == error_condition::unavailable), third.how.what());
        }
    }
}

namespace {

// What is protected by locks: it records who has come, and rejects whoever is late.
class resource {
public:
    void given(std::string const& key, std::uint64_t fence) {
        auto& r = records_[key];
        if (!r.fences.insert(fence).second) ++twice;
        if (fence <= r.last_given) ++disorder;
        r.last_given = std::max(r.last_given, fence);
        ++grants;
    }
    bool write(std::string const& key, std::uint64_t fence) {
        auto& r = records_[key];
        auto const accepted = fence >= r.written;
        if (accepted) r.written = fence;
        if (gate_.admit(key, fence) != accepted) ++gate_differs;
        accepted ? ++writes : ++rejected;
        return accepted;
    }

    std::size_t grants = 0, twice = 0, disorder = 0, writes = 0, rejected = 0, gate_differs = 0;

private:
    struct record {
        std::set<std::uint64_t> fences;
        std::uint64_t last_given = 0, written = 0;
    };
    std::map<std::string, record> records_;
    fence_gate gate_{100};
};

void check(resource const& r) {
    BOOST_TEST(r.twice == 0U);
    BOOST_TEST(r.disorder == 0U);
    BOOST_TEST(r.gate_differs == 0U);
}

asio::awaitable<void> one_turn(client& locks, lock_options options, resource& r, int& inside) {
    auto const lock = locks.make_lock("k", options);
    auto held = co_await lock.acquire();
    BOOST_TEST(++inside == 1);
    r.given("k", held.fence());
    BOOST_TEST(r.write("k", held.fence()));
    co_await asio::post(asio::deferred); // others run now
    BOOST_TEST(r.write("k", held.fence()));
    --inside;
    BOOST_TEST(static_cast<bool>(co_await held.release()));
}

} // namespace

BOOST_AUTO_TEST_CASE(two_hundred_waiters_of_two_clients_get_growing_fences) {
    for (auto const handoff_limit : {1U, 8U, 64U}) {
        BOOST_TEST_CONTEXT("at most " << handoff_limit << " leases in a tenure") {
            fleet servers(3);
            company c(servers, 2, patient());
            resource r;
            auto inside = 0;
            for (std::size_t i = 0; i < 200; ++i) {
                lock_options const options{
                    .ttl = 60s, .fencing = true, .handoff_limit = handoff_limit};
                c.start(one_turn(*c.clients[i % 2], options, r, inside));
            }
            BOOST_TEST(c.until([&] { return c.working == 0; }, 60s));
            BOOST_TEST(r.grants == 200U);
            BOOST_TEST(r.rejected == 0U);
            check(r);
            if (handoff_limit == 1) {
                BOOST_TEST(c.clients[0]->stats().handoffs + c.clients[1]->stats().handoffs == 0U);
            } else {
                BOOST_TEST(c.clients[0]->stats().handoffs > 0U);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_late_holder_is_rejected) {
    fleet servers(3);
    party slow(servers), next(servers);
    BOOST_REQUIRE(slow.all_up());
    BOOST_REQUIRE(next.all_up());
    fence_gate gate(10);
    auto const late = slow.hold("k", {.ttl = 500ms, .watchdog = false, .fencing = true});
    BOOST_TEST(gate.admit("k", late.fence()));
    // Its process is stopped from here on.
    auto const held = next.hold("k", fenced);
    BOOST_TEST(!late.held());                  // at its first look
    BOOST_TEST(gate.admit("k", late.fence())); // the next one has not been here
    BOOST_TEST(gate.admit("k", held.fence()));
    BOOST_TEST(!gate.admit("k", late.fence()));
    BOOST_TEST(gate.admit("k", held.fence()));
}

BOOST_AUTO_TEST_CASE(processes_get_growing_fences) {
    fleet servers(3);
    server witness;
    std::vector<std::string> const arguments{
        "--fencing",       "on",           "--instances", servers.address_list(), "--witness",
        witness.address(), "--coroutines", "50",          "--sections",           "4"};
    std::deque<child> all;
    for (int i = 0; i < 4; ++i) all.emplace_back("HOLDFAST_CONTENDER", arguments);
    for (auto& one : all) BOOST_REQUIRE(one.line() == "ready");
    for (auto& one : all) one.say("go");
    for (auto& one : all) {
        auto const said = one.line(60s);
        BOOST_TEST(one.status() == 0, said);
        BOOST_TEST(said.find(" disordered=0 ") != std::string::npos, said);
        BOOST_TEST(said.find(" violations=0 ") != std::string::npos, said);
        BOOST_TEST(said.find("sections=200 ") == 0U, said);
    }
    BOOST_TEST(redis_cli(witness).get("counter").value_or("none") == "800");
    BOOST_TEST((std::stoull(redis_cli(witness).get("fence").value_or("0")) / 100) >
               number_now() - minute);
}

//
// With faults
//

namespace {

struct trouble {
    resource r;
    std::size_t failed = 0, lost = 0, rejected_while_held = 0;
    bool over = false;
};

// Takes turns, and is late now and then.
asio::awaitable<void> worker(asio::io_context& context, client& locks, std::string key,
                             unsigned seed, unsigned handoff_limit, trouble& t) {
    std::minstd_rand random(seed);
    asio::steady_timer timer(context);
    auto const quietly = asio::as_tuple(asio::deferred);
    while (!t.over) {
        auto const late = random() % 16 == 0;
        lock_options const options{
            .ttl = 300ms, .watchdog = !late, .fencing = true, .handoff_limit = handoff_limit};
        auto const lock = locks.make_lock(key, options);
        auto acquired = co_await lock.try_acquire_for(2s, asio::as_tuple);
        auto& held = std::get<1>(acquired);
        if (std::get<0>(acquired)) {
            ++t.failed;
            timer.expires_after(5ms);
            co_await timer.async_wait(quietly);
            continue;
        }
        t.r.given(key, held.fence());
        auto const write = [&] {
            auto const accepted = t.r.write(key, held.fence());
            if (!accepted && held.held()) ++t.rejected_while_held;
        };
        write();
        timer.expires_after(std::chrono::milliseconds(late ? 400 : random() % 4));
        co_await timer.async_wait(quietly);
        if (!held.held()) ++t.lost;
        write();
        if (!late) {
            co_await held.release();
            continue;
        }
        // After it has given it back, too.
        auto const fence = held.fence();
        co_await held.release();
        timer.expires_after(20ms);
        co_await timer.async_wait(quietly);
        t.r.write(key, fence);
    }
}

asio::awaitable<void> hold_until_lost(client& locks, bool& held, bool& lost) {
    auto const lock = locks.make_lock("watched", {.ttl = 1s, .fencing = true});
    for (;;) {
        auto acquired = co_await lock.acquire(asio::as_tuple);
        auto& [e, l] = acquired;
        if (e) continue;
        held = true;
        co_await l.wait_lost(asio::as_tuple);
        lost = true;
        co_return;
    }
}

void trouble_instances_in_turn(fleet& servers, client_options const& options,
                               unsigned handoff_limit, trouble& t) {
    company c(servers, 3, options);
    for (unsigned i = 0; i < 18; ++i) {
        c.start(worker(c.context, *c.clients[i % 3], i % 2 == 0 ? "even" : "odd", i + 1,
                       handoff_limit, t));
    }
    auto const go_on = [&] {
        auto const before = t.r.grants;
        BOOST_REQUIRE(c.until([&] { return t.r.grants >= before + 30; }));
    };
    auto const minority = servers.size() - servers.quorum();
    auto const each = [&](std::size_t from, auto f) {
        for (std::size_t n = 0; n < minority; ++n) f(servers[(from + n) % servers.size()]);
    };
    go_on();
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("from instance " << i) {
            each(i, [](server& one) { one.freeze(); });
            go_on();
            servers.thaw_all();
            go_on();
            BOOST_REQUIRE(c.all_up());
            each(i, [](server& one) { one.kill(); });
            go_on();
            each(i, [](server& one) { one.restart(); });
            go_on();
            BOOST_REQUIRE(c.all_up());
        }
    }
    // Nobody's lease lasts when a majority is silent.
    auto held = false, lost = false;
    c.start(hold_until_lost(*c.clients[0], held, lost));
    BOOST_REQUIRE(c.until([&] { return held; }));
    servers.freeze(servers.quorum());
    BOOST_TEST(c.until([&] { return lost; }));
    servers.thaw_all();
    go_on();
    t.over = true;
    BOOST_TEST(c.until([&] { return c.working == 0; }));
    BOOST_TEST_MESSAGE(t.r.grants << " grants, " << t.failed << " failed, " << t.lost << " lost, "
                                  << t.r.writes << " writes, " << t.r.rejected
                                  << " late ones rejected, " << t.rejected_while_held
                                  << " of them by who held the lock");
    check(t.r);
    BOOST_TEST(t.lost > 0U);
    BOOST_TEST(t.r.rejected > 0U);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_resource_sees_fences_in_order_while_instances_fail_in_turn) {
    with_fleets_of({3, 5}, that_keep_all(), [](fleet& servers) {
        trouble t;
        trouble_instances_in_turn(servers, hasty(), 8, t);
        // Instances that forget nothing, and clocks that are right: no two have the lock at once.
        BOOST_TEST(t.rejected_while_held == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_resource_sees_fences_in_order_though_instances_forget_in_turn) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto options = hasty();
        options.on_restart = restart_policy::off;
        trouble t;
        // Where the lock itself may be given twice, a tenure must not serve another lease.
        trouble_instances_in_turn(servers, options, 1, t);
    });
}

//
// Cost
//

BOOST_AUTO_TEST_CASE(an_uncontended_fenced_acquire_takes_one_round_trip) {
    on_every_kind([](fleet& servers) {
        struct tap {
            std::mutex mutex;
            std::vector<std::string> commands;
        };
        std::deque<tap> taps;
        wires ways(servers);
        for (auto& one : ways.all) {
            one.intercept([&to = taps.emplace_back()](command_line const& words) {
                // What is asked once a second comes beside them.
                if (words[0] != "TIME" && words[0] != "PING" && words[0] != "INFO") {
                    std::lock_guard const lock(to.mutex);
                    to.commands.push_back(words[0]);
                }
                return std::optional<std::string>();
            });
        }
        party p(ways.addresses());
        BOOST_REQUIRE(p.all_up());
        // What each was sent since the last look.
        auto const check_sent = [&](std::vector<std::string> const& expected) {
            for (auto& one : taps) {
                BOOST_TEST(p.until([&] {
                    std::lock_guard const lock(one.mutex);
                    return one.commands.size() >= expected.size();
                }));
                std::lock_guard const lock(one.mutex);
                BOOST_TEST(one.commands == expected, boost::test_tools::per_element());
                one.commands.clear();
            }
        };
        for (auto& one : taps) {
            std::lock_guard const lock(one.mutex);
            one.commands.clear();
        }
        for (int i = 0; i < 10; ++i) {
            for (std::string const key : {"k", "a{b}", "other"}) {
                auto l = p.hold(key, fenced);
                BOOST_TEST(l.fence() > 0U);
                BOOST_TEST(p.sees(servers, key, true));
                check_sent({"EVALSHA"});
                BOOST_TEST(p.releases(l));
                BOOST_TEST(p.sees(servers, key, false));
                for (auto& one : taps) {
                    std::lock_guard const lock(one.mutex);
                    BOOST_TEST(one.commands.size() == 1U);
                    one.commands.clear();
                }
            }
        }
        BOOST_TEST(p.locks.stats().raises == 0U);
        BOOST_TEST(p.locks.stats().rounds == 30U);
    });
}

// An instance that had lost the key is healed, and answers a raise that was sent before that.
BOOST_AUTO_TEST_CASE(a_release_leaves_no_key_where_the_lease_was_healed) {
    fleet servers(3);
    wires ways(servers);
    auto options = patient();
    options.max_ttl = 8s;
    options.fence_ttl = 8s; // counters are written again after a quarter of it
    party p(ways.addresses(), options);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 8s, .watchdog = false, .fencing = true});
    BOOST_REQUIRE(p.sees(servers, "k", true));
    p.pass(lease_clock::now() + 2100ms);
    redis_cli last(servers[2]);
    last.del("k");
    ways[2].hold_replies();
    BOOST_TEST(!p.extend(l));
    BOOST_REQUIRE(p.until([&] { return ways[2].replies_held() >= 2; }));
    ways[2].resume();
    BOOST_REQUIRE(p.until([&] { return last.exists("k"); }));
    BOOST_TEST(p.releases(l));
    // Long before its ttl is over.
    BOOST_TEST(run_until(
        p.context, [&] { return !last.exists("k"); }, 4s));
}

BOOST_AUTO_TEST_SUITE_END()
