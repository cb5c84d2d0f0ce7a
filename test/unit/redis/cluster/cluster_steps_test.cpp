// A Cluster as an instance, stepped without a server: refusals of its nodes, the ways of commands
// between them, and the guards of each node.
#include "protocol/cluster/hash_slot.hpp"
#include "protocol/server/server_ages.hpp"
#include "redis/cluster/cluster_instance.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/memory_net.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::errc;
using holdfast::lease_clock;
using holdfast::restart_policy;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

constexpr std::uint16_t first = 7001, second = 7002, third = 7003;
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

/// Two nodes, and a client of their Cluster. The first node has all slots.
class world final : public memory_owner {
public:
    /// Empty: the node answers as a server does that owns the slot.
    using hook = std::function<std::optional<std::string>(std::uint16_t, command_line const&)>;

    /// A Cluster whose nodes tell their ages.
    struct aged {
        std::map<std::uint16_t, int> uptimes = {}; ///< in seconds
        bool shared = true;     ///< both nodes have slots, the first that of the key
        bool has_third = false; ///< a node with slots that hangs at first
        std::string seeds = "127.0.0.1:7001";
    };

    explicit world(hook h = {})
        : world(aged{.shared = false}, std::move(h)) {}
    explicit world(aged of, hook h = {})
        : answers(std::move(h))
        , ages_(std::move(of))
        , cluster_(std::make_shared<cluster_instance>(
              context_.get_executor(), 0U,
              connection_options{.address = address("redis+cluster://" + ages_.seeds),
                                 .instance_timeout = ages_.has_third ? 8s : 1s,
                                 .connect_timeout = ages_.has_third ? 8s : 1s,
                                 .max_reconnect_delay = 1s,
                                 .max_ttl = 60s,
                                 .on_restart = restart_policy::observed,
                                 .detect_clock_jumps = false,
                                 .max_pending_releases = 10,
                                 .name = "unit"},
              true, static_cast<instance_owner&>(*this), net_.factory())) {
        net_.at(third).hangs = ages_.has_third;
        holdfast::redis::in_turn(*this, [&] { cluster_->start(); });
        run();
    }
    ~world() {
        holdfast::redis::in_turn(*this, [&] { cluster_->stop(); });
        net_.poll();
        cluster_.reset();
        net_.poll();
    }

    void submit(command c, asker& a) {
        holdfast::redis::in_turn(*this, [&] {
            encoder_.start(c, a);
            BOOST_TEST(cluster_->submit(encoder_, &a, 0));
        });
        run();
    }
    std::size_t count(std::uint16_t port, std::string_view name) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            log, [&](auto const& l) { return l.first == port && l.second == name; }));
    }

    hook answers;
    bool silent = false; ///< the nodes answer nothing
    std::uint16_t owner_of_slots = first;
    std::vector<std::pair<std::uint16_t, std::string>> log;
    cluster_instance& cluster() { return *cluster_; }

    /// As runtime::engine does.
    void on_age(unsigned, lease_clock::time_point start) override {
        heard_.on_age(start, lease_clock::now());
        if (heard_.some_old()) cluster_->on_older_server();
    }

private:
    void in_turn(turn_work& work) override {
        work.run();
        BOOST_TEST(cluster_->flush());
    }
    bool answer_questions() override {
        auto some = false;
        for (auto const port : {first, second, third}) some = (!silent && serve(port)) || some;
        return some;
    }
    bool serve(std::uint16_t port) {
        return memory_owner::serve(port, [&](command_line const& words) {
            log.emplace_back(port, words.at(0));
            auto const special = answers ? answers(port, words) : std::nullopt;
            return special ? *special : usual(port, words);
        });
    }
    std::string usual(std::uint16_t port, command_line const& words) const {
        auto const& name = words.at(0);
        auto const id = id_of(port);
        if (name == "HELLO" || name == "CONFIG") return "%0\r\n";
        if (name == "EVALSHA") return words.at(2) == "0" ? "-NOSCRIPT no\r\n" : ":1\r\n";
        if (name == "SCRIPT") return resp::bulk("x");
        if (name == "INFO") {
            return words.size() == 2 ? resp::bulk("")
                                     : resp::bulk("redis_version:7.0.15\r\nrun_id:" + id +
                                                  "\r\nrole:master\r\nmaster_replid:" + id +
                                                  "\r\n" + uptime(port));
        }
        if (name == "CLUSTER" && words.at(1) == "INFO")
            return resp::bulk("cluster_state:ok\r\ncluster_current_epoch:1\r\n");
        if (name == "CLUSTER" && words.at(1) == "SLOTS") {
            if (!ages_.shared) return resp::array({range(0, 16'383, owner_of_slots)});
            if (!ages_.has_third)
                return resp::array({range(0, 8'191, first), range(8'192, 16'383, second)});
            return resp::array({range(0, 8'191, first), range(8'192, 15'999, second),
                                range(16'000, 16'383, third)});
        }
        if (name == "CLUSTER") {
            return resp::bulk(std::string(40, 'a') + " 127.0.0.1:7001@17001 master - 0 0 1\n" +
                              std::string(40, 'b') + " 127.0.0.1:7002@17002 master - 0 0 2\n");
        }
        return "+OK\r\n";
    }

    static std::string range(int from, int to, std::uint16_t port) {
        return resp::array({resp::integer(from), resp::integer(to),
                            resp::array({resp::bulk("127.0.0.1"), resp::integer(port),
                                         resp::bulk(id_of(port)), resp::array({})})});
    }
    static std::string id_of(std::uint16_t port) {
        return std::string(40, static_cast<char>('a' + (port - first)));
    }
    std::string uptime(std::uint16_t port) const {
        auto const known = ages_.uptimes.find(port);
        return known == ages_.uptimes.end()
                   ? std::string()
                   : "uptime_in_seconds:" + std::to_string(known->second) + "\r\n";
    }

    aged const ages_;
    holdfast::protocol::server_ages heard_{60s};
    std::shared_ptr<cluster_instance> cluster_;
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
