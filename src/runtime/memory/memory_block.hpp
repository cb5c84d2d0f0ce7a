// Large blocks of memory for pools.
#ifndef HOLDFAST_RUNTIME_MEMORY_BLOCK_HPP
#define HOLDFAST_RUNTIME_MEMORY_BLOCK_HPP

#include <cstddef>
#include <cstdint>

namespace holdfast::runtime::memory_block {

/// A block begins at a multiple of this. So the block of an object is known from its address.
inline constexpr std::size_t alignment = 64 * 1024;
/// The usual allocator puts 16 bytes of its own before each block. With them, blocks fit side by
/// side. glibc needs up to `alignment` and 48 bytes more to find an aligned place. From 128 KiB on
/// it would map each block separately, and that costs a page more.
inline constexpr std::size_t size = alignment - 128;

/// Throws std::bad_alloc.
void* allocate();
/// The memory goes back to the operating system. free() alone would keep it, because it lies
/// between other memory of the process.
void release(void*) noexcept;

/// The start of the block in which the address would lie.
inline void* start_of(void const* address) noexcept {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~(alignment - 1));
}

} // namespace holdfast::runtime::memory_block

#endif
