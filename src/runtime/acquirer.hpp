// The way of an acquire to its tenure: the queue of its key, the tries for the head of the queue,
// and the report to an acquire that fails.
#ifndef HOLDFAST_RUNTIME_ACQUIRER_HPP
#define HOLDFAST_RUNTIME_ACQUIRER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/reply_handler.hpp"
#include "runtime/active_queue.hpp"
#include "runtime/active_tenure.hpp"
#include "runtime/completer.hpp"
#include "runtime/counters.hpp"
#include "runtime/instance_group.hpp"
#include "runtime/operation.hpp"
#include "runtime/pool.hpp"
#include "runtime/report_builder.hpp"
#include "runtime/round_record.hpp"
#include "runtime/tenure_driver.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/token_source.hpp"
#include "runtime/turn.hpp"

#include <boost/asio/cancellation_type.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace holdfast::runtime {

/// One loop carries out the actions of the queues' machines: settle(). Each function that is called
/// from outside settles the queue concerned as its last act. Nothing that settle() calls does so.
///
/// @par Thread safety  On the executor alone.
class acquirer final : private operation_timer {
public:
    acquirer(turn&, instance_group&, tenure_driver&, timer_queue&, completer&, counters&,
             token_source&, std::chrono::milliseconds instance_timeout);

    //
    // Operations
    //

    /// `let_go` is called with a lease that has the key, before the acquire joins the queue. If the
    /// user has dropped that lease, `let_go` ends it and returns true. So a caller that drops a
    /// lease and then asks for the key does not find the key held by that lease.
    template <class LetGo>
    void start(operation&, LetGo&& let_go);
    void cancel(operation&, asio::cancellation_type_t);
    /// From now on every acquire is refused.
    void refuse_new() noexcept { refuses_ = true; }
    /// Waiting acquires leave their queues. The queues are not settled: no try is to be made for
    /// acquires that are about to leave too.
    void refuse_waiting();

    //
    // Tries
    //

    /// Whether an answer is about a try, or about the state of a key; else it is the keeper's.
    static bool expects(active_tenure const&, protocol::command);
    /// True: the try is won. The caller then takes the winner, grants it the lease, and settles the
    /// queue.
    [[nodiscard]] bool on_answer(active_tenure&, unsigned instance, protocol::command,
                                 std::uint32_t round, redis::answer const&);
    operation& take_winner(active_tenure& t) {
        return static_cast<operation&>(t.queue->machine.won(turn_.time()));
    }
    void on_time(active_tenure&, lease_clock::time_point now);
    /// The operation has left its queue.
    void fail(operation&, errc);

    /// Carries out the actions of the queue's machine until one is empty. The queue may be
    /// destroyed after that.
    void settle(active_queue&, lease_clock::time_point now);

    //
    // Instances
    //

    void on_push(unsigned instance, std::string_view key);
    void on_push_for_all(unsigned instance);
    void on_unavailable(unsigned instance);
    void on_available();
    /// An instance has confirmed a release of ours. A server does not push our own changes to us,
    /// and drops our registration with them, so this counts as a push.
    void on_own_release(unsigned instance, std::string_view key) {
        if (!waiting_.empty()) wake(instance, key);
    }
    /// Queues that wait for the push of a late instance try elsewhere: the key may be free long
    /// before that instance goes on. Checked in each turn, so it costs no timer.
    void leave_late_instances();

    //
    // All queues
    //

    /// Visits may settle the queue.
    template <class Visit>
    void for_each_queue(Visit visit) {
        queues_.for_each([&](queue& q) {
            if (q.lock) visit(static_cast<active_queue&>(q));
        });
    }
    void forget(active_queue&);
    /// The context is being destroyed.
    void abandon() noexcept;
    /// Before the tenures are destroyed.
    void clear() noexcept;
    void period_ended() noexcept { queues_.period_ended(); }
    bool shrink(std::size_t most) noexcept {
        return queues_.shrink(most, [](queue const&) { return true; });
    }

private:
    class queue final : public active_queue {
    public:
        explicit queue(acquirer& a)
            : acquirer_(a) {}
        void on_time(lease_clock::time_point now) override { acquirer_.settle(*this, now); }

    private:
        acquirer& acquirer_;
    };

    void on_time(operation&, lease_clock::time_point now) override;

    // Queues: acquirer.cpp
    bool admit(operation&);
    active_queue* make_queue(detail::lock_state_ptr const&, std::size_t hash);
    void join(operation&, active_queue&);
    void schedule(active_queue&);
    void count_as_waiting(operation&);
    void leave(operation&, errc);
    void give_up(operation&, errc);
    std::shared_ptr<acquire_report const> make_report(operation const&);

    // Tries: acquirer_tries.cpp
    bool apply(active_tenure&, protocol::tenure_action const&);
    void begin_try(active_queue&, bool at_arbiter);
    unsigned arbiter_of(active_queue const&) const;
    void cancel_try(active_queue&);
    bool on_try_answer(active_tenure&, unsigned instance, protocol::command, std::uint32_t round,
                       redis::answer const&);
    void on_arbiter_refused(active_queue&, redis::answer const&);
    void on_try_failed(active_tenure&, protocol::tenure_effect);
    void fail_try(active_tenure&, errc);
    void note(active_queue&, unsigned instance, redis::answer const&);

    // The state of keys: acquirer_watch.cpp
    void begin_inspection(active_queue&);
    void on_inspection(active_tenure&, unsigned instance, redis::answer const&);
    void on_inspected(active_queue&);
    void listen(active_queue&);
    void ask_to_push(active_queue&, protocol::instance_set);
    void on_watched(active_tenure&, unsigned instance, std::uint32_t round, redis::answer const&);
    bool wake(unsigned instance, std::string_view key);

    turn& turn_;
    instance_group& instances_;
    tenure_driver& tenures_;
    timer_queue& timers_;
    completer& completer_;
    counters& counters_;
    token_source& random_;
    std::chrono::milliseconds const instance_timeout_;

    pool<queue> queues_;
    active_queue_set keys_;
    waiting_list waiting_; ///< queues to which an instance is to push
    operation_list acquiring_;
    std::vector<instance_snapshot> snapshots_; ///< for the report that is being made
    bool refuses_ = false;
};

template <class LetGo>
void acquirer::start(operation& op, LetGo&& let_go) {
    if (!admit(op)) return;
    auto const& key = op.lock->key;
    auto const hash = active_queue_set::hash(key);
    auto* q = keys_.find(key, hash);
    if (q != nullptr && q->tenure && q->tenure->lease != nullptr && let_go(*q->tenure->lease)) {
        q = keys_.find(key, hash);
    }
    if (q == nullptr) q = make_queue(op.lock, hash);
    if (q == nullptr) return fail(op, errc::out_of_memory);
    join(op, *q);
}

} // namespace holdfast::runtime

#endif
