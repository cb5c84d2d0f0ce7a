// Leads an acquire to its tenure: the queue of its key, the tries for the first waiter of the
// queue, and the report if the acquire fails.
#ifndef HOLDFAST_RUNTIME_ACQUIRER_HPP
#define HOLDFAST_RUNTIME_ACQUIRER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/recent_counters.hpp"
#include "protocol/tenure/tenure.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/key_table.hpp"
#include "runtime/acquire/set_turn.hpp"
#include "runtime/acquire/tenure_driver.hpp"
#include "runtime/acquire/waiting_line.hpp"
#include "runtime/memory/pool.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/event_sink.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/report_builder.hpp"
#include "runtime/services/round_record.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <boost/asio/cancellation_type.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace holdfast::runtime {

/// Makes locks on keys with their prefix.
class lock_maker {
public:
    virtual detail::lock_state_ptr make_lock(lock_options const&, std::string_view key) = 0;

protected:
    ~lock_maker() = default;
};

/// One loop carries out the actions of the queues' machines: settle(). A function that the engine
/// calls settles the queue as its last act, unless its comment says otherwise. No function that
/// settle() calls settles a queue.
///
/// @par Thread safety  On the executor alone.
class acquirer final : public folded_queues, private operation_timer_owner, private set_turn_owner {
public:
    acquirer(services const&, tenure_driver&, lock_maker&,
             std::chrono::milliseconds instance_timeout, std::chrono::milliseconds fence_ttl);

    //
    // Operations
    //

    /// Calls `let_go` with the lease that has the key, before the acquire joins the queue. If the
    /// user has dropped that lease, `let_go` ends the lease and returns true. So a caller that
    /// drops a lease and then asks for the key does not wait for that lease. Returns the tenure of
    /// which the acquire, a reader's, gets a lease at once; else null.
    template <class LetGo>
    [[nodiscard]] active_tenure* start(operation&, LetGo&& let_go);
    void cancel(operation&, asio::cancellation_type_t);
    /// From now on every acquire is refused.
    void refuse_new() noexcept { refuses_ = true; }
    /// All waiting acquires leave their queues, and fail. The queues are not settled here: a try
    /// for a waiter that is about to leave would be useless.
    void refuse_waiting();

    //
    // Tries
    //

    /// Of an answer to a try, or to a question about the state of a key. Returns true if the try is
    /// won. The caller then calls take_winner(), grants that operation
    /// the lease, and settles the queue.
    [[nodiscard]] bool on_answer(active_tenure&, unsigned instance, protocol::command,
                                 std::uint32_t round, redis::answer const&);
    operation& take_winner(active_tenure&);
    /// The winner is a reader, and other readers of this process have the lock: returns their
    /// tenure, if the winner can share it, and has joined it. It has the queue again. Else null.
    active_tenure* rejoin(active_tenure&, operation const& winner);
    /// The next waiter, if it is a reader that shares this tenure of readers. It has left the
    /// queue, and joined the tenure. Else null.
    operation* take_sharer(active_tenure&);
    /// Whether a writer of this process waits for the key.
    bool has_writers(std::string_view key) const;
    /// Of an answer to a try that has been decided.
    void on_late_refusal(active_tenure const&, unsigned instance) noexcept;
    void on_time(active_tenure&, lease_clock::time_point now);
    /// Completes an acquire that stands in no queue with an error. Does not settle a queue.
    void fail(operation&, errc);

    /// Carries out the actions of the queue's machine until an action is empty. The queue may be
    /// back in the pool when this returns.
    void settle(active_queue&, lease_clock::time_point now);

    //
    // Instances
    //

    void on_push(unsigned instance, std::string_view key);
    void on_push_for_all(unsigned instance);
    void on_unavailable(unsigned instance);
    void on_available();
    /// An instance has confirmed a release of this client. With NOLOOP the server does not push a
    /// client's own changes to that client, yet it drops the registration. So the confirmation
    /// counts as a push.
    void on_own_release(unsigned instance, std::string_view key) {
        if (!waiting_.empty()) wake(instance, key);
    }
    /// Queues that wait for a push from a late instance try at another instance, because the key
    /// may be free long before the late instance answers. Called in each turn, so no timer is
    /// needed.
    void leave_late_instances();

    /// Begins what the events of this turn have left to the acquires that share keys with others.
    void continue_turns();

    //
    // Folded queues
    //

    active_queue* unfold(active_tenure&) override;
    active_queue* queue_of(active_tenure const&) const override;
    void forget(active_tenure&) noexcept override;
    void keeps_places(operation&, active_queue&) noexcept override;

    //
    // All queues
    //

    /// Visits the queues in use. `visit` may settle its queue.
    template <class Visit>
    void for_each_queue(Visit visit) {
        queues_.for_each([&](queue& q) {
            if (q.lock) visit(static_cast<active_queue&>(q));
        });
    }
    void forget(active_queue&) noexcept;
    /// Called when the execution context is being destroyed. Drops the lock states.
    void abandon() noexcept;
    /// Called before the tenures are destroyed: forgets the references to them.
    void clear() noexcept;
    /// True if this client asks for the key, or holds it, with this token.
    bool has_token(std::string_view key, std::string_view text) const {
        auto const is = [&](active_tenure const* t) {
            return t != nullptr && t->token_text(random_.label()).view() == text;
        };
        return is(keys_.find(key).tenure()) || (lines_.any() && is(tenure_of_set(key)));
    }
    /// True if this client holds a permit of the key with this token.
    bool has_permit(std::string_view key, std::string_view text) const;
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
    void on_due(set_turn& t) noexcept override {
        if (!t.due_hook::is_linked()) due_.push_back(t);
    }

