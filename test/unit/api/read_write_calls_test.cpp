// The public calls for readers and writers: what they give, and what they refuse. On instances for
// unit tests, without a server.
#include <holdfast/client.hpp>
#include <holdfast/read_write_lock.hpp>
#include <holdfast/testing/instance.hpp>

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// For a call that throws this code, and names the value.
auto refusal(errc code, std::string_view words) {
    return [code, words](system_error const& e) {
        BOOST_TEST(contains(e.what(), words), e.what());
        return e.code() == code;
    };
}

lease hold(test_client& c, lock const& which) {
    attempt a;
    a.start(which);
    return wait_for_lease(c, a);
}

error downgrade(test_client& c, lease& held) {
    auto done = false;
    error result;
    held.downgrade([&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return result;
}

struct stage {
    testing::instance instance;
    test_client client;

    explicit stage(client_options const& options = patient())
        : client({instance.address()}, options) {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_calls)

BOOST_AUTO_TEST_CASE(the_two_locks_have_one_key_and_their_access) {
    auto options = patient();
    options.key_prefix = "app:";
    stage s(options);
    auto const page = s.client.locks.make_read_write_lock("page", {.ttl = 7s, .fencing = true});
    BOOST_TEST(page.key() == "app:page");
    BOOST_TEST((page.read().access() == lock_access::read));
    BOOST_TEST((page.write().access() == lock_access::write));
    BOOST_TEST((s.client.locks.make_lock("page").access() == lock_access::exclusive));
    BOOST_TEST((s.client.locks.make_multi_lock({"a", "b"}).access() == lock_access::exclusive));
    for (auto const* const each : {&page.read(), &page.write()}) {
        BOOST_TEST(each->key() == "app:page");
        BOOST_TEST((each->keys() == std::vector<std::string_view>{"app:page"}));
        BOOST_TEST((each->options().ttl == 7s));
        BOOST_TEST(each->options().fencing);
    }
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused_with_its_value) {
    auto options = patient();
    options.key_prefix = "app:";
    options.max_ttl = 60s;
    stage s(options);
    auto const make = [&](std::string_view key, lock_options const& o = {}) {
        (void)s.client.locks.make_read_write_lock(key, o);
    };
    BOOST_CHECK_EXCEPTION(make(""), system_error, refusal(errc::invalid_key, "empty"));
    BOOST_CHECK_EXCEPTION(make(std::string(max_key_size, 'x')), system_error,
                          refusal(errc::invalid_key, std::to_string(max_key_size + 4) + " bytes"));
    BOOST_CHECK_EXCEPTION(make("k", {.fair = true}), system_error,
                          refusal(errc::invalid_options, "fair is set"));
    BOOST_CHECK_EXCEPTION(make("k", {.ttl = 61s}), system_error,
                          refusal(errc::invalid_options, "ttl is 61000 ms"));
    BOOST_CHECK_EXCEPTION(make("k", {.handover_limit = 0}), system_error,
                          refusal(errc::invalid_options, "handover_limit is 0"));
    auto const moved = std::move(s.client.locks);
    BOOST_CHECK_EXCEPTION(make("k"), system_error, refusal(errc::shut_down, "moved from"));
}

BOOST_AUTO_TEST_CASE(only_a_writers_lease_is_downgraded) {
    stage s;
    auto const page = s.client.locks.make_read_write_lock("page", long_lived);
    lease empty;
    BOOST_CHECK_EXCEPTION((void)empty.downgrade([](error) {}), system_error,
                          refusal(errc::lease_released, ""));
    auto plain = s.client.hold("another");
    BOOST_CHECK_EXCEPTION((void)plain.downgrade([](error) {}), system_error,
                          refusal(errc::invalid_options, "read_write_lock::write()"));
    BOOST_TEST(s.client.releases(plain));
    auto reads = hold(s.client, page.read());
    BOOST_CHECK_EXCEPTION((void)reads.downgrade([](error) {}), system_error,
                          refusal(errc::invalid_options, "read_write_lock::write()"));
    BOOST_TEST(s.client.releases(reads));

    auto writes = hold(s.client, page.write());
    BOOST_TEST(!downgrade(s.client, writes));
    BOOST_TEST(writes.held());
    BOOST_TEST(!downgrade(s.client, writes)); // as an extension
    auto other = hold(s.client, page.read());
    BOOST_TEST(s.client.releases(other));
    BOOST_TEST(s.client.releases(writes));
}

BOOST_AUTO_TEST_CASE(a_release_by_a_lock_checks_what_it_gets) {
    stage s;
    auto& locks = s.client.locks;
    auto const page = locks.make_read_write_lock("page");
    auto const nothing = [](error) {};
    BOOST_CHECK_EXCEPTION(locks.release(page.read(), "", nothing), system_error,
                          refusal(errc::invalid_options, "the token is empty"));
    BOOST_CHECK_EXCEPTION(locks.release(locks.make_multi_lock({"a", "b"}), "t", nothing),
                          system_error, refusal(errc::invalid_options, "several keys"));
    auto from = page.read();
    auto const moved = std::move(from);
    BOOST_CHECK_EXCEPTION(locks.release(from, "t", nothing), system_error,
                          refusal(errc::shut_down, "moved from"));
}

// The first reader asks the instances. Those that come while it has the lock do not.
BOOST_AUTO_TEST_CASE(a_further_reader_of_the_process_asks_no_instance) {
    stage s;
    auto const page = s.client.locks.make_read_write_lock("page", long_lived);
    auto first = hold(s.client, page.read());
    auto const before = s.client.locks.stats();
    auto second = hold(s.client, page.read());
    auto const after = s.client.locks.stats();
    BOOST_TEST(after.acquired == before.acquired + 1);
    BOOST_TEST(after.rounds == before.rounds);
    BOOST_TEST(after.held == 2U);
    // Each has a lease of its own, and the last one releases.
    BOOST_TEST(s.client.releases(first));
    BOOST_TEST(s.instance.holds("page"));
    BOOST_TEST(second.held());
    BOOST_TEST(s.client.releases(second));
    BOOST_TEST(!s.instance.holds("page"));
}

BOOST_AUTO_TEST_SUITE_END()
