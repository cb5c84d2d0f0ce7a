// Many that want one key: coroutines of one process, several processes, and holders that do not
// know of us. Everybody gets it, one at a time, whoever dies, freezes, deletes or cancels
// meanwhile; and nothing is left over.
#include "integration/child.hpp"
#include "integration/company.hpp"
#include "integration/party.hpp"
#include "integration/wires.hpp"
#include "support/proxy.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <malloc.h>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using wall_clock = std::chrono::steady_clock;

constexpr std::string_view this_client = "this client";

// For each number of instances that behaves differently: no quorum to speak of, the usual, and a
// larger one.
template <class Test>
void with_each_fleet(Test test) {
    with_fleets_of({1, 3, 5}, test);
}

// An acquire under way, which can be cancelled, and how it ended.
struct waiting {
    // The handler keeps a pointer to this.
    auto take() {
        return [this](error e, lease l) {
            when = wall_clock::now();
            how = std::move(e);
            held = std::move(l);
            done = true;
            ++ended;
        };
    }
    void start(lock const& key) {
        key.acquire(asio::bind_cancellation_slot(signal.slot(), take()));
    }
    void start_for(lock const& key, std::chrono::nanoseconds limit) {
        key.try_acquire_for(limit, asio::bind_cancellation_slot(signal.slot(), take()));
    }
    void start_try(lock const& key) {
        key.try_acquire(asio::bind_cancellation_slot(signal.slot(), take()));
    }

    bool won() const { return done && !how && held.held(); }

    asio::cancellation_signal signal;
    int ended = 0;
    bool done = false;
    error how;
    lease held;
    wall_clock::time_point when;
};

// A holder of another make: SET NX PX and compare-and-delete on every instance, no part of
// holdfast.
struct foreigner {
    static constexpr char const* token = "0e5d3bd4-foreign-7c1b";

    explicit foreigner(fleet const& servers) {
        for (server& one : servers) clis.emplace_back(one);
    }
    void hold(std::string const& key, std::chrono::milliseconds ttl = 60s) {
        for (auto& cli : clis) BOOST_REQUIRE(cli.set_if_absent(key, token, ttl));
    }
    void hold_for_ever(std::string const& key) {
        for (auto& cli : clis) cli.set(key, token);
    }
    void del(std::string const& key) {
        for (auto& cli : clis) BOOST_TEST(cli.del(key));
    }
    void del_by_script(std::string const& key) {
        for (auto& cli : clis) BOOST_TEST(cli.del_if_equal(key, token));
    }
    void flush() {
        for (auto& cli : clis) cli.flush();
    }
    // Ends everybody's connections but ours.
    std::int64_t kill_clients() {
        std::int64_t killed = 0;
        for (auto& cli : clis)
            killed += cli.command({"CLIENT", "KILL", "TYPE", "normal"}).integer();
        return killed;
    }
    // How many (client, key) pairs the servers know that want to hear of a key. Those of clients
    // that are gone count too, until their key changes.
    std::int64_t tracked() {
        std::int64_t all = 0;
        for (auto& cli : clis) all += std::stoll(cli.info("tracking_total_items"));
        return all;
    }
    // When a majority can have the key again if nobody renews it, at the earliest.
    wall_clock::time_point expiry(std::string const& key) {
        std::vector<wall_clock::time_point> each;
        for (auto& cli : clis) {
            auto const asked = wall_clock::now();
            each.push_back(asked + std::max(0ms, cli.pttl(key)));
        }
        std::sort(each.begin(), each.end());
        return each[each.size() / 2];
    }

    std::vector<redis_cli> clis;
};

// What a server's clock, which it reads once a turn, and the rounding of PTTL may make of it.
constexpr auto clock_slack = 20ms;

bool waits(party& p, std::uint64_t count = 1) {
    return p.until([&] { return p.locks.stats().waiters == count; });
}

// The waiter has asked to be woken.
bool waits_for_push(party& p, foreigner& f, std::int64_t already = 0) {
    return waits(p) && p.until([&] { return f.tracked() > already; });
}

// It gets the key, and gives it back.
void check_gets(party& p, waiting& w) {
    BOOST_REQUIRE(p.until([&] { return w.done; }));
    BOOST_TEST(!w.how, w.how.what());
    BOOST_TEST(w.held.held());
    if (w.held) BOOST_TEST(p.releases(w.held));
}

void check_nothing_left(party& p, fleet const& servers) {
    BOOST_TEST(p.until([&] {
        auto const s = p.locks.stats();
        return s.waiters == 0 && s.pending == 0 && s.held == 0;
    }));
    for (server& one : servers) {
        if (one.running()) BOOST_TEST(p.sees_no_keys(one));
    }
}

// What coroutines that share a key find out.
struct crowd {
    std::vector<std::size_t> asked, granted;
    std::size_t done = 0, sections = 0, failed = 0, violations = 0;
    int inside = 0;
    std::string first_failure;

    void fail(std::string why) {
        if (failed++ == 0) first_failure = std::move(why);
    }
};

asio::awaitable<void> member(client& locks, std::size_t number, std::size_t sections,
                             lock_options options, crowd& c) {
    auto const lock = locks.make_lock("hot", options);
    for (std::size_t i = 0; i < sections; ++i) {
        c.asked.push_back(number);
        auto acquired = co_await lock.acquire(asio::as_tuple);
        auto& [e, held] = acquired;
        if (e) {
            c.fail(e.what());
            continue;
        }
        c.granted.push_back(number);
        ++c.sections;
        if (++c.inside > 1) ++c.violations;
        // Others run now.
        co_await asio::post(asio::deferred);
        --c.inside;
        auto const released = co_await held.release();
        if (!released) c.fail("release: " + released.code().message());
    }
    ++c.done;
}

void join(asio::io_context& context, client& locks, std::size_t number, std::size_t sections,
          lock_options const& options, crowd& c) {
    asio::co_spawn(context, member(locks, number, sections, options, c),
                   [](std::exception_ptr thrown) {
                       if (thrown) std::rethrow_exception(thrown);
                   });
}

