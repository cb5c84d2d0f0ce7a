// An instance behind Sentinel, stepped without a server: the primary that a majority names, the end
// of a confirmation, and what becomes of the link.
#include "redis/sentinel/sentinel_instance.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/resp.hpp"
#include "support/text.hpp"
#include "unit/redis/memory_net.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::errc;
using holdfast::instance_state;
using holdfast::lease_clock;
using holdfast::restart_policy;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

constexpr std::array<std::uint16_t, 3> sentinels{26379, 26380, 26381};
constexpr std::array<std::uint16_t, 2> servers{7001, 7002};

class asker final : public reply_handler {
public:
    command_args arguments(command) const noexcept override {
        return {.key = "k", .token = "t", .ttl = 10s};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const& a) override {
        ++answers;
        said = a.verdict;
        cause = a.cause;
        message = a.message;
    }

    int answers = 0;
    verdict said{};
    errc cause{};
    std::string message;

private:
    void recycle() noexcept override {}
};

std::string fields(std::vector<std::pair<std::string, std::string>> const& all) {
    auto text = "%" + std::to_string(all.size()) + "\r\n";
    for (auto const& [name, value] : all) text += resp::bulk(name) + resp::bulk(value);
    return text;
}

/// What a sentinel says.
struct word {
    std::uint16_t primary = servers[0];
    unsigned epoch = 1;
    bool silent = false;
};

/// Three sentinels, two servers, and a client of the deployment.
class world final : public memory_owner {
public:
    explicit world(restart_policy policy = restart_policy::observed, int uptime = 3'600,
                   int named_for = 100)
        : uptime_(uptime)
        , named_for_(named_for)
        , instance_(std::make_shared<sentinel_instance>(
              context_.get_executor(), 0U,
              connection_options{.address =
                                     address("redis+sentinel://127.0.0.1:26379,127.0.0.1:26380,"
                                             "127.0.0.1:26381/rooms"),
                                 .instance_timeout = 1s,
                                 .connect_timeout = 1s,
                                 .max_reconnect_delay = 1s,
                                 .max_ttl = 60s,
                                 .on_restart = policy,
                                 .detect_clock_jumps = false,
                                 .max_pending_releases = 10,
                                 .name = "unit"},
              static_cast<instance_owner&>(*this), net_.factory())) {
        holdfast::redis::in_turn(*this, [&] { instance_->start(); });
        run();
    }
    ~world() {
        holdfast::redis::in_turn(*this, [&] { instance_->stop(); });
        net_.poll();
        instance_.reset();
        net_.poll();
    }

    void submit(command c, asker& a) {
        holdfast::redis::in_turn(*this, [&] {
            encoder_.start(c, a);
            BOOST_TEST(instance_->submit(encoder_, &a, 0));
        });
        run();
    }
    void all_say(word const& w) { words.fill(w); }
    void announce(std::size_t sentinel, std::uint16_t primary) {
        net_.send(
            sentinels[sentinel],
            resp::push({resp::bulk("message"), resp::bulk("+switch-master"),
                        resp::bulk("rooms 127.0.0.1 7001 127.0.0.1 " + std::to_string(primary))}));
        run();
    }
    std::array<word, 3> words{};
    std::string role = "master"; ///< of the second server
    sentinel_instance& instance() { return *instance_; }
    int unavailable = 0, available = 0;

private:
    void in_turn(turn_work& work) override {
        work.run();
        BOOST_TEST(instance_->flush());
    }
    void on_unavailable(unsigned) override { ++unavailable; }
    void on_available(unsigned) override { ++available; }

