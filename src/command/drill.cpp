#include "command/drill.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/output.hpp"
#include "command/table.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr auto quietly = asio::as_tuple(asio::deferred);

/// How long the operator may take for a step.
constexpr std::chrono::minutes patience{10};
/// A waiter has told the servers by then that it waits.
constexpr milliseconds until_it_waits{200};

/// Ends the drill: what was expected has not happened.
struct drill_failure : std::runtime_error {
    using runtime_error::runtime_error;
};

bool is_intact(instance_status const& s) {
    return s.state == instance_state::up && std::ranges::all_of(s.nodes, is_intact);
}

/// A server is away, or another one has its place.
bool has_changed(instance_status const& before, instance_status const& now) {
    return !is_intact(now) || now.primary != before.primary ||
           !std::ranges::equal(before.nodes, now.nodes, {}, &instance_status::address,
                               &instance_status::address);
}

/// Two clients, as in two programs.
class exercise {
public:
    explicit exercise(doctor_settings const& s)
        : ttl_(s.ttl_ms)
        , timeout_(s.timeout_ms)
        , max_ttl_(s.max_ttl_ms)
        , first_(context_.get_executor(), s.addresses(), s.options())
        , second_(context_.get_executor(), s.addresses(), s.options())
        , lock_(first_.make_lock(s.key, {.ttl = ttl_, .fencing = true}))
        , other_lock_(second_.make_lock(s.key, {.ttl = ttl_, .fencing = true})) {}

    /// Returns the number of checks that have succeeded.
    /// @throws drill_failure
    unsigned run() {
        std::exception_ptr failed;
        asio::co_spawn(context_, take_all_steps(), [&](std::exception_ptr e) {
            failed = e;
            first_.close();
            second_.close();
        });
        context_.run();
        if (failed) std::rethrow_exception(failed);
        return checks_;
    }

private:
    //
    // Steps
    //

    asio::awaitable<void> take_all_steps() {
        co_await all_come_up();
        co_await one_after_the_other();
        auto const count = first_.instances().size();
        if (count > 2) co_await without_a_minority(count - 1);
        co_await without_a_quorum(count / 2 + 1);
    }

    /// The one that waits gets it from the one that has it.
    asio::awaitable<void> one_after_the_other() {
        auto held = co_await take(lock_);
        co_await is_refused();
        auto const waiting = std::make_shared<waiter>();
        other_lock_.acquire([waiting](error e, lease l) {
            waiting->how = std::move(e);
            waiting->held = std::move(l);
            waiting->at = clock::now();
        });
        co_await pause(until_it_waits);
        require(waiting->at == clock::time_point(), "a client that waits has the lock too early");
        auto const fence = held.fence();
        auto const released = clock::now();
        co_await held.release();
        auto const until = released + ttl_ + 4 * timeout_;
        while (waiting->at == clock::time_point() && clock::now() < until)
            co_await pause(milliseconds(1));
        require(waiting->at != clock::time_point(), "a client that waits does not get the lock");
        require(!waiting->how, "a client that waits fails: " + waiting->how.what());
        passed("a client that waits gets the lock",
               duration_text(waiting->at - released) + " after the release");
        require(waiting->held.fence() > fence, "the fence does not grow");
        passed("the fence grows");
        auto extended = co_await waiting->held.extend(quietly);
        auto const& e = std::get<0>(extended);
        require(!e, "an extension fails: " + e.what());
        passed("an extension succeeds");
        co_await waiting->held.release();
    }

    asio::awaitable<void> without_a_minority(std::size_t which) {
        auto held = co_await take(lock_);
        auto const name = first_.instances()[which].address;
        std::vector<std::size_t> const one{which};
        co_await stops(one);
        co_await pause(2 * ttl_);
        require(held.held(), "the lease is lost, though a quorum is up");
        passed("the lease goes on", "for twice its ttl, without " + name);
        co_await is_refused();
        co_await held.release();
        co_await one_after_the_other();
        co_await starts(one);
    }

