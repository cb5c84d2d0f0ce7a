// The judge of fault campaigns finds what is wrong in histories that are.
#include "campaign/judge.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace holdfast;
using campaign::claim;
using campaign::judge;
using namespace std::chrono_literals;

/// A history of leases that are all held until they end.
struct history {
    judge::ticket begins(lock_access how, std::uint64_t fence = 0, unsigned slot = 0) {
        return begins(claim{.key = "k", .how = how, .slot = slot, .fence = fence});
    }
    judge::ticket begins(claim c) {
        c.permits = 2;
        if (!c.held) c.held = [] { return true; };
        return judges.begins(c, findings);
    }
    judge::time_point now{};
    judge judges{[this] { return now; }};
    std::vector<std::string> findings;
};

constexpr auto exclusive = lock_access::exclusive, reading = lock_access::read,
               writing = lock_access::write, permit = lock_access::permit;

void wrong(history const& h, std::string const& finding) {
    BOOST_REQUIRE(h.findings.size() == 1U);
    BOOST_TEST(h.findings[0] == finding);
}

} // namespace

BOOST_AUTO_TEST_SUITE(campaign_judge)

BOOST_AUTO_TEST_CASE(two_holders_of_a_key_are_found) {
    for (auto const first : {exclusive, writing, reading, permit}) {
        for (auto const second : {exclusive, writing, reading, permit}) {
            if (first == second && (first == reading || first == permit)) continue;
            history h;
            h.begins(first);
            h.begins(second);
            BOOST_TEST(h.findings.size() == 1U);
        }
    }
}

BOOST_AUTO_TEST_CASE(one_after_the_other_is_right) {
    history h;
    h.judges.ends(h.begins(exclusive, 1));
    auto const reader = h.begins(reading, 1);
    h.judges.ends(h.begins(reading, 1));
    h.judges.ends(reader);
    h.judges.ends(h.begins(writing, 2));
    h.begins(reading, 2);
    BOOST_TEST(h.findings.empty());
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_over_is_no_holder) {
    history h;
    h.begins({.key = "k", .held = [] { return false; }});
    h.begins(exclusive);
    h.begins({.key = "k", .fence = 0, .held = [] { return false; }});
    BOOST_TEST(h.findings.empty());
}

BOOST_AUTO_TEST_CASE(keys_are_told_apart) {
    history h;
    h.begins(claim{.key = "k", .fence = 7});
    h.begins(claim{.key = "other", .fence = 3});
    BOOST_TEST(h.findings.empty());
}

BOOST_AUTO_TEST_CASE(two_holders_of_a_slot_are_found) {
    history h;
    h.begins(permit, 0, 1);
    h.begins(permit, 0, 0);
    BOOST_TEST(h.findings.empty());
    h.judges.ends(h.begins(permit, 0, 1));
    BOOST_TEST(h.findings.front() == "two have the slot 1 of k");
}

BOOST_AUTO_TEST_CASE(too_many_holders_of_permits_are_found) {
    history h;
    h.begins(permit, 0, 0);
    h.begins(permit, 0, 1);
    h.begins(permit, 0, 2);
    wrong(h, "3 have one of 2 permits of k");
}

BOOST_AUTO_TEST_CASE(a_writer_that_reads_lets_readers_in) {
    history h;
    auto const writer = h.begins(writing, 5);
    h.judges.becomes_reader(writer);
    h.begins(reading, 5);
    BOOST_TEST(h.findings.empty());
    h.begins(writing, 6);
    BOOST_TEST(h.findings.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_fence_that_does_not_grow_is_found) {
    for (auto const how : {exclusive, writing, permit}) {
        history h;
        h.judges.ends(h.begins(how, 2));
        h.judges.ends(h.begins(how, 2));
        BOOST_TEST(h.findings.size() == 1U);
    }
    history h;
    h.judges.ends(h.begins(writing, 2));
    h.judges.ends(h.begins(reading, 1));
    wrong(h, "the fence of the key k did not grow");
}

BOOST_AUTO_TEST_CASE(a_writer_needs_a_greater_fence_than_readers_before) {
    history h;
    h.judges.ends(h.begins(reading, 4));
    h.judges.ends(h.begins(writing, 4));
    wrong(h, "the fence of the key k did not grow");
}

BOOST_AUTO_TEST_CASE(what_was_granted_in_a_window_counts_for_nothing) {
    history h;
    auto const before = h.begins(exclusive, 5);
    h.judges.opens_window(1s);
    h.now += 999ms;
    h.begins(exclusive, 4);
    BOOST_TEST(h.findings.empty());
    BOOST_TEST(h.judges.in_windows() == 1U);
    h.now += 1ms;
    auto const after = h.begins(exclusive, 6);
    BOOST_REQUIRE(h.findings.size() == 1U);
    h.judges.ends(after);
    h.judges.ends(before);
    h.begins(exclusive, 7);
    BOOST_TEST(h.findings.size() == 1U);
}

BOOST_AUTO_TEST_CASE(fences_of_slots_are_told_apart) {
    history h;
    h.judges.ends(h.begins(permit, 9, 0));
    h.judges.ends(h.begins(permit, 3, 1));
    BOOST_TEST(h.findings.empty());
}

BOOST_AUTO_TEST_SUITE_END()
