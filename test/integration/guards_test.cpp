// Instances that restart may have forgotten what they granted, and instances whose clock jumps have
// let it expire too early. Whoever guards against it waits that out, and no lock has two holders;
// without the guards it has, which shows that these tests see it.
#include "integration/party.hpp"
#include "integration/wires.hpp"
#include "support/proxy.hpp"
#include "support/wait.hpp"

#include <boost/algorithm/string/join.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using milliseconds = std::chrono::milliseconds;
using words = std::vector<std::string>;

words const nothing{};
words const everysec{"--appendonly", "yes", "--appendfsync", "everysec"};
words const always{"--appendonly", "yes", "--appendfsync", "always"};

/// Nobody extends it, so nobody hears of what happens to it, and it ends at its deadline.
constexpr lock_options unwatched(milliseconds ttl) {
    return {.ttl = ttl, .watchdog = false};
}

client_options guarded(restart_policy how, milliseconds max_ttl,
                       client_options options = patient()) {
    options.on_restart = how;
    options.max_ttl = max_ttl;
    return options;
}

/// As patient() as can be with one question a second to be answered.
client_options brisk() {
    auto options = patient();
    options.instance_timeout = 1s;
    return options;
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

bool is_quarantined(party const& p, std::size_t i) {
    return p.status(i).state == instance_state::quarantined;
}

/// Whether the first `count`, and no others.
bool are_quarantined(party const& p, std::size_t count) {
    auto const all = p.locks.instances();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if ((all[i].state == instance_state::quarantined) != (i < count)) return false;
    }
    return true;
}

/// It votes.
bool is_trusted(party const& p, std::size_t i) {
    auto const s = p.status(i);
    return s.state == instance_state::up && !s.reason.failed() && s.message.empty() &&
           s.quarantined_until <= lease_clock::now();
}

bool all_trusted(party const& p) {
    for (std::size_t i = 0; i < p.locks.instances().size(); ++i) {
        if (!is_trusted(p, i)) return false;
    }
    return true;
}

/// They vote, and no quarantine was ever begun that a longest ttl of minutes would not still show.
bool were_always_trusted(client const& c) {
    auto const all = c.instances();
    return std::all_of(all.begin(), all.end(), [](auto const& s) {
        return s.state == instance_state::up && s.quarantined_until == lease_clock::time_point{};
    });
}

void check_quarantined(party const& p, std::size_t i, std::string_view why) {
    auto const s = p.status(i);
    BOOST_TEST_CONTEXT("instance " << i) {
        BOOST_TEST((s.state == instance_state::quarantined), to_string(s.state));
        BOOST_TEST(s.reason == make_error_code(errc::quarantined));
        BOOST_TEST(contains(s.message, why), s.message);
        BOOST_TEST((s.quarantined_until > lease_clock::now()));
    }
}

std::size_t quarantined_in(acquire_report const& r) {
    return static_cast<std::size_t>(
        std::count_if(r.instances.begin(), r.instances.end(), [](auto const& one) {
            return one.outcome == instance_outcome::quarantined;
        }));
}

/// An acquire failed because `count` instances are in quarantine.
void check_report(error const& e, std::size_t count, std::string_view why) {
    BOOST_TEST((e == errc::quarantined), e.what());
    BOOST_TEST((e == error_condition::unavailable));
    BOOST_REQUIRE(e.report() != nullptr);
    for (auto const& one : e.report()->instances) {
        if (one.outcome == instance_outcome::quarantined)
            BOOST_TEST(contains(one.message, why), one.message);
    }
    BOOST_TEST(quarantined_in(*e.report()) == count, e.what());
    BOOST_TEST(contains(e.what(), why), e.what());
}

constexpr std::string_view restarted = "may have forgotten locks";
constexpr std::string_view replaced = "its data may have been replaced";
constexpr std::string_view evicting = "may evict locks: set noeviction";
constexpr std::string_view flushed = "all its keys were flushed";
constexpr std::string_view jumped = "its clock has jumped ahead";

std::vector<std::uint64_t> connections_of(party const& p) {
    std::vector<std::uint64_t> all;
    for (auto const& one : p.locks.instances()) all.push_back(one.connections);
    return all;
}

using indexes = std::vector<std::size_t>;

indexes the_first(std::size_t count) {
    indexes all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(i);
    return all;
}

/// Waits until it is connected to these once more than before.
[[nodiscard]] bool is_back(party& p, std::vector<std::uint64_t> const& before,
                           indexes const& which) {
    return p.until([&] {
        auto const all = p.locks.instances();
        return std::all_of(which.begin(), which.end(), [&](std::size_t i) {
            auto const connected =
                all[i].state == instance_state::up || all[i].state == instance_state::quarantined;
            return connected && all[i].connections > before[i];
        });
    });
}

/// Kills these and starts them again; returns when the clients have seen it.
void crash(fleet& servers, indexes const& which, std::initializer_list<party*> clients) {
    std::vector<std::vector<std::uint64_t>> before;
    for (auto const* p : clients) before.push_back(connections_of(*p));
    for (auto const i : which) servers[i].kill();
    for (auto const i : which) servers[i].restart();
    auto b = before.begin();
    for (auto* p : clients) BOOST_REQUIRE(is_back(*p, *b++, which));
}

/// The same for one server.
void crash(server& one, party& p) {
    auto const before = connections_of(p);
    one.kill();
    one.restart();
    BOOST_REQUIRE(is_back(p, before, {0}));
}

/// An acquire under way.
struct attempt {
    attempt(party& p, std::string_view key, lock_options const& options) {
        p.locks.make_lock(key, options).acquire([this](error e, lease l) {
            how = std::move(e);
            held = std::move(l);
            done = true;
        });
    }
    attempt(attempt const&) = delete;
    attempt& operator=(attempt const&) = delete;

    bool done = false;
    error how;
    lease held;
};

/// The instances at which somebody waits to be told of a key.
indexes asked_to_tell(fleet& servers) {
    indexes all;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        if (redis_cli(servers[i]).info("tracking_total_keys") != "0") all.push_back(i);
    }
    return all;
}

std::size_t tracked_keys(fleet& servers) {
    std::size_t all = 0;
    for (server& one : servers) all += std::stoul(redis_cli(one).info("tracking_total_keys"));
    return all;
}

/// It asks each of its instances, `times` times from now on, for its time and where its data comes
/// from.
[[nodiscard]] bool asks_the_time(party& p, unsigned times) {
    auto const enough = p.locks.stats().commands + 2 * times * p.locks.instances().size();
    return p.until([&] { return p.locks.stats().commands >= enough; });
}

