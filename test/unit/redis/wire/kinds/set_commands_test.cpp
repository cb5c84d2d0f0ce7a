// The commands of a lock on several keys, and the answers that replies to them give.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/set_key.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test::kind_replies;
using namespace std::chrono_literals;
using holdfast::degradation;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;
using holdfast::test::contains;

namespace protocol = holdfast::protocol;

namespace {

constexpr std::array<std::string_view, 3> accounts{"acct:1", "acct:2", "{bank}:3"};
constexpr std::string_view our_token = "0123456789abcdef";

command_args transfer() {
    return {.key = "acct:1 acct:2 {bank}:3",
            .token = our_token,
            .ttl = 10'000ms,
            .keys = accounts,
            .watched = 1};
}
command_args fenced_transfer() {
    auto a = transfer();
    a.fence_ttl = 86'400'000ms;
    a.number = 17;
    return a;
}

element part(reply_type type, std::string_view text) {
    return {type, 1, text};
}
element const none = part(reply_type::number, "0");
element const second = part(reply_type::number, "2");
element const lives = part(reply_type::number, "1500");
element const text_type = part(reply_type::blob_string, "string");

struct replies : answer_of {
    replies(command c, std::vector<element> const& all, bool fenced = false, bool tracked = true)
        : answer_of(set_key, fenced ? fenced_transfer() : transfer(), c, all, fenced,
                    {.tracked = tracked}) {}
};

constexpr auto all_commands = {command::acquire, command::contend, command::heal,
                               command::extend,  command::raise,   command::release,
                               command::inspect, command::track};
// Those whose answer is one number, and names a key.
constexpr auto changes = {command::acquire, command::heal, command::extend, command::raise};

} // namespace

BOOST_AUTO_TEST_SUITE(set_commands)

BOOST_AUTO_TEST_CASE(a_script_gets_all_keys_and_then_the_token) {
    check_words(words_of(set_key, command::acquire, {}, transfer()),
                {"EVALSHA", "3", "acct:1", "acct:2", "{bank}:3", "0123456789abcdef", "10000"});
    check_words(words_of(set_key, command::extend, {}, transfer()),
                {"EVALSHA", "3", "acct:1", "acct:2", "{bank}:3", "0123456789abcdef", "10000"});
    check_words(words_of(set_key, command::release, {.whole_script = true}, transfer()),
                {"EVAL", "3", "acct:1", "acct:2", "{bank}:3", "0123456789abcdef"});
    // One byte more than a token has.
    check_words(words_of(set_key, command::inspect, {}, transfer()),
                {"EVALSHA", "3", "acct:1", "acct:2", "{bank}:3", "0123456789abcdef",
                 std::to_string(token::max_size + 1)});
}

BOOST_AUTO_TEST_CASE(the_counters_follow_the_keys) {
    words const keys{"EVALSHA",         "6",
                     "acct:1",          "acct:2",
                     "{bank}:3",        "{acct:1}:fence",
                     "{acct:2}:fence",  "{bank}:3:fence",
                     "0123456789abcdef"};
    auto taken = keys;
    taken.insert(taken.end(), {"10000", "17", "86400000"});
    check_words(words_of(set_key, command::acquire, {}, fenced_transfer()), taken);
    auto raised = keys;
    raised.insert(raised.end(), {"17", "86400000"});
    check_words(words_of(set_key, command::raise, {}, fenced_transfer()), raised);
}

