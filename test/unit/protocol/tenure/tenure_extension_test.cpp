// The extension of a tenure, and the ways to lose it.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

using namespace tenures;

BOOST_AUTO_TEST_SUITE(tenure_extension)

BOOST_AUTO_TEST_CASE(an_extension_that_won_counts_from_its_send) {
    for (auto const decided : {3s, 5s, 9s}) {
        auto m = held();
        m.extend(at(3s), of("012"));
        BOOST_TEST(m.extending());
        BOOST_TEST((m.deadline() == at(valid)));
        answer(m, command::extend, 0, yes, decided);
        BOOST_TEST((m.deadline() == at(valid)));
        BOOST_TEST(answer(m, command::extend, 2, yes, decided) == "extended");
        BOOST_TEST((m.deadline() == at(3s + valid)));
        BOOST_TEST(!m.extending());
        BOOST_TEST((m.wake() == at(renewal(3s))));
        BOOST_TEST(text(m.time(at(told))) == "renewal_due"); // no loss, as the deadline has moved
    }
}

BOOST_AUTO_TEST_CASE(an_extension_needs_a_quorum_of_its_own) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    for (unsigned i = 0; i < 3; ++i) answer(m, command::acquire, i, yes);
    m.extend(at(3s), of("01234"));
    BOOST_TEST(m.votes().yes().empty());
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 3, yes, 3s) == "nothing");
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(answer(m, command::extend, 2, yes, 3s) == "extended");
}

BOOST_AUTO_TEST_CASE(answers_to_an_earlier_extension_are_ignored) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    for (unsigned i = 0; i < 5; ++i) answer(m, command::acquire, i, yes);
    m.extend(at(3s), of("01234"));
    auto const earlier = m.round_number();
    answer(m, command::extend, 0, unknown, 3s);
    answer(m, command::extend, 1, unknown, 3s);
    BOOST_TEST(answer(m, command::extend, 2, unknown, 3s) == "extension_failed");
    m.extend(at(5s), of("01234"));
    BOOST_TEST(m.round_number() != earlier);
    for (auto const v : every_verdict) {
        for (unsigned i = 0; i < 5; ++i) {
            BOOST_TEST(text(m.answer(command::extend, earlier, i, v, at(5s))) == "nothing");
        }
    }
    BOOST_TEST(m.votes().pending().size() == 5U);
    BOOST_TEST(text(m.maybe_held()) == "01234");
    BOOST_TEST(m.extending());
    BOOST_TEST((m.deadline() == at(valid)));
    // After the later extension has won, an answer to the earlier one heals no instance.
    for (unsigned i = 0; i < 2; ++i) answer(m, command::extend, i, yes, 5s);
    BOOST_TEST(answer(m, command::extend, 2, yes, 5s) == "extended");
    BOOST_TEST(text(m.answer(command::extend, earlier, 4, no, at(5s))) == "nothing");
}

BOOST_AUTO_TEST_CASE(an_extension_denied_by_a_majority_loses_the_lease_at_once) {
    auto m = held();
    m.extend(at(3s), of("012"));
    BOOST_TEST(answer(m, command::extend, 2, no, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 0, no, 3s) == "release 1 lost");
    BOOST_TEST(m.phase() == phase::over);
    BOOST_TEST(!m.extending());
    // A late yes does not bring the lease back.
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "nothing");
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.maybe_held()) == "1");
}

BOOST_AUTO_TEST_CASE(an_extension_that_failed_leaves_the_deadline_and_is_tried_again) {
    for (auto const failure : {unsent, unknown, refused}) {
        auto m = held();
        m.extend(at(3s), of("012"));
        answer(m, command::extend, 0, yes, 4s);
        answer(m, command::extend, 1, failure, 4s);
        BOOST_TEST(answer(m, command::extend, 2, failure, 4s) == "extension_failed");
        BOOST_TEST(m.phase() == phase::held);
        BOOST_TEST(!m.extending());
        BOOST_TEST((m.deadline() == at(valid)));
        BOOST_TEST((m.wake() == at(4s + retry)));
        BOOST_TEST(text(m.time(at(4s + retry - 1ns))) == "nothing");
        BOOST_TEST(text(m.time(at(4s + retry))) == "renewal_due");
        // The second extension may win.
        BOOST_TEST(text(m.extend(at(4s + retry), of("012"))) == "extend 012");
        answer(m, command::extend, 0, yes, 5s);
        BOOST_TEST(answer(m, command::extend, 1, yes, 5s) == "extended");
        BOOST_TEST((m.deadline() == at(4s + retry + valid)));
    }
}

