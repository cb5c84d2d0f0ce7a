// The state of a simulation of readers and writers: processes with their acquires, a queue and
// tenures, and instances with the key and the keys beside it.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_STATE_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_STATE_HPP

#include "protocol/quarantine.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/sharers.hpp"
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/queue_values.hpp"
#include "protocol/waiting/wait_queue.hpp"
#include "protocol/waiting/waiter.hpp"

#include "simulation/kernel/tenures_network.hpp"
#include "simulation/readers/settings.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using namespace std::chrono_literals;

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::queue_effect;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

namespace reading {

using wait_queue = protocol::basic_wait_queue<readers_waiting_rules>;
using tenure = protocol::basic_tenure<readers_tenure_rules>;
using milliseconds = std::int64_t; ///< of a server's clock

enum class access : std::uint8_t {
    plain, ///< a lock on one key, which knows of no readers
    read,
    write
};
inline char const* name(access a) {
    static constexpr std::array names{"plain", "read", "write"};
    return names[static_cast<std::size_t>(a)];
}

struct message : test::message {
    access by = access::plain;
    std::uint64_t number = 0; ///< sent: what the tenure asks for; answered: the count
    milliseconds ttl = 0, readers_turn = 0;
    bool waits = false, adopts = false;
    bool withdraws = false; ///< a writer's release takes the note of its client away
    time_point sent{};
    // The fields of a reply:
    std::optional<milliseconds> left{}; ///< -2: no key
    bool tracked = false;
};

struct connection : guarded_connection<message> {
    time_point heard{};
};

/// An acquire that comes again and again.
struct actor : protocol::waiter {
    enum class state : std::uint8_t {
        idle,
        queued,
        has_lease,
        gone
    };
    unsigned process = 0;
    state is = state::idle;
    access wants = access::plain;
    std::optional<access> always{}; ///< of a schedule for measurements
    int adopted = nobody;           ///< the token that it takes over
    bool adopts_shared = false;     ///< and others have its reader
    std::optional<bool>
        handed{}; ///< its token is known to another process, as that of a shared reader
    int tenure = nobody;
    bool reads = false;       ///< its lease is a reader's
    std::uint64_t ticket = 0; ///< changes with each acquire and lease; disarms old timers
    std::uint64_t arrived = 0;
    time_point began{};
    true_time wanted_at = 0;
    bool behind = false, total_cancel = false, cancel_requested = false;
    unsigned tries_before = 0;
};

struct tenure_state {
    unsigned process;
    reading::tenure machine;
    access by = access::plain;
    unsigned token = 0; ///< a tenure that adopts has the token of another
    bool foreign = false, tracks = false, adopts = false;
    bool queued = false;          ///< of the queue
    bool alone = false;           ///< a reader's that serves no other reader
    std::vector<actor*> leases{}; ///< readers share a tenure
    bool over = false, dead = false, won = false;
    bool robbed = false;     ///< its key has gone before its time
    bool leaves_key = false; ///< a lease has left the key to its ttl, or it is shared elsewhere
    protocol::sharers sharing{};
    unsigned pending = 0; ///< commands that may still be carried out, and pending releases
    std::uint64_t timer = 0;
    time_point armed{};
    duration round_trip{};
    true_time extension_sent = 0;
    bool downgrading = false, was_writers = false;
    time_point last_deadline{};
    std::optional<true_time> without_quorum{};   ///< since then it has none
    std::uint64_t floor = 0, written_before = 0; ///< the greatest fences before it began
};

struct client : holding_process<connection> {
    bool foreign = false;
    instance_set newly_late;
    std::optional<wait_queue> queue;
    std::optional<protocol::folded_queue> folded; ///< in its place
    int tenure = nobody, tracker = nobody;        ///< of the queue
    int parted = nobody;                          ///< of readers, when the queue went on without it
    bool noting = false; ///< a writer may have told the readers that it waits
    instance_set noted;  ///< there
    std::uint64_t timer = 0;
    std::optional<time_point> armed;
    time_point asked{};
    bool unsettled = false, in_turn = false;
    std::optional<true_time> open_since{}; ///< its first waiter could have the key since then
};

inline constexpr int readers = -3; ///< in place of a holder: the marker

/// A key with a ttl.
template <class Value, Value None>
struct with_ttl {
    static constexpr Value none = None;
    Value is = None;
    milliseconds until = 0;
};

enum class window : std::uint8_t {
    none,
    wait,
    open
};

struct instance {
    std::int64_t ppm = 0;
    true_time frozen_until = 0;
    std::uint64_t identity = 0;
    with_ttl<int, nobody> key;
    bool has_set = false; ///< the sorted set of readers
    milliseconds set_until = 0;
    std::map<unsigned, milliseconds> members; ///< tokens with their deadlines
    with_ttl<int, nobody> intent;             ///< a client
    with_ttl<reading::window, window::none> turn;
    std::uint64_t counter = 0, versions = 0;
    std::set<unsigned> listeners;
};

struct world {
    using client = reading::client;
    using instance = reading::instance;
    using actor = reading::actor;
    using tenure_state = reading::tenure_state;
    using tally = readers_tally;
    using parts = readers_parts;
    using shape = readers_shape;
};

} // namespace reading

