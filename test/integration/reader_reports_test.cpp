// client::inspect(), wait_change(), release() and force_release() for a lock with readers.
#include <holdfast/key_report.hpp>
#include <holdfast/read_write_lock.hpp>

#include "integration/attempt.hpp"
#include "integration/key_reports.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view key = "page";

read_write_lock page(test_client& c, lock_options const& options = long_lived) {
    return c.locks.make_read_write_lock(key, options);
}

lease hold(test_client& c, lock const& which) {
    attempt a;
    a.start(which);
    return wait_for_lease(c, a);
}

/// A quorum has so many. An instance that has just learned the scripts may be without them.
bool has(key_report const& r, std::size_t readers) {
    return r.shared() && r.readers.size() == readers;
}

error release(test_client& c, lock const& of, std::string_view token) {
    auto done = false;
    error result;
    c.locks.release(of, token, [&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(reader_reports)

BOOST_AUTO_TEST_CASE(a_report_names_the_readers_and_shows_no_token) {
    on_every_kind([](fleet& servers) {
        three_clients c(servers);
        auto first = hold(c.one, page(c.one).read());
        auto second = hold(c.two, page(c.two, {.ttl = 30s}).read());
        auto const r = inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 2); });
        BOOST_TEST((r.state == key_state::held), r);
        BOOST_TEST(r.shared());
        BOOST_TEST((r.reader_count == 2U));
        BOOST_REQUIRE(r.readers.size() == 2U);
        BOOST_TEST(r.readers[0].holder == "web-1");
        BOOST_TEST(r.readers[1].holder == "web-2");
        BOOST_REQUIRE(r.readers[0].ttl_left.has_value());
        BOOST_TEST((*r.readers[0].ttl_left <= 60s));
        BOOST_TEST((*r.readers[0].ttl_left > 30s));
        BOOST_TEST((*r.readers[1].ttl_left <= 30s));
        BOOST_TEST((*r.ttl_left > 60s)); // the key outlives them
        BOOST_TEST(!r.writer.has_value());
        auto const said = r.to_string();
        BOOST_TEST(contains(said, "held by 2 readers (web-1, web-2), "), said);
        for (auto const* const l : {&first, &second}) {
            auto const token = l->token().value;
            BOOST_TEST(!contains(said, token.substr(token.find(':') + 1)), said);
        }
        BOOST_TEST(inspect(c.one, key).readers[0].holder == "this client");
        // The end of one changes nothing for the other.
        BOOST_TEST(c.one.releases(first));
        auto const rest = inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 1); });
        BOOST_TEST(rest.readers[0].digest == r.readers[1].digest);
        BOOST_TEST(c.two.releases(second));
        inspect_until(c.asks, key, [](auto const& seen) { return seen.state == key_state::free; });
    });
}

BOOST_AUTO_TEST_CASE(a_report_tells_who_waits) {
    fleet servers(3);
    three_clients c(servers);
    auto held = hold(c.one, page(c.one).read());
    attempt writer;
    writer.start(page(c.two).write());
    auto const waits = [](key_report const& r) { return r.writer.has_value(); };
    auto const r = inspect_until(c.asks, key, waits);
    BOOST_TEST(r.shared(), r);
    BOOST_TEST(r.writer->holder == "web-2");
    BOOST_REQUIRE(r.writer->ttl_left.has_value());
    BOOST_TEST((*r.writer->ttl_left <= 60s));
    BOOST_TEST(contains(r.to_string(), "a writer of web-2 waits"), r);
    BOOST_TEST(inspect(c.two, key).writer->holder == "this client");
    // Readers that have come meanwhile have the turn after the writer.
    attempt reader;
    reader.start(page(c.asks).read());
    inspect_until(c.asks, key, [](key_report const& seen) {
        return std::ranges::any_of(seen.instances, [](key_answer const& i) {
            return i.turn == readers_turn::wait && i.turn_left.has_value();
        });
    });
    BOOST_TEST(c.one.releases(held));
    BOOST_REQUIRE(c.asks.until([&] { return writer.won(); }));
    auto const written = inspect(c.asks, key);
    BOOST_TEST(!written.shared(), written);
    BOOST_TEST(written.holder == "web-2");
    BOOST_TEST(c.two.releases(writer.held));
    BOOST_REQUIRE(c.asks.until([&] { return reader.won(); }));
    BOOST_TEST(c.asks.releases(reader.held));
}

