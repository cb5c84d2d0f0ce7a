#include "redis/wire/reply_reader.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr std::string_view line_end = "\r\n";
/// The most digits that are read as a length. Any acceptable length has fewer.
constexpr std::size_t max_digits = 20;
/// The size of the shortest element: `_` and the line's end.
constexpr std::size_t min_element = 3;

using enum codec::resp3::type;

bool is_bulk(reply_type t) {
    return t == blob_string || t == blob_error || t == verbatim_string;
}

/// Servers send neither attributes nor streamed strings unless asked to.
bool is_expected(reply_type t) {
    return t != attribute && t != streamed_string && t != streamed_string_part && t != invalid;
}

bool is_integer(std::string_view text) {
    std::int64_t n = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc{} && end == text.data() + text.size();
}

/// The length in the text; empty if the text has other characters than digits. A length that is too
/// large becomes the largest.
std::optional<std::size_t> to_length(std::string_view text) {
    if (text.size() > max_digits) return std::nullopt;
    std::size_t n = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
        return std::nullopt;
    }
    return error == std::errc{} ? n : std::numeric_limits<std::size_t>::max();
}

std::string too_long(std::string_view thing, std::size_t most) {
    return std::string(thing) + " of more than " + std::to_string(most) + " bytes";
}

std::string begins_with(char c) {
    constexpr std::string_view hex = "0123456789abcdef";
    auto const byte = static_cast<unsigned char>(c);
    std::string text = "not RESP3: a reply begins with ";
    if (c > ' ' && c <= '~') return text + '\'' + c + '\'';
    return text + "0x" + hex[byte / hex.size()] + hex[byte % hex.size()];
}

} // namespace

reply_reader::progress reply_reader::refuse(std::string problem) {
    problem_ = std::move(problem);
    return progress::malformed;
}

// Tells whether the element that begins at `at` is complete, and safe for the parser.
reply_reader::progress reply_reader::check(std::string_view bytes, std::size_t at) {
    if (at > longest_) return refuse(too_long("a reply", longest_));
    if (at >= bytes.size()) return progress::incomplete;
    auto const type = codec::resp3::to_type(bytes[at]);
    if (!is_expected(type)) return refuse(begins_with(bytes[at]));
    if (type == push && at != 0) return refuse("a push within a reply");

    auto const rest = bytes.substr(at, max_line + line_end.size());
    // The search goes on where it ended, so a line that comes byte by byte is searched only once.
    auto const end = rest.find(line_end, line_searched_);
    if (end == rest.npos) {
        if (rest.size() == max_line + line_end.size()) return refuse(too_long("a line", max_line));
        line_searched_ = rest.size() - 1; // the last byte may be the first half of the line's end
        return progress::incomplete;
    }
    line_searched_ = 0;
    auto const content = rest.substr(1, end - 1);
    switch (type) {
    case simple_string:
    case simple_error:
        return progress::complete;
    case number:
        return is_integer(content) ? progress::complete : refuse("an invalid number");
    case null:
        return content.empty() ? progress::complete : refuse("an invalid null");
    case boolean:
        return content == "t" || content == "f" ? progress::complete : refuse("an invalid boolean");
    case doublean:
    case big_number:
        return content.empty() ? refuse("a number without digits") : progress::complete;
    default:
        break;
    }
    // `$-1` and `*-1`, of a server that speaks RESP2.
    if (at == 0 && content == "-1" && (type == blob_string || type == array)) {
        null_size_ = end + line_end.size();
        return progress::complete;
    }
    auto const length = to_length(content);
    if (!length) return refuse("an invalid length");
    if (!is_bulk(type)) {
        auto const most = longest_ / min_element / codec::resp3::element_multiplicity(type);
        return *length <= most ? progress::complete : refuse(too_long("a reply", longest_));
    }
    if (*length > longest_ - at) return refuse(too_long("a reply", longest_));
    return check_bulk(type, bytes.substr(at + end + line_end.size()), *length);
}

reply_reader::progress reply_reader::check_bulk(reply_type type, std::string_view bytes,
                                                std::size_t size) {
    if (bytes.size() < size + line_end.size()) return progress::incomplete;
    if (bytes.substr(size, line_end.size()) != line_end) {
        return refuse("a string that is longer than its length says");
    }
    // A verbatim string begins with its format, as in `txt:`.
    if (type == verbatim_string && (size < 4 || bytes[3] != ':')) {
        return refuse("a verbatim string without a format");
    }
    return progress::complete;
}

} // namespace holdfast::redis
