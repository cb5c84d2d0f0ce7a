// The commands of a semaphore, and the answers that replies to them give.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/token.hpp"

#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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

command_args workers() {
    return {.key = "workers", .token = our_token, .ttl = 10'000ms, .permits = 10, .start = 7};
}
command_args fenced_workers() {
    auto a = workers();
    a.fence_ttl = 86'400'000ms;
    a.number = 17;
    return a;
}

/// The same tenure when it has a slot.
command_args holding(command_args a, std::optional<std::uint16_t> slot = 3) {
    a.slot = slot;
    return a;
}

element part(std::string_view number) {
    return {reply_type::number, 1, number};
}
element text_part(std::string_view text) {
    return {reply_type::blob_string, 1, text};
}

struct replies : answer_of {
    /// `slot`: that the tenure has already.
    replies(command c, std::vector<element> const& all, bool fenced = false, wording w = {},
            std::optional<std::uint16_t> slot = {})
        : answer_of(permit_key, holding(fenced ? fenced_workers() : workers(), slot), c, all,
                    fenced, w) {}
};

/// A release without a token.
verdict forced(element const& reply) {
    command_args const all{.key = "workers", .token = {}};
    return answer_of(permit_key, all, command::release, {reply}, false, {})->verdict;
}

constexpr auto all_commands = {command::acquire, command::contend, command::heal,
                               command::extend,  command::raise,   command::release,
                               command::inspect, command::track,   command::survey};
constexpr auto takes = {command::acquire, command::contend, command::heal};
constexpr wording tracked{.tracked = true};

constexpr std::string_view label_and_random = "worker-7:0123456789abcdef0123456789abcdef";

} // namespace

BOOST_AUTO_TEST_SUITE(permit_commands)

