// A command on keys of several slots: its parts, and the answer that theirs give together.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/slot_parts.hpp"
#include "redis/wire/kinds/set_key.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

// Three slots: the second and the fourth key are together.
constexpr std::array<std::string_view, 4> keys{"a", "{x}1", "b", "{x}2"};

/// A tenure on the keys.
class tenure final : public reply_handler {
public:
    struct heard {
        command asked;
        std::uint32_t round;
        answer said;
        std::string message{}, holder{};
    };

    lock_kind const& kind() const noexcept override { return set_key; }
    command_args arguments(command c) const noexcept override {
        command_args a{.key = "a {x}1 b {x}2", .token = "t", .ttl = 10s, .keys = keys};
        a.fence_ttl = fenced ? 60s : 0s;
        a.number = c == command::contend ? 5 : 4;
        a.watched = watched;
        a.prior = prior;
        return a;
    }
    bool still_wants(command) const noexcept override { return wants; }
    void on_answer(unsigned instance, command c, std::uint32_t round, answer const& a) override {
        BOOST_TEST(instance == 3U);
        answers.push_back({c, round, a, std::string(a.message), std::string(a.holder)});
    }

    bool wants = true, fenced = false;
    std::uint8_t watched = 0;
    std::vector<std::string> prior;
    std::vector<heard> answers;

private:
    void recycle() noexcept override {}
};

/// A Cluster that answers when the test says so.
class cluster final : public slot_part_user {
public:
    struct sent {
        reply_handler_ptr part;
        command what;
        std::uint32_t round;
    };

    explicit cluster(tenure& owner)
        : owner_(owner) {}
    bool submit_part(reply_handler_ptr part, command c, std::uint32_t round) noexcept override {
        if (fails && fails(submitted++)) return false;
        open.push_back({std::move(part), c, round});
        return true;
    }
    void undo(reply_handler_ptr part) noexcept override {
        undone.push_back(first_key(*part));
        releases.push_back(std::move(part));
    }
    void on_undone(std::span<std::string_view const> of) noexcept override {
        written.insert(written.end(), of.begin(), of.end());
    }
    unsigned number() const noexcept override { return 3; }

    bool submit(command c) {
        auto const args = owner_.arguments(c);
        BOOST_REQUIRE(has_several_slots(args));
        boost::intrusive_ptr<gathered_command> const whole(
            new gathered_command(*this, &owner_, c, 7, split(&owner_, c, args)));
        return whole->submit();
    }
    /// Answers the part that has this key.
    void reply(std::string_view key, answer const& a) {
        auto const at = std::ranges::find_if(open, [&](sent const& s) {
            auto const all = s.part->arguments(s.what).keys;
            return std::ranges::find(all, key) != all.end();
        });
        BOOST_REQUIRE(at != open.end());
        auto const one = std::move(*at);
        open.erase(at);
        one.part->on_answer(3, one.what, one.round, a);
    }
    static std::string first_key(reply_handler const& part) {
        return std::string(part.arguments(command::release).first_key());
    }

    std::vector<sent> open;
    std::vector<std::string> undone, written;
    std::vector<reply_handler_ptr> releases; ///< of the parts that were undone
    std::size_t submitted = 0;
    std::function<bool(std::size_t)> fails;

private:
    tenure& owner_;
};

constexpr answer yes{.verdict = verdict::yes};
constexpr answer unknown{
    .verdict = verdict::unknown, .cause = errc::unreachable, .message = "lost"};
constexpr answer refused{.verdict = verdict::refused, .cause = errc::rejected, .message = "OOM"};
constexpr answer unsent{.verdict = verdict::unsent, .cause = errc::unreachable, .message = "down"};
answer no(std::uint8_t obstacle) {
    return {.verdict = verdict::no, .obstacle = obstacle};
}
answer numbered(std::uint64_t n) {
    return {.verdict = verdict::yes, .number = n};
}

using texts = std::vector<std::string>;

texts names(std::span<std::string_view const> all) {
    return {all.begin(), all.end()};
}

struct fixture {
    tenure t;
    cluster c{t};

