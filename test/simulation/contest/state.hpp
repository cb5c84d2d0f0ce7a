// The state of a contest: processes with their actors, tenures, and instances that track the key.
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_STATE_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_STATE_HPP

#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/queue_values.hpp"
#include "protocol/waiting/waiter.hpp"
#include "protocol/waiting/waiting_rules.hpp"

#include "simulation/contest/settings.hpp"
#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

namespace holdfast::test {

using namespace std::chrono_literals;

using protocol::command;
using protocol::duration;
using protocol::instance_set;
using protocol::tenure_effect;
using protocol::time_point;
using protocol::verdict;

namespace contesting {

struct message : test::message {
    bool whole = false;      ///< carries the whole script
    bool first_part = false; ///< the SET of a contend command
    time_point sent{};
    // The fields of a reply:
    std::optional<std::int64_t> pttl{}; ///< -2: no key, -1: it never expires
    bool tracked = false;
    bool no_script = false;
    // In a fair contest:
    bool newcomer = false, front = false;
    int turn = nobody; ///< of a push: the token whose turn has come
    bool called = false;
};

struct connection : test::connection<message> {
    verdict set = verdict::unknown;     ///< the answer to the SET of a contend command
    std::optional<std::int64_t> pttl{}; ///< in a fair contest, with that answer
    time_point heard{};
};

/// A process. Its queue is in class contest, which knows the rules.
struct client : test::client<connection> {
    bool alive = true;
    int tenure = nobody;                          ///< the queue's try or held tenure
    std::optional<protocol::folded_queue> folded; ///< in place of the queue
    int tracker = nobody;
    int line_token = nobody; ///< stands in line at line_at
    unsigned line_at = 0;
    std::uint64_t wins = 0;
    /// The wins of each process when this one heard that it is in line; empty outside of it.
    std::vector<std::uint64_t> wins_at_entry;
    bool settling = false;
    std::uint64_t timer = 0;
    std::optional<time_point> armed;
    protocol::round_trips usual;
    instance_set newly_late;
    std::uint64_t tries = 0, head = 0,
                  period = 0; ///< `tries` for the waiter `head` since the holder last changed
    true_time last_turn = 0;
    std::uint64_t leases = 0, turns = 0, leases_before = 0, turns_before = 0;
};

struct instance : test::instance {
    std::uint64_t identity = 0;
    bool scripts = true, tracks = true;
    bool forgot_scripts = false; ///< at some time
    std::uint64_t version = 0;   ///< counts the changes of the key
    // In a fair contest:
    struct entry {
        int token;
        true_time reserve;
        unsigned process;
        std::uint64_t epoch; ///< of its connection
    };
    std::deque<entry> line;
    true_time line_expires = 0;
    std::map<int, unsigned> registered; ///< tokens, and the processes to tell
    std::map<int, true_time> called;    ///< tokens whose turn has come, until then
};

/// An actor wants the key again and again.
struct actor : protocol::waiter {
    enum class state : std::uint8_t {
        idle,
        queued,
        has_lease,
        gone
    };
    unsigned process = 0;
    state is = state::idle;
    int tenure = nobody;
    std::uint64_t ticket = 0;  ///< changes with each acquire and lease; disarms old timers
    std::uint64_t arrived = 0; ///< the position in the queue
    bool total_cancel = false; ///< a cancellation does not end a try that is under way
    bool cancel_requested = false, cancelled_when_granted = false;
};

struct tenure_state {
    unsigned process;
    protocol::tenure machine;
    time_point asked{};   ///< the time at which the try, inspection or release began
    bool over = false;    ///< the lease was released or lost, or the try has failed
    bool dead = false;    ///< the process was killed
    unsigned pending = 0; ///< commands that an instance may still carry out, and pending releases
    bool tracks = false;
    actor* lease = nullptr;
    actor* releaser = nullptr; ///< waits for the end of the release
    std::uint64_t timer = 0;
    time_point armed{};
    time_point begun{}; ///< the time at which the try began
    time_point won{};
    unsigned served = 0; ///< leases
    int token = nobody;  ///< of an earlier tenure, if it stood in line with it
};

} // namespace contesting

class contest_state : protected network<contesting::client, contesting::instance> {
protected:
    using client = contesting::client;
    using instance = contesting::instance;
    using actor = contesting::actor;
    using tenure_state = contesting::tenure_state;
    using tenure_phase = protocol::tenure_phase;

    static constexpr duration longest_pause = 20ms; ///< before a try, or of a stand-back
    static constexpr duration ping_interval = 2500ms;

