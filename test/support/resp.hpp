// RESP2 and RESP3 for the tests. redis_cli and the fake servers must not share code with the
// library or with Boost.Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::test {

using command_line = std::vector<std::string>;

// A reply of a server. Simple and bulk strings, doubles and big numbers become strings, booleans
// integers, maps and sets flat arrays.
struct reply {
    struct nil_value {
        friend bool operator==(nil_value, nil_value) = default;
    };
    struct error_value {
        std::string message;
        friend bool operator==(error_value const&, error_value const&) = default;
    };
    using array = std::vector<reply>;

    std::variant<nil_value, std::int64_t, std::string, error_value, array> value;
    bool push = false; // an RESP3 push: not the answer to a command

    [[nodiscard]] bool is_nil() const { return std::holds_alternative<nil_value>(value); }
    [[nodiscard]] bool is_integer() const { return std::holds_alternative<std::int64_t>(value); }
    [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(value); }
    [[nodiscard]] bool is_error() const { return std::holds_alternative<error_value>(value); }
    [[nodiscard]] bool is_array() const { return std::holds_alternative<array>(value); }
    [[nodiscard]] bool is_ok() const { return is_string() && std::get<std::string>(value) == "OK"; }

    // These throw std::runtime_error, with the printed reply, if the reply has another type.
    [[nodiscard]] std::int64_t integer() const;
    [[nodiscard]] std::string const& string() const;
    [[nodiscard]] std::string const& error() const;
    [[nodiscard]] array const& elements() const;
};

bool operator==(reply const& left, reply const& right);
std::ostream& operator<<(std::ostream& out, reply const& value);

namespace resp {

struct malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Takes one complete reply or command from the front of `input`. Returns nothing if it is
// incomplete, and throws `malformed` if the bytes are not RESP.
std::optional<reply> take_reply(std::string_view& input);
std::optional<command_line> take_command(std::string_view& input);

// Encodes a command.
std::string command(command_line const& words);

// Encode replies.
std::string simple(std::string_view text); // resp::simple("OK")
std::string error(std::string_view text);  // resp::error("READONLY You can't write against ...")
std::string integer(std::int64_t number);
std::string bulk(std::string_view bytes);
std::string nil();  // RESP2, also understood by RESP3 clients: "$-1\r\n"
std::string null(); // RESP3: "_\r\n"
std::string array(std::vector<std::string> const& encoded);
std::string map(std::vector<std::string> const& encoded); // key, value, key, value ..
std::string push(std::vector<std::string> const& encoded);

// Encodes RESP3 `>2 invalidate [key]`, as a tracking server sends it.
std::string invalidation(std::string_view key);

} // namespace resp

} // namespace holdfast::test
