// Coroutines that contend for keys, and their results.
#ifndef HOLDFAST_TEST_INTEGRATION_CROWD_HPP
#define HOLDFAST_TEST_INTEGRATION_CROWD_HPP

#include <holdfast/client.hpp>

#include "integration/run.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>

#include <cstddef>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// The results of coroutines that share keys.
struct crowd {
    std::vector<std::size_t> asked, granted;
    std::size_t done = 0, sections = 0, failed = 0, violations = 0;
    std::map<std::string, int> inside; ///< the number of holders, by key
    std::string first_failure;

    void fail(std::string reason) {
        if (failed++ == 0) first_failure = std::move(reason);
    }
};

/// Takes the lock `sections` times, one after another.
inline asio::awaitable<void> member(client& locks, std::string key, std::size_t number,
                                    std::size_t sections, lock_options options, crowd& c) {
    auto const lock = locks.make_lock(key, options);
    auto& inside = c.inside[key];
    for (std::size_t i = 0; i < sections; ++i) {
        c.asked.push_back(number);
        auto acquired = co_await lock.acquire(asio::as_tuple);
        auto& [e, held] = acquired;
        if (e) {
            c.fail(e.what());
            continue;
        }
        c.granted.push_back(number);
        ++c.sections;
        if (++inside > 1) ++c.violations;
        // Other coroutines run during this suspension.
        co_await asio::post(asio::deferred);
        --inside;
        auto const released = co_await held.release();
        if (!released.confirmed()) c.fail("release: " + released.code().message());
    }
    ++c.done;
}

inline void join(asio::io_context& context, client& locks, std::size_t number, std::size_t sections,
                 lock_options const& options, crowd& c, std::string const& key = "hot") {
    asio::co_spawn(context, member(locks, key, number, sections, options, c),
                   [](std::exception_ptr thrown) {
                       if (thrown) std::rethrow_exception(thrown);
                   });
}

} // namespace holdfast::test

#endif
