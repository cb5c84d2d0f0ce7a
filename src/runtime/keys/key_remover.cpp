#include "runtime/keys/key_remover.hpp"

#include "protocol/key/key_survey.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/tally.hpp"
#include "redis/wire/key_companions.hpp"
#include "redis/wire/token.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/services/report_builder.hpp"
#include "runtime/services/round_record.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast::runtime {

using protocol::command;
using protocol::instance_set;
using protocol::verdict;

/// One call. If the release is forced, the call first asks the instances for the key.
class key_remover::job final : public redis::reply_handler {
public:
    job(key_remover& r, operation& asked_by, detail::lock_state const& of)
        : op(&asked_by)
        , key(of.key())
        , access(of.access())
        , began(r.turn_.time())
        , remover_(r) {}

    redis::command_args arguments(command) const noexcept override {
        return {.key = key, .token = {}};
    }
    bool still_wants(command) const noexcept override { return op != nullptr; }
    void on_answer(unsigned instance, command, std::uint32_t, redis::answer const& a) override {
        if (op == nullptr) return;
        if (!remover_.turn_.attempt([&] { remover_.on_survey(*this, instance, a); }))
            remover_.fail(*this);
    }

    operation* op; ///< null once the call is over
    std::string const key;
    lock_access const access;
    lease_clock::time_point const began;
    key_report report; ///< forced: the key as it was
    /// Forced: by instance. None: no key, or none to delete.
    std::vector<std::optional<std::string>> tokens;
    instance_set others;   ///< forced: these have other tokens than the caller has seen
    instance_set surveyed; ///< forced: asked, and not yet answered
    round_record round;

private:
    void recycle() noexcept override { delete this; }

    key_remover& remover_;
};

/// The deletion of the key where it has one token. An instance that cannot be reached may keep it
/// for longer than the call.
class key_remover::removal final : public redis::reply_handler {
public:
    removal(key_remover& r, job& of, lock_access access, std::string_view token)
        : token_(token)
        , access_(access)
        , job_(&of)
        , remover_(r) {}

    redis::lock_kind const& kind() const noexcept override { return kind_of(access_); }
    redis::command_args arguments(command) const noexcept override {
        return {.key = job_->key,
                .token = token_,
                .ttl = remover_.max_ttl_,
                .readers_turn = readers_turn_after(protocol::duration::zero())};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned instance, command, std::uint32_t, redis::answer const& a) override {
        if (!remover_.turn_.attempt([&] { remover_.on_removal(*job_, instance, a); }))
            remover_.fail(*job_);
    }

private:
    void recycle() noexcept override { delete this; }

    std::string const token_;
    lock_access const access_;
    boost::intrusive_ptr<job> job_;
    key_remover& remover_;
};

namespace {

bool shows(std::vector<key_user> const& users, std::string_view digest) {
    return std::ranges::find(users, digest, &key_user::digest) != users.end();
}

/// Whether the caller has seen the lock that was found: the token, or each of the readers or
/// permits.
bool may_delete(operation const& op, key_answer const& found) {
    auto const& seen = op.as<force_release_call>().seen;
    if (!seen) return true;
    auto const& all = seen->instances;
    auto const same = std::ranges::any_of(
        all, [&](key_answer const& a) { return !a.digest.empty() && a.digest == found.digest; });
    auto const are_seen = [&](std::vector<key_user> key_answer::*which) {
        return std::ranges::all_of(found.*which, [&](key_user const& user) {
            return std::ranges::any_of(
                all, [&](key_answer const& a) { return shows(a.*which, user.digest); });
        });
    };
    return same && are_seen(&key_answer::readers) && are_seen(&key_answer::permits);
}

} // namespace

//
// With a token
//

void key_remover::start_release(operation& op) {
    auto const& call = op.as<release_key_call>();
    boost::intrusive_ptr<job> const j(new job(*this, op, *call.key));
    boost::intrusive_ptr<removal> const r(new removal(*this, *j, j->access, call.token));
    op.stage = operation_stage::attached;
    auto const quorum = protocol::redlock_rules::quorum(instances_.size(), 0);
    j->round.votes = protocol::tally(instances_.size(), quorum, instances_.reachable());
    // The others keep the release until they are back.
    if (!turn_.attempt([&] {
            remove(*j, *r, instance_set::first(instances_.size()));
            conclude(*j);
        })) {
        fail(*j);
    }
}

// Instances may have been told to delete the key.
void key_remover::fail(job& j) {
    if (j.op != nullptr) completer_.complete(*std::exchange(j.op, nullptr), errc::out_of_memory);
}

void key_remover::remove(job& j, removal& r, instance_set from) {
    surveyor_.ask(r, command::release, from, 0).for_each([&](unsigned i) {
        j.round.votes.count(i, verdict::unsent);
        j.round.note(i, instances_.size(),
                     {.verdict = verdict::unsent, .cause = errc::out_of_memory}, {});
    });
}

//
// By force
//

