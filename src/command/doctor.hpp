// holdfast doctor: what is wrong or risky with the instances.
#ifndef HOLDFAST_COMMAND_DOCTOR_HPP
#define HOLDFAST_COMMAND_DOCTOR_HPP

#include "command/settings.hpp"

#include <cstdint>
#include <string>

namespace holdfast::command {

struct doctor_settings : settings {
    std::string key = "holdfast-doctor";
    std::int64_t ttl_ms = 10'000; ///< of the program's locks, for the round trips
    bool writes = true;           ///< takes a lock on `key`, and releases it
    bool json = false;
    bool drills = false; ///< drill.hpp
};

/// Prints the findings. Returns the exit code.
int doctor(doctor_settings const&);

} // namespace holdfast::command

#endif
