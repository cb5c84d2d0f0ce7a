// Grants that count only when replicas have them (client_options::replicas), on the oldest kind of
// server and the newest.
#include "integration/attempt.hpp"
#include "integration/guards.hpp"
#include "integration/restricted.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// A primary and its replicas. Each replica has a user of its own on the primary, so that its link
/// can be cut.
struct replicated_server {
    replicated_server(server_kind const& kind, std::size_t count,
                      std::vector<std::string> missing = {})
        : primary({.kind = kind,
                   .arguments = {"--repl-diskless-sync-delay", "0"},
                   .missing_rules = std::move(missing)})
        , at_primary(primary) {
        for (std::size_t i = 0; i < count; ++i) {
            allow(i, true);
            replicas.push_back(std::make_unique<server>(
                server_options{.kind = kind,
                               .arguments = {"--repl-diskless-sync-delay", "0", "--masteruser",
                                             user(i), "--masterauth", "pw", "--replicaof",
                                             "127.0.0.1", std::to_string(primary.port())}}));
        }
        BOOST_REQUIRE(are_online(count));
    }

    static std::string user(std::size_t i) { return "replica-" + std::to_string(i); }
    void allow(std::size_t i, bool allowed) {
        BOOST_REQUIRE(at_primary
                          .command({"ACL", "SETUSER", user(i), "reset", allowed ? "on" : "off",
                                    ">pw", "+psync", "+replconf", "+ping"})
                          .is_ok());
    }
    bool are_online(std::size_t count) {
        return wait_until(
                   [&] {
                       std::size_t found = 0;
                       for (std::size_t i = 0; i < replicas.size(); ++i) {
                           found += contains(at_primary.info("slave" + std::to_string(i)),
                                             "state=online");
                       }
                       return found == count;
                   },
                   20s) &&
               acknowledge(count);
    }
    /// A replica that has just come sends its first acknowledgement a second later.
    bool acknowledge(std::size_t count) {
        at_primary.set("marker", "x");
        auto const told = at_primary.command({"WAIT", std::to_string(count), "4000"});
        at_primary.del("marker");
        return told.integer() >= static_cast<std::int64_t>(count);
    }
    /// The replica stays as it is, and gets nothing more.
    void cut(std::size_t i) {
        auto const rest = std::stoul(at_primary.info("connected_slaves")) - 1;
        allow(i, false);
        at_primary.command({"CLIENT", "KILL", "USER", user(i)});
        BOOST_REQUIRE(wait_until(
            [&] { return at_primary.info("connected_slaves") == std::to_string(rest); }, 20s));
    }
    /// As an operator does who has lost the primary.
    void promote(std::size_t i) {
        BOOST_REQUIRE(redis_cli(*replicas[i]).command({"REPLICAOF", "NO", "ONE"}).is_ok());
    }
    bool blocks() {
        return wait_until([&] { return at_primary.info("blocked_clients") != "0"; }, 20s);
    }

    server primary;
    redis_cli at_primary;
    std::vector<std::unique_ptr<server>> replicas;
};

client_options with_replicas(unsigned count, client_options options = patient()) {
    options.replicas = count;
    return options;
}

/// The same wish by the number on the oldest kind of server, and by name on the newest.
unsigned named_or_all(server_kind const& kind, unsigned count) {
    return kind.name == available_servers().front().name ? count : all_replicas;
}

/// WAIT takes half a second.
client_options with_short_wait(unsigned count) {
    auto options = with_replicas(count, trusting(patient()));
    options.instance_timeout = 2s;
    return options;
}

/// The call failed, because too few replicas had the lock.
void check_unreplicated(error const& e, std::string_view reason) {
    BOOST_TEST((e == errc::too_few_replicas), e.what());
    BOOST_TEST((e == error_condition::unavailable));
    BOOST_REQUIRE(e.report() != nullptr);
    auto const& told = e.report()->instances.at(0);
    BOOST_TEST((told.outcome == instance_outcome::unreplicated), e.what());
    BOOST_TEST(contains(told.message, reason), told.message);
    BOOST_TEST(contains(e.what(), reason), e.what());
}

void check_state(test_client const& p, instance_state state, errc cause, std::string_view reason) {
    auto const s = p.status(0);
    BOOST_TEST((s.state == state), to_string(s.state) << ": " << s.message);
    BOOST_TEST(s.reason == (cause == errc{} ? error_code{} : make_error_code(cause)));
    BOOST_TEST(contains(s.message, reason), s.message);
}

