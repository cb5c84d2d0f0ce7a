// Locks on keys of several slots in a Cluster, stepped without a server.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_instance.hpp"
#include "redis/wire/kinds/set_key.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/cluster/cluster_world.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

// The second node has the first two, the first node the third.
constexpr std::array<std::string_view, 3> keys{"a", "{a}2", "b"};
constexpr std::array<std::string_view, 2> together{"a", "{a}2"};

class wide final : public reply_handler {
public:
    struct heard {
        command asked;
        answer said;
        std::string message;
    };

    lock_kind const& kind() const noexcept override { return set_key; }
    command_args arguments(command) const noexcept override {
        command_args a{.key = "a {a}2 b", .token = "t", .ttl = 10s, .keys = all};
        a.fence_ttl = fenced ? 60s : 0s;
        a.number = 1;
        a.watched = watched;
        return a;
    }
    bool still_wants(command c) const noexcept override { return wants || c == command::release; }
    void on_answer(unsigned, command c, std::uint32_t, answer const& a) override {
        answers.push_back({c, a, std::string(a.message)});
    }

    bool wants = true, fenced = false;
    std::uint8_t watched = 0;
    std::span<std::string_view const> all = keys;
    std::vector<heard> answers;

private:
    void recycle() noexcept override {}
};

/// A script that a node was sent, by its number of arguments.
struct run {
    std::uint16_t port;
    std::size_t keys;
    std::string name; ///< "acquire", "raise" or "release"
    std::vector<std::string> words;
};

/// Two nodes that record the scripts of locks.
class recording_world {
public:
    using hook = std::function<std::optional<std::string>(run const&)>;

    recording_world()
        : w(world::aged{}) {
        // Each node has named the other one when both have granted.
        wide early;
        w.submit(command::acquire, early);
        BOOST_REQUIRE(w.until([&] { return early.answers.size() == 1; }));
        BOOST_TEST((early.answers[0].said.verdict == verdict::yes));
        w.answers = [this](std::uint16_t port,
                           command_line const& words) -> std::optional<std::string> {
            auto const script = words.at(0) == "EVALSHA" || words.at(0) == "EVAL";
            if (!script) return other ? other(port, words) : std::nullopt;
            if (words.at(2) == "0") return std::nullopt;
            auto const n = static_cast<std::size_t>(std::stoul(words.at(2)));
            auto const arguments = words.size() - 3 - n;
            auto const* const name = arguments == 1   ? "release"
                                     : arguments == 3 ? "raise"
                                                      : "acquire";
            ran.push_back({port, n, name, words});
            return answers ? answers(ran.back()) : std::nullopt;
        };
    }
    std::size_t count(std::uint16_t port, std::string_view name) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            ran, [&](run const& r) { return r.port == port && r.name == name; }));
    }
    wide::heard told(wide const& of, std::size_t n = 1) {
        BOOST_REQUIRE(w.until([&] { return of.answers.size() >= n; }));
        BOOST_REQUIRE(of.answers.size() == n);
        return of.answers.back();
    }

    std::vector<run> ran;
    hook answers;
    world::hook other;
    world w;
};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_sets)

BOOST_AUTO_TEST_CASE(each_part_goes_to_the_owner_of_its_slot) {
    wide l;
    recording_world r;
    r.w.submit(command::acquire, l);
    BOOST_TEST((r.told(l).said.verdict == verdict::yes), r.told(l).message);
    BOOST_REQUIRE(r.ran.size() == 2U);
    for (auto const& one : r.ran) {
        BOOST_TEST(one.keys == (one.port == second ? 2U : 1U));
        BOOST_TEST(one.words.at(3) == (one.port == second ? "a" : "b"));
    }
    r.w.submit(command::extend, l);
    BOOST_TEST((r.told(l, 2).said.verdict == verdict::yes));
    r.w.submit(command::release, l);
    BOOST_TEST((r.told(l, 3).said.verdict == verdict::yes));
    BOOST_TEST(r.count(first, "release") == 1U);
    BOOST_TEST(r.count(second, "release") == 1U);
    BOOST_TEST(r.w.pushed.empty());
}

BOOST_AUTO_TEST_CASE(keys_of_one_slot_are_one_command) {
    wide l;
    l.all = together;
    recording_world r;
    r.w.submit(command::acquire, l);
    BOOST_TEST((r.told(l).said.verdict == verdict::yes));
    BOOST_TEST(r.count(first, "acquire") == 0U);
    BOOST_REQUIRE(r.count(second, "acquire") == 1U);
    BOOST_TEST(r.ran[0].keys == 2U);
}

