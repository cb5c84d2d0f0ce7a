// One ownership of a key, driven by hand: what comes out of it in each phase, and what must not.
//
// A step is written as text: "release 02 contended" is a release to instances 0 and 2, and the
// event.
#include "protocol/tenure.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
namespace protocol = holdfast::protocol;
using protocol::command;
using protocol::event;
using protocol::instance_set;
using protocol::redlock_rules;
using protocol::step;
using protocol::time_point;
using protocol::verdict;
using machine = protocol::basic_tenure<redlock_rules>;
using phase = machine::phase;

namespace holdfast::protocol {

std::ostream& operator<<(std::ostream& out, event e) {
    constexpr std::array names{"none",       "won",       "contended",   "no_quorum",
                               "expired",    "cancelled", "arbiter_won", "arbiter_refused",
                               "arb_failed", "inspected", "renewal_due", "extended",
                               "ext_fail",   "lost",      "ended",       "released",
                               "unconfirmed"};
    static_assert(names.size() == static_cast<std::size_t>(event::release_unconfirmed) + 1);
    return out << names[static_cast<std::size_t>(e)];
}

std::ostream& operator<<(std::ostream& out, command c) {
    constexpr std::array names{"acquire", "extend", "release", "heal",
                               "contend", "raise",  "inspect"};
    static_assert(names.size() == static_cast<std::size_t>(command::inspect) + 1);
    return out << names[static_cast<std::size_t>(c)];
}

std::ostream& operator<<(std::ostream& out, verdict v) {
    constexpr std::array names{"yes", "no", "unsent", "unknown", "refused"};
    return out << names[static_cast<std::size_t>(v)];
}

std::ostream& operator<<(std::ostream& out, instance_set s) {
    s.for_each([&](unsigned i) { out << i; });
    return out;
}

std::ostream& operator<<(std::ostream& out, machine::phase p) {
    constexpr std::array names{"acquiring", "held", "ending", "releasing", "over"};
    return out << names[static_cast<std::size_t>(p)];
}

} // namespace holdfast::protocol

namespace {

constexpr protocol::duration ttl = 10s;
constexpr protocol::duration valid = 10s - 102ms; // less the drift allowance
constexpr protocol::duration told = valid - 50ms; // when the holder hears of the loss
constexpr protocol::duration period = protocol::duration(10s) / 3;
constexpr protocol::duration retry = 1s;

constexpr std::array every_verdict{verdict::yes, verdict::no, verdict::unsent, verdict::unknown,
                                   verdict::refused};
constexpr std::array every_failure{verdict::no, verdict::unsent, verdict::unknown,
                                   verdict::refused};
constexpr std::array<unsigned, 8> majority{0, 1, 2, 2, 3, 3, 4, 4};

time_point at(protocol::duration since) {
    return time_point(1'000s + since);
}

/// When a lease that was asked for at `sent` is renewed: a period later, down to the thousandth of
/// a ttl that it shares with others.
protocol::duration renewal(protocol::duration sent) {
    constexpr auto slot = ttl / 1024;
    auto const since_epoch = (at(sent) + period).time_since_epoch();
    return (since_epoch / slot) * slot - at(0s).time_since_epoch();
}

instance_set of(std::string_view digits) {
    instance_set s;
    for (char const c : digits) s.insert(static_cast<unsigned>(c - '0'));
    return s;
}

std::string text(instance_set s) {
    std::string digits;
    s.for_each([&](unsigned i) { digits += static_cast<char>('0' + i); });
    return digits;
}

std::string text(step const& s) {
    std::string t;
    auto const add = [&](std::string_view word, std::string const& more = {}) {
        if (!t.empty()) t += ' ';
        t += word;
        if (!more.empty()) t += ' ' + more;
    };
    if (!s.acquire.empty()) add("acquire", text(s.acquire));
    if (!s.contend.empty()) add("contend", text(s.contend));
    if (!s.raise.empty()) add("raise", text(s.raise));
    if (!s.extend.empty()) add("extend", text(s.extend));
    if (!s.heal.empty()) add("heal", text(s.heal));
    if (!s.release.empty()) add("release", text(s.release));
    switch (s.what) {
    case event::none:
        break;
    case event::won:
        add("won");
        break;
    case event::contended:
        add("contended");
        break;
    case event::no_quorum:
        add("no_quorum");
        break;
    case event::expired:
        add("expired");
        break;
    case event::cancelled:
        add("cancelled");
        break;
    case event::arbiter_won:
        add("arbiter_won");
        break;
    case event::arbiter_refused:
        add("arbiter_refused");
        break;
    case event::arbiter_failed:
        add("arbiter_failed");
        break;
    case event::inspected:
        add("inspected");
        break;
    case event::renewal_due:
        add("renewal_due");
        break;
    case event::extended:
        add("extended");
        break;
    case event::extension_failed:
        add("extension_failed");
        break;
    case event::lost:
        add("lost");
        break;
    case event::ended:
        add("ended");
        break;
    case event::released:
        add("released");
        break;
    case event::release_unconfirmed:
        add("release_unconfirmed");
        break;
    }
    return t.empty() ? "nothing" : t;
}

std::string answer(machine& m, command c, unsigned instance, verdict v,
                   protocol::duration when = 1s) {
    return text(m.answer(c, m.round_number(), instance, v, at(when)));
}

bool same_votes(protocol::tally const& a, protocol::tally const& b) {
    return a.yes() == b.yes() && a.no() == b.no() && a.failed() == b.failed() &&
           a.pending() == b.pending();
}

// Each phase, on three instances, where the answer of instance 2 is the one that decides.

machine acquiring() {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.acquire(at(0s), of("012"))) == "acquire 012");
    BOOST_TEST(answer(m, command::acquire, 0, verdict::yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, verdict::no) == "nothing");
    return m;
}

