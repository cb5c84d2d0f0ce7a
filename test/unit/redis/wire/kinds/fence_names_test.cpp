// The name of the counter beside a key.
#include "redis/wire/kinds/exclusive_key.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <string_view>

using namespace holdfast::redis;

namespace {

std::string fence_key(std::string_view of) {
    std::string name = "an earlier name";
    name_fence_key(name, of);
    return name;
}

} // namespace

BOOST_AUTO_TEST_SUITE(fence_names)

BOOST_AUTO_TEST_CASE(the_counter_of_a_key_without_a_hash_tag_makes_it_one) {
    BOOST_TEST(fence_key("k") == "{k}:fence");
    BOOST_TEST(fence_key("seat:7") == "{seat:7}:fence");
    BOOST_TEST(fence_key("with space") == "{with space}:fence");
    BOOST_TEST((fence_key(std::string_view("a\0b\r\n", 5)) == std::string("{a\0b\r\n}:fence", 13)));
    // No tag: nothing between the first opening brace and the next closing one, or one of them is
    // missing.
    BOOST_TEST(fence_key("{}") == "{{}}:fence");
    BOOST_TEST(fence_key("{}x") == "{{}x}:fence");
    BOOST_TEST(fence_key("x{}{y}") == "{x{}{y}}:fence");
    BOOST_TEST(fence_key("open{") == "{open{}:fence");
    BOOST_TEST(fence_key("{open") == "{{open}:fence");
    BOOST_TEST(fence_key("close}") == "{close}}:fence");
    BOOST_TEST(fence_key("}{") == "{}{}:fence");
    BOOST_TEST(fence_key("}") == "{}}:fence");
    BOOST_TEST(fence_key("{") == "{{}:fence");
}

BOOST_AUTO_TEST_CASE(the_counter_of_a_key_with_a_hash_tag_keeps_it) {
    BOOST_TEST(fence_key("{k}") == "{k}:fence");
    BOOST_TEST(fence_key("seat:{7}") == "seat:{7}:fence");
    BOOST_TEST(fence_key("{7}:seat") == "{7}:seat:fence");
    BOOST_TEST(fence_key("a{b}c{d}") == "a{b}c{d}:fence");
    BOOST_TEST(fence_key("a}b{c}") == "a}b{c}:fence");
    BOOST_TEST(fence_key("{{b}}") == "{{b}}:fence"); // the tag is "{b"
    BOOST_TEST(fence_key("{ }") == "{ }:fence");
    BOOST_TEST((fence_key(std::string_view("{\0}", 3)) == std::string("{\0}:fence", 9)));
}

BOOST_AUTO_TEST_CASE(a_key_and_its_counter_are_in_one_slot_but_for_a_stray_closing_brace) {
    // The part that a Cluster hashes, by its specification.
    auto const hashed = [](std::string_view of) {
        auto const open = of.find('{');
        if (open == of.npos) return of;
        auto const close = of.find('}', open + 1);
        return close == of.npos || close == open + 1 ? of : of.substr(open + 1, close - open - 1);
    };
    std::string const letters = "a{}";
    for (unsigned n = 0; n < 3 * 3 * 3 * 3 * 3; ++n) {
        std::string all;
        for (auto rest = n; all.size() < 5; rest /= 3) all += letters[rest % 3];
        for (std::size_t size = 1; size <= all.size(); ++size) {
            auto const key = all.substr(0, size);
            auto const name = fence_key(key);
            BOOST_TEST_CONTEXT(key << " and " << name) {
                BOOST_TEST(name != key);
                BOOST_TEST(name.find(key) != std::string::npos);
                auto const tagged = hashed(key) != key;
                if (tagged || key.find('}') == key.npos) BOOST_TEST(hashed(name) == hashed(key));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
