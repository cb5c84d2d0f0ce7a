// How an acquire comes to its lease: the queue of its key, the tries made for the head of it, and
// what is told to those who do not get it.
#include "protocol/arbiter.hpp"
#include "protocol/fence.hpp"
#include "runtime/engine.hpp"

#include <boost/hash2/fnv1a.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace holdfast::runtime {

namespace {

/// The same in every process, unlike the hash of the queues.
std::uint64_t common_hash(std::string_view key) {
    boost::hash2::fnv1a_64 hash;
    hash.update(key.data(), key.size());
    return hash.result();
}

/// Any clock will do for safety; a right one spares rounds.
std::uint64_t fence_hint() {
    using namespace std::chrono;
    return protocol::fence_hint(
        duration_cast<milliseconds>(system_clock::now().time_since_epoch()));
}

instance_outcome outcome_of(errc why) {
    switch (why) {
    case errc::unreachable:
        return instance_outcome::unreachable;
    case errc::instance_timeout:
        return instance_outcome::timed_out;
    case errc::quarantined:
        return instance_outcome::quarantined;
    case errc::out_of_memory:
        return instance_outcome::unanswered;
    default:
        return instance_outcome::rejected;
    }
}

/// Whether an instance did not vote, whatever it was asked; else it was for the script that makes
/// fences.
bool is_silence(errc why) {
    return why == errc{} || why == errc::unreachable || why == errc::instance_timeout ||
           why == errc::quarantined || why == errc::out_of_memory;
}

} // namespace

void key_queue::on_time(lease_clock::time_point now) {
    engine_.settle(*this, now);
}

operation& engine::front(key_queue& q) {
    return static_cast<operation&>(q.machine.front());
}

//
// The queue
//

void engine::start_acquire(operation& op) {
    op.started = time();
    op.queue = nullptr;
    op.behind = false;
    acquiring_.push_back(op);
    counters_.pending.fetch_add(1, std::memory_order_relaxed);
    if (stopping_ || drain_.begun) return fail_acquire(op, errc::shut_down);
    if (op.cancel_requested) return fail_acquire(op, errc::cancelled);
    if (op.limit.what == detail::wait_limit::kind::until) {
        if (op.limit.time > std::chrono::nanoseconds::zero()) {
            // A limit too large to be added to the time is no limit.
            auto const longest = lease_clock::time_point::max() - op.started;
            op.give_up = op.started + std::min<lease_clock::duration>(op.limit.time, longest);
            deadlines_.schedule(op, op.give_up);
        } else {
            op.limit.what = detail::wait_limit::kind::none;
        }
    }
    auto const& options = op.lock->options;
    op.ttl = options.ttl;
    op.watched = options.watchdog;
    op.fenced = options.fencing;
    op.waits = op.limit.what != detail::wait_limit::kind::none;
    op.again = false;
    auto* const found = queue_for(op.lock);
    if (found == nullptr) return fail_acquire(op, errc::out_of_memory);
    auto& q = *found;
    op.queue = &q;
    q.machine.yields(op.lock->options.yield_to_pollers);
    op.tries_before = q.machine.tries();
    op.tenures_before = q.machine.tenures() - (q.machine.held() ? 1 : 0);
    op.where = operation::stage::queued;
    auto const first = q.machine.empty() && !q.machine.held();
    if (!q.machine.join(op)) return fail_acquire(op, errc::contended);
    if (!first) count_as_waiting(op);
    settle(q, op.started);
}

// Null: there is no memory for one.
key_queue* engine::queue_for(detail::lock_state_ptr const& lock) {
    auto const hash = key_queue_set::hash(lock->key);
    auto* known = keys_.find(lock->key, hash);
    // Whoever lets go of a lease and then asks for the key does not find it held by that lease.
    if (known != nullptr && known->tenure && known->tenure->lease != nullptr &&
        carry_out_if_let_go(*known->tenure->lease)) {
        known = keys_.find(lock->key, hash);
    }
    if (known != nullptr) return known;
    key_queue* q = nullptr;
    auto const made = attempt([&] {
        q = &queues_.take(*this);
        q->machine = protocol::wait_queue(static_cast<unsigned>(instances_.size()));
        q->lock = lock;
        q->hash = hash;
        keys_.insert(*q);
    });
    if (made) return q;
    if (q != nullptr) {
        q->lock.reset();
        queues_.give_back(*q);
    }
    return nullptr;
}

