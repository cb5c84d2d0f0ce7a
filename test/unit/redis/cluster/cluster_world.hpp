// A Cluster of a few nodes in memory, and an instance that is connected to it.
#ifndef HOLDFAST_TEST_UNIT_CLUSTER_WORLD_HPP
#define HOLDFAST_TEST_UNIT_CLUSTER_WORLD_HPP

#include <holdfast/address.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/options.hpp>

#include "protocol/messages.hpp"
#include "protocol/server/server_ages.hpp"
#include "redis/cluster/cluster_instance.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/reply_handler.hpp"

#include "support/resp.hpp"
#include "unit/redis/memory_net.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

inline constexpr std::uint16_t first = 7001, second = 7002, third = 7003;

/// Two nodes, and a client of their Cluster. The first node has all slots.
class world final : public memory_owner {
public:
    /// Empty: the node answers as a server does that owns the slot.
    using hook = std::function<std::optional<std::string>(std::uint16_t, command_line const&)>;

    /// A Cluster whose nodes tell their ages.
    struct aged {
        std::map<std::uint16_t, int> uptimes = {}; ///< in seconds
        bool shared = true;     ///< both nodes have slots, the first that of the key
        bool has_third = false; ///< a node with slots that hangs at first
        std::string seeds = "127.0.0.1:7001";
    };

    explicit world(hook h = {})
        : world(aged{.shared = false}, std::move(h)) {}
    explicit world(aged of, hook h = {})
        : answers(std::move(h))
        , ages_(std::move(of))
        , cluster_(std::make_shared<redis::cluster_instance>(
              context_.get_executor(), 0U,
              redis::connection_options{
                  .address = address("redis+cluster://" + ages_.seeds),
                  .instance_timeout =
                      ages_.has_third ? std::chrono::seconds(8) : std::chrono::seconds(1),
                  .connect_timeout =
                      ages_.has_third ? std::chrono::seconds(8) : std::chrono::seconds(1),
                  .max_reconnect_delay = std::chrono::seconds(1),
                  .max_ttl = std::chrono::seconds(60),
                  .on_restart = restart_policy::observed,
                  .detect_clock_jumps = false,
                  .max_pending_releases = 10,
                  .name = "unit"},
              true, static_cast<redis::instance_owner&>(*this), net_.factory())) {
        net_.at(third).hangs = ages_.has_third;
        redis::in_turn(*this, [&] { cluster_->start(); });
        run();
    }
    ~world() {
        redis::in_turn(*this, [&] { cluster_->stop(); });
        net_.poll();
        cluster_.reset();
        net_.poll();
    }

    void submit(protocol::command c, redis::reply_handler& a) {
        submit_only(c, a);
        run();
    }
    /// From within an answer of a node.
    void submit_only(protocol::command c, redis::reply_handler& a) {
        redis::in_turn(*this, [&] {
            encoder_.start(c, a);
            BOOST_TEST(cluster_->submit(encoder_, &a, 0));
        });
    }
    std::size_t count(std::uint16_t port, std::string_view name) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            log, [&](auto const& l) { return l.first == port && l.second == name; }));
    }

    hook answers;
    bool silent = false; ///< the nodes answer nothing
    std::uint16_t owner_of_slots = first;
    std::vector<std::pair<std::uint16_t, std::string>> log;
    std::vector<std::string> pushed, written;
    redis::cluster_instance& cluster() { return *cluster_; }

    void on_push(unsigned, std::string_view key) override { pushed.emplace_back(key); }
    void on_own_write(unsigned, std::string_view key) override { written.emplace_back(key); }
    /// As runtime::engine does.
    void on_age(unsigned, lease_clock::time_point start) override {
        heard_.on_age(start, lease_clock::now());
        if (heard_.some_old()) cluster_->on_older_server();
    }

private:
    void in_turn(turn_work& work) override {
        work.run();
        BOOST_TEST(cluster_->flush());
    }
    bool answer_questions() override {
        auto some = false;
        for (auto const port : {first, second, third}) some = (!silent && serve(port)) || some;
        return some;
    }
    bool serve(std::uint16_t port) {
        return memory_owner::serve(port, [&](command_line const& words) {
            log.emplace_back(port, words.at(0));
            auto const special = answers ? answers(port, words) : std::nullopt;
            return special ? *special : usual(port, words);
        });
    }
    std::string usual(std::uint16_t port, command_line const& words) const {
        auto const& name = words.at(0);
        auto const id = id_of(port);
        if (name == "HELLO" || name == "CONFIG") return "%0\r\n";
        if (name == "EVALSHA") return words.at(2) == "0" ? "-NOSCRIPT no\r\n" : ":1\r\n";
        if (name == "SCRIPT") return resp::bulk("x");
        if (name == "INFO") {
            return words.size() == 2 ? resp::bulk("")
                                     : resp::bulk("redis_version:7.0.15\r\nrun_id:" + id +
                                                  "\r\nrole:master\r\nmaster_replid:" + id +
                                                  "\r\n" + uptime(port));
        }
        if (name == "CLUSTER" && words.at(1) == "INFO")
            return resp::bulk("cluster_state:ok\r\ncluster_current_epoch:1\r\n");
        if (name == "CLUSTER" && words.at(1) == "SLOTS") {
            if (!ages_.shared) return resp::array({range(0, 16'383, owner_of_slots)});
            if (!ages_.has_third)
                return resp::array({range(0, 8'191, first), range(8'192, 16'383, second)});
            return resp::array({range(0, 8'191, first), range(8'192, 15'999, second),
                                range(16'000, 16'383, third)});
        }
        if (name == "CLUSTER") {
            return resp::bulk(std::string(40, 'a') + " 127.0.0.1:7001@17001 master - 0 0 1\n" +
                              std::string(40, 'b') + " 127.0.0.1:7002@17002 master - 0 0 2\n");
        }
        return "+OK\r\n";
    }

    static std::string range(int from, int to, std::uint16_t port) {
        return resp::array({resp::integer(from), resp::integer(to),
                            resp::array({resp::bulk("127.0.0.1"), resp::integer(port),
                                         resp::bulk(id_of(port)), resp::array({})})});
    }
    static std::string id_of(std::uint16_t port) {
        return std::string(40, static_cast<char>('a' + (port - first)));
    }
    std::string uptime(std::uint16_t port) const {
        auto const known = ages_.uptimes.find(port);
        return known == ages_.uptimes.end()
                   ? std::string()
                   : "uptime_in_seconds:" + std::to_string(known->second) + "\r\n";
    }

    aged const ages_;
    protocol::server_ages heard_{std::chrono::seconds(60)};
    std::shared_ptr<redis::cluster_instance> cluster_;
};

} // namespace holdfast::test

#endif
