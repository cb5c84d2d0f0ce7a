// A server that answers any one question wrongly does no harm: the process lives, memory stays
// bounded, and locks work with the other servers. The status shows the reason. When the server
// answers rightly again, the client uses it.
#include <holdfast/client.hpp>

#include "integration/test_client.hpp"
#include "support/fake_server.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

using asio::awaitable;
constexpr auto settled = asio::as_tuple(asio::use_awaitable);

//
// Points: the questions with a wrong answer
//

enum class point {
    hello,
    tracking,
    script_load,
    config_get,
    time,
    info,
    set,      // an acquire
    fenced,   // an acquire with a fence
    caching,  // for a waiter
    pttl,     // for a waiter, or for the holder's name
    type,     // for the holder's name
    getrange, // for the holder's name
    extend,
    release,
    // Of a semaphore with one permit
    take,
    take_fenced,
    peek, // for a waiter
    extend_permit,
    release_permit,
    ping,
};

struct named_point {
    point at;
    char const* name;
};

constexpr std::array busy_points{
    named_point{point::hello, "HELLO"},
    named_point{point::tracking, "CLIENT TRACKING"},
    named_point{point::script_load, "SCRIPT LOAD"},
    named_point{point::config_get, "CONFIG GET"},
    named_point{point::time, "TIME"},
    named_point{point::info, "INFO"},
    named_point{point::set, "SET"},
    named_point{point::fenced, "EVALSHA to acquire"},
    named_point{point::caching, "CLIENT CACHING"},
    named_point{point::pttl, "PTTL"},
    named_point{point::type, "TYPE"},
    named_point{point::getrange, "GETRANGE"},
    named_point{point::extend, "EVALSHA to extend"},
    named_point{point::release, "EVALSHA to release"},
    named_point{point::take, "EVALSHA to take a permit"},
    named_point{point::take_fenced, "EVALSHA to take a permit with a fence"},
    named_point{point::peek, "EVALSHA to look at permits"},
    named_point{point::extend_permit, "EVALSHA to extend a permit"},
    named_point{point::release_permit, "EVALSHA to release a permit"},
};

bool is_script(command_line const& words, std::string_view keys, std::size_t size) {
    return (is_command(words, "EVALSHA") || is_command(words, "EVAL")) && words.size() == size &&
           words[2] == keys;
}
bool is_release(command_line const& words) {
    return is_script(words, "1", 5);
}
bool is_extension(command_line const& words) {
    return is_script(words, "1", 6);
}
bool is_fenced_acquire(command_line const& words) {
    return is_script(words, "2", 9);
}
bool is_of_permits(command_line const& words, std::string_view keys, std::size_t size) {
    return is_script(words, keys, size) && words[4].ends_with(":until");
}
bool is_take(command_line const& words) {
    return is_of_permits(words, "2", 10);
}
bool is_fenced_take(command_line const& words) {
    return is_of_permits(words, "3", 13);
}
// The last word is how much of a token it wants to see, or the slot.
bool is_peek(command_line const& words) {
    return is_of_permits(words, "2", 8) && words[7] == std::to_string(max_token_size);
}
bool is_extension_of_permit(command_line const& words) {
    return is_of_permits(words, "2", 8) && words[7] == "0";
}
bool is_release_of_permit(command_line const& words) {
    return is_of_permits(words, "2", 6);
}
bool is_raise(command_line const& words) {
    return (is_script(words, "2", 8) && !words[4].ends_with(":until")) ||
           is_of_permits(words, "3", 10);
}

bool is_at(point p, command_line const& words) {
    switch (p) {
    case point::hello:
        return is_command(words, "HELLO");
    case point::tracking:
        return is_command(words, "CLIENT", "TRACKING");
    case point::script_load:
        return is_command(words, "SCRIPT", "LOAD");
    case point::config_get:
        return is_command(words, "CONFIG", "GET");
    case point::time:
        return is_command(words, "TIME");
    case point::info:
        return is_command(words, "INFO");
    case point::set:
        return is_command(words, "SET");
    case point::fenced:
        return is_fenced_acquire(words);
    case point::caching:
        return is_command(words, "CLIENT", "CACHING");
    case point::pttl:
        return is_command(words, "PTTL");
    case point::type:
        return is_command(words, "TYPE");
    case point::getrange:
        return is_command(words, "GETRANGE");
    case point::extend:
        return is_extension(words);
    case point::release:
        return is_release(words);
    case point::take:
        return is_take(words);
    case point::take_fenced:
        return is_fenced_take(words);
    case point::peek:
        return is_peek(words);
    case point::extend_permit:
        return is_extension_of_permit(words);
    case point::release_permit:
        return is_release_of_permit(words);
    case point::ping:
        return is_command(words, "PING");
    }
    return false;
}

