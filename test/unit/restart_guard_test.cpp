// What a server says of itself at each connection, and whether its grants count after that.
#include "protocol/restart_guard.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>

namespace protocol = holdfast::protocol;

namespace {

struct mode {
    char const* name;
    bool observed, strict;
    protocol::restart_guard guard() const { return {observed, strict}; }
};

constexpr mode off{"off", false, false}, observed{"observed", true, false}, strict{"strict", true, true};
constexpr std::array modes{off, observed, strict};

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
            BOOST_TEST(row.how.guard().connected(7, row.durable) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_restarted_server_is_trusted_only_if_it_was_durable_before_and_is_now) {
    struct {
        mode how;
        bool before, now, doubted;
    } constexpr table[] = {
        {off, false, false, false},    {off, false, true, false},      {off, true, false, false},
        {off, true, true, false},      {observed, false, false, true}, {observed, false, true, true},
        {observed, true, false, true}, {observed, true, true, false},  {strict, false, false, true},
        {strict, false, true, true},   {strict, true, false, true},    {strict, true, true, false},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.how.name << ", durable before " << row.before << ", now " << row.now) {
            auto guard = row.how.guard();
            guard.connected(7, row.before);
            BOOST_TEST(guard.connected(8, row.now) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_connection_to_the_same_process_is_no_restart) {
    for (auto const& how : modes) {
        for (auto const before : {false, true}) {
            for (auto const now : {false, true}) {
                BOOST_TEST_CONTEXT(how.name << ", durable before " << before << ", now " << now) {
                    auto guard = how.guard();
                    guard.connected(7, before);
                    for (auto n = 0; n < 3; ++n) BOOST_TEST(!guard.connected(7, now));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(each_restart_counts_and_each_only_once) {
    for (auto const& how : {observed, strict}) {
        BOOST_TEST_CONTEXT(how.name) {
            auto guard = how.guard();
            guard.connected(1, false);
            for (std::uint64_t run = 2; run < 6; ++run) {
                BOOST_TEST(guard.connected(run, false));
                BOOST_TEST(!guard.connected(run, false));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_counts_as_before_is_what_the_server_said_last) {
    struct {
        bool first, last, now, doubted;
    } constexpr table[] = {
        // The log was switched on while it ran: from then on it has all.
        {false, true, true, false},
        {false, true, false, true},
        // Switched off: what came after is not in the log.
        {true, false, true, true},
        {true, false, false, true},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT("durable " << row.first << ", then " << row.last << ", now " << row.now) {
            auto guard = observed.guard();
            guard.connected(7, row.first);
            guard.connected(7, row.last);
            BOOST_TEST(guard.connected(8, row.now) == row.doubted);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_server_is_durable_before_only_since_the_last_restart) {
    auto guard = observed.guard();
    BOOST_TEST(!guard.connected(1, true));
    BOOST_TEST(guard.connected(2, false)); // lost something
    BOOST_TEST(guard.connected(3, true));  // of what came after, too
    BOOST_TEST(!guard.connected(4, true));
}

BOOST_AUTO_TEST_CASE(any_other_run_id_is_a_restart) {
    for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        for (std::uint64_t const second : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
            auto guard = observed.guard();
            BOOST_TEST(!guard.connected(first, false));
            BOOST_TEST(guard.connected(second, false) == (first != second));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
