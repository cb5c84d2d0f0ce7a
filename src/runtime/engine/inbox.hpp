// Takes calls, cancellations, and leases that were given up, from any thread. The inbox asks the
// executor for a turn, one at a time, and passes the calls on in that turn.
#ifndef HOLDFAST_RUNTIME_INBOX_HPP
#define HOLDFAST_RUNTIME_INBOX_HPP

#include "runtime/lease/lease_record.hpp"
#include "runtime/memory/pool.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/turn.hpp"
#include "runtime/services/turn_executor.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/scope/scope_exit.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace holdfast::runtime {

/// `Owner` outlives its inbox, is kept alive by shared pointers (shared_from_this,
/// weak_from_this), and has
///   - run_turn(): called on the executor after a turn was asked for;
///   - cancel(operation*, generation, type) noexcept: called from any thread, forwards to the
///     inbox.
/// A receiver of deliver() has start(operation&), cancel(operation&, cancellation_type_t) and
/// drop(lease_record&, bool dropped), none of which may throw.
///
/// @par Thread safety  See the sections below.
template <class Owner>
class basic_inbox final : public turn_source {
public:
    /// The most calls and drops that one turn takes, so that timers and replies are handled in
    /// between. A dropped lease can wait, so the limit for drops is lower: a burst of drops must
    /// not delay holders and callers.
    static constexpr std::size_t calls_a_turn = 256;
    static constexpr std::size_t drops_a_turn = 64;

    basic_inbox(Owner& owner, asio::any_io_executor const& executor, bool thread_safe, counters& c)
        : owner_(owner)
        , thread_safe_(thread_safe)
        , counters_(c)
        , turns_(executor) {
        background_.call = shutdown_call();
    }
    ~basic_inbox() { clear(); }
    basic_inbox(basic_inbox const&) = delete;
    basic_inbox& operator=(basic_inbox const&) = delete;

    //
    // From any thread
    //

    /// If this throws, nothing was submitted, and the call is unchanged.
    void submit(any_call&&);

    /// Recorded in the operation itself. If one operation gets several requests, their types are
    /// combined.
    void cancel(operation*, std::uint32_t generation, asio::cancellation_type_t) noexcept;

    /// Called when the last share of a lease was given up. `dropped`: its last handle is gone.
    void let_go(lease_record&, bool dropped) noexcept;

    void shut_down_in_background() noexcept;

    void ask_for_turn() noexcept override {
        {
            auto const lock = lock_mutex();
            wanted_ = true;
            if (dead_ || std::exchange(turn_requested_, true)) return;
        }
        post_turn();
    }

    //
    // On the executor alone
    //

    struct arrivals {
        bool cancellations = false, drops = false;
    };
    /// Called at the beginning of a turn that was asked for. Takes back the `finished` operations.
    arrivals open(operation_list& finished);
    /// Passes some of the calls to the receiver. Cancellations come before starts, so an operation
    /// that is cancelled before it begins sends nothing. Returns true if calls are left for another
    /// turn.
    template <class Receiver>
    bool deliver(arrivals, Receiver&&);
    /// The same for drops alone.
    template <class Receiver>
    bool deliver_drops(Receiver&&);
    /// Takes a lease out of the inbox ahead of its turn. Returns whether the lease was dropped, or
    /// nothing if it is not in the inbox.
    std::optional<bool> take_drop(lease_record&);
    /// Made between two turns. While it lives, new calls ask for no turn. Its end asks for one, if
    /// a turn is needed.
    class gathering {
    public:
        explicit gathering(basic_inbox& of) noexcept
            : inbox_(of.begin_gathering() ? &of : nullptr) {}
        ~gathering() {
            if (inbox_ != nullptr && inbox_->end_gathering()) inbox_->post_turn();
        }
        gathering(gathering const&) = delete;
        gathering& operator=(gathering const&) = delete;

        /// False if a turn was asked for before: that one takes the calls.
        explicit operator bool() const noexcept { return inbox_ != nullptr; }
        /// Ends it early. True if a turn is needed: the caller begins one with open().
        bool end() noexcept { return std::exchange(inbox_, nullptr)->end_gathering(); }

    private:
        basic_inbox* inbox_;
    };

    /// The operations of which `wanted(operation const&)` is true, used or not, taken out of their
    /// lists.
    template <class Wanted>
    operation_list take_if(Wanted&& wanted) {
        operation_list found;
        auto const lock = lock_mutex();
        operations_.for_each([&](operation& op) {
            if (!wanted(op)) return;
            static_cast<operation_hook&>(op).unlink();
            found.push_back(op);
        });
        return found;
    }
    /// Called at the end of a turn. Asks again if the executor did not take an earlier turn.
    void ask_again() noexcept {
        if (turn_lost_.load(std::memory_order_relaxed) && turn_lost_.exchange(false)) {
            ask_for_turn();
        }
    }
    /// True for the operation of shut_down_in_background().
    bool is_background(operation const& op) const { return &op == &background_; }

