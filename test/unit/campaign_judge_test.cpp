// The judge of fault campaigns finds what is wrong in histories that are, also in those of
// processes that were killed.
#include "campaign/history.hpp"
#include "campaign/judge.hpp"
#include "campaign/picture.hpp"
#include "campaign/recovery.hpp"
#include "campaign/turns.hpp"
#include "support/swept_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace holdfast;
using campaign::claim;
using campaign::history;
using campaign::judge;
using campaign::moment;
using namespace std::chrono_literals;
using findings = std::vector<std::string>;
using std::chrono::milliseconds;

constexpr auto exclusive = lock_access::exclusive, reading = lock_access::read,
               writing = lock_access::write, permit = lock_access::permit;

/// Asked for when it begins.
claim held(lock_access how, int from, int to, std::uint64_t fence = 0, unsigned slot = 0) {
    return {.key = "k",
            .how = how,
            .slot = slot,
            .permits = 2,
            .fence = fence,
            .asked = moment(from),
            .begins = moment(from),
            .ends = moment(to)};
}

/// By one process.
claim held_on(std::string const& key, milliseconds from, milliseconds to) {
    auto c = held(exclusive, 0, 0);
    c.key = key;
    c.begins = from;
    c.ends = to;
    return c;
}

findings of(std::vector<claim> const& all) {
    return judge().findings(all);
}

void right(std::vector<claim> const& all) {
    auto const found = of(all);
    BOOST_TEST(found.empty(), (found.empty() ? "" : found.front()));
}
void wrong(std::vector<claim> const& all, std::string const& finding) {
    auto const found = of(all);
    BOOST_REQUIRE(found.size() == 1U);
    BOOST_TEST(found[0].starts_with(finding + ", from "), found[0]);
}

history read(std::string const& text) {
    test::swept_folder const folder;
    history h;
    h.read(folder.write("history", text));
    return h;
}

} // namespace

BOOST_AUTO_TEST_SUITE(campaign_judge)

BOOST_AUTO_TEST_CASE(a_finding_has_its_time) {
    auto const found =
        judge({}, 5ms).findings({held(exclusive, 9'000, 12'000), held(exclusive, 11'500, 13'000)});
    BOOST_REQUIRE(found.size() == 1U);
    BOOST_TEST(found[0] == "two have the key k for 500 us, from 6 ms on");
}

BOOST_AUTO_TEST_CASE(two_holders_of_a_key_are_found) {
    for (auto const first : {exclusive, writing, reading, permit}) {
        for (auto const second : {exclusive, writing, reading, permit}) {
            if (first == second && (first == reading || first == permit)) continue;
            BOOST_TEST(of({held(first, 10, 20), held(second, 15, 30)}).size() == 1U);
            BOOST_TEST(of({held(first, 10, 20), held(second, 12, 18)}).size() == 1U);
            BOOST_TEST(of({held(second, 10, 10), held(first, 5, 20)}).size() == 1U);
        }
    }
    wrong({held(exclusive, 10, 20), held(exclusive, 13, 30)}, "two have the key k for 7 us");
}

BOOST_AUTO_TEST_CASE(one_after_the_other_is_right) {
    right({held(writing, 10, 20, 1), held(reading, 20, 30, 2), held(reading, 25, 40, 2),
           held(writing, 40, 50, 3), held(reading, 51, 60, 4)});
    right({held(exclusive, 30, 40, 2), held(exclusive, 10, 30, 1)});
}

BOOST_AUTO_TEST_CASE(keys_are_told_apart) {
    auto other = held(exclusive, 10, 20, 3);
    other.key = "other";
    right({held(exclusive, 10, 20, 7), other});
}

BOOST_AUTO_TEST_CASE(two_holders_of_a_slot_are_found) {
    right({held(permit, 10, 20, 0, 1), held(permit, 10, 20, 0, 0), held(permit, 20, 30, 0, 1)});
    wrong({held(permit, 10, 20, 0, 1), held(permit, 19, 30, 0, 1)},
          "two have the slot 1 of k for 1 us");
}

BOOST_AUTO_TEST_CASE(too_many_holders_of_permits_are_found) {
    wrong({held(permit, 10, 20, 0, 0), held(permit, 11, 20, 0, 1), held(permit, 12, 20, 0, 2)},
          "3 have one of 2 permits of k");
}

