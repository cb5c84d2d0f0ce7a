// One ownership of a key on the instances, from the first request to the last release: the rounds
// of acquire, raise, extend, heal and release as one machine. It is told what happened and when,
// and says what to send and what to tell the owner. It does no I/O, reads no clock and allocates
// nothing, so it runs in simulation as it does in production.
#ifndef HOLDFAST_PROTOCOL_TENURE_HPP
#define HOLDFAST_PROTOCOL_TENURE_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/round_trips.hpp"
#include "protocol/rules.hpp"
#include "protocol/tally.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

enum class event : std::uint8_t {
    none,
    won,             ///< acquired: valid until deadline()
    contended,       ///< not acquired: a quorum voted, and too many of it said no
    no_quorum,       ///< not acquired: too few instances voted
    expired,         ///< not acquired: validity ran out before a quorum had granted
    cancelled,       ///< not acquired: the caller gave up
    arbiter_won,     ///< the arbiter has granted: call ask_rest() now
    arbiter_refused, ///< not acquired: the arbiter says that the key is held
    arbiter_failed,  ///< not acquired: the arbiter is late, does not answer, or not to the question
    inspected,       ///< those that were asked what is in the way have answered, or are late
    renewal_due,     ///< call extend() now
    extended,        ///< the deadline has moved
    extension_failed,    ///< the deadline has not moved; it is tried again while it lasts
    lost,                ///< the lease is no more, and nobody released it
    ended,               ///< the deadline has come, of a lease whose holder was told before
    released,            ///< a quorum deleted the key
    release_unconfirmed, ///< too few instances answered; the key goes when they do, or with its ttl
};

/// What the driver must do now: send these commands (in this order), then tell the owner.
struct step {
    instance_set acquire{}, contend{}, raise{}, extend{}, heal{}, release{}, inspect{};
    event what = event::none;
};

template <class Rules>
class basic_tenure {
public:
    enum class phase : std::uint8_t {
        acquiring,
        held,
        /// The holder has been told of its loss, ahead of the deadline. Until then the key is not
        /// free.
        ending,
        releasing,
        over
    };

    /// `watched`: whether time() asks for renewals by itself, every `period`.
    basic_tenure(unsigned configured, duration ttl, bool watched, duration period)
        : configured_(configured)
        , ttl_(ttl)
        , period_(period)
        , margin_(loss_margin(ttl))
        , watched_(watched) {}
    basic_tenure(unsigned configured, duration ttl, bool watched)
        : basic_tenure(configured, ttl, watched, renewal_period(ttl)) {}

    /// It is to have a fence: instances count, and are asked for a number of at least `hint`, where
    /// they find that credible. To be called before the first round.
    void number_from(std::uint64_t hint) {
        fenced_ = true;
        hint_ = hint;
    }

    /// How long instances usually take to answer. Without it no answer is ever late.
    void heed(round_trips const& usual) { usual_ = &usual; }

    /// Asks every instance that can be reached; `now` is read before anything is sent.
    step acquire(time_point now, instance_set reachable) {
        sent_ = asked_ = now;
        deadline_ = Rules::deadline(now, now, ttl_);
        round_ = tally(configured_, Rules::quorum(configured_, reachable.size()), reachable);
        if (round_.impossible()) return {.what = end_acquire(event::no_quorum)};
        maybe_held_ = reachable;
        return {.acquire = reachable};
    }

    /// Asks the arbiter alone, where contenders meet first.
    step contend(time_point now, unsigned arbiter) {
        sent_ = asked_ = now;
        contending_ = true;
        deadline_ = Rules::deadline(now, now, ttl_);
        arbiter_ = instance_set::only(arbiter);
        round_ = tally(configured_, Rules::quorum(configured_, configured_), arbiter_);
        maybe_held_ = arbiter_;
        return {.contend = arbiter_};
    }

    /// Asks the others, after the arbiter has granted.
    step ask_rest(time_point now, instance_set reachable) {
        asked_ = now;
        contending_ = false;
        round_ =
            tally(configured_, Rules::quorum(configured_, reachable.size()), reachable | arbiter_);
        arbiter_.for_each([this](unsigned i) { round_.count(i, verdict::yes); });
        if (round_.won()) return win(now); // alone, and so with the number that it gave
        if (round_.impossible()) return fail_acquire(event::no_quorum);
        auto const rest = reachable - arbiter_;
        maybe_held_ = maybe_held_ | rest;
        return {.acquire = rest};
    }

