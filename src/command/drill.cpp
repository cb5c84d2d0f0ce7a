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
#include <tuple>
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
/// A server that is away for so long has been stopped.
constexpr std::chrono::seconds longest_blip{1};
/// For the other servers of a group, or of a Cluster, to take over.
constexpr std::chrono::seconds failover_time{60};
/// A waiter has told the servers by then that it waits.
constexpr milliseconds until_it_waits{200};

/// Ends the drill: what was expected has not happened.
struct drill_failure : std::runtime_error {
    using runtime_error::runtime_error;
};

bool is_intact(instance_status const& s) {
    return s.state == instance_state::up && std::ranges::all_of(s.nodes, is_intact);
}

/// Its server may have forgotten locks. It answers, and has no vote for a while.
bool is_back(instance_status const& s) {
    auto const here = s.state == instance_state::up || s.state == instance_state::quarantined;
    return here && std::ranges::all_of(s.nodes, is_back);
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
        co_await all_are(is_intact);
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
        co_await stops(one, held);
        co_await pause(2 * ttl_);
        require(!is_intact(first_.instances()[which]), name + " is up again too early");
        require(held.held(), "the lease is lost, though a quorum is up: " +
                                 std::string(to_string(held.ended_by())) +
                                 "; this process stood still for up to " +
                                 duration_text(first_.stats().longest_stall));
        passed("the lease goes on", "for twice its ttl, without " + name);
        co_await is_refused();
        co_await held.release();
        co_await one_after_the_other();
        co_await starts(one, is_intact);
    }

    /// The first so many, or what one address stands for: then other servers may take over.
    asio::awaitable<void> without_a_quorum(std::size_t count) {
        std::vector<std::size_t> which(count);
        for (std::size_t i = 0; i < count; ++i) which[i] = i;
        auto held = co_await take(lock_);
        auto const before = first_.instances();
        co_await stops(which, held);
        auto const until = clock::now() + 2 * ttl_ + 4 * timeout_;
        while (held.held() && clock::now() < until) co_await pause(milliseconds(10));
        if (held.held()) {
            require(std::ranges::any_of(which, [&](auto i) { return has_others(before[i]); }),
                    "the lease goes on without a quorum");
            passed("the lease goes on", "other servers have taken over");
        } else {
            require(is_loss(held.ended_by()), "the lease has ended without a loss");
            passed("the holder hears of the loss");
            auto tried = co_await other_lock_.try_acquire(quietly);
            auto const& e = std::get<0>(tried);
            require(!e || e == errc::contended || e == error_condition::unavailable,
                    "an acquire fails with " + e.what());
            passed(e ? "no client gets the lock" : "another client gets the lock",
                   e ? e.code().message() : "other servers have taken over");
            if (!e) co_await std::get<1>(tried).release();
        }
        co_await starts(which, is_back);
        auto const began = clock::now();
        if (held.held()) {
            co_await is_refused();
            co_await held.release();
        }
        auto next = co_await take(other_lock_, failover_time);
        require(!held.held(), "two clients have the lock");
        passed("a client gets the lock again",
               duration_text(clock::now() - began) + " after all servers are back");
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
    asio::awaitable<lease> take(lock which, milliseconds more = milliseconds(0)) {
        auto const limit = max_ttl_ + ttl_ + 4 * timeout_ + more;
        auto acquired = co_await which.try_acquire_for(limit, quietly);
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
    asio::awaitable<void> stops(std::vector<std::size_t> which, lease const& held) {
        auto const before = first_.instances();
        auto const stopped = [this, which, before] {
            for (auto* const c : {&first_, &second_}) {
                auto const now = c->instances();
                for (auto const i : which)
                    if (!has_changed(before[i], now[i])) return false;
            }
            return true;
        };
        auto const stopped_or_lost = [&] { return stopped() || !held.held(); };
        tell("stop  " + names(which, before));
        do {
            co_await wait_for("the servers stop", stopped_or_lost);
            require(stopped(), "the lease is lost, though no server was stopped");
            co_await pause(longest_blip);
        } while (!stopped());
    }
    asio::awaitable<void> starts(std::vector<std::size_t> which,
                                 bool (*are)(instance_status const&)) {
        tell("start " + names(which, first_.instances()));
        co_await all_are(are);
    }
    asio::awaitable<void> all_are(bool (*are)(instance_status const&)) {
        tell("wait  until all servers are up");
        auto const holds = [this, are] {
            return std::ranges::all_of(first_.instances(), are) &&
                   std::ranges::all_of(second_.instances(), are);
        };
        co_await wait_for("all servers are up", holds);
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
                text += "the primary that has the key of ";
            }
            text += s.address;
        }
        return text;
    }
    /// Which may take over.
    static bool has_others(instance_status const& s) {
        return !s.primary.empty() || !s.nodes.empty();
    }

    template <class Condition>
    asio::awaitable<void> wait_for(char const* what, Condition holds) {
        auto const limit = patience + max_ttl_;
        auto const until = clock::now() + limit;
        while (!holds()) {
            require(clock::now() < until, "it has not come to this in " + duration_text(limit) +
                                              ": " + what + problems(first_.instances()));
            co_await pause(milliseconds(20));
        }
    }
    static std::string problems(std::vector<instance_status> const& all) {
        std::string text;
        for (auto const& s : all) {
            if (!is_intact(s)) text += "; " + s.address + " is " + to_string(s.state);
            if (!s.message.empty()) text += ": " + s.message;
        }
        return text;
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
