// A proxy before each server of a fleet.
#ifndef HOLDFAST_TEST_INTEGRATION_PROXY_GROUP_HPP
#define HOLDFAST_TEST_INTEGRATION_PROXY_GROUP_HPP

#include <holdfast/address.hpp>

#include "support/fleet.hpp"
#include "support/proxy.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace holdfast::test {

struct proxy_group {
    explicit proxy_group(fleet const& servers) {
        for (server& instance : servers) all.emplace_back(instance);
    }

    std::vector<address> addresses() const {
        std::vector<address> each;
        for (auto const& proxy : all) each.emplace_back(proxy.url());
        return each;
    }
    proxy& operator[](std::size_t i) { return all.at(i); }

    void hold_requests() {
        for (auto& proxy : all) proxy.hold_requests();
    }
    void hold_replies() {
        for (auto& proxy : all) proxy.hold_replies();
    }
    void resume() {
        for (auto& proxy : all) proxy.resume();
    }
    // True if nothing is under way. Then the next reply belongs to the next command.
    bool are_quiet() const {
        return std::all_of(all.begin(), all.end(), [](auto const& proxy) {
            return proxy.replies_forwarded() == proxy.commands_forwarded();
        });
    }
    bool each_holds_a_reply() const {
        return std::all_of(all.begin(), all.end(),
                           [](auto const& proxy) { return proxy.replies_held() > 0; });
    }

    std::deque<proxy> all;
};

} // namespace holdfast::test

#endif
