#include "runtime/memory_block.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace holdfast::runtime::memory_block {

namespace {

// Standard C wants a multiple of the alignment here, and sanitizers insist on that. The usual
// allocator takes any size, and operator new would round it up: then the blocks have gaps.
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t asked = alignment;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::size_t asked = alignment;
#else
constexpr std::size_t asked = size;
#endif
#else
constexpr std::size_t asked = size;
#endif

} // namespace

void* allocate() {
    if (auto* const block = std::aligned_alloc(alignment, asked)) return block;
    throw std::bad_alloc();
}

// The block is still ours, so its contents may be dropped. The last page also has bytes of the
// allocator.
void release(void* block) noexcept {
    static auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    if (page < size) ::madvise(block, size / page * page, MADV_DONTNEED);
    std::free(block);
}

} // namespace holdfast::runtime::memory_block
