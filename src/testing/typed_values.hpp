// What the commands on keys of one type share.
#ifndef HOLDFAST_TESTING_TYPED_VALUES_HPP
#define HOLDFAST_TESTING_TYPED_VALUES_HPP

#include "testing/database.hpp"
#include "testing/reply.hpp"

#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace holdfast::testing {

inline reply wrong_type() {
    return reply::error("WRONGTYPE Operation against a key holding the wrong kind of value");
}

inline reply no_room() {
    return reply::error("OOM command not allowed when used memory > 'maxmemory'.");
}

inline reply truth(bool value) {
    return reply::integer(value ? 1 : 0);
}

/// As TYPE names it.
inline std::string_view type_name(database::value const& v) {
    constexpr std::array<std::string_view, std::variant_size_v<database::value>> names{
        "string", "list", "zset"};
    return names[v.index()];
}

/// The value at the key; null if there is no key.
template <class T>
struct found {
    bool wrong = false;
    T const* value = nullptr;
};
template <class T>
found<T> look_up(database& d, std::string const& key) {
    auto const* const v = d.find(key);
    if (v == nullptr) return {};
    auto const* const typed = std::get_if<T>(v);
    return {.wrong = typed == nullptr, .value = typed};
}

} // namespace holdfast::testing

#endif
