#include "runtime/engine/engine.hpp"

#include "redis/cluster/cluster_instance.hpp"
#include "redis/sentinel/sentinel_instance.hpp"
#include "redis/server/server_link.hpp"
#include "runtime/engine/lock_state.hpp"

#include <boost/asio/config.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <cassert>
#include <variant>

namespace holdfast::runtime {

namespace {

/// For the executor of an io_context, the strand uses the concrete type instead of the type-erased
/// one. This saves one allocation for each action.
asio::any_io_executor strand_on(asio::any_io_executor const& executor) {
    if (auto const* const known = executor.target<asio::io_context::executor_type>()) {
        return asio::make_strand(*known);
    }
    return asio::make_strand(executor);
}

/// The context of the executor, if one thread runs it; otherwise null. No other thread then waits
/// for the client's strand. So the strand may run handlers of that context.
asio::io_context const* place_for_handlers(asio::any_io_executor const& executor,
                                           bool thread_safe) {
    auto const* const known = executor.target<asio::io_context::executor_type>();
    if (known == nullptr) return nullptr;
    auto& context = known->context();
    auto const one_thread =
        !thread_safe || asio::config(context).get("scheduler", "concurrency_hint", -1) == 1;
    return one_thread ? &context : nullptr;
}

} // namespace

//
// Lifetime
//

engine::engine(asio::any_io_executor executor, std::vector<address> const& instances,
               client_options const& options)
    : user_executor_(executor)
    , executor_(options.thread_safe ? strand_on(executor) : executor)
    , key_prefix_(options.key_prefix.view())
    , max_ttl_(options.max_ttl)
    , instance_timeout_(options.instance_timeout)
    , inbox_(*this, executor_, options.thread_safe, counters_)
    , events_(options, turn_, counters_)
    , timers_(executor_)
    , random_(options.holder_label.view())
    , leader_(shared(), tenures_, acquirer_, keeper_, watcher_, options.fence_ttl)
    , tenures_(shared(), leader_)
    , completer_(turn_, timers_, counters_,
                 {&user_executor_, place_for_handlers(executor, options.thread_safe)})
    , acquirer_(shared(), tenures_, *this, options.instance_timeout, options.fence_ttl)
    , keeper_(shared(), tenures_, acquirer_, options.fence_ttl)
    , surveyor_(shared(), acquirer_)
    , inspector_(shared(), surveyor_)
    , watcher_(shared(), surveyor_)
    , remover_(shared(), surveyor_, *this, options.max_ttl)
    , revoker_(shared(), surveyor_, *this, options.max_ttl)
    , lister_(shared())
    , readiness_(shared())
    , standstill_(static_cast<unsigned>(instances.size()), options.max_ttl)
    , ages_(options.max_ttl) {
    redis::tls_context_sources tls;
    for (unsigned i = 0; i < instances.size(); ++i) {
        auto const& a = instances[i];
        redis::connection_options const each{.address = a,
                                             .instance_timeout = options.instance_timeout,
                                             .connect_timeout = options.connect_timeout,
                                             .max_reconnect_delay = options.max_reconnect_delay,
                                             .max_ttl = options.max_ttl,
                                             .on_restart = options.on_restart,
                                             .detect_clock_jumps = options.detect_clock_jumps,
                                             .max_pending_releases = options.max_pending_releases,
                                             .name = std::string(options.connection_name.view()),
                                             .tls = tls.find_for(a),
                                             .source = a.credentials_source(),
                                             .replicas = options.replicas};
        instances_.add(make_instance(i, each, instances.size() == 1));
    }
}

instance_group::pointer engine::make_instance(unsigned number, redis::connection_options const& o,
                                              bool sole) {
    auto& owner = static_cast<redis::instance_owner&>(*this);
    if (o.address.deployment() == deployment::sentinel)
        return std::make_shared<redis::sentinel_instance>(executor_, number, o, owner);
    if (o.address.deployment() == deployment::cluster)
        return std::make_shared<redis::cluster_instance>(executor_, number, o, sole, owner);
    return std::make_shared<redis::server_link>(executor_, number, o, owner);
}

engine::~engine() {
    assert(turns_on_stack_ == 0);
    inbox_.clear();
    tenures_.forget_outstanding();
    instances_.clear();
    timers_.clear();
    watcher_.clear();
    acquirer_.clear();
    keeper_.clear();
}

void engine::abandon() noexcept {
    // The parts that are released here may have the last references to each other. `self` and the
    // caller keep the engine alive meanwhile.
    auto const self = std::move(running_);
    inbox_.close();
    for (auto const& i : instances_) i->abandon();
    instances_.clear();
    timers_.abandon();
    inbox_.abandon();
    tenures_.abandon();
    watcher_.clear();
    acquirer_.abandon();
    keeper_.abandon();
    executor_ = nullptr;
    user_executor_ = nullptr;
}

// Closes the sockets before the turn ends, so the commands of the turn are dropped. The parent
// still has these sockets open, so the instances do not notice.
void engine::end_in_child() {
    auto const alive = shared_from_this();
    events_.silence(); // nothing is lost: the leases are the parent's
    completer_.send_all();
    redis::in_turn(static_cast<redis::instance_owner&>(*this), [this] {
        turn_.attempt([&] { begin_shutdown(); });
        for (auto const& i : instances_) turn_.attempt([&] { i->stop(); });
    });
}

//
// From any thread
//

std::vector<instance_status> engine::instances() const {
    std::vector<instance_status> all;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        all.push_back(instances_[i].status());
        all.back().round_trips = instances_.round_trip_times(i);
    }
    return all;
}

