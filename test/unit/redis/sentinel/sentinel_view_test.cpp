// The sentinels of a deployment as one client sees them: which ones it asks, the primary, whether
// the answers of the primary count, and the words about all that.
#include "redis/sentinel/sentinel_view.hpp"

#include "support/text.hpp"
#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::restart_policy;
using holdfast::protocol::command;
using holdfast::protocol::leave_reason;
using holdfast::test::at;
using holdfast::test::contains;

namespace {

using action = holdfast::redis::sentinel_view::action;
using holdfast::protocol::duration;

constexpr auto max_ttl = 60s;
constexpr auto m = confirmation_time;
constexpr auto tick = 1ms;

server_address server(std::uint16_t port) {
    return {.host = "10.0.0.1", .port = port};
}
server_address const old_primary = server(1);
server_address const new_primary = server(2);

std::vector<sentinel_peer> peers(std::initializer_list<std::uint64_t> ids) {
    std::vector<sentinel_peer> all;
    for (auto const id : ids) {
        all.push_back(
            {.id = id, .address = {.host = "10.0.1." + std::to_string(id), .port = 26379}});
    }
    return all;
}

/// Three configured sentinels. They have the ids 10, 11 and 12, and list each other.
struct deployment {
    explicit deployment(restart_policy on_restart = restart_policy::observed,
                        unsigned configured = 3)
        : view(options(on_restart, configured)) {}

    static sentinel_view::options options(restart_policy on_restart, unsigned configured) {
        sentinel_view::options o{
            .sentinels = {}, .primary_name = "rooms", .on_restart = on_restart, .max_ttl = max_ttl};
        for (unsigned i = 0; i < configured; ++i)
            o.sentinels.push_back({.host = "s" + std::to_string(i), .port = 26379});
        return o;
    }
    sentinel_report report(unsigned i, server_address const& primary, std::uint64_t epoch) const {
        sentinel_report r;
        r.id = 10 + i;
        r.primary = primary;
        r.epoch = epoch;
        r.named_for = named_for;
        for (unsigned p = 0; p < size; ++p) {
            if (p != i)
                r.peers.push_back(
                    {.id = 10 + p, .address = server(static_cast<std::uint16_t>(100 + p))});
        }
        return r;
    }
    action say(unsigned i, server_address const& primary, std::uint64_t epoch, duration when) {
        return view.report(i, report(i, primary, epoch), at(when), at(when));
    }
    /// A majority answers at once.
    action round(server_address const& primary, std::uint64_t epoch, duration when) {
        view.begin_round(at(when));
        auto last = action::none;
        for (unsigned i = 0; i < 2; ++i) {
            auto const found = say(i, primary, epoch, when);
            if (found != action::none) last = found;
        }
        return last;
    }
    /// Asks each second.
    void confirm(server_address const& primary, std::uint64_t epoch, duration from, duration to) {
        for (auto t = from; t <= to; t += 1s) std::ignore = round(primary, epoch, t);
    }
    bool counts(command c, duration when) const { return view.objection(c, at(when)) == errc{}; }

    unsigned size = 3;
    std::optional<std::chrono::milliseconds> named_for{};
    sentinel_view view;
};

constexpr std::initializer_list<command> grants{command::acquire, command::contend, command::raise};

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_view)

BOOST_AUTO_TEST_CASE(a_majority_names_the_primary) {
    deployment d;
    BOOST_TEST((d.say(0, old_primary, 4, 0ms) == action::none));
    BOOST_TEST(!d.view.primary());
    BOOST_TEST((d.say(1, old_primary, 4, 0ms) == action::move));
    BOOST_TEST((d.view.primary() == old_primary));
    BOOST_TEST(d.view.confirmed(at(0ms)));
}

