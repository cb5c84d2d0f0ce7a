// The first questions on a connection, and the meaning of the answers.
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/probe.hpp"

#include "support/resp.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::degradation;
using holdfast::errc;
using holdfast::protocol::fault;
using prober = holdfast::redis::probe;

namespace {

namespace resp = holdfast::test::resp;

std::string const info_text =
    "redis_version:8.4.0\r\nrun_id:0123456789012345678901234567890123456789\r\n"
    "role:master\r\nuptime_in_seconds:12\r\n";
std::string const noscript = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
constexpr std::string_view no_digest = "0000000000000000000000000000000000000000";

/// A text of a Redis 7.0.
std::string denied(std::string const& command) {
    return "-NOPERM this user has no permissions to run the '" + command + "' command\r\n";
}
std::string unknown(std::string const& command) {
    return "-ERR unknown command '" + command + "', with args beginning with: 'x' \r\n";
}

/// The answers of a server, by question.
struct server {
    std::string hello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
    std::string auth = "+OK\r\n";
    std::string name = "+OK\r\n";
    std::string select = "+OK\r\n";
    std::string tracking = "+OK\r\n";
    std::string load = "$1\r\nx\r\n";
    std::string evalsha = noscript;
    std::string eval = ":0\r\n";
    std::string fsync = "%1\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n";
    std::string tracking_limit = "%1\r\n$23\r\ntracking-table-max-keys\r\n$4\r\n5000\r\n";
    std::string flushes = resp::bulk("# Commandstats\r\ncmdstat_flushall:calls=3,usec=1\r\n");
    std::string time = "*2\r\n$10\r\n1700000000\r\n$3\r\n250\r\n";
    std::string info = resp::bulk(info_text + "aof_enabled:1\r\n");

    std::string answer(holdfast::test::command_line const& words) const {
        auto const& first = words.at(0);
        if (first == "HELLO") return hello;
        if (first == "AUTH") return auth;
        if (first == "SELECT") return select;
        if (first == "CLIENT") return words.at(1) == "SETNAME" ? name : tracking;
        if (first == "SCRIPT") return load;
        if (first == "EVALSHA") return evalsha;
        if (first == "EVAL") return eval;
        if (first == "CONFIG") return words.at(2) == "*appendfsync*" ? fsync : tracking_limit;
        if (first == "TIME") return time;
        return words.size() > 1 ? flushes : info;
    }
};

/// Whom the replies of a pipeline go to.
struct listener {
    prober& p;
    time_reply clock{};
    std::optional<std::chrono::microseconds> time{};
    bool last = false;

    void on_part(pending_command& c, element const& e) {
        if (c.type == command_type::probe) {
            p.take_part(c, e);
        } else {
            clock.take_part(e);
        }
    }
    void on_reply(pending_command c) {
        if (c.type == command_type::time) time = clock.take_reply();
        if (c.type == command_type::probe) last = p.took_reply();
    }
    void on_batch_answered() {}
    void on_push(element const&) {}
    bool ends() const { return p.refused() != errc{}; }
};

constexpr introduction plain{.name = "me", .database = 3, .asks_time = true};

/// The questions of one probe.
struct asked {
    std::vector<std::string> batches;
    std::optional<std::chrono::microseconds> time{}; ///< as told
};

/// Probes it, to the end.
asked ask(prober& p, server const& s, introduction const& i = plain) {
    asked seen;
    listener user{.p = p};
    for (auto questions = p.begin(i); questions; questions = p.next(i)) {
        seen.batches.push_back(questions->bytes);
        pipeline wire;
        auto& b = wire.send_first(std::move(questions));
        b.written = b.bytes.size();
        std::string answers;
        std::string_view rest = seen.batches.back();
        while (auto const words = holdfast::test::resp::take_command(rest)) {
            answers += s.answer(*words);
        }
        std::string_view bytes = answers;
        BOOST_TEST(wire.read(bytes, user), wire.problem());
        if (user.ends()) break;
        BOOST_TEST(wire.idle());
        BOOST_TEST(user.last);
    }
    seen.time = user.time;
    return seen;
}

prober asked_of(server const& s, introduction const& i = plain) {
    prober p;
    ask(p, s, i);
    return p;
}

void refuses(server const& s, errc cause, std::string_view message, fault f = fault::broken,
             introduction const& i = plain) {
    auto const p = asked_of(s, i);
    BOOST_TEST((p.refused() == cause), message);
    BOOST_TEST(p.message() == message);
    BOOST_TEST((p.fault() == f), message);
}

/// It can vote, and lacks this and nothing else, for this reason.
void lacks(server const& s, degradation d, std::string_view reason) {
    auto const p = asked_of(s);
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_REQUIRE(p.lacks().size() == 1U);
    BOOST_TEST((p.lacks()[0].kind == d), to_string(p.lacks()[0].kind));
    BOOST_TEST(p.lacks()[0].message == reason);
}

void accepts(server const& s) {
    auto const p = asked_of(s);
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_TEST(!p.info().run_id.empty());
}

bool lacks_nothing(prober const& p) {
    return p.lacks().empty();
}
bool has(prober const& p, degradation d) {
    return std::any_of(p.lacks().begin(), p.lacks().end(),
                       [&](auto const& found) { return found.kind == d; });
}

} // namespace

