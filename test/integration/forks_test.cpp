// A process that forks while its client works: the locks stay the parent's, and the child's client
// is over.
#include <holdfast/client.hpp>

#include "integration/party.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/test/unit_test.hpp>

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

/// Says which of its expectations was not met. For a child, which must leave the test program
/// alone.
class checklist {
public:
    void expect(bool met, char const* what) {
        if (met) return;
        all_met_ = false;
        std::cerr << "in the child: not true that " << what << std::endl;
    }
    bool all_met() const { return all_met_; }

private:
    bool all_met_ = true;
};

/// Forks as Asio wants it. True: the child's expectations are met.
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

/// Runs until there is nothing more to do: a client that is over does not keep a context busy.
bool comes_to_an_end(asio::io_context& context) {
    context.restart();
    context.run_for(20s);
    return context.stopped();
}

std::string token_at(server const& one, std::string const& key) {
    return redis_cli(one).get(key).value_or("none");
}

} // namespace

BOOST_AUTO_TEST_SUITE(forks)

BOOST_AUTO_TEST_CASE(the_locks_stay_the_parents) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(p.sees(servers, "k", true));
    auto const token = token_at(servers[0], "k");
    std::optional<error> waited, lost;
    lease next;
    p.locks.make_lock("k", {.ttl = 4s}).acquire([&](error e, lease got) {
        waited = std::move(e);
        next = std::move(got);
    });
    l.wait_lost([&](error e) { lost = std::move(e); });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));

    BOOST_TEST(in_a_child(p.context, [&](checklist& list) {
        list.expect(!l.held(), "the lease is not held");
        list.expect(comes_to_an_end(p.context), "the context has nothing more to do");
        list.expect(waited && *waited == errc::shut_down,
                    "who waited is told that it is shut down");
        list.expect(lost && !*lost, "who watched is told of the loss");
        std::optional<release_result> released;
        l.release([&](release_result r) { released = r; });
        std::optional<error> extended, tried, over;
        l.extend([&](error e) { extended = std::move(e); });
        p.locks.make_lock("other").try_acquire([&](error e, lease) { tried = std::move(e); });
        p.locks.shutdown([&](error e) { over = std::move(e); });
        list.expect(comes_to_an_end(p.context), "the context has nothing more to do, again");
        list.expect(released && *released == errc::lease_lost,
                    "a release says that the lease was lost");
        list.expect(extended && *extended == errc::lease_lost, "and so does an extension");
        list.expect(tried && *tried == errc::shut_down, "a new try is told that it is shut down");
        list.expect(over && !*over, "a shutdown ends");
        for (auto const& one : p.locks.instances()) {
            list.expect(one.state == instance_state::down, "no instance is connected");
        }
        l = {};
        list.expect(comes_to_an_end(p.context), "nothing is left to do");
    }));

    // The servers have heard nothing of all that.
    BOOST_TEST(token_at(servers[0], "k") == token);
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(l.held());
    BOOST_TEST(p.renews(2));
    BOOST_TEST(!waited.has_value());
    BOOST_TEST(!lost.has_value());
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(p.status(i).connections == 1U);
    BOOST_TEST(p.releases(l));
    BOOST_REQUIRE(p.until([&] { return waited.has_value(); }));
    BOOST_TEST(!*waited, waited->what());
    BOOST_TEST(p.releases(next));
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(commands_that_were_not_sent_before_a_fork_are_sent_by_the_parent_alone) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("released", long_lived);
    std::optional<error> acquired;
    std::optional<release_result> released;
    lease got;
    p.locks.make_lock("acquired", long_lived).acquire([&](error e, lease a) {
        acquired = std::move(e);
        got = std::move(a);
    });
    l.release([&](release_result r) { released = r; });
    auto const before = p.locks.stats().commands;
    BOOST_TEST(in_a_child(p.context, [&](checklist& list) {
        list.expect(comes_to_an_end(p.context), "the context has nothing more to do");
        list.expect(acquired && *acquired == errc::shut_down,
                    "the acquire is told that it is shut down");
        list.expect(released && *released == errc::lease_lost,
                    "the release says that the lease was lost");
        list.expect(p.locks.stats().commands == before, "nothing is sent");
    }));
    BOOST_REQUIRE(p.until([&] { return acquired && released; }));
    BOOST_TEST(!*acquired, acquired->what());
    BOOST_TEST(static_cast<bool>(*released));
    BOOST_TEST(p.releases(got));
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(a_fork_between_a_question_and_its_answer_harms_nobody) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    for (auto& one : servers) one.freeze();
    std::optional<error> acquired;
    lease got;
    auto const before = p.locks.stats().commands;
    p.locks.make_lock("k", long_lived).acquire([&](error e, lease a) {
        acquired = std::move(e);
        got = std::move(a);
    });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().commands >= before + 3; }));
    BOOST_TEST(in_a_child(p.context, [&](checklist& list) {
        list.expect(comes_to_an_end(p.context), "the context has nothing more to do");
        list.expect(acquired && *acquired == errc::shut_down,
                    "the acquire is told that it is shut down");
    }));
    for (auto& one : servers) one.thaw();
    BOOST_REQUIRE(p.until([&] { return acquired.has_value(); }));
    BOOST_TEST(!*acquired, acquired->what());
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(p.releases(got));
}

BOOST_AUTO_TEST_CASE(the_child_can_make_a_client_of_its_own) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k");
    BOOST_REQUIRE(p.sees(servers, "k", true));
    BOOST_TEST(in_a_child(p.context, [&](checklist& list) {
        client own(p.context.get_executor(), addresses_of(servers), patient());
        std::optional<error> denied, granted;
        lease got;
        own.make_lock("k").try_acquire([&](error e, lease) { denied = std::move(e); });
        own.make_lock("child", long_lived).acquire([&](error e, lease a) {
            granted = std::move(e);
            got = std::move(a);
        });
        auto const done = run_until(p.context, [&] { return denied && granted; });
        list.expect(done && *denied == errc::contended, "its parent's lock is held");
        list.expect(done && !*granted && got.held(), "it has a lock of its own");
    }));
    BOOST_TEST(token_at(servers[0], "child") != token_at(servers[0], "k"));
    BOOST_TEST(l.held());
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_holds_a_lock_may_fork) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto met = false;
    run(p.context, [&]() -> asio::awaitable<void> {
        auto const lock = p.locks.make_lock("k", {.ttl = 4s});
        auto l = co_await lock.acquire();
        // Within the client's own turn, perhaps, and with other work in it.
        auto other = co_await lock.try_acquire_for(1ms, asio::as_tuple(asio::deferred));
        met = in_a_child(p.context,
                         [&](checklist& list) { list.expect(!l.held(), "the lease is not held"); });
        auto const released = co_await l.release();
        BOOST_TEST(static_cast<bool>(released));
    });
    BOOST_TEST(met);
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_started_has_none_of_the_connections) {
    fleet servers(2);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    std::size_t connections = 0;
    for (int fd = 0; fd < 1'024; ++fd) {
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
        for (server const& one : servers) {
            if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != one.port()) continue;
            ++connections;
            BOOST_TEST((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        }
    }
    BOOST_TEST(connections == servers.size());
}

// A child that does not tell Asio of the fork is not supported. If it just ends, it sends nothing.
BOOST_AUTO_TEST_CASE(a_child_that_only_ends_harms_nobody) {
    fleet servers(3);
    party p(servers);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", {.ttl = 4s});
    auto const pid = ::fork();
    if (pid == 0) ::_exit(0);
    int status = -1;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(p.renews(2));
    BOOST_TEST(l.held());
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(p.status(i).connections == 1U);
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
