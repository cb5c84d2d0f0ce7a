// Whichever allocation fails, it fails one call, or ends one link, or ends the client, and no
// handler is lost. Unless the client ends, it can be used after that, and no key is left. These
// tests have their own executable, as they replace operator new.
#include <holdfast/observer.hpp>

#include "redis/server/vote_guard.hpp"

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/cluster_group.hpp"
#include "support/failing_new.hpp"
#include "support/sentinel_group.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
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
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
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
// Allocations that may fail
//

std::string_view name_of(void* frame) {
    Dl_info info{};
    return dladdr(frame, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname
                                                                  : std::string_view();
}

/// The layer of a failing allocation. Some tests let only allocations of the engine fail, as the
/// other layers have tests of their own.
enum class layer {
    engine, ///< the engine, and the callers themselves
    wire,   ///< src/redis and the codec
    strand, ///< Asio's strand: without memory it loses a posted handler
};

layer layer_of(void* const* frames, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        auto const name = name_of(frames[i]);
        auto const in = [&](std::string_view scope) {
            return name.starts_with("_ZN" + std::string(scope)) ||
                   name.starts_with("_ZNK" + std::string(scope));
        };
        if (in("8holdfast7runtime") || in("8holdfast6detail")) return layer::engine;
        // The name may be that of an Asio function for a handler of src/redis.
        if (name.find("5redis") != std::string_view::npos) return layer::wire;
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

/// For addr2line, where the name is not known.
std::string place_of(void* frame) {
    if (auto const name = name_of(frame); !name.empty()) return std::string(name);
    Dl_info info{};
    if (dladdr(frame, &info) == 0) return {};
    std::ostringstream text;
    text << info.dli_fname << " +0x" << std::hex
         << static_cast<char*>(frame) - static_cast<char*>(info.dli_fbase);
    return text.str();
}

std::string trace() {
    std::string text;
    auto const& f = last_failed_allocation();
    for (std::size_t i = 0; i < std::min<std::size_t>(f.depth, 24); ++i) {
        text += "\n  " + place_of(f.frames[i]);
    }
    return text;
}

//
// The work during which allocations fail
//

void expect(bool as_expected, char const* description) {
    if (!as_expected) throw std::runtime_error(description);
}
void expect(error const& e, errc as_expected) {
    if (!(e == as_expected)) throw std::runtime_error(e ? e.what() : "no error");
}

using flow = asio::awaitable<void> (*)(lock);

asio::awaitable<void> acquire_and_release(lock key) {
    auto held = co_await key.acquire();
    auto const result = co_await held.release();
    expect(result.confirmed(), "released");
}

asio::awaitable<void> extend(lock key) {
    auto held = co_await key.try_acquire();
    co_await held.extend();
    expect(held.held(), "held");
    auto const result = co_await held.release();
    expect(result.confirmed(), "released");
}

/// The state of a call that a flow does not await.
struct call {
    asio::cancellation_signal signal;
    error result;
    lease held;
    lease_end how = lease_end::none;
    bool over = false;
};

// Waits until the call is over, or its handler is gone. The limit of the life ends the wait if
// neither happens.
asio::awaitable<void> until_over(std::shared_ptr<call> const& c) {
    auto const executor = co_await asio::this_coro::executor;
    while (!c->over && c.use_count() > 1) co_await asio::post(executor, asio::deferred);
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
    expect(first.confirmed(), "released");
    co_await until_over(next);
    expect(next->held.held(), "held");
    auto const second = co_await next->held.release();
    expect(second.confirmed(), "released by the next");
}

asio::awaitable<void> find_it_taken(lock key) {
    auto const held = co_await key.acquire();
    auto const result = co_await key.try_acquire(asio::as_tuple(asio::deferred));
    expect(std::get<0>(result), errc::contended);
}

asio::awaitable<void> find_anothers(lock key) {
    auto const result = co_await key.try_acquire(asio::as_tuple(asio::deferred));
    expect(std::get<0>(result), errc::contended);
}

asio::awaitable<void> wait_in_vain(lock key) {
    auto const held = co_await key.acquire();
    // An acquire of a permit asks the servers, which may need longer than the first limits.
    for (auto limit = 1ms;; limit *= 4) {
        auto const result = co_await key.try_acquire_for(limit, asio::as_tuple(asio::deferred));
        auto const& e = std::get<0>(result);
        if (e == error_condition::unavailable && limit < 1s) continue;
        expect(e, errc::wait_timeout);
        co_return;
    }
}

asio::awaitable<void> wait_for_anothers(lock key) {
    auto const result = co_await key.try_acquire_for(10ms, asio::as_tuple(asio::deferred));
    auto const& e = std::get<0>(result);
    // A node of a Cluster may not have answered by then.
    if (!(e == error_condition::unavailable)) expect(e, errc::wait_timeout);
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
    expect(first.confirmed(), "released");
    expect(other.held(), "held by the other");
}

asio::awaitable<void> wait_for_end(lock key) {
    auto held = co_await key.acquire();
    held.extend_while([] { return true; });
    auto const end = std::make_shared<call>();
    held.wait_end([end](error e, lease_end how) {
        end->result = std::move(e);
        end->how = how;
        end->over = true;
    });
    auto const result = co_await held.release();
    expect(result.confirmed(), "released");
    co_await until_over(end);
    expect(!end->result && end->how == lease_end::released, "told");
}

constexpr std::array<flow, 11> flows{
    acquire_and_release, extend, hand_over,           find_it_taken, find_anothers,
    wait_in_vain,        cancel, drop_and_take_again, share,         wait_for_end,
    wait_for_anothers};
/// The flows whose keys another client has.
constexpr std::array<std::size_t, 2> of_anothers{4, 10};
/// Not for permits: a try for one that meets another kind of lock says so, and one beside a release
/// that needs memory may come before it.
constexpr std::size_t finds_anothers = 4, drops_and_takes = 7;

//
// The same with readers and writers
//

using flow_of_both = asio::awaitable<void> (*)(read_write_lock);

std::shared_ptr<call> start(lock const& on) {
    auto const begun = std::make_shared<call>();
    on.acquire(asio::bind_cancellation_slot(begun->signal.slot(), [begun](error e, lease l) {
        begun->result = std::move(e);
        begun->held = std::move(l);
        begun->over = true;
    }));
    return begun;
}

asio::awaitable<void> read_together(read_write_lock on) {
    auto first = co_await on.read().acquire();
    auto second = co_await on.read().acquire();
    first = {};
    auto const result = co_await second.release();
    expect(result.confirmed(), "released");
}

asio::awaitable<void> read_after_a_writer(read_write_lock on) {
    auto held = co_await on.write().acquire();
    auto const first = start(on.read()), second = start(on.read());
    auto const result = co_await held.release();
    expect(result.confirmed(), "released");
    co_await until_over(first);
    co_await until_over(second);
    expect(first->held.held(), "first held");
    expect(second->held.held(), "second held");
}

asio::awaitable<void> write_after_readers(read_write_lock on) {
    auto held = co_await on.read().acquire();
    auto const writer = start(on.write()), reader = start(on.read());
    held = {};
    co_await until_over(writer);
    expect(writer->held.held(), "the writer's is held");
    writer->held = {};
    co_await until_over(reader);
    expect(reader->held.held(), "the reader's is held");
}

asio::awaitable<void> give_up_writing(read_write_lock on) {
    auto const held = co_await on.read().acquire();
    auto const writer = start(on.write()), reader = start(on.read());
    auto const executor = co_await asio::this_coro::executor;
    for (int i = 0; i < 3; ++i) co_await asio::post(executor, asio::deferred);
    writer->signal.emit(asio::cancellation_type::terminal);
    co_await until_over(writer);
    expect(writer->result == errc::cancelled, "cancelled");
    co_await until_over(reader);
    expect(reader->held.held(), "the reader's is held");
}

asio::awaitable<void> downgrade(read_write_lock on) {
    auto held = co_await on.write().acquire();
    auto const reader = start(on.read());
    co_await held.downgrade();
    expect(held.held(), "held");
    co_await until_over(reader);
    expect(reader->held.held(), "the reader's is held");
    auto const result = co_await held.release();
    expect(result.confirmed(), "released");
}

constexpr std::array<flow_of_both, 5> flows_of_both{
    read_together, read_after_a_writer, write_after_readers, give_up_writing, downgrade};

/// A handler that counts whether it was called or destroyed.
struct witness {
    struct counts {
        std::size_t started = 0, called = 0, destroyed = 0, failed = 0;
        std::string reason;
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
                of->reason = thrown.what();
            }
        }
        of = nullptr;
    }
    void operator()(error const&) { (*this)(std::exception_ptr()); }

    counts* of;
};

