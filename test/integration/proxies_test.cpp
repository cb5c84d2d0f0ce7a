// Servers and proxies that refuse, rename, swallow or change commands, as managed services do. A
// proxy of the tests plays each before real servers.
#include "integration/attempt.hpp"
#include "integration/guards.hpp"
#include "integration/restricted.hpp"
#include "support/proxy.hpp"

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options fenced{.ttl = 60s, .fencing = true};

/// A server behind a proxy.
struct service {
    explicit service(server_kind const& kind)
        : r(kind)
        , way(r.redis) {}

    /// The proxy does not know these commands.
    void forget(std::vector<std::string> commands) {
        way.intercept(
            [all = std::move(commands)](command_line const& words) -> std::optional<std::string> {
                for (auto const& command : all) {
                    if (is(words, command)) {
                        return resp::error("ERR unknown command '" + words.front() +
                                           "', with args beginning with: ");
                    }
                }
                return std::nullopt;
            });
    }
    /// "GET", or "CLIENT TRACKING"
    static bool is(command_line const& words, std::string const& command) {
        auto const space = command.find(' ');
        if (words.front() != command.substr(0, space)) return false;
        return space == command.npos || (words.size() > 1 && words[1] == command.substr(space + 1));
    }

    restricted r;
    proxy way;
};

/// The service cuts the ttl of its keys to whole seconds.
class keeps_whole_seconds {
public:
    explicit keeps_whole_seconds(service& s)
        : way_(s.way)
        , server_(s.r.redis) {
        s.way.intercept([this](command_line words) -> std::optional<std::string> {
            auto const at = place_of_ttl(words);
            if (at >= words.size()) return std::nullopt;
            auto const ttl = std::chrono::milliseconds(std::stoll(words[at]));
            auto const whole = rounds_up ? std::chrono::ceil<std::chrono::seconds>(ttl)
                                         : std::chrono::floor<std::chrono::seconds>(ttl);
            words[at] = std::to_string(std::chrono::milliseconds(whole).count());
            auto const done = server_.command(words);
            if (done.is_error()) return resp::error(done.error());
            if (done.is_nil()) return resp::null();
            return done.is_ok() ? resp::simple("OK") : resp::integer(done.integer());
        });
    }
    ~keeps_whole_seconds() { way_.intercept({}); }
    keeps_whole_seconds(keeps_whole_seconds const&) = delete;
    keeps_whole_seconds& operator=(keeps_whole_seconds const&) = delete;

    std::atomic<bool> rounds_up = false;

private:
    static std::size_t place_of_ttl(command_line const& words) {
        if (words.front() == "SET") {
            auto const px = std::find(words.begin(), words.end(), "PX");
            return static_cast<std::size_t>(px - words.begin()) + 1;
        }
        // The scripts that set or extend a key have the token and the ttl after their keys.
        auto const script = words.front() == "EVALSHA" || words.front() == "EVAL";
        if (!script || words.size() < 6) return words.size();
        return 3 + std::stoul(words[2]) + 1;
    }

    proxy& way_;
    redis_cli server_;
};

/// A waiter gets the key when its holder releases it, without a push.
void check_polls(test_client& p, test_client& holder) {
    auto l = holder.hold("polled");
    attempt waits_for(p, "polled", long_lived);
    BOOST_TEST(waits(p));
    auto const rounds = p.locks.stats().rounds;
    BOOST_TEST(p.until([&] { return p.locks.stats().rounds > rounds + 3; }));
    BOOST_TEST(holder.releases(l));
    check_gets(p, waits_for);
    BOOST_TEST(p.locks.stats().pushes == 0U);
}

std::string info_without(redis_cli& cli, std::vector<std::string> const& fields) {
    auto const text = cli.command({"INFO"}).string();
    std::string kept;
    for (std::size_t at = 0; at < text.size();) {
        auto const end = std::min(text.find('\n', at), text.size() - 1) + 1;
        auto const line = text.substr(at, end - at);
        auto const drops = std::any_of(fields.begin(), fields.end(), [&](auto const& field) {
            return line.starts_with(field + ':');
        });
        if (!drops) kept += line;
        at = end;
    }
    return kept;
}

} // namespace

