// The end of an operation: it is free for its next use, and its handler is called.
#ifndef HOLDFAST_RUNTIME_COMPLETER_HPP
#define HOLDFAST_RUNTIME_COMPLETER_HPP

#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>

#include "runtime/counters.hpp"
#include "runtime/operation.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/turn.hpp"

namespace holdfast::runtime {

/// A handler that throws, or that cannot be sent to its executor for want of memory, is lost. The
/// other operations go on.
class completer {
public:
    completer(turn& t, timer_queue& timers, counters& c)
        : turn_(t)
        , timers_(timers)
        , counters_(c) {}

    void complete(operation&, error, detail::lease_ref = {});
    void complete(operation&, release_result);
    /// Without calling a handler.
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
