#include "support/relay.hpp"

#include "support/io_thread.hpp"

#include <list>
#include <set>
#include <utility>

namespace holdfast::test {

class relay::engine {
public:
    engine()
        : listener_{net::listen_on(port_)} {
        thread_.start([this](std::vector<pollfd>& polled) { return prepare(polled); },
                      [this](pollfd const* polled) { handle(polled); });
    }
    ~engine() { thread_.stop(); }
    engine(engine const&) = delete;
    engine& operator=(engine const&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }

    template <class Change>
    void change(Change apply) {
        thread_.run([&] {
            apply(*this);
            connections_.remove_if([this](connection const& c) { return !wants(c.from); });
        });
    }

    // Settings: the thread's.
    std::uint16_t server_port = 0;
    bool all_are_out = false;
    std::set<std::string> out;

private:
    struct connection {
        std::string from;
        net::unique_fd client;
        net::unique_fd server;
        std::string to_client = {};
        std::string to_server = {};
    };

    [[nodiscard]] bool wants(std::string const& from) const {
        return server_port != 0 && !all_are_out && !out.contains(from);
    }

    int prepare(std::vector<pollfd>& polled) {
        polled.push_back({listener_.get(), POLLIN, 0});
        auto const events = [](std::string const& waiting) {
            return static_cast<short>(waiting.empty() ? POLLIN : POLLIN | POLLOUT);
        };
        for (connection const& c : connections_) {
            polled.push_back({c.client.get(), events(c.to_client), 0});
            polled.push_back({c.server.get(), events(c.to_server), 0});
        }
        return -1;
    }

    void handle(pollfd const* polled) {
        bool const incoming = (polled++)->revents != 0;
        connections_.remove_if([&](connection& c) {
            bool const client = (polled++)->revents != 0;
            bool const server = (polled++)->revents != 0;
            return (client && !read_some(c.client, c.to_server)) ||
                   (server && !read_some(c.server, c.to_client)) ||
                   !write_some(c.server, c.to_server) || !write_some(c.client, c.to_client);
        });
        if (incoming) accept_all();
    }

    void accept_all() {
        while (net::unique_fd client = net::accept_from(listener_)) {
            std::string const from = net::peer_of(client);
            if (!wants(from)) continue;
            net::unique_fd server = net::connect_to_port(server_port);
            if (server) connections_.push_back({from, std::move(client), std::move(server)});
        }
    }

    net::reserved_port const port_;
    net::unique_fd const listener_;
    std::list<connection> connections_;
    io_thread thread_;
};

relay::relay()
    : engine_{std::make_unique<engine>()} {}
relay::~relay() = default;

std::uint16_t relay::port() const noexcept {
    return engine_->port();
}

void relay::lead_to(std::uint16_t server_port) {
    engine_->change([&](engine& e) { e.server_port = server_port; });
}

void relay::shut_out(std::string const& address) {
    engine_->change([&](engine& e) { e.out.insert(address); });
}

void relay::shut_out_all() {
    engine_->change([](engine& e) { e.all_are_out = true; });
}

void relay::let_in_all() {
    engine_->change([](engine& e) {
        e.all_are_out = false;
        e.out.clear();
    });
}

} // namespace holdfast::test
