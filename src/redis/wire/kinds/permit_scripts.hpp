// The texts of the scripts for permits. All have two keys: the lock's, a sorted set of the tokens
// by their slots, and `until`, one of the same tokens by their deadlines. Scripts that count have
// `fences` as the third (permit_key.hpp).
//
// At the end of each script both sets have the same members. If they differ when a script begins,
// the server has evicted one of them, or somebody has deleted it. Who has which slot is then
// unknown, so nobody gets one until all that may have one are past their deadlines.
//
// A script may be executed long after it was sent. So none shortens the life of a key or of a
// token.
#ifndef HOLDFAST_REDIS_PERMIT_SCRIPTS_HPP
#define HOLDFAST_REDIS_PERMIT_SCRIPTS_HPP

#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"

#include <string_view>

namespace holdfast::redis {

namespace permit_parts {

inline constexpr std::string_view start =
    "local call,try,K,U,me=redis.call,redis.pcall,KEYS[1],KEYS[2],ARGV[1] ";
/// A token is alive until the first ms after its deadline, as a key of the server is.
inline constexpr std::string_view clock = read_write_parts::clock;

/// `s` is our slot, or false, and `d` our deadline. A value of another type at the key refuses us
/// as any lock does: with -2 if it never expires, else -3 less its time to live.
inline constexpr std::string_view look =
    "local s=try('zscore',K,me) if type(s)=='table' then "
    "if not string.find(s.err,'WRONGTYPE') then return s end "
    "local l=call('pttl',K) return l<0 and -2 or -3-l end "
    "local d=call('zscore',U,me) s=s and (not d or tonumber(d)>now) and tonumber(s) ";

/// Lua's stack has no room for all that may have died.
inline constexpr std::string_view drop =
    "repeat local dead=call('zrangebyscore',U,'-inf',now,'limit',0,1000) "
    "if dead[1] then call('zrem',K,unpack(dead)) call('zrem',U,unpack(dead)) end "
    "until #dead<1000 ";

/// `a` is how many tokens there are.
inline constexpr std::string_view compare =
    "local a,l=call('zcard',K),call('pttl',K) if a~=call('zcard',U) then "
    "if l==-1 then return -2 end local m=call('zrange',U,-1,-1,'withscores') "
    "return -3-math.max(l,0,m[2] and m[2]-now or 0) end ";

/// ARGV: the token, its ttl, the number of slots, a slot, and `only` or `from`. With `only`, no
/// other slot will do. If that one is another's, we give back the slot that we have instead: each
/// of two tokens could otherwise keep the other from its slot. What a refusal reads comes after
/// what it writes, because a server forgets who tracks a key when it is written.
inline constexpr std::string_view choose_only =
    "local n,x=tonumber(ARGV[3]),tonumber(ARGV[4]) if ARGV[5]=='only' then "
    "local o=s~=x and call('zrangebyscore',K,x,x,'limit',0,1)[1] if o then "
    "if s then call('zrem',K,me) call('zrem',U,me) end "
    "local u=call('zscore',U,o) call('pttl',K) return -3-(u and u-now or l) end ";
/// Otherwise the slot that we have will do, or the first free one from the given one on, round.
/// gap() finds the first free slot of some, by counting: from `b` to `x`, at least one is free.
inline constexpr std::string_view choose_any =
    "elseif s then x=s elseif a==0 then x=x%n else "
    "local function gap(first,last) local b,x,w=first,first,1 "
    "while x<=last and call('zcount',K,first,x)>x-first do if x==last then return nil end "
    "b=x+1 x=math.min(last,x+w) w=w*2 end if x>last then return nil end "
    "while b<x do local m=math.floor((b+x)/2) "
    "if call('zcount',K,first,m)>m-first then b=m+1 else x=m end end return x end "
    "local from=x%n "
    "x=(a<n or call('zcount',K,'-inf','('..n)<n) and (gap(from,n-1) or gap(0,from-1)) "
    "if not x then local m=call('zrange',U,0,0,'withscores') return -3-(m[2]-now) end end ";

/// `f` is the number of the tenure, as fenced_acquire_script makes it. A slot that is ours already
/// keeps its number. ARGV[6] and ARGV[7] are the hint and the ttl of the counters.
inline constexpr std::string_view count =
    "local F=KEYS[3] local c=try('zscore',F,x) "
    "if type(c)=='table' and not string.find(c.err,'WRONGTYPE') then return c end "
    "c=c==false and 0 or tonumber(c) "
    "if not (c and c>=0 and c%1==0 and c<90071992547408) then return redis.error_reply("
    "'FENCE no fence can follow where the counter is no number below 2^53/100: '..F) end "
    "local f,h=s==x and math.max(c,1) or c+1,tonumber(ARGV[6]) "
    "if h>f and (h<f+600000 or h<=(t[1]+61)*10000) then f=h end ";

/// Both keys live for longer than each token, and are prolonged at most once in half a ttl: each
/// write of the lock's key wakes those that wait. If the server refuses a command in the middle, we
/// have no slot, unless it was ours already.
inline constexpr std::string_view admit =
    "local function fails(...) local e=try(...) if type(e)=='table' and e.err then "
    "if s~=x then try('zrem',K,me) try('zrem',U,me) end return e end end "
    "local p=tonumber(ARGV[2]) "
    "local e=s~=x and fails('zadd',K,x,me) or fails('zadd',U,math.max(d or 0,now+1+p),me) "
    "if not e and l<=p then l=math.ceil(p*3/2) e=fails('pexpire',K,l) or fails('pexpire',U,l) end ";

inline constexpr std::string_view keep_count =
    "e=e or f~=c and fails('zadd',F,f,x) if not e then l=try('pttl',F) "
    "if type(l)~='number' or l<tonumber(ARGV[7]) then e=fails('pexpire',F,ARGV[7]) "
    "if e and c==0 then try('zrem',F,x) end end end ";

inline constexpr std::string_view plain_end = "return e or x";
inline constexpr std::string_view fenced_end = "return e or {x,f}";

/// The script goes on only if our token is alive and has the slot that is the last argument. If it
/// has another, the answer is -1 less that.
inline constexpr std::string_view find = "local s,d=call('zscore',K,me),call('zscore',U,me) "
                                         "if not s or not d or tonumber(d)<=now then ";
inline constexpr std::string_view is_gone = "return 0 end ";
/// As read_write_parts::compare_to_extend: if a tombstone has the slot, the answer is that.
inline constexpr std::string_view show_tombstone =
    "local x=ARGV[#ARGV] local o=not s and call('zrangebyscore',K,x,x,'limit',0,1)[1] "
    "return o and string.sub(o,1,8)=='revoked@' and string.sub(o,1,64) or 0 end ";
inline constexpr std::string_view compare_slots =
    "if tonumber(s)~=tonumber(ARGV[#ARGV]) then return -1-s end ";

/// The keys come first: a token must not outlive them.
inline constexpr std::string_view extend =
    "local p=tonumber(ARGV[2]) if call('pttl',K)<=p then local l=math.ceil(p*3/2) "
    "call('pexpire',K,l) call('pexpire',U,l) end "
    "if tonumber(d)<now+1+p then call('zadd',U,now+1+p,me) end return 1";

/// ARGV: the token, the number, the ttl of the counters, the slot.
inline constexpr std::string_view raise =
    "local F,x=KEYS[3],ARGV[4] "
    "if tonumber(call('zscore',F,x) or 0)<tonumber(ARGV[2]) then call('zadd',F,ARGV[2],x) end "
    "local l=try('pttl',F) "
    "if type(l)~='number' or l<tonumber(ARGV[3]) then call('pexpire',F,ARGV[3]) end return 1";

/// ARGV[2] is the tombstone. It takes over the slot and the deadline, so the slot stays closed
/// until then. Both sets get it before our token goes: an empty set would lose its ttl.
inline constexpr std::string_view rename =
    "local s,d=try('zscore',K,me),try('zscore',U,me) "
    "if type(s)=='table' and not string.find(s.err,'WRONGTYPE') then return s end "
    "if type(s)~='string' or type(d)~='string' then return 0 end "
    "call('zadd',K,s,ARGV[2]) local e=try('zadd',U,d,ARGV[2]) "
    "if type(e)=='table' then try('zrem',K,ARGV[2]) return e end "
    "call('zrem',K,me) call('zrem',U,me) return 1";

/// A token belongs to one tenure, so it goes from whatever slot it has. A value of another type in
/// the place of one key does not keep it in the other.
inline constexpr std::string_view leave =
    "local d=try('zscore',U,me) local r=try('zrem',K,me) try('zrem',U,me) "
    "if type(r)=='table' then return r end ";
inline constexpr std::string_view leave_end =
    "return r==1 and type(d)=='string' and tonumber(d)>now and 1 or 0";

/// ARGV: the token, the number of slots, and how much of a value is of interest. An array of 0 if
/// there is a free slot, else of a refusal as above; of the token whose slot is the first to become
/// free, or of the value; and of the type.
inline constexpr std::string_view peek =
    "local n=tonumber(ARGV[2]) local c=try('zcount',K,'-inf','('..n) "
    "if type(c)=='table' then if not string.find(c.err,'WRONGTYPE') then return c end "
    "local l,v=call('pttl',K),try('getrange',K,0,ARGV[3]) "
    "return {l<0 and -2 or -3-l,type(v)=='string' and v or '',try('type',K).ok or ''} end "
    "local m,l=call('zrange',U,0,0,'withscores'),call('pttl',K) if m[2] then l=m[2]-now end "
    "if c<n or m[2] and l<=0 then return {0,'','zset'} end "
    "return {l<0 and -2 or -3-l,string.sub(m[1] or '',1,ARGV[3]),'zset'}";

} // namespace permit_parts

inline constexpr auto permit_take_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::look, permit_parts::drop,
           permit_parts::compare, permit_parts::choose_only, permit_parts::choose_any,
           permit_parts::admit, permit_parts::plain_end>::text;
inline constexpr auto permit_fenced_take_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::look, permit_parts::drop,
           permit_parts::compare, permit_parts::choose_only, permit_parts::choose_any,
           permit_parts::count, permit_parts::admit, permit_parts::keep_count,
           permit_parts::fenced_end>::text;
/// Returns 1, 0, -1 less the slot that our token has instead, or the tombstone that has the slot.
inline constexpr auto permit_extend_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::find,
           permit_parts::show_tombstone, permit_parts::compare_slots, permit_parts::extend>::text;
/// Returns 1, 0, or -1 less the slot that our token has instead.
inline constexpr auto permit_raise_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::find, permit_parts::is_gone,
           permit_parts::compare_slots, permit_parts::raise>::text;
inline constexpr auto permit_release_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::leave, permit_parts::drop,
           permit_parts::leave_end>::text;
/// As revoke_script, for one of the permits. KEYS: the lock's and `until`.
inline constexpr auto revoke_permit_script =
    joined<permit_parts::start, permit_parts::rename>::text;
inline constexpr auto permit_peek_script =
    joined<permit_parts::start, permit_parts::clock, permit_parts::peek>::text;

} // namespace holdfast::redis

#endif
