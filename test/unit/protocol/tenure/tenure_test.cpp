// A tenure driven by hand. The tests check each action, and that no other action follows.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

using namespace tenures;

BOOST_AUTO_TEST_SUITE(tenure)

//
// Answers, phase by phase
//

BOOST_AUTO_TEST_CASE(an_answer_to_an_acquire_decides_while_acquiring) {
    constexpr auto c = command::acquire;
    check(acquiring(),
          std::array<cell, 5>{{{c, yes, "won", phase::held, "02"},
                               {c, no, "release 0 contended", phase::over, "0"},
                               {c, unsent, "release 0 contended", phase::over, "0"},
                               {c, unknown, "release 02 contended", phase::over, "02"},
                               {c, refused, "release 0 contended", phase::over, "0"}}});
}

BOOST_AUTO_TEST_CASE(nothing_else_decides_while_acquiring) {
    check_ignored(acquiring(),
                  {command::extend, command::heal, command::release, command::inspect});
}

BOOST_AUTO_TEST_CASE(a_late_answer_to_an_acquire_that_won_only_says_where_the_key_is) {
    constexpr auto c = command::acquire;
    check(held(), std::array<cell, 5>{{{c, yes, "nothing", phase::held, "012"},
                                       {c, no, "nothing", phase::held, "01"},
                                       {c, unsent, "nothing", phase::held, "01"},
                                       {c, unknown, "nothing", phase::held, "012"},
                                       {c, refused, "nothing", phase::held, "01"}}});
    check_ignored(held(), {command::acquire});
}

BOOST_AUTO_TEST_CASE(nothing_that_was_not_asked_moves_a_lease_that_is_held) {
    check_ignored(held(), {command::extend, command::heal, command::release, command::inspect});
}

BOOST_AUTO_TEST_CASE(an_answer_to_an_extension_decides_while_extending) {
    constexpr auto c = command::extend;
    check(extending(), std::array<cell, 5>{{{c, yes, "heal 1 extended", phase::held, "012"},
                                            {c, no, "release 0 lost", phase::over, "0"},
                                            {c, unsent, "extension_failed", phase::held, "02"},
                                            {c, unknown, "extension_failed", phase::held, "02"},
                                            {c, refused, "extension_failed", phase::held, "02"}}});
}

BOOST_AUTO_TEST_CASE(a_late_grant_is_no_vote_for_an_extension) {
    constexpr auto c = command::acquire;
    check(extending(), std::array<cell, 5>{{{c, yes, "nothing", phase::held, "02"},
                                            {c, no, "nothing", phase::held, "0"},
                                            {c, unsent, "nothing", phase::held, "0"},
                                            {c, unknown, "nothing", phase::held, "02"},
                                            {c, refused, "nothing", phase::held, "0"}}});
    check_ignored(extending(),
                  {command::acquire, command::heal, command::release, command::inspect});
}

BOOST_AUTO_TEST_CASE(a_late_answer_to_an_extension_that_won_heals_and_does_nothing_else) {
    constexpr auto c = command::extend;
    auto m = held();
    m.extend(at(3s), of("012"));
    answer(m, c, 0, yes, 3s);
    BOOST_TEST(answer(m, c, 1, yes, 3s) == "extended");
    check(m, std::array<cell, 5>{{{c, yes, "nothing", phase::held, "012"},
                                  {c, no, "heal 2", phase::held, "012"},
                                  {c, unsent, "nothing", phase::held, "012"},
                                  {c, unknown, "nothing", phase::held, "012"},
                                  {c, refused, "nothing", phase::held, "012"}}});
}

BOOST_AUTO_TEST_CASE(an_answer_to_healing_only_says_where_the_key_is) {
    for (auto const v : every_verdict) {
        BOOST_TEST_CONTEXT("heal answered " << v) {
            auto m = healing();
            auto const votes = m.votes();
            BOOST_TEST(text(m.maybe_held()) == "012");
            BOOST_TEST(answer(m, command::heal, 1, v, 4s) == "nothing");
            BOOST_TEST(m.phase() == phase::held);
            BOOST_TEST(same_votes(m.votes(), votes));
            // Even a no does not show that the key is missing: see the next test case.
            BOOST_TEST(text(m.maybe_held()) == "012");
        }
    }
}