BOOST_AUTO_TEST_CASE(answers_count_for_a_short_time_after_a_majority_confirmed_the_primary) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    auto const until = d.view.confirmed_until();
    BOOST_TEST((until > at(m - 50ms)));
    BOOST_TEST((until < at(m)));
    for (auto const c : {command::acquire, command::contend, command::raise, command::extend}) {
        BOOST_TEST((d.view.objection(c, until - tick) == errc{}));
        BOOST_TEST((d.view.objection(c, until) == errc::no_sentinel_majority));
    }
    BOOST_TEST(contains(d.view.objection_text(errc::no_sentinel_majority), "sentinels"));
    d.confirm(old_primary, 4, 1s, 10s);
    BOOST_TEST(d.counts(command::acquire, 11s));
}

BOOST_AUTO_TEST_CASE(a_failover_quarantines_grants_for_max_ttl_and_m_and_extensions_for_m) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    BOOST_TEST((d.round(new_primary, 5, 1s) == action::move));
    BOOST_TEST((d.view.quarantined_until() == at(1s + max_ttl + m)));
    BOOST_TEST(contains(d.view.quarantine_reason(), "10.0.0.1:2"), d.view.quarantine_reason());
    BOOST_TEST(contains(d.view.quarantine_reason(), "after 10.0.0.1:1"));
    BOOST_TEST(contains(d.view.quarantine_reason(), "62000 ms"));
    d.confirm(new_primary, 5, 2s, 63s);
    BOOST_TEST((d.view.objection(command::extend, at(1s + m - tick)) == errc::quarantined));
    BOOST_TEST(d.counts(command::extend, 1s + m));
    BOOST_TEST(!d.view.objection_text(errc::quarantined).empty());
    for (auto const c : grants) {
        BOOST_TEST((d.view.objection(c, at(1s + max_ttl + m - tick)) == errc::quarantined));
        BOOST_TEST(d.counts(c, 1s + max_ttl + m));
    }
}

BOOST_AUTO_TEST_CASE(the_same_address_with_a_new_epoch_is_a_failover) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    BOOST_TEST((d.round(old_primary, 6, 1s) == action::move));
    BOOST_TEST((d.view.quarantined_until() == at(1s + max_ttl + m)));
}

