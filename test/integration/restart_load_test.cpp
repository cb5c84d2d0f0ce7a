// Instances crash while clients work under load. A referee looks for locks with two holders.
#include <holdfast/observer.hpp>

#include "integration/guards.hpp"
#include "integration/load.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

bool all_are_up(client const& c) {
    auto const all = c.instances();
    return std::all_of(all.begin(), all.end(),
                       [](auto const& s) { return s.state == instance_state::up; });
}

/// The instances of a client that were in quarantine, also for a moment.
class quarantines : public observer {
public:
    void forget() {
        std::lock_guard const lock(mutex_);
        addresses_.clear();
    }
    std::size_t size() const {
        std::lock_guard const lock(mutex_);
        return addresses_.size();
    }

private:
    void on_instance(instance_event const& e) override {
        if (e.status.state != instance_state::quarantined) return;
        std::lock_guard const lock(mutex_);
        addresses_.insert(e.status.address);
    }

    mutable std::mutex mutex_;
    std::set<std::string> addresses_;
};

/// Three clients work. A fourth one holds a lease on one of their keys during each crash, without
/// renewal.
struct scenario {
    scenario(std::vector<std::string> const& disk, restart_policy how,
             std::chrono::milliseconds longest)
        : servers(5, {.arguments = disk})
        , options(guarded(how, longest))
        , holder(servers, options) {
        for (auto& seen : quarantined) {
            options.observer = &seen;
            working.push_back(std::make_unique<load>(addresses_of(servers), options,
                                                     std::vector<std::string>{"a", "b"}, judge));
        }
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(all_go_on(working, 3));
    }
    ~scenario() {
        for (auto const& load : working) load->stop();
    }
    /// Each working client has had so many instances in quarantine.
    [[nodiscard]] bool all_quarantined(std::size_t count) const {
        return wait_until(
            [&] {
                return std::all_of(quarantined.begin(), quarantined.end(),
                                   [&](auto const& seen) { return seen.size() == count; });
            },
            15s);
    }

    fleet servers;
    client_options options;
    referee judge;
    test_client holder;
    std::array<quarantines, 3> quarantined;
    loads working;
};

} // namespace

BOOST_AUTO_TEST_SUITE(restart_load)

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_whichever_instances_crash) {
    for (auto const& disk : {no_log, fsync_everysec, fsync_always}) {
        auto const forgets = disk != fsync_always;
        // Instances that remember keep the lease during the crash. For the others, the test waits
        // until the lease ends.
        auto const longest =
            forgets ? std::chrono::milliseconds(2s) : std::chrono::milliseconds(60s);
        BOOST_TEST_CONTEXT((disk.empty() ? "no persistence" : disk.back())) {
            scenario s(disk, restart_policy::observed, longest);
            for (std::size_t const n : {1U, 2U, 3U}) {
                BOOST_TEST_CONTEXT(n << " of five") {
                    auto const failed = failures_of(s.working);
                    auto l = s.holder.hold("a", unwatched(longest));
                    s.judge.begins("a", l);
                    auto const before = connections_of(s.holder);
                    for (auto& seen : s.quarantined) seen.forget();
                    crash(s.servers, the_first(n), {});
                    if (forgets) BOOST_TEST(s.all_quarantined(n));
                    // The clients get leases at least on the other key. A crashed minority causes
                    // no failure.
                    BOOST_TEST(all_go_on(s.working, 5));
                    BOOST_TEST((n > 2 || failures_of(s.working) == failed));
                    BOOST_REQUIRE(is_back(s.holder, before, the_first(n)));
                    BOOST_TEST(each(s.working, all_are_up));
                    BOOST_TEST(s.holder.all_up());
                    if (forgets) s.holder.pass(l.deadline());
                    s.judge.ends("a", l);
                    if (!forgets) BOOST_TEST(s.holder.releases(l));
                    BOOST_TEST(all_go_on(s.working, 10));
                }
            }
            for (auto const& load : s.working) {
                BOOST_TEST(load->stop());
                BOOST_TEST(load->surprises() == 0U);
                if (!forgets) BOOST_TEST(were_always_trusted(load->locks()));
            }
            BOOST_TEST(s.judge.overlaps() == 0U);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_same_load_without_the_guard_shows_two_holders) {
    scenario s(no_log, restart_policy::off, 60s);
    auto l = s.holder.hold("a", unwatched(60s));
    s.judge.begins("a", l);
    BOOST_TEST(s.judge.overlaps() == 0U);
    crash(s.servers, the_first(3), {&s.holder});
    BOOST_TEST(wait_until([&] { return s.judge.overlaps() > 0; }, 15s));
    BOOST_TEST(l.held());
    s.judge.ends("a", l);
    BOOST_TEST(s.holder.release(l).code().failed()); // a majority has lost the key
}

BOOST_AUTO_TEST_SUITE_END()
