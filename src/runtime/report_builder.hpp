// The report on an acquire that failed: pure functions of the votes and of the instances' states.
#ifndef HOLDFAST_RUNTIME_REPORT_BUILDER_HPP
#define HOLDFAST_RUNTIME_REPORT_BUILDER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/error.hpp>

#include "protocol/instance_set.hpp"
#include "runtime/round_record.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// An instance when the acquire ends.
struct instance_snapshot {
    instance_status status;
    errc cause{};          ///< why it cannot be asked, or may not grant; errc{} if neither
    std::string message{}; ///< the cause in words; used only where needs_message() says so
};

/// This client has the key itself.
struct own_tenure {
    protocol::instance_set instances; ///< that have the key for it
    std::chrono::milliseconds left{0};
};

struct report_input {
    std::string_view key;
    unsigned attempts = 0;
    std::chrono::nanoseconds waited{0};
    protocol::instance_set asked; ///< by the try that is under way
    std::optional<own_tenure> held_here{};
    round_record const& round;
    /// All of them, in the order of the client. Their texts are moved into the report.
    std::span<instance_snapshot> instances;
};

acquire_report build_report(report_input const&);

/// Whether a report needs to know in words why the instance cannot be asked.
bool needs_message(round_record const&, unsigned instance);

/// The error for a round without a quorum: the cause that all failed votes have in common, and
/// errc::no_quorum where there is no such cause. `causes`: why each instance cannot be asked.
errc common_cause(round_record const&, std::span<errc const> causes);

/// Whether an instance refused the command itself. A command without a fence may fare better there:
/// it needs no script.
bool refused_command(round_record const&);

} // namespace holdfast::runtime

#endif
