// Initiation objects: classes with an executor, because partial completion tokens (cancel_after)
// need them. Nothing happens before they are called, so a deferred operation can be dropped. They
// erase the handler and enter the compiled library.
#ifndef HOLDFAST_DETAIL_INITIATE_HPP
#define HOLDFAST_DETAIL_INITIATE_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/detail/completion.hpp>
#include <holdfast/detail/configuration.hpp>
#include <holdfast/detail/lease_data.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/lease_token.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdfast {

class lease;
struct key_report;
struct list_options;
struct list_report;
class release_result;

namespace detail {

using acquire_handler = asio::any_completion_handler<void(delivery, error, lease)>;
using release_handler = asio::any_completion_handler<void(delivery, release_result)>;
using inspect_handler = asio::any_completion_handler<void(delivery, error, key_report)>;
using list_handler = asio::any_completion_handler<void(delivery, error, list_report)>;
using end_handler = asio::any_completion_handler<void(delivery, error, lease_end)>;
using error_handler = asio::any_completion_handler<void(delivery, error)>;

/// A report that a call is given. Initiations are copied, and reports are large.
using key_report_ptr = std::shared_ptr<key_report const>;

HOLDFAST_API void async_acquire(lock_state_ptr, wait_limit, acquire_handler, configuration = {});
HOLDFAST_API void async_adopt(lock_state_ptr, lease_token of_holder, acquire_handler,
                              configuration = {});
HOLDFAST_API void async_release(lease_ref, share_ref, release_handler, configuration = {});
/// `ttl`: the new ttl; none: as it is.
HOLDFAST_API void async_extend(lease_ref, std::optional<std::chrono::nanoseconds> ttl,
                               error_handler, configuration = {});
HOLDFAST_API void async_downgrade(lease_ref, error_handler, configuration = {});
HOLDFAST_API void async_wait_end(lease_ref, std::chrono::nanoseconds ahead, end_handler,
                                 configuration = {});
HOLDFAST_API void async_wait_ready(std::shared_ptr<runtime::engine>, wait_limit, error_handler,
                                   configuration = {});
HOLDFAST_API void async_shutdown(std::shared_ptr<runtime::engine>, error_handler,
                                 configuration = {});
HOLDFAST_API void async_drain(std::shared_ptr<runtime::engine>, std::chrono::nanoseconds limit,
                              error_handler, configuration = {});

HOLDFAST_API void async_inspect(lock_state_ptr, inspect_handler, configuration = {});
HOLDFAST_API void async_wait_change(lock_state_ptr, key_report_ptr last, inspect_handler,
                                    configuration = {});
HOLDFAST_API void async_release_key(lock_state_ptr, std::string token_of_holder, error_handler,
                                    configuration = {});
/// `seen`: may be null.
HOLDFAST_API void async_force_release(lock_state_ptr, key_report_ptr seen, inspect_handler,
                                      configuration = {});

/// `digests`: of the holders.
HOLDFAST_API void async_revoke(lock_state_ptr, std::vector<std::string> digests, inspect_handler,
                               configuration = {});

/// `prefix`: without the client's.
HOLDFAST_API void async_list(std::shared_ptr<runtime::engine>, std::string_view prefix,
                             list_options const&, list_handler, configuration = {});

struct initiate_acquire {
    lock_state_ptr lock;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return lock->executor(); }

    template <class Handler>
    void operator()(Handler&& handler, wait_limit limit) const {
        require_context(lock->executor());
        async_acquire(lock, limit,
                      erased<error, lease>(std::forward<Handler>(handler), lock->executor(),
                                           lock->calls_in_place()));
    }
};

struct initiate_adopt {
    lock_state_ptr lock;
    lease_token token;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return lock->executor(); }

    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_adopt(lock, token,
                    erased<error, lease>(std::forward<Handler>(handler), lock->executor(),
                                         lock->calls_in_place()));
    }
};

struct initiate_on_key {
    lock_state_ptr lock;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return lock->executor(); }
};

