// The instance for unit tests answers as real servers do: the same commands, scripts and calls of a
// client get the same results on both.
#include <holdfast/client.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/testing/instance.hpp>

#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/permit_scripts.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

bool is_exact(server_kind const& kind) {
    return kind.name == "redis-7.0";
}

std::string text_of(reply const& r) {
    std::ostringstream out;
    out << r;
    return out.str();
}

/// A real server and an embedded one, each with one client.
struct pair_of_servers {
    explicit pair_of_servers(server_kind const& its_kind)
        : kind(its_kind)
        , redis({.kind = its_kind})
        , real(redis)
        , ours(embedded.address().port()) {}

    /// Whether both replies are the same, but for the time that has passed between the two. The
    /// texts of errors are those of Redis 7.0; other servers have the same first word.
    bool agree(command_line const& words, reply const& a, reply const& b) const {
        if (a.is_error() && b.is_error() && !is_exact(kind)) {
            auto const word = [](std::string const& t) { return t.substr(0, t.find(' ')); };
            return word(a.error()) == word(b.error());
        }
        // An inspection of several keys, with a time to live.
        if (words.front().starts_with("EVAL") && a.is_array() && b.is_array()) {
            return std::ranges::equal(
                a.elements(), b.elements(),
                [&](auto const& x, auto const& y) { return agree({"PTTL"}, x, y); });
        }
        if (!a.is_integer() || !b.is_integer()) return a == b;
        // A negative number is the refusal of a fair lock, and holds a time to live.
        auto const is_time = words.front() == "PTTL" || a.integer() < 0;
        auto const difference = a.integer() - b.integer();
        constexpr std::int64_t shortest = 50'000, slack = 5'000;
        if (is_time && std::abs(a.integer()) > shortest) return std::abs(difference) < slack;
        return a == b;
    }
    reply same(command_line const& words) { return all_same({words}).front(); }
    /// All are sent at once.
    std::vector<reply> all_same(std::vector<command_line> const& lines) {
        auto const theirs = real.commands(lines), its = ours.commands(lines);
        for (std::size_t i = 0; i < lines.size(); ++i) {
            std::ostringstream line;
            for (auto const& word : lines[i]) line << word.substr(0, 60) << '|';
            auto const as_expected = agree(lines[i], theirs[i], its[i]);
            failed = failed || !as_expected;
            BOOST_TEST(as_expected, line.str()
                                        << "\n  server: " << theirs[i] << "\n  ours:   " << its[i]);
        }
        return theirs;
    }
    /// What is at these keys is the same on both.
    void same_keys(std::vector<std::string> const& keys) {
        std::vector<command_line> times, kinds{{"DBSIZE"}};
        for (auto const& key : keys) {
            times.push_back({"PTTL", key});
            kinds.push_back({"PTTL", key});
            kinds.push_back({"TYPE", key});
        }
        // A key that lives for a moment is there on one of them, and gone on the other.
        BOOST_REQUIRE(wait_until([&] {
            auto const leaves = [&](redis_cli& cli) {
                return std::ranges::any_of(cli.commands(times), [](reply const& left) {
                    return left.integer() >= 0 && left.integer() < 50;
                });
            };
            return !leaves(real) && !leaves(ours);
        }));
        auto const found = all_same(kinds);
        std::vector<command_line> contents;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            auto const type = found[2 + 2 * i].string();
            if (type == "string") contents.push_back({"GET", keys[i]});
            if (type == "zset") same_members(keys[i]);
            if (type == "list") same_elements(keys[i]);
        }
        if (!contents.empty()) all_same(contents);
    }
    void same_elements(std::string const& key) {
        constexpr auto at_once = 8;
        for (auto from = 0;; from += at_once) {
            std::vector<command_line> elements;
            for (auto i = from; i < from + at_once; ++i)
                elements.push_back({"LINDEX", key, std::to_string(i)});
            if (all_same(elements).back().is_nil()) return;
        }
    }
    /// The scores are the same, or times that differ by no more than the two have been asked apart.
    void same_members(std::string const& key) {
        auto const all = [&](redis_cli& cli) {
            std::vector<std::pair<std::string, double>> found;
            auto const r = cli.command({"ZRANGE", key, "0", "-1", "WITHSCORES"});
            for (std::size_t i = 0; i + 1 < r.elements().size(); i += 2)
                found.emplace_back(r.elements()[i].string(),
                                   std::stod(r.elements()[i + 1].string()));
            std::ranges::sort(found);
            return found;
        };
        auto const theirs = all(real), its = all(ours);
        constexpr double slack = 5'000;
        auto const agree = std::ranges::equal(theirs, its, [&](auto const& a, auto const& b) {
            return a.first == b.first &&
                   (a.second == b.second || std::abs(a.second - b.second) < slack);
        });
        failed = failed || !agree;
        BOOST_TEST(agree, key);
    }
    server_kind kind;
    server redis;
    testing::instance embedded;
    redis_cli real, ours;
    bool failed = false; ///< later steps of this sequence would differ as well
};

