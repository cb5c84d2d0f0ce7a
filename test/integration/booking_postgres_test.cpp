// The example booking with PostgreSQL.
#include "integration/booking_process.hpp"
#include "integration/nothing_left.hpp"
#include "integration/postgres_server.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <future>
#include <string>
#include <vector>

using namespace holdfast::test;

namespace {

boost::test_tools::assertion_result installed(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(!postgres_server::programs().empty());
    if (!result) result.message() << "PostgreSQL is not installed (tools/setup --checks)";
    return result;
}

struct stage {
    fleet instances{3};
    postgres_server database;
};

} // namespace

BOOST_AUTO_TEST_SUITE(booking_postgres, *boost::unit_test::precondition(installed))

BOOST_AUTO_TEST_CASE(one_of_many_buyers_of_a_seat_has_it) {
    stage s;
    booking_process const a(s.instances, s.database.url()), b(s.instances, s.database.url());
    std::vector<std::future<http_reply>> buyers;
    for (int i = 0; i < 16; ++i)
        buyers.push_back((i % 2 == 0 ? a : b).posting("/seats/7/buy", "o" + std::to_string(i)));
    int sold = 0, refused = 0;
    for (auto& each : buyers) {
        auto const reply = each.get();
        sold += reply.status == 200U ? 1 : 0;
        refused += reply.body == "{\"error\":\"seat 7 is sold\"}" ? 1 : 0;
    }
    BOOST_TEST(sold == 1);
    BOOST_TEST(refused == 15);
    // The seat and the journal agree.
    BOOST_TEST(s.database.query("SELECT count(*), max(owner) FROM journal") ==
               s.database.query("SELECT version, owner FROM seats WHERE sold = 1"));
    BOOST_TEST(s.database.query("SELECT count(*) FROM seats") == "100\n");
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(the_database_rejects_a_late_holder) {
    stage s;
    booking_process const server(s.instances, s.database.url(),
                                 {"--payment", "2000", "--deadline", "20000"});
    auto buying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(wait_until(
        [&] { return s.database.query("SELECT fence > 0 FROM seats WHERE id = 3") == "t\n"; },
        std::chrono::seconds(10)));
    s.database.query("UPDATE seats SET fence = fence + 1 WHERE id = 3");
    auto const reply = buying.get();
    BOOST_TEST(reply.status == 503U);
    BOOST_TEST(reply.body == "{\"error\":\"a later holder of seat 3 was here\"}");
    BOOST_TEST(s.database.query("SELECT count(*) FROM journal") == "0\n");
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"free\"}"));
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(a_database_that_is_away_is_told_and_comes_back) {
    stage s;
    booking_process const server(s.instances, s.database.url());
    BOOST_TEST(server.post("/seats/3/hold", "alice").status == 200U);
    s.database.stop();
    auto const refused = server.post("/seats/3/buy", "alice");
    BOOST_TEST(refused.status == 503U);
    BOOST_TEST(contains(refused.body, "PostgreSQL: "), refused.body);
    BOOST_TEST(server.get("/seats").status == 503U);
    check_nothing_left(s.instances);
    s.database.start();
    // Each of the connections fails once, and is made again.
    BOOST_TEST(wait_until([&] { return server.post("/seats/3/buy", "alice").status == 200U; }));
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"sold\",\"owner\":\"alice\"}"));
    check_nothing_left(s.instances);

    // No message has a password.
    auto const started = [&](std::string const& url) {
        return run_program(program("HOLDFAST_BOOKING") + " --instances " + s.instances.url_list() +
                           " --listen 127.0.0.1:0 --database '" + url + "'");
    };
    auto const denied = started(s.database.url_with("an0ther"));
    BOOST_TEST(denied.status == 1);
    BOOST_TEST(contains(denied.said, "password authentication failed"), denied.said);
    BOOST_TEST(!contains(denied.said, "an0ther"), denied.said);
    auto const unreadable = started(s.database.url_with("an0%ther"));
    BOOST_TEST(unreadable.status == 2);
    BOOST_TEST(contains(unreadable.said, "cannot read this URL of postgresql"), unreadable.said);
    BOOST_TEST(!contains(unreadable.said, "an0"), unreadable.said);
}

// Another program locks the table for longer than a statement may take.
BOOST_AUTO_TEST_CASE(a_database_that_hangs_is_told) {
    stage s;
    booking_process const server(s.instances, s.database.url(), {"--deadline", "60000"});
    auto const hangs = std::async(std::launch::async, [&] {
        s.database.query("BEGIN; LOCK TABLE seats; SELECT pg_advisory_lock(1);"
                         "SELECT pg_sleep(7); COMMIT");
    });
    BOOST_REQUIRE(wait_until([&] {
        return s.database.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") ==
               "1\n";
    }));
    auto const refused = server.post("/seats/3/buy", "alice");
    BOOST_TEST(refused.status == 503U);
    BOOST_TEST(contains(refused.body, "PostgreSQL: no result within 5 s"), refused.body);
    check_nothing_left(s.instances);
    hangs.wait();
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    BOOST_TEST(s.database.query("SELECT owner, version FROM seats WHERE sold = 1") == "alice|1\n");
}

BOOST_AUTO_TEST_SUITE_END()
