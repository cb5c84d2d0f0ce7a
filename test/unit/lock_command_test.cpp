// The bytes of each command, in each dialect, and what the replies to it mean.
#include "redis/lock_command.hpp"
#include "redis/scripts.hpp"
#include "redis/token.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <openssl/evp.h>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::protocol::command;

namespace {

constexpr std::array every_dialect{dialect::scripts, dialect::set_ifeq, dialect::delifeq, dialect::delex};
constexpr std::array every_command{command::acquire, command::extend,  command::release, command::heal,
                                   command::contend, command::inspect, command::raise};
static_assert(every_dialect.size() == dialects);

/// A command as it is to be on the wire.
std::string resp(std::vector<std::string> const& words) {
    auto text = '*' + std::to_string(words.size()) + "\r\n";
    for (auto const& w : words) text += '$' + std::to_string(w.size()) + "\r\n" + w + "\r\n";
    return text;
}

std::string sha1(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned size = 0;
    BOOST_REQUIRE(EVP_Digest(text.data(), text.size(), raw.data(), &size, EVP_sha1(), nullptr) == 1);
    BOOST_REQUIRE(size == 20U);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) {
        hex += "0123456789abcdef"[raw[i] >> 4];
        hex += "0123456789abcdef"[raw[i] & 15];
    }
    return hex;
}

std::string encoded(command c, dialect d, subject const& s, bool whole_script = false) {
    codec::request r;
    encode(r, c, {.dialect = d, .whole_script = whole_script}, s);
    return std::string(r.payload());
}

constexpr subject seat{.key = "seat:7", .token = "0123456789abcdef", .ttl = 10'000ms};
std::string const key = "seat:7";
std::string const own_token = "0123456789abcdef";

// One with a fence: the number is a hint, or what an instance has counted.
constexpr subject numbered{.key = "seat:7",
                           .token = "0123456789abcdef",
                           .ttl = 10'000ms,
                           .fence_ttl = 86'400'000ms,
                           .number = 28'723'000'000'016};
std::string const counter = "{seat:7}:fence";

std::string fence_key(std::string_view of) {
    std::string name = "what was there before";
    name_fence_key(name, of);
    return name;
}

} // namespace

BOOST_AUTO_TEST_SUITE(lock_command)

BOOST_AUTO_TEST_CASE(acquire_and_heal_create_the_key_only_if_it_is_not_there) {
    for (auto const d : every_dialect) {
        for (auto const whole : {false, true}) {
            for (auto const c : {command::acquire, command::heal}) {
                BOOST_TEST(encoded(c, d, seat, whole) == resp({"SET", key, own_token, "NX", "PX", "10000"}));
            }
        }
    }
    // Once by hand, letter for letter.
    BOOST_TEST(encoded(command::acquire, dialect::scripts, {.key = "k", .token = "t", .ttl = 10ms}) ==
               "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nt\r\n$2\r\nNX\r\n$2\r\nPX\r\n$2\r\n10\r\n");
}

BOOST_AUTO_TEST_CASE(extend_compares_before_it_moves_the_expiry) {
    auto const by_script = resp({"EVALSHA", sha1(extend_script), "1", key, own_token, "10000"});
    auto const natively = resp({"SET", key, own_token, "IFEQ", own_token, "PX", "10000"});
    BOOST_TEST(encoded(command::extend, dialect::scripts, seat) == by_script);
    for (auto const d : {dialect::set_ifeq, dialect::delifeq, dialect::delex}) {
        BOOST_TEST(encoded(command::extend, d, seat) == natively);
        BOOST_TEST(encoded(command::extend, d, seat, true) == natively);
    }
}

BOOST_AUTO_TEST_CASE(release_compares_before_it_deletes) {
    auto const by_script = resp({"EVALSHA", sha1(release_script), "1", key, own_token});
    BOOST_TEST(encoded(command::release, dialect::scripts, seat) == by_script);
    BOOST_TEST(encoded(command::release, dialect::set_ifeq, seat) == by_script);
    BOOST_TEST(encoded(command::release, dialect::delifeq, seat) == resp({"DELIFEQ", key, own_token}));
    BOOST_TEST(encoded(command::release, dialect::delex, seat) == resp({"DELEX", key, "IFEQ", own_token}));
}

