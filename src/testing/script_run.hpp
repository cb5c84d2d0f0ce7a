// A script while it runs: its keys and arguments, and the commands that it calls. The parts that
// several scripts share.
#ifndef HOLDFAST_TESTING_SCRIPT_RUN_HPP
#define HOLDFAST_TESTING_SCRIPT_RUN_HPP

#include "testing/command_reader.hpp"
#include "testing/data_commands.hpp"
#include "testing/database.hpp"
#include "testing/reply.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::testing {

/// Ends a script with an error.
struct script_failure {
    std::string text;
};

class script_run {
public:
    script_run(database& d, command_line keys, command_line arguments,
               std::function<void(std::string const&)> on_read)
        : database_(d)
        , keys_(std::move(keys))
        , arguments_(std::move(arguments))
        , on_read_(std::move(on_read)) {}

    // From 1, as in the scripts.
    std::string const& key(std::size_t i) const { return keys_[i - 1]; }
    std::string const& last_key() const { return keys_.back(); }
    std::string& argument(std::size_t i) { return arguments_[i - 1]; }
    std::size_t key_count() const { return keys_.size(); }
    /// Empty: there is no such argument.
    std::optional<std::string> optional_argument(std::size_t i) const {
        return i <= arguments_.size() ? std::optional(arguments_[i - 1]) : std::nullopt;
    }
    /// 0: the last one; 1: the one before it.
    std::string& from_last(std::size_t i) { return arguments_[arguments_.size() - 1 - i]; }

    /// redis.pcall
    reply try_call(command_line const& words) {
        auto r = run_data_command(database_, words).value();
        if (find_data_command(words.front())->reads) on_read_(words[1]);
        return r;
    }
    /// redis.call
    reply call(command_line const& words) {
        auto r = try_call(words);
        if (r.is_error()) throw script_failure{r.text};
        return r;
    }

private:
    database& database_;
    command_line keys_, arguments_;
    std::function<void(std::string const&)> on_read_;
};

inline bool equals(reply const& r, std::string_view text) {
    return r.type == reply::kind::bulk && r.text == text;
}

inline bool is_tombstone(reply const& r) {
    return r.type == reply::kind::bulk && r.text.starts_with("revoked@");
}

/// What a script shows of a tombstone: as many bytes as a token has.
inline reply show(reply const& tombstone) {
    return reply::bulk(tombstone.text.substr(0, 64));
}

inline bool is_other_error(reply const& r) {
    return r.is_error() && r.text.find("WRONGTYPE") == r.text.npos;
}

/// The number in a text with which a script calculates.
double number_in(std::string const& text);

/// The server's clock.
struct clock_reading {
    explicit clock_reading(script_run&);
    double seconds, now; ///< `now` in ms
};

/// The number in a counter. Empty if no fence can follow it. `c` is no error but WRONGTYPE.
std::optional<double> count_in(reply const& c);
reply no_fence(std::string const& counter);

/// False if the counter had the number already, or a greater one.
bool raise_counter(script_run&, std::string const& counter);
/// fenced_acquire_script
reply acquire_with_fence(script_run&);
/// Sets the key, which is free.
reply take(script_run&);

} // namespace holdfast::testing

#endif
