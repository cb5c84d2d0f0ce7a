#include "testing/native_scripts.hpp"

#include "redis/wire/kinds/lock_scripts.hpp"

#include "testing/data_commands.hpp"
#include "testing/lua_number.hpp"

#include <boost/hash2/sha1.hpp>

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace holdfast::testing {

namespace {

/// Ends a script with an error.
struct script_failure {
    std::string text;
};

} // namespace

class script_run {
public:
    script_run(database& d, command_line keys, command_line arguments)
        : database_(d)
        , keys_(std::move(keys))
        , arguments_(std::move(arguments)) {}

    // From 1, as in the scripts.
    std::string const& key(std::size_t i) const { return keys_[i - 1]; }
    std::string const& last_key() const { return keys_.back(); }
    std::string& argument(std::size_t i) { return arguments_[i - 1]; }
    /// 0: the last one; 1: the one before it.
    std::string& from_last(std::size_t i) { return arguments_[arguments_.size() - 1 - i]; }

    /// redis.pcall
    reply try_call(command_line const& words) { return run_data_command(database_, words).value(); }
    /// redis.call
    reply call(command_line const& words) {
        auto r = try_call(words);
        if (r.is_error()) throw script_failure{r.text};
        return r;
    }

private:
    database& database_;
    command_line keys_, arguments_;
};

namespace {

bool equals(reply const& r, std::string_view text) {
    return r.type == reply::kind::bulk && r.text == text;
}

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

/// a <= b
bool at_most(std::optional<double> a, std::optional<double> b) {
    if (!a || !b) fail_to_compare(a.has_value());
    return *a <= *b;
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

reply extend(script_run& s) {
    if (!equals(s.call({"get", s.key(1)}), s.argument(1))) return reply::integer(0);
    auto const left = s.try_call({"pttl", s.key(1)});
    if (less(number_of(left), to_number(s.argument(2))))
        s.call({"pexpire", s.key(1), s.argument(2)});
    return reply::integer(1);
}

/// The largest counter that another may follow, and one: 2^53 / 100.
constexpr double counter_limit = 90'071'992'547'408;

reply acquire_with_fence(script_run& s) {
    auto const& counter = s.key(2);
    if (s.call({"set", s.key(1), s.argument(1), "nx", "px", s.argument(2)}).is_null())
        return reply::null();
    auto const c = s.try_call({"get", counter});
    if (c.is_error() && c.text.find("WRONGTYPE") == c.text.npos) {
        s.call({"del", s.key(1)});
        return c;
    }
    auto const old = c.is_null()    ? std::optional(0.0)
                     : c.is_error() ? std::nullopt
                                    : to_number(c.text);
    if (old && *old >= 0 && *old - std::floor(*old) == 0 && *old < counter_limit) {
        auto const next = *old + 1;
        auto const hint = to_number(s.argument(3));
        constexpr double minute = 600'000;
        // TIME is asked only if it matters.
        auto const is_near = [&] {
            auto const seconds = to_number(s.try_call({"time"}).parts.at(0).text).value_or(0);
            return *hint <= (seconds + 61) * 10'000;
        };
        if (less(next, hint) && (*hint < next + minute || is_near())) {
            s.call({"set", counter, s.argument(3), "px", s.argument(4)});
            return reply::integer(to_reply(*hint));
        }
        // No counter has a fraction, or more digits than an integer has room for.
        s.call({"set", counter, std::to_string(to_reply(next)), "px", s.argument(4)});
        return reply::integer(to_reply(next));
    }
    s.call({"del", s.key(1)});
    return reply::error(
        "FENCE no fence can follow where the counter is no number below 2^53/100: " + counter);
}

reply raise(script_run& s) {
    auto const& counter = s.key(2);
    if (!equals(s.call({"get", s.key(1)}), s.argument(1))) return reply::integer(0);
    auto const c = s.call({"get", counter});
    auto const number = c.is_null() ? std::optional(0.0) : to_number(c.text);
    auto const left = number_of(s.try_call({"pttl", counter}));
    auto const ttl = less(left, to_number(s.argument(3))) ? s.argument(3) : to_argument(left);
    if (!number || !at_most(to_number(s.argument(2)), number)) {
        s.call({"set", counter, s.argument(2), "px", ttl});
    } else {
        s.call({"pexpire", counter, ttl});
    }
    return reply::integer(1);
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

reply take(script_run& s) {
    s.call({"set", s.key(1), s.argument(1), "px", s.argument(2)});
    return reply::integer(1);
}

template <std::optional<reply> (*Begin)(script_run&), reply (*End)(script_run&)>
reply in_turn(script_run& s) {
    auto const refusal = Begin(s);
    return refusal ? *refusal : End(s);
}

//
// All of them
//

native_script make(std::string_view text, std::size_t keys, std::size_t arguments,
                   reply (*body)(script_run&)) {
    boost::hash2::sha1_160 sha;
    sha.update(text.data(), text.size());
    return {text, to_string(sha.result()), keys, arguments, body};
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
    };
    return all;
}

reply run(native_script const& script, database& d, command_line keys, command_line arguments) {
    if (keys.size() != script.keys || arguments.size() != script.arguments) {
        return reply::error("ERR the embedded instance runs this script with " +
                            std::to_string(script.keys) + " keys and " +
                            std::to_string(script.arguments) + " arguments only");
    }
    script_run s(d, std::move(keys), std::move(arguments));
    try {
        return script.body(s);
    } catch (script_failure const& f) {
        return reply::error(f.text + " script: " + script.digest + ", on @user_script:1.");
    }
}

} // namespace holdfast::testing