/// Won; instance 2 has not answered yet.
machine held(bool watched = true) {
    machine m(3, ttl, watched);
    m.acquire(at(0s), of("012"));
    answer(m, command::acquire, 0, verdict::yes);
    BOOST_TEST(answer(m, command::acquire, 1, verdict::yes) == "won");
    return m;
}

/// Its extension, sent after 3 s, has one yes and one no.
machine extending() {
    auto m = held();
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, verdict::yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, verdict::no, 3s) == "nothing");
    return m;
}

/// Extended by 0 and 2; instance 1 had lost the key and is being given it back.
machine healing() {
    auto m = extending();
    BOOST_TEST(answer(m, command::extend, 2, verdict::yes, 3s) == "heal 1 extended");
    return m;
}

/// One yes and one no to the release.
machine releasing() {
    auto m = held();
    BOOST_TEST(text(m.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 0, verdict::yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, verdict::no) == "nothing");
    return m;
}

/// Given up by the caller, with one yes, one no, and instance 2 unanswered.
machine over() {
    auto m = acquiring();
    BOOST_TEST(text(m.cancel()) == "release 02 cancelled");
    return m;
}

/// What an answer of instance 2 does.
struct cell {
    command c;
    verdict v;
    std::string_view comes_out;
    phase then;
    std::string_view maybe_held;
};

template <std::size_t N>
void check(machine const& before, std::array<cell, N> const& cells) {
    for (auto const& row : cells) {
        BOOST_TEST_CONTEXT(row.c << " answered " << row.v) {
            auto m = before;
            BOOST_TEST(answer(m, row.c, 2, row.v, 4s) == row.comes_out);
            BOOST_TEST(m.where() == row.then);
            BOOST_TEST(text(m.maybe_held()) == row.maybe_held);
        }
    }
}

/// Answers to `commands`, whatever they say, come too late or are none of this phase's business.
void check_ignored(machine const& before, std::initializer_list<command> commands) {
    for (auto const c : commands) {
        for (auto const v : every_verdict) {
            for (unsigned instance = 0; instance < 3; ++instance) {
                BOOST_TEST_CONTEXT(c << " answered " << v << " by " << instance) {
                    auto m = before;
                    BOOST_TEST(answer(m, c, instance, v, 4s) == "nothing");
                    BOOST_TEST(m.where() == before.where());
                    BOOST_TEST(m.extending() == before.extending());
                    BOOST_TEST((m.deadline() == before.deadline()));
                    BOOST_TEST(same_votes(m.votes(), before.votes()));
                }
            }
        }
    }
}

constexpr auto yes = verdict::yes;
constexpr auto no = verdict::no;
constexpr auto unsent = verdict::unsent;
constexpr auto unknown = verdict::unknown;
constexpr auto refused = verdict::refused;

} // namespace

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
            BOOST_TEST(m.where() == phase::held);
            BOOST_TEST(same_votes(m.votes(), votes));
            // It may have the key, whatever it says: see the next case.
            BOOST_TEST(text(m.maybe_held()) == "012");
        }
    }
}

