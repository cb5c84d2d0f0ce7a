// Servers in memory, by their ports, for instances with several connections. The test reads what
// the client has sent to a port, and sends the bytes of the server.
#ifndef HOLDFAST_TEST_UNIT_MEMORY_NET_HPP
#define HOLDFAST_TEST_UNIT_MEMORY_NET_HPP

#include <holdfast/clock.hpp>

#include "redis/net/session.hpp"
#include "redis/net/stream.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/lone_owner.hpp"
#include "support/resp.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::test {

namespace asio = boost::asio;

class memory_net {
public:
    /// The present connection to a port. A stream that is closed leaves its place to the next one.
    struct line {
        std::shared_ptr<redis::stream_user> reading;
        asio::mutable_buffer buffer;
        std::string written;
        unsigned connections = 0;
        bool refuses = false; ///< connections
        bool hangs = false;   ///< no connection is made until answer_now()
        std::shared_ptr<redis::stream_user> connecting;
    };

    explicit memory_net(asio::io_context& c)
        : context_(c) {}

    redis::location::stream_factory factory() {
        return [this](asio::any_io_executor const&, address const& a,
                      redis::location::endpoint const&) {
            return std::make_unique<end>(*this, lines_[a.port()]);
        };
    }
    line& at(std::uint16_t port) { return lines_[port]; }
    bool is_open(std::uint16_t port) { return lines_[port].reading != nullptr; }
    /// The server's bytes.
    void send(std::uint16_t port, std::string_view bytes) {
        auto& l = lines_[port];
        BOOST_REQUIRE_MESSAGE(l.reading, "no connection to port " << port);
        BOOST_REQUIRE(bytes.size() <= l.buffer.size());
        std::memcpy(l.buffer.data(), bytes.data(), bytes.size());
        std::exchange(l.reading, nullptr)->on_read({}, bytes.size());
    }
    /// The server closes the connection.
    void cut(std::uint16_t port) {
        auto& l = lines_[port];
        BOOST_REQUIRE(l.reading);
        std::exchange(l.reading, nullptr)->on_read(asio::error::eof, 0);
    }
    /// The server that hung takes the connection.
    void answer_now(std::uint16_t port) {
        auto& l = lines_[port];
        l.hangs = false;
        BOOST_REQUIRE(l.connecting);
        std::exchange(l.connecting, nullptr)->on_connected({});
    }
    /// What the client has sent since the last call.
    std::string sent(std::uint16_t port) { return std::exchange(lines_[port].written, {}); }
    void poll() {
        context_.restart();
        context_.poll();
    }

private:
    class end final : public redis::stream {
    public:
        end(memory_net& net, line& l)
            : net_(net)
            , line_(l) {}
        ~end() override { close(); }

        void connect(std::shared_ptr<redis::stream_user> user) override {
            ++line_.connections;
            if (line_.hangs) {
                line_.connecting = std::move(user);
                return;
            }
            redis::error_code const ec = line_.refuses
                                             ? redis::error_code(asio::error::connection_refused)
                                             : redis::error_code();
            asio::post(net_.context_, [user = std::move(user), ec] { user->on_connected(ec); });
        }
        void read(std::shared_ptr<redis::stream_user> user, asio::mutable_buffer buffer) override {
            reader_ = user.get();
            line_.reading = std::move(user);
            line_.buffer = buffer;
        }
        std::size_t write(std::string_view bytes, redis::error_code&) noexcept override {
            line_.written += bytes;
            return bytes.size();
        }
        void wait_writable(std::shared_ptr<redis::stream_user>) override {}
        void close() noexcept override {
            line_.connecting = nullptr;
            auto const* const mine = std::exchange(reader_, nullptr);
            if (mine == nullptr || line_.reading.get() != mine) return; // the next connection reads
            if (auto user = std::exchange(line_.reading, nullptr)) {
                asio::post(net_.context_, [user = std::move(user)] {
                    user->on_read(asio::error::operation_aborted, 0);
                });
            }
        }

    private:
        memory_net& net_;
        line& line_;
        redis::stream_user const* reader_ = nullptr;
    };

    asio::io_context& context_;
    std::map<std::uint16_t, line> lines_;
};

/// The owner of an instance whose servers are in memory. Time is real: the instance has timers.
class memory_owner : public lone_owner {
public:
    /// The servers answer until nobody has a question.
    void run() {
        do {
            net_.poll();
        } while (answer_questions());
    }
    /// Runs timers and answers questions until then.
    template <class Condition>
    [[nodiscard]] bool until(Condition condition) {
        auto const end = lease_clock::now() + std::chrono::seconds(30);
        while (!condition() && lease_clock::now() < end) {
            context_.restart();
            context_.run_one_for(std::chrono::milliseconds(100));
            run();
        }
        return condition();
    }
    memory_net& net() { return net_; }

protected:
    ~memory_owner() = default;

    /// False if no server was asked anything.
    virtual bool answer_questions() = 0;
    /// Answers the commands that the client has sent to the port.
    template <class Answer>
    bool serve(std::uint16_t port, Answer answer) {
        if (!net_.is_open(port)) return false;
        auto const bytes = net_.sent(port);
        std::string all;
        std::string_view rest = bytes;
        while (auto const words = resp::take_command(rest)) all += answer(*words);
        if (!all.empty()) net_.send(port, all);
        return !all.empty();
    }

    lease_clock::time_point time() const noexcept override { return lease_clock::now(); }
    std::uint64_t random_bits() override { return random_ += 0x9e3779b97f4a7c15U; }

    std::uint64_t random_ = 0;
    asio::io_context context_{1};
    memory_net net_{context_};
    redis::encoder encoder_;
};

} // namespace holdfast::test

#endif
