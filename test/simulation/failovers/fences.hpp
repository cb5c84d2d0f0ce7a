// The fences of leases behind Sentinel: the hints of clients, the first counters, and the check of
// S2 (doc/guarantees.md).
//
// Replicas copy the counter with the key, so a fail-over may lose the last numbers. The hint of the
// next tenure must then be greater than each number that was lost. Why it is, if an earlier tenure
// was won at the old primary O, and a client now wins one at the new primary N:
//  - Let the client first see N at the time t. No grant of O counts after t + M
//    (sentinel_directory.hpp). So all hints that O counted before the earlier tenure was won were
//    read before t + M.
//  - The client asks for the lock only when grants count: from t + M + max_ttl on. So its hint was
//    read at least max_ttl later.
//  - So its hint is greater if the wall clocks of any two clients differ by less than max_ttl, less
//    the drift of their lease clocks. The M of the quarantine does not help, because grants of O
//    count for M too.
//  - N must believe the hint, and O's counter must not have run ahead of all hints.
// A client that asks before its grant can count reads its hint too early. Nothing of max_ttl may be
// left then, because a try may last that long.
//
// If each replica that may be promoted has each grant that counts, it has the number as well. S2
// then needs neither hints nor guards.
#ifndef HOLDFAST_TEST_SIMULATION_FAILOVERS_FENCES_HPP
#define HOLDFAST_TEST_SIMULATION_FAILOVERS_FENCES_HPP

#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"

#include "simulation/failovers/servers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <set>
#include <string>

namespace holdfast::test {

class failover_fences : protected failover_servers {
protected:
    failover_fences(std::uint64_t seed, failover_tally& seen, failover_setup const& setup,
                    std::ostream* story)
        : failover_servers(seed, seen, setup, story)
        , error_(apart(setup).count() / 2) {
        if (!setup.fences) return;
        set_up_counters();
        set_up_clocks();
    }
    ~failover_fences() = default;

    /// An acquire is sent now, so its tenure begins.
    void begin_tenure(request& r) {
        if (!setup_.fences) return;
        r.hint = read_hint(r.client);
        r.greatest = greatest_;
    }

    /// The tenure is won. Gives its lease a fence.
    void issue(request const& r) {
        if (!setup_.fences) return;
        if (!protocol::is_fence_count(r.number))
            return fail("S2", "a number that no tenure may have");
        if (!issued_.insert(protocol::fence_of(r.number, 0)).second)
            return fail("S2", "two leases have the fence of " + std::to_string(r.number));
        if (r.number <= r.greatest)
            return fail("S2", "a later tenure has the number " + std::to_string(r.number) +
                                  ", after " + std::to_string(r.greatest));
        if (r.lacked) ++seen_.saved_by_hint; // otherwise the number would be too small
        greatest_ = std::max(greatest_, r.number);
    }

private:
    static constexpr true_time millisecond = second / 1'000, minute = 60 * second;

    /// The greatest difference of two wall clocks of clients.
    duration apart(failover_setup const& setup) const {
        if (setup.fences && setup.fences->clocks == hint_clocks::too_far_apart)
            return max_ttl_ + m / 5;
        return max_ttl_ - protocol::redlock_rules::drift(max_ttl_);
    }
    /// The hint of a wall clock that is wrong by so much.
    std::uint64_t hint_at(true_time error) const {
        return protocol::fence_hint(
            std::chrono::milliseconds((beginning + now() + error) / millisecond));
    }

    std::uint64_t read_hint(unsigned c) {
        switch (setup_.fences->clocks) {
        case hint_clocks::close:
        case hint_clocks::too_far_apart:
            break;
        case hint_clocks::arbitrary:
            // Near the true time, or any year until 2270.
            if (one_in(2)) return hint_at(between(-2 * minute, 2 * minute));
            return protocol::fence_hint(
                std::chrono::milliseconds(some(300 * (beginning / 54 / millisecond))));
        case hint_clocks::none:
            return 0;
        }
        auto const how = jumps_ ? below(3) : c == ahead_ ? 0 : 1;
        return hint_at(how == 0 ? error_ : how == 1 ? -error_ : between(-error_, error_));
    }

    void set_up_counters() {
        auto counter = std::uint64_t{0};
        if (!setup_.fences->counts_by_clock) {
            counter = hint_at(error_ + some(max_ttl_ * 4));
        } else if (setup_.fences->believes_hints && one_in(2)) {
            counter = one_in(3) ? 5 : hint_at(-error_ - some(minute * 10));
        }
        for (auto& s : servers_) s.has.counter = counter;
    }

    void set_up_clocks() {
        jumps_ = one_in(3);
        ahead_ = static_cast<unsigned>(below(3));
        if (!setup_.fences->believes_hints) {
            servers_[below(servers_.size())].offset = -beginning / 2;
        } else if (setup_.clocks_differ && one_in(4)) {
            // As slow as a clock may be that still lets the server believe right hints.
            servers_[below(servers_.size())].offset = error_ - minute + 10 * millisecond;
        }
    }

    true_time const error_; ///< of the wall clocks, at most
    bool jumps_ = false;    ///< wall clocks jump between their bounds
    unsigned ahead_ = 0; ///< otherwise the clock of this client is ahead, and the others are behind
    std::set<std::uint64_t> issued_; ///< the fences of all leases
    std::uint64_t greatest_ = 0;     ///< the greatest number of a tenure that was won
};

} // namespace holdfast::test

#endif
