// The lock with one holder: a string key with the holder's token, and a counter beside it if the
// lock has fences.
//
// SET NX PX, and compare-and-delete by script: https://redis.io/docs/latest/commands/set/
// ("Patterns"). DELIFEQ: Valkey 9.0. DELEX IFEQ: Redis 8.4.
// Scripts that ask for TIME and then write:
// https://redis.io/docs/latest/develop/programmability/eval-intro/ ("Script replication").
#ifndef HOLDFAST_REDIS_EXCLUSIVE_KEY_HPP
#define HOLDFAST_REDIS_EXCLUSIVE_KEY_HPP

#include "redis/wire/lock_kind.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const exclusive_key;

/// Sets `name` to the key of the counter that belongs to `key`. Both are in the same slot of a
/// Cluster, unless `key` has a closing brace and no hash tag. Keys that share a counter, as `a` and
/// `{a}` do, harm no client: the counter grows faster.
void name_fence_key(std::string& name, std::string_view key);

inline constexpr std::string_view release_script =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Never shortens the life of the key: an extension may be executed long after it was sent, when a
/// later one, or a process that adopted the lease, has given the key a longer ttl. No native
/// command can compare the expiry as well as the token. If the server refuses PTTL to the user,
/// the script cannot compare either.
inline constexpr std::string_view extend_script =
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "local l=redis.pcall('pttl',KEYS[1]) "
    "if type(l)~='number' or l<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end "
    "return 1";

/// SET NX PX. Returns null if another holder has the key. A grant returns the next number of the
/// key's tenures: one more than the counter, or the hint (ARGV[3]) if that is greater. A hint that
/// is more than a minute ahead of the counter counts only if it is at most a minute ahead of the
/// server's clock. Otherwise one wrong clock could use up the numbers of years.
inline constexpr std::string_view fenced_acquire_script =
    "local call=redis.call "
    "if not call('set',KEYS[1],ARGV[1],'nx','px',ARGV[2]) then return false end "
    "local c=redis.pcall('get',KEYS[2]) "
    "if type(c)=='table' and not string.find(c.err,'WRONGTYPE') then call('del',KEYS[1]) "
    "return c end "
    "local n=c==false and 0 or tonumber(c) "
    "if n and n>=0 and n%1==0 and n<90071992547408 then "
    "n=n+1 local h=tonumber(ARGV[3]) "
    "if h>n and (h<n+600000 or h<=((redis.pcall('time')[1] or 0)+61)*10000) then "
    "call('set',KEYS[2],ARGV[3],'px',ARGV[4]) return h end "
    "call('set',KEYS[2],string.format('%.0f',n),'px',ARGV[4]) return n end "
    "call('del',KEYS[1]) "
    "return redis.error_reply('FENCE no fence can follow where the counter is no number below "
    "2^53/100: "
    "'..KEYS[2])";

/// If the key is still ours, lifts the counter to at least our number, and renews the ttl of the
/// counter. As extend_script, it never shortens the life of the counter.
inline constexpr std::string_view raise_script =
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "local n=tonumber(redis.call('get',KEYS[2]) or 0) "
    "local l=redis.pcall('pttl',KEYS[2]) "
    "if type(l)~='number' or l<tonumber(ARGV[3]) then l=ARGV[3] end "
    "if not n or not (n>=tonumber(ARGV[2])) then redis.call('set',KEYS[2],ARGV[2],'px',l) "
    "else redis.call('pexpire',KEYS[2],l) end return 1";

} // namespace holdfast::redis

#endif
