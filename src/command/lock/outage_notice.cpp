#include "command/lock/outage_notice.hpp"

#include "command/output.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>

#include <chrono>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

/// To connect takes a moment, and so does a short hiccup of a server.
constexpr std::chrono::seconds short_wait(1);

/// A wrong password, for example, fails each wait at once.
constexpr std::chrono::seconds pause_after_error(1);

} // namespace

void outage_notice::look() {
    if (!waits_) wait(wait_for(short_wait));
}

void outage_notice::tell(error const& e) {
    if (!std::exchange(told_, true)) {
        say(why_it_waits(settings_, e));
        ends_ready_ = passes(e) || e == errc::quarantined;
    }
    if (!waits_) wait(no_limit);
}

void outage_notice::over() {
    if (std::exchange(told_, false)) say("enough instances can vote again");
}

void outage_notice::wait(wait_limit limit) {
    waits_ = true;
    client_.wait_ready(
        limit, asio::bind_cancellation_slot(stop_.slot(), [this](error const& e) { on_ready(e); }));
}

void outage_notice::on_ready(error const& e) {
    if (stopped_) return;
    if (!e) {
        waits_ = false;
        if (ends_ready_) over(); // else a right is missing, for example
        return;
    }
    pause_.expires_after(pause_after_error);
    pause_.async_wait([this](boost::system::error_code ec) {
        if (!ec && !stopped_) wait(no_limit);
    });
    tell(e);
    ends_ready_ = true;
}

void outage_notice::stop() {
    stopped_ = true;
    pause_.cancel();
    stop_.emit(asio::cancellation_type::terminal);
}

} // namespace holdfast::command
