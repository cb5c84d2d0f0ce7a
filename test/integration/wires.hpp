// A proxy before each server of a fleet.
#ifndef HOLDFAST_TEST_INTEGRATION_WIRES_HPP
#define HOLDFAST_TEST_INTEGRATION_WIRES_HPP

#include <holdfast/address.hpp>

#include "support/fleet.hpp"
#include "support/proxy.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace holdfast::test {

struct wires {
    explicit wires(fleet const& servers) {
        for (server& one : servers) all.emplace_back(one);
    }

    std::vector<address> addresses() const {
        std::vector<address> each;
        for (auto const& one : all) each.emplace_back(one.address());
        return each;
    }
    proxy& operator[](std::size_t i) { return all.at(i); }

    void hold_requests() {
        for (auto& one : all) one.hold_requests();
    }
    void hold_replies() {
        for (auto& one : all) one.hold_replies();
    }
    void resume() {
        for (auto& one : all) one.resume();
    }
    // Nothing is under way, so that the next reply is the next command's.
    bool are_quiet() const {
        return std::all_of(all.begin(), all.end(), [](auto const& one) {
            return one.replies_forwarded() == one.commands_forwarded();
        });
    }
    bool each_holds_a_reply() const {
        return std::all_of(all.begin(), all.end(),
                           [](auto const& one) { return one.replies_held() > 0; });
    }

    std::deque<proxy> all;
};

} // namespace holdfast::test

#endif
