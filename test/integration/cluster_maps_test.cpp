// Maps of nodes that a test controls: the client takes none from a node that is cut off, and none
// that is older than its own.
#include "protocol/hash_slot.hpp"

#include "integration/test_client.hpp"
#include "support/fake_cluster.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

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
class told_maps {
public:
    struct word {
        std::string state = "ok";
        unsigned epoch = 7;
        bool moved = false; ///< `other` has all slots
    };

    told_maps()
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
        if (!said.moved) return std::nullopt;
        auto const id = std::string(39, 'a') + static_cast<char>('a' + static_cast<int>(other));
        return resp::array(
            {resp::array({resp::integer(0), resp::integer(slots - 1),
                          resp::array({resp::bulk("127.0.0.1"), resp::integer(nodes.port(other)),
                                       resp::bulk(id), resp::array({})})})});
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

    told_maps maps;
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
    told_maps maps;
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

BOOST_AUTO_TEST_SUITE_END()
