// TLS over time: sessions that are resumed, and certificates that are renewed while locks are held.
#include "integration/loss_wait.hpp"
#include "integration/tls_fleet.hpp"
#include "support/text.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

bool is_resumed(instance_status const& s) {
    return contains(s.tls, "session resumed");
}

/// Ends the connection of the instance, and waits for the next one.
void reconnect(test_client& p, tls_fleet const& f, std::size_t i) {
    auto const before = p.status(i).connections;
    tls_fleet::cut((*f.servers)[i]);
    BOOST_REQUIRE(p.until([&] { return p.status(i).connections > before; }));
    BOOST_REQUIRE(p.becomes(i, instance_state::up));
}

bool resumes(test_client& p, tls_fleet const& f, std::size_t i = 0) {
    reconnect(p, f, i);
    return is_resumed(p.status(i));
}

/// Leases that are held, and others that come and go, for the time of a test.
class load {
public:
    explicit load(test_client& p)
        : p_(p) {
        for (unsigned n = 0; n < held_count; ++n) {
            auto& l = held_.emplace_back(p.hold("held:" + std::to_string(n), {.ttl = renewed_ttl}));
            watches_.emplace_back().start(l);
        }
        for (unsigned n = 0; n < busy_count; ++n) {
            asio::co_spawn(p.context, work("busy:" + std::to_string(n)), [](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
            });
        }
    }

    /// Runs until more leases were given, and more renewed, than there are at once.
    void go_on() {
        auto const before = p_.locks.stats();
        BOOST_REQUIRE(p_.until(
            [&] {
                auto const now = p_.locks.stats();
                return now.acquired > before.acquired + 10 * busy_count &&
                       now.extended > before.extended + held_count;
            },
            30s));
    }
    void check_none_lost() {
        BOOST_TEST(failed_ == 0U, last_failure_);
        for (auto const& w : watches_) BOOST_TEST(!w.done);
        for (auto const& l : held_) BOOST_TEST(l.held());
        BOOST_TEST(p_.locks.stats().lost == 0U);
    }
    void end() {
        over_ = true;
        BOOST_REQUIRE(p_.until([&] { return running_ == 0; }));
        for (auto& l : held_) BOOST_TEST(p_.releases(l));
    }

private:
    static constexpr unsigned held_count = 20, busy_count = 20;

    asio::awaitable<void> work(std::string key) {
        ++running_;
        auto const lock = p_.locks.make_lock(key, {.ttl = renewed_ttl});
        while (!over_) {
            auto tried = co_await lock.acquire(asio::as_tuple);
            auto& [e, l] = tried;
            if (e) {
                ++failed_;
                last_failure_ = e.what();
            }
            co_await l.release();
        }
        --running_;
    }

    test_client& p_;
    std::deque<lease> held_;
    std::deque<loss_wait> watches_;
    bool over_ = false;
    unsigned running_ = 0, failed_ = 0;
    std::string last_failure_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(tls_rotation)

BOOST_AUTO_TEST_CASE(a_lost_connection_resumes_its_session) {
    on_oldest_and_newest([](server_kind const& kind) {
        for (auto const* const version : {"TLSv1.2", "TLSv1.3"}) {
            BOOST_TEST_CONTEXT(version) {
                tls_fleet const f(1, kind, {.arguments = {"--tls-protocols", version}});
                test_client p(f.addresses());
                BOOST_REQUIRE(p.all_up());
                BOOST_TEST(!is_resumed(p.status(0)));
                for (int n = 0; n < 3; ++n) BOOST_TEST(resumes(p, f));
            }
        }
    });
}

// The tickets of one instance are of no use at another.
BOOST_AUTO_TEST_CASE(each_instance_has_sessions_of_its_own) {
    tls_fleet const f(2);
    test_client p(f.addresses());
    BOOST_REQUIRE(p.all_up());
    for (std::size_t i = 0; i < 2; ++i) {
        BOOST_TEST(!is_resumed(p.status(i)));
        BOOST_TEST(resumes(p, f, i));
    }
}

BOOST_AUTO_TEST_CASE(a_change_of_trust_resumes_no_session) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet const f(1, kind);
        test_client p(f.addresses());
        BOOST_REQUIRE(p.all_up());
        BOOST_TEST(resumes(p, f));
        f.at.write("ca", authority().certificate() + f.root.certificate());
        BOOST_TEST(!resumes(p, f));
        BOOST_TEST(resumes(p, f));
    });
}

// The session would be verified by the authority that is trusted no more.
BOOST_AUTO_TEST_CASE(an_authority_that_is_trusted_no_more_is_refused) {
    tls_fleet const f(1);
    test_client p(f.addresses());
    BOOST_REQUIRE(p.all_up());
    BOOST_TEST(resumes(p, f));
    f.at.write("ca", authority().certificate());
    tls_fleet::cut((*f.servers)[0]);
    BOOST_TEST(p.until([&] { return contains(p.status(0).message, "is not trusted"); }));
}

BOOST_AUTO_TEST_CASE(new_certificates_of_servers_lose_no_lease) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(3, kind);
        test_client p(f.addresses());
        BOOST_REQUIRE(p.all_up());
        load work(p);
        work.go_on();
        // A new authority, in the three steps that an operator takes.
        authority const next;
        f.at.write("ca", f.root.certificate() + next.certificate());
        work.go_on();
        f.rotate(next.issue(usual_names));
        work.go_on(); // on the connections that are open
        for (std::size_t i = 0; i < 3; ++i) {
            reconnect(p, f, i);
            BOOST_TEST(!is_resumed(p.status(i)));
            work.go_on();
        }
        f.at.write("ca", next.certificate());
        for (std::size_t i = 0; i < 3; ++i) {
            reconnect(p, f, i);
            work.go_on();
        }
        work.check_none_lost();
        work.end();
        check_nothing_left(p, *f.servers);
    });
}

// The certificate comes first and its key later, with lost connections in between.
BOOST_AUTO_TEST_CASE(new_files_of_the_client_lose_no_lease) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(3, kind, {.wants_certificate = true});
        f.use(f.root.issue({.common_name = "first"}));
        test_client p(f.addresses());
        BOOST_REQUIRE(p.all_up());
        load work(p);
        work.go_on();
        auto const next = f.root.issue({.common_name = "second"});
        f.at.write("cert", next.certificate);
        for (std::size_t i = 0; i < 3; ++i) {
            reconnect(p, f, i);
            BOOST_TEST(p.status(i).tls_problem == "key " + f.own.key_file +
                                                      " is not the key of cert " +
                                                      f.own.certificate_file);
            work.go_on();
        }
        f.at.write("key", next.key);
        for (std::size_t i = 0; i < 3; ++i) {
            reconnect(p, f, i);
            BOOST_TEST(p.status(i).tls_problem == "");
            work.go_on();
        }
        std::filesystem::remove(f.own.ca_file);
        for (std::size_t i = 0; i < 3; ++i) {
            reconnect(p, f, i);
            BOOST_TEST(contains(p.status(i).tls_problem, "cannot read ca " + f.own.ca_file));
            work.go_on();
        }
        work.check_none_lost();
        work.end();
        check_nothing_left(p, *f.servers);
    });
}

BOOST_AUTO_TEST_SUITE_END()