    bool answer_questions() override {
        auto some = false;
        for (std::size_t i = 0; i < sentinels.size(); ++i) some = serve_sentinel(i) || some;
        for (auto const port : servers) some = serve(port) || some;
        return some;
    }
    bool serve_sentinel(std::size_t i) {
        auto const& says = words[i];
        if (says.silent) return false;
        auto const id = [](std::size_t n) { return std::string(40, static_cast<char>('a' + n)); };
        return memory_owner::serve(sentinels[i], [&](command_line const& c) -> std::string {
            if (c[0] == "HELLO") return "%0\r\n";
            if (c[0] == "SUBSCRIBE") {
                return resp::push(
                    {resp::bulk("subscribe"), resp::bulk("+switch-master"), resp::integer(1)});
            }
            if (c[0] == "PING") return "+PONG\r\n";
            if (c[1] == "MYID") return resp::bulk(id(i));
            if (c[1] == "MASTER") {
                return fields({{"name", "rooms"},
                               {"ip", "127.0.0.1"},
                               {"port", std::to_string(says.primary)},
                               {"flags", "master"},
                               {"role-reported", "master"},
                               {"role-reported-time", std::to_string(named_for_) + "000"},
                               {"config-epoch", std::to_string(says.epoch)},
                               {"quorum", "2"}});
            }
            if (c[1] == "GET-MASTER-ADDR-BY-NAME") {
                return resp::array(
                    {resp::bulk("127.0.0.1"), resp::bulk(std::to_string(says.primary))});
            }
            std::vector<std::string> peers;
            for (std::size_t n = 0; n < sentinels.size(); ++n) {
                if (n == i) continue;
                peers.push_back(fields({{"name", id(n)},
                                        {"ip", "127.0.0.1"},
                                        {"port", std::to_string(sentinels[n])},
                                        {"runid", id(n)},
                                        {"flags", "sentinel"}}));
            }
            return resp::array(peers);
        });
    }
    bool serve(std::uint16_t port) {
        auto const id = std::string(40, port == servers[0] ? 'd' : 'e');
        return memory_owner::serve(port, [&](command_line const& c) -> std::string {
            if (c[0] == "HELLO" || c[0] == "CONFIG") return "%0\r\n";
            if (c[0] == "EVALSHA") return c.at(2) == "0" ? "-NOSCRIPT no\r\n" : ":1\r\n";
            if (c[0] == "SCRIPT") return resp::bulk("x");
            if (c[0] == "INFO") {
                if (c.size() == 2) return resp::bulk("");
                return resp::bulk("redis_version:7.0.15\r\nrun_id:" + id +
                                  "\r\nuptime_in_seconds:" + std::to_string(uptime_) +
                                  "\r\nrole:" + (port == servers[1] ? role : "master") + "\r\n");
            }
            return "+OK\r\n";
        });
    }

    int const uptime_, named_for_; ///< in seconds
    std::shared_ptr<sentinel_instance> instance_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_steps)

BOOST_AUTO_TEST_CASE(the_client_connects_to_the_primary_that_a_majority_names) {
    asker a;
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    BOOST_TEST(w.instance().status().primary == "127.0.0.1:7001");
    BOOST_TEST(w.net().at(servers[1]).connections == 0U);
    w.submit(command::acquire, a);
    BOOST_REQUIRE(a.answers == 1);
    BOOST_TEST((a.said == verdict::yes), a.message);
}

// A restart that Sentinel did not notice leaves the server its role.
BOOST_AUTO_TEST_CASE(a_primary_that_is_named_for_longer_than_it_runs_has_restarted) {
    asker a;
    world w(restart_policy::observed, 5, 100);
    BOOST_REQUIRE(w.until([&] { return w.instance().connected(); }));
    BOOST_TEST(!w.instance().may_grant());
    BOOST_TEST((w.instance().status().state == instance_state::quarantined));
    BOOST_TEST(contains(w.instance().reason_message(), "the sentinels have named it for longer"),
               w.instance().reason_message());
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers == 1; }));
    BOOST_TEST((a.said != verdict::yes));
}

BOOST_AUTO_TEST_CASE(a_young_primary_of_a_young_deployment_is_trusted) {
    world w(restart_policy::observed, 5, 5);
    BOOST_REQUIRE(w.until([&] { return w.instance().connected(); }));
    BOOST_TEST(w.instance().may_grant());
}

