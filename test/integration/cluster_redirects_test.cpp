// Redirects of nodes that a test controls: malformed ones, loops, and the order of a grant and its
// release.
#include "protocol/cluster/hash_slot.hpp"

#include "integration/test_client.hpp"
#include "support/fake_cluster.hpp"
#include "support/wait.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::string const key = "k";
unsigned const slot = protocol::hash_slot(key);

/// The node that owns the slot of the key in a fake cluster of three.
std::size_t const home = slot * 3U / 16'384U;
std::size_t const other = (home + 1) % 3;
std::size_t const third = (home + 2) % 3;

std::string moved_to(std::string const& address) {
    return resp::error("MOVED " + std::to_string(slot) + ' ' + address);
}
std::string ask_at(std::string const& address) {
    return resp::error("ASK " + std::to_string(slot) + ' ' + address);
}

bool is_grant(command_line const& words) {
    return is_command(words, "SET");
}
bool is_release(command_line const& words) {
    return is_command(words, "EVALSHA") && words.size() == 5;
}
bool is_extension(command_line const& words) {
    return is_command(words, "EVALSHA") && words.size() == 6;
}

struct cancellable {
    explicit cancellable(test_client& client)
        : lock(client.locks.make_lock(key, long_lived)) {
        lock.acquire(asio::bind_cancellation_slot(signal.slot(), [this](error e, lease l) {
            how = std::move(e);
            mine = std::move(l);
            done = true;
        }));
    }
    asio::cancellation_signal signal;
    holdfast::lock lock;
    error how;
    lease mine;
    bool done = false;
};

std::size_t count_of(std::vector<std::string> const& all, std::string const& entry) {
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), entry));
}

std::string at(std::size_t node, std::string const& command) {
    return std::to_string(node) + ' ' + command;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_redirects)

BOOST_AUTO_TEST_CASE(a_refusal_that_ends_does_no_harm) {
    std::string const n = std::to_string(slot);
    for (std::string const text :
         {"MOVED", "MOVED ", "MOVED x", "MOVED 16384 127.0.0.1:1", "MOVED -1 127.0.0.1:1",
          "MOVED 99999999999999999999 h:1", "MOVED 1", "MOVED 1 ", "MOVED 1 h", "MOVED 1 h:0",
          "MOVED 1 h:65536", "MOVED 1 h:x", "MOVED 1 h h:1", "ASK", "ASK x y", "ASK 1 \x01:1",
          "TRYAGAIN Multiple keys request during rehashing of slot",
          "CLUSTERDOWN Hash slot not served", "CLUSTERDOWN The cluster is down"}) {
        BOOST_TEST_CONTEXT(text) {
            std::atomic<int> refused{0};
            fake_cluster nodes(
                3, [&](std::size_t, command_line const& words) -> std::optional<std::string> {
                    if (!is_grant(words) || refused++ > 1) return std::nullopt;
                    return resp::error(text);
                });
            test_client client({address(nodes.url())});
            auto l = client.hold(key);
            BOOST_TEST(client.releases(l));
            BOOST_TEST(refused == 3);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_refusal_that_stays_is_an_error_and_no_vote) {
    for (auto const& text : {std::string("MOVED garbage"), "MOVED " + std::to_string(slot) + " ?:1",
                             std::string("CLUSTERDOWN Hash slot not served")}) {
        BOOST_TEST_CONTEXT(text) {
            fake_cluster nodes(
                3, [&](std::size_t, command_line const& words) -> std::optional<std::string> {
                    if (!is_grant(words)) return std::nullopt;
                    return resp::error(text);
                });
            test_client client({address(nodes.url())}, hasty());
            auto const [e, none] = client.acquire(key);
            BOOST_TEST((e == error_condition::unavailable), e.what());
            // A pause follows each refusal.
            BOOST_TEST(nodes.history().size() < 50U);
            BOOST_TEST((client.status(0).state == instance_state::up));
        }
    }
}

BOOST_AUTO_TEST_CASE(keys_of_different_slots_are_an_error_at_once) {
    fake_cluster nodes(
        3, [&](std::size_t, command_line const& words) -> std::optional<std::string> {
            if (!is_grant(words)) return std::nullopt;
            return resp::error("CROSSSLOT Keys in request don't hash to the same slot");
        });
    test_client client({address(nodes.url())});
    auto const [e, none] = client.acquire(key);
    BOOST_TEST((e == errc::rejected), e.what());
    BOOST_TEST(nodes.history().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_redirect_without_a_host_names_the_host_of_the_node) {
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (node != home || !(is_grant(words) || is_release(words))) return std::nullopt;
            return moved_to(":" + std::to_string(all->port(other)));
        });
    all = &nodes;
    test_client client({address(nodes.url())});
    auto l = client.hold(key);
    BOOST_TEST(nodes.keys(other).size() == 1U);
    BOOST_TEST(client.releases(l));
    BOOST_TEST(nodes.keys(other).empty());
}

BOOST_AUTO_TEST_CASE(two_nodes_that_name_each_other_are_asked_a_few_times) {
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (!is_grant(words)) return std::nullopt;
            return moved_to(all->node(node == home ? other : home).address());
        });
    all = &nodes;
    test_client client({address(nodes.url())}, hasty());
    auto const [e, none] = client.acquire(key);
    BOOST_TEST((e == error_condition::unavailable), e.what());
    BOOST_TEST(nodes.history().size() < 100U);
    BOOST_TEST(client.status(0).nodes.size() <= 3U);
}

