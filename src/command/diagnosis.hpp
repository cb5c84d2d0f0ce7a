// The findings of `doctor`, as a function of what a client knows of its instances.
#ifndef HOLDFAST_COMMAND_DIAGNOSIS_HPP
#define HOLDFAST_COMMAND_DIAGNOSIS_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::command {

enum class severity : std::uint8_t {
    note,
    warning, ///< works, with a risk
    fault,   ///< does not work
};
char const* to_string(severity) noexcept;

struct finding {
    severity level{};
    std::string about; ///< an instance's address; empty: all of them
    std::string text;  ///< plain words
    std::string advice{};
};

/// A lock that `doctor` tried, and did not get, extend or release.
struct failed_trial {
    std::string address; ///< of one instance alone; empty: on all of them
    std::string failure;
};

/// In the order in which an operator should read them: faults first.
std::vector<finding> diagnose(std::vector<instance_status> const&, std::vector<failed_trial> const&,
                              std::chrono::milliseconds ttl);

/// After a try that found too few votes: when another one may find more. In the past if enough
/// instances have got their votes back since. Empty if waiting is of no use.
std::optional<lease_clock::time_point> next_vote(std::vector<instance_status> const&,
                                                 lease_clock::time_point now);

} // namespace holdfast::command

#endif
