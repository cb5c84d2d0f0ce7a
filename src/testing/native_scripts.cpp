#include "testing/native_scripts.hpp"

#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/kinds/permit_scripts.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"

#include "testing/lua_number.hpp"
#include "testing/native_kind_scripts.hpp"
#include "testing/script_run.hpp"

#include <boost/hash2/sha1.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace holdfast::testing {

namespace {

/// One of two operands is a number, and the other one is nil.
[[noreturn]] void fail_to_compare(bool first_is_number) {
    throw script_failure{std::string("ERR user_script:1: attempt to compare ") +
                         (first_is_number ? "number with nil" : "nil with number")};
}

/// a < b
bool less(std::optional<double> a, std::optional<double> b) {
    if (!a || !b) fail_to_compare(a.has_value());
    return *a < *b;
}

/// That of PTTL.
double number_of(reply const& r) {
    return static_cast<double>(r.number);
}

//
// Exclusive keys
//

reply release(script_run& s) {
    if (!equals(s.call({"get", s.key(1)}), s.argument(1))) return reply::integer(0);
    return s.call({"del", s.key(1)});
}

/// Whether a key expires before the ttl that the script gives to it.
bool is_short(script_run& s, std::string const& key) {
    return less(number_of(s.try_call({"pttl", key})), to_number(s.argument(2)));
}

void extend_key(script_run& s, std::string const& key) {
    if (is_short(s, key)) s.call({"pexpire", key, s.argument(2)});
}

reply extend(script_run& s) {
    auto const v = s.call({"get", s.key(1)});
    if (!equals(v, s.argument(1))) return is_tombstone(v) ? show(v) : reply::integer(0);
    extend_key(s, s.key(1));
    return reply::integer(1);
}

/// The largest counter that another may follow, and one: 2^53 / 100.
constexpr double counter_limit = 90'071'992'547'408;

} // namespace

double number_in(std::string const& text) {
    auto const n = to_number(text);
    if (!n) throw script_failure{"ERR user_script:1: attempt to perform arithmetic on a nil value"};
    return *n;
}

clock_reading::clock_reading(script_run& s) {
    auto const r = s.call({"time"});
    seconds = number_in(r.parts.at(0).text);
    now = seconds * 1000 + std::floor(number_in(r.parts.at(1).text) / 1000);
}

std::optional<double> count_in(reply const& c) {
    if (c.is_null()) return 0.0;
    auto const n = c.is_error() ? std::nullopt : to_number(c.text);
    auto const counts = n && *n >= 0 && *n - std::floor(*n) == 0 && *n < counter_limit;
    return counts ? n : std::nullopt;
}

reply no_fence(std::string const& counter) {
    return reply::error(
        "FENCE no fence can follow where the counter is no number below 2^53/100: " + counter);
}

namespace {

/// The number that follows `last`, or the hint.
double fence_after(script_run& s, double last) {
    auto const next = last + 1;
    auto const hint = to_number(s.argument(3));
    constexpr double minute = 600'000;
    // TIME is asked only if it matters.
    auto const is_near = [&] {
        auto const seconds = to_number(s.try_call({"time"}).parts.at(0).text).value_or(0);
        return *hint <= (seconds + 61) * 10'000;
    };
    return less(next, hint) && (*hint < next + minute || is_near()) ? *hint : next;
}

} // namespace

reply acquire_with_fence(script_run& s) {
    auto const& counter = s.key(2);
    auto const is_new =
        !s.call({"set", s.key(1), s.argument(1), "nx", "px", s.argument(2)}).is_null();
    if (!is_new && !equals(s.try_call({"get", s.key(1)}), s.argument(1))) return reply::null();
    auto const c = s.try_call({"zscore", counter, "n"});
    auto const old = count_in(c);
    if (is_other_error(c) || !old) {
        if (is_new) s.call({"del", s.key(1)});
        return is_other_error(c) ? c : no_fence(counter);
    }
    auto const number = fence_after(s, *old);
    auto const renewed = s.call({"pexpire", counter, s.argument(4)});
    s.call({"zadd", counter, to_argument(number), "n"});
    if (renewed.number == 0) s.call({"pexpire", counter, s.argument(4)});
    return reply::integer(to_reply(number));
}

