#include "redis/wire/server_info.hpp"

#include <boost/nowide/utf/utf.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace holdfast::redis {

namespace {

/// Takes out the first line.
std::string_view take_line(std::string_view& text) {
    auto const end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

/// The value of `name:` at the start of a line.
std::string_view field(std::string_view info, std::string_view name) {
    while (!info.empty()) {
        auto const line = take_line(info);
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
            return line.substr(name.size() + 1);
        }
    }
    return {};
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

/// True if the text has this part, in lower or upper case.
bool mentions(std::string_view text, std::string_view part) {
    auto const same = [](char a, char b) {
        return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
    };
    return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

/// The policy by which the server may delete keys that expire; empty if there is none. All policies
/// but noeviction choose among keys that expire, or among all keys.
std::string_view eviction_policy(std::string_view info) {
    auto const policy = field(info, "maxmemory_policy");
    auto const limited = field(info, "maxmemory").find_first_not_of('0') != std::string_view::npos;
    return limited && policy != "noeviction" ? name_or_number(policy) : std::string_view();
}

} // namespace

std::string_view name_or_number(std::string_view text) {
    constexpr std::string_view known =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+~";
    constexpr std::size_t longest = 32;
    auto const fits = text.size() <= longest && text.find_first_not_of(known) == text.npos;
    return fits ? text : std::string_view("unknown");
}

dialect server_info::speaks() const {
    if (product == "valkey") {
        if (at_least(version, 9, 0)) return dialect::delifeq;
    } else if (product == "redis" && at_least(version, 8, 4)) {
        return dialect::delex;
    }
    return dialect::scripts;
}

namespace {

/// The text as a number; empty if it is anything else, or the number is too large.
std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t n = 0;
    auto const* const end = text.data() + text.size();
    auto const read = std::from_chars(text.data(), end, n);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    return n;
}

std::uint64_t count_in(std::string_view text) {
    std::uint64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}

/// The value of `name=` in a list with commas.
std::string_view part(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        auto const item = list.substr(0, list.find(','));
        if (item.starts_with(name) && item.size() > name.size() && item[name.size()] == '=') {
            return item.substr(name.size() + 1);
        }
        list.remove_prefix(std::min(item.size() + 1, list.size()));
    }
    return {};
}

// slave0:ip=127.0.0.1,port=7001,state=online,offset=1234,lag=0
bool is_replica_line(std::string_view line) {
    constexpr std::string_view name = "slave";
    if (!line.starts_with(name)) return false;
    auto const number = line.substr(name.size(), line.find(':') - name.size());
    return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

std::optional<protocol::replica_list> parse_replicas(std::string_view info) {
    auto const listed = field(info, "connected_slaves");
    if (listed.empty()) return std::nullopt;
    protocol::replica_list result{.offset = count_in(field(info, "master_repl_offset"))};
    while (!info.empty()) {
        auto const line = take_line(info);
        if (!is_replica_line(line)) continue;
        auto const replica = line.substr(line.find(':') + 1);
        if (part(replica, "state") != "online") continue;
        result.acknowledged.push_back(count_in(part(replica, "offset")));
    }
    return result;
}

} // namespace

std::optional<server_info> parse_info(std::string_view info) {
    server_info result;
    result.run_id = field(info, "run_id");
    auto const has_any = !result.run_id.empty() || !field(info, "redis_version").empty() ||
                         !field(info, "role").empty();
    if (!has_any) return std::nullopt;
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
    result.is_dragonfly = !field(info, "dragonfly_version").empty();
    result.replicas = parse_replicas(info);
    result.uptime = whole_number(field(info, "uptime_in_seconds"));
    result.tracked_keys = whole_number(field(info, "tracking_total_keys")).value_or(0);
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
    static constexpr std::array<rule, 10> rules{{
        {"WRONGPASS", errc::access_denied},
        {"NOAUTH", errc::access_denied},
        {"NOPERM", errc::access_denied},
        {"DENIED", errc::access_denied}, // protected mode
        {"ERR invalid password", errc::access_denied},
        {"ERR Client sent AUTH, but no password is set", errc::access_denied},
        {"READONLY", errc::read_only},
        {"UNBLOCKED", errc::read_only}, // demoted while the command waited
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
         {"ACL failure in script", "The user executing the script can't"}) {
        if (server_error.find(denied) != server_error.npos) return errc::access_denied;
    }
    auto const* const found = std::find_if(rules.begin(), rules.end(), [&](rule const& r) {
        return server_error.starts_with(r.prefix);
    });
    return found != rules.end() ? found->code : errc::rejected;
}

// Each product, and each service before one, has a text of its own.
bool is_unknown_command(std::string_view server_error) {
    constexpr std::array<std::string_view, 5> texts{"unknown command", "unknown subcommand",
                                                    "unsupported command", "not supported",
                                                    "not available"};
    auto const beginning = server_error.substr(0, 256);
    return std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return mentions(beginning, text); });
}

