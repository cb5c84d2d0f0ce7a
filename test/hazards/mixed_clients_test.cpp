// Clients of the older ways and holdfast on one key, as while a program moves from one to the
// other. doc/comparison.md says which of them may be mixed, and how.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"
#include "tour/acquire_script.hpp"
#include "tour/compare_in_client.hpp"
#include "tour/deadline_as_value.hpp"
#include "tour/sequential_redlock.hpp"
#include "tour/set_then_del.hpp"
#include "tour/setnx_then_expire.hpp"
#include "tour/unique_token.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::string const key = "seat";

/// An holder_label that clients with deadlines as values take for a deadline in the year 5138.
constexpr std::string_view far_deadline = "99999999999999";

std::int64_t wall_now() {
    return std::chrono::system_clock::now().time_since_epoch() / 1ms;
}

double as_deadline(std::string const& value) {
    return std::strtod(value.c_str(), nullptr);
}

/// A server with a client of each kind.
struct scene {
    explicit scene(std::string_view label = far_deadline)
        : client(servers, labelled(label)) {
        BOOST_REQUIRE(client.all_up());
    }
    static client_options labelled(std::string_view label) {
        auto options = patient();
        options.holder_label = label;
        return options;
    }
    std::string value() { return witness.get(key).value_or("no key"); }

    std::ostringstream told{};
    tour::journal journal{told};
    fleet servers{1};
    redis_cli witness{servers[0]};
    test_client client;
    tour::wire wire{journal, "A", servers[0].port()};
};

/// Tests each older way on a server of its own.
template <class Test>
void with_each_way(Test test) {
    using make = std::function<std::unique_ptr<tour::older_way>(tour::wire&)>;
    auto const of = []<class Way>(std::type_identity<Way>) -> make {
        return [](tour::wire& w) { return std::make_unique<Way>(w, key); };
    };
    std::pair<char const*, make> const ways[] = {
        {"SETNX, EXPIRE", of(std::type_identity<tour::setnx_then_expire>())},
        {"SET NX EX, DEL", of(std::type_identity<tour::set_then_del>())},
        {"GET, compare, DEL", of(std::type_identity<tour::compare_in_client>())},
        {"deadline as value",
         [](tour::wire& w) { return std::make_unique<tour::deadline_as_value>(w, key, wall_now); }},
        {"script, DEL", of(std::type_identity<tour::acquire_script>())},
        {"unique token", of(std::type_identity<tour::unique_token>())},
        {"Redlock in turn",
         [](tour::wire& w) {
             return std::make_unique<tour::sequential_redlock>(
                 std::vector{&w}, key, [] { return std::chrono::microseconds(wall_now() * 1000); });
         }},
    };
    for (auto const& [name, make_way] : ways) {
        BOOST_TEST_CONTEXT(name) {
            scene s;
            test(s, *make_way(s.wire));
        }
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(mixed_clients)

BOOST_AUTO_TEST_CASE(a_lock_of_each_older_way_excludes_holdfast) {
    with_each_way([](scene& s, tour::older_way& older) {
        BOOST_REQUIRE(older.try_lock(60s));
        auto const before = s.value();
        auto const [e, none] = s.client.try_acquire(key);
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(s.value() == before);
        older.unlock();
        auto l = s.client.hold(key);
        BOOST_TEST(s.client.releases(l));
    });
}

BOOST_AUTO_TEST_CASE(a_lease_excludes_each_older_way) {
    with_each_way([](scene& s, tour::older_way& older) {
        auto l = s.client.hold(key);
        auto const token = s.value();
        BOOST_TEST(!older.try_lock(60s));
        BOOST_TEST(s.value() == token);
        BOOST_TEST((s.witness.pttl(key) > 0ms));
        BOOST_TEST(l.held());
        BOOST_TEST(!s.client.extend(l));
        BOOST_TEST(s.client.releases(l));
        BOOST_TEST(older.try_lock(60s));
        older.unlock();
        check_nothing_left(s.client, s.servers);
    });
}

// A lease with another label is in danger: the old client reads a small number.
BOOST_AUTO_TEST_CASE(a_client_with_deadlines_takes_a_lease_without_the_label) {
    scene s("");
    tour::deadline_as_value older(s.wire, key, wall_now);
    auto l = s.client.hold(key);
    while (as_deadline(s.value()) >= static_cast<double>(wall_now())) { // as "4e50..", by chance
        BOOST_TEST(s.client.releases(l));
        l = s.client.hold(key);
    }
    BOOST_TEST(older.try_lock(60s));
    auto const e = s.client.extend(l);
    BOOST_TEST((e == errc::lease_lost), e.what());
}

BOOST_AUTO_TEST_CASE(a_late_del_of_an_old_client_ends_the_lease_and_the_holder_is_told) {
    scene s;
    tour::set_then_del older(s.wire, key);
    BOOST_REQUIRE(older.try_lock(1s));
    auto l = s.client.hold(key, {.ttl = renewed_ttl}); // when the old lock has expired
    loss_wait lost(l);
    older.unlock();
    BOOST_TEST(!s.witness.exists(key));
    BOOST_TEST(s.client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::key_gone);
    BOOST_TEST(!l.held());
    BOOST_TEST(!s.witness.exists(key));
}

// The label does not help: the old client has compared the value before.
BOOST_AUTO_TEST_CASE(a_slow_getset_of_an_old_client_ends_the_lease) {
    scene s;
    s.witness.set(key, "1"); // the deadline of a client that has crashed
    tour::deadline_as_value slow(s.wire, key, wall_now);
    tour::wire other_wire(s.journal, "B", s.servers[0].port());
    tour::deadline_as_value other(other_wire, key, wall_now);
    lease l;
    s.wire.pause_before("GETSET", [&] {
        BOOST_TEST(other.try_lock(60s));
        other.unlock();
        l = s.client.hold(key);
    });
    BOOST_TEST(!slow.try_lock(60s));
    auto const e = s.client.extend(l);
    BOOST_TEST((e == errc::lease_lost), e.what());
    // No client has the lock, and its key stays.
    BOOST_TEST((s.witness.pttl(key) == -1ms));
}

BOOST_AUTO_TEST_CASE(the_report_names_a_key_that_a_crashed_old_client_has_left_for_ever) {
    scene s;
    tour::setnx_then_expire older(s.wire, key);
    s.wire.crash_before("EXPIRE");
    BOOST_CHECK_THROW(older.try_lock(60s), tour::crashed);
    auto const [e, none] = s.client.try_acquire(key);
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    auto const& instance = e.report()->instances.at(0);
    BOOST_TEST((instance.outcome == instance_outcome::held));
    BOOST_TEST(instance.ttl_known);
    BOOST_TEST(!instance.ttl_left.has_value());
    BOOST_TEST(contains(e.what(), "never expires"), e.what());
}

BOOST_AUTO_TEST_SUITE_END()
