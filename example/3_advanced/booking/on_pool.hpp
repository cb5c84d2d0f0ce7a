// Runs a function that blocks on a thread pool, and resumes the coroutine on its own executor.
#ifndef BOOKING_ON_POOL_HPP
#define BOOKING_ON_POOL_HPP

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace booking {

/// Has no cancellation: a statement that was begun is awaited, so its outcome is known. `function`
/// lives until then, as it is a variable of the caller.
template <class Function>
auto on_pool(boost::asio::thread_pool& pool, Function& function) {
    namespace asio = boost::asio;
    using result = std::invoke_result_t<Function&>;
    auto start = [](auto handler, asio::thread_pool* on, Function* call) {
        // The work keeps the context of the coroutine running meanwhile.
        auto work = asio::make_work_guard(handler);
        asio::post(*on, [handler = std::move(handler), work = std::move(work), call]() mutable {
            std::exception_ptr error;
            result value{};
            try {
                value = (*call)();
            } catch (...) {
                error = std::current_exception();
            }
            auto const executor = work.get_executor();
            // Moved, so that this thread does not own a part of the exception any more.
            asio::dispatch(executor, [handler = std::move(handler), error = std::move(error),
                                      value = std::move(value)]() mutable {
                std::move(handler)(std::move(error), std::move(value));
            });
        });
    };
    return asio::async_initiate<asio::deferred_t const, void(std::exception_ptr, result)>(
        start, asio::deferred, &pool, &function);
}

} // namespace booking

#endif