/// Makes these replicas of `primary` until their data is that one's, and then primaries again.
void replace_data(fleet& servers, indexes const& which, server& primary) {
    for (auto const i : which) {
        redis_cli(servers[i]).command({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    }
    for (auto const i : which) {
        redis_cli cli(servers[i]);
        BOOST_REQUIRE(wait_until([&] { return cli.info("master_link_status") == "up"; }, 20s));
        cli.command({"REPLICAOF", "NO", "ONE"});
    }
}

/// A primary that begins a full resync at once.
server_options quick_primary() {
    return {.arguments = {"--repl-diskless-sync-delay", "0"}};
}

//
// A load, and who watches it
//

/// Looks whether two leases on a key are held at one time.
class referee {
public:
    void begins(std::string const& key, lease const& l) {
        std::lock_guard const lock(mutex_);
        auto& here = leases_[key];
        for (auto const* other : here) {
            // A lease that is over stays so: if it is held after the look at the other, it was at
            // the look.
            if (other->held() && l.held()) ++overlaps_;
        }
        here.push_back(&l);
    }
    /// Before it is released.
    void ends(std::string const& key, lease const& l) {
        std::lock_guard const lock(mutex_);
        std::erase(leases_[key], &l);
    }
    unsigned overlaps() const { return overlaps_; }

private:
    std::mutex mutex_;
    std::map<std::string, std::vector<lease const*>> leases_;
    std::atomic<unsigned> overlaps_{0};
};

/// A client in a thread of its own whose coroutines take locks and give them back, until it is
/// stopped.
class load {
public:
    load(fleet const& servers, client_options const& options, std::vector<std::string> const& keys,
         referee& judge)
        : locks_(context_.get_executor(), addresses_of(servers), options)
        , judge_(judge) {
        for (auto const& key : keys) {
            for (int i = 0; i < 3; ++i) {
                ++running_;
                asio::co_spawn(context_, work(key), [this](std::exception_ptr e) {
                    if (e) ++surprises_;
                    if (--running_ == 0) context_.stop();
                });
            }
        }
        thread_ = std::jthread([this] { context_.run(); });
    }
    ~load() { stop(); }
    load(load const&) = delete;
    load& operator=(load const&) = delete;

    /// Nobody is given up: each gets its lease first.
    bool stop() {
        stopping_ = true;
        if (!thread_.joinable()) return true;
        auto const ended = wait_until([&] { return running_ == 0; }, 20s);
        if (!ended) context_.stop();
        thread_.join();
        return ended;
    }

    client const& locks() const { return locks_; }
    unsigned grants() const { return grants_; }
    unsigned failures() const { return failures_; }
    unsigned surprises() const { return surprises_; }

private:
    asio::awaitable<void> work(std::string key) {
        auto const lock = locks_.make_lock(key, {.ttl = 1s, .handoff_limit = 3});
        asio::steady_timer timer(context_);
        while (!stopping_) {
            auto acquired = co_await lock.acquire(asio::as_tuple);
            auto& [e, l] = acquired;
            if (e) {
                ++failures_;
                if (e != error_condition::unavailable) ++surprises_;
                timer.expires_after(5ms);
            } else {
                judge_.begins(key, l);
                ++grants_;
                timer.expires_after(1ms);
            }
            co_await timer.async_wait(asio::deferred);
            if (e) continue;
            judge_.ends(key, l);
            co_await l.release();
        }
    }

    asio::io_context context_;
    client locks_;
    referee& judge_;
    std::atomic<bool> stopping_{false};
    std::atomic<unsigned> running_{0}, grants_{0}, failures_{0}, surprises_{0};
    std::jthread thread_;
};

using loads = std::vector<std::unique_ptr<load>>;

/// Each of them gets that many leases from now on.
[[nodiscard]] bool all_go_on(loads const& all, unsigned leases) {
    std::vector<unsigned> enough;
    for (auto const& one : all) enough.push_back(one->grants() + leases);
    return wait_until(
        [&] {
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (all[i]->grants() < enough[i]) return false;
            }
            return true;
        },
        15s);
}

unsigned failures_of(loads const& all) {
    unsigned sum = 0;
    for (auto const& one : all) sum += one->failures();
    return sum;
}

[[nodiscard]] bool each(loads const& all, std::function<bool(client const&)> const& holds) {
    return wait_until(
        [&] {
            return std::all_of(all.begin(), all.end(),
                               [&](auto const& one) { return holds(one->locks()); });
        },
        15s);
}

std::size_t count_of(client const& c, instance_state state) {
    auto const all = c.instances();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](auto const& s) { return s.state == state; }));
}

/// Three clients work; one more holds a lease on one of their keys over each crash, and does not
/// renew it.
struct scenario {
    scenario(words const& disk, restart_policy how, milliseconds longest)
        : servers(5, {.arguments = disk})
        , options(guarded(how, longest))
        , holder(servers, options) {
        for (int i = 0; i < 3; ++i) {
            working.push_back(std::make_unique<load>(servers, options,
                                                     std::vector<std::string>{"a", "b"}, judge));
        }
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(all_go_on(working, 3));
    }
    ~scenario() {
        for (auto const& one : working) one->stop();
    }

    fleet servers;
    client_options options;
    referee judge;
    party holder;
    loads working;
};

/// `forget` makes the first instance forget, and b notices.
void check_moves_on(std::function<void(fleet&, party& b)> const& forget) {
    fleet servers(3);
    auto const options = guarded(restart_policy::observed, 60s);
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    std::vector<lease> held;
    std::vector<std::unique_ptr<attempt>> waiting;
    // As many keys as it takes to have one whose arbiter is the first instance.
    for (int i = 0; i < 100; ++i) {
        auto const key = "key:" + std::to_string(i);
        held.push_back(a.hold(key, unwatched(60s)));
        BOOST_REQUIRE(a.sees(servers, key, true));
        waiting.push_back(std::make_unique<attempt>(b, key, unwatched(60s)));
        BOOST_REQUIRE(b.until([&] { return tracked_keys(servers) >= waiting.size(); }));
        auto const those = asked_to_tell(servers);
        if (i >= 3 && std::count(those.begin(), those.end(), 0U) > 0) break;
    }
    forget(servers, b);
    BOOST_TEST(is_quarantined(b, 0));
    // Not at the first any more.
    BOOST_REQUIRE(b.until([&] { return tracked_keys(servers) >= waiting.size(); }));
    auto const there = asked_to_tell(servers);
    BOOST_TEST(std::count(there.begin(), there.end(), 0U) == 0);
    for (auto const& w : waiting) BOOST_TEST(!w->done);
    a.runs_with(b);
    for (std::size_t i = 0; i < held.size(); ++i) {
        BOOST_TEST(held[i].held());
        BOOST_TEST(a.releases(held[i]));
        BOOST_TEST(b.until([&] { return waiting[i]->done; }));
        BOOST_TEST(!waiting[i]->how, waiting[i]->how.what());
        BOOST_TEST(waiting[i]->held.held());
    }
    BOOST_TEST(is_quarantined(b, 0));
    for (auto const& w : waiting) BOOST_TEST(b.releases(w->held));
    BOOST_TEST(b.sees_no_keys(servers));
}

} // namespace

BOOST_AUTO_TEST_SUITE(guards)

