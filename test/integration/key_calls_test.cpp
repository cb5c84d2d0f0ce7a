// The calls on a key that are not its lock's, while memory runs out. Whichever allocation fails, no
// handler is lost, and at most one call ends with out_of_memory.
#include <holdfast/key_report.hpp>

#include "integration/test_client.hpp"
#include "support/failing_new.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool everywhere(void* const*, std::size_t) {
    return true;
}

client_options on_one_thread() {
    auto options = without_questions();
    options.thread_safe = false; // without memory for itself, Asio's strand loses work
    return options;
}

/// The calls of one life of a client, in which one allocation fails.
class life {
public:
    explicit life(fleet const& servers)
        : client_(servers, on_one_thread()) {
        BOOST_REQUIRE(client_.all_up());
    }

    struct call {
        bool made = false, called = false;
        error how;
        key_report report;

        bool is_over() const { return !made || called; }
        /// A call that threw was not made.
        bool is_hurt() const { return !made || how; }
        auto handler() {
            return [this](error e, key_report r) {
                called = true;
                how = std::move(e);
                report = std::move(r);
            };
        }
    };

    template <class Work>
    void attempt(call& c, Work work) {
        resume_counting();
        try {
            work();
            c.made = true;
        } catch (std::bad_alloc const&) {
            ++thrown;
        }
        allocate_as_ever();
    }
    /// Runs the client until it has happened. Exceptions may leave through the context.
    [[nodiscard]] bool until(std::function<bool()> const& happened) {
        auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        client_.context.restart();
        while (!happened() && std::chrono::steady_clock::now() < limit) {
            resume_counting();
            try {
                client_.context.run_one_for(std::chrono::milliseconds(5));
            } catch (std::bad_alloc const&) {
                ++thrown;
            }
            allocate_as_ever();
        }
        return happened();
    }
    client& locks() { return client_.locks; }

    unsigned thrown = 0;

private:
    test_client client_;
};

/// Lets each allocation of `each_life` fail, one after the other, until a life has no more.
template <class Life>
void sweep(fleet const& servers, Life each_life) {
    unsigned failed = 0;
    for (std::uint64_t n = 0, beyond = 0; beyond < 3; ++n) {
        life l(servers);
        fail_allocation(n, everywhere);
        allocate_as_ever();
        BOOST_TEST_CONTEXT("allocation " << n) {
            each_life(l);
        }
        if (!last_failed_allocation().reached) ++beyond;
        if (last_failed_allocation().failed) ++failed;
    }
    BOOST_TEST_MESSAGE(failed << " allocations failed");
    BOOST_TEST(failed > 20U);
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_calls)

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_loses_no_wait_for_a_change) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    sweep(servers, [&](life& l) {
        cli.del("k");
        life::call known;
        l.attempt(known, [&] { l.locks().wait_change("k", {}, known.handler()); });
        BOOST_REQUIRE(l.until([&] { return known.is_over(); }));
        std::array<life::call, 3> all;
        for (auto& c : all) {
            l.attempt(c, [&] { l.locks().wait_change("k", known.report, c.handler()); });
        }
        cli.set("k", "somebody");
        BOOST_REQUIRE(
            l.until([&] { return all[0].is_over() && all[1].is_over() && all[2].is_over(); }));
        // The calls on a key share their round. The loss of a link is no error to them.
        for (auto const& c : all) {
            if (c.made && c.how)
                BOOST_TEST((c.how == errc::out_of_memory || c.how == errc::shut_down),
                           c.how.what());
        }
        life::call next;
        l.attempt(next, [&] { l.locks().inspect("k", next.handler()); });
        BOOST_REQUIRE(l.until([&] { return next.is_over(); }));
    });
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_loses_no_forced_release) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    sweep(servers, [&](life& l) {
        for (auto const* const key : {"k", "other"}) cli.set(key, "somebody");
        std::array<life::call, 2> all;
        l.attempt(all[0], [&] { l.locks().force_release("k", all[0].handler()); });
        l.attempt(all[1], [&] {
            l.locks().release("other", "somebody", [&c = all[1]](error e) {
                c.called = true;
                c.how = std::move(e);
            });
        });
        BOOST_REQUIRE(l.until([&] { return all[0].is_over() && all[1].is_over(); }));
        // No success without the deletion.
        if (!all[0].is_hurt() && all[0].report.state == key_state::held)
            BOOST_TEST(!cli.exists("k"));
        if (!all[1].is_hurt()) BOOST_TEST(!cli.exists("other"));
    });
}

BOOST_AUTO_TEST_CASE(an_allocation_that_fails_loses_no_revocation) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    cli.set("k", "somebody");
    std::string digest;
    {
        test_client client(servers);
        client.locks.inspect("k", [&](error, key_report const& r) { digest = r.digest; });
        BOOST_REQUIRE(client.until([&] { return !digest.empty(); }));
    }
    sweep(servers, [&](life& l) {
        cli.set("k", "somebody");
        life::call c;
        l.attempt(c, [&] { l.locks().revoke("k", digest, c.handler()); });
        BOOST_REQUIRE(l.until([&] { return c.is_over(); }));
        // No success without a tombstone.
        if (!c.is_hurt()) BOOST_TEST(cli.get("k").value_or("").starts_with("revoked@"));
    });
}

BOOST_AUTO_TEST_SUITE_END()
