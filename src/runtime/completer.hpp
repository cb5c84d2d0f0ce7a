// Completes operations: frees the object for its next use, and calls the handler.
//
// A handler is never called within the call that began its operation, nor in the middle of a turn.
// Usually it is sent to its executor. On a context with one thread, the handlers of acquires and
// releases that succeed are kept until the turn is over, and then called in place: make_calls().
#ifndef HOLDFAST_RUNTIME_COMPLETER_HPP
#define HOLDFAST_RUNTIME_COMPLETER_HPP

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
    /// `how`: the client's executor, and its context if handlers may be called there in place.
    completer(turn& t, timer_queue& timers, counters& c, detail::delivery how = {})
        : turn_(t)
        , timers_(timers)
        , counters_(c)
        , how_(how) {}

    void complete(operation&, error, detail::lease_ref = {});
    void complete(operation&, release_result);
    void complete(operation& op, key_report r) { complete(op, error(), std::move(r)); }
    void complete(operation&, error, key_report);
    /// Ends an operation without calling its handler.
    void finish(operation&) noexcept;

    bool owes_calls() const { return !calls_.empty(); }
    /// Calls up to `most` of the handlers that were kept. To be called outside of turns. If a
    /// handler throws, the exception leaves at once, and the others are kept.
    void make_calls(std::size_t most);
    /// From now on every handler is sent to its executor, also those that were kept.
    void send_all() noexcept { how_.in_place = nullptr; }
    bool calls_in_place() const noexcept { return how_.in_place != nullptr; }

    /// The operations that have ended: the inbox takes them back in the next turn.
    operation_list& finished() { return finished_; }

private:
    /// To the handler's executor.
    detail::delivery send() const noexcept { return {how_.executor, nullptr}; }
    void retire(operation&) noexcept;
    /// True if the handler of the operation, which has succeeded, was kept.
    bool keep(operation&, detail::lease_ref) noexcept;

    turn& turn_;
    timer_queue& timers_;
    counters& counters_;
    detail::delivery how_;
    operation_list finished_;
    operation_list calls_; ///< have ended; the lease of an acquire is in operation::lease
};

} // namespace holdfast::runtime

#endif
