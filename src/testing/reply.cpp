#include "testing/reply.hpp"

#include <algorithm>
#include <cstddef>

namespace holdfast::testing {

namespace {

void append_header(std::string& out, char type, std::size_t size) {
    out += type;
    out += std::to_string(size);
    out += "\r\n";
}

void append_line(std::string& out, char type, std::string_view text) {
    out += type;
    auto const from = out.size();
    out += text;
    // A line break within the text would end the reply.
    std::replace_if(
        out.begin() + static_cast<std::ptrdiff_t>(from), out.end(),
        [](char c) { return c == '\r' || c == '\n'; }, ' ');
    out += "\r\n";
}

} // namespace

void encode(std::string& out, reply const& r, int protocol) {
    switch (r.type) {
    case reply::kind::null:
        out += protocol == 3 ? "_\r\n" : "$-1\r\n";
        return;
    case reply::kind::integer:
        return append_line(out, ':', std::to_string(r.number));
    case reply::kind::status:
        return append_line(out, '+', r.text);
    case reply::kind::error:
        return append_line(out, '-', r.text);
    case reply::kind::real:
        if (protocol == 3) return append_line(out, ',', r.text);
        [[fallthrough]];
    case reply::kind::bulk:
        append_header(out, '$', r.text.size());
        out += r.text;
        out += "\r\n";
        return;
    case reply::kind::array:
        append_header(out, '*', r.parts.size());
        break;
    case reply::kind::map:
        append_header(out, protocol == 3 ? '%' : '*', r.parts.size() / (protocol == 3 ? 2 : 1));
        break;
    case reply::kind::pairs:
        append_header(out, '*', r.parts.size() / (protocol == 3 ? 2 : 1));
        break;
    case reply::kind::push:
        append_header(out, '>', r.parts.size());
        break;
    }
    for (std::size_t i = 0; i < r.parts.size(); ++i) {
        if (r.type == reply::kind::pairs && protocol == 3 && i % 2 == 0) append_header(out, '*', 2);
        encode(out, r.parts[i], protocol);
    }
}

} // namespace holdfast::testing