BOOST_AUTO_TEST_CASE(a_mixture_of_denial_and_failure_is_no_denial) {
    auto m = held();
    m.extend(at(3s), of("012"));
    answer(m, command::extend, 0, no, 3s);
    BOOST_TEST(answer(m, command::extend, 1, unknown, 3s) == "extension_failed");
    BOOST_TEST(m.phase() == phase::held);
}

BOOST_AUTO_TEST_CASE(an_extension_that_reaches_too_few_fails_without_sending) {
    auto m = held();
    BOOST_TEST(text(m.extend(at(3s), of("1"))) == "extension_failed");
    BOOST_TEST(!m.extending());
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST((m.wake() == at(3s + retry)));
}

BOOST_AUTO_TEST_CASE(the_last_retry_does_not_delay_the_news_of_the_loss) {
    auto m = held();
    m.extend(at(told - 10ms), of("1"));
    BOOST_TEST((m.wake() == at(told)));
}

BOOST_AUTO_TEST_CASE(the_loss_is_told_before_the_deadline_though_no_server_answers) {
    for (auto const& before : {held(), extending()}) {
        auto m = before;
        auto const where = text(m.maybe_held());
        // A renewal may be due in the first case, but the lease is not over.
        BOOST_TEST(m.time(at(told - 1ns)).effect != tenure_effect::lost);
        BOOST_TEST(m.phase() == phase::held);
        BOOST_TEST(text(m.time(at(told))) == "lost");
        BOOST_TEST(m.phase() == phase::ending);
        BOOST_TEST(!m.extending());
        BOOST_TEST((at(told) < m.deadline()));
        // The holder knows its deadline, and may use the lease until then. So the key stays.
        BOOST_TEST((m.wake() == m.deadline()));
        BOOST_TEST(text(m.time(m.deadline() - 1ns)) == "nothing");
        BOOST_TEST(text(m.time(m.deadline())) == "release " + where + " ended");
        BOOST_TEST(m.phase() == phase::over);
    }
}

BOOST_AUTO_TEST_CASE(an_answer_that_comes_after_the_loss_was_told_brings_nothing_back) {
    auto m = extending();
    BOOST_TEST(text(m.time(at(told))) == "lost");
    BOOST_TEST(answer(m, command::extend, 2, yes, told) == "nothing");
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(m.phase() == phase::ending);
}

BOOST_AUTO_TEST_CASE(a_vote_for_somebody_else_is_noticed_also_after_the_win) {
    auto m = held();
    BOOST_TEST(!m.opposed());
    BOOST_TEST(answer(m, command::acquire, 2, no, 1s) == "nothing");
    BOOST_TEST(m.opposed());
}

BOOST_AUTO_TEST_CASE(a_lease_ends_at_its_limit_and_leaves_the_keys_to_another) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    BOOST_TEST((m.deadline() == at(5s)));
    BOOST_TEST((m.valid_until() == at(valid)));
    BOOST_TEST((m.wake() == at(5s - 50ms))); // the validity covers the whole lease, so no renewal
                                             // is due
    BOOST_TEST(text(m.time(at(5s - 50ms))) == "lost");
    BOOST_TEST(text(m.time(at(5s))) == "ended");
    m.begin_lease(true);
    BOOST_TEST(m.phase() == phase::held);
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.time(at(5s))) == "renewal_due");
    auto n = held();
    n.begin_lease(true, at(0s), 5s);
    n.time(at(5s - 50ms));
    BOOST_TEST(text(n.time(at(5s))) == "ended");
    BOOST_TEST(text(n.abandon()) == "release 012");
    BOOST_TEST(n.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_limit_that_is_seen_late_leaves_the_keys_to_another_too) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    BOOST_TEST(text(m.time(at(6s))) == "lost");
    BOOST_TEST(m.phase() == phase::ending);
    BOOST_TEST((m.wake() == at(5s))); // the deadline has passed
    BOOST_TEST(text(m.time(at(6s))) == "ended");
    m.begin_lease(true);
    BOOST_TEST((m.deadline() == at(valid)));
}

BOOST_AUTO_TEST_CASE(a_majority_that_has_lost_the_key_leaves_none_to_another_after_a_limit) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, no, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, no, 3s) == "release 2 lost");
    BOOST_TEST(m.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_lease_with_a_short_limit_is_not_lost_at_birth) {
    auto m = held();
    m.begin_lease(true, at(1s), 40ms);
    BOOST_TEST((m.deadline() == at(1s + 40ms)));
    BOOST_TEST((m.margin() == 2ms));
    BOOST_TEST((m.wake() == at(1s + 38ms)));
    m.begin_lease(true); // the next lease has a margin of its own
    BOOST_TEST((m.margin() == 50ms));
}

