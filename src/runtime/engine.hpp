// The client at work: drives the protocol's machines with the instances.
//
// Calls come in from any thread through an inbox. Everything else happens on one executor (a strand
// unless the user vouches for a single thread), in turns: a turn looks at what has come in, lets
// the machines decide, and ends by sending to each instance what it has gathered, in one batch.
//
// One operation's exception is that operation's. Whatever allocates is contained where it does: an
// operation that memory runs out for ends with errc::out_of_memory, and a command that cannot be
// submitted counts as never sent. What a handler throws, or its allocator, is kept until the turn
// is over; then the first of it leaves through the executor. Nothing that is noexcept allocates.
#ifndef HOLDFAST_RUNTIME_ENGINE_HPP
#define HOLDFAST_RUNTIME_ENGINE_HPP

#include <holdfast/address.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/options.hpp>

#include "protocol/instance_set.hpp"
#include "protocol/round_trips.hpp"
#include "protocol/standstill.hpp"
#include "protocol/tenure.hpp"
#include "redis/instance.hpp"
#include "redis/lock_command.hpp"
#include "runtime/deadline_queue.hpp"
#include "runtime/draining.hpp"
#include "runtime/holding.hpp"
#include "runtime/key_queue.hpp"
#include "runtime/lease_state.hpp"
#include "runtime/operation.hpp"
#include "runtime/pool.hpp"
#include "runtime/token_source.hpp"
#include "runtime/turn_executor.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace holdfast::runtime {

class engine final : public std::enable_shared_from_this<engine>, private redis::instance_owner {
public:
    engine(asio::any_io_executor executor, std::vector<address> const&, client_options const&);
    ~engine();

    void start();

    // From any thread.
    void submit(operation::kind, detail::lock_state_ptr, detail::wait_limit, detail::lease_ref,
                operation::any_handler&&, wish_ptr = nullptr);
    void cancel(operation*, std::uint32_t generation, asio::cancellation_type_t) noexcept;
    void give_up(detail::lease_core&) noexcept;
    void drop(detail::lease_core&) noexcept;
    void renew_while(detail::lease_ref, std::function<bool()>);
    void shut_down_in_background() noexcept;
    std::vector<instance_status> instances() const;
    holdfast::client_stats statistics() const;
    asio::any_io_executor const& executor() const { return user_executor_; }
    std::string const& key_prefix() const { return key_prefix_; }
    std::chrono::milliseconds max_ttl() const { return max_ttl_; }

    /// The context is going: lets go of every handler, without calling it, and of all that is of
    /// the context. What the user still has keeps the rest, and finds it dead.
    void abandon() noexcept;
    /// This process is the child of a fork: all of this is the parent's. Ends without a word to the
    /// instances.
    void end_in_child();

private:
    friend class operation;
    friend class holding;
    friend class key_queue;
    friend class draining;

    struct counters {
        std::atomic<std::uint64_t> acquired{0}, acquire_failed{0}, rounds{0}, released{0},
            renewals{0}, renewals_failed{0}, lost{0}, held{0}, pending{0}, waiters{0}, handoffs{0},
            pushes{0}, wasted_wakeups{0}, split_votes{0}, raises{0};
    };

    // instance_owner
    void in_turn(turn_work&) override;
    lease_clock::time_point time() const noexcept override;
    bool is_new_server(unsigned instance, std::string_view run_id) override;
    void on_push(unsigned instance, std::string_view key) override;
    void on_push_for_all(unsigned instance) override;
    void on_unavailable(unsigned instance) override;
    void on_available(unsigned instance) override;
    void on_round_trip(unsigned instance, lease_clock::duration took) override {
        round_trips_[instance].heard(took);
    }
    void on_clock_look(unsigned instance, protocol::clock_look const&) override;
    std::uint64_t random_bits() override { return pause_bits(); }
    void on_change() override;
    void begin_turn() noexcept;

    std::unique_lock<std::mutex> lock_inbox() const;
    void want_turn();
    void let_go(lease_state&, bool dropped) noexcept;
    void ask_for_turn() noexcept;
    void post_turn() noexcept;
    void turn();
    void take_calls(bool cancelled, bool dropped);
    bool look_at_cancellations(std::size_t& calls_left);
    bool look_at_drops();
    void carry_out(lease_state&, bool dropped);
    bool carry_out_if_let_go(lease_state&);
    template <class Work>
    void in_a_turn(Work&&);
    void leave_turn() noexcept;
    /// Whether it did not throw. Whoever memory ran out for is told so by the caller; all else is
    /// kept.
    template <class Work>
    bool attempt(Work&& work) noexcept {
        try {
            work();
            return true;
        } catch (std::bad_alloc const&) {
        } catch (...) {
            keep_exception();
        }
        return false;
    }
    void keep_exception() noexcept;
    void on_start(operation&);
    void on_cancel(operation&, asio::cancellation_type_t);