/// All keys that SCAN finds with these options, from the first cursor to the last.
std::vector<std::string> scanned(redis_cli& cli, command_line const& options) {
    std::set<std::string> all;
    std::string cursor = "0";
    do {
        command_line words{"SCAN", cursor};
        words.insert(words.end(), options.begin(), options.end());
        auto const r = cli.command(words);
        BOOST_REQUIRE_MESSAGE(r.is_array(), text_of(r));
        cursor = r.elements().at(0).string();
        for (reply const& key : r.elements().at(1).elements()) all.insert(key.string());
    } while (cursor != "0");
    return {all.begin(), all.end()};
}

template <class Test>
void beside_each_kind(Test test) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    for (auto const& kind : kinds) {
        BOOST_TEST_CONTEXT(kind.name) {
            pair_of_servers both(kind);
            test(both);
        }
    }
}

/// Runs `test` with many seeds, up to the first one that fails.
template <class Test>
void with_seeds(pair_of_servers& both, std::uint64_t count, Test test) {
    for (std::uint64_t seed = 1; seed <= count && !both.failed; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) {
            std::mt19937_64 random(seed);
            test(random);
        }
    }
}

struct chooser {
    std::mt19937_64& random;

    std::size_t below(std::size_t n) { return random() % n; }
    std::string const& of(std::vector<std::string> const& all) { return all[below(all.size())]; }
};

/// Calls `step(choose)` so many times for each seed, up to the first one that fails.
template <class Step>
void with_steps(pair_of_servers& both, std::uint64_t seeds, int steps, Step step) {
    with_seeds(both, seeds, [&](std::mt19937_64& random) {
        chooser choose{random};
        both.same({"FLUSHALL"});
        for (auto i = 0; i < steps && !both.failed; ++i) step(choose);
    });
}

std::vector<std::string> const odd_numbers{"0",
                                           "-5",
                                           "abc",
                                           "",
                                           "1e6",
                                           " 100000 ",
                                           "0x186A0",
                                           "100000.5",
                                           "+100000",
                                           "0100000",
                                           "-0",
                                           "inf",
                                           "nan",
                                           "1e400",
                                           "-1e-400",
                                           ".5",
                                           "5.",
                                           "0x",
                                           "--5",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "9223372036854775808",
                                           "90071992547406",
                                           "90071992547407",
                                           "90071992547408"};

