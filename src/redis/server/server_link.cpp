#include "redis/server/server_link.hpp"

#include "redis/wire/text_hash.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

server_link::server_link(asio::any_io_executor executor, unsigned number,
                         connection_options options, instance_owner& owner,
                         location::stream_factory factory, link_deployment const& deployment)
    : executor_(executor)
    , credentials_(std::make_shared<credential_keeper>(
          executor,
          credentials{.user = options.address.user(), .password = options.address.password()},
          options.source, options.connect_timeout, owner, static_cast<credential_user&>(*this),
          boundary_))
    , state_(number, std::move(options), owner, credentials_->secrets(), deployment)
    , server_(state_)
    , replicas_(state_, server_)
    , pending_(state_.options.max_pending_releases, state_.counts,
               [this](std::size_t count) { state_.status.set_pending_releases(count); })
    , locks_(state_, server_, replicas_, pending_)
    , reauthentication_(state_, *credentials_)
    , factory_(std::move(factory))
    , location_(std::in_place, executor, state_.options.address, factory_, state_.options.tls,
                state_.options.tls_name)
    , reconnector_(executor, owner, state_.options.max_reconnect_delay)
    , check_timer_(executor, owner) {}

server_link::~server_link() {
    abandon();
}

void server_link::start() {
    state_.live.start(state_.now());
    boundary_.run([&] {
        connect();
        arm_check_timer();
    });
}

void server_link::stop() {
    if (std::exchange(state_.stopped, true)) return;
    credentials_->close();
    reconnector_.cancel();
    check_timer_.cancel();
    pending_.stop();
    if (!boundary_.run([&] { end_session(errc::shut_down, "the client was shut down"); }))
        boundary_.run([&] { lose(errc::shut_down, {}); });
}

void server_link::abandon() noexcept {
    state_.stopped = true;
    credentials_->close();
    reconnector_.forget_timer();
    check_timer_.forget();
    if (auto const s = std::exchange(session_, nullptr)) s->close();
    state_.commands.clear();
    locks_.clear();
    pending_.stop();
}

//
// Session
//

void server_link::connect() {
    if (state_.stopped || session_ || !state_.policy.may_connect()) return;
    if (credentials_->has_source()) return credentials_->ask();
    open_session();
}

void server_link::open_session() {
    if (!state_.policy.may_connect()) return;
    session_ = std::make_shared<session>(executor_, *location_, state_.options.connect_timeout,
                                         state_.owner, static_cast<session_user&>(*this));
    session_->start();
}

void server_link::on_connected() {
    state_.refusal = {};
    state_.words = {};
    state_.services.clear();
    state_.listener.on_connection();
    locks_.begin();
    pushes_.connected();
    server_.begin();
    reauthentication_.begin();
    state_.commands.restart();
    questions_.reset();
    probing_ = true;
    ask_first(probe_.begin(introduce()));
}

/// Ends the session, and makes another one later.
void server_link::give_up(errc cause, std::string_view message, protocol::fault f) {
    end_session(cause, message, f);
    state_.policy.on_link_lost(cause);
    connect_later();
}

void server_link::end_session(errc cause, std::string_view message, protocol::fault f) {
    if (!session_) return;
    auto const ended = std::exchange(session_, nullptr);
    ended->close();
    reconnector_.ended(state_.live.up_for(state_.now()), f);
    if (probing_ && !probe_.heard() && cause == errc::unreachable) hello_.closed();
    probing_ = false;
    if (connected()) pending_.session_ended(state_.now());
    server_.lost();
    state_.listener.on_connection_lost();
    lose(cause, message);
}

/// There is no session. Commands that were sent, or that wait for one, get their answers.
void server_link::lose(errc cause, std::string_view message) {
    state_.live.lost();
    state_.live.none_unsent();
    notify_state(cause, message);
    locks_.fail_sent(cause);
    locks_.fail_unsent(cause);
}

void server_link::connect_later() {
    if (state_.stopped) return;
    pending_.drop_expired(state_.now());
    reconnector_.begin_pause();
    arm_reconnect();
}

void server_link::arm_reconnect() {
    reconnector_.arm({.files = location_->has_files(), .credentials = credentials_->has_source()},
                     weak_from_this(), &server_link::on_pause);
}

// While a person has to fix the setup, the files and the source of credentials are asked more
// often than the server.
void server_link::on_pause() {
    boundary_.run([&] { try_to_connect(); });
}

void server_link::try_to_connect() {
    if (state_.stopped) return;
    if (location_->files_changed() && reconnector_.setup_changed()) reconnector_.end_pause();
    auto const asks = reconnector_.asks_for_credentials(
        {.files = location_->has_files(), .credentials = credentials_->has_source()});
    if (!reconnector_.due() && !asks) return arm_reconnect();
    connect();
}

//
// Probe
//

introduction server_link::introduce() const {
    auto const& c = credentials_->current();
    return {.user = c.user,
            .password = c.password,
            .name = state_.options.name,
            .database = state_.options.address.database(),
            .asks_time = state_.options.detect_clock_jumps,
            .resp2 = hello_.skips(),
            .waits = replicas_.on(),
            .votes = state_.policy.votes()};
}

// Questions of the probe, before all commands of callers.
void server_link::ask_first(std::unique_ptr<batch> questions) {
    questions->sent = state_.now();
    state_.live.probing(questions->sent);
    session_->write(state_.commands.send_first(std::move(questions)));
    if (state_.live.needs_earlier_check()) arm_check_timer();
}

