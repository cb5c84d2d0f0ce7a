// Three worlds for the classes that manage connections: lanes that reorder commands, the liveness
// checks of an instance, and reconnections to a server.
//
// Properties of the lanes:
//   L1  no release overtakes its SET, and no key is left at the end
//   L2  no acquire overtakes an earlier release, or its own process's key would refuse it
//   L3  an extension does not wait behind a burst of releases: it leaves within two batches
//   L4  no command starves: it leaves within as many batches as its lane has other commands
// Properties of the liveness checks:
//   W1  each command is answered, or failed, within two limits for each batch up to its own
//   W2  an instance that answers in time is not made suspect, unless the process was stopped
//   W3  an instance that is silent, or trickles, is suspect after two limits
//   W4  such an instance is given up after five limits
// Properties of the reconnections:
//   R1  a server that closes after the probe is probed no more often than the longest pause allows
//   R2  the client reconnects fast to a server that was up for long
#ifndef HOLDFAST_TEST_SIMULATION_WIRE_HPP
#define HOLDFAST_TEST_SIMULATION_WIRE_HPP

#include "protocol/server/lanes.hpp"
#include "protocol/server/liveness.hpp"
#include "protocol/server/reconnect.hpp"

#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

//
// Lanes
//

struct lanes_as_they_are : protocol::lane_rules {
    static constexpr protocol::lane of(protocol::command c) { return protocol::lane_of(c); }
};

struct lanes_tally {
    std::uint64_t acquired = 0, extended = 0, cancelled = 0, waited = 0, bursts = 0, reused = 0;
};

/// The lanes from one process to one instance. A batch takes few commands, so that commands always
/// wait.
template <class Rules>
class lanes_world : chance, trace {
public:
    /// `storm`: extensions of other keys fill each batch.
    lanes_world(std::uint64_t seed, lanes_tally& seen, bool storm, std::ostream* story = nullptr)
        : chance(seed)
        , trace(story)
        , seen_(seen)
        , storm_(storm) {}

    std::string run() {
        for (unsigned n = 0; n < 120 && violation().empty(); ++n) {
            if (storm_) {
                for (unsigned m = 0; m < batch_size; ++m)
                    submit(protocol::command::extend, none, 0);
            } else if (one_in(10) && in_lanes_ < 100) {
                ++seen_.bursts;
                auto const many = 20 + below(200);
                for (std::uint64_t m = 0; m < many; ++m)
                    submit(protocol::command::release, none, 0);
            }
            for (std::size_t k = 0; k < tenures_.size(); ++k) {
                if (one_in(2)) act(k);
            }
            flush();
            while (!in_flight_.empty() && !one_in(3)) answer();
        }
        finish();
        return violation();
    }

private:
    using command = protocol::command;

    static constexpr std::size_t batch_size = 8;
    static constexpr std::size_t none = ~std::size_t{0};
    static constexpr std::uint64_t first_other_key = 1'000;

    struct item {
        command op{};
        std::size_t key = none; ///< the key of a tenure, or none
        std::uint64_t token = 0;
        std::uint64_t since = 0; ///< the number of batches that had left
    };
    struct tenure {
        enum {
            idle,
            acquiring,
            held
        } now = idle;
        std::uint64_t token = 0;
        std::uint64_t released = 0; ///< the last token that the server must delete
        unsigned unanswered = 0;
    };

    void act(std::size_t k) {
        auto& t = tenures_[k];
        // Few commands at a time bound the wait of each command.
        if (t.unanswered >= 4) return;
        if (t.now == tenure::idle) {
            if (t.unanswered > 0) ++seen_.reused;
            t.now = tenure::acquiring;
            t.token = ++last_token_;
            return submit(command::acquire, k, t.token);
        }
        if (t.now == tenure::held && !storm_ && one_in(2))
            return submit(command::extend, k, t.token);
        if (t.now == tenure::acquiring) {
            if (!one_in(4)) return; // the acquire is not cancelled
            ++seen_.cancelled;
        }
        t.now = tenure::idle;
        submit(command::release, k, t.token);
    }

