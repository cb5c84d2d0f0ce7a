// The restart guard: the state that a server shows at each connection decides whether its grants
// count.
#include "protocol/server/restart_guard.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>

namespace protocol = holdfast::protocol;

namespace {

using holdfast::test::origin;

struct mode {
    char const* name;
    bool observed, strict;
    protocol::restart_guard guard() const { return {observed, strict}; }
};

constexpr mode off{"off", false, false}, observed{"observed", true, false},
    strict{"strict", true, true};
constexpr std::array modes{off, observed, strict};

using protocol::forgetting;

/// The origin with a new history. Each new process has one.
protocol::data_origin with_history(protocol::data_origin o, std::uint64_t history, bool promoted) {
    o.history = history;
    o.promoted = promoted;
    return o;
}

/// Connects to a server. True if the guard doubts its data.
bool meets(protocol::restart_guard& guard, std::uint64_t run, bool durable) {
    auto const said = guard.connected(origin(run, durable));
    BOOST_TEST((said == forgetting::none || said == forgetting::restart));
    return said != forgetting::none;
}

} // namespace

BOOST_AUTO_TEST_SUITE(restart_guard)

BOOST_AUTO_TEST_CASE(at_first_sight_only_strict_doubts_and_only_who_can_forget) {
    struct {
        mode how;
        bool durable, doubted;
    } constexpr table[] = {
        {off, false, false},     {off, true, false},    {observed, false, false},
        {observed, true, false}, {strict, false, true}, {strict, true, false},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.how.name << ", durable " << row.durable) {
            auto guard = row.how.guard();
            BOOST_TEST(meets(guard, 7, row.durable) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_restarted_server_is_trusted_only_if_it_was_durable_before_and_is_now) {
    struct {
        mode how;
        bool before, now, doubted;
    } constexpr table[] = {
        {off, false, false, false},     {off, false, true, false},
        {off, true, false, false},      {off, true, true, false},
        {observed, false, false, true}, {observed, false, true, true},
        {observed, true, false, true},  {observed, true, true, false},
        {strict, false, false, true},   {strict, false, true, true},
        {strict, true, false, true},    {strict, true, true, false},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.how.name << ", durable before " << row.before << ", now "
                                        << row.now) {
            auto guard = row.how.guard();
            meets(guard, 7, row.before);
            BOOST_TEST(meets(guard, 8, row.now) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_connection_to_the_same_process_is_no_restart) {
    for (auto const& how : modes) {
        for (auto const before : {false, true}) {
            for (auto const now : {false, true}) {
                BOOST_TEST_CONTEXT(how.name << ", durable before " << before << ", now " << now) {
                    auto guard = how.guard();
                    meets(guard, 7, before);
                    for (auto n = 0; n < 3; ++n) BOOST_TEST(!meets(guard, 7, now));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(each_restart_counts_and_each_only_once) {
    for (auto const& how : {observed, strict}) {
        BOOST_TEST_CONTEXT(how.name) {
            auto guard = how.guard();
            meets(guard, 1, false);
            for (std::uint64_t run = 2; run < 6; ++run) {
                BOOST_TEST(meets(guard, run, false));
                BOOST_TEST(!meets(guard, run, false));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_counts_as_before_is_what_the_server_said_last) {
    struct {
        bool first, last, now, doubted;
    } constexpr table[] = {
        // The log was switched on while the server ran. From then on it has all keys.
        {false, true, true, false},
        {false, true, false, true},
        // The log was switched off. It lacks all later keys.
        {true, false, true, true},
        {true, false, false, true},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT("durable " << row.first << ", then " << row.last << ", now "
                                      << row.now) {
            auto guard = observed.guard();
            meets(guard, 7, row.first);
            meets(guard, 7, row.last);
            BOOST_TEST(meets(guard, 8, row.now) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_server_is_durable_before_only_since_the_last_restart) {
    auto guard = observed.guard();
    BOOST_TEST(!meets(guard, 1, true));
    BOOST_TEST(meets(guard, 2, false)); // keys may be lost
    BOOST_TEST(meets(guard, 3, true));  // later keys too
    BOOST_TEST(!meets(guard, 4, true));
}

BOOST_AUTO_TEST_CASE(any_other_run_id_is_a_restart) {
    for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        for (std::uint64_t const second : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
            auto guard = observed.guard();
            BOOST_TEST(!meets(guard, first, false));
            BOOST_TEST(meets(guard, second, false) == (first != second));
        }
    }
}

//
// Servers that were replicas
//

BOOST_AUTO_TEST_CASE(a_new_history_of_the_same_process_is_another_servers_data) {
    for (auto const& how : modes) {
        for (auto const durable : {false, true}) {
            for (auto const promoted : {false, true}) {
                BOOST_TEST_CONTEXT(how.name << ", durable " << durable << ", promoted "
                                            << promoted) {
                    auto guard = how.guard();
                    guard.connected(origin(7, durable));
                    auto const after = with_history(origin(7, durable), 99, promoted);
                    BOOST_TEST((guard.connected(after) ==
                                (how.observed ? forgetting::replacement : forgetting::none)));
                    BOOST_TEST((guard.connected(after) == forgetting::none)); // reported once
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(on_a_connection_that_tells_of_replaced_data_only_a_promotion_counts) {
    struct {
        bool promoted, announced, doubted;
    } constexpr table[] = {
        {false, false, true}, {true, false, true}, {false, true, false}, {true, true, true}};
    for (auto const& how : modes) {
        for (auto const& row : table) {
            BOOST_TEST_CONTEXT(how.name << ", promoted " << row.promoted << ", announced "
                                        << row.announced) {
                auto guard = how.guard();
                guard.connected(origin(7, true));
                BOOST_TEST((guard.observed(origin(7, true), row.announced) == forgetting::none));
                auto const after = with_history(origin(7, true), 99, row.promoted);
                BOOST_TEST((guard.observed(after, row.announced) != forgetting::none) ==
                           (row.doubted && how.observed));
                BOOST_TEST((guard.observed(after, row.announced) == forgetting::none));
                BOOST_TEST((guard.connected(after) == forgetting::none));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_was_seen_as_a_replica_is_doubted_when_it_is_a_primary) {
    for (auto const& how : modes) {
        for (auto const known : {false, true}) {
            BOOST_TEST_CONTEXT(how.name << ", known before " << known) {
                auto guard = how.guard();
                if (known) guard.connected(origin(7, true));
                guard.is_replica();
                guard.is_replica();
                // The guard also doubts a new process that writes all commands to disk.
                auto const doubted = how.observed ? forgetting::replacement : forgetting::none;
                BOOST_TEST((guard.connected(origin(8, true)) == doubted));
                BOOST_TEST((guard.connected(origin(8, true)) == forgetting::none));
            }
        }
    }
}

// The server was a replica since its start, but the client was not connected then.
BOOST_AUTO_TEST_CASE(a_durable_server_that_was_promoted_is_not_trusted_after_a_restart) {
    auto const promoted = with_history(origin(8, true), 99, true);
    auto guard = observed.guard();
    guard.connected(origin(7, true));
    BOOST_TEST((guard.connected(promoted) == forgetting::replacement));
    auto unmet = observed.guard();
    BOOST_TEST((unmet.connected(promoted) == forgetting::none));
    auto wary = strict.guard();
    BOOST_TEST((wary.connected(promoted) == forgetting::replacement));
}

BOOST_AUTO_TEST_CASE(who_was_a_replica_long_ago_and_is_durable_is_trusted_after_a_restart) {
    auto guard = observed.guard();
    guard.connected(with_history(origin(7, true), 99, true));
    BOOST_TEST((guard.connected(origin(8, true)) == forgetting::none));
}

BOOST_AUTO_TEST_CASE(a_setting_that_changes_while_it_is_connected_is_what_counts_as_before) {
    auto guard = observed.guard();
    guard.connected(origin(7, true));
    BOOST_TEST((guard.observed(origin(7, false), true) == forgetting::none));
    BOOST_TEST((guard.connected(origin(8, true)) == forgetting::restart));
    BOOST_TEST((guard.observed(origin(8, false), true) == forgetting::none));
    BOOST_TEST((guard.observed(origin(8, true), true) == forgetting::none));
    BOOST_TEST((guard.connected(origin(9, true)) == forgetting::none));
}

BOOST_AUTO_TEST_CASE(flushes_that_nobody_heard_of_are_counted) {
    auto const flushed = [](std::uint64_t times) {
        auto o = origin(7, true);
        o.flushes = times;
        return o;
    };
    struct {
        std::uint64_t before, now;
        bool doubted;
    } constexpr table[] = {
        {0, 0, false},
        {3, 3, false},
        {0, 1, true},
        {3, 4, true},
        // The count of flushes was reset.
        {3, 0, false},
        {3, 1, true},
    };
    for (auto const& how : modes) {
        for (auto const& row : table) {
            BOOST_TEST_CONTEXT(how.name << ", " << row.before << " before, now " << row.now) {
                auto const expected =
                    row.doubted && how.observed ? forgetting::flush : forgetting::none;
                auto guard = how.guard();
                guard.connected(flushed(row.before));
                auto other = guard;
                BOOST_TEST((guard.connected(flushed(row.now)) == expected));
                BOOST_TEST(
                    (guard.connected(flushed(row.now)) == forgetting::none)); // reported once
                BOOST_TEST((other.observed(flushed(row.now), true) == expected));
                BOOST_TEST((other.observed(flushed(row.now), true) == forgetting::none));
            }
        }
    }
    // Flushes that the server announced were reported then. They do not count again.
    auto told = observed.guard();
    told.connected(flushed(3));
    BOOST_TEST(told.emptied());
    BOOST_TEST(told.emptied());
    BOOST_TEST((told.observed(flushed(5), true) == forgetting::none));
    BOOST_TEST((told.observed(flushed(6), true) == forgetting::flush));
    BOOST_TEST(told.emptied());
    BOOST_TEST((told.connected(flushed(7)) == forgetting::none));
    BOOST_TEST(told.emptied());
    BOOST_TEST((told.connected(flushed(9)) == forgetting::flush));
    // A new process counts its flushes from 0.
    auto guard = observed.guard();
    guard.connected(flushed(3));
    BOOST_TEST((guard.connected(origin(8, true)) == forgetting::none));
    auto since_start = origin(9, true);
    since_start.flushes = 1;
    BOOST_TEST((guard.connected(since_start) == forgetting::flush));
}

BOOST_AUTO_TEST_CASE(keys_that_are_gone_are_minded_unless_the_guard_is_off) {
    for (auto const& how : modes) {
        auto guard = how.guard();
        BOOST_TEST(guard.emptied() == how.observed);
    }
}

BOOST_AUTO_TEST_SUITE_END()
