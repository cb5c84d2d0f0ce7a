// The resolver looks names up independently, and a name that DNS does not answer delays no other.
#include "redis/net/resolver.hpp"

#include "support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using endpoints = holdfast::redis::resolver::endpoints;
using name_resolver = holdfast::redis::resolver;
using holdfast::test::wait_until;

namespace {

tcp::endpoint const first{asio::ip::make_address("192.0.2.1"), 1};
tcp::endpoint const second{asio::ip::make_address("2001:db8::1"), 1};

/// A fake name server that answers when the test allows it.
class name_server {
public:
    name_resolver::look_up_function function() const {
        return [s = state_](std::string const&, std::uint16_t, error_code&) {
            thread_local std::shared_ptr<state> until_the_thread_ends;
            until_the_thread_ends = s;
            ++s->asked;
            s->allowed.wait();
            ++s->answered;
            return endpoints{first, second};
        };
    }
    void answer() { state_->allow.set_value(); }
    int asked() const { return state_->asked; }
    void wait_asked() const {
        BOOST_REQUIRE(wait_until([&] { return asked() > 0; }));
    }
    /// Waits until the thread has ended, while one resolver exists.
    void wait_reported() const {
        BOOST_REQUIRE(wait_until([&] { return state_->answered == 1; }));
        BOOST_REQUIRE(wait_until([&] { return state_.use_count() == 2; }));
    }
    /// Waits until the threads have ended and the resolvers are destroyed.
    void wait_gone() const {
        BOOST_REQUIRE(wait_until([&] { return state_.use_count() == 1; }));
    }

private:
    struct state {
        std::atomic<int> asked{0}, answered{0};
        std::promise<void> allow;
        std::shared_future<void> allowed{allow.get_future()};
    };
    std::shared_ptr<state> const state_ = std::make_shared<state>();
};

struct result {
    std::optional<error_code> code;
    endpoints found;

    name_resolver::handler handler() {
        return [this](error_code ec, endpoints e) {
            BOOST_TEST(!code, "called twice");
            code = ec;
            found = std::move(e);
        };
    }
};

/// A handler that owns the resolver, as a session's handler does.
struct session {
    std::unique_ptr<name_resolver> names;
    bool called = false;
};

std::shared_ptr<session> resolving(asio::any_io_executor const& executor, name_server const& dns) {
    auto s = std::make_shared<session>();
    s->names = std::make_unique<name_resolver>(executor, "a", std::uint16_t{1}, dns.function());
    s->names->resolve([s](error_code, endpoints const&) { s->called = true; });
    return s;
}

} // namespace

BOOST_AUTO_TEST_SUITE(resolver)

BOOST_AUTO_TEST_CASE(numeric_addresses_need_no_look_up) {
    auto const v4 = name_resolver::numeric("192.0.2.1", 6379);
    BOOST_REQUIRE(v4.has_value());
    BOOST_TEST((*v4 == tcp::endpoint(asio::ip::make_address("192.0.2.1"), 6379)));
    auto const v6 = name_resolver::numeric("::1", 1);
    BOOST_REQUIRE(v6.has_value());
    BOOST_TEST(v6->address().is_loopback());
    auto const zoned = name_resolver::numeric("fe80::1%lo", 1);
    BOOST_REQUIRE(zoned.has_value());
    BOOST_TEST(zoned->address().to_v6().scope_id() != 0u);
    for (auto const* name : {"localhost", "", "192.0.2", "192.0.2.1.", "[::1]", "1.2.3.4:5"}) {
        BOOST_TEST(!name_resolver::numeric(name, 1).has_value(), name);
    }
}

BOOST_AUTO_TEST_CASE(resolves_a_name) {
    asio::io_context io;
    name_resolver names(asio::make_strand(io.get_executor()), "localhost", 4711);
    result r;
    names.resolve(r.handler());
    BOOST_TEST(!r.code.has_value());
    io.run(); // the look-up counts as work
    BOOST_REQUIRE(r.code.has_value());
    BOOST_TEST(!*r.code);
    BOOST_TEST(!r.found.empty());
    for (auto const& e : r.found) {
        BOOST_TEST(e.address().is_loopback());
        BOOST_TEST(e.port() == 4711);
    }
}

