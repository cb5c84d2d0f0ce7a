#include "testing/lua_number.hpp"
#include "testing/native_kind_scripts.hpp"
#include "testing/script_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::testing {

namespace {

/// The keys, and the time.
struct semaphore_state {
    explicit semaphore_state(script_run& run)
        : s(run)
        , key(run.key(1))
        , until(run.key(2))
        , me(run.argument(1))
        , clock(run) {}

    std::optional<double> score(std::string const& name, std::string const& member) const {
        auto const r = s.call({"zscore", name, member});
        return r.is_null() ? std::nullopt : std::optional(number_in(r.text));
    }
    double count(std::string const& name) const {
        return static_cast<double>(s.call({"zcard", name}).number);
    }
    double ttl_of(std::string const& name) const {
        return static_cast<double>(s.call({"pttl", name}).number);
    }
    /// How many slots are taken, of some.
    double taken(double first, double last) const {
        return static_cast<double>(
            s.call({"zcount", key, to_argument(first), to_argument(last)}).number);
    }
    /// The rest of the time of one of the deadlines, if there is one.
    std::optional<double> time_of(std::string const& index) const {
        auto const found = s.call({"zrange", until, index, index, "withscores"});
        if (found.parts.empty()) return std::nullopt;
        return number_in(found.parts.at(1).text) - clock.now;
    }
    bool is_alive(std::optional<double> deadline) const {
        return deadline && *deadline > clock.now;
    }
    void drop() const {
        constexpr std::size_t at_once = 1'000;
        for (auto more = true; more;) {
            auto const dead = s.call({"zrangebyscore", until, "-inf", to_argument(clock.now),
                                      "limit", "0", std::to_string(at_once)});
            more = dead.parts.size() == at_once;
            if (dead.parts.empty()) return;
            for (auto const* const name : {&key, &until}) {
                command_line words{"zrem", *name};
                for (auto const& token : dead.parts) words.push_back(token.text);
                s.call(words);
            }
        }
    }

    script_run& s;
    std::string const &key, &until, &me;
    clock_reading clock;
};

reply refusal_of(double left) {
    return reply::integer(to_reply(-3 - left));
}

reply refusal_by_key(double ttl) {
    return ttl < 0 ? reply::integer(-2) : refusal_of(ttl);
}

/// The first free slot of some.
std::optional<double> gap(semaphore_state const& at, double first, double last) {
    auto begin = first, x = first, width = 1.0;
    while (x <= last && at.taken(first, x) > x - first) {
        if (x == last) return std::nullopt;
        begin = x + 1;
        x = std::min(last, x + width);
        width *= 2;
    }
    if (x > last) return std::nullopt;
    while (begin < x) {
        auto const middle = std::floor((begin + x) / 2);
        if (at.taken(first, middle) > middle - first) {
            begin = middle + 1;
        } else {
            x = middle;
        }
    }
    return x;
}

/// A take, as far as the choice of a slot.
class permit_try {
public:
    explicit permit_try(script_run& run)
        : s(run)
        , at(run) {}

    /// The refusal, unless we are to get `slot`.
    std::optional<reply> choose() {
        auto const own = s.try_call({"zscore", at.key, at.me});
        if (own.is_error()) return is_other_error(own) ? own : refusal_by_key(at.ttl_of(at.key));
        deadline_ = at.score(at.until, at.me);
        if (!own.is_null() && (!deadline_ || at.is_alive(deadline_))) own_ = number_in(own.text);
        at.drop();
        auto const count = at.count(at.key);
        ttl_ = at.ttl_of(at.key);
        if (count != at.count(at.until)) {
            if (ttl_ == -1) return reply::integer(-2);
            return refusal_of(std::max({ttl_, 0.0, at.time_of("-1").value_or(0)}));
        }
        slot = number_in(s.argument(4));
        return s.argument(5) == "only" ? choose_only() : choose_any(count);
    }
    bool has_slot() const { return own_ == slot; }
    /// The refused command. Without a slot that was ours already, we have none then.
    std::optional<reply> admit() {
        if (!has_slot()) {
            if (auto e = fails({"zadd", at.key, to_argument(slot), at.me})) return e;
        }
        auto const ttl = number_in(s.argument(2));
        auto const deadline = std::max(deadline_.value_or(0), at.clock.now + 1 + ttl);
        if (auto e = fails({"zadd", at.until, to_argument(deadline), at.me})) return e;
        if (ttl_ > ttl) return std::nullopt;
        auto const life = to_argument(std::ceil(ttl * 3 / 2));
        if (auto e = fails({"pexpire", at.key, life})) return e;
        return fails({"pexpire", at.until, life});
    }
    std::optional<reply> fails(command_line const& words) {
        auto r = s.try_call(words);
        if (!r.is_error()) return std::nullopt;
        if (!has_slot()) {
            s.try_call({"zrem", at.key, at.me});
            s.try_call({"zrem", at.until, at.me});
        }
        return r;
    }

