// One source of credentials for many connections.
#include "redis/net/shared_source.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;

namespace {

struct connections {
    connections()
        : ask(redis::share(
              [this](credentials_reply reply) {
                  requests.push_back(std::move(reply));
                  if (throws) throw std::runtime_error("no");
              },
              5s, [this] { return now; })) {}

    /// A connection asks. Its replies are in `given`: a password, or the text of an error.
    void connect() {
        ask([this](boost::system::error_code ec, credentials const& c) {
            given.push_back(ec ? ec.message() : c.password);
        });
    }
    void reply(std::size_t request, std::string const& password) {
        requests.at(request)({}, {.user = "app", .password = password});
    }

    lease_clock::time_point now{};
    bool throws = false;
    std::vector<credentials_reply> requests;
    std::vector<std::string> given;
    credentials_source ask;
};

using texts = std::vector<std::string>;

} // namespace

BOOST_AUTO_TEST_SUITE(shared_source)

BOOST_AUTO_TEST_CASE(all_that_ask_at_a_time_get_the_reply_to_one_request) {
    connections c;
    for (int i = 0; i < 3; ++i) c.connect();
    BOOST_TEST(c.requests.size() == 1U);
    BOOST_TEST(c.given == texts{}, boost::test_tools::per_element());
    c.reply(0, "a");
    BOOST_TEST((c.given == texts{"a", "a", "a"}));
}

BOOST_AUTO_TEST_CASE(a_reply_is_given_again_for_a_second) {
    connections c;
    c.connect();
    c.reply(0, "a");
    c.now += 999ms;
    c.connect();
    BOOST_TEST(c.requests.size() == 1U);
    c.now += 1ms;
    c.connect();
    BOOST_TEST_REQUIRE(c.requests.size() == 2U);
    c.reply(1, "b");
    BOOST_TEST((c.given == texts{"a", "a", "b"}));
}

BOOST_AUTO_TEST_CASE(an_error_goes_to_all_and_is_given_again_for_a_second) {
    connections c;
    c.connect();
    c.connect();
    c.requests.at(0)(boost::asio::error::connection_refused, {});
    c.connect();
    BOOST_TEST(c.requests.size() == 1U);
    auto const text = boost::system::error_code(boost::asio::error::connection_refused).message();
    BOOST_TEST((c.given == texts{text, text, text}));
}

BOOST_AUTO_TEST_CASE(a_source_that_is_silent_is_asked_again_after_its_time) {
    connections c;
    c.connect();
    c.now += 4999ms;
    c.connect();
    BOOST_TEST(c.requests.size() == 1U);
    c.now += 1ms;
    c.connect();
    BOOST_TEST_REQUIRE(c.requests.size() == 2U);
    c.reply(0, "late");
    BOOST_TEST(c.given.empty());
    c.reply(1, "a");
    BOOST_TEST((c.given == texts{"a", "a"})); // the first connection waits no longer
}

BOOST_AUTO_TEST_CASE(a_second_reply_to_a_request_is_ignored) {
    connections c;
    c.connect();
    c.reply(0, "a");
    c.reply(0, "b");
    c.connect();
    BOOST_TEST((c.given == texts{"a", "a"}));
    c.now += 1s;
    c.connect();
    c.reply(0, "b");
    BOOST_TEST(c.given.size() == 2U);
    c.reply(1, "c");
    BOOST_TEST((c.given == texts{"a", "a", "c"}));
}

BOOST_AUTO_TEST_CASE(an_exception_of_the_source_goes_to_those_that_ask_for_a_second) {
    connections c;
    c.throws = true;
    BOOST_CHECK_THROW(c.connect(), std::runtime_error);
    BOOST_CHECK_THROW(c.connect(), std::runtime_error);
    BOOST_TEST(c.requests.size() == 1U);
    c.throws = false;
    c.now += 1s;
    c.connect();
    BOOST_TEST_REQUIRE(c.requests.size() == 2U);
    c.reply(1, "a");
    c.connect();
    BOOST_TEST((c.given == texts{"a", "a"}));
}

BOOST_AUTO_TEST_CASE(without_a_source_there_is_none) {
    BOOST_TEST((redis::share({}, 5s) == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
