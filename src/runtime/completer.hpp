// Completes operations: frees the object for its next use, and calls the handler.
//
// A handler is never called within the call that began its operation, nor in the middle of a turn.
// Usually it is sent to its executor. On a context with one thread, some handlers are kept until
// the turn is over, and then called in place: those of acquires and releases that succeed.
// make_calls() calls them.
#ifndef HOLDFAST_RUNTIME_COMPLETER_HPP
#define HOLDFAST_RUNTIME_COMPLETER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/completion.hpp>
#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>

#include "runtime/counters.hpp"
#include "runtime/operation.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/turn.hpp"

#include <cstddef>

namespace holdfast::runtime {

/// If memory runs out while a handler is sent to its executor, the exception leaves when the turn
/// is over. Other operations are not affected.
class completer {
public:
    /// `d`: the client's executor, and its context if handlers may be called there in place.
    completer(turn& t, timer_queue& timers, counters& c, detail::delivery d = {})
        : turn_(t)
        , timers_(timers)
        , counters_(c)
        , delivery_(d) {}

    void complete(operation&, error, detail::lease_ref = {});
    void complete(operation&, release_result);
    void complete(operation& op, key_report r) { complete(op, error(), std::move(r)); }
    void complete(operation&, error, key_report);
    /// Ends an operation without calling its handler.
    void finish(operation&) noexcept;

    bool owes_calls() const { return !calls_.empty(); }
    /// Calls up to `most` of the handlers that were kept, until about that time. To be called
    /// outside of turns. If a handler throws, the exception leaves at once, and the others are
    /// kept. Returns false if the context's other work comes first, or if the context was stopped.
    bool make_calls(std::size_t most, lease_clock::time_point until);
    /// From now on every handler is sent to its executor, also those that were kept.
    void send_all() noexcept { delivery_.in_place = nullptr; }
    bool calls_in_place() const noexcept { return delivery_.in_place != nullptr; }

    /// The operations that have ended: the inbox takes them back in the next turn.
    operation_list& finished() { return finished_; }

private:
    /// A handler that takes long delays the rest of the context by so many of its kind.
    static constexpr std::size_t calls_between_clock_readings = 8;

    detail::delivery by_executor() const noexcept { return {delivery_.executor, nullptr}; }
    bool is_stopped() const {
        return delivery_.in_place != nullptr && delivery_.in_place->stopped();
    }
    void retire(operation&) noexcept;
    /// True if the handler of the operation, which has succeeded, was kept. A cancellation that
    /// comes between this and the call is too late: the lease is delivered, and the key stays held.
    bool keep(operation&, detail::lease_ref) noexcept;

    turn& turn_;
    timer_queue& timers_;
    counters& counters_;
    detail::delivery delivery_;
    operation_list finished_;
    operation_list calls_; ///< have ended; the lease of an acquire is in operation::lease
};

} // namespace holdfast::runtime

#endif
