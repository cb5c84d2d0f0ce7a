// Several servers: independent failure domains for a quorum.
#pragma once

#include "support/server.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::test {

// Arguments of a server that writes nothing to disk, each command within a second, or each command
// before its reply.
inline std::vector<std::string> const no_log;
inline std::vector<std::string> const fsync_everysec{"--appendonly", "yes", "--appendfsync",
                                                     "everysec"};
inline std::vector<std::string> const fsync_always{"--appendonly", "yes", "--appendfsync",
                                                   "always"};

// Starts all servers at once and returns when every one answers.
class fleet {
public:
    explicit fleet(std::size_t size, server_options const& options = {})
        : fleet{std::vector<server_options>(size, options)} {}

    explicit fleet(std::vector<server_options> const& each) {
        for (server_options const& options : each)
            servers_.push_back(std::make_unique<server>(options, server::without_waiting{}));
        for (auto const& instance : servers_) instance->wait_ready();
    }

    [[nodiscard]] std::size_t size() const noexcept { return servers_.size(); }
    [[nodiscard]] std::size_t quorum() const noexcept { return servers_.size() / 2 + 1; }
    [[nodiscard]] server& operator[](std::size_t index) { return *servers_.at(index); }

    [[nodiscard]] std::vector<std::string> addresses() const {
        std::vector<std::string> all;
        for (auto const& instance : servers_) all.push_back(instance->address());
        return all;
    }
    // The addresses for the library, which comes as a user with the documented rights.
    [[nodiscard]] std::vector<std::string> urls() const {
        std::vector<std::string> all;
        for (auto const& each : servers_) all.push_back(each->url());
        return all;
    }
    // Without TLS in any case.
    [[nodiscard]] std::vector<std::string> plain_urls() const {
        std::vector<std::string> all;
        for (auto const& instance : servers_) all.push_back(access::url(instance->address()));
        return all;
    }
    // As programs take them.
    [[nodiscard]] std::string url_list() const {
        std::string all;
        for (auto const& instance : servers_) all += (all.empty() ? "" : ",") + instance->url();
        return all;
    }

    // The first `count` servers.
    void freeze(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) (*this)[i].freeze();
    }
    void kill(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) (*this)[i].kill();
    }

    void thaw_all() {
        for (auto const& instance : servers_) instance->thaw();
    }

    // for (server& one : fleet)
    class iterator {
    public:
        using inner = std::vector<std::unique_ptr<server>>::const_iterator;
        explicit iterator(inner at)
            : at_{at} {}
        server& operator*() const { return **at_; }
        iterator& operator++() {
            ++at_;
            return *this;
        }
        friend bool operator==(iterator const&, iterator const&) = default;

    private:
        inner at_;
    };
    [[nodiscard]] iterator begin() const { return iterator{servers_.begin()}; }
    [[nodiscard]] iterator end() const { return iterator{servers_.end()}; }

private:
    std::vector<std::unique_ptr<server>> servers_;
};

} // namespace holdfast::test
