// Whatever a client sends to the instance for unit tests: it gets an error that names the fault,
// the memory is bounded, and the instance goes on.
#include <holdfast/testing/instance.hpp>

#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/kinds/set_key.hpp"

#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"
#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/key_watches.hpp"
#include "testing/listener.hpp"
#include "testing/lua_number.hpp"
#include "testing/native_scripts.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::test;
using namespace holdfast;
using namespace std::chrono_literals;

namespace {

struct one_client {
    testing::instance one;
    redis_cli cli{one.address().port()};

    std::string refusal(command_line const& words) { return cli.command(words).error(); }
};

/// Sends the bytes, and reads what comes until the connection ends.
std::string answer_to_bytes(testing::instance const& one, std::string_view bytes) {
    redis_cli cli(one.address().port());
    cli.send_bytes(bytes);
    return cli.receive().error();
}

bool lives(testing::instance const& one) {
    return redis_cli(one.address().port()).command({"PING"}).string() == "PONG";
}

} // namespace

BOOST_AUTO_TEST_SUITE(hostile_clients)

BOOST_AUTO_TEST_CASE(unknown_commands_and_scripts_are_named) {
    one_client c;
    BOOST_TEST(c.refusal({"HGETALL", "k"})
                   .starts_with("ERR unknown command 'HGETALL': the "
                                "embedded instance"));
    for (auto const& words : std::vector<command_line>{{"CLIENT", "LIST"},
                                                       {"CONFIG", "SET", "LIST", "x"},
                                                       {"SCRIPT", "LIST"},
                                                       {"CLIENT", "TRACKING", "ON", "LIST"}}) {
        auto const named = words[1] == "SET" ? "SET" : "LIST";
        BOOST_TEST(contains(c.refusal(words), named), words[0]);
    }
    BOOST_TEST(contains(c.refusal({"EVAL", "return 7", "0"}), "return 7"));
    BOOST_TEST(contains(c.refusal({"SCRIPT", "LOAD", "return 8\r\n+OK"}), "return 8  +OK"));
    BOOST_TEST(c.refusal({"EVALSHA", std::string(40, 'a'), "0"}).starts_with("NOSCRIPT"));
    BOOST_TEST(contains(c.refusal({"SELECT", "3"}), "database 0"));
    auto const text = std::string(redis::release_script);
    BOOST_TEST(contains(c.refusal({"EVAL", text, "0"}), "with 1 keys and 1 arguments"));
    BOOST_TEST(contains(c.refusal({"EVAL", text, "1", "k"}), "with 1 keys and 1 arguments"));
    // These take any number of keys, each with its counter.
    auto const several = std::string(redis::set_raise_script);
    for (auto const& words : std::vector<command_line>{{"EVAL", several, "0", "t", "1", "1"},
                                                       {"EVAL", several, "1", "k", "t", "1", "1"},
                                                       {"EVAL", several, "2", "k", "c", "t", "1"}})
        BOOST_TEST(contains(c.refusal(words), "with 2 keys and 3 arguments"));
    BOOST_TEST(lives(c.one));
}

BOOST_AUTO_TEST_CASE(every_script_of_the_library_has_a_native_form) {
    auto const native = testing::native_scripts();
    std::set<std::string_view> scripts;
    for (auto const* const kind :
         {&redis::exclusive_key, &redis::fair_key, &redis::set_key, &redis::read_key,
          &redis::write_key, &redis::permit_key, &redis::revoked_key}) {
        for (auto const text : kind->scripts) {
            scripts.insert(text);
            BOOST_TEST(std::any_of(native.begin(), native.end(),
                                   [&](auto const& n) { return n.text == text; }),
                       text);
        }
    }
    BOOST_TEST(native.size() == scripts.size());
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_command_end_the_connection_alone) {
    testing::instance one;
    for (std::string const bytes :
         {"PING\r\n", "*x\r\n", "*0\r\n", "*-1\r\n", "*99999999\r\n", "*1\r\n+PING\r\n",
          "*1\r\n$-1\r\n", "*1\r\n$999999999999\r\n", "*1\r\n$99999999999999999999999\r\n",
          "*1\r\n$4\r\nPINGxx", "*11111111111111111111111111111111111"}) {
        BOOST_TEST(answer_to_bytes(one, bytes).starts_with("ERR Protocol error"), bytes);
    }
    BOOST_TEST(lives(one));
}

