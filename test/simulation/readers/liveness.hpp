// How long an acquire waits in a schedule without faults although it could have the key.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_LIVENESS_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_LIVENESS_HPP

#include "simulation/readers/queues.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace holdfast::test {

class readers_liveness : protected readers_queues {
protected:
    using readers_queues::readers_queues;
    ~readers_liveness() = default;

    /// W4, W5: to be called after each event. While a quorum would grant the key to the first
    /// waiter of a process, that waiter gets it within a bound, without faults.
    void check_waiters() {
        if (faults_ != schedule_faults::none || shape_) return;
        for (unsigned p = 0; p < clients_.size(); ++p) {
            auto& me = clients_[p];
            auto const waits = me.queue && !me.queue->empty() && !me.queue->held();
            if (!waits || !is_open_to(front(p))) {
                me.open_since.reset();
                continue;
            }
            auto const since = me.open_since.value_or(now());
            me.open_since = since;
            auto const waited = now() - since;
            // Of readers that were left to their ttl a writer learns when it renews its note.
            auto const renews = front(p).notes ? duration(front(p).ttl) / 3 : duration(0);
            auto const bound = 2 * retry_ + 60 * max_travel() + 150ms + renews;
            seen_.longest_wait =
                std::max(seen_.longest_wait,
                         static_cast<double>(waited) / static_cast<double>(bound.count()));
            if (waited > bound.count())
                fail("W5", std::string("process ") + std::to_string(p) + " waits to " +
                               reading::name(front(p).wants) + ", and could");
        }
    }

private:
    bool is_open_to(actor const& a) {
        unsigned grants = 0;
        for (unsigned i = 0; i < size(); ++i) {
            if (a.wants == access::read && is_of_waiting_writer(i, a)) return false;
            grants += would_grant(i, a);
        }
        return grants >= quorum();
    }
    /// The intent there is of a writer of another process that waits.
    bool is_of_waiting_writer(unsigned i, actor const& a) const {
        auto const of = instances_[i].intent.is;
        if (of == nobody || of == static_cast<int>(a.process)) return false;
        auto const& q = clients_[static_cast<unsigned>(of)].queue;
        return q && q->has_writers();
    }
    bool would_grant(unsigned i, actor const& a) {
        expire_keys(i);
        auto const& at = instances_[i];
        auto const marked = at.key.is == reading::readers;
        auto const opened = at.turn.is == reading::window::open;
        if (a.adopts || a.wants == access::plain) return at.key.is == nobody;
        if (a.wants == access::write)
            return marked ? alive_members(i).empty() : at.key.is == nobody && !opened;
        auto const noted = at.intent.is != nobody && at.intent.is != static_cast<int>(a.process);
        return (marked ? at.has_set : at.key.is == nobody) && (!noted || opened);
    }
};

} // namespace holdfast::test

#endif