constexpr lock_options fenced{.ttl = 60s, .fencing = true};

} // namespace

BOOST_AUTO_TEST_SUITE(replicated)

BOOST_AUTO_TEST_CASE(a_lock_that_was_granted_is_on_all_replicas) {
    on_two_servers([](server_kind const& kind) {
        struct setup {
            std::size_t there;
            unsigned wanted;
        };
        for (auto const s : {setup{1, 1}, setup{2, all_replicas}}) {
            replicated_server r(kind, s.there);
            test_client p({r.primary.url()}, with_replicas(s.wanted));
            test_client q({r.primary.url()}, with_replicas(s.wanted));
            q.runs_with(p);
            for (int n = 0; n < 20; ++n) {
                auto l = p.hold("k", n % 2 == 0 ? long_lived : fenced);
                for (auto const& replica : r.replicas) {
                    BOOST_TEST(redis_cli(*replica).exists("k"));
                    if (n % 2 != 0) BOOST_TEST(redis_cli(*replica).exists("{k}:fence"));
                }
                auto const e = p.extend(l);
                BOOST_TEST(!e, e.what());
                BOOST_TEST((q.try_acquire("k").first == errc::contended));
                attempt waits_for(q, "k", long_lived);
                BOOST_REQUIRE(waits(q));
                BOOST_TEST(p.releases(l));
                check_gets(q, waits_for);
            }
            BOOST_TEST(p.sees_no_locks(r.primary));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_frozen_replica_stops_grants_until_it_is_back) {
    on_two_servers([](server_kind const& kind) {
        auto const wanted = named_or_all(kind, 2);
        replicated_server r(kind, 2);
        test_client p({r.primary.url()}, with_short_wait(wanted));
        auto before = p.hold("before");
        r.replicas[0]->freeze();
        check_unreplicated(p.try_acquire("k").first,
                           "of 2 replicas confirmed the last writes (replicas)");
        check_state(p, instance_state::unreplicated, errc::too_few_replicas, "of 2 replicas");
        // Given back.
        BOOST_TEST(p.until([&] { return !r.at_primary.exists("k"); }));
        // Nothing waits for the replica now.
        check_unreplicated(p.acquire("k").first, "of 2 replicas");
        check_unreplicated(p.extend(before), "of 2 replicas");
        BOOST_TEST(before.held());
        BOOST_TEST(p.releases(before));
        BOOST_TEST(r.at_primary.info("blocked_clients") == "0");
        r.replicas[0]->thaw();
        BOOST_TEST(p.becomes(0, instance_state::up));
        auto l = p.hold("k");
        BOOST_TEST(redis_cli(*r.replicas[0]).exists("k"));
        BOOST_TEST(p.releases(l));
        BOOST_TEST(p.sees_no_locks(r.primary));
    });
}

// A refusal, a release and what the holder asked for before do not wait.
BOOST_AUTO_TEST_CASE(a_waiter_is_refused_while_replicas_are_waited_for) {
    on_two_servers([](server_kind const& kind) {
        replicated_server r(kind, 1);
        test_client holder({r.primary.url()});
        auto l = holder.hold("taken");
        test_client p({r.primary.url()}, with_replicas(1));
        BOOST_REQUIRE(p.all_up());
        r.replicas[0]->freeze();
        attempt granted, refused;
        granted.start_try(p.locks.make_lock("free", long_lived));
        refused.start_try(p.locks.make_lock("taken", long_lived));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().rounds >= 2; }));
        BOOST_REQUIRE(r.blocks());
        BOOST_TEST(!granted.done);
        auto const sent = lease_clock::now();
        p.pass(sent + 200ms);
        r.replicas[0]->thaw();
        BOOST_REQUIRE(p.until([&] { return granted.done && refused.done; }));
        BOOST_TEST(!granted.how, granted.how.what());
        BOOST_TEST((refused.how == errc::contended));
        // The lease counts from before the request, not from the answer of the replicas.
        BOOST_TEST((granted.held.deadline() <= sent + long_lived.ttl));
        BOOST_TEST(p.releases(granted.held));
        BOOST_TEST(holder.releases(l));
    });
}

