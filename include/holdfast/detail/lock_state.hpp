#ifndef HOLDFAST_DETAIL_LOCK_STATE_HPP
#define HOLDFAST_DETAIL_LOCK_STATE_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace holdfast {

namespace runtime {
class engine;
}

namespace detail {

namespace asio = boost::asio;

/// Shared by locks of one client that have equal options. Keeps the engine alive.
struct lock_settings {
    std::shared_ptr<runtime::engine> engine;
    asio::any_io_executor const&
        executor; ///< the engine's; empty when its context has been destroyed
    lock_options options;
    /// The client calls the handlers of acquires in place, if they have its executor.
    bool calls_in_place = false;
    lock_access access = lock_access::exclusive;
    std::uint16_t permits = 0; ///< of a semaphore
    mutable std::atomic<std::uint32_t> references{0};
};

void intrusive_ptr_add_ref(lock_settings const*) noexcept;
void intrusive_ptr_release(lock_settings const*) noexcept;
using lock_settings_ptr = boost::intrusive_ptr<lock_settings const>;

struct lock_parts {
    lock_settings_ptr settings;
    std::string_view prefix, key;
    /// Of a lock on several keys: at least two, in byte order, without the prefix. `key` is empty.
    std::span<std::string_view const> keys{};
};

class lock_state;

/// Called without any reference left.
HOLDFAST_API void destroy(lock_state const*) noexcept;

/// Shared by the copies of a lock, its waiters and its leases. The characters of the key lie behind
/// the object, in the same block of memory: runtime::make_lock_state() makes both. A lock on
/// several keys has views of its keys there, and then their names with a space between two. It has
/// no virtual functions, so that a shared library need not export its type.
class lock_state final {
public:
    explicit lock_state(lock_parts&&) noexcept;
    lock_state(lock_state const&) = delete;
    lock_state& operator=(lock_state const&) = delete;

    runtime::engine& engine() const noexcept { return *settings_->engine; }
    asio::any_io_executor const& executor() const noexcept { return settings_->executor; }
    lock_options const& options() const noexcept { return settings_->options; }
    bool calls_in_place() const noexcept { return settings_->calls_in_place; }
    lock_access access() const noexcept { return settings_->access; }
    /// Zero if it is no semaphore.
    std::uint16_t permits() const noexcept { return settings_->permits; }
    /// With the client's prefix. Of a lock on several keys: their common name.
    std::string_view key() const noexcept {
        return {reinterpret_cast<char const*>(this + 1) + key_count_ * sizeof(std::string_view),
                key_size_};
    }
    /// Of a lock on several keys, in byte order. Empty for a lock on one key.
    std::span<std::string_view const> keys() const noexcept {
        return {reinterpret_cast<std::string_view const*>(this + 1), key_count_};
    }
    /// Visits the key, or each of several keys.
    template <class Visit>
    void for_each_key(Visit&& visit) const {
        if (key_count_ == 0) visit(key());
        for (auto const each : keys()) visit(each);
    }

private:
    friend void intrusive_ptr_add_ref(lock_state const* s) noexcept {
        s->references_.fetch_add(1, std::memory_order_relaxed);
    }
    friend void intrusive_ptr_release(lock_state const* s) noexcept {
        if (s->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(s);
    }

    lock_settings_ptr const settings_;
    mutable std::atomic<std::uint32_t> references_{0};
    std::uint32_t const key_size_ : 24;
    std::uint32_t const key_count_ : 8; ///< zero for a lock on one key
};

/// The keys of a lock on one or several keys.
HOLDFAST_API std::vector<std::string_view> keys_of(lock_state const&);

using lock_state_ptr = boost::intrusive_ptr<lock_state const>;

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