    /// Asks for a later deadline. Only while held; one extension at a time (extending()).
    step extend(time_point now, instance_set reachable) {
        if (auto const gone = expire(now)) return *gone;
        ++round_number_;
        extending_ = true;
        extension_won_ = false;
        sent_ = now;
        round_ = tally(configured_, Rules::quorum(configured_, reachable.size()), reachable);
        if (round_.impossible()) return {.what = end_extension(now)};
        return {.extend = reachable};
    }

    /// Gives the key up wherever it may be.
    step release(time_point now, instance_set reachable) {
        if (phase_ == phase::over) return {.what = event::lost};
        lost_ = !Rules::in_time(now, deadline());
        asked_ = now;
        phase_ = phase::releasing;
        extending_ = false;
        round_ = tally(configured_, Rules::quorum(configured_, reachable.size()),
                       reachable & maybe_held_);
        step s{.release = maybe_held_};
        s.what = judge_release();
        return s;
    }

    /// The caller no longer wants what it asked for.
    step cancel() {
        if (phase_ != phase::acquiring) return {};
        auto const owed = Rules::owed_release(maybe_held_, round_.yes());
        return {.release = owed, .what = end_acquire(event::cancelled)};
    }

    /// After event::contended: asks what is in the way, of those that said no and can be reached.
    step inspect(time_point now, instance_set whom) {
        asked_ = now;
        inspecting_ = whom;
        inspection_ = {.complete = !whom.empty()};
        return {.inspect = whom, .what = whom.empty() ? event::inspected : event::none};
    }

    /// An instance answered, or is known not to. `round` is what round_number() was when an extend
    /// or raise command was sent, and is ignored for the others. `now` is a time point, or a
    /// function that reads one: most answers decide nothing, and need no time. `number` comes with
    /// a grant that has a fence.
    template <class Now>
    step answer(command c, std::uint32_t round, unsigned instance, verdict v, Now now,
                std::uint64_t number = 0) {
        switch (c) {
        case command::acquire:
            return acquire_answer(instance, v, now, number);
        case command::contend:
            return contend_answer(instance, v, number);
        case command::raise:
            return raise_answer(round, instance, v, now);
        case command::extend:
            return round == round_number_ ? extend_answer(instance, v, now) : step{};
        case command::heal:
            return {}; // see heal()
        case command::release:
            return release_answer(instance, v);
        case command::inspect:
            return inspect_answer(instance, v);
        case command::watch:
            break;
        }
        return {};
    }

    /// Time has passed. Call at wake(), or later.
    step time(time_point now) {
        switch (phase_) {
        case phase::acquiring:
            if (now >= deadline_) return fail_acquire(too_slow());
            if (now >= patience_ends()) {
                return fail_acquire(contending_ ? event::arbiter_failed : event::contended);
            }
            break;
        case phase::held:
            if (auto const gone = expire(now)) return *gone;
            if (renews() && now >= renewal_) return {.what = event::renewal_due};
            break;
        case phase::ending:
            if (now >= deadline()) return end();
            break;
        case phase::releasing:
            if (now >= patience_ends()) return {.what = end_release()};
            break;
        case phase::over:
            if (now < patience_ends()) break;
            inspecting_ = {};
            inspection_.complete = false;
            return {.what = event::inspected};
        }
        return {};
    }

    /// When time() has something to say next.
    std::optional<time_point> wake() const {
        switch (phase_) {
        case phase::acquiring:
            return std::min(deadline_, patience_ends());
        case phase::held:
            return renews() ? std::min(renewal_, loss_time()) : loss_time();
        case phase::ending:
            return deadline();
        case phase::releasing:
        case phase::over:
            if (auto const end = patience_ends(); end != time_point::max()) return end;
            break;
        }
        return std::nullopt;
    }

    /// Whether wake() follows from how late answers are, and may have changed with the last one,
    /// though that one decided nothing.
    bool depends_on_late_answers() const { return patience_ends() != time_point::max(); }

    /// A lease begins, the first or after another one: whether time() asks for renewals, and for
    /// how long it may last whatever is done.
    void begin_lease(bool watched, time_point now = {}, duration longest = duration::max()) {
        watched_ = watched;
        lease_began_ = now;
        limit_ = longest < time_point::max() - now ? now + longest : time_point::max();
        margin_ = loss_margin(std::min(ttl_, longest));
        phase_ = phase::held;
    }
    /// No more renewals for this lease.
    void stop_renewing() { watched_ = false; }
    /// After event::ended, when no other lease begins.
    step abandon() {
        phase_ = phase::over;
        return {.release = maybe_held_};
    }

