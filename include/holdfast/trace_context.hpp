#ifndef HOLDFAST_TRACE_CONTEXT_HPP
#define HOLDFAST_TRACE_CONTEXT_HPP

#include <holdfast/detail/api.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// The trace that a call belongs to, as W3C Trace Context has it
/// (https://www.w3.org/TR/trace-context/). A program gives it with lock_options::trace, and the
/// events of the lock carry it to the observer. The library does nothing else with it, and sends it
/// to no server. Trivially destructible, like the options that hold it.
struct HOLDFAST_API trace_context {
    std::array<std::uint8_t, 16> trace_id{}; ///< all zero: there is no trace
    std::array<std::uint8_t, 8> parent_id{}; ///< the span of the caller
    std::uint8_t flags = 0;                  ///< bit 0: sampled

    /// True if there is a trace.
    explicit operator bool() const noexcept { return trace_id != std::array<std::uint8_t, 16>{}; }

    /// Parses the header `traceparent`, for example
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. Empty if the text is not one, or
    /// if an id is all zero. A later version than 00 is read as the standard asks: by its first
    /// four fields.
    static std::optional<trace_context> parse(std::string_view traceparent) noexcept;
    /// The header `traceparent`, of version 00.
    std::string to_string() const;

    /// Whether all members are equal.
    friend bool operator==(trace_context const&, trace_context const&) noexcept = default;
};

} // namespace holdfast

#endif