/// Throws after `first` successful allocations.
template <class T>
struct throwing_allocator {
    using value_type = T;

    explicit throwing_allocator(int first)
        : left(std::make_shared<int>(first)) {}
    template <class U>
    throwing_allocator(throwing_allocator<U> const& other) noexcept
        : left(other.left) {}

    T* allocate(std::size_t n) {
        if ((*left)-- <= 0) throw std::bad_alloc();
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* memory, std::size_t n) noexcept {
        std::allocator<T>().deallocate(memory, n);
    }

    template <class U>
    bool operator==(throwing_allocator<U> const& other) const noexcept {
        return left == other.left;
    }

    std::shared_ptr<int> left;
};

/// An executor for an io_context. It throws instead of taking a function, `losses` times.
struct losing_executor {
    asio::io_context* of;
    int* losses;

    template <class Function>
    void execute(Function&& f) const {
        if (*losses > 0) {
            --*losses;
            throw std::bad_alloc();
        }
        asio::post(*of, std::forward<Function>(f));
    }
    asio::io_context& query(asio::execution::context_t) const noexcept { return *of; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    losing_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
    bool operator==(losing_executor const&) const noexcept = default;
};

/// Calls each function at once, in the same thread and stack.
struct calling_executor {
    asio::io_context* of;

