// The connection of a client that locks in an older way.
#ifndef HOLDFAST_TOUR_WIRE_HPP
#define HOLDFAST_TOUR_WIRE_HPP

#include "support/redis_cli.hpp"
#include "tour/journal.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace tour {

/// The process of the client ended here.
struct crashed {};

/// Sends commands and records them. A story stops the client before a command, so that its schedule
/// needs no luck.
class wire {
public:
    using milliseconds = std::chrono::milliseconds;

    wire(journal& to, std::string client, std::uint16_t port,
         milliseconds timeout = std::chrono::seconds(10), std::string password = {});

    /// Throws holdfast::test::cli_error if there is no answer.
    reply send(command_line const& words);

    /// The next command of this name waits until `meanwhile` has ended.
    void pause_before(std::string const& command, std::function<void()> meanwhile);
    /// Instead of the next command of this name, the process ends: `send` throws `crashed`.
    void crash_before(std::string const& command);

private:
    journal& journal_;
    std::string client_;
    holdfast::test::redis_cli cli_;
    std::map<std::string, std::function<void()>> stops_;
};

} // namespace tour

#endif