BOOST_AUTO_TEST_CASE(a_writer_that_reads_lets_readers_in) {
    auto writer = held(writing, 10, 30, 5);
    writer.reads = moment(20);
    right({writer, held(reading, 20, 40, 6)});
    wrong({writer, held(reading, 19, 40, 6)}, "two have the key k for 1 us");
    wrong({writer, held(writing, 25, 40, 6)}, "two have the key k for 5 us");
}

BOOST_AUTO_TEST_CASE(a_fence_that_does_not_grow_is_found) {
    for (auto const how : {exclusive, writing, permit}) {
        auto const found = of({held(how, 10, 20, 2), held(how, 21, 30, 2)});
        BOOST_TEST(found.size() == 1U);
    }
    wrong({held(writing, 10, 20, 2), held(reading, 21, 30, 1)},
          "the fence 1 of the key k follows 2");
    wrong({held(writing, 10, 20, 2), held(reading, 21, 30, 2)},
          "the fence 2 of the key k follows 2");
    right({held(writing, 10, 20, 2), held(reading, 21, 30, 3), held(reading, 31, 40, 3)});
    wrong({held(reading, 10, 20, 4), held(writing, 21, 30, 4)},
          "the fence 4 of the key k follows 4");
}

// The holder before was told late that its lease had ended.
BOOST_AUTO_TEST_CASE(a_fence_counts_from_its_grant_on_for_those_who_ask_later) {
    auto lost = held(reading, 10, 12, 9);
    auto late = held(writing, 30, 40, 8);
    late.asked = moment(11);
    wrong({lost, late}, "the fence 8 of the key k follows 9");
    // Both were asked for before one of them was given.
    auto first = held(permit, 10, 20, 9, 1), second = held(permit, 20, 30, 8, 1);
    second.asked = moment(5);
    right({first, second});
}

BOOST_AUTO_TEST_CASE(an_adopted_lease_keeps_its_fence) {
    auto adopted = held(exclusive, 21, 30, 2);
    wrong({held(exclusive, 10, 20, 2), adopted}, "the fence 2 of the key k follows 2");
    adopted.adopted = true;
    right({held(exclusive, 10, 20, 2), adopted});
    wrong({held(exclusive, 10, 20, 3), adopted}, "the fence 2 of the key k follows 3");
}

BOOST_AUTO_TEST_CASE(fences_of_slots_are_told_apart) {
    right({held(permit, 10, 20, 9, 0), held(permit, 21, 30, 3, 1)});
}

BOOST_AUTO_TEST_CASE(what_was_granted_in_a_window_may_overlap_until_it_ends) {
    judge judges({{moment(15), moment(20)}});
    auto const before = held(exclusive, 10, 20, 5), within = held(exclusive, 15, 100, 4);
    BOOST_TEST(judges.findings({before, within}).empty());
    BOOST_TEST(judges.in_windows() == 1U);
    BOOST_TEST(judges.findings({held(exclusive, 10, 21, 5), within}).size() == 1U);
    BOOST_TEST(judges.findings({within, held(exclusive, 20, 30, 6)}).size() == 1U);
    BOOST_TEST(judges.findings({before, within, held(exclusive, 101, 110, 6)}).empty());
}

BOOST_AUTO_TEST_CASE(one_that_waited_longer_and_came_later_is_found) {
    auto first = held(exclusive, 100, 110), second = held(exclusive, 120, 130);
    first.asked = moment(50);
    second.asked = moment(43);
    right({first, second});
    first.waited = second.waited = true;
    wrong({first, second}, "one waited for the key k longer than the one before, by 7 us");
    second.client = 1;
    right({first, second});
    second.client = 0;
    second.asked = moment(60);
    right({first, second});
}

