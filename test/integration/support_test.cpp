// The real servers, the fakes and the redis_cli behave as the other tests expect.
#include "support/fake_server.hpp"
#include "support/fleet.hpp"
#include "support/proxy.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct one_server {
    server redis;
    redis_cli cli{redis};
};

bool exists_file(std::string const& path) {
    return std::filesystem::exists(path);
}

struct movable_clock {
    server redis{{.shiftable_clock = true}};
    redis_cli cli{redis};
};

// True if the server's clock differs from this process's by `shift`, within the time of the
// question.
bool is_shifted_by(redis_cli& cli, std::chrono::milliseconds shift) {
    auto const now = [] { return std::chrono::system_clock::now().time_since_epoch(); };
    auto const before = now();
    const reply time = cli.command({"TIME"});
    auto const after = now();
    auto const at = std::chrono::seconds{std::stoll(time.elements().at(0).string())} +
                    std::chrono::microseconds{std::stoll(time.elements().at(1).string())};
    constexpr auto imprecise = 50ms; // a server may use a cached time for a moment
    return at >= before + shift - imprecise && at <= after + shift + imprecise;
}

std::chrono::seconds uptime(redis_cli& cli) {
    return std::chrono::seconds{std::stoll(cli.info("uptime_in_seconds"))};
}

} // namespace

BOOST_AUTO_TEST_SUITE(support)

BOOST_AUTO_TEST_CASE(resp_reads_what_it_writes) {
    const std::string wire =
        resp::array({resp::simple("OK"), resp::integer(-7), resp::bulk(std::string{"a\0\r\nb", 5}),
                     resp::nil(), resp::null(), resp::error("ERR no"), resp::array({})});
    for (std::size_t size = 0; size < wire.size(); ++size) {
        std::string_view part = std::string_view{wire}.substr(0, size);
        BOOST_TEST(!resp::take_reply(part).has_value());
        BOOST_TEST(part.size() == size); // an incomplete reply is not consumed
    }
    std::string_view all = wire;
    auto const whole = resp::take_reply(all);
    BOOST_REQUIRE(whole.has_value());
    BOOST_TEST(all.empty());
    BOOST_TEST(whole->elements().size() == 7U);
    BOOST_TEST(whole->elements()[2].string() == (std::string{"a\0\r\nb", 5}));
    BOOST_TEST(whole->elements()[4].is_nil());
    BOOST_TEST(whole->elements()[5].error() == "ERR no");
    BOOST_CHECK_THROW((void)whole->integer(), std::runtime_error);

    const std::string message = resp::invalidation("k");
    std::string_view rest = message;
    BOOST_TEST(resp::take_reply(rest)->push);
    std::string_view garbage = "HTTP/1.1 400";
    BOOST_CHECK_THROW((void)resp::take_reply(garbage), resp::malformed);

    const std::string two = resp::command({"SET", "k", ""}) + "PING  now\r\n";
    std::string_view commands = two;
    BOOST_CHECK((resp::take_command(commands) == command_line{"SET", "k", ""}));
    BOOST_CHECK((resp::take_command(commands) == command_line{"PING", "now"}));
    BOOST_TEST(commands.empty());
}

BOOST_FIXTURE_TEST_CASE(server_answers_and_persists_nothing, one_server) {
    BOOST_TEST(redis.running());
    BOOST_TEST(redis.address() == "127.0.0.1:" + std::to_string(redis.port()));
    BOOST_TEST(cli.info("process_id") == std::to_string(redis.pid()));
    cli.set("k", "v");
    BOOST_TEST(exists_file(redis.unix_socket()));
    redis.restart();
    BOOST_TEST(!cli.exists("k")); // redis_cli connects again
}

BOOST_AUTO_TEST_CASE(server_leaves_nothing_behind) {
    std::string folder;
    pid_t pid = -1;
    {
        server redis;
        folder = redis.folder();
        pid = redis.pid();
        redis.freeze(); // a frozen server ends too
    }
    BOOST_TEST(!exists_file(folder));
    BOOST_TEST(::kill(pid, 0) == -1);
}

BOOST_FIXTURE_TEST_CASE(server_freezes_and_thaws, one_server) {
    cli.set("k", "v");
    redis.freeze();
    redis.freeze();
    BOOST_TEST(redis.running());
    redis_cli impatient{redis, {}, 30ms};
    BOOST_CHECK_THROW((void)impatient.get("k"), cli_timeout);
    redis.thaw();
    redis.thaw();
    BOOST_TEST(cli.get("k").value() == "v");
}

