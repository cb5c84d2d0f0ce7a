#include "tour/command_log.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <sstream>
#include <utility>

namespace tour {

namespace {

/// The words of a line of MONITOR, which are quoted.
command_line words_of(std::string_view line) {
    command_line words;
    std::string word;
    auto quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        auto const c = line[i];
        if (c == '"') {
            if (quoted) words.push_back(std::exchange(word, {}));
            quoted = !quoted;
        } else if (quoted) {
            if (c == '\\' && i + 1 < line.size()) ++i;
            word += line[i];
        }
    }
    return words;
}

} // namespace

command_log::command_log(holdfast::test::redis_cli listens, holdfast::test::redis_cli asks,
                         std::string key, std::string place)
    : listens_(std::move(listens))
    , asks_(std::move(asks))
    , key_(std::move(key))
    , place_(std::move(place)) {
    listen();
}

void command_log::listen() {
    listening_ = false;
    listens_.disconnect();
    listens_.command({"MONITOR"});
    listening_ = true;
}

std::vector<command_log::entry> command_log::take() {
    std::vector<entry> all;
    try {
        if (!listening_) listen();
        learn_names();
        // The server reports commands in their order, so all earlier ones come before this.
        auto const mark = "taken " + std::to_string(++taken_);
        asks_.command({"ECHO", mark});
        for (;;) {
            auto const line = listens_.receive().string();
            if (line.find(mark) != line.npos) break;
            add_line(line, all);
        }
    } catch (holdfast::test::cli_error const&) {
        listening_ = false; // the server has ended, or has been started again
    }
    return all;
}

void command_log::learn_names() {
    std::istringstream clients(asks_.command({"CLIENT", "LIST"}).string());
    for (std::string line; std::getline(clients, line);) {
        std::istringstream fields(line);
        std::string address, name;
        for (std::string field; fields >> field;) {
            if (field.starts_with("addr=")) address = field.substr(5);
            if (field.starts_with("name=")) name = field.substr(5);
        }
        if (!name.empty()) names_[address] = name + place_;
    }
}

// 1700000000.123456 [0 127.0.0.1:40000] "SET" "seat" ..   or   [0 lua] for commands of a script
void command_log::add_line(std::string_view line, std::vector<entry>& to) {
    auto const bracket = line.find('[');
    auto const begin = line.find(' ', bracket);
    auto const end = line.find(']');
    if (begin == line.npos || end == line.npos || end < begin) return;
    auto const source = line.substr(begin + 1, end - begin - 1);
    auto words = words_of(line.substr(end));
    std::string const time(line.substr(0, bracket));
    auto const names_key = std::find(words.begin(), words.end(), key_) != words.end();
    if (source == "lua") {
        if (!runs_script_.empty() && names_key)
            to.push_back({time, runs_script_ + "    script:", std::move(words)});
        return;
    }
    runs_script_.clear();
    auto const client = names_.find(source);
    if (client == names_.end() || !names_key) return;
    runs_script_ = client->second;
    to.push_back({time, client->second, std::move(words)});
}

void show(journal& in, std::vector<command_log*> const& logs) {
    std::vector<command_log::entry> all;
    for (auto* const log : logs) {
        auto some = log->take();
        std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](auto const& a, auto const& b) { return a.time < b.time; });
    for (auto const& entry : all) in.command(entry.client, entry.words);
}

} // namespace tour