void key_remover::start_force(operation& op) {
    auto& call = op.as<force_release_call>();
    boost::intrusive_ptr<job> const j(new job(*this, op, *call.key));
    j->report = surveyor_.begin(j->key);
    j->tokens.resize(instances_.size());
    op.stage = operation_stage::attached;
    call.job = j.get();
    auto const asked = surveyor_.reachable();
    j->surveyed = asked - surveyor_.ask(*j, command::survey, asked, 0);
    if (j->surveyed.empty() && !turn_.attempt([&] { remove_seen(*j); })) fail(*j);
}

void key_remover::cancel(operation& op) {
    auto& j = static_cast<job&>(*op.as<force_release_call>().job);
    if (j.surveyed.empty()) return;
    j.op = nullptr;
    completer_.complete(op, errc::cancelled);
}

void key_remover::on_survey(job& j, unsigned instance, redis::answer const& a) {
    j.surveyed.erase(instance);
    surveyor_.take(j.report, instance, a, j.began);
    if (a.present && a.value) {
        auto& answer = j.report.instances[instance];
        // No more was read, so there is nothing to compare with.
        if (a.value->size() > redis::token::max_size) {
            answer.message = "not deleted: the value is longer than a token";
        } else if (!may_delete(*j.op, answer)) {
            j.others.insert(instance);
            answer.message = "not deleted: another lock than the one seen before";
        } else {
            j.tokens[instance] = *a.value;
        }
    }
    if (j.surveyed.empty()) remove_seen(j);
}

void key_remover::remove_seen(job& j) {
    evaluate(j.report);
    instance_set holding;
    for (unsigned i = 0; i < j.tokens.size(); ++i) {
        if (j.tokens[i]) holding.insert(i);
    }
    boost::intrusive_ptr<job> const alive(&j);
    j.round.votes =
        protocol::tally(instances_.size(), j.report.quorum, holding & instances_.reachable());
    while (!holding.empty()) {
        instance_set same;
        std::string_view token;
        holding.for_each([&](unsigned i) {
            if (same.empty()) token = *j.tokens[i];
            if (*j.tokens[i] == token) same.insert(i);
        });
        holding = holding - same;
        // The permits of a semaphore go all at once, whatever their tokens are.
        auto const permits = token == redis::permits_value;
        boost::intrusive_ptr<removal> const r(new removal(*this, j,
                                                          permits ? lock_access::permit : j.access,
                                                          permits ? std::string_view() : token));
        remove(j, *r, same);
    }
    conclude(j);
}

//
// Results
//

void key_remover::on_removal(job& j, unsigned instance, redis::answer const& a) {
    if (a.verdict == verdict::yes) listener_.on_removed(instance, j.key);
    if (j.op == nullptr || !j.round.votes.count(instance, a.verdict)) return;
    if (a.verdict != verdict::yes)
        j.round.note(instance, instances_.size(), a, turn_.time() - j.began);
    conclude(j);
}

void key_remover::conclude(job& j) {
    if (j.op == nullptr || !j.round.votes.pending().empty()) return;
    if (std::holds_alternative<release_key_call>(j.op->call)) {
        conclude_release(j);
    } else {
        conclude_force(j);
    }
}

void key_remover::conclude_release(job& j) {
    using protocol::removal;
    auto const& votes = j.round.votes;
    auto& op = *j.op;
    switch (protocol::evaluate_removal(votes.yes().size(), votes.no().size(), votes.quorum())) {
    case removal::done:
        j.op = nullptr;
        return completer_.complete(op, errc{});
    case removal::had_gone:
        j.op = nullptr;
        return completer_.complete(op, errc::lease_lost);
    case removal::unconfirmed:
        break;
    }
    auto const causes = instances_.causes();
    auto const cause = common_cause(j.round, causes);
    auto report = std::make_shared<acquire_report const>(
        build_report({.key = j.key,
                      .call = reported_call::release,
                      .attempts = 1,
                      .waited = turn_.time() - j.began,
                      .asked = {},
                      .round = j.round,
                      .instances = instances_.snapshots(j.round, j.key)}));
    j.op = nullptr;
    completer_.complete(op, cause, std::move(report));
}

void key_remover::conclude_force(job& j) {
    using protocol::removal;
    auto const& votes = j.round.votes;
    auto& all = j.report.instances;
    auto const count = [&](key_answer::kind k) {
        return static_cast<unsigned>(std::ranges::count(all, k, &key_answer::found));
    };
    auto const without = votes.no().size() + j.others.size() + count(key_answer::kind::absent);
    auto const found = protocol::evaluate_removal(votes.yes().size(), without, votes.quorum());
    errc cause{};
    if (found == removal::had_gone && j.report.state != key_state::free) cause = errc::lease_lost;
    if (found == removal::unconfirmed) {
        cause = j.report.state == key_state::not_a_lock ? errc::wrong_type : errc::no_quorum;
        votes.failed().for_each([&](unsigned i) {
            if (!j.tokens[i]) return;
            auto const& vote = j.round.of(i);
            all[i].message =
                "not deleted: " +
                (vote.message.empty() ? make_error_code(vote.cause).message() : vote.message);
        });
    }
    completer_.complete(*std::exchange(j.op, nullptr), cause, std::move(j.report));
}

} // namespace holdfast::runtime
