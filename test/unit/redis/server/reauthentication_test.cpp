// AUTH on a connection that there is, stepped without a server.
#include "redis/server/reauthentication.hpp"

#include "support/lone_owner.hpp"
#include "support/resp.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::credentials;
using holdfast::restart_policy;

namespace {

class quiet_owner final : public lone_owner {};

class keeper_user final : public credential_user {
    void on_credentials(std::string_view, bool) noexcept override {}
};

struct fixture {
    /// What the connection sends now.
    std::string sent() {
        return state.commands.empty() ? std::string() : state.commands.send(state.words).bytes;
    }

    asio::io_context context;
    quiet_owner owner;
    keeper_user user;
    link_boundary boundary;
    std::shared_ptr<credential_keeper> const keeper = std::make_shared<credential_keeper>(
        context.get_executor(), credentials{.user = "app", .password = "secret"},
        holdfast::credentials_source(), 1s, static_cast<instance_owner&>(owner),
        static_cast<credential_user&>(user), boundary);
    connection_state state{0,
                           {.address = address("127.0.0.1:1"),
                            .instance_timeout = 1s,
                            .connect_timeout = 1s,
                            .max_reconnect_delay = 1s,
                            .max_ttl = 60s,
                            .on_restart = restart_policy::off,
                            .detect_clock_jumps = false,
                            .max_pending_releases = 10,
                            .name = "unit"},
                           owner,
                           keeper->secrets()};
    holdfast::redis::reauthentication auth{state, *keeper};
};

std::string const question = resp::command({"AUTH", "app", "secret"});

} // namespace

BOOST_FIXTURE_TEST_SUITE(reauthentication, fixture)

// A suspect node: all that was not sent is dropped, and later the node answers again.
BOOST_AUTO_TEST_CASE(an_auth_that_was_dropped_is_sent_when_the_server_answers_again) {
    auth.start();
    state.commands.take_unsent([](pending_command const&) {});
    BOOST_TEST(state.commands.empty());
    auth.came_back();
    BOOST_TEST(sent() == question);
}

BOOST_AUTO_TEST_CASE(an_auth_that_was_answered_is_not_sent_again) {
    auth.start();
    BOOST_TEST(sent() == question);
    reply_reader reader;
    reader.read("+OK\r\n", [&](element const& e) { auth.take_part(e); });
    auth.on_reply();
    auth.came_back();
    BOOST_TEST(state.commands.empty());
}

BOOST_AUTO_TEST_CASE(a_new_connection_authenticates_in_its_probe) {
    auth.start();
    state.commands.take_unsent([](pending_command const&) {});
    auth.begin();
    auth.came_back();
    BOOST_TEST(state.commands.empty());
}

BOOST_AUTO_TEST_SUITE_END()