    /// Our clock stood still for up to `by`, at a moment before `until`: what counts from before
    /// that ends earlier.
    void clock_stood_still(time_point until, duration by) {
        auto const length = Rules::deadline(time_point{}, time_point{}, ttl_);
        if (deadline_ - length.time_since_epoch() < until) {
            deadline_ -= by;
            renewal_ -= by;
        }
        if (sent_ < until) sent_ -= by;
        if (limit_ != time_point::max() && lease_began_ < until) limit_ -= by;
    }

    phase where() const { return phase_; }
    bool extending() const { return extending_; }
    /// Of the extension or raise that was begun last.
    std::uint32_t round_number() const { return round_number_; }
    bool fenced() const { return fenced_; }
    /// The tenure's number, once there is a grant.
    std::uint64_t number() const { return number_; }
    /// The number that goes with a command that is sent now. Who is asked after another has granted
    /// is to heed the hint too, even if that one did not believe it: it may have lost its counter,
    /// and then the hint is all that keeps our number above those of before.
    std::uint64_t asks_for(command c) const {
        return c == command::raise ? number_ : std::max(number_, hint_);
    }
    /// Of the lease.
    time_point deadline() const { return std::min(deadline_, limit_); }
    /// How much before it the holder hears of a loss.
    duration margin() const { return margin_; }
    /// Of the keys: until then leases may follow one another.
    time_point valid_until() const { return deadline_; }
    duration ttl() const { return ttl_; }
    /// Whether all who were asked what is in the way have said so.
    bool inspected_all() const { return inspection_.complete; }
    /// The votes of the round that was started last.
    tally const& votes() const { return round_; }
    /// Whether an instance had a key of somebody else when it was asked, also if its vote was not
    /// needed.
    bool opposed() const { return opposed_; }
    /// Where our key may be: asked for there, and neither refused nor released.
    instance_set maybe_held() const { return maybe_held_; }

private:
    static time_point read(time_point now) { return now; }
    template <class Clock>
    static time_point read(Clock now) {
        return now();
    }

    template <class Now>
    step acquire_answer(unsigned instance, verdict v, Now now, std::uint64_t number) {
        // A grant stays owed a release until that is confirmed; an unknown outcome counts as a
        // possible grant.
        opposed_ = opposed_ || v == verdict::no;
        if (v == verdict::no || v == verdict::unsent || v == verdict::refused) gone_from(instance);
        if (phase_ != phase::acquiring || !round_.count(instance, v)) return {};
        if (v != verdict::yes) return judge_acquire();
        auto const lifted = fenced_ && count(instance, number);
        if (!round_.won() && !raising_) return judge_acquire();
        if (!fenced_ || !Rules::levels()) return win(read(now));
        return level(lifted, instance, now);
    }

    // Contended is what a quorum says. If too many refuse to vote or are gone, that is no
    // contention: who waits would wait for the end of an outage. Where neither is certain yet, the
    // answers that are to come tell.
    step judge_acquire() {
        if (!round_.impossible()) return {};
        if (round_.has_verdict()) return fail_acquire(event::contended);
        return round_.too_few_answered() ? fail_acquire(event::no_quorum) : step{};
    }

    /// Takes an instance's number. True: ours is greater than before.
    bool count(unsigned instance, std::uint64_t number) {
        auto const first = number_ == 0;
        if (number == number_ || (raising_ && number > number_ && !Rules::late_grant_lifts())) {
            level_.insert(instance);
        } else if (number > number_) {
            number_ = number;
            level_ = instance_set::only(instance);
            return !first;
        }
        return false;
    }

    /// A quorum has granted. It must also hold our number: a later tenure might else be given the
    /// same or a smaller one by instances that know nothing of ours. Those that hold less are
    /// raised.
    template <class Now>
    step level(bool lifted, unsigned instance, Now now) {
        if (level_.size() >= round_.quorum()) return win(read(now));
        if (round_.impossible())
            return judge_acquire(); // some have lost the key since they granted it
        auto behind = instance_set::only(instance);
        if (!std::exchange(raising_, true) || lifted) {
            behind = round_.yes();
            ++round_number_;
        }
        if (usual_ != nullptr) asked_ = read(now);
        return {.raise = behind - level_};
    }

