// The stage of the rows that need several servers.
#ifndef HOLDFAST_TOUR_SEVERAL_SERVERS_HPP
#define HOLDFAST_TOUR_SEVERAL_SERVERS_HPP

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "tour/command_log.hpp"
#include "tour/journal.hpp"
#include "tour/participant.hpp"
#include "tour/single_server.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tour {

struct several_servers {
    several_servers(journal& to, std::size_t instances)
        : story(to)
        , servers(instances) {
        using holdfast::test::redis_cli;
        for (auto& instance : servers) {
            auto const place = " to " + std::to_string(owned.size());
            owned.push_back(std::make_unique<command_log>(redis_cli(instance), redis_cli(instance),
                                                          seat, place));
            logs.push_back(owned.back().get());
            ports.push_back(instance.port());
            urls.push_back(instance.url());
        }
    }
    void clear() {
        for (auto& instance : servers) {
            if (instance.running()) holdfast::test::redis_cli(instance).del(seat);
        }
    }
    /// The values of the key, each once.
    std::set<std::string> values() {
        std::set<std::string> all;
        for (auto& instance : servers)
            all.insert(holdfast::test::redis_cli(instance).get(seat).value_or("no key"));
        return all;
    }
    bool is_free() { return values() == std::set<std::string>{"no key"}; }
    participant client(std::string name) {
        return {story, logs, std::move(name), {urls.begin(), urls.end()}, {}};
    }

    journal& story;
    holdfast::test::fleet servers;
    std::vector<std::uint16_t> ports{};
    std::vector<std::string> urls{};
    std::vector<std::unique_ptr<command_log>> owned{};
    std::vector<command_log*> logs{};
};

} // namespace tour

#endif