//
// Restarts: one holder of a lock
//

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_forgot_makes_a_second_holder) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        party a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        crash(servers, the_first(servers.quorum()), {&b});
        BOOST_TEST(all_trusted(b));
        // It waits: a try is over when two have refused and the others, which have just started,
        // are late.
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // the violation
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_forgot_makes_no_second_holder) {
    constexpr auto longest = 2s;
    with_fleets_of({1, 5}, [&](fleet& servers) {
        auto const n = servers.size();
        auto const options = guarded(restart_policy::observed, longest);
        party a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(longest));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        auto const before = lease_clock::now();
        crash(servers, the_first(servers.quorum()), {&b});
        BOOST_TEST(are_quarantined(b, servers.quorum()));
        lease_clock::time_point over{};
        for (std::size_t i = 0; i < servers.quorum(); ++i) {
            check_quarantined(b, i, restarted);
            auto const until = b.status(i).quarantined_until;
            BOOST_TEST((until >= before + longest));
            BOOST_TEST((until <= lease_clock::now() + longest));
            over = std::max(over, until);
        }
        for (auto i = servers.quorum(); i < n; ++i) BOOST_TEST(is_trusted(b, i));
        {
            auto const [e, none] = b.try_acquire("k", unwatched(longest));
            check_report(e, servers.quorum(), restarted);
            BOOST_TEST(!none);
        }
        {
            // Who did not wait when it began does not wait for its end.
            auto const [e, none] = b.acquire("k", unwatched(longest));
            check_report(e, servers.quorum(), restarted);
            BOOST_TEST(is_quarantined(b, 0));
        }
        BOOST_TEST(b.until([&] { return all_trusted(b); }));
        BOOST_TEST((lease_clock::now() >= over));
        auto [e, second] = b.acquire("k", unwatched(longest));
        BOOST_TEST(!e, e.what());
        BOOST_TEST(second.held());
        BOOST_TEST(!first.held());
        BOOST_TEST(b.releases(second));
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_has_all_on_disk_is_trusted_and_refuses) {
    for (auto const how : {restart_policy::off, restart_policy::observed, restart_policy::strict}) {
        fleet servers(3, {.arguments = always});
        auto const options = guarded(how, 60s);
        party a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        crash(servers, the_first(3), {&a, &b});
        BOOST_TEST(were_always_trusted(a.locks));
        BOOST_TEST(were_always_trusted(b.locks));
        auto const [e, none] = b.try_acquire("k", unwatched(60s));
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(first.held());
        BOOST_TEST(!a.extend(first));
        BOOST_TEST(a.releases(first));
        auto second = b.hold("k", unwatched(60s));
        BOOST_TEST(b.releases(second));
    }
}

BOOST_AUTO_TEST_CASE(who_had_it_all_on_disk_only_before_or_only_since_the_restart_has_forgotten) {
    for (auto const& [before, after] : {std::pair(nothing, always), std::pair(everysec, always),
                                        std::pair(always, everysec), std::pair(always, nothing)}) {
        server one({.arguments = before});
        party p({one.address()}, guarded(restart_policy::observed, 60s));
        BOOST_REQUIRE(p.all_up());
        auto const connections = connections_of(p);
        one.kill();
        one.set_arguments(after);
        one.restart();
        BOOST_REQUIRE(is_back(p, connections, {0}));
        check_quarantined(p, 0, restarted);
    }
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_no_restart) {
    fleet servers(3);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto const before = connections_of(p);
    for (server& one : servers) {
        BOOST_TEST(redis_cli(one).command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
    }
    BOOST_REQUIRE(is_back(p, before, the_first(3)));
    BOOST_TEST(were_always_trusted(p.locks));
}

BOOST_AUTO_TEST_CASE(the_guard_off_trusts_whatever_comes_back) {
    fleet servers(3);
    party p(servers, guarded(restart_policy::off, 60s));
    BOOST_REQUIRE(p.all_up());
    crash(servers, the_first(3), {&p});
    BOOST_TEST(were_always_trusted(p.locks));
    auto l = p.hold("k", unwatched(60s));
    BOOST_TEST(p.releases(l));
}

// The server's own uptime follows its wall clock, so it proves nothing.
BOOST_AUTO_TEST_CASE(neither_uptime_nor_a_new_connection_ends_a_quarantine) {
    constexpr auto longest = 3s;
    server one({.shiftable_clock = true});
    auto options = guarded(restart_policy::observed, longest);
    options.detect_clock_jumps = false;
    party p({one.address()}, options);
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    auto const over = p.status(0).quarantined_until;
    one.shift_clock(120s);
    redis_cli cli(one);
    BOOST_TEST(wait_until([&] { return std::stol(cli.info("uptime_in_seconds")) >= 100; }));
    auto const connections = connections_of(p);
    BOOST_TEST(cli.command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
    BOOST_REQUIRE(is_back(p, connections, {0}));
    auto const s = p.status(0);
    BOOST_TEST((s.state == instance_state::quarantined));
    BOOST_TEST((s.quarantined_until == over));
    BOOST_TEST(p.until([&] { return is_trusted(p, 0); }));
    BOOST_TEST((lease_clock::now() >= over));
}

BOOST_AUTO_TEST_CASE(a_second_restart_begins_a_quarantine_anew) {
    server one;
    party p({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    lease_clock::time_point last{};
    for (int i = 0; i < 3; ++i) {
        auto const before = lease_clock::now();
        crash(one, p);
        auto const until = p.status(0).quarantined_until;
        BOOST_TEST((until >= before + 60s));
        BOOST_TEST((until > last));
        last = until;
    }
}

//
// Who starts after a restart
//

BOOST_AUTO_TEST_CASE(a_strict_client_trusts_nobody_at_first_sight) {
    constexpr auto longest = 2500ms;
    fleet servers(3);
    auto const before = lease_clock::now();
    party p(servers, guarded(restart_policy::strict, longest));
    {
        // It is sent before anything is known of them, and what they grant is given back.
        auto const [e, none] = p.try_acquire("k", unwatched(longest));
        // The third may have been probed by then, or not.
        BOOST_REQUIRE(e.report() != nullptr);
        check_report(e, quarantined_in(*e.report()) == 3 ? 3 : 2, restarted);
        std::size_t granted = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            BOOST_TEST(p.becomes(i, instance_state::quarantined));
            BOOST_TEST(p.sees_no_keys(servers[i]));
            auto const calls = redis_cli(servers[i]).command({"INFO", "commandstats"}).string();
            if (contains(calls, "cmdstat_set:")) ++granted;
        }
        BOOST_TEST(granted >= 2U);
    }
    lease_clock::time_point over{};
    for (std::size_t i = 0; i < 3; ++i) {
        check_quarantined(p, i, restarted);
        over = std::max(over, p.status(i).quarantined_until);
    }
    BOOST_TEST((over >= before + longest));
    {
        auto const [e, none] = p.acquire("other", unwatched(longest));
        check_report(e, 3, restarted);
        BOOST_TEST(is_quarantined(p, 0));
    }
    BOOST_TEST(p.until([&] { return all_trusted(p); }));
    BOOST_TEST((lease_clock::now() >= over));
    auto l = p.hold("k", unwatched(longest));
    BOOST_TEST(p.releases(l));
    // And once more, after a restart that it sees.
    crash(servers, the_first(1), {&p});
    check_quarantined(p, 0, restarted);
}

BOOST_AUTO_TEST_CASE(what_a_quarantined_instance_grants_with_a_fence_is_given_back_too) {
    server one;
    party p({one.address()}, guarded(restart_policy::strict, 60s));
    auto const [e, none] =
        p.acquire("k", {.ttl = 60s, .fencing = true}); // sent before anything is known of it
    check_report(e, 1, restarted);
    redis_cli cli(one);
    BOOST_TEST(cli.exists("{k}:fence")); // so it was granted
    BOOST_TEST(p.until([&] { return !cli.exists("k"); }));
}

BOOST_AUTO_TEST_CASE(only_a_strict_client_minds_what_was_before_it) {
    fleet servers(3);
    server durable({.arguments = always});
    crash(servers, the_first(3), {});
    durable.kill();
    durable.restart();
    for (auto const how : {restart_policy::off, restart_policy::observed}) {
        party p(servers, guarded(how, 60s));
        auto l = p.hold("k", unwatched(60s));
        BOOST_TEST(p.all_up());
        BOOST_TEST(were_always_trusted(p.locks));
        BOOST_TEST(p.releases(l));
    }
    party p({durable.address(), servers[0].address()}, guarded(restart_policy::strict, 60s));
    BOOST_TEST(p.becomes(1, instance_state::quarantined));
    BOOST_TEST(p.becomes(0, instance_state::up));
}

//
// Those who wait, and those who hold
//

// An outage by quarantine is an outage: it is allowed an instance_timeout to pass.
BOOST_AUTO_TEST_CASE(who_waits_when_the_others_are_quarantined_is_served_after_it) {
    constexpr auto longest = 3s;
    for (auto const in_time : {true, false}) {
        BOOST_TEST_CONTEXT((in_time ? "in time" : "too late")) {
            fleet servers(3);
            // Somebody who does not hear of the restart.
            for (server& one : servers)
                BOOST_REQUIRE(redis_cli(one).set_if_absent("k", "foreign", 60s));
            party p(servers,
                    guarded(restart_policy::observed, longest, in_time ? patient() : hasty()));
            BOOST_REQUIRE(p.all_up());
            attempt w(p, "k", unwatched(longest));
            BOOST_REQUIRE(p.until([&] { return asked_to_tell(servers).size() == 1; }));
            auto const arbiter = asked_to_tell(servers).front();
            indexes others;
            for (auto const i : the_first(3)) {
                if (i != arbiter) others.push_back(i);
            }
            crash(servers, others, {&p});
            BOOST_TEST(is_quarantined(p, others.front()));
            BOOST_TEST(is_quarantined(p, others.back()));
            if (in_time) {
                BOOST_TEST(!w.done);
                auto const [e, none] = p.acquire("other", unwatched(longest));
                check_report(e, 2, restarted);
                BOOST_TEST(!w.done);
                auto const over = std::max(p.status(others.front()).quarantined_until,
                                           p.status(others.back()).quarantined_until);
                BOOST_TEST(p.until([&] { return w.done; }));
                BOOST_TEST(!w.how, w.how.what());
                BOOST_TEST(w.held.held());
                BOOST_TEST((lease_clock::now() >= over));
            } else {
                BOOST_TEST(p.until([&] { return w.done; }));
                check_report(w.how, 2, restarted);
                BOOST_TEST(is_quarantined(p, others.front()));
            }
        }
    }
}

// Its arbiter is one of them, and its holder's lease ends before the quarantine does.
BOOST_AUTO_TEST_CASE(who_waits_when_any_majority_is_quarantined_is_served_after_it) {
    constexpr auto longest = 2s;
    for (std::size_t const spared : {0U, 1U, 2U}) {
        BOOST_TEST_CONTEXT("all but " << spared) {
            fleet servers(3);
            auto const options = guarded(restart_policy::observed, longest);
            party a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto held = a.hold("k", unwatched(longest));
            attempt w(b, "k", unwatched(longest));
            BOOST_REQUIRE(b.until([&] { return asked_to_tell(servers).size() == 1; }));
            indexes those;
            for (auto const i : the_first(3)) {
                if (i != spared) those.push_back(i);
            }
            crash(servers, those, {&b});
            BOOST_TEST(is_quarantined(b, those.front()));
            BOOST_TEST(is_quarantined(b, those.back()));
            BOOST_TEST(b.until([&] { return w.done; }));
            BOOST_TEST(!w.how, w.how.what());
            BOOST_TEST(w.held.held());
            BOOST_TEST(!(held.held() && w.held.held()));
        }
    }
}

BOOST_AUTO_TEST_CASE(who_waits_at_an_arbiter_that_is_quarantined_moves_on) {
    check_moves_on([](fleet& servers, party& b) { crash(servers, the_first(1), {&b}); });
}

// And is not woken to win there what others may hold.
BOOST_AUTO_TEST_CASE(who_waits_at_an_arbiter_that_is_flushed_moves_on) {
    check_moves_on([](fleet& servers, party& b) {
        auto const before = b.locks.stats().pushes;
        redis_cli(servers[0]).flush();
        BOOST_REQUIRE(b.becomes(0, instance_state::quarantined));
        BOOST_TEST(b.locks.stats().pushes == before);
    });
}

// N = 3, one quarantined, one down: two answer, and that is not enough.
BOOST_AUTO_TEST_CASE(a_quarantined_minority_costs_nothing_and_has_no_vote) {
    fleet servers(3);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    crash(servers, the_first(1), {&p});
    for (int i = 0; i < 20; ++i) {
        auto l = p.hold("k", unwatched(60s));
        BOOST_TEST(!p.extend(l));
        BOOST_TEST(p.releases(l));
    }
    BOOST_TEST(p.locks.stats().acquire_failed == 0U);
    check_quarantined(p, 0, restarted);
    servers[1].kill();
    BOOST_REQUIRE(p.goes_down(1, errc::unreachable));
    for (int i = 0; i < 3; ++i) {
        auto const [e, none] = p.try_acquire("k", unwatched(60s));
        BOOST_TEST((e == errc::no_quorum), e.what());
        BOOST_REQUIRE(e.report() != nullptr);
        auto const& all = e.report()->instances;
        BOOST_TEST((all.at(0).outcome == instance_outcome::quarantined), e.what());
        BOOST_TEST((all.at(1).outcome == instance_outcome::unreachable), e.what());
        BOOST_TEST((all.at(2).outcome == instance_outcome::not_needed), e.what());
        BOOST_TEST(e.report()->up == 1U);
        BOOST_TEST(p.sees_no_keys(servers[0]));
        BOOST_TEST(p.sees_no_keys(servers[2]));
    }
}

BOOST_AUTO_TEST_CASE(a_lease_is_extended_by_quarantined_instances_that_still_have_it) {
    for (auto const& disk : {everysec, always}) {
        fleet servers(5, {.arguments = disk});
        party p(servers, guarded(restart_policy::observed, 60s));
        BOOST_REQUIRE(p.all_up());
        auto l = p.hold("k", unwatched(60s));
        BOOST_REQUIRE(p.sees(servers, "k", true));
        crash(servers, the_first(3), {&p});
        BOOST_TEST(are_quarantined(p, disk == always ? 0 : 3));
        auto const before = l.deadline();
        BOOST_TEST(!p.extend(l));
        BOOST_TEST((l.deadline() > before));
        BOOST_TEST(l.held());
        BOOST_TEST(p.releases(l));
        BOOST_TEST(p.sees_no_keys(servers));
    }
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_that_forgot_it_and_is_put_back_there) {
    fleet servers(5);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(p.sees(servers, "k", true));
    crash(servers, the_first(2), {&p});
    BOOST_TEST(are_quarantined(p, 2));
    BOOST_TEST(!p.extend(l));
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(p.renews(2));
    BOOST_TEST(l.held());
    BOOST_TEST(p.locks.stats().lost == 0U);
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.sees_no_keys(servers));
}

BOOST_AUTO_TEST_CASE(a_lease_that_a_majority_forgot_is_lost_by_its_deadline) {
    fleet servers(5);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(p.sees(servers, "k", true));
    auto told = false;
    error how;
    lease_clock::time_point at{};
    l.wait_lost([&](error e) {
        at = lease_clock::now();
        how = std::move(e);
        told = true;
    });
    crash(servers, the_first(3), {&p});
    BOOST_TEST(p.until([&] { return told; }));
    BOOST_TEST(!how, how.what());
    BOOST_TEST((at <= l.deadline()));
    BOOST_TEST(!l.held());
    BOOST_TEST((p.release(l) == errc::lease_lost));
    BOOST_TEST(p.sees_no_keys(servers));
}

//
// Restarts under load
//

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_whoever_crashes) {
    for (auto const& disk : {nothing, everysec, always}) {
        auto const forgets = disk != always;
        // Who remembers all keeps the lease over the crash; of the others it is waited for that it
        // ends.
        auto const longest = forgets ? milliseconds(2s) : milliseconds(60s);
        BOOST_TEST_CONTEXT((disk.empty() ? "no persistence" : disk.back())) {
            scenario s(disk, restart_policy::observed, longest);
            for (std::size_t const n : {1U, 2U, 3U}) {
                BOOST_TEST_CONTEXT(n << " of five") {
                    auto const failed = failures_of(s.working);
                    auto l = s.holder.hold("a", unwatched(longest));
                    s.judge.begins("a", l);
                    auto const before = connections_of(s.holder);
                    crash(s.servers, the_first(n), {});
                    if (forgets) {
                        BOOST_TEST(each(s.working, [&](client const& c) {
                            return count_of(c, instance_state::quarantined) == n;
                        }));
                    }
                    // Of the other key, at the least: a minority costs nobody anything.
                    BOOST_TEST(all_go_on(s.working, 5));
                    BOOST_TEST((n > 2 || failures_of(s.working) == failed));
                    BOOST_REQUIRE(is_back(s.holder, before, the_first(n)));
                    BOOST_TEST(each(s.working, [](client const& c) {
                        return count_of(c, instance_state::up) == 5;
                    }));
                    BOOST_TEST(s.holder.all_up());
                    if (forgets) s.holder.pass(l.deadline());
                    s.judge.ends("a", l);
                    if (!forgets) BOOST_TEST(s.holder.releases(l));
                    BOOST_TEST(all_go_on(s.working, 10));
                }
            }
            for (auto const& one : s.working) {
                BOOST_TEST(one->stop());
                BOOST_TEST(one->surprises() == 0U);
                if (!forgets) BOOST_TEST(were_always_trusted(one->locks()));
            }
            BOOST_TEST(s.judge.overlaps() == 0U);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_same_load_without_the_guard_shows_two_holders) {
    scenario s(nothing, restart_policy::off, 60s);
    auto l = s.holder.hold("a", unwatched(60s));
    s.judge.begins("a", l);
    BOOST_TEST(s.judge.overlaps() == 0U);
    crash(s.servers, the_first(3), {&s.holder});
    BOOST_TEST(wait_until([&] { return s.judge.overlaps() > 0; }, 15s));
    BOOST_TEST(l.held());
    s.judge.ends("a", l);
    BOOST_TEST(s.holder.release(l).code().failed()); // lost, as a majority has it no longer
}

//
// Rights
//

BOOST_AUTO_TEST_CASE(who_may_not_ask_how_a_server_writes_takes_it_to_forget) {
    server one({.arguments = always, .config = "user guest on >pw ~* &* +@all -config\n"});
    party guest({"redis://guest:pw@" + one.address()}, guarded(restart_policy::observed, 60s));
    party other({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(guest.all_up());
    BOOST_REQUIRE(other.all_up());
    auto l = guest.hold("k", unwatched(60s));
    auto const before = connections_of(other);
    crash(one, guest);
    check_quarantined(guest, 0, restarted);
    BOOST_TEST(!guest.extend(l));
    BOOST_REQUIRE(is_back(other, before, {0}));
    BOOST_TEST(were_always_trusted(other.locks));
}

//
// Other ways to forget
//

// While it is a replica it takes no lock, and when it is none any more it has another server's
// data.
BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_was_a_replica_makes_a_second_holder) {
    server primary(quick_primary());
    with_fleets_of({1, 3}, [&](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        party a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        replace_data(servers, the_first(servers.quorum()), primary);
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // the violation
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_was_a_replica_makes_no_second_holder) {
    // Longer than an idle client waits with its next look, which may begin the quarantine anew.
    constexpr auto longest = 5s;
    server primary(quick_primary());
    for (auto const& disk : {nothing, always}) {
        with_fleets_of({1, 3}, {.arguments = disk}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, longest);
            party a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(longest));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            auto const before = lease_clock::now();
            replace_data(servers, the_first(servers.quorum()), primary);
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                BOOST_TEST((e == errc::quarantined || e == errc::contended), e.what());
                BOOST_TEST(!none);
            }
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            for (auto const i : the_first(servers.quorum())) {
                check_quarantined(b, i, restarted);
                BOOST_TEST((b.status(i).quarantined_until >= before + longest));
            }
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST(!first.held());
            auto second = b.hold("k", unwatched(longest));
            BOOST_TEST(b.releases(second));
        });
    }
}

// Told by nothing but the next look.
BOOST_AUTO_TEST_CASE(a_role_that_changes_is_noticed_where_nothing_is_announced) {
    server primary(quick_primary());
    for (auto const watches : {true, false}) {
        fleet servers(1);
        redis_cli cli(servers[0]);
        cli.command(
            {"ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"});
        auto options = guarded(restart_policy::observed, 60s);
        options.detect_clock_jumps = watches;
        party p({"redis://guest:pw@" + servers[0].address()}, options);
        BOOST_REQUIRE(p.all_up());
        replace_data(servers, {0}, primary);
        BOOST_TEST(p.becomes(0, instance_state::quarantined));
        check_quarantined(p, 0, replaced);
    }
}

BOOST_AUTO_TEST_CASE(a_role_that_changed_while_nobody_was_connected_is_noticed_afterwards) {
    server primary(quick_primary());
    fleet servers(1);
    wires way(servers);
    party p(way.addresses(), guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto const before = connections_of(p);
    way[0].down();
    BOOST_REQUIRE(p.becomes(0, instance_state::down));
    replace_data(servers, {0}, primary);
    way[0].up();
    BOOST_REQUIRE(is_back(p, before, {0}));
    check_quarantined(p, 0, replaced);
}

BOOST_AUTO_TEST_CASE(who_meets_it_as_a_replica_does_not_trust_it_as_a_primary) {
    server primary(quick_primary());
    for (auto const how : {restart_policy::off, restart_policy::observed}) {
        server one({.arguments = {"--replicaof", "127.0.0.1", std::to_string(primary.port())}});
        party p({one.address()}, guarded(how, 60s));
        BOOST_REQUIRE(p.goes_down(0, errc::read_only));
        redis_cli(one).command({"REPLICAOF", "NO", "ONE"});
        if (how == restart_policy::off) {
            BOOST_TEST(p.all_up());
        } else {
            BOOST_TEST(p.becomes(0, instance_state::quarantined));
            check_quarantined(p, 0, replaced);
        }
    }
}

// It never had another's data, but it stopped taking locks.
BOOST_AUTO_TEST_CASE(a_replica_of_nobody_that_can_be_reached_counts_too) {
    net::reserved_port const nobody;
    server one({.arguments = always});
    redis_cli cli(one);
    party p({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    cli.command({"REPLICAOF", "127.0.0.1", std::to_string(nobody.number())});
    cli.command({"REPLICAOF", "NO", "ONE"});
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, replaced);
}

// A first replica, or a tool that makes a backup as one, changes the replication id and nothing
// else.
BOOST_AUTO_TEST_CASE(a_replica_that_comes_is_no_reason_to_doubt_its_primary) {
    server one(quick_primary());
    redis_cli cli(one);
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto const before = cli.info("master_replid");
    server replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(one.port())}});
    BOOST_REQUIRE(wait_until([&] { return cli.info("master_replid") != before; }, 20s));
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
}

// With `save ""` it has the snapshot of its last full resync on its disk, and comes back with that.
BOOST_AUTO_TEST_CASE(a_restart_counts_also_if_the_server_comes_back_with_keys) {
    server primary(quick_primary());
    redis_cli(primary).set("k", "of long ago");
    fleet servers(1);
    replace_data(servers, {0}, primary);
    redis_cli(servers[0]).del("k");
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("new", unwatched(60s));
    crash(servers, {0}, {&p});
    check_quarantined(p, 0, restarted);
    BOOST_TEST(!redis_cli(servers[0]).exists("new"));
}

// It is asked again while it is connected.
BOOST_AUTO_TEST_CASE(a_server_that_stops_writing_to_disk_is_not_trusted_after_a_restart) {
    server one({.arguments = always});
    redis_cli cli(one);
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    BOOST_TEST(were_always_trusted(p.locks));
    cli.config("appendonly", "no");
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
    crash(one, p); // it starts with appendonly on
    check_quarantined(p, 0, restarted);
}

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_is_flushed_makes_a_second_holder) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        party a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        for (auto const i : the_first(servers.quorum())) redis_cli(servers[i]).flush();
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // the violation
        BOOST_TEST(were_always_trusted(b.locks));
    });
}

