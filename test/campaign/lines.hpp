// The lines between the client processes of a campaign and its servers: a proxy for each pair.
#ifndef HOLDFAST_TEST_CAMPAIGN_LINES_HPP
#define HOLDFAST_TEST_CAMPAIGN_LINES_HPP

#include "support/proxy.hpp"
#include "support/server.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::campaign {

class client_lines {
public:
    explicit client_lines(std::size_t clients)
        : all_(clients) {}

    void add(test::server const& to) {
        for (auto& of_client : all_) of_client.push_back(std::make_unique<test::proxy>(to));
    }
    std::size_t clients() const { return all_.size(); }
    std::size_t servers() const { return all_.front().size(); }
    /// The addresses for a client.
    std::vector<std::string> instances(std::size_t client) const {
        std::vector<std::string> urls;
        for (auto const& each : all_[client]) urls.push_back(each->url());
        return urls;
    }

    test::proxy& between(std::size_t client, std::size_t server) { return *all_[client][server]; }
    /// The client and this many of the servers, from `first` on.
    template <class Act>
    void each(std::size_t client, std::size_t first, std::size_t count, Act act) {
        for (std::size_t i = 0; i < count; ++i) act(between(client, (first + i) % servers()));
    }

private:
    std::vector<std::vector<std::unique_ptr<test::proxy>>> all_;
};

} // namespace holdfast::campaign

#endif
