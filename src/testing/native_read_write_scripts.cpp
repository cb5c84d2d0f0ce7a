#include "redis/wire/kinds/read_write_scripts.hpp"

#include "testing/lua_number.hpp"
#include "testing/native_kind_scripts.hpp"
#include "testing/script_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::testing {

namespace {

bool is_mark(reply const& r) {
    return equals(r, redis::readers_value);
}

/// The keys beside the lock's, and what is at that.
struct situation {
    explicit situation(script_run& run)
        : situation(run, run.key(run.key_count() - 2), run.key(run.key_count() - 1)) {}
    /// Of a script with fewer keys.
    situation(script_run& run, std::string const& its_readers, std::string const& its_intent)
        : s(run)
        , key(run.key(1))
        , readers(its_readers)
        , intent(its_intent)
        , turn(run.last_key())
        , value(run.try_call({"get", key})) {}

    bool is_ours() const { return equals(value, s.argument(1)); }
    bool is_shared() const { return is_mark(value); }
    bool is_free() const { return value.is_null(); }
    std::string const& client() const { return s.from_last(1); }
    bool heals() const { return s.from_last(0) == "heal"; }

    double ttl() const { return number_in(s.argument(2)); }
    double ttl_of(std::string const& name) const {
        return static_cast<double>(s.call({"pttl", name}).number);
    }
    std::int64_t count_readers() const { return s.call({"zcard", readers}).number; }
    /// Empty: we are no reader.
    std::optional<double> own_time() const {
        auto const r = s.call({"zscore", readers, s.argument(1)});
        return r.is_null() ? std::nullopt : to_number(r.text);
    }

    reply refuse(std::string const& name) const {
        auto const left = s.call({"pttl", name}).number;
        return reply::integer(left < 0 ? -2 : -3 - left);
    }
    void note(std::string const& name, std::string const& text) const {
        if (s.from_last(0) != "wait") return;
        auto const old = s.call({"get", name});
        if (old.is_null() || (equals(old, text) && ttl_of(name) < ttl()))
            s.try_call({"set", name, text, "px", s.argument(2)});
    }
    /// Who waits for the key hears of it.
    void touch() const {
        auto const left = ttl_of(key);
        if (left > 0) s.call({"pexpire", key, to_argument(left)});
    }
    void open_turn() const {
        s.call({"del", key});
        if (equals(s.try_call({"get", turn}), "wait"))
            s.try_call({"set", turn, "open", "px", s.argument(2)});
    }

    script_run& s;
    std::string const &key, &readers, &intent, &turn;
    reply value;
};

/// The tombstones among the readers. Empty: there are none.
std::string tombstones_in(situation const& at) {
    std::string all;
    for (auto const& member : at.s.try_call({"zrange", at.readers, "0", "-1"}).parts) {
        if (is_tombstone(member)) all += (all.empty() ? "" : " ") + show(member).text;
    }
    return all;
}

/// The refusal of a reader, or what is left beside the key.
std::optional<reply> begin_read(situation const& at, std::int64_t& left) {
    if (!at.is_free() && !at.is_shared()) {
        at.note(at.turn, "wait");
        return at.refuse(at.key);
    }
    left = at.count_readers();
    if (at.is_shared() && left == 0) return at.refuse(at.key);
    if (at.heals()) {
        if (at.is_shared() && !tombstones_in(at).empty()) return at.refuse(at.key);
        return std::nullopt;
    }
    auto const intent = at.s.call({"get", at.intent});
    if (intent.is_null() || equals(intent, at.client()) ||
        equals(at.s.call({"get", at.turn}), "open")) {
        return std::nullopt;
    }
    at.note(at.turn, "wait");
    return at.refuse(at.intent);
}

void clear(situation const& at, std::int64_t left) {
    if (!at.is_shared() && left > 0) at.s.call({"del", at.readers});
}

/// Empty: we are a reader. Else the refused command.
std::optional<reply> admit(situation const& at, double now) {
    auto& s = at.s;
    auto const ttl = at.ttl();
    auto left = at.is_free() ? 0 : at.ttl_of(at.key);
    auto const old = at.is_shared() ? at.own_time() : std::nullopt;
    auto const time = now + 1 + (at.is_ours() ? std::max(left, ttl) : ttl);
    s.call({"zadd", at.readers, to_argument(std::max(old.value_or(0), time)), s.argument(1)});
    if (!at.is_shared() || left <= ttl) {
        left = std::max(left, std::ceil(ttl * 3 / 2));
        auto r = s.try_call({"pexpire", at.readers, to_argument(left)});
        if (!r.is_error()) {
            r = s.try_call(
                {"set", at.key, std::string(redis::readers_value), "px", to_argument(left)});
        }
        if (r.is_error()) {
            if (!old) s.try_call({"zrem", at.readers, s.argument(1)});
            return r;
        }
    }
    if (at.is_shared()) s.try_call({"zremrangebyscore", at.readers, "-inf", to_argument(now)});
    return std::nullopt;
}

/// We have the key, or are a reader whose time has not passed.
bool is_held(situation const& at, double now) {
    if (at.is_ours()) return true;
    auto const time = at.is_shared() ? at.own_time() : std::nullopt;
    return time && *time > now;
}

/// The refusal of a writer.
std::optional<reply> begin_write(situation const& at) {
    auto& s = at.s;
    if (!at.is_free() && !at.is_shared()) return at.refuse(at.key);
    auto const last = s.call({"zrange", at.readers, "-1", "-1", "withscores"});
    auto const intent = s.call({"get", at.intent});
    if (at.is_shared()) {
        std::optional<double> left;
        if (!last.parts.empty()) left = number_in(last.parts.at(1).text) - clock_reading(s).now;
        if (!left || *left > 0) {
            at.note(at.intent, at.client());
            return left ? reply::integer(to_reply(-3 - *left)) : at.refuse(at.key);
        }
    } else if (!at.heals() && equals(s.call({"get", at.turn}), "open")) {
        return at.refuse(at.turn);
    }
    if (at.is_shared() || !last.parts.empty()) s.call({"del", at.key, at.readers});
    if (equals(intent, at.client())) s.call({"del", at.intent});
    return std::nullopt;
}

} // namespace

