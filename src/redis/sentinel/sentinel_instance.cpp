#include "redis/sentinel/sentinel_instance.hpp"

#include "protocol/server/server_ages.hpp"

#include <boost/scope/scope_fail.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace holdfast::redis {

namespace {

protocol::leave_reason reason_of(errc lost) {
    switch (lost) {
    case errc::read_only:
        return protocol::leave_reason::read_only;
    case errc::instance_timeout:
        return protocol::leave_reason::suspect;
    default:
        return protocol::leave_reason::connection_lost;
    }
}

/// The address of a server of the deployment, without credentials.
address_parts parts_for(address const& deployment, server_address const& server) {
    address_parts p;
    p.hosts = {{.host = server.host, .port = server.port}};
    p.tls = deployment.tls();
    p.tls_options = deployment.tls_options();
    return p;
}

} // namespace

sentinel_instance::sentinel_instance(asio::any_io_executor executor, unsigned number,
                                     connection_options options, instance_owner& owner,
                                     location::stream_factory factory)
    : executor_(executor)
    , options_(std::move(options))
    , owner_(owner)
    , number_(number)
    , factory_(std::move(factory))
    , view_({.sentinels = options_.address.hosts(),
             .primary_name = options_.address.primary_name(),
             .on_restart = options_.on_restart,
             .max_ttl = options_.max_ttl})
    , timer_(executor, owner) {
    link_ = std::make_shared<server_link>(executor, number, options_, owner, factory_,
                                          link_deployment{.policy = *this});
}

sentinel_instance::~sentinel_instance() {
    abandon();
}

void sentinel_instance::start() {
    link_->start();
    on_time();
}

void sentinel_instance::stop() {
    if (std::exchange(stopped_, true)) return;
    timer_.cancel();
    for (auto const& l : sentinels_) l->close();
    link_->stop();
}

void sentinel_instance::abandon() noexcept {
    stopped_ = true;
    timer_.forget();
    for (auto const& l : sentinels_) l->close();
    link_->abandon();
}

bool sentinel_instance::flush() noexcept {
    if (stopped_) return link_->flush();
    auto complete = true;
    if (boundary_.take()) {
        // What the links have in common has failed. The sentinels are asked again.
        for (auto const& l : sentinels_) l->break_off();
        link_->break_off();
        complete = boundary_.run([this] { arm(); });
    }
    for (auto const& l : sentinels_) complete = l->flush() && complete;
    return link_->flush() && complete;
}

bool sentinel_instance::may_grant() const {
    return link_->may_grant() && (!connected() || (is_linked() && is_confirmed()));
}

errc sentinel_instance::reason() const {
    auto const cause = link_->reason();
    if (cause != errc{} || is_confirmed()) return cause;
    return errc::no_sentinel_majority;
}

std::string sentinel_instance::reason_message() const {
    if (reason() == link_->reason()) return link_->reason_message();
    return view_.search_text();
}

//
// Sentinels
//

void sentinel_instance::on_report(unsigned sentinel, sentinel_report const& r,
                                  lease_clock::time_point begun) {
    if (stopped_) return;
    auto const found = view_.report(sentinel, r, begun, owner_.time());
    carry_out(found, "a sentinel knows of a later fail-over");
    after_news();
}

void sentinel_instance::on_switch(unsigned, server_address const& to) {
    if (stopped_) return;
    carry_out(view_.announced(to, owner_.time()), "a sentinel has announced another primary");
    after_news();
}

void sentinel_instance::on_failure(unsigned sentinel, errc cause, std::string_view message) {
    if (stopped_) return;
    view_.failed(sentinel, cause, message);
    after_news();
}

void sentinel_instance::carry_out(sentinel_view::action a, std::string_view reason) {
    switch (a) {
    case sentinel_view::action::none:
        break;
    case sentinel_view::action::leave:
        leave_primary(reason);
        break;
    case sentinel_view::action::move:
        move_link();
        break;
    }
}

// If that fails, the client searches again. So the link never leads to another server than the one
// that is named.
void sentinel_instance::move_link() {
    linked_.reset();
    auto const search_again = [&] {
        std::ignore = view_.leave(protocol::leave_reason::connection_lost, owner_.time());
    };
    boost::scope::scope_fail const failed(search_again);
    auto const give_up = [&](char const* reason) {
        search_again();
        leave_primary(reason);
    };
    auto const to = view_.primary();
    if (!to) return give_up("");
    try {
        address const server(parts_for(options_.address, *to));
        link_->move_to(server);
        if (succeeded_ != view_.named())
            link_->succeed(view_.quarantined_until(), view_.quarantine_reason());
        succeeded_ = view_.named();
        link_->show_primary(server.to_string());
        linked_ = view_.named();
    } catch (system_error const& e) { // the address is invalid
        give_up(e.what());
    }
}

