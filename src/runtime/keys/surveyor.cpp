#include "runtime/keys/surveyor.hpp"

#include "protocol/key/key_survey.hpp"
#include "protocol/rules.hpp"
#include "protocol/tenure/fence.hpp"
#include "redis/wire/key_companions.hpp"
#include "redis/wire/token.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <openssl/sha.h>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace holdfast::runtime {

namespace {

std::string digest_of(std::string_view token) {
    constexpr std::size_t bytes = 8;
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
    SHA256(reinterpret_cast<unsigned char const*>(token.data()), token.size(), hash.data());
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) {
        text += digits[hash[i] / 16];
        text += digits[hash[i] % 16];
    }
    return text;
}

protocol::key_finding finding_of(key_answer const& a) {
    using kind = protocol::key_finding::kind;
    switch (a.found) {
    case key_answer::kind::absent:
        return {.found = kind::absent};
    case key_answer::kind::readers:
        if (a.reader_count == 0U) return {.found = kind::stale}; // all have expired
        [[fallthrough]];
    case key_answer::kind::permits:
        if (a.permit_count == 0U) return {.found = kind::stale};
        [[fallthrough]];
    case key_answer::kind::present:
        return {.found = kind::present, .token = a.digest};
    case key_answer::kind::not_a_lock:
        return {.found = kind::foreign};
    case key_answer::kind::unknown:
        break;
    }
    return {};
}

key_state state_of(protocol::survey_result::state s) {
    using state = protocol::survey_result::state;
    switch (s) {
    case state::free:
        return key_state::free;
    case state::held:
        return key_state::held;
    case state::split:
        return key_state::split;
    case state::foreign:
        return key_state::not_a_lock;
    case state::unknown:
        break;
    }
    return key_state::unknown;
}

bool has_key(key_answer const& a) {
    using kind = key_answer::kind;
    return a.found == kind::present || a.found == kind::readers || a.found == kind::permits;
}

/// The time after which no quorum of instances has the key: with the k-th of the times sorted, the
/// quorum loses a member that it needs.
std::optional<std::chrono::milliseconds> time_left(key_report const& r) {
    std::vector<std::chrono::milliseconds> known;
    for (auto const& i : r.instances) {
        if (!has_key(i) || i.digest != r.digest) continue;
        if (!i.ttl_known) return {};
        known.push_back(i.ttl_left.value_or(std::chrono::milliseconds::max()));
    }
    std::sort(known.begin(), known.end(), std::greater<>());
    auto const left = known[r.quorum - 1];
    if (left == std::chrono::milliseconds::max()) return {};
    return left;
}

bool lasts_longer(key_user const& a, key_user const& b) {
    return a.ttl_left > b.ttl_left;
}

using users = std::vector<key_user>;
using user_count = std::optional<std::uint64_t>;

/// The readers, or the permits, that a quorum has. Each may have a quorum of its own. A token that
/// has different slots counts for each of them.
users users_of(key_report const& r, users key_answer::*which) {
    users all;
    for (auto const& i : r.instances) all.insert(all.end(), (i.*which).begin(), (i.*which).end());
    auto const name = [](key_user const& u) { return std::tie(u.digest, u.slot); };
    std::ranges::stable_sort(all, [&](key_user const& a, key_user const& b) {
        return name(a) != name(b) ? name(a) < name(b) : lasts_longer(a, b);
    });
    users found;
    for (auto at = all.begin(); at != all.end();) {
        auto const end =
            std::find_if(at, all.end(), [&](auto const& u) { return name(u) != name(*at); });
        auto const count = static_cast<std::size_t>(end - at);
        if (count >= r.quorum) {
            auto& user = found.emplace_back(at[r.quorum - 1]);
            // The shortest of all comes last. Some servers may not tell their time.
            if (!std::prev(end)->ttl_left) user.ttl_left.reset();
        }
        at = end;
    }
    return found;
}

users readers_of(key_report const& r) {
    auto found = users_of(r, &key_answer::readers);
    std::ranges::stable_sort(found, lasts_longer);
    if (found.size() > key_answer::max_readers) found.resize(key_answer::max_readers);
    return found;
}

users permits_of(key_report const& r) {
    auto found = users_of(r, &key_answer::permits);
    std::ranges::stable_sort(found, {}, &key_user::slot);
    if (found.size() > key_answer::max_readers) found.resize(key_answer::max_readers);
    return found;
}