// What a contender has to say in the end.
struct outcome_line {
    explicit outcome_line(std::string text)
        : line(std::move(text)) {
        std::istringstream words(line);
        for (std::string word; words >> word && word != "why:";) {
            if (auto const equals = word.find('='); equals != word.npos) {
                numbers[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
            }
        }
    }
    std::int64_t operator[](std::string const& name) const {
        auto const found = numbers.find(name);
        return found == numbers.end() ? -1 : found->second;
    }

    std::string line;
    std::map<std::string, std::int64_t> numbers;
};

constexpr std::size_t processes = 4;

// Lets the processes contend; each must say that nothing failed, and the witness that no two were
// in at once.
std::vector<outcome_line> compete(fleet const& servers, std::vector<std::string> const& how) {
    server witness;
    std::vector<std::unique_ptr<child>> all;
    for (std::size_t i = 0; i < processes; ++i) {
        std::vector<std::string> arguments{"--instances",     servers.address_list(), "--witness",
                                           witness.address(), "--coroutines",         "250"};
        arguments.insert(arguments.end(), how.begin(), how.end());
        all.push_back(std::make_unique<child>("HOLDFAST_CONTENDER", std::move(arguments)));
    }
    for (auto const& one : all) BOOST_REQUIRE(one->line() == "ready");
    for (auto const& one : all) one->say("go");
    std::vector<outcome_line> results;
    std::int64_t sections = 0;
    for (auto const& one : all) {
        results.emplace_back(one->line(60s));
        auto const& r = results.back();
        BOOST_TEST_CONTEXT(r.line) {
            BOOST_TEST(one->status() == 0);
            BOOST_TEST(r["failed"] == 0);
            BOOST_TEST(r["lost"] == 0);
            BOOST_TEST(r["violations"] == 0);
            BOOST_TEST(r["waiters"] == 0);
            BOOST_TEST(r["sections"] > 0);
        }
        sections += std::max<std::int64_t>(r["sections"], 0);
    }
    BOOST_TEST(redis_cli(witness).get("counter").value_or("nothing") == std::to_string(sections));
    for (server& one : servers) {
        BOOST_TEST(wait_until([&] { return redis_cli(one).dbsize() == 0; }));
    }
    return results;
}

// Three clients contend while an instance drops out. Whichever is the arbiter of the key, it is one
// of them.
void check_without_each(void (*drop_out)(server&), void (*come_back)(server&)) {
    constexpr std::size_t clients = 3, coroutines = 10, sections = 12;
    // Many tenures, so that there is much to decide.
    constexpr lock_options options{.ttl = 60s, .handoff_limit = 4};
    fleet servers(5);
    auto soon = trusting(hasty());
    soon.instance_timeout = soon.connect_timeout =
        1s; // the others must be in time on a busy machine too
    company c(servers, clients, soon);
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("instance " << i) {
            crowd all;
            for (std::size_t n = 0; n < clients * coroutines; ++n) {
                join(c.context, *c.clients[n % clients], n, sections, options, all);
            }
            BOOST_REQUIRE(
                c.until([&] { return all.sections >= clients * coroutines * sections / 4; }, 30s));
            BOOST_TEST(all.done < clients * coroutines);
            drop_out(servers[i]);
            BOOST_TEST(c.until([&] { return all.done == clients * coroutines; }, 30s));
            BOOST_TEST(all.sections == clients * coroutines * sections);
            BOOST_TEST(all.failed == 0U, all.first_failure);
            BOOST_TEST(all.violations == 0U);
            come_back(servers[i]);
            BOOST_REQUIRE(c.all_up());
            BOOST_REQUIRE(c.idle());
            BOOST_TEST(c.sees_no_keys(servers));
        }
    }
}

std::size_t heap_in_use() {
    return ::mallinfo2().uordblks;
}

} // namespace

BOOST_AUTO_TEST_SUITE(contention)