BOOST_AUTO_TEST_CASE(a_limit_cannot_be_passed_by_extensions) {
    auto m = held();
    m.begin_lease(true, at(0s), 15s);
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "extended");
    BOOST_TEST((m.deadline() == at(3s + valid)));
    BOOST_TEST(text(m.extend(at(8s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, yes, 8s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, yes, 8s) == "extended");
    BOOST_TEST((m.deadline() == at(15s)));
    BOOST_TEST((m.wake() == at(15s - 50ms)));
    BOOST_TEST(text(m.release(at(15s), of("012"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 0, yes, 15s) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, yes, 15s) == "lost");
}

BOOST_AUTO_TEST_CASE(whoever_follows_wake_hears_of_the_loss_before_the_deadline) {
    for (protocol::duration const length :
         {protocol::duration(10ms), protocol::duration(1s), protocol::duration(24h)}) {
        for (auto const renewed : {true, false}) {
            machine m(1, length, renewed);
            m.acquire(at(0s), of("0"));
            BOOST_TEST(answer(m, command::acquire, 0, yes, 0s) == "won");
            auto heard = tenure_effect::none;
            for (int turns = 0; heard != tenure_effect::lost && turns < 100'000; ++turns) {
                BOOST_REQUIRE(m.wake().has_value());
                auto const now = *m.wake();
                BOOST_REQUIRE((now < m.deadline()));
                heard = m.time(now).effect;
                if (heard == tenure_effect::renewal_due)
                    heard = m.extend(now, {}).effect; // no instance is up, so the extension fails
                BOOST_REQUIRE(heard != tenure_effect::none);
            }
            BOOST_TEST(heard == tenure_effect::lost);
        }
    }
}

BOOST_AUTO_TEST_CASE(an_extension_asked_for_at_the_last_moment_is_the_loss) {
    auto m = held();
    BOOST_TEST(text(m.extend(at(told), of("012"))) == "lost");
    BOOST_TEST(m.phase() == phase::ending);
    BOOST_TEST(!m.extending());
    auto n = held();
    BOOST_TEST(text(n.extend(at(told - 1ns), of("012"))) == "extend 012");
}

BOOST_AUTO_TEST_CASE(a_quorum_for_an_extension_that_comes_too_late_is_the_loss) {
    for (auto const late : {told, valid, valid + 1s}) {
        auto m = extending();
        BOOST_TEST(answer(m, command::extend, 2, yes, late) ==
                   (late < valid ? "lost" : "release 02 lost"));
        BOOST_TEST(m.phase() == (late < valid ? phase::ending : phase::over));
        BOOST_TEST((m.deadline() == at(valid)));
    }
    auto m = extending();
    BOOST_TEST(answer(m, command::extend, 2, yes, told - 1ns) == "heal 1 extended");
}

BOOST_AUTO_TEST_CASE(who_lost_the_key_gets_it_back_only_once_the_extension_has_won) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    for (unsigned i = 0; i < 5; ++i) answer(m, command::acquire, i, yes);
    m.extend(at(3s), of("01234"));
    BOOST_TEST(answer(m, command::extend, 4, no, 3s) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "0123");
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 2, yes, 3s) == "heal 4 extended");
    BOOST_TEST(answer(m, command::extend, 3, no, 3s) == "heal 3");
    BOOST_TEST(text(m.maybe_held()) == "01234");
    // The answer to a heal is no vote in the next round.
    m.extend(at(6s), of("01234"));
    BOOST_TEST(answer(m, command::heal, 3, yes, 6s) == "nothing");
    BOOST_TEST(answer(m, command::heal, 4, yes, 6s) == "nothing");
    BOOST_TEST(m.votes().yes().empty());
    // The earlier win does not count in this round, so no instance is healed yet.
    BOOST_TEST(answer(m, command::extend, 4, no, 6s) == "nothing");
}

