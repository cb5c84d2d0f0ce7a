// Maps of nodes that a test controls: the client takes none from a node that is cut off, and none
// that is older than its own.
#include "protocol/cluster/hash_slot.hpp"

#include "integration/test_client.hpp"
#include "support/fake_cluster.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t size = 3;
constexpr unsigned slots = 16'384;

std::string const key = "k";
std::size_t const home = protocol::hash_slot(key) * size / slots;
std::size_t const other = (home + 1) % size;

/// Three nodes, which all say what the test wants. The nodes execute all commands, whatever map
/// they tell.
class sent_maps {
public:
    struct word {
        std::string state = "ok";
        unsigned epoch = 7;
        bool moved = false; ///< `other` has all slots
        int named = 0;      ///< so many nodes have a slot each, at
        int port = 0;       ///< this port of addresses of their own
    };

    sent_maps()
        : nodes(size,
                [this](std::size_t at, command_line const& words) { return answer(at, words); }) {}

    void say(word w) {
        std::lock_guard const lock(mutex_);
        word_ = std::move(w);
        word_told_ = 0;
    }
    /// The next grant is refused as that of a slot which is not served, so the client asks for the
    /// map.
    void make_ask(test_client& client) {
        refuses_ = true;
        auto l = client.hold(key);
        BOOST_TEST(client.releases(l));
        BOOST_TEST(!refuses_);
    }
    /// How often a node was asked for a map, and told the present word.
    unsigned told() {
        std::lock_guard const lock(mutex_);
        return word_told_;
    }
    /// The client has read so many maps of the present word. It has one question under way at a
    /// time, so all but the last were read.
    [[nodiscard]] bool read(test_client& client, unsigned count) {
        return client.until([&] { return told() > count; }, 40s);
    }

private:
    std::optional<std::string> answer(std::size_t at, command_line const& words) {
        if (is_command(words, "SET") && refuses_.exchange(false))
            return resp::error("CLUSTERDOWN Hash slot not served");
        std::lock_guard const lock(mutex_);
        if (is_command(words, "CLUSTER", "INFO")) {
            latest_.at(at) = word_;
            return resp::bulk("cluster_state:" + word_.state +
                              "\r\ncluster_current_epoch:" + std::to_string(word_.epoch) + "\r\n");
        }
        if (!is_command(words, "CLUSTER", "SLOTS")) return std::nullopt;
        auto const& said = latest_.at(at); // with the same question
        if (said.epoch == word_.epoch && said.state == word_.state && said.moved == word_.moved)
            ++word_told_;
        if (!said.moved && said.named == 0) return std::nullopt;
        auto const id = std::string(39, 'a') + static_cast<char>('a' + static_cast<int>(other));
        if (said.named > 0) return crowd(said.named, said.port);
        return resp::array(
            {resp::array({resp::integer(0), resp::integer(slots - 1),
                          resp::array({resp::bulk("127.0.0.1"), resp::integer(nodes.port(other)),
                                       resp::bulk(id), resp::array({})})})});
    }

    static std::string crowd(int named, int port) {
        std::vector<std::string> ranges;
        for (int n = 0; n < named; ++n) {
            auto const host =
                "127.1." + std::to_string(n / 250) + '.' + std::to_string(n % 250 + 1);
            auto const id = "node" + std::to_string(n);
            ranges.push_back(resp::array({resp::integer(n), resp::integer(n),
                                          resp::array({resp::bulk(host), resp::integer(port),
                                                       resp::bulk(id), resp::array({})})}));
        }
        return resp::array(ranges);
    }

    std::mutex mutex_;
    word word_;
    std::array<word, size> latest_;
    unsigned word_told_ = 0;
    std::atomic<bool> refuses_{false};

public:
    fake_cluster nodes; ///< made last: its threads use the others
};

/// How many slots the node has by the client's map.
unsigned slots_of(test_client const& client, std::string const& node) {
    for (auto const& n : client.status(0).nodes)
        if (n.address == node) return n.slots;
    return 0;
}

/// A client with a map in which each node has a third of the slots.
struct world {
    world()
        : client({address(maps.nodes.url())}, brisk()) {
        check_lock(home);
        before = at_other();
        BOOST_TEST(before > 0U);
        BOOST_TEST(before < slots);
    }
    void check_lock(std::size_t node) {
        auto l = client.hold(key);
        BOOST_TEST(maps.nodes.keys(node).size() == 1U);
        BOOST_TEST(client.releases(l));
    }
    unsigned at_other() { return slots_of(client, maps.nodes.node(other).address()); }

    sent_maps maps;
    test_client client;
    unsigned before = 0; ///< at_other() by the first map
};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_maps)

