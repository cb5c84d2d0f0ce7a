// How a turn gets onto the client's executor: from any thread, and without memory to be had for it.
#ifndef HOLDFAST_RUNTIME_TURN_EXECUTOR_HPP
#define HOLDFAST_RUNTIME_TURN_EXECUTOR_HPP

#include "redis/reserved_memory.hpp"

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

/// Posts one function at a time. On an io_context, and on a strand of ours on one, that needs no
/// allocation. An erased executor takes no allocator from us, so posting to any other may throw.
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

    /// The execution context is being destroyed: nothing of it is kept.
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
