// Objects that are made once and used again.
#ifndef HOLDFAST_RUNTIME_POOL_HPP
#define HOLDFAST_RUNTIME_POOL_HPP

#include "runtime/memory/memory_block.hpp"

#include <boost/intrusive/set.hpp>
#include <boost/scope/scope_fail.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>
#include <vector>

namespace holdfast::runtime {

/// Decides how many free objects a pool destroys after each period. Of the objects that were free
/// for the whole period, the pool keeps `retained`, and destroys half of the rest. So the memory of
/// a burst is given back after some periods, and a load that comes again still finds most of its
/// objects.
class spare_policy {
public:
    static constexpr std::size_t retained = 1024;

    /// An object was taken, and `free` objects are left.
    void taken(std::size_t free) noexcept { least_ = std::min(least_, free); }

    /// Called at the end of a period. Returns how many of the `free` objects to destroy.
    std::size_t period_ended(std::size_t free) noexcept {
        auto const unused = std::min(std::exchange(least_, free), free);
        return unused > retained ? (unused - retained + 1) / 2 : 0;
    }

private:
    std::size_t least_ = 0; ///< the fewest free objects in this period
};

/// The objects lie in blocks of 64 KiB. take() prefers the block with the lowest address. So other
/// blocks become free as a whole, and only such blocks are given back. The address of an object is
/// valid until shrink() destroys the object. owns() is true for the address of an object of this
/// pool.
template <class T>
class pool {
public:
    /// `object_size`: of the objects, if they are of a class derived from T.
    explicit pool(std::size_t object_size = sizeof(T))
        : object_size_(object_size)
        , slots_((memory_block::size - sizeof(block) - alignof(std::max_align_t)) /
                 (object_size + sizeof(slot))) {
        assert(slots_ > 0 && object_size % alignof(T) == 0);
    }
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() {
        with_room_.clear();
        for (auto* const b : blocks_) destroy(*b);
    }

    /// If this throws, no object was made.
    template <class... Args>
    T& take(Args&&... args) {
        return take_or_make(
            [&](void* room) { return ::new (room) T(std::forward<Args>(args)...); });
    }
    /// The same, but `make` makes a new object in the room that it gets, and returns a pointer to
    /// it. The T of the object must be at its beginning.
    template <class Make>
    T& take_or_make(Make&& make) {
        if (with_room_.empty()) add_block();
        auto& b = *with_room_.begin();
        T* t = nullptr;
        if (b.first_free != none) {
            t = at(b, b.first_free);
            b.first_free = links(b)[b.first_free];
            --b.free;
            --free_;
        } else {
            t = make(room(b, b.made));
            assert(static_cast<void*>(t) == room(b, b.made));
            ++b.made;
            ++size_;
        }
        if (!has_room(b)) with_room_.erase(with_room_.iterator_to(b));
        spare_.taken(free_);
        return *t;
    }
    void give_back(T& t) noexcept {
        auto& b = *static_cast<block*>(memory_block::start_of(&t));
        auto const number = number_of(b, &t);
        links(b)[number] = b.first_free;
        b.first_free = static_cast<slot>(number);
        ++b.free;
        ++free_;
        if (!b.is_linked()) with_room_.insert(b);
    }

    bool owns(T const* t) const noexcept {
        auto* const b = static_cast<block*>(memory_block::start_of(t));
        if (!std::binary_search(blocks_.begin(), blocks_.end(), b, std::less<>())) return false;
        auto const number = number_of(*b, t);
        return number < b->made && static_cast<void const*>(t) == room(*b, number);
    }
    std::size_t size() const noexcept { return size_; }
    /// The number of objects in a block.
    std::size_t block_objects() const noexcept { return slots_; }

    /// `visit` must take no object.
    template <class Visit>
    void for_each(Visit&& visit) {
        for (auto* const b : blocks_) {
            for (std::size_t i = 0; i < b->made; ++i) visit(*at(*b, i));
        }
    }

