// A waiter gets the key as soon as a majority of the instances is free: deleted, flushed or
// expired, by clients of any make, over connections that break, and where the servers report no
// changes.
#include "integration/attempt.hpp"
#include "integration/child.hpp"
#include "integration/client_group.hpp"
#include "integration/crowd.hpp"
#include "integration/foreign_client.hpp"
#include "integration/proxy_group.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// The error of a server's clock, which it reads once a turn, and of the rounding of PTTL.
constexpr auto clock_slack = 20ms;

// The checks of all instances begin later than this.
constexpr auto before_any_look = 5s;

// A client that waits for a key of a foreign client.
struct waiting_client {
    explicit waiting_client(fleet& all, client_options const& options = patient())
        : servers(all)
        , foreign(all)
        , client(all, options) {
        foreign.hold("k");
        w.start(client.locks.make_lock("k", long_lived));
    }

    // Waits until the servers report the key's changes to the client.
    void listens() {
        BOOST_REQUIRE(waits_for_push(client, servers));
        BOOST_TEST(!w.done);
    }
    // The same, from enough servers to watch the key beside its arbiter.
    void listens_widely() {
        BOOST_REQUIRE(client.all_up());
        BOOST_REQUIRE(waits(client));
        BOOST_REQUIRE(client.until([&] { return tracked_keys(servers) >= 3; }));
        BOOST_TEST(!w.done);
    }
    // Waits until the client has the lock, and for less than until it looks by itself.
    void is_woken() {
        BOOST_TEST(run_until(
            client.context, [&] { return w.done; }, before_any_look));
        BOOST_TEST(w.won(), w.how.what());
    }
    // Ends with nothing left, though instances may have kept the foreign key.
    void ends() {
        if (w.held) BOOST_TEST(client.releases(w.held));
        foreign.flush();
        w.held = {};
        check_nothing_left(client, servers);
    }
    void gets_the_key() {
        check_gets(client, w);
        check_nothing_left(client, servers);
    }
    void loses_its_key(std::size_t i) { BOOST_TEST(foreign.clis[i % servers.size()].del("k")); }

    fleet& servers;
    foreign_client foreign;
    test_client client;
    attempt w;
};

