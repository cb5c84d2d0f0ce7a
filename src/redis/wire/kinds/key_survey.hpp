// The survey: how a user's inspection asks an instance for all that it has of a key. It is the same
// for each kind of lock, because the asking client does not know the kind.
//
// The commands are many, but small, and need no script. Each may be refused: the answer then lacks
// what it tells.
#ifndef HOLDFAST_REDIS_KEY_SURVEY_HPP
#define HOLDFAST_REDIS_KEY_SURVEY_HPP

#include "redis/wire/lock_kind.hpp"

#include <cstdint>

namespace holdfast::redis {

inline constexpr std::uint8_t replies_to_survey = 14;

void encode_survey(codec::request&, wording, command_args const&);
/// As lock_kind::read.
void read_survey(partial_answer&, sent_command const&, unsigned left, element const&);

} // namespace holdfast::redis

#endif
