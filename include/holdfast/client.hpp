#ifndef HOLDFAST_CLIENT_HPP
#define HOLDFAST_CLIENT_HPP

#include <holdfast/address.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/options.hpp>
#include <holdfast/stats.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// The locks of a set of independent Redis or Valkey instances. One per process is enough: all its locks
/// share one connection to each instance.
///
/// A lock is held when a majority of the *configured* instances has granted it, so a minority may be down,
/// slow or wrong. One instance is a set of one. Every client of the same locks must be given the same
/// instances.
///
/// Connections are made from the start and renewed for as long as the client lives; no call waits for more
/// than the first of them.
///
/// @par Lifetimes  The executor's context must outlive the client, its locks and its leases. When the context
///     is destroyed, operations under way are dropped: no handler is called, nothing is sent, and keys go
///     with their ttl.
/// @par Executor  Handlers without an executor of their own run on the executor given to the constructor.
/// @par Thread safety  Safe, one object or many, unless client_options::thread_safe is off; construction and
///     destruction excepted.
class client {
public:
    /// Begins to connect. `instances`: 1 to max_instances, each given once.
    /// @throws system_error  errc::invalid_options, errc::invalid_address; what() names the value.
    client(asio::any_io_executor executor, std::vector<address> const& instances);
    client(asio::any_io_executor executor, std::vector<address> const& instances,
           client_options const& options);

    /// A client that was moved from can only be destroyed or assigned to.
    client(client&&) noexcept = default;
    client& operator=(client&&) noexcept;
    /// As shutdown(), in the background.
    ~client();

    asio::any_io_executor get_executor() const noexcept { return executor_; }

    /// A lock on `key`. No I/O.
    ///
    /// The key is used as it is (any bytes), behind client_options::key_prefix, so that every Redlock on the
    /// same key of the same instances excludes ours and is excluded.
    /// @throws system_error  errc::invalid_key, errc::invalid_options; what() names the value.
    lock make_lock(std::string_view key) const;
    lock make_lock(std::string_view key, lock_options const& options) const;

    /// Ends the client: new and waiting acquires complete with errc::shut_down, leases are told that they are
    /// lost and are released, then the connections are closed.
    ///
    /// @par Handler signature  `void(error)`, without error: it cannot fail.
    /// @par Cancellation  None. It ends within twice client_options::instance_timeout by itself: an instance
    ///     that does not answer in that time keeps its keys until they expire.
    template <asio::completion_token_for<void(error)> Token = asio::deferred_t>
    [[nodiscard]] auto shutdown(Token&& token = {}) {
        return asio::async_initiate<Token, void(error)>(detail::initiate_shutdown{engine_, executor_}, token);
    }

    /// Each instance as it is now, in the order of the constructor.
    std::vector<instance_status> instances() const;
    holdfast::stats stats() const;

private:
    asio::any_io_executor executor_;
    std::shared_ptr<runtime::engine> engine_;
};

} // namespace holdfast

#endif
