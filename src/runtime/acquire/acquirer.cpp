// Queues: acquires join them, wait, and leave.
#include "runtime/acquire/acquirer.hpp"

#include "protocol/tenure/fence.hpp"

#include <boost/scope/scope_exit.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace holdfast::runtime {

namespace {

/// True if this client had the key, or if an instance said that another client has it. An instance
/// that is silent proves nothing.
bool waited_for_a_holder(operation const& op) {
    auto const& call = op.as<acquire_call>();
    auto const& q = *call.queue;
    return q.machine.counts().tenures != call.tenures_before || q.machine.seen_held() ||
           (q.machine.trying() && !q.tenure->machine.votes().no().empty());
}

acquire_outcome outcome_of(errc cause) {
    switch (cause) {
    case errc::contended:
        return acquire_outcome::contended;
    case errc::wait_timeout:
        return acquire_outcome::timed_out;
    case errc::cancelled:
        return acquire_outcome::cancelled;
    case errc::granted_too_late:
        return acquire_outcome::unavailable;
    default:
        return make_error_code(cause) == error_condition::unavailable ? acquire_outcome::unavailable
                                                                      : acquire_outcome::failed;
    }
}

} // namespace

acquirer::acquirer(services const& s, tenure_driver& tenures, lock_maker& locks,
                   std::chrono::milliseconds instance_timeout, std::chrono::milliseconds fence_ttl)
    : turn_(s.turn)
    , instances_(s.instances)
    , tenures_(tenures)
    , locks_(locks)
    , timers_(s.timers)
    , completer_(s.completer)
    , counters_(s.counters)
    , events_(s.events)
    , random_(s.random)
    , instance_timeout_(instance_timeout)
    , known_counters_(fence_ttl) {}

//
// Operations
//

// Returns false if the acquire has failed already.
bool acquirer::admit(operation& op) {
    auto const now = turn_.time();
    auto& call = op.as<acquire_call>();
    auto const limit = call.limit();
    auto const needs_timer = call.needs_timer();
    call.start_at(now);
    op.behind = false;
    acquiring_.push_back(op);
    counters::add(counters_.pending);
    if (refuses_ || op.cancel_requested) {
        fail(op, refuses_ ? errc::shut_down : errc::cancelled);
        return false;
    }
    if (needs_timer) {
        // A limit that is too large to be added to the time counts as no limit.
        auto const slack = timer_queue::coarseness; // a coarse timer must not end a wait early
        auto const longest = lease_clock::time_point::max() - now - slack;
        op.timer->owner = this;
        timers_.schedule(*op.timer, now + std::min<lease_clock::duration>(limit, longest) + slack);
    }
    auto const& options = call.lock->options();
    op.set_ttl(options.ttl);
    op.renewed = options.watchdog;
    auto const* const adopted = call.adopted();
    op.adopts = adopted != nullptr;
    op.fenced = adopted != nullptr ? adopted->fence != 0 : options.fencing;
    op.handovers = (adopted != nullptr ? protocol::handovers_of(adopted->fence) : 0) & 0x7fU;
    op.permits = call.lock->permits() & 0x3fffU;
    op.waits = limit > std::chrono::nanoseconds::zero();
    op.stays = op.waits && !op.adopts && options.on_outage == outage_policy::wait;
    op.again = false;
    op.shared = call.lock->access() == lock_access::read;
    op.alone = op.shared && (!op.renewed || options.max_hold.count() != 0);
    op.writes = call.lock->access() == lock_access::write;
    op.notes = op.writes && op.waits && !op.adopts;
    return true;
}

active_queue* acquirer::make_queue(detail::lock_state_ptr const& lock, std::size_t hash) {
    auto& q = queues_.take(*this);
    boost::scope::scope_exit undo([&] {
        q.lock.reset();
        queues_.give_back(q);
    });
    q.machine = protocol::wait_queue(instances_.size());
    q.lock = lock;
    q.hash = hash;
    q.of_set = !lock->keys().empty();
    keys_.insert(q);
    undo.set_active(false);
    return &q;
}

