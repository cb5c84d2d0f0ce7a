// The sentinels of a deployment: the configured ones, and those that they list as their peers.
//
// A sentinel is known by its id. One sentinel may have several addresses, and one address may lead
// to several sentinels in turn. Sentinels that are counted twice could make a majority of their
// own. So a sentinel counts by its id, whichever address it was asked at.
//
// A sentinel keeps its peers in its list until SENTINEL RESET. The last list of each sentinel
// counts, so that sentinels which are gone are forgotten when all lists have dropped them.
#ifndef HOLDFAST_PROTOCOL_SENTINEL_MEMBERS_HPP
#define HOLDFAST_PROTOCOL_SENTINEL_MEMBERS_HPP

#include "protocol/instance_set.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace holdfast::protocol {

/// A primary as a sentinel names it.
struct named_primary {
    std::uint32_t server = 0; ///< the caller's number for the address
    std::uint64_t epoch = 0;  ///< the configuration epoch

    friend bool operator==(named_primary const&, named_primary const&) = default;
};

class sentinel_members {
public:
    /// The greatest number of sentinels, and of configured addresses.
    static constexpr unsigned capacity = instance_set::capacity;

    explicit sentinel_members(unsigned configured)
        : configured_(std::min(configured, capacity)) {}

    /// The sentinel at a configured address has reported its id. Returns its index; empty if there
    /// are too many sentinels.
    std::optional<unsigned> identified(unsigned address, std::uint64_t id) {
        return at_[address] = member(id);
    }
    /// The sentinel at a configured address does not report its id. Then peers do not count, as
    /// they may be the same sentinel. Returns its index.
    std::optional<unsigned> anonymous(unsigned address) {
        learns_ = false;
        return at_[address] = member(~std::uint64_t{address});
    }
    /// A sentinel lists its peers. The list replaces the one before.
    void listed(unsigned member_index, std::span<std::uint64_t const> peers) {
        auto complete = true;
        lists_[member_index] = {};
        for (auto const id : peers) {
            auto const peer = member(id, lists_[member_index] | instance_set::only(member_index));
            if (peer) lists_[member_index].insert(*peer);
            complete = complete && peer.has_value();
        }
        if (complete) {
            cut_.erase(member_index);
        } else {
            cut_.insert(member_index);
        }
    }

    /// The index of a sentinel that is known.
    std::optional<unsigned> find(std::uint64_t id) const {
        std::optional<unsigned> found;
        used_.for_each([&](unsigned i) {
            if (ids_[i] == id) found = i;
        });
        return found;
    }
    std::uint64_t id(unsigned member_index) const { return ids_[member_index]; }

    /// The sentinels that may vote: those at configured addresses, their peers, and the peers of
    /// these.
    instance_set counted() const {
        auto found = at_addresses();
        if (!learns_) return found;
        for (auto before = instance_set(); before != found;) {
            before = found;
            before.for_each([&](unsigned i) { found = found | lists_[i]; });
        }
        return found;
    }
    /// The number of sentinels, of which a majority is counted. A configured address that never
    /// answered belongs to a peer that is known only from lists, if there is such a peer: sentinels
    /// of a deployment list each other.
    unsigned size() const {
        if (!learns_) return configured_;
        auto const identified = at_addresses();
        auto const peers = (counted() - identified).size();
        return identified.size() + std::max(unidentified(), peers);
    }
    /// True if a list has more sentinels than there is room for.
    bool overflows() const { return learns_ && !(cut_ & counted()).empty(); }

private:
    instance_set at_addresses() const {
        instance_set found;
        for (unsigned a = 0; a < configured_; ++a) {
            if (at_[a]) found.insert(*at_[a]);
        }
        return found;
    }
    unsigned unidentified() const {
        return static_cast<unsigned>(
            std::count(at_.begin(), at_.begin() + configured_, std::nullopt));
    }

    /// The index of this id. A new id takes the place of a sentinel that does not count any more,
    /// and is not in `retained`.
    std::optional<unsigned> member(std::uint64_t id, instance_set retained = {}) {
        if (auto const known = find(id)) return known;
        auto const room = instance_set::first(capacity) - used_;
        auto const free =
            room.empty() ? instance_set::first(capacity) - (counted() | retained) : room;
        std::optional<unsigned> place;
        free.for_each([&](unsigned i) { place = place ? place : i; });
        if (!place) return std::nullopt;
        used_.insert(*place);
        for (auto& list : lists_) list.erase(*place);
        ids_[*place] = id;
        lists_[*place] = {};
        cut_.erase(*place);
        return place;
    }

    unsigned configured_;
    std::array<std::optional<unsigned>, capacity> at_{}; ///< the sentinel at each address
    std::array<std::uint64_t, capacity> ids_{};
    std::array<instance_set, capacity> lists_{};
    instance_set used_, cut_; ///< cut_: these lists did not fit
    bool learns_ = true;
};

} // namespace holdfast::protocol

#endif