// A client waits for a key that a foreign client holds on five instances, for long enough to watch
// it beside its arbiter. Then a majority becomes free, and two instances keep the key: each of the
// five is one of those in one of the rounds.
template <class Free>
void check_noticed_without(Free free, bool expires = false) {
    fleet servers(5);
    for (std::size_t kept = 0; kept < servers.size(); ++kept) {
        BOOST_TEST_CONTEXT("kept by instance " << kept << " and the next") {
            waiting_client it(servers, trusting(patient()));
            it.listens_widely();
            for (std::size_t n = 2; n < servers.size(); ++n) {
                free(it.foreign.clis[(kept + n) % servers.size()], n);
                // One after the other: the first free instance does not decide.
                if (!expires) it.client.pass(lease_clock::now() + 20ms);
            }
            auto const freed = lease_clock::now();
            it.is_woken();
            BOOST_TEST_MESSAGE(
                "noticed after "
                << std::chrono::duration_cast<std::chrono::milliseconds>(it.w.when - freed).count()
                << " ms");
            it.ends();
        }
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(wakeups)

//
// Deleted and expired keys
//

BOOST_AUTO_TEST_CASE(the_key_of_a_holder_that_was_killed_goes_on_at_its_ttl) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        child holder("HOLDFAST_CONTENDER",
                     {"--instances", servers.url_list(), "--key", "k", "--ttl", "3000"});
        BOOST_REQUIRE(holder.line() == "ready");
        holder.say("go");
        BOOST_REQUIRE(holder.line() == "held");
        test_client client(servers);
        attempt w;
        w.start(client.locks.make_lock("k", long_lived));
        foreign_client observer(servers);
        BOOST_REQUIRE(waits_for_push(client, servers));
        // The holder is alive: it renews.
        auto const before = observer.expiry("k");
        BOOST_REQUIRE(client.until([&] { return observer.expiry("k") > before + 100ms; }));
        BOOST_TEST(!w.done);
        holder.kill();
        auto const expiry = observer.expiry("k");
        BOOST_TEST((expiry > lease_clock::now() + 300ms));
        BOOST_REQUIRE(client.until([&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
        BOOST_TEST((w.when >= expiry - clock_slack));
        BOOST_TEST((w.when < expiry + 5s));
        BOOST_TEST(client.releases(w.held));
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_foreign_del_wakes_the_waiter) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        waiting_client it(servers);
        it.listens();
        it.foreign.del("k");
        check_gets(it.client, it.w);
        BOOST_TEST(it.client.locks.stats().pushes > 0U);
        check_nothing_left(it.client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_foreign_compare_and_delete_wakes_the_waiter) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        waiting_client it(servers);
        it.listens();
        it.foreign.del_by_script("k");
        it.gets_the_key();
    });
}

// The deletion and the first question of the waiter pass each other in every order.
BOOST_AUTO_TEST_CASE(a_foreign_del_at_any_moment_is_noticed) {
    fleet servers(3);
    foreign_client foreign(servers);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (int turns = 0; turns < 60; ++turns) {
        BOOST_TEST_CONTEXT("after " << turns << " turns") {
            foreign.hold("k");
            attempt w;
            w.start(client.locks.make_lock("k", long_lived));
            client.context.restart();
            for (int i = 0; i < turns; ++i) client.context.run_one_for(1ms);
            BOOST_TEST(!w.done);
            foreign.del("k");
            check_gets(client, w);
            // A release is over at the quorum.
            BOOST_REQUIRE(client.sees(servers, "k", false));
        }
    }
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_key_that_never_expires_is_waited_for_and_reported) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        foreign_client foreign(servers);
        foreign.hold_for_ever("k");
        test_client client(servers);
        attempt limited;
        limited.start_for(client.locks.make_lock("k", long_lived), 500ms);
        BOOST_REQUIRE(waits(client));
        BOOST_REQUIRE(client.until([&] { return limited.done; }));
        BOOST_TEST((limited.how == errc::wait_timeout), limited.how.what());
        auto const* const report = limited.how.report();
        BOOST_REQUIRE(report != nullptr);
        std::size_t known = 0;
        for (auto const& i : report->instances) {
            if (!i.ttl_known) continue;
            ++known;
            BOOST_TEST(!i.ttl_left.has_value(), limited.how.what());
        }
        BOOST_TEST(known > 0U, limited.how.what());
        BOOST_TEST(limited.how.what().find("never expires") != std::string::npos,
                   limited.how.what());
        BOOST_TEST(client.locks.stats().waiters == 0U);

        auto const already = tracked_keys(servers);
        attempt w;
        w.start(client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits(client));
        // The registration of the first one may still be good.
        if (already == 0) BOOST_REQUIRE(waits_for_push(client, servers));
        BOOST_TEST(!w.done);
        foreign.del("k");
        check_gets(client, w);
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_key_that_expires_everywhere_goes_to_the_waiter) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        foreign_client foreign(servers);
        foreign.hold("k", 700ms);
        auto const expiry = foreign.expiry("k");
        test_client client(servers);
        attempt w;
        w.start(client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(client.until([&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
        BOOST_TEST((w.when >= expiry - clock_slack));
        if (w.held) BOOST_TEST(client.releases(w.held));
        check_nothing_left(client, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_key_that_expires_in_three_hundred_years_is_waited_for) {
    server instance;
    redis_cli cli(instance);
    test_client client({address(instance.url())});
    for (auto const* const ttl : {"9223372036854", "13000000000000"}) {
        BOOST_TEST_CONTEXT("PX " << ttl) {
            BOOST_TEST(!cli.command({"SET", "k", "foreign", "PX", ttl}).is_error());
            attempt w;
            w.start(client.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(client));
            auto const rounds = client.locks.stats().rounds;
            client.pass(lease_clock::now() + 300ms);
            BOOST_TEST(client.locks.stats().rounds <= rounds + 2);
            BOOST_TEST(cli.del("k"));
            check_gets(client, w);
        }
    }
}

BOOST_AUTO_TEST_CASE(flushall_wakes_the_waiter) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        // a flush is no reason for a quarantine here
        waiting_client it(servers, trusting(patient()));
        it.listens();
        it.foreign.flush();
        it.gets_the_key();
    });
}

//
// Majorities
//

// A holder that cannot connect to one instance leaves its key there. A majority is free all the
// same. Whichever instance the waiter watches, it keeps the key in one of the rounds.
BOOST_AUTO_TEST_CASE(a_key_that_is_left_on_one_instance_keeps_no_waiter) {
    fleet servers(3);
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("left on instance " << i) {
            waiting_client it(servers);
            it.listens();
            for (std::size_t other = 0; other < servers.size(); ++other) {
                if (other != i) BOOST_TEST(it.foreign.clis[other].del("k"));
            }
            BOOST_TEST(it.client.until([&] { return it.w.done; }));
            BOOST_TEST(it.w.won(), it.w.how.what());
            it.ends();
        }
    }
}