namespace {

bool is_below(script_run& s, std::string const& counter) {
    auto const c = s.call({"zscore", counter, "n"});
    auto const number = c.is_null() ? std::optional(0.0) : to_number(c.text);
    return !number || less(number, to_number(s.argument(2)));
}

void renew_counter(script_run& s, std::string const& counter, bool lifts) {
    auto const left = number_of(s.try_call({"pttl", counter}));
    auto const ttl = less(left, to_number(s.argument(3))) ? s.argument(3) : to_argument(left);
    if (lifts) s.call({"zadd", counter, s.argument(2), "n"});
    s.call({"pexpire", counter, ttl});
}

} // namespace

bool raise_counter(script_run& s, std::string const& counter) {
    auto const lifts = is_below(s, counter);
    renew_counter(s, counter, lifts);
    return lifts;
}

namespace {

reply raise(script_run& s) {
    if (!equals(s.call({"get", s.key(1)}), s.argument(1))) return reply::integer(0);
    return reply::integer(raise_counter(s, s.key(2)) ? 1 : -1);
}

//
// Fair keys. The line is the last of the keys.
//

std::string called_key(script_run& s, std::string const& token) {
    return s.last_key() + ':' + token;
}

std::optional<std::string> call_next(script_run& s, std::string const& ms, bool own) {
    std::string token;
    do {
        auto first = s.try_call({"lpop", s.last_key()});
        if (first.type != reply::kind::bulk) return std::nullopt;
        token = std::move(first.text);
        if (own && token == s.argument(1)) return token;
    } while (token.empty() || token == s.argument(1));
    if (s.try_call({"set", called_key(s, token), "", "px", ms}).is_error()) {
        s.try_call({"lpush", s.last_key(), token});
        return std::nullopt;
    }
    s.call({"set", s.key(1), token, "px", ms});
    return token;
}

reply release_fair(script_run& s) {
    if (!equals(s.call({"get", s.key(1)}), s.argument(1))) {
        auto const left = s.try_call({"lrem", s.last_key(), "0", s.argument(1)});
        if (left.type == reply::kind::integer && left.number > 0)
            s.try_call({"set", called_key(s, s.argument(1)), "", "px", "1"});
        return reply::integer(0);
    }
    if (call_next(s, s.argument(2), false)) return reply::integer(1);
    return s.call({"del", s.key(1)});
}

void free_own(script_run& s) {
    auto const left = number_of(s.try_call({"pttl", s.key(1)}));
    if (less(to_number(s.argument(2)), left)) s.argument(2) = to_text(left);
    s.call({"del", s.key(1)});
}

/// Empty: the script goes on.
std::optional<reply> begin_acquire(script_run& s) {
    auto const& newcomer = s.from_last(0);
    auto const holder = s.try_call({"get", s.key(1)});
    if (equals(holder, s.argument(1))) {
        free_own(s);
    } else if (!holder.is_null() ||
               (newcomer == "1" &&
                s.try_call({"lindex", s.last_key(), "0"}).type == reply::kind::bulk)) {
        return reply::null();
    } else if (newcomer != "1") {
        s.try_call({"lrem", s.last_key(), "0", s.argument(1)});
    }
    return std::nullopt;
}

std::optional<reply> begin_contend(script_run& s) {
    auto const &line = s.last_key(), &token = s.argument(1);
    auto const &at_front = s.from_last(0), &in_line_for = s.from_last(1),
               &reserved_for = s.from_last(2);
    auto const holder = s.try_call({"get", s.key(1)});
    if (equals(holder, token)) {
        free_own(s);
    } else {
        auto const next = holder.is_null() ? call_next(s, reserved_for, true) : std::nullopt;
        if (!holder.is_null() || (next && *next != token)) {
            auto const place = s.try_call({"lpos", line, token});
            if (place.is_null()) s.call({at_front == "1" ? "lpush" : "rpush", line, token});
            if (!place.is_error()) {
                s.call({"pexpire", line, in_line_for});
                s.try_call({"set", called_key(s, token), "", "px", in_line_for});
            }
            auto const left = s.call({"pttl", s.key(1)}).number;
            return reply::integer(left < 0 ? -2 : -3 - left);
        }
    }
    s.try_call({"set", called_key(s, token), "", "px", reserved_for});
    return std::nullopt;
}

} // namespace

reply take(script_run& s) {
    s.call({"set", s.key(1), s.argument(1), "px", s.argument(2)});
    return reply::integer(1);
}

