// Instances crash while clients work under load, and a referee looks for two holders of one lock.
#include "integration/guards.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Sees whether two leases on a key are held at one time.
class referee {
public:
    void begins(std::string const& key, lease const& l) {
        std::lock_guard const lock(mutex_);
        auto& here = leases_[key];
        for (auto const* other : here) {
            // A lease that is over stays so. If it is held after the check of the other, it was
            // held then.
            if (other->held() && l.held()) ++overlaps_;
        }
        here.push_back(&l);
    }
    /// Before it is released.
    void ends(std::string const& key, lease const& l) {
        std::lock_guard const lock(mutex_);
        std::erase(leases_[key], &l);
    }
    unsigned overlaps() const { return overlaps_; }

private:
    std::mutex mutex_;
    std::map<std::string, std::vector<lease const*>> leases_;
    std::atomic<unsigned> overlaps_{0};
};

/// A client in a thread of its own. Its coroutines take locks and release them until it is stopped.
class load {
public:
    load(fleet const& servers, client_options const& options, std::vector<std::string> const& keys,
         referee& judge)
        : locks_(context_.get_executor(), addresses_of(servers), options)
        , judge_(judge) {
        for (auto const& key : keys) {
            for (int i = 0; i < 3; ++i) {
                ++running_;
                asio::co_spawn(context_, work(key), [this](std::exception_ptr e) {
                    if (e) ++surprises_;
                    if (--running_ == 0) context_.stop();
                });
            }
        }
        thread_ = std::jthread([this] { context_.run(); });
    }
    ~load() { stop(); }
    load(load const&) = delete;
    load& operator=(load const&) = delete;

    /// Each coroutine gets its lease first.
    bool stop() {
        stopping_ = true;
        if (!thread_.joinable()) return true;
        auto const ended = wait_until([&] { return running_ == 0; }, 20s);
        if (!ended) context_.stop();
        thread_.join();
        return ended;
    }

    client const& locks() const { return locks_; }
    unsigned grants() const { return grants_; }
    unsigned failures() const { return failures_; }
    unsigned surprises() const { return surprises_; }

private:
    asio::awaitable<void> work(std::string key) {
        auto const lock = locks_.make_lock(key, {.ttl = 1s, .handoff_limit = 3});
        asio::steady_timer timer(context_);
        while (!stopping_) {
            auto acquired = co_await lock.acquire(asio::as_tuple);
            auto& [e, l] = acquired;
            if (e) {
                ++failures_;
                if (e != error_condition::unavailable) ++surprises_;
                timer.expires_after(5ms);
            } else {
                judge_.begins(key, l);
                ++grants_;
                timer.expires_after(1ms);
            }
            co_await timer.async_wait(asio::deferred);
            if (e) continue;
            judge_.ends(key, l);
            co_await l.release();
        }
    }

    asio::io_context context_;
    client locks_;
    referee& judge_;
    std::atomic<bool> stopping_{false};
    std::atomic<unsigned> running_{0}, grants_{0}, failures_{0}, surprises_{0};
    std::jthread thread_;
};

using loads = std::vector<std::unique_ptr<load>>;

/// Waits until each of them has got that many leases from now on.
[[nodiscard]] bool all_go_on(loads const& all, unsigned leases) {
    std::vector<unsigned> enough;
    for (auto const& load : all) enough.push_back(load->grants() + leases);
    return wait_until(
        [&] {
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (all[i]->grants() < enough[i]) return false;
            }
            return true;
        },
        15s);
}

unsigned failures_of(loads const& all) {
    unsigned sum = 0;
    for (auto const& load : all) sum += load->failures();
    return sum;
}

[[nodiscard]] bool each(loads const& all, std::function<bool(client const&)> const& holds) {
    return wait_until(
        [&] {
            return std::all_of(all.begin(), all.end(),
                               [&](auto const& load) { return holds(load->locks()); });
        },
        15s);
}

std::size_t count_of(client const& c, instance_state state) {
    auto const all = c.instances();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](auto const& s) { return s.state == state; }));
}

/// Three clients work; one more holds a lease on one of their keys over each crash, and does not
/// renew it.
struct scenario {
    scenario(std::vector<std::string> const& disk, restart_policy how,
             std::chrono::milliseconds longest)
        : servers(5, {.arguments = disk})
        , options(guarded(how, longest))
        , holder(servers, options) {
        for (int i = 0; i < 3; ++i) {
            working.push_back(std::make_unique<load>(servers, options,
                                                     std::vector<std::string>{"a", "b"}, judge));
        }
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(all_go_on(working, 3));
    }
    ~scenario() {
        for (auto const& load : working) load->stop();
    }

    fleet servers;
    client_options options;
    referee judge;
    test_client holder;
    loads working;
};

} // namespace

BOOST_AUTO_TEST_SUITE(restart_load)

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_whichever_instances_crash) {
    for (auto const& disk : {no_log, fsync_everysec, fsync_always}) {
        auto const forgets = disk != fsync_always;
        // Instances that remember keep the lease over the crash; with the others the test waits for
        // its end.
        auto const longest =
            forgets ? std::chrono::milliseconds(2s) : std::chrono::milliseconds(60s);
        BOOST_TEST_CONTEXT((disk.empty() ? "no persistence" : disk.back())) {
            scenario s(disk, restart_policy::observed, longest);
            for (std::size_t const n : {1U, 2U, 3U}) {
                BOOST_TEST_CONTEXT(n << " of five") {
                    auto const failed = failures_of(s.working);
                    auto l = s.holder.hold("a", unwatched(longest));
                    s.judge.begins("a", l);
                    auto const before = connections_of(s.holder);
                    crash(s.servers, the_first(n), {});
                    if (forgets) {
                        BOOST_TEST(each(s.working, [&](client const& c) {
                            return count_of(c, instance_state::quarantined) == n;
                        }));
                    }
                    // Leases of the other key, at least. A minority causes no failure.
                    BOOST_TEST(all_go_on(s.working, 5));
                    BOOST_TEST((n > 2 || failures_of(s.working) == failed));
                    BOOST_REQUIRE(is_back(s.holder, before, the_first(n)));
                    BOOST_TEST(each(s.working, [](client const& c) {
                        return count_of(c, instance_state::up) == 5;
                    }));
                    BOOST_TEST(s.holder.all_up());
                    if (forgets) s.holder.pass(l.deadline());
                    s.judge.ends("a", l);
                    if (!forgets) BOOST_TEST(s.holder.releases(l));
                    BOOST_TEST(all_go_on(s.working, 10));
                }
            }
            for (auto const& load : s.working) {
                BOOST_TEST(load->stop());
                BOOST_TEST(load->surprises() == 0U);
                if (!forgets) BOOST_TEST(were_always_trusted(load->locks()));
            }
            BOOST_TEST(s.judge.overlaps() == 0U);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_same_load_without_the_guard_shows_two_holders) {
    scenario s(no_log, restart_policy::off, 60s);
    auto l = s.holder.hold("a", unwatched(60s));
    s.judge.begins("a", l);
    BOOST_TEST(s.judge.overlaps() == 0U);
    crash(s.servers, the_first(3), {&s.holder});
    BOOST_TEST(wait_until([&] { return s.judge.overlaps() > 0; }, 15s));
    BOOST_TEST(l.held());
    s.judge.ends("a", l);
    BOOST_TEST(s.holder.release(l).code().failed()); // lost, as a majority has it no longer
}

BOOST_AUTO_TEST_SUITE_END()
