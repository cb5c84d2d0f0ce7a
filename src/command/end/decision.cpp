#include "command/end/decision.hpp"

#include "command/report_text.hpp"
#include "command/table.hpp"

#include <chrono>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <syslog.h>
#include <unistd.h>

namespace holdfast::command {

bool has_terminal() {
    return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
}

bool is_typed(std::string const& key) {
    std::string typed;
    std::getline(std::cin, typed);
    return !typed.empty() && (typed == key || typed == printable(key));
}

void log_decision(std::string_view event, key_report const& seen, std::string_view token,
                  std::string_view outcome) {
    std::ostringstream text;
    text << "event=" << event << " key=" << std::quoted(printable(seen.key))
         << " outcome=" << outcome << " state=" << underscored(to_string(seen.state))
         << " holder=" << std::quoted(printable(holder_of(seen)))
         << " token=" << std::quoted(std::string(token)) << " fence=" << seen.fence
         << " uid=" << ::getuid();
    auto const line = text.str();
    std::cerr << "time=" << precise_time_text(std::chrono::system_clock::now()) << ' ' << line
              << '\n';
    ::openlog("holdfast", LOG_PID, LOG_USER);
    ::syslog(LOG_WARNING, "%s", line.c_str());
    ::closelog();
}

} // namespace holdfast::command
