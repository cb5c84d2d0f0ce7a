// The rounds that win a key for a tenure. The tenure asks all instances at once, or the arbiter
// first and then the others. A permit may need a second round, for a quorum on one slot
// (permit_slot.hpp). A last round, the raise, is for instances that hold a smaller number than the
// tenure.
//
//     begin_all() ----------------------> voting --------------------> granted, with the number
//                                         ^    |                         ^
//     begin_at_arbiter() --> contending --+    | a quorum granted,       | a quorum holds
//                            ask_others()      | too few hold the number | the number
//                                              +-----> raising ----------+
//
// Each state can also end without the key: see tenure_effect.
#ifndef HOLDFAST_PROTOCOL_ACQUISITION_HPP
#define HOLDFAST_PROTOCOL_ACQUISITION_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/permit_slot.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/tenure/tenure_number.hpp"
#include "protocol/tenure/tenure_values.hpp"
#include "protocol/time.hpp"

#include <cassert>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// The acquisition of one tenure. Its effect is `won` when a quorum has granted the key and holds
/// the number. The tenure then decides whether the round was won in time.
template <class Rules>
class acquisition {
public:
    using effect = tenure_effect;
    using number_type = tenure_number<Rules>;

    explicit acquisition(unsigned configured)
        : votes_(configured, 0, {}) {}

    /// `repeats`: how often the instances that said no are asked again, if too many did. For a key
    /// that is reserved: the last holder may have released it at the arbiter first.
    tenure_action begin_all(time_point now, instance_set reachable, unsigned repeats = 0) {
        asked_ = now;
        repeats_ = repeats & 63U;
        votes_ = round(reachable, reachable);
        if (votes_.impossible()) return {.effect = effect::no_quorum};
        return {.acquire = reachable};
    }
    tenure_action begin_at_arbiter(time_point now, unsigned arbiter) {
        asked_ = now;
        contending_ = 1;
        arbiter_ = static_cast<std::uint8_t>(arbiter);
        auto const all = votes_.configured();
        votes_ = tally(all, Rules::quorum(all, all), instance_set::only(arbiter));
        return {.contend = instance_set::only(arbiter)};
    }
    tenure_action ask_others(time_point now, instance_set reachable) {
        assert(contending());
        asked_ = now;
        contending_ = 0;
        auto const arbiter = instance_set::only(arbiter_);
        votes_ = round(reachable, reachable | arbiter);
        votes_.count(arbiter_, verdict::yes);
        // If the arbiter is the only instance, it is a quorum, and holds the number that it gave.
        if (votes_.won()) return {.effect = effect::won};
        if (votes_.impossible()) return {.effect = effect::no_quorum};
        return {.acquire = reachable - arbiter};
    }

    /// What the answer of an instance has beside its verdict, and what of the tenure it concerns.
    struct grant {
        number_type& number;
        std::uint64_t counted; ///< the instance's counter, if the tenure has a number
        permit_slot& slot;
        unsigned given; ///< the slot that the instance has given
    };

    tenure_action arbiter_answer(unsigned instance, verdict v, grant const& g) {
        votes_.count(instance, v);
        switch (v) {
        case verdict::yes:
            g.slot.name(g.given);
            if (g.number.requested()) g.number.count(instance, g.counted);
            return {.effect = effect::arbiter_won};
        case verdict::no:
            return {.effect = effect::arbiter_refused};
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
        case verdict::other:
        case verdict::rival:
            break;
        }
        return {.effect = effect::arbiter_failed};
    }

    template <class Clock>
    tenure_action vote(unsigned instance, verdict v, Clock&& clock, grant const& g) {
        if (!votes_.pending().contains(instance)) return {};
        auto& number = g.number;
        if (v == verdict::yes) v = slots_.template judge<Rules>(instance, g.given, g.slot);
        votes_.count(instance, v);
        auto lifted = false;
        auto const of_rival = v == verdict::other && !number.raising();
        if (v == verdict::yes || of_rival)
            lifted = number.requested() && number.count(instance, g.counted);
        if (of_rival) {
            number.lost(instance);
            slots_.change(votes_, g.slot).for_each([&](unsigned i) { number.lost(i); });
        }
        auto const granted = v == verdict::yes || (of_rival && votes_.won());
        if (!granted || (!votes_.won() && !number.raising())) return evaluate(clock, g, v);
        if (!number.requested() || !Rules::levels()) return {.effect = effect::won};
        return level(lifted, instance, clock, number);
    }

    /// `current`: true if the answer belongs to the raise that was begun last.
    tenure_action raise_answer(bool current, unsigned instance, verdict v, number_type& number) {
        if (!votes_.yes().contains(instance)) return {};
        if (v == verdict::yes) {
            if (current) number.raised(instance);
            return {.effect = is_level(number) ? effect::won : effect::none};
        }
        // The instance lost the key after its grant, or the raise failed there. Its grant no longer
        // counts. A rival is a client that wants the key, too.
        number.lost(instance);
        votes_.retract(instance, v == verdict::rival ? verdict::no : v);
        return evaluate();
    }

