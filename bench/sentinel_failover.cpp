#include "sentinel_failover.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "series.hpp"
#include "support/sentinel_group.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using wall_clock = std::chrono::steady_clock;

constexpr auto patience = 120s;

/// The setting with which the figures of the documents were measured.
test::sentinel_group_options quick_to_notice() {
    test::sentinel_group_options o;
    o.down_after = 1s;
    return o;
}

struct seen {
    double named_ms = 0, used_ms = 0, lock_ms = 0;
    unsigned kept = 0;
};

class failover {
public:
    explicit failover(failover_settings const& s)
        : settings_(s)
        , client_(context_.get_executor(), {address(group_.url())}, options()) {}

    seen run(std::function<void(test::sentinel_group&)> const& fault) {
        take_leases();
        auto const before = group_.majority().value();
        auto const first = client_.instances()[0].primary;
        auto const begun = wall_clock::now();
        auto const since = [&] {
            return std::chrono::duration<double, std::milli>(wall_clock::now() - begun).count();
        };
        fault(group_);
        seen result;
        // The thread asks the sentinels: that must not hold the client up.
        std::jthread const monitor([&] {
            group_.wait_for_switch(before, patience);
            result.named_ms = since();
        });
        until([&] {
            auto const now = client_.instances()[0].primary;
            return !now.empty() && now != first && client_.instances()[0].connections > 1;
        });
        result.used_ms = since();
        auto const lock = client_.make_lock("fresh", {.ttl = settings_.ttl});
        for (auto granted = false; !granted;) {
            auto done = false;
            lock.try_acquire([&](error const& e, lease) {
                granted = !e;
                done = true;
            });
            until([&] { return done; });
            if (granted) break;
            auto const next = wall_clock::now() + 20ms;
            until([&] { return wall_clock::now() >= next; });
        }
        result.lock_ms = since();
        result.kept = static_cast<unsigned>(
            std::count_if(leases_.begin(), leases_.end(), [](lease const& l) { return l.held(); }));
        return result;
    }

private:
    client_options options() const {
        client_options o;
        o.max_ttl = settings_.ttl;
        return o;
    }
    template <class Predicate>
    void until(Predicate happened) {
        auto const end = wall_clock::now() + patience;
        context_.restart();
        while (!happened()) {
            if (wall_clock::now() > end) throw std::runtime_error("the fail-over does not end");
            context_.run_one_for(5ms);
        }
    }
    void take_leases() {
        for (unsigned i = 0; i < settings_.leases; ++i) {
            client_.make_lock("lease:" + std::to_string(i), {.ttl = settings_.ttl})
                .acquire([this](error const& e, lease l) {
                    if (e) throw std::runtime_error(e.what());
                    leases_.push_back(std::move(l));
                });
        }
        until([&] { return leases_.size() == settings_.leases; });
        for (std::size_t m = 1; m < group_.members(); ++m) {
            auto replica = group_.cli(m);
            auto const keys = static_cast<std::int64_t>(settings_.leases);
            until([&] { return replica.dbsize() >= keys; });
        }
    }

    failover_settings const settings_;
    test::sentinel_group group_{quick_to_notice()};
    asio::io_context context_{1};
    client client_;
    std::vector<lease> leases_;
};

} // namespace

boost::json::object sentinel_failover_scenario(failover_settings const& s) {
    struct fault {
        char const* name;
        std::function<void(test::sentinel_group&)> happens;
    };
    std::array<fault, 3> const faults{{{"killed", [](auto& group) { group.member(0).kill(); }},
                                       {"frozen", [](auto& group) { group.member(0).freeze(); }},
                                       {"planned", [](auto& group) { group.begin_failover(); }}}};
    boost::json::object result{{"leases", s.leases}, {"ttl_s", s.ttl.count()}};
    for (auto const& f : faults) {
        series of;
        unsigned kept = 0;
        for (unsigned round = 0; round < s.rounds; ++round) {
            failover trial(s);
            auto const found = trial.run(f.happens);
            of.add("named_ms", found.named_ms);
            of.add("used_ms", found.used_ms);
            of.add("lock_ms", found.lock_ms);
            kept += found.kept;
        }
        result[f.name] = boost::json::object{{"named_ms", json_value(of["named_ms"])},
                                             {"used_ms", json_value(of["used_ms"])},
                                             {"new_lock_ms", json_value(of["lock_ms"])},
                                             {"leases_kept", kept},
                                             {"leases_lost", s.leases * s.rounds - kept}};
    }
    return result;
}

} // namespace holdfast::bench