// Does what the machine says until it has nothing more to say. The queue may be gone after that.
void engine::settle(key_queue& q, lease_clock::time_point now) {
    if (q.settling) return; // by a caller of ours, who goes on
    q.settling = true;
    for (;;) {
        switch (q.machine.next(now, voters())) {
        case protocol::action::round:
            begin_try(q, false);
            break;
        case protocol::action::contend:
            begin_try(q, true);
            break;
        case protocol::action::ask:
            begin_inspection(q);
            break;
        case protocol::action::watch:
            ask_to_push(q, q.machine.to_watch());
            break;
        case protocol::action::listen:
            listen(q);
            break;
        case protocol::action::refuse:
            leave(front(q), errc::contended);
            break;
        case protocol::action::give_up:
            give_up_try(q);
            break;
        case protocol::action::forget:
            return forget(q);
        case protocol::action::none:
            q.settling = false;
            return schedule(q);
        }
    }
}

void engine::schedule(key_queue& q) {
    if (auto const wake = q.machine.wake()) {
        deadlines_.schedule(q, *wake);
    } else {
        deadlines_.cancel(q);
    }
    if (q.machine.awaits_instances() != q.waiting_hook::is_linked()) {
        if (q.machine.awaits_instances()) {
            waiting_.push_back(q);
        } else {
            q.waiting_hook::unlink();
        }
    }
}

void engine::forget(key_queue& q) {
    q.settling = false;
    deadlines_.cancel(q);
    q.waiting_hook::unlink();
    detach(q);
    if (auto const w = std::exchange(q.watch, nullptr)) w->queue = nullptr;
    keys_.erase(q);
    q.lock.reset();
    q.found = {};
    queues_.give_back(q);
}

// Its try or tenure is over, or goes on without it.
void engine::detach(key_queue& q) {
    if (!q.tenure) return;
    q.tenure->queue = nullptr;
    q.tenure.reset();
}

//
// Tries
//

void engine::begin_try(key_queue& q, bool at_arbiter) {
    auto& op = front(q);
    auto const& options = op.lock->options;
    // Read before the hint is made: a tenure that is won then has a hint of within its ttl.
    auto const now = time();
    redis::token token;
    std::uint64_t spread = 0;
    holding* made = nullptr;
    auto const ready = attempt([&] {
        spread = random_.next_bits();
        random_.renew(token);
        made = &holdings_.take(*this);
    });
    if (!ready) {
        q.machine.failed();
        return leave(op, errc::out_of_memory);
    }
    auto& h = *made;
    h.machine =
        protocol::tenure(static_cast<unsigned>(instances_.size()), options.ttl, options.watchdog,
                         protocol::spread_renewal_period(options.ttl, spread));
    h.machine.heed(round_trips_);
    if (options.fencing) h.machine.number_from(fence_hint());
    h.counted = now;
    h.token = token;
    h.lock = op.lock;
    detach(q);
    q.tenure = &h;
    h.queue = &q;
    counters_.rounds.fetch_add(1, std::memory_order_relaxed);
    q.asked = now;
    q.asks_all = !at_arbiter;
    if (!at_arbiter) {
        q.found.instances.clear();
        q.machine.begun(now);
        return apply(h, h.machine.acquire(now, voters()));
    }
    auto const arbiter = arbiter_of(q);
    q.machine.begun(now, arbiter);
    apply(h, h.machine.contend(now, arbiter));
}

unsigned engine::arbiter_of(key_queue const& q) const {
    return protocol::arbiter(common_hash(q.key()), punctual(q.machine.candidates(voters())),
                             [this](unsigned i) { return instances_[i]->identity(); });
}

void engine::give_up_try(key_queue& q) {
    auto const h = q.tenure;
    detach(q);
    apply(*h, h->machine.cancel());
    want_turn();
}

void engine::on_try_answer(holding& h, unsigned instance, protocol::command c, std::uint32_t round,
                           redis::answer const& a) {
    auto& q = *h.queue;
    if (a.verdict != protocol::verdict::yes) note(q, instance, a);
    auto const step = h.machine.answer(
        c, round, instance, a.verdict, [this] { return time(); }, a.number);
    if (step.what == protocol::event::none && step.raise.empty()) return schedule_if_late(h);
    holding_ptr const alive(&h);
    apply(h, step);
    if (step.what == protocol::event::arbiter_refused) {
        detach(q);
        on_arbiter_refused(q, a);
    } else if (step.what == protocol::event::arbiter_won) {
        q.found.instances.clear(); // all are asked again
        q.asks_all = true;
        auto const now = time();
        q.asked = now;
        apply(h, h.machine.ask_rest(now, voters()));
    }
}

