// Fences while instances fail, forget their counters, or go silent during an acquire.
#include "integration/fences.hpp"
#include "integration/proxy_group.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Three instances. The first grants at once. The second has a greater count, so its reply, which is
// held, leads to a raise of the first. The third is down.
struct divided {
    fleet servers;
    proxy_group proxies{servers};
    test_client client;
    attempt w;

    explicit divided(server_options const& each = {})
        : servers(3, each)
        , client(proxies.addresses(), options()) {
        BOOST_REQUIRE(client.all_up());
        proxies[2].down();
        BOOST_REQUIRE(client.becomes(2, instance_state::down));
        set_counter(servers[1], counter, std::to_string(number_now() + minute / 2));
    }
    static client_options options() {
        client_options all{
            .instance_timeout = 4s, .connect_timeout = 4s, .max_reconnect_delay = 50ms};
        all.detect_clock_jumps = false;
        all.on_restart = restart_policy::off; // no questions in between
        return all;
    }
    // Returns when the first instance has granted, and no other reply has arrived.
    void begin(bool try_only = false) {
        auto const before = proxies[0].replies_forwarded();
        proxies[1].hold_replies();
        auto const lock = client.locks.make_lock("k", impatient(fenced));
        if (try_only) {
            w.start_try(lock);
        } else {
            w.start(lock);
        }
        BOOST_REQUIRE(client.until([&] { return proxies[0].replies_forwarded() > before; }));
        BOOST_REQUIRE(client.until([&] { return proxies[1].replies_held() > 0; }));
        BOOST_TEST(!w.done);
        BOOST_TEST(client.locks.stats().raises == 0U);
    }
    bool leaves_no_key() {
        return client.until([&] {
            return !redis_cli(servers[0]).exists("k") && !redis_cli(servers[1]).exists("k");
        });
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(fence_faults)

//
// Minorities that fail
//

BOOST_AUTO_TEST_CASE(fences_grow_while_a_minority_is_frozen_or_down) {
    with_fleets_of({3, 5}, {.arguments = fsync_always}, [](fleet& servers) {
        auto const size = servers.size();
        test_client client(servers, unhurried());
        BOOST_REQUIRE(client.all_up());
        auto last = take_turn(client, servers);
        auto const turns = [&] {
            for (int i = 0; i < 3; ++i) {
                auto const fence = take_turn(client, servers);
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
                BOOST_REQUIRE(client.all_up());
                each([&](std::size_t n) { servers[n].stop(); });
                turns();
                each([&](std::size_t n) { servers[n].restart(); });
                turns();
                BOOST_REQUIRE(client.all_up());
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(fences_grow_though_a_minority_forgets_its_counters) {
    fleet servers(3);
    auto options = unhurried();
    options.on_restart = restart_policy::off;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    auto last = take_turn(client, servers);
    for (int i = 0; i < 6; ++i) {
        auto& instance = servers[static_cast<std::size_t>(i) % 3];
        auto const connections = client.status(static_cast<std::size_t>(i) % 3).connections;
        instance.kill();
        instance.restart();
        BOOST_TEST(redis_cli(instance).dbsize() == 0);
        BOOST_REQUIRE(client.until([&] {
            return client.status(static_cast<std::size_t>(i) % 3).connections > connections;
        }));
        // The other instance is frozen, so the acquire needs the one that has forgotten.
        auto& other = servers[static_cast<std::size_t>(i + 1) % 3];
        other.freeze();
        auto const fence = take_turn(client, servers);
        BOOST_TEST(fence > last);
        BOOST_TEST(count_at(instance) == fence / 100);
        last = fence;
        other.thaw();
        BOOST_REQUIRE(client.all_up());
        BOOST_TEST(client.sees(servers, "k", false));
    }
}

//
// Between a grant and its raise
//

BOOST_AUTO_TEST_CASE(an_instance_is_raised_before_the_lease_is_given) {
    divided d;
    d.begin();
    auto const before = d.proxies[0].replies_forwarded();
    d.proxies[0].hold_requests();
    d.proxies[1].resume();
    BOOST_REQUIRE(d.client.until([&] { return d.proxies[0].commands_held() > 0; }));
    BOOST_TEST(d.client.locks.stats().raises == 1U);
    BOOST_TEST(!d.w.done);
    BOOST_TEST(count_at(d.servers[0]) < count_at(d.servers[1]));
    BOOST_TEST(d.proxies[0].replies_forwarded() == before);
    d.proxies[0].resume();
    auto l = wait_for_lease(d.client, d.w);
    BOOST_TEST(tenure_of(l) == count_at(d.servers[1]));
    BOOST_TEST(tenure_of(l) == count_at(d.servers[0]));
    BOOST_TEST(d.client.releases(l));
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
            d.proxies[1].resume();
            auto l = wait_for_lease(d.client, d.w);
            BOOST_TEST(d.client.locks.stats().raises == 1U);
            BOOST_TEST(d.client.locks.stats().rounds == 1U);
            BOOST_TEST(tenure_of(l) == count_at(d.servers[0]));
            BOOST_TEST(tenure_of(l) == count_at(d.servers[1]));
            BOOST_TEST(d.client.releases(l));
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_gave_the_key_to_another_meanwhile_is_not_raised) {
    divided d;
    d.begin(true);
    redis_cli(d.servers[0]).set("k", "somebody", 60s);
    auto const before = count_at(d.servers[0]);
    d.proxies[1].resume();
    BOOST_REQUIRE(d.client.until([&] { return d.w.done; }));
    BOOST_TEST((d.w.how == errc::contended), d.w.how.what());
    BOOST_TEST(d.client.locks.stats().raises == 1U);
    BOOST_TEST(count_at(d.servers[0]) == before);
    BOOST_TEST(redis_cli(d.servers[0]).get("k").value_or("gone") == "somebody");
    BOOST_TEST(d.client.until([&] { return !redis_cli(d.servers[1]).exists("k"); }));
}

BOOST_AUTO_TEST_CASE(an_acquire_tries_again_when_a_grant_is_gone_before_it_was_raised) {
    divided d;
    d.begin();
    redis_cli(d.servers[0]).del("k");
    d.proxies[1].resume();
    auto l = wait_for_lease(d.client, d.w);
    BOOST_TEST(d.client.locks.stats().rounds == 2U);
    BOOST_TEST(how_many_count_to(d.servers, tenure_of(l)) == 2U);
    BOOST_TEST(d.client.releases(l));
    BOOST_TEST(d.leaves_no_key());
}

BOOST_AUTO_TEST_CASE(an_instance_that_falls_silent_before_it_was_raised_is_told_of_in_time) {
    divided d;
    d.begin();
    d.proxies[0].hold_requests();
    d.proxies[1].resume();
    BOOST_REQUIRE(d.client.until([&] { return d.w.done; }));
    BOOST_TEST((d.w.how == error_condition::unavailable), d.w.how.what());
    d.proxies[0].resume();
    BOOST_TEST(d.leaves_no_key());
}

BOOST_AUTO_TEST_CASE(an_instance_that_goes_down_before_it_was_raised_is_told_of_in_time) {
    for (auto const sent : {true, false}) {
        BOOST_TEST_CONTEXT((sent ? "with the raise under way" : "before it could be sent")) {
            divided d;
            d.begin();
            if (sent) {
                d.proxies[0].hold_requests();
                d.proxies[1].resume();
                BOOST_REQUIRE(d.client.until([&] { return d.proxies[0].commands_held() > 0; }));
                d.proxies[0].down();
            } else {
                d.proxies[0].down();
                BOOST_REQUIRE(d.client.until(
                    [&] { return d.client.status(0).state == instance_state::down; }));
                d.proxies[1].resume();
            }
            BOOST_TEST(d.client.until([&] { return d.w.done; }));
            BOOST_TEST((d.w.how == error_condition::unavailable), d.w.how.what());
            d.proxies[0].resume();
            d.proxies[0].up();
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_counter_that_turns_bad_before_it_was_raised_leaves_no_key_behind) {
    for (auto const list : {false, true}) {
        BOOST_TEST_CONTEXT((list ? "a list" : "1.5")) {
            divided d;
            d.begin(true);
            redis_cli cli(d.servers[0]);
            cli.del(counter);
            if (list) {
                cli.command({"RPUSH", counter, "1"});
            } else {
                set_counter(cli, counter, "1.5");
            }
            d.proxies[1].resume();
            BOOST_REQUIRE(d.client.until([&] { return d.w.done; }));
            // A score is lifted, whatever it was.
            BOOST_TEST(static_cast<bool>(d.w.how) == list, d.w.how.what());
            if (d.w.held) BOOST_TEST(d.client.releases(d.w.held));
            BOOST_TEST(d.leaves_no_key());
        }
    }
}

//
// Keys that must not stay behind
//

BOOST_AUTO_TEST_CASE(a_cancelled_acquire_leaves_no_key_where_its_script_was_forgotten) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), without_native_counts());
    BOOST_REQUIRE(client.all_up());
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        forget_scripts(servers);
        proxies.hold_replies();
        attempt w;
        w.start(client.locks.make_lock("k", fenced));
        BOOST_REQUIRE(client.until([&] { return proxies.each_holds_a_reply(); }));
        w.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return w.done; }));
        BOOST_TEST((w.how == errc::cancelled), w.how.what());
        proxies.resume();
        // After this lease, all earlier commands were carried out.
        auto behind = client.hold("behind");
        BOOST_TEST(client.sees(servers, "behind", true));
        BOOST_TEST(client.releases(behind));
        BOOST_TEST(client.sees(servers, "behind", false));
        for (server& instance : servers) {
            BOOST_TEST(!redis_cli(instance).exists("k"));
            BOOST_TEST(!redis_cli(instance).exists(counter));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_that_is_cancelled_at_any_step_leaves_no_key) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    constexpr std::array types{asio::cancellation_type::total, asio::cancellation_type::partial,
                               asio::cancellation_type::terminal};
    for (auto const at_arbiter : {false, true}) {
        for (auto const differ : {false, true}) {
            auto ended = 0;
            for (int steps = 0; steps < 30; ++steps) {
                auto ahead = number_now() + minute / 2;
                for (server& instance : servers) {
                    redis_cli cli(instance);
                    if (differ) set_counter(cli, counter, std::to_string(ahead += 100));
                }
                attempt w;
                foreign_client holder(servers);
                if (at_arbiter) holder.hold("k");
                w.start(client.locks.make_lock("k", fenced));
                if (at_arbiter) {
                    BOOST_REQUIRE(waits_for_push(client, servers));
                    holder.del_by_script("k");
                }
                forget_scripts(servers);
                for (int i = 0; i < steps; ++i) client.context.run_one_for(1ms);
                w.signal.emit(types[static_cast<std::size_t>(steps) % types.size()]);
                BOOST_REQUIRE(client.until([&] { return w.done; }));
                BOOST_TEST((!w.how || w.how == errc::cancelled), w.how.what());
                if (w.held) {
                    ++ended;
                    BOOST_TEST(w.held.fence() > 0U);
                    BOOST_TEST(client.releases(w.held));
                }
                BOOST_TEST(client.sees(servers, "k", false));
            }
            BOOST_TEST_MESSAGE(ended << " of 30 had the lease before they were cancelled");
            BOOST_TEST(ended < 30);
        }
    }
}

// The instance lost the key, and was sent a raise and then a heal.
BOOST_AUTO_TEST_CASE(a_release_leaves_no_key_where_the_lease_was_healed) {
    fleet servers(3);
    proxy_group proxies(servers);
    auto options = patient();
    options.max_ttl = 8s;
    options.fence_ttl = 8s; // counters are written again after a quarter of this time
    test_client client(proxies.addresses(), options);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 8s, .watchdog = false, .fencing = true});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    client.pass(lease_clock::now() + 2100ms);
    redis_cli last(servers[2]);
    last.del("k");
    proxies[2].hold_replies();
    BOOST_TEST(!client.extend(l));
    BOOST_REQUIRE(client.until([&] { return proxies[2].replies_held() >= 2; }));
    proxies[2].resume();
    BOOST_REQUIRE(client.until([&] { return last.exists("k"); }));
    BOOST_TEST(client.releases(l));
    // 4 s is long before the ttl ends.
    BOOST_TEST(run_until(
        client.context, [&] { return !last.exists("k"); }, 4s));
}

BOOST_AUTO_TEST_SUITE_END()