BOOST_AUTO_TEST_CASE(no_map_is_taken_from_a_node_whose_cluster_has_failed) {
    world w;
    w.maps.say({.state = "fail", .epoch = 8, .moved = true});
    w.maps.make_ask(w.client);
    BOOST_TEST(w.maps.read(w.client, 2));
    BOOST_TEST(w.at_other() == w.before);
    BOOST_TEST((w.client.status(0).state == instance_state::up));
    w.check_lock(home);
    // The same map from a Cluster that works is taken.
    w.maps.say({.epoch = 8, .moved = true});
    BOOST_TEST(w.client.until([&] { return w.at_other() == slots; }));
    w.check_lock(other);
}

BOOST_AUTO_TEST_CASE(a_first_map_is_not_taken_from_a_node_whose_cluster_has_failed) {
    sent_maps maps;
    maps.say({.state = "fail"});
    test_client client({address(maps.nodes.url())}, hasty());
    auto const [e, none] = client.acquire(key);
    BOOST_TEST((e == errc::unreachable), e.what());
    BOOST_TEST(contains(e.what(), "CLUSTER INFO: cluster_state:fail"), e.what());
    BOOST_TEST(client.goes_down(0, errc::unreachable));
    BOOST_TEST(contains(client.status(0).message, "cluster_state:fail"), client.status(0).message);
    maps.say({});
    BOOST_TEST(client.all_up());
    auto l = client.hold(key);
    BOOST_TEST(client.releases(l));
}

// After ten of them, the Cluster may have been made anew.
BOOST_AUTO_TEST_CASE(the_tenth_map_of_an_earlier_epoch_is_taken) {
    world w;
    w.maps.say({.epoch = 6, .moved = true});
    w.maps.make_ask(w.client);
    BOOST_TEST(w.maps.read(w.client, 2));
    BOOST_TEST(w.at_other() == w.before);
    w.check_lock(home);
    BOOST_TEST(w.client.until([&] { return w.at_other() == slots; }, 40s));
    BOOST_TEST(w.maps.told() >= 10U);
    w.check_lock(other);
}

BOOST_AUTO_TEST_CASE(a_map_of_the_present_epoch_ends_the_count_of_earlier_ones) {
    world w;
    for (int i = 0; i < 2; ++i) {
        w.maps.say({.epoch = 6, .moved = true});
        w.maps.make_ask(w.client);
        BOOST_TEST(w.maps.read(w.client, 5));
        BOOST_TEST(w.at_other() == w.before);
        w.maps.say({});
        BOOST_TEST(w.client.until([&] { return w.maps.told() > 0; }));
    }
    w.check_lock(home);
}

BOOST_AUTO_TEST_CASE(a_cluster_that_names_ten_thousand_nodes_is_refused) {
    sent_maps maps;
    maps.say({.named = 10'000, .port = 1});
    server first, second;
    test_client client({address(maps.nodes.url()), first.url(), second.url()}, patient());
    auto l = client.hold(key);
    BOOST_TEST(client.goes_down(0, errc::not_redis));
    BOOST_TEST(contains(client.status(0).message, "it names more than 1000 primaries"),
               client.status(0).message);
    BOOST_TEST(client.releases(l));
}

// All of them accept connections and say nothing.
BOOST_AUTO_TEST_CASE(some_of_a_thousand_nodes_are_being_connected_at_a_time) {
    using asio::ip::tcp;
    server first, second;
    sent_maps maps;
    auto options = patient();
    options.connect_timeout = options.instance_timeout = 200ms;
    std::size_t accepted = 0, open = 0, most = 0;
    test_client client({address(maps.nodes.url()), first.url(), second.url()}, options);
    tcp::acceptor everywhere(client.context, {tcp::v4(), 0});
    auto const hold = [&](tcp::socket s) -> asio::awaitable<void> {
        most = std::max(most, ++open);
        std::array<char, 1024> ignored;
        error_code ec;
        while (!ec) {
            co_await s.async_read_some(asio::buffer(ignored),
                                       asio::redirect_error(asio::use_awaitable, ec));
        }
        --open;
    };
    auto const serve = [&]() -> asio::awaitable<void> {
        for (;;) {
            auto s = co_await everywhere.async_accept(asio::use_awaitable);
            ++accepted;
            asio::co_spawn(client.context, hold(std::move(s)), asio::detached);
        }
    };
    asio::co_spawn(client.context, serve(), [](std::exception_ptr) {});
    maps.say({.named = 1'000, .port = everywhere.local_endpoint().port()});
    auto l = client.hold(key);
    BOOST_TEST(client.until([&] { return accepted > 300; }, 60s));
    BOOST_TEST(most <= 128U); // an end is noticed a moment later
    BOOST_TEST(client.status(0).nodes.size() >= 1'000U);
    BOOST_TEST(l.held());
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