/// How many readers, or permits, a quorum has, if `shown` of them are known.
user_count count_of(key_report const& r, key_answer::kind kind, users key_answer::*which,
                    user_count key_answer::*of, std::size_t shown) {
    std::vector<std::uint64_t> counts;
    auto all_shown = true;
    for (auto const& i : r.instances) {
        if (i.found != kind) continue;
        all_shown = all_shown && i.*of == (i.*which).size();
        if ((i.*of).value_or(0) > 0) counts.push_back(*(i.*of));
    }
    if (all_shown) return shown;
    std::sort(counts.begin(), counts.end(), std::greater<>());
    if (counts.size() < r.quorum) return {};
    return std::max<std::uint64_t>(counts[r.quorum - 1], shown);
}

/// The writer that most instances name.
std::optional<key_user> writer_of(key_report const& r) {
    std::optional<key_user> found;
    std::ptrdiff_t most = 0;
    for (auto const& i : r.instances) {
        if (!i.writer) continue;
        auto const same = std::ranges::count_if(r.instances, [&](key_answer const& other) {
            return other.writer && other.writer->holder == i.writer->holder;
        });
        if (same > most || (same == most && lasts_longer(*i.writer, *found))) found = i.writer;
        most = std::max(most, same);
    }
    return found;
}

/// Readers, writers and permits that a caller of wait_change() is to hear of. Of more readers or
/// permits than are shown, only the count.
bool same_users(key_answer const& a, key_answer const& b) {
    auto const names = [](users const& of) {
        std::vector<std::pair<std::string, std::optional<unsigned>>> all;
        for (auto const& user : of) all.emplace_back(user.digest, user.slot);
        std::ranges::sort(all);
        return all;
    };
    auto const names_writer = [](key_answer const& of) {
        return of.writer ? std::optional(of.writer->holder) : std::nullopt;
    };
    auto const same = [&](users key_answer::*which, user_count key_answer::*of) {
        auto const shown = a.*of == (a.*which).size() && b.*of == (b.*which).size();
        return a.*of == b.*of && (!shown || names(a.*which) == names(b.*which));
    };
    return same(&key_answer::readers, &key_answer::reader_count) &&
           same(&key_answer::permits, &key_answer::permit_count) &&
           names_writer(a) == names_writer(b);
}

/// The time that a tenure's number stands for, unless that is in the future.
std::optional<std::chrono::system_clock::time_point> time_of(std::uint64_t fence) {
    using namespace std::chrono;
    auto const number = fence / protocol::leases_per_number;
    auto const since =
        system_clock::time_point(milliseconds(number / protocol::numbers_per_millisecond));
    if (number == 0 || since > system_clock::now()) return {};
    return since;
}

} // namespace

void evaluate(key_report& r) {
    std::vector<protocol::key_finding> findings;
    for (auto const& i : r.instances) {
        findings.push_back(finding_of(i));
        r.fence = std::max(r.fence, i.fence);
    }
    r.writer = writer_of(r);
    auto const result = protocol::evaluate(findings, r.quorum);
    r.state = state_of(result.is);
    if (r.state != key_state::held) return;
    r.digest = result.token;
    auto const holder = std::ranges::find(r.instances, r.digest, &key_answer::digest);
    if (holder->found == key_answer::kind::permits) {
        r.permits = permits_of(r);
        r.permit_count = count_of(r, key_answer::kind::permits, &key_answer::permits,
                                  &key_answer::permit_count, r.permits.size());
        // No permit has a quorum, so nobody holds one.
        if (r.permit_count == 0U) {
            r.state = key_state::split;
            r.digest.clear();
            r.permit_count.reset();
            return;
        }
    }
    r.holder = holder->holder;
    r.ttl_left = time_left(r);
    if (holder->found == key_answer::kind::readers) {
        r.readers = readers_of(r);
        r.reader_count = count_of(r, key_answer::kind::readers, &key_answer::readers,
                                  &key_answer::reader_count, r.readers.size());
    } else if (holder->found == key_answer::kind::present) {
        r.since = time_of(r.fence); // readers do not count
    }
}

bool shows_change(key_report const& last, key_report const& now) {
    auto const same = [](key_answer const& a, key_answer const& b) {
        return a.found == b.found && a.digest == b.digest && a.fence == b.fence && same_users(a, b);
    };
    return last.key != now.key || last.state != now.state ||
           !std::ranges::equal(last.instances, now.instances, same);
}

