#include "redis/sentinel/sentinel_replies.hpp"

#include "redis/wire/server_info.hpp"
#include "redis/wire/slot_text.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr std::string_view channel = "+switch-master";

template <class Number>
std::optional<Number> to_number(std::string_view text, int base = 10) {
    Number n{};
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n, base);
    if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
}

std::optional<server_address> to_address(std::string_view host, std::string_view port) {
    auto const n = to_number<std::uint16_t>(port);
    if (!is_host(host) || !n || *n == 0) return std::nullopt;
    return server_address{.host = std::string(host), .port = *n};
}

/// No refusal: GET-MASTER-ADDR-BY-NAME answers with null.
bool is_unknown_name(std::string_view error) {
    return error.starts_with("ERR No such master");
}

} // namespace

std::optional<std::uint64_t> parse_run_id(std::string_view text) {
    constexpr std::size_t digits = 40;
    constexpr std::size_t used = 16; // ids are random in each digit
    auto const is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (text.size() != digits || !std::all_of(text.begin(), text.end(), is_digit))
        return std::nullopt;
    return to_number<std::uint64_t>(text.substr(0, used), 16);
}

std::optional<server_address> parse_switch(std::string_view message, std::string_view name) {
    constexpr std::size_t words = 5;
    std::array<std::string_view, words> word{};
    for (std::size_t i = 0; i < words; ++i) {
        auto const end = message.find(' ');
        auto const last = i + 1 == words;
        if ((end == std::string_view::npos) != last) return std::nullopt;
        word[i] = message.substr(0, end);
        if (!last) message.remove_prefix(end + 1);
    }
    if (word[0] != name) return std::nullopt;
    return to_address(word[3], word[4]);
}

// The epoch is asked for before the address. If a fail-over comes between the two, the answer is
// the new address with the old epoch, and the next round shows the new epoch.
template <class Append>
void sentinel_replies::round(Append const& add) {
    report_ = {};
    report_.announces = !subscription_refused_;
    add(step::id, "SENTINEL", "MYID");
    add(step::epoch, "SENTINEL", "MASTER", name_);
    add(step::address, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name_);
    add(step::peers, "SENTINEL", "SENTINELS", name_);
}

std::unique_ptr<batch> sentinel_replies::first_questions(std::string_view user,
                                                         std::string_view password,
                                                         std::string_view connection_name) {
    subscribed_ = subscription_refused_ = false;
    push_parts_ = 0;
    auto b = std::make_unique<batch>();
    codec::request words;
    auto const command = [](step s) {
        return pending_command{.round = static_cast<std::uint32_t>(s), .type = command_type::probe};
    };
    auto const add = [&](step s, auto const&... w) {
        words.clear();
        words.push(w...);
        append(*b, command(s), words.payload());
    };
    if (password.empty()) {
        add(step::hello, "HELLO", 3, "SETNAME", connection_name);
    } else {
        add(step::hello, "HELLO", 3, "AUTH", user.empty() ? std::string_view("default") : user,
            password, "SETNAME", connection_name);
    }
    words.clear();
    words.push("SUBSCRIBE", channel);
    words.push("PING");
    append(*b, command(step::subscribe), words.payload());
    round(add);
    return b;
}

void sentinel_replies::ask(pipeline& connection) {
    round([&](step s, auto const&... words) {
        connection.add({.round = static_cast<std::uint32_t>(s), .type = command_type::probe},
                       words...);
    });
}

bool sentinel_replies::ends_round(pending_command const& c) {
    return static_cast<step>(c.round) == step::peers;
}

void sentinel_replies::take_part(pending_command& c, element const& e) {
    if (e.depth == 0) {
        field_.clear();
        address_ = {};
        in_peer_ = false;
    }
    switch (static_cast<step>(c.round)) {
    case step::hello:
        return take_hello(e);
    case step::subscribe:
        // The reply to SUBSCRIBE, which comes before the one to PING.
        if (e.depth == 0 && is_error(e.type) && !subscribed_) {
            if (!std::exchange(subscription_refused_, true)) ++c.replies;
            report_.announces = false;
        }
        return;
    case step::id:
        return take_id(e);
    case step::epoch:
        return take_epoch(e);
    case step::address:
        return take_address(e);
    case step::peers:
        return take_peers(e);
    }
}

