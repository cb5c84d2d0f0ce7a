// The commands of readers and writers, and the answers that replies to them give.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/token.hpp"

#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <set>
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

constexpr std::string_view our_token = "0123456789abcdef";

command_args page() {
    return {.key = "page:7",
            .token = our_token,
            .ttl = 10'000ms,
            .intent = "app:me",
            .waits = true,
            .readers_turn = 15ms};
}
command_args fenced_page() {
    auto a = page();
    a.fence_ttl = 86'400'000ms;
    a.number = 17;
    return a;
}

struct replies : answer_of {
    replies(lock_kind const& kind, command c, std::vector<element> const& all, bool fenced = false,
            wording w = {})
        : answer_of(kind, fenced ? fenced_page() : page(), c, all, fenced, w) {}
};

constexpr auto all_commands = {command::acquire, command::contend, command::heal,
                               command::extend,  command::raise,   command::release,
                               command::inspect, command::track,   command::survey};
constexpr auto acquires = {command::acquire, command::contend, command::heal};

std::vector<lock_kind const*> const kinds{&read_key, &write_key};

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_commands)

BOOST_AUTO_TEST_CASE(an_acquire_says_who_asks_and_whether_it_waits) {
    for (auto const* const kind : kinds) {
        words expected{"EVALSHA",          "4",
                       "page:7",           "{page:7}:readers",
                       "{page:7}:intent",  "{page:7}:turn",
                       "0123456789abcdef", "10000",
                       "app:me",           "wait"};
        check_words(words_of(*kind, command::acquire, {}, page()), expected);
        check_words(words_of(*kind, command::contend, {}, page()), expected);
        auto once = page();
        once.waits = false;
        expected.back() = "try";
        check_words(words_of(*kind, command::acquire, {}, once), expected);
        // It leaves no note, whoever waits in the queue.
        expected.back() = "heal";
        check_words(words_of(*kind, command::heal, {}, page()), expected);
        check_words(words_of(*kind, command::heal, {}, once), expected);
        words const fenced{"EVAL",
                           "5",
                           "page:7",
                           "{page:7}:fence",
                           "{page:7}:readers",
                           "{page:7}:intent",
                           "{page:7}:turn",
                           "0123456789abcdef",
                           "10000",
                           "17",
                           "86400000",
                           "app:me",
                           "wait"};
        check_words(words_of(*kind, command::acquire, {.whole_script = true}, fenced_page()),
                    fenced);
    }
}

