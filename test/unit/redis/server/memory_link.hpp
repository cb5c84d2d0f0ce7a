// A server_link on a connection in memory. The test is its owner, and sends the bytes of
// the server.
#ifndef HOLDFAST_TEST_UNIT_MEMORY_LINK_HPP
#define HOLDFAST_TEST_UNIT_MEMORY_LINK_HPP

#include "redis/server/server_link.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/lone_owner.hpp"
#include "support/resp.hpp"
#include "unit/redis/net/memory_stream.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

struct memory_link_options {
    std::chrono::milliseconds instance_timeout = std::chrono::hours(1);
    unsigned replicas = 0;
    // Replies to the probe: to WAIT, if there are replicas, and to INFO.
    std::string may_wait = ":0\r\n";
    std::string info = resp::bulk("redis_version:7.0.15\r\nrun_id:a\r\nrole:master\r\n");
    redis::link_deployment deployment{};
};

/// Probed and up once it is made.
class memory_link final : public lone_owner {
public:
    explicit memory_link(memory_link_options const& o = {})
        : connection_(std::make_shared<redis::server_link>(
              wire_.context.get_executor(), 0U,
              redis::connection_options{.address = address("127.0.0.1:1"),
                                        .instance_timeout = o.instance_timeout,
                                        .connect_timeout = std::chrono::hours(1),
                                        .max_reconnect_delay = std::chrono::hours(1),
                                        .max_ttl = std::chrono::minutes(1),
                                        .on_restart = restart_policy::off,
                                        .detect_clock_jumps = false,
                                        .max_pending_releases = 10,
                                        .name = "unit",
                                        .replicas = o.replicas},
              static_cast<redis::instance_owner&>(*this),
              [this](asio::any_io_executor const&, address const&,
                     redis::location::endpoint const&) {
                  return std::make_unique<memory_stream>(wire_);
              },
              o.deployment)) {
        redis::in_turn(*this, [&] { connection_->start(); });
        wire_.context.poll();
        wire_.take_written();
        wire_.send("%0\r\n+OK\r\n+a\r\n+b\r\n+c\r\n+d\r\n-NOSCRIPT no\r\n%0\r\n%0\r\n$0\r\n\r\n" +
                   (o.replicas != 0 ? o.may_wait : std::string()) + o.info);
        BOOST_REQUIRE(connection_->connected());
        wire_.take_written();
    }
    ~memory_link() {
        stop();
        connection_.reset();
        wire_.context.restart();
        wire_.context.poll();
    }

    /// Sends commands in one turn. Gives the bytes.
    std::string send(std::vector<std::pair<protocol::command, redis::reply_handler*>> const& all) {
        redis::in_turn(*this, [&] {
            for (auto const& [c, owner] : all) {
                encoder_.start(c, *owner);
                BOOST_TEST(connection_->submit(encoder_, owner, 0));
            }
        });
        return wire_.take_written();
    }
    /// The server's bytes come. Gives the bytes that the client then sends.
    std::string receive(std::string_view bytes) {
        wire_.send(bytes);
        return wire_.take_written();
    }
    /// Time passes, and the timers run that are due at once.
    std::string pass(std::chrono::milliseconds d) {
        now_ += d;
        wire_.context.restart();
        wire_.context.poll();
        return wire_.take_written();
    }
    void stop() {
        redis::in_turn(*this, [&] { connection_->stop(); });
    }

    redis::server_link const& connection() const { return *connection_; }

    unsigned unavailable = 0, available = 0;
    std::vector<std::string> pushed;

private:
    void in_turn(turn_work& work) override {
        work.run();
        BOOST_TEST(connection_->flush());
    }
    lease_clock::time_point time() const noexcept override { return now_; }
    // Long pauses: a timer that is real would ring again and again while the time stands still.
    std::uint64_t random_bits() override { return ~std::uint64_t{0}; }
    void on_push(unsigned, std::string_view key) override { pushed.emplace_back(key); }
    void on_unavailable(unsigned) override { ++unavailable; }
    void on_available(unsigned) override { ++available; }

    wire wire_;
    lease_clock::time_point now_{std::chrono::hours(1)};
    redis::encoder encoder_;
    std::shared_ptr<redis::server_link> connection_;
};

} // namespace holdfast::test

#endif
