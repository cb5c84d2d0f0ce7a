#include "command/keys.hpp"

#include "command/table.hpp"

#include <algorithm>
#include <cstddef>

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

holdfast::lock key_settings::make_lock(client const& c, lock_options const& o) const {
    return keys.size() == 1 ? c.make_lock(keys.front(), o) : c.make_multi_lock(keys, o);
}

} // namespace holdfast::command
