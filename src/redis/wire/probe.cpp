#include "redis/wire/probe.hpp"

#include "redis/wire/lock_kind.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace holdfast::redis {

namespace {

/// The count in the text; empty if the text is no count, or the count is more than `most`.
std::optional<std::int64_t> to_count(std::string_view text, std::int64_t most) {
    std::int64_t n = -1;
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (ec != std::errc{} || end != text.data() + text.size() || n < 0 || n > most)
        return std::nullopt;
    return n;
}

/// True for errors that any command may get from a server that has just started, or is stuck in a
/// script.
bool is_not_ready(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY") ||
           error.starts_with("ERR max number of clients");
}

/// True if the server runs scripts, but expects a key.
bool is_about_count(std::string_view error) {
    return error.find("number of arguments") != error.npos;
}

/// Whether a server that refuses HELLO in this way may talk in RESP2.
bool may_speak_resp2(std::string_view error) {
    if (error.starts_with("NOPERM")) return error.find("hello") != error.npos;
    return classify(error) != errc::access_denied;
}

/// A script that no server has: to learn whether EVALSHA is allowed.
constexpr std::string_view no_digest = "0000000000000000000000000000000000000000";

constexpr std::string_view no_text = "the answer is empty";

bool is_empty(element const& e) {
    return e.type == reply_type::null || (e.type == reply_type::blob_string && e.value.empty());
}

/// The class of a fault in the probe, for the next pause.
protocol::fault fault_of(errc cause) {
    return cause == errc::access_denied ? protocol::fault::setup : protocol::fault::broken;
}

} // namespace

/// Gathers questions in a batch.
class probe::questionnaire {
public:
    template <class... Words>
    void ask(step s, Words const&... words) {
        add({.round = static_cast<std::uint32_t>(s), .type = command_type::probe}, words...);
        ++count_;
    }
    template <class... Words>
    void add(pending_command c, Words const&... words) {
        request_.clear();
        request_.push(words...);
        append(*batch_, std::move(c), request_.payload());
    }
    unsigned count() const { return count_; }
    std::unique_ptr<batch> take() { return std::move(batch_); }

private:
    std::unique_ptr<batch> batch_ = std::make_unique<batch>();
    codec::request request_;
    unsigned count_ = 0;
};

//
// Questions
//

std::unique_ptr<batch> probe::begin(introduction const& i) {
    *this = {};
    resp2_ = skipped_hello_ = i.resp2;
    return ask_all(i);
}

std::unique_ptr<batch> probe::next(introduction const& i) {
    if (refused_ != errc{}) return nullptr;
    if (!resp2_ && !no_hello_.empty()) {
        auto reason = std::move(no_hello_);
        *this = {};
        no_hello_ = std::move(reason);
        heard_ = resp2_ = true;
        return ask_all(i);
    }
    // Dragonfly accepts NOLOOP, and then tracks nothing. Without it our own changes are pushed too;
    // no waiter minds them.
    auto const retracks = tracking_ && info_.is_dragonfly;
    if (phase_ == phase::all && (whole_scripts() || retracks)) {
        phase_ = phase::extra;
        questionnaire q;
        if (whole_scripts()) q.ask(step::eval, "EVAL", "return 0", 0);
        if (retracks) {
            q.ask(step::untracking, "CLIENT", "TRACKING", "OFF");
            q.ask(step::tracking, "CLIENT", "TRACKING", "ON", "OPTIN");
        }
        awaited_ = q.count();
        return q.take();
    }
    evaluate();
    return nullptr;
}

std::unique_ptr<batch> probe::ask_all(introduction const& i) {
    questionnaire q;
    votes_ = i.votes;
    has_password_ = !i.password.empty();
    auto const user = i.user.empty() ? std::string_view("default") : i.user;
    if (!resp2_ && i.password.empty()) q.ask(step::hello, "HELLO", 3, "SETNAME", i.name);
    if (!resp2_ && !i.password.empty()) {
        q.ask(step::hello, "HELLO", 3, "AUTH", user, i.password, "SETNAME", i.name);
    }
    if (resp2_ && !i.password.empty()) {
        // Servers without users take the password alone.
        if (i.user.empty()) {
            q.ask(step::authenticate, "AUTH", i.password);
        } else {
            q.ask(step::authenticate, "AUTH", user, i.password);
        }
    }
    if (resp2_) q.ask(step::name, "CLIENT", "SETNAME", i.name);
    if (i.database != 0) q.ask(step::select, "SELECT", i.database);
    // OPTIN: the server must not track the keys that our scripts read. NOLOOP: the server does not
    // push our own changes. A server may accept this in RESP2, where it has no way to push.
    if (!resp2_) q.ask(step::tracking, "CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP");
    for (auto const* const kind : lock_kinds()) {
        for (auto const text : kind->scripts) q.ask(step::load, "SCRIPT", "LOAD", text);
    }
    q.ask(step::evalsha, "EVALSHA", no_digest, 0);
    q.ask(step::fsync, "CONFIG", "GET", "*appendfsync*"); // and no-appendfsync-on-rewrite
    if (!resp2_) q.ask(step::tracking_limit, "CONFIG", "GET", "tracking-table-max-keys");
    q.ask(step::flushes, "INFO", "commandstats");
    if (i.asks_time) q.add({.type = command_type::time}, "TIME");
    if (i.waits) q.add({.type = command_type::wait}, "WAIT", 0, 1);
    q.ask(step::info, "INFO");
    awaited_ = q.count();
    if (resp2_) {
        lack(degradation::no_resp3, "HELLO", no_hello_.empty() ? "no answer" : no_hello_);
        lack(degradation::no_push, "RESP2", "it has no pushes");
    }
    return q.take();
}

