// Clients that work on a Cluster under load while its nodes change.
#ifndef HOLDFAST_TEST_INTEGRATION_CLUSTER_LOAD_HPP
#define HOLDFAST_TEST_INTEGRATION_CLUSTER_LOAD_HPP

#include <holdfast/client.hpp>

#include "integration/kinds.hpp"
#include "integration/referee.hpp"
#include "integration/test_client.hpp"
#include "support/cluster_group.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::test {

/// The nodes that run have refused nothing. Those that were killed have told theirs before: see
/// integration/acl_log.cpp.
inline void check_no_refusals(cluster_group& cluster) {
    for (std::size_t i = 0; i < cluster.size(); ++i) {
        if (!cluster.node(i).running() || cluster.node(i).frozen()) continue;
        for (auto const& text : cluster.node(i).refusals())
            BOOST_ERROR("node " << i << " refused the library: " << text);
    }
}

template <class Test>
void on_clusters(Test test, cluster_group_options options = {}) {
    on_oldest_and_newest([&](server_kind const& kind) {
        options.kind = kind;
        cluster_group cluster(options);
        test(cluster);
        check_no_refusals(cluster);
    });
}

inline std::vector<address> address_of(cluster_group const& cluster) {
    return {address(cluster.url())};
}

/// The locks of all nodes that run, and are primaries. A lock is every key but the counter of a
/// fence.
inline std::vector<std::string> locks_on(cluster_group& cluster) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < cluster.size(); ++i) {
        if (!cluster.node(i).running() || cluster.node(i).frozen()) continue;
        if (cluster.role(i) != "master") continue;
        auto cli = cluster.cli(i);
        for (auto const& name : lock_names(cli)) {
            all.push_back(name + " on node " + std::to_string(i));
        }
    }
    return all;
}

inline void check_no_locks(cluster_group& cluster) {
    std::vector<std::string> left;
    auto const gone = wait_until([&] { return (left = locks_on(cluster)).empty(); });
    BOOST_TEST(gone, (left.empty() ? std::string() : left.front()));
}

inline std::size_t replica_of(cluster_group& cluster, std::size_t primary) {
    auto const all = cluster.replicas_of(primary);
    BOOST_REQUIRE(!all.empty());
    return all.front();
}

/// A replica that has just lost its link refuses until the link is back.
inline void begin_failover(cluster_group& cluster, std::size_t to, cluster_group::takeover how) {
    BOOST_TEST_REQUIRE(wait_until(
        [&] {
            try {
                cluster.begin_failover(to, how);
                return true;
            } catch (cli_error const&) {
                return false;
            }
        },
        std::chrono::seconds(20)));
}

inline void fail_over(cluster_group& cluster,
                      cluster_group::takeover how = cluster_group::takeover::planned) {
    auto const slot = cluster.slot_of(cluster.key_on(0));
    auto const to = replica_of(cluster, 0);
    begin_failover(cluster, to, how);
    cluster.wait_for_owner(slot, to);
}

struct load_options {
    std::vector<std::string> keys;
    lock_options lock{.ttl = std::chrono::seconds(2), .handover_limit = 3};
    client_options client{};
    int coroutines = 2; ///< for each key
    /// Of an acquire. Zero: none. Those that end by it leave grants under way. It grows until there
    /// is a grant, on a slow machine too.
    std::chrono::microseconds limit{0};
    std::chrono::milliseconds held{1}, pause{5}; ///< pause: after a failure
};

/// A client in a thread of its own. Its coroutines take locks and release them until it is stopped.
class cluster_load {
public:
    cluster_load(std::vector<address> const& addresses, load_options options, referee& judge)
        : options_(std::move(options))
        , locks_(context_.get_executor(), addresses, options_.client)
        , judge_(judge) {
        for (auto const& key : options_.keys) {
            for (int i = 0; i < options_.coroutines; ++i) {
                ++running_;
                asio::co_spawn(context_, work(key), [this](std::exception_ptr e) {
                    if (e) fail("an exception");
                    --running_;
                });
            }
        }
        thread_ = std::jthread([this] {
            auto const guard = asio::make_work_guard(context_);
            context_.run();
        });
    }
    ~cluster_load() { stop(); }
    cluster_load(cluster_load const&) = delete;
    cluster_load& operator=(cluster_load const&) = delete;

    /// Lets each coroutine end, and shuts the client down. False if that took too long.
    bool stop() {
        stopping_ = true;
        if (!thread_.joinable()) return true;
        auto const ended = wait_until([&] { return running_ == 0; }, std::chrono::seconds(30));
        std::atomic<bool> down{false};
        if (ended) locks_.shutdown([&](error) { down = true; });
        auto const shut =
            ended && wait_until([&] { return down.load(); }, std::chrono::seconds(20));
        context_.stop();
        thread_.join();
        return shut;
    }

    client const& locks() const { return locks_; }
    unsigned grants() const { return grants_; }
    unsigned failures() const { return failures_; }
    unsigned lost() const { return lost_; }
    /// The longest time that an acquire took and succeeded.
    std::chrono::milliseconds slowest() const { return std::chrono::milliseconds(slowest_.load()); }
    std::string first_failure() const {
        std::lock_guard const lock(mutex_);
        return first_failure_;
    }
    /// Waits until there are so many more grants.
    [[nodiscard]] bool gets(unsigned more, std::chrono::seconds within = std::chrono::seconds(30)) {
        auto const before = grants();
        return wait_until([&] { return grants() >= before + more; }, within);
    }

private:
    using clock = std::chrono::steady_clock;

    void fail(std::string const& how) {
        std::lock_guard const lock(mutex_);
        ++failures_;
        if (first_failure_.empty()) first_failure_ = how;
    }

    asio::awaitable<void> work(std::string key) {
        auto const lock = locks_.make_lock(key, options_.lock);
        auto const fenced = options_.lock.fencing;
        asio::steady_timer timer(context_);
        auto const quietly = asio::as_tuple(asio::deferred);
        auto limit = options_.limit;
        while (!stopping_) {
            auto const began = clock::now();
            error e;
            lease l;
            if (limit > limit.zero()) {
                auto const limited = asio::cancel_after(limit, quietly);
                auto acquired = co_await lock.acquire(limited);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
            } else {
                auto acquired = co_await lock.acquire(quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
            }
            if (e) {
                if (!(e == errc::cancelled)) fail(e.what());
                limit += limit / 2;
                timer.expires_after(options_.pause);
                co_await timer.async_wait(quietly);
                continue;
            }
            auto const took =
                std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began).count();
            if (took > slowest_) slowest_ = took;
            judge_.begins(key, l, fenced);
            ++grants_;
            limit = options_.limit;
            timer.expires_after(options_.held);
            co_await timer.async_wait(quietly);
            if (!l.held()) ++lost_;
            judge_.ends(key, l);
            co_await l.release();
        }
    }

    load_options const options_;
    asio::io_context context_;
    client locks_;
    referee& judge_;
    mutable std::mutex mutex_;
    std::string first_failure_;
    std::atomic<bool> stopping_{false};
    std::atomic<unsigned> running_{0}, grants_{0}, failures_{0}, lost_{0};
    std::atomic<std::int64_t> slowest_{0};
    std::jthread thread_;
};

} // namespace holdfast::test

#endif
