// The replies of an instance, each to the part that has asked.
#include "redis/server/server_link.hpp"

#include <utility>

namespace holdfast::redis {

void server_link::on_bytes(std::string_view& bytes) {
    if (!state_.commands.read(bytes, *this)) {
        return give_up(errc::not_redis,
                       "the instance does not speak RESP3 as Redis and Valkey do: " +
                           state_.commands.problem());
    }
    if (auto const& r = state_.refusal) give_up(r.cause, r.message, r.fault);
}

void server_link::on_part(pending_command& c, element const& e) {
    switch (c.type) {
    case command_type::lock:
        locks_.take_part(c, e);
        break;
    case command_type::ping:
    case command_type::load_script:
        break;
    case command_type::question:
        state_.listener.take_part(c, e);
        break;
    case command_type::time:
        server_.take_time(e);
        break;
    case command_type::expiry:
        locks_.take_expiry(e);
        break;
    case command_type::authenticate:
        reauthentication_.take_part(e);
        break;
    case command_type::wait:
        replicas_.take_part(e);
        break;
    case command_type::server_check:
        server_.take_check(e);
        break;
    case command_type::probe:
        probe_.take_part(c, e);
        break;
    }
}

void server_link::on_reply(pending_command c) {
    auto const now = state_.now();
    auto const& front = state_.commands.front();
    // The round trip is that of the whole batch, so it counts at the last reply.
    if (front.answered()) state_.owner.on_round_trip(state_.number, now - front.sent);
    replied_at_ = now;
    state_.listener.on_heard(front.sent);
    if (state_.live.answered(now)) came_back();
    switch (c.type) {
    case command_type::lock:
        locks_.on_reply(std::move(c));
        break;
    case command_type::question:
        state_.listener.on_reply(c);
        break;
    case command_type::ping:
    case command_type::load_script:
        break;
    case command_type::time:
        server_.on_time();
        break;
    case command_type::wait:
        replicas_.on_reply(c.round);
        locks_.answer_all_held();
        break;
    case command_type::server_check:
        if (auto const info = server_.on_check()) replicas_.listed(info->replicas);
        break;
    case command_type::expiry:
        locks_.on_expiry();
        break;
    case command_type::authenticate:
        reauthentication_.on_reply();
        break;
    case command_type::probe:
        on_probe_reply();
        break;
    }
}

void server_link::on_batch_answered() {
    auto const& commands = state_.commands;
    if (state_.live.finished(state_.now(), !commands.idle())) came_back();
    if (questions_) ask_first(std::move(questions_));
    if (commands.idle() && commands.empty()) state_.owner.on_idle();
}

//
// Pushes
//

// https://redis.io/docs/latest/develop/reference/client-side-caching/: a push of "invalidate" and
// an array of keys, or null for all. Each push is handled in its place among the replies.
void server_link::on_push(element const& e) {
    if (e.depth == 0) {
        pushes_.heard();
        if (state_.words.tracked) state_.services.remove(degradation::no_push);
        push_part_ = 0;
        invalidation_ = false;
    } else if (e.depth == 1) {
        ++push_part_;
        if (push_part_ == 1) invalidation_ = e.value == "invalidate";
        if (push_part_ != 2 || !invalidation_ || e.type != reply_type::null) return;
        // All keys may be gone: FLUSHALL, FLUSHDB of any database, or a full resync. Grants after
        // the flush come after this push, so none of them counts by mistake. In quarantine, waiters
        // at this instance are not notified: they would only win votes that do not count.
        if (!server_.emptied()) state_.owner.on_push_for_all(state_.number);
    } else if (e.depth == 2 && invalidation_ && push_part_ == 2) {
        state_.owner.on_push(state_.number, e.value);
    }
}

void server_link::push_missed(protocol::breach b) {
    if (!state_.relies_on_pushes()) return;
    pushes_.missed(b);
    if (pushes_.trusted()) return;
    // The server goes on to track keys, so that a push can restore the trust.
    boundary_.run([&] {
        state_.services.add(
            degradation::no_push,
            "CLIENT TRACKING: it was accepted, but changes of keys were not pushed");
    });
    // In a turn of its own, those that wait for a push try again, and poll.
    pushes_lost_ = state_.needs_check_timer = true;
    state_.live.check_by(state_.now());
}

} // namespace holdfast::redis
