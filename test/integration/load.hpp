// Clients that work in threads of their own, and a referee that looks for two holders of one lock.
#ifndef HOLDFAST_TEST_INTEGRATION_LOAD_HPP
#define HOLDFAST_TEST_INTEGRATION_LOAD_HPP

#include <holdfast/client.hpp>

#include "integration/referee.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::test {

namespace asio = boost::asio;

/// A client in a thread of its own. Its coroutines take locks and release them until it is stopped.
class load {
public:
    load(std::vector<address> const& addresses, client_options const& options,
         std::vector<std::string> const& keys, referee& judge,
         std::vector<std::string> const& fenced_keys = {})
        : locks_(context_.get_executor(), addresses, options)
        , judge_(judge) {
        for (auto const& key : keys) contend(key, false);
        for (auto const& key : fenced_keys) contend(key, true);
        thread_ = std::jthread([this] { context_.run(); });
    }
    ~load() { stop(); }
    load(load const&) = delete;
    load& operator=(load const&) = delete;

    /// Each coroutine gets its lease first.
    bool stop() {
        stopping_ = true;
        if (!thread_.joinable()) return true;
        auto const ended = wait_until([&] { return running_ == 0; }, std::chrono::seconds(20));
        if (!ended) context_.stop();
        thread_.join();
        return ended;
    }

    client const& locks() const { return locks_; }
    unsigned grants() const { return grants_; }
    unsigned fenced_grants() const { return fenced_grants_; }
    unsigned failures() const { return failures_; }
    unsigned surprises() const { return surprises_; }

private:
    void contend(std::string const& key, bool fenced) {
        for (int i = 0; i < 3; ++i) {
            ++running_;
            asio::co_spawn(context_, work(key, fenced), [this](std::exception_ptr e) {
                if (e) ++surprises_;
                if (--running_ == 0) context_.stop();
            });
        }
    }

    asio::awaitable<void> work(std::string key, bool fenced) {
        auto const lock = locks_.make_lock(
            key, {.ttl = std::chrono::seconds(1), .fencing = fenced, .handover_limit = 3});
        asio::steady_timer timer(context_);
        while (!stopping_) {
            auto acquired = co_await lock.acquire(asio::as_tuple);
            auto& [e, l] = acquired;
            if (e) {
                ++failures_;
                if (e != error_condition::unavailable) ++surprises_;
                timer.expires_after(std::chrono::milliseconds(5));
            } else {
                judge_.begins(key, l, fenced);
                ++grants_;
                if (fenced) ++fenced_grants_;
                timer.expires_after(std::chrono::milliseconds(1));
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
    std::atomic<unsigned> running_{0}, grants_{0}, fenced_grants_{0}, failures_{0}, surprises_{0};
    std::jthread thread_;
};

using loads = std::vector<std::unique_ptr<load>>;

/// Waits until each of them has got that many leases from now on, by this count.
[[nodiscard]] inline bool all_go_on(loads const& all, unsigned leases,
                                    std::chrono::seconds within = std::chrono::seconds(15),
                                    unsigned (load::*count)() const = &load::grants) {
    std::vector<unsigned> enough;
    for (auto const& load : all) enough.push_back((*load.*count)() + leases);
    return wait_until(
        [&] {
            for (std::size_t i = 0; i < all.size(); ++i) {
                if ((*all[i].*count)() < enough[i]) return false;
            }
            return true;
        },
        within);
}

inline unsigned failures_of(loads const& all) {
    unsigned sum = 0;
    for (auto const& load : all) sum += load->failures();
    return sum;
}

[[nodiscard]] inline bool each(loads const& all, std::function<bool(client const&)> const& holds) {
    return wait_until(
        [&] {
            return std::all_of(all.begin(), all.end(),
                               [&](auto const& load) { return holds(load->locks()); });
        },
        std::chrono::seconds(15));
}

} // namespace holdfast::test

#endif
