// Helpers for the tests of tenures that are driven by hand.
//
// Actions are written as text. "release 02 contended" means a release to the instances 0 and 2, and
// the effect `contended`.
#ifndef HOLDFAST_TEST_UNIT_TENURES_HPP
#define HOLDFAST_TEST_UNIT_TENURES_HPP

#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::protocol {

inline std::ostream& operator<<(std::ostream& out, tenure_effect e) {
    constexpr std::array names{"none",       "won",       "contended",   "no_quorum",
                               "expired",    "cancelled", "arbiter_won", "arbiter_refused",
                               "arb_failed", "inspected", "renewal_due", "extended",
                               "ext_fail",   "lost",      "ended",       "released",
                               "unconfirmed"};
    static_assert(names.size() == static_cast<std::size_t>(tenure_effect::release_unconfirmed) + 1);
    return out << names[static_cast<std::size_t>(e)];
}

inline std::ostream& operator<<(std::ostream& out, command c) {
    constexpr std::array names{"acquire", "extend", "release", "heal",
                               "contend", "raise",  "inspect"};
    static_assert(names.size() == static_cast<std::size_t>(command::inspect) + 1);
    return out << names[static_cast<std::size_t>(c)];
}

inline std::ostream& operator<<(std::ostream& out, verdict v) {
    constexpr std::array names{"yes", "no", "unsent", "unknown", "refused", "other"};
    return out << names[static_cast<std::size_t>(v)];
}

inline std::ostream& operator<<(std::ostream& out, instance_set s) {
    s.for_each([&](unsigned i) { out << i; });
    return out;
}

inline std::ostream& operator<<(std::ostream& out, tenure_phase p) {
    constexpr std::array names{"acquiring", "held", "ending", "releasing", "over"};
    return out << names[static_cast<std::size_t>(p)];
}

} // namespace holdfast::protocol

namespace tenures {

using namespace std::chrono_literals;
namespace protocol = holdfast::protocol;
namespace test = holdfast::test;
using protocol::command;
using protocol::instance_set;
using protocol::redlock_rules;
using protocol::tenure_action;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;
using test::at;
using test::of;
using test::text;
using machine = protocol::basic_tenure<redlock_rules>;
using phase = protocol::tenure_phase;

inline constexpr protocol::duration ttl = 10s;
inline constexpr protocol::duration valid = 10s - 102ms; // ttl minus the drift allowance
inline constexpr protocol::duration told = valid - 50ms; // the holder hears of the loss then
inline constexpr protocol::duration period = protocol::duration(10s) / 3;
inline constexpr protocol::duration retry = 1s;

inline constexpr std::array every_verdict{verdict::yes, verdict::no, verdict::unsent,
                                          verdict::unknown, verdict::refused};
inline constexpr std::array every_failure{verdict::no, verdict::unsent, verdict::unknown,
                                          verdict::refused};
inline constexpr std::array<unsigned, 8> majority{0, 1, 2, 2, 3, 3, 4, 4};

/// The time at which a lease that was asked for at `sent` is renewed. Renewals fall on multiples of
/// ttl / 1024, so that leases share them.
inline protocol::duration renewal(protocol::duration sent) {
    constexpr auto slot = ttl / 1024;
    auto const since_epoch = (at(sent) + period).time_since_epoch();
    return (since_epoch / slot) * slot - at(0s).time_since_epoch();
}

inline std::string text(tenure_action const& a) {
    std::string t;
    auto const add = [&](std::string_view word, std::string const& more = {}) {
        if (!t.empty()) t += ' ';
        t += word;
        if (!more.empty()) t += ' ' + more;
    };
    if (!a.acquire.empty()) add("acquire", text(a.acquire));
    if (!a.contend.empty()) add("contend", text(a.contend));
    if (!a.raise.empty()) add("raise", text(a.raise));
    if (!a.extend.empty()) add("extend", text(a.extend));
    if (!a.heal.empty()) add("heal", text(a.heal));
    if (!a.release.empty()) add("release", text(a.release));
    switch (a.effect) {
    case tenure_effect::none:
        break;
    case tenure_effect::won:
        add("won");
        break;
    case tenure_effect::contended:
        add("contended");
        break;
    case tenure_effect::no_quorum:
        add("no_quorum");
        break;
    case tenure_effect::expired:
        add("expired");
        break;
    case tenure_effect::cancelled:
        add("cancelled");
        break;
    case tenure_effect::arbiter_won:
        add("arbiter_won");
        break;
    case tenure_effect::arbiter_refused:
        add("arbiter_refused");
        break;
    case tenure_effect::arbiter_failed:
        add("arbiter_failed");
        break;
    case tenure_effect::inspected:
        add("inspected");
        break;
    case tenure_effect::renewal_due:
        add("renewal_due");
        break;
    case tenure_effect::extended:
        add("extended");
        break;
    case tenure_effect::extension_failed:
        add("extension_failed");
        break;
    case tenure_effect::lost:
        add("lost");
        break;
    case tenure_effect::ended:
        add("ended");
        break;
    case tenure_effect::released:
        add("released");
        break;
    case tenure_effect::release_unconfirmed:
        add("release_unconfirmed");
        break;
    }
    return t.empty() ? "nothing" : t;
}

inline std::string answer(machine& m, command c, unsigned instance, verdict v,
                          protocol::duration when = 1s) {
    return text(m.answer(c, m.round_number(), instance, v, at(when)));
}

inline bool same_votes(protocol::tally const& a, protocol::tally const& b) {
    return a.yes() == b.yes() && a.no() == b.no() && a.failed() == b.failed() &&
           a.pending() == b.pending();
}

// A machine in each phase, on three instances. The answer of instance 2 decides.

inline machine acquiring() {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.acquire(at(0s), of("012"))) == "acquire 012");
    BOOST_TEST(answer(m, command::acquire, 0, verdict::yes) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, verdict::no) == "nothing");
    return m;
}

