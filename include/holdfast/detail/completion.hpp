#ifndef HOLDFAST_DETAIL_COMPLETION_HPP
#define HOLDFAST_DETAIL_COMPLETION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

namespace asio = boost::asio;

/// A handler and what it is called with, on the handler's executor.
template <class Handler, class... Args>
struct bound_completion {
    using allocator_type = asio::associated_allocator_t<Handler>;
    allocator_type get_allocator() const noexcept { return asio::get_associated_allocator(handler); }

    void operator()() {
        // The signal belongs to the caller: it is let go of where the caller may use it, and before the
        // handler can connect it to something else.
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) slot.clear();
        std::apply([this](Args&... a) { std::move(handler)(std::move(a)...); }, args);
    }

    Handler handler;
    std::tuple<Args...> args;
};

/// What the library is handed in a handler's place. Called on the client's executor, it sends the handler to
/// its own, and keeps that one's context at work until then. It is made before the handler is erased, because
/// asking an erased handler for its executor allocates. `Args` is what it will be called with.
template <class Handler, class... Args>
class deferring_handler {
public:
    using cancellation_slot_type = asio::associated_cancellation_slot_t<Handler>;
    using allocator_type = asio::associated_allocator_t<Handler, asio::recycling_allocator<void>>;
    cancellation_slot_type get_cancellation_slot() const noexcept {
        return asio::get_associated_cancellation_slot(handler_);
    }
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(handler_, asio::recycling_allocator<void>());
    }

    deferring_handler(Handler handler, asio::any_io_executor const& fallback)
        : executor_(asio::prefer(asio::get_associated_executor(handler, fallback),
                                 asio::execution::outstanding_work.tracked))
        , handler_(std::move(handler)) {}

    void operator()(Args... args) {
        auto const executor = std::move(executor_);
        send(executor, bound_completion<Handler, Args...>{std::move(handler_), {std::move(args)...}});
    }

private:
    using executor_type = asio::associated_executor_t<Handler, asio::any_io_executor>;
    using tracked_executor =
        std::decay_t<typename asio::prefer_result<executor_type const&,
                                                  asio::execution::outstanding_work_t::tracked_t>::type>;

    template <class Executor, class Bound>
    static void send(Executor const& executor, Bound&& bound) {
        if constexpr (std::is_same_v<Executor, asio::any_io_executor>) {
            // An erased executor erases the function too, at the price of an allocation; the most usual one
            // is worth a look.
            using usual =
                std::decay_t<asio::prefer_result<asio::io_context::executor_type const&,
                                                 asio::execution::outstanding_work_t::tracked_t>::type>;
            if (auto const* const known = executor.template target<usual>()) {
                return asio::defer(*known, std::forward<Bound>(bound));
            }
        }
        asio::defer(executor, std::forward<Bound>(bound));
    }

    tracked_executor executor_;
    Handler handler_;
    /// Makes the memory of this object large enough for the completion that follows it: the allocator hands
    /// it on, and an operation allocates once.
    std::array<std::byte, sizeof(std::tuple<Args...>)> room_;
};

} // namespace holdfast::detail

#endif