// The watches of the freed keys hear of it, because a server pushes nobody's own changes to him.
BOOST_AUTO_TEST_CASE(a_refused_part_releases_the_others_at_once) {
    for (auto const refusing : {first, second}) {
        wide l;
        recording_world r;
        r.answers = [&](run const& one) -> std::optional<std::string> {
            if (one.port != refusing || one.name != "acquire") return std::nullopt;
            return resp::integer(-static_cast<int>(one.keys));
        };
        r.w.submit(command::acquire, l);
        auto const told = r.told(l);
        BOOST_TEST((told.said.verdict == verdict::no), told.message);
        BOOST_TEST(told.said.obstacle == (refusing == first ? 3U : 2U));
        auto const other = refusing == first ? second : first;
        BOOST_REQUIRE(r.w.until([&] { return r.count(other, "release") == 1; }));
        BOOST_TEST(r.count(refusing, "release") == 0U);
        auto const freed =
            other == second ? std::vector<std::string>{"a", "{a}2"} : std::vector<std::string>{"b"};
        BOOST_TEST(r.w.written == freed, boost::test_tools::per_element());
        BOOST_TEST(r.w.pushed.empty()); // the lock itself does not wait for these keys
        BOOST_TEST(l.answers.size() == 1U);
        BOOST_TEST(r.w.cluster().settled());
    }
}

// The node with the other key is lost before the release leaves.
BOOST_AUTO_TEST_CASE(the_release_of_a_part_waits_for_its_node) {
    wide l;
    recording_world r;
    auto cut = false;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.port != second || one.name != "acquire") return std::nullopt;
        if (!std::exchange(cut, true)) {
            r.w.net().at(first).refuses = true;
            r.w.net().cut(first);
        }
        return resp::integer(-1);
    };
    r.w.submit(command::acquire, l);
    BOOST_TEST((r.told(l).said.verdict == verdict::no));
    BOOST_TEST(r.count(first, "acquire") == 1U);
    BOOST_TEST(r.count(first, "release") == 0U);
    BOOST_TEST(r.w.cluster().status().pending_releases == 1U);
    r.w.net().at(first).refuses = false;
    BOOST_REQUIRE(r.w.until([&] { return r.count(first, "release") == 1; }));
    BOOST_REQUIRE(r.w.until([&] { return r.w.cluster().status().pending_releases == 0U; }));
    BOOST_TEST(l.answers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_release_without_any_node_is_kept_for_each_slot) {
    wide l;
    recording_world r;
    for (auto const port : {first, second}) {
        r.w.net().at(port).refuses = true;
        r.w.net().cut(port);
    }
    BOOST_REQUIRE(r.w.until([&] { return !r.w.cluster().available(); }));
    r.w.submit(command::release, l);
    BOOST_TEST(r.w.cluster().status().pending_releases == 2U);
    BOOST_TEST(!r.w.cluster().serves_all(keys));
    for (auto const port : {first, second}) r.w.net().at(port).refuses = false;
    BOOST_REQUIRE(r.w.until(
        [&] { return r.count(first, "release") == 1 && r.count(second, "release") == 1; }));
    BOOST_TEST(l.answers.empty());
}

BOOST_AUTO_TEST_CASE(a_lost_node_answers_for_the_set) {
    wide l;
    recording_world r;
    r.w.net().at(first).refuses = true;
    r.w.net().cut(first);
    BOOST_REQUIRE(r.w.until([&] { return !r.w.cluster().serves("b"); }));
    BOOST_TEST(r.w.cluster().serves("a"));
    BOOST_TEST(!r.w.cluster().serves_all(keys));
    BOOST_TEST(r.w.cluster().serves_all(together));
    r.w.submit(command::acquire, l);
    auto const told = r.told(l);
    BOOST_TEST((told.said.verdict == verdict::unsent));
    BOOST_TEST(contains(told.message, "127.0.0.1:7001"), told.message);
    BOOST_REQUIRE(r.w.until([&] { return r.count(second, "release") == 1; }));
}

BOOST_AUTO_TEST_CASE(each_part_follows_its_redirect) {
    wide l;
    recording_world r;
    auto const slot = holdfast::protocol::hash_slot("b");
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.port != first) return std::nullopt;
        return resp::error("MOVED " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    r.w.submit(command::acquire, l);
    BOOST_TEST((r.told(l).said.verdict == verdict::yes), r.told(l).message);
    BOOST_TEST(r.count(first, "acquire") == 1U);
    BOOST_TEST(r.count(second, "acquire") == 2U);
}

// The part is released by the time at which its redirected grant would be sent again.
BOOST_AUTO_TEST_CASE(no_part_is_sent_again_after_another_was_refused) {
    wide l;
    recording_world r;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.name != "acquire") return std::nullopt;
        if (one.port == second) return resp::integer(-1);
        return resp::error("TRYAGAIN Multiple keys request during rehashing of slot");
    };
    r.w.submit(command::acquire, l);
    BOOST_TEST((r.told(l).said.verdict == verdict::no));
    BOOST_TEST(r.count(first, "acquire") == 1U);
    BOOST_TEST(r.count(first, "release") == 0U);
}

