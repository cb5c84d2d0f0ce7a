// Locks with equal options share their settings, and the settings keep the engine alive.
#include <holdfast/address.hpp>

#include "runtime/engine/engine.hpp"
#include "runtime/engine/lock_settings_cache.hpp"
#include "runtime/engine/lock_state.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;
using runtime::lock_settings_cache;

namespace {

// An engine that was never started.
struct quiet_engine {
    detail::lock_settings_ptr settings(std::chrono::milliseconds ttl) const {
        return engine->find_or_make_settings({.ttl = ttl});
    }

    boost::asio::io_context context;
    std::shared_ptr<runtime::engine> engine = std::make_shared<runtime::engine>(
        context.get_executor(), std::vector<address>{address("127.0.0.1:1")}, client_options{});
};

} // namespace

BOOST_AUTO_TEST_SUITE(lock_settings)

BOOST_FIXTURE_TEST_CASE(equal_options_share_their_settings, quiet_engine) {
    auto const first = settings(1s);
    BOOST_TEST((settings(1s) == first));
    auto const second = settings(2s);
    BOOST_TEST((second != first));
    BOOST_TEST((second->options.ttl == 2s));
    BOOST_TEST((settings(1s) == first));
}

BOOST_FIXTURE_TEST_CASE(a_trace_has_settings_of_its_own_and_pushes_out_no_others, quiet_engine) {
    auto const plain = settings(1s);
    for (std::uint8_t n = 1; n < 100; ++n) {
        lock_options traced{.ttl = 1s};
        traced.trace.trace_id[0] = n;
        auto const own = engine->find_or_make_settings(traced);
        BOOST_TEST((own->options == traced));
        BOOST_TEST((engine->find_or_make_settings(traced) != own));
    }
    BOOST_TEST((settings(1s) == plain));
}

BOOST_FIXTURE_TEST_CASE(only_the_last_few_are_found, quiet_engine) {
    std::vector<detail::lock_settings_ptr> all;
    for (std::size_t n = 0; n <= lock_settings_cache::most; ++n)
        all.push_back(settings(1s + n * 1ms));
    BOOST_TEST((settings(1s + 1ms) == all[1]));
    BOOST_TEST((settings(1s) != all[0]));
    BOOST_TEST((all[0]->options.ttl == 1s));
}

BOOST_FIXTURE_TEST_CASE(the_last_lock_lets_the_engine_go, quiet_engine) {
    std::weak_ptr<runtime::engine> const alive = engine;
    auto const make = [&] { return runtime::make_lock_state({settings(1s), "app:", "k", {}}); };
    auto first = make();
    auto second = make();
    BOOST_TEST(first->key() == "app:k");
    engine.reset();
    first.reset();
    BOOST_TEST(!alive.expired());
    second.reset();
    BOOST_TEST(alive.expired());
}

BOOST_FIXTURE_TEST_CASE(settings_that_are_gone_are_not_found, quiet_engine) {
    for (auto n = 0; n < 100; ++n) BOOST_TEST((settings(1s)->options.ttl == 1s));
    BOOST_TEST(engine.use_count() == 1);
}

BOOST_FIXTURE_TEST_CASE(threads_share_settings_that_come_and_go, quiet_engine) {
    std::vector<std::jthread> threads;
    for (auto t = 0; t < 4; ++t) {
        threads.emplace_back([this, t] {
            for (auto n = 0; n < 5'000; ++n) {
                auto const mine = settings(1s + (n + t) % 3 * 1ms);
                auto const copy = mine;
            }
        });
    }
    threads.clear();
    BOOST_TEST(engine.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_state_has_its_key) {
    std::string const long_key(max_key_size, 'k');
    quiet_engine e;
    BOOST_TEST(runtime::make_lock_state({e.settings(1s), {}, long_key, {}})->key() == long_key);
    BOOST_TEST(runtime::make_lock_state({e.settings(1s), "all:", "k", {}})->key() == "all:k");
}

BOOST_AUTO_TEST_SUITE_END()