void acquirer::join(operation& op, active_queue& q) {
    auto& call = op.as<acquire_call>();
    auto const& options = call.lock->options();
    call.queue = &q;
    q.machine.yields(options.yield_to_pollers);
    if (options.fair) q.machine.is_fair(true); // one fair lock makes the key fair
    call.tries_before = q.machine.counts().tries;
    call.tenures_before = q.machine.counts().tenures - (q.machine.held() ? 1 : 0);
    op.stage = operation_stage::queued;
    auto const first = q.machine.empty() && !q.machine.held() && q.machine.may_try();
    auto const now = call.started();
    auto const outage = q.machine.failed_outage_tries() != 0 && !q.machine.empty();
    if (op.adopts && op.permits != 0 && holds_permit(op)) {
        fail(op, errc::contended);
    } else if (outage && !op.stays && !op.adopts) {
        fail(op, common_cause(q.round, instances_.causes()));
    } else if (!q.machine.join(op)) {
        fail(op, errc::contended);
    } else if (!first) {
        count_as_waiting(op);
    }
    settle(q, now);
}

void acquirer::cancel(operation& op, asio::cancellation_type_t type) {
    // A total cancellation promises that the acquire had no effect. So if a try is under way, the
    // cancellation waits for its result.
    auto const total_only =
        (type & (asio::cancellation_type_t::partial | asio::cancellation_type_t::terminal)) ==
        asio::cancellation_type_t::none;
    auto* const q = op.as<acquire_call>().queue;
    if (total_only && q != nullptr && q->machine.trying() && &q->front() == &op) {
        op.cancel_requested = true;
    } else {
        give_up(op, errc::cancelled);
    }
}

void acquirer::on_time(operation& op, lease_clock::time_point) {
    give_up(op, cause_at_limit(op));
}

errc acquirer::cause_at_limit(operation const& op) const {
    auto const& call = op.as<acquire_call>();
    if (call.queue == nullptr) return errc::wait_timeout; // behind others of this process
    auto const* q = call.queue;
    if (q->of_set) {
        auto const& turn = turn_of(op);
        if (!turn.first_everywhere()) return errc::wait_timeout;
        if (auto const* const taking = turn.taking()) return cause_at_limit(*taking);
        if (!turn.taken.empty()) return errc::wait_timeout;
    }
    if (q->machine.in_outage()) return common_cause(q->round, instances_.causes());
    return waited_for_a_holder(op) ? errc::wait_timeout : errc::no_quorum;
}

void acquirer::refuse_waiting() {
    while (!acquiring_.empty()) leave(acquiring_.front(), errc::shut_down);
}

void acquirer::count_as_waiting(operation& op) {
    if (!op.waits || std::exchange(op.behind, true)) return;
    counters::add(counters_.waiters);
    events_.waiting(*op.as<acquire_call>().lock);
}

// Takes an acquire out of its queue, and completes it with an error.
void acquirer::leave(operation& op, errc cause) {
    auto const& call = op.as<acquire_call>();
    if (call.queue != nullptr) {
        call.queue->machine.leave(op);
        return fail(op, cause);
    }
    protocol::key_line::leave(op);
    fail(op, cause);
}

// The caller does not want the lock any more. A try that was made for this acquire goes on for the
// next waiter. If no waiter can use the try, its grants are released.
void acquirer::give_up(operation& op, errc cause) {
    auto* const q = op.as<acquire_call>().queue;
    if (q == nullptr) return leave(op, cause);
    if (q->machine.trying() && q->asks_all) q->round.votes = q->tenure->machine.votes();
    leave(op, cause);
    settle(*q, turn_.time());
}

