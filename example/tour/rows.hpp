// The older ways to lock with Redis, and the story of each: its hazard on a real server, and the
// same schedule with holdfast.
#ifndef HOLDFAST_TOUR_ROWS_HPP
#define HOLDFAST_TOUR_ROWS_HPP

#include "tour/journal.hpp"

#include <span>
#include <string>
#include <string_view>

namespace tour {

struct circumstances {
    std::string program; ///< the path of the tour, for stories that start a process of it
};

struct row {
    std::string_view name;
    std::string_view title;
    /// Starts its servers, and ends them. Throws std::exception if the schedule cannot be followed.
    void (*show)(journal&, circumstances const&);
};

std::span<row const> rows();

void show_setnx_then_expire(journal&, circumstances const&);
void show_set_then_del(journal&, circumstances const&);
void show_compare_in_client(journal&, circumstances const&);
void show_deadline_as_value(journal&, circumstances const&);
void show_acquire_script(journal&, circumstances const&);
void show_unique_token(journal&, circumstances const&);
void show_behind_sentinel(journal&, circumstances const&);
void show_in_cluster(journal&, circumstances const&);
void show_sequential_redlock(journal&, circumstances const&);

} // namespace tour

#endif
