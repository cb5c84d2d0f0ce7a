// The acquire of a tenure: votes, the arbiter first, and every order of answers.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

using namespace tenures;

BOOST_AUTO_TEST_SUITE(tenure_acquire)

BOOST_AUTO_TEST_CASE(the_quorumth_yes_wins_and_no_earlier_one) {
    for (unsigned n = 1; n <= 7; ++n) {
        machine m(n, ttl, true);
        m.acquire(at(0s), instance_set::first(n));
        for (unsigned i = 0; i < n; ++i) {
            BOOST_TEST(answer(m, command::acquire, i, yes) ==
                       (i + 1 == majority[n] ? "won" : "nothing"));
            BOOST_TEST(m.phase() == (i + 1 < majority[n] ? phase::acquiring : phase::held));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_first_answer_that_rules_out_a_quorum_defeats) {
    for (unsigned n = 1; n <= 7; ++n) {
        // For an even number of instances a half already rules out a quorum. The result is
        // "contended" only after a quorum of refusals.
        auto const needed = majority[n];
        machine m(n, ttl, true);
        m.acquire(at(0s), instance_set::first(n));
        for (unsigned i = 0; i + 1 < needed; ++i)
            BOOST_TEST(answer(m, command::acquire, i, no) == "nothing");
        auto const rest = instance_set::first(n) - instance_set::first(needed);
        auto const a = m.answer(command::acquire, 0, needed - 1, no, at(1s));
        BOOST_TEST(a.effect == tenure_effect::contended);
        BOOST_TEST(a.release == rest);
        BOOST_TEST(m.phase() == phase::over);
        for (unsigned i = needed; i < n; ++i)
            BOOST_TEST(answer(m, command::acquire, i, yes) == "nothing");
    }
}

BOOST_AUTO_TEST_CASE(one_holder_and_too_many_that_refuse_are_no_contention) {
    for (unsigned holder = 0; holder < 5; ++holder) {
        for (auto const how : {refused, unknown, unsent}) {
            machine m(5, ttl, true);
            m.acquire(at(0s), of("01234"));
            auto failed = 0;
            for (unsigned i = 0; i < 5 && m.phase() == phase::acquiring; ++i) {
                auto const a = m.answer(command::acquire, 0, i, i == holder ? no : how, at(1s));
                failed += i != holder ? 1 : 0;
                BOOST_TEST(a.effect ==
                           (failed == 3 ? tenure_effect::no_quorum : tenure_effect::none));
            }
            BOOST_TEST(m.phase() == phase::over);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_vote_that_completes_a_quorum_of_votes_decides_though_it_is_a_yes) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    BOOST_TEST(answer(m, command::acquire, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, refused) ==
               "nothing"); // a quorum is impossible, but the reason is not known
    auto enough = m;
    BOOST_TEST(answer(enough, command::acquire, 3, yes) == "release 34 contended");
    BOOST_TEST(answer(m, command::acquire, 3, refused) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 4, refused) == "no_quorum");
}

/// A machine that has asked only instance 1.
machine contending() {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.contend(at(0s), 1)) == "contend 1");
    BOOST_TEST(text(m.maybe_held()) == "1");
    return m;
}

