#include "command/key_call.hpp"

#include "command/exit_code.hpp"
#include "command/report_text.hpp"

#include <iostream>

namespace holdfast::command {

key_report inspect_now(settings const& s, std::string const& key) {
    auto r = ask(s, [&](client& c, auto handler) { c.inspect(key, std::move(handler)); });
    if (r.how) throw lock_error(r.how);
    return std::move(r.report);
}

int explain_loss(settings const& s, std::string const& key, std::string const& done) {
    auto const now = inspect_now(s, key);
    print(now, std::cout);
    switch (now.state) {
    case key_state::free:
        std::cerr << "holdfast: the lock was free; nothing was " << done << '\n';
        return was_free;
    case key_state::unknown:
        std::cerr << "holdfast: too few instances tell who has the lock\n";
        return undetermined;
    default:
        std::cerr << "holdfast: the lock has another token; nothing was " << done << '\n';
        return held_by_another;
    }
}

} // namespace holdfast::command