    template <class Function>
    void execute(Function&& f) const {
        auto own = std::forward<Function>(f);
        own();
    }
    asio::io_context& query(asio::execution::context_t) const noexcept { return *of; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never; // claims that it never blocks
    }
    calling_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
    bool operator==(calling_executor const&) const noexcept = default;
};

template <class Happened>
[[nodiscard]] bool until_in_spite_of_exceptions(asio::io_context& context, std::size_t& thrown,
                                                Happened happened) {
    for (;;) {
        try {
            return run_until(context, happened);
        } catch (std::exception const&) {
            ++thrown;
        }
    }
}

/// The options of the locks of the flows, and whether each lock has two keys, is a writer's, or is
/// a semaphore. With writers there are flows of readers, too. The flows expect locks that exclude,
/// so a semaphore has one permit.
struct lock_choice {
    lock_options options = long_lived;
    bool two_keys = false;
    bool writes = false;
    bool permits = false;
};

/// The life of a client, in which one allocation fails.
class life {
public:
    life(std::vector<address> const& servers, client_options const& options,
         lock_choice const& of_locks)
        : locks_(std::in_place, context_.get_executor(), servers, options)
        , of_locks_(of_locks.options)
        , two_keys_(of_locks.two_keys)
        , writes_(of_locks.writes)
        , permits_(of_locks.permits) {}

    /// The flows begin when the client is `ready`.
    void run(std::uint64_t fails_at, may_fail when, bool holds,
             std::function<bool(client const&)> const& ready = is_up) {
        until([&] { return ready(*locks_); }, "connected");
        std::vector<lock> keys;
        keys.reserve(flows.size());
        for (std::size_t i = 0; i < flows.size(); ++i) {
            std::vector<std::string> names{"key:" + std::to_string(i)};
            if (writes_) {
                keys.push_back(locks_->make_read_write_lock(names[0], of_locks_).write());
                continue;
            }
            if (permits_ && i != finds_anothers && i != drops_and_takes) {
                keys.push_back(locks_->make_semaphore(names[0], 1, of_locks_));
                continue;
            }
            if (two_keys_) names.push_back("also:" + std::to_string(i));
            keys.push_back(locks_->make_multi_lock(names, of_locks_));
        }
        std::vector<read_write_lock> both;
        for (std::size_t i = 0; writes_ && i < flows_of_both.size(); ++i)
            both.push_back(locks_->make_read_write_lock("both:" + std::to_string(i), of_locks_));
        flow_count = keys.size() + both.size();
        lease lasts;
        bool lost = false;
        if (holds) { // without, the first queue of the client is made later
            locks_->make_lock("lasts", of_locks_).acquire([&](error, lease l) {
                lasts = std::move(l);
            });
            until([&] { return lasts.held(); }, "lasts");
            lasts.wait_end([&](error, lease_end how) { lost = is_loss(how); });
        }
        auto const before = connections();
        fail_allocation(fails_at, when);
        for (std::size_t i = 0; i < flows.size(); ++i) {
            attempt([&] { asio::co_spawn(context_, flows[i](keys[i]), witness(of_flows)); });
        }
        for (std::size_t i = 0; i < both.size(); ++i) {
            attempt(
                [&] { asio::co_spawn(context_, flows_of_both[i](both[i]), witness(of_flows)); });
        }
        until([&] { return of_flows.all_over(); }, "flows");
        allocate_as_ever();
        keys.clear();
        both.clear();

        std::optional<error> check;
        locks_->make_lock("after", of_locks_).acquire([&](error e, lease) {
            check = std::move(e);
        });
        until([&] { return check.has_value(); }, "usable");
        client_ended = check && *check == errc::shut_down;
        if (client_ended) {
            if (holds) until([&] { return lost; }, "the holder hears of the end");
        } else {
            until([&] { return is_complete(); }, "complete");
            if (lost || lasts.held() != holds) problems.push_back("a lease was lost");
        }
        link_lost = connections() > before;
        lasts = {};
        if (check && *check && !client_ended)
            problems.push_back(std::string("not usable: ") + check->what());

        // One lease is held, and one acquire waits behind it.
        auto const lasting = locks_->make_lock("lasting", of_locks_);
        lease held;
        if (!client_ended) {
            lasting.acquire([&](error, lease l) { held = std::move(l); });
            until([&] { return held.held(); }, "held");
        }
        witness::counts of_waiter;
        lasting.acquire([w = witness(of_waiter)](error e, lease) mutable { w(std::move(e)); });
        auto const failed_before = last_failed_allocation().failed;
        resume_counting();
        attempt([&] { locks_->shutdown(witness(of_shutdown)); });
        until([&] { return of_shutdown.all_over(); }, "shut down");
        allocate_as_ever();
        if (of_shutdown.called == 0) { // a shutdown that failed may be called again
            locks_->shutdown(witness(of_shutdown));
            until([&] { return of_shutdown.all_over(); }, "shut down at last");
        }
        until([&] { return of_waiter.all_over(); }, "waiter");
        resume_counting();
        locks_.reset();
        held = {};
        until([&] { return context_.stopped(); }, "out of work");
        allocate_as_ever();
        failed_at_end = !failed_before && last_failed_allocation().failed;
    }

