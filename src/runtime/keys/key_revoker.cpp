#include "runtime/keys/key_revoker.hpp"

#include "protocol/key/key_survey.hpp"
#include "protocol/tenure/tally.hpp"
#include "redis/wire/key_companions.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/tombstone.hpp"
#include "runtime/services/report_builder.hpp"
#include "runtime/services/round_record.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::runtime {

using protocol::command;
using protocol::instance_set;
using protocol::verdict;

/// A holder that is to be revoked, known by the digest of its token.
struct key_revoker::target {
    std::string digest;
    std::string token{}, holder{};
    /// These have the token, by redis::token_place. If a writer's lease becomes a reader's, there
    /// are two places.
    std::array<instance_set, redis::token_places> live{};
    instance_set revoked{}; ///< these have its tombstone
    instance_set without{}; ///< these have neither
    bool changed = false;   ///< this call has made a tombstone
};

/// One call.
class key_revoker::job final : public redis::reply_handler {
public:
    job(key_revoker& r, operation& asked_by)
        : op(&asked_by)
        , key(asked_by.as<revoke_call>().key)
        , began(r.turn_.time())
        , revoker_(r) {
        for (auto& digest : asked_by.as<revoke_call>().digests)
            targets.push_back({.digest = std::move(digest)});
    }

    redis::command_args arguments(command) const noexcept override {
        return {.key = key->key(), .token = {}};
    }
    bool still_wants(command) const noexcept override { return op != nullptr; }
    void on_answer(unsigned instance, command, std::uint32_t, redis::answer const& a) override {
        if (op == nullptr) return;
        if (!revoker_.turn_.attempt([&] { revoker_.on_survey(*this, instance, a); }))
            revoker_.fail(*this);
    }

    operation* op; ///< null once the call is over
    detail::lock_state_ptr const key;
    lease_clock::time_point const began;
    key_report report;
    std::vector<target> targets;
    instance_set surveyed; ///< asked, and not yet answered
    unsigned ordered = 0;  ///< revocations without a reply yet
    bool revokes = false;  ///< a token may have been replaced
    round_record round;    ///< why instances did not take part

private:
    void recycle() noexcept override { delete this; }

    key_revoker& revoker_;
};

/// The tombstone in place of one token.
class key_revoker::order final : public redis::reply_handler {
public:
    order(key_revoker& r, job& of, target& t, redis::token_place held_in)
        : revokes(t)
        , held_in_(held_in)
        , tombstone_(redis::tombstone_of(t.token, r.random_.label()))
        , job_(&of)
        , revoker_(r) {}

    redis::lock_kind const& kind() const noexcept override { return redis::revoked_key; }
    redis::command_args arguments(command) const noexcept override {
        return {.key = job_->key->key(),
                .token = revokes.token,
                .ttl = revoker_.max_ttl_,
                .tombstone = tombstone_,
                .held_in = held_in_};
    }
    bool still_wants(command) const noexcept override { return job_->op != nullptr; }
    void on_answer(unsigned instance, command, std::uint32_t, redis::answer const& a) override {
        if (!revoker_.turn_.attempt([&] { revoker_.on_revoked(*job_, *this, instance, a); }))
            revoker_.fail(*job_);
    }

    target& revokes; ///< of the job

private:
    void recycle() noexcept override { delete this; }

    redis::token_place const held_in_;
    std::string const tombstone_;
    boost::intrusive_ptr<job> job_;
    key_revoker& revoker_;
};

void key_revoker::start(operation& op) {
    boost::intrusive_ptr<job> const j(new job(*this, op));
    op.stage = operation_stage::attached;
    op.as<revoke_call>().job = j.get();
    if (!turn_.attempt([&] { survey(*j); })) fail(*j);
}

void key_revoker::cancel(operation& op) {
    auto& j = static_cast<job&>(*op.as<revoke_call>().job);
    if (j.revokes) return;
    j.op = nullptr;
    completer_.complete(op, errc::cancelled);
}

// Tokens may have been replaced.
void key_revoker::fail(job& j) {
    if (j.op != nullptr) completer_.complete(*std::exchange(j.op, nullptr), errc::out_of_memory);
}

//
// What is there
//

void key_revoker::survey(job& j) {
    j.report = surveyor_.begin(j.key->key());
    auto const asked = surveyor_.reachable();
    j.surveyed = asked - surveyor_.ask(j, command::survey, asked, 0);
    if (!j.surveyed.empty()) return;
    conclude(j);
}

void key_revoker::on_survey(job& j, unsigned instance, redis::answer const& a) {
    j.surveyed.erase(instance);
    surveyor_.take(j.report, instance, a, j.began);
    if (a.cause != errc{}) j.round.note(instance, instances_.size(), a, turn_.time() - j.began);
    for (auto& t : j.targets) judge(j, t, instance, a);
    if (!j.surveyed.empty()) return;
    j.revokes ? conclude(j) : revoke(j);
}