bool is_of_permits(point p) {
    return p >= point::take && p <= point::release_permit;
}

bool is_of_probe(point p) {
    return p <= point::info;
}
// True if the client can work without the answer.
bool is_informative(point p) {
    return (p >= point::tracking && p <= point::time) ||
           (p >= point::caching && p <= point::getrange) || p == point::peek || p == point::ping;
}

//
// Faults: the wrong answers
//

enum class effect {
    malformed,    // no RESP3 that servers speak: not_redis
    disconnected, // unreachable
    hangs,        // timed_out
    error,        // an error of the server: rejected, if the answer is needed
    wrong_type,   // not_redis, if the answer is needed
    mixes_up,     // later replies answer the wrong questions: any result, but no hang
    surplus,      // the same, and the session must end
    harmless,
};

struct fault {
    char const* name;
    effect outcome;
    std::function<std::string(std::string const& right)> answer;
    std::string says = {}; // a part of the reason
    char type = 0;         // for wrong_type: the type in RESP
    bool floods = false;
    bool computes = false; ///< needs so much of a processor that one point comes after the other

    friend std::ostream& operator<<(std::ostream& out, fault const& f) { return out << f.name; }
};

#ifdef HOLDFAST_TEST_SANITIZED
constexpr std::size_t many = 20'000;
#else
constexpr std::size_t many = 100'000;
#endif

fault in_place(char const* name, effect outcome, std::string bytes, std::string says = {}) {
    return {.name = name,
            .outcome = outcome,
            .answer = [bytes = std::move(bytes)](std::string const&) { return bytes; },
            .says = std::move(says)};
}

/// `type`: the type that the bytes stand for; by default that of the first byte.
fault of_type(char const* name, std::string bytes, char type = '\0') {
    auto f = in_place(name, effect::wrong_type, std::move(bytes));
    f.type = type != '\0' ? type : f.answer({})[0];
    if (f.type == '-' || f.type == '!') f.outcome = effect::error;
    return f;
}

fault flood(char const* name, effect outcome, std::string start, std::string filler,
            std::string says = {}) {
    auto f = in_place(name, outcome, fake_server::then_flood(start, filler), std::move(says));
    f.floods = true;
    return f;
}