BOOST_AUTO_TEST_CASE(the_same_primary_after_a_lost_connection_is_no_failover) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    BOOST_TEST((d.view.leave(leave_reason::connection_lost, at(1s)) == action::leave));
    BOOST_TEST(!d.view.primary());
    BOOST_TEST((d.view.objection(command::extend, at(1s)) == errc::no_sentinel_majority));
    // The sentinels are asked again before the client connects again.
    BOOST_TEST((d.say(0, old_primary, 4, 500ms) == action::none));
    BOOST_TEST((d.round(old_primary, 4, 1'100ms) == action::move));
    BOOST_TEST((d.view.quarantined_until() <= at(0ms)));
    BOOST_TEST(d.counts(command::acquire, 1'100ms));
    BOOST_TEST(d.counts(command::extend, 1'100ms));
}

BOOST_AUTO_TEST_CASE(the_first_primary_is_trusted_unless_the_policy_is_strict) {
    deployment observed;
    observed.round(old_primary, 4, 0ms);
    BOOST_TEST(observed.counts(command::acquire, 0ms));
    BOOST_TEST(observed.counts(command::extend, 0ms));

    deployment strict(restart_policy::strict);
    strict.round(old_primary, 4, 0ms);
    BOOST_TEST((strict.view.objection(command::acquire, at(0ms)) == errc::quarantined));
    BOOST_TEST((strict.view.quarantined_until() == at(max_ttl + m)));
    BOOST_TEST(contains(strict.view.quarantine_reason(), "for long"));
}

BOOST_AUTO_TEST_CASE(a_strict_client_believes_a_majority_that_has_named_the_primary_for_long) {
    auto const named_for = [](std::optional<std::chrono::milliseconds> first,
                              std::optional<std::chrono::milliseconds> second) {
        deployment d(restart_policy::strict);
        d.named_for = first;
        std::ignore = d.say(0, old_primary, 4, 0ms);
        d.named_for = second;
        std::ignore = d.say(1, old_primary, 4, 0ms);
        return d.view.quarantined_until();
    };
    auto const long_ago = std::chrono::milliseconds(max_ttl + m + 1s);
    auto const slack = 700ms; // the drift of a minute
    BOOST_TEST((named_for(long_ago, long_ago) <= at(0ms)));
    BOOST_TEST((named_for(long_ago, 10s) > at(max_ttl + m - 10s)));
    BOOST_TEST((named_for(long_ago, 10s) < at(max_ttl + m - 10s + slack)));
    BOOST_TEST((named_for(long_ago, std::nullopt) == at(max_ttl + m)));
}

BOOST_AUTO_TEST_CASE(without_the_guard_only_the_confirmation_counts) {
    deployment d(restart_policy::off);
    d.round(old_primary, 4, 0ms);
    d.round(new_primary, 5, 1s);
    BOOST_TEST(d.counts(command::acquire, 1s));
    BOOST_TEST(d.counts(command::extend, 1s));
    BOOST_TEST((d.view.objection(command::acquire, at(1s + m)) == errc::no_sentinel_majority));
}

BOOST_AUTO_TEST_CASE(an_announcement_ends_the_use_of_the_primary) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    BOOST_TEST((d.view.announced(old_primary, at(1s)) == action::none));
    BOOST_TEST((d.view.announced(new_primary, at(1s)) == action::leave));
    BOOST_TEST(!d.view.primary());
    BOOST_TEST((d.view.next_round() <= at(1s)));
}

BOOST_AUTO_TEST_CASE(peers_are_asked_too_unless_they_are_configured) {
    deployment d(restart_policy::observed, 1);
    d.size = 3;
    BOOST_TEST((d.say(0, old_primary, 4, 0ms) == action::none));
    BOOST_REQUIRE(d.view.sentinels().size() == 3U);
    auto const& learned = d.view.sentinels()[1];
    BOOST_TEST((learned.listed_id == 11U));
    BOOST_TEST((learned.address == server(101)));
    // Two of the three decide.
    BOOST_TEST((d.view.report(learned.number, d.report(1, old_primary, 4), at(0ms), at(0ms)) ==
                action::move));

    deployment all;
    for (unsigned i = 0; i < 3; ++i) {
        std::ignore = all.say(i, old_primary, 4, 0ms);
        BOOST_TEST(all.view.sentinels().size() == 3U);
    }
}

BOOST_AUTO_TEST_CASE(a_peer_that_all_lists_have_dropped_is_asked_no_more) {
    deployment d(restart_policy::observed, 1);
    d.size = 3;
    std::ignore = d.say(0, old_primary, 4, 0ms);
    BOOST_TEST(d.view.sentinels().size() == 3U);
    d.size = 2;
    std::ignore = d.say(0, old_primary, 4, 1s);
    BOOST_TEST(d.view.sentinels().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_peer_with_a_second_address_is_asked_there_if_the_first_does_not_work) {
    deployment d(restart_policy::observed, 1);
    auto r = d.report(0, old_primary, 4);
    r.peers = peers({11});
    std::ignore = d.view.report(0, r, at(0ms), at(0ms));
    auto const number = d.view.sentinels()[1].number;
    r.peers[0].address.host = "10.0.2.11";
    std::ignore = d.view.report(0, r, at(1s), at(1s));
    BOOST_TEST(d.view.sentinels()[1].number == number);
    d.view.failed(number, errc::unreachable, "no route");
    std::ignore = d.view.report(0, r, at(2s), at(2s));
    BOOST_REQUIRE(d.view.sentinels().size() == 2U);
    BOOST_TEST(d.view.sentinels()[1].number != number);
    BOOST_TEST(d.view.sentinels()[1].address.host == "10.0.2.11");
}

BOOST_AUTO_TEST_CASE(another_sentinel_at_the_address_of_a_peer_does_not_count_for_it) {
    deployment d(restart_policy::observed, 1);
    std::ignore = d.say(0, old_primary, 4, 0ms);
    auto const number = d.view.sentinels()[1].number;
    BOOST_TEST(
        (d.view.report(number, d.report(7, old_primary, 4), at(0ms), at(0ms)) == action::none));
    BOOST_TEST(contains(d.view.search_text(), "another sentinel answers"), d.view.search_text());
}

BOOST_AUTO_TEST_CASE(too_many_sentinels_name_nothing) {
    deployment d(restart_policy::observed, 1);
    auto r = d.report(0, old_primary, 4);
    r.peers.clear();
    for (std::uint64_t id = 100; id < 140; ++id)
        r.peers.push_back({.id = id, .address = server(9)});
    BOOST_TEST((d.view.report(0, r, at(0ms), at(0ms)) == action::none));
    BOOST_TEST(contains(d.view.search_text(), "more than 32 sentinels"), d.view.search_text());
    BOOST_TEST(d.view.sentinels().size() <= 33U);
}

BOOST_AUTO_TEST_CASE(a_vain_search_is_told_with_the_answer_of_each_sentinel) {
    deployment d;
    d.size = 0; // no lists
    BOOST_TEST(!d.view.searches_in_vain());
    std::ignore = d.say(0, old_primary, 4, 0ms);
    d.view.failed(1, errc::unreachable, "connection refused");
    BOOST_TEST(!d.view.searches_in_vain());
    sentinel_report nothing;
    nothing.id = 12;
    std::ignore = d.view.report(2, nothing, at(0ms), at(0ms));
    BOOST_TEST(d.view.searches_in_vain());
    BOOST_TEST((d.view.search_failure() == errc::no_sentinel_majority));
    auto const text = d.view.search_text();
    BOOST_TEST(contains(text, "2 of 3 sentinels must name the same primary \"rooms\""), text);
    BOOST_TEST(contains(text, "s0:26379 names 10.0.0.1:1 (epoch 4)"), text);
    BOOST_TEST(contains(text, "s1:26379 connection refused"), text);
    BOOST_TEST(contains(text, "s2:26379 knows no primary of this name"), text);
}

// Each is asked again and again, at times of its own.
BOOST_AUTO_TEST_CASE(a_failed_sentinel_that_is_asked_again_has_still_failed) {
    deployment d;
    for (unsigned i = 0; i < 3; ++i) d.view.failed(i, errc::unreachable, "connection refused");
    d.view.asked(1);
    BOOST_TEST(d.view.searches_in_vain());
    BOOST_TEST((d.view.search_failure() == errc::unreachable));
    BOOST_TEST(contains(d.view.search_text(), "s1:26379 connection refused, but has not answered"),
               d.view.search_text());
}

BOOST_AUTO_TEST_CASE(after_the_primary_was_left_old_answers_are_no_vain_search) {
    deployment d;
    d.round(old_primary, 4, 0ms);
    std::ignore = d.view.leave(leave_reason::connection_lost, at(1s));
    BOOST_TEST(!d.view.searches_in_vain());
}

BOOST_AUTO_TEST_CASE(sentinels_that_fail_alike_give_their_code) {
    deployment d;
    for (unsigned i = 0; i < 3; ++i) d.view.failed(i, errc::access_denied, "refuses: WRONGPASS");
    BOOST_TEST(d.view.searches_in_vain());
    BOOST_TEST((d.view.search_failure() == errc::access_denied));
    d.view.failed(1, errc::unreachable, "connection refused");
    BOOST_TEST((d.view.search_failure() == errc::no_sentinel_majority));
    sentinel_report refused;
    refused.refused = errc::access_denied;
    refused.message = "NOPERM";
    std::ignore = d.view.report(1, refused, at(0ms), at(0ms));
    BOOST_TEST((d.view.search_failure() == errc::access_denied));
}

BOOST_AUTO_TEST_CASE(numbers_of_servers_are_bounded_and_not_given_twice) {
    server_numbers numbers;
    auto const first = numbers.number_of(server(1));
    for (unsigned i = 0; i < 10'000; ++i) {
        auto const n = numbers.number_of({.host = "h" + std::to_string(i), .port = 1});
        BOOST_TEST_REQUIRE(n != first);
        BOOST_TEST_REQUIRE(numbers.number_of(server(1)) == first);
    }
    BOOST_TEST((*numbers.find(first) == server(1)));
    BOOST_TEST(numbers.find(first + 1) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