BOOST_AUTO_TEST_CASE(the_arbiter_is_asked_alone_and_the_others_when_it_has_granted) {
    auto m = contending();
    BOOST_TEST(answer(m, command::contend, 1, verdict::yes) == "arbiter_won");
    BOOST_TEST(m.phase() == phase::acquiring);
    BOOST_TEST(text(m.ask_rest(at(2s), of("012"))) == "acquire 02");
    BOOST_TEST(answer(m, command::acquire, 2, verdict::yes, 3s) == "won");
    // The deadline counts from the request to the arbiter, the first one.
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(what_the_arbiter_does_not_grant_ends_the_try) {
    struct row {
        verdict v;
        std::string_view comes_out, maybe_held;
    };
    // An arbiter that did not answer may have granted the key.
    for (auto const& r :
         {row{verdict::no, "arbiter_refused", ""}, row{verdict::unsent, "arbiter_failed", ""},
          row{verdict::refused, "arbiter_failed", ""},
          row{verdict::unknown, "release 1 arbiter_failed", "1"}}) {
        BOOST_TEST_CONTEXT(r.v) {
            auto m = contending();
            BOOST_TEST(answer(m, command::contend, 1, r.v) == r.comes_out);
            BOOST_TEST(m.phase() == phase::over);
            BOOST_TEST(text(m.maybe_held()) == r.maybe_held);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_only_instance_is_its_own_arbiter) {
    machine m(1, ttl, true);
    BOOST_TEST(text(m.contend(at(0s), 0)) == "contend 0");
    BOOST_TEST(answer(m, command::contend, 0, verdict::yes) == "arbiter_won");
    BOOST_TEST(text(m.ask_rest(at(1s), of("0"))) == "won");
}

BOOST_AUTO_TEST_CASE(an_arbiter_alone_is_no_quorum) {
    auto refused = contending();
    answer(refused, command::contend, 1, verdict::yes);
    refused.ask_rest(at(1s), of("012"));
    answer(refused, command::acquire, 0, verdict::no);
    BOOST_TEST(answer(refused, command::acquire, 2, verdict::no) == "release 1 contended");

    auto lonely = contending();
    answer(lonely, command::contend, 1, verdict::yes);
    BOOST_TEST(text(lonely.ask_rest(at(1s), of("1"))) == "release 1 no_quorum");
}

BOOST_AUTO_TEST_CASE(a_try_at_an_arbiter_that_is_given_up_is_released_there) {
    auto m = contending();
    BOOST_TEST(text(m.cancel()) == "release 1 cancelled");
    BOOST_TEST(answer(m, command::contend, 1, verdict::yes) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "1");
}

// A slow arbiter does not show that all servers are slower than the ttl. The next arbiter may be
// fast.
BOOST_AUTO_TEST_CASE(a_slow_arbiter_is_not_called_an_expiry) {
    auto silent = contending();
    BOOST_TEST((silent.wake() == at(valid)));
    BOOST_TEST(text(silent.time(at(valid))) == "release 1 arbiter_failed");

    auto slow = contending();
    answer(slow, command::contend, 1, verdict::yes, 9s);
    slow.ask_rest(at(9s), of("012"));
    BOOST_TEST(answer(slow, command::acquire, 0, verdict::yes, valid) ==
               "release 012 arbiter_failed");
}

BOOST_AUTO_TEST_CASE(a_tenure_is_watched_for_whom_it_is_held) {
    auto m = held(false);
    BOOST_TEST((m.wake() == at(told)));
    m.begin_lease(true);
    BOOST_TEST((m.wake() == at(renewal(0s))));
    m.begin_lease(false);
    BOOST_TEST((m.wake() == at(told)));
}

BOOST_AUTO_TEST_CASE(a_tie_of_four_is_contended_and_releases_what_it_had) {
    machine m(4, ttl, true);
    m.acquire(at(0s), of("0123"));
    BOOST_TEST(answer(m, command::acquire, 0, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 3, no) == "release 02 contended");
    BOOST_TEST(m.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_tie_of_two_is_contended_and_releases_what_it_had) {
    machine m(2, ttl, true);
    m.acquire(at(0s), of("01"));
    BOOST_TEST(answer(m, command::acquire, 0, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, no) == "release 0 contended");
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_where_too_few_can_be_reached) {
    for (unsigned n = 1; n <= 7; ++n) {
        for (unsigned reachable = 0; reachable <= n; ++reachable) {
            machine m(n, ttl, true);
            auto const a = m.acquire(at(0s), instance_set::first(reachable));
            if (reachable < majority[n]) {
                BOOST_TEST(text(a) == "no_quorum");
                BOOST_TEST(m.phase() == phase::over);
                BOOST_TEST(m.maybe_held().empty());
            } else {
                BOOST_TEST(a.effect == tenure_effect::none);
                BOOST_TEST(a.acquire == instance_set::first(reachable));
                BOOST_TEST(m.maybe_held() == instance_set::first(reachable));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_win_is_valid_from_the_send_and_not_from_the_reply) {
    for (auto const took :
         {protocol::duration(0), protocol::duration(1s), protocol::duration(9s)}) {
        machine m(1, ttl, true);
        m.acquire(at(0s), of("0"));
        BOOST_TEST(answer(m, command::acquire, 0, yes, took) == "won");
        BOOST_TEST((m.deadline() == at(valid)));
    }
}

BOOST_AUTO_TEST_CASE(a_quorum_at_the_deadline_or_later_is_refused_and_releases_everything) {
    for (auto const late : {valid, valid + 1ns, valid + 1h}) {
        machine m(3, ttl, true);
        m.acquire(at(0s), of("012"));
        BOOST_TEST(answer(m, command::acquire, 0, yes, 1s) == "nothing");
        BOOST_TEST(answer(m, command::acquire, 1, yes, late) == "release 012 expired");
        BOOST_TEST(m.phase() == phase::over);
    }
    machine m(3, ttl, true);
    m.acquire(at(0s), of("012"));
    answer(m, command::acquire, 0, yes, 1s);
    BOOST_TEST(answer(m, command::acquire, 1, yes, valid - 1ns) == "won");
}

BOOST_AUTO_TEST_CASE(a_lease_won_at_the_last_moment_is_lost_at_once_and_before_its_deadline) {
    machine m(1, ttl, true);
    m.acquire(at(0s), of("0"));
    BOOST_TEST(answer(m, command::acquire, 0, yes, valid - 1ms) == "won");
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() <= at(valid - 1ms)));
    BOOST_TEST(text(m.time(at(valid - 1ms))) == "lost");
}

BOOST_AUTO_TEST_CASE(a_late_grant_after_a_defeat_has_been_released_already) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    answer(m, command::acquire, 0, no);
    answer(m, command::acquire, 1, no);
    BOOST_TEST(answer(m, command::acquire, 2, no) == "release 34 contended");
    BOOST_TEST(answer(m, command::acquire, 3, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 4, unknown) == "nothing");
    // The release follows the SET on the same connection. So the key may exist until the release is
    // answered.
    BOOST_TEST(text(m.maybe_held()) == "34");
    BOOST_TEST(answer(m, command::release, 3, yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 4, unknown) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "4");
    BOOST_TEST(answer(m, command::release, 4, no) == "nothing");
    BOOST_TEST(m.maybe_held().empty());
}

BOOST_AUTO_TEST_CASE(a_cancelled_acquire_releases_the_unanswered_too) {
    machine m(3, ttl, true);
    m.acquire(at(0s), of("012"));
    BOOST_TEST(text(m.cancel()) == "release 012 cancelled");
    for (unsigned i = 0; i < 3; ++i) BOOST_TEST(answer(m, command::acquire, i, yes) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(an_expired_acquire_releases_the_unanswered_too) {
    machine m(3, ttl, true);
    m.acquire(at(0s), of("012"));
    answer(m, command::acquire, 1, yes);
    BOOST_TEST(text(m.time(at(valid))) == "release 012 expired");
}

BOOST_AUTO_TEST_CASE(a_repeated_answer_is_no_second_vote) {
    machine m(3, ttl, true);
    m.acquire(at(0s), of("012"));
    for (int i = 0; i < 3; ++i) BOOST_TEST(answer(m, command::acquire, 0, yes) == "nothing");
    for (int i = 0; i < 3; ++i) BOOST_TEST(answer(m, command::acquire, 1, no) == "nothing");
    BOOST_TEST(m.phase() == phase::acquiring);
}

BOOST_AUTO_TEST_CASE(who_was_not_asked_has_no_vote) {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.acquire(at(0s), of("02"))) == "acquire 02");
    BOOST_TEST(answer(m, command::acquire, 0, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, yes) == "nothing");
    BOOST_TEST(m.phase() == phase::acquiring);
    BOOST_TEST(answer(m, command::acquire, 2, yes) == "won");
    BOOST_TEST(text(m.maybe_held()) == "02");
}

BOOST_AUTO_TEST_CASE(the_clock_is_read_only_for_an_answer_that_decides) {
    int reads = 0;
    auto const clock = [&] {
        ++reads;
        return at(1s);
    };
    machine m(3, ttl, true);
    m.acquire(at(0s), of("012"));
    m.answer(command::acquire, 0, 0, yes, clock);
    BOOST_TEST(reads == 0);
    BOOST_TEST(text(m.answer(command::acquire, 0, 1, yes, clock)) == "won");
    BOOST_TEST(reads == 1);
    m.answer(command::acquire, 0, 2, yes, clock);
    BOOST_TEST(reads == 1);
}

BOOST_AUTO_TEST_CASE(every_schedule_of_answers_settles_an_acquire_once_and_rightly) {
    std::size_t schedules = 0;
    for (unsigned n = 1; n <= 4; ++n) {
        auto const quorum = majority[n];
        every_schedule(n, true, [&](std::string const& said, std::vector<unsigned> const& order) {
            ++schedules;
            machine m(n, ttl, true);
            instance_set asked, maybe;
            counts c;
            for (unsigned i = 0; i < n; ++i) {
                if (said[i] != '-') asked.insert(i);
            }
            c.pending = asked.size();
            c.failed = n - c.pending;
            std::string expected = asked.size() < quorum ? "no_quorum" : "acquire " + text(asked);
            auto settled = asked.size() < quorum;
            auto got = text(m.acquire(at(0s), asked));
            BOOST_REQUIRE_MESSAGE(got == expected, in_words(said, order) << ": " << got);
            if (!settled) maybe = asked;
            for (auto const i : order) {
                if (said[i] == '-') continue;
                if (settled && m.maybe_held().empty() && maybe.empty()) break;
                c.count(said[i]);
                if (said[i] != 'y' && said[i] != 'u') maybe.erase(i);
                expected = "nothing";
                if (!settled && c.yes >= quorum) {
                    settled = true;
                    expected = "won";
                } else if (!settled && c.yes + c.pending < quorum &&
                           (c.yes + c.no >= quorum || c.failed > n - quorum)) {
                    settled = true;
                    expected = c.failed > n - quorum ? "no_quorum" : "contended";
                    if (!maybe.empty()) expected = "release " + text(maybe) + ' ' + expected;
                }
                got = answer(m, command::acquire, i, verdict_of(said[i]));
                BOOST_REQUIRE_MESSAGE(got == expected, in_words(said, order)
                                                           << ", at " << i << ": " << got
                                                           << " and not " << expected);
                BOOST_REQUIRE_MESSAGE(m.maybe_held() == maybe, in_words(said, order));
            }
            BOOST_REQUIRE_MESSAGE(settled, in_words(said, order));
            BOOST_REQUIRE_MESSAGE(m.phase() != phase::acquiring, in_words(said, order));
        });
    }
    BOOST_TEST(schedules == 6U + 36U * 2 + 216U * 6 + 1296U * 24);
}

BOOST_AUTO_TEST_SUITE_END()