// Also by grants that came before the client has read that there was a flush.
BOOST_AUTO_TEST_CASE(a_majority_that_is_flushed_makes_no_second_holder) {
    constexpr auto longest = 2s;
    std::vector<command_line> const all{{"FLUSHALL"}, {"FLUSHALL", "ASYNC"}, {"FLUSHDB"}};
    for (auto const& flush : all) {
        with_fleets_of({1, 3, 5}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, longest);
            party a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(longest));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            auto const before = lease_clock::now();
            for (auto const i : the_first(servers.quorum())) redis_cli(servers[i]).command(flush);
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                BOOST_TEST((e == errc::quarantined || e == errc::contended), e.what());
                BOOST_TEST(!none);
            }
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            for (auto const i : the_first(servers.quorum())) {
                check_quarantined(b, i, flushed);
                BOOST_TEST((b.status(i).quarantined_until >= before + longest));
            }
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                check_report(e, servers.quorum(), flushed);
            }
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST(!first.held());
            auto second = b.hold("k", unwatched(longest));
            BOOST_TEST(b.releases(second));
        });
    }
}

// The server does not say which database it was.
BOOST_AUTO_TEST_CASE(a_flush_of_another_database_counts_too) {
    server one;
    party p({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(60s));
    redis_cli cli(one);
    cli.command({"SELECT", "3"});
    cli.command({"FLUSHDB"});
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, flushed);
    BOOST_TEST(!p.extend(l));
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_that_is_flushed_and_is_put_back_there) {
    fleet servers(5);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(30s));
    BOOST_REQUIRE(p.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).flush();
    BOOST_REQUIRE(p.until([&] { return are_quarantined(p, 2); }));
    BOOST_TEST(!p.extend(l));
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(l.held());
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.sees_no_keys(servers));
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_flushed_from_a_majority_is_lost) {
    fleet servers(3);
    party p(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(30s));
    BOOST_REQUIRE(p.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).flush();
    BOOST_REQUIRE(p.until([&] { return are_quarantined(p, 2); }));
    BOOST_TEST(l.held());
    auto const e = p.extend(l);
    BOOST_TEST((e == errc::lease_lost), e.what());
    BOOST_TEST(!l.held());
}