    /// True once after an answer that began a raise of all granting instances with a smaller
    /// number.
    bool began_raise() {
        auto const began = began_raise_ != 0;
        began_raise_ = 0;
        return began;
    }

    /// True if the arbiter was asked before the other instances.
    bool had_arbiter() const { return arbiter_ != none; }
    bool contending() const { return contending_ != 0; }
    tally const& votes() const { return votes_; }

    /// The time from which the missing answers are late. The machine does not wait for them any
    /// longer.
    ///
    /// A contended round may need votes of instances that do not answer. Other contenders may need
    /// the same votes. Without this limit, all contenders would keep their votes until those
    /// instances are suspect. So a round that only late answers can win gives its votes back. If no
    /// other client is seen to have votes, the round goes on, because giving up would gain nothing.
    time_point patience_ends(round_trips const& usual, number_type const& number) const {
        auto const quorum = votes_.quorum();
        // A late arbiter is given up only if the other instances can be a quorum without it.
        if (contending()) {
            if (votes_.configured() <= quorum || votes_.pending().empty()) return time_point::max();
            // An arbiter that was late already when it was asked gets its usual time too, because
            // then all other instances were late.
            return asked_ + usual[arbiter_].usual();
        }
        if (votes_.lacking().empty() || !votes_.has_verdict()) return time_point::max();
        auto const sure = number.raising() ? votes_.yes() & number.holders() : votes_.yes();
        auto const awaited = votes_.pending() | (votes_.yes() - sure);
        return late_from(usual, asked_, awaited, quorum - sure.size());
    }
    /// The answers are late. A second round does without them.
    tenure_action late(time_point now, number_type const& number, permit_slot& slot) {
        if (contending()) return {.effect = effect::arbiter_failed};
        if (may_ask_again(number, slot) && slot_votes::granted(votes_) >= votes_.quorum())
            return begin_second_round(now, slot);
        return {.effect = effect::contended};
    }

private:
    static constexpr std::uint8_t none = 0xff;

    tally round(instance_set reachable, instance_set asked) const {
        return new_tally<Rules>(votes_.configured(), reachable, asked);
    }

    bool may_ask_again(number_type const& number, permit_slot const& slot) const {
        return !number.raising() && slot_votes::may_ask_again(votes_, slot);
    }
    tenure_action begin_second_round(time_point now, permit_slot& slot) {
        asked_ = now;
        return {.acquire = slot_votes::ask_again(votes_, slot)};
    }

    template <class Clock>
    tenure_action evaluate(Clock&& clock, grant const& g, verdict v) {
        if (votes_.impossible() && may_ask_again(g.number, g.slot)) {
            if (slot_votes::granted(votes_) < votes_.quorum()) return {};
            return begin_second_round(clock(), g.slot);
        }
        auto const a = evaluate();
        auto const refused = a.effect == effect::contended && v != verdict::yes;
        return refused && repeats_ > 0 ? repeat(clock()) : a;
    }

    // If the votes for and against are together a quorum, the key is contended. If too few
    // instances can vote, that is an outage: a waiter must not wait for a holder then. Until one of
    // the two is certain, the round waits for the missing answers.
    tenure_action evaluate() const {
        if (!votes_.impossible()) return {};
        if (votes_.has_verdict()) return {.effect = effect::contended};
        return {.effect = votes_.too_few_answered() ? effect::no_quorum : effect::none};
    }

    tenure_action repeat(time_point now) {
        --repeats_;
        asked_ = now;
        return {.acquire = votes_.ask_again()};
    }

    bool is_level(number_type const& number) const {
        return number.holders().size() >= votes_.quorum();
    }

    /// A quorum must not only grant, but also hold the tenure's number: see tenure_number.hpp.
    template <class Clock>
    tenure_action level(bool lifted, unsigned instance, Clock&& clock, number_type& number) {
        if (is_level(number)) return {.effect = effect::won};
        if (votes_.impossible()) return evaluate(); // instances lost the key after their grant
        auto behind = instance_set::only(instance);
        repeats_ = 0;
        if (number.begin_raising() || lifted) {
            behind = votes_.yes();
            began_raise_ = 1;
        }
        asked_ = clock();
        return {.raise = behind - number.holders()};
    }

    // Without padding: each lease has room for it.
    time_point asked_{}; ///< when the round, or its last raise, was sent
    tally votes_;
    [[no_unique_address]] slot_votes slots_;
    std::uint8_t arbiter_ = none;
    std::uint8_t repeats_ : 6 = 0;
    std::uint8_t contending_ : 1 = 0;
    std::uint8_t began_raise_ : 1 = 0;
};

} // namespace holdfast::protocol

#endif