    // Queues a command as redis/wire/pipeline.hpp does.
    void submit(command c, std::size_t key, std::uint64_t token) {
        if (key != none) write_story(name(c), " of key ", key, " with token ", token);
        if (key != none) ++tenures_[key].unanswered;
        item const i{c, key, token, left_};
        if (lanes_.empty() && open_.size() < batch_size) return open_.push_back(i);
        ++seen_.waited;
        ++in_lanes_;
        lanes_.push(Rules::of(c), key != none ? key : first_other_key + other_keys_++, i);
    }

    void flush() {
        while (in_flight_.size() < 2 && !(open_.empty() && lanes_.empty())) {
            for (; !lanes_.empty() && open_.size() < batch_size; --in_lanes_)
                open_.push_back(lanes_.pop());
            for (auto const& i : open_) leaves(i);
            ++left_;
            in_flight_.push_back(std::exchange(open_, {}));
        }
    }

    void leaves(item const& i) {
        auto const batches = left_ - i.since;
        if (!storm_ && i.op == command::extend && i.key != none && batches > 2) {
            fail("L3", "an extension has waited for " + std::to_string(batches) + " batches");
        }
        // Four commands of each tenure may be in the lane, and four more in the open batch.
        if (storm_ && i.key != none && batches > 4 * tenures + 4) {
            fail("L4", "a command has waited for " + std::to_string(batches) + " batches");
        }
    }

    /// The server executes a batch, and the client reads the replies.
    void answer() {
        auto const batch = std::move(in_flight_.front());
        in_flight_.pop_front();
        for (auto const& i : batch) {
            if (i.key == none) continue;
            auto& t = tenures_[i.key];
            auto& key = keys_[i.key];
            --t.unanswered;
            write_story("the server has ", name(i.op), " of key ", i.key, " with token ", i.token);
            if (i.op == command::acquire) {
                if (i.token <= t.released) return fail("L1", "a release has overtaken its SET");
                if (key != 0)
                    return fail("L2", "an acquire was refused by a key of its own process");
                key = i.token;
                ++seen_.acquired;
                if (t.token == i.token && t.now == tenure::acquiring) t.now = tenure::held;
            } else if (i.op == command::release) {
                t.released = i.token;
                if (key == i.token) key = 0;
            } else if (key != i.token) {
                return fail("L1", "an extension came after its release");
            } else {
                ++seen_.extended;
            }
        }
    }

    void finish() {
        for (std::size_t k = 0; k < tenures_.size(); ++k) {
            auto& t = tenures_[k];
            if (t.now != tenure::idle) submit(command::release, k, t.token);
            t.now = tenure::idle;
        }
        while (violation().empty() && !(open_.empty() && lanes_.empty() && in_flight_.empty())) {
            flush();
            answer();
        }
        for (auto const key : keys_) {
            if (key != 0) fail("L1", "a key is left at the end");
        }
    }

    static constexpr std::size_t tenures = 4;

    lanes_tally& seen_;
    bool storm_;
    std::array<tenure, tenures> tenures_;
    std::array<std::uint64_t, tenures> keys_{}; ///< the tokens on the server
    std::uint64_t last_token_ = 0, other_keys_ = 0, left_ = 0;
    std::vector<item> open_;
    std::deque<std::vector<item>> in_flight_;
    protocol::lanes<item, Rules> lanes_;
    std::size_t in_lanes_ = 0;
};

//
// Liveness
//

struct liveness_tally {
    std::uint64_t answered = 0, failed = 0, suspected = 0, came_back = 0, given_up = 0,
                  failed_unsent = 0, asked = 0, stops = 0, frozen = 0, trickled = 0, lost = 0,
                  held_back = 0;
};

/// A process that checks the liveness of one instance, as redis/server/server_link.cpp
/// does.
template <class Rules>
class liveness_world : timeline {
public:
    liveness_world(std::uint64_t seed, liveness_tally& seen, bool stops,
                   std::ostream* story = nullptr)
        : timeline(seed, story)
        , seen_(seen)
        , stops_(stops)
        , live_(limit) {}

    std::string run() {
        live_.start(time());
        connect();
        arm();
        at(some(limit), [this] { next_command(); });
        at(some(20 * limit), [this] { change_mood(); });
        at(check_step, [this] { check(); });
        if (stops_) at(some(10 * limit), [this] { next_stop(); });
        while (now() < the_end && happens()) {
        }
        return violation();
    }

private:
    using state = typename protocol::basic_liveness<Rules>::state;
    using action = typename protocol::basic_liveness<Rules>::action;
    using duration = protocol::duration;

