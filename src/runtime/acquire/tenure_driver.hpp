// Carries out the actions of tenures: sends their commands, and sets their timers.
#ifndef HOLDFAST_RUNTIME_TENURE_DRIVER_HPP
#define HOLDFAST_RUNTIME_TENURE_DRIVER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/tenure.hpp"
#include "redis/wire/lock_command.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/memory/pool.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/turn.hpp"

#include <cstddef>
#include <cstdint>

namespace holdfast::runtime {

class tenure_factory {
public:
    /// Called when the pool has no free tenure. Makes a tenure of tenure_size() bytes there.
    virtual active_tenure* make_tenure(void* room) = 0;
    virtual std::size_t tenure_size() const noexcept = 0;

protected:
    ~tenure_factory() = default;
};

/// Decides nothing. The caller (the acquirer or the lease keeper) handles the effect of an action.
class tenure_driver {
public:
    tenure_driver(services const& s, tenure_factory& factory)
        : turn_(s.turn)
        , instances_(s.instances)
        , timers_(s.timers)
        , counters_(s.counters)
        , factory_(factory)
        , tenures_(factory.tenure_size()) {}

    active_tenure& take() {
        return tenures_.take_or_make([this](void* room) { return factory_.make_tenure(room); });
    }
    /// Called when the last reference to the tenure is gone.
    void recycle(active_tenure&) noexcept;

    /// Sends the commands of an action.
    void send_all(active_tenure&, protocol::tenure_action const&);
    void send(active_tenure&, protocol::command, protocol::instance_set to, std::uint32_t round);

    /// Sets the tenure's timer.
    void schedule(active_tenure&);
    /// The same after an answer that decided nothing, but may change how long the tenure waits for
    /// the other answers.
    void schedule_if_late(active_tenure& t) {
        if (t.machine.depends_on_late_answers()) schedule(t);
    }

    /// Gives the answers to commands of the last turn that were not sent.
    void answer_outstanding();
    bool has_outstanding() const { return outstanding_ != nullptr; }
    void forget_outstanding() noexcept;

    /// Visits the tenures in use. `visit` may take no tenure.
    template <class Visit>
    void for_each(Visit visit) {
        tenures_.for_each([&](active_tenure& t) {
            if (t.lock) visit(t);
        });
    }
    /// Called when the execution context is being destroyed.
    void abandon() noexcept {
        tenures_.for_each([](active_tenure& t) { auto const lock = std::move(t.lock); });
    }
    void period_ended() noexcept { tenures_.period_ended(); }
    bool shrink(std::size_t most) noexcept {
        return tenures_.shrink(most, [](active_tenure const&) { return true; });
    }

private:
    void note_unsent(active_tenure&, protocol::command, unsigned instance,
                     std::uint32_t round) noexcept;
    void note_outstanding(active_tenure&) noexcept;

    turn& turn_;
    instance_group& instances_;
    timer_queue& timers_;
    counters& counters_;
    tenure_factory& factory_;
    pool<active_tenure> tenures_;
    active_tenure_ptr outstanding_; ///< the first that has outstanding answers
    redis::encoder encoder_;
};

} // namespace holdfast::runtime

#endif
