// A client in a thread of its own that uses all calls, and holds each against its bound.
#ifndef HOLDFAST_TEST_CAMPAIGN_WORKER_HPP
#define HOLDFAST_TEST_CAMPAIGN_WORKER_HPP

#include <holdfast/client.hpp>

#include "campaign/judge.hpp"
#include "campaign/results.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace holdfast::campaign {

namespace asio = boost::asio;

inline constexpr milliseconds ttl{1'500};
inline constexpr milliseconds instance_timeout{500};
/// Beyond a bound, and beyond the pauses of the machine: what the scheduler of a busy machine adds.
inline constexpr milliseconds slack{400};

/// What the clients do.
struct plan {
    std::set<std::string> kinds;            ///< of locks
    std::vector<std::string> moving_keys{}; ///< more keys, for plain locks, fences and fair ones
    bool guards_restarts = true;
    bool judges_times = true;
};

/// The claims of a lease. They end with this object, also if a call throws: they refer to the
/// lease.
class claims_of_lease {
public:
    explicit claims_of_lease(judge& of)
        : judge_(of) {}
    ~claims_of_lease() { end(); }
    claims_of_lease(claims_of_lease const&) = delete;
    claims_of_lease& operator=(claims_of_lease const&) = delete;

    /// One for each key. Adds what is wrong to the findings.
    void begin(lock const& on, lease const& l, std::vector<std::string>& findings) {
        for (auto const key : l.keys()) {
            all_.push_back(judge_.begins({.key = std::string(key),
                                          .how = on.access(),
                                          .slot = l.slot().value_or(0),
                                          .permits = on.permits(),
                                          .fence = l.fence(),
                                          .held = [&l] { return l.held(); }},
                                         findings));
        }
    }
    void become_readers() {
        for (auto const& each : all_) judge_.becomes_reader(each);
    }
    void end() {
        for (auto const& each : all_) judge_.ends(each);
        all_.clear();
    }

private:
    judge& judge_;
    std::vector<judge::ticket> all_;
};

/// A lock that some coroutines of a client work with.
struct task {
    lock on;
    unsigned coroutines = 2;
};

class worker {
public:
    worker(std::vector<address> const& addresses, plan const& p, unsigned seed, judge& judges,
           record& results)
        : random_(seed)
        , locks_(context_.get_executor(), addresses, options(p))
        , judge_(judges)
        , results_(results) {
        asio::co_spawn(context_, note_pauses(), asio::detached);
        for (auto const& t : tasks_of(p)) {
            for (unsigned i = 0; i < t.coroutines; ++i) {
                ++running_;
                asio::co_spawn(context_, work(t.on), [this](std::exception_ptr e) {
                    if (e) note_thrown(e);
                    --running_;
                });
            }
        }
        thread_ = std::jthread([this] {
            auto const guard = asio::make_work_guard(context_);
            context_.run();
        });
    }
    ~worker() { stop(); }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;

    /// Lets the coroutines end, and drains and shuts down the client, each within its bound.
    void stop() {
        stopping_ = true;
        if (!thread_.joinable()) return;
        if (!test::wait_until([&] { return running_ == 0; }, 60s))
            results_.wrong("a call has not ended after 60 s");
        end("drain", instance_timeout * 4 + ttl,
            [this](auto done) { locks_.drain(ttl, [done](auto const&...) { *done = true; }); });
        end("shutdown", instance_timeout * 4,
            [this](auto done) { locks_.shutdown([done](auto const&...) { *done = true; }); });
        context_.stop();
        thread_.join();
    }

private:
    using flag = std::shared_ptr<std::atomic<bool>>;
    static constexpr auto quietly = asio::as_tuple(asio::deferred);

    static client_options options(plan const& p) {
        return {.max_ttl = 2s,
                .instance_timeout = instance_timeout,
                .connect_timeout = instance_timeout,
                .max_reconnect_delay = 100ms,
                .on_restart =
                    p.guards_restarts ? client_options{}.on_restart : restart_policy::off};
    }

    std::vector<task> tasks_of(plan const& p) {
        std::vector<task> all;
        lock_options const plain{.ttl = ttl}, fenced{.ttl = ttl, .fencing = true};
        if (p.kinds.contains("lock")) {
            auto keys = p.moving_keys;
            for (std::string const kind : {"plain", "fenced", "fair"})
                for (int i = 0; i < 3; ++i) keys.push_back(kind + std::to_string(i));
            for (auto const& key : keys) {
                all.push_back({locks_.make_lock(key, {.ttl = ttl,
                                                      .fencing = key.starts_with("fenced"),
                                                      .fair = key.starts_with("fair")}),
                               3});
            }
        }
        if (p.kinds.contains("multi")) {
            std::vector<std::vector<std::string>> const sets{
                {"multi0", "multi1"}, {"multi2", "multi1"}, {"multi0", "multi2", "multi3"}};
            for (auto const& keys : sets) {
                all.push_back({locks_.make_multi_lock(keys, plain), 1});
                all.push_back({locks_.make_multi_lock(keys, fenced), 1});
            }
            all.push_back({locks_.make_lock("multi1", fenced), 1});
        }
        if (p.kinds.contains("read-write")) {
            for (auto const fences : {false, true}) {
                auto const both = locks_.make_read_write_lock(fences ? "page-fenced" : "page",
                                                              fences ? fenced : plain);
                all.push_back({both.read(), 4});
                all.push_back({both.write(), 1});
            }
        }
        if (p.kinds.contains("semaphore")) {
            all.push_back({locks_.make_semaphore("workers", 3, plain), 3});
            all.push_back({locks_.make_semaphore("workers-fenced", 2, fenced), 3});
        }
        return all;
    }

    void end(std::string_view name, milliseconds bound, std::function<void(flag)> const& begin) {
        auto const done = std::make_shared<std::atomic<bool>>(false);
        auto const began = clock_type::now();
        asio::post(context_, [&] { begin(done); });
        if (!test::wait_until([&] { return done->load(); }, 30s))
            results_.wrong(std::string(name) + " has not ended after 30 s");
        results_.call(name, since(began), bound + slack + lately_paused(), error());
    }

    void note_thrown(std::exception_ptr const& e) {
        try {
            std::rethrow_exception(e);
        } catch (std::exception const& thrown) {
            results_.wrong(std::string("a call threw: ") + thrown.what());
        }
    }

    /// Notes for how long this thread does not run. The note of a pause shrinks to a third in 20 s.
    asio::awaitable<void> note_pauses() {
        asio::steady_timer timer(context_);
        while (!stopping_) {
            auto const due = clock_type::now() + 5ms;
            timer.expires_at(due);
            co_await timer.async_wait(quietly);
            auto const late = clock_type::now() - due;
            pause_ = std::max<clock_type::duration>(pause_.load() - pause_.load() / 4'000, late);
            results_.paused(std::chrono::duration_cast<milliseconds>(late));
        }
    }

    /// The longest time for which this thread has not run lately.
    milliseconds lately_paused() const { return std::chrono::ceil<milliseconds>(pause_.load()); }

    unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

    asio::awaitable<void> work(lock on) {
        asio::steady_timer timer(context_);
        // A set may need a try for each key, and a permit a second round.
        auto const more = on.access() == lock_access::exclusive && on.keys().size() == 1
                              ? 0ms
                              : 2 * instance_timeout;
        while (!stopping_) {
            milliseconds const limit(100 + draw(2'000));
            auto const began = clock_type::now();
            error e;
            lease l;
            std::string_view name;
            milliseconds bound;
            switch (draw(3)) {
            case 0: {
                // A round, and the question for the reason.
                name = "try_acquire";
                bound = 4 * instance_timeout + ttl / 3 + more;
                auto acquired = co_await on.try_acquire(quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                break;
            }
            case 1: {
                name = "try_acquire_for";
                bound = limit + 2 * instance_timeout + more;
                auto acquired = co_await on.try_acquire_for(limit, quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                break;
            }
            default: {
                name = "acquire, cancelled";
                bound = limit;
                auto const limited = asio::cancel_after(limit, quietly);
                auto acquired = co_await on.acquire(limited);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
            }
            }
            results_.call(name, since(began), bound + slack + lately_paused(), e);
            if (e) {
                timer.expires_after(milliseconds(2 + draw(40)));
                co_await timer.async_wait(quietly);
                continue;
            }
            results_.granted();
            claims_of_lease claims(judge_);
            std::vector<std::string> findings;
            claims.begin(on, l, findings);
            for (auto& each : findings) results_.wrong(std::move(each));
            co_await hold(on, l, claims, timer);
            if (!l.held()) results_.lost();
            claims.end();
            if (!l) continue; // it could not be adopted
            auto const released = clock_type::now();
            co_await l.release();
            results_.call("release", since(released),
                          2 * instance_timeout + slack + lately_paused(), error());
        }
    }

    /// For a moment, or beyond several renewals, or with another call in between.
    asio::awaitable<void> hold(lock const& on, lease& l, claims_of_lease& claims,
                               asio::steady_timer& timer) {
        auto const how = draw(20);
        timer.expires_after(how == 0 ? milliseconds(2'000) : milliseconds(1 + draw(10)));
        co_await timer.async_wait(quietly);
        if (!l.held()) co_return;
        auto const began = clock_type::now();
        if (how == 1) {
            milliseconds const other(draw(2) == 0 ? 500 : 2'000);
            auto extended = co_await l.extend(other, quietly);
            results_.call("extend", since(began), 2 * instance_timeout + slack + lately_paused(),
                          std::get<0>(extended));
        } else if (how == 2 && on.access() != lock_access::read) { // N43
            auto const token = l.token();
            l.detach();
            auto adopted = co_await locks_.adopt(on, token, quietly);
            results_.call("adopt", since(began), 2 * instance_timeout + slack + lately_paused(),
                          std::get<0>(adopted));
            l = std::move(std::get<1>(adopted));
        } else if (how < 8 && on.access() == lock_access::write) {
            claims.become_readers();
            auto downgraded = co_await l.downgrade(quietly);
            results_.call("downgrade", since(began), 2 * instance_timeout + slack + lately_paused(),
                          std::get<0>(downgraded));
        }
    }

    std::mt19937 random_;
    asio::io_context context_{1};
    client locks_;
    judge& judge_;
    record& results_;
    std::atomic<clock_type::duration> pause_{clock_type::duration::zero()};
    std::atomic<bool> stopping_{false};
    std::atomic<int> running_{0};
    std::jthread thread_;
};

} // namespace holdfast::campaign

#endif
