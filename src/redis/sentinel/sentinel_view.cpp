#include "redis/sentinel/sentinel_view.hpp"

#include "redis/wire/optional_text.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

std::string to_text(server_address const& a) {
    auto const v6 = a.host.find(':') != a.host.npos;
    return (v6 ? '[' + a.host + ']' : a.host) + ':' + std::to_string(a.port);
}

bool sets_key(protocol::command c) {
    using protocol::command;
    return c == command::acquire || c == command::contend || c == command::raise;
}

} // namespace

//
// Numbers
//

std::uint32_t server_numbers::number_of(server_address const& a) {
    ++calls_;
    auto const known =
        std::find_if(all_.begin(), all_.end(), [&](entry const& e) { return e.address == a; });
    if (known != all_.end()) {
        known->used = calls_;
        return known->number;
    }
    entry fresh{.address = a, .number = last_ + 1, .used = calls_};
    if (all_.size() < capacity) {
        all_.push_back(std::move(fresh));
    } else {
        *std::min_element(all_.begin(), all_.end(), [](entry const& x, entry const& y) {
            return x.used < y.used;
        }) = std::move(fresh);
    }
    return ++last_;
}

server_address const* server_numbers::find(std::uint32_t number) const {
    auto const found =
        std::find_if(all_.begin(), all_.end(), [&](entry const& e) { return e.number == number; });
    return found == all_.end() ? nullptr : &found->address;
}

//
// Sentinels
//

sentinel_view::sentinel_view(options const& o)
    : options_(o)
    , directory_(static_cast<unsigned>(o.sentinels.size()), confirmation_time)
    , guard_(o.max_ttl, confirmation_time) {
    for (auto const& at : o.sentinels) {
        sentinels_.push_back({.number = last_number_++,
                              .address = {.host = at.host, .port = at.port},
                              .listed_id = {},
                              .own_id = {},
                              .news = {}});
    }
}

sentinel_view::sentinel* sentinel_view::find(unsigned number) {
    auto const found = std::find_if(sentinels_.begin(), sentinels_.end(),
                                    [&](sentinel const& s) { return s.number == number; });
    return found == sentinels_.end() ? nullptr : &*found;
}

void sentinel_view::asked(unsigned number) {
    if (auto* const s = find(number)) s->pending = true;
}

void sentinel_view::failed(unsigned number, errc cause, std::string_view message) {
    if (auto* const s = find(number)) fail(*s, cause, message);
}

void sentinel_view::fail(sentinel& s, errc cause, std::string_view message) {
    s.pending = false;
    s.failure = cause;
    s.news = message;
}

sentinel_view::action sentinel_view::report(unsigned number, sentinel_report const& r,
                                            time_point begun, time_point now) {
    auto* const s = find(number);
    if (s == nullptr) return action::none;
    if (r.refused != errc{}) {
        fail(*s, r.refused, r.message);
        return action::none;
    }
    auto const member = identify(*s, r);
    if (!member) return action::none;
    note(*s, r);
    learn(*member, r); // moves the sentinels
    std::optional<protocol::named_primary> primary;
    if (r.primary && r.epoch) {
        primary = {.server = numbers_.number_of(*r.primary), .epoch = *r.epoch};
        auto& since = named_since_[*member];
        since.reset();
        // The clocks of two machines differ by a little.
        if (r.named_for) {
            auto const drift = protocol::redlock_rules::drift(*r.named_for);
            since = now - *r.named_for + drift;
        }
    }
    auto const found = directory_.answered(*member, primary, begun, now);
    if (found == action::move) begin_use(now);
    return apply(found);
}

/// The member that has answered. Empty if it does not count.
std::optional<unsigned> sentinel_view::identify(sentinel& s, sentinel_report const& r) {
    auto& all = directory_.members();
    s.own_id = r.id;
    std::optional<unsigned> member;
    if (s.listed_id) {
        if (r.id == s.listed_id) member = all.find(*r.id);
        if (!member) fail(s, errc::not_redis, "another sentinel answers at this address");
        return member;
    }
    // A configured sentinel has its index as its number.
    member = r.id ? all.identified(s.number, *r.id) : all.anonymous(s.number);
    if (!member) fail(s, errc::rejected, "there are more than 32 sentinels");
    return member;
}

/// Takes the peers of a sentinel, to ask them too.
void sentinel_view::learn(unsigned member, sentinel_report const& r) {
    auto& all = directory_.members();
    std::array<std::uint64_t, sentinel_replies::max_peers> ids{};
    auto const count = std::min(r.peers.size(), ids.size());
    for (std::size_t i = 0; i < count; ++i) ids[i] = r.peers[i].id;
    all.listed(member, {ids.data(), count});

    auto const counted = all.counted();
    auto const counts = [&](std::uint64_t id) {
        auto const found = all.find(id);
        return found && counted.contains(*found);
    };
    auto const is_configured = [&](std::uint64_t id) {
        return std::any_of(sentinels_.begin(), sentinels_.end(),
                           [&](sentinel const& s) { return !s.listed_id && s.own_id == id; });
    };
    std::erase_if(sentinels_, [&](sentinel const& s) {
        return s.listed_id && (!counts(*s.listed_id) || is_configured(*s.listed_id));
    });
    // A configured sentinel that has not answered yet may be any of the peers.
    auto const waits = std::any_of(sentinels_.begin(), sentinels_.end(), [](sentinel const& s) {
        return !s.listed_id && s.pending && s.news.empty();
    });
    if (waits) return;
    for (auto const& peer : r.peers) {
        if (!counts(peer.id) || is_configured(peer.id)) continue;
        auto const known = std::find_if(sentinels_.begin(), sentinels_.end(),
                                        [&](sentinel const& s) { return s.listed_id == peer.id; });
        if (known != sentinels_.end()) {
            // Sentinels may list it by different addresses: the first that works stays.
            auto const works = known->pending || known->failure == errc{};
            if (works || known->address == peer.address) continue;
            sentinels_.erase(known);
        }
        sentinels_.push_back({.number = last_number_++,
                              .address = peer.address,
                              .listed_id = peer.id,
                              .own_id = {},
                              .news = {}});
    }
}

