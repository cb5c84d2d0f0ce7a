// A tenure: one ownership of a key on the instances, from the first request to the last release.
// The rounds of acquire, raise, extend, heal and release are one machine. The driver gives the
// machine each event with its time, and carries out the action that follows. The machine does no
// I/O, reads no clock and allocates nothing, so it runs in simulation as it does in production.
//
//   acquire(), or contend() and ask_rest()
//        |
//        v        a quorum has granted
//    acquiring -------------------------> held <------------------+
//        |                                | | |                   | begin_lease(),
//        | cancel(),   a majority has     | | | loss_time(),      | after `ended`
//        | a failure   lost the key       | | | or a limit        | at a limit
//        v                  +-------------+ | +--------> ending --+
//       over <--------------+               |            |    |
//        ^  ^                               | release()  |    | the deadline,
//        |  +-------------------------------|------------|----+ or abandon()
//        |                                  v            |
//        +----------------------------- releasing <------+ release()
//          a quorum confirmed, or none can
//
// Parts: tenure_round (acquisition, extension or release_round); tally (votes); key_presence (where
// the key may be); validity (until when); tenure_number (for fences); inspection (of a refusal).
#ifndef HOLDFAST_PROTOCOL_TENURE_HPP
#define HOLDFAST_PROTOCOL_TENURE_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/key_presence.hpp"
#include "protocol/tenure/permit_slot.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/tenure/tenure_number.hpp"
#include "protocol/tenure/tenure_round.hpp"
#include "protocol/tenure/tenure_values.hpp"
#include "protocol/tenure/validity.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>

namespace holdfast::protocol {

template <class Rules>
class basic_tenure {
public:
    using effect = tenure_effect;

    /// `renewed`: time() gives the effect `renewal_due` after each `period`.
    basic_tenure(unsigned configured, duration ttl, bool renewed, duration period)
        : validity_(ttl, renewed, period)
        , presence_(configured)
        , round_(configured) {}
    basic_tenure(unsigned configured, duration ttl, bool renewed)
        : basic_tenure(configured, ttl, renewed, renewal_period(ttl)) {}

    /// The tenure gets a number. To be called before the first round.
    void number_from(count_plan const& plan) { number_.request(plan); }
    void of_several_keys() { presence_.of_several_keys(); }
    /// An instance shows the tombstone of our token. To be called before answer().
    void note_tombstone() { presence_.never_heal(); }
    /// Of a permit: instances search for a free slot from here on.
    void search_from(unsigned slot) { slot_.start_at(slot); }
    /// The permit was won elsewhere, with this slot. To be called before the first round.
    void adopt_slot(unsigned slot) { slot_.adopt(slot); }
    /// The tenure was won elsewhere, with this number (0: none). To be called when it is held. Any
    /// instance may have the key, or get it late: it was not asked, or has denied the key before.
    void adopt(std::uint64_t number) {
        if (number != 0) number_.adopt(number);
        presence_.ask(instance_set::first(presence_.configured()));
    }

    /// `usual`: how long instances usually take to answer. Without set_usual() no answer is ever
    /// late.
    void set_usual(round_trips const& usual) { usual_ = &usual; }

    /// Asks every instance that can be reached. `now` must be read before anything is sent.
    /// `repeats`: see acquisition::begin_all().
    tenure_action acquire(time_point now, instance_set reachable, unsigned repeats = 0) {
        validity_.begin_round(now);
        reserved_ = repeats > 0;
        return conclude(round_.acquiring().begin_all(now, reachable, repeats), now);
    }
    /// Asks the arbiter alone.
    tenure_action contend(time_point now, unsigned arbiter) {
        validity_.begin_round(now);
        return conclude(round_.acquiring().begin_at_arbiter(now, arbiter), now);
    }
    /// Asks the other instances, after the arbiter has granted.
    tenure_action ask_rest(time_point now, instance_set reachable) {
        assert(phase_ == tenure_phase::acquiring);
        return conclude(round_.acquiring().ask_others(now, reachable), now);
    }

    /// Asks for a later deadline. Only while held; one extension at a time (extending()). With a
    /// `ttl`, this and later ones have that ttl, and one under way counts no more. A shorter ttl
    /// may bring the deadline forward, whatever the answers.
    tenure_action extend(time_point now, instance_set reachable, duration ttl = {}) {
        if (auto const gone = expire(now)) return *gone;
        assert(phase_ == tenure_phase::held);
        if (ttl != duration::zero()) {
            round_.stop_extending();
            validity_.change_ttl(now, ttl);
        }
        ++round_number_;
        validity_.begin_extension(now);
        auto const votes = new_round(reachable, reachable);
        round_.begin_extension(votes);
        if (votes.impossible()) return {.effect = fail_extension(now)};
        return {.extend = reachable};
    }

