// The state of a simulation of sets: processes with their acquires, queues, lines and tenures, and
// instances with several keys.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_STATE_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_STATE_HPP

#include "protocol/quarantine.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/key_line.hpp"
#include "protocol/waiting/queue_values.hpp"
#include "protocol/waiting/set_approach.hpp"
#include "protocol/waiting/wait_queue.hpp"
#include "protocol/waiting/waiter.hpp"

#include "simulation/kernel/tenures_network.hpp"
#include "simulation/sets/settings.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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
using protocol::set_step;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

namespace setting {

/// Keys in byte order, by their numbers.
using key_list = std::vector<unsigned>;

inline bool share_a_key(key_list const& a, key_list const& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](unsigned k) { return std::binary_search(b.begin(), b.end(), k); });
}

struct message : test::message {
    std::uint64_t number = 0; ///< sent: what the tenure asks for; answered: the count
    unsigned watched = 0;     ///< the index of the key that is tracked
    std::vector<int> prior{}; ///< tokens, as indices of tenures
    bool adopts = false;      ///< an extension, which counts as a grant
    duration ttl{};
    time_point sent{};
    // The fields of a reply:
    unsigned obstacle = 0;              ///< the number of the key in the way, from 1
    std::optional<std::int64_t> pttl{}; ///< -2: no key
    bool tracked = false;
    unsigned key = 0; ///< of a push
};

struct connection : guarded_connection<message> {
    time_point heard{};
};

struct queue;
struct set_turn;

/// An acquire that comes again and again, or one of a single key for a set.
struct actor : protocol::waiter {
    enum class state : std::uint8_t {
        idle,
        queued,
        has_lease,
        gone
    };
    unsigned process = 0;
    state is = state::idle;
    bool wide = false; ///< of a schedule for measurements
    key_list keys;
    std::vector<unsigned> callers_order; ///< indices of keys
    bool set = false;
    unsigned patience = 0;
    queue* q = nullptr;
    set_turn* turn = nullptr;  ///< of a set that waits
    set_turn* owner = nullptr; ///< takes the key for this set
    int adopted = nobody;      ///< the token of the lease that it adopts
    int tenure = nobody;
    std::uint64_t ticket = 0; ///< changes with each acquire and lease; disarms old timers
    std::uint64_t arrived = 0;
    time_point began{};
    true_time wanted_at = 0;
    bool behind = false, total_cancel = false, cancel_requested = false;
    std::uint64_t leases = 0;
    unsigned tries_before = 0; ///< of its queue, when it joined
};

/// As runtime::set_turn.
struct set_turn : protocol::key_turn {
    set_turn(unsigned keys, unsigned patience)
        : approach(keys, patience)
        , places(std::make_unique<protocol::key_place[]>(keys)) {}

    protocol::set_approach approach;
    std::unique_ptr<protocol::key_place[]> places;
    actor* op = nullptr; ///< null when it is granted, or has failed
    queue* q = nullptr;
    actor member;
    std::vector<unsigned> taken; ///< tenures of the keys, in order
    std::vector<int> prior;
    unsigned watched = 0;
    bool waited = false, orphaned = false, taking = false, failed = false, due = false;
    std::uint64_t order = 0; ///< of its arrival
};

struct queue {
    unsigned process = 0;
    bool set = false;
    key_list keys;
    std::optional<protocol::wait_queue> machine;
    std::optional<protocol::folded_queue> folded; ///< in its place
    int tenure = nobody, tracker = nobody;
    std::uint64_t timer = 0;
    std::optional<time_point> armed;
    set_turn* holder = nullptr; ///< whose lease keeps its places
    time_point asked{};
    bool asks_all = false;

    bool in_use() const { return machine || folded; }
    actor& front() { return static_cast<actor&>(machine->front()); }
    set_turn* turn_of_front() { return !machine || machine->empty() ? nullptr : front().turn; }
};

struct tenure_state {
    unsigned process;
    protocol::tenure machine;
    key_list keys;
    bool set = false, foreign = false, tracks = false;
    bool adopts = false;  ///< asks for keys that have its token
    int adopted = nobody; ///< that token, if it was another tenure's
    queue* q = nullptr;
    actor* lease = nullptr;
    bool over = false, dead = false;
    bool converting = false; ///< a conversion has sent its token
    bool robbed = false;     ///< a key has gone before its time
    unsigned pending = 0;    ///< commands that may still be carried out, and pending releases
    std::uint64_t timer = 0;
    time_point armed{};
    true_time extension_sent = 0;
    std::optional<true_time> without_quorum{}; ///< since then one of the keys has none
    std::vector<std::uint64_t> floors{};       ///< of each key: the greatest fence before it began
    bool converts = false;
};

