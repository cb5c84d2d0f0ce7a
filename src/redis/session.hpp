// One connection to an instance, from its address to its end. A session finds the address,
// connects, writes batches without waiting, and reads in one loop. It knows nothing of the meaning
// of the bytes.
#ifndef HOLDFAST_REDIS_SESSION_HPP
#define HOLDFAST_REDIS_SESSION_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "redis/instance.hpp"
#include "redis/pipeline.hpp"
#include "redis/resolver.hpp"
#include "redis/stream.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The address of an instance, and for a name the endpoints of its last successful look-up.
class location {
public:
    using endpoints = resolver::endpoints;
    /// Makes a stream that is not connected yet.
    using stream_factory = std::function<std::unique_ptr<stream>(asio::any_io_executor const&,
                                                                 address const&, endpoints)>;

    location(asio::any_io_executor const&, address const&, stream_factory);
    /// For tests: replaces the look-up.
    location(asio::any_io_executor const&, address const&, stream_factory,
             resolver::look_up_function);

    std::string name; ///< empty if the address is numeric, or a path
    resolver look_up;
    endpoints known;

    std::unique_ptr<stream> make_stream() const { return factory_(executor_, address_, known); }

private:
    void find_numeric();

    asio::any_io_executor executor_;
    address address_;
    stream_factory factory_;
};

/// TCP or a Unix socket, as the address says.
std::unique_ptr<stream> make_plain_stream(asio::any_io_executor const&, address const&,
                                          location::endpoints);

/// The functions are called within a turn.
class session_user {
public:
    /// The connection is made. Bytes can be written.
    virtual void on_connected() = 0;
    /// Removes complete replies from the front of `bytes`. The next call gets the rest again, with
    /// more bytes behind it.
    virtual void on_bytes(std::string_view& bytes) = 0;
    /// The connection is gone, or could not be made. Called once, but not after close().
    virtual void on_session_end(errc cause, std::string message) = 0;

protected:
    ~session_user() = default;
};

class session final : public stream_user, public std::enable_shared_from_this<session> {
public:
    session(asio::any_io_executor const&, location&, std::chrono::milliseconds connect_timeout,
            instance_owner&, session_user&);

    void start();
    /// Writes as much of the batch as possible now, and the rest later. The batch must stay where
    /// it is until it is written, or until close() is called.
    void write(batch&);
    /// The user gets no more calls, and may be destroyed.
    void close() noexcept;

private:
    void resolve();
    void on_resolved(error_code, location::endpoints);
    void connect();
    void limit_time(char const* message);
    template <class Work>
    void in_turn(Work);
    void end(errc cause, std::string message);
    void write_some();
    void read();
    void make_room();

    void on_connected(error_code) override;
    void on_read(error_code, std::size_t size) override;
    void on_writable(error_code) override;

    location& location_;
    std::chrono::milliseconds connect_timeout_;
    instance_owner& owner_;
    session_user* user_;
    std::unique_ptr<stream> stream_;
    asio::steady_timer timer_;
    unsigned limits_ = 0;    ///< limits set or lifted so far; handlers of older limits do nothing
    std::string unresolved_; ///< why the look-up failed; the endpoints are from an older one

    std::array<batch*, pipeline::max_in_flight> unwritten_{}; ///< the first is being written
    bool waits_for_room_ = false;
    error_code write_error_;

    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0; ///< bytes that have come and were not taken
};

} // namespace holdfast::redis

#endif
