// A client with a source of credentials, on each deployment: the password and the user change, the
// connections stay, and leases and new locks go on.
#include "integration/cluster_load.hpp"
#include "integration/sentinels.hpp"
#include "integration/test_client.hpp"
#include "support/access.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::string const first(access::user), second = "second", password(access::password);

/// Gives the first user, for 2 s or another time, and then the second one. It notes its requests,
/// and replies when the test says so.
class changing_source {
public:
    explicit changing_source(std::chrono::seconds first_lasts = 2s)
        : first_lasts_(first_lasts) {}

    /// Replies at once, from now on, and to all open requests.
    void go_on() {
        replies_ = true;
        for (auto const& reply : std::exchange(open_, {})) answer(reply);
    }
    std::size_t asked() const { return asked_; }

    /// The address with this source, in place of its user.
    address in(address const& of) {
        auto parts = of.parts();
        parts.credentials = {};
        parts.credentials_source = [this](credentials_reply const& reply) {
            ++asked_;
            if (!replies_) return open_.push_back(reply);
            answer(reply);
        };
        return parts;
    }

private:
    void answer(credentials_reply const& reply) {
        auto const now = std::chrono::system_clock::now();
        auto const is_first = ++answered_ == 1;
        reply({}, {.user = is_first ? first : second,
                   .password = password,
                   .valid_until = now + (is_first ? first_lasts_ : 3600s)});
    }

    std::chrono::seconds const first_lasts_;
    std::size_t asked_ = 0, answered_ = 0;
    bool replies_ = false;
    std::vector<credentials_reply> open_;
};

/// The connections of this user.
std::size_t connections_of(redis_cli& cli, std::string const& user) {
    std::istringstream lines(cli.command({"CLIENT", "LIST"}).string());
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);)
        count += contains(line, " user=" + user + ' ') ? 1 : 0;
    return count;
}

/// A deployment as the test sees it.
struct deployed {
    std::vector<redis_cli> servers; ///< those that vote
    access::rules rules;            ///< of the users
    std::vector<std::string> keys;  ///< of each server
};

/// Locks before, across and after a change of the user. `source` has replied to no request yet.
void check_change(deployed d, changing_source& source, test_client& client) {
    for (auto& s : d.servers) BOOST_REQUIRE(s.command(access::set_user(second, d.rules)).is_ok());
    BOOST_REQUIRE(client.until([&] { return source.asked() > 0; }));
    source.go_on();
    BOOST_REQUIRE(client.all_up());
    BOOST_TEST(source.asked() == 1U); // for all connections
    std::vector<lease> held;
    for (auto const& key : d.keys) held.push_back(client.hold(key));
    auto const count = [&](std::string const& user) {
        std::size_t sum = 0;
        for (auto& s : d.servers) sum += connections_of(s, user);
        return sum;
    };
    auto const connections = client.status(0).connections;
    BOOST_TEST(connections >= 1U);
    BOOST_TEST(client.until([&] { return count(first) == 0 && count(second) == connections; }));
    BOOST_TEST(source.asked() == 2U); // for all connections
    // The servers end the connections of a user that is deleted.
    for (auto& s : d.servers) BOOST_TEST(s.command({"ACL", "DELUSER", first}).integer() == 1);
    for (std::size_t i = 0; i < d.keys.size(); ++i) {
        BOOST_TEST(!client.extend(held[i]));
        BOOST_TEST(client.releases(held[i]));
        auto l = client.hold(d.keys[i], {.ttl = 60s, .fencing = true});
        BOOST_TEST(client.releases(l));
    }
    BOOST_TEST(client.status(0).connections == connections);
    BOOST_TEST(client.status(0).degradations.empty());
    // A new connection asks. In a Cluster, the reply of the last second may do.
    for (auto& s : d.servers) s.command({"CLIENT", "KILL", "USER", second});
    BOOST_TEST(client.until([&] {
        return client.status(0).connections >= 2 * connections && is_up(client.locks) &&
               count(second) == connections;
    }));
    BOOST_TEST(source.asked() <= 3U);
    for (auto const& key : d.keys) {
        auto l = client.hold(key);
        BOOST_TEST(client.releases(l));
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(credential_sources)

BOOST_AUTO_TEST_CASE(the_user_of_a_server_changes) {
    on_oldest_and_newest([](server_kind const& kind) {
        server one({.kind = kind});
        changing_source source;
        test_client client({source.in(address(one.url()))});
        deployed d{{}, one.rules(), {"k"}};
        d.servers.emplace_back(one);
        check_change(std::move(d), source, client);
        BOOST_TEST(source.asked() == 3U);
    });
}

BOOST_AUTO_TEST_CASE(the_user_of_a_primary_behind_sentinel_changes) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(small(options));
        changing_source source;
        test_client client({source.in(address(group.url()))});
        deployed d{{}, documented_rules(options.kind), {"k"}};
        d.servers.push_back(group.cli(0));
        check_change(std::move(d), source, client);
        BOOST_TEST(source.asked() == 3U);
    });
}

BOOST_AUTO_TEST_CASE(the_user_of_all_nodes_of_a_cluster_changes) {
    cluster_group_options options;
    options.replicas = 0;
    on_clusters(
        [](cluster_group& cluster) {
            changing_source source;
            deployed d{{}, documented_cluster_rules(cluster.options().kind), {}};
            for (std::size_t i = 0; i < cluster.size(); ++i) {
                d.servers.push_back(cluster.cli(i));
                d.keys.push_back(cluster.key_on(i));
            }
            test_client client({source.in(address(cluster.url()))});
            check_change(std::move(d), source, client);
        },
        options);
}

// The source is asked for the connection to each new primary.
BOOST_AUTO_TEST_CASE(a_fail_over_of_sentinel_asks_the_source) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(small(options));
        for (std::size_t i = 0; i < group.members(); ++i) {
            auto cli = group.cli(i);
            auto const words = access::set_user(second, documented_rules(options.kind));
            BOOST_REQUIRE(cli.command(words).is_ok());
        }
        changing_source source(3600s);
        source.go_on();
        test_client client({source.in(address(group.url()))}, trusting(alert(60s)));
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
        auto const before = client.status(0).primary;
        BOOST_TEST(source.asked() == 1U);
        group.member(0).kill();
        BOOST_REQUIRE(has_moved(client, before));
        BOOST_TEST(source.asked() > 1U);
        auto cli = group.cli(1);
        BOOST_TEST(connections_of(cli, second) == 1U);
        auto there = client.hold("k");
        BOOST_TEST(client.releases(there));
    });
}

// A request that is never answered ends with the time to connect.
BOOST_AUTO_TEST_CASE(a_silent_source_of_a_cluster_is_asked_again) {
    cluster_group cluster({.replicas = 0, .shiftable_clocks = false});
    changing_source source;
    auto options = patient();
    options.connect_timeout = 200ms;
    test_client client({source.in(address(cluster.url()))}, options);
    BOOST_REQUIRE(client.goes_down(0, errc::access_denied));
    BOOST_TEST(contains(client.status(0).message, "credentials_source: no reply in time"),
               client.status(0).message);
    BOOST_REQUIRE(client.until([&] { return source.asked() >= 2; }));
    for (std::size_t i = 0; i < cluster.size(); ++i) {
        auto const words =
            access::set_user(second, documented_cluster_rules(cluster.options().kind));
        BOOST_REQUIRE(cluster.cli(i).command(words).is_ok());
    }
    source.go_on();
    BOOST_TEST(client.all_up());
    auto l = client.hold("k");
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