BOOST_AUTO_TEST_SUITE(proxies)

//
// Commands that are renamed, or unknown
//

BOOST_AUTO_TEST_CASE(a_command_that_is_renamed_is_done_without) {
    struct name {
        std::string command, rule;
        std::vector<degradation> lacks;
    };
    using enum degradation;
    std::vector<name> const names{
        {"CONFIG", "+config|get", {no_durability_check}},
        {"TIME", "+time", {no_clock_check}},
        {"PTTL", "+pttl", {no_expiry_times}},
        {"TYPE", "+type", {no_type_check}},
        {"GETRANGE", "+getrange", {no_holder_names}},
        {"EVALSHA", "+evalsha", {no_script_cache}},
        {"EVAL", "+eval", {}},
        {"INFO", "+info", {no_restart_check, no_flush_check}},
        {"SCRIPT", "+script|load", {no_script_preload}},
    };
    on_two_servers([&](server_kind const& kind) {
        auto all = names;
        if (auto const native = native_delete(kind); !native.empty())
            all.push_back({boost::to_upper_copy(native), '+' + native, {no_native_compare}});
        for (auto const& n : all) {
            BOOST_TEST_CONTEXT(n.command) {
                // Renaming takes the name from the rules of users too.
                server redis({.kind = kind,
                              .arguments = {"--rename-command", n.command, ""},
                              .refuses = true,
                              .missing_rules = {n.rule}});
                test_client p({redis.url()});
                BOOST_REQUIRE(p.all_up());
                check_cycle(p);
                check_cycle(p, fenced);
                // A foreign holder, a report and a wait.
                auto const foreign = test_client({redis.url()}).hold("held", unwatched(1s));
                auto const [e, none] = p.try_acquire("held");
                BOOST_TEST((e == errc::contended), e.what());
                auto l = p.hold("held");
                BOOST_TEST(p.releases(l));
                check_lacks(p, n.lacks, n.command);
            }
        }
    });
}

// Each idle second it is asked, and the refusal is a sign of life.
BOOST_AUTO_TEST_CASE(without_ping_the_instance_stays_up) {
    service s(default_server());
    std::atomic<int> pings = 0;
    s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
        if (words.front() != "PING") return std::nullopt;
        ++pings;
        return resp::error("ERR unknown command 'PING', with args beginning with: ");
    });
    auto options = trusting(brisk());
    options.detect_clock_jumps = false;
    test_client p({s.way.url()}, options);
    BOOST_TEST(p.until([&] { return pings >= 2; }));
    check_lacks(p, {}, "");
    BOOST_TEST(p.status(0).connections == 1U);
}

BOOST_AUTO_TEST_CASE(without_client_waiters_poll) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        s.forget({"CLIENT TRACKING", "CLIENT CACHING"});
        test_client p({s.way.url()});
        test_client holder({s.r.redis.url()});
        check_polls(p, holder);
        check_lacks(p, {degradation::no_push}, "CLIENT TRACKING: ERR unknown command 'CLIENT'");
    });
}

// Where the server compares natively, only an extension needs a script: it may not shorten a key.
BOOST_AUTO_TEST_CASE(without_evalsha_and_eval_a_lock_needs_native_compare_and_is_not_extended) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        s.forget({"EVALSHA", "EVAL", "SCRIPT"});
        test_client p({s.way.url()});
        if (!s.r.native_delete.empty()) {
            auto l = p.hold("k", long_lived);
            auto const extended = p.extend(l);
            BOOST_TEST((extended == errc::rejected), extended.what());
            BOOST_TEST(contains(extended.what(), "unknown command 'EVAL'"), extended.what());
            BOOST_TEST(p.releases(l));
            BOOST_TEST(!s.r.admin.exists("k"));
            auto const reason = lack_of(p, degradation::no_extend);
            BOOST_TEST(contains(reason, "EVAL: ERR unknown command"), reason);
            return;
        }
        auto const [e, none] = p.acquire("k");
        BOOST_TEST((e == errc::rejected), e.what());
        BOOST_TEST(contains(e.what(), "no way to release locks: EVALSHA: ERR unknown command"),
                   e.what());
        BOOST_TEST(!s.r.admin.exists("k"));
        BOOST_TEST(p.goes_down(0, errc::rejected));
    });
}

