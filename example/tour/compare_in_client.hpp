// Row 3: a token, which the client compares before it deletes the key.
#ifndef HOLDFAST_TOUR_COMPARE_IN_CLIENT_HPP
#define HOLDFAST_TOUR_COMPARE_IN_CLIENT_HPP

#include "tour/older_way.hpp"
#include "tour/random_token.hpp"
#include "tour/wire.hpp"

#include <string>
#include <utility>

namespace tour {

class compare_in_client final : public older_way {
public:
    compare_in_client(wire& by, std::string key)
        : wire_(by)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        return wire_.send({"SET", key_, token_, "NX", "PX", in_milliseconds(ttl)}).is_ok();
    }
    void unlock() override {
        auto const value = wire_.send({"GET", key_});
        if (value.is_string() && value.string() == token_) wire_.send({"DEL", key_});
    }

private:
    wire& wire_;
    std::string key_;
    std::string token_ = random_token();
};

} // namespace tour

#endif