BOOST_AUTO_TEST_CASE(an_older_or_a_second_no_does_not_say_that_healing_has_failed) {
    // Commands sent before the heal: a raise that kept the fence counter, and an extension whose
    // script was sent again.
    for (auto const c : {command::raise, command::extend, command::acquire}) {
        for (auto const v : every_failure) {
            BOOST_TEST_CONTEXT(c << " answered " << v) {
                auto m = healing();
                answer(m, c, 1, v, 4s);
                BOOST_TEST(answer(m, command::heal, 1, yes, 4s) == "nothing");
                BOOST_TEST(text(m.release(at(5s), of("012"))) == "release 012");
            }
        }
    }
    // The second heal finds the key that the first heal has set.
    auto m = healing();
    m.extend(at(4s), of("012"));
    answer(m, command::extend, 0, yes, 4s);
    answer(m, command::extend, 2, yes, 4s);
    BOOST_TEST(answer(m, command::extend, 1, no, 4s) == "heal 1");
    answer(m, command::heal, 1, yes, 4s);
    answer(m, command::heal, 1, no, 4s);
    BOOST_TEST(text(m.release(at(5s), of("012"))) == "release 012");
    // Only the answer to a release shows that the key is gone.
    BOOST_TEST(answer(m, command::release, 1, yes, 5s) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "02");
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_release_decides_while_releasing) {
    constexpr auto c = command::release;
    check(releasing(), std::array<cell, 5>{{{c, yes, "released", phase::over, ""},
                                            {c, no, "lost", phase::over, ""},
                                            // Instances 0 and 1 have no key any more.
                                            {c, unsent, "released", phase::over, "2"},
                                            {c, unknown, "released", phase::over, "2"},
                                            {c, refused, "released", phase::over, "2"}}});
}

BOOST_AUTO_TEST_CASE(late_answers_to_older_commands_do_not_count_for_a_release) {
    constexpr auto c = command::acquire;
    check(releasing(), std::array<cell, 5>{{{c, yes, "nothing", phase::releasing, "2"},
                                            {c, no, "nothing", phase::releasing, ""},
                                            {c, unsent, "nothing", phase::releasing, ""},
                                            {c, unknown, "nothing", phase::releasing, "2"},
                                            {c, refused, "nothing", phase::releasing, ""}}});
    check_ignored(releasing(),
                  {command::acquire, command::extend, command::heal, command::inspect});
    // An extension that was under way is ignored too.
    auto m = extending();
    BOOST_TEST(text(m.release(at(3s), of("012"))) == "release 02");
    BOOST_TEST(!m.extending());
    check_ignored(m, {command::acquire, command::extend, command::heal, command::inspect});
}

BOOST_AUTO_TEST_CASE(when_it_is_over_answers_only_say_where_the_key_is) {
    constexpr auto a = command::acquire;
    constexpr auto r = command::release;
    check(over(), std::array<cell, 10>{{{a, yes, "nothing", phase::over, "02"},
                                        {a, no, "nothing", phase::over, "0"},
                                        {a, unsent, "nothing", phase::over, "0"},
                                        {a, unknown, "nothing", phase::over, "02"},
                                        {a, refused, "nothing", phase::over, "0"},
                                        {r, yes, "nothing", phase::over, "0"},
                                        {r, no, "nothing", phase::over, "0"},
                                        {r, unsent, "nothing", phase::over, "02"},
                                        {r, unknown, "nothing", phase::over, "02"},
                                        {r, refused, "nothing", phase::over, "02"}}});
    check_ignored(over(), {command::acquire, command::extend, command::heal, command::release,
                           command::inspect});
}

BOOST_AUTO_TEST_CASE(an_inspection_changes_nothing_in_any_phase) {
    for (auto const& before : {acquiring(), held(), extending(), healing(), releasing(), over()}) {
        for (auto const v : every_verdict) {
            auto m = before;
            BOOST_TEST(answer(m, command::inspect, 2, v, 4s) == "nothing");
            BOOST_TEST(m.phase() == before.phase());
            BOOST_TEST(m.maybe_held() == before.maybe_held());
            BOOST_TEST(same_votes(m.votes(), before.votes()));
        }
    }
}

//
// Calls, phase by phase
//

