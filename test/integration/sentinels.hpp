// Sentinel deployments as clients under test come to them, real ones and scripted ones.
#ifndef HOLDFAST_TEST_INTEGRATION_SENTINELS_HPP
#define HOLDFAST_TEST_INTEGRATION_SENTINELS_HPP

#include <holdfast/address.hpp>

#include "integration/guards.hpp"
#include "integration/kinds.hpp"
#include "integration/test_client.hpp"
#include "support/access.hpp"
#include "support/fake_server.hpp"
#include "support/resp.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

/// The rights that doc/production.md gives to the user of the sentinels.
inline std::vector<std::string> const sentinel_rules{"-@all",
                                                     "allchannels",
                                                     "+auth",
                                                     "+hello",
                                                     "+ping",
                                                     "+subscribe",
                                                     "+sentinel|myid",
                                                     "+sentinel|master",
                                                     "+sentinel|get-master-addr-by-name",
                                                     "+sentinel|sentinels"};

/// The library comes to the data servers with the documented rights.
inline sentinel_group_options documented(server_kind const& kind = oldest_and_newest().front()) {
    sentinel_group_options o;
    o.kind = kind;
    o.user = login{.user = std::string(access::user),
                   .password = std::string(access::password),
                   .rules = documented_rules(kind)};
    return o;
}

inline sentinel_group_options small(sentinel_group_options o = documented()) {
    o.replicas = 1;
    return o;
}

/// The commands that a server has refused to the library. Sentinel closes all connections of a
/// server whose role it changes. So the question is asked until an answer comes.
inline std::vector<std::string> refusals_of(sentinel_group& group, std::size_t member) {
    std::vector<std::string> all;
    auto const answers = [&] {
        try {
            auto const log = group.cli(member).command({"ACL", "LOG"});
            if (!log.is_array()) return false;
            all = access::refusals_in(log);
            return true;
        } catch (cli_error const&) {
            return false;
        }
    };
    if (!wait_until(answers, std::chrono::seconds(20))) all.emplace_back("no answer to ACL LOG");
    return all;
}

/// The servers that run have refused nothing.
inline void check_no_refusals(sentinel_group& group) {
    for (std::size_t i = 0; i < group.members(); ++i) {
        if (!group.member(i).running() || group.member(i).frozen()) continue;
        for (auto const& text : refusals_of(group, i))
            BOOST_ERROR("the library was refused: " + text);
    }
}

template <class Test>
void on_failover_kinds(Test test) {
    on_oldest_and_newest([&](server_kind const& kind) { test(documented(kind)); });
}

/// The client notices faults soon, but no busy machine makes a healthy server late.
inline client_options alert(std::chrono::milliseconds max_ttl) {
    client_options o;
    o.max_ttl = max_ttl;
    o.instance_timeout = std::chrono::seconds(1);
    o.connect_timeout = std::chrono::seconds(1);
    o.max_reconnect_delay = std::chrono::milliseconds(100);
    return o;
}

inline bool uses(test_client const& c, std::string const& server) {
    return c.status(0).primary == server;
}

/// The client has another primary than `before`, and its connection is up.
[[nodiscard]] inline bool has_moved(test_client& c, std::string const& before) {
    return c.until(
        [&] {
            auto const s = c.status(0);
            return !s.primary.empty() && s.primary != before &&
                   (s.state == instance_state::up || s.state == instance_state::quarantined);
        },
        std::chrono::seconds(40));
}

/// Scripted sentinels. They say what the test wants, each for itself.
class fake_sentinels {
public:
    explicit fake_sentinels(std::size_t count = 3) {
        for (std::size_t i = 0; i < count; ++i)
            all_.push_back(std::make_unique<sentinel>(*this, i));
    }
    /// The answer of a sentinel names the others.
    ~fake_sentinels() {
        for (auto const& s : all_) s->wire.stop();
    }
    fake_sentinels(fake_sentinels const&) = delete;
    fake_sentinels& operator=(fake_sentinels const&) = delete;

    /// All name this server from now on.
    void name(server const& primary, std::uint64_t epoch) {
        for (std::size_t i = 0; i < all_.size(); ++i) name(i, primary, epoch);
    }
    void name(std::size_t i, server const& primary, std::uint64_t epoch) {
        std::lock_guard const lock(mutex_);
        all_[i]->port = primary.port();
        all_[i]->epoch = epoch;
    }
    void named_for(std::chrono::milliseconds time) {
        std::lock_guard const lock(mutex_);
        named_for_ = time;
    }
    /// They answer no question any more.
    void fall_silent() {
        std::lock_guard const lock(mutex_);
        silent_ = true;
    }
    /// One sentinel announces +switch-master.
    void announce(std::size_t i, server const& primary) {
        all_[i]->wire.push(resp::push(
            {resp::bulk("message"), resp::bulk("+switch-master"),
             resp::bulk("orders 127.0.0.1 1 127.0.0.1 " + std::to_string(primary.port()))}));
    }

    holdfast::address address() const {
        std::string hosts;
        for (auto const& s : all_) hosts += (hosts.empty() ? "" : ",") + s->wire.address();
        return "redis+sentinel://" + std::string(access::user) + ':' +
               std::string(access::password) + '@' + hosts + "/orders";
    }
    std::size_t rounds(std::size_t i) const { return all_[i]->wire.count("SENTINEL") / 4; }

private:
    struct sentinel {
        sentinel(fake_sentinels& all, std::size_t i)
            : wire([&all, i](command_line const& words) { return all.answer(i, words); }) {}
        std::uint16_t port = 0;
        std::uint64_t epoch = 0;
        fake_server wire;
    };

    static std::string id(std::size_t i) { return std::to_string(i) + std::string(39, 'a'); }
    static std::string fields(std::vector<std::string> const& all) {
        std::vector<std::string> encoded;
        for (auto const& text : all) encoded.push_back(resp::bulk(text));
        return resp::map(encoded);
    }
    std::string answer(std::size_t i, command_line const& words) {
        std::lock_guard const lock(mutex_);
        if (silent_) return fake_server::no_answer;
        auto const& self = *all_[i];
        if (is_command(words, "HELLO")) return fields({"server", "redis"});
        if (is_command(words, "PING")) return resp::simple("PONG");
        if (is_command(words, "SUBSCRIBE"))
            return resp::push(
                {resp::bulk("subscribe"), resp::bulk("+switch-master"), resp::integer(1)});
        if (is_command(words, "SENTINEL", "MYID")) return resp::bulk(id(i));
        auto const port = std::to_string(self.port);
        if (is_command(words, "SENTINEL", "MASTER")) {
            return fields({"ip", "127.0.0.1", "port", port, "role-reported", "master",
                           "role-reported-time", std::to_string(named_for_.count()), "config-epoch",
                           std::to_string(self.epoch)});
        }
        if (is_command(words, "SENTINEL", "GET-MASTER-ADDR-BY-NAME"))
            return resp::array({resp::bulk("127.0.0.1"), resp::bulk(port)});
        std::vector<std::string> peers;
        for (std::size_t p = 0; p < all_.size(); ++p) {
            if (p == i) continue;
            peers.push_back(fields(
                {"ip", "127.0.0.1", "port", std::to_string(all_[p]->wire.port()), "runid", id(p)}));
        }
        return resp::array(peers);
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<sentinel>> all_;
    std::chrono::milliseconds named_for_{0};
    bool silent_ = false;
};

} // namespace holdfast::test

#endif
