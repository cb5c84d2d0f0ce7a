#include "tour/journal.hpp"

#include <cstddef>
#include <ostream>
#include <sstream>

namespace tour {

namespace {

std::string in_short(std::string const& word) {
    constexpr std::size_t longest_word = 24, longest_script = 36;
    if (word.find(' ') == word.npos) {
        return word.size() <= longest_word ? word : word.substr(0, 8) + "..";
    }
    if (word.size() <= longest_script) return '"' + word + '"';
    return '"' + word.substr(0, longest_script) + "..\"";
}

std::string text_of(command_line const& words) {
    std::string text;
    for (auto const& word : words) text += (text.empty() ? "" : " ") + in_short(word);
    return text;
}

std::string text_of(reply const& answer) {
    constexpr std::size_t longest = 60;
    std::ostringstream text;
    text << answer;
    auto const whole = text.str();
    return whole.size() <= longest ? whole : whole.substr(0, longest) + "..";
}

} // namespace

void journal::title(std::string_view text) {
    out_ << '\n' << text << '\n' << std::string(text.size(), '=') << std::endl;
}

void journal::section(std::string_view text) {
    out_ << '\n' << text << std::endl;
}

void journal::command(std::string_view client, command_line const& words, reply const& answer) {
    line(client, text_of(words) + "  -> " + text_of(answer));
}

void journal::command(std::string_view client, command_line const& words) {
    line(client, text_of(words));
}

void journal::unanswered(std::string_view client, command_line const& words,
                         std::string_view reason) {
    line(client, text_of(words) + "  -> " + std::string(reason));
}

void journal::line(std::string_view client, std::string_view text) {
    out_ << "  " << client << "  " << text << std::endl;
}

void journal::note(std::string_view text) {
    out_ << "     .. " << text << std::endl;
}

void journal::hazard(bool seen, std::string_view text) {
    out_ << "  => " << (seen ? "HAZARD: " : "NO HAZARD, against expectation: ") << text
         << std::endl;
    facts_.push_back({fact_kind::hazard, seen, std::string(text)});
}

void journal::safe(bool seen, std::string_view text) {
    out_ << "  => " << (seen ? "SAFE: " : "NOT SAFE, against expectation: ") << text << std::endl;
    facts_.push_back({fact_kind::safe, seen, std::string(text)});
}

} // namespace tour
