#ifndef HOLDFAST_DETAIL_COMPLETION_HPP
#define HOLDFAST_DETAIL_COMPLETION_HPP

#include <holdfast/detail/boost_version.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/require.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

namespace asio = boost::asio;

/// How the client calls a handler.
struct delivery {
    /// The client's, for handlers that have no other.
    asio::any_io_executor const* executor = nullptr;
    /// Not null: the call comes from the thread of this context, and from outside of any call of
    /// the user. So a handler whose executor is this context's may run at once.
    asio::io_context const* in_place = nullptr;
};

/// A handler with its arguments, on the handler's executor.
template <class Handler, class... Args>
struct bound_completion {
    using allocator_type = asio::associated_allocator_t<Handler>;
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(handler);
    }

    void operator()() {
        // The cancellation signal belongs to the caller. The slot is cleared here, where the caller
        // may use it, and before the handler can connect it to another operation.
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) slot.clear();
        std::apply([this](Args&... a) { std::move(handler)(std::move(a)...); }, args);
    }

    Handler handler;
    std::tuple<Args...> args;
};

/// Whether functions can be sent to this executor. An inline executor runs them inside the call,
/// and no handler of ours may run there.
template <class Executor>
constexpr bool can_defer =
    std::is_same_v<Executor, asio::any_io_executor> ||
    asio::can_require<Executor const&, asio::execution::blocking_t::never_t>::value;

/// Sent instead of a completion whose executor runs it inside the call. It brings the completion to
/// a place outside.
template <class Executor, class Bound>
struct inline_completion {
    using allocator_type = typename Bound::allocator_type;
    allocator_type get_allocator() const noexcept { return bound.get_allocator(); }
    void operator()() { executor.execute(std::move(bound)); }

    Executor executor;
    Bound bound;
};

/// The most usual executor.
using plain_executor = asio::io_context::executor_type;
using tracked_plain_executor =
    std::decay_t<asio::prefer_result<plain_executor const&,
                                     asio::execution::outstanding_work_t::tracked_t>::type>;

/// Sends a function to an executor. An erased executor erases the function too, at the price of an
/// allocation. So it is worth a check whether the executor is the most usual one.
template <class Known, class Executor, class Function>
void send_to(Executor const& executor, Function&& function) {
    if constexpr (std::is_same_v<Executor, asio::any_io_executor>) {
        if (auto const* const known = executor.template target<Known>())
            return asio::defer(*known, std::forward<Function>(function));
    }
    asio::defer(executor, std::forward<Function>(function));
}

/// Makes the memory of a handler large enough for the completion that follows it. That is an
/// operation of Asio: a few pointers, and the handler with its arguments. With Asio's recycling
/// allocator, on an io_context, the completion takes the memory of the handler, and cannot run out
/// of it. A handler that is never sent needs no such room.
template <class... Args>
struct completion_room {
    completion_room() noexcept {}
    completion_room(completion_room const&) noexcept {}

    std::array<std::byte, sizeof(std::tuple<Args...>) + 4 * sizeof(void*)> bytes;
};

/// Takes the place of a handler in the library, and has its cancellation slot and allocator.
template <class Handler>
class handler_stand_in {
public:
    using cancellation_slot_type = asio::associated_cancellation_slot_t<Handler>;
    using allocator_type = asio::associated_allocator_t<Handler, asio::recycling_allocator<void>>;
    cancellation_slot_type get_cancellation_slot() const noexcept {
        return asio::get_associated_cancellation_slot(handler_);
    }
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(handler_, asio::recycling_allocator<void>());
    }

protected:
    explicit handler_stand_in(Handler handler)
        : handler_(std::move(handler)) {}

    Handler handler_;
};

/// Takes the place of a handler whose executor is the client's. It keeps neither the executor nor
/// the context at work. The client does both until all its handlers were called.
///
/// Without a completion_room: for handlers that are always called in place, which needs no memory.
/// Only in the child of a fork are they sent.
template <class Handler, class... Args>
class local_handler : public handler_stand_in<Handler> {
public:
    explicit local_handler(Handler handler)
        : handler_stand_in<Handler>(std::move(handler)) {}

    void operator()(delivery how, Args... args) {
        bound_completion<Handler, Args...> bound{std::move(this->handler_), {std::move(args)...}};
        if (how.in_place != nullptr) return bound();
        send_to<plain_executor>(*how.executor, std::move(bound));
    }
};

/// The same, for handlers that may be sent.
template <class Handler, class... Args>
class roomy_local_handler : public local_handler<Handler, Args...> {
public:
    using local_handler<Handler, Args...>::local_handler;

private:
    completion_room<Args...> room_;
};

