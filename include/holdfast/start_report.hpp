#ifndef HOLDFAST_START_REPORT_HPP
#define HOLDFAST_START_REPORT_HPP

#include <holdfast/detail/api.hpp>

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>

namespace holdfast {

/// What at_most_every() found and did.
struct HOLDFAST_API start_report {
    std::string key;  ///< of the lock, with the client's prefix
    bool ran = false; ///< the body ran, to its end
    /// It did not, as another client has the lock now: that one runs the body, looks whether it is
    /// due, or waits for the end of an interval that is nearly over.
    bool running = false;
    /// Who began the last run: its client_options::holder_label. Empty if that client has none, or
    /// if it is not known.
    std::string holder{};
    /// How long ago the last run began, by the interval of this call. Empty if it is not known.
    std::optional<std::chrono::milliseconds> since{};
    /// The time until the next run is due. Empty if it is not known.
    std::optional<std::chrono::milliseconds> due{};

    /// One line: `cleanup: began 12 min ago at web-2, due in 48 min`.
    std::string to_string() const;
};

/// As start_report::to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, start_report const&);

} // namespace holdfast

#endif
