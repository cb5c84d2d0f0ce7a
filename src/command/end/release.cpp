#include "command/end/release.hpp"

#include <holdfast/client.hpp>

#include "command/end/decision.hpp"
#include "command/exit_code.hpp"
#include "command/key_call.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::command {

namespace {

//
// With a token
//

int release_by_token(release_settings const& s) {
    auto const token = s.token.read();
    if (token.shared) {
        throw std::runtime_error("other readers share the one of the token, and would lose the "
                                 "lock; it goes with its ttl");
    }
    auto const all = ask_each(s, s.keys, [&](client& c, std::string const& key, auto handler) {
        auto report = [h = std::move(handler)](error e) mutable { h(std::move(e), {}); };
        if (s.access == lock_access::exclusive)
            return c.release(key, token.value, std::move(report));
        c.release(s.make_lock(c, {}), token.value, std::move(report));
    });
    int code = success;
    std::vector<std::string> lost;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const& how = all[i].how;
        if (!how) {
            std::cout << "released " << printable(s.keys[i]) << '\n';
        } else if (how == errc::lease_lost) {
            lost.push_back(s.keys[i]);
        } else {
            std::cerr << "holdfast: too few instances confirmed the release: " << how.what()
                      << '\n';
            code = undetermined;
        }
    }
    return lost.empty() ? code : std::max(code, explain_loss(s, lost, "released"));
}

//
// By force
//

/// Force is for one key: a person looks at each.
std::string const& key_of(release_settings const& s) {
    return s.keys.front();
}

constexpr std::string_view consequences = R"(
A forced release does not ask the holder. A holder that lives works on until its next extension,
at most a third of its ttl later, or without a watchdog until its lease ends. Until then the next
holder may be at work, too. Only a resource that checks fences rejects the writes of the former.
All readers of a lock with readers lose it, and all holders of a permit theirs.
Make sure that the holder is dead, or cannot reach what the lock protects.

)";

void log(key_report const& r, std::string_view outcome) {
    log_decision("forced_release", r, r.digest, outcome);
}

int release_seen(release_settings const& s, key_report const& seen) {
    auto const r = ask(
        s, [&](client& c, auto handler) { c.force_release(key_of(s), seen, std::move(handler)); });
    if (!r.how) {
        auto const freed = r.report.state != key_state::free;
        log(seen, freed ? "released" : "was_free");
        std::cout << (freed ? "released " : "was free: ") << printable(key_of(s)) << '\n';
        return freed ? success : was_free;
    }
    if (r.how == errc::lease_lost) {
        log(seen, "had_gone");
        std::cerr << "holdfast: that lock had gone meanwhile; nothing was released\n";
        return r.report.state == key_state::free ? was_free : held_by_another;
    }
    log(seen, "unconfirmed");
    print(r.report, std::cout);
    std::cerr << "holdfast: too few instances confirmed the release: " << r.how.what() << '\n';
    return undetermined;
}

int release_by_force(release_settings const& s) {
    auto const seen = inspect_now(s, s.keys).front();
    print(seen, std::cout);
    std::cout << std::flush;
    if (seen.state == key_state::free) {
        std::cerr << "holdfast: the lock is free; there is nothing to release\n";
        return was_free;
    }
    if (seen.state == key_state::not_a_lock) {
        std::cerr << "holdfast: the key is no lock, and is not deleted\n";
        return held_by_another;
    }
    if (!s.confirmed) {
        if (!has_terminal()) {
            std::cerr << consequences
                      << "holdfast: there is no terminal to confirm this on; --yes confirms it\n";
            return not_confirmed;
        }
        std::cerr << consequences << "Type the key to release it: " << std::flush;
        if (!is_typed(key_of(s))) {
            std::cerr << "holdfast: not confirmed; nothing was released\n";
            return not_confirmed;
        }
    }
    return release_seen(s, seen);
}

} // namespace

int release(release_settings const& s) {
    return s.force ? release_by_force(s) : release_by_token(s);
}

} // namespace holdfast::command
