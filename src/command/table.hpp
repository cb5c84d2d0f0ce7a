// Columns of text for people.
#ifndef HOLDFAST_COMMAND_TABLE_HPP
#define HOLDFAST_COMMAND_TABLE_HPP

#include <chrono>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::command {

class table {
public:
    using row = std::vector<std::string>;

    explicit table(row heads)
        : rows_{std::move(heads)} {}
    void add(row r) { rows_.push_back(std::move(r)); }
    /// Each column is as wide as its widest cell.
    void print(std::ostream&) const;

private:
    std::vector<row> rows_;
};

/// `4.5 ms`, `12.3 s`, `48 min`, `19.9 h` or `2.0 d`.
std::string duration_text(std::chrono::nanoseconds);
/// In UTC, as RFC 3339 has it.
std::string time_text(std::chrono::system_clock::time_point);
/// The same, with milliseconds.
std::string precise_time_text(std::chrono::system_clock::time_point);
/// One line of printable text, whatever bytes a key or a message has.
std::string printable(std::string_view);

} // namespace holdfast::command

#endif