std::vector<fault> all_faults() {
    constexpr auto no_length = "length";
    constexpr auto too_long = "more than";
    std::vector<fault> all{
        // A reply of each type
        of_type("simple string", "+wrong\r\n"),
        of_type("error", "-ERR wrong\r\n"),
        of_type("number", ":7\r\n"),
        of_type("null", "_\r\n"),
        of_type("null of RESP2", "$-1\r\n", '_'),
        of_type("null array of RESP2", "*-1\r\n", '_'),
        of_type("boolean", "#t\r\n"),
        of_type("double", ",1.5\r\n"),
        of_type("big number", "(12345678901234567890123\r\n"),
        of_type("bulk string", "$5\r\nwrong\r\n"),
        of_type("bulk error", "!9\r\nERR wrong\r\n"),
        of_type("verbatim string", "=9\r\ntxt:wrong\r\n"),
        of_type("empty array", "*0\r\n"),
        of_type("array of one", "*1\r\n+OK\r\n"),
        of_type("array of three", "*3\r\n:1\r\n:1\r\n:1\r\n"),
        of_type("array of arrays", "*1\r\n*1\r\n*1\r\n+OK\r\n"),
        of_type("set", "~1\r\n+OK\r\n"),
        of_type("map", "%1\r\n+OK\r\n+OK\r\n"),
        of_type("zero bytes", "$4\r\n\0\0\0\0\r\n"s),
        of_type("zero bytes in a line", "+\0OK\0\r\n"s),
        // Wrong lengths and counts
        in_place("negative length", effect::malformed, "$-2\r\n", no_length),
        in_place("negative count", effect::malformed, "*-2\r\n", no_length),
        in_place("huge length", effect::malformed, "$9999999999\r\n", too_long),
        in_place("largest length", effect::malformed, "$18446744073709551615\r\n", too_long),
        in_place("length beyond the largest", effect::malformed, "$18446744073709551616\r\n",
                 too_long),
        in_place("huge count", effect::malformed, "*99999999\r\n", too_long),
        in_place("map that overflows", effect::malformed, "%9223372036854775808\r\n", too_long),
        in_place("longer than announced", effect::malformed, "$2\r\nabcd\r\n", "longer"),
        in_place("no number", effect::malformed, ":abc\r\n", "number"),
        in_place("array that is too short", effect::mixes_up, "*9\r\n+OK\r\n"),
        // Bytes that crash the parser of Boost.Redis
        in_place("no length of a string", effect::malformed, "$\r\n", no_length),
        in_place("no length of a verbatim string", effect::malformed, "=\r\n", no_length),
        in_place("no length of an error", effect::malformed, "!\r\n", no_length),
        in_place("no length within a push", effect::malformed, ">1\r\n$\r\n", no_length),
        in_place("streamed string", effect::malformed, "$?\r\n;4\r\nabcd\r\n;0\r\n", no_length),
        in_place("end of a streamed string", effect::malformed, ";0\r\n", "RESP3"),
        in_place("empty line", effect::malformed, "\r\n", "RESP3"),
        in_place("deep nesting", effect::malformed, repeated(1000, "*1\r\n")),
        in_place("attribute", effect::malformed, "|1\r\n+ttl\r\n:1\r\n", "RESP3"),
        in_place("zeros", effect::malformed, std::string(8, '\0'), "RESP3"),
        in_place("another protocol", effect::malformed, "HTTP/1.1 400 Bad Request\r\n\r\n",
                 "RESP3"),
        in_place("push within an array", effect::malformed, "*2\r\n+a\r\n>1\r\n+p\r\n+b\r\n",
                 "push"),
        // Endless replies
        flood("endless line", effect::malformed, "+", std::string(1024, 'x'), too_long),
        flood("endless string", effect::malformed, "$9999999999\r\n", std::string(1024, 'x'),
              too_long),
        flood("endless array", effect::malformed, "*300000\r\n", repeated(64, "+0123456789\r\n"),
              too_long),
        flood("endless replies", effect::surplus, "", "+OK\r\n"),
        // Connections that end, or fall silent
        in_place("close", effect::disconnected, fake_server::then_close("")),
        in_place("reset", effect::disconnected, fake_server::then_reset("")),
        {.name = "half a reply and close",
         .outcome = effect::disconnected,
         .answer =
             [](std::string const& right) {
                 return fake_server::then_close(right.substr(0, right.size() / 2));
             }},
        in_place("silence", effect::hangs, fake_server::then_silent("")),
        {.name = "half a reply and silence",
         .outcome = effect::hangs,
         .answer =
             [](std::string const& right) {
                 return fake_server::then_silent(right.substr(0, right.size() / 2));
             }},
        in_place("half a string and silence", effect::hangs,
                 fake_server::then_silent("$100\r\nabc")),
        // More replies than questions
        {.name = "two replies",
         .outcome = effect::surplus,
         .answer = [](std::string const& right) { return right + right; }},
        {.name = "OK on top",
         .outcome = effect::surplus,
         .answer = [](std::string const& right) { return right + "+OK\r\n"; }},
        {.name = "pushes of other kinds",
         .outcome = effect::harmless,
         .answer =
             [](std::string const& right) {
                 return ">0\r\n>1\r\n+message\r\n>3\r\n+invalidate\r\n:1\r\n*1\r\n*0\r\n" + right;
             }},
        {.name = "many pushes",
         .outcome = effect::harmless,
         .answer = [pushes = repeated(many, resp::invalidation("other"))](
                       std::string const& right) { return pushes + right; },
         .computes = true},
    };
    all.push_back({.name = "attribute before the reply",
                   .outcome = effect::malformed,
                   .answer = [](std::string const& right) { return "|1\r\n+a\r\n:1\r\n" + right; },
                   .says = "RESP3"});
    return all;
}

// True if a correct server may also give this answer.
bool is_legitimate(point p, fault const& f) {
    switch (p) {
    case point::hello: // after an error RESP2 follows
        return f.type == '%' || f.outcome == effect::error;
    case point::info: // as if the ACL forbade it
        return f.type == '_';
    case point::set:
        return f.type == '_';
    case point::fenced:
        return f.type == '_' || f.type == ':';
    default:
        return false;
    }
}

//
// The server
//

// A server that can vote, and answers one question wrongly.
class hostile_server {
public:
    hostile_server(point p, fault const& f)
        : at_{p}
        , fault_{f} {}

