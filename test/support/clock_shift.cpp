// Preloaded into a server (LD_PRELOAD), it moves the wall clock that the server sees by the
// nanoseconds that stand in the file named by HOLDFAST_CLOCK_SHIFT: see shifted_clock.hpp.
// Monotonic clocks stay as they are.
//
// A server's allocator may ask for the time before anything else is set up. So nothing here
// allocates, takes a lock or looks up a symbol; the real clock is the system call. Needs nothing
// but libc, and of that only what every version has, as servers may bring their own.
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

// Null, the shift being zero, until the library is set up, and for good when there is no such file.
nanoseconds const* shift_in_file = nullptr;

// Before main(): a server remembers in there when it was started.
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
    now->tv_nsec += by % second; // of the sign of `by`
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
    if (zone != nullptr) *static_cast<struct timezone*>(zone) = {}; // as Linux does
    return 0;
}

time_t time(time_t* now) noexcept {
    timespec precise{};
    if (shifted(CLOCK_REALTIME, &precise) != 0) return -1;
    if (now != nullptr) *now = precise.tv_sec;
    return precise.tv_sec;
}
}