BOOST_AUTO_TEST_CASE(a_majority_that_is_deleted_wakes_whichever_instances_keep_the_key) {
    check_noticed_without([](redis_cli& cli, std::size_t) { BOOST_TEST(cli.del("k")); });
}

BOOST_AUTO_TEST_CASE(a_majority_that_is_flushed_wakes_whichever_instances_keep_the_key) {
    check_noticed_without([](redis_cli& cli, std::size_t) { cli.flush(); });
}

// Like votes of failed tries that were not released.
BOOST_AUTO_TEST_CASE(a_majority_that_expires_wakes_whichever_instances_keep_the_key) {
    check_noticed_without(
        [](redis_cli& cli, std::size_t n) {
            auto const left = std::to_string(150 * n);
            BOOST_TEST(cli.command({"PEXPIRE", "k", left}).integer() == 1);
        },
        true);
}

// Two instances are free, two keep the key, and one that is frozen would complete the quorum.
BOOST_AUTO_TEST_CASE(an_instance_that_thaws_and_completes_a_quorum_wakes_the_waiter) {
    fleet servers(5);
    for (std::size_t frozen = 0; frozen < servers.size(); ++frozen) {
        BOOST_TEST_CONTEXT("frozen: instance " << frozen) {
            waiting_client it(servers, hasty());
            it.listens_widely();
            it.loses_its_key(frozen);
            servers[frozen].freeze();
            BOOST_REQUIRE(it.client.until(
                [&] { return it.client.status(frozen).state != instance_state::up; }));
            for (std::size_t n = 1; n < 3; ++n) it.loses_its_key(frozen + n);
            it.client.pass(lease_clock::now() + 300ms);
            BOOST_TEST(!it.w.done, it.w.how.what());
            servers[frozen].thaw();
            it.is_woken();
            it.ends();
        }
    }
}

// Whichever instance is the waiter's arbiter, it is frozen in one of the rounds, for less than
// instance_timeout, so that the client does not suspect it.
BOOST_AUTO_TEST_CASE(a_release_while_the_arbiter_is_frozen_wakes_the_waiter) {
    fleet servers(5);
    for (std::size_t frozen = 0; frozen < servers.size(); ++frozen) {
        BOOST_TEST_CONTEXT("frozen: instance " << frozen) {
            waiting_client it(servers);
            it.listens_widely();
            servers[frozen].freeze();
            for (std::size_t n = 1; n < servers.size(); ++n) it.loses_its_key(frozen + n);
            it.is_woken();
            servers[frozen].thaw();
            it.ends();
        }
    }
}

//
// Connections and pushes
//

BOOST_AUTO_TEST_CASE(a_waiter_whose_connections_were_killed_one_by_one_waits_on) {
    fleet servers(3);
    waiting_client it(servers);
    it.listens();
    for (std::size_t i = 0; i < servers.size(); ++i) {
        auto const before = it.client.status(i).connections;
        BOOST_TEST(it.foreign.clis[i].command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
        BOOST_REQUIRE(it.client.until([&] { return it.client.status(i).connections > before; }));
        BOOST_TEST(!it.w.done);
    }
    it.foreign.del("k");
    it.gets_the_key();
}

BOOST_AUTO_TEST_CASE(a_waiter_whose_connections_were_all_killed_is_woken_on_the_new_ones) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        waiting_client it(servers);
        it.listens();
        auto const already = tracked_keys(servers);
        BOOST_TEST(it.foreign.kill_clients() >= static_cast<std::int64_t>(servers.size()));
        BOOST_REQUIRE(it.client.until([&] { return it.client.status(0).connections > 1; }));
        BOOST_REQUIRE(it.client.all_up());
        BOOST_TEST(!it.w.done, it.w.how.what());
        if (!it.w.done) BOOST_TEST(waits_for_push(it.client, servers, already));
        it.foreign.del("k");
        it.gets_the_key();
    });
}

// The report of the change has no connection to come on.
BOOST_AUTO_TEST_CASE(a_del_while_there_is_no_connection_is_noticed) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        waiting_client it(servers);
        it.listens();
        BOOST_TEST(it.foreign.kill_clients() >= static_cast<std::int64_t>(servers.size()));
        it.foreign.del("k");
        it.gets_the_key();
    });
}

