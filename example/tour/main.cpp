// The older ways to lock with Redis: each is driven into its hazard on real servers, and then the
// same schedule is played with holdfast. The program starts the servers itself.
//   tour            tells all stories
//   tour NAME..     tells these; tour --list has the names
//
// The server, redis-server or valkey-server, is that of HOLDFAST_SERVERS_DIR (build/deps/servers
// after tools/setup), of HOLDFAST_REDIS_SERVER, or of PATH.
#include "tour/participant.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// For the story of clocks that differ: this process is a client with another wall clock.
int try_once(std::string const& url, std::string const& key) {
    std::ostringstream unread;
    tour::journal silent(unread);
    tour::participant client(silent, {}, "B", {url});
    client.connect();
    auto const [e, held] = client.try_acquire(key, {.ttl = tour::long_ttl});
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    std::cout << now / std::chrono::milliseconds(1) << ' '
              << (e == holdfast::errc::contended ? "contended"
                  : e                            ? e.what()
                                                 : "granted")
              << '\n';
    return 0;
}

std::vector<tour::row> chosen(std::vector<std::string> const& names) {
    auto const all = tour::rows();
    if (names.empty()) return {all.begin(), all.end()};
    std::vector<tour::row> some;
    for (auto const& name : names) {
        auto const found =
            std::find_if(all.begin(), all.end(), [&](auto const& r) { return r.name == name; });
        if (found == all.end())
            throw std::invalid_argument("there is no story \"" + name + "\"; see tour --list");
        some.push_back(*found);
    }
    return some;
}

int show_rows(std::vector<std::string> const& names, std::string const& program) {
    std::vector<std::string> unexpected;
    for (auto const& row : chosen(names)) {
        tour::journal story(std::cout);
        story.title(row.title);
        row.show(story, {program});
        for (auto const& fact : story.facts()) {
            if (!fact.seen) unexpected.push_back(std::string(row.name) + ": " + fact.text);
        }
    }
    for (auto const& text : unexpected) std::cerr << "tour: not as expected: " << text << '\n';
    return unexpected.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    try {
        std::vector<std::string> const arguments(argv + 1, argv + argc);
        if (arguments.size() == 3 && arguments[0] == "--try")
            return try_once(arguments[1], arguments[2]);
        if (arguments == std::vector<std::string>{"--list"}) {
            for (auto const& row : tour::rows()) std::cout << row.name << '\n';
            return 0;
        }
        return show_rows(arguments, std::filesystem::read_symlink("/proc/self/exe").string());
    } catch (std::invalid_argument const& e) {
        std::cerr << "tour: " << e.what() << '\n';
        return 2;
    } catch (std::exception const& e) {
        std::cerr << "tour: " << e.what() << '\n';
        return 1;
    }
}
