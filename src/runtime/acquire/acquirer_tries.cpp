// Tries: rounds to all instances, or to the arbiter first.
#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"
#include "protocol/waiting/arbiter.hpp"
#include "runtime/acquire/acquirer.hpp"

#include <boost/hash2/fnv1a.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace holdfast::runtime {

using effect = protocol::tenure_effect;

namespace {

/// The same in every process, unlike hash_of_key().
std::uint64_t common_hash(std::string_view key) {
    boost::hash2::fnv1a_64 hash;
    hash.update(key.data(), key.size());
    return hash.result();
}

/// Mutual exclusion does not depend on the wall clock. Fences depend on it where counters were
/// lost. Otherwise a right clock only saves rounds.
std::uint64_t fence_hint() {
    using namespace std::chrono;
    return protocol::fence_hint(
        duration_cast<microseconds>(system_clock::now().time_since_epoch()));
}

} // namespace

bool acquirer::on_answer(active_tenure& t, unsigned instance, protocol::command c,
                         std::uint32_t round, redis::answer const& a) {
    if (c == protocol::command::inspect) return on_inspection(t, instance, a), false;
    if (c == protocol::command::track) return on_tracked(t, instance, round, a), false;
    if (!t.adopts) return on_try_answer(t, instance, c, round, a);
    if (!a.holder.empty()) t.machine.note_tombstone();
    if (t.queue == nullptr) return false;
    return on_try_answer(t, instance, protocol::command::acquire, round, a);
}

void acquirer::on_time(active_tenure& t, lease_clock::time_point now) {
    auto* const q = t.queue;
    auto const action = t.machine.time(now);
    apply(t, action);
    if (q != nullptr && action.effect != effect::none) settle(*q, turn_.time());
}

// Returns true if the try is won. Does not settle the queue, because settle() may be the caller.
bool acquirer::apply(active_tenure& t, protocol::tenure_action const& a) {
    active_tenure_ptr const alive(&t);
    tenures_.send_all(t, a);
    switch (a.effect) {
    case effect::won:
        return true; // the keeper sets the timer
    case effect::contended:
    case effect::no_quorum:
    case effect::expired:
    case effect::arbiter_failed:
        on_try_failed(t, a.effect);
        break;
    case effect::inspected:
        if (t.queue != nullptr) on_inspected(*t.queue);
        break;
    case effect::none:
    case effect::cancelled:
    case effect::arbiter_won:
    case effect::arbiter_refused:
        break; // handled by the caller
    case effect::renewal_due:
    case effect::extended:
    case effect::extension_failed:
    case effect::lost:
    case effect::ended:
    case effect::released:
    case effect::release_unconfirmed:
        break; // of tenures that were won: handled by the keeper
    }
    tenures_.schedule(t);
    return false;
}

// In a fair lock, a try at the arbiter has the token that stands in its line. A token that may have
// been given a key is not used again: a late release could delete the next one.
redis::token acquirer::token_of_try(active_queue& q, protocol::queue_effect how) {
    auto const newcomer = how == protocol::queue_effect::try_all;
    return newcomer || !q.in_line.token ? random_.next_token() : *line_.leave(q.in_line);
}