// What is announced to the others, who has no connection finds out when it connects.
BOOST_AUTO_TEST_CASE(a_flush_while_nobody_was_connected_is_noticed_afterwards) {
    fleet servers(1);
    wires way(servers);
    party p(way.addresses(), guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    auto const before = connections_of(p);
    way[0].down();
    BOOST_REQUIRE(p.becomes(0, instance_state::down));
    redis_cli(servers[0]).flush();
    way[0].up();
    BOOST_REQUIRE(is_back(p, before, {0}));
    check_quarantined(p, 0, flushed);
}

// Nothing announces it: the next look tells.
BOOST_AUTO_TEST_CASE(databases_that_are_exchanged_are_noticed) {
    server one;
    party p({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    redis_cli(one).command({"SWAPDB", "0", "1"});
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, flushed);
}

/// Until it has evicted that key.
void evict(server& one, std::string const& key, std::string const& policy) {
    redis_cli cli(one);
    cli.config("maxmemory-policy", policy);
    cli.config("maxmemory", "1");
    BOOST_REQUIRE(wait_until([&] {
        cli.command({"SET", "other", "x"});
        return !cli.exists(key);
    }));
    cli.config("maxmemory", "1gb");
}

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_evicts_makes_a_second_holder) {
    fleet servers(3);
    auto const options = guarded(restart_policy::off, 60s);
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(60s));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) evict(servers[i], "k", "volatile-lru");
    auto [e, second] = b.try_acquire("k", unwatched(60s));
    BOOST_TEST(!e, e.what());
    BOOST_TEST((second.held() && first.held())); // the violation
}

