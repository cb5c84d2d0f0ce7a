#include "runtime/engine/tenure_leader.hpp"

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>

#include "runtime/lease/lease_record.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <new>

namespace holdfast::runtime {

using protocol::command;
using protocol::verdict;
using phase = protocol::tenure_phase;

class tenure_leader::led_tenure final : public active_tenure {
public:
    explicit led_tenure(tenure_leader& l)
        : leader_(l) {}

    redis::command_args arguments(command c) const noexcept override {
        auto all = describe(c, leader_.fence_ttl_, leader_.services_.random);
        // A release that carries the client's name withdraws its note.
        auto const writes = c == command::release && lock->access() == lock_access::write;
        if (writes && leader_.acquirer_.has_writers(lock->key())) all.intent = {};
        return all;
    }

    void on_answer(unsigned instance, command c, std::uint32_t round,
                   redis::answer const& a) override {
        leader_.services_.turn.run([&] {
            auto const writes = !protocol::only_reads(c);
            if ((writes && (a.verdict == verdict::yes || a.verdict == verdict::unknown)) ||
                may_have_written(*this, c, a.verdict)) {
                lock->for_each_key(
                    [&](std::string_view key) { leader_.watcher_.on_own_write(instance, key); });
            }
            leader_.on_answer(*this, instance, c, round, a);
        });
    }

    void on_time(lease_clock::time_point now) override { leader_.on_time(*this, now); }

private:
    void recycle() noexcept override { leader_.tenures_.recycle(*this); }

    tenure_leader& leader_;
};

//
// The decision
//

bool tenure_leader::is_of_try(active_tenure const& t, command c) {
    switch (c) {
    case command::inspect:
    case command::track:
        return true;
    case command::acquire:
    case command::contend:
    case command::raise:
        return t.queue != nullptr && t.queue->machine.trying();
    case command::extend:
        return t.adopts;
    case command::release:
    case command::heal:
    case command::survey: // of the calls on a key
    case command::revoke:
    case command::scan:
        break;
    }
    return false;
}

/// True if waiters of this process have to hear of the answer: the server does not push that.
bool tenure_leader::may_have_written(active_tenure const& t, command c, verdict v) {
    // Each command of a permit may drop those that have expired, and an extension may write the key
    // for which others of this process wait.
    if (t.is_permit() && !protocol::only_reads(c) && c != command::raise)
        return v == verdict::yes || v == verdict::no || v == verdict::other;
    // An extension by readers may write the key for which a writer of this process waits.
    if (v == verdict::yes)
        return c == command::release || (t.shared && (c == command::extend || c == command::heal));
    // A reader that was dead already may have been the last one, and a writer without the key may
    // have withdrawn a note.
    return v == verdict::no && c == command::release && t.lock->access() != lock_access::exclusive;
}

void tenure_leader::on_answer(active_tenure& t, unsigned instance, command c, std::uint32_t round,
                              redis::answer const& a) {
    if (is_of_try(t, c)) {
        if (acquirer_.on_answer(t, instance, c, round, a)) on_won(t);
        return;
    }
    auto const tried = c == command::acquire || c == command::contend;
    // Otherwise a release follows in any case.
    auto const without_vote = a.verdict != verdict::yes && a.verdict != verdict::unknown;
    if (tried && without_vote) acquirer_.on_late_refusal(t, instance);
    auto* const concerned = keeper_.on_answer(t, instance, c, round, a);
    if (may_have_written(t, c, a.verdict))
        t.lock->for_each_key(
            [&](std::string_view key) { acquirer_.on_own_release(instance, key); });
    settle(concerned);
}

void tenure_leader::on_time(active_tenure& t, lease_clock::time_point now) {
    auto const phase_now = t.machine.phase();
    if (phase_now == phase::acquiring || phase_now == phase::over) return acquirer_.on_time(t, now);
    settle(keeper_.on_time(t, now));
}

void tenure_leader::on_won(active_tenure& t) {
    auto& q = *t.queue;
    active_tenure_ptr const alive(&t);
    auto& op = acquirer_.take_winner(t);
    auto const adopted = static_cast<bool>(op.adopts);
    auto* const others = acquirer_.rejoin(t, op);
    auto& serving = others != nullptr ? *others : t;
    auto const served = give_lease(serving, op);
    while (auto* const next = served ? acquirer_.take_sharer(serving) : nullptr)
        (void)give_lease(serving, *next);
    if (served || others != nullptr) settle(&q);
    if (served && others == nullptr) return;
    // An adopted key may still be of use to its first holder.
    settle(adopted ? keeper_.leave_key(t) : keeper_.give_back(t));
}

/// False: the acquire has failed, because there is no memory.
bool tenure_leader::give_lease(active_tenure& t, operation& op) {
    auto* const l = keeper_.new_lease(t);
    if (l == nullptr) {
        if (t.lease != nullptr) t.sharing.leave(); // it has joined others
        return acquirer_.fail(op, errc::out_of_memory), false;
    }
    keeper_.grant(op, t, *l);
    return true;
}

void tenure_leader::share(active_tenure& t, operation& op) {
    (void)give_lease(t, op);
}

//
// tenure_factory
//

active_tenure* tenure_leader::make_tenure(void* room) {
    return ::new (room) led_tenure(*this);
}

std::size_t tenure_leader::tenure_size() const noexcept {
    // A process may hold a million leases: doc/internals/memory.md.
    static_assert(sizeof(void*) != 8 || (sizeof(led_tenure) <= 328 && sizeof(lease_record) <= 96 &&
                                         sizeof(detail::lock_state) <= 16));
    return sizeof(led_tenure);
}

} // namespace holdfast::runtime
