#include "runtime/engine.hpp"

#include "protocol/backoff.hpp"
#include "runtime/engine_service.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/strand.hpp>

#include <algorithm>
#include <cassert>

namespace holdfast::runtime {

namespace {

// Waiters that were refused try again after a random pause; the first ones are short.
constexpr std::chrono::milliseconds first_retry_delay{2};

/// A strand does not erase what it is on, where that is the usual: one allocation less for each step.
asio::any_io_executor strand_on(asio::any_io_executor const& executor) {
    if (auto const* const known = executor.target<asio::io_context::executor_type>()) {
        return asio::make_strand(*known);
    }
    return asio::make_strand(executor);
}

/// What a cancellation slot calls: asks the engine, if it still exists.
struct canceller {
    canceller(std::weak_ptr<engine> e, operation& o)
        : weak(std::move(e))
        , op(&o)
        , generation(o.generation) {}
    void operator()(asio::cancellation_type_t type) const {
        if (auto const e = weak.lock()) e->cancel(*op, generation, type);
    }
    std::weak_ptr<engine> weak;
    operation* op;
    std::uint32_t generation;
};

} // namespace

//
// operation, holding
//

operation::operation(engine& e)
    : engine_(e) {}

operation::~operation() = default;

void operation::on_time(lease_clock::time_point now) {
    if (limit.what == detail::wait_limit::kind::until && now >= give_up) {
        // Held is what somebody has said; silence is not.
        auto const held = attempts > 1 || where != stage::round || !current->machine.votes().no().empty();
        engine_.give_up_acquire(*this, held ? errc::timeout : errc::no_quorum);
    } else if (where == stage::pausing) {
        engine_.start_round(*this);
    }
}

void holding::on_answer(unsigned instance, protocol::command c, std::uint32_t round, redis::answer const& a) {
    engine_.on_answer(*this, instance, c, round, a);
}

void holding::on_time(lease_clock::time_point now) {
    auto step = machine.time(now);
    // `now` may be a moment ahead, for what falls due together. What is sent is sent by the clock.
    if (step.what == protocol::event::renewal_due) step = machine.extend(engine_.time(), engine_.reachable());
    engine_.apply(*this, step);
}

void holding::recycle() noexcept {
    lock.reset();
    engine_.holdings_.give_back(*this);
}

//
// From any thread
//

engine::engine(asio::any_io_executor executor, std::vector<address> const& instances,
               client_options const& options)
    : user_executor_(executor)
    , executor_(options.thread_safe ? strand_on(executor) : executor)
    , thread_safe_(options.thread_safe)
    , key_prefix_(options.key_prefix)
    , max_ttl_(options.max_ttl)
    , deadlines_(executor_) {
    for (unsigned i = 0; i < instances.size(); ++i) {
        links_.push_back(
            std::make_shared<redis::link>(executor_, i,
                                          redis::link_options{.address = instances[i],
                                                              .instance_timeout = options.instance_timeout,
                                                              .connect_timeout = options.connect_timeout,
                                                              .reconnect_delay = options.reconnect_delay,
                                                              .max_kept_releases = options.max_kept_releases,
                                                              .name = std::string(options.name)},
                                          static_cast<redis::link_owner&>(*this)));
    }
}

engine::~engine() {
    links_.clear();
    deadlines_.clear();
    held_.clear();
    holdings_.for_each([](holding& h) {
        h.waiters.clear();
        h.kept_by_holder.detach();
    });
    operations_.for_each([](operation& op) { op.current.detach(); });
}

template <class Work>
void engine::in_a_turn(Work&& work) {
    {
        // Also when it throws, for want of memory or of randomness: nothing is looked at twice.
        struct turn_end {
            engine& e;
            ~turn_end() {
                e.taken_.clear();
                e.taken_cancellations_.clear();
                e.in_turn_ = false;
            }
        } const at_end{*this};
        in_turn_ = true;
        turn_began_ = lease_clock::now();
        work();
        for (auto const& l : links_) l->flush();
    }
    finish_shutdown_if_done();
}

void engine::start() {
    running_ = shared_from_this();
    asio::use_service<engine_service>(asio::query(user_executor_, asio::execution::context))
        .add(weak_from_this());
    deadlines_.call([weak = weak_from_this()](boost::system::error_code ec) {
        auto const self = weak.lock();
        if (ec || !self || self->stopped_) return;
        self->in_a_turn([&] { self->deadlines_.run_due(self->turn_began_); });
    });
    asio::post(executor_, [self = running_] {
        for (auto const& l : self->links_) l->start();
    });
}

std::unique_lock<std::mutex> engine::lock_inbox() const {
    return thread_safe_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}

void engine::submit(operation::kind what, detail::lock_state_ptr lock, detail::wait_limit limit,
                    detail::lease_ref lease, operation::any_handler&& handler) {
    auto const slot = std::visit(
        [](auto const& h) {
            if constexpr (std::is_same_v<std::decay_t<decltype(h)>, std::monostate>) {
                return asio::cancellation_slot();
            } else {
                return asio::get_associated_cancellation_slot(h);
            }
        },
        handler);
    {
        auto guard = lock_inbox();
        if (dead_) return;
        auto& op = operations_.take(*this);
        op.what = what;
        op.where = operation::stage::starting;
        op.cancel_requested = false;
        op.lock = std::move(lock);
        op.limit = limit;
        op.lease = std::move(lease);
        op.handler = std::move(handler);
        if (slot.is_connected()) {
            // Not under the mutex: the slot may have to let go of an older handler of the user.
            if (guard) guard.unlock();
            asio::cancellation_slot(slot).emplace<canceller>(weak_from_this(), op);
            if (thread_safe_) guard.lock();
        }
        inbox_.push_back({.what = message::kind::start, .op = &op});
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::cancel(operation& op, std::uint32_t generation, asio::cancellation_type_t type) noexcept {
    {
        auto const guard = lock_inbox();
        if (dead_) return;
        cancellations_.push_back({&op, generation, type});
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::drop(detail::lease_core& lease) noexcept {
    put({.what = message::kind::drop, .lease = &lease});
}

void engine::shut_down_in_background() noexcept {
    put({.what = message::kind::shutdown});
}

void engine::put(message m) noexcept {
    detail::lock_state_ptr last; // destroyed without the mutex: it may be what keeps the engine alive
    {
        auto const guard = lock_inbox();
        if (dead_) {
            if (m.lease != nullptr) last = std::move(m.lease->lock);
            return;
        }
        inbox_.push_back(m);
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::post_turn() {
    asio::post(executor_, [self = shared_from_this()] { self->turn(); });
}

std::vector<instance_status> engine::instances() const {
    std::vector<instance_status> all;
    for (auto const& l : links_) all.push_back(l->status());
    return all;
}

holdfast::stats engine::statistics() const {
    auto const get = [](std::atomic<std::uint64_t> const& c) { return c.load(std::memory_order_relaxed); };
    holdfast::stats s{.acquired = get(counters_.acquired),
                      .acquire_failed = get(counters_.acquire_failed),
                      .rounds = get(counters_.rounds),
                      .released = get(counters_.released),
                      .renewals = get(counters_.renewals),
                      .renewals_failed = get(counters_.renewals_failed),
                      .lost = get(counters_.lost),
                      .held = get(counters_.held),
                      .pending = get(counters_.pending)};
    for (auto const& l : links_) {
        s.commands += get(l->counts().commands);
        s.batches += get(l->counts().batches);
        s.releases_dropped += get(l->counts().releases_dropped);
    }
    return s;
}

void engine::abandon() noexcept {
    // What is let go of may be all that keeps other parts of this alive, so it is collected first.
    std::vector<operation::any_handler> handlers;
    std::vector<detail::lease_ref> leases;
    std::vector<detail::lock_state_ptr> locks;
    {
        auto const guard = lock_inbox();
        dead_ = true;
        inbox_.clear();
        cancellations_.clear();
    }
    for (auto const& l : links_) l->abandon();
    deadlines_.stop();
    deadlines_.clear();
    operations_.for_each([&](operation& op) {
        handlers.push_back(std::move(op.handler));
        leases.push_back(std::move(op.lease));
        locks.push_back(std::move(op.lock));
        op.handler = {};
    });
    handlers.clear();
    leases.clear();
    holdings_.for_each([&](holding& h) {
        if (h.handles.load() == 0) locks.push_back(std::move(h.lock));
    });
    auto const self = std::move(running_);
    locks.clear();
}

//
// Turns
//

void engine::want_turn() {
    if (in_turn_) return; // it ends with what is wanted
    {
        auto const guard = lock_inbox();
        if (dead_ || std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::on_change() {
    if (stopping_ && !stopped_) want_turn();
}

void engine::turn() {
    {
        auto const guard = lock_inbox();
        taken_.swap(inbox_);
        taken_cancellations_.swap(cancellations_);
        turn_pending_ = false;
        for (auto* op : finished_) operations_.give_back(*op);
    }
    finished_.clear();
    in_a_turn([this] { look_at_what_was_taken(); });
}

void engine::look_at_what_was_taken() {
    // Before the starts: what is cancelled before it was looked at is never sent.
    for (auto const& c : taken_cancellations_) {
        if (c.op->generation == c.generation) on_cancel(*c.op, c.type);
    }
    for (auto const& m : taken_) {
        switch (m.what) {
        case message::kind::start:
            on_start(*m.op);
            break;
        case message::kind::drop:
            on_drop(static_cast<holding&>(*m.lease));
            break;
        case message::kind::shutdown:
            begin_shutdown();
            break;
        }
    }
}

void engine::on_start(operation& op) {
    auto const waits = op.what == operation::kind::extend || op.what == operation::kind::lost;
    if (waits && op.cancel_requested) return complete(op, errc::cancelled);
    switch (op.what) {
    case operation::kind::acquire:
        start_acquire(op);
        break;
    case operation::kind::release:
        start_release(op);
        break;
    case operation::kind::extend:
        start_extend(op);
        break;
    case operation::kind::lost:
        start_lost(op);
        break;
    case operation::kind::shutdown:
        op.where = operation::stage::attached;
        shutdowns_.push_back(op);
        begin_shutdown();
        break;
    }
}

void engine::on_cancel(operation& op, asio::cancellation_type_t type) {
    if (op.where == operation::stage::starting) {
        op.cancel_requested = true;
        return;
    }
    switch (op.what) {
    case operation::kind::acquire: {
        // Asked in the total way, an acquire must have no effect at all; so once it was sent, it has to wait.
        auto const total_only =
            (type & (asio::cancellation_type_t::partial | asio::cancellation_type_t::terminal)) ==
            asio::cancellation_type_t::none;
        if (total_only && op.where == operation::stage::round) {
            op.cancel_requested = true;
        } else {
            give_up_acquire(op, errc::cancelled);
        }
        break;
    }
    case operation::kind::extend:
    case operation::kind::lost:
        complete(op, errc::cancelled);
        break;
    case operation::kind::release:
    case operation::kind::shutdown:
        break;
    }
}

// What a turn does, it does as of its beginning: that is before the first byte is sent, and after every call
// that it answers.
lease_clock::time_point engine::time() const {
    return in_turn_ ? turn_began_ : lease_clock::now();
}

protocol::instance_set engine::reachable() const {
    protocol::instance_set set;
    for (unsigned i = 0; i < links_.size(); ++i) {
        if (links_[i]->available()) set.insert(i);
    }
    return set;
}

bool engine::is_new_server(unsigned instance, std::string_view run_id) {
    for (unsigned i = 0; i < links_.size(); ++i) {
        // A suspect counts: it may answer again, and vote.
        if (i != instance && links_[i]->connected() && links_[i]->run_id() == run_id) return false;
    }
    return true;
}

//
// Acquire
//

void engine::start_acquire(operation& op) {
    op.started = time();
    op.attempts = 0;
    op.inspected = false;
    acquiring_.push_back(op);
    counters_.pending.fetch_add(1, std::memory_order_relaxed);
    if (stopping_) return fail_acquire(op, errc::shut_down);
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
    start_round(op);
}

void engine::start_round(operation& op) {
    auto const& options = op.lock->options;
    auto& h = holdings_.take(*this);
    h.machine = protocol::tenure(static_cast<unsigned>(links_.size()), options.ttl, options.watchdog,
                                 protocol::spread_renewal_period(options.ttl, random_.next_bits()));
    h.token_ = random_.next_token();
    h.lock = op.lock;
    h.over.store(false, std::memory_order_relaxed);
    h.ended = holding::end::none;
    h.acquirer = &op;
    op.current = &h;
    op.where = operation::stage::round;
    op.has_details = false;
    op.wrong_types = 0;
    ++op.attempts;
    counters_.rounds.fetch_add(1, std::memory_order_relaxed);
    if (op.limit.what == detail::wait_limit::kind::until) deadlines_.schedule(op, op.give_up);
    auto const now = time();
    op.round_started = now;
    apply(h, h.machine.acquire(now, reachable()));
}

void engine::on_answer(holding& h, unsigned instance, protocol::command c, std::uint32_t round,
                       redis::answer const& a) {
    if (c == protocol::command::inspect) return on_inspected(h, instance, a);
    if (c == protocol::command::acquire && a.verdict != protocol::verdict::yes && h.acquirer != nullptr &&
        h.acquirer->where == operation::stage::round) {
        note(*h.acquirer, instance, a, lease_clock::now());
    }
    auto const step = h.machine.answer(c, round, instance, a.verdict, &lease_clock::now);
    if (step.what == protocol::event::none && step.heal.empty() && step.release.empty()) return;
    apply(h, step);
}

void engine::apply(holding& h, protocol::step const& s) {
    holding_ptr const alive(&h);
    using protocol::command;
    using protocol::event;
    if (!s.acquire.empty()) send(h, command::acquire, s.acquire, 0);
    if (!s.extend.empty()) send(h, command::extend, s.extend, h.machine.extension());
    if (!s.heal.empty()) send(h, command::heal, s.heal, 0);
    if (!s.release.empty()) send(h, command::release, s.release, 0);
    switch (s.what) {
    case event::none:
    case event::renewal_due:
        break;
    case event::won:
        on_won(h);
        break;
    case event::contended:
    case event::no_quorum:
    case event::expired:
        on_refused(h, s.what);
        break;
    case event::cancelled:
        break; // by whoever called cancel()
    case event::extended:
        h.deadline.store(h.machine.deadline(), std::memory_order_release);
        counters_.renewals.fetch_add(1, std::memory_order_relaxed);
        tell_waiters(h, true, errc{}, errc{});
        break;
    case event::extension_failed:
        counters_.renewals_failed.fetch_add(1, std::memory_order_relaxed);
        tell_waiters(h, true, errc::no_quorum, errc{});
        break;
    case event::lost:
    case event::released:
    case event::release_unconfirmed:
        on_ended(h, s.what);
        break;
    }
    if (auto const wake = h.machine.wake()) {
        deadlines_.schedule(h, *wake);
    } else {
        deadlines_.cancel(h);
    }
}

void engine::send(holding& h, protocol::command c, protocol::instance_set to, std::uint32_t round) {
    encoder_.start(c, h.about());
    redis::exchange_ptr const who(&h);
    to.for_each([&](unsigned i) { links_[i]->submit(encoder_, who, round); });
}

void engine::on_won(holding& h) {
    auto& op = *std::exchange(h.acquirer, nullptr);
    h.deadline.store(h.machine.deadline(), std::memory_order_release);
    h.kept_by_holder = &h;
    held_.push_back(h);
    counters_.acquired.fetch_add(1, std::memory_order_relaxed);
    counters_.held.fetch_add(1, std::memory_order_relaxed);
    complete(op, error{}, detail::lease_ref(&h));
}

void engine::on_refused(holding& h, protocol::event why) {
    auto& op = *h.acquirer;
    op.votes = h.machine.votes();
    if (why == protocol::event::contended && !op.cancel_requested &&
        (!op.inspected || op.limit.what == detail::wait_limit::kind::none)) {
        return inspect(op, h);
    }
    h.acquirer = nullptr;
    op.current.reset();
    switch (why) {
    case protocol::event::contended:
        refused_for_good_or_retry(op);
        break;
    case protocol::event::expired:
        fail_acquire(op, op.cancel_requested ? errc::cancelled : errc::expired);
        break;
    default:
        fail_acquire(op, op.cancel_requested ? errc::cancelled : common_cause(op));
        break;
    }
}

// Asks those that refused what is in the way: for how long, and whether it is a lock at all.
void engine::inspect(operation& op, holding& h) {
    auto const whom = op.votes.no() & reachable();
    op.where = operation::stage::inspecting;
    op.inspected = true;
    op.inspections = whom.size();
    if (whom.empty()) return on_all_inspected(h);
    send(h, protocol::command::inspect, whom, 0);
}

void engine::on_inspected(holding& h, unsigned instance, redis::answer const& a) {
    if (h.acquirer == nullptr) return; // the caller has given up
    auto& op = *h.acquirer;
    auto& d = detail_of(op, instance);
    if (a.verdict == protocol::verdict::yes) {
        d.ttl_known = a.ttl_known;
        d.ttl_left = a.ttl_left;
    } else if (a.why == errc::wrong_type) {
        d.held = false;
        d.why = a.why;
        d.message = a.message;
        ++op.wrong_types;
    }
    if (--op.inspections == 0) on_all_inspected(h);
}

void engine::on_all_inspected(holding& h) {
    auto& op = *std::exchange(h.acquirer, nullptr);
    op.current.reset();
    refused_for_good_or_retry(op);
}

void engine::refused_for_good_or_retry(operation& op) {
    using limit = detail::wait_limit::kind;
    if (op.wrong_types > links_.size() - op.votes.quorum()) return fail_acquire(op, errc::wrong_type);
    if (op.cancel_requested) return fail_acquire(op, errc::cancelled);
    if (op.limit.what == limit::none) return fail_acquire(op, errc::contended);
    auto const now = lease_clock::now();
    if (op.limit.what == limit::until && now >= op.give_up) return fail_acquire(op, errc::timeout);
    auto const pause = protocol::full_jitter(first_retry_delay, op.lock->options.retry_delay, op.attempts - 1,
                                             random_.next_bits());
    auto wake = now + pause;
    if (op.limit.what == limit::until) wake = std::min(wake, op.give_up);
    op.where = operation::stage::pausing;
    deadlines_.schedule(op, wake);
}

// The caller does not want it any more; what may have been granted is given back.
void engine::give_up_acquire(operation& op, errc why) {
    if (auto const h = op.current) {
        op.votes = h->machine.votes();
        h->acquirer = nullptr;
        op.current.reset();
        apply(*h, h->machine.cancel());
    }
    fail_acquire(op, why);
    want_turn();
}

void engine::fail_acquire(operation& op, errc why) {
    counters_.acquire_failed.fetch_add(1, std::memory_order_relaxed);
    auto const of_interest = why != errc::cancelled && why != errc::shut_down;
    complete(op, of_interest ? error(why, make_report(op)) : error(why));
}

operation::vote_detail& engine::detail_of(operation& op, unsigned instance) {
    if (!op.has_details) {
        op.details.assign(links_.size(), {});
        op.has_details = true;
    }
    return op.details[instance];
}

void engine::note(operation& op, unsigned instance, redis::answer const& a, lease_clock::time_point now) {
    auto& d = detail_of(op, instance);
    d.held = a.verdict == protocol::verdict::no;
    d.why = a.why;
    if (a.verdict == protocol::verdict::no || a.verdict == protocol::verdict::refused) {
        d.round_trip = now - op.round_started;
    }
    d.message = a.message;
}

// Why an instance that was not asked could not be: one that is back since then was not connected.
errc engine::reason_of(unsigned instance) const {
    auto const why = links_[instance]->reason();
    return why != errc{} ? why : errc::unreachable;
}

// Why there was no quorum: what all that failed have in common, where that says more than "no answer".
errc engine::common_cause(operation const& op) const {
    std::optional<errc> cause;
    auto same = true;
    op.votes.failed().for_each([&](unsigned i) {
        auto const noted = op.has_details ? op.details[i].why : errc{};
        auto const why = noted != errc{} ? noted : reason_of(i);
        same = same && (!cause || *cause == why);
        cause = why;
    });
    auto const telling = cause && *cause != errc{};
    return same && telling ? *cause : errc::no_quorum;
}

std::shared_ptr<report const> engine::make_report(operation const& op) const {
    auto r = std::make_shared<report>();
    r->key = op.lock->key;
    r->quorum = op.votes.quorum();
    r->attempts = op.attempts;
    r->waited = lease_clock::now() - op.started;
    for (unsigned i = 0; i < links_.size(); ++i) {
        instance_report one;
        one.address = links_[i]->status().address;
        auto const* const noted = op.has_details ? &op.details[i] : nullptr;
        if (op.votes.yes().contains(i)) {
            one.what = outcome::granted;
        } else if (noted != nullptr && noted->held) {
            one.what = outcome::held;
            one.ttl_known = noted->ttl_known;
            one.ttl_left = noted->ttl_left;
            one.round_trip = noted->round_trip;
        } else if (!op.votes.pending().contains(i)) {
            auto const why = noted != nullptr && noted->why != errc{} ? noted->why : reason_of(i);
            one.what = why == errc::unreachable ? outcome::unreachable
                       : why == errc::timed_out ? outcome::timed_out
                                                : outcome::rejected;
            one.message =
                noted != nullptr && noted->why != errc{} ? noted->message : links_[i]->reason_message();
            if (noted != nullptr) one.round_trip = noted->round_trip;
        }
        r->instances.push_back(std::move(one));
    }
    return r;
}

//
// Leases
//

void engine::start_release(operation& op) {
    auto& h = static_cast<holding&>(*op.lease.get());
    switch (h.ended) {
    case holding::end::none:
        begin_release(h, &op, holding::end::released);
        break;
    case holding::end::lost:
        complete(op, release_result(errc::lease_lost));
        break;
    case holding::end::released:
        complete(op, release_result(errc::lease_released));
        break;
    }
}

void engine::begin_release(holding& h, operation* op, holding::end as) {
    close(h, as);
    ++releasing_;
    h.releaser = op;
    if (op != nullptr) op->where = operation::stage::attached;
    auto const lost = as == holding::end::lost;
    tell_waiters(h, false, lost ? errc::shut_down : errc::lease_released,
                 lost ? errc{} : errc::lease_released);
    auto const now = time();
    apply(h, h.machine.release(now, reachable()));
}

// The lease is held no longer.
void engine::close(holding& h, holding::end as) {
    h.ended = as;
    h.over.store(true, std::memory_order_release);
    held_.erase(held_.iterator_to(h));
    counters_.held.fetch_sub(1, std::memory_order_relaxed);
    if (as == holding::end::lost) counters_.lost.fetch_add(1, std::memory_order_relaxed);
}

void engine::on_ended(holding& h, protocol::event how) {
    if (h.ended == holding::end::none) {
        close(h, holding::end::lost);
        tell_waiters(h, false, errc::lease_lost, errc{});
        return;
    }
    --releasing_;
    if (how == protocol::event::released && h.ended == holding::end::released) {
        counters_.released.fetch_add(1, std::memory_order_relaxed);
    }
    if (auto* const op = std::exchange(h.releaser, nullptr)) {
        complete(*op, how == protocol::event::released ? release_result()
                      : how == protocol::event::lost   ? release_result(errc::lease_lost)
                                                       : release_result(errc::no_quorum));
    }
}

void engine::start_extend(operation& op) {
    auto& h = static_cast<holding&>(*op.lease.get());
    if (h.ended != holding::end::none) {
        return complete(op, h.ended == holding::end::lost ? errc::lease_lost : errc::lease_released);
    }
    op.where = operation::stage::attached;
    h.waiters.push_back(op);
    if (h.machine.extending()) return; // the one under way answers for both
    auto const now = time();
    apply(h, h.machine.extend(now, reachable()));
}

void engine::start_lost(operation& op) {
    auto& h = static_cast<holding&>(*op.lease.get());
    if (h.ended != holding::end::none) {
        return complete(op, h.ended == holding::end::lost ? errc{} : errc::lease_released);
    }
    op.where = operation::stage::attached;
    h.waiters.push_back(op);
    // Who waits for a loss does not hold: the lease may go, and that ends the wait.
    op.current = &h;
    op.lease = {};
}

void engine::tell_waiters(holding& h, bool only_extends, errc to_extends, errc to_lost) {
    for (auto it = h.waiters.begin(); it != h.waiters.end();) {
        auto& op = *it++;
        if (op.what == operation::kind::extend) {
            complete(op, to_extends);
        } else if (!only_extends) {
            complete(op, to_lost);
        }
    }
}

void engine::on_drop(holding& h) {
    holding_ptr const alive(&h);
    h.kept_by_holder.reset();
    if (h.ended == holding::end::none) begin_release(h, nullptr, holding::end::released);
}

//
// Completion
//

void engine::complete(operation& op, error e, detail::lease_ref lease) {
    if (auto* const acquire = std::get_if<detail::acquire_handler>(&op.handler)) {
        auto handler = std::move(*acquire);
        finish(op);
        std::move(handler)(std::move(e), holdfast::lease(std::move(lease)));
    } else if (auto* const other = std::get_if<detail::error_handler>(&op.handler)) {
        auto handler = std::move(*other);
        finish(op);
        std::move(handler)(std::move(e));
    }
}

void engine::complete(operation& op, release_result r) {
    auto handler = std::move(std::get<detail::release_handler>(op.handler));
    finish(op);
    std::move(handler)(r);
}

// Free for its next use; before its handler is called.
void engine::finish(operation& op) {
    deadlines_.cancel(op);
    static_cast<operation_hook&>(op).unlink();
    if (op.what == operation::kind::acquire) counters_.pending.fetch_sub(1, std::memory_order_relaxed);
    ++op.generation;
    op.handler = {};
    op.lock.reset();
    op.lease = {};
    op.current.reset();
    finished_.push_back(&op);
}

//
// Shutdown
//

void engine::begin_shutdown() {
    if (std::exchange(stopping_, true)) return;
    while (!acquiring_.empty()) give_up_acquire(acquiring_.front(), errc::shut_down);
    while (!held_.empty()) begin_release(held_.front(), nullptr, holding::end::lost);
}

void engine::finish_shutdown_if_done() {
    if (!stopping_) return;
    if (!stopped_) {
        auto const settled =
            std::all_of(links_.begin(), links_.end(), [](auto const& l) { return l->settled(); });
        if (releasing_ > 0 || !settled) return;
        stopped_ = true;
        deadlines_.stop();
        for (auto const& l : links_) l->stop();
    }
    while (!shutdowns_.empty()) complete(shutdowns_.front(), error{});
    running_.reset(); // the turn that is running keeps us until it ends
}

} // namespace holdfast::runtime
