// The clocks and counters of the fence simulation. Clients and instances may have any time.
#ifndef HOLDFAST_TEST_SIMULATION_FENCES_CLOCKS_HPP
#define HOLDFAST_TEST_SIMULATION_FENCES_CLOCKS_HPP

#include "protocol/tenure/fence.hpp"
#include "protocol/tenure/recent_counters.hpp"
#include "protocol/time.hpp"

#include "simulation/fences/settings.hpp"
#include "simulation/kernel/network.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>

namespace holdfast::test {

namespace fencing {

using ticks = true_time; ///< microseconds since 1970

struct message : test::message {
    bool whole_script = false;
    bool unknown_script = false; ///< the reply says NOSCRIPT
    std::uint64_t number = 0;    ///< a hint, or the number in the answer
    protocol::counting counting = protocol::counting::by_script;
    bool sets_key = false;    ///< SET of a native acquire; the count is the next message
    bool not_counted = false; ///< the reply says that the counter was not lifted to the hint
};

using connection = test::connection<message>;

enum class wall : std::uint8_t {
    right,
    a_bit_off,
    years_off,
    stuck,
    anything,
    before_1970,
    jumping,
};
enum class steady : std::uint8_t {
    right,
    stopped,
    hasty,
    jumping,
};

struct client : test::client<connection> {
    wall wall_clock = wall::right;
    steady lease_clock = steady::right;
    ticks off = 0; ///< the error of its wall clock
    unsigned attempts_left = 0;
    int current = nobody; ///< the index of the tenure
    protocol::recent_counters known{std::chrono::hours(24)};
};

struct instance : test::instance {
    content earlier;
    std::map<unsigned, protocol::verdict> set; ///< the last reply to SET for each tenure
    ticks off = 0;                             ///< the error of its clock
    bool may_forget = false, forgot = false;
};

inline constexpr ticks ms = 1'000;
inline constexpr ticks years = ticks{365} * 24 * 3'600 * 1'000 * ms;
inline constexpr ticks beginning = 54 * years;

} // namespace fencing

class fence_clocks : protected network<fencing::client, fencing::instance> {
protected:
    using ticks = fencing::ticks;
    using wall = fencing::wall;
    using steady = fencing::steady;

    static constexpr auto ms = fencing::ms, years = fencing::years, beginning = fencing::beginning;

