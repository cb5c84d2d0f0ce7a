// What a command returns, to a client on a connection or to the script that has called it.
#ifndef HOLDFAST_TESTING_REPLY_HPP
#define HOLDFAST_TESTING_REPLY_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

struct reply {
    enum class kind : std::uint8_t {
        null,
        integer,
        status,
        error,
        bulk,
        real, ///< a number with or without a fraction, as text; a bulk string in RESP2
        array,
        map,   ///< keys and values in turn; an array in RESP2
        pairs, ///< as that, but in RESP3 an array of arrays
        push,
    };

    kind type = kind::null;
    std::int64_t number = 0;
    std::string text{};
    std::vector<reply> parts{};

    static reply null() { return {}; }
    static reply integer(std::int64_t n) { return {.type = kind::integer, .number = n}; }
    static reply ok() { return {.type = kind::status, .text = "OK"}; }
    static reply status(std::string t) { return {.type = kind::status, .text = std::move(t)}; }
    static reply error(std::string t) { return {.type = kind::error, .text = std::move(t)}; }
    static reply bulk(std::string t) { return {.type = kind::bulk, .text = std::move(t)}; }
    static reply real(std::string t) { return {.type = kind::real, .text = std::move(t)}; }
    static reply list(kind k, std::vector<reply> p) { return {.type = k, .parts = std::move(p)}; }

    bool is_error() const { return type == kind::error; }
    bool is_null() const { return type == kind::null; }
};

/// Appends the bytes of `r` in this version of RESP, 2 or 3.
void encode(std::string& out, reply const& r, int protocol);

} // namespace holdfast::testing

#endif
