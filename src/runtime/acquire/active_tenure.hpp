// A tenure in production: the protocol's machine, its token, and its timer.
#ifndef HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP
#define HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/sharers.hpp"
#include "protocol/tenure/tenure.hpp"
#include "redis/wire/reply_handler.hpp"
#include "redis/wire/token.hpp"
#include "runtime/services/round_record.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/token_source.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::runtime {

class active_queue;
class lease_record;
class operation;

class active_tenure;
using active_tenure_ptr = boost::intrusive_ptr<active_tenure>;

/// Answers to commands that were not sent. The driver gives these answers in the next turn. A
/// healing has no answer that anybody waits for. Of the other commands, only a release may be
/// outstanding together with one more: a later one makes the answers to an earlier one useless.
struct outstanding_answers {
    protocol::instance_set unsent;   ///< of `command`, because a link has failed
    protocol::instance_set releases; ///< the same, of releases
    protocol::instance_set gone;     ///< raise: these were not reachable
    std::uint32_t round = 0;         ///< of `command`
    protocol::command command{};
    bool listed = false; ///< in the driver's list
};

/// A lease that has a tenure together with others.
struct sharer {
    lease_record* lease;
    lease_clock::time_point since;
};

/// Read and changed on any thread.
class atomic_sharers {
public:
    void begin(protocol::sharers s) noexcept { now_.store(s); }
    /// False once a token was given out: it may be known to another process.
    bool open() const noexcept { return now_.load().open(); }
    /// One more lease. False if it may not join.
    [[nodiscard]] bool join() noexcept {
        auto now = now_.load();
        while (now.open())
            if (exchange(now, &protocol::sharers::join)) return true;
        return false;
    }
    void leave() noexcept { change(&protocol::sharers::leave); }
    /// A lease may be handed to another process. True if the reader is shared.
    bool hand_over() noexcept { return change(&protocol::sharers::hand_over).elsewhere(); }

private:
    using step = void (protocol::sharers::*)() noexcept;
    bool exchange(protocol::sharers& now, step how) noexcept {
        auto next = now;
        (next.*how)();
        if (!now_.compare_exchange_weak(now, next)) return false;
        now = next;
        return true;
    }
    protocol::sharers change(step how) noexcept {
        auto now = now_.load();
        while (!exchange(now, how)) {
        }
        return now;
    }

    std::atomic<protocol::sharers> now_{};
};

/// The parts that few tenures need. Made when they are first needed.
struct tenure_extras {
    round_record failures;       ///< the answers of the instances that did not extend or release
    std::string adopted_token;   ///< not changed as long as the tenure is in use
    std::vector<sharer> sharers; ///< of a tenure of readers
    // Of a permit that has been handed on, or adopted:
    unsigned handovers = 0; ///< its leases before the present one
    lease_clock::time_point won{};
    /// The label of the client that has revoked it, if an instance had the tombstone of the token
    /// in the last extension.
    std::optional<std::string> revoked_by;
    bool was_revoked = false; ///< a lease was lost by that: holders read the label on any thread
};

/// The kind of a lock on one key, as its access says.
redis::lock_kind const& kind_of(lock_access) noexcept;
/// How long the readers have the turn after a writer.
std::chrono::milliseconds readers_turn_after(protocol::duration round_trip);

/// In use from the first command of a try until the last release is answered. The tracking of
/// a key uses a tenure too, for its questions. The derived class passes answers and timers to the
/// acquirer during a try, and then to the lease keeper.
class active_tenure : public timed, public redis::reply_handler {
public:
    virtual ~active_tenure() = default;

    redis::lock_kind const& kind() const noexcept final;
    bool still_wants(protocol::command) const noexcept final;

    /// The tenure has its own token, or that of another client.
    void set_token(redis::token const& own) noexcept {
        token_ = own;
        has_adopted_token_ = false;
    }
    void adopt_token(std::string const& text) {
        extras().adopted_token = text;
        has_adopted_token_ = true;
    }
    redis::token const& own_token() const noexcept { return token_; }
    /// `label`: of this client. From any thread, while a lease has the tenure. The result may refer
    /// to the tenure.
    redis::token_text token_text(std::string_view label) const {
        if (has_adopted_token_) return redis::token_text(extras_->adopted_token);
        return token_.text(label);
    }