BOOST_AUTO_TEST_CASE(tells_that_there_is_no_such_name) {
    asio::io_context io;
    name_resolver names(io.get_executor(), std::string(300, 'x'),
                        1); // too long for a DNS query
    result r;
    names.resolve(r.handler());
    io.run();
    BOOST_REQUIRE(r.code.has_value());
    BOOST_TEST(!!*r.code);
    BOOST_TEST(r.found.empty());
}

BOOST_AUTO_TEST_CASE(keeps_the_order_and_may_be_used_again) {
    asio::io_context io;
    name_server dns;
    dns.answer();
    name_resolver names(io.get_executor(), "a", 1, dns.function());
    for (int i = 0; i < 3; ++i) {
        result r;
        names.resolve(r.handler());
        io.restart();
        io.run();
        BOOST_TEST((r.found == endpoints{first, second}));
    }
    BOOST_TEST(dns.asked() == 3);
}

BOOST_AUTO_TEST_CASE(a_dead_name_holds_up_no_other) {
    asio::io_context io;
    name_server dead, alive;
    alive.answer();
    name_resolver hung(io.get_executor(), "dead", 1, dead.function());
    name_resolver other(io.get_executor(), "alive", 1, alive.function());
    result none, found;
    hung.resolve(none.handler());
    dead.wait_asked();
    other.resolve(found.handler());
    while (!found.code) BOOST_REQUIRE(io.run_one() != 0);
    BOOST_TEST(found.found.size() == 2u);
    BOOST_TEST(!none.code.has_value());
    dead.answer();
    io.run();
    BOOST_TEST(none.code.has_value());
}

BOOST_AUTO_TEST_CASE(a_cancelled_handler_is_destroyed_and_not_called) {
    asio::io_context io;
    name_server dns;
    auto const s = resolving(io.get_executor(), dns);
    s->names->cancel();
    BOOST_TEST(s.use_count() == 1);
    dns.answer();
    dns.wait_reported();
    io.restart();
    io.run();
    BOOST_TEST(!s->called);
}

BOOST_AUTO_TEST_CASE(a_result_on_its_way_can_be_cancelled) {
    asio::io_context io;
    name_server dns;
    dns.answer();
    auto const s = resolving(io.get_executor(), dns);
    dns.wait_reported();
    s->names->cancel();
    BOOST_TEST(s.use_count() == 1);
    io.restart();
    io.run();
    BOOST_TEST(!s->called);
}

BOOST_AUTO_TEST_CASE(a_cancelled_result_is_not_that_of_the_next_call) {
    asio::io_context io;
    auto const asked = std::make_shared<std::atomic<int>>(0);
    name_resolver names(io.get_executor(), "a", 1, [asked](auto const&, auto, auto&) {
        thread_local std::shared_ptr<std::atomic<int>> until_the_thread_ends;
        until_the_thread_ends = asked;
        return ++*asked == 1 ? endpoints{first} : endpoints{second};
    });
    result cancelled, r;
    names.resolve(cancelled.handler());
    BOOST_REQUIRE(wait_until([&] { return *asked == 1 && asked.use_count() == 2; }));
    names.cancel();
    names.resolve(r.handler());
    io.restart(); // without work the context had stopped
    io.run();
    BOOST_TEST(!cancelled.code.has_value());
    BOOST_TEST((r.found == endpoints{second}));
}

BOOST_AUTO_TEST_CASE(a_look_up_under_way_serves_the_next_call) {
    asio::io_context io;
    name_server dns;
    result cancelled, r;
    {
        name_resolver names(io.get_executor(), "a", 1, dns.function());
        names.resolve(cancelled.handler());
        dns.wait_asked();
        names.cancel();
        names.resolve(r.handler());
        dns.answer();
        io.restart(); // without work the context had stopped
        io.run();
    }
    BOOST_TEST(!cancelled.code.has_value());
    BOOST_TEST(r.found.size() == 2u);
    dns.wait_gone();
    BOOST_TEST(dns.asked() == 1);
}