BOOST_AUTO_TEST_CASE(a_link_that_is_cut_stops_grants_until_it_is_back) {
    on_two_servers([](server_kind const& kind) {
        auto const wanted = named_or_all(kind, 1);
        replicated_server r(kind, 1);
        test_client p({r.primary.url()}, with_short_wait(wanted));
        BOOST_REQUIRE(p.all_up());
        r.cut(0);
        auto const e = p.try_acquire("k").first;
        check_unreplicated(e, "0 of 1 replica");
        check_state(p, instance_state::unreplicated, errc::too_few_replicas, "0 of 1 replica");
        BOOST_TEST(p.until([&] { return !r.at_primary.exists("k"); }));
        // A client that comes meanwhile.
        test_client late({r.primary.url()}, with_short_wait(wanted));
        BOOST_REQUIRE(late.becomes(0, instance_state::unreplicated));
        check_state(late, instance_state::unreplicated, errc::too_few_replicas,
                    "0 of 1 replica online");
        check_unreplicated(late.acquire("k").first, "0 of 1 replica online");
        r.allow(0, true);
        BOOST_REQUIRE(r.are_online(1));
        for (auto* const each : {&p, &late}) {
            BOOST_TEST(each->becomes(0, instance_state::up));
            auto l = each->hold("k");
            BOOST_TEST(each->releases(l));
        }
    });
}

BOOST_AUTO_TEST_CASE(more_replicas_than_grants_wait_for_are_told) {
    on_two_servers([](server_kind const& kind) {
        replicated_server r(kind, 2);
        test_client p({r.primary.url()}, with_replicas(1));
        auto const told = [&] {
            auto const all = p.status(0).degradations;
            return all.size() == 1 && all[0].kind == degradation::spare_replicas &&
                   contains(all[0].message, "2 replicas are attached, and grants wait for 1");
        };
        BOOST_TEST(p.until(told));
        r.cut(0);
        BOOST_TEST(p.until([&] { return p.status(0).degradations.empty(); }, 20s));
        for (auto const wanted : {0U, 2U, all_replicas}) {
            test_client q({r.primary.url()}, with_replicas(wanted));
            BOOST_REQUIRE(q.until([&] { return q.status(0).connections == 1; }));
            BOOST_TEST(q.status(0).degradations.empty());
        }
    });
}

// The other one had it, and is not the one that is promoted.
BOOST_AUTO_TEST_CASE(a_lock_on_one_of_two_replicas_is_lost_with_the_primary) {
    on_two_servers([](server_kind const& kind) {
        replicated_server r(kind, 2);
        test_client a({r.primary.url()}, with_replicas(1));
        BOOST_REQUIRE(a.all_up());
        r.cut(0);
        auto first = a.hold("k", unwatched(60s));
        BOOST_TEST(redis_cli(*r.replicas[1]).exists("k"));
        r.primary.freeze();
        r.promote(0);
        test_client b({r.replicas[0]->url()}, trusting(patient()));
        auto second = b.hold("k", unwatched(60s));
        BOOST_TEST((second.held() && first.held())); // the violation
        r.primary.thaw();
    });
}

BOOST_AUTO_TEST_CASE(a_lock_on_all_replicas_is_not_lost_with_the_primary) {
    on_two_servers([](server_kind const& kind) {
        auto const wanted = named_or_all(kind, 2);
        replicated_server r(kind, 2);
        test_client a({r.primary.url()}, with_short_wait(wanted));
        auto first = a.hold("before", unwatched(60s));
        r.cut(0);
        auto const e = a.try_acquire("after", unwatched(60s)).first;
        check_unreplicated(e, "1 of 2 replicas");
        r.primary.freeze();
        r.promote(0);
        test_client b({r.replicas[0]->url()}, trusting(patient()));
        BOOST_TEST((b.try_acquire("before", unwatched(60s)).first == errc::contended));
        auto second = b.hold("after", unwatched(60s)); // has no other holder
        BOOST_TEST(first.held());
        r.primary.thaw();
    });
}