void acquirer::fail(operation& op, errc cause) {
    auto const& call = op.as<acquire_call>();
    if (call.extras && call.extras->owner != nullptr) return completer_.complete(op, cause);
    counters::add(counters_.acquire_failed);
    std::shared_ptr<acquire_report const> report;
    auto const queued = op.stage == operation_stage::queued;
    if (queued && cause != errc::shut_down && cause != errc::out_of_memory) {
        // If that fails, the handler gets the code alone.
        turn_.attempt([&] { report = make_report(op); });
    }
    auto const took = turn_.time() - call.started();
    counters_.ended(outcome_of(cause), took, op.behind);
    events_.failed(*call.lock, reported_call::acquire, cause, took, report.get());
    if (!call.lock->keys().empty()) give_up_set(op);
    completer_.complete(op, cause, std::move(report));
}

std::shared_ptr<acquire_report const> acquirer::make_report(operation const& op) {
    auto const& call = op.as<acquire_call>();
    auto const* const q = call.queue;
    // Of several keys: the one that it waits for after it has taken others.
    auto const* const turn = turn_if_any(op);
    auto const* const taking = turn == nullptr ? nullptr : turn->taking();
    auto const* const asks = taking == nullptr ? q : taking->as<acquire_call>().queue;
    round_record const nothing;
    auto const& round = asks != nullptr ? asks->round : nothing;
    auto const keys = detail::keys_of(*call.lock);
    report_input input{.key = call.lock->key(),
                       .keys = call.lock->keys(),
                       .awaited = asks == q ? std::string_view() : asks->key(),
                       .reads = op.shared,
                       .adopts = op.adopts,
                       .waited = turn_.time() - call.started(),
                       .asked = {},
                       .round = round,
                       .instances = instances_.snapshots(round, keys)};
    if (q != nullptr) input.attempts = q->machine.counts().tries - call.tries_before;
    if (asks != nullptr && asks->machine.trying()) input.asked = asks->tenure->machine.maybe_held();
    if (auto const* const t = holder_here(op); t != nullptr) {
        auto const left = std::max(t->machine.deadline() - turn_.time(), protocol::duration(0));
        input.held_here = {.instances = t->machine.maybe_held(),
                           .left = std::chrono::duration_cast<std::chrono::milliseconds>(left)};
    }
    return std::make_shared<acquire_report const>(build_report(input));
}

/// The tenure of this client that keeps the acquire waiting, or null.
active_tenure* acquirer::holder_here(operation const& op) {
    auto const& call = op.as<acquire_call>();
    if (call.queue != nullptr && call.queue->machine.held()) return call.queue->tenure.get();
    active_tenure* found = nullptr;
    if (!lines_.any()) return found;
    auto const* const turn = turn_if_any(op);
    auto mine = turn == nullptr ? std::size_t(0) : turn->taken.size();
    call.lock->for_each_key([&](std::string_view key) {
        if (mine > 0) return void(--mine);
        if (found != nullptr) return;
        auto const* const q = keys_.find(key).queue();
        auto* const own = keys_.find(key).tenure();
        if (q == nullptr || q->machine.held()) found = own;
        // Its own try is no holder.
        if (found == nullptr && queue_of_set(key) != call.queue) found = tenure_of_set(key);
    });
    return found;
}

//
// Queues
//

void acquirer::settle(active_queue& q, lease_clock::time_point now) {
    if (q.of_set) return settle_set(q, now);
    run(q, now);
}

/// False: the queue is back in the pool.
bool acquirer::run(active_queue& q, lease_clock::time_point now) {
    using effect = protocol::queue_effect;
    for (;;) {
        if (q.of_set) update_gate(q);
        auto const action = q.machine.next(now, instances_.voters());
        if (action.empty()) {
            if (q.noting && !q.machine.has_writers()) withdraw(q);
            schedule(q);
            return true;
        }
        if (!action.track.empty()) ask_to_push(q, action.track);
        switch (action.effect) {
        case effect::try_all:
        case effect::try_arbiter:
        case effect::try_reserved:
            begin_try(q, action.effect);
            break;
        case effect::inspect:
            begin_inspection(q);
            break;
        case effect::listen:
            listen(q);
            break;
        case effect::refuse:
            leave(static_cast<operation&>(q.machine.to_refuse()), errc::contended);
            break;
        case effect::cancel_try:
            cancel_try(q);
            break;
        case effect::fold:
            if (q.round.empty() && !q.of_set) {
                fold(q);
                return false;
            }
            schedule(q);
            return true;
        case effect::part:
            if (q.tenure->shared) q.parted = q.tenure;
            q.tenure->note_round_trip(q.machine.round_trip());
            q.detach();
            break;
        case effect::forget:
            forget(q);
            return false;
        case effect::none:
            break;
        }
    }
}

