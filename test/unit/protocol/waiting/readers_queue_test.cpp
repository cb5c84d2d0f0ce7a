// Readers and writers in the queue of a process: who shares a tenure, and the notes of writers that
// wait.
#include "protocol/waiting/wait_queue.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <optional>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

constexpr duration retry = 250ms;
constexpr duration ttl = 9s;
constexpr duration round_trip = 2ms;
constexpr duration share_time = waiting_rules::share_time(round_trip);
constexpr duration spreads = waiting_rules::spreads_note(round_trip);
auto const all = instance_set::first(3);

tally refused_by_two() {
    tally t(3, 2, all);
    t.count(0, verdict::no);
    t.count(1, verdict::no);
    return t;
}

/// A queue, and who may stand in it.
struct fixture {
    fixture() {
        for (auto* w : {&reader, &other, &third, &writer, &second, &plain}) w->set_ttl(ttl);
        for (auto* w : {&reader, &other, &third}) w->shared = true;
        for (auto* w : {&writer, &second}) w->writes = w->notes = true;
    }
    ~fixture() { q.abandon(); }

    queue_effect next(duration now) {
        for (;;) {
            auto const action = q.next(at(now), all);
            if (action.track.empty()) return action.effect;
            action.track.for_each([&](unsigned i) {
                q.tracked(at(now), i, q.tracking_round(),
                          {.is = sighting::state::held, .tracked = true}, 0);
            });
        }
    }
    void forget() {
        q.abandon();
        q = holdfast::protocol::wait_queue(3);
    }
    void held_by(waiter& w, duration when = 0ms) {
        BOOST_REQUIRE(q.join(w));
        BOOST_REQUIRE(next(when) == queue_effect::try_all);
        q.try_begun(at(when));
        BOOST_REQUIRE(&q.won(at(when + round_trip)) == &w);
    }
    /// Whether it shares the tenure that was won at `round_trip`.
    bool shares(waiter const& w, duration now = 2 * round_trip, duration left = ttl) const {
        return q.shares(w, at(now), left);
    }

    /// The try under way is refused by all, and the next one by the arbiter.
    void refused_everywhere(duration now) {
        q.contended(at(now), refused_by_two(), retry, 0);
        auto follows = next(now);
        if (follows == queue_effect::inspect) {
            q.inspected(true);
            follows = next(now);
        }
        BOOST_REQUIRE(follows == queue_effect::try_arbiter);
        q.try_begun(at(now), 1);
    }
    void refused(duration now, bool push = true, std::optional<duration> left = ttl) {
        q.refused(at(now), left, push, retry, 0);
    }
    void waiting(waiter& w) {
        BOOST_REQUIRE(q.join(w));
        BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
        q.try_begun(at(0ms));
        refused_everywhere(round_trip);
        refused(2 * round_trip);
        BOOST_REQUIRE(next(2 * round_trip) == queue_effect::none);
    }
    /// All are asked at `when`, and not 1 us earlier, although nothing has happened.
    void asks_all_at(duration when) {
        BOOST_REQUIRE(q.wake().has_value());
        while (*q.wake() < at(when)) {
            auto const earlier = *q.wake() - at(0ms);
            BOOST_REQUIRE(next(earlier) == queue_effect::none);
            BOOST_REQUIRE(*q.wake() > at(earlier));
        }
        BOOST_TEST((*q.wake() == at(when)));
        BOOST_REQUIRE(next(when - 1us) == queue_effect::none);
        BOOST_REQUIRE(next(when) == queue_effect::try_all);
        q.try_begun(at(when));
    }

