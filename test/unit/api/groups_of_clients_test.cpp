// Groups of instances: which group a key belongs to, which keys move with the groups, and that a
// lock is at its own group alone. On instances for unit tests, without a server.
#include <holdfast/client_groups.hpp>
#include <holdfast/testing/instance.hpp>

#include "integration/test_client.hpp"
#include "support/text.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

/// Nothing is sent: the context does not run.
struct groups_of_names {
    explicit groups_of_names(std::vector<std::string> const& names)
        : groups{context.get_executor(), described(names)} {}

    static std::vector<client_group> described(std::vector<std::string> const& names) {
        std::vector<client_group> all;
        for (auto const& name : names) all.push_back({name, {"127.0.0.1:1"}});
        return all;
    }
    std::string of(std::string_view key) const { return groups.group_of(key); }

    boost::asio::io_context context;
    client_groups groups;
};

constexpr int many = 10'000;

void rethrow(std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
}

std::string key_number(int i) {
    return "seat:" + std::to_string(i);
}

} // namespace

BOOST_AUTO_TEST_SUITE(groups_of_clients)

// Programs of several versions, and of other authors, have to agree. From a separate
// implementation of xxHash64.
BOOST_AUTO_TEST_CASE(a_key_has_the_group_that_the_header_defines) {
    groups_of_names const three({"a", "b", "c"});
    BOOST_TEST(three.of("seat:1") == "a");
    BOOST_TEST(three.of("seat:2") == "a");
    BOOST_TEST(three.of("seat:3") == "b");
    BOOST_TEST(three.of("") == "c");
    BOOST_TEST(three.of(std::string_view("\0\xff", 2)) == "a");
    BOOST_TEST(three.of("a key of more than thirty-two bytes") == "c");
}

BOOST_AUTO_TEST_CASE(the_order_of_the_groups_is_of_no_meaning) {
    groups_of_names const forwards({"a", "b", "c"}), backwards({"c", "b", "a"});
    for (int i = 0; i < many; ++i) {
        auto const key = key_number(i);
        BOOST_REQUIRE_EQUAL(forwards.of(key), backwards.of(key));
    }
}

BOOST_AUTO_TEST_CASE(each_group_has_about_the_same_number_of_keys) {
    groups_of_names const five({"a", "b", "c", "d", "e"});
    std::map<std::string, int> count;
    for (int i = 0; i < many; ++i) ++count[five.of(key_number(i))];
    BOOST_TEST(count.size() == 5U);
    for (auto const& [name, keys] : count) {
        BOOST_TEST(keys > many / 5 * 0.9, name);
        BOOST_TEST(keys < many / 5 * 1.1, name);
    }
}

BOOST_AUTO_TEST_CASE(only_the_keys_of_a_group_that_comes_or_goes_move) {
    groups_of_names const three({"a", "b", "c"}), four({"a", "b", "c", "d"});
    int moved = 0;
    for (int i = 0; i < many; ++i) {
        auto const key = key_number(i);
        if (three.of(key) == four.of(key)) continue;
        BOOST_TEST(four.of(key) == "d");
        ++moved;
    }
    BOOST_TEST(moved > many / 4 * 0.9);
    BOOST_TEST(moved < many / 4 * 1.1);
}

BOOST_AUTO_TEST_CASE(keys_with_one_hash_tag_belong_to_one_group) {
    groups_of_names const five({"a", "b", "c", "d", "e"});
    for (int i = 0; i < many; ++i) {
        auto const tag = "order:" + std::to_string(i);
        auto const group = five.of(tag);
        BOOST_REQUIRE_EQUAL(five.of("{" + tag + "}:items"), group);
        BOOST_REQUIRE_EQUAL(five.of("of {" + tag + "}"), group);
    }
    // No tags: the whole key counts.
    std::map<std::string, int> groups;
    for (int i = 0; i < 100; ++i) ++groups[five.of("{}" + std::to_string(i))];
    BOOST_TEST(groups.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_list_of_groups_that_is_wrong_is_refused_with_the_value) {
    auto const refused = [](std::vector<client_group> const& groups, std::string_view words) {
        boost::asio::io_context context;
        BOOST_CHECK_EXCEPTION(client_groups(context.get_executor(), groups), system_error,
                              [&](system_error const& e) {
                                  BOOST_TEST(contains(e.what(), words), e.what());
                                  return e.code() == errc::invalid_options;
                              });
    };
    refused({}, "no groups are given");
    refused({{"a", {"127.0.0.1:1"}}, {"", {"127.0.0.1:2"}}}, "the name of a group is empty");
    refused({{"a", {"127.0.0.1:1"}}, {"b", {"127.0.0.1:2"}}, {"a", {"127.0.0.1:3"}}},
            "the group \"a\" is given twice");
    refused({{"a", {}}}, "no instances are given");
}

BOOST_AUTO_TEST_CASE(a_lock_is_at_its_own_group_alone) {
    std::array<testing::instance, 4> instances;
    std::map<std::string, std::array<std::size_t, 2>> const members{{"a", {0, 1}}, {"b", {2, 3}}};
    std::vector<client_group> described;
    for (auto const& [name, own] : members)
        described.push_back({name, {instances[own[0]].address(), instances[own[1]].address()}});
    boost::asio::io_context context;
    client_groups groups(context.get_executor(), described, patient());
    std::map<std::string, int> held;
    auto const work = [&]() -> boost::asio::awaitable<void> {
        for (int i = 0; i < 20; ++i) {
            auto const key = key_number(i);
            auto const group = groups.group_of(key);
            lock const seat =
                i % 2 == 0 ? groups.make_lock(key) : groups.make_lock(key, long_lived);
            lease l = co_await seat.acquire();
            for (auto const& [name, own] : members)
                for (auto const at : own)
                    BOOST_TEST((instances[at].keys() == std::vector{key}) == (name == group));
            co_await l.release();
            ++held[group];
        }
        for (auto& each : groups.clients()) co_await each.shutdown();
    };
    boost::asio::co_spawn(context, work(), rethrow);
    context.run();
    BOOST_TEST(held.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