    /// Releases the key on every instance that may have it.
    tenure_action release(time_point now, instance_set reachable) {
        if (phase_ == tenure_phase::over) return {.effect = effect::lost};
        phase_ = tenure_phase::releasing;
        round_.begin_release(now, new_round(reachable, reachable & maybe_held()),
                             Rules::in_time(now, deadline()));
        return {.release = maybe_held(), .effect = evaluate_release()};
    }

    /// The caller no longer wants the key.
    tenure_action cancel() {
        if (phase_ != tenure_phase::acquiring) return {};
        return conclude({.effect = effect::cancelled}, time_point{});
    }

    /// After `contended`: asks the instances that said no, and can be reached, for the reason.
    tenure_action inspect(time_point now, instance_set refusing) {
        round_.begin_inspection(now, refusing);
        return {.inspect = refusing, .effect = refusing.empty() ? effect::inspected : effect::none};
    }

    /// An instance answered, or is known not to answer. `round` is the round_number() at which an
    /// extend or raise command was sent; for other commands it is ignored. `now` is a time point,
    /// or a function that reads the clock: most answers need none. `number`, `slot`: of a grant.
    template <class Now>
    tenure_action answer(command c, std::uint32_t round, unsigned instance, verdict v, Now now,
                         std::uint64_t number = 0, unsigned slot = 0) {
        return checked(evaluate(c, round, instance, v, now, {number_, number, slot_, slot}));
    }

    /// Time has passed. Call at wake(), or later.
    tenure_action time(time_point now) { return checked(evaluate(now)); }

    /// When to call time() next. Empty: only answers matter now.
    std::optional<time_point> wake() const {
        switch (phase_) {
        case tenure_phase::acquiring:
            return std::min(validity_.key_deadline(), patience_ends());
        case tenure_phase::held:
            return renews() ? std::min(validity_.renewal(), validity_.loss_time())
                            : validity_.loss_time();
        case tenure_phase::ending:
            return deadline();
        case tenure_phase::releasing:
        case tenure_phase::over:
            break;
        }
        auto const end = patience_ends();
        return end == time_point::max() ? std::nullopt : std::optional(end);
    }
    /// True if an answer may have changed wake(), though it decided nothing.
    bool depends_on_late_answers() const { return patience_ends() != time_point::max(); }

    /// A lease begins, the first or after another one, and lasts for `longest` at most.
    void begin_lease(bool renewed, time_point now = {}, duration longest = duration::max()) {
        assert(phase_ == tenure_phase::held || phase_ == tenure_phase::ending);
        validity_.begin_lease(renewed, now, longest);
        phase_ = tenure_phase::held;
    }
    /// The next renewal is due at this time, or earlier.
    void renew_by(time_point at) { validity_.renew_by(at); }
    /// This lease is not renewed any more, until another one joins that has to be.
    void stop_renewing() { validity_.stop_renewing(); }
    void renew_again(time_point now) { validity_.renew_again(now); }
    /// After `ended`. A holder that leaves the key to its ttl ignores the action.
    tenure_action abandon() {
        phase_ = tenure_phase::over;
        return {.release = maybe_held()};
    }

    /// Our clock stood still for up to `by`, at a moment before `at`.
    void clock_stood_still(time_point at, duration by) { validity_.clock_stood_still(at, by); }

    tenure_phase phase() const { return phase_; }
    bool extending() const { return round_.extending(); }
    /// The number of the extension or raise that was begun last.
    std::uint32_t round_number() const { return round_number_; }
    bool fenced() const { return number_.requested(); }
    /// The tenure's number, once there is a grant.
    std::uint64_t number() const { return number_.value(); }
    tenure_number<Rules> const& numbering() const { return number_; }
    permit_slot slot() const { return slot_; }
    /// The end of the lease.
    time_point deadline() const { return validity_.deadline(); }
    /// How long before deadline() the holder hears of a loss.
    duration margin() const { return validity_.margin(); }
    /// The deadline of the keys: until then leases may follow one another.
    time_point valid_until() const { return validity_.key_deadline(); }
    duration ttl() const { return validity_.ttl(); }
    time_point lease_began() const { return validity_.lease_began(); }
    /// True if every instance that was asked for the reason has reported it.
    bool inspected_all() const { return round_.inspected_all(); }
    /// The votes of the round that was started last.
    tally const& votes() const { return round_.votes(); }
    /// True if an instance had another client's key when asked, even if its vote was not needed.
    bool opposed() const { return opposed_; }
    /// The instances that may have our key: asked for it, and neither refused nor released.
    instance_set maybe_held() const { return presence_.possible(); }

private:
    tally new_round(instance_set reachable, instance_set asked) const {
        return new_tally<Rules>(presence_.configured(), reachable, asked);
    }

