// client::wait_change(): changes of a key, told by the pushes of the servers.
#include <holdfast/key_report.hpp>

#include "integration/attempt.hpp"
#include "integration/foreign_client.hpp"
#include "integration/proxy_group.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Shorter than the time after which the client asks without a push.
constexpr std::chrono::seconds push_limit(8);

/// One call after the other, as a program does in a loop.
class watcher {
public:
    watcher(test_client& client, std::string key)
        : client_(client)
        , key_(std::move(key)) {
        client_.locks.inspect(key_,
                              [this](error e, key_report r) { take(std::move(e), std::move(r)); });
        BOOST_REQUIRE(client_.until([&] { return !seen.empty(); }));
        BOOST_REQUIRE(!how);
    }
    watcher(watcher const&) = delete;
    watcher& operator=(watcher const&) = delete;
    ~watcher() { signal_.emit(asio::cancellation_type::terminal); }

    /// True once the last report has this state, of all instances or of none.
    bool shows(key_state state, std::chrono::seconds limit = push_limit) {
        return client_.until([&] { return last().state == state && is_settled(); }, limit);
    }
    key_report const& last() const { return seen.back(); }
    /// Returns when the call has asked the instances, so that only a later event tells a change.
    /// The client asks no questions of its own meanwhile.
    void rests() {
        BOOST_REQUIRE(client_.until([&] {
            auto const all = client_.locks.instances();
            auto const up = std::count_if(all.begin(), all.end(), [](auto const& i) {
                return i.state == instance_state::up;
            });
            return client_.locks.stats().commands >=
                   asked_before_ + 2 * static_cast<std::uint64_t>(up);
        }));
        auto answered = false; // replies come in order
        client_.locks.inspect(key_, [&](error, key_report) { answered = true; });
        BOOST_REQUIRE(client_.until([&] { return answered; }));
    }

    std::vector<key_report> seen;
    error how;

private:
    bool is_settled() const {
        auto const& all = last().instances;
        return std::all_of(all.begin(), all.end(), [&](auto const& i) {
            return i.found == key_answer::kind::unknown || i.found == all.front().found;
        });
    }
    void take(error e, key_report r) {
        how = std::move(e);
        if (how) return;
        seen.push_back(std::move(r));
        asked_before_ = client_.locks.stats().commands;
        client_.locks.wait_change(
            key_, seen.back(),
            asio::bind_cancellation_slot(signal_.slot(), [this](error next, key_report changed) {
                take(std::move(next), std::move(changed));
            }));
    }

    test_client& client_;
    std::string const key_;
    asio::cancellation_signal signal_;
    std::uint64_t asked_before_ = 0;
};

/// A call that a test starts, cancels and waits for.
struct change {
    change() = default;
    change(test_client& client, std::string_view key, key_report const& last = {}) {
        client.locks.wait_change(
            key, last, asio::bind_cancellation_slot(signal.slot(), [this](error e, key_report r) {
                how = std::move(e);
                report = std::move(r);
                done = true;
            }));
    }
    change(change const&) = delete;
    change& operator=(change const&) = delete;

    asio::cancellation_signal signal;
    error how;
    key_report report;
    bool done = false;
};

key_report report_on(test_client& client, std::string_view key) {
    change first(client, key); // an empty report differs from each inspection
    BOOST_REQUIRE(client.until([&] { return first.done; }));
    BOOST_REQUIRE(!first.how);
    return first.report;
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_changes)

BOOST_AUTO_TEST_CASE(each_change_is_pushed) {
    on_every_kind([](fleet& servers) {
        test_client holder(servers);
        test_client client(servers);
        client.runs_with(holder);
        BOOST_REQUIRE(client.all_up());
        BOOST_REQUIRE(holder.all_up());
        watcher w(client, "k");
        BOOST_TEST((w.last().state == key_state::free));
        for (int i = 0; i < 3; ++i) {
            auto held = holder.hold("k");
            BOOST_TEST(w.shows(key_state::held), w.last());
            BOOST_TEST(w.last().digest.size() == 16U);
            BOOST_TEST(holder.releases(held));
            BOOST_TEST(w.shows(key_state::free), w.last());
        }
        BOOST_TEST(client.locks.stats().pushes >= 6U);
        // It takes no lock, and stands in no queue.
        BOOST_TEST(client.locks.stats().rounds == 0U);
        BOOST_TEST(client.locks.stats().waiters == 0U);
    });
}