BOOST_AUTO_TEST_CASE(nobody_is_healed_once_a_tombstone_was_seen) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    for (unsigned i = 0; i < 5; ++i) answer(m, command::acquire, i, yes);
    m.extend(at(3s), of("01234"));
    m.note_tombstone();
    answer(m, command::extend, 4, no, 3s);
    answer(m, command::extend, 0, yes, 3s);
    answer(m, command::extend, 1, yes, 3s);
    BOOST_TEST(answer(m, command::extend, 2, yes, 3s) == "extended");
    BOOST_TEST(answer(m, command::extend, 3, no, 3s) == "nothing");
    // The tombstone has gone, and the extensions of a quorum go on.
    m.extend(at(6s), of("01234"));
    answer(m, command::extend, 4, no, 6s);
    answer(m, command::extend, 3, no, 6s);
    answer(m, command::extend, 0, yes, 6s);
    answer(m, command::extend, 1, yes, 6s);
    BOOST_TEST(answer(m, command::extend, 2, yes, 6s) == "extended");
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(nobody_is_healed_after_an_extension_that_failed) {
    auto m = held();
    m.extend(at(3s), of("012"));
    answer(m, command::extend, 0, unknown, 3s);
    BOOST_TEST(answer(m, command::extend, 1, unknown, 3s) == "extension_failed");
    BOOST_TEST(answer(m, command::extend, 2, no, 3s) == "nothing");
}

BOOST_AUTO_TEST_CASE(an_instance_that_was_down_when_the_lease_was_won_is_healed) {
    machine m(3, ttl, true);
    m.acquire(at(0s), of("01"));
    answer(m, command::acquire, 0, yes);
    BOOST_TEST(answer(m, command::acquire, 1, yes) == "won");
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 2, no, 3s) == "nothing");
    answer(m, command::extend, 1, yes, 3s);
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "heal 2 extended");
    BOOST_TEST(text(m.release(at(4s), of("012"))) == "release 012");
}

BOOST_AUTO_TEST_CASE(every_schedule_of_answers_settles_an_extension_once_and_rightly) {
    for (unsigned n = 1; n <= 4; ++n) {
        auto const quorum = majority[n];
        every_schedule(n, false, [&](std::string const& said, std::vector<unsigned> const& order) {
            machine m(n, ttl, true);
            m.acquire(at(0s), instance_set::first(n));
            for (unsigned i = 0; i < n; ++i) answer(m, command::acquire, i, yes);
            m.extend(at(3s), instance_set::first(n));
            auto maybe = instance_set::first(n);
            instance_set gone;
            counts c{.pending = n};
            auto outcome = tenure_effect::none;
            for (auto const i : order) {
                c.count(said[i]);
                if (said[i] == 'n' && outcome != tenure_effect::lost) {
                    maybe.erase(i);
                    gone.insert(i);
                }
                std::string expected = "nothing";
                if (outcome == tenure_effect::extended && said[i] == 'n') {
                    expected = "heal " + text(instance_set::only(i));
                    maybe.insert(i);
                } else if (outcome != tenure_effect::none) {
                    // The round is decided already.
                } else if (c.yes >= quorum) {
                    outcome = tenure_effect::extended;
                    expected = (gone.empty() ? "" : "heal " + text(gone) + ' ') + "extended";
                    maybe = maybe | gone;
                } else if (c.yes + c.pending < quorum) {
                    outcome =
                        c.no > n - quorum ? tenure_effect::lost : tenure_effect::extension_failed;
                    expected = outcome == tenure_effect::lost ? "lost" : "extension_failed";
                    if (outcome == tenure_effect::lost && !maybe.empty()) {
                        expected = "release " + text(maybe) + " lost";
                    }
                }
                auto const got = answer(m, command::extend, i, verdict_of(said[i]), 3s);
                BOOST_REQUIRE_MESSAGE(got == expected, in_words(said, order)
                                                           << ", at " << i << ": " << got
                                                           << " and not " << expected);
                BOOST_REQUIRE_MESSAGE(m.maybe_held() == maybe, in_words(said, order));
            }
            BOOST_REQUIRE_MESSAGE(outcome != tenure_effect::none, in_words(said, order));
            BOOST_REQUIRE_MESSAGE(!m.extending(), in_words(said, order));
            BOOST_REQUIRE_MESSAGE(m.deadline() ==
                                      at(outcome == tenure_effect::extended ? 3s + valid : valid),
                                  in_words(said, order));
        });
    }
}

//
// Another ttl
//

constexpr protocol::duration longer = 60s;
constexpr protocol::duration longer_valid = 60s - 602ms;
constexpr protocol::duration shorter = 1s;
constexpr protocol::duration shorter_valid = 1s - 12ms;

BOOST_AUTO_TEST_CASE(a_longer_ttl_counts_when_a_quorum_has_it) {
    auto m = held();
    m.extend(at(3s), of("012"), longer);
    BOOST_TEST((m.ttl() == longer));
    BOOST_TEST((m.deadline() == at(valid)));
    answer(m, command::extend, 0, yes, 3s);
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "extended");
    BOOST_TEST((m.deadline() == at(3s + longer_valid)));
    // The watchdog goes on with a third of the new ttl.
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() > at(3s + longer / 3 - longer / 1000)));
    BOOST_TEST((*m.wake() <= at(3s + longer / 3)));
}