BOOST_AUTO_TEST_CASE(one_sentinel_of_three_is_not_believed) {
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    w.words[0] = {.primary = servers[1], .epoch = 2};
    w.announce(0, servers[1]);
    BOOST_REQUIRE(w.until([&] { return w.instance().status().primary.empty(); }));
    // The others know nothing of it. So no majority names any primary.
    BOOST_TEST((w.instance().reason() == errc::no_sentinel_majority));
    BOOST_TEST(!w.instance().may_grant());
    BOOST_TEST(w.net().at(servers[1]).connections == 0U);
}

BOOST_AUTO_TEST_CASE(after_a_failover_the_new_primary_has_no_vote_for_a_time) {
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    w.all_say({.primary = servers[1], .epoch = 2});
    for (std::size_t i = 0; i < 3; ++i) w.announce(i, servers[1]);
    BOOST_REQUIRE(w.until([&] { return w.instance().status().primary == "127.0.0.1:7002"; }));
    BOOST_REQUIRE(w.until([&] { return w.instance().connected(); }));
    BOOST_TEST(!w.instance().may_grant());
    BOOST_TEST((w.instance().status().state == instance_state::quarantined));
    asker a;
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers == 1; }));
    BOOST_TEST((a.said != verdict::yes));
    BOOST_TEST(!w.net().is_open(servers[0]));
}

BOOST_AUTO_TEST_CASE(without_a_policy_the_new_primary_votes_at_once) {
    world w(restart_policy::off);
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    w.all_say({.primary = servers[1], .epoch = 2});
    for (std::size_t i = 0; i < 3; ++i) w.announce(i, servers[1]);
    BOOST_REQUIRE(w.until([&] { return w.instance().status().primary == "127.0.0.1:7002"; }));
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    asker a;
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers == 1; }));
    BOOST_TEST((a.said == verdict::yes), a.message);
}

BOOST_AUTO_TEST_CASE(a_primary_that_is_a_replica_is_left) {
    world w(restart_policy::off);
    w.role = "slave";
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    w.all_say({.primary = servers[1], .epoch = 2});
    for (std::size_t i = 0; i < 3; ++i) w.announce(i, servers[1]);
    BOOST_REQUIRE(w.until([&] { return w.net().at(servers[1]).connections > 0; }));
    BOOST_TEST(!w.instance().connected());
    w.role = "master";
    BOOST_TEST(w.until([&] { return w.instance().may_grant(); }));
}

BOOST_AUTO_TEST_CASE(a_lost_link_is_searched_for_and_found_again) {
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    auto const before = w.unavailable;
    w.net().cut(servers[0]);
    w.run();
    BOOST_TEST(w.unavailable > before);
    BOOST_TEST(w.until([&] { return w.instance().may_grant(); }));
    BOOST_TEST(w.instance().status().primary == "127.0.0.1:7001");
}

BOOST_AUTO_TEST_CASE(grants_end_with_the_confirmation) {
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    for (auto& each : w.words) each.silent = true;
    BOOST_REQUIRE(w.until([&] { return !w.instance().may_grant(); }));
    BOOST_TEST((w.instance().reason() == errc::no_sentinel_majority));
    asker a;
    w.submit(command::acquire, a);
    BOOST_REQUIRE(w.until([&] { return a.answers == 1; }));
    BOOST_TEST((a.said != verdict::yes));
    for (auto& each : w.words) each.silent = false;
    BOOST_TEST(w.until([&] { return w.instance().may_grant(); }));
}

BOOST_AUTO_TEST_CASE(a_stopped_instance_closes_all_its_connections) {
    world w;
    BOOST_REQUIRE(w.until([&] { return w.instance().may_grant(); }));
    holdfast::redis::in_turn(w, [&] { w.instance().stop(); });
    w.net().poll();
    for (auto const port : sentinels) BOOST_TEST(!w.net().is_open(port));
    BOOST_TEST(!w.net().is_open(servers[0]));
}

BOOST_AUTO_TEST_SUITE_END()