/// A time to live that does not end during the test.
std::string long_ttl(chooser& choose) {
    return std::to_string(100'000 * (1 + choose.below(9)));
}
/// The same, and now and then what is none.
std::string some_ttl(chooser& choose) {
    return choose.below(12) == 0 ? choose.of(odd_numbers) : long_ttl(choose);
}

/// The number that a fence has at this time.
std::string of_clock(std::time_t ahead) {
    return std::to_string((std::time(nullptr) + ahead) * 10'000);
}
/// Near a counter, far from it, and far from the clock on both sides.
std::vector<std::string> some_numbers() {
    return {"1", "2", "7", "50", "400000", "700000", of_clock(-3'600), of_clock(3'600)};
}

std::vector<std::string> const tokens{"a", "b", "c"};

/// Starts a call, and waits for its report.
template <class Call>
key_report report_of(test_client& client, Call call) {
    key_report report;
    auto done = false;
    call([&](error e, key_report r) {
        BOOST_TEST(!e, e.what());
        report = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return report;
}

std::string told_of(key_report const& r) {
    return std::string(to_string(r.state)) + " by '" + r.holder + '\'';
}

struct called_script {
    std::string_view text;
    bool fenced, fair;
    std::size_t times; ///< ttls after the number and its ttl
    bool place;
};

std::vector<called_script> const all_scripts{
    {redis::release_script, false, false, 0, false},
    {redis::extend_script, false, false, 1, false},
    {redis::fenced_acquire_script, true, false, 0, false},
    {redis::raise_script, true, false, 0, false},
    {redis::fair_release_script, false, true, 1, false},
    {redis::fair_acquire_script, false, true, 1, true},
    {redis::fair_fenced_acquire_script, true, true, 0, true},
    {redis::fair_contend_script, false, true, 3, true},
    {redis::fair_fenced_contend_script, true, true, 2, true},
};

} // namespace

BOOST_AUTO_TEST_SUITE(embedded_instances)

BOOST_AUTO_TEST_CASE(commands_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        std::vector<command_line> const lines{
            {"GET"},
            {"GET", "a", "b"},
            {"get", "none"},
            {"SET", "s", "hello"},
            {"SET", "s", "hello", "NX", "PX", "100000"},
            {"SET", "s", "hello", "XX", "EX", "100"},
            {"SET", "s", "hello", "NX", "XX"},
            {"SET", "s", "hello", "PX"},
            {"SET", "s", "hello", "PX", "1", "EX", "1"},
            {"SET", "s", "hello", "PX", "0"},
            {"SET", "s", "hello", "PX", "x"},
            {"SET", "s", "hello", "EX", "9223372036854775"},
            {"SET", "s", "hello", "PX", "9223372036854775807"},
            {"SET", "s", "hello", "SOON"},
            {"SET", "s", "hello", "PX", "1", "KEEPTTL"},
            {"SET", "s", "hello", "KEEPTTL", "PX", "1"},
            {"SET", "s", "hello", "KEEPTTL"},
            {"SET", "kept", "hello", "XX", "KEEPTTL"},
            {"SET", "new", "x", "XX"},
            {"GETRANGE", "s", "0", "-1"},
            {"GETRANGE", "s", "-3", "-2"},
            {"GETRANGE", "s", "3", "1"},
            {"GETRANGE", "s", "-1", "-3"},
            {"GETRANGE", "s", "-100", "100"},
            {"GETRANGE", "s", "9", "12"},
            {"GETRANGE", "s", "0", "x"},
            {"GETRANGE", "none", "0", "64"},
            {"PEXPIRE", "s", "100000"},
            {"PEXPIRE", "none", "100000"},
            {"PEXPIRE", "s", "x"},
            {"PEXPIRE", "s", "9223372036854775807"},
            {"PEXPIRE", "s", "-1"},
            {"TYPE", "s"},
            {"RPUSH", "l", "a", "b", "a"},
            {"LPUSH", "l", "x", "y"},
            {"RPUSH", "l"},
            {"TYPE", "l"},
            {"GET", "l"},
            {"GETRANGE", "l", "0", "3"},
            {"LINDEX", "l", "-1"},
            {"LINDEX", "l", "9"},
            {"LINDEX", "l", "x"},
            {"LINDEX", "none", "x"},
            {"LPOS", "l", "a"},
            {"LPOS", "l", "none"},
            {"LPOS", "none", "a"},
            {"LREM", "l", "-1", "a"},
            {"LREM", "l", "0", "none"},
            {"LREM", "l", "x", "a"},
            {"LREM", "l", "-9223372036854775807", "y"},
            {"LREM", "none", "0", "a"},
            {"PEXPIRE", "l", "100000"},
            {"LPOP", "l"},
            {"LPOP", "l"},
            {"LPOP", "l"},
            {"TYPE", "l"},
            {"LPOP", "l"},
            {"SET", "s", "x"},
            {"RPUSH", "s", "x"},
            {"LPOP", "s"},
            {"LINDEX", "s", "0"},
            {"LPOS", "s", "x"},
            {"LREM", "s", "0", "x"},
            {"ZADD", "z", "1", "a", "2.5", "b", "inf", "c"},
            {"ZADD", "z", "3", "a", "-1e10", "d"},
            {"ZADD", "z", "x", "a"},
            {"ZADD", "z", "nan", "a"},
            {"ZADD", "z", "1", "a", "2"},
            {"ZADD", "z"},
            {"ZADD", "s", "1", "a"},
            {"ZCARD", "z"},
            {"ZCARD", "s"},
            {"ZCARD", "none"},
            {"ZSCORE", "z", "a"},
            {"ZSCORE", "z", "b"},
            {"ZSCORE", "z", "c"},
            {"ZSCORE", "z", "d"},
            {"ZSCORE", "z", "none"},
            {"ZSCORE", "s", "a"},
            {"ZSCORE", "none", "a"},
            {"ZRANGE", "z", "0", "-1"},
            {"ZRANGE", "z", "-1", "-1", "withscores"},
            {"ZRANGE", "z", "0", "9223372036854775807", "WITHSCORES"},
            {"ZRANGE", "z", "2", "1"},
            {"ZRANGE", "z", "-9223372036854775807", "0"},
            {"ZRANGE", "z", "0", "x"},
            {"ZRANGE", "z", "0", "1", "SOON"},
            {"ZRANGE", "s", "0", "1"},
            {"ZRANGE", "none", "0", "1"},
            {"ZCOUNT", "z", "-inf", "(3"},
            {"ZCOUNT", "z", "(2.5", "inf"},
            {"ZCOUNT", "z", "3", "2.5"},
            {"ZCOUNT", "z", "x", "1"},
            {"ZCOUNT", "z", "1", "(x"},
            {"ZCOUNT", "s", "0", "1"},
            {"ZCOUNT", "none", "0", "1"},
            {"ZRANGEBYSCORE", "z", "-inf", "3"},
            {"ZRANGEBYSCORE", "z", "2.5", "2.5"},
            {"ZRANGEBYSCORE", "z", "(2.5", "inf", "limit", "0", "1"},
            {"ZRANGEBYSCORE", "z", "-inf", "inf", "LIMIT", "1", "2"},
            {"ZRANGEBYSCORE", "z", "-inf", "inf", "LIMIT", "1", "0"},
            {"ZRANGEBYSCORE", "z", "-inf", "inf", "LIMIT", "0", "-1"},
            {"ZRANGEBYSCORE", "z", "-inf", "inf", "LIMIT", "-1", "2"},
            {"ZRANGEBYSCORE", "z", "-inf", "inf", "LIMIT", "x", "2"},
            {"ZRANGEBYSCORE", "z", "0", "1", "SOON"},
            {"ZRANGEBYSCORE", "z", "x", "1"},
            {"ZRANGEBYSCORE", "s", "0", "1"},
            {"ZRANGEBYSCORE", "none", "0", "1"},
            {"PEXPIRE", "z", "100000"},
            {"TYPE", "z"},
            {"GET", "z"},
            {"LPOP", "z"},
            {"SCAN", "0", "TYPE", "zset"},
            {"ZREMRANGEBYSCORE", "z", "-inf", "2.5"},
            {"ZREMRANGEBYSCORE", "z", "x", "1"},
            {"ZREMRANGEBYSCORE", "s", "0", "1"},
            {"ZREMRANGEBYSCORE", "none", "0", "1"},
            {"ZREM", "z", "none", "a"},
            {"ZREM", "s", "a"},
            {"ZREM", "none", "a"},
            {"ZREM", "z", "c"},
            {"EXISTS", "z"},
            {"EXISTS", "s", "s", "none"},
            {"DEL", "s", "s", "none"},
            {"DBSIZE"},
            {"PING"},
            {"PING", "me"},
            {"SELECT", "0"},
            {"WAIT", "0", "1"},
            {"WAIT", "x", "1"},
            {"CLIENT", "CACHING", "YES"},
            {"CLIENT", "SETNAME", "me"},
            {"CONFIG", "GET", "appen*ync"},
            {"CONFIG", "GET", "*on-rewrite"},
            {"CONFIG", "GET", "appendonly"},
            {"CONFIG", "GET", "nothing-of-it"},
            {"EVALSHA", std::string(40, '0'), "0"},
            {"EVALSHA", std::string(40, '0'), "1"},
            {"EVALSHA", std::string(40, '0'), "-1"},
            {"EVALSHA", std::string(40, '0'), "x"},
            {"SCRIPT", "LOAD", std::string(redis::release_script)},
            {"EVAL", std::string(redis::release_script), "1", "k", "me"},
            {"SCRIPT", "FLUSH"},
            {"AUTH", "me", "secret"},
            {"AUTH", "default", "secret"},
            {"HELLO", "9"},
            {"HELLO", "x"},
            {"HELLO", "3", "AUTH", "me", "secret"},
            {"HELLO", "3", "SETNAME"},
            {"FLUSHALL"},
            {"FLUSHDB"},
        };
        for (auto const& words : lines) {
            both.same(words);
            for (auto const* const key : {"s", "l", "new"}) both.same({"PTTL", key});
        }
    });
}

BOOST_AUTO_TEST_CASE(random_commands_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        std::vector<std::string> const keys{"k", "l"};
        with_steps(both, 4, 300, [&](chooser& choose) {
            auto const key = choose.of(keys), value = choose.of(tokens);
            auto const small = std::to_string(static_cast<int>(choose.below(9)) - 4);
            switch (choose.below(12)) {
            case 0:
                both.same({"SET", key, value, "NX", "PX", some_ttl(choose)});
                break;
            case 1:
                both.same({"SET", key, value});
                break;
            case 2:
                both.same({"DEL", key});
                break;
            case 3:
                both.same({"PEXPIRE", key, some_ttl(choose)});
                break;
            case 4:
                both.same({"RPUSH", key, value});
                break;
            case 5:
                both.same({"LPUSH", key, value, choose.of(tokens)});
                break;
            case 6:
                both.same({"LPOP", key});
                break;
            case 7:
                both.same({"LREM", key, small, value});
                break;
            case 8:
                both.same({"LPOS", key, value});
                break;
            case 9:
                both.same({"LINDEX", key, small});
                break;
            case 10:
                both.same({"GETRANGE", key, small, choose.of(odd_numbers)});
                break;
            default:
                both.same({"GET", key});
            }
            both.same_keys(keys);
        });
    });
}