BOOST_FIXTURE_TEST_CASE(server_killed_refuses_and_comes_back_on_its_port, one_server) {
    auto const port = redis.port();
    auto const run_id = cli.info("run_id");
    redis.freeze();
    redis.kill();
    BOOST_TEST(!redis.running());
    BOOST_TEST(redis.pid() == -1);
    BOOST_CHECK_THROW((void)cli.dbsize(), cli_error);
    for (int i = 0; i < 3; ++i) {
        redis.restart();
        BOOST_TEST(redis.port() == port);
        BOOST_TEST(cli.dbsize() == 0);
        redis.kill();
    }
    redis.restart();
    BOOST_TEST(cli.info("run_id") != run_id);
}

BOOST_AUTO_TEST_CASE(server_takes_arguments) {
    server redis{{.arguments = {"--requirepass", "secret", "--appendonly", "yes", "--appendfsync",
                                "always", "--enable-debug-command", "yes"}}};
    redis_cli stranger{redis};
    BOOST_TEST(stranger.command({"PING"}).error().starts_with("NOAUTH"));
    redis_cli cli{redis, "secret"};
    cli.set("k", "v");
    redis.kill();
    redis.restart();
    BOOST_TEST(cli.get("k").value() == "v");
    BOOST_TEST(cli.command({"DEBUG", "SLEEP", "0"}).is_ok());
    redis.stop();
    BOOST_TEST(!redis.running());
}

BOOST_AUTO_TEST_CASE(server_that_cannot_start_says_why) {
    try {
        server redis{{.arguments = {"--no-such-option", "1"}}};
        BOOST_ERROR("it started");
    } catch (std::runtime_error const& error) {
        BOOST_TEST(std::string{error.what()}.find("no-such-option") != std::string::npos);
    }
    server_options nothing;
    nothing.kind = {"nothing", "/does/not/exist"};
    BOOST_CHECK_THROW(server{nothing}, std::system_error);
}

BOOST_AUTO_TEST_CASE(server_survives_the_thread_that_started_it) {
    std::unique_ptr<server> redis;
    std::thread{[&] { redis = std::make_unique<server>(); }}.join();
    BOOST_TEST(redis_cli{*redis}.dbsize() == 0);
    BOOST_TEST(redis->running());
}

BOOST_AUTO_TEST_CASE(server_does_not_inherit_the_sockets_of_the_test) {
    server redis;
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ==
                  0); // not close-on-exec, like the sockets of Asio
    const net::unique_fd kept{ends[0]};
    net::unique_fd closed{ends[1]};
    redis.kill();
    redis.restart();
    closed.reset();
    char byte = 0;
    BOOST_TEST(::recv(kept.get(), &byte, 1, MSG_DONTWAIT) == 0); // the peer sees the end
}

BOOST_AUTO_TEST_CASE(server_in_cluster_and_sentinel_mode) {
    const server cluster{
        {.arguments = {"--cluster-enabled", "yes", "--cluster-config-file", "{dir}/nodes.conf"},
         .extra_ports = {"cluster-port"}}};
    BOOST_TEST(redis_cli{cluster}.info("cluster_enabled") == "1");
    BOOST_TEST(cluster.port("cluster-port") != cluster.port());

    server primary;
    const server sentinel{{.arguments = {"--sentinel"},
                           .config = "sentinel monitor mymaster 127.0.0.1 " +
                                     std::to_string(primary.port()) + " 1\n"}};
    const reply answer =
        redis_cli{sentinel}.command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"});
    BOOST_TEST(answer.elements().at(1).string() == std::to_string(primary.port()));
}

