#include "pings.hpp"

#include "process.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <iostream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>

namespace holdfast::bench {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

pinger::pinger(test::server const& server)
    : address_(server.address())
    , socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int const on = 1;
    timeval const patience{5, 0};
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0) // NOLINT
        fail_with(errno, "cannot connect to " + address_);
}

std::chrono::nanoseconds pinger::round_trip() const {
    constexpr std::string_view request = "*1\r\n$4\r\nPING\r\n";
    constexpr std::string_view answer = "+PONG\r\n";
    auto const sent = clock::now();
    if (::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
        fail_with(errno, address_ + ": send");
    std::array<char, answer.size()> got{};
    if (::recv(socket_.get(), got.data(), got.size(), MSG_WAITALL) !=
            static_cast<ssize_t>(got.size()) ||
        std::string_view(got.data(), got.size()) != answer)
        throw std::runtime_error(address_ + ": no PONG");
    return clock::now() - sent;
}

void ping_idle(test::fleet const& servers, latency& into) {
    for (auto const& server : servers) {
        pinger const p(server);
        for (int i = 0; i < 550; ++i) {
            auto const took = p.round_trip();
            if (i >= 50) into.record(took);
        }
    }
}

pings_meanwhile::pings_meanwhile(test::fleet const& servers) {
    for (auto const& server : servers) pingers_.emplace_back(server);
    thread_ = std::jthread([this](std::stop_token stop) {
        for (std::size_t i = 0; !stop.stop_requested(); ++i) {
            try {
                round_trips_.record(pingers_[i % pingers_.size()].round_trip());
            } catch (std::exception const& e) {
                std::cerr << "bench: " << e.what() << '\n';
                return;
            }
            std::this_thread::sleep_for(2ms);
        }
    });
}

latency const& pings_meanwhile::stop() {
    thread_.request_stop();
    thread_.join();
    return round_trips_;
}

} // namespace holdfast::bench