void engine::on_won(holding& h) {
    auto& q = *h.queue;
    auto* const l = new_lease();
    auto& op = static_cast<operation&>(q.machine.won(time()));
    if (l == nullptr) {
        fail_acquire(op, errc::out_of_memory);
        return release(h, nullptr, false, time());
    }
    grant(op, h, *l);
    settle(q, time());
}

void engine::on_arbiter_refused(key_queue& q, redis::answer const& a) {
    auto const before = q.machine.wasted();
    std::optional<protocol::duration> left;
    if (a.ttl_left) left = *a.ttl_left;
    if (!a.ttl_known) left = protocol::duration(-1);
    auto const now = time();
    auto& op = front(q);
    count_as_waiting(op);
    q.machine.refused(now, left, a.told, op.lock->options.max_retry_delay, pause_bits());
    counters_.wasted_wakeups.fetch_add(q.machine.wasted() - before, std::memory_order_relaxed);
    if (op.cancel_requested) leave(op, errc::cancelled);
    settle(q, now);
}

// All that a try can come to but the lease. Whoever it was for has not left, as it would have taken
// it back.
void engine::on_try_failed(holding& h, protocol::event why) {
    auto& q = *h.queue;
    auto& op = front(q);
    auto const now = time();
    auto const before = q.machine.splits();
    if (q.asks_all) q.found.votes = h.machine.votes();
    auto const by_time = why == protocol::event::expired || why == protocol::event::arbiter_failed;
    if (by_time && q.machine.overslept(now, h.machine.deadline())) {
        if (op.cancel_requested) leave(op, errc::cancelled);
        detach(q);
        return settle(q, now);
    }
    switch (why) {
    case protocol::event::contended:
        count_as_waiting(op);
        q.machine.contended(now, h.machine.votes(), op.lock->options.max_retry_delay, pause_bits());
        counters_.split_votes.fetch_add(q.machine.splits() - before, std::memory_order_relaxed);
        if (op.cancel_requested) leave(op, errc::cancelled);
        if (!q.machine.asks()) detach(q);
        break;
    case protocol::event::arbiter_failed:
        q.machine.arbiter_failed();
        if (op.cancel_requested) leave(op, errc::cancelled);
        detach(q);
        break;
    default: {
        // Who has waited allows them a moment to come back.
        if (why == protocol::event::no_quorum && op.behind && !op.cancel_requested &&
            !has_quorum() && q.machine.failed_in_outage(now + instance_timeout_)) {
            detach(q);
            break;
        }
        q.machine.failed();
        auto const cause =
            why == protocol::event::expired ? errc::granted_too_late : common_cause(q);
        leave(op, op.cancel_requested ? errc::cancelled : cause);
        // It was made for all who were there when it began: they have waited as long, and fare no
        // better.
        auto const ttl = h.machine.ttl();
        auto refused = false;
        q.found.votes.failed().for_each(
            [&](unsigned i) { refused = refused || !is_silence(q.found.noted(i).why); });
        auto const fails_plain = !h.machine.fenced() || !refused;
        auto const same = [&](operation const& other) {
            return other.started <= q.asked && other.ttl <= ttl && (other.fenced || fails_plain);
        };
        while (!q.machine.empty() && same(front(q))) {
            leave(front(q), cause);
        }
        detach(q);
        break;
    }
    }
    settle(q, now);
}

// Asks those that refused what is in the way: for how long, and whether it is a lock at all.
void engine::begin_inspection(key_queue& q) {
    auto& f = q.found;
    f.wrong_types = 0;
    apply(*q.tenure, q.tenure->machine.inspect(time(), f.votes.no() & reachable()));
}

void engine::on_inspection(holding& h, unsigned instance, redis::answer const& a) {
    if (h.queue == nullptr) return;
    auto& q = *h.queue;
    auto& f = q.found;
    if (a.why == errc::wrong_type) ++f.wrong_types;
    if (auto* const one = findings_of(q, instance)) {
        if (a.verdict == protocol::verdict::yes) {
            one->ttl_known = a.ttl_known;
            one->ttl_left = a.ttl_left;
            attempt([&] { one->holder = a.holder; });
        } else if (a.why == errc::wrong_type) {
            one->held = false;
            one->why = a.why;
            attempt([&] { one->message = a.message; });
        }
    }
    auto const step = h.machine.answer(protocol::command::inspect, 0, instance, a.verdict, time());
    if (step.what == protocol::event::none) return schedule_if_late(h);
    apply(h, step);
}

