// Each lease on a key gets a greater fence than all earlier ones, on every kind of server. An
// undisturbed acquire takes one round trip.
#include "integration/fences.hpp"
#include "integration/proxy_group.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

void check_denied(fleet const& servers, std::vector<std::string> const& rules) {
    test_client client(as_user(servers, rules));
    BOOST_REQUIRE(client.all_up());
    auto const [e, none] = client.acquire("k", fenced);
    BOOST_TEST((e == errc::access_denied), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    std::size_t denied = 0;
    for (auto const& instance : e.report()->instances) {
        if (instance.outcome != instance_outcome::rejected) continue;
        ++denied;
        BOOST_TEST(instance.message.find("NOPERM") != std::string::npos, instance.message);
    }
    BOOST_TEST(denied > servers.size() - servers.quorum());
    BOOST_TEST(client.sees(servers, "k", false));
    BOOST_TEST(client.sees(servers, counter, false));
    auto plain = client.hold("k");
    plain = {};
    BOOST_TEST(client.until([&] { return client.locks.stats().held == 0; }));
}

} // namespace

BOOST_AUTO_TEST_SUITE(fences)

//
// On every kind of server
//

BOOST_AUTO_TEST_CASE(fences_grow_with_every_lease_across_clients) {
    on_every_kind([](fleet& servers) {
        test_client client(servers), other(servers);
        client.runs_with(other);
        BOOST_REQUIRE(client.all_up());
        BOOST_REQUIRE(other.all_up());
        std::uint64_t last = 0;
        for (int i = 0; i < 20; ++i) {
            auto const fence = take_turn(i % 2 == 0 ? client : other, servers);
            BOOST_TEST(fence > last);
            last = fence;
        }
        BOOST_TEST((last >> 63) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_number_is_the_time_of_its_tenure) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        for (int i = 0; i < 3; ++i) {
            auto const before = number_now();
            auto l = client.hold("k", fenced);
            BOOST_TEST(tenure_of(l) + minute > before);
            BOOST_TEST(tenure_of(l) < number_now() + minute);
            BOOST_TEST(handovers_of(l) == 0U);
            BOOST_TEST(client.releases(l));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_lease_without_fencing_has_none_and_leaves_no_counter) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k");
        BOOST_TEST(l.fence() == 0U);
        BOOST_TEST(client.sees(servers, "k", true));
        BOOST_TEST(client.sees(servers, counter, false));
        BOOST_TEST(client.releases(l));
        BOOST_TEST(lease().fence() == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_fence_stays_the_same_for_as_long_as_the_lease) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k", {.ttl = renewed_ttl, .fencing = true});
        auto const fence = l.fence();
        BOOST_TEST(client.renews(2));
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(l.fence() == fence);
        auto const moved = std::move(l);
        BOOST_TEST(moved.fence() == fence);
    });
}

BOOST_AUTO_TEST_CASE(the_counter_stands_beside_the_key_in_its_slot) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
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
                auto l = client.hold(key, fenced);
                BOOST_TEST(l.fence() > 0U);
                BOOST_TEST(client.sees(servers, key, true));
                BOOST_TEST(client.sees(servers, name, true));
                for (server& instance : servers) {
                    redis_cli cli(instance);
                    BOOST_TEST(client.until(
                        [&] { return counter_at(cli, name) == std::to_string(tenure_of(l)); }));
                    BOOST_TEST((cli.pttl(name) > 24h - 1min));
                    BOOST_TEST((cli.pttl(name) <= 24h));
                }
                BOOST_TEST(client.releases(l));
                BOOST_TEST(client.sees(servers, key, false));
            }
            expected.insert(name);
        }
        // The servers have no other keys.
        for (server& instance : servers) {
            auto const all = redis_cli(instance).keys();
            BOOST_TEST(std::set<std::string>(all.begin(), all.end()) == expected,
                       boost::test_tools::per_element());
        }
    });
}

