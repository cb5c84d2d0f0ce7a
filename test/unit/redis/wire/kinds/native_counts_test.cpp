// Fences that native commands count: SET NX PX, ZADD GT and PEXPIRE.
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/pipeline.hpp"

#include "support/resp.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace {

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace holdfast::test::kind_replies;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::protocol::counting;
using holdfast::protocol::verdict;

constexpr std::uint64_t hint = 28'723'000'000'016;
constexpr command_args numbered{.key = "seat:7",
                                .token = "0123456789abcdef",
                                .ttl = 10'000ms,
                                .fence_ttl = 86'400'000ms,
                                .number = hint,
                                .counting = counting::known};
std::string const counter = "{seat:7}:fence";
auto const set = resp::command({"SET", "seat:7", "0123456789abcdef", "NX", "PX", "10000"});

std::string encoded(counting how) {
    codec::request r;
    exclusive_key.encode(r, command::acquire, {.counting = how}, numbered);
    return std::string(r.payload());
}

/// The answer to a native acquire that asked for `hint`.
class native_answer {
public:
    explicit native_answer(std::vector<element> const& all) {
        wording const w{.counting = all.size() == 2 ? counting::known : counting::renewed};
        auto left = static_cast<unsigned>(all.size());
        BOOST_REQUIRE(left == exclusive_key.replies(command::acquire, w));
        // The tenure may ask for another number by now.
        auto later = numbered;
        later.number = hint + 5;
        lock_with const owner(exclusive_key, later);
        for (auto const& e : all) {
            reader_.take({.kind = exclusive_key,
                          .command = command::acquire,
                          .words = w,
                          .fenced = true,
                          .owner = owner,
                          .secrets = secrets_,
                          .number = hint},
                         --left, e);
        }
    }
    answer const* operator->() const { return &reader_.result(); }
    rewording again() const { return reader_.again(); }
    errc ends_session() const { return reader_.ends_session(); }

private:
    secret_list secrets_{"hush"};
    lock_reply reader_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(native_counts)

BOOST_AUTO_TEST_CASE(a_counter_that_is_known_is_lifted_if_it_is_there) {
    BOOST_TEST(encoded(counting::known) ==
               set + resp::command({"ZADD", counter, "XX", "GT", "CH", "28723000000016", "n"}));
}

BOOST_AUTO_TEST_CASE(another_is_lifted_or_made_and_gets_its_ttl) {
    BOOST_TEST(encoded(counting::renewed) ==
               set + resp::command({"ZADD", counter, "GT", "CH", "28723000000016", "n"}) +
                   resp::command({"PEXPIRE", counter, "86400000"}));
}

BOOST_AUTO_TEST_CASE(a_plain_acquire_counts_nothing) {
    auto plain = numbered;
    plain.fence_ttl = 0ms;
    plain.counting = counting::by_script;
    codec::request r;
    exclusive_key.encode(r, command::acquire, {}, plain);
    BOOST_TEST(r.payload() == set);
}

BOOST_AUTO_TEST_CASE(a_counter_that_was_lifted_has_the_number_that_was_sent) {
    for (auto const& all : {std::vector{ok, number("1")}, {ok, number("1"), number("1")}}) {
        native_answer const a(all);
        BOOST_TEST((a->verdict == verdict::yes));
        BOOST_TEST(a->number == hint);
        BOOST_TEST((a.again() == rewording::none));
    }
}

BOOST_AUTO_TEST_CASE(who_does_not_get_the_key_is_refused_whatever_was_counted) {
    for (auto const& count : {number("1"), number("0"), error("NOPERM no"), error("OOM no")}) {
        native_answer const a({null, count});
        BOOST_TEST((a->verdict == verdict::no));
        BOOST_TEST(a->number == 0U);
        BOOST_TEST((a.again() == rewording::none));
    }
}

// Either the counter has the hint, or a greater number, or it is not there, or it has no ttl.
BOOST_AUTO_TEST_CASE(a_count_that_lifts_nothing_is_left_to_a_script) {
    BOOST_TEST((native_answer({ok, number("0")}).again() == rewording::script_count));
    BOOST_TEST((native_answer({ok, number("0"), number("1")}).again() == rewording::script_count));
    BOOST_TEST((native_answer({ok, number("1"), number("0")}).again() == rewording::script_count));
    BOOST_TEST((native_answer({ok, error("WRONGTYPE Operation against a key")}).again() ==
                rewording::script_count));
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_the_commands_counts_by_script_from_then_on) {
    for (auto const& e : {error("NOPERM this user has no permissions to run the 'zadd' command"),
                          error("ERR syntax error"), error("ERR unknown command 'ZADD'")}) {
        BOOST_TEST((native_answer({ok, e}).again() == rewording::script_counts));
        BOOST_TEST((native_answer({ok, e, number("0")}).again() == rewording::script_counts));
        BOOST_TEST((native_answer({ok, number("1"), e}).again() == rewording::script_counts));
    }
}

// The script then says what is wrong.
BOOST_AUTO_TEST_CASE(a_server_that_has_no_memory_for_a_count_goes_on_to_count_natively) {
    native_answer const a({ok, error("OOM command not allowed when used memory > 'maxmemory'")});
    BOOST_TEST((a.again() == rewording::script_count));
}

BOOST_AUTO_TEST_CASE(a_server_that_cannot_write_may_have_given_the_key) {
    native_answer const a({ok, error("READONLY You can't write against a read only replica.")});
    BOOST_TEST((a->verdict == verdict::unknown));
    BOOST_TEST((a->cause == errc::read_only));
    BOOST_TEST((a.again() == rewording::none));
}

BOOST_AUTO_TEST_CASE(a_set_that_is_refused_sets_no_key) {
    native_answer const a({error("OOM no"), number("1")});
    BOOST_TEST((a->verdict == verdict::refused));
    BOOST_TEST(a->number == 0U);
}

BOOST_AUTO_TEST_CASE(a_count_that_no_server_gives_ends_the_session) {
    for (auto const& odd : {ok, null, element{reply_type::blob_string, 0, "1"}})
        BOOST_TEST((native_answer({ok, odd}).ends_session() == errc::not_redis));
}

//
// Where it is done
//

namespace {

/// The earliest time of a server that allows the hint: it is up to a minute ahead.
constexpr std::chrono::seconds server_clock(hint / 10'000 + 1 - 61);

/// The bytes of an acquire.
struct sent_acquire {
    sent_acquire(std::chrono::seconds clock, wording w, lock_kind const& kind = exclusive_key)
        : owner(kind, numbered) {
        p.show_clock(clock);
        encoded.start(command::acquire, owner);
        p.add(encoded, {.owner = &owner, .command = command::acquire}, w);
        auto const& b = p.send(w);
        sent = b.commands.front();
        natively = b.bytes.find("ZADD") != b.bytes.npos && b.bytes.find("EVAL") == b.bytes.npos;
    }
    lock_with owner;
    pipeline p;
    encoder encoded;
    pending_command sent;
    bool natively = false;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_hint_that_the_clock_of_the_server_allows_is_counted_natively) {
    sent_acquire const s(server_clock, {});
    BOOST_TEST(s.natively);
    BOOST_TEST(s.sent.number == hint);
    BOOST_TEST(s.sent.replies == 2U);
}

BOOST_AUTO_TEST_CASE(a_script_counts_where_the_clock_of_the_server_is_unknown_or_behind) {
    BOOST_TEST(!sent_acquire(0s, {}).natively);
    sent_acquire const s(server_clock - 1s, {});
    BOOST_TEST(!s.natively);
    BOOST_TEST(s.sent.replies == 1U);
}

// A migration separates the key and its counter for a while.
BOOST_AUTO_TEST_CASE(a_script_counts_in_a_cluster) {
    BOOST_TEST(!sent_acquire(server_clock, {.in_cluster = true}).natively);
}

BOOST_AUTO_TEST_CASE(a_script_counts_where_native_counts_were_refused) {
    BOOST_TEST(!sent_acquire(server_clock, {.script_counts = true}).natively);
}

BOOST_AUTO_TEST_CASE(a_script_counts_after_a_native_count_has_failed) {
    lock_with owner(exclusive_key, numbered);
    pipeline p;
    p.show_clock(server_clock);
    p.add({.owner = &owner, .command = command::acquire, .words = {.recounts = true}}, {});
    auto const& b = p.send({});
    BOOST_TEST(b.bytes.find("EVALSHA") != b.bytes.npos);
    BOOST_TEST(b.commands.front().words.recounts);
}

// The native commands have set the key.
BOOST_AUTO_TEST_CASE(a_script_that_is_refused_after_them_leaves_the_key) {
    for (auto const recounts : {false, true}) {
        lock_with const owner(exclusive_key, numbered);
        secret_list const secrets;
        lock_reply reader;
        reader.take({.kind = exclusive_key,
                     .command = command::acquire,
                     .words = {.recounts = recounts},
                     .fenced = true,
                     .owner = owner,
                     .secrets = secrets},
                    0, error("NOPERM this user has no permissions to access a key"));
        BOOST_TEST((reader.result().verdict == (recounts ? verdict::unknown : verdict::refused)));
        BOOST_TEST((reader.result().cause == errc::access_denied));
    }
}

BOOST_AUTO_TEST_CASE(a_script_counts_for_other_kinds) {
    BOOST_TEST(!sent_acquire(server_clock, {}, fair_key).natively);
}

BOOST_AUTO_TEST_SUITE_END()
