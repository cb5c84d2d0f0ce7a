// The slot of a key, and the name of its fence counter in a Cluster.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>

using namespace holdfast::redis;
using holdfast::protocol::crc16;
using holdfast::protocol::hash_slot;
using holdfast::protocol::hash_slots;
using namespace std::string_view_literals;

namespace {

std::string plain_name(std::string_view key) {
    std::string name;
    name_fence_key(name, key);
    return name;
}
std::string cluster_name(std::string_view key) {
    std::string name = "left over";
    name_cluster_fence_key(name, key);
    return name;
}

} // namespace

BOOST_AUTO_TEST_SUITE(hash_slot_of_a_key)

BOOST_AUTO_TEST_CASE(slots_are_those_that_servers_compute) {
    BOOST_TEST(crc16("123456789") == 0x31C3); // the check value of CRC16/XMODEM
    struct {
        std::string_view key;
        unsigned slot;
    } constexpr table[] = {
        {"", 0},           {"foo", 12'182},          {"bar", 5'061},
        {"{foo}", 12'182}, {"a{foo}b{bar}", 12'182}, {"123456789", 0x31C3},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.key) {
            BOOST_TEST(hash_slot(row.key) == row.slot);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_first_brace_and_the_next_closing_one_make_the_tag) {
    struct {
        std::string_view key, hashed;
    } constexpr table[] = {
        {"a{b}c", "b"}, {"a{b", "a{b"},      {"a}b{c}", "c"},        {"{}{x}", "{}{x}"},
        {"{}", "{}"},   {"{{b}}", "{b"},     {"a{b}{c}", "b"},       {"}a{", "}a{"},
        {"{a}b}", "a"}, {"a{\0}"sv, "\0"sv}, {"\xff{\xfe}", "\xfe"},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.key) {
            BOOST_TEST(hash_slot(row.key) == crc16(row.hashed) % hash_slots);
        }
    }
}

BOOST_AUTO_TEST_CASE(each_slot_has_a_tag_of_its_own) {
    std::set<std::string> tags;
    for (unsigned slot = 0; slot < hash_slots; ++slot) {
        auto const letters = tag_of_slot(slot);
        std::string const tag(letters.data(), letters.size());
        BOOST_REQUIRE(tag.find_first_not_of("@ABCDEFGHIJKLMNO") == tag.npos);
        BOOST_REQUIRE(hash_slot(tag) == slot);
        tags.insert(tag);
    }
    BOOST_TEST(tags.size() == hash_slots);
}

BOOST_AUTO_TEST_CASE(a_name_that_fits_is_the_name_on_plain_servers) {
    for (auto const key : {"seat:12"sv, "a{b}c"sv, "a{b"sv, "{"sv, "a}b{c}d"sv}) {
        BOOST_TEST_CONTEXT(key) {
            BOOST_TEST(cluster_name(key) == plain_name(key));
        }
    }
    BOOST_TEST(cluster_name("seat:12") == "{seat:12}:fence");
    BOOST_TEST(cluster_name("a{b}c") == "a{b}c:fence");
}

BOOST_AUTO_TEST_CASE(a_key_with_a_closing_brace_and_no_tag_gets_a_tag_before_it) {
    for (auto const key : {"a}b"sv, "a{}b"sv, "{}"sv, "}"sv, "{}{x}"sv, ""sv}) {
        BOOST_TEST_CONTEXT(key) {
            auto const name = cluster_name(key);
            BOOST_TEST(name.substr(5) == '}' + std::string(key) + ":fence");
            BOOST_TEST(hash_slot(name) == hash_slot(key));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_counter_of_any_key_is_in_the_slot_of_the_key) {
    std::mt19937_64 random(12);
    constexpr std::string_view few = "ab{}";
    std::string key, name;
    unsigned wrong = 0;
    for (int n = 0; n < 1'000'000; ++n) {
        key.clear();
        for (auto left = random() % 12; left > 0; --left) {
            auto const bits = random();
            key += n % 4 == 0 ? static_cast<char>(bits) : few[bits % few.size()];
        }
        name_cluster_fence_key(name, key);
        if (hash_slot(name) != hash_slot(key)) ++wrong;
    }
    BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
