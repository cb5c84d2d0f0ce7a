// Row 1: SETNX, then EXPIRE.
#ifndef HOLDFAST_TOUR_SETNX_THEN_EXPIRE_HPP
#define HOLDFAST_TOUR_SETNX_THEN_EXPIRE_HPP

#include "tour/older_way.hpp"
#include "tour/wire.hpp"

#include <string>
#include <utility>

namespace tour {

class setnx_then_expire final : public older_way {
public:
    setnx_then_expire(wire& by, std::string key)
        : wire_(by)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        if (wire_.send({"SETNX", key_, "1"}).integer() == 0) return false;
        wire_.send({"EXPIRE", key_, in_seconds(ttl)});
        return true;
    }
    void unlock() override { wire_.send({"DEL", key_}); }

private:
    wire& wire_;
    std::string key_;
};

} // namespace tour

#endif
