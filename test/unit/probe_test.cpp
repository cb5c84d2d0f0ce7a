// The first questions on a connection, and the meaning of the answers.
#include "redis/exclusive_key.hpp"
#include "redis/probe.hpp"

#include "support/resp.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::errc;
using prober = holdfast::redis::probe;

namespace {

namespace resp = holdfast::test::resp;

std::string const info_text =
    "redis_version:8.4.0\r\nrun_id:0123456789012345678901234567890123456789\r\n"
    "role:master\r\nuptime_in_seconds:12\r\n";

/// The answers of a server, by question.
struct server {
    std::string hello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
    std::string select = "+OK\r\n";
    std::string tracking = "+OK\r\n";
    std::string load = "$1\r\nx\r\n";
    std::string fsync = "%1\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n";
    std::string flushes = resp::bulk("# Commandstats\r\ncmdstat_flushall:calls=3,usec=1\r\n");
    std::string time = "*2\r\n$10\r\n1700000000\r\n$3\r\n250\r\n";
    std::string info = resp::bulk(info_text + "aof_enabled:1\r\n");
};

/// Whom the replies of a pipeline go to.
struct listener {
    prober& p;
    time_reply clock{};
    std::optional<std::chrono::microseconds> time{};

    void on_part(pending_command& c, element const& e) {
        if (c.type == command_type::probe) {
            p.take_part(c, e);
        } else {
            clock.take_part(e);
        }
    }
    void on_reply(pending_command c) {
        if (c.type == command_type::time) time = clock.take_reply();
    }
    void on_batch_answered() {}
    void on_push(element const&) {}
    bool ends() const { return false; }
};

/// Probes it. Gives the time that it told.
std::optional<std::chrono::microseconds> ask(prober& p, server const& s,
                                             address const& a = address("redis://h/3")) {
    pipeline wire;
    auto& b = wire.send_first(p.questions(a, "me", true));
    b.written = b.bytes.size();
    auto const selects = a.database() != 0;
    auto const all = s.hello + (selects ? s.select : std::string()) + s.tracking + s.load + s.load +
                     s.load + s.load + s.fsync + s.flushes + s.time + s.info;
    listener user{.p = p};
    std::string_view bytes = all;
    BOOST_TEST(wire.read(bytes, user), wire.problem());
    BOOST_TEST(wire.idle());
    return user.time;
}

prober asked(server const& s) {
    prober p;
    ask(p, s);
    return p;
}

void refuses(server const& s, errc cause, std::string_view message) {
    auto const p = asked(s);
    BOOST_TEST((p.refused() == cause), message);
    BOOST_TEST(p.message() == message);
}

void accepts(server const& s) {
    auto const p = asked(s);
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_TEST(p.info().has_value());
}

} // namespace

BOOST_AUTO_TEST_SUITE(probe)