void sentinel_replies::refuse(element const& e) {
    if (report_.refused != errc{}) return;
    report_.refused = classify(e.value);
    report_.message = e.value;
}

void sentinel_replies::take_hello(element const& e) {
    if (e.depth == 0 && is_error(e.type)) refuse(e);
}

// Sentinels before 6.2 do not know the command, and are counted by their addresses alone. Without
// the right to it that is no way out: the peers would not count.
void sentinel_replies::take_id(element const& e) {
    if (e.depth != 0) return;
    if (!is_error(e.type)) {
        report_.id = parse_run_id(e.value);
    } else if (classify(e.value) == errc::access_denied) {
        refuse(e);
    }
}

void sentinel_replies::take_epoch(element const& e) {
    if (e.depth == 0) {
        master_ = {};
        is_primary_ = false;
        if (is_error(e.type) && !is_unknown_name(e.value)) refuse(e);
        return;
    }
    if (e.depth > 1) return;
    if (field_.empty()) {
        field_ = e.value.empty() ? "?" : e.value;
        return;
    }
    auto const field = std::exchange(field_, {});
    if (field == "ip") master_.host = e.value.substr(0, max_host + 1);
    if (field == "port") master_.port = to_number<std::uint16_t>(e.value).value_or(0);
    if (field == "config-epoch") report_.epoch = to_number<std::uint64_t>(e.value);
    if (field == "role-reported") is_primary_ = e.value == "master";
    if (field == "role-reported-time" && is_primary_) {
        constexpr std::uint32_t most = 30U * 24 * 3600 * 1000; // 30 days
        if (auto const n = to_number<std::uint64_t>(e.value))
            report_.named_for = std::chrono::milliseconds(std::min<std::uint64_t>(*n, most));
    }
}

void sentinel_replies::take_address(element const& e) {
    if (e.depth == 0) {
        if (is_error(e.type)) refuse(e);
        return;
    }
    if (e.depth > 1) return;
    if (address_.host.empty()) {
        address_.host = e.value.substr(0, max_host + 1);
    } else {
        report_.primary = to_address(address_.host, e.value);
        // In the midst of a fail-over its leader names the promoted replica here, and the old
        // primary there.
        if (report_.primary != master_) report_.named_for.reset();
    }
}

void sentinel_replies::take_peers(element const& e) {
    if (e.depth == 0) {
        report_.peers.clear();
        if (is_error(e.type) && !is_unknown_name(e.value)) refuse(e);
        return;
    }
    if (e.depth == 1) {
        in_peer_ = report_.peers.size() < max_peers;
        field_.clear();
        address_ = {};
        peer_id_.reset();
        return;
    }
    if (e.depth > 2 || !in_peer_) return;
    if (field_.empty()) {
        field_ = e.value.empty() ? "?" : e.value;
        return;
    }
    auto const field = std::exchange(field_, {});
    if (field == "ip") address_.host = e.value.substr(0, max_host + 1);
    if (field == "port") address_.port = to_number<std::uint16_t>(e.value).value_or(0);
    if (field == "runid") peer_id_ = parse_run_id(e.value);
    end_peer();
}

/// Takes the peer when all of it has come.
void sentinel_replies::end_peer() {
    if (!is_host(address_.host) || address_.port == 0 || !peer_id_) return;
    report_.peers.push_back({.id = *peer_id_, .address = std::exchange(address_, {})});
    in_peer_ = false;
}

std::optional<server_address> sentinel_replies::take_push(element const& e) {
    if (e.depth == 0) {
        push_parts_ = 0;
        push_is_message_ = push_is_switch_ = false;
        return std::nullopt;
    }
    switch (++push_parts_) {
    case 1:
        push_is_message_ = e.value == "message";
        if (e.value == "subscribe") subscribed_ = true;
        return std::nullopt;
    case 2:
        push_is_switch_ = push_is_message_ && e.value == channel;
        return std::nullopt;
    case 3:
        return push_is_switch_ ? parse_switch(e.value, name_) : std::nullopt;
    default:
        return std::nullopt;
    }
}

} // namespace holdfast::redis
