// A tenure in production: the protocol's machine, its token, and its place in time.
#ifndef HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP
#define HOLDFAST_RUNTIME_ACTIVE_TENURE_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/reply_handler.hpp"
#include "redis/token.hpp"
#include "runtime/timer_queue.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <array>
#include <chrono>
#include <cstdint>

namespace holdfast::runtime {

class active_queue;
class lease_record;
class operation;

using owed_hook = boost::intrusive::list_base_hook<>;

/// Lives from the first command of a try to the answer to the last release. Another use is for the
/// questions of a key's watch. The derived class leads answers and timers to the acquirer while it
/// is a try, and then to the keeper.
class active_tenure : public redis::reply_handler, public owed_hook, public timed {
public:
    virtual ~active_tenure() = default;

    bool still_wants(protocol::command) const noexcept final;

    // In an order that leaves no gaps: there is one of these for each lease.
    bool gives_back = false; ///< it is released because the holder did, and not in a shutdown
    redis::token token;
    protocol::tenure machine{1, {}, false};
    detail::lock_state_ptr lock;
    active_queue* queue = nullptr;     ///< of the try, or of the tenure
    lease_record* lease = nullptr;     ///< the one that is held
    operation* releaser = nullptr;     ///< completes when it has been released
    lease_clock::time_point counted{}; ///< when the counters of its fence were last written

    /// Answers that no instance will give, as it was not asked: they come in the next turn.
    struct {
        std::array<protocol::instance_set, protocol::commands> out_of_memory{};
        protocol::instance_set gone;              ///< raise: it was not connected
        std::uint32_t round = 0;                  ///< of the extension
        std::uint8_t releases = 0;                ///< how often a release was tried again
        boost::intrusive_ptr<active_tenure> self; ///< while there are such
    } owed;

protected:
    active_tenure() = default;
    /// The content of a command.
    redis::command_args describe(protocol::command,
                                 std::chrono::milliseconds fence_ttl) const noexcept;
};

using active_tenure_ptr = boost::intrusive_ptr<active_tenure>;
using owed_list = boost::intrusive::list<active_tenure, boost::intrusive::base_hook<owed_hook>,
                                         boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
