// The directory finds the primary that a majority of all known sentinels names, and limits how long
// their answers count.
#include "protocol/sentinel/sentinel_directory.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <tuple>
#include <vector>

namespace protocol = holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;
using protocol::directory_action;
using protocol::leave_reason;
using protocol::named_primary;

constexpr auto m = 2s;
constexpr named_primary old_primary{.server = 1, .epoch = 4};
constexpr named_primary new_primary{.server = 2, .epoch = 5};

/// Three configured sentinels with the ids 10, 11 and 12. Each has told its id and its peers.
struct deployment {
    explicit deployment(unsigned size = 3)
        : directory(size, m) {
        for (unsigned i = 0; i < size; ++i) directory.members().identified(i, 10 + i);
    }

    /// Begins a round at `begun`. The sentinels in `answering` answer at once.
    directory_action round(std::vector<unsigned> const& answering, named_primary const& primary,
                           protocol::duration begun) {
        directory.begin_round(at(begun));
        auto last = directory_action::none;
        for (auto const i : answering) {
            auto const action = directory.answered(i, primary, at(begun), at(begun));
            if (action != directory_action::none) last = action;
        }
        return last;
    }

    protocol::sentinel_directory directory;
};

bool is(directory_action a, directory_action b) {
    return a == b;
}

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_directory)

BOOST_AUTO_TEST_CASE(two_of_three_name_the_primary) {
    deployment d;
    BOOST_TEST(is(d.round({0}, old_primary, 0ms), directory_action::none));
    BOOST_TEST(!d.directory.named());
    BOOST_TEST(!d.directory.confirmed(at(0ms)));
    BOOST_TEST(is(d.round({1}, old_primary, 10ms), directory_action::move));
    BOOST_TEST((d.directory.named() == old_primary));
    BOOST_TEST(d.directory.confirmed(at(10ms)));
}