client_stats engine::statistics() const {
    auto s = counters_.read();
    for (auto const& i : instances_) {
        s.commands += counters::get(i->counts().commands);
        s.batches += counters::get(i->counts().batches);
        s.releases_dropped += counters::get(i->counts().releases_dropped);
    }
    return s;
}

//
// Events
//

void engine::notify_states() noexcept {
    states_changed_ = false;
    turn_.run([&] { states_.notify_changes(instances(), events_); });
}

void engine::on_change() {
    instances_.changed();
    states_changed_ = static_cast<bool>(events_);
    on_idle();
}

void engine::on_idle() {
    if (stopping_ && !stopped_) turn_.ask_for_another();
}

void engine::on_unavailable(unsigned instance) {
    instances_.changed();
    states_changed_ = static_cast<bool>(events_);
    turn_.run([&] {
        check_clock();
        acquirer_.on_unavailable(instance);
        watcher_.on_came_or_went(instance);
        lister_.on_came_or_went(instance);
    });
}

void engine::on_available(unsigned instance) {
    instances_.changed();
    states_changed_ = static_cast<bool>(events_);
    turn_.run([&] {
        acquirer_.on_available();
        watcher_.on_came_or_went(instance);
        lister_.on_came_or_went(instance);
    });
}

void engine::on_own_change(unsigned instance, std::string_view key) {
    watcher_.on_own_write(instance, key);
    acquirer_.on_own_release(instance, key);
}

detail::lock_state_ptr engine::make_lock(lock_options const& options, std::string_view key) {
    return make_lock_state({find_or_make_settings(options), {}, key, {}});
}

//
// Operations
//

struct engine::starter {
    engine& e;
    operation& op;

    template <class Call>
    void operator()(Call& call) const {
        if constexpr (call_that_ends_when_cancelled<Call>) {
            if (op.cancel_requested) return e.completer_.complete(op, errc::cancelled);
        }
        if constexpr (call_on_key<Call>) {
            if (e.stopping_) return e.completer_.complete(op, errc::shut_down);
        }
        start(call);
    }

private:
    void start(acquire_call&) const {
        auto* const t = e.acquirer_.start(op, [this](lease_record& l) { return e.take_let_go(l); });
        if (t != nullptr) e.leader_.share(*t, op);
    }
    void start(release_call&) const { e.leader_.settle(e.keeper_.start_release(op)); }
    void start(extend_call&) const { e.leader_.settle(e.keeper_.start_extend(op)); }
    void start(wait_end_call&) const { e.keeper_.start_wait_end(op); }
    void start(renew_call&) const { e.keeper_.start_renew(op); }
    void start(detach_call&) const { e.leader_.settle(e.keeper_.start_detach(op)); }
    void start(ready_call&) const {
        if (e.stopping_ || e.draining_) return e.completer_.complete(op, errc::shut_down);
        e.readiness_.start(op);
    }
    void start(shutdown_call&) const { e.start_shutdown(op); }
    void start(drain_call&) const { e.start_drain(op); }
    void start(inspect_call&) const { e.inspector_.start(op); }
    void start(wait_change_call&) const { e.watcher_.start(op); }
    void start(list_call&) const {
        if (e.stopping_) return e.completer_.complete(op, errc::shut_down);
        e.lister_.start(op);
    }
    void start(release_key_call&) const { e.remover_.start_release(op); }
    void start(force_release_call&) const { e.remover_.start_force(op); }
    void start(revoke_call&) const { e.revoker_.start(op); }
    // Never submitted.
    void start(std::monostate&) const {}
    void start(ended_acquire&) const {}
    void start(ended_release&) const {}
};

struct engine::canceller {
    engine& e;
    operation& op;
    asio::cancellation_type_t type;

    void operator()(acquire_call&) const { e.acquirer_.cancel(op, type); }
    void operator()(inspect_call&) const { e.inspector_.cancel(op); }
    void operator()(wait_change_call&) const { e.watcher_.cancel(op); }
    void operator()(force_release_call&) const { e.remover_.cancel(op); }
    void operator()(revoke_call&) const { e.revoker_.cancel(op); }
    /// The others stand in a list alone, or cannot be cancelled.
    template <class Call>
    void operator()(Call&) const {
        if constexpr (call_that_ends_when_cancelled<Call>)
            e.completer_.complete(op, errc::cancelled);
    }
};

// A call that has not changed anything yet fails alone.
void engine::start_operation(operation& op) {
    auto const generation = op.generation;
    if (turn_.attempt([&] { std::visit(starter{*this, op}, op.call); })) return;
    if (op.generation == generation && op.stage == operation_stage::starting) {
        refuse(op);
    } else {
        turn_.fail();
    }
}

void engine::refuse(operation& op) {
    if (std::holds_alternative<acquire_call>(op.call))
        return acquirer_.fail(op, errc::out_of_memory);
    completer_.complete(op, errc::out_of_memory);
}

void engine::cancel_operation(operation& op, asio::cancellation_type_t type) {
    if (op.stage == operation_stage::starting) {
        op.cancel_requested = true;
        return;
    }
    std::visit(canceller{*this, op, type}, op.call);
}

// If the inbox has the lease, ends it ahead of its turn, and returns true.
bool engine::take_let_go(lease_record& l) {
    auto const dropped = inbox_.take_drop(l);
    if (!dropped) return false;
    leader_.settle(keeper_.let_go(l, *dropped));
    return true;
}

} // namespace holdfast::runtime
