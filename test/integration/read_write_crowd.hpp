// Readers and writers of several clients on one context, with a ledger that finds overlaps.
#ifndef HOLDFAST_TEST_INTEGRATION_READ_WRITE_CROWD_HPP
#define HOLDFAST_TEST_INTEGRATION_READ_WRITE_CROWD_HPP

#include "integration/client_group.hpp"
#include "integration/readers_writers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

struct crowd_size {
    std::size_t clients = 3;
    std::size_t readers = 4;                                                  ///< of each client
    std::size_t writers = 1;                                                  ///< of each client
    std::chrono::microseconds read{1'500}, write{500}, between_writes{3'000}; ///< on average
};

class read_write_crowd {
public:
    read_write_crowd(std::vector<address> const& servers, lock_options const& options,
                     client_options const& client = unhurried(), crowd_size const& size = {},
                     std::string const& key = "k")
        : group(servers, size.clients, client) {
        unsigned seed = 0;
        for (auto& each : group.clients) {
            auto const both = each->make_read_write_lock(key, options);
            for (std::size_t i = 0; i < size.readers; ++i)
                group.start(work(both.read(), size.read, {}, ++seed));
            for (std::size_t i = 0; i < size.writers; ++i)
                group.start(work(both.write(), size.write, size.between_writes, ++seed));
        }
    }

    /// So many more leases of readers, and of writers.
    void goes_on(std::size_t reads, std::size_t writes,
                 std::chrono::seconds limit = std::chrono::seconds(60)) {
        auto const reads_before = all.reads(), writes_before = all.writes();
        auto const went_on = group.until(
            [&] {
                return all.reads() >= reads_before + reads &&
                       all.writes() >= writes_before + writes;
            },
            limit);
        for (auto const& each : group.clients) {
            if (went_on) break;
            auto const s = each->stats();
            BOOST_TEST_MESSAGE("waiters " << s.waiters << ", held " << s.held << ", rounds "
                                          << s.rounds << ", acquired " << s.acquired
                                          << ", split votes " << s.split_votes << ", pushes "
                                          << s.pushes);
        }
        BOOST_REQUIRE_MESSAGE(went_on, all.reads() - reads_before << " reads, "
                                                                  << all.writes() - writes_before
                                                                  << " writes");
        BOOST_TEST(all.overlaps() == 0U);
    }
    void stops() {
        ends_ = true;
        BOOST_REQUIRE(group.until([&] { return group.working == 0; }, std::chrono::seconds(60)));
        BOOST_TEST(group.idle());
        BOOST_TEST(all.overlaps() == 0U);
    }

    client_group group;
    read_write_ledger all;
    std::size_t lost = 0;

private:
    asio::awaitable<void> work(lock on, std::chrono::microseconds length,
                               std::chrono::microseconds between, unsigned seed) {
        std::mt19937 random(seed);
        auto const about = [&random](std::chrono::microseconds t) {
            std::uniform_int_distribution<std::chrono::microseconds::rep> up_to(0, 2 * t.count());
            return std::chrono::microseconds(up_to(random));
        };
        auto const writer = on.access() == lock_access::write;
        asio::steady_timer timer(co_await asio::this_coro::executor);
        while (!ends_) {
            auto held = co_await on.acquire();
            writer ? all.writer_enters() : all.reader_enters();
            timer.expires_after(about(length));
            co_await timer.async_wait(asio::deferred);
            if (writer && random() % 4 == 0) {
                all.writer_leaves();
                all.reader_enters();
                auto const quietly = asio::as_tuple(asio::deferred);
                (void)co_await held.downgrade(quietly);
                timer.expires_after(about(length));
                co_await timer.async_wait(asio::deferred);
                all.reader_leaves();
            } else {
                writer ? all.writer_leaves() : all.reader_leaves();
            }
            if (random() % 8 == 0) {
                held = {};
            } else {
                auto const released = co_await held.release();
                if (released == errc::lease_lost) ++lost;
            }
            if (between.count() == 0) continue;
            timer.expires_after(about(between));
            co_await timer.async_wait(asio::deferred);
        }
    }

    bool ends_ = false;
};

} // namespace holdfast::test

#endif