    static constexpr duration limit = std::chrono::milliseconds(80);
    static constexpr true_time whole = limit.count();
    static constexpr true_time tick = 1'000'000; ///< a millisecond; longer times are noticed
    static constexpr true_time reading = tick * 9 / 10;
    /// Allows for two late checks, and two replies that are read late.
    static constexpr true_time slack = tick + 4 * reading;
    static constexpr true_time check_step = 5 * tick;
    static constexpr true_time the_end = 100 * whole;
    static constexpr std::size_t batch_size = 4;

    struct asked {
        true_time when = 0, bound = 0;
        bool answered = false;
        bool waits_for_connection = false;
    };
    using asked_ptr = std::shared_ptr<asked>;
    struct batch {
        std::vector<asked_ptr> commands;
        std::size_t next = 0;      ///< the index of the command with the next reply
        true_time leaves = 0;      ///< when the batch leaves the process
        true_time last = 0;        ///< when the batch left, became the first, or got its last reply
        true_time first_since = 0; ///< when the batch became the first, or left if that was later
        true_time worst_gap = 0;
        true_time sent = 0;
    };
    struct stop {
        true_time from, until;
    };

    protocol::time_point time() const { return protocol::time_point(duration(now())); }

    // The process

    void next_stop() {
        stop_for(one_in(2) ? some(limit / 8) : some(3 * limit));
        at(some(20 * limit), [this] { next_stop(); });
    }
    void stop_for(true_time t) {
        ++seen_.stops;
        write_story("the process stops");
        pause(process_, t);
        all_stops_.push_back({now(), now() + t});
    }
    /// The total duration and the number of stops since `when`.
    std::pair<true_time, true_time> stopped_since(true_time when) const {
        true_time sum = 0, count = 0;
        for (auto const& s : all_stops_) {
            if (s.until <= when) continue;
            sum += s.until - s.from;
            ++count;
        }
        return {sum, count};
    }

    void next_command() {
        in(process_, [this] {
            for (auto n = below(one_in(10) ? 12 : 3) + 1; n > 0; --n) submit();
            end_turn();
        });
        at(some(one_in(20) ? 40 * limit : limit / 2), [this] { next_command(); });
    }

    void submit() {
        if (!live_.available()) return;
        auto const batches = in_flight_.size() + (queue_.size() + batch_size) / batch_size;
        auto c = std::make_shared<asked>();
        c->when = now();
        c->bound = static_cast<true_time>(batches) * (2 * whole + slack);
        if (!live_.is_probed()) {
            c->bound += whole + slack;
            live_.unsent(time());
        }
        queue_.push_back(c);
        commands_.push_back(std::move(c));
    }

    void answer(asked_ptr const& c, bool really) {
        if (!c || std::exchange(c->answered, true)) return;
        ++(really ? seen_.answered : seen_.failed);
        check_bound(*c);
    }

    void end_turn() {
        while (live_.current() == state::up && in_flight_.size() < 2 && !queue_.empty()) {
            auto b = std::make_shared<batch>();
            while (!queue_.empty() && b->commands.size() < batch_size) {
                b->commands.push_back(std::move(queue_.front()));
                queue_.pop_front();
            }
            live_.sent(time());
            send(std::move(b));
        }
        if (live_.needs_earlier_check()) arm();
    }

    void send(std::shared_ptr<batch> b) {
        b->sent = now();
        write_story("a batch of ", b->commands.size(), " leaves");
        if (stops_ && one_in(50)) {
            // The process stops after it has read the clock, and before it writes.
            ++seen_.held_back;
            stop_for(some(3 * limit));
        }
        b->leaves = std::max(now(), process_.paused_until);
        b->last = b->first_since = b->leaves;
        in_flight_.push_back(b);
        at(b->leaves - now(), [this, b, epoch = epoch_] {
            if (epoch == epoch_) serve(b);
        });
    }

