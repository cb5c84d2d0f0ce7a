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

// Per thread rather than atomic. Counting then costs the code under test one plain increment. The
// allocations of other threads do not blur the figure. In an executable this needs no allocation of
// its own.
constinit thread_local std::uint64_t count = 0;

} // namespace

// The executable's definitions come before libc's for every library it loads. They hand out glibc's
// own blocks, so free() and its like need no replacement.
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
    if (block == nullptr || size != 0) ++count; // else it is a free()
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
    int const before = errno; // which posix_memalign, unlike memalign, leaves alone
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
