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

/// How many objects a pool may do without: half of those that were unused for a whole period,
/// but for a few. So the memory of a burst is gone after some periods, and a load that comes again
/// and again finds most of it.
class spare_policy {
public:
    static constexpr std::size_t kept = 1024;

    /// An object has been taken, and so many are left free.
    void taken(std::size_t free) noexcept { least_ = std::min(least_, free); }

    /// A period has ended. How many of the free ones may go.
    std::size_t period_ended(std::size_t free) noexcept {
        auto const unused = std::min(std::exchange(least_, free), free);
        return unused > kept ? (unused - kept + 1) / 2 : 0;
    }

private:
    std::size_t least_ = 0; ///< the fewest that were free in this period
};

/// The address of an object does not change, and stays valid until shrink() destroys it; owns()
/// tells whether it is one of ours.
template <class T>
class pool {
public:
    pool() = default;
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() {
        for (auto* const t : all_) delete t;
    }

    /// Where it throws, the pool is as it was.
    template <class... Args>
    T& take(Args&&... args) {
        return take_or_make([&] { return std::make_unique<T>(std::forward<Args>(args)...); });
    }
    /// The same, where `make` makes a new object: std::unique_ptr<T>, or of a class derived from
    /// it.
    template <class Make>
    T& take_or_make(Make&& make) {
        if (free_.empty()) {
            // Room to give it back is made now, as that may not fail.
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

    /// To be called once a period: shrink() destroys objects that were not needed in it.
    void period_ended() noexcept { to_go_ = spare_.period_ended(free_.size()); }
    /// Destroys some of that, `most` objects, after `on_end` was called for each; where that says
    /// no, none from there on. Whether there are more.
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
            // Next time.
        }
    }

    boost::unordered_flat_set<T*> all_;
    std::vector<T*> free_;
    std::size_t to_go_ = 0;
    spare_policy spare_;
};

} // namespace holdfast::runtime

#endif
