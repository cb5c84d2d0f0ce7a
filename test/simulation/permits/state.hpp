// The state of a simulation of permits: processes with their acquires, a line of waiters and
// tenures, and instances with the slots, their deadlines and their counters.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_STATE_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_STATE_HPP

#include "protocol/quarantine.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tenure.hpp"

#include "simulation/kernel/tenures_network.hpp"
#include "simulation/permits/settings.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

namespace holdfast::test {

using namespace std::chrono_literals;

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

namespace permitting {

using tenure = protocol::basic_tenure<permits_tenure_rules>;
using milliseconds = std::int64_t; ///< of a server's clock

/// More slots than any schedule has.
inline constexpr unsigned slots = 16;

struct message : test::message {
    std::uint64_t number = 0; ///< sent: what the tenure asks for; answered: the count
    milliseconds ttl = 0;
    unsigned permits = 0, start = 0;
    std::optional<unsigned> slot{}; ///< sent: no other is taken; answered: that of the token
    bool adopts = false, tracks = false;
    time_point sent{};
    std::optional<milliseconds> left{}; ///< a reply: until the first slot may be free
};

using connection = guarded_connection<message>;

/// An acquire that comes again and again.
struct actor {
    enum class state : std::uint8_t {
        idle,
        queued,
        has_lease,
        gone
    };
    unsigned process = 0;
    state is = state::idle;
    unsigned permits = 1;
    duration ttl{};
    bool renewed = false, fenced = false, waits = true;
    std::optional<std::pair<unsigned, unsigned>> adopts{}; ///< the token that it takes over, slot
    int tenure = nobody;
    std::uint64_t ticket = 0; ///< changes with each acquire and lease; disarms old timers
    std::uint64_t arrived = 0;
    true_time wanted_at = 0;
    bool cancelled = false; ///< while its try was under way
};

struct tenure_state {
    unsigned process;
    permitting::tenure machine;
    unsigned token = 0; ///< a tenure that adopts has the token of another
    unsigned permits = 1, start = 0;
    unsigned own_slot = 0; ///< of an adopted one, and of one that was won
    bool adopts = false, second = false, tracks = false;
    actor* lease = nullptr;
    bool over = false, dead = false, won = false;
    bool robbed = false;  ///< its slot has gone before its time
    unsigned pending = 0; ///< commands that may still be carried out, and pending releases
    unsigned handovers = 0;
    std::uint64_t timer = 0;
    time_point armed{};
    true_time extension_sent = 0;
    time_point last_deadline{};
    std::optional<true_time> without_quorum{}; ///< since then it has none
    std::array<std::uint64_t, slots> floors{}; ///< the greatest fences before it began
};

struct client : holding_process<connection> {
    std::deque<actor*> line; ///< the waiters, first come, first served
    int trying = nobody;     ///< the tenure of the first one
    int tracker = nobody;
    bool contends = false; ///< the last try was refused: the next asks the arbiter alone
    unsigned failures = 0;
    bool pushed = false;     ///< while the try was under way
    time_point not_before{}; ///< of the next try
    std::uint64_t timer = 0;
    std::optional<true_time> open_since{}; ///< its first waiter could have a permit since then
};

/// The keys of one semaphore. The two sorted sets have the same ttl, if nobody evicts one.
struct instance {
    std::int64_t ppm = 0;
    true_time frozen_until = 0;
    std::uint64_t identity = 0;
    std::map<unsigned, unsigned> taken; ///< tokens with their slots
    milliseconds taken_until = 0;
    std::map<unsigned, milliseconds> deadlines; ///< of tokens
    milliseconds deadlines_until = 0;
    std::array<std::uint64_t, slots> counters{}; ///< of slots
    std::uint64_t versions = 0;
    std::set<unsigned> listeners;
};

struct world {
    using client = permitting::client;
    using instance = permitting::instance;
    using actor = permitting::actor;
    using tenure_state = permitting::tenure_state;
    using tally = permits_tally;
    using parts = permits_parts;
    using shape = permits_shape;
};

} // namespace permitting

class permits_state : protected tenures_network<permitting::world> {
protected:
    using client = permitting::client;
    using instance = permitting::instance;
    using milliseconds = permitting::milliseconds;
    using tenure_phase = protocol::tenure_phase;

