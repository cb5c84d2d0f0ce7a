// Row 4: the deadline as the value of the key, which has no ttl.
#ifndef HOLDFAST_TOUR_DEADLINE_AS_VALUE_HPP
#define HOLDFAST_TOUR_DEADLINE_AS_VALUE_HPP

#include "tour/older_way.hpp"
#include "tour/wire.hpp"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace tour {

/// Milliseconds since 1970, by the client's machine.
using wall_clock = std::function<std::int64_t()>;

/// With GETSET, so that only one of several clients takes an expired lock.
class deadline_as_value : public older_way {
public:
    deadline_as_value(wire& by, std::string key, wall_clock now)
        : wire_(by)
        , key_(std::move(key))
        , now_(std::move(now)) {}

    bool try_lock(milliseconds ttl) override {
        deadline_ = now_() + ttl.count() + 1;
        auto const text = std::to_string(deadline_);
        if (wire_.send({"SETNX", key_, text}).integer() == 1) return true;
        if (!is_past(wire_.send({"GET", key_}))) return false;
        return take_over(text);
    }
    void unlock() override {
        if (now_() < deadline_) wire_.send({"DEL", key_});
    }

protected:
    virtual bool take_over(std::string const& deadline) {
        return is_past(wire_.send({"GETSET", key_, deadline}));
    }
    /// Takes the number at the beginning of the text, as PHP, JavaScript and C do.
    bool is_past(reply const& deadline) const {
        return deadline.is_nil() ||
               std::strtod(deadline.string().c_str(), nullptr) < static_cast<double>(now_());
    }

    wire& wire_;
    std::string key_;
    wall_clock now_;
    std::int64_t deadline_ = 0;
};

/// The naive variant: deletes an expired lock, and tries again.
class deadline_deleted final : public deadline_as_value {
public:
    using deadline_as_value::deadline_as_value;

protected:
    bool take_over(std::string const& deadline) override {
        wire_.send({"DEL", key_});
        return wire_.send({"SETNX", key_, deadline}).integer() == 1;
    }
};

} // namespace tour

#endif