// Each script has a native form; each of those is compared with what a server makes of the text.
BOOST_AUTO_TEST_CASE(random_scripts_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        std::vector<std::string> digests;
        for (auto const& s : all_scripts)
            digests.push_back(both.same({"SCRIPT", "LOAD", std::string(s.text)}).string());
        std::vector<std::string> keys{"k", "k:fence", "k:queue"};
        for (auto const& token : tokens) keys.push_back("k:queue:" + token);
        auto const count = is_exact(both.kind) ? 12U : 3U;
        with_steps(both, count, 200, [&](chooser& choose) {
            // Another program changes the keys now and then.
            switch (choose.below(20)) {
            case 0:
                both.same({"SET", "k:fence", choose.of(odd_numbers)});
                break;
            case 1:
                both.same({"DEL", choose.of(keys)});
                break;
            case 2:
                both.same({"SET", choose.of(keys), choose.of(tokens)});
                break;
            case 3: {
                auto const key = choose.of(keys);
                both.same({"DEL", key});
                both.same({"RPUSH", key, choose.of(tokens), "", choose.of(tokens)});
                break;
            }
            case 4:
                both.same({"PEXPIRE", choose.of(keys), some_ttl(choose)});
                break;
            default:
                break;
            }
            auto const which = choose.below(all_scripts.size());
            auto const& script = all_scripts[which];
            command_line words{"EVALSHA", digests[which]};
            if (choose.below(8) == 0) words = {"EVAL", std::string(script.text)};
            words.push_back(std::to_string(1 + script.fenced + script.fair));
            words.push_back("k");
            if (script.fenced) words.push_back("k:fence");
            if (script.fair) words.push_back("k:queue");
            words.push_back(choose.of(tokens));
            auto const raises = script.text == redis::raise_script;
            if (script.fenced) {
                if (!raises) words.push_back(some_ttl(choose));
                // Numbers near the counter, far from it, and far from the clock on both sides.
                std::vector<std::string> numbers{"1", "2", "3", "7", "50", "400000", "700000"};
                numbers.push_back(of_clock(-3'600));
                numbers.push_back(of_clock(3'600));
                words.push_back(choose.of(choose.below(10) == 0 ? odd_numbers : numbers));
                words.push_back(some_ttl(choose));
            }
            for (auto n = script.times; n > 0; --n) words.push_back(some_ttl(choose));
            if (script.place) words.push_back(choose.of({"0", "1"}));
            both.same(words);
            both.same_keys(keys);
        });
    });
}

BOOST_AUTO_TEST_CASE(random_scripts_on_several_keys_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        std::vector<std::string_view> const scripts{
            redis::set_release_script,        redis::set_extend_script, redis::set_acquire_script,
            redis::set_fenced_acquire_script, redis::set_raise_script,  redis::set_inspect_script};
        std::vector<std::string> digests;
        for (auto const s : scripts)
            digests.push_back(both.same({"SCRIPT", "LOAD", std::string(s)}).string());
        std::vector<std::string> const keys{"k", "l", "m"};
        auto all_keys = keys;
        for (auto const& key : keys) all_keys.push_back(key + ":fence");
        auto const count = is_exact(both.kind) ? 12U : 3U;
        with_steps(both, count, 200, [&](chooser& choose) {
            // Another program changes the keys now and then.
            switch (choose.below(12)) {
            case 0:
                both.same({"SET", choose.of(keys) + ":fence", choose.of(odd_numbers)});
                break;
            case 1:
                both.same({"DEL", choose.of(all_keys)});
                break;
            case 2:
                both.same({"SET", choose.of(keys), choose.of({"a", "b", "c", ""})});
                break;
            case 3: {
                auto const key = choose.of(all_keys);
                both.same({"DEL", key});
                if (choose.below(2) == 0) both.same({"RPUSH", key, choose.of(tokens)});
                break;
            }
            case 4:
                both.same({"PEXPIRE", choose.of(all_keys), some_ttl(choose)});
                break;
            case 5: // the next script finds them free
                both.same({"DEL", "k", "l", "m"});
                break;
            default:
                break;
            }
            auto const which = choose.below(scripts.size());
            auto const text = scripts[which];
            auto const acquires =
                text == redis::set_acquire_script || text == redis::set_fenced_acquire_script;
            auto const raises = text == redis::set_raise_script;
            auto const fenced = text == redis::set_fenced_acquire_script || raises;
            command_line words{"EVALSHA", digests[which]};
            if (choose.below(8) == 0) words = {"EVAL", std::string(text)};
            auto const n = 1 + choose.below(keys.size());
            words.push_back(std::to_string(n * (fenced ? 2 : 1)));
            for (std::size_t i = 0; i < n; ++i) words.push_back(keys[i]);
            for (std::size_t i = 0; fenced && i < n; ++i) words.push_back(keys[i] + ":fence");
            words.push_back(choose.of(tokens));
            if (acquires || text == redis::set_extend_script) words.push_back(some_ttl(choose));
            if (text == redis::set_inspect_script) words.push_back("65");
            if (fenced) {
                auto const far = choose.below(2) == 0 ? -3'600 : 3'600;
                std::vector<std::string> numbers{"1", "2", "3", "7", "50", "400000", "700000"};
                numbers.push_back(of_clock(far));
                words.push_back(choose.of(choose.below(10) == 0 ? odd_numbers : numbers));
                words.push_back(some_ttl(choose));
            }
            // The tokens of earlier tenures.
            for (std::size_t i = 0; acquires && i < n && choose.below(4) != 0; ++i)
                words.push_back(choose.of({"a", "b", "c", ""}));
            both.same(words);
            both.same_keys(all_keys);
        });
    });
}