// The policy changes while all are connected; those who are idle notice it, too.
BOOST_AUTO_TEST_CASE(a_majority_that_may_evict_makes_no_second_holder) {
    for (std::string const policy : {"volatile-lru", "allkeys-random"}) {
        with_fleets_of({1, 3}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, 2s);
            party a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(2s));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            for (auto const i : the_first(servers.quorum())) evict(servers[i], "k", policy);
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            auto const [e, none] = b.try_acquire("k", unwatched(2s));
            check_report(e, servers.quorum(), evicting);
            check_report(e, servers.quorum(), policy);
            // For longer than max_ttl, as long as it is so.
            b.pass(lease_clock::now() + 3s);
            BOOST_TEST(are_quarantined(b, servers.quorum()));
            auto const before = lease_clock::now();
            for (server& one : servers) redis_cli(one).config("maxmemory-policy", "noeviction");
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST((lease_clock::now() >= before + 2s));
            auto second = b.hold("k", unwatched(2s));
            BOOST_TEST(b.releases(second));
        });
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_may_evict_does_not_vote_from_the_first_connection_on) {
    server evicts({.arguments = {"--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"}});
    server limited({.arguments = {"--maxmemory", "1gb", "--maxmemory-policy", "noeviction"}});
    server unlimited({.arguments = {"--maxmemory-policy", "allkeys-lru"}});
    std::vector<address> const all{evicts.address(), limited.address(), unlimited.address()};
    {
        party p(all, guarded(restart_policy::observed, 60s));
        BOOST_TEST(p.becomes(0, instance_state::quarantined));
        check_quarantined(p, 0, evicting);
        check_quarantined(p, 0, "volatile-ttl");
        auto l = p.hold("k", unwatched(60s)); // of the others
        BOOST_TEST(is_trusted(p, 1));
        BOOST_TEST(is_trusted(p, 2));
        BOOST_TEST(p.releases(l));
    }
    party alone({all[0]}, guarded(restart_policy::observed, 60s));
    auto const [e, none] = alone.acquire("k", unwatched(60s));
    check_report(e, 1, evicting);
    party unguarded(all, guarded(restart_policy::off, 60s));
    BOOST_REQUIRE(unguarded.all_up());
}