    /// A tenure that is released, or over, never sets a key again.
    tenure_action checked(tenure_action a) const {
        assert(phase_ == tenure_phase::acquiring || phase_ == tenure_phase::held || !a.sets_keys());
        return a;
    }

    using grant = typename acquisition<Rules>::grant;

    template <class Now>
    tenure_action evaluate(command c, std::uint32_t round, unsigned instance, verdict v, Now now,
                           grant const& g) {
        switch (c) {
        case command::acquire:
            return acquire_answer(instance, v, now, g);
        case command::contend:
            return contend_answer(instance, v, now, g);
        case command::raise:
            return raise_answer(round, instance, v, now);
        case command::extend:
            return round == round_number_ ? extend_answer(instance, v, now) : tenure_action{};
        case command::release:
            return release_answer(instance, v);
        case command::inspect:
            return {.effect =
                        round_.inspected_last(instance, v) ? effect::inspected : effect::none};
        default: // heal: see key_presence
            return {};
        }
    }

    tenure_action evaluate(time_point now) {
        switch (phase_) {
        case tenure_phase::acquiring:
            if (now >= validity_.key_deadline()) return conclude({.effect = too_slow()}, now);
            if (now >= patience_ends())
                return conclude(round_.acquiring().late(now, number_, slot_), now);
            break;
        case tenure_phase::held:
            if (auto const gone = expire(now)) return *gone;
            if (renews() && now >= validity_.renewal()) return {.effect = effect::renewal_due};
            break;
        case tenure_phase::ending:
            if (now >= deadline()) return end();
            break;
        case tenure_phase::releasing:
            if (now >= patience_ends()) {
                phase_ = tenure_phase::over;
                return {.effect = round_.releasing().result_without_late()};
            }
            break;
        case tenure_phase::over:
            if (now < patience_ends()) break;
            round_.give_up_inspection();
            return {.effect = effect::inspected};
        }
        return {};
    }

    //
    // Acquiring
    //

    template <class Now>
    tenure_action acquire_answer(unsigned instance, verdict v, Now now, grant const& g) {
        // A release also takes our token out of the line, if the key was not reserved after all.
        opposed_ = opposed_ || v == verdict::no;
        auto const asks = phase_ == tenure_phase::acquiring;
        if (sets_no_key(v) && !reserved_) presence_.deny(instance, asks && v == verdict::no);
        if (!asks) return late_grant(instance, v, g.given);
        auto const clock = [&] { return usual_ != nullptr ? read_time(now) : time_point{}; };
        auto const a = round_.acquiring().vote(instance, v, clock, g);
        if (round_.acquiring().began_raise()) ++round_number_;
        return conclude(a, now);
    }

    template <class Now>
    tenure_action raise_answer(std::uint32_t round, unsigned instance, verdict v, Now now) {
        if (v == verdict::no) presence_.lost(instance);
        if (phase_ != tenure_phase::acquiring) return {};
        return conclude(
            round_.acquiring().raise_answer(round == round_number_, instance, v, number_), now);
    }

    template <class Now>
    tenure_action contend_answer(unsigned instance, verdict v, Now now, grant const& g) {
        if (sets_no_key(v)) presence_.deny(instance);
        if (phase_ != tenure_phase::acquiring) return late_grant(instance, v, g.given);
        return conclude(round_.acquiring().arbiter_answer(instance, v, g), now);
    }

    /// A permit is held, and an instance has given it another slot. It is asked for ours.
    tenure_action late_grant(unsigned instance, verdict v, unsigned given) {
        auto const differs = v == verdict::yes && given != slot_.value();
        if (phase_ != tenure_phase::held || !differs) return {};
        return {.heal = presence_.heal(instance_set::only(instance))};
    }

