// What a client asks about the server, and says about itself.
#include "testing/data_commands.hpp"
#include "testing/key_search.hpp"
#include "testing/lock_server.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace holdfast::testing {

namespace {

constexpr std::string_view version = "7.0.0";

reply unknown_part(std::string const& command, std::string const& part) {
    constexpr std::size_t shown = 64;
    return reply::error("ERR unknown subcommand '" + part.substr(0, shown) + "' of " + command +
                        ": the embedded instance of holdfast::testing has only those that "
                        "holdfast sends");
}

reply wrong_password() {
    return reply::error("WRONGPASS invalid username-password pair or user is disabled.");
}

} // namespace

reply lock_server::hello(client& c, command_line const& words) {
    auto protocol = c.protocol;
    if (words.size() > 1) {
        auto const asked = to_integer(words[1]);
        if (!asked) return reply::error("ERR Protocol version is not an integer or out of range");
        if (*asked != 2 && *asked != 3) return reply::error("NOPROTO unsupported protocol version");
        protocol = static_cast<int>(*asked);
    }
    auto name = c.name;
    for (std::size_t i = 2; i < words.size();) {
        auto const option = lower(words[i]);
        if (option == "auth" && i + 2 < words.size()) {
            if (words[i + 1] != "default") return wrong_password();
            i += 3;
        } else if (option == "setname" && i + 1 < words.size()) {
            name = words[i + 1];
            i += 2;
        } else {
            return reply::error("ERR Syntax error in HELLO option '" + words[i] + "'");
        }
    }
    c.protocol = protocol;
    c.name = std::move(name);
    return reply::list(reply::kind::map,
                       {reply::bulk("server"), reply::bulk("redis"), reply::bulk("version"),
                        reply::bulk(std::string(version)), reply::bulk("proto"),
                        reply::integer(protocol), reply::bulk("id"),
                        reply::integer(static_cast<std::int64_t>(c.id)), reply::bulk("mode"),
                        reply::bulk("standalone"), reply::bulk("role"), reply::bulk("master"),
                        reply::bulk("modules"), reply::list(reply::kind::array, {})});
}

// Any password will do for the default user, and there is no other one.
reply lock_server::auth(client&, command_line const& words) {
    if (words.size() == 3) return words[1] == "default" ? reply::ok() : wrong_password();
    return reply::error("ERR AUTH <password> called without any password configured for the "
                        "default user. Are you sure your configuration is correct?");
}

reply lock_server::ping(client&, command_line const& words) {
    return words.size() > 1 ? reply::bulk(words[1]) : reply::status("PONG");
}

reply lock_server::select(client&, command_line const& words) {
    if (words[1] == "0") return reply::ok();
    return reply::error("ERR DB index is out of range: the embedded instance has database 0 alone");
}

reply lock_server::client_command(client& c, command_line const& words) {
    auto const what = lower(words[1]);
    if (what == "setname" && words.size() == 3) {
        c.name = words[2];
        return reply::ok();
    }
    if (what == "tracking" && words.size() > 2) return tracking(c, words);
    if (what == "caching" && words.size() == 3) return caching(c, words);
    return unknown_part("CLIENT", words[1]);
}

reply lock_server::tracking(client& c, command_line const& words) {
    auto const on = lower(words[2]) == "on";
    if (!on && lower(words[2]) != "off") return reply::error("ERR syntax error");
    auto opts_in = false, no_loop = false;
    for (std::size_t i = 3; i < words.size(); ++i) {
        auto const option = lower(words[i]);
        if (option == "optin") {
            opts_in = true;
        } else if (option == "noloop") {
            no_loop = true;
        } else {
            return unknown_part("CLIENT TRACKING", words[i]);
        }
    }
    c.tracks = on;
    c.opts_in = on && opts_in;
    c.no_loop = on && no_loop;
    return reply::ok();
}

reply lock_server::caching(client& c, command_line const& words) {
    if (!c.opts_in) {
        return reply::error("ERR CLIENT CACHING can be called only when the client is in tracking "
                            "mode with OPTIN or OPTOUT mode enabled");
    }
    if (lower(words[2]) != "yes") return reply::error("ERR syntax error");
    c.caching = true;
    return reply::ok();
}

reply lock_server::config(client&, command_line const& words) {
    if (lower(words[1]) != "get" || words.size() < 3) return unknown_part("CONFIG", words[1]);
    std::array<std::pair<std::string_view, std::string>, 5> const settings{{
        {"no-appendfsync-on-rewrite", "no"},
        {"appendonly", "no"},
        {"appendfsync", "everysec"},
        {"maxmemory-policy", "noeviction"},
        {"tracking-table-max-keys", std::to_string(key_watches::max_keys)},
    }};
    std::vector<reply> found;
    for (auto const& setting : settings) {
        auto const asked = std::any_of(words.begin() + 2, words.end(), [&](auto const& pattern) {
            return matches(lower(pattern), setting.first);
        });
        if (!asked) continue;
        found.push_back(reply::bulk(std::string(setting.first)));
        found.push_back(reply::bulk(setting.second));
    }
    return reply::list(reply::kind::map, std::move(found));
}

// All sections, whichever are asked for.
reply lock_server::info(client&, command_line const&) {
    std::string text;
    auto const add = [&](std::string_view name, std::string const& value) {
        text += name;
        text += ':';
        text += value + "\r\n";
    };
    auto const age = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::steady_clock::now() - started_);
    text += "# Server\r\n";
    add("redis_version", std::string(version));
    add("redis_mode", "standalone");
    add("run_id", run_id_);
    add("uptime_in_seconds", std::to_string(age.count()));
    text += "\r\n# Clients\r\n";
    add("connected_clients", std::to_string(clients_.size()));
    text += "\r\n# Memory\r\n";
    add("maxmemory", std::to_string(database::max_size));
    add("maxmemory_policy", "noeviction");
    text += "\r\n# Persistence\r\n";
    add("loading", "0");
    add("aof_enabled", "0");
    text += "\r\n# Stats\r\n";
    add("tracking_total_keys", std::to_string(watches_.size()));
    text += "\r\n# Replication\r\n";
    add("role", "master");
    add("connected_slaves", "0");
    add("master_replid", replication_id_);
    add("master_replid2", std::string(replication_id_.size(), '0'));
    add("master_repl_offset", "0");
    text += "\r\n# Commandstats\r\n";
    for (auto const& [name, calls] : flushes_) {
        add("cmdstat_" + name, "calls=" + std::to_string(calls));
    }
    return reply::bulk(std::move(text));
}

// There are no replicas, so nothing can be waited for.
reply lock_server::wait(client&, command_line const& words) {
    if (!to_integer(words[1]) || !to_integer(words[2])) return not_an_integer();
    return reply::integer(0);
}

} // namespace holdfast::testing
