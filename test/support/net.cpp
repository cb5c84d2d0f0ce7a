#include "support/net.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

namespace holdfast::test::net {

namespace {

[[noreturn]] void fail(char const* context) {
    throw std::system_error{errno, std::generic_category(), context};
}

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

void set_flag(unique_fd const& socket, int level, int option) {
    int const on = 1;
    if (::setsockopt(socket.get(), level, option, &on, sizeof on) != 0) fail("setsockopt");
}

unique_fd bound_socket(std::uint16_t port) {
    unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) fail("socket");
    set_flag(socket, SOL_SOCKET, SO_REUSEADDR);
    const sockaddr_in address = loopback(port);
    if (::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        fail("bind");
    return socket;
}

unique_fd connect_socket(unique_fd socket, sockaddr const* address, socklen_t size) {
    if (!socket) return {};
    if (::connect(socket.get(), address, size) != 0 && errno != EINPROGRESS) {
        int const error = errno;
        socket.reset();
        errno = error;
    }
    return socket;
}

} // namespace

void unique_fd::reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

reserved_port::reserved_port()
    : socket_{bound_socket(0)} {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        fail("getsockname");
    number_ = ntohs(address.sin_port);
}

unique_fd listen_on(reserved_port const& port) {
    unique_fd socket = bound_socket(port.number());
    if (::listen(socket.get(), 512) != 0) fail("listen");
    return socket;
}

unique_fd connect_to_port(std::uint16_t port) {
    unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) fail("socket");
    set_flag(socket, IPPROTO_TCP, TCP_NODELAY);
    const sockaddr_in address = loopback(port);
    return connect_socket(std::move(socket), reinterpret_cast<sockaddr const*>(&address),
                          sizeof address);
}

unique_fd connect_to_path(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        fail("the path of a unix socket");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    unique_fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) fail("socket");
    return connect_socket(std::move(socket), reinterpret_cast<sockaddr const*>(&address),
                          sizeof address);
}

unique_fd accept_from(unique_fd const& listener) {
    unique_fd socket{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
        int const on = 1;
        ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return socket;
}

std::string peer_of(unique_fd const& socket) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return {};
    char text[INET_ADDRSTRLEN];
    auto const* const shown = ::inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
    return shown == nullptr ? std::string{} : std::string{shown};
}

void close_with_reset(unique_fd& socket) noexcept {
    if (!socket) return;
    const linger now{1, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket.reset();
}

} // namespace holdfast::test::net