    script_run& s;
    semaphore_state at;
    double slot = 0;

private:
    std::optional<reply> choose_only() {
        if (has_slot()) return std::nullopt;
        auto const only = to_argument(slot);
        auto const other = s.call({"zrangebyscore", at.key, only, only, "limit", "0", "1"});
        if (other.parts.empty()) return std::nullopt;
        if (own_) {
            s.call({"zrem", at.key, at.me});
            s.call({"zrem", at.until, at.me});
        }
        auto const its = at.score(at.until, other.parts.front().text);
        at.ttl_of(at.key);
        return refusal_of(its ? *its - at.clock.now : ttl_);
    }
    std::optional<reply> choose_any(double count) {
        auto const permits = number_in(s.argument(3));
        if (own_) {
            slot = *own_;
            return std::nullopt;
        }
        auto const from = std::fmod(slot, permits);
        slot = from;
        if (count == 0) return std::nullopt;
        auto const below = '(' + s.argument(3);
        std::optional<double> found;
        if (count < permits ||
            static_cast<double>(s.call({"zcount", at.key, "-inf", below}).number) < permits) {
            found = gap(at, from, permits - 1);
            if (!found) found = gap(at, 0, from - 1);
        }
        if (!found) return refusal_of(at.time_of("0").value_or(0));
        slot = *found;
        return std::nullopt;
    }

    std::optional<double> own_, deadline_;
    double ttl_ = 0; ///< of the key
};

/// The answer, unless our token is alive and has the slot of the last argument. `shows`: if a
/// tombstone has the slot, that is the answer.
std::optional<reply> check(semaphore_state const& at, bool shows) {
    auto const own = at.score(at.key, at.me), deadline = at.score(at.until, at.me);
    if (!own || !at.is_alive(deadline)) {
        auto const& slot = at.s.from_last(0);
        if (!shows || own) return reply::integer(0);
        auto const there = at.s.call({"zrangebyscore", at.key, slot, slot, "limit", "0", "1"});
        if (there.parts.empty() || !is_tombstone(there.parts.front())) return reply::integer(0);
        return show(there.parts.front());
    }
    if (*own != number_in(at.s.from_last(0))) return reply::integer(to_reply(-1 - *own));
    return std::nullopt;
}

} // namespace

reply permit_take(script_run& s) {
    permit_try t(s);
    if (auto refusal = t.choose()) return *refusal;
    return t.admit().value_or(reply::integer(to_reply(t.slot)));
}

