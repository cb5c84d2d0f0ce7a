// Helpers for the tests of critical sections: results, counted coroutine frames, and a client that
// can be disturbed at any step.
#ifndef HOLDFAST_TEST_INTEGRATION_SECTIONS_HPP
#define HOLDFAST_TEST_INTEGRATION_SECTIONS_HPP

#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include "integration/test_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

// An exception that only the tests use.
struct no_seats {
    int left;
};

inline error_code code_of(std::exception_ptr const& e) {
    if (!e) return {};
    try {
        std::rethrow_exception(e);
    } catch (system_error const& thrown) {
        return thrown.code();
    } catch (...) {
        BOOST_ERROR("this is no system_error");
        return {};
    }
}

inline bool is_cancellation(error_code ec) {
    return ec == boost::system::errc::operation_canceled;
}

// True if a quorum has deleted the key. The release does not wait for the other instances.
inline bool given_back(fleet const& servers, std::string const& key = "k") {
    return copies(servers, key) <= servers.size() - servers.quorum();
}

inline bool is_held(fleet const& servers, std::string const& key = "k") {
    return copies(servers, key) >= servers.quorum();
}

// Counts the frames of coroutines that were entered and left.
struct frames {
    int entered = 0, left = 0;
    bool inside() const { return entered > left; }
};
struct in_frame {
    explicit in_frame(frames& f)
        : all(f) {
        ++all.entered;
    }
    ~in_frame() { ++all.left; }
    in_frame(in_frame const&) = delete;
    in_frame& operator=(in_frame const&) = delete;
    frames& all;
};

// The result of a section with a callback.
struct ending {
    // The handler keeps a pointer to this object.
    auto take() {
        return [this](std::exception_ptr e, int v) {
            done = true;
            thrown = e;
            value = v;
        };
    }
    error_code code() const { return code_of(thrown); }

    bool done = false;
    std::exception_ptr thrown;
    int value = 0;
};

// Waits for a cancellation. Returns true if one came.
inline asio::awaitable<bool> wait_for_signal() {
    asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::seconds(60));
    auto const quietly = asio::as_tuple(asio::deferred);
    auto [ec] = co_await timer.async_wait(quietly);
    co_return ec == asio::error::operation_aborted;
}

// The cleanup of a cancelled coroutine, which takes several handlers. The coroutine must have reset
// its cancellation.
inline asio::awaitable<void> clean_up() {
    for (int i = 0; i < 5; ++i) co_await asio::post(asio::deferred);
}

// A client with one section on "k".
struct trial {
    trial(fleet const& servers, client_options const& o)
        : trial(addresses_of(servers), o) {}
    trial(std::vector<address> addresses, client_options const& o)
        : locks(std::in_place, context.get_executor(), std::move(addresses), o) {
        BOOST_REQUIRE(run_until(context, [&] { return is_up(*locks); }));
        context.restart();
    }
    // Makes the section wait behind another lease. That ends when the section waits.
    void occupy() {
        locks->make_lock("k", long_lived).acquire([this](error e, lease l) {
            if (!e) first = std::move(l);
        });
        BOOST_REQUIRE(run_until(context, [&] { return first.held(); }));
        context.restart();
    }
    template <class Body>
    void start(lock_options const& o, Body const& body) {
        with_lock(locks->make_lock("k", o), body,
                  asio::bind_cancellation_slot(signal.slot(), end.take()));
    }
    // Starts the section in a coroutine that passes on every kind of cancellation.
    template <class Body>
    void start_in_coroutine(lock_options const& o, Body const& body) {
        asio::co_spawn(context, call(o, body),
                       asio::bind_cancellation_slot(signal.slot(), [this](std::exception_ptr e) {
                           end.done = true;
                           end.thrown = e;
                       }));
    }
    // Runs that many handlers. False if the section has ended before.
    [[nodiscard]] bool runs_for(int handlers) {
        for (int i = 0; i < handlers && !end.done; ++i) {
            if (first) {
                if (locks->stats().waiters == 1) first = lease();
            }
            BOOST_REQUIRE(context.run_one_for(std::chrono::seconds(10)) == 1);
        }
        return !end.done;
    }
    [[nodiscard]] bool ends() {
        first = lease();
        return run_until(context, [&] { return end.done; });
    }
    [[nodiscard]] bool idle() {
        return run_until(context, [&] { return test::is_idle(*locks); });
    }
    [[nodiscard]] boost::test_tools::assertion_result sees_no_locks(server const& on) {
        return has_no_locks(on, [this](auto const& none) { return run_until(context, none); });
    }

    std::shared_ptr<int> mark = std::make_shared<int>();
    // The counts outlive this object.
    std::shared_ptr<frames> const calls_seen = std::make_shared<frames>(),
                                  bodies_seen = std::make_shared<frames>();
    frames &calls = *calls_seen, &bodies = *bodies_seen;
    asio::cancellation_signal signal;
    ending end;
    asio::io_context context;
    std::optional<client> locks;
    lease first;

private:
    template <class Body>
    asio::awaitable<void> call(lock_options o, Body body) {
        in_frame const here(calls);
        co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
        end.value = co_await with_lock(locks->make_lock("k", o), body);
    }
};

} // namespace holdfast::test

#endif
