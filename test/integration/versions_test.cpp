// The same lock on every kind of server that this machine has, alone and together. They have
// different commands that compare before they delete or extend.
#include <holdfast/client.hpp>

#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(versions)

BOOST_AUTO_TEST_CASE(each_server_is_known_by_its_product_and_version) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const all = client.locks.instances();
        for (std::size_t i = 0; i < all.size(); ++i) {
            redis_cli cli(servers[i]);
            auto const valkey = cli.info("valkey_version");
            BOOST_TEST(all[i].server == (valkey.empty() ? "redis " + cli.info("redis_version")
                                                        : "valkey " + valkey));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_lock_is_acquired_extended_and_released) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k");
        BOOST_TEST(client.sees(servers, "k", true));
        for (server& instance : servers) redis_cli(instance).command({"PEXPIRE", "k", "30000"});
        auto const deadline = l.deadline();
        BOOST_TEST(!client.extend(l));
        BOOST_TEST((l.deadline() > deadline));
        for (server& instance : servers) {
            redis_cli cli(instance);
            BOOST_TEST(client.until([&] { return cli.pttl("k") > 50s; }));
            BOOST_TEST((cli.pttl("k") <= 60s));
        }
        auto const [e, none] = client.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees(servers, "k", false));
        auto again = client.hold("k");
        BOOST_TEST(!client.release(again).code().failed());
    });
}

BOOST_AUTO_TEST_CASE(the_watchdog_extends) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k", {.ttl = renewed_ttl});
        auto const deadline = l.deadline();
        BOOST_TEST(client.renews(4));
        BOOST_TEST((l.deadline() > deadline + renewed_ttl));
        BOOST_TEST(l.held());
        BOOST_TEST(client.sees(servers, "k", true));
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_CASE(an_unwatched_key_expires_on_the_server) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k", unwatched(1s));
        for (server& instance : servers) {
            auto const left = redis_cli(instance).pttl("k"); // -2: not there yet, or gone
            BOOST_TEST((left <= 1s && left != -1ms));
        }
        BOOST_TEST(client.until([&] { return !l.held(); }));
        BOOST_TEST((client.release(l) == errc::lease_lost));
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_CASE(a_lease_whose_keys_are_deleted_is_lost) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k");
        BOOST_TEST(client.sees(servers, "k", true));
        std::optional<lease_end> end;
        l.wait_end(noting(end));
        for (std::size_t i = 0; i < servers.quorum(); ++i)
            BOOST_TEST(redis_cli(servers[i]).del("k"));
        auto const e = client.extend(l);
        BOOST_TEST((e == errc::lease_lost), e.what());
        BOOST_REQUIRE(client.until([&] { return end.has_value(); }));
        BOOST_TEST(*end == lease_end::key_gone);
        BOOST_TEST(!l.held());
        BOOST_TEST((client.release(l) == errc::lease_lost));
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_CASE(a_key_of_another_is_neither_extended_nor_deleted) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        for (auto const release : {true, false}) {
            auto l = client.hold("k");
            BOOST_TEST(client.sees(servers, "k", true));
            for (server& instance : servers) redis_cli(instance).set("k", "foreign", 30s);
            if (release) {
                BOOST_TEST((client.release(l) == errc::lease_lost));
            } else {
                auto const e = client.extend(l);
                BOOST_TEST((e == errc::lease_lost), e.what());
            }
            auto behind = client.hold("behind"); // all earlier commands were carried out
            BOOST_TEST(!client.release(behind).code().failed());
            BOOST_TEST(client.sees(servers, "behind", false));
            for (server& instance : servers) {
                redis_cli cli(instance);
                BOOST_TEST(cli.get("k").value_or("gone") == "foreign");
                BOOST_TEST((cli.pttl("k") <= 30s));
                BOOST_TEST(cli.del("k"));
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(scripts_that_a_server_forgot_are_sent_again) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k");
        forget_scripts(servers);
        BOOST_TEST(!client.extend(l));
        forget_scripts(servers);
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees(servers, "k", false));
    });
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_is_left_alone) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const untouched = [&](std::string const& key) {
            for (server& instance : servers)
                BOOST_TEST(redis_cli(instance).command({"HGET", key, "field"}).string() == "value");
        };
        for (server& instance : servers)
            redis_cli(instance).command({"HSET", "hash", "field", "value"});
        auto const [e, none] = client.acquire("hash");
        BOOST_TEST((e == errc::wrong_type), e.what());
        untouched("hash");

        // A foreign value that replaces a held lock is not changed either.
        auto l = client.hold("k");
        BOOST_TEST(client.sees(servers, "k", true));
        for (server& instance : servers) {
            redis_cli cli(instance);
            cli.del("k");
            cli.command({"HSET", "k", "field", "value"});
        }
        auto other = client.hold("other");
        BOOST_TEST((client.extend(l) == errc::lease_lost));
        BOOST_TEST(!l.held());
        BOOST_TEST((client.release(l) == errc::lease_lost));
        BOOST_TEST(!client.release(other).code().failed());
        BOOST_TEST(client.sees(servers, "other", false));
        untouched("k");
    });
}

BOOST_AUTO_TEST_CASE(a_minority_that_lost_the_key_gets_it_back) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        for (std::size_t i = 0; i < servers.size(); ++i) {
            redis_cli cli(servers[i]);
            auto l = client.hold("k");
            BOOST_TEST(client.sees(servers, "k", true));
            auto const token = cli.get("k").value();
            cli.del("k");
            BOOST_TEST(!client.extend(l));
            BOOST_TEST(client.until([&] { return cli.exists("k"); }));
            BOOST_TEST(cli.get("k").value_or("gone") == token);
            BOOST_TEST((cli.pttl("k") > 30s));
            BOOST_TEST(!client.release(l).code().failed());
            BOOST_TEST(client.sees(servers, "k", false));
        }
    });
}

BOOST_AUTO_TEST_CASE(any_bytes_make_a_key) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        std::string const key("a\0b\r\n c\xff", 8);
        auto l = client.hold(key);
        BOOST_TEST(client.sees(servers, key, true));
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees(servers, key, false));
    });
}

BOOST_AUTO_TEST_CASE(clients_of_the_same_servers_exclude_each_other) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        test_client other(servers);
        BOOST_REQUIRE(other.all_up());
        for (int i = 0; i < 10; ++i) {
            auto& holder = i % 2 == 0 ? client : other;
            auto& waiter = i % 2 == 0 ? other : client;
            auto l = holder.hold("k");
            auto const [e, none] = waiter.try_acquire("k");
            BOOST_TEST((e == errc::contended), e.what());
            auto got = false;
            lease next;
            waiter.locks.make_lock("k", long_lived).acquire([&](error failed, lease won) {
                BOOST_TEST(!failed, failed.what());
                next = std::move(won);
                got = true;
            });
            BOOST_TEST(waiter.until([&] { return waiter.locks.stats().waiters == 1; }));
            BOOST_TEST(!got);
            BOOST_TEST(l.held());
            BOOST_TEST(!holder.release(l).code().failed());
            BOOST_REQUIRE(waiter.until([&] { return got; }));
            BOOST_TEST(next.held());
            BOOST_TEST(!waiter.release(next).code().failed());
            BOOST_TEST(waiter.until([&] {
                holder.context.poll(); // its release may be under way to the last server
                for (server& each : servers)
                    if (redis_cli(each).exists("k")) return false;
                return true;
            }));
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
