// A library that shifts the wall clock of a server. It is preloaded with LD_PRELOAD. The shift, in
// nanoseconds, is in the file that HOLDFAST_CLOCK_SHIFT names: see shifted_clock.hpp. Monotonic
// clocks do not change.
//
// A server's allocator may ask for the time before anything else is set up. So this code does not
// allocate, lock or look up symbols, and reads the clock by system call. It needs only functions
// that every version of libc has, as servers may use their own libc.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

using nanoseconds = std::int64_t;

constexpr nanoseconds second = 1'000'000'000;

// Null until the library is set up, and if there is no such file. The shift is then 0.
nanoseconds const* shift_in_file = nullptr;

// Runs before main(), because a server stores its start time there.
[[gnu::constructor]] void map_the_file() {
    char const* const path = std::getenv("HOLDFAST_CLOCK_SHIFT");
    if (path == nullptr) return;
    int const file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void* const mapped = ::mmap(nullptr, sizeof(nanoseconds), PROT_READ, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped != MAP_FAILED)
        __atomic_store_n(&shift_in_file, static_cast<nanoseconds*>(mapped), __ATOMIC_RELEASE);
}

nanoseconds shift() {
    nanoseconds const* const from = __atomic_load_n(&shift_in_file, __ATOMIC_ACQUIRE);
    return from == nullptr ? 0 : __atomic_load_n(from, __ATOMIC_RELAXED);
}

int shifted(clockid_t clock, timespec* now) {
    if (::syscall(SYS_clock_gettime, clock, now) != 0) return -1;
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
    nanoseconds const by = shift();
    now->tv_sec += by / second;
    now->tv_nsec += by % second; // has the sign of `by`
    if (now->tv_nsec >= second) {
        now->tv_nsec -= second;
        ++now->tv_sec;
    } else if (now->tv_nsec < 0) {
        now->tv_nsec += second;
        --now->tv_sec;
    }
    return 0;
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
    return shifted(clock, now);
}

int gettimeofday(timeval* now, void* zone) noexcept {
    timespec precise{};
    if (shifted(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    if (zone != nullptr) *static_cast<struct timezone*>(zone) = {}; // Linux does the same
    return 0;
}

time_t time(time_t* now) noexcept {
    timespec precise{};
    if (shifted(CLOCK_REALTIME, &precise) != 0) return -1;
    if (now != nullptr) *now = precise.tv_sec;
    return precise.tv_sec;
}
}