namespace {

template <std::optional<reply> (*Begin)(script_run&), reply (*End)(script_run&)>
reply in_turn(script_run& s) {
    auto const refusal = Begin(s);
    return refusal ? *refusal : End(s);
}

//
// Locks on several keys
//

reply refuse(reply const& value, std::size_t i) {
    return is_other_error(value) ? value : reply::integer(-static_cast<std::int64_t>(i));
}

template <bool Fenced>
reply acquire_set(script_run& s) {
    auto const k = s.key_count() / (Fenced ? 2 : 1);
    constexpr std::size_t before = Fenced ? 4 : 2; // the tokens of earlier tenures
    std::vector<bool> ours(k + 1);
    for (std::size_t i = 1; i <= k; ++i) {
        auto const v = s.try_call({"get", s.key(i)});
        ours[i] = equals(v, s.argument(1));
        if (ours[i] || v.is_null()) continue;
        auto const prior = s.optional_argument(before + i);
        if (!prior || prior->empty() || !equals(v, *prior)) return refuse(v, i);
    }
    double last = 0;
    for (std::size_t i = 1; Fenced && i <= k; ++i) {
        auto const c = s.try_call({"zscore", s.key(k + i), "n"});
        auto const n = count_in(c);
        if (!n) return is_other_error(c) ? c : no_fence(s.key(k + i));
        last = std::max(last, *n);
    }
    auto const number = Fenced ? fence_after(s, last) : 1;
    std::vector<std::string> taken;
    auto const fails = [&](reply const& r) {
        if (r.is_error()) {
            for (auto const& key : taken) s.try_call({"del", key});
        }
        return r.is_error();
    };
    for (std::size_t i = 1; i <= k; ++i) {
        if (ours[i] && !is_short(s, s.key(i))) continue;
        auto const r = ours[i] ? s.try_call({"pexpire", s.key(i), s.argument(2)})
                               : s.try_call({"set", s.key(i), s.argument(1), "px", s.argument(2)});
        if (fails(r)) return r;
        if (!ours[i]) taken.push_back(s.key(i));
    }
    for (std::size_t i = 1; Fenced && i <= k; ++i) {
        auto const& counter = s.key(k + i);
        for (auto const& step :
             std::initializer_list<command_line>{{"pexpire", counter, s.argument(4)},
                                                 {"zadd", counter, to_argument(number), "n"},
                                                 {"pexpire", counter, s.argument(4)}}) {
            auto const r = s.try_call(step);
            if (fails(r)) return r;
        }
    }
    return reply::integer(to_reply(number));
}

/// The refusal, if not all of `k` keys are ours.
std::optional<reply> compare_set(script_run& s, std::size_t k) {
    for (std::size_t i = 1; i <= k; ++i) {
        auto const v = s.try_call({"get", s.key(i)});
        if (!equals(v, s.argument(1))) return refuse(v, i);
    }
    return std::nullopt;
}

reply extend_set(script_run& s) {
    for (std::size_t i = 1; i <= s.key_count(); ++i) {
        auto const v = s.try_call({"get", s.key(i)});
        if (equals(v, s.argument(1))) continue;
        return is_tombstone(v) ? show(v) : refuse(v, i);
    }
    for (std::size_t i = 1; i <= s.key_count(); ++i) extend_key(s, s.key(i));
    return reply::integer(1);
}

reply raise_set(script_run& s) {
    auto const k = s.key_count() / 2;
    if (auto const refusal = compare_set(s, k)) return *refusal;
    std::vector<bool> lifts;
    for (std::size_t i = 1; i <= k; ++i) lifts.push_back(is_below(s, s.key(k + i)));
    for (std::size_t i = 1; i <= k; ++i) renew_counter(s, s.key(k + i), lifts[i - 1]);
    return reply::integer(std::find(lifts.begin(), lifts.end(), false) == lifts.end() ? 1 : 0);
}

reply release_set(script_run& s) {
    auto result = reply::integer(1);
    for (std::size_t i = 1; i <= s.key_count(); ++i) {
        auto const v = s.try_call({"get", s.key(i)});
        if (equals(v, s.argument(1))) {
            s.call({"del", s.key(i)});
        } else if (is_other_error(v)) {
            result = v;
        } else if (!result.is_error()) {
            result = reply::integer(0);
        }
    }
    return result;
}

reply inspect_set(script_run& s) {
    for (std::size_t i = 1; i <= s.key_count(); ++i) {
        auto const v = s.try_call({"get", s.key(i)});
        if (v.is_null() || equals(v, s.argument(1))) continue;
        if (is_other_error(v)) return v;
        auto const size = static_cast<std::size_t>(to_number(s.argument(2)).value_or(0));
        return reply::list(reply::kind::array,
                           {reply::integer(static_cast<std::int64_t>(i)),
                            s.try_call({"pttl", s.key(i)}),
                            v.is_error() ? s.try_call({"type", s.key(i)}) : reply::bulk("string"),
                            reply::bulk(v.is_error() ? std::string() : v.text.substr(0, size))});
    }
    return reply::list(reply::kind::array, {reply::integer(0)});
}

//
// Revocations
//

reply revoke(script_run& s) {
    auto const v = s.try_call({"get", s.key(1)});
    if (is_other_error(v)) return v;
    if (!equals(v, s.argument(1))) return reply::integer(0);
    s.call({"set", s.key(1), s.argument(2), "keepttl"});
    return reply::integer(1);
}

//
// All of them
//

native_script make(std::string_view text, std::size_t keys, std::size_t arguments,
                   reply (*body)(script_run&), bool for_any_number = false) {
    boost::hash2::sha1_160 sha;
    sha.update(text.data(), text.size());
    return {text, to_string(sha.result()), keys, arguments, body, for_any_number};
}

} // namespace