BOOST_AUTO_TEST_CASE(destruction_waits_for_nobody) {
    asio::io_context io;
    name_server dns;
    auto s = resolving(asio::make_strand(io.get_executor()), dns);
    dns.wait_asked();
    s->names.reset();
    BOOST_TEST(s.use_count() == 1);
    io.run(); // no operation is under way
    dns.answer();
    dns.wait_gone();
    io.restart();
    BOOST_TEST(io.run() == 0u);
    BOOST_TEST(!s->called);
}

BOOST_AUTO_TEST_CASE(a_context_may_be_destroyed_while_a_name_is_looked_up) {
    name_server dns;
    std::weak_ptr<session> seen;
    {
        asio::io_context io;
        seen = resolving(asio::make_strand(io.get_executor()), dns);
        dns.wait_asked();
    }
    BOOST_TEST(seen.expired());
    dns.answer();
    dns.wait_gone();
}

BOOST_AUTO_TEST_CASE(a_context_may_be_destroyed_with_a_result_on_its_way) {
    name_server dns;
    dns.answer();
    std::weak_ptr<session> seen;
    {
        asio::io_context io;
        auto const s = resolving(asio::make_strand(io.get_executor()), dns);
        dns.wait_reported();
        seen = s;
    }
    BOOST_TEST(seen.expired());
    dns.wait_gone();
}

// The resolver ends at different moments of a look-up. The sanitizers check the result.
BOOST_AUTO_TEST_CASE(ends_may_meet_the_result) {
    for (int i = 0; i < 300; ++i) {
        auto io = std::make_unique<asio::io_context>();
        name_server dns;
        std::weak_ptr<session> seen;
        {
            auto const s = resolving(asio::make_strand(io->get_executor()), dns);
            seen = s;
        }
        std::thread other([&] { dns.answer(); });
        for (int spin = 0; spin < i % 50 * 100; ++spin) std::atomic_signal_fence({});
        if (auto const s = seen.lock(); s && i % 3 == 0) s->names->cancel();
        if (auto const s = seen.lock(); s && i % 3 == 1) s->names.reset();
        if (i % 2 == 0) io->poll();
        io.reset();
        BOOST_TEST(seen.expired());
        other.join();
        dns.wait_gone();
    }
}

BOOST_AUTO_TEST_CASE(an_exception_is_an_error) {
    asio::io_context io;
    name_resolver names(io.get_executor(), "a", 1,
                        [](auto const&, auto, auto&) -> endpoints { throw std::bad_alloc(); });
    result r;
    names.resolve(r.handler());
    io.run();
    BOOST_REQUIRE(r.code.has_value());
    BOOST_TEST(!!*r.code);
}

BOOST_AUTO_TEST_CASE(the_thread_takes_no_signals) {
    asio::io_context io;
    std::atomic<bool> blocked = false;
    name_resolver names(io.get_executor(), "a", 1, [&](auto const&, auto, auto&) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1;
        return endpoints{};
    });
    result r;
    names.resolve(r.handler());
    io.run();
    BOOST_TEST(blocked);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    BOOST_TEST(sigismember(&mask, SIGUSR1) == 0);
}

#if defined(__GLIBC__) && !defined(HOLDFAST_TEST_SANITIZED)
BOOST_AUTO_TEST_CASE(a_thread_that_cannot_be_started_is_an_error) {
    asio::io_context io;
    name_server dns;
    name_resolver names(io.get_executor(), "a", 1, dns.function());
    result r;
    pthread_attr_t usual, impossible;
    BOOST_REQUIRE(pthread_getattr_default_np(&usual) == 0);
    pthread_attr_init(&impossible);
    pthread_attr_setstacksize(&impossible, std::size_t{1} << 50);
    BOOST_REQUIRE(pthread_setattr_default_np(&impossible) == 0);
    names.resolve(r.handler());
    BOOST_REQUIRE(pthread_setattr_default_np(&usual) == 0);
    BOOST_TEST(!r.code.has_value());
    io.run();
    BOOST_REQUIRE(r.code.has_value());
    BOOST_TEST(*r.code == asio::error::try_again);
    BOOST_TEST(dns.asked() == 0);

    dns.answer();
    result later;
    names.resolve(later.handler());
    io.restart();
    io.run();
    BOOST_TEST(later.found.size() == 2u);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
