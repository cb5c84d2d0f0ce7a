// Servers in memory, by their ports, for instances with several connections. The test reads what
// the client has sent to a port, and sends the bytes of the server.
#ifndef HOLDFAST_TEST_UNIT_MEMORY_NET_HPP
#define HOLDFAST_TEST_UNIT_MEMORY_NET_HPP

#include <holdfast/clock.hpp>

#include "redis/session.hpp"
#include "redis/stream.hpp"

#include "support/lone_owner.hpp"

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
    };

    explicit memory_net(asio::io_context& c)
        : context_(c) {}

    redis::location::stream_factory factory() {
        return [this](asio::any_io_executor const&, address const& a, redis::location::endpoints) {
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

} // namespace holdfast::test

#endif