    void connect() {
        at(some(limit / 2), process_, [this, epoch = epoch_] {
            if (epoch == epoch_) connected();
        });
    }
    void connected() {
        if (one_in(4)) return end_session();
        live_.probing(time());
        auto b = std::make_shared<batch>();
        for (int n = 0; n < 3; ++n) b->commands.push_back(nullptr);
        probe_ = b;
        send(std::move(b));
        end_turn();
    }
    void end_session() {
        write_story("the session ends");
        ++epoch_;
        live_.lost();
        live_.none_unsent();
        probe_.reset();
        auto const sent = std::exchange(in_flight_, {});
        for (auto const& b : sent) {
            for (auto const& c : b->commands) answer(c, false);
        }
        fail_queue();
        connect();
    }
    void fail_queue() {
        for (auto const& c : std::exchange(queue_, {})) answer(c, false);
    }

    void arm() {
        auto const generation = ++armed_;
        auto const in_a_while =
            std::max<true_time>(live_.next_check().time_since_epoch().count() - now(), 0);
        // The event loop is a little late now and then.
        at(in_a_while + (one_in(4) ? below_reading() : 0), process_, [this, generation] {
            if (generation == armed_) check_liveness();
        });
    }
    true_time below_reading() {
        return static_cast<true_time>(below(static_cast<std::uint64_t>(reading)));
    }

    void check_liveness() {
        switch (live_.check(time())) {
        case action::none:
            break;
        case action::ask:
            ++seen_.asked;
            submit();
            break;
        case action::fail_unsent:
            ++seen_.failed_unsent;
            fail_queue();
            break;
        case action::suspect:
            ++seen_.suspected;
            write_story("the instance is suspect");
            check_suspicion();
            for (auto const& b : in_flight_) {
                for (auto& c : b->commands) answer(c, false);
            }
            fail_queue();
            break;
        case action::give_up:
            ++seen_.given_up;
            end_session();
            break;
        }
        arm();
        end_turn();
    }

    // The server

    enum class mood {
        quick,
        slow,
        trickling,
        frozen
    };

    void change_mood() {
        mood_ = static_cast<mood>(below(4));
        write_story("the server is ", std::array{"quick", "slow", "trickling", "frozen"}.at(
                                          static_cast<std::size_t>(mood_)));
        if (mood_ == mood::frozen) ++seen_.frozen;
        if (mood_ == mood::trickling) ++seen_.trickled;
        if (one_in(6)) {
            ++seen_.lost;
            in(process_, [this, epoch = epoch_] {
                if (epoch == epoch_ && !in_flight_.empty()) end_session();
            });
        }
        at(some(mood_ == mood::frozen ? 8 * limit : 20 * limit), [this] { change_mood(); });
    }

    true_time next_reply_after() {
        switch (mood_) {
        case mood::quick:
            return some(limit / 20);
        case mood::slow: // a batch takes slightly more than a limit, each reply less
            return whole / 4 + some(limit / 6);
        case mood::trickling:
            return whole * 3 / 4 + some(limit / 5);
        case mood::frozen:
            break;
        }
        return one_in(3) ? some(3 * limit) : 1'000 * whole;
    }

    /// Sends the replies to a batch, one after the other, and then those to the next batch.
    void serve(std::shared_ptr<batch> const& b) {
        if (in_flight_.empty() || std::exchange(serving_, epoch_) == epoch_) return;
        // Replies keep the order of the batches.
        serve_next(b, 0);
    }
    void serve_next(std::shared_ptr<batch> const& b, std::size_t n) {
        auto const pause = next_reply_after();
        at(std::max(pause, b->leaves - now()), [this, b, n, epoch = epoch_] {
            if (epoch != epoch_) return;
            arrive(b);
            read_at_ = std::max(read_at_, now() + below_reading());
            at(read_at_ - now(), process_, [this, b, epoch] {
                if (epoch == epoch_) read(b);
            });
            if (n + 1 < b->commands.size()) return serve_next(b, n + 1);
            serve_following(b);
        });
    }
    void serve_following(std::shared_ptr<batch> const& b) {
        auto const at_b = std::find(in_flight_.begin(), in_flight_.end(), b);
        if (at_b == in_flight_.end() || at_b + 1 == in_flight_.end()) {
            serving_ = no_epoch;
            return;
        }
        auto const next = *(at_b + 1);
        next->last = next->first_since = std::max(next->leaves, now());
        serve_next(next, 0);
    }
    void arrive(std::shared_ptr<batch> const& b) {
        b->worst_gap = std::max(b->worst_gap, now() - b->last);
        b->last = now();
    }