reply read_acquire(script_run& s) {
    situation const at(s);
    std::int64_t left = 0;
    if (auto const refusal = begin_read(at, left)) return *refusal;
    clock_reading const clock(s);
    clear(at, left);
    return admit(at, clock.now).value_or(reply::integer(1));
}

reply read_acquire_with_fence(script_run& s) {
    situation const at(s);
    std::int64_t left = 0;
    if (auto const refusal = begin_read(at, left)) return *refusal;
    clock_reading const clock(s);
    clear(at, left);
    auto const c = s.try_call({"zscore", s.key(2), "n"});
    auto const count = count_in(c);
    if (!count) return no_fence(s.key(2));
    auto number = std::max(*count, 1.0);
    auto const hint = number_in(s.argument(3));
    constexpr double minute = 600'000;
    if (hint > number && (hint < number + minute || hint <= (clock.seconds + 61) * 10'000))
        number = hint;
    if (number != *count) {
        s.call({"zadd", s.key(2), to_argument(number), "n"});
        auto const e = s.try_call({"pexpire", s.key(2), s.argument(4)});
        if (e.is_error()) {
            if (*count == 0) s.try_call({"zrem", s.key(2), "n"});
            return e;
        }
    }
    return admit(at, clock.now).value_or(reply::integer(to_reply(number)));
}

reply read_extend(script_run& s) {
    situation const at(s, s.last_key(), s.last_key());
    clock_reading const clock(s);
    if (!is_held(at, clock.now)) {
        if (is_tombstone(at.value)) return show(at.value);
        auto const all = at.is_shared() ? tombstones_in(at) : std::string();
        return all.empty() ? reply::integer(0) : reply::bulk(all);
    }
    clear(at, at.is_shared() ? 0 : at.count_readers());
    return admit(at, clock.now).value_or(reply::integer(1));
}

reply read_raise(script_run& s) {
    situation const at(s);
    clock_reading const clock(s);
    if (!is_held(at, clock.now)) return reply::integer(0);
    raise_counter(s, s.key(2));
    return reply::integer(1);
}

reply revoke_reader(script_run& s) {
    situation const at(s, s.last_key(), s.last_key());
    if (is_other_error(at.value)) return at.value;
    if (!at.is_shared()) return reply::integer(0);
    auto const time = s.call({"zscore", at.readers, s.argument(1)});
    if (time.is_null()) return reply::integer(0);
    s.call({"zadd", at.readers, time.text, s.argument(2)});
    s.call({"zrem", at.readers, s.argument(1)});
    return reply::integer(1);
}

reply read_release(script_run& s) {
    situation const at(s);
    if (at.is_ours()) {
        at.open_turn();
        return reply::integer(1);
    }
    auto const time = at.own_time();
    if (!time) return reply::integer(0);
    clock_reading const clock(s);
    auto const last = s.try_call({"zrange", at.readers, "-1", "-1"});
    auto const longest = !last.parts.empty() && equals(last.parts.front(), s.argument(1));
    s.call({"zrem", at.readers, s.argument(1)});
    s.try_call({"zremrangebyscore", at.readers, "-inf", to_argument(clock.now)});
    if (!at.is_shared()) return reply::integer(0);
    if (at.count_readers() == 0) {
        s.call({"del", at.key});
    } else if (longest && !s.try_call({"get", at.intent}).is_null()) {
        at.touch();
    }
    return reply::integer(*time > clock.now ? 1 : 0);
}

reply write_acquire(script_run& s) {
    auto const refusal = begin_write(situation(s));
    return refusal ? *refusal : take(s);
}

reply write_acquire_with_fence(script_run& s) {
    auto const refusal = begin_write(situation(s));
    return refusal ? *refusal : acquire_with_fence(s);
}

reply write_release(script_run& s) {
    situation const at(s);
    if (at.is_ours()) at.open_turn();
    if (equals(s.try_call({"get", at.intent}), s.argument(3))) {
        s.call({"del", at.intent});
        if (at.is_free()) {
            s.try_call({"set", at.key, std::string(redis::readers_value), "px", "1"});
            s.try_call({"del", at.key});
        } else if (at.is_shared()) {
            at.touch();
        }
    }
    return reply::integer(at.is_ours() ? 1 : 0);
}

} // namespace holdfast::testing
