// The bytes of each command, in each dialect, and the meaning of the replies to it.
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/token.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <openssl/evp.h>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test::kind_replies;
using namespace std::chrono_literals;
using holdfast::protocol::command;
using holdfast::test::contains;

namespace {

namespace resp = holdfast::test::resp;

constexpr std::array every_dialect{dialect::scripts, dialect::delifeq, dialect::delex};
constexpr std::array every_command{command::acquire, command::extend,  command::release,
                                   command::heal,    command::contend, command::inspect,
                                   command::raise,   command::track,   command::survey};
static_assert(every_command.size() + 2 == holdfast::protocol::commands); // no revoke, no scan
static_assert(every_dialect.size() == dialects);

std::string sha1(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned size = 0;
    BOOST_REQUIRE(EVP_Digest(text.data(), text.size(), raw.data(), &size, EVP_sha1(), nullptr) ==
                  1);
    BOOST_REQUIRE(size == 20U);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) {
        hex += "0123456789abcdef"[raw[i] >> 4];
        hex += "0123456789abcdef"[raw[i] & 15];
    }
    return hex;
}

std::string encoded(command c, dialect d, command_args const& s, bool whole_script = false) {
    codec::request r;
    exclusive_key.encode(r, c, {.dialect = d, .whole_script = whole_script}, s);
    return std::string(r.payload());
}