reply permit_take_with_fence(script_run& s) {
    permit_try t(s);
    if (auto refusal = t.choose()) return *refusal;
    auto const &counters = s.key(3), slot = to_argument(t.slot);
    auto const c = s.try_call({"zscore", counters, slot});
    auto const count = count_in(c);
    if (!count) return is_other_error(c) ? c : no_fence(counters);
    auto number = t.has_slot() ? std::max(*count, 1.0) : *count + 1;
    auto const hint = number_in(s.argument(6));
    constexpr double minute = 600'000;
    if (hint > number && (hint < number + minute || hint <= (t.at.clock.seconds + 61) * 10'000)) {
        number = hint;
    }
    if (auto e = t.admit()) return *e;
    if (number != *count) {
        if (auto e = t.fails({"zadd", counters, to_argument(number), slot})) return *e;
    }
    if (t.at.ttl_of(counters) < number_in(s.argument(7))) {
        if (auto e = t.fails({"pexpire", counters, s.argument(7)})) {
            if (*count == 0) s.try_call({"zrem", counters, slot});
            return *e;
        }
    }
    return reply::list(reply::kind::array,
                       {reply::integer(to_reply(t.slot)), reply::integer(to_reply(number))});
}

reply permit_extend(script_run& s) {
    semaphore_state const at(s);
    if (auto answer = check(at, true)) return *answer;
    auto const ttl = number_in(s.argument(2));
    if (at.ttl_of(at.key) <= ttl) {
        auto const life = to_argument(std::ceil(ttl * 3 / 2));
        s.call({"pexpire", at.key, life});
        s.call({"pexpire", at.until, life});
    }
    auto const deadline = at.clock.now + 1 + ttl;
    if (at.score(at.until, at.me) < deadline)
        s.call({"zadd", at.until, to_argument(deadline), at.me});
    return reply::integer(1);
}

reply permit_raise(script_run& s) {
    semaphore_state const at(s);
    if (auto answer = check(at, false)) return *answer;
    auto const& counters = s.key(3);
    if (at.score(counters, s.argument(4)).value_or(0) < number_in(s.argument(2)))
        s.call({"zadd", counters, s.argument(2), s.argument(4)});
    if (at.ttl_of(counters) < number_in(s.argument(3)))
        s.call({"pexpire", counters, s.argument(3)});
    return reply::integer(1);
}

reply permit_release(script_run& s) {
    semaphore_state const at(s);
    auto const deadline = s.try_call({"zscore", at.until, at.me});
    auto const removed = s.try_call({"zrem", at.key, at.me});
    s.try_call({"zrem", at.until, at.me});
    if (removed.is_error()) return removed;
    at.drop();
    auto const was_alive = !deadline.is_null() && at.is_alive(number_in(deadline.text));
    return reply::integer(removed.number == 1 && was_alive ? 1 : 0);
}

reply revoke_permit(script_run& s) {
    auto const &key = s.key(1), &until = s.key(2), &token = s.argument(1), &grave = s.argument(2);
    auto const slot = s.try_call({"zscore", key, token});
    auto const deadline = s.try_call({"zscore", until, token});
    if (slot.is_error() && is_other_error(slot)) return slot;
    if (slot.is_error() || slot.is_null() || deadline.is_error() || deadline.is_null())
        return reply::integer(0);
    s.call({"zadd", key, slot.text, grave});
    auto const e = s.try_call({"zadd", until, deadline.text, grave});
    if (e.is_error()) {
        s.try_call({"zrem", key, grave});
        return e;
    }
    s.call({"zrem", key, token});
    s.call({"zrem", until, token});
    return reply::integer(1);
}

reply permit_peek(script_run& s) {
    semaphore_state const at(s);
    auto const list = [](reply number, std::string text, std::string type) {
        return reply::list(reply::kind::array, {std::move(number), reply::bulk(std::move(text)),
                                                reply::bulk(std::move(type))});
    };
    auto const c = s.try_call({"zcount", at.key, "-inf", '(' + s.argument(2)});
    if (c.is_error()) {
        if (is_other_error(c)) return c;
        auto const ttl = at.ttl_of(at.key);
        auto const value = s.try_call({"getrange", at.key, "0", s.argument(3)});
        return list(refusal_by_key(ttl), value.is_error() ? std::string() : value.text,
                    s.try_call({"type", at.key}).text);
    }
    auto const first = s.call({"zrange", at.until, "0", "0"});
    auto const left = at.time_of("0");
    auto const ttl = at.ttl_of(at.key);
    auto const is_free = static_cast<double>(c.number) < number_in(s.argument(2));
    if (is_free || (left && *left <= 0)) return list(reply::integer(0), "", "zset");
    auto const size = static_cast<std::size_t>(number_in(s.argument(3)));
    return list(refusal_by_key(left.value_or(ttl)),
                first.parts.empty() ? std::string() : first.parts.front().text.substr(0, size),
                "zset");
}

} // namespace holdfast::testing
