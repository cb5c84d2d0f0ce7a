// Workers of several clients on one context that share the permits of a semaphore, with a ledger of
// the slots that are in use.
#ifndef HOLDFAST_TEST_INTEGRATION_PERMIT_CROWD_HPP
#define HOLDFAST_TEST_INTEGRATION_PERMIT_CROWD_HPP

#include "integration/client_group.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace holdfast::test {

/// Who is inside, at this moment: no two with one slot.
class slot_ledger {
public:
    void enters(lease const& l) {
        auto const slot = l.slot().value();
        if (++inside_[slot] != 1) ++overlaps_;
        most_ = std::max(most_, ++now_);
        greatest_ = std::max(greatest_, slot);
        ++entries_;
        if (l.fence() == 0) return;
        if (l.fence() <= fences_[slot]) ++disordered_;
        fences_[slot] = l.fence();
    }
    void leaves(lease const& l) {
        --inside_[l.slot().value()];
        --now_;
    }
    std::size_t entries() const { return entries_; }
    std::size_t overlaps() const { return overlaps_; }
    /// Leases whose fence was not above those of their slot before.
    std::size_t disordered() const { return disordered_; }
    std::size_t most() const { return most_; }
    unsigned greatest_slot() const { return greatest_; }

private:
    std::map<unsigned, int> inside_;
    std::map<unsigned, std::uint64_t> fences_;
    std::size_t now_ = 0, most_ = 0, entries_ = 0, overlaps_ = 0, disordered_ = 0;
    unsigned greatest_ = 0;
};

struct permit_crowd_size {
    std::size_t clients = 3;
    std::size_t workers = 5;                  ///< of each client
    std::chrono::microseconds section{1'000}; ///< on average
};

class permit_crowd {
public:
    /// `permits`: of each client's semaphore, in turn.
    permit_crowd(std::vector<address> const& servers, std::vector<unsigned> const& permits,
                 lock_options const& options, client_options const& client = unhurried(),
                 permit_crowd_size const& size = {}, std::string const& key = "k")
        : group(servers, size.clients, client)
        , most_(*std::max_element(permits.begin(), permits.end())) {
        unsigned seed = 0;
        for (auto& each : group.clients) {
            auto const on = each->make_semaphore(key, permits[seed % permits.size()], options);
            ++seed;
            for (std::size_t i = 0; i < size.workers; ++i)
                group.start(work(on, size.section, static_cast<unsigned>(1'000 * seed + i)));
        }
    }

    /// So many more leases.
    void goes_on(std::size_t leases, std::chrono::seconds limit = std::chrono::seconds(60)) {
        auto const before = all.entries();
        auto const went_on = group.until([&] { return all.entries() >= before + leases; }, limit);
        for (auto const& each : group.clients) {
            if (went_on) break;
            auto const s = each->stats();
            BOOST_TEST_MESSAGE("waiters " << s.waiters << ", held " << s.held << ", rounds "
                                          << s.rounds << ", acquired " << s.acquired
                                          << ", split votes " << s.split_votes << ", pushes "
                                          << s.pushes);
        }
        BOOST_REQUIRE_MESSAGE(went_on, all.entries() - before << " leases");
        check();
    }
    void stops() {
        ends_ = true;
        BOOST_REQUIRE(group.until([&] { return group.working == 0; }, std::chrono::seconds(60)));
        BOOST_TEST(group.idle());
        check();
    }
    void check() const {
        BOOST_TEST(all.overlaps() == 0U);
        BOOST_TEST(all.disordered() == 0U);
        BOOST_TEST(all.most() <= most_);
        BOOST_TEST(all.greatest_slot() < most_);
    }

    client_group group;
    slot_ledger all;
    std::size_t lost = 0;

private:
    asio::awaitable<void> work(lock on, std::chrono::microseconds length, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<std::chrono::microseconds::rep> up_to(0, 2 * length.count());
        asio::steady_timer timer(co_await asio::this_coro::executor);
        while (!ends_) {
            auto held = co_await on.acquire();
            all.enters(held);
            timer.expires_after(std::chrono::microseconds(up_to(random)));
            co_await timer.async_wait(asio::deferred);
            all.leaves(held);
            if (random() % 8 == 0) {
                held = {};
            } else {
                auto const released = co_await held.release();
                if (released == errc::lease_lost) ++lost;
            }
        }
    }

    std::size_t const most_;
    bool ends_ = false;
};

inline lock workers(test_client& c, unsigned permits, lock_options const& options = long_lived) {
    return c.locks.make_semaphore("k", permits, options);
}

} // namespace holdfast::test

#endif
