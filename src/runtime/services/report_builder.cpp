#include "runtime/services/report_builder.hpp"

#include "protocol/rules.hpp"

#include <utility>

namespace holdfast::runtime {

namespace {

/// An instance without a cause is back by now. It was not connected when it was to be asked.
errc or_unreachable(errc cause) {
    return cause != errc{} ? cause : errc::unreachable;
}

instance_outcome outcome_of(errc cause) {
    switch (cause) {
    case errc::unreachable:
    case errc::no_sentinel_majority:
        return instance_outcome::unreachable;
    case errc::instance_timeout:
        return instance_outcome::timed_out;
    case errc::quarantined:
        return instance_outcome::quarantined;
    case errc::too_few_replicas:
        return instance_outcome::unreplicated;
    case errc::out_of_memory:
        return instance_outcome::unanswered;
    default:
        return instance_outcome::rejected;
    }
}

/// True if an instance with this cause would not have voted on any other command either.
bool is_silence(errc cause) {
    return cause == errc{} || cause == errc::unreachable || cause == errc::instance_timeout ||
           cause == errc::no_sentinel_majority || cause == errc::quarantined ||
           cause == errc::too_few_replicas || cause == errc::out_of_memory;
}

bool failed(round_record const& round, unsigned instance) {
    return round.of(instance).noted || round.votes.failed().contains(instance);
}

/// The outcome of an instance without a vote in the last round. If the instance is up, its vote was
/// not needed. `awaited`: the round ended before its answer.
instance_outcome outcome_without_vote(bool asked, bool awaited, instance_snapshot const& s) {
    auto const connecting = s.status.state == instance_state::connecting;
    if (asked || (awaited && connecting)) return instance_outcome::unanswered;
    return s.status.state == instance_state::up ? instance_outcome::not_needed
                                                : outcome_of(or_unreachable(s.cause));
}

void add_vote(instance_report& to, report_input const& in, unsigned instance,
              instance_snapshot& s) {
    auto const& round = in.round;
    auto const acquires = in.call == reported_call::acquire && !in.adopts;
    auto const& vote = round.of(instance);
    if (vote.noted && vote.held) {
        to.outcome = acquires ? instance_outcome::held : instance_outcome::missing;
        to.ttl_known = vote.ttl_known;
        to.ttl_left = vote.ttl_left;
        if (vote.obstacle != 0 && vote.obstacle <= in.keys.size())
            to.key = in.keys[vote.obstacle - 1U];
        if (!in.awaited.empty()) to.key = in.awaited;
        to.round_trip = vote.round_trip;
        // Readers do not refuse a reader.
        auto const refused_by_note = in.reads && vote.holder == "readers";
        to.holder = refused_by_note ? "readers while a writer waits" : vote.holder;
    } else if (round.votes.yes().contains(instance)) {
        to.outcome = acquires ? instance_outcome::granted : instance_outcome::done;
    } else if (failed(round, instance)) {
        auto const given = vote.cause != errc{};
        to.outcome = outcome_of(given ? vote.cause : or_unreachable(s.cause));
        to.message = given ? vote.message : std::move(s.message);
        to.round_trip = vote.round_trip;
    }
}

} // namespace

bool needs_message(round_record const& round, unsigned instance) {
    auto const& vote = round.of(instance);
    return !vote.held && vote.cause == errc{} && failed(round, instance) &&
           !round.votes.yes().contains(instance);
}

acquire_report build_report(report_input const& in) {
    acquire_report r;
    auto const count = static_cast<unsigned>(in.instances.size());
    r.key = in.key;
    r.call = in.call;
    r.quorum = protocol::redlock_rules::quorum(count, 0);
    r.attempts = in.attempts;
    r.waited = in.waited;
    if (in.held_here) r.holder = "this client";
    r.instances.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
        auto& s = in.instances[i];
        if (s.status.state == instance_state::up && s.serves_key) ++r.up;
        auto const without_vote =
            outcome_without_vote(in.asked.contains(i), in.round.votes.pending().contains(i), s);
        instance_report each{.address = std::move(s.status.address),
                             .outcome = without_vote,
                             .ttl_left = {},
                             .message = {}};
        if (!in.held_here) {
            add_vote(each, in, i, s);
            if (r.holder.empty()) r.holder = each.holder;
        } else if (in.held_here->instances.contains(i)) {
            each.outcome = instance_outcome::held;
            each.holder = r.holder;
            each.ttl_known = true;
            each.ttl_left = in.held_here->left;
        }

        if (each.message.empty() && each.outcome == without_vote) {
            each.message = std::move(s.status.message);
        }
        r.instances.push_back(std::move(each));
    }
    return r;
}

errc common_cause(round_record const& round, std::span<errc const> causes) {
    std::optional<errc> common;
    auto same = true;
    round.votes.failed().for_each([&](unsigned i) {
        auto const noted = round.of(i).cause;
        auto const cause = noted != errc{} ? noted : or_unreachable(causes[i]);
        same = same && (!common || *common == cause);
        common = cause;
    });
    return same && common ? *common : errc::no_quorum;
}

bool fails_permanently(round_record const& round, std::span<errc const> causes) {
    unsigned permanent = 0;
    round.votes.failed().for_each([&](unsigned i) {
        auto const noted = round.of(i).cause;
        auto const cause = noted != errc{} ? noted : causes[i];
        if (!is_silence(cause) && cause != errc::read_only) ++permanent;
    });
    return round.votes.impossible_without(permanent);
}

bool refused_command(round_record const& round) {
    auto refused = false;
    round.votes.failed().for_each(
        [&](unsigned i) { refused = refused || !is_silence(round.of(i).cause); });
    return refused;
}

} // namespace holdfast::runtime
