// A wait queue in production: the protocol's machine, its try or tenure, and the answers to its
// last round.
#ifndef HOLDFAST_RUNTIME_ACTIVE_QUEUE_HPP
#define HOLDFAST_RUNTIME_ACTIVE_QUEUE_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/waiting/wait_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/waiting_line.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/round_record.hpp"
#include "runtime/services/timer_queue.hpp"

#include <boost/intrusive/list.hpp>

#include <cstddef>
#include <string_view>

namespace holdfast::runtime {

using waiting_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// The derived class settles the queue when its timer runs.
class active_queue : public waiting_hook, public timed {
public:
    std::string_view key() const { return lock->key(); }
    operation& front() { return static_cast<operation&>(machine.front()); }
    /// Called when the try or tenure is over, or goes on without the queue.
    void detach() {
        if (!tenure) return;
        tenure->queue = nullptr;
        tenure.reset();
    }

    // Ordered so that there is no padding: each key that is waited for has a queue.
    bool asks_all = false; ///< the try asks all instances, not the arbiter alone
    bool of_set = false;   ///< its lock is one on several keys
    /// These may have a note that a writer of this process waits.
    protocol::instance_set noted;
    protocol::wait_queue machine;
    detail::lock_state_ptr lock;   ///< one of the locks on the key
    detail::lock_state_ptr noting; ///< of such a writer
    std::size_t hash = 0;
    active_tenure_ptr tenure;
    /// Of readers, when the queue went on without it. They may have ended since.
    active_tenure_ptr parted;
    active_tenure_ptr tracking;      ///< asks about the key, and does not acquire it
    lease_clock::time_point asked{}; ///< start of the last round
    round_record round;
    waiting_line::place in_line; ///< of a fair lock

    bool exact() const noexcept final { return true; }

protected:
    ~active_queue() = default;
};

using waiting_list = boost::intrusive::list<active_queue, boost::intrusive::base_hook<waiting_hook>,
                                            boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
