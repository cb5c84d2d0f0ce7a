// One exception is one operation's: whatever allocation fails, the others succeed, no handler is lost and no key
// is left. Its own executable, as it replaces operator new.
#include "integration/party.hpp"
#include "support/failing_new.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

//
// What may fail
//

std::string_view name_of(void* frame) {
    Dl_info info{};
    return dladdr(frame, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname : std::string_view();
}

/// What contains the exceptions of another layer, or of a library, is that one's to test.
enum class layer {
    engine, ///< the engine, and the callers' own
    wire,   ///< src/redis, and the codec
    strand, ///< Asio's, which is lost for ever where it has no memory to run what is posted to it
};

layer layer_of(void* const* frames, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        auto const name = name_of(frames[i]);
        auto const in = [&](std::string_view where) {
            return name.starts_with("_ZN" + std::string(where)) ||
                   name.starts_with("_ZNK" + std::string(where));
        };
        if (in("8holdfast5redis") || in("5boost5redis")) return layer::wire;
        if (in("8holdfast7runtime") || in("8holdfast6detail")) return layer::engine;
        if (name.find("strand_executor_service") != std::string_view::npos) return layer::strand;
    }
    return layer::engine;
}

bool everywhere(void* const*, std::size_t) {
    return true;
}
bool in_the_engine(void* const* frames, std::size_t count) {
    return layer_of(frames, count) == layer::engine;
}

std::string trace() {
    std::string text;
    auto const& f = last_failed_allocation();
    for (std::size_t i = 0; i < std::min<std::size_t>(f.depth, 24); ++i) {
        text += "\n  " + std::string(name_of(f.frames[i]));
    }
    return text;
}

//
// What is done meanwhile
//

void expect(bool as_expected, char const* what) {
    if (!as_expected) throw std::runtime_error(what);
}

using flow = asio::awaitable<void> (*)(lock);

asio::awaitable<void> acquire_and_release(lock key) {
    auto held = co_await key.acquire();
    auto const result = co_await held.release();
    expect(static_cast<bool>(result), "released");
}

asio::awaitable<void> extend(lock key) {
    auto held = co_await key.try_acquire();
    co_await held.extend();
    expect(held.held(), "held");
    auto const result = co_await held.release();
    expect(static_cast<bool>(result), "released");
}

/// Of a call that a flow does not wait for.
struct call {
    asio::cancellation_signal signal;
    error result;
    lease held;
    bool over = false;
};

// Until what is under way in the process has been done.
asio::awaitable<void> until_over(std::shared_ptr<call> c) {
    auto const executor = co_await asio::this_coro::executor;
    for (auto steps = 0; !c->over && steps < 100; ++steps) co_await asio::post(executor, asio::deferred);
    expect(c->over, "over");
}

asio::awaitable<void> hand_over(lock key) {
    auto held = co_await key.acquire();
    auto const next = std::make_shared<call>();
    key.acquire([next](error e, lease l) {
        next->result = std::move(e);
        next->held = std::move(l);
        next->over = true;
    });
    auto const first = co_await held.release();
    expect(static_cast<bool>(first), "released");
    co_await until_over(next);
    expect(next->held.held(), "held");
    auto const second = co_await next->held.release();
    expect(static_cast<bool>(second), "released by the next");
}

asio::awaitable<void> find_it_taken(lock key) {
    auto const held = co_await key.acquire();
    auto const result = co_await key.try_acquire(asio::as_tuple(asio::deferred));
    expect(std::get<0>(result) == errc::contended, "contended");
}

asio::awaitable<void> find_anothers(lock key) {
    auto const result = co_await key.try_acquire(asio::as_tuple(asio::deferred));
    expect(std::get<0>(result) == errc::contended, "contended");
}

asio::awaitable<void> wait_in_vain(lock key) {
    auto const held = co_await key.acquire();
    auto const result = co_await key.try_acquire_for(1ms, asio::as_tuple(asio::deferred));
    expect(std::get<0>(result) == errc::timeout, "timeout");
}

