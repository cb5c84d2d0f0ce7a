#include "redis/sentinel/sentinel_link.hpp"

#include "redis/wire/server_info.hpp"

#include <utility>

namespace holdfast::redis {

sentinel_link::sentinel_link(asio::any_io_executor executor, unsigned number,
                             sentinel_link_options options, instance_owner& owner,
                             sentinel_link_user& user, location::stream_factory factory)
    : executor_(executor)
    , number_(number)
    , options_(std::move(options))
    , owner_(owner)
    , user_(&user)
    , secret_(options_.address.password())
    , location_(executor, options_.address, std::move(factory), options_.tls)
    , replies_(options_.primary_name)
    , reconnector_(executor, owner, options_.max_reconnect_delay)
    , limit_timer_(executor, owner) {}

sentinel_link::~sentinel_link() {
    close();
}

void sentinel_link::close() noexcept {
    user_ = nullptr;
    if (auto const s = std::exchange(session_, nullptr)) s->close();
    reconnector_.cancel();
    limit_timer_.cancel();
}

void sentinel_link::connect() {
    if (user_ == nullptr || session_) return;
    user_->on_asked(number_);
    session_ = std::make_shared<session>(executor_, location_, options_.connect_timeout, owner_,
                                         static_cast<session_user&>(*this));
    session_->start();
}

void sentinel_link::on_connected() {
    refused_ = false;
    up_since_ = {};
    pipeline_.clear();
    pipeline_.restart();
    auto questions = replies_.first_questions(options_.address.user(), options_.address.password(),
                                              options_.connection_name);
    begin_round(pipeline_.send_first(std::move(questions)));
}

void sentinel_link::ask_round() {
    asks_again_ = waits_;
    if (user_ == nullptr || !session_ || waits_ || up_since_ == lease_clock::time_point{}) return;
    replies_.ask(pipeline_);
    user_->on_asked(number_);
    begin_round(pipeline_.send({}));
}

void sentinel_link::begin_round(batch& b) {
    begun_ = b.sent = owner_.time();
    waits_ = true;
    session_->write(b);
    limit_timer_.arm(options_.answer_timeout, weak_from_this(), &sentinel_link::on_limit);
}

void sentinel_link::on_bytes(std::string_view& bytes) {
    auto const alive = shared_from_this(); // the user may drop this sentinel
    if (!pipeline_.read(bytes, *this)) {
        return fail(errc::not_redis,
                    "does not speak RESP3 as Redis and Valkey do: " + pipeline_.problem());
    }
    if (user_ != nullptr && refused_) fail_refused();
}

void sentinel_link::on_reply(pending_command c) {
    if (!sentinel_replies::ends_round(c)) return;
    if (replies_.report().refused != errc{}) {
        refused_ = true;
        return;
    }
    end_limit();
    if (up_since_ == lease_clock::time_point{}) {
        up_since_ = owner_.time();
        session_->accepted();
    }
    user_->on_report(number_, replies_.report(), begun_);
    if (asks_again_) ask();
}

void sentinel_link::on_push(element const& e) {
    if (auto const to = replies_.take_push(e)) user_->on_switch(number_, *to);
}

// A server in protected mode, or with too many clients, refuses and closes.
void sentinel_link::on_session_end(errc cause, std::string message, protocol::fault f) noexcept {
    boundary_.run([&] {
        if (waits_ && replies_.report().refused != errc{}) return fail_refused();
        fail(cause, presentable(message, secret_), f);
    });
}

void sentinel_link::fail_refused() {
    auto const& r = replies_.report();
    auto const f =
        r.refused == errc::access_denied ? protocol::fault::setup : protocol::fault::busy;
    fail(r.refused, "refuses: " + presentable(r.message, secret_), f);
}

void sentinel_link::fail(errc cause, std::string_view message, protocol::fault f) {
    if (auto const s = std::exchange(session_, nullptr)) s->close();
    if (user_ == nullptr) return;
    auto const now = owner_.time();
    auto const since = std::exchange(up_since_, {});
    auto const was_up = since != lease_clock::time_point{};
    end_limit();
    reconnector_.ended(was_up ? now - since : lease_clock::duration::zero(), f);
    reconnector_.begin_pause();
    arm_reconnect();
    user_->on_failure(number_, cause, message);
}

void sentinel_link::arm_reconnect() {
    reconnector_.arm({.files = location_.has_files()}, weak_from_this(), &sentinel_link::on_pause);
}

void sentinel_link::on_pause() {
    if (user_ == nullptr || session_) return;
    boundary_.run([this] {
        if (location_.files_changed() && reconnector_.setup_changed()) reconnector_.end_pause();
        if (!reconnector_.due()) return arm_reconnect();
        connect();
    });
}

/// The answers have come, or will not come.
void sentinel_link::end_limit() noexcept {
    waits_ = false;
    limit_timer_.cancel();
}

void sentinel_link::on_limit() {
    if (user_ == nullptr || !waits_) return;
    boundary_.run([this] { fail(errc::instance_timeout, "does not answer"); });
}

bool sentinel_link::flush() noexcept {
    if (user_ == nullptr || !boundary_.take()) return true;
    boundary_.run([this] { fail(errc::out_of_memory, {}); });
    return false;
}

} // namespace holdfast::redis