key_report surveyor::begin(std::string_view key) {
    key_report r;
    r.key = key;
    r.quorum = protocol::redlock_rules::quorum(size(), 0);
    r.instances.resize(size());
    auto const all = instances_.snapshots({}, key);
    for (unsigned i = 0; i < size(); ++i) {
        r.instances[i].address = all[i].status.address;
        r.instances[i].message = all[i].status.message;
    }
    return r;
}

protocol::instance_set surveyor::ask(redis::reply_handler& asking, protocol::command c,
                                     protocol::instance_set to, std::uint32_t round) {
    protocol::instance_set failed;
    redis::reply_handler_ptr const alive(&asking);
    encoder_.start(c, asking);
    to.for_each([&](unsigned i) {
        if (!instances_[i].submit(encoder_, alive, round)) failed.insert(i);
    });
    return failed;
}

void surveyor::take(key_report& r, unsigned instance, redis::answer const& a,
                    lease_clock::time_point asked) {
    auto& to = r.instances[instance];
    auto filled = answer_of(instance, a, r.key, asked);
    filled.address = std::move(to.address);
    to = std::move(filled);
}

key_answer surveyor::answer_of(unsigned instance, redis::answer const& a, std::string const& key,
                               lease_clock::time_point asked) const {
    key_answer found;
    found.round_trip = turn_.time() - asked;
    found.message = a.message;
    if (a.cause == errc::wrong_type) {
        found.found = key_answer::kind::not_a_lock;
        return found;
    }
    if (a.verdict != protocol::verdict::yes) {
        if (found.message.empty())
            found.message = a.cause != errc{} ? make_error_code(a.cause).message() : "no answer";
        return found;
    }
    if (protocol::is_fence_count(a.number)) found.fence = protocol::fence_of(a.number, 0);
    if (a.beside != nullptr) note_waits(found, *a.beside);
    if (a.present) {
        found.found = key_answer::kind::present;
        found.ttl_known = a.ttl_known;
        found.ttl_left = a.ttl_left;
        if (!a.value) return found;
        found.digest = digest_of(*a.value);
        found.holder = name_of(key, *a.value);
        if (a.beside != nullptr && a.beside->has_readers) note_readers(found, *a.beside, key);
        if (a.beside != nullptr && a.beside->has_permits) note_permits(found, *a.beside, key);
    } else if (instances_[instance].may_grant()) {
        found.found = key_answer::kind::absent;
    } else {
        // It may have forgotten the key.
        found.message = "no key, which does not count: " + instances_[instance].reason_message();
    }
    return found;
}

/// For reports.
std::string surveyor::name_of(std::string const& key, std::string_view token) const {
    return acquirer_.has_token(key, token) ? std::string("this client")
                                           : std::string(redis::label_of(token));
}

void surveyor::note_waits(key_answer& to, redis::key_companions const& from) const {
    if (!from.intent.empty()) {
        auto const own = from.intent == random_.client_name();
        to.writer = {.digest = {},
                     .holder = own ? std::string("this client")
                                   : std::string(redis::label_of(from.intent)),
                     .ttl_left = from.intent_left};
    }
    if (from.turn.empty()) return;
    to.turn = from.turn == "open" ? readers_turn::open : readers_turn::wait;
    to.turn_left = from.turn_left;
}

void surveyor::note_readers(key_answer& to, redis::key_companions const& from,
                            std::string const& key) const {
    to.found = key_answer::kind::readers;
    for (auto const& each : from.readers) {
        to.readers.push_back({.digest = digest_of(each.token),
                              .holder = name_of(key, each.token),
                              .ttl_left = each.left});
    }
    if (from.has_set) to.reader_count = from.reader_count;
    to.message = from.problem;
}

void surveyor::note_permits(key_answer& to, redis::key_companions const& from,
                            std::string const& key) const {
    to.found = key_answer::kind::permits;
    for (auto const& each : from.permits) {
        to.permits.push_back({.digest = digest_of(each.token),
                              .holder = acquirer_.has_permit(key, each.token)
                                            ? std::string("this client")
                                            : std::string(redis::label_of(each.token)),
                              .ttl_left = each.left,
                              .slot = each.slot});
    }
    to.permit_count = from.permit_count;
    to.fence = 0;
    to.message = from.problem;
}

} // namespace holdfast::runtime
