#include "redis/server/lock_replies.hpp"

#include "redis/wire/optional_text.hpp"

#include <boost/scope/scope_exit.hpp>
#include <boost/scope/scope_fail.hpp>

#include <tuple>
#include <utility>

namespace holdfast::redis {

namespace {

/// True for the reply to the ASKING before the command.
bool is_reply_to_asking(pending_command const& c) {
    return c.asking && c.replies == c.kind->replies(c.command, c.words) + 1;
}

/// True if a refusal in the present reply means that the command was not executed. The replies of a
/// contender that follow the first are to reading commands.
bool decides(pending_command const& c) {
    if (c.command == protocol::command::scan) return false; // concerns no slot
    if (c.command != protocol::command::contend) return true;
    return c.replies == c.kind->replies(c.command, c.words);
}

/// Before a script counts for it, native commands may have set the key.
protocol::verdict verdict_of_unsent(pending_command const& c) {
    return c.words.recounts ? protocol::verdict::unknown : protocol::verdict::unsent;
}

bool releases(pending_command const& c) {
    return c.owner && c.command == protocol::command::release;
}

} // namespace

lock_replies::lock_replies(connection_state& state, server_monitor& server,
                           replica_monitor& replicas, pending_releases& pending)
    : state_(state)
    , server_(server)
    , replicas_(replicas)
    , pending_(pending)
    , expiry_(state) {}

void lock_replies::begin() {
    taken_over_ = false;
    taught_ = nullptr;
    expiry_.begin();
}

//
// Replies
//

void lock_replies::take_part(pending_command& c, element const& e) {
    if (!c.owner || taken_over_) return;
    auto& redirects = state_.redirects;
    if (is_reply_to_asking(c)) {
        return redirects.on_asking(is_error(e.type) ? e.value : std::string_view());
    }
    if (decides(c) && is_error(e.type) && redirects.refuses(e.value)) {
        taken_over_ = true;
        return;
    }
    reply_.take({.kind = *c.kind,
                 .command = c.command,
                 .words = c.words,
                 .fenced = c.fenced,
                 .owner = *c.owner,
                 .secrets = state_.secrets,
                 .trusts_pushes = state_.relies_on_pushes(),
                 .number = c.number},
                c.replies - 1U, e);
    if (reply_.has_lack()) {
        auto const [kind, reason] = reply_.take_lack();
        state_.services.add(kind, reason);
        if (kind == degradation::no_push) state_.words.tracked = false;
    }
}

// The pipeline has given the command away. So if anything fails here, the command gets its answer
// as those do that the lost connection leaves.
void lock_replies::on_reply(pending_command c) {
    auto const taken_over = std::exchange(taken_over_, false);
    if (!c.owner) return;
    boost::scope::scope_exit unanswered([&] { fail_lost(c, errc::out_of_memory); });
    if (taken_over) {
        state_.redirects.take_over(c);
    } else {
        take_answer(c);
    }
    unanswered.set_active(false);
}

void lock_replies::take_answer(pending_command const& c) {
    using protocol::command;
    using protocol::verdict;
    // Scripts are loaded for a command once, and only where EVALSHA is allowed.
    auto const again = reply_.again();
    auto const in_vain =
        again == rewording::load_scripts && (c.loaded || state_.words.whole_script);
    if (again != rewording::none && !in_vain) return send_again(c, again);
    auto const lack = lack_of(c.command, c.fenced);
    if (in_vain && lack) state_.services.add(*lack, reply_.message());
    if (auto const cause = reply_.ends_session(); cause != errc{}) {
        if (cause == errc::read_only) server_.is_replica();
        auto const f = cause == errc::rejected ? protocol::fault::setup : protocol::fault::broken;
        state_.refusal.set(cause, reply_.message(), f);
    }
    auto const& a = reply_.result();
    auto const done = a.verdict == verdict::yes || a.verdict == verdict::no;
    if (state_.services.any() && done && lack && !protocol::only_reads(c.command))
        state_.services.remove(*lack);
    if (c.command == command::release) on_release(c);
    if (c.answered) {
        if (c.command == command::release && a.verdict == verdict::yes) push_late_release(c);
        return;
    }
    if (a.verdict == verdict::yes) {
        // The instance may have forgotten another holder, so its grant does not count. The key is
        // ours now. The verdict `unknown` makes the owner release the key.
        auto const sent = sent_at(c);
        auto [cause, reason] = objection(c.command, sent);
        if (cause == errc{}) std::tie(cause, reason) = missing_replicas(c.command);
        if (cause != errc{}) {
            return answer(c, {.verdict = verdict::unknown, .cause = cause, .message = reason});
        }
        if (holds(c.command)) return state_.commands.hold(c, a.granted());
        if (awaits_expiry(c, a.granted(), sent)) return;
    }
    answer(c, a);
}

// With NOLOOP our own release ends our registration for the key without a push. So a late release
// counts as a push.
void lock_replies::push_late_release(pending_command const& c) {
    auto const args = c.owner->arguments(c.command);
    if (args.keys.empty()) return state_.owner.on_push(state_.number, args.key);
    for (auto const key : args.keys) state_.owner.on_push(state_.number, key);
}

void lock_replies::on_release(pending_command const& c) {
    using protocol::verdict;
    auto const said = reply_.result().verdict;
    if (said == verdict::yes || said == verdict::no) return pending_.accepted();
    // The reply was that of another command. The session ends, and the next one sends it again.
    if (said != verdict::refused) return pending_.keep(c.owner, state_.now());
    // If the ACL forbids the release, it will forbid the next try too. The key goes with its ttl.
    if (state_.services.has(degradation::no_release)) return;
    auto const now = state_.now();
    auto const since = c.answered ? time_of(c.round, now) : now;
    if (pending_.keep_refused(c.owner, since, now)) state_.needs_check_timer = true;
}

void lock_replies::answer(pending_command const& c, redis::answer const& a) noexcept {
    state_.redirects.on_answered(c);
    if (state_.options.in_cluster && a.cause != errc{}) return answer_for_node(c, a);
    c.owner->on_answer(state_.number, c.command, c.round, a);
}

// The message names the node of the Cluster.
void lock_replies::answer_for_node(pending_command const& c, redis::answer a) noexcept {
    auto const text = text_if_memory([&] {
        auto node = state_.options.address.to_string();
        if (!a.message.empty()) node.append(": ").append(a.message);
        return node;
    });
    a.message = text;
    c.owner->on_answer(state_.number, c.command, c.round, a);
}

std::pair<errc, std::string_view>
lock_replies::objection(protocol::command c, lease_clock::time_point sent) const noexcept {
    using protocol::command;
    auto const grants = c == command::acquire || c == command::contend || c == command::raise;
    if (grants && server_.quarantined()) return {errc::quarantined, server_.reason()};
    if (grants || c == command::extend || c == command::heal) {
        auto const cause = state_.policy.objection(c, sent);
        if (cause != errc{}) return {cause, state_.policy.objection_text(cause)};
    }
    return {};
}

//
// Replicas
//

std::pair<errc, std::string_view>
lock_replies::missing_replicas(protocol::command c) const noexcept {
    // Sent while the server had no vote.
    if (replicas_.on() && !state_.commands.front().waits && protocol::needs_replicas(c)) {
        auto const cause = replicas_.cause();
        return {cause != errc{} ? cause : errc::too_few_replicas, replicas_.reason()};
    }
    return {};
}

bool lock_replies::holds(protocol::command c) const {
    return replicas_.on() && state_.commands.front().waits && protocol::needs_replicas(c);
}

// The ttl of a key counts from the commands that have set it.
lease_clock::time_point lock_replies::sent_at(pending_command const& c) const noexcept {
    if (!c.words.recounts) return state_.commands.front().sent;
    constexpr std::chrono::milliseconds rounding{1};
    return time_of(c.first_sent, state_.now()) - rounding;
}

void lock_replies::answer_all_held() {
    state_.commands.take_held([&](held_answer const& h) { answer_held(h); });
}

void lock_replies::answer_held(held_answer const& h) {
    auto const& c = h.command;
    if (!c.owner) return; // answered before: the instance was suspect
    boost::scope::scope_fail const unanswered([&] { fail_lost(c, errc::out_of_memory); });
    auto const sent = sent_at(c);
    auto [cause, reason] = objection(c.command, sent);
    if (cause == errc{} && !replicas_.covered()) {
        cause = replicas_.cause();
        reason = replicas_.reason();
    }
    if (cause == errc{} && awaits_expiry(c, h.granted, sent)) return;
    answer_held(c, h.granted, cause, reason);
}

// The owner of a grant that does not count releases the key.
void lock_replies::answer_held(pending_command const& c, grant_facts const& granted, errc cause,
                               std::string_view reason) {
    redis::answer a{
        .verdict = protocol::verdict::yes, .number = granted.number, .slot = granted.slot};
    if (cause != errc{})
        a = {.verdict = protocol::verdict::unknown, .cause = cause, .message = reason};
    answer(c, a);
}

//
// Expiry
//

bool lock_replies::awaits_expiry(pending_command const& c, grant_facts const& granted,
                                 lease_clock::time_point sent) {
    return expiry_.concerns(c.command) && expiry_.hold(c, granted, sent);
}

void lock_replies::on_expiry() {
    switch (expiry_.evaluate()) {
    case expiry_check::finding::lasts:
        for (auto const& h : expiry_.take_held()) {
            if (!h.command.owner) continue;
            auto const [cause, reason] = objection(h.command.command, h.sent);
            answer_held(h.command, h.granted, cause, reason);
        }
        break;
    case expiry_check::finding::cut:
        refuse_held();
        break;
    case expiry_check::finding::unclear:
        if (auto const h = expiry_.take_asked(); h && h->command.owner) {
            answer_held(h->command, h->granted, errc::rejected, expiry_.problem());
        }
        expiry_.ask_next();
        break;
    }
}

void lock_replies::refuse_held() {
    for (auto const& h : expiry_.take_held()) {
        if (h.command.owner) answer_held(h.command, h.granted, errc::rejected, expiry_.problem());
    }
}

void lock_replies::fail_held(errc cause) noexcept {
    for (auto const& h : expiry_.take_held()) fail(h.command, protocol::verdict::unknown, cause);
}

//
// Other words
//

// The server has done nothing, or has granted the key and not counted. Later commands have the new
// form from the beginning.
void lock_replies::send_again(pending_command c, rewording again) {
    switch (again) {
    case rewording::none:
        break;
    case rewording::whole_script:
        c.words.whole_script = true;
        break;
    case rewording::whole_scripts:
        state_.words.whole_script = true;
        break;
    case rewording::by_script:
        state_.words.dialect = dialect::scripts;
        break;
    case rewording::script_counts:
        state_.words.script_counts = true;
        [[fallthrough]];
    case rewording::script_count:
        c.words.recounts = true;
        c.first_sent = short_time(state_.commands.front().sent);
        break;
    case rewording::load_scripts:
        c.words.whole_script = false;
        c.loaded = true;
        break;
    }
    // A command that sets the key must not come after the release that undoes it.
    if (!protocol::only_reads(c.command) && !c.owner->still_wants(c.command)) {
        // Otherwise an instance that answers last would never learn the script, and never vote.
        if (again == rewording::whole_script && taught_ != c.kind) {
            taught_ = c.kind;
            load_scripts(*taught_);
        }
        return fail(c, verdict_of_unsent(c), errc{});
    }
    if (again == rewording::load_scripts) load_scripts(*c.kind);
    state_.commands.add(c, state_.words);
}

void lock_replies::load_scripts(lock_kind const& kind) {
    for (auto const text : kind.scripts) {
        state_.commands.add({.type = command_type::load_script}, "SCRIPT", "LOAD", text);
    }
}

//
// Answers in place of the server
//

// Unless the command was answered before.
void lock_replies::fail(pending_command const& c, protocol::verdict v, errc cause) noexcept {
    if (!c.owner || c.answered) return;
    answer(c, {.verdict = v, .cause = cause, .message = state_.reason_message});
}

/// The command was sent on a connection that is lost.
void lock_replies::fail_lost(pending_command const& c, errc cause) noexcept {
    fail(c, protocol::verdict::unknown, cause);
    if (releases(c)) pending_.keep(c.owner, state_.now());
}

void lock_replies::fail_sent(errc cause) noexcept {
    fail_held(cause);
    state_.commands.take_sent([&](pending_command const& c) { fail_lost(c, cause); });
}

void lock_replies::fail_unsent(errc cause) noexcept {
    state_.commands.take_unsent([&](pending_command const& c) {
        server_.unsent(c.type);
        if (c.type == command_type::expiry) fail_held(cause);
        fail(c, verdict_of_unsent(c), cause);
        if (releases(c)) pending_.keep(c.owner, state_.now());
    });
}

void lock_replies::fail_sent_to_suspect() {
    auto const fail_one = [&](pending_command& c) {
        if (!c.owner) return;
        auto copy = c;
        c.answered = true;
        if (c.command == protocol::command::release) {
            c.round = short_time(state_.now()); // for on_release()
        } else {
            c.owner.reset();
        }
        fail(copy, protocol::verdict::unknown, errc::instance_timeout);
    };
    expiry_.visit_held(fail_one);
    state_.commands.visit_sent(fail_one);
}

} // namespace holdfast::redis
