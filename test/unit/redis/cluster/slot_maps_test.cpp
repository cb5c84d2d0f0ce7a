// The reader accepts each form of the reply to CLUSTER SLOTS, and refuses each malformed reply with
// a reason.
#include "redis/cluster/slot_map_reader.hpp"
#include "redis/wire/reply_reader.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::protocol;
using namespace std::string_literals;

namespace {

constexpr std::string_view connected_to = "seed.example";

std::string text(std::string_view s) {
    return "$" + std::to_string(s.size()) + "\r\n" + std::string(s) + "\r\n";
}
std::string number(long long n) {
    return ":" + std::to_string(n) + "\r\n";
}
std::string list(std::vector<std::string> const& parts, char type = '*') {
    auto const of = parts.size() / (type == '%' ? 2 : 1);
    std::string all = type + std::to_string(of) + "\r\n";
    for (auto const& p : parts) all += p;
    return all;
}
std::string const null = "_\r\n";

std::string id(char c) {
    return std::string(40, c);
}
/// The text of `host` is its form on the wire.
std::string node(std::string const& host, long long port, char of, std::string const& metadata) {
    return list({host, number(port), text(id(of)), metadata});
}
std::string node(std::string const& host, long long port = 7000, char of = 'a') {
    return node(host, port, of, list({}));
}
std::string range(long long first, long long last, std::string const& primary) {
    return list({number(first), number(last), primary});
}

struct reading {
    std::unique_ptr<slot_map> map;
    std::string problem;
};

reading read(std::string const& bytes) {
    slot_map_reader reader{std::string(connected_to)};
    reply_reader replies;
    auto const p = replies.read(bytes, [&](element const& e) { reader.take_part(e); });
    BOOST_REQUIRE((p == reply_reader::progress::complete));
    BOOST_REQUIRE(replies.consumed() == bytes.size());
    if (!reader.finish()) return {nullptr, reader.problem()};
    BOOST_TEST(reader.problem().empty());
    return {std::make_unique<slot_map>(reader.take_map()), {}};
}

node_address read_node(std::string const& primary) {
    auto const r = read(list({range(5, 5, primary)}));
    BOOST_TEST_REQUIRE(r.problem == "");
    BOOST_TEST_REQUIRE(r.map->nodes().size() == 1U);
    return r.map->nodes()[0];
}

void check_refused(std::string const& bytes, std::string const& reason) {
    auto const r = read(bytes);
    BOOST_TEST(!r.map);
    BOOST_TEST(r.problem == "CLUSTER SLOTS: " + reason);
}

/// A map in which two nodes own the slots in turn.
std::string alternating() {
    std::string all = "*16384\r\n";
    for (int slot = 0; slot < 16'384; ++slot) {
        auto const odd = slot % 2 != 0;
        all += range(slot, slot, node(text("127.0.0.1"), 7000 + odd, odd ? 'b' : 'a'));
    }
    return all;
}

/// A map of so many primaries, with a slot each.
std::string crowd(int primaries) {
    std::string all = '*' + std::to_string(primaries) + "\r\n";
    for (int n = 0; n < primaries; ++n) {
        all += range(n, n,
                     list({text("127.0.0.1"), number(7000 + n), text("node" + std::to_string(n)),
                           list({})}));
    }
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(slot_maps)

BOOST_AUTO_TEST_CASE(a_map_names_a_thousand_primaries_at_most) {
    auto const r = read(crowd(1'000));
    BOOST_TEST_REQUIRE(r.problem == "");
    BOOST_TEST(r.map->nodes().size() == 1'000U);
    check_refused(crowd(1'001), "it names more than 1000 primaries");
    check_refused(crowd(10'000), "it names more than 1000 primaries");
}

BOOST_AUTO_TEST_CASE(ranges_and_their_primaries_are_read_and_replicas_are_not) {
    auto const r = read(list({
        list({number(0), number(100), node(text("10.0.0.1"), 7000, 'a'),
              node(text("10.0.0.9"), 7009, 'r'), node(null, 7008, 's')}),
        range(200, 16'383, node(text("10.0.0.2"), 7001, 'b')),
        range(101, 150, node(text("10.0.0.1"), 7000, 'a')),
    }));
    BOOST_TEST_REQUIRE(r.problem == "");
    auto const& map = *r.map;
    BOOST_TEST(map.nodes().size() == 2U);
    BOOST_TEST((map.nodes()[0] == node_address{id('a'), "10.0.0.1", 7000}));
    BOOST_TEST((map.nodes()[1] == node_address{id('b'), "10.0.0.2", 7001}));
    for (unsigned slot = 0; slot < hash_slots; ++slot) {
        auto const expected = slot <= 150 ? 0 : slot < 200 ? slot_map::none : 1;
        BOOST_REQUIRE(map.owner(slot) == expected);
    }
    BOOST_TEST(map.unserved() == 49U);
}

BOOST_AUTO_TEST_CASE(a_node_without_slots_and_a_cluster_without_nodes_are_no_fault) {
    auto const r = read("*0\r\n");
    BOOST_TEST_REQUIRE(r.problem == "");
    BOOST_TEST(r.map->unserved() == hash_slots);
    BOOST_TEST(r.map->nodes().empty());
}

BOOST_AUTO_TEST_CASE(each_form_of_an_endpoint_gives_an_address) {
    auto const ip = list({text("ip"), text("10.0.0.3")});
    auto const both = list({text("hostname"), text("n3.example"), text("ip"), text("10.0.0.3")});
    auto const as_map = list({text("ip"), text("10.0.0.3")}, '%');
    auto const seed = std::string(connected_to);
    struct {
        std::string node;
        std::string host, hostname;
    } const table[] = {
        {node(text("10.0.0.1")), "10.0.0.1", ""},
        {node(text("n1.example")), "n1.example", ""},
        {node(text("n1.example"), 7000, 'a', ip), "n1.example", ""},
        {node(text("10.0.0.3"), 7000, 'a', list({text("hostname"), text("n3.example")})),
         "10.0.0.3", "n3.example"},
        {node(text("::1")), "::1", ""},
        {node(text("fe80::1%eth0")), "fe80::1%eth0", ""},
        {node(text("?"), 7000, 'a', ip), "10.0.0.3", ""},
        {node(text("?"), 7000, 'a', as_map), "10.0.0.3", ""},
        {node(text("?"), 7000, 'a', both), "10.0.0.3", "n3.example"},
        {node(null), seed, ""},
        {node(null, 7000, 'a', ip), seed, ""},
        {node(text("")), seed, ""},
        // Redis 6 sends no metadata. A later version may send more fields.
        {list({text("10.0.0.1"), number(7000), text(id('a'))}), "10.0.0.1", ""},
        {list({text("10.0.0.1"), number(7000), text(id('a')), list({}), list({ip})}), "10.0.0.1",
         ""},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.node) {
            BOOST_TEST(
                (read_node(row.node) == node_address{id('a'), row.host, 7000, row.hostname}));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_node_without_a_name_and_without_an_address_is_refused) {
    auto const hostname = list({text("hostname"), text("")});
    auto const reason = "node " + id('a') + " has neither a host name nor an address";
    check_refused(list({range(0, 1, node(text("?")))}), reason);
    check_refused(list({range(0, 1, node(text("?"), 7000, 'a', hostname))}), reason);
    auto const ip_of_a_replica = node(text("?"), 7001, 'b', list({text("ip"), text("10.0.0.3")}));
    check_refused(list({list({number(0), number(1), node(text("?")), ip_of_a_replica})}), reason);
}

BOOST_AUTO_TEST_CASE(malformed_replies_are_refused_with_a_reason) {
    auto const good = node(text("10.0.0.1"));
    auto const other = node(text("10.0.0.2"), 7001, 'b');
    auto const slot = [](std::string const& n) { return "'" + n + "' is no slot from 0 to 16383"; };
    struct {
        std::string bytes, reason;
    } const table[] = {
        {"-ERR This instance has cluster support disabled\r\n",
         "the server refused: ERR This instance has cluster support di.."},
        {text("OK"), "the reply is no array"},
        {null, "the reply is no array"},
        {list({number(1)}), "an entry is no array"},
        {list({list({})}), "a range of slots without a primary"},
        {list({list({number(1), number(2)})}), "a range of slots without a primary"},
        {list({range(0, 16'384, good)}), slot("16384")},
        {list({range(-1, 5, good)}), slot("-1")},
        {list({list({text("1"), number(2), good})}), slot("1")},
        {list({range(7, 6, good)}), "slots 7 to 6 are no range"},
        {list({list({number(0), number(1), number(2)})}), "a node of slots 0 to 1 is no array"},
        {list({range(0, 1, list({text("h"), number(1)}))}),
         "the primary of slots 0 to 1 has no host, port and id"},
        {list({range(0, 1, list({}))}), "the primary of slots 0 to 1 has no host, port and id"},
        {list({range(0, 1, node(text("10.0.0.1"), 0))}), "'0' is no port of a node"},
        {list({range(0, 1, node(text("10.0.0.1"), 65'536))}), "'65536' is no port of a node"},
        {list({range(0, 1, node(number(5)))}), "the host of a node is no text"},
        {list({range(0, 1, node(text("a b\r\n")))}), "'a b..' is no host of a node"},
        {list({range(0, 1, node(text(std::string(254, 'x'))))}),
         "'" + std::string(40, 'x') + "..' is no host of a node"},
        {list({range(0, 1, list({text("h"), number(1), text("")}))}), "'' is no id of a node"},
        {list({range(0, 1, list({text("h"), number(1), null}))}), "'' is no id of a node"},
        {list({range(0, 5, good), range(5, 6, other)}), "two owners for slot 5"},
        {list({range(0, 5, good), range(6, 6, node(text("10.0.0.2")))}),
         "two addresses for node " + id('a')},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.bytes) {
            check_refused(row.bytes, row.reason);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_reply_that_never_came_is_no_map) {
    slot_map_reader reader{std::string(connected_to)};
    BOOST_TEST(!reader.finish());
    BOOST_TEST(reader.problem() == "CLUSTER SLOTS: no reply");
}

BOOST_AUTO_TEST_CASE(a_range_for_each_slot_is_read) {
    auto const bytes = alternating();
    BOOST_TEST(bytes.size() > reply_reader::max_reply);
    slot_map_reader reader{std::string(connected_to)};
    reply_reader replies(reply_reader::max_map_reply);
    auto const p = replies.read(bytes, [&](element const& e) { reader.take_part(e); });
    BOOST_REQUIRE((p == reply_reader::progress::complete));
    BOOST_TEST_REQUIRE(reader.finish());
    auto const map = reader.take_map();
    BOOST_TEST(map.nodes().size() == 2U);
    BOOST_TEST(map.unserved() == 0U);
    for (unsigned slot = 0; slot < hash_slots; ++slot) BOOST_REQUIRE(map.owner(slot) == slot % 2);
}

BOOST_AUTO_TEST_CASE(a_redirect_changes_one_slot) {
    auto map = read(list({range(0, 16'383, node(text("10.0.0.1")))})).map;
    BOOST_TEST(map->moved(7, "10.0.0.2", 7001) == 1);
    BOOST_TEST(map->owner(7) == 1);
    BOOST_TEST(map->owner(8) == 0);
    BOOST_TEST(map->moved(9, "10.0.0.2", 7001) == 1);
    BOOST_TEST(map->moved(7, "10.0.0.1", 7000) == 0);
    BOOST_TEST(map->nodes().size() == 2U);
    BOOST_TEST(map->nodes()[1].id == "");
}

BOOST_AUTO_TEST_CASE(redirects_to_ever_new_addresses_use_bounded_memory) {
    slot_map map;
    for (unsigned n = 0; n < slot_map::most_nodes; ++n)
        BOOST_REQUIRE(map.moved(n, std::to_string(n), 1) == n);
    BOOST_TEST(map.moved(7, "more", 1) == slot_map::none);
    BOOST_TEST(map.owner(7) == 7);
    BOOST_TEST(map.nodes().size() == slot_map::most_nodes);
}

BOOST_AUTO_TEST_SUITE_END()
