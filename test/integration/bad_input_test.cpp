// Each wrong input, and each fault of an instance, has an error of its own, at once. It harms no
// vote of another instance.
#include <holdfast/client.hpp>

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/fake_server.hpp"
#include "support/fleet.hpp"
#include "support/proxy.hpp"
#include "support/redis_cli.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view secret = "s3cr3t-Passw0rd-XYZZY";

// `bad` is one instance of three, then two of three, then the only one.
void check_bad_instances(std::vector<address> const& bad, errc reason, std::string_view in_message,
                         client_options const& options = patient()) {
    fleet good(2);
    redis_cli cli(good[0]);
    {
        test_client client({bad[0], good[0].url(), good[1].url()}, options);
        auto [e, l] = client.acquire("k");
        BOOST_TEST(!e, e.what());
        BOOST_TEST(l.held());
        BOOST_TEST(cli.exists("k"));
        BOOST_TEST(client.goes_down(0, reason), client.status(0).message);
        BOOST_TEST(client.status(0).address == bad[0].to_string());
        BOOST_TEST(contains(client.status(0).message, in_message), client.status(0).message);
        BOOST_TEST(client.becomes(1, instance_state::up));
        BOOST_TEST(client.becomes(2, instance_state::up));
        BOOST_TEST(!client.status(1).reason.failed());
        BOOST_TEST(client.status(1).message == "");
        // An instance that is known to be bad delays no acquire.
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees_no_locks(good[0]));
        auto [again, second] = client.acquire("k");
        BOOST_TEST(!again, again.what());
        BOOST_TEST(!client.release(second).code().failed());
    }
    check_nothing_left(good, 5s);
    {
        test_client client({bad[0], bad[1], good[0].url()}, options);
        for (int known = 0; known < 2; ++known) {
            BOOST_TEST_CONTEXT((known != 0 ? "known to be bad" : "new")) {
                auto const [e, l] = client.acquire("k");
                BOOST_TEST((e == reason), e.what());
                BOOST_TEST((e == error_condition::unavailable));
                BOOST_TEST(!l);
                BOOST_REQUIRE(e.report() != nullptr);
                BOOST_TEST(e.report()->quorum == 2U);
                for (std::size_t i = 0; i < 2; ++i) {
                    auto const& told = e.report()->instances.at(i);
                    BOOST_TEST(told.address == bad[i].to_string());
                    BOOST_TEST((told.outcome == instance_outcome::unreachable) ==
                                   (reason == errc::unreachable),
                               e.what());
                    BOOST_TEST((told.outcome == instance_outcome::timed_out) ==
                                   (reason == errc::instance_timeout),
                               e.what());
                    BOOST_TEST(!told.message.empty());
                    BOOST_TEST(contains(e.what(), bad[i].to_string()), e.what());
                }
                BOOST_TEST(client.sees_no_locks(good[0]));
            }
            BOOST_TEST(client.goes_down(0, reason));
            BOOST_TEST(client.goes_down(1, reason));
            BOOST_TEST(client.becomes(2, instance_state::up));
        }
    }
    {
        test_client client({bad[0]}, options);
        auto const [e, l] = client.acquire("k");
        BOOST_TEST((e == reason), e.what());
        BOOST_TEST(contains(e.what(), bad[0].to_string()), e.what());
        BOOST_TEST(contains(e.what(), in_message), e.what());
    }
}

// Answers a probe as a server that can vote, and every other command with the answer of `others`.
fake_server::script voter(fake_server::script others) {
    return [others = std::move(others)](command_line const& words) {
        if (is_command(words, "HELLO"))
            return resp::map(
                {resp::bulk("server"), resp::bulk("redis"), resp::bulk("proto"), resp::integer(3)});
        if (is_command(words, "SCRIPT"))
            return resp::bulk("0123456789012345678901234567890123456789");
        if (is_command(words, "INFO"))
            return resp::bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:fake\r\nrole:master\r\n");
        if (is_command(words, "PING")) return resp::simple("PONG");
        return others(words);
    };
}