bool probe::compares_natively() const {
    return info_.speaks() != dialect::scripts;
}

// Without scripts, only native compare-and-delete releases a lock.
void probe::evaluate() {
    info_.flushes = flushes_;
    if (!has_fsync_) {
        lack(degradation::no_durability_check, "CONFIG GET", "it does not report appendfsync");
    }
    if (no_eval_.empty()) return;
    if (compares_natively()) {
        // Only a script compares the key's time to live, too, so that it is never shortened.
        return lack(degradation::no_extend, "EVAL", no_eval_);
    }
    // A program that knows neither HELLO, nor INFO, nor scripts is something else.
    if (resp2_ && !has_info_) {
        auto const& reason = no_hello_.empty() ? no_evalsha_ : no_hello_;
        return refuse(errc::not_redis, reason, protocol::fault::broken);
    }
    auto const cause = classify(no_eval_);
    refuse(cause, "no way to release locks: EVALSHA: " + no_evalsha_ + "; EVAL: " + no_eval_,
           protocol::fault::setup);
}

void probe::refuse(errc cause, std::string_view message, protocol::fault f) {
    if (refused_ != errc{}) return;
    refused_ = cause;
    message_ = message;
    fault_ = f;
}

void probe::refuse(std::string_view error, std::string_view message) {
    auto const cause = classify(error);
    refuse(cause, message, fault_of(cause));
}

std::string_view probe::shown(std::string_view error) const {
    return has_password_ ? shown_refusal(error) : error;
}

void probe::lack(degradation kind, std::string_view command, std::string_view reason) {
    auto const same = [&](instance_degradation const& d) { return d.kind == kind; };
    if (std::any_of(lacks_.begin(), lacks_.end(), same)) return;
    lacks_.push_back({kind, std::string(command) + ": " + std::string(reason)});
}

//
// Answers
//

void probe::take_part(pending_command const& c, element const& e) {
    auto const s = static_cast<step>(c.round);
    heard_ = true;
    // HELLO was refused: the rest was asked in vain, and comes again.
    if (!resp2_ && !no_hello_.empty()) return;
    if (e.depth > 0) {
        auto const of_setting = s == step::fsync || s == step::tracking_limit;
        if (of_setting && e.depth == 1) take_setting(e.value);
        if (s == step::hello && e.depth == 1) take_hello(e.value);
        return;
    }
    if (!is_error(e.type)) return take_reply(s, e);
    // The server's present answers about its settings do not count. A later probe asks again.
    if (is_not_ready(e.value)) {
        return refuse(errc::unreachable, e.value, protocol::fault::busy);
    }
    auto const error = without_arguments(e.value);
    take_error(s, error.empty() ? std::string_view("an error without a text") : error);
}

void probe::take_error(step s, std::string_view error) {
    switch (s) {
    case step::hello:
        if (may_speak_resp2(error)) {
            no_hello_ = shown(error);
        } else {
            refuse(error, shown(error));
        }
        break;
    case step::authenticate:
        refuse(error, shown(error));
        break;
    case step::name: // a name in CLIENT LIST, and no more
    case step::untracking:
    case step::tracking_limit: // it is as refused as the other settings
        break;
    case step::select:
        refuse(classify(error), error, protocol::fault::setup);
        break;
    case step::tracking:
        tracking_ = false;
        lack(degradation::no_push, "CLIENT TRACKING", error);
        break;
    case step::load:
        lack(degradation::no_script_preload, "SCRIPT LOAD", error);
        break;
    case step::evalsha:
        if (error.starts_with("NOSCRIPT") || is_passing(error) || is_about_count(error)) break;
        no_evalsha_ = error;
        lack(degradation::no_script_cache, "EVALSHA", error);
        break;
    case step::eval:
        if (!is_about_count(error)) no_eval_ = error;
        break;
    case step::fsync:
        lack(degradation::no_durability_check, "CONFIG GET", error);
        break;
    case step::flushes:
        lack(degradation::no_flush_check, "INFO commandstats", error);
        break;
    case step::info:
        lack(degradation::no_restart_check, "INFO", error);
        break;
    }
}

