// Completes operations: frees the object for its next use, and calls the handler.
//
// A handler is never called within the call that began its operation, nor in the middle of a turn.
// Usually it is sent to its executor. On a context with one thread, the handlers of acquires, and
// of releases that succeed, are kept until the turn is over. make_calls() then calls them in place.
#ifndef HOLDFAST_RUNTIME_COMPLETER_HPP
#define HOLDFAST_RUNTIME_COMPLETER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/completion.hpp>
#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/list_report.hpp>

#include "runtime/services/call.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/turn.hpp"

#include <cstddef>
#include <deque>
#include <memory>

namespace holdfast::runtime {

/// If memory runs out while a handler is sent to its executor, the exception leaves when the turn
/// is over. Other operations are not affected.
class completer {
public:
    using report_ptr = std::shared_ptr<acquire_report const>;

    /// `d`: the client's executor, and its context if handlers may be called there in place.
    completer(turn& t, timer_queue& timers, counters& c, detail::delivery d = {})
        : turn_(t)
        , timers_(timers)
        , counters_(c)
        , delivery_(d) {}

    /// `report`: of a failure; may be null. If memory runs out for a report that has to be kept,
    /// the handler gets the code alone.
    void complete(operation&, errc, report_ptr = {});
    /// An acquire has succeeded.
    void complete(operation&, detail::lease_ref);
    void complete(operation&, release_result);
    void complete(operation&, errc, key_report);
    void complete(operation&, list_report);
    /// A wait for the end of a lease is over.
    void complete(operation&, lease_end);
    /// Ends an operation without calling its handler.
    void finish(operation&) noexcept;

    bool has_calls() const { return !calls_.empty(); }
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
    void complete_acquire(operation&, errc, report_ptr, detail::lease_ref);
    template <class Call, class... Results>
    void send(operation&, Results&&...);
    /// Keeps the handler for a call in place. A cancellation that comes between this and the call
    /// is too late: the lease is delivered, and the key stays held.
    void keep(operation&, any_call&& ended) noexcept;
    void retire(operation&) noexcept;
    report_ptr take_report(operation const&) noexcept;

    turn& turn_;
    timer_queue& timers_;
    counters& counters_;
    detail::delivery delivery_;
    operation_list finished_;
    operation_list calls_; ///< have ended
    struct pending_report {
        operation const* of;
        report_ptr report;
    };
    std::deque<pending_report> reports_; ///< of some of these calls, in their order
};

} // namespace holdfast::runtime

#endif