    tenure::heard told() const {
        BOOST_REQUIRE(t.answers.size() == 1U);
        BOOST_TEST(c.open.empty());
        return t.answers.front();
    }
    /// The answer to a command whose parts get these: of "a", of "{x}1" and "{x}2", and of "b".
    tenure::heard result(command what, answer const& a, answer const& x, answer const& b) {
        t.answers.clear();
        c.undone.clear();
        c.releases.clear();
        BOOST_TEST(c.submit(what));
        c.reply("a", a);
        c.reply("{x}1", x);
        BOOST_TEST(t.answers.empty());
        c.reply("b", b);
        return told();
    }
};

constexpr auto all_commands = {command::acquire, command::contend, command::heal,   command::extend,
                               command::raise,   command::release, command::inspect};

} // namespace

BOOST_FIXTURE_TEST_SUITE(slot_parts, fixture)

BOOST_AUTO_TEST_CASE(each_part_has_the_keys_of_its_slot) {
    t.prior = {"p1", "p2", "p3", "p4"};
    BOOST_TEST(c.submit(command::acquire));
    BOOST_REQUIRE(c.open.size() == 3U);
    auto const args = [&](std::size_t i) { return c.open[i].part->arguments(command::acquire); };
    BOOST_TEST(names(args(0).keys) == texts{"a"}, boost::test_tools::per_element());
    BOOST_TEST(names(args(1).keys) == (texts{"{x}1", "{x}2"}), boost::test_tools::per_element());
    BOOST_TEST(names(args(2).keys) == texts{"b"}, boost::test_tools::per_element());
    BOOST_TEST(texts(args(1).prior.begin(), args(1).prior.end()) == (texts{"p2", "p4"}),
               boost::test_tools::per_element());
    for (std::size_t i = 0; i < 3; ++i) {
        BOOST_TEST(args(i).key == args(i).keys.front());
        BOOST_TEST(args(i).token.view() == "t");
        BOOST_TEST((&c.open[i].part->kind() == &set_key));
        BOOST_TEST(c.open[i].round == 7U);
        auto const id = c.open[i].part->grant();
        BOOST_TEST((id == grant_id{.owner = &t,
                                   .slot = holdfast::protocol::hash_slot(args(i).first_key())}));
    }
    c.open.clear(); // as a client does that ends: nobody is answered, and nothing is left
    BOOST_TEST(t.answers.empty());
}

BOOST_AUTO_TEST_CASE(keys_of_one_slot_are_no_parts) {
    constexpr std::array<std::string_view, 2> together{"{x}1", "{x}2"};
    BOOST_TEST(!has_several_slots({.key = "k", .token = {}}));
    BOOST_TEST(!has_several_slots({.key = "{x}1 {x}2", .token = {}, .keys = together}));
    BOOST_TEST(has_several_slots(t.arguments(command::acquire)));
}

