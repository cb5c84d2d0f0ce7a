#ifndef HOLDFAST_DETAIL_LOCK_STATE_HPP
#define HOLDFAST_DETAIL_LOCK_STATE_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/options.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>

namespace holdfast {

struct lease_token;

namespace runtime {
class engine;
}

namespace detail {

namespace asio = boost::asio;

/// Shared by the copies of a lock, its waiters and its leases.
struct lock_state {
    std::shared_ptr<runtime::engine> engine;
    asio::any_io_executor const&
        executor;    ///< the engine's; empty when its context has been destroyed
    std::string key; ///< with the client's prefix
    lock_options options;
    lease_token const* adopted = nullptr; ///< of a lease that another client has acquired
};

using lock_state_ptr = std::shared_ptr<lock_state const>;

struct access; // makes locks and leases

/// Throws errc::shut_down; `why` is its message.
[[noreturn]] HOLDFAST_API void refuse_use(char const* reason);

/// Throws errc::shut_down if the context has been destroyed.
inline void require_context(asio::any_io_executor const& executor) {
    if (!executor) refuse_use("the execution context was destroyed");
}

} // namespace detail
} // namespace holdfast

#endif
