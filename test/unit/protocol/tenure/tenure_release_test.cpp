// The release of a tenure, and standstills of the client's clock.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

using namespace tenures;

BOOST_AUTO_TEST_SUITE(tenure_release)

//
// Release
//

BOOST_AUTO_TEST_CASE(a_quorum_that_deleted_the_key_is_a_release) {
    auto m = held();
    BOOST_TEST(text(m.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 1, yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 2, yes) == "released");
    BOOST_TEST(m.phase() == phase::over);
    // The key is deleted on the last instance too, but the result does not change.
    BOOST_TEST(answer(m, command::release, 0, yes) == "nothing");
    BOOST_TEST(m.maybe_held().empty());
}

BOOST_AUTO_TEST_CASE(a_release_that_too_few_answered_is_unconfirmed) {
    for (auto const failure : {unsent, unknown, refused}) {
        auto m = held();
        m.release(at(1s), of("012"));
        BOOST_TEST(answer(m, command::release, 0, failure) == "nothing");
        BOOST_TEST(answer(m, command::release, 1, failure) == "release_unconfirmed");
        BOOST_TEST(m.phase() == phase::over);
        BOOST_TEST(text(m.maybe_held()) == "012");
    }
}

BOOST_AUTO_TEST_CASE(a_release_of_what_a_majority_had_no_more_is_a_loss) {
    auto m = held();
    m.release(at(1s), of("012"));
    BOOST_TEST(answer(m, command::release, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::release, 2, no) == "lost");
    BOOST_TEST(m.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_release_after_the_deadline_is_a_loss_whatever_the_servers_say) {
    for (auto const when : {valid, valid + 1s}) {
        auto m = held();
        // The instances are still asked: the keys may live a little longer than the lease.
        BOOST_TEST(text(m.release(at(when), of("012"))) == "release 012");
        BOOST_TEST(answer(m, command::release, 0, yes, when) == "nothing");
        BOOST_TEST(answer(m, command::release, 1, yes, when) == "lost");
    }
    auto unanswered = held();
    unanswered.release(at(valid), of("012"));
    answer(unanswered, command::release, 0, unknown, valid);
    BOOST_TEST(answer(unanswered, command::release, 1, unknown, valid) == "lost");
    auto m = held();
    m.release(at(valid - 1ns), of("012"));
    answer(m, command::release, 0, yes, valid);
    BOOST_TEST(answer(m, command::release, 1, yes, valid) == "released");
}

BOOST_AUTO_TEST_CASE(only_instances_that_may_have_the_key_are_asked_to_delete_it) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("0123")); // instance 4 is down
    answer(m, command::acquire, 0, yes);
    answer(m, command::acquire, 1, no);
    answer(m, command::acquire, 2, yes);
    BOOST_TEST(answer(m, command::acquire, 3, yes) == "won");
    BOOST_TEST(text(m.release(at(1s), of("01234"))) == "release 023");
}