void probe::take_reply(step s, element const& e) {
    switch (s) {
    case step::hello:
        if (e.type == reply_type::map) break;
        refuse(errc::not_redis, "the answer to HELLO is not that of Redis or Valkey",
               protocol::fault::broken);
        break;
    case step::tracking:
        tracking_ = e.type == reply_type::simple_string && e.value == "OK";
        if (!tracking_) lack(degradation::no_push, "CLIENT TRACKING", "the answer is not OK");
        break;
    case step::fsync:
        fsync_always_ = relaxed_by_rewrite_ = is_value_ = false;
        break;
    case step::tracking_limit:
        is_value_ = false;
        break;
    case step::flushes:
        flushes_ = count_flushes(e.value);
        if (is_empty(e)) lack(degradation::no_flush_check, "INFO commandstats", no_text);
        break;
    case step::info:
        if (is_empty(e)) {
            lack(degradation::no_restart_check, "INFO", no_text);
        } else {
            take_info(e.value);
        }
        break;
    case step::authenticate:
    case step::name:
    case step::select:
    case step::untracking:
    case step::load:
    case step::evalsha:
    case step::eval:
        break;
    }
}

// Fields and values in turn. INFO reports the same and more, but may be refused.
void probe::take_hello(std::string_view part) {
    if (!std::exchange(is_value_, !is_value_)) {
        field_ = part;
        return;
    }
    if (field_ == "server") info_.product = name_or_number(part);
    if (field_ == "version") info_.version = name_or_number(part);
    if (field_ == "mode" && part == "sentinel") {
        refuse(errc::rejected,
               "the server is a Sentinel: the address must be redis+sentinel://host:port/name",
               protocol::fault::setup);
    }
    if (votes_ && field_ == "role" && (part == "replica" || part == "slave")) {
        refuse(errc::read_only, "the instance is a replica", protocol::fault::broken);
    }
}

void probe::take_setting(std::string_view part) {
    if (std::exchange(is_value_, !is_value_)) {
        if (setting_ == setting::fsync) {
            has_fsync_ = true;
            fsync_always_ = part == "always";
        }
        if (setting_ == setting::relaxed_by_rewrite) relaxed_by_rewrite_ = part != "no";
        constexpr auto most = std::numeric_limits<std::int64_t>::max();
        if (setting_ == setting::tracking_limit)
            tracking_limit_ = to_count(part, most).value_or(tracking_limit_);
        return;
    }
    setting_ = part == "appendfsync"                 ? setting::fsync
               : part == "no-appendfsync-on-rewrite" ? setting::relaxed_by_rewrite
               : part == "tracking-table-max-keys"   ? setting::tracking_limit
                                                     : setting::other;
}

void probe::take_info(std::string_view text) {
    auto const info = parse_info(text);
    if (!info) {
        return refuse(errc::not_redis, "the answer to INFO is not that of Redis or Valkey",
                      protocol::fault::broken);
    }
    has_info_ = true;
    auto const before = std::exchange(info_, *info);
    if (info_.version.empty()) info_.product = before.product;
    if (info_.version.empty()) info_.version = before.version;
    if (info_.run_id.empty()) {
        lack(degradation::no_restart_check, "INFO", "it does not name the server process, run_id");
    }
    if (votes_ && info_.replica) {
        refuse(errc::read_only, "the instance is a replica", protocol::fault::broken);
    }
}

void server_check::ask(pipeline& connection) {
    pending_command const c{.type = command_type::server_check};
    if (asks_for_all_) return connection.add(c, "INFO", "all");
    connection.add(c, "INFO", "server", "replication", "memory", "persistence", "stats",
                   "commandstats");
}

void server_check::take_part(element const& e) {
    info_.reset();
    if (e.depth > 0) return;
    // Before Redis 7, INFO takes at most one section. The next server check then asks for all.
    if (is_error(e.type)) {
        if (e.value.starts_with("ERR syntax error")) asks_for_all_ = true;
        auto const syntax = e.value.starts_with("ERR syntax error");
        if (!syntax && !is_passing(e.value)) refused_ = e.value;
    } else {
        info_ = parse_info(e.value);
    }
}

void time_reply::take_part(element const& e) {
    constexpr std::int64_t most_seconds = 3'000'000'000;
    if (e.depth == 0) {
        parts_ = 0;
        valid_ = true;
        return;
    }
    auto const n = to_count(e.value, ++parts_ == 1 ? most_seconds : 999'999);
    valid_ = valid_ && n && parts_ <= 2;
    if (!valid_) return;
    shown_ = parts_ == 1 ? std::chrono::seconds(*n) : shown_ + std::chrono::microseconds(*n);
}

std::optional<std::chrono::microseconds> time_reply::take_reply() {
    if (!valid_ || parts_ != 2) return std::nullopt;
    return shown_;
}

} // namespace holdfast::redis