    /// The consequences of an action of the acquisition.
    template <class Now>
    tenure_action conclude(tenure_action a, Now now) {
        presence_.ask(a.acquire | a.contend, slot_.fixed());
        switch (a.effect) {
        case effect::none:
        case effect::arbiter_won:
            return a;
        case effect::won:
            if (!validity_.confirm(read_time(now))) return conclude({.effect = too_slow()}, now);
            phase_ = tenure_phase::held;
            slot_.fix();
            a.heal = presence_.heal(round_.acquiring().votes().other());
            return a;
        default:
            phase_ = tenure_phase::over;
            a.release = Rules::to_release(maybe_held(), round_.acquiring().votes().yes());
            return a;
        }
    }

    /// Not won by the deadline: if the arbiter was asked first, perhaps that alone was slow.
    tenure_effect too_slow() const {
        return round_.acquiring().had_arbiter() ? effect::arbiter_failed : effect::expired;
    }

    //
    // Holding
    //

    template <class Now>
    tenure_action extend_answer(unsigned instance, verdict v, Now now) {
        auto* const round = phase_ == tenure_phase::held ? round_.extended() : nullptr;
        if (round == nullptr) return {};
        if (v == verdict::no) presence_.lost(instance);
        tenure_action a;
        // After a win, an instance that has lost the key gets it back, even if it answers later.
        auto const lacks = v == verdict::no || v == verdict::other;
        if (lacks && round->may_heal()) a.heal = presence_.heal(instance_set::only(instance));
        if (!round->count(instance, v)) return a;
        auto const decided_at = read_time(now);
        if (!Rules::may_extend(decided_at, validity_.loss_time())) return lose(decided_at);
        using state = typename extension<Rules>::state;
        switch (round->decide()) {
        case state::won:
            validity_.confirm_extension(decided_at);
            a.heal = a.heal | presence_.heal(round->votes().lacking());
            a.effect = effect::extended;
            break;
        case state::denied:
            return forfeit();
        case state::idle:
        case state::under_way:
            a.effect = fail_extension(decided_at);
            break;
        }
        return a;
    }

    tenure_effect fail_extension(time_point now) {
        round_.stop_extending();
        validity_.retry_extension(now);
        return effect::extension_failed;
    }

    bool renews() const { return !extending() && validity_.renews(); }

    /// The loss of the lease, if the deadline is so near that the holder must hear of it.
    std::optional<tenure_action> expire(time_point now) {
        if (phase_ != tenure_phase::held || now < validity_.loss_time()) return std::nullopt;
        return lose(now);
    }

    /// Tells the holder. The key stays until the deadline that the holder knew: work that ends by
    /// then may have begun. If a limit (max_hold) is seen late, another lease may follow: end().
    tenure_action lose(time_point now) {
        if (now >= deadline() && !validity_.ends_at_limit()) return forfeit();
        round_.stop_extending();
        phase_ = tenure_phase::ending;
        return {.effect = effect::lost};
    }

    /// Tells the holder, and releases the keys at once, because they are of no more use.
    tenure_action forfeit() {
        round_.stop_extending();
        phase_ = tenure_phase::over;
        return {.release = maybe_held(), .effect = effect::lost};
    }

    /// If the lease came to a limit (max_hold), the keys are still good for another lease.
    tenure_action end() {
        if (validity_.ends_at_limit()) return {.effect = effect::ended};
        phase_ = tenure_phase::over;
        return {.release = maybe_held(), .effect = effect::ended};
    }

    //
    // Releasing
    //

    tenure_action release_answer(unsigned instance, verdict v) {
        if (v == verdict::yes || v == verdict::no) presence_.confirm_release(instance);
        if (phase_ != tenure_phase::releasing || !round_.releasing().count(instance, v)) return {};
        return {.effect = evaluate_release()};
    }

    tenure_effect evaluate_release() {
        auto const result = round_.releasing().result(presence_);
        if (result != effect::none) phase_ = tenure_phase::over;
        return result;
    }

    time_point patience_ends() const {
        return round_.patience_ends(phase_, usual_, presence_, number_);
    }

    // Ordered so that there is no padding: each lease has a tenure.
    validity<Rules> validity_;
    [[no_unique_address]] tenure_number<Rules> number_;
    permit_slot slot_;
    round_trips const* usual_ = nullptr;
    [[no_unique_address]] key_presence presence_;
    tenure_phase phase_ = tenure_phase::acquiring;
    bool opposed_ = false, reserved_ = false;
    std::uint32_t round_number_ = 0;
    tenure_round<Rules> round_;
};

using tenure = basic_tenure<redlock_rules>;

} // namespace holdfast::protocol

#endif
