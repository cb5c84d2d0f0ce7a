// The commands of a fair lock, and the answers that replies to them give.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
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

constexpr command_args seat{.key = "seat:7",
                            .token = "0123456789abcdef",
                            .ttl = 10'000ms,
                            .place = line_place::back,
                            .reserved_for = 200ms,
                            .in_line_for = 3'200ms};

std::string encoded(command c, wording w, command_args const& s = seat) {
    codec::request r;
    fair_key.encode(r, c, w, s);
    return std::string(r.payload());
}

/// The last argument of the only command.
std::string last_argument(std::string const& command) {
    auto const end = command.rfind("\r\n");
    auto const begin = command.rfind("\r\n", end - 1) + 2;
    return command.substr(begin, end - begin);
}

struct replies : answer_of {
    replies(command c, std::vector<element> const& all, bool fenced = false, bool tracked = true)
        : answer_of(fair_key, seat, c, all, fenced, {.tracked = tracked}) {}
};

std::string name_of_line(std::string_view key, bool in_cluster = false) {
    std::string name = "left over";
    name_line(name, key, in_cluster);
    return name;
}

} // namespace

BOOST_AUTO_TEST_SUITE(fair_commands)

BOOST_AUTO_TEST_CASE(the_list_has_the_slot_of_the_key) {
    BOOST_TEST(name_of_line("seat:7") == "{seat:7}:queue");
    BOOST_TEST(name_of_line("{show}:7") == "{show}:7:queue:own");
    for (std::string const key : {"seat:7", "{show}:7", "a}b", "@@@@}", ""}) {
        auto const name = name_of_line(key, true);
        BOOST_TEST(protocol::hash_slot(name) == protocol::hash_slot(key), name);
    }
    BOOST_TEST(name_of_line("a}b", true).ends_with("}a}b:queue:slot"));
}

// Processes that wait for two keys in one line would give each key to those that want the other.
BOOST_AUTO_TEST_CASE(no_two_keys_share_a_list) {
    for (auto const in_cluster : {false, true}) {
        std::vector<std::string> keys{"",   "a",    "{a}", "{{a}}", "{a}b",
                                      "a}", "{a}}", "{}",  "{",     "}"};
        // Keys that look like the names that are made of the others.
        for (std::size_t i = 0, own = keys.size(); i < own; ++i) {
            auto const name = name_of_line(keys[i], in_cluster);
            for (std::string_view const end : {":queue:own", ":queue:slot", ":queue", ":own"}) {
                if (name.ends_with(end)) keys.push_back(name.substr(0, name.size() - end.size()));
            }
        }
        std::ranges::sort(keys);
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        std::set<std::string> names;
        for (auto const& key : keys) {
            auto const name = name_of_line(key, in_cluster);
            BOOST_TEST(names.insert(name).second, key << " has the list of another: " << name);
        }
    }
}

// The key that calls the process is registered after the process has joined the line.
BOOST_AUTO_TEST_CASE(a_contender_joins_the_line_and_then_registers) {
    auto const all = encoded(command::contend, {.tracked = true, .whole_script = true});
    auto const script = all.find("EVAL");
    auto const caching = all.find("CACHING");
    BOOST_TEST(script != all.npos);
    BOOST_TEST(caching != all.npos);
    BOOST_TEST(script < caching);
    BOOST_TEST(contains(all, "PTTL"));
    BOOST_TEST(contains(all, "{seat:7}:queue:0123456789abcdef\r\n"));
    auto const untracked = encoded(command::contend, {.whole_script = true});
    BOOST_TEST(!contains(untracked, "CACHING"));
    BOOST_TEST(fair_key.replies(command::contend, {.tracked = true}) == 3U);
    BOOST_TEST(fair_key.replies(command::contend, {}) == 1U);
}