    std::string address() const { return fake_.address(); }
    std::size_t hits() const { return hits_; }
    std::size_t accepted() const { return fake_.accepted(); }
    std::size_t most_sent() const { return fake_.most_sent(); }
    void be_good() { good_ = true; }
    void push(std::string const& bytes) { fake_.push(bytes); }

    void give_to_another(std::string const& key) {
        std::lock_guard const lock(mutex_);
        tokens_[key] = "another:0123456789";
    }
    void free(std::string const& key) {
        {
            std::lock_guard const lock(mutex_);
            tokens_.erase(key);
        }
        fake_.push(resp::invalidation(key));
    }

private:
    std::string answer(command_line const& words) {
        auto right = right_answer(words);
        if (good_ || !is_at(at_, words)) return right;
        ++hits_;
        return fault_.answer(right);
    }

    std::string right_answer(command_line const& words) {
        std::lock_guard const lock(mutex_);
        if (is_command(words, "HELLO")) {
            return resp::map({resp::bulk("server"), resp::bulk("redis"), resp::bulk("version"),
                              resp::bulk("7.0.15"), resp::bulk("proto"), resp::integer(3)});
        }
        if (is_command(words, "CLIENT")) return resp::simple("OK");
        if (is_command(words, "SCRIPT")) return resp::bulk(std::string(40, 'a'));
        if (is_command(words, "CONFIG")) {
            return resp::map({resp::bulk("appendfsync"), resp::bulk("everysec")});
        }
        if (is_command(words, "TIME")) {
            auto const now = std::chrono::system_clock::now().time_since_epoch();
            auto const us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
            return resp::array({resp::bulk(std::to_string(us / 1'000'000)),
                                resp::bulk(std::to_string(us % 1'000'000))});
        }
        if (is_command(words, "INFO")) return resp::bulk(info_);
        if (is_command(words, "PING")) return resp::simple("PONG");
        if (is_command(words, "SET")) {
            return tokens_.emplace(words.at(1), words.at(2)).second ? resp::simple("OK")
                                                                    : resp::null();
        }
        if (is_command(words, "PTTL")) return resp::integer(holds(words.at(1)) ? 60'000 : -2);
        if (is_command(words, "TYPE")) return resp::simple(holds(words.at(1)) ? "string" : "none");
        if (is_command(words, "GETRANGE")) {
            auto const found = tokens_.find(words.at(1));
            return resp::bulk(found == tokens_.end() ? "" : found->second);
        }
        if (is_fenced_acquire(words)) {
            if (!tokens_.emplace(words[3], words[5]).second) return resp::null();
            return resp::integer(++counter_);
        }
        if (is_raise(words)) {
            auto const& token = words[words[2] == "3" ? 6 : 5];
            return resp::integer(holds(words[3], token) ? 1 : 0);
        }
        if (is_extension(words)) return resp::integer(holds(words[3], words[4]) ? 1 : 0);
        if (is_take(words)) {
            return resp::integer(tokens_.emplace(words[3], words[5]).second ? 0 : taken);
        }
        if (is_fenced_take(words)) {
            if (!tokens_.emplace(words[3], words[6]).second) return resp::integer(taken);
            return resp::array({resp::integer(0), resp::integer(++counter_)});
        }
        if (is_peek(words)) {
            auto const found = tokens_.find(words[3]);
            auto const free = found == tokens_.end();
            return resp::array({resp::integer(free ? 0 : taken),
                                resp::bulk(free ? "" : found->second), resp::bulk("zset")});
        }
        if (is_extension_of_permit(words)) return resp::integer(holds(words[3], words[5]) ? 1 : 0);
        if (is_release(words) || is_release_of_permit(words)) {
            auto const held = holds(words[3], words[is_release(words) ? 4 : 5]);
            if (held) {
                tokens_.erase(words[3]);
                fake_.push(resp::invalidation(words[3]));
            }
            return resp::integer(held ? 1 : 0);
        }
        if (is_command(words, "EVALSHA")) return resp::error("NOSCRIPT no"); // of the probe
        return resp::error("ERR unknown command '" + words.at(0) + "'");
    }

    /// The answer to a take, if the permit is taken for a minute.
    static constexpr std::int64_t taken = -3 - 60'000;

    bool holds(std::string const& key) const { return tokens_.contains(key); }
    bool holds(std::string const& key, std::string const& token) const {
        auto const found = tokens_.find(key);
        return found != tokens_.end() && found->second == token;
    }

    static std::string next_info() {
        static std::atomic<int> number = 0;
        auto const id = std::to_string(1'000'000 + ++number);
        return "# Server\r\nredis_version:7.0.15\r\nrun_id:" + std::string(33, 'f') + id +
               "\r\nuptime_in_seconds:1000\r\n# Replication\r\nrole:master\r\n";
    }

    point const at_;
    fault const fault_;
    std::string const info_ = next_info();
    std::atomic<bool> good_ = false;
    std::atomic<std::size_t> hits_ = 0;
    std::mutex mutex_;
    std::map<std::string, std::string> tokens_; // by key
    std::int64_t counter_ = 0;
    fake_server fake_{[this](command_line const& words) { return answer(words); }};
};

//
// Trials
//

// The limits for events that come at once or after short timeouts, and for all trials of a test.
// They end hangs alone. A busy machine may need many seconds for the trials with many pushes.
constexpr auto limit = 60s, limit_of_all = 120s;

awaitable<void> pause() {
    asio::steady_timer timer(co_await asio::this_coro::executor, 2ms);
    co_await timer.async_wait(asio::use_awaitable);
}

template <class Predicate>
awaitable<bool> eventually(Predicate happened) {
    auto const until = std::chrono::steady_clock::now() + limit;
    while (!happened()) {
        if (std::chrono::steady_clock::now() > until) co_return false;
        co_await pause();
    }
    co_return true;
}

/// The state of an acquire that a coroutine does not await.
struct waiter {
    bool done = false;
    error how;
    lease held;
};

auto told(std::shared_ptr<waiter> const& w) {
    return [w](error e, lease l) {
        w->how = std::move(e);
        w->held = std::move(l);
        w->done = true;
    };
}
std::shared_ptr<waiter> wait_for(lock const& which) {
    auto w = std::make_shared<waiter>();
    which.acquire(told(w));
    return w;
}
std::shared_ptr<waiter> try_for(lock const& which) {
    auto w = std::make_shared<waiter>();
    which.try_acquire(told(w));
    return w;
}

/// `hanging`: if the server hangs.
client_options options_for(point p, fault const& f, client_options const& hanging) {
    auto const hangs = f.outcome == effect::hangs || f.outcome == effect::mixes_up;
    auto o = hangs ? hanging : patient();
    o.on_restart = restart_policy::off;
    o.detect_clock_jumps = p == point::time;
    return o;
}

lock_options lock_options_for(point p) {
    auto o = impatient();
    o.watchdog = false;
    o.fencing = p == point::fenced || p == point::take_fenced;
    return o;
}

lock lock_for(point p, client const& locks, std::string const& key) {
    auto const o = lock_options_for(p);
    return is_of_permits(p) ? locks.make_semaphore(key, 1, o) : locks.make_lock(key, o);
}

/// Shared by all trials of a test. Trials run concurrently, which the macros of Boost.Test do not
/// support. So each trial adds its complaints here.
struct court {
    asio::io_context context;
    std::vector<std::string> complaints;
    std::vector<std::string> running;

