// The common parts of the tests of scripts: a client that runs them on a server, and what they
// return.
#ifndef HOLDFAST_TEST_INTEGRATION_SCRIPT_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_SCRIPT_CLIENT_HPP

#include "integration/restricted.hpp"
#include "support/access.hpp"
#include "support/counters.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

using texts = std::vector<std::string>;

/// A server, and the connection of a client to it. Each kind of lock adds the words of its scripts.
class script_client {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit script_client(server_kind const& kind, texts const& missing = {})
        : r(kind, missing) {
        log_in(cli);
    }
    void log_in(redis_cli& c) const {
        BOOST_REQUIRE(
            c.command({"AUTH", std::string(access::user), std::string(access::password)}).is_ok());
    }

    /// All keys of the server.
    texts left() { return admin.keys(); }
    std::string at(std::string const& name) { return admin.get(name).value_or("none"); }
    std::string count_at(std::string const& name) {
        return counter_at(admin, name).value_or("none");
    }
    milliseconds life(std::string const& name) { return admin.pttl(name); }
    /// The rest of a token's time, by the deadlines in this set; empty if it is not there.
    std::optional<milliseconds> time_in(std::string const& set, std::string const& token) {
        using namespace std::chrono_literals;
        auto const score = admin.command({"ZSCORE", set, token});
        if (score.is_nil()) return std::nullopt;
        auto const now = admin.command({"TIME"}).elements();
        return milliseconds(std::stoll(score.string())) -
               (1s * std::stoll(now.at(0).string()) +
                milliseconds(std::stoll(now.at(1).string()) / 1'000));
    }
    /// As if its time had passed.
    void end_time_in(std::string const& set, std::string const& token) {
        (void)admin.command({"ZADD", set, "5", token});
    }

    restricted r;
    redis_cli& admin = r.admin;
    redis_cli cli{r.redis};

protected:
    static std::string ms(milliseconds m) { return std::to_string(m.count()); }

    static command_line eval(std::string_view script, texts const& keys, texts const& args) {
        command_line words{"EVAL", std::string(script), std::to_string(keys.size())};
        words.insert(words.end(), keys.begin(), keys.end());
        words.insert(words.end(), args.begin(), args.end());
        return words;
    }
};

inline void check_number(reply const& r, std::int64_t expected) {
    BOOST_TEST(r.is_integer(), r);
    if (r.is_integer()) BOOST_TEST(r.integer() == expected);
}

/// A refusal that names a time to live within these bounds.
inline void check_refused(reply const& r, std::chrono::milliseconds least,
                          std::chrono::milliseconds most) {
    BOOST_TEST(r.is_integer(), r);
    if (!r.is_integer()) return;
    std::chrono::milliseconds const left(-3 - r.integer());
    BOOST_TEST((left >= least && left <= most), r);
}

inline void check_error(reply const& r, std::string_view text) {
    BOOST_TEST(r.is_error(), r);
    if (r.is_error()) BOOST_TEST(contains(r.error(), text), r.error());
}

/// For want of a right. Servers have different words for a command within a script.
inline void check_denied(reply const& r) {
    BOOST_TEST(r.is_error(), r);
    if (!r.is_error()) return;
    auto const& e = r.error();
    BOOST_TEST((e.starts_with("NOPERM") || contains(e, "ACL failure in script") ||
                contains(e, "The user executing the script can't")),
               e);
}

inline void check_keys(script_client& c, texts const& expected) {
    BOOST_TEST(c.left() == expected, boost::test_tools::per_element());
}

} // namespace holdfast::test

#endif
