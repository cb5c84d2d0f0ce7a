// The process of a client that uses all calls, holds each against its bound, and writes a history.
#ifndef HOLDFAST_TEST_CAMPAIGN_DRIVER_HPP
#define HOLDFAST_TEST_CAMPAIGN_DRIVER_HPP

#include <holdfast/client.hpp>

#include "campaign/history.hpp"
#include "campaign/plan.hpp"
#include "campaign/turns.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace holdfast::campaign {

namespace asio = boost::asio;

/// Shorter pauses are not written down.
inline constexpr milliseconds noted_pause{20};

/// A lock that some coroutines of a client work with.
struct task {
    lock on;
    unsigned coroutines = 2;
    bool takes_turns = false; ///< see turns_prefix
};

/// A lease in the hands of another process: a line of text. `place`: of its lock in the list of
/// tasks, which is the same in all processes.
struct handed_lease {
    std::size_t place = 0;
    lease_token token;
    moment until{}; ///< it lasts

    std::string text() const {
        std::ostringstream out;
        out << place << ' ' << token.value << ' ' << token.fence << ' '
            << (token.slot ? static_cast<int>(*token.slot) : -1) << ' ' << token.shared << ' '
            << until.count();
        return out.str();
    }
    static handed_lease of(std::istream& in) {
        handed_lease l;
        int slot = -1;
        std::int64_t until = 0;
        in >> l.place >> l.token.value >> l.token.fence >> slot >> l.token.shared >> until;
        if (!in) throw std::runtime_error("no lease");
        if (slot >= 0) l.token.slot = static_cast<unsigned>(slot);
        l.until = moment(until);
        return l;
    }
};

/// Its input is lines: `take` and a lease, `fork`, `keep` and `stop`. It prints `give` and a lease
/// that another process may take. To `keep` it answers `kept`, and gives none any more.
class driver {
public:
    driver(plan const& p, unsigned seed, std::string const& history)
        : random_(seed)
        , judges_times_(p.judges_times)
        , history_(history)
        , locks_(context_.get_executor(), addresses(p), options(p))
        , tasks_(tasks_of(p)) {}

