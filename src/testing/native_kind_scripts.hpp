// The scripts for readers and writers, and those for permits, in C++.
#ifndef HOLDFAST_TESTING_NATIVE_KIND_SCRIPTS_HPP
#define HOLDFAST_TESTING_NATIVE_KIND_SCRIPTS_HPP

#include "testing/reply.hpp"

namespace holdfast::testing {

class script_run;

reply read_acquire(script_run&);
reply read_acquire_with_fence(script_run&);
reply read_extend(script_run&);
reply read_raise(script_run&);
reply read_release(script_run&);
reply revoke_reader(script_run&);
reply write_acquire(script_run&);
reply write_acquire_with_fence(script_run&);
reply write_release(script_run&);

reply permit_take(script_run&);
reply permit_take_with_fence(script_run&);
reply permit_extend(script_run&);
reply permit_raise(script_run&);
reply permit_release(script_run&);
reply permit_peek(script_run&);
reply revoke_permit(script_run&);

} // namespace holdfast::testing

#endif
