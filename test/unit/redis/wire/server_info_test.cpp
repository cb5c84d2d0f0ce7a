// The fields of INFO, and the meaning of the errors of servers.
#include "redis/wire/server_info.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using holdfast::errc;

namespace {

constexpr std::string_view redis_6 =
    "# Server\r\nredis_version:6.2.14\r\nredis_git_sha1:00000000\r\n"
    "redis_git_dirty:0\r\nredis_build_id:fd5dbf4ab9e7c7f3\r\n"
    "redis_mode:standalone\r\nos:Linux 6.1.0 x86_64\r\n"
    "process_id:1\r\nprocess_supervised:no\r\n"
    "run_id:0123456789abcdef0123456789abcdef01234567\r\ntcp_port:6379\r\n"
    "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
    "master_replid:ffffffffffffffffffffffffffffffffffffffff\r\n";

/// An INFO with the relevant fields, and fields with similar names beside them.
std::string info(std::string_view versions, std::string_view role = "master",
                 std::string_view run_id = "0123456789abcdef0123456789abcdef01234567") {
    return "# Server\r\nredis_version_of_something:1.0\r\n" + std::string(versions) +
           "redis_mode:standalone\r\nmultiplexing_api:epoll\r\nmonotonic_clock:POSIX "
           "clock_gettime\r\n"
           "old_run_id:nonsense\r\nrun_id:" +
           std::string(run_id) +
           "\r\nuptime_in_seconds:17\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# "
           "Replication\r\nrole:" +
           std::string(role) +
           "\r\nconnected_slaves:1\r\n\r\n# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl=9\r\n";
}

dialect spoken(std::string product, std::string version) {
    return server_info{.product = std::move(product), .version = std::move(version), .run_id = "r"}
        .speaks();
}

} // namespace

BOOST_AUTO_TEST_SUITE(server_info)

BOOST_AUTO_TEST_CASE(redis_6_is_recognised) {
    auto const i = parse_info(redis_6);
    BOOST_REQUIRE(i.has_value());
    BOOST_TEST(i->product == "redis");
    BOOST_TEST(i->version == "6.2.14");
    BOOST_TEST(i->run_id == "0123456789abcdef0123456789abcdef01234567");
    BOOST_TEST(!i->replica);
    BOOST_TEST((i->speaks() == dialect::scripts));
}

BOOST_AUTO_TEST_CASE(the_replication_ids_tell_of_a_time_as_a_replica) {
    auto const never =
        parse_info(info("redis_version:7.0.15\r\nmaster_replid:4246270569463dc1\r\n"
                        "master_replid2:0000000000000000000000000000000000000000\r\n"));
    BOOST_REQUIRE(never.has_value());
    BOOST_TEST(never->replication_id == "4246270569463dc1");
    BOOST_TEST(!never->promoted);
    auto const once =
        parse_info(info("redis_version:7.0.15\r\nmaster_replid:4246270569463dc1\r\n"
                        "master_replid2:0000000000000000000000000000000000000100\r\n"));
    BOOST_REQUIRE(once.has_value());
    BOOST_TEST(once->promoted);
    auto const silent = parse_info(info("redis_version:7.0.15\r\n"));
    BOOST_REQUIRE(silent.has_value());
    BOOST_TEST(silent->replication_id.empty());
    BOOST_TEST(!silent->promoted);
}

BOOST_AUTO_TEST_CASE(a_server_that_may_evict_names_its_policy) {
    auto const eviction = [](std::string const& lines) {
        auto const i = parse_info(info("redis_version:7.0.15\r\n" + lines));
        BOOST_REQUIRE(i.has_value());
        return i->eviction;
    };
    for (std::string const policy :
         {"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu",
          "volatile-random", "volatile-ttl", "of-the-future"}) {
        BOOST_TEST(eviction("maxmemory:100\r\nmaxmemory_human:100B\r\nmaxmemory_policy:" + policy +
                            "\r\n") == policy);
        BOOST_TEST(eviction("maxmemory:0\r\nmaxmemory_policy:" + policy + "\r\n").empty());
    }
    BOOST_TEST(eviction("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n").empty());
    BOOST_TEST(eviction("maxmemory:100\r\n").empty());
    BOOST_TEST(eviction("maxmemory_policy:allkeys-lru\r\n").empty());
    BOOST_TEST(eviction("").empty());
}

