// The identity of a Cluster, from CLUSTER NODES: all processes must compute the same.
#include "redis/cluster/cluster_identity.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

using holdfast::redis::cluster_identity;
using holdfast::redis::cluster_members;
using namespace std::string_view_literals;

namespace {

std::string id(char c) {
    return std::string(40, c);
}
std::string line(char c, std::string_view flags, std::string_view rest = "- 0 0 1 connected") {
    return id(c) + " 127.0.0.1:7000@17000,name " + std::string(flags) + ' ' + std::string(rest) +
           '\n';
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_identities)

BOOST_AUTO_TEST_CASE(the_smallest_id_is_the_identity_in_any_order) {
    auto const a = line('a', "master", "- 0 0 1 connected 0-5460"), b = line('b', "myself,slave"),
               c = line('c', "master,fail");
    for (auto const& all : {a + b + c, c + b + a, b + a + c}) {
        BOOST_TEST(cluster_identity(all) == id('a'));
    }
}

BOOST_AUTO_TEST_CASE(replicas_and_failed_nodes_count) {
    auto const big = line('f', "master");
    for (auto const flags : {"slave"sv, "master,fail"sv, "master,fail?"sv, "myself,master"sv,
                             "slave,fail,nofailover"sv, "noaddr"sv}) {
        BOOST_TEST(cluster_identity(big + line('2', flags)) == id('2'));
    }
}

BOOST_AUTO_TEST_CASE(a_node_in_its_handshake_does_not_count) {
    BOOST_TEST(cluster_identity(line('f', "master") + line('0', "handshake")) == id('f'));
    BOOST_TEST(cluster_identity(line('f', "master") + line('0', "master,handshake")) == id('f'));
}

BOOST_AUTO_TEST_CASE(the_members_are_sorted) {
    auto const all = line('c', "master") + line('a', "slave") + line('b', "master,handshake");
    BOOST_TEST((cluster_members(all) == std::vector<std::string>{id('a'), id('c')}));
    BOOST_TEST(cluster_members("ERR").empty());
}

BOOST_AUTO_TEST_CASE(other_text_has_no_identity) {
    for (auto const text :
         {""sv, "\n"sv, "ERR This instance has cluster support disabled"sv, "a b c\n"sv}) {
        BOOST_TEST(cluster_identity(text).empty());
    }
    BOOST_TEST(cluster_identity(id('a')).empty());             // no flags
    BOOST_TEST(cluster_identity(line('g', "master")).empty()); // 'g' is no hexadecimal digit
    BOOST_TEST(cluster_identity("a" + line('a', "master")).empty());
    auto const cut = line('b', "master") + id('a').substr(0, 39);
    BOOST_TEST(cluster_identity(cut) == id('b'));
}

BOOST_AUTO_TEST_SUITE_END()
