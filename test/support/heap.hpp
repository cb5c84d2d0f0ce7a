// The memory that this process has allocated.
#pragma once

#include <cstddef>
#include <malloc.h>

namespace holdfast::test {

// The number of allocated bytes.
[[nodiscard]] inline std::size_t heap_in_use() {
    return ::mallinfo2().uordblks;
}

} // namespace holdfast::test
