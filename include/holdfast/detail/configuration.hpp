// A type whose name spells out the version of Boost and the options of Asio of this translation
// unit. Functions that enter the compiled library take it as a parameter. So a program that was
// compiled with another configuration than the library does not link, and the linker prints the
// missing one. Such a program would crash: the options change the layout of types, and the code of
// inline functions that both contain.
//
// Some options change neither, so they are not part of the name: the form of Asio (header-only,
// separate, shared), its concurrency hints, and all that only adds or hides functions.
// BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING is not part of it either. The library holds no
// coroutine, so a sanitized program may use it with a library that was built without.
#ifndef HOLDFAST_DETAIL_CONFIGURATION_HPP
#define HOLDFAST_DETAIL_CONFIGURATION_HPP

#include <holdfast/detail/boost_version.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/version.hpp>

#include <type_traits>

#if !defined(BOOST_ASIO_HAS_THREADS)
#define HOLDFAST_THREADS threads_disabled
#elif defined(BOOST_ASIO_HAS_THREAD_KEYWORD_EXTENSION)
#define HOLDFAST_THREADS threads
#else
#define HOLDFAST_THREADS threads_without_thread_local
#endif

#if !defined(BOOST_ASIO_HAS_THREADS)
#define HOLDFAST_MUTEX no_mutex
#elif defined(BOOST_ASIO_HAS_FUTEX)
#define HOLDFAST_MUTEX futex
#elif defined(BOOST_ASIO_HAS_STD_ATOMIC_WAIT)
#define HOLDFAST_MUTEX atomic_wait
#else
#define HOLDFAST_MUTEX plain_mutex
#endif

#if defined(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)
#define HOLDFAST_TRACKING custom_handler_tracking
#elif defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
#define HOLDFAST_TRACKING handler_tracking
#else
#define HOLDFAST_TRACKING no_handler_tracking
#endif

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#define HOLDFAST_REACTOR io_uring_as_default
#elif defined(BOOST_ASIO_HAS_EPOLL) && defined(BOOST_ASIO_HAS_IO_URING)
#define HOLDFAST_REACTOR epoll_and_io_uring
#elif defined(BOOST_ASIO_HAS_EPOLL)
#define HOLDFAST_REACTOR epoll
#elif defined(BOOST_ASIO_HAS_KQUEUE)
#define HOLDFAST_REACTOR kqueue
#elif defined(BOOST_ASIO_HAS_DEV_POLL)
#define HOLDFAST_REACTOR dev_poll
#else
#define HOLDFAST_REACTOR select_reactor
#endif

#if defined(BOOST_ASIO_HAS_TIMERFD)
#define HOLDFAST_TIMERFD timerfd
#else
#define HOLDFAST_TIMERFD no_timerfd
#endif

#if defined(BOOST_ASIO_HAS_EVENTFD)
#define HOLDFAST_EVENTFD eventfd
#else
#define HOLDFAST_EVENTFD no_eventfd
#endif

#if defined(BOOST_ASIO_USE_TS_EXECUTOR_AS_DEFAULT)
#define HOLDFAST_EXECUTORS ts_executor_as_default
#elif defined(BOOST_ASIO_NO_TS_EXECUTORS)
#define HOLDFAST_EXECUTORS no_ts_executors
#else
#define HOLDFAST_EXECUTORS any_executor
#endif

#if defined(BOOST_ASIO_DISABLE_SMALL_BLOCK_RECYCLING)
#define HOLDFAST_RECYCLING no_small_block_recycling
#else
#define HOLDFAST_RECYCLING small_block_recycling
#endif

#if defined(BOOST_ASIO_HAS_STD_ALIGNED_ALLOC)
#define HOLDFAST_ALLOCATION aligned_alloc
#else
#define HOLDFAST_ALLOCATION no_aligned_alloc
#endif

#if defined(BOOST_ASIO_ENABLE_BUFFER_DEBUGGING)
#define HOLDFAST_BUFFERS buffer_debugging
#else
#define HOLDFAST_BUFFERS no_buffer_debugging
#endif

#if defined(BOOST_ASIO_NO_EXCEPTIONS)
#define HOLDFAST_EXCEPTIONS no_exceptions
#else
#define HOLDFAST_EXCEPTIONS exceptions
#endif

#if defined(BOOST_ASIO_NO_TYPEID)
#define HOLDFAST_TYPEID no_typeid
#else
#define HOLDFAST_TYPEID type_id
#endif

#define HOLDFAST_CONFIGURATION                                                                     \
    needs_a_holdfast_compiled_with::HOLDFAST_THREADS::HOLDFAST_MUTEX::HOLDFAST_TRACKING::          \
        HOLDFAST_REACTOR::HOLDFAST_TIMERFD::HOLDFAST_EVENTFD::HOLDFAST_EXECUTORS::                 \
            HOLDFAST_RECYCLING::HOLDFAST_ALLOCATION::HOLDFAST_BUFFERS::HOLDFAST_EXCEPTIONS::       \
                HOLDFAST_TYPEID

namespace holdfast::detail {

enum boost_version : int {
};
enum recycling_allocator_cache_size : int {
};

} // namespace holdfast::detail

namespace holdfast::detail::HOLDFAST_CONFIGURATION {

template <boost_version, recycling_allocator_cache_size>
struct configuration {};

} // namespace holdfast::detail::HOLDFAST_CONFIGURATION

namespace holdfast::detail {

/// Empty: as a parameter it takes neither a register nor the stack.
using configuration =
    HOLDFAST_CONFIGURATION::configuration<boost_version(BOOST_VERSION),
                                          recycling_allocator_cache_size(
                                              BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE)>;
static_assert(std::is_empty_v<configuration> && std::is_trivially_copyable_v<configuration>);

} // namespace holdfast::detail

#undef HOLDFAST_THREADS
#undef HOLDFAST_MUTEX
#undef HOLDFAST_TRACKING
#undef HOLDFAST_REACTOR
#undef HOLDFAST_TIMERFD
#undef HOLDFAST_EVENTFD
#undef HOLDFAST_EXECUTORS
#undef HOLDFAST_RECYCLING
#undef HOLDFAST_ALLOCATION
#undef HOLDFAST_BUFFERS
#undef HOLDFAST_EXCEPTIONS
#undef HOLDFAST_TYPEID
#undef HOLDFAST_CONFIGURATION

#endif
