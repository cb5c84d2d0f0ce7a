#include "testing/database.hpp"

#include <algorithm>
#include <numeric>

namespace holdfast::testing {

namespace {

constexpr std::size_t overhead = 64; ///< of a key, of an element of a list, and of a member

std::size_t size_of(std::string const& text) {
    return text.size();
}
std::size_t size_of(database::list const& elements) {
    return std::accumulate(
        elements.begin(), elements.end(), std::size_t{0},
        [](std::size_t sum, std::string const& e) { return sum + e.size() + overhead; });
}
std::size_t size_of(database::sorted_set const& members) {
    return std::accumulate(
        members.begin(), members.end(), std::size_t{0},
        [](std::size_t sum, auto const& m) { return sum + m.first.size() + overhead; });
}
std::size_t size_of(database::value const& v) {
    return std::visit([](auto const& content) { return size_of(content); }, v);
}

} // namespace

database::value const* database::find(std::string const& key) {
    auto const found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    if (!is_over(found->second)) return &found->second.content;
    remove(found);
    on_change_(key);
    return nullptr;
}

std::optional<std::int64_t> database::expiry(std::string const& key) const {
    auto const found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : found->second.expires;
}

std::map<std::string, database::entry>::iterator
database::remove(std::map<std::string, entry>::iterator at) {
    size_ -= at->first.size() + overhead + size_of(at->second.content);
    if (at->second.expires) --expiring_;
    return entries_.erase(at);
}

void database::insert(std::string const& key, entry e) {
    if (auto const found = entries_.find(key); found != entries_.end()) remove(found);
    size_ += key.size() + overhead + size_of(e.content);
    if (e.expires) ++expiring_;
    entries_.emplace(key, std::move(e));
    on_change_(key);
}

void database::set(std::string const& key, std::string text, std::optional<std::int64_t> expires) {
    insert(key, {std::move(text), expires});
}

void database::expire_at(std::string const& key, std::int64_t when) {
    auto& e = entries_.at(key);
    if (!e.expires) ++expiring_;
    e.expires = when;
    on_change_(key);
}

bool database::erase(std::string const& key) {
    if (find(key) == nullptr) return false;
    remove(entries_.find(key));
    on_change_(key);
    return true;
}

void database::clear() {
    entries_.clear();
    size_ = expiring_ = 0;
}

void database::remove_expired() {
    for (auto at = entries_.begin(); at != entries_.end();) {
        if (!is_over(at->second)) {
            ++at;
            continue;
        }
        auto const key = at->first;
        at = remove(at);
        on_change_(key);
    }
}

std::vector<std::string> database::keys() const {
    std::vector<std::string> all;
    for (auto const& [key, e] : entries_) {
        if (!is_over(e)) all.push_back(key);
    }
    return all;
}

std::size_t database::count() const {
    return static_cast<std::size_t>(std::count_if(
        entries_.begin(), entries_.end(), [&](auto const& each) { return !is_over(each.second); }));
}

} // namespace holdfast::testing
