#include <holdfast/options.hpp>

#include "api/option_checks.hpp"
#include "protocol/tenure/fence.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"
#include "redis/wire/token.hpp"
#include "redis/wire/tombstone.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::detail {

namespace {

void check_range(char const* name, std::chrono::milliseconds value, std::chrono::milliseconds least,
                 std::chrono::milliseconds most) {
    if (value >= least && value <= most) return;
    reject(errc::invalid_options, std::string(name) + " is " + std::to_string(value.count()) +
                                      " ms, outside " + std::to_string(least.count()) + " to " +
                                      std::to_string(most.count()) + " ms");
}

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// In quotes; of a text that was cut, with its size.
template <std::size_t Max>
std::string shown(bounded_text<Max> const& text) {
    auto const said = quoted(text.view());
    return text.too_long() ? said + ", of " + std::to_string(text.size()) + " bytes" : said;
}

} // namespace

void reject(errc code, std::string const& message) {
    throw system_error(make_error_code(code), message);
}

std::string quoted(std::string_view key) {
    constexpr std::size_t most = 64;
    std::string text(key.substr(0, most));
    std::replace_if(text.begin(), text.end(), is_control, '?');
    return '"' + text + (key.size() > most ? "...\"" : "\"");
}

void check(client_options const& o) {
    using namespace std::chrono_literals;
    check_range("instance_timeout", o.instance_timeout, 1ms, 60s);
    check_range("connect_timeout", o.connect_timeout, 1ms, 60s);
    check_range("max_reconnect_delay", o.max_reconnect_delay, 1ms, 60s);
    check_range("max_ttl", o.max_ttl, min_ttl, 24h);
    check_range("fence_ttl", o.fence_ttl, o.max_ttl, 366 * 24h);
    if (o.replicas > max_replicas && o.replicas != all_replicas) {
        reject(errc::invalid_options, "replicas is " + std::to_string(o.replicas) +
                                          "; it must be 0 to " + std::to_string(max_replicas) +
                                          ", or all_replicas");
    }
    if (o.max_pending_releases == 0)
        reject(errc::invalid_options, "max_pending_releases is 0; it must be at least 1");
    if (o.key_prefix.size() >= max_key_size) {
        reject(errc::invalid_options, "key_prefix has " + std::to_string(o.key_prefix.size()) +
                                          " bytes; prefix and key together may have " +
                                          std::to_string(max_key_size));
    }
    auto const prefix = o.key_prefix.view();
    // Nobody can type such a key, and a log does not show it: it is there by mistake.
    if (auto const at = std::find_if(prefix.begin(), prefix.end(), is_control);
        at != prefix.end()) {
        reject(errc::invalid_options, "key_prefix is " + quoted(prefix) +
                                          "; it has the control byte " +
                                          std::to_string(static_cast<unsigned char>(*at)) +
                                          " at offset " + std::to_string(at - prefix.begin()));
    }
    auto const label = o.holder_label.view();
    if (o.holder_label.too_long() || !std::all_of(label.begin(), label.end(), redis::fits_label)) {
        reject(errc::invalid_options, "holder_label is " + shown(o.holder_label) +
                                          "; it may have up to " + std::to_string(max_label_size) +
                                          " letters, digits, and any of . _ - @");
    }
    if (label.starts_with(redis::tombstone_start)) {
        reject(errc::invalid_options, "holder_label is " + shown(o.holder_label) +
                                          "; a label that begins with revoked@ is that of a "
                                          "revocation");
    }
    // https://redis.io/docs/latest/commands/client-setname/
    auto const printable = [](char c) { return c > ' ' && c <= '~'; };
    auto const name = o.connection_name.view();
    if (name.empty() || o.connection_name.too_long() ||
        !std::all_of(name.begin(), name.end(), printable)) {
        reject(errc::invalid_options, "connection_name is " + shown(o.connection_name) +
                                          "; it must have 1 to " +
                                          std::to_string(max_connection_name_size) +
                                          " bytes, and no spaces or special characters");
    }
}

void check(list_options const& o) {
    if (o.max_keys == 0 || o.max_keys > list_options::most_keys) {
        reject(errc::invalid_options, "max_keys is " + std::to_string(o.max_keys) +
                                          "; it must be 1 to " +
                                          std::to_string(list_options::most_keys));
    }
    check_range("time_limit", o.time_limit, std::chrono::milliseconds(1), std::chrono::hours(1));
}

void check_key(std::string_view prefix, std::string_view key) {
    if (key.empty()) reject(errc::invalid_key, "the key is empty");
    if (prefix.size() + key.size() > max_key_size) {
        reject(errc::invalid_key, "the key " + quoted(key) + " has, with its prefix, " +
                                      std::to_string(prefix.size() + key.size()) +
                                      " bytes; at most " + std::to_string(max_key_size) +
                                      " are possible");
    }
}

