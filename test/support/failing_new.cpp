#include "support/failing_new.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <execinfo.h>
#include <limits>
#include <new>

// A sanitizer has its own versions of the functions below.
#if defined(__GLIBC__) && !defined(HOLDFAST_TEST_SANITIZED)
#define HOLDFAST_TEST_OWN_MEMALIGN
extern "C" void* __libc_memalign(std::size_t alignment, std::size_t size) noexcept;
#endif

namespace holdfast::test {

namespace {

// Allocates memory that does not count again.
void* aligned_block(std::size_t alignment, std::size_t size) {
#ifdef HOLDFAST_TEST_OWN_MEMALIGN
    return __libc_memalign(alignment, size);
#else
    void* p = nullptr;
    return posix_memalign(&p, alignment, size) == 0 ? p : nullptr;
#endif
}

constexpr auto never = std::numeric_limits<std::uint64_t>::max();

constinit thread_local bool counting = false;
constinit thread_local std::uint64_t counted = 0;
constinit thread_local std::uint64_t fails_at = never;
constinit thread_local may_fail allowed = nullptr;
constinit thread_local failed_allocation last{};

bool fails() {
    if (!counting || counted++ != fails_at) return false;
    counting = false; // allocations by the code below do not count
    last.reached = true;
    last.depth = static_cast<std::size_t>(
        std::max(backtrace(last.frames.data(), static_cast<int>(last.frames.size())), 0));
    last.failed = allowed == nullptr || allowed(last.frames.data(), last.depth);
    counting = true;
    return last.failed;
}

void* allocate(std::size_t size, std::size_t alignment) {
    if (fails()) throw std::bad_alloc();
    auto const rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
    void* const p = alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? aligned_block(alignment, rounded)
                                                                 : std::malloc(rounded);
    if (p == nullptr) throw std::bad_alloc();
    return p;
}

} // namespace

void fail_allocation(std::uint64_t number, may_fail when) noexcept {
    last = {};
    counted = 0;
    fails_at = number;
    allowed = when;
    counting = true;
}
void count_allocations() noexcept {
    fail_allocation(never, nullptr);
}
void allocate_as_ever() noexcept {
    counting = false;
}
void resume_counting() noexcept {
    counting = true;
}
std::uint64_t allocations_counted() noexcept {
    return counted;
}
failed_allocation const& last_failed_allocation() noexcept {
    return last;
}

} // namespace holdfast::test

// All other forms of operator new in the standard library call these.
void* operator new(std::size_t size) {
    return holdfast::test::allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return holdfast::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}

// Asio allocates the memory of its operations with aligned_alloc, and the pools that of their
// blocks with posix_memalign.
#ifdef HOLDFAST_TEST_OWN_MEMALIGN
extern "C" {
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
    return holdfast::test::fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
    auto const before = errno; // posix_memalign must not change it
    auto* const p = holdfast::test::fails() ? nullptr : __libc_memalign(alignment, size);
    errno = before;
    if (p == nullptr) return ENOMEM;
    *block = p;
    return 0;
}
}
#endif
