#include "tour/rows.hpp"

#include <array>

namespace tour {

std::span<row const> rows() {
    static constexpr std::array all{
        row{"setnx-then-expire", "1. SETNX, then EXPIRE", show_setnx_then_expire},
        row{"set-then-del", "2. SET NX EX, then DEL", show_set_then_del},
        row{"compare-in-client", "3. GET, compare, DEL in the client", show_compare_in_client},
        row{"deadline-as-value", "4. The deadline as the value, with GETSET",
            show_deadline_as_value},
        row{"acquire-script", "5. SETNX and EXPIRE in one script", show_acquire_script},
        row{"unique-token", "6. SET NX PX with a unique token, compare-and-delete in a script",
            show_unique_token},
        row{"sentinel", "7. The same through Sentinel", show_behind_sentinel},
        row{"cluster", "8. The same in a Cluster", show_in_cluster},
        row{"sequential-redlock", "9. Redlock with one server after the other",
            show_sequential_redlock},
    };
    return all;
}

} // namespace tour
