#ifndef HOLDFAST_CLIENT_GROUPS_HPP
#define HOLDFAST_CLIENT_GROUPS_HPP

#include <holdfast/address.hpp>
#include <holdfast/client.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/options.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// Instances that are a Redlock of their own, and the name of the group.
struct client_group {
    std::string name;                 ///< not empty; the same in all programs
    std::vector<address> instances{}; ///< 1 to max_instances, each given once
};

/// Spreads keys over several groups of instances, to grow beyond one group. A key belongs to the
/// group with the greatest hash of key and name (rendezvous hashing: Thaler and Ravishankar, 1998).
/// So each group has about the same number of keys. A group that is added takes over its share, and
/// the keys of one that is removed are spread over the others. No other key moves.
///
/// Only the names decide. The order of the groups is of no meaning, and instances may be replaced.
/// All programs that use one of the keys need the same names with the same instances. To add,
/// remove or rename groups, stop all programs, wait for the longest ttl, and start them again: else
/// a key may have a holder in its old group and one in its new group.
///
/// If a key has a hash tag, as in `{order:7}:items`, the tag alone decides. So keys with the same
/// tag belong to one group, and one lock can have several of them (client::make_multi_lock). For
/// keys of different groups, acquire a lock of each group, always in the same order.
///
/// The hash is xxHash64, with the seed 0, of the tag or key, a zero byte, and the name. Of equal
/// hashes the smaller name counts. This will not change.
///
/// @code
/// holdfast::client_groups groups(executor, {{"a", {"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
///                                           {"b", {"10.0.1.1", "10.0.1.2", "10.0.1.3"}}});
/// holdfast::lock const seat = groups.make_lock("seat:17");
/// @endcode
///
/// @par Lifetimes, executor, forks  As those of a client. The end of the object closes the clients.
/// @par Cost  A hash for each group and call, and no allocation.
/// @par Thread safety  Distinct objects: safe. One object: safe for const functions. The clients
///     are as safe as their options say.
class HOLDFAST_API client_groups {
public:
    /// Begins to connect to all instances of at least one group. `options` are those of each
    /// client.
    /// @throws system_error  errc::invalid_options: no group, or a name that is empty or given
    ///     twice; and as the constructor of client. what() names the value.
    client_groups(boost::asio::any_io_executor executor, std::vector<client_group> const& groups,
                  client_options const& options = {}) {
        for (auto const& group : groups) names_.push_back(group.name);
        check_names();
        for (auto const& group : groups) clients_.emplace_back(executor, group.instances, options);
    }

    /// One that was moved from can only be destroyed or assigned to.
    client_groups(client_groups&&) noexcept = default;
    /// Closes the clients, and takes over those of the other.
    client_groups& operator=(client_groups&&) noexcept = default;
    /// Closes the clients.
    ~client_groups() = default;

    /// A lock on the key, of the client of its group: see client::make_lock().
    [[nodiscard]] lock make_lock(std::string_view key) const {
        return client_for(key).make_lock(key);
    }
    /// As above, with options of this lock.
    [[nodiscard]] lock make_lock(std::string_view key, lock_options const& options) const {
        return client_for(key).make_lock(key, options);
    }

    /// The client of the key's group, for all other calls about the key: locks of other kinds,
    /// client::adopt(), client::inspect(). A lock that another of the clients makes on this key
    /// excludes none of this one. The key is any bytes, without client_options::key_prefix. The
    /// reference lasts as long as this object.
    [[nodiscard]] client& client_for(std::string_view key) noexcept {
        return clients_[index_of(key)];
    }
    /// As above.
    [[nodiscard]] client const& client_for(std::string_view key) const noexcept {
        return clients_[index_of(key)];
    }
    /// The name of the key's group.
    [[nodiscard]] std::string const& group_of(std::string_view key) const noexcept {
        return names_[index_of(key)];
    }

    /// All, in the order of the constructor. To end them:
    /// `for (auto& c : groups.clients()) co_await c.shutdown();`
    [[nodiscard]] std::span<client> clients() noexcept { return clients_; }
    /// As above.
    [[nodiscard]] std::span<client const> clients() const noexcept { return clients_; }

private:
    void check_names() const;
    std::size_t index_of(std::string_view key) const noexcept;

    std::vector<std::string> names_;
    std::vector<client> clients_;
};

} // namespace holdfast

#endif