BOOST_AUTO_TEST_CASE(an_older_or_a_second_no_does_not_say_that_healing_has_failed) {
    // Sent before the healing: a raise that kept the fence's counter, and an extension whose script
    // was sent again.
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
    // Healed twice: the second finds the key of the first.
    auto m = healing();
    m.extend(at(4s), of("012"));
    answer(m, command::extend, 0, yes, 4s);
    answer(m, command::extend, 2, yes, 4s);
    BOOST_TEST(answer(m, command::extend, 1, no, 4s) == "heal 1");
    answer(m, command::heal, 1, yes, 4s);
    answer(m, command::heal, 1, no, 4s);
    BOOST_TEST(text(m.release(at(5s), of("012"))) == "release 012");
    // Only the answer to a release ends it.
    BOOST_TEST(answer(m, command::release, 1, yes, 5s) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "02");
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_release_decides_while_releasing) {
    constexpr auto c = command::release;
    check(releasing(), std::array<cell, 5>{{{c, yes, "released", phase::over, ""},
                                            {c, no, "lost", phase::over, ""},
                                            // 0 and 1 do not have it any more.
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
    // Also of an extension that was under way.
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
            BOOST_TEST(m.where() == before.where());
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
    BOOST_TEST(m.where() == phase::over);
    for (auto const& before : {held(), extending(), healing(), releasing(), over()}) {
        auto other = before;
        BOOST_TEST(text(other.cancel()) == "nothing");
        BOOST_TEST(other.where() == before.where());
        BOOST_TEST(other.extending() == before.extending());
        BOOST_TEST(other.maybe_held() == before.maybe_held());
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_cancelled_before_it_was_sent_releases_nothing) {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.cancel()) == "cancelled");
    BOOST_TEST(m.where() == phase::over);
}

BOOST_AUTO_TEST_CASE(time_ends_an_acquire_at_its_deadline) {
    auto m = acquiring();
    BOOST_TEST((m.wake() == at(valid)));
    for (auto const when : {protocol::duration(0), period, told, valid - 1ns}) {
        BOOST_TEST(text(m.time(at(when))) == "nothing");
    }
    BOOST_TEST(text(m.time(at(valid))) == "release 02 expired");
    BOOST_TEST(m.where() == phase::over);
    BOOST_TEST(!m.wake().has_value());
}

BOOST_AUTO_TEST_CASE(time_asks_a_watched_lease_for_renewal_after_a_third_of_its_ttl) {
    auto m = held();
    BOOST_TEST((m.wake() == at(renewal(0s))));
    BOOST_TEST((m.wake() <= at(period)));
    BOOST_TEST((m.wake() > at(period - ttl / 1024)));
    BOOST_TEST(text(m.time(at(renewal(0s) - 1ns))) == "nothing");
    BOOST_TEST(text(m.time(at(renewal(0s)))) == "renewal_due");
    // It is asked for until it is done.
    BOOST_TEST(text(m.time(at(period + 1s))) == "renewal_due");
    BOOST_TEST(m.where() == phase::held);
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
        BOOST_TEST(m.where() == before.where());
    }
}

BOOST_AUTO_TEST_CASE(release_asks_wherever_the_key_may_be_in_every_phase) {
    auto a = acquiring();
    BOOST_TEST(text(a.release(at(1s), of("012"))) == "release 02");
    BOOST_TEST(a.where() == phase::releasing);
    // A grant that comes now is no win any more.
    BOOST_TEST(answer(a, command::acquire, 2, yes) == "nothing");

    auto h = held();
    BOOST_TEST(text(h.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(h.where() == phase::releasing);

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
    BOOST_TEST(m.where() == phase::over);
    auto l = held();
    BOOST_TEST(text(l.time(at(valid))) == "release 012 lost");
    BOOST_TEST(text(l.release(at(valid), of("012"))) == "lost");
}

//
// Acquire
//

BOOST_AUTO_TEST_CASE(the_quorumth_yes_wins_and_no_earlier_one) {
    for (unsigned n = 1; n <= 7; ++n) {
        machine m(n, ttl, true);
        m.acquire(at(0s), instance_set::first(n));
        for (unsigned i = 0; i < n; ++i) {
            BOOST_TEST(answer(m, command::acquire, i, yes) ==
                       (i + 1 == majority[n] ? "won" : "nothing"));
            BOOST_TEST(m.where() == (i + 1 < majority[n] ? phase::acquiring : phase::held));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_first_answer_that_rules_out_a_quorum_defeats) {
    for (unsigned n = 1; n <= 7; ++n) {
        // Of an even number a half already rules it out, but only a quorum says that it is
        // contended.
        auto const needed = majority[n];
        machine m(n, ttl, true);
        m.acquire(at(0s), instance_set::first(n));
        for (unsigned i = 0; i + 1 < needed; ++i)
            BOOST_TEST(answer(m, command::acquire, i, no) == "nothing");
        auto const rest = instance_set::first(n) - instance_set::first(needed);
        auto const s = m.answer(command::acquire, 0, needed - 1, no, at(1s));
        BOOST_TEST(s.what == event::contended);
        BOOST_TEST(s.release == rest);
        BOOST_TEST(m.where() == phase::over);
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
            for (unsigned i = 0; i < 5 && m.where() == phase::acquiring; ++i) {
                auto const s = m.answer(command::acquire, 0, i, i == holder ? no : how, at(1s));
                failed += i != holder ? 1 : 0;
                BOOST_TEST(s.what == (failed == 3 ? event::no_quorum : event::none));
            }
            BOOST_TEST(m.where() == phase::over);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_vote_that_completes_a_quorum_of_votes_decides_though_it_is_a_yes) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    BOOST_TEST(answer(m, command::acquire, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, refused) ==
               "nothing"); // no quorum any more, and why is not known
    auto enough = m;
    BOOST_TEST(answer(enough, command::acquire, 3, yes) == "release 34 contended");
    BOOST_TEST(answer(m, command::acquire, 3, refused) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 4, refused) == "no_quorum");
}

/// Asks instance 1 alone.
machine contending() {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.contend(at(0s), 1)) == "contend 1");
    BOOST_TEST(text(m.maybe_held()) == "1");
    return m;
}

BOOST_AUTO_TEST_CASE(the_arbiter_is_asked_alone_and_the_others_when_it_has_granted) {
    auto m = contending();
    BOOST_TEST(answer(m, command::contend, 1, verdict::yes) == "arbiter_won");
    BOOST_TEST(m.where() == phase::acquiring);
    BOOST_TEST(text(m.ask_rest(at(2s), of("012"))) == "acquire 02");
    BOOST_TEST(answer(m, command::acquire, 2, verdict::yes, 3s) == "won");
    // It is valid from before the first request, to the arbiter.
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(what_the_arbiter_does_not_grant_ends_the_try) {
    struct row {
        verdict v;
        std::string_view comes_out, maybe_held;
    };
    // An arbiter whose answer is not known may have granted.
    for (auto const& r :
         {row{verdict::no, "arbiter_refused", ""}, row{verdict::unsent, "arbiter_failed", ""},
          row{verdict::refused, "arbiter_failed", ""},
          row{verdict::unknown, "release 1 arbiter_failed", "1"}}) {
        BOOST_TEST_CONTEXT(r.v) {
            auto m = contending();
            BOOST_TEST(answer(m, command::contend, 1, r.v) == r.comes_out);
            BOOST_TEST(m.where() == phase::over);
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

// It does not mean that all servers are slower than the ttl is long: the next arbiter may be fast.
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
    BOOST_TEST(m.where() == phase::over);
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
            auto const s = m.acquire(at(0s), instance_set::first(reachable));
            if (reachable < majority[n]) {
                BOOST_TEST(text(s) == "no_quorum");
                BOOST_TEST(m.where() == phase::over);
                BOOST_TEST(m.maybe_held().empty());
            } else {
                BOOST_TEST(s.what == event::none);
                BOOST_TEST(s.acquire == instance_set::first(reachable));
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
        BOOST_TEST(m.where() == phase::over);
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
    // The release follows the SET on the same connection: only its answer frees the instance.
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
    BOOST_TEST(m.where() == phase::acquiring);
}

BOOST_AUTO_TEST_CASE(who_was_not_asked_has_no_vote) {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.acquire(at(0s), of("02"))) == "acquire 02");
    BOOST_TEST(answer(m, command::acquire, 0, yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, yes) == "nothing");
    BOOST_TEST(m.where() == phase::acquiring);
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

namespace {

/// Visits every way in which `n` instances answer, in every order; '-' is one that is not asked.
template <class Visit>
void every_schedule(unsigned n, bool with_unasked, Visit&& visit) {
    constexpr std::string_view states = "ynsur-";
    auto const used = states.size() - (with_unasked ? 0 : 1);
    std::size_t total = 1;
    for (unsigned i = 0; i < n; ++i) total *= used;
    for (std::size_t c = 0; c < total; ++c) {
        std::string said;
        for (auto rest = c; said.size() < n; rest /= used) said += states[rest % used];
        std::vector<unsigned> order(n);
        for (unsigned i = 0; i < n; ++i) order[i] = i;
        do {
            visit(said, order);
        } while (std::next_permutation(order.begin(), order.end()));
    }
}

verdict verdict_of(char c) {
    return every_verdict[std::string_view("ynsur").find(c)];
}

std::string in_words(std::string const& said, std::vector<unsigned> const& order) {
    auto words = "answers " + said + " in the order ";
    for (auto const i : order) words += static_cast<char>('0' + i);
    return words;
}

struct counts {
    unsigned yes = 0, no = 0, failed = 0, pending = 0;
    void count(char c) {
        --pending;
        ++(c == 'y' ? yes : c == 'n' ? no : failed);
    }
};

} // namespace

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
            BOOST_REQUIRE_MESSAGE(m.where() != phase::acquiring, in_words(said, order));
        });
    }
    BOOST_TEST(schedules == 6U + 36U * 2 + 216U * 6 + 1296U * 24);
}

//
// Extension
//

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
        BOOST_TEST(text(m.time(at(told))) == "renewal_due"); // and no loss
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
    // Nor may they heal after the later one has won.
    for (unsigned i = 0; i < 2; ++i) answer(m, command::extend, i, yes, 5s);
    BOOST_TEST(answer(m, command::extend, 2, yes, 5s) == "extended");
    BOOST_TEST(text(m.answer(command::extend, earlier, 4, no, at(5s))) == "nothing");
}