    template <class Now>
    step raise_answer(std::uint32_t round, unsigned instance, verdict v, Now now) {
        if (v == verdict::no) gone_from(instance);
        if (phase_ != phase::acquiring || !round_.yes().contains(instance)) return {};
        if (v == verdict::yes) {
            if (round == round_number_) level_.insert(instance);
            return level_.size() >= round_.quorum() ? win(read(now)) : step{};
        }
        // It has lost the key since it granted it, or does not answer: no grant any more.
        level_.erase(instance);
        round_.retract(instance, v);
        return judge_acquire();
    }

    step win(time_point now) {
        auto const valid_until = Rules::deadline(sent_, now, ttl_);
        if (!Rules::in_time(now, valid_until)) return fail_acquire(too_slow());
        deadline_ = valid_until;
        renewal_ = renewal_time(sent_, period_, ttl_);
        phase_ = phase::held;
        return {.what = event::won};
    }

    /// One slow arbiter does not mean that all are.
    event too_slow() const { return arbiter_.empty() ? event::expired : event::arbiter_failed; }

    step contend_answer(unsigned instance, verdict v, std::uint64_t number) {
        if (v == verdict::no || v == verdict::unsent || v == verdict::refused)
            maybe_held_.erase(instance);
        if (phase_ != phase::acquiring) return {};
        round_.count(instance, v);
        switch (v) {
        case verdict::yes:
            if (fenced_) count(instance, number);
            return {.what = event::arbiter_won};
        case verdict::no:
            return {.what = end_acquire(event::arbiter_refused)};
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
            break;
        }
        return fail_acquire(event::arbiter_failed);
    }

    template <class Now>
    step extend_answer(unsigned instance, verdict v, Now now) {
        if (phase_ != phase::held) return {};
        if (v == verdict::no) gone_from(instance);
        step s;
        // Also when the round has been decided: who has lost the key is given it back.
        if (v == verdict::no && Rules::may_heal(extension_won_))
            s.heal = heal(instance_set::only(instance));
        if (!extending_ || !round_.count(instance, v)) return s;
        if (!round_.won() && !round_.impossible()) return s;
        auto const decided_at = read(now);
        if (!Rules::may_extend(decided_at, loss_time())) return lose(decided_at);
        if (round_.won()) {
            deadline_ = std::max(deadline_, Rules::deadline(sent_, decided_at, ttl_));
            renewal_ = renewal_time(sent_, period_, ttl_);
            extending_ = false;
            extension_won_ = true;
            s.heal = s.heal | heal(round_.no());
            s.what = event::extended;
        } else if (round_.denied()) {
            // A majority no longer has our key: no later try can win.
            return forfeit();
        } else {
            s.what = end_extension(decided_at);
        }
        return s;
    }

    step release_answer(unsigned instance, verdict v) {
        if (v == verdict::yes || v == verdict::no) maybe_held_.erase(instance);
        if (phase_ != phase::releasing || !round_.count(instance, v)) return {};
        return {.what = judge_release()};
    }

    step inspect_answer(unsigned instance, verdict v) {
        if (!inspecting_.contains(instance)) return {};
        inspecting_.erase(instance);
        if (v == verdict::yes) inspection_.found_lock = true;
        if (v == verdict::unsent || v == verdict::unknown) inspection_.complete = false;
        return {.what = inspecting_.empty() ? event::inspected : event::none};
    }

    // Released is what a majority is known not to have any more: it has deleted the key, or has it
    // not. Lost is what a majority is known not to have had.
    event judge_release() {
        if (round_.won()) return end_release();
        auto const unheard = (round_.failed() | round_.pending()) & maybe_held_;
        if (round_.yes().size() + unheard.size() < round_.quorum()) return end_release(event::lost);
        auto const free = without_key().size();
        if (round_.pending().empty()) {
            return end_release(free >= round_.quorum() ? event::released
                                                       : event::release_unconfirmed);
        }
        if (free + round_.pending().size() >= round_.quorum()) return event::none;
        return end_release(event::release_unconfirmed);
    }
    event end_release(event how = event::released) {
        phase_ = phase::over;
        return lost_ ? event::lost : how;
    }
    /// Where our key is known not to be.
    instance_set without_key() const { return instance_set::first(configured_) - maybe_held_; }

    // Who is healed may have the key from then on, until it answers a release. No other answer says
    // that it has not: that may be about the time before the healing, or be no to a second one
    // because the first has succeeded.
    instance_set heal(instance_set who) {
        maybe_held_ = maybe_held_ | who;
        healed_ = healed_ | who;
        return who;
    }
    void gone_from(unsigned instance) {
        if (!healed_.contains(instance)) maybe_held_.erase(instance);
    }

