#include "redis/server_info.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace holdfast::redis {

namespace {

/// The value of `name:` at the start of a line.
std::string_view field(std::string_view info, std::string_view name) {
    for (std::size_t at = 0; at < info.size();) {
        auto const end = std::min(info.find('\n', at), info.size());
        auto line = info.substr(at, end - at);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
            return line.substr(name.size() + 1);
        }
        at = end + 1;
    }
    return {};
}

/// The text if it looks like a name or a version, else "unknown".
std::string_view name_or_number(std::string_view text) {
    constexpr std::string_view known =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+~";
    constexpr std::size_t longest = 32;
    auto const fits = text.size() <= longest && text.find_first_not_of(known) == text.npos;
    return fits ? text : std::string_view("unknown");
}

bool at_least(std::string_view version, unsigned major, unsigned minor) {
    unsigned have_major = 0;
    unsigned have_minor = 0;
    auto const* const end = version.data() + version.size();
    auto const first = std::from_chars(version.data(), end, have_major);
    if (first.ec != std::errc{} || first.ptr == end) return false;
    std::from_chars(first.ptr + 1, end, have_minor);
    return have_major > major || (have_major == major && have_minor >= minor);
}

/// The policy by which the server may delete keys that expire; empty if there is none. All policies
/// but noeviction choose among keys that expire, or among all keys.
std::string_view eviction_policy(std::string_view info) {
    auto const policy = field(info, "maxmemory_policy");
    auto const limited = field(info, "maxmemory").find_first_not_of('0') != std::string_view::npos;
    return limited && policy != "noeviction" ? name_or_number(policy) : std::string_view();
}

} // namespace

dialect server_info::speaks() const {
    if (product == "valkey") {
        if (at_least(version, 9, 0)) return dialect::delifeq;
        if (at_least(version, 8, 1)) return dialect::set_ifeq;
    } else if (product == "redis" && at_least(version, 8, 4)) {
        return dialect::delex;
    }
    return dialect::scripts;
}

std::optional<server_info> parse_info(std::string_view info) {
    server_info result;
    result.run_id = field(info, "run_id");
    if (result.run_id.empty()) return std::nullopt;
    // Valkey reports a redis_version too: the version with which it is compatible.
    if (auto const valkey = field(info, "valkey_version"); !valkey.empty()) {
        result.product = "valkey";
        result.version = name_or_number(valkey);
    } else {
        result.product = "redis";
        result.version = name_or_number(field(info, "redis_version"));
    }
    result.replica = field(info, "role") == "slave";
    result.replication_id = field(info, "master_replid");
    result.promoted =
        field(info, "master_replid2").find_first_not_of('0') != std::string_view::npos;
    result.flushes = count_flushes(info);
    result.eviction = eviction_policy(info);
    result.logs_writes = field(info, "aof_enabled") == "1";
    auto const uptime = field(info, "uptime_in_seconds");
    std::from_chars(uptime.data(), uptime.data() + uptime.size(), result.uptime);
    return result;
}

std::uint64_t count_flushes(std::string_view info) {
    std::uint64_t sum = 0;
    for (std::string_view const command :
         {"cmdstat_flushall", "cmdstat_flushdb", "cmdstat_swapdb"}) {
        auto text = field(info, command);
        constexpr std::string_view calls = "calls=";
        if (!text.starts_with(calls)) continue;
        text.remove_prefix(calls.size());
        std::uint64_t n = 0;
        std::from_chars(text.data(), text.data() + text.size(), n);
        sum += n;
    }
    return sum;
}

errc classify(std::string_view server_error) {
    struct rule {
        std::string_view prefix;
        errc code;
    };
    static constexpr std::array<rule, 8> rules{{
        {"WRONGPASS", errc::access_denied},
        {"NOAUTH", errc::access_denied},
        {"NOPERM", errc::access_denied},
        {"ERR invalid password", errc::access_denied},
        {"ERR Client sent AUTH, but no password is set", errc::access_denied},
        {"READONLY", errc::read_only},
        {"WRONGTYPE", errc::wrong_type},
        {"FENCE", errc::invalid_fence},
    }};
    // Before Redis 7, another text wraps the error of a command in a script.
    if (server_error.starts_with("ERR Error running script")) {
        for (auto const& [prefix, code] : rules) {
            if (server_error.find(prefix) != server_error.npos) return code;
        }
    }
    for (std::string_view const denied :
         {"ACL failure in script", "The user executing the script can't run this command"}) {
        if (server_error.find(denied) != server_error.npos) return errc::access_denied;
    }
    auto const* const found = std::find_if(rules.begin(), rules.end(), [&](rule const& r) {
        return server_error.starts_with(r.prefix);
    });
    return found != rules.end() ? found->code : errc::rejected;
}

std::string presentable(std::string_view message, std::string_view secret) {
    std::string text(message.substr(0, message.find(", with args beginning with")));
    if (!secret.empty()) {
        for (auto at = text.find(secret); at != text.npos; at = text.find(secret, at + 3)) {
            text.replace(at, secret.size(), "***");
        }
    }
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
    return text;
}

} // namespace holdfast::redis