BOOST_AUTO_TEST_CASE(an_extension_denied_by_a_majority_loses_the_lease_at_once) {
    auto m = held();
    m.extend(at(3s), of("012"));
    BOOST_TEST(answer(m, command::extend, 2, no, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 0, no, 3s) == "release 1 lost");
    BOOST_TEST(m.where() == phase::over);
    BOOST_TEST(!m.extending());
    // A yes that comes after that revives nothing.
    BOOST_TEST(answer(m, command::extend, 1, yes, 3s) == "nothing");
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.maybe_held()) == "1");
}

BOOST_AUTO_TEST_CASE(an_extension_that_failed_leaves_the_deadline_and_is_tried_again) {
    for (auto const why : {unsent, unknown, refused}) {
        auto m = held();
        m.extend(at(3s), of("012"));
        answer(m, command::extend, 0, yes, 4s);
        answer(m, command::extend, 1, why, 4s);
        BOOST_TEST(answer(m, command::extend, 2, why, 4s) == "extension_failed");
        BOOST_TEST(m.where() == phase::held);
        BOOST_TEST(!m.extending());
        BOOST_TEST((m.deadline() == at(valid)));
        BOOST_TEST((m.wake() == at(4s + retry)));
        BOOST_TEST(text(m.time(at(4s + retry - 1ns))) == "nothing");
        BOOST_TEST(text(m.time(at(4s + retry))) == "renewal_due");
        // And may win then.
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
    BOOST_TEST(m.where() == phase::held);
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
        auto const owed = text(m.maybe_held());
        // A renewal may fall due in the first, but the lease is not over.
        BOOST_TEST(m.time(at(told - 1ns)).what != event::lost);
        BOOST_TEST(m.where() == phase::held);
        BOOST_TEST(text(m.time(at(told))) == "lost");
        BOOST_TEST(m.where() == phase::ending);
        BOOST_TEST(!m.extending());
        BOOST_TEST((at(told) < m.deadline()));
        // Its holder knows until when it was to be his, and may have begun what ends by then.
        BOOST_TEST((m.wake() == m.deadline()));
        BOOST_TEST(text(m.time(m.deadline() - 1ns)) == "nothing");
        BOOST_TEST(text(m.time(m.deadline())) == "release " + owed + " ended");
        BOOST_TEST(m.where() == phase::over);
    }
}

