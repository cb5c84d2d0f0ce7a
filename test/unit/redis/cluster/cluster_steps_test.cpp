// A Cluster as an instance, stepped without a server: refusals of its nodes, the ways of commands
// between them, and the guards of each node.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_instance.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/cluster/cluster_world.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

std::string const key = "k";
unsigned const slot = holdfast::protocol::hash_slot(key);

class asker final : public reply_handler {
public:
    struct heard {
        command asked;
        verdict said;
        errc cause;
        std::string message;
    };

    command_args arguments(command) const noexcept override {
        return {.key = name, .token = "t", .ttl = 10s};
    }
    bool still_wants(command) const noexcept override { return wants; }
    void on_answer(unsigned, command c, std::uint32_t, answer const& a) override {
        answers.push_back({c, a.verdict, a.cause, std::string(a.message)});
    }

    bool wants = true;
    std::string name = key;
    std::vector<heard> answers;

private:
    void recycle() noexcept override {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_steps)

//
// Refusals
//

BOOST_AUTO_TEST_CASE(a_command_goes_to_the_owner_of_its_slot) {
    asker a;
    world w;
    BOOST_TEST(w.cluster().available());
    w.submit(command::acquire, a);
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::yes));
    BOOST_TEST(w.count(first, "SET") == 1U);
    BOOST_TEST(w.count(second, "SET") == 0U);
}

BOOST_AUTO_TEST_CASE(moved_is_followed_and_remembered) {
    asker a, again;
    world w;
    w.answers = [&](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (port != first || words.at(0) != "SET") return std::nullopt;
        w.owner_of_slots = second;
        return resp::error("MOVED " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
    BOOST_TEST(w.count(second, "SET") == 1U);
    w.submit(command::acquire, again);
    BOOST_REQUIRE(w.until([&] { return again.answers.size() == 1; }));
    BOOST_TEST(w.count(first, "SET") == 1U);
    BOOST_TEST(w.count(second, "SET") == 2U);
}

BOOST_AUTO_TEST_CASE(ask_is_followed_with_asking_and_not_remembered) {
    std::array<asker, 2> askers;
    world w;
    w.answers = [](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (port != first || words.at(0) != "SET") return std::nullopt;
        return resp::error("ASK " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    for (std::size_t n = 1; n <= 2; ++n) {
        auto& a = askers[n - 1];
        auto const before = w.count(first, "SET");
        w.submit(command::acquire, a);
        BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
        BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
        BOOST_TEST(w.count(first, "SET") > before); // more than once while the second is connected
        BOOST_TEST(w.count(second, "ASKING") == n);
        BOOST_TEST(w.count(second, "SET") == n);
    }
}

BOOST_AUTO_TEST_CASE(a_target_that_cannot_be_asked_pauses_each_try_and_is_told) {
    asker a;
    world w;
    w.net().at(second).refuses = true;
    w.answers = [](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (port != first || words.at(0) != "SET") return std::nullopt;
        return resp::error("ASK " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::unsent));
    BOOST_TEST(contains(a.answers[0].message, "migrates"), a.answers[0].message);
    BOOST_TEST(w.count(first, "SET") > 1U);
    BOOST_TEST(w.count(first, "SET") < 100U);
}

BOOST_AUTO_TEST_CASE(a_refusal_that_passes_is_waited_for) {
    for (auto const* const text : {"TRYAGAIN Multiple keys request during rehashing of slot",
                                   "CLUSTERDOWN Hash slot not served", "MOVED garbage"}) {
        BOOST_TEST_CONTEXT(text) {
            asker a;
            world w;
            auto refusals = 3;
            w.answers = [&](std::uint16_t,
                            command_line const& words) -> std::optional<std::string> {
                if (words.at(0) != "SET" || refusals == 0) return std::nullopt;
                --refusals;
                return resp::error(text);
            };
            w.submit(command::acquire, a);
            BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
            BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
            BOOST_TEST(refusals == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_grant_that_nobody_wants_any_more_is_not_sent_again) {
    asker a;
    world w;
    w.answers = [&](std::uint16_t, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) != "SET") return std::nullopt;
        a.wants = false;
        return resp::error("MOVED " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::unsent));
    BOOST_TEST((a.answers[0].cause == errc{}));
    BOOST_TEST(w.count(second, "SET") == 0U);
}

// The slot moves while the grant is under way. The release must not be there first.
BOOST_AUTO_TEST_CASE(a_release_goes_where_its_grant_went) {
    asker a;
    world w;
    w.silent = true;
    w.submit(command::acquire, a);
    w.submit(command::release, a);
    w.owner_of_slots = second;
    w.silent = false;
    w.run();
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 2; }));
    BOOST_TEST(w.count(first, "SET") == 1U);
    BOOST_TEST(w.count(second, "SET") == 0U);
}

BOOST_AUTO_TEST_CASE(keys_of_two_slots_are_a_fault_that_is_told_at_once) {
    asker a;
    world w;
    w.answers = [](std::uint16_t, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) != "SET") return std::nullopt;
        return resp::error("CROSSSLOT Keys in request don't hash to the same slot");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::refused));
    BOOST_TEST((a.answers[0].cause == errc::rejected));
    BOOST_TEST(contains(a.answers[0].message, "CROSSSLOT"));
}

BOOST_AUTO_TEST_CASE(an_inspection_does_not_follow_an_ask) {
    asker a;
    world w;
    w.answers = [](std::uint16_t, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) != "PTTL" && words.at(0) != "TYPE" && words.at(0) != "GETRANGE")
            return std::nullopt;
        return resp::error("ASK " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    w.submit(command::inspect, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::unsent));
    BOOST_TEST(contains(a.answers[0].message, "migrates"), a.answers[0].message);
    BOOST_TEST(w.count(second, "ASKING") == 0U);
}

