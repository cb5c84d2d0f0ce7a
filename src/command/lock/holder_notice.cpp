#include "command/lock/holder_notice.hpp"

#include "command/output.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>

#include <chrono>
#include <utility>

namespace holdfast::command {

namespace {

/// A shorter wait is over before a person has read who it was for. Also the least time between two
/// holders that are named.
constexpr std::chrono::milliseconds moment(500);

std::string words(key_report const& r) {
    auto const name = printable(holder_of(r));
    auto const holder = name.empty() ? std::string("a client without a label") : name;
    auto const extended =
        std::string(r.shared() || r.counted() ? "they extend" : "the holder extends");
    auto const left = r.ttl_left ? duration_text(*r.ttl_left) + " left unless " + extended + " it"
                                 : std::string("without an end");
    auto const waits = r.writer && r.shared() ? ", and a writer waits" : "";
    return "waiting for \"" + printable(r.key) + "\": held by " + holder + ", " + left + waits;
}

} // namespace

void holder_notice::watched_key::start() {
    if (!std::exchange(started_, true)) look_later();
}

void holder_notice::watched_key::stop() {
    if (!std::exchange(started_, false)) return;
    pause_.cancel();
    stop_.emit(boost::asio::cancellation_type::terminal);
}

void holder_notice::watched_key::look_later() {
    pause_.expires_after(moment);
    pause_.async_wait([this](boost::system::error_code ec) {
        if (!ec && started_) look();
    });
}

// A report that nobody has seen differs from each state, so the first call returns at once.
void holder_notice::watched_key::look() {
    auto handler = boost::asio::bind_cancellation_slot(stop_.slot(), [this](error e, key_report r) {
        if (!e && started_) on_report(std::move(r));
    });
    client_.wait_change(key_, seen_, std::move(handler));
}

void holder_notice::watched_key::on_report(key_report r) {
    seen_ = std::move(r);
    // This client has the key for a moment when it has just won, or as one of several that tried.
    auto const other = seen_.state == key_state::held && seen_.holder != "this client";
    if (other && seen_.digest != said_) {
        said_ = seen_.digest;
        say(words(seen_));
    }
    look_later();
}

} // namespace holdfast::command
