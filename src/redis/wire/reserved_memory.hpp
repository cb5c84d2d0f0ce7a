// Memory reserved in advance, for handlers that must be able to wait when no memory is left.
#ifndef HOLDFAST_REDIS_RESERVED_MEMORY_HPP
#define HOLDFAST_REDIS_RESERVED_MEMORY_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace holdfast::redis {

/// A few blocks of one size. Any thread may take a block and give it back.
class reserved_memory {
public:
    /// Null if the size does not fit, or if all blocks are in use.
    void* take(std::size_t size) noexcept {
        if (size > sizeof(block::bytes)) return nullptr;
        for (auto& b : blocks_) {
            if (!b.taken.exchange(true, std::memory_order_acquire)) return b.bytes.data();
        }
        return nullptr;
    }
    /// False if the pointer is none of these blocks.
    bool give_back(void* p) noexcept {
        for (auto& b : blocks_) {
            if (b.bytes.data() != p) continue;
            b.taken.store(false, std::memory_order_release);
            return true;
        }
        return false;
    }

private:
    struct block {
        alignas(std::max_align_t) std::array<std::byte, 496> bytes;
        std::atomic<bool> taken{false};
    };
    // A strand takes two blocks for a handler: one for the handler, and one to run the strand
    // itself.
    std::array<block, 2> blocks_;
};

/// Takes a reserved block, or allocates if none is free. The allocator keeps the reserved memory
/// alive, because a context may free a handler's block after the handler is gone.
template <class T>
class reserving_allocator {
public:
    using value_type = T;

    explicit reserving_allocator(std::shared_ptr<reserved_memory> from) noexcept
        : from_(std::move(from)) {}
    template <class U>
    reserving_allocator(reserving_allocator<U> const& other) noexcept
        : from_(other.from_) {}

    T* allocate(std::size_t n) {
        static_assert(alignof(T) <= alignof(std::max_align_t));
        if (auto* const p = from_->take(n * sizeof(T))) return static_cast<T*>(p);
        return static_cast<T*>(::operator new(n * sizeof(T)));
    }
    void deallocate(T* p, std::size_t) noexcept {
        if (!from_->give_back(p)) ::operator delete(p);
    }

    template <class U>
    bool operator==(reserving_allocator<U> const& other) const noexcept {
        return from_ == other.from_;
    }

private:
    template <class U>
    friend class reserving_allocator;
    std::shared_ptr<reserved_memory> from_;
};

} // namespace holdfast::redis

#endif
