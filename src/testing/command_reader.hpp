// Finds the commands in the bytes of a client. The bytes may be anything, and the memory for them
// is bounded.
#ifndef HOLDFAST_TESTING_COMMAND_READER_HPP
#define HOLDFAST_TESTING_COMMAND_READER_HPP

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::testing {

/// The name of a command, and its arguments.
using command_line = std::vector<std::string>;

/// The bytes are no command. The connection must end.
struct protocol_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class command_reader {
public:
    /// The longest command in bytes, and the most words of one. The library's own are shorter by
    /// far: its scripts have about 2 KB.
    static constexpr std::size_t max_size = std::size_t{1} << 20U;
    static constexpr std::size_t max_words = 1'024;

    void feed(std::string_view bytes) { bytes_ += bytes; }
    /// The next complete command; empty if there is none yet.
    /// @throws protocol_error
    std::optional<command_line> next();

private:
    std::string bytes_;
};

} // namespace holdfast::testing

#endif
