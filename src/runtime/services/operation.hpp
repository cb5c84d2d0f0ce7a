// One call of a user, from its start to its handler.
#ifndef HOLDFAST_RUNTIME_OPERATION_HPP
#define HOLDFAST_RUNTIME_OPERATION_HPP

#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>

#include "protocol/waiting/waiter.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/services/timer_queue.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/slist.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <variant>

namespace holdfast::runtime {

class active_queue;
class lease_record;
class operation;

using operation_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// The function of a holder that decides whether its lease is renewed. Also the node of a list, so
/// that lease_keeper::retire() needs no memory.
struct renewal_condition {
    std::function<bool()> holds;
    std::unique_ptr<renewal_condition> next{};
};
using renewal_condition_ptr = std::unique_ptr<renewal_condition>;

/// Links an operation that is to be cancelled into the list of the inbox.
using cancel_hook =
    boost::intrusive::slist_base_hook<boost::intrusive::tag<struct in_cancellations>>;

/// The part of the engine that acts when the timer of an operation runs.
class operation_timer_owner {
public:
    virtual void on_time(operation&, lease_clock::time_point now) = 0;

protected:
    ~operation_timer_owner() = default;
};

/// The timer of an operation. Most operations have none, so it is not part of them.
class operation_timer final : public timed {
public:
    explicit operation_timer(operation& op)
        : op_(op) {}
    void on_time(lease_clock::time_point now) override { owner->on_time(op_, now); }

    operation_timer_owner* owner = nullptr;

private:
    operation& op_;
};

enum class operation_kind : std::uint8_t {
    acquire,
    release,
    extend,
    wait_lost,
    renew,  ///< has no handler
    detach, ///< has no handler
    shutdown,
    drain,
    inspect,
    wait_change,
    release_key,
    force_release,
    force_release_of_seen ///< only the tokens of a report
};

enum class operation_stage : std::uint8_t {
    starting, ///< submitted, and not begun
    queued,   ///< acquire: stands in the queue of its key
    attached, ///< waits for an event of its lease, or of the client
};

class operation final : public operation_hook, public cancel_hook, public protocol::waiter {
public:
    /// The condition is that of renew, which has no handler.
    using any_handler =
        std::variant<std::monostate, detail::acquire_handler, detail::release_handler,
                     detail::error_handler, detail::inspect_handler, renewal_condition_ptr>;

    explicit operation(std::uint32_t first_generation)
        : generation(first_generation) {}

    operation(operation const&) = delete;
    operation& operator=(operation const&) = delete;

    /// To be called once the kind is set. Makes the timer, if the operation will need it. So this
    /// may throw std::bad_alloc, and the operation is then as it was.
    void limit_to(detail::wait_limit l) {
        auto const may_wait = kind == operation_kind::acquire || kind == operation_kind::wait_lost;
        auto const limited = l.mode == detail::wait_limit::kind::until && l.time.count() > 0;
        if (may_wait && limited && !timer) timer = std::make_unique<operation_timer>(*this);
        limit_mode = l.mode;
        time_ = l.time;
    }
    /// Of an acquire until it starts; also of extend, wait_lost and drain.
    std::chrono::nanoseconds limit() const { return time_; }
    void start_at(lease_clock::time_point now) { time_ = now.time_since_epoch(); }
    /// Of an acquire.
    lease_clock::time_point started() const { return lease_clock::time_point(time_); }

    // Ordered so that there is no padding: each waiter has an operation.
    operation_kind kind{};
    operation_stage stage{};
    bool cancel_requested = false; ///< takes effect at the start, or at the end of the try
    bool behind = false;           ///< counted in counters::waiters
    detail::wait_limit::kind limit_mode{};
    /// Counts the uses of this object, and of destroyed objects that had its address. A
    /// cancellation with an older generation comes too late, and is ignored.
    std::uint32_t generation;

    // Under the inbox's mutex: the type of the cancellation that was requested, and the generation
    // that it is for.
    asio::cancellation_type_t cancellation = asio::cancellation_type_t::none;
    std::uint32_t cancelled_generation = 0;

    unsigned tenures_before = 0; ///< acquire: count of the queue when it was joined
    union {
        unsigned tries_before = 0; ///< acquire: likewise
        std::uint32_t round;       ///< wait_change: the first round of the watch that concerns it
    };
    errc result{}; ///< once the operation has ended, until its handler is called
    any_handler handler;
    detail::lease_ref lease;
    detail::lock_state_ptr lock;
    std::unique_ptr<operation_timer> timer; ///< made when first needed, and kept
    union {
        active_queue* queue = nullptr;
        lease_record* watched_lease;      ///< wait_lost
        redis::reply_handler* inspection; ///< of a call on a key
    };

private:
    std::chrono::nanoseconds time_{};
};

using operation_list =
    boost::intrusive::list<operation, boost::intrusive::base_hook<operation_hook>,
                           boost::intrusive::constant_time_size<false>>;
using cancel_list = boost::intrusive::slist<operation, boost::intrusive::base_hook<cancel_hook>,
                                            boost::intrusive::cache_last<true>,
                                            boost::intrusive::constant_time_size<false>>;

/// The slot of the handler; none for a handler that cannot be cancelled.
inline asio::cancellation_slot cancellation_slot_of(operation::any_handler const& handler) {
    return std::visit(
        [](auto const& h) {
            using held = std::decay_t<decltype(h)>;
            if constexpr (std::is_same_v<held, std::monostate> ||
                          std::is_same_v<held, renewal_condition_ptr>) {
                return asio::cancellation_slot();
            } else {
                return asio::get_associated_cancellation_slot(h);
            }
        },
        handler);
}

} // namespace holdfast::runtime

#endif