    /// The first so many, or what one address stands for: then other servers may take over.
    asio::awaitable<void> without_a_quorum(std::size_t count) {
        std::vector<std::size_t> which(count);
        for (std::size_t i = 0; i < count; ++i) which[i] = i;
        auto held = co_await take(lock_);
        co_await stops(which);
        auto const until = clock::now() + 2 * ttl_ + 4 * timeout_;
        while (held.held() && clock::now() < until) co_await pause(milliseconds(10));
        if (held.held()) {
            passed("the lease goes on", "because other servers have taken over");
        } else {
            require(is_loss(held.ended_by()), "the lease has ended without a loss");
            passed("the holder hears of the loss", "by the deadline of its lease");
            auto tried = co_await other_lock_.try_acquire(quietly);
            auto const& e = std::get<0>(tried);
            require(!e || e == errc::contended || e == error_condition::unavailable,
                    "an acquire fails with " + e.what());
            passed(e ? "no client gets the lock" : "another client gets the lock",
                   e ? e.code().message() : "other servers have taken over");
            if (!e) co_await std::get<1>(tried).release();
        }
        co_await starts(which);
        auto const began = clock::now();
        if (held.held()) {
            co_await is_refused();
            co_await held.release();
        }
        auto next = co_await take(other_lock_);
        require(!held.held(), "two clients have the lock");
        passed("a client gets the lock again",
               duration_text(clock::now() - began) + " after all servers are up");
        co_await next.release();
    }

    //
    // Parts of a step
    //

    struct waiter {
        error how;
        lease held;
        clock::time_point at{};
    };

    /// Servers that have restarted have no vote for a while.
    asio::awaitable<lease> take(lock which) {
        auto acquired = co_await which.try_acquire_for(max_ttl_ + ttl_ + 4 * timeout_, quietly);
        auto const& e = std::get<0>(acquired);
        require(!e, "the lock cannot be acquired: " + e.what());
        co_return std::move(std::get<1>(acquired));
    }
    asio::awaitable<void> is_refused() {
        auto tried = co_await other_lock_.try_acquire(quietly);
        auto const& e = std::get<0>(tried);
        require(static_cast<bool>(e), "two clients have the lock");
        require(e == errc::contended, "a client is not refused, but fails: " + e.what());
        passed("a second client is refused");
    }
    asio::awaitable<void> stops(std::vector<std::size_t> which) {
        auto const before = first_.instances();
        tell("stop  " + names(which, before));
        auto const stopped = [this, which, before] {
            for (auto* const c : {&first_, &second_}) {
                auto const now = c->instances();
                for (auto const i : which)
                    if (!has_changed(before[i], now[i])) return false;
            }
            return true;
        };
        co_await wait_for("the servers stop", stopped);
    }
    asio::awaitable<void> starts(std::vector<std::size_t> which) {
        tell("start " + names(which, first_.instances()));
        co_await all_come_up();
    }
    asio::awaitable<void> all_come_up() {
        return wait_for("all servers are up", [this] { return all_intact(); });
    }
    static std::string names(std::vector<std::size_t> const& which,
                             std::vector<instance_status> const& all) {
        std::string text;
        for (auto const i : which) {
            auto const& s = all[i];
            text += text.empty() ? "" : " and ";
            if (!s.primary.empty()) {
                text += "the primary " + s.primary + " of ";
            } else if (!s.nodes.empty()) {
                text += "a primary of ";
            }
            text += s.address;
        }
        return text;
    }
    bool all_intact() const {
        return std::ranges::all_of(first_.instances(), is_intact) &&
               std::ranges::all_of(second_.instances(), is_intact);
    }

    template <class Condition>
    asio::awaitable<void> wait_for(char const* what, Condition holds) {
        auto const until = clock::now() + patience;
        while (!holds()) {
            require(clock::now() < until,
                    std::string("in ten minutes it has not come to this: ") + what);
            co_await pause(milliseconds(20));
        }
    }
    asio::awaitable<void> pause(clock::duration length) {
        asio::steady_timer timer(context_, length);
        co_await timer.async_wait(quietly);
    }

    void passed(std::string const& what, std::string const& more = {}) {
        ++checks_;
        tell("ok    " + what + (more.empty() ? "" : ": " + more));
    }
    static void require(bool holds, std::string const& otherwise) {
        if (!holds) throw drill_failure(otherwise);
    }
    static void tell(std::string const& line) { std::cout << line << std::endl; }

    milliseconds const ttl_, timeout_, max_ttl_;
    asio::io_context context_{1};
    client first_, second_;
    lock lock_, other_lock_;
    unsigned checks_ = 0;
};

} // namespace

int drill(doctor_settings const& s) {
    s.check_ttl(s.ttl_ms);
    if (s.json || !s.writes) throw std::runtime_error("--drill takes locks, and prints no JSON");
    exercise all(s);
    try {
        auto const checks = all.run();
        std::cout << "passed: " << checks << " checks" << std::endl;
    } catch (drill_failure const& e) {
        std::cout << "FAILED: " << printable(e.what()) << std::endl;
        return faults;
    }
    return flush_output() == 0 ? success : faults;
}

} // namespace holdfast::command
