// A tenure in production: the protocol's machine, its token, its place in time, and who waits for it.
#ifndef HOLDFAST_RUNTIME_HOLDING_HPP
#define HOLDFAST_RUNTIME_HOLDING_HPP

#include <holdfast/detail/lease_core.hpp>

#include "protocol/tenure.hpp"
#include "redis/exchange.hpp"
#include "runtime/deadline_queue.hpp"
#include "runtime/operation.hpp"
#include "runtime/token_source.hpp"

#include <boost/intrusive/list.hpp>

namespace holdfast::runtime {

class engine;

class holding final : public redis::exchange,
                      public timed,
                      public detail::lease_core,
                      public boost::intrusive::list_base_hook<> {
public:
    enum class end : std::uint8_t {
        none,
        lost,
        released
    };

    explicit holding(engine& e)
        : engine_(e) {}

    redis::subject about() const noexcept override {
        return {.key = lock->key, .token = {token_.data(), token_.size()}, .ttl = lock->options.ttl};
    }
    void on_answer(unsigned instance, protocol::command, std::uint32_t round, redis::answer const&) override;
    void on_time(lease_clock::time_point now) override;

    engine& engine_;
    protocol::tenure machine{1, {}, false};
    token token_{};
    end ended = end::none;
    operation* acquirer = nullptr;
    operation* releaser = nullptr;
    operation_list waiters;             ///< extend and lost
    redis::exchange_ptr kept_by_holder; ///< itself, for as long as somebody has its lease

private:
    void recycle() noexcept override;
};

using holding_ptr = boost::intrusive_ptr<holding>;
using holding_list = boost::intrusive::list<holding, boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