BOOST_AUTO_TEST_CASE(readers_who_come_and_go_are_a_change) {
    fleet servers(3);
    three_clients c(servers);
    auto const next = [&](key_report const& last) { return next_report(c.asks, key, last); };
    auto const until = [&](key_report seen, std::size_t readers) {
        while (!has(seen, readers)) seen = next(seen);
        return seen;
    };
    auto seen = inspect(c.asks, key);
    BOOST_TEST((seen.state == key_state::free), seen);
    auto first = hold(c.one, page(c.one).read());
    seen = until(seen, 1);
    auto second = hold(c.two, page(c.two).read());
    seen = until(seen, 2); // not pushed: at the latest after 10 s
    BOOST_TEST(c.one.releases(first));
    seen = until(seen, 1);
    BOOST_TEST(c.two.releases(second));
    while (seen.state != key_state::free) seen = next(seen);
}

BOOST_AUTO_TEST_CASE(no_more_readers_are_shown_than_are_of_use) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    redis_cli cli(servers[0]);
    auto const mark = std::string("readers:") + std::string(32, '0');
    cli.command({"SET", "page", mark, "PX", "60000"});
    for (auto i = 0; i < 200; ++i) {
        auto const token = "r" + std::to_string(i) + ':' + std::string(32, 'a');
        cli.command({"ZADD", "{page}:readers", "9999999999999", token});
    }
    auto const r = inspect(client, key);
    BOOST_TEST((r.reader_count == 200U));
    BOOST_TEST(r.readers.size() == key_answer::max_readers);
    BOOST_TEST(r.instances[0].readers.size() == key_answer::max_readers);
}

BOOST_AUTO_TEST_CASE(readers_that_have_expired_and_a_set_that_is_missing_are_told) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    redis_cli cli(servers[0]);
    auto const mark = std::string("readers:") + std::string(32, '0');
    cli.command({"SET", "page", mark, "PX", "60000"});
    cli.command({"ZADD", "{page}:readers", "1", "a:" + std::string(32, 'a')});
    auto r = inspect(client, key);
    BOOST_TEST((r.state == key_state::split), r);
    BOOST_TEST((r.instances[0].reader_count == 0U));
    BOOST_TEST(contains(r.to_string(), "0 readers"), r);
    cli.del("{page}:readers");
    r = inspect(client, key);
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(!r.reader_count.has_value());
    BOOST_TEST(contains(r.instances[0].message, "missing"), r);
    cli.command({"RPUSH", "{page}:readers", "x"});
    r = inspect(client, key);
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(contains(r.instances[0].message, "WRONGTYPE"), r);
}

BOOST_AUTO_TEST_CASE(a_user_with_fewer_rights_sees_less) {
    on_two_servers([](server_kind const& kind) {
        restricted s(kind);
        test_client client({s.redis.url()});
        BOOST_REQUIRE(client.all_up());
        auto held = hold(client, page(client).read());
        BOOST_TEST(inspect(client, key).readers.size() == 1U);
        s.change("-time");
        auto r = inspect(client, key);
        BOOST_REQUIRE_MESSAGE(r.readers.size() == 1U, r);
        BOOST_TEST(!r.readers[0].ttl_left.has_value());
        s.change("-zcard");
        r = inspect(client, key);
        BOOST_TEST((r.reader_count == 1U), r);
        s.change("-zrange");
        r = inspect(client, key);
        BOOST_TEST((r.state == key_state::held), r);
        BOOST_TEST(r.shared());
        BOOST_TEST(!r.reader_count.has_value());
        BOOST_TEST(contains(r.instances[0].message, "ZRANGE: NOPERM"), r);
        BOOST_TEST(contains(r.to_string(), "held by readers"), r);
        for (auto const* const rule : {"+time", "+zcard", "+zrange"}) s.change(rule);
        BOOST_TEST(client.releases(held));
    });
}