BOOST_AUTO_TEST_CASE(random_scripts_for_readers_and_writers_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        struct rw_script {
            std::string_view text;
            bool acquires, counts, withdraws;
        };
        std::vector<rw_script> const scripts{
            {redis::read_acquire_script, true, false, false},
            {redis::read_fenced_acquire_script, true, true, false},
            {redis::read_extend_script, false, false, false},
            {redis::read_raise_script, false, true, false},
            {redis::read_release_script, false, false, false},
            {redis::write_acquire_script, true, false, false},
            {redis::write_fenced_acquire_script, true, true, false},
            {redis::write_release_script, false, false, true},
        };
        std::vector<std::string> const keys{"k", "k:fence", "k:readers", "k:intent", "k:turn"};
        std::vector<std::string> const clients{"one", "two"};
        std::vector<std::string> const tombstones{"revoked@ops:1",
                                                  "revoked@:" + std::string(70, '2')};
        auto const count = is_exact(both.kind) ? 24U : 6U;
        with_steps(both, count, 200, [&](chooser& choose) {
            // Another program changes the keys now and then.
            switch (choose.below(24)) {
            case 0:
                both.same({"SET", "k:fence", choose.of(odd_numbers)});
                break;
            case 1:
            case 2:
                both.same({"DEL", choose.of(keys)});
                break;
            case 3:
                both.same({"SET", choose.of(keys), choose.of(tokens), "PX", long_ttl(choose)});
                break;
            case 4: {
                auto const key = choose.of(keys);
                both.same({"DEL", key});
                both.same({"RPUSH", key, choose.of(tokens)});
                break;
            }
            case 5: // a reader whose time has passed, or one that nobody knows
                both.same({"ZADD", "k:readers", "5", choose.of(tokens)});
                break;
            case 6:
                both.same({"PEXPIRE", choose.of(keys), long_ttl(choose)});
                break;
            case 7:
                both.same({"FLUSHALL"});
                break;
            case 8: // holders are revoked, and extend
                both.same({"EVAL", std::string(redis::revoke_script), "1", "k", choose.of(tokens),
                           choose.of(tombstones)});
                both.same({"EVAL", std::string(redis::extend_script), "1", "k", choose.of(tokens),
                           long_ttl(choose)});
                break;
            case 9:
            case 10:
                both.same({"EVAL", std::string(redis::revoke_reader_script), "2", "k", "k:readers",
                           choose.of(tokens), choose.of(tombstones)});
                break;
            default:
                break;
            }
            auto const& script = scripts[choose.below(scripts.size())];
            auto const extends = script.text == redis::read_extend_script;
            auto const* const used = extends ? "2" : script.counts ? "5" : "4";
            command_line words{"EVAL", std::string(script.text), used, "k"};
            if (script.counts) words.emplace_back("k:fence");
            words.emplace_back("k:readers");
            if (!extends) words.insert(words.end(), {"k:intent", "k:turn"});
            words.push_back(choose.of(tokens));
            if (script.acquires || !script.counts) words.push_back(long_ttl(choose));
            if (script.counts) {
                words.push_back(choose.of(some_numbers()));
                words.push_back(long_ttl(choose));
            }
            if (script.acquires || script.withdraws) words.push_back(choose.of(clients));
            if (script.acquires) words.push_back(choose.of({"wait", "wait", "try", "heal"}));
            both.same(words);
            both.same_keys(keys);
        });
    });
}