template <class Action>
void check_throws(errc code, std::vector<std::string_view> const& parts, Action&& action) {
    try {
        action();
        BOOST_ERROR("nothing was thrown");
    } catch (system_error const& e) {
        BOOST_TEST((e.code() == code), e.what());
        BOOST_TEST((e.code() == error_condition::invalid_argument), e.what());
        for (auto const part : parts)
            BOOST_TEST(contains(e.what(), part),
                       "\"" << e.what() << "\" without \"" << part << '"');
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(bad_input)

BOOST_AUTO_TEST_CASE(a_key_must_be_neither_empty_nor_too_long) {
    server redis;
    redis_cli cli(redis);
    std::string const prefix = "app:";
    auto options = patient();
    options.key_prefix = prefix;
    test_client client({redis.url()}, options);
    check_throws(errc::invalid_key, {"empty"}, [&] { (void)client.locks.make_lock(""); });
    check_throws(errc::invalid_key, {"\"zzz", "1025", "1024"}, [&] {
        (void)client.locks.make_lock(std::string(max_key_size - prefix.size() + 1, 'z'));
    });
    check_throws(errc::invalid_key, {"1000004"},
                 [&] { (void)client.locks.make_lock(std::string(1'000'000, 'z')); });

    std::string const longest(max_key_size - prefix.size(), 'z');
    auto [e, l] = client.acquire(longest);
    BOOST_TEST(!e, e.what());
    BOOST_TEST(cli.exists(prefix + longest));
}

BOOST_AUTO_TEST_CASE(a_ttl_must_be_in_its_range) {
    server redis;
    auto options = patient();
    options.max_ttl = 5s;
    test_client client({redis.url()}, options);
    for (auto const ttl : {0ms, -1ms, -10'000ms, 9ms, 5'001ms, std::chrono::milliseconds::max(),
                           std::chrono::milliseconds::min()}) {
        check_throws(errc::invalid_options, {"ttl", std::to_string(ttl.count()) + " ms", "5000"},
                     [&] { (void)client.locks.make_lock("k", {.ttl = ttl}); });
    }
    // The default is beyond this client's largest.
    check_throws(errc::invalid_options, {"ttl", "10000 ms"},
                 [&] { (void)client.locks.make_lock("k"); });
    BOOST_CHECK_NO_THROW((void)client.locks.make_lock("k", {.ttl = 10ms}));
    BOOST_CHECK_NO_THROW((void)client.locks.make_lock("k", {.ttl = 5s}));
    for (auto const delay : {0ms, -1ms, 60'001ms}) {
        check_throws(
            errc::invalid_options, {"max_retry_delay", std::to_string(delay.count()) + " ms"},
            [&] { (void)client.locks.make_lock("k", {.ttl = 1s, .max_retry_delay = delay}); });
    }
}

BOOST_AUTO_TEST_CASE(a_handover_must_be_in_its_range) {
    server redis;
    test_client client({redis.url()});
    for (auto const limit : {0U, 100U, 65'536U, ~0U}) {
        check_throws(errc::invalid_options, {"handover_limit", std::to_string(limit), "99"},
                     [&] { (void)client.locks.make_lock("k", {.handover_limit = limit}); });
    }
    for (auto const time : {-1ms, 60'001ms, std::chrono::milliseconds::max()}) {
        check_throws(errc::invalid_options,
                     {"handover_time", std::to_string(time.count()) + " ms", "60000"},
                     [&] { (void)client.locks.make_lock("k", {.handover_time = time}); });
    }
    for (auto const time : {-1ms, 60'001ms, std::chrono::milliseconds::max()}) {
        check_throws(errc::invalid_options,
                     {"yield_to_pollers", std::to_string(time.count()) + " ms", "60000"},
                     [&] { (void)client.locks.make_lock("k", {.yield_to_pollers = time}); });
    }
    BOOST_CHECK_NO_THROW((void)client.locks.make_lock("k", {.yield_to_pollers = 60s}));
    check_throws(errc::invalid_options, {"fair", "yield_to_pollers is 5 ms"}, [&] {
        (void)client.locks.make_lock("k", {.fair = true, .yield_to_pollers = 5ms});
    });
    BOOST_CHECK_NO_THROW(
        (void)client.locks.make_lock("k", {.handover_limit = 1, .handover_time = 0ms}));
    BOOST_CHECK_NO_THROW((void)client.locks.make_lock(
        "k", {.handover_limit = max_handover_limit, .handover_time = 60s}));
}

BOOST_AUTO_TEST_CASE(each_client_option_must_be_in_its_range) {
    struct mistake {
        char const* name;
        std::string value;
        std::function<void(client_options&)> make;
    };
    std::vector<mistake> mistakes;
    auto const add_times = [&](char const* name, std::chrono::milliseconds client_options::*member,
                               std::vector<std::chrono::milliseconds> const& values) {
        for (auto const v : values)
            mistakes.push_back({name, std::to_string(v.count()) + " ms",
                                [member, v](client_options& o) { o.*member = v; }});
    };
    auto const longest = std::chrono::milliseconds::max();
    add_times("instance_timeout", &client_options::instance_timeout,
              {0ms, -1ms, 60'001ms, longest});
    add_times("connect_timeout", &client_options::connect_timeout, {0ms, -1ms, 60'001ms, longest});
    add_times("max_reconnect_delay", &client_options::max_reconnect_delay,
              {0ms, -1ms, 60'001ms, longest});
    add_times("max_ttl", &client_options::max_ttl, {0ms, -1ms, 9ms, 86'400'001ms, longest});
    mistakes.push_back({"replicas", "33", [](client_options& o) { o.replicas = 33; }});
    mistakes.push_back(
        {"max_pending_releases", "0", [](client_options& o) { o.max_pending_releases = 0; }});
    std::string const prefix(max_key_size, 'p');
    mistakes.push_back({"key_prefix", "1024", [&](client_options& o) { o.key_prefix = prefix; }});
    for (std::string const& bytes : {std::string("app\0:", 5), std::string("app\n:"),
                                     std::string("app\x1b:"), std::string("app\x7f:")})
        mistakes.push_back({"key_prefix",
                            "\"app?:\"; it has the control byte " +
                                std::to_string(static_cast<int>(bytes[3])) + " at offset 3",
                            [bytes](client_options& o) { o.key_prefix = bytes; }});
    for (std::string const name : {"", "two words", "line\nfeed", "caf\xc3\xa9", "del\x7f"}) {
        auto shown = name;
        std::replace(shown.begin(), shown.end(), '\n', '?');
        std::replace(shown.begin(), shown.end(), '\x7f', '?');
        mistakes.push_back({"connection_name", '"' + shown + '"',
                            [name](client_options& o) { o.connection_name = name; }});
    }
    std::string const long_name(max_connection_name_size + 1, 'n');
    mistakes.push_back(
        {"connection_name", "256", [&](client_options& o) { o.connection_name = long_name; }});
    std::string const label(max_label_size + 1, 'l');
    // A colon ends the label in a token.
    for (std::string_view const bad : {std::string_view(label), std::string_view("two words"),
                                       std::string_view("a:b"), std::string_view("caf\xc3\xa9")})
        mistakes.push_back({"holder_label", std::string(bad.substr(0, max_label_size)),
                            [bad](client_options& o) { o.holder_label = bad; }});

    asio::io_context context;
    for (auto const& m : mistakes) {
        BOOST_TEST_CONTEXT(m.name << " = " << m.value) {
            client_options options;
            m.make(options);
            check_throws(errc::invalid_options, {m.name, m.value}, [&] {
                client(context.get_executor(), {address("127.0.0.1:1")}, options);
            });
        }
    }
    client_options least{.max_ttl = min_ttl,
                         .instance_timeout = 1ms,
                         .connect_timeout = 1ms,
                         .max_reconnect_delay = 1ms,
                         .max_pending_releases = 1};
    BOOST_CHECK_NO_THROW(client(context.get_executor(), {address("127.0.0.1:1")}, least));
    std::string_view const longest_label(label.data(), max_label_size);
    client_options most{.max_ttl = 24h,
                        .holder_label = longest_label,
                        .instance_timeout = 60s,
                        .connect_timeout = 60s,
                        .max_reconnect_delay = 60s};
    BOOST_CHECK_NO_THROW(client(context.get_executor(), {address("127.0.0.1:1")}, most));
}

BOOST_AUTO_TEST_CASE(there_must_be_1_to_32_instances) {
    asio::io_context context;
    auto const make = [&](std::size_t count) {
        std::vector<address> all;
        for (std::size_t i = 0; i < count; ++i)
            all.emplace_back("127.0.0.1:" + std::to_string(1 + i));
        client(context.get_executor(), all);
    };
    check_throws(errc::invalid_options, {"no instances"}, [&] { make(0); });
    check_throws(errc::invalid_options, {"33", "32"}, [&] { make(33); });
    BOOST_CHECK_NO_THROW(make(32));
}

BOOST_AUTO_TEST_CASE(an_instance_must_not_be_given_twice) {
    asio::io_context context;
    struct twins {
        char const *first, *second, *name;
    };
    for (auto const& t :
         {twins{"10.0.0.1:7001", "10.0.0.1:7001", "10.0.0.1:7001"},
          twins{"redis.example", "redis.example:6379", "redis.example:6379"},
          twins{"Redis.Example:1", "redis.eXample:1", "redis.example:1"},
          twins{"redis://app:pw-one@h:1/0", "redis://:pw-two@h:1/3", "h:1"},
          twins{"unix:/run/redis.sock", "unix:///run/redis.sock", "unix:/run/redis.sock"},
          twins{"[::1]:7001", "redis://[::1]:7001", "[::1]:7001"}}) {
        BOOST_TEST_CONTEXT(t.first << " and " << t.second) {
            std::vector<address> const all{t.first, "10.0.0.9:1", t.second};
            check_throws(errc::invalid_address, {t.name, "twice"},
                         [&] { client(context.get_executor(), all); });
            try {
                client(context.get_executor(), all);
            } catch (system_error const& e) {
                BOOST_TEST(!contains(e.what(), "pw-"));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(an_address_must_be_one) {
    for (std::string const text : {"",
                                   ":6379",
                                   "host:",
                                   "host:0",
                                   "host:65536",
                                   "host:-1",
                                   "host:abc",
                                   "host:1:2",
                                   "[::1",
                                   "::1",
                                   "two words",
                                   "unix:",
                                   "unix:relative/path",
                                   "http://host:1",
                                   "rediss://host:0",
                                   "redis://",
                                   "redis://host/abc",
                                   "redis://host/-1",
                                   "redis://host/1/2",
                                   "redis://host/99999999999",
                                   "redis://host/0?x=1",
                                   "redis://host/0#f",
                                   "redis://user@host:1",
                                   "host%zz:1"}) {
        BOOST_TEST_CONTEXT('"' << text << '"') {
            // The user and the query are masked, and a port that is no number: it may be a
            // password.
            auto const at = text.find('@');
            auto const query = text.find('?');
            auto const port = text == "host:abc" || text == "host:-1";
            auto const shown = at != text.npos      ? text.substr(at) + '"'
                               : query != text.npos ? '"' + text.substr(0, query)
                               : port               ? std::string("\"host:***\"")
                                                    : '"' + text + '"';
            check_throws(errc::invalid_address, {shown}, [&] { address{text}; });
        }
    }
    check_throws(errc::invalid_address, {}, [] { address{std::string_view("ho\0st:1", 7)}; });
    // The wrong part may stand beside a password.
    for (std::string const form :
         {"redis://app:*@host:99999", "app:*@host:abc", "redis://app:*@", "rediss://app:*@host:0",
          "redis://app:*@host/x@y", "redis://app:*@ho st:1", "redis://host:1/0?password=*",
          "redis://app:?*@host:99999", "redis://app:*?@host:99999",
          "redis://host:1/0?password=x@*"}) {
        auto text = form;
        text.replace(text.find('*'), 1, secret);
        BOOST_TEST_CONTEXT(form) {
            try {
                address{text};
                BOOST_ERROR("nothing was thrown");
            } catch (system_error const& e) {
                BOOST_TEST((e.code() == errc::invalid_address));
                BOOST_TEST(!contains(e.what(), secret), e.what());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_password_is_access_denied) {
    server_options options;
    options.arguments = {"--requirepass", "right"};
    fleet locked(2, options);
    auto const with = [&](std::string const& credentials) {
        std::vector<address> all;
        for (auto const& a : locked.addresses())
            all.emplace_back("redis://" + credentials + "@" + a);
        return all;
    };
    check_bad_instances(with(":wrong"), errc::access_denied, "WRONGPASS");
    check_bad_instances(with("nobody:right"), errc::access_denied, "WRONGPASS");
    check_bad_instances({locked[0].address(), locked[1].address()}, errc::access_denied, "NOAUTH");

    redis_cli cli(locked[0], "right");
    for (auto const& all : {with(":right"), with("default:right")}) {
        test_client client(all);
        auto [e, l] = client.acquire("k");
        BOOST_TEST(!e, e.what());
        BOOST_TEST(cli.exists("k"));
        BOOST_TEST(!client.release(l).code().failed());
    }
}

BOOST_AUTO_TEST_CASE(a_password_may_hold_special_characters) {
    server_options options;
    options.arguments = {"--requirepass", "a b/c:d@e%f"};
    server redis(options);
    test_client client({address("redis://:a%20b%2Fc%3Ad%40e%25f@" + redis.address())});
    auto [e, l] = client.acquire("k");
    BOOST_TEST(!e, e.what());
}

BOOST_AUTO_TEST_CASE(a_user_without_any_permission_is_access_denied) {
    fleet servers(2);
    std::vector<address> all;
    for (server& instance : servers) {
        BOOST_TEST(redis_cli(instance)
                       .command({"ACL", "SETUSER", "guest", "on", ">pw", "~*", "-@all"})
                       .is_ok());
        all.emplace_back("redis://guest:pw@" + instance.address());
    }
    check_bad_instances(all, errc::access_denied, "NOPERM");
}

BOOST_AUTO_TEST_CASE(a_user_who_may_not_lock_is_access_denied) {
    fleet servers(3);
    std::vector<address> all;
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_TEST(
            cli.command({"ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@all", "-set"}).is_ok());
        BOOST_TEST(
            cli.command({"ACL", "SETUSER", "other", "on", ">pw", "~other:*", "+@all"}).is_ok());
    }
    for (std::string const user : {"reader", "other"}) {
        BOOST_TEST_CONTEXT(user) {
            auto const as = [&](std::size_t i) {
                return address("redis://" + user + ":pw@" + servers[i].address());
            };
            {
                test_client client({as(0), servers[1].url(), servers[2].url()});
                BOOST_TEST(client.becomes(0, instance_state::up));
                auto [e, l] = client.acquire("k");
                BOOST_TEST(!e, e.what());
                BOOST_TEST(!client.release(l).code().failed());
            }
            test_client client({as(0), as(1), servers[2].url()});
            auto [e, l] = client.acquire("k");
            BOOST_TEST((e == errc::access_denied), e.what());
            BOOST_REQUIRE(e.report() != nullptr);
            BOOST_TEST((e.report()->instances.at(0).outcome == instance_outcome::rejected));
            BOOST_TEST(contains(e.report()->instances.at(0).message, "NOPERM"), e.what());
            BOOST_TEST(client.sees_no_locks(servers[2]));
            if (user == "other") {
                auto [none, allowed] = client.acquire("other:k");
                BOOST_TEST(!none, none.what());
                BOOST_TEST(!client.release(allowed).code().failed());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_is_no_redis_says_so) {
    for (auto const how : {behaviour::garbage, behaviour::http, behaviour::huge_bulk}) {
        BOOST_TEST_CONTEXT(how) {
            fake_server first(how);
            fake_server second(how);
            check_bad_instances({first.address(), second.address()}, errc::not_redis, "");
        }
    }
}

BOOST_AUTO_TEST_CASE(what_closes_or_refuses_is_unreachable) {
    for (auto const how : {behaviour::closes, behaviour::closes_mid_reply, behaviour::refused}) {
        BOOST_TEST_CONTEXT(how) {
            fake_server first(how);
            fake_server second(how);
            check_bad_instances({first.address(), second.address()}, errc::unreachable,
                                how == behaviour::refused ? "refused" : "");
        }
    }
}

BOOST_AUTO_TEST_CASE(a_name_or_a_socket_that_does_not_exist_is_unreachable) {
    check_bad_instances({"unix:/does/not/exist.sock", "unix:/does/not/exist-either.sock"},
                        errc::unreachable, "");
    check_bad_instances({"no-such-host.invalid:1", "no-such-host-either.invalid:1"},
                        errc::unreachable, "");
}

BOOST_AUTO_TEST_CASE(what_is_silent_has_timed_out) {
    fake_server first(behaviour::silent);
    fake_server second(behaviour::silent);
    check_bad_instances({first.address(), second.address()}, errc::instance_timeout, "", hasty());
}

BOOST_AUTO_TEST_CASE(a_server_from_before_resp3_is_not_redis_as_we_need_it) {
    auto const old = [](command_line const& words) {
        return resp::error("ERR unknown command `" + words.front() +
                           "`, with args beginning with: `3`, ");
    };
    fake_server first(old);
    fake_server second(old);
    check_bad_instances({first.address(), second.address()}, errc::not_redis,
                        "unknown command `HELLO`");
}

BOOST_AUTO_TEST_CASE(a_replica_is_read_only) {
    server primary;
    server_options options;
    options.arguments = {"--replicaof", "127.0.0.1", std::to_string(primary.port())};
    fleet replicas(2, options);
    check_bad_instances({replicas[0].url(), replicas[1].url()}, errc::read_only, "replica");
}

BOOST_AUTO_TEST_CASE(a_primary_that_becomes_a_replica_is_read_only_until_it_is_one_again) {
    server primary;
    server redis;
    redis_cli cli(redis);
    test_client client({redis.url()}, trusting(patient()));
    auto [before, first] = client.acquire("a");
    BOOST_TEST(!before, before.what());
    cli.command({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    auto [e, l] = client.acquire("b");
    BOOST_TEST((e == errc::read_only), e.what());
    BOOST_TEST(contains(e.what(), redis.shown()), e.what());
    BOOST_TEST(client.goes_down(0, errc::read_only));
    cli.command({"REPLICAOF", "NO", "ONE"});
    BOOST_TEST(client.becomes(0, instance_state::up));
    auto [after, second] = client.acquire("b");
    BOOST_TEST(!after, after.what());
}

BOOST_AUTO_TEST_CASE(rubbish_instead_of_a_vote_is_not_redis) {
    for (std::string const& rubbish :
         {resp::integer(7), resp::integer(-1), resp::simple("QUEUED"), resp::simple(""),
          resp::bulk("OK"), resp::bulk(std::string("\0\xff", 2)), resp::array({resp::simple("OK")}),
          resp::array({}), resp::array({resp::array({resp::integer(1)}), resp::nil()}),
          resp::map({resp::bulk("a"), resp::integer(1)}), std::string("\x01 no RESP at all\r\n"),
          std::string("#t\r\n"), std::string(",1.5\r\n"), std::string("$-7\r\n"),
          std::string("*-5\r\n")}) {
        BOOST_TEST_CONTEXT(rubbish) {
            fake_server fake(voter([&](command_line const& words) {
                return is_command(words, "SET") ? rubbish : resp::integer(0);
            }));
            fleet good(2);
            {
                test_client client({fake.address(), good[0].url(), good[1].url()});
                BOOST_TEST(client.becomes(0, instance_state::up));
                auto [e, l] = client.acquire("k");
                BOOST_TEST(!e, e.what());
                // It is thrown out; it may be back already, as its probe is in order.
                BOOST_TEST(client.until([&] {
                    auto const s = client.status(0);
                    return s.connections > 1 ||
                           (s.reason == make_error_code(errc::not_redis) && s.message != "");
                }));
                BOOST_TEST(!client.release(l).code().failed());
                BOOST_TEST(client.becomes(1, instance_state::up));
                BOOST_TEST(client.becomes(2, instance_state::up));
                BOOST_TEST(client.status(1).connections == 1U);
            }
            test_client client({fake.address()});
            BOOST_TEST(client.becomes(0, instance_state::up));
            auto [e, l] = client.acquire("k");
            BOOST_TEST((e == errc::not_redis), e.what());
            BOOST_TEST(contains(e.what(), fake.address()), e.what());
            BOOST_REQUIRE(e.report() != nullptr);
            BOOST_TEST(!e.report()->instances.at(0).message.empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(an_error_instead_of_a_vote_is_quoted) {
    struct told {
        std::string bytes;
        errc code;
        std::string quoted;
    };
    for (auto const& t :
         {told{resp::error("OOM command not allowed when used memory > 'maxmemory'."),
               errc::rejected, "OOM"},
          told{resp::error("MISCONF Errors writing to the AOF file"), errc::rejected,
               "MISCONF Errors writing"},
          told{resp::error("LOADING the dataset in memory"), errc::rejected, "LOADING"},
          told{resp::error(""), errc::rejected, ""},
          told{resp::error("NOPERM no permissions"), errc::access_denied, "NOPERM"},
          told{resp::error("WRONGTYPE of value"), errc::wrong_type, "WRONGTYPE"},
          told{resp::error("READONLY replica"), errc::read_only, "READONLY"},
          told{resp::error("NOSCRIPT to a SET"), errc::rejected, "NOSCRIPT"},
          told{"!23\r\nERR two\r\nlines\x1b[31m red\r\n", errc::rejected, "ERR two"}}) {
        BOOST_TEST_CONTEXT(t.bytes) {
            fake_server fake(voter([&](command_line const& words) {
                return is_command(words, "SET") ? t.bytes : resp::integer(0);
            }));
            fleet good(2);
            {
                test_client client({fake.address(), good[0].url(), good[1].url()});
                BOOST_TEST(client.becomes(0, instance_state::up));
                auto [e, l] = client.acquire("k");
                BOOST_TEST(!e, e.what());
                BOOST_TEST(run_until(client.context, [&] { return fake.count("SET") > 0; }));
                BOOST_TEST(!client.release(l).code().failed());
            }
            test_client client({fake.address()});
            BOOST_TEST(client.becomes(0, instance_state::up));
            auto [e, l] = client.acquire("k");
            BOOST_TEST((e == t.code), e.what());
            BOOST_TEST(contains(e.what(), t.quoted), e.what());
            BOOST_TEST(contains(e.what(), fake.address()), e.what());
            for (char const c : e.what()) BOOST_TEST((c < 0 || c >= ' '), "not one readable line");
            BOOST_REQUIRE(e.report() != nullptr);
            BOOST_TEST((e.report()->instances.at(0).outcome == instance_outcome::rejected));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_is_left_alone) {
    fleet servers(3);
    for (server& instance : servers)
        redis_cli(instance).command({"HSET", "hash", "field", "value"});
    redis_cli(servers[0]).command({"HSET", "on one", "field", "value"});
    test_client client(addresses_of(servers));
    auto const [e, none] = client.acquire("hash");
    BOOST_TEST((e == errc::wrong_type), e.what());
    BOOST_TEST(contains(e.what(), "hash"), e.what());
    for (server& instance : servers) BOOST_TEST(contains(e.what(), instance.shown()), e.what());
    auto const [once, nothing] = client.try_acquire("hash");
    BOOST_TEST((once == errc::wrong_type), once.what());
    for (server& instance : servers)
        BOOST_TEST(redis_cli(instance).command({"HGET", "hash", "field"}).string() == "value");

    auto [good, l] = client.acquire("on one");
    BOOST_TEST(!good, good.what());
    BOOST_TEST(!client.release(l).code().failed());
    BOOST_TEST(redis_cli(servers[0]).command({"HGET", "on one", "field"}).string() == "value");
    for (std::size_t i : {1U, 2U}) {
        redis_cli cli(servers[i]);
        BOOST_TEST(run_until(client.context, [&] { return !cli.exists("on one"); }));
    }
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_is_known_as_such_though_answers_are_late) {
    fleet servers(3);
    for (server& instance : servers)
        redis_cli(instance).command({"HSET", "hash", "field", "value"});
    proxy_group proxies(servers);
    test_client client(proxies.addresses());
    BOOST_REQUIRE(client.all_up());
    for (int i = 0; i < 20; ++i) { // it learns how long answers usually take
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
    }
    for (auto& proxy : proxies.all) proxy.delay_replies(60ms);
    auto const before = client.locks.stats().rounds;
    auto const [late, none] = client.acquire("hash");
    BOOST_TEST((late == errc::wrong_type), late.what());
    BOOST_TEST(client.locks.stats().rounds == before + 1);
}

BOOST_AUTO_TEST_CASE(a_key_that_never_expires_is_told_of) {
    fleet servers(3);
    for (server& instance : servers) redis_cli(instance).set("k", "left over");
    test_client client(addresses_of(servers));
    auto const [e, l] = client.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(contains(e.what(), "never expires"), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    auto told = 0;
    for (auto const& i : e.report()->instances) {
        if (i.outcome != instance_outcome::held) continue;
        if (i.ttl_known) ++told;
        BOOST_TEST(!i.ttl_left.has_value());
    }
    BOOST_TEST(told >= 1); // an answer that is late is not in the report
    for (server& instance : servers) {
        BOOST_TEST(redis_cli(instance).get("k").value() == "left over");
        redis_cli(instance).set("k", "left over", 60s);
    }
    auto const [expires, nothing] = client.try_acquire("k");
    BOOST_TEST((expires == errc::contended));
    BOOST_TEST(!contains(expires.what(), "never expires"), expires.what());
    BOOST_TEST(contains(expires.what(), " s left"), expires.what());
}

BOOST_AUTO_TEST_CASE(any_bytes_make_a_key) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    test_client client(addresses_of(servers));
    test_client other(addresses_of(servers));
    std::vector<std::string> keys{std::string("a\0b", 3),
                                  std::string("\0", 1),
                                  "line\r\nfeed",
                                  " ",
                                  "a b",
                                  "$3\r\nSET\r\n",
                                  "\"quoted\\\"",
                                  "*",
                                  "{tag}",
                                  "\xff\xfe\x80"};
    std::string every;
    for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
    keys.push_back(every);
    for (auto const& key : keys) {
        BOOST_TEST_CONTEXT("key " << key.size() << ' ' << key) {
            auto [e, l] = client.acquire(key);
            BOOST_TEST(!e, e.what());
            BOOST_TEST(l.key() == key);
            BOOST_TEST(run_until(client.context, [&] { return cli.exists(key); }));
            BOOST_TEST(cli.dbsize() == 1);
            auto const [refused, none] = other.try_acquire(key);
            BOOST_TEST((refused == errc::contended), refused.what());
            BOOST_TEST(!contains(refused.what(), "\n"));
            BOOST_TEST(!contains(refused.what(), std::string_view("\0", 1)));
            BOOST_TEST(!client.release(l).code().failed());
            BOOST_TEST(client.sees_no_locks(servers[0]));
        }
    }
}

BOOST_AUTO_TEST_CASE(one_server_by_two_names_votes_once) {
    fleet servers(2);
    address const by_number(servers[0].url());
    address const by_name("unix:" + servers[0].unix_socket());
    auto const duplicates = [](test_client const& client) {
        auto count = 0;
        for (auto const& s : client.locks.instances())
            if (s.reason == make_error_code(errc::duplicate_instance)) ++count;
        return count;
    };
    {
        test_client client({by_number, by_name, servers[1].url()});
        auto [e, l] = client.acquire("k");
        BOOST_TEST(!e, e.what());
        BOOST_TEST(run_until(client.context, [&] { return duplicates(client) == 1; }));
        auto const all = client.locks.instances();
        auto const& twin = all[all[0].state == instance_state::up ? 1 : 0];
        BOOST_TEST((twin.state == instance_state::down));
        BOOST_TEST(contains(twin.message, "same server"), twin.message);
        BOOST_TEST((all[0].state == instance_state::up) != (all[1].state == instance_state::up));
        BOOST_TEST((all[2].state == instance_state::up));
        BOOST_TEST(!client.release(l).code().failed());
        BOOST_TEST(client.sees_no_locks(servers[0]));
    }
    test_client client({by_number, by_name});
    auto const [e, l] = client.acquire("k");
    BOOST_TEST((e == errc::duplicate_instance), e.what());
    BOOST_TEST(duplicates(client) == 1);
    BOOST_TEST(client.sees_no_locks(servers[0]));
}

BOOST_AUTO_TEST_CASE(one_server_by_two_names_votes_once_also_after_a_silence) {
    server redis;
    proxy first(redis);
    proxy second(redis);
    second.down();
    auto options = patient();
    options.instance_timeout = 250ms; // times 4 before a silent connection is given up
    test_client client({first.url(), second.url()}, options);
    auto const up = [&] {
        auto count = 0;
        for (auto const& s : client.locks.instances())
            if (s.state == instance_state::up) ++count;
        return count;
    };
    BOOST_REQUIRE(client.becomes(0, instance_state::up));
    second.up();
    BOOST_REQUIRE(client.goes_down(1, errc::duplicate_instance));
    first.hold_replies();
    // It does not answer the next PING in time.
    BOOST_REQUIRE(run_until(client.context,
                            [&] { return client.status(0).state == instance_state::suspect; }));
    // The second tries again and again. It may be let in now, but then the first must be kept out.
    auto const tries = second.accepted();
    BOOST_REQUIRE(run_until(client.context, [&] {
        return second.accepted() > tries + 1 || client.status(1).state == instance_state::up;
    }));
    first.resume();
    auto both_counted = false;
    auto const saw_both = [&] { return both_counted = both_counted || up() == 2; };
    BOOST_TEST(run_until(client.context, [&] {
        return saw_both() || client.status(0).state != instance_state::suspect;
    }));
    auto const later = second.accepted() + first.accepted();
    (void)run_until(
        client.context, [&] { return saw_both() || second.accepted() + first.accepted() > later; },
        2s);
    BOOST_TEST(!both_counted, "one server is counted as two instances");
}

// Passwords and tokens

BOOST_AUTO_TEST_CASE(passwords_are_never_shown) {
    std::string const password(secret);
    // Each command is answered with an error that repeats all of it.
    auto const echo = [](command_line const& words) {
        std::string text = "ERR no: ";
        for (auto const& w : words) text += '\'' + w + "' ";
        return text;
    };
    struct hostile {
        char const* name;
        fake_server::script answers;
    };
    std::vector<hostile> const all{
        {"probe", [&](command_line const& words) { return resp::error(echo(words)); }},
        {"auth",
         [&](command_line const& words) { return resp::error("WRONGPASS " + echo(words)); }},
        {"server quotes",
         [&](command_line const& words) {
             return resp::error("ERR unknown command '" + words[0] +
                                "', with args beginning with: " + echo(words));
         }},
        {"votes", voter([&](command_line const& words) {
             return resp::error("ERR " + echo(words) + std::string(secret));
         })},
        {"replica", voter([&](command_line const& words) {
             return resp::error("READONLY " + echo(words) + std::string(secret));
         })},
    };
    for (auto const& h : all) {
        BOOST_TEST_CONTEXT(h.name) {
            fake_server fake(h.answers);
            test_client client({address("redis://app:" + password + "@" + fake.address())});
            std::vector<std::string> tokens;
            auto const check = [&](std::string const& text) {
                BOOST_TEST(!contains(text, secret), text);
                for (auto const& t : tokens) BOOST_TEST(!contains(text, t), text);
            };
            for (int i = 0; i < 3; ++i) {
                std::set<std::string> seen; // also states that last a moment only
                auto done = false;
                error e;
                client.locks.make_lock("k", impatient({})).acquire([&](error got, lease) {
                    e = std::move(got);
                    done = true;
                });
                BOOST_REQUIRE(run_until(client.context, [&] {
                    seen.insert(client.status(0).message);
                    return done;
                }));
                BOOST_TEST(static_cast<bool>(e));
                auto const until = std::chrono::steady_clock::now() + 100ms;
                (void)run_until(client.context, [&] {
                    seen.insert(client.status(0).message);
                    return std::chrono::steady_clock::now() > until;
                });
                for (auto const& words : fake.commands())
                    if (is_command(words, "SET")) tokens.push_back(words.at(2));
                check(e.what());
                BOOST_REQUIRE(e.report() != nullptr);
                check(e.report()->to_string());
                for (auto const& told : e.report()->instances) {
                    check(told.message);
                    check(told.address);
                }
                for (auto const& s : seen) check(s);
                check(client.status(0).address);
                try {
                    throw_error(e);
                } catch (system_error const& thrown) {
                    check(thrown.what());
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_hostile_answer_to_an_inspection_shows_nothing_secret) {
    std::atomic<int> asked = 0;
    std::string token;
    fake_server fake(voter([&](command_line const& words) {
        if (is_command(words, "SET")) {
            token = words.at(2);
            return resp::null();
        }
        if (is_command(words, "PTTL")) return resp::integer(1000);
        if (is_command(words, "TYPE")) {
            ++asked;
            return resp::simple(token + ' ' + std::string(secret));
        }
        return resp::integer(0);
    }));
    test_client client({address("redis://:" + std::string(secret) + "@" + fake.address())});
    auto const [e, l] = client.acquire("k");
    BOOST_TEST((e == errc::wrong_type), e.what());
    BOOST_TEST(asked == 1);
    BOOST_TEST(!token.empty());
    BOOST_TEST(!contains(e.what(), token), e.what());
    BOOST_TEST(!contains(e.what(), secret), e.what());
}

BOOST_AUTO_TEST_SUITE_END()