BOOST_AUTO_TEST_CASE(counters_that_differ_are_raised) {
    on_every_kind([](fleet& servers) {
        test_client client(servers, without_native_counts());
        BOOST_REQUIRE(client.all_up());
        auto fence = take_turn(client, servers);
        BOOST_REQUIRE(all_count_to(client, servers, fence / 100));
        for (int i = 0; i < 5; ++i) {
            // The counters differ and are ahead of the clock, so no quorum agrees.
            auto ahead = std::max(number_now() + minute / 2, fence / 100);
            for (server& instance : servers)
                set_counter(instance, counter, std::to_string(ahead += 100));
            auto const before = client.locks.stats().raises;
            auto const next = take_turn(client, servers);
            BOOST_TEST(next > fence);
            BOOST_TEST(client.locks.stats().raises > before);
            fence = next;
        }
    });
}

// The first ttl with a fraction of a second on a connection is compared with what is left of it.
BOOST_AUTO_TEST_CASE(a_count_in_a_second_round_trip_is_no_sign_that_keys_expire_early) {
    on_every_kind([](fleet& servers) {
        proxy_group proxies(servers);
        test_client client(proxies.addresses());
        BOOST_REQUIRE(client.all_up());
        set_counters(servers, std::to_string(number_now() + minute / 2));
        proxies.hold_replies();
        attempt w;
        constexpr auto ttl = 59'999ms;
        w.start(client.locks.make_lock("k", {.ttl = ttl, .fencing = true}));
        BOOST_REQUIRE(client.until([&] { return proxies.each_holds_a_reply(); }));
        for (server& instance : servers) {
            redis_cli cli(instance);
            BOOST_REQUIRE(client.until([&] { return cli.pttl("k") < ttl - 50ms; }));
        }
        proxies.resume();
        auto l = wait_for_lease(client, w);
        BOOST_TEST(l.fence() > 0U);
        for (unsigned i = 0; i < servers.size(); ++i)
            BOOST_TEST(client.status(i).connections == 1U);
        BOOST_TEST(client.releases(l));
    });
}

BOOST_AUTO_TEST_CASE(forgotten_scripts_are_sent_again) {
    on_every_kind([](fleet& servers) {
        test_client client(servers, without_native_counts());
        BOOST_REQUIRE(client.all_up());
        std::uint64_t last = 0;
        auto const check = [&](lease& l) {
            BOOST_TEST(l.fence() > last);
            BOOST_TEST(how_many_count_to(servers, tenure_of(l)) >= servers.quorum());
            last = l.fence();
            BOOST_TEST(client.releases(l));
            BOOST_TEST(client.sees(servers, "k", false));
        };
        // The script of an acquire is forgotten.
        forget_scripts(servers);
        auto first = client.hold("k", fenced);
        check(first);

        // The counters differ, so the script of the raise is needed too.
        auto ahead = number_now() + minute / 2;
        for (server& instance : servers)
            set_counter(instance, counter, std::to_string(ahead += 100));
        forget_scripts(servers);
        auto raised = client.hold("k", fenced);
        check(raised);

        // The scripts are forgotten while a client waits at the arbiter.
        foreign_client holder(servers);
        holder.hold("k");
        attempt w;
        w.start(client.locks.make_lock("k", fenced));
        BOOST_REQUIRE(waits_for_push(client, servers));
        forget_scripts(servers);
        holder.del_by_script("k");
        auto waited = wait_for_lease(client, w);
        check(waited);
        // No new connection has loaded the scripts.
        for (auto const& instance : client.locks.instances())
            BOOST_TEST(instance.connections == 1U);

        // The scripts of an extension and a heal are forgotten. Before that, a client that connects
        // has loaded the scripts.
        test_client another(servers);
        BOOST_REQUIRE(another.all_up());
        auto l = client.hold("k", fenced);
        BOOST_TEST(client.sees(servers, "k", true));
        redis_cli cli(servers[0]);
        auto const token = cli.get("k").value();
        cli.del("k");
        cli.del(counter);
        forget_scripts(servers);
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.until([&] { return cli.exists("k"); }));
        BOOST_TEST(cli.get("k").value_or("gone") == token);
        BOOST_TEST(client.until([&] { return count_at(servers[0]) >= tenure_of(l); }));
        check(l);
    });
}

