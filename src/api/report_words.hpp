// Words that the reports about locks share.
#ifndef HOLDFAST_API_REPORT_WORDS_HPP
#define HOLDFAST_API_REPORT_WORDS_HPP

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace holdfast::detail {

/// For people: `1.5 ms`, `250 ms`, `8.1 s`, `12 min`, `3.5 h`, `2.0 d`.
std::string duration_words(std::chrono::nanoseconds);
/// `8.1 s left`; without a time, `never expires`.
std::string time_left_words(std::optional<std::chrono::milliseconds>);
/// `3 of 5 instances`
std::string instances_words(std::size_t some, std::size_t all);

} // namespace holdfast::detail

#endif
