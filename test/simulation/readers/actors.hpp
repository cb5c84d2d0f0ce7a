// What the acquires of a simulation of readers and writers want, and the turns of the event loops.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_ACTORS_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_ACTORS_HPP

#include "simulation/readers/wire.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace holdfast::test {

class readers_actors : protected readers_wire {
protected:
    using readers_wire::readers_wire;
    ~readers_actors() = default;

    virtual void start(actor& a) = 0;
    virtual void start_foreign(actor& a) = 0;
    virtual void give_up(actor& a) = 0;
    virtual void cancel(actor& a) = 0;
    virtual void settle(unsigned p) = 0;

    //
    // Turns of the event loop
    //

    /// Handles an event of a process, and then lets its queue act.
    template <class Work>
    void turn(unsigned p, Work&& work) {
        auto& me = clients_[p];
        if (!me.alive) return;
        if (std::exchange(me.in_turn, true)) return work();
        work();
        while (std::exchange(me.unsettled, false)) settle(p);
        look_for_late(p);
        me.in_turn = false;
    }
    void will_settle(unsigned p) { clients_[p].unsettled = true; }

    void look_for_late(unsigned p) {
        auto& me = clients_[p];
        for (unsigned i = 0; i < size(); ++i) {
            auto const& conn = me.connections[i];
            if (conn.available() && !conn.in_flight.empty() &&
                me.usual[i].becomes_late(local(p),
                                         std::max(conn.in_flight.front().sent, conn.heard)))
                me.newly_late.insert(i);
            if (!me.usual[i].late()) me.newly_late.erase(i);
        }
        if (me.newly_late.empty() || (reachable(p) - late(p)).empty()) return;
        std::exchange(me.newly_late, {}).for_each([&](unsigned i) {
            if (!is_waiting(p)) return;
            ++seen_.late;
            me.queue->late(local(p), i, any());
            settle(p);
        });
    }
    instance_set late(unsigned p) const {
        instance_set all;
        for (unsigned i = 0; i < size(); ++i)
            if (clients_[p].usual[i].late()) all.insert(i);
        return all;
    }
    bool is_waiting(unsigned p) const {
        auto const& q = clients_[p].queue;
        return q && q->awaits_instances();
    }

    //
    // What an actor wants
    //

    void on_want(actor& a) {
        if (a.is != actor::state::idle || now() >= stop_at_) return;
        choose(a);
        turn(a.process, [&] { begin(a); });
    }
    void begin(actor& a) {
        a.began = local(a.process);
        a.wanted_at = now();
        a.arrived = ++arrivals_;
        a.is = actor::state::queued;
        a.tenure = nobody;
        ++a.ticket;
        ++queued_;
        write_story("process ", a.process, " wants to ", reading::name(a.wants), ", ", a.arrived,
                    a.adopts ? ", and adopts" : "");
        plan_end(a);
        clients_[a.process].foreign ? start_foreign(a) : start(a);
    }
    void choose(actor& a) {
        static constexpr std::array kinds{access::read,  access::read,  access::read, access::write,
                                          access::write, access::plain, access::read};
        auto const foreign = clients_[a.process].foreign;
        a.wants = foreign ? access::plain : a.always ? *a.always : any_of(kinds);
        a.adopted = nobody;
        if (!shape_ && !foreign && !offered_.empty() && one_in(2)) {
            a.adopted = static_cast<int>(offered_.back().token);
            a.wants = offered_.back().by;
            a.adopts_shared = offered_.back().shared;
            offered_.pop_back();
        }
        a.adopts = a.adopted != nobody;
        auto const of_writer = shape_ && a.wants == access::write;
        a.set_ttl(of_writer ? shape_->ttl_of_writers : !shape_ && one_in(6) ? 2 * ttl_ : ttl_);
        a.renewed = shape_ || !one_in(3);
        a.fenced = !a.adopts && (shape_ ? shape_->fenced : is_reckless() ? !one_in(6) : one_in(3));
        a.waits = !a.adopts && (shape_ || !one_in(8));
        a.stays = !shape_ && a.waits && !a.adopts && one_in(3);
        a.shared = a.wants == access::read;
        a.alone = a.shared && !a.renewed;
        a.writes = a.wants == access::write;
        a.notes = a.writes && a.waits && !a.adopts;
        a.again = a.cancel_requested = a.behind = false;
        a.total_cancel = one_in(3);
    }
    void plan_end(actor& a) {
        if (shape_) return;
        auto const span = one_in(2) ? some(hold_ * 8 + delay_ * 20) : some(delay_ * 20);
        if (a.waits && one_in(4)) {
            at(span, clients_[a.process], [this, &a, ticket = a.ticket] {
                if (a.is != actor::state::queued || a.ticket != ticket) return;
                ++seen_.timed_out;
                turn(a.process, [&] { give_up(a); });
            });
        } else if (one_in(4)) {
            at(span, clients_[a.process], [this, &a, ticket = a.ticket] {
                if (a.is == actor::state::queued && a.ticket == ticket)
                    turn(a.process, [&] { cancel(a); });
            });
        }
    }
    void rest(actor& a) {
        if (now() >= stop_at_) return;
        auto const span = shape_      ? some(shape_->think)
                          : one_in(2) ? some(delay_ * 2)
                                      : some(hold_ * 4);
        at(1 + span, clients_[a.process], [this, &a] { on_want(a); });
    }
    void fail_acquire(actor& a) {
        a.is = actor::state::idle;
        --queued_;
        ++a.ticket;
        if (a.adopts) ++seen_.not_adopted;
        write_story("process ", a.process, " fails to ", reading::name(a.wants), ", ", a.arrived);
        rest(a);
    }
    void note_wait(actor const& a) {
        auto const waited = static_cast<double>(now() - a.wanted_at) * 1e-6;
        auto& most = a.shared ? measures_.longest_read_ms : measures_.longest_write_ms;
        most = std::max(most, waited);
        if (!shape_->steady || a.is == actor::state::queued) return;
        auto const trips = waited * 1e6 / (2.0 * static_cast<double>(delay_.count()));
        measures_.slowest_round_trips = std::max(measures_.slowest_round_trips, trips);
    }
};

} // namespace holdfast::test

#endif