    fence_clocks(std::uint64_t seed, fence_tally& seen, fence_conditions const& conditions,
                 std::ostream* story)
        : network(seed, story, fencing::beginning, 1)
        , seen_(seen)
        , given_(conditions) {
        using calmness = fence_conditions::calmness;
        calm_ = given_.calm != calmness::no;
        static constexpr std::array sizes{1U, 2U, 3U, 3U, 3U, 3U, 4U, 5U, 5U, 6U, 7U};
        instances_.resize(std::clamp(any_of(sizes), given_.fewest, given_.most));
        clients_.resize(calm_ ? 1 : 1 + below(5));
        // The delays may be so short that many tenures begin within the same millisecond of the
        // clocks.
        delay_ = any_of(std::array<ticks, 4>{10, 30, 100, 1'000});
        // The ttl must exceed the 2 ms that the drift allowance subtracts.
        // A ttl is a whole number of milliseconds.
        ttl_ = 3 * ms + delay_ * any_of(std::array<ticks, 3>{20, 100, 1'000});
        ttl_ = (ttl_ + ms - 1) / ms * ms;
        error_ = 2'000 + delay_ * any_of(std::array<ticks, 4>{30, 50, 100, 200});
        patience_ = delay_ * any_of(std::array<ticks, 3>{10, 30, 100});
        if (!calm_) {
            expiry_ = any_of(std::array{0U, 10U, 30U, 60U});
            faults_ = any_of(std::array{0U, 10U, 30U, 80U});
            slow_ = any_of(std::array{0U, 5U, 20U});
            stops_ = any_of(std::array{0U, 10U, 40U});
            unfenced_ = any_of(std::array{0U, 0U, 15U, 50U});
            script_losses_ = one_in(8) ? 10 : 0;
        }
        long_ = delay_ * 100;
        // Hints may become older than the absence of an instance that forgets.
        if (!given_.fresh_hints) {
            long_ = std::max(long_, 4 * error_);
            patience_ += 4 * error_;
            if (one_in(2)) ttl_ += 10 * error_;
            stops_ = 30;
            faults_ = 30;
        }
        contends_ = any_of(std::array{0U, 30U, 100U});
        native_ = !one_in(4);
        for (unsigned i = 0; i < instances_.size(); ++i)
            instances_[i].may_forget = i < given_.forgetful;
        // Any of the instances may forget, not only the first.
        if (given_.forgetful != 0) shuffle(instances_);
        set_up_clocks();
        set_up_counters();
        for (unsigned c = 0; c < clients_.size(); ++c) {
            clients_[c].connections.resize(instances_.size());
            clients_[c].attempts_left = static_cast<unsigned>(3 + below(10));
            clients_[c].known.reserve();
            at(some(delay_ * 4), clients_[c], [this, c] { start(c); });
        }
    }
    ~fence_clocks() = default;

    virtual void start(unsigned c) = 0;

    ticks travel() override { return 1 + some(percent(slow_) ? delay_ * 30 : delay_); }

    //
    // Clocks
    //

    void set_up_clocks() {
        for (auto& c : clients_) {
            if (calm_) continue;
            if (!given_.right_clocks) {
                c.wall_clock =
                    any_of(std::array{wall::right, wall::a_bit_off, wall::years_off, wall::stuck,
                                      wall::anything, wall::before_1970, wall::jumping});
                c.off = c.wall_clock == wall::a_bit_off ? some(20 * ms) - 10 * ms
                        : c.wall_clock == wall::stuck   ? some(10) * ms - 5 * ms
                                                        : some(60 * years) - 30 * years;
            }
            if (!given_.bounded_acquires && one_in(3)) {
                c.lease_clock = any_of(std::array{steady::stopped, steady::hasty, steady::jumping});
            }
        }
        auto const slow = !calm_ && one_in(4);
        for (auto& i : instances_) {
            if (slow) i.off = -2 * years;
            if (!calm_ && one_in(3)) i.off = some(40 * years) - 20 * years;
        }
        for (auto& i : instances_) {
            if (i.may_forget && given_.right_servers) i.off = right_server();
        }
    }

    /// The error of an instance's clock that still lets the instance believe right hints.
    ticks right_server() {
        auto const slowest = -(60'000 * ms - error_);
        return one_in(2) ? slowest : slowest + some(2 * 60'000 * ms);
    }

    /// The time that the client reads. It may be arbitrary.
    ticks wall_clock(unsigned c) {
        auto& me = clients_[c];
        if (calm_) return now();
        if (given_.right_clocks) {
            auto const least = -(error_ - 10 * delay_ - ms);
            switch (below(3)) {
            case 0:
                return now() + error_;
            case 1:
                return now() + least;
            default:
                return now() + least + some(error_ - least);
            }
        }
        switch (me.wall_clock) {
        case wall::right:
            return now();
        case wall::a_bit_off:
        case wall::years_off:
            return now() + me.off;
        case wall::stuck:
            return beginning + me.off;
        case wall::anything:
            return some(300 * years);
        case wall::before_1970:
            return -some(years);
        case wall::jumping:
            break;
        }
        return now() + some(6) * ms - 3 * ms;
    }

    protocol::time_point lease_clock(unsigned c) {
        auto shown = now() - beginning;
        switch (clients_[c].lease_clock) {
        case steady::right:
            break;
        case steady::stopped:
            shown = 0;
            break;
        case steady::hasty:
            shown *= 5;
            break;
        case steady::jumping:
            shown += some(ttl_) - ttl_ / 2;
            break;
        }
        return protocol::time_point(std::chrono::hours(1) + std::chrono::microseconds(shown));
    }

    void set_up_counters() {
        using calmness = fence_conditions::calmness;
        auto const hint = protocol::fence_hint(std::chrono::milliseconds(now() / ms));
        auto const how = given_.calm == calmness::good_clocks ? 3
                         : given_.calm == calmness::diverged  ? 4
                         : given_.right_clocks ? any_of(std::array{0U, 2U, 3U, 3U, 7U, 8U})
                                               : below(7);
        for (auto& i : instances_) {
            switch (how) {
            case 0: // no number was used
                break;
            case 1:
                i.has.counter = 5;
                break;
            case 2:
                i.has.counter = below(6);
                break;
            case 3:
                i.has.counter = one_in(3) ? 0 : hint - 1 - below(one_in(2) ? 10 : 1'000'000);
                break;
            case 4:
                i.has.counter = hint + (1 << 20) + below(one_in(2) ? 4 : 1'000);
                break;
            case 5:
                i.has.counter = hint + below(100);
                break;
            case 7: // ahead of all clocks
                i.has.counter =
                    hint + static_cast<std::uint64_t>(error_ / ms + some(5 * error_ / ms)) * 10;
                break;
            case 8: // ahead of all clocks, and equal
                i.has.counter = hint + static_cast<std::uint64_t>(error_ / ms) * 10;
                break;
            default: // nearly used up
                i.has.counter = protocol::fence_limit - 1 - below(one_in(4) ? 20 : 1'000'000);
                break;
            }
            most_ = std::max(most_, i.has.counter);
        }
    }

    fence_tally& seen_;
    fence_conditions given_;
    bool calm_ = false, native_ = false;
    unsigned expiry_ = 0, faults_ = 0, slow_ = 0, stops_ = 0, unfenced_ = 0, script_losses_ = 0,
             contends_ = 0;
    ticks delay_ = 0, ttl_ = 0, error_ = 0, patience_ = 0, long_ = 0;
    std::uint64_t most_ = 0; ///< the greatest count of any instance
};

} // namespace holdfast::test

#endif
