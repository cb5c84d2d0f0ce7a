#include "tour/acquire_script.hpp"

#include "tour/late_delete.hpp"
#include "tour/rows.hpp"

namespace tour {

void show_acquire_script(journal& j, circumstances const&) {
    single_server s(j);
    auto a = s.older_client("A");
    auto b = s.older_client("B");
    auto c = s.older_client("C");
    acquire_script of_a(a, seat), of_b(b, seat), of_c(c, seat);
    show_late_delete(s, of_a, of_b, of_c);
}

} // namespace tour
