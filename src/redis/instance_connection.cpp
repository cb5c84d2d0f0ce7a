#include "redis/instance_connection.hpp"

#include <boost/hash2/fnv1a.hpp>

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr std::chrono::seconds clock_interval{1};
constexpr std::chrono::seconds server_check_interval{1};

std::uint64_t hash_of(std::string_view text) {
    boost::hash2::fnv1a_64 hash;
    hash.update(text.data(), text.size());
    return hash.result();
}

instance_state state_of(protocol::liveness const& l) {
    switch (l.current()) {
    case protocol::liveness::state::connecting:
        return instance_state::connecting;
    case protocol::liveness::state::up:
        return instance_state::up;
    case protocol::liveness::state::suspect:
        return instance_state::suspect;
    case protocol::liveness::state::down:
        break;
    }
    return instance_state::down;
}

} // namespace

instance_connection::instance_connection(asio::any_io_executor executor, unsigned number,
                                         connection_options options, instance_owner& owner,
                                         location::stream_factory factory)
    : executor_(executor)
    , options_(std::move(options))
    , owner_(owner)
    , number_(number)
    , location_(executor, options_.address, std::move(factory))
    , kept_(options_.max_pending_releases)
    , live_(options_.instance_timeout)
    , policy_(options_.max_reconnect_delay)
    , guard_(options_.on_restart, options_.max_ttl)
    , reconnect_timer_(executor)
    , watch_timer_(executor)
    , status_(options_.address.to_string()) {}

instance_connection::~instance_connection() {
    abandon();
}

void instance_connection::start() {
    live_.start(owner_.time());
    connect();
    arm_watch();
}

void instance_connection::stop() {
    if (std::exchange(stopped_, true)) return;
    reconnect_timer_.cancel();
    watch_timer_.cancel();
    end_session(errc::shut_down, "the client was shut down");
    kept_.clear();
}

void instance_connection::abandon() noexcept {
    stopped_ = true;
    if (auto const s = std::exchange(session_, nullptr)) s->close();
    pipeline_.clear();
    kept_.clear();
}

//
// Session
//

void instance_connection::connect() noexcept {
    if (stopped_ || session_) return;
    try {
        auto s = std::make_shared<session>(executor_, location_, options_.connect_timeout, owner_,
                                           static_cast<session_user&>(*this));
        session_ = std::move(s);
        session_->start();
    } catch (...) {
        if (session_) end_session(errc::out_of_memory, {});
        connect_later();
    }
}

void instance_connection::on_connected() {
    refused_ = {};
    wording_ = {};
    pipeline_.restart();
    auto questions = probe_.questions(options_.address, options_.name, options_.detect_clock_jumps);
    time_asked_ = owner_.time();
    asking_time_ = options_.detect_clock_jumps;
    server_checked_at_ = owner_.time();
    live_.probing(owner_.time());
    questions->sent = owner_.time();
    session_->write(pipeline_.send_first(std::move(questions)));
    if (live_.needs_earlier_check()) arm_watch();
}

void instance_connection::on_session_end(errc cause, std::string message) {
    end_session(cause, message);
    connect_later();
}

void instance_connection::end_session(errc cause, std::string_view message) {
    if (!session_) return;
    auto const ended = std::exchange(session_, nullptr);
    ended->close();
    auto const now = owner_.time();
    policy_.ended(live_.up_for(now));
    if (connected()) kept_.session_ended(now);
    live_.lost();
    live_.none_queued();
    asking_time_ = checking_server_ = false;
    tell_state(cause, message);
    // The server may have carried out the commands that were sent.
    pipeline_.take_sent([&](pending_command c) {
        auto const releases = c.owner && c.command == protocol::command::release;
        auto const owner = c.owner;
        fail(std::move(c), protocol::verdict::unknown, cause);
        if (releases) keep(owner);
    });
    fail_unsent(cause);
}

