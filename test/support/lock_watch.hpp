// Waits until a server has no locks. The server reports each change, so there is no polling.
#pragma once

#include "support/redis_cli.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace holdfast::test {

class server;

// A lock is every key that is not the counter of a fence.
class lock_watch {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit lock_watch(server const& on);

    // True if the server has no lock. Asks the server again only after it has reported a change.
    [[nodiscard]] bool none();
    // The same, but waits for the changes.
    [[nodiscard]] bool none_within(milliseconds limit);

    // Names the locks that are left, or some of them.
    [[nodiscard]] std::string describe();

private:
    void ask();

    std::string address_;
    redis_cli cli_;
    std::size_t left_ = 0;
};

// The names of the locks that a server has now, sorted.
[[nodiscard]] std::vector<std::string> lock_names(redis_cli& cli);

} // namespace holdfast::test