    std::vector<std::string> problems;
    witness::counts of_flows, of_shutdown;
    std::size_t flow_count = 0;
    std::size_t thrown = 0; ///< exceptions from a call, or from running the context
    bool link_lost = false, client_ended = false;
    bool failed_at_end = false; ///< during the shutdown, which waits for no link that is lost

private:
    /// Every link is up again, and has sent the releases that it kept.
    bool is_complete() const {
        auto const complete = [](auto const& s) {
            return s.state == instance_state::up && s.pending_releases == 0;
        };
        return std::ranges::all_of(locks_->instances(), [&](auto const& i) {
            return complete(i) && std::ranges::all_of(i.nodes, complete);
        });
    }
    /// That were made until now.
    std::uint64_t connections() const {
        std::uint64_t sum = 0;
        for (auto const& i : locks_->instances()) {
            sum += i.connections;
            for (auto const& n : i.nodes) sum += n.connections;
        }
        return sum;
    }
    template <class Work>
    void attempt(Work work) {
        try {
            work();
        } catch (std::bad_alloc const&) {
            ++thrown;
        }
    }

    template <class Happened>
    void until(Happened happened, char const* stage) {
        auto const limit = std::chrono::steady_clock::now() + 5s;
        context_.restart();
        while (!happened() && std::chrono::steady_clock::now() < limit) {
            attempt([&] { context_.run_one_for(10ms); });
        }
        if (!happened()) problems.push_back(std::string("hangs: ") + stage);
    }

    asio::io_context context_;
    std::optional<client> locks_;
    lock_options const of_locks_;
    bool const two_keys_, writes_, permits_;
};

/// Reads all that it is given.
class reader final : public observer {
public:
    void on_acquired(acquired_event const& e) override { read += e.key.size(); }
    void on_failed(failed_event const& e) override {
        if (e.report != nullptr) read += e.report->instances.size();
    }
    void on_instance(instance_event const& e) override { read += e.status.message.size() + 1; }

