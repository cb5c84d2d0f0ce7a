// The nodes of a Cluster: how many are being connected at a time, and those that go.
#include "redis/cluster/node_table.hpp"

#include "unit/redis/memory_net.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::lease_clock;
using holdfast::protocol::slot_map;

namespace {

constexpr std::uint16_t first_port = 7001;
constexpr std::size_t at_a_time = 64;

/// A Cluster whose servers all hang.
class world final : public holdfast::test::lone_owner, public cluster_node_user {
public:
    world() {
        for (std::uint16_t i = 0; i < 2 * at_a_time; ++i)
            net_.at(static_cast<std::uint16_t>(first_port + i)).hangs = true;
        holdfast::redis::in_turn(*this, [&] { nodes.use_seeds(); });
    }
    ~world() {
        nodes.for_each([](cluster_node& n) { n.link().stop(); });
        net_.poll();
    }

    /// The map has the nodes from one number to before another, a slot each.
    void take(std::size_t from, std::size_t to) {
        slot_map map;
        for (auto i = from; i < to; ++i) {
            auto const port = static_cast<std::uint16_t>(first_port + i);
            map.assign(static_cast<unsigned>(i),
                       map.add({.id = {}, .host = "127.0.0.1", .port = port}));
        }
        cluster_node* teller = nullptr;
        nodes.for_each([&](cluster_node& n) { teller = &n; });
        holdfast::redis::in_turn(*this, [&] { nodes.take(std::move(map), *teller, now); });
    }
    std::size_t connecting() const {
        std::size_t count = 0;
        nodes.for_each([&](cluster_node& n) { count += n.connecting() ? 1 : 0; });
        return count;
    }
    bool is_connecting(std::size_t node) {
        return net_.at(static_cast<std::uint16_t>(first_port + node)).connections > 0;
    }

private:
    boost::asio::io_context context_;
    holdfast::test::memory_net net_{context_};
    connection_options const options_{.address = address("redis+cluster://127.0.0.1:7001"),
                                      .instance_timeout = 1h,
                                      .connect_timeout = 1h,
                                      .max_reconnect_delay = 1h,
                                      .max_ttl = 60s,
                                      .on_restart = holdfast::restart_policy::off,
                                      .detect_clock_jumps = false,
                                      .max_pending_releases = 10,
                                      .name = "unit"};

public:
    lease_clock::time_point now{1h};
    node_table nodes{context_.get_executor(), static_cast<cluster_node_user&>(*this), options_,
                     net_.factory()};

private:
    // instance_owner
    lease_clock::time_point time() const noexcept override { return now; }
    // cluster_node_user
    bool may_connect() noexcept override { return nodes.may_connect(); }
    void on_connecting_ended() noexcept override { nodes.connect_waiting(); }
    bool on_node_up(cluster_node&) override { return false; }
    void on_node_down(cluster_node&) noexcept override {}
    void on_doubt(cluster_node&) noexcept override {}
    void on_ready(cluster_node&) noexcept override {}
    void on_refused(cluster_node&, pending_command, holdfast::protocol::cluster_refusal const&,
                    lease_clock::time_point) override {}
    void on_asking_denied(cluster_node&, pending_command const&, std::string_view) override {}
    void on_command_answered(pending_command const&) noexcept override {}
    void on_clock_reading(cluster_node&, holdfast::protocol::clock_reading const&) override {}
    bool awaits_ages() const override { return false; }
    void on_map_part(cluster_node&, pending_command const&, element const&) override {}
    void on_map_reply(cluster_node&, pending_command const&) override {}
    void on_map_lost(cluster_node&) noexcept override {}
    holdfast::protocol::duration node_timeout() const noexcept override { return 15s; }
    void on_node_timeout(holdfast::protocol::duration) noexcept override {}
    instance_owner& owner() const noexcept override { return const_cast<world&>(*this); }
    unsigned number() const noexcept override { return 0; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(node_tables)

BOOST_AUTO_TEST_CASE(nodes_are_connected_a_few_at_a_time) {
    world w;
    w.take(0, at_a_time + 6);
    BOOST_TEST(w.connecting() == at_a_time);
    BOOST_TEST(w.is_connecting(at_a_time - 1));
    BOOST_TEST(!w.is_connecting(at_a_time));
}

BOOST_AUTO_TEST_CASE(nodes_that_go_make_room_for_those_that_wait) {
    world w;
    w.take(0, at_a_time + 6);
    w.take(at_a_time, at_a_time + 6); // the others have lost their slots
    BOOST_TEST(!w.is_connecting(at_a_time));
    w.now += node_table::unused_limit;
    std::size_t gone = 0;
    holdfast::redis::in_turn(w,
                             [&] { w.nodes.drop_unused(w.now, [&](cluster_node&) { ++gone; }); });
    BOOST_TEST(gone == at_a_time);
    BOOST_TEST(w.connecting() == 6U);
    BOOST_TEST(w.is_connecting(at_a_time));
    BOOST_TEST(w.is_connecting(at_a_time + 5));
}

BOOST_AUTO_TEST_SUITE_END()
