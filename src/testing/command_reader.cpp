#include "testing/command_reader.hpp"

#include <charconv>
#include <cstdint>
#include <utility>

namespace holdfast::testing {

namespace {

/// Reads `type`, a count and the end of the line. Empty: the line is not complete.
std::optional<std::int64_t> take_count(std::string_view& bytes, char type, std::string_view what) {
    if (bytes.empty()) return std::nullopt;
    if (bytes.front() != type) {
        throw protocol_error(std::string("expected '") + type + "', got byte " +
                             std::to_string(static_cast<unsigned char>(bytes.front())));
    }
    constexpr std::size_t longest = 32;
    auto const end = bytes.substr(0, longest).find("\r\n");
    if (end == bytes.npos) {
        if (bytes.size() >= longest) throw protocol_error("invalid " + std::string(what));
        return std::nullopt;
    }
    std::int64_t n = 0;
    auto const digits = bytes.substr(1, end - 1);
    auto const read = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size())
        throw protocol_error("invalid " + std::string(what));
    bytes.remove_prefix(end + 2);
    return n;
}

} // namespace

std::optional<command_line> command_reader::next() {
    std::string_view rest = bytes_;
    auto const words = take_count(rest, '*', "multibulk length");
    if (!words) return std::nullopt;
    if (*words < 1 || *words > static_cast<std::int64_t>(max_words))
        throw protocol_error("invalid multibulk length");
    command_line command;
    for (auto left = *words; left > 0; --left) {
        auto const size = take_count(rest, '$', "bulk length");
        auto const most = max_size - (bytes_.size() - rest.size());
        if (bytes_.size() - rest.size() > max_size ||
            (size && (*size < 0 || static_cast<std::uint64_t>(*size) > most)))
            throw protocol_error("invalid bulk length");
        if (!size || rest.size() < static_cast<std::size_t>(*size) + 2) return std::nullopt;
        auto const length = static_cast<std::size_t>(*size);
        if (rest.substr(length, 2) != "\r\n") throw protocol_error("expected the end of a line");
        command.emplace_back(rest.substr(0, length));
        rest.remove_prefix(length + 2);
    }
    bytes_.erase(0, bytes_.size() - rest.size());
    return command;
}

} // namespace holdfast::testing
