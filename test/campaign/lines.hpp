// The lines between the client processes of a campaign and servers: a proxy for each pair.
#ifndef HOLDFAST_TEST_CAMPAIGN_LINES_HPP
#define HOLDFAST_TEST_CAMPAIGN_LINES_HPP

#include "support/proxy.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace holdfast::campaign {

class client_lines {
public:
    explicit client_lines(std::size_t clients)
        : all_(clients) {}

    void add(std::uint16_t server_port) { add(server_port, "127.0.0.1", server_port); }
    /// The clients know the server by this address.
    void add(std::uint16_t server_port, std::string const& address, std::uint16_t port) {
        for (auto& of_client : all_)
            of_client.push_back({address, port, std::make_unique<test::proxy>(server_port)});
    }
    std::size_t clients() const { return all_.size(); }
    std::size_t servers() const { return all_.front().size(); }
    test::proxy& between(std::size_t client, std::size_t server) {
        return *all_[client][server].by;
    }
    /// True if connections of all clients have come by them.
    bool are_used() const {
        return std::ranges::all_of(all_, [](auto const& of_client) {
            return of_client.empty() || std::ranges::any_of(of_client, [](line const& each) {
                       return each.by->accepted() > 0;
                   });
        });
    }
    /// Lines of a file, for use_network().
    std::string routes(std::size_t client) const {
        std::ostringstream text;
        for (auto const& each : all_[client])
            text << each.address << ' ' << each.port << ' ' << each.by->port() << '\n';
        return text.str();
    }

private:
    struct line {
        std::string address;
        std::uint16_t port;
        std::unique_ptr<test::proxy> by;
    };
    std::vector<std::vector<line>> all_;
};

} // namespace holdfast::campaign

#endif
