#include "command/end/revoke.hpp"

#include <holdfast/client.hpp>

#include "command/end/decision.hpp"
#include "command/exit_code.hpp"
#include "command/key_call.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::command {

namespace {

constexpr std::string_view effects = R"(
The holder is not asked. It learns of the loss at its next extension, at most a third of its ttl
later, or when its lease ends. The lock stays closed until then: nobody gets it before.

)";

/// The digest of the one reader or permit that was asked for. Empty: there is none. Those that a
/// quorum has come first.
std::string one_of(revoke_settings const& s, key_report const& seen) {
    auto const find = [&](auto const& in) -> std::string {
        for (auto const& user : in.readers)
            if (user.digest == s.reader) return user.digest;
        for (auto const& user : in.permits)
            if (s.slot && user.slot == s.slot) return user.digest;
        return {};
    };
    auto one = find(seen);
    for (auto i = seen.instances.begin(); one.empty() && i != seen.instances.end(); ++i)
        one = find(*i);
    return one;
}

/// The holder that is to be revoked: a digest, or all readers or permits.
std::string target_of(key_report const& seen, std::string const& one) {
    if (!one.empty()) return one;
    if (!seen.permits.empty()) return "permits";
    return seen.readers.empty() ? seen.digest : "readers";
}

call_result revoke_seen(revoke_settings const& s, key_report const& seen, std::string const& one) {
    return ask(s, [&](client& c, auto handler) {
        if (!one.empty()) return c.revoke(s.key, one, std::move(handler));
        c.revoke(seen, std::move(handler));
    });
}

/// How long the key stays closed for writers, or for all; of one permit, its slot. Empty if it
/// never expires, or if that is not known.
std::optional<std::chrono::milliseconds> closed_time(key_report const& after,
                                                     std::string const& one) {
    if (one.empty()) return after.ttl_left;
    for (auto const* const users : {&after.readers, &after.permits}) {
        auto const at = std::ranges::find(*users, one, &key_user::digest);
        if (at != users->end()) return at->ttl_left;
    }
    return std::nullopt;
}

std::string closed_for(key_report const& after, std::string const& one) {
    if (auto const left = closed_time(after, one)) return "closed for " + duration_text(*left);
    return "closed until somebody releases it by force, if it never expires";
}

int finish(revoke_settings const& s, key_report const& seen, std::string const& one,
           call_result const& r) {
    auto const log = [&](std::string_view outcome) {
        log_decision("revocation", seen, target_of(seen, one), outcome);
    };
    if (!r.how) {
        log("revoked");
        std::cout << "revoked " << printable(s.key) << ", " << closed_for(r.report, one) << '\n';
        return success;
    }
    if (r.how == errc::lease_lost) {
        log("had_gone");
        std::cerr << "holdfast: that holder had gone meanwhile; nothing was revoked\n";
        return r.report.state == key_state::free ? was_free : held_by_another;
    }
    log("unconfirmed");
    print(r.report, std::cout);
    std::cerr << "holdfast: too few instances confirmed the revocation, so the holder may go on. "
                 "Call it again: "
              << r.how.what() << '\n';
    return undetermined;
}

/// The exit code if there is nobody to revoke; else success.
int check(revoke_settings const& s, key_report const& seen, std::string const& one) {
    if (one.empty() && (s.slot || !s.reader.empty())) {
        std::cerr << (s.slot ? "holdfast: no permit has this slot\n"
                             : "holdfast: no reader has this digest\n");
        return seen.state == key_state::free ? was_free : held_by_another;
    }
    switch (seen.state) {
    case key_state::held:
    case key_state::revoked:
        return success;
    case key_state::free:
        std::cerr << "holdfast: the lock is free; there is nobody to revoke\n";
        return was_free;
    case key_state::not_a_lock:
        std::cerr << "holdfast: the key is no lock\n";
        return held_by_another;
    case key_state::split:
    case key_state::unknown:
        break;
    }
    if (!one.empty()) return success;
    std::cerr << "holdfast: the instances do not tell who holds the lock\n";
    return undetermined;
}

} // namespace

int revoke(revoke_settings const& s) {
    auto const seen = inspect_now(s, {s.key}).front();
    print(seen, std::cout);
    std::cout << std::flush;
    auto const one = one_of(s, seen);
    if (auto const code = check(s, seen, one); code != success) return code;
    if (!s.confirmed) {
        std::cerr << effects;
        if (!has_terminal()) {
            std::cerr << "holdfast: there is no terminal to confirm this on; --yes confirms it\n";
            return usage;
        }
        std::cerr << "Type the key to revoke its holder: " << std::flush;
        if (!is_typed(s.key)) {
            std::cerr << "holdfast: not confirmed; nothing was revoked\n";
            return not_confirmed;
        }
    }
    return finish(s, seen, one, revoke_seen(s, seen, one));
}

} // namespace holdfast::command