BOOST_AUTO_TEST_CASE(random_bytes_and_random_commands_do_no_harm) {
    testing::instance one;
    std::mt19937 random(1);
    std::vector<std::string> const words{"*",
                                         "$",
                                         "\r\n",
                                         "1",
                                         "3",
                                         "-",
                                         "EVAL",
                                         "SET",
                                         "k",
                                         "",
                                         "HELLO",
                                         "3",
                                         "CLIENT",
                                         "TRACKING",
                                         "ON",
                                         "PX",
                                         "100",
                                         "OPTIN",
                                         "CACHING",
                                         "YES",
                                         "LREM",
                                         "GETRANGE",
                                         "l",
                                         "RPUSH",
                                         "ZADD",
                                         "ZREMRANGEBYSCORE",
                                         "ZCOUNT",
                                         "ZRANGEBYSCORE",
                                         "\xff",
                                         std::string(1, '\0'),
                                         "INFO",
                                         "AUTH",
                                         "SETNAME",
                                         std::string(redis::fair_contend_script),
                                         std::string(redis::read_acquire_script),
                                         "9999999999999"};
    for (auto round = 0; round < 300; ++round) {
        redis_cli cli(one.address().port());
        std::string bytes;
        for (auto n = random() % 30; n > 0; --n) {
            command_line line;
            for (auto w = random() % 8 + 1; w > 0; --w)
                line.push_back(words[random() % words.size()]);
            bytes += random() % 5 == 0 ? words[random() % words.size()] : resp::command(line);
        }
        cli.send_bytes(bytes);
        if (random() % 2 == 0) (void)cli.has_input(1ms);
    }
    BOOST_TEST(lives(one));
}

BOOST_AUTO_TEST_CASE(commands_that_come_byte_by_byte_are_read) {
    testing::command_reader reader;
    std::size_t found = 0;
    for (auto const byte : resp::command({"SET", "k", ""}) + resp::command({"PING"})) {
        BOOST_TEST(found < 2U);
        reader.feed({&byte, 1});
        if (auto const words = reader.next()) {
            BOOST_TEST(words->size() == (found == 0 ? 3U : 1U));
            ++found;
        }
    }
    BOOST_TEST(found == 2U);
}

BOOST_AUTO_TEST_CASE(a_command_has_a_largest_size) {
    testing::command_reader reader;
    reader.feed("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n");
    BOOST_CHECK_THROW(reader.next(), testing::protocol_error);
    testing::command_reader many;
    many.feed("*1024\r\n");
    for (auto i = 0; i < 1'024; ++i) many.feed("$2000\r\n" + std::string(2'000, 'x') + "\r\n");
    BOOST_CHECK_THROW(many.next(), testing::protocol_error);
}

BOOST_AUTO_TEST_CASE(keys_have_a_largest_size_together) {
    one_client c;
    auto const value = std::string(1'000'000, 'x');
    std::string refused;
    auto stored = 0;
    for (; stored < 100 && refused.empty(); ++stored) {
        auto const r = c.cli.command({"SET", "k" + std::to_string(stored), value});
        if (r.is_error()) refused = r.error();
    }
    BOOST_TEST(refused.starts_with("OOM"));
    BOOST_TEST(stored > 60);
    BOOST_TEST(contains(c.refusal({"RPUSH", "l", value}), "OOM"));
    BOOST_TEST(c.cli.command({"DEL", "k0"}).integer() == 1);
    BOOST_TEST(c.cli.command({"SET", "k0", value}).is_ok());
    // The sizes of values that were replaced, changed or flushed do not add up.
    c.one.flush();
    for (auto i = 0; i < 100; ++i) BOOST_TEST(c.cli.command({"SET", "k", value}).is_ok());
    for (auto i = 0; i < 100; ++i) {
        BOOST_TEST(c.cli.command({"RPUSH", "l", value}).integer() == 1);
        BOOST_TEST(c.cli.command({"LPOP", "l"}).is_string());
    }
    BOOST_TEST(lives(c.one));
}

