#ifndef HOLDFAST_LIST_REPORT_HPP
#define HOLDFAST_LIST_REPORT_HPP

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace holdfast {

/// The limits of client::list().
struct list_options {
    /// The greatest value of `max_keys`.
    static constexpr std::size_t most_keys = 100'000;

    /// The most keys to list: 1 to most_keys. A key may have up to max_key_size bytes.
    std::size_t max_keys = 1'000;
    /// How long the call may take: 1 ms to 1 h.
    std::chrono::milliseconds time_limit{5'000};
};

/// How far one instance was scanned.
struct list_answer {
    std::string address;   ///< as configured, without credentials
    bool complete = false; ///< all its keys were seen
    std::string message{}; ///< the server's own, or why it was not scanned to the end
};

/// The keys that client::list() has found, and what it may have missed.
///
/// @par Thread safety  Distinct objects: safe.
struct list_report {
    /// Sorted by their bytes, each once, with client_options::key_prefix. client::inspect() and
    /// make_lock() take a key without that prefix.
    std::vector<std::string> keys{};
    bool complete = false; ///< every instance was scanned to the end
    /// list_options::max_keys was reached, and there are more keys.
    bool limited = false;
    std::vector<list_answer> instances{}; ///< in the order of the client's constructor
};

} // namespace holdfast

#endif