BOOST_AUTO_TEST_CASE(info_without_the_server_process_turns_the_guards_off) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        auto const info = info_without(s.r.admin, {"run_id"});
        s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
            if (words.front() != "INFO") return std::nullopt;
            return resp::bulk(info);
        });
        test_client p({s.way.url()});
        BOOST_REQUIRE(p.all_up());
        check_cycle(p);
        check_lacks(p, {degradation::no_restart_check},
                    "INFO: it does not name the server process");
        BOOST_TEST(
            contains(p.status(0).server, contains(kind.name, "valkey") ? "valkey" : "redis"));
        // Nor are two addresses of one server known as such, or taken for a restart.
        test_client both({s.way.url(), s.r.redis.url()});
        BOOST_TEST(both.all_up());
        s.way.cut();
        BOOST_TEST(p.until([&] { return p.status(0).connections == 2 && is_up(p.locks); }));
        check_cycle(p);
    });
}

//
// RESP2
//

BOOST_AUTO_TEST_CASE(where_hello_is_refused_the_connection_speaks_resp2) {
    on_each_server([](server_kind const& kind) {
        for (std::string const refusal :
             {"ERR unknown command 'HELLO', with args beginning with: '3' ",
              "NOPROTO unsupported protocol version", "unsupported command 'HELLO'"}) {
            BOOST_TEST_CONTEXT(refusal) {
                service s(kind);
                s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
                    if (words.front() == "HELLO") return resp::error(refusal);
                    return std::nullopt;
                });
                test_client p({s.way.url()});
                BOOST_REQUIRE(p.all_up());
                check_cycle(p);
                check_cycle(p, fenced);
                test_client holder({s.r.redis.url()});
                auto l = holder.hold("k");
                auto const [e, none] = p.try_acquire("k");
                BOOST_TEST((e == errc::contended), e.what());
                BOOST_REQUIRE(e.report() != nullptr);
                BOOST_TEST(e.report()->instances.at(0).ttl_known);
                BOOST_TEST(holder.releases(l));
                check_polls(p, holder);
                check_lacks(p, {degradation::no_push, degradation::no_resp3}, "");
                BOOST_TEST(contains(lack_of(p, degradation::no_resp3), "HELLO: "));
                // It came as the user, and with its name.
                auto const clients = s.r.admin.command({"CLIENT", "LIST"}).string();
                BOOST_TEST(contains(clients, "name=holdfast"));
                BOOST_TEST(s.r.redis.refusals().size() <= 1U); // CLIENT SETNAME needs a right
            }
        }
    });
}

// A server that needs a password refuses TIME until AUTH, which follows the refused HELLO.
BOOST_AUTO_TEST_CASE(the_clock_guard_works_in_resp2_with_a_password) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        std::atomic<bool> authenticated = false;
        s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
            if (words.front() == "HELLO") return resp::error("ERR unknown command 'HELLO'");
            if (words.front() == "AUTH") authenticated = true;
            if (!authenticated) return resp::error("NOAUTH Authentication required.");
            return std::nullopt;
        });
        test_client p({s.way.url()});
        BOOST_REQUIRE(p.all_up());
        check_cycle(p);
        check_lacks(p, {degradation::no_push, degradation::no_resp3}, "");
    });
}