    // Late answers
    //
    // A contended round may need the votes of a few instances, which do not answer. Whoever it
    // contends with may need the same ones, and both would keep the votes that they have until
    // those are suspected. So a round that only late answers can save gives its votes back. It is
    // not given up while nobody else is seen to have a vote: then nothing is gained by that.

    /// From when on what is awaited comes too late to be waited for.
    time_point patience_ends() const {
        auto const quorum = round_.quorum();
        if (usual_ == nullptr) return time_point::max();
        switch (phase_) {
        case phase::acquiring: {
            // Without the arbiter the others must be enough.
            if (contending_) {
                if (configured_ <= quorum || round_.pending().empty()) return time_point::max();
                // One that was late when it was asked is waited for too: no other was punctual.
                auto usual = duration::zero();
                arbiter_.for_each([&](unsigned i) { usual = (*usual_)[i].usual(); });
                return asked_ + usual;
            }
            auto const sure = raising_ ? round_.yes() & level_ : round_.yes();
            auto const awaited = round_.pending() | (round_.yes() - sure);
            if (round_.no().empty() || !round_.has_verdict()) break;
            return late_from(awaited, quorum - sure.size());
        }
        case phase::releasing:
            // All of them, as they may still say that it was lost.
            if (without_key().size() >= quorum) return late_from(round_.pending(), 1);
            break;
        case phase::over:
            // Until somebody has the key for a lock it may be none, and then no wait for it would
            // end.
            return inspection_.found_lock ? late_from(inspecting_, 1) : time_point::max();
        case phase::held:
        case phase::ending:
            break;
        }
        return time_point::max();
    }

    time_point late_from(instance_set awaited, unsigned needed) const {
        return awaited.size() < needed ? time_point::max()
                                       : asked_ + patience(*usual_, awaited, needed);
    }

    /// The loss, when the deadline is so near that the holder must hear of it.
    std::optional<step> expire(time_point now) {
        if (phase_ != phase::held || now < loss_time()) return std::nullopt;
        return lose(now);
    }

    time_point loss_time() const { return deadline() - margin_; }
    bool renews() const { return watched_ && !extending_ && deadline_ < limit_; }

    /// The holder is told. The key stays until the deadline that he knew: he may have begun what
    /// ends by then. After a limit that was seen late it may still be good for another lease: see
    /// end().
    step lose(time_point now) {
        if (now >= deadline() && limit_ >= deadline_) return forfeit();
        extending_ = false;
        phase_ = phase::ending;
        return {.what = event::lost};
    }

    /// The same where the key is of no more use to anyone.
    step forfeit() {
        extending_ = false;
        phase_ = phase::over;
        return {.release = maybe_held_, .what = event::lost};
    }

    /// Where it was a limit that the lease came to, the keys are still good for another.
    step end() {
        if (limit_ < deadline_) return {.what = event::ended};
        phase_ = phase::over;
        return {.release = maybe_held_, .what = event::ended};
    }

    step fail_acquire(event why) {
        auto const owed = Rules::owed_release(maybe_held_, round_.yes());
        return {.release = owed, .what = end_acquire(why)};
    }

    event end_acquire(event why) {
        phase_ = phase::over;
        return why;
    }

    event end_extension(time_point now) {
        extending_ = false;
        renewal_ = now + renewal_retry(ttl_);
        return event::extension_failed;
    }

    tally round_;
    instance_set maybe_held_, arbiter_;
    instance_set healed_;     ///< where the key may be again, whatever older commands find
    instance_set level_;      ///< where our number, or more, is known to be held
    instance_set inspecting_; ///< asked what is in the way, and not answered yet
    struct {
        bool complete = true;    ///< nobody has failed to answer
        bool found_lock = false; ///< or a key that has gone
    } inspection_;
    unsigned configured_;
    std::uint32_t round_number_ = 0;
    std::uint64_t hint_ = 0, number_ = 0;
    duration ttl_, period_;
    time_point sent_{}, deadline_{}, renewal_{};
    time_point asked_{}; ///< when what is awaited was asked for
    round_trips const* usual_ = nullptr;
    time_point lease_began_{}, limit_ = time_point::max();
    duration margin_;
    phase phase_ = phase::acquiring;
    bool watched_;
    bool fenced_ = false;
    bool raising_ = false;
    bool contending_ = false;
    bool extending_ = false;
    bool extension_won_ = false;
    bool lost_ = false;
    bool opposed_ = false;
};

using tenure = basic_tenure<redlock_rules>;

} // namespace holdfast::protocol

#endif