void acquirer::schedule(active_queue& q) {
    if (auto const wake = q.machine.wake()) {
        timers_.schedule(q, *wake);
    } else {
        timers_.cancel(q);
    }
    if (q.machine.awaits_instances() != q.waiting_hook::is_linked()) {
        if (q.machine.awaits_instances()) {
            waiting_.push_back(q);
        } else {
            q.waiting_hook::unlink();
        }
    }
}

void acquirer::forget(active_queue& q) noexcept {
    leave_line(q);
    if (q.noting) withdraw(q);
    q.detach();
    keys_.erase(key_entry(q));
    if (q.of_set) {
        end_lease_of(q);
        lines_.remove(q);
        return put_back(q);
    }
    auto const lock = lines_.any() ? q.lock : nullptr;
    put_back(q);
    if (lock) freed(lock->key());
}

void acquirer::put_back(active_queue& q) noexcept {
    timers_.cancel(q);
    q.waiting_hook::unlink();
    if (auto const w = std::exchange(q.tracking, nullptr)) w->queue = nullptr;
    q.lock.reset();
    q.noting.reset();
    q.noted = {};
    q.parted.reset();
    q.round = {};
    queues_.give_back(static_cast<queue&>(q));
}

// A queue whose round has answers for a report is not folded.
void acquirer::fold(active_queue& q) noexcept {
    auto& t = *q.tenure.detach(); // keys_ has this reference now
    t.queue = nullptr;
    t.note_round_trip(q.machine.folded().round_trip);
    keys_.replace(key_entry(q), key_entry(t));
    put_back(q);
}

active_queue* acquirer::unfold(active_tenure& t) {
    auto* const q = &queues_.take(*this);
    protocol::folded_queue const folded{.held_since = t.machine.lease_began(),
                                        .round_trip = t.round_trip,
                                        .fenced = t.machine.fenced(),
                                        .writes = t.lock->access() == lock_access::write,
                                        .ttl = t.machine.ttl()};
    q->machine = protocol::wait_queue(instances_.size(), folded);
    q->machine.is_fair(t.fair);
    q->lock = t.lock;
    q->hash = hash_of_key(q->key());
    q->of_set = false; // these are not folded
    q->tenure = active_tenure_ptr(&t, false);
    t.queue = q;
    keys_.replace(key_entry(t), key_entry(*q));
    return q;
}

void acquirer::forget(active_tenure& t) noexcept {
    keys_.erase(key_entry(t));
    active_tenure_ptr const last(&t, false);
    if (lines_.any() && t.lock->keys().empty()) freed(t.lock->key());
}

void acquirer::abandon() noexcept {
    for (auto& t : turns_) t.give_back();
    queues_.for_each(
        [](queue& q) { auto const lock = std::move(q.lock), noting = std::move(q.noting); });
}

void acquirer::clear() noexcept {
    for (auto at = turns_.begin(); at != turns_.end();) {
        auto& t = *at++;
        t.give_back();
        if (t.orphaned) std::unique_ptr<set_turn> const last(&t);
    }
    due_.clear();
    called_.clear();
    lines_.clear();
    line_.clear();
    queues_.for_each([](queue& q) {
        q.machine.abandon();
        q.tenure.detach();
        q.parted.detach();
        q.tracking.detach();
    });
}

} // namespace holdfast::runtime