BOOST_AUTO_TEST_CASE(a_node_that_names_itself_is_not_asked_at_once) {
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (!is_grant(words)) return std::nullopt;
            return moved_to(all->node(node).address());
        });
    all = &nodes;
    test_client client({address(nodes.url())}, hasty());
    auto const [e, none] = client.acquire(key);
    BOOST_TEST((e == error_condition::unavailable), e.what());
    BOOST_TEST(nodes.history().size() < 50U);
}

BOOST_AUTO_TEST_CASE(a_node_that_names_ever_new_addresses_makes_few_connections) {
    std::atomic<unsigned> port{1};
    fake_cluster nodes(3,
                       [&](std::size_t, command_line const& words) -> std::optional<std::string> {
                           if (!is_grant(words)) return std::nullopt;
                           return moved_to("127.1.2.3:" + std::to_string(port++));
                       });
    test_client client({address(nodes.url())}, hasty());
    for (int i = 0; i < 5; ++i) {
        auto const [e, none] = client.acquire(key);
        BOOST_TEST((e == error_condition::unavailable), e.what());
    }
    BOOST_TEST(client.status(0).nodes.size() < 70U);
    BOOST_TEST(port < 500U);
}

BOOST_AUTO_TEST_CASE(an_ask_is_followed_with_asking_and_leaves_the_map) {
    fake_cluster* all = nullptr;
    std::atomic<bool> asks{true};
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (!asks || node != home || !(is_grant(words) || is_release(words)))
                return std::nullopt;
            return ask_at(all->node(other).address());
        });
    all = &nodes;
    test_client client({address(nodes.url())});
    auto l = client.hold(key);
    BOOST_TEST(client.releases(l));
    std::vector<std::string> const expected{at(home, "SET k"),   at(other, "ASKING"),
                                            at(other, "SET k"),  at(home, "EVALSHA k"),
                                            at(other, "ASKING"), at(other, "EVALSHA k")};
    BOOST_TEST(nodes.history() == expected, boost::test_tools::per_element());
    asks = false;
    auto again = client.hold(key);
    BOOST_TEST(client.releases(again));
    BOOST_TEST(count_of(nodes.history(), at(home, "SET k")) == 2U);
}

// The owner of the slot can be asked meanwhile, and says ASK each time.
BOOST_AUTO_TEST_CASE(an_ask_to_a_node_that_cannot_be_asked_pauses_and_ends) {
    for (auto const how : {behaviour::refused, behaviour::silent, behaviour::closes}) {
        BOOST_TEST_CONTEXT(how) {
            fake_server target(how);
            std::atomic<bool> asks{true};
            fake_cluster nodes(
                3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
                    if (!asks || node != home || !(is_grant(words) || is_release(words)))
                        return std::nullopt;
                    return ask_at(target.address());
                });
            test_client client({address(nodes.url())}, hasty());
            auto const [e, none] = client.acquire(key);
            BOOST_TEST((e == error_condition::unavailable), e.what());
            BOOST_TEST(contains(e.what(), "migrates, and the node that gets it"), e.what());
            BOOST_TEST(nodes.history().size() < 50U);
            // A release, too.
            asks = false;
            auto l = client.hold(key);
            asks = true;
            auto const before = nodes.history().size();
            BOOST_TEST(!client.releases(l));
            BOOST_TEST(nodes.history().size() < before + 50U);
            asks = false;
            BOOST_TEST(client.until([&] { return nodes.keys(home).empty(); }));
        }
    }
}

