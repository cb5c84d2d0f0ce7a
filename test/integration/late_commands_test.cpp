// Commands of ours that a server executes late: after the client has lost the connection and sent
// later ones, or after another process has taken the lease over. The test records the words of a
// command at a proxy, and sends them again later.
#include <holdfast/lease_token.hpp>

#include "redis/wire/kinds/exclusive_key.hpp"

#include "integration/proxy_group.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/counters.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr auto brief = 1500ms;
constexpr auto lengthy = 20'000ms;

/// The scripts that a client has sent to each server. The proxies may outlive it.
class recorder {
public:
    explicit recorder(proxy_group& proxies) {
        seen_->sent.resize(proxies.all.size());
        for (std::size_t i = 0; i < proxies.all.size(); ++i) {
            proxies[i].intercept([seen = seen_, i](command_line const& words) {
                std::lock_guard const lock(seen->mutex);
                // The probe runs a script without keys.
                auto const runs = words.at(0) == "EVALSHA" || words.at(0) == "EVAL";
                if (runs && words.at(2) != "0") seen->sent[i] = words;
                return std::optional<std::string>();
            });
        }
    }
    bool complete() const {
        std::lock_guard const lock(seen_->mutex);
        return std::none_of(seen_->sent.begin(), seen_->sent.end(),
                            [](auto const& s) { return s.empty(); });
    }
    /// The last one; an extension as a server executes it that has forgotten the script.
    command_line last(std::size_t server) const {
        std::lock_guard const lock(seen_->mutex);
        auto words = seen_->sent.at(server);
        BOOST_REQUIRE(!words.empty());
        if (words[0] == "EVALSHA" && words[2] == "1") {
            words[0] = "EVAL";
            words[1] = redis::extend_script;
        }
        return words;
    }

private:
    struct record {
        std::mutex mutex;
        std::vector<command_line> sent;
    };
    std::shared_ptr<record> const seen_ = std::make_shared<record>();
};