void check_keys(std::string_view prefix, std::span<std::string_view> keys,
                lock_options const& options) {
    if (keys.empty() || keys.size() > max_lock_keys) {
        reject(errc::invalid_key, "the lock has " + std::to_string(keys.size()) +
                                      " keys; it must have 1 to " + std::to_string(max_lock_keys));
    }
    for (auto const key : keys) check_key(prefix, key);
    std::sort(keys.begin(), keys.end());
    if (auto const twin = std::adjacent_find(keys.begin(), keys.end()); twin != keys.end())
        reject(errc::invalid_key, "the key " + quoted(*twin) + " is given twice");
    if (options.fair && keys.size() > 1)
        reject(errc::invalid_options, "fair is set, and a lock on several keys cannot be fair");
    // What the library keeps beside one of the keys is no key of a lock.
    std::string name;
    for (auto const key : keys) {
        auto const full = std::string(prefix).append(key);
        auto const rejects = [&](char const* use) {
            if (!name.starts_with(prefix)) return;
            auto const other = std::string_view(name).substr(prefix.size());
            if (!std::binary_search(keys.begin(), keys.end(), other)) return;
            reject(errc::invalid_key,
                   "the key " + quoted(other) + " is " + use + " of the key " + quoted(key));
        };
        redis::name_fence_key(name, full);
        rejects("the fence counter");
        redis::name_cluster_fence_key(name, full);
        rejects("the fence counter");
        for (auto const in_cluster : {false, true}) {
            redis::name_line(name, full, in_cluster);
            rejects("the line");
            redis::companion_names beside;
            redis::name_companions(beside, full, in_cluster);
            name = beside.readers;
            rejects("the set of the readers");
            name = beside.intent;
            rejects("the note of a writer");
            name = beside.turn;
            rejects("the turn of the readers");
            redis::permit_names of_permits;
            redis::name_permit_keys(of_permits, full, in_cluster);
            name = of_permits.until;
            rejects("the deadlines of the permits");
            name = of_permits.fences;
            rejects("the fence counters of the permits");
        }
    }
}

void check_interval(std::chrono::milliseconds interval) {
    // In milliseconds, a tenure has 31 bits for a ttl.
    check_range("interval", interval, std::chrono::seconds(1), std::chrono::hours(24 * 24));
}

void check_ttl(std::chrono::milliseconds ttl, std::chrono::milliseconds max_ttl) {
    check_range("ttl", ttl, min_ttl, max_ttl);
}

void check(lease_token const& token, lock_access access) {
    if (token.value.empty() || token.value.size() > max_token_size) {
        reject(errc::invalid_options, "the token has " + std::to_string(token.value.size()) +
                                          " bytes, outside 1 to " + std::to_string(max_token_size));
    }
    if (token.fence != 0 && !protocol::is_fence_count(protocol::number_of(token.fence))) {
        reject(errc::invalid_options,
               "no lease has the fence " + std::to_string(token.fence) + " of the token");
    }
    if (token.shared && access != lock_access::read) {
        reject(errc::invalid_options,
               "the token is that of a shared reader, and the lock is no read_write_lock::read()");
    }
    if (access == lock_access::permit && !token.slot)
        reject(errc::invalid_options, "the token has no slot, and the lock is a semaphore");
    if (access != lock_access::permit && token.slot) {
        reject(errc::invalid_options, "the token has the slot " + std::to_string(*token.slot) +
                                          ", and the lock is no semaphore");
    }
    if (token.slot && *token.slot >= max_permits) {
        reject(errc::invalid_options,
               "no lease has the slot " + std::to_string(*token.slot) + " of the token");
    }
}

void check(lock_options const& options, std::chrono::milliseconds max_ttl) {
    using namespace std::chrono_literals;
    check_ttl(options.ttl, max_ttl);
    check_range("max_retry_delay", options.max_retry_delay, 1ms, 60s);
    if (options.max_hold != 0ms) check_range("max_hold", options.max_hold, min_ttl, 366 * 24h);
    auto const longest_margin =
        options.max_hold == 0ms ? options.ttl / 3 : std::min(options.ttl / 3, options.max_hold / 2);
    if (options.cancel_margin >= 0ms)
        check_range("cancel_margin", options.cancel_margin, 0ms, longest_margin);
    check_range("handover_time", options.handover_time, 0ms, 60s);
    check_range("yield_to_pollers", options.yield_to_pollers, 0ms, 60s);
    if (options.fair && options.yield_to_pollers != 0ms) {
        reject(errc::invalid_options,
               "fair and yield_to_pollers exclude each other: yield_to_pollers is " +
                   std::to_string(options.yield_to_pollers.count()) + " ms");
    }
    if (options.handover_limit == 0 || options.handover_limit > max_handover_limit) {
        reject(errc::invalid_options, "handover_limit is " +
                                          std::to_string(options.handover_limit) +
                                          ", outside 1 to " + std::to_string(max_handover_limit));
    }
}

} // namespace holdfast::detail
