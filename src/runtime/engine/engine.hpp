// Runs a client. The engine owns these parts, and passes each event to the part that handles it:
//
//     inbox          calls from any thread
//     acquirer       queues and tries
//     lease_keeper   tenures that were won, and their leases
//     tenure_leader  decides which of these two handles an event of a tenure
//
// Four more take the calls that concern no lock of this client: the inspector, the key_watcher, the
// key_remover and the lister.
//
// Everything but the inbox happens on one executor, in turns. The executor is a strand unless
// client_options::thread_safe is off. A turn takes the calls that have come in, and lets the
// machines decide. It ends by sending to each instance the commands that were gathered for it, in
// one batch.
//
// Failures, mostly of memory, end at two boundaries. What fails while a link works ends that link,
// as any lost connection does. What fails in a turn outside of a link ends the client, as
// shutdown() does. Before that, a call whose own memory is not to be had completes with
// errc::out_of_memory, and has changed nothing. If a handler or its allocator throws, the exception
// is kept until the turn is over, and then leaves through the executor.
#ifndef HOLDFAST_RUNTIME_ENGINE_HPP
#define HOLDFAST_RUNTIME_ENGINE_HPP

#include <holdfast/address.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/options.hpp>

#include "protocol/server/server_ages.hpp"
#include "protocol/server/standstill.hpp"
#include "redis/server/instance.hpp"
#include "runtime/acquire/acquirer.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/readiness.hpp"
#include "runtime/acquire/tenure_driver.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/engine/lock_settings_cache.hpp"
#include "runtime/engine/tenure_leader.hpp"
#include "runtime/keys/inspector.hpp"
#include "runtime/keys/key_remover.hpp"
#include "runtime/keys/key_watcher.hpp"
#include "runtime/keys/lister.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/lease/lease_keeper.hpp"
#include "runtime/lease/lease_record.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/event_sink.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/instance_states.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {
struct connection_options;
}

