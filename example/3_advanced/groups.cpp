// Spreads keys over several groups of instances, to grow beyond one group:
//   groups a=10.0.0.1,10.0.0.2,10.0.0.3 b=10.0.1.1,10.0.1.2,10.0.1.3
#include <holdfast/client_groups.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;

asio::awaitable<void> work(holdfast::client_groups& groups) {
    for (int i = 0; i < 100; ++i) {
        auto const key = "seat:" + std::to_string(i);
        holdfast::lock const seat = groups.make_lock(key);
        holdfast::lease lease = co_await seat.acquire();
        std::cout << key << ' ' << groups.group_of(key) << '\n';
        co_await lease.release();
    }
    for (auto& client : groups.clients()) co_await client.shutdown();
}

int main(int argc, char** argv) {
    try {
        asio::io_context context;
        std::vector<holdfast::client_group> described;
        for (int i = 1; i < argc; ++i) {
            std::string const argument = argv[i];
            auto const cut = argument.find('=');
            if (cut == argument.npos) throw std::invalid_argument("a group has no name: NAME=..");
            std::vector<holdfast::address> instances;
            std::istringstream list(argument.substr(cut + 1));
            for (std::string text; std::getline(list, text, ',');) instances.emplace_back(text);
            described.push_back({argument.substr(0, cut), instances});
        }
        if (described.empty())
            throw std::invalid_argument("usage: groups NAME=HOST:PORT,.. [NAME=HOST:PORT,..]");
        holdfast::client_groups groups(context.get_executor(), described);
        asio::co_spawn(context, work(groups), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context.run();
    } catch (std::exception const& e) {
        std::cerr << "groups: " << e.what() << '\n';
        return 1;
    }
}