void acquirer::begin_try(active_queue& q, protocol::queue_effect how) {
    using protocol::queue_effect;
    auto const at_arbiter = how == queue_effect::try_arbiter;
    auto& op = q.front();
    auto const& call = op.as<acquire_call>();
    auto const& options = call.lock->options();
    auto const arbiter = at_arbiter ? arbiter_of(q) : q.machine.arbiter();
    if (at_arbiter && arbiter != q.in_line.instance) leave_line(q); // a token stands in one line
    // Read before the hint is made. So if the tenure is won, its hint was made within its ttl.
    auto const now = turn_.time();
    std::uint64_t spread = 0, start = 0;
    active_tenure_ptr made;
    auto const ready = turn_.attempt([&] {
        spread = random_.next_bits();
        made = &tenures_.take();
        if (options.fencing) known_counters_.reserve();
        if (op.shared || op.writes) random_.name_client();
        if (op.permits != 0) start = random_.next_bits() % op.permits;
        op.adopts ? made->adopt_token(call.adopted()->value)
                  : made->set_token(token_of_try(q, how));
    });
    if (!ready) {
        q.machine.failed();
        return leave(op, errc::out_of_memory);
    }
    auto& t = *made;
    t.machine = protocol::tenure(instances_.size(), options.ttl, options.watchdog,
                                 protocol::spread_renewal_period(options.ttl, spread));
    // No other client can need the votes that an adoption asks for, so it waits for late ones too.
    if (!op.adopts) t.machine.set_usual(instances_.round_trips());
    if (q.of_set) t.machine.of_several_keys();
    if (op.permits != 0 && op.adopts) {
        t.machine.adopt_slot(*call.adopted()->slot);
    } else if (op.permits != 0) {
        t.machine.search_from(static_cast<unsigned>(start));
    }
    t.adopts = op.adopts;
    t.fair = q.machine.is_fair() && call.lock->access() == lock_access::exclusive;
    t.shared = op.shared;
    t.alone = op.alone;
    t.leaves_key = op.adopts && call.adopted()->shared;
    t.sharing.begin(protocol::sharers(t.leaves_key));
    t.converted = false;
    if (options.fencing && !op.adopts)
        t.machine.number_from(known_counters_.next(q.hash, fence_hint(), now));
    t.counted = now;
    t.lock = call.lock;
    q.detach();
    q.tenure = &t;
    t.queue = &q;
    if (op.notes) q.noting = call.lock;
    counters::add(counters_.rounds);
    q.asked = now;
    q.asks_all = !at_arbiter;
    if (!at_arbiter) {
        auto const reserved = how == queue_effect::try_reserved;
        q.round.instances.clear();
        q.machine.try_begun(now, reserved ? arbiter : 0);
        apply(t, t.machine.acquire(now, op.adopts ? instances_.reachable() : instances_.voters(),
                                   reserved ? protocol::waiting_rules::repeats : 0));
        return;
    }
    q.machine.try_begun(now, arbiter);
    apply(t, t.machine.contend(now, arbiter));
}

operation& acquirer::take_winner(active_tenure& t) {
    auto& m = t.queue->machine;
    auto& winner = static_cast<operation&>(m.won(turn_.time()));
    auto const& number = t.machine.numbering();
    if (number.requested())
        known_counters_.won(t.queue->hash, number.plan(), number.value(), t.counted);
    instances_[m.arbiter()].push_missed(m.take_breach());
    leave_line(*t.queue);
    // While another writer waits, the notes are its own.
    if (winner.notes && t.queue->noting && !m.has_writers()) withdraw_after_win(*t.queue, t);
    t.adopts = false;
    if (winner.adopts) {
        t.machine.adopt(protocol::number_of(winner.as<acquire_call>().adopted()->fence));
        t.machine.set_usual(instances_.round_trips());
        if (t.is_permit()) t.set_handovers(winner.handovers);
    }
    return winner;
}

unsigned acquirer::arbiter_of(active_queue const& q) const {
    auto const candidates = q.machine.candidates(instances_.voters());
    // Several keys are waited for at the arbiter of the one that stands in the way.
    auto const* const turn = q.of_set ? turn_of_front(q) : nullptr;
    auto const key = turn == nullptr ? q.key() : q.lock->keys()[turn->watched];
    return protocol::arbiter(common_hash(key), instances_.punctual(candidates),
                             [this](unsigned i) { return instances_[i].identity(); });
}

void acquirer::cancel_try(active_queue& q) {
    auto const t = q.tenure;
    q.detach();
    apply(*t, t->machine.cancel());
    turn_.ask();
    // A total cancellation waits for the outcome of a try, and an adoption may have called it off.
    auto* const made_for = static_cast<operation*>(q.machine.first_of_own());
    if (made_for != nullptr && made_for->cancel_requested) leave(*made_for, errc::cancelled);
}

