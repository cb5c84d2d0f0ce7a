// Completes operations: frees the object for its next use, and calls the handler.
#ifndef HOLDFAST_RUNTIME_COMPLETER_HPP
#define HOLDFAST_RUNTIME_COMPLETER_HPP

#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>

#include "runtime/counters.hpp"
#include "runtime/operation.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/turn.hpp"

namespace holdfast::runtime {

/// If a handler throws, or memory runs out while the handler is sent to its executor, the exception
/// leaves when the turn is over. Other operations are not affected.
class completer {
public:
    completer(turn& t, timer_queue& timers, counters& c)
        : turn_(t)
        , timers_(timers)
        , counters_(c) {}

    void complete(operation&, error, detail::lease_ref = {});
    void complete(operation&, release_result);
    void complete(operation& op, key_report r) { complete(op, error(), std::move(r)); }
    void complete(operation&, error, key_report);
    /// Ends an operation without calling its handler.
    void finish(operation&) noexcept;

    /// The operations that have ended: the inbox takes them back in the next turn.
    operation_list& finished() { return finished_; }

private:
    turn& turn_;
    timer_queue& timers_;
    counters& counters_;
    operation_list finished_;
};

} // namespace holdfast::runtime

#endif