//
// Links
//

// Without a word for half of the node timeout, another node may have replaced it. Nobody else can
// vouch for a node here, so it vouches for itself by a map of one primary.
BOOST_AUTO_TEST_CASE(a_link_that_is_lost_leaves_its_commands_to_the_next_one) {
    asker a, next;
    world w;
    w.silent = true;
    w.submit(command::acquire, a);
    w.net().cut(first);
    w.silent = false;
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::unknown));
    BOOST_TEST((a.answers[0].cause == errc::unreachable));
    BOOST_REQUIRE(w.until([&] { return w.cluster().connected(); }));
    w.submit(command::acquire, next);
    BOOST_REQUIRE(w.until([&] { return next.answers.size() == 1; }));
    BOOST_TEST((next.answers[0].said == verdict::yes), next.answers[0].message);
}

// A promoted replica may lack the last grants of its primary.
BOOST_AUTO_TEST_CASE(a_promoted_node_has_no_vote_for_a_time) {
    asker a;
    world w;
    w.answers = [&](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) == "SET" && port == first) {
            w.owner_of_slots = second;
            return resp::error("MOVED " + std::to_string(slot) + " 127.0.0.1:7002");
        }
        if (port != second || words.at(0) != "INFO" || words.size() == 2) return std::nullopt;
        return resp::bulk("redis_version:7.0.15\r\nrun_id:" + std::string(40, 'b') +
                          "\r\nrole:master\r\nmaster_replid:" + std::string(40, 'c') +
                          "\r\nmaster_replid2:" + std::string(40, 'a') + "\r\n");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].cause == errc::quarantined), a.answers[0].message);
    BOOST_TEST(contains(a.answers[0].message, "127.0.0.1:7002"), a.answers[0].message);
}

//
// Ages
//

// The nodes tell their ages in any order, before the map or after it.
BOOST_AUTO_TEST_CASE(a_young_node_beside_an_older_one_has_restarted) {
    for (auto const* const seeds : {"127.0.0.1:7001", "127.0.0.1:7001,127.0.0.1:7002"}) {
        for (auto const young : {first, second}) {
            auto const other = young == first ? second : first;
            std::array<asker, 2> askers;
            world w(world::aged{.uptimes = {{young, 5}, {other, 3'600}}, .seeds = seeds});
            BOOST_REQUIRE(w.until([&] { return w.net().at(second).connections > 0; }));
            askers[1].name = "a"; // its slot is one of the second node
            for (auto& a : askers) w.submit(command::acquire, a);
            BOOST_REQUIRE(w.until(
                [&] { return askers[0].answers.size() == 1 && askers[1].answers.size() == 1; }));
            auto const& refused = askers[young == second ? 1 : 0].answers[0];
            auto const& granted = askers[young == second ? 0 : 1].answers[0];
            BOOST_TEST((refused.cause == errc::quarantined), refused.message);
            BOOST_TEST(contains(refused.message, "another server is older"), refused.message);
            BOOST_TEST((granted.said == verdict::yes), granted.message);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_new_cluster_is_trusted) {
    asker a;
    world w(world::aged{.uptimes = {{first, 5}, {second, 2}}});
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
}

// The first two may have restarted. The third one can tell.
BOOST_AUTO_TEST_CASE(commands_of_a_young_node_wait_for_a_node_that_is_being_connected) {
    asker a;
    world w(world::aged{.uptimes = {{first, 5}, {second, 5}, {third, 3'600}}, .has_third = true});
    w.submit(command::acquire, a);
    // The second node has named the first one, so that it might grant.
    BOOST_REQUIRE(w.until([&] { return w.count(second, "CLUSTER") > 0; }));
    BOOST_TEST(a.answers.empty());
    w.net().answer_now(third);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].cause == errc::quarantined), a.answers[0].message);
}

BOOST_AUTO_TEST_CASE(and_no_longer_than_a_part_of_the_instance_timeout) {
    asker a;
    world w(world::aged{.uptimes = {{first, 5}, {second, 5}}, .has_third = true});
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
    BOOST_TEST(w.net().at(third).connecting);
}

// It has all keys of its slots from nodes that the client knows.
BOOST_AUTO_TEST_CASE(a_node_that_joins_later_is_trusted_though_it_is_young) {
    asker before, a;
    world w(world::aged{.uptimes = {{first, 3'600}, {second, 2}}, .shared = false});
    w.submit(command::acquire, before);
    BOOST_REQUIRE(w.until([&] { return before.answers.size() == 1; }));
    w.answers = [&](std::uint16_t port, command_line const& words) -> std::optional<std::string> {
        if (port != first || words.at(0) != "SET") return std::nullopt;
        w.owner_of_slots = second;
        return resp::error("MOVED " + std::to_string(slot) + " 127.0.0.1:7002");
    };
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_TEST((a.answers[0].said == verdict::yes), a.answers[0].message);
    BOOST_TEST(w.count(second, "SET") == 1U);
}

BOOST_AUTO_TEST_CASE(a_stopped_cluster_answers_what_waits) {
    asker a;
    world w;
    w.net().at(second).refuses = true;
    w.answers = [](std::uint16_t, command_line const& words) -> std::optional<std::string> {
        if (words.at(0) != "SET") return std::nullopt;
        return resp::error("CLUSTERDOWN Hash slot not served");
    };
    w.submit(command::acquire, a);
    BOOST_TEST(a.answers.empty());
    holdfast::redis::in_turn(w, [&] { w.cluster().stop(); });
    BOOST_REQUIRE(a.answers.size() == 1U);
    BOOST_TEST((a.answers[0].said == verdict::unsent));
    BOOST_TEST(!w.cluster().available());
}

BOOST_AUTO_TEST_SUITE_END()