BOOST_AUTO_TEST_CASE(five_thousand_get_one_key_in_the_order_in_which_they_asked) {
    with_each_fleet([](fleet& servers) {
        constexpr std::size_t everybody = 5'000;
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        crowd c;
        for (std::size_t i = 0; i < everybody; ++i) join(p.context, p.locks, i, 1, long_lived, c);
        BOOST_TEST(run_until(
            p.context, [&] { return c.done == everybody; }, 60s));
        BOOST_TEST(c.failed == 0U, c.first_failure);
        BOOST_TEST(c.violations == 0U);
        BOOST_TEST(c.granted.size() == everybody);
        BOOST_TEST((c.asked == c.granted));
        auto const s = p.locks.stats();
        BOOST_TEST(s.acquired == everybody);
        BOOST_TEST(s.released == everybody);
        BOOST_TEST(s.lost == 0U);
        BOOST_TEST(s.handoffs > 0U);
        BOOST_TEST(s.commands_per_acquisition() <= 1.);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(four_processes_finish_and_no_two_are_in_at_once) {
    with_each_fleet([](fleet& servers) {
        std::int64_t sections = 0;
        for (auto const& r : compete(servers, {"--sections", "2"})) sections += r["sections"];
        BOOST_TEST(sections == static_cast<std::int64_t>(processes) * 250 * 2);
    });
}

BOOST_AUTO_TEST_CASE(four_processes_get_their_share) {
    fleet servers(5);
    auto const results = compete(servers, {"--seconds", "3"});
    std::int64_t all = 0;
    for (auto const& r : results) all += r["timely"];
    auto const fair = all / static_cast<std::int64_t>(processes);
    for (auto const& r : results) BOOST_TEST(r["timely"] >= fair / 4, r.line << ", fair: " << fair);
}

BOOST_AUTO_TEST_CASE(the_key_of_a_holder_that_was_killed_goes_on_at_its_ttl) {
    with_each_fleet([](fleet& servers) {
        child holder("HOLDFAST_CONTENDER",
                     {"--instances", servers.address_list(), "--key", "k", "--ttl", "1200"});
        BOOST_REQUIRE(holder.line() == "ready");
        holder.say("go");
        BOOST_REQUIRE(holder.line() == "held");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        foreigner looks_on(servers);
        BOOST_REQUIRE(waits_for_push(p, looks_on));
        // It is alive: it renews.
        auto const before = looks_on.expiry("k");
        BOOST_REQUIRE(p.until([&] { return looks_on.expiry("k") > before + 100ms; }));
        BOOST_TEST(!w.done);
        holder.kill();
        auto const expiry = looks_on.expiry("k");
        BOOST_TEST((expiry > wall_clock::now() + 300ms));
        BOOST_REQUIRE(p.until([&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
        BOOST_TEST((w.when >= expiry - clock_slack));
        BOOST_TEST((w.when < expiry + 5s));
        BOOST_TEST(p.releases(w.held));
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(an_instance_that_freezes_in_mid_contention_fails_nobody) {
    check_without_each([](server& one) { one.freeze(); }, [](server& one) { one.thaw(); });
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_killed_in_mid_contention_fails_nobody) {
    check_without_each([](server& one) { one.kill(); }, [](server& one) { one.restart(); });
}

BOOST_AUTO_TEST_CASE(a_foreign_del_wakes_the_waiter) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits_for_push(p, f));
        BOOST_TEST(!w.done);
        f.del("k");
        check_gets(p, w);
        BOOST_TEST(p.locks.stats().pushes > 0U);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_foreign_compare_and_delete_wakes_the_waiter) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits_for_push(p, f));
        BOOST_TEST(!w.done);
        f.del_by_script("k");
        check_gets(p, w);
        check_nothing_left(p, servers);
    });
}

// The deletion and the first question of the waiter pass each other in every order.
BOOST_AUTO_TEST_CASE(a_foreign_del_at_any_moment_is_noticed) {
    fleet servers(3);
    foreigner f(servers);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    for (int turns = 0; turns < 60; ++turns) {
        BOOST_TEST_CONTEXT("after " << turns << " turns") {
            f.hold("k");
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            p.context.restart();
            for (int i = 0; i < turns; ++i) p.context.run_one_for(1ms);
            BOOST_TEST(!w.done);
            f.del("k");
            check_gets(p, w);
            // A release is over at the quorum.
            BOOST_REQUIRE(p.sees(servers, "k", false));
        }
    }
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(a_key_that_never_expires_is_waited_for_and_reported) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold_for_ever("k");
        party p(servers);
        waiting limited;
        limited.start_for(p.locks.make_lock("k", long_lived), 500ms);
        BOOST_REQUIRE(waits(p));
        BOOST_REQUIRE(p.until([&] { return limited.done; }));
        BOOST_TEST((limited.how == errc::wait_timeout), limited.how.what());
        auto const* const why = limited.how.report();
        BOOST_REQUIRE(why != nullptr);
        std::size_t known = 0;
        for (auto const& i : why->instances) {
            if (!i.ttl_known) continue;
            ++known;
            BOOST_TEST(!i.ttl_left.has_value(), limited.how.what());
        }
        BOOST_TEST(known > 0U, limited.how.what());
        BOOST_TEST(limited.how.what().find("never expires") != std::string::npos,
                   limited.how.what());
        BOOST_TEST(p.locks.stats().waiters == 0U);

        auto const already = f.tracked();
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits(p));
        // The registration of the first one may still be good.
        if (already == 0) BOOST_REQUIRE(waits_for_push(p, f));
        BOOST_TEST(!w.done);
        f.del("k");
        check_gets(p, w);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_key_that_expires_everywhere_goes_to_the_waiter) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k", 700ms);
        auto const expiry = f.expiry("k");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(p.until([&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
        BOOST_TEST((w.when >= expiry - clock_slack));
        if (w.held) BOOST_TEST(p.releases(w.held));
        check_nothing_left(p, servers);
    });
}

// A holder that could not reach one instance leaves its key there; a majority is free all the same.
// Whichever instance the waiter is watching, it is one of them.
BOOST_AUTO_TEST_CASE(a_key_that_is_left_on_one_instance_keeps_nobody_waiting) {
    fleet servers(3);
    for (std::size_t i = 0; i < servers.size(); ++i) {
        BOOST_TEST_CONTEXT("left on instance " << i) {
            foreigner f(servers);
            f.hold("k");
            party p(servers);
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits_for_push(p, f));
            for (std::size_t other = 0; other < servers.size(); ++other) {
                if (other != i) BOOST_TEST(f.clis[other].del("k"));
            }
            BOOST_TEST(p.until([&] { return w.done; }));
            BOOST_TEST(w.won(), w.how.what());
            if (w.held) BOOST_TEST(p.releases(w.held));
            f.flush();
            BOOST_REQUIRE(p.until([&] { return w.done; }));
            w.held = {};
            check_nothing_left(p, servers);
        }
    }
}

namespace {

// The looks at all instances begin later than this.
constexpr auto before_any_look = 5s;

// Somebody waits for a key that a foreigner holds on five instances, and has waited for long enough
// to watch it beside its arbiter. Then a majority becomes free, and two instances keep the key:
// each of the five is one of those in one of the rounds.
template <class Free>
void check_noticed_without(Free free, bool expires = false) {
    fleet servers(5);
    for (std::size_t kept = 0; kept < servers.size(); ++kept) {
        BOOST_TEST_CONTEXT("kept by instance " << kept << " and the next") {
            foreigner f(servers);
            f.hold("k");
            party p(servers, trusting(patient()));
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(p));
            BOOST_REQUIRE(p.until([&] { return f.tracked() >= 3; }));
            BOOST_TEST(!w.done);
            for (std::size_t n = 2; n < servers.size(); ++n) {
                auto const i = (kept + n) % servers.size();
                free(f.clis[i], n);
                // One after the other: what was found free at first is not the end of it.
                if (!expires) p.pass(lease_clock::now() + 20ms);
            }
            auto const freed = wall_clock::now();
            BOOST_TEST(run_until(
                p.context, [&] { return w.done; }, before_any_look));
            BOOST_TEST(w.won(), w.how.what());
            BOOST_TEST_MESSAGE(
                "noticed after "
                << std::chrono::duration_cast<std::chrono::milliseconds>(w.when - freed).count()
                << " ms");
            if (w.held) BOOST_TEST(p.releases(w.held));
            f.flush();
            w.held = {};
            check_nothing_left(p, servers);
        }
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(a_majority_that_is_deleted_wakes_whichever_instances_keep_the_key) {
    check_noticed_without([](redis_cli& cli, std::size_t) { BOOST_TEST(cli.del("k")); });
}

BOOST_AUTO_TEST_CASE(a_majority_that_is_flushed_wakes_whichever_instances_keep_the_key) {
    check_noticed_without([](redis_cli& cli, std::size_t) { cli.flush(); });
}

// As votes of failed tries do that nobody takes back.
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
    auto soon = hasty();
    for (std::size_t frozen = 0; frozen < servers.size(); ++frozen) {
        BOOST_TEST_CONTEXT("frozen: instance " << frozen) {
            foreigner f(servers);
            f.hold("k");
            party p(servers, soon);
            BOOST_REQUIRE(p.all_up());
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(p));
            BOOST_REQUIRE(p.until([&] { return f.tracked() >= 3; }));
            BOOST_TEST(f.clis[frozen].del("k"));
            servers[frozen].freeze();
            BOOST_REQUIRE(p.becomes(frozen, instance_state::suspect));
            for (std::size_t n = 1; n < 3; ++n) {
                BOOST_TEST(f.clis[(frozen + n) % servers.size()].del("k"));
            }
            p.pass(lease_clock::now() + 300ms);
            BOOST_TEST(!w.done, w.how.what());
            servers[frozen].thaw();
            BOOST_TEST(run_until(
                p.context, [&] { return w.done; }, before_any_look));
            BOOST_TEST(w.won(), w.how.what());
            if (w.held) BOOST_TEST(p.releases(w.held));
            f.flush();
            w.held = {};
            check_nothing_left(p, servers);
        }
    }
}

// Whichever instance the waiter has as its arbiter, it is one of them. It is frozen for less than
// instance_timeout, so that nobody finds that out.
BOOST_AUTO_TEST_CASE(a_release_while_the_arbiter_is_frozen_wakes_the_waiter) {
    fleet servers(5);
    for (std::size_t frozen = 0; frozen < servers.size(); ++frozen) {
        BOOST_TEST_CONTEXT("frozen: instance " << frozen) {
            foreigner f(servers);
            f.hold("k");
            party p(servers);
            BOOST_REQUIRE(p.all_up());
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(p));
            BOOST_REQUIRE(p.until([&] { return f.tracked() >= 3; }));
            servers[frozen].freeze();
            for (std::size_t n = 1; n < servers.size(); ++n) {
                BOOST_TEST(f.clis[(frozen + n) % servers.size()].del("k"));
            }
            BOOST_TEST(run_until(
                p.context, [&] { return w.done; }, before_any_look));
            BOOST_TEST(w.won(), w.how.what());
            servers[frozen].thaw();
            if (w.held) BOOST_TEST(p.releases(w.held));
            f.flush();
            w.held = {};
            check_nothing_left(p, servers);
        }
    }
}

