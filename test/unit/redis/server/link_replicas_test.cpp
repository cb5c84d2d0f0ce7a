// An instance whose grants wait for replicas: the bytes that it sends, and its answers.
#include "support/resp.hpp"
#include "unit/redis/server/memory_link.hpp"

#include <boost/test/unit_test.hpp>

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
namespace asio = boost::asio;
using holdfast::all_replicas;
using holdfast::errc;
using holdfast::instance_state;
using holdfast::lease_clock;
using holdfast::make_error_code;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

struct heard {
    command asked;
    verdict said;
    errc cause;
    std::uint64_t number;
    std::string message;
};

class asker final : public reply_handler {
public:
    explicit asker(std::string key, bool fenced = false)
        : key_(std::move(key))
        , fenced_(fenced) {}

    command_args arguments(command) const noexcept override {
        return {.key = key_,
                .token = "t",
                .ttl = 10s,
                .fence_ttl = fenced_ ? 1h : 0ms,
                .number = fenced_ ? 7U : 0U};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command c, std::uint32_t, answer const& a) override {
        answers.push_back({c, a.verdict, a.cause, a.number, std::string(a.message)});
    }

    std::vector<heard> answers;

private:
    void recycle() noexcept override {}

    std::string key_;
    bool fenced_;
};

std::string encoded(command c, asker const& a, wording w = {}) {
    codec::request r;
    a.kind().encode(r, c, w, a.arguments(c));
    return std::string(r.payload());
}

std::string wait_for(unsigned replicas) {
    return resp::command({"WAIT", std::to_string(replicas), "250"});
}

std::string info(std::uint64_t offset, std::vector<std::uint64_t> const& acknowledged) {
    auto text = "redis_version:7.0.15\r\nrun_id:a\r\nrole:master\r\nconnected_slaves:" +
                std::to_string(acknowledged.size()) + "\r\n";
    for (std::size_t i = 0; i < acknowledged.size(); ++i) {
        text += "slave" + std::to_string(i) +
                ":ip=127.0.0.1,port=7001,state=online,offset=" + std::to_string(acknowledged[i]) +
                ",lag=0\r\n";
    }
    return resp::bulk(text + "master_repl_offset:" + std::to_string(offset) + "\r\n");
}

constexpr std::string_view denied = "-NOPERM this user has no permissions to run WAIT\r\n";

memory_link_options primary(unsigned replicas, std::string about,
                            std::string_view may_wait = ":0\r\n") {
    return {.instance_timeout = 1s,
            .replicas = replicas,
            .may_wait = std::string(may_wait),
            .info = std::move(about)};
}

void check_state(memory_link const& i, instance_state s, errc cause, std::string_view message) {
    auto const told = i.connection().status();
    BOOST_TEST((told.state == s), to_string(told.state));
    BOOST_TEST(told.reason == (cause == errc{} ? holdfast::error_code{} : make_error_code(cause)));
    BOOST_TEST(told.message == message);
    BOOST_TEST(i.connection().may_grant() == (s == instance_state::up));
    if (s != instance_state::down) BOOST_TEST((i.connection().reason() == cause));
}

void check(asker const& a, std::size_t n, verdict said, errc cause = {},
           std::string_view message = {}) {
    BOOST_REQUIRE(a.answers.size() == n + 1);
    BOOST_TEST((a.answers[n].said == said));
    BOOST_TEST((a.answers[n].cause == cause));
    BOOST_TEST(a.answers[n].message == message);
}

/// Asked each second while there is no vote.
std::string const question = resp::command({"INFO", "server", "replication", "memory",
                                            "persistence", "stats", "commandstats"}) +
                             resp::command({"WAIT", "0", "1"});
constexpr std::string_view missing = "0 of 1 replica confirmed the last writes (replicas)";

} // namespace

BOOST_AUTO_TEST_SUITE(link_replicas)

BOOST_AUTO_TEST_CASE(without_the_option_nothing_waits) {
    asker a("a");
    memory_link l(primary(0, info(5, {})));
    BOOST_TEST(l.send({{command::acquire, &a}}) == encoded(command::acquire, a));
    l.receive("+OK\r\n");
    check(a, 0, verdict::yes);
    check_state(l, instance_state::up, {}, "");
}

