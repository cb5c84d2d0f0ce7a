// Row 2: SET NX EX, then DEL.
#ifndef HOLDFAST_TOUR_SET_THEN_DEL_HPP
#define HOLDFAST_TOUR_SET_THEN_DEL_HPP

#include "tour/older_way.hpp"
#include "tour/wire.hpp"

#include <string>
#include <utility>

namespace tour {

class set_then_del final : public older_way {
public:
    set_then_del(wire& by, std::string key)
        : wire_(by)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        return wire_.send({"SET", key_, "1", "NX", "EX", in_seconds(ttl)}).is_ok();
    }
    void unlock() override { wire_.send({"DEL", key_}); }

private:
    wire& wire_;
    std::string key_;
};

} // namespace tour

#endif