BOOST_AUTO_TEST_CASE(a_take_names_the_slot_at_which_it_begins) {
    words const plain{"EVALSHA", "2", "workers", "{workers}:until", std::string(our_token), "10000",
                      "10",      "7", "from"};
    words const fenced{"EVAL",
                       "3",
                       "workers",
                       "{workers}:until",
                       "{workers}:fences",
                       std::string(our_token),
                       "10000",
                       "10",
                       "7",
                       "from",
                       "17",
                       "86400000"};
    for (auto const c : takes) {
        check_words(words_of(permit_key, c, {}, workers()), plain);
        check_words(words_of(permit_key, c, {.whole_script = true}, fenced_workers()), fenced);
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_with_a_slot_takes_no_other) {
    for (auto const c : takes) {
        check_words(words_of(permit_key, c, {}, holding(workers())),
                    {"EVALSHA", "2", "workers", "{workers}:until", std::string(our_token), "10000",
                     "10", "3", "only"});
        auto const fenced = words_of(permit_key, c, {}, holding(fenced_workers(), 0));
        check_words({fenced.begin() + 8, fenced.end()}, {"0", "only", "17", "86400000"});
    }
}

BOOST_AUTO_TEST_CASE(the_commands_of_a_held_lease) {
    words const begin{"EVALSHA", "2", "workers", "{workers}:until", std::string(our_token)};
    auto const with = [&](words more) {
        auto all = begin;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    for (auto const& a : {holding(workers()), holding(fenced_workers())}) {
        check_words(words_of(permit_key, command::extend, {}, a), with({"10000", "3"}));
        check_words(words_of(permit_key, command::release, {}, a), begin);
        check_words(words_of(permit_key, command::inspect, tracked, a), with({"10", "64"}));
        check_words(words_of(permit_key, command::track, {}, a), with({"10", "64"}));
    }
    check_words(words_of(permit_key, command::raise, {}, holding(fenced_workers())),
                {"EVALSHA", "3", "workers", "{workers}:until", "{workers}:fences",
                 std::string(our_token), "17", "86400000", "3"});
    // No native deletion removes a token.
    for (auto const d : {dialect::scripts, dialect::delifeq, dialect::delex})
        check_words(words_of(permit_key, command::release, {.dialect = d}, workers()), begin);
    check_words(words_of(permit_key, command::survey, {}, workers()),
                words_of(exclusive_key, command::survey, {}, workers()));
}

// A server registers the caller for the keys that a script reads.
BOOST_AUTO_TEST_CASE(who_tracks_the_key_registers_before_the_script) {
    for (auto const c : {command::contend, command::track}) {
        auto const all = words_of(permit_key, c, tracked, workers());
        BOOST_REQUIRE(all.size() > 4U);
        check_words({all.begin(), all.begin() + 4}, {"CLIENT", "CACHING", "YES", "EVALSHA"});
        check_words({all.begin() + 3, all.end()}, words_of(permit_key, c, {}, workers()));
        BOOST_TEST(permit_key.replies(c, {.tracked = true}) == 2U);
        BOOST_TEST(permit_key.replies(c, {}) == 1U);
    }
    for (auto const c : {command::acquire, command::heal, command::extend, command::raise,
                         command::release, command::inspect}) {
        BOOST_TEST(words_of(permit_key, c, tracked, workers())[0] == "EVALSHA");
        BOOST_TEST(permit_key.replies(c, {.tracked = true}) == 1U);
    }
}

BOOST_AUTO_TEST_CASE(all_scripts_can_be_loaded) {
    std::set<std::string_view> sent;
    for (auto const c : all_commands) {
        for (auto const& a : {workers(), fenced_workers()}) {
            codec::request r;
            permit_key.encode(r, c, {.whole_script = true}, a);
            auto known = !contains(std::string(r.payload()), "EVAL");
            for (auto const text : permit_key.scripts) {
                if (!contains(std::string(r.payload()), std::string(text))) continue;
                sent.insert(text);
                known = true;
            }
            BOOST_TEST(known);
        }
    }
    BOOST_TEST(sent.size() == permit_key.scripts.size());
}

// Each name belongs to one key, in one role.
BOOST_AUTO_TEST_CASE(no_two_keys_share_a_name_beside_them) {
    for (auto const in_cluster : {false, true}) {
        std::set<std::string> all;
        std::size_t expected = 0;
        for (std::string const key :
             {"a", "{a}", "{a}b", "a{b}", "{{a}", "b", "}", "a}", "a}b", "{}", "{}a", "", "a:own",
              "{a}:own", "a:until", "{a}:until", "{a}:fences", "{a}:fence", "{a}:readers"}) {
            permit_names names;
            name_permit_keys(names, key, in_cluster);
            companion_names readers;
            name_companions(readers, key, in_cluster);
            std::string line;
            name_line(line, key, in_cluster);
            for (auto const& name :
                 {names.until, names.fences, readers.readers, readers.intent, readers.turn, line}) {
                all.insert(name);
                ++expected;
                auto const same_slot = protocol::hash_slot(name) == protocol::hash_slot(key);
                if (in_cluster) BOOST_TEST(same_slot, key << ' ' << name);
            }
        }
        BOOST_TEST(all.size() == expected);
    }
    permit_names names;
    name_permit_keys(names, "workers", true);
    BOOST_TEST(names.until == "{workers}:until");
    BOOST_TEST(names.fences == "{workers}:fences");
    name_permit_keys(names, "{a}workers", false);
    BOOST_TEST(names.until == "{a}workers:until:own");
    BOOST_TEST(names.fences == "{a}workers:fences:own");
    name_permit_keys(names, "a}b", true);
    BOOST_TEST(names.fences.ends_with("}a}b:fences:slot"));
}

BOOST_AUTO_TEST_CASE(a_grant) {
    for (auto const c : takes) {
        for (auto const slot : {0U, 7U, 9U}) {
            auto const text = std::to_string(slot);
            replies const plain(c, {number(text)});
            BOOST_TEST((plain->verdict == verdict::yes));
            BOOST_TEST(plain->slot == slot);
            replies const fenced(c, {array, part(text), part("28723000000016")}, true);
            BOOST_TEST((fenced->verdict == verdict::yes));
            BOOST_TEST((fenced->cause == errc{}));
            BOOST_TEST((fenced.reader().ends_session() == errc{}));
            BOOST_TEST(fenced->slot == slot);
            BOOST_TEST(fenced->number == 28'723'000'000'016U);
        }
    }
    replies const contender(command::contend, {ok, number("3")}, false, tracked);
    BOOST_TEST((contender->verdict == verdict::yes));
    BOOST_TEST(contender->slot == 3U);
    BOOST_TEST(!contender->push_follows);
    replies const fenced(command::contend, {ok, array, part("3"), part("9")}, true, tracked);
    BOOST_TEST((fenced->verdict == verdict::yes));
    BOOST_TEST(fenced->number == 9U);
}

BOOST_AUTO_TEST_CASE(a_slot_beyond_the_permits_is_nonsense) {
    for (auto const c : takes) {
        for (std::string_view const slot : {"10", "4095", "9223372036854775807"}) {
            BOOST_TEST(replies(c, {number(slot)}).is_nonsense());
            BOOST_TEST(replies(c, {array, part(slot), part("9")}, true).is_nonsense());
        }
        // The tenure may be that of another lock by now.
        BOOST_TEST(replies(c, {number("12")}, false, {}, 2)->slot == 12U);
    }
}

BOOST_AUTO_TEST_CASE(a_refusal_tells_the_time_and_that_a_push_follows) {
    for (auto const c : takes) {
        for (auto const fenced : {false, true}) {
            replies const full(c, {number("-1503")}, fenced);
            BOOST_TEST((full->verdict == verdict::no));
            BOOST_TEST(full->ttl_known);
            BOOST_REQUIRE(full->ttl_left.has_value());
            BOOST_TEST((*full->ttl_left == 1'500ms));
            BOOST_TEST(!full->push_follows);
            BOOST_TEST((replies(c, {number("-3")}, fenced)->ttl_left == 0ms));
            replies const lasts(c, {number("-2")}, fenced);
            BOOST_TEST((lasts->verdict == verdict::no));
            BOOST_TEST(lasts->ttl_known);
            BOOST_TEST(!lasts->ttl_left.has_value());
            replies const far(c, {number("-9223372036854775808")}, fenced);
            BOOST_TEST((far->verdict == verdict::no));
            BOOST_TEST((*far->ttl_left < std::chrono::hours(24 * 365 * 101)));
        }
    }
    replies const registered(command::contend, {ok, number("-1503")}, true, tracked);
    BOOST_TEST(registered->push_follows);
    BOOST_TEST(!registered.lack);
    replies const unregistered(command::contend, {error("NOPERM no"), number("-1503")}, false,
                               tracked);
    BOOST_TEST((unregistered->verdict == verdict::no));
    BOOST_TEST(!unregistered->push_follows);
    BOOST_TEST((unregistered.lack == degradation::no_push));
}

BOOST_AUTO_TEST_CASE(what_is_done_with_a_held_lease) {
    for (auto const c : {command::extend, command::raise, command::release}) {
        BOOST_TEST((replies(c, {number("1")}, true)->verdict == verdict::yes));
        BOOST_TEST((replies(c, {number("0")}, true)->verdict == verdict::no));
        // The key, or one beside it, is another program's.
        replies const gone(c, {error("WRONGTYPE no")}, true);
        BOOST_TEST((gone->verdict == verdict::no));
        BOOST_TEST((gone.reader().ends_session() == errc{}));
    }
    BOOST_TEST((replies(command::heal, {error("WRONGTYPE no")})->verdict == verdict::no));
}

// Whatever the tokens are. The counters stay, because fences must go on from them.
BOOST_AUTO_TEST_CASE(a_release_without_a_token_ends_all_permits) {
    auto all = fenced_workers();
    all.token = {};
    check_words(words_of(permit_key, command::release, {}, all),
                {"DEL", "workers", "{workers}:until"});
    BOOST_TEST((forced(number("2")) == verdict::yes));
    BOOST_TEST((forced(number("1")) == verdict::yes));
    BOOST_TEST((forced(number("0")) == verdict::no));
    BOOST_TEST((forced(number("-1")) == verdict::unknown));
    BOOST_TEST((forced(null) == verdict::unknown));
    BOOST_TEST((forced(error("NOPERM 'del'")) == verdict::refused));
}

BOOST_AUTO_TEST_CASE(our_token_has_another_slot_than_ours) {
    for (auto const c : {command::extend, command::raise}) {
        for (auto const slot : {0U, 4U, holdfast::max_permits - 1}) {
            auto const text = std::to_string(-1 - static_cast<int>(slot));
            replies const other(c, {number(text)});
            BOOST_TEST((other->verdict == verdict::other));
            BOOST_TEST(other->slot == slot);
        }
    }
    BOOST_TEST(replies(command::release, {number("-1")}).is_nonsense());
}

BOOST_AUTO_TEST_CASE(a_look_at_a_semaphore) {
    replies const full(command::inspect,
                       {array, part("-1503"), text_part(label_and_random), text_part("zset")});
    BOOST_TEST((full->verdict == verdict::yes));
    BOOST_TEST((full->cause == errc{}));
    BOOST_TEST((full.reader().ends_session() == errc{}));
    BOOST_TEST(full->ttl_known);
    BOOST_TEST((full->ttl_left == 1'500ms));
    BOOST_TEST(full->holder == "worker-7");
    replies const unnamed(command::inspect, {array, part("-2"), text_part(""), text_part("zset")});
    BOOST_TEST((unnamed->verdict == verdict::yes));
    BOOST_TEST(unnamed->ttl_known);
    BOOST_TEST(!unnamed->ttl_left);
    BOOST_TEST(unnamed->holder.empty());
    replies const free(command::inspect, {array, part("0"), text_part(""), text_part("zset")});
    BOOST_TEST((free->verdict == verdict::yes));
    BOOST_TEST(!free->ttl_known);
    for (auto const& [reply, known] : {std::pair{"-1503", true}, std::pair{"0", false}}) {
        replies const seen(command::track,
                           {ok, array, part(reply), text_part(label_and_random), text_part("zset")},
                           false, tracked);
        BOOST_TEST((seen->verdict == verdict::yes));
        BOOST_TEST(seen->push_follows);
        BOOST_TEST(seen->ttl_known == known);
    }
    replies const unregistered(
        command::track, {error("NOPERM no"), array, part("0"), text_part(""), text_part("zset")},
        false, tracked);
    BOOST_TEST((unregistered->verdict == verdict::yes));
    BOOST_TEST(!unregistered->push_follows);
    BOOST_TEST((unregistered.lack == degradation::no_push));
}

BOOST_AUTO_TEST_CASE(a_key_of_another_kind_is_told) {
    replies const lock(command::inspect,
                       {array, part("-1503"), text_part(label_and_random), text_part("string")});
    BOOST_TEST((lock->verdict == verdict::refused));
    BOOST_TEST((lock->cause == errc::wrong_type));
    BOOST_TEST(lock->message ==
               "the key is that of another kind of lock, of worker-7, not of a semaphore");
    replies const text(command::inspect,
                       {array, part("-2"), text_part("text"), text_part("string")});
    BOOST_TEST(text->message == "the key is that of another kind of lock, not of a semaphore");
    replies const list(command::inspect, {array, part("-2"), text_part(""), text_part("list")});
    BOOST_TEST((list->cause == errc::wrong_type));
    BOOST_TEST(list->message == "the key holds a list, not a semaphore");
    for (auto const c : {command::acquire, command::contend, command::inspect, command::track}) {
        replies const beside(c, {error("WRONGTYPE Operation against a key holding the wrong kind "
                                       "of value script: x, on @user_script:1.")});
        BOOST_TEST((beside->verdict == verdict::refused));
        BOOST_TEST((beside->cause == errc::wrong_type));
        BOOST_TEST(contains(std::string(beside->message), "a key beside \"workers\""),
                   beside->message);
    }
}

BOOST_AUTO_TEST_CASE(a_reply_that_no_server_gives_ends_the_session) {
    element const text{reply_type::blob_string, 0, "1"};
    for (auto const c : takes) {
        for (auto const& odd :
             {number("-1"), number("10000"), number("9007199254740993"), null, ok, array, text})
            BOOST_TEST(replies(c, {odd}).is_nonsense());
        for (auto const& odd : {number("0"), number("7"), number("-1"), null, ok, array, text})
            BOOST_TEST(replies(c, {odd}, true).is_nonsense());
        // Parts of an array are no replies to a command without fences.
        BOOST_TEST(replies(c, {array, part("1"), part("1")}).is_nonsense());
        BOOST_TEST(replies(c, {number("-1"), part("1"), part("1")}).is_nonsense());
        using parts = std::vector<element>;
        element const inner{reply_type::array, 1, {}}, deep{reply_type::number, 2, "1"};
        for (auto const& odd :
             {parts{part("1")}, parts{part("1"), part("0")}, parts{part("1"), part("-1")},
              parts{part("10000"), part("1")}, parts{part("-1"), part("1")},
              parts{part("1"), part("9007199254740993")}, parts{part("1"), text_part("1")},
              parts{text_part("1"), part("1")}, parts{part("1"), part("1"), part("1")},
              parts{part("1"), part("1"), part("1"), part("1")}, parts{inner, deep, deep},
              parts{part("1"), inner, deep, part("1")}}) {
            auto all = odd;
            all.insert(all.begin(), array);
            BOOST_TEST(replies(c, all, true).is_nonsense());
        }
    }
    for (auto const c : {command::extend, command::raise, command::release}) {
        for (auto const& odd : {number("2"), number("-10001"), number("-9223372036854775808"),
                                number(""), null, ok, array, text})
            BOOST_TEST(replies(c, {odd}).is_nonsense());
        BOOST_TEST(replies(c, {array, part("1")}).is_nonsense());
    }
    for (auto const c : {command::inspect, command::track}) {
        using parts = std::vector<element>;
        element const inner{reply_type::array, 1, {}};
        auto const zset = text_part("zset"), token = text_part("t");
        for (auto const& odd :
             {parts{}, parts{part("-9")}, parts{part("-9"), token},
              parts{part("-9"), token, zset, zset}, parts{part("1"), token, zset},
              parts{part("-1"), token, zset}, parts{token, token, zset},
              parts{part("-9"), part("1"), zset}, parts{part("-9"), token, part("1")},
              parts{inner, token, zset}, parts{part("-9"), inner, zset}}) {
            auto all = odd;
            all.insert(all.begin(), array);
            BOOST_TEST(replies(c, all).is_nonsense());
        }
        for (auto const& odd : {number("0"), number("-9"), null, ok, text})
            BOOST_TEST(replies(c, {odd}).is_nonsense());
    }
}

BOOST_AUTO_TEST_CASE(errors_say_what_the_server_refused) {
    replies const denied(command::acquire,
                         {error("NOPERM User app has no permissions to run the 'evalsha' "
                                "command")});
    BOOST_TEST((denied->verdict == verdict::refused));
    BOOST_TEST((denied->cause == errc::access_denied));
    BOOST_TEST((denied.reader().again() == rewording::whole_scripts));
    BOOST_TEST(contains(std::string(denied->message), "\"workers\""), denied->message);
    // A command within the script, which may have written before.
    auto const within = "ERR ACL failure in script: User app has no permissions to run the "
                        "'time' command script: x, on @user_script:1.";
    for (auto const c : takes) {
        replies const inside(c, {error(within)});
        BOOST_TEST((inside->verdict == verdict::unknown));
        BOOST_TEST((inside->cause == errc::access_denied));
        BOOST_TEST((inside.lack == degradation::no_acquire));
        BOOST_TEST(contains(std::string(inside->message),
                            "EVALSHA (TIME, ZCARD, ZCOUNT, ZSCORE, ZRANGE, ZRANGEBYSCORE, ZADD, "
                            "ZREM, PTTL, PEXPIRE) \"workers\""),
                   inside->message);
        BOOST_TEST((replies(c, {error(within)}, true).lack == degradation::no_fencing));
    }
    replies const counter(command::acquire, {error("FENCE no fence can follow")}, true);
    BOOST_TEST((counter->cause == errc::invalid_fence));
    replies const unknown(command::contend, {ok, error("NOSCRIPT no")}, true, tracked);
    BOOST_TEST((unknown->verdict == verdict::refused));
    BOOST_TEST((unknown.reader().again() == rewording::whole_script));
    replies const again(command::contend, {ok, error(within)}, false,
                        {.tracked = true, .whole_script = true});
    BOOST_TEST(contains(std::string(again->message), "EVAL ("), again->message);
    replies const loading(command::heal, {error("LOADING no")});
    BOOST_TEST((loading->verdict == verdict::unknown));
    BOOST_TEST(!loading.lack);
    replies const stays(command::release, {error(within)});
    BOOST_TEST((stays->verdict == verdict::refused));
    BOOST_TEST((stays.lack == degradation::no_release));
    BOOST_TEST(std::string(stays->message).ends_with("; the permit stays taken for its ttl"),
               stays->message);
    replies const extend(command::extend, {error("NOPERM 'pexpire'")});
    BOOST_TEST((extend->verdict == verdict::refused));
    BOOST_TEST((extend.lack == degradation::no_extend));
    // Reports and waiting do without.
    for (auto const c : {command::inspect, command::track}) {
        replies const hidden(c, {error(within)});
        BOOST_TEST((hidden->verdict == verdict::refused));
        BOOST_TEST((hidden->cause == errc::access_denied));
        BOOST_TEST((hidden.lack == degradation::no_expiry_times));
        replies const unsent(c, {error("NOSCRIPT no")});
        BOOST_TEST((unsent.reader().again() == rewording::whole_script));
        BOOST_TEST(!unsent.lack);
        replies const uncached(c, {error("NOPERM User app has no permissions to run the "
                                         "'evalsha' command")});
        BOOST_TEST((uncached.lack == degradation::no_script_cache));
    }
}

BOOST_AUTO_TEST_CASE(messages_have_no_secrets) {
    for (auto const* const text :
         {"ERR no 0123456789abcdef hush", "WRONGTYPE 0123456789abcdef hush",
          "NOPERM 0123456789abcdef hush"}) {
        for (auto const c : {command::acquire, command::inspect}) {
            replies const r(c, {error(text)});
            std::string const message(r->message);
            BOOST_TEST(!message.empty());
            BOOST_TEST(!contains(message, "hush"), message);
            BOOST_TEST(!contains(message, std::string(our_token)), message);
        }
    }
    replies const odd(command::inspect,
                      {array, part("-9"), text_part(""), text_part("hush 0123456789abcdef")});
    BOOST_TEST(odd->message == "the key holds a *** ***, not a semaphore");
}

BOOST_AUTO_TEST_SUITE_END()