    template <class Trial>
    void start(std::string const& name, Trial trial) {
        running.push_back(name);
        asio::co_spawn(context, std::move(trial), [this, name](std::exception_ptr thrown) {
            std::erase(running, name);
            if (!thrown) return;
            try {
                std::rethrow_exception(thrown);
            } catch (std::exception const& e) {
                complaints.push_back(name + ": " + e.what());
            }
        });
    }
    void finish() {
        BOOST_TEST(run_until(
            context, [&] { return running.empty(); }, limit_of_all));
        for (auto const& name : running) BOOST_ERROR(name << ": has not ended");
        for (auto const& text : std::exchange(complaints, {})) BOOST_ERROR(text);
        BOOST_REQUIRE(running.empty());
    }
};

class trial {
public:
    trial(court& c, std::string name, named_point p, fault const& f)
        : court_(c)
        , name_(std::move(name))
        , at_(p.at)
        , fault_(f)
        , server_(p.at, f) {}
    trial(trial const&) = delete;
    trial& operator=(trial const&) = delete;

    /// Runs with this server as the only instance.
    awaitable<void> alone();
    /// Runs with this server as one of three instances.
    awaitable<void> among(fleet const& others);

private:
    template <class T>
    void check(T const& holds, std::string const& complaint) {
        if (!static_cast<bool>(holds)) court_.complaints.push_back(name_ + ": " + complaint);
    }
    /// One client holds a lock, and another one waits for it.
    struct contest {
        lock first, second;
        lease held;
        std::shared_ptr<waiter> next;
    };