BOOST_AUTO_TEST_CASE(the_place_is_the_last_argument) {
    auto s = seat;
    BOOST_TEST(last_argument(encoded(command::contend, {}, s)) == "0");
    BOOST_TEST(last_argument(encoded(command::acquire, {}, s)) == "0");
    s.place = line_place::front;
    BOOST_TEST(last_argument(encoded(command::contend, {}, s)) == "1");
    BOOST_TEST(last_argument(encoded(command::acquire, {}, s)) == "0");
    s.place = line_place::newcomer;
    BOOST_TEST(last_argument(encoded(command::contend, {}, s)) == "0");
    BOOST_TEST(last_argument(encoded(command::acquire, {}, s)) == "1");
}

// Commands that do not concern the line are those of any lock.
BOOST_AUTO_TEST_CASE(other_commands_are_those_of_an_exclusive_key) {
    for (auto const c : {command::extend, command::heal, command::inspect, command::raise,
                         command::track, command::survey}) {
        codec::request r;
        exclusive_key.encode(r, c, {.tracked = true}, seat);
        BOOST_TEST(encoded(c, {.tracked = true}) == r.payload());
        BOOST_TEST(fair_key.replies(c, {.tracked = true}) ==
                   exclusive_key.replies(c, {.tracked = true}));
    }
}

// A native deletion would not call the next process.
BOOST_AUTO_TEST_CASE(a_release_is_a_script_on_every_server) {
    for (auto const d : {dialect::scripts, dialect::delifeq, dialect::delex})
        BOOST_TEST(contains(encoded(command::release, {.dialect = d}), "EVALSHA"));
}