    contest_state(std::uint64_t seed, contest_tally& seen, std::optional<contest_shape> shape,
                  bool silent, std::ostream* story, line_rules line)
        : network(seed, story)
        , seen_(seen)
        , silent_(silent)
        , line_rules_(line) {
        calm_ = !silent && (shape || one_in(3));
        eager_ = shape || (calm_ && one_in(2));
        steady_ = shape && shape->steady;
        forgetful_ = !calm_ && !silent && one_in(8);
        static constexpr std::array sizes{1U, 3U, 3U, 3U, 5U, 5U, 7U};
        instances_.resize(shape ? shape->instances : sizes[below(sizes.size())]);
        static constexpr std::array crowds{2U, 2U, 2U, 3U, 3U, 4U, 5U, 8U};
        auto const how_many = one_in(300) ? 64U : one_in(50) ? 16U : crowds[below(crowds.size())];
        clients_.resize(shape ? shape->processes : silent && one_in(4) ? 1 : how_many);
        static constexpr std::array<std::int64_t, 4> delays_us{20, 100, 500, 2'000};
        delay_ = std::chrono::microseconds(delays_us[below(shape ? 3 : delays_us.size())]);
        static constexpr std::array<std::int64_t, 3> ttls_ms{200, 1'000, 10'000};
        ttl_ = std::chrono::milliseconds(calm_ ? 10'000 : ttls_ms[below(ttls_ms.size())]);
        timeout_ = 20 * max_travel();
        if (!calm_ && one_in(4))
            timeout_ = max_travel() * 3 / 2; // so short that some healthy instances answer too late
        static constexpr std::array<std::int64_t, 3> retries_ms{5, 50, 250};
        retry_ = std::chrono::milliseconds(retries_ms[below(retries_ms.size())]);
        static constexpr std::array limits{1U, 4U, 64U};
        handover_limit_ = limits[below(limits.size())];
        if (shape && shape->handover_limit > 0) handover_limit_ = shape->handover_limit;
        static constexpr std::array<std::int64_t, 3> handovers_ms{0, 5, 50};
        handover_time_ = std::chrono::milliseconds(handovers_ms[below(handovers_ms.size())]);
        brief_ = shape && shape->brief;
        // Not too short, or a tenure that is as long as its try serves thousands of leases.
        auto const shortest = calm_ && !brief_ ? delay_ / 16 : duration(1us);
        hold_ = one_in(2) || brief_ ? shortest : 4 * delay_;
        auto const scripts = !one_in(4);
        for (auto& i : instances_) {
            i.ppm = between(-max_ppm, max_ppm);
            i.identity = any();
            i.scripts = scripts;
            i.forgot_scripts = !scripts;
            i.tracks = shape || !one_in(20);
            if (!i.tracks) untracked_ = true;
        }
        key_ = any();
        for (unsigned p = 0; p < clients_.size(); ++p) {
            clients_[p].connections.resize(size());
            auto const waiters =
                shape ? shape->waiters
                      : static_cast<unsigned>((eager_ ? 2 : 1) + below(one_in(8) ? 7 : 3));
            for (unsigned n = 0; n < waiters; ++n) {
                actors_.emplace_back();
                actors_.back().process = p;
                wants_after(some(eager_ ? 2 * delay_ : hold_ + 10 * delay_), actors_.back());
            }
        }
        auto const crowd = static_cast<unsigned>(actors_.size());
        if (shape) {
            turns_wanted_ = shape->turns * shape->processes;
        } else {
            turns_wanted_ = std::max(2 * crowd, 40 + static_cast<unsigned>(below(60)));
            if (eager_ && one_in(4)) turns_wanted_ *= 4; // long enough to be measured
        }
        horizon_ = (hold_ + 10 * delay_).count() * turns_wanted_ / 2 + 1;
        stop_at_ = calm_ ? std::numeric_limits<true_time>::max() : horizon_ * 4 + ttl_.count();
    }
    ~contest_state() = default;

    virtual void on_want(actor& a) = 0;
    void wants_after(true_time span, actor& a) {
        at(span, clients_[a.process], [this, &a] { on_want(a); });
    }

    /// Usually about delay_, now and then up to three times as long.
    true_time travel() override {
        if (steady_) return delay_.count();
        return delay_.count() / 4 + some(one_in(10) ? delay_ * 3 : delay_);
    }
    duration max_travel() const { return delay_ / 4 + delay_ * 3; }

    int token_of(unsigned t) const {
        return tenures_[t].token == nobody ? static_cast<int>(t) : tenures_[t].token;
    }
    /// How long a key is kept for a process whose turn has come.
    duration reservation() const { return protocol::waiting_rules::reservation(retry_); }

    time_point local() const { return time_point(duration(now())); }

    bool is_held(tenure_state const& t) const {
        return !t.over && !t.dead && is_valid(t.machine, local());
    }

    void check_clean(unsigned t) {
        auto const& state = tenures_[t];
        if (!state.over || state.dead || state.pending != 0) return;
        for (auto const& i : instances_) {
            if (i.has.keeps(t, now()) && !i.has.reserved)
                fail("S4", "a key stays behind when everything has been answered");
        }
    }

    contest_tally& seen_;
    bool calm_ = false, eager_ = false, forgetful_ = false, steady_ = false, brief_ = false,
         freezes_ = false, untracked_ = false;
    bool const silent_;
    line_rules const line_rules_;
    duration ttl_{}, timeout_{}, delay_{}, retry_{}, handover_time_{}, hold_{}, bound_{},
        decided_within_{};
    unsigned handover_limit_ = 1;
    std::uint64_t key_ = 0;
    std::deque<actor> actors_;
    std::deque<tenure_state> tenures_;
    true_time horizon_ = 0, stop_at_ = 0;
    unsigned queued_ = 0, held_ = 0, turns_wanted_ = 0;
    std::uint64_t commands_ = 0, leases_ = 0, turns_ = 0;
    bool overdue_ = false;           ///< a tenure was handed over once more than it might be
    std::uint64_t young_leases_ = 0; ///< of tenures younger than their tries took
};

} // namespace holdfast::test

#endif
