// The schedule of the rows that release by DEL: work outlives the lease.
#ifndef HOLDFAST_TOUR_LATE_DELETE_HPP
#define HOLDFAST_TOUR_LATE_DELETE_HPP

#include "tour/older_way.hpp"
#include "tour/single_server.hpp"

namespace tour {

/// The locks of three clients on one key.
void show_late_delete(single_server&, older_way& of_a, older_way& of_b, older_way& of_c);

} // namespace tour

#endif