void sentinel_view::note(sentinel& s, sentinel_report const& r) const {
    s.pending = false;
    s.failure = errc{};
    s.announces = r.announces;
    if (!r.primary) {
        s.news = "knows no primary of this name";
    } else {
        s.news = "names " + to_text(*r.primary);
        if (r.epoch) s.news += " (epoch " + std::to_string(*r.epoch) + ')';
    }
}

std::string sentinel_view::refused_announcements() const {
    std::string text;
    for (auto const& s : sentinels_) {
        if (!s.announces && s.failure == errc{})
            text += (text.empty() ? "" : ", ") + to_text(s.address);
    }
    return text.empty() ? text : "SUBSCRIBE is refused by " + text;
}

sentinel_view::action sentinel_view::announced(server_address const& server, time_point now) {
    return apply(directory_.switched(numbers_.number_of(server), now));
}

sentinel_view::action sentinel_view::leave(protocol::leave_reason r, time_point now) {
    return apply(directory_.leave(r, now));
}

/// Answers from before a primary was left count no more: each sentinel is asked again.
sentinel_view::action sentinel_view::apply(action a) {
    if (a != action::leave) return a;
    for (auto& s : sentinels_) s.pending = s.pending || s.failure == errc{};
    return a;
}

//
// The primary
//

std::optional<server_address> sentinel_view::primary() const {
    if (!directory_.named()) return std::nullopt;
    auto const* const found = numbers_.find(directory_.named()->server);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

bool sentinel_view::searches_in_vain() const {
    return !directory_.named() &&
           std::none_of(sentinels_.begin(), sentinels_.end(), [](sentinel const& s) {
               // A failed one is asked again and again.
               return s.pending && (s.failure == errc{} || s.news.empty());
           });
}

// The first primary of a client is no fail-over: on_restart::observed trusts it, as it trusts a
// plain server at the first connection. `strict` trusts it when the sentinels have named it for
// long enough.
void sentinel_view::begin_use(time_point now) noexcept {
    auto const before = std::exchange(used_, directory_.named());
    if (before == used_) return;
    auto const pause = options_.max_ttl + confirmation_time;
    if (options_.on_restart != restart_policy::off) {
        auto const strict = options_.on_restart == restart_policy::strict;
        guard_.named(*used_, before ? now : strict ? named_since(now) : now - pause);
    }
    quarantine_reason_ = text_if_memory([&] {
        auto const to = primary();
        auto const from =
            std::exchange(used_text_, to ? to_text(*to) : std::string("another server"));
        auto const change =
            before ? "the sentinels name " + used_text_ + " as primary, after " + from
                   : "the sentinels have not named " + used_text_ + " as primary for long";
        return change +
               ": it may lack locks of its predecessor (on_restart); its votes do not count for "
               "max_ttl and " +
               std::to_string(confirmation_time.count()) + " ms, " + std::to_string(pause.count()) +
               " ms";
    });
}

protocol::time_point sentinel_view::named_since(time_point now) const {
    std::array<time_point, members::capacity> since{};
    unsigned n = 0;
    directory_.members().counted().for_each([&](unsigned i) {
        auto const answer = directory_.answer_of(i, now);
        if (!answer.answered || answer.primary != directory_.named() || !named_since_[i]) return;
        since[n++] = *named_since_[i];
    });
    auto const needed = directory_.majority(now);
    if (n < needed) return now;
    std::sort(since.begin(), since.begin() + n);
    return std::min(now, since[needed - 1]);
}

errc sentinel_view::objection(protocol::command c, time_point now) const noexcept {
    auto const until = directory_.confirmed_until();
    if (!directory_.confirmed(now)) return errc::no_sentinel_majority;
    auto const counts =
        sets_key(c) ? guard_.counts_grants(now, until) : guard_.counts_extensions(now, until);
    return counts ? errc{} : errc::quarantined;
}

std::string_view sentinel_view::objection_text(errc cause) noexcept {
    switch (cause) {
    case errc::no_sentinel_majority:
        return "no majority of the sentinels has named this primary in the last 2 s";
    case errc::quarantined:
        return "the sentinels name another primary than before: extensions count again after 2 s";
    default:
        return {};
    }
}

errc sentinel_view::search_failure() const {
    auto const first = sentinels_.front().failure;
    auto const alike = std::all_of(sentinels_.begin(), sentinels_.end(),
                                   [&](sentinel const& s) { return s.failure == first; });
    return alike && first != errc{} ? first : errc::no_sentinel_majority;
}

std::string sentinel_view::search_text() const {
    auto text = directory_.has_too_many()
                    ? "there are more than 32 sentinels"
                    : std::to_string(directory_.members().size() / 2 + 1) + " of " +
                          std::to_string(directory_.members().size()) +
                          " sentinels must name the same primary \"" + options_.primary_name + '"';
    char const* separator = ": ";
    for (auto const& s : sentinels_) {
        text += std::exchange(separator, "; ") + to_text(s.address) + ' ';
        text += s.news.empty() ? "has not answered yet" : s.news;
        if (s.pending && !s.news.empty()) text += ", but has not answered since";
    }
    return text;
}

} // namespace holdfast::redis