asio::awaitable<void> cancel(lock key) {
    auto const held = co_await key.acquire();
    auto const executor = co_await asio::this_coro::executor;
    auto const waiting = std::make_shared<call>();
    key.acquire(asio::bind_cancellation_slot(waiting->signal.slot(), [waiting](error e, lease) {
        waiting->result = std::move(e);
        waiting->over = true;
    }));
    co_await asio::post(executor, asio::deferred);
    waiting->signal.emit(asio::cancellation_type::total);
    waiting->signal.emit(asio::cancellation_type::terminal);
    co_await until_over(waiting);
    expect(waiting->result == errc::cancelled, "cancelled");
}

asio::awaitable<void> drop_and_take_again(lock key) {
    auto held = co_await key.acquire();
    held = {};
    held = co_await key.try_acquire();
}

asio::awaitable<void> share(lock key) {
    auto held = co_await key.acquire();
    auto other = held.share();
    auto first = co_await held.release();
    expect(static_cast<bool>(first), "released");
    expect(other.held(), "held by the other");
}

asio::awaitable<void> watch(lock key) {
    auto held = co_await key.acquire();
    held.renew_while([] { return true; });
    auto const loss = std::make_shared<call>();
    held.lost([loss](error e) {
        loss->result = std::move(e);
        loss->over = true;
    });
    auto const result = co_await held.release();
    expect(static_cast<bool>(result), "released");
    co_await until_over(loss);
    expect(loss->result == errc::lease_released, "told");
}

constexpr std::array<flow, 10> flows{
    acquire_and_release, extend, hand_over,           find_it_taken, find_anothers,
    wait_in_vain,        cancel, drop_and_take_again, share,         watch};
constexpr std::size_t finds_anothers = 4;

/// A handler that is counted wherever it ends.
struct witness {
    struct counts {
        std::size_t started = 0, called = 0, destroyed = 0, failed = 0;
        std::string why;
        bool all_over() const { return called + destroyed == started; }
    };

    explicit witness(counts& to)
        : of(&to) {
        ++of->started;
    }
    witness(witness&& other) noexcept
        : of(std::exchange(other.of, nullptr)) {}
    ~witness() {
        if (of != nullptr) ++of->destroyed;
    }
    void operator()(std::exception_ptr e) {
        ++of->called;
        if (e) {
            ++of->failed;
            try {
                std::rethrow_exception(e);
            } catch (std::exception const& thrown) {
                of->why = thrown.what();
            }
        }
        of = nullptr;
    }
    void operator()(error const&) { (*this)(std::exception_ptr()); }

    counts* of;
};

/// A client's life, in which one allocation fails.
class life {
public:
    life(fleet& servers, client_options const& options)
        : servers_(servers)
        , locks_(std::in_place, context_.get_executor(), addresses_of(servers), options) {}

    void run(std::uint64_t fails_at, may_fail when) {
        until([&] { return is_up(*locks_); }, "connected");
        std::vector<lock> keys;
        keys.reserve(flows.size());
        for (std::size_t i = 0; i < flows.size(); ++i) {
            keys.push_back(locks_->make_lock("key:" + std::to_string(i), long_lived));
        }
        fail_allocation(fails_at, when);
        for (std::size_t i = 0; i < flows.size(); ++i) {
            attempt([&] { asio::co_spawn(context_, flows[i](keys[i]), witness(of_flows)); });
        }
        until([&] { return of_flows.all_over(); }, "flows");
        allocate_as_ever();
        keys.clear();

        witness::counts of_check;
        asio::co_spawn(context_, acquire_and_release(locks_->make_lock("after", long_lived)),
                       witness(of_check));
        until([&] { return of_check.all_over(); }, "usable");
        if (of_check.failed + of_check.destroyed > 0) problems.push_back("not usable: " + of_check.why);

        // Something is held, and somebody waits.
        auto const lasting = locks_->make_lock("lasting", long_lived);
        lease held;
        lasting.acquire([&](error, lease l) { held = std::move(l); });
        until([&] { return held.held(); }, "held");
        witness::counts of_waiter;
        lasting.acquire([w = witness(of_waiter)](error e, lease) mutable { w(std::move(e)); });
        resume_counting();
        attempt([&] { locks_->shutdown(witness(of_shutdown)); });
        until([&] { return of_shutdown.all_over(); }, "shut down");
        allocate_as_ever();
        if (of_shutdown.called == 0) { // it may be asked for again
            locks_->shutdown(witness(of_shutdown));
            until([&] { return of_shutdown.all_over(); }, "shut down at last");
        }
        until([&] { return of_waiter.all_over(); }, "waiter");
        resume_counting();
        locks_.reset();
        held = {};
        until([&] { return context_.stopped(); }, "out of work");
        allocate_as_ever();
    }