BOOST_AUTO_TEST_CASE(changes_by_other_programs_are_pushed) {
    with_fleets_of({1, 3}, [](fleet& servers) {
        test_client client(servers, without_questions());
        BOOST_REQUIRE(client.all_up());
        watcher w(client, "k");
        w.rests();
        foreign_client other(servers);
        other.hold_for_ever("k");
        BOOST_TEST(w.shows(key_state::held), w.last());
        w.rests();
        auto const first = w.last().digest;
        for (auto& cli : other.clis) cli.set("k", "another");
        BOOST_TEST(
            client.until([&] { return w.shows(key_state::held) && w.last().digest != first; }));
        w.rests();
        other.del("k");
        BOOST_TEST(w.shows(key_state::free), w.last());
        w.rests();
        other.hold_for_ever("k");
        BOOST_TEST(w.shows(key_state::held), w.last());
        w.rests();
        other.flush();
        BOOST_TEST(w.shows(key_state::free), w.last());
    });
}

// A flush takes the votes of the instances. Until they are back, no instance says "free".
BOOST_AUTO_TEST_CASE(a_vote_that_is_lost_or_back_is_a_change) {
    fleet servers(1);
    auto options = without_questions();
    options.on_restart = restart_policy::strict;
    options.max_ttl = 1s;
    test_client client(servers, options);
    watcher w(client, "k"); // in quarantine from the start
    BOOST_TEST(w.shows(key_state::free), w.last());
    w.rests();
    redis_cli(servers[0]).flush();
    BOOST_TEST(w.shows(key_state::unknown), w.last());
    w.rests();
    BOOST_TEST(w.shows(key_state::free), w.last());
    BOOST_TEST(w.seen.size() >= 3U);
}

BOOST_AUTO_TEST_CASE(the_rest_of_the_ttl_is_no_change) {
    fleet servers(3);
    test_client holder(servers);
    test_client client(servers);
    client.runs_with(holder);
    BOOST_REQUIRE(client.all_up());
    auto held = holder.hold("k", {.ttl = renewed_ttl});
    watcher w(client, "k");
    BOOST_REQUIRE(w.shows(key_state::held));
    auto const before = w.seen.size();
    auto const pushes = client.locks.stats().pushes;
    BOOST_REQUIRE(holder.renews(2));
    // Each renewal was pushed, and told nothing.
    BOOST_TEST(client.until([&] { return client.locks.stats().pushes >= pushes + 2; }));
    BOOST_TEST(w.seen.size() == before);
    BOOST_TEST(holder.releases(held));
    BOOST_TEST(w.shows(key_state::free));
}

BOOST_AUTO_TEST_CASE(an_expiry_is_told) {
    with_fleets_of({1, 3}, [](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        watcher w(client, "k");
        foreign_client(servers).hold("k", 300ms);
        BOOST_TEST(w.shows(key_state::held), w.last());
        BOOST_TEST(w.shows(key_state::free), w.last());
    });
}

// The servers push nothing that arrives. At the end of the ttl the client asks by itself.
BOOST_AUTO_TEST_CASE(an_expiry_is_told_although_pushes_are_lost) {
    fleet servers(3);
    proxy_group proxies(servers);
    for (auto& p : proxies.all) p.swallow_pushes();
    test_client client(proxies.addresses());
    BOOST_REQUIRE(client.all_up());
    foreign_client(servers).hold("k", 500ms);
    watcher w(client, "k");
    BOOST_REQUIRE(w.shows(key_state::held));
    BOOST_TEST(w.shows(key_state::free), w.last());
    BOOST_TEST(client.locks.stats().pushes == 0U);
}