BOOST_AUTO_TEST_CASE(a_batch_with_grants_ends_with_one_wait) {
    asker a("a"), b("b"), c("c");
    memory_link l(primary(1, info(5, {5})));
    BOOST_TEST(l.send({{command::acquire, &a}, {command::release, &b}, {command::extend, &c}}) ==
               encoded(command::acquire, a) + encoded(command::release, b) +
                   encoded(command::extend, c) + wait_for(1));
    BOOST_TEST(l.send({{command::release, &b}, {command::inspect, &a}}) ==
               encoded(command::release, b) + encoded(command::inspect, a));
}

BOOST_AUTO_TEST_CASE(grants_count_with_the_answer_to_wait_and_refusals_and_releases_at_once) {
    asker taken("taken"), freed("freed"), refused("refused"), extended("extended"),
        contended("contended"), fenced("fenced", true);
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &taken},
            {command::release, &freed},
            {command::acquire, &refused},
            {command::extend, &extended},
            {command::contend, &contended},
            {command::acquire, &fenced},
            {command::raise, &fenced},
            {command::heal, &taken}});
    l.receive("+OK\r\n:1\r\n_\r\n:1\r\n+OK\r\n+OK\r\n:9000\r\n:8\r\n:1\r\n+OK\r\n");
    check(freed, 0, verdict::yes);
    check(refused, 0, verdict::no);
    for (auto const* const waits : {&taken, &extended, &contended, &fenced}) {
        BOOST_TEST(waits->answers.empty());
    }
    l.receive(":1\r\n");
    check(extended, 0, verdict::yes);
    check(contended, 0, verdict::yes);
    check(fenced, 1, verdict::yes);
    BOOST_TEST(fenced.answers[0].number == 8U);
    check(taken, 1, verdict::yes);
    BOOST_TEST((taken.answers[1].asked == command::heal));
    check_state(l, instance_state::up, {}, "");
    BOOST_TEST(l.unavailable == 0U);
}

BOOST_AUTO_TEST_CASE(grants_that_too_few_replicas_have_do_not_count) {
    asker a("a"), b("b");
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &a}, {command::extend, &b}});
    l.receive("+OK\r\n:1\r\n");
    l.receive(":0\r\n");
    check(a, 0, verdict::unknown, errc::too_few_replicas, missing);
    check(b, 0, verdict::unknown, errc::too_few_replicas, missing);
    check_state(l, instance_state::unreplicated, errc::too_few_replicas, missing);
    BOOST_TEST(l.unavailable == 1U);
}

BOOST_AUTO_TEST_CASE(without_a_vote_nothing_waits_and_nothing_counts_until_the_replicas_are_back) {
    asker a("a");
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &a}});
    l.pass(100ms);
    l.receive("+OK\r\n:0\r\n");
    check(a, 0, verdict::unknown, errc::too_few_replicas, missing);
    BOOST_TEST(l.pass(0s) == question); // 100 ms after the last one
    l.pass(200ms);
    l.receive(info(100, {5}) + ":0\r\n"); // frozen since
    check_state(l, instance_state::unreplicated, errc::too_few_replicas, missing);
    BOOST_TEST(l.available == 1U); // when it was probed
    BOOST_TEST(l.pass(0s) == question);
    // Extensions are sent. They do not count, even if the replicas come back meanwhile.
    BOOST_TEST(l.send({{command::extend, &a}}) == encoded(command::extend, a));
    l.receive(info(200, {100}) + ":0\r\n");
    check_state(l, instance_state::up, {}, "");
    BOOST_TEST(l.available == 2U);
    l.receive(":1\r\n");
    check(a, 1, verdict::unknown, errc::too_few_replicas);
    BOOST_TEST(l.send({{command::extend, &a}}) == encoded(command::extend, a) + wait_for(1));
    l.receive(":1\r\n:1\r\n");
    check(a, 2, verdict::yes);
    BOOST_TEST(l.unavailable == 1U);
}

BOOST_AUTO_TEST_CASE(too_few_replicas_at_first_are_told_at_once) {
    memory_link l(primary(2, info(5, {5})));
    check_state(l, instance_state::unreplicated, errc::too_few_replicas,
                "1 of 2 replicas online (replicas)");
}