BOOST_AUTO_TEST_CASE(a_shorter_ttl_counts_at_once) {
    for (auto const v : every_failure) {
        auto m = held();
        m.extend(at(3s), of("012"), shorter);
        BOOST_TEST((m.deadline() == at(3s + shorter_valid)));
        answer(m, command::extend, 0, v, 3s);
        answer(m, command::extend, 1, v, 3s);
        answer(m, command::extend, 2, v, 3s);
        BOOST_TEST((m.deadline() == at(3s + shorter_valid)));
    }
    // Even if no instance can be asked.
    auto m = held();
    BOOST_TEST(text(m.extend(at(3s), of(""), shorter)) == "extension_failed");
    BOOST_TEST((m.deadline() == at(3s + shorter_valid)));
    // A deadline that comes sooner anyway stays.
    auto late = held();
    late.extend(at(9500ms), of("012"), shorter);
    BOOST_TEST((late.deadline() == at(valid)));
}

BOOST_AUTO_TEST_CASE(another_ttl_replaces_the_extension_under_way) {
    auto m = held();
    m.extend(at(3s), of("012"));
    auto const earlier = m.round_number();
    m.extend(at(4s), of("012"), longer);
    for (unsigned i = 0; i < 3; ++i) {
        BOOST_TEST(text(m.answer(command::extend, earlier, i, yes, at(4s))) == "nothing");
    }
    BOOST_TEST((m.deadline() == at(valid)));
    answer(m, command::extend, 0, yes, 5s);
    BOOST_TEST(answer(m, command::extend, 1, yes, 5s) == "extended");
    BOOST_TEST((m.deadline() == at(4s + longer_valid)));
}

// The deadline counts from the round that set it, whatever the ttl is by now.
BOOST_AUTO_TEST_CASE(a_standstill_before_the_round_that_counts_changes_nothing) {
    auto sooner = held();
    sooner.extend(at(9500ms), of("012"), shorter);
    sooner.clock_stood_still(at(8s), 2s); // after the acquire, whose deadline counts
    BOOST_TEST((sooner.deadline() == at(valid - 2s)));
    auto later = held();
    later.extend(at(3s), of("012"), longer);
    answer(later, command::extend, 0, yes, 3s);
    answer(later, command::extend, 1, yes, 3s);
    later.clock_stood_still(at(2s), 1s);
    BOOST_TEST((later.deadline() == at(3s + longer_valid)));
    later.clock_stood_still(at(5s), 1s);
    BOOST_TEST((later.deadline() == at(2s + longer_valid)));
}

BOOST_AUTO_TEST_CASE(a_limit_of_the_lease_holds_for_another_ttl_too) {
    auto m = held();
    m.begin_lease(true, at(0s), 20s);
    m.extend(at(3s), of("012"), longer);
    answer(m, command::extend, 0, yes, 3s);
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "extended");
    BOOST_TEST((m.deadline() == at(20s)));
}

/// A tenure with this ttl, won at once.
machine held_for(protocol::duration its_ttl) {
    machine m(3, its_ttl, true);
    m.acquire(at(0s), of("012"));
    for (unsigned i = 0; i < 3; ++i) answer(m, command::acquire, i, yes, 0s);
    return m;
}

// The margin of the longer ttl is longer than all of the shorter one.
BOOST_AUTO_TEST_CASE(a_longer_ttl_does_not_end_a_lease_that_is_well) {
    auto m = held_for(60ms);
    BOOST_TEST(text(m.extend(at(30ms), of("012"), longer)) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, yes, 31ms) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, yes, 31ms) == "extended");
    BOOST_TEST((m.deadline() == at(30ms + longer_valid)));
    BOOST_TEST((m.margin() == 50ms));
}

BOOST_AUTO_TEST_CASE(a_longer_ttl_that_was_not_confirmed_is_tried_again_in_time) {
    auto m = held_for(600ms);
    m.extend(at(200ms), of("012"), longer);
    answer(m, command::extend, 0, unknown, 200ms);
    BOOST_TEST(answer(m, command::extend, 1, unknown, 200ms) == "extension_failed");
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() == at(260ms)));
    BOOST_TEST(text(m.time(at(260ms))) == "renewal_due");
}

BOOST_AUTO_TEST_SUITE_END()