BOOST_AUTO_TEST_CASE(a_client_that_does_not_read_is_not_served_without_limit) {
    testing::listener server;
    redis_cli writer(server.port());
    auto const value = std::string(500'000, 'x');
    BOOST_REQUIRE(writer.command({"SET", "k", value}).is_ok());
    redis_cli mute(server.port());
    for (auto i = 0; i < 100; ++i) mute.send({"GET", "k"});
    mute.send({"SET", "last", "x"});
    auto const waiting = [&] {
        return server.use([](testing::lock_server& s) {
            std::size_t most = 0;
            for (auto const& [id, client] : s.clients()) most = std::max(most, client.out.size());
            return most;
        });
    };
    BOOST_TEST(wait_until([&] { return waiting() > 0; }));
    BOOST_TEST(waiting() < testing::listener::max_unsent / 2);
    BOOST_TEST(!writer.exists("last"));
    // All is answered once it reads.
    for (auto i = 0; i < 100; ++i) BOOST_TEST(mute.receive().string().size() == value.size());
    BOOST_TEST(mute.receive().is_ok());
}

// It watches keys with long names, and never reads the pushes.
BOOST_AUTO_TEST_CASE(a_client_that_does_not_read_its_pushes_is_cut_off) {
    testing::listener server;
    redis_cli mute(server.port()), writer(server.port());
    (void)mute.command({"HELLO", "3"});
    BOOST_REQUIRE(mute.command({"CLIENT", "TRACKING", "ON"}).is_ok());
    auto const clients = [&] {
        return server.use([](testing::lock_server& s) { return s.clients().size(); });
    };
    BOOST_REQUIRE(writer.command({"PING"}).is_string());
    BOOST_REQUIRE(clients() == 2U);
    auto const name = std::string(900'000, 'k');
    for (auto i = 0; i < 200 && clients() == 2U; ++i) {
        auto const key = name + std::to_string(i);
        (void)server.use([&](testing::lock_server& s) {
            // As if it had asked: it reads nothing, so it cannot be asked to.
            auto& client = s.clients().begin()->second;
            s.execute(client, {"GET", key});
            return 0;
        });
        BOOST_REQUIRE(writer.command({"SET", key, "x"}).is_ok());
        BOOST_REQUIRE(writer.command({"DEL", key}).integer() == 1);
    }
    BOOST_TEST(clients() == 1U);
}

BOOST_AUTO_TEST_CASE(connections_have_a_limit) {
    testing::listener server;
    std::vector<std::unique_ptr<redis_cli>> all;
    std::string refusal;
    for (std::size_t i = 0; i <= testing::listener::max_connections && refusal.empty(); ++i) {
        auto& cli = *all.emplace_back(std::make_unique<redis_cli>(server.port()));
        auto const r = cli.command({"PING"});
        if (r.is_error()) refusal = r.error();
    }
    BOOST_TEST(refusal == "ERR max number of clients reached");
    BOOST_TEST(all.size() == testing::listener::max_connections + 1);
    all.clear();
    BOOST_TEST(wait_until([&] { return redis_cli(server.port()).command({"PING"}).is_string(); }));
}

BOOST_AUTO_TEST_CASE(watched_keys_have_a_limit) {
    testing::key_watches watches;
    for (std::size_t i = 0; i < testing::key_watches::max_keys; ++i)
        BOOST_REQUIRE(!watches.add(std::to_string(i), 1));
    BOOST_TEST(!watches.add("0", 2)); // is watched already
    auto const displaced = watches.add("one more", 3);
    BOOST_REQUIRE(displaced.has_value());
    BOOST_TEST(displaced->first == "0");
    BOOST_TEST(displaced->second.size() == 2U);
    BOOST_TEST(watches.size() == testing::key_watches::max_keys);
    watches.forget(1);
    BOOST_TEST(watches.size() == 1U);
}

BOOST_AUTO_TEST_CASE(numbers_are_read_as_by_a_script) {
    auto const is = [](char const* text, double n) { return testing::to_number(text) == n; };
    BOOST_TEST(is(" 12\t", 12));
    BOOST_TEST(is("+5", 5));
    BOOST_TEST(is("-0x10", -16));
    BOOST_TEST(is("1e3", 1'000));
    BOOST_TEST(is(".5", 0.5));
    BOOST_TEST(is("1e400", std::numeric_limits<double>::infinity()));
    BOOST_TEST(is("1e-400", 0));
    for (auto const* const text : {"", " ", "x", "0x", "--5", "+-5", "0x-1", "1 2", "1,5"})
        BOOST_TEST(!testing::to_number(text).has_value(), text);
    BOOST_TEST(testing::to_text(100'000) == "100000");
    BOOST_TEST(testing::to_text(1e15) == "1e+15");
    BOOST_TEST(testing::to_argument(1e15) == "1000000000000000");
    BOOST_TEST(testing::to_reply(-2.7) == -2);
    BOOST_TEST(testing::to_reply(1e300) == std::numeric_limits<std::int64_t>::min());
}

BOOST_AUTO_TEST_SUITE_END()