BOOST_AUTO_TEST_CASE(an_answer_that_comes_after_the_loss_was_told_brings_nothing_back) {
    auto m = extending();
    BOOST_TEST(text(m.time(at(told))) == "lost");
    BOOST_TEST(answer(m, command::extend, 2, yes, told) == "nothing");
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(m.where() == phase::ending);
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
    BOOST_TEST((m.wake() == at(5s - 50ms))); // nothing is renewed that is long enough
    BOOST_TEST(text(m.time(at(5s - 50ms))) == "lost");
    BOOST_TEST(text(m.time(at(5s))) == "ended");
    m.begin_lease(true);
    BOOST_TEST(m.where() == phase::held);
    BOOST_TEST((m.deadline() == at(valid)));
    BOOST_TEST(text(m.time(at(5s))) == "renewal_due");
    auto n = held();
    n.begin_lease(true, at(0s), 5s);
    n.time(at(5s - 50ms));
    BOOST_TEST(text(n.time(at(5s))) == "ended");
    BOOST_TEST(text(n.abandon()) == "release 012");
    BOOST_TEST(n.where() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_limit_that_is_seen_late_leaves_the_keys_to_another_too) {
    auto m = held();
    m.begin_lease(true, at(0s), 5s);
    BOOST_TEST(text(m.time(at(6s))) == "lost");
    BOOST_TEST(m.where() == phase::ending);
    BOOST_TEST((m.wake() == at(5s))); // at once
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
    BOOST_TEST(m.where() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_lease_with_a_short_limit_is_not_lost_at_birth) {
    auto m = held();
    m.begin_lease(true, at(1s), 40ms);
    BOOST_TEST((m.deadline() == at(1s + 40ms)));
    BOOST_TEST((m.margin() == 2ms));
    BOOST_TEST((m.wake() == at(1s + 38ms)));
    m.begin_lease(true); // the next one has a margin of its own
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
        for (auto const watched : {true, false}) {
            machine m(1, length, watched);
            m.acquire(at(0s), of("0"));
            BOOST_TEST(answer(m, command::acquire, 0, yes, 0s) == "won");
            auto heard = event::none;
            for (int turns = 0; heard != event::lost && turns < 100'000; ++turns) {
                BOOST_REQUIRE(m.wake().has_value());
                auto const now = *m.wake();
                BOOST_REQUIRE((now < m.deadline()));
                heard = m.time(now).what;
                if (heard == event::renewal_due)
                    heard = m.extend(now, {}).what; // no instance is up
                BOOST_REQUIRE(heard != event::none);
            }
            BOOST_TEST(heard == event::lost);
        }
    }
}

BOOST_AUTO_TEST_CASE(an_extension_asked_for_at_the_last_moment_is_the_loss) {
    auto m = held();
    BOOST_TEST(text(m.extend(at(told), of("012"))) == "lost");
    BOOST_TEST(m.where() == phase::ending);
    BOOST_TEST(!m.extending());
    auto n = held();
    BOOST_TEST(text(n.extend(at(told - 1ns), of("012"))) == "extend 012");
}

BOOST_AUTO_TEST_CASE(a_quorum_for_an_extension_that_comes_too_late_is_the_loss) {
    for (auto const late : {told, valid, valid + 1s}) {
        auto m = extending();
        BOOST_TEST(answer(m, command::extend, 2, yes, late) ==
                   (late < valid ? "lost" : "release 02 lost"));
        BOOST_TEST(m.where() == (late < valid ? phase::ending : phase::over));
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
    // Healing is no vote in the next round.
    m.extend(at(6s), of("01234"));
    BOOST_TEST(answer(m, command::heal, 3, yes, 6s) == "nothing");
    BOOST_TEST(answer(m, command::heal, 4, yes, 6s) == "nothing");
    BOOST_TEST(m.votes().yes().empty());
    // And the win before is none for this round: nobody is healed yet.
    BOOST_TEST(answer(m, command::extend, 4, no, 6s) == "nothing");
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
            auto outcome = event::none;
            for (auto const i : order) {
                c.count(said[i]);
                if (said[i] == 'n' && outcome != event::lost) {
                    maybe.erase(i);
                    gone.insert(i);
                }
                std::string expected = "nothing";
                if (outcome == event::extended && said[i] == 'n') {
                    expected = "heal " + text(instance_set::only(i));
                    maybe.insert(i);
                } else if (outcome != event::none) {
                    // The round has been decided.
                } else if (c.yes >= quorum) {
                    outcome = event::extended;
                    expected = (gone.empty() ? "" : "heal " + text(gone) + ' ') + "extended";
                    maybe = maybe | gone;
                } else if (c.yes + c.pending < quorum) {
                    outcome = c.no > n - quorum ? event::lost : event::extension_failed;
                    expected = outcome == event::lost ? "lost" : "extension_failed";
                    if (outcome == event::lost && !maybe.empty()) {
                        expected = "release " + text(maybe) + " lost";
                    }
                }
                auto const got = answer(m, command::extend, i, verdict_of(said[i]), 3s);
                BOOST_REQUIRE_MESSAGE(got == expected, in_words(said, order)
                                                           << ", at " << i << ": " << got
                                                           << " and not " << expected);
                BOOST_REQUIRE_MESSAGE(m.maybe_held() == maybe, in_words(said, order));
            }
            BOOST_REQUIRE_MESSAGE(outcome != event::none, in_words(said, order));
            BOOST_REQUIRE_MESSAGE(!m.extending(), in_words(said, order));
            BOOST_REQUIRE_MESSAGE(m.deadline() ==
                                      at(outcome == event::extended ? 3s + valid : valid),
                                  in_words(said, order));
        });
    }
}

