// Spreads keys over several groups of instances, to grow beyond one group. Each group is a Redlock
// of its own. A key belongs to the group with the greatest hash of key and group (rendezvous
// hashing). So one group more takes over its share of the keys, and no other key moves.
//   groups a=10.0.0.1,10.0.0.2,10.0.0.3 b=10.0.1.1,10.0.1.2,10.0.1.3
//
// The names decide, and not the addresses: a server may be replaced, and a password be changed.
// To change the groups, stop all programs, wait for the longest ttl, and start them again.
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/hash2/xxhash.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace asio = boost::asio;

struct group {
    std::string name; ///< the same in all programs
    std::unique_ptr<holdfast::client> client;
};

std::uint64_t weight(std::string const& key, std::string const& group) {
    boost::hash2::xxhash_64 hash;
    hash.update(key.data(), key.size());
    hash.update("\0", 1);
    hash.update(group.data(), group.size());
    return hash.result();
}

group& group_of(std::vector<group>& all, std::string const& key) {
    return *std::max_element(all.begin(), all.end(), [&](group const& a, group const& b) {
        return weight(key, a.name) < weight(key, b.name);
    });
}

asio::awaitable<void> work(std::vector<group>& all) {
    for (int i = 0; i < 100; ++i) {
        auto const key = "seat:" + std::to_string(i);
        auto& mine = group_of(all, key);
        holdfast::lock const seat = mine.client->make_lock(key);
        holdfast::lease lease = co_await seat.acquire();
        std::cout << key << ' ' << mine.name << '\n';
        co_await lease.release();
    }
    for (auto& g : all) co_await g.client->shutdown();
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<group> all;
        for (int i = 1; i < argc; ++i) {
            std::string const argument = argv[i];
            auto const cut = argument.find('=');
            if (cut == argument.npos) throw std::invalid_argument("a group has no name: NAME=..");
            std::vector<holdfast::address> instances;
            std::istringstream list(argument.substr(cut + 1));
            for (std::string text; std::getline(list, text, ',');) instances.emplace_back(text);
            all.push_back({argument.substr(0, cut),
                           std::make_unique<holdfast::client>(context.get_executor(), instances)});
        }
        if (all.empty())
            throw std::invalid_argument("usage: groups NAME=HOST:PORT,.. [NAME=HOST:PORT,..]");
        asio::co_spawn(context, work(all), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context.run();
    } catch (std::exception const& e) {
        std::cerr << "groups: " << e.what() << '\n';
        return 1;
    }
}
