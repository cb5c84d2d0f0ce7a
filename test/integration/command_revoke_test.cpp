// `holdfast revoke`: takes a lock from the holder that it shows.
#include "integration/foreign_client.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/readers_writers.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

outcome run_revoke(std::string const& key, fleet const& servers, std::string const& options) {
    return run_program(program("HOLDFAST_COMMAND") + " revoke " + key + " --instances '" +
                       servers.url_list() + "' --label ops --timeout 500ms " + options +
                       " </dev/null");
}

std::vector<std::string> asked(fleet const& servers) {
    return {"revoke", "k", "--label", "ops", "--instances", servers.url_list()};
}

std::size_t tombstones(fleet const& servers, std::string const& key) {
    std::size_t n = 0;
    for (server& s : servers)
        n += redis_cli(s).get(key).value_or("").starts_with("revoked@ops:") ? 1 : 0;
    return n;
}

constexpr char const* question = "Type the key to revoke its holder: ";

} // namespace

BOOST_AUTO_TEST_SUITE(command_revoke)

BOOST_AUTO_TEST_CASE(without_a_terminal_it_needs_yes) {
    fleet servers(3);
    foreign_client(servers).hold("k");
    auto o = run_revoke("k", servers, "");
    BOOST_TEST(o.status == 125, o.said);
    BOOST_TEST(contains(o.said, "--yes"), o.said);
    BOOST_TEST(contains(o.said, "state     held"), o.said);
    BOOST_TEST(tombstones(servers, "k") == 0U);
    o = run_revoke("k", servers, "--yes");
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const word :
         {"revoked k, closed for ", "event=revocation key=\"k\" outcome=revoked "})
        BOOST_TEST(contains(o.said, word), o.said);
    BOOST_TEST(!contains(o.said, foreign_client::token), o.said);
    BOOST_TEST(tombstones(servers, "k") == 3U);
    o = run_revoke("k", servers, "--yes"); // once more
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "by        ops"), o.said);
    o = run_program(program("HOLDFAST_COMMAND") + " inspect k --instances '" + servers.url_list() +
                    '\'');
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "state     revoked"), o.said);
}

BOOST_AUTO_TEST_CASE(there_is_nobody_to_revoke) {
    fleet servers(3);
    auto o = run_revoke("k", servers, "--yes");
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "is free"), o.said);
    for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
    o = run_revoke("list", servers, "--yes");
    BOOST_TEST(o.status == 2, o.said);
    o = run_revoke("k", servers, "--yes --reader 0123456789abcdef");
    BOOST_TEST(o.status == 1, o.said);
    servers.kill(2);
    o = run_revoke("k", servers, "--yes");
    BOOST_TEST(o.status == 3, o.said);
    foreign_client(servers).hold("k");
    o = run_revoke("k", servers, "--yes");
    BOOST_TEST(o.status == 3, o.said);
}

BOOST_AUTO_TEST_CASE(a_person_confirms_with_the_key) {
    fleet servers(1);
    foreign_client(servers).hold_for_ever("k");
    {
        on_terminal t(asked(servers));
        BOOST_REQUIRE(t.shows(question));
        BOOST_TEST(contains(t.shown(), "nobody gets it before"), t.shown());
        t.type("yes\n");
        BOOST_TEST(t.status() == 4);
        BOOST_TEST(contains(t.shown(), "not confirmed"), t.shown());
        BOOST_TEST(tombstones(servers, "k") == 0U);
    }
    on_terminal t(asked(servers));
    BOOST_REQUIRE(t.shows(question));
    t.type("k\n");
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(contains(t.shown(), "until somebody releases it by force"), t.shown());
    BOOST_TEST(tombstones(servers, "k") == 1U);
}

// Between the question and the answer the lock changes hands.
BOOST_AUTO_TEST_CASE(only_the_holder_that_was_shown_is_revoked) {
    fleet servers(1);
    foreign_client(servers).hold("k");
    on_terminal t(asked(servers));
    BOOST_REQUIRE(t.shows(question));
    redis_cli(servers[0]).set("k", "of-the-next", 60s);
    t.type("k\n");
    BOOST_TEST(t.status() == 2);
    BOOST_TEST(contains(t.shown(), "had gone meanwhile"), t.shown());
    BOOST_TEST(redis_cli(servers[0]).get("k").value_or("") == "of-the-next");
}

BOOST_AUTO_TEST_CASE(one_of_the_readers_is_revoked) {
    fleet servers(3);
    test_client first(servers), second(servers);
    first.runs_with(second);
    BOOST_REQUIRE(first.all_up());
    BOOST_REQUIRE(second.all_up());
    auto one = reads_everywhere(first, servers), two = reads_everywhere(second, servers);
    std::string digest;
    first.locks.inspect("k", [&](error, key_report r) {
        for (auto const& reader : r.readers) {
            if (reader.holder == "this client") digest = reader.digest;
        }
    });
    BOOST_REQUIRE(first.until([&] { return !digest.empty(); }));
    auto const o = run_revoke("k", servers, "--yes --reader " + digest);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST((first.extend(one) == errc::lease_lost));
    BOOST_TEST(one.revoked_by() == "ops");
    BOOST_TEST(!second.extend(two));
    BOOST_TEST(run_revoke("k", servers, "--yes --reader xyz").status == 2);
}

BOOST_AUTO_TEST_CASE(one_of_the_permits_is_revoked) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const workers = client.locks.make_semaphore("k", 2, long_lived);
    attempt first, second;
    first.start(workers);
    auto one = wait_for_lease(client, first);
    second.start(workers);
    auto two = wait_for_lease(client, second);
    auto const slot = std::to_string(one.slot().value());
    auto const o = run_revoke("k", servers, "--yes --slot " + slot);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST((client.extend(one) == errc::lease_lost));
    BOOST_TEST(one.revoked_by() == "ops");
    BOOST_TEST(!client.extend(two));
    auto const none = run_revoke("k", servers, "--yes --slot 7");
    BOOST_TEST(none.status == 2, none.said);
    BOOST_TEST(contains(none.said, "no permit has this slot"), none.said);
    BOOST_TEST(run_revoke("k", servers, "--yes --slot 1 --reader x").status == 125);
}

BOOST_AUTO_TEST_SUITE_END()
