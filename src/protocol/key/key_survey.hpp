// The answers of all instances about a key, for calls that need no lease: is it locked, and has its
// release or revocation succeeded?
#ifndef HOLDFAST_PROTOCOL_KEY_SURVEY_HPP
#define HOLDFAST_PROTOCOL_KEY_SURVEY_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::protocol {

/// The answer of an instance.
struct key_finding {
    enum class kind : std::uint8_t {
        absent,
        present,
        stale,   ///< a lock that nobody can hold any more
        revoked, ///< the holder was revoked: nobody holds or gets the key here
        foreign, ///< something that is no lock
        unknown,
    };
    kind found = kind::unknown;
    /// present: identifies the owner. Empty: it could not be read. revoked: of the owner that was.
    std::string_view token{};
};

struct survey_result {
    enum class state : std::uint8_t {
        free,
        held,
        revoked,
        split,
        foreign,
        unknown,
    };
    state is = state::unknown;
    std::string_view token{}; ///< held: of the owner; revoked: of one that was

    friend bool operator==(survey_result const&, survey_result const&) = default;
};

/// Whether a key is locked. `all` has one answer for each configured instance. The answers come at
/// slightly different times, and a missing answer may be anything. So each state but `unknown`
/// holds whatever the missing instances would have said.
inline survey_result evaluate(std::span<key_finding const> all, unsigned quorum) {
    using kind = key_finding::kind;
    using state = survey_result::state;
    auto const count = [&](auto matches) {
        return static_cast<unsigned>(std::count_if(all.begin(), all.end(), matches));
    };
    auto const of_kind = [&](kind k) {
        return count([&](key_finding const& f) { return f.found == k; });
    };
    auto const absent = of_kind(kind::absent);
    if (absent >= quorum) return {.is = state::free};
    auto const revoked = of_kind(kind::revoked);
    if (revoked > all.size() - quorum) {
        auto const one = std::ranges::find(all, kind::revoked, &key_finding::found);
        return {.is = state::revoked, .token = one->token};
    }
    auto const foreign = of_kind(kind::foreign);
    if (foreign > all.size() - quorum) return {.is = state::foreign};
    // A token that could not be read may be any.
    auto const unread =
        count([](key_finding const& f) { return f.found == kind::present && f.token.empty(); });
    auto const missing = of_kind(kind::unknown);
    unsigned most = 0;
    for (auto const& f : all) {
        if (f.found != kind::present || f.token.empty()) continue;
        auto const same = count([&](key_finding const& other) {
            return other.found == kind::present && other.token == f.token;
        });
        if (same >= quorum) return {.is = state::held, .token = f.token};
        most = std::max(most, same);
    }
    auto const may_be_held = most + unread + missing >= quorum;
    auto const may_be_free = absent + missing >= quorum;
    auto const may_be_foreign = foreign + missing > all.size() - quorum;
    auto const may_be_revoked = revoked > 0 && revoked + missing > all.size() - quorum;
    auto const unclear = may_be_held || may_be_free || may_be_foreign || may_be_revoked;
    return {.is = unclear ? state::unknown : state::split};
}

/// The result of a release that compares and deletes.
enum class removal : std::uint8_t {
    done,        ///< deleted, and a quorum is known not to have the key with the token any more
    had_gone,    ///< a quorum does not have the key with the token, and no instance deleted it
    unconfirmed, ///< of too few instances it is known
};

/// `deleted`: the instances that had the key with the token. `without`: those that did not have it.
constexpr removal evaluate_removal(unsigned deleted, unsigned without, unsigned quorum) {
    if (deleted + without < quorum) return removal::unconfirmed;
    return deleted > 0 ? removal::done : removal::had_gone;
}

/// The result of a revocation. `revoked`: the instances that have the holder's tombstone.
/// `without`: those that have neither that nor the token.
///
/// Only tombstones keep a holder from a quorum for certain. An instance that lacks the key may get
/// it back, by a healing that is under way.
constexpr removal evaluate_revocation(unsigned revoked, unsigned without, unsigned configured,
                                      unsigned quorum) {
    if (revoked > configured - quorum) return removal::done;
    return without >= quorum ? removal::had_gone : removal::unconfirmed;
}

} // namespace holdfast::protocol

#endif