void server_link::on_probe_reply() {
    auto const last = probe_.took_reply();
    auto more = last ? probe_.next(introduce()) : nullptr;
    if (auto const cause = probe_.refused(); cause != errc{}) {
        if (cause == errc::read_only) server_.is_replica();
        return state_.refusal.set(cause, probe_.message(), probe_.fault());
    }
    questions_ = std::move(more);
    if (last && !questions_) on_probed();
}

void server_link::on_probed() {
    probing_ = false;
    if (!probe_.skipped_hello()) {
        hello_.answered();
    } else if (hello_.works_without()) {
        return state_.refusal.set(errc::unreachable,
                                  "connections are closed at HELLO: to try it once more");
    }
    auto const& info = probe_.info();
    if (state_.policy.votes() && !info.run_id.empty() &&
        !state_.owner.is_new_server(state_.number, info.run_id)) {
        return state_.refusal.set(errc::duplicate_instance,
                                  "another configured address leads to the same server");
    }
    // A server that does not report its run id is known by its address, as most clients write it.
    identity_ = hash_of(info.run_id.empty() ? status().address : info.run_id);
    state_.words = {.dialect = info.speaks(),
                    .tracked = probe_.tracking(),
                    .whole_script = probe_.whole_scripts(),
                    .in_cluster = state_.options.in_cluster};
    auto const product = info.product.empty() ? std::string("unknown") : info.product;
    state_.status.count_connection(product + ' ' + info.version);
    for (auto const& d : probe_.lacks()) state_.services.add(d.kind, d.message);
    if (!source_failure_.empty()) {
        state_.services.add(degradation::old_credentials, source_failure_);
    }
    server_.probed(info, probe_.logs_each_write(), probe_.tracking_limit());
    replicas_.found(info.replicas);
    state_.listener.on_probe(info);
    state_.live.probed(state_.now());
    state_.live.none_unsent();
    notify_state(errc{}, {});
    session_->accepted();
    pending_.drop_expired(state_.now());
    send_pending();
    reauthentication_.after_probe();
    state_.notify_available();
}

//
// Credentials
//

void server_link::use_credentials(std::string_view problem, bool changed) {
    if (state_.stopped) return;
    source_failure_.clear();
    if (!problem.empty()) source_failure_.append("credentials_source: ").append(problem);
    if (session_) {
        if (!problem.empty())
            return state_.services.add(degradation::old_credentials, source_failure_);
        if (connected()) return reauthentication_.start();
        if (changed) reauthentication_.put_off();
        return;
    }
    if (!credentials_->complete()) {
        lose(errc::access_denied, "no credentials: " + source_failure_);
        reconnector_.ended(lease_clock::duration::zero(), protocol::fault::busy);
        return connect_later();
    }
    auto const awaited = changed && reconnector_.setup_changed();
    if (!awaited && !reconnector_.due()) return arm_reconnect();
    open_session();
}

//
// Commands
//

bool server_link::submit(encoder& encoded, reply_handler_ptr const& owner,
                         std::uint32_t round) noexcept {
    auto const command = encoded.command();
    auto const releases = command == protocol::command::release;
    if (!available()) {
        if (releases) pending_.keep(owner, state_.now());
        return true;
    }
    auto const added = boundary_.run([&] {
        server_.ask_due();
        state_.commands.add(encoded, {.owner = owner, .round = round, .command = command},
                            state_.words);
    });
    if (!added && releases) pending_.keep(owner, state_.now());
    if (!connected()) state_.live.unsent(state_.now());
    return added;
}

/// Adds all of them to the batch of this turn.
void server_link::send_pending() {
    pending_.take([this](reply_handler_ptr owner, lease_clock::time_point since) {
        // The owner got its answer when the release was kept. So `round` is free for the time.
        state_.commands.add_late({.owner = std::move(owner),
                                  .round = short_time(since),
                                  .command = protocol::command::release,
                                  .answered = true});
    });
}

bool server_link::flush() noexcept {
    if (state_.stopped) return true;
    if (!boundary_.broken()) {
        boundary_.run([&] {
            send_batches();
            if (state_.live.needs_earlier_check() || state_.needs_check_timer) arm_check_timer();
        });
    }
    if (!boundary_.take()) return true;
    boundary_.run([&] {
        if (session_) {
            give_up(errc::out_of_memory, {});
        } else {
            lose(errc::out_of_memory, {});
            connect_later();
        }
        arm_check_timer();
    });
    return false;
}

void server_link::send_batches() {
    if (available() && connected() && pending_.due(state_.now())) {
        pending_.drop_expired(state_.now());
        send_pending();
    }
    auto& commands = state_.commands;
    while (state_.live.current() == protocol::liveness::state::up && !server_.holds() &&
           commands.has_room() && !commands.empty()) {
        auto& b = commands.send(state_.words);
        b.sent = state_.now();
        state_.live.sent(b.sent);
        state_.counts.commands.fetch_add(b.commands.size(), std::memory_order_relaxed);
        state_.counts.batches.fetch_add(1, std::memory_order_relaxed);
        session_->write(b);
    }
}

//
// Status
//

errc server_link::reason() const {
    if (reason_ != errc{}) return reason_;
    return server_.quarantined() ? errc::quarantined : replicas_.cause();
}

std::string server_link::reason_message() const {
    if (reason_ != errc{}) return state_.reason_message;
    return server_.quarantined() ? server_.reason() : replicas_.reason();
}

std::optional<lease_clock::time_point> server_link::waits_since() const {
    if (!available() || !connected() || state_.commands.idle()) return std::nullopt;
    return std::max(state_.commands.front().sent, replied_at_);
}

bool server_link::settled() const {
    return !available() || !state_.commands.has_lock_commands();
}

} // namespace holdfast::redis