    std::size_t read = 0;
};

/// The instances of a client, and the servers that have the keys.
struct target {
    std::vector<address> instances;
    std::vector<redis_cli> servers;
    std::function<void()> before = [] {}; ///< before a client is made
    std::function<bool(client const&)> ready = is_up;
};

std::vector<std::string> anothers() {
    std::vector<std::string> keys;
    for (auto const i : of_anothers) keys.push_back("key:" + std::to_string(i));
    return keys;
}

/// The keys that should have gone. What is left of the line of a fair lock, and of the turn of
/// readers, ends by itself.
std::vector<std::string> left_on(redis_cli& server) {
    auto keys = server.keys();
    auto const others = anothers();
    std::erase_if(keys, [&](auto const& key) {
        return contains(key, "}:queue") || contains(key, "}:turn") ||
               std::ranges::find(others, key) != others.end();
    });
    return keys;
}

/// Runs one life for each allocation, and lets that one fail.
void sweep(target on, bool thread_safe, may_fail when, lock_choice const& of_locks = {}) {
    auto options = patient();
    options.thread_safe = thread_safe;
    options.detect_clock_jumps = false;
    options.on_restart = restart_policy::off; // no questions in between
    reader told;
    options.observer = &told;
    std::uint64_t failed = 0, spared = 0, beyond = 0, links = 0, clients = 0;
    std::map<std::string, std::size_t> problem_counts;
    // After this life the servers have the scripts of fair locks. A release that is sent a second
    // time, with its script, may be overtaken by the next try.
    life(on.instances, options, of_locks)
        .run(std::numeric_limits<std::uint64_t>::max(), when, true);
    // Each failure with a lease that is held before, and without. The number of allocations differs
    // between lives. So the loop ends after ten lives without a failure.
    for (std::uint64_t n = 0; beyond < 10; ++n) {
        witness::counts of_flows;
        {
            on.before();
            life l(on.instances, options, of_locks);
            l.run(n / 2, when, n % 2 == 1, on.ready);
            of_flows = l.of_flows;
            auto const& injected = last_failed_allocation();
            if (!injected.reached) ++beyond;
            ++(injected.failed ? failed : spared);
            auto& problems = l.problems;
            auto const hurt = l.of_flows.failed + (l.flow_count - l.of_flows.called);
            clients += l.client_ended ? 1 : 0;
            links += l.link_lost ? 1 : 0;
            if (hurt > 1 && !l.link_lost && !l.client_ended)
                problems.push_back("failed flows: " + std::to_string(hurt) + " " +
                                   l.of_flows.reason);
            if (hurt > 0 && !injected.failed)
                problems.push_back("failed for nothing " + l.of_flows.reason);
            for (redis_cli& server : on.servers) {
                for (auto const& key : left_on(server)) {
                    if (!l.client_ended && !l.failed_at_end) problems.push_back("left: " + key);
                    server.del(key);
                }
            }
            for (auto const& problem : problems) {
                BOOST_TEST_MESSAGE(n << ": " << problem << trace());
                problem_counts[problem + trace()] += 1;
            }
        }
    }
    for (auto const& [problem, times] : problem_counts) BOOST_ERROR(times << " times: " << problem);
    BOOST_TEST_MESSAGE(failed << " failed, " << spared << " spared; " << links << " links and "
                              << clients << " clients ended");
    BOOST_TEST(failed > 20U);
    BOOST_TEST(clients < failed / 4);
    BOOST_TEST(told.read > 0U);
}

void sweep(std::size_t size, bool thread_safe, may_fail when, lock_choice const& of_locks = {}) {
    fleet servers(size);
    target t;
    t.instances = addresses_of(servers);
    for (server& instance : servers) {
        t.servers.emplace_back(instance);
        for (auto const& key : anothers()) t.servers.back().set(key, "another's");
    }
    sweep(std::move(t), thread_safe, when, of_locks);
}

} // namespace

BOOST_AUTO_TEST_SUITE(exceptions)

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client) {
    sweep(1, false, everywhere);
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_on_a_strand) {
    // Without memory for itself, Asio's strand ends the program or loses work. So only allocations
    // of the engine fail here.
    sweep(1, true, in_the_engine);
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_on_three_instances) {
    sweep(3, false, everywhere);
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_of_fair_locks) {
    auto fair = long_lived;
    fair.fair = true;
    sweep(1, false, everywhere, {fair});
    sweep(3, false, everywhere, {fair});
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_of_several_keys) {
    auto in_order = long_lived;
    in_order.patience = 0;
    sweep(1, false, everywhere, {long_lived, true});
    sweep(3, false, in_the_engine, {in_order, true});
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_of_writers_and_readers) {
    sweep(1, false, everywhere, {.writes = true});
    sweep(3, false, in_the_engine, {.writes = true});
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_of_permits) {
    sweep(1, false, everywhere, {.permits = true});
    sweep(3, false, in_the_engine, {.permits = true});
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_behind_sentinels) {
    sentinel_group_options options;
    options.replicas = 0;
    sentinel_group group(options);
    target t;
    t.instances = {address(group.url())};
    t.servers.push_back(group.cli(0));
    for (auto const& key : anothers()) t.servers.back().set(key, "another's");
    sweep(std::move(t), false, everywhere);
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_ends_one_call_link_or_client_in_a_cluster) {
    cluster_group_options options;
    options.replicas = 0;
    cluster_group cluster(options);
    target t;
    t.instances = {address(cluster.url())};
    for (std::size_t i = 0; i < cluster.size(); ++i) t.servers.push_back(cluster.cli(i));
    for (auto const& key : anothers()) t.servers[cluster.owner_of(key)].set(key, "another's");
    sweep(std::move(t), false, everywhere);
}