    std::vector<std::string> problems;
    witness::counts of_flows, of_shutdown;
    std::size_t thrown = 0; ///< out of a call, or of the context

private:
    template <class Work>
    void attempt(Work work) {
        try {
            work();
        } catch (std::bad_alloc const&) {
            ++thrown;
        }
    }

    template <class Happened>
    void until(Happened happened, char const* what) {
        auto const limit = std::chrono::steady_clock::now() + 5s;
        context_.restart();
        while (!happened() && std::chrono::steady_clock::now() < limit) {
            attempt([&] { context_.run_one_for(10ms); });
        }
        if (!happened()) problems.push_back(std::string("hangs: ") + what);
    }

    fleet& servers_;
    asio::io_context context_;
    std::optional<client> locks_;
};

/// Lets every allocation of a life fail, in a life for each.
void sweep(std::size_t size, bool thread_safe, may_fail when) {
    fleet servers(size);
    for (server& one : servers) redis_cli(one).set("key:" + std::to_string(finds_anothers), "another's");
    auto options = patient();
    options.thread_safe = thread_safe;
    options.watch_clocks = false;
    std::uint64_t failed = 0, spared = 0, beyond = 0;
    std::map<std::string, std::size_t> findings;
    // How many there are differs from life to life.
    for (std::uint64_t n = 0; beyond < 5; ++n) {
        witness::counts of_flows;
        {
            life l(servers, options);
            l.run(n, when);
            of_flows = l.of_flows;
            auto const& injected = last_failed_allocation();
            if (!injected.reached) ++beyond;
            ++(injected.failed ? failed : spared);
            auto& p = l.problems;
            auto const hurt = l.of_flows.failed + (flows.size() - l.of_flows.called);
            if (hurt > 1) p.push_back("failed flows: " + std::to_string(hurt) + " " + l.of_flows.why);
            if (hurt > 0 && !injected.failed) p.push_back("failed for nothing " + l.of_flows.why);
            for (server& one : servers) {
                auto const keys = redis_cli(one).dbsize();
                if (keys != 1) p.push_back("keys left: " + std::to_string(keys - 1));
            }
            for (auto const& problem : p) findings[problem + trace()] += 1;
        }
        if (!findings.empty()) {
            for (server& one : servers) {
                redis_cli cli(one);
                for (auto const& key : cli.keys()) {
                    if (key != "key:" + std::to_string(finds_anothers)) cli.del(key);
                }
            }
        }
    }
    for (auto const& [what, times] : findings) BOOST_ERROR(times << " times: " << what);
    BOOST_TEST_MESSAGE(failed << " failed, " << spared << " spared");
    BOOST_TEST(failed > 20U);
}

/// HOLDFAST_SWEEP=all: the wire and the strands, too.
may_fail what_may_fail() {
    auto const* const all = std::getenv("HOLDFAST_SWEEP");
    return all != nullptr && std::string_view(all) == "all" ? everywhere : in_the_engine;
}

} // namespace

BOOST_AUTO_TEST_SUITE(exceptions)

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_is_one_operations) {
    sweep(1, false, what_may_fail());
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_is_one_operations_on_a_strand) {
    sweep(1, true, what_may_fail());
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_is_one_operations_on_three_instances) {
    sweep(3, false, what_may_fail());
}

BOOST_AUTO_TEST_SUITE_END()