BOOST_AUTO_TEST_CASE(a_counter_that_holds_no_number_is_an_error) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const check_refused = [&] {
            auto const [e, none] = client.acquire("k", fenced);
            BOOST_TEST((e == errc::invalid_fence), e.what());
            BOOST_TEST(!none.held());
            BOOST_REQUIRE(e.report() != nullptr);
            // The round ends when too many instances have refused. The other answers may be
            // missing.
            std::size_t refused = 0;
            for (auto const& instance : e.report()->instances) {
                if (instance.outcome != instance_outcome::rejected) continue;
                ++refused;
                BOOST_TEST(instance.message.find("FENCE") == 0U, instance.message);
                BOOST_TEST(instance.message.find(counter) != std::string::npos, instance.message);
                BOOST_TEST(e.what().find(instance.address + " rejected") != std::string::npos,
                           e.what());
                BOOST_TEST(e.what().find(instance.message) != std::string::npos, e.what());
            }
            BOOST_TEST(refused > servers.size() - servers.quorum());
            BOOST_TEST(client.sees(servers, "k", false));
            // A lock without a fence still works.
            auto plain = client.hold("k");
            BOOST_TEST(plain.fence() == 0U);
            BOOST_TEST(client.sees(servers, "k", true));
            BOOST_TEST(client.releases(plain));
            BOOST_TEST(client.sees(servers, "k", false));
        };
        for (std::string const value :
             {"garbage", "", "90071992547408", "9007199254740992", "inf", "nan"}) {
            BOOST_TEST_CONTEXT("\"" << value << '"') {
                set_counters(servers, value);
                check_refused();
                for (server& instance : servers) {
                    redis_cli cli(instance);
                    auto const is = cli.command({"TYPE", counter}).string();
                    auto const left = is == "zset" ? counter_at(cli, counter) : cli.get(counter);
                    BOOST_TEST(left.value_or("gone") == value);
                }
            }
        }
        // A score that no tenure has is lifted, whatever it was.
        for (std::string const value : {"-5", "1.5"}) {
            set_counters(servers, value);
            auto l = client.hold("k", fenced);
            BOOST_TEST(client.releases(l));
            BOOST_TEST(client.sees(servers, "k", false));
        }
        BOOST_TEST_CONTEXT("a list") {
            for (server& instance : servers) {
                redis_cli cli(instance);
                cli.del(counter);
                cli.command({"RPUSH", counter, "1"});
            }
            check_refused();
            for (server& instance : servers) {
                redis_cli cli(instance);
                BOOST_TEST(cli.command({"LLEN", counter}).integer() == 1);
                cli.del(counter);
            }
        }
        BOOST_TEST_CONTEXT("the others are all right") {
            for (std::size_t i = 0; i < servers.quorum(); ++i)
                set_counter(servers[i], counter, "garbage");
            check_refused();
        }
    });
}

BOOST_AUTO_TEST_CASE(a_minority_with_a_bad_counter_costs_nothing) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        redis_cli bad(servers[0]);
        std::uint64_t last = 0;
        for (auto const list : {false, true}) {
            for (int i = 0; i < 5; ++i) {
                bad.del(counter);
                if (list) {
                    bad.command({"RPUSH", counter, "1"});
                } else {
                    set_counter(bad, counter, "garbage");
                }
                auto l = client.hold("k", fenced);
                BOOST_TEST(l.fence() > last);
                last = l.fence();
                BOOST_TEST(!client.extend(l));
                BOOST_TEST(client.releases(l));
                BOOST_TEST(client.sees(servers, "k", false));
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(fenced_and_plain_locks_on_a_key_exclude_each_other) {
    on_every_kind([](fleet& servers) {
        test_client client(servers), other(servers);
        client.runs_with(other);
        BOOST_REQUIRE(client.all_up());
        BOOST_REQUIRE(other.all_up());
        for (auto const first : {true, false}) {
            auto l = client.hold("k", first ? fenced : long_lived);
            BOOST_TEST((l.fence() > 0U) == first);
            auto const [e, none] = other.try_acquire("k", first ? long_lived : fenced);
            BOOST_TEST((e == errc::contended), e.what());
            auto const [same, nothing] = other.try_acquire("k", first ? fenced : long_lived);
            BOOST_TEST((same == errc::contended), same.what());
            attempt w;
            w.start(other.locks.make_lock("k", first ? long_lived : fenced));
            BOOST_REQUIRE(waits(other));
            BOOST_TEST(client.releases(l));
            auto next = wait_for_lease(other, w);
            BOOST_TEST((next.fence() > 0U) != first);
            BOOST_TEST(other.releases(next));
            BOOST_TEST(other.sees(servers, "k", false));
        }
    });
}

//
// Growth
//

BOOST_AUTO_TEST_CASE(fences_grow_after_expiry_and_after_a_loss) {
    fleet servers(3);
    test_client client(servers), other(servers);
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(other.all_up());
    auto expired = client.hold("k", {.ttl = 500ms, .watchdog = false, .fencing = true});
    auto waited = other.hold("k", fenced); // waits until the first lease has expired
    BOOST_TEST(waited.fence() > expired.fence());
    client.runs_with(other);
    BOOST_TEST(client.until([&] { return !expired.held(); }));
    // The lost lease keeps its fence, which the resource can reject.
    BOOST_TEST(expired.fence() > 0U);

    for (server& each : servers) redis_cli(each).del("k");
    auto third = client.hold("k", fenced);
    BOOST_TEST(third.fence() > waited.fence());
    BOOST_TEST((other.extend(waited) == errc::lease_lost));
    BOOST_TEST(client.releases(third));
    BOOST_TEST(other.sees(servers, "k", false));
    BOOST_TEST(take_turn(other, servers) > third.fence());
}

BOOST_AUTO_TEST_CASE(a_destroyed_lease_makes_room_for_a_greater_fence) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i) {
        auto const l = client.hold("k", fenced);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
    }
}