// A rewrite of the log would let writes wait in memory.
BOOST_AUTO_TEST_CASE(a_server_whose_log_waits_for_rewrites_is_not_trusted_after_a_restart) {
    auto relaxed = always;
    relaxed.insert(relaxed.end(), {"--no-appendfsync-on-rewrite", "yes"});
    server one({.arguments = relaxed});
    party p({one.address()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    check_quarantined(p, 0, restarted);
}

//
// Clocks
//

BOOST_AUTO_TEST_CASE(a_server_whose_clock_jumps_ahead_is_quarantined) {
    constexpr auto longest = 1s;
    fleet servers(2, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, longest, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto const before = lease_clock::now();
    servers[0].shift_clock(10s);
    servers[1].shift_clock(120s); // the server's uptime too
    std::vector<lease_clock::time_point> over(2);
    BOOST_REQUIRE(p.until([&] {
        for (std::size_t k = 0; k < 2; ++k) {
            if (!is_quarantined(p, k) || over[k] != lease_clock::time_point{}) continue;
            check_quarantined(p, k, jumped);
            over[k] = p.status(k).quarantined_until;
            BOOST_TEST((over[k] >= before + longest));
            BOOST_TEST((over[k] <= lease_clock::now() + longest));
            auto const [e, none] = p.acquire("k", unwatched(longest));
            BOOST_TEST((e == errc::quarantined), e.what());
            BOOST_TEST(contains(e.what(), jumped), e.what());
        }
        return over[0] != lease_clock::time_point{} && over[1] != lease_clock::time_point{};
    }));
    BOOST_TEST(p.until([&] { return all_trusted(p); }));
    BOOST_TEST((lease_clock::now() >= std::max(over[0], over[1])));
    auto l = p.hold("k", unwatched(longest));
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_CASE(a_jump_in_quarantine_makes_it_longer) {
    server one({.shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    check_quarantined(p, 0, restarted);
    auto const until = p.status(0).quarantined_until;
    one.shift_clock(10s);
    BOOST_TEST(p.until([&] { return p.status(0).quarantined_until > until; }));
    check_quarantined(p, 0, jumped);
}

// However much waits to be sent, a grant counts only if the clock was looked at shortly before.
BOOST_AUTO_TEST_CASE(the_time_is_asked_for_under_a_backlog_too) {
    fleet servers(1);
    wires ways(servers);
    auto options = guarded(restart_policy::off, 60s);
    options.instance_timeout = 20s;
    party p(ways.addresses(), options);
    BOOST_REQUIRE(p.all_up());
    BOOST_REQUIRE(p.until([&] { return ways.are_quiet(); }));
    std::mutex mutex;
    std::vector<std::string> seen;
    ways[0].intercept([&](command_line const& words) -> std::optional<std::string> {
        std::lock_guard const lock(mutex);
        seen.push_back(words[0] == "SET" ? words[1] : words[0]);
        return std::nullopt;
    });
    ways[0].hold_requests();
    std::vector<std::unique_ptr<attempt>> all;
    auto const sends = [&](std::string const& key) {
        auto const before = p.locks.stats().pending;
        all.push_back(std::make_unique<attempt>(p, key, unwatched(60s)));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().pending > before; }));
    };
    for (auto const* const key : {"a", "b", "c", "d"}) sends(key); // more than may be under way
    p.pass(lease_clock::now() + 1100ms);
    sends("last");
    ways[0].resume();
    BOOST_REQUIRE(p.until([&] { return all.back()->done; }));
    std::lock_guard const lock(mutex);
    auto const at = [&](std::string_view what) {
        return std::find(seen.begin(), seen.end(), what);
    };
    BOOST_TEST((at("d") < at("TIME") && at("TIME") < at("last") && at("last") != seen.end()),
               boost::algorithm::join(seen, " "));
}

// It takes what has become free, and hears in the same breath that the clock had jumped.
BOOST_AUTO_TEST_CASE(what_a_quarantined_arbiter_grants_is_given_back) {
    fleet servers(3, {.shiftable_clock = true});
    for (server& one : servers) redis_cli(one).set("k", "foreign");
    wires ways(servers);
    party p(ways.addresses(), guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    attempt w(p, "k", unwatched(60s));
    BOOST_REQUIRE(p.until([&] { return asked_to_tell(servers).size() == 1; }));
    auto const arbiter = asked_to_tell(servers).front();
    auto& wire = ways[arbiter];
    redis_cli cli(servers[arbiter]);
    wire.hold_requests();
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 0; })); // TIME
    BOOST_TEST(cli.del("k"));
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 1; })); // SET
    BOOST_TEST(!is_quarantined(p, arbiter));
    servers[arbiter].shift_clock(120s);
    wire.resume();
    BOOST_REQUIRE(p.becomes(arbiter, instance_state::quarantined));
    // It waits elsewhere.
    BOOST_TEST(p.until([&] {
        auto const those = asked_to_tell(servers);
        return std::any_of(those.begin(), those.end(), [&](std::size_t i) { return i != arbiter; });
    }));
    BOOST_TEST(p.sees_no_keys(cli));
    BOOST_TEST(!w.done);
    for (server& one : servers) redis_cli(one).del("k");
    BOOST_TEST(p.until([&] { return w.done; }));
    BOOST_TEST(!w.how, w.how.what());
    BOOST_TEST(w.held.held());
    BOOST_TEST(!cli.exists("k"));
    check_quarantined(p, arbiter, jumped);
    BOOST_TEST(p.releases(w.held));
}

// What one client does not mind another sees, so it could have been seen.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_by_those_who_look_for_it_alone) {
    server one({.config = "user guest on >pw ~* &* +@all -time\n", .shiftable_clock = true});
    party watcher({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    party denied({"redis://guest:pw@" + one.address()},
                 guarded(restart_policy::observed, 60s, brisk()));
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    party careless({one.address()}, options);
    for (auto* p : {&watcher, &denied, &careless}) BOOST_REQUIRE(p->all_up());
    watcher.runs_with(denied);
    watcher.runs_with(careless);
    one.shift_clock(120s);
    BOOST_REQUIRE(watcher.until([&] { return is_quarantined(watcher, 0); }));
    // As often as it takes to ask the time twice, or to try to.
    auto const enough = [](party& p) {
        return [&p, n = p.locks.stats().commands + 4] { return p.locks.stats().commands >= n; };
    };
    BOOST_TEST(watcher.until([a = enough(watcher), b = enough(denied), c = enough(careless)] {
        return a() && b() && c();
    }));
    for (auto* p : {&denied, &careless}) {
        BOOST_TEST(were_always_trusted(p->locks));
        auto l = p->hold("k", unwatched(60s));
        BOOST_TEST(!p->extend(l));
        BOOST_TEST(p->releases(l));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_goes_back_is_none_of_our_business_but_its_return_is) {
    server one({.shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    one.shift_clock(-120s);
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
    auto l = p.hold("k", unwatched(60s));
    BOOST_TEST(p.releases(l));
    one.shift_clock(120s);
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, jumped);
}

BOOST_AUTO_TEST_CASE(a_jump_while_nobody_is_connected_is_seen_afterwards) {
    server one({.arguments = always, .shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    BOOST_TEST(were_always_trusted(p.locks));
    auto const before = connections_of(p);
    one.kill();
    one.shift_clock(120s);
    one.restart();
    BOOST_REQUIRE(is_back(p, before, {0}));
    check_quarantined(p, 0, jumped);
}

// It asks when it finds that nothing was sent since it looked before, and looks again when the
// answer could be overdue.
BOOST_AUTO_TEST_CASE(an_idle_client_sends_less_than_a_command_a_second_to_each_instance) {
    server one;
    party p({one.address()}, brisk());
    BOOST_REQUIRE(p.all_up());
    auto const sent = p.locks.stats().commands;
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().commands > sent; }));
    auto const first = p.locks.stats().commands;
    auto const since = lease_clock::now();
    // Two questions at a time.
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().commands >= first + 4; }));
    auto const took = std::chrono::duration_cast<milliseconds>(lease_clock::now() - since);
    BOOST_TEST(took.count() >= 2 * (1'000 + 1'250) - 100, took.count() << " ms");
}