BOOST_AUTO_TEST_CASE(scripts_that_are_switched_off_while_the_client_is_connected_are_told) {
    auto const kinds = available_servers();
    service s(kinds.front());
    test_client p({s.way.url()});
    auto l = p.hold("k");
    s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
        auto const script = words.front().starts_with("EVAL") || words.front() == "SCRIPT";
        if (script) return resp::error("ERR scripting is disabled");
        return std::nullopt;
    });
    auto const released = p.release(l);
    BOOST_TEST(contains(released.what(), "the key stays for its ttl"), released.what());
    BOOST_TEST(contains(lack_of(p, degradation::no_release), "scripting is disabled"),
               lack_of(p, degradation::no_release));
}

BOOST_AUTO_TEST_CASE(a_wrong_password_is_told_in_resp2_too) {
    service s(default_server());
    s.forget({"HELLO"});
    s.r.change("resetpass");
    test_client p({s.way.url()});
    BOOST_TEST(p.goes_down(0, errc::access_denied), p.status(0).message);
    BOOST_TEST(contains(p.status(0).message, "WRONGPASS"), p.status(0).message);
}

// The server closes the connection instead of an answer.
BOOST_AUTO_TEST_CASE(where_hello_closes_the_connection_later_ones_go_without) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        std::atomic<int> hellos = 0;
        s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
            if (words.front() != "HELLO") return std::nullopt;
            ++hellos;
            s.way.cut();
            return std::string();
        });
        test_client p({s.way.url()});
        BOOST_TEST(p.all_up());
        BOOST_TEST(hellos == 5);
        BOOST_TEST(p.status(0).connections == 1U);
        check_cycle(p);
        check_lacks(p, {degradation::no_push, degradation::no_resp3}, "");
        // From then on one is tried each time.
        s.way.cut();
        BOOST_TEST(p.until([&] { return p.status(0).connections == 2 && is_up(p.locks); }));
        BOOST_TEST(hellos == 6);
        check_cycle(p);
    });
}

/// The first `times` connections with HELLO are closed at it.
void close_at_hello(service& s, std::atomic<int>& hellos, int times) {
    s.way.intercept([&s, &hellos, times](command_line const& words) -> std::optional<std::string> {
        if (words.front() != "HELLO" || ++hellos > times) return std::nullopt;
        s.way.cut();
        return std::string();
    });
}

BOOST_AUTO_TEST_CASE(a_server_that_was_away_for_three_hellos_is_told_hello_again) {
    service s(default_server());
    std::atomic<int> hellos = 0;
    close_at_hello(s, hellos, 3);
    test_client p({s.way.url()});
    BOOST_TEST(p.until([&] { return hellos == 4 && is_up(p.locks); }));
    check_cycle(p);
    check_lacks(p, {}, "");
}

// In RESP2 no flush would be announced.
BOOST_AUTO_TEST_CASE(a_server_that_was_taken_for_one_that_closes_at_hello_speaks_resp3_again) {
    service s(default_server());
    std::atomic<int> hellos = 0;
    close_at_hello(s, hellos, 5);
    test_client p({s.way.url()});
    BOOST_TEST(p.all_up());
    check_lacks(p, {degradation::no_push, degradation::no_resp3}, "");
    s.way.cut();
    BOOST_TEST(p.until([&] { return p.status(0).connections == 2 && is_up(p.locks); }));
    BOOST_TEST(hellos == 6);
    check_cycle(p);
    check_lacks(p, {}, "");
}

//
// Pushes
//

/// Another client releases the key while `p` waits for it, and `p` gets it.
void check_takes_turn(service& s, test_client& p, test_client& holder) {
    auto l = holder.hold("k", unwatched(1s));
    attempt waits_for(p, "k", long_lived);
    BOOST_TEST(p.until([&] { return s.r.admin.info("tracking_total_keys") != "0"; }));
    BOOST_TEST(holder.releases(l));
    check_gets(p, waits_for); // without a push, when the key would have expired
}