BOOST_AUTO_TEST_CASE(fences_grow_across_clients_that_come_and_go) {
    fleet servers(3);
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const fence = take_turn(client, servers);
        BOOST_TEST(fence > last);
        last = fence;
        // The last instance may have received the acquire only now. The next turn must not meet it.
        BOOST_REQUIRE(all_count_to(client, servers, fence / 100));
        BOOST_REQUIRE(client.sees(servers, "k", false));
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_numbers_its_leases) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const lock = client.locks.make_lock(
        "k", {.ttl = 60s, .fencing = true, .handover_limit = 5, .handover_time = 60s});
    constexpr std::size_t everybody = 12;
    std::vector<attempt> all(everybody);
    std::vector<std::uint64_t> fences;
    auto begun = lease_clock::now(); // no later than the try
    lease_clock::duration took{};
    for (auto& waiter : all) waiter.start(lock);
    for (auto& waiter : all) {
        auto l = wait_for_lease(client, waiter);
        fences.push_back(l.fence());
        if (fences.size() % 5 == 1) took = lease_clock::now() - begun;
        // The limit does not end a tenure that is younger than its try took.
        if (fences.size() % 5 == 0) client.pass(lease_clock::now() + took);
        begun = lease_clock::now();
        BOOST_TEST(client.releases(l));
    }
    BOOST_TEST(std::is_sorted(fences.begin(), fences.end(), std::less_equal<>()));
    for (std::size_t i = 0; i < everybody; ++i) {
        BOOST_TEST((fences[i] % 100) == i % 5);
        BOOST_TEST((fences[i] / 100) == (fences[i - i % 5] / 100));
        if (i >= 5 && i % 5 == 0) BOOST_TEST((fences[i] / 100) > (fences[i - 1] / 100));
    }
    BOOST_TEST(client.locks.stats().handovers == 9U);
    BOOST_TEST(client.locks.stats().rounds == 3U);
}

