#include "redis/net/stream.hpp"

#include "redis/net/socket_stream.hpp"

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <sys/un.h>
#include <type_traits>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ip::tcp;
using unix_protocol = asio::local::stream_protocol;

/// The bytes of the socket themselves.
template <class Protocol, class Executor>
class plain_layer {
public:
    using protocol = Protocol;
    static constexpr bool shakes_hands = false;

    explicit plain_layer(Executor const& executor, error_code fault = {})
        : socket_(executor)
        , fault_(fault) {}

    auto& socket() { return socket_; }
    error_code fault() const { return fault_; }

    template <class Handler>
    void async_read_some(asio::mutable_buffer into, Handler handler) {
        socket_.async_read_some(into, std::move(handler));
    }
    std::size_t write(std::string_view bytes, error_code& ec) noexcept {
        auto const size = socket_.write_some(asio::buffer(bytes), ec);
        if (ec == asio::error::would_block || ec == asio::error::interrupted) ec.clear();
        return size;
    }
    bool needs_room(error_code&) const { return false; }

    error_code seen(error_code ec) const { return ec; }
    connection_failure explain(error_code ec, failure_moment at) const {
        return explain_plain(ec, at, std::is_same_v<Protocol, tcp>);
    }
    std::string security() const { return {}; }

private:
    asio::basic_stream_socket<Protocol, Executor> socket_;
    error_code const fault_;
};

template <class Protocol>
std::unique_ptr<stream> make(asio::any_io_executor const& executor,
                             typename Protocol::endpoint const& target, error_code fault = {}) {
    return with_known_executor(
        executor, [&]<class Executor>(Executor const& known) -> std::unique_ptr<stream> {
            return std::make_unique<socket_stream<plain_layer<Protocol, Executor>>>(target, known,
                                                                                    fault);
        });
}

} // namespace

std::unique_ptr<stream> make_tcp_stream(asio::any_io_executor const& executor,
                                        tcp::endpoint const& target) {
    return make<tcp>(executor, target);
}

std::unique_ptr<stream> make_unix_stream(asio::any_io_executor const& executor,
                                         std::string const& path) {
    // The endpoint's constructor throws if the path is too long.
    if (path.size() >= sizeof sockaddr_un{}.sun_path) {
        return make<unix_protocol>(executor, {}, asio::error::name_too_long);
    }
    return make<unix_protocol>(executor, path);
}

} // namespace holdfast::redis