/// A held tenure. Instance 2 has not answered yet.
inline machine held(bool renewed = true) {
    machine m(3, ttl, renewed);
    m.acquire(at(0s), of("012"));
    answer(m, command::acquire, 0, verdict::yes);
    BOOST_TEST(answer(m, command::acquire, 1, verdict::yes) == "won");
    return m;
}

/// A held tenure whose extension, sent after 3 s, has one yes and one no.
inline machine extending() {
    auto m = held();
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, verdict::yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, verdict::no, 3s) == "nothing");
    return m;
}

/// A tenure that instances 0 and 2 have extended. Instance 1 had lost the key and is being healed.
inline machine healing() {
    auto m = extending();
    BOOST_TEST(answer(m, command::extend, 2, verdict::yes, 3s) == "heal 1 extended");
    return m;
}

/// A release with one yes and one no.
inline machine releasing() {
    auto m = held();
    BOOST_TEST(text(m.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(answer(m, command::release, 0, verdict::yes) == "nothing");
    BOOST_TEST(answer(m, command::release, 1, verdict::no) == "nothing");
    return m;
}

/// A cancelled acquire with one yes and one no. Instance 2 has not answered.
inline machine over() {
    auto m = acquiring();
    BOOST_TEST(text(m.cancel()) == "release 02 cancelled");
    return m;
}

/// The consequences of one answer of instance 2.
struct cell {
    command c;
    verdict v;
    std::string_view comes_out;
    phase then;
    std::string_view maybe_held;
};

template <std::size_t N>
inline void check(machine const& before, std::array<cell, N> const& cells) {
    for (auto const& row : cells) {
        BOOST_TEST_CONTEXT(row.c << " answered " << row.v) {
            auto m = before;
            BOOST_TEST(answer(m, row.c, 2, row.v, 4s) == row.comes_out);
            BOOST_TEST(m.phase() == row.then);
            BOOST_TEST(text(m.maybe_held()) == row.maybe_held);
        }
    }
}

/// Checks that no answer to `commands` changes anything.
inline void check_ignored(machine const& before, std::initializer_list<command> commands) {
    for (auto const c : commands) {
        for (auto const v : every_verdict) {
            for (unsigned instance = 0; instance < 3; ++instance) {
                BOOST_TEST_CONTEXT(c << " answered " << v << " by " << instance) {
                    auto m = before;
                    BOOST_TEST(answer(m, c, instance, v, 4s) == "nothing");
                    BOOST_TEST(m.phase() == before.phase());
                    BOOST_TEST(m.extending() == before.extending());
                    BOOST_TEST((m.deadline() == before.deadline()));
                    BOOST_TEST(same_votes(m.votes(), before.votes()));
                }
            }
        }
    }
}

inline constexpr auto yes = verdict::yes;
inline constexpr auto no = verdict::no;
inline constexpr auto unsent = verdict::unsent;
inline constexpr auto unknown = verdict::unknown;
inline constexpr auto refused = verdict::refused;

/// Visits every way in which `n` instances answer, in every order. '-' is an instance that is not
/// asked.
template <class Visit>
inline void every_schedule(unsigned n, bool with_unasked, Visit&& visit) {
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

inline verdict verdict_of(char c) {
    return every_verdict[std::string_view("ynsur").find(c)];
}

inline std::string in_words(std::string const& said, std::vector<unsigned> const& order) {
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

} // namespace tenures

#endif
