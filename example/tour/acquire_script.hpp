// Row 5: SETNX and EXPIRE in one script, then DEL.
#ifndef HOLDFAST_TOUR_ACQUIRE_SCRIPT_HPP
#define HOLDFAST_TOUR_ACQUIRE_SCRIPT_HPP

#include "tour/older_way.hpp"
#include "tour/wire.hpp"

#include <string>
#include <utility>

namespace tour {

class acquire_script final : public older_way {
public:
    acquire_script(wire& by, std::string key)
        : wire_(by)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        static std::string const script =
            "if redis.call('setnx',KEYS[1],ARGV[1])==1 then "
            "redis.call('expire',KEYS[1],ARGV[2]) return 1 else return 0 end";
        return wire_.send({"EVAL", script, "1", key_, "1", in_seconds(ttl)}).integer() == 1;
    }
    void unlock() override { wire_.send({"DEL", key_}); }

private:
    wire& wire_;
    std::string key_;
};

} // namespace tour

#endif
