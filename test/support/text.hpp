// Helpers for text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::test {

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

[[nodiscard]] inline std::string repeated(std::size_t times, std::string_view text) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

} // namespace holdfast::test