// The client asks for the map again when a node is late, and the flows go on meanwhile.
BOOST_AUTO_TEST_CASE(an_allocation_for_the_map_of_a_cluster_may_fail) {
    cluster_group_options options;
    options.replicas = 0;
    options.node_timeout = 10s;
    cluster_group cluster(options);
    target t;
    t.instances = {address(cluster.url())};
    for (std::size_t i = 0; i < cluster.size(); ++i) t.servers.push_back(cluster.cli(i));
    for (auto const& key : anothers()) t.servers[cluster.owner_of(key)].set(key, "another's");
    // The flows begin at another step of the connection to the late node each time.
    std::uint64_t lives = 0, steps = 0;
    t.before = [&] {
        cluster.node(2).freeze();
        steps = 0;
    };
    t.ready = [&](client const& c) {
        if (!is_up(c)) return false;
        if (steps == 0) cluster.node(2).thaw();
        if (steps++ < lives % 16) return false;
        ++lives;
        return true;
    };
    sweep(std::move(t), false, everywhere);
}

//
// Handlers
//

BOOST_AUTO_TEST_CASE(a_handlers_allocator_that_throws_loses_that_handler_alone) {
    for (auto const thread_safe : {false, true}) {
        fleet servers(1);
        auto options = patient();
        options.thread_safe = thread_safe;
        test_client client(servers, options);
        BOOST_REQUIRE(client.all_up());
        constexpr std::size_t each = 12;
        witness::counts bad, good;
        std::vector<lease> held;
        // Where the handler is called in place, it needs no second allocation. On a strand it does.
        auto const strand = asio::make_strand(client.context);
        auto left = each;
        for (std::size_t i = 0; i < 2 * each; ++i) {
            auto const key = client.locks.make_lock("key:" + std::to_string(i), long_lived);
            if (i % 2 == 0) {
                // The first allocation belongs to the call, the second to its completion.
                auto handler = asio::bind_allocator(
                    throwing_allocator<void>(1),
                    [w = witness(bad)](error e, lease) mutable { w(std::move(e)); });
                if (thread_safe) {
                    key.acquire(std::move(handler));
                } else {
                    key.acquire(asio::bind_executor(strand, std::move(handler)));
                }
            } else {
                key.acquire([&, w = witness(good)](error e, lease l) mutable {
                    w(std::move(e));
                    held.push_back(std::move(l));
                    --left;
                });
            }
        }
        std::size_t thrown = 0;
        BOOST_REQUIRE(until_in_spite_of_exceptions(client.context, thrown,
                                                   [&] { return left == 0 && bad.all_over(); }));
        BOOST_TEST(good.called == each);
        BOOST_TEST(bad.destroyed == each);
        // Each turn throws at most once. So the number of exceptions is the number of turns with
        // failing handlers.
        BOOST_TEST(thrown >= 1U);
        BOOST_TEST(thrown <= each);
        // The leases of handlers that threw are released.
        redis_cli cli(servers[0]);
        BOOST_TEST(client.until([&] { return cli.dbsize() == static_cast<std::int64_t>(each); }));
        held.clear();
        check_nothing_left(client, servers);
        BOOST_TEST(client.locks.stats().held == 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_handler_that_is_called_in_place_needs_no_memory_for_that) {
    fleet servers(1);
    auto options = patient();
    options.thread_safe = false;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    witness::counts seen;
    for (auto i = 0; i < 12; ++i) {
        auto const key = client.locks.make_lock("key:" + std::to_string(i), long_lived);
        key.acquire(
            asio::bind_allocator(throwing_allocator<void>(1),
                                 [w = witness(seen)](error e, lease) mutable { w(std::move(e)); }));
    }
    std::size_t thrown = 0;
    BOOST_REQUIRE(
        until_in_spite_of_exceptions(client.context, thrown, [&] { return seen.all_over(); }));
    BOOST_TEST(seen.called == 12U);
    BOOST_TEST(thrown == 0U);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_handler_that_throws_where_it_is_called_hurts_no_other) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    witness::counts others;
    std::size_t thrown = 0;
    auto own = [] { throw std::runtime_error("mine"); };
    for (auto i = 0; i < 10; ++i) {
        auto const key = client.locks.make_lock("key:" + std::to_string(i), long_lived);
        if (i % 3 == 0) {
            key.acquire(asio::bind_executor(calling_executor{&client.context},
                                            [own](error, lease) { own(); }));
        } else {
            key.acquire(asio::bind_executor(
                calling_executor{&client.context},
                [w = witness(others)](error e, lease) mutable { w(std::move(e)); }));
        }
    }
    redis_cli cli(servers[0]);
    BOOST_REQUIRE(until_in_spite_of_exceptions(client.context, thrown, [&] {
        return others.all_over() && thrown > 0 && cli.dbsize() == 0;
    }));
    BOOST_TEST(others.called == 6U);
    BOOST_TEST(client.locks.stats().held == 0U);
    // Later calls succeed too.
    BOOST_TEST(client.hold("another").held());
}

// An initiating function that throws has no effect.
BOOST_AUTO_TEST_CASE(a_call_that_throws_was_not_made) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const key = client.locks.make_lock("k", long_lived);
    auto const ignore = asio::bind_allocator(throwing_allocator<void>(0), [](auto&&...) {});
    BOOST_CHECK_THROW(key.acquire(ignore), std::bad_alloc);
    auto held = client.hold("k");
    BOOST_CHECK_THROW(held.extend(ignore), std::bad_alloc);
    BOOST_CHECK_THROW(held.wait_end(ignore), std::bad_alloc);
    BOOST_CHECK_THROW(held.release(ignore), std::bad_alloc);
    BOOST_TEST(held.held());
    {
        auto other = held.share();
        BOOST_CHECK_THROW(other.release(ignore), std::bad_alloc);
        // This share is not the last, so its release completes within the call.
        auto const ignore_later =
            asio::bind_allocator(throwing_allocator<void>(1), [](auto&&...) {});
        BOOST_CHECK_THROW(other.release(ignore_later), std::bad_alloc);
        BOOST_TEST(other.held());
        BOOST_TEST(client.releases(other));
    }
    BOOST_TEST(client.locks.stats().held == 1U);
    BOOST_CHECK_THROW(held.release(ignore), std::bad_alloc); // the last share
    BOOST_TEST(client.releases(held));
    check_nothing_left(client, servers);
    BOOST_CHECK_THROW(client.locks.shutdown(ignore), std::bad_alloc);
    held = client.hold("k");
    BOOST_TEST(client.locks.stats().pending == 0U);
}