BOOST_AUTO_TEST_CASE(the_commands_of_a_held_lease) {
    words const begin{
        "EVALSHA",         "4", "page:7", "{page:7}:readers", "{page:7}:intent", "{page:7}:turn",
        "0123456789abcdef"};
    auto const with = [&](words more) {
        auto all = begin;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    check_words(words_of(read_key, command::extend, {}, page()),
                {"EVALSHA", "2", "page:7", "{page:7}:readers", "0123456789abcdef", "10000"});
    check_words(words_of(read_key, command::release, {}, page()), with({"15"}));
    check_words(words_of(write_key, command::release, {}, page()), with({"15", "app:me"}));
    check_words(words_of(read_key, command::raise, {}, fenced_page()),
                {"EVALSHA", "5", "page:7", "{page:7}:fence", "{page:7}:readers", "{page:7}:intent",
                 "{page:7}:turn", "0123456789abcdef", "17", "86400000"});
    // No native deletion opens the turn of the readers.
    for (auto const* const kind : kinds) {
        for (auto const d : {dialect::scripts, dialect::delifeq, dialect::delex})
            BOOST_TEST(words_of(*kind, command::release, {.dialect = d}, page())[0] == "EVALSHA");
    }
}

// A writer has the key as an exclusive lock has it.
BOOST_AUTO_TEST_CASE(the_other_commands_are_those_of_an_exclusive_lock) {
    for (auto const c :
         {command::extend, command::raise, command::inspect, command::track, command::survey}) {
        for (auto const tracked : {false, true}) {
            check_words(words_of(write_key, c, {.tracked = tracked}, fenced_page()),
                        words_of(exclusive_key, c, {.tracked = tracked}, fenced_page()));
            BOOST_TEST(write_key.replies(c, {.tracked = tracked}) ==
                       exclusive_key.replies(c, {.tracked = tracked}));
            BOOST_TEST(read_key.replies(c, {.tracked = tracked}) ==
                       exclusive_key.replies(c, {.tracked = tracked}));
            if (c == command::extend || c == command::raise) continue;
            check_words(words_of(read_key, c, {.tracked = tracked}, fenced_page()),
                        words_of(exclusive_key, c, {.tracked = tracked}, fenced_page()));
        }
    }
}

// A server registers the caller for the keys that a script reads.
BOOST_AUTO_TEST_CASE(a_contender_registers_before_the_script) {
    for (auto const* const kind : kinds) {
        auto const all = words_of(*kind, command::contend, {.tracked = true}, page());
        BOOST_REQUIRE(all.size() > 4U);
        check_words({all.begin(), all.begin() + 4}, {"CLIENT", "CACHING", "YES", "EVALSHA"});
        check_words({all.begin() + 3, all.end()}, words_of(*kind, command::contend, {}, page()));
        BOOST_TEST(kind->replies(command::contend, {.tracked = true}) == 2U);
        BOOST_TEST(kind->replies(command::contend, {}) == 1U);
        for (auto const c : {command::acquire, command::heal}) {
            BOOST_TEST(words_of(*kind, c, {.tracked = true}, page())[0] == "EVALSHA");
            BOOST_TEST(kind->replies(c, {.tracked = true}) == 1U);
        }
    }
}

BOOST_AUTO_TEST_CASE(all_scripts_can_be_loaded) {
    for (auto const* const kind : kinds) {
        std::set<std::string_view> sent;
        for (auto const c : all_commands) {
            for (auto const& a : {page(), fenced_page()}) {
                codec::request r;
                kind->encode(r, c, {.whole_script = true}, a);
                auto const before = sent.size();
                auto known = !contains(std::string(r.payload()), "EVAL");
                for (auto const text : kind->scripts) {
                    if (!contains(std::string(r.payload()), std::string(text))) continue;
                    sent.insert(text);
                    known = true;
                }
                BOOST_TEST(known, before);
            }
        }
        BOOST_TEST(sent.size() == kind->scripts.size());
    }
}

// Each name belongs to one key, in one role.
BOOST_AUTO_TEST_CASE(no_two_keys_share_a_name_beside_them) {
    for (auto const in_cluster : {false, true}) {
        std::set<std::string> all;
        std::size_t expected = 0;
        for (std::string const key :
             {"a", "{a}", "{a}b", "a{b}", "{{a}", "b", "}", "a}", "a}b", "{}", "{}a", "", "a:own",
              "{a}:own", "a:readers", "{a}:readers", "{a}:intent", "{a}:turn", "{a}:fence"}) {
            companion_names names;
            name_companions(names, key, in_cluster);
            std::string line, fence;
            name_line(line, key, in_cluster);
            for (auto const& name : {names.readers, names.intent, names.turn, line}) {
                all.insert(name);
                ++expected;
                auto const same_slot = protocol::hash_slot(name) == protocol::hash_slot(key);
                if (in_cluster) BOOST_TEST(same_slot, key << ' ' << name);
            }
        }
        BOOST_TEST(all.size() == expected);
    }
    companion_names names;
    name_companions(names, "page:7", true);
    BOOST_TEST(names.readers == "{page:7}:readers");
    BOOST_TEST(names.intent == "{page:7}:intent");
    BOOST_TEST(names.turn == "{page:7}:turn");
    name_companions(names, "{page}:7", false);
    BOOST_TEST(names.readers == "{page}:7:readers:own");
    BOOST_TEST(names.intent == "{page}:7:intent:own");
    BOOST_TEST(names.turn == "{page}:7:turn:own");
    name_companions(names, "a}b", true);
    BOOST_TEST(names.turn.ends_with("}a}b:turn:slot"));
}

BOOST_AUTO_TEST_CASE(the_value_of_a_key_with_readers_reads_as_a_token) {
    BOOST_TEST(label_of(readers_value) == "readers");
}

BOOST_AUTO_TEST_CASE(a_grant) {
    for (auto const* const kind : kinds) {
        for (auto const c : acquires) {
            BOOST_TEST((replies(*kind, c, {number("1")})->verdict == verdict::yes));
            replies const fenced(*kind, c, {number("28723000000016")}, true);
            BOOST_TEST((fenced->verdict == verdict::yes));
            BOOST_TEST(fenced->number == 28'723'000'000'016U);
        }
        replies const tracked(*kind, command::contend, {ok, number("1")}, false, {.tracked = true});
        BOOST_TEST((tracked->verdict == verdict::yes));
        BOOST_TEST(!tracked->push_follows);
    }
}

BOOST_AUTO_TEST_CASE(a_refusal_tells_the_time_and_that_a_push_follows) {
    for (auto const* const kind : kinds) {
        for (auto const c : acquires) {
            for (auto const fenced : {false, true}) {
                replies const held(*kind, c, {number("-1503")}, fenced);
                BOOST_TEST((held->verdict == verdict::no));
                BOOST_TEST(held->ttl_known);
                BOOST_REQUIRE(held->ttl_left.has_value());
                BOOST_TEST((*held->ttl_left == 1'500ms));
                BOOST_TEST(!held->push_follows);
                replies const over(*kind, c, {number("-3")}, fenced);
                BOOST_TEST((over->ttl_left == 0ms));
                replies const lasts(*kind, c, {number("-2")}, fenced);
                BOOST_TEST((lasts->verdict == verdict::no));
                BOOST_TEST(lasts->ttl_known);
                BOOST_TEST(!lasts->ttl_left.has_value());
                replies const far(*kind, c, {number("-9223372036854775808")}, fenced);
                BOOST_TEST((far->verdict == verdict::no));
                BOOST_TEST((*far->ttl_left < std::chrono::hours(24 * 365 * 101)));
            }
        }
        replies const tracked(*kind, command::contend, {ok, number("-1503")}, false,
                              {.tracked = true});
        BOOST_TEST(tracked->push_follows);
        BOOST_TEST(!tracked.lack);
        replies const untracked(*kind, command::contend, {error("NOPERM no"), number("-1503")},
                                false, {.tracked = true});
        BOOST_TEST((untracked->verdict == verdict::no));
        BOOST_TEST(!untracked->push_follows);
        BOOST_TEST((untracked.lack == degradation::no_push));
    }
}

BOOST_AUTO_TEST_CASE(what_is_done_with_a_held_lease) {
    for (auto const c : {command::extend, command::raise, command::release}) {
        for (auto const* const kind : kinds) {
            BOOST_TEST((replies(*kind, c, {number("1")}, true)->verdict == verdict::yes));
            BOOST_TEST((replies(*kind, c, {number("0")}, true)->verdict == verdict::no));
        }
    }
    // The key, or one beside it, is another program's.
    for (auto const c : {command::extend, command::release, command::heal, command::raise}) {
        replies const gone(read_key, c, {error("WRONGTYPE no")});
        BOOST_TEST((gone->verdict == verdict::no));
        BOOST_TEST((gone.reader().ends_session() == errc{}));
    }
    for (auto const c : {command::release, command::heal})
        BOOST_TEST((replies(write_key, c, {error("WRONGTYPE no")})->verdict == verdict::no));
}

BOOST_AUTO_TEST_CASE(a_reply_that_no_server_gives_ends_the_session) {
    for (auto const* const kind : kinds) {
        for (auto const c : acquires) {
            for (auto const& odd : {number("0"), number("-1"), number("2"), null, ok, array,
                                    element{reply_type::blob_string, 0, "1"}})
                BOOST_TEST(replies(*kind, c, {odd}).is_nonsense());
            for (auto const& odd : {number("0"), number("-1"), number("9007199254740993"), null, ok,
                                    array, element{reply_type::blob_string, 0, "1"}})
                BOOST_TEST(replies(*kind, c, {odd}, true).is_nonsense());
        }
        for (auto const& odd : {number("2"), number("-1"), number(""), null, ok, array})
            BOOST_TEST(replies(*kind, command::release, {odd}).is_nonsense());
    }
    for (auto const c : {command::extend, command::raise}) {
        for (auto const& odd : {number("2"), number("-1"), null, ok, array})
            BOOST_TEST(replies(read_key, c, {odd}).is_nonsense());
    }
    // Parts of an array are no replies.
    replies const parts(read_key, command::acquire,
                        {array, {reply_type::number, 1, "1"}, {reply_type::number, 1, "1"}});
    BOOST_TEST(parts.is_nonsense());
}

BOOST_AUTO_TEST_CASE(errors_say_what_the_server_refused) {
    for (auto const* const kind : kinds) {
        auto const reads = kind == &read_key;
        replies const denied(*kind, command::acquire,
                             {error("NOPERM User app has no permissions to run the 'evalsha' "
                                    "command")});
        BOOST_TEST((denied->verdict == verdict::refused));
        BOOST_TEST((denied->cause == errc::access_denied));
        BOOST_TEST((denied.reader().again() == rewording::whole_scripts));
        BOOST_TEST(contains(std::string(denied->message), "\"page:7\""), denied->message);
        // A command within the script, which may have written before.
        auto const within = "ERR ACL failure in script: User app has no permissions to run the "
                            "'time' command script: x, on @user_script:1.";
        replies const inside(*kind, command::acquire, {error(within)});
        BOOST_TEST((inside->verdict == verdict::unknown));
        BOOST_TEST((inside->cause == errc::access_denied));
        BOOST_TEST((inside.lack == degradation::no_acquire));
        BOOST_TEST(contains(std::string(inside->message),
                            reads ? "EVALSHA (GET, ZCARD, TIME, PTTL, ZSCORE, ZADD, PEXPIRE, SET, "
                                    "DEL) \"page:7\""
                                  : "EVALSHA (GET, ZRANGE, TIME, PTTL, DEL, SET) \"page:7\""),
                   inside->message);
        replies const fenced(*kind, command::acquire, {error(within)}, true);
        BOOST_TEST((fenced.lack == degradation::no_fencing));
        replies const unknown(*kind, command::contend, {ok, error("NOSCRIPT no")}, false,
                              {.tracked = true});
        BOOST_TEST((unknown->verdict == verdict::refused));
        BOOST_TEST((unknown.reader().again() == rewording::whole_script));
        replies const again(*kind, command::contend, {ok, error(within)}, false,
                            {.tracked = true, .whole_script = true});
        BOOST_TEST(contains(std::string(again->message), "EVAL ("), again->message);
        replies const loading(*kind, command::heal, {error("LOADING no")});
        BOOST_TEST((loading->verdict == verdict::unknown));
        BOOST_TEST(!loading.lack);
        replies const stays(*kind, command::release, {error(within)});
        BOOST_TEST((stays->verdict == verdict::refused));
        BOOST_TEST((stays.lack == degradation::no_release));
        BOOST_TEST(std::string(stays->message).ends_with("; the key stays for its ttl"),
                   stays->message);
        // Also on a server that would compare natively.
        replies const native(*kind, command::release, {error("ERR syntax error")}, false,
                             {.dialect = dialect::delifeq});
        BOOST_TEST((native->verdict == verdict::refused));
        BOOST_TEST((native.reader().again() == rewording::none));
        BOOST_TEST(!native.lack);
    }
    replies const extend(read_key, command::extend, {error("NOPERM 'pexpire'")});
    BOOST_TEST((extend->verdict == verdict::refused));
    BOOST_TEST((extend.lack == degradation::no_extend));
}

BOOST_AUTO_TEST_CASE(a_key_beside_it_of_another_type_is_told) {
    for (auto const* const kind : kinds) {
        for (auto const c : {command::acquire, command::contend}) {
            replies const r(*kind, c,
                            {error("WRONGTYPE Operation against a key holding the wrong kind of "
                                   "value script: x, on @user_script:1.")});
            BOOST_TEST((r->verdict == verdict::refused));
            BOOST_TEST((r->cause == errc::wrong_type));
            BOOST_TEST(contains(std::string(r->message), "a key beside \"page:7\""), r->message);
        }
    }
}

BOOST_AUTO_TEST_CASE(messages_have_no_secrets) {
    for (auto const* const kind : kinds) {
        for (auto const* const text : {"ERR no 0123456789abcdef hush",
                                       "WRONGTYPE 0123456789abcdef "
                                       "hush",
                                       "NOPERM 0123456789abcdef hush"}) {
            replies const r(*kind, command::acquire, {error(text)});
            std::string const message(r->message);
            BOOST_TEST(!message.empty());
            BOOST_TEST(!contains(message, "hush"), message);
            BOOST_TEST(!contains(message, std::string(our_token)), message);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