BOOST_AUTO_TEST_CASE(a_grant_and_a_refusal_of_a_contender) {
    replies const granted(command::contend, {number("1"), ok, number("-2")});
    BOOST_TEST((granted->verdict == verdict::yes));
    replies const fenced(command::contend, {number("28723000000016"), ok, number("-2")}, true);
    BOOST_TEST((fenced->verdict == verdict::yes));
    BOOST_TEST(fenced->number == 28'723'000'000'016U);
    replies const refused(command::contend, {number("-1503"), ok, number("-2")});
    BOOST_TEST((refused->verdict == verdict::no));
    BOOST_TEST(refused->ttl_known);
    BOOST_REQUIRE(refused->ttl_left.has_value());
    BOOST_TEST((*refused->ttl_left == 1'500ms));
    BOOST_TEST(refused->push_follows);
    BOOST_TEST(!refused->called);
    replies const for_ever(command::contend, {number("-2"), ok, number("-2")});
    BOOST_TEST(for_ever->ttl_known);
    BOOST_TEST(!for_ever->ttl_left.has_value());
    replies const untracked(command::contend, {number("-3")}, false, false);
    BOOST_TEST((*untracked->ttl_left == 0ms));
    BOOST_TEST(!untracked->push_follows);
}

// Another program may let a key live for centuries. In nanoseconds that is too much.
BOOST_AUTO_TEST_CASE(a_time_to_live_that_no_duration_can_have_is_cut) {
    for (auto const* const text : {"-9223372036854775808", "-9223372036854775", "-9300000000000"}) {
        replies const refused(command::contend, {number(text), ok, number("-2")});
        BOOST_TEST((refused->verdict == verdict::no));
        BOOST_TEST(refused->ttl_known);
        BOOST_REQUIRE(refused->ttl_left.has_value());
        BOOST_TEST((*refused->ttl_left == 3'000'000'000'000ms));
    }
}

BOOST_AUTO_TEST_CASE(a_turn_that_came_before_the_registration_is_seen) {
    replies const called(command::contend, {number("-203"), ok, number("150")});
    BOOST_TEST((called->verdict == verdict::no));
    BOOST_TEST(called->called);
    // The key that the process has written itself, when it joined the line, lives for longer.
    replies const joined(command::contend, {number("-203"), ok, number("3200")});
    BOOST_TEST(!joined->called);
    // Reservations of a client with other options are longer.
    replies const patient(command::contend, {number("-203"), ok, number("2100")});
    BOOST_TEST(patient->called);
}

BOOST_AUTO_TEST_CASE(without_pushes_a_contender_waits_for_none) {
    replies const refused(command::contend, {number("-203"), error("NOPERM no"), number("-2")});
    BOOST_TEST(!refused->push_follows);
    BOOST_TEST((refused.lack == degradation::no_push));
    replies const blind(command::contend, {number("-203"), ok, error("NOPERM no")});
    BOOST_TEST(!blind->push_follows);
    BOOST_TEST((blind.lack == degradation::no_expiry_times));
}

BOOST_AUTO_TEST_CASE(answers_to_acquires_and_releases) {
    BOOST_TEST((replies(command::acquire, {number("1")})->verdict == verdict::yes));
    BOOST_TEST((replies(command::acquire, {null})->verdict == verdict::no));
    BOOST_TEST((replies(command::release, {number("1")})->verdict == verdict::yes));
    BOOST_TEST((replies(command::release, {number("0")})->verdict == verdict::no));
    BOOST_TEST((replies(command::release, {error("WRONGTYPE no string")})->verdict == verdict::no));
}

// A script may have written the key before it failed. A script that was refused as a whole has not.
BOOST_AUTO_TEST_CASE(errors_of_scripts) {
    for (auto const c : {command::acquire, command::contend}) {
        auto const answer_to = [&](std::string_view text) {
            return c == command::acquire ? replies(c, {error(text)})
                                         : replies(c, {error(text)}, false, false);
        };
        BOOST_TEST((answer_to("OOM used memory")->verdict == verdict::unknown));
        BOOST_TEST((answer_to("NOPERM no keys")->verdict == verdict::refused));
        BOOST_TEST((answer_to("NOPERM no keys")->cause == errc::access_denied));
        BOOST_TEST((answer_to("NOSCRIPT no").reader().again() == rewording::whole_script));
    }
    replies const kept(command::release, {error("NOPERM no keys")});
    BOOST_TEST((kept->verdict == verdict::refused));
    BOOST_TEST(contains(std::string(kept->message), "the key stays for its ttl"));
    BOOST_TEST((kept.lack == degradation::no_release));
}

BOOST_AUTO_TEST_CASE(replies_that_no_server_gives_end_the_session) {
    for (auto const c : {command::acquire, command::release}) {
        replies const r(c, {number("7")});
        BOOST_TEST((r->verdict == verdict::unknown));
        BOOST_TEST((r.reader().ends_session() == errc::not_redis));
    }
    for (auto const& odd :
         {number("7"), number("-1"), element{reply_type::simple_string, 0, "no"},
          element{reply_type::blob_string, 0, "1"}, element{reply_type::boolean, 0, "t"},
          element{reply_type::doublean, 0, "1.5"},
          element{reply_type::big_number, 0, "-12345678901234567890123"},
          element{reply_type::array, 0, {}}, element{reply_type::map, 0, {}}}) {
        for (auto const fenced : {false, true}) {
            if (fenced && odd.value == "7") continue; // the number of a tenure
            replies const r(command::contend, {odd}, fenced, false);
            BOOST_TEST((r->verdict == verdict::unknown), odd.value);
            BOOST_TEST((r.reader().ends_session() == errc::not_redis), odd.value);
        }
    }
}

// The registration tells nothing that could be relied on.
BOOST_AUTO_TEST_CASE(an_odd_reply_to_the_registration_calls_nobody) {
    for (auto const& odd : {null, element{reply_type::simple_string, 0, "1"},
                            element{reply_type::boolean, 0, "t"}, number("-1")}) {
        replies const refused(command::contend, {number("-203"), ok, odd});
        BOOST_TEST((refused->verdict == verdict::no));
        BOOST_TEST(!refused->called);
    }
}

BOOST_AUTO_TEST_SUITE_END()