// The replicas copy the empty data. The guard against restarts is what is left.
BOOST_AUTO_TEST_CASE(a_primary_that_restarts_empty_loses_the_lock_on_its_replicas_too) {
    on_two_servers([](server_kind const& kind) {
        replicated_server r(kind, 1);
        test_client p({r.primary.url()}, with_replicas(1, guarded(restart_policy::observed, 60s)));
        test_client q({r.primary.url()}, with_replicas(1, guarded(restart_policy::observed, 60s)));
        BOOST_REQUIRE(q.all_up());
        auto l = p.hold("k", unwatched(60s));
        redis_cli at_replica(*r.replicas[0]);
        BOOST_TEST(at_replica.exists("k"));
        auto const before = connections_of(q);
        r.primary.kill();
        r.primary.restart();
        r.allow(0, true);
        BOOST_REQUIRE(r.are_online(1));
        BOOST_TEST(wait_until([&] { return !at_replica.exists("k"); }, 20s));
        BOOST_REQUIRE(is_back(q, before, {0}));
        check_quarantined(q, 0, restarted);
        auto const e = q.try_acquire("k").first;
        BOOST_TEST((e == errc::quarantined), e.what());
    });
}

BOOST_AUTO_TEST_CASE(a_primary_that_is_demoted_while_replicas_are_waited_for_is_left) {
    on_two_servers([](server_kind const& kind) {
        replicated_server r(kind, 1);
        test_client p({r.primary.url()}, with_replicas(1, guarded(restart_policy::observed, 60s)));
        BOOST_REQUIRE(p.all_up());
        r.replicas[0]->freeze();
        attempt granted;
        granted.start_try(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(p.until([&] { return r.at_primary.info("blocked_clients") != "0"; }));
        server other({.kind = kind, .arguments = {"--repl-diskless-sync-delay", "0"}});
        r.at_primary.command({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
        BOOST_REQUIRE(p.until([&] { return granted.done; }));
        BOOST_TEST((granted.how == errc::read_only), granted.how.what());
        BOOST_TEST(p.goes_down(0, errc::read_only));
    });
}

// A majority of instances have all their replicas.
BOOST_AUTO_TEST_CASE(an_instance_without_its_replica_is_a_minority_of_three) {
    on_two_servers([](server_kind const& kind) {
        replicated_server a(kind, 1), b(kind, 1), c(kind, 1);
        test_client p({a.primary.url(), b.primary.url(), c.primary.url()}, with_short_wait(1));
        BOOST_REQUIRE(p.all_up());
        c.replicas[0]->freeze();
        for (int n = 0; n < 3; ++n) {
            auto l = p.hold("k");
            auto const e = p.extend(l);
            BOOST_TEST(!e, e.what());
            BOOST_TEST(p.releases(l));
        }
        BOOST_TEST(p.until([&] { return p.status(2).state == instance_state::unreplicated; }));
        for (auto* const each : {&a, &b, &c}) BOOST_TEST(p.sees_no_locks(each->primary));
        c.replicas[0]->thaw();
        BOOST_TEST(p.all_up());
    });
}

BOOST_AUTO_TEST_CASE(without_the_right_to_wait_no_grant_counts) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+wait"});
        r.admin.config("repl-diskless-sync-delay", "0");
        server replica({.kind = kind,
                        .arguments = {"--replicaof", "127.0.0.1", std::to_string(r.redis.port())}});
        BOOST_REQUIRE(
            wait_until([&] { return contains(r.admin.info("slave0"), "state=online"); }, 20s));
        test_client p({r.redis.url()}, with_replicas(1));
        BOOST_REQUIRE(p.becomes(0, instance_state::unreplicated));
        check_state(p, instance_state::unreplicated, errc::access_denied, "WAIT: NOPERM");
        auto const e = p.acquire("k").first;
        BOOST_TEST((e == errc::access_denied), e.what());
        BOOST_TEST(contains(e.what(), "WAIT: NOPERM"), e.what());
        BOOST_TEST(!r.admin.exists("k"));
        r.change("+wait");
        BOOST_TEST(p.becomes(0, instance_state::up));
        auto l = p.hold("k");
        r.change("-wait");
        BOOST_TEST((p.extend(l) == errc::access_denied));
        check_state(p, instance_state::unreplicated, errc::access_denied, "WAIT: NOPERM");
        BOOST_TEST(p.releases(l));
        // A client that does not wait for replicas needs no right.
        test_client q({r.redis.url()});
        auto m = q.hold("k");
        BOOST_TEST(q.releases(m));
    });
}

BOOST_AUTO_TEST_SUITE_END()
