// Carries out the actions of tenures: commands, and the time at which to ask them again.
#ifndef HOLDFAST_RUNTIME_TENURE_DRIVER_HPP
#define HOLDFAST_RUNTIME_TENURE_DRIVER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/lock_command.hpp"
#include "runtime/active_tenure.hpp"
#include "runtime/counters.hpp"
#include "runtime/instance_group.hpp"
#include "runtime/pool.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/turn.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace holdfast::runtime {

class tenure_factory {
public:
    /// Called when the pool has none.
    virtual std::unique_ptr<active_tenure> make_tenure() = 0;

protected:
    ~tenure_factory() = default;
};

/// It decides nothing. The effect of an action is the caller's to handle: the acquirer's or the
/// keeper's.
class tenure_driver {
public:
    tenure_driver(turn& t, instance_group& instances, timer_queue& timers, counters& c,
                  tenure_factory& factory)
        : turn_(t)
        , instances_(instances)
        , timers_(timers)
        , counters_(c)
        , factory_(factory) {}

    active_tenure& take() {
        return tenures_.take_or_make([this] { return factory_.make_tenure(); });
    }
    /// Nobody refers to it any more.
    void recycle(active_tenure&) noexcept;

    /// Sends the commands of a action.
    void send_all(active_tenure&, protocol::tenure_action const&);
    void send(active_tenure&, protocol::command, protocol::instance_set to, std::uint32_t round);

    /// Sets the tenure's timer.
    void schedule(active_tenure&);
    /// The same after an answer that decided nothing, except how long the others are waited for.
    void schedule_if_late(active_tenure& t) {
        if (t.machine.depends_on_late_answers()) schedule(t);
    }

    /// Answers for commands that were not sent: those of the last turn are given in this one.
    void answer_owed();
    bool owes() const { return !owed_.empty(); }
    void forget_owed() noexcept;

    /// The context is going.
    void abandon() noexcept {
        tenures_.for_each([](active_tenure& t) { auto const lock = std::move(t.lock); });
    }
    void period_ended() noexcept { tenures_.period_ended(); }
    bool shrink(std::size_t most) noexcept {
        return tenures_.shrink(most, [](active_tenure const&) { return true; });
    }

private:
    /// Memory is lacking for a moment, or for longer: then a key is left to its ttl.
    static constexpr std::uint8_t release_retries = 3;

    void owe(active_tenure&) noexcept;

    turn& turn_;
    instance_group& instances_;
    timer_queue& timers_;
    counters& counters_;
    tenure_factory& factory_;
    pool<active_tenure> tenures_;
    owed_list owed_;
    redis::encoder encoder_;
};

} // namespace holdfast::runtime

#endif
