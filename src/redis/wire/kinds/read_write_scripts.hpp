// The texts of the scripts for readers and writers. All but one have the same keys: the lock's,
// then the fence counter if the script needs that, and `readers`, `intent` and `turn`
// (read_write_key.hpp). An extension has the lock's and `readers` alone: a Cluster refuses a script
// with a key that is not there while the slot migrates, and leases must go on.
//
// At the end of each script the key is the mark if and only if `readers` exists. If `readers` is
// missing when a script begins, the server has evicted it, or somebody has deleted it. Who the
// readers were is then unknown, so nobody is admitted until the key expires.
//
// A script may be executed long after it was sent. So none shortens the life of a key or of a
// reader.
#ifndef HOLDFAST_REDIS_READ_WRITE_SCRIPTS_HPP
#define HOLDFAST_REDIS_READ_WRITE_SCRIPTS_HPP

#include "redis/wire/kinds/lock_scripts.hpp"

#include <string_view>

namespace holdfast::redis {

/// The value of a key with readers. Of the form of a token, so that a report of any client names
/// the holder `readers`. No client draws this token.
inline constexpr std::string_view readers_value = "readers:00000000000000000000000000000000";

namespace read_write_parts {

inline constexpr std::string_view names =
    "local call,try,k=redis.call,redis.pcall,#KEYS local R,I,T=KEYS[k-2],KEYS[k-1],KEYS[k] "
    "local mark='";
inline constexpr std::string_view start = joined<names, readers_value>::text;
inline constexpr std::string_view extend_names =
    "local call,try,R=redis.call,redis.pcall,KEYS[2] local mark='";
inline constexpr std::string_view start_of_extend = joined<extend_names, readers_value>::text;
/// Most often none of the keys is there, and one command shows it.
inline constexpr std::string_view unless_free =
    "' local v,n=false,0 if try('exists',KEYS[1],R,I,T)~=0 then ";
inline constexpr std::string_view look_there =
    "v=try('get',KEYS[1]) "
    "if type(v)=='table' and not string.find(v.err,'WRONGTYPE') then return v end ";
inline constexpr std::string_view block_end = "end ";
/// `v` is false, the key's text, or a table for a value of another type.
inline constexpr std::string_view look =
    "' local v=try('get',KEYS[1]) "
    "if type(v)=='table' and not string.find(v.err,'WRONGTYPE') then return v end ";

/// The server's time in ms. A reader is alive until the first ms after its time has passed, as a
/// key of the server is.
inline constexpr std::string_view clock =
    "local t=call('time') local now=t[1]*1000+math.floor(t[2]/1000) ";

/// A refusal is negative: -2 for a key that never expires, else -3 less the time to live. The last
/// arguments of an acquire: the client's name, and `wait`, `try` or `heal`. Who waits leaves a
/// note, and renews its own. A note of another, and the turn of the readers, stay as they are.
inline constexpr std::string_view refuse =
    "local who,how=ARGV[#ARGV-1],ARGV[#ARGV] "
    "local function refuse(key) local l=call('pttl',key) return l<0 and -2 or -3-l end "
    "local function note(key,text) if how~='wait' then return end local o=call('get',key) "
    "if not o or (o==text and call('pttl',key)<tonumber(ARGV[2])) then "
    "try('set',key,text,'px',ARGV[2]) end end ";

//
// Readers: ARGV is the token and the ttl
//

/// The tombstones among the readers (tombstone.hpp). A reader that was revoked must not come back
/// by a healing. Which tombstone is whose, the server does not know, so each refuses all healings.
inline constexpr std::string_view tombstones =
    "local function show_tombstones() local d={} local a=try('zrange',R,0,-1) "
    "for i=1,#a do if string.sub(a[i],1,8)=='revoked@' then d[#d+1]=string.sub(a[i],1,64) end end "
    "return d[1] and table.concat(d,' ') end ";

inline constexpr std::string_view read_start =
    "if v and v~=mark then note(T,'wait') return refuse(KEYS[1]) end "
    "n=call('zcard',R) if v and n==0 then return refuse(KEYS[1]) end "
    "if how=='heal' and v and show_tombstones() then return refuse(KEYS[1]) end "
    "local i=how~='heal' and call('get',I) "
    "if i and i~=who and call('get',T)~='open' then note(T,'wait') return refuse(I) end ";

/// What is left beside a key that has expired, or was deleted, is no reader's any more.
inline constexpr std::string_view clear = "if v~=mark and n>0 then call('del',R) end ";

/// `f` is the counter, or the hint under the rule of fenced_acquire_script. A reader adds nothing
/// to the counter. But the next writer must have a larger number, so it counts from 1. ZADD comes
/// first, because a full server refuses it only if the script has written nothing before.
inline constexpr std::string_view count =
    "local c=try('zscore',KEYS[2],'n') "
    "if type(c)=='table' and not string.find(c.err,'WRONGTYPE') then return c end "
    "c=c==false and 0 or tonumber(c) "
    "if not (c and c>=0 and c%1==0 and c<90071992547408) then return redis.error_reply("
    "'FENCE no fence can follow where the counter is no number below 2^53/100: '..KEYS[2]) end "
    "local f,h=math.max(c,1),tonumber(ARGV[3]) "
    "if h>f and (h<f+600000 or h<=(t[1]+61)*10000) then f=h end "
    "if f~=c then call('zadd',KEYS[2],f,'n') local e=try('pexpire',KEYS[2],ARGV[4]) "
    "if type(e)=='table' then if c==0 then try('zrem',KEYS[2],'n') end return e end end ";

/// Adds our token to the readers, or moves its time. The key lives for longer than each of them,
/// and is written at most once in half a ttl: each write wakes the writers that wait. A writer's
/// key becomes the readers' with the life that it had. If the server refuses a command in the
/// middle, we are no reader.
inline constexpr std::string_view admit =
    "local p,l,s=tonumber(ARGV[2]),v and call('pttl',KEYS[1]) or 0,"
    "v==mark and call('zscore',R,ARGV[1]) "
    "call('zadd',R,math.max(s or 0,now+1+(v==ARGV[1] and math.max(l,p) or p)),ARGV[1]) "
    "if v~=mark or l<=p then l=math.max(l,math.ceil(p*3/2)) "
    "local e=try('pexpire',R,l) if type(e)=='number' then e=try('set',KEYS[1],mark,'px',l) end "
    "if e.err then if not s then try('zrem',R,ARGV[1]) end return e end end "
    "if v==mark then try('zremrangebyscore',R,'-inf',now) end ";

inline constexpr std::string_view plain_read_end = "return 1";
inline constexpr std::string_view fenced_read_end = "return f";

/// The script goes on only if we are a reader whose time has not passed, or have the key.
inline constexpr std::string_view compare =
    "if v~=ARGV[1] then local s=v==mark and call('zscore',R,ARGV[1]) "
    "if not s or tonumber(s)<=now then return 0 end end ";
/// Readers share a number, so another may have raised the counter to ours.
inline constexpr std::string_view raise_end = "return 1";
/// The same for an extension, which shows the tombstones: one of them may be ours.
inline constexpr std::string_view compare_to_extend =
    "if v~=ARGV[1] then local s=v==mark and call('zscore',R,ARGV[1]) "
    "if not s or tonumber(s)<=now then "
    "if type(v)=='string' and string.sub(v,1,8)=='revoked@' then return string.sub(v,1,64) end "
    "return v==mark and show_tombstones() or 0 end end ";

inline constexpr std::string_view count_readers = "local n=v~=mark and call('zcard',R) ";

/// After a writer, readers that were refused have their turn.
inline constexpr std::string_view open_turn =
    "call('del',KEYS[1]) "
    "if try('get',T)=='wait' then try('set',T,'open','px',ARGV[2]) end ";

/// Who waits for the key hears of it.
inline constexpr std::string_view touch =
    "local l=call('pttl',KEYS[1]) if l>0 then call('pexpire',KEYS[1],l) end ";

/// ARGV: the token, and how long the turn is. The last reader deletes the key. A writer that waits
/// was told the time of the reader that has the most. If that one leaves, the writer asks again:
/// the others may be dead.
inline constexpr std::string_view read_release_begin = "if v==ARGV[1] then ";
inline constexpr std::string_view read_release_end =
    "return 1 end local s=call('zscore',R,ARGV[1]) if not s then return 0 end ";
inline constexpr std::string_view leave =
    "local alive=tonumber(s)>now and 1 or 0 "
    "if v==mark and call('zcard',R)==1 then call('del',KEYS[1],R) return alive end "
    "local m=try('zrange',R,-1,-1)[1] "
    "call('zrem',R,ARGV[1]) try('zremrangebyscore',R,'-inf',now) if v~=mark then return 0 end "
    "if call('zcard',R)==0 then call('del',KEYS[1]) "
    "elseif m==ARGV[1] and try('get',I) then ";
inline constexpr std::string_view leave_end = "end return alive";

/// The set keeps a member all the time, or it would lose its ttl.
inline constexpr std::string_view rename_reader =
    "local s=v==mark and call('zscore',R,ARGV[1]) if not s then return 0 end "
    "call('zadd',R,s,ARGV[2]) call('zrem',R,ARGV[1]) return 1";

//
// Writers
//

/// Readers whose time has passed do not count. The others refuse us until the time of the last.
inline constexpr std::string_view write_start =
    "if v and v~=mark then return refuse(KEYS[1]) end "
    "local m,i,l=call('zrange',R,-1,-1,'withscores'),call('get',I) if v then if m[2] then ";
inline constexpr std::string_view write_end =
    "l=m[2]-now end if not l or l>0 then note(I,who) return l and -3-l or refuse(KEYS[1]) end "
    "elseif how~='heal' and call('get',T)=='open' then return refuse(T) end "
    "if v or m[2] then call('del',KEYS[1],R) end if i==who then call('del',I) end ";

/// ARGV: the token, how long the turn of the readers is, and the client's name. If the client gives
/// up, readers that its note has refused hear of it as they hear of any change of the key.
inline constexpr std::string_view write_release_begin = "local ours=v==ARGV[1] if ours then ";
inline constexpr std::string_view withdraw =
    "end if try('get',I)==ARGV[3] then call('del',I) "
    "if not v then try('set',KEYS[1],mark,'px',1) try('del',KEYS[1]) "
    "elseif v==mark then ";
inline constexpr std::string_view write_release_end = "end end return ours and 1 or 0";

} // namespace read_write_parts

inline constexpr auto read_acquire_script =
    joined<read_write_parts::start, read_write_parts::unless_free, read_write_parts::look_there,
           read_write_parts::refuse, read_write_parts::tombstones, read_write_parts::read_start,
           read_write_parts::block_end, read_write_parts::clock, read_write_parts::clear,
           read_write_parts::admit, read_write_parts::plain_read_end>::text;
/// ARGV[3] and ARGV[4] are the hint and the ttl of the counter.
inline constexpr auto read_fenced_acquire_script =
    joined<read_write_parts::start, read_write_parts::unless_free, read_write_parts::look_there,
           read_write_parts::refuse, read_write_parts::tombstones, read_write_parts::read_start,
           read_write_parts::block_end, read_write_parts::clock, read_write_parts::clear,
           read_write_parts::count, read_write_parts::admit,
           read_write_parts::fenced_read_end>::text;
/// A key with our token is a writer's lease that has become a reader's.
inline constexpr auto read_extend_script =
    joined<read_write_parts::start_of_extend, read_write_parts::look, read_write_parts::clock,
           read_write_parts::tombstones, read_write_parts::compare_to_extend,
           read_write_parts::count_readers, read_write_parts::clear, read_write_parts::admit,
           read_write_parts::plain_read_end>::text;
inline constexpr auto read_raise_script =
    joined<read_write_parts::start, read_write_parts::look, read_write_parts::clock,
           read_write_parts::compare, raise_counter, read_write_parts::raise_end>::text;
inline constexpr auto read_release_script =
    joined<read_write_parts::start, read_write_parts::look, read_write_parts::read_release_begin,
           read_write_parts::open_turn, read_write_parts::read_release_end, read_write_parts::clock,
           read_write_parts::leave, read_write_parts::touch, read_write_parts::leave_end>::text;

inline constexpr auto write_acquire_script =
    joined<read_write_parts::start, read_write_parts::unless_free, read_write_parts::look_there,
           read_write_parts::refuse, read_write_parts::write_start, read_write_parts::clock,
           read_write_parts::write_end, read_write_parts::block_end, fair_parts::plain_end>::text;
inline constexpr auto write_fenced_acquire_script =
    joined<read_write_parts::start, read_write_parts::unless_free, read_write_parts::look_there,
           read_write_parts::refuse, read_write_parts::write_start, read_write_parts::clock,
           read_write_parts::write_end, read_write_parts::block_end, fenced_acquire_script>::text;
inline constexpr auto write_release_script =
    joined<read_write_parts::start, read_write_parts::look, read_write_parts::write_release_begin,
           read_write_parts::open_turn, read_write_parts::withdraw, read_write_parts::touch,
           read_write_parts::write_release_end>::text;

/// As revoke_script, for one of the readers. The tombstone takes over the reader's time, so it
/// keeps writers out for as long. KEYS: the lock's and `readers`.
inline constexpr auto revoke_reader_script =
    joined<read_write_parts::start_of_extend, read_write_parts::look,
           read_write_parts::rename_reader>::text;

} // namespace holdfast::redis

#endif
