#include "support/access.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace holdfast::test::access {

namespace {

std::mutex mutex;
std::vector<std::string> refused; // protected by the mutex

// The value of a field of an entry, as text.
std::string field(reply::array const& entry, std::string_view name) {
    for (std::size_t i = 0; i + 1 < entry.size(); i += 2) {
        if (entry[i].is_string() && entry[i].string() == name) {
            return entry[i + 1].is_string()    ? entry[i + 1].string()
                   : entry[i + 1].is_integer() ? std::to_string(entry[i + 1].integer())
                                               : std::string();
        }
    }
    return {};
}

void append(rules& to, rules const& more) {
    for (auto const& rule : more) {
        if (std::find(to.begin(), to.end(), rule) == to.end()) to.push_back(rule);
    }
}

} // namespace

rules keys(std::string_view prefix) {
    return {'~' + std::string(prefix) + '*'};
}

rules fence_keys(std::string_view prefix) {
    if (prefix.empty()) return {}; // `~*` takes no pattern beside it
    return {"~{" + std::string(prefix) + "*}:fence"};
}

rules line_keys(std::string_view prefix) {
    if (prefix.empty()) return {};
    return {"~{" + std::string(prefix) + "*}:queue*"};
}

rules reader_keys(std::string_view prefix) {
    if (prefix.empty()) return {};
    auto const begin = "~{" + std::string(prefix) + "*}:";
    return {begin + "readers*", begin + "intent*", begin + "turn*"};
}

rules permit_keys(std::string_view prefix) {
    if (prefix.empty()) return {};
    auto const begin = "~{" + std::string(prefix) + "*}:";
    return {begin + "until*", begin + "fences*"};
}

rules all(std::string_view prefix) {
    rules result = keys(prefix);
    for (auto const& more : {fence_keys(prefix), line_keys(prefix), reader_keys(prefix),
                             permit_keys(prefix), locks, pushes, reports, lists, guards, fences,
                             lines, readers, permits, several_keys, replicas}) {
        append(result, more);
    }
    return result;
}

rules without(rules from, std::string_view rule) {
    std::erase(from, rule);
    return from;
}

command_line set_user(std::string_view name, rules const& of) {
    command_line words{"ACL",   "SETUSER", std::string(name),
                       "reset", "on",      '>' + std::string(password)};
    words.insert(words.end(), of.begin(), of.end());
    return words;
}

std::string url(std::string_view host_and_port, std::string_view name) {
    return "redis://" + std::string(name) + ':' + std::string(password) + '@' +
           std::string(host_and_port);
}

std::vector<std::string> refusals_in(reply const& acl_log) {
    std::vector<std::string> all;
    if (!acl_log.is_array()) return all;
    for (reply const& item : acl_log.elements()) {
        if (!item.is_array() || field(item.elements(), "username") != user) continue;
        auto const& entry = item.elements();
        all.push_back(field(entry, "reason") + ' ' + field(entry, "object") + " (" +
                      field(entry, "context") + ", " + field(entry, "count") + " times)");
    }
    return all;
}

std::vector<std::string> unexpected_refusals() {
    std::lock_guard const lock(mutex);
    return refused;
}

void add_unexpected_refusals(std::string_view server, std::vector<std::string> const& all) {
    std::lock_guard const lock(mutex);
    std::transform(
        all.begin(), all.end(), std::back_inserter(refused),
        [&](std::string const& refusal) { return std::string(server) + ": " + refusal; });
}

} // namespace holdfast::test::access
