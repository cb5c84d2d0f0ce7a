#include "runtime/memory/memory_block.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace holdfast::runtime::memory_block {

// Unlike aligned_alloc(), posix_memalign() takes any size. Operator new would round it up, and then
// the blocks have gaps.
void* allocate() {
    void* block = nullptr;
    if (::posix_memalign(&block, alignment, size) != 0) throw std::bad_alloc();
    return block;
}

// The block is still ours, so its contents may be dropped. The last page also has bytes of the
// allocator.
void release(void* block) noexcept {
    static auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    if (page < size) ::madvise(block, size / page * page, MADV_DONTNEED);
    std::free(block);
}

} // namespace holdfast::runtime::memory_block
