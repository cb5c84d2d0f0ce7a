// Instances with names: a name that DNS does not answer delays no other instance.
#include <holdfast/client.hpp>

#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/proxy.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <cstddef>
#include <dlfcn.h>
#include <functional>
#include <mutex>
#include <netdb.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view silent_name = "silent.test";
constexpr std::string_view known_name = "known.test";

/// Replaces DNS in this program.
struct name_service {
    std::mutex mutex;
    std::condition_variable changed;
    bool silent = true; ///< silent_name gets no answer
    bool known = true;  ///< known_name has `addresses`
    std::vector<std::string> addresses{"127.0.0.1"};
    std::size_t waiting = 0, asked_for_known = 0;
};

name_service& dns() {
    static name_service service;
    return service;
}

/// Makes DNS silent until the end of the test.
struct silence {
    silence() { set(true); }
    ~silence() {
        set(false);
        std::unique_lock lock(dns().mutex);
        dns().changed.wait(lock, [] { return dns().waiting == 0; });
    }
    void set(bool on) {
        std::lock_guard const lock(dns().mutex);
        dns().silent = on;
        dns().changed.notify_all();
    }
    static std::size_t waiting() {
        std::lock_guard const lock(dns().mutex);
        return dns().waiting;
    }
};

/// known_name has these addresses until the end of the test.
struct several_addresses {
    explicit several_addresses(std::vector<std::string> all) { set(std::move(all)); }
    ~several_addresses() { set({"127.0.0.1"}); }
    static void set(std::vector<std::string> all) {
        std::lock_guard const lock(dns().mutex);
        dns().addresses = std::move(all);
    }
};

using look_up = int (*)(char const*, char const*, addrinfo const*, addrinfo**);

} // namespace

// Replaces the function of the C library for the two names.
extern "C" int getaddrinfo(char const* name, char const* service, addrinfo const* hints,
                           addrinfo** found) {
    static auto const system = reinterpret_cast<look_up>(dlsym(RTLD_NEXT, "getaddrinfo"));
    std::string_view const wanted = name == nullptr ? "" : name;
    if (wanted == silent_name) {
        std::unique_lock lock(dns().mutex);
        ++dns().waiting;
        dns().changed.wait(lock, [] { return !dns().silent; });
        --dns().waiting;
        dns().changed.notify_all();
        return EAI_AGAIN;
    }
    if (wanted != known_name) return system(name, service, hints, found);
    std::vector<std::string> addresses;
    {
        std::lock_guard const lock(dns().mutex);
        ++dns().asked_for_known;
        if (!dns().known) return EAI_NONAME;
        addresses = dns().addresses;
    }
    for (auto const& address : addresses) {
        auto const failure = system(address.c_str(), service, hints, found);
        if (failure != 0) return failure;
        while (*found != nullptr) found = &(*found)->ai_next;
    }
    return 0;
}

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(a_name_without_an_answer_holds_up_no_other_instance) {
    silence const s;
    fleet good(2);
    auto options = patient();
    options.connect_timeout = 100ms; // also limits the look-up
    test_client client({std::string(silent_name) + ":6379", good[0].url(), good[1].url()}, options);
    auto [e, l] = client.acquire("k");
    BOOST_TEST(!e, e.what());
    BOOST_TEST(l.held());
    BOOST_REQUIRE(client.until([] { return silence::waiting() == 1; }));
    // The status shows the name.
    BOOST_TEST(client.goes_down(0, errc::unreachable));
    auto const message = client.status(0).message;
    BOOST_TEST(message.find(silent_name) != message.npos, message);
    BOOST_TEST(client.releases(l));
    auto [again, second] = client.acquire("k");
    BOOST_TEST(!again, again.what());
    BOOST_TEST(client.releases(second));
    // The look-up of a name has only one thread, however often the client asks.
    BOOST_TEST(silence::waiting() == 1U);
}

BOOST_AUTO_TEST_CASE(a_client_ends_while_a_name_has_no_answer) {
    silence const s;
    fleet good(2);
    {
        test_client client({std::string(silent_name) + ":6379", good[0].url(), good[1].url()});
        auto l = client.hold("k");
        BOOST_REQUIRE(client.until([] { return silence::waiting() == 1; }));
        BOOST_TEST(client.releases(l));
    }
    BOOST_TEST(silence::waiting() == 1U);
}

