// A server_link as the link to a server of a deployment: see redis/server/link_policy.hpp.
#include "redis/server/server_link.hpp"

#include <utility>

namespace holdfast::redis {

void server_link::move_to(address const& server) {
    if (state_.stopped) return;
    if (session_) end_session(errc::unreachable, "another server takes the place of the last one");
    auto text = server.to_string();
    if (text == moved_to_) return;
    location_.emplace(executor_, server, factory_, state_.options.tls);
    moved_to_ = std::move(text);
    reconnector_.forget();
    hello_ = {};
}

void server_link::succeed(lease_clock::time_point quarantined_until, std::string_view reason) {
    server_.succeed(quarantined_until, reason);
}

void server_link::leave(errc cause, std::string_view message) {
    if (state_.stopped) return;
    if (session_) {
        end_session(cause, message);
        return connect_later();
    }
    lose(cause, message);
}

void server_link::connect_if_due() noexcept {
    if (!session_ && reconnector_.due()) boundary_.run([&] { connect(); });
}

void server_link::end_pause() noexcept {
    if (session_ || state_.stopped) return;
    reconnector_.end_pause();
    boundary_.run([&] { arm_reconnect(); });
}

bool server_link::submit(pending_command const& c) noexcept {
    auto const added = boundary_.run([&] {
        server_.ask_due();
        state_.commands.add(c, state_.words);
    });
    if (!connected()) state_.live.unsent(state_.now());
    return added;
}

void server_link::show_primary(std::string server) {
    state_.status.set_primary(std::move(server));
}

void server_link::show_doubt(errc cause, std::string_view message) noexcept {
    state_.status.set_doubt(cause, message);
    state_.owner.on_change();
}

void server_link::show_lack(degradation d, std::string_view reason) noexcept {
    if (reason.empty()) return state_.services.remove(d);
    boundary_.run([&] { state_.services.add(d, reason); });
}

} // namespace holdfast::redis
