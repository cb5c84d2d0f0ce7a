#include "allocation_counter.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define HOLDFAST_BENCH_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOLDFAST_BENCH_SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(HOLDFAST_BENCH_SANITIZED)

namespace {

// The count is per thread rather than atomic. So counting costs the measured code one plain
// increment, and other threads do not change the figure. In an executable, the thread-local
// variable needs no allocation.
constinit thread_local std::uint64_t count = 0;

} // namespace

// The definitions of the executable replace those of libc for every library that it loads. They
// return glibc's blocks, so free() and similar functions need no replacement.
extern "C" {

void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t many, std::size_t size) noexcept;
void* __libc_realloc(void* block, std::size_t size) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t size) noexcept;

void* malloc(std::size_t size) noexcept {
    ++count;
    return __libc_malloc(size);
}

void* calloc(std::size_t many, std::size_t size) noexcept {
    ++count;
    return __libc_calloc(many, size);
}

void* realloc(void* block, std::size_t size) noexcept {
    if (block == nullptr || size != 0) ++count; // otherwise this is a free()
    return __libc_realloc(block, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
    ++count;
    return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
    ++count;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
    if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    ++count;
    int const before = errno; // posix_memalign, unlike memalign, must not change errno
    void* const got = __libc_memalign(alignment, size);
    errno = before;
    if (got == nullptr) return ENOMEM;
    *block = got;
    return 0;
}

} // extern "C"

namespace holdfast::bench {

std::uint64_t allocations() noexcept {
    return count;
}

bool counts_allocations() noexcept {
    return true;
}

} // namespace holdfast::bench

#else

namespace holdfast::bench {

std::uint64_t allocations() noexcept {
    return 0;
}

bool counts_allocations() noexcept {
    return false;
}

} // namespace holdfast::bench

#endif
