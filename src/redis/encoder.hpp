// Writes the lock's commands, once per round and not once per instance.
//
// SET NX PX, and compare-and-delete by script: https://redis.io/docs/latest/commands/set/ ("Patterns").
// SET IFEQ: Valkey 8.1, Redis 8.4. DELIFEQ: Valkey 9.0. DELEX IFEQ: Redis 8.4. Scripts that ask for TIME and
// then write: https://redis.io/docs/latest/develop/programmability/eval-intro/ ("Script replication").
#ifndef HOLDFAST_REDIS_ENCODER_HPP
#define HOLDFAST_REDIS_ENCODER_HPP

#include "protocol/messages.hpp"
#include "redis/exchange.hpp"

#include <boost/redis/request.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// How a server compares before it deletes or extends.
enum class dialect : std::uint8_t {
    scripts,  ///< both by EVALSHA
    set_ifeq, ///< extends by SET IFEQ, deletes by EVALSHA (Valkey 8.1)
    delifeq,  ///< extends by SET IFEQ, deletes by DELIFEQ (Valkey 9)
    delex,    ///< extends by SET IFEQ, deletes by DELEX IFEQ (Redis 8.4)
};
inline constexpr std::size_t dialects = 4;

inline constexpr std::string_view release_script =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
inline constexpr std::string_view extend_script = "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                                  "redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

/// SET NX PX, and where it is granted the next number of the key's tenures: one more than the last, or the hint
/// (ARGV[3]) if that is greater. A hint that is more than a minute beyond the counter must be no more than a
/// minute ahead of the server's clock: one clock that is wrong could use up the numbers of years. Null where
/// the key is somebody's.
inline constexpr std::string_view fenced_acquire_script =
    "local call=redis.call "
    "if not call('set',KEYS[1],ARGV[1],'nx','px',ARGV[2]) then return false end "
    "local c=redis.pcall('get',KEYS[2]) "
    "local n=c==false and 0 or tonumber(c) "
    "if n and n>=0 and n%1==0 and n<140737488355327 then "
    "n=n+1 local h=tonumber(ARGV[3]) "
    "if h>n and (h<n+960000 or h<=((redis.pcall('time')[1] or 0)+61)*16000) then "
    "call('set',KEYS[2],ARGV[3],'px',ARGV[4]) return h end "
    "call('set',KEYS[2],string.format('%.0f',n),'px',ARGV[4]) return n end "
    "call('del',KEYS[1]) "
    "return redis.error_reply('FENCE no fence can follow where the counter is no number below 2^47: "
    "'..KEYS[2])";

/// Lets the counter be at least ours, where the key is still ours, and last for another while.
inline constexpr std::string_view raise_script =
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "local n=tonumber(redis.call('get',KEYS[2]) or 0) "
    "if not n or not (n>=tonumber(ARGV[2])) then redis.call('set',KEYS[2],ARGV[2],'px',ARGV[3]) "
    "else redis.call('pexpire',KEYS[2],ARGV[3]) end return 1";

/// Where an instance counts the tenures of a key: a key of its own, in the same slot of a Cluster. (A key that
/// holds a closing brace and no hash tag has no such neighbour; its counter may then be in another slot.) Keys
/// that share a counter, as `a` and `{a}` do, harm nobody: it grows faster.
void name_fence_key(std::string& name, std::string_view key);

/// Appends a command. `whole_script`: EVAL in the place of EVALSHA, for a server that has forgotten the
/// script.
void encode(boost::redis::request& to, protocol::command, dialect, subject const&, bool whole_script = false);

/// Appends what a contender asks: SET NX PX, and PTTL, whose reading registers us for a push where the
/// connection tracks (CLIENT TRACKING ON OPTIN).
void encode_contend(boost::redis::request& to, subject const&, bool tracked, bool whole_script = false);

/// One command, encoded once for each dialect that is asked for, to be appended to the batches of many
/// instances. Its buffers are kept from one command to the next.
class encoder {
public:
    void start(protocol::command c, subject const& about) {
        command_ = c;
        about_ = about;
        ready_ = {};
    }
    boost::redis::request const& in(dialect d) {
        auto const i = static_cast<std::size_t>(d);
        if (!ready_[i]) {
            encoded_[i].clear();
            encode(encoded_[i], command_, d, about_);
            ready_[i] = true;
        }
        return encoded_[i];
    }
    protocol::command what() const { return command_; }
    bool fenced() const { return about_.fenced(); }

private:
    protocol::command command_{};
    subject about_;
    std::array<bool, dialects> ready_{};
    std::array<boost::redis::request, dialects> encoded_;
};

} // namespace holdfast::redis

#endif
