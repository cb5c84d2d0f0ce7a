// The instances of a client, as its tenures and queues see them.
#ifndef HOLDFAST_RUNTIME_INSTANCE_GROUP_HPP
#define HOLDFAST_RUNTIME_INSTANCE_GROUP_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "redis/server/instance.hpp"
#include "runtime/services/duration_counter.hpp"
#include "runtime/services/report_builder.hpp"
#include "runtime/services/round_record.hpp"
#include "runtime/services/turn.hpp"

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone, except for the iteration.
class instance_group {
public:
    using pointer = std::shared_ptr<redis::instance>;

    explicit instance_group(turn& t)
        : turn_(t) {}

    void add(pointer i) { all_.push_back(std::move(i)); }
    void clear() { all_.clear(); }

    unsigned size() const { return static_cast<unsigned>(all_.size()); }
    redis::instance& operator[](unsigned i) const { return *all_[i]; }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

    /// The instances that can be asked, and the instances that may grant. Determined once a turn,
    /// and again after changed().
    protocol::instance_set reachable() const {
        determine();
        return reachable_;
    }
    protocol::instance_set voters() const {
        determine();
        return voters_;
    }
    void changed() noexcept { determined_ = false; }

    bool has_quorum() const {
        auto const there = voters().size();
        return there >= protocol::redlock_rules::quorum(size(), there);
    }
    protocol::instance_set usable_now() const; ///< connected and available
    bool is_new_server(unsigned instance, std::string_view run_id) const;
    /// The reason why an instance was not asked: errc::unreachable if the instance is back by now.
    errc cause_of(unsigned instance) const;
    /// The reason why each instance cannot be asked, or may not grant; errc{} if neither.
    std::array<errc, protocol::instance_set::capacity> causes() const;
    /// Each of them now, for a report on the round of these keys. Valid until the next call.
    std::span<instance_snapshot> snapshots(round_record const&,
                                           std::span<std::string_view const> keys);
    std::span<instance_snapshot> snapshots(round_record const& round, std::string_view key) {
        return snapshots(round, std::span<std::string_view const>(&key, 1));
    }
    /// True if no command is under way that could still be answered.
    bool settled() const;

    /// Sends the commands of the turn. False if a link has failed; another turn must then follow.
    [[nodiscard]] bool flush() noexcept;

    //
    // Round trips
    //

    protocol::round_trips const& round_trips() const { return round_trips_; }
    void heard(unsigned instance, lease_clock::duration took) {
        round_trips_[instance].heard(took);
        round_trip_times_[instance].add(took);
    }
    /// From any thread.
    latency_histogram round_trip_times(unsigned instance) const noexcept {
        return round_trip_times_[instance].read();
    }
    protocol::instance_set late() const;
    /// The instances in `of` that are not late; all of `of` if all are late.
    protocol::instance_set punctual(protocol::instance_set of) const;
    /// The instances that have become late since the last call. Empty if all that may grant are
    /// late: then no other instance is better, and mostly this process did not run.
    protocol::instance_set newly_late();

private:
    void determine() const;

    turn& turn_;
    std::vector<pointer> all_;
    std::vector<instance_snapshot> snapshots_;
    protocol::round_trips round_trips_;
    std::array<duration_counter, protocol::instance_set::capacity> round_trip_times_;
    protocol::instance_set newly_late_;
    mutable protocol::instance_set reachable_, voters_; ///< of this turn
    mutable bool determined_ = false;
};

} // namespace holdfast::runtime

#endif