    permits_state(std::uint64_t seed, permits_tally& seen, permits_parts const& parts,
                  schedule_faults faults, std::optional<permits_shape> shape, std::ostream* story)
        : tenures_network(seed, seen, parts, faults, shape, story) {
        permits_tenure_rules::parts = parts;
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 3U, 3U, 4U, 5U};
        instances_.resize(shape_ ? shape_->instances : any_of(sizes));
        static constexpr std::array numbers{1U, 2U, 2U, 3U};
        permits_ = shape_ ? shape_->permits : any_of(numbers);
        resizes_ = !shape_ && one_in(3);
        static constexpr std::array<std::int64_t, 3> delays_us{50, 300, 2'000};
        delay_ = std::chrono::microseconds(shape_ ? 100 : any_of(delays_us));
        static constexpr std::array<std::int64_t, 2> ttls_ms{150, 600};
        auto const calm = faults_ == schedule_faults::none;
        ttl_ = shape_ ? shape_->ttl : std::chrono::milliseconds(calm ? 3'000 : any_of(ttls_ms));
        timeout_ = one_in(4) ? max_travel() * 3 / 2 : 8 * max_travel();
        static constexpr std::array<std::int64_t, 3> retries_ms{5, 50, 250};
        retry_ = std::chrono::milliseconds(shape_ ? 50 : any_of(retries_ms));
        hold_ = one_in(2) ? delay_ : 6 * delay_;
        auto const extreme = one_in(4); // fast instances and slow clients are the worst
        for (auto& i : instances_) {
            i.ppm = extreme ? max_ppm : between(-max_ppm, max_ppm);
            i.identity = any();
        }
        slow_ = extreme;
        static constexpr std::array expiries{5U, 20U, 40U};
        if (is_reckless()) expiry_ = any_of(expiries);
    }
    ~permits_state() = default;

    bool is_held(tenure_state const& t) const {
        return t.won && !t.over && !t.dead && is_valid(t.machine, local(t.process));
    }

    //
    // The clock of a server
    //

    milliseconds clock_ms(unsigned i) const {
        return stretched(now(), instances_[i].ppm) / 1'000'000;
    }
    /// The slot that a token has there, if its deadline has not passed.
    std::optional<unsigned> slot_at(unsigned i, unsigned token) const {
        auto const& at = instances_[i];
        auto const found = at.taken.find(token);
        if (found == at.taken.end() || clock_ms(i) > at.taken_until) return std::nullopt;
        auto const deadline = at.deadlines.find(token);
        if (deadline == at.deadlines.end() || clock_ms(i) > at.deadlines_until ||
            deadline->second <= clock_ms(i))
            return std::nullopt;
        return found->second;
    }
    bool has_slot(unsigned i, unsigned token, unsigned slot) const {
        return slot_at(i, token) == slot;
    }

    unsigned permits_ = 1;      ///< the smallest number that a client has
    bool resizes_ = false;      ///< some clients have one more
    unsigned most_permits_ = 0; ///< that a client has had so far
    duration retry_{}, hold_{};
    unsigned expiry_ = 0;                                 ///< of reckless schedules, in percent
    std::map<unsigned, unsigned> tombstones_;             ///< with the tokens that they replace
    std::vector<std::pair<unsigned, unsigned>> offered_;  ///< tokens that were left, with slots
    std::set<std::pair<unsigned, std::uint64_t>> issued_; ///< fences, with their slots
    std::array<std::uint64_t, permitting::slots> greatest_{};
    std::uint64_t arrivals_ = 0;
    permits_measures measures_;
};

} // namespace holdfast::test

#endif
