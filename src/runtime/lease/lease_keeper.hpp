// Tenures that were won, and their leases: renewals, losses, releases, and the hand-over from one
// waiter of this process to the next.
#ifndef HOLDFAST_RUNTIME_LEASE_KEEPER_HPP
#define HOLDFAST_RUNTIME_LEASE_KEEPER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure/tenure.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/key_table.hpp"
#include "runtime/acquire/tenure_driver.hpp"
#include "runtime/lease/lease_record.hpp"
#include "runtime/memory/pool.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/event_sink.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/turn.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace holdfast::runtime {

/// If the end of a lease or of a tenure concerns the queue of its key, the function returns that
/// queue. The caller then calls acquirer::settle() with it. The keeper itself begins no try.
///
/// @par Thread safety  On the executor alone.
class lease_keeper final : private operation_timer_owner {
public:
    lease_keeper(services const& s, tenure_driver& tenures, folded_queues& folded,
                 std::chrono::milliseconds fence_ttl)
        : turn_(s.turn)
        , instances_(s.instances)
        , tenures_(tenures)
        , timers_(s.timers)
        , folded_(folded)
        , completer_(s.completer)
        , counters_(s.counters)
        , events_(s.events)
        , fence_ttl_(fence_ttl) {}

    //
    // Events of tenures
    //

    /// A lease for this tenure. Returns null if memory ran out.
    lease_record* new_lease(active_tenure&) noexcept;
    /// Begins a lease of the tenure, and completes the acquire with it. The acquire has left its
    /// queue.
    void grant(operation&, active_tenure&, lease_record&);
    /// Releases a tenure that was won, because there is no memory for its lease.
    [[nodiscard]] active_queue* give_back(active_tenure& t) {
        return release(t, nullptr, false, turn_.time());
    }

    /// Ends a tenure that was won, and leaves its key to the ttl.
    [[nodiscard]] active_queue* leave_key(active_tenure&);

    [[nodiscard]] active_queue* on_answer(active_tenure&, unsigned instance, protocol::command,
                                          std::uint32_t round, redis::answer const&);
    [[nodiscard]] active_queue* on_time(active_tenure&, lease_clock::time_point now);
    /// The clock of this process stood still for `by`, at a moment before `until`. If a deadline
    /// has passed because of that, the holder is notified when the timer runs next.
    void clock_stood_still(active_tenure&, lease_clock::time_point until, lease_clock::duration by);
    /// An instance may have forgotten leases. Extends each lease that the watchdog extends, soon
    /// and one after the other. So its holder hears early if too few instances have its key.
    void check_all();

    //
    // Calls of users
    //

    [[nodiscard]] active_queue* start_release(operation&);
    [[nodiscard]] active_queue* start_extend(operation&);
    void start_wait_end(operation&);
    void start_renew(operation&);
    [[nodiscard]] active_queue* start_detach(operation&);
    /// `dropped`: the last handle of the lease is gone. Otherwise its last share was given up.
    [[nodiscard]] active_queue* let_go(lease_record&, bool dropped);

    //
    // Shutdown
    //

    bool holds() const { return held_ > 0; }
    /// Also true after the holder was notified of a loss, until the deadline: the tenure keeps its
    /// key until then.
    bool has_tenures() const { return holds() || ending_ > 0; }
    bool is_releasing() const { return releasing_ > 0; }
    /// Ends all held leases as lost. Calls `settle` with the queue of each. No acquire waits.
    template <class Settle>
    void lose_all(Settle settle) {
        leases_.for_each([&](lease_record& l) {
            if (l.ended != lease_end::none) return;
            settle(end_lease(l, nullptr, lease_end::shut_down));
        });
    }
    /// Ends a tenure after its holder was notified of the loss.
    [[nodiscard]] active_queue* end_tenure(active_tenure&);

    //
    // Memory
    //