namespace holdfast::runtime {

class engine final : public std::enable_shared_from_this<engine>,
                     private redis::instance_owner,
                     private removal_listener,
                     private lock_maker {
public:
    engine(asio::any_io_executor executor, std::vector<address> const&, client_options const&);
    ~engine();

    void start();

    // From any thread.
    void submit(any_call&& call) { inbox_.submit(std::move(call)); }
    void cancel(operation* op, std::uint32_t generation, asio::cancellation_type_t type) noexcept {
        inbox_.cancel(op, generation, type);
    }
    /// Called when the last share of the lease was given up.
    void give_up(detail::lease_data& l) noexcept {
        inbox_.let_go(static_cast<lease_record&>(l), false);
    }
    /// Called when the last handle of the lease is gone.
    void drop(detail::lease_data& l) noexcept {
        inbox_.let_go(static_cast<lease_record&>(l), true);
    }
    void shut_down_in_background() noexcept { inbox_.shut_down_in_background(); }
    /// Settings that share the ownership of this engine.
    detail::lock_settings_ptr find_or_make_settings(lock_options const& o,
                                                    lock_access access = lock_access::exclusive,
                                                    std::uint16_t permits = 0) {
        return settings_.find_or_make(*this, o, access, permits);
    }
    void forget(detail::lock_settings const& s) noexcept { settings_.forget(s); }
    std::vector<instance_status> instances() const;
    client_stats statistics() const;
    stall_record const& stalls() const noexcept { return counters_.stalls; }
    asio::any_io_executor const& executor() const { return user_executor_; }
    bool calls_in_place() const { return completer_.calls_in_place(); }
    std::string const& holder_label() const { return random_.label(); }
    std::string const& key_prefix() const { return key_prefix_; }
    std::chrono::milliseconds max_ttl() const { return max_ttl_; }

    /// Runs a turn that the inbox has asked for.
    void run_turn();
    /// Called when the execution context is being destroyed. Destroys all handlers without calling
    /// them, and everything else that uses the context. The user's locks and leases keep the rest
    /// of the engine alive.
    void abandon() noexcept;
    /// Called in the child process after a fork: all locks belong to the parent. Ends the client,
    /// and sends nothing to the instances.
    void end_in_child();

private:
    using inbox = basic_inbox<engine>;

    /// After an event, at most so many turns with calls of handlers follow at once, for no longer
    /// than about this.
    static constexpr unsigned turns_in_a_row = 16;
    static constexpr std::chrono::milliseconds longest_row{1};

    // Each begins or cancels a call with the part that serves it.
    struct starter;
    struct canceller;
    /// Takes the calls that the inbox delivers.
    struct receiver {
        void start(operation& op) { owner.start_operation(op); }
        void cancel(operation& op, asio::cancellation_type_t type) {
            owner.turn_.run([&] { owner.cancel_operation(op, type); });
        }
        void drop(lease_record& l, bool dropped) {
            owner.turn_.run([&] { owner.leader_.settle(owner.keeper_.let_go(l, dropped)); });
        }
        engine& owner;
    };

    /// The time limit of a drain: when it has passed, the shutdown begins.
    class drain_limit final : public timed {
    public:
        explicit drain_limit(engine& e)
            : engine_(e) {}
        void on_time(lease_clock::time_point now) override;

    private:
        engine& engine_;
    };

    /// The time limit of a shutdown: when it has passed, nothing more is awaited.
    class shutdown_limit final : public timed {
    public:
        explicit shutdown_limit(engine& e)
            : engine_(e) {}
        void on_time(lease_clock::time_point now) override;

    private:
        engine& engine_;
    };

    // instance_owner
    void in_turn(turn_work&) override;
    lease_clock::time_point time() const noexcept override { return turn_.time(); }
    bool is_new_server(unsigned instance, std::string_view run_id) override {
        return instances_.is_new_server(instance, run_id);
    }
    void on_push(unsigned instance, std::string_view key) override {
        turn_.run([&] {
            acquirer_.on_push(instance, key);
            watcher_.on_push(instance, key);
        });
    }
    void on_own_write(unsigned instance, std::string_view key) override {
        turn_.run([&] { watcher_.on_own_write(instance, key); });
    }
    void on_push_for_all(unsigned instance) override {
        turn_.run([&] {
            acquirer_.on_push_for_all(instance);
            watcher_.on_push_for_all(instance);
        });
    }
    void on_unavailable(unsigned instance) override;
    void on_available(unsigned instance) override;
    void on_round_trip(unsigned instance, lease_clock::duration took) override {
        instances_.heard(instance, took);
    }
    void on_clock_reading(unsigned instance, protocol::clock_reading const&) override;
    void on_age(unsigned, lease_clock::time_point start) override;
    bool awaits_ages(unsigned instance) const override;
    void on_forgotten(unsigned) override {
        turn_.run([&] { keeper_.check_all(); });
    }
    std::uint64_t random_bits() override { return random_.pause_bits(); }
    void on_change() override;
    void on_idle() override;

    // removal_listener
    detail::lock_state_ptr make_lock(lock_options const&, std::string_view key) override;
    void on_removed(unsigned instance, std::string_view key) override;

    template <class Work>
    void in_a_turn(Work&&);
    template <class Work>
    void in_one_turn(Work&&);
    void call_handlers();
    void take_calls(inbox::arrivals);
    void start_operation(operation&);
    void refuse(operation&);
    void cancel_operation(operation&, asio::cancellation_type_t);
    bool take_let_go(lease_record&);

    services shared() noexcept {
        return {turn_, instances_, timers_, completer_, counters_, events_, random_};
    }
    instance_group::pointer make_instance(unsigned number, redis::connection_options const&,
                                          bool sole);

    void check_clock(); // engine_clock.cpp
    void notify_states() noexcept;

    // engine_shutdown.cpp
    void begin_shutdown(errc left_over = errc::shut_down);
    void refuse_waiting();
    void start_shutdown(operation&);
    void start_drain(operation&);
    void end_at_once() noexcept;
    void end_drain_if_done();
    void finish_shutdown_if_done() noexcept;

    void give_back_memory() noexcept; // engine_memory.cpp

    asio::any_io_executor user_executor_, executor_; ///< empty when the context has been destroyed
    std::string const key_prefix_;
    std::chrono::milliseconds const max_ttl_;
    std::chrono::milliseconds const instance_timeout_;

    lock_settings_cache settings_;
    counters counters_;
    inbox inbox_;
    turn turn_{inbox_};
    event_sink events_;
    timer_queue timers_;
    token_source random_;
    instance_group instances_{turn_};
    tenure_leader leader_;
    tenure_driver tenures_;
    completer completer_;
    acquirer acquirer_;
    lease_keeper keeper_;
    surveyor surveyor_;
    inspector inspector_;
    key_watcher watcher_;
    key_remover remover_;
    lister lister_;
    readiness readiness_;

    // On the executor alone.
    instance_states states_;
    bool states_changed_ = false; ///< since the observer was notified
    protocol::standstill standstill_;
    protocol::server_ages ages_;
    lease_clock::time_point period_ends_{}, next_give_back_{}; ///< for the memory of the pools
    operation_list shutdowns_, drains_;
    drain_limit drain_limit_{*this};
    shutdown_limit shutdown_limit_{*this};
    bool shutdown_overdue_ = false;
    bool draining_ = false; ///< no lease is granted any more
    bool stopping_ = false;
    bool stopped_ = false;
    std::uint64_t lost_before_drain_ = 0;
    errc drained_{};                  ///< once the shutdown has begun: the result of drains
    std::shared_ptr<engine> running_; ///< keeps the engine alive until it has shut down
    unsigned turns_on_stack_ = 0;     ///< for an assertion: events with their turns and handlers
};

} // namespace holdfast::runtime

#endif
