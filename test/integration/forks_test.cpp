// A process forks while its client works. The parent keeps the locks, and the client of the child
// is shut down.
#include <holdfast/client.hpp>

#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using fork_event = asio::execution_context::fork_event;

/// Prints the expectations that are not met. The child uses it, because it must not use the test
/// framework.
class checklist {
public:
    void expect(bool met, char const* expectation) {
        if (met) return;
        all_met_ = false;
        std::cerr << "in the child: not true that " << expectation << std::endl;
    }
    bool all_met() const { return all_met_; }

private:
    bool all_met_ = true;
};

/// Forks as Asio demands. True if the child's expectations are met.
[[nodiscard]] bool in_a_child(asio::io_context& context,
                              std::function<void(checklist&)> const& work) {
    context.notify_fork(fork_event::fork_prepare);
    auto const pid = ::fork();
    if (pid == 0) {
        ::alarm(60);
        checklist list;
        try {
            context.notify_fork(fork_event::fork_child);
            work(list);
        } catch (std::exception const& e) {
            list.expect(false, e.what());
        }
        ::_exit(list.all_met() ? 0 : 1);
    }
    context.notify_fork(fork_event::fork_parent);
    BOOST_REQUIRE(pid > 0);
    int status = -1;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Runs the context. True if it runs out of work. A client that is shut down does not keep it busy.
bool comes_to_an_end(asio::io_context& context) {
    context.restart();
    context.run_for(20s);
    return context.stopped();
}

std::string token_at(server const& instance, std::string const& key) {
    return redis_cli(instance).get(key).value_or("none");
}

} // namespace

BOOST_AUTO_TEST_SUITE(forks)

// On a context with one thread the client calls handlers in place. The handlers after the fork are
// called in both processes.
BOOST_AUTO_TEST_CASE(a_handler_may_fork_where_it_is_called_in_place) {
    fleet servers(1);
    auto options = patient();
    options.thread_safe = false;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    pid_t pid = -1;
    std::vector<lease> all;
    for (auto n = 0; n < 6; ++n) {
        auto const key = client.locks.make_lock("key:" + std::to_string(n), long_lived);
        key.acquire([&](error, lease l) {
            all.push_back(std::move(l));
            if (pid != -1) return;
            client.context.notify_fork(fork_event::fork_prepare);
            pid = ::fork();
            if (pid == 0) ::alarm(60);
            client.context.notify_fork(pid == 0 ? fork_event::fork_child : fork_event::fork_parent);
        });
    }
    auto const called = client.until([&] { return all.size() == 6; });
    auto const held = std::count_if(all.begin(), all.end(), [](auto const& l) { return l.held(); });
    if (pid == 0) {
        checklist list;
        list.expect(called, "all handlers are called");
        list.expect(held == 0, "no lease is held");
        list.expect(comes_to_an_end(client.context), "the context has nothing more to do");
        ::_exit(list.all_met() ? 0 : 1);
    }
    BOOST_REQUIRE(pid > 0);
    int status = -1;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    BOOST_TEST(called);
    BOOST_TEST(held == 6);
    BOOST_TEST(redis_cli(servers[0]).dbsize() == 6);
}

