// Which clients want to hear of which keys (CLIENT TRACKING). A change is told once; after that a
// client has to ask again.
#ifndef HOLDFAST_TESTING_KEY_WATCHES_HPP
#define HOLDFAST_TESTING_KEY_WATCHES_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace holdfast::testing {

class key_watches {
public:
    using client_id = std::uint64_t;

    /// The most keys that are watched. As on a server, another one takes the place of any of them,
    /// whose clients hear of a change.
    static constexpr std::size_t max_keys = 100'000;

    /// The key that had to give way, and its clients; empty if there was room.
    using displaced = std::optional<std::pair<std::string, std::set<client_id>>>;

    displaced add(std::string const& key, client_id id) {
        displaced result;
        if (watched_.size() >= max_keys && !watched_.contains(key)) {
            auto const first = watched_.begin();
            result.emplace(first->first, std::move(first->second));
            watched_.erase(first);
        }
        watched_[key].insert(id);
        return result;
    }
    /// The clients that watched the key, and do no longer.
    std::set<client_id> take(std::string const& key) {
        auto const node = watched_.extract(key);
        return node.empty() ? std::set<client_id>() : std::move(node.mapped());
    }
    void forget(client_id id) {
        for (auto at = watched_.begin(); at != watched_.end();) {
            at->second.erase(id);
            at = at->second.empty() ? watched_.erase(at) : std::next(at);
        }
    }
    void clear() { watched_.clear(); }
    std::size_t size() const { return watched_.size(); }

private:
    std::map<std::string, std::set<client_id>> watched_;
};

} // namespace holdfast::testing

#endif
