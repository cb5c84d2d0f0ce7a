#include "support/lock_monitor.hpp"

#include "support/server.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace holdfast::test {

namespace {

bool is_fence_counter(std::string_view key) {
    return key.ends_with(":fence") || key.ends_with(":fences");
}

} // namespace

std::vector<std::string> lock_names(redis_cli& cli) {
    auto names = cli.keys();
    std::erase_if(names, [](std::string const& key) { return is_fence_counter(key); });
    return names;
}

lock_monitor::lock_monitor(server const& on)
    : address_{on.address()}
    , cli_{on} {
    if (cli_.command({"HELLO", "3"}).is_error() ||
        !cli_.command({"CLIENT", "TRACKING", "ON", "BCAST"}).is_ok())
        throw cli_error{on.address() + " does not report changes of its keys"};
    ask();
}

// Pushes from before the reply are outdated, so they are dropped. Listing the names of many keys
// would take long. A server with many keys certainly has locks.
void lock_monitor::ask() {
    constexpr std::size_t many = 100;
    left_ = static_cast<std::size_t>(cli_.dbsize());
    if (left_ > 0 && left_ <= many) left_ = lock_names(cli_).size();
    (void)cli_.take_pushes();
}

bool lock_monitor::none() {
    if (left_ > 0 && cli_.has_input(milliseconds{0})) ask();
    return left_ == 0;
}

bool lock_monitor::none_within(milliseconds limit) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    while (left_ > 0) {
        auto const left =
            std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left <= milliseconds{0} || !cli_.has_input(left)) break;
        ask();
    }
    return left_ == 0;
}

std::string lock_monitor::describe() {
    constexpr std::size_t some = 10;
    auto const names = left_ > 0 ? lock_names(cli_) : std::vector<std::string>{};
    std::string text = address_ + " has " + std::to_string(names.size()) + " locks";
    for (std::size_t i = 0; i < std::min(some, names.size()); ++i) text += " \"" + names[i] + '"';
    return text;
}

} // namespace holdfast::test
