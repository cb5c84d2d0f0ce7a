// A tenure in production: the protocol's machine, its token, and its place in time.
#ifndef HOLDFAST_RUNTIME_HOLDING_HPP
#define HOLDFAST_RUNTIME_HOLDING_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure.hpp"
#include "redis/exchange.hpp"
#include "redis/token.hpp"
#include "runtime/deadline_queue.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <array>
#include <cstdint>

namespace holdfast::runtime {

class engine;
class key_queue;
class lease_state;
class operation;

using owed_hook = boost::intrusive::list_base_hook<>;

class holding final : public redis::exchange, public timed, public owed_hook {
public:
    explicit holding(engine& e)
        : engine_(e) {}

    redis::subject about(protocol::command) const noexcept override;
    bool still_wants(protocol::command) const noexcept override;
    void on_answer(unsigned instance, protocol::command, std::uint32_t round,
                   redis::answer const&) override;
    void on_time(lease_clock::time_point now) override;

    engine& engine_;
    protocol::tenure machine{1, {}, false};
    redis::token token;
    detail::lock_state_ptr lock;
    key_queue* queue = nullptr;        ///< whose try it is, or whose tenure
    lease_state* lease = nullptr;      ///< the one that is held
    operation* releaser = nullptr;     ///< who wants to know when it has been released
    lease_clock::time_point counted{}; ///< when the counters of its fence were last written
    bool gives_back = false; ///< it is released because the holder did, and not in a shutdown

    /// Answers that no instance will give, as it was not asked: they come in the next turn.
    struct {
        std::array<protocol::instance_set, protocol::commands> out_of_memory{};
        protocol::instance_set gone;        ///< raise: it was not connected
        std::uint32_t round = 0;            ///< of the extension
        std::uint8_t releases = 0;          ///< how often a release was tried again
        boost::intrusive_ptr<holding> self; ///< while there are such
    } owed;

private:
    void recycle() noexcept override;
};

using holding_ptr = boost::intrusive_ptr<holding>;
using owed_list = boost::intrusive::list<holding, boost::intrusive::base_hook<owed_hook>,
                                         boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
