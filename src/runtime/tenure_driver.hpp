// Carries out what the machines of tenures say: commands, and the time at which to ask them again.
#ifndef HOLDFAST_RUNTIME_TENURE_DRIVER_HPP
#define HOLDFAST_RUNTIME_TENURE_DRIVER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/lock_command.hpp"
#include "runtime/counters.hpp"
#include "runtime/deadline_queue.hpp"
#include "runtime/holding.hpp"
#include "runtime/instance_group.hpp"
#include "runtime/pool.hpp"
#include "runtime/turn.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace holdfast::runtime {

class tenure_factory {
public:
    /// Called when the pool has none.
    virtual std::unique_ptr<holding> make_tenure() = 0;

protected:
    ~tenure_factory() = default;
};

/// It decides nothing. The event of a step is the caller's to handle: the acquirer's or the
/// keeper's.
class tenure_driver {
public:
    tenure_driver(turn& t, instance_group& instances, deadline_queue& deadlines, counters& c,
                  tenure_factory& factory)
        : turn_(t)
        , instances_(instances)
        , deadlines_(deadlines)
        , counters_(c)
        , factory_(factory) {}

    holding& take() {
        return tenures_.take_or_make([this] { return factory_.make_tenure(); });
    }
    /// Nobody refers to it any more.
    void recycle(holding&) noexcept;

    /// Sends what a step asks for.
    void send_all(holding&, protocol::step const&);
    void send(holding&, protocol::command, protocol::instance_set to, std::uint32_t round);

    /// Sets the tenure's timer.
    void schedule(holding&);
    /// The same after an answer that decided nothing, except how long the others are waited for.
    void schedule_if_late(holding& h) {
        if (h.machine.depends_on_late_answers()) schedule(h);
    }

    /// Answers for commands that were not sent: those of the last turn are given in this one.
    void answer_owed();
    bool owes() const { return !owed_.empty(); }
    void forget_owed() noexcept;

    /// The context is going.
    void abandon() noexcept {
        tenures_.for_each([](holding& h) { auto const lock = std::move(h.lock); });
    }
    void period_ended() noexcept { tenures_.period_ended(); }
    bool shrink(std::size_t most) noexcept {
        return tenures_.shrink(most, [](holding const&) { return true; });
    }

private:
    /// Memory is lacking for a moment, or for longer: then a key is left to its ttl.
    static constexpr std::uint8_t release_retries = 3;

    void owe(holding&) noexcept;

    turn& turn_;
    instance_group& instances_;
    deadline_queue& deadlines_;
    counters& counters_;
    tenure_factory& factory_;
    pool<holding> tenures_;
    owed_list owed_;
    redis::encoder encoder_;
};

} // namespace holdfast::runtime

#endif