    /// The answers of the instances that did not extend or release.
    round_record& failures() { return extras().failures; }
    void clear_failures() noexcept {
        if (extras_) extras_->failures.instances.clear();
    }
    void note_revocation(std::string_view by) {
        auto& noted = extras().revoked_by;
        if (!noted) noted = by;
    }
    /// An extension has succeeded all the same.
    void forget_revocation() noexcept {
        if (is_revoked() && !extras_->was_revoked) extras_->revoked_by.reset();
    }
    /// The label does not change after that, as long as the tenure is in use.
    void end_by_revocation() noexcept { extras_->was_revoked = true; }
    bool is_revoked() const noexcept { return extras_ && extras_->revoked_by; }
    /// From any thread, after a lease of the tenure was lost by that.
    std::string_view revoked_by() const noexcept {
        return is_revoked() ? std::string_view(*extras_->revoked_by) : std::string_view();
    }
    /// The leases that share a tenure of readers. Each knows its place.
    std::vector<sharer>& sharers() { return extras().sharers; }
    /// Whether it is a permit. Once it is won, it goes on without its queue.
    bool is_permit() const noexcept { return lock->access() == lock_access::permit; }
    /// Whether it stands in the table of keys, by itself or by its queue.
    bool has_key() const noexcept { return !shared && !is_permit(); }
    /// Of a permit: how many leases it has served before the present one.
    unsigned handovers() const noexcept { return extras_ ? extras_->handovers : 0; }
    void set_handovers(unsigned n) { extras().handovers = n; }
    /// Of a permit: when it was won.
    lease_clock::time_point won() const noexcept {
        auto const known = extras_ && extras_->won != lease_clock::time_point();
        return known ? extras_->won : machine.lease_began();
    }
    /// The permit gets another lease.
    void hand_on() {
        auto& e = extras();
        e.won = won();
        ++e.handovers;
    }
    void note_round_trip(protocol::duration d) {
        using stored = decltype(round_trip);
        round_trip =
            std::chrono::duration_cast<stored>(std::min<protocol::duration>(d, stored::max()));
    }
    void drop_extras() noexcept {
        has_adopted_token_ = false;
        extras_.reset();
    }

    // Ordered so that there is little padding: each lease has a tenure. The bits are the
    // executor's.
    bool gives_back : 1 = false; ///< released because the holder gave the lease up
    /// During a try: the key has this token already, and extensions prove it. The key is another
    /// client's until the try is won, and is not released.
    bool adopts : 1 = false;
    bool fair : 1 = false; ///< its key is fair, whatever the lock of the present lease says
    /// Instances may have given its key the token of a lease on several keys. So it serves no other
    /// lease.
    bool converted : 1 = false;
    /// Of readers: it may have several leases, and goes on without its queue when the next try
    /// begins.
    bool shared : 1 = false;
    bool alone : 1 = false;      ///< shared: it has one lease at most
    bool leaves_key : 1 = false; ///< another process may have it, so the key is left to its ttl

private:
    bool has_adopted_token_ = false;

public:
    /// Of the queue, while that is folded: a longer one counts as this.
    std::chrono::duration<std::uint32_t, std::nano> round_trip{};
    atomic_sharers sharing;

private:
    redis::token token_;
    std::unique_ptr<tenure_extras> extras_;

    tenure_extras& extras() {
        if (!extras_) extras_ = std::make_unique<tenure_extras>();
        return *extras_;
    }

public:
    outstanding_answers outstanding;
    active_tenure_ptr next_outstanding; ///< the driver's list keeps its tenures in use
    protocol::tenure machine{1, {}, false};
    detail::lock_state_ptr lock;
    active_queue* queue = nullptr;     ///< of the try, tenure or tracking; null if it is folded
    lease_record* lease = nullptr;     ///< the lease that is held, or the first of its sharers
    operation* releaser = nullptr;     ///< completes when the key has been released
    lease_clock::time_point counted{}; ///< when the instances' counters were last written
    lease_clock::time_point asked{};   ///< when the extension or the release began

protected:
    active_tenure() = default;
    /// The arguments of a command.
    redis::command_args describe(protocol::command, std::chrono::milliseconds fence_ttl,
                                 token_source const&) const noexcept;

private:
    void describe_place(redis::command_args&) const noexcept;
    void describe_access(redis::command_args&, token_source const&) const noexcept;
    void describe_permit(redis::command_args&) const noexcept;
    void describe_set(redis::command_args&, protocol::command) const noexcept;
};

} // namespace holdfast::runtime

#endif
