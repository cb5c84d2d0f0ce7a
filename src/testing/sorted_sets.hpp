// The commands on sorted sets, in the forms that the library uses.
#ifndef HOLDFAST_TESTING_SORTED_SETS_HPP
#define HOLDFAST_TESTING_SORTED_SETS_HPP

#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/reply.hpp"

namespace holdfast::testing {

reply zadd(database&, command_line const&); ///< with or without XX, GT and CH
reply zcard(database&, command_line const&);
reply zcount(database&, command_line const&);
reply zrange(database&, command_line const&);        ///< by index, with or without WITHSCORES
reply zrangebyscore(database&, command_line const&); ///< with or without LIMIT
reply zrem(database&, command_line const&);
reply zremrangebyscore(database&, command_line const&);
reply zscore(database&, command_line const&);

} // namespace holdfast::testing

#endif