    /// To be called once a period. shrink() then destroys objects that were not needed in that
    /// period.
    void period_ended() noexcept { to_go_ = spare_.period_ended(free_); }
    /// Destroys blocks without an object in use, until `most` or more objects are destroyed. Calls
    /// `on_end` for each object of a block before that. If `on_end` returns false, no more objects
    /// are destroyed in this period. Returns true if there are more to destroy.
    template <class OnEnd>
    bool shrink(std::size_t most, OnEnd&& on_end) noexcept {
        auto next = with_room_.end();
        for (std::size_t done = 0; to_go_ > 0 && done < most;) {
            auto* const b = last_unused(next);
            if (b == nullptr || !may_end(*b, on_end)) {
                to_go_ = 0;
                break;
            }
            next = with_room_.erase(with_room_.iterator_to(*b));
            done += b->made;
            to_go_ -= b->made;
            size_ -= b->made;
            free_ -= b->made;
            blocks_.erase(std::lower_bound(blocks_.begin(), blocks_.end(), b, std::less<>()));
            destroy(*b);
        }
        return to_go_ > 0;
    }

private:
    using slot = std::uint16_t;
    static constexpr slot none = 0xffff;

    /// The beginning of a block. Behind it are the links of the free objects, and the objects.
    struct block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
        slot made = 0; ///< objects, free or in use; there may be room for more
        slot free = 0;
        slot first_free = none;

        friend bool operator<(block const& a, block const& b) { return &a < &b; }
    };
    using block_set = boost::intrusive::set<block, boost::intrusive::constant_time_size<false>>;

    static_assert(alignof(T) <= alignof(std::max_align_t));
    static_assert(memory_block::size / sizeof(slot) < none);

    static slot* links(block& b) noexcept { return reinterpret_cast<slot*>(&b + 1); }
    void* room(block const& b, std::size_t number) const noexcept {
        auto const first = memory_block::size - slots_ * object_size_;
        auto const aligned = first / alignof(std::max_align_t) * alignof(std::max_align_t);
        return const_cast<char*>(reinterpret_cast<char const*>(&b)) + aligned +
               number * object_size_;
    }
    T* at(block const& b, std::size_t number) const noexcept {
        return std::launder(static_cast<T*>(room(b, number)));
    }
    /// Too great a number for an address before the first object.
    std::size_t number_of(block const& b, T const* t) const noexcept {
        auto const from = reinterpret_cast<std::uintptr_t>(room(b, 0));
        return (reinterpret_cast<std::uintptr_t>(t) - from) / object_size_;
    }
    bool has_room(block const& b) const noexcept { return b.free > 0 || b.made < slots_; }

    void add_block() {
        auto* const b = ::new (memory_block::allocate()) block;
        boost::scope::scope_fail const undo([&] { destroy(*b); });
        blocks_.insert(std::upper_bound(blocks_.begin(), blocks_.end(), b, std::less<>()), b);
        with_room_.insert(*b);
    }
    void destroy(block& b) noexcept {
        for (std::size_t i = 0; i < b.made; ++i) at(b, i)->~T();
        b.~block();
        memory_block::release(&b);
    }
    /// Of the blocks before `end`, the last without an object in use, if its objects may all go.
    block* last_unused(typename block_set::iterator end) noexcept {
        while (end != with_room_.begin()) {
            auto& b = *--end;
            if (b.free == b.made) return b.made <= to_go_ ? &b : nullptr;
        }
        return nullptr;
    }
    template <class OnEnd>
    bool may_end(block& b, OnEnd&& on_end) noexcept {
        for (std::size_t i = 0; i < b.made; ++i) {
            if (!on_end(*at(b, i))) return false;
        }
        return true;
    }

    std::size_t const object_size_, slots_;
    std::vector<block*> blocks_; ///< by address
    block_set with_room_;
    std::size_t size_ = 0, free_ = 0;
    std::size_t to_go_ = 0;
    spare_policy spare_;
};

} // namespace holdfast::runtime

#endif
