#include "command/inspect.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/key_call.hpp"
#include "command/output.hpp"
#include "command/report_text.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <iostream>

namespace holdfast::command {

namespace {

int code_of(key_state s) {
    switch (s) {
    case key_state::free:
        return key_free;
    case key_state::held:
    case key_state::revoked:
        return key_held;
    case key_state::split:
    case key_state::not_a_lock:
        return key_unusable;
    case key_state::unknown:
        break;
    }
    return key_unknown;
}

} // namespace

// The least certain of the keys decides.
int inspect(inspect_settings const& s) {
    auto const reports = inspect_now(s, s.keys);
    if (s.json) {
        for (auto const& r : reports) std::cout << boost::json::serialize(to_json(r)) << '\n';
    } else {
        print(reports, std::cout);
    }
    auto const failed = flush_output();
    if (failed != 0 && failed != EPIPE) return key_unknown;
    int code = key_free;
    for (auto const& r : reports) code = std::max(code, code_of(r.state));
    return code;
}

} // namespace holdfast::command