std::span<native_script const> native_scripts() {
    namespace text = holdfast::redis;
    static std::array const all{
        make(text::release_script, 1, 1, release),
        make(text::extend_script, 1, 2, extend),
        make(text::fenced_acquire_script, 2, 4, acquire_with_fence),
        make(text::raise_script, 2, 3, raise),
        make(text::fair_release_script, 2, 2, release_fair),
        make(text::fair_acquire_script, 2, 3, in_turn<begin_acquire, take>),
        make(text::fair_fenced_acquire_script, 3, 5, in_turn<begin_acquire, acquire_with_fence>),
        make(text::fair_contend_script, 2, 5, in_turn<begin_contend, take>),
        make(text::fair_fenced_contend_script, 3, 7, in_turn<begin_contend, acquire_with_fence>),
        make(text::set_release_script, 1, 1, release_set, true),
        make(text::set_extend_script, 1, 2, extend_set, true),
        make(text::set_acquire_script, 1, 2, acquire_set<false>, true),
        make(text::set_fenced_acquire_script, 2, 4, acquire_set<true>, true),
        make(text::set_raise_script, 2, 3, raise_set, true),
        make(text::set_inspect_script, 1, 2, inspect_set, true),
        make(text::permit_take_script, 2, 5, permit_take),
        make(text::permit_fenced_take_script, 3, 7, permit_take_with_fence),
        make(text::permit_extend_script, 2, 3, permit_extend),
        make(text::permit_raise_script, 3, 4, permit_raise),
        make(text::permit_release_script, 2, 1, permit_release),
        make(text::permit_peek_script, 2, 3, permit_peek),
        make(text::read_acquire_script, 4, 4, read_acquire),
        make(text::read_fenced_acquire_script, 5, 6, read_acquire_with_fence),
        make(text::read_extend_script, 2, 2, read_extend),
        make(text::read_raise_script, 5, 3, read_raise),
        make(text::read_release_script, 4, 2, read_release),
        make(text::write_acquire_script, 4, 4, write_acquire),
        make(text::write_fenced_acquire_script, 5, 6, write_acquire_with_fence),
        make(text::write_release_script, 4, 3, write_release),
        make(text::revoke_script, 1, 2, revoke),
        make(text::revoke_reader_script, 2, 2, revoke_reader),
        make(text::revoke_permit_script, 2, 2, revoke_permit),
    };
    return all;
}

reply run(native_script const& script, database& d, command_line keys, command_line arguments,
          std::function<void(std::string const&)> on_read) {
    auto const fits = script.for_any_number
                          ? !keys.empty() && keys.size() % script.keys == 0 &&
                                arguments.size() >= script.arguments
                          : keys.size() == script.keys && arguments.size() == script.arguments;
    if (!fits) {
        return reply::error("ERR the embedded instance runs this script with " +
                            std::to_string(script.keys) + " keys and " +
                            std::to_string(script.arguments) + " arguments only");
    }
    script_run s(d, std::move(keys), std::move(arguments), std::move(on_read));
    try {
        return script.body(s);
    } catch (script_failure const& f) {
        return reply::error(f.text + " script: " + script.digest + ", on @user_script:1.");
    }
}

} // namespace holdfast::testing