//
// Releases
//

BOOST_AUTO_TEST_CASE(the_token_of_a_reader_ends_that_reader_alone) {
    on_every_kind([](fleet& servers) {
        three_clients c(servers);
        auto first = hold(c.one, page(c.one).read());
        auto second = hold(c.two, page(c.two).read());
        auto const token = first.token().value;
        inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 2); });
        // Without the lock, the token is compared with the value of the key.
        auto done = false;
        c.asks.locks.release("page", token, [&](error e) {
            BOOST_TEST((e == errc::lease_lost), e.what());
            done = true;
        });
        BOOST_REQUIRE(c.asks.until([&] { return done; }));
        BOOST_TEST(!release(c.asks, page(c.asks).read(), token));
        BOOST_TEST((release(c.asks, page(c.asks).read(), token) == errc::lease_lost));
        auto const r = inspect_until(c.asks, key, [](auto const& seen) { return has(seen, 1); });
        BOOST_TEST(r.readers[0].holder == "web-2");
        BOOST_TEST((c.one.extend(first) == errc::lease_lost));
        BOOST_TEST(!c.two.extend(second));
        BOOST_TEST(c.two.releases(second));
    });
}

BOOST_AUTO_TEST_CASE(the_token_of_a_writer_is_released_by_its_lock) {
    fleet servers(3);
    three_clients c(servers);
    auto written = hold(c.one, page(c.one).write());
    attempt reader;
    reader.start(page(c.two).read());
    inspect_until(c.asks, key, [](key_report const& seen) {
        return std::ranges::any_of(
            seen.instances, [](key_answer const& i) { return i.turn == readers_turn::wait; });
    });
    BOOST_TEST(!release(c.asks, page(c.asks).write(), written.token().value));
    BOOST_REQUIRE(c.asks.until([&] { return reader.won(); }));
    BOOST_TEST((c.one.extend(written) == errc::lease_lost));
    BOOST_TEST(c.two.releases(reader.held));
}

BOOST_AUTO_TEST_CASE(force_ends_all_readers) {
    on_every_kind([](fleet& servers) {
        three_clients c(servers);
        auto first = hold(c.one, page(c.one).read());
        auto second = hold(c.two, page(c.two).read());
        auto const seen = inspect_until(c.asks, key, [](auto const& r) { return has(r, 2); });
        attempt writer;
        writer.start(page(c.asks).write());
        BOOST_TEST(!force(c.asks, key, seen));
        BOOST_TEST(c.asks.until([&] { return writer.won(); }));
        for (auto* const l : {&first, &second}) {
            auto& holder = l == &first ? c.one : c.two;
            BOOST_TEST((holder.extend(*l) == errc::lease_lost));
        }
        BOOST_TEST(c.asks.releases(writer.held));
    });
}

// A person has seen one reader, and decides when another has come.
BOOST_AUTO_TEST_CASE(force_does_not_end_readers_that_were_not_seen) {
    fleet servers(3);
    three_clients c(servers);
    auto first = hold(c.one, page(c.one).read());
    auto const seen = inspect_until(c.asks, key, [](auto const& r) { return has(r, 1); });
    auto second = hold(c.two, page(c.two).read());
    inspect_until(c.asks, key, [](auto const& r) { return has(r, 2); });
    auto const how = force(c.asks, key, seen);
    BOOST_TEST((how == errc::lease_lost), how.what());
    BOOST_TEST(!c.one.extend(first));
    BOOST_TEST(!c.two.extend(second));
    BOOST_TEST(!force(c.asks, key));
    BOOST_TEST((c.one.extend(first) == errc::lease_lost));
}

BOOST_AUTO_TEST_SUITE_END()
