// Locks with equal options share one object that has them.
#ifndef HOLDFAST_RUNTIME_LOCK_SETTINGS_CACHE_HPP
#define HOLDFAST_RUNTIME_LOCK_SETTINGS_CACHE_HPP

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace holdfast::runtime {

/// Finds the settings that were made last. It keeps none alive, because settings keep the engine
/// alive, and the engine owns the cache.
///
/// @par Thread safety  Safe.
class lock_settings_cache {
public:
    /// The options are compared with no more than this many settings.
    static constexpr std::size_t most = 8;

    /// `permits`: of a semaphore, else zero.
    detail::lock_settings_ptr find_or_make(engine&, lock_options const&, lock_access,
                                           std::uint16_t permits);
    /// Called before the settings are destroyed. Their count of references is zero.
    void forget(detail::lock_settings const&) noexcept;

private:
    detail::lock_settings_ptr find(lock_options const&, lock_access,
                                   std::uint16_t permits) const noexcept;

    std::mutex mutex_;
    std::array<detail::lock_settings const*, most> recent_{};
    std::size_t oldest_ = 0;
};

} // namespace holdfast::runtime

#endif