//
// Release
//

BOOST_AUTO_TEST_CASE(a_quorum_that_deleted_the_key_is_a_release) {
    auto m = held();
    BOOST_TEST(text(m.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 1, yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 2, yes) == "released");
    BOOST_TEST(m.where() == phase::over);
    // The last one is still deleted, but it is no news.
    BOOST_TEST(answer(m, command::release, 0, yes) == "nothing");
    BOOST_TEST(m.maybe_held().empty());
}

BOOST_AUTO_TEST_CASE(a_release_that_too_few_answered_is_unconfirmed) {
    for (auto const why : {unsent, unknown, refused}) {
        auto m = held();
        m.release(at(1s), of("012"));
        BOOST_TEST(answer(m, command::release, 0, why) == "nothing");
        BOOST_TEST(answer(m, command::release, 1, why) == "release_unconfirmed");
        BOOST_TEST(m.where() == phase::over);
        BOOST_TEST(text(m.maybe_held()) == "012");
    }
}

BOOST_AUTO_TEST_CASE(a_release_of_what_a_majority_had_no_more_is_a_loss) {
    auto m = held();
    m.release(at(1s), of("012"));
    BOOST_TEST(answer(m, command::release, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::release, 2, no) == "lost");
    BOOST_TEST(m.where() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_release_after_the_deadline_is_a_loss_whatever_the_servers_say) {
    for (auto const when : {valid, valid + 1s}) {
        auto m = held();
        // They are asked all the same: the keys may be there for a little longer.
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
    m.acquire(at(0s), of("0123")); // 4 is down
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
    BOOST_TEST(n.where() == phase::over);
}

BOOST_AUTO_TEST_CASE(a_release_is_not_called_a_loss_while_a_quorum_may_have_had_the_key) {
    // One restarted and has forgotten the key, one does not answer: the third may well have it.
    auto m = held();
    m.release(at(1s), of("012"));
    BOOST_TEST(answer(m, command::release, 0, no) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, unknown) == "nothing");
    auto silent = m;
    BOOST_TEST(answer(silent, command::release, 2, unknown) == "release_unconfirmed");
    // If so, a majority is free now.
    BOOST_TEST(answer(m, command::release, 2, yes) == "released");

    // Two of three had it, and the connection to one broke.
    machine down(3, ttl, true);
    down.acquire(at(0s), of("01"));
    answer(down, command::acquire, 0, yes);
    BOOST_TEST(answer(down, command::acquire, 1, yes) == "won");
    BOOST_TEST(text(down.release(at(1s), of("01"))) == "release 01");
    BOOST_TEST(answer(down, command::release, 0, unknown) == "nothing");
    BOOST_TEST(answer(down, command::release, 1, yes) == "released"); // 2 never had it

    // The same, when it was known at the time of the release.
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
                    // Lost is what is certain: a majority did not have it.
                    expected = "lost";
                } else if (!settled && c.pending == 0 && c.yes + c.no >= quorum) {
                    // A majority does not have it any more, whoever had it.
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
            BOOST_REQUIRE_MESSAGE(settled && m.where() == phase::over, in_words(said, order));
        });
    }
}

