// The round of a tenure that was started last. Each round replaces the one before, so a tenure has
// room for one round.
#ifndef HOLDFAST_PROTOCOL_TENURE_ROUND_HPP
#define HOLDFAST_PROTOCOL_TENURE_ROUND_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/acquisition.hpp"
#include "protocol/tenure/extension.hpp"
#include "protocol/tenure/inspection.hpp"
#include "protocol/tenure/release_round.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/time.hpp"

#include <cassert>
#include <utility>
#include <variant>

namespace holdfast::protocol {

template <class Rules>
class tenure_round {
public:
    explicit tenure_round(unsigned configured)
        : round_(std::in_place_type<acquisition<Rules>>, configured) {}

    /// Valid until the first extension or release.
    acquisition<Rules>& acquiring() { return std::get<acquisition<Rules>>(round_); }
    acquisition<Rules> const& acquiring() const { return std::get<acquisition<Rules>>(round_); }

    void begin_extension(tally const& votes) {
        assert(!extending());
        round_.template emplace<extension<Rules>>().begin(votes);
    }
    /// Null if another round was started last.
    extension<Rules>* extended() { return std::get_if<extension<Rules>>(&round_); }
    bool extending() const {
        auto const* const e = std::get_if<extension<Rules>>(&round_);
        return e != nullptr && e->under_way();
    }
    void stop_extending() {
        if (auto* const e = extended()) e->stop();
    }

    void begin_release(time_point now, tally const& votes, bool in_time) {
        round_.template emplace<release_round>().begin(now, votes, in_time);
    }
    /// Valid after begin_release().
    release_round& releasing() { return std::get<release_round>(round_); }
    release_round const& releasing() const { return std::get<release_round>(round_); }

    /// The votes stay as they were.
    void begin_inspection(time_point now, instance_set asked) {
        auto const last = votes();
        round_.template emplace<inspection_round>(inspection_round{{}, last})
            .asking.begin(now, asked);
    }
    /// Counts an answer. True if it was the last that is awaited.
    bool inspected_last(unsigned instance, verdict v) {
        auto* const i = std::get_if<inspection_round>(&round_);
        return i != nullptr && i->asking.count(instance, v) && i->asking.pending().empty();
    }
    /// False if an instance that was asked has not told.
    bool inspected_all() const {
        auto const* const i = std::get_if<inspection_round>(&round_);
        return i == nullptr || i->asking.complete();
    }
    time_point inspection_patience_ends(round_trips const& usual) const {
        auto const* const i = std::get_if<inspection_round>(&round_);
        return i != nullptr ? i->asking.patience_ends(usual) : time_point::max();
    }
    void give_up_inspection() {
        if (auto* const i = std::get_if<inspection_round>(&round_)) i->asking.give_up();
    }

    tally const& votes() const {
        return std::visit([](auto const& r) -> tally const& { return r.votes(); }, round_);
    }

private:
    struct inspection_round {
        tally const& votes() const { return last; }
        inspection asking;
        tally last;
    };

    std::variant<acquisition<Rules>, extension<Rules>, release_round, inspection_round> round_;
};

} // namespace holdfast::protocol

#endif