    void check_error(error const&);
    awaitable<void> check_probe_failed(client const&);
    awaitable<void> ask_alone(client const&);
    awaitable<contest> begin_contest(client const& holder, client const& waiter, std::string key);
    awaitable<void> end_contest(contest);
    awaitable<void> take_turns(client const& holder, client const& waiter, std::string key);
    awaitable<void> wait_until_asked(client const& holder, client const& waiter);
    awaitable<void> recovers(client const&, std::size_t i, std::string key);
    awaitable<lease> hold(lock);

    bool matters() const {
        if (is_legitimate(at_, fault_)) return false;
        switch (fault_.outcome) {
        case effect::malformed:
        case effect::disconnected:
        case effect::hangs:
            return true;
        case effect::error:
            return !is_informative(at_) && at_ != point::info;
        case effect::wrong_type:
            return !is_informative(at_);
        case effect::mixes_up:
        case effect::surplus:
        case effect::harmless:
            break;
        }
        return false;
    }

    court& court_;
    std::string const name_;
    point const at_;
    fault const fault_;
    hostile_server server_;
    fleet const* others_ = nullptr;
};

// Checks that the error shows why the only vote was lost.
void trial::check_error(error const& e) {
    if (!matters()) return;
    check(static_cast<bool>(e), "an operation succeeds");
    switch (fault_.outcome) {
    case effect::malformed:
    case effect::wrong_type:
        check(e == errc::not_redis, "is not called not_redis: " + e.what());
        break;
    case effect::disconnected:
        check(e == errc::unreachable, "is not called unreachable: " + e.what());
        break;
    case effect::hangs:
        check(e == errc::instance_timeout, "is not called timed_out: " + e.what());
        break;
    case effect::error:
        check(e == errc::rejected, "is not called rejected: " + e.what());
        break;
    default:
        break;
    }
    check(e.what().find(fault_.says) != std::string::npos, "does not say why: " + e.what());
    check(e.report() != nullptr && !e.report()->instances.at(0).message.empty(),
          "has no message: " + e.what());
}

awaitable<void> trial::check_probe_failed(client const& locks) {
    if (!matters()) co_return;
    // The caller hears that the answer is overdue before the connection is given up.
    auto const is_down = [&] { return locks.instances().at(0).state == instance_state::down; };
    check(co_await eventually(is_down), "does not go down");
    auto const s = locks.instances().at(0);
    check(s.reason.failed(), "is down without a reason");
    check(!s.message.empty(), "is down without a message");
    check(s.message.find(fault_.says) != std::string::npos, "the status says: " + s.message);
    check(s.connections == 0, "has been up");
}

awaitable<lease> trial::hold(lock which) {
    auto const until = std::chrono::steady_clock::now() + limit;
    for (;;) {
        auto r = co_await which.acquire(settled);
        auto& [e, l] = r;
        if (!e) co_return std::move(l);
        if (std::chrono::steady_clock::now() > until) {
            check(false, "no lock: " + e.what());
            co_return lease{};
        }
        co_await pause();
    }
}

awaitable<void> trial::recovers(client const& locks, std::size_t i, std::string key) {
    server_.be_good();
    auto const is_up = [&] { return locks.instances().at(i).state == instance_state::up; };
    auto const l = co_await hold(lock_for(at_, locks, key));
    check(l.held(), "no lock after all");
    check(co_await eventually(is_up), "does not come up again: " + locks.instances().at(i).message);
    check(locks.instances().at(i).message.empty(), "is up with a message");
}

awaitable<void> trial::alone() {
    std::vector<address> const addresses{server_.address()};
    client const locks(court_.context.get_executor(), addresses, options_for(at_, fault_, hasty()));
    // A busy machine may need several tries to connect in so short a time.
    auto const is_up = [&] { return locks.instances().at(0).state == instance_state::up; };
    if (!is_of_probe(at_)) check(co_await eventually(is_up), "does not come up");
    co_await ask_alone(locks);
    check(server_.hits() > 0, "the point was not reached");
    if (fault_.floods) {
        check(server_.most_sent() < fake_server::flood_size / 4,
              "takes " + std::to_string(server_.most_sent()) + " bytes");
    }
    if (fault_.outcome == effect::surplus) {
        auto const ended = [&] { return server_.accepted() > 1; };
        check(co_await eventually(ended), "keeps a connection with a reply too many");
    }
    co_await recovers(locks, 0, "after");
}

awaitable<void> trial::ask_alone(client const& locks) {
    auto const k = lock_for(at_, locks, "k");
    auto const asked = [&] { return server_.hits() > 0; };
    switch (at_) {
    case point::caching:
    case point::pttl:
    case point::peek: {
        server_.give_to_another("k");
        auto const w = wait_for(k);
        check(co_await eventually(asked), "does not ask");
        if (matters()) {
            auto const heard = [&] { return w->done || server_.accepted() > 1; };
            check(co_await eventually(heard), "goes on");
        }
        check(!w->done || w->how, "two have the key");
        if (w->done) check_error(w->how);
        server_.be_good();
        auto const is_up = [&] { return locks.instances().at(0).state == instance_state::up; };
        check(co_await eventually(is_up), "does not come up again");
        server_.free("k");
        auto const ended = [&] { return w->done; };
        check(co_await eventually(ended), "waits for ever");
        break;
    }
    case point::type:
    case point::getrange: {
        server_.give_to_another("k");
        auto const r = co_await k.try_acquire(settled);
        auto const& [e, l] = r;
        check(static_cast<bool>(e), "two have the key");
        check(e == errc::contended || e == error_condition::unavailable, e.what());
        break;
    }
    case point::extend:
    case point::extend_permit: {
        auto held = co_await hold(k);
        auto const r = co_await held.extend(settled);
        if (matters()) check(std::get<0>(r), "says that it was extended");
        break;
    }
    case point::release:
    case point::release_permit: {
        auto held = co_await hold(k);
        auto const r = co_await held.release(settled);
        if (matters()) check(!std::get<0>(r).confirmed(), "says that it was released");
        break;
    }
    case point::ping:
        check(co_await eventually(asked), "does not ask");
        if (matters()) {
            auto const ended = [&] { return server_.accepted() > 1; };
            check(co_await eventually(ended), "goes on");
        }
        break;
    default: {
        // A null is a legitimate refusal, after which acquire() would wait.
        auto const w = fault_.type == '_' && !is_of_permits(at_) ? try_for(k) : wait_for(k);
        auto const ended = [&] { return w->done; };
        check(co_await eventually(ended), "waits for ever");
        auto const& e = w->how;
        if (fault_.outcome == effect::harmless) check(!e, "fails: " + e.what());
        check_error(e);
        if (is_of_probe(at_)) co_await check_probe_failed(locks);
        break;
    }
    }
}

awaitable<void> trial::among(fleet const& others) {
    others_ = &others;
    std::vector<address> addresses{server_.address()};
    for (auto const& each : others.urls()) addresses.emplace_back(each);
    auto const options = options_for(at_, fault_, unhurried());
    client const holder(court_.context.get_executor(), addresses, options);
    client const waiter(court_.context.get_executor(), addresses, options);
    auto const others_are_up = [&] {
        for (auto const* const c : {&holder, &waiter}) {
            auto const all = c->instances();
            if (all[1].state != instance_state::up || all[2].state != instance_state::up)
                return false;
        }
        return true;
    };
    check(co_await eventually(others_are_up), "keeps another instance from coming up");
    auto const asked = [&] { return server_.hits() > 0; };
    co_await take_turns(holder, waiter, name_);
    if (at_ == point::caching || at_ == point::peek) co_await wait_until_asked(holder, waiter);
    for (int i = 0; i < 20 && at_ != point::ping && !asked(); ++i) {
        co_await take_turns(holder, waiter, name_ + std::to_string(i));
    }
    check(co_await eventually(asked), "the point was not reached");
    check(co_await eventually(others_are_up), "hurts another instance");
    co_await recovers(holder, 0, name_ + " after");
    co_await recovers(waiter, 0, name_ + " after");
}

awaitable<trial::contest> trial::begin_contest(client const& holder, client const& waiter,
                                               std::string key) {
    contest c{.first = lock_for(at_, holder, key),
              .second = lock_for(at_, waiter, key),
              .held = {},
              .next = {}};
    c.held = co_await hold(c.first);
    // Without this, the second client could be the first to ask one of the other servers. Then this
    // server would be needed for a quorum of the lease.
    auto const everywhere = [&] { return copies(*others_, key) == others_->size(); };
    check(co_await eventually(everywhere), "another instance does not get the key");
    auto const refused = co_await c.second.try_acquire(settled);
    check(std::get<0>(refused), "two have the key");
    c.next = wait_for(c.second);
    co_return c;
}

// The second client holds the lock after the first.
awaitable<void> trial::end_contest(contest c) {
    auto const& w = c.next;
    auto const extended = co_await c.held.extend(settled);
    check(!std::get<0>(extended), "cannot be extended: " + std::get<0>(extended).what());
    check(c.held.held(), "is lost");
    check(!w->done || w->how, "two have the key");
    auto const released = co_await c.held.release(settled);
    check(std::get<0>(released).confirmed(), "cannot be released");
    auto const ended = [&] { return w->done; };
    check(co_await eventually(ended), "waits for ever");
    auto next = std::move(w->held);
    if (w->how) next = co_await hold(c.second);
    check(next.held(), "the next does not get it");
    auto const again = co_await c.first.try_acquire(settled);
    check(std::get<0>(again), "two have the key");
    (void)co_await next.release(settled);
}

awaitable<void> trial::take_turns(client const& holder, client const& waiter, std::string key) {
    co_await end_contest(co_await begin_contest(holder, waiter, std::move(key)));
}

// The key decides which instances a waiter asks to push: the arbiter, and after a while one more.
// For two keys of three this server is one of them. So the holders keep several keys until then.
awaitable<void> trial::wait_until_asked(client const& holder, client const& waiter) {
    auto const asked = [&] { return server_.hits() > 0; };
    std::vector<contest> all;
    for (int i = 0; i < 20 && !asked(); ++i) {
        all.push_back(co_await begin_contest(holder, waiter, name_ + std::to_string(i)));
    }
    check(co_await eventually(asked), "no waiter asks for a push");
    for (auto& c : all) co_await end_contest(std::move(c));
}

awaitable<void> run_alone(court& c, std::string name, named_point p, fault const& f) {
    trial t(c, std::move(name), p, f);
    co_await t.alone();
}

awaitable<void> run_among(court& c, std::string name, named_point p, fault const& f,
                          fleet const& others) {
    trial t(c, std::move(name), p, f);
    co_await t.among(others);
}

void start_both(court& c, named_point p, fault const& f, fleet const& good) {
    auto const name = p.name + ": "s + f.name;
    c.start(name + ", alone", run_alone(c, name + ", alone", p, f));
    c.start(name + ", among", run_among(c, name + ", among", p, f, good));
}

// The servers learn the scripts that take a lock. A lease need not have the key on a server that
// has just learned the script, and answers last. Where this server refuses extensions, such a lease
// cannot be extended.
void teach(fleet const& servers) {
    for (auto const& url : servers.urls()) {
        test_client client({address(url)});
        for (auto const fencing : {false, true}) {
            auto const options = lock_options{.ttl = 60s, .fencing = fencing};
            for (auto const& each : {client.locks.make_lock("taught", options),
                                     client.locks.make_semaphore("taught permits", 1, options)}) {
                auto const taker = wait_for(each);
                BOOST_REQUIRE(client.until([&] { return taker->done; }));
                BOOST_TEST(client.releases(taker->held), taker->how.what());
            }
        }
    }
}

std::vector<fault> const faults = all_faults();

} // namespace

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_DATA_TEST_CASE(a_wrong_answer_harms_nobody, boost::unit_test::data::make(faults), injected) {
    fleet good(2);
    teach(good);
    court c;
    for (auto const& p : busy_points) {
        start_both(c, p, injected, good);
        if (injected.computes) c.finish();
    }
    c.finish();
}

