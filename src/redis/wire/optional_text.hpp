// Texts that explain a state. The state counts without them.
#ifndef HOLDFAST_REDIS_OPTIONAL_TEXT_HPP
#define HOLDFAST_REDIS_OPTIONAL_TEXT_HPP

#include <string>

namespace holdfast::redis {

/// The text that `words` makes; empty if it throws, which means that memory ran out.
template <class Words>
std::string text_if_memory(Words&& words) noexcept {
    try {
        return std::string(words());
    } catch (...) {
        return {};
    }
}

} // namespace holdfast::redis

#endif