struct client : holding_process<connection> {
    bool foreign = false;
    instance_set newly_late;
    std::map<std::pair<bool, key_list>, queue*> queues;
    std::unique_ptr<protocol::key_line[]> lines; ///< by key
    std::deque<set_turn*> due;
    std::deque<unsigned> called; ///< keys of lines whose acquires may join their queues
    std::vector<queue*> unsettled;
    std::vector<unsigned> dropped; ///< leases of tenures, of which nobody has told the keeper yet
    duration round_trip_of_set{};
    bool in_turn = false;
    bool gathers = false; ///< the turn waits for other events
};

/// The listeners of each key.
struct key_listeners {
    std::vector<std::set<unsigned>> of;
    void erase(unsigned c) {
        for (auto& each : of) each.erase(c);
    }
};

struct instance {
    std::int64_t ppm = 0;
    true_time frozen_until = 0;
    std::uint64_t identity = 0;
    std::vector<content> keys;
    std::vector<std::uint64_t> versions; ///< count the changes of each key
    key_listeners listeners;
};

struct world {
    using client = setting::client;
    using instance = setting::instance;
    using actor = setting::actor;
    using tenure_state = setting::tenure_state;
    using tally = sets_tally;
    using parts = set_parts;
    using shape = set_shape;
};

} // namespace setting

class set_state : protected tenures_network<setting::world> {
protected:
    using client = setting::client;
    using instance = setting::instance;
    using queue = setting::queue;
    using set_turn = setting::set_turn;
    using key_list = setting::key_list;
    using tenure_phase = protocol::tenure_phase;

    set_state(std::uint64_t seed, sets_tally& seen, set_parts const& parts, schedule_faults faults,
              std::optional<set_shape> shape, std::ostream* story)
        : tenures_network(seed, seen, parts, faults, shape, story) {
        static constexpr std::array sizes{1U, 3U, 3U, 3U, 5U, 4U};
        instances_.resize(shape_ ? shape_->instances : any_of(sizes));
        static constexpr std::array key_counts{2U, 3U, 3U, 4U, 6U};
        keys_ = shape_ ? shape_->keys : any_of(key_counts);
        static constexpr std::array<std::int64_t, 3> delays_us{50, 300, 2'000};
        delay_ = std::chrono::microseconds(shape_ ? 100 : any_of(delays_us));
        static constexpr std::array<std::int64_t, 2> ttls_ms{150, 600};
        ttl_ = std::chrono::milliseconds(shape_ ? 10'000 : any_of(ttls_ms));
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
            i.keys.resize(keys_);
            i.versions.resize(keys_);
            i.listeners.of.resize(keys_);
        }
        issued_.resize(keys_);
        greatest_.resize(keys_);
        slow_ = extreme;
        static constexpr std::array expiries{5U, 20U, 40U};
        if (is_reckless()) expiry_ = any_of(expiries);
        static constexpr std::array hints{1U, 3U, 20U};
        hints_ = any_of(hints);
    }
    ~set_state() = default;

    void add_process(bool foreign) {
        add_client();
        clients_.back().foreign = foreign;
        clients_.back().lines = std::make_unique<protocol::key_line[]>(keys_);
    }

    unsigned token(unsigned t) const {
        auto const adopted = tenures_[t].adopted;
        return adopted == nobody ? t : static_cast<unsigned>(adopted);
    }
    /// The tenure that had a lease with this token last.
    unsigned tenure_of(int token) const {
        auto const t = static_cast<unsigned>(token);
        auto const found = heirs_.find(t);
        return found == heirs_.end() ? t : found->second;
    }
    bool is_held(tenure_state const& t) const {
        return !t.over && !t.dead && is_valid(t.machine, local(t.process));
    }
    std::string names(key_list const& keys) const {
        std::string text;
        for (auto const k : keys) text += static_cast<char>('A' + k % 26);
        return text;
    }

    unsigned keys_ = 0, handover_limit_ = 1;
    duration retry_{}, hold_{}, handover_time_{};
    unsigned expiry_ = 0, hints_ = 1; ///< of reckless schedules: percent, and how many
    std::deque<set_turn> turns_;
    std::deque<queue> queues_;
    /// A lease that a process has left to another one.
    struct offer {
        unsigned token;
        key_list keys;
        bool set;
    };
    std::vector<offer> offered_;
    std::map<unsigned, unsigned> heirs_;          ///< tenures that have adopted a token
    std::vector<std::set<std::uint64_t>> issued_; ///< fences of each key
    std::vector<std::uint64_t> greatest_;
    std::uint64_t arrivals_ = 0;
};

} // namespace holdfast::test

#endif