error extend(test_client& client, lease& held, std::chrono::milliseconds ttl) {
    auto done = false;
    error result;
    held.extend(ttl, [&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return result;
}

/// A client whose commands to `n` servers are recorded.
struct late_client {
    explicit late_client(std::size_t n)
        : servers(n) {
        BOOST_REQUIRE(client.all_up());
    }
    /// Each server executes the recorded command now, as one that had been held up.
    void execute(std::vector<command_line> const& late) {
        for (std::size_t i = 0; i < servers.size(); ++i) {
            auto const r = redis_cli(servers[i]).command(late.at(i));
            BOOST_TEST(!r.is_error(), r);
        }
    }
    std::vector<command_line> sent() {
        BOOST_REQUIRE(client.until([&] { return seen.complete(); }));
        std::vector<command_line> all;
        for (std::size_t i = 0; i < servers.size(); ++i) all.push_back(seen.last(i));
        return all;
    }
    bool all_last(std::chrono::milliseconds longer_than) const {
        for (server& each : servers) {
            if (redis_cli(each).pttl("k") <= longer_than) return false;
        }
        return true;
    }
    /// On every server, as an extension completes at a quorum.
    void wait_until_all_last(std::chrono::milliseconds longer_than) {
        BOOST_REQUIRE(client.until([&] { return all_last(longer_than); }));
    }

    fleet servers;
    proxy_group proxies{servers};
    recorder seen{proxies};
    test_client client{proxies.addresses(), without_questions()};
};

} // namespace

BOOST_AUTO_TEST_SUITE(late_commands)

BOOST_AUTO_TEST_CASE(an_extension_that_is_executed_late_does_not_shorten_a_longer_one) {
    for (std::size_t const n : {1U, 3U}) {
        late_client c(n);
        auto held = c.client.hold("k", {.ttl = brief, .watchdog = false});
        BOOST_REQUIRE(c.client.sees(c.servers, "k", true));
        BOOST_TEST(!extend(c.client, held, brief));
        BOOST_REQUIRE(c.client.until([&] { return c.proxies.are_quiet(); }));
        auto const late = c.sent();
        BOOST_TEST(!extend(c.client, held, lengthy));
        c.wait_until_all_last(15s);
        c.execute(late);
        BOOST_TEST(c.all_last(15s));
        BOOST_TEST(c.client.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(an_extension_of_the_first_holder_does_not_shorten_an_adopted_lease) {
    for (std::size_t const n : {1U, 3U}) {
        late_client first(n);
        auto held = first.client.hold("k", {.ttl = brief, .watchdog = false});
        BOOST_REQUIRE(first.client.sees(first.servers, "k", true));
        BOOST_TEST(!first.client.extend(held));
        BOOST_REQUIRE(first.client.until([&] { return first.proxies.are_quiet(); }));
        auto const late = first.sent();
        auto const token = held.token();
        held.detach();
        test_client second(first.servers);
        auto done = false;
        error how;
        lease adopted;
        second.locks.adopt("k", token, {.ttl = lengthy}, [&](error e, lease l) {
            how = std::move(e);
            adopted = std::move(l);
            done = true;
        });
        BOOST_REQUIRE(second.until([&] { return done; }));
        BOOST_REQUIRE_MESSAGE(!how, how.what());
        BOOST_REQUIRE(second.until([&] { return first.all_last(15s); }));
        first.execute(late);
        BOOST_TEST(first.all_last(15s));
        BOOST_TEST(second.releases(adopted));
    }
}

// The last command to be executed is not always the last one that was sent. So the key keeps its
// longer life, and the deadline moves at once.
BOOST_AUTO_TEST_CASE(a_shorter_ttl_moves_the_deadline_and_leaves_the_keys) {
    late_client c(1);
    auto held = c.client.hold("k", {.ttl = lengthy});
    BOOST_TEST(!extend(c.client, held, brief));
    BOOST_TEST((held.remaining() <= brief));
    BOOST_TEST(c.all_last(15s));
    BOOST_TEST(c.client.releases(held));
    BOOST_TEST(c.client.sees(c.servers, "k", false));
}

// A fair lock tries again with the token that stands in line.
BOOST_AUTO_TEST_CASE(a_try_of_a_fair_lock_that_is_executed_late_does_not_shorten_the_lease) {
    for (bool const fenced : {false, true}) {
        late_client c(1);
        auto held =
            c.client.hold("k", {.ttl = brief, .watchdog = false, .fencing = fenced, .fair = true});
        auto const late = c.sent();
        BOOST_TEST(!extend(c.client, held, lengthy));
        c.execute(late);
        BOOST_TEST(c.all_last(15s));
        BOOST_TEST(c.client.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(a_raise_that_is_executed_late_does_not_shorten_the_life_of_a_counter) {
    on_each_server([](server_kind const& kind) {
        server s({.kind = kind});
        redis_cli cli(s);
        cli.set("k", "token", lengthy);
        for (std::string const number : {"5", "50"}) { // below the counter, and above it
            set_counter(cli, "{k}:fence", "7", lengthy);
            auto const r = cli.command({"EVAL", std::string(redis::raise_script), "2", "k",
                                        "{k}:fence", "token", number, "1500"});
            BOOST_TEST(r.integer() == (number == "5" ? -1 : 1));
            BOOST_TEST((cli.pttl("{k}:fence") > 15s));
        }
    });
}

// A healing may come where the key is ours already.
BOOST_AUTO_TEST_CASE(a_bad_counter_takes_no_key_from_its_holder) {
    on_each_server([](server_kind const& kind) {
        server s({.kind = kind});
        redis_cli cli(s);
        for (std::string const bad : {"garbage", "90071992547408"}) {
            set_counter(cli, "{k}:fence", bad);
            for (auto const ours : {false, true}) {
                cli.del("k");
                if (ours) cli.set("k", "token", lengthy);
                auto const r = cli.command({"EVAL", std::string(redis::fenced_acquire_script), "2",
                                            "k", "{k}:fence", "token", "20000", "5", "60000"});
                BOOST_TEST(r.is_error());
                BOOST_TEST(cli.exists("k") == ours);
            }
        }
        // Otherwise it counts.
        cli.del("{k}:fence");
        BOOST_TEST(cli.command({"EVAL", std::string(redis::fenced_acquire_script), "2", "k",
                                "{k}:fence", "token", "20000", "5", "60000"})
                       .integer() == 5);
    });
}

BOOST_AUTO_TEST_CASE(a_full_server_extends_leases_and_releases_them) {
    on_each_server([](server_kind const& kind) {
        server s({.kind = kind});
        test_client client({s.url()}, without_questions());
        auto held = client.hold("k", {.ttl = lengthy});
        redis_cli cli(s);
        cli.config("maxmemory-policy", "noeviction");
        cli.config("maxmemory", "1");
        auto const e = extend(client, held, 2 * lengthy);
        BOOST_TEST(!e, e.what());
        BOOST_TEST((cli.pttl("k") > lengthy));
        BOOST_TEST(client.releases(held));
        BOOST_TEST(!cli.exists("k"));
    });
}

BOOST_AUTO_TEST_SUITE_END()