// A slot moves while the grant is under way: each part of the release goes where its grant went.
BOOST_AUTO_TEST_CASE(the_parts_of_a_release_follow_those_of_the_grant) {
    wide l;
    recording_world r;
    auto const slot = holdfast::protocol::hash_slot("b");
    auto submitted = false;
    r.other = [&](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (port == second && words.at(0) == "ASKING" && !std::exchange(submitted, true)) {
            // The release is submitted while the redirected grant is under way.
            r.w.submit_only(command::release, l);
        }
        return std::nullopt;
    };
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.port != first) return std::nullopt;
        return resp::error("ASK " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    r.w.submit(command::acquire, l);
    BOOST_REQUIRE(r.w.until([&] { return l.answers.size() == 2; }));
    BOOST_TEST(r.count(first, "release") == 0U);
    BOOST_TEST(r.count(second, "release") == 2U);
}

BOOST_AUTO_TEST_CASE(the_nodes_agree_on_one_number) {
    wide l;
    l.fenced = true;
    recording_world r;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.name != "acquire") return std::nullopt;
        return resp::integer(one.port == first ? 5 : 9);
    };
    r.w.submit(command::acquire, l);
    auto const told = r.told(l);
    BOOST_TEST((told.said.verdict == verdict::yes));
    BOOST_TEST(told.said.number == 9U);
    BOOST_TEST(r.count(second, "raise") == 0U);
    BOOST_REQUIRE(r.count(first, "raise") == 1U);
    auto const& words = r.ran.back().words;
    BOOST_TEST(words.at(words.size() - 2) == "9");
}

BOOST_AUTO_TEST_CASE(a_raise_that_lifts_nothing_at_one_node_has_not_succeeded) {
    for (auto const at : {first, second}) {
        wide l;
        l.fenced = true;
        recording_world r;
        r.answers = [&](run const& one) -> std::optional<std::string> {
            if (one.name == "raise") return resp::integer(one.port == at ? 0 : 1);
            return std::nullopt;
        };
        r.w.submit(command::raise, l);
        BOOST_TEST((r.told(l).said.verdict == verdict::rival));
    }
}

// As for a lock with a fence: the keys of one slot are at two nodes.
BOOST_AUTO_TEST_CASE(keys_of_a_slot_that_migrates_are_told) {
    wide l;
    l.all = together;
    recording_world r;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.name != "acquire") return std::nullopt;
        return resp::error("TRYAGAIN Multiple keys request during rehashing of slot");
    };
    r.w.submit(command::acquire, l);
    auto const told = r.told(l);
    BOOST_TEST((told.said.verdict == verdict::unsent));
    BOOST_TEST((told.said.cause == errc::rejected));
    BOOST_TEST(contains(told.message, "migrates: the keys of the lock are at two nodes"),
               told.message);
    BOOST_TEST(r.count(second, "acquire") > 1U);
}

BOOST_AUTO_TEST_CASE(only_the_node_of_the_watched_key_is_asked_for_its_time) {
    wide l;
    l.watched = 2;
    recording_world r;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.name != "acquire" || one.port != first) return std::nullopt;
        return resp::integer(-1);
    };
    r.other = [&](std::uint16_t, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) != "PTTL") return std::nullopt;
        return resp::integer(words.at(1) == "b" ? 1'500 : 7);
    };
    r.w.submit(command::contend, l);
    auto const told = r.told(l);
    BOOST_TEST((told.said.verdict == verdict::no));
    BOOST_TEST(told.said.obstacle == 3U);
    BOOST_TEST((told.said.ttl_left == 1'500ms));
    BOOST_TEST(r.w.count(second, "PTTL") == 0U);
    // Once more if it was not the last to answer.
    auto const asked = r.w.count(first, "PTTL");
    BOOST_TEST((asked == 1U || asked == 2U), asked);
}

BOOST_AUTO_TEST_CASE(a_stopped_cluster_answers_the_parts_that_wait) {
    wide l;
    recording_world r;
    r.answers = [&](run const& one) -> std::optional<std::string> {
        if (one.port != first) return std::nullopt;
        return resp::error("CLUSTERDOWN Hash slot not served");
    };
    r.w.submit(command::acquire, l);
    BOOST_TEST(l.answers.empty());
    holdfast::redis::in_turn(r.w, [&] { r.w.cluster().stop(); });
    BOOST_REQUIRE(l.answers.size() == 1U);
    BOOST_TEST((l.answers[0].said.verdict == verdict::unsent));
    BOOST_TEST(r.w.cluster().settled());
}

BOOST_AUTO_TEST_SUITE_END()