// Those that are late leave a report with less in it.
void engine::on_inspected(key_queue& q) {
    q.machine.asked(q.tenure->machine.inspected_all());
    detach(q);
    auto const& f = q.found;
    if (f.wrong_types > instances_.size() - f.votes.quorum()) {
        // Nobody's lock, and so it is for all who wait.
        while (!q.machine.empty()) leave(front(q), errc::wrong_type);
    }
    settle(q, time());
}

//
// What wakes
//

void engine::on_push(unsigned instance, std::string_view key) {
    if (wake(instance, key)) counters_.pushes.fetch_add(1, std::memory_order_relaxed);
}

bool engine::wake(unsigned instance, std::string_view key) {
    auto* const q = keys_.find(key, key_queue_set::hash(key));
    auto const now = time();
    if (q == nullptr || !q->machine.push(now, instance, pause_bits())) return false;
    settle(*q, now);
    return true;
}

void engine::on_push_for_all(unsigned instance) {
    auto const now = time();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        if (!q.machine.push(now, instance, pause_bits())) continue;
        counters_.pushes.fetch_add(1, std::memory_order_relaxed);
        settle(q, now);
    }
}

void engine::on_unavailable(unsigned instance) {
    instances_seen_ = false;
    judge_clock();
    auto const now = time();
    auto const outage = !has_quorum();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        q.machine.disconnected(now, instance, pause_bits());
        if (outage) q.machine.outage(now + instance_timeout_);
        settle(q, now);
    }
}

void engine::on_available(unsigned) {
    instances_seen_ = false;
    if (!has_quorum()) return;
    auto const now = time();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        q.machine.restored(now, pause_bits());
        settle(q, now);
    }
}

bool engine::has_quorum() const {
    auto const there = voters().size();
    return there >=
           protocol::redlock_rules::quorum(static_cast<unsigned>(instances_.size()), there);
}

//
// Ends
//

// Null: there is no memory for one.
lease_state* engine::new_lease() noexcept {
    lease_state* l = nullptr;
    attempt([&] { l = &leases_.take(*this); });
    return l;
}

void engine::grant(operation& op, holding& h, lease_state& l) {
    l.tenure = &h;
    l.lock = op.lock;
    l.ended = lease_state::end::none;
    l.over.store(false, std::memory_order_relaxed);
    protocol::duration const longest = op.lock->options.max_hold;
    h.machine.begin_lease(op.watched, time(),
                          longest.count() == 0 ? protocol::duration::max() : longest);
    l.deadline.store(h.machine.deadline(), std::memory_order_release);
    l.fence = op.fenced ? protocol::fence_of(h.machine.number(), h.queue->machine.handoffs()) : 0;
    l.shares.store(1, std::memory_order_relaxed);
    l.shared.store(false, std::memory_order_relaxed);
    l.first.released.store(false, std::memory_order_relaxed);
    h.lease = &l;
    held_.push_back(l);
    counters_.acquired.fetch_add(1, std::memory_order_relaxed);
    l.counted.store(true, std::memory_order_relaxed);
    counters_.held.fetch_add(1, std::memory_order_relaxed);
    complete(op, error{}, detail::lease_ref(&l));
}

void engine::count_as_waiting(operation& op) {
    if (!op.waits || std::exchange(op.behind, true)) return;
    counters_.waiters.fetch_add(1, std::memory_order_relaxed);
}

// Out of the queue, with an error.
void engine::leave(operation& op, errc why) {
    op.queue->machine.leave(op);
    fail_acquire(op, why);
}

// The caller does not want it any more. What may have been granted is given back, unless another
// waits for it.
void engine::give_up_acquire(operation& op, errc why) {
    auto& q = *op.queue;
    if (q.machine.trying() && q.asks_all) q.found.votes = q.tenure->machine.votes();
    leave(op, why);
    settle(q, time());
}

void engine::fail_acquire(operation& op, errc why) {
    counters_.acquire_failed.fetch_add(1, std::memory_order_relaxed);
    auto const of_interest =
        op.queue != nullptr && why != errc::shut_down && why != errc::out_of_memory;
    std::shared_ptr<acquire_report const> findings;
    if (of_interest)
        attempt([&] { findings = make_report(op); }); // without it the code is told all the same
    complete(op, error(why, std::move(findings)));
}