/// Takes the place of a handler with an executor of its own. Called on the client's executor, it
/// sends the handler to the handler's executor, or runs it in place where the delivery allows that.
/// It keeps the context of the handler's executor at work until then. It is made before the handler
/// is erased, because asking an erased handler for its executor allocates. `Args` are the arguments
/// of the later call.
template <class Handler, class... Args>
class deferring_handler : public handler_stand_in<Handler> {
public:
    deferring_handler(Handler handler, asio::any_io_executor const& fallback)
        : handler_stand_in<Handler>(std::move(handler))
        , executor_(asio::prefer(destination(this->handler_, fallback),
                                 asio::execution::outstanding_work.tracked)) {}

    void operator()(delivery how, Args... args) {
        auto const executor = std::move(executor_);
        if constexpr (can_defer<own_executor>) {
            completion bound{std::move(this->handler_), {std::move(args)...}};
            auto const* const own = context_of(executor);
            if (own != nullptr && own == how.in_place) return bound();
            send_to<tracked_plain_executor>(executor, std::move(bound));
        } else {
            auto own = asio::get_associated_executor(this->handler_, asio::any_io_executor());
            send_to<tracked_plain_executor>(
                executor, inline_completion<own_executor, completion>{
                              std::move(own), {std::move(this->handler_), {std::move(args)...}}});
        }
    }

private:
    using completion = bound_completion<Handler, Args...>;
    using own_executor = asio::associated_executor_t<Handler, asio::any_io_executor>;
    using executor_type =
        std::conditional_t<can_defer<own_executor>, own_executor, asio::any_io_executor>;
    using tracked_executor = std::decay_t<typename asio::prefer_result<
        executor_type const&, asio::execution::outstanding_work_t::tracked_t>::type>;

    static executor_type destination(Handler const& handler,
                                     asio::any_io_executor const& fallback) {
        if constexpr (can_defer<own_executor>) {
            return asio::get_associated_executor(handler, fallback);
        } else {
            return fallback;
        }
    }

    static asio::io_context const* context_of(tracked_executor const& executor) {
        if constexpr (std::is_same_v<tracked_executor, asio::any_io_executor>) {
            auto const* const known = executor.template target<tracked_plain_executor>();
            return known != nullptr ? &known->context() : nullptr;
        } else if constexpr (std::is_same_v<tracked_executor, tracked_plain_executor>) {
            return &executor.context();
        } else {
            return nullptr;
        }
    }

    tracked_executor executor_;
    completion_room<Args...> room_;
};

/// True if the handler's executor is the client's.
template <class Handler>
bool is_local(Handler const& handler, asio::any_io_executor const& client) {
    auto const own = asio::get_associated_executor(handler, client);
    using own_executor = std::decay_t<decltype(own)>;
    if constexpr (std::is_same_v<own_executor, asio::any_io_executor>) {
        return own == client;
    } else if constexpr (std::is_same_v<own_executor, plain_executor>) {
        auto const* const known = client.target<plain_executor>();
        return known != nullptr && *known == own;
    } else {
        return false;
    }
}

/// Completes a call on a client whose context has been destroyed, with a `Result` made of `args`.
/// The handler is sent to its own executor. Without one that takes functions there is no place to
/// call it, and it is destroyed.
template <class Result, class Given, class... Args>
void complete_without_client(Given&& given, Args... args) {
    using handler_type = std::decay_t<Given>;
    using own_executor = asio::associated_executor_t<handler_type, asio::any_io_executor>;
    if constexpr (can_defer<own_executor>) {
        own_executor const own = asio::get_associated_executor(given, asio::any_io_executor());
        if constexpr (std::is_same_v<own_executor, asio::any_io_executor>) {
            if (!own) return;
        }
        asio::defer(own, bound_completion<handler_type, Result>{std::forward<Given>(given),
                                                                Result(args...)});
    }
}

/// `in_place`: the client calls the handlers of its own executor in place.
template <class... Args, class Given>
asio::any_completion_handler<void(delivery, Args...)>
erased(Given&& handler, asio::any_io_executor const& client, bool in_place = false) {
    using own = std::decay_t<Given>;
    if (!is_local<own>(handler, client))
        return deferring_handler<own, Args...>(std::forward<Given>(handler), client);
    if (in_place) return local_handler<own, Args...>(std::forward<Given>(handler));
    return roomy_local_handler<own, Args...>(std::forward<Given>(handler));
}

} // namespace holdfast::detail

#endif
