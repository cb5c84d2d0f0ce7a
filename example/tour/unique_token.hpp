// Row 6: a unique token, which the server compares before it deletes the key.
#ifndef HOLDFAST_TOUR_UNIQUE_TOKEN_HPP
#define HOLDFAST_TOUR_UNIQUE_TOKEN_HPP

#include "tour/older_way.hpp"
#include "tour/random_token.hpp"
#include "tour/wire.hpp"

#include <string>
#include <utility>

namespace tour {

inline std::string const compare_and_delete =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) "
    "else return 0 end";

class unique_token final : public older_way {
public:
    unique_token(wire& by, std::string key)
        : wire_(by)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        return wire_.send({"SET", key_, token_, "NX", "PX", in_milliseconds(ttl)}).is_ok();
    }
    void unlock() override { wire_.send({"EVAL", compare_and_delete, "1", key_, token_}); }

private:
    wire& wire_;
    std::string key_;
    std::string token_ = random_token();
};

} // namespace tour

#endif