BOOST_AUTO_TEST_CASE(the_holders_renewals_do_not_make_the_waiter_spin) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        client_group group(servers, 2, patient());
        auto& holder = *group.clients[0];
        auto& waiter = *group.clients[1];
        attempt first, second;
        first.start(group.key_of(0, "k", {.ttl = renewed_ttl}));
        BOOST_REQUIRE(group.until([&] { return first.done; }));
        second.start(group.key_of(1, "k"));
        BOOST_REQUIRE(group.until([&] { return waiter.stats().waiters == 1; }));
        auto const renewals = holder.stats().extended;
        BOOST_REQUIRE(group.until([&] { return holder.stats().extended >= renewals + 2; }));

        auto const start = lease_clock::now();
        auto const holder_before = holder.stats();
        auto const waiter_before = waiter.stats();
        BOOST_REQUIRE(group.until(
            [&] { return holder.stats().extended >= holder_before.extended + 12; }, 60s));
        auto const renewed = holder.stats().extended - holder_before.extended;
        auto const waiter_after = waiter.stats();
        auto const seconds =
            std::chrono::duration_cast<std::chrono::seconds>(lease_clock::now() - start).count();
        // Each instance is pinged less than once a second.
        auto const pings = static_cast<std::uint64_t>(seconds + 1) * servers.size();
        BOOST_TEST(waiter_after.pushes > waiter_before.pushes);
        BOOST_TEST(waiter_after.commands - waiter_before.commands <= 8 * renewed + pings);
        BOOST_TEST(waiter_after.acquired == 0U);
        BOOST_TEST(!second.done);
        BOOST_TEST(holder.stats().lost == 0U);

        auto released = false;
        first.held.release([&](release_result r) {
            BOOST_TEST(r.confirmed());
            released = true;
        });
        BOOST_REQUIRE(group.until([&] { return released && second.done; }));
        BOOST_TEST(!second.how, second.how.what());
        second.held = {};
        check_nothing_left(group, servers);
    });
}

BOOST_AUTO_TEST_CASE(where_tracking_is_refused_waiters_poll) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        std::vector<address> addresses;
        for (server& instance : servers) {
            BOOST_REQUIRE(redis_cli(instance)
                              .command({"ACL", "SETUSER", "polling", "on", ">pw", "~*", "&*",
                                        "+@all", "-client|tracking", "-client|caching"})
                              .is_ok());
            addresses.emplace_back("redis://polling:pw@" + instance.address());
        }
        foreign_client foreign(servers);
        test_client client(addresses);
        BOOST_REQUIRE(client.all_up());
        // Released by another holdfast client.
        {
            test_client other(servers);
            auto held = other.hold("k");
            attempt w;
            w.start(client.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(client));
            BOOST_TEST(!w.done);
            BOOST_TEST(other.releases(held));
            check_gets(client, w);
            // A release is over at the quorum.
            BOOST_REQUIRE(client.sees(servers, "k", false));
        }
        // Deleted by a foreign one.
        foreign.hold("k");
        attempt w;
        w.start(client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits(client));
        BOOST_TEST(!w.done);
        foreign.del("k");
        check_gets(client, w);
        // Many of them at once.
        crowd c;
        for (std::size_t i = 0; i < 200; ++i)
            join(client.context, client.locks, i, 1, long_lived, c);
        BOOST_TEST(client.until([&] { return c.done == 200; }));
        BOOST_TEST(c.failed == 0U, c.first_failure);
        BOOST_TEST(c.violations == 0U);
        BOOST_TEST(client.locks.stats().pushes == 0U);
        check_nothing_left(client, servers);
    });
}

// The last of its work is done when it is shut down, also where a queue was about to go on.
// Its votes suffice, so it is refused nowhere, and without the vote against it, it would not
// listen. A try that fails because an answer is late asks for pushes too: such a turn shows
// nothing, and begins anew.
BOOST_AUTO_TEST_CASE(a_client_that_won_against_a_vote_for_another_listens_when_it_stands_back) {
    auto listened = false;
    for (int attempt = 0; attempt < 20 && !listened; ++attempt) {
        fleet servers(3);
        redis_cli(servers[2]).set("k", "another");
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const asked_for_pushes = [&] {
            for (server const& instance : servers) {
                if (!redis_cli(instance).info("cmdstat_client|caching").empty()) return true;
            }
            return false;
        };
        BOOST_TEST(!asked_for_pushes());
        auto const all_won = [&] {
            return client.locks.stats().rounds == client.locks.stats().acquired;
        };
        // The vote against it may come after the release.
        for (int turn = 0; turn < 20 && all_won() && !listened; ++turn) {
            auto held = client.hold("k");
            BOOST_TEST(client.releases(held));
            listened = asked_for_pushes() && all_won();
        }
    }
    BOOST_TEST(listened);
}

BOOST_AUTO_TEST_SUITE_END()