BOOST_AUTO_TEST_CASE(a_grant_is_one_of_all_parts) {
    for (auto const what : {command::acquire, command::contend, command::heal}) {
        auto const told = result(what, yes, yes, yes);
        BOOST_TEST((told.asked == what));
        BOOST_TEST(told.round == 7U);
        BOOST_TEST((told.said.verdict == verdict::yes));
        BOOST_TEST(c.undone.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_refusal_undoes_the_parts_that_may_have_been_granted) {
    for (auto const what : {command::acquire, command::contend}) {
        auto const told = result(what, yes, no(2), unknown);
        BOOST_TEST((told.said.verdict == verdict::no));
        BOOST_TEST((told.said.cause == errc{}));
        BOOST_TEST(told.said.obstacle == 4U); // {x}2 among all
        BOOST_TEST(c.undone == (texts{"a", "b"}), boost::test_tools::per_element());
        // The first key that stands in the way.
        BOOST_TEST(result(what, yes, no(2), no(1)).said.obstacle == 3U);
        BOOST_TEST(c.undone == texts{"a"}, boost::test_tools::per_element());
        BOOST_TEST((result(what, refused, unsent, no(1)).said.verdict == verdict::no));
        BOOST_TEST(c.undone.empty());
    }
}

// The server does not push our own changes to us.
BOOST_AUTO_TEST_CASE(the_watches_of_keys_that_were_undone_hear_of_it) {
    BOOST_TEST((result(command::acquire, no(1), yes, yes).said.verdict == verdict::no));
    BOOST_REQUIRE(c.releases.size() == 2U);
    BOOST_TEST(c.written.empty());
    c.releases[0]->on_answer(3, command::release, 0, no(0)); // not ours any more
    BOOST_TEST(c.written.empty());
    c.releases[0]->on_answer(3, command::release, 0, yes);
    BOOST_TEST(c.written == (texts{"{x}1", "{x}2"}), boost::test_tools::per_element());
    c.releases[1]->on_answer(3, command::release, 0, unknown);
    BOOST_TEST(c.written == (texts{"{x}1", "{x}2", "b"}), boost::test_tools::per_element());
    BOOST_TEST(t.answers.size() == 1U);
}

// The owner releases all keys.
BOOST_AUTO_TEST_CASE(a_part_that_is_not_known_leaves_the_release_to_the_owner) {
    for (auto const what : {command::acquire, command::contend, command::heal}) {
        for (auto const& other : {yes, refused, unsent}) {
            auto const told = result(what, other, yes, unknown);
            BOOST_TEST((told.said.verdict == verdict::unknown));
            BOOST_TEST((told.said.cause == errc::unreachable));
            BOOST_TEST(told.message == "lost");
            BOOST_TEST(c.undone.empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(parts_that_cannot_be_asked_undo_the_others) {
    for (auto const what : {command::acquire, command::contend}) {
        auto const told = result(what, yes, unsent, yes);
        BOOST_TEST((told.said.verdict == verdict::unsent));
        BOOST_TEST(told.message == "down");
        BOOST_TEST(c.undone == (texts{"a", "b"}), boost::test_tools::per_element());
        auto const worse = result(what, yes, unsent, refused);
        BOOST_TEST((worse.said.verdict == verdict::refused));
        BOOST_TEST((worse.said.cause == errc::rejected));
        BOOST_TEST(worse.message == "OOM");
        BOOST_TEST(c.undone == texts{"a"}, boost::test_tools::per_element());
    }
}

// The lease is held: what was healed is extended, or goes with its ttl.
BOOST_AUTO_TEST_CASE(a_heal_undoes_nothing) {
    for (auto const& other : {no(1), unsent, refused}) {
        BOOST_TEST((result(command::heal, yes, other, yes).said.verdict == other.verdict));
        BOOST_TEST(c.undone.empty());
    }
}

BOOST_AUTO_TEST_CASE(the_worst_answer_counts) {
    for (auto const what : {command::extend, command::raise}) {
        BOOST_TEST((result(what, yes, yes, yes).said.verdict == verdict::yes));
        auto const told = result(what, unknown, no(1), refused);
        BOOST_TEST((told.said.verdict == verdict::no));
        BOOST_TEST(told.said.obstacle == 2U);
        BOOST_TEST((result(what, unknown, refused, yes).said.verdict == verdict::unknown));
        BOOST_TEST((result(what, unsent, refused, yes).said.verdict == verdict::refused));
        BOOST_TEST((result(what, unsent, yes, yes).said.verdict == verdict::unsent));
        BOOST_TEST(c.undone.empty());
    }
    BOOST_TEST((result(command::release, yes, yes, yes).said.verdict == verdict::yes));
    BOOST_TEST((result(command::release, yes, no(0), yes).said.verdict == verdict::no));
    BOOST_TEST((result(command::release, unknown, no(0), yes).said.verdict == verdict::unknown));
    BOOST_TEST((result(command::release, yes, unsent, yes).said.verdict == verdict::unsent));
}

BOOST_AUTO_TEST_CASE(the_number_of_the_set_is_the_greatest_of_its_parts) {
    t.fenced = true;
    for (auto const what : {command::acquire, command::contend, command::heal}) {
        t.answers.clear();
        BOOST_TEST(c.submit(what));
        c.reply("a", numbered(7));
        c.reply("{x}1", numbered(9));
        c.reply("b", numbered(8));
        BOOST_TEST(t.answers.empty());
        BOOST_REQUIRE(c.open.size() == 2U); // raises of the two that are behind
        for (auto const& s : c.open) {
            BOOST_TEST((s.what == command::raise));
            BOOST_TEST(s.part->arguments(command::raise).number == 9U);
        }
        c.reply("b", yes);
        c.reply("a", yes);
        BOOST_TEST((told().said.verdict == verdict::yes));
        BOOST_TEST(told().said.number == 9U);
        BOOST_TEST(c.undone.empty());
    }
    // Equal numbers need no raise.
    BOOST_TEST(result(command::acquire, numbered(9), numbered(9), numbered(9)).said.number == 9U);
}

// A part with a number that is too small would let a later holder have a smaller one.
BOOST_AUTO_TEST_CASE(a_raise_that_fails_is_no_grant) {
    t.fenced = true;
    for (auto const& failed : {no(1), unknown, refused, unsent}) {
        t.answers.clear();
        BOOST_TEST(c.submit(command::acquire));
        c.reply("a", numbered(7));
        c.reply("{x}1", numbered(9));
        c.reply("b", numbered(7));
        c.reply("a", failed);
        c.reply("b", yes);
        BOOST_TEST((told().said.verdict == verdict::unknown));
        BOOST_TEST((told().said.cause != errc{}));
        BOOST_TEST(!told().message.empty());
        BOOST_TEST(c.undone.empty()); // the owner releases
    }
}

BOOST_AUTO_TEST_CASE(a_raise_that_cannot_be_sent_is_no_grant) {
    t.fenced = true;
    for (auto const all : {false, true}) {
        t.answers.clear();
        c.submitted = 0;
        c.fails = [&](std::size_t n) { return n == 3 || (all && n == 4); };
        BOOST_TEST(c.submit(command::acquire));
        c.reply("a", numbered(7));
        c.reply("b", numbered(7));
        c.reply("{x}1", numbered(9));
        if (!all) c.reply("b", yes);
        BOOST_TEST((told().said.verdict == verdict::unknown));
        BOOST_TEST((told().said.cause == errc::out_of_memory));
    }
}

BOOST_AUTO_TEST_CASE(only_the_part_with_the_watched_key_contends) {
    t.watched = 3;
    BOOST_TEST(c.submit(command::contend));
    BOOST_REQUIRE(c.open.size() == 3U);
    for (auto const& s : c.open) {
        auto const args = s.part->arguments(s.what);
        auto const watches = args.keys.size() == 2;
        BOOST_TEST((s.what == (watches ? command::contend : command::acquire)));
        BOOST_TEST(args.number == 5U); // that of a contender
        if (watches) BOOST_TEST(args.watched == 1U);
    }
    c.reply("a", yes);
    c.reply("b", yes);
    c.reply("{x}2", {.verdict = verdict::no,
                     .ttl_known = true,
                     .ttl_left = 1'500ms,
                     .push_follows = true,
                     .obstacle = 2});
    BOOST_TEST(told().said.obstacle == 4U);
    BOOST_TEST(told().said.ttl_known);
    BOOST_TEST((told().said.ttl_left == 1'500ms));
    BOOST_TEST(told().said.push_follows);
}

// The push that was to come may have come while the other nodes had not answered, and nobody had
// heard of it. So the node with the watched key is asked again.
BOOST_AUTO_TEST_CASE(a_push_that_comes_before_the_other_answers_is_not_missed) {
    answer const held{.verdict = verdict::no,
                      .ttl_known = true,
                      .ttl_left = 1'500ms,
                      .push_follows = true,
                      .obstacle = 1};
    for (auto const free : {false, true}) {
        t.answers.clear();
        c.undone.clear();
        BOOST_TEST(c.submit(command::contend));
        c.reply("a", held);
        c.reply("b", yes);
        c.reply("{x}1", yes);
        BOOST_TEST(c.undone.size() == 2U);
        BOOST_TEST(t.answers.empty());
        BOOST_REQUIRE(c.open.size() == 1U);
        BOOST_TEST((c.open[0].what == command::track));
        c.reply("a", free ? yes
                          : answer{.verdict = verdict::yes,
                                   .ttl_known = true,
                                   .ttl_left = 1'400ms,
                                   .push_follows = true});
        BOOST_TEST((told().asked == command::contend));
        BOOST_TEST((told().said.verdict == verdict::no));
        BOOST_TEST(told().said.obstacle == 1U);
        BOOST_TEST(told().said.ttl_known == !free);
        BOOST_TEST(told().said.push_follows == !free);
        BOOST_TEST((told().said.ttl_left ==
                    (free ? std::optional<std::chrono::milliseconds>() : 1'400ms)));
    }
}

BOOST_AUTO_TEST_CASE(no_push_is_awaited_of_a_node_that_cannot_be_asked_again) {
    for (auto const sent : {false, true}) {
        t.answers.clear();
        c.submitted = 0;
        c.fails = [&](std::size_t n) { return !sent && n == 3; };
        BOOST_TEST(c.submit(command::contend));
        c.reply("a", {.verdict = verdict::no,
                      .ttl_known = true,
                      .ttl_left = 2s,
                      .push_follows = true,
                      .obstacle = 1});
        c.reply("b", yes);
        c.reply("{x}1", yes);
        if (sent) c.reply("a", unknown);
        BOOST_TEST((told().said.verdict == verdict::no));
        BOOST_TEST((told().said.ttl_left == 2s));
        BOOST_TEST(!told().said.push_follows);
    }
}

// Our own grant is undone, so the watched key is free, and its time is none of another's.
BOOST_AUTO_TEST_CASE(a_watched_key_that_was_free_has_no_time) {
    auto const granted =
        answer{.verdict = verdict::yes, .ttl_known = true, .ttl_left = 10s, .push_follows = true};
    auto const told = result(command::contend, granted, yes, no(1));
    BOOST_TEST((told.said.verdict == verdict::no));
    BOOST_TEST(told.said.obstacle == 3U);
    BOOST_TEST(!told.said.ttl_known);
    BOOST_TEST(!told.said.ttl_left.has_value());
    BOOST_TEST(!told.said.push_follows);
}

BOOST_AUTO_TEST_CASE(only_the_watched_key_is_tracked) {
    t.watched = 2;
    BOOST_TEST(c.submit(command::track));
    BOOST_REQUIRE(c.open.size() == 1U);
    BOOST_TEST(names(c.open[0].part->arguments(command::track).keys) == texts{"b"},
               boost::test_tools::per_element());
    c.reply("b",
            {.verdict = verdict::yes, .ttl_known = true, .ttl_left = 2s, .push_follows = true});
    BOOST_TEST((told().asked == command::track));
    BOOST_TEST(told().said.push_follows);
    BOOST_TEST((told().said.ttl_left == 2s));
}

BOOST_AUTO_TEST_CASE(an_inspection_shows_the_first_key_that_stands_in_the_way) {
    auto const held = [](std::uint8_t obstacle, std::string_view holder) {
        return answer{
            .verdict = verdict::yes, .ttl_known = true, .holder = holder, .obstacle = obstacle};
    };
    auto const told = result(command::inspect, yes, held(2, "billing"), held(1, "shipping"));
    BOOST_TEST(told.said.obstacle == 3U); // b is the third, {x}2 the fourth
    BOOST_TEST(told.holder == "shipping");
    auto const odd = result(command::inspect, unsent,
                            {.verdict = verdict::refused,
                             .cause = errc::wrong_type,
                             .message = "a list",
                             .obstacle = 1},
                            held(1, "shipping"));
    BOOST_TEST(odd.said.obstacle == 2U);
    BOOST_TEST((odd.said.cause == errc::wrong_type));
    BOOST_TEST(odd.message == "a list");
    auto const free = result(command::inspect, yes, yes, yes);
    BOOST_TEST((free.said.verdict == verdict::yes));
    BOOST_TEST(free.said.obstacle == 0U);
    BOOST_TEST((result(command::inspect, yes, unsent, yes).said.verdict == verdict::unsent));
}

// It may be sent again after a redirect.
BOOST_AUTO_TEST_CASE(a_grant_that_is_of_no_use_any_more_is_not_wanted) {
    BOOST_TEST(c.submit(command::acquire));
    auto const of_a = c.open[0].part;
    auto const of_b = c.open[2].part;
    BOOST_TEST(of_a->still_wants(command::acquire));
    t.wants = false;
    BOOST_TEST(!of_a->still_wants(command::acquire));
    t.wants = true;
    c.reply("a", unknown);
    BOOST_TEST(!of_a->still_wants(command::acquire)); // it is released
    BOOST_TEST(of_b->still_wants(command::acquire));
    c.reply("{x}1", no(1));
    BOOST_TEST(!of_b->still_wants(command::acquire)); // another part was refused
    BOOST_TEST(of_b->still_wants(command::release));
    c.reply("b", unsent);
    BOOST_TEST((told().said.verdict == verdict::no));
}

BOOST_AUTO_TEST_CASE(a_part_that_cannot_be_sent_counts_as_unsent) {
    c.fails = [](std::size_t n) { return n == 1; };
    BOOST_TEST(c.submit(command::acquire));
    c.reply("b", yes);
    c.reply("a", yes);
    BOOST_TEST((told().said.verdict == verdict::unsent));
    BOOST_TEST((told().said.cause == errc::out_of_memory));
    BOOST_TEST(c.undone == (texts{"a", "b"}), boost::test_tools::per_element());
    c.fails = [](std::size_t) { return true; };
    BOOST_TEST(!c.submit(command::acquire));
    BOOST_TEST(t.answers.size() == 1U);
}

// In every order of answers, and with every outcome.
BOOST_AUTO_TEST_CASE(every_command_is_answered_once) {
    std::mt19937_64 random(1);
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (auto run = 0; run < 20'000; ++run) {
        t.answers.clear();
        c.undone.clear();
        c.releases.clear();
        t.fenced = below(2) == 0;
        t.watched = static_cast<std::uint8_t>(below(keys.size()));
        c.fails = [&](std::size_t) { return below(20) == 0; };
        auto const what = *(all_commands.begin() + below(all_commands.size()));
        if (!c.submit(what)) {
            BOOST_REQUIRE(c.open.empty());
            continue;
        }
        texts may_hold;
        auto refusals = 0;
        while (!c.open.empty()) {
            BOOST_REQUIRE(t.answers.empty());
            auto const& next = c.open[below(c.open.size())];
            auto const args = next.part->arguments(next.what);
            auto const raises = next.what == command::raise && what != command::raise;
            auto a = std::array{yes, yes, no(1), unknown, refused, unsent}[below(6)];
            if (t.fenced && a.verdict == verdict::yes) a.number = 1 + below(3);
            if (!raises && !holdfast::protocol::sets_no_key(a.verdict))
                may_hold.emplace_back(args.first_key());
            if (!raises && a.verdict == verdict::no) ++refusals;
            c.reply(args.first_key(), a);
        }
        BOOST_REQUIRE(t.answers.size() == 1U);
        auto const& said = t.answers.front().said;
        BOOST_REQUIRE((t.answers.front().asked == what));
        auto const done = said.verdict == verdict::yes || said.verdict == verdict::no;
        BOOST_REQUIRE(done == (said.cause == errc{}));
        auto const takes = what == command::acquire || what == command::contend;
        if (takes && refusals > 0) BOOST_REQUIRE((said.verdict == verdict::no));
        auto const undoes = takes && holdfast::protocol::sets_no_key(said.verdict);
        std::ranges::sort(may_hold);
        std::ranges::sort(c.undone);
        BOOST_REQUIRE(c.undone == (undoes ? may_hold : texts()));
        if (said.verdict == verdict::no && what != command::release)
            BOOST_REQUIRE((said.obstacle >= 1 && said.obstacle <= keys.size()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