BOOST_AUTO_TEST_CASE(text_that_is_no_name_reaches_no_message) {
    for (std::string const& odd :
         {std::string("\x1b[2J"), std::string("a b"), std::string(33, 'x'), std::string(1, '\0')}) {
        auto const i = parse_info(
            info("redis_version:" + odd + "\r\nmaxmemory:100\r\nmaxmemory_policy:" + odd + "\r\n"));
        BOOST_REQUIRE(i.has_value());
        BOOST_TEST(i->version == "unknown");
        BOOST_TEST(i->eviction == "unknown");
        auto const v = parse_info(info("valkey_version:" + odd + "\r\n"));
        BOOST_REQUIRE(v.has_value());
        BOOST_TEST(v->version == "unknown");
        BOOST_TEST((v->speaks() == dialect::scripts));
    }
}

BOOST_AUTO_TEST_CASE(commands_that_take_all_keys_are_counted) {
    BOOST_TEST(count_flushes("") == 0U);
    BOOST_TEST(count_flushes("# Commandstats\r\ncmdstat_get:calls=7,usec=1\r\n") == 0U);
    BOOST_TEST(
        count_flushes("cmdstat_flushall:calls=2,usec=9\r\ncmdstat_flushdb:calls=30,usec=1\r\n"
                      "cmdstat_swapdb:calls=400,usec=1,rejected_calls=5\r\n") == 432U);
    BOOST_TEST(count_flushes("cmdstat_flushall:usec=9\r\ncmdstat_flushdb:calls=\r\n") == 0U);
}

BOOST_AUTO_TEST_CASE(redis_7_and_8_are_recognised) {
    constexpr std::array<std::pair<std::string_view, dialect>, 5> table{
        {{"7.0.15", dialect::scripts},
         {"7.4.1", dialect::scripts},
         {"8.0.0", dialect::scripts},
         {"8.2.3", dialect::scripts},
         {"8.4.0", dialect::delex}}};
    for (auto const& [version, speaks] : table) {
        auto const i = parse_info(info("redis_version:" + std::string(version) + "\r\n"));
        BOOST_REQUIRE(i.has_value());
        BOOST_TEST(i->product == "redis");
        BOOST_TEST(i->version == version);
        BOOST_TEST((i->speaks() == speaks));
    }
}

