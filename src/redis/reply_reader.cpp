#include "redis/reply_reader.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::size_t max_digits = 20;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_integer(std::string_view text) {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    return !text.empty() && text.size() < max_digits && std::all_of(text.begin(), text.end(), is_digit);
}

/// A length, or max_reply + 1 for any that is larger, or none.
std::size_t to_length(std::string_view digits) {
    std::size_t n = 0;
    for (auto const c : digits) {
        n = std::min(n * 10 + static_cast<std::size_t>(c - '0'), reply_reader::max_reply + 1);
    }
    return n;
}

/// What the server sent, short and printable.
std::string quoted(std::string_view text) {
    constexpr std::size_t most = 32;
    std::string shown(text.substr(0, most));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return '"' + shown + (text.size() > most ? "...\"" : "\"");
}

} // namespace

reply_reader::progress reply_reader::refuse(std::string problem) {
    problem_ = std::move(problem);
    return progress::malformed;
}

// The element that begins at `at`: complete, and such that the parser can bear it?
reply_reader::progress reply_reader::check(std::string_view bytes, std::size_t at) {
    if (at >= bytes.size()) return progress::incomplete;
    if (at > max_reply) {
        return refuse("a reply of more than " + std::to_string(max_reply) + " bytes");
    }
    auto const type = static_cast<reply_type>(codec::resp3::to_type(bytes[at]));
    auto const rest = bytes.substr(at, max_line + line_end.size());
    auto const end = rest.find(line_end);
    if (end == rest.npos) {
        // An unknown type needs no more bytes to be wrong.
        if (type == reply_type::invalid) return refuse("no RESP3: " + quoted(rest));
        return rest.size() < max_line ? progress::incomplete
                                      : refuse("a line of more than " + std::to_string(max_line) + " bytes");
    }
    auto const line = rest.substr(0, end);
    auto const content = line.substr(1);
    switch (type) {
    case reply_type::simple_string:
    case reply_type::simple_error:
        return progress::complete;
    case reply_type::number:
        return is_integer(content) ? progress::complete : refuse("no number: " + quoted(line));
    case reply_type::null:
        return content.empty() ? progress::complete : refuse("no null: " + quoted(line));
    case reply_type::boolean:
        return content == "t" || content == "f" ? progress::complete : refuse("no boolean: " + quoted(line));
    case reply_type::doublean:
    case reply_type::big_number:
        return content.empty() ? refuse("no number: " + quoted(line)) : progress::complete;
    case reply_type::push:
        if (at != 0) return refuse("a push within a reply");
        [[fallthrough]];
    case reply_type::blob_string:
    case reply_type::blob_error:
    case reply_type::verbatim_string:
    case reply_type::array:
    case reply_type::set:
    case reply_type::map:
        break;
    case reply_type::attribute:       // nobody asks for them
    case reply_type::streamed_string: // nor for these, which servers do not send
    case reply_type::streamed_string_part:
    case reply_type::invalid:
        return refuse("no RESP3 as Redis and Valkey speak it: " + quoted(line));
    }
    if (content.empty() || !std::all_of(content.begin(), content.end(), is_digit)) {
        return refuse("no length: " + quoted(line));
    }
    auto const size = to_length(content);
    auto const is_bulk = type == reply_type::blob_string || type == reply_type::blob_error ||
                         type == reply_type::verbatim_string;
    // An element takes three bytes at least.
    if (is_bulk ? at + size > max_reply : size > max_reply / 3) {
        return refuse("a reply of more than " + std::to_string(max_reply) + " bytes: " + quoted(line));
    }
    return is_bulk ? check_bulk(bytes, at + end + line_end.size(), size) : progress::complete;
}

reply_reader::progress reply_reader::check_bulk(std::string_view bytes, std::size_t data, std::size_t size) {
    if (bytes.size() < data + size + line_end.size()) return progress::incomplete;
    if (bytes.substr(data + size, line_end.size()) == line_end) return progress::complete;
    return refuse("a string that is longer than it was announced");
}

} // namespace holdfast::redis