// As those of the exclusive lock on the same key.
BOOST_AUTO_TEST_CASE(in_a_cluster_each_counter_has_the_slot_of_its_key) {
    constexpr std::array<std::string_view, 3> odd{"a}b", "{x}1", "y"};
    auto a = fenced_transfer();
    a.keys = odd;
    for (auto const c : {command::acquire, command::raise}) {
        auto const all = words_of(set_key, c, {.in_cluster = true}, a);
        for (std::size_t i = 0; i < odd.size(); ++i) {
            BOOST_TEST(protocol::hash_slot(all.at(5 + i)) == protocol::hash_slot(odd[i]));
            std::string name;
            name_fence_key(name, odd[i], true);
            BOOST_TEST(all.at(5 + i) == name);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_tokens_before_come_last_and_only_with_an_acquire) {
    words const before{"first", "", "third"};
    for (auto a : {transfer(), fenced_transfer()}) {
        auto const without = words_of(set_key, command::acquire, {}, a).size();
        a.prior = before;
        for (auto const c : {command::acquire, command::contend}) {
            auto const all = words_of(set_key, c, {}, a);
            BOOST_REQUIRE(all.size() >= without + 3);
            BOOST_TEST(all[without] == "first");
            BOOST_TEST(all[without + 1].empty());
            BOOST_TEST(all[without + 2] == "third");
        }
        // A heal that comes late would take the key from the tenure that follows.
        BOOST_TEST(words_of(set_key, command::heal, {}, a).size() == without);
    }
}

// The registration names the watched key alone, and CLIENT CACHING stands before its PTTL.
BOOST_AUTO_TEST_CASE(a_contender_registers_for_the_watched_key) {
    auto all = words_of(set_key, command::contend, {.tracked = true}, transfer());
    words const end{"CLIENT", "CACHING", "YES", "PTTL", "acct:2"};
    check_words(words_of(set_key, command::track, {.tracked = true}, transfer()), end);
    BOOST_REQUIRE(all.size() > end.size());
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(end.size()));
    check_words(all, end);
    check_words(words_of(set_key, command::track, {}, transfer()), {"PTTL", "acct:2"});
    BOOST_TEST(set_key.replies(command::contend, {.tracked = true}) == 3U);
    BOOST_TEST(set_key.replies(command::contend, {}) == 2U);
    BOOST_TEST(set_key.replies(command::track, {.tracked = true}) == 2U);
    BOOST_TEST(set_key.replies(command::inspect, {.tracked = true}) == 1U);
}

// A native deletion looks at one key.
BOOST_AUTO_TEST_CASE(a_release_is_a_script_on_every_server) {
    for (auto const d : {dialect::scripts, dialect::delifeq, dialect::delex})
        BOOST_TEST(words_of(set_key, command::release, {.dialect = d}, transfer()).front() ==
                   "EVALSHA");
}

BOOST_AUTO_TEST_CASE(all_scripts_can_be_loaded) {
    for (auto const c : all_commands) {
        if (c == command::track) continue;
        for (auto const& a : {transfer(), fenced_transfer()}) {
            codec::request r;
            set_key.encode(r, c, {.whole_script = true}, a);
            BOOST_TEST(std::ranges::any_of(set_key.scripts, [&](std::string_view text) {
                return contains(std::string(r.payload()), std::string(text));
            }));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_grant_and_the_key_that_stands_in_the_way) {
    for (auto const c : changes) {
        BOOST_TEST((replies(c, {number("1")})->verdict == verdict::yes));
        BOOST_TEST(replies(c, {number("1")})->obstacle == 0U);
        for (auto const* const key : {"1", "2", "3"}) {
            for (auto const fenced : {false, true}) {
                auto const minus = '-' + std::string(key);
                replies const refused(c, {number(minus)}, fenced);
                BOOST_TEST((refused->verdict == verdict::no));
                BOOST_TEST(std::to_string(refused->obstacle) == key);
            }
        }
    }
    replies const fenced(command::acquire, {number("28723000000016")}, true);
    BOOST_TEST((fenced->verdict == verdict::yes));
    BOOST_TEST(fenced->number == 28'723'000'000'016U);
    BOOST_TEST((replies(command::release, {number("1")})->verdict == verdict::yes));
    replies const of_a_part(command::release, {number("0")});
    BOOST_TEST((of_a_part->verdict == verdict::no));
    BOOST_TEST(of_a_part->obstacle == 0U);
}

BOOST_AUTO_TEST_CASE(a_contender_learns_the_time_of_the_watched_key) {
    replies const refused(command::contend, {number("-2"), ok, number("1500")});
    BOOST_TEST((refused->verdict == verdict::no));
    BOOST_TEST(refused->obstacle == 2U);
    BOOST_TEST(refused->ttl_known);
    BOOST_REQUIRE(refused->ttl_left.has_value());
    BOOST_TEST((*refused->ttl_left == 1'500ms));
    BOOST_TEST(refused->push_follows);
    // Another key stands in the way by now, and the watched one is gone.
    replies const other(command::contend, {number("-3"), ok, number("-2")});
    BOOST_TEST((other->verdict == verdict::no));
    BOOST_TEST(other->obstacle == 3U);
    BOOST_TEST(!other->ttl_known);
    replies const granted(command::contend, {number("1"), number("10000")}, false, false);
    BOOST_TEST((granted->verdict == verdict::yes));
    BOOST_TEST(!granted->push_follows);
    replies const numbered(command::contend, {number("18"), ok, number("10000")}, true);
    BOOST_TEST((numbered->verdict == verdict::yes));
    BOOST_TEST(numbered->number == 18U);
    replies const tracked(command::track, {ok, number("1500")});
    BOOST_TEST((tracked->verdict == verdict::yes));
    BOOST_TEST(tracked->push_follows);
}

BOOST_AUTO_TEST_CASE(without_pushes_a_contender_waits_for_none) {
    replies const refused(command::contend, {number("-1"), error("NOPERM no"), number("100")});
    BOOST_TEST((refused->verdict == verdict::no));
    BOOST_TEST(!refused->push_follows);
    BOOST_TEST((refused.lack == degradation::no_push));
    replies const blind(command::contend, {number("-1"), ok, error("NOPERM no")});
    BOOST_TEST(!blind->push_follows);
    BOOST_TEST((blind.lack == degradation::no_expiry_times));
}

BOOST_AUTO_TEST_CASE(an_inspection_shows_the_key_that_stands_in_the_way) {
    auto const text = "billing:0123456789abcdef0123456789abcdef";
    replies const held(command::inspect,
                       {array, second, lives, text_type, part(reply_type::blob_string, text)});
    BOOST_TEST((held->verdict == verdict::yes));
    BOOST_TEST(held->obstacle == 2U);
    BOOST_TEST(held->ttl_known);
    BOOST_TEST((held->ttl_left == 1'500ms));
    BOOST_TEST(held->holder == "billing");
    BOOST_TEST((held.reader().ends_session() == errc{}));
    replies const free(command::inspect, {array, none});
    BOOST_TEST((free->verdict == verdict::yes));
    BOOST_TEST(free->obstacle == 0U);
    BOOST_TEST(!free->ttl_known);
    BOOST_TEST(free->holder.empty());
    BOOST_TEST((free.reader().ends_session() == errc{}));
    replies const lasts(command::inspect, {array, second, part(reply_type::number, "-1"), text_type,
                                           part(reply_type::blob_string, "x")});
    BOOST_TEST(lasts->ttl_known);
    BOOST_TEST(!lasts->ttl_left.has_value());
}

BOOST_AUTO_TEST_CASE(an_inspection_names_the_key_that_is_no_lock) {
    auto const no_text = part(reply_type::blob_string, "");
    replies const hash(command::inspect,
                       {array, second, lives, part(reply_type::simple_string, "hash"), no_text});
    BOOST_TEST((hash->verdict == verdict::refused));
    BOOST_TEST((hash->cause == errc::wrong_type));
    BOOST_TEST(hash->message == "the key \"acct:2\" holds a hash, not a lock");
    BOOST_TEST(hash->obstacle == 2U);
    BOOST_TEST(hash->ttl_known);
    replies const hidden(command::inspect, {array, second, lives,
                                            part(reply_type::simple_error, "NOPERM no"), no_text});
    BOOST_TEST((hidden->cause == errc::wrong_type));
    BOOST_TEST(hidden->message == "the key \"acct:2\" holds another value, not a lock");
    BOOST_TEST((hidden.lack == degradation::no_type_check));
}

BOOST_AUTO_TEST_CASE(an_inspection_without_the_right_to_a_time) {
    replies const held(command::inspect,
                       {array, second, part(reply_type::simple_error, "NOPERM no"), text_type,
                        part(reply_type::blob_string, "x")});
    BOOST_TEST((held->verdict == verdict::yes));
    BOOST_TEST(!held->ttl_known);
    BOOST_TEST(held->obstacle == 2U);
    BOOST_TEST((held.lack == degradation::no_expiry_times));
}

// A script may have set keys before it failed. A script that was refused as a whole has not.
BOOST_AUTO_TEST_CASE(errors_of_scripts) {
    for (auto const fenced : {false, true}) {
        for (auto const c : {command::acquire, command::contend, command::heal}) {
            auto const answer_to = [&](std::string_view text) {
                std::vector<element> all{error(text)};
                if (c == command::contend) all.push_back(error(text));
                return replies(c, all, fenced, false);
            };
            BOOST_TEST((answer_to("OOM used memory")->verdict == verdict::unknown));
            BOOST_TEST((answer_to("NOPERM no keys")->verdict == verdict::refused));
            BOOST_TEST((answer_to("NOPERM no keys")->cause == errc::access_denied));
            BOOST_TEST((answer_to("NOSCRIPT no")->verdict == verdict::refused));
            BOOST_TEST((answer_to("NOSCRIPT no").reader().again() == rewording::whole_script));
        }
    }
    for (auto const c : {command::extend, command::raise, command::release, command::inspect}) {
        BOOST_TEST((replies(c, {error("OOM used memory")})->verdict == verdict::refused));
        BOOST_TEST(
            (replies(c, {error("NOSCRIPT no")}).reader().again() == rewording::whole_script));
    }
    replies const kept(command::release, {error("NOPERM no keys")});
    BOOST_TEST((kept->verdict == verdict::refused));
    BOOST_TEST(contains(std::string(kept->message), "EVALSHA (GET, DEL) \"acct:1 acct:2"));
    BOOST_TEST(contains(std::string(kept->message), "the keys stay for their ttl"));
    BOOST_TEST((kept.lack == degradation::no_release));
}

BOOST_AUTO_TEST_CASE(replies_that_no_server_gives_end_the_session) {
    for (auto const fenced : {false, true}) {
        for (auto const& odd :
             {number("0"), number("-4"), number("-9007199254740993"), null, ok,
              element{reply_type::blob_string, 0, "1"}, element{reply_type::boolean, 0, "t"},
              element{reply_type::doublean, 0, "1"}, element{reply_type::array, 0, {}},
              element{reply_type::big_number, 0, "-12345678901234567890123"}}) {
            for (auto const c : changes) {
                if (c == command::raise && odd.value == "0") continue;
                BOOST_TEST(replies(c, {odd}, fenced).is_nonsense());
            }
            BOOST_TEST(replies(command::contend, {odd, number("1")}, fenced, false).is_nonsense());
        }
    }
    for (auto const c : {command::extend, command::release, command::raise})
        BOOST_TEST(replies(c, {number("7")}).is_nonsense());
    BOOST_TEST(replies(command::release, {number("-1")}).is_nonsense());
    // 2^53: no counter has room for another number.
    BOOST_TEST(replies(command::acquire, {number("9007199254740992")}, true).is_nonsense());
}

BOOST_AUTO_TEST_CASE(odd_parts_of_an_inspection_end_the_session) {
    auto const value = part(reply_type::blob_string, "x");
    auto const nested = element{reply_type::number, 2, "1"};
    auto const list = part(reply_type::array, "");
    std::vector<std::vector<element>> const all{
        {array},
        {array, second},
        {array, second, lives},
        {array, second, lives, text_type},
        {array, second, lives, text_type, value, value},
        {array, none, none},
        {array, none, lives, text_type, value},
        {array, part(reply_type::number, "4"), lives, text_type, value},
        {array, part(reply_type::number, "-1"), lives, text_type, value},
        {array, part(reply_type::blob_string, "2"), lives, text_type, value},
        {array, list, nested, lives, text_type, value},
        {array, second, list, nested, text_type, value},
        {array, second, list, text_type, value},
        {array, second, value, text_type, value},
        {array, second, lives, lives, value},
        {array, second, lives, text_type, lives},
        {array, second, lives, text_type, list, nested},
        {array, second, lives, text_type, part(reply_type::simple_error, "ERR no")},
        {element{reply_type::map, 0, {}}, second, lives, text_type, value},
        {element{reply_type::set, 0, {}}, none},
        {number("0")},
        {null},
        {ok},
    };
    for (std::size_t i = 0; i < all.size(); ++i)
        BOOST_TEST(replies(command::inspect, all[i]).is_nonsense(), "reply " << i);
}

// Whatever comes, an answer names none but one of the keys, and has a cause if it is no yes or no.
BOOST_AUTO_TEST_CASE(random_elements_give_sound_answers) {
    std::vector<std::string> const texts{"",
                                         "0",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "-1",
                                         "-2",
                                         "-3",
                                         "-4",
                                         "string",
                                         "OK",
                                         "hash",
                                         "NOPERM x",
                                         "NOSCRIPT x",
                                         "OOM x",
                                         "WRONGTYPE x",
                                         "17",
                                         "9223372036854775807",
                                         "-9223372036854775808"};
    constexpr std::array types{reply_type::array,        reply_type::number,
                               reply_type::blob_string,  reply_type::simple_string,
                               reply_type::simple_error, reply_type::null,
                               reply_type::map,          reply_type::boolean,
                               reply_type::doublean,     reply_type::blob_error};
    std::mt19937_64 random(1);
    auto const below = [&](std::size_t n) { return random() % n; };
    for (auto run = 0; run < 20'000; ++run) {
        auto const c = *(all_commands.begin() + below(all_commands.size()));
        auto const tracked = below(2) == 0, fenced = below(2) == 0;
        std::vector<element> all;
        for (auto n = set_key.replies(c, {.tracked = tracked}); n > 0; --n) {
            auto const begin = below(4) == 0 || c == command::inspect ? reply_type::array
                                                                      : types[below(types.size())];
            auto const is_number = begin == reply_type::number;
            all.push_back(
                {begin, 0, is_number ? "-2" : std::string_view(texts[below(texts.size())])});
            for (auto parts = below(7); parts > 0; --parts) {
                auto const type = types[below(types.size())];
                std::string_view text = texts[below(texts.size())];
                if (type == reply_type::number && (text.empty() || number_of(text) == 0))
                    text = "2";
                all.push_back({type, 1 + below(8) / 7, text});
            }
        }
        replies const r(c, all, fenced, tracked);
        BOOST_REQUIRE(r->obstacle <= accounts.size());
        auto const done =
            r->verdict == verdict::yes || r->verdict == verdict::no || r->verdict == verdict::rival;
        BOOST_REQUIRE(done == (r->cause == errc{}));
        if (r->verdict == verdict::no && c != command::release) BOOST_REQUIRE(r->obstacle > 0);
        if (fenced && r->verdict == verdict::yes && c == command::acquire)
            BOOST_REQUIRE(r->number > 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()
