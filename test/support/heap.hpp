// How much memory this process has allocated.
#pragma once

#include <cstddef>
#include <malloc.h>

namespace holdfast::test {

// In bytes.
[[nodiscard]] inline std::size_t heap_in_use() {
    return ::mallinfo2().uordblks;
}

} // namespace holdfast::test
