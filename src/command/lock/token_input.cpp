#include "command/lock/token_input.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace holdfast::command {

namespace {

/// 32 hexadecimal digits, after a label and a colon if the holder has a label.
bool is_own(std::string_view token) {
    constexpr std::size_t digits = 32;
    if (token.size() < digits) return false;
    auto const random = token.substr(token.size() - digits);
    auto const label = token.substr(0, token.size() - digits);
    return random.find_first_not_of("0123456789abcdef") == random.npos &&
           (label.empty() || (label.size() > 1 && label.back() == ':'));
}

std::string read_line(std::string const& path) {
    constexpr std::size_t longest = 4'096;
    std::ifstream file;
    if (path != "-") file.open(path);
    auto& from = path == "-" ? std::cin : static_cast<std::istream&>(file);
    std::string text(std::istreambuf_iterator<char>(from), {});
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    auto const name = path == "-" ? std::string("the input") : "the file \"" + path + '"';
    if (text.empty()) throw std::runtime_error(name + " cannot be read, or has no token");
    if (text.size() > longest || text.find('\n') != text.npos)
        throw std::runtime_error(name + " has more than a token");
    return text;
}

} // namespace

void token_input::add_to(CLI::App& app) {
    token_option = app.add_option("--token", token,
                                  "The holder's token; other users can see it in a command line");
    file_option = app.add_option("--token-file", file,
                                 "File with the holder's token, as acquire prints it; - is the "
                                 "input");
    token_option->excludes(file_option);
}

void token_input::require() const {
    if (!given()) throw std::runtime_error("give one of --token and --token-file");
}

lease_token token_input::read() const {
    return parse_token(file_option->count() > 0 ? read_line(file) : token);
}

std::string token_line(lease_token const& t) {
    return t.fence == 0 ? t.value : t.value + ' ' + std::to_string(t.fence);
}

lease_token parse_token(std::string const& line) {
    auto const blank = line.rfind(' ');
    if (blank == line.npos || !is_own(std::string_view(line).substr(0, blank))) return {line};
    std::uint64_t fence = 0;
    auto const* const end = line.data() + line.size();
    auto const [at, failed] = std::from_chars(line.data() + blank + 1, end, fence);
    if (failed != std::errc() || at != end || fence == 0) return {line};
    return {line.substr(0, blank), fence};
}

} // namespace holdfast::command