BOOST_AUTO_TEST_CASE(the_locks_stay_the_parents) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    auto const token = token_at(servers[0], "k");
    std::optional<error> waited;
    std::optional<lease_end> end;
    lease next;
    client.locks.make_lock("k", {.ttl = 4s}).acquire([&](error e, lease got) {
        waited = std::move(e);
        next = std::move(got);
    });
    l.wait_end(noting(end));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));

    BOOST_TEST(in_a_child(client.context, [&](checklist& list) {
        list.expect(!l.held(), "the lease is not held");
        list.expect(comes_to_an_end(client.context), "the context has nothing more to do");
        list.expect(waited && *waited == errc::shut_down,
                    "who waited is told that it is shut down");
        list.expect(end == lease_end::shut_down, "who watched is told of the loss");
        std::optional<release_result> released;
        l.release([&](release_result r) { released = r; });
        std::optional<error> extended, tried, over;
        l.extend([&](error e) { extended = std::move(e); });
        client.locks.make_lock("other").try_acquire([&](error e, lease) { tried = std::move(e); });
        client.locks.shutdown([&](error e) { over = std::move(e); });
        list.expect(comes_to_an_end(client.context), "the context has nothing more to do, again");
        list.expect(released && *released == errc::lease_lost,
                    "a release says that the lease was lost");
        list.expect(extended && *extended == errc::lease_lost, "and so does an extension");
        list.expect(tried && *tried == errc::shut_down, "a new try is told that it is shut down");
        list.expect(over && !*over, "a shutdown ends");
        for (auto const& instance : client.locks.instances()) {
            list.expect(instance.state == instance_state::down, "no instance is connected");
        }
        l = {};
        list.expect(comes_to_an_end(client.context), "nothing is left to do");
    }));

    // The servers got no command from the child.
    BOOST_TEST(token_at(servers[0], "k") == token);
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(l.held());
    BOOST_TEST(client.renews(2));
    BOOST_TEST(!waited.has_value());
    BOOST_TEST(!end.has_value());
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(client.status(i).connections == 1U);
    BOOST_TEST(client.releases(l));
    BOOST_REQUIRE(client.until([&] { return waited.has_value(); }));
    BOOST_TEST(!*waited, waited->what());
    BOOST_TEST(client.releases(next));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(commands_that_were_not_sent_before_a_fork_are_sent_by_the_parent_alone) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("released", long_lived);
    std::optional<error> acquired;
    std::optional<release_result> released;
    lease got;
    client.locks.make_lock("acquired", long_lived).acquire([&](error e, lease a) {
        acquired = std::move(e);
        got = std::move(a);
    });
    l.release([&](release_result r) { released = r; });
    auto const before = client.locks.stats().commands;
    BOOST_TEST(in_a_child(client.context, [&](checklist& list) {
        list.expect(comes_to_an_end(client.context), "the context has nothing more to do");
        list.expect(acquired && *acquired == errc::shut_down,
                    "the acquire is told that it is shut down");
        list.expect(released && *released == errc::lease_lost,
                    "the release says that the lease was lost");
        list.expect(client.locks.stats().commands == before, "nothing is sent");
    }));
    BOOST_REQUIRE(client.until([&] { return acquired && released; }));
    BOOST_TEST(!*acquired, acquired->what());
    BOOST_TEST(released->confirmed());
    BOOST_TEST(client.releases(got));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_fork_between_a_question_and_its_answer_harms_nobody) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (auto& instance : servers) instance.freeze();
    std::optional<error> acquired;
    lease got;
    auto const before = client.locks.stats().commands;
    client.locks.make_lock("k", long_lived).acquire([&](error e, lease a) {
        acquired = std::move(e);
        got = std::move(a);
    });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().commands >= before + 3; }));
    BOOST_TEST(in_a_child(client.context, [&](checklist& list) {
        list.expect(comes_to_an_end(client.context), "the context has nothing more to do");
        list.expect(acquired && *acquired == errc::shut_down,
                    "the acquire is told that it is shut down");
    }));
    for (auto& instance : servers) instance.thaw();
    BOOST_REQUIRE(client.until([&] { return acquired.has_value(); }));
    BOOST_TEST(!*acquired, acquired->what());
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(client.releases(got));
}

BOOST_AUTO_TEST_CASE(the_child_can_make_a_client_of_its_own) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k");
    BOOST_REQUIRE(client.sees(servers, "k", true));
    BOOST_TEST(in_a_child(client.context, [&](checklist& list) {
        holdfast::client own(client.context.get_executor(), addresses_of(servers), patient());
        std::optional<error> denied, granted;
        lease got;
        own.make_lock("k").try_acquire([&](error e, lease) { denied = std::move(e); });
        own.make_lock("child", long_lived).acquire([&](error e, lease a) {
            granted = std::move(e);
            got = std::move(a);
        });
        auto const done = run_until(client.context, [&] { return denied && granted; });
        list.expect(done && *denied == errc::contended, "its parent's lock is held");
        list.expect(done && !*granted && got.held(), "it has a lock of its own");
    }));
    BOOST_TEST(token_at(servers[0], "child") != token_at(servers[0], "k"));
    BOOST_TEST(l.held());
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_holds_a_lock_may_fork) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto met = false;
    run(client.context, [&]() -> asio::awaitable<void> {
        auto const lock = client.locks.make_lock("k", {.ttl = 4s});
        auto l = co_await lock.acquire();
        // The fork may happen within a turn of the client, with other work in that turn.
        auto other = co_await lock.try_acquire_for(1ms, asio::as_tuple(asio::deferred));
        met = in_a_child(client.context,
                         [&](checklist& list) { list.expect(!l.held(), "the lease is not held"); });
        auto const released = co_await l.release();
        BOOST_TEST(released.confirmed());
    });
    BOOST_TEST(met);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_started_has_none_of_the_connections) {
    fleet servers(2);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    std::size_t connections = 0;
    for (int fd = 0; fd < 1'024; ++fd) {
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
        for (server const& instance : servers) {
            if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != instance.url_port()) continue;
            ++connections;
            BOOST_TEST((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        }
    }
    BOOST_TEST(connections == servers.size());
}

// A child that does not tell Asio of the fork is not supported. If it only exits, it sends nothing.
BOOST_AUTO_TEST_CASE(a_child_that_only_ends_harms_nobody) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 4s});
    auto const pid = ::fork();
    if (pid == 0) ::_exit(0);
    int status = -1;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(client.renews(2));
    BOOST_TEST(l.held());
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(client.status(i).connections == 1U);
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