constexpr command_args seat{.key = "seat:7", .token = "0123456789abcdef", .ttl = 10'000ms};
std::string const key = "seat:7";
std::string const own_token = "0123456789abcdef";

// The arguments of a lock with a fence. The number is a hint, or the count of an instance.
constexpr command_args numbered{.key = "seat:7",
                                .token = "0123456789abcdef",
                                .ttl = 10'000ms,
                                .fence_ttl = 86'400'000ms,
                                .number = 28'723'000'000'016};
std::string const counter = "{seat:7}:fence";

//
// Replies
//

using holdfast::errc;
using holdfast::protocol::verdict;

struct lock : lock_with {
    explicit lock(command_args const& a = seat)
        : lock_with(exclusive_key, a) {}
};

/// The answer that the replies to one command give.
class replies {
public:
    replies(command c, std::vector<element> const& all, bool fenced = false, bool tracked = false,
            bool trusts_pushes = true) {
        take(c, all, fenced, tracked, trusts_pushes);
    }
    void take(command c, std::vector<element> const& all, bool fenced = false, bool tracked = false,
              bool trusts_pushes = true) {
        BOOST_REQUIRE(all.size() == exclusive_key.replies(c, {.tracked = tracked}));
        auto left = static_cast<unsigned>(all.size());
        for (auto const& e : all) {
            reader_.take({.kind = exclusive_key,
                          .command = c,
                          .words = {.tracked = tracked},
                          .fenced = fenced,
                          .owner = lock_,
                          .secrets = secrets_,
                          .trusts_pushes = trusts_pushes},
                         --left, e);
        }
    }
    answer const* operator->() const { return &reader_.result(); }
    lock_reply const& reader() const { return reader_; }

private:
    lock lock_;
    secret_list secrets_{"hush"};
    lock_reply reader_;
};

/// The answer to `c` after one reply. A contender also gets the PTTL of a key that has gone.
replies to(command c, element const& e, bool fenced = false) {
    if (c == command::contend) return {c, {e, number("-2")}, fenced};
    return {c, {e}, fenced};
}

constexpr std::array changing{command::acquire, command::extend,  command::release,
                              command::heal,    command::contend, command::raise};

bool is_nonsense(replies const& r) {
    return r->verdict == verdict::unknown && r->cause == errc::not_redis &&
           r.reader().ends_session() == errc::not_redis &&
           r->message == "an answer to no command of this client" && r->number == 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(lock_command)

BOOST_AUTO_TEST_CASE(acquire_and_heal_create_the_key_only_if_it_is_not_there) {
    for (auto const d : every_dialect) {
        for (auto const whole : {false, true}) {
            for (auto const c : {command::acquire, command::heal}) {
                BOOST_TEST(encoded(c, d, seat, whole) ==
                           resp::command({"SET", key, own_token, "NX", "PX", "10000"}));
            }
        }
    }
    // One command in full, written by hand.
    BOOST_TEST(
        encoded(command::acquire, dialect::scripts, {.key = "k", .token = "t", .ttl = 10ms}) ==
        "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nt\r\n$2\r\nNX\r\n$2\r\nPX\r\n$2\r\n10\r\n");
}

// No native command compares the expiry as well as the token.
BOOST_AUTO_TEST_CASE(extend_compares_before_it_moves_the_expiry) {
    for (auto const d : every_dialect) {
        BOOST_TEST(encoded(command::extend, d, seat) ==
                   resp::command({"EVALSHA", sha1(extend_script), "1", key, own_token, "10000"}));
    }
}

BOOST_AUTO_TEST_CASE(release_compares_before_it_deletes) {
    auto const by_script = resp::command({"EVALSHA", sha1(release_script), "1", key, own_token});
    BOOST_TEST(encoded(command::release, dialect::scripts, seat) == by_script);
    BOOST_TEST(encoded(command::release, dialect::delifeq, seat) ==
               resp::command({"DELIFEQ", key, own_token}));
    BOOST_TEST(encoded(command::release, dialect::delex, seat) ==
               resp::command({"DELEX", key, "IFEQ", own_token}));
}

BOOST_AUTO_TEST_CASE(a_forgotten_script_is_sent_whole) {
    BOOST_TEST(encoded(command::extend, dialect::scripts, seat, true) ==
               resp::command({"EVAL", std::string(extend_script), "1", key, own_token, "10000"}));
    BOOST_TEST(encoded(command::release, dialect::scripts, seat, true) ==
               resp::command({"EVAL", std::string(release_script), "1", key, own_token}));
}

BOOST_AUTO_TEST_CASE(the_release_is_the_well_known_script) {
    BOOST_TEST(release_script == "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                 "redis.call('del',KEYS[1]) else return 0 end");
}

BOOST_AUTO_TEST_CASE(inspect_asks_for_the_time_to_live_the_type_and_no_more_than_a_token) {
    auto const most = std::to_string(holdfast::redis::token::max_size);
    for (auto const d : every_dialect) {
        BOOST_TEST(encoded(command::inspect, d, seat) ==
                   resp::command({"PTTL", key}) + resp::command({"TYPE", key}) +
                       resp::command({"GETRANGE", key, "0", most}));
    }
}

BOOST_AUTO_TEST_CASE(a_contender_tries_and_then_reads_what_is_left) {
    for (auto const tracked : {false, true}) {
        codec::request r;
        exclusive_key.encode(r, command::contend, {.tracked = tracked}, seat);
        // CACHING YES concerns only the next command, so the PTTL must follow it directly.
        BOOST_TEST(r.payload() ==
                   resp::command({"SET", key, own_token, "NX", "PX", "10000"}) +
                       (tracked ? resp::command({"CLIENT", "CACHING", "YES"}) : std::string()) +
                       resp::command({"PTTL", key}));
    }
}

BOOST_AUTO_TEST_CASE(a_watch_reads_what_is_left_and_changes_nothing) {
    for (auto const tracked : {false, true}) {
        codec::request r;
        exclusive_key.encode(r, command::track, {.tracked = tracked}, seat);
        BOOST_TEST(r.payload() ==
                   (tracked ? resp::command({"CLIENT", "CACHING", "YES"}) : std::string()) +
                       resp::command({"PTTL", key}));
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
    command_args const s{.key = all, .token = nasty, .ttl = 1ms};
    BOOST_TEST((encoded(command::acquire, dialect::scripts, s) ==
                resp::command({"SET", all, nasty, "NX", "PX", "1"})));
    BOOST_TEST((encoded(command::extend, dialect::scripts, s) ==
                resp::command({"EVALSHA", sha1(extend_script), "1", all, nasty, "1"})));
    BOOST_TEST((encoded(command::release, dialect::scripts, s) ==
                resp::command({"EVALSHA", sha1(release_script), "1", all, nasty})));
    BOOST_TEST(
        (encoded(command::release, dialect::delifeq, s) == resp::command({"DELIFEQ", all, nasty})));
    BOOST_TEST((encoded(command::release, dialect::delex, s) ==
                resp::command({"DELEX", all, "IFEQ", nasty})));
    BOOST_TEST(encoded(command::inspect, dialect::delex, s)
                   .starts_with(resp::command({"PTTL", all}) + resp::command({"TYPE", all})));
}

BOOST_AUTO_TEST_CASE(the_ttl_is_in_milliseconds) {
    BOOST_TEST(
        encoded(command::acquire, dialect::scripts, {.key = "k", .token = "t", .ttl = 24h}) ==
        resp::command({"SET", "k", "t", "NX", "PX", "86400000"}));
}

BOOST_AUTO_TEST_CASE(commands_are_appended_to_what_is_there) {
    codec::request r;
    exclusive_key.encode(r, command::acquire, {}, seat);
    exclusive_key.encode(r, command::release, {.dialect = dialect::delifeq}, seat);
    BOOST_TEST(r.payload() == resp::command({"SET", key, own_token, "NX", "PX", "10000"}) +
                                  resp::command({"DELIFEQ", key, own_token}));
}

BOOST_AUTO_TEST_CASE(each_command_brings_as_many_replies_as_are_waited_for) {
    for (auto const c : every_command) {
        for (auto const d : every_dialect) {
            codec::request r;
            exclusive_key.encode(r, c, {.dialect = d}, seat);
            BOOST_TEST(r.get_expected_responses() == exclusive_key.replies(c, {}));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_command_is_encoded_once_for_each_dialect) {
    holdfast::redis::encoder e;
    for (auto const c : every_command) {
        e.start(c, lock(seat));
        BOOST_TEST((e.command() == c));
        for (auto const d : every_dialect) {
            auto const* const bytes = e.bytes({.dialect = d}).data();
            BOOST_TEST(e.bytes({.dialect = d}) == encoded(c, d, seat));
            BOOST_TEST(static_cast<void const*>(e.bytes({.dialect = d}).data()) ==
                       static_cast<void const*>(bytes));
            BOOST_TEST(e.bytes({.dialect = d}) == encoded(c, d, seat));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_encoder_forgets_the_command_before) {
    holdfast::redis::encoder e;
    command_args const other{.key = "another", .token = "t", .ttl = 20ms};
    for (auto const d : every_dialect) {
        e.start(command::release, lock(seat));
        BOOST_TEST(e.bytes({.dialect = d}) == encoded(command::release, d, seat));
        e.start(command::release, lock(other));
        BOOST_TEST(e.bytes({.dialect = d}) == encoded(command::release, d, other));
        e.start(command::acquire, lock(other));
        BOOST_TEST(e.bytes({.dialect = d}) == encoded(command::acquire, d, other));
    }
}

BOOST_AUTO_TEST_CASE(a_contender_that_is_tracked_and_one_that_is_not_are_encoded_apart) {
    holdfast::redis::encoder e;
    e.start(command::contend, lock(seat));
    auto const plain = std::string(e.bytes({}));
    auto const tracked = std::string(e.bytes({.tracked = true}));
    BOOST_TEST(plain != tracked);
    BOOST_TEST(e.bytes({}) == plain);
    BOOST_TEST(e.bytes({.tracked = true}) == tracked);
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(a_fenced_acquire_and_heal_are_one_script_on_the_key_and_its_counter) {
    std::vector<std::string> const rest{
        "2", key, counter, own_token, "10000", "28723000000016", "86400000"};
    auto known = rest, whole = rest;
    known.insert(known.begin(), {"EVALSHA", sha1(fenced_acquire_script)});
    whole.insert(whole.begin(), {"EVAL", std::string(fenced_acquire_script)});
    for (auto const d : every_dialect) {
        for (auto const c : {command::acquire, command::heal}) {
            BOOST_TEST(encoded(c, d, numbered) == resp::command(known));
            BOOST_TEST(encoded(c, d, numbered, true) == resp::command(whole));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fenced_contender_runs_the_script_and_then_reads_what_is_left) {
    for (auto const whole : {false, true}) {
        for (auto const tracked : {false, true}) {
            codec::request r;
            exclusive_key.encode(r, command::contend, {.tracked = tracked, .whole_script = whole},
                                 numbered);
            // CACHING YES concerns only the next command. The script must not come between.
            BOOST_TEST(r.payload() ==
                       encoded(command::acquire, dialect::scripts, numbered, whole) +
                           (tracked ? resp::command({"CLIENT", "CACHING", "YES"}) : std::string()) +
                           resp::command({"PTTL", key}));
            BOOST_TEST(r.get_expected_responses() ==
                       exclusive_key.replies(command::contend, {.tracked = tracked}));
        }
    }
}

BOOST_AUTO_TEST_CASE(raise_tells_whose_the_key_must_be_and_the_least_that_is_to_be_held) {
    std::vector<std::string> const rest{"2", key, counter, own_token, "28723000000016", "86400000"};
    auto known = rest, whole = rest;
    known.insert(known.begin(), {"EVALSHA", sha1(raise_script)});
    whole.insert(whole.begin(), {"EVAL", std::string(raise_script)});
    for (auto const d : every_dialect) {
        BOOST_TEST(encoded(command::raise, d, numbered) == resp::command(known));
        BOOST_TEST(encoded(command::raise, d, numbered, true) == resp::command(whole));
    }
}

BOOST_AUTO_TEST_CASE(a_command_that_neither_takes_nor_raises_knows_nothing_of_fences) {
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
    e.start(command::acquire, lock(numbered));
    BOOST_TEST(e.arguments().fenced());
    e.start(command::acquire, lock(s));
    BOOST_TEST(!e.arguments().fenced());
}

BOOST_AUTO_TEST_CASE(a_script_is_given_the_largest_numbers_in_full) {
    auto s = numbered;
    s.ttl = 24h;
    s.fence_ttl = 366 * 24h;
    s.number = (std::uint64_t{1} << 53) / 100 - 1;
    BOOST_TEST(encoded(command::acquire, dialect::scripts, s) ==
               resp::command({"EVALSHA", sha1(fenced_acquire_script), "2", key, counter, own_token,
                              "86400000", "90071992547408", "31622400000"}));
    BOOST_TEST(encoded(command::raise, dialect::scripts, s) ==
               resp::command({"EVALSHA", sha1(raise_script), "2", key, counter, own_token,
                              "90071992547408", "31622400000"}));
}

BOOST_AUTO_TEST_CASE(the_scripts_are_all_different) {
    std::vector<std::string> all{sha1(release_script), sha1(extend_script),
                                 sha1(fenced_acquire_script), sha1(raise_script)};
    std::sort(all.begin(), all.end());
    BOOST_TEST((std::adjacent_find(all.begin(), all.end()) == all.end()));
    // The texts avoid characters that versions of Lua escape differently, and line ends.
    for (auto const script : {release_script, extend_script, fenced_acquire_script, raise_script}) {
        BOOST_TEST(script.find_first_of("\r\n\t\\\"") == script.npos);
    }
}

//
// Replies
//

BOOST_AUTO_TEST_CASE(ok_and_one_say_yes_null_and_zero_say_no) {
    for (auto const c : changing) {
        for (auto const& yes : {ok, number("1")}) {
            auto const r = to(c, yes);
            BOOST_TEST((r->verdict == verdict::yes));
            BOOST_TEST((r->cause == errc{}));
            BOOST_TEST(r->message.empty());
            BOOST_TEST((r.reader().ends_session() == errc{}));
        }
        for (auto const& no : {null, number("0")}) {
            auto const r = to(c, no);
            BOOST_TEST((r->verdict == verdict::no));
            BOOST_TEST((r->cause == errc{}));
            BOOST_TEST((r.reader().ends_session() == errc{}));
        }
    }
}

BOOST_AUTO_TEST_CASE(any_other_reply_is_nonsense_and_ends_the_session) {
    for (auto const c : changing) {
        for (auto const& e :
             {simple("ok"), simple(""), simple("QUEUED"), number("2"), number("-1"), number("10"),
              blob("OK"), blob("1"), element{reply_type::array, 0, {}},
              element{reply_type::map, 0, {}}, element{reply_type::boolean, 0, "t"},
              element{reply_type::doublean, 0, "1"}, element{reply_type::big_number, 0, "1"}}) {
            if (c == command::raise && e.value == "-1") continue;
            BOOST_TEST(is_nonsense(to(c, e)), static_cast<int>(c) << ": " << e.value);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fenced_grant_comes_with_a_number) {
    for (auto const c : {command::acquire, command::contend, command::heal}) {
        for (std::string const text : {"1", "2", "28723000000016", "90071992547408"}) {
            auto const r = to(c, number(text), true);
            BOOST_TEST((r->verdict == verdict::yes));
            BOOST_TEST(std::to_string(r->number) == text);
        }
        for (auto const* const text : {"140737488355328", "-1", "9223372036854775807",
                                       "-9223372036854775808", "99999999999999999999"}) {
            BOOST_TEST(is_nonsense(to(c, number(text), true)), text);
        }
        BOOST_TEST(is_nonsense(to(c, ok, true)));
        BOOST_TEST((to(c, null, true)->verdict == verdict::no));
        BOOST_TEST(to(c, null, true)->number == 0U);
    }
    // The other commands answer yes or no, also with a fence.
    for (auto const c : {command::extend, command::release, command::raise}) {
        BOOST_TEST((to(c, number("1"), true)->verdict == verdict::yes));
        BOOST_TEST(to(c, number("1"), true)->number == 0U);
        BOOST_TEST(is_nonsense(to(c, number("2"), true)));
    }
}

BOOST_AUTO_TEST_CASE(an_error_refuses_and_says_why) {
    struct {
        char const* text;
        errc cause;
    } const table[] = {
        {"ERR something", errc::rejected},
        {"OOM command not allowed when used memory > 'maxmemory'.", errc::rejected},
        {"NOPERM this user has no permissions", errc::access_denied},
        {"NOAUTH Authentication required.", errc::access_denied},
        {"READONLY You can't write against a read only replica.", errc::read_only},
        {"FENCE no fence can follow", errc::invalid_fence},
    };
    for (auto const c : changing) {
        for (auto const& row : table) {
            for (auto const type : {reply_type::simple_error, reply_type::blob_error}) {
                auto const r = to(c, {type, 0, row.text});
                BOOST_TEST_CONTEXT(row.text) {
                    BOOST_TEST((r->verdict == verdict::refused));
                    BOOST_TEST((r->cause == row.cause));
                    // Not every error of a server names the forbidden command.
                    BOOST_TEST(contains(r->message, row.text));
                    BOOST_TEST(contains(r->message, "\"seat:7\": ") ==
                               (row.cause == errc::access_denied));
                    BOOST_TEST((r.reader().again() == rewording::none));
                    // `read_only` ends the session: a replica can vote on nothing.
                    BOOST_TEST((r.reader().ends_session() ==
                                (row.cause == errc::read_only ? errc::read_only : errc{})));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fenced_script_that_fails_may_have_come_as_far_as_the_key) {
    for (auto const c : {command::acquire, command::contend, command::heal}) {
        auto const r = to(c, error("OOM no"), true);
        BOOST_TEST((r->verdict == verdict::unknown));
        BOOST_TEST((r->cause == errc::rejected));
    }
    for (auto const c : {command::extend, command::release, command::raise}) {
        BOOST_TEST((to(c, error("OOM no"), true)->verdict == verdict::refused));
    }
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_is_not_ours) {
    element const wrong =
        error("WRONGTYPE Operation against a key holding the wrong kind of value");
    for (auto const c : {command::extend, command::release, command::heal}) {
        auto const r = to(c, wrong);
        BOOST_TEST((r->verdict == verdict::no));
        BOOST_TEST((r->cause == errc{}));
    }
    for (auto const c : {command::acquire, command::contend, command::raise}) {
        auto const r = to(c, wrong);
        BOOST_TEST((r->verdict == verdict::refused));
        BOOST_TEST((r->cause == errc::wrong_type));
        BOOST_TEST((r.reader().ends_session() == errc{}));
    }
}

BOOST_AUTO_TEST_CASE(a_script_that_is_not_known_was_not_run) {
    auto r = to(command::release, error("NOSCRIPT No matching script. Please use EVAL."));
    BOOST_TEST((r.reader().again() == rewording::whole_script));
    BOOST_TEST((r->verdict == verdict::refused));
    // The rewording concerns that command alone.
    r.take(command::release, {number("1")});
    BOOST_TEST((r.reader().again() == rewording::none));
    BOOST_TEST((r->verdict == verdict::yes));
    r.take(command::contend, {error("NOSCRIPT no"), number("-2")}, true);
    BOOST_TEST((r.reader().again() == rewording::whole_script));
}

namespace {

/// The answer to a command that was sent in a given form.
struct reworded {
    rewording again;
    std::optional<holdfast::degradation> lack;
    std::string reason;
    answer said;
    std::string message;
};

reworded reply_to(command c, wording w, std::string_view text, bool fenced = false) {
    lock owner;
    secret_list const secrets;
    lock_reply reader;
    reader.take({.kind = exclusive_key,
                 .command = c,
                 .words = w,
                 .fenced = fenced,
                 .owner = owner,
                 .secrets = secrets},
                0, error(text));
    reworded r{.again = reader.again(),
               .lack = {},
               .reason = {},
               .said = reader.result(),
               .message = std::string(reader.result().message)};
    if (!reader.has_lack()) return r;
    auto const [kind, reason] = reader.take_lack();
    r.lack = kind;
    r.reason = reason;
    BOOST_TEST(!reader.has_lack());
    return r;
}

} // namespace

BOOST_AUTO_TEST_CASE(where_evalsha_is_refused_all_scripts_are_sent_whole) {
    for (std::string_view const error :
         {"NOPERM this user has no permissions to run the 'evalsha' command",
          "ERR unknown command 'EVALSHA', with args beginning with: "}) {
        for (auto const c : {command::extend, command::release, command::raise}) {
            auto const r = reply_to(c, {}, error);
            BOOST_TEST((r.again == rewording::whole_scripts));
            BOOST_TEST((r.lack == holdfast::degradation::no_script_cache));
            BOOST_TEST((r.said.verdict == verdict::refused));
        }
        // The command was not begun, so it has written nothing.
        if (error.starts_with("NOPERM")) {
            BOOST_TEST(
                (reply_to(command::acquire, {}, error, true).said.verdict == verdict::refused));
        }
        BOOST_TEST((reply_to(command::acquire, {}, error).again == rewording::none));
        BOOST_TEST((reply_to(command::release, {.dialect = dialect::delifeq}, error).again !=
                    rewording::whole_scripts));
    }
    // If the server refuses EVAL, the client sends SCRIPT LOAD, and EVALSHA again.
    auto const r = reply_to(command::release, {.whole_script = true}, "ERR unknown command 'EVAL'");
    BOOST_TEST((r.again == rewording::load_scripts));
    BOOST_TEST(!r.lack.has_value());
    BOOST_TEST(r.message == "EVAL (GET, DEL) \"seat:7\": ERR unknown command 'EVAL'; the key stays "
                            "for its ttl");
}

BOOST_AUTO_TEST_CASE(where_a_native_compare_is_refused_a_script_takes_its_place) {
    struct {
        command c;
        dialect d;
        std::string_view error;
        rewording again;
    } const table[] = {
        {command::release, dialect::delifeq,
         "NOPERM User u has no permissions to run the "
         "'delifeq' command",
         rewording::by_script},
        {command::release, dialect::delifeq, "ERR unknown command 'DELIFEQ'", rewording::by_script},
        {command::release, dialect::delex,
         "NOPERM User u has no permissions to run the 'delex' "
         "command",
         rewording::by_script},
        {command::release, dialect::delifeq, "NOPERM No permissions to access a key",
         rewording::none},
        {command::release, dialect::delifeq, "NOREPLICAS no", rewording::none},
        {command::release, dialect::delex, "ERR command is not allowed", rewording::by_script},
        {command::release, dialect::delex, "ERR wrong number of arguments for 'delex' command",
         rewording::by_script},
        {command::release, dialect::delifeq, "ERR syntax error", rewording::by_script},
        {command::release, dialect::delifeq, "ERR this proxy does not pass on 'delifeq'",
         rewording::by_script},
        {command::release, dialect::delifeq, "LOADING the data set is read", rewording::none},
        {command::release, dialect::delifeq, "READONLY You can't write against a read only replica",
         rewording::none},
        {command::release, dialect::scripts, "ERR unknown command 'X'", rewording::whole_scripts},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.error) {
            auto const r = reply_to(row.c, {.dialect = row.d}, row.error);
            BOOST_TEST((r.again == row.again));
            BOOST_TEST((r.lack == holdfast::degradation::no_native_compare) ==
                       (row.again == rewording::by_script));
        }
    }
}

// Servers do not name the key, and in scripts not always the command.
BOOST_AUTO_TEST_CASE(a_command_that_is_forbidden_is_named_with_its_key) {
    std::string_view const script = "ERR The user executing the script can't run this command or "
                                    "subcommand script: a, on @user_script:1.";
    auto const release = reply_to(command::release, {}, script);
    BOOST_TEST((release.said.cause == errc::access_denied));
    BOOST_TEST(release.message == "EVALSHA (GET, DEL) \"seat:7\": " + std::string(script) +
                                      "; the key stays for its ttl");
    BOOST_TEST((release.lack == holdfast::degradation::no_release));
    auto const extend = reply_to(command::extend, {}, script);
    BOOST_TEST(extend.message.starts_with("EVALSHA (GET, PEXPIRE) \"seat:7\": "));
    BOOST_TEST((extend.lack == holdfast::degradation::no_extend));
    auto const fenced = reply_to(command::acquire, {}, script, true);
    BOOST_TEST(
        fenced.message.starts_with("EVALSHA (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"seat:7\": "));
    BOOST_TEST((fenced.lack == holdfast::degradation::no_fencing));
    auto const plain = reply_to(command::acquire, {}, "NOPERM No permissions to access a key");
    BOOST_TEST(plain.message == "SET \"seat:7\": NOPERM No permissions to access a key");
    BOOST_TEST((plain.lack == holdfast::degradation::no_acquire));
    // Other errors are shown unchanged.
    BOOST_TEST(reply_to(command::acquire, {}, "OOM no").message == "OOM no");
    BOOST_TEST(reply_to(command::acquire, {}, "MOVED 1 h:1").message ==
               "MOVED 1 h:1 (a node of a Cluster: its address must begin with redis+cluster)");
    BOOST_TEST(!reply_to(command::acquire, {}, "OOM no").lack.has_value());
}

BOOST_AUTO_TEST_CASE(a_question_that_is_forbidden_is_a_lack) {
    lock owner;
    secret_list const secrets;
    lock_reply reader;
    std::vector<holdfast::degradation> lacks;
    auto const take = [&](command c, std::vector<element> const& all, bool tracked) {
        auto left = static_cast<unsigned>(all.size());
        for (auto const& e : all) {
            reader.take({.kind = exclusive_key,
                         .command = c,
                         .words = {.tracked = tracked},
                         .fenced = false,
                         .owner = owner,
                         .secrets = secrets},
                        --left, e);
            if (reader.has_lack()) lacks.push_back(reader.take_lack().first);
        }
        return std::exchange(lacks, {});
    };
    using enum holdfast::degradation;
    auto const no = error("NOPERM no");
    auto const busy = error("BUSY a script runs");
    using list = std::vector<holdfast::degradation>;
    BOOST_TEST((take(command::inspect, {no, no, no}, false) ==
                list{no_expiry_times, no_type_check, no_holder_names}));
    BOOST_TEST((take(command::contend, {null, no, no}, true) == list{no_push, no_expiry_times}));
    BOOST_TEST((take(command::track, {no, no}, true) == list{no_push, no_expiry_times}));
    BOOST_TEST((take(command::inspect, {busy, busy, busy}, false) == list{}));
    BOOST_TEST((take(command::contend, {null, busy, busy}, true) == list{}));
    BOOST_TEST((take(command::inspect, {number("-1"), simple("list"), error("WRONGTYPE no")},
                     false) == list{}));
}

BOOST_AUTO_TEST_CASE(each_command_begins_anew) {
    auto r = to(command::acquire, error("READONLY no"));
    BOOST_TEST((r.reader().ends_session() == errc::read_only));
    r.take(command::contend, {null, ok, number("7")}, false, true);
    BOOST_TEST((r.reader().ends_session() == errc{}));
    BOOST_TEST(r->message.empty());
    BOOST_TEST(r->push_follows);
    r.take(command::acquire, {number("5")}, true);
    BOOST_TEST(!r->push_follows);
    BOOST_TEST(!r->ttl_known);
    BOOST_TEST(r->number == 5U);
    r.take(command::contend, {null, number("7")});
    BOOST_TEST(!r->push_follows);
    BOOST_TEST(r->number == 0U);
}

BOOST_AUTO_TEST_CASE(secrets_are_not_in_messages) {
    auto const r =
        to(command::extend, error("ERR unknown command 'x' hush! 0123456789abcdef, with args "
                                  "beginning with: 'hush'"));
    BOOST_TEST(r->message.ends_with("ERR unknown command 'x' ***! ***"), r->message);
    auto const i = replies(command::inspect, {number("1"), simple("hush"), null});
    BOOST_TEST(i->message == "the key holds a ***, not a lock");
}

// A server may name any number.
BOOST_AUTO_TEST_CASE(numbers_are_cut_so_that_arithmetic_has_room) {
    constexpr auto most = std::int64_t{1} << 53U;
    for (auto const& [text, number, time] :
         {std::tuple{"0", std::int64_t{0}, std::int64_t{0}},
          {"-2", -2, -2},
          {"3000000000001", 3'000'000'000'001, 3'000'000'000'000},
          {"9223372036854775807", most, 3'000'000'000'000},
          {"99999999999999999999999", most, 3'000'000'000'000},
          {"-9223372036854775808", -most, -3'000'000'000'000},
          {"-99999999999999999999999", -most, -3'000'000'000'000},
          {"x", 0, 0}}) {
        BOOST_TEST(number_of(text) == number, text);
        BOOST_TEST(milliseconds_of(text) == time, text);
    }
}

BOOST_AUTO_TEST_CASE(a_contender_hears_for_how_long_the_key_is_held) {
    auto const left = [](element const& e) { return replies(command::contend, {null, e}); };
    BOOST_TEST((left(number("0"))->ttl_left == 0ms));
    BOOST_TEST((left(number("1500"))->ttl_left == 1500ms));
    BOOST_TEST(left(number("1500"))->ttl_known);
    BOOST_TEST((left(number("1500"))->verdict == verdict::no));
    // -1: the key never expires.
    BOOST_TEST(left(number("-1"))->ttl_known);
    BOOST_TEST((left(number("-1"))->ttl_left == std::nullopt));
    // The key has gone, or the time is not known.
    for (auto const& e : {number("-2"), number("-3"), number("-9223372036854775808"), null, ok,
                          error("NOPERM no"), blob("5")}) {
        BOOST_TEST(!left(e)->ttl_known, e.value);
        BOOST_TEST((left(e)->ttl_left == std::nullopt));
        BOOST_TEST((left(e)->verdict == verdict::no));
    }
    // A time beyond the range of the client's clock is cut.
    BOOST_TEST((left(number("3000000000000"))->ttl_left == 3'000'000'000'000ms));
    BOOST_TEST((left(number("3000000000001"))->ttl_left == 3'000'000'000'000ms));
    BOOST_TEST((left(number("9223372036854775807"))->ttl_left == 3'000'000'000'000ms));
}

BOOST_AUTO_TEST_CASE(a_watch_tells_whether_the_key_is_there_and_whether_a_change_will_be_told) {
    replies const held(command::track, {ok, number("1500")}, false, true);
    BOOST_TEST((held->verdict == verdict::yes));
    BOOST_TEST(held->ttl_known);
    BOOST_TEST((held->ttl_left == 1'500ms));
    BOOST_TEST(held->push_follows);
    replies const gone(command::track, {ok, number("-2")}, false, true);
    BOOST_TEST((gone->verdict == verdict::yes));
    BOOST_TEST(!gone->ttl_known);
    replies const for_ever(command::track, {error("ERR no"), number("-1")}, false, true);
    BOOST_TEST((for_ever->verdict == verdict::yes));
    BOOST_TEST(for_ever->ttl_known);
    BOOST_TEST(!for_ever->ttl_left.has_value());
    BOOST_TEST(!for_ever->push_follows);
    BOOST_TEST(!replies(command::track, {number("5")})->push_follows);
}

// Otherwise a user without the right to read would take every key for free.
BOOST_AUTO_TEST_CASE(a_watch_that_is_refused_does_not_say_that_the_key_has_gone) {
    replies const r(command::track, {ok, error("NOPERM no")}, false, true);
    BOOST_TEST((r->verdict == verdict::refused));
    BOOST_TEST((r->cause == errc::access_denied));
    BOOST_TEST(!r->push_follows);
}

BOOST_AUTO_TEST_CASE(a_contender_is_told_of_a_change_only_if_the_server_agreed_and_could_read) {
    auto const push_follows = [](element const& caching, element const& pttl) {
        return replies(command::contend, {null, caching, pttl}, false, true)->push_follows;
    };
    BOOST_TEST(push_follows(ok, number("5")));
    BOOST_TEST(push_follows(ok, number("-2")));
    BOOST_TEST(!push_follows(error("ERR no"), number("5")));
    BOOST_TEST(!push_follows(ok, error("NOPERM no")));
    BOOST_TEST(!replies(command::contend, {null, number("5")})->push_follows);
}

// The server agrees, and its pushes do not arrive.
BOOST_AUTO_TEST_CASE(where_pushes_are_not_trusted_none_is_waited_for) {
    for (auto const trusted : {true, false}) {
        replies const contend(command::contend, {null, ok, number("5")}, false, true, trusted);
        BOOST_TEST(contend->push_follows == trusted);
        replies const tracked(command::track, {ok, number("5")}, false, true, trusted);
        BOOST_TEST(tracked->push_follows == trusted);
    }
}

BOOST_AUTO_TEST_CASE(a_contender_that_is_granted_the_key_may_not_read_it) {
    auto const r = replies(command::contend, {number("7"), error("NOPERM no")}, true);
    BOOST_TEST((r->verdict == verdict::yes));
    BOOST_TEST(r->number == 7U);
    BOOST_TEST(!r->ttl_known);
}

//
// Inspections
//

std::string const labelled = "me:0123456789abcdef0123456789abcdef";

BOOST_AUTO_TEST_CASE(an_inspection_shows_the_holder_of_a_lock) {
    auto const r = replies(command::inspect, {number("1500"), simple("string"), blob(labelled)});
    BOOST_TEST((r->verdict == verdict::yes));
    BOOST_TEST((r->ttl_left == 1500ms));
    BOOST_TEST(r->ttl_known);
    BOOST_TEST(r->holder == "me");
    // A value without a label, or a value that is no token, shows no holder.
    BOOST_TEST(
        replies(command::inspect, {number("1"), simple("string"), blob("x")})->holder.empty());
    BOOST_TEST(
        replies(command::inspect, {number("1"), simple("string"), blob("")})->holder.empty());
}

BOOST_AUTO_TEST_CASE(a_key_that_has_gone_is_no_obstacle) {
    for (auto const* const ttl : {"-2", "1500"}) { // with 1500, the key went after the PTTL
        auto const r = replies(command::inspect, {number(ttl), simple("none"), blob("")});
        BOOST_TEST((r->verdict == verdict::yes));
        BOOST_TEST(!r->ttl_known);
        BOOST_TEST((r->ttl_left == std::nullopt));
        BOOST_TEST(r->holder.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_key_that_holds_something_else_is_no_lock) {
    auto const r = replies(command::inspect, {number("-1"), simple("list"), error("WRONGTYPE no")});
    BOOST_TEST((r->verdict == verdict::refused));
    BOOST_TEST((r->cause == errc::wrong_type));
    BOOST_TEST(r->message == "the key holds a list, not a lock");
    BOOST_TEST(r->holder.empty());
    BOOST_TEST((r.reader().ends_session() == errc{}));
}

BOOST_AUTO_TEST_CASE(where_the_acl_forbids_to_look_the_key_counts_as_a_lock) {
    element const forbidden = error("NOPERM no");
    auto const nothing = replies(command::inspect, {forbidden, forbidden, forbidden});
    BOOST_TEST((nothing->verdict == verdict::yes));
    BOOST_TEST(!nothing->ttl_known);
    BOOST_TEST(nothing->holder.empty());
    auto const no_type = replies(command::inspect, {number("7"), forbidden, blob(labelled)});
    BOOST_TEST((no_type->verdict == verdict::yes));
    BOOST_TEST(no_type->holder == "me");
    auto const no_content = replies(command::inspect, {number("7"), simple("string"), forbidden});
    BOOST_TEST((no_content->verdict == verdict::yes));
    BOOST_TEST((no_content->ttl_left == 7ms));
    BOOST_TEST(no_content->holder.empty());
}

BOOST_AUTO_TEST_SUITE_END()