BOOST_AUTO_TEST_CASE(random_scripts_for_permits_get_the_replies_of_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        std::vector<std::string_view> const scripts{
            redis::permit_take_script,  redis::permit_fenced_take_script,
            redis::permit_take_script,  redis::permit_extend_script,
            redis::permit_raise_script, redis::permit_release_script,
            redis::permit_peek_script};
        std::vector<std::string> const keys{"k", "k:until", "k:fences"};
        std::vector<std::string> const holders{"a", "b", "c", "d", "e", "f"};
        auto const count = is_exact(both.kind) ? 24U : 6U;
        with_steps(both, count, 200, [&](chooser& choose) {
            auto const slot = std::to_string(choose.below(6));
            // Another program changes the keys now and then.
            switch (choose.below(32)) {
            case 0:
                both.same({"ZADD", "k:fences",
                           choose.of({"90071992547408", "1.5", "-1", "inf", "7"}), slot});
                break;
            case 1:
                both.same({"DEL", choose.of(keys)});
                break;
            case 2:
                both.same({"SET", choose.of(keys), choose.of(holders), "PX", long_ttl(choose)});
                break;
            case 3: {
                auto const key = choose.of(keys);
                both.same({"DEL", key});
                both.same({"RPUSH", key, choose.of(holders)});
                break;
            }
            case 4: // a token whose time has passed, or one that nobody knows
            case 5:
                both.same({"ZADD", "k:until", "5", choose.of(holders)});
                break;
            case 6: // perhaps a slot with two tokens
                both.same({"ZADD", "k", slot, choose.of(holders)});
                break;
            case 7:
                both.same({"PEXPIRE", choose.of(keys), long_ttl(choose)});
                break;
            case 8:
            case 9:
                both.same({"FLUSHALL"});
                break;
            default:
                break;
            }
            auto const text = scripts[choose.below(scripts.size())];
            auto const fenced = text == redis::permit_fenced_take_script;
            auto const takes = fenced || text == redis::permit_take_script;
            auto const raises = text == redis::permit_raise_script;
            auto const counts = fenced || raises;
            command_line words{"EVAL", std::string(text), counts ? "3" : "2", "k", "k:until"};
            if (counts) words.emplace_back("k:fences");
            words.push_back(choose.of(holders));
            if (takes) {
                words.push_back(long_ttl(choose));
                words.push_back(std::to_string(1 + choose.below(6)));
                words.push_back(slot);
                words.push_back(choose.of({"from", "from", "only"}));
                if (fenced)
                    words.insert(words.end(), {choose.of(some_numbers()), long_ttl(choose)});
            } else if (text == redis::permit_extend_script) {
                words.insert(words.end(), {long_ttl(choose), slot});
            } else if (raises) {
                words.insert(words.end(), {choose.of(some_numbers()), long_ttl(choose), slot});
            } else if (text == redis::permit_peek_script) {
                words.insert(words.end(), {std::to_string(1 + choose.below(6)), "64"});
            }
            both.same(words);
            both.same_keys(keys);
        });
    });
}