BOOST_AUTO_TEST_CASE(cancelling_ends_an_acquire_and_nothing_else) {
    auto m = acquiring();
    BOOST_TEST(text(m.cancel()) == "release 02 cancelled");
    BOOST_TEST(m.phase() == phase::over);
    for (auto const& before : {held(), extending(), healing(), releasing(), over()}) {
        auto other = before;
        BOOST_TEST(text(other.cancel()) == "nothing");
        BOOST_TEST(other.phase() == before.phase());
        BOOST_TEST(other.extending() == before.extending());
        BOOST_TEST(other.maybe_held() == before.maybe_held());
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_cancelled_before_it_was_sent_releases_nothing) {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.cancel()) == "cancelled");
    BOOST_TEST(m.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(time_ends_an_acquire_at_its_deadline) {
    auto m = acquiring();
    BOOST_TEST((m.wake() == at(valid)));
    for (auto const when : {protocol::duration(0), period, told, valid - 1ns}) {
        BOOST_TEST(text(m.time(at(when))) == "nothing");
    }
    BOOST_TEST(text(m.time(at(valid))) == "release 02 expired");
    BOOST_TEST(m.phase() == phase::over);
    BOOST_TEST(!m.wake().has_value());
}

BOOST_AUTO_TEST_CASE(time_asks_a_watched_lease_for_renewal_after_a_third_of_its_ttl) {
    auto m = held();
    BOOST_TEST((m.wake() == at(renewal(0s))));
    BOOST_TEST((m.wake() <= at(period)));
    BOOST_TEST((m.wake() > at(period - ttl / 1024)));
    BOOST_TEST(text(m.time(at(renewal(0s) - 1ns))) == "nothing");
    BOOST_TEST(text(m.time(at(renewal(0s)))) == "renewal_due");
    // The effect is repeated until the renewal is done.
    BOOST_TEST(text(m.time(at(period + 1s))) == "renewal_due");
    BOOST_TEST(m.phase() == phase::held);
}

BOOST_AUTO_TEST_CASE(a_lease_with_a_period_of_its_own_is_renewed_by_that) {
    machine m(1, ttl, true, 2s);
    m.acquire(at(0s), of("0"));
    BOOST_TEST(answer(m, command::acquire, 0, yes) == "won");
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() <= at(2s)));
    BOOST_TEST((*m.wake() > at(2s - ttl / 1024)));
    m.extend(at(2s), of("0"));
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "extended");
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() <= at(4s)));
    BOOST_TEST((*m.wake() > at(4s - ttl / 1024)));
}

BOOST_AUTO_TEST_CASE(the_watchdogs_period_counts_from_the_send) {
    machine m(1, ttl, true);
    m.acquire(at(0s), of("0"));
    BOOST_TEST(answer(m, command::acquire, 0, yes, 2s) == "won");
    BOOST_TEST((m.wake() == at(renewal(0s))));
    m.extend(at(4s), of("0"));
    BOOST_TEST(answer(m, command::extend, 0, yes, 6s) == "extended");
    BOOST_TEST((m.wake() == at(renewal(4s))));
}

BOOST_AUTO_TEST_CASE(time_asks_for_no_renewal_while_one_is_under_way) {
    auto m = extending();
    BOOST_TEST((m.wake() == at(told)));
    for (auto const when : {3s, 4s, 9s}) BOOST_TEST(text(m.time(at(when))) == "nothing");
    BOOST_TEST(m.extending());
}

BOOST_AUTO_TEST_CASE(an_unwatched_lease_is_never_asked_for_renewal) {
    auto m = held(false);
    BOOST_TEST((m.wake() == at(told)));
    for (auto const when : {period, 2 * period, told - 1ns}) {
        BOOST_TEST(text(m.time(at(when))) == "nothing");
    }
    BOOST_TEST(text(m.time(at(told))) == "lost");
}

BOOST_AUTO_TEST_CASE(time_says_nothing_once_released_or_over) {
    for (auto const& before : {releasing(), over()}) {
        auto m = before;
        BOOST_TEST(!m.wake().has_value());
        for (auto const when :
             {protocol::duration(1s), period, told, valid, protocol::duration(1h)}) {
            BOOST_TEST(text(m.time(at(when))) == "nothing");
        }
        BOOST_TEST(m.phase() == before.phase());
    }
}

BOOST_AUTO_TEST_CASE(release_asks_wherever_the_key_may_be_in_every_phase) {
    auto a = acquiring();
    BOOST_TEST(text(a.release(at(1s), of("012"))) == "release 02");
    BOOST_TEST(a.phase() == phase::releasing);
    // A grant after the release does not win.
    BOOST_TEST(answer(a, command::acquire, 2, yes) == "nothing");

    auto h = held();
    BOOST_TEST(text(h.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(h.phase() == phase::releasing);

    auto e = extending();
    BOOST_TEST(text(e.release(at(4s), of("012"))) == "release 02");
    BOOST_TEST(!e.extending());
    BOOST_TEST(answer(e, command::extend, 2, yes, 4s) == "nothing");
    BOOST_TEST((e.deadline() == at(valid)));

    auto g = healing();
    BOOST_TEST(text(g.release(at(4s), of("012"))) == "release 012");
}

BOOST_AUTO_TEST_CASE(releasing_what_is_over_sends_nothing) {
    auto m = over();
    BOOST_TEST(text(m.release(at(1s), of("012"))) == "lost");
    BOOST_TEST(m.phase() == phase::over);
    auto l = held();
    BOOST_TEST(text(l.time(at(valid))) == "release 012 lost");
    BOOST_TEST(text(l.release(at(valid), of("012"))) == "lost");
}

BOOST_AUTO_TEST_SUITE_END()
