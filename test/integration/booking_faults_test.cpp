// The example booking while locks, servers and processes fail: no seat is sold twice, and each
// buyer hears why.
#include "integration/booking_process.hpp"
#include "integration/foreign_client.hpp"
#include "integration/nothing_left.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <future>
#include <sqlite3.h>
#include <string>

using namespace holdfast::test;

namespace {

struct stage {
    fleet instances{3};
    swept_folder folder;
    std::string file = folder.path("booking.db");
    std::string database = "sqlite:" + file;
};

/// As another program that uses the database. True if there is a row.
bool execute(std::string const& file, std::string const& sql) {
    sqlite3* db = nullptr;
    BOOST_REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, 5'000);
    bool row = false;
    auto const result = sqlite3_exec(
        db, sql.c_str(),
        [](void* seen, int, char**, char**) {
            *static_cast<bool*>(seen) = true;
            return 0;
        },
        &row, nullptr);
    BOOST_TEST(result == SQLITE_OK, sqlite3_errmsg(db));
    sqlite3_close(db);
    return row;
}

/// Also the max_ttl of the servers that sell.
constexpr auto short_ttl = std::chrono::seconds(1);
constexpr char const* short_ttl_ms = "1000";

bool of_age(fleet& servers) {
    return wait_until(
        [&] {
            for (server const& each : servers)
                if (!redis_cli(each).is_older_than(short_ttl)) return false;
            return true;
        },
        std::chrono::seconds(30));
}

/// The holder has claimed the seat, and holds no lock of the database any longer: SQLite has one
/// writer at a time.
bool claimed(std::string const& file, int seat) {
    return wait_until(
        [&] {
            return execute(file, "BEGIN IMMEDIATE; SELECT 1 FROM seats WHERE fence > 0 AND id = " +
                                     std::to_string(seat) + "; COMMIT");
        },
        std::chrono::seconds(20), std::chrono::milliseconds(5));
}

} // namespace

BOOST_AUTO_TEST_SUITE(booking_faults)

BOOST_AUTO_TEST_CASE(a_lost_lease_ends_the_payment_and_answers_503) {
    stage s;
    BOOST_REQUIRE(of_age(s.instances));
    booking_process const server(
        s.instances, s.database,
        {"--payment", "30000", "--deadline", "60000", "--ttl", short_ttl_ms});
    auto buying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(server.metric_becomes("holdfast_leases_held", 1.));
    foreign_client other(s.instances);
    BOOST_TEST(other.del_if_there("seat:3") >= s.instances.quorum());
    auto const reply = buying.get();
    BOOST_TEST(reply.status == 503U);
    BOOST_TEST(contains(reply.body, "the lock of seat 3 was lost"), reply.body);
    BOOST_TEST(reply.headers.at("Retry-After") == "1");
    BOOST_TEST(server.metric("holdfast_leases_lost_total") == 1.);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"free\"}"));
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(a_server_that_stood_still_sells_nothing_afterwards) {
    stage s;
    BOOST_REQUIRE(of_age(s.instances));
    booking_process stopped(s.instances, s.database,
                            {"--payment", "3000", "--ttl", short_ttl_ms, "--deadline", "60000"});
    booking_process const other(s.instances, s.database,
                                {"--payment", "0", "--ttl", short_ttl_ms, "--deadline", "20000"});
    auto buying = stopped.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(claimed(s.file, 3)); // one that stops while it writes would stop the other
    stopped.process.stop();
    BOOST_TEST(other.post("/seats/3/buy", "bob").status == 200U); // after the ttl
    stopped.process.go_on();
    auto const reply = buying.get();
    BOOST_TEST(reply.status == 503U);
    BOOST_TEST(contains(reply.body, "seat 3"), reply.body);
    BOOST_TEST(stopped.shows("{\"seat\":3,\"state\":\"sold\",\"owner\":\"bob\"}"));
    check_nothing_left(s.instances);
}

// The lease lasts, but the database has seen a greater fence.
BOOST_AUTO_TEST_CASE(the_database_rejects_a_late_holder) {
    stage s;
    booking_process const server(s.instances, s.database,
                                 {"--payment", "2000", "--deadline", "20000"});
    auto buying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(claimed(s.file, 3));
    execute(s.file, "UPDATE seats SET fence = fence + 1 WHERE id = 3");
    auto const reply = buying.get();
    BOOST_TEST(reply.status == 503U);
    BOOST_TEST(reply.body == "{\"error\":\"a later holder of seat 3 was here\"}");
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"free\"}"));

    // And at once, where the greater fence is there before the claim. It is the greatest one.
    execute(s.file, "UPDATE seats SET fence = 9007199254740991 WHERE id = 3");
    BOOST_TEST(server.post("/seats/3/hold", "bob").body == reply.body);
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(an_outage_is_told_and_ends) {
    stage s;
    booking_process const server(s.instances, s.database, {"--deadline", "20000"});
    BOOST_TEST(server.post("/seats/1/buy", "alice").status == 200U);
    BOOST_TEST(server.get("/healthz").status == 200U);
    s.instances.freeze(2);
    auto const refused = server.post("/seats/3/buy", "alice");
    BOOST_TEST(refused.status == 503U);
    BOOST_TEST(contains(refused.body, s.instances[0].shown()), refused.body);
    auto const health = server.get("/healthz");
    BOOST_TEST(health.status == 503U);
    BOOST_TEST(health.body == "{\"instances\":3,\"up\":1,\"quorum\":2}");
    s.instances.thaw_all();
    BOOST_TEST(wait_until([&] { return server.get("/healthz").status == 200U; }));
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    check_nothing_left(s.instances, std::chrono::seconds(5));
}

BOOST_AUTO_TEST_CASE(a_minority_that_fails_is_not_noticed) {
    stage s;
    booking_process const server(s.instances, s.database);
    s.instances[0].kill();
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    BOOST_TEST(server.get("/healthz").status == 200U);
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(a_database_that_another_program_locks_is_told) {
    stage s;
    booking_process const server(s.instances, s.database, {"--deadline", "60000"});
    sqlite3* db = nullptr;
    BOOST_REQUIRE(sqlite3_open(s.file.c_str(), &db) == SQLITE_OK);
    BOOST_REQUIRE(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    auto const refused = server.post("/seats/3/buy", "alice");
    BOOST_TEST(refused.status == 503U);
    BOOST_TEST(refused.body == "{\"error\":\"SQLite: database is locked\"}");
    BOOST_TEST(server.get("/seats").status == 200U); // readers do not wait for writers
    check_nothing_left(s.instances);
    sqlite3_close(db);
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
}

BOOST_AUTO_TEST_SUITE_END()