BOOST_AUTO_TEST_CASE(a_call_that_throws_does_not_listen_for_its_cancellation) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const key = client.locks.make_lock("k", long_lived);
    std::size_t failures = 0;
    for (std::uint64_t n = 0;; ++n) {
        asio::cancellation_signal signal;
        witness::counts counts;
        auto handler = asio::bind_cancellation_slot(
            signal.slot(), [w = witness(counts)](error e, lease) mutable { w(std::move(e)); });
        auto thrown = false;
        fail_allocation(n, everywhere);
        try {
            key.acquire(std::move(handler));
        } catch (std::bad_alloc const&) {
            thrown = true;
        }
        allocate_as_ever();
        if (!thrown) {
            BOOST_TEST(client.until([&] { return counts.called == 1; }));
            break;
        }
        ++failures;
        // The library has disconnected its cancellation handler.
        signal.emit(asio::cancellation_type::terminal);
        BOOST_TEST(counts.called == 0U);
    }
    BOOST_TEST(failures > 0U);
    BOOST_TEST(client.locks.stats().acquired == 1U);
    check_nothing_left(client, servers);
}

//
// The inbox
//

BOOST_AUTO_TEST_CASE(calls_that_cannot_fail_allocate_nothing) {
    for (auto const thread_safe : {false, true}) {
        BOOST_TEST_CONTEXT("thread-safe: " << thread_safe) {
            fleet servers(1);
            auto options = patient();
            options.thread_safe = thread_safe;
            test_client client(servers, options);
            auto held = client.hold("k");
            auto shared = client.hold("shared");
            auto other = shared.share();
            asio::cancellation_signal signal;
            auto cancelled = false;
            client.locks.make_lock("k", long_lived)
                .acquire(asio::bind_cancellation_slot(signal.slot(), [&](error const& e, lease) {
                    cancelled = e == errc::cancelled;
                }));
            BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
            count_allocations();
            signal.emit(asio::cancellation_type::terminal);
            signal.emit(asio::cancellation_type::total);
            held = {};
            shared = {};
            other = {};
            auto ended = std::move(client.locks);
            { auto const gone = std::move(ended); }
            allocate_as_ever();
            BOOST_TEST(allocations_counted() == 0U);
            client.context.restart();
            client.context.run_for(10s);
            BOOST_TEST(client.context.stopped());
            BOOST_TEST(cancelled);
            check_nothing_left(servers);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_that_is_asked_for_twice_is_the_sum_of_both) {
    using type = asio::cancellation_type;
    for (auto const& order :
         {std::pair(type::total, type::terminal), std::pair(type::partial, type::total)}) {
        fleet servers(1);
        proxy_group proxies(servers);
        test_client client(proxies.addresses(), without_questions());
        BOOST_REQUIRE(client.all_up());
        proxies.hold_replies();
        asio::cancellation_signal signal;
        error result;
        client.locks.make_lock("k", long_lived)
            .acquire(asio::bind_cancellation_slot(signal.slot(),
                                                  [&](error e, lease) { result = std::move(e); }));
        BOOST_REQUIRE(client.until([&] { return copies(servers, "k") == 1; }));
        // A total cancellation alone would wait for the answer, which does not come.
        signal.emit(order.first);
        signal.emit(order.second);
        BOOST_TEST(client.until([&] { return static_cast<bool>(result); }));
        BOOST_TEST((result == errc::cancelled));
        proxies.resume();
        check_nothing_left(client, servers);
    }
}

// The executor throws when the client asks for a turn. The executor of an io_context does not fail
// there. The call may not throw, so the client must ask again.
BOOST_AUTO_TEST_CASE(a_turn_that_the_executor_does_not_take_is_asked_for_again) {
    fleet servers(1);
    asio::io_context context;
    auto losses = 0;
    auto options = patient();
    options.thread_safe = false;
    client locks(losing_executor{&context, &losses}, addresses_of(servers), options);
    lease held;
    locks.make_lock("k", long_lived).acquire([&](error, lease l) { held = std::move(l); });
    BOOST_REQUIRE(run_until(context, [&] { return held.held(); }));
    losses = 1;
    held = {};
    BOOST_TEST(losses == 0);
    // The client asks again at its next check of the instance, or earlier.
    BOOST_TEST(run_until(context, [&] { return copies(servers, "k") == 0; }));
}

//
// Guards and monitors
//

BOOST_AUTO_TEST_CASE(a_quarantine_begins_though_there_is_no_memory_for_its_words) {
    using holdfast::protocol::time_point;
    time_point const now{1h};
    for (std::uint64_t n = 0;; ++n) {
        redis::vote_guard restarted(restart_policy::observed, 60'000ms);
        redis::vote_guard jumped(restart_policy::observed, 60'000ms);
        restarted.connected({.run = 1}, 5, now);
        jumped.on_time(now, now, 10s);
        fail_allocation(n, everywhere);
        auto const begun =
            restarted.connected({.run = 2}, 5, now) && jumped.on_time(now, now, 100s);
        allocate_as_ever();
        BOOST_TEST(begun);
        BOOST_TEST(restarted.quarantined(now));
        BOOST_TEST(jumped.quarantined(now));
        BOOST_TEST(restarted.ends(now + 60s));
        if (!last_failed_allocation().reached) break;
    }
}

BOOST_AUTO_TEST_CASE(silence_is_noticed_whichever_allocation_fails) {
    fleet servers(1);
    auto options = patient();
    options.instance_timeout = 50ms;
    options.detect_clock_jumps = false;
    options.on_restart = restart_policy::off; // no questions in between
    options.thread_safe = false;              // without memory, a strand loses its handlers
    // The failing allocation may belong to the handler, or to the client's question.
    auto const until = [](asio::io_context& context, auto happened) {
        auto const limit = std::chrono::steady_clock::now() + 10s;
        context.restart();
        while (std::chrono::steady_clock::now() < limit) {
            try {
                if (happened()) return true;
                context.run_one_for(10ms);
            } catch (std::bad_alloc const&) {
            }
        }
        return false;
    };
    auto reached = true;
    for (std::uint64_t n = 0; reached && n < 200; ++n) {
        BOOST_TEST_CONTEXT(n) {
            test_client client(servers, options);
            BOOST_REQUIRE(client.all_up());
            servers[0].freeze();
            auto told = false;
            client.locks.make_lock("k").try_acquire([&](error, lease) { told = true; });
            fail_allocation(n, everywhere);
            // The instance becomes suspect, is given up, and goes down.
            auto const noticed = until(client.context, [&] {
                return told && client.status(0).state == instance_state::down;
            });
            allocate_as_ever();
            reached = last_failed_allocation().reached;
            servers[0].thaw();
            BOOST_TEST(noticed);
            if (client.status(0).reason == make_error_code(errc::shut_down)) continue;
            BOOST_TEST(client.all_up());
            check_nothing_left(client, servers);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