// A migration to a new node begins so: no map names it yet.
// An inspection has several commands, and ASKING holds for one.
BOOST_AUTO_TEST_CASE(an_inspection_of_a_slot_that_migrates_says_so) {
    std::string target;
    fake_cluster nodes(
        3, [&](std::size_t at, command_line const& words) -> std::optional<std::string> {
            auto const asks = is_command(words, "PTTL") || is_command(words, "TYPE") ||
                              is_command(words, "GETRANGE") || is_command(words, "GET");
            return asks && at == home ? std::optional(ask_at(target)) : std::nullopt;
        });
    target = nodes.node(other).address();
    test_client client({address(nodes.url())}, hasty());
    BOOST_REQUIRE(client.all_up());
    key_report report;
    auto done = false;
    client.locks.inspect(key, [&](error e, key_report r) {
        BOOST_TEST(!e, e.what());
        report = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST((report.state == key_state::unknown), report);
    BOOST_TEST(contains(report.to_string(), "slot " + std::to_string(slot) + " migrates"), report);
    BOOST_TEST(!contains(report.to_string(), "unknown holdfast error"), report);
}

BOOST_AUTO_TEST_CASE(an_ask_leads_to_a_node_without_slots) {
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (node != home || !(is_grant(words) || is_extension(words) || is_release(words)))
                return std::nullopt;
            return ask_at(all->node(other).address());
        });
    all = &nodes;
    for (unsigned s = 0; s < 16'384U; ++s) {
        if (s * 3U / 16'384U == other) nodes.give(s, third);
    }
    test_client client({address("redis+cluster://" + nodes.node(home).address())});
    auto l = client.hold(key);
    BOOST_TEST(nodes.keys(other).size() == 1U);
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.releases(l));
    BOOST_TEST(nodes.keys(other).empty());
}

// Rule 1 of doc/internals/cluster.md.
BOOST_AUTO_TEST_CASE(a_grant_is_not_sent_again_after_its_release) {
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (node != home) return std::nullopt;
            if (is_grant(words)) all->wait_at_gate();
            if (is_grant(words) || is_release(words)) return moved_to(all->node(other).address());
            return std::nullopt;
        });
    all = &nodes;
    test_client client({address(nodes.url())});
    BOOST_TEST(client.all_up());
    cancellable call(client);
    BOOST_TEST(client.until([&] { return !nodes.history().empty(); }));
    call.signal.emit(asio::cancellation_type::terminal);
    BOOST_TEST(client.until([&] { return call.done; }));
    nodes.open_gate();
    // The release followed the grant, and was redirected.
    BOOST_TEST(client.until([&] { return count_of(nodes.history(), at(other, "EVALSHA k")) > 0; }));
    BOOST_TEST(client.idle());
    BOOST_TEST(count_of(nodes.history(), at(other, "SET k")) == 0U);
    BOOST_TEST(nodes.keys(other).empty());
}

// Rule 2 of doc/internals/cluster.md: the map has changed since.
BOOST_AUTO_TEST_CASE(a_release_goes_to_the_node_of_the_last_copy_of_its_grant) {
    auto const key_of = [](std::size_t node) {
        std::string name = "x";
        while (protocol::hash_slot(name) * 3U / 16'384U != node) name += 'x';
        return name;
    };
    auto const elsewhere = key_of(third);
    fake_cluster* all = nullptr;
    std::atomic<bool> redirected{true};
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (node == home && is_grant(words)) all->wait_at_gate();
            if (node != third || !is_grant(words) || redirected.exchange(true)) return std::nullopt;
            return resp::error("MOVED " + std::to_string(protocol::hash_slot(elsewhere)) + ' ' +
                               all->node(other).address());
        });
    all = &nodes;
    test_client client({address(nodes.url())});
    BOOST_TEST(client.all_up());
    // These nodes are no longer in doubt, so their commands do not wait for a map of the silent
    // one.
    for (auto const& name : {elsewhere, key_of(other)}) {
        auto first = client.hold(name);
        BOOST_TEST(client.releases(first));
    }
    redirected = false;
    cancellable call(client);
    BOOST_TEST(client.until([&] { return count_of(nodes.history(), at(home, "SET k")) == 1; }));
    nodes.give(slot, other);
    // The redirect of another key makes the client ask for the map.
    auto const maps = nodes.node(other).count("CLUSTER");
    auto l = client.hold(elsewhere);
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until([&] { return nodes.node(other).count("CLUSTER") >= maps + 3; }));
    auto const slots = [&] {
        auto const s = client.status(0);
        auto const n = std::find_if(s.nodes.begin(), s.nodes.end(), [&](auto const& node) {
            return node.address == nodes.node(home).address();
        });
        return n == s.nodes.end() ? 0U : n->slots;
    };
    auto const before = slots();
    BOOST_TEST(before > 0U);
    BOOST_TEST(client.until([&] { return !client.locks.instances().empty() && slots() == 5460U; }));
    call.signal.emit(asio::cancellation_type::terminal);
    BOOST_TEST(client.until([&] { return call.done; }));
    nodes.open_gate();
    BOOST_TEST(client.until([&] { return count_of(nodes.history(), at(home, "EVALSHA k")) > 0; }));
    BOOST_TEST(client.idle());
    BOOST_TEST(nodes.keys(home).empty());
}