    /// Destroys the functions given to extend_while() that are not needed any more. Their
    /// destructors are user code, and may do anything.
    void destroy_retired() noexcept;
    /// Called when the execution context is being destroyed.
    void abandon() noexcept;
    /// Called before the tenures are destroyed: forgets the references to them.
    void clear() noexcept;
    void period_ended() noexcept { leases_.period_ended(); }
    bool shrink(std::size_t most) noexcept {
        return leases_.shrink(most, [](lease_record const&) { return true; });
    }

private:
    void on_time(operation&, lease_clock::time_point now) override;

    active_queue* apply(active_tenure&, protocol::tenure_action const&);
    protocol::tenure_action begin_extension(active_tenure&);
    active_queue* extend_for(active_tenure&, lease_clock::duration ttl);
    active_queue* on_over(active_tenure&, protocol::tenure_effect);
    active_queue* on_lost(active_tenure&);
    lease_end loss_of(active_tenure const&) const;
    void claim_loss(active_tenure&);
    active_queue* on_deadline(active_tenure&);
    void on_extended(active_tenure&);
    void keep_counters(active_tenure&);
    void write_counters(active_tenure&);

    active_queue* end_lease(lease_record&, operation*, lease_end);
    active_queue* detach(lease_record&);
    void end_detached(lease_record&);
    active_queue* release(active_tenure&, operation*, bool gives_back, lease_clock::time_point now);
    active_queue* leave_queue(active_tenure&);
    active_queue* lose(active_tenure&);
    bool hand_over(active_tenure&, lease_record*, operation*, lease_clock::time_point now);
    void end_for_next(lease_record*, operation*);
    lease_clock::duration close(lease_record&, lease_end);

    // Permits: lease_keeper_permits.cpp
    active_queue* pass_on(active_tenure&, lease_record*, operation*, lease_clock::time_point now);

    // Tenures of readers: lease_keeper_readers.cpp
    bool make_room(active_tenure&) noexcept;
    static void add(lease_record&, lease_clock::time_point now);
    static lease_clock::time_point leave(lease_record&) noexcept;
    bool is_wanted(active_tenure&);
    bool downgrade(lease_record&);
    static unsigned served_before(active_tenure const&);
    static std::uint64_t fence_of(active_tenure const&);

    void wait_for_end(operation&, lease_clock::time_point now);
    void deadline_moved_back(active_tenure&, lease_record&);
    void note(active_tenure&, unsigned instance, redis::answer const&);
    std::pair<errc, std::shared_ptr<acquire_report const>> failure_of(active_tenure&,
                                                                      reported_call);
    release_result unconfirmed(active_tenure&);
    void fail_extends(active_tenure&);

    void complete_extends(lease_record&, errc, completer::report_ptr const& = {});
    void complete_waiters(lease_record&, errc to_extends);

    template <class Call>
    static lease_record& lease_of(operation& op) {
        return static_cast<lease_record&>(*op.as<Call>().lease);
    }
    static bool is_condition(lease_record&);
    void retire(renewal_condition_ptr) noexcept;

    turn& turn_;
    instance_group& instances_;
    tenure_driver& tenures_;
    timer_queue& timers_;
    folded_queues& folded_;
    completer& completer_;
    counters& counters_;
    event_sink const& events_;
    std::chrono::milliseconds const fence_ttl_;

    pool<lease_record> leases_;
    renewal_condition_ptr retired_; ///< to be destroyed in the next turn
    std::size_t held_ = 0;          ///< leases that have not ended
    std::size_t releasing_ = 0;     ///< tenures with a release under way
    std::size_t ending_ = 0;        ///< tenures between the loss and the deadline
};

/// Visits the lease of the tenure, or all that share it. None may end meanwhile.
template <class Visit>
void for_each_lease(active_tenure& t, Visit visit) {
    if (t.lease == nullptr) return;
    if (!t.shared) return visit(*t.lease);
    for (auto const& each : t.sharers()) visit(*each.lease);
}

} // namespace holdfast::runtime

#endif