// Only an idle connection gets a PING, so these trials take longer.
BOOST_AUTO_TEST_CASE(a_wrong_answer_to_a_ping_harms_nobody) {
    fleet good(2);
    court c;
    for (auto const& f : faults) start_both(c, {point::ping, "PING"}, f, good);
    c.finish();
}

// The client reads the unexpected reply before it asks for the vote, so it must not count it.
BOOST_AUTO_TEST_CASE(an_answer_that_nobody_asked_for_is_no_vote) {
    fault const none{.name = "none", .outcome = effect::harmless, .answer = [](auto const& right) {
                         return right;
                     }};
    for (auto const* const bytes : {"+OK\r\n", ":1\r\n", "_\r\n", "+OK\r\n+OK\r\n"}) {
        BOOST_TEST_CONTEXT(bytes) {
            hostile_server fake(point::ping, none);
            test_client client({address(fake.address())}, without_questions());
            BOOST_REQUIRE(client.all_up());
            fake.give_to_another("k");
            fake.push(bytes);
            BOOST_TEST(client.until([&] { return fake.accepted() > 1; }));
            BOOST_TEST(client.all_up());
            auto const [e, l] = client.try_acquire("k");
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_TEST(!l.held());
            auto const [free, other] = client.try_acquire("other");
            BOOST_TEST(!free, free.what());
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