bool acquirer::on_try_answer(active_tenure& t, unsigned instance, protocol::command c,
                             std::uint32_t round, redis::answer const& a) {
    auto& q = *t.queue;
    if (a.verdict != protocol::verdict::yes) {
        q.round.note(instance, instances_.size(), a, turn_.time() - q.asked);
        if (q.noting) q.noted.insert(instance);
        if (a.obstacle != 0 && !q.machine.empty()) turn_of(q.front()).watched = a.obstacle - 1;
    }
    // The reply to an extension, which proves an adopted permit, says no slot.
    auto const slot = t.adopts ? t.machine.slot().value() : a.slot;
    auto const action = t.machine.answer(
        c, round, instance, a.verdict, [this] { return turn_.time(); }, a.number, slot);
    if (action.empty()) {
        tenures_.schedule_if_late(t);
        return false;
    }
    active_tenure_ptr const alive(&t);
    auto won = apply(t, action);
    if (action.effect == effect::arbiter_refused) {
        q.detach();
        on_arbiter_refused(t, q, a);
    } else if (action.effect == effect::arbiter_won) {
        q.round.instances.clear(); // the other instances are asked now
        q.asks_all = true;
        q.asked = turn_.time();
        won = apply(t, t.machine.ask_rest(q.asked, instances_.voters()));
    }
    if (won) return true;
    if (!q.machine.trying()) settle(q, turn_.time());
    return false;
}

void acquirer::on_arbiter_refused(active_tenure& t, active_queue& q, redis::answer const& a) {
    auto const before = q.machine.counts().wasted;
    std::optional<protocol::duration> left;
    if (a.ttl_left) left = *a.ttl_left;
    if (!a.ttl_known) left = protocol::duration(-1);
    auto& op = q.front();
    count_as_waiting(op);
    q.machine.refused(turn_.time(), left, a.push_follows,
                      op.as<acquire_call>().lock->options().max_retry_delay, random_.pause_bits());
    counters::add(counters_.wasted_wakeups, q.machine.counts().wasted - before);
    auto const arbiter = q.machine.arbiter();
    instances_[arbiter].push_missed(q.machine.take_breach());
    if (t.fair) {
        line_.enter(q, q.in_line, t.own_token(), arbiter);
        if (a.called) q.machine.called(turn_.time(), arbiter, !instances_[arbiter].moves_keys());
    }
    if (q.of_set) note_refusal(q);
    if (op.cancel_requested) leave(op, errc::cancelled);
}

// Without this, the key would be kept for the queue when its turn comes. While the instance is
// away, the release waits for as long as the token may stand there.
void acquirer::leave_line(active_queue& q) noexcept {
    auto const at = protocol::instance_set::only(q.in_line.instance);
    auto const token = line_.leave(q.in_line);
    if (!token) return;
    turn_.run([&] {
        active_tenure_ptr const t(&tenures_.take());
        auto const& options = q.lock->options();
        auto const stays = std::max<protocol::duration>(
            options.ttl, protocol::waiting_rules::stays_in_line +
                             protocol::waiting_rules::reservation(options.max_retry_delay));
        t->machine = protocol::tenure(instances_.size(), stays, false);
        t->machine.cancel();
        t->lock = q.lock;
        t->fair = true;
        t->shared = false;
        t->set_token(*token);
        tenures_.send(*t, protocol::command::release, at, 0);
    });
}

