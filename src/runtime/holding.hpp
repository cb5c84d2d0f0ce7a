// A tenure in production: the protocol's machine, its token, and its place in time.
#ifndef HOLDFAST_RUNTIME_HOLDING_HPP
#define HOLDFAST_RUNTIME_HOLDING_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/tenure.hpp"
#include "redis/exchange.hpp"
#include "redis/token.hpp"
#include "runtime/deadline_queue.hpp"

namespace holdfast::runtime {

class engine;
class key_queue;
class lease_state;
class operation;

class holding final : public redis::exchange, public timed {
public:
    explicit holding(engine& e)
        : engine_(e) {}

    redis::subject about(protocol::command) const noexcept override;
    bool still_wants(protocol::command) const noexcept override;
    void on_answer(unsigned instance, protocol::command, std::uint32_t round, redis::answer const&) override;
    void on_time(lease_clock::time_point now) override;

    engine& engine_;
    protocol::tenure machine{1, {}, false};
    redis::token token;
    detail::lock_state_ptr lock;
    key_queue* queue = nullptr;        ///< whose try it is, or whose tenure
    lease_state* lease = nullptr;      ///< the one that is held
    operation* releaser = nullptr;     ///< who wants to know when it has been released
    lease_clock::time_point counted{}; ///< when the counters of its fence were last written
    bool gives_back = false;           ///< it is released because the holder did, and not in a shutdown

private:
    void recycle() noexcept override;
};

using holding_ptr = boost::intrusive_ptr<holding>;

} // namespace holdfast::runtime

#endif
