// The library's slots and its map of slots, against those of real servers in cluster mode.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_identity.hpp"
#include "redis/cluster/slot_map_reader.hpp"
#include "redis/cluster/slot_redirect.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"

#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::test;
using namespace holdfast::redis;
using holdfast::protocol::cluster_refusal;
using holdfast::protocol::hash_slot;
using holdfast::protocol::slot_map;

namespace {

/// Keys of a few bytes, most of them braces.
std::vector<std::string> odd_keys(std::size_t count) {
    std::vector<std::string> keys{"", "{}", "}", "{}{x}", "a}b", "a{b}c", "a{b", "seat:12"};
    std::mt19937_64 random(7);
    constexpr std::string_view few = "ab{}";
    while (keys.size() < count) {
        std::string key;
        for (auto left = random() % 10; left > 0; --left) {
            auto const bits = random();
            key += keys.size() % 4 == 0 ? static_cast<char>(bits) : few[bits % few.size()];
        }
        keys.push_back(key);
    }
    return keys;
}

template <class Test>
void on_a_node_of_every_kind(Test test) {
    for (auto const& kind : available_servers()) {
        BOOST_TEST_CONTEXT(kind.name) {
            server node({.kind = kind,
                         .arguments = {"--cluster-enabled", "yes"},
                         .extra_ports = {"cluster-port"}});
            redis_cli cli(node);
            test(node, cli);
        }
    }
}

std::string bytes_of(reply const& r) {
    if (r.is_nil()) return "_\r\n";
    if (r.is_integer()) return resp::integer(r.integer());
    if (r.is_string()) return resp::bulk(r.string());
    if (r.is_error()) return resp::error(r.error());
    auto bytes = "*" + std::to_string(r.elements().size()) + "\r\n";
    for (auto const& part : r.elements()) bytes += bytes_of(part);
    return bytes;
}

slot_map map_of(redis_cli& cli) {
    auto const bytes = bytes_of(cli.command({"CLUSTER", "SLOTS"}));
    slot_map_reader reader("seed.example");
    reply_reader replies;
    auto const p = replies.read(bytes, [&](element const& e) { reader.take_part(e); });
    BOOST_REQUIRE((p == reply_reader::progress::complete));
    BOOST_TEST_REQUIRE(reader.finish(), reader.problem());
    return reader.take_map();
}

void check_refused(redis_cli& cli, command_line const& words, cluster_refusal::kind expected) {
    auto const r = cli.command(words);
    BOOST_REQUIRE(r.is_error());
    auto const refusal = parse_cluster_refusal(r.error());
    BOOST_REQUIRE(refusal.has_value());
    BOOST_TEST((refusal->type == expected), r.error());
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_slots)

BOOST_AUTO_TEST_CASE(servers_compute_the_same_slots) {
    on_a_node_of_every_kind([](server&, redis_cli& cli) {
        std::string name;
        for (auto const& key : odd_keys(500)) {
            BOOST_TEST_CONTEXT(key) {
                auto const slot = cli.command({"CLUSTER", "KEYSLOT", key}).integer();
                BOOST_TEST(slot == hash_slot(key));
                name_cluster_fence_key(name, key);
                BOOST_TEST(cli.command({"CLUSTER", "KEYSLOT", name}).integer() == slot);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(the_map_of_a_server_is_read_with_each_kind_of_endpoint) {
    on_a_node_of_every_kind([](server& node, redis_cli& cli) {
        BOOST_TEST(map_of(cli).unserved() == 16'384U);
        check_refused(cli, {"GET", "foo"}, cluster_refusal::kind::cluster_down);
        BOOST_REQUIRE(cli.command({"CLUSTER", "ADDSLOTSRANGE", "0", "9", "20", "16383"}).is_ok());
        check_refused(cli, {"DEL", "a", "b"}, cluster_refusal::kind::cross_slot);
        auto const id = cli.command({"CLUSTER", "MYID"}).string();
        BOOST_TEST(cluster_identity(cli.command({"CLUSTER", "NODES"}).string()) == id);
        auto const check_node = [&](std::string_view host) {
            // A node takes up its new settings in its next round of gossip.
            BOOST_TEST(wait_until([&] { return map_of(cli).nodes().at(0).host == host; }));
            auto const map = map_of(cli);
            BOOST_TEST(map.unserved() == 10U);
            BOOST_TEST(map.owner(9) == 0);
            BOOST_TEST(map.owner(10) == slot_map::none);
            BOOST_TEST_REQUIRE(map.nodes().size() == 1U);
            BOOST_TEST(map.nodes()[0].id == id);
            BOOST_TEST(map.nodes()[0].host == host);
            BOOST_TEST(map.nodes()[0].port == node.port());
        };
        check_node("seed.example"); // a node alone does not know its own address
        cli.config("cluster-announce-ip", "10.0.0.3");
        cli.config("cluster-preferred-endpoint-type", "hostname");
        check_node("10.0.0.3"); // "?", and the address in the metadata
        cli.config("cluster-announce-hostname", "n1.example");
        check_node("n1.example");
        cli.config("cluster-preferred-endpoint-type", "unknown-endpoint");
        check_node("seed.example");
        // Valkey 8.1 shows a new address only after a change of this setting: it keeps its reply.
        cli.config("cluster-preferred-endpoint-type", "ip");
        check_node("10.0.0.3");
    });
}

BOOST_AUTO_TEST_SUITE_END()