// After two changes that were not told, waiters poll.
BOOST_AUTO_TEST_CASE(where_pushes_are_swallowed_waiters_poll_after_the_second_change) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        s.way.swallow_pushes();
        test_client p({s.way.url()});
        test_client holder({s.r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        for (auto n = 0; n < 2; ++n) {
            BOOST_TEST(p.status(0).degradations.empty());
            check_takes_turn(s, p, holder);
        }
        check_lacks(p, {degradation::no_push}, "were not pushed");
        check_polls(p, holder);
        BOOST_TEST(s.way.pushes_forwarded() == 0U);
        // The next connection is believed once.
        s.way.cut();
        BOOST_TEST(p.until([&] { return p.status(0).connections == 2 && is_up(p.locks); }));
        BOOST_TEST(p.status(0).degradations.empty());
        check_takes_turn(s, p, holder);
        check_lacks(p, {degradation::no_push}, "were not pushed");
        // A push restores the trust.
        s.way.swallow_pushes(false);
        check_takes_turn(s, p, holder);
        check_lacks(p, {}, "");
        auto const pushes = p.locks.stats().pushes;
        check_takes_turn(s, p, holder);
        BOOST_TEST(p.locks.stats().pushes > pushes);
    });
}

// Also those that wait already.
BOOST_AUTO_TEST_CASE(where_pushes_are_swallowed_all_waiters_poll) {
    service s(default_server());
    s.way.swallow_pushes();
    test_client p({s.way.url()});
    test_client holder({s.r.redis.url()});
    BOOST_REQUIRE(p.all_up());
    auto long_held = holder.hold("long");
    attempt waits_long(p, "long", long_lived);
    BOOST_TEST(waits(p));
    for (auto n = 0; n < 2; ++n) {
        auto l = holder.hold("k", unwatched(1s));
        attempt waits_for(p, "k", long_lived);
        BOOST_TEST(p.until([&] { return s.r.admin.info("tracking_total_keys") == "2"; }));
        BOOST_TEST(holder.releases(l));
        check_gets(p, waits_for);
    }
    auto const rounds = p.locks.stats().rounds;
    BOOST_TEST(p.until([&] { return p.locks.stats().rounds > rounds + 3; }));
    BOOST_TEST(holder.releases(long_held));
    check_gets(p, waits_long);
    BOOST_TEST(p.locks.stats().pushes == 0U);
}

// With NOLOOP a server does not push what the client's own command finds expired.
BOOST_AUTO_TEST_CASE(where_a_push_has_come_keys_that_expire_leave_the_trust) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        // A holder that extends is told of.
        r.admin.set("k", "foreign", 1s);
        attempt waits_for(p, "k", long_lived);
        BOOST_TEST(p.until([&] { return r.admin.info("tracking_total_keys") != "0"; }));
        BOOST_TEST(r.admin.command({"PEXPIRE", "k", "600"}).integer() == 1);
        check_gets(p, waits_for);
        BOOST_TEST(p.locks.stats().pushes > 0U);
        for (auto n = 0; n < 4; ++n) {
            r.admin.set("k", "foreign", 300ms);
            attempt later(p, "k", long_lived);
            check_gets(p, later);
        }
        // Two at one moment.
        for (auto n = 0; n < 3; ++n) {
            r.admin.set("a", "foreign", 300ms);
            r.admin.set("b", "foreign", 300ms);
            attempt a(p, "a", long_lived);
            attempt b(p, "b", long_lived);
            check_gets(p, a);
            check_gets(p, b);
        }
        check_lacks(p, {}, "");
    });
}

// It accepts OPTIN NOLOOP, and then tracks nothing.
BOOST_AUTO_TEST_CASE(dragonfly_is_asked_to_push_without_noloop) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        auto const info = "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.27.1\r\n" +
                          s.r.admin.command({"INFO", "replication"}).string() +
                          "run_id:0123456789\r\n";
        s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
            if (words.front() == "INFO") return resp::bulk(info);
            auto const noloop = std::find(words.begin(), words.end(), "NOLOOP") != words.end();
            if (service::is(words, "CLIENT TRACKING") && noloop) return resp::simple("OK");
            return std::nullopt;
        });
        test_client p({s.way.url()});
        test_client holder({s.r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        check_cycle(p);
        for (auto n = 0; n < 3; ++n) {
            auto l = holder.hold("k");
            attempt waits_for(p, "k", long_lived);
            BOOST_TEST(waits(p));
            BOOST_TEST(p.until([&] { return s.r.admin.info("tracking_total_keys") != "0"; }));
            BOOST_TEST(holder.releases(l));
            check_gets(p, waits_for);
        }
        BOOST_TEST(p.locks.stats().pushes >= 3U);
        check_lacks(p, {}, "");
    });
}

