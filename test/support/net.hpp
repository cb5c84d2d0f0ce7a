// Loopback sockets for the test support, by plain POSIX. All are close-on-exec.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace holdfast::test::net {

// Owns a file descriptor.
class unique_fd {
public:
    unique_fd() = default;
    explicit unique_fd(int fd) noexcept
        : fd_{fd} {}
    unique_fd(unique_fd&& other) noexcept
        : fd_{std::exchange(other.fd_, -1)} {}
    unique_fd& operator=(unique_fd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~unique_fd() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    void reset() noexcept;

private:
    int fd_ = -1;
};

// A port of 127.0.0.1 that belongs to this process. Its socket is bound but does not listen, so
// connections are refused. The kernel does not give the port to a process that asks for a free one.
// But a server that binds this port with SO_REUSEADDR, as Redis, Valkey and listen_on() do, may
// listen on it. So no other process can take the port before its use, or between two runs of a
// server.
class reserved_port {
public:
    reserved_port();

    [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(number_); }

private:
    unique_fd socket_;
    std::uint16_t number_ = 0;
};

// A non-blocking listener on a reserved port.
[[nodiscard]] unique_fd listen_on(reserved_port const& port);

// Begins a non-blocking connection, which may still be in progress. Empty, with errno set, if it
// failed at once.
[[nodiscard]] unique_fd connect_to_port(std::uint16_t port);
[[nodiscard]] unique_fd connect_to_path(std::string const& path);

// Accepts a connection as non-blocking. Empty if there is none.
[[nodiscard]] unique_fd accept_from(unique_fd const& listener);

// The address of the other end, without the port. Empty if the connection is broken.
[[nodiscard]] std::string peer_of(unique_fd const& socket);

// Closes the connection with a reset.
void close_with_reset(unique_fd& socket) noexcept;

} // namespace holdfast::test::net
