#include "runtime/engine.hpp"

#include <holdfast/detail/access.hpp>

#include "redis/instance_connection.hpp"
#include "runtime/engine_service.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/strand.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace holdfast::runtime {

namespace {

/// A strand does not erase what it is on, where that is the usual: one allocation less for each
/// step.
asio::any_io_executor strand_on(asio::any_io_executor const& executor) {
    if (auto const* const known = executor.target<asio::io_context::executor_type>()) {
        return asio::make_strand(*known);
    }
    return asio::make_strand(executor);
}

/// How much of what has come in one turn does, so that timers and replies are looked at between.
/// Leases that nobody has any more can wait for a while, so fewer of them: a burst must not hold up
/// who holds and who calls.
constexpr std::size_t calls_a_turn = 256;
constexpr std::size_t drops_a_turn = 64;

/// Memory is lacking for a moment, or for longer: then a key is left to its ttl.
constexpr std::uint8_t release_retries = 3;

/// What a cancellation slot calls: asks the engine, if it still exists.
struct canceller {
    canceller(std::weak_ptr<engine> e, operation& o)
        : weak(std::move(e))
        , op(&o)
        , generation(o.generation) {}
    void operator()(asio::cancellation_type_t type) const {
        if (auto const e = weak.lock()) e->cancel(op, generation, type);
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
    : engine_(e)
    , generation(e.first_generation_) {}

operation::~operation() = default;

void operation::on_time(lease_clock::time_point now) {
    if (what == kind::lost) return engine_.wait_for_end(*this, now);
    engine_.give_up_acquire(*this, engine_.waited_for_a_holder(*this) ? errc::wait_timeout
                                                                      : errc::no_quorum);
}

void holding::on_answer(unsigned instance, protocol::command c, std::uint32_t round,
                        redis::answer const& a) {
    try {
        engine_.on_answer(*this, instance, c, round, a);
    } catch (...) {
        engine_.keep_exception();
    }
}

redis::subject holding::about(protocol::command c) const noexcept {
    redis::subject s{.key = lock->key, .token = token.text(), .ttl = lock->options.ttl};
    if (machine.fenced()) {
        s.fence_ttl = engine_.fence_ttl_;
        s.number = machine.asks_for(c);
    }
    return s;
}

bool holding::still_wants(protocol::command c) const noexcept {
    using protocol::command;
    using phase = protocol::tenure::phase;
    switch (c) {
    case command::release:
        return true;
    case command::extend:
    case command::heal:
        return machine.where() == phase::held;
    case command::raise: // sets no key
        return machine.where() == phase::acquiring || machine.where() == phase::held;
    case command::acquire:
    case command::contend:
    case command::inspect:
    case command::watch:
        break;
    }
    // Once it is won, what is asked later (an extension, a healing) must not be overtaken.
    return machine.where() == phase::acquiring;
}

void holding::on_time(lease_clock::time_point now) {
    // `now` may be a moment ahead, for what falls due together. What is sent is sent by the clock.
    auto const ending = machine.where() == protocol::tenure::phase::ending;
    auto step = machine.time(ending ? engine_.time() : now);
    if (step.what == protocol::event::renewal_due) {
        if (lease->wanted && !engine_.is_wanted(*lease)) {
            machine.stop_renewing();
        } else {
            step = machine.extend(engine_.time(), engine_.reachable());
        }
    }
    engine_.apply(*this, step);
}

void holding::recycle() noexcept {
    engine_.deadlines_.cancel(*this);
    lock.reset();
    owed.releases = 0;
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
    , instance_timeout_(options.instance_timeout)
    , fence_ttl_(options.fence_ttl)
    , turns_(executor_)
    , deadlines_(executor_)
    , standstill_(static_cast<unsigned>(instances.size()), options.max_ttl)
    , random_(options.owner_label) {
    for (unsigned i = 0; i < instances.size(); ++i) {
        redis::connection_options const each{.address = instances[i],
                                             .instance_timeout = options.instance_timeout,
                                             .connect_timeout = options.connect_timeout,
                                             .max_reconnect_delay = options.max_reconnect_delay,
                                             .max_ttl = options.max_ttl,
                                             .on_restart = options.on_restart,
                                             .detect_clock_jumps = options.detect_clock_jumps,
                                             .max_pending_releases = options.max_pending_releases,
                                             .name = std::string(options.connection_name)};
        instances_.push_back(std::make_shared<redis::instance_connection>(
            executor_, i, each, static_cast<redis::instance_owner&>(*this)));
    }
}

engine::~engine() {
    starts_.clear();
    cancellations_.clear();
    drops_.clear();
    while (!owed_.empty()) {
        auto& h = owed_.front();
        owed_.pop_front();
        h.owed.self.reset();
    }
    instances_.clear();
    deadlines_.clear();
    held_.clear();
    queues_.for_each([](key_queue& q) {
        q.machine.abandon();
        q.tenure.detach();
        q.watch.detach();
    });
    leases_.for_each([](lease_state& l) {
        l.waiters.clear();
        l.tenure.detach();
    });
}

//
// Exceptions
//

// The one that is being handled leaves when the turn is over.
void engine::keep_exception() noexcept {
    if (!thrown_) thrown_ = std::current_exception();
    want_turn();
}

void engine::begin_turn() noexcept {
    if (turn_depth_++ > 0) return;
    turn_began_ = lease_clock::now();
    instances_seen_ = false;
}

void engine::leave_turn() noexcept {
    for (auto const& i : instances_) look_again_ = !i->flush() || look_again_;
    --turn_depth_;
    if (std::exchange(look_again_, false)) want_turn();
}

template <class Work>
void engine::in_a_turn(Work&& work) {
    begin_turn();
    auto old = std::move(retired_);
    while (old) old = std::move(old->next);
    deadlines_.mend();
    answer_what_is_owed();
    try {
        work();
        end_drain_if_done();
    } catch (...) {
        keep_exception();
    }
    attempt([&] { look_for_late_instances(); });
    if (turn_began_ >= looks_at_memory_) give_back_memory();
    leave_turn();
    if (turn_lost_.load(std::memory_order_relaxed) && turn_lost_.exchange(false)) ask_for_turn();
    auto const last = finish_shutdown_if_done();
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void engine::start() {
    asio::use_service<engine_service>(asio::query(user_executor_, asio::execution::context))
        .add(weak_from_this());
    deadlines_.call([weak = weak_from_this()](boost::system::error_code ec) {
        auto const self = weak.lock();
        if (!self) return;
        if (ec == asio::error::no_memory) return self->ask_for_turn(); // which mends it
        if (self->stopped_) return;
        if (ec) return self->deadlines_.woken_early();
        self->in_a_turn([&] { self->deadlines_.run_due(self->turn_began_); });
    });
    asio::post(executor_, [self = shared_from_this()] {
        self->in_a_turn([&] {
            for (auto const& i : self->instances_) i->start();
        });
    });
    running_ = shared_from_this();
}

std::unique_lock<std::mutex> engine::lock_inbox() const {
    return thread_safe_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}

void engine::submit(operation::kind what, detail::lock_state_ptr lock, detail::wait_limit limit,
                    detail::lease_ref lease, operation::any_handler&& handler, wish_ptr wanted) {
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
        op.wanted = std::move(wanted);
        op.handler = std::move(handler);
        if (slot.is_connected()) {
            // Not under the mutex: the slot may have to let go of an older handler of the user.
            if (guard) guard.unlock();
            try {
                asio::cancellation_slot(slot).emplace<canceller>(weak_from_this(), op);
            } catch (...) {
                // As if it had never been called. What it was given is destroyed as the exception
                // leaves.
                handler = std::exchange(op.handler, {});
                lease = std::move(op.lease);
                lock = std::move(op.lock);
                if (thread_safe_) guard.lock();
                operations_.give_back(op);
                throw;
            }
            if (thread_safe_) guard.lock();
        }
        starts_.push_back(op);
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

// Recorded in the operation itself; what was asked for more than once counts as the sum of it.
void engine::cancel(operation* which, std::uint32_t generation,
                    asio::cancellation_type_t type) noexcept {
    {
        auto const guard = lock_inbox();
        if (dead_ || !operations_.owns(which)) return;
        auto& op = *which;
        if (!op.cancel_hook::is_linked()) {
            op.cancellation = type;
            op.cancelled_generation = generation;
            cancellations_.push_back(op);
        } else if (op.cancelled_generation == generation) {
            op.cancellation |= type;
        } else if (static_cast<std::int32_t>(generation - op.cancelled_generation) > 0) {
            op.cancellation = type;
            op.cancelled_generation = generation;
        }
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::give_up(detail::lease_core& lease) noexcept {
    let_go(static_cast<lease_state&>(lease), false);
}

void engine::drop(detail::lease_core& lease) noexcept {
    let_go(static_cast<lease_state&>(lease), true);
}

void engine::let_go(lease_state& l, bool dropped) noexcept {
    // What keeps the engine may be the lease itself, which a turn on another thread may let go of
    // at once.
    auto const self = shared_from_this();
    detail::lock_state_ptr last; // destroyed without the mutex
    {
        auto const guard = lock_inbox();
        if (dead_) {
            if (dropped) last = std::move(l.lock);
            return;
        }
        // Held by nobody, though its turn to be released may come later.
        if (l.counted.exchange(false)) counters_.held.fetch_sub(1, std::memory_order_relaxed);
        l.dropped = l.dropped || dropped;
        if (!l.drop_hook::is_linked()) drops_.push_back(l);
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::shut_down_in_background() noexcept {
    {
        auto const guard = lock_inbox();
        if (dead_ || std::exchange(shut_down_, true)) return;
        background_.what = operation::kind::shutdown;
        starts_.push_back(background_);
        if (std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

void engine::ask_for_turn() noexcept {
    {
        auto const guard = lock_inbox();
        if (dead_ || std::exchange(turn_pending_, true)) return;
    }
    post_turn();
}

// Only an executor that takes no memory of ours can fail to take the turn. What is in the inbox
// then waits for the next turn of any kind: there is one at least with each look at an instance.
void engine::post_turn() noexcept {
    try {
        turns_.post([self = shared_from_this()] { self->turn(); });
    } catch (...) {
        auto const guard = lock_inbox();
        turn_pending_ = false;
        turn_lost_.store(true, std::memory_order_relaxed);
    }
}

std::vector<instance_status> engine::instances() const {
    std::vector<instance_status> all;
    for (auto const& i : instances_) all.push_back(i->status());
    return all;
}

holdfast::client_stats engine::statistics() const {
    auto const get = [](std::atomic<std::uint64_t> const& c) {
        return c.load(std::memory_order_relaxed);
    };
    holdfast::client_stats s{.acquired = get(counters_.acquired),
                             .acquire_failed = get(counters_.acquire_failed),
                             .rounds = get(counters_.rounds),
                             .released = get(counters_.released),
                             .renewals = get(counters_.renewals),
                             .renewals_failed = get(counters_.renewals_failed),
                             .lost = get(counters_.lost),
                             .handoffs = get(counters_.handoffs),
                             .pushes = get(counters_.pushes),
                             .wasted_wakeups = get(counters_.wasted_wakeups),
                             .split_votes = get(counters_.split_votes),
                             .raises = get(counters_.raises),
                             .held = get(counters_.held),
                             .pending = get(counters_.pending),
                             .waiters = get(counters_.waiters)};
    for (auto const& i : instances_) {
        s.commands += get(i->counts().commands);
        s.batches += get(i->counts().batches);
        s.releases_dropped += get(i->counts().releases_dropped);
    }
    return s;
}

void engine::abandon() noexcept {
    // What is let go of may be all that keeps other parts of this alive; who calls keeps all of it
    // until then.
    auto const self = std::move(running_);
    {
        auto const guard = lock_inbox();
        dead_ = true;
        starts_.clear();
        cancellations_.clear();
        drops_.clear();
    }
    taken_.clear();
    for (auto const& i : instances_) i->abandon();
    instances_.clear();
    deadlines_.abandon();
    turns_.abandon();
    operations_.for_each([&](operation& op) {
        auto const handler = std::exchange(op.handler, {});
        auto const wanted = std::move(op.wanted);
        auto const lease = std::move(op.lease);
        auto const lock = std::move(op.lock);
    });
    holdings_.for_each([&](holding& h) { detail::lock_state_ptr const lock = std::move(h.lock); });
    queues_.for_each([&](key_queue& q) { detail::lock_state_ptr const lock = std::move(q.lock); });
    leases_.for_each([&](lease_state& l) {
        l.over.store(true, std::memory_order_release);
        if (l.counted.exchange(false)) counters_.held.fetch_sub(1, std::memory_order_relaxed);
        auto const wanted = std::move(l.wanted);
        detail::lock_state_ptr lock;
        if (l.handles.load() == 0) lock = std::move(l.lock);
    });
    while (retired_) retired_ = std::move(retired_->next);
    executor_ = nullptr;
    user_executor_ = nullptr;
}

//
// Turns
//

void engine::want_turn() {
    if (turn_depth_ == 0) return ask_for_turn();
    look_again_ = look_again_ || !owed_.empty() || retired_; // all else is done as the turn ends
}

void engine::in_turn(turn_work& work) {
    if (turn_depth_ > 0) return work.run();
    in_a_turn([&] { work.run(); });
}

void engine::on_change() {
    instances_seen_ = false;
    if (!stopping_ || stopped_) return;
    if (turn_depth_ == 0) return ask_for_turn();
    look_again_ = true;
}

void engine::turn() {
    auto cancelled = false, dropped = false;
    {
        auto const guard = lock_inbox();
        turn_pending_ = false;
        taken_.splice(taken_.end(), starts_);
        while (!finished_.empty()) {
            auto& op = finished_.front();
            finished_.pop_front();
            operations_.give_back(op);
        }
        cancelled = !cancellations_.empty();
        dropped = !drops_.empty();
    }
    in_a_turn([&] { take_calls(cancelled, dropped); });
}

// Some of what has come in: the rest is for the next turn.
void engine::take_calls(bool cancelled, bool dropped) {
    auto left = calls_a_turn;
    // Before the starts: what is cancelled before it was looked at is never sent.
    auto more = cancelled && look_at_cancellations(left);
    for (; left > 0 && !taken_.empty(); --left) {
        auto& op = taken_.front();
        taken_.pop_front();
        attempt([&] { on_start(op); });
    }
    more = (dropped && look_at_drops()) || more || !taken_.empty();
    look_again_ = look_again_ || more;
}

// Whether there are more.
bool engine::look_at_cancellations(std::size_t& calls_left) {
    struct asked {
        operation* op;
        std::uint32_t generation;
        asio::cancellation_type_t type;
    };
    std::array<asked, calls_a_turn> all;
    std::size_t count = 0;
    auto more = false;
    {
        auto const guard = lock_inbox();
        while (count < calls_left && !cancellations_.empty()) {
            auto& op = cancellations_.front();
            cancellations_.pop_front();
            all[count++] = {&op, op.cancelled_generation, op.cancellation};
        }
        more = !cancellations_.empty();
    }
    for (std::size_t i = 0; i < count; ++i) {
        auto const& a = all[i];
        attempt([&] {
            if (a.op->generation == a.generation) on_cancel(*a.op, a.type);
        });
    }
    calls_left -= count;
    return more;
}

// Whether there are more.
bool engine::look_at_drops() {
    struct let_go_of {
        lease_state* lease;
        bool dropped;
    };
    std::array<let_go_of, drops_a_turn> all;
    std::size_t count = 0;
    auto more = false;
    {
        auto const guard = lock_inbox();
        while (count < all.size() && !drops_.empty()) {
            auto& l = drops_.front();
            drops_.pop_front();
            all[count++] = {&l, l.dropped};
        }
        more = !drops_.empty();
    }
    for (std::size_t i = 0; i < count; ++i) {
        attempt([&] { carry_out(*all[i].lease, all[i].dropped); });
    }
    return more;
}

void engine::carry_out(lease_state& l, bool dropped) {
    if (l.ended == lease_state::end::none) end_lease(l, nullptr, lease_state::end::released);
    if (!dropped) return;
    l.dropped = false;
    l.lock.reset();
    leases_.give_back(l);
}

// Ahead of its turn.
bool engine::carry_out_if_let_go(lease_state& l) {
    auto dropped = false;
    {
        auto const guard = lock_inbox();
        if (!l.drop_hook::is_linked()) return false;
        drops_.erase(drops_.iterator_to(l));
        dropped = l.dropped;
    }
    carry_out(l, dropped);
    return true;
}

void engine::on_start(operation& op) {
    auto const waits = op.what == operation::kind::extend || op.what == operation::kind::lost ||
                       op.what == operation::kind::drain;
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
    case operation::kind::renew:
        start_renew(op);
        break;
    case operation::kind::shutdown:
        if (&op != &background_) {
            op.where = operation::stage::attached;
            shutdowns_.push_back(op);
        }
        begin_shutdown();
        break;
    case operation::kind::drain:
        start_drain(op);
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
        // Asked in the total way, an acquire must have no effect at all; so once it was sent, it
        // has to wait.
        auto const total_only =
            (type & (asio::cancellation_type_t::partial | asio::cancellation_type_t::terminal)) ==
            asio::cancellation_type_t::none;
        auto& q = *op.queue;
        if (total_only && q.machine.trying() && &front(q) == &op) {
            op.cancel_requested = true;
        } else {
            give_up_acquire(op, errc::cancelled);
        }
        break;
    }
    case operation::kind::extend:
    case operation::kind::lost:
    case operation::kind::drain:
        complete(op, errc::cancelled);
        break;
    case operation::kind::release:
    case operation::kind::renew:
    case operation::kind::shutdown:
        break;
    }
}

// For pauses, which need no secret: where no random numbers are to be had, the time will do.
std::uint64_t engine::pause_bits() noexcept {
    try {
        return random_.next_bits();
    } catch (...) {
        auto const now = lease_clock::now().time_since_epoch().count();
        return static_cast<std::uint64_t>(now) * 0x9e3779b97f4a7c15;
    }
}

// What a turn does, it does as of its beginning: that is before the first byte is sent, and after
// every call that it answers.
lease_clock::time_point engine::time() const noexcept {
    return turn_depth_ > 0 ? turn_began_ : lease_clock::now();
}

protocol::instance_set engine::reachable() const {
    look_at_instances();
    return reachable_;
}

protocol::instance_set engine::voters() const {
    look_at_instances();
    return voters_;
}

// Once a turn, and again after an instance has said that it has changed.
void engine::look_at_instances() const {
    if (turn_depth_ > 0 && std::exchange(instances_seen_, true)) return;
    reachable_ = voters_ = {};
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (!instances_[i]->available()) continue;
        reachable_.insert(i);
        if (instances_[i]->may_grant()) voters_.insert(i);
    }
}

bool engine::is_new_server(unsigned instance, std::string_view run_id) {
    for (unsigned i = 0; i < instances_.size(); ++i) {
        // A suspect counts: it may answer again, and vote.
        if (i != instance && instances_[i]->connected() && instances_[i]->run_id() == run_id)
            return false;
    }
    return true;
}

//
// Tenures
//

void engine::on_answer(holding& h, unsigned instance, protocol::command c, std::uint32_t round,
                       redis::answer const& a) {
    using protocol::command;
    if (c == command::inspect) return on_inspection(h, instance, a);
    if (c == command::watch) return on_watched(h, instance, round, a);
    auto const asks = c == command::acquire || c == command::contend || c == command::raise;
    if (asks && h.queue != nullptr && h.queue->machine.trying()) {
        return on_try_answer(h, instance, c, round, a);
    }
    auto const step = h.machine.answer(c, round, instance, a.verdict, [this] { return time(); });
    // What we change ourselves the server does not tell us, and forgets that it was to tell.
    if (c == command::release && a.verdict == protocol::verdict::yes && !waiting_.empty()) {
        wake(instance, h.lock->key);
    }
    if (step.what == protocol::event::none && step.heal.empty() && step.release.empty()) {
        return schedule_if_late(h);
    }
    apply(h, step);
}

void engine::apply(holding& h, protocol::step const& s) {
    holding_ptr const alive(&h);
    using protocol::command;
    using protocol::event;
    if (!s.acquire.empty()) send(h, command::acquire, s.acquire, 0);
    if (!s.contend.empty()) send(h, command::contend, s.contend, 0);
    if (!s.raise.empty()) {
        counters_.raises.fetch_add(1, std::memory_order_relaxed);
        auto const there = reachable();
        send(h, command::raise, s.raise & there, h.machine.round_number());
        // An instance that has granted is raised also where it has gone since; it will not answer.
        h.owed.gone = h.owed.gone | (s.raise - there);
        if (!h.owed.gone.empty()) owe(h);
    }
    if (!s.extend.empty()) send(h, command::extend, s.extend, h.machine.round_number());
    if (!s.heal.empty()) send(h, command::heal, s.heal, 0);
    if (!s.release.empty()) send(h, command::release, s.release, 0);
    if (!s.inspect.empty()) send(h, command::inspect, s.inspect, 0);
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
    case event::arbiter_failed:
        on_try_failed(h, s.what);
        break;
    case event::cancelled:
    case event::arbiter_won:
    case event::arbiter_refused:
        break; // seen to by who caused it
    case event::inspected:
        if (h.queue != nullptr) on_inspected(*h.queue);
        break;
    case event::extended:
        h.lease->deadline.store(h.machine.deadline(), std::memory_order_release);
        counters_.renewals.fetch_add(1, std::memory_order_relaxed);
        keep_counters(h);
        tell_waiters(*h.lease, true, errc{}, errc{});
        break;
    case event::extension_failed:
        counters_.renewals_failed.fetch_add(1, std::memory_order_relaxed);
        tell_waiters(*h.lease, true, errc::no_quorum, errc{});
        break;
    case event::lost:
    case event::released:
    case event::release_unconfirmed:
        on_over(h, s.what);
        break;
    case event::ended:
        on_deadline(h);
        break;
    }
    schedule(h);
}

void engine::owe(holding& h) noexcept {
    if (!h.owed_hook::is_linked()) {
        h.owed.self = &h;
        owed_.push_back(h);
    }
    want_turn();
}

void engine::answer_what_is_owed() {
    using protocol::command;
    owed_list all;
    all.swap(owed_);
    while (!all.empty()) {
        auto& h = all.front();
        all.pop_front();
        auto owed = std::exchange(h.owed, {});
        auto& unsent = owed.out_of_memory[static_cast<std::size_t>(command::release)];
        if (!unsent.empty() && owed.releases < release_retries) {
            h.owed.releases = static_cast<std::uint8_t>(owed.releases + 1);
            auto const again = std::exchange(unsent, {});
            send(h, command::release, again, 0);
            // Where an instance has gone since, it is kept, and tells nobody when it is done.
            (again - reachable()).for_each([&](unsigned i) {
                h.on_answer(i, command::release, 0,
                            {.verdict = protocol::verdict::unsent, .why = reason_of(i)});
            });
        }
        owed.gone.for_each([&](unsigned i) {
            h.on_answer(i, command::raise, 0,
                        {.verdict = protocol::verdict::unsent, .why = reason_of(i)});
        });
        for (std::size_t c = 0; c < owed.out_of_memory.size(); ++c) {
            owed.out_of_memory[c].for_each([&](unsigned i) {
                h.on_answer(i, static_cast<command>(c), owed.round,
                            {.verdict = protocol::verdict::unsent, .why = errc::out_of_memory});
            });
        }
    }
}

// A lease may last for longer than the instances keep the counters of a key that nobody locks.
void engine::keep_counters(holding& h) {
    auto const now = time();
    if (!h.machine.fenced() || now - h.counted < fence_ttl_ / 4) return;
    h.counted = now;
    send(h, protocol::command::raise, h.machine.maybe_held() & reachable(), 0);
}

void engine::schedule(holding& h) {
    if (auto const wake = h.machine.wake()) {
        deadlines_.schedule(h, *wake);
    } else {
        deadlines_.cancel(h);
    }
}

void engine::send(holding& h, protocol::command c, protocol::instance_set to, std::uint32_t round) {
    encoder_.start(c, h.about(c));
    redis::exchange_ptr const who(&h);
    to.for_each([&](unsigned i) {
        if (attempt([&] { instances_[i]->submit(encoder_, who, round); })) return;
        h.owed.out_of_memory[static_cast<std::size_t>(c)].insert(i);
        using protocol::command;
        if (c == command::extend || c == command::watch) h.owed.round = round;
        owe(h);
    });
}

//
// Leases
//

void engine::start_release(operation& op) {
    auto& l = static_cast<lease_state&>(*op.lease.get());
    switch (l.ended) {
    case lease_state::end::none:
        end_lease(l, &op, lease_state::end::released);
        break;
    case lease_state::end::lost:
        complete(op, release_result(errc::lease_lost));
        break;
    case lease_state::end::released:
        complete(op, release_result(errc::lease_released));
        break;
    }
}

// The lease ends, and with it the tenure, unless somebody here waits for it.
void engine::end_lease(lease_state& l, operation* op, lease_state::end as) {
    auto const now = time();
    auto const lost = as == lease_state::end::lost;
    tell_waiters(l, false, lost ? errc::shut_down : errc::lease_released,
                 lost ? errc{} : errc::lease_released);
    // Whoever releases too late is to hear of it.
    auto const in_time = now < l.deadline.load(std::memory_order_relaxed);
    if (!lost && in_time && hand_over(*l.tenure, &l, op, now)) return;
    holding_ptr const h = l.tenure;
    close(l, as);
    release(*h, op, !lost, now);
}

void engine::release(holding& h, operation* op, bool gives_back, lease_clock::time_point now) {
    ++releasing_;
    h.releaser = op;
    if (op != nullptr) op->where = operation::stage::attached;
    h.gives_back = gives_back;
    auto& q = *h.queue;
    holding_ptr const alive(&h);
    detach(q);
    apply(h, h.machine.release(now, reachable()));
    // After the release has been handed to the instances: what follows there follows it.
    q.machine.released(now, h.machine.opposed());
    settle(q, now);
}

// The next waiter of this process gets a lease of the same tenure; the servers hear nothing of it.
// `l` is the one before, unless that has ended already.
bool engine::hand_over(holding& tenure, lease_state* l, operation* op,
                       lease_clock::time_point now) {
    holding_ptr const h(&tenure);
    auto& q = *h->queue;
    auto const& options = h->lock->options;
    if (!q.machine.hands_over(now, h->machine.valid_until() - now, options.ttl,
                              options.handoff_limit, options.handoff_time)) {
        return false;
    }
    auto* const next = new_lease();
    if (next == nullptr) return false;
    if (l != nullptr) {
        close(*l, lease_state::end::released);
        counters_.released.fetch_add(1, std::memory_order_relaxed);
    }
    counters_.handoffs.fetch_add(1, std::memory_order_relaxed);
    if (op != nullptr) complete(*op, release_result());
    grant(static_cast<operation&>(q.machine.hand_over()), *h, *next);
    schedule(*h);
    return true;
}

// The lease is held no longer.
void engine::close(lease_state& l, lease_state::end as) {
    l.ended = as;
    l.over.store(true, std::memory_order_release);
    l.tenure->lease = nullptr;
    l.tenure.reset();
    // Not destroyed here: it is the user's, and may do anything.
    retire(std::move(l.wanted));
    held_.erase(held_.iterator_to(l));
    if (l.counted.exchange(false)) counters_.held.fetch_sub(1, std::memory_order_relaxed);
    if (as == lease_state::end::lost) counters_.lost.fetch_add(1, std::memory_order_relaxed);
}

void engine::on_over(holding& h, protocol::event how) {
    if (h.lease != nullptr) {
        auto& l = *h.lease;
        close(l, lease_state::end::lost);
        drain_.lost = drain_.lost || drain_.begun;
        tell_waiters(l, false, errc::lease_lost, errc{});
        // The deadline that its holder knows has not come: until then the queue has the key.
        if (h.machine.where() == protocol::tenure::phase::ending) {
            ++ending_;
            return;
        }
        auto& q = *h.queue;
        detach(q);
        q.machine.lost();
        return settle(q, time());
    }
    --releasing_;
    if (how == protocol::event::released && h.gives_back) {
        counters_.released.fetch_add(1, std::memory_order_relaxed);
    }
    if (auto* const op = std::exchange(h.releaser, nullptr)) {
        complete(*op, how == protocol::event::released ? release_result()
                      : how == protocol::event::lost   ? release_result(errc::lease_lost)
                                                       : release_result(errc::no_quorum));
    }
}

// Of a lease whose holder was told ahead of it.
void engine::on_deadline(holding& h) {
    --ending_;
    auto const now = time();
    if (hand_over(h, nullptr, nullptr, now)) return;
    end_tenure(*h.queue, now);
}

// Nobody has a lease of it.
void engine::end_tenure(key_queue& q, lease_clock::time_point now) {
    auto const h = q.tenure;
    detach(q);
    if (h->machine.where() == protocol::tenure::phase::ending) apply(*h, h->machine.abandon());
    q.machine.lost();
    settle(q, now);
}

void engine::start_extend(operation& op) {
    auto& l = static_cast<lease_state&>(*op.lease.get());
    if (l.ended != lease_state::end::none) {
        return complete(op, l.ended == lease_state::end::lost ? errc::lease_lost
                                                              : errc::lease_released);
    }
    op.where = operation::stage::attached;
    l.waiters.push_back(op);
    auto& h = *l.tenure;
    if (h.machine.extending()) return; // the one under way answers for both
    auto const now = time();
    apply(h, h.machine.extend(now, reachable()));
}

void engine::start_lost(operation& op) {
    auto& l = static_cast<lease_state&>(*op.lease.get());
    if (l.ended != lease_state::end::none) {
        return complete(op, l.ended == lease_state::end::lost ? errc{} : errc::lease_released);
    }
    op.where = operation::stage::attached;
    l.waiters.push_back(op);
    op.watched_lease = &l;
    // Who waits for a loss does not hold: the lease may go, and that ends the wait.
    op.lease = {};
    if (op.limit.time > l.tenure->machine.margin()) wait_for_end(op, time());
}

// Until the deadline is near. It moves; one timer that looks again is less work than to move with
// it.
void engine::wait_for_end(operation& op, lease_clock::time_point now) {
    auto const due = op.watched_lease->deadline.load(std::memory_order_relaxed) - op.limit.time;
    if (now >= due) return complete(op, errc{});
    deadlines_.schedule(op, due);
}

void engine::renew_while(detail::lease_ref lease, std::function<bool()> wanted) {
    auto node = std::make_unique<wish>(wish{std::move(wanted)});
    submit(operation::kind::renew, {}, {}, std::move(lease), {}, std::move(node));
}

void engine::start_renew(operation& op) {
    auto& l = static_cast<lease_state&>(*op.lease.get());
    retire(std::move(l.wanted));
    if (l.ended == lease_state::end::none && op.wanted->says) {
        l.wanted = std::move(op.wanted);
    } else {
        retire(std::move(op.wanted));
    }
    finish(op);
}

void engine::retire(wish_ptr w) noexcept {
    if (!w) return;
    w->next = std::move(retired_);
    retired_ = std::move(w);
    want_turn();
}

bool engine::is_wanted(lease_state& l) {
    try {
        return l.wanted->says();
    } catch (...) {
        return false; // whoever cannot say that it is
    }
}

void engine::tell_waiters(lease_state& l, bool only_extends, errc to_extends, errc to_lost) {
    for (auto it = l.waiters.begin(); it != l.waiters.end();) {
        auto& op = *it++;
        if (op.what == operation::kind::extend) {
            complete(op, to_extends);
        } else if (!only_extends) {
            complete(op, to_lost);
        }
    }
}

//
// Completion
//

// A handler that throws, or for which there is no memory to send it to its executor, is gone: the
// others go on.

void engine::complete(operation& op, error e, detail::lease_ref lease) {
    if (auto* const acquire = std::get_if<detail::acquire_handler>(&op.handler)) {
        auto handler = std::move(*acquire);
        finish(op);
        try {
            std::move(handler)(std::move(e), detail::access::make_lease(lease));
        } catch (...) {
            keep_exception();
        }
    } else if (auto* const other = std::get_if<detail::error_handler>(&op.handler)) {
        auto handler = std::move(*other);
        finish(op);
        try {
            std::move(handler)(std::move(e));
        } catch (...) {
            keep_exception();
        }
    }
}

void engine::complete(operation& op, release_result r) {
    auto handler = std::move(std::get<detail::release_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(r);
    } catch (...) {
        keep_exception();
    }
}

// Free for its next use; before its handler is called.
void engine::finish(operation& op) {
    deadlines_.cancel(op);
    static_cast<operation_hook&>(op).unlink();
    if (op.what == operation::kind::acquire) {
        counters_.pending.fetch_sub(1, std::memory_order_relaxed);
        if (std::exchange(op.behind, false))
            counters_.waiters.fetch_sub(1, std::memory_order_relaxed);
    }
    ++op.generation;
    op.handler = {};
    op.lock.reset();
    op.lease = {};
    finished_.push_back(op);
}

//
// Shutdown
//

void engine::begin_shutdown(errc why) {
    if (std::exchange(stopping_, true)) return;
    refuse_all_who_wait();
    deadlines_.cancel(drain_);
    drain_.result = !held_.empty() ? why : drain_.lost ? errc::lease_lost : errc{};
    while (!held_.empty()) end_lease(held_.front(), nullptr, lease_state::end::lost);
    for_each_queue([this](key_queue& q) {
        if (q.machine.held())
            end_tenure(q, time()); // told of its loss, and not at its deadline yet
    });
}

void engine::refuse_all_who_wait() {
    // All leave before any queue is settled, so that no try is made for those who are about to go.
    while (!acquiring_.empty()) leave(acquiring_.front(), errc::shut_down);
    // What nobody has any more is given back, and not lost.
    while (look_at_drops()) {
    }
    for_each_queue([this](key_queue& q) { settle(q, time()); });
}

template <class Visit>
void engine::for_each_queue(Visit visit) {
    queues_.for_each([&](key_queue& q) {
        if (q.lock) visit(q);
    });
}

// What has kept the engine alive, when it is over: for the turn, which may be one of an instance.
std::shared_ptr<engine> engine::finish_shutdown_if_done() noexcept {
    if (!stopping_) return nullptr;
    if (!stopped_) {
        auto const settled = std::all_of(instances_.begin(), instances_.end(),
                                         [](auto const& i) { return i->settled(); });
        if (releasing_ > 0 || !owed_.empty() || !settled) return nullptr;
        stopped_ = true;
        // Those that stand back would keep their lock, and so this engine: their time does not come
        // any more.
        for_each_queue([this](key_queue& q) { forget(q); });
        deadlines_.stop();
        for (auto const& i : instances_) attempt([&] { i->stop(); });
    }
    while (!shutdowns_.empty()) complete(shutdowns_.front(), error{});
    while (!drains_.empty()) complete(drains_.front(), drain_.result);
    return std::move(running_);
}

} // namespace holdfast::runtime