BOOST_AUTO_TEST_CASE(a_forgotten_script_is_sent_whole) {
    BOOST_TEST(encoded(command::extend, dialect::scripts, seat, true) ==
               resp({"EVAL", std::string(extend_script), "1", key, own_token, "10000"}));
    for (auto const d : {dialect::scripts, dialect::set_ifeq}) {
        BOOST_TEST(encoded(command::release, d, seat, true) ==
                   resp({"EVAL", std::string(release_script), "1", key, own_token}));
    }
}

BOOST_AUTO_TEST_CASE(the_scripts_are_the_well_known_ones) {
    // Their text is part of the protocol: a changed one would need a digest of its own.
    BOOST_TEST(
        release_script ==
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end");
    BOOST_TEST(extend_script == "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                "redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end");
}

BOOST_AUTO_TEST_CASE(inspect_asks_for_the_time_to_live_the_type_and_no_more_than_a_token) {
    auto const most = std::to_string(holdfast::redis::token::max_size);
    for (auto const d : every_dialect) {
        BOOST_TEST(encoded(command::inspect, d, seat) ==
                   resp({"PTTL", key}) + resp({"TYPE", key}) + resp({"GETRANGE", key, "0", most}));
    }
}

BOOST_AUTO_TEST_CASE(a_contender_tries_and_then_reads_what_is_left) {
    for (auto const tracked : {false, true}) {
        codec::request r;
        encode(r, command::contend, {.tracked = tracked}, seat);
        // CACHING is about the next command alone, which must be the one that reads.
        BOOST_TEST(r.payload() == resp({"SET", key, own_token, "NX", "PX", "10000"}) +
                                      (tracked ? resp({"CLIENT", "CACHING", "YES"}) : std::string()) +
                                      resp({"PTTL", key}));
    }
}

BOOST_AUTO_TEST_CASE(no_dialect_deletes_or_extends_by_name_alone) {
    for (auto const c : {command::extend, command::release}) {
        for (auto const d : every_dialect) {
            BOOST_TEST(encoded(c, d, seat).find(own_token) != std::string::npos);
        }
    }
}

BOOST_AUTO_TEST_CASE(keys_and_tokens_may_hold_any_byte) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    std::string const nasty("a\0\r\n$3\r\nDEL\r\n", 13);
    subject const s{.key = all, .token = nasty, .ttl = 1ms};
    BOOST_TEST(
        (encoded(command::acquire, dialect::scripts, s) == resp({"SET", all, nasty, "NX", "PX", "1"})));
    BOOST_TEST((encoded(command::extend, dialect::set_ifeq, s) ==
                resp({"SET", all, nasty, "IFEQ", nasty, "PX", "1"})));
    BOOST_TEST((encoded(command::extend, dialect::scripts, s) ==
                resp({"EVALSHA", sha1(extend_script), "1", all, nasty, "1"})));
    BOOST_TEST((encoded(command::release, dialect::scripts, s) ==
                resp({"EVALSHA", sha1(release_script), "1", all, nasty})));
    BOOST_TEST((encoded(command::release, dialect::delifeq, s) == resp({"DELIFEQ", all, nasty})));
    BOOST_TEST((encoded(command::release, dialect::delex, s) == resp({"DELEX", all, "IFEQ", nasty})));
    BOOST_TEST(
        encoded(command::inspect, dialect::delex, s).starts_with(resp({"PTTL", all}) + resp({"TYPE", all})));
}

BOOST_AUTO_TEST_CASE(the_ttl_is_in_milliseconds) {
    BOOST_TEST(encoded(command::acquire, dialect::scripts, {.key = "k", .token = "t", .ttl = 24h}) ==
               resp({"SET", "k", "t", "NX", "PX", "86400000"}));
}

BOOST_AUTO_TEST_CASE(commands_are_appended_to_what_is_there) {
    codec::request r;
    encode(r, command::acquire, {}, seat);
    encode(r, command::release, {.dialect = dialect::delifeq}, seat);
    BOOST_TEST(r.payload() ==
               resp({"SET", key, own_token, "NX", "PX", "10000"}) + resp({"DELIFEQ", key, own_token}));
}

BOOST_AUTO_TEST_CASE(each_command_brings_as_many_replies_as_are_waited_for) {
    for (auto const c : every_command) {
        for (auto const d : every_dialect) {
            codec::request r;
            encode(r, c, {.dialect = d}, seat);
            BOOST_TEST(r.get_expected_responses() == replies_to(c, false));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_command_is_encoded_once_for_each_dialect) {
    holdfast::redis::encoder e;
    for (auto const c : every_command) {
        e.start(c, seat);
        BOOST_TEST((e.what() == c));
        for (auto const d : every_dialect) {
            auto const* const bytes = e.in({.dialect = d}).data();
            BOOST_TEST(e.in({.dialect = d}) == encoded(c, d, seat));
            BOOST_TEST(static_cast<void const*>(e.in({.dialect = d}).data()) ==
                       static_cast<void const*>(bytes));
            BOOST_TEST(e.in({.dialect = d}) == encoded(c, d, seat));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_encoder_forgets_the_command_before) {
    holdfast::redis::encoder e;
    subject const other{.key = "another", .token = "t", .ttl = 20ms};
    for (auto const d : every_dialect) {
        e.start(command::release, seat);
        BOOST_TEST(e.in({.dialect = d}) == encoded(command::release, d, seat));
        e.start(command::release, other);
        BOOST_TEST(e.in({.dialect = d}) == encoded(command::release, d, other));
        e.start(command::acquire, other);
        BOOST_TEST(e.in({.dialect = d}) == encoded(command::acquire, d, other));
    }
}

BOOST_AUTO_TEST_CASE(a_contender_that_is_tracked_and_one_that_is_not_are_encoded_apart) {
    holdfast::redis::encoder e;
    e.start(command::contend, seat);
    auto const plain = std::string(e.in({}));
    auto const tracked = std::string(e.in({.tracked = true}));
    BOOST_TEST(plain != tracked);
    BOOST_TEST(e.in({}) == plain);
    BOOST_TEST(e.in({.tracked = true}) == tracked);
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(a_fenced_acquire_and_heal_are_one_script_on_the_key_and_its_counter) {
    std::vector<std::string> const rest{"2", key, counter, own_token, "10000", "28723000000016", "86400000"};
    auto known = rest, whole = rest;
    known.insert(known.begin(), {"EVALSHA", sha1(fenced_acquire_script)});
    whole.insert(whole.begin(), {"EVAL", std::string(fenced_acquire_script)});
    for (auto const d : every_dialect) {
        for (auto const c : {command::acquire, command::heal}) {
            BOOST_TEST(encoded(c, d, numbered) == resp(known));
            BOOST_TEST(encoded(c, d, numbered, true) == resp(whole));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fenced_contender_runs_the_script_and_then_reads_what_is_left) {
    for (auto const whole : {false, true}) {
        for (auto const tracked : {false, true}) {
            codec::request r;
            encode(r, command::contend, {.tracked = tracked, .whole_script = whole}, numbered);
            // CACHING is about the next command alone, and a script's reads count as well.
            BOOST_TEST(r.payload() == encoded(command::acquire, dialect::scripts, numbered, whole) +
                                          (tracked ? resp({"CLIENT", "CACHING", "YES"}) : std::string()) +
                                          resp({"PTTL", key}));
            BOOST_TEST(r.get_expected_responses() == replies_to(command::contend, tracked));
        }
    }
}

BOOST_AUTO_TEST_CASE(raise_tells_whose_the_key_must_be_and_the_least_that_is_to_be_held) {
    std::vector<std::string> const rest{"2", key, counter, own_token, "28723000000016", "86400000"};
    auto known = rest, whole = rest;
    known.insert(known.begin(), {"EVALSHA", sha1(raise_script)});
    whole.insert(whole.begin(), {"EVAL", std::string(raise_script)});
    for (auto const d : every_dialect) {
        BOOST_TEST(encoded(command::raise, d, numbered) == resp(known));
        BOOST_TEST(encoded(command::raise, d, numbered, true) == resp(whole));
    }
}

BOOST_AUTO_TEST_CASE(what_neither_takes_nor_raises_knows_nothing_of_fences) {
    for (auto const d : every_dialect) {
        for (auto const c : {command::extend, command::release, command::inspect}) {
            BOOST_TEST(encoded(c, d, numbered) == encoded(c, d, seat));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_is_fenced_only_where_it_is_asked_for) {
    auto s = numbered;
    BOOST_TEST(s.fenced());
    s.fence_ttl = 0ms;
    BOOST_TEST(!s.fenced());
    BOOST_TEST(encoded(command::acquire, dialect::scripts, s) ==
               encoded(command::acquire, dialect::scripts, seat));
    holdfast::redis::encoder e;
    e.start(command::acquire, numbered);
    BOOST_TEST(e.fenced());
    e.start(command::acquire, s);
    BOOST_TEST(!e.fenced());
}

BOOST_AUTO_TEST_CASE(a_script_is_given_the_largest_numbers_in_full) {
    auto s = numbered;
    s.ttl = 24h;
    s.fence_ttl = 366 * 24h;
    s.number = (std::uint64_t{1} << 47) - 1;
    BOOST_TEST(encoded(command::acquire, dialect::scripts, s) ==
               resp({"EVALSHA", sha1(fenced_acquire_script), "2", key, counter, own_token, "86400000",
                     "140737488355327", "31622400000"}));
    BOOST_TEST(encoded(command::raise, dialect::scripts, s) ==
               resp({"EVALSHA", sha1(raise_script), "2", key, counter, own_token, "140737488355327",
                     "31622400000"}));
}

BOOST_AUTO_TEST_CASE(the_scripts_are_all_different) {
    std::vector<std::string> all{sha1(release_script), sha1(extend_script), sha1(fenced_acquire_script),
                                 sha1(raise_script)};
    std::sort(all.begin(), all.end());
    BOOST_TEST((std::adjacent_find(all.begin(), all.end()) == all.end()));
    // Nothing that differs between versions of Lua's string escapes, and no line ends to get lost.
    for (auto const script : {release_script, extend_script, fenced_acquire_script, raise_script}) {
        BOOST_TEST(script.find_first_of("\r\n\t\\\"") == script.npos);
    }
}

BOOST_AUTO_TEST_CASE(the_counter_of_a_key_without_a_hash_tag_makes_it_one) {
    BOOST_TEST(fence_key("k") == "{k}:fence");
    BOOST_TEST(fence_key("seat:7") == "{seat:7}:fence");
    BOOST_TEST(fence_key("with space") == "{with space}:fence");
    BOOST_TEST((fence_key(std::string_view("a\0b\r\n", 5)) == std::string("{a\0b\r\n}:fence", 13)));
    // No tag: nothing between the first opening brace and the next closing one, or one of them is missing.
    BOOST_TEST(fence_key("{}") == "{{}}:fence");
    BOOST_TEST(fence_key("{}x") == "{{}x}:fence");
    BOOST_TEST(fence_key("x{}{y}") == "{x{}{y}}:fence");
    BOOST_TEST(fence_key("open{") == "{open{}:fence");
    BOOST_TEST(fence_key("{open") == "{{open}:fence");
    BOOST_TEST(fence_key("close}") == "{close}}:fence");
    BOOST_TEST(fence_key("}{") == "{}{}:fence");
    BOOST_TEST(fence_key("}") == "{}}:fence");
    BOOST_TEST(fence_key("{") == "{{}:fence");
}

BOOST_AUTO_TEST_CASE(the_counter_of_a_key_with_a_hash_tag_keeps_it) {
    BOOST_TEST(fence_key("{k}") == "{k}:fence");
    BOOST_TEST(fence_key("seat:{7}") == "seat:{7}:fence");
    BOOST_TEST(fence_key("{7}:seat") == "{7}:seat:fence");
    BOOST_TEST(fence_key("a{b}c{d}") == "a{b}c{d}:fence");
    BOOST_TEST(fence_key("a}b{c}") == "a}b{c}:fence");
    BOOST_TEST(fence_key("{{b}}") == "{{b}}:fence"); // the tag is "{b"
    BOOST_TEST(fence_key("{ }") == "{ }:fence");
    BOOST_TEST((fence_key(std::string_view("{\0}", 3)) == std::string("{\0}:fence", 9)));
}

BOOST_AUTO_TEST_CASE(a_key_and_its_counter_are_in_one_slot_but_for_a_stray_closing_brace) {
    // What a Cluster hashes, by its specification.
    auto const hashed = [](std::string_view of) {
        auto const open = of.find('{');
        if (open == of.npos) return of;
        auto const close = of.find('}', open + 1);
        return close == of.npos || close == open + 1 ? of : of.substr(open + 1, close - open - 1);
    };
    std::string const letters = "a{}";
    for (unsigned n = 0; n < 3 * 3 * 3 * 3 * 3; ++n) {
        std::string all;
        for (auto rest = n; all.size() < 5; rest /= 3) all += letters[rest % 3];
        for (std::size_t size = 1; size <= all.size(); ++size) {
            auto const one = all.substr(0, size);
            auto const name = fence_key(one);
            BOOST_TEST_CONTEXT(one << " and " << name) {
                BOOST_TEST(name != one);
                BOOST_TEST(name.find(one) != std::string::npos);
                auto const tagged = hashed(one) != one;
                if (tagged || one.find('}') == one.npos) BOOST_TEST(hashed(name) == hashed(one));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
