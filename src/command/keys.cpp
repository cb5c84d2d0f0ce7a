#include "command/keys.hpp"

#include "command/table.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace holdfast::command {

// One option that took several words would take a key such as [a,b] apart.
void key_settings::add_keys_to(CLI::App& app, std::string const& text) {
    auto const add = [this](std::string const& key) {
        if (std::ranges::count(keys, key) != 0)
            throw CLI::ValidationError("KEY", '"' + printable(key) + "\" is given twice");
        if (keys.size() == max_lock_keys) {
            throw CLI::ValidationError("KEY", "more than " + std::to_string(max_lock_keys) +
                                                  " keys are given");
        }
        keys.push_back(key);
    };
    for (std::size_t i = 1; i <= max_lock_keys + 1; ++i) {
        auto* const option = app.add_option_function<std::string>(
            i == 1 ? "key" : "key" + std::to_string(i), add, text);
        if (i == 1) {
            option->required();
        } else {
            option->group(""); // not in the help
        }
    }
}

std::string joined(std::vector<std::string> const& keys) {
    std::string all;
    for (auto const& key : keys) all += (all.empty() ? "" : " ") + key;
    return all;
}

void key_settings::add_access_to(CLI::App& app) {
    auto const add = [&](std::string const& name, lock_access which, std::string const& text) {
        return app.add_flag_callback(
            name, [this, which] { access = which; }, text);
    };
    auto* const read = add("--read", lock_access::read, "Share the lock with others who read");
    auto* const write =
        add("--write", lock_access::write, "Have the lock alone, among others who read and write")
            ->excludes(read);
    app.add_option_function<unsigned>(
           "--permits",
           [this](unsigned count) {
               permits = count;
               access = lock_access::permit;
           },
           "Have one of so many permits, which as many others may have")
        ->check(CLI::Range(1U, max_permits))
        ->excludes(read)
        ->excludes(write);
}

void key_settings::check_access() const {
    if (access != lock_access::exclusive && keys.size() > 1)
        throw std::runtime_error("--read, --write and --permits are for one key");
}

holdfast::lock key_settings::make_lock(client const& c, lock_options const& o) const {
    if (access == lock_access::permit) return c.make_semaphore(keys.front(), permits, o);
    if (access != lock_access::exclusive) {
        auto const both = c.make_read_write_lock(keys.front(), o);
        return access == lock_access::read ? both.read() : both.write();
    }
    return keys.size() == 1 ? c.make_lock(keys.front(), o) : c.make_multi_lock(keys, o);
}

} // namespace holdfast::command
