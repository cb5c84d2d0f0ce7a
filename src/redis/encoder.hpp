// Writes the lock's commands, once per round and not once per instance.
//
// SET NX PX, and compare-and-delete by script: https://redis.io/docs/latest/commands/set/ ("Patterns").
// SET IFEQ: Valkey 8.1, Redis 8.4. DELIFEQ: Valkey 9.0. DELEX IFEQ: Redis 8.4.
#ifndef HOLDFAST_REDIS_ENCODER_HPP
#define HOLDFAST_REDIS_ENCODER_HPP

#include "protocol/messages.hpp"
#include "redis/exchange.hpp"

#include <boost/redis/request.hpp>

#include <array>
#include <cstdint>
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

/// Appends a command. `whole_script`: EVAL in the place of EVALSHA, for a server that has forgotten the
/// script.
void encode(boost::redis::request& to, protocol::command, dialect, subject const&, bool whole_script = false);

/// Appends what a contender asks: SET NX PX, and PTTL, whose reading registers us for a push where the
/// connection tracks (CLIENT TRACKING ON OPTIN).
void encode_contend(boost::redis::request& to, subject const&, bool tracked);

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

private:
    protocol::command command_{};
    subject about_;
    std::array<bool, dialects> ready_{};
    std::array<boost::redis::request, dialects> encoded_;
};

} // namespace holdfast::redis

#endif