BOOST_AUTO_TEST_CASE(an_instance_that_cannot_be_reached_is_still_owed_its_release) {
    auto m = held();
    BOOST_TEST(text(m.release(at(1s), of("01"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 0, yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, yes) == "released");
    BOOST_TEST(text(m.maybe_held()) == "2");
    auto n = held();
    BOOST_TEST(text(n.release(at(1s), {})) == "release 012 release_unconfirmed");
    BOOST_TEST(n.phase() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_release_is_not_called_a_loss_while_a_quorum_may_have_had_the_key) {
    // One instance restarted and forgot the key, and one does not answer. The third may still have
    // it.
    auto m = held();
    m.release(at(1s), of("012"));
    BOOST_TEST(answer(m, command::release, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, unknown) == "nothing");
    auto silent = m;
    BOOST_TEST(answer(silent, command::release, 2, unknown) == "release_unconfirmed");
    // In that case a majority is free now.
    BOOST_TEST(answer(m, command::release, 2, yes) == "released");

    // Two of three instances had the key, and the connection to one broke.
    machine down(3, ttl, true);
    down.acquire(at(0s), of("01"));
    answer(down, command::acquire, 0, yes);
    BOOST_TEST(answer(down, command::acquire, 1, yes) == "won");
    BOOST_TEST(text(down.release(at(1s), of("01"))) == "release 01");
    BOOST_TEST(answer(down, command::release, 0, unknown) == "nothing");
    BOOST_TEST(answer(down, command::release, 1, yes) ==
               "released"); // instance 2 never had the key

    // The same case, but the connection was already broken at the time of the release.
    machine known(3, ttl, true);
    known.acquire(at(0s), of("01"));
    answer(known, command::acquire, 0, yes);
    answer(known, command::acquire, 1, yes);
    BOOST_TEST(text(known.release(at(1s), of("0"))) == "release 01");
    BOOST_TEST(answer(known, command::release, 0, unknown) == "release_unconfirmed");
}

BOOST_AUTO_TEST_CASE(every_schedule_of_answers_settles_a_release_once_and_rightly) {
    for (unsigned n = 1; n <= 4; ++n) {
        auto const quorum = majority[n];
        every_schedule(n, false, [&](std::string const& said, std::vector<unsigned> const& order) {
            machine m(n, ttl, true);
            m.acquire(at(0s), instance_set::first(n));
            for (unsigned i = 0; i < n; ++i) answer(m, command::acquire, i, yes);
            m.release(at(1s), instance_set::first(n));
            counts c{.pending = n};
            auto maybe = instance_set::first(n);
            auto settled = false;
            for (auto const i : order) {
                c.count(said[i]);
                if (said[i] == 'y' || said[i] == 'n') maybe.erase(i);
                std::string expected = "nothing";
                if (!settled && c.yes >= quorum) {
                    expected = "released";
                } else if (!settled && c.no > n - quorum) {
                    // No quorum had the key, so the lease was lost.
                    expected = "lost";
                } else if (!settled && c.pending == 0 && c.yes + c.no >= quorum) {
                    // A majority does not have the key any more, so it is released.
                    expected = "released";
                } else if (!settled && c.failed > n - quorum) {
                    expected = "release_unconfirmed";
                }
                settled = settled || expected != "nothing";
                auto const got = answer(m, command::release, i, verdict_of(said[i]));
                BOOST_REQUIRE_MESSAGE(got == expected, in_words(said, order)
                                                           << ", at " << i << ": " << got
                                                           << " and not " << expected);
                BOOST_REQUIRE_MESSAGE(m.maybe_held() == maybe, in_words(said, order));
            }
            BOOST_REQUIRE_MESSAGE(settled && m.phase() == phase::over, in_words(said, order));
        });
    }
}

//
// Standstills of the client's clock
//

BOOST_AUTO_TEST_CASE(a_standstill_moves_what_was_sent_before_it) {
    auto m = held();
    auto const wake = *m.wake();
    m.clock_stood_still(at(1s), 3s);
    BOOST_TEST((m.deadline() == at(valid - 3s)));
    BOOST_TEST((m.wake() == wake - 3s)); // the renewal moves too
    BOOST_TEST(text(m.time(at(valid - 3s))) == "release 012 lost");
    auto later = held();
    later.clock_stood_still(at(0s), 3s); // the acquire was sent after the standstill
    BOOST_TEST((later.deadline() == at(valid)));
}

BOOST_AUTO_TEST_CASE(a_standstill_moves_an_extension_that_is_under_way) {
    auto m = held();
    m.extend(at(1s), instance_set::first(3));
    m.clock_stood_still(at(2s), 3s);
    BOOST_TEST((m.deadline() == at(valid - 3s)));
    answer(m, command::extend, 0, verdict::yes, 2s);
    BOOST_TEST(answer(m, command::extend, 1, verdict::yes, 2s) == "extended");
    BOOST_TEST((m.deadline() == at(1s + valid - 3s)));
    auto after = held();
    after.clock_stood_still(at(1s), 3s);
    after.extend(at(1s), instance_set::first(3));
    answer(after, command::extend, 0, verdict::yes, 2s);
    BOOST_TEST(answer(after, command::extend, 1, verdict::yes, 2s) == "extended");
    BOOST_TEST((after.deadline() == at(1s + valid)));
}

BOOST_AUTO_TEST_CASE(a_standstill_moves_an_acquire_that_is_under_way) {
    machine m(3, 10s, true);
    m.acquire(at(0s), instance_set::first(3));
    m.clock_stood_still(at(1s), 3s);
    BOOST_TEST((m.wake() == at(valid - 3s)));
    answer(m, command::acquire, 0, verdict::yes, 1s);
    BOOST_TEST(answer(m, command::acquire, 1, verdict::yes, 1s) == "won");
    BOOST_TEST((m.deadline() == at(valid - 3s)));
}

// The holder hears of the loss as long before the limit as without a standstill.
BOOST_AUTO_TEST_CASE(a_standstill_leaves_the_margin_before_the_limit_of_a_lease) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    auto const margin = m.margin();
    BOOST_REQUIRE((margin > 0s));
    m.clock_stood_still(at(1s), 4900ms);
    BOOST_TEST((m.deadline() == at(100ms)));
    BOOST_TEST((m.margin() == margin));
    BOOST_TEST((m.lease_began() == at(-4900ms)));
}

BOOST_AUTO_TEST_CASE(a_standstill_moves_the_limit_of_a_lease_that_had_begun) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    m.clock_stood_still(at(1s), 2s);
    BOOST_TEST((m.deadline() == at(3s)));
    auto n = held();
    n.begin_lease(true, at(1s), 5s);
    n.clock_stood_still(at(1s), 2s);
    BOOST_TEST((n.deadline() == at(6s)));
    BOOST_TEST((n.valid_until() == at(valid - 2s)));
}

BOOST_AUTO_TEST_SUITE_END()
