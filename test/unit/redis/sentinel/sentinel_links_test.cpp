// The connection to one sentinel: the limit of its answers, and the pauses between connections.
#include "redis/sentinel/sentinel_link.hpp"

#include "support/resp.hpp"
#include "unit/redis/memory_net.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::errc;
using holdfast::lease_clock;

namespace {

constexpr std::uint16_t port = 26379;
constexpr auto answer_timeout = 100ms;

class world : public memory_owner, public sentinel_link_user {
public:
    world()
        : link_(std::make_shared<sentinel_link>(
              context_.get_executor(), 7U,
              sentinel_link_options{.address = address("127.0.0.1:26379"),
                                    .primary_name = "rooms",
                                    .connection_name = "unit",
                                    .answer_timeout = answer_timeout,
                                    .connect_timeout = 1h,
                                    .max_reconnect_delay = 20ms},
              static_cast<instance_owner&>(*this), static_cast<sentinel_link_user&>(*this),
              net_.factory())) {}
    ~world() {
        link_->close();
        net_.poll();
        link_.reset();
        net_.poll();
    }

    void start() {
        holdfast::redis::in_turn(*this, [&] { link_->start(); });
        run();
    }
    void ask() {
        holdfast::redis::in_turn(*this, [&] { link_->ask(); });
        run();
    }
    void close() { link_->close(); }

    bool silent = false;
    int asked = 0, reports = 0, failures = 0;
    errc cause{};
    std::string message;

private:
    void in_turn(turn_work& work) override {
        work.run();
        BOOST_TEST(link_->flush());
    }
    void on_asked(unsigned) override { ++asked; }
    void on_report(unsigned sentinel, sentinel_report const&, lease_clock::time_point) override {
        BOOST_TEST(sentinel == 7U);
        ++reports;
    }
    void on_switch(unsigned, server_address const&) override {}
    void on_failure(unsigned, errc c, std::string_view text) override {
        ++failures;
        cause = c;
        message = text;
    }
    bool answer_questions() override {
        if (silent) return false;
        return serve(port, [&](command_line const& c) -> std::string {
            if (c[0] == "HELLO") return "%0\r\n";
            if (c[0] == "SUBSCRIBE") {
                return resp::push(
                    {resp::bulk("subscribe"), resp::bulk("+switch-master"), resp::integer(1)});
            }
            if (c[0] == "PING") return "+PONG\r\n";
            if (c[1] == "MYID") return resp::bulk(std::string(40, 'a'));
            if (c[1] == "MASTER") return "%0\r\n";
            if (c[1] == "GET-MASTER-ADDR-BY-NAME") {
                return resp::array({resp::bulk("127.0.0.1"), resp::bulk("7001")});
            }
            return resp::array({});
        });
    }

    std::shared_ptr<sentinel_link> link_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(sentinel_links, world)

BOOST_AUTO_TEST_CASE(an_overdue_answer_ends_the_connection_and_another_one_follows) {
    start();
    BOOST_TEST(reports == 1);
    silent = true;
    ask();
    BOOST_TEST(asked == 2);
    BOOST_TEST(until([&] { return failures == 1; }));
    BOOST_TEST((cause == errc::instance_timeout));
    BOOST_TEST(message == "does not answer");
    silent = false;
    BOOST_TEST(until([&] { return reports == 2; }));
    BOOST_TEST(net().at(port).connections == 2U);
}

BOOST_AUTO_TEST_CASE(the_limit_ends_with_the_last_answer) {
    start();
    ask();
    BOOST_TEST(reports == 2);
    auto const later = lease_clock::now() + 2 * answer_timeout;
    BOOST_TEST(until([&] { return lease_clock::now() >= later; }));
    BOOST_TEST(failures == 0);
    BOOST_TEST(net().at(port).connections == 1U);
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_refused_is_tried_again_after_a_pause) {
    net().at(port).refuses = true;
    start();
    BOOST_TEST(failures == 1);
    BOOST_TEST((cause == errc::unreachable));
    BOOST_TEST(until([&] { return failures >= 3; }));
    net().at(port).refuses = false;
    BOOST_TEST(until([&] { return reports == 1; }));
}

BOOST_AUTO_TEST_CASE(a_link_that_is_closed_calls_nobody) {
    silent = true;
    start();
    close();
    auto const later = lease_clock::now() + 2 * answer_timeout;
    BOOST_TEST(until([&] { return lease_clock::now() >= later; }));
    BOOST_TEST(failures == 0);
    BOOST_TEST(net().at(port).connections == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
