#include "command/table.hpp"

#include <boost/nowide/utf/utf.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <iomanip>
#include <ostream>

namespace holdfast::command {

namespace {

std::size_t width_of(std::string const& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return !boost::nowide::utf::utf_traits<char>::is_trail(c);
    }));
}

} // namespace

void table::print(std::ostream& out) const {
    std::vector<std::size_t> widths;
    for (auto const& r : rows_) {
        widths.resize(std::max(widths.size(), r.size()));
        for (std::size_t i = 0; i < r.size(); ++i) widths[i] = std::max(widths[i], width_of(r[i]));
    }
    for (auto const& r : rows_) {
        std::string line;
        for (std::size_t i = 0; i < r.size(); ++i) {
            line += r[i] + std::string(widths[i] + 2 - width_of(r[i]), ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out << line << '\n';
    }
}

std::string duration_text(std::chrono::nanoseconds d) {
    std::array<char, 32> text{};
    auto const ms = std::chrono::duration<double, std::milli>(d).count();
    auto const print = [&](char const* format, double unit) {
        std::snprintf(text.data(), text.size(), format, ms / unit);
    };
    if (ms < 1'000) {
        print("%.1f ms", 1);
    } else if (ms < 120'000) {
        print("%.1f s", 1'000);
    } else if (ms < 7'200'000) {
        print("%.0f min", 60'000);
    } else if (ms < 172'800'000) {
        print("%.1f h", 3'600'000);
    } else {
        print("%.1f d", 86'400'000);
    }
    return text.data();
}

std::string time_text(std::chrono::system_clock::time_point t) {
    auto const seconds = std::chrono::system_clock::to_time_t(t);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

std::string precise_time_text(std::chrono::system_clock::time_point t) {
    auto const ms = std::chrono::time_point_cast<std::chrono::milliseconds>(t);
    std::array<char, 8> fraction{};
    std::snprintf(fraction.data(), fraction.size(), ".%03uZ",
                  static_cast<unsigned>(ms.time_since_epoch().count() % 1'000));
    auto text = time_text(t);
    text.pop_back();
    return text + fraction.data();
}

std::string printable(std::string_view given) {
    using traits = boost::nowide::utf::utf_traits<char>;
    std::string text;
    for (auto at = given.begin(); at != given.end();) {
        auto const begin = at;
        auto const code = traits::decode(at, given.end());
        auto const control = code < 0x20 || (code >= 0x7f && code < 0xa0);
        if (boost::nowide::utf::is_valid_codepoint(code) && !control) {
            text.append(begin, at);
        } else {
            at = begin + 1;
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\x%02x",
                          static_cast<unsigned>(static_cast<unsigned char>(*begin)));
            text += escape.data();
        }
    }
    return text;
}

} // namespace holdfast::command
