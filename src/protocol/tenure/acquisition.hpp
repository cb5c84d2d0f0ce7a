// The rounds that win a key for a tenure. The tenure asks all instances at once, or the arbiter
// first and then the others. A last round, the raise, is for instances that hold a smaller number
// than the tenure.
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
        : configured_(static_cast<std::uint8_t>(configured)) {}

    /// `repeats`: how often the instances that said no are asked again, if too many did. For a key
    /// that is reserved: the last holder may have released it at the arbiter first.
    tenure_action begin_all(time_point now, instance_set reachable, unsigned repeats = 0) {
        asked_ = now;
        repeats_ = static_cast<std::uint8_t>(repeats);
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
        // If the arbiter is the only instance, it is a quorum, and holds the number that it gave.
        if (votes_.won()) return {.effect = effect::won};
        if (votes_.impossible()) return {.effect = effect::no_quorum};
        return {.acquire = reachable - arbiter_};
    }

    /// `counted`: the instance's counter, which a grant returns if the tenure has a number.
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
        case verdict::other:
            break;
        }
        return {.effect = effect::arbiter_failed};
    }

    template <class Clock>
    tenure_action vote(unsigned instance, verdict v, Clock&& clock, number_type& number,
                       std::uint64_t counted) {
        if (!votes_.count(instance, v)) return {};
        if (v != verdict::yes) {
            auto const a = evaluate();
            return a.effect == effect::contended && repeats_ > 0 ? repeat(clock()) : a;
        }
        auto const lifted = number.requested() && number.count(instance, counted);
        if (!votes_.won() && !number.raising()) return evaluate();
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
        // counts.
        number.lost(instance);
        votes_.retract(instance, v);
        return evaluate();
    }

    /// True once after an answer that began a raise of all granting instances with a smaller
    /// number.
    bool began_raise() { return std::exchange(began_raise_, false); }

    /// True if the arbiter was asked before the other instances.
    bool had_arbiter() const { return !arbiter_.empty(); }
    bool contending() const { return contending_; }
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
        if (contending_) {
            if (configured_ <= quorum || votes_.pending().empty()) return time_point::max();
            // An arbiter that was late already when it was asked gets its usual time too, because
            // then all other instances were late.
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
            began_raise_ = true;
        }
        asked_ = clock();
        return {.raise = behind - number.holders()};
    }

    time_point asked_{}; ///< when the round, or its last raise, was sent
    tally votes_;
    instance_set arbiter_;
    std::uint8_t configured_;
    std::uint8_t repeats_ = 0;
    bool contending_ = false;
    bool began_raise_ = false;
};

} // namespace holdfast::protocol

#endif