class readers_state : protected tenures_network<reading::world> {
protected:
    using access = reading::access;
    using client = reading::client;
    using instance = reading::instance;
    using milliseconds = reading::milliseconds;
    using tenure_phase = protocol::tenure_phase;

    readers_state(std::uint64_t seed, readers_tally& seen, readers_parts const& parts,
                  schedule_faults faults, std::optional<readers_shape> shape, std::ostream* story)
        : tenures_network(seed, seen, parts, faults, shape, story) {
        readers_tenure_rules::parts = parts;
        static constexpr std::array sizes{1U, 3U, 3U, 3U, 5U, 4U};
        instances_.resize(shape_ ? shape_->instances : any_of(sizes));
        static constexpr std::array<std::int64_t, 3> delays_us{50, 300, 2'000};
        delay_ = std::chrono::microseconds(shape_ ? 100 : any_of(delays_us));
        static constexpr std::array<std::int64_t, 2> ttls_ms{150, 600};
        auto const calm = faults_ == schedule_faults::none;
        ttl_ = shape_ ? shape_->ttl : std::chrono::milliseconds(calm ? 3'000 : any_of(ttls_ms));
        timeout_ = one_in(4) ? max_travel() * 3 / 2 : 8 * max_travel();
        static constexpr std::array<std::int64_t, 3> retries_ms{5, 50, 250};
        retry_ = std::chrono::milliseconds(shape_ ? 50 : any_of(retries_ms));
        static constexpr std::array limits{1U, 4U, 64U};
        handover_limit_ = any_of(limits);
        handover_time_ = std::chrono::milliseconds(one_in(3) ? 0 : 50);
        hold_ = one_in(2) ? delay_ : 6 * delay_;
        auto const extreme = one_in(4); // fast instances and slow clients are the worst
        for (auto& i : instances_) {
            i.ppm = extreme ? max_ppm : between(-max_ppm, max_ppm);
            i.identity = any();
        }
        slow_ = extreme;
        static constexpr std::array expiries{5U, 20U, 40U};
        if (is_reckless()) expiry_ = any_of(expiries);
        static constexpr std::array hints{1U, 3U, 20U};
        hints_ = any_of(hints);
    }
    ~readers_state() = default;

    void add_process(bool foreign) {
        add_client();
        clients_.back().foreign = foreign;
    }

    bool has_quorum_of_instances(unsigned p) const { return voters(p).size() >= quorum(); }

    bool is_held(tenure_state const& t) const {
        return t.won && !t.over && !t.dead && is_valid(t.machine, local(t.process));
    }

    //
    // The clock of a server
    //

    milliseconds clock_ms(unsigned i) const {
        return stretched(now(), instances_[i].ppm) / 1'000'000;
    }
    bool is_alive(unsigned i, milliseconds deadline) const { return deadline > clock_ms(i); }

    bool has_member(unsigned i, unsigned token) const {
        auto const& at = instances_[i];
        auto const found = at.members.find(token);
        return at.key.is == reading::readers && clock_ms(i) <= at.key.until && at.has_set &&
               found != at.members.end() && is_alive(i, found->second);
    }
    bool has_token(unsigned i, unsigned token) const {
        auto const& at = instances_[i];
        return at.key.is == static_cast<int>(token) && clock_ms(i) <= at.key.until;
    }

    unsigned handover_limit_ = 1;
    duration retry_{}, hold_{}, handover_time_{};
    unsigned expiry_ = 0, hints_ = 1;         ///< of reckless schedules: percent, and how many
    std::map<unsigned, unsigned> tombstones_; ///< with the tokens that they replace
    struct offer {
        unsigned token;
        access by;
        bool shared;
    };
    std::vector<offer> offered_;     ///< tokens that were left for another
    std::set<std::uint64_t> issued_; ///< fences of writers
    std::uint64_t greatest_ = 0, greatest_written_ = 0;
    std::uint64_t arrivals_ = 0;
    readers_measures measures_;
};

} // namespace holdfast::test

#endif
