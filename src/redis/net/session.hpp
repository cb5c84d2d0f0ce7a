// One connection to an instance, from its address to its end. A session finds the address,
// connects, writes batches without waiting, and reads in one loop. It knows nothing of the meaning
// of the bytes.
#ifndef HOLDFAST_REDIS_SESSION_HPP
#define HOLDFAST_REDIS_SESSION_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "protocol/server/reconnect.hpp"
#include "redis/net/resolver.hpp"
#include "redis/net/stream.hpp"
#include "redis/net/tls_connector.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/wire/pipeline.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The address of an instance, and for a name the endpoints of its last successful look-up.
class location {
public:
    using endpoints = resolver::endpoints;
    using endpoint = asio::ip::tcp::endpoint;
    /// Makes a stream that is not connected yet.
    using stream_factory = std::function<std::unique_ptr<stream>(asio::any_io_executor const&,
                                                                 address const&, endpoint const&)>;

    /// `tls`: null for an address without TLS. With it the factory is not used. `tls_name`: the
    /// name of the server for TLS; empty for the host of the address.
    location(asio::any_io_executor const&, address const&, stream_factory,
             std::shared_ptr<tls_context_source> tls = {}, std::string const& tls_name = {});
    /// For tests: replaces the look-up.
    location(asio::any_io_executor const&, address const&, stream_factory,
             resolver::look_up_function);

    std::string name; ///< empty if the address is numeric, or a path
    resolver look_up;
    endpoints known; ///< the families in turn: RFC 8305, section 4

    /// A look-up has found these.
    void found(endpoints);
    /// The endpoints for one connection, in the order in which they are tried: those that have
    /// failed come last, and the first of them was the first to fail. Empty for a path.
    endpoints to_try() const;
    /// No connection was made there, or none that served.
    void failed(endpoint const&) noexcept;

    /// `at`: of no use for a path.
    std::unique_ptr<stream> make_stream(endpoint const& at) {
        return tls_ ? tls_->make_stream(executor_, at) : factory_(executor_, address_, at);
    }
    bool has_files() const { return tls_.has_value(); }
    /// Whether files have changed, so that a connection that failed may succeed now.
    bool files_changed() const noexcept { return tls_ && tls_->files_changed(); }
    /// Why changed files are not in use; empty if they are.
    std::string problem() const { return tls_ ? tls_->problem() : std::string(); }

private:
    void find_numeric();

    asio::any_io_executor executor_;
    address address_;
    stream_factory factory_;
    std::optional<tls_connector> tls_;
    endpoints failed_; ///< the last one failed last
};

/// TCP or a Unix socket, as the address says.
std::unique_ptr<stream> make_plain_stream(asio::any_io_executor const&, address const&,
                                          location::endpoint const&);

/// The functions are called within a turn. If one throws, the session ends.
class session_user {
public:
    /// The connection is made. Bytes can be written.
    virtual void on_connected() = 0;
    /// Removes complete replies from the front of `bytes`. The next call gets the rest again, with
    /// more bytes behind it.
    virtual void on_bytes(std::string_view& bytes) = 0;
    /// The connection is gone, or could not be made. Called once, but not after close(). The fault
    /// decides about the pause before the next connection.
    virtual void on_session_end(errc cause, std::string message, protocol::fault) noexcept = 0;

protected:
    ~session_user() = default;
};

class session final : public stream_user, public std::enable_shared_from_this<session> {
public:
    session(asio::any_io_executor const&, location&, std::chrono::milliseconds connect_timeout,
            turn_owner&, session_user&);

    void start();
    /// Writes as much of the batch as possible now, and the rest later. The batch must stay where
    /// it is until it is written, or until close() is called.
    void write(batch&);
    /// The server is one that the user wants. An endpoint at which this is not called before the
    /// end has failed, and the next connection begins with another one.
    void accepted() noexcept { accepted_ = true; }
    /// The user gets no more calls, and may be destroyed.
    void close() noexcept;

    /// The protection of the connection in words; empty without TLS.
    std::string security() const { return stream_ ? stream_->security() : std::string(); }

private:
    using clock = std::chrono::steady_clock;
    class attempt;

    void resolve();
    void on_resolved(error_code, location::endpoints);
    void connect();
    void connect_next();
    bool try_another();
    void leave_endpoint() noexcept;
    void limit_time(clock::duration, void (session::*late)());
    void look_up_is_late();
    void endpoint_is_late();
    void handshake_is_late();
    template <class Work>
    void in_turn(Work);
    template <class Work>
    void run(Work);
    void end(errc cause, std::string message, protocol::fault = protocol::fault::broken);
    void end_unconnected(std::string message, protocol::fault = protocol::fault::broken);
    void write_some();
    void read();
    void make_room();

    void on_handshake() override;
    void on_connected(error_code) override;
    void on_read(error_code, std::size_t size) override;
    void on_writable(error_code) override;

    location& location_;
    std::chrono::milliseconds connect_timeout_;
    turn_owner& owner_;
    session_user* user_;
    std::unique_ptr<stream> stream_;
    std::weak_ptr<attempt> attempt_; ///< to connect
    location::endpoints to_try_;
    std::size_t tried_ = 0;
    bool accepted_ = false;
    clock::time_point connect_by_{};
    clock::duration share_{}; ///< of the time for connecting, for the present endpoint
    turn_timer timer_;
    clock::time_point late_at_{}; ///< when the timer rings
    clock::duration handshake_limit_{};
    std::string unresolved_; ///< why the look-up failed; the endpoints are from an older one
    bool unanswered_ = true; ///< no byte has come

    std::array<batch*, pipeline::max_in_flight> unwritten_{}; ///< the first is being written
    bool waits_for_room_ = false;
    error_code write_error_;

    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0; ///< bytes that have come and were not taken
};

} // namespace holdfast::redis

#endif
