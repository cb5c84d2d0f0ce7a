// Objects that are made once and used again.
#ifndef HOLDFAST_RUNTIME_POOL_HPP
#define HOLDFAST_RUNTIME_POOL_HPP

#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace holdfast::runtime {

/// Decides how many free objects a pool destroys after each period. Of the objects that were free
/// for the whole period, the pool keeps `kept`, and destroys half of the rest. So the memory of a
/// burst is given back after some periods, and a load that comes again still finds most of its
/// objects.
class spare_policy {
public:
    static constexpr std::size_t kept = 1024;

    /// An object was taken, and `free` objects are left.
    void taken(std::size_t free) noexcept { least_ = std::min(least_, free); }

    /// Called at the end of a period. Returns how many of the `free` objects to destroy.
    std::size_t period_ended(std::size_t free) noexcept {
        auto const unused = std::min(std::exchange(least_, free), free);
        return unused > kept ? (unused - kept + 1) / 2 : 0;
    }

private:
    std::size_t least_ = 0; ///< the fewest free objects in this period
};

/// The address of an object is valid until shrink() destroys the object. owns() is true for the
/// address of an object of this pool.
template <class T>
class pool {
public:
    pool() = default;
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() {
        for (auto* const t : all_) delete t;
    }

    /// If this throws, the pool is unchanged.
    template <class... Args>
    T& take(Args&&... args) {
        return take_or_make([&] { return std::make_unique<T>(std::forward<Args>(args)...); });
    }
    /// The same, but `make` makes a new object. It returns a std::unique_ptr to T, or to a class
    /// derived from T.
    template <class Make>
    T& take_or_make(Make&& make) {
        if (free_.empty()) {
            // Reserves the room for give_back() now, because give_back() must not fail.
            if (free_.capacity() <= all_.size()) free_.reserve(std::max(all_.size() * 2, smallest));
            auto made = make();
            all_.insert(made.get());
            spare_.taken(0);
            return *made.release();
        }
        auto& t = *free_.back();
        free_.pop_back();
        spare_.taken(free_.size());
        return t;
    }
    void give_back(T& t) noexcept { free_.push_back(&t); }

    bool owns(T* t) const noexcept { return all_.contains(t); }
    std::size_t size() const noexcept { return all_.size(); }

    template <class Visit>
    void for_each(Visit&& visit) {
        for (auto* const t : all_) visit(*t);
    }

    /// To be called once a period. shrink() then destroys objects that were not needed in that
    /// period.
    void period_ended() noexcept { to_go_ = spare_.period_ended(free_.size()); }
    /// Destroys up to `most` of those objects. Calls `on_end` before it destroys an object; if
    /// `on_end` returns false, it destroys no more objects in this period. Returns true if there
    /// are more to destroy.
    template <class OnEnd>
    bool shrink(std::size_t most, OnEnd&& on_end) noexcept {
        for (; to_go_ > 0 && most > 0 && !free_.empty(); --to_go_, --most) {
            auto* const t = free_.back();
            if (!on_end(*t)) {
                to_go_ = 0;
                break;
            }
            free_.pop_back();
            all_.erase(t);
            delete t;
        }
        if (to_go_ > 0 && !free_.empty()) return true;
        to_go_ = 0;
        shrink_tables();
        return false;
    }

private:
    static constexpr std::size_t smallest = 8;

    void shrink_tables() noexcept {
        if (free_.capacity() <= 4 * all_.size() + spare_policy::kept) return;
        try {
            std::vector<T*> smaller;
            smaller.reserve(std::max(all_.size() * 2, smallest));
            smaller.assign(free_.begin(), free_.end());
            free_.swap(smaller);
            all_.rehash(0);
        } catch (std::bad_alloc const&) {
            // A later call tries again.
        }
    }

    boost::unordered_flat_set<T*> all_;
    std::vector<T*> free_;
    std::size_t to_go_ = 0;
    spare_policy spare_;
};

} // namespace holdfast::runtime

#endif