BOOST_AUTO_TEST_CASE(the_longest_tenure_ends_before_its_leases_run_out_of_numbers) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const lock = client.locks.make_lock(
        "k",
        {.ttl = 60s, .fencing = true, .handover_limit = max_handover_limit, .handover_time = 60s});
    constexpr std::size_t leases = max_handover_limit + 10U;
    std::vector<std::uint64_t> fences;
    // An acquire always waits.
    std::function<void(error, lease)> const next = [&](error e, lease l) {
        BOOST_REQUIRE_MESSAGE(!e, e.what());
        fences.push_back(l.fence());
        if (fences.size() < leases) lock.acquire(next);
        // The lease is destroyed here, and so handed over to the waiter.
    };
    lock.acquire(next);
    lock.acquire(next);
    BOOST_REQUIRE(run_until(
        client.context, [&] { return fences.size() >= leases; }, 60s));
    std::size_t wrong = 0;
    for (std::size_t i = 1; i < leases; ++i) wrong += fences[i] <= fences[i - 1];
    for (std::size_t i = 0; i < max_handover_limit; ++i) {
        wrong += fences[i] / 100 != fences[0] / 100 || (fences[i] % 100) != i;
    }
    BOOST_TEST(wrong == 0U);
    BOOST_TEST((fences[max_handover_limit] / 100) > (fences[0] / 100));
    BOOST_TEST((fences[max_handover_limit] % 100) == 0U);
    BOOST_TEST(client.locks.stats().rounds == 2U);
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
        proxy_group proxies(servers);
        for (auto& proxy : proxies.all) {
            proxy.intercept([&to = taps.emplace_back()](command_line const& words) {
                // Ignores the periodic questions of the client.
                if (words[0] != "TIME" && words[0] != "PING" && words[0] != "INFO") {
                    std::lock_guard const lock(to.mutex);
                    to.commands.push_back(words[0]);
                }
                return std::optional<std::string>();
            });
        }
        test_client client(proxies.addresses());
        BOOST_REQUIRE(client.all_up());
        // Checks the commands that each server has received since the last call.
        auto const check_sent = [&](std::vector<std::string> const& expected) {
            for (auto& tap : taps) {
                BOOST_TEST(client.until([&] {
                    std::lock_guard const lock(tap.mutex);
                    return tap.commands.size() >= expected.size();
                }));
                std::lock_guard const lock(tap.mutex);
                BOOST_TEST(tap.commands == expected, boost::test_tools::per_element());
                tap.commands.clear();
            }
        };
        for (auto& tap : taps) {
            std::lock_guard const lock(tap.mutex);
            tap.commands.clear();
        }
        for (int i = 0; i < 10; ++i) {
            for (std::string const key : {"k", "a{b}", "other"}) {
                auto l = client.hold(key, fenced);
                BOOST_TEST(l.fence() > 0U);
                BOOST_TEST(client.sees(servers, key, true));
                check_sent(i == 0 ? std::vector<std::string>{"SET", "ZADD", "PEXPIRE"}
                                  : std::vector<std::string>{"SET", "ZADD"});
                BOOST_TEST(client.releases(l));
                BOOST_TEST(client.sees(servers, key, false));
                for (auto& tap : taps) {
                    std::lock_guard const lock(tap.mutex);
                    BOOST_TEST(tap.commands.size() == 1U);
                    tap.commands.clear();
                }
            }
        }
        BOOST_TEST(client.locks.stats().raises == 0U);
        BOOST_TEST(client.locks.stats().rounds == 30U);
    });
}

//
// Rights
//

BOOST_AUTO_TEST_CASE(a_user_who_may_not_use_the_counter_is_access_denied) {
    on_every_kind([](fleet& servers) { check_denied(servers, {"~k"}); });
}

BOOST_AUTO_TEST_CASE(a_user_who_may_not_run_scripts_is_access_denied) {
    on_every_kind([](fleet& servers) {
        std::vector<std::string> const rules{"~*", "-evalsha", "-eval"};
        if (!native_delete(servers[0].kind()).empty()) {
            // Native commands count and release. Only the lease cannot be extended.
            test_client client(as_user(servers, rules));
            BOOST_REQUIRE(client.all_up());
            auto l = client.hold("k", fenced);
            BOOST_TEST(l.fence() > 0U);
            BOOST_TEST((client.extend(l) == errc::access_denied));
            BOOST_TEST(client.releases(l));
            return;
        }
        // No other command releases a lock, so none is given.
        test_client client(as_user(servers, rules));
        auto const [e, none] = client.acquire("k", fenced);
        BOOST_TEST((e == errc::access_denied), e.what());
        BOOST_TEST(contains(e.what(), "no way to release locks"), e.what());
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_CASE(a_user_who_may_not_ask_for_the_time_leaves_no_key_behind) {
    on_every_kind([](fleet& servers) {
        test_client client(as_user(servers, {"~*", "-time"}));
        BOOST_REQUIRE(client.all_up());
        auto [e, l] = client.try_acquire("k", fenced);
        BOOST_TEST_MESSAGE(e.what());
        if (!e) {
            BOOST_TEST(l.fence() > 0U);
            BOOST_TEST(client.releases(l));
        } else {
            BOOST_TEST((e == errc::access_denied), e.what());
        }
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_SUITE_END()
