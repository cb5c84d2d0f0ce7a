// The owner of a single instance, without a client.
#ifndef HOLDFAST_TEST_SUPPORT_LONE_OWNER_HPP
#define HOLDFAST_TEST_SUPPORT_LONE_OWNER_HPP

#include "redis/server/instance.hpp"

#include <cstdint>
#include <string_view>

namespace holdfast::test {

/// Hears all events, and ignores them. A turn is the call itself.
class lone_owner : public redis::instance_owner {
public:
    void in_turn(turn_work& work) override { work.run(); }
    lease_clock::time_point time() const noexcept override { return {}; }
    bool is_new_server(unsigned, std::string_view) override { return true; }
    void on_push(unsigned, std::string_view) override {}
    void on_push_for_all(unsigned) override {}
    void on_unavailable(unsigned) override {}
    void on_available(unsigned) override {}
    std::uint64_t random_bits() override { return 0; }
    void on_change() override {}
    void on_idle() override {}

protected:
    ~lone_owner() = default;
};

} // namespace holdfast::test

#endif
