// The counters of fences as instances keep them: the score of the member `n` of a sorted set.
#ifndef HOLDFAST_TEST_COUNTERS_HPP
#define HOLDFAST_TEST_COUNTERS_HPP

#include "support/redis_cli.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace holdfast::test {

/// Empty if there is no counter.
inline std::optional<std::string> counter_at(redis_cli& cli, std::string const& name) {
    auto const score = cli.command({"ZSCORE", name, "n"});
    return score.is_string() ? std::optional(score.string()) : std::nullopt;
}

/// A text that is no score takes the place of the counter, as a string.
inline void set_counter(redis_cli& cli, std::string const& name, std::string const& value,
                        std::chrono::milliseconds ttl = {}) {
    cli.del(name);
    if (!cli.command({"ZADD", name, value, "n"}).is_integer()) cli.set(name, value);
    if (ttl.count() != 0) cli.command({"PEXPIRE", name, std::to_string(ttl.count())});
}
inline void set_counter(server& at, std::string const& name, std::string const& value) {
    redis_cli cli(at);
    set_counter(cli, name, value);
}

} // namespace holdfast::test

#endif
