// One program runs unchanged on each deployment: only its addresses differ.
#include "integration/kinds.hpp"
#include "integration/program.hpp"
#include "integration/tls_fleet.hpp"
#include "support/cluster_group.hpp"
#include "support/fleet.hpp"
#include "support/sentinel_group.hpp"
#include "support/server.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace holdfast::test;

namespace {

void check_hello(std::vector<std::string> const& addresses) {
    auto command = program("HOLDFAST_HELLO");
    for (auto const& each : addresses) command += " '" + each + "'";
    BOOST_TEST_CONTEXT(command) {
        auto const o = run_program(command);
        BOOST_TEST(o.status == 0, o.said);
        BOOST_TEST(contains(o.said, "seat 12 is ours"), o.said);
        BOOST_TEST(contains(o.said, "given back"), o.said);
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(deployments)

BOOST_AUTO_TEST_CASE(hello_runs_on_a_server_by_each_form_of_its_address) {
    on_every_kind([](fleet& servers) {
        auto const& first = servers[0];
        check_hello({first.address()});
        check_hello({"redis://" + first.address() + "/1"});
        check_hello({first.url()});
        check_hello({"unix:" + first.unix_socket()});
        check_hello({"unix://" + first.unix_socket() + "?db=1"});
    });
}

BOOST_AUTO_TEST_CASE(hello_runs_on_servers_as_a_redlock) {
    on_every_kind([](fleet& servers) { check_hello(servers.urls()); });
}

BOOST_AUTO_TEST_CASE(hello_runs_by_tls) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet const servers(1, kind);
        check_hello({"rediss://127.0.0.1:" + std::to_string(servers.port(0)) +
                     "?ca=" + servers.own.ca_file});
    });
}

BOOST_AUTO_TEST_CASE(hello_runs_behind_sentinel) {
    on_oldest_and_newest([](server_kind const& kind) {
        sentinel_group const plain({.kind = kind});
        check_hello({plain.url()});
        sentinel_group const secured({.kind = kind,
                                      .user = login{.user = "app", .password = "secret"},
                                      .sentinel_user = login{.user = "watch", .password = "hidden"},
                                      .tls = make_certificates("IP:127.0.0.1")});
        check_hello({secured.url()});
    });
}

BOOST_AUTO_TEST_CASE(hello_runs_in_a_cluster) {
    on_oldest_and_newest([](server_kind const& kind) {
        cluster_group const plain({.kind = kind, .shiftable_clocks = false});
        check_hello({plain.url()});
        cluster_group const secured({.kind = kind,
                                     .user = login{.user = "app", .password = "secret"},
                                     .tls = make_certificates("IP:127.0.0.1"),
                                     .shiftable_clocks = false});
        check_hello({secured.url()});
    });
}

BOOST_AUTO_TEST_CASE(hello_runs_on_a_redlock_of_different_deployments) {
    server const alone;
    sentinel_group const sentinels;
    cluster_group const cluster({.shiftable_clocks = false});
    check_hello({alone.url(), sentinels.url(), cluster.url()});
}

BOOST_AUTO_TEST_SUITE_END()
