#include "testing/database.hpp"

#include <algorithm>
#include <numeric>

namespace holdfast::testing {

namespace {

constexpr std::size_t overhead = 64; ///< of a key, and of an element of a list

std::size_t size_of(database::value const& v) {
    if (auto const* const text = std::get_if<std::string>(&v)) return text->size();
    auto const& elements = std::get<database::list>(v);
    return std::accumulate(
        elements.begin(), elements.end(), std::size_t{0},
        [](std::size_t sum, std::string const& e) { return sum + e.size() + overhead; });
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

database::edited_list database::take_list(std::string const& key) {
    if (find(key) == nullptr) return {};
    auto const found = entries_.find(key);
    return {std::get<list>(found->second.content), found->second.expires};
}

void database::put_list(std::string const& key, edited_list edited) {
    if (edited.first.empty()) {
        erase(key);
    } else {
        insert(key, {std::move(edited.first), edited.second});
    }
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