BOOST_AUTO_TEST_CASE(processes_out_of_turn_are_found) {
    auto const waits = [](unsigned client, moment asked, moment begins) {
        return claim{.key = "turns0",
                     .client = client,
                     .waited = true,
                     .asked = asked,
                     .begins = begins,
                     .ends = begins + 500ms};
    };
    auto const look = [](std::vector<claim> const& all,
                         std::vector<campaign::window> const& w = {}) {
        return campaign::look_at_turns(all, w);
    };
    std::vector<claim> const right{waits(0, 0ms, 1s), waits(1, 200ms, 2s), waits(2, 400ms, 3s)};
    BOOST_TEST(look(right).judged == 3U);
    BOOST_TEST(look(right).out.empty());
    std::vector<claim> const wrong{waits(0, 0ms, 2s), waits(1, 200ms, 1s)};
    BOOST_TEST(look(wrong).judged == 1U);
    BOOST_TEST(
        look(wrong).out ==
            findings{"the key turns0 went to a process that had waited for 800 ms, and not to "
                     "one that had waited for 1000 ms and went on for 1000"},
        boost::test_tools::per_element());
    BOOST_TEST(!look(wrong).disorderly());
    campaign::turns many{.judged = 40, .out = findings(6)};
    BOOST_TEST(!many.disorderly());
    many.out.emplace_back();
    BOOST_TEST(many.disorderly());
    // Of one process, of other locks, and where neither waited while the other did.
    BOOST_TEST(look({waits(0, 0ms, 2s), waits(0, 200ms, 1s)}).judged == 0U);
    auto other = wrong;
    for (auto& c : other) c.key = "fair0";
    BOOST_TEST(look(other).judged == 0U);
    BOOST_TEST(look({waits(0, 0ms, 1s), waits(1, 1'200ms, 2s)}).judged == 0U);
    // They asked almost at once, or something went wrong meanwhile.
    BOOST_TEST(look({waits(0, 0ms, 2s), waits(1, 90ms, 1s)}).judged == 0U);
    BOOST_TEST(look(wrong, {{500ms, 600ms}}).judged == 0U);
    BOOST_TEST(look(wrong, {{2s, 3s}}).judged == 1U);
    // One asks in the moment of a release.
    auto with_release = wrong;
    with_release.push_back(waits(2, -2s, -420ms));
    BOOST_TEST(look(with_release).judged == 0U);
}

BOOST_AUTO_TEST_CASE(memory_that_grows_is_found) {
    std::vector<campaign::usage_look> looks;
    for (unsigned i = 0; i < 30; ++i) looks.push_back({0, 20'000 + i});
    for (unsigned i = 0; i < 11; ++i) looks.push_back({2, 1'000 * i}); // too short a life
    BOOST_TEST(campaign::memory_findings(looks).empty());
    for (unsigned i = 0; i < 30; ++i) looks.push_back({1, 20'000 + 600 * i});
    BOOST_TEST(campaign::memory_findings(looks) ==
                   findings{"the memory of a client has grown from 31400 KiB to 37400"},
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_client_that_computes_all_the_time_is_found) {
    auto const found = [](int from, int to, milliseconds waits = 0ms) {
        std::vector<campaign::usage_look> looks;
        milliseconds computed{0};
        for (int i = 0; i < 30; ++i) {
            looks.push_back({1, 1'000, i * 2s, computed, i * waits});
            looks.push_back({2, 1'000, i * 2s, i * 1'500ms}); // much, and not all
            computed += i >= from && i < to ? 2'000ms - waits : 0ms;
        }
        return campaign::processor_findings(looks);
    };
    BOOST_TEST(found(0, 0).empty());
    BOOST_TEST(found(3, 7).empty());
    for (auto const from : {0, 12, 24}) {
        auto const all = found(from, from + 5);
        BOOST_REQUIRE(all.size() == 1U);
        BOOST_TEST(all.front().starts_with("the client 1 has computed for 10.0"));
    }
    BOOST_TEST(found(0, 0, 1'900ms).empty());
    BOOST_TEST(found(3, 9, 1'800ms).size() == 1U); // on a busy machine
    BOOST_TEST(campaign::processor_findings({}).empty());
}

BOOST_AUTO_TEST_CASE(a_loss_without_a_pause_of_its_client_is_found) {
    std::vector<campaign::loss> const lost{{1, 5s}};
    auto const unexplained = [&](unsigned client, moment from, moment to) {
        return campaign::unexplained(lost, {{client, from, to}});
    };
    BOOST_TEST(campaign::unexplained(lost, {}) == 1U);
    BOOST_TEST(unexplained(1, 4'500ms, 4'900ms) == 0U);
    BOOST_TEST(unexplained(1, 4'800ms, 5'200ms) == 0U);
    BOOST_TEST(unexplained(2, 4'500ms, 4'900ms) == 1U);
    BOOST_TEST(unexplained(1, 4'500ms, 4'700ms) == 1U);
    BOOST_TEST(unexplained(1, 3'000ms, 3'900ms) == 1U);
    BOOST_TEST(unexplained(1, 5'100ms, 5'500ms) == 1U);
}

BOOST_AUTO_TEST_CASE(an_adoption_that_is_refused_without_a_fault_is_found) {
    auto const refused = [](moment asked, moment told) {
        return campaign::refusals({{1, asked, told, "k 1 us"}}, {{5s, 6s}});
    };
    BOOST_TEST(refused(4'000ms, 4'999ms).size() == 1U);
    BOOST_TEST(refused(4'000ms, 5'000ms).empty());
    BOOST_TEST(refused(5'500ms, 5'501ms).empty());
    BOOST_TEST(refused(7'000ms, 7'001ms).empty());
    BOOST_REQUIRE(refused(7'001ms, 7'002ms).size() == 1U);
    BOOST_TEST(refused(7'001ms, 7'002ms).front() ==
               "client 1 could not adopt a lease, and there was no fault: k 1 us");
}

// Keys that are seldom taken count for nothing.
BOOST_AUTO_TEST_CASE(the_time_without_a_holder_because_of_a_fault_is_told) {
    std::vector<claim> claims;
    auto const add = [&](std::string const& key, milliseconds from, milliseconds to) {
        claims.push_back(held_on(key, from, to));
    };
    for (int i = 0; i < 20; ++i) {
        add("often", i * 1s, i * 1s + 950ms);
        if (i != 10) add("too", i * 1s, i * 1s + 900ms);
    }
    add("too", 19'900ms, 19'950ms);
    add("seldom", 0ms, 1ms);
    add("seldom", 20s, 21s);
    std::vector<campaign::fault_time> const faults{{"kill", 9'000ms, 9'800ms, 2'000ms},
                                                   {"kill", 9'000ms, 9'910ms, 2'000ms},
                                                   {"freeze", 9'930ms, 9'940ms, 1'000ms},
                                                   {"freeze", 9'970ms, 9'980ms, 1'000ms},
                                                   {"kill", 2'100ms, 3'200ms, 2'000ms}};
    auto const all = campaign::recoveries(claims, faults, {}, 0ms);
    BOOST_TEST(all.size() == 2U);
    BOOST_TEST((all.at("freeze").times == std::vector<moment>{50ms, 1'100ms}));
    BOOST_TEST((all.at("kill").times == std::vector<moment>{0ms, 100ms, 1'100ms}));
    BOOST_TEST((all.at("kill").worst() == 1'100ms));
    BOOST_TEST((all.at("kill").bound == 2'000ms));
    BOOST_TEST((all.at("kill").beyond == 0ms));
    BOOST_TEST((all.at("freeze").beyond == 100ms));
    BOOST_TEST(all.at("kill").text() == "median 100 ms, worst 1100 ms (too), bound 2000 ms");
}

// A client of a lock on several keys may have to wait as long as one of them has a holder.
BOOST_AUTO_TEST_CASE(a_lock_on_several_keys_has_no_holder_if_none_of_them_has_one) {
    std::vector<claim> claims;
    auto const add = [&](std::string const& key, milliseconds from, milliseconds to) {
        claims.push_back(held_on(key, from, to));
    };
    for (int i = 0; i < 100; ++i)
        add("multi" + std::to_string(i % 4), i * 100ms, i * 100ms + 100ms);
    add("multi0", 9'800ms, 12s); // multi3 has no holder meanwhile
    add("multi3", 12'100ms, 12'200ms);
    auto const worst = [&] {
        return campaign::recoveries(claims, {{"kill", 9'800ms, 12s, 1s}}, {}, 0ms)
            .at("kill")
            .text();
    };
    BOOST_TEST(worst() == "median 100 ms, worst 100 ms (multi0+multi2+multi3), bound 1000 ms");
    add("multi1", 12'200ms, 12'300ms); // it has a lock of its own
    BOOST_TEST(worst() == "median 2400 ms, worst 2400 ms (multi1), bound 1000 ms");
}

// The next holder was paused, or the key is that of a fair lock.
BOOST_AUTO_TEST_CASE(pauses_and_lines_add_to_the_bound_of_a_time_without_a_holder) {
    auto const beyond = [](std::string const& key, std::vector<campaign::pause> const& pauses) {
        std::vector<claim> claims;
        for (int i = 0; i < 21; ++i) {
            auto const begins = i < 20 ? i * 10ms : 5'000ms;
            claims.push_back(held_on(key, begins, begins + 10ms));
            claims.back().client = i < 20 ? 1 : 2;
        }
        return campaign::recoveries(claims, {{"kill", 195ms, 200ms, 4'000ms}}, pauses, 0ms)
            .at("kill")
            .beyond;
    };
    BOOST_TEST((beyond("plain", {}) == 800ms));
    BOOST_TEST((beyond("fair1", {}) == 600ms));
    BOOST_TEST((beyond("plain", {{1, 1'000ms, 1'300ms}}) == 800ms));
    BOOST_TEST((beyond("plain", {{2, 1'000ms, 1'300ms}, {2, 4'900ms, 5'300ms}}) == 500ms));
    BOOST_TEST((beyond("plain", {{2, 5'000ms, 5'300ms}}) == 800ms));
}

//
// Files
//

BOOST_AUTO_TEST_CASE(a_lease_is_held_from_the_first_to_the_last_look) {
    auto const h = read("+ 1 a 0 0 0 7 0 1 90 100\n+ 1 b 0 0 0 7 0 1 90 101\n= 1 150\n"
                        "+ 2 page 2 0 0 0 0 0 95 110\n= 1 200\nr 2 130\n= 2 140\n");
    BOOST_REQUIRE(h.claims.size() == 3U);
    BOOST_TEST(h.granted.size() == 2U);
    BOOST_TEST(h.claims[1].key == "b");
    BOOST_TEST(h.claims[1].fence == 7U);
    BOOST_TEST(h.claims[1].waited);
    BOOST_TEST((h.claims[1].asked == moment(90)));
    BOOST_TEST((h.claims[0].begins == moment(100)));
    BOOST_TEST((h.claims[0].ends == moment(200)));
    BOOST_TEST((h.claims[2].how == static_cast<lock_access>(2)));
    BOOST_TEST((h.claims[2].reads == moment(130)));
    BOOST_TEST((h.claims[2].ends == moment(140)));
}

// The process was killed while it wrote the last line.
BOOST_AUTO_TEST_CASE(a_history_ends_with_its_last_whole_line) {
    auto const h = read("+ 1 k 0 0 0 0 0 0 90 100\n= 1 150\n= 1 16");
    BOOST_REQUIRE(h.claims.size() == 1U);
    BOOST_TEST((h.claims[0].ends == moment(150)));
    BOOST_TEST(read("+ 1 k 0 0").claims.empty());
    BOOST_TEST(read("").claims.empty());
}

BOOST_AUTO_TEST_CASE(calls_findings_and_pauses_are_told) {
    auto const h =
        read("c 12 release \nc 30 release the lease was lost\nw something is wrong\nl 500\n"
             "a 7 9 k 1 us\np 40000 70000\np 20000 90000\nm 4096 100 7 3\nm 4000 2000100 "
             "9 4\nu 30\nu 5\n");
    BOOST_TEST(h.calls.at("release").calls == 2U);
    BOOST_TEST((h.calls.at("release").longest == 30ms));
    BOOST_TEST(h.outcomes.at("the lease was lost") == 1U);
    BOOST_TEST(h.findings == findings{"something is wrong"}, boost::test_tools::per_element());
    BOOST_REQUIRE(h.lost.size() == 1U);
    BOOST_TEST((h.lost[0].seen == moment(500)));
    BOOST_REQUIRE(h.refused.size() == 1U);
    BOOST_TEST((h.refused[0].asked == moment(7)));
    BOOST_TEST((h.refused[0].told == moment(9)));
    BOOST_TEST(h.refused[0].of == "k 1 us");
    BOOST_REQUIRE(h.pauses.size() == 2U);
    BOOST_TEST((h.pauses[0].from == 30ms));
    BOOST_TEST((h.pauses[0].to == 70ms));
    BOOST_REQUIRE(h.usage.size() == 2U);
    BOOST_TEST(h.usage[1].kilobytes == 4000U);
    BOOST_TEST((h.usage[1].seen == moment(2'000'100)));
    BOOST_TEST((h.usage[1].computed == 9ms));
    BOOST_TEST((h.usage[1].waited == 4ms));
    BOOST_TEST((h.computed == 35ms));
}

BOOST_AUTO_TEST_CASE(a_line_that_is_no_event_is_no_history) {
    for (auto const* const line : {"x 1\n", "+ 1 k\n", "= one 2\n", "c slow\n", "p 40\n", "\n"})
        BOOST_CHECK_THROW(read(line), std::runtime_error);
    history h;
    BOOST_CHECK_THROW(h.read("/nowhere/history"), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
