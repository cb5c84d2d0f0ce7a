// The grants that count where enough replicas must have them, and the servers that are asked.
#include "protocol/server/replica_guard.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <vector>

using namespace holdfast::protocol;
using guard = holdfast::protocol::replica_guard;
using state = guard::state;

namespace {

replica_list list(std::uint64_t offset, std::vector<std::uint64_t> acknowledged) {
    return {.offset = offset, .acknowledged = std::move(acknowledged)};
}

guard connected(unsigned wanted, std::optional<replica_list> const& replicas) {
    guard g(wanted);
    g.connected(replicas);
    return g;
}

} // namespace

BOOST_AUTO_TEST_SUITE(replica_guard)

BOOST_AUTO_TEST_CASE(a_guard_that_is_off_always_votes) {
    auto g = connected(0, list(5, {}));
    BOOST_TEST(!g.on());
    BOOST_TEST(g.votes());
    g.listed(std::nullopt);
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(grants_count_if_enough_replicas_have_them) {
    auto g = connected(2, list(5, {5, 5}));
    BOOST_TEST(g.on());
    BOOST_TEST(g.votes());
    BOOST_TEST(g.needed() == 2U);
    BOOST_TEST(g.waited(2, true));
    BOOST_TEST(g.waited(3, true));
    BOOST_TEST(g.votes());
    BOOST_TEST(!g.waited(1, true));
    BOOST_TEST(!g.votes());
    BOOST_TEST((g.current() == state::behind));
    BOOST_TEST(g.present() == 1U);
}

BOOST_AUTO_TEST_CASE(a_server_with_too_few_replicas_has_no_vote) {
    auto g = connected(2, list(5, {5}));
    BOOST_TEST((g.current() == state::few));
    BOOST_TEST(g.present() == 1U);
    g.listed(list(5, {5, 0}));
    BOOST_TEST(g.votes());
    g.listed(list(5, {}));
    BOOST_TEST((g.current() == state::few));
}

BOOST_AUTO_TEST_CASE(after_a_miss_the_replicas_must_have_all_writes_of_then) {
    auto g = connected(2, list(100, {100, 100}));
    BOOST_TEST(!g.waited(1, true));
    g.listed(list(150, {150, 100})); // frozen at 100
    BOOST_TEST((g.current() == state::behind));
    BOOST_TEST(g.present() == 1U);
    g.listed(list(200, {200, 149}));
    BOOST_TEST(!g.votes());
    g.listed(list(300, {250, 150})); // moves on, and need not have what was written since
    BOOST_TEST(g.votes());
    // The next miss counts anew.
    BOOST_TEST(!g.waited(0, true));
    g.listed(list(400, {300, 300}));
    BOOST_TEST(!g.votes());
    g.listed(list(400, {400, 400}));
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(a_wait_for_grants_that_succeeds_proves_that_they_are_back) {
    auto g = connected(1, list(100, {100}));
    BOOST_TEST(!g.waited(0, true));
    // Without a write of its own, WAIT may have waited for nothing.
    BOOST_TEST(g.waited(1, false));
    BOOST_TEST(!g.votes());
    BOOST_TEST(g.waited(1, true));
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(all_are_as_many_as_the_server_has_listed) {
    auto none = connected(guard::all, list(5, {}));
    BOOST_TEST(none.needed() == 1U);
    BOOST_TEST(!none.votes());

    auto g = connected(guard::all, list(5, {5, 5}));
    BOOST_TEST(g.needed() == 2U);
    BOOST_TEST(g.votes());
    BOOST_TEST(!g.waited(1, true));
    g.listed(list(5, {5})); // one is cut off: it may be promoted all the same
    BOOST_TEST(g.needed() == 2U);
    BOOST_TEST(!g.votes());
    g.listed(list(5, {5, 5, 5}));
    BOOST_TEST(g.needed() == 3U);
    BOOST_TEST(g.votes());
    BOOST_TEST(g.waited(4, true)); // another one has come
    BOOST_TEST(g.needed() == 4U);
    // A new connection counts anew.
    g.connected(list(5, {5}));
    BOOST_TEST(g.needed() == 1U);
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_list_its_replicas_is_asked_with_a_number_only) {
    auto unlisted = connected(guard::all, std::nullopt);
    BOOST_TEST((unlisted.current() == state::unlisted));
    auto g = connected(2, std::nullopt);
    BOOST_TEST(g.votes());
    BOOST_TEST(!g.waited(1, true));
    BOOST_TEST(!g.votes());
    g.listed(std::nullopt); // a second later: the next WAIT tells
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_wait_has_no_vote) {
    auto g = connected(1, list(5, {5}));
    g.refuses(true);
    BOOST_TEST((g.current() == state::refused));
    g.listed(list(5, {5}));
    BOOST_TEST(!g.votes());
    g.refuses(false);
    BOOST_TEST(g.votes());
    g.refuses(true);
    BOOST_TEST(g.waited(1, true));
    BOOST_TEST(g.votes());
}

BOOST_AUTO_TEST_CASE(only_commands_that_write_what_a_holder_relies_on_need_replicas) {
    for (auto const c :
         {command::acquire, command::contend, command::extend, command::heal, command::raise}) {
        BOOST_TEST(needs_replicas(c));
    }
    for (auto const c : {command::release, command::inspect, command::track}) {
        BOOST_TEST(!needs_replicas(c));
    }
}

BOOST_AUTO_TEST_SUITE_END()
