// Calls that wait until the client can lock.
#ifndef HOLDFAST_RUNTIME_READINESS_HPP
#define HOLDFAST_RUNTIME_READINESS_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "runtime/services/completer.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/round_record.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/turn.hpp"

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone.
class readiness final : private operation_timer_owner {
public:
    explicit readiness(services const& s)
        : turn_(s.turn)
        , instances_(s.instances)
        , timers_(s.timers)
        , completer_(s.completer) {}

    void start(operation&);
    /// Called in each turn: completes the calls if the client can lock now, or never will.
    void check() {
        if (!waiting_.empty()) look();
    }
    void shut_down();

private:
    void on_time(operation&, lease_clock::time_point now) override;
    void look();
    void fail(operation&, round_record const&);
    protocol::instance_set ready() const { return instances_.usable_now() & instances_.voters(); }
    /// The instances that are not `there` have failed.
    round_record round_of(protocol::instance_set there) const;

    turn& turn_;
    instance_group& instances_;
    timer_queue& timers_;
    completer& completer_;
    operation_list waiting_;
};

} // namespace holdfast::runtime

#endif