    void read(std::shared_ptr<batch> const& b) {
        write_story("a reply is read");
        if (live_.answered(time())) ++seen_.came_back;
        answer(b->commands[b->next++], true);
        if (b->next == b->commands.size()) {
            in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), b));
            if (b == probe_) {
                live_.probed(time());
                live_.none_unsent();
                probe_.reset();
            }
            if (live_.finished(time(), !in_flight_.empty())) ++seen_.came_back;
        }
        end_turn();
    }

    // Properties

    void check_bound(asked const& c) {
        auto const [stopped, count] = stopped_since(c.when);
        auto const bound = c.bound + stopped + count * (whole + slack);
        if (now() - c.when > bound) fail("W1", "a command was not answered in time");
    }

    void check_suspicion() {
        auto const& b = *in_flight_.front();
        auto const gap = std::max(b.worst_gap, now() - b.last);
        if (gap >= whole || now() - b.first_since >= 2 * whole) return;
        auto const [stopped, count] = stopped_since(b.sent - reading);
        if (count == 0) return fail("W2", "an instance that answers in time was made suspect");
        // The process stopped before the write for so long that the check was late. A quick answer
        // must still count.
        auto const held = b.leaves - b.sent;
        if (count == 1 && held > whole + tick && held == stopped && gap < whole / 8) {
            fail("W2", "a question that left late was not waited for");
        }
    }

    void check() {
        for (auto const& c : commands_) {
            if (!c->answered) check_bound(*c);
        }
        std::erase_if(commands_, [](asked_ptr const& c) { return c->answered; });
        if (!in_flight_.empty() && stopped_since(now() - 20 * whole).second == 0) {
            auto const age = now() - in_flight_.front()->first_since;
            auto const late = slack;
            if (live_.current() == state::up && age > 2 * whole + late)
                fail("W3", "it is not made suspect");
            if (age > 5 * whole + late) fail("W4", "it is not given up");
        }
        at(check_step, [this] { check(); });
    }

    static constexpr std::uint64_t no_epoch = ~std::uint64_t{0};

    liveness_tally& seen_;
    bool stops_;
    protocol::basic_liveness<Rules> live_;
    process process_;
    std::vector<stop> all_stops_;
    std::deque<asked_ptr> queue_;
    std::vector<asked_ptr> commands_;
    std::deque<std::shared_ptr<batch>> in_flight_;
    std::shared_ptr<batch> probe_;
    std::uint64_t epoch_ = 0, serving_ = no_epoch, armed_ = 0;
    true_time read_at_ = 0; ///< when the last reply was read
    mood mood_ = mood::quick;
};

//
// Reconnections
//

struct reconnect_tally {
    std::uint64_t probes = 0, long_lives = 0;
};

template <class Rules>
std::string reconnect_often(std::uint64_t seed, reconnect_tally& seen) {
    using std::chrono::milliseconds;
    std::mt19937_64 random(seed);
    protocol::duration const longest = milliseconds(20 + random() % 2'000);
    auto const part_of = [&](protocol::duration d) {
        return protocol::duration(
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(d.count())));
    };
    protocol::basic_reconnect_policy<Rules> policy(longest);
    // The server accepts, answers the probe and closes, at once or within the longest pause. One in
    // four connections fails before the probe.
    unsigned constexpr cycles = 400;
    protocol::duration pauses{0};
    for (unsigned n = 0; n < cycles; ++n) {
        auto const kind = random() % 4;
        policy.ended(kind == 0   ? protocol::duration(0)
                     : kind == 1 ? protocol::duration(1)
                                 : part_of(longest));
        pauses += policy.next(random());
        ++seen.probes;
    }
    // On average a grown pause is half the longest. The first eight pauses may be shorter.
    if (pauses < longest * (cycles - 8) / 2 * 4 / 5) return "R1: it is probed too often";
    for (unsigned n = 0; n < 10; ++n) {
        policy.ended(longest + part_of(longest));
        ++seen.long_lives;
        if (policy.next(random()) > policy.first_pause) return "R2: it is not connected to fast";
    }
    return {};
}

} // namespace holdfast::test

#endif
