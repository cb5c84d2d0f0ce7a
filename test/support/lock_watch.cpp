#include "support/lock_watch.hpp"

#include "support/server.hpp"

#include <algorithm>
#include <string_view>

namespace holdfast::test {

namespace {

bool is_fence_counter(std::string_view key) {
    return key.ends_with(":fence");
}

} // namespace

std::vector<std::string> lock_names(redis_cli& cli) {
    auto names = cli.keys();
    std::erase_if(names, [](std::string const& key) { return is_fence_counter(key); });
    return names;
}

lock_watch::lock_watch(server const& on)
    : address_{on.address()}
    , cli_{on} {
    if (cli_.command({"HELLO", "3"}).is_error() ||
        !cli_.command({"CLIENT", "TRACKING", "ON", "BCAST"}).is_ok())
        throw cli_error{on.address() + " does not report changes of its keys"};
    ask();
}

// Reports of changes that came before the reply are older than it.
void lock_watch::ask() {
    names_ = lock_names(cli_);
    (void)cli_.take_pushes();
}

bool lock_watch::none() {
    if (!names_.empty() && cli_.has_input(milliseconds{0})) ask();
    return names_.empty();
}

bool lock_watch::none_within(milliseconds limit) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    while (!names_.empty()) {
        auto const left =
            std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left <= milliseconds{0} || !cli_.has_input(left)) break;
        ask();
    }
    return names_.empty();
}

std::string lock_watch::describe() const {
    std::string text = address_ + " has";
    for (std::string const& name : names_) text += " \"" + name + '"';
    return text;
}

} // namespace holdfast::test