BOOST_AUTO_TEST_SUITE(probe)

std::string const loads = resp::command({"SCRIPT", "LOAD", std::string(release_script)}) +
                          resp::command({"SCRIPT", "LOAD", std::string(extend_script)}) +
                          resp::command({"SCRIPT", "LOAD", std::string(fenced_acquire_script)}) +
                          resp::command({"SCRIPT", "LOAD", std::string(raise_script)}) +
                          resp::command({"EVALSHA", std::string(no_digest), "0"});
std::string const tracking = resp::command({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"});
std::string const settings_in_resp2 =
    resp::command({"CONFIG", "GET", "*appendfsync*"}) + resp::command({"INFO", "commandstats"});
std::string const settings = resp::command({"CONFIG", "GET", "*appendfsync*"}) +
                             resp::command({"CONFIG", "GET", "tracking-table-max-keys"}) +
                             resp::command({"INFO", "commandstats"});

BOOST_AUTO_TEST_CASE(it_says_who_asks_and_asks_what_the_server_is) {
    prober p;
    BOOST_TEST(p.begin({.name = "me"})->bytes == resp::command({"HELLO", "3", "SETNAME", "me"}) +
                                                     tracking + loads + settings +
                                                     resp::command({"INFO"}));
    introduction const with_password{
        .user = {}, .password = "pw", .name = "me", .database = 7, .asks_time = true};
    BOOST_TEST(p.begin(with_password)->bytes ==
               resp::command({"HELLO", "3", "AUTH", "default", "pw", "SETNAME", "me"}) +
                   resp::command({"SELECT", "7"}) + tracking + loads + settings +
                   resp::command({"TIME"}) + resp::command({"INFO"}));
    BOOST_TEST(
        p.begin({.user = "u", .password = "pw", .name = "me"})
            ->bytes.starts_with(resp::command({"HELLO", "3", "AUTH", "u", "pw", "SETNAME", "me"})));
}

BOOST_AUTO_TEST_CASE(a_server_that_answers_everything_can_vote) {
    prober p;
    auto const seen = ask(p, {});
    BOOST_TEST(seen.batches.size() == 1U);
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_TEST(p.info().version == "8.4.0");
    BOOST_TEST(p.info().flushes == 3U);
    BOOST_TEST(p.tracking());
    BOOST_TEST(p.durable());
    BOOST_TEST(!p.whole_scripts());
    BOOST_TEST(lacks_nothing(p));
    BOOST_TEST((seen.time == 1'700'000'000s + 250us));
}

BOOST_AUTO_TEST_CASE(hello_that_is_refused_refuses_the_server) {
    refuses({.hello = "-WRONGPASS invalid username-password pair\r\n"}, errc::access_denied,
            "WRONGPASS invalid username-password pair", fault::setup);
    refuses({.hello = "-NOAUTH HELLO must be called with the client already authenticated\r\n"},
            errc::access_denied,
            "NOAUTH HELLO must be called with the client already authenticated", fault::setup);
    refuses({.hello = "-DENIED Redis is running in protected mode\r\n"}, errc::access_denied,
            "DENIED Redis is running in protected mode", fault::setup);
    for (auto const* const nonsense : {"+OK\r\n", "*2\r\n:1\r\n:2\r\n", "_\r\n", ":3\r\n"}) {
        refuses({.hello = nonsense}, errc::not_redis,
                "the answer to HELLO is not that of Redis or Valkey");
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_is_not_ready_is_unreachable_for_now) {
    for (std::string const error :
         {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script",
          "ERR max number of clients reached"}) {
        refuses({.hello = '-' + error + "\r\n"}, errc::unreachable, error, fault::busy);
        refuses({.info = '-' + error + "\r\n"}, errc::unreachable, error, fault::busy);
    }
}

BOOST_AUTO_TEST_CASE(a_database_that_is_refused_refuses_the_server) {
    refuses({.select = "-ERR DB index is out of range\r\n"}, errc::rejected,
            "ERR DB index is out of range", fault::setup);
    refuses({.select = "-NOPERM no\r\n"}, errc::access_denied, "NOPERM no", fault::setup);
}

BOOST_AUTO_TEST_CASE(the_first_refusal_counts) {
    refuses({.hello = "-WRONGPASS no\r\n", .select = "-NOAUTH no\r\n", .info = "-NOAUTH no\r\n"},
            errc::access_denied, "WRONGPASS no", fault::setup);
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_a_service_can_vote_and_it_is_told) {
    lacks({.tracking = "-ERR unknown subcommand\r\n"}, degradation::no_push,
          "CLIENT TRACKING: ERR unknown subcommand");
    BOOST_TEST(!asked_of({.tracking = "-ERR unknown subcommand\r\n"}).tracking());
    lacks({.load = denied("script|load")}, degradation::no_script_preload,
          "SCRIPT LOAD: NOPERM this user has no permissions to run the 'script|load' command");
    lacks({.fsync = denied("config|get")}, degradation::no_durability_check,
          "CONFIG GET: NOPERM this user has no permissions to run the 'config|get' command");
    lacks({.flushes = unknown("INFO")}, degradation::no_flush_check,
          "INFO commandstats: ERR unknown command 'INFO'");
    lacks({.evalsha = unknown("EVALSHA")}, degradation::no_script_cache,
          "EVALSHA: ERR unknown command 'EVALSHA'");
}

BOOST_AUTO_TEST_CASE(a_sentinel_is_no_instance) {
    refuses({.hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"},
            errc::rejected,
            "the server is a Sentinel: the address must be redis+sentinel://host:port/name",
            fault::setup);
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_info_is_known_by_hello) {
    std::string const valkey = "%3\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n"
                               "$5\r\n9.1.2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";
    server const s{.hello = valkey, .info = denied("info")};
    lacks(s, degradation::no_restart_check,
          "INFO: NOPERM this user has no permissions to run the 'info' command");
    auto const p = asked_of(s);
    BOOST_TEST(p.info().product == "valkey");
    BOOST_TEST(p.info().version == "9.1.2");
    BOOST_TEST(p.info().run_id.empty());
    BOOST_TEST((p.info().speaks() == dialect::delifeq));
    auto replica = valkey;
    replica.replace(replica.find("master"), 6, "replic");
    replica.replace(replica.find("$6\r\nreplic"), 4, "$7\r\n");
    replica.replace(replica.find("replic"), 6, "replica");
    refuses({.hello = replica, .info = denied("info")}, errc::read_only,
            "the instance is a replica");
    // A proxy may leave the process out.
    lacks({.info = resp::bulk("redis_version:7.0.15\r\nrole:master\r\n")},
          degradation::no_restart_check, "INFO: it does not name the server process, run_id");
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_evalsha_is_asked_for_eval) {
    std::string const old_server = resp::bulk("redis_version:7.0.15\r\nrun_id:r\r\n");
    prober p;
    auto const seen = ask(p, {.evalsha = denied("evalsha"), .info = old_server});
    BOOST_REQUIRE(seen.batches.size() == 2U);
    BOOST_TEST(seen.batches[1] == resp::command({"EVAL", "return 0", "0"}));
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_TEST(p.whole_scripts());
    // Without scripts there is no way to release, but on servers that compare natively.
    server const none{.evalsha = denied("evalsha"), .eval = denied("eval"), .info = old_server};
    refuses(none, errc::access_denied,
            "no way to release locks: EVALSHA: NOPERM this user has no permissions to run the "
            "'evalsha' command; EVAL: NOPERM this user has no permissions to run the 'eval' "
            "command",
            fault::setup);
    refuses({.evalsha = unknown("EVALSHA"), .eval = unknown("EVAL"), .info = old_server},
            errc::rejected,
            "no way to release locks: EVALSHA: ERR unknown command 'EVALSHA'; EVAL: ERR unknown "
            "command 'EVAL'",
            fault::setup);
    for (std::string const version : {"redis_version:8.4.0\r\n", "valkey_version:9.0.0\r\n"}) {
        auto native = none;
        native.info = resp::bulk("redis_version:7.2.4\r\n" + version + "run_id:r\r\n");
        if (version.starts_with("redis")) native.info = resp::bulk(version + "run_id:r\r\n");
        auto const q = asked_of(native);
        BOOST_TEST((q.refused() == errc{}), q.message());
        BOOST_TEST(has(q, degradation::no_script_cache));
        BOOST_TEST(has(q, degradation::no_extend));
        BOOST_TEST(q.lacks().back().message ==
                   "EVAL: NOPERM this user has no permissions to run the 'eval' command");
    }
}

BOOST_AUTO_TEST_CASE(scripts_are_refused_in_many_words) {
    std::string const old_server = resp::bulk("redis_version:7.0.15\r\nrun_id:r\r\n");
    for (std::string const error : {"ERR scripting is disabled", "ERR EVALSHA is disabled",
                                    "ERR command 'EVALSHA' is forbidden", "ERR no"}) {
        BOOST_TEST_CONTEXT(error) {
            auto const line = '-' + error + "\r\n";
            prober p;
            BOOST_TEST(ask(p, {.evalsha = line, .info = old_server}).batches.size() == 2U);
            BOOST_TEST(p.whole_scripts());
            BOOST_TEST(has(p, degradation::no_script_cache));
            refuses({.evalsha = line, .eval = line, .info = old_server}, errc::rejected,
                    "no way to release locks: EVALSHA: " + error + "; EVAL: " + error,
                    fault::setup);
        }
    }
    // Others know scripts.
    for (std::string const error :
         {"NOSCRIPT No matching script.", "ERR wrong number of arguments for 'evalsha' command",
          "OOM command not allowed when used memory > 'maxmemory'.",
          "MASTERDOWN Link with MASTER is down"}) {
        accepts({.evalsha = '-' + error + "\r\n"});
        BOOST_TEST(!asked_of({.evalsha = '-' + error + "\r\n"}).whole_scripts(), error);
    }
}

BOOST_AUTO_TEST_CASE(hello_is_refused_in_many_words) {
    for (std::string const error :
         {"ERR HELLO is disabled", "ERR syntax error", "ERR no", "",
          "NOPERM User app has no permissions to run the 'hello' command"}) {
        BOOST_TEST_CONTEXT(error) {
            prober p;
            BOOST_TEST(ask(p, {.hello = '-' + error + "\r\n"}).batches.size() == 2U);
            BOOST_TEST((p.refused() == errc{}), p.message());
            BOOST_TEST(has(p, degradation::no_resp3));
        }
    }
    refuses({.hello = "-NOPERM no permissions to run the 'client|setname' command\r\n"},
            errc::access_denied, "NOPERM no permissions to run the 'client|setname' command",
            fault::setup);
}

BOOST_AUTO_TEST_CASE(the_text_of_a_refused_password_is_not_shown) {
    introduction const i{.user = "u", .password = "pass\"word\x01", .name = "me"};
    refuses({.hello = "-WRONGPASS bad login for u / pass\\\"wo\r\n"}, errc::access_denied,
            "WRONGPASS", fault::setup, i);
    refuses({.hello = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
            errc::access_denied, "WRONGPASS invalid username-password pair", fault::setup, i);
    refuses({.hello = unknown("HELLO"), .auth = "-ERR no user u / pass\\\"wo\r\n"}, errc::rejected,
            "ERR", fault::broken, i);
    prober p;
    ask(p, {.hello = "-ERR unknown command HELLO 3 AUTH u pass\\\"wo\r\n"}, i);
    BOOST_TEST((p.refused() == errc{}), p.message());
    for (auto const& lack : p.lacks()) BOOST_TEST(lack.message.find("pass") == std::string::npos);
    // Code that masks the password later needs the bytes of the server.
    auto const quoting = asked_of({.load = "-ERR no pass\"word\x01\r\n"}, i);
    BOOST_REQUIRE(quoting.lacks().size() == 1U);
    BOOST_TEST(quoting.lacks()[0].message == "SCRIPT LOAD: ERR no pass\"word\x01");
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_of_no_use_is_a_lack) {
    for (auto const* const answer : {"_\r\n", "$-1\r\n", "$0\r\n\r\n", ":1\r\n"}) {
        lacks({.tracking = answer}, degradation::no_push, "CLIENT TRACKING: the answer is not OK");
        BOOST_TEST(!asked_of({.tracking = answer}).tracking(), answer);
        lacks({.fsync = answer}, degradation::no_durability_check,
              "CONFIG GET: it does not report appendfsync");
    }
    lacks({.fsync = "%0\r\n"}, degradation::no_durability_check,
          "CONFIG GET: it does not report appendfsync");
    for (auto const* const answer : {"_\r\n", "$-1\r\n", "$0\r\n\r\n"}) {
        lacks({.flushes = answer}, degradation::no_flush_check,
              "INFO commandstats: the answer is empty");
        lacks({.info = answer}, degradation::no_restart_check, "INFO: the answer is empty");
    }
}

BOOST_AUTO_TEST_CASE(dragonfly_is_asked_to_track_without_noloop) {
    server const s{.info = resp::bulk(info_text + "dragonfly_version:df-v1.27.1\r\n")};
    prober p;
    auto const seen = ask(p, s);
    BOOST_REQUIRE(seen.batches.size() == 2U);
    BOOST_TEST(seen.batches[1] == resp::command({"CLIENT", "TRACKING", "OFF"}) +
                                      resp::command({"CLIENT", "TRACKING", "ON", "OPTIN"}));
    BOOST_TEST(p.tracking());
    BOOST_TEST(lacks_nothing(p));
    // Nor is it asked again where it refuses.
    auto refusing = s;
    refusing.tracking = unknown("CLIENT");
    BOOST_TEST(ask(p, refusing).batches.size() == 1U);
    BOOST_TEST(!p.tracking());
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_hello_is_asked_all_in_resp2) {
    for (auto const& hello : {unknown("HELLO"), std::string("-NOPROTO unsupported\r\n")}) {
        server const s{.hello = hello, .fsync = "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"};
        prober p;
        auto const seen =
            ask(p, s, {.user = "u", .password = "pw", .name = "me", .asks_time = true});
        BOOST_REQUIRE(seen.batches.size() == 2U);
        BOOST_TEST(seen.batches[1] == resp::command({"AUTH", "u", "pw"}) +
                                          resp::command({"CLIENT", "SETNAME", "me"}) + loads +
                                          settings_in_resp2 + resp::command({"TIME"}) +
                                          resp::command({"INFO"}));
        BOOST_TEST((p.refused() == errc{}), p.message());
        BOOST_TEST(!p.tracking());
        BOOST_TEST(p.durable());
        BOOST_TEST(p.info().version == "8.4.0");
        BOOST_TEST(p.lacks().size() == 2U);
        BOOST_TEST(has(p, degradation::no_resp3));
        BOOST_TEST(has(p, degradation::no_push));
    }
    // A server without users, and one that is not to be named.
    server const s{.hello = unknown("HELLO"), .name = denied("client|setname")};
    prober p;
    auto const seen = ask(p, s, {.password = "pw", .name = "me", .database = 2});
    BOOST_TEST(seen.batches.at(1).starts_with(resp::command({"AUTH", "pw"}) +
                                              resp::command({"CLIENT", "SETNAME", "me"}) +
                                              resp::command({"SELECT", "2"})));
    BOOST_TEST((p.refused() == errc{}), p.message());
    refuses({.hello = unknown("HELLO"), .auth = "-WRONGPASS no\r\n"}, errc::access_denied,
            "WRONGPASS", fault::setup, {.password = "pw", .name = "me"});
}

BOOST_AUTO_TEST_CASE(a_server_that_needs_resp2_is_asked_in_it_at_once) {
    prober p;
    auto const seen = ask(p, {}, {.name = "me", .resp2 = true});
    BOOST_REQUIRE(seen.batches.size() == 1U);
    BOOST_TEST(seen.batches[0].starts_with(resp::command({"CLIENT", "SETNAME", "me"})));
    BOOST_TEST((p.refused() == errc{}), p.message());
    BOOST_TEST(has(p, degradation::no_resp3));
}

BOOST_AUTO_TEST_CASE(a_program_that_knows_none_of_the_commands_is_no_server) {
    refuses({.hello = unknown("HELLO"),
             .name = unknown("CLIENT"),
             .select = "+OK\r\n",
             .load = unknown("SCRIPT"),
             .evalsha = unknown("EVALSHA"),
             .eval = unknown("EVAL"),
             .fsync = unknown("CONFIG"),
             .flushes = unknown("INFO"),
             .time = unknown("TIME"),
             .info = unknown("INFO")},
            errc::not_redis, "ERR unknown command 'HELLO'");
}

BOOST_AUTO_TEST_CASE(a_server_is_durable_only_if_it_says_so_twice) {
    auto const durable = [](std::string const& fsync, std::string const& aof) {
        return asked_of({.fsync = fsync, .info = resp::bulk(info_text + aof)}).durable();
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
        BOOST_TEST(!asked_of(s).durable(), said);
    }
}

BOOST_AUTO_TEST_CASE(info_says_whether_it_is_a_server_and_a_primary) {
    refuses({.info = resp::bulk("hello")}, errc::not_redis,
            "the answer to INFO is not that of Redis or Valkey");
    refuses({.info = "*0\r\n"}, errc::not_redis,
            "the answer to INFO is not that of Redis or Valkey");
    refuses({.info = ":1\r\n"}, errc::not_redis,
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
                                             "persistence", "stats", "commandstats"}));
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
    BOOST_TEST(!run_check(check, resp::bulk("uptime_in_seconds:15\r\n")).info.has_value());
    BOOST_TEST(run_check(check, resp::bulk(info_text)).info.has_value());
    BOOST_TEST(check.refused().empty());
}

BOOST_AUTO_TEST_CASE(a_server_check_that_is_refused_says_so_until_the_next_connection) {
    for (auto const& error : {denied("info"), unknown("INFO")}) {
        server_check check;
        BOOST_TEST(!run_check(check, error).info.has_value());
        BOOST_TEST(!check.refused().empty());
        check.restart();
        BOOST_TEST(check.refused().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_counts_no_commands_can_vote) {
    for (auto const* const none : {"-NOPERM no\r\n", "$0\r\n\r\n", "_\r\n"}) {
        accepts({.flushes = none});
        BOOST_TEST(asked_of({.flushes = none}).info().flushes == 0U);
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
        BOOST_TEST((ask(p, {.time = time}).time == std::nullopt), time);
        BOOST_TEST((p.refused() == errc{}));
    }
    prober p;
    BOOST_TEST((ask(p, {.time = "*2\r\n$1\r\n0\r\n$1\r\n0\r\n"}).time == 0us));
    BOOST_TEST((ask(p, {.time = "*2\r\n$10\r\n3000000000\r\n$6\r\n999999\r\n"}).time ==
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
    BOOST_TEST(lacks_nothing(p));
    auto const questions = p.begin({.name = "me"});
    BOOST_TEST(p.info().version.empty());
    BOOST_TEST(!p.tracking());
}

BOOST_AUTO_TEST_SUITE_END()
