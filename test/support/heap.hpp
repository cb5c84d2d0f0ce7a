// The memory that this process has allocated.
#pragma once

#include <cstddef>
#include <fstream>
#include <malloc.h>
#include <unistd.h>

namespace holdfast::test {

// The number of allocated bytes.
[[nodiscard]] inline std::size_t heap_in_use() {
    return ::mallinfo2().uordblks;
}

// The bytes of this process that are in memory.
[[nodiscard]] inline std::size_t resident_bytes() {
    std::size_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace holdfast::test
