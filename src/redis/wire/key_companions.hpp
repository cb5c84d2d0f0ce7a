// All that an instance has beside a key: the readers of a read-write lock, and those who wait. What
// the names are, see kinds/read_write_key.hpp.
#ifndef HOLDFAST_REDIS_KEY_COMPANIONS_HPP
#define HOLDFAST_REDIS_KEY_COMPANIONS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::redis {

struct key_companions {
    struct reader {
        std::string token;
        /// Empty if the server does not tell its time.
        std::optional<std::chrono::milliseconds> left;
    };
    bool has_readers = false; ///< the key says so
    /// Those that are alive and last longest, the longest first, and no more than are reported.
    std::vector<reader> readers;
    std::uint64_t reader_count = 0; ///< of more than are reported, some may be dead
    bool has_set = false;           ///< the server has the set of the readers, and tells of it
    std::string problem;            ///< why it has not, or does not

    std::string intent; ///< of the writer that waits; empty: there is none
    std::optional<std::chrono::milliseconds> intent_left;
    std::string turn; ///< of the readers: `wait` or `open`
    std::optional<std::chrono::milliseconds> turn_left;
};

} // namespace holdfast::redis

#endif
