#include "support/resp.hpp"

#include <charconv>
#include <ostream>
#include <sstream>

namespace holdfast::test {

namespace {

template <class T>
const T& get_or_throw(reply const& from, char const* wanted) {
    if (const T* found = std::get_if<T>(&from.value)) return *found;
    std::ostringstream text;
    text << "the server answered " << from << " instead of " << wanted;
    throw std::runtime_error{text.str()};
}

} // namespace

std::int64_t reply::integer() const {
    return get_or_throw<std::int64_t>(*this, "an integer");
}
std::string const& reply::string() const {
    return get_or_throw<std::string>(*this, "a string");
}
std::string const& reply::error() const {
    return get_or_throw<error_value>(*this, "an error").message;
}
reply::array const& reply::elements() const {
    return get_or_throw<array>(*this, "an array");
}

bool operator==(reply const& left, reply const& right) {
    return left.push == right.push && left.value == right.value;
}

std::ostream& operator<<(std::ostream& out, reply const& value) {
    if (value.push) out << "push ";
    if (value.is_nil()) return out << "nil";
    if (value.is_integer()) return out << value.integer();
    if (value.is_string()) return out << '"' << value.string() << '"';
    if (value.is_error()) return out << "error '" << value.error() << '\'';
    out << '[';
    char const* separator = "";
    for (reply const& element : value.elements()) {
        out << separator << element;
        separator = ", ";
    }
    return out << ']';
}

namespace resp {

namespace {

constexpr int max_depth = 64;
constexpr std::size_t max_line = 64 * 1024;

std::optional<std::string_view> take_line(std::string_view& input) {
    const std::size_t end = input.find("\r\n");
    if (end == std::string_view::npos) {
        if (input.size() > max_line) throw malformed{"a line without an end"};
        return std::nullopt;
    }
    const std::string_view line = input.substr(0, end);
    input.remove_prefix(end + 2);
    return line;
}

std::int64_t to_number(std::string_view text) {
    std::int64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty())
        throw malformed{"not a number: " + std::string{text.substr(0, 40)}};
    return number;
}

std::optional<std::string> take_bytes(std::string_view& input, std::size_t size) {
    if (input.size() < size + 2) return std::nullopt;
    if (input.substr(size, 2) != "\r\n") throw malformed{"a bulk string without its end"};
    std::string bytes{input.substr(0, size)};
    input.remove_prefix(size + 2);
    return bytes;
}

std::optional<reply> take(std::string_view& input, int depth);

std::optional<reply> take_elements(std::string_view& input, std::int64_t count, int depth) {
    reply::array elements;
    for (std::int64_t i = 0; i < count; ++i) {
        std::optional<reply> element = take(input, depth + 1);
        if (!element) return std::nullopt;
        elements.push_back(std::move(*element));
    }
    return reply{std::move(elements)};
}

std::optional<reply> take(std::string_view& input, int depth) {
    if (depth > max_depth) throw malformed{"nested too deeply"};
    if (input.empty()) return std::nullopt;
    char const type = input.front();
    if (std::string_view{"+-:$*_#,(!=%~>|"}.find(type) == std::string_view::npos)
        throw malformed{"not RESP: " + std::string{input.substr(0, 40)}};
    const std::optional<std::string_view> line = take_line(input);
    if (!line) return std::nullopt;
    const std::string_view head = line->substr(1);
    switch (type) {
    case '+':
    case ',':
    case '(':
        return reply{std::string{head}};
    case '-':
        return reply{reply::error_value{std::string{head}}};
    case ':':
        return reply{to_number(head)};
    case '_':
        return reply{reply::nil_value{}};
    case '#':
        return reply{std::int64_t{head == "t" ? 1 : 0}};
    default:
        break;
    }
    const std::int64_t size = to_number(head);
    if (size < 0) return reply{reply::nil_value{}};
    switch (type) {
    case '$':
    case '!':
    case '=': {
        std::optional<std::string> bytes = take_bytes(input, static_cast<std::size_t>(size));
        if (!bytes) return std::nullopt;
        if (type == '!') return reply{reply::error_value{std::move(*bytes)}};
        if (type == '=' && bytes->size() >= 4) bytes->erase(0, 4);
        return reply{std::move(*bytes)};
    }
    case '%':
        return take_elements(input, size * 2, depth);
    case '|': // attributes belong to the reply that follows
        if (!take_elements(input, size * 2, depth)) return std::nullopt;
        return take(input, depth);
    case '>': {
        std::optional<reply> message = take_elements(input, size, depth);
        if (message) message->push = true;
        return message;
    }
    default:
        return take_elements(input, size, depth);
    }
}

std::string counted(char type, std::size_t count, std::vector<std::string> const& encoded) {
    std::string out = type + std::to_string(count) + "\r\n";
    for (std::string const& element : encoded) out += element;
    return out;
}

} // namespace

std::optional<reply> take_reply(std::string_view& input) {
    std::string_view rest = input;
    std::optional<reply> result = take(rest, 0);
    if (result) input = rest;
    return result;
}

std::optional<command_line> take_command(std::string_view& input) {
    std::string_view rest = input;
    command_line words;
    while (words.empty()) { // servers skip empty commands too
        if (rest.empty()) return std::nullopt;
        bool const is_array = rest.front() == '*';
        const std::optional<std::string_view> line = take_line(rest);
        if (!line) return std::nullopt;
        if (!is_array) { // an inline command, as typed into telnet
            std::istringstream typed{std::string{*line}};
            for (std::string word; typed >> word;) words.push_back(word);
            continue;
        }
        const std::int64_t count = to_number(line->substr(1));
        for (std::int64_t i = 0; i < count; ++i) {
            if (rest.empty()) return std::nullopt;
            if (rest.front() != '$') throw malformed{"expected '$' in a command"};
            const std::optional<std::string_view> head = take_line(rest);
            if (!head) return std::nullopt;
            const std::int64_t size = to_number(head->substr(1));
            if (size < 0) throw malformed{"a negative length in a command"};
            std::optional<std::string> word = take_bytes(rest, static_cast<std::size_t>(size));
            if (!word) return std::nullopt;
            words.push_back(std::move(*word));
        }
    }
    input = rest;
    return words;
}

std::string command(command_line const& words) {
    std::string out = '*' + std::to_string(words.size()) + "\r\n";
    for (std::string const& word : words) out += bulk(word);
    return out;
}

std::string simple(std::string_view text) {
    return '+' + std::string{text} + "\r\n";
}
std::string error(std::string_view text) {
    return '-' + std::string{text} + "\r\n";
}
std::string integer(std::int64_t number) {
    return ':' + std::to_string(number) + "\r\n";
}
std::string bulk(std::string_view bytes) {
    return '$' + std::to_string(bytes.size()) + "\r\n" + std::string{bytes} + "\r\n";
}
std::string nil() {
    return "$-1\r\n";
}
std::string null() {
    return "_\r\n";
}
std::string array(std::vector<std::string> const& encoded) {
    return counted('*', encoded.size(), encoded);
}
std::string map(std::vector<std::string> const& encoded) {
    return counted('%', encoded.size() / 2, encoded);
}
std::string push(std::vector<std::string> const& encoded) {
    return counted('>', encoded.size(), encoded);
}

std::string invalidation(std::string_view key) {
    return push({bulk("invalidate"), array({bulk(key)})});
}

} // namespace resp

} // namespace holdfast::test