BOOST_AUTO_TEST_CASE(without_tracking_the_client_polls) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+client|tracking"});
        test_client client({r.redis.url()}, without_questions());
        BOOST_REQUIRE(client.all_up());
        watcher w(client, "k");
        w.rests();
        r.admin.command({"SET", "k", "somebody"});
        BOOST_TEST(w.shows(key_state::held), w.last());
        w.rests();
        r.admin.del("k");
        BOOST_TEST(w.shows(key_state::free), w.last());
        BOOST_TEST(client.locks.stats().pushes == 0U);
    });
}

BOOST_AUTO_TEST_CASE(an_instance_that_goes_and_comes_is_a_change) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    watcher w(client, "k");
    auto const found = [&](std::size_t i) { return w.last().instances[i].found; };
    w.rests();
    servers[1].kill();
    BOOST_TEST(client.until([&] { return found(1) == key_answer::kind::unknown; }, push_limit));
    BOOST_TEST((w.last().state == key_state::free));
    servers[2].kill();
    BOOST_TEST(w.shows(key_state::unknown), w.last());
    servers[1].restart();
    BOOST_TEST(client.until([&] { return found(1) == key_answer::kind::absent; }, push_limit));
    BOOST_TEST((w.last().state == key_state::free), w.last());
    // The new connection pushes, too.
    foreign_client(servers).hold_for_ever("k");
    BOOST_TEST(client.until([&] { return w.last().state == key_state::held; }, push_limit));
}

// Both register with the servers on the same connection, and each push goes to both.
BOOST_AUTO_TEST_CASE(a_watcher_and_a_waiter_of_one_client_get_their_pushes) {
    with_fleets_of({1, 3}, [](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        foreign_client other(servers);
        for (int i = 0; i < 5; ++i) {
            other.hold("k");
            watcher w(client, "k");
            BOOST_REQUIRE(w.shows(key_state::held));
            auto const theirs = w.last().digest;
            attempt waiter(client, "k", long_lived);
            BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
            other.del("k");
            BOOST_TEST(client.until([&] { return waiter.won(); }, push_limit));
            BOOST_TEST(client.until(
                [&] { return w.last().state == key_state::held && w.last().digest != theirs; },
                push_limit));
            BOOST_TEST(w.last().holder == "this client");
            BOOST_TEST(client.releases(waiter.held));
            BOOST_TEST(w.shows(key_state::free), w.last());
        }
    });
}

// With NOLOOP the servers do not push the client's own writes, and drop its registration.
BOOST_AUTO_TEST_CASE(a_clients_own_writes_hide_no_change) {
    on_every_kind([](fleet& servers) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        watcher w(client, "k");
        auto held = client.hold("k");
        BOOST_TEST(w.shows(key_state::held), w.last());
        BOOST_TEST(!client.extend(held));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().pending == 0; }));
        foreign_client(servers).del("k");
        BOOST_TEST(w.shows(key_state::free), w.last());
    });
}

BOOST_AUTO_TEST_CASE(many_calls_for_a_key_share_the_questions) {
    constexpr std::size_t many = 2'000;
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    auto const now = report_on(client, "k");
    std::vector<std::unique_ptr<change>> all;
    auto const before = client.locks.stats().commands;
    for (std::size_t i = 0; i < many; ++i) {
        all.push_back(std::make_unique<change>(client, "k", now));
    }
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().commands > before; }));
    foreign_client(servers).hold_for_ever("k");
    BOOST_TEST(client.until([&] {
        return std::all_of(all.begin(), all.end(), [](auto const& c) { return c->done; });
    }));
    for (auto const& c : all) BOOST_REQUIRE(!c->how);
    // A few rounds of two commands for each instance.
    BOOST_TEST(client.locks.stats().commands - before < many);
}

BOOST_AUTO_TEST_CASE(a_call_is_cancelled) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const now = report_on(client, "k");
    for (auto const type : every_type) {
        change waiting(client, "k", now), other(client, "k", now);
        client.context.restart();
        client.context.poll();
        waiting.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return waiting.done; }));
        BOOST_TEST((waiting.how == errc::cancelled), waiting.how.what());
        BOOST_TEST(!other.done);
        // The other call for the key goes on.
        foreign_client rival(servers);
        rival.hold_for_ever("k");
        BOOST_TEST(client.until([&] { return other.done; }, push_limit));
        rival.del("k");
        // Before its first turn, and while the questions are under way.
        change early(client, "k", now);
        early.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return early.done; }));
        BOOST_TEST((early.how == errc::cancelled), early.how.what());
        BOOST_REQUIRE(
            client.until([&] { return report_on(client, "k").state == key_state::free; }));
    }
}

