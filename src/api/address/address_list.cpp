#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>

namespace holdfast {

namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

/// Takes the next word from the list; empty at the end.
std::string_view take_word(std::string_view& list) {
    for (;;) {
        list.remove_prefix(std::min(list.find_first_not_of(blanks), list.size()));
        if (!list.starts_with('#')) break;
        list.remove_prefix(std::min(list.find('\n'), list.size()));
    }
    auto word = list.substr(0, list.find_first_of(blanks));
    list.remove_prefix(word.size());
    if (word.size() > 1 && word.ends_with(',')) word.remove_suffix(1); // "a, b"
    return word;
}

bool has_scheme(std::string_view text) {
    auto const end =
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+");
    auto const rest = end == text.npos ? std::string_view() : text.substr(end);
    return end != 0 && (rest.starts_with("://") || rest.starts_with(":/"));
}

/// The end of the first address: the hosts of one address have commas too, and so may a password.
std::size_t end_of_address(std::string_view word) {
    auto const is_url = has_scheme(word);
    for (auto at = word.find(','); at != word.npos; at = word.find(',', at + 1)) {
        if (!is_url || has_scheme(word.substr(at + 1))) return at;
    }
    return word.size();
}

address parse(std::string_view text, std::size_t number) {
    try {
        return address(text);
    } catch (system_error const& e) {
        std::string said = e.what();
        said.erase(std::min(said.rfind(": " + e.code().message()), said.size())); // said again
        throw system_error(e.code(), "address " + std::to_string(number) + " of the list: " + said);
    }
}

} // namespace

std::vector<address> parse_addresses(std::string_view list) {
    std::vector<address> all;
    for (auto word = take_word(list); !word.empty(); word = take_word(list)) {
        for (;;) {
            auto const end = end_of_address(word);
            all.push_back(parse(word.substr(0, end), all.size() + 1));
            if (end == word.size()) break;
            word.remove_prefix(end + 1);
        }
    }
    if (all.empty())
        throw system_error(make_error_code(errc::invalid_address), "the list has no address");
    return all;
}

std::ostream& operator<<(std::ostream& out, address const& a) {
    return out << a.to_string();
}

} // namespace holdfast