BOOST_AUTO_TEST_CASE(every_available_kind_starts) {
    BOOST_TEST(!available_servers().empty());
    for (server_kind const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server_options options;
            options.kind = kind;
            server instance{options};
            BOOST_TEST(!redis_cli{instance}.info("redis_version").empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(fleet_starts_together) {
    fleet five{5};
    std::set<std::string> distinct;
    for (std::string const& address : five.addresses()) distinct.insert(address);
    BOOST_TEST(distinct.size() == 5U);
    BOOST_TEST(five.quorum() == 3U);
    five.freeze(2);
    BOOST_TEST(five[1].frozen());
    five.thaw_all();
    for (server& instance : five)
        BOOST_TEST(redis_cli{instance}.command({"PING"}).string() == "PONG");
}

BOOST_FIXTURE_TEST_CASE(witness_plays_a_foreign_client, one_server) {
    BOOST_TEST(cli.set_if_absent("k", "mine", 10s));
    BOOST_TEST(!cli.set_if_absent("k", "theirs", 10s));
    BOOST_CHECK(cli.pttl("k") > 9s && cli.pttl("k") <= 10s);
    BOOST_CHECK(cli.pttl("none") == -2ms);
    BOOST_TEST(!cli.del_if_equal("k", "theirs"));
    BOOST_TEST(cli.del_if_equal("k", "mine"));
    cli.set("b", "1");
    cli.set("a", "2", 5s);
    BOOST_CHECK((cli.keys() == std::vector<std::string>{"a", "b"}));
    BOOST_TEST(cli.del("a"));
    BOOST_TEST(!cli.get("a").has_value());
    cli.flush();
    BOOST_TEST(cli.dbsize() == 0);
    BOOST_TEST(cli.command({"NONSENSE"}).is_error());
    cli.command({"SADD", "set", "x"});
    BOOST_CHECK_THROW((void)cli.get("set"), cli_error);

    cli.command({"HELLO", "3"}); // pushes of tracking need RESP3
    cli.command({"CLIENT", "TRACKING", "ON", "NOLOOP"});
    BOOST_TEST(!cli.exists("watched"));
    redis_cli{redis}.set("watched", "v");
    BOOST_TEST(cli.receive() ==
               (reply{reply::array{{"invalidate"}, {reply::array{{"watched"}}}}, true}));
}

BOOST_AUTO_TEST_CASE(fakes_misbehave) {
    auto const ask = [](fake_server const& fake, std::chrono::milliseconds timeout) {
        return redis_cli{fake.port(), {}, timeout}.command({"HELLO", "3"});
    };
    for (const behaviour how : all_behaviours) {
        BOOST_TEST_CONTEXT(how) {
            const fake_server fake{how};
            if (how == behaviour::silent || how == behaviour::huge_bulk) {
                BOOST_CHECK_THROW(ask(fake, 500ms), cli_timeout);
            } else {
                BOOST_CHECK_EXCEPTION(ask(fake, 10s), cli_error, [](cli_error const& error) {
                    return dynamic_cast<const cli_timeout*>(&error) == nullptr;
                });
            }
            BOOST_TEST(fake.accepted() == (how == behaviour::refused ? 0U : 1U));
            BOOST_TEST(wait_until([&] { return fake.connected() == 0; }));
        }
    }
}

BOOST_AUTO_TEST_CASE(fake_ends_replies_as_its_script_says) {
    fake_server fake{[](command_line const& words) {
        if (is_command(words, "SILENT")) return fake_server::then_silent("+O");
        if (is_command(words, "CLOSE")) return fake_server::then_close("+O");
        if (is_command(words, "RESET")) return fake_server::then_reset("+O");
        return fake_server::then_flood("+O", "K");
    }};
    auto const ask = [&](char const* name, std::chrono::milliseconds timeout = 10s) {
        return redis_cli{fake.port(), {}, timeout}.command({name});
    };
    BOOST_CHECK_THROW(ask("SILENT", 500ms), cli_timeout);
    for (auto const* const name : {"CLOSE", "RESET"}) BOOST_CHECK_THROW(ask(name), cli_error);
    BOOST_TEST(fake.most_sent() == 2U);
    BOOST_CHECK_THROW(ask("FLOOD"), std::exception); // redis_cli rejects a line without an end
    BOOST_TEST(wait_until([&] { return fake.most_sent() > 2U; }));
    BOOST_TEST(fake.most_sent() < fake_server::flood_size);
    BOOST_TEST(wait_until([&] { return fake.connected() == 0; }));
}

BOOST_AUTO_TEST_CASE(fake_follows_its_script) {
    std::atomic<int> evaluations = 0;
    fake_server fake{[&](command_line const& words) {
        if (is_command(words, "hello")) return resp::error("ERR unknown command 'HELLO'");
        if (is_command(words, "EVALSHA"))
            return ++evaluations == 1 ? resp::error("NOSCRIPT No matching script.")
                                      : resp::integer(1);
        if (is_command(words, "CLIENT", "TRACKING")) return resp::simple("OK");
        if (is_command(words, "BLPOP")) return fake_server::no_answer;
        if (is_command(words, "QUIT")) return resp::simple("OK") + fake_server::hang_up;
        if (is_command(words, "SHUTDOWN")) return fake_server::hang_up;
        if (is_command(words, "FAIL")) throw std::runtime_error{"on purpose"};
        return resp::error("READONLY You can't write against a read only replica.");
    }};
    redis_cli cli{fake.port()};
    BOOST_TEST(cli.command({"HELLO", "3"}).is_error());
    BOOST_TEST(cli.command({"EVALSHA", "0"}).error().starts_with("NOSCRIPT"));
    BOOST_TEST(cli.command({"EVALSHA", "0"}).integer() == 1);
    BOOST_TEST(cli.command({"SET", "k", "v"}).error().starts_with("READONLY"));
    BOOST_TEST(cli.command({"FAIL"}).error().find("on purpose") != std::string::npos);
    cli.send({"BLPOP", "list", "0"});
    cli.send({"CLIENT", "TRACKING", "ON"});
    BOOST_TEST(cli.receive().is_ok());
    fake.push(resp::invalidation("k"));
    BOOST_TEST(cli.receive().push);
    BOOST_TEST(fake.count("EVALSHA") == 2U);
    BOOST_TEST(fake.commands().size() == 7U);
    cli.send({"CLIENT", "TRACKING", "ON"});
    cli.send({"SHUTDOWN"});
    BOOST_TEST(cli.receive().is_ok()); // earlier answers still arrive
    BOOST_CHECK_THROW((void)cli.receive(), cli_error);
    BOOST_TEST(cli.command({"CLIENT", "TRACKING"}).is_ok());
    fake.cut();
    BOOST_TEST(fake.connected() == 0U);
    BOOST_TEST(fake.accepted() == 2U);
}

struct proxied : one_server {
    class proxy wire {
        redis
    };
    redis_cli client{wire.port()};
};

BOOST_FIXTURE_TEST_CASE(proxy_is_transparent_and_counts, proxied) {
    const std::string big(300'000, 'x');
    client.set("k", big);
    BOOST_TEST(client.get("k").value() == big);
    client.command({"HELLO", "3"});
    client.command({"CLIENT", "TRACKING", "ON"});
    client.command({"GET", "k"});
    cli.del("k");
    BOOST_TEST(client.receive().push);
    BOOST_TEST(wire.commands_forwarded() == 5U);
    BOOST_TEST(wire.replies_forwarded() == 5U);
    BOOST_TEST(wire.pushes_forwarded() == 1U);
    BOOST_TEST(wire.accepted() == 1U);
    client.disconnect();
    BOOST_TEST(wait_until([&] { return wire.connected() == 0; }));
}

BOOST_FIXTURE_TEST_CASE(proxy_loses_the_reply_of_an_executed_command, proxied) {
    wire.hold_replies();
    client.send({"SET", "k", "v"});
    BOOST_REQUIRE(wire.wait_for_held_replies(1));
    BOOST_TEST(cli.get("k").value() == "v");
    for (auto const kind : {proxy::cut_kind::end, proxy::cut_kind::reset}) {
        wire.cut(kind);
        BOOST_CHECK_THROW((void)client.receive(), cli_error);
        BOOST_TEST(wire.replies_forwarded() == 0U);
        client.send({"PING"});
        BOOST_REQUIRE(wire.wait_for_held_replies(1));
    }
    wire.resume();
    BOOST_TEST(client.receive().string() == "PONG");
}

BOOST_FIXTURE_TEST_CASE(proxy_holds_requests, proxied) {
    wire.hold_requests();
    client.send({"SET", "k", "v"});
    client.send({"PING"});
    BOOST_REQUIRE(wire.wait_for_held_commands(2));
    BOOST_TEST(!cli.exists("k"));
    wire.resume();
    BOOST_TEST(client.receive().is_ok());
    BOOST_TEST(client.receive().string() == "PONG");

    wire.hold_requests(); // requests that were sent before a close arrive late
    client.send({"SET", "late", "v"});
    client.disconnect();
    BOOST_REQUIRE(wire.wait_for_held_commands(1));
    BOOST_TEST(!cli.exists("late"));
    wire.resume();
    BOOST_TEST(wait_until([&] { return cli.exists("late"); }));
}

BOOST_FIXTURE_TEST_CASE(proxy_cuts_after_replies, proxied) {
    wire.cut_after_replies(2);
    for (char const* key : {"a", "b", "c"}) client.send({"SET", key, "v"});
    BOOST_TEST(client.receive().is_ok());
    BOOST_TEST(client.receive().is_ok());
    BOOST_CHECK_THROW((void)client.receive(), cli_error);
    BOOST_TEST(client.command({"PING"}).string() == "PONG"); // the proxy cuts only once
}

BOOST_FIXTURE_TEST_CASE(proxy_goes_down_and_up, proxied) {
    BOOST_TEST(client.command({"PING"}).string() == "PONG");
    wire.down();
    BOOST_CHECK_THROW(client.command({"PING"}), cli_error);
    wire.up();
    BOOST_TEST(client.command({"PING"}).string() == "PONG");
    redis.kill();
    BOOST_CHECK_THROW(client.command({"PING"}), cli_error);
    redis.restart();
    BOOST_TEST(client.command({"PING"}).string() == "PONG");
}

BOOST_FIXTURE_TEST_CASE(proxy_delays_replies, proxied) {
    wire.delay_replies(40ms);
    auto const start = std::chrono::steady_clock::now();
    BOOST_TEST(client.command({"PING"}).string() == "PONG");
    BOOST_CHECK(std::chrono::steady_clock::now() - start >= 40ms);
}

BOOST_FIXTURE_TEST_CASE(proxy_intercepts_in_order, proxied) {
    wire.intercept([&](command_line const& words) -> std::optional<std::string> {
        if (is_command(words, "EVALSHA")) return resp::error("NOSCRIPT No matching script.");
        if (is_command(words, "SET")) wire.hold_replies();
        return std::nullopt;
    });
    for (command_line const& words :
         {command_line{"PING"}, command_line{"EVALSHA", "0"}, command_line{"DBSIZE"}})
        client.send(words);
    BOOST_TEST(client.receive().string() == "PONG");
    BOOST_TEST(client.receive().error().starts_with("NOSCRIPT"));
    BOOST_TEST(client.receive().integer() == 0);
    client.send({"SET", "k", "v"}); // its reply is held from the start
    BOOST_REQUIRE(wire.wait_for_held_replies(1));
    BOOST_TEST(wire.replies_forwarded() == 2U);
    wire.intercept({});
    wire.resume();
    BOOST_TEST(client.receive().is_ok());
    BOOST_TEST(client.command({"EVALSHA", "0"}).error().starts_with("ERR"));
}

BOOST_FIXTURE_TEST_CASE(server_with_a_shifted_clock_is_in_another_time, movable_clock) {
    BOOST_TEST(is_shifted_by(cli, 0s));
    BOOST_CHECK(uptime(cli) < 120s);
    redis.shift_clock(120s);
    BOOST_TEST(is_shifted_by(cli, 120s));
    BOOST_TEST(wait_until([&] { return uptime(cli) >= 120s; }));
    redis.shift_clock(1h);
    BOOST_TEST(is_shifted_by(cli, 1h + 120s));
    BOOST_CHECK(redis.clock_shift() == 1h + 120s);
    for (auto const part : {999ms, -999ms}) { // almost always changes the second too
        redis.shift_clock(part - redis.clock_shift());
        BOOST_TEST(is_shifted_by(cli, part));
    }
}

BOOST_FIXTURE_TEST_CASE(server_whose_clock_jumps_expires_what_is_due, movable_clock) {
    cli.set("short", "v", 60s);
    cli.set("long", "v", 300s);
    cli.set("eternal", "v");
    BOOST_TEST(cli.exists("short"));
    redis.shift_clock(120s);
    BOOST_TEST(!cli.exists("short"));
    BOOST_CHECK(cli.pttl("short") == -2ms);
    BOOST_CHECK(cli.pttl("long") <= 180s && cli.pttl("long") > 120s);
    BOOST_TEST(cli.get("eternal").value() == "v");
    BOOST_TEST(cli.set_if_absent("short", "theirs", 60s)); // new keys expire by the shifted clock
    BOOST_CHECK(cli.pttl("short") <= 60s && cli.pttl("short") > 30s);
}

BOOST_FIXTURE_TEST_CASE(server_whose_clock_goes_back_keeps_for_longer, movable_clock) {
    cli.set("k", "v", 60s);
    redis.shift_clock(-120'500ms);
    BOOST_TEST(is_shifted_by(cli, -120'500ms));
    BOOST_CHECK(cli.pttl("k") <= 180'500ms && cli.pttl("k") > 120s);
    redis.shift_clock(120'500ms);
    BOOST_TEST(is_shifted_by(cli, 0s));
    BOOST_CHECK(cli.pttl("k") <= 60s && cli.pttl("k") > 0s);
}

BOOST_AUTO_TEST_CASE(server_starts_again_in_its_shifted_time) {
    server redis{
        {.arguments = {"--appendonly", "yes", "--appendfsync", "always"}, .shiftable_clock = true}};
    redis_cli cli{redis};
    cli.set("short", "v", 60s);
    redis.shift_clock(30s);
    cli.set("long", "v", 300s);
    redis.kill();
    redis.restart();
    BOOST_TEST(is_shifted_by(cli, 30s));
    BOOST_CHECK(cli.pttl("short") <= 30s && cli.pttl("short") > 0s);
    redis.restart(); // with an orderly end
    BOOST_TEST(is_shifted_by(cli, 30s));
    redis.kill();
    redis.shift_clock(90s); // while the server does not run
    redis.restart();
    BOOST_TEST(is_shifted_by(cli, 120s));
    BOOST_TEST(!cli.exists("short"));
    BOOST_CHECK(cli.pttl("long") <= 210s && cli.pttl("long") > 150s);
    BOOST_CHECK(uptime(cli) < 90s);
}

BOOST_FIXTURE_TEST_CASE(server_with_another_clock_is_not_shifted, movable_clock) {
    one_server plain;
    movable_clock other;
    for (redis_cli* const untouched : {&plain.cli, &other.cli}) untouched->set("k", "v", 60s);
    redis.shift_clock(120s);
    BOOST_TEST(is_shifted_by(cli, 120s));
    for (redis_cli* const untouched : {&plain.cli, &other.cli}) {
        BOOST_TEST(is_shifted_by(*untouched, 0s));
        BOOST_CHECK(untouched->pttl("k") <= 60s && untouched->pttl("k") > 0s);
    }
    BOOST_CHECK(plain.redis.clock_shift() == 0ms);
    BOOST_CHECK_THROW(plain.redis.shift_clock(1s), std::logic_error);
}

// The library that servers preload is loaded into the test, where it replaces nothing.
BOOST_AUTO_TEST_CASE(shifted_clock_moves_the_wall_clocks_only) {
    const server plain; // provides a folder
    shifted_clock clock{plain.folder()};
    std::string library;
    for (std::string const& variable : clock.environment()) {
        auto const equals = variable.find('=');
        std::string const value = variable.substr(equals + 1);
        if (variable.starts_with("LD_PRELOAD="))
            library = value.substr(0, value.find(':'));
        else
            ::setenv(variable.substr(0, equals).c_str(), value.c_str(), 1);
    }
    void* const loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ::unsetenv("HOLDFAST_CLOCK_SHIFT");
    BOOST_REQUIRE(loaded != nullptr);
    auto const its_clock_gettime =
        reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(loaded, "clock_gettime"));
    auto const its_gettimeofday =
        reinterpret_cast<int (*)(timeval*, void*)>(::dlsym(loaded, "gettimeofday"));
    auto const its_time = reinterpret_cast<time_t (*)(time_t*)>(::dlsym(loaded, "time"));
    BOOST_REQUIRE(
        (its_clock_gettime != nullptr && its_gettimeofday != nullptr && its_time != nullptr));
    auto const in_order =
        [](auto... times) { // each at most the resolution of a coarse clock behind the one before
            auto last = std::chrono::nanoseconds::min();
            return ((std::exchange(last, times) <= times + 50ms) && ...);
        };
    auto const read = [](clockid_t id, auto read_clock) {
        timespec now{};
        BOOST_TEST(read_clock(id, &now) == 0);
        BOOST_CHECK(now.tv_nsec >= 0 && now.tv_nsec < 1'000'000'000);
        return std::chrono::nanoseconds{std::chrono::seconds{now.tv_sec}} +
               std::chrono::nanoseconds{now.tv_nsec};
    };
    for (auto const by : {0ms, 999ms, -120'999ms, 3'600'000ms}) {
        clock.advance(by - clock.shift());
        BOOST_CHECK(clock.shift() == by);
        for (const clockid_t id :
             {CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE,
              CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID}) {
            bool const moves = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
            auto const shift = moves ? by : 0ms;
            auto const before = read(id, ::clock_gettime);
            auto const shifted = read(id, its_clock_gettime);
            auto const after = read(id, ::clock_gettime);
            BOOST_CHECK(in_order(before + shift, shifted, after + shift));
        }
        auto const before = read(CLOCK_REALTIME, ::clock_gettime);
        timeval now{};
        BOOST_TEST(its_gettimeofday(&now, nullptr) == 0);
        time_t seconds = 0;
        BOOST_TEST(its_time(&seconds) == seconds);
        BOOST_CHECK(its_time(nullptr) >= seconds);
        auto const after = read(CLOCK_REALTIME, ::clock_gettime);
        BOOST_CHECK(in_order(
            before + by, std::chrono::seconds{now.tv_sec} + std::chrono::microseconds{now.tv_usec},
            after + by));
        BOOST_CHECK(std::chrono::seconds{seconds} >=
                    std::chrono::floor<std::chrono::seconds>(before + by));
        BOOST_CHECK(std::chrono::seconds{seconds} <= after + by);
    }
    timespec nothing{};
    BOOST_TEST(its_clock_gettime(-1'000'000, &nothing) == -1);
    ::dlclose(loaded);
}

BOOST_AUTO_TEST_CASE(every_available_kind_has_a_movable_clock) {
    for (server_kind const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server_options options;
            options.kind = kind;
            options.shiftable_clock = true;
            server instance{options};
            redis_cli cli{instance};
            cli.set("k", "v", 60s);
            BOOST_TEST(is_shifted_by(cli, 0s));
            instance.shift_clock(-120s);
            BOOST_TEST(is_shifted_by(cli, -120s));
            BOOST_CHECK(cli.pttl("k") > 120s);
            instance.shift_clock(240s);
            BOOST_TEST(is_shifted_by(cli, 120s));
            BOOST_CHECK(cli.pttl("k") == -2ms);
            instance.restart();
            BOOST_TEST(is_shifted_by(cli, 120s));
            const reply threads =
                cli.command({"CONFIG", "GET", "jemalloc-bg-thread"}); // this thread would spin
            BOOST_TEST(threads.elements().at(1).string() == "no");
        }
    }
}

// The shift takes effect at once, also on a server that caches the time and has just read it.
BOOST_AUTO_TEST_CASE(server_is_in_its_shifted_time_at_once) {
    for (server_kind const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server_options options;
            options.kind = kind;
            options.shiftable_clock = true;
            server instance{options};
            redis_cli cli{instance};
            for (int i = 0; i < 200; ++i) {
                auto const by = i % 2 == 0 ? 120s : -120s;
                BOOST_REQUIRE(is_shifted_by(cli, instance.clock_shift()));
                instance.shift_clock(by);
                BOOST_REQUIRE(is_shifted_by(cli, instance.clock_shift()));
            }
            for (int i = 0; i < 20; ++i) {
                BOOST_REQUIRE(is_shifted_by(cli, instance.clock_shift()));
                instance.freeze();
                instance.shift_clock(-1s);
                instance.thaw();
                BOOST_REQUIRE(is_shifted_by(cli, instance.clock_shift()));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_server_without_the_time_command_is_in_its_shifted_time_at_once) {
    for (server_kind const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server_options options;
            options.kind = kind;
            options.config = "user default on nopass ~* &* +@all -time\n";
            options.shiftable_clock = true;
            server instance{options};
            redis_cli cli{instance};
            for (int i = 0; i < 100; ++i) {
                cli.set("k", "v", 60s);
                instance.shift_clock(120s);
                BOOST_REQUIRE(!cli.exists("k"));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(server_that_cannot_have_a_shifted_clock_says_so) {
    server_options options;
    options.shiftable_clock = true;
    const server_kind real = options.kind;
    const server folder; // for a wrapper that removes the clock library
    options.kind = {"deaf", folder.folder() + "/wrapper"};
    std::ofstream{options.kind.binary} << "#!/bin/sh\nunset LD_PRELOAD\nexec '" << real.binary
                                       << "' \"$@\"\n";
    std::filesystem::permissions(options.kind.binary, std::filesystem::perms::owner_all);
    BOOST_CHECK_EXCEPTION(server{options}, std::runtime_error, [](std::runtime_error const& error) {
        return std::string{error.what()}.find("shifted clock") != std::string::npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