// The old owner of a slot may push nothing: on Redis 7.0 it does not when it deletes the keys.
BOOST_AUTO_TEST_CASE(a_waiter_tries_again_when_its_slot_has_another_owner) {
    fake_cluster* all = nullptr;
    std::atomic<bool> redirected{true};
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (node != home) return std::nullopt;
            if (is_command(words, "PTTL")) return resp::integer(60'000);
            if (!is_grant(words)) return std::nullopt;
            if (words[1] == key) return resp::null(); // held
            if (redirected.exchange(true)) return std::nullopt;
            return resp::error("MOVED " + std::to_string(protocol::hash_slot(words[1])) + ' ' +
                               all->node(other).address());
        });
    all = &nodes;
    std::string beside = "x"; // another key of the node
    while (protocol::hash_slot(beside) * 3U / 16'384U != home) beside += 'x';
    auto options = patient();
    options.detect_clock_jumps = false;
    test_client client({address(nodes.url())}, options);
    BOOST_TEST(client.all_up());
    auto const registrations = nodes.node(home).count("CLIENT");
    cancellable call(client);
    BOOST_TEST(client.until([&] { return nodes.node(home).count("CLIENT") > registrations; }));
    // The registration is answered before this, on the same connection.
    auto first = client.hold(beside);
    BOOST_TEST(client.releases(first));
    auto const pushes = client.locks.stats().pushes;
    nodes.give(slot, other);
    nodes.give(protocol::hash_slot(beside), other);
    redirected = false;
    auto l = client.hold(beside);
    BOOST_TEST(client.until([&] { return call.done; }));
    BOOST_TEST(!call.how, call.how.what());
    BOOST_TEST(client.locks.stats().pushes > pushes);
    BOOST_TEST(nodes.keys(other).size() >= 1U);
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.releases(call.mine));
}

//
// Pings
//

namespace {

/// Pings follow each other at once.
std::optional<std::string> short_node_timeout(command_line const& words) {
    if (words.size() != 3 || words[2] != "cluster-node-timeout") return std::nullopt;
    return resp::array({resp::bulk("cluster-node-timeout"), resp::bulk("400")});
}

} // namespace

BOOST_AUTO_TEST_CASE(pings_that_are_always_under_way_do_not_hold_a_shutdown) {
    for (auto const drains : {false, true}) {
        fake_cluster* all = nullptr;
        fake_cluster nodes(
            3, [&](std::size_t, command_line const& words) -> std::optional<std::string> {
                if (is_command(words, "PING")) all->wait_at_gate();
                return short_node_timeout(words);
            });
        all = &nodes;
        test_client client({address(nodes.url())}, patient()); // so the nodes are not suspect
        BOOST_REQUIRE(client.all_up());
        for (std::size_t i = 0; i < nodes.size(); ++i)
            BOOST_REQUIRE(client.until([&] { return nodes.node(i).count("PING") == 1U; }));
        auto ended = false;
        auto const note = [&](error) { ended = true; };
        if (drains) client.locks.drain(10s, note);
        if (!drains) client.locks.shutdown(note);
        BOOST_TEST(client.until([&] { return ended; }, 5s));
        nodes.open_gate();
    }
}

// The ping was dropped with the node's other commands, so no reply comes.
BOOST_AUTO_TEST_CASE(a_node_that_was_suspect_is_pinged_again) {
    std::atomic<bool> stops{false};
    fake_cluster* all = nullptr;
    fake_cluster nodes(
        3, [&](std::size_t node, command_line const& words) -> std::optional<std::string> {
            if (stops && node == home && is_grant(words)) all->wait_at_gate();
            return short_node_timeout(words);
        });
    all = &nodes;
    test_client client({address(nodes.url())}, hasty());
    BOOST_REQUIRE(client.all_up());
    stops = true;
    // Two batches are under way, so the ping has to wait.
    cancellable first(client);
    BOOST_REQUIRE(client.until([&] { return nodes.node(home).count("SET") == 1U; }));
    auto second = client.locks.make_lock("{k}2", impatient());
    second.try_acquire([](error, lease) {});
    auto const suspect = [&] {
        auto const all_nodes = client.status(0).nodes;
        return std::any_of(all_nodes.begin(), all_nodes.end(),
                           [](auto const& n) { return n.state == instance_state::suspect; });
    };
    BOOST_REQUIRE(client.until(suspect));
    stops = false;
    nodes.open_gate();
    BOOST_REQUIRE(client.until([&] { return !suspect(); }));
    auto const before = nodes.node(home).count("PING");
    BOOST_TEST(client.until([&] { return nodes.node(home).count("PING") >= before + 3U; }));
}

BOOST_AUTO_TEST_SUITE_END()
