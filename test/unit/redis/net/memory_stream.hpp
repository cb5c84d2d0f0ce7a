// A connection in memory, for a server_link without a server.
#ifndef HOLDFAST_TEST_UNIT_MEMORY_STREAM_HPP
#define HOLDFAST_TEST_UNIT_MEMORY_STREAM_HPP

#include <holdfast/error.hpp>

#include "redis/net/stream.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::test {

namespace asio = boost::asio;

// The server's end of a connection in memory.
struct wire {
    asio::io_context context{1};
    std::shared_ptr<redis::stream_user> reading;
    asio::mutable_buffer buffer;
    std::string written;

    void send(std::string_view bytes) {
        BOOST_REQUIRE(reading);
        BOOST_REQUIRE(bytes.size() <= buffer.size());
        std::memcpy(buffer.data(), bytes.data(), bytes.size());
        std::exchange(reading, nullptr)->on_read({}, bytes.size());
    }
    std::string take_written() { return std::exchange(written, {}); }
};

class memory_stream final : public redis::stream {
public:
    explicit memory_stream(wire& w)
        : wire_(w) {}

    void connect(std::shared_ptr<redis::stream_user> user) override {
        asio::post(wire_.context, [user = std::move(user)] { user->on_connected({}); });
    }
    void read(std::shared_ptr<redis::stream_user> user, asio::mutable_buffer buffer) override {
        wire_.reading = std::move(user);
        wire_.buffer = buffer;
    }
    std::size_t write(std::string_view bytes, error_code&) noexcept override {
        wire_.written += bytes;
        return bytes.size();
    }
    void wait_writable(std::shared_ptr<redis::stream_user>) override {}
    void close() noexcept override {
        if (auto user = std::exchange(wire_.reading, nullptr)) {
            asio::post(wire_.context, [user = std::move(user)] {
                user->on_read(asio::error::operation_aborted, 0);
            });
        }
    }

private:
    wire& wire_;
};

} // namespace holdfast::test

#endif