BOOST_AUTO_TEST_CASE(flushall_wakes_the_waiter) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k");
        party p(servers, trusting(patient())); // it takes a flush for what it is here
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits_for_push(p, f));
        BOOST_TEST(!w.done);
        f.flush();
        check_gets(p, w);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_waiter_whose_connections_were_killed_one_by_one_waits_on) {
    fleet servers(3);
    foreigner f(servers);
    f.hold("k");
    party p(servers);
    waiting w;
    w.start(p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits_for_push(p, f));
    for (std::size_t i = 0; i < servers.size(); ++i) {
        auto const before = p.status(i).connections;
        BOOST_TEST(f.clis[i].command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
        BOOST_REQUIRE(p.until([&] { return p.status(i).connections > before; }));
        BOOST_TEST(!w.done);
    }
    f.del("k");
    check_gets(p, w);
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(a_waiter_whose_connections_were_all_killed_is_woken_on_the_new_ones) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits_for_push(p, f));
        auto const already = f.tracked();
        BOOST_TEST(f.kill_clients() >= static_cast<std::int64_t>(servers.size()));
        BOOST_REQUIRE(p.until([&] { return p.status(0).connections > 1; }));
        BOOST_REQUIRE(p.all_up());
        BOOST_TEST(!w.done, w.how.what());
        if (!w.done) BOOST_TEST(waits_for_push(p, f, already));
        f.del("k");
        check_gets(p, w);
        check_nothing_left(p, servers);
    });
}