    /// Destroys up to `most` unused operations. `period_ended`: a period of the pool has ended.
    /// Returns true if there is more to give back.
    bool give_back_memory(bool period_ended, std::size_t most) noexcept;

    /// Empties the inbox. From now on it takes no call.
    void close() noexcept {
        {
            auto const lock = lock_mutex();
            dead_ = true;
            starts_.clear();
            cancellations_.clear();
            drops_.clear();
        }
        taken_.clear();
    }
    /// Called when the execution context is being destroyed. Destroys all handlers without calling
    /// them.
    void abandon() noexcept;
    /// Called before the leases are destroyed.
    void clear() noexcept {
        starts_.clear();
        taken_.clear();
        cancellations_.clear();
        drops_.clear();
    }

private:
    /// The handler in a cancellation slot: cancels the operation if the owner still exists.
    struct canceller {
        canceller(std::weak_ptr<Owner> o, operation& called)
            : owner(std::move(o))
            , op(&called)
            , generation(called.generation) {}
        void operator()(asio::cancellation_type_t type) const {
            if (auto const o = owner.lock()) o->cancel(op, generation, type);
        }
        std::weak_ptr<Owner> owner;
        operation* op;
        std::uint32_t generation;
    };

    std::unique_lock<std::mutex> lock_mutex() const {
        return thread_safe_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
    }
    template <class Receiver>
    bool deliver_cancellations(std::size_t& calls_left, Receiver&);

    bool begin_gathering() noexcept {
        auto const lock = lock_mutex();
        wanted_ = false;
        return !std::exchange(turn_requested_, true);
    }
    /// True if a turn is needed.
    bool end_gathering() noexcept {
        auto const lock = lock_mutex();
        turn_requested_ = wanted_ || !starts_.empty() || !cancellations_.empty() || !drops_.empty();
        return turn_requested_;
    }

    // Only an executor that does not use our reserved memory can fail to take the turn. The inbox
    // then waits for any other turn. The checks of the instances bring turns.
    void post_turn() noexcept {
        try {
            turns_.post([owner = owner_.shared_from_this()] { owner->run_turn(); });
        } catch (...) {
            auto const lock = lock_mutex();
            turn_requested_ = false;
            turn_lost_.store(true, std::memory_order_relaxed);
        }
    }

    Owner& owner_;
    bool const thread_safe_;
    counters& counters_;

    // Under the mutex.
    mutable std::mutex mutex_;
    pool<operation> operations_;
    /// The generation of a new operation. No cancellation of a destroyed operation has this
    /// generation.
    std::uint32_t first_generation_ = 0;
    operation_list starts_;
    cancel_list cancellations_;
    drop_list drops_;
    bool turn_requested_ = false;
    bool wanted_ = false;    ///< ask_for_turn() was called while gathering
    bool dead_ = false;      ///< the context is gone
    bool shut_down_ = false; ///< shut_down_in_background() was called

    std::atomic<bool> turn_lost_{false}; ///< the executor did not take a turn that was asked for
    operation background_{0};
    turn_executor turns_;

    // On the executor alone.
    operation_list taken_; ///< starts that have not been delivered
};

template <class Owner>
void basic_inbox<Owner>::submit(any_call&& call) {
    auto const slot = cancellation_slot_of(call);
    {
        auto lock = lock_mutex();
        if (dead_) return;
        auto& op = operations_.take(first_generation_);
        auto moved = false;
        // The caller gets its call back, as if it had not called.
        boost::scope::scope_exit undo([&] {
            if (moved) call = std::exchange(op.call, {});
            if (thread_safe_ && !lock) lock.lock();
            operations_.give_back(op);
        });
        op.prepare(call);
        op.stage = operation_stage::starting;
        op.cancel_requested = false;
        op.call = std::move(call);
        moved = true;
        if (slot.is_connected()) {
            // Without the mutex: emplace() may destroy an older handler of the user.
            if (lock) lock.unlock();
            asio::cancellation_slot(slot).template emplace<canceller>(owner_.weak_from_this(), op);
            if (thread_safe_) lock.lock();
        }
        undo.set_active(false);
        starts_.push_back(op);
        if (std::exchange(turn_requested_, true)) return;
    }
    post_turn();
}

template <class Owner>
void basic_inbox<Owner>::cancel(operation* asked, std::uint32_t generation,
                                asio::cancellation_type_t type) noexcept {
    {
        auto const lock = lock_mutex();
        if (dead_ || !operations_.owns(asked)) return;
        auto& op = *asked;
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
        if (std::exchange(turn_requested_, true)) return;
    }
    post_turn();
}

