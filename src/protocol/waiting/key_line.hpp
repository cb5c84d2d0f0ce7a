// The order of one process among the locks that want a key, if some of them want other keys as
// well.
//
// The problem: an acquire of several keys asks for all at once, so it must be first everywhere. If
// each key had an order of its own, two of these acquires could each be first for one key, and
// neither would ever get the other key.
//
// The idea: an acquire of several keys gets its places in the lines of all its keys at one moment.
// So the lines agree: who comes earlier stands before in every line that they share, and the
// earliest of all is first everywhere. It keeps its places until its lease has ended.
//
// A line has places of acquires of several keys alone. An acquire of one key waits behind the last
// place. When that place is given up, the acquire is called: it may join the queue of its key
// (wait_queue.hpp). So a key that only locks on one key want has no line. While its queue is in
// use, or acquires are called, the first place must wait.
//
// The adoption of a lease on several keys overtakes: it gets places before all that wait, and waits
// for no queue. It proves that nobody else can have the keys, so the servers would refuse all
// others.
//
// The lines decide the order in this process. Safety rests on the instances alone.
#ifndef HOLDFAST_PROTOCOL_KEY_LINE_HPP
#define HOLDFAST_PROTOCOL_KEY_LINE_HPP

#include "protocol/waiting/waiter.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

namespace holdfast::protocol {

class key_line;
class key_turn;

using place_hook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_key_line>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// The place of an acquire of several keys in the line of one of them.
struct key_place : place_hook {
    key_line* line = nullptr;
    key_turn* turn = nullptr;
    bool ready = false;   ///< it waits for nobody
    bool free = false;    ///< it waits for no queue of the key, and never will again
    waiter_list behind{}; ///< acquires of this key alone
};

class key_line {
public:
    /// True if no acquire stands here any more.
    bool empty() const { return places_.empty() && called_.empty(); }
    bool has_places() const { return !places_.empty(); }
    key_place const& front() const { return places_.front(); }

    /// An acquire of this key alone waits behind those that came earlier. The line is not empty.
    void wait_behind(waiter& w) {
        assert(!empty());
        (places_.empty() ? called_ : places_.back().behind).push_back(w);
    }
    /// Such an acquire leaves, whatever line it stands in.
    static void leave(waiter& w) {
        using algorithms = waiter_list::node_algorithms;
        algorithms::unlink(waiter_list::value_traits::to_node_ptr(w));
        algorithms::init(waiter_list::value_traits::to_node_ptr(w));
    }
    /// True if acquires of this key alone may join the queue of the key, and have not joined it.
    bool has_called() const { return !called_.empty(); }
    /// The first of them, which joins the queue now.
    waiter& take_called() {
        auto& w = called_.front();
        called_.pop_front();
        return w;
    }

    /// Forgets all, and notifies nobody.
    void clear() {
        for (auto& p : places_) p.behind.clear();
        places_.clear();
        called_.clear();
    }

private:
    friend class key_turn;
    boost::intrusive::list<key_place, boost::intrusive::base_hook<place_hook>,
                           boost::intrusive::constant_time_size<false>>
        places_;
    waiter_list called_;
};

/// The places of one acquire of several keys, and then of its lease.
class key_turn {
public:
    key_turn() = default;
    key_turn(key_turn const&) = delete;
    key_turn& operator=(key_turn const&) = delete;

    /// Joins the lines of all keys at their ends. `line(i)` is that of the key `i`, and
    /// `in_use(line)` tells whether the queue of its key is in use.
    template <class Line, class InUse>
    void enter(std::span<key_place> places, Line&& line, InUse&& in_use) {
        places_ = places;
        std::size_t i = 0;
        for (auto& p : places_) {
            p.line = &line(i++);
            p.turn = this;
            p.line->places_.push_back(p);
            p.free = &p.line->front() == &p && !p.line->has_called() && !in_use(*p.line);
            if (p.free) become_ready(p);
        }
    }
    /// Joins them before all that wait, but for others that have overtaken, and is first
    /// everywhere. No lease of this process has one of the keys. `overtaken(turn)`: that turn was
    /// first everywhere.
    template <class Line, class InUse, class Overtaken>
    void overtake(std::span<key_place> places, Line&& line, InUse&& in_use, Overtaken&& overtaken) {
        places_ = places;
        overtakes_ = true;
        std::size_t i = 0;
        for (auto& p : places_) {
            p.line = &line(i++);
            p.turn = this;
            auto& all = p.line->places_;
            auto const next = std::find_if(all.begin(), all.end(), [](key_place const& other) {
                return !other.turn->overtakes_;
            });
            p.free = next == all.begin() && !p.line->has_called() && !in_use(*p.line);
            if (next != all.end() && std::exchange(next->ready, false)) {
                auto& turn = *next->turn;
                if (turn.ready_-- == turn.places_.size()) overtaken(turn);
            }
            all.insert(next, p);
            become_ready(p);
        }
    }
    bool entered() const { return !places_.empty(); }

    /// True if no acquire of this process that came earlier wants one of the keys.
    bool first_everywhere() const { return ready_ == places_.size(); }

    /// The queue of the key of this line is not in use any more, and no acquire is about to join
    /// it. Returns the turn that is first everywhere since, or null.
    static key_turn* freed(key_line& l) {
        if (!l.has_places() || l.has_called()) return nullptr;
        auto& first = l.places_.front();
        first.free = true;
        if (first.ready) return nullptr;
        become_ready(first);
        return first.turn->first_everywhere() ? first.turn : nullptr;
    }

    /// Gives up all places. `called(line)`: acquires of that key alone may join its queue.
    /// `ready(turn)`: that turn is first everywhere since.
    template <class Called, class Ready>
    void leave(Called&& called, Ready&& ready) {
        for (auto& p : std::exchange(places_, {})) {
            auto& line = *p.line;
            auto& all = line.places_;
            auto const at = all.iterator_to(p);
            auto const first = at == all.begin();
            auto const some = !p.behind.empty();
            auto& before = first ? line.called_ : std::prev(at)->behind;
            before.splice(before.end(), p.behind);
            all.erase(at);
            if (!first) continue;
            if (some) called(line);
            // What is before the next place is not in the line.
            if (!p.free && (all.empty() || !all.front().free)) continue;
            if (auto* const next = freed(line)) ready(*next);
        }
        ready_ = 0;
    }

    /// True if `next` wants the same keys, and stands right behind this turn in all lines. So the
    /// lease of this turn may be handed over to it.
    bool is_followed_by(key_turn const& next) const {
        if (places_.size() != next.places_.size()) return false;
        for (std::size_t i = 0; i < places_.size(); ++i) {
            auto const& all = places_[i].line->places_;
            // One that has overtaken others may stand before it, also if it has won meanwhile.
            if (&all.front() != &places_[i]) return false;
            auto const behind = std::next(all.begin());
            if (behind == all.end() || behind->turn != &next || !places_[i].behind.empty())
                return false;
            if (!places_[i].free && !behind->free) return false;
        }
        return true;
    }
    /// The next one takes over all places: is_followed_by(next).
    void hand_over_to([[maybe_unused]] key_turn& next) {
        leave([](key_line&) {}, [](key_turn&) {});
        assert(next.first_everywhere());
    }

private:
    static void become_ready(key_place& p) {
        p.ready = true;
        ++p.turn->ready_;
    }

    std::span<key_place> places_;
    std::size_t ready_ = 0;
    bool overtakes_ = false;
};

} // namespace holdfast::protocol

#endif
