// The keys of an instance: strings, lists and sorted sets, each with a time at which it expires.
//
// A key is gone once its time has passed, even if no timer has run. The clock stands still while a
// command or a script is executed, as on a server.
#ifndef HOLDFAST_TESTING_DATABASE_HPP
#define HOLDFAST_TESTING_DATABASE_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast::testing {

class database {
public:
    using list = std::deque<std::string>;
    using sorted_set = std::map<std::string, double>; ///< members, by name
    using value = std::variant<std::string, list, sorted_set>;

    /// What all keys may take together, in bytes. A command that would exceed it is refused.
    static constexpr std::size_t max_size = std::size_t{64} << 20U;

    /// `on_change` is called with each key that has changed, or expired.
    explicit database(std::function<void(std::string const& key)> on_change)
        : on_change_(std::move(on_change)) {}

    /// The time of the commands that follow, in milliseconds of any epoch.
    void set_now(std::int64_t now) { now_ = now; }
    std::int64_t now() const { return now_; }

    /// Null: there is no such key.
    value const* find(std::string const& key);
    /// Empty: the key never expires.
    std::optional<std::int64_t> expiry(std::string const& key) const;

    /// False: there is no room for `added` bytes more.
    bool has_room(std::size_t added) const { return size_ + added <= max_size; }

    void set(std::string const& key, std::string text, std::optional<std::int64_t> expires);
    /// Changes the list or the sorted set with `change`, which gets an empty one if there is no
    /// key. An empty one leaves no key. The key must not be of another type.
    template <class T, class Change>
    void edit(std::string const& key, Change change) {
        auto const* const old = find(key);
        auto edited = old == nullptr ? T() : std::get<T>(*old);
        change(edited);
        if (edited.empty()) {
            erase(key);
        } else {
            insert(key, {std::move(edited), expiry(key)});
        }
    }
    /// The key must be there.
    void expire_at(std::string const& key, std::int64_t when);
    bool erase(std::string const& key);
    void clear();

    /// Removes the keys whose time has passed.
    void remove_expired();
    /// Whether any key expires.
    bool expires() const { return expiring_ > 0; }
    std::vector<std::string> keys() const;
    std::size_t count() const;

private:
    struct entry {
        value content;
        std::optional<std::int64_t> expires;
    };

    bool is_over(entry const& e) const { return e.expires && now_ > *e.expires; }
    std::map<std::string, entry>::iterator remove(std::map<std::string, entry>::iterator at);
    void insert(std::string const& key, entry e);

    std::function<void(std::string const&)> on_change_;
    std::map<std::string, entry> entries_;
    std::int64_t now_ = 0;
    std::size_t size_ = 0;     ///< of all entries
    std::size_t expiring_ = 0; ///< entries that expire
};

} // namespace holdfast::testing

#endif
