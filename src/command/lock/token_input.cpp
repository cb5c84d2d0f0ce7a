#include "command/lock/token_input.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
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

constexpr std::string_view slot_mark = " slot=";
constexpr std::string_view shared_mark = " shared";

/// The text is a number, and nothing else.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number n = 0;
    auto const* const end = text.data() + text.size();
    auto const [at, failed] = std::from_chars(text.data(), end, n);
    if (failed != std::errc() || at != end) return std::nullopt;
    return n;
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
    auto line = t.value;
    if (t.fence != 0) line += ' ' + std::to_string(t.fence);
    if (t.slot) line.append(slot_mark) += std::to_string(*t.slot);
    if (t.shared) line += shared_mark;
    return line;
}

lease_token parse_token(std::string const& line) {
    lease_token found;
    std::string_view rest = line;
    found.shared = rest.ends_with(shared_mark);
    if (found.shared) rest.remove_suffix(shared_mark.size());
    if (auto const mark = rest.rfind(slot_mark); mark != rest.npos) {
        found.slot = number_in<unsigned>(rest.substr(mark + slot_mark.size()));
        if (!found.slot) return {line};
        rest = rest.substr(0, mark);
    }
    if (auto const blank = rest.rfind(' '); blank != rest.npos) {
        auto const fence = number_in<std::uint64_t>(rest.substr(blank + 1));
        if (!fence || *fence == 0) return {line};
        found.fence = *fence;
        rest = rest.substr(0, blank);
    }
    if (!is_own(rest)) return {line};
    found.value = rest;
    return found;
}

} // namespace holdfast::command