// The thread of the look-up exists only in the parent.
BOOST_AUTO_TEST_CASE(the_child_of_a_fork_does_not_wait_for_a_name) {
    using asio::execution_context;
    silence const s;
    fleet good(2);
    test_client client({std::string(silent_name) + ":6379", good[0].url(), good[1].url()});
    auto l = client.hold("k");
    BOOST_REQUIRE(client.until([] { return silence::waiting() == 1; }));
    client.context.notify_fork(execution_context::fork_prepare);
    auto const pid = ::fork();
    if (pid == 0) {
        ::alarm(60);
        client.context.notify_fork(execution_context::fork_child);
        client.context.restart();
        client.context.run_for(20s);
        ::_exit(client.context.stopped() ? 0 : 1);
    }
    client.context.notify_fork(execution_context::fork_parent);
    BOOST_REQUIRE(pid > 0);
    int status = -1;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(status == 0);
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(a_name_that_is_no_longer_known_is_used_at_its_last_address) {
    server redis;
    proxy between(redis);
    test_client client({std::string(known_name) + ':' + std::to_string(between.port())});
    auto l = client.hold("k");
    std::size_t asked = 0;
    {
        std::lock_guard const lock(dns().mutex);
        dns().known = false;
        asked = dns().asked_for_known;
    }
    between.cut();
    BOOST_TEST(client.becomes(0, instance_state::down));
    BOOST_TEST(client.becomes(0, instance_state::up));
    {
        std::lock_guard const lock(dns().mutex);
        dns().known = true;
        BOOST_TEST(dns().asked_for_known > asked);
    }
    BOOST_TEST(client.releases(l));
}

// As services do that replace a machine.
BOOST_AUTO_TEST_CASE(a_name_whose_address_changes_leads_to_the_new_one) {
    server redis;
    redis_cli admin(redis);
    admin.config("bind", "127.0.0.1 127.0.0.2");
    test_client client({std::string(known_name) + ':' + std::to_string(redis.port())});
    auto const uses = [&](std::string const& address) {
        auto const connections = admin.command({"CLIENT", "LIST", "TYPE", "NORMAL"}).string();
        return contains(connections, " laddr=" + address + ':');
    };
    auto l = client.hold("k");
    BOOST_TEST(!uses("127.0.0.2"));
    auto const change = [](std::string const& address) { several_addresses::set({address}); };
    change("127.0.0.2");
    admin.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    BOOST_TEST(client.until([&] { return client.status(0).connections == 2; }));
    change("127.0.0.1");
    BOOST_TEST(uses("127.0.0.2"));
    BOOST_TEST(client.releases(l));
}

// A dead address beside a good one, as of a machine that is gone.
BOOST_AUTO_TEST_CASE(a_name_with_several_addresses_is_connected_where_it_is_served) {
    using asio::ip::tcp;
    server redis;
    several_addresses const all({"127.0.0.2", "127.0.0.3", "127.0.0.1"});
    auto options = patient();
    options.connect_timeout = 1s;
    options.instance_timeout = 500ms; // a silent server is given up after it
    auto const connects = [&] {
        test_client client({std::string(known_name) + ':' + std::to_string(redis.port())}, options);
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
    };
    // Nobody listens at the other addresses.
    connects();
    // A program that says nothing.
    asio::io_context context;
    tcp::acceptor other(context);
    other.open(tcp::v4());
    other.set_option(tcp::acceptor::reuse_address(true));
    other.bind({asio::ip::make_address("127.0.0.2"), redis.port()});
    other.listen();
    connects();
    // It closes each connection at once.
    std::function<void()> accept = [&] {
        other.async_accept([&](boost::system::error_code ec, tcp::socket const&) {
            if (!ec) accept();
        });
    };
    accept();
    std::jthread const closing([&] { context.run(); });
    connects();
    asio::post(context, [&] { other.close(); });
}

BOOST_AUTO_TEST_SUITE_END()
