// The texts of the scripts that the library sends. Those for readers and writers are in
// read_write_scripts.hpp. A server knows each by the SHA-1 of its text, and the instance for tests
// (src/testing) has a native form of each.
//
// Scripts that ask for TIME and then write:
// https://redis.io/docs/latest/develop/programmability/eval-intro/ ("Script replication").
#ifndef HOLDFAST_REDIS_LOCK_SCRIPTS_HPP
#define HOLDFAST_REDIS_LOCK_SCRIPTS_HPP

#include <algorithm>
#include <array>
#include <string_view>

namespace holdfast::redis {

/// The text of several parts.
template <std::string_view const&... Parts>
struct joined {
    static constexpr auto characters = [] {
        std::array<char, (Parts.size() + ...)> all{};
        auto* at = all.data();
        ((at = std::copy(Parts.begin(), Parts.end(), at)), ...);
        return all;
    }();
    static constexpr std::string_view text{characters.data(), characters.size()};
};

inline constexpr std::string_view release_script =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Never shortens the life of the key: an extension may be executed long after it was sent, when a
/// later one, or a process that adopted the lease, has given the key a longer ttl. No native
/// command can compare the expiry as well as the token. If the server refuses PTTL to the user,
/// the script cannot compare either. If the key has a tombstone (tombstone.hpp), returns that
/// instead of 0: the holder is to know that it was revoked.
inline constexpr std::string_view extend_script =
    "local v=redis.call('get',KEYS[1]) if v~=ARGV[1] then "
    "return v and string.sub(v,1,8)=='revoked@' and string.sub(v,1,64) or 0 end "
    "local l=redis.pcall('pttl',KEYS[1]) "
    "if type(l)~='number' or l<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end "
    "return 1";

/// SET NX PX. Returns null if another holder has the key. A grant returns the next number of the
/// key's tenures: one more than the counter, or the hint (ARGV[3]) if that is greater. A hint that
/// is more than a minute ahead of the counter counts only if it is at most a minute ahead of the
/// server's clock. Otherwise one wrong clock could use up the numbers of years. The counter is the
/// score of the member `n` of a sorted set: native commands lift that, and never lower it. A key
/// that is ours already is counted for as well, because a native count may have failed. PEXPIRE
/// comes first: if the server refuses it, there is no counter without a ttl.
inline constexpr std::string_view fenced_acquire_script =
    "local call=redis.call "
    "local new=call('set',KEYS[1],ARGV[1],'nx','px',ARGV[2]) "
    "if not new and redis.pcall('get',KEYS[1])~=ARGV[1] then return false end "
    "local c=redis.pcall('zscore',KEYS[2],'n') "
    "if type(c)=='table' and not string.find(c.err,'WRONGTYPE') then "
    "if new then call('del',KEYS[1]) end return c end "
    "local n=c==false and 0 or tonumber(c) "
    "if n and n>=0 and n%1==0 and n<90071992547408 then "
    "n=n+1 local h=tonumber(ARGV[3]) "
    "if h>n and (h<n+600000 or h<=((redis.pcall('time')[1] or 0)+61)*10000) then n=h end "
    "local old=call('pexpire',KEYS[2],ARGV[4]) call('zadd',KEYS[2],n,'n') "
    "if old==0 then call('pexpire',KEYS[2],ARGV[4]) end return n end "
    "if new then call('del',KEYS[1]) end "
    "return redis.error_reply('FENCE no fence can follow where the counter is no number below "
    "2^53/100: "
    "'..KEYS[2])";

/// If the key is still ours, lifts the counter to our number, and renews the ttl of the counter. As
/// extend_script, it never shortens the life of the counter. Returns -1 if the counter has our
/// number or a greater one already: somebody else may have counted to it.
inline constexpr std::string_view raise_start =
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end ";
inline constexpr std::string_view raise_counter =
    "local r,n=-1,tonumber(redis.call('zscore',KEYS[2],'n') or 0) "
    "local l=redis.pcall('pttl',KEYS[2]) "
    "if type(l)~='number' or l<tonumber(ARGV[3]) then l=ARGV[3] end "
    "if not n or n<tonumber(ARGV[2]) then redis.call('zadd',KEYS[2],ARGV[2],'n') r=1 end "
    "redis.call('pexpire',KEYS[2],l) ";
inline constexpr std::string_view raise_end = "return r";
inline constexpr auto raise_script = joined<raise_start, raise_counter, raise_end>::text;

//
// Fair locks. The list is the last of the keys.
//

namespace fair_parts {

inline constexpr std::string_view start = "local call,q=redis.call,KEYS[#KEYS] ";

/// call_next(ms) gives the key to the first token of the list for so long, notifies its process,
/// and returns the token; nil if there is none. It stops at our own token if `own` is true, and
/// passes over that otherwise. A process that cannot be notified gets no key, and keeps its place.
inline constexpr std::string_view call_next =
    "local function call_next(ms,own) local t repeat t=redis.pcall('lpop',q) "
    "if type(t)~='string' then return nil end if own and t==ARGV[1] then return t end "
    "until t~='' and t~=ARGV[1] "
    "if redis.pcall('set',q..':'..t,'','px',ms).err then redis.pcall('lpush',q,t) return nil end "
    "call('set',KEYS[1],t,'px',ms) return t end ";

/// If the key is not ours any more, our token leaves the list, and the server forgets that it was
/// to notify us.
inline constexpr std::string_view release_end =
    "if call('get',KEYS[1])~=ARGV[1] then local n=redis.pcall('lrem',q,0,ARGV[1]) "
    "if type(n)=='number' and n>0 then redis.pcall('set',q..':'..ARGV[1],'','px',1) end return 0 "
    "end if call_next(ARGV[2]) then return 1 end return call('del',KEYS[1])";

/// Frees a key that is ours, for the script that follows. That script then sets no shorter life
/// than the key had: the command may be executed late, when an extension has given it a longer one.
inline constexpr std::string_view free_own =
    "local function free_own() local l=redis.pcall('pttl',KEYS[1]) "
    "if type(l)=='number' and l>tonumber(ARGV[2]) then ARGV[2]=tostring(l) end "
    "call('del',KEYS[1]) end ";

/// A key that is reserved for us becomes free. A newcomer (the last argument) is refused while
/// others stand in line. If we stand there and the key was free, we leave the line.
inline constexpr std::string_view acquire_start =
    "local v=redis.pcall('get',KEYS[1]) "
    "if v==ARGV[1] then free_own() "
    "elseif v or (ARGV[#ARGV]=='1' and type(redis.pcall('lindex',q,0))=='string') then "
    "return false elseif ARGV[#ARGV]~='1' then redis.pcall('lrem',q,0,ARGV[1]) end ";

/// A free key goes to the first in the list. If that is another, or the key is another's, we join
/// the list, unless we stand there. The last arguments: the times of a reservation and of the list
/// in ms, and 1 for a place at the front. A refusal is negative: -2 for a key that never expires,
/// else -3 less the time to live. A value of another program in place of the list stays as it is.
/// The command that follows registers for our turn, also if the key is ours now. So the server is
/// given a key to report, or it would keep the registration: with its time to live that ends too,
/// if this process dies.
inline constexpr std::string_view contend_start =
    "local n=#ARGV local v=redis.pcall('get',KEYS[1]) "
    "if v==ARGV[1] then free_own() else v=v or call_next(ARGV[n-2],true) "
    "if v and v~=ARGV[1] then "
    "local p=redis.pcall('lpos',q,ARGV[1]) "
    "if p==false then call(ARGV[n]=='1' and 'lpush' or 'rpush',q,ARGV[1]) end "
    "if type(p)~='table' then call('pexpire',q,ARGV[n-1]) "
    "redis.pcall('set',q..':'..ARGV[1],'','px',ARGV[n-1]) end "
    "local l=call('pttl',KEYS[1]) return l<0 and -2 or -3-l end end "
    "redis.pcall('set',q..':'..ARGV[1],'','px',ARGV[n-2]) ";

inline constexpr std::string_view plain_end = "call('set',KEYS[1],ARGV[1],'px',ARGV[2]) return 1";

} // namespace fair_parts

inline constexpr auto fair_release_script =
    joined<fair_parts::start, fair_parts::call_next, fair_parts::release_end>::text;
inline constexpr auto fair_acquire_script =
    joined<fair_parts::start, fair_parts::free_own, fair_parts::acquire_start,
           fair_parts::plain_end>::text;
inline constexpr auto fair_fenced_acquire_script =
    joined<fair_parts::start, fair_parts::free_own, fair_parts::acquire_start,
           fenced_acquire_script>::text;
inline constexpr auto fair_contend_script =
    joined<fair_parts::start, fair_parts::call_next, fair_parts::free_own,
           fair_parts::contend_start, fair_parts::plain_end>::text;
inline constexpr auto fair_fenced_contend_script =
    joined<fair_parts::start, fair_parts::call_next, fair_parts::free_own,
           fair_parts::contend_start, fenced_acquire_script>::text;

//
// Locks on several keys: ARGV[1] is the token. The counters follow the keys, in the same order.
//

namespace set_parts {

inline constexpr std::string_view plain_start = "local k,p=#KEYS,2 ";
inline constexpr std::string_view fenced_start = "local k,p=#KEYS/2,4 ";

/// Ends the script if the key i stands in the way: with -i, or with the error if the server refuses
/// GET. A value of another type stands in the way as any other.
inline constexpr std::string_view refuse =
    "if type(v)=='table' and not string.find(v.err,'WRONGTYPE') then return v end return -i end ";

/// A key is free, ours already, or has the token that we have had there before (ARGV[p+i]). Most
/// often none of the keys is there, and one command shows it.
inline constexpr std::string_view look =
    "local ours={} if redis.pcall('exists',unpack(KEYS,1,k))~=0 then for i=1,k do local "
    "v=redis.pcall('get',KEYS[i]) "
    "if v==ARGV[1] then ours[i]=true elseif v and (v=='' or v~=ARGV[p+i]) then ";

/// The number for the set, as fenced_acquire_script makes it: one more than the largest counter, or
/// the hint.
inline constexpr std::string_view count =
    "local n=0 for i=1,k do local c=redis.pcall('zscore',KEYS[k+i],'n') "
    "if type(c)=='table' and not string.find(c.err,'WRONGTYPE') then return c end "
    "c=c==false and 0 or tonumber(c) "
    "if not (c and c>=0 and c%1==0 and c<90071992547408) then "
    "return redis.error_reply('FENCE no fence can follow where the counter is no number below "
    "2^53/100: '..KEYS[k+i]) end if c>n then n=c end end "
    "n=n+1 local h=tonumber(ARGV[3]) "
    "if h>n and (h<n+600000 or h<=((redis.pcall('time')[1] or 0)+61)*10000) then n=h end ";

/// Takes the keys. If the server refuses one of the commands, the keys that were taken are freed.
/// A key that was ours already stays, and its life does not become shorter: the command may be
/// executed late, when an extension has given the key a longer one.
inline constexpr std::string_view take =
    "local taken={} local function try(...) local r=redis.pcall(...) "
    "if type(r)=='table' and r.err then for j=1,#taken do redis.pcall('del',taken[j]) end "
    "return r end end "
    "for i=1,k do local e if ours[i] then local l=redis.pcall('pttl',KEYS[i]) "
    "if type(l)~='number' or l<tonumber(ARGV[2]) then e=try('pexpire',KEYS[i],ARGV[2]) end "
    "else e=try('set',KEYS[i],ARGV[1],'px',ARGV[2]) taken[#taken+1]=KEYS[i] end "
    "if e then return e end end ";

inline constexpr std::string_view plain_end = "return 1";
inline constexpr std::string_view fenced_end =
    "for i=1,k do local c=KEYS[k+i] "
    "local e=try('pexpire',c,ARGV[4]) or try('zadd',c,n,'n') or try('pexpire',c,ARGV[4]) "
    "if e then return e end end return n";

/// The script goes on only if all keys are ours.
inline constexpr std::string_view compare =
    "for i=1,k do local v=redis.pcall('get',KEYS[i]) if v~=ARGV[1] then ";
inline constexpr std::string_view loop_end = "end ";
inline constexpr std::string_view look_end = "end end ";

/// As extend_script and raise_script.
inline constexpr std::string_view show_tombstone =
    "if type(v)=='string' and string.sub(v,1,8)=='revoked@' then return string.sub(v,1,64) end ";
inline constexpr std::string_view extend = "for i=1,k do local l=redis.pcall('pttl',KEYS[i]) "
                                           "if type(l)~='number' or l<tonumber(ARGV[2]) then "
                                           "redis.call('pexpire',KEYS[i],ARGV[2]) end end "
                                           "return 1";
inline constexpr std::string_view raise =
    "local r,low=1,{} for i=1,k do local n=tonumber(redis.call('zscore',KEYS[k+i],'n') or 0) "
    "low[i]=not n or n<tonumber(ARGV[2]) if not low[i] then r=0 end end "
    "for i=1,k do local c=KEYS[k+i] local l=redis.pcall('pttl',c) "
    "if type(l)~='number' or l<tonumber(ARGV[3]) then l=ARGV[3] end "
    "if low[i] then redis.call('zadd',c,ARGV[2],'n') end "
    "redis.call('pexpire',c,l) end return r";

} // namespace set_parts

/// Takes all keys or none. Returns 1, or -i if the key i is another's.
inline constexpr auto set_acquire_script =
    joined<set_parts::plain_start, set_parts::look, set_parts::refuse, set_parts::look_end,
           set_parts::take, set_parts::plain_end>::text;
/// Returns the number of the tenure instead of 1. All counters get it. A raise returns 0 if one of
/// them has it already, or a greater one.
inline constexpr auto set_fenced_acquire_script =
    joined<set_parts::fenced_start, set_parts::look, set_parts::refuse, set_parts::look_end,
           set_parts::count, set_parts::take, set_parts::fenced_end>::text;
inline constexpr auto set_extend_script =
    joined<set_parts::plain_start, set_parts::compare, set_parts::show_tombstone, set_parts::refuse,
           set_parts::loop_end, set_parts::extend>::text;
inline constexpr auto set_raise_script =
    joined<set_parts::fenced_start, set_parts::compare, set_parts::refuse, set_parts::loop_end,
           set_parts::raise>::text;
/// Returns 1 if all keys were ours. If the server refuses to show all at once, each is looked at,
/// and an error does not keep the others.
inline constexpr std::string_view set_release_script =
    "local v=redis.pcall('mget',unpack(KEYS)) if not v.err then local d={} for i=1,#KEYS do "
    "if v[i]==ARGV[1] then d[#d+1]=KEYS[i] end end if #d>0 then redis.call('del',unpack(d)) end "
    "return #d==#KEYS and 1 or 0 end "
    "local r,e=1 for i=1,#KEYS do local v=redis.pcall('get',KEYS[i]) "
    "if v==ARGV[1] then redis.call('del',KEYS[i]) else r=0 "
    "if type(v)=='table' and not string.find(v.err,'WRONGTYPE') then e=v end end end return e or r";
/// Returns {i, ttl, type, the first ARGV[2] bytes} of the first key that is another's, or {0}.
inline constexpr std::string_view set_inspect_script =
    "for i=1,#KEYS do local v=redis.pcall('get',KEYS[i]) if v and v~=ARGV[1] then local t='string' "
    "if type(v)=='table' then if not string.find(v.err,'WRONGTYPE') then return v end "
    "t,v=redis.pcall('type',KEYS[i]),'' end "
    "return {i,redis.pcall('pttl',KEYS[i]),t,string.sub(v,1,ARGV[2])} end end return {0}";

//
// Revocations: ARGV is the token, and the tombstone that takes its place.
//

/// The key expires when it would have. A value of another type is no token.
inline constexpr std::string_view revoke_script =
    "local v=redis.pcall('get',KEYS[1]) "
    "if type(v)=='table' and not string.find(v.err,'WRONGTYPE') then return v end "
    "if v~=ARGV[1] then return 0 end redis.call('set',KEYS[1],ARGV[2],'keepttl') return 1";

} // namespace holdfast::redis

#endif
