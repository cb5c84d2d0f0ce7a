// Texts that explain a state. The state counts without them.
#ifndef HOLDFAST_REDIS_OPTIONAL_TEXT_HPP
#define HOLDFAST_REDIS_OPTIONAL_TEXT_HPP

#include <new>
#include <string>

namespace holdfast::redis {

/// The text that `words` makes; empty if memory runs out.
template <class Words>
std::string text_if_memory(Words&& words) noexcept {
    try {
        return std::string(words());
    } catch (std::bad_alloc const&) {
        return {};
    }
}

} // namespace holdfast::redis

#endif
