// The findings of `doctor`, as a function of what a client knows of its instances.
#ifndef HOLDFAST_COMMAND_DIAGNOSIS_HPP
#define HOLDFAST_COMMAND_DIAGNOSIS_HPP

#include <holdfast/client_stats.hpp>

#include <chrono>
#include <cstdint>
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

/// The lock that `doctor` tried.
struct trial {
    bool made = false;
    std::string failure{}; ///< empty: acquired, extended and released
};

/// In the order in which an operator should read them: faults first.
std::vector<finding> diagnose(std::vector<instance_status> const&, trial const&,
                              std::chrono::milliseconds ttl);

} // namespace holdfast::command

#endif