// Handles a try that has failed. The queue has a waiter: if no waiter needed the try, settle()
// would have cancelled it.
void acquirer::on_try_failed(active_tenure& t, effect how) {
    auto& q = *t.queue;
    auto& op = q.front();
    auto const now = turn_.time();
    auto const before = q.machine.counts().splits;
    if (q.asks_all) q.round.votes = t.machine.votes();
    if (op.adopts && how == effect::contended) return on_adoption_refused(t);
    auto const by_time = how == effect::expired || how == effect::arbiter_failed;
    if (by_time && q.machine.overslept(now, t.machine.deadline())) {
        if (op.cancel_requested) leave(op, errc::cancelled);
        return q.detach();
    }
    switch (how) {
    case effect::contended:
        if (t.machine.fenced()) known_counters_.refused(q.hash);
        count_as_waiting(op);
        q.machine.contended(now, t.machine.votes(),
                            op.as<acquire_call>().lock->options().max_retry_delay,
                            random_.pause_bits());
        if (q.machine.counts().splits != before) {
            counters::add(counters_.split_votes, q.machine.counts().splits - before);
            events_.split_vote(*op.as<acquire_call>().lock);
        }
        if (q.of_set) note_refusal(q);
        if (op.cancel_requested) leave(op, errc::cancelled);
        if (!q.machine.inspects()) q.detach();
        break;
    case effect::arbiter_failed:
        q.machine.arbiter_failed();
        if (op.cancel_requested) leave(op, errc::cancelled);
        q.detach();
        break;
    default: {
        auto const causes = instances_.causes();
        if (how == effect::expired) {
            fail_try(t, errc::granted_too_late);
        } else if (op.adopts || fails_permanently(q.round, causes) || is_in_the_way(t)) {
            fail_try(t, common_cause(q.round, causes));
        } else {
            on_outage(t, common_cause(q.round, causes));
        }
        q.detach();
        break;
    }
    }
}

/// Refused by some instances: the key is gone there, or somebody else has it.
void acquirer::on_adoption_refused(active_tenure& t) {
    auto const& votes = t.machine.votes();
    auto const lost = votes.denied();
    fail_try(t, lost ? errc::lease_lost : common_cause(t.queue->round, instances_.causes()));
    t.queue->detach();
}

// The try counts for all acquires that started before it and need no more than it did: another try
// would fail in the same way.
bool acquirer::counts_for(active_tenure const& t, operation const& other) const {
    auto const& q = *t.queue;
    return other.as<acquire_call>().started() <= q.asked && other.ttl <= t.machine.ttl() &&
           (other.fenced || !t.machine.fenced() || !refused_command(q.round));
}

// An instance refused the fence, and others in the queue need none.
bool acquirer::is_in_the_way(active_tenure const& t) const {
    auto& q = *t.queue;
    if (!t.machine.fenced() || !refused_command(q.round)) return false;
    auto some = false;
    q.machine.for_each_waiter([&](protocol::waiter const& w) { some = some || !w.fenced; });
    return some;
}

void acquirer::fail_try(active_tenure& t, errc cause) {
    auto& q = *t.queue;
    q.machine.failed();
    auto& op = q.front();
    leave(op, op.cancel_requested ? errc::cancelled : cause);
    if (t.adopts) return;
    while (!q.machine.empty() && counts_for(t, q.front())) leave(q.front(), cause);
}

// Too few instances can grant the key for now. Acquires that wait for them stay in the queue.
void acquirer::on_outage(active_tenure& t, errc cause) {
    auto& q = *t.queue;
    auto const now = turn_.time();
    if (q.front().cancel_requested) leave(q.front(), errc::cancelled);
    auto const stays = !q.machine.empty() && q.front().stays;
    auto const is_patient = stays || q.machine.empty() || !q.front().behind;
    if (!is_patient && !instances_.has_quorum() && !q.machine.in_outage()) {
        return q.machine.failed_in_outage(now + instance_timeout_);
    }
    q.machine.failed();
    while (!q.machine.empty() && !q.front().stays && counts_for(t, q.front()))
        leave(q.front(), cause);
    if (q.machine.empty() || !q.front().stays) return;
    count_as_waiting(q.front());
    auto const pause = q.machine.outage_pause(random_.pause_bits());
    if (q.machine.failed_outage_tries() == 1) fail_impatient(q, cause);
    q.machine.failed_in_outage(now + pause);
}

// Those that come later are refused when they join.
void acquirer::fail_impatient(active_queue& q, errc cause) {
    q.machine.for_each_waiter([&](protocol::waiter& w) {
        auto& op = static_cast<operation&>(w);
        if (!op.stays) leave(op, cause);
    });
}

} // namespace holdfast::runtime
