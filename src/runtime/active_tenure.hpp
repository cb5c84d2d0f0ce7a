// A tenure in production: the protocol's machine, its token, and its timer.
#ifndef HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP
#define HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/reply_handler.hpp"
#include "redis/token.hpp"
#include "runtime/round_record.hpp"
#include "runtime/timer_queue.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

namespace holdfast::runtime {

class active_queue;
class lease_record;
class operation;

using owed_hook = boost::intrusive::list_base_hook<>;

/// In use from the first command of a try until the last release is answered. The watch of a key
/// uses a tenure too, for its questions. The derived class passes answers and timers to the
/// acquirer during a try, and then to the lease keeper.
class active_tenure : public redis::reply_handler, public owed_hook, public timed {
public:
    virtual ~active_tenure() = default;

    bool still_wants(protocol::command) const noexcept final;

    // Ordered so that there is no padding: each lease has a tenure.
    bool gives_back = false; ///< released because the holder gave the lease up
    /// During a try: the key has this token already, and extensions prove it. The key is another
    /// client's until the try is won, and is not released.
    bool adopts = false;
    redis::token token;
    /// Of the queue, while that is folded: a longer one counts as this.
    std::chrono::duration<std::uint32_t, std::nano> round_trip{};
    protocol::tenure machine{1, {}, false};
    detail::lock_state_ptr lock;
    active_queue* queue = nullptr;     ///< of the try, tenure or watch; null if it is folded
    lease_record* lease = nullptr;     ///< the lease that is held
    operation* releaser = nullptr;     ///< completes when the key has been released
    lease_clock::time_point counted{}; ///< when the instances' counters were last written
    lease_clock::time_point asked{};   ///< when the extension or the release began
    /// The answers of the instances that did not extend or release. Made with the first of them.
    std::unique_ptr<round_record> failures;

    /// Answers to commands that were not sent. The driver gives these answers in the next turn.
    struct {
        std::array<protocol::instance_set, protocol::commands> out_of_memory{};
        protocol::instance_set gone;              ///< raise: these were not reachable
        std::uint32_t round = 0;                  ///< of the extension or the watch
        std::uint8_t releases = 0;                ///< how often a release was tried again
        boost::intrusive_ptr<active_tenure> self; ///< while there are owed answers
    } owed;

protected:
    active_tenure() = default;
    /// The arguments of a command.
    redis::command_args describe(protocol::command,
                                 std::chrono::milliseconds fence_ttl) const noexcept;
};

using active_tenure_ptr = boost::intrusive_ptr<active_tenure>;
using owed_list = boost::intrusive::list<active_tenure, boost::intrusive::base_hook<owed_hook>,
                                         boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
