// What the acquires of a simulation of sets want, and the turns of the event loops.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_ACTORS_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_ACTORS_HPP

#include "protocol/waiting/key_line.hpp"

#include "simulation/sets/wire.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace holdfast::test {

class set_actors : protected set_wire {
protected:
    using set_wire::set_wire;
    ~set_actors() = default;

    virtual void start(actor& a) = 0;
    virtual void start_foreign(actor& a) = 0;
    virtual void give_up(actor& a) = 0;
    virtual void cancel(actor& a) = 0;
    virtual void settle(queue& q) = 0;
    virtual void continue_turns(unsigned p) = 0;
    virtual void end_lease(unsigned t) = 0;
    virtual void freed(unsigned p, unsigned key) = 0;

    //
    // Turns of the event loop
    //

    /// Handles an event of a process, and what it leaves to others.
    template <class Work>
    void turn(unsigned p, Work&& work) {
        auto& me = clients_[p];
        if (!me.alive) return;
        if (std::exchange(me.in_turn, true)) {
            work();
            if (me.gathers) settle_all(p);
            return;
        }
        work();
        if (shape_ || !one_in(4)) return end_turn(p);
        // Other events belong to the same turn, but no answer to what it sends.
        settle_all(p);
        me.gathers = true;
        at(some(delay_ / 2), me, [this, p] {
            if (clients_[p].alive) end_turn(p);
        });
    }
    void end_turn(unsigned p) {
        auto& me = clients_[p];
        me.gathers = false;
        do {
            settle_all(p);
            continue_turns(p);
        } while (!me.unsettled.empty());
        look_for_late(p);
        clients_[p].in_turn = false;
        if (me.dropped.empty()) return;
        at(one_in(2) ? 0 : some(delay_ / 4), me, [this, p] {
            turn(p, [&] {
                for (auto const t : std::exchange(clients_[p].dropped, {})) {
                    if (tenures_[t].lease != nullptr && tenures_[t].lease->owner != nullptr)
                        end_lease(t);
                }
            });
        });
    }
    void settle_all(unsigned p) {
        auto& me = clients_[p];
        while (!me.unsettled.empty()) {
            auto* const q = me.unsettled.back();
            me.unsettled.pop_back();
            settle(*q);
        }
    }
    void will_settle(queue* q) {
        if (q != nullptr) clients_[q->process].unsettled.push_back(q);
    }

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
            for_each_waiting(p, [&](queue& q) {
                ++seen_.late;
                q.machine->late(local(p), i, any());
                settle(q);
            });
        });
    }
    instance_set late(unsigned p) const {
        instance_set all;
        for (unsigned i = 0; i < size(); ++i)
            if (clients_[p].usual[i].late()) all.insert(i);
        return all;
    }
    template <class Visit>
    void for_each_waiting(unsigned p, Visit visit) {
        for (auto& q : queues_) {
            if (q.process == p && q.machine && q.machine->awaits_instances()) visit(q);
        }
    }

    //
    // What an actor wants
    //

    void on_want(actor& a) {
        if (a.is != actor::state::idle || now() >= stop_at_) return;
        choose(a);
        turn(a.process, [&] { clients_[a.process].foreign ? start_foreign(a) : start(a); });
    }
    void choose(actor& a) {
        a.keys.clear();
        auto few = keys_;
        if (shape_) {
            a.set = a.wide;
            few = a.wide ? shape_->keys_of_wide : 1;
            a.patience = shape_->patience;
        } else {
            a.set = !clients_[a.process].foreign && !one_in(3);
            few = a.set ? 1 + static_cast<unsigned>(below(std::min(keys_, 4U))) : 1;
            static constexpr std::array patiences{0U, 0U, 1U, 1U, 4U};
            a.patience = any_of(patiences);
        }
        std::vector<unsigned> all(keys_);
        std::iota(all.begin(), all.end(), 0U);
        shuffle(all);
        a.keys.assign(all.begin(), all.begin() + few);
        auto const& other = actors_[below(actors_.size())];
        if (!shape_ && other.set && !clients_[a.process].foreign && one_in(3)) {
            a.set = true;
            a.keys = other.keys;
            few = static_cast<unsigned>(a.keys.size());
        }
        a.adopted = nobody;
        if (!shape_ && !clients_[a.process].foreign && !offered_.empty() && one_in(2)) {
            if (one_in(2)) std::swap(offered_[below(offered_.size())], offered_.back());
            auto const& from = offered_.back(); // it may have ended long ago
            a.adopted = static_cast<int>(from.token);
            a.set = from.set;
            a.keys = from.keys;
            few = static_cast<unsigned>(a.keys.size());
            offered_.pop_back();
        }
        a.adopts = a.adopted != nobody;
        std::sort(a.keys.begin(), a.keys.end());
        a.callers_order.resize(few);
        std::iota(a.callers_order.begin(), a.callers_order.end(), 0U);
        if (!parts_.byte_order) shuffle(a.callers_order);
        a.set_ttl(!shape_ && one_in(6) ? 2 * ttl_ : ttl_);
        a.renewed = !one_in(3);
        a.fenced = !a.adopts && (shape_ ? shape_->fenced : is_reckless() ? !one_in(6) : one_in(3));
        a.waits = !a.adopts && (shape_ || !one_in(8));
        a.stays = !shape_ && a.waits && one_in(3);
        a.again = a.cancel_requested = a.behind = false;
        a.total_cancel = one_in(3);
    }
    void plan_end(actor& a) {
        if (shape_ || a.is != actor::state::queued) return;
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
    void note_wait(actor const& a) {
        auto const waited = static_cast<double>(now() - a.wanted_at) * 1e-6;
        auto& most = a.wide ? measures_.longest_wide_ms : measures_.longest_narrow_ms;
        most = std::max(most, waited);
        if (shape_ && shape_->steady && a.is != actor::state::queued) {
            auto const trips = waited * 1e6 / (2.0 * static_cast<double>(delay_.count()));
            auto& least = measures_.quickest_round_trips;
            least = least == 0 ? trips : std::min(least, trips);
            measures_.slowest_round_trips = std::max(measures_.slowest_round_trips, trips);
        }
    }

    //
    // Queues and lines
    //

    unsigned key_of(unsigned p, protocol::key_line& l) const {
        return static_cast<unsigned>(&l - clients_[p].lines.get());
    }
    queue* find_queue(unsigned p, bool set, key_list const& keys) const {
        auto const& all = clients_[p].queues;
        auto const found = all.find({set, keys});
        return found == all.end() || !found->second->in_use() ? nullptr : found->second;
    }
    bool in_use(unsigned p, unsigned key) const { return find_queue(p, false, {key}) != nullptr; }
    /// The queue of these keys, made again if it was folded or forgotten.
    queue& queue_for(unsigned p, bool set, key_list const& keys) {
        auto& q = clients_[p].queues[{set, keys}];
        if (q == nullptr) {
            q = &queues_.emplace_back();
            q->process = p;
            q->set = set;
            q->keys = keys;
        }
        if (q->folded) {
            q->machine.emplace(size(), *std::exchange(q->folded, std::nullopt));
        } else if (!q->machine) {
            q->machine.emplace(size());
            q->asks_all = false;
        }
        return *q;
    }

    bool has_quorum_of_instances(unsigned p) const { return voters(p).size() >= quorum(); }

    set_measures measures_;
};

} // namespace holdfast::test

#endif
