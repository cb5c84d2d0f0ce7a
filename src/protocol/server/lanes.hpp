// The order in which commands leave if they do not fit into one batch: first the commands that keep
// a lease alive, then those that make a lease, then those that end one.
//
// Commands on one key keep their order: no release overtakes its SET, and no acquire overtakes the
// release before it. So if a command on the same key waits already, a new command joins its lane.
#ifndef HOLDFAST_PROTOCOL_LANES_HPP
#define HOLDFAST_PROTOCOL_LANES_HPP

#include "protocol/messages.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace holdfast::protocol {

enum class lane : std::uint8_t {
    keep,  ///< extensions, and other commands of a held lease
    take,  ///< acquires, questions and revocations
    leave, ///< releases
};

constexpr lane lane_of(command c) {
    switch (c) {
    case command::extend:
    case command::heal:
    case command::raise:
        return lane::keep;
    case command::acquire:
    case command::contend:
    case command::inspect:
    case command::track:
    case command::survey:
    case command::revoke:
    case command::scan:
        return lane::take;
    case command::release:
        break;
    }
    return lane::leave;
}

/// The right rules. Tests break them one at a time.
struct lane_rules {
    /// A command joins the lane of a command that waits already on the same key.
    static constexpr bool joins() { return true; }
    static constexpr unsigned turns = 8;
    /// The lane that goes first in turn `turn`, from 0 to turns - 1. The last lane and the middle
    /// lane go first in one turn each, so that neither starves.
    static constexpr lane first(unsigned turn) {
        return turn == 0 ? lane::leave : turn == turns / 2 ? lane::take : lane::keep;
    }
};

/// The waiting commands, in three queues. A key is known by its hash. If two keys have the same
/// hash, their commands share a lane, which does no harm.
template <class Item, class Rules = lane_rules>
class lanes {
public:
    bool empty() const { return size_ == 0; }

    void push(lane wanted, std::size_t key_hash, Item item) {
        auto const at = keys_.try_emplace(key_hash, place{wanted, 0}).first;
        queue_of(Rules::joins() ? at->second.assigned : wanted)
            .items.push_back({std::move(item), key_hash});
        ++at->second.waiting;
        ++size_;
    }

    /// The command that leaves next. The lanes must not be empty.
    Item const& front() const noexcept {
        auto const& q = queue_of(lane_of_turn(next_turn()));
        return q.items[q.first].item;
    }
    /// Takes it out.
    Item pop() noexcept {
        turn_ = next_turn();
        auto& q = queue_of(lane_of_turn(turn_));
        auto [item, key_hash] = std::move(q.items[q.first]);
        q.drop_first();
        --size_;
        auto const at = keys_.find(key_hash);
        assert(at != keys_.end() && at->second.waiting > 0);
        if (--at->second.waiting == 0) keys_.erase(at);
        if (size_ == 0) shrink();
        return std::move(item);
    }

private:
    struct lane_item {
        Item item;
        std::size_t key_hash;
    };
    struct queue {
        bool empty() const { return first == items.size(); }
        void drop_first() noexcept {
            ++first;
            if (first < items.size() - first) return;
            // Half of the items have left. So on average an item is moved at most once while it
            // waits.
            items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
            first = 0;
        }
        std::vector<lane_item> items;
        std::size_t first = 0;
    };
    struct place {
        lane assigned;
        std::size_t waiting;
    };
    using keys = boost::unordered_flat_map<std::size_t, place>;

    queue& queue_of(lane l) { return queues_[static_cast<std::size_t>(l)]; }
    queue const& queue_of(lane l) const { return queues_[static_cast<std::size_t>(l)]; }

    unsigned next_turn() const { return (turn_ + 1) % Rules::turns; }
    /// The lane that goes first in this turn. If that lane is empty, the first lane that is not.
    lane lane_of_turn(unsigned turn) const {
        if (auto const l = Rules::first(turn); !queue_of(l).empty()) return l;
        return !queue_of(lane::keep).empty()   ? lane::keep
               : !queue_of(lane::take).empty() ? lane::take
                                               : lane::leave;
    }

    /// Gives back the memory of a burst. (`= {}` would let a container keep its memory.)
    void shrink() noexcept {
        static constexpr std::size_t retained = 1024;
        for (auto& q : queues_) {
            if (q.items.capacity() > retained) q.items = std::vector<lane_item>();
        }
        if (keys_.bucket_count() > retained) keys_ = keys();
    }

    std::array<queue, 3> queues_;
    keys keys_;
    std::size_t size_ = 0;
    unsigned turn_ = 0;
};

} // namespace holdfast::protocol

#endif