struct initiate_inspect : initiate_on_key {
    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_inspect(lock,
                      erased<error, key_report>(std::forward<Handler>(handler), lock->executor()));
    }
};

struct initiate_wait_change : initiate_on_key {
    key_report_ptr last;

    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_wait_change(
            lock, last,
            erased<error, key_report>(std::forward<Handler>(handler), lock->executor()));
    }
};

struct initiate_release_key : initiate_on_key {
    std::string token;

    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_release_key(lock, token,
                          erased<error>(std::forward<Handler>(handler), lock->executor()));
    }
};

struct initiate_force_release : initiate_on_key {
    key_report_ptr seen;

    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_force_release(
            lock, seen,
            erased<error, key_report>(std::forward<Handler>(handler), lock->executor()));
    }
};

struct initiate_revoke : initiate_on_key {
    std::vector<std::string> digests;

    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lock->executor());
        async_revoke(lock, digests,
                     erased<error, key_report>(std::forward<Handler>(handler), lock->executor()));
    }
};

struct initiate_on_lease {
    lease_ref lease;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return lease->lock->executor(); }
};

struct initiate_release : initiate_on_lease {
    share_ref share;

    template <class Handler>
    void operator()(Handler&& handler) const {
        auto const& client = lease->lock->executor();
        if (!client) {
            return complete_without_client<release_result>(std::forward<Handler>(handler),
                                                           errc::shut_down);
        }
        async_release(lease, share, erased<release_result>(std::forward<Handler>(handler), client));
    }
};

struct initiate_extend : initiate_on_lease {
    template <class Handler>
    void operator()(Handler&& handler, std::optional<std::chrono::nanoseconds> ttl) const {
        require_context(lease->lock->executor());
        async_extend(lease, ttl,
                     erased<error>(std::forward<Handler>(handler), lease->lock->executor()));
    }
};

struct initiate_downgrade : initiate_on_lease {
    template <class Handler>
    void operator()(Handler&& handler) const {
        require_context(lease->lock->executor());
        async_downgrade(lease,
                        erased<error>(std::forward<Handler>(handler), lease->lock->executor()));
    }
};

struct initiate_wait_end : initiate_on_lease {
    template <class Handler>
    void operator()(Handler&& handler, std::chrono::nanoseconds ahead) const {
        require_context(lease->lock->executor());
        async_wait_end(
            lease, ahead,
            erased<error, lease_end>(std::forward<Handler>(handler), lease->lock->executor()));
    }
};

struct initiate_on_client {
    std::shared_ptr<runtime::engine> engine;
    asio::any_io_executor const& executor; ///< the engine's

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return executor; }
};

struct initiate_shutdown : initiate_on_client {
    template <class Handler>
    void operator()(Handler&& handler) const {
        if (!executor) return complete_without_client<error>(std::forward<Handler>(handler));
        async_shutdown(engine, erased<error>(std::forward<Handler>(handler), executor));
    }
};

struct initiate_wait_ready : initiate_on_client {
    template <class Handler>
    void operator()(Handler&& handler, wait_limit limit) const {
        require_context(executor);
        async_wait_ready(engine, limit, erased<error>(std::forward<Handler>(handler), executor));
    }
};

struct initiate_list : initiate_on_client {
    template <class Handler>
    void operator()(Handler&& handler, std::string const& prefix,
                    list_options const& options) const {
        require_context(executor);
        async_list(engine, prefix, options,
                   erased<error, list_report>(std::forward<Handler>(handler), executor));
    }
};

struct initiate_drain : initiate_on_client {
    template <class Handler>
    void operator()(Handler&& handler, std::chrono::nanoseconds limit) const {
        if (!executor) {
            return complete_without_client<error>(std::forward<Handler>(handler), errc::shut_down);
        }
        async_drain(engine, limit, erased<error>(std::forward<Handler>(handler), executor));
    }
};

} // namespace detail
} // namespace holdfast

#endif