void instance_connection::connect_later() noexcept {
    if (stopped_) return;
    try {
        kept_.drop_expired(owner_.time());
        status_.set_kept_releases(kept_.size());
        reconnect_timer_.expires_after(policy_.next(owner_.random_bits()));
        reconnect_timer_.async_wait([weak = weak_from_this()](error_code ec) {
            auto const self = weak.lock();
            if (!ec && self && !self->stopped_) in_turn(self->owner_, [&] { self->connect(); });
        });
        needs_reconnect_ = false;
    } catch (...) {
        needs_reconnect_ = true;
    }
}

void instance_connection::on_probed() {
    auto const& info = *probe_.info();
    if (!owner_.is_new_server(number_, info.run_id)) {
        return refuse(errc::duplicate_instance,
                      "another configured address leads to the same server");
    }
    run_id_ = info.run_id;
    identity_ = hash_of(run_id_);
    wording_ = {.dialect = info.speaks(), .tracked = probe_.tracking()};
    status_.count_connection(info.product + ' ' + info.version);
    auto const now = owner_.time();
    if (guard_.connected(origin_of(info), info.uptime, now)) on_quarantine();
    mind_eviction(info);
    live_.probed(now);
    live_.none_queued();
    tell_state(errc{}, {});
    kept_.drop_expired(now);
    send_kept();
    owner_.on_available(number_);
}

void instance_connection::came_back() {
    tell_state(errc{}, {});
    // Sends all kept releases, however old: the instance may be late with the SETs of their keys
    // too.
    send_kept();
    owner_.on_available(number_);
}

void instance_connection::tell_state(errc cause, std::string_view message) noexcept {
    reason_ = cause;
    try {
        reason_message_ = presentable(message, options_.address.password());
    } catch (...) {
        reason_message_.clear();
    }
    try {
        status_.set_state(state_of(live_), cause, reason_message_);
    } catch (...) { // without a message: memory ran out
        status_.set_state(state_of(live_), cause, {});
    }
    owner_.on_change();
    if (live_.current() != protocol::liveness::state::up) owner_.on_unavailable(number_);
}

//
// Commands
//

void instance_connection::submit(encoder& encoded, reply_handler_ptr const& owner,
                                 std::uint32_t round) {
    auto const command = encoded.command();
    if (!available()) {
        if (command == protocol::command::release) keep(owner);
        return;
    }
    auto const now = owner_.time();
    // TIME goes before the command, so that a jump is known before the answer to the command
    // counts.
    if (options_.detect_clock_jumps && connected() && !asking_time_ &&
        now - time_asked_ >= clock_interval) {
        ask_time();
    }
    // The server check goes before the command too: a grant counts only if the server was checked
    // shortly before.
    if (watches_data() && connected() && !checking_server_ &&
        now - server_checked_at_ >= server_check_interval)
        check_server();
    pipeline_.add(encoded, {.owner = owner, .round = round, .command = command}, wording_);
    if (!connected()) live_.queued(now);
}

// TIME is sent about once a second, not with each batch: a second is short beside a lease.
void instance_connection::ask_time() {
    pipeline_.add({.type = command_type::time}, "TIME");
    // The clock is read before the command is sent. So the interval in which the server read its
    // own clock is not taken too small.
    time_asked_ = owner_.time();
    asking_time_ = true;
}

void instance_connection::check_server() {
    server_check_.ask(pipeline_);
    server_checked_at_ = owner_.time();
    checking_server_ = true;
}

bool instance_connection::flush() noexcept {
    if (stopped_) return true;
    if (needs_reconnect_) connect_later();
    if (kept_.size() > 0 && available() && connected() && owner_.time() >= retry_at_) {
        kept_.drop_expired(owner_.time());
        send_kept();
    }
    auto complete = true;
    try {
        while (live_.current() == protocol::liveness::state::up && pipeline_.has_room() &&
               !pipeline_.empty()) {
            auto& b = pipeline_.send(wording_);
            b.sent = owner_.time();
            live_.sent(b.sent);
            counts_.commands.fetch_add(b.commands.size(), std::memory_order_relaxed);
            counts_.batches.fetch_add(1, std::memory_order_relaxed);
            session_->write(b);
        }
    } catch (...) {
        complete = false;
    }
    if (live_.needs_earlier_check() || needs_watch_) arm_watch();
    return complete && !needs_watch_ && !needs_reconnect_;
}