BOOST_AUTO_TEST_CASE(all_replicas_are_those_that_the_server_has_listed) {
    memory_link none(primary(all_replicas, info(5, {})));
    check_state(none, instance_state::unreplicated, errc::too_few_replicas,
                "0 of 1 replica online (replicas)");
    asker a("a");
    memory_link l(primary(all_replicas, info(5, {5, 5})));
    BOOST_TEST(l.send({{command::acquire, &a}}) == encoded(command::acquire, a) + wait_for(2));
    l.receive("+OK\r\n:1\r\n");
    check(a, 0, verdict::unknown, errc::too_few_replicas,
          "1 of 2 replicas confirmed the last writes (replicas)");
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_list_its_replicas_needs_a_number) {
    auto const about = resp::bulk("redis_version:7.0.15\r\nrun_id:a\r\nrole:master\r\n");
    memory_link all(primary(all_replicas, about));
    check_state(all, instance_state::unreplicated, errc::too_few_replicas,
                "INFO does not list its replicas, and all must have each grant: set replicas "
                "to their number");
    asker a("a");
    memory_link l(primary(1, "-NOPERM no INFO for this user\r\n"));
    check_state(l, instance_state::up, {}, "");
    l.send({{command::acquire, &a}});
    l.pass(2s);
    l.receive("+OK\r\n:0\r\n");
    check(a, 0, verdict::unknown, errc::too_few_replicas, missing);
    l.pass(0s);
    check_state(l, instance_state::up, {}, "");
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_wait_has_no_vote_until_it_allows_it) {
    constexpr std::string_view told = "WAIT: NOPERM this user has no permissions to run WAIT; "
                                      "without it no grant counts (replicas)";
    memory_link at_first(primary(1, info(5, {5}), denied));
    check_state(at_first, instance_state::unreplicated, errc::access_denied, told);

    asker a("a");
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &a}});
    l.pass(2s);
    l.receive("+OK\r\n" + std::string(denied));
    check(a, 0, verdict::unknown, errc::access_denied, told);
    check_state(l, instance_state::unreplicated, errc::access_denied, told);
    BOOST_TEST(l.pass(0s) == question);
    l.receive(info(5, {5}) + ":0\r\n");
    check_state(l, instance_state::up, {}, "");

    memory_link unknown(primary(1, info(5, {5}), "-ERR unknown command 'WAIT'\r\n"));
    check_state(unknown, instance_state::unreplicated, errc::rejected,
                "WAIT: ERR unknown command 'WAIT'; without it no grant counts (replicas)");
}

BOOST_AUTO_TEST_CASE(a_server_that_becomes_a_replica_while_it_waits_is_left) {
    for (std::string const error :
         {"UNBLOCKED force unblock from blocking operation, instance state changed",
          "ERR WAIT cannot be used with replica instances."}) {
        asker a("a"), b("b");
        memory_link l(primary(1, info(5, {5})));
        l.send({{command::acquire, &a}});
        l.send({{command::extend, &b}});
        l.receive("+OK\r\n-" + error + "\r\n");
        check(a, 0, verdict::unknown, errc::read_only,
              "WAIT: " + error + "; without it no grant counts (replicas)");
        BOOST_REQUIRE(b.answers.size() == 1U);
        BOOST_TEST((b.answers[0].said == verdict::unknown));
        check_state(l, instance_state::down, errc::read_only, "WAIT: " + error);
    }
}

BOOST_AUTO_TEST_CASE(a_connection_that_ends_while_grants_wait_leaves_them_unknown) {
    asker a("a"), b("b"), c("c");
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &a}, {command::release, &b}});
    l.send({{command::acquire, &c}});
    l.receive("+OK\r\n:1\r\n");
    BOOST_TEST(a.answers.empty());
    l.stop();
    for (auto const* const waits : {&a, &c}) {
        BOOST_REQUIRE(waits->answers.size() == 1U);
        BOOST_TEST((waits->answers[0].said == verdict::unknown));
        BOOST_TEST((waits->answers[0].cause == errc::shut_down));
    }
}

BOOST_AUTO_TEST_CASE(a_wait_of_a_batch_without_grants_left_proves_no_return) {
    asker a("a"), b("b");
    memory_link l(primary(1, info(5, {5})));
    l.send({{command::acquire, &a}});
    l.send({{command::acquire, &b}});
    l.receive("+OK\r\n:0\r\n"); // missed
    l.receive("_\r\n:1\r\n");   // refused, so that WAIT had nothing to wait for
    check(b, 0, verdict::no);
    check_state(l, instance_state::unreplicated, errc::too_few_replicas, missing);
}

BOOST_AUTO_TEST_SUITE_END()
