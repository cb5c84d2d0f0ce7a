// The report on an acquire that failed: pure functions of the votes and of the instances' states.
#ifndef HOLDFAST_RUNTIME_REPORT_BUILDER_HPP
#define HOLDFAST_RUNTIME_REPORT_BUILDER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/error.hpp>

#include "protocol/instance_set.hpp"
#include "runtime/services/round_record.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// The state of an instance at the end of the acquire.
struct instance_snapshot {
    instance_status status;
    bool serves_key = true; ///< false: a Cluster is up, but its node for the key is not
    errc cause{}; ///< why the instance cannot be asked, or may not grant; errc{} if neither
    std::string message{}; ///< the cause in words; used only if needs_message()
};

/// The tenure of this client, if it has the key itself.
struct own_tenure {
    protocol::instance_set instances; ///< instances that may have its key
    std::chrono::milliseconds left{0};
};

struct report_input {
    std::string_view key;
    std::span<std::string_view const> keys{}; ///< of a lock on several keys
    std::string_view awaited{}; ///< the one of them that the round was for, if it was for one
    reported_call call = reported_call::acquire;
    bool reads = false;  ///< the acquire is a reader's
    bool adopts = false; ///< the acquire asks for a token that the instances should have
    unsigned attempts = 0;
    std::chrono::nanoseconds waited{0};
    protocol::instance_set asked; ///< instances that the try under way has asked
    std::optional<own_tenure> held_here{};
    round_record const& round;
    /// All instances, in the order of the client. Their texts are moved into the report.
    std::span<instance_snapshot> instances;
};

acquire_report build_report(report_input const&);

/// True if the report needs instance_snapshot::message of this instance.
bool needs_message(round_record const&, unsigned instance);

/// The error for a round without a quorum: the cause that all failed votes have in common, or
/// errc::no_quorum if their causes differ. `causes`: the reason why each instance cannot be asked.
errc common_cause(round_record const&, std::span<errc const> causes);

/// True if permanent errors rule out a quorum, even if the instances come back that are away for
/// now. `causes`: as for common_cause().
bool fails_permanently(round_record const&, std::span<errc const> causes);

/// True if an instance refused the command itself. That instance may accept a command without a
/// fence, because it needs no script.
bool refused_command(round_record const&);

} // namespace holdfast::runtime

#endif