void instance_connection::keep(reply_handler_ptr owner, lease_clock::time_point since) {
    if (stopped_) return;
    if (!kept_.keep(std::move(owner), since)) {
        counts_.releases_dropped.fetch_add(1, std::memory_order_relaxed);
    }
    status_.set_kept_releases(kept_.size());
}

// The server may accept the release a moment later: it may lack a replica or memory, or load its
// data.
void instance_connection::keep_refused(pending_command const& c) {
    auto const now = owner_.time();
    keep(c.owner, c.answered ? time_of(c.round, now) : now);
    if (retry_at_ > now) return;
    retry_at_ = now + protocol::refused_release_pause(refusals_++);
    needs_watch_ = true;
}

// If memory runs out, the next turn sends the rest.
void instance_connection::send_kept() noexcept try {
    kept_.take([&](reply_handler_ptr owner, lease_clock::time_point since) {
        // The owner got its answer when the release was kept. So `round` is free for the time.
        pipeline_.add_late({.owner = std::move(owner),
                            .round = short_time(since),
                            .command = protocol::command::release,
                            .answered = true});
    });
    status_.set_kept_releases(0);
} catch (...) {
    status_.set_kept_releases(kept_.size());
}

// Answers the command in place of the instance, unless it was answered before.
void instance_connection::fail(pending_command c, protocol::verdict v, errc cause) {
    if (!c.owner || c.answered) return;
    c.owner->on_answer(number_, c.command, c.round,
                       {.verdict = v, .cause = cause, .message = reason_message_});
}

void instance_connection::fail_unsent(errc cause) {
    pipeline_.take_unsent([&](pending_command c) {
        // The question was never sent, so it is due again.
        if (c.type == command_type::time && std::exchange(asking_time_, false)) time_asked_ = {};
        if (c.type == command_type::server_check && std::exchange(checking_server_, false))
            server_checked_at_ = {};
        auto const owner = c.owner;
        auto const releases = owner && c.command == protocol::command::release;
        fail(std::move(c), protocol::verdict::unsent, cause);
        if (releases) keep(owner);
    });
}

//
// Status
//

errc instance_connection::reason() const {
    return reason_ == errc{} && quarantined() ? errc::quarantined : reason_;
}

std::string instance_connection::reason_message() const {
    return reason_ == errc{} && quarantined() ? guard_.reason() : reason_message_;
}

std::optional<lease_clock::time_point> instance_connection::waits_since() const {
    if (!available() || !connected() || pipeline_.idle()) return std::nullopt;
    return std::max(pipeline_.front().sent, replied_at_);
}

bool instance_connection::settled() const {
    return !available() || (pipeline_.empty() && (pipeline_.idle() || !connected()));
}

instance_status instance_connection::status() const {
    return status_.status();
}

protocol::data_origin instance_connection::origin_of(server_info const& info) const {
    return {.run = hash_of(info.run_id),
            .history = hash_of(info.replication_id),
            .flushes = info.flushes,
            .promoted = info.promoted,
            .durable = info.logs_writes && probe_.logs_each_write()};
}

void instance_connection::on_quarantine() {
    show_quarantine();
    if (connected()) owner_.on_unavailable(number_);
}

void instance_connection::show_quarantine() {
    status_.set_quarantine(guard_.until(), guard_.reason());
    wake_at_end_of_quarantine();
    arm_watch();
}

void instance_connection::wake_at_end_of_quarantine() {
    constexpr lease_clock::duration tick(1);
    live_.check_by(std::min(guard_.until(), lease_clock::time_point::max() - tick) + tick);
}

// Each server check reports the policy again, but waiters are told only once.
void instance_connection::mind_eviction(server_info const& info) {
    auto const before = quarantined();
    if (!guard_.evicts(info.eviction, owner_.time())) return;
    if (before) {
        show_quarantine();
    } else {
        on_quarantine();
    }
}

} // namespace holdfast::redis