    // Queues: acquirer.cpp
    bool admit(operation&);
    bool run(active_queue&, lease_clock::time_point now);
    active_queue* make_queue(detail::lock_state_ptr const&, std::size_t hash);
    void fold(active_queue&) noexcept;
    void put_back(active_queue&) noexcept;
    void join(operation&, active_queue&);
    void schedule(active_queue&);
    void count_as_waiting(operation&);
    void leave(operation&, errc);
    errc cause_at_limit(operation const&) const;
    void give_up(operation&, errc);
    std::shared_ptr<acquire_report const> make_report(operation const&);
    active_tenure* holder_here(operation const&);

    // Tries: acquirer_tries.cpp
    bool apply(active_tenure&, protocol::tenure_action const&);
    void begin_try(active_queue&, protocol::queue_effect);
    redis::token token_of_try(active_queue&, protocol::queue_effect);
    unsigned arbiter_of(active_queue const&) const;
    void cancel_try(active_queue&);
    bool on_try_answer(active_tenure&, unsigned instance, protocol::command, std::uint32_t round,
                       redis::answer const&);
    void on_arbiter_refused(active_tenure&, active_queue&, redis::answer const&);
    void leave_line(active_queue&) noexcept;
    void on_try_failed(active_tenure&, protocol::tenure_effect);
    void on_adoption_refused(active_tenure&);
    bool counts_for(active_tenure const&, operation const&) const;
    bool is_in_the_way(active_tenure const&) const;
    void fail_try(active_tenure&, errc);
    void on_outage(active_tenure&, errc);
    void fail_impatient(active_queue&, errc);

    // Questions about the state of a key: acquirer_questions.cpp
    void begin_inspection(active_queue&);
    void inspect(active_queue&, protocol::instance_set);
    void on_inspection(active_tenure&, unsigned instance, redis::answer const&);
    void on_inspected(active_queue&);
    void listen(active_queue&);
    void ask_to_push(active_queue&, protocol::instance_set);
    void on_tracked(active_tenure&, unsigned instance, std::uint32_t round, redis::answer const&);
    bool wake(unsigned instance, std::string_view key);
    bool push(active_queue&, unsigned instance);

    // Readers and writers: acquirer_readers.cpp
    active_tenure* join_tenure(operation const&, active_queue*) const;
    void withdraw(active_queue&) noexcept;
    void withdraw_after_win(active_queue&, active_tenure const&) noexcept;
    void withdraw(detail::lock_state_ptr const&, protocol::instance_set at) noexcept;

    // Permits: acquirer_permits.cpp
    bool holds_permit(operation const& adopting);

    // Locks on several keys: acquirer_sets.cpp
    void start_set(operation&);
    bool has_key_of(detail::lock_state const&) const;
    bool waits_in_line(operation&);
    active_tenure* tenure_of_set(std::string_view key) const;
    active_queue* queue_of_set(std::string_view key) const;
    bool in_use(std::string_view key) const { return keys_.find(key) != key_entry(); }
    void settle_set(active_queue&, lease_clock::time_point now);
    void update_gate(active_queue&);
    bool end_lease_of(active_queue&) noexcept;
    void note_refusal(active_queue&);
    void leave_lines(set_turn&, detail::lock_state const&) noexcept;
    void give_up_set(operation&) noexcept;
    void freed(std::string_view key) noexcept;
    void join_after_sets(key_lines::line&);
    void stand_aside(set_turn&);
    void stop_taking(set_turn&);
    void proceed(set_turn&);
    void take_next_key(set_turn&);
    bool has_all_taken(set_turn const&) const;
    void begin_conversion(set_turn&);

    turn& turn_;
    instance_group& instances_;
    tenure_driver& tenures_;
    lock_maker& locks_;
    timer_queue& timers_;
    completer& completer_;
    counters& counters_;
    event_sink const& events_;
    token_source& random_;
    std::chrono::milliseconds const instance_timeout_;

    pool<queue> queues_;
    key_table keys_;
    protocol::recent_counters known_counters_;
    waiting_line line_;
    waiting_list waiting_; ///< queues that react to pushes, and to instances that come or go
    operation_list acquiring_;
    bool refuses_ = false;

    key_lines lines_;
    boost::intrusive::list<set_turn, boost::intrusive::base_hook<turn_hook>,
                           boost::intrusive::constant_time_size<false>>
        turns_; ///< all
    boost::intrusive::list<set_turn, boost::intrusive::base_hook<due_hook>,
                           boost::intrusive::constant_time_size<false>>
        due_;
    key_lines::called_list called_;
    protocol::duration round_trip_of_set_{}; ///< of a try for several keys
};

template <class LetGo>
active_tenure* acquirer::start(operation& op, LetGo&& let_go) {
    if (!admit(op)) return nullptr;
    auto const& lock = op.as<acquire_call>().lock;
    auto const key = lock->key();
    if (lines_.any() || !lock->keys().empty()) {
        lock->for_each_key([&](std::string_view each) {
            for (auto* const t : {keys_.find(each).tenure(), tenure_of_set(each)})
                if (t != nullptr && t->lease != nullptr) let_go(*t->lease);
        });
        if (!lock->keys().empty()) return start_set(op), nullptr;
        if (waits_in_line(op)) return nullptr;
    }
    auto const hash = hash_of_key(key);
    auto at = keys_.find(key, hash);
    auto* const t = at.tenure();
    if (auto* const sharing = op.shared ? join_tenure(op, at.queue()) : nullptr) return sharing;
    while (t != nullptr && t->lease != nullptr && let_go(*t->lease)) at = keys_.find(key, hash);
    auto* const q = at.is_folded()          ? unfold(*at.tenure())
                    : at.queue() != nullptr ? at.queue()
                                            : make_queue(lock, hash);
    join(op, *q);
    return nullptr;
}

} // namespace holdfast::runtime

#endif