bool is_switched_off(std::string_view server_error) {
    constexpr std::array<std::string_view, 5> texts{"disabled", "forbidden", "not allowed",
                                                    "not permitted", "not enabled"};
    auto const beginning = server_error.substr(0, 256);
    return server_error.starts_with("ERR ") &&
           std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return mentions(beginning, text); });
}

bool is_unavailable(std::string_view server_error) {
    return classify(server_error) == errc::access_denied || is_unknown_command(server_error) ||
           is_switched_off(server_error);
}

bool is_passing(std::string_view server_error) {
    constexpr std::array<std::string_view, 14> beginnings{
        "LOADING",    "BUSY",
        "OOM",        "READONLY",
        "MASTERDOWN", "MISCONF",
        "MOVED",      "CLUSTERDOWN",
        "UNBLOCKED",  "TRYAGAIN",
        "NOREPLICAS", "ASK",
        "NOQUORUM",   "ERR max number of clients"};
    return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view beginning) {
        return server_error.starts_with(beginning);
    });
}

std::string_view shown_refusal(std::string_view server_error) {
    constexpr std::array<std::string_view, 14> known{
        "WRONGPASS invalid username-password pair",
        "NOAUTH Authentication required",
        "NOAUTH HELLO must be called with the client already authenticated",
        "NOPERM this user has no permissions to run the 'hello' command",
        "NOPERM this user has no permissions to run the 'auth' command",
        "NOPROTO unsupported protocol version",
        "DENIED Redis is running in protected mode",
        "ERR invalid password",
        "ERR Client sent AUTH, but no password is set",
        "ERR AUTH <password> called without any password configured for the default user",
        "ERR unknown command 'HELLO'",
        "ERR unknown command `HELLO`",
        "ERR unknown command 'AUTH'",
        "unsupported command 'HELLO'"};
    for (auto const text : known) {
        if (server_error.starts_with(text)) return text;
    }
    constexpr std::string_view capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    constexpr std::array<std::string_view, 6> codes{"WRONGPASS", "NOAUTH",  "NOPERM",
                                                    "DENIED",    "NOPROTO", "ERR"};
    auto const code = server_error.substr(0, server_error.find_first_not_of(capitals));
    auto const* const found = std::find(codes.begin(), codes.end(), code);
    return found != codes.end() ? *found : std::string_view("an error of unknown wording");
}

std::string_view without_arguments(std::string_view server_error) {
    return server_error.substr(0, server_error.find(", with args beginning with"));
}

namespace {

using utf8 = boost::nowide::utf::utf_traits<char>;

/// The end of the whole characters in the first `most` bytes.
std::size_t end_within(std::string const& text, std::size_t most) {
    while (most > 0 && utf8::is_trail(text[most])) --most;
    return most;
}

bool is_utf8(std::string const& text) {
    for (auto at = text.begin(); at != text.end();) {
        if (!boost::nowide::utf::is_valid_codepoint(utf8::decode(at, text.end()))) return false;
    }
    return true;
}

/// True for characters that act on a terminal, or on the order of other text: controls, line and
/// paragraph separators, and those of the bidirectional algorithm
/// (https://www.unicode.org/reports/tr9/, section 2).
bool acts(boost::nowide::utf::code_point c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

} // namespace

std::string harmless(std::string text) {
    if (!is_utf8(text)) {
        std::ranges::replace_if(
            text, [](unsigned char c) { return c >= 0x80; }, '?');
    }
    std::string shown;
    shown.reserve(text.size());
    for (auto at = text.cbegin(); at != text.cend();) {
        auto const start = at;
        if (acts(utf8::decode(at, text.cend()))) {
            shown += ' ';
        } else {
            shown.append(start, at);
        }
    }
    return shown;
}

namespace {

// Secrets are masked before the text is cut: a cut one would not be found.
template <class Mask>
std::string one_line(std::string_view message, std::size_t most, Mask mask) {
    std::string text(without_arguments(message));
    mask(text);
    text = harmless(std::move(text));
    if (text.size() > most) {
        text.resize(end_within(text, most));
        text += "...";
    }
    return text;
}

} // namespace

std::string presentable(std::string_view message, secret_list const& secrets, std::size_t most) {
    return one_line(message, most, [&](std::string& text) { secrets.mask(text); });
}

std::string presentable(std::string_view message, std::string_view secret) {
    return one_line(message, longest_text,
                    [&](std::string& text) { secret_list::mask(text, secret); });
}

} // namespace holdfast::redis
