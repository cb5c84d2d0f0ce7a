// The common parts of the tests of streams.
#pragma once

#include "redis/net/stream.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::test {

using stream_ptr = std::unique_ptr<redis::stream>;

/// A user that stores the results, and owns the stream as a session does.
class recording_user final : public redis::stream_user,
                             public std::enable_shared_from_this<recording_user> {
public:
    explicit recording_user(stream_ptr s)
        : stream_(std::move(s)) {}

    void connect() {
        call([&] { stream_->connect(shared_from_this()); });
    }
    void read() {
        call([&] { stream_->read(shared_from_this(), boost::asio::buffer(buffer_)); });
    }
    void wait_writable() {
        call([&] { stream_->wait_writable(shared_from_this()); });
    }
    std::size_t write(std::string_view bytes, boost::system::error_code& ec) {
        std::size_t size = 0;
        call([&] { size = stream_->write(bytes, ec); });
        return size;
    }
    void shut_down() {
        call([&] { stream_->shut_down(); });
    }
    void close() {
        call([&] { stream_->close(); });
    }
    void destroy() {
        call([&] { stream_.reset(); });
    }

    redis::connection_failure explain(boost::system::error_code ec,
                                      redis::failure_moment at = {}) const {
        return stream_->explain(ec, at);
    }
    std::string security() const { return stream_->security(); }

    void on_handshake() override {
        BOOST_TEST(!calling_, "the user is called within a call to the stream");
        BOOST_TEST(!connected);
        ++handshakes;
        at_handshake();
    }
    void on_connected(boost::system::error_code ec) override { note(connected, ec); }
    void on_read(boost::system::error_code ec, std::size_t size) override {
        size_ = size;
        note(read_done, ec);
    }
    void on_writable(boost::system::error_code ec) override { note(writable, ec); }

    std::string_view bytes() const { return {buffer_.data(), size_}; }
    void forget() { connected = read_done = writable = std::nullopt; }

    int handshakes = 0;
    std::optional<boost::system::error_code> connected, read_done, writable;
    std::function<void()> then = [] {}, at_handshake = [] {};

private:
    template <class Function>
    void call(Function f) {
        calling_ = true;
        f();
        calling_ = false;
    }
    void note(std::optional<boost::system::error_code>& result, boost::system::error_code ec) {
        BOOST_TEST(!calling_, "the user is called within a call to the stream");
        BOOST_TEST(!result, "one operation is reported twice");
        result = ec;
        then();
    }

    stream_ptr stream_;
    std::array<char, 4096> buffer_{};
    std::size_t size_ = 0;
    bool calling_ = false;
};

inline bool is_aborted(std::optional<boost::system::error_code> const& ec) {
    return ec == boost::system::error_code(boost::asio::error::operation_aborted);
}

/// Bytes that show if a part is lost or moved.
inline std::string pattern(std::size_t size) {
    std::string text(size, '\0');
    std::uint32_t x = 1;
    for (auto& c : text) {
        x = x * 1'664'525 + 1'013'904'223;
        c = static_cast<char>(x >> 24);
    }
    return text;
}

/// Writes all bytes: more whenever the stream has become writable.
struct long_write {
    void go_on() {
        while (written < all.size()) {
            boost::system::error_code ec;
            auto const size = user.write(all.substr(written, 100'000), ec);
            BOOST_REQUIRE(!ec);
            written += size;
            if (size == 0) {
                ++blocked;
                user.writable.reset();
                return user.wait_writable();
            }
        }
    }

    recording_user& user;
    std::string_view all;
    std::size_t written = 0;
    int blocked = 0;
};

/// `loopback` has a stream to `peer`, a synchronous stream of Asio.
template <class Loopback, class Peer>
void check_bytes_go_both_ways(Loopback& loopback, recording_user& u, Peer& peer) {
    boost::system::error_code ec;
    BOOST_TEST(u.write("question", ec) == 8u);
    std::string got(8, '\0');
    boost::asio::read(peer, boost::asio::buffer(got));
    BOOST_TEST(got == "question");
    u.read();
    boost::asio::write(peer, boost::asio::buffer("answer", 6));
    loopback.run_until([&] { return u.read_done.has_value(); });
    BOOST_TEST(!*u.read_done);
    BOOST_TEST(u.bytes() == "answer");
}

} // namespace holdfast::test