// Held is what somebody has said; silence is not.
bool engine::waited_for_a_holder(operation const& op) const {
    auto const& q = *op.queue;
    return q.machine.tenures() != op.tenures_before || q.machine.seen_held() ||
           (q.machine.trying() && !q.tenure->machine.votes().no().empty());
}

//
// Reports
//

// Null: there is no memory for them.
key_queue::findings::one* engine::findings_of(key_queue& q, unsigned instance) noexcept {
    auto& all = q.found.instances;
    if (all.size() < instances_.size() && !attempt([&] { all.resize(instances_.size()); }))
        return nullptr;
    return &all[instance];
}

void engine::note(key_queue& q, unsigned instance, redis::answer const& a) {
    auto* const one = findings_of(q, instance);
    if (one == nullptr) return;
    one->noted = true;
    one->held = a.verdict == protocol::verdict::no;
    one->why = a.why;
    one->ttl_known = a.ttl_known;
    one->ttl_left = a.ttl_left;
    if (a.verdict == protocol::verdict::no || a.verdict == protocol::verdict::refused) {
        one->round_trip = time() - q.asked;
    }
    attempt([&] { one->message = a.message; });
}

// Why an instance that was not asked could not be: one that is back since then was not connected.
errc engine::reason_of(unsigned instance) const {
    auto const why = instances_[instance]->reason();
    return why != errc{} ? why : errc::unreachable;
}

// Of one that had no part in the last round: nothing is wrong with it where it is up.
instance_outcome engine::outcome_without_vote(key_queue const& q, unsigned instance,
                                              instance_state state) const {
    auto const asked = q.machine.trying() && q.tenure->machine.maybe_held().contains(instance);
    if (asked || state == instance_state::connecting) return instance_outcome::unanswered;
    return state == instance_state::up ? instance_outcome::not_needed
                                       : outcome_of(reason_of(instance));
}

// Why there was no quorum: what all that failed have in common, where that says more than "no
// answer".
errc engine::common_cause(key_queue const& q) const {
    std::optional<errc> cause;
    auto same = true;
    q.found.votes.failed().for_each([&](unsigned i) {
        auto const noted = q.found.noted(i).why;
        auto const why = noted != errc{} ? noted : reason_of(i);
        same = same && (!cause || *cause == why);
        cause = why;
    });
    auto const telling = cause && *cause != errc{};
    return same && telling ? *cause : errc::no_quorum;
}

std::shared_ptr<acquire_report const> engine::make_report(operation const& op) const {
    auto r = std::make_shared<acquire_report>();
    auto const& q = *op.queue;
    r->key = op.lock->key;
    r->quorum = protocol::redlock_rules::quorum(static_cast<unsigned>(instances_.size()), 0);
    r->attempts = q.machine.tries() - op.tries_before;
    r->waited = time() - op.started;
    auto const here = q.machine.held();
    if (here) r->holder = "this client";
    for (unsigned i = 0; i < instances_.size(); ++i) {
        auto status = instances_[i]->status();
        auto const without_vote = outcome_without_vote(q, i, status.state);
        instance_report one{.address = std::move(status.address),
                            .outcome = without_vote,
                            .ttl_left = {},
                            .message = {}};
        if (status.state == instance_state::up) ++r->up;
        if (here) {
            if (q.tenure->machine.maybe_held().contains(i)) {
                one.outcome = instance_outcome::held;
                one.holder = r->holder;
                one.ttl_known = true;
                one.ttl_left = std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::max(q.tenure->machine.deadline() - time(), protocol::duration(0)));
            }
        } else {
            auto const& noted = q.found.noted(i);
            auto const& votes = q.found.votes;
            if (noted.noted && noted.held) {
                one.outcome = instance_outcome::held;
                one.ttl_known = noted.ttl_known;
                one.ttl_left = noted.ttl_left;
                one.round_trip = noted.round_trip;
                one.holder = noted.holder;
                if (r->holder.empty()) r->holder = noted.holder;
            } else if (votes.yes().contains(i)) {
                one.outcome = instance_outcome::granted;
            } else if (noted.noted || votes.failed().contains(i)) {
                auto const why = noted.why != errc{} ? noted.why : reason_of(i);
                one.outcome = outcome_of(why);
                one.message = noted.why != errc{} ? noted.message : instances_[i]->reason_message();
                one.round_trip = noted.round_trip;
            }
        }
        if (one.message.empty() && one.outcome == without_vote)
            one.message = std::move(status.message);
        r->instances.push_back(std::move(one));
    }
    return r;
}

} // namespace holdfast::runtime
