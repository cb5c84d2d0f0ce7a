// A server whose user for the library has other rights than the documented ones.
#ifndef HOLDFAST_TEST_INTEGRATION_RESTRICTED_HPP
#define HOLDFAST_TEST_INTEGRATION_RESTRICTED_HPP

#include <holdfast/client_stats.hpp>

#include "integration/test_client.hpp"
#include "support/access.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

struct restricted {
    /// All documented rights but these.
    explicit restricted(server_kind const& kind, std::vector<std::string> const& missing = {})
        : redis({.kind = kind, .refuses = true, .missing_rules = missing}) {}

    void give(access::rules const& all) {
        BOOST_REQUIRE(admin.command(access::set_user(access::user, all)).is_ok());
    }
    /// From now on, beside the others: "+get", "-get".
    void change(std::string const& rule) {
        BOOST_REQUIRE(admin.command({"ACL", "SETUSER", std::string(access::user), rule}).is_ok());
    }
    /// How often the command was called, or refused.
    std::uint64_t count(std::string_view command, std::string_view how) {
        auto const text = admin.command({"INFO", "commandstats"}).string();
        auto const line = text.find("cmdstat_" + std::string(command) + ':');
        if (line == text.npos) return 0;
        auto const field = text.find(std::string(how) + '=', line);
        return std::stoull(text.substr(field + how.size() + 1));
    }
    std::uint64_t calls(std::string_view command) { return count(command, "calls"); }
    std::uint64_t refused(std::string_view command) { return count(command, "rejected_calls"); }

    server redis;
    redis_cli admin{redis};
    std::string const native_delete = test::native_delete(redis.kind()); ///< "delifeq"; or empty
};

/// Runs the test for each kind of server that this machine has.
template <class Test>
void on_each_server(Test test) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    for (auto const& kind : kinds) {
        BOOST_TEST_CONTEXT(kind.name) test(kind);
    }
}

/// Runs the test for the oldest kind and the newest: one that compares by scripts, and one that
/// does so natively.
template <class Test>
void on_two_servers(Test test) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    BOOST_TEST_CONTEXT(kinds.front().name) test(kinds.front());
    if (kinds.size() == 1) return;
    BOOST_TEST_CONTEXT(kinds.back().name) test(kinds.back());
}

/// Why the instance lacks a service; empty if it does not.
inline std::string lack_of(test_client const& p, degradation d) {
    for (auto const& found : p.status(0).degradations) {
        if (found.kind == d) return found.message;
    }
    return {};
}

/// The instance lacks this and nothing else, and the reason names the command.
inline void check_lacks(test_client& p, std::vector<degradation> const& all,
                        std::string_view command) {
    auto const kinds = [&] {
        std::vector<degradation> found;
        for (auto const& each : p.status(0).degradations) found.push_back(each.kind);
        std::sort(found.begin(), found.end());
        return found;
    };
    auto const settled = p.until([&] { return kinds() == all; });
    std::string listed;
    for (auto const& found : p.status(0).degradations) {
        listed += std::string(to_string(found.kind)) + " (" + found.message + ") ";
    }
    BOOST_TEST(settled, "lacks: " << listed);
    for (auto const d : all) {
        auto const reason = lack_of(p, d);
        BOOST_TEST(contains(reason, command), to_string(d) << ": " << reason);
        BOOST_TEST(!contains(reason, access::password), reason);
    }
    BOOST_TEST((p.status(0).state == instance_state::up), p.status(0).message);
}

/// A lock, from its acquire to its release.
inline void check_cycle(test_client& p, lock_options const& options = long_lived) {
    auto l = p.hold("k", options);
    auto const extended = p.extend(l);
    BOOST_TEST(!extended, extended.what());
    auto const released = p.release(l);
    BOOST_TEST(released.confirmed(), released.what());
}

} // namespace holdfast::test

#endif
