// The users of the servers under test: the one that the library comes as, with the rights that
// doc/production.md names and no others, and the witness, who may do everything.
#pragma once

#include "support/resp.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test::access {

using rules = std::vector<std::string>;

inline constexpr std::string_view user = "app";
inline constexpr std::string_view password = "locks-of-the-tests";

// Rules by feature, as in doc/production.md. The keys have their own.
inline rules const locks{"+info", "+script|load", "+evalsha", "+eval",
                         "+set",  "+get",         "+del",     "+pexpire"};
inline rules const pushes{"+client|tracking", "+client|caching", "+pttl"};
inline rules const reports{"+pttl", "+type", "+getrange"};
inline rules const lists{"+scan"};
inline rules const fences{"+time", "+zadd", "+zscore"};
inline rules const lines{"+lindex", "+lpop", "+lpos", "+lpush", "+rpush", "+lrem"};
inline rules const readers{
    "+time",   "+pttl",  "+zadd", "+zcard", "+zrange", "+zrem", "+zremrangebyscore",
    "+zscore", "+exists"};
inline rules const permits{"+time",   "+pttl",          "+zadd", "+zcard", "+zcount",
                           "+zrange", "+zrangebyscore", "+zrem", "+zscore"};
inline rules const several_keys{"+exists", "+mget"};
inline rules const replicas{"+wait"};
inline rules const cluster{"+cluster|slots", "+cluster|info", "+cluster|nodes", "+asking"};
inline rules const guards{"+time", "+config|get", "+ping"};

// The patterns of the keys with this prefix, and of the counters of fences.
[[nodiscard]] rules keys(std::string_view prefix);
[[nodiscard]] rules fence_keys(std::string_view prefix);
// The same of the lists of fair locks, and of the keys that call their processes.
[[nodiscard]] rules line_keys(std::string_view prefix);
// The same of the keys beside a read-write lock.
[[nodiscard]] rules reader_keys(std::string_view prefix);
// The same of the keys beside a semaphore.
[[nodiscard]] rules permit_keys(std::string_view prefix);

// The line for all features, without those commands that only some servers know.
[[nodiscard]] rules all(std::string_view prefix = {});

// The same without one rule.
[[nodiscard]] rules without(rules from, std::string_view rule);

// ACL SETUSER: exactly these rights.
[[nodiscard]] command_line set_user(std::string_view name, rules const&);

// "redis://app:..@host:port"
[[nodiscard]] std::string url(std::string_view host_and_port, std::string_view name = user);

// The entries of ACL LOG that are about the library's user, one line each.
[[nodiscard]] std::vector<std::string> refusals_in(reply const& acl_log);

// The commands of the library that servers of this process have refused, though no test expected
// it. A server adds its refusals before it ends.
[[nodiscard]] std::vector<std::string> unexpected_refusals();
void add_unexpected_refusals(std::string_view server, std::vector<std::string> const&);

} // namespace holdfast::test::access