// The push that tells of it has no connection to come on.
BOOST_AUTO_TEST_CASE(a_del_while_there_is_no_connection_is_noticed) {
    with_each_fleet([](fleet& servers) {
        foreigner f(servers);
        f.hold("k");
        party p(servers);
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits_for_push(p, f));
        BOOST_TEST(f.kill_clients() >= static_cast<std::int64_t>(servers.size()));
        f.del("k");
        check_gets(p, w);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(the_holders_renewals_do_not_make_the_waiter_spin) {
    with_each_fleet([](fleet& servers) {
        company c(servers, 2, patient());
        auto& holder = *c.clients[0];
        auto& waiter = *c.clients[1];
        waiting first, second;
        first.start(c.key_of(0, "k", {.ttl = 900ms}));
        BOOST_REQUIRE(c.until([&] { return first.done; }));
        second.start(c.key_of(1, "k"));
        BOOST_REQUIRE(c.until([&] { return waiter.stats().waiters == 1; }));
        auto const renewals = holder.stats().renewals;
        BOOST_REQUIRE(c.until([&] { return holder.stats().renewals >= renewals + 2; }));

        auto const start = wall_clock::now();
        auto const holder_before = holder.stats();
        auto const waiter_before = waiter.stats();
        BOOST_REQUIRE(
            c.until([&] { return holder.stats().renewals >= holder_before.renewals + 12; }));
        auto const renewed = holder.stats().renewals - holder_before.renewals;
        auto const waiter_after = waiter.stats();
        auto const seconds =
            std::chrono::duration_cast<std::chrono::seconds>(wall_clock::now() - start).count();
        // Each instance is pinged less than once a second.
        auto const pings = static_cast<std::uint64_t>(seconds + 1) * servers.size();
        BOOST_TEST(waiter_after.pushes > waiter_before.pushes);
        BOOST_TEST(waiter_after.commands - waiter_before.commands <= 8 * renewed + pings);
        BOOST_TEST(waiter_after.acquired == 0U);
        BOOST_TEST(!second.done);
        BOOST_TEST(holder.stats().lost == 0U);

        auto released = false;
        first.held.release([&](release_result r) {
            BOOST_TEST(static_cast<bool>(r));
            released = true;
        });
        BOOST_REQUIRE(c.until([&] { return released && second.done; }));
        BOOST_TEST(!second.how, second.how.what());
        second.held = {};
        BOOST_TEST(c.idle());
        BOOST_TEST(c.sees_no_keys(servers));
    });
}

namespace {

// Clients that acquire, hold, release and cancel at moments that a seed decides.
class storm {
public:
    storm(fleet const& servers, unsigned seed)
        : servers_(servers)
        , company_(servers, clients, patient())
        , random_(seed) {
        for (std::size_t c = 0; c < clients; ++c) {
            for (std::size_t k = 0; k < keys; ++k) {
                auto const key = k == 0 ? "hot" : "key:" + std::to_string(k);
                // What one tenure can serve, and what it cannot.
                for (auto const ttl : {30s, 60s}) {
                    locks_.push_back(company_.key_of(
                        c, key, {.ttl = ttl, .max_retry_delay = 5ms, .handoff_limit = 8}));
                }
            }
        }
    }

    // Until so many acquires were cancelled under way; then everything that is left comes to its
    // end.
    void blow(std::size_t cancellations) {
        company_.context.restart();
        auto const until = wall_clock::now() + 60s;
        for (std::size_t told = 0; told < cancellations;) {
            BOOST_REQUIRE((wall_clock::now() < until));
            // A few have the servers to themselves, many stand in each other's way.
            if (below(200) == 0) most_ = sizes[below(sizes.size())];
            auto const what = below(100);
            if (what < 45) {
                if (operations_.size() < most_) start();
            } else if (what < 85) {
                if (cancel()) ++told;
            } else {
                release();
            }
            for (auto turns = below(6); turns > 0; --turns) company_.context.poll_one();
            if (below(8) == 0) company_.context.run_one_for(200us);
            clear_up();
        }
        auto const all_done = company_.until(
            [&] {
                for (auto const& one : operations_) one->held = {};
                clear_up();
                return operations_.empty();
            },
            30s);
        BOOST_REQUIRE(all_done);
        BOOST_REQUIRE(company_.idle());
        BOOST_TEST(company_.sees_no_keys(servers_));
    }

    void check_fresh_acquires() {
        for (auto const& one : locks_) {
            waiting w;
            w.start_try(one);
            BOOST_REQUIRE(company_.until([&] { return w.done; }));
            BOOST_TEST(!w.how, w.how.what());
            auto released = w.how ? true : false;
            if (!released)
                w.held.release([&](release_result r) { released = static_cast<bool>(r); });
            BOOST_REQUIRE(company_.until([&] { return released; }));
        }
        for (auto const& one : company_.clients) {
            BOOST_TEST(one->stats().lost == 0U);
            BOOST_TEST(one->stats().waiters == 0U);
        }
    }

    std::size_t won = 0, cancelled = 0, timed_out = 0, unexpected = 0;
    std::string first_unexpected;

private:
    static constexpr std::size_t clients = 2, keys = 9;
    static constexpr std::array<std::size_t, 4> sizes{2, 5, 20, 200};

    struct operation : waiting {
        bool limited = false, tries_once = false, told = false, counted = false;
    };

    std::size_t below(std::size_t end) { return random_() % end; }

    void start() {
        auto one = std::make_unique<operation>();
        auto const key = below(2) == 0 ? 0 : below(keys);
        auto const& lock = locks_[(below(clients) * keys + key) * 2 + below(2)];
        auto const how = below(20);
        if (how == 0) {
            one->tries_once = true;
            one->start_try(lock);
        } else if (how < 6) {
            one->limited = true;
            one->start_for(lock, std::chrono::microseconds(1 + below(3'000)));
        } else {
            one->start(lock);
        }
        operations_.push_back(std::move(one));
    }
    bool cancel() {
        if (operations_.empty()) return false;
        auto& one = *operations_[below(operations_.size())];
        if (one.done || one.told) return false;
        one.told = true;
        one.signal.emit(every_type[below(every_type.size())]);
        return true;
    }
    void release() {
        for (auto const& one : operations_) {
            if (!one->held || below(2) == 0) continue;
            if (below(4) != 0) one->held.release([](release_result) {});
            one->held = {};
            return;
        }
    }
    void clear_up() {
        for (std::size_t i = 0; i < operations_.size();) {
            auto& one = operations_[i];
            if (one->done && !one->counted) {
                one->counted = true;
                count(*one);
            }
            if (one->done && !one->held) {
                std::swap(one, operations_.back());
                operations_.pop_back();
            } else {
                ++i;
            }
        }
    }
    void count(operation const& one) {
        if (!one.how) {
            ++won;
        } else if (one.told && one.how == errc::cancelled) {
            ++cancelled;
        } else if (one.limited && (one.how == errc::wait_timeout || one.how == errc::no_quorum)) {
            ++timed_out; // no_quorum: nobody had answered in that time
        } else if (!(one.tries_once && one.how == errc::contended) && unexpected++ == 0) {
            first_unexpected = one.how.what();
        }
        if (one.ended != 1 && unexpected++ == 0) first_unexpected = "a handler was called twice";
    }

    fleet const& servers_;
    company company_;
    std::mt19937 random_;
    std::size_t most_ = sizes.back();
    std::vector<lock> locks_;
    std::vector<std::unique_ptr<operation>> operations_;
};

} // namespace

BOOST_AUTO_TEST_CASE(ten_thousand_cancellations_leave_nothing_behind) {
    constexpr unsigned seed = 20'261;
    constexpr std::size_t in_all = 10'000, rounds = 5;
    fleet servers(3);
    storm s(servers, seed);
    std::vector<std::size_t> heap;
    for (std::size_t i = 0; i < rounds; ++i) {
        s.blow(in_all / rounds);
        heap.push_back(heap_in_use());
    }
    s.check_fresh_acquires();
    BOOST_TEST(s.unexpected == 0U, s.first_unexpected);
    // It was a storm.
    BOOST_TEST(s.cancelled > in_all / 2);
    BOOST_TEST(s.won > 100U);
    BOOST_TEST(s.timed_out > 100U);
#if !defined HOLDFAST_TEST_SANITIZED
    // Buffers and pools grow by less than that; 40 bytes a cancellation are more.
    BOOST_TEST(heap.back() <= heap.front() + 256 * 1024);
#endif
}

BOOST_AUTO_TEST_CASE(who_is_cancelled_while_being_given_the_key_passes_it_on) {
    fleet servers(3);
    for (bool const thread_safe : {true, false}) {
        for (bool const release_first : {true, false}) {
            for (auto const type : every_type) {
                BOOST_TEST_CONTEXT("thread safe " << thread_safe << ", release first "
                                                  << release_first << ", type "
                                                  << static_cast<int>(type)) {
                    auto options = patient();
                    options.thread_safe = thread_safe;
                    party p(servers, options);
                    auto held = p.hold("k");
                    auto const lock = p.locks.make_lock("k", long_lived);
                    waiting first, second;
                    first.start(lock);
                    second.start(lock);
                    BOOST_REQUIRE(waits(p, 2));
                    auto released = false;
                    auto const release = [&] {
                        held.release([&](release_result r) {
                            BOOST_TEST(static_cast<bool>(r));
                            released = true;
                        });
                    };
                    asio::post(p.context, [&] {
                        if (release_first) release();
                        first.signal.emit(type);
                        if (!release_first) release();
                    });
                    BOOST_REQUIRE(p.until([&] { return released && first.done; }));
                    // Too late to be cancelled is as good.
                    BOOST_TEST((first.how == errc::cancelled || (release_first && !first.how)),
                               first.how.what());
                    first.held = {};
                    check_gets(p, second);
                    BOOST_TEST(first.ended == 1);
                    check_nothing_left(p, servers);
                }
            }
        }
    }
}

// With the handoff on it is in memory that the key changes hands, with it off on the servers.
BOOST_AUTO_TEST_CASE(who_is_cancelled_some_turns_after_the_release_passes_the_key_on) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    for (unsigned const limit : {64U, 1U}) {
        lock_options const options{.ttl = 60s, .handoff_limit = limit};
        auto const lock = p.locks.make_lock("k", options);
        for (int turns = 0; turns < 40; ++turns) {
            BOOST_TEST_CONTEXT("handoff limit " << limit << ", " << turns << " turns") {
                auto held = p.hold("k", options);
                waiting first, second;
                first.start(lock);
                second.start(lock);
                BOOST_REQUIRE(waits(p, 2));
                auto released = false;
                held.release([&](release_result r) { released = static_cast<bool>(r); });
                p.context.restart();
                for (int i = 0; i < turns; ++i) p.context.run_one_for(1ms);
                first.signal.emit(every_type[static_cast<std::size_t>(turns) % every_type.size()]);
                BOOST_REQUIRE(p.until([&] { return released && first.done; }));
                BOOST_TEST((!first.how || first.how == errc::cancelled), first.how.what());
                first.held = {};
                check_gets(p, second);
            }
        }
    }
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(who_is_shut_down_while_being_given_the_key_passes_it_on) {
    fleet servers(3);
    // The first waiter is of the holder's client, or of another one.
    for (std::size_t const of : {0U, 1U}) {
        for (bool const release_first : {true, false}) {
            BOOST_TEST_CONTEXT("first waiter of client " << of << ", release first "
                                                         << release_first) {
                company c(servers, 3, patient());
                waiting holder, first, second;
                holder.start(c.key_of(0, "k"));
                BOOST_REQUIRE(c.until([&] { return holder.done; }));
                first.start(c.key_of(of, "k"));
                second.start(c.key_of(2, "k"));
                BOOST_REQUIRE(c.until([&] {
                    return c.clients[of]->stats().waiters == 1 &&
                           c.clients[2]->stats().waiters == 1;
                }));
                auto released = false, down = false;
                auto const release = [&] {
                    holder.held.release([&](release_result) { released = true; });
                };
                asio::post(c.context, [&] {
                    if (release_first) release();
                    c.clients[of]->shutdown([&](error) { down = true; });
                    if (!release_first) release();
                });
                BOOST_REQUIRE(c.until([&] { return released && down && first.done; }));
                BOOST_TEST((!first.how || first.how == errc::shut_down), first.how.what());
                BOOST_TEST(!first.held.held());
                BOOST_REQUIRE(c.until([&] { return second.done; }));
                BOOST_TEST(!second.how, second.how.what());
                BOOST_TEST(second.held.held());
                second.held = {};
                BOOST_TEST(c.idle());
                BOOST_TEST(c.sees_no_keys(servers));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(whose_time_is_up_while_being_given_the_key_passes_it_on) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto const lock = p.locks.make_lock("k", long_lived);
    std::mt19937 random(4711);
    std::size_t won = 0, timed_out = 0;
    for (int i = 0; i < 200; ++i) {
        BOOST_TEST_CONTEXT("try " << i) {
            auto held = p.hold("k");
            waiting first, second;
            auto const limit = 1ms;
            // Around the moment at which the time is up, in the same turn as that and in others.
            auto const moment =
                wall_clock::now() + limit - 300us + std::chrono::microseconds(random() % 400);
            auto const idle = random() % 2 == 0;
            first.start_for(lock, limit);
            second.start(lock);
            p.context.restart();
            if (idle) {
                for (int turns = 0; turns < 20; ++turns) p.context.poll_one();
            }
            while (wall_clock::now() < moment) {
                if (!idle) p.context.poll_one();
            }
            auto released = false;
            held.release([&](release_result r) { released = static_cast<bool>(r); });
            BOOST_REQUIRE(p.until([&] { return released && first.done; }));
            BOOST_TEST((!first.how || first.how == errc::wait_timeout), first.how.what());
            ++(first.how ? timed_out : won);
            first.held = {};
            check_gets(p, second);
            BOOST_TEST(first.ended == 1);
        }
    }
    BOOST_TEST_MESSAGE(won << " won, " << timed_out << " timed out");
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(without_handoff_everybody_gets_the_key_from_the_servers) {
    constexpr std::size_t everybody = 300;
    fleet servers(3);
    std::array const off{lock_options{.ttl = 60s, .handoff_limit = 1},
                         lock_options{.ttl = 60s, .handoff_time = 0ms}};
    for (auto const& options : off) {
        BOOST_TEST_CONTEXT("handoff_limit " << options.handoff_limit << ", handoff_time "
                                            << options.handoff_time.count()) {
            party p(servers);
            BOOST_REQUIRE(p.all_up());
            crowd c;
            for (std::size_t i = 0; i < everybody; ++i) join(p.context, p.locks, i, 1, options, c);
            BOOST_TEST(run_until(
                p.context, [&] { return c.done == everybody; }, 60s));
            BOOST_TEST(c.failed == 0U, c.first_failure);
            BOOST_TEST(c.violations == 0U);
            BOOST_TEST((c.asked == c.granted));
            auto const s = p.locks.stats();
            BOOST_TEST(s.handoffs == 0U);
            BOOST_TEST(s.acquired == everybody);
            // SET and release, on a quorum at least.
            BOOST_TEST(s.commands >= everybody * 2 * servers.quorum());
            check_nothing_left(p, servers);
        }
    }
}

namespace {

// As redis-py: SET NX PX, and where that is refused the same again after a pause.
class poller {
public:
    poller(server const& on, std::chrono::milliseconds pause)
        : cli_(on)
        , pause_(pause) {}

    void look() {
        auto const now = wall_clock::now();
        if (now < next_) return;
        if (cli_.set_if_absent("k", "polled", 10s)) {
            ++turns;
            cli_.del_if_equal("k", "polled");
        }
        next_ = now + pause_;
    }

    std::size_t turns = 0;

private:
    redis_cli cli_;
    std::chrono::milliseconds pause_;
    wall_clock::time_point next_{};
};

asio::awaitable<void> use_until(lock key, bool const& end, std::size_t& turns) {
    while (!end) {
        auto held = co_await key.acquire();
        ++turns;
        co_await held.release();
    }
}

struct mixed_fleet {
    std::size_t ours = 0, polled = 0;
};

// Two clients of 20 waiters each and a poller, until that has had so many turns, or for that long.
mixed_fleet mix(lock_options const& options, std::chrono::milliseconds pause, std::size_t turns,
                std::chrono::seconds limit) {
    fleet servers(1);
    company c(servers, 2, patient());
    mixed_fleet seen;
    auto end = false;
    for (std::size_t n = 0; n < 40; ++n)
        c.start(use_until(c.key_of(n % 2, "k", options), end, seen.ours));
    poller other(servers[0], pause);
    auto const polled = c.until(
        [&] {
            other.look();
            return other.turns >= turns;
        },
        limit);
    BOOST_TEST_MESSAGE((polled ? "" : "not ")
                       << "enough: the poller at " << pause.count() << " ms had " << other.turns
                       << " turns beside " << seen.ours);
    seen.polled = other.turns;
    end = true;
    BOOST_TEST(c.until([&] { return c.working == 0; }, 30s));
    return seen;
}

} // namespace

BOOST_AUTO_TEST_CASE(pollers_get_the_key_from_those_who_yield_to_them) {
    for (auto const pause : {50ms, 100ms}) {
        lock_options options{.ttl = 60s};
        mix(options, pause, 20, 3s); // for the figures
        options.yield_to_pollers = pause;
        auto const yielding = mix(options, pause, 20, 30s);
        BOOST_TEST(yielding.polled >= 20U);
        BOOST_TEST(yielding.ours > 0U);
    }
}

namespace {

asio::awaitable<void> use_once(client& locks, std::size_t number, std::size_t& done,
                               std::size_t& failed) {
    auto const lock = locks.make_lock("key:" + std::to_string(number), long_lived);
    auto acquired = co_await lock.acquire(asio::as_tuple);
    auto& [e, held] = acquired;
    if (e) {
        ++failed;
    } else if (!co_await held.release()) {
        ++failed;
    }
    ++done;
}

} // namespace

BOOST_AUTO_TEST_CASE(keys_that_were_used_once_leave_no_memory_behind) {
#if defined HOLDFAST_TEST_SANITIZED
    constexpr std::size_t batches = 20;
#else
    constexpr std::size_t batches = 1'000;
#endif
    constexpr std::size_t batch = 1'000, first_batches = 10;
    fleet servers(1);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    std::size_t failed = 0;
    [[maybe_unused]] std::size_t after_first = 0;
    for (std::size_t b = 0; b < batches; ++b) {
        std::size_t done = 0, started = 0;
        for (std::size_t i = 0; i < batch; ++i) {
            // Every fourth has a second one who waits for it.
            for (std::size_t n = i % 4 == 0 ? 2 : 1; n > 0; --n) {
                ++started;
                asio::co_spawn(p.context, use_once(p.locks, b * batch + i, done, failed),
                               [](std::exception_ptr thrown) {
                                   if (thrown) std::rethrow_exception(thrown);
                               });
            }
        }
        BOOST_REQUIRE(p.until([&] { return done == started && p.locks.stats().held == 0; }));
        if (b + 1 == first_batches) after_first = heap_in_use();
    }
    BOOST_TEST(failed == 0U);
#if !defined HOLDFAST_TEST_SANITIZED
    // Buffers and pools go up and down by less than that; one byte a key is more.
    BOOST_TEST(heap_in_use() <= after_first + 768 * 1024);
#endif
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(where_tracking_is_refused_waiters_poll) {
    with_each_fleet([](fleet& servers) {
        std::vector<address> where;
        for (server& one : servers) {
            BOOST_REQUIRE(redis_cli(one)
                              .command({"ACL", "SETUSER", "polling", "on", ">pw", "~*", "&*",
                                        "+@all", "-client|tracking", "-client|caching"})
                              .is_ok());
            where.emplace_back("redis://polling:pw@" + one.address());
        }
        foreigner f(servers);
        party p(where);
        BOOST_REQUIRE(p.all_up());
        // Released by another client of ours.
        {
            party other(servers);
            auto held = other.hold("k");
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(p));
            BOOST_TEST(!w.done);
            BOOST_TEST(other.releases(held));
            check_gets(p, w);
            // A release is over at the quorum.
            BOOST_REQUIRE(p.sees(servers, "k", false));
        }
        // Deleted by a foreign one.
        f.hold("k");
        waiting w;
        w.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(waits(p));
        BOOST_TEST(!w.done);
        f.del("k");
        check_gets(p, w);
        // And a crowd of theirs.
        crowd c;
        for (std::size_t i = 0; i < 200; ++i) join(p.context, p.locks, i, 1, long_lived, c);
        BOOST_TEST(p.until([&] { return c.done == 200; }));
        BOOST_TEST(c.failed == 0U, c.first_failure);
        BOOST_TEST(c.violations == 0U);
        BOOST_TEST(p.locks.stats().pushes == 0U);
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_refusal_names_the_holder_and_not_its_token) {
    with_each_fleet([](fleet& servers) {
        auto options = patient();
        options.owner_label = "worker-7";
        party labelled(servers, options);
        party p(servers);
        auto held = labelled.hold("k");
        BOOST_REQUIRE(labelled.sees(servers, "k", true));
        std::vector<std::string> secrets;
        for (server& one : servers) {
            auto const token = redis_cli(one).get("k").value_or("");
            BOOST_REQUIRE(token.rfind("worker-7:", 0) == 0U);
            secrets.push_back(token.substr(9));
            BOOST_TEST(secrets.back().size() == 32U);
        }
        auto const [e, none] = p.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_REQUIRE(e.report() != nullptr);
        BOOST_TEST(e.report()->holder == "worker-7");
        std::size_t named = 0;
        for (auto const& i : e.report()->instances) {
            if (i.holder == "worker-7") ++named;
        }
        BOOST_TEST(named >= servers.quorum());
        BOOST_TEST(e.what().find("worker-7") != std::string::npos, e.what());
        for (auto const& one : secrets)
            BOOST_TEST(e.what().find(one) == std::string::npos, e.what());
        BOOST_TEST(labelled.releases(held));
    });
}

BOOST_AUTO_TEST_CASE(a_refusal_by_our_own_client_says_so_without_asking_a_server) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    BOOST_REQUIRE(p.sees(servers, "k", true));
    auto const before = p.locks.stats().rounds;
    auto const [e, none] = p.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(p.locks.stats().rounds == before);
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->holder == this_client);
    BOOST_TEST(e.what().find(this_client) != std::string::npos, e.what());
    BOOST_TEST(p.releases(held));
}

BOOST_AUTO_TEST_CASE(a_refusal_does_not_tell_the_value_of_a_foreign_key) {
    fleet servers(3);
    foreigner f(servers);
    f.hold("k");
    party p(servers);
    auto const [e, none] = p.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->holder.empty());
    BOOST_TEST(e.what().find(foreigner::token) == std::string::npos, e.what());
}

// A try goes on for the next in the queue when the one that it was begun for has left; its options
// do not.
BOOST_AUTO_TEST_CASE(a_lease_has_the_watchdog_of_its_own_call) {
    for (auto const watched : {true, false}) {
        BOOST_TEST_CONTEXT("watchdog " << watched) {
            server one;
            proxy wire(one);
            party p({address(wire.address())});
            BOOST_REQUIRE(p.all_up());
            waiting first;
            waiting second;
            wire.hold_replies();
            first.start(p.locks.make_lock("k", {.ttl = 600ms, .watchdog = !watched}));
            second.start(p.locks.make_lock("k", {.ttl = 600ms, .watchdog = watched}));
            BOOST_REQUIRE(waits(p));
            first.signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(p.until([&] { return first.done; }));
            wire.resume();
            BOOST_REQUIRE(p.until([&] { return second.done; }));
            BOOST_TEST(!second.how, second.how.what());
            auto const end = second.held.deadline();
            p.pass(end);
            BOOST_TEST(second.held.held() == watched);
        }
    }
}

// However many there are, they have all waited for as long.
BOOST_AUTO_TEST_CASE(silent_servers_are_told_to_the_whole_queue_at_once) {
    fleet servers(3);
    servers.freeze(3);
    // Slow to be given up: the waiters must not wait for that.
    party p(servers, {.instance_timeout = 200ms, .connect_timeout = 30s});
    std::array<waiting, 6> queue;
    for (auto& w : queue) w.start(p.locks.make_lock("k", long_lived));
    BOOST_TEST(p.until([&] {
        return std::all_of(queue.begin(), queue.end(), [](waiting const& w) { return w.done; });
    }));
    for (auto const& w : queue) BOOST_TEST((w.how == error_condition::unavailable), w.how.what());
}

// The process is stopped while a try is under way. Nobody is to blame the servers for that.
BOOST_AUTO_TEST_CASE(a_pause_of_the_process_longer_than_the_ttl_fails_nobody) {
    static constexpr auto ttl = 300ms;
    static constexpr lock_options options{.ttl = ttl};
    with_each_fleet([](fleet& servers) {
        wires ways(servers);
        party p(ways.addresses());
        BOOST_REQUIRE(p.all_up());
        // The answers have not been read when the process stops.
        auto const stop_in_mid_try = [&](auto start) {
            ways.hold_replies();
            start();
            p.context.restart();
            p.context.poll();
            std::this_thread::sleep_for(ttl + ttl / 2);
            ways.resume();
        };
        std::array<waiting, 30> queue;
        stop_in_mid_try([&] {
            for (auto& w : queue) w.start(p.locks.make_lock("k", options));
        });
        for (auto& w : queue) check_gets(p, w);

        waiting once;
        stop_in_mid_try([&] { once.start_try(p.locks.make_lock("k", options)); });
        check_gets(p, once);

        waiting limited;
        stop_in_mid_try([&] { limited.start_for(p.locks.make_lock("k", options), ttl); });
        BOOST_REQUIRE(p.until([&] { return limited.done; }));
        BOOST_TEST(
            (!limited.how || limited.how == errc::wait_timeout || limited.how == errc::no_quorum),
            limited.how.what());
        limited.held = {};
        check_nothing_left(p, servers);
    });
}

BOOST_AUTO_TEST_CASE(servers_that_are_slower_than_the_lease_is_long_are_told_to_the_queue) {
    server one;
    proxy wire(one);
    party p({address(wire.address())});
    BOOST_REQUIRE(p.all_up());
    wire.hold_replies();
    std::array<waiting, 6> queue;
    for (auto& w : queue) w.start(p.locks.make_lock("k", {.ttl = 200ms}));
    BOOST_TEST(p.until([&] {
        return std::all_of(queue.begin(), queue.end(), [](waiting const& w) { return w.done; });
    }));
    for (auto const& w : queue) BOOST_TEST((w.how == errc::granted_too_late), w.how.what());
    wire.resume();
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
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        auto const asked_for_pushes = [&] {
            for (server const& one : servers) {
                if (!redis_cli(one).info("cmdstat_client|caching").empty()) return true;
            }
            return false;
        };
        BOOST_TEST(!asked_for_pushes());
        auto const all_won = [&] { return p.locks.stats().rounds == p.locks.stats().acquired; };
        // The vote against it may come after the release.
        for (int turn = 0; turn < 20 && all_won() && !listened; ++turn) {
            auto held = p.hold("k");
            BOOST_TEST(p.releases(held));
            listened = asked_for_pushes() && all_won();
        }
    }
    BOOST_TEST(listened);
}

BOOST_AUTO_TEST_CASE(a_client_that_stands_back_can_end) {
    fleet servers(1);
    party other(servers);
    asio::io_context context;
    {
        auto held = other.hold("k");
        client locks(context.get_executor(), addresses_of(servers), patient());
        waiting w;
        w.start(locks.make_lock("k", long_lived));
        BOOST_REQUIRE(run_until(context, [&] { return locks.stats().waiters == 1; }));
        BOOST_TEST(other.releases(held));
        BOOST_REQUIRE(run_until(context, [&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
    }
    // Nothing of it is left to run.
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    BOOST_TEST(other.sees_no_keys(servers[0]));
}

BOOST_AUTO_TEST_CASE(whose_time_is_up_between_two_holders_was_kept_by_a_holder) {
    server one;
    proxy wire(one);
    party p({address(wire.address())});
    BOOST_REQUIRE(p.all_up());
    lock_options const no_handoff{.ttl = 60s, .handoff_limit = 1};
    auto held = p.hold("k", no_handoff);
    waiting w;
    w.start_for(p.locks.make_lock("k", no_handoff), 300ms);
    BOOST_REQUIRE(waits(p));
    // The release, and all that follows it, is not answered while the time lasts.
    wire.hold_replies();
    held = {};
    BOOST_REQUIRE(p.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::wait_timeout), w.how.what());
    wire.resume();
}

BOOST_AUTO_TEST_CASE(a_key_that_expires_in_three_hundred_years_is_waited_for) {
    server one;
    redis_cli cli(one);
    party p({address(one.address())});
    for (auto const* const ttl : {"9223372036854", "13000000000000"}) {
        BOOST_TEST_CONTEXT("PX " << ttl) {
            BOOST_TEST(!cli.command({"SET", "k", "foreign", "PX", ttl}).is_error());
            waiting w;
            w.start(p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(waits(p));
            auto const rounds = p.locks.stats().rounds;
            p.pass(lease_clock::now() + 300ms);
            BOOST_TEST(p.locks.stats().rounds <= rounds + 2);
            BOOST_TEST(cli.del("k"));
            check_gets(p, w);
        }
    }
}

// The shortest ttl, whose renewals fall due as fast as they fail.
BOOST_AUTO_TEST_CASE(the_shortest_leases_are_lost_when_their_servers_go) {
    server one;
    party p({address(one.address())});
    std::array<waiting, 60> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].start(p.locks.make_lock("k" + std::to_string(i), {.ttl = min_ttl}));
    }
    BOOST_REQUIRE(p.until([&] {
        return std::all_of(all.begin(), all.end(), [](waiting const& w) { return w.done; });
    }));
    one.kill();
    BOOST_TEST(p.until([&] { return p.locks.stats().held == 0; }));
}

// The own lease is lost while another waits, and the next try goes to one instance alone.
BOOST_AUTO_TEST_CASE(instances_that_were_not_asked_are_not_called_unreachable) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k", {.ttl = 300ms});
    waiting w;
    w.start_for(p.locks.make_lock("k", {.ttl = 300ms}), 1s);
    BOOST_REQUIRE(waits(p));
    for (server& one : servers) redis_cli(one).set("k", "foreign", 60s);
    BOOST_REQUIRE(p.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::wait_timeout), w.how.what());
    BOOST_REQUIRE(w.how.report() != nullptr);
    for (auto const& i : w.how.report()->instances) {
        BOOST_TEST(
            (i.outcome == instance_outcome::held || i.outcome == instance_outcome::not_needed),
            w.how.what());
    }
    BOOST_TEST(w.how.report()->up == 3U);
}

// Cancelled in a way that must have no effect, it waits for its try, and not for one at the next
// arbiter.
BOOST_AUTO_TEST_CASE(a_total_cancellation_does_not_wait_for_another_arbiter) {
    fleet servers(3);
    wires ways(servers);
    for (auto& one : ways.all) one.delay_replies(120ms); // so that an answer is not late too soon
    party p(ways.addresses());
    foreigner f(servers);
    f.hold("k");
    waiting w;
    w.start(p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits_for_push(p, f));
    ways.hold_requests();
    f.del("k");
    // SET, CACHING, PTTL: the arbiter's wire has the try.
    auto arbiter = ways.all.end();
    BOOST_REQUIRE(p.until([&] {
        arbiter = std::find_if(ways.all.begin(), ways.all.end(),
                               [](auto const& way) { return way.commands_held() >= 3; });
        return arbiter != ways.all.end();
    }));
    w.signal.emit(asio::cancellation_type::total);
    arbiter->cut();
    ways.resume();
    BOOST_REQUIRE(p.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::cancelled), w.how.what());
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_SUITE_END()