BOOST_AUTO_TEST_CASE(neither_a_frozen_server_nor_a_slow_wire_nor_a_stalled_client_is_a_jump) {
    server one({.shiftable_clock = true});
    {
        party p({one.address()}, hasty());
        BOOST_REQUIRE(p.all_up());
        one.freeze();
        BOOST_TEST(p.becomes(
            0, instance_state::suspect)); // it was asked the time, as there is nothing else
        one.thaw();
        BOOST_TEST(p.all_up());
        one.freeze();
        BOOST_TEST(p.becomes(0, instance_state::down));
        one.thaw();
        BOOST_TEST(p.all_up());
        BOOST_TEST(were_always_trusted(p.locks));
    }
    proxy wire(one);
    party p({wire.address()}, brisk());
    party other({one.address()}, brisk()); // runs while p does not
    BOOST_REQUIRE(p.all_up());
    BOOST_REQUIRE(other.all_up());
    // The question is late.
    wire.hold_requests();
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 0; }));
    other.pass(lease_clock::now() + 700ms);
    wire.resume();
    BOOST_TEST(asks_the_time(p, 1));
    // The answer is there and nobody reads it, for longer than it may take.
    wire.hold_replies();
    BOOST_REQUIRE(p.until([&] { return wire.replies_held() > 0; }));
    wire.resume();
    other.pass(lease_clock::now() + 1200ms);
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
    BOOST_TEST(were_always_trusted(other.locks));
    // And after all that it still sees one.
    one.shift_clock(10s);
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
}

// A look at what is overdue must not be the only one while something is under way.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_however_long_an_instance_may_take_to_answer) {
    for (auto const how : {restart_policy::off, restart_policy::strict}) {
        server one({.shiftable_clock = true});
        party p({one.address()}, guarded(how, 1s));
        {
            auto const [e, l] = p.try_acquire("k", unwatched(1s)); // sent with the first breath
            BOOST_TEST(static_cast<bool>(e) == (how == restart_policy::strict), e.what());
        }
        BOOST_REQUIRE(p.until([&] { return is_trusted(p, 0); }));
        one.shift_clock(10s);
        BOOST_TEST(p.becomes(0, instance_state::quarantined));
    }
}

BOOST_AUTO_TEST_CASE(without_the_clock_guard_a_majority_that_jumps_makes_a_second_holder) {
    fleet servers(3, {.shiftable_clock = true});
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(60s));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    auto [e, second] = b.try_acquire("k", unwatched(60s));
    BOOST_TEST(!e, e.what());
    BOOST_TEST((second.held() && first.held())); // the violation
}

BOOST_AUTO_TEST_CASE(a_majority_that_jumps_and_is_seen_to_makes_no_second_holder) {
    constexpr auto longest = 4s;
    fleet servers(3, {.shiftable_clock = true});
    auto const options = guarded(restart_policy::observed, longest, brisk());
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(longest));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    BOOST_REQUIRE(b.until([&] { return are_quarantined(b, 2); }));
    {
        auto const [e, none] = b.try_acquire("k", unwatched(longest));
        check_report(e, 2, jumped);
    }
    auto const over = std::max(b.status(0).quarantined_until, b.status(1).quarantined_until);
    BOOST_TEST(b.until([&] { return all_trusted(b); }));
    BOOST_TEST((lease_clock::now() >= over));
    auto [e, second] = b.acquire("k", unwatched(longest));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(second.held());
    BOOST_TEST(!first.held());
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_whose_clock_jumps) {
    fleet servers(3, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(30s));
    BOOST_REQUIRE(p.sees(servers, "k", true));
    servers[0].shift_clock(120s);
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
    BOOST_REQUIRE(p.becomes(0, instance_state::quarantined));
    BOOST_TEST(are_quarantined(p, 1));
    BOOST_TEST(!p.extend(l));
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(l.held());
    auto other = p.hold("other", unwatched(30s));
    BOOST_TEST(p.locks.stats().acquire_failed == 0U);
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.releases(other));
    BOOST_TEST(p.sees_no_keys(servers));
}

//
// Our own clock
//

// To this client that is as if all servers had jumped together.
void stand_still(fleet& servers, milliseconds by) {
    for (server& one : servers) one.shift_clock(by);
}

BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_moves_deadlines_and_quarantines_nobody) {
    fleet servers(3, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("long", unwatched(60s));
    auto gone = p.hold("short", unwatched(10s));
    auto renewed = p.hold("renewed", {.ttl = 40s});
    std::optional<error> told, told_early;
    gone.wait_lost([&](error e) { told = std::move(e); });
    l.wait_lost(40s, [&](error e) { told_early = std::move(e); });
    auto const deadline = l.deadline();
    auto const renewals = p.locks.stats().renewals;
    stand_still(servers, 25s);
    BOOST_REQUIRE(p.until([&] { return l.deadline() != deadline; }));
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST((l.deadline() > deadline - 27s));
    BOOST_TEST(l.held());
    BOOST_TEST(!gone.held());
    BOOST_TEST(p.until([&] { return told.has_value() && told_early.has_value(); }));
    BOOST_TEST(p.locks.stats().lost == 1U);
    BOOST_TEST(p.until([&] { return p.locks.stats().renewals > renewals; }));
    BOOST_TEST((renewed.remaining() > 30s));
    BOOST_TEST(p.until([&] { return were_always_trusted(p.locks); }));
    auto fresh = p.hold("fresh", unwatched(20s));
    BOOST_TEST(asks_the_time(p, 1));
    BOOST_TEST(fresh.held());
    BOOST_TEST(were_always_trusted(p.locks));
    BOOST_TEST((l.deadline() > deadline - 27s)); // moved once
    BOOST_TEST(p.releases(l));
}

// Nobody can say whose clock it was. So the deadlines move, and the instance is in quarantine.
BOOST_AUTO_TEST_CASE(a_jump_of_a_lone_instance_is_taken_both_ways) {
    fleet servers(1, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(60s));
    auto const deadline = l.deadline();
    stand_still(servers, 25s);
    BOOST_REQUIRE(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, jumped);
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST(l.held());
    BOOST_TEST(!p.extend(l));
}

BOOST_AUTO_TEST_SUITE_END()
