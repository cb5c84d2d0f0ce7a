#include "command/key_call.hpp"

#include "command/exit_code.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

namespace holdfast::command {

std::vector<key_report> inspect_now(settings const& s, std::vector<std::string> const& keys) {
    auto all = ask_each(s, keys, [](client& c, std::string const& key, auto handler) {
        c.inspect(key, std::move(handler));
    });
    std::vector<key_report> reports;
    for (auto& each : all) {
        if (each.how) throw lock_error(each.how);
        reports.push_back(std::move(each.report));
    }
    return reports;
}

int explain_loss(key_settings const& s, std::vector<std::string> const& keys,
                 std::string const& done) {
    auto const now = inspect_now(s, keys);
    auto const count = [&](key_state which) {
        return std::ranges::count(now, which, &key_report::state);
    };
    print(now, std::cout);
    if (count(key_state::unknown) != 0) {
        std::cerr << "holdfast: too few instances tell who has the lock\n";
        return undetermined;
    }
    auto const free = count(key_state::free) == std::ssize(now);
    if (s.keys.size() > 1) {
        std::cerr << "holdfast: not " << done << ", because "
                  << (free ? "free: " : "not all have this token: ") << printable(joined(keys))
                  << '\n';
    } else {
        auto const& found = now.front();
        auto const hint = found.shared() && s.access != lock_access::read
                              ? "; for the token of a reader, give --read"
                          : found.counted() && s.access != lock_access::permit
                              ? "; for the token of a permit, give --permits"
                              : "";
        std::cerr << "holdfast: the lock " << (free ? "was free" : "has another token")
                  << "; nothing was " << done << hint << '\n';
    }
    return free ? was_free : held_by_another;
}

} // namespace holdfast::command
