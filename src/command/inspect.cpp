#include "command/inspect.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/output.hpp"
#include "command/report_text.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/json/serialize.hpp>

#include <cerrno>
#include <iostream>
#include <utility>

namespace holdfast::command {

namespace {

int code_of(key_state s) {
    switch (s) {
    case key_state::free:
        return key_free;
    case key_state::held:
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

int inspect(inspect_settings const& s) {
    boost::asio::io_context context(1);
    client locks(context.get_executor(), s.addresses(), s.options());
    error how;
    key_report report;
    locks.inspect(s.key, [&](error e, key_report r) {
        how = std::move(e);
        report = std::move(r);
        locks.close();
    });
    context.run();
    if (how) throw lock_error(how);
    if (s.json) {
        std::cout << boost::json::serialize(to_json(report)) << '\n';
    } else {
        print(report, std::cout);
    }
    auto const failed = flush_output();
    return failed == 0 || failed == EPIPE ? code_of(report.state) : key_unknown;
}

} // namespace holdfast::command
