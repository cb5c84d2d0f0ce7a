#include "api/log_text.hpp"

#include <boost/nowide/utf/utf.hpp>

#include <algorithm>
#include <cstdio>

namespace holdfast::detail {

std::string valid_utf8(std::string_view given) {
    using traits = boost::nowide::utf::utf_traits<char>;
    std::string text;
    for (auto at = given.begin(); at != given.end();) {
        auto const begin = at;
        auto const code = traits::decode(at, given.end());
        auto const control = code >= 0x80 && code < 0xa0;
        if (boost::nowide::utf::is_valid_codepoint(code) && !control) {
            text.append(begin, at);
        } else {
            text += "\xef\xbf\xbd";
            at = begin + 1;
        }
    }
    return text;
}

std::string json_string(std::string_view given) {
    std::string text = "\"";
    for (char const c : valid_utf8(given)) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x",
                          static_cast<unsigned>(static_cast<unsigned char>(c)));
            text += escape;
        } else {
            text += c;
        }
    }
    return text + '"';
}

std::string logfmt_value(std::string_view given) {
    auto const plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '='; };
    auto const bare = !given.empty() && given.find('\\') == given.npos &&
                      std::all_of(given.begin(), given.end(), plain);
    return bare ? std::string(given) : json_string(given);
}

} // namespace holdfast::detail
