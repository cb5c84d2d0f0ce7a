// Waits until a server has no locks. The server reports each change, so nothing polls.
#pragma once

#include "support/redis_cli.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace holdfast::test {

class server;

// Each key counts as a lock, except fence counters.
class lock_monitor {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit lock_monitor(server const& on);

    // True if the server has no lock. Asks the server again only after it has reported a change.
    [[nodiscard]] bool none();
    // The same, but waits for changes up to `limit`.
    [[nodiscard]] bool none_within(milliseconds limit);

    // The names of the remaining locks, or of some of them.
    [[nodiscard]] std::string describe();

private:
    void ask();

    std::string address_;
    redis_cli cli_;
    std::size_t left_ = 0;
};

// The names of the locks on a server, sorted.
[[nodiscard]] std::vector<std::string> lock_names(redis_cli& cli);

} // namespace holdfast::test
