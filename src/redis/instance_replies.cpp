// The replies of an instance, and their consequences.
#include "redis/instance_connection.hpp"

#include <utility>

namespace holdfast::redis {

void instance_connection::on_bytes(std::string_view& bytes) {
    if (!pipeline_.read(bytes, *this)) {
        return on_session_end(errc::not_redis,
                              "the instance does not speak RESP3 as Redis and Valkey do: " +
                                  pipeline_.problem());
    }
    if (refused_ != errc{}) on_session_end(refused_, refused_message_);
}

// Ends the session, after the bytes being read are handled.
void instance_connection::refuse(errc cause, std::string_view message) {
    if (cause == errc::read_only) guard_.is_replica();
    if (refused_ != errc{}) return;
    refused_ = cause;
    refused_message_ = message;
}

void instance_connection::on_part(pending_command& c, element const& e) {
    switch (c.type) {
    case command_type::lock:
        if (!c.owner) return;
        reply_.take({.kind = c.owner->kind(),
                     .command = c.command,
                     .tracked = c.tracked,
                     .fenced = c.fenced,
                     .owner = *c.owner,
                     .secret = options_.address.password()},
                    c.replies - 1U, e);
        break;
    case command_type::ping:
        break;
    case command_type::time:
        time_.take_part(e);
        break;
    case command_type::server_check:
        server_check_.take_part(e);
        break;
    case command_type::probe:
        probe_.take_part(c, e);
        break;
    }
}

void instance_connection::on_reply(pending_command c) {
    auto const now = owner_.time();
    // The round trip is that of the whole batch, so it counts at the last reply.
    if (auto const& front = pipeline_.front(); front.answered()) {
        owner_.on_round_trip(number_, now - front.sent);
    }
    replied_at_ = now;
    if (live_.answered(now)) came_back();
    switch (c.type) {
    case command_type::lock:
        on_lock_reply(std::move(c));
        break;
    case command_type::ping:
        break;
    case command_type::time:
        asking_time_ = false;
        if (auto const shown = time_.take_reply()) on_time_told(*shown);
        break;
    case command_type::server_check:
        on_server_checked();
        break;
    case command_type::probe:
        if (probe_.refused() != errc{}) {
            refuse(probe_.refused(), probe_.message());
        } else if (probe_.info()) {
            on_probed();
        }
        break;
    }
}

void instance_connection::on_server_checked() {
    checking_server_ = false;
    auto const info = server_check_.take_reply();
    if (!info) return;
    // A proxy in between has switched to another server.
    if (info->run_id != run_id_)
        return refuse(errc::unreachable, "another server answers on the connection");
    if (info->replica) return refuse(errc::read_only, "the instance is a replica");
    if (guard_.server_checked(origin_of(*info), wording_.tracked, owner_.time())) on_quarantine();
    mind_eviction(*info);
}

void instance_connection::on_batch_answered() {
    if (live_.finished(owner_.time(), !pipeline_.idle())) came_back();
    if (pipeline_.idle() && pipeline_.empty()) owner_.on_change();
}

void instance_connection::on_lock_reply(pending_command c) {
    using protocol::command;
    using protocol::verdict;
    if (!c.owner) return;
    if (reply_.unknown_script() && !c.whole_script) return send_whole_script(std::move(c));
    if (reply_.ends_session() != errc{}) refuse(reply_.ends_session(), reply_.message());
    auto const& a = reply_.result();
    if (c.command == command::release) {
        if (a.verdict == verdict::refused) {
            // If the ACL forbids the release, it will forbid the next try too. The key goes with
            // its ttl.
            if (a.cause != errc::access_denied) keep_refused(c);
        } else {
            refusals_ = 0;
        }
    }
    if (c.answered) {
        // With NOLOOP our own release ends our registration for the key without a push. So a late
        // release counts as a push.
        auto const deleted = c.command == command::release && a.verdict == verdict::yes;
        if (deleted) owner_.on_push(number_, c.owner->arguments(c.command).key);
        return;
    }
    auto const grants = c.command == command::acquire || c.command == command::contend ||
                        c.command == command::raise;
    // The instance may have forgotten another holder, so its grant does not count. The key is ours
    // now. The verdict `unknown` makes the owner release the key.
    if (a.verdict == verdict::yes && grants && quarantined()) {
        return c.owner->on_answer(
            number_, c.command, c.round,
            {.verdict = verdict::unknown, .cause = errc::quarantined, .message = guard_.reason()});
    }
    c.owner->on_answer(number_, c.command, c.round, a);
}

void instance_connection::send_whole_script(pending_command c) {
    // A command that sets the key must not come after the release that undoes it.
    if (!c.owner->still_wants(c.command)) {
        return fail(std::move(c), protocol::verdict::unsent, errc{});
    }
    c.whole_script = true;
    auto copy = c;
    try {
        pipeline_.add(std::move(c), wording_);
    } catch (...) {
        auto const releases = copy.command == protocol::command::release;
        auto const owner = copy.owner;
        fail(std::move(copy), protocol::verdict::unsent, errc::out_of_memory);
        if (releases) keep(owner);
    }
}

// https://redis.io/docs/latest/develop/reference/client-side-caching/: a push of "invalidate" and
// an array of keys, or null for all. Each push is handled in its place among the replies.
void instance_connection::on_push(element const& e) {
    if (e.depth == 0) {
        push_part_ = 0;
        invalidation_ = false;
        return;
    }
    if (e.depth == 1) {
        ++push_part_;
        if (push_part_ == 1) {
            invalidation_ = e.value == "invalidate";
        } else if (invalidation_ && push_part_ == 2 && e.type == reply_type::null) {
            on_emptied();
        }
    } else if (e.depth == 2 && invalidation_ && push_part_ == 2) {
        owner_.on_push(number_, e.value);
    }
}

// All keys may be gone: FLUSHALL, FLUSHDB of any database, or a full resync. Grants after the flush
// come after this push, so none of them counts by mistake. In quarantine, waiters at this instance
// are not told: they would only win votes that do not count.
void instance_connection::on_emptied() {
    if (guard_.emptied(owner_.time())) return on_quarantine();
    owner_.on_push_for_all(number_);
}

} // namespace holdfast::redis