BOOST_AUTO_TEST_CASE(a_lone_sentinel_names_nothing_although_the_others_are_silent) {
    deployment d;
    for (int i = 0; i < 20; ++i) {
        BOOST_TEST(is(d.round({2}, old_primary, i * 500ms), directory_action::none));
    }
    BOOST_TEST(!d.directory.named());
    auto const told = d.directory.answer_of(2, at(9'600ms));
    BOOST_TEST(told.answered);
    BOOST_TEST((told.primary == old_primary));
    BOOST_TEST(!d.directory.answer_of(0, at(9'600ms)).answered);
}

BOOST_AUTO_TEST_CASE(the_epoch_must_agree_too) {
    deployment d;
    auto const same_server = named_primary{.server = old_primary.server, .epoch = 9};
    d.round({0}, old_primary, 0ms);
    BOOST_TEST(is(d.round({1}, same_server, 0ms), directory_action::none));
    BOOST_TEST(is(d.round({0}, same_server, 0ms), directory_action::move));
    BOOST_TEST((d.directory.named() == same_server));
}

BOOST_AUTO_TEST_CASE(a_confirmation_counts_from_the_question_and_less_drift) {
    deployment d;
    d.directory.begin_round(at(0ms));
    std::ignore = d.directory.answered(0, old_primary, at(0ms), at(900ms));
    std::ignore = d.directory.answered(1, old_primary, at(0ms), at(900ms));
    auto const until = at(m) - protocol::redlock_rules::drift(m);
    BOOST_TEST((d.directory.confirmed_until() == until));
    BOOST_TEST(d.directory.confirmed(until - 1ns));
    BOOST_TEST(!d.directory.confirmed(until));
    BOOST_TEST(d.directory.named().has_value());
}

BOOST_AUTO_TEST_CASE(a_confirmation_counts_from_the_oldest_question_of_the_majority) {
    deployment d(5);
    d.round({0, 1, 2}, old_primary, 0ms);
    d.round({0, 1}, old_primary, 1'000ms);
    auto const allowed = m - protocol::redlock_rules::drift(m);
    BOOST_TEST((d.directory.confirmed_until() == at(allowed)));
    d.round({4}, old_primary, 1'500ms);
    BOOST_TEST((d.directory.confirmed_until() == at(1'000ms + allowed)));
}

BOOST_AUTO_TEST_CASE(an_old_answer_confirms_nothing) {
    deployment d;
    d.round({0, 1}, old_primary, 0ms);
    d.round({0}, old_primary, m);
    BOOST_TEST(!d.directory.confirmed(at(m)));
    BOOST_TEST(is(d.directory.answered(1, old_primary, at(-5ms), at(m)), directory_action::none));
    BOOST_TEST(!d.directory.confirmed(at(m)));
}

BOOST_AUTO_TEST_CASE(an_answer_older_than_m_names_nothing) {
    deployment d;
    d.round({0}, old_primary, 0ms);
    BOOST_TEST(d.directory.answer_of(0, at(m - 1ns)).answered);
    BOOST_TEST(!d.directory.answer_of(0, at(m)).answered);
    BOOST_TEST(is(d.round({1}, old_primary, m), directory_action::none));
    BOOST_TEST(is(d.round({2}, old_primary, m + 1ms), directory_action::move));
}

BOOST_AUTO_TEST_CASE(a_late_answer_does_not_replace_a_newer_one) {
    deployment d;
    std::ignore = d.directory.answered(0, new_primary, at(1s), at(1s));
    std::ignore = d.directory.answered(0, old_primary, at(0s), at(1'100ms));
    BOOST_TEST((d.directory.answer_of(0, at(1'100ms)).primary == new_primary));
    BOOST_TEST(
        is(d.directory.answered(1, new_primary, at(1s), at(1'200ms)), directory_action::move));
}

BOOST_AUTO_TEST_CASE(the_epoch_never_falls) {
    deployment d;
    d.round({0, 1}, new_primary, 0ms);
    BOOST_TEST(is(d.round({0, 1, 2}, old_primary, 1s), directory_action::none));
    BOOST_TEST((d.directory.named() == new_primary));
    std::ignore = d.directory.leave(leave_reason::connection_lost, at(2s));
    BOOST_TEST(is(d.round({0, 1, 2}, old_primary, 3s), directory_action::none));
    BOOST_TEST(!d.directory.named());
}

BOOST_AUTO_TEST_CASE(a_new_epoch_of_the_same_server_is_a_switch) {
    deployment d;
    d.round({0, 1}, old_primary, 0ms);
    auto const again = named_primary{.server = old_primary.server, .epoch = 6};
    // The first answer with the greater epoch ends the link.
    BOOST_TEST(is(d.round({0}, again, 1s), directory_action::leave));
    BOOST_TEST(is(d.round({0, 1}, again, 1'200ms), directory_action::move));
}

BOOST_AUTO_TEST_CASE(each_reason_leaves_and_only_later_questions_count) {
    for (auto const reason :
         {leave_reason::read_only, leave_reason::not_primary, leave_reason::unblocked,
          leave_reason::connection_lost, leave_reason::suspect}) {
        deployment d;
        d.round({0, 1}, old_primary, 0ms);
        BOOST_TEST(is(d.directory.leave(reason, at(500ms)), directory_action::leave));
        BOOST_TEST(!d.directory.named());
        BOOST_TEST((d.directory.left() == reason));
        BOOST_TEST(!d.directory.confirmed(at(500ms)));
        // This sentinel was asked before the link was left. The client must not reconnect to the
        // last address without a new answer.
        BOOST_TEST(
            is(d.directory.answered(2, old_primary, at(499ms), at(510ms)), directory_action::none));
        BOOST_TEST(!d.directory.named());
        BOOST_TEST((d.directory.next_round() == at(500ms)));
        BOOST_TEST(is(d.round({0, 1}, old_primary, 500ms), directory_action::move));
    }
}

BOOST_AUTO_TEST_CASE(one_announcement_leaves_and_the_old_primary_waits_for_m) {
    deployment d;
    d.round({0, 1}, old_primary, 0ms);
    BOOST_TEST(is(d.directory.switched(old_primary.server, at(10ms)), directory_action::none));
    BOOST_TEST(is(d.directory.switched(new_primary.server, at(50ms)), directory_action::leave));
    BOOST_TEST((d.directory.left() == leave_reason::switched));
    // The other sentinels do not know the new primary yet.
    BOOST_TEST(is(d.round({0, 1}, old_primary, 100ms), directory_action::none));
    BOOST_TEST(is(d.round({0, 1}, new_primary, 200ms), directory_action::move));
    BOOST_TEST(is(d.directory.switched(new_primary.server, at(1s)), directory_action::none));
}

BOOST_AUTO_TEST_CASE(a_mistaken_announcement_costs_m) {
    deployment d;
    d.round({0, 1}, old_primary, 0ms);
    std::ignore = d.directory.switched(new_primary.server, at(50ms));
    BOOST_TEST(is(d.round({0, 1}, old_primary, 50ms + m - 1ns), directory_action::none));
    BOOST_TEST(is(d.round({0, 1}, old_primary, 50ms + m), directory_action::move));
}

BOOST_AUTO_TEST_CASE(one_sentinel_with_a_greater_epoch_ends_the_link_once) {
    deployment d;
    d.round({0, 1}, old_primary, 0ms);
    BOOST_TEST(is(d.directory.answered(2, new_primary, at(0ms), at(1ms)), directory_action::leave));
    BOOST_TEST(is(d.round({0, 1}, old_primary, 1ms + m), directory_action::move));
    BOOST_TEST(is(d.round({2}, new_primary, 5s), directory_action::none));
    BOOST_TEST((d.directory.named() == old_primary));
}

BOOST_AUTO_TEST_CASE(questions_come_each_half_m_or_after_growing_pauses) {
    deployment d;
    BOOST_TEST((d.directory.next_round() < at(0ms)));
    auto now = 0ms;
    for (auto const pause : {100ms, 200ms, 400ms, 800ms, 1'000ms, 1'000ms}) {
        d.directory.begin_round(at(now));
        BOOST_TEST((d.directory.next_round() == at(now + pause)));
        now += pause;
    }
    d.round({0, 1}, old_primary, now);
    BOOST_TEST((d.directory.next_round() == at(now + m / 2)));
    // A pause precedes the next round if a primary is named and lost at once.
    std::ignore = d.directory.leave(leave_reason::connection_lost, at(now));
    BOOST_TEST((d.directory.next_round() == at(now + 1'000ms)));
    // After an announcement the pause is shorter.
    std::ignore = d.directory.switched(new_primary.server, at(now + 1ms));
    BOOST_TEST((d.directory.next_round() == at(now + 100ms)));
}

BOOST_AUTO_TEST_CASE(a_sentinel_that_knows_no_such_primary_votes_for_none) {
    deployment d;
    d.directory.begin_round(at(0ms));
    for (unsigned i = 0; i < 3; ++i) {
        BOOST_TEST(
            is(d.directory.answered(i, std::nullopt, at(0ms), at(1ms)), directory_action::none));
    }
    BOOST_TEST(d.directory.answer_of(0, at(1ms)).answered);
    BOOST_TEST(!d.directory.answer_of(0, at(1ms)).primary);
}

BOOST_AUTO_TEST_CASE(learned_sentinels_count_for_the_majority) {
    protocol::sentinel_directory d(1, m);
    auto const first = d.members().identified(0, 10);
    BOOST_REQUIRE(first);
    d.members().listed(*first, std::array<std::uint64_t, 2>{11, 12});
    BOOST_TEST(d.members().size() == 3U);
    d.begin_round(at(0ms));
    BOOST_TEST(is(d.answered(*first, old_primary, at(0ms), at(0ms)), directory_action::none));
    auto const second = d.members().find(11);
    BOOST_REQUIRE(second);
    BOOST_TEST(is(d.answered(*second, old_primary, at(0ms), at(0ms)), directory_action::move));
}

BOOST_AUTO_TEST_CASE(a_silent_configured_sentinel_and_its_listed_id_are_counted_once) {
    protocol::sentinel_members of(3);
    BOOST_TEST(of.size() == 3U);
    auto const a = of.identified(0, 10);
    of.identified(1, 11);
    BOOST_REQUIRE(a);
    of.listed(*a, std::array<std::uint64_t, 2>{11, 12});
    BOOST_TEST(of.size() == 3U);
    of.identified(2, 12);
    BOOST_TEST(of.size() == 3U);
    of.listed(*a, std::array<std::uint64_t, 3>{11, 12, 13});
    BOOST_TEST(of.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_sentinel_with_two_addresses_counts_once) {
    protocol::sentinel_members of(3);
    auto const a = of.identified(0, 10);
    auto const b = of.identified(1, 10);
    BOOST_TEST((a == b));
    BOOST_TEST(of.counted().size() == 1U);
    BOOST_TEST(of.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_sentinel_without_an_id_ends_the_counting_of_peers) {
    protocol::sentinel_members of(3);
    auto const a = of.identified(0, 10);
    BOOST_REQUIRE(a);
    of.listed(*a, std::array<std::uint64_t, 3>{11, 12, 13});
    of.anonymous(1);
    BOOST_TEST(of.size() == 3U);
    BOOST_TEST(of.counted().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_sentinel_is_forgotten_when_no_list_has_it) {
    protocol::sentinel_members of(1);
    auto const a = of.identified(0, 10);
    BOOST_REQUIRE(a);
    of.listed(*a, std::array<std::uint64_t, 2>{11, 12});
    auto const b = of.find(11);
    BOOST_REQUIRE(b);
    of.listed(*b, std::array<std::uint64_t, 2>{10, 12});
    of.listed(*a, std::array<std::uint64_t, 1>{11});
    BOOST_TEST(of.size() == 3U); // b still lists the sentinel 12
    of.listed(*b, std::array<std::uint64_t, 1>{10});
    BOOST_TEST(of.size() == 2U);
}

BOOST_AUTO_TEST_CASE(lists_are_bounded_and_too_many_sentinels_name_nothing) {
    protocol::sentinel_directory d(1, m);
    auto const a = d.members().identified(0, 10);
    BOOST_REQUIRE(a);
    std::vector<std::uint64_t> peers(1'000);
    for (std::uint64_t i = 0; i < peers.size(); ++i) peers[i] = 100 + i;
    d.members().listed(*a, peers);
    BOOST_TEST(d.has_too_many());
    BOOST_TEST(d.members().size() == protocol::sentinel_members::capacity);
    d.begin_round(at(0ms));
    d.members().counted().for_each([&](unsigned i) {
        BOOST_TEST(is(d.answered(i, old_primary, at(0ms), at(0ms)), directory_action::none));
    });
    // Shorter lists make room. An index that is used again has no answer of its former owner.
    d.members().listed(*a, std::array<std::uint64_t, 2>{7'001, 7'002});
    BOOST_TEST(!d.has_too_many());
    BOOST_TEST(d.members().size() == 3U);
    auto const taken = d.members().find(7'001);
    BOOST_REQUIRE(taken);
    BOOST_TEST(!d.answer_of(*taken, at(0ms)).answered);
    BOOST_TEST(is(d.answered(*a, old_primary, at(0ms), at(0ms)), directory_action::none));
    BOOST_TEST(is(d.answered(*taken, old_primary, at(0ms), at(0ms)), directory_action::move));
}

BOOST_AUTO_TEST_SUITE_END()
