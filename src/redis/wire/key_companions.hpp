// All that an instance has beside a key: the readers of a read-write lock, those who wait, and the
// permits of a semaphore. What the names are, see kinds/read_write_key.hpp and
// kinds/permit_key.hpp.
#ifndef HOLDFAST_REDIS_KEY_COMPANIONS_HPP
#define HOLDFAST_REDIS_KEY_COMPANIONS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The value of a key with permits in the answer to a survey: it has none itself. Of the form of a
/// token, so that it has a label and a digest as those have. No client draws this token.
inline constexpr std::string_view permits_value = "permits:00000000000000000000000000000000";

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

    struct permit {
        unsigned slot;
        std::string token;
        /// Empty if the server does not tell its time.
        std::optional<std::chrono::milliseconds> left;
    };
    bool has_permits = false; ///< the key is that of a semaphore
    /// Those that are alive and have the least slots, by slot, and no more than are reported.
    std::vector<permit> permits;
    std::uint64_t permit_count = 0; ///< of more than are reported, some may be dead

    std::string intent; ///< of the writer that waits; empty: there is none
    std::optional<std::chrono::milliseconds> intent_left;
    std::string turn; ///< of the readers: `wait` or `open`
    std::optional<std::chrono::milliseconds> turn_left;
};

} // namespace holdfast::redis

#endif
