#include "command/end/revoke.hpp"

#include <holdfast/client.hpp>

#include "command/end/decision.hpp"
#include "command/exit_code.hpp"
#include "command/key_call.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::command {

namespace {

constexpr std::string_view effects = R"(
The holder is not asked. It learns of the loss at its next extension, at most a third of its ttl
later, or when its lease ends. The lock stays closed until then: nobody gets it before.

)";

/// The holder that is to be revoked: a digest, or "readers".
std::string target_of(revoke_settings const& s, key_report const& seen) {
    if (!s.reader.empty()) return s.reader;
    return seen.readers.empty() ? seen.digest : "readers";
}

bool has_reader(revoke_settings const& s, key_report const& seen) {
    return std::ranges::any_of(seen.instances, [&](key_answer const& i) {
        return std::ranges::find(i.readers, s.reader, &key_user::digest) != i.readers.end();
    });
}

call_result revoke_seen(revoke_settings const& s, key_report const& seen) {
    return ask(s, [&](client& c, auto handler) {
        if (!s.reader.empty()) return c.revoke(s.key, s.reader, std::move(handler));
        c.revoke(seen, std::move(handler));
    });
}

/// How long the key stays closed for writers, or for all.
std::string closed_for(revoke_settings const& s, key_report const& after) {
    auto const reader = std::ranges::find(after.readers, s.reader, &key_user::digest);
    auto const left = s.reader.empty()                ? after.ttl_left
                      : reader != after.readers.end() ? reader->ttl_left
                                                      : std::nullopt;
    if (left) return "closed for " + duration_text(*left);
    return "closed until somebody releases it by force, if it never expires";
}

int finish(revoke_settings const& s, key_report const& seen, call_result const& r) {
    auto const log = [&](std::string_view outcome) {
        log_decision("revocation", seen, target_of(s, seen), outcome);
    };
    if (!r.how) {
        log("revoked");
        std::cout << "revoked " << printable(s.key) << ", " << closed_for(s, r.report) << '\n';
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
int check(revoke_settings const& s, key_report const& seen) {
    if (!s.reader.empty() && !has_reader(s, seen)) {
        std::cerr << "holdfast: no reader has this digest\n";
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
    if (!s.reader.empty()) return success;
    std::cerr << "holdfast: the instances do not tell who holds the lock\n";
    return undetermined;
}

} // namespace

int revoke(revoke_settings const& s) {
    auto const seen = inspect_now(s, {s.key}).front();
    print(seen, std::cout);
    std::cout << std::flush;
    if (auto const code = check(s, seen); code != success) return code;
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
    return finish(s, seen, revoke_seen(s, seen));
}

} // namespace holdfast::command
