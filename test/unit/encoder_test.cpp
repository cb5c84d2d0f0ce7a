// The bytes of each command, in each dialect.
#include "redis/encoder.hpp"
#include "redis/token.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <openssl/evp.h>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::protocol::command;

namespace {

constexpr std::array every_dialect{dialect::scripts, dialect::set_ifeq, dialect::delifeq, dialect::delex};
constexpr std::array every_command{command::acquire, command::extend,  command::release,
                                   command::heal,    command::contend, command::inspect};
static_assert(every_dialect.size() == dialects);

/// The replies that the link has entries for.
std::size_t replies(command c) {
    return c == command::inspect ? 3 : c == command::contend ? 2 : 1;
}

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
    boost::redis::request r;
    encode(r, c, d, s, whole_script);
    return std::string(r.payload());
}

constexpr subject seat{.key = "seat:7", .token = "0123456789abcdef", .ttl = 10'000ms};
std::string const key = "seat:7";
std::string const own_token = "0123456789abcdef";

} // namespace

BOOST_AUTO_TEST_SUITE(encoder)

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
        boost::redis::request r;
        encode_contend(r, seat, tracked);
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
    boost::redis::request r;
    encode(r, command::acquire, dialect::scripts, seat);
    encode(r, command::release, dialect::delifeq, seat);
    BOOST_TEST(r.payload() ==
               resp({"SET", key, own_token, "NX", "PX", "10000"}) + resp({"DELIFEQ", key, own_token}));
}

BOOST_AUTO_TEST_CASE(each_command_brings_as_many_replies_as_are_waited_for) {
    for (auto const c : every_command) {
        for (auto const d : every_dialect) {
            boost::redis::request r;
            encode(r, c, d, seat);
            BOOST_TEST(r.get_expected_responses() == replies(c));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_command_is_encoded_once_for_each_dialect) {
    holdfast::redis::encoder e;
    for (auto const c : every_command) {
        e.start(c, seat);
        BOOST_TEST((e.what() == c));
        for (auto const d : every_dialect) {
            auto const* const first = &e.in(d);
            auto const* const bytes = first->payload().data();
            BOOST_TEST(first->payload() == encoded(c, d, seat));
            BOOST_TEST(&e.in(d) == first);
            BOOST_TEST(static_cast<void const*>(e.in(d).payload().data()) == static_cast<void const*>(bytes));
            BOOST_TEST(e.in(d).payload() == encoded(c, d, seat));
            BOOST_TEST(e.in(d).get_expected_responses() == replies(c));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_encoder_forgets_the_command_before) {
    holdfast::redis::encoder e;
    subject const other{.key = "another", .token = "t", .ttl = 20ms};
    for (auto const d : every_dialect) {
        e.start(command::release, seat);
        BOOST_TEST(e.in(d).payload() == encoded(command::release, d, seat));
        e.start(command::release, other);
        BOOST_TEST(e.in(d).payload() == encoded(command::release, d, other));
        e.start(command::acquire, other);
        BOOST_TEST(e.in(d).payload() == encoded(command::acquire, d, other));
        BOOST_TEST(e.in(d).get_expected_responses() == 1U);
    }
}

BOOST_AUTO_TEST_CASE(one_encoding_serves_the_batches_of_many_instances) {
    holdfast::redis::encoder e;
    e.start(command::inspect, seat);
    boost::redis::request a;
    boost::redis::request b;
    a.append(e.in(dialect::delex));
    b.append(e.in(dialect::delex));
    b.append(e.in(dialect::delex));
    BOOST_TEST(a.payload() == encoded(command::inspect, dialect::delex, seat));
    BOOST_TEST(b.payload() == std::string(a.payload()) + std::string(a.payload()));
    BOOST_TEST(b.get_expected_responses() == 6U);
}

BOOST_AUTO_TEST_SUITE_END()
