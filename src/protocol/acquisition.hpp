// The rounds by which a tenure gets its key: all instances at once, or the arbiter and then the
// others. A last round, the raise, is for instances that hold a smaller number.
//
//     begin_all() ----------------------> voting --------------------> granted, with the number
//                                         ^    |                         ^
//     begin_at_arbiter() --> contending --+    | a quorum granted,       | a quorum holds
//                            ask_others()      | and holds less          | the number
//                                              +-----> raising ----------+
//
// Each state can end without the key: see `effect`.
#ifndef HOLDFAST_PROTOCOL_ACQUISITION_HPP
#define HOLDFAST_PROTOCOL_ACQUISITION_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/round_trips.hpp"
#include "protocol/tally.hpp"
#include "protocol/tenure_action.hpp"
#include "protocol/tenure_number.hpp"
#include "protocol/time.hpp"

#include <cassert>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// Its effect is `won` if a quorum has granted and holds the number. The tenure then decides
/// whether that was in time.
template <class Rules>
class acquisition {
public:
    using effect = tenure_effect;
    using number_type = tenure_number<Rules>;

    explicit acquisition(unsigned configured)
        : configured_(static_cast<std::uint8_t>(configured)) {}

    tenure_action begin_all(time_point now, instance_set reachable) {
        asked_ = now;
        votes_ = round(reachable, reachable);
        if (votes_.impossible()) return {.effect = effect::no_quorum};
        return {.acquire = reachable};
    }
    tenure_action begin_at_arbiter(time_point now, unsigned arbiter) {
        asked_ = now;
        contending_ = true;
        arbiter_ = instance_set::only(arbiter);
        votes_ = tally(configured_, Rules::quorum(configured_, configured_), arbiter_);
        return {.contend = arbiter_};
    }
    tenure_action ask_others(time_point now, instance_set reachable) {
        assert(contending_);
        asked_ = now;
        contending_ = false;
        votes_ = round(reachable, reachable | arbiter_);
        arbiter_.for_each([this](unsigned i) { votes_.count(i, verdict::yes); });
        // A lone arbiter is a quorum, and holds the number that it gave.
        if (votes_.won()) return {.effect = effect::won};
        if (votes_.impossible()) return {.effect = effect::no_quorum};
        return {.acquire = reachable - arbiter_};
    }

    /// `counted`: by the instance, for the tenure's `number`.
    tenure_action arbiter_answer(unsigned instance, verdict v, number_type& number,
                                 std::uint64_t counted) {
        votes_.count(instance, v);
        switch (v) {
        case verdict::yes:
            if (number.requested()) number.count(instance, counted);
            return {.effect = effect::arbiter_won};
        case verdict::no:
            return {.effect = effect::arbiter_refused};
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
            break;
        }
        return {.effect = effect::arbiter_failed};
    }

    template <class Clock>
    tenure_action vote(unsigned instance, verdict v, Clock&& clock, number_type& number,
                       std::uint64_t counted) {
        if (!votes_.count(instance, v)) return {};
        if (v != verdict::yes) return judge();
        auto const lifted = number.requested() && number.count(instance, counted);
        if (!votes_.won() && !number.raising()) return judge();
        if (!number.requested() || !Rules::levels()) return {.effect = effect::won};
        return level(lifted, instance, clock, number);
    }

    /// `current`: the answer is to the raise that was begun last.
    tenure_action raise_answer(bool current, unsigned instance, verdict v, number_type& number) {
        if (!votes_.yes().contains(instance)) return {};
        if (v == verdict::yes) {
            if (current) number.raised(instance);
            return {.effect = is_level(number) ? effect::won : effect::none};
        }
        // The instance lost the key after its grant, or does not answer: its grant does not count
        // any more.
        number.lost(instance);
        votes_.retract(instance, v);
        return judge();
    }

    /// True once, after an answer with which a raise of all instances began.
    bool began_raise() { return std::exchange(began_raise_, false); }

    /// One arbiter was asked before all others.
    bool had_arbiter() const { return !arbiter_.empty(); }
    bool contending() const { return contending_; }
    tally const& votes() const { return votes_; }

    /// From this time on the machine does not wait for the missing answers: they are late.
    ///
    /// A contended round may need the votes of a few instances that do not answer. The other
    /// contenders may need the same ones, and all would keep their votes until those instances are
    /// suspected. So a round that only late answers can save gives its votes back. It goes on while
    /// no other client is seen to have a vote: giving up would gain nothing.
    time_point patience_ends(round_trips const& usual, number_type const& number) const {
        auto const quorum = votes_.quorum();
        // The arbiter may be given up only if the others can be a quorum without it.
        if (contending_) {
            if (configured_ <= quorum || votes_.pending().empty()) return time_point::max();
            // An arbiter that was late when it was asked gets its time too: all others were late.
            auto longest = duration::zero();
            arbiter_.for_each([&](unsigned i) { longest = usual[i].usual(); });
            return asked_ + longest;
        }
        if (votes_.no().empty() || !votes_.has_verdict()) return time_point::max();
        auto const sure = number.raising() ? votes_.yes() & number.holders() : votes_.yes();
        auto const awaited = votes_.pending() | (votes_.yes() - sure);
        return late_from(usual, asked_, awaited, quorum - sure.size());
    }

private:
    tally round(instance_set reachable, instance_set asked) const {
        return tally(configured_, Rules::quorum(configured_, reachable.size()), asked);
    }

    // A quorum decides that the key is contended. If too many instances refuse to vote or are gone,
    // that is an outage and no contention: a waiter must not wait for a holder then. If neither is
    // certain yet, the missing answers decide.
    tenure_action judge() const {
        if (!votes_.impossible()) return {};
        if (votes_.has_verdict()) return {.effect = effect::contended};
        return {.effect = votes_.too_few_answered() ? effect::no_quorum : effect::none};
    }

    bool is_level(number_type const& number) const {
        return number.holders().size() >= votes_.quorum();
    }

    /// A quorum has granted. It must also hold our number: see tenure_number.hpp.
    template <class Clock>
    tenure_action level(bool lifted, unsigned instance, Clock&& clock, number_type& number) {
        if (is_level(number)) return {.effect = effect::won};
        if (votes_.impossible()) return judge(); // some lost the key after their grant
        auto behind = instance_set::only(instance);
        if (number.begin_raising() || lifted) {
            behind = votes_.yes();
            began_raise_ = true;
        }
        asked_ = clock();
        return {.raise = behind - number.holders()};
    }

    time_point asked_{}; ///< when the awaited answers were asked for
    tally votes_;
    instance_set arbiter_;
    std::uint8_t configured_;
    bool contending_ = false;
    bool began_raise_ = false;
};

} // namespace holdfast::protocol

#endif