//
// Times
//

BOOST_AUTO_TEST_CASE(
    a_server_whose_keys_expire_in_whole_seconds_is_refused_where_that_is_too_early) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        keeps_whole_seconds keeper(s);
        test_client p({s.way.url()});
        BOOST_REQUIRE(p.all_up());
        for (auto const fences : {false, true}) {
            BOOST_TEST_CONTEXT("fences: " << fences) {
                auto whole = p.hold("k", {.ttl = 3s, .watchdog = false, .fencing = fences});
                BOOST_TEST(p.releases(whole));
                BOOST_TEST((p.status(0).state == instance_state::up), p.status(0).message);
                // On the next connection too.
                for (auto n = 0; n < 2; ++n) {
                    BOOST_REQUIRE(p.all_up());
                    // The release of the key that was given back has come.
                    BOOST_REQUIRE(p.until([&] { return !s.r.admin.exists("k"); }));
                    auto const [e, l] =
                        p.acquire("k", {.ttl = 2'900ms, .watchdog = false, .fencing = fences});
                    BOOST_TEST((e == errc::rejected), e.what());
                    BOOST_TEST(contains(e.what(), "keys expire too early"), e.what());
                    BOOST_TEST(!l.held());
                    BOOST_TEST(p.goes_down(0, errc::rejected), p.status(0).message);
                    BOOST_TEST(contains(p.status(0).message, "keys expire too early"),
                               p.status(0).message);
                }
                BOOST_REQUIRE(p.all_up());
            }
        }
        // Later than they should is safe.
        keeper.rounds_up = true;
        test_client q({s.way.url()});
        BOOST_REQUIRE(q.all_up());
        for (auto n = 0; n < 2; ++n) {
            auto late = q.hold("other", unwatched(2'900ms));
            BOOST_TEST(q.releases(late));
        }
        BOOST_TEST((q.status(0).state == instance_state::up), q.status(0).message);
        BOOST_TEST(q.status(0).connections == 1U);
    });
}

BOOST_AUTO_TEST_CASE(no_grant_counts_before_the_time_to_live_of_the_first_is_known) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        keeps_whole_seconds keeper(s);
        test_client p({s.way.url()});
        BOOST_REQUIRE(p.all_up());
        attempt a(p, "a", unwatched(2'900ms));
        attempt b(p, "b", unwatched(2'900ms));
        BOOST_TEST(p.until([&] { return a.done && b.done; }));
        BOOST_TEST((a.how == errc::rejected), a.how.what());
        BOOST_TEST((b.how == errc::rejected), b.how.what());
        BOOST_TEST(!a.held.held());
        BOOST_TEST(!b.held.held());
    });
}

BOOST_AUTO_TEST_CASE(an_extension_that_is_cut_to_whole_seconds_does_not_count) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        test_client p({s.way.url()});
        auto l = p.hold("k", unwatched(9'900ms));
        keeps_whole_seconds const keeper(s);
        s.way.cut();
        BOOST_REQUIRE(p.until([&] { return p.status(0).connections == 2 && is_up(p.locks); }));
        // The key lives for less than 9 s now, so the extension counts for something.
        p.pass(l.deadline() - 8'500ms);
        auto const ends = l.deadline();
        auto const e = p.extend(l);
        BOOST_TEST((e == errc::rejected), e.what());
        BOOST_TEST(contains(e.what(), "keys expire too early"), e.what());
        BOOST_TEST((l.deadline() == ends));
    });
}

BOOST_AUTO_TEST_CASE(a_service_whose_set_knows_no_px_is_refused) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        s.way.intercept([](command_line const& words) -> std::optional<std::string> {
            auto const px = std::find(words.begin(), words.end(), "PX") != words.end();
            if (words.front() != "SET" || !px) return std::nullopt;
            return resp::error("ERR syntax error");
        });
        test_client p({s.way.url()});
        auto const [e, none] = p.acquire("k");
        BOOST_TEST((e == errc::rejected), e.what());
        BOOST_TEST(contains(e.what(), "SET NX PX is refused: ERR syntax error"), e.what());
        BOOST_TEST(p.goes_down(0, errc::rejected), p.status(0).message);
        BOOST_TEST(contains(p.status(0).message, "SET NX PX is refused"), p.status(0).message);
    });
}