void sentinel_instance::leave_primary(std::string_view reason) {
    linked_.reset();
    link_->show_primary({});
    link_->leave(errc::no_sentinel_majority, reason);
}

/// The sentinels' answers have changed something.
void sentinel_instance::after_news() {
    link_sentinels();
    check_confirmation();
    link_->show_lack(degradation::no_announcements, view_.refused_announcements());
    if (view_.searches_in_vain()) {
        auto text = view_.search_text();
        if (text != vain_search_) link_->leave(view_.search_failure(), text);
        vain_search_ = std::move(text);
    } else {
        vain_search_.clear();
    }
    link_->connect_if_due();
    arm();
}

/// Connects to the sentinels that are known now, and to no others.
void sentinel_instance::link_sentinels() {
    auto const& wanted = view_.sentinels();
    std::erase_if(sentinels_, [&](auto const& l) {
        auto const gone = std::none_of(wanted.begin(), wanted.end(),
                                       [&](auto const& s) { return s.number == l->number(); });
        if (gone) l->close();
        return gone;
    });
    for (auto const& s : wanted) {
        auto const linked = std::any_of(sentinels_.begin(), sentinels_.end(),
                                        [&](auto const& l) { return s.number == l->number(); });
        if (linked) continue;
        try {
            sentinels_.push_back(link_to(s));
            sentinels_.back()->start();
        } catch (system_error const&) {
            view_.failed(s.number, errc::rejected, "is listed with an invalid address");
        }
    }
}

std::shared_ptr<sentinel_link> sentinel_instance::link_to(sentinel_view::sentinel const& s) {
    auto parts = parts_for(options_.address, s.address);
    parts.credentials = options_.address.sentinel_credentials();
    return std::make_shared<sentinel_link>(
        executor_, s.number,
        sentinel_link_options{.address = std::move(parts),
                              .tls = options_.tls,
                              .primary_name = options_.address.primary_name(),
                              .connection_name = options_.name,
                              .answer_timeout = confirmation_time,
                              .connect_timeout = options_.connect_timeout,
                              .max_reconnect_delay = options_.max_reconnect_delay},
        owner_, static_cast<sentinel_link_user&>(*this), factory_);
}

//
// The link
//

// A primary that restarts before Sentinel notices stays the primary.
void sentinel_instance::on_age(lease_clock::time_point start) {
    if (!protocol::restarted_since(view_.named_since(owner_.time()), start)) return;
    link_->shown_restarted("the sentinels have named it for longer, so it has been restarted");
}

void sentinel_instance::on_link_lost(errc cause) noexcept {
    if (stopped_) return;
    linked_.reset();
    std::ignore = view_.leave(reason_of(cause), owner_.time());
    link_->show_primary({});
    boundary_.run([this] { arm(); });
}

/// Tells the owner, and the status, when the answers of the primary begin to count, or stop.
void sentinel_instance::check_confirmation() {
    auto const now = is_confirmed();
    if (now == std::exchange(confirmed_, now)) return;
    if (now) {
        link_->show_doubt(errc{}, {});
        if (link_->may_grant() && link_->connected()) owner_.on_available(number_);
    } else {
        link_->show_doubt(errc::no_sentinel_majority, view_.search_text());
        owner_.on_unavailable(number_);
    }
}

// One timer: for the next round, or for the end of the confirmation.
void sentinel_instance::arm() {
    if (stopped_) return;
    auto when = view_.next_round();
    if (confirmed_) when = std::min(when, view_.confirmed_until());
    timer_.arm(when - owner_.time(), weak_from_this(), &sentinel_instance::on_time);
}

void sentinel_instance::on_time() {
    boundary_.run([this] { do_what_is_due(); });
}

void sentinel_instance::do_what_is_due() {
    if (stopped_) return;
    auto const now = owner_.time();
    if (now >= view_.next_round()) {
        view_.begin_round(now);
        link_sentinels();
        for (auto const& l : sentinels_) l->ask();
    }
    check_confirmation();
    arm();
}

} // namespace holdfast::redis
