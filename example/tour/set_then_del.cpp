#include "tour/set_then_del.hpp"

#include "tour/late_delete.hpp"
#include "tour/rows.hpp"

namespace tour {

void show_set_then_del(journal& j, circumstances const&) {
    single_server s(j);
    auto a = s.older_client("A");
    auto b = s.older_client("B");
    auto c = s.older_client("C");
    set_then_del of_a(a, seat), of_b(b, seat), of_c(c, seat);
    show_late_delete(s, of_a, of_b, of_c);
}

} // namespace tour