template <class Owner>
void basic_inbox<Owner>::let_go(lease_record& l, bool dropped) noexcept {
    // The lease may have the last reference to the owner, and a turn on another thread may recycle
    // the lease at once.
    auto const self = owner_.shared_from_this();
    detail::lock_state_ptr last; // destroyed after the mutex is unlocked
    {
        auto const lock = lock_mutex();
        if (dead_) {
            if (dropped) last = std::move(l.lock);
            return;
        }
        // The lease does not count as held any more, even if a later turn releases it.
        l.discount(counters_);
        l.dropped = l.dropped || dropped;
        if (!l.drop_hook::is_linked()) drops_.push_back(l);
        if (std::exchange(turn_requested_, true)) return;
    }
    post_turn();
}

template <class Owner>
void basic_inbox<Owner>::shut_down_in_background() noexcept {
    {
        auto const lock = lock_mutex();
        if (dead_ || std::exchange(shut_down_, true)) return;
        starts_.push_back(background_);
        if (std::exchange(turn_requested_, true)) return;
    }
    post_turn();
}

template <class Owner>
typename basic_inbox<Owner>::arrivals basic_inbox<Owner>::open(operation_list& finished) {
    auto const lock = lock_mutex();
    turn_requested_ = false;
    taken_.splice(taken_.end(), starts_);
    while (!finished.empty()) {
        auto& op = finished.front();
        finished.pop_front();
        operations_.give_back(op);
    }
    return {.cancellations = !cancellations_.empty(), .drops = !drops_.empty()};
}

template <class Owner>
template <class Receiver>
bool basic_inbox<Owner>::deliver(arrivals a, Receiver&& to) {
    auto left = calls_a_turn;
    auto more = a.cancellations && deliver_cancellations(left, to);
    for (; left > 0 && !taken_.empty(); --left) {
        auto& op = taken_.front();
        taken_.pop_front();
        to.start(op);
    }
    more = (a.drops && deliver_drops(to)) || more;
    return more || !taken_.empty();
}

template <class Owner>
template <class Receiver>
bool basic_inbox<Owner>::deliver_cancellations(std::size_t& calls_left, Receiver& to) {
    struct request {
        operation* op;
        std::uint32_t generation;
        asio::cancellation_type_t type;
    };
    std::array<request, calls_a_turn> all;
    std::size_t count = 0;
    auto more = false;
    {
        auto const lock = lock_mutex();
        while (count < calls_left && !cancellations_.empty()) {
            auto& op = cancellations_.front();
            cancellations_.pop_front();
            all[count++] = {&op, op.cancelled_generation, op.cancellation};
        }
        more = !cancellations_.empty();
    }
    for (std::size_t i = 0; i < count; ++i) {
        auto const& r = all[i];
        if (r.op->generation == r.generation) to.cancel(*r.op, r.type);
    }
    calls_left -= count;
    return more;
}

template <class Owner>
template <class Receiver>
bool basic_inbox<Owner>::deliver_drops(Receiver&& to) {
    struct entry {
        lease_record* lease;
        bool dropped;
    };
    std::array<entry, drops_a_turn> all;
    std::size_t count = 0;
    auto more = false;
    {
        auto const lock = lock_mutex();
        while (count < all.size() && !drops_.empty()) {
            auto& l = drops_.front();
            drops_.pop_front();
            all[count++] = {&l, l.dropped};
        }
        more = !drops_.empty();
    }
    for (std::size_t i = 0; i < count; ++i) to.drop(*all[i].lease, all[i].dropped);
    return more;
}

template <class Owner>
std::optional<bool> basic_inbox<Owner>::take_drop(lease_record& l) {
    auto const lock = lock_mutex();
    if (!l.drop_hook::is_linked()) return std::nullopt;
    drops_.erase(drops_.iterator_to(l));
    return l.dropped;
}

template <class Owner>
bool basic_inbox<Owner>::give_back_memory(bool period_ended, std::size_t most) noexcept {
    auto const lock = lock_mutex();
    if (period_ended) operations_.period_ended();
    return operations_.shrink(most, [this](operation const& op) {
        if (op.cancel_hook::is_linked()) return false; // a cancellation is in the inbox
        auto const later = static_cast<std::int32_t>(op.generation - first_generation_) > 0;
        if (later) first_generation_ = op.generation;
        return true;
    });
}

template <class Owner>
void basic_inbox<Owner>::abandon() noexcept {
    turns_.abandon();
    operations_.for_each([](operation& op) { auto const call = std::exchange(op.call, {}); });
}

} // namespace holdfast::runtime

#endif
