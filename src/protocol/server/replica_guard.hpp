// Decides whether a grant counts, where enough replicas must have it (client_options::replicas).
//
// A replica that is promoted must have each grant that counted. The client ends a batch of grants
// with WAIT, and the answer is the number of replicas that have the writes of the connection. WAIT
// does not report which replicas, so the client must wait for as many as may be promoted.
//
// After a WAIT that reported too few, the server is not asked for votes until it lists enough
// replicas that have acknowledged all of its writes so far. A batch with a WAIT that fails blocks
// the connection for the whole timeout, so the server checks find that out without one.
#ifndef HOLDFAST_PROTOCOL_REPLICA_GUARD_HPP
#define HOLDFAST_PROTOCOL_REPLICA_GUARD_HPP

#include "protocol/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace holdfast::protocol {

/// True if the answer yes to this command counts only if the replicas have the write. The others
/// write nothing that a client relies on.
constexpr bool needs_replicas(command c) {
    switch (c) {
    case command::acquire:
    case command::contend:
    case command::extend:
    case command::heal:
    case command::raise:
    case command::revoke: // a primary that lacks it would let the holder go on
        return true;
    case command::release:
    case command::inspect:
    case command::track:
    case command::survey:
    case command::scan:
        break;
    }
    return false;
}

/// A primary's list of its replicas.
struct replica_list {
    std::uint64_t offset = 0; ///< of the primary: the bytes that it has written so far
    /// The offset that each replica has acknowledged last. Replicas in a full resync are left out.
    std::vector<std::uint64_t> acknowledged{};
};

/// The right rules. Tests break them one at a time.
struct replica_rules {
    static constexpr bool covers(unsigned confirmed, unsigned needed) {
        return confirmed >= needed;
    }
    /// After a WAIT that reported too few, a replica counts when it has all writes of then.
    static constexpr bool caught_up(std::uint64_t acknowledged, std::uint64_t then) {
        return acknowledged >= then;
    }
    /// All: a replica that the server has listed is needed as long as the connection lasts.
    static constexpr unsigned all_of(unsigned before, unsigned now) {
        return std::max(before, now);
    }
};

template <class Rules>
class basic_replica_guard {
public:
    static constexpr unsigned all = std::numeric_limits<unsigned>::max();

    enum class state : std::uint8_t {
        votes,
        unlisted, ///< all are needed, and the server does not report how many there are
        few,      ///< the server lists too few
        behind,   ///< a WAIT reported too few, and they have not caught up yet
        refused,  ///< the server refuses WAIT
    };

    /// `wanted`: the number of replicas; zero switches the guard off.
    explicit basic_replica_guard(unsigned wanted)
        : wanted_(wanted)
        , needed_(wanted == all ? 1 : wanted) {}

    bool on() const { return wanted_ != 0; }
    /// Whether the server may be asked for votes.
    bool votes() const { return state_ == state::votes; }
    state current() const { return state_; }
    /// How many replicas must have a grant.
    unsigned needed() const { return needed_; }
    /// How many replicas are there, as far as the last answer shows.
    unsigned present() const { return present_; }

    /// A new connection: the replicas are counted anew. `list` is empty if the server does not
    /// report.
    void connected(std::optional<replica_list> const& list) {
        if (!on()) return;
        if (wanted_ == all) needed_ = 1;
        behind_ = unlisted_ = false;
        present_ = 0;
        listed(list);
    }
    /// The server has answered a server check. The answer must have been read after that of any
    /// WAIT before it, because the offset in it must include the writes of that WAIT.
    void listed(std::optional<replica_list> const& list) {
        if (!on()) return;
        unlisted_ = !list;
        if (list) {
            take(*list);
        } else {
            // The next WAIT will show.
            behind_ = false;
            present_ = needed_;
        }
        evaluate();
    }
    /// The server's answer to WAIT. `grants`: grants waited for it; without one, WAIT may have
    /// waited for nothing. True if the grants count.
    bool waited(unsigned confirmed, bool grants) {
        refused_ = false;
        if (wanted_ == all) needed_ = Rules::all_of(needed_, confirmed);
        auto const enough = Rules::covers(confirmed, needed_);
        if (enough && !grants) {
            evaluate();
            return true;
        }
        present_ = confirmed;
        behind_ = !enough;
        then_ = unknown;
        evaluate();
        return enough;
    }
    /// The server refuses WAIT, or does not any more.
    void refuses(bool does) {
        refused_ = does;
        evaluate();
    }

private:
    void take(replica_list const& list) {
        auto const online = static_cast<unsigned>(list.acknowledged.size());
        if (wanted_ == all) needed_ = Rules::all_of(needed_, online);
        present_ = online;
        if (!behind_) return;
        then_ = std::min(then_, list.offset);
        present_ = static_cast<unsigned>(
            std::count_if(list.acknowledged.begin(), list.acknowledged.end(),
                          [&](std::uint64_t its) { return Rules::caught_up(its, then_); }));
        behind_ = present_ < needed_;
    }
    void evaluate() {
        state_ = refused_                      ? state::refused
                 : unlisted_ && wanted_ == all ? state::unlisted
                 : behind_                     ? state::behind
                 : on() && present_ < needed_  ? state::few
                                               : state::votes;
    }

    static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

    unsigned wanted_, needed_;
    unsigned present_ = 0;
    state state_ = state::votes;
    bool refused_ = false, unlisted_ = false, behind_ = false;
    /// The server's offset when it was first found to be behind. Offsets only grow.
    std::uint64_t then_ = unknown;
};

using replica_guard = basic_replica_guard<replica_rules>;

} // namespace holdfast::protocol

#endif