BOOST_AUTO_TEST_CASE(valkey_is_not_taken_for_the_redis_it_is_compatible_with) {
    constexpr std::array<std::pair<std::string_view, dialect>, 4> table{
        {{"7.2.8", dialect::scripts},
         {"8.0.2", dialect::scripts},
         {"8.1.1", dialect::scripts},
         {"9.0.0", dialect::delifeq}}};
    for (auto const& [version, speaks] : table) {
        for (std::string_view const compatible : {"7.2.4", "8.4.0"}) {
            auto const i = parse_info(
                info("redis_version:" + std::string(compatible) +
                     "\r\nserver_name:valkey\r\nvalkey_version:" + std::string(version) + "\r\n"));
            BOOST_REQUIRE(i.has_value());
            BOOST_TEST(i->product == "valkey");
            BOOST_TEST(i->version == version);
            BOOST_TEST((i->speaks() == speaks));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_replica_says_so) {
    auto const replica = parse_info(info("redis_version:7.2.4\r\n", "slave"));
    BOOST_REQUIRE(replica.has_value());
    BOOST_TEST(replica->replica);
    auto const primary = parse_info(info("redis_version:7.2.4\r\n", "master"));
    BOOST_REQUIRE(primary.has_value());
    BOOST_TEST(!primary->replica);
}

BOOST_AUTO_TEST_CASE(lines_may_end_without_a_carriage_return_and_the_last_without_either) {
    auto const i = parse_info("redis_version:8.4.2\nrole:slave\nrun_id:abc");
    BOOST_REQUIRE(i.has_value());
    BOOST_TEST(i->run_id == "abc");
    BOOST_TEST(i->version == "8.4.2");
    BOOST_TEST(i->replica);
}

BOOST_AUTO_TEST_CASE(the_format_prefix_of_a_verbatim_string_does_no_harm) {
    auto const i = parse_info("txt:" + std::string(redis_6));
    BOOST_REQUIRE(i.has_value());
    BOOST_TEST(i->version == "6.2.14");
}

BOOST_AUTO_TEST_CASE(a_text_without_any_field_is_no_info) {
    for (std::string_view const text :
         {"", "\r\n", "OK", "run_id", "run_id:", "run_id:\r\n", "my_run_id:abc\r\n",
          "run_id_2:abc\r\n", " run_id:abc\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
          ":::::\n\n\n\r\r\r:", "STAT version 1.6.18\r\nEND\r\n"}) {
        BOOST_TEST_CONTEXT('"' << text << '"') BOOST_TEST(!parse_info(text).has_value());
    }
    BOOST_TEST(!parse_info(std::string(1'000'000, 'x')).has_value());
    BOOST_TEST(!parse_info(std::string(1'000, '\0')).has_value());
}

// A proxy may remove the run id.
BOOST_AUTO_TEST_CASE(a_text_without_a_run_id_tells_the_rest) {
    for (auto const& text : {std::string("redis_version:7.0.0\r\nrole:slave\r\n"),
                             info("redis_version:7.0.0\r\n", "slave", "")}) {
        auto const i = parse_info(text);
        BOOST_REQUIRE(i.has_value());
        BOOST_TEST(i->run_id.empty());
        BOOST_TEST(i->version == "7.0.0");
        BOOST_TEST(i->replica);
    }
}

BOOST_AUTO_TEST_CASE(a_command_is_unavailable_where_it_is_unknown_or_forbidden) {
    for (std::string_view const error :
         {"ERR unknown command 'DELIFEQ', with args beginning with: 'k'",
          "ERR unknown command `HELLO`", "ERR unknown subcommand 'tracking'. Try CLIENT HELP.",
          "ERR Unknown subcommand or wrong number of arguments for 'tracking'",
          "unsupported command 'evalsha'", "ERR Command is not available: 'CONFIG'",
          "ERR WAIT is not supported"}) {
        BOOST_TEST(is_unknown_command(error), error);
        BOOST_TEST(is_unavailable(error), error);
    }
    for (std::string_view const error :
         {"NOPERM User u has no permissions to run the 'set' command",
          "NOPERM No permissions to access a key",
          "ERR The user executing the script can't run this command or subcommand script: a",
          "ERR The user executing the script can't access at least one of the keys",
          "ERR ACL failure in script: User u has no permissions to run the 'get' command"}) {
        BOOST_TEST(!is_unknown_command(error), error);
        BOOST_TEST(is_unavailable(error), error);
        BOOST_TEST((classify(error) == errc::access_denied), error);
    }
    for (std::string_view const error :
         {"ERR scripting is disabled", "ERR EVALSHA is disabled", "ERR TIME is not allowed here",
          "ERR command forbidden by the service"}) {
        BOOST_TEST(is_unavailable(error), error);
    }
    for (std::string_view const error :
         {"OOM command not allowed when used memory > 'maxmemory'.", "NOREPLICAS Not enough good",
          "NOSCRIPT No matching script.", "LOADING Redis is loading", "ERR syntax error", "ERR"}) {
        BOOST_TEST(!is_unavailable(error), error);
    }
}

BOOST_AUTO_TEST_CASE(without_a_version_only_scripts_are_trusted) {
    auto const i = parse_info("run_id:abc\r\n");
    BOOST_REQUIRE(i.has_value());
    BOOST_TEST(i->version.empty());
    BOOST_TEST(!i->replica);
    BOOST_TEST((i->speaks() == dialect::scripts));
}

BOOST_AUTO_TEST_CASE(versions_are_compared_as_numbers) {
    BOOST_TEST((spoken("redis", "8.3.9") == dialect::scripts));
    BOOST_TEST((spoken("redis", "8.4") == dialect::delex));
    BOOST_TEST((spoken("redis", "8.10.1") == dialect::delex));
    BOOST_TEST((spoken("redis", "9.0.0") == dialect::delex));
    BOOST_TEST((spoken("redis", "10.0.0") == dialect::delex));
    BOOST_TEST((spoken("redis", "255.255.255") == dialect::delex)); // builds of the main branch
                                                                    // have this version
    BOOST_TEST((spoken("redis", "8.4-rc1") == dialect::delex));
    BOOST_TEST((spoken("valkey", "8.0.9") == dialect::scripts));
    BOOST_TEST((spoken("valkey", "8.1.0") == dialect::scripts));
    BOOST_TEST((spoken("valkey", "8.10.0") == dialect::scripts));
    BOOST_TEST((spoken("valkey", "9.0.0-rc3") == dialect::delifeq));
    BOOST_TEST((spoken("valkey", "9.1.2") == dialect::delifeq));
    BOOST_TEST((spoken("valkey", "10.0.0") == dialect::delifeq));
}

BOOST_AUTO_TEST_CASE(a_version_that_is_none_speaks_only_scripts) {
    for (std::string const product : {"redis", "valkey"}) {
        for (std::string const version :
             {"", ".", "x", "v9.9", "unstable", "-9.9", " 9.9", "99999999999.9"}) {
            BOOST_TEST_CONTEXT(product << " \"" << version << '"') {
                BOOST_TEST((spoken(product, version) == dialect::scripts));
            }
        }
    }
    BOOST_TEST((spoken("", "9.9") == dialect::scripts));
    BOOST_TEST((spoken("something else", "9.9") == dialect::scripts));
}

BOOST_AUTO_TEST_CASE(errors_of_servers_are_told_apart) {
    constexpr std::array<std::pair<std::string_view, errc>, 23> table{{
        {"WRONGPASS invalid username-password pair or user is disabled.", errc::access_denied},
        {"NOAUTH Authentication required.", errc::access_denied},
        {"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
         "<proto> "
         "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
         "protocol "
         "version at the same time",
         errc::access_denied},
        {"NOPERM User app has no permissions to run the 'set' command", errc::access_denied},
        {"NOPERM this user has no permissions to access one of the keys used as arguments",
         errc::access_denied},
        {"NOPERM No permissions to access a key", errc::access_denied},
        {"ERR invalid password", errc::access_denied},
        {"ERR Client sent AUTH, but no password is set", errc::access_denied},
        {"READONLY You can't write against a read only replica.", errc::read_only},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", errc::wrong_type},
        {"LOADING Redis is loading the dataset in memory", errc::rejected},
        {"ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation against a "
         "key",
         errc::wrong_type},
        {"ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write",
         errc::read_only},
        {"ERR unknown command 'DELEX', with args beginning with: 'k' 'IFEQ' ", errc::rejected},
        {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist "
         "to disk.",
         errc::rejected},
        {"OOM command not allowed when used memory > 'maxmemory'.", errc::rejected},
        {"NOREPLICAS Not enough good replicas to write.", errc::rejected},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
         errc::rejected},
        {"CLUSTERDOWN Hash slot not served", errc::rejected},
        {"MOVED 3999 127.0.0.1:6381", errc::rejected},
        {"BUSY Redis is busy running a script.", errc::rejected},
        {"ERR max number of clients reached", errc::rejected},
        {"", errc::rejected},
    }};
    for (auto const& [text, code] : table) {
        BOOST_TEST_CONTEXT(text) BOOST_TEST((classify(text) == code));
    }
}

BOOST_AUTO_TEST_CASE(only_the_beginning_of_an_error_says_what_it_is) {
    BOOST_TEST((classify("ERR not WRONGPASS") == errc::rejected));
    BOOST_TEST((classify("ERR value is 'READONLY'") == errc::rejected));
    BOOST_TEST((classify("wrongtype") == errc::rejected));
}

BOOST_AUTO_TEST_CASE(a_secret_is_never_shown) {
    BOOST_TEST(presentable("ERR bad word hunter2", "hunter2") == "ERR bad word ***");
    BOOST_TEST(presentable("hunter2", "hunter2") == "***");
    BOOST_TEST(presentable("hunter2hunter2, hunter2", "hunter2") == "******, ***");
    BOOST_TEST(presentable("ERR hunter", "hunter2") == "ERR hunter");
    // The replacement, "***", contains the secret.
    BOOST_TEST(presentable("a*b", "*") == "a***b");
    BOOST_TEST(presentable("a***b", "**") == "a****b");
    // The secret contains bytes that are not printable.
    BOOST_TEST(presentable(std::string_view("x s\0\r\ne y", 9), std::string_view("s\0\r\ne", 5)) ==
               "x *** y");
}

BOOST_AUTO_TEST_CASE(the_replicas_that_are_online_are_listed_with_their_offsets) {
    auto const of = [](std::string_view replication) {
        return parse_info("redis_version:7.0.15\r\nrole:master\r\n" + std::string(replication));
    };
    BOOST_TEST(!of("").value().replicas.has_value());
    auto const none = of("connected_slaves:0\r\nmaster_repl_offset:42\r\n").value().replicas;
    BOOST_REQUIRE(none.has_value());
    BOOST_TEST(none->offset == 42U);
    BOOST_TEST(none->acknowledged.empty());
    auto const some =
        of("connected_slaves:4\r\n"
           "slave0:ip=127.0.0.1,port=7001,state=online,offset=1234,lag=0,type=replica\r\n"
           "slave1:ip=::1,port=7002,state=wait_bgsave,offset=99,lag=0\r\n"
           "slave2:state=online,io-offset=7,offset=18446744073709551615\r\n"
           "slave3:ip=,port,offset=3,state=online\r\n"
           "master_failover_state:no-failover\r\nmaster_repl_offset:2000\r\n")
            .value()
            .replicas;
    BOOST_REQUIRE(some.has_value());
    BOOST_TEST(some->offset == 2000U);
    BOOST_TEST(some->acknowledged == (std::vector<std::uint64_t>{1234, ~std::uint64_t{0}, 3}),
               boost::test_tools::per_element());
    // A count without the list, and a list that lacks a line.
    auto const short_list =
        of("connected_slaves:1000000000000\r\nslave0:state=online,offset=x\r\n").value().replicas;
    BOOST_REQUIRE(short_list.has_value());
    BOOST_TEST(short_list->acknowledged == (std::vector<std::uint64_t>{0}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(arguments_that_a_server_quotes_are_cut_off) {
    BOOST_TEST(
        presentable("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'pw' ",
                    "") == "ERR unknown command 'HELLO'");
    BOOST_TEST(
        presentable(
            "ERR unknown command `DELEX`, with args beginning with: `key`, `IFEQ`, `token`, ",
            "") == "ERR unknown command `DELEX`");
    BOOST_TEST(presentable("ERR unknown command 'X', with args beginning with: 'hunter2' ",
                           "hunter2") == "ERR unknown command 'X'");
}

BOOST_AUTO_TEST_CASE(a_message_stays_one_line) {
    BOOST_TEST(presentable("ERR one\r\ntwo\tthree\x01", "") == "ERR one  two three ");
    BOOST_TEST(presentable("ERR one\x7f", "") == "ERR one ");
    // So do the controls of C1, and those that turn the order of text around.
    BOOST_TEST(presentable("ERR a\xc2\x9b"
                           "31mb",
                           "") == "ERR a 31mb");
    BOOST_TEST(presentable("ERR a\xe2\x80\xae"
                           "b",
                           "") == "ERR a b");
    BOOST_TEST(presentable("ERR a\xe2\x81\xa6"
                           "b\xe2\x80\xa8"
                           "c\xd8\x9c"
                           "d",
                           "") == "ERR a b c d");
    // Letters beyond ASCII stay unchanged.
    BOOST_TEST(presentable("ERR gr\xc3\xbc\xc3\x9f", "") == "ERR gr\xc3\xbc\xc3\x9f");
}

BOOST_AUTO_TEST_CASE(a_message_is_utf_8) {
    for (std::string const wrong : {"\xff", "gr\xfc\xdf", "\xc0\x80", "\xed\xa0\x80", "cut \xc3"}) {
        auto const shown = presentable(wrong, "");
        BOOST_TEST(shown.size() == wrong.size());
        for (char const c : shown) BOOST_TEST(static_cast<unsigned char>(c) < 0x80);
    }
}

BOOST_AUTO_TEST_CASE(a_long_message_is_cut_after_its_secrets_are_masked) {
    std::string const all(longest_text, 'x');
    BOOST_TEST(presentable(all, "") == all);
    BOOST_TEST(presentable(all + "y", "") == all + "...");
    // The secret would be cut in two.
    auto const beginning = all.substr(0, longest_text - 3);
    BOOST_TEST(presentable(beginning + "hunter2", "hunter2") == beginning + "***");
    // A letter of two bytes is not cut in two.
    auto const letters = all.substr(1) + "\xc3\xbc";
    BOOST_TEST(presentable(letters, "") == all.substr(1) + "...");
}

BOOST_AUTO_TEST_CASE(a_message_without_secrets_is_shown_as_it_is) {
    constexpr std::string_view text = "MISCONF Redis is configured to save RDB snapshots";
    BOOST_TEST(presentable(text, "") == text);
    BOOST_TEST(presentable(text, "hunter2") == text);
    BOOST_TEST(presentable("", "hunter2").empty());
    BOOST_TEST(presentable("", "").empty());
}

BOOST_AUTO_TEST_SUITE_END()
