// Posts turns to the client's executor, from any thread, and without an allocation where possible.
#ifndef HOLDFAST_RUNTIME_TURN_EXECUTOR_HPP
#define HOLDFAST_RUNTIME_TURN_EXECUTOR_HPP

#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace holdfast::runtime {

namespace asio = boost::asio;

/// Posts one function at a time. On an io_context, and on the client's strand on an io_context,
/// this needs no allocation. A type-erased executor does not use our allocator, so posting to any
/// other executor may throw.
class turn_executor {
public:
    explicit turn_executor(asio::any_io_executor const& executor)
        : executor_(known(executor)) {}

    template <class Function>
    void post(Function function) {
        std::visit(
            [&](auto const& to) {
                asio::prefer(asio::require(to, asio::execution::blocking.never),
                             asio::execution::relationship.fork,
                             asio::execution::allocator(redis::reserving_allocator<void>(memory_)))
                    .execute(std::move(function));
            },
            *executor_);
    }

    /// Called when the execution context is being destroyed. Drops the executor.
    void abandon() noexcept { executor_.reset(); }

private:
    using plain = asio::io_context::executor_type;
    using stranded = asio::strand<plain>;
    using any_known = std::variant<plain, stranded, asio::any_io_executor>;

    static any_known known(asio::any_io_executor const& executor) {
        if (auto const* const e = executor.target<plain>()) return *e;
        if (auto const* const e = executor.target<stranded>()) return *e;
        return executor;
    }

    std::shared_ptr<redis::reserved_memory> const memory_ =
        std::make_shared<redis::reserved_memory>();
    std::optional<any_known> executor_;
};

} // namespace holdfast::runtime

#endif