void key_revoker::judge(job& j, target& t, unsigned instance, redis::answer const& a) {
    auto const& found = j.report.instances[instance];
    switch (found.found) {
    case key_answer::kind::absent:
        return t.without.insert(instance);
    case key_answer::kind::revoked:
        return found.digest == t.digest ? t.revoked.insert(instance) : t.without.insert(instance);
    case key_answer::kind::present:
        if (found.digest.empty()) return; // the server does not show the token
        if (found.digest != t.digest) return t.without.insert(instance);
        // No more was read, so there is nothing to compare with.
        if (a.value->size() > redis::token::max_size)
            return note(j, instance, "the value is longer than a token");
        return plan(t, instance, *a.value, found.holder, redis::token_place::key);
    case key_answer::kind::readers:
        return judge_users(j, t, instance, a, redis::token_place::readers);
    case key_answer::kind::permits:
        return judge_users(j, t, instance, a, redis::token_place::permits);
    case key_answer::kind::not_a_lock:
    case key_answer::kind::unknown:
        return;
    }
}

/// As judge(), among the readers or the permits of the instance.
void key_revoker::judge_users(job& j, target& t, unsigned instance, redis::answer const& a,
                              redis::token_place place) {
    auto const& found = j.report.instances[instance];
    auto const reads = place == redis::token_place::readers;
    auto const& users = reads ? found.readers : found.permits;
    for (std::size_t i = 0; i < users.size(); ++i) {
        auto const& user = users[i];
        if (user.digest != t.digest) continue;
        if (!user.revoked) {
            auto const& token = reads ? a.beside->readers[i].token : a.beside->permits[i].token;
            return plan(t, instance, token, user.holder, place);
        }
        t.revoked.insert(instance);
    }
    if (t.revoked.contains(instance)) return;
    if ((reads ? found.reader_count : found.permit_count) == users.size())
        return t.without.insert(instance);
    note(j, instance,
         reads ? "it has more readers than it shows" : "it has more permits than it shows");
}

/// The reason why the instance tells too little of the holder.
void key_revoker::note(job& j, unsigned instance, std::string_view reason) {
    j.round.note(instance, instances_.size(),
                 {.verdict = verdict::refused, .cause = errc::no_quorum, .message = reason}, {});
}

void key_revoker::plan(target& t, unsigned instance, std::string_view token,
                       std::string const& holder, redis::token_place place) {
    if (t.token.empty()) {
        t.token = token;
        t.holder = holder;
    }
    if (t.token == token) t.live[static_cast<std::size_t>(place)].insert(instance);
}

//
// The revocation
//

void key_revoker::revoke(job& j) {
    boost::intrusive_ptr<job> const alive(&j);
    j.revokes = true;
    for (auto& t : j.targets) {
        for (std::size_t i = 0; i < t.live.size(); ++i)
            send(j, t, t.live[i], static_cast<redis::token_place>(i));
    }
    if (j.ordered == 0) conclude(j);
}

void key_revoker::send(job& j, target& t, instance_set to, redis::token_place held_in) {
    if (to.empty()) return;
    boost::intrusive_ptr<order> const o(new order(*this, j, t, held_in));
    auto const failed = surveyor_.ask(*o, command::revoke, to, 0);
    j.ordered += (to - failed).size();
    failed.for_each([&](unsigned i) {
        j.round.note(i, instances_.size(),
                     {.verdict = verdict::unsent, .cause = errc::out_of_memory}, {});
    });
}

void key_revoker::on_revoked(job& j, order& o, unsigned instance, redis::answer const& a) {
    if (a.verdict == verdict::yes) {
        listener_.on_own_change(instance, j.key->key());
        o.revokes.revoked.insert(instance);
        o.revokes.changed = true;
    } else if (a.verdict != verdict::no) {
        j.round.note(instance, instances_.size(), a, turn_.time() - j.began);
    }
    if (j.op == nullptr || --j.ordered > 0) return;
    // What instances have may have changed in between.
    for (auto& t : j.targets) t.without = {};
    survey(j);
}

void key_revoker::conclude(job& j) {
    if (j.op == nullptr) return;
    using protocol::removal;
    evaluate(j.report);
    auto const size = instances_.size();
    auto const everyone = instance_set::first(size);
    std::optional<errc> cause;
    auto done = false;
    for (auto const& t : j.targets) {
        auto const known = t.revoked | t.without;
        switch (protocol::evaluate_revocation(t.revoked.size(), t.without.size(), size,
                                              j.report.quorum)) {
        case removal::done:
            done = true;
            if (t.changed) report(j, t);
            break;
        case removal::had_gone:
            break;
        case removal::unconfirmed:
            j.round.votes = protocol::tally(size, j.report.quorum, everyone);
            known.for_each([&](unsigned i) { j.round.votes.count(i, verdict::yes); });
            (everyone - known).for_each([&](unsigned i) {
                j.round.votes.count(i, verdict::unknown);
                auto& found = j.report.instances[i];
                auto const& vote = j.round.of(i);
                if (found.found == key_answer::kind::unknown || !vote.noted) return;
                found.message =
                    "not revoked: " +
                    (vote.message.empty() ? make_error_code(vote.cause).message() : vote.message);
            });
            if (!cause) cause = common_cause(j.round, instances_.causes());
            break;
        }
    }
    if (j.report.state == key_state::not_a_lock) cause = errc::wrong_type;
    auto const result = cause ? *cause : done ? errc{} : errc::lease_lost;
    completer_.complete(*std::exchange(j.op, nullptr), result, std::move(j.report));
}

void key_revoker::report(job& j, target const& t) {
    counters::add(counters_.revocations);
    events_.revoked(*j.key, t.holder, t.digest, j.report.ttl_left);
}

} // namespace holdfast::runtime
