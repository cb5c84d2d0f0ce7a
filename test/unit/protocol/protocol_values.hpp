// Short forms for times, sets of instances and origins of data in the tests of the protocol.
#ifndef HOLDFAST_TEST_PROTOCOL_VALUES_HPP
#define HOLDFAST_TEST_PROTOCOL_VALUES_HPP

#include "protocol/instance_set.hpp"
#include "protocol/server/restart_guard.hpp"
#include "protocol/time.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::test {

/// A time after the beginning of a test.
inline protocol::time_point at(protocol::duration since) {
    return protocol::time_point(std::chrono::seconds(1'000) + since);
}

/// "034": the instances 0, 3 and 4.
inline protocol::instance_set of(std::string_view digits) {
    protocol::instance_set s;
    for (char const c : digits) s.insert(static_cast<unsigned>(c - '0'));
    return s;
}
inline std::string text(protocol::instance_set s) {
    std::string digits;
    s.for_each([&](unsigned i) { digits += static_cast<char>('0' + i); });
    return digits;
}

/// The data of one run of a server.
inline protocol::data_origin origin(std::uint64_t run, bool durable) {
    return {.run = run, .history = ~run, .durable = durable};
}

} // namespace holdfast::test

#endif