    // Acquiring: engine_acquire.cpp
    void start_acquire(operation&);
    key_queue* queue_for(detail::lock_state_ptr const&);
    void settle(key_queue&, lease_clock::time_point now);
    void schedule(key_queue&);
    void begin_try(key_queue&, bool at_arbiter);
    void begin_inspection(key_queue&);
    unsigned arbiter_of(key_queue const&) const;
    void listen(key_queue&);
    void ask_to_push(key_queue&, protocol::instance_set);
    void on_watched(holding&, unsigned instance, std::uint32_t round, redis::answer const&);
    void give_up_try(key_queue&);
    void forget(key_queue&);
    void detach(key_queue&);
    void on_try_answer(holding&, unsigned instance, protocol::command, std::uint32_t round,
                       redis::answer const&);
    void on_won(holding&);
    void on_try_failed(holding&, protocol::event);
    void on_arbiter_refused(key_queue&, redis::answer const&);
    void on_inspection(holding&, unsigned instance, redis::answer const&);
    void on_inspected(key_queue&);
    lease_state* new_lease() noexcept;
    void grant(operation&, holding&, lease_state&);
    bool wake(unsigned instance, std::string_view key);
    void look_for_late_instances();
    protocol::instance_set late() const;
    protocol::instance_set punctual(protocol::instance_set) const;
    bool has_quorum() const;
    void count_as_waiting(operation&);
    void leave(operation&, errc);
    void give_up_acquire(operation&, errc);
    void fail_acquire(operation&, errc);
    bool waited_for_a_holder(operation const&) const;
    key_queue::findings::one* findings_of(key_queue&, unsigned instance) noexcept;
    void note(key_queue&, unsigned instance, redis::answer const&);
    errc reason_of(unsigned instance) const;
    errc common_cause(key_queue const&) const;
    std::shared_ptr<acquire_report const> make_report(operation const&) const;
    instance_outcome outcome_without_vote(key_queue const&, unsigned instance,
                                          instance_state) const;
    static operation& front(key_queue&);

    // Our own clock: engine_clock.cpp
    void judge_clock();
    void move_deadlines(protocol::standstill::finding const&);

    // Tenures and leases
    void on_answer(holding&, unsigned instance, protocol::command, std::uint32_t round,
                   redis::answer const&);
    void apply(holding&, protocol::step const&);
    void send(holding&, protocol::command, protocol::instance_set, std::uint32_t round);
    void start_release(operation&);
    void start_extend(operation&);
    void owe(holding&) noexcept;
    void answer_what_is_owed();
    void start_lost(operation&);
    void wait_for_end(operation&, lease_clock::time_point now);
    void on_over(holding&, protocol::event);
    void on_deadline(holding&);
    void end_tenure(key_queue&, lease_clock::time_point now);
    void tell_waiters(lease_state&, bool only_extends, errc to_extends, errc to_lost);
    void end_lease(lease_state&, operation*, lease_state::end);
    void release(holding&, operation*, bool gives_back, lease_clock::time_point now);
    void start_renew(operation&);
    void retire(wish_ptr) noexcept;
    bool hand_over(holding&, lease_state*, operation*, lease_clock::time_point now);
    static bool is_wanted(lease_state&);
    void keep_counters(holding&);
    void schedule(holding&);
    void schedule_if_late(holding&);
    void close(lease_state&, lease_state::end);

    void complete(operation&, error, detail::lease_ref = {});
    void complete(operation&, release_result);
    void finish(operation&);

    template <class Visit>
    void for_each_queue(Visit);
    /// `why`: what a drain is told if there are leases left.
    void begin_shutdown(errc why = errc::shut_down);
    void refuse_all_who_wait();
    void start_drain(operation&);
    void end_drain_if_done();
    std::shared_ptr<engine> finish_shutdown_if_done() noexcept;

    void give_back_memory() noexcept;

    std::uint64_t pause_bits() noexcept;
    protocol::instance_set reachable() const;
    void look_at_instances() const;
    protocol::instance_set voters() const;

    asio::any_io_executor user_executor_, executor_; ///< empty when the context has been destroyed
    bool const thread_safe_;
    std::string const key_prefix_;
    std::chrono::milliseconds const max_ttl_;
    std::chrono::milliseconds const instance_timeout_, fence_ttl_;

    pool<lease_state> leases_; ///< on the executor alone

    // From any thread, under the mutex.
    mutable std::mutex mutex_;
    pool<operation> operations_;
    std::uint32_t first_generation_ =
        0; ///< of an operation that is made now: none before it had it
    operation_list starts_;
    cancel_list cancellations_;
    drop_list drops_;
    bool turn_pending_ = false;
    std::atomic<bool> turn_lost_{false}; ///< asked for, and not taken by the executor
    bool dead_ = false;                  ///< the context is gone
    bool shut_down_ = false;             ///< has been asked for in the background, by background_
    operation background_{*this};
    turn_executor turns_;

    // On the executor alone.
    operation_list taken_; ///< starts that have not been looked at
    operation_list finished_;
    unsigned turn_depth_ = 0;
    bool look_again_ = false;   ///< a turn is wanted after this one
    std::exception_ptr thrown_; ///< leaves when the turn is over
    lease_clock::time_point turn_began_{};
    lease_clock::time_point period_ends_{}, looks_at_memory_{}; ///< of the pools
    bool stopping_ = false;
    bool stopped_ = false;
    draining drain_{*this};
    owed_list owed_;            ///< who is answered in the next turn
    wish_ptr retired_;          ///< to be destroyed in the next turn
    std::size_t releasing_ = 0; ///< leases whose release is under way
    std::size_t ending_ = 0;    ///< tenures whose holder was told of the loss, before the deadline
    pool<holding> holdings_;
    pool<key_queue> queues_;
    lease_list held_;
    key_queue_set keys_;
    waiting_list waiting_; ///< queues to which an instance is to push
    operation_list acquiring_;
    operation_list shutdowns_, drains_;
    deadline_queue deadlines_;
    protocol::standstill standstill_;
    token_source random_;
    redis::encoder encoder_;
    protocol::round_trips round_trips_;
    protocol::instance_set newly_late_; ///< those who wait for their pushes have not moved on
    std::vector<std::shared_ptr<redis::instance>> instances_;
    mutable protocol::instance_set reachable_, voters_; ///< of this turn
    mutable bool instances_seen_ = false;
    std::shared_ptr<engine> running_; ///< itself, from start() until it has shut down
    counters counters_;
};

} // namespace holdfast::runtime

#endif