BOOST_AUTO_TEST_CASE(it_says_who_asks_and_asks_what_the_server_is) {
    std::string const loads =
        resp::command({"SCRIPT", "LOAD", std::string(release_script)}) +
        resp::command({"SCRIPT", "LOAD", std::string(extend_script)}) +
        resp::command({"SCRIPT", "LOAD", std::string(fenced_acquire_script)}) +
        resp::command({"SCRIPT", "LOAD", std::string(raise_script)});
    auto const tracking = resp::command({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"});
    auto const settings =
        resp::command({"CONFIG", "GET", "*appendfsync*"}) + resp::command({"INFO", "commandstats"});
    prober p;
    BOOST_TEST(p.questions(address("redis://h"), "me", false)->bytes ==
               resp::command({"HELLO", "3", "SETNAME", "me"}) + tracking + loads + settings +
                   resp::command({"INFO"}));
    BOOST_TEST(p.questions(address("redis://:pw@h/7"), "me", true)->bytes ==
               resp::command({"HELLO", "3", "AUTH", "default", "pw", "SETNAME", "me"}) +
                   resp::command({"SELECT", "7"}) + tracking + loads + settings +
                   resp::command({"TIME"}) + resp::command({"INFO"}));
    BOOST_TEST(
        p.questions(address("redis://u:pw@h"), "me", false)
            ->bytes.starts_with(resp::command({"HELLO", "3", "AUTH", "u", "pw", "SETNAME", "me"})));
}

BOOST_AUTO_TEST_CASE(a_server_that_answers_everything_can_vote) {
    prober p;
    auto const time = ask(p, {});
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_REQUIRE(p.info().has_value());
    BOOST_TEST(p.info()->version == "8.4.0");
    BOOST_TEST(p.info()->flushes == 3U);
    BOOST_TEST(p.tracking());
    BOOST_TEST(p.durable());
    BOOST_TEST((time == 1'700'000'000s + 250us));
}

BOOST_AUTO_TEST_CASE(hello_that_is_refused_refuses_the_server) {
    refuses({.hello = "-ERR unknown command `HELLO`, with args beginning with: `3`\r\n"},
            errc::not_redis, "ERR unknown command `HELLO`, with args beginning with: `3`");
    refuses({.hello = "-WRONGPASS invalid username-password pair\r\n"}, errc::access_denied,
            "WRONGPASS invalid username-password pair");
    refuses({.hello = "-NOAUTH HELLO must be called with the client already authenticated\r\n"},
            errc::access_denied,
            "NOAUTH HELLO must be called with the client already authenticated");
    refuses({.hello = "-LOADING Redis is loading the dataset in memory\r\n"}, errc::rejected,
            "LOADING Redis is loading the dataset in memory");
    for (auto const* const nonsense : {"+OK\r\n", "*2\r\n:1\r\n:2\r\n", "_\r\n", ":3\r\n"}) {
        refuses({.hello = nonsense}, errc::not_redis,
                "the answer to HELLO is not that of Redis or Valkey");
    }
}

BOOST_AUTO_TEST_CASE(a_database_that_is_refused_refuses_the_server) {
    refuses({.select = "-ERR DB index is out of range\r\n"}, errc::rejected,
            "ERR DB index is out of range");
    refuses({.select = "-NOPERM no\r\n"}, errc::access_denied, "NOPERM no");
}

BOOST_AUTO_TEST_CASE(the_first_refusal_counts) {
    refuses({.hello = "-WRONGPASS no\r\n", .select = "-NOAUTH no\r\n", .info = "-NOAUTH no\r\n"},
            errc::access_denied, "WRONGPASS no");
}

BOOST_AUTO_TEST_CASE(a_server_without_tracking_can_vote) {
    server const s{.tracking = "-ERR unknown subcommand\r\n"};
    accepts(s);
    BOOST_TEST(!asked(s).tracking());
}

BOOST_AUTO_TEST_CASE(a_server_that_loads_no_scripts_can_vote) {
    accepts({.load = "-NOPERM this user has no permissions to run the 'script|load' command\r\n"});
}

BOOST_AUTO_TEST_CASE(a_server_is_durable_only_if_it_says_so_twice) {
    auto const durable = [](std::string const& fsync, std::string const& aof) {
        return asked({.fsync = fsync, .info = resp::bulk(info_text + aof)}).durable();
    };
    server const good;
    BOOST_TEST(durable(good.fsync, "aof_enabled:1\r\n"));
    BOOST_TEST(durable("*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n", "aof_enabled:1\r\n"));
    std::string const more = "$25\r\nno-appendfsync-on-rewrite\r\n";
    std::string const fsync = "$11\r\nappendfsync\r\n$6\r\nalways\r\n";
    BOOST_TEST(durable("%2\r\n" + fsync + more + "$2\r\nno\r\n", "aof_enabled:1\r\n"));
    BOOST_TEST(durable("%2\r\n" + more + "$2\r\nno\r\n" + fsync, "aof_enabled:1\r\n"));
    // A rewrite of the log would let writes wait in memory.
    BOOST_TEST(!durable("%2\r\n" + fsync + more + "$3\r\nyes\r\n", "aof_enabled:1\r\n"));
    BOOST_TEST(!durable("%2\r\n" + more + "$3\r\nyes\r\n" + fsync, "aof_enabled:1\r\n"));
    BOOST_TEST(!durable(good.fsync, "aof_enabled:0\r\n"));
    BOOST_TEST(!durable(good.fsync, ""));
    for (auto const* const said :
         {"%1\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n", "-NOPERM no\r\n", "%0\r\n", "*0\r\n",
          "_\r\n", "%1\r\n$6\r\nalways\r\n$11\r\nappendfsync\r\n",
          "%1\r\n$5\r\nother\r\n$6\r\nalways\r\n", "$6\r\nalways\r\n"}) {
        server const s{.fsync = said};
        accepts(s);
        BOOST_TEST(!asked(s).durable(), said);
    }
}

BOOST_AUTO_TEST_CASE(info_says_whether_it_is_a_server_and_a_primary) {
    refuses({.info = "-NOPERM no\r\n"}, errc::access_denied, "NOPERM no");
    refuses({.info = resp::bulk("hello")}, errc::not_redis,
            "the answer to INFO is not that of Redis or Valkey");
    refuses({.info = "_\r\n"}, errc::not_redis,
            "the answer to INFO is not that of Redis or Valkey");
    auto replica = info_text;
    replica.replace(replica.find("master"), 6, "slave");
    refuses({.info = resp::bulk(replica)}, errc::read_only, "the instance is a replica");
}

namespace {

/// The sections that it asks for, and the result of that reply.
struct check_result {
    std::string asked;
    std::optional<server_info> info;
};

check_result run_check(server_check& check, std::string const& reply) {
    pipeline wire;
    check.ask(wire);
    auto& b = wire.send({});
    b.written = b.bytes.size();
    struct {
        server_check& check;
        void on_part(pending_command& c, element const& e) {
            BOOST_TEST((c.type == command_type::server_check));
            check.take_part(e);
        }
        void on_reply(pending_command) {}
        void on_batch_answered() {}
        void on_push(element const&) {}
        bool ends() const { return false; }
    } user{check};
    auto const asked = b.bytes;
    std::string_view bytes = reply;
    BOOST_TEST(wire.read(bytes, user), wire.problem());
    return {asked, check.take_reply()};
}

} // namespace

BOOST_AUTO_TEST_CASE(a_later_look_asks_for_what_may_have_changed) {
    server_check check;
    auto const found = run_check(check, resp::bulk(info_text + "aof_enabled:1\r\n"));
    BOOST_TEST(found.asked == resp::command({"INFO", "server", "replication", "memory",
                                             "persistence", "commandstats"}));
    BOOST_REQUIRE(found.info.has_value());
    BOOST_TEST(found.info->logs_writes);
    BOOST_TEST(!found.info->replica);
    BOOST_TEST(!check.take_reply().has_value());
}

BOOST_AUTO_TEST_CASE(a_server_that_takes_no_list_of_sections_is_asked_for_all) {
    server_check check;
    BOOST_TEST(!run_check(check, "-ERR syntax error\r\n").info.has_value());
    for (auto n = 0; n < 2; ++n) {
        auto const found = run_check(check, resp::bulk(info_text));
        BOOST_TEST(found.asked == resp::command({"INFO", "all"}));
        BOOST_TEST(found.info.has_value());
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_is_busy_is_asked_for_the_same_again) {
    server_check check;
    for (auto const* const busy : {"-BUSY Redis is busy\r\n", "-NOPERM no\r\n", "-LOADING\r\n"}) {
        BOOST_TEST(!run_check(check, busy).info.has_value());
        BOOST_TEST(run_check(check, resp::bulk(info_text)).asked != resp::command({"INFO", "all"}));
    }
}

BOOST_AUTO_TEST_CASE(a_look_that_shows_nothing_is_ignored) {
    server_check check;
    for (auto const* const nothing : {"_\r\n", ":1\r\n", "*1\r\n:1\r\n", "+OK\r\n", "%0\r\n"}) {
        BOOST_TEST(!run_check(check, nothing).info.has_value(), nothing);
    }
    BOOST_TEST(!run_check(check, resp::bulk("redis_version:7.0.15\r\n")).info.has_value());
    BOOST_TEST(run_check(check, resp::bulk(info_text)).info.has_value());
}

BOOST_AUTO_TEST_CASE(a_server_that_counts_no_commands_can_vote) {
    for (auto const* const none : {"-NOPERM no\r\n", "$0\r\n\r\n", "_\r\n"}) {
        accepts({.flushes = none});
        BOOST_TEST(asked({.flushes = none}).info()->flushes == 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_time_that_makes_no_sense_is_ignored) {
    for (auto const* const time :
         {"-NOPERM no\r\n", "*0\r\n", "*1\r\n$1\r\n1\r\n",
          "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n", "*2\r\n$2\r\n-1\r\n$1\r\n1\r\n",
          "*2\r\n$1\r\n1\r\n$2\r\n-1\r\n", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n",
          "*2\r\n$1\r\n1\r\n$0\r\n\r\n", "*2\r\n$1\r\n1\r\n$7\r\n1000000\r\n",
          "*2\r\n$10\r\n3000000001\r\n$1\r\n1\r\n",
          "*2\r\n$20\r\n99999999999999999999\r\n$1\r\n1\r\n", "*2\r\n*1\r\n:1\r\n:1\r\n",
          "*2\r\n$2\r\n1x\r\n$1\r\n1\r\n", "+OK\r\n", "_\r\n"}) {
        prober p;
        BOOST_TEST((ask(p, {.time = time}) == std::nullopt), time);
        BOOST_TEST((p.refused() == errc{}));
    }
    prober p;
    BOOST_TEST((ask(p, {.time = "*2\r\n$1\r\n0\r\n$1\r\n0\r\n"}) == 0us));
    BOOST_TEST((ask(p, {.time = "*2\r\n$10\r\n3000000000\r\n$6\r\n999999\r\n"}) ==
                3'000'000'000s + 999'999us));
}

BOOST_AUTO_TEST_CASE(the_next_connection_is_asked_anew) {
    prober p;
    ask(p, {.hello = "-WRONGPASS no\r\n", .info = "-NOPERM no\r\n"});
    ask(p, {.tracking = "-ERR\r\n", .fsync = "-ERR\r\n"});
    BOOST_TEST((p.refused() == errc{}));
    BOOST_TEST(p.message().empty());
    BOOST_TEST(!p.tracking());
    BOOST_TEST(!p.durable());
    ask(p, {});
    BOOST_TEST(p.durable());
    auto const questions = p.questions(address("redis://h"), "me", false);
    BOOST_TEST(!p.info().has_value());
    BOOST_TEST(!p.tracking());
}

BOOST_AUTO_TEST_SUITE_END()