    waiter reader, other, third, writer, second, plain;
    holdfast::protocol::wait_queue q{3};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(readers_queue, fixture)

//
// Sharing a tenure
//

BOOST_AUTO_TEST_CASE(a_newcomer_shares_a_young_tenure_of_readers) {
    held_by(reader);
    BOOST_TEST(shares(other));
    BOOST_TEST(shares(other, round_trip + share_time - 1us));
    BOOST_TEST(!shares(other, round_trip + share_time));
}

BOOST_AUTO_TEST_CASE(a_tenure_that_was_won_fast_is_shared_for_a_short_time) {
    BOOST_TEST((waiting_rules::share_time(10us) == 1ms));
    BOOST_TEST((waiting_rules::share_time(2ms) == 10ms));
    BOOST_TEST((waiting_rules::share_time(1s) == 50ms));
}

BOOST_AUTO_TEST_CASE(who_asks_for_more_than_the_tenure_gives_shares_it_not) {
    held_by(reader);
    other.fenced = true;
    BOOST_TEST(!shares(other));
    other.fenced = false;
    other.set_ttl(2 * ttl);
    BOOST_TEST(!shares(other));
    other.set_ttl(ttl);
    BOOST_TEST(!shares(other, 2 * round_trip, ttl / 2 - 1ms));
    BOOST_TEST(shares(other, 2 * round_trip, ttl / 2));
    other.alone = true;
    BOOST_TEST(!shares(other));
    other.alone = false;
    other.adopts = true;
    BOOST_TEST(!shares(other));
}

// The memory of an acquire that has ended is used for another one.
BOOST_AUTO_TEST_CASE(a_tenure_that_was_adopted_is_shared_as_any_other) {
    reader.adopts = true;
    held_by(reader);
    BOOST_TEST(shares(other));
    reader.adopts = false;
    BOOST_TEST(shares(reader));
    reader.fenced = true;
    BOOST_TEST(!shares(reader));
    reader.fenced = false;
    reader.set_ttl(2 * ttl);
    BOOST_TEST(!shares(reader));
}

BOOST_AUTO_TEST_CASE(a_reader_that_is_alone_shares_with_nobody) {
    reader.alone = true;
    held_by(reader);
    BOOST_TEST(!shares(other));
}

BOOST_AUTO_TEST_CASE(writers_share_nothing) {
    held_by(writer);
    BOOST_TEST(!shares(other));
    BOOST_TEST(!shares(second));
    forget();
    held_by(reader, 100ms);
    BOOST_TEST(!shares(writer, 101ms));
}

BOOST_AUTO_TEST_CASE(readers_behind_the_first_are_served_with_it_until_a_writer_comes) {
    BOOST_REQUIRE(q.join(reader));
    BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
    q.try_begun(at(0ms));
    BOOST_REQUIRE((q.join(other) && q.join(writer) && q.join(third)));
    BOOST_TEST(&q.won(at(1s)) == &reader);
    BOOST_TEST(shares(other, 3s)); // however old the tenure is
    BOOST_TEST(!shares(third, 1s));
    BOOST_TEST(&q.share() == &other);
    BOOST_TEST(!shares(writer, 1s));
    BOOST_TEST(!shares(third, 1s));
}

BOOST_AUTO_TEST_CASE(readers_do_not_share_while_the_turn_is_of_others) {
    held_by(reader);
    q.may_try(false);
    BOOST_TEST(!shares(other));
}

BOOST_AUTO_TEST_CASE(neither_readers_nor_writers_are_handed_the_tenure_of_the_others) {
    held_by(reader);
    BOOST_REQUIRE(q.join(writer));
    BOOST_TEST(!q.hands_over(at(2 * round_trip), ttl, ttl, 64, 1s));
    forget();
    held_by(second, 100ms);
    BOOST_REQUIRE(q.join(other));
    BOOST_TEST(!q.hands_over(at(101ms), ttl, ttl, 64, 1s));
    q.leave(other);
    BOOST_REQUIRE(q.join(writer));
    BOOST_TEST(q.hands_over(at(101ms), ttl, ttl, 64, 1s));
}

//
// A tenure of readers, and the queue
//

BOOST_AUTO_TEST_CASE(a_tenure_of_readers_goes_on_without_the_queue_when_somebody_waits) {
    for (auto* const next_one : {&other, &writer, &plain}) {
        held_by(reader, 0ms);
        BOOST_REQUIRE(q.join(*next_one));
        BOOST_TEST((next(2 * round_trip) == queue_effect::part));
        BOOST_TEST(!q.held());
        BOOST_TEST((next(2 * round_trip) == queue_effect::try_all));
        q.try_begun(at(2 * round_trip));
        forget();
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_of_readers_is_not_folded) {
    held_by(reader);
    BOOST_TEST((next(2 * round_trip) == queue_effect::none));
    q.released(at(1s));
    held_by(writer, 2s);
    BOOST_TEST((next(2s + round_trip) == queue_effect::fold));
}

BOOST_AUTO_TEST_CASE(a_reader_that_does_not_wait_tries_beside_readers_of_its_process) {
    other.waits = writer.waits = false;
    held_by(reader);
    BOOST_TEST(!q.join(writer));
    BOOST_REQUIRE(q.join(other));
    BOOST_TEST((next(1s) == queue_effect::part));
    BOOST_TEST((next(1s) == queue_effect::try_all));
    q.try_begun(at(1s));
    (void)q.won(at(1s + round_trip));
    forget();
    held_by(second, 2s);
    BOOST_TEST(!q.join(other));
}

BOOST_AUTO_TEST_CASE(readers_do_not_stand_back) {
    waiting(reader);
    BOOST_REQUIRE(q.push(at(1s), 1, 0));
    BOOST_REQUIRE(next(1100ms) == queue_effect::try_arbiter);
    q.try_begun(at(1100ms), 1);
    (void)q.won(at(1101ms));
    q.released(at(1200ms));
    BOOST_TEST(!q.stands_back());
    BOOST_TEST((next(1200ms) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_reader_does_not_wait_while_a_writer_stands_back) {
    waiting(writer);
    BOOST_REQUIRE(q.push(at(1s), 1, 0));
    BOOST_REQUIRE(next(1100ms) == queue_effect::try_arbiter);
    q.try_begun(at(1100ms), 1);
    (void)q.won(at(1101ms));
    BOOST_REQUIRE(q.join(second));
    q.released(at(1200ms));
    BOOST_REQUIRE(q.stands_back());
    BOOST_TEST((next(1200ms) != queue_effect::try_arbiter));
    q.leave(second);
    BOOST_REQUIRE(q.join(other));
    BOOST_TEST((next(1200ms) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_writer_that_becomes_a_reader_shares_from_then_on) {
    held_by(writer);
    q.downgraded(at(1s), false);
    BOOST_TEST(shares(other, 1s + share_time - 1us));
    BOOST_TEST(!shares(other, 1s + share_time));
    BOOST_REQUIRE(q.join(second));
    BOOST_TEST(!q.hands_over(at(1s), ttl, ttl, 64, 10s));
    BOOST_TEST((next(1s) == queue_effect::part));
}

BOOST_AUTO_TEST_CASE(a_writer_that_becomes_a_reader_for_a_time_is_alone) {
    held_by(writer);
    q.downgraded(at(1s), true);
    BOOST_TEST(!shares(other, 1s));
}

// The round that was won shows that no writer waits. So the readers that go on may be joined again.
BOOST_AUTO_TEST_CASE(readers_that_go_on_are_joined_again_after_a_round) {
    held_by(reader);
    BOOST_REQUIRE(q.join(other));
    BOOST_REQUIRE(next(1s) == queue_effect::part);
    BOOST_REQUIRE(next(1s) == queue_effect::try_all);
    q.try_begun(at(1s));
    BOOST_REQUIRE(&q.won(at(1s + round_trip)) == &other);
    BOOST_TEST(!q.rejoins(other, ttl / 2 - 1ms, ttl, false));
    BOOST_TEST(!q.rejoins(other, ttl, ttl - 1ms, false));
    other.fenced = true;
    BOOST_TEST(!q.rejoins(other, ttl, ttl, false));
    BOOST_TEST(q.rejoins(other, ttl, ttl, true));
    BOOST_TEST(shares(other, 1s + 2 * round_trip)); // the fence is that of the readers that go on
    BOOST_TEST(!shares(third, 1s + round_trip + share_time));
    other.fenced = false;
    BOOST_TEST(q.rejoins(other, ttl, ttl, false));
    other.alone = true;
    BOOST_TEST(!q.rejoins(other, ttl, ttl, false));
}

//
// Who waits for what
//

BOOST_AUTO_TEST_CASE(a_reader_does_not_inherit_the_wait_of_a_writer) {
    waiting(writer);
    BOOST_REQUIRE(q.join(reader));
    BOOST_REQUIRE(next(2 * round_trip) == queue_effect::none);
    q.leave(writer);
    BOOST_TEST((next(2 * round_trip) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_writer_does_not_inherit_the_wait_of_a_reader) {
    waiting(reader);
    BOOST_REQUIRE(q.join(writer));
    q.leave(reader);
    BOOST_TEST((next(2 * round_trip) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_writer_leaves_notes_that_a_plain_lock_before_it_has_not_left) {
    waiting(plain);
    BOOST_REQUIRE(q.join(writer));
    q.leave(plain);
    BOOST_TEST((next(2 * round_trip) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_waiter_inherits_the_wait_of_one_of_its_kind) {
    waiting(writer);
    BOOST_REQUIRE((q.join(second) && q.join(plain)));
    q.leave(writer);
    BOOST_TEST((next(2 * round_trip) == queue_effect::none));
    // The notes are withdrawn, and that ends the registration of the arbiter's push.
    q.leave(second);
    BOOST_TEST((next(2 * round_trip) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(it_is_known_whether_a_writer_has_left_notes) {
    BOOST_REQUIRE((q.join(plain) && q.join(reader)));
    BOOST_TEST(!q.has_writers());
    BOOST_REQUIRE((q.join(writer) && q.join(second)));
    BOOST_TEST(q.has_writers());
    q.leave(writer);
    BOOST_TEST(q.has_writers());
    q.leave(plain);
    q.leave(reader);
    BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
    q.try_begun(at(0ms));
    (void)q.won(at(round_trip));
    BOOST_TEST(!q.has_writers());
}

//
// Notes
//

// Its first round may have met another writer, and then the arbiter alone has its note.
BOOST_AUTO_TEST_CASE(a_writer_that_waits_soon_leaves_its_note_everywhere) {
    waiting(writer);
    asks_all_at(2 * round_trip + spreads);
}

BOOST_AUTO_TEST_CASE(its_note_stays_everywhere) {
    waiting(writer);
    asks_all_at(2 * round_trip + spreads);
    refused_everywhere(100ms);
    refused(101ms);
    asks_all_at(101ms + waiting_rules::renews_note(ttl));
    refused_everywhere(4s);
    refused(4001ms);
    asks_all_at(4001ms + waiting_rules::renews_note(ttl));
}

BOOST_AUTO_TEST_CASE(after_a_change_of_the_key_the_note_is_left_again) {
    waiting(writer);
    asks_all_at(2 * round_trip + spreads);
    refused_everywhere(100ms);
    refused(101ms);
    BOOST_REQUIRE(q.push(at(1s), 1, 0));
    BOOST_REQUIRE(next(1s + 1us) == queue_effect::try_arbiter);
    q.try_begun(at(1s + 1us), 1);
    refused(1s + round_trip);
    asks_all_at(1s + round_trip + waiting_rules::spreads_note(q.round_trip()));
}

// Whoever has the key since would not have had to wait for the note either.
BOOST_AUTO_TEST_CASE(while_the_key_changes_hands_the_arbiter_alone_is_asked) {
    waiting(writer);
    for (auto now = 3 * round_trip; now < 9s; now += spreads / 2) {
        BOOST_REQUIRE(q.push(at(now), 1, 0));
        BOOST_REQUIRE(next(now + 1us) == queue_effect::try_arbiter);
        q.try_begun(at(now + 1us), 1);
        refused(now + round_trip);
        BOOST_REQUIRE(next(now + round_trip) == queue_effect::none);
    }
}

BOOST_AUTO_TEST_CASE(a_note_is_left_everywhere_although_the_arbiter_cannot_push) {
    BOOST_REQUIRE(q.join(writer));
    BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
    q.try_begun(at(0ms));
    refused_everywhere(round_trip);
    auto now = 2 * round_trip;
    constexpr auto longest_pauses = 7'999'999;
    q.refused(at(now), std::nullopt, false, retry, longest_pauses);
    for (auto polls = 0;; ++polls) {
        BOOST_REQUIRE(q.wake().has_value());
        now = *q.wake() - at(0ms);
        auto const effect = next(now);
        if (effect == queue_effect::try_all) break;
        BOOST_REQUIRE(effect == queue_effect::try_arbiter);
        BOOST_REQUIRE(polls < 3); // a further poll asks all for another reason
        q.try_begun(at(now), 1);
        q.refused(at(now), std::nullopt, false, retry, longest_pauses);
    }
    BOOST_TEST((now == 2 * round_trip + spreads));
}

BOOST_AUTO_TEST_CASE(who_leaves_no_notes_does_not_ask_all_for_their_sake) {
    for (auto* const w : {&reader, &plain}) {
        waiting(*w);
        BOOST_TEST((next(5s) == queue_effect::none));
        forget();
    }
}

// Replies to earlier commands may be under way, and each kind of lock reads its own.
BOOST_AUTO_TEST_CASE(no_tenure_is_handed_over_between_a_writer_and_an_exclusive_lock) {
    auto const hands_over = [&](waiter& holder, waiter& next) {
        forget();
        held_by(holder);
        BOOST_REQUIRE(q.join(next));
        return q.hands_over(at(2 * round_trip), ttl, ttl, 10, 1s);
    };
    BOOST_TEST(hands_over(writer, second));
    BOOST_TEST(!hands_over(writer, plain));
    BOOST_TEST(!hands_over(plain, writer));
    BOOST_TEST(!hands_over(writer, reader));
}

BOOST_AUTO_TEST_CASE(a_folded_queue_knows_that_its_tenure_is_a_writers) {
    for (auto const writes : {false, true}) {
        q.abandon();
        q = holdfast::protocol::wait_queue(
            3, folded_queue{.held_since = at(2ms), .round_trip = 2ms, .writes = writes});
        BOOST_REQUIRE(q.join(second));
        BOOST_TEST(q.hands_over(at(3ms), ttl, ttl, 10, 1s) == writes);
    }
}

// A try for an exclusive lock serves no writer.
BOOST_AUTO_TEST_CASE(no_try_is_inherited_between_a_writer_and_an_exclusive_lock) {
    BOOST_REQUIRE(q.join(plain));
    BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
    q.try_begun(at(0ms));
    BOOST_REQUIRE(q.join(writer));
    q.leave(plain);
    BOOST_TEST((next(1ms) == queue_effect::cancel_try));
}

// It is told how long a note, a turn or a reader lasts. These change and the key does not, so there
// is nothing to push.
BOOST_AUTO_TEST_CASE(another_time_than_before_is_no_missed_push) {
    for (auto* const first : {&plain, &reader, &writer}) {
        for (auto* const w : {&reader, &writer, &plain}) {
            if (first == &plain && w == &plain) continue;
            forget();
            waiting(*first);
            auto& next_one = w == first ? (w == &reader ? other : second) : *w;
            BOOST_REQUIRE(q.join(next_one));
            q.leave(*first);
            auto now = 10ms;
            auto follows = next(now);
            while (follows == queue_effect::none) {
                now = std::chrono::ceil<std::chrono::milliseconds>(*q.wake() - at(0ms));
                follows = next(now);
            }
            if (follows == queue_effect::try_all) continue;
            BOOST_REQUIRE(follows == queue_effect::try_arbiter);
            q.try_begun(at(now), 1);
            refused(now + 2ms, true, ttl / 2);
            BOOST_TEST((q.take_breach() == breach::none));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
