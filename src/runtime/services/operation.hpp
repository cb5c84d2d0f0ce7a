// One call of a user, from its start to its handler.
#ifndef HOLDFAST_RUNTIME_OPERATION_HPP
#define HOLDFAST_RUNTIME_OPERATION_HPP

#include <holdfast/clock.hpp>

#include "protocol/waiting/waiter.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/timer_queue.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/slist.hpp>

#include <cassert>
#include <cstdint>
#include <memory>
#include <variant>

namespace holdfast::runtime {

class operation;

using operation_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

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

enum class operation_stage : std::uint8_t {
    starting, ///< submitted, and not begun
    queued,   ///< acquire: stands in the queue of its key
    attached, ///< waits for an event of its lease, or of the client
};

class operation final : public operation_hook, public cancel_hook, public protocol::waiter {
public:
    explicit operation(std::uint32_t first_generation)
        : generation(first_generation) {}

    operation(operation const&) = delete;
    operation& operator=(operation const&) = delete;

    /// Makes the timer, if the call will need it. So this may throw std::bad_alloc, and nothing has
    /// changed then.
    void prepare(any_call const& for_call) {
        auto const needs_timer = std::visit(
            [](auto const& c) {
                if constexpr (requires { c.needs_timer(); }) {
                    return c.needs_timer();
                } else {
                    return false;
                }
            },
            for_call);
        if (needs_timer && !timer) timer = std::make_unique<operation_timer>(*this);
    }
    /// The call, which must be of this type.
    template <class Call>
    Call& as() noexcept {
        auto* const c = std::get_if<Call>(&call);
        assert(c != nullptr);
        return *c;
    }
    template <class Call>
    Call const& as() const noexcept {
        return const_cast<operation&>(*this).as<Call>();
    }

    // Ordered so that there is no padding: each waiter has an operation.
    operation_stage stage{};
    bool cancel_requested = false; ///< takes effect at the start, or at the end of the try
    bool behind = false;           ///< acquire: counted in counters::waiters
    /// Counts the uses of this object, and of destroyed objects that had its address. A
    /// cancellation with an older generation comes too late, and is ignored.
    std::uint32_t generation;

    // Under the inbox's mutex: the type of the cancellation that was requested, and the generation
    // that it is for.
    asio::cancellation_type_t cancellation = asio::cancellation_type_t::none;
    std::uint32_t cancelled_generation = 0;

    std::unique_ptr<operation_timer> timer; ///< made when first needed, and kept
    any_call call;
};

using operation_list =
    boost::intrusive::list<operation, boost::intrusive::base_hook<operation_hook>,
                           boost::intrusive::constant_time_size<false>>;
using cancel_list = boost::intrusive::slist<operation, boost::intrusive::base_hook<cancel_hook>,
                                            boost::intrusive::cache_last<true>,
                                            boost::intrusive::constant_time_size<false>>;

/// The slot of the handler; none for a handler that cannot be cancelled.
inline asio::cancellation_slot cancellation_slot_of(any_call const& call) {
    return std::visit(
        [](auto const& c) {
            if constexpr (call_with_handler<decltype(c)>) {
                return asio::get_associated_cancellation_slot(c.handler);
            } else {
                return asio::cancellation_slot();
            }
        },
        call);
}

} // namespace holdfast::runtime

#endif