//
// Failures at every step of a whole life
//

namespace {

/// Acquires, extends once, and releases, over a wire on which any answer can be replaced. It knows
/// by itself where a key may be.
class life {
public:
    enum class order {
        forwards, ///< the answer that is oldest
        backwards ///< the oldest of the last instance that has one to come
    };

    struct fault {
        std::size_t position;
        verdict v;
    };

    life(unsigned n, order o, std::vector<fault> faults)
        : machine_(n, ttl, true)
        , all_(instance_set::first(n))
        , order_(o)
        , faults_(std::move(faults)) {}

    /// What went wrong; empty if nothing did.
    std::string run() {
        take(machine_.acquire(at(now_), all_));
        auto extensions = 0;
        while (complaint_.empty()) {
            if (!wire_.empty()) {
                deliver();
            } else if (machine_.where() == phase::held && extensions == 0 && machine_.wake()) {
                now_ = std::max<protocol::duration>(now_, *machine_.wake() - at(0s));
                auto s = machine_.time(at(now_));
                if (s.what == event::renewal_due) s = machine_.extend(at(now_), all_);
                take(s);
            } else if (machine_.where() == phase::held) {
                take(machine_.release(at(now_), all_));
            } else {
                break;
            }
            if (heard(event::extended)) extensions = 1;
            if (++turns_ > 1'000) return "it does not end";
        }
        if (!complaint_.empty()) return complaint_;
        if (machine_.where() != phase::over) return "it is not over";
        if (ends_ != 1) return "it ended " + std::to_string(ends_) + " times";
        // A release that failed is repeated until it is answered.
        may_exist_ = may_exist_ - unreleased_;
        unreleased_.for_each(
            [&](unsigned i) { take(machine_.answer(command::release, 0, i, no, at(now_))); });
        if (!machine_.maybe_held().empty())
            return "owes a release to " + text(machine_.maybe_held());
        return complaint_;
    }

    std::size_t answers() const { return position_; }
    bool heard(event e) const { return std::find(heard_.begin(), heard_.end(), e) != heard_.end(); }

private:
    struct sent {
        command c;
        std::uint32_t extension;
        unsigned instance;
    };

    void take(step const& s) {
        send(command::acquire, s.acquire);
        send(command::extend, s.extend);
        send(command::heal, s.heal);
        if (!(s.release - asked_).empty()) complaint_ = "releases where nothing was asked for";
        send(command::release, s.release);
        if (s.what != event::none) heard_.push_back(s.what);
        switch (s.what) {
        case event::contended:
        case event::no_quorum:
        case event::expired:
        case event::cancelled:
        case event::arbiter_refused:
        case event::arbiter_failed:
        case event::lost:
        case event::released:
        case event::release_unconfirmed:
            ++ends_;
            if (!(may_exist_ - unreleased_ - on_the_wire(command::release)).empty()) {
                complaint_ = "leaves keys behind";
            }
            break;
        default:
            break;
        }
        if (!(may_exist_ - machine_.maybe_held()).empty()) complaint_ = "forgets where keys may be";
    }

    instance_set on_the_wire(command c) const {
        instance_set s;
        for (auto const& one : wire_) {
            if (one.c == c) s.insert(one.instance);
        }
        return s;
    }

    void send(command c, instance_set to) {
        to.for_each([&](unsigned i) { wire_.push_back({c, machine_.round_number(), i}); });
        if (c == command::acquire || c == command::heal) {
            asked_ = asked_ | to;
            may_exist_ = may_exist_ | to;
        }
    }

    void deliver() {
        auto at_front = wire_.begin();
        if (order_ == order::backwards) {
            at_front =
                std::max_element(wire_.begin(), wire_.end(), [](sent const& a, sent const& b) {
                    return a.instance < b.instance;
                });
        }
        auto const one = *at_front;
        wire_.erase(at_front);
        auto v = yes;
        for (auto const& f : faults_) {
            if (f.position == position_) v = f.v;
        }
        ++position_;
        now_ += 1ms;
        auto const i = one.instance;
        switch (one.c) {
        case command::acquire:
        case command::heal:
            if (v != yes && v != unknown) may_exist_.erase(i);
            break;
        case command::extend:
            if (v == no) may_exist_.erase(i);
            break;
        case command::release:
            unreleased_.erase(i);
            if (v == yes || v == no) {
                may_exist_.erase(i);
            } else {
                unreleased_.insert(i);
            }
            break;
        case command::contend:
        case command::raise:
        case command::inspect:
        case command::watch:
            break;
        }
        take(machine_.answer(one.c, one.extension, i, v, at(now_)));
    }

    machine machine_;
    instance_set all_;
    order order_;
    std::vector<fault> faults_;
    std::deque<sent> wire_;
    instance_set asked_, may_exist_, unreleased_;
    std::vector<event> heard_;
    protocol::duration now_{0};
    std::size_t position_ = 0;
    int ends_ = 0;
    int turns_ = 0;
    std::string complaint_;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_life_without_failures_is_won_extended_and_released) {
    for (unsigned n = 1; n <= 5; ++n) {
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            life l(n, o, {});
            BOOST_TEST(l.run() == "");
            BOOST_TEST(l.heard(event::won));
            BOOST_TEST(l.heard(event::extended));
            BOOST_TEST(l.heard(event::released));
            BOOST_TEST(l.answers() == 3 * n);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_failure_at_any_step_settles_and_leaves_no_key) {
    for (unsigned n = 1; n <= 5; ++n) {
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            for (std::size_t k = 0; k < 3 * n; ++k) {
                for (auto const v : every_failure) {
                    life l(n, o, {{k, v}});
                    BOOST_TEST_CONTEXT("of " << n << ", answer " << k << " is " << v) {
                        BOOST_TEST(l.run() == "");
                        // One failure costs three or more instances nothing.
                        if (n >= 3) BOOST_TEST(l.heard(event::released));
                    }
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(failures_at_any_two_or_three_steps_settle_and_leave_no_key) {
    std::size_t lives = 0;
    std::array<bool, static_cast<std::size_t>(event::release_unconfirmed) + 1> seen{};
    for (unsigned n = 1; n <= 5; ++n) {
        auto const last = 4 * n; // a retry makes it longer
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            for (std::size_t a = 0; a < last; ++a) {
                for (auto b = a + 1; b < last; ++b) {
                    for (auto c = b; c < last; c += 3) {
                        for (std::size_t kinds = 0; kinds < 64; ++kinds) {
                            std::vector<life::fault> faults{{a, every_failure[kinds & 3]},
                                                            {b, every_failure[kinds >> 2 & 3]}};
                            if (c != b) faults.push_back({c, every_failure[kinds >> 4]});
                            life l(n, o, faults);
                            auto const complaint = l.run();
                            ++lives;
                            BOOST_REQUIRE_MESSAGE(complaint.empty(), "of " << n << ", answers " << a
                                                                           << ' ' << b << ' ' << c
                                                                           << ", kinds " << kinds
                                                                           << ": " << complaint);
                            for (std::size_t e = 0; e < seen.size(); ++e) {
                                if (l.heard(static_cast<event>(e))) seen[e] = true;
                            }
                        }
                    }
                }
            }
        }
    }
    BOOST_TEST_MESSAGE(lives << " lives");
    // The failures reach what they are meant to reach.
    for (auto const e :
         {event::won, event::contended, event::no_quorum, event::extended, event::extension_failed,
          event::lost, event::released, event::release_unconfirmed}) {
        BOOST_TEST_CONTEXT(e) BOOST_TEST(seen[static_cast<std::size_t>(e)]);
    }
}

//
// Our clock stood still
//

BOOST_AUTO_TEST_CASE(a_standstill_moves_what_was_sent_before_it) {
    auto m = held();
    auto const wake = *m.wake();
    m.clock_stood_still(at(1s), 3s);
    BOOST_TEST((m.deadline() == at(valid - 3s)));
    BOOST_TEST((m.wake() == wake - 3s)); // and is renewed as much earlier
    BOOST_TEST(text(m.time(at(valid - 3s))) == "release 012 lost");
    auto later = held();
    later.clock_stood_still(at(0s), 3s); // sent after it
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
