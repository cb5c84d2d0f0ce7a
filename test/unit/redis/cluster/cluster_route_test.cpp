// The errors with which a Cluster's nodes refuse a command: their texts, and the next step.
#include "protocol/cluster/cluster_route.hpp"
#include "redis/cluster/slot_redirect.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

using namespace holdfast::protocol;
using namespace std::chrono_literals;
using namespace std::string_view_literals;
using holdfast::redis::parse_cluster_refusal;

namespace {

using enum cluster_refusal::kind;
using step = cluster_step::kind;

constexpr cluster_refusal moved_to_b{.type = moved, .slot = 7, .port = 7001, .host = "b"};
constexpr cluster_refusal ask_b{.type = ask, .slot = 7, .port = 7001, .host = "b"};
constexpr std::array all_commands{command::acquire, command::extend,  command::release,
                                  command::heal,    command::contend, command::raise,
                                  command::inspect, command::track};

step end_of(command c) {
    return c == command::release ? step::keep : step::not_executed;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_route)

BOOST_AUTO_TEST_CASE(each_text_of_a_refusal_is_read) {
    auto const longest = std::string(253, 'x');
    auto const of_longest = "MOVED 1 " + longest + ":1";
    struct {
        std::string_view text;
        cluster_refusal expected;
    } const table[] = {
        {"MOVED 8000 10.0.0.1:7000", {moved, 8000, 7000, "10.0.0.1"}},
        {"ASK 100 n1.example:7000", {ask, 100, 7000, "n1.example"}},
        {"MOVED 0 ::1:7000", {moved, 0, 7000, "::1"}},
        {"MOVED 0 [::1]:7000", {moved, 0, 7000, "::1"}},
        {"ASK 5 fe80::1%eth0:65535", {ask, 5, 65'535, "fe80::1%eth0"}},
        {"MOVED 8000 :19101", {moved, 8000, 19'101, ""}},
        {"MOVED 16383 a:1", {moved, 16'383, 1, "a"}},
        {"MOVED 1 a:1 more words", {moved, 1, 1, "a"}},
        {of_longest, {moved, 1, 1, longest}},
        {"TRYAGAIN Multiple keys request during rehashing of slot", {try_again}},
        {"CROSSSLOT Keys in request don't hash to the same slot", {cross_slot}},
        {"CLUSTERDOWN Hash slot not served", {cluster_down}},
        {"CLUSTERDOWN The cluster is down", {cluster_down}},
        {"CLUSTERDOWN The cluster is down and only accepts read commands", {cluster_down}},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.text) {
            auto const r = parse_cluster_refusal(row.text);
            BOOST_REQUIRE(r.has_value());
            BOOST_TEST((*r == row.expected));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_redirect_with_garbage_is_no_redirect) {
    auto const too_long = "MOVED 1 " + std::string(254, 'x') + ":1";
    for (std::string_view const text : {"MOVED"sv,
                                        "MOVED "sv,
                                        "MOVED 1"sv,
                                        "MOVED 1 "sv,
                                        "MOVED 1 a"sv,
                                        "MOVED 1 a:"sv,
                                        "MOVED 1 a:0"sv,
                                        "MOVED 1 a:65536"sv,
                                        "MOVED 1 a:-1"sv,
                                        "MOVED 1 a:7x"sv,
                                        "MOVED 16384 a:1"sv,
                                        "MOVED -1 a:1"sv,
                                        "MOVED 1x a:1"sv,
                                        "MOVED 99999999999 a:1"sv,
                                        "MOVED  1 a:1"sv,
                                        "MOVED 1  a:1"sv,
                                        "MOVED a:1 1"sv,
                                        "MOVED 1 ?:7000"sv,
                                        "MOVED 1 a/b:1"sv,
                                        "MOVED 1 a@b:1"sv,
                                        "MOVED 1 \0:1"sv,
                                        "MOVED 1 []:1"sv,
                                        "ASK"sv,
                                        "ASK 16384 a:1"sv,
                                        "ASK 1 :x"sv,
                                        std::string_view(too_long)}) {
        BOOST_TEST_CONTEXT(text) {
            auto const r = parse_cluster_refusal(text);
            BOOST_REQUIRE(r.has_value());
            BOOST_TEST((*r == cluster_refusal{.type = malformed}));
        }
    }
}

BOOST_AUTO_TEST_CASE(other_errors_are_none_of_a_cluster) {
    for (auto const text :
         {""sv, "ERR MOVED 1 a:1"sv, "MOVEDX 1 a:1"sv, "moved 1 a:1"sv, "ASKING 1 a:1"sv,
          "WRONGTYPE x"sv, "READONLY You can't write against a read only replica."sv}) {
        BOOST_TEST_CONTEXT(text) {
            BOOST_TEST(!parse_cluster_refusal(text));
        }
    }
}

BOOST_AUTO_TEST_CASE(moved_sets_the_owner_and_the_command_follows) {
    for (auto const c : all_commands) {
        cluster_hops hops;
        BOOST_TEST(
            (hops.refused(moved_to_b, c, true, false) == cluster_step{step::resend, true, true}));
    }
}

BOOST_AUTO_TEST_CASE(ask_leaves_the_map_as_it_is) {
    for (auto const c : all_commands) {
        cluster_hops hops;
        BOOST_TEST((hops.refused(ask_b, c, true, false) ==
                    cluster_step{step::resend_asking, false, false}));
    }
}

BOOST_AUTO_TEST_CASE(a_command_follows_three_redirects_at_most) {
    for (auto const c : all_commands) {
        cluster_hops hops;
        for (int n = 0; n < 3; ++n)
            BOOST_TEST(
                (hops.refused(n % 2 ? moved_to_b : ask_b, c, true, false).type != end_of(c)));
        BOOST_TEST(
            (hops.refused(moved_to_b, c, true, false) == cluster_step{end_of(c), true, true}));
        BOOST_TEST((hops.refused(ask_b, c, true, false) == cluster_step{end_of(c), false, false}));
        BOOST_TEST(hops.hops() == 3U);
    }
}

BOOST_AUTO_TEST_CASE(a_redirect_to_itself_is_not_followed) {
    for (auto const c : all_commands) {
        cluster_hops hops;
        BOOST_TEST(
            (hops.refused(moved_to_b, c, true, true) == cluster_step{end_of(c), false, true}));
        BOOST_TEST((hops.refused(ask_b, c, true, true) == cluster_step{end_of(c), false, false}));
    }
}

BOOST_AUTO_TEST_CASE(the_other_refusals_are_certain_and_end_the_command) {
    for (auto const c : all_commands) {
        for (auto const type : {try_again, cluster_down, cross_slot, malformed}) {
            cluster_hops hops;
            auto const stale = type == cluster_down || type == malformed;
            BOOST_TEST((hops.refused({.type = type}, c, true, false) ==
                        cluster_step{end_of(c), false, stale}));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_command_that_is_not_wanted_any_more_is_not_sent_again) {
    cluster_hops hops;
    BOOST_TEST((hops.refused(moved_to_b, command::acquire, false, false) ==
                cluster_step{step::not_executed, true, true}));
}

BOOST_AUTO_TEST_CASE(a_release_follows_the_last_copy_of_its_grant) {
    grant_route route;
    route.grant_sent(1);
    route.grant_sent(2);
    BOOST_TEST(route.release(3) == 2);
    BOOST_TEST(route.release(4) == 2);
    BOOST_TEST(grant_route().release(3) == 3); // no grant was sent
}

BOOST_AUTO_TEST_CASE(pauses_grow_from_20_to_200_ms) {
    struct {
        unsigned refusals;
        duration longest;
    } constexpr table[] = {{0, 20ms}, {1, 40ms}, {2, 80ms}, {3, 160ms}, {4, 200ms}, {~0U, 200ms}};
    for (auto const& row : table) {
        auto const span = static_cast<std::uint64_t>((row.longest - 20ms).count());
        BOOST_TEST((cluster_pause(row.refusals, 0) == 20ms));
        BOOST_TEST((cluster_pause(row.refusals, span) == row.longest));
        BOOST_TEST((cluster_pause(row.refusals, span + 1) == 20ms));
        BOOST_TEST((cluster_pause(row.refusals, ~std::uint64_t{0}) <= row.longest));
    }
}

BOOST_AUTO_TEST_SUITE_END()