// Two clients, of which the second one tracks keys, and changes some itself.
BOOST_AUTO_TEST_CASE(changes_are_pushed_as_by_a_server) {
    beside_each_kind([](pair_of_servers& both) {
        redis_cli real(both.redis), ours(both.embedded.address().port());
        auto const as_hello = [](reply const& r) {
            // The product, its version and the id of the client differ.
            std::vector<std::string> fields;
            for (std::size_t i = 0; i < r.elements().size(); i += 2)
                fields.push_back(r.elements()[i].string());
            std::erase(fields, "availability_zone");
            return fields;
        };
        auto const first = real.command({"HELLO", "3", "SETNAME", "me"});
        auto const second = ours.command({"HELLO", "3", "SETNAME", "me"});
        BOOST_TEST(as_hello(first) == as_hello(second), boost::test_tools::per_element());
        auto const same = [&](command_line const& words) {
            auto const a = real.command(words), b = ours.command(words);
            BOOST_TEST(both.agree(words, a, b), words.front() << ": " << a << ", ours " << b);
        };
        /// The pushes that come before the reply to PING, or with it.
        auto const pushed = [](redis_cli& cli) {
            (void)cli.command({"PING"});
            std::vector<std::string> all;
            for (auto const& p : cli.take_pushes()) all.push_back(text_of(p));
            return all;
        };
        auto const same_pushes = [&] {
            auto const a = pushed(real), b = pushed(ours);
            BOOST_TEST(a == b, boost::test_tools::per_element());
            return a.size();
        };
        same({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"});
        with_seeds(both, 6, [&](std::mt19937_64& random) {
            chooser choose{random};
            std::size_t pushes = 0;
            std::vector<std::string> const keys{"k", "l", "m"};
            for (auto step = 0; step < 200 && !both.failed; ++step) {
                auto const key = choose.of(keys);
                switch (choose.below(11)) {
                case 0:
                case 1:
                case 2:
                    same({"CLIENT", "CACHING", "YES"});
                    same({choose.of({"PTTL", "GET", "TYPE"}), key});
                    break;
                case 3:
                    same({"PTTL", key}); // not tracked
                    break;
                case 4:
                    same({"SET", key, "x", "PX", "100000"}); // its own change
                    break;
                case 5:
                    both.same({"SET", key, "y", "PX", "200000"});
                    break;
                case 6:
                    both.same({"DEL", key});
                    break;
                case 7:
                    both.same({"PEXPIRE", key, "300000"});
                    break;
                case 8:
                    both.same({"EVAL", std::string(redis::fenced_acquire_script), "2", key,
                               key + ":fence", "me", "100000", "1", "100000"});
                    break;
                case 9: // it registers for the keys that it reads and does not write
                    same({"CLIENT", "CACHING", "YES"});
                    same({"EVAL", std::string(redis::write_acquire_script), "4", key, "l:readers",
                          "l:intent", "l:turn", "me", "100000", "name", "wait"});
                    break;
                default:
                    if (choose.below(10) == 0) both.same({"FLUSHALL"});
                }
                pushes += same_pushes();
            }
            BOOST_TEST(pushes > 5U);
        });
        // A key expires, and nobody asks for it.
        same({"CLIENT", "CACHING", "YES"});
        same({"GET", "short"});
        both.same({"SET", "short", "x", "PX", "30"});
        BOOST_TEST(same_pushes() == 1U);
        same({"CLIENT", "CACHING", "YES"});
        same({"TYPE", "short"});
        for (auto* const cli : {&real, &ours}) {
            BOOST_TEST(cli->has_input(5s));
            BOOST_TEST(pushed(*cli).size() == 1U);
        }
    });
}

// The same calls of clients, with every kind of lock.
BOOST_AUTO_TEST_CASE(calls_of_clients_have_the_results_that_they_have_on_a_server) {
    auto const story = [](std::vector<address> const& addresses) {
        std::ostringstream told;
        auto named = patient();
        named.holder_label = "first";
        test_client a(addresses, named), b(addresses);
        a.runs_with(b);
        for (auto const fenced : {false, true}) {
            for (auto const fair : {false, true}) {
                lock_options const options{.ttl = 60s, .fencing = fenced, .fair = fair};
                auto const key = std::string(fenced ? "fenced" : "plain") + (fair ? " fair" : "");
                auto held = a.hold(key, options);
                told << key << ' ' << (held.fence() != 0);
                told << " refused: " << b.try_acquire(key, options).first.code().message();
                told << " report: " << told_of(report_of(b, [&](auto handler) {
                    b.locks.inspect(key, std::move(handler));
                }));
                told << " extend: " << a.extend(held).code().message();
                told << " release: " << a.releases(held);
                auto next = b.hold(key, options);
                told << " grows: " << (next.fence() == 0 || next.fence() > held.fence());
                auto const token = next.token();
                next.detach();
                attempt adoption;
                a.locks.adopt(key, token, options, [&](error e, lease l) {
                    adoption.how = std::move(e);
                    adoption.held = std::move(l);
                    adoption.done = true;
                });
                BOOST_REQUIRE(a.until([&] { return adoption.done; }));
                told << " adopt: " << adoption.how.code().message();
                told << " taken away: " << told_of(report_of(b, [&](auto handler) {
                    b.locks.force_release(key, std::move(handler));
                }));
                told << " release: " << a.releases(adoption.held);
                told << " report: " << told_of(report_of(b, [&](auto handler) {
                    b.locks.inspect(key, std::move(handler));
                })) << '\n';
            }
        }
        auto const s = a.locks.instances().at(0);
        told << to_string(s.state) << ' ' << s.degradations.size() << ' ' << s.message << '\n';
        return told.str();
    };
    testing::instance embedded;
    auto const ours = story({embedded.address()});
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    for (auto const& kind : kinds) {
        BOOST_TEST_CONTEXT(kind.name) {
            server redis({.kind = kind});
            BOOST_TEST(story({address(redis.url())}) == ours);
        }
    }
}

BOOST_AUTO_TEST_CASE(scans_find_the_same_keys) {
    beside_each_kind([](pair_of_servers& both) {
        for (auto i = 0; i < 300; ++i) {
            both.same({"SET", "seat:" + std::to_string(i), "x"});
            if (i < 40) both.same({"RPUSH", "list:" + std::to_string(i), "x"});
        }
        for (auto const* const odd : {"a*b", "a?b", "a[b", "a]b", "a\\b", "a^b", "a-b", "axb", "b"})
            both.same({"SET", odd, "x"});
        both.same({"SET", "gone", "x", "PX", "1"});
        both.same_keys({"gone"});
        for (auto const& options : std::vector<command_line>{
                 {},
                 {"MATCH", "*"},
                 {"MATCH", "seat:*", "COUNT", "7"},
                 {"match", "seat:1?", "count", "1000", "type", "string"},
                 {"TYPE", "list"},
                 {"MATCH", "*1*", "TYPE", "STRING"},
                 {"MATCH", "a\\*b"},
                 {"MATCH", "a\\?b"},
                 {"MATCH", "a\\[b"},
                 {"MATCH", "a\\\\b"},
                 {"MATCH", "a[*?]b"},
                 {"MATCH", "a[^x]b"},
                 {"MATCH", "a[^-^]b"},
                 {"MATCH", "a[w-z]b"},
                 {"MATCH", "a[z-w]b"},
                 {"MATCH", "a?"},
                 {"MATCH", ""},
             }) {
            auto const theirs = scanned(both.real, options);
            auto const ours = scanned(both.ours, options);
            std::string line;
            for (auto const& word : options) line += word + '|';
            BOOST_TEST_CONTEXT(line)
            BOOST_TEST(ours == theirs, boost::test_tools::per_element());
        }
        for (auto const& wrong : std::vector<command_line>{{"SCAN"},
                                                           {"SCAN", "x"},
                                                           {"SCAN", "0", "MATCH"},
                                                           {"SCAN", "0", "COUNT", "x"},
                                                           {"SCAN", "0", "COUNT", "0"},
                                                           {"SCAN", "0", "LIMIT", "1"}})
            both.same(wrong);
        // A client lists the same on both.
        auto const listed = [](address const& at) {
            test_client client(std::vector<address>{at});
            list_report result;
            auto done = false;
            client.locks.list("seat:1", [&](error, list_report r) {
                result = std::move(r);
                done = true;
            });
            BOOST_REQUIRE(client.until([&] { return done; }));
            BOOST_TEST(result.complete);
            return result.keys;
        };
        auto const keys = listed(both.embedded.address());
        BOOST_TEST(keys.size() == 111U);
        BOOST_TEST(keys == listed(address(both.redis.url())), boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_SUITE_END()