    void run() {
        ::signal(SIGCHLD, SIG_IGN); // nobody waits for the child of a fork
        asio::co_spawn(context_, note_pauses(), asio::detached);
        asio::co_spawn(context_, note_usage(), asio::detached);
        for (std::size_t place = 0; place < tasks_.size(); ++place)
            for (unsigned i = 0; i < tasks_[place].coroutines; ++i)
                start(tasks_[place].takes_turns ? take_turns(place) : work(place));
        asio::co_spawn(context_, take_orders(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context_.run();
    }

private:
    static constexpr auto quietly = asio::as_tuple(asio::deferred);

    /// The clients read the password of single servers again for each connection.
    static std::vector<address> addresses(plan const& p) {
        std::vector<address> all;
        for (auto const& text : p.instances) {
            auto& next = all.emplace_back(text);
            if (next.deployment() != deployment::server) continue;
            auto parts = next.parts();
            parts.credentials_source = [user = parts.credentials.user,
                                        file = p.password_file](credentials_reply const& reply) {
                std::string password;
                std::getline(std::ifstream(file), password);
                reply({}, {.user = user, .password = password});
            };
            parts.credentials = {};
            next = parts;
        }
        return all;
    }
    static client_options options(plan const& p) {
        return {.max_ttl = longest_ttl,
                .instance_timeout = instance_timeout,
                .connect_timeout = instance_timeout,
                .max_reconnect_delay = 100ms,
                .on_restart = p.without_guard == "restarts" ? restart_policy::off
                                                            : client_options{}.on_restart};
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
        if (p.kinds.contains("turns")) {
            for (int i = 0; i < 6; ++i) {
                auto const key = std::string(turns_prefix) + std::to_string(i);
                all.push_back(
                    {locks_.make_lock(key, {.ttl = ttl, .fair = p.without_guard != "turns"}), 1,
                     true});
            }
        }
        if (p.kinds.contains("multi")) {
            for (auto const& keys : key_sets) {
                all.push_back({locks_.make_multi_lock(keys, plain), 1});
                all.push_back({locks_.make_multi_lock(keys, fenced), 1});
            }
            all.push_back({locks_.make_lock(key_with_own_lock, fenced), 1});
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

    void start(asio::awaitable<void> what) {
        ++running_;
        asio::co_spawn(context_, std::move(what), [this](std::exception_ptr e) {
            if (e) note_thrown(e);
            --running_;
        });
    }
    void note_thrown(std::exception_ptr const& e) {
        try {
            std::rethrow_exception(e);
        } catch (std::exception const& thrown) {
            history_.wrong(std::string("a call threw: ") + thrown.what());
        }
    }

    void note_call(std::string_view name, clock_type::time_point began, milliseconds bound,
                   error const& e = {}) {
        auto const took = since(began);
        history_.call(name, took, e);
        bound += slack + lately_paused();
        if (took <= bound || !judges_times_) return;
        std::ostringstream text;
        text << name << " took " << took.count() << " ms, its bound is " << bound.count()
             << " ms; it ended with: " << e.what();
        history_.wrong(text.str());
    }

    /// Notes for how long this process does not run. The note of a pause shrinks to a third in
    /// 20 s.
    asio::awaitable<void> note_pauses() {
        asio::steady_timer timer(context_);
        while (!stopped_) {
            due_ = clock_type::now() + 5ms;
            timer.expires_at(due_);
            co_await timer.async_wait(quietly);
            auto const late = clock_type::now() - due_;
            pause_ = std::max<clock_type::duration>(pause_ - pause_ / 4'000, late);
            if (late >= noted_pause) history_.paused(std::chrono::ceil<moment>(late));
        }
    }
    /// The longest time for which this process has not run lately. After a pause, handlers of
    /// replies may run before the timer's.
    milliseconds lately_paused() const {
        return std::chrono::ceil<milliseconds>(std::max(pause_, clock_type::now() - due_));
    }

    /// For how long this process has used processors.
    static milliseconds computed() {
        rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        return milliseconds((used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000 +
                            (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1'000);
    }
    /// Looks now and then at what this process uses.
    asio::awaitable<void> note_usage() {
        asio::steady_timer timer(context_);
        while (!stopped_) {
            timer.expires_after(2s);
            co_await timer.async_wait(quietly);
            std::uint64_t size = 0, resident = 0;
            std::ifstream("/proc/self/statm") >> size >> resident;
            // In ns; both stay 0 where the kernel does not tell: its Documentation/scheduler.
            std::int64_t ran = 0, waited = 0;
            std::ifstream("/proc/self/schedstat") >> ran >> waited;
            history_.uses(resident * static_cast<std::uint64_t>(::getpagesize()) / 1'024,
                          computed(), milliseconds(waited / 1'000'000));
        }
    }
    /// The child keeps copies of all connections open for a while, and ends.
    void fork() {
        context_.notify_fork(asio::execution_context::fork_prepare);
        auto const child = ::fork();
        if (child == 0) {
            ::sleep(2);
            ::_exit(0);
        }
        context_.notify_fork(asio::execution_context::fork_parent);
        if (child < 0) history_.wrong("there is no fork");
    }

    asio::awaitable<void> take_orders() {
        asio::posix::stream_descriptor in(context_, ::dup(STDIN_FILENO));
        std::string said;
        for (;;) {
            auto const got =
                co_await asio::async_read_until(in, asio::dynamic_buffer(said), '\n', quietly);
            if (std::get<0>(got)) break;
            std::istringstream line(said.substr(0, std::get<1>(got)));
            said.erase(0, std::get<1>(got));
            std::string order;
            line >> order;
            if (order == "stop") break;
            if (order == "fork") {
                fork();
            } else if (order == "keep") {
                gives_ = false;
                std::cout << "kept" << std::endl;
            } else {
                start(take(handed_lease::of(line)));
            }
        }
        co_await stop();
    }
    /// Lets the coroutines end, and drains and shuts down the client, each within its bound.
    asio::awaitable<void> stop() {
        stopping_ = true;
        asio::steady_timer timer(context_);
        auto const began = clock_type::now();
        while (running_ > 0) {
            if (clock_type::now() - began > 60s) {
                history_.wrong("a call has not ended after 60 s");
                break;
            }
            timer.expires_after(20ms);
            co_await timer.async_wait(quietly);
        }
        auto const drains = clock_type::now();
        co_await locks_.drain(ttl, quietly);
        note_call("drain", drains, instance_timeout * 4 + ttl);
        auto const shuts_down = clock_type::now();
        co_await locks_.shutdown(quietly);
        note_call("shutdown", shuts_down, instance_timeout * 4);
        history_.computed(computed());
        stopped_ = true;
    }

    unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

    asio::awaitable<void> work(std::size_t place) {
        auto const on = tasks_[place].on;
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
            auto const how = draw(3);
            switch (how) {
            case 0: {
                auto acquired = co_await on.try_acquire(quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                // A round, and the question for the reason.
                note_call("try_acquire", began, 4 * instance_timeout + ttl / 3 + more, e);
                break;
            }
            case 1: {
                auto acquired = co_await on.try_acquire_for(limit, quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                note_call("try_acquire_for", began, limit + 2 * instance_timeout + more, e);
                break;
            }
            default: {
                auto const limited = asio::cancel_after(limit, quietly);
                auto acquired = co_await on.acquire(limited);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                note_call("cancelled_acquire", began, limit, e);
            }
            }
            if (e) {
                timer.expires_after(milliseconds(2 + draw(40)));
                co_await timer.async_wait(quietly);
                continue;
            }
            auto used = use(place, std::move(l), {.asked = began, .waited = how != 0});
            co_await std::move(used);
        }
    }
    /// Waits without a limit, and holds the lease for so long that all others wait too.
    asio::awaitable<void> take_turns(std::size_t place) {
        auto const on = tasks_[place].on;
        asio::steady_timer timer(context_);
        while (!stopping_) {
            auto const began = clock_type::now();
            auto acquired = co_await on.acquire(quietly);
            auto const e = std::get<0>(acquired);
            auto l = std::move(std::get<1>(acquired));
            history_.call("acquire", since(began), e);
            auto const id = e ? 0 : history_.begins(on, l, {.asked = began, .waited = true});
            timer.expires_after(milliseconds(200 + draw(400)));
            co_await timer.async_wait(quietly);
            if (e) continue;
            history_.looks(id, l);
            if (!l.held()) history_.lost();
            auto const released = clock_type::now();
            co_await l.release();
            note_call("release", released, 2 * instance_timeout);
            timer.expires_after(milliseconds(draw(400)));
            co_await timer.async_wait(quietly);
        }
    }
    /// A lease that another process had.
    asio::awaitable<void> take(handed_lease from) {
        auto const& on = tasks_.at(from.place).on;
        auto const too_late = draw(4) == 0; // somebody else has the key then
        if (too_late) {
            asio::steady_timer timer(context_, longest_ttl + milliseconds(draw(500)));
            co_await timer.async_wait(quietly);
            if (stopping_) co_return;
        }
        auto const began = clock_type::now();
        auto adopted = co_await locks_.adopt(on, from.token, quietly);
        auto const e = std::get<0>(adopted);
        note_call("adopt", began, 2 * instance_timeout, e);
        auto const ended = at(clock_type::now());
        if (e == errc::contended && ended < from.until)
            history_.refused(began, on.key(), from.until - ended);
        if (e) co_return;
        auto used =
            use(from.place, std::move(std::get<1>(adopted)), {.asked = began, .adopted = true});
        co_await std::move(used);
    }

    /// Holds the lease, and gives it up.
    asio::awaitable<void> use(std::size_t place, lease l, origin from) {
        auto const& on = tasks_[place].on;
        auto const id = history_.begins(on, l, from);
        auto const reads = co_await hold(on, l, id);
        history_.looks(id, l);
        if (!l.held()) history_.lost();
        if (l.held() && gives_ && !stopping_ && draw(20) == 0) {
            auto const left = l.deadline() - lease_clock::now();
            handed_lease const given{.place = reads ? place - 1 : place,
                                     .token = l.token(),
                                     .until = at(clock_type::now() + left)};
            l.detach();
            std::cout << "give " << given.text() << std::endl;
            if (!std::cout) history_.wrong("a lease cannot be given away");
            co_return;
        }
        auto const released = clock_type::now();
        co_await l.release();
        note_call("release", released, 2 * instance_timeout);
    }

    /// For a moment, or beyond several renewals, or with another call in between. True if a writer
    /// only reads now: it has the lock that stands before its own.
    asio::awaitable<bool> hold(lock const& on, lease& l, std::uint64_t id) {
        asio::steady_timer timer(context_);
        auto const how = draw(20);
        for (auto left = how == 0 ? milliseconds(2'000) : milliseconds(1 + draw(10)); left > 0ms;
             left -= 40ms) {
            timer.expires_after(std::min(left, 40ms));
            co_await timer.async_wait(quietly);
            history_.looks(id, l);
        }
        auto reads = false;
        if (!l.held()) co_return reads;
        auto const began = clock_type::now();
        if (how == 1) {
            milliseconds const other(draw(2) == 0 ? 500 : 2'000);
            auto extended = co_await l.extend(other, quietly);
            note_call("extend", began, 2 * instance_timeout, std::get<0>(extended));
        } else if (how < 8 && on.access() == lock_access::write) {
            reads = true;
            history_.reads(id);
            auto downgraded = co_await l.downgrade(quietly);
            note_call("downgrade", began, 2 * instance_timeout, std::get<0>(downgraded));
        }
        co_return reads;
    }

    std::mt19937 random_;
    bool const judges_times_;
    history_file history_;
    asio::io_context context_{1};
    client locks_;
    std::vector<task> tasks_;
    clock_type::time_point due_ = clock_type::now();
    clock_type::duration pause_{};
    bool gives_ = true, stopping_ = false, stopped_ = false;
    int running_ = 0;
};

} // namespace holdfast::campaign

#endif