//
// Connections
//

BOOST_AUTO_TEST_CASE(a_server_with_too_many_clients_is_unreachable_for_now) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        (void)r.admin.dbsize(); // its connection counts
        r.admin.config("maxclients", "1");
        test_client p({r.redis.url()});
        BOOST_TEST(p.goes_down(0, errc::unreachable), p.status(0).message);
        BOOST_TEST(contains(p.status(0).message, "max number of clients"), p.status(0).message);
        auto const [e, none] = p.acquire("k");
        BOOST_TEST((e == errc::unreachable), e.what());
        r.admin.config("maxclients", "100");
        BOOST_TEST(p.all_up());
        check_cycle(p);
    });
}

BOOST_AUTO_TEST_CASE(a_server_that_loads_its_data_is_unreachable_for_now) {
    service s(default_server());
    std::atomic<bool> loads = true;
    s.way.intercept([&](command_line const&) -> std::optional<std::string> {
        if (!loads) return std::nullopt;
        return resp::error("LOADING Redis is loading the dataset in memory");
    });
    test_client p({s.way.url()});
    BOOST_TEST(p.goes_down(0, errc::unreachable), p.status(0).message);
    BOOST_TEST(contains(p.status(0).message, "LOADING"), p.status(0).message);
    loads = false;
    BOOST_TEST(p.all_up());
    check_cycle(p);
}

BOOST_AUTO_TEST_CASE(a_proxy_that_closes_idle_connections_costs_a_connection) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        s.way.close_idle(200ms);
        test_client p({s.way.url()});
        for (auto n = 0; n < 3; ++n) {
            BOOST_REQUIRE(p.until([&] { return s.way.accepted() > static_cast<std::size_t>(n); }));
            BOOST_REQUIRE(p.all_up());
            check_cycle(p);
            check_cycle(p, fenced);
        }
        auto l = p.hold("kept", {.ttl = renewed_ttl});
        auto const connections = p.status(0).connections;
        BOOST_TEST(p.renews(2));
        BOOST_TEST(p.status(0).connections > connections);
        BOOST_TEST(l.held());
        BOOST_TEST(p.releases(l));
    });
}

// Envoy and the like: RESP2, INFO of no one server, no CLIENT, no TIME, no CONFIG.
BOOST_AUTO_TEST_CASE(a_proxy_that_knows_little_is_enough_for_locks) {
    on_two_servers([](server_kind const& kind) {
        service s(kind);
        auto const info = info_without(s.r.admin, {"run_id", "role", "valkey_version"});
        s.way.intercept([&](command_line const& words) -> std::optional<std::string> {
            if (words.front() == "INFO") return resp::bulk(info);
            for (std::string const name : {"HELLO", "CLIENT", "TIME", "CONFIG", "SCRIPT"}) {
                if (words.front() == name) return resp::error("unsupported command '" + name + "'");
            }
            return std::nullopt;
        });
        test_client p({s.way.url()});
        test_client holder({s.r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        check_cycle(p);
        check_cycle(p, fenced);
        check_polls(p, holder);
        using enum degradation;
        check_lacks(p,
                    {no_push, no_clock_check, no_restart_check, no_durability_check,
                     no_script_preload, no_resp3},
                    "");
    });
}

BOOST_AUTO_TEST_SUITE_END()
