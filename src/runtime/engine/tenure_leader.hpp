// Leads each tenure from its first command to its last: the acquirer handles its events during the
// try, and the lease keeper once the try is won. This file alone decides between the two. It also
// takes the winner of a try to its lease, and a queue from the keeper back to the acquirer.
#ifndef HOLDFAST_RUNTIME_TENURE_LEADER_HPP
#define HOLDFAST_RUNTIME_TENURE_LEADER_HPP

#include <holdfast/clock.hpp>

#include "runtime/acquire/acquirer.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/tenure_driver.hpp"
#include "runtime/keys/key_watcher.hpp"
#include "runtime/lease/lease_keeper.hpp"
#include "runtime/services/services.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace holdfast::runtime {

/// Makes the tenures, which pass it their answers and timers. Its neighbours need not exist yet
/// when it is made.
///
/// @par Thread safety  On the executor alone.
class tenure_leader final : public tenure_factory {
public:
    tenure_leader(services const& s, tenure_driver& tenures, acquirer& a, lease_keeper& k,
                  key_watcher& w, std::chrono::milliseconds fence_ttl)
        : services_(s)
        , tenures_(tenures)
        , acquirer_(a)
        , keeper_(k)
        , watcher_(w)
        , fence_ttl_(fence_ttl) {}

    void on_answer(active_tenure&, unsigned instance, protocol::command, std::uint32_t round,
                   redis::answer const&);
    void on_time(active_tenure&, lease_clock::time_point now);
    /// Gives the acquire a lease of a tenure of readers that has others.
    void share(active_tenure&, operation&);
    /// Settles the queue that the keeper has returned, if there is one.
    void settle(active_queue* q) {
        if (q != nullptr) acquirer_.settle(*q, services_.turn.time());
    }
    /// True if the answer belongs to a try, or to a question about the state of a key. So it is for
    /// the acquirer. All other answers are for the lease keeper.
    static bool is_of_try(active_tenure const&, protocol::command);
    static bool may_have_written(active_tenure const&, protocol::command, protocol::verdict);

    // tenure_factory
    active_tenure* make_tenure(void* room) override;
    std::size_t tenure_size() const noexcept override;

private:
    class led_tenure;

    void on_won(active_tenure&);
    bool give_lease(active_tenure&, operation&);

    services const services_;
    tenure_driver& tenures_;
    acquirer& acquirer_;
    lease_keeper& keeper_;
    key_watcher& watcher_;
    std::chrono::milliseconds const fence_ttl_;
};

} // namespace holdfast::runtime

#endif