asio::awaitable<void> use_tokens(client& locks) {
    auto const seen = co_await locks.inspect("k");
    auto const empty = key_report();
    auto const now = co_await locks.wait_change("k", empty);
    BOOST_TEST((now.state == seen.state));
    auto const limited = asio::cancel_after(20ms, asio::as_tuple(asio::deferred));
    auto const waited = co_await locks.wait_change("k", now, limited);
    BOOST_TEST((std::get<0>(waited) == errc::cancelled));
    auto const lost = co_await locks.release("k", "t", asio::as_tuple(asio::deferred));
    BOOST_TEST((std::get<0>(lost) == errc::lease_lost));
    auto const forced = co_await locks.force_release("k", asio::use_awaitable);
    BOOST_TEST((forced.state == key_state::free));
    auto const again = co_await locks.force_release("k", now);
    BOOST_TEST((again.state == key_state::free));
    // A lazy operation that is dropped does nothing.
    [[maybe_unused]] auto const dropped = locks.force_release("k");
}

BOOST_AUTO_TEST_CASE(completion_tokens_work) {
    fleet servers(1);
    test_client client(servers);
    run(client.context, [&] { return use_tokens(client.locks); });
    auto future = client.locks.wait_change("k", {}, asio::use_future);
    BOOST_REQUIRE(client.until([&] { return future.wait_for(0s) == std::future_status::ready; }));
    BOOST_TEST((future.get().state == key_state::free));
}

BOOST_AUTO_TEST_CASE(a_shutdown_ends_the_calls) {
    server s;
    test_client client({s.address()});
    BOOST_REQUIRE(client.all_up());
    auto const now = report_on(client, "k");
    change waiting(client, "k", now), another(client, "other", report_on(client, "other"));
    client.context.restart();
    client.context.poll();
    client.locks.close();
    BOOST_REQUIRE(client.until([&] { return waiting.done && another.done; }));
    BOOST_TEST((waiting.how == errc::shut_down));
    change late(client, "k", now);
    BOOST_REQUIRE(client.until([&] { return late.done; }));
    BOOST_TEST((late.how == errc::shut_down));
    // Nothing keeps the context at work.
    BOOST_TEST(client.until([&] { return client.context.stopped(); }));
}

BOOST_AUTO_TEST_CASE(a_destroyed_context_drops_the_calls) {
    server s;
    auto const proof = std::make_shared<int>(1);
    auto called = false;
    std::optional<asio::io_context> context(std::in_place);
    client locks(context->get_executor(), {address(s.address())});
    BOOST_REQUIRE(run_until(*context, [&] { return is_up(locks); }));
    for (auto const* const key : {"a", "a", "b"}) {
        key_report none;
        std::optional<key_report> first;
        locks.inspect(key, [&](error, key_report r) { first = std::move(r); });
        BOOST_REQUIRE(run_until(*context, [&] { return first.has_value(); }));
        locks.wait_change(key, *first, [&called, proof](error, key_report) { called = true; });
    }
    context->restart();
    context->poll();
    context.reset();
    BOOST_TEST(!called);
    BOOST_TEST(proof.use_count() == 1);
    BOOST_CHECK_THROW(locks.wait_change("a", {}, [](error, key_report) {}), system_error);
}

BOOST_AUTO_TEST_CASE(wrong_keys_are_refused_by_the_call) {
    server s;
    test_client client({s.address()});
    BOOST_CHECK_THROW(client.locks.wait_change("", {}, [](error, key_report) {}), system_error);
    auto const taken = std::move(client.locks);
    BOOST_CHECK_THROW(client.locks.wait_change("k", {}, [](error, key_report) {}), system_error);
}

BOOST_AUTO_TEST_SUITE_END()
